// Operators that put windows and pooled elements back: Col2Im, MaxUnpool; and their gradients, which take them out again.
#pragma once

#include "gradient_common.hpp"
#include "scatter.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// The windows that Col2Im adds up.
struct window_grid {
    short_list image, block, strides, dilations, pads;
    shape windows;
    std::int64_t kernel = 1;
};

inline status fill_defaults(const op_context& c, const char* name, int count, std::int64_t otherwise, std::int64_t least, short_list& list) {
    bool given = false;
    GRAFT_TRY(read_list(c, -1, name, false, list, given));
    if (!given)
        for (list.size = 0; list.size < count; ++list.size) list.values[list.size] = otherwise;
    if (list.size != count) return c.fail(errc::op_attribute, "an attribute has %lld entries, not %lld", list.size, count);
    for (int i = 0; i < count; ++i)
        if (list[i] < least || list[i] > INT32_MAX) return c.fail(errc::op_attribute, "an attribute holds %lld, which is out of range", list[i]);
    return {};
}
inline status read_windows(const op_context& c, window_grid& g) {
    bool given = false;
    GRAFT_TRY(read_list(c, 1, nullptr, false, g.image, given));
    GRAFT_TRY(read_list(c, 2, nullptr, false, g.block, given));
    const int axes = g.image.size;
    if (axes < 1 || axes != g.block.size) return c.fail(errc::op_shape, "image_shape has %lld entries, block_shape %lld", axes, g.block.size);
    GRAFT_TRY(check_rank(c, 2 + axes));
    GRAFT_TRY(fill_defaults(c, "strides", axes, 1, 1, g.strides));
    GRAFT_TRY(fill_defaults(c, "dilations", axes, 1, 1, g.dilations));
    GRAFT_TRY(fill_defaults(c, "pads", 2 * axes, 0, 0, g.pads));
    for (int d = 0; d < axes; ++d) {
        if (g.image[d] < 1 || g.block[d] < 1 || g.image[d] > INT32_MAX || g.block[d] > INT32_MAX)
            return c.fail(errc::op_value, "extents %lld and %lld are out of range", g.image[d], g.block[d]);
        const std::int64_t room = g.image[d] + g.pads[d] + g.pads[axes + d] - g.dilations[d] * (g.block[d] - 1) - 1;
        if (room < 0) return c.fail(errc::op_shape, "the window is larger than axis %lld of the image", d);
        g.windows.push_back(room / g.strides[d] + 1);
        g.kernel = checked_mul(g.kernel, g.block[d]);
    }
    const shape& s = c.in[0].extents;
    if (s.rank() != 3 || g.kernel < 1 || s[1] % g.kernel || s[2] != elements_of(g.windows))
        return c.fail_shapes("the input must be [N, channels * window size, windows]");
    return {};
}

// Col2Im-18: windows are added where they were taken from; the inverse of unfolding an image.
inline status col2im_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    GRAFT_TRY(check_index_type(c, 1, false));
    GRAFT_TRY(check_index_type(c, 2, false));
    if (unknown(c, 1) || unknown(c, 2)) return c.defer();
    window_grid g;
    GRAFT_TRY(read_windows(c, g));
    shape out{c.in[0].extents[0], c.in[0].extents[1] / g.kernel};
    for (int d = 0; d < g.image.size; ++d) out.push_back(g.image[d]);
    return c.set(0, c.in[0].type, out);
}
inline status col2im_run(run_context& c) {
    window_grid g;
    GRAFT_TRY(read_windows(c, g));
    const shape& o = c.out[0].extents;
    const int axes = g.image.size;
    const std::int64_t pixels = o.product(2, o.rank()), planes = o[0] * o[1], windows = g.windows.elements();
    if (o.elements() == 0) return {};
    std::memset(c.out[0].data, 0, static_cast<std::size_t>(bytes_of(c.out[0].type, o)));
    for (std::int64_t plane = 0; plane < planes; ++plane)
        for (std::int64_t k = 0; k < g.kernel; ++k)
            for (std::int64_t w = 0; w < windows; ++w) {
                std::int64_t to = 0, step = 1, in_block = k, in_windows = w;
                bool inside = true;
                for (int d = axes - 1; d >= 0; --d) {
                    const std::int64_t at = in_windows % g.windows[d] * g.strides[d] - g.pads[d] + in_block % g.block[d] * g.dilations[d];
                    inside = inside && at >= 0 && at < g.image[d];
                    to += at * step;
                    step *= g.image[d];
                    in_windows /= g.windows[d];
                    in_block /= g.block[d];
                }
                if (inside)
                    combine(scatter_reduction::add, c.out[0].type, c.out[0].data, plane * pixels + to, c.in[0].data, (plane * g.kernel + k) * windows + w, 1);
            }
    return {};
}

