// Products summed over the rows of two matrices by the tree of shards, that each instruction set fills.
#pragma once

#include "../../core/shards.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// A block of C = A^T B: C is rows x columns, A has n rows of `rows` numbers, B n rows of `columns`. Each element is summed over
/// every shard of n by itself, in order; the shards are joined by the tree.
struct product_sum_block {
    const float* a;
    const float* b;
    float* c;
    std::int64_t rows, columns, n, lda, ldb, ldc;
    shards tree;
    std::int64_t each = 1;    ///< rows of a sample: shards end between samples
    float* levels;            ///< partial blocks: one for each level of the tree
    std::int64_t level_step;  ///< floats of a level: the block in whole tiles
};

/// The kernels of one instruction set.
struct matmul_grad_kernels {
    int rows, columns;  ///< of a register tile
    void (*block)(const product_sum_block&);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
