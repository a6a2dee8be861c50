// Operators that add or cut borders: Pad, CenterCropPad.
#pragma once

#include "indexing.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// Begin and end pads of every axis; negative ones cut.
struct border_list {
    std::int64_t begin[shape::max_rank] = {}, end[shape::max_rank] = {};
};

inline status read_pads(const op_context& c, border_list& border, shape& out) {
    const shape& s = c.in[0].extents;
    short_list pads, axes;
    bool given = false, given_axes = false;
    GRAFT_TRY(read_list(c, 1, c.version() < 2 ? "paddings" : "pads", false, pads, given));
    if (!given) return c.fail(errc::op_attribute, "the pads are missing");
    GRAFT_TRY(read_list(c, 3, nullptr, true, axes, given_axes));
    if (!given_axes)
        for (axes.size = 0; axes.size < s.rank(); ++axes.size) axes.values[axes.size] = axes.size;
    GRAFT_TRY(resolve_axes(c, s.rank(), axes));
    if (pads.size != 2 * axes.size) return c.fail(errc::op_shape, "%lld pads for %lld axes", pads.size, axes.size);
    const bool constant = c.is("mode", "constant", "constant");
    out = s;
    for (int i = 0; i < axes.size; ++i) {
        const int d = static_cast<int>(axes[i]);
        const std::int64_t begin = pads[i], end = pads[axes.size + i], far = std::int64_t(1) << 61;
        if (begin > far || begin < -far || end > far || end < -far || s[d] > far)
            return c.fail(errc::op_shape, "the pads %lld and %lld are out of range", begin, end);
        const std::int64_t kept = s[d] + (begin < 0 ? begin : 0) + (end < 0 ? end : 0);
        if (kept < 0 && !(constant && s[d] + begin + end >= 0))
            return c.fail(errc::op_shape, "the pads %lld and %lld cut more than extent %lld has", begin, end, s[d]);
        if (!constant && kept == 0 && (begin > 0 || end > 0))
            return c.fail(errc::op_shape, "axis %lld is empty: there is nothing to repeat", d);
        border.begin[d] = begin;
        border.end[d] = end;
        out[d] = s[d] + begin + end;
    }
    return {};
}

// Pad-1,2,11,13,18,19,21,23,24,25: constant, reflect (mirrored about the border element), edge, wrap (19; periodic). Negative
// pads cut first, and the other modes repeat what is left.
inline status pad_infer(infer_context& c) {
    GRAFT_TRY(any_type(c, 0));
    if (!c.is("mode", "constant", "constant") && !c.is("mode", "reflect", "constant") && !c.is("mode", "edge", "constant") &&
        !(c.version() >= 19 && c.is("mode", "wrap", "constant")))
        return c.fail(errc::op_attribute, "the mode is not one of constant, reflect, edge, wrap");
    if (c.has(1)) GRAFT_TRY(index_type(c, 1, false));
    if (c.has(2)) {
        GRAFT_TRY(same_type(c, 0, 2));
        if (elements_of(c.in[2].extents) != 1) return c.fail_shapes("the constant value must be a scalar");
    }
    if (c.has(3)) GRAFT_TRY(index_type(c, 3, true));
    if (unknown(c, 1) || unknown(c, 3)) return c.defer();
    border_list border;
    shape out;
    GRAFT_TRY(read_pads(c, border, out));
    return c.set(0, c.in[0].type, out);
}
inline status pad_run(run_context& c) {
    const shape& s = c.in[0].extents;
    border_list border;
    shape out;
    GRAFT_TRY(read_pads(c, border, out));
    if (out.elements() == 0) return {};
    bool mapped[shape::max_rank] = {};
    for (int d = 0; d < s.rank(); ++d) mapped[d] = border.begin[d] != 0 || border.end[d] != 0;
    axis_maps maps;
    GRAFT_TRY(maps.allocate(c, out, mapped));
    const char mode = c.string("mode", "constant")[0];
    for (int d = 0; d < s.rank(); ++d) {
        if (!mapped[d]) continue;
        const std::int64_t first = border.begin[d] < 0 ? -border.begin[d] : 0,
                           n = s[d] - first + (border.end[d] < 0 ? border.end[d] : 0);
        const std::int64_t shift = border.begin[d] > 0 ? border.begin[d] : 0, period = mode == 'r' ? 2 * (n - 1) : n;
        for (std::int64_t i = 0; i < out[d]; ++i) {
            std::int64_t j = i - shift;
            if (mode == 'c')
                j = j < 0 || j >= n ? -1 - first : j;
            else if (mode == 'e' || n == 1)
                j = j < 0 ? 0 : j >= n ? n - 1 : j;
            else {
                j %= period;
                if (j < 0) j += period;
                if (mode == 'r' && j >= n) j = period - j;
            }
            maps.map[d][i] = j + first;
        }
    }
    const std::size_t size = size_of(c.in[0].type);
    unsigned char fill[8] = {};
    if (c.has(2))
        std::memcpy(fill, c.in[2].data, size);
    else if (c.version() < 11) {
        const double value = static_cast<double>(c.real("value", 0));
        store_from_double(c.in[0].type, fill, 0, 1, &value);
    }
    copy_mapped(size, s, out, maps, c.in[0].data, c.out[0].data, fill);
    return {};
}

