// From an instruction set to its training kernels.
#pragma once

#include "../isa.hpp"
#include "kernel_table.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The training kernels of an available instruction set; those of baseline where this build has none of that name.
const training_kernel_table& training_kernels(isa set) noexcept;

} // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_KERNELS
#include "avx2.hpp"
#include "avx512.hpp"
#include "baseline.hpp"
#include "neon.hpp"
#include "wasm.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

GRAFT_INLINE const training_kernel_table& training_kernels(isa set) noexcept {
#if GRAFT_ARCH_X86_64
    if (set == isa::avx512) return avx512::training::table();
    if (set == isa::avx2) return avx2::training::table();
#elif GRAFT_ARCH_ARM64
    if (set == isa::neon) return neon::training::table();
#elif GRAFT_ARCH_WASM
    if (set == isa::wasm) return wasm::training::table();
#endif
    (void)set;
    return baseline::training::table();
}

} // namespace cpu
GRAFT_END_NAMESPACE
#endif
