// Convolutions and matrix products whose operands are rounded to bfloat16 and whose sums are float32, on machines that multiply tiles or pairs of them.
// Bits depend on the shapes alone: an output is the same chain of steps, 32 channels of one tap each, on every number of threads.
#pragma once

#include "../core/executor.hpp"
#include "bfloat16_kernels.hpp"
#include "conv_kernels.hpp"
#include "gemm.hpp"
#include "isa.hpp"
#include "pixels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Whether the kernels take a convolution of a few planes, which are read as they lie: a row of outputs fits into the room that the kernel has.
bool takes_bfloat16_planes(const conv_problem& problem);
/// That, or takes_pixels, as the image lies; of groups each, whose channels fill vectors on both sides.
bool takes_bfloat16(const conv_problem& problem);
/// Whether they take such a product: one matrix A for each of C, neither transposed nor scaled, and a bias, if any, for each column.
bool takes_bfloat16_product(const gemm_problem& problem);

/// Of a convolution in groups those of one group.
bfloat16_weights bfloat16_weights_of(const conv_problem& problem);
bfloat16_weights bfloat16_weights_of(const gemm_problem& problem);
/// What tells weights packed for this set's kernels from those for others.
const char* bfloat16_form(isa set) noexcept;
/// Bytes of all weights packed; packed memory wants an alignment of 64.
std::int64_t packed_bfloat16_bytes(const bfloat16_weights& weights);
/// Rounds and packs the weights of output channels [begin, end), the first of which is a multiple of 32, in the order of this set's kernels; `weight` points to
/// the first of them.
void pack_bfloat16(isa set, const bfloat16_weights& weights, const float* weight, std::int64_t begin, std::int64_t end, void* packed, executor& pool);

/// Where a convolution's outputs lie among others: floats from a row, and from a pixel, to the next, and from a vector of channels, and an image.
struct output_steps {
    std::int64_t row, pixel, vector, image;
};

/// Images in bfloat16 in place of floats, [n][ceil(c / 32)][pixels][32]; null: floats.
struct narrow_images {
    const std::uint16_t* x = nullptr;
    const std::uint16_t* residual = nullptr;
    std::uint16_t* y = nullptr;  ///< with it, the residual is narrow too
};

/// Bytes of workspace, aligned to 64, that a run needs; `apart`: one with output_steps.
std::int64_t bfloat16_conv_workspace(const conv_problem& problem, bool apart = false);
std::int64_t bfloat16_product_workspace(const gemm_problem& problem);
/// As run_conv and run_gemm; `steps`: null, or where the outputs and the residual lie; what `narrow` has is read and written in place of the floats.
/// On a set and a machine that have `bfloat16_products` alone.
void run_bfloat16_conv(isa set, const conv_problem& problem, const float* x, const void* packed, const float* bias, const float* residual, float* y,
                       void* workspace, executor& pool, const output_steps* steps = nullptr, const narrow_images& narrow = {});
void run_bfloat16_product(isa set, const gemm_problem& problem, const float* a, const void* packed, const float* bias, const float* residual, float* c,
                          void* workspace, executor& pool, const narrow_images& narrow = {});
/// Whether a product reads (`a`) and writes (`c`) matrices in bfloat16, row-major: narrow_images' x and y.
bool takes_narrow_matrices(const gemm_problem& problem, bool a, bool c);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "dispatch.hpp"

#include <algorithm>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// Whether A lies in rows, and what is added is the same for each.
inline bool rounds_product(const gemm_problem& p) { return !p.trans_a && p.bias != bias_kind::row; }
// What is the same in all runs of a product whose distances are filled in.
inline pixel_args product_args(isa set, const gemm_problem& p, const float* bias) {
    pixel_args a;
    a.bias = bias;
    a.x_pixel = p.lda, a.y_pixel = p.ldc, a.residual_pixel = p.ld_residual;
    a.x_vector = a.y_vector = vector_width(set);
    return a;
}

// A group's channels are whole vectors of every instruction set.
constexpr std::int64_t group_channels = 16;
inline conv_problem one_group(conv_problem p) {
    p.ic /= p.groups, p.oc /= p.groups, p.groups = 1;
    return p;
}

// Rows of A, as many as are gathered together, as an image of one row.
inline conv_problem image_of(const gemm_problem& p) {
    conv_problem image;
    image.ic = p.k, image.oc = p.n, image.ep = p.ep;
    image.iw = image.ow = std::min(p.m, std::max<std::int64_t>(bfloat16_block, pixel_room / (blocks_of_32(p.k) * bfloat16_block * 2)));
    return image;
}

}  // namespace detail

