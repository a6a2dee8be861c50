// Changes of layout as kernels see them: the table that each instruction set fills.
#pragma once

#include "../config.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Pixels [first, last) of one block of channels (at most W, `channels` real ones) between planes and vectors.
struct reorder_kernels {
    void (*to_blocked)(const float* x, std::int64_t plane, int channels, std::int64_t first, std::int64_t last, float* y);
    void (*to_nchw)(const float* x, std::int64_t plane, int channels, std::int64_t first, std::int64_t last, float* y);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
