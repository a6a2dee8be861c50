// How each operator carries a batch: where its outputs hold the samples once it is told of its inputs. By a rule every slice of the output
// that belongs to a sample is what the operator makes of that sample's slices alone; whatever has no such rule is a conflict.
#pragma once

#include "../ops/einsum.hpp"
#include "batch_carrier.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace detail {

using batch_rule = bool (*)(batch_carrier&);

// Axes counted from the front; false where one is out of range.
inline bool count_from_front(std::vector<std::int64_t>& axes, int rank) {
    bool fits = true;
    for (std::int64_t& a : axes) a += a < 0 ? rank : 0, fits &= a >= 0 && a < rank;
    return fits;
}
inline bool is_among(const std::vector<std::int64_t>& axes, std::int64_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

// Inputs that meet by broadcasting: all that hold samples hold them along one axis, counted from the right. `first` to `last` are those inputs.
inline bool carry_broadcast(batch_carrier& c, int first, int last, int& from_right, batch_axis& where) {
    std::int64_t extent = 0;
    from_right = 0;
    for (int i = first; i < last; ++i) {
        if (!c.carries(i)) continue;
        const int here = c.state(i).axis - c.extents(i).rank();
        if (from_right == 0) from_right = here, where = c.state(i), extent = c.extent(i);
        if (here != from_right || c.state(i).outer != where.outer || c.extent(i) != extent) return c.conflict("its inputs hold the samples along different axes");
    }
    for (int i = first; i < last && from_right; ++i) {
        if (!c.has(i) || c.carries(i)) continue;
        const int axis = c.extents(i).rank() + from_right;
        if (axis >= 0 && !c.fits_beside(i, axis, extent, where.outer)) return false;
    }
    return true;
}

inline bool carry_elementwise(batch_carrier& c) {
    int from_right = 0;
    batch_axis where;
    // The second input of CastLike only names a type.
    if (!carry_broadcast(c, 0, c.n.op_type == "CastLike" ? 1 : c.inputs(), from_right, where)) return false;
    return from_right == 0 || c.answer_all({c.output_extents().rank() + from_right, where.outer});
}

// The samples stay along the first axis, and each of its entries is computed apart.
template <unsigned Data>
inline bool carry_first_axis(batch_carrier& c) {
    if (!c.only(Data)) return false;
    batch_axis where;
    std::int64_t extent = 0;
    for (int i = 0; i < c.inputs(); ++i)
        if (c.carries(i)) where = c.state(i), extent = c.extent(i);
    for (int i = 0; i < c.inputs() && i < 32; ++i) {
        if (!c.has(i) || !(Data >> i & 1)) continue;
        if (c.carries(i) && (c.state(i).axis != 0 || c.state(i) != where)) return c.conflict("it takes the samples along the first axis, and they lie elsewhere");
        // Where one entry stood for all, it is repeated for each.
        if (!c.carries(i) && c.extents(i).rank() > 0 && !c.one_for_each(i, 0, extent, where.outer)) return false;
    }
    return c.answer_all(where);
}

inline bool carry_pool(batch_carrier& c) {
    if (c.wants(1)) return c.conflict("the places of its largest elements count over all samples");
    if (!c.only(1)) return false;
    if (c.state(0).axis > 1) return c.conflict("it pools over the samples");
    return c.answer(0, c.state(0));
}

inline bool carry_batch_norm(batch_carrier& c) {
    if (c.integer("training_mode", 0)) return c.conflict("it takes the statistics of the batch");
    return carry_first_axis<1>(c);
}

// Something is done along `axes` of input 0; the samples have to lie along another.
inline bool carry_beside(batch_carrier& c, std::vector<std::int64_t> axes) {
    if (!c.only(1)) return false;
    if (!count_from_front(axes, c.extents(0).rank())) return c.conflict("its axis is out of range");
    if (is_among(axes, c.state(0).axis)) return c.conflict("it works along the axis of the samples");
    return c.answer_all(c.state(0));
}
inline bool carry_axis_last(batch_carrier& c) { return carry_beside(c, {c.integer("axis", -1)}); }
inline bool carry_axis_first(batch_carrier& c) { return carry_beside(c, {c.integer("axis", 0)}); }
inline bool carry_matrix(batch_carrier& c) { return carry_beside(c, {-2, -1}); }

// All axes from one on are normalised together.
inline bool carry_from_axis(batch_carrier& c, std::int64_t otherwise) {
    if (!c.only(1)) return false;
    std::int64_t axis = c.integer("axis", otherwise);
    axis += axis < 0 ? c.extents(0).rank() : 0;
    if (c.state(0).axis >= axis) return c.conflict("it normalises over the samples");
    return c.answer_all(c.state(0));
}
inline bool carry_layer_norm(batch_carrier& c) { return carry_from_axis(c, -1); }
inline bool carry_softmax(batch_carrier& c) { return c.n.version < 13 ? carry_from_axis(c, 1) : carry_axis_last(c); }
inline bool carry_mean_variance(batch_carrier& c) {
    std::vector<std::int64_t> axes;
    if (!c.integers("axes", -1, axes)) axes = {0, 2, 3};
    return carry_beside(c, axes);
}
inline bool carry_cumulative(batch_carrier& c) {
    std::vector<std::int64_t> axis;
    if (!c.integers("axis", 1, axis)) return c.conflict("its axis depends on contents");
    return carry_beside(c, axis);
}

// Axes that are summed over go, or keep an extent of 1.
inline bool carry_dropping(batch_carrier& c, std::vector<std::int64_t> axes, bool keep) {
    if (!carry_beside(c, axes)) return false;
    count_from_front(axes, c.extents(0).rank());
    batch_axis where = c.state(0);
    int gone = 0;
    for (int a = 0; a < where.axis; ++a) gone += is_among(axes, a);
    if (!keep) where.axis -= gone;
    return c.answer_all(where);
}
inline bool carry_reduce(batch_carrier& c) {
    std::vector<std::int64_t> axes;
    if (c.has(1) && !c.integers("axes", 1, axes)) return c.conflict("its axes depend on contents");
    c.integers("axes", 1, axes);
    if (axes.empty() && c.integer("noop_with_empty_axes", 0)) return c.answer(0, c.state(0));
    if (axes.empty()) return c.conflict("it reduces over the samples");
    return carry_dropping(c, axes, c.integer("keepdims", 1) == 1);
}
inline bool carry_arg(batch_carrier& c) { return carry_dropping(c, {c.integer("axis", 0)}, c.integer("keepdims", 1) == 1); }

inline bool carry_transpose(batch_carrier& c) {
    std::vector<std::int64_t> order;
    const int rank = c.extents(0).rank();
    if (!c.integers("perm", -1, order))
        for (int a = rank; a-- > 0;) order.push_back(a);
    for (int a = 0; a < static_cast<int>(order.size()); ++a)
        if (order[static_cast<std::size_t>(a)] == c.state(0).axis) return c.answer(0, {a, c.state(0).outer});
    return c.conflict("its order of axes is not legal");
}

inline bool carry_concat(batch_carrier& c) {
    batch_axis where;
    std::int64_t extent = 0;
    for (int i = 0; i < c.inputs(); ++i) {
        if (!c.carries(i)) continue;
        if (where.none()) where = c.state(i), extent = c.extent(i);
        if (c.state(i) != where || c.extent(i) != extent) return c.conflict("its inputs hold the samples along different axes");
    }
    std::vector<std::int64_t> axis{c.integer("axis", 1)};
    if (!count_from_front(axis, c.output_extents().rank()) || axis[0] == where.axis) return c.conflict("it joins along the axis of the samples");
    for (int i = 0; i < c.inputs(); ++i) {
        if (c.has(i) && !c.carries(i) && !c.one_for_each(i, where.axis, extent, where.outer)) return false;
    }
    return c.answer(0, where);
}

inline bool carry_slice(batch_carrier& c) {
    if (!c.only(1)) return false;
    std::vector<std::int64_t> starts, ends, axes, steps;
    if (!c.integers("starts", 1, starts) || !c.integers("ends", 2, ends)) return c.conflict("what it takes depends on contents");
    if (!c.integers("axes", 3, axes))
        for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
    c.integers("steps", 4, steps);
    if (!count_from_front(axes, c.extents(0).rank())) return c.conflict("its axis is out of range");
    for (std::size_t i = 0; i < axes.size(); ++i) {
        if (axes[i] != c.state(0).axis) continue;
        if ((i < steps.size() && steps[i] != 1) || c.output_extents()[c.state(0).axis] != c.extent(0)) return c.conflict("it takes some of the samples");
        c.change = batch_change::slice;
    }
    return c.answer(0, c.state(0));
}

inline bool carry_pad(batch_carrier& c) {
    if (!c.only(1)) return false;
    // What it adds along the axis of the samples shows in the extents, but for as much taken off on the other side.
    std::vector<std::int64_t> pads, axes;
    if (!c.integers("pads", 1, pads)) return c.conflict("what it adds depends on contents");
    if (!c.has(3) || !c.integers("", 3, axes))
        for (int a = 0; a < c.extents(0).rank(); ++a) axes.push_back(a);
    if (!count_from_front(axes, c.extents(0).rank()) || pads.size() != 2 * axes.size()) return c.conflict("its pads are not legal");
    for (std::size_t i = 0; i < axes.size(); ++i)
        if (axes[i] == c.state(0).axis && (pads[i] || pads[i + axes.size()])) return c.conflict("it adds to the samples");
    return c.answer(0, c.state(0));
}

inline bool carry_expand(batch_carrier& c) {
    if (!c.only(1)) return false;
    const int axis = c.state(0).axis + c.output_extents().rank() - c.extents(0).rank();
    if (!c.value_in(1).constant) return c.conflict("its shape depends on contents");
    if (c.output_extents()[axis] != c.extent(0)) return c.conflict("it broadcasts the axis of the samples");
    c.change = batch_change::expand;
    return c.answer(0, {axis, c.state(0).outer});
}

// The old index becomes the inner one.
inline bool carry_tile(batch_carrier& c) {
    std::vector<std::int64_t> repeats;
    if (!c.only(1)) return false;
    if (!c.integers("", 1, repeats) || static_cast<int>(repeats.size()) != c.extents(0).rank()) return c.conflict("its repeats depend on contents");
    const batch_axis where = c.state(0);
    return c.answer(0, {where.axis, where.outer * repeats[static_cast<std::size_t>(where.axis)]});
}

inline bool carry_resize(batch_carrier& c) {
    if (!c.only(1)) return false;
    const int axis = c.state(0).axis;
    if (c.output_extents()[axis] != c.extent(0)) return c.conflict("it resizes along the samples");
    std::vector<std::int64_t> sizes, axes;
    const bool sized = c.n.op_type == "Resize" && c.has(3) && c.value_in(3).extents.elements() > 0;
    if (sized && !c.integers("", 3, sizes)) return c.conflict("its sizes depend on contents");
    if (!c.integers("axes", -1, axes))
        for (int a = 0; a < c.extents(0).rank(); ++a) axes.push_back(a);
    if (!count_from_front(axes, c.extents(0).rank())) return c.conflict("its axis is out of range");
    if (sized && is_among(axes, axis)) c.change = batch_change::sizes;
    return c.answer(0, c.state(0));
}

// The product of two operands of numpy's matmul, at inputs a and b.
inline bool carry_product(batch_carrier& c, int a, int b) {
    const int rank[] = {c.extents(a).rank(), c.extents(b).rank()}, out_rank = c.output_extents().rank();
    const bool vector[] = {rank[0] == 1, rank[1] == 1};
    if (c.carries(a) && (vector[0] || c.state(a).axis == rank[0] - 1)) return c.conflict("it sums over the samples");
    if (c.carries(b) && (vector[1] || c.state(b).axis == rank[1] - 2)) return c.conflict("it sums over the samples");
    const bool row = c.carries(a) && c.state(a).axis == rank[0] - 2, column = c.carries(b) && c.state(b).axis == rank[1] - 1;
    if (row || column) {
        if (c.carries(a) && c.carries(b)) return c.conflict("its inputs hold the samples along different axes");
        const int axis = column ? out_rank - 1 : out_rank - (vector[1] ? 1 : 2);
        return c.answer(0, {axis, c.state(row ? a : b).outer});
    }
    // Along the axes of many products: both have them at one place from the right.
    int from_right = 0;
    batch_axis where;
    std::int64_t extent = 0;
    for (int i : {a, b}) {
        if (!c.carries(i)) continue;
        const int here = c.state(i).axis - c.extents(i).rank();
        if (from_right == 0) from_right = here, where = c.state(i), extent = c.extent(i);
        if (here != from_right || c.state(i).outer != where.outer || c.extent(i) != extent) return c.conflict("its inputs hold the samples along different axes");
    }
    for (int i : {a, b}) {
        const int axis = c.extents(i).rank() + from_right;
        if (!c.carries(i) && axis >= 0 && !c.fits_beside(i, axis, extent, where.outer)) return false;
    }
    const int shift = (vector[0] ? 1 : 0) + (vector[1] ? 1 : 0);  // axes that the output lacks
    return c.answer(0, {out_rank + from_right + shift, where.outer});
}
inline bool carry_matmul(batch_carrier& c) { return c.only(3) && carry_product(c, 0, 1); }
inline bool carry_qlinear_matmul(batch_carrier& c) { return c.only(9) && carry_product(c, 0, 3); }

inline bool carry_gemm(batch_carrier& c) {
    const bool a = c.carries(0), b = c.carries(1);
    if (a && c.state(0).axis != (c.integer("transA", 0) ? 1 : 0)) return c.conflict("it sums over the samples");
    if (b && c.state(1).axis != (c.integer("transB", 0) ? 0 : 1)) return c.conflict("it sums over the samples");
    if (a && b) return c.conflict("its inputs hold the samples along different axes");
    batch_axis where{a ? 0 : 1, c.state(a ? 0 : 1).outer};
    if (!a && !b) where = {c.state(2).axis + 2 - c.extents(2).rank(), c.state(2).outer};
    if (!c.has(2)) return c.answer(0, where);
    const int axis = where.axis + c.extents(2).rank() - 2;
    const std::int64_t extent = c.output_extents()[where.axis];
    if (c.carries(2) && (c.state(2).axis != axis || c.state(2).outer != where.outer || c.extent(2) != extent)) return c.conflict("its inputs hold the samples along different axes");
    if (!c.carries(2) && axis >= 0 && !c.fits_beside(2, axis, extent, where.outer)) return false;
    return c.answer(0, where);
}

inline bool carry_einsum(batch_carrier& c) {
    std::vector<tensor_view> in(c.n.inputs.size());
    for (int i = 0; i < c.inputs(); ++i) in[static_cast<std::size_t>(i)] = {c.value_in(i).type, c.extents(i), nullptr};
    tensor_view made;
    const limits none;
    const op_context context{c.n, in.data(), c.inputs(), &made, 1, none};
    ops::einsum_plan plan;
    if (!ops::plan_einsum(context, plan).ok()) return c.conflict("its equation is not legal");
    int label = -1;
    batch_axis where;
    std::int64_t extent = 0;
    const auto name = [&](int i) { return static_cast<int>(plan.terms[static_cast<std::size_t>(i)].name[c.state(i).axis]); };
    for (int i = 0; i < c.inputs(); ++i) {
        if (!c.carries(i)) continue;
        if (label < 0) label = name(i), where = c.state(i), extent = c.extent(i);
        if (name(i) != label || c.state(i).outer != where.outer || c.extent(i) != extent) return c.conflict("its inputs hold the samples along different axes");
    }
    for (int i = 0; i < c.inputs(); ++i) {
        const ops::einsum_term& term = plan.terms[static_cast<std::size_t>(i)];
        int times = 0;
        for (int a = 0; a < term.rank; ++a) times += term.name[a] == label;
        if (times > 1) return c.conflict("it takes a diagonal of the samples");
        const int axis = term.find(static_cast<std::uint8_t>(label));
        if (!c.carries(i) && axis >= 0 && !c.fits_beside(i, axis, extent, where.outer)) return false;
    }
    const int axis = plan.output.find(static_cast<std::uint8_t>(label));
    if (axis < 0) return c.conflict("it sums over the samples");
    return c.answer(0, {axis, where.outer});
}

// RNN, GRU, LSTM: X, W, R, B, sequence_lens, initial states.
inline bool carry_recurrent(batch_carrier& c) {
    const bool batch_first = c.integer("layout", 0) != 0;
    const int axis = batch_first ? 0 : 1;
    if (!c.only(1 | 32 | 64) || !c.carries(0) || c.state(0).axis != axis) return c.conflict(c.why.empty() ? "its samples do not lie along the batch" : c.why);
    const batch_axis where = c.state(0);
    for (int i : {4, 5, 6}) {
        if (!c.has(i)) continue;
        const int along = i == 4 ? 0 : axis;
        if (c.carries(i) && (c.state(i).axis != along || c.state(i).outer != where.outer)) return c.conflict("its inputs hold the samples along different axes");
        if (!c.carries(i) && !c.one_for_each(i, along, c.extent(0), where.outer)) return false;
    }
    c.answer(0, {batch_first ? 0 : 2, where.outer});
    for (int i : {1, 2}) c.answer(i, {axis, where.outer});
    return true;
}

inline bool carry_quantize(batch_carrier& c) {
    if (!c.only(1)) return false;
    if (c.integer("block_size", 0)) return c.conflict("it has scales by blocks");
    return c.extents(1).elements() > 1 ? carry_beside(c, {c.integer("axis", 1)}) : c.answer(0, c.state(0));
}

// Where the samples may lie in a view of input 0, best first: alone along the axis where they were (`natural`), alone elsewhere, within an axis.
inline void list_places(batch_carrier& c, int natural) {
    const shape& to = c.output_extents();
    const std::int64_t before = c.before(0);
    c.natural = natural;
    struct ranked {
        int tier;
        batch_axis where;
    };
    std::vector<ranked> found;
    std::int64_t prefix = 1;
    for (int a = 0; a < to.rank() && prefix > 0 && prefix <= before; prefix *= to[a], ++a) {
        if (before % prefix) continue;
        const std::int64_t outer = before / prefix;
        if (to[a] < 1 || to[a] % (outer * c.samples)) continue;
        const bool alone = to[a] == c.samples && outer == 1;
        const int tier = alone ? (a == natural ? 0 : 1) : 2 + 2 * (a == to.rank() - 1) + (outer != 1);
        found.push_back({tier, {a, outer}});
    }
    std::stable_sort(found.begin(), found.end(), [](const ranked& a, const ranked& b) { return a.tier < b.tier; });
    for (const ranked& r : found) c.options.push_back(r.where);
}

inline bool carry_view(batch_carrier& c) {
    if (!c.only(1)) return false;
    const shape &from = c.extents(0), &to = c.output_extents();
    if (from.elements() < 1) return c.conflict("it is empty");
    int natural = c.state(0).axis;
    std::vector<std::int64_t> axes;
    if (c.n.op_type == "Flatten") natural = natural < c.integer("axis", 1) ? 0 : 1;
    if (c.n.op_type == "Squeeze") {
        if (!c.integers("axes", 1, axes))
            for (int a = 0; a < from.rank(); ++a)
                if (from[a] == 1) axes.push_back(a);
        count_from_front(axes, from.rank());
        int gone = 0;
        for (int a = 0; a < natural; ++a) gone += is_among(axes, a);
        natural = is_among(axes, natural) ? -1 : natural - gone;
    }
    if (c.n.op_type == "Unsqueeze" && c.integers("axes", 1, axes)) {
        count_from_front(axes, to.rank());
        for (int a = 0; a <= natural; ++a) natural += is_among(axes, a);
    }
    list_places(c, natural);
    c.change = batch_change::reshape;
    return !c.options.empty() || c.conflict("the samples have no place in its shape " + text(to));
}

inline bool carry_gather(batch_carrier& c) {
    if (!c.only(3)) return false;
    if (c.carries(0) && c.carries(1)) return c.conflict("its indices depend on the sample");
    std::vector<std::int64_t> axis{c.integer("axis", 0)}, indices;
    if (!count_from_front(axis, c.extents(0).rank())) return c.conflict("its axis is out of range");
    const int along = static_cast<int>(axis[0]);
    if (c.carries(1)) return c.answer(0, {along + c.state(1).axis, c.state(1).outer});
    if (along != c.state(0).axis) return c.answer(0, {c.state(0).axis + (along < c.state(0).axis ? c.extents(1).rank() - 1 : 0), c.state(0).outer});
    // Along the samples' own axis, whose index is (sample, inner): within each of them.
    if (c.state(0).outer != 1 || c.samples != 1) return c.conflict("it takes some of the samples");
    if (!c.integers("", 1, indices)) return c.conflict("its indices depend on contents");
    std::int64_t place = 0;
    bool all = static_cast<std::int64_t>(indices.size()) == c.extent(0);
    for (const std::int64_t i : indices) all &= i == place++;
    list_places(c, c.extents(1).rank() ? along : -1);
    c.change = all ? batch_change::reshape : batch_change::gather;
    return !c.options.empty() || c.conflict("the samples have no place in its shape " + text(c.output_extents()));
}

// Indices of whole slices: into axes behind which the samples lie, or apart for each sample.
inline bool carry_gather_nd(batch_carrier& c) {
    if (!c.only(3)) return false;
    const std::int64_t batch_axes = c.integer("batch_dims", 0), into = batch_axes + c.extents(1)[c.extents(1).rank() - 1];
    if (!c.carries(1) && c.state(0).axis >= into) return c.answer(0, {c.state(0).axis - static_cast<int>(into) + c.extents(1).rank() - 1, c.state(0).outer});
    const batch_axis where = c.carries(0) ? c.state(0) : c.state(1);
    if (where.axis >= batch_axes || (c.carries(0) && c.carries(1) && c.state(0) != c.state(1))) return c.conflict("it takes some of the samples");
    for (int i : {0, 1})
        if (!c.carries(i) && !c.one_for_each(i, where.axis, c.extent(1 - i), where.outer)) return false;
    return c.answer(0, where);
}

// Indices, and what is written at them, beside the data: all hold the samples along one axis, which is not the one that is indexed.
inline bool carry_indexed(batch_carrier& c) {
    std::vector<std::int64_t> axis{c.integer("axis", 0)};
    batch_axis where;
    std::int64_t extent = 0;
    for (int i = 0; i < c.inputs(); ++i)
        if (c.carries(i)) where = c.state(i), extent = c.extent(i);
    if (!count_from_front(axis, c.extents(0).rank()) || axis[0] == where.axis) return c.conflict("it works along the axis of the samples");
    for (int i = 0; i < c.inputs(); ++i) {
        if (c.carries(i) && (c.state(i) != where || c.extent(i) != extent)) return c.conflict("its inputs hold the samples along different axes");
        if (!c.carries(i) && !c.one_for_each(i, where.axis, extent, where.outer)) return false;
    }
    return c.answer(0, where);
}

/// The rule of an operator; null where there is none.
inline batch_rule batch_rule_of(const node& n) {
    struct row {
        const char* op_type;
        batch_rule rule;
    };
    static constexpr row rows[] = {
        {"ArgMax", carry_arg}, {"ArgMin", carry_arg}, {"Attention", carry_first_axis<7>}, {"AveragePool", carry_pool}, {"BatchNormalization", carry_batch_norm},
        {"Col2Im", carry_first_axis<1>}, {"Concat", carry_concat}, {"Conv", carry_first_axis<1>}, {"ConvInteger", carry_first_axis<1>}, {"ConvTranspose", carry_first_axis<1>},
        {"Crop", carry_first_axis<1>}, {"CumProd", carry_cumulative}, {"CumSum", carry_cumulative}, {"DeformConv", carry_first_axis<21>},
        {"DepthToSpace", carry_first_axis<1>}, {"DequantizeLinear", carry_quantize}, {"Det", carry_matrix}, {"Dropout", carry_elementwise},
        {"Einsum", carry_einsum}, {"Expand", carry_expand}, {"GRU", carry_recurrent}, {"Gather", carry_gather}, {"GatherElements", carry_indexed}, {"GatherND", carry_gather_nd},
        {"Gemm", carry_gemm}, {"GlobalAveragePool", carry_pool}, {"GlobalLpPool", carry_pool}, {"GlobalMaxPool", carry_pool},
        {"GridSample", carry_first_axis<3>}, {"GroupNormalization", carry_first_axis<1>}, {"Hardmax", carry_softmax}, {"ImageScaler", carry_first_axis<1>},
        {"InstanceNormalization", carry_first_axis<1>}, {"LRN", carry_first_axis<1>}, {"LSTM", carry_recurrent}, {"LayerNormalization", carry_layer_norm},
        {"LogSoftmax", carry_softmax}, {"LpNormalization", carry_axis_last}, {"LpPool", carry_pool}, {"MatMul", carry_matmul}, {"MatMulInteger", carry_matmul},
        {"MaxPool", carry_pool}, {"MeanVarianceNormalization", carry_mean_variance}, {"Pad", carry_pad}, {"QLinearConv", carry_first_axis<1>},
        {"QLinearMatMul", carry_qlinear_matmul}, {"QuantizeLinear", carry_quantize}, {"RMSNormalization", carry_layer_norm}, {"RNN", carry_recurrent},
        {"ReduceL1", carry_reduce}, {"ReduceL2", carry_reduce}, {"ReduceLogSum", carry_reduce}, {"ReduceLogSumExp", carry_reduce}, {"ReduceMax", carry_reduce},
        {"ReduceMean", carry_reduce}, {"ReduceMin", carry_reduce}, {"ReduceProd", carry_reduce}, {"ReduceSum", carry_reduce}, {"ReduceSumSquare", carry_reduce},
        {"Resize", carry_resize}, {"RotaryEmbedding", carry_first_axis<9>}, {"ScatterElements", carry_indexed}, {"Slice", carry_slice}, {"Softmax", carry_softmax}, {"SpaceToDepth", carry_first_axis<1>},
        {"Split", carry_axis_first}, {"Tile", carry_tile}, {"TopK", carry_axis_last}, {"Transpose", carry_transpose}, {"Trilu", carry_matrix},
        {"Upsample", carry_resize},
    };
    const op_row& told = ops::row_of(n);
    if (told.is(op_flag::random)) return nullptr;
    if (told.is(op_flag::elementwise)) return carry_elementwise;
    if (told.is(op_flag::view)) return carry_view;
    if (!n.domain.empty()) return nullptr;
    for (const row& r : rows)
        if (n.op_type == r.op_type) return r.rule;
    return nullptr;
}

}  // namespace detail
GRAFT_END_NAMESPACE
