// Rules of operators that put elements elsewhere: views, Transpose, Slice, Pad, Concat, Split, Tile, ReverseSequence, blocks of pixels.
#pragma once

#include "../codegen/element.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The rules of ops/shape.hpp, rearrange.hpp, slice.hpp, pad.hpp; OneHot and Trilu.
rule_table movement_rules();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/pad.hpp"
#include "../../ops/rearrange.hpp"
#include "../../ops/slice.hpp"
#include "elementwise.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// Whether the contents of an input are known, or it is left out.
inline bool is_known(const op_context& c, int i) { return !c.has(i) || c.in[i].data || c.in[i].elements() == 0; }
inline bool all_known(const op_context& c, int first) {
    for (int i = first; i < c.inputs; ++i)
        if (!is_known(c, i)) return false;
    return true;
}
// The position in an input of the extents `x` whose coordinate along axis d is `i`, which is in range wherever something is read.
inline position moved_along(const position& at, int d, index i, const shape& x) {
    if (!i.known) i.bound = x[d];
    return with_axis(at, d, i, x[d]);
}
inline int resolved_axis(const op_context& c, std::int64_t otherwise, int rank) {
    const std::int64_t axis = c.integer("axis", otherwise);
    return static_cast<int>(axis < 0 ? axis + rank : axis);
}
// What stands where something that is computed in a run names no element.
inline operand nothing_there(const rule_call& r) {
    const dtype type = r.c.out[r.output].type;
    return r.e.number(type, is_float(type) ? std::nan("") : 0);
}
inline operand zero_of(const rule_call& r, int output = 0) { return r.e.number(r.c.out[output].type, 0); }

// The same element by its number: Reshape and its kin.
inline operand emit_view(const rule_call& r) { return r.in(0, walk(r.c.in[0].extents, layout::row_major, r.e.number(r.at))); }

inline operand emit_transpose(const rule_call& r) {
    ops::short_list perm;
    if (!ops::read_permutation(r.c, perm).ok()) return r.e.refuse("its perm does not fit");
    std::vector<int> axes(static_cast<std::size_t>(perm.size));
    for (int d = 0; d < perm.size; ++d) axes[static_cast<std::size_t>(perm[d])] = d;
    return r.in(0, with_axes(r.at, axes));
}

inline operand emit_expand(const rule_call& r) { return r.in(0); }

inline operand emit_tile(const rule_call& r) {
    const shape& x = r.c.in[0].extents;
    position from = r.at;
    for (int d = 0; d < x.rank(); ++d)
        if (x[d] != r.at.extents[d]) from = moved_along(from, d, r.e.remainder(r.e.axis(r.at, d), x[d]), x);
    return r.in(0, from);
}

// Pixel (h, w) of channel c is block (h % b, w % b) of deep channel c.
inline operand emit_depth_to_space(const rule_call& r) {
    const std::int64_t b = r.c.integer("blocksize", 1), channels = r.at.extents[1];
    const bool crd = r.c.is("mode", "CRD", "DCR");
    element_emitter& e = r.e;
    const index c = e.axis(r.at, 1), h = e.axis(r.at, 2), w = e.axis(r.at, 3);
    const index block = e.add(e.multiply(e.remainder(h, b), b), e.remainder(w, b));
    const index deep = crd ? e.add(e.multiply(c, b * b), block) : e.add(e.multiply(block, channels), c);
    const shape& x = r.c.in[0].extents;
    return r.in(0, moved_along(moved_along(moved_along(r.at, 1, deep, x), 2, e.divide(h, b), x), 3, e.divide(w, b), x));
}
inline operand emit_space_to_depth(const rule_call& r) {
    const std::int64_t b = r.c.integer("blocksize", 1), channels = r.c.in[0].extents[1];
    const bool crd = r.c.is("mode", "CRD", "DCR");
    element_emitter& e = r.e;
    const index deep = e.axis(r.at, 1);
    const index c = crd ? e.divide(deep, b * b) : e.remainder(deep, channels), block = crd ? e.remainder(deep, b * b) : e.divide(deep, channels);
    const index h = e.add(e.multiply(e.axis(r.at, 2), b), e.divide(block, b)), w = e.add(e.multiply(e.axis(r.at, 3), b), e.remainder(block, b));
    const shape& x = r.c.in[0].extents;
    return r.in(0, moved_along(moved_along(moved_along(r.at, 1, c, x), 2, h, x), 3, w, x));
}

