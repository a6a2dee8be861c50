// Convolutions and matrix products of bfloat16, and images of it, as kernels see them.
#pragma once

#include "../core/wanted.hpp"
#include "../graph/activation.hpp"
#include "pixel_kernels.hpp"
#include "pool_kernels.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Whether this program has what they compute.
constexpr bool bfloat16_wanted() noexcept { return wanted("Conv") || wanted("MatMul") || wanted("Gemm"); }

/// Where weights lie: those of output channel j, channel c and tap t at j * out + c / unrolled * in + c % unrolled + t * tap.
struct bfloat16_weights {
    std::int64_t channels = 0, out_channels = 0, taps = 1, out = 0, in = 0, tap = 1, unrolled = 1;
    float factor = 1;  // what they are multiplied by before they are rounded
};

/// Kernels of images in bfloat16, [n][ceil(c / 32)][pixels][32]; lanes past c hold numbers that are finite. A group is the channels of each pixel that fill two
/// vectors, 2 W. Tasks are those of pool_kernels and of conv_kernels, a plane being a group.
struct bfloat16_image_kernels {
    void (*widen)(const std::uint16_t* x, std::int64_t pixels, float* y);  ///< W channels, to [pixels][W]
    void (*max_pool)(const pool_args&, std::int64_t task);
    void (*average_pool)(const pool_args&, std::int64_t task);
    void (*depthwise)(const conv_args&, std::int64_t task);
    void (*global_average)(const std::uint16_t* x, std::int64_t pixels, float* y);  ///< a group, in the order of its channels
    /// y = clamp(x * scale + shift) of a group, of which so many are channels; for the others they are 1 and 0. Null: the same.
    void (*channel)(const std::uint16_t* x, std::int64_t pixels, const float* scale, const float* shift, int channels, float low, float high, std::uint16_t* y);
    void (*sum)(const std::uint16_t* a, const std::uint16_t* b, std::int64_t n, float low, float high, std::uint16_t* y);  ///< n: whole pixels
};

/// `pack` rounds the weights of 32 output channels, of which there are `count`, and writes them in the order in which products read them.
struct bfloat16_kernels : pixel_kernels {
    void (*pack)(const bfloat16_weights&, const float* weight, std::int64_t count, bool tiles, std::uint16_t* to);
    const bfloat16_image_kernels* images;
};

}  // namespace cpu
GRAFT_END_NAMESPACE