// MaxUnpool-9,11,22: pooled elements go back to their places (counted over the whole unpooled tensor), the rest is 0; a larger
// output_shape adds zeros behind every axis.
inline GRAFT_COLD status read_unpooled(const op_context& c, shape& unpooled, shape& out) {
    const shape& s = c.in[0].extents;
    const int axes = s.rank() - 2;
    if (axes < 1 || c.in[1].extents != s) return c.fail_shapes("the input must have at least one spatial axis, and as many indices");
    short_list kernel, strides, pads, wanted;
    bool given = false;
    if (!c.has_attribute("kernel_shape")) return c.fail(errc::op_attribute, "kernel_shape is missing");
    GRAFT_TRY(fill_defaults(c, "kernel_shape", axes, 1, 1, kernel));
    GRAFT_TRY(fill_defaults(c, "strides", axes, 1, 1, strides));
    GRAFT_TRY(fill_defaults(c, "pads", 2 * axes, 0, 0, pads));
    unpooled = s;
    for (int d = 0; d < axes; ++d) {
        const std::int64_t reach = s[2 + d] ? checked_add(checked_mul(s[2 + d] - 1, strides[d]), kernel[d]) : 0;
        unpooled[2 + d] = reach - pads[d] - pads[axes + d];
        if (reach < 0 || unpooled[2 + d] < 0) return c.fail(errc::op_shape, "the unpooled extent of axis %lld is out of range", d + 2);
    }
    out = unpooled;
    if (!c.has(2)) return {};
    GRAFT_TRY(read_list(c, 2, nullptr, false, wanted, given));
    if (wanted.size != s.rank()) return c.fail(errc::op_shape, "output_shape has %lld entries for rank %lld", wanted.size, s.rank());
    for (int d = 0; d < s.rank(); ++d) {
        if (wanted[d] < unpooled[d]) return c.fail(errc::op_shape, "output extent %lld is smaller than the unpooled %lld", wanted[d], unpooled[d]);
        out[d] = wanted[d];
    }
    return {};
}
inline status max_unpool_infer(infer_context& c) {
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(check_index_type(c, 1, false));
    if (c.has(2)) GRAFT_TRY(check_index_type(c, 2, false));
    if (unknown(c, 2)) return c.defer();
    shape unpooled, out;
    GRAFT_TRY(read_unpooled(c, unpooled, out));
    return c.set(0, c.in[0].type, out);
}
inline status max_unpool_run(run_context& c) {
    shape unpooled, out;
    GRAFT_TRY(read_unpooled(c, unpooled, out));
    const std::int64_t n = c.in[0].elements(), bytes = bytes_of(c.out[0].type, out), places = elements_of(unpooled);
    const std::size_t size = size_of(c.in[0].type);
    if (bytes > 0) std::memset(c.out[0].data, 0, static_cast<std::size_t>(bytes));
    std::int64_t strides[shape::max_rank];
    row_major(out, strides);
    for (std::int64_t i = 0; i < n; ++i) {
        std::int64_t rest = index_at(c.in[1], i), to = 0;
        if (rest < 0 || rest >= places) return bad_index(c, rest, places);
        for (int d = unpooled.rank() - 1; d >= 0; --d) {
            to += rest % unpooled[d] * strides[d];
            rest /= unpooled[d];
        }
        copy_run(size, c.out[0].as<char>() + to * static_cast<std::int64_t>(size), 1, c.in[0].as<char>() + i * static_cast<std::int64_t>(size), 1, 1);
    }
    return {};
}

