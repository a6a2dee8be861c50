// Texts of the kernels of graft.DeformConvGrad, and what DeformConv shares with them: part of deform_conv.hpp.
#pragma once

#include "../../config.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// What the gradients share: places and corners.
constexpr const char* deform_sampling = R"cuda(// Where a tap looks: the element above and to the left, and how far it is from there; -2: nowhere.
struct alignas($align) sample { int row, column; $type down, across; };
__device__ __forceinline__ sample sample_of(index_t s, const $offsets* in3) {
    const index_t pixel = s % $pixels;
    const index_t tap = s / $pixels % $taps;
    const index_t g = s / ($pixels * $taps) % $groups;
    const index_t n = s / ($pixels * $taps * $groups);
    const double h = (double)(pixel / $out_w * $stride_h - $pad_h + tap / $columns * $dilation_h) + (double)load(in3 + $offset_h);
    const double v = (double)(pixel % $out_w * $stride_w - $pad_w + tap % $columns * $dilation_w) + (double)load(in3 + $offset_w);
    sample one;
    one.row = -2;
    one.column = -2;
    one.down = 0;
    one.across = 0;
    if (h > -1 && h < $height && v > -1 && v < $width) {
        const double top = floor(h);
        const double left = floor(v);
        one.row = (int)top;
        one.column = (int)left;
        one.down = ($type)(h - top);
        one.across = ($type)(v - left);
    }
    return one;
}
__device__ __forceinline__ $type corner_weight(const sample& one, int corner) { return (corner / 2 ? one.down : 1 - one.down) * (corner % 2 ? one.across : 1 - one.across); }
// The sample's corners in the picture, whose channels are innermost; 0 outside.
template <class T> __device__ __forceinline__ void load_corners($type (&v)[4], const sample& one, const T* picture, index_t n, index_t channel) {
#pragma unroll
    for (int corner = 0; corner < 4; ++corner) {
        const index_t y = one.row + corner / 2;
        const index_t x = one.column + corner % 2;
        const bool inside = y >= 0 && y < $height && x >= 0 && x < $width;
        v[corner] = inside ? ($type)load(picture + ((n * $height + y) * $width + x) * $channels + channel) : ($type)0;
    }
}
)cuda";
// The part of a 64 x 64 product that 16 of its depth give: a thread has 4 of 4.
constexpr const char* deform_product =
    R"cuda(__device__ __forceinline__ void add_slice($type (&sum)[4][4], const $type (&left)[16][65], const $type (&right)[16][65], int thread) {
#pragma unroll
    for (int k = 0; k < 16; ++k) {
        $type a[4];
        $type b[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = left[k][thread / 16 + 16 * i];
#pragma unroll
        for (int i = 0; i < 4; ++i) b[i] = right[k][thread % 16 + 16 * i];
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) sum[i][j] += a[i] * b[j];
    }
}
)cuda";

// A piece of dW: 64 maps by 64 of the depth, of which the channels are innermost.
constexpr const char* deform_weight = R"cuda(    __shared__ $type gradients[16][65];
    __shared__ $type sampled[16][65];
    const int thread = (int)threadIdx.x;
    const index_t group = blockIdx.z;
    const index_t first_map = (index_t)blockIdx.x / $across * 64;
    const index_t first_k = (index_t)blockIdx.x % $across * 64;
    const index_t last = ((index_t)blockIdx.y + 1) * $share < $inner ? ((index_t)blockIdx.y + 1) * $share : $inner;
    $type sum[4][4] = {};
    for (index_t begin = (index_t)blockIdx.y * $share; begin < last; begin += 16) {
        for (int i = thread; i < 1024; i += 256) {
            const index_t m = first_map + $tile_map;
            const index_t at = begin + $tile_pixel;
            const index_t n = at / $pixels;
            const index_t pixel = at % $pixels;
            gradients[$tile_pixel][$tile_map] = m < $maps && at < last ? ($type)load(in0 + $gradient) : ($type)0;
        }
        for (int i = thread; i < 1024; i += 256) {
            const index_t k = first_k + i % 64;
            const index_t at = begin + i / 64;
            $type value = 0;
            if (k < $depth && at < last) {
                const index_t n = at / $pixels;
                const index_t pixel = at % $pixels;
                const index_t tap = k / $within;
                const index_t channel = group * $within + k % $within;
                const index_t g = channel / $per_offset;
                const sample one = samples[((n * $groups + g) * $taps + tap) * $pixels + pixel];
                if (one.row > -2) {
                    $type v[4];
                    load_corners(v, one, $picture, n, channel);
#pragma unroll
                    for (int corner = 0; corner < 4; ++corner) value += corner_weight(one, corner) * v[corner];
                    value *= $mask;
                }
            }
            sampled[i / 64][i % 64] = value;
        }
        __syncthreads();
        add_slice(sum, gradients, sampled, thread);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const index_t m = first_map + thread / 16 + 16 * i;
            const index_t k = first_k + thread % 16 + 16 * j;
            if (m < $maps && k < $depth) partial[((index_t)blockIdx.y * $all + group * $maps + m) * $depth + k] = sum[i][j];
        }
)cuda";

