// Gradients of weights whose operands are rounded to bfloat16, of convolutions and of matrix products, on machines that multiply tiles or pairs of them. Bits
// depend on the shapes, the shards and the kind of product alone.
#pragma once

#include "../../core/executor.hpp"
#include "../bfloat16.hpp"
#include "../conv.hpp"
#include "../isa.hpp"
#include "../pixels.hpp"
#include "bfloat16_grad_kernels.hpp"
#include "matmul_grad.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The gradient of a forward convolution's weights, [oc][ic][kh][kw], from x and dy in blocks of channels; groups are not taken.
bfloat16_grad_args bfloat16_grad_of(isa set, const conv_problem& forward, int shards);
/// A product summed over a batch.
bfloat16_grad_args bfloat16_grad_of(isa set, const product_sum_problem& problem);

/// Bytes of workspace, aligned to 64, that a run needs.
std::int64_t bfloat16_grad_workspace(const bfloat16_grad_args& args);
/// Writes `out`. On a set and a machine that have `bfloat16_products` alone.
void run_bfloat16_grad(isa set, bfloat16_grad_args& args, const saved_activation& x, const saved_activation& dy, float* out, void* workspace, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "dispatch.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

inline std::int64_t rounded_up(std::int64_t n, std::int64_t to) { return ceil_div(n, to) * to; }

// The planes of x that tiles read. Where an image has few outputs beside its padding, as in a layer that takes all of it, each tap has a plane of its own,
// of dy's pixels alone: the time of either is that of products and of turning pixels, in cycles of 32 pixels.
inline void list_turned_planes(bfloat16_grad_args& a) {
    const conv_problem& p = a.p;
    turned_planes& t = a.turned;
    const std::int64_t taps = std::int64_t(p.kh) * p.kw;
    std::int64_t image_rows = 0, behind = 0;
    const image_planes g = gathered_planes(p, 1, p.oh, image_rows, behind);
    const auto cycles = [&](std::int64_t pixels, std::int64_t planes) {
        constexpr double products = 32, turn = 100;
        return double(pixels) * (double(taps * blocks_of_32(p.oc)) * products + double(planes) * turn);
    };
    const bool together = cycles(image_rows * g.pitch, g.row_phases * g.column_phases) < cycles(p.oh * p.ow, taps);
    if (together) a.pitch = g.pitch, a.image_rows = image_rows;
    for (int ky = 0; ky < p.kh; ++ky)
        for (int kx = 0; kx < p.kw; ++kx) {
            const int tap = ky * p.kw + kx;
            const std::int64_t below = std::int64_t(ky) * p.dh, beside = std::int64_t(kx) * p.dw;
            const std::int64_t down = together ? below % p.sh : below, right = together ? beside % p.sw : beside;
            std::int64_t plane = 0;
            while (plane < t.count && (t.down[plane] != down || t.right[plane] != right)) ++plane;
            if (plane == t.count) t.down[plane] = down, t.right[plane] = right, ++t.count;
            t.plane_of[tap] = plane;
            t.behind[tap] = together ? below / p.sh * a.pitch + beside / p.sw : 0;
            t.halo = std::max(t.halo, t.behind[tap]);
        }
}

// What is the same for images and for matrices: bands of rows, groups of columns, parts of the batch, blocks of pixels.
inline void cut_bfloat16_grad(bfloat16_grad_args& a, isa set) {
    constexpr std::int64_t cache = std::int64_t(3) << 17, most_sums = std::int64_t(1) << 17, few_sums = std::int64_t(1) << 15, least_rows = 128,
                           least_tasks = 16;
    a.pitch = a.p.ow, a.image_rows = a.p.oh;
    a.lane_step = vector_width(set);
    const std::int64_t taps = std::int64_t(a.p.kh) * a.p.kw;
    if (const bfloat16_kernels* const products = bfloat16_products(set); products && products->tiles && taps <= bfloat16_most_taps) {
        a.lane_step = bfloat16_block / 2;
        list_turned_planes(a);
    }
    const std::int64_t step = a.lane_step, channels = rounded_up(a.p.ic, step), pixels = a.pitch * a.image_rows;
    a.out_blocks = blocks_of_32(a.p.oc);
    a.lanes = std::min(channels, std::max<std::int64_t>(1, least_rows / (step * taps)) * step);
    a.bands = ceil_div(channels, a.lanes);
    a.lanes = rounded_up(ceil_div(a.p.ic, a.bands), step);
    a.bands = ceil_div(channels, a.lanes);
    a.rows = rounded_up(a.lanes * taps, bfloat16_block);
    // Sums that would not stay in the second cache from one shard to the next are cut into groups that do, though x is gathered for each then.
    const std::int64_t fits = a.rows * a.out_blocks * bfloat16_block > most_sums ? few_sums / (a.rows * bfloat16_block) : a.out_blocks;
    a.group_blocks = ceil_div(a.out_blocks, ceil_div(a.out_blocks, std::max<std::int64_t>(1, fits)));
    a.chunks = a.bands * ceil_div(a.out_blocks, a.group_blocks);
    while (a.chunks * a.parts < least_tasks && a.parts < a.shards.count) a.parts *= 2;
    while (a.parts << (a.levels - 1) < a.shards.count) ++a.levels;
    std::int64_t longest = 1;
    for (int s = 0; s < a.shards.count; ++s) {
        const std::int64_t blocks = blocks_of_32((a.shards.last(a.p.n, s) - a.shards.first(a.p.n, s)) * pixels);
        a.shard_block[s + 1] = a.shard_block[s] + blocks;
        longest = std::max(longest, blocks);
    }
    // Rows of x that stay there beside them with a block of dy, in pieces of one length; planes that several taps read are cut into such as stay in
    // the first cache.
    const std::int64_t planes = a.turned.count, halo = blocks_of_32(a.turned.halo);
    const std::int64_t gathered = planes ? planes * a.lanes : a.rows, most = planes && planes < taps ? std::max<std::int64_t>(16, halo) : longest;
    const std::int64_t fit = std::min(most, std::max<std::int64_t>(4, cache / ((gathered + bfloat16_block) * bfloat16_block * 2))),
                       pieces = ceil_div(longest, fit);
    a.blocks_at_once = ceil_div(longest, pieces);
    a.turned.row = ((a.blocks_at_once + halo) | 1) * bfloat16_block;  // so that neighbouring rows do not fall into one cache set
}

inline std::int64_t packed_grad_bytes(const bfloat16_grad_args& a) { return a.packs_before() ? a.out_blocks * a.blocks() * bfloat16_step * 2 : 0; }
inline std::int64_t grad_chunk_bytes(const bfloat16_grad_args& a) { return a.parts * (a.task_numbers() * 2 + a.levels * a.level_floats() * 4); }
constexpr std::int64_t grad_room = std::int64_t(32) << 20;  // bytes of chunks that lie in the workspace at once, two of them at least
inline std::int64_t grad_chunks_at_once(const bfloat16_grad_args& a) { return std::min(a.chunks, std::max<std::int64_t>(2, grad_room / grad_chunk_bytes(a))); }
// Whether the sums of a chunk have that room, whatever the batch.
inline bool fits_bfloat16_grad(const bfloat16_grad_args& a) { return a.parts * a.levels * a.level_floats() * 4 <= grad_room / 2; }

}  // namespace detail

