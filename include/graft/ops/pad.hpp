// Operators that add or cut borders: Pad, CenterCropPad.
#pragma once

#include "gradient_common.hpp"
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
        if (!constant && kept == 0 && (begin > 0 || end > 0)) return c.fail(errc::op_shape, "axis %lld is empty: there is nothing to repeat", d);
        border.begin[d] = begin;
        border.end[d] = end;
        out[d] = s[d] + begin + end;
    }
    return {};
}

// Pad-1,2,11,13,18,19,21,23,24,25: constant, reflect (mirrored about the border element), edge, wrap (19; periodic). Negative
// pads cut first, and the other modes repeat what is left.
inline status pad_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    if (!c.is("mode", "constant", "constant") && !c.is("mode", "reflect", "constant") && !c.is("mode", "edge", "constant") &&
        !(c.version() >= 19 && c.is("mode", "wrap", "constant")))
        return c.fail(errc::op_attribute, "the mode is not one of constant, reflect, edge, wrap");
    if (c.has(1)) GRAFT_TRY(check_index_type(c, 1, false));
    if (c.has(2)) {
        GRAFT_TRY(check_same_type(c, 0, 2));
        if (elements_of(c.in[2].extents) != 1) return c.fail_shapes("the constant value must be a scalar");
    }
    if (c.has(3)) GRAFT_TRY(check_index_type(c, 3, true));
    if (unknown(c, 1) || unknown(c, 3)) return c.defer();
    border_list border;
    shape out;
    GRAFT_TRY(read_pads(c, border, out));
    return c.set(0, c.in[0].type, out);
}
// Where each element of the padded tensor comes from; `mode` is the first letter of the attribute, `s` what is padded to `out`.
inline status pad_maps(const run_context& c, char mode, const shape& s, const border_list& border, const shape& out, axis_maps& maps) {
    bool mapped[shape::max_rank] = {};
    for (int d = 0; d < s.rank(); ++d) mapped[d] = border.begin[d] != 0 || border.end[d] != 0;
    GRAFT_TRY(maps.allocate(c, out, mapped));
    for (int d = 0; d < s.rank(); ++d) {
        if (!mapped[d]) continue;
        const std::int64_t first = border.begin[d] < 0 ? -border.begin[d] : 0, n = s[d] - first + (border.end[d] < 0 ? border.end[d] : 0);
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
    return {};
}
inline status pad_run(run_context& c) {
    const shape& s = c.in[0].extents;
    border_list border;
    shape out;
    GRAFT_TRY(read_pads(c, border, out));
    if (out.elements() == 0) return {};
    axis_maps maps;
    GRAFT_TRY(pad_maps(c, c.string("mode", "constant")[0], s, border, out, maps));
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
    GRAFT_TRY(check_any_type(c, 0));
    GRAFT_TRY(check_index_type(c, 1, true));
    if (unknown(c, 1)) return c.defer();
    shape out;
    GRAFT_TRY(read_centers(c, out));
    return c.set(0, c.in[0].type, out);
}
inline status center_crop_pad_run(run_context& c) {
    const shape &s = c.in[0].extents, &o = c.out[0].extents;
    if (o.elements() == 0) return {};
    axis_maps maps;
    GRAFT_TRY(maps.allocate(c, s, o));
    for (int d = 0; d < s.rank(); ++d) {
        const std::int64_t cut = s[d] > o[d] ? (s[d] - o[d]) / 2 : 0, border = o[d] > s[d] ? (o[d] - s[d]) / 2 : 0;
        for (std::int64_t i = 0; maps.map[d] && i < o[d]; ++i) maps.map[d][i] = i - border < 0 || i - border >= s[d] ? -1 : i - border + cut;
    }
    const unsigned char zero[8] = {};
    copy_mapped(size_of(c.in[0].type), s, o, maps, c.in[0].data, c.out[0].data, zero);
    return {};
}

// What constant borders were put around, out of dy: a Slice where they only grow, else a Pad the other way round.
inline value_id without_borders(gradient_context& c, value_id dy, const shape& x, const border_list& border) {
    std::vector<std::int64_t> starts, ends, axes, pads(static_cast<std::size_t>(2 * x.rank()));
    bool cuts = false;
    for (int d = 0; d < x.rank(); ++d) {
        cuts |= border.begin[d] < 0 || border.end[d] < 0;
        pads[static_cast<std::size_t>(d)] = -border.begin[d];
        pads[static_cast<std::size_t>(d + x.rank())] = -border.end[d];
        if (border.begin[d] == 0 && border.end[d] == 0) continue;
        starts.push_back(border.begin[d]);
        ends.push_back(border.begin[d] + x[d]);
        axes.push_back(d);
    }
    if (axes.empty()) return dy;
    if (cuts) return c.build.apply("Pad", {dy, c.build.integers(pads)});
    return c.build.apply("Slice", {dy, c.build.integers(starts), c.build.integers(ends), c.build.integers(axes)});
}
inline status pad_gradient(gradient_context& c) {
    if (!is_constant(c, 1) || !is_constant(c, 3)) return c.refuse("its pads are computed in the graph: freeze what lies before it");
    std::vector<tensor_view> in;
    border_list border;
    shape out;
    const op_context forward = forward_context(c, in);
    GRAFT_TRY(read_pads(forward, border, out));
    const shape x = c.extents(c.in(0));
    if (!forward.is("mode", "constant", "constant")) {
        std::vector<std::int64_t> pads(border.begin, border.begin + x.rank());
        pads.insert(pads.end(), border.end, border.end + x.rank());
        c.give(0, c.build.apply_graft("PadGrad", {c.dy()},
                                      {integers_attribute("pads", std::move(pads)), string_attribute("mode", forward.string("mode", "")),
                                       integers_attribute("shape", std::vector<std::int64_t>(x.begin(), x.end()))}));
        return {};
    }
    const value_id inner = without_borders(c, c.dy(), x, border);
    c.give(0, inner);
    if (c.wants(2)) c.give(2, c.build.reshape(c.build.sub(c.sum_to(c.dy(), shape{}), c.sum_to(inner, shape{})), c.extents(c.in(2))));
    return {};
}
inline status center_crop_pad_gradient(gradient_context& c) {
    const shape x = c.extents(c.in(0)), y = c.extents(c.out());
    border_list border;
    for (int d = 0; d < x.rank(); ++d) {
        border.begin[d] = x[d] > y[d] ? -((x[d] - y[d]) / 2) : (y[d] - x[d]) / 2;
        border.end[d] = y[d] - x[d] - border.begin[d];
    }
    c.give(0, without_borders(c, c.dy(), x, border));
    return {};
}

// How they carry a batch: see batch_rules.hpp.
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

inline op_table pad_ops() {
    static constexpr op_row rows[] = {
        onnx("Pad")
            .opsets(1, 1)
            .inputs(1)
            .functions(pad_infer, pad_run)
            .carries(carry_pad)
            .attributes("mode:s paddings:is value:f")
            .problems("f32[2,3] paddings=1,0,0,2 @1"),
        onnx("Pad")
            .opsets(2, 10)
            .inputs(1)
            .functions(pad_infer, pad_run)
            .carries(carry_pad)
            .attributes("mode:s pads:is value:f")
            .problems("f32[2,3] pads=1,0,0,2 value=0.5 @9; f32[2,3] pads=0,2,0,1 mode=reflect @8; f64[4] pads=-1,-2 @10"),
        onnx("Pad")
            .opsets(11)
            .inputs(2, 4)
            .functions(pad_infer, pad_run)
            .carries(carry_pad)
            .attributes("mode:s")
            .problems("f32[1,2,3] i64{0,1,0,0,0,2} f32(1); f32[3,4] i64{0,2,1,3} mode=reflect @13; u8[3,4] i64{1,0,2,0} mode=edge; "
                      "f32[3] i64{4,5} mode=wrap; f32[2,3,4] i64{1,-1} - i64{-1}; f32[0,2] i64{1,0,0,0}"),
        onnx("CenterCropPad")
            .opsets(18)
            .inputs(2)
            .functions(center_crop_pad_infer, center_crop_pad_run)
            .attributes("axes:is")
            .problems("f32[5,8] i64{3,9}; i8[3,4,2] i64{6,1} axes=-3,1; f32[2,0] i32{0,3}"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table pad_gradients() {
    static constexpr gradient_row rows[] = {{"Pad", "", pad_gradient}, {"CenterCropPad", "", center_crop_pad_gradient}};
    return rows;
}

// graft.PadGrad-1: dx[i] = sum of dy wherever Pad put x[i], for `mode` reflect, edge or wrap; `pads` are the begins and ends of all axes,
// `shape` is x's.
inline status read_pad_grad(const op_context& c, border_list& border, shape& x) {
    const integer_list extents = c.integers("shape"), pads = c.integers("pads");
    if (!c.is("mode", "reflect", "") && !c.is("mode", "edge", "") && !c.is("mode", "wrap", ""))
        return c.fail(errc::op_attribute, "the mode is not one of reflect, edge, wrap");
    if (extents.size > shape::max_rank || extents.size != c.in[0].extents.rank() || pads.size != 2 * extents.size)
        return c.fail_shapes("shape and pads have not the rank of the gradient");
    x = shape::from(extents.begin(), extents.end());
    if (elements_of(x) < 0) return c.fail_shapes("the shape is not known or overflows");
    for (int d = 0; d < x.rank(); ++d) {
        const std::int64_t begin = pads[d], end = pads[x.rank() + d], far = std::int64_t(1) << 61;
        if (begin > far || begin < -far || end > far || end < -far || x[d] > far || x[d] + begin + end != c.in[0].extents[d])
            return c.fail_shapes("the pads do not lead from the shape to the gradient");
        const std::int64_t kept = x[d] + (begin < 0 ? begin : 0) + (end < 0 ? end : 0);
        if (kept < 0 || (kept == 0 && (begin > 0 || end > 0))) return c.fail_shapes("the pads cut more than there is");
        border.begin[d] = begin;
        border.end[d] = end;
    }
    return {};
}
inline status pad_grad_infer(infer_context& c) {
    border_list border;
    shape x;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(read_pad_grad(c, border, x));
    return c.set(0, c.in[0].type, x);
}
inline status pad_grad_run(run_context& c) {
    border_list border;
    shape x;
    GRAFT_TRY(read_pad_grad(c, border, x));
    const shape& y = c.in[0].extents;
    if (!x.elements()) return {};
    axis_maps maps;
    buffer memory;
    GRAFT_TRY(pad_maps(c, c.string("mode", "")[0], x, border, y, maps));
    GRAFT_TRY_ASSIGN(memory, c.scratch(checked_mul(x.elements(), 8)));
    auto* sums = reinterpret_cast<double*>(memory.data());
    std::fill(sums, sums + x.elements(), 0.0);
    std::int64_t strides[shape::max_rank], at[shape::max_rank] = {};
    row_major(x, strides);
    for (std::int64_t i = 0, n = y.elements(); i < n; ++i) {
        std::int64_t place = 0;
        for (int d = 0; d < y.rank(); ++d) place += (maps.map[d] ? maps.map[d][at[d]] : at[d]) * strides[d];
        sums[place] += c.in[0].real(i);
        for (int d = y.rank() - 1; d >= 0 && ++at[d] == y[d]; --d) at[d] = 0;
    }
    store_from_double(c.out[0].type, c.out[0].data, 0, x.elements(), sums);
    return {};
}

inline op_table pad_training_ops() {
    static constexpr op_row rows[] = {
        own("PadGrad")
            .inputs(1)
            .functions(pad_grad_infer, pad_grad_run)
            .attributes("pads:is mode:s shape:is")
            .problems(
                "f32[1,2,7,8] pads=0,0,1,2,0,0,2,1 mode=reflect shape=1,2,4,5; f32[2,9] pads=0,3,0,2 mode=edge shape=2,4; f32[12] pads=4,5 mode=wrap shape=3; "
                "f32[4,6] pads=-1,2,1,-1 mode=reflect shape=4,5; "
                "f64[5] pads=2,2 mode=edge shape=1; f16[6] pads=1,1 mode=reflect shape=4; bf16[0,4] pads=0,1,0,1 mode=edge shape=0,2"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
