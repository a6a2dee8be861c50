// From an instruction set to its kernels.
#pragma once

#include "isa.hpp"
#include "kernel_table.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The kernels of an available instruction set; those of baseline for one of another architecture.
const kernel_table& kernels(isa set) noexcept;

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_KERNELS
// Everything that kernel texts may use comes before a region is opened.
#include "../core/dtype.hpp"
#include "../core/wanted.hpp"
#include "../graph/activation.hpp"
#include "conv_kernels.hpp"
#include "elementwise_kernels.hpp"
#include "gemm_kernels.hpp"
#include "move_kernels.hpp"
#include "pool_kernels.hpp"
#include "reorder_kernels.hpp"
#include "rows_kernels.hpp"
#include "target.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#define GRAFT_KERNEL_TEXTS "kernels/texts.inl"
#include "regions.inl"
#undef GRAFT_KERNEL_TEXTS

GRAFT_BEGIN_NAMESPACE
namespace cpu {

GRAFT_INLINE const kernel_table& kernels(isa set) noexcept {
#define GRAFT_X(id, width, here) GRAFT_ISA_HERE(here, if (set == isa::id) return id::table();)
    GRAFT_ISA_LIST(GRAFT_X)
#undef GRAFT_X
    return baseline::table();
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