GRAFT_INLINE bool takes_bfloat16_planes(const conv_problem& p) {
    const std::int64_t beside = std::int64_t(p.kw - 1) * p.dw / p.sw + 1, widest = vector_width(isa::avx512);
    return p.in == layout::row_major && p.ic <= 4 && takes_pixels(p) && p.ic * ((p.ow + beside) * p.sw + widest) <= bfloat16_row;
}
GRAFT_INLINE bool takes_bfloat16(const conv_problem& p) {
    if (p.groups > 1) {
        const conv_problem one = detail::one_group(p);
        return one.ic % detail::group_channels == 0 && one.oc % detail::group_channels == 0 && takes_pixels(one);
    }
    return p.in == layout::row_major && p.ic <= 4 ? takes_bfloat16_planes(p) : takes_pixels(p);
}
GRAFT_INLINE bool takes_bfloat16_product(const gemm_problem& p) { return detail::rounds_product(p) && p.alpha == 1 && p.m > 0 && p.n > 0 && p.k > 0; }

GRAFT_INLINE bfloat16_weights bfloat16_weights_of(const conv_problem& all) {
    const conv_problem p = detail::one_group(all);
    const std::int64_t taps = std::int64_t(p.kh) * p.kw;
    if (p.in == layout::row_major) return {p.ic * p.kw, p.oc, p.kh, p.ic * taps, taps, p.kw, p.kw};
    return {p.ic, p.oc, taps, p.ic * taps, taps};
}
GRAFT_INLINE bfloat16_weights bfloat16_weights_of(const gemm_problem& p) {
    const std::int64_t ldb = p.ldb ? p.ldb : p.trans_b ? p.k : p.n;
    return {p.k, p.n, 1, p.trans_b ? ldb : 1, p.trans_b ? 1 : ldb};
}
GRAFT_INLINE const char* bfloat16_form(isa set) noexcept { return bfloat16_products(set)->tiles ? " bfloat16 tiles" : " bfloat16 pairs"; }
GRAFT_INLINE std::int64_t packed_bfloat16_bytes(const bfloat16_weights& w) {
    return detail::blocks_of_32(w.channels) * detail::blocks_of_32(w.out_channels) * w.taps * bfloat16_step * 2;
}
GRAFT_INLINE void pack_bfloat16(isa set, const bfloat16_weights& w, const float* weight, std::int64_t begin, std::int64_t end, void* packed, executor& pool) {
    const std::int64_t steps = detail::blocks_of_32(w.channels) * w.taps, block = begin / bfloat16_block;
    const bfloat16_kernels& kernel = *bfloat16_products(set);
    parallel_for_pieces(pool, end - begin, bfloat16_block, [&](std::int64_t first, std::int64_t count) {
        kernel.pack(w, weight + first * w.out, count, kernel.tiles,
                    static_cast<std::uint16_t*>(packed) + (block + first / bfloat16_block) * steps * bfloat16_step);
    });
}

GRAFT_INLINE std::int64_t bfloat16_conv_workspace(const conv_problem& problem, bool apart) {
    const conv_problem p = detail::one_group(problem);
    return detail::pixel_workspace(apart ? p : detail::as_gathered(p));
}
GRAFT_INLINE std::int64_t bfloat16_product_workspace(const gemm_problem& p) { return detail::pixel_workspace(detail::image_of(detail::joined_batches(p))); }