// W^T dY of some pictures: 64 pixels by 64 of the depth.
constexpr const char* deform_back = R"cuda(    __shared__ $type gradients[16][65];
    __shared__ $type weights[16][65];
    const int thread = (int)threadIdx.x;
    const index_t group = blockIdx.z;
    const index_t first_pixel = (index_t)blockIdx.x * 64;
    const index_t first_k = (index_t)blockIdx.y * 64;
    const index_t begin = $begin;
    const index_t count = ($images - begin < $at_once ? $images - begin : $at_once) * $pixels;
    $type sum[4][4] = {};
    for (index_t slice = 0; slice < $maps; slice += 16) {
        for (int i = thread; i < 1024; i += 256) {
            const index_t m = slice + $slice_map;
            const index_t at = first_pixel + $slice_pixel;
            const index_t n = begin + at / $pixels;
            const index_t pixel = at % $pixels;
            gradients[$slice_map][$slice_pixel] = m < $maps && at < count ? ($type)load(in0 + $gradient) : ($type)0;
        }
        for (int i = thread; i < 1024; i += 256) {
            const index_t k = first_k + i % 64;
            const index_t m = slice + i / 64;
            weights[i / 64][i % 64] = k < $depth && m < $maps ? ($type)load(in2 + $weight) : ($type)0;
        }
        __syncthreads();
        add_slice(sum, gradients, weights, thread);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const index_t at = first_pixel + thread / 16 + 16 * i;
            const index_t k = first_k + thread % 16 + 16 * j;
            if (at < count && k < $depth) back[(at * $taps + k / $within) * $channels + group * $within + k % $within] = sum[i][j];
        }
)cuda";

// A pack of channels of dX, up to where it is stored.
constexpr const char* deform_gather = R"cuda(    const index_t i = (index_t)blockIdx.x * 256 + (int)threadIdx.x;
    const index_t channel = i % ($channels / $lanes) * $lanes;
    const index_t at = i / ($channels / $lanes);
    const index_t own = at / ($height * $width);
    const index_t n = $begin + own;
    if (own >= $at_once || n >= $images) return;
    const index_t g = channel / $per_offset;
    const index_t row = (n * $groups + g) * ($height * $width) + at % ($height * $width);
    $type sum[$lanes] = {};
    for (int next = first[row]; next >= 0 && next < $items; ++next) {
        const item one = items[next];
        if (key_of(one) != (sort_key)row) break;
        const index_t u = (index_t)number_of(one);
        const index_t pixel = u / 4 % $pixels;
        const index_t tap = u / (4 * $pixels) % $taps;
        const $type weight = corner_weight(samples[u / 4], (int)(u % 4)) * $mask;
        const pack<$type, $lanes> b = load_pack<$type, $lanes, $lanes>(back + ((own * $pixels + pixel) * $taps + tap) * $channels + channel);
#pragma unroll
        for (int lane = 0; lane < $lanes; ++lane) sum[lane] += weight * b.at[lane];
    }
)cuda";

// Some lanes of a warp for each sample, along its channels; its first lane goes on to store the sums.
constexpr const char* deform_places = R"cuda(    const index_t at = ((index_t)blockIdx.x * 256 + (int)threadIdx.x) / $wide;
    const int lane = (int)threadIdx.x % $wide;
    const index_t pixel = at % $pixels;
    const index_t tap = at / $pixels % $taps;
    const index_t g = at / ($pixels * $taps) % $groups;
    const index_t own = at / ($pixels * $taps * $groups);
    const index_t n = $begin + own;
    const bool is_one = own < $at_once && n < $images;
    $type by_h = 0;
    $type by_v = 0;
    $type by_mask = 0;
    if (is_one) {
        const sample one = samples[((n * $groups + g) * $taps + tap) * $pixels + pixel];
        for (index_t c = lane; c < $per_offset && one.row > -2; c += $wide) {
            const index_t channel = g * $per_offset + c;
            const $type came = back[((own * $pixels + pixel) * $taps + tap) * $channels + channel];
            $type v[4];
            load_corners(v, one, $picture, n, channel);
            by_h += came * ((1 - one.across) * (v[2] - v[0]) + one.across * (v[3] - v[1]));
            by_v += came * ((1 - one.down) * (v[1] - v[0]) + one.down * (v[3] - v[2]));
#pragma unroll
            for (int corner = 0; corner < 4; ++corner) by_mask += came * (corner_weight(one, corner) * v[corner]);
        }
    }
    for (int distance = $half; distance; distance /= 2) {
        by_h += __shfl_down_sync(0xffffffffu, by_h, distance, $wide);
        by_v += __shfl_down_sync(0xffffffffu, by_v, distance, $wide);
        by_mask += __shfl_down_sync(0xffffffffu, by_mask, distance, $wide);
    }
    if (lane || !is_one) return;
)cuda";

}  // namespace detail
}  // namespace gpu
GRAFT_END_NAMESPACE
