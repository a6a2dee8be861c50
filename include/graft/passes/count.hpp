// Counts the arithmetic of a graph whose shapes are known.
#pragma once

#include "../ops/ops.hpp"

GRAFT_BEGIN_NAMESPACE

/// Multiply-adds of the convolutions and matrix products of a graph with known shapes, as papers count them; other operators count
/// nothing. Nodes whose shapes only a run can tell count nothing either.
std::int64_t count_multiply_adds(const graph& g);

/// The same, and each node is told its own (node::multiply_adds), which it keeps when it is lowered.
std::int64_t note_multiply_adds(graph& g);

/// The same of the nodes that ask for a place.
std::int64_t count_multiply_adds(const graph& g, place_id place);

/// Multiply-adds of one node with known shapes: 0 where it is neither a convolution nor a matrix product.
std::int64_t count_multiply_adds(const op_context& c);

/// Elements that the reference kernel of a node reads, writes or multiplies, at most; INT64_MAX where that overflows.
std::int64_t count_work(const op_context& c);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
GRAFT_BEGIN_NAMESPACE
GRAFT_INLINE std::int64_t count_multiply_adds(const op_context& c) {
    const work_function work = ops::row_of(c.n).traits.work;
    return work && c.has(0) && c.outputs > 0 && c.out[0].type != dtype::undefined ? work(c) : 0;
}
namespace detail {
// Calls told(i, multiply-adds of node i) for the nodes at a place; below 0: for all nodes.
template <class Told>
GRAFT_COLD std::int64_t multiply_adds_at(const graph& g, int place, const Told& told) {
    std::int64_t total = 0;
    std::vector<tensor_view> in, out;
    const limits none;
    const auto views = [&g](const std::vector<value_id>& ids, std::vector<tensor_view>& to) {
        to.clear();
        for (value_id id : ids) {
            const value* v = id == no_value ? nullptr : &g.at(id);
            to.push_back(v && v->has_shape && v->extents.known() ? tensor_view{v->type, v->extents, nullptr} : tensor_view{});
        }
    };
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
        const node& n = g.nodes[i];
        if (place >= 0 && n.place != place) continue;
        views(n.inputs, in);
        views(n.outputs, out);
        const std::int64_t own = std::max<std::int64_t>(
            0, count_multiply_adds(op_context{n, in.data(), static_cast<int>(in.size()), out.data(), static_cast<int>(out.size()), none}));
        told(i, own);
        total += own;
    }
    return total;
}
}  // namespace detail
GRAFT_INLINE std::int64_t count_multiply_adds(const graph& g) {
    return detail::multiply_adds_at(g, -1, [](std::size_t, std::int64_t) {});
}
GRAFT_INLINE std::int64_t note_multiply_adds(graph& g) {
    return detail::multiply_adds_at(g, -1, [&](std::size_t i, std::int64_t own) { g.nodes[i].multiply_adds = own; });
}
GRAFT_INLINE std::int64_t count_multiply_adds(const graph& g, place_id place) {
    return detail::multiply_adds_at(g, place, [](std::size_t, std::int64_t) {});
}
GRAFT_INLINE std::int64_t count_work(const op_context& c) {
    std::int64_t read = 0, made = 0;
    for (int i = 0; i < c.inputs; ++i)
        if (c.has(i)) read = checked_add(read, elements_of(c.in[i].extents));
    for (int i = 0; i < c.outputs; ++i)
        if (c.out[i].type != dtype::undefined) made = checked_add(made, elements_of(c.out[i].extents));
    if (c.n.op->flags & op_flag::allocates) made = read;  // what only its run can tell
    std::int64_t work = (c.n.op->flags & op_flag::shape_only) ? made : checked_add(read, made);
    if (c.n.op->flags & op_flag::combines) {
        const std::int64_t products = count_multiply_adds(c);
        const std::int64_t combined = products ? products : checked_mul(std::max<std::int64_t>(read, 1), std::max<std::int64_t>(made, 1));
        work = combined < 0 ? -1 : checked_add(work, combined);
    }
    return work < 0 ? INT64_MAX : work;
}
GRAFT_END_NAMESPACE
#endif
