// The parameters of a network: which of a graph's constants are weights, and which of them learn.
#pragma once

#include "../graph/graph.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// A constant of a graph that training may change.
struct parameter {
    value_id id = no_value;
    std::string name;  ///< of the constant, as in the file
    int node = 0;      ///< the first node that reads it: parameters are in the order of those, the input's first
    bool learns = true;
    double rate = 1;  ///< multiplies the learning rate; see scale_rates and decay_rates
};

/// The weights of a graph, in the order in which the network reads them: float constants, but for numbers without an axis, that a layer takes
/// as weight, bias, scale or shift, directly or through Reshape, Transpose, Identity and their like, and float terms and factors of
/// element-wise operators; and what an operator of an app's own with a gradient takes behind its first input. Numbers such as the 0.5 of a GELU, what holds one
/// number and has a name that PyTorch's exporters gave it, statistics of normalisations, quantisation scales, and what only shapes are computed from (the
/// scales of a Resize) are none.
std::vector<parameter> parameters_of(const graph& g);

/// The running statistics (mean, variance) of the BatchNormalization nodes whose scale is among `learning`, in the order of the nodes.
std::vector<value_id> running_statistics(const graph& g, const std::vector<value_id>& learning);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../ops/gradients.hpp"
#include "../passes/graph_queries.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Whether it is PyTorch's exporters that named a value, and not who wrote the network: "/attn/Sqrt_output_0", "val_12".
inline bool is_name_of_exporter(const std::string& name) {
    if (name.compare(0, 1, "/") == 0) return true;
    return name.size() > 4 && name.compare(0, 4, "val_") == 0 && name.find_first_not_of("0123456789", 4) == std::string::npos;
}
// Whether a value may be the network's. One number, however often, is a formula's where it has no axis, or an exporter has made it.
inline bool may_be_weight(const value& v) {
    if (!v.has_shape) return true;  // what lies behind a Transpose has none before the network is planned
    if (v.extents.elements() == 0 || v.extents.rank() == 0) return false;
    return !v.constant || !is_name_of_exporter(v.name) || !is_uniform(v.constant);
}
// Whether input i of a node is a weight of it.
inline bool is_weight_slot(const graph& g, const node& n, std::size_t i) {
    if (!may_be_weight(g.at(n.inputs[i]))) return false;
    // Of an operator of the app's own that has a gradient, whatever it takes beside what is computed.
    if (n.op && n.op->gradient) return i > 0;
    return in_mask(ops::row_of(n).traits.weights, i);
}
// Whether what it makes holds the same numbers as its first input, some of them perhaps more than once, or rounded.
inline bool passes_weights_on(const node& n) {
    const motion moves = ops::row_of(n).traits.moves;
    const op_role role = ops::row_of(n).traits.role;
    return role == op_role::quantize || role == op_role::dequantize || moves == motion::same || moves == motion::permute || moves == motion::repeat;
}

// Whether what changes input i of a node changes what it makes by degrees. What has no gradient at all is refused later, by name.
inline bool may_flow_through(const node& n, std::size_t i, const gradient_row* row) {
    const op_role role = ops::row_of(n).traits.role;
    if (!row || role == op_role::quantize || role == op_role::dequantize) return true;
    return row->gradient && (!row->flows || row->flows(n, i));
}

}  // namespace detail

GRAFT_INLINE std::vector<parameter> parameters_of(const graph& g) {
    std::vector<char> weight(g.values.size(), 0), flows(g.values.size(), 0);
    std::vector<char> of_inputs(g.values.size(), 0);
    for (value_id id : g.outputs) flows[id] = 1;
    for (value_id id : g.inputs) of_inputs[id] = g.at(id).constant ? 0 : 1;
    detail::mark_dependents(g, g.nodes.size(), of_inputs);
    // Backwards, so that what a view is used for is known before the view is met.
    std::vector<int> reader(g.values.size(), -1);
    std::vector<value_id> captured;
    for (std::size_t k = g.nodes.size(); k-- > 0;) {
        const node& n = g.nodes[k];
        if (std::none_of(n.outputs.begin(), n.outputs.end(), [&](value_id id) { return id != no_value && flows[id]; })) continue;
        captured.clear();
        detail::append_captures(n, captured);
        for (value_id id : captured) flows[id] = 1;
        const gradient_row* row = n.op && n.op->gradient ? nullptr : ops::find_gradient(n);
        // A normalisation of what no input reaches standardises weights.
        const bool standardises = ops::row_of(n).traits.statistics && !n.inputs.empty() && n.inputs[0] != no_value && !of_inputs[n.inputs[0]];
        const bool passes = (standardises || detail::passes_weights_on(n)) && n.outputs[0] != no_value && weight[n.outputs[0]];
        for (std::size_t i = 0; i < n.inputs.size(); ++i) {
            const value_id id = n.inputs[i];
            if (id == no_value || !detail::may_flow_through(n, i, row)) continue;
            flows[id] = 1;
            if (!detail::is_weight_slot(g, n, i) && !(i == 0 && passes)) continue;
            weight[id] = 1;
            reader[id] = static_cast<int>(k);
        }
    }
    std::vector<parameter> found;
    for (std::size_t i = 0; i < g.values.size(); ++i) {
        const value& v = g.values[i];
        if (!weight[i] || !v.constant || !detail::may_be_weight(v) || (v.type != dtype::float32 && v.type != dtype::float64)) continue;
        parameter p;
        p.id = static_cast<value_id>(i);
        p.name = v.name;
        p.node = reader[i];
        found.push_back(std::move(p));
    }
    std::stable_sort(found.begin(), found.end(), [](const parameter& a, const parameter& b) { return a.node < b.node; });
    return found;
}

GRAFT_INLINE std::vector<value_id> running_statistics(const graph& g, const std::vector<value_id>& learning) {
    std::vector<value_id> found;
    for (const node& n : g.nodes) {
        const std::uint8_t statistics = ops::row_of(n).traits.statistics;
        if (!statistics || n.inputs.size() < 5 || std::find(learning.begin(), learning.end(), n.inputs[1]) == learning.end()) continue;
        for (std::size_t i = 0; i < n.inputs.size(); ++i)
            if (in_mask(statistics, i) && std::find(found.begin(), found.end(), n.inputs[i]) == found.end()) found.push_back(n.inputs[i]);
    }
    return found;
}

GRAFT_END_NAMESPACE
#endif
