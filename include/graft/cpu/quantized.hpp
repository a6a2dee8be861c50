// Convolutions and largest windows of 8-bit images in integers, requantised as ONNX has it. All sets and all numbers of threads give the same codes.
#pragma once

#include "../core/executor.hpp"
#include "isa.hpp"
#include "quantized_weights.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Whether the kernels take such a convolution: its window and its image are of a size that they count, and no sum can leave int32.
/// Looks at the sizes alone.
bool takes_quantized_conv(const quantized_conv_problem& problem);
/// Whether Winograd's form is exact for it and saves time: a window of 3 x 3 with steps of one, and channels enough to pay for the transforms.
bool takes_quantized_winograd(const quantized_conv_problem& problem);
/// Whether the set and this machine multiply bytes four a lane, for weights whose differences from their zero points fit int8, or are sums of two such.
bool multiplies_bytes(isa set) noexcept;
/// Whether sums whose bias is at most `bias`, by `scale`, stay in int32, as the kernels for bytes want it: they cut codes off behind that.
bool steps_fit_int32(const quantized_conv_problem& problem, float scale, double bias) noexcept;
/// The same as multiplies_bytes by tiles.
bool multiplies_tiles(isa set) noexcept;
/// Whether these are worth pixels of 64 channels, where images have few: half empty, they take twice the memory and the time of all that is not multiplied.
bool prefers_tiles(const quantized_conv_problem& problem) noexcept;
/// Whether they take such a convolution, and whether one of a few planes reads them as they lie.
bool takes_quantized_tiles(const quantized_conv_problem& problem);
bool takes_quantized_planes(const quantized_conv_problem& problem);
/// Whether products of 16 bits, two a lane, are faster than those of floats on the set: a multiplication and an addition for twice as many.
constexpr bool pairs_of_16_bits_pay(isa set) noexcept { return set == isa::avx2; }
/// Whether a convolution of bytes is faster with vectors of output channels: where too many of a tile's neighbouring pixels are none of an output.
bool prefers_few_pixels(const quantized_conv_problem& problem) noexcept;
/// Bytes of the memory that a run needs beside its tensors.
std::int64_t quantized_conv_workspace(const quantized_conv_problem& problem);
/// x is [n][ic][ih][iw] and y [n][oc][oh][ow], 8 bits each, for `bytes` both in lanes of four channels or pixels of 64, or matrices; scale and bias are [oc].
/// For `unsigned_pixels()` the bias is less the sum of the channel's weights times the zero point of x as an unsigned byte, as `quantized_bias` has it. The
/// memory of `workspace` is aligned to 64 bytes; for `bytes` steps_fit_int32 of all channels.
void run_quantized_conv(isa set, const quantized_conv_problem& problem, const void* x, const void* packed, const float* scale, const std::int32_t* bias,
                        void* y, void* workspace, executor& pool, const void* residual = nullptr);
