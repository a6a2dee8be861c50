// How a network is made ready for eight bits, and rewritten.
#include "fold_batch_norm.hpp"
#include "raise_opset.hpp"
#include "store_quantized.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline eight_bits integers_of(const node& n) { return ops::row_of(n).traits.integers; }
inline bool computes(const node& n) { return integers_of(n) == eight_bits::multiplies || integers_of(n) == eight_bits::computes; }
inline bool cuts_range(const node& n) { return integers_of(n) == eight_bits::cuts_range; }
// Whether what it makes are numbers of its first input, and so have their scale.
inline bool keeps_scale(const node& n) {
    const op_row& row = ops::row_of(n);
    return row.traits.integers == eight_bits::stays_float && row.moves_numbers() && row.traits.moves != motion::join;
}

class network_quantizer {
public:
    // Without ranges it only notes which values would have to be known.
    network_quantizer(const graph& from, const std::vector<value_range>* ranges, const std::vector<std::string>& keep, dtype weights = dtype::uint8)
        : g_(from), ranges_(ranges), keep_(keep), weights_(weights), write_(g_, "quantize"), count_(readers_of(from)),
          stands_for_(from.values.size(), no_value), number_of_(from.values.size(), -1), coming_(from.values.size(), 0) {}

    result<graph> run() {
        std::vector<node> all = std::move(g_.nodes);
        g_.nodes.clear();
        std::vector<std::vector<const node*>> read_by(number_of_.size());
        for (const node& n : all)
            for (value_id id : n.inputs)
                if (id != no_value) read_by[id].push_back(&n);
        for (node& n : all) {
            const bool tail = is_tail(n), now = !tail && takes(n);
            const bool moves = !now && !tail && keeps_scale(n) && stands_for_of(n.inputs[0]) != no_value && usable(n.outputs[0]);
            const std::vector<value_id> parts(n.outputs.begin(), ops::row_of(n).traits.moves == motion::part ? n.outputs.end() : n.outputs.begin() + 1);
            const std::int64_t columns = columns_of(n);
            const value_id out = n.outputs[0], in = n.inputs.empty() ? no_value : n.inputs[0];
            if (now) {
                ++done_;
                quantize_inputs(n);
            }
            for (value_id& id : n.inputs)
                if (stands_for_of(id) != no_value) id = stands_for_[id];
            g_.nodes.push_back(std::move(n));
            if (moves) {
                // Files that chain such nodes keep one scale from end to end.
                for (value_id id : parts)
                    if (usable(id)) number_of_[id] = number_of_[in], pair_up(id);
            } else if (now || tail) {
                const node* const reader = count_[out] == 1 && read_by[out].size() == 1 ? read_by[out][0] : nullptr;
                coming_[out] = now && columns ? columns : -1;
                if (!reader || !is_tail(*reader) || !usable(reader->outputs[0])) coming_[out] = 0, pair_up(out);
            }
        }
        GRAFT_TRY(std::move(write_.failure));
        return std::move(g_);
    }
    int done() const noexcept { return done_; }
    const std::vector<value_id>& noted() const noexcept { return noted_; }

private:
    struct numbers {
        value_id scale, zero_point;
    };
    value_id stands_for_of(value_id id) const { return id != no_value && static_cast<std::size_t>(id) < stands_for_.size() ? stands_for_[id] : no_value; }
    bool usable(value_id id) const {
        if (id == no_value) return false;
        return !ranges_ || (*ranges_)[id].known();
    }
    bool constant_tail(const node& n) const {
        for (std::size_t i = 1; i < n.inputs.size(); ++i)
            if (n.inputs[i] != no_value && !g_.at(n.inputs[i]).constant) return false;
        return true;
    }
    // What stands behind a node that computes, before the pair of both: a bound, or the bias of a product by columns, as nobody rounds between these.
    bool is_tail(const node& n) const {
        if (cuts_range(n)) return n.inputs[0] != no_value && coming_[n.inputs[0]] != 0 && constant_tail(n);
        if (n.op_type != "Add" || !n.domain.empty() || is_kept(n)) return false;
        const int bias = is_weight(g_, n.inputs[1]) ? 1 : 0;
        const std::int64_t columns = coming_[n.inputs[static_cast<std::size_t>(1 - bias)]];
        return columns > 0 && is_weight(g_, n.inputs[static_cast<std::size_t>(bias)]) &&
               g_.at(n.inputs[static_cast<std::size_t>(bias)]).constant.shape() == shape{columns};
    }
    // Of a product of rows by a constant matrix; else 0.
    std::int64_t columns_of(const node& n) const {
        if (n.op_type != "MatMul" || !n.domain.empty() || !is_weight(g_, n.inputs[1])) return 0;
        const shape& s = g_.at(n.inputs[1]).constant.shape();
        return s.rank() == 2 ? s[1] : 0;
    }
    bool is_kept(const node& n) const { return std::find(keep_.begin(), keep_.end(), n.name) != keep_.end(); }
    bool takes(const node& n) const {
        if (!computes(n) || is_kept(n) || !usable(n.outputs[0])) return false;
        const multiplication* m = multiplication_of(n);
        const bool constant_weight = m && m->weight_is_constant;
        const std::size_t activations = constant_weight ? 2 : n.inputs.size();
        bool any = false;
        for (std::size_t i = 0; i < activations && i < n.inputs.size(); ++i) {
            const value_id id = n.inputs[i];
            if (id == no_value) return false;
            const bool constant = static_cast<bool>(g_.at(id).constant);
            if (constant ? !is_weight(g_, id) : !usable(id)) return false;
            any |= !constant;
        }
        if (constant_weight && (g_.at(n.inputs[0]).constant || !g_.at(n.inputs[1]).constant)) return false;
        return any;
    }
    void pair_up(value_id id) {
        if (std::find(g_.outputs.begin(), g_.outputs.end(), id) == g_.outputs.end()) put_pair(id);
    }
    void note(value_id id) {
        if (!ranges_ && std::find(noted_.begin(), noted_.end(), id) == noted_.end()) noted_.push_back(id);
    }
    numbers numbers_of(value_id id) {
        if (number_of_[id] < 0) {
            const quantization_scale of = ranges_ ? quantization_scale::of((*ranges_)[id]) : quantization_scale{};
            const std::string stem = g_.at(id).name;
            number_of_[id] = static_cast<int>(made_.size());
            scales_.push_back(of.scale);
            const value_id scale = write_.constant(stem + "/scale", std::vector<float>{of.scale}, shape{});
            made_.push_back({scale, write_.constant(stem + "/zero_point", std::vector<std::uint8_t>{of.zero_point}, shape{})});
        }
        return made_[static_cast<std::size_t>(number_of_[id])];
    }
    double scale_of(value_id id) const { return static_cast<double>(scales_[static_cast<std::size_t>(number_of_[id])]); }

