// Gradients of pooling that each instruction set fills.
#pragma once

#include "../pool_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// One run of a gradient of pooling; `p` is the problem of the forward pass.
struct pool_grad_args {
    pool_problem p;
    const float* dy = nullptr;
    const float* x = nullptr; ///< max only
    float* dx = nullptr;
};

/// Each call makes dx of `count` planes, or blocks of channels, from `first` on.
struct pool_grad_kernels {
    void (*max)(const pool_grad_args&, std::int64_t first, std::int64_t count);
    void (*average)(const pool_grad_args&, std::int64_t first, std::int64_t count);
    /// Whole planes: each pixel gets its plane's gradient over the number of pixels.
    void (*global_average)(const float* dy, std::int64_t planes, std::int64_t pixels, bool blocked, float* dx);
};

} // namespace cpu
GRAFT_END_NAMESPACE
