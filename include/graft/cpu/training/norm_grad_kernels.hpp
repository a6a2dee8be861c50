// Batch normalisation in training: kernels that each instruction set fills, and what they are given.
#pragma once

#include "elementwise_grad_kernels.hpp"
#include "saved_kernels.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Rows of one vector each that share their channels: the pixels of a block of channels, a piece of one channel's plane, or a few
/// columns of a matrix. `whole` rows are full, then `tail` rows have `tail_lanes`; `step` floats from one to the next.
struct norm_rows {
    std::int64_t whole, tail, step;
    int tail_lanes;
    int channels;  ///< lanes that are channels; 0: all lanes are of one channel
};

/// y = clamp((x - mean) * scale + shift + residual); a null residual is 0. One number for each lane's channel. `x_narrow` and `y_narrow` (or null) take both in
/// bfloat16.
struct norm_forward {
    const float *x, *residual, *mean, *scale, *shift;
    float* y;
    std::uint16_t *x_narrow, *y_narrow;
    float low, high;
};

/// The backward pass: `mask` looks at y, or at (x - mean) * gain + offset where these are not null, which is y again; `masked` (or null) takes what it left of
/// dy. dx = (dy - shift - (x - mean) * slope) * scale.
struct norm_backward {
    const float *dy, *mean, *scale, *slope, *shift, *gain, *offset;
    saved_activation x, y;  ///< of one type
    float *masked, *dx;
    gradient_mask mask;
    float low, high;
};

/// The kernels of one instruction set. Sums over rows are made in float for some hundred rows, then carried in double, one result
/// for each lane (or one, where a row is of one channel). `images` repeat the rows `image_step` floats apart.
struct norm_grad_kernels {
    /// Mean, and sum of squared distances from it.
    void (*moments)(const norm_rows&, const float* x, std::int64_t images, std::int64_t image_step, double* mean, double* square);
    /// The moments of two sets together, n channels: those of a become those of both. Chan, Golub, LeVeque 1979.
    void (*merge)(double* mean_a, double* square_a, double count_a, const double* mean_b, const double* square_b, double count_b, std::int64_t n);
    void (*normalize)(const norm_rows&, const norm_forward&);
    /// Sums of dy and of dy * (x - mean).
    void (*sums)(const norm_rows&, const norm_backward&, std::int64_t images, std::int64_t image_step, double* sum, double* product);
    void (*gradient)(const norm_rows&, const norm_backward&);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
