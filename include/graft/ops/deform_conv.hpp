// Convolution whose kernel elements look where an input tells them: DeformConv, and its gradient.
#pragma once

#include "unfold.hpp"
#include "window_gradient.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace ops {

struct deform_plan {
    short_list strides, dilations, pads, kernel;
    std::int64_t group = 1, offset_group = 1;
};

inline status read_deform(const op_context& c, deform_plan& p) {
    const shape &x = c.in[0].extents, &w = c.in[1].extents, &offset = c.in[2].extents;
    if (x.rank() != 4) return c.fail(errc::op_unsupported, "rank %lld is not supported: only pictures, N x C x H x W, are", x.rank());
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
            GRAFT_TRY(check_real(c, i));
            GRAFT_TRY(check_same_type(c, 0, i));
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
        const std::int64_t room = checked_add(x[2 + d], p.pads[d] + p.pads[2 + d]) - checked_mul(p.kernel[d] - 1, p.dilations[d]) - 1;
        if (p.kernel[d] < 1 || room < 0) return c.fail_shapes("the kernel is empty or larger than the padded picture");
        out.push_back(room / p.strides[d] + 1);
    }
    const std::int64_t taps = checked_mul(p.offset_group, checked_mul(p.kernel[0], p.kernel[1]));
    if (offset != shape{x[0], checked_mul(taps, 2), out[2], out[3]}) return c.fail_shapes("the offsets have not the extents of the output");
    if (c.has(3) && c.in[3].extents != shape{w[0]}) return c.fail_shapes("the bias must have one element a feature map");
    if (c.has(4) && c.in[4].extents != shape{x[0], taps, out[2], out[3]}) return c.fail_shapes("the mask has not the extents of the output");
    return c.set(0, c.in[0].type, out);
}
inline double bilinear_or_zero(const tensor_view& x, std::int64_t plane, std::int64_t height, std::int64_t width, double h, double v) noexcept {
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
    const std::int64_t taps = p.kernel[0] * p.kernel[1], pixels = o[2] * o[3], maps = w[0] / p.group, per_offset = x[1] / p.offset_group;
    for (std::int64_t n = 0; n < o[0]; ++n)
        for (std::int64_t m = 0; m < o[1]; ++m)
            for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
                double sum = c.has(3) ? c.in[3].real(m) : 0;
                for (std::int64_t k = 0; k < w[1]; ++k) {
                    const std::int64_t channel = m / maps * w[1] + k, g = channel / per_offset;
                    for (std::int64_t t = 0; t < taps; ++t) {
                        const std::int64_t at = ((n * p.offset_group + g) * taps + t) * 2 * pixels + pixel;
                        const double h = static_cast<double>(pixel / o[3] * p.strides[0] - p.pads[0] + t / p.kernel[1] * p.dilations[0]) + c.in[2].real(at);
                        const double v =
                            static_cast<double>(pixel % o[3] * p.strides[1] - p.pads[1] + t % p.kernel[1] * p.dilations[1]) + c.in[2].real(at + pixels);
                        const double mask = c.has(4) ? c.in[4].real(((n * p.offset_group + g) * taps + t) * pixels + pixel) : 1;
                        sum += c.in[1].real((m * w[1] + k) * taps + t) * mask * bilinear_or_zero(c.in[0], (n * x[1] + channel) * x[2] * x[3], x[2], x[3], h, v);
                    }
                }
                store_from_double(c.out[0].type, c.out[0].data, (n * o[1] + m) * pixels + pixel, 1, &sum);
            }
    return {};
}

/// One tap of one output: the four elements that it is interpolated from, and how their weights change with the place.
struct deform_tap {
    std::int64_t at[4] = {-1, -1, -1, -1};  ///< in the plane; -1: outside
    double weight[4] = {}, by_h[4] = {}, by_v[4] = {};

