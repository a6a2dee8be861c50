// From an instruction set to its kernels.
#pragma once

#include "isa.hpp"
#include "kernel_table.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The kernels of an available instruction set; those of baseline for one of another architecture.
const kernel_table& kernels(isa set) noexcept;
/// The kernels that multiply four bytes a lane, of a set and a machine that have the instruction (AVX-512 VNNI, AVX-VNNI, the dot product of Armv8.2); else
/// null.
const byte_kernels* byte_products(isa set) noexcept;
/// Whether these take pixels as signed bytes, 128 less than they are in memory.
bool multiplies_signed_pixels(isa set) noexcept;
/// Those of bytes by tiles (AMX; asks the system for the use of them), of a set and a machine that have `byte_products` too; else null.
const code_pixel_kernels* byte_tiles(isa set) noexcept;
/// Functions of bytes, of a set and a machine: by permutations where it has them (AVX-512 VBMI).
byte_lookup lookup(isa set) noexcept;
/// The kernels of bfloat16, of a set and a machine that multiply it: tiles (AMX; asks the system for the use of them), else pairs (AVX-512 BF16); else null.
const bfloat16_kernels* bfloat16_products(isa set) noexcept;

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_KERNELS
// Everything that kernel texts may use comes before a region is opened.
#include "../core/dtype.hpp"
#include "../core/wanted.hpp"
#include "../graph/activation.hpp"
#include "bfloat16_kernels.hpp"
#include "conv_kernels.hpp"
#include "elementwise_kernels.hpp"
#include "gemm_kernels.hpp"
#include "move_kernels.hpp"
#include "pool_kernels.hpp"
#include "quantized_kernels.hpp"
#include "reorder_kernels.hpp"
#include "rows_kernels.hpp"
#include "target.hpp"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#define GRAFT_KERNEL_TEXTS "kernels/texts.inl"
#include "regions.inl"
#undef GRAFT_KERNEL_TEXTS

#if GRAFT_ARCH_X86_64
GRAFT_BEGIN_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
GRAFT_BEGIN_KERNEL_NAMESPACE
namespace cpu {
namespace avx512 {
namespace vnni {
#include "simd/vnni.inl"

#include "kernels/quantized_lanes.inl"
}  // namespace vnni
}  // namespace avx512
}  // namespace cpu
GRAFT_END_KERNEL_NAMESPACE
GRAFT_END_TARGET
#endif

#if GRAFT_ARCH_X86_64
GRAFT_BEGIN_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx2,fma,f16c")
GRAFT_BEGIN_KERNEL_NAMESPACE
namespace cpu {
namespace avx512 {
namespace vbmi {
#include "kernels/byte_permutes.inl"
}  // namespace vbmi
}  // namespace avx512
}  // namespace cpu
GRAFT_END_KERNEL_NAMESPACE
GRAFT_END_TARGET
#endif

#if GRAFT_HAS_AVX_VNNI
GRAFT_BEGIN_TARGET("avx2,fma,f16c,avxvnni")
GRAFT_BEGIN_KERNEL_NAMESPACE
namespace cpu {
namespace avx2 {
namespace vnni {
#include "simd/avx_vnni.inl"

#include "kernels/quantized_lanes.inl"
}  // namespace vnni
}  // namespace avx2
}  // namespace cpu
GRAFT_END_KERNEL_NAMESPACE
GRAFT_END_TARGET
#endif

#if GRAFT_HAS_NEON_DOTPROD
GRAFT_BEGIN_TARGET("arch=armv8.2-a+dotprod")
GRAFT_BEGIN_KERNEL_NAMESPACE
namespace cpu {
namespace neon {
namespace dotprod {
#include "simd/neon_dotprod.inl"

#include "kernels/quantized_lanes.inl"
}  // namespace dotprod
}  // namespace neon
}  // namespace cpu
GRAFT_END_KERNEL_NAMESPACE
GRAFT_END_TARGET
#endif

