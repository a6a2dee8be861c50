// Convolutions and matrix products whose operands are rounded to bfloat16 and whose sums are float32, on machines that multiply tiles or pairs of them.
// Bits depend on the shapes alone: an output is the same chain of steps, 32 channels of one tap each, on every number of threads.
#pragma once

#include "../core/executor.hpp"
#include "bfloat16_kernels.hpp"
#include "conv_kernels.hpp"
#include "gemm.hpp"
#include "isa.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Whether the kernels take such a convolution: one group, and a window of a size that they count. It reads and writes blocks of channels.
bool takes_bfloat16_conv(const conv_problem& problem);
/// Whether they take one of a few planes, which are read as they lie: a row of outputs fits into the room that the kernel has.
bool takes_bfloat16_planes(const conv_problem& problem);
/// One of the two, as the image lies.
bool takes_bfloat16(const conv_problem& problem);
/// Whether they take such a product: one matrix A for each of C, neither transposed nor scaled, and a bias, if any, for each column.
bool takes_bfloat16_product(const gemm_problem& problem);

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
/// Whether a product by tiles reads (`a`) and writes (`c`) matrices in bfloat16, row-major: narrow_images' x and y.
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

constexpr std::int64_t bfloat16_room = std::int64_t(1) << 20;  // bytes that are gathered together: with weights beside them they stay in the second cache

inline std::int64_t blocks_of_32(std::int64_t channels) { return (channels + bfloat16_block - 1) / bfloat16_block; }

constexpr std::int64_t bfloat16_most = std::int64_t(1) << 26;  // bytes of one row of outputs

// What one gathering holds: whole images, or some rows of outputs of one.
struct bfloat16_part {
    std::int64_t images, rows;
};

// The planes of some images, or of `rows` rows of outputs of one. Without steps, what pads the end of a row or of an image pads the beginning of the next.
inline image_planes bfloat16_planes(const conv_problem& p, std::int64_t images, std::int64_t rows, std::int64_t& image_rows, std::int64_t& behind) {
    image_planes g = planes_of(p);
    g.rows += rows - p.oh;
    const std::int64_t pitch = g.pitch, high = g.rows;
    if (p.sw == 1) g.pitch = std::max(p.pl + p.iw, pitch - p.pl);
    if (p.sh == 1 && rows == p.oh) g.rows = std::max(p.pt + p.ih, high - p.pt);
    g.pitch = std::min(std::max(g.pitch, p.ow), pitch);
    g.rows = std::min(std::max(g.rows, rows), high);
    // The last outputs read as far behind the planes as they are short of, and a whole tile.
    behind = (high - g.rows) * g.pitch + pitch - g.pitch + bfloat16_block;
    image_rows = g.rows;
    g.rows *= images;
    return g;
}
inline std::int64_t bfloat16_gathered(const conv_problem& p, std::int64_t images, std::int64_t rows) {
    std::int64_t image_rows = 0, behind = 0;
    const image_planes g = bfloat16_planes(p, images, rows, image_rows, behind);
    return (blocks_of_32(p.ic) * g.planes() + behind) * bfloat16_block * 2;
}
inline bfloat16_part bfloat16_parts(const conv_problem& p) {
    const std::int64_t image = bfloat16_gathered(p, 1, p.oh);
    if (image <= bfloat16_room) return {std::min(p.n, bfloat16_room / image), p.oh};
    const std::int64_t one = bfloat16_gathered(p, 1, 1), two = bfloat16_gathered(p, 1, 2),
                       rows = one < bfloat16_room ? 1 + (bfloat16_room - one) / (two - one) : 1;
    return {1, std::min(rows, p.oh)};
}
inline std::int64_t bfloat16_workspace(const conv_problem& p, int parts = 1) {
    const bfloat16_part part = bfloat16_parts(p);
    return plane_list_bytes(p, parts) + bfloat16_gathered(p, part.images, part.rows);
}

