// Every public macro of graft, each with its default. Define them before the first include, or on the command line,
// alike in every translation unit of a program.
//
//   GRAFT_SPLIT            headers declare only; exactly one translation unit defines GRAFT_IMPLEMENTATION as well
//   GRAFT_IMPLEMENTATION   (with GRAFT_SPLIT) this translation unit holds the definitions
//   GRAFT_KERNELS_APART    (with GRAFT_SPLIT) the definitions come without the CPU's kernels, which another translation unit holds: the one that
//                          defines GRAFT_KERNELS and includes cpu/dispatch.hpp and cpu/training/dispatch.hpp, as cmake/graft_kernels.cpp does
//   GRAFT_OPS              the operators to compile in: Conv,Relu,Gemm, in quotes or without; default: all (`graft info --ops MODEL` prints them); `microsoft`
//   for what writes
//                          operators of com.microsoft out
//   GRAFT_NO_EXCEPTIONS    set by itself where exceptions are off: a result<T> that holds an error then calls GRAFT_FATAL when forced
//   GRAFT_FATAL(text)      what to do with such an error; default: print it and abort
//   GRAFT_HAS_LIBJPEG      1: decode JPEG by libjpeg-turbo (link it); default 0, stb_image where it is found
//   GRAFT_HAS_LIBWEBP      1: decode WebP by libwebp (link it); default 0, WebP is refused
//   GRAFT_EMULATED_PRODUCTS  1: where the environment has GRAFT_EMULATED_PRODUCTS=amx, =avx512_bf16 or =avx512_vnni, other vectors stand in for a machine's
//                          products of tiles, of pairs of bfloat16 or of bytes, to the same bits and slowly, on every CPU: for tests; default 0
//
// What the headers define for their users:
//
//   GRAFT_VERSION_MAJOR, GRAFT_VERSION_MINOR, GRAFT_VERSION_PATCH
//   GRAFT_TRY(...), GRAFT_TRY_ASSIGN(target, ...)   hand a failure on to the caller
//   GRAFT_ERROR_CODES(X)   X(id, name, meaning) for each error code
//   GRAFT_ISA_LIST(X)      X(id, width, here) for each instruction set
//
// The headers' own, which may change: GRAFT_ABI..., GRAFT_ACTIVATION_LIST, GRAFT_ARCH_..., GRAFT_BEGIN_..., GRAFT_END_..., GRAFT_FAMILIES, GRAFT_ISA_HERE...,
// GRAFT_SINGLE_..., GRAFT_CONCAT, GRAFT_CONCAT_TEXT, GRAFT_COLD, GRAFT_FORCE_INLINE, GRAFT_HAS_AMX, GRAFT_HAS_AVX512_BF16, GRAFT_HAS_AVX_VNNI,
// GRAFT_HAS_BODIES, GRAFT_HAS_KERNELS, GRAFT_HAS_NEON_DOTPROD, GRAFT_HAS_SOCKETS, GRAFT_INLINE, GRAFT_MEMORY_..., GRAFT_NOINLINE, GRAFT_PRAGMA, GRAFT_PREFETCH,
// GRAFT_PREFETCH_FAR, GRAFT_SELDOM, GRAFT_STB_IMAGE, GRAFT_UNROLL, GRAFT_VECTOR, GRAFT_GPU_MEMBER, GRAFT_GPU_TRY, GRAFT_CUBLASLT_FUNCTIONS,
// GRAFT_CUDNN_FUNCTIONS, GRAFT_DRIVER_FUNCTIONS, GRAFT_NCCL_FUNCTIONS, GRAFT_NVML_FUNCTIONS, GRAFT_NVRTC_FUNCTIONS. No other macro is left behind, and those
// that a program has defined do not disturb the headers of include/graft itself (graft.hpp, train.hpp, gpu.hpp, ...): scripts/check_macros.py says so.
#pragma once

#include "version.hpp"

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 201703L
#error "graft needs C++17: compile with -std=c++17 or newer (MSVC: /std:c++17)"
#endif
#if defined(__FAST_MATH__) || defined(_M_FP_FAST) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "graft relies on infinities, NaN and the order of sums: leave out -ffast-math, -Ofast, -ffinite-math-only, /fp:fast for files that include it"
#endif
#include <cstddef>
#if (defined(__GLIBCXX__) && !defined(_GLIBCXX_HAS_GTHREADS)) || defined(_LIBCPP_HAS_NO_THREADS) || (defined(_LIBCPP_HAS_THREADS) && !_LIBCPP_HAS_THREADS)
#error "graft needs a standard library that has threads: of mingw-w64, the compiler with the posix thread model (x86_64-w64-mingw32-g++-posix)"
#endif
#if !defined(GRAFT_MACROS_ASIDE) && (defined(min) || defined(max) || defined(near) || defined(far) || defined(small) || defined(I))
#error "graft: min, max, near, far, small or I is a macro here: include graft.hpp, train.hpp or gpu.hpp, which set such macros aside, before single parts"
#endif

#if defined(GRAFT_SPLIT) && !defined(GRAFT_IMPLEMENTATION)
#define GRAFT_HAS_BODIES 0
#else
#define GRAFT_HAS_BODIES 1
#endif

