// The weights of convolutions of 8-bit images, in the order in which each kernel reads them.
#pragma once

#include "pixels.hpp"
#include "quantized_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Bytes of the packed weights.
std::int64_t packed_quantized_bytes(const quantized_conv_problem& problem);
/// Packs the weights of block `block` of problem.rows() output channels, given as differences from their zero points: [oc of the block][ic / groups]
/// [kh][kw] of int16. `packed` is room for all blocks.
void pack_quantized_rows(const quantized_conv_problem& problem, std::int64_t block, const std::int16_t* weights, void* packed);
/// The bias of a channel as the run wants it: `weights` are the channel's differences, [ic / groups * kh * kw].
std::int32_t quantized_bias(const quantized_conv_problem& problem, const std::int16_t* weights, std::int32_t bias);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// 4 G w G^T of a window of 3 x 3, where G = (1 0 0, 1/2 1/2 1/2, 1/2 -1/2 1/2, 0 0 1): of two channels at once, in the halves of a word.
inline void transform_quantized_weights(const std::int16_t* low, const std::int16_t* high, std::uint32_t (&out)[16]) {
    const auto transform = [](std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t(&to)[4]) {
        to[0] = 2 * a, to[1] = a + b + c, to[2] = a - b + c, to[3] = 2 * c;
    };
    std::uint32_t w[9], rows[3][4];
    for (int t = 0; t < 9; ++t) w[t] = static_cast<std::uint32_t>(std::int32_t(low[t])) + (high ? static_cast<std::uint32_t>(std::int32_t(high[t])) << 16 : 0);
    for (int i = 0; i < 3; ++i) transform(w[3 * i], w[3 * i + 1], w[3 * i + 2], rows[i]);
    for (int j = 0; j < 4; ++j) {
        std::uint32_t column[4];
        transform(rows[0][j], rows[1][j], rows[2][j], column);
        // A negative low half has borrowed from the high one.
        for (int i = 0; i < 4; ++i) out[4 * i + j] = column[i] + ((column[i] & 0x8000u) << 1);
    }
}
// The image as pixels of 32 numbers, each two codes.
inline conv_problem image_of_codes(const quantized_conv_problem& p) {
    conv_problem image;
    image.n = p.n, image.ih = p.ih, image.iw = p.iw, image.oc = p.oc, image.oh = p.oh, image.ow = p.ow;
    image.kh = p.kh, image.kw = p.kw, image.sh = p.sh, image.sw = p.sw, image.dh = p.dh, image.dw = p.dw, image.pt = p.pt, image.pl = p.pl;
    image.ic = p.planes ? p.ic : (p.ic + code_pixel - 1) / code_pixel * bfloat16_block;
    image.in = p.planes ? layout::row_major : layout::blocked;
    return image;
}
// Of a block of rows, as quantized_conv_args has it, with Width channels a lane.
template <int Width, int Rows>
inline void pack_quantized_lanes(const quantized_conv_problem& p, std::int64_t block, const std::int16_t* weights, std::uint32_t* to) {
    constexpr std::int64_t rows = Rows;
    constexpr std::uint32_t mask = Width == 4 ? 0xffu : 0xffffu;
    const std::int64_t taps = std::int64_t(p.kh) * p.kw, window = p.window(), first = block * rows, size = p.lanes_of_block() * window * rows;
    to += block * size;
    // What rows and lanes beyond the channels hold.
    std::memset(to, 0, static_cast<std::size_t>(size) * sizeof(std::uint32_t));
    const auto shifted = [](std::int16_t w, std::int64_t c) { return (static_cast<std::uint32_t>(static_cast<std::int32_t>(w)) & mask) << (32 / Width * c); };
    if (p.grouped()) {
        for (std::int64_t m = 0; m < rows && first + m < p.oc; ++m)
            for (std::int64_t c = 0; c < p.ic / p.groups; ++c)
                for (std::int64_t tap = 0; tap < taps; ++tap, ++weights) {
                    const std::int64_t channel = (first + m) / (p.oc / p.groups) * (p.ic / p.groups) + c, lane = channel / Width - p.first_lane(block);
                    for (int which = 0; which < p.parts(); ++which)
                        to[(lane * window + which * taps + tap) * rows + m] |= shifted(p.wide ? p.part(*weights, which) : *weights, channel % Width);
                }
        return;
    }
    for (std::int64_t m = 0; m < rows && first + m < p.oc; ++m) {
        const std::int16_t* from = weights + m * p.ic * taps;
        std::int64_t lane = 0;
        for (std::int64_t left = p.ic; left > 0; left -= Width, from += Width * taps, ++lane)
            for (std::int64_t tap = 0; tap < taps; ++tap) {
                std::uint32_t* const at = to + (lane * window + tap) * rows + m;
                if (p.wide) {
                    for (int which = 0; which < 2; ++which)
                        for (std::int64_t c = 0; c < Width && c < left; ++c) at[which * taps * rows] |= shifted(p.part(from[c * taps + tap], which), c);
                } else if (left >= Width) {
                    std::uint32_t all = 0;
                    GRAFT_UNROLL
                    for (std::int64_t c = 0; c < Width; ++c) all |= shifted(from[c * taps + tap], c);
                    *at = all;
                } else
                    for (std::int64_t c = 0; c < left; ++c) *at |= shifted(from[c * taps + tap], c);
            }
    }
}
// For tiles: in the order of pixel_args, four channels of a pixel in place of two.
inline void pack_quantized_tiles(const quantized_conv_problem& p, std::int64_t block, const std::int16_t* weights, std::uint8_t* to) {
    constexpr std::int64_t step = 2 * bfloat16_step;
    const conv_problem image = as_gathered(image_of_codes(p));
    const std::int64_t taps = std::int64_t(image.kh) * image.kw, size = blocks_of_32(image.ic) * taps * p.parts() * step,
                       first = block * quantized_rows_of_tiles;
    to += block * size;
    std::memset(to, 0, static_cast<std::size_t>(size));
    const std::int64_t beside = p.planes ? p.kw : 1, all_taps = std::int64_t(p.kh) * p.kw;  // beside: taps that are channels of a pixel
    const auto byte_of = [&](std::int64_t channel, std::int64_t tap) {
        return (channel / code_pixel * taps * p.parts() + tap) * step + channel % code_pixel / 4 * 64 + channel % 4;
    };
    for (std::int64_t m = 0; m < quantized_rows_of_tiles && first + m < p.oc; ++m, weights += p.ic * all_taps) {
        std::uint8_t* const of_row = to + m / 16 * (step / 2) + m % 16 * 4;
        std::int64_t c = 0;
        // Four channels are a word.
        for (; beside == 1 && p.parts() == 1 && c + 4 <= p.ic; c += 4)
            for (std::int64_t t = 0; t < all_taps; ++t) {
                std::uint8_t word[4];
                for (int k = 0; k < 4; ++k) word[k] = static_cast<std::uint8_t>(p.part(weights[(c + k) * all_taps + t], 0));
                std::memcpy(of_row + byte_of(c, t), word, sizeof word);
            }
        for (; c < p.ic; ++c)
            for (std::int64_t t = 0; t < all_taps; ++t) {
                std::uint8_t* const at = of_row + byte_of(c * beside + t % beside, t / beside);
                for (int which = 0; which < p.parts(); ++which) at[which * taps * step] = static_cast<std::uint8_t>(p.part(weights[c * all_taps + t], which));
            }
    }
}
// Four taps of a channel a word: word(i) is the one of four i. Returns the next channel's weights.
template <class Word>
inline const std::int16_t* pack_fours(const quantized_conv_problem& p, const std::int16_t* weights, const Word& word) {
    for (int t = 0; t < p.kh * p.kw; ++t, ++weights) {
        const int slot = p.slot_of_tap(t);
        for (int which = 0; which < p.parts(); ++which)
            word(slot / 4 + which * p.fours_of_taps()) |= (static_cast<std::uint32_t>(p.part(*weights, which)) & 0xffu) << (8 * (slot % 4));
    }
    return weights;
}
// Of 64 channels of a depthwise convolution.
inline void pack_depthwise_pixels(const quantized_conv_problem& p, std::int64_t block, const std::int16_t* weights, std::uint32_t* to) {
    const std::int64_t size = std::int64_t(p.fours()) * code_pixel, first = block * code_pixel;
    to += block * size;
    std::memset(to, 0, static_cast<std::size_t>(size) * sizeof *to);
    for (int m = 0; m < code_pixel && first + m < p.oc; ++m)
        weights = pack_fours(p, weights, [&](int four) -> std::uint32_t& { return to[four * code_pixel + word_of_channel(m)]; });
}
// Of the same, [16][lanes][8]: two channels a lane.
inline void pack_quantized_winograd(const quantized_conv_problem& p, std::int64_t block, const std::int16_t* weights, std::uint32_t* to) {
    const std::int64_t lanes = p.lanes_of_channels(), first = block * quantized_rows;
    to += block * 16 * lanes * quantized_rows;
    for (std::int64_t lane = 0; lane < lanes; ++lane)
        for (std::int64_t m = 0; m < quantized_rows; ++m) {
            std::uint32_t made[16] = {};
            const std::int16_t* const w = weights + (m * p.ic + 2 * lane) * 9;
            if (first + m < p.oc) transform_quantized_weights(w, 2 * lane + 1 < p.ic ? w + 9 : nullptr, made);
            for (int e = 0; e < 16; ++e) to[(e * lanes + lane) * quantized_rows + m] = made[e];
        }
}
}  // namespace detail

