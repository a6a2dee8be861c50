// From an instruction set to the kernels that measure a machine. Apart from the others, so that who measures nothing compiles none of them.
#pragma once

#include "isa.hpp"
#include "peak_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The measuring kernels of an available instruction set; those of baseline for one of another architecture.
const peak_kernels& measuring_kernels(isa set) noexcept;

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_KERNELS
// Everything that kernel texts may use comes before a region is opened.
#include "dispatch.hpp"

#define GRAFT_KERNEL_TEXTS "kernels/peak.inl"
#include "regions.inl"
#undef GRAFT_KERNEL_TEXTS

GRAFT_BEGIN_NAMESPACE
namespace cpu {

GRAFT_INLINE const peak_kernels& measuring_kernels(isa set) noexcept {
#define GRAFT_X(id, width, here) GRAFT_ISA_HERE(here, if (set == isa::id) return id::peak_table();)
    GRAFT_ISA_LIST(GRAFT_X)
#undef GRAFT_X
    return baseline::peak_table();
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