    deform_tap(std::int64_t height, std::int64_t width, double h, double v) noexcept {
        if (!(h > -1 && h < static_cast<double>(height) && v > -1 && v < static_cast<double>(width))) return;
        const double a = h - std::floor(h), b = v - std::floor(v);
        const std::int64_t row = static_cast<std::int64_t>(std::floor(h)), column = static_cast<std::int64_t>(std::floor(v));
        for (int k = 0; k < 4; ++k) {
            const std::int64_t r = row + k / 2, q = column + k % 2;
            if (r < 0 || r >= height || q < 0 || q >= width) continue;
            at[k] = r * width + q;
            weight[k] = (k / 2 ? a : 1 - a) * (k % 2 ? b : 1 - b);
            by_h[k] = (k / 2 ? 1 : -1) * (k % 2 ? b : 1 - b);
            by_v[k] = (k / 2 ? a : 1 - a) * (k % 2 ? 1 : -1);
        }
    }
    double sum(const double* plane, const double* factors) const noexcept {
        double s = 0;
        for (int k = 0; k < 4; ++k)
            if (at[k] >= 0) s += factors[k] * plane[at[k]];
        return s;
    }
};

/// The tensors of a gradient of DeformConv, widened.
struct deform_gradient {
    deform_plan p;
    shape x, w, o;
    const double *dy = nullptr, *in = nullptr, *weight = nullptr, *offset = nullptr, *mask = nullptr;
    std::int64_t taps = 0, pixels = 0, maps = 0, per_offset = 0;

    std::int64_t plane() const noexcept { return x[2] * x[3]; }
    std::int64_t group_of(std::int64_t channel) const noexcept { return channel / per_offset; }
    /// Element of the offsets (the first of two) and of the mask.
    std::int64_t offset_at(std::int64_t n, std::int64_t g, std::int64_t t, std::int64_t pixel) const noexcept {
        return ((n * p.offset_group + g) * taps + t) * 2 * pixels + pixel;
    }
    std::int64_t mask_at(std::int64_t n, std::int64_t g, std::int64_t t, std::int64_t pixel) const noexcept {
        return ((n * p.offset_group + g) * taps + t) * pixels + pixel;
    }
    double mask_of(std::int64_t n, std::int64_t g, std::int64_t t, std::int64_t pixel) const noexcept { return mask ? mask[mask_at(n, g, t, pixel)] : 1; }
    deform_tap tap(std::int64_t n, std::int64_t g, std::int64_t t, std::int64_t pixel) const noexcept {
        const std::int64_t at = offset_at(n, g, t, pixel);
        return {x[2], x[3], static_cast<double>(pixel / o[3] * p.strides[0] - p.pads[0] + t / p.kernel[1] * p.dilations[0]) + offset[at],
                static_cast<double>(pixel % o[3] * p.strides[1] - p.pads[1] + t % p.kernel[1] * p.dilations[1]) + offset[at + pixels]};
    }
    /// What comes back to one tap of one channel: the sum over the maps of its group of dY times the weight.
    double back(std::int64_t n, std::int64_t channel, std::int64_t t, std::int64_t pixel) const noexcept {
        const std::int64_t group = channel / w[1];
        double sum = 0;
        for (std::int64_t m = group * maps; m < (group + 1) * maps; ++m)
            sum += dy[(n * o[1] + m) * pixels + pixel] * weight[(m * w[1] + channel % w[1]) * taps + t];
        return sum;
    }
};

