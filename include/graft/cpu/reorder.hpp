// Changes of layout: [n][c][h][w] to blocks of channels and back.
#pragma once

#include "../core/executor.hpp"
#include "isa.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Planes [n][c][pixels] to blocks [n][ceil(c / W)][pixels][W]; lanes past c become 0. x and y do not overlap.
void to_blocked(isa set, const float* x, std::int64_t n, std::int64_t c, std::int64_t pixels, float* y, executor& pool);
/// Blocks [n][ceil(c / W)][pixels][W] to planes [n][c][pixels]. x and y do not overlap.
void to_nchw(isa set, const float* x, std::int64_t n, std::int64_t c, std::int64_t pixels, float* y, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "dispatch.hpp"
#include "reorder_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

inline void reorder(isa set, bool blocked, const float* x, std::int64_t n, std::int64_t c, std::int64_t pixels, float* y, executor& pool) {
    const reorder_kernels& k = *kernels(set).reorder;
    const std::int64_t width = vector_width(set), blocks = (c + width - 1) / width, band = 2048, bands = (pixels + band - 1) / band;
    if (n * c * pixels == 0) return;
    parallel_for(pool, n * blocks * bands, [&](std::int64_t task) {
        const std::int64_t first = task % bands * band, last = first + band < pixels ? first + band : pixels;
        const std::int64_t block = task / bands % blocks, image = task / bands / blocks, left = c - block * width;
        const std::int64_t planes = (image * c + block * width) * pixels, vectors = (image * blocks + block) * pixels * width;
        const int channels = static_cast<int>(left < width ? left : width);
        if (blocked)
            k.to_blocked(x + planes, pixels, channels, first, last, y + vectors);
        else
            k.to_nchw(x + vectors, pixels, channels, first, last, y + planes);
    });
}

}  // namespace detail

GRAFT_INLINE void to_blocked(isa set, const float* x, std::int64_t n, std::int64_t c, std::int64_t pixels, float* y, executor& pool) {
    detail::reorder(set, true, x, n, c, pixels, y, pool);
}

GRAFT_INLINE void to_nchw(isa set, const float* x, std::int64_t n, std::int64_t c, std::int64_t pixels, float* y, executor& pool) {
    detail::reorder(set, false, x, n, c, pixels, y, pool);
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
