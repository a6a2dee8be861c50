// Matrix product kernels that each instruction set fills, and what they are given.
#pragma once

#include "../graph/activation.hpp"

#include <cstdint>

#if defined(__GNUC__) || defined(__clang__)
#define GRAFT_PREFETCH(address) __builtin_prefetch(address)
#define GRAFT_PREFETCH_FAR(address) __builtin_prefetch(address, 0, 2)
#else
#define GRAFT_PREFETCH(address) (void)(address)
#define GRAFT_PREFETCH_FAR(address) (void)(address)
#endif

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// What is added to the rows or columns of a product.
enum class bias_kind { none, column, row };

/// A block of C = act(alpha * A * B + bias + residual), m rows by n columns, all of k.
struct gemm_block {
    const float* a;       ///< element (i, l) at i * a_row + l * a_step
    const float* b;       ///< panels of `columns` columns: element (l, j) of panel p is b[p * b_panel + l * b_step + j]
    const float* b_last;  ///< the last, partial panel where B is read in place; null: it lies with the others
    const float* bias;
    const float* residual;
    float* c;
    std::int64_t m, n, k, a_row, a_step, b_panel, b_step, ldc, ld_residual;
    float alpha;
    bias_kind bias_of;
    epilogue ep;
};

/// Columns [first, last) of panels to pack: panel p holds columns [p * columns, (p + 1) * columns) of B, row by row, zero past n.
struct gemm_pack {
    const float* b;
    std::int64_t ldb, k, n, first_panel, last_panel;
    bool transposed;  ///< b is n x k
    float* packed;    ///< of panel 0
};

/// The matrix product kernels of one instruction set.
struct gemm_kernels {
    int rows, columns;  ///< of a register tile; `columns` is the width of a packed panel
    void (*block)(const gemm_block&);
    void (*pack)(const gemm_pack&);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
