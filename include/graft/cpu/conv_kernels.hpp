// Convolution as kernels see it: the problem, one run's arguments, and the table that each instruction set fills.
#pragma once

#include "../config.hpp"
#include "../graph/activation.hpp"
#include "../graph/layout.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// One convolution of float32 images. 1-D ones come as height 1. `exact` forbids algorithms that round otherwise than the
/// direct one (Winograd). Blocks of channels are as wide as a vector.
struct conv_problem {
    std::int64_t n = 1, ic = 1, ih = 1, iw = 1, oc = 1, oh = 1, ow = 1;
    int groups = 1, kh = 1, kw = 1, sh = 1, sw = 1, dh = 1, dw = 1, pt = 0, pl = 0;
    layout::kind in = layout::blocked, out = layout::blocked;
    epilogue ep;
    bool exact = false;
    bool bfloat16 = false;  ///< operands are rounded to bfloat16 where the kernels of bfloat16 take the problem, and it is faster
};

constexpr std::int64_t narrow_depthwise_room = 20480;  ///< numbers of some rows of 32 channels in bfloat16, with their padding: most of the first cache
/// Rows of outputs that what has room there is enough for.
inline std::int64_t narrow_depthwise_rows(const conv_problem& p) {
    const std::int64_t wide = (p.ow - 1) * p.sw + std::int64_t(p.kw - 1) * p.dw + 1, high = std::int64_t(p.kh - 1) * p.dh + 1,
                       rows = narrow_depthwise_room / 32 / wide;
    return rows < high ? 0 : (rows - high) / p.sh + 1;
}
constexpr int narrow_depthwise_taps = 128;  ///< at most, of a window over such an image

/// One run of a convolution, as its tasks read it.
struct conv_args {
    conv_problem p;
    const float* x = nullptr;
    const float* weight = nullptr;    // packed
    const float* bias = nullptr;      // null, or oc floats
    const float* residual = nullptr;  // null, or as y
    float* y = nullptr;
    float* workspace = nullptr;
    // Of a depthwise one whose images are bfloat16, in place of x and y.
    const std::uint16_t* narrow_x = nullptr;
    std::uint16_t* narrow_y = nullptr;
    std::int64_t icg = 0, ocg = 0;   // channels of one group
    std::int64_t pairs = 0;          // pairs of output vectors in one group; the last may be a single
    std::int64_t group_weights = 0;  // packed floats of one group
    std::int64_t batches = 0, batch_tiles = 0, pairs_per_task = 0, tasks_per_batch = 0;
    float low = 0, high = 0;  // bounds of the activation where it is none, relu or clip
    // An activation that is no clamp: over runs of what tiles have stored, or, where that is not the whole result, by each tile.
    bool clamp = false, run_activation = false, tile_activation = false, scatter = false;
    // Winograd: tiles of `wino` x `wino` outputs, counted through the batch; those of one step lie in the workspace.
    int wino = 0;
    std::int64_t tiles_high = 0, tiles_wide = 0, first_tile = 0, tile_count = 0, tile_room = 0;
    std::int64_t in_element = 0, out_element = 0;  // floats from one element of all tiles to the next
    float *transformed = nullptr, *products = nullptr;
};

/// `tile` is the number of pixels of a register tile, which the cut into tasks is built on.
struct conv_kernels {
    int tile, first_tile;
    void (*direct)(const conv_args&, std::int64_t task);
    void (*generic)(const conv_args&, std::int64_t task);
    void (*first_layer)(const conv_args&, std::int64_t task);
    void (*depthwise)(const conv_args&, std::int64_t task);
    void (*shared)(const conv_args&, std::int64_t task);
    void (*winograd_input)(const conv_args&, std::int64_t block, std::int64_t first, std::int64_t last);
    void (*winograd_multiply)(const conv_args&, std::int64_t element, std::int64_t pair0, std::int64_t pair1);
    void (*winograd_output)(const conv_args&, std::int64_t block, std::int64_t first, std::int64_t last);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
