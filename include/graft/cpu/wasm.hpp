// WebAssembly kernels: the shared kernel text, compiled for this instruction set.
#pragma once

#include "kernel_headers.hpp"
#include "simd/wasm.hpp"

#if GRAFT_ARCH_WASM
GRAFT_BEGIN_BASELINE
GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace wasm {

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

}  // namespace wasm
}  // namespace cpu
GRAFT_END_NAMESPACE
GRAFT_END_BASELINE
#endif