// The windows of dY, by a convolution with one kernel for each element of a window
inline status col2im_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    const op_context forward = forward_context(c, in);
    window_grid g;
    if (!c.wants(0)) return {};
    if (!is_constant(c, 1) || !is_constant(c, 2)) return c.refuse("image_shape and block_shape have to be constants");
    GRAFT_TRY(read_windows(forward, g));
    const shape x = c.extents(c.in(0)), o = c.extents(c.out());
    if (x.elements() == 0) return c.give(0, c.build.zeros(x, c.dy())), status();
    shape planes{o[0] * o[1], 1}, taps{g.kernel, 1};
    for (int i = 0; i < g.image.size; ++i) planes.push_back(g.image[i]), taps.push_back(g.block[i]);
    tensor one_hot;
    GRAFT_TRY_ASSIGN(one_hot, tensor::zeros(c.build.type(c.dy()), taps));
    const double one = 1;
    for (std::int64_t i = 0; i < g.kernel; ++i) store_from_double(one_hot.type(), one_hot.raw(), i * g.kernel + i, 1, &one);
    std::vector<attribute> attributes;
    for (const char* name : {"strides", "dilations", "pads"}) c.copy_attribute(name, attributes);
    c.give(0,
           c.build.reshape(c.build.apply("Conv", {c.build.reshape(c.dy(), planes), c.build.constant(std::move(one_hot), "taps")}, std::move(attributes)), x));
    return {};
}
// dX = dY at the indices, which count over the tensor without the zeros that output_shape adds
inline status max_unpool_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    const op_context forward = forward_context(c, in);
    shape unpooled, out;
    if (!c.wants(0)) return {};
    if (!is_constant(c, 2)) return c.refuse("output_shape has to be a constant");
    GRAFT_TRY(read_unpooled(forward, unpooled, out));
    const shape x = c.extents(c.in(0));
    if (x.elements() == 0) return c.give(0, c.build.zeros(x, c.dy())), status();
    value_id dy = c.dy();
    if (out != unpooled)
        dy = c.build.apply("Slice", {dy, c.build.integers(std::vector<std::int64_t>(static_cast<std::size_t>(out.rank()), 0)),
                                     c.build.integers(std::vector<std::int64_t>(unpooled.begin(), unpooled.end()))});
    c.give(0, c.build.apply("Gather", {c.build.reshape(dy, {unpooled.elements()}), c.in(1)}));
    return {};
}

inline gradient_table unfold_gradients() {
    static constexpr gradient_row rows[] = {{"Col2Im", "", col2im_gradient}, {"MaxUnpool", "", max_unpool_gradient}};
    return rows;
}

inline op_table unfold_ops() {
    static constexpr op_row rows[] = {
        onnx("Col2Im")
            .opsets(18)
            .inputs(3)
            .functions(col2im_infer, col2im_run)
            .carries(carry_first_axis<1>)
            .attributes("dilations:is pads:is strides:is")
            .problems("f32[1,5,5] i64{5,5} i64{1,5}; f32[2,8,9] i64{4,4} i64{2,2}; i32[1,4,4] i64{3,3} i64{2,2} dilations=1,1; "
                      "f32[1,4,9] i64{4,4} i64{2,2} strides=2,2 pads=1,1,1,1; f32[0,4,9] i64{4,4} i64{2,2}"),
        onnx("MaxUnpool")
            .opsets(9)
            .inputs(2, 3)
            .functions(max_unpool_infer, max_unpool_run)
            .checks(1)
            .attributes("kernel_shape:is pads:is strides:is")
            .problems("f32[1,1,1] i64[1,1,1]~0:1 kernel_shape=2 strides=2; f32[0,2,3,3] i64[0,2,3,3] kernel_shape=2,2 strides=2,2"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
