// The gradient of a matrix product's weights: A^T B, summed over the batch by the tree of shards.
#pragma once

#include "../../core/executor.hpp"
#include "../isa.hpp"
#include "matmul_grad_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// C = A^T B with A [n][rows], B [n][columns] and C [rows][columns], all row-major and dense; n, rows, columns >= 1.
struct product_sum_problem {
    std::int64_t n = 0, rows = 0, columns = 0;
    shards tree;            ///< over samples
    std::int64_t each = 1;  ///< rows of a and b that a sample has
};

/// Bytes of workspace (alignment 64), whatever the number of threads: some tens of megabytes at most, whatever the sizes.
std::int64_t product_sum_workspace_bytes(isa set, const product_sum_problem& problem);
/// c must overlap neither a nor b.
void run_product_sum(isa set, const product_sum_problem& problem, const float* a, const float* b, float* c, void* workspace, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "dispatch.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

constexpr int most_product_threads = 64;  // that a product is cut for

// Blocks of C and the memory that each task has for the levels of its tree.
struct product_sum_plan {
    std::int64_t block_rows, block_columns, down, across, level_floats, slot_floats, slots;

    product_sum_plan(isa set, const product_sum_problem& p, int threads) {
        const matmul_grad_kernels& k = *training_kernels(set).matmul_grad;
        // A block's levels and the rows that it reads of some samples stay in the second cache; the larger it is, the fewer times A and B are read. Short sums
        // read little for each tile, and one tile's levels stay in the first cache. Twice as many tasks have blocks of half the size.
        constexpr std::int64_t most_columns = 192;
        const std::int64_t most_rows = threads > 32 ? 52 : 104;
        const std::int64_t high = (p.rows + k.rows - 1) / k.rows, wide = (p.columns + k.columns - 1) / k.columns;
        std::int64_t rows = p.n <= 64 ? 1 : most_rows / k.rows, columns = p.n <= 64 ? 1 : most_columns / k.columns;
        const auto parts = [](std::int64_t all, std::int64_t most) { return (all + most - 1) / most; };
        for (;;) {
            down = parts(high, rows), across = parts(wide, columns);
            rows = parts(high, down), columns = parts(wide, across);
            if (down * across >= 4 * threads || down * across % threads == 0 || rows * columns == 1) break;
            std::int64_t& longer = rows > columns ? rows : columns;
            longer = (longer + 1) / 2;
        }
        block_rows = std::min(p.rows, rows * k.rows);
        block_columns = columns * k.columns;
        level_floats = block_rows * block_columns;
        std::int64_t levels = 1;
        while (std::int64_t(1) << (levels - 1) < p.tree.count) ++levels;
        slot_floats = levels * level_floats;
        slots = std::min<std::int64_t>(down * across, std::max(32, threads));
    }
};

}  // namespace detail

GRAFT_INLINE std::int64_t product_sum_workspace_bytes(isa set, const product_sum_problem& problem) {
    std::int64_t floats = 0;
    for (int threads = 1; threads <= detail::most_product_threads; ++threads) {
        const detail::product_sum_plan plan(set, problem, threads);
        floats = std::max(floats, plan.slots * plan.slot_floats);
    }
    return floats * 4;
}

GRAFT_INLINE void run_product_sum(isa set, const product_sum_problem& p, const float* a, const float* b, float* c, void* workspace, executor& pool) {
    const matmul_grad_kernels& k = *training_kernels(set).matmul_grad;
    const detail::product_sum_plan plan(set, p, std::min(pool.threads(), detail::most_product_threads));
    const std::int64_t blocks = plan.down * plan.across;
    parallel_for(pool, plan.slots, [&](std::int64_t slot) {
        product_sum_block g{};
        g.n = p.n, g.lda = p.rows, g.ldb = p.columns, g.ldc = p.columns, g.tree = p.tree, g.each = p.each;
        g.levels = static_cast<float*>(workspace) + slot * plan.slot_floats;
        g.level_step = plan.level_floats;
        for (std::int64_t block = blocks * slot / plan.slots; block < blocks * (slot + 1) / plan.slots; ++block) {
            const std::int64_t i = block / plan.across * plan.block_rows, j = block % plan.across * plan.block_columns;
            g.a = a + i, g.b = b + j, g.c = c + i * p.columns + j;
            g.rows = std::min(plan.block_rows, p.rows - i), g.columns = std::min(plan.block_columns, p.columns - j);
            k.block(g);
        }
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