inline operand emit_slice(const rule_call& r) {
    if (!all_known(r.c, 1)) return r.e.refuse("its bounds are not constants");
    ops::slice_range range;
    if (!ops::read_slice(r.c, range).ok()) return r.e.refuse("its bounds do not fit");
    const shape& x = r.c.in[0].extents;
    position from = r.at;
    for (int d = 0; d < x.rank(); ++d) {
        const std::int64_t step = r.at.extents[d] > 1 ? range.step[d] : 1;
        if (r.at.extents[d] != x[d] || step != 1) from = moved_along(from, d, r.e.add(r.e.multiply(r.e.axis(r.at, d), step), range.first[d]), x);
    }
    return r.in(0, from);
}
// Where Slice took an element from there is its gradient, elsewhere 0.
inline operand emit_slice_grad(const rule_call& r) {
    ops::slice_range range;
    shape x;
    if (!ops::read_slice_grad(r.c, range, x).ok()) return r.e.refuse("its attributes do not fit");
    const shape& dy = r.c.in[0].extents;
    position from = r.at;
    operand inside;
    for (int d = 0; d < x.rank(); ++d) {
        const std::int64_t n = range.n[d], step = n > 1 ? range.step[d] : 1, pace = step < 0 ? -step : step;
        if (n == x[d] && step == 1) continue;
        // The slice's elements in ascending order begin at `low`.
        const std::int64_t low = step < 0 ? range.first[d] + (n - 1) * step : range.first[d];
        const index behind = r.e.add(r.e.axis(r.at, d), -low);
        inside = r.e.both(inside, r.e.both(r.e.at_least(behind, 0), r.e.less(behind, (n - 1) * pace + 1)));
        index k = behind;
        if (pace > 1) {
            inside = r.e.both(inside, r.e.less(r.e.formula(("% % " + std::to_string(pace)).c_str(), {behind}, 0), 1));
            k = r.e.formula(("% / " + std::to_string(pace)).c_str(), {behind}, 0);
        }
        from = moved_along(from, d, step < 0 ? r.e.add(r.e.multiply(k, -1), n - 1) : k, dy);
    }
    if (dy.elements() == 0) return zero_of(r);
    return r.e.where(inside, zero_of(r), [&] { return r.in(0, from); });
}

// Where coordinate i of the padded axis comes from, by the first letter of the mode; `inside` where there is something at all.
inline index pad_source(element_emitter& e, const index& i, char mode, std::int64_t begin, std::int64_t end, std::int64_t extent, operand& inside) {
    const std::int64_t first = begin < 0 ? -begin : 0, n = extent - first + (end < 0 ? end : 0), shift = begin > 0 ? begin : 0;
    index j = e.add(i, -shift);
    const std::string last = std::to_string(n - 1);
    if (mode == 'c') {
        inside = e.both(inside, e.both(e.at_least(j, 0), e.less(j, n)));
    } else if (mode == 'e' || n == 1)
        j = e.formula(("clamped<index_t>(%, " + last + ")").c_str(), {j}, n);
    else if (mode == 'r')
        j = e.formula(("reflected<index_t>(%, " + last + ")").c_str(), {j}, n);
    else
        j = e.formula(("wrapped<index_t>(%, " + std::to_string(n) + ")").c_str(), {j}, n);
    return e.add(j, first);
}
inline operand emit_pad(const rule_call& r) {
    if (!is_known(r.c, 1) || !is_known(r.c, 3)) return r.e.refuse("its pads are not constants");
    ops::border_list border;
    shape out;
    if (!ops::read_pads(r.c, border, out).ok()) return r.e.refuse("its pads do not fit");
    const shape& x = r.c.in[0].extents;
    operand fill = r.c.version() < 11 ? r.attribute("value", 0) : r.scalar(2, zero_of(r));
    position from = r.at;
    operand inside;
    const char mode = r.c.string("mode", "constant")[0];
    for (int d = 0; d < x.rank(); ++d)
        if (border.begin[d] || border.end[d])
            from = moved_along(from, d, pad_source(r.e, r.e.axis(r.at, d), mode, border.begin[d], border.end[d], x[d], inside), x);
    if (x.elements() == 0) return fill;
    return r.e.where(inside, fill, [&] { return r.in(0, from); });
}
inline operand emit_center_crop_pad(const rule_call& r) {
    const shape& x = r.c.in[0].extents;
    position from = r.at;
    operand inside;
    for (int d = 0; d < x.rank(); ++d) {
        const std::int64_t n = x[d], m = r.at.extents[d], begin = n > m ? -((n - m) / 2) : (m - n) / 2;
        if (n != m) from = moved_along(from, d, pad_source(r.e, r.e.axis(r.at, d), 'c', begin, m - n - begin, n, inside), x);
    }
    if (x.elements() == 0) return zero_of(r);
    return r.e.where(inside, zero_of(r), [&] { return r.in(0, from); });
}

// The inputs side by side: each is read only where its part is.
inline operand emit_concat(const rule_call& r) {
    const int axis = resolved_axis(r.c, 1, r.at.extents.rank());
    const index i = r.e.axis(r.at, axis);
    operand y;
    std::int64_t first = 0;
    if (r.c.inputs == 1) return r.in(0);
    for (int k = 0; k < r.c.inputs; ++k) {
        const std::int64_t n = r.c.in[k].extents[axis];
        if (n == 0) continue;
        const operand inside = r.e.both(r.e.at_least(i, first), r.e.less(i, first + n));
        const position at = moved_along(r.at, axis, r.e.add(i, -first), r.c.in[k].extents);
        y = inside ? r.e.where(inside, y ? y : zero_of(r), [&] { return r.in(k, at); }) : r.in(k, at);
        if (!y) return y;
        first += n;
    }
    return y;
}
// Output number `output` begins behind those before it.
inline operand emit_split(const rule_call& r) {
    if (!is_known(r.c, 1)) return r.e.refuse("its parts are not constants");
    const shape& x = r.c.in[0].extents;
    const int axis = resolved_axis(r.c, 0, x.rank());
    const integer_list listed = r.c.integers("split");
    const std::int64_t parts = r.c.outputs, equal = (x[axis] + parts - 1) / parts;
    std::int64_t first = 0;
    for (int k = 0; k < r.output; ++k) first += r.c.has(1) ? ops::index_at(r.c.in[1], k) : listed.size ? listed[k] : equal;
    return r.in(0, moved_along(r.at, axis, r.e.add(r.e.axis(r.at, axis), first), x));
}

