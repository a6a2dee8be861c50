// Gradients of pooling that each instruction set fills.
#pragma once

#include "../pool_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// One run of a gradient of pooling; `p` is the problem of the forward pass.
struct pool_grad_args {
    pool_problem p;
    const float* dy = nullptr;
    const std::uint8_t* places = nullptr;  ///< max only
    float* dx = nullptr;
};

/// One run of max pooling as training needs it; `y` may be null.
struct max_places_args {
    pool_problem p;
    const float* x = nullptr;
    float* y = nullptr;
    std::uint8_t* places = nullptr;
};

/// Each call does `count` planes, or blocks of channels, from `first` on.
struct pool_grad_kernels {
    void (*max_places)(const max_places_args&, std::int64_t first, std::int64_t count);
    void (*max)(const pool_grad_args&, std::int64_t first, std::int64_t count);
    void (*average)(const pool_grad_args&, std::int64_t first, std::int64_t count);
    /// Whole planes: each pixel gets its plane's gradient over the number of pixels.
    void (*global_average)(const float* dy, std::int64_t planes, std::int64_t pixels, bool blocked, float* dx);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