/// Codes [n][c][pixels], signed or not, to lanes of four channels [n][ceil(c / 4)][pixels][4] (see byte_kernels), and back. On a set that `multiplies_bytes`.
void codes_to_lanes(isa set, bool is_signed, const void* x, std::int64_t n, std::int64_t c, std::int64_t pixels, void* y, executor& pool);
void lanes_to_codes(isa set, bool is_signed, const void* x, std::int64_t n, std::int64_t c, std::int64_t pixels, void* y, executor& pool);
/// The same to pixels of 64 channels [n][ceil(c / 64)][pixels][64] (see code_pixel_kernels), on a set that `multiplies_tiles`.
void codes_to_pixels(isa set, bool is_signed, const void* x, std::int64_t n, std::int64_t c, std::int64_t pixels, void* y, executor& pool);
void pixels_to_codes(isa set, bool is_signed, const void* x, std::int64_t n, std::int64_t c, std::int64_t pixels, void* y, executor& pool);
/// Lanes to pixels, and back, likewise.
void lanes_to_pixels(isa set, const void* x, std::int64_t n, std::int64_t c, std::int64_t pixels, void* y, executor& pool);
void pixels_to_lanes(isa set, const void* x, std::int64_t n, std::int64_t c, std::int64_t pixels, void* y, executor& pool);
/// Whether the windows of a row are no wider than the kernel has room for.
bool takes_max_pool_of_codes(const pool_problem& problem);
/// The largest code of each window; padding never wins. x is [n][c][ih][iw] and y [n][c][oh][ow], or both in lanes of four channels where the problem's layout
/// is blocked, in which all codes are unsigned.
void run_max_pool_of_codes(isa set, const pool_problem& problem, bool is_signed, const void* x, void* y, executor& pool);
/// The same of images in pixels of 64 channels, on a set that `multiplies_tiles`.
void run_max_pool_of_pixels(isa set, const pool_problem& problem, const void* x, void* y, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "dispatch.hpp"

#include <cstring>
#include <limits>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

constexpr int most_quantized_products = 1 << 14, most_quantized_stride = 64;

// Tiles of neighbouring pixels, of those of the padded image where it is gathered whole; of Winograd's tiles, as many for a task.
inline std::int64_t tiles_of(const quantized_conv_problem& p) {
    std::int64_t pixels = p.oh * p.ow;
    if (p.winograd)
        pixels = p.winograd_tiles_high() * p.winograd_tiles_wide();
    else if (p.bytes && !p.in_place())
        pixels = (p.oh - 1) * planes_of(p).pitch + p.ow;
    if (p.few) return (p.oh * p.ow + quantized_pixels_of_few - 1) / quantized_pixels_of_few;
    return (pixels + quantized_pixels - 1) / quantized_pixels;
}
// Of a convolution of few pixels, the list that quantized_conv_args has.
inline std::int64_t move_list_bytes(const quantized_conv_problem& p) { return p.few ? (4 * p.lanes_of_channels() * p.window() + 63) / 64 * 64 : 0; }
inline void list_moves(const quantized_conv_args& a, std::int32_t* to) {
    const int window = a.p.window();
    for (std::int64_t lane = 0, begin = 0; lane < a.p.lanes_of_channels(); ++lane, begin += a.lane_step())
        for (int t = 0; t < window; ++t) *to++ = static_cast<std::int32_t>(begin + a.from.taps[t]);
}
// Numbers of a gathered tile, and how many tiles are gathered at a time: what a second cache or two hold, whatever the number of threads.
inline std::int64_t quantized_slot(const quantized_conv_problem& p) { return p.lanes_of_channels() * (p.winograd ? 16 : p.kh * p.kw) * quantized_pixels; }
inline std::int64_t quantized_slots(const quantized_conv_problem& p) {
    const std::int64_t fit = (std::int64_t(1) << 19) / quantized_slot(p) + 2, tiles = tiles_of(p);
    return fit < tiles ? fit : tiles;
}
}  // namespace detail

GRAFT_INLINE bool takes_quantized_conv(const quantized_conv_problem& p) {
    if (p.n < 1 || p.ic < 1 || p.oc < 1 || p.oh < 1 || p.ow < 1 || p.ih < 1 || p.iw < 1 || p.kh < 1 || p.kw < 1 || p.pt < 0 || p.pl < 0) return false;
    if (p.groups < 1 || p.ic % p.groups != 0 || p.oc % p.groups != 0) return false;
    constexpr std::int64_t most = 1 << 20;
    for (const std::int64_t size :
         {p.ic, p.oc, p.ih, p.iw, p.oh, p.ow, std::int64_t(p.pt), std::int64_t(p.pl), std::int64_t(p.dh) * p.kh, std::int64_t(p.dw) * p.kw})
        if (size > most) return false;
    if (std::int64_t(p.kh) * p.kw * p.parts() > quantized_taps || p.sh > detail::most_quantized_stride || p.sw > detail::most_quantized_stride) return false;
    if (p.products() > detail::most_quantized_products) return false;
    const image_planes g = detail::planes_of(p);
    if (!p.depthwise()) return g.planes() <= (std::int64_t(1) << 40) / p.ic;
    return g.row_phases * g.column_phases * depthwise_pitch(g) * (g.rows - p.oh + 1) <= quantized_depthwise_pixels;
}

