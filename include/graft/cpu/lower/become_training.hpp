// Binds a node to an operator that only training steps have.
#pragma once

#include "../../ops/gradients.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Attributes stay.
inline void become_training(node& n, const char* op, place_id on) {
    n.place = on;
    n.op_type = op;
    n.domain = "graft";
    n.version = newest_opset;
    n.op = ops::find_training_op("graft", op, newest_opset);
}

// A new one that makes `to` of `from`.
inline node training_node(const graph& g, const char* op, place_id on, value_id from, value_id to) {
    node n;
    n.name = g.at(to).name;
    become_training(n, op, on);
    n.inputs = {from};
    n.outputs = {to};
    return n;
}

}  // namespace detail
GRAFT_END_NAMESPACE
