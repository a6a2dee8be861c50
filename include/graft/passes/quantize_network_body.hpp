// How a network is made ready for eight bits, and rewritten.
#include "../graph/captures.hpp"
#include "../graph/op.hpp"
#include "node_writer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <utility>

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline bool is_standard(const node& n) noexcept { return n.domain.empty() || n.domain == "ai.onnx"; }
inline bool is_one_of(const node& n, std::initializer_list<const char*> names) {
    return is_standard(n) && std::any_of(names.begin(), names.end(), [&](const char* name) { return n.op_type == name; });
}
inline bool has_weights(const node& n) { return is_one_of(n, {"Conv", "ConvTranspose", "Gemm", "MatMul"}); }
inline bool computes(const node& n) { return has_weights(n) || is_one_of(n, {"Add", "Mul", "Concat", "AveragePool", "GlobalAveragePool"}); }
// Their outputs have the numbers of their inputs, and so their scale.
inline bool only_moves(const node& n) { return is_one_of(n, {"MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze"}); }
inline bool cuts_range(const node& n) { return is_one_of(n, {"Relu", "Clip"}); }
inline bool is_quantized_already(const node& n) {
    return n.op_type.compare(0, 7, "QLinear") == 0 || n.op_type == "QuantizeLinear" || n.op_type == "DequantizeLinear" ||
           n.op_type == "DynamicQuantizeLinear" || n.op_type == "ConvInteger" || n.op_type == "MatMulInteger";
}

// How often each value is read, outputs of the graph counted.
inline std::vector<int> readers_of(const graph& g) {
    std::vector<int> readers(g.values.size(), 0);
    std::vector<value_id> ids;
    for (const node& n : g.nodes) {
        ids = n.inputs;
        append_captures(n, ids);
        for (value_id id : ids)
            if (id != no_value) ++readers[id];
    }
    for (value_id id : g.outputs) ++readers[id];
    return readers;
}

// Weights of float32 that no caller can replace.
inline bool is_weight(const graph& g, value_id id) {
    return id != no_value && g.at(id).constant && g.at(id).constant.type() == dtype::float32 && g.at(id).constant.elements() > 0 &&
           std::find(g.inputs.begin(), g.inputs.end(), id) == g.inputs.end();
}

// Old forms of operators that become those of operator set 13.
class opset_raiser {
public:
    explicit opset_raiser(graph& g) : g_(g), write_(g, "raised") {}
    status run() {
        if (g_.version_of("") >= quantized_opset) return {};
        for (opset& o : g_.opsets)
            if (o.domain.empty() || o.domain == "ai.onnx") o.version = quantized_opset;
        std::vector<node> all = std::move(g_.nodes);
        g_.nodes.clear();
        for (node& n : all) {
            if (is_standard(n)) GRAFT_TRY(raise(n));
            g_.nodes.push_back(std::move(n));
        }
        return std::move(write_.failure);
    }

private:
    status raise(node& n) {
        const op_row* newer = ops::find_op("", n.op_type.c_str(), quantized_opset);
        for (const attribute& a : n.attributes)
            if (a.graph) return refused(n);
        if (newer && newer == n.op) {
            n.version = quantized_opset;
            return {};
        }
        if (!newer || !n.op) return refused(n);
        if (is_one_of(n, {"Squeeze", "Unsqueeze", "ReduceSum"})) {
            move_list(n, "axes");
        } else if (n.op_type == "Clip" && n.inputs.size() == 1) {
            const attribute *low = n.find("min"), *high = n.find("max");
            const value_id from = low ? write_.number("min", low->real) : no_value, to = high ? write_.number("max", high->real) : no_value;
            n.inputs.push_back(from);
            if (to != no_value) n.inputs.push_back(to);
            n.attributes.clear();
        } else if (n.op_type == "Dropout") {
            n.attributes.clear();
        } else if (n.op_type == "BatchNormalization" && n.outputs.size() == 1) {
            drop(n, "spatial");
        } else if (is_one_of(n, {"Softmax", "LogSoftmax"})) {
            // The old form joins all axes from `axis` on: the same where that is the last.
            const value& x = g_.at(n.inputs[0]);
            const attribute* axis = n.find("axis");
            const std::int64_t at = axis ? axis->integer : 1;
            if (at != -1 && !(x.has_shape && x.extents.rank() == at + 1) && !two_axes(n.inputs[0])) return refused(n);
            drop(n, "axis");
            n.attributes.push_back(integer_attribute("axis", -1));
        } else if (n.op_type == "Pad" && n.inputs.size() == 1) {
            const attribute* filled = n.find("value");
            const float with = filled ? filled->real : 0;
            move_list(n, "pads");
            drop(n, "value");
            n.inputs.push_back(write_.number("value", with));
        } else
            return refused(n);
        n.version = quantized_opset;
        n.op = newer;
        return {};
    }
    // Whether a value is a matrix because of what makes it.
    bool two_axes(value_id id) const {
        for (const node& n : g_.nodes)
            if (std::find(n.outputs.begin(), n.outputs.end(), id) != n.outputs.end()) {
                if (is_one_of(n, {"Gemm", "Flatten"})) return true;
                if (is_one_of(n, {"Add", "MatMul"}) && (g_.at(n.inputs[1]).constant.shape().rank() <= 2)) return two_axes(n.inputs[0]);
                if (n.op_type == "Reshape" && n.inputs.size() == 2 && g_.at(n.inputs[1]).constant) return g_.at(n.inputs[1]).constant.elements() == 2;
            }
        return false;
    }
    void move_list(node& n, const char* name) {
        const attribute* list = n.find(name);
        if (!list) return;
        const value_id given = write_.integers(name, list->integers);
        drop(n, name);
        n.inputs.push_back(given);
    }
    static void drop(node& n, const char* name) {
        n.attributes.erase(std::remove_if(n.attributes.begin(), n.attributes.end(), [&](const attribute& a) { return a.name == name; }), n.attributes.end());
    }
    static status refused(const node& n) {
        return fail(errc::model_version, location(n),
                    "quantised weights need operator set 13, in which this operator means something else; raise the model by onnx.version_converter");
    }

