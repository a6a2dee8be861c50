// How operators carry a batch: where their outputs hold the samples once it is told of their inputs. By a rule every slice of the output that
// belongs to a sample is what the operator makes of that sample's slices alone; whatever has no such rule is a conflict. Here stand those that
// families share, the others beside the kernels.
#pragma once

#include "../graph/batch_carrier.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace ops {

// Axes counted from the front; false where one is out of range.
inline bool count_from_front(std::vector<std::int64_t>& axes, int rank) {
    bool fits = true;
    for (std::int64_t& a : axes) a += a < 0 ? rank : 0, fits &= a >= 0 && a < rank;
    return fits;
}
inline bool is_among(const std::vector<std::int64_t>& axes, std::int64_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

// Inputs that meet by broadcasting: all that hold samples hold them along one axis, counted from the right. `first` to `last` are those inputs.
inline GRAFT_COLD bool carry_broadcast(batch_carrier& c, int first, int last, int& from_right, batch_axis& where) {
    std::int64_t extent = 0;
    from_right = 0;
    for (int i = first; i < last; ++i) {
        if (!c.carries(i)) continue;
        const int here = c.state(i).axis - c.extents(i).rank();
        if (from_right == 0) from_right = here, where = c.state(i), extent = c.extent(i);
        if (here != from_right || c.state(i).outer != where.outer || c.extent(i) != extent)
            return c.conflict("its inputs hold the samples along different axes");
    }
    for (int i = first; i < last && from_right; ++i) {
        if (!c.has(i) || c.carries(i)) continue;
        const int axis = c.extents(i).rank() + from_right;
        if (axis >= 0 && !c.fits_beside(i, axis, extent, where.outer)) return false;
    }
    return true;
}

// The first `count` inputs meet element by element.
inline bool carry_elements(batch_carrier& c, int count) {
    int from_right = 0;
    batch_axis where;
    if (!carry_broadcast(c, 0, count, from_right, where)) return false;
    return from_right == 0 || c.answer_all({c.output_extents().rank() + from_right, where.outer});
}
inline bool carry_elementwise(batch_carrier& c) { return carry_elements(c, c.inputs()); }

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
        if (c.carries(i) && (c.state(i).axis != 0 || c.state(i) != where))
            return c.conflict("it takes the samples along the first axis, and they lie elsewhere");
        // Where one entry stood for all, it is repeated for each.
        if (!c.carries(i) && c.extents(i).rank() > 0 && !c.one_for_each(i, 0, extent, where.outer)) return false;
    }
    return c.answer_all(where);
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

inline bool carry_expand(batch_carrier& c) {
    if (!c.only(1)) return false;
    const int axis = c.state(0).axis + c.output_extents().rank() - c.extents(0).rank();
    if (!c.value_in(1).constant) return c.conflict("its shape depends on contents");
    if (c.output_extents()[axis] != c.extent(0)) return c.conflict("it broadcasts the axis of the samples");
    c.change = batch_change::expand;
    return c.answer(0, {axis, c.state(0).outer});
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

// An axis that the samples' own becomes in a view of input 0, -1 where it goes, by what the operator does to axes.
using natural_axis = int (*)(batch_carrier& c, int axis);
inline bool carry_view_by(batch_carrier& c, natural_axis natural, batch_change change) {
    if (!c.only(1)) return false;
    if (c.extents(0).elements() < 1) return c.conflict("it is empty");
    list_places(c, natural(c, c.state(0).axis));
    c.change = change;
    return !c.options.empty() || c.conflict("the samples have no place in its shape " + text(c.output_extents()));
}
inline bool carry_view(batch_carrier& c) {
    return carry_view_by(
        c, [](batch_carrier&, int axis) { return axis; }, batch_change::view);
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

}  // namespace ops
GRAFT_END_NAMESPACE
