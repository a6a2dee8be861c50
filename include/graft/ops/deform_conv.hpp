// Convolution whose kernel elements look where an input tells them: DeformConv.
#pragma once

#include "unfold.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace ops {

struct deform_plan {
    short_list strides, dilations, pads, kernel;
    std::int64_t group = 1, offset_group = 1;
};

inline status read_deform(const op_context& c, deform_plan& p) {
    const shape &x = c.in[0].extents, &w = c.in[1].extents, &offset = c.in[2].extents;
    if (x.rank() != 4)
        return c.fail(errc::op_unsupported, "rank %lld is not supported: only pictures, N x C x H x W, are", x.rank());
    if (w.rank() != 4 || offset.rank() != 4) return c.fail_shapes("weights and offsets must have four axes");
    GRAFT_TRY(fill_defaults(c, "strides", 2, 1, 1, p.strides));
    GRAFT_TRY(fill_defaults(c, "dilations", 2, 1, 1, p.dilations));
    GRAFT_TRY(fill_defaults(c, "pads", 4, 0, 0, p.pads));
    if (c.has_attribute("kernel_shape"))
        GRAFT_TRY(fill_defaults(c, "kernel_shape", 2, 1, 1, p.kernel));
    else
        for (p.kernel.size = 0; p.kernel.size < 2; ++p.kernel.size) p.kernel.values[p.kernel.size] = w[2 + p.kernel.size];
    p.group = c.integer("group", 1);
    p.offset_group = c.integer("offset_group", 1);
    return {};
}

// DeformConv-19,22: y[n, o, i, j] = b[o] + sum over c, k, l of w[o, c, k, l] mask[n, g, k, l, i, j] x[n, c, h, v], x bilinear and
// 0 outside, at h = i stride - pad + k dilation + offset[n, g, k, l, 0, i, j] and v alike from offset[.., 1, ..].
inline status deform_conv_infer(infer_context& c) {
    for (int i = 0; i < c.inputs; ++i)
        if (c.has(i)) {
            GRAFT_TRY(real_type(c, i));
            GRAFT_TRY(same_type(c, 0, i));
        }
    deform_plan p;
    GRAFT_TRY(read_deform(c, p));
    const shape &x = c.in[0].extents, &w = c.in[1].extents, &offset = c.in[2].extents;
    for (int d = 0; d < 2; ++d)
        if (p.kernel[d] != w[2 + d]) return c.fail_shapes("kernel_shape differs from the weights");
    if (p.group < 1 || p.offset_group < 1 || x[1] % p.offset_group || w[0] % p.group || w[1] != x[1] / p.group || x[1] % p.group)
        return c.fail(errc::op_attribute, "group %lld and offset_group %lld do not fit the channels", p.group, p.offset_group);
    shape out{x[0], w[0]};
    for (int d = 0; d < 2; ++d) {
        const std::int64_t room =
            checked_add(x[2 + d], p.pads[d] + p.pads[2 + d]) - checked_mul(p.kernel[d] - 1, p.dilations[d]) - 1;
        if (p.kernel[d] < 1 || room < 0) return c.fail_shapes("the kernel is empty or larger than the padded picture");
        out.push_back(room / p.strides[d] + 1);
    }
    const std::int64_t taps = checked_mul(p.offset_group, checked_mul(p.kernel[0], p.kernel[1]));
    if (offset != shape{x[0], checked_mul(taps, 2), out[2], out[3]})
        return c.fail_shapes("the offsets have not the extents of the output");
    if (c.has(3) && c.in[3].extents != shape{w[0]}) return c.fail_shapes("the bias must have one element a feature map");
    if (c.has(4) && c.in[4].extents != shape{x[0], taps, out[2], out[3]})
        return c.fail_shapes("the mask has not the extents of the output");
    return c.set(0, c.in[0].type, out);
}
inline double bilinear_or_zero(const tensor_view& x, std::int64_t plane, std::int64_t height, std::int64_t width, double h,
                               double v) noexcept {
    if (!(h > -1 && h < static_cast<double>(height) && v > -1 && v < static_cast<double>(width))) return 0;
    const double h0 = std::floor(h), v0 = std::floor(v);
    const std::int64_t row = static_cast<std::int64_t>(h0), column = static_cast<std::int64_t>(v0);
    double sum = 0;
    for (int k = 0; k < 4; ++k) {
        const std::int64_t r = row + k / 2, q = column + k % 2;
        if (r < 0 || r >= height || q < 0 || q >= width) continue;
        sum += (k / 2 ? h - h0 : 1 - (h - h0)) * (k % 2 ? v - v0 : 1 - (v - v0)) * x.real(plane + r * width + q);
    }
    return sum;
}
inline status deform_conv_run(run_context& c) {
    deform_plan p;
    GRAFT_TRY(read_deform(c, p));
    const shape &x = c.in[0].extents, &w = c.in[1].extents, &o = c.out[0].extents;
    const std::int64_t taps = p.kernel[0] * p.kernel[1], pixels = o[2] * o[3], maps = w[0] / p.group,
                       per_offset = x[1] / p.offset_group;
    for (std::int64_t n = 0; n < o[0]; ++n)
        for (std::int64_t m = 0; m < o[1]; ++m)
            for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
                double sum = c.has(3) ? c.in[3].real(m) : 0;
                for (std::int64_t k = 0; k < w[1]; ++k) {
                    const std::int64_t channel = m / maps * w[1] + k, g = channel / per_offset;
                    for (std::int64_t t = 0; t < taps; ++t) {
                        const std::int64_t at = ((n * p.offset_group + g) * taps + t) * 2 * pixels + pixel;
                        const double h =
                            static_cast<double>(pixel / o[3] * p.strides[0] - p.pads[0] + t / p.kernel[1] * p.dilations[0]) +
                            c.in[2].real(at);
                        const double v =
                            static_cast<double>(pixel % o[3] * p.strides[1] - p.pads[1] + t % p.kernel[1] * p.dilations[1]) +
                            c.in[2].real(at + pixels);
                        const double mask = c.has(4) ? c.in[4].real(((n * p.offset_group + g) * taps + t) * pixels + pixel) : 1;
                        sum += c.in[1].real((m * w[1] + k) * taps + t) * mask *
                               bilinear_or_zero(c.in[0], (n * x[1] + channel) * x[2] * x[3], x[2], x[3], h, v);
                    }
                }
                store_from_double(c.out[0].type, c.out[0].data, (n * o[1] + m) * pixels + pixel, 1, &sum);
            }
    return {};
}

inline op_table deform_conv_ops() {
    static constexpr op_row rows[] = {
        GRAFT_OP("DeformConv", 19, 0, 3, 5, 1, 1, deform_conv_infer, deform_conv_run, op_flag::none,
                 "dilations:is group:i kernel_shape:is offset_group:i pads:is strides:is",
                 "f32[1,2,4,5] f32[3,2,2,2] f32[1,8,3,4]; f32[1,4,3,3] f32[2,2,2,2] f32[1,16,2,2] f32[2] f32[1,8,2,2] group=2 "
                 "offset_group=2; "
                 "f32[1,1,3,3] f32[1,1,3,3] f32[1,18,2,2] strides=2,2 pads=1,1,1,1; f32[0,1,3,3] f32[1,1,2,2] f32[0,8,2,2]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return {rows, sizeof rows / sizeof rows[0]};
}

} // namespace ops
GRAFT_END_NAMESPACE