    graph& g_;
    node_writer write_;
};

// y = (conv(x) - mean) * s / sqrt(variance + epsilon) + b, with the factor in the convolution's weights.
inline status fold_norms(graph& g) {
    std::vector<int> readers = readers_of(g);
    std::vector<std::size_t> maker(g.values.size(), g.nodes.size());
    for (std::size_t i = 0; i < g.nodes.size(); ++i)
        for (value_id id : g.nodes[i].outputs)
            if (id != no_value) maker[id] = i;
    node_writer write(g, "folded");
    std::vector<char> gone(g.nodes.size(), 0);
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
        node& norm = g.nodes[i];
        if (!is_one_of(norm, {"BatchNormalization"}) || norm.inputs.size() != 5) continue;
        const attribute* training = norm.find("training_mode");
        const value_id between = norm.inputs[0];
        if ((training && training->integer) || readers[between] != 1 || maker[between] == g.nodes.size()) continue;
        node& conv = g.nodes[maker[between]];
        if (!is_one_of(conv, {"Conv"}) || !is_weight(g, conv.inputs[1])) continue;
        const bool biased = conv.inputs.size() > 2 && conv.inputs[2] != no_value;
        bool constant = !biased || is_weight(g, conv.inputs[2]);
        for (std::size_t k = 1; k < 5; ++k) constant = constant && is_weight(g, norm.inputs[k]);
        if (!constant) continue;
        const tensor weight = g.at(conv.inputs[1]).constant;
        const std::int64_t channels = weight.shape()[0], each = weight.elements() / channels;
        for (std::size_t k = 1; k < 5; ++k) constant = constant && g.at(norm.inputs[k]).constant.elements() == channels;
        if (!constant || (biased && g.at(conv.inputs[2]).constant.elements() != channels)) continue;
        const attribute* given = norm.find("epsilon");
        const double epsilon = given ? static_cast<double>(given->real) : 1e-5;
        tensor folded, bias;
        GRAFT_TRY_ASSIGN(folded, tensor::make(dtype::float32, weight.shape()));
        GRAFT_TRY_ASSIGN(bias, tensor::make(dtype::float32, shape{channels}));
        const auto number = [&](std::size_t k, std::int64_t c) { return static_cast<double>(g.at(norm.inputs[k]).constant.data<float>()[c]); };
        for (std::int64_t c = 0; c < channels; ++c) {
            const double factor = number(1, c) / std::sqrt(number(4, c) + epsilon),
                         before = biased ? static_cast<double>(g.at(conv.inputs[2]).constant.data<float>()[c]) : 0;
            bias.data<float>()[c] = static_cast<float>((before - number(3, c)) * factor + number(2, c));
            for (std::int64_t k = c * each; k < (c + 1) * each; ++k)
                folded.data<float>()[k] = static_cast<float>(static_cast<double>(weight.data<float>()[k]) * factor);
        }
        const std::string stem = g.at(conv.inputs[1]).name;
        conv.inputs.resize(2);
        conv.inputs[1] = write.constant(stem, std::move(folded));
        conv.inputs.push_back(write.constant(stem + ".bias", std::move(bias)));
        conv.outputs[0] = norm.outputs[0];
        gone[i] = 1;
    }
    std::vector<node> kept;
    for (std::size_t i = 0; i < g.nodes.size(); ++i)
        if (!gone[i]) kept.push_back(std::move(g.nodes[i]));
    g.nodes = std::move(kept);
    return std::move(write.failure);
}

