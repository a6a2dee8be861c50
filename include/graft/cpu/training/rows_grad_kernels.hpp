// Gradients of functions along rows that each instruction set fills: softmax, layer normalisation.
#pragma once

#include "saved_kernels.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Rows of n that were normalised: x' = (x - mean) * inverse with a mean and an inverse for each.
struct normalized_rows_grad {
    const float* dy;
    saved_activation x;
    const float* mean;  ///< null: 0, and its gradient is left out (RMS norm)
    const float* inverse;
    const float* scale;  ///< null: 1
    float* dx;
    std::int64_t rows, n;
};

/// The kernels of one instruction set; dx may be dy.
struct rows_grad_kernels {
    /// dx = y * (dy - sum(dy * y)) of rows of n.
    void (*softmax)(const float* dy, const saved_activation& y, float* dx, std::int64_t rows, std::int64_t n);
    /// The same along the first dimension of [n, inner], for `count` columns.
    void (*softmax_columns)(const float* dy, const saved_activation& y, float* dx, std::int64_t n, std::int64_t inner, std::int64_t count);
    /// dx = inverse * (g - mean(g) - x' * mean(g * x')) with g = dy * scale.
    void (*layer_norm)(const normalized_rows_grad&);
    /// Adds the sums over rows of dy * x' and of dy (either null: not wanted) for `count` columns from `first` on.
    void (*layer_norm_sums)(const normalized_rows_grad&, std::int64_t first, std::int64_t count, double* scale, double* bias);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