GRAFT_INLINE bool takes_quantized_winograd(const quantized_conv_problem& p) {
    // Four times the sum of a window stays in int32 for differences of nine bits on both sides.
    constexpr int most = (1 << 29) / (9 * 255 * 255);
    return !p.bytes && p.groups == 1 && p.kh == 3 && p.kw == 3 && p.sh == 1 && p.sw == 1 && p.dh == 1 && p.dw == 1 && p.ic >= 16 && p.ic <= most &&
           p.oc >= 16 && p.ow <= quantized_winograd_width;
}
GRAFT_INLINE bool multiplies_bytes(isa set) noexcept { return byte_products(set) != nullptr; }
GRAFT_INLINE bool steps_fit_int32(const quantized_conv_problem& p, float scale, double bias) noexcept {
    return (static_cast<double>(p.products()) * 255 * 255 + bias) * static_cast<double>(scale) < 2147483648.0 * 0.999;
}
GRAFT_INLINE bool multiplies_tiles(isa set) noexcept { return byte_tiles(set) != nullptr; }
GRAFT_INLINE bool prefers_tiles(const quantized_conv_problem& p) noexcept {
    constexpr std::int64_t few = 32;
    return p.ic > few || p.oc > few || (!p.depthwise() && p.ic * p.kh * p.kw * p.oc > 2560);
}
GRAFT_INLINE bool takes_quantized_tiles(const quantized_conv_problem& p) { return p.depthwise() || (!p.grouped() && takes_pixels(detail::image_of_codes(p))); }
GRAFT_INLINE bool takes_quantized_planes(const quantized_conv_problem& p) {
    return !p.depthwise() && p.ic <= 4 && p.kw <= 8 && p.dw == 1 && p.ic * ((p.ow + 1) * p.sw + 8) <= bfloat16_row;
}

GRAFT_INLINE bool prefers_few_pixels(const quantized_conv_problem& p) noexcept {
    if (!p.bytes || p.tiles || p.groups != 1) return false;
    const image_planes g = detail::planes_of(p);
    const std::int64_t pixels = p.oh * p.ow, neighbours = p.in_place() ? pixels : (p.oh - 1) * g.pitch + p.ow;
    const std::int64_t steps = p.lanes_of_channels() * p.window(), rest = pixels % 10;
    if (p.lanes_of_channels() * (p.in_place() ? pixels : g.planes()) > std::numeric_limits<std::int32_t>::max()) return false;  // of what its list holds
    // Cycles of Zen 4: a product of vectors each, and what becomes of the sums, which takes longer where few pixels are stored lane by lane.
    const std::int64_t tiles = (neighbours + 15) / 16 * ((p.oc + quantized_rows - 1) / quantized_rows), along_pixels = tiles * (8 * steps + 22);
    const std::int64_t runs = (pixels - rest + (rest > 2 ? 10 : 2)) * ((p.oc + 31) / 32), along_channels = runs * (2 * steps + 16);
    return along_channels * 100 < along_pixels * 99;
}

GRAFT_INLINE std::int64_t quantized_conv_workspace(const quantized_conv_problem& p) {
    if (p.tiles) return p.depthwise() ? 0 : detail::pixel_workspace(detail::as_gathered(detail::image_of_codes(p)), p.parts());
    const std::int64_t lists = detail::plane_list_bytes(p, p.parts()) + detail::move_list_bytes(p);
    if (p.depthwise() || p.in_place()) return lists;
    if (!p.bytes) return lists + 4 * detail::quantized_slots(p) * detail::quantized_slot(p);
    // A tile of the last pixels reads beyond the last plane.
    return lists + 4 * (p.lanes_of_channels() * detail::planes_of(p).planes() + quantized_pixels);
}

