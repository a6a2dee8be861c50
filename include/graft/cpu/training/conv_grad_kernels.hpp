// Gradients of convolution as kernels see them: one run's arguments, and the table that each instruction set fills.
#pragma once

#include "../../config.hpp"
#include "../../core/shards.hpp"
#include "../conv_kernels.hpp"
#include "saved_kernels.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// One run of a gradient with respect to weights, as its tasks read it. The weights are cut into tiles: some vectors of output
/// channels by some input channels, all taps. A tile's partial sums are rows, (input channel, tap), of output channels; where the
/// bias is wanted its row comes last. The shards of the batch are cut into `parts`, each of which has `levels` buffers of a tile.
struct conv_grad_weight_args {
    conv_problem p;      // of the forward convolution; a pointwise one comes as one long row
    saved_activation x;  // narrow of depthwise ones alone
    const float* dy = nullptr;
    float* dw = nullptr;
    float* db = nullptr;  // may be null
    float* workspace = nullptr;
    std::int64_t icg = 0, ocg = 0;       // channels of one group
    int vectors = 1;                     // vectors of output channels of a tile; the last tile may have fewer
    std::int64_t lanes = 1, chunks = 1;  // input channels of a tile, and how many tiles of them there are
    graft::shards shards;
    std::int64_t parts = 1, levels = 1, tile_floats = 0, first_tile = 0;
    std::int64_t strip_images = 1, strip_rows = 1, strip_columns = 1;  // what stays in the first cache for all rows of the tile
};

/// How one shard's tiles of Winograd's are cut into strips that are summed in registers: `count` (one, of nothing, where there are none)
/// of `length` tiles, the last perhaps shorter, from tile `first` of the batch on.
struct conv_grad_strips {
    static constexpr std::int64_t most = 64;
    std::int64_t first = 0, tiles = 0, count = 1, length = 0;
    std::int64_t place = 0, index = 0;  // room and strips of the shards before
    std::int64_t slot = 0;              // where the shard's sums lie, unless it has no tiles
    // Tiles that one strip's transforms have room for: an odd number, so that elements do not fall into one cache set.
    std::int64_t room() const { return length | 1; }
    std::int64_t place_of(std::int64_t strip) const { return place + strip * room(); }
    std::int64_t length_of(std::int64_t strip) const { return strip + 1 < count ? length : tiles - (count - 1) * length; }
};
inline conv_grad_strips conv_grad_strips_of(const graft::shards& cut, std::int64_t n, std::int64_t per_image, int shard) {
    conv_grad_strips s;
    s.first = cut.first(n, shard) * per_image;
    s.tiles = cut.last(n, shard) * per_image - s.first;
    s.count = s.tiles > 0 ? (s.tiles + conv_grad_strips::most - 1) / conv_grad_strips::most : 1;
    s.length = (s.tiles + s.count - 1) / s.count;
    s.count = s.length > 0 ? (s.tiles + s.length - 1) / s.length : 1;
    return s;
}
/// A place in the order of all strips.
struct conv_grad_run {
    int shard = 0;
    std::int64_t strip = 0;
};

/// A run of strips of a gradient by Winograd: x and dy transformed to [strip][block][element][tile][W], so that what one tile of weights reads of a
/// strip lies together. Each tile of weights has `slots` for the sums of one shard, [element][input channel][output channel], and `weight.levels`
/// buffers of taps, to which shards go when they have been summed.
struct conv_grad_winograd_args {
    conv_grad_weight_args weight;
    int wino = 0;
    std::int64_t tiles_high = 0, tiles_wide = 0;
    std::int64_t first_tile = 0, tile_room = 0, dy_element = 0;  // of the strip that is transformed: its first tile, the steps of blocks and elements
    std::int64_t first_place = 0;                                // of the run's first strip
    std::int64_t slots = 1, slot_floats = 0, sum_element = 0;
    float *x_transformed = nullptr, *dy_transformed = nullptr, *sums = nullptr;
    const conv_grad_strips* strips = nullptr;  // of each shard
    conv_grad_run begin, end;
};

/// One run of a gradient with respect to inputs that have strides: one phase, which is a convolution of stride 1 over dY that gives
/// every sh-th row and every sw-th column of dX, or a depthwise one with all phases.
struct conv_grad_input_args {
    conv_args conv;                      // of the phase: reads dY, weights packed as for the direct algorithm
    conv_problem forward;                // the forward convolution, whose ih and iw are those of dX
    std::int64_t row0 = 0, column0 = 0;  // where the phase's first pixel lies in dX
};

/// The gradient of an input of few channels: `sums` has what each row of taps gives, [image][vector of (channel, row of taps)][row of dY][column of dX][W], and
/// each pixel of dX adds up one of each row.
struct conv_tap_rows_args {
    static constexpr int most_rows = 16, most_vectors = 4;
    conv_problem forward;
    const float* sums = nullptr;
    const float* residual = nullptr;  // null, or as dx
    float* dx = nullptr;
    int vectors = 1;
    // Of a row of taps and a vector: which lane of the vector each channel takes, and 1 where it takes one.
    alignas(64) std::int32_t lane[most_rows][most_vectors][16] = {}, taken[most_rows][most_vectors][16] = {};
};

/// One packing of weights: the weight of output channel j, input channel c and tap t of a group is from[group * from_group + j * out_step +
/// c * in_step + tap[t]], of the `from_taps` that lie together. Groups of input channels are whole vectors.
struct conv_pack_args {
    static constexpr int most_taps = 256;
    const float* from = nullptr;
    float* to = nullptr;
    std::int64_t out_channels = 0, in_channels = 0, groups = 1;  // channels of one group
    std::int64_t out_step = 0, in_step = 0, from_group = 0, to_group = 0;
    std::int64_t element = 0;  // Winograd: floats from one element to the next
    int from_taps = 1, taps = 1, wino = 0;
    bool planes = false;
    std::int32_t tap[most_taps];
};

/// `vectors` (`plane_vectors` where x is read from planes): how many vectors of output channels a tile has at most.
struct conv_grad_kernels {
    int vectors, plane_vectors;
    void (*weight)(const conv_grad_weight_args&, std::int64_t tile, std::int64_t part);
    void (*weight_planes)(const conv_grad_weight_args&, std::int64_t tile, std::int64_t part);
    void (*weight_depthwise)(const conv_grad_weight_args&, std::int64_t tile, std::int64_t part);
    void (*weight_end)(const conv_grad_weight_args&, std::int64_t tile);
    void (*weight_depthwise_end)(const conv_grad_weight_args&, std::int64_t tile);
    void (*bias)(const conv_grad_weight_args&, std::int64_t vector);
    void (*winograd_transform)(const conv_grad_winograd_args&, std::int64_t block, std::int64_t first, std::int64_t last);
    void (*winograd_multiply)(const conv_grad_winograd_args&, std::int64_t tile, std::int64_t first, std::int64_t last);
    void (*winograd_end)(const conv_grad_winograd_args&, std::int64_t tile, std::int64_t first, std::int64_t last);
    void (*input_phase)(const conv_grad_input_args&, std::int64_t task);
    void (*input_empty_phase)(const conv_grad_input_args&, std::int64_t task);
    void (*input_depthwise)(const conv_grad_input_args&, std::int64_t task);
    void (*input_tap_rows)(const conv_tap_rows_args&, std::int64_t row);  // of all images
    void (*pack)(const conv_pack_args&, std::int64_t task);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