// The first elements of each batch along the time axis backwards.
inline operand emit_reverse_sequence(const rule_call& r) {
    const shape& x = r.c.in[0].extents;
    const int batch = static_cast<int>(r.c.integer("batch_axis", 1)), time = 1 - batch;
    const bool known = is_known(r.c, 1);
    for (std::int64_t b = 0; b < (known ? r.c.in[1].elements() : 0); ++b)
        if (ops::index_at(r.c.in[1], b) < 0 || ops::index_at(r.c.in[1], b) > x[time]) return r.e.refuse("one of its lengths is out of range");
    const operand length = r.in(1, with_axes(r.at, {batch})), t = r.e.as_value(r.e.axis(r.at, time));
    const operand fits = r.e.make(dtype::boolean, ("% >= 0 && % <= " + std::to_string(x[time])).c_str(), {length, length});
    if (!known) r.e.demand(fits, length, {errc::op_index, graft::location(r.c.n), ops::length_out_of_range, x[time]});
    const operand from = r.e.make(dtype::int64, "% && % < % ? % - 1 - % : %", {fits, t, length, length, t, t});
    const position there = moved_along(r.at, time, r.e.as_index(from, x[time]), x);
    return r.e.where(known ? operand{} : fits, nothing_there(r), [&] { return r.in(0, there); });
}
// Indices that are out of range name nothing.
inline operand emit_one_hot(const rule_call& r) {
    const int rank = r.at.extents.rank();
    const std::int64_t given = r.c.integer("axis", -1);
    const int axis = static_cast<int>(given < 0 ? given + rank : given);
    std::vector<int> others;
    for (int d = 0; d < rank; ++d)
        if (d != axis) others.push_back(d);
    const operand k = cast(r.e, r.in(0, with_axes(r.at, others)), r.c.in[0].type, dtype::int64),
                  depth = r.e.number(dtype::int64, static_cast<double>(r.at.extents[axis]));
    const char* text = r.c.in[0].type == dtype::uint64 ? "% == %" : "% == % || % + % == %";
    const operand i = r.e.as_value(r.e.axis(r.at, axis));
    const operand chosen = r.e.make(dtype::boolean, text, {k, i, k, depth, i});
    const operand off = r.in(2, walk({2}, layout::row_major, index_of(0))), on = r.in(2, walk({2}, layout::row_major, index_of(1)));
    return r.e.make(r.c.out[0].type, "% ? % : %", {chosen, on, off});
}
inline operand emit_trilu(const rule_call& r) {
    const int rank = r.at.extents.rank();
    const operand row = r.e.as_value(r.e.axis(r.at, rank - 2)), column = r.e.as_value(r.e.axis(r.at, rank - 1));
    const operand k = r.scalar(1, operand{"0ll", dtype::int64, level::thread});
    const char* text = r.c.integer("upper", 1) ? "% - % >= %" : "% - % <= %";
    operand kept = r.e.make(dtype::boolean, text, {column, row, k});
    if (!kept) return kept;
    return r.e.where(kept, zero_of(r), [&] { return r.in(0); });
}

}  // namespace detail

GRAFT_INLINE rule_table movement_rules() {
    using namespace detail;
    constexpr unsigned moved = element_rule::moved, several = element_rule::several;
    static constexpr element_rule rows[] = {
        {"Reshape", "", moved, emit_view, ""},
        {"Flatten", "", moved, emit_view, ""},
        {"Squeeze", "", moved, emit_view, ""},
        {"Unsqueeze", "", moved, emit_view, ""},
        {"Transpose", "", moved, emit_transpose, ""},
        {"Expand", "", moved, emit_expand, ""},
        {"Tile", "", moved, emit_tile, ""},
        {"DepthToSpace", "", moved, emit_depth_to_space, ""},
        {"SpaceToDepth", "", moved, emit_space_to_depth, ""},
        {"ReverseSequence", "", moved, emit_reverse_sequence, ""},
        {"Slice", "", moved, emit_slice, ""},
        {"SliceGrad", "graft", moved, emit_slice_grad, ""},
        {"Pad", "", moved, emit_pad, ""},
        {"CenterCropPad", "", moved, emit_center_crop_pad, ""},
        {"Concat", "", moved, emit_concat, ""},
        {"Split", "", moved, emit_split, ""},
        {"OneHot", "", several, emit_one_hot, ""},
        {"Trilu", "", element_rule::same, emit_trilu, ""},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
