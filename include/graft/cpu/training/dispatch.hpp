// From an instruction set to its training kernels.
#pragma once

#include "../isa.hpp"
#include "kernel_table.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The training kernels of an available instruction set; those of baseline for one of another architecture.
const training_kernel_table& training_kernels(isa set) noexcept;

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_KERNELS
// Everything that the text of training kernels may use comes before a region is opened; that text uses inference's as well.
#include "../dispatch.hpp"
#include "conv_grad_kernels.hpp"
#include "elementwise_grad_kernels.hpp"
#include "matmul_grad_kernels.hpp"
#include "norm_grad_kernels.hpp"
#include "optimizer_kernels.hpp"
#include "pool_grad_kernels.hpp"
#include "reduce_sum_kernels.hpp"
#include "rows_grad_kernels.hpp"

#define GRAFT_KERNEL_TEXTS "training/kernels/texts.inl"
#include "../regions.inl"
#undef GRAFT_KERNEL_TEXTS

GRAFT_BEGIN_NAMESPACE
namespace cpu {

GRAFT_INLINE const training_kernel_table& training_kernels(isa set) noexcept {
#define GRAFT_X(id, width, here) GRAFT_ISA_HERE(here, if (set == isa::id) return id::training::table();)
    GRAFT_ISA_LIST(GRAFT_X)
#undef GRAFT_X
    return baseline::training::table();
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
