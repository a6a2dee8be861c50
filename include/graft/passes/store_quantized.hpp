// Stores what a network quantises anew in each run, its constants, as integers.
#pragma once

#include "../ops/ops.hpp"
#include "graph_queries.hpp"
#include "node_writer.hpp"
#include "run_reference.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// How the operators that multiply take their weights.
struct multiplication {
    const char* op;
    int channel_axis;         // of the weights: that of the output's channels; the other one of two where the node has transB
    bool weight_is_constant;  // else it multiplies two activations, too
};
inline const multiplication* multiplication_of(const node& n) {
    static constexpr multiplication all[] = {{"Conv", 0, true}, {"ConvTranspose", 1, true}, {"Gemm", 1, true}, {"MatMul", 1, false}};
    if (ops::row_of(n).traits.integers != eight_bits::multiplies) return nullptr;
    for (const multiplication& m : all)
        if (n.op_type == m.op) return &m;
    return nullptr;
}
// Whether its bias can be int32, in steps of what its integers are multiplied to.
inline bool takes_integer_bias(const graph& g, const node& n, std::int64_t channels) {
    const multiplication* m = multiplication_of(n);
    const attribute *alpha = n.find("alpha"), *beta = n.find("beta");
    return m && m->weight_is_constant && n.inputs.size() > 2 && is_weight(g, n.inputs[2]) && (!alpha || alpha->real == 1) && (!beta || beta->real == 1) &&
           g.at(n.inputs[2]).constant.shape() == shape{channels};
}

//   QuantizeLinear(W)                                            the integers that it makes of W
//   Conv(DequantizeLinear(x), DequantizeLinear(W'), bias)        the bias by DequantizeLinear from int32, its steps the product of both scales
class quantized_storer {
public:
    explicit quantized_storer(graph& g) : g_(g), write_(g, "stored"), maker_(g.values.size(), -1) {}
    status run() {
        std::vector<node> all = std::move(g_.nodes);
        g_.nodes.clear();
        for (node& n : all) {
            if (ops::row_of(n).traits.role == op_role::quantize && is_stored(n)) {
                GRAFT_TRY(store(n));
                continue;
            }
            if (multiplication_of(n)) store_bias(n);
            for (value_id id : n.outputs)
                if (id != no_value && static_cast<std::size_t>(id) < maker_.size()) maker_[id] = static_cast<int>(g_.nodes.size());
            g_.nodes.push_back(std::move(n));
        }
        return std::move(write_.failure);
    }

private:
    bool is_stored(const node& n) const {
        for (value_id id : n.inputs)
            if (id != no_value && (!g_.at(id).constant || std::find(g_.inputs.begin(), g_.inputs.end(), id) != g_.inputs.end())) return false;
        return std::find(g_.outputs.begin(), g_.outputs.end(), n.outputs[0]) == g_.outputs.end();
    }
    // The node's output becomes a constant.
    status store(const node& n) {
        std::vector<tensor_view> in;
        for (value_id id : n.inputs) in.push_back(id == no_value ? tensor_view() : view(g_.at(id).constant));
        std::vector<tensor> made;
        executor serial;
        const limits none;
        GRAFT_TRY(run_reference(n, in.data(), static_cast<int>(in.size()), made, {none, serial}));
        value& out = g_.at(n.outputs[0]);
        out.constant = std::move(made[0]);
        out.type = out.constant.type();
        out.extents = out.constant.shape();
        out.has_shape = true;
        return {};
    }
    const node* dequantizer(value_id id) const {
        const int at = id != no_value && static_cast<std::size_t>(id) < maker_.size() ? maker_[id] : -1;
        return at >= 0 && ops::row_of(g_.nodes[static_cast<std::size_t>(at)]).traits.role == op_role::dequantize ? &g_.nodes[static_cast<std::size_t>(at)]
                                                                                                                 : nullptr;
    }
    void store_bias(node& n) {
        const node *x = dequantizer(n.inputs[0]), *w = dequantizer(n.inputs[1]);
        if (!x || !w || !is_weight(g_, x->inputs[1]) || !is_weight(g_, w->inputs[1]) || !g_.at(w->inputs[0]).constant) return;
        const tensor of_x = g_.at(x->inputs[1]).constant, of_w = g_.at(w->inputs[1]).constant;
        const std::int64_t channels = n.inputs.size() > 2 && n.inputs[2] != no_value ? g_.at(n.inputs[2]).constant.elements() : 0;
        if (of_x.elements() != 1 || (of_w.elements() != 1 && of_w.elements() != channels) || !takes_integer_bias(g_, n, channels)) return;
        const tensor bias = g_.at(n.inputs[2]).constant;
        std::vector<std::int32_t> integers;
        std::vector<float> steps;
        for (std::int64_t c = 0; c < channels; ++c) {
            const double product = static_cast<double>(of_x.data<float>()[0]) * static_cast<double>(of_w.data<float>()[of_w.elements() == 1 ? 0 : c]);
            const auto step = static_cast<float>(product);
            const double rounded = step > 0 ? std::nearbyint(static_cast<double>(bias.data<float>()[c]) / static_cast<double>(step)) : 0;
            integers.push_back(static_cast<std::int32_t>(std::min(2147483647.0, std::max(-2147483647.0, rounded))));
            steps.push_back(step > 0 ? step : 1);
        }
        const std::string stem = g_.at(n.inputs[2]).name;
        const value_id q = write_.constant(stem, integers, shape{channels}), s = write_.constant(stem + "/scale", steps, shape{channels}),
                       z = write_.constant(stem + "/zero_point", std::vector<std::int32_t>(steps.size(), 0), shape{channels});
        n.inputs[2] = write_.add("DequantizeLinear", stem, {q, s, z}, {integer_attribute("axis", 0)}, dtype::float32);
    }

    graph& g_;
    node_writer write_;
    std::vector<int> maker_;  // by value: the node among those that stay; -1: none
};

}  // namespace detail
GRAFT_END_NAMESPACE
