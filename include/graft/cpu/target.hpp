// Regions of code compiled for one instruction set. Every header is included before a region is opened, and only pointers
// and integers cross its border: the place where a function is defined decides what it may use, not its caller.
#pragma once

#include "../config.hpp"

#if defined(__x86_64__) || defined(_M_X64)
#define GRAFT_ARCH_X86_64 1
#else
#define GRAFT_ARCH_X86_64 0
#endif
#if defined(__aarch64__) || defined(_M_ARM64)
#define GRAFT_ARCH_ARM64 1
#else
#define GRAFT_ARCH_ARM64 0
#endif
#if defined(__wasm_simd128__)
#define GRAFT_ARCH_WASM 1
#else
#define GRAFT_ARCH_WASM 0
#endif
// Pairs of bfloat16 (AVX-512 BF16): compilers that know them.
#if GRAFT_ARCH_X86_64 && (defined(__clang__) ? __clang_major__ >= 12 : defined(__GNUC__) && __GNUC__ >= 11)
#define GRAFT_HAS_AVX512_BF16 1
#else
#define GRAFT_HAS_AVX512_BF16 0
#endif
// Four bytes a lane without AVX-512 (AVX-VNNI): the same compilers do.
#define GRAFT_HAS_AVX_VNNI GRAFT_HAS_AVX512_BF16
// Four bytes a lane on ARM (the dot product of Armv8.2): compilers that know it in a region, or have it everywhere.
#if GRAFT_ARCH_ARM64 && (defined(__ARM_FEATURE_DOTPROD) || (defined(__clang__) ? __clang_major__ >= 16 : defined(__GNUC__) && __GNUC__ >= 8))
#define GRAFT_HAS_NEON_DOTPROD 1
#else
#define GRAFT_HAS_NEON_DOTPROD 0
#endif
// Tiles: the one system whose way of asking for them is known here.
#if GRAFT_HAS_AVX512_BF16 && defined(__linux__)
#define GRAFT_HAS_AMX 1
#else
#define GRAFT_HAS_AMX 0
#endif

#if GRAFT_HAS_BODIES || GRAFT_HAS_KERNELS
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if GRAFT_ARCH_X86_64
#include <immintrin.h>
#elif GRAFT_ARCH_ARM64
#include <arm_neon.h>
#elif GRAFT_ARCH_WASM
#include <wasm_simd128.h>
#endif
#endif

#define GRAFT_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define GRAFT_BEGIN_TARGET(features) GRAFT_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define GRAFT_END_TARGET _Pragma("clang attribute pop")
#define GRAFT_BEGIN_BASELINE
#define GRAFT_END_BASELINE
#define GRAFT_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
// Contraction stays off, so that a product and a sum are fused where the text says fma and nowhere else.
#define GRAFT_BEGIN_TARGET(features) _Pragma("GCC push_options") GRAFT_PRAGMA(GCC target(features)) _Pragma("GCC optimize(\"O3,fp-contract=off\")")
#define GRAFT_END_TARGET _Pragma("GCC pop_options")
// Where the machines of the last ten years have a faster set, small code: kernels with registers of four floats lose 4 % by it, and a program 37 KiB.
#if GRAFT_ARCH_X86_64
#define GRAFT_BEGIN_BASELINE _Pragma("GCC push_options") _Pragma("GCC optimize(\"Os,fp-contract=off\")")
#else
#define GRAFT_BEGIN_BASELINE _Pragma("GCC push_options") _Pragma("GCC optimize(\"O3,fp-contract=off\")")
#endif
#define GRAFT_END_BASELINE _Pragma("GCC pop_options")
#define GRAFT_UNROLL _Pragma("GCC unroll 64")
#else
#define GRAFT_BEGIN_TARGET(features)
#define GRAFT_END_TARGET
#define GRAFT_BEGIN_BASELINE
#define GRAFT_END_BASELINE
#define GRAFT_UNROLL
#endif

// Functions over vectors: they exist only inlined into their region. A constructor that the compiler writes by itself has no
// region, so structs that hold vectors spell theirs out and give no member an initialiser.
#define GRAFT_VECTOR GRAFT_FORCE_INLINE
