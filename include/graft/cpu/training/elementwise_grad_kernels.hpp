// Gradients of elementwise functions that each instruction set fills.
#pragma once

#include "../../graph/activation.hpp"
#include "saved_kernels.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// What a gradient passes: everything, or only what went through a relu or a clip in the forward pass.
enum class gradient_mask {
    none,
    relu,  ///< where y > 0
    clip,  ///< where low < y < high
};

/// The gradients of elementwise functions of one instruction set; n elements each, dx may be dy.
struct elementwise_grad_kernels {
    /// dx[i] = dy[i] where y[i] passes the mask, else 0.
    void (*masked)(gradient_mask mask, float low, float high, const float* dy, const saved_activation& y, float* dx, std::int64_t n);
    /// dx[i] = dy[i] * act'(x[i]), of dy's type, which is float32 unless x is narrow; where y is not null, y[i] = act(x[i]).
    void (*activation_grad)(activation kind, float alpha, float beta, const saved_activation& dy, const saved_activation& x, void* dx, std::uint16_t* y,
                            std::int64_t n);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