// Whether pixels are read one by one, whatever rows they lie in: no border and no steps.
inline bool reads_pixels(const conv_problem& p) {
    return p.kh == 1 && p.kw == 1 && p.sh == 1 && p.sw == 1 && p.pt == 0 && p.pl == 0 && p.oh == p.ih && p.ow == p.iw;
}
// Whether a narrow image is multiplied where it lies: tiles end with its last pixel, vectors do not.
inline bool reads_in_place(const pixel_kernels& kernel, const conv_problem& p) { return kernel.tiles && reads_pixels(p) && p.oh * p.ow >= bfloat16_block; }
template <class T>
T* at_image(T* first, std::int64_t numbers) {
    return first ? first + numbers : nullptr;
}

// Tasks are counted through the blocks of channels, or, `by_pixels`, through pixels first: a thread's are neighbours then, and it goes on with what lies in its
// own cache. That is worth that all threads read all weights where these are less than three times the image: out of the last cache they come at 27 GB/s a
// core, out of another core's at 8.
struct bfloat16_cut {
    bool by_pixels;
    std::int64_t block(std::int64_t task, std::int64_t blocks, std::int64_t pieces) const { return by_pixels ? task % blocks : task / pieces; }
    std::int64_t piece(std::int64_t task, std::int64_t blocks, std::int64_t pieces) const { return by_pixels ? task / blocks : task % pieces; }
};

inline void gather_part(const pixel_kernels& kernel, const bfloat16_args& a, std::int64_t in_blocks, std::int64_t behind, bfloat16_cut cut,
                                 executor& pool) {
    std::memset(a.gathered + in_blocks * a.block_pixels * bfloat16_block, a.padding, static_cast<std::size_t>(behind) * bfloat16_block * 2);
    const std::int64_t most = 512, piece = cut.by_pixels ? std::min(most, a.block_pixels / pool.threads() + 1) : most;
    const std::int64_t pieces = (a.block_pixels + piece - 1) / piece;
    parallel_for(pool, in_blocks * pieces, [&](std::int64_t task) {
        const std::int64_t first = cut.piece(task, in_blocks, pieces) * piece;
        (a.unrolled ? kernel.gather_planes : kernel.gather)(a, cut.block(task, in_blocks, pieces), first, std::min(first + piece, a.block_pixels));
    });
}

// Gathers part by part, and multiplies. `a` has all that is the same in them, and the pointers of the first image.
inline void run_pixels(const pixel_kernels& kernel, const conv_problem& p, bfloat16_args a, void* workspace, executor& pool) {
    const bool in_place = a.narrow_x && reads_in_place(kernel, p);
    const bfloat16_part part = in_place ? bfloat16_part{1, p.oh} : bfloat16_parts(p);
    const bfloat16_args all = a;
    const std::int64_t in_blocks = blocks_of_32(p.ic), out_blocks = blocks_of_32(p.oc);
    a.channels = p.ic, a.out_channels = p.oc;
    a.taps = p.kh * p.kw * a.parts, a.steps = in_blocks * a.taps;
    a.sh = p.sh, a.sw = p.sw, a.pt = p.pt, a.pl = p.pl, a.ih = p.ih, a.ow = p.ow;
    a.ep = p.ep;
    const bfloat16_cut cut{pool.threads() > 1 && 3 * p.ih * p.iw * in_blocks > a.steps * out_blocks * bfloat16_block};
    a.gathered = reinterpret_cast<std::uint16_t*>(static_cast<char*>(workspace) + plane_list_bytes(p, a.parts));
    for (std::int64_t image = 0; image < p.n; image += part.images)
        for (a.first_row = 0; a.first_row < p.oh; a.first_row += part.rows) {
            const std::int64_t images = std::min(part.images, p.n - image);
            a.oh = std::min(part.rows, p.oh - a.first_row);
            std::int64_t behind = 0;
            a.from = bfloat16_planes(p, images, a.oh, a.image_rows, behind);
            list_taps(p, a.from, workspace, a.parts);
            a.block_pixels = a.from.planes();
            a.pixels = ((images - 1) * a.image_rows + a.oh - 1) * a.from.pitch + a.ow;
            a.x = at_image(all.x, image * a.x_image), a.narrow_x = at_image(all.narrow_x, image * a.x_image);
            a.y = at_image(all.y, image * a.y_image), a.narrow_y = at_image(all.narrow_y, image * a.y_image);
            a.code_x = at_image(all.code_x, image * a.x_image), a.code_y = at_image(all.code_y, image * a.y_image);
            a.code_residual = at_image(all.code_residual, image * a.y_image);
            a.residual = at_image(all.residual, image * a.y_image), a.narrow_residual = at_image(all.narrow_residual, image * a.y_image);
            a.source = in_place ? a.narrow_x : a.gathered;
            if (!in_place) a.source_pixel = bfloat16_block, a.source_block = a.block_pixels * bfloat16_block;
            if (!in_place) gather_part(kernel, a, in_blocks, behind, cut, pool);
            const std::int64_t tiles = blocks_of_32(a.pixels), most = kernel.steps_at_once / (a.steps + kernel.end_steps) + 1;
            const std::int64_t at_once = cut.by_pixels ? std::min(most, (tiles + pool.threads() - 1) / pool.threads()) : most;
            const std::int64_t runs = (tiles + at_once - 1) / at_once, together = cut.by_pixels ? std::min(most / at_once, out_blocks / 4) + 1 : 1,
                               groups = (out_blocks + together - 1) / together;
            parallel_for(pool, groups * runs, [&](std::int64_t task) {
                const std::int64_t first = cut.piece(task, groups, runs) * at_once, block = cut.block(task, groups, runs) * together;
                kernel.multiply(a, block, std::min(together, out_blocks - block), first, std::min(first + at_once, tiles));
            });
        }
}

