// Operators on images in bfloat16, [n][ceil(c / 32)][pixels][32], as convolutions in bfloat16 read and write them; lanes past c hold numbers that are finite.
// They compute in float32, and round what they write. On a set and a machine that have `bfloat16_products` alone.
#pragma once

#include "../core/executor.hpp"
#include "elementwise.hpp"
#include "isa.hpp"
#include "pool_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// As run_max_pool and run_average_pool.
void run_narrow_pool(isa set, bool largest, const pool_problem& problem, const std::uint16_t* x, std::uint16_t* y, executor& pool);
/// The mean of each channel, in floats: y is [n][ceil(c / W)][W].
void run_narrow_global_average(isa set, std::int64_t n, std::int64_t c, std::int64_t pixels, const std::uint16_t* x, float* y, executor& pool);
/// As run_channel, without prelu and with an activation that is at most a clip.
void run_narrow_channel(isa set, const channel_problem& problem, const std::uint16_t* x, const float* scale, const float* shift, std::uint16_t* y,
                        executor& pool);
/// y = act(a + b) of n numbers of whole pixels; the activation is at most a clip.
void run_narrow_sum(isa set, const epilogue& ep, const std::uint16_t* a, const std::uint16_t* b, std::int64_t n, std::uint16_t* y, executor& pool);
/// To planes of floats, [n][c][pixels].
void narrow_to_nchw(isa set, const std::uint16_t* x, std::int64_t n, std::int64_t c, std::int64_t pixels, float* y, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "bfloat16_kernels.hpp"
#include "dispatch.hpp"
#include "pool.hpp"
#include "reorder_kernels.hpp"

#include <algorithm>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// Where channels lie in images of bfloat16, `together` at a time.
struct narrow_groups {
    std::int64_t together, c, pixels;
    std::int64_t in_pixel() const { return bfloat16_block / together; }
    /// Of an image in memory, and of them those that hold channels.
    std::int64_t stored() const { return (c + bfloat16_block - 1) / bfloat16_block * in_pixel(); }
    std::int64_t held() const { return (c + together - 1) / together; }
    std::int64_t at(std::int64_t image, std::int64_t group) const {
        return (image * stored() + group) / in_pixel() * pixels * bfloat16_block + group % in_pixel() * together;
    }
    int channels(std::int64_t group) const {
        const std::int64_t left = c - group * together;
        return static_cast<int>(left < 0 ? 0 : left < together ? left : together);
    }
};

}  // namespace detail

GRAFT_INLINE void run_narrow_pool(isa set, bool largest, const pool_problem& p, const std::uint16_t* x, std::uint16_t* y, executor& pool) {
    const bfloat16_image_kernels& k = *bfloat16_products(set)->images;
    detail::run_pool(p.n * detail::narrow_groups{2 * vector_width(set), p.c, 0}.stored(), p, x, y, pool, largest ? k.max_pool : k.average_pool);
}

GRAFT_INLINE void run_narrow_global_average(isa set, std::int64_t n, std::int64_t c, std::int64_t pixels, const std::uint16_t* x, float* y, executor& pool) {
    const std::int64_t width = vector_width(set), stored = (c + width - 1) / width * width;
    const detail::narrow_groups groups{2 * width, c, pixels};
    const auto kernel = bfloat16_products(set)->images->global_average;
    parallel_for_pieces(pool, n * groups.held(), 16384 / (pixels * groups.together) + 1, [&](std::int64_t first, std::int64_t count) {
        for (std::int64_t i = first; i < first + count; ++i) {
            const std::int64_t image = i / groups.held(), group = i % groups.held(), channel = group * groups.together;
            alignas(64) float means[bfloat16_block];
            kernel(x + groups.at(image, group), pixels, means);
            std::memcpy(y + image * stored + channel, means, static_cast<std::size_t>(std::min(groups.together, stored - channel)) * sizeof(float));
        }
    });
}

GRAFT_INLINE void run_narrow_channel(isa set, const channel_problem& p, const std::uint16_t* x, const float* scale, const float* shift, std::uint16_t* y,
                                     executor& pool) {
    const detail::narrow_groups groups{2 * vector_width(set), p.c, p.area};
    const auto kernel = bfloat16_products(set)->images->channel;
    float low = 0, high = 0;
    detail::activation_bounds(p.ep, low, high);
    parallel_for_pieces(pool, p.n * groups.stored(), 16384 / (p.area * groups.together + 1) + 1, [&](std::int64_t first, std::int64_t count) {
        for (std::int64_t i = first; i < first + count; ++i) {
            const std::int64_t image = i / groups.stored(), group = i % groups.stored(), channel = group * groups.together, at = groups.at(image, group);
            const int channels = groups.channels(group);
            kernel(x + at, p.area, scale && channels ? scale + image * p.scale_image + channel : nullptr,
                   shift && channels ? shift + image * p.shift_image + channel : nullptr, channels, low, high, y + at);
        }
    });
}

GRAFT_INLINE void run_narrow_sum(isa set, const epilogue& ep, const std::uint16_t* a, const std::uint16_t* b, std::int64_t n, std::uint16_t* y,
                                 executor& pool) {
    const auto kernel = bfloat16_products(set)->images->sum;
    float low = 0, high = 0;
    detail::activation_bounds(ep, low, high);
    parallel_for_pieces(pool, n, 16384, [&](std::int64_t first, std::int64_t count) { kernel(a + first, b + first, count, low, high, y + first); });
}

GRAFT_INLINE void narrow_to_nchw(isa set, const std::uint16_t* x, std::int64_t n, std::int64_t c, std::int64_t pixels, float* y, executor& pool) {
    const detail::narrow_groups v{vector_width(set), c, pixels};
    const bfloat16_image_kernels& images = *bfloat16_products(set)->images;
    const reorder_kernels& k = *kernels(set).reorder;
    constexpr std::int64_t band = 256;
    const std::int64_t bands = (pixels + band - 1) / band;
    parallel_for(pool, n * v.held() * bands, [&](std::int64_t task) {
        const std::int64_t first = task % bands * band, vector = task / bands % v.held(), image = task / bands / v.held();
        const std::int64_t count = pixels - first < band ? pixels - first : band;
        alignas(64) float some[band * 16];
        images.widen(x + v.at(image, vector) + first * bfloat16_block, count, some);
        k.to_nchw(some, pixels, v.channels(vector), 0, count, y + (image * c + vector * v.together) * pixels + first);
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
