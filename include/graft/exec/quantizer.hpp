// Runs a float network on pictures, observes what its values range over, and rewrites it for eight bits.
#pragma once

#include "../passes/quantize_network.hpp"
#include "../passes/to_float32.hpp"
#include "session.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// How a network is quantised.
struct quantize_options {
    calibration_method method = calibration_method::minmax;
    double percentile = 99.99;     ///< in percent, of the values that a range by percentile keeps
    dtype weights = dtype::uint8;  ///< or int8: see quantize_network
    shape input;                   ///< of a batch; asked for where a network of halves or doubles leaves more open than the batch
    load_options load;             ///< how the network runs while its values are observed
    session_options session;
};

/// Quantises a network: `make`, `observe` batches, `finish`. It holds a session and the histograms of all values.
///
///     auto q = graft::quantizer::make(graft::load("net.onnx")->graph());
///     for (const graft::tensor& batch : batches) GRAFT_TRY(q->observe(batch));
///     auto network = q->finish();
class quantizer {
public:
    /// `g` is what `model::graph` gives. One of float16, bfloat16 or double becomes the float32 network that it stands for, and is given batches of float32.
    /// Errors: input.shape (see quantize_options::input), those of `prepare_to_quantize`, `to_float32` and `load`.
    static result<quantizer> make(graph g, const quantize_options& options = {});
    /// Runs the network on one batch and sees what its values are. Errors: quantize.range (not finite), those of a run.
    status observe(const tensor& batch);
    /// The nodes that can be quantised, by name.
    std::vector<std::string> nodes() const { return quantizable_nodes(float_); }
    /// The quantised network, the nodes of `keep` in float; it may be called again with others. Errors: those of `quantize_network`, quantize.range
    /// (nothing has been observed).
    result<graph> finish(const std::vector<std::string>& keep = {});
    /// The same with weights in float32, as `quantize_to_learn` has it.
    result<graph> finish_to_learn(const std::vector<std::string>& keep = {});
    /// The float32 network as it was made ready: its batch normalisation folded.
    const graph& prepared() const noexcept { return float_; }
    /// The other floating type that the network was of; undefined: none.
    dtype converted() const noexcept { return converted_; }

private:
    status take_ranges();
    quantizer(graph g, const model& m, const quantize_options& options) : float_(std::move(g)), session_(m, options.session), weights_(options.weights) {}