// graft.DeformConvGrad(dY, X, W, offset, mask?) -> dX, dW, doffset, dmask; the sum over the batch of dW is the tree of shards
inline status deform_conv_grad_infer(infer_context& c) {
    for (int i = 0; i < c.inputs; ++i)
        if (c.has(i)) {
            GRAFT_TRY(check_real(c, i));
            GRAFT_TRY(check_same_type(c, 0, i));
        }
    int count = 0;
    GRAFT_TRY(read_shards(c, count));
    const tensor_view in[] = {c.in[1], c.in[2], c.in[3], {}, c.has(4) ? c.in[4] : tensor_view{}};
    tensor_view out[1];
    infer_context forward{{c.n, in, 5, out, 1, c.limit}};
    GRAFT_TRY(deform_conv_infer(forward));
    if (out[0].extents != c.in[0].extents) return c.fail_shapes("dY must have the shape that DeformConv gives");
    for (int i = 0; i < 3; ++i) GRAFT_TRY(c.set(i, c.in[0].type, c.in[i + 1].extents));
    return c.has(4) ? c.set(3, c.in[0].type, c.in[4].extents) : c.set(3, c.in[0].type, {});
}
inline status deform_conv_grad_run(run_context& c) {
    deform_gradient d;
    shards cut;
    const op_context forward{c.n, c.in + 1, 3, nullptr, 0, c.limit};
    GRAFT_TRY(read_deform(forward, d.p));
    GRAFT_TRY(read_shards(c, cut.count));
    d.x = c.in[1].extents, d.w = c.in[2].extents, d.o = c.in[0].extents;
    d.taps = d.p.kernel[0] * d.p.kernel[1], d.pixels = d.o[2] * d.o[3], d.maps = d.w[0] / d.p.group, d.per_offset = d.x[1] / d.p.offset_group;
    widened<double> wide[5];
    for (int i = 0; i < 5; ++i)
        if (c.has(i)) GRAFT_TRY(widen(c, c.in[i], wide[i]));
    d.dy = wide[0].data, d.in = wide[1].data, d.weight = wide[2].data, d.offset = wide[3].data, d.mask = c.has(4) ? wide[4].data : nullptr;
    const std::int64_t images = is_empty(c.in[0]) || is_empty(c.in[1]) ? 0 : d.o[0];
    buffer memory[4];
    double* sums[4] = {};
    std::int64_t elements[4];
    for (int i = 0; i < 4; ++i) {
        elements[i] = i < 3 || c.has(4) ? std::max<std::int64_t>(elements_of(c.in[i + 1].extents), 0) : 0;
        GRAFT_TRY(scratch_of(c, elements[i], memory[i], sums[i]));
        std::fill(sums[i], sums[i] + elements[i], 0.0);
    }
    parallel_for(c.pool, images, [&](std::int64_t n) {
        for (std::int64_t channel = 0; channel < d.x[1]; ++channel) {
            const std::int64_t g = d.group_of(channel), plane = (n * d.x[1] + channel) * d.plane();
            for (std::int64_t t = 0; t < d.taps; ++t)
                for (std::int64_t pixel = 0; pixel < d.pixels; ++pixel) {
                    const deform_tap tap = d.tap(n, g, t, pixel);
                    const double back = d.back(n, channel, t, pixel), masked = back * d.mask_of(n, g, t, pixel);
                    for (int k = 0; k < 4; ++k)
                        if (tap.at[k] >= 0) sums[0][plane + tap.at[k]] += masked * tap.weight[k];
                    sums[2][d.offset_at(n, g, t, pixel)] += masked * tap.sum(d.in + plane, tap.by_h);
                    sums[2][d.offset_at(n, g, t, pixel) + d.pixels] += masked * tap.sum(d.in + plane, tap.by_v);
                    if (d.mask) sums[3][d.mask_at(n, g, t, pixel)] += back * tap.sum(d.in + plane, tap.weight);
                }
        }
    });
    parallel_for(c.pool, images ? elements[1] : 0, [&](std::int64_t i) {
        const std::int64_t t = i % d.taps, m = i / d.taps / d.w[1], channel = m / d.maps * d.w[1] + i / d.taps % d.w[1], g = d.group_of(channel);
        sums[1][i] = sum_shards_as(c.in[0].type == dtype::float32, cut.count, [&](int s) {
            double own = 0;
            for (std::int64_t n = cut.first(images, s); n < cut.last(images, s); ++n)
                for (std::int64_t pixel = 0; pixel < d.pixels; ++pixel) {
                    const deform_tap tap = d.tap(n, g, t, pixel);
                    own +=
                        d.dy[(n * d.o[1] + m) * d.pixels + pixel] * d.mask_of(n, g, t, pixel) * tap.sum(d.in + (n * d.x[1] + channel) * d.plane(), tap.weight);
                }
            return own;
        });
    });
    for (int i = 0; i < 4; ++i)
        if (c.wants(i) && elements[i]) store_from_double(c.out[i].type, c.out[i].data, 0, elements[i], sums[i]);
    return {};
}
inline status deform_conv_gradient(gradient_context& c) {
    std::vector<attribute> attributes = c.n.attributes;
    attributes.push_back(integer_attribute("shards", c.shards));
    if (c.wants(3)) c.give(3, sum_to_channels(c, c.dy(), c.extents(c.in(3)).elements()));
    if (!c.wants(0) && !c.wants(1) && !c.wants(2) && !c.wants(4)) return {};
    std::vector<value_id> inputs{c.dy(), c.in(0), c.in(1), c.in(2)};
    if (c.in(4) != no_value) inputs.push_back(c.in(4));
    const std::vector<value_id> made = c.build.apply_all("graft", "DeformConvGrad", std::move(inputs), std::move(attributes), c.in(4) != no_value ? 4 : 3);
    for (int i = 0; i < static_cast<int>(made.size()); ++i)
        if (c.wants(i < 3 ? i : 4)) c.give(i < 3 ? i : 4, made[static_cast<std::size_t>(i)]);
    return {};
}