#if GRAFT_EMULATED_PRODUCTS
#define GRAFT_KERNEL_TEXTS "kernels/emulated_products.inl"
#include "regions.inl"
#undef GRAFT_KERNEL_TEXTS
#endif
#if GRAFT_HAS_AVX512_BF16
GRAFT_BEGIN_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")
GRAFT_BEGIN_KERNEL_NAMESPACE
namespace cpu {
namespace avx512 {
namespace bf16 {
#include "simd/bfloat16.inl"

#include "kernels/bfloat16.inl"
#include "kernels/bfloat16_images.inl"
#include "kernels/bfloat16_vectors.inl"
#if GRAFT_HAS_AMX
namespace amx {
using namespace vnni;
#include "simd/amx.inl"

#include "kernels/bfloat16_tiles.inl"
#include "kernels/quantized_pixels.inl"
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

GRAFT_INLINE const kernel_table& kernels(isa set) noexcept {
#define GRAFT_X(id, width, here) GRAFT_ISA_HERE(here, if (set == isa::id) return id::table();)
    GRAFT_ISA_LIST(GRAFT_X)
#undef GRAFT_X
    return baseline::table();
}

GRAFT_INLINE bool multiplies_signed_pixels(isa set) noexcept {
#if GRAFT_HAS_NEON_DOTPROD
    return set == isa::neon && byte_products(set) == neon::dotprod::bytes_in_lanes();
#else
    return static_cast<void>(set), false;
#endif
}

#if GRAFT_EMULATED_PRODUCTS
inline bool emulates(const char* what) noexcept {
    const char* wish = std::getenv("GRAFT_EMULATED_PRODUCTS");
    return wish && std::strcmp(wish, what) == 0;
}
#endif

GRAFT_INLINE const byte_kernels* byte_products(isa set) noexcept {
#if GRAFT_EMULATED_PRODUCTS
#define GRAFT_X(id, width, here) \
    GRAFT_ISA_HERE(here, if (set == isa::id && (emulates("avx512_vnni") || emulates("amx"))) return id::emulated::bytes_in_lanes();)
    GRAFT_ISA_LIST(GRAFT_X)
#undef GRAFT_X
#endif
    if (!quantized_conv_wanted() || !has_byte_products(set)) return nullptr;
#if GRAFT_ARCH_X86_64
    if (set == isa::avx512) return avx512::vnni::bytes_in_lanes();
#endif
#if GRAFT_HAS_AVX_VNNI
    if (set == isa::avx2) return avx2::vnni::bytes_in_lanes();
#endif
#if GRAFT_HAS_NEON_DOTPROD
    if (set == isa::neon) return neon::dotprod::bytes_in_lanes();
#endif
    return nullptr;
}

GRAFT_INLINE byte_lookup lookup(isa set) noexcept {
#if GRAFT_ARCH_X86_64
    if (set == isa::avx512 && quantized_pairs_wanted() && has_byte_permutes()) return avx512::vbmi::look_up_bytes;
#endif
    return kernels(set).quantized->look_up;
}

GRAFT_INLINE const bfloat16_kernels* bfloat16_products(isa set) noexcept {
#if GRAFT_EMULATED_PRODUCTS
#define GRAFT_X(id, width, here) \
    GRAFT_ISA_HERE(here, if (set == isa::id && emulates("amx")) return id::emulated::bfloat16_by_tiles(); \
                   if (set == isa::id && emulates("avx512_bf16")) return id::emulated::bfloat16_by_vectors();)
    GRAFT_ISA_LIST(GRAFT_X)
#undef GRAFT_X
#endif
    if (set != isa::avx512 || !bfloat16_wanted()) return nullptr;
#if GRAFT_HAS_AMX
    if (has_tiles()) return avx512::bf16::amx::bfloat16_by_tiles();
#endif
#if GRAFT_HAS_AVX512_BF16
    if (has_bfloat16_pairs()) return avx512::bf16::bfloat16_by_vectors();
#endif
    return nullptr;
}

GRAFT_INLINE const code_pixel_kernels* byte_tiles(isa set) noexcept {
#if GRAFT_EMULATED_PRODUCTS
#define GRAFT_X(id, width, here) GRAFT_ISA_HERE(here, if (set == isa::id && emulates("amx")) return id::emulated::codes_by_tiles();)
    GRAFT_ISA_LIST(GRAFT_X)
#undef GRAFT_X
#endif
#if GRAFT_HAS_AMX
    if (set == isa::avx512 && has_tiles()) return quantized_conv_wanted() ? avx512::bf16::amx::codes_by_tiles() : nullptr;
#endif
    static_cast<void>(set);
    return nullptr;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