// CenterCropPad-18: every axis cut or zero-padded to the wanted extent, evenly at both ends; what is odd falls to the end.
inline status read_centers(const op_context& c, shape& out) {
    const shape& s = c.in[0].extents;
    short_list wanted, axes;
    bool given = false, given_axes = false;
    GRAFT_TRY(read_list(c, 1, nullptr, true, wanted, given));
    GRAFT_TRY(read_list(c, -1, "axes", false, axes, given_axes));
    if (!given_axes)
        for (axes.size = 0; axes.size < s.rank(); ++axes.size) axes.values[axes.size] = axes.size;
    GRAFT_TRY(resolve_axes(c, s.rank(), axes));
    if (wanted.size != axes.size) return c.fail(errc::op_shape, "%lld extents for %lld axes", wanted.size, axes.size);
    out = s;
    for (int i = 0; i < axes.size; ++i) {
        if (wanted[i] < 0) return c.fail(errc::op_shape, "extent %lld is negative", wanted[i]);
        out[static_cast<int>(axes[i])] = wanted[i];
    }
    return {};
}
inline status center_crop_pad_infer(infer_context& c) {
    GRAFT_TRY(any_type(c, 0));
    GRAFT_TRY(index_type(c, 1, true));
    if (unknown(c, 1)) return c.defer();
    shape out;
    GRAFT_TRY(read_centers(c, out));
    return c.set(0, c.in[0].type, out);
}
inline status center_crop_pad_run(run_context& c) {
    const shape &s = c.in[0].extents, &o = c.out[0].extents;
    if (o.elements() == 0) return {};
    bool mapped[shape::max_rank] = {};
    for (int d = 0; d < s.rank(); ++d) mapped[d] = s[d] != o[d];
    axis_maps maps;
    GRAFT_TRY(maps.allocate(c, o, mapped));
    for (int d = 0; d < s.rank(); ++d) {
        const std::int64_t cut = s[d] > o[d] ? (s[d] - o[d]) / 2 : 0, border = o[d] > s[d] ? (o[d] - s[d]) / 2 : 0;
        for (std::int64_t i = 0; mapped[d] && i < o[d]; ++i)
            maps.map[d][i] = i - border < 0 || i - border >= s[d] ? -1 : i - border + cut;
    }
    const unsigned char zero[8] = {};
    copy_mapped(size_of(c.in[0].type), s, o, maps, c.in[0].data, c.out[0].data, zero);
    return {};
}

inline op_table pad_ops() {
    static constexpr op_row rows[] = {
        GRAFT_OP("Pad", 1, 1, 1, 1, 1, 1, pad_infer, pad_run, op_flag::none, "mode:s paddings:is value:f",
                 "f32[2,3] paddings=1,0,0,2 @1"),
        GRAFT_OP("Pad", 2, 10, 1, 1, 1, 1, pad_infer, pad_run, op_flag::none, "mode:s pads:is value:f",
                 "f32[2,3] pads=1,0,0,2 value=0.5 @9; f32[2,3] pads=0,2,0,1 mode=reflect @8; f64[4] pads=-1,-2 @10"),
        GRAFT_OP("Pad", 11, 0, 2, 4, 1, 1, pad_infer, pad_run, op_flag::none, "mode:s",
                 "f32[1,2,3] i64{0,1,0,0,0,2} f32(1); f32[3,4] i64{0,2,1,3} mode=reflect @13; u8[3,4] i64{1,0,2,0} mode=edge; "
                 "f32[3] i64{4,5} mode=wrap; f32[2,3,4] i64{1,-1} - i64{-1}; f32[0,2] i64{1,0,0,0}"),
        GRAFT_OP("CenterCropPad", 18, 0, 2, 2, 1, 1, center_crop_pad_infer, center_crop_pad_run, op_flag::none, "axes:is",
                 "f32[5,8] i64{3,9}; i8[3,4,2] i64{6,1} axes=-3,1; f32[2,0] i32{0,3}"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return {rows, sizeof rows / sizeof rows[0]};
}

} // namespace ops
GRAFT_END_NAMESPACE
