// NEON training kernels: the shared kernel text, compiled for this instruction set.
#pragma once

#include "../neon.hpp"
#include "kernel_headers.hpp"

#if GRAFT_ARCH_ARM64
GRAFT_BEGIN_BASELINE
GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace neon {
namespace training {

#include "kernels/conv_grad_weight.inl"
#include "kernels/conv_grad_weight_planes.inl"
#include "kernels/conv_grad_weight_depthwise.inl"
#include "kernels/conv_grad_weight_winograd.inl"
#include "kernels/conv_grad_pack.inl"
#include "kernels/conv_grad_input.inl"
#include "kernels/elementwise_grad.inl"
#include "kernels/norm_grad.inl"
#include "kernels/reduce_sum.inl"
#include "kernels/rows_grad.inl"
#include "kernels/matmul_grad.inl"
#include "kernels/optimizer.inl"
#include "kernels/pool_grad.inl"
#include "kernels/table.inl"

}  // namespace training
}  // namespace neon
}  // namespace cpu
GRAFT_END_NAMESPACE
GRAFT_END_BASELINE
#endif
