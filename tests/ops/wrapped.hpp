// Test problems between other nodes, so that what an operator reads and writes lies inside a network, where reduced precisions apply.
#pragma once

#include "problems.hpp"

#include <cstring>
#include <utility>

namespace problems {

inline graft::tensor copy_of(const graft::tensor& t) {
    auto made = graft::tensor::make(t.type(), t.shape());
    if (!made.ok()) return {};
    if (t.bytes()) std::memcpy(made->raw(), t.raw(), t.bytes());
    return made.value();
}

// Puts a Neg before each float32 input and behind the first output, so that what the operator reads and writes stays inside the
// network, where reduced precisions apply.
inline void wrap(problem& p, bool output_too) {
    graft::graph& g = p.g;
    const auto negation = [](graft::value_id from, graft::value_id to) {
        graft::node n;
        n.op_type = "Neg";
        n.inputs = {from};
        n.outputs = {to};
        return n;
    };
    std::vector<graft::node> nodes;
    for (std::size_t i = 0; i < g.inputs.size(); ++i) {
        const graft::value_id inner = g.inputs[i];
        if (g.at(inner).type != graft::dtype::float32) continue;
        const graft::value_id outer = g.add_value("outer" + std::to_string(i));
        const graft::value& is = g.at(inner);
        graft::value& v = g.at(outer);
        v.type = is.type, v.has_shape = true, v.extents = is.extents;
        g.inputs[i] = outer;
        nodes.push_back(negation(outer, inner));
        p.inputs[i] = copy_of(p.inputs[i]);
        float* x = p.inputs[i].data<float>();
        for (std::int64_t k = 0; k < p.inputs[i].elements(); ++k) x[k] = -x[k];
    }
    nodes.insert(nodes.end(), g.nodes.begin(), g.nodes.end());
    if (output_too) {
        const graft::value_id inner = g.outputs[0], outer = g.add_value("outer_y");
        nodes.push_back(negation(inner, outer));
        g.outputs[0] = outer;
    }
    g.nodes = std::move(nodes);
}

}  // namespace problems