// Where the kernels' text is compiled: with the definitions, or in a translation unit of its own.
#if defined(GRAFT_KERNELS) || (GRAFT_HAS_BODIES && !defined(GRAFT_KERNELS_APART))
#define GRAFT_HAS_KERNELS 1
#else
#define GRAFT_HAS_KERNELS 0
#endif

#if defined(GRAFT_SPLIT)
#define GRAFT_INLINE
#else
#define GRAFT_INLINE inline
#endif

#if !defined(GRAFT_NO_EXCEPTIONS) && !defined(__cpp_exceptions) && !defined(_CPPUNWIND)
#define GRAFT_NO_EXCEPTIONS
#endif

#ifndef GRAFT_HAS_LIBJPEG
#define GRAFT_HAS_LIBJPEG 0
#endif
#ifndef GRAFT_HAS_LIBWEBP
#define GRAFT_HAS_LIBWEBP 0
#endif
#ifndef GRAFT_EMULATED_PRODUCTS
#define GRAFT_EMULATED_PRODUCTS 0
#endif

// What changes the meaning of inline bodies is part of the namespace, so that differing translation units cannot be mixed up.
#ifdef GRAFT_NO_EXCEPTIONS
#define GRAFT_ABI_EXCEPTIONS _noexcept
#else
#define GRAFT_ABI_EXCEPTIONS
#endif
#if defined(GRAFT_OPS) && !defined(GRAFT_ABI_OPS)
#define GRAFT_ABI_OPS _ops
#elif !defined(GRAFT_ABI_OPS)
#define GRAFT_ABI_OPS
#endif
#if GRAFT_HAS_LIBJPEG
#define GRAFT_ABI_JPEG _jpeg
#else
#define GRAFT_ABI_JPEG
#endif
// A linker that lacks the definitions prints this name, so it says what to do.
#ifdef GRAFT_SPLIT
#define GRAFT_ABI_SPLIT _split_with_GRAFT_IMPLEMENTATION_in_one_file
#else
#define GRAFT_ABI_SPLIT
#endif
#if GRAFT_HAS_LIBWEBP
#define GRAFT_ABI_WEBP _webp
#else
#define GRAFT_ABI_WEBP
#endif
#define GRAFT_CONCAT_TEXT(a, b, c, d, e, f, g, h) a##b##_##c##d##e##f##g##h
#define GRAFT_CONCAT(a, b, c, d, e, f, g, h) GRAFT_CONCAT_TEXT(a, b, c, d, e, f, g, h)
#define GRAFT_ABI \
    GRAFT_CONCAT(v, GRAFT_VERSION_MAJOR, GRAFT_VERSION_MINOR, GRAFT_ABI_EXCEPTIONS, GRAFT_ABI_OPS, GRAFT_ABI_JPEG, GRAFT_ABI_WEBP, GRAFT_ABI_SPLIT)

#define GRAFT_BEGIN_KERNEL_NAMESPACE \
    namespace graft { \
    inline namespace GRAFT_ABI {
#define GRAFT_END_KERNEL_NAMESPACE \
    } \
    }
// What is no kernel of the CPU goes without those passes of g++ that take much of its time, and make neither runs nor loading measurably
// faster: an eighth of what compiling costs. Nor is anything aligned, which is worth 18 KiB of a program. The level of the command line
// stands. clang's passes cannot be chosen so.
#if GRAFT_HAS_BODIES && defined(__GNUC__) && !defined(__clang__)
#define GRAFT_BEGIN_NAMESPACE \
    _Pragma("GCC push_options") _Pragma("GCC optimize(\"no-schedule-insns2,no-gcse,no-tree-pre,no-code-hoisting,no-thread-jumps,no-tree-vrp\")") \
        _Pragma("GCC optimize(\"align-functions=1,align-jumps=1,align-loops=1,align-labels=1\")") GRAFT_BEGIN_KERNEL_NAMESPACE
#define GRAFT_END_NAMESPACE \
    GRAFT_END_KERNEL_NAMESPACE \
    _Pragma("GCC pop_options")
#else
#define GRAFT_BEGIN_NAMESPACE GRAFT_BEGIN_KERNEL_NAMESPACE
#define GRAFT_END_NAMESPACE GRAFT_END_KERNEL_NAMESPACE
#endif

// GRAFT_COLD is what runs seldom, or is not worth more than its size; GRAFT_SELDOM says the same of members that are defaulted, of which gcc takes no noinline.
#if defined(__GNUC__) || defined(__clang__)
#define GRAFT_NOINLINE __attribute__((noinline))
#define GRAFT_COLD __attribute__((noinline, cold))
#define GRAFT_SELDOM __attribute__((cold))
#define GRAFT_FORCE_INLINE inline __attribute__((always_inline))
#elif defined(_MSC_VER)
#define GRAFT_NOINLINE __declspec(noinline)
#define GRAFT_COLD __declspec(noinline)
#define GRAFT_SELDOM
#define GRAFT_FORCE_INLINE __forceinline
#else
#define GRAFT_NOINLINE
#define GRAFT_COLD
#define GRAFT_SELDOM
#define GRAFT_FORCE_INLINE inline
#endif
