// Gradients of float32 convolution with respect to weights, bias and input: choice of an algorithm, packing, and runs over threads.
#pragma once

#include "../../core/executor.hpp"
#include "../conv.hpp"
#include "conv_grad_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

enum class conv_grad_weight_algorithm {
    direct,     ///< tiles of channels over blocked images; groups too
    planes,     ///< few input channels, read from planes
    depthwise,  ///< as many groups as channels
    winograd2,  ///< of F(2x2, 3x3)
    winograd4,  ///< of F(4x4, 3x3)
    bfloat16,   ///< operands rounded to bfloat16, 32 pixels at a time
};

/// How a gradient of weights will be computed. The algorithm depends on the instruction set, the shape of one sample and the number of
/// shards, never on the batch or the threads; the workspace depends on the batch too.
struct conv_grad_weight_choice {
    conv_grad_weight_algorithm algorithm = conv_grad_weight_algorithm::direct;
    const char* reason = "";            ///< for logs; static storage
    int shards = 1;                     ///< logical shards that the sum over the batch is cut into
    std::int64_t workspace_bytes = 0;   ///< what run_conv_grad_weight needs beside its arguments, aligned to 64
    layout::kind in = layout::blocked;  ///< how it reads x; dy is always blocked

    bool takes_narrow() const noexcept { return algorithm == conv_grad_weight_algorithm::bfloat16 || algorithm == conv_grad_weight_algorithm::depthwise; }
};

/// Picks the algorithm. `forward` is the problem of the forward convolution; its `in` says how x is at hand (planes are taken as they
/// are only where there are few channels), its epilogue is not looked at. `exact` forbids Winograd, `bfloat16` lets operands be rounded to it where that is
/// faster. `shards`: a power of two, 1 to shards::most.
conv_grad_weight_choice choose_conv_grad_weight(isa set, const conv_problem& forward, int shards);

/// dw[oc][ic / groups][kh][kw] (row-major) = sum over the batch and pixels of dy[oc][pixel] * x[ic][pixel * stride - pad + tap * dilation],
/// and db[oc] = sum of dy where `db` is not null. x lies as the choice says, and may be narrow where it `takes_narrow`; dy is blocked. Sums over the batch are
/// the tree of `graft::shards`, so that their bits depend on the number of shards and the instruction set only.
void run_conv_grad_weight(isa set, const conv_problem& forward, const conv_grad_weight_choice& choice, const saved_activation& x, const float* dy, float* dw,
                          float* db, void* workspace, executor& pool);

enum class conv_grad_input_algorithm {
    convolution,  ///< stride 1: a convolution of dy with the weights turned round
    tap_rows,     ///< stride 1, few input channels: a convolution of dy whose outputs are the input channels by the rows of taps, and sums of its rows
    phases,       ///< strides: a convolution of stride 1 for each phase of the pixels of dx
    depthwise,    ///< as many groups as channels, with strides
};

/// How a gradient of an input will be computed. Depends on the instruction set and the shape of one sample only.
struct conv_grad_input_choice {
    conv_grad_input_algorithm algorithm = conv_grad_input_algorithm::convolution;
    const char* reason = "";                ///< for logs; static storage
    conv_choice conv;                       ///< of the convolution, or of each phase; of tap_rows that by rows of taps
    std::int64_t packed_bytes = 0;          ///< of the weights as pack_conv_grad_input_weights writes them
    std::int64_t pack_workspace_bytes = 0;  ///< what pack_conv_grad_input_weights needs, aligned to 64
    std::int64_t workspace_bytes = 0;       ///< what run_conv_grad_input needs beside its arguments, aligned to 64
};

/// Picks the algorithm. `forward` is the problem of the forward convolution; its layouts and epilogue are not looked at, as dy and dx are
/// blocked. `forward.exact` forbids Winograd.
conv_grad_input_choice choose_conv_grad_input(isa set, const conv_problem& forward);

/// Writes the weights, [oc][ic / groups][kh][kw], in the order in which the algorithm reads them.
void pack_conv_grad_input_weights(isa set, const conv_problem& forward, const conv_grad_input_choice& choice, const float* weight, void* packed,
                                  void* workspace, executor& pool);

/// As pack_conv_weights, of a forward convolution, on all threads: for weights that change with every step. Winograd's are computed in
/// float, where pack_conv_weights takes double.
void repack_conv_weights(isa set, const conv_problem& problem, const conv_choice& choice, const float* weight, void* packed, executor& pool);

/// dx = the gradient of the forward convolution's input for dy [+ residual], all blocked. `residual` is null or of dx's shape, and may be
/// dx.
void run_conv_grad_input(isa set, const conv_problem& forward, const conv_grad_input_choice& choice, const float* dy, const void* packed, const float* residual,
                         float* dx, void* workspace, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "conv_grad_input_body.hpp"
#include "conv_grad_weight_body.hpp"
#endif