    void quantize_inputs(node& n) {
        const multiplication* m = multiplication_of(n);
        const bool weighted = m && is_weight(g_, n.inputs[1]) && g_.at(n.inputs[1]).constant.shape().rank() >= 2 &&
                              (m->weight_is_constant || g_.at(n.inputs[1]).constant.shape().rank() == 2);
        const std::size_t count = (m && m->weight_is_constant) || weighted ? 1 : n.inputs.size();
        const value_id activation = n.inputs[0];
        for (std::size_t i = 0; i < count; ++i) {
            if (is_weight(g_, n.inputs[i]))
                n.inputs[i] = whole_constant(n.inputs[i]);
            else if (stands_for_of(n.inputs[i]) == no_value && static_cast<std::size_t>(n.inputs[i]) < stands_for_.size())
                put_pair(n.inputs[i]);
        }
        if (weighted) quantize_weight(n, *m, activation);
    }
    value_id pair(value_id x, value_id scale, value_id zero_point, std::vector<attribute> attributes) {
        const std::string stem = g_.at(x).name;
        const value_id integers = write_.add("QuantizeLinear", stem, {x, scale, zero_point}, attributes, g_.at(zero_point).type);
        return write_.add("DequantizeLinear", stem, {integers, scale, zero_point}, std::move(attributes), dtype::float32);
    }
    // Behind a value, whoever makes it, once.
    void put_pair(value_id id) {
        note(id);
        if (stands_for_[id] != no_value) return;
        const numbers with = numbers_of(id);
        stands_for_[id] = pair(id, with.scale, with.zero_point, {});
    }
    // A constant beside activations: one scale and zero point, uint8 as they are.
    value_id whole_constant(value_id id) {
        const tensor x = g_.at(id).constant;
        value_range range{x.data<float>()[0], x.data<float>()[0]};
        for (std::int64_t i = 0; i < x.elements(); ++i) range = {std::min(range.low, x.data<float>()[i]), std::max(range.high, x.data<float>()[i])};
        const quantization_scale with = quantization_scale::of(range);
        const std::string stem = g_.at(id).name;
        const value_id s = write_.constant(stem + "/scale", std::vector<float>{with.scale}, shape{}),
                       z = write_.constant(stem + "/zero_point", std::vector<std::uint8_t>{with.zero_point}, shape{});
        return pair(id, s, z, {});
    }
    // A scale for each channel, whose largest weight is 127 steps from zero, which is in the middle.
    void quantize_weight(node& n, const multiplication& m, value_id activation) {
        const tensor w = g_.at(n.inputs[1]).constant;
        const attribute* transposed = n.find("transB");
        const int axis = transposed && transposed->integer ? 1 - m.channel_axis : m.channel_axis;
        const std::int64_t channels = w.shape()[axis], inner = w.shape().product(axis + 1, w.shape().rank());
        std::vector<double> most(static_cast<std::size_t>(channels), 0);
        for (std::int64_t i = 0; i < w.elements(); ++i) {
            double& of_channel = most[static_cast<std::size_t>(i / inner % channels)];
            of_channel = std::max(of_channel, std::fabs(static_cast<double>(w.data<float>()[i])));
        }
        std::vector<float> scale;
        for (double of_channel : most) {
            const double s = of_channel / 127;
            scale.push_back(s < static_cast<double>(std::numeric_limits<float>::min()) ? 1.0f : static_cast<float>(s));
        }
        // A bias that 32 bits cannot hold in so fine steps makes the weights' steps coarser, as ONNX Runtime does.
        if (ranges_ && takes_integer_bias(g_, n, channels))
            for (std::size_t c = 0; c < scale.size(); ++c) {
                const double least = std::fabs(static_cast<double>(g_.at(n.inputs[2]).constant.data<float>()[c])) / (scale_of(activation) * 2147483000.0);
                if (static_cast<double>(scale[c]) < least) scale[c] = static_cast<float>(least * 1.0001);
            }
        const std::string stem = g_.at(n.inputs[1]).name;
        const value_id s = write_.constant(stem + "/scale", scale, shape{channels});
        const value_id z = weights_ == dtype::int8
                               ? write_.constant(stem + "/zero_point", std::vector<std::int8_t>(scale.size(), 0), shape{channels})
                               : write_.constant(stem + "/zero_point", std::vector<std::uint8_t>(scale.size(), std::uint8_t(128)), shape{channels});
        n.inputs[1] = pair(n.inputs[1], s, z, {integer_attribute("axis", axis)});
    }

