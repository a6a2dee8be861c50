// Sums of products over pixels of 64 bytes as kernels see them: one run's arguments, and the table that tiles and vectors fill.
#pragma once

#include "../graph/activation.hpp"
#include "planes.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

constexpr int bfloat16_block = 32;  ///< channels that a pixel's 64 bytes hold; output channels and pixels of a step are as many
/// Numbers of a step's weights. For tiles: [2 halves of the output channels][16 pairs of channels][16 output channels][2 channels]; for vectors, which read
/// them in one stream: [16 pairs][32 output channels][2].
constexpr int bfloat16_step = bfloat16_block * bfloat16_block;
/// Pairs of channels that the last block of some channels has.
constexpr int pairs_of_last_block(std::int64_t channels) { return static_cast<int>(((channels - 1) % bfloat16_block + 2) / 2); }
constexpr int bfloat16_most_taps = 256;  ///< of a window
constexpr int bfloat16_row = 16384;      ///< numbers at most that a row of outputs reads of all planes, where those are unrolled

struct quantized_sum_problem;
/// How sums of products of bytes become codes: low and the like are unsigned ones.
struct code_end {
    const float* scale;        // [out_channels]
    const std::int32_t* bias;  // [out_channels]
    int zero, low, high;
    std::uint8_t flip;                 // of the codes of planes that are signed
    const quantized_sum_problem* sum;  // null, or what is added to them: codes in lanes
};

/// One run of a sum of products over taps and channels, as its tasks read it. Pixels are float32, and rounded to bfloat16 as they are gathered; a matrix
/// is a row of pixels whose channels are its columns. Distances count floats; `vector` is that from a vector of channels to the next. Where a `narrow` pointer
/// takes the place of another, they count numbers of bfloat16, and a pixel's 32 channels lie side by side.
struct pixel_args {
    std::int64_t channels = 0, out_channels = 0, steps = 0;  // steps: blocks of channels by taps
    int last_pairs = bfloat16_block / 2;                     // of channels, in the last block: those behind them are zeros that vectors leave out
    int parts = 1;                                           // of each weight: a tap's pixels are multiplied by as many, and taps are counted as often
    int taps = 1, sh = 1, sw = 1, pt = 0, pl = 0;
    std::int64_t ih = 1, iw = 1, oh = 1, ow = 1;  // of one image
    std::int64_t first_row = 0;                   // of the outputs that are computed
    image_planes from;                            // of the images that are gathered together, one below the other; `image_rows` of each
    std::int64_t image_rows = 0;
    std::int64_t pixels = 0;  // neighbouring ones that are computed, outputs and what lies between their rows

    const float* x = nullptr;
    const std::uint16_t* narrow_x = nullptr;
    std::int64_t x_image = 0, x_row = 0, x_pixel = 0, x_vector = 0;
    // Where it is not 0, x lies in planes, `x_vector` apart: what a row of so many taps reads of each, [plane][tap], are the channels of a pixel.
    int unrolled = 0, unrolled_step = 1, unrolled_dilation = 1, unrolled_pad = 0;
    std::uint16_t* gathered = nullptr;                             // [blocks of channels][planes][32]
    std::int64_t block_pixels = 0;                                 // of it
    const std::uint16_t* source = nullptr;                         // what is multiplied: that, or narrow_x where it lies, 32 pixels or more
    std::int64_t source_pixel = bfloat16_block, source_block = 0;  // of it, from a pixel and from a block to the next
    const std::uint16_t* weights = nullptr;                        // [blocks of output channels][steps][bfloat16_step]
    const float* bias = nullptr;                                   // null, or [out_channels]

    float* y = nullptr;
    const float* residual = nullptr;  // null, or as y
    std::uint16_t* narrow_y = nullptr;
    const std::uint16_t* narrow_residual = nullptr;  // of narrow_y
    std::int64_t y_image = 0, y_row = 0, y_pixel = 0, y_vector = 0;
    std::int64_t residual_pixel = 0;  // where it is a matrix; else that of y
    bool whole_vectors = false;       // y has room for lanes past out_channels
    epilogue ep;

    // Where it is not null, pixels are 64 codes, of which narrow pointers and distances count two as one; sums are integers, and become codes.
    const code_end* codes = nullptr;
    const std::uint8_t* code_x = nullptr;  // planes
    std::uint8_t* code_y = nullptr;
    const std::uint8_t* code_residual = nullptr;  // null, or as code_y: where there is a sum
    std::int64_t code_block = 0;                  // bytes from a block of 64 output channels to the next
    int padding = 0;                              // the byte that stands round an image
};

/// Tasks: `gather` (of planes: `gather_planes`) takes some neighbouring pixels of one block's planes, `multiply` some runs of 32 pixels by some blocks of
/// output channels.
struct pixel_kernels {
    void (*gather)(const pixel_args&, std::int64_t block, std::int64_t first, std::int64_t last);
    void (*gather_planes)(const pixel_args&, std::int64_t block, std::int64_t first, std::int64_t last);
    void (*multiply)(const pixel_args&, std::int64_t block, std::int64_t blocks, std::int64_t first, std::int64_t last);
    bool tiles;         // else vectors
    int steps_at_once;  // of 32 pixels, that make a task
    int end_steps;      // what follows the last step of 32 pixels takes as long as so many
};

}  // namespace cpu
GRAFT_END_NAMESPACE