// Such an image as one row; `in_place`: however large.
inline conv_problem flattened(conv_problem p, bool in_place) {
    if (!reads_pixels(p) || (!in_place && bfloat16_gathered(p, 1, p.oh) > bfloat16_room)) return p;
    p.iw = p.ow = p.ih * p.iw;
    p.ih = p.oh = 1;
    return p;
}

// The row of taps that a pixel of a few planes has as its channels is none of the window any more.
inline conv_problem as_gathered(conv_problem p, bool in_place = false) {
    if (p.in != layout::row_major) return flattened(p, in_place);
    p.ic *= p.kw, p.iw = p.ow;
    p.kw = p.sw = p.dw = 1, p.pl = 0;
    return p;
}

// Whether A lies in rows, and what is added is the same for each.
inline bool rounds_product(const gemm_problem& p) { return !p.trans_a && p.bias != bias_kind::row; }
// What is the same in all runs of a product whose distances are filled in.
inline bfloat16_args product_args(isa set, const gemm_problem& p, const float* bias) {
    bfloat16_args a;
    a.bias = bias;
    a.x_pixel = p.lda, a.y_pixel = p.ldc, a.residual_pixel = p.ld_residual;
    a.x_vector = a.y_vector = vector_width(set);
    return a;
}

// Rows of A, as many as are gathered together, as an image of one row.
inline conv_problem image_of(const gemm_problem& p) {
    conv_problem image;
    image.ic = p.k, image.oc = p.n, image.ep = p.ep;
    image.iw = image.ow = std::min(p.m, std::max<std::int64_t>(bfloat16_block, bfloat16_room / (blocks_of_32(p.k) * bfloat16_block * 2)));
    return image;
}

}  // namespace detail

GRAFT_INLINE bool takes_bfloat16_conv(const conv_problem& p) {
    if (p.groups != 1 || p.pt < 0 || p.pl < 0) return false;
    for (const std::int64_t size : {p.n, p.ic, p.oc, p.ih, p.iw, p.oh, p.ow})
        if (size < 1 || size > (1 << 20)) return false;
    for (const std::int64_t size : {std::int64_t(p.kh) * p.dh, std::int64_t(p.kw) * p.dw, std::int64_t(p.pt), std::int64_t(p.pl)})
        if (size > (1 << 20)) return false;
    if (std::int64_t(p.kh) * p.kw > bfloat16_most_taps || p.sh > 64 || p.sw > 64) return false;
    // Holes are gathered with what lies round them: windows that are wide and empty are better read where they lie.
    return detail::planes_of(p).planes() <= (std::int64_t(1) << 40) / p.ic && detail::bfloat16_gathered(p, 1, 1) <= detail::bfloat16_most;
}
GRAFT_INLINE bool takes_bfloat16_planes(const conv_problem& p) {
    const std::int64_t beside = std::int64_t(p.kw - 1) * p.dw / p.sw + 1, widest = vector_width(isa::avx512);
    return p.in == layout::row_major && p.ic <= 4 && takes_bfloat16_conv(p) && p.ic * ((p.ow + beside) * p.sw + widest) <= bfloat16_row;
}
GRAFT_INLINE bool takes_bfloat16(const conv_problem& p) { return p.in == layout::row_major && p.ic <= 4 ? takes_bfloat16_planes(p) : takes_bfloat16_conv(p); }
GRAFT_INLINE bool takes_bfloat16_product(const gemm_problem& p) { return detail::rounds_product(p) && p.alpha == 1 && p.m > 0 && p.n > 0 && p.k > 0; }

