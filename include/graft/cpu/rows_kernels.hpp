// Kernels over rows and columns that each instruction set fills: softmax, normalisation, reductions.
#pragma once

#include "../config.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// What a reduction adds up or looks for. max and min hand NaN on.
enum class reduction { sum, max, min, sum_square, sum_abs };

/// Rows to normalise: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta.
struct normalize_rows {
    const float* x;
    float* y;
    const float* gamma;  ///< null: 1
    const float* beta;   ///< null: 0
    float* mean;         ///< of each row; null: not wanted
    float* inverse_deviation;
    std::int64_t first, rows, n;
    std::int64_t span;    ///< elements of a row that share one gamma and beta; 0: gamma and beta have one number for each element
    std::int64_t groups;  ///< with a span: rows after which the channels start again
    float epsilon;
    bool centered;  ///< false: the mean is taken to be 0 (RMS norm)
};

/// Channels to divide by what their neighbours are: y = x / (bias + factor * the sum of x^2 over `before` channels before it, itself and `after` behind)^beta.
struct neighbour_channels {
    const float* x;  ///< of the image, [channels][n]
    float* y;
    std::int64_t channels, n, first, last;  ///< channels from `first` up to `last` are made
    std::int64_t before, after;
    float factor, bias, beta;
};

/// The row kernels of one instruction set.
struct rows_kernels {
    /// Softmax, or its logarithm, of rows of n.
    void (*softmax)(const float* x, float* y, std::int64_t rows, std::int64_t n, bool logarithm);
    /// The same along the first dimension of [n, inner], for `count` columns from x on.
    void (*softmax_columns)(const float* x, float* y, std::int64_t n, std::int64_t inner, std::int64_t count, bool logarithm);
    void (*normalize)(const normalize_rows&);
    void (*normalize_neighbours)(const neighbour_channels&);
    void (*reduce)(reduction kind, const float* x, float* y, std::int64_t rows, std::int64_t n);
    void (*reduce_columns)(reduction kind, const float* x, float* y, std::int64_t n, std::int64_t inner, std::int64_t count);
    /// Places of the highest (or lowest) elements; NaN counts as beyond every number.
    void (*arg)(bool lowest, bool last, const float* x, std::int64_t* y, std::int64_t rows, std::int64_t n);
    void (*arg_columns)(bool lowest, bool last, const float* x, std::int64_t* y, std::int64_t n, std::int64_t inner, std::int64_t count);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