class network_quantizer {
public:
    // Without ranges it only notes which values would have to be known.
    network_quantizer(const graph& from, const std::vector<value_range>* ranges, const std::vector<std::string>& keep)
        : g_(from), ranges_(ranges), keep_(keep), write_(g_, "quantize"), count_(readers_of(from)), stands_for_(from.values.size(), no_value),
          number_of_(from.values.size(), -1), coming_(from.values.size(), 0) {}

    result<graph> run() {
        std::vector<node> all = std::move(g_.nodes);
        g_.nodes.clear();
        std::vector<std::vector<const node*>> read_by(number_of_.size());
        for (const node& n : all)
            for (value_id id : n.inputs)
                if (id != no_value) read_by[id].push_back(&n);
        for (node& n : all) {
            const bool now = takes(n),
                       moves = !now && only_moves(n) && n.inputs[0] != no_value && stands_for_of(n.inputs[0]) != no_value && usable(n.outputs[0]);
            const bool cuts = cuts_range(n) && n.inputs[0] != no_value && coming_[n.inputs[0]] && constant_tail(n);
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
                number_of_[out] = number_of_[in];
                pair_up(out);
            } else if (now || cuts) {
                const bool waits = count_[out] == 1 && read_by[out].size() == 1 && cuts_range(*read_by[out][0]) && read_by[out][0]->inputs[0] == out &&
                                   usable(read_by[out][0]->outputs[0]);
                if (waits)
                    coming_[out] = 1;
                else
                    pair_up(out);
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
    bool takes(const node& n) const {
        if (!computes(n) || std::find(keep_.begin(), keep_.end(), n.name) != keep_.end() || !usable(n.outputs[0])) return false;
        const std::size_t activations = is_one_of(n, {"Conv", "ConvTranspose", "Gemm"}) ? 2 : n.inputs.size();
        bool any = false;
        for (std::size_t i = 0; i < activations && i < n.inputs.size(); ++i) {
            const value_id id = n.inputs[i];
            if (id == no_value) return false;
            const bool constant = static_cast<bool>(g_.at(id).constant);
            if (constant ? !is_weight(g_, id) : !usable(id)) return false;
            any |= !constant;
        }
        if (is_one_of(n, {"Conv", "ConvTranspose", "Gemm"}) && (g_.at(n.inputs[0]).constant || !g_.at(n.inputs[1]).constant)) return false;
        return any;
    }
    void pair_up(value_id id) {
        if (std::find(g_.outputs.begin(), g_.outputs.end(), id) == g_.outputs.end()) put_pair(id);
    }
    void note(value_id id) {
        if (!ranges_ && std::find(noted_.begin(), noted_.end(), id) == noted_.end()) noted_.push_back(id);
    }
    template <class T>
    value_id constant(const std::string& stem, const std::vector<T>& values, const shape& extents) {
        auto made = tensor::from(values.data(), extents);
        if (!made.ok()) return write_.mistake(made.take_status()), no_value;
        return write_.constant(stem, std::move(made).value());
    }
    numbers numbers_of(value_id id) {
        if (number_of_[id] < 0) {
            const quantization_scale of = ranges_ ? quantization_scale::of((*ranges_)[id]) : quantization_scale{};
            const std::string stem = g_.at(id).name;
            number_of_[id] = static_cast<int>(made_.size());
            scales_.push_back(of.scale);
            const value_id scale = constant(stem + "/scale", std::vector<float>{of.scale}, shape{});
            made_.push_back({scale, constant(stem + "/zero_point", std::vector<std::uint8_t>{of.zero_point}, shape{})});
        }
        return made_[static_cast<std::size_t>(number_of_[id])];
    }
    double scale_of(value_id id) const { return static_cast<double>(scales_[static_cast<std::size_t>(number_of_[id])]); }

    void quantize_inputs(node& n) {
        const bool weighted = has_weights(n) && is_weight(g_, n.inputs[1]) && g_.at(n.inputs[1]).constant.shape().rank() >= 2 &&
                              (n.op_type != "MatMul" || g_.at(n.inputs[1]).constant.shape().rank() == 2);
        const std::size_t count = is_one_of(n, {"Conv", "ConvTranspose", "Gemm"}) ? 1 : weighted ? 1 : n.inputs.size();
        const value_id activation = n.inputs[0];
        for (std::size_t i = 0; i < count; ++i) {
            if (is_weight(g_, n.inputs[i]))
                n.inputs[i] = whole_constant(n.inputs[i]);
            else if (stands_for_of(n.inputs[i]) == no_value && static_cast<std::size_t>(n.inputs[i]) < stands_for_.size())
                put_pair(n.inputs[i]);
        }
        if (weighted) quantize_weight(n, activation);
    }
    // Behind a value, whoever makes it, once.
    void put_pair(value_id id) {
        note(id);
        if (stands_for_[id] != no_value) return;
        const numbers with = numbers_of(id);
        const std::string stem = g_.at(id).name;
        const value_id integers = write_.add("QuantizeLinear", stem, {id, with.scale, with.zero_point}, {}, dtype::uint8);
        stands_for_[id] = write_.add("DequantizeLinear", stem, {integers, with.scale, with.zero_point}, {}, dtype::float32);
    }
    // A constant beside activations: one scale and zero point, uint8 as they are.
    value_id whole_constant(value_id id) {
        const tensor x = g_.at(id).constant;
        value_range range{x.data<float>()[0], x.data<float>()[0]};
        for (std::int64_t i = 0; i < x.elements(); ++i) range = {std::min(range.low, x.data<float>()[i]), std::max(range.high, x.data<float>()[i])};
        const quantization_scale with = quantization_scale::of(range);
        std::vector<std::uint8_t> integers(static_cast<std::size_t>(x.elements()));
        for (std::size_t i = 0; i < integers.size(); ++i)
            integers[i] = static_cast<std::uint8_t>(
                std::min(255.0, std::max(0.0, std::nearbyint(static_cast<double>(x.data<float>()[i]) / static_cast<double>(with.scale)) + with.zero_point)));
        const std::string stem = g_.at(id).name;
        const value_id q = constant(stem, integers, x.shape()), s = constant(stem + "/scale", std::vector<float>{with.scale}, shape{}),
                       z = constant(stem + "/zero_point", std::vector<std::uint8_t>{with.zero_point}, shape{});
        return write_.add("DequantizeLinear", stem, {q, s, z}, {}, dtype::float32);
    }
    void quantize_weight(node& n, value_id activation) {
        const tensor w = g_.at(n.inputs[1]).constant;
        const attribute *transposed = n.find("transB"), *alpha = n.find("alpha"), *beta = n.find("beta");
        const int axis = n.op_type == "Conv" || (n.op_type == "Gemm" && transposed && transposed->integer) ? 0 : 1;
        const std::int64_t channels = w.shape()[axis], inner = w.shape().product(axis + 1, w.shape().rank());
        const auto channel_of = [&](std::int64_t i) { return static_cast<std::size_t>(i / inner % channels); };
        std::vector<double> most(static_cast<std::size_t>(channels), 0);
        for (std::int64_t i = 0; i < w.elements(); ++i) most[channel_of(i)] = std::max(most[channel_of(i)], std::fabs(static_cast<double>(w.data<float>()[i])));
        std::vector<float> scale;
        for (double m : most) {
            const double s = m / 127;
            scale.push_back(s < static_cast<double>(std::numeric_limits<float>::min()) ? 1.0f : static_cast<float>(s));
        }
        const std::string stem = g_.at(n.inputs[1]).name;
        const bool plain = (!alpha || alpha->real == 1) && (!beta || beta->real == 1);
        if (ranges_ && n.op_type != "MatMul" && n.inputs.size() > 2 && is_weight(g_, n.inputs[2]) && plain &&
            g_.at(n.inputs[2]).constant.shape() == shape{channels}) {
            const tensor bias = g_.at(n.inputs[2]).constant;
            std::vector<std::int32_t> integers;
            std::vector<float> steps;
            for (std::int64_t c = 0; c < channels; ++c) {
                const double b = static_cast<double>(bias.data<float>()[c]), x = scale_of(activation);
                float& s = scale[static_cast<std::size_t>(c)];
                // A bias that 32 bits cannot hold in so fine steps makes the weights' steps coarser, as ONNX Runtime does.
                const double least = std::fabs(b) / (x * 2147483000.0);
                if (static_cast<double>(s) < least) s = static_cast<float>(least * 1.0001);
                steps.push_back(static_cast<float>(x * static_cast<double>(s)));
                const double step = static_cast<double>(steps.back());
                integers.push_back(step > 0 ? static_cast<std::int32_t>(std::min(2147483647.0, std::max(-2147483647.0, std::nearbyint(b / step)))) : 0);
                if (!(step > 0)) steps.back() = 1;
            }
            const std::string name = g_.at(n.inputs[2]).name;
            const value_id q = constant(name, integers, shape{channels}), s = constant(name + "/scale", steps, shape{channels}),
                           z = constant(name + "/zero_point", std::vector<std::int32_t>(steps.size(), 0), shape{channels});
            n.inputs[2] = write_.add("DequantizeLinear", name, {q, s, z}, {integer_attribute("axis", 0)}, dtype::float32);
        }
        std::vector<std::int8_t> integers(static_cast<std::size_t>(w.elements()));
        for (std::size_t i = 0; i < integers.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            integers[i] = static_cast<std::int8_t>(
                std::min(127.0, std::max(-127.0, std::nearbyint(static_cast<double>(w.data<float>()[at]) / static_cast<double>(scale[channel_of(at)])))));
        }
        const value_id q = constant(stem, integers, w.shape()), s = constant(stem + "/scale", scale, shape{channels}),
                       z = constant(stem + "/zero_point", std::vector<std::int8_t>(scale.size(), 0), shape{channels});
        n.inputs[1] = write_.add("DequantizeLinear", stem, {q, s, z}, {integer_attribute("axis", axis)}, dtype::float32);
    }

    graph g_;
    const std::vector<value_range>* ranges_;
    const std::vector<std::string>& keep_;
    node_writer write_;
    std::vector<int> count_;
    std::vector<value_id> stands_for_;  // by value of the float network: what its readers read
    std::vector<int> number_of_;        // by value: its scale among `made_`
    std::vector<char> coming_;          // by value: its pair stands behind the Relu or Clip that reads it
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
        if (detail::is_quantized_already(n))
            return fail(errc::quantize_nothing, location(n), "the network is quantised already: quantise the float network that it was made of");
    for (const value& v : g.values)
        if (v.type == dtype::float16 || v.type == dtype::bfloat16 || v.type == dtype::float64)
            return fail(errc::op_type, v.name, std::string("it is of ") + name(v.type) + "; quantising begins with a network of float32");
    GRAFT_TRY(detail::opset_raiser(g).run());
    GRAFT_TRY(detail::fold_norms(g));
    detail::drop_unread_constants(g);
    bool any = false;
    for (node& n : g.nodes) {
        if (n.name.empty() && !n.outputs.empty() && n.outputs[0] != no_value) n.name = g.at(n.outputs[0]).name;
        any |= detail::has_weights(n) && detail::is_weight(g, n.inputs[1]);
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

GRAFT_INLINE result<graph> quantize_network(const graph& g, const std::vector<value_range>& ranges, const std::vector<std::string>& keep) GRAFT_MEMORY_TRY {
    if (ranges.size() != g.values.size()) return fail(errc::usage, "quantize_network", "it takes a range for each value of the graph");
    const std::vector<std::string> known = quantizable_nodes(g);
    for (const std::string& name : keep)
        if (std::find(known.begin(), known.end(), name) == known.end())
            return fail(errc::input_name, name, "no node of that name could be quantised; graft info --placement lists the nodes");
    detail::network_quantizer rewrite(g, &ranges, keep);
    graph made;
    GRAFT_TRY_ASSIGN(made, rewrite.run());
    if (!rewrite.done()) return fail(errc::quantize_nothing, g.name.empty() ? "model" : g.name, "every node stays float");
    detail::drop_unread_constants(made);
    return made;
}
GRAFT_MEMORY_CATCH("quantize_network")

GRAFT_END_NAMESPACE
