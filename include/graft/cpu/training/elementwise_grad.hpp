// Gradients of elementwise float32 functions over whole tensors.
#pragma once

#include "../../core/executor.hpp"
#include "../isa.hpp"
#include "elementwise_grad_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// dx[i] = dy[i] where y[i] passes the mask (for clip: low < y[i] < high), else 0; n elements. dx may be dy.
void run_masked_grad(isa set, gradient_mask mask, float low, float high, const float* dy, const saved_activation& y, float* dx, std::int64_t n, executor& pool);
/// dx[i] = dy[i] * act'(x[i]) for n elements, x the activation's input. dx is of dy's type, and may be dy; both are float32 unless x is bfloat16. Where y is
/// not null, y[i] = act(x[i]), which shares most of the work, rounded to bfloat16.
void run_activation_grad(isa set, activation kind, float alpha, float beta, const saved_activation& dy, const saved_activation& x, void* dx, std::uint16_t* y,
                         std::int64_t n, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "dispatch.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// Elements a task: three streams of them fit the second cache.
constexpr std::int64_t gradient_grain = 16384;

}  // namespace detail

GRAFT_INLINE void run_masked_grad(isa set, gradient_mask mask, float low, float high, const float* dy, const saved_activation& y, float* dx, std::int64_t n,
                                  executor& pool) {
    const elementwise_grad_kernels& k = *training_kernels(set).elementwise_grad;
    parallel_for_pieces(pool, n, detail::gradient_grain,
                        [&](std::int64_t i, std::int64_t count) { k.masked(mask, low, high, dy + i, y.from(i), dx + i, count); });
}

GRAFT_INLINE void run_activation_grad(isa set, activation kind, float alpha, float beta, const saved_activation& dy, const saved_activation& x, void* dx,
                                      std::uint16_t* y, std::int64_t n, executor& pool) {
    const elementwise_grad_kernels& k = *training_kernels(set).elementwise_grad;
    parallel_for_pieces(pool, n, detail::gradient_grain, [&](std::int64_t i, std::int64_t count) {
        k.activation_grad(kind, alpha, beta, dy.from(i), x.from(i), static_cast<char*>(dx) + i * (dy.narrow ? 2 : 4), y ? y + i : nullptr, count);
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
