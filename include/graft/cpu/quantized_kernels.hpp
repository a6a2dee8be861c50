// Arithmetic on 8-bit images as kernels see it: the problems, one run's arguments, and the table that each instruction set fills.
#pragma once

#include "../core/wanted.hpp"
#include "bfloat16_kernels.hpp"
#include "kernel_table.hpp"
#include "planes.hpp"
#include "pool_kernels.hpp"

#include <cstdint>
#include <initializer_list>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Whether this program has convolutions of 8-bit images: QLinearConv, or what pairs round Conv are made of; sums of them; and
/// the largest of windows.
constexpr bool quantized_pairs_wanted() noexcept { return wanted("QuantizeLinear") && wanted("DequantizeLinear"); }
constexpr bool quantized_conv_wanted() noexcept { return wanted("QLinearConv") || (quantized_pairs_wanted() && wanted("Conv")); }
constexpr bool quantized_sum_wanted() noexcept { return quantized_pairs_wanted() && wanted("Add"); }
constexpr bool quantized_product_wanted() noexcept { return quantized_pairs_wanted() && wanted("Mul"); }
constexpr bool quantized_mean_wanted() noexcept { return quantized_pairs_wanted() && (wanted("GlobalAveragePool") || wanted("ReduceMean")); }
constexpr bool quantized_max_pool_wanted() noexcept { return quantized_pairs_wanted() && wanted("MaxPool"); }

/// Codes as images in lanes and pixels hold them: signed ones stand 128 higher, as unsigned.
inline void be_unsigned(bool& is_signed, std::initializer_list<int*> codes) noexcept {
    for (int* code : codes) *code += is_signed ? 128 : 0;
    is_signed = false;
}

/// A code in each byte of a lane.
constexpr std::int32_t in_all_bytes(int code) noexcept { return static_cast<std::int32_t>(static_cast<std::uint32_t>(code) * 0x01010101u); }

/// A sum of two 8-bit tensors of equal shapes: y = clamp(rint(((a - a_zero) * a_scale + (b - b_zero) * b_scale) / y_scale) + y_zero, low, high).
struct quantized_sum_problem {
    bool a_signed = false, b_signed = false, y_signed = false;
    int a_zero = 0, b_zero = 0, y_zero = 0, low = 0, high = 255;
    float a_scale = 1, b_scale = 1, y_scale = 1;
    bool lanes = false;  ///< of images in lanes of four channels, all of whose codes are unsigned

    /// With its operands changed round.
    quantized_sum_problem turned() const noexcept {
        quantized_sum_problem p = *this;
        p.a_signed = b_signed, p.a_zero = b_zero, p.a_scale = b_scale;
        p.b_signed = a_signed, p.b_zero = a_zero, p.b_scale = a_scale;
        return p;
    }
    /// Of the same codes as images in lanes hold them: all are unsigned.
    quantized_sum_problem in_lanes() const noexcept {
        quantized_sum_problem p = *this;
        p.lanes = true;
        be_unsigned(p.a_signed, {&p.a_zero}), be_unsigned(p.b_signed, {&p.b_zero}), be_unsigned(p.y_signed, {&p.y_zero, &p.low, &p.high});
        return p;
    }
    /// Whether all quotients by y_scale are far inside of int32.
    bool fits_int32() const noexcept { return (a_scale + b_scale) * 255 < y_scale * 1e9f; }
};

/// A product of two 8-bit tensors: y = clamp(rint((a - a_zero) * (b - b_zero) * scale) + y_zero, low, high), where scale is a's by b's over y's.
struct quantized_product_problem {
    bool a_signed = false, b_signed = false, y_signed = false;
    int a_zero = 0, b_zero = 0, y_zero = 0, low = 0, high = 255;
    float scale = 1;
    bool of_channels = false;  ///< b has one code a channel

    /// The same of codes in lanes or pixels, all of which are unsigned.
    quantized_product_problem in_lanes() const noexcept {
        quantized_product_problem p = *this;
        be_unsigned(p.a_signed, {&p.a_zero}), be_unsigned(p.b_signed, {&p.b_zero}), be_unsigned(p.y_signed, {&p.y_zero, &p.low, &p.high});
        return p;
    }
};

/// The mean of each channel of an 8-bit image: y = clamp(rint((mean - x_zero) * x_scale / y_scale) + y_zero, low, high).
struct quantized_mean_problem {
    bool x_signed = false, y_signed = false;
    int x_zero = 0, y_zero = 0, low = 0, high = 255;
    float x_scale = 1, y_scale = 1;