    graph float_;
    session session_;
    dtype weights_, converted_ = dtype::undefined;
    std::vector<value_id> watched_;
    std::vector<std::size_t> outputs_;  // by watched value: its place among the outputs
    std::vector<range_observer> observers_;
    std::vector<value_range> ranges_;  // by value; empty before `finish`
    bool seen_ = false;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../passes/graph_queries.hpp"

#include <algorithm>
#include <utility>

GRAFT_BEGIN_NAMESPACE

namespace detail {
// A network of other floating types as the float32 one that it stands for; `was`: the type.
inline result<graph> float32_to_quantize(graph g, const quantize_options& options, dtype& was) {
    const bool other = std::any_of(g.values.begin(), g.values.end(), [](const value& v) { return is_half_or_double(v.type); });
    const value* const input = only_input(g);
    if (!other || !input) return g;
    shape batch = options.input;
    if (batch.rank() == 0 && input->has_shape) {
        batch = input->extents;
        if (batch.rank() > 0 && batch[0] < 0) batch[0] = 1;
    }
    if (batch.rank() == 0 || !batch.known())
        return fail(errc::input_shape, input->name,
                    "the network is of halves or doubles and leaves extents of its input open: quantize_options::input has to say the shape of a batch");
    executor serial;
    float32_changes changes;
    graph made;
    GRAFT_TRY_ASSIGN(made, to_float32(g, batch, serial, options.load.limits, changes));
    if (changes.dequantized) return g;  // it is quantised already, which is told of the given one
    was = changes.converted;
    return made;
}

}  // namespace detail

GRAFT_INLINE result<quantizer> quantizer::make(graph g, const quantize_options& options) GRAFT_MEMORY_TRY {
    dtype was = dtype::undefined;
    GRAFT_TRY_ASSIGN(g, detail::float32_to_quantize(std::move(g), options, was));
    GRAFT_TRY_ASSIGN(g, prepare_to_quantize(std::move(g)));
    std::vector<value_id> wanted;
    GRAFT_TRY_ASSIGN(wanted, values_to_observe(g));
    graph watched = g;
    std::vector<std::size_t> places;
    for (value_id id : wanted) {
        const auto at = std::find(watched.outputs.begin(), watched.outputs.end(), id);
        places.push_back(static_cast<std::size_t>(at - watched.outputs.begin()));
        if (at == watched.outputs.end()) watched.outputs.push_back(id);
    }
    load_options how = options.load;
    how.open_batch = false;
    model m;
    GRAFT_TRY_ASSIGN(m, graft::load(std::move(watched), how));
    quantizer made(std::move(g), m, options);
    made.converted_ = was;
    made.watched_ = std::move(wanted);
    made.outputs_ = std::move(places);
    made.observers_.assign(made.watched_.size(), range_observer(options.method, options.percentile));
    return made;
}
GRAFT_MEMORY_CATCH("quantizer::make")

GRAFT_INLINE status quantizer::observe(const tensor& batch) GRAFT_MEMORY_TRY {
    auto first = session_.run(batch);
    if (!first.ok()) return first.take_status();
    for (std::size_t i = 0; i < watched_.size(); ++i) {
        const bool input = std::find(float_.inputs.begin(), float_.inputs.end(), watched_[i]) != float_.inputs.end();
        const tensor& seen = input ? batch : session_.output(outputs_[i]);
        if (seen.type() != dtype::float32) continue;
        GRAFT_TRY(observers_[i].observe(seen.data<float>(), seen.elements(), float_.at(watched_[i]).name));
    }
    seen_ = true;
    ranges_.clear();
    return {};
}
GRAFT_MEMORY_CATCH("quantizer::observe")

GRAFT_INLINE status quantizer::take_ranges() GRAFT_MEMORY_TRY {
    if (!seen_) return fail(errc::quantize_range, "quantizer", "nothing has been observed: give it batches before it is finished");
    if (!ranges_.empty()) return {};
    ranges_.assign(float_.values.size(), value_range());
    for (std::size_t i = 0; i < watched_.size(); ++i) ranges_[watched_[i]] = observers_[i].range();
    // ONNX Runtime's softmax of codes (QLinearSoftmax) multiplies exponentials, whose sum may be e^-5 of the largest float, by the steps of one: where rows are
    // so uniform that the largest number is under 1.72 times the mean, that is infinite, and all become 0. The range of such rows is wider than they are.
    for (const node& n : float_.nodes) {
        const auto watched = std::find(watched_.begin(), watched_.end(), n.outputs[0]);
        if (ops::row_of(n).traits.role != op_role::softmax || watched == watched_.end()) continue;
        const shape& s = session_.output(outputs_[static_cast<std::size_t>(watched - watched_.begin())]).shape();
        const attribute* const a = n.find("axis");
        const std::int64_t axis = a ? a->integer : -1, extent = s.rank() ? s[static_cast<int>(axis < 0 ? axis + s.rank() : axis)] : 0;
        value_range& range = ranges_[n.outputs[0]];
        if (extent > 0 && range.known()) range.high = std::max(range.high, 2.0f / static_cast<float>(extent));
    }
    return {};
}
GRAFT_MEMORY_CATCH("quantizer::finish")

GRAFT_INLINE result<graph> quantizer::finish(const std::vector<std::string>& keep) {
    GRAFT_TRY(take_ranges());
    return quantize_network(float_, ranges_, keep, weights_);
}
GRAFT_INLINE result<graph> quantizer::finish_to_learn(const std::vector<std::string>& keep) {
    GRAFT_TRY(take_ranges());
    return quantize_to_learn(float_, ranges_, keep, weights_);
}

GRAFT_END_NAMESPACE
#endif