namespace detail {

inline std::uint8_t flip_of_planes(bool is_signed) { return is_signed ? 0x80 : 0; }

inline void run_quantized_tiles(const code_pixel_kernels& kernel, isa set, const quantized_conv_problem& q, const void* x, const void* packed,
                                const float* scale, const std::int32_t* bias, void* y, const void* residual, void* workspace, executor& pool) {
    const std::int64_t width = vector_width(set);
    const int lift = q.y_signed ? 128 : 0;
    const conv_problem image = image_of_codes(q);
    conv_problem p = as_gathered(image, reads_in_place(kernel, image));
    const code_end end = {scale, bias, q.y_zero + lift, q.low + lift, q.high + lift, flip_of_planes(q.x_signed), q.adds ? &q.sum : nullptr};
    pixel_args a;
    a.codes = &end, a.padding = q.unsigned_zero(), a.parts = q.parts();
    a.weights = static_cast<const std::uint16_t*>(packed);
    a.source_block = p.ih * p.iw * bfloat16_block;
    a.iw = p.iw;
    if (q.planes) {
        a.code_x = static_cast<const std::uint8_t*>(x);
        a.unrolled = q.kw, a.unrolled_step = q.sw, a.unrolled_pad = q.pl;
        a.iw = a.x_row = q.iw, a.x_vector = q.ih * q.iw, a.x_image = q.ic * a.x_vector;
    } else {
        a.narrow_x = static_cast<const std::uint16_t*>(x);
        a.x_vector = p.ih * p.iw * width, a.x_pixel = bfloat16_block, a.x_row = p.iw * bfloat16_block, a.x_image = p.ic * p.ih * p.iw;
    }
    a.code_y = static_cast<std::uint8_t*>(y), a.code_block = p.oh * p.ow * code_pixel;
    a.y_pixel = code_pixel, a.y_row = p.ow * code_pixel, a.y_image = (q.oc + code_pixel - 1) / code_pixel * a.code_block;
    a.code_residual = static_cast<const std::uint8_t*>(residual);
    run_pixels(kernel, p, a, workspace, pool);
}

inline void run_depthwise_pixels(const code_pixel_kernels& kernel, const quantized_conv_problem& p, const void* x, const void* packed, const float* scale,
                                 const std::int32_t* bias, void* y, executor& pool) {
    quantized_conv_args a;
    a.p = p;
    a.weights = static_cast<const std::int32_t*>(packed);
    a.scale = scale;
    a.bias = bias;
    // About 20 us a task.
    const std::int64_t rows = 4096 / (p.ow * p.fours()) + 1, bands = (p.oh + rows - 1) / rows;
    for (std::int64_t image = 0; image < p.n; ++image) {
        a.x = static_cast<const std::uint8_t*>(x) + image * p.blocks() * code_pixel * p.ih * p.iw;
        a.y = static_cast<std::uint8_t*>(y) + image * p.blocks() * code_pixel * p.oh * p.ow;
        parallel_for(pool, p.blocks() * bands, [&](std::int64_t task) {
            const std::int64_t first = task % bands * rows;
            kernel.depthwise(a, task / bands, first, first + rows < p.oh ? first + rows : p.oh);
        });
    }
}

}  // namespace detail

