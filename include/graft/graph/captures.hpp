// What the bodies of If, Loop and Scan read of the graph around them.
#pragma once

#include "graph.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Values that the bodies of a node read from around it, in the order in which a runner is given them.
inline void append_captures(const node& n, std::vector<value_id>& ids) {
    for (const attribute& a : n.attributes)
        if (a.graph)
            for (const capture& c : a.graph->captures) ids.push_back(c.outer);
}

// What the bodies of a node capture, after values around it were renamed. Bodies are shared, so they are copied first.
inline void rename_captures(node& n, const std::vector<value_id>& map) {
    for (attribute& a : n.attributes)
        if (a.graph && !a.graph->captures.empty()) {
            auto copy = std::make_shared<graph>(*a.graph);
            for (capture& c : copy->captures) c.outer = map[c.outer];
            a.graph = std::move(copy);
        }
}

}  // namespace detail
GRAFT_END_NAMESPACE
