// Pooling as kernels see it: the problem, one run's arguments, and the table that each instruction set fills.
#pragma once

#include "../config.hpp"
#include "conv_kernels.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// A window that moves over each channel of float32 images; 1-D comes as height 1, with one row in the window. The pads of the
/// bottom and the right matter only for count_include_pad. The layout is the same before and after.
struct pool_problem {
    std::int64_t n = 1, c = 1, ih = 1, iw = 1, oh = 1, ow = 1;
    int kh = 1, kw = 1, sh = 1, sw = 1, dh = 1, dw = 1, pt = 0, pl = 0, pb = 0, pr = 0;
    bool count_include_pad = false;
    layout::kind l = layout::blocked;
};

/// One run of a pooling, as its tasks read it.
struct pool_args {
    pool_problem p;
    const void* x = nullptr;  // float32, or as the kernel has it
    void* y = nullptr;
    std::int64_t bands = 0, band_rows = 0;  // how the rows of a plane are cut into tasks
};

/// The whole-plane kernels take n planes (or blocks of channels) of `pixels` each and give one value (vector) for each.
struct pool_kernels {
    void (*max)(const pool_args&, std::int64_t task);
    void (*average)(const pool_args&, std::int64_t task);
    void (*global_average)(const float* x, std::int64_t planes, std::int64_t pixels, bool blocked, float* y);
    void (*global_max)(const float* x, std::int64_t planes, std::int64_t pixels, bool blocked, float* y);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