    graph g_;
    const std::vector<value_range>* ranges_;
    const std::vector<std::string>& keep_;
    dtype weights_;
    node_writer write_;
    std::vector<int> count_;
    std::vector<value_id> stands_for_;  // by value of the float network: what its readers read
    std::vector<int> number_of_;        // by value: its scale among `made_`
    // By value whose pair stands behind what reads it, a bound or a bias: the columns of the product that it is, or -1 for another; else 0.
    std::vector<std::int64_t> coming_;
    std::vector<numbers> made_;
    std::vector<float> scales_;
    std::vector<value_id> noted_;
    int done_ = 0;
};

// Constants that only the float network read.
inline void drop_unread_constants(graph& g) {
    const std::vector<int> readers = readers_of(g);
    for (std::size_t i = 0; i < g.values.size(); ++i)
        if (!readers[i] && std::find(g.inputs.begin(), g.inputs.end(), static_cast<value_id>(i)) == g.inputs.end()) g.values[i].constant = tensor();
}

}  // namespace detail

GRAFT_INLINE result<graph> prepare_to_quantize(graph g) GRAFT_MEMORY_TRY {
    for (const node& n : g.nodes)
        if (detail::integers_of(n) == eight_bits::is_integer)
            return fail(errc::quantize_nothing, location(n), "the network is quantised already: quantise the float network that it was made of");
    for (const value& v : g.values)
        if (is_half_or_double(v.type))
            return fail(errc::op_type, v.name, std::string("it is of ") + name(v.type) + "; quantising begins with a network of float32");
    GRAFT_TRY(detail::opset_raiser(g).run());
    GRAFT_TRY(detail::fold_batch_norm(g));
    detail::drop_unread_constants(g);
    bool any = false;
    for (node& n : g.nodes) {
        if (n.name.empty() && !n.outputs.empty() && n.outputs[0] != no_value) n.name = g.at(n.outputs[0]).name;
        any |= detail::integers_of(n) == eight_bits::multiplies && detail::is_weight(g, n.inputs[1]);
    }
    if (!any) return fail(errc::quantize_nothing, g.name.empty() ? "model" : g.name, "it has no convolution and no matrix product of constant weights");
    return g;
}
GRAFT_MEMORY_CATCH("prepare_to_quantize")