GRAFT_INLINE void run_quantized_conv(isa set, const quantized_conv_problem& p, const void* x, const void* packed, const float* scale, const std::int32_t* bias,
                                     void* y, void* workspace, executor& pool, const void* residual) {
    if (p.tiles && p.depthwise()) return detail::run_depthwise_pixels(*byte_tiles(set), p, x, packed, scale, bias, y, pool);
    if (p.tiles) return detail::run_quantized_tiles(*byte_tiles(set), set, p, x, packed, scale, bias, y, residual, workspace, pool);
    quantized_conv_args a;
    a.p = p;
    a.from = detail::planes_of(p);
    detail::list_taps(p, a.from, workspace, p.parts());
    a.weights = static_cast<const std::int32_t*>(packed);
    a.scale = scale;
    a.bias = bias;
    const auto moves = reinterpret_cast<std::int32_t*>(static_cast<char*>(workspace) + detail::plane_list_bytes(p, p.parts()));
    a.moves = moves;
    a.gathered = moves + detail::move_list_bytes(p) / 4;
    if (p.few) detail::list_moves(a, moves);
    depthwise_tap depthwise_taps[quantized_taps];
    if (p.depthwise())
        for (int t = 0; t < p.kh * p.kw; ++t) {
            const std::int64_t tap = a.from.taps[t], pixel = tap % a.from.plane();
            depthwise_taps[t] = {static_cast<int>(tap / a.from.plane()), static_cast<int>(pixel / a.from.pitch), static_cast<int>(pixel % a.from.pitch)};
        }
    a.tap = depthwise_taps;
    const quantized_kernels& k = *kernels(set).quantized;
    const byte_kernels* const bytes = p.bytes ? byte_products(set) : nullptr;
    const std::int64_t together = bytes ? 4 : 1;
    const auto stored = [&](std::int64_t channels) { return (channels + together - 1) / together * together; };
    const std::int64_t x_image = stored(p.ic) * p.ih * p.iw, y_image = stored(p.oc) * p.oh * p.ow;
    const std::int64_t tiles = detail::tiles_of(p), blocks = p.blocks();
    // About a million products a task, whatever the number of threads.
    const std::int64_t products = p.rows() * quantized_pixels * p.lanes_of_block() * p.channels_a_lane() * (p.winograd ? 16 : p.window());
    a.blocks_a_task = products ? (std::int64_t(1) << 20) / products + 1 : 1;
    a.blocks_a_task = a.blocks_a_task < blocks ? a.blocks_a_task : blocks;
    const auto conv = p.winograd ? k.winograd : p.few ? bytes->conv_few : bytes ? bytes->conv : k.conv;
    for (std::int64_t image = 0; image < p.n; ++image) {
        a.x = static_cast<const std::uint8_t*>(x) + image * x_image;
        a.y = static_cast<std::uint8_t*>(y) + image * y_image;
        if (p.depthwise()) {
            const auto depthwise = bytes ? bytes->depthwise : k.depthwise;
            parallel_for(pool, bytes ? p.lanes(p.oc) : p.oc, [&](std::int64_t channels) { depthwise(a, channels); });
            continue;
        }
        const std::int64_t parts = (blocks + a.blocks_a_task - 1) / a.blocks_a_task;
        if (!bytes) {
            a.slot = detail::quantized_slot(p);
            const std::int64_t slots = detail::quantized_slots(p), lanes = p.lanes_of_channels(), last = p.winograd_tiles_high() * p.winograd_tiles_wide();
            for (std::int64_t first = 0; first < tiles; first += slots) {
                const std::int64_t here = tiles - first < slots ? tiles - first : slots, from = first * quantized_pixels,
                                   count = last - from < here * quantized_pixels ? last - from : here * quantized_pixels;
                if (p.winograd)
                    parallel_for(pool, lanes, [&](std::int64_t lane) { k.gather_winograd(a, lane, from, count); });
                else
                    parallel_for(pool, here, [&](std::int64_t slot) { k.gather_tile(a, first + slot, slot); });
                parallel_for(pool, here * parts, [&](std::int64_t task) { conv(a, first + task % here, task % here, task / here); });
            }
            continue;
        }
        if (p.matrix)
            parallel_for(pool, p.ow, [&](std::int64_t row) { bytes->gather_row(a, row); });
        else if (!p.in_place()) {
            parallel_for(pool, p.lanes_of_channels(), [&](std::int64_t lane) { bytes->gather(a, lane); });
            std::memset(a.gathered + p.lanes_of_channels() * a.from.planes(), 0, quantized_pixels * sizeof(std::int32_t));
        }
        parallel_for(pool, tiles * parts, [&](std::int64_t task) { conv(a, task % tiles, 0, task / tiles); });
    }
}

namespace detail {

// A task takes some pixels of a lane.
template <class Kernel>
inline void for_lanes(std::int64_t n, std::int64_t c, std::int64_t pixels, executor& pool, const Kernel& kernel) {
    constexpr std::int64_t band = 4096;
    const std::int64_t lanes = quantized_conv_problem::lanes(c), bands = (pixels + band - 1) / band;
    parallel_for(pool, n * lanes * bands, [&](std::int64_t task) {
        const std::int64_t first = task % bands * band, lane = task / bands % lanes, image = task / bands / lanes;
        const int channels = static_cast<int>(c - lane * 4 < 4 ? c - lane * 4 : 4);
        kernel((image * c + lane * 4) * pixels + first, (image * lanes + lane) * pixels + first, channels, pixels - first < band ? pixels - first : band);
    });
}
inline std::int32_t flip_of(bool is_signed) { return is_signed ? static_cast<std::int32_t>(0x80808080u) : 0; }

// A task takes some pixels of a block of 64 channels.
template <class Kernel>
inline void for_pixels(bool lanes, std::int32_t flip, void* planes, std::int64_t n, std::int64_t c, std::int64_t count, void* pixels, executor& pool,
                       Kernel kernel) {
    constexpr std::int64_t band = code_pixels_at_once;
    const std::int64_t blocks = (c + code_pixel - 1) / code_pixel, bands = (count + band - 1) / band;
    parallel_for(pool, n * blocks * bands, [&](std::int64_t task) {
        const std::int64_t first = task % bands * band, block = task / bands % blocks, image = task / bands / blocks, left = c - block * code_pixel;
        const std::int64_t stored = lanes ? 4 * quantized_conv_problem::lanes(c) : c;
        const code_image m = {static_cast<std::uint8_t*>(planes) + (image * stored + block * code_pixel) * count,
                              static_cast<std::uint8_t*>(pixels) + (image * blocks + block) * count * code_pixel,
                              count,
                              static_cast<int>(left < code_pixel ? left : code_pixel),
                              flip,
                              lanes};
        kernel(m, first, count - first < band ? count - first : band);
    });
}

}  // namespace detail

