// Sums of rows and columns in double, that each instruction set fills.
#pragma once

#include "saved_kernels.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The sums of one instruction set. They run in float for some ten rows, then go on in double.
struct reduce_sum_kernels {
    int columns;  ///< how many columns are summed at once at most
    /// sum[j] += x[i * step + j] for i < rows, j < lanes <= columns.
    void (*add_columns)(const saved_activation& x, std::int64_t rows, std::int64_t step, int lanes, double* sum);
    /// x[0] + ... + x[n - 1].
    double (*row)(const float* x, std::int64_t n);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
