// Batches of products, both of whose matrices are made at every run: attention's. Each B is packed and each A rounded, by bfloat16_kernels; a few products at a
// time, so that all threads have something to do.
#pragma once

#include "bfloat16.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Whether the kernels take such a batch, and it is worth it: rows and columns fill tiles, and A stays in the second cache once it is rounded.
bool takes_bfloat16_batch(const gemm_problem& problem);
/// Bytes of workspace, aligned to 64, that a run needs.
std::int64_t bfloat16_batch_workspace(const gemm_problem& problem);
/// As run_gemm, on a set and a machine that have `bfloat16_products` alone.
void run_bfloat16_batch(isa set, const gemm_problem& problem, const float* a, const float* b, const float* bias, const float* residual, float* c,
                        void* workspace, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// What one product of a batch takes of the workspace: B packed, and A with the rows behind it that a last tile reads.
struct batch_member {
    std::int64_t packed, gathered;
    std::int64_t bytes() const { return packed + gathered; }
};
// Rows of A as tiles read them, whole ones: what a task reads behind the last row is no other's.
inline std::int64_t whole_rows(const gemm_problem& p) { return blocks_of_32(p.m) * bfloat16_block; }
inline batch_member member_of(const gemm_problem& p) {
    return {packed_bfloat16_bytes(bfloat16_weights_of(p)), (blocks_of_32(p.k) * whole_rows(p) + bfloat16_block) * bfloat16_block * 2};
}
// Products that are computed together.
inline std::int64_t batch_at_once(const gemm_problem& p) {
    return std::clamp<std::int64_t>((std::int64_t(4) << 20) / member_of(p).bytes(), 1, p.batch[0] * p.batch[1]);
}

}  // namespace detail

GRAFT_INLINE bool takes_bfloat16_batch(const gemm_problem& p) {
    return detail::rounds_product(p) && !p.packed_b && p.m >= bfloat16_block && p.n >= bfloat16_block && p.k >= bfloat16_block &&
           detail::member_of(p).gathered <= detail::pixel_room;
}
GRAFT_INLINE std::int64_t bfloat16_batch_workspace(const gemm_problem& p) { return detail::batch_at_once(p) * detail::member_of(p).bytes(); }

GRAFT_INLINE GRAFT_COLD void run_bfloat16_batch(isa set, const gemm_problem& problem, const float* a, const float* b, const float* bias, const float* residual,
                                                float* c, void* workspace, executor& pool) {
    const gemm_problem p = detail::with_distances(problem);
    const bfloat16_kernels& kernel = *bfloat16_products(set);
    bfloat16_weights w = bfloat16_weights_of(p);
    w.factor = p.alpha;
    const detail::batch_member member = detail::member_of(p);
    const std::int64_t in_blocks = detail::blocks_of_32(p.k), out_blocks = detail::blocks_of_32(p.n), tiles = detail::blocks_of_32(p.m);
    static constexpr std::int64_t nothing[1] = {0};
    pixel_args all = detail::product_args(set, p, bias);
    all.channels = p.k, all.out_channels = p.n, all.steps = in_blocks, all.last_pairs = pairs_of_last_block(p.k);
    all.iw = all.ow = all.from.pitch = all.pixels = p.m;
    all.block_pixels = detail::whole_rows(p);
    all.from.rows = all.from.row_phases = all.from.column_phases = all.image_rows = 1;
    all.from.row_phase = all.from.column_phase = all.from.taps = nothing;
    all.source_block = all.block_pixels * bfloat16_block;
    all.ep = p.ep;
    const std::int64_t batch = p.batch[0] * p.batch[1], at_once = detail::batch_at_once(p);
    for (std::int64_t first = 0; first < batch; first += at_once) {
        const std::int64_t here = std::min(at_once, batch - first);
        const auto place = [&](std::int64_t i) { return static_cast<char*>(workspace) + i * member.bytes(); };
        const auto of = [&](std::int64_t i, const std::int64_t* strides) {
            return (first + i) / p.batch[1] * strides[0] + (first + i) % p.batch[1] * strides[1];
        };
        parallel_for(pool, here * out_blocks, [&](std::int64_t task) {
            const std::int64_t i = task / out_blocks, column = task % out_blocks * bfloat16_block;
            kernel.pack(w, b + of(i, p.b_strides) + column * w.out, std::min<std::int64_t>(bfloat16_block, p.n - column), kernel.tiles,
                        reinterpret_cast<std::uint16_t*>(place(i)) + column * in_blocks * bfloat16_block);
        });
        // Some rows of a product a task: it rounds them and multiplies them. Vectors read a row behind theirs, which would be another task's: all rows are
        // one's.
        const std::int64_t each = kernel.tiles ? std::min(tiles, tiles * here / (4 * pool.threads()) + 1) : tiles, runs = (tiles + each - 1) / each;
        parallel_for(pool, here * runs, [&](std::int64_t task) {
            const std::int64_t i = task / runs, tile = task % runs * each, end = std::min(tile + each, tiles);
            pixel_args args = all;
            args.x = a + of(i, p.a_strides), args.y = c + of(i, p.c_strides);
            args.residual = residual ? residual + of(i, p.residual_strides) : nullptr;
            args.weights = reinterpret_cast<const std::uint16_t*>(place(i));
            args.gathered = reinterpret_cast<std::uint16_t*>(place(i) + member.packed);
            args.source = args.gathered;
            for (std::int64_t block = 0; block < in_blocks; ++block) kernel.gather(args, block, tile * bfloat16_block, std::min(end * bfloat16_block, p.m));
            kernel.multiply(args, 0, out_blocks, tile, end);
        });
    }
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
