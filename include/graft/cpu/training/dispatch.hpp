// From an instruction set to its training kernels.
#pragma once

#include "../isa.hpp"
#include "kernel_table.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The training kernels of an available instruction set; those of baseline for one of another architecture.
const training_kernel_table& training_kernels(isa set) noexcept;

struct bfloat16_grad_kernels;
/// Those of gradients in bfloat16: null where `bfloat16_products` is.
const bfloat16_grad_kernels* bfloat16_grad_products(isa set) noexcept;

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_KERNELS
// Everything that the text of training kernels may use comes before a region is opened; that text uses inference's as well.
#include "../dispatch.hpp"
#include "bfloat16_grad_kernels.hpp"
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

#if GRAFT_EMULATED_PRODUCTS
#define GRAFT_KERNEL_TEXTS "training/kernels/emulated_products.inl"
#include "../regions.inl"
#undef GRAFT_KERNEL_TEXTS
#endif
#if GRAFT_HAS_AVX512_BF16
GRAFT_BEGIN_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")
GRAFT_BEGIN_KERNEL_NAMESPACE
namespace cpu {
namespace avx512 {
namespace bf16 {
#include "kernels/bfloat16_grad.inl"
#include "kernels/bfloat16_grad_vectors.inl"
#if GRAFT_HAS_AMX
namespace amx {
#include "kernels/bfloat16_grad_tiles.inl"
}  // namespace amx
#endif
}  // namespace bf16
}  // namespace avx512
}  // namespace cpu
GRAFT_END_KERNEL_NAMESPACE
GRAFT_END_TARGET
#endif

GRAFT_BEGIN_NAMESPACE
namespace cpu {

GRAFT_INLINE const training_kernel_table& training_kernels(isa set) noexcept {
#define GRAFT_X(id, width, here) GRAFT_ISA_HERE(here, if (set == isa::id) return id::training::table();)
    GRAFT_ISA_LIST(GRAFT_X)
#undef GRAFT_X
    return baseline::training::table();
}

GRAFT_INLINE const bfloat16_grad_kernels* bfloat16_grad_products(isa set) noexcept {
    const bfloat16_kernels* const products = bfloat16_products(set);
    if (!products) return nullptr;
#if GRAFT_EMULATED_PRODUCTS
#define GRAFT_X(id, width, here) \
    GRAFT_ISA_HERE(here, if (set == isa::id && products == id::emulated::bfloat16_by_tiles()) return id::emulated::bfloat16_grad_by_tiles(); \
                   if (set == isa::id && products == id::emulated::bfloat16_by_vectors()) return id::emulated::bfloat16_grad_by_vectors();)
    GRAFT_ISA_LIST(GRAFT_X)
#undef GRAFT_X
#endif
#if GRAFT_HAS_AMX
    if (products->tiles) return avx512::bf16::amx::bfloat16_grad_by_tiles();
#endif
#if GRAFT_HAS_AVX512_BF16
    return avx512::bf16::bfloat16_grad_by_vectors();
#else
    return nullptr;
#endif
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