GRAFT_INLINE GRAFT_COLD void run_bfloat16_conv(isa set, const conv_problem& problem, const float* x, const void* packed, const float* bias,
                                               const float* residual, float* y, void* workspace, executor& pool, const output_steps* steps,
                                               const narrow_images& narrow) {
    const conv_problem group = detail::one_group(problem);
    const conv_problem p = steps ? group : detail::as_gathered(group, narrow.x && detail::reads_in_place(*bfloat16_products(set), group));
    const std::int64_t width = vector_width(set);
    pixel_args a;
    a.weights = static_cast<const std::uint16_t*>(packed), a.bias = bias;
    a.narrow_x = narrow.x, a.narrow_residual = narrow.residual, a.narrow_y = narrow.y;
    a.source_block = p.ih * p.iw * bfloat16_block;
    if (!narrow.x) a.x = x;
    if (!narrow.y) a.y = y, a.residual = residual;
    a.iw = p.iw;
    a.x_vector = p.ih * p.iw * width, a.y_vector = p.oh * p.ow * width;
    const std::int64_t in = narrow.x ? std::int64_t(bfloat16_block) : width, out = narrow.y ? std::int64_t(bfloat16_block) : width;
    a.x_pixel = in, a.x_row = p.iw * in, a.x_image = (problem.ic + in - 1) / in * in / width * a.x_vector;
    a.y_pixel = out, a.y_row = p.ow * out, a.y_image = (problem.oc + out - 1) / out * out / width * a.y_vector;
    if (problem.in == layout::row_major) {
        a.unrolled = problem.kw, a.unrolled_step = problem.sw, a.unrolled_dilation = problem.dw, a.unrolled_pad = problem.pl;
        a.iw = a.x_row = problem.iw, a.x_vector = problem.ih * problem.iw, a.x_image = problem.ic * a.x_vector;
    }
    if (steps) a.y_row = steps->row, a.y_pixel = steps->pixel, a.y_vector = steps->vector, a.y_image = steps->image;
    a.whole_vectors = true;
    // From a group to the next.
    const std::int64_t of_x = p.ic / width * a.x_vector, of_y = p.oc / width * a.y_vector;
    const std::int64_t of_weights = packed_bfloat16_bytes(bfloat16_weights_of(problem)) / 2;
    for (int g = 0; g < problem.groups; ++g) {
        pixel_args of_group = a;
        of_group.weights += g * of_weights;
        of_group.bias = detail::at_image(a.bias, g * p.oc);
        of_group.x = detail::at_image(a.x, g * of_x), of_group.narrow_x = detail::at_image(a.narrow_x, g * of_x);
        of_group.y = detail::at_image(a.y, g * of_y), of_group.narrow_y = detail::at_image(a.narrow_y, g * of_y);
        of_group.residual = detail::at_image(a.residual, g * of_y), of_group.narrow_residual = detail::at_image(a.narrow_residual, g * of_y);
        detail::run_pixels(*bfloat16_products(set), p, of_group, workspace, pool);
    }
}

GRAFT_INLINE bool takes_narrow_matrices(const gemm_problem& problem, bool a, bool c) {
    const gemm_problem p = detail::joined_batches(problem);
    const bool one = p.batch[0] * p.batch[1] == 1;
    return (!a || (one && p.k % bfloat16_block == 0)) && (!c || (one && p.n % bfloat16_block == 0 && !p.ep.residual));
}

GRAFT_INLINE GRAFT_COLD void run_bfloat16_product(isa set, const gemm_problem& problem, const float* a, const void* packed, const float* bias,
                                                  const float* residual, float* c, void* workspace, executor& pool, const narrow_images& narrow) {
    const gemm_problem p = detail::joined_batches(problem);
    conv_problem image = detail::image_of(p);
    pixel_args args = detail::product_args(set, p, bias);
    args.weights = static_cast<const std::uint16_t*>(packed);
    // Tiles read narrow rows where they lie, all of them.
    if (narrow.x && p.m >= bfloat16_block && bfloat16_products(set)->tiles)
        image.iw = image.ow = p.m, args.source_pixel = p.lda, args.source_block = bfloat16_block;
    for (std::int64_t batch = 0; batch < p.batch[0] * p.batch[1]; ++batch) {
        const std::int64_t outer = batch / p.batch[1], inner = batch % p.batch[1];
        for (std::int64_t row = 0; row < p.m; row += image.ow) {
            conv_problem rows = image;
            rows.iw = rows.ow = args.iw = std::min(image.ow, p.m - row);
            const std::int64_t of_a = outer * p.a_strides[0] + inner * p.a_strides[1] + row * p.lda;
            const std::int64_t of_c = outer * p.c_strides[0] + inner * p.c_strides[1] + row * p.ldc;
            args.x = narrow.x ? nullptr : a + of_a, args.narrow_x = detail::at_image(narrow.x, of_a);
            args.y = narrow.y ? nullptr : c + of_c, args.narrow_y = detail::at_image(narrow.y, of_c);
            args.residual = residual ? residual + outer * p.residual_strides[0] + inner * p.residual_strides[1] + row * p.ld_residual : nullptr;
            detail::run_pixels(*bfloat16_products(set), rows, args, workspace, pool);
        }
    }
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
