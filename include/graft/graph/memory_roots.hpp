// Which values may share memory: the one rule that whoever writes over an input, or orders writers behind readers, has to ask.
#pragma once

#include "op.hpp"

#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Of each value the one whose memory it may lie in: a view shares that of what it looks at, every other value has its own. Nodes are in
// running order.
inline std::vector<value_id> memory_roots(const graph& g) {
    std::vector<value_id> roots(g.values.size());
    for (std::size_t i = 0; i < roots.size(); ++i) roots[i] = static_cast<value_id>(i);
    for (const node& n : g.nodes)
        if (n.op && (n.op->flags & op_flag::view) && !n.inputs.empty() && n.inputs[0] != no_value && !n.outputs.empty() && n.outputs[0] != no_value)
            roots[n.outputs[0]] = roots[n.inputs[0]];
    return roots;
}

// The roots of a node's inputs, in their order.
inline std::vector<value_id> memory_of_inputs(const node& n, const std::vector<value_id>& roots) {
    std::vector<value_id> memory;
    for (value_id id : n.inputs) memory.push_back(id == no_value ? no_value : roots[id]);
    return memory;
}

}  // namespace detail
GRAFT_END_NAMESPACE
