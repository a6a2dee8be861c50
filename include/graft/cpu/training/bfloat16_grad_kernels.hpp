// Gradients of weights in bfloat16 as kernels see them: one run's arguments, and the table that tiles and vectors fill.
#pragma once

#include "../../core/shards.hpp"
#include "../bfloat16_kernels.hpp"
#include "../conv_kernels.hpp"
#include "saved_kernels.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// x as tiles read it, pixels side by side: [planes][channels of a band][row]. A plane is the padded image, or, where windows take steps, what lies at one
/// remainder of them; so each tap of a channel is a row of neighbouring pixels, which begins where the tap does. No planes: each tap is gathered by itself.
struct turned_planes {
    std::int64_t count = 0, row = 0, halo = 0;                              // numbers of a row: of the pixels that are gathered at once, and `halo` of the next
    std::int64_t down[bfloat16_most_taps], right[bfloat16_most_taps];       // of a plane: where its first pixel lies in the padded image
    std::int64_t plane_of[bfloat16_most_taps], behind[bfloat16_most_taps];  // of a tap: its plane, and how many pixels further on it lies there
};

/// One run of sums over all pixels of a batch: of x at a row, which is an input channel and a tap, times dy at an output channel. Both are rounded to bfloat16,
/// and 32 pixels at a time multiplied, as the 32 channels of a pixel are in a convolution: rows are what pixels are there, dy is the weights. The rows are cut
/// into bands, the output channels into groups, the shards of the batch into parts; a band of a group is a chunk, and a task is a chunk of a part. A matrix is
/// an image of one row, whose channels are its columns. Distances count elements; `vector` is that from a vector of channels to the next.
struct bfloat16_grad_args {
    conv_problem p;  // of the forward convolution
    saved_activation x, dy;
    std::int64_t x_image = 0, x_row = 0, x_pixel = 0, x_vector = 0, dy_image = 0, dy_pixel = 0, dy_vector = 0;
    bool whole_vectors = false;              // x and dy have room for lanes past the last channel
    std::int64_t pitch = 1, image_rows = 1;  // how pixels are counted: dy's, and what lies between its rows and behind them where x lies in planes
    graft::shards shards;
    std::int64_t shard_block[graft::shards::most + 1] = {};  // blocks of 32 pixels before each shard; those of a shard begin anew, the last filled up by zeros
    std::uint16_t* packed = nullptr;                         // null, or dy: [blocks of output channels][blocks of pixels][bfloat16_step]
    std::int64_t out_blocks = 0, parts = 1, levels = 1;
    std::int64_t lanes = 0, bands = 1;         // input channels of a band
    std::int64_t lane_step = 1;                // of which so many are rows together, as many as there are taps
    std::int64_t group_blocks = 0;             // blocks of output channels of a group
    std::int64_t chunks = 1, first_chunk = 0;  // chunk i is band i % bands of group i / bands
    std::int64_t rows = 0;                     // of a band, with room for a whole tile
    std::int64_t blocks_at_once = 1;           // of pixels that a task gathers
    std::uint16_t* gathered = nullptr;         // of each task: x, and, where dy is not packed before, room for that
    float* sums = nullptr;                     // of each task: [levels][blocks of output channels of a group][rows][32]
    turned_planes turned;
    float* out = nullptr;
    std::int64_t out_row = 0, out_column = 0;  // floats from one row to the next, and from one output channel to the next: one of them is 1

    std::int64_t blocks() const noexcept { return shard_block[shards.count]; }
    std::int64_t columns() const noexcept { return group_blocks * bfloat16_block; }
    std::int64_t level_floats() const noexcept { return rows * columns(); }
    // Of x: 32 pixels of [blocks at once][rows], or planes.
    std::int64_t gathered_numbers() const noexcept { return turned.count ? turned.count * lanes * turned.row : blocks_at_once * rows * bfloat16_block; }
    // What few bands read is packed by their own tasks, and need not go through memory.
    bool packs_before() const noexcept { return bands > 2; }
    std::int64_t task_numbers() const noexcept { return gathered_numbers() + (packs_before() ? 0 : blocks_at_once * bfloat16_step); }
};

/// `pack` brings dy of a shard and 32 output channels into the order of weights; `sum` is a task of a chunk and a part, `end` adds up a chunk's parts and
/// writes them out.
struct bfloat16_grad_kernels {
    void (*pack)(const bfloat16_grad_args&, std::int64_t out_block, int shard);
    void (*sum)(const bfloat16_grad_args&, std::int64_t chunk, std::int64_t part);
    void (*end)(const bfloat16_grad_args&, std::int64_t chunk);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
