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

/// Bytes of workspace (alignment 64): some megabytes at most, whatever the sizes.
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

// Blocks of C and the memory that each task has for the levels of its tree.
struct product_sum_plan {
    std::int64_t block_rows, block_columns, down, across, level_floats, slot_floats, slots;

    product_sum_plan(isa set, const product_sum_problem& p) {
        const matmul_grad_kernels& k = *training_kernels(set).matmul_grad;
        // Short sums read little for each tile, and one tile's levels stay in the first cache; with long ones it pays to read the
        // rows once for several tiles.
        const std::int64_t tiles = p.n <= 64 ? 1 : 4;
        block_rows = std::min<std::int64_t>(p.rows, tiles * k.rows);
        block_columns = std::min<std::int64_t>((p.columns + k.columns - 1) / k.columns, tiles) * k.columns;
        down = (p.rows + block_rows - 1) / block_rows;
        across = (p.columns + block_columns - 1) / block_columns;
        level_floats = block_rows * block_columns;
        std::int64_t levels = 1;
        while (std::int64_t(1) << (levels - 1) < p.tree.count) ++levels;
        slot_floats = levels * level_floats;
        slots = std::min<std::int64_t>(down * across, 64);
    }
};

}  // namespace detail

GRAFT_INLINE std::int64_t product_sum_workspace_bytes(isa set, const product_sum_problem& problem) {
    const detail::product_sum_plan plan(set, problem);
    return plan.slots * plan.slot_floats * 4;
}

GRAFT_INLINE void run_product_sum(isa set, const product_sum_problem& p, const float* a, const float* b, float* c, void* workspace, executor& pool) {
    const matmul_grad_kernels& k = *training_kernels(set).matmul_grad;
    const detail::product_sum_plan plan(set, p);
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
