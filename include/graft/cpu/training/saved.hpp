// Activation functions whose operand or result is kept in bfloat16 for the backward part of a step.
#pragma once

#include "../../core/executor.hpp"
#include "../../graph/activation.hpp"
#include "../isa.hpp"
#include "saved_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// y = act(x) for n elements; x_narrow and y_narrow, where they are not null, take both in bfloat16. y may be x.
void run_activation_training(isa set, activation kind, float alpha, float beta, const float* x, float* y, std::uint16_t* x_narrow, std::uint16_t* y_narrow,
                             std::int64_t n, executor& pool);
/// The same function of numbers that were kept: its result rounded like them, or, where y_narrow is null, as it is.
void run_activation_again(isa set, activation kind, float alpha, float beta, const std::uint16_t* x, float* y, std::uint16_t* y_narrow, std::int64_t n,
                          executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../dispatch.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

constexpr std::int64_t saved_piece = 4096;  // elements that stay in the first cache

}  // namespace detail

GRAFT_INLINE void run_activation_training(isa set, activation kind, float alpha, float beta, const float* x, float* y, std::uint16_t* x_narrow,
                                          std::uint16_t* y_narrow, std::int64_t n, executor& pool) {
    const elementwise_kernels& functions = *kernels(set).elementwise;
    const move_kernels& moves = *kernels(set).move;
    parallel_for_pieces(pool, n, detail::saved_piece, [&](std::int64_t i, std::int64_t count) {
        if (x_narrow) moves.to_bfloat16(x + i, x_narrow + i, count);
        functions.activation_run(kind, alpha, beta, x + i, y + i, count);
        if (y_narrow) moves.to_bfloat16(y + i, y_narrow + i, count);
    });
}

GRAFT_INLINE void run_activation_again(isa set, activation kind, float alpha, float beta, const std::uint16_t* x, float* y, std::uint16_t* y_narrow,
                                       std::int64_t n, executor& pool) {
    const elementwise_kernels& functions = *kernels(set).elementwise;
    const move_kernels& moves = *kernels(set).move;
    parallel_for_pieces(pool, n, detail::saved_piece, [&](std::int64_t i, std::int64_t count) {
        alignas(64) float room[detail::saved_piece];
        float* const wide = y_narrow ? room : y + i;
        moves.from_bfloat16(x + i, wide, count);
        functions.activation_run(kind, alpha, beta, wide, wide, count);
        if (y_narrow) moves.to_bfloat16(wide, y_narrow + i, count);
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
