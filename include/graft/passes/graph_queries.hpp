// What passes ask of a graph's values.
#pragma once

#include "../graph/captures.hpp"
#include "../graph/graph.hpp"

#include <algorithm>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The one input that a caller has to give; null where there is none, or more than one.
inline const value* only_input(const graph& g) {
    const value* found = nullptr;
    for (value_id id : g.inputs) {
        const value& v = g.at(id);
        if (v.constant) continue;
        if (found) return nullptr;
        found = &v;
    }
    return found;
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

// Marks what the first `nodes` nodes make of values that are marked.
inline void mark_dependents(const graph& g, std::size_t nodes, std::vector<char>& depends) {
    for (std::size_t i = 0; i < nodes; ++i) {
        bool any = false;
        for (value_id id : g.nodes[i].inputs) any |= id != no_value && depends[id];
        for (value_id id : g.nodes[i].outputs)
            if (id != no_value && any) depends[id] = 1;
    }
}

// Weights of float32 that no caller can replace.
inline bool is_weight(const graph& g, value_id id) {
    return id != no_value && g.at(id).constant && g.at(id).constant.type() == dtype::float32 && g.at(id).constant.elements() > 0 &&
           std::find(g.inputs.begin(), g.inputs.end(), id) == g.inputs.end();
}

// Whether a tensor holds one number, however often: a scale of ones, a shift of zeros.
inline bool is_uniform(const tensor& t) {
    for (std::int64_t i = 1; t && i < t.elements(); ++i)
        if (element_as_double(t.type(), t.raw(), i) != element_as_double(t.type(), t.raw(), 0)) return false;
    return static_cast<bool>(t);
}

inline bool is_named(const node& n, const char* op_type) { return (n.domain.empty() || n.domain == "ai.onnx") && n.op_type == op_type; }

}  // namespace detail
GRAFT_END_NAMESPACE