GRAFT_INLINE std::vector<std::string> quantizable_nodes(const graph& g) {
    std::vector<std::string> names;
    for (const node& n : g.nodes)
        if (detail::computes(n)) names.push_back(n.name);
    return names;
}

GRAFT_INLINE result<std::vector<value_id>> values_to_observe(const graph& g) GRAFT_MEMORY_TRY {
    const std::vector<std::string> none;
    detail::network_quantizer look(g, nullptr, none);
    auto made = look.run();
    if (!made.ok()) return made.take_status();
    std::vector<value_id> wanted = look.noted();
    // Where a Relu's input turns out to be of use only in some rewriting, such as with nodes left in float, its range has to be there too.
    for (const node& n : g.nodes)
        if (detail::computes(n) && n.outputs[0] != no_value && std::find(wanted.begin(), wanted.end(), n.outputs[0]) == wanted.end())
            wanted.push_back(n.outputs[0]);
    return wanted;
}
GRAFT_MEMORY_CATCH("values_to_observe")

GRAFT_INLINE result<graph> quantize_to_learn(const graph& g, const std::vector<value_range>& ranges, const std::vector<std::string>& keep,
                                             dtype weights) GRAFT_MEMORY_TRY {
    if (weights != dtype::uint8 && weights != dtype::int8) return fail(errc::usage, name(weights), "weights in eight bits are uint8 or int8");
    if (ranges.size() != g.values.size()) return fail(errc::usage, "ranges", "it takes a range for each value of the graph");
    const std::vector<std::string> known = quantizable_nodes(g);
    for (const std::string& name : keep)
        if (std::find(known.begin(), known.end(), name) == known.end())
            return fail(errc::input_name, name, "no node of that name could be quantised; graft info --placement lists the nodes");
    detail::network_quantizer rewrite(g, &ranges, keep, weights);
    graph made;
    GRAFT_TRY_ASSIGN(made, rewrite.run());
    if (!rewrite.done()) return fail(errc::quantize_nothing, g.name.empty() ? "model" : g.name, "every node stays float");
    made.drop_metadata("graft.golden");
    return made;
}
GRAFT_MEMORY_CATCH("quantize_to_learn")

GRAFT_INLINE result<graph> quantize_network(const graph& g, const std::vector<value_range>& ranges, const std::vector<std::string>& keep, dtype weights) {
    graph made;
    GRAFT_TRY_ASSIGN(made, quantize_to_learn(g, ranges, keep, weights));
    return store_quantized(std::move(made));
}

GRAFT_INLINE result<graph> store_quantized(graph g) GRAFT_MEMORY_TRY {
    GRAFT_TRY(detail::quantized_storer(g).run());
    detail::drop_unread_constants(g);
    return g;
}
GRAFT_MEMORY_CATCH("store_quantized")

GRAFT_END_NAMESPACE