inline gradient_table deform_conv_gradients() {
    static constexpr gradient_row rows[] = {{"DeformConv", "", deform_conv_gradient}};
    return rows;
}
inline op_table deform_conv_training_ops() {
    static constexpr op_row rows[] = {
        own("DeformConvGrad")
            .inputs(4, 5)
            .outputs(1, 4)
            .functions(deform_conv_grad_infer, deform_conv_grad_run)
            .exact_inputs(3)
            .exact_outputs_from(0)
            .sums_batch()
            .attributes("dilations:is group:i kernel_shape:is offset_group:i pads:is shards:i strides:is")
            .problems("f32[1,3,3,4] f32[1,2,4,5] f32[3,2,2,2] f32[1,8,3,4]; f32[3,2,2,2] f32[3,4,3,3] f32[2,2,2,2] f32[3,16,2,2] f32[3,8,2,2] group=2 "
                      "offset_group=2 shards=2; "
                      "f64[2,1,2,2] f64[2,1,3,3] f64[1,1,3,3] f64[2,18,2,2] strides=2,2 pads=1,1,1,1; f32[0,1,2,2] f32[0,1,3,3] f32[1,1,2,2] f32[0,8,2,2]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline op_table deform_conv_ops() {
    static constexpr op_row rows[] = {
        onnx("DeformConv")
            .opsets(19)
            .inputs(3, 5)
            .functions(deform_conv_infer, deform_conv_run)
            .carries(carry_first_axis<21>)
            .combines()
            .plays(op_role::convolution)
            .weights(1, 3)
            .exact_inputs(2)
            .attributes("dilations:is group:i kernel_shape:is offset_group:i pads:is strides:is")
            .problems("f32[1,2,4,5] f32[3,2,2,2] f32[1,8,3,4]; f32[1,4,3,3] f32[2,2,2,2] f32[1,16,2,2] f32[2] f32[1,8,2,2] group=2 "
                      "offset_group=2; "
                      "f32[1,1,3,3] f32[1,1,3,3] f32[1,18,2,2] strides=2,2 pads=1,1,1,1; f32[0,1,3,3] f32[1,1,2,2] f32[0,8,2,2]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
