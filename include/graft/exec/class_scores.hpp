// What the scores of a classifier mean: which axis counts classes, and the probabilities that a row stands for.
#pragma once

#include "../graph/graph.hpp"
#include "../tensor/tensor.hpp"

#include <vector>

GRAFT_BEGIN_NAMESPACE

/// The axis along which an output of that shape has one number a class, samples first: the only other one with more than one number; -1 where
/// there are more of those, or none.
int class_axis(const shape& scores) noexcept;
/// How many classes an output of that shape tells apart for so many pictures: it has a row for each, or is one row; -1 where it is none.
std::int64_t classes_in(const shape& scores, std::int64_t pictures) noexcept;

/// The probabilities that row `picture` of an output of a model stands for, one of each class: the scores themselves where the graph ends
/// in a Softmax, their softmax elsewhere; integers are scaled to a sum of one. `scores` holds as many numbers for each of `pictures`; `output`
/// is its place among the graph's.
std::vector<double> class_probabilities(const graph& g, const tensor& scores, std::int64_t picture = 0, std::int64_t pictures = 1, std::size_t output = 0);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../ops/ops.hpp"
#include "../tensor/convert.hpp"

#include <algorithm>
#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline const node* producer_of(const graph& g, value_id id) noexcept {
    for (const node& n : g.nodes)
        for (value_id made : n.outputs)
            if (made == id) return &n;
    return nullptr;
}

// How a graph ends: whether in a Softmax, and the zero point of the quantisation behind it.
struct graph_ending {
    bool softmax = false;
    bool quantized = false;  // by a QuantizeLinear whose scale is a constant
    double scale = 1, zero_point = 0;
};

inline graph_ending ending_of(const graph& g, std::size_t output = 0) {
    graph_ending end;
    if (output >= g.outputs.size()) return end;
    value_id at = g.outputs[output];
    // A graph has no circles, but it may have a million nodes; what names look like stays short.
    for (int steps = 0; steps < 64; ++steps) {
        const node* n = producer_of(g, at);
        if (!n || n->inputs.empty() || n->inputs[0] == no_value) return end;
        // What ONNX means by the name, also where a row of the app's own computes it.
        const op_row* onnx = n->domain == "ai.onnx" ? ops::find_op("", n->op_type.c_str(), n->version) : nullptr;
        const op_row& row = onnx ? *onnx : ops::row_of(*n);
        const op_role role = row.traits.role;
        if (role == op_role::softmax) {
            end.softmax = true;
            return end;
        }
        if (row.traits.moves != motion::same && role != op_role::quantize && role != op_role::dequantize) return end;
        if (role == op_role::quantize && !end.quantized && n->inputs.size() > 1) {
            const auto constant = [&](std::size_t i) { return i < n->inputs.size() && n->inputs[i] != no_value ? g.at(n->inputs[i]).constant : tensor(); };
            const tensor scale = constant(1), zero = constant(2);
            if (scale && scale.elements() == 1) {
                end.quantized = true;
                end.scale = element_as_double(scale.type(), scale.raw(), 0);
                if (zero && zero.elements() == 1) end.zero_point = element_as_double(zero.type(), zero.raw(), 0);
            }
        }
        at = n->inputs[0];
    }
    return end;
}

inline void softmax_of(std::vector<double>& values) {
    double most = -HUGE_VAL, sum = 0;
    for (double v : values)
        if (v > most) most = v;
    // Infinite and undefined scores: what is largest shares the whole, undefined ones get nothing.
    for (double& v : values) sum += v = std::isnan(v) ? 0 : v == most ? 1 : std::exp(v - most);
    if (sum > 0)
        for (double& v : values) v /= sum;
}

inline void scale_to_one(std::vector<double>& values) {
    double sum = 0;
    for (double v : values) sum += v;
    if (sum > 0)
        for (double& v : values) v /= sum;
}

}  // namespace detail

GRAFT_INLINE int class_axis(const shape& scores) noexcept {
    int axis = -1;
    for (int a = 1; a < scores.rank(); ++a) {
        if (scores[a] == 1) continue;
        if (axis > 0) return -1;
        axis = a;
    }
    return axis;
}
GRAFT_INLINE std::int64_t classes_in(const shape& scores, std::int64_t pictures) noexcept {
    if (scores.rank() == 1 && pictures == 1) return scores[0] > 1 ? scores[0] : -1;
    const int axis = class_axis(scores);
    if (axis > 0) return scores[0] == pictures ? scores[axis] : -1;
    // One picture's row may come as [classes, 1].
    bool column = pictures == 1 && scores.rank() > 1 && scores[0] > 1;
    for (int a = 1; a < scores.rank(); ++a) column = column && scores[a] == 1;
    return column ? scores[0] : -1;
}

GRAFT_INLINE std::vector<double> class_probabilities(const graph& g, const tensor& scores, std::int64_t picture, std::int64_t pictures, std::size_t output) {
    const std::int64_t classes = pictures > 0 ? scores.elements() / pictures : 0;
    std::vector<double> values(static_cast<std::size_t>(classes));
    load_as_double(scores.type(), scores.raw(), picture * classes, classes, values.data());
    const detail::graph_ending end = detail::ending_of(g, output);
    if (is_float(scores.type())) {
        if (!end.softmax) detail::softmax_of(values);
        return values;
    }
    if (end.quantized && !end.softmax) {
        for (double& v : values) v = (v - end.zero_point) * end.scale;
        detail::softmax_of(values);
        return values;
    }
    double zero = end.quantized ? end.zero_point : 0;
    if (!end.quantized)
        for (double v : values) zero = std::min(zero, v);
    for (double& v : values) v -= zero;
    detail::scale_to_one(values);
    return values;
}

GRAFT_END_NAMESPACE
#endif