GRAFT_INLINE std::int64_t packed_quantized_bytes(const quantized_conv_problem& p) {
    const std::int64_t taps = std::int64_t(p.kh) * p.kw;
    if (p.tiles && !p.depthwise()) {
        const conv_problem image = detail::as_gathered(detail::image_of_codes(p));
        return 2 * bfloat16_step * p.blocks() * detail::blocks_of_32(image.ic) * image.kh * image.kw * p.parts();
    }
    if (p.tiles) return 4 * p.blocks() * p.fours() * code_pixel;
    if (p.depthwise()) return p.bytes ? 16 * p.lanes(p.oc) * p.fours() : 4 * p.oc * ((taps + 1) / 2);
    if (p.winograd) return 4 * ((p.oc + quantized_rows - 1) / quantized_rows) * quantized_rows * p.lanes_of_channels() * 16;
    return 4 * p.blocks() * p.rows() * p.lanes_of_block() * p.window();
}

GRAFT_INLINE void pack_quantized_rows(const quantized_conv_problem& p, std::int64_t block, const std::int16_t* weights, void* packed) {
    std::uint32_t* to = static_cast<std::uint32_t*>(packed);
    if (p.winograd) return detail::pack_quantized_winograd(p, block, weights, to);
    if (p.tiles)
        return p.depthwise() ? detail::pack_depthwise_pixels(p, block, weights, to)
                             : detail::pack_quantized_tiles(p, block, weights, static_cast<std::uint8_t*>(packed));
    if (!p.depthwise())
        return (p.few     ? detail::pack_quantized_lanes<4, quantized_rows_of_tiles>
                : p.bytes ? detail::pack_quantized_lanes<4, quantized_rows>
                          : detail::pack_quantized_lanes<2, quantized_rows>)(p, block, weights, to);
    const std::int64_t taps = std::int64_t(p.kh) * p.kw, first = block * quantized_rows, rows = p.oc - first < quantized_rows ? p.oc - first : quantized_rows;
    if (p.bytes) {
        // The channels of a lane beside each other.
        const std::int64_t groups = p.fours(), lanes = p.lanes(rows);
        to += first * groups;
        std::memset(to, 0, static_cast<std::size_t>(lanes * groups) * 16);
        for (std::int64_t m = 0; m < rows; ++m)
            weights = detail::pack_fours(p, weights, [&](int four) -> std::uint32_t& { return to[(m / 4 * groups + four) * 4 + m % 4]; });
        return;
    }
    // Two taps a word, the last with none beside it where their number is odd.
    std::int16_t* at = static_cast<std::int16_t*>(packed) + first * ((taps + 1) / 2 * 2);
    for (std::int64_t m = 0; m < rows; ++m) {
        for (std::int64_t t = 0; t < taps; ++t) *at++ = *weights++;
        if (taps % 2 != 0) *at++ = 0;
    }
}

GRAFT_INLINE std::int32_t quantized_bias(const quantized_conv_problem& p, const std::int16_t* weights, std::int32_t bias) {
    if (!p.unsigned_pixels()) return bias;
    constexpr std::int64_t together = 32;  // compilers make vectors of as many
    const std::int64_t n = p.products();
    std::int64_t sum = 0, i = 0;
    for (; i + together <= n; i += together) {
        std::int32_t some = 0;
        for (std::int64_t j = 0; j < together; ++j) some += weights[i + j];
        sum += some;
    }
    for (; i < n; ++i) sum += weights[i];
    return static_cast<std::int32_t>(bias - sum * (p.unsigned_zero() - (p.signed_pixels ? 128 : 0)));
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