GRAFT_INLINE void codes_to_lanes(isa set, bool is_signed, const void* x, std::int64_t n, std::int64_t c, std::int64_t pixels, void* y, executor& pool) {
    const byte_kernels& k = *byte_products(set);
    detail::for_lanes(n, c, pixels, pool, [&](std::int64_t code, std::int64_t lane, int channels, std::int64_t count) {
        k.to_lanes(static_cast<const std::uint8_t*>(x) + code, pixels, channels, detail::flip_of(is_signed), count, static_cast<std::int32_t*>(y) + lane);
    });
}
GRAFT_INLINE void lanes_to_codes(isa set, bool is_signed, const void* x, std::int64_t n, std::int64_t c, std::int64_t pixels, void* y, executor& pool) {
    const byte_kernels& k = *byte_products(set);
    detail::for_lanes(n, c, pixels, pool, [&](std::int64_t code, std::int64_t lane, int channels, std::int64_t count) {
        k.to_planes(static_cast<const std::int32_t*>(x) + lane, pixels, channels, detail::flip_of(is_signed), count, static_cast<std::uint8_t*>(y) + code);
    });
}

GRAFT_INLINE void codes_to_pixels(isa set, bool is_signed, const void* x, std::int64_t n, std::int64_t c, std::int64_t pixels, void* y, executor& pool) {
    detail::for_pixels(false, detail::flip_of(is_signed), const_cast<void*>(x), n, c, pixels, y, pool, byte_tiles(set)->to_pixels);
}
GRAFT_INLINE void pixels_to_codes(isa set, bool is_signed, const void* x, std::int64_t n, std::int64_t c, std::int64_t pixels, void* y, executor& pool) {
    detail::for_pixels(false, detail::flip_of(is_signed), y, n, c, pixels, const_cast<void*>(x), pool, byte_tiles(set)->to_planes);
}
GRAFT_INLINE void lanes_to_pixels(isa set, const void* x, std::int64_t n, std::int64_t c, std::int64_t pixels, void* y, executor& pool) {
    detail::for_pixels(true, 0, const_cast<void*>(x), n, c, pixels, y, pool, byte_tiles(set)->to_pixels);
}
GRAFT_INLINE void pixels_to_lanes(isa set, const void* x, std::int64_t n, std::int64_t c, std::int64_t pixels, void* y, executor& pool) {
    detail::for_pixels(true, 0, y, n, c, pixels, const_cast<void*>(x), pool, byte_tiles(set)->to_planes);
}

GRAFT_INLINE bool takes_max_pool_of_codes(const pool_problem& p) { return (p.ow - 1) * p.sw + std::int64_t(p.kw - 1) * p.dw + 1 <= quantized_row; }
GRAFT_INLINE void run_max_pool_of_codes(isa set, const pool_problem& p, bool is_signed, const void* x, void* y, executor& pool) {
    if (p.l == layout::blocked) {
        const byte_kernels& k = *byte_products(set);
        parallel_for(pool, p.n * quantized_conv_problem::lanes(p.c), [&](std::int64_t lane) {
            k.max_pool(p, static_cast<const std::int32_t*>(x) + lane * p.ih * p.iw, static_cast<std::int32_t*>(y) + lane * p.oh * p.ow);
        });
        return;
    }
    parallel_for(pool, p.n * p.c, [&](std::int64_t plane) {
        kernels(set).quantized->max_pool(p, is_signed, static_cast<const std::uint8_t*>(x) + plane * p.ih * p.iw,
                                         static_cast<std::uint8_t*>(y) + plane * p.oh * p.ow);
    });
}
GRAFT_INLINE void run_max_pool_of_pixels(isa set, const pool_problem& p, const void* x, void* y, executor& pool) {
    const auto kernel = byte_tiles(set)->max_pool;
    parallel_for(pool, p.n * ((p.c + code_pixel - 1) / code_pixel) * p.oh, [&](std::int64_t task) {
        const std::int64_t block = task / p.oh;
        kernel(p, task % p.oh, static_cast<const std::uint8_t*>(x) + block * p.ih * p.iw * code_pixel,
               static_cast<std::uint8_t*>(y) + block * p.oh * p.ow * code_pixel);
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
