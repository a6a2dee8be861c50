// The parameters of a network: which of a graph's constants are weights, and which of them learn.
#pragma once

#include "../graph/op.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// A constant of a graph that training may change.
struct parameter {
    value_id id = no_value;
    std::string name;       ///< of the constant, as in the file
    int node = 0;           ///< the first node that reads it: parameters are in the order of those, the input's first
    bool learns = true;
    double rate = 1;        ///< multiplies the learning rate; see scale_rates and decay_rates
};

/// The weights of a graph, in the order in which the network reads them: float constants with more than one element that a layer takes
/// as weight, bias, scale or shift, directly or through Reshape, Transpose, Identity and their like, and float terms and factors of
/// element-wise operators; and what an operator of an app's own with a gradient takes behind its first input. Numbers such as the 0.5 of a GELU, statistics of normalisations and quantisation scales are none.
std::vector<parameter> parameters_of(const graph& g);

/// The running statistics (mean, variance) of the BatchNormalization nodes whose scale is among `learning`, in the order of the nodes.
std::vector<value_id> running_statistics(const graph& g, const std::vector<value_id>& learning);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Whether input i of a node is a weight of it.
inline bool is_weight_slot(const graph& g, const node& n, std::size_t i) {
    const value& given = g.values[static_cast<std::size_t>(n.inputs[i])];
    // One number is a formula's, not the network's; what lies behind a Transpose may have no shape before the network is planned.
    const bool many = !given.has_shape || given.extents.elements() > 1;
    // Of an operator of the app's own that has a gradient, whatever it takes beside what is computed.
    if (n.op && n.op->gradient) return i > 0 && many;
    if (!n.domain.empty()) return false;
    struct slots {
        const char* op;
        unsigned mask;
    };
    static constexpr slots known[] = {
        {"Conv", 6}, {"ConvTranspose", 6}, {"DeformConv", 10}, {"Gemm", 7}, {"MatMul", 3}, {"BatchNormalization", 6}, {"InstanceNormalization", 6},
        {"GroupNormalization", 6}, {"LayerNormalization", 6}, {"RMSNormalization", 2}, {"PRelu", 2}, {"Gather", 1}, {"Einsum", 255},
        {"Add", 3}, {"Sub", 3}, {"Mul", 3}, {"Div", 3}, {"Sum", 255}, {"Concat", 255},
    };
    for (const slots& s : known)
        if (n.op_type == s.op) {
            return i <= 7 && (s.mask >> i & 1) && many;
        }
    return false;
}
inline bool passes_weights_on(const node& n) {
    static constexpr const char* names[] = {"Identity", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile", "Cast"};
    if (!n.domain.empty()) return false;
    for (const char* name : names)
        if (n.op_type == name) return true;
    return false;
}

}  // namespace detail

GRAFT_INLINE std::vector<parameter> parameters_of(const graph& g) {
    std::vector<char> weight(g.values.size(), 0);
    // Backwards, so that what a view is used for is known before the view is met.
    std::vector<int> reader(g.values.size(), -1);
    for (std::size_t k = g.nodes.size(); k-- > 0;) {
        const node& n = g.nodes[k];
        const bool passes = detail::passes_weights_on(n) && n.outputs[0] != no_value && weight[static_cast<std::size_t>(n.outputs[0])];
        for (std::size_t i = 0; i < n.inputs.size(); ++i) {
            const value_id id = n.inputs[i];
            if (id == no_value) continue;
            const bool taken = detail::is_weight_slot(g, n, i) || (i == 0 && passes);
            if (!taken) continue;
            weight[static_cast<std::size_t>(id)] = 1;
            reader[static_cast<std::size_t>(id)] = static_cast<int>(k);
        }
    }
    std::vector<parameter> found;
    for (std::size_t i = 0; i < g.values.size(); ++i) {
        const value& v = g.values[i];
        if (!weight[i] || !v.constant || v.constant.elements() < 2 || (v.type != dtype::float32 && v.type != dtype::float64)) continue;
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
        if (n.op_type != "BatchNormalization" || !n.domain.empty() || n.inputs.size() < 5) continue;
        if (std::find(learning.begin(), learning.end(), n.inputs[1]) == learning.end()) continue;
        for (std::size_t i : {std::size_t(3), std::size_t(4)})
            if (std::find(found.begin(), found.end(), n.inputs[i]) == found.end()) found.push_back(n.inputs[i]);
    }
    return found;
}

GRAFT_END_NAMESPACE
#endif
