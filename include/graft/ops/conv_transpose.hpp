// ConvTranspose: the convolution's gradient as an operator of its own; and that of Conv for its input, which is the same loop.
#pragma once

#include "conv.hpp"

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
    if (list.size && list.size - skip != w.rank) return c.fail(errc::op_attribute, "output_shape has %lld items for %lld spatial axes", list.size, w.rank);
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
            if (a.output < 0) return c.fail(errc::op_attribute, "pads %lld and %lld take more than the output's %lld", a.pad_begin, a.pad_end, full);
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
    if (weight[0] != in[1] || in[1] % p.groups) return c.fail_shapes("weights must be [C, M / group, kernel...] with C a multiple of group");
    p.ic = in[1] / p.groups;
    p.oc = weight[1];
    if (checked_mul(p.oc, p.groups) < 0) return c.fail_shapes("the number of output channels overflows");
    return check_vector(c, 2, p.oc * p.groups);
}
inline status conv_transpose_infer(infer_context& c) {
    transposed_convolution p;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(check_same_type(c, 1, 0));
    GRAFT_TRY(check_same_type(c, 2, 0));
    GRAFT_TRY(plan_conv_transpose(c, p));
    return c.set(0, c.in[0].type, window_shape(p.n, p.groups * p.oc, p.w));
}

/// dX of one plane and one kernel of a convolution: adds dY times each tap's weight to what the tap sees.
GRAFT_NOINLINE inline void scatter_plane(const window& w, const double* dy, const double* weight, double* dx) {
    const std::int64_t stride = w.axis[w.rank - 1].stride;
    std::int64_t tap[shape::max_rank] = {};
    for (std::int64_t t = 0, taps = w.taps(); t < taps; ++t) {
        for_rows_under_tap(w, tap, [&](std::int64_t output, std::int64_t input, std::int64_t first, std::int64_t last) {
            for (std::int64_t o = first; o < last; ++o) dx[input + o * stride] += weight[t] * dy[output + o];
        });
        for (int i = w.rank - 1; i >= 0 && ++tap[i] == w.axis[i].kernel; --i) tap[i] = 0;
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
    window forward = p.w;  // of the convolution that this is the gradient of
    for (int i = 0; i < forward.rank; ++i) std::swap(forward.axis[i].input, forward.axis[i].output);
    const std::int64_t plane = p.w.outputs(), in_plane = p.w.inputs(), taps = p.w.taps();
    buffer memory;
    double* sums = nullptr;
    GRAFT_TRY(scratch_of(c, c.out[0].elements(), memory, sums));
    parallel_for(c.pool, p.n * p.groups * p.oc, [&](std::int64_t task) {
        const std::int64_t m = task % (p.groups * p.oc), image = task / (p.groups * p.oc), group = m / p.oc;
        double* y = sums + task * plane;
        std::fill(y, y + plane, b.data ? b.data[m] : 0.0);
        for (std::int64_t channel = group * p.ic; channel < (group + 1) * p.ic; ++channel)
            scatter_plane(forward, x.data + (image * p.groups * p.ic + channel) * in_plane, w.data + (channel * p.oc + m % p.oc) * taps, y);
        store_from_double(c.out[0].type, c.out[0].data, task * plane, plane, y);
    });
    return {};
}

// dX = Conv(dY, W), dW = ConvGradWeight(dY, X), dB = dY summed over all but the channels; the convolution is the one that
// ConvTranspose turns around, its input being Y.
inline status conv_transpose_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    const op_context forward = forward_context(c, in);
    transposed_convolution p;
    GRAFT_TRY(plan_conv_transpose(forward, p));
    if (c.wants(2)) c.give(2, sum_to_channels(c, c.dy(), p.oc * p.groups));
    if (!c.wants(0) && !c.wants(1)) return {};
    if (c.extents(c.in(0)).elements() == 0 || c.extents(c.out()).elements() == 0) {
        for (int i = 0; i < 2; ++i)
            if (c.wants(i)) c.give(i, c.build.zeros(shape(c.extents(c.in(i))), c.dy()));
        return {};
    }
    value_id dy = c.dy();
    std::vector<std::int64_t> ends, axes;
    bool cut = false;
    for (int i = 0; i < p.w.rank; ++i) {
        window_axis& a = p.w.axis[i];
        // Elements of Y behind what the last window reaches came from no X.
        const std::int64_t reach = (a.input - 1) * a.stride + a.span() - a.pad_begin, beyond = a.output - reach;
        a.pad_end = std::max<std::int64_t>(-beyond, 0);
        axes.push_back(i + 2);
        ends.push_back(beyond >= a.stride ? reach : a.output);
        cut = cut || beyond >= a.stride;
    }
    if (cut) dy = c.build.apply("Slice", {dy, c.build.integers(std::vector<std::int64_t>(axes.size(), 0)), c.build.integers(ends), c.build.integers(axes)});
    std::vector<attribute> attributes = window_attributes(p.w);
    attributes.push_back(integer_attribute("group", p.groups));
    if (c.wants(0)) c.give(0, c.build.apply("Conv", {dy, c.in(1)}, attributes));
    if (c.wants(1)) {
        attributes.push_back(shape_attribute("shape", shape(c.extents(c.in(1)))));
        attributes.push_back(integer_attribute("shards", c.shards));
        c.give(1, c.build.apply_graft("ConvGradWeight", {dy, c.in(0)}, std::move(attributes)));
    }
    return {};
}

