// Updates of weights that each instruction set fills, and the numbers of a step.
#pragma once

#include "../../config.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// One step of torch.optim.SGD: g += weight_decay * w; m = momentum * m + g; w -= rate * m (with nesterov: rate * (g + momentum * m)).
struct sgd_step {
    float minus_rate, momentum, weight_decay;
    bool nesterov;
};

/// One step of torch.optim.Adam, or AdamW where `shrink` is not 1: w *= shrink; g += weight_decay * w; m += share * (g - m);
/// v = keep * v + square_share * g * g; w += minus_step * m / (sqrt(v) / correction + epsilon).
struct adam_step {
    float shrink, weight_decay, share, keep, square_share, correction, epsilon, minus_step;
};

/// The updates of one instruction set, n numbers each. Each result may be the memory that it follows from.
struct optimizer_kernels {
    /// m and new_m null: no momentum.
    void (*sgd)(const sgd_step&, const float* w, const float* g, const float* m, float* new_w, float* new_m, std::int64_t n);
    void (*adam)(const adam_step&, const float* w, const float* g, const float* m, const float* v, float* new_w, float* new_m, float* new_v, std::int64_t n);
    /// y = a + share * (b - a)
    void (*blend)(float share, const float* a, const float* b, float* y, std::int64_t n);
    void (*scale)(float factor, const float* x, float* y, std::int64_t n);
    /// The sum of squares, in double.
    double (*square_sum)(const float* x, std::int64_t n);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