GRAFT_INLINE bfloat16_grad_args bfloat16_grad_of(isa set, const conv_problem& p, int shards) {
    const std::int64_t width = vector_width(set), taps = std::int64_t(p.kh) * p.kw;
    bfloat16_grad_args a;
    a.p = p;
    if (detail::reads_pixels(p)) a.p.ow = a.p.iw = p.oh * p.ow, a.p.oh = a.p.ih = 1;
    a.shards.count = shards;
    a.x_pixel = a.dy_pixel = width;
    a.x_row = p.iw * width, a.x_vector = p.ih * a.x_row, a.x_image = detail::ceil_div(p.ic, width) * a.x_vector;
    a.dy_vector = p.oh * p.ow * width, a.dy_image = detail::ceil_div(p.oc, width) * a.dy_vector;
    a.whole_vectors = true;
    a.out_row = 1, a.out_column = p.ic * taps;
    detail::cut_bfloat16_grad(a, set);
    return a;
}

GRAFT_INLINE bfloat16_grad_args bfloat16_grad_of(isa set, const product_sum_problem& problem) {
    const std::int64_t width = vector_width(set);
    bfloat16_grad_args a;
    a.p.n = problem.n / problem.each, a.p.ic = problem.rows, a.p.oc = problem.columns;
    a.p.iw = a.p.ow = problem.each;
    a.shards = problem.tree;
    a.x_pixel = problem.rows, a.dy_pixel = problem.columns;
    a.x_image = a.x_row = problem.each * problem.rows, a.dy_image = problem.each * problem.columns;
    a.x_vector = a.dy_vector = width;
    a.out_row = problem.columns, a.out_column = 1;
    detail::cut_bfloat16_grad(a, set);
    return a;
}

GRAFT_INLINE std::int64_t bfloat16_grad_workspace(const bfloat16_grad_args& a) {
    return detail::packed_grad_bytes(a) + detail::grad_chunks_at_once(a) * detail::grad_chunk_bytes(a);
}

GRAFT_INLINE void run_bfloat16_grad(isa set, bfloat16_grad_args& a, const saved_activation& x, const saved_activation& dy, float* out, void* workspace,
                                    executor& pool) {
    const bfloat16_grad_kernels& k = *bfloat16_grad_products(set);
    const std::int64_t at_once = detail::grad_chunks_at_once(a);
    a.x = x, a.dy = dy, a.out = out;
    char* room = static_cast<char*>(workspace);
    if (a.packs_before()) a.packed = reinterpret_cast<std::uint16_t*>(room);
    room += detail::packed_grad_bytes(a);
    a.gathered = reinterpret_cast<std::uint16_t*>(room);
    room += at_once * a.parts * a.task_numbers() * 2;
    a.sums = reinterpret_cast<float*>(room);
    if (a.packed)
        parallel_for(pool, a.out_blocks * a.shards.count,
                     [&](std::int64_t task) { k.pack(a, task / a.shards.count, static_cast<int>(task % a.shards.count)); });
    for (a.first_chunk = 0; a.first_chunk < a.chunks; a.first_chunk += at_once) {
        const std::int64_t count = std::min(at_once, a.chunks - a.first_chunk);
        // Chunks of one part of the batch follow each other, as they read the same dy.
        parallel_for(pool, count * a.parts, [&](std::int64_t task) {
            k.sum(a, a.first_chunk + task % count, task / count);
            if (a.parts == 1) k.end(a, a.first_chunk + task);
        });
        if (a.parts > 1) parallel_for(pool, count, [&](std::int64_t task) { k.end(a, a.first_chunk + task); });
    }
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