// graft.ConvGradInput(dY, W): every dY[n,m,o] adds dY * W[m,c,k] to dX[n, group(m) * C/group + c, o * stride - pad + k * dilation]
inline status plan_conv_grad_input(const op_context& c, shape& x, convolution& p) {
    GRAFT_TRY(read_shape_attribute(c, x));
    return plan_conv_grad(c, x, c.in[1].extents, c.in[0].extents, p);
}
inline status conv_grad_input_infer(infer_context& c) {
    shape x;
    convolution p;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(check_same_type(c, 1, 0));
    GRAFT_TRY(plan_conv_grad_input(c, x, p));
    return c.set(0, c.in[0].type, x);
}
inline status conv_grad_input_run(run_context& c) {
    shape x;
    convolution p;
    GRAFT_TRY(plan_conv_grad_input(c, x, p));
    if (is_empty(c.out[0])) return {};
    widened<double> dy, w;
    GRAFT_TRY(widen(c, c.in[0], dy));
    GRAFT_TRY(widen(c, c.in[1], w));
    const std::int64_t plane = p.w.inputs(), dy_plane = p.w.outputs(), taps = p.w.taps();
    buffer memory;
    double* sums = nullptr;
    GRAFT_TRY(scratch_of(c, c.out[0].elements(), memory, sums));
    parallel_for(c.pool, p.n * p.groups * p.ic, [&](std::int64_t task) {
        const std::int64_t image = task / (p.groups * p.ic), channel = task % (p.groups * p.ic), group = channel / p.ic;
        double* dx = sums + task * plane;
        std::fill(dx, dx + plane, 0.0);
        for (std::int64_t m = group * p.oc; dy_plane && m < (group + 1) * p.oc; ++m)
            scatter_plane(p.w, dy.data + (image * p.groups * p.oc + m) * dy_plane, w.data + (m * p.ic + channel % p.ic) * taps, dx);
        store_from_double(c.out[0].type, c.out[0].data, task * plane, plane, dx);
    });
    return {};
}

inline gradient_table conv_transpose_gradients() {
    static constexpr gradient_row rows[] = {{"ConvTranspose", "", conv_transpose_gradient}};
    return rows;
}
inline op_table conv_transpose_training_ops() {
    static constexpr op_row rows[] = {
        own("ConvGradInput")
            .inputs(2)
            .functions(conv_grad_input_infer, conv_grad_input_run)
            .residual(2)
            .attributes("dilations:is group:i kernel_shape:is pads:is shape:is strides:is")
            .problems("f32[3,5,9,7] f32[5,3,3,3] shape=3,3,9,7 pads=1,1,1,1; f32[2,6,3,8] f32[6,2,3,2] shape=2,4,8,9 group=2 strides=2,1 dilations=1,1; "
                      "f32[2,7,3,3] f32[7,1,3,3] shape=2,7,5,5 group=7 strides=2,2 pads=1,1,1,1; f32[2,4,11] f32[4,3,4] shape=2,3,11 pads=2,1; "
                      "f64[1,3,4,3,6] f64[3,2,2,3,2] shape=1,2,4,5,6 pads=1,0,1,0,0,0; f32[0,2,5,5] f32[2,3,1,1] shape=0,3,5,5; f16[2,3,2,2] f16[3,5,1,1] "
                      "shape=2,5,4,4 strides=2,2; "
                      "f32[2,32,4,4] f32[32,16,3,3] shape=2,16,8,8 strides=2,2 pads=1,1,1,1; "
                      "f32[3,6,4,4] f32[6,4,3,3] shape=3,4,8,8 strides=2,2 pads=0,0,1,1"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

// Each element of the input is multiplied by the weights of its channel.
inline std::int64_t conv_transpose_work(const op_context& c) {
    if (!c.has(1) || !c.in[1].extents.rank()) return 0;
    const shape& w = c.in[1].extents;
    return checked_mul(elements_of(c.in[0].extents), w.product(1, w.rank()));
}

inline op_table conv_transpose_ops() {
    static constexpr op_row rows[] = {
        onnx("ConvTranspose")
            .in_eight_bits(eight_bits::multiplies)
            .inputs(2, 3)
            .functions(conv_transpose_infer, conv_transpose_run)
            .carries(carry_first_axis<1>)
            .combines()
            .plays(op_role::convolution)
            .weights(1, 2)
            .widens()
            .work(conv_transpose_work)
            .attributes("auto_pad:s dilations:is group:i kernel_shape:is output_padding:is output_shape:is pads:is strides:is")
            .problems("f32[2,3,4,4] f32[3,5,3,3] f32[5] strides=2,2 pads=0,0,1,1; f32[1,3,5,4] f32[3,2,3,3] f32[2] strides=2,2 pads=1,1,1,1 "
                      "output_padding=1,1; f32[2,4,3,3] f32[4,3,2,2] "
                      "group=2 dilations=2,2; "
                      "f32[1,1,3,3] f32[1,2,3,3] strides=3,2 output_shape=10,8; f32[1,2,6] f32[2,3,4] auto_pad=SAME_UPPER strides=2; "
                      "f32[1,1,2,3,2] f32[1,1,2,2,3]; f32[0,2,3,3] f32[2,2,3,3]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