    quantized_mean_problem in_lanes() const noexcept {
        quantized_mean_problem p = *this;
        be_unsigned(p.x_signed, {&p.x_zero}), be_unsigned(p.y_signed, {&p.y_zero, &p.low, &p.high});
        return p;
    }
};

/// Codes of an image as means and products by channel read them: `groups` of channels an image, each of `pixels` times `together` codes. In planes a channel is
/// a group, in lanes four are, in pixels 64.
struct code_groups {
    std::int64_t images = 1, groups = 1, pixels = 1;
    int together = 1;

    std::int64_t codes() const noexcept { return pixels * together; }
};
constexpr int code_columns = 64;  ///< codes that are read at once; groups repeat within

/// A two-dimensional convolution of 8-bit images, row-major, whose sums are requantised: y = clamp(rint(sum * scale) + y_zero, low, high), the sum
/// of (x - x_zero) * w over the window plus the bias, in int32. `groups` divides ic and oc.
struct quantized_conv_problem {
    std::int64_t n = 1, ic = 1, ih = 1, iw = 1, oc = 1, oh = 1, ow = 1;
    int groups = 1, kh = 1, kw = 1, sh = 1, sw = 1, dh = 1, dw = 1, pt = 0, pl = 0;
    bool x_signed = false, y_signed = false;
    int x_zero = 0, y_zero = 0, low = 0, high = 255;
    bool bytes = false;          ///< four 8-bit products a sum, of images in lanes of four channels; else two of 16 bits, of planes. The integers are the same
    bool tiles = false;          ///< of bytes: by the machine's tiles, of images in pixels of 64 channels. The integers are the same
    bool planes = false;         ///< of tiles: x is planes, row-major codes
    bool signed_pixels = false;  ///< of bytes in lanes: the machine multiplies pixels as signed ones, 128 less than they are. The integers are the same
    bool wide = false;           ///< of bytes: weights are the sum of two, multiplied one behind the other. The integers are the same
    bool few = false;            ///< of bytes: vectors of output channels, not of neighbouring pixels, of which there are few. The integers are the same
    bool matrix = false;         ///< of few: x is a matrix [ow][ic] and y [ow][oc], row-major codes; the window is one tap
    bool winograd = false;       ///< by F(2 x 2, 3 x 3), with products of 16 bits. The integers are the same
    bool adds = false;           ///< of tiles: what is stored are the codes of `sum`, whose `a` the convolution's are and whose `b` lie as y does
    quantized_sum_problem sum;

    bool depthwise() const noexcept { return groups != 1 && groups == ic && groups == oc; }
    /// Groups of several channels, or with several outputs of one.
    bool grouped() const noexcept { return groups != 1 && !depthwise(); }
    /// Whether pixels are multiplied as unsigned numbers: their zero point is the bias's to take back.
    bool unsigned_pixels() const noexcept { return bytes || depthwise(); }
    /// Whether neighbours are read where they lie: one tap, no border, no steps.
    bool in_place() const noexcept {
        return bytes && !tiles && !matrix && !depthwise() && kh * kw == 1 && sh == 1 && sw == 1 && pt == 0 && pl == 0 && oh == ih && ow == iw;
    }
    /// The zero point of x as an unsigned byte.
    int unsigned_zero() const noexcept { return x_zero + (x_signed ? 128 : 0); }
    /// Channels that one 32-bit lane holds.
    int channels_a_lane() const noexcept { return bytes ? 4 : 2; }
    std::int64_t lanes_of_channels() const noexcept { return (ic + channels_a_lane() - 1) / channels_a_lane(); }
    /// Output channels that are computed together.
    int rows() const noexcept;
    std::int64_t blocks() const noexcept { return (oc + rows() - 1) / rows(); }
    /// Lanes of channels that a block of output channels reads, which are neighbours, and the first of them: where there are groups, those of the groups that
    /// it has outputs of. Weights from channels of other groups are zeros.
    std::int64_t lanes_of_block() const noexcept;
    std::int64_t first_lane(std::int64_t block) const noexcept;
    /// Products of a sum.
    std::int64_t products() const noexcept { return ic / groups * kh * kw; }
    /// Tiles of 2 x 2 outputs.
    std::int64_t winograd_tiles_high() const noexcept { return (oh + 1) / 2; }
    std::int64_t winograd_tiles_wide() const noexcept { return (ow + 1) / 2; }
    /// Where tap t of a depthwise window of bytes stands among the four that are multiplied at once, and how many fours there are: rows of three are one each.
    int slot_of_tap(int t) const noexcept { return kw == 3 ? t / 3 * 4 + t % 3 : t; }
    int fours_of_taps() const noexcept { return kw == 3 ? kh : (kh * kw + 3) / 4; }
    /// Bytes that a weight is the sum of, and products of a window, or its fours, that they make: those of the second byte stand behind those of the first.
    int parts() const noexcept { return wide ? 2 : 1; }
    int window() const noexcept { return kh * kw * parts(); }
    int fours() const noexcept { return fours_of_taps() * parts(); }
    static constexpr std::int16_t part(std::int16_t weight, int which) noexcept {
        const std::int16_t first = weight < -128 ? std::int16_t(-128) : weight > 127 ? std::int16_t(127) : weight;
        return which == 0 ? first : static_cast<std::int16_t>(weight - first);
    }
    /// Lanes of four channels that an image of so many has in memory.
    static constexpr std::int64_t lanes(std::int64_t channels) noexcept { return (channels + 3) / 4; }
};

