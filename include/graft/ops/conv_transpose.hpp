// ConvTranspose: the convolution's gradient as an operator of its own.
#pragma once

#include "window.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// Output sizes and pads of a transposed window: the axes keep the roles that the forward convolution gives them
/// ("input" is what ConvTranspose reads), output = stride * (input - 1) + output_padding + span - pads.
GRAFT_NOINLINE inline status size_transposed_window(const op_context& c, window& w) {
    padding_rule rule = padding_rule::explicit_pads;
    GRAFT_TRY(read_padding_rule(c, rule));
    std::int64_t extra[shape::max_rank], wanted_output[shape::max_rank];
    GRAFT_TRY(read_spatial(c, "output_padding", 0, w.rank, 0, extra));
    const integer_list list = c.integers("output_shape");
    // Older exporters wrote the whole shape, batch and channels included.
    const int skip = list.size == w.rank + 2 ? 2 : 0;
    if (list.size && list.size - skip != w.rank)
        return c.fail(errc::op_attribute, "output_shape has %lld items for %lld spatial axes", list.size, w.rank);
    for (int i = 0; i < w.rank; ++i) {
        window_axis& a = w.axis[i];
        if (extra[i] >= std::max(a.stride, a.dilation))
            return c.fail(errc::op_attribute, "output_padding %lld must be less than the stride or the dilation", extra[i]);
        const std::int64_t full = checked_add(checked_mul(std::max<std::int64_t>(a.input - 1, 0), a.stride), a.span() + extra[i]);
        if (full < 0) return c.fail(errc::op_attribute, "the output of axis %lld overflows", i);
        if (list.size) {
            wanted_output[i] = list[i + skip];
            if (wanted_output[i] < 0) return c.fail(errc::op_attribute, "output_shape holds %lld", wanted_output[i]);
        } else if (rule == padding_rule::same_upper || rule == padding_rule::same_lower) {
            wanted_output[i] = checked_mul(a.input, a.stride);
            if (wanted_output[i] < 0) return c.fail(errc::op_attribute, "the output of axis %lld overflows", i);
        } else {
            if (rule == padding_rule::valid) a.pad_begin = a.pad_end = 0;
            a.output = a.input == 0 ? 0 : full - a.pad_begin - a.pad_end;
            if (a.output < 0)
                return c.fail(errc::op_attribute, "pads %lld and %lld take more than the output's %lld", a.pad_begin, a.pad_end,
                              full);
            continue;
        }
        a.output = wanted_output[i];
        // Negative totals mean that zeros are added behind the output.
        const std::int64_t total = full - a.output;
        // The specification: SAME_UPPER puts the odd one at the end, every other rule at the beginning.
        if (total >= 0)
            split_padding(total, rule != padding_rule::same_upper, a);
        else
            a.pad_begin = 0, a.pad_end = total;
    }
    return {};
}

// ConvTranspose-1,11,22: every X[n,c,i] adds X * W[c,m,k] to Y[n, group * M + m, i * stride - pad + k * dilation]
struct transposed_convolution {
    std::int64_t n = 0, groups = 1, ic = 0, oc = 0;
    window w;
};
inline status plan_conv_transpose(const op_context& c, transposed_convolution& p) {
    const shape &in = c.in[0].extents, &weight = c.in[1].extents;
    GRAFT_TRY(read_window(c, in, &weight, p.w));
    GRAFT_TRY(size_transposed_window(c, p.w));
    p.n = in[0];
    p.groups = c.integer("group", 1);
    if (p.groups < 1) return c.fail(errc::op_attribute, "group is %lld, but must be at least 1", p.groups);
    if (weight[0] != in[1] || in[1] % p.groups)
        return c.fail_shapes("weights must be [C, M / group, kernel...] with C a multiple of group");
    p.ic = in[1] / p.groups;
    p.oc = weight[1];
    if (checked_mul(p.oc, p.groups) < 0) return c.fail_shapes("the number of output channels overflows");
    return need_vector(c, 2, p.oc * p.groups);
}
inline status conv_transpose_infer(infer_context& c) {
    transposed_convolution p;
    GRAFT_TRY(need_arithmetic_float(c, 0));
    GRAFT_TRY(need_same_type(c, 1, 0));
    GRAFT_TRY(need_same_type(c, 2, 0));
    GRAFT_TRY(plan_conv_transpose(c, p));
    return c.set(0, c.in[0].type, window_shape(p.n, p.groups * p.oc, p.w));
}

