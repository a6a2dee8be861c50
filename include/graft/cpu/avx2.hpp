// AVX2 kernels: the shared kernel text, compiled for this instruction set.
#pragma once

#include "kernel_headers.hpp"
#include "simd/avx2.hpp"

#if GRAFT_ARCH_X86_64
GRAFT_BEGIN_TARGET(GRAFT_TARGET_AVX2)
GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace avx2 {

#include "simd/common.inl"

#include "kernels/activation.inl"
#include "kernels/elementwise.inl"
#include "kernels/rows.inl"
#include "kernels/move.inl"
#include "kernels/gemm.inl"
#include "kernels/pool.inl"
#include "kernels/reorder.inl"
#include "kernels/conv.inl"
#include "kernels/depthwise.inl"
#include "kernels/winograd.inl"
#include "kernels/table.inl"

}  // namespace avx2
}  // namespace cpu
GRAFT_END_NAMESPACE
GRAFT_END_TARGET
#endif
