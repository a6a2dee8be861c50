// What a convolution or a matrix product does to its result while it is still in registers or in the first cache.
#pragma once

#include "../config.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Functions that can follow a convolution, a matrix product or a sum; alpha and beta are those of the ONNX operators.
enum class activation : std::uint8_t {
    none,
    relu,
    clip,       ///< into [alpha, beta]; NaN stays NaN
    leaky_relu, ///< alpha: slope below zero
    sigmoid,
    silu,         ///< x * sigmoid(x)
    hard_sigmoid, ///< alpha * x + beta, cut to [0, 1]
    hard_swish,   ///< x * hard_sigmoid(x) with 1/6 and 1/2
    tanh,
    gelu,      ///< the exact form, by erf
    gelu_tanh, ///< the approximation by tanh
    elu,       ///< alpha
    softplus,
    mish,
};

/// y = act(x [+ residual]), or act(x) + residual where `residual_after_activation`.
struct epilogue {
    activation act = activation::none;
    float alpha = 0, beta = 0;
    bool residual = false;
    bool residual_after_activation = false;
};

} // namespace cpu
GRAFT_END_NAMESPACE