/// Adds one input plane, seen through one kernel, to one output plane.
GRAFT_NOINLINE inline void scatter_plane(const window& w, const double* x, const double* weight, double* y) {
    const int last = w.rank - 1;
    const window_axis& row = w.axis[last];
    std::int64_t tap[shape::max_rank] = {};
    const std::int64_t taps = w.taps(), rows = row.input ? w.inputs() / row.input : 0;
    for (std::int64_t t = 0; t < taps; ++t) {
        const double factor = weight[t];
        std::int64_t in[shape::max_rank] = {};
        const std::int64_t shift = tap[last] * row.dilation - row.pad_begin;
        const std::int64_t low = shift >= 0 ? 0 : (-shift + row.stride - 1) / row.stride;
        const std::int64_t high =
            std::min(row.input, shift >= row.output ? 0 : (row.output - shift + row.stride - 1) / row.stride);
        for (std::int64_t r = 0; r < rows; ++r) {
            std::int64_t y_row = 0;
            bool inside = true;
            for (int i = 0; i < last; ++i) {
                const window_axis& a = w.axis[i];
                const std::int64_t o = in[i] * a.stride - a.pad_begin + tap[i] * a.dilation;
                inside = inside && o >= 0 && o < a.output;
                y_row = y_row * a.output + o;
            }
            if (inside)
                for (std::int64_t i = low; i < high; ++i)
                    y[y_row * row.output + i * row.stride + shift] += factor * x[r * row.input + i];
            for (int i = last - 1; i >= 0 && ++in[i] == w.axis[i].input; --i) in[i] = 0;
        }
        for (int i = last; i >= 0 && ++tap[i] == w.axis[i].kernel; --i) tap[i] = 0;
    }
}

inline status conv_transpose_run(run_context& c) {
    transposed_convolution p;
    if (is_empty(c.out[0])) return {};
    GRAFT_TRY(plan_conv_transpose(c, p));
    widened<double> x, w, b;
    GRAFT_TRY(widen(c, c.in[0], x));
    GRAFT_TRY(widen(c, c.in[1], w));
    if (c.has(2)) GRAFT_TRY(widen(c, c.in[2], b));
    const std::int64_t plane = p.w.outputs(), in_plane = p.w.inputs(), taps = p.w.taps();
    buffer memory;
    double* sums = nullptr;
    GRAFT_TRY(scratch_of(c, c.out[0].elements(), memory, sums));
    parallel_for(c.pool, p.n * p.groups * p.oc, [&](std::int64_t task) {
        const std::int64_t m = task % (p.groups * p.oc), image = task / (p.groups * p.oc), group = m / p.oc;
        double* y = sums + task * plane;
        std::fill(y, y + plane, b.data ? b.data[m] : 0.0);
        for (std::int64_t channel = group * p.ic; channel < (group + 1) * p.ic; ++channel)
            scatter_plane(p.w, x.data + (image * p.groups * p.ic + channel) * in_plane,
                          w.data + (channel * p.oc + m % p.oc) * taps, y);
        store_from_double(c.out[0].type, c.out[0].data, task * plane, plane, y);
    });
    return {};
}

inline op_table conv_transpose_ops() {
    static constexpr op_row rows[] = {
        GRAFT_OP("ConvTranspose", 1, 0, 2, 3, 1, 1, conv_transpose_infer, conv_transpose_run, op_flag::none,
                 "auto_pad:s dilations:is group:i kernel_shape:is output_padding:is output_shape:is pads:is strides:is",
                 "f32[1,3,5,4] f32[3,2,3,3] f32[2] strides=2,2 pads=1,1,1,1 output_padding=1,1; f32[2,4,3,3] f32[4,3,2,2] "
                 "group=2 dilations=2,2; "
                 "f32[1,1,3,3] f32[1,2,3,3] strides=3,2 output_shape=10,8; f32[1,2,6] f32[2,3,4] auto_pad=SAME_UPPER strides=2; "
                 "f32[1,1,2,3,2] f32[1,1,2,2,3]; f32[0,2,3,3] f32[2,2,3,3]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return {rows, sizeof rows / sizeof rows[0]};
}

} // namespace ops
GRAFT_END_NAMESPACE
