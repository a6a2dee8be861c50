// Sums of products over pixels of 64 bytes, numbers of bfloat16 or codes: some images or rows are gathered together, and multiplied. Bits depend on the shapes
// alone: an output is the same chain of steps, one block of a pixel's channels and one tap each, on every number of threads.
#pragma once

#include "../core/executor.hpp"
#include "conv_kernels.hpp"
#include "pixel_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Whether the kernels take such a convolution: one group, and a window of a size that they count. Blocks of 64 bytes of channels count as 32.
bool takes_pixels(const conv_problem& problem);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

constexpr std::int64_t pixel_room = std::int64_t(1) << 20;  // bytes that are gathered together: with weights beside them they stay in the second cache

inline std::int64_t blocks_of_32(std::int64_t channels) { return (channels + bfloat16_block - 1) / bfloat16_block; }

constexpr std::int64_t most_pixel_bytes = std::int64_t(1) << 26;  // bytes of one row of outputs

// What one gathering holds: whole images, or some rows of outputs of one.
struct pixel_part {
    std::int64_t images, rows;
};

// The planes of some images, or of `rows` rows of outputs of one. Without steps, what pads the end of a row or of an image pads the beginning of the next.
inline image_planes gathered_planes(const conv_problem& p, std::int64_t images, std::int64_t rows, std::int64_t& image_rows, std::int64_t& behind) {
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
inline std::int64_t gathered_bytes(const conv_problem& p, std::int64_t images, std::int64_t rows) {
    std::int64_t image_rows = 0, behind = 0;
    const image_planes g = gathered_planes(p, images, rows, image_rows, behind);
    return (blocks_of_32(p.ic) * g.planes() + behind) * bfloat16_block * 2;
}
inline pixel_part parts_of_pixels(const conv_problem& p) {
    const std::int64_t image = gathered_bytes(p, 1, p.oh);
    if (image <= pixel_room) return {std::min(p.n, pixel_room / image), p.oh};
    const std::int64_t one = gathered_bytes(p, 1, 1), two = gathered_bytes(p, 1, 2), rows = one < pixel_room ? 1 + (pixel_room - one) / (two - one) : 1;
    return {1, std::min(rows, p.oh)};
}
inline std::int64_t pixel_workspace(const conv_problem& p, int parts = 1) {
    const pixel_part part = parts_of_pixels(p);
    return plane_list_bytes(p, parts) + gathered_bytes(p, part.images, part.rows);
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
struct pixel_cut {
    bool by_pixels;
    std::int64_t block(std::int64_t task, std::int64_t blocks, std::int64_t pieces) const { return by_pixels ? task % blocks : task / pieces; }
    std::int64_t piece(std::int64_t task, std::int64_t blocks, std::int64_t pieces) const { return by_pixels ? task / blocks : task % pieces; }
};

inline void gather_part(const pixel_kernels& kernel, const pixel_args& a, std::int64_t in_blocks, std::int64_t behind, pixel_cut cut, executor& pool) {
    std::memset(a.gathered + in_blocks * a.block_pixels * bfloat16_block, a.padding, static_cast<std::size_t>(behind) * bfloat16_block * 2);
    const std::int64_t most = 512, piece = cut.by_pixels ? std::min(most, a.block_pixels / pool.threads() + 1) : most;
    const std::int64_t pieces = (a.block_pixels + piece - 1) / piece;
    parallel_for(pool, in_blocks * pieces, [&](std::int64_t task) {
        const std::int64_t first = cut.piece(task, in_blocks, pieces) * piece;
        (a.unrolled ? kernel.gather_planes : kernel.gather)(a, cut.block(task, in_blocks, pieces), first, std::min(first + piece, a.block_pixels));
    });
}

// Gathers part by part, and multiplies. `a` has all that is the same in them, and the pointers of the first image.
inline GRAFT_COLD void run_pixels(const pixel_kernels& kernel, const conv_problem& p, pixel_args a, void* workspace, executor& pool) {
    const bool in_place = a.narrow_x && reads_in_place(kernel, p);
    const pixel_part part = in_place ? pixel_part{1, p.oh} : parts_of_pixels(p);
    const pixel_args all = a;
    const std::int64_t in_blocks = blocks_of_32(p.ic), out_blocks = blocks_of_32(p.oc);
    a.channels = p.ic, a.out_channels = p.oc;
    a.taps = p.kh * p.kw * a.parts, a.steps = in_blocks * a.taps;
    a.last_pairs = pairs_of_last_block(p.ic);
    a.sh = p.sh, a.sw = p.sw, a.pt = p.pt, a.pl = p.pl, a.ih = p.ih, a.ow = p.ow;
    a.ep = p.ep;
    const pixel_cut cut{pool.threads() > 1 && 3 * p.ih * p.iw * in_blocks > a.steps * out_blocks * bfloat16_block};
    a.gathered = reinterpret_cast<std::uint16_t*>(static_cast<char*>(workspace) + plane_list_bytes(p, a.parts));
    for (std::int64_t image = 0; image < p.n; image += part.images)
        for (a.first_row = 0; a.first_row < p.oh; a.first_row += part.rows) {
            const std::int64_t images = std::min(part.images, p.n - image);
            a.oh = std::min(part.rows, p.oh - a.first_row);
            std::int64_t behind = 0;
            a.from = gathered_planes(p, images, a.oh, a.image_rows, behind);
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
    if (!reads_pixels(p) || (!in_place && gathered_bytes(p, 1, p.oh) > pixel_room)) return p;
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

}  // namespace detail

GRAFT_INLINE GRAFT_COLD bool takes_pixels(const conv_problem& p) {
    if (p.groups != 1 || p.pt < 0 || p.pl < 0) return false;
    for (const std::int64_t size : {p.n, p.ic, p.oc, p.ih, p.iw, p.oh, p.ow})
        if (size < 1 || size > (1 << 20)) return false;
    for (const std::int64_t size : {std::int64_t(p.kh) * p.dh, std::int64_t(p.kw) * p.dw, std::int64_t(p.pt), std::int64_t(p.pl)})
        if (size > (1 << 20)) return false;
    if (std::int64_t(p.kh) * p.kw > bfloat16_most_taps || p.sh > 64 || p.sw > 64) return false;
    // Holes are gathered with what lies round them: windows that are wide and empty are better read where they lie.
    return detail::planes_of(p).planes() <= (std::int64_t(1) << 40) / p.ic && detail::gathered_bytes(p, 1, 1) <= detail::most_pixel_bytes;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