constexpr int quantized_rows = 8;                 ///< output channels of a tile of sums
constexpr int quantized_rows_of_tiles = 32;       ///< the same by the machine's tiles, and of few pixels
constexpr int code_pixel = 64;                    ///< channels, and bytes, of a pixel as tiles read it
constexpr int code_pixels_at_once = 256;          ///< that are moved between planes and pixels
constexpr int quantized_taps = 256;               ///< at most, of a window
constexpr int quantized_pixels = 48;              ///< pixels of a tile, which are neighbours in the padded image
constexpr int quantized_winograd_width = 512;     ///< of an image, at most, where the convolution is Winograd's
constexpr int quantized_row = 4096;               ///< pixels at most that the windows of a row of pooling cover
constexpr int quantized_depthwise_pixels = 8192;  ///< of a channel's image that a depthwise task holds at a time

constexpr int quantized_pixels_of_few = 50;  ///< of a task where vectors are of output channels, ten at a time

inline int quantized_conv_problem::rows() const noexcept { return tiles && depthwise() ? code_pixel : tiles || few ? quantized_rows_of_tiles : quantized_rows; }
inline std::int64_t quantized_conv_problem::lanes_of_block() const noexcept {
    const std::int64_t all = lanes_of_channels(), beside = channels_a_lane(), inputs = ic / groups, outputs = oc / groups, r = rows();
    if (!grouped()) return all;
    // A block touches one group, some whole ones, or parts of the first and of the last; its channels begin with a lane, or within one.
    const std::int64_t touched = outputs % r == 0 ? 1 : r % outputs == 0 ? r / outputs : (r + outputs - 2) / outputs + 1, channels = touched * inputs;
    const bool whole = (outputs % r != 0 && r % outputs == 0 ? channels : inputs) % beside == 0;
    const std::int64_t lanes = (channels + beside - 1 + (whole ? 0 : beside - 1)) / beside;
    return lanes < all ? lanes : all;
}
inline std::int64_t quantized_conv_problem::first_lane(std::int64_t block) const noexcept {
    if (!grouped()) return 0;
    const std::int64_t first = block * rows() / (oc / groups) * (ic / groups) / channels_a_lane(), last = lanes_of_channels() - lanes_of_block();
    return first < last ? first : last;
}
/// Where the weights of a pixel's channel stand, four taps a word: of each sixteen channels the first four are beside those of the other sixteens.
constexpr int word_of_channel(int channel) { return channel % 16 / 4 * 16 + channel / 16 * 4 + channel % 4; }

/// Numbers of a row of the image that a depthwise task makes: the first pixel that is none of padding is to stand at a multiple of the lead.
constexpr int depthwise_lead = 16;
inline std::int64_t depthwise_pitch(const image_planes& g) { return (g.pitch + 2 * depthwise_lead - 2) / depthwise_lead * depthwise_lead; }

/// Where the pixel for a tap lies, where the first output's is asked for.
struct depthwise_tap {
    int plane, row, column;
};

/// One run of a convolution, as its tasks read it: one image.
struct quantized_conv_args {
    quantized_conv_problem p;
    image_planes from;
    const std::uint8_t* x = nullptr;
    std::uint8_t* y = nullptr;
    const std::int32_t* weights = nullptr;  // [oc / 8][lanes of a block][taps][8], Winograd's [oc / 8][16][lanes][8], for tiles those of pixel_args, of few
                                            // pixels [oc / 32][lanes][taps][32]; depthwise: [oc][taps / 2], of bytes [oc / 4][fours of taps][4], of tiles [oc /
                                            // 64][fours of taps][64 words of channels]
    const float* scale = nullptr;           // [oc]
    const std::int32_t* bias = nullptr;     // [oc]
    std::int32_t* gathered =
        nullptr;  // of bytes [lanes][planes], of a matrix [rows][lanes], else [slots][lanes][taps][48 pixels]; Winograd's [slots][16][lanes][48 tiles]
    std::int64_t slot = 0;                // numbers of a slot
    std::int64_t blocks_a_task = 1;       // of output channels
    const depthwise_tap* tap = nullptr;   // [taps], where it is depthwise
    const std::int32_t* moves = nullptr;  // of few pixels [lanes][taps]: from a pixel's first lane to that of a tap