GRAFT_INLINE bfloat16_weights bfloat16_weights_of(const conv_problem& p) {
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

GRAFT_INLINE std::int64_t bfloat16_conv_workspace(const conv_problem& p, bool apart) { return detail::bfloat16_workspace(apart ? p : detail::as_gathered(p)); }
GRAFT_INLINE std::int64_t bfloat16_product_workspace(const gemm_problem& p) { return detail::bfloat16_workspace(detail::image_of(detail::joined_batches(p))); }

GRAFT_INLINE void run_bfloat16_conv(isa set, const conv_problem& problem, const float* x, const void* packed, const float* bias, const float* residual,
                                    float* y, void* workspace, executor& pool, const output_steps* steps, const narrow_images& narrow) {
    const conv_problem p = steps ? problem : detail::as_gathered(problem, narrow.x && detail::reads_in_place(*bfloat16_products(set), problem));
    const std::int64_t width = vector_width(set);
    bfloat16_args a;
    a.weights = static_cast<const std::uint16_t*>(packed), a.bias = bias;
    a.narrow_x = narrow.x, a.narrow_residual = narrow.residual, a.narrow_y = narrow.y;
    a.source_block = p.ih * p.iw * bfloat16_block;
    if (!narrow.x) a.x = x;
    if (!narrow.y) a.y = y, a.residual = residual;
    a.iw = p.iw;
    a.x_vector = p.ih * p.iw * width, a.y_vector = p.oh * p.ow * width;
    const std::int64_t in = narrow.x ? std::int64_t(bfloat16_block) : width, out = narrow.y ? std::int64_t(bfloat16_block) : width;
    a.x_pixel = in, a.x_row = p.iw * in, a.x_image = (p.ic + in - 1) / in * in / width * a.x_vector;
    a.y_pixel = out, a.y_row = p.ow * out, a.y_image = (p.oc + out - 1) / out * out / width * a.y_vector;
    if (problem.in == layout::row_major) {
        a.unrolled = problem.kw, a.unrolled_step = problem.sw, a.unrolled_dilation = problem.dw, a.unrolled_pad = problem.pl;
        a.iw = a.x_row = problem.iw, a.x_vector = problem.ih * problem.iw, a.x_image = problem.ic * a.x_vector;
    }
    if (steps) a.y_row = steps->row, a.y_pixel = steps->pixel, a.y_vector = steps->vector, a.y_image = steps->image;
    a.whole_vectors = true;
    detail::run_pixels(*bfloat16_products(set), p, a, workspace, pool);
}

GRAFT_INLINE bool takes_narrow_matrices(const gemm_problem& problem, bool a, bool c) {
    const gemm_problem p = detail::joined_batches(problem);
    const bool one = p.batch[0] * p.batch[1] == 1;
    return (!a || (one && p.k % bfloat16_block == 0 && p.m >= bfloat16_block)) && (!c || (one && p.n % bfloat16_block == 0 && !p.ep.residual));
}

GRAFT_INLINE void run_bfloat16_product(isa set, const gemm_problem& problem, const float* a, const void* packed, const float* bias, const float* residual,
                                       float* c, void* workspace, executor& pool, const narrow_images& narrow) {
    const gemm_problem p = detail::joined_batches(problem);
    conv_problem image = detail::image_of(p);
    bfloat16_args args = detail::product_args(set, p, bias);
    args.weights = static_cast<const std::uint16_t*>(packed);
    if (narrow.x) image.iw = image.ow = p.m, args.source_pixel = p.lda, args.source_block = bfloat16_block;
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