    /// From a lane of channels to the next, of an image in lanes.
    std::int64_t lane_step() const noexcept { return p.in_place() ? p.ih * p.iw : p.matrix ? 1 : from.planes(); }
};

/// Tasks: `gather_winograd` takes one lane of channels of some tiles, `gather_tile` the tile of pixels for a slot of the memory, `conv` and `winograd` a tile,
/// its slot, and a part of the blocks of channels, `depthwise` a channel; `max_pool` takes one plane. `product_by_channel`: 16
/// codes of a every `pitch`, each by the same 16 of b. `column_sums`: of every code_columns-th code.
struct quantized_kernels {
    void (*gather_tile)(const quantized_conv_args&, std::int64_t tile, std::int64_t slot);
    void (*gather_winograd)(const quantized_conv_args&, std::int64_t lane, std::int64_t first, std::int64_t count);
    void (*conv)(const quantized_conv_args&, std::int64_t tile, std::int64_t slot, std::int64_t part);
    void (*winograd)(const quantized_conv_args&, std::int64_t tile, std::int64_t slot, std::int64_t part);
    void (*depthwise)(const quantized_conv_args&, std::int64_t channel);
    void (*sum)(const quantized_sum_problem&, const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* y, std::int64_t n);
    void (*max_pool)(const pool_problem&, bool is_signed, const std::uint8_t* x, std::uint8_t* y);
    byte_lookup look_up;
    void (*product)(const quantized_product_problem&, const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* y, std::int64_t n);
    void (*product_by_channel)(const quantized_product_problem&, const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* y, std::int64_t n,
                               std::int64_t pitch);
    void (*column_sums)(bool is_signed, const std::uint8_t* x, std::int64_t n, std::int32_t* sums);
};

/// Kernels of images in lanes of four channels, [ceil(c / 4)][pixels][4], as unsigned numbers: codes that are signed stand 128 higher. Lanes past c hold
/// anything. Tasks: `to_lanes` and `to_planes` take `count` pixels of up to four planes, `gather` one lane of channels, `gather_row` a row of a matrix, `conv`
/// and `conv_few` a tile of pixels and a part of the blocks of channels (they have no slots), `depthwise` a lane, and so does `max_pool`; `sum` some lanes,
/// where `fits_int32()`.
struct byte_kernels {
    void (*to_lanes)(const std::uint8_t* x, std::int64_t plane, int channels, std::int32_t flip, std::int64_t count, std::int32_t* y);
    void (*to_planes)(const std::int32_t* x, std::int64_t plane, int channels, std::int32_t flip, std::int64_t count, std::uint8_t* y);
    void (*gather)(const quantized_conv_args&, std::int64_t lane);
    void (*gather_row)(const quantized_conv_args&, std::int64_t row);
    void (*conv)(const quantized_conv_args&, std::int64_t tile, std::int64_t slot, std::int64_t part);
    void (*conv_few)(const quantized_conv_args&, std::int64_t tile, std::int64_t slot, std::int64_t part);
    void (*depthwise)(const quantized_conv_args&, std::int64_t lane);
    void (*sum)(const quantized_sum_problem&, const std::int32_t* a, const std::int32_t* b, std::int32_t* y, std::int64_t count);
    void (*max_pool)(const pool_problem&, const std::int32_t* x, std::int32_t* y);
};

/// Codes of some channels, of one block, in planes (or lanes of four channels) and in pixels.
struct code_image {
    std::uint8_t *planes, *pixels;
    std::int64_t plane;  // codes of one
    int channels;
    std::int32_t flip;
    bool lanes;
};
/// Kernels of images in pixels of 64 channels, [ceil(c / 64)][pixels][64], as unsigned numbers; lanes past c hold anything. `to_pixels` and `to_planes` take up
/// to code_pixels_at_once pixels from `first` on, `depthwise` some rows of a block, `max_pool` one row of it.
struct code_pixel_kernels : pixel_kernels {
    void (*to_pixels)(const code_image&, std::int64_t first, std::int64_t count);
    void (*to_planes)(const code_image&, std::int64_t first, std::int64_t count);
    void (*depthwise)(const quantized_conv_args&, std::int64_t block, std::int64_t first, std::int64_t last);
    void (*max_pool)(const pool_problem&, std::int64_t row, const std::uint8_t* x, std::uint8_t* y);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
