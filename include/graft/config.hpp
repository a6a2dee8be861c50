// Every public macro of graft, each with its default. Define them before the first include, or on the command line,
// alike in every translation unit of a program.
//
//   GRAFT_SPLIT            headers declare only; exactly one translation unit defines GRAFT_IMPLEMENTATION as well
//   GRAFT_IMPLEMENTATION   (with GRAFT_SPLIT) this translation unit holds the definitions
//   GRAFT_OPS              the operators to compile in, as a string: "Conv,Relu,Gemm"; default: all (`graft info --ops MODEL` prints it)
//   GRAFT_NO_EXCEPTIONS    set by itself where exceptions are off: a result<T> that holds an error then calls GRAFT_FATAL when forced
//   GRAFT_FATAL(text)      what to do with such an error; default: print it and abort
//   GRAFT_HAS_LIBJPEG      1: decode JPEG by libjpeg-turbo (link it); default 0, stb_image where it is found
//   GRAFT_HAS_LIBWEBP      1: decode WebP by libwebp (link it); default 0, WebP is refused
#pragma once

#include "version.hpp"

#if defined(GRAFT_SPLIT) && !defined(GRAFT_IMPLEMENTATION)
#define GRAFT_HAS_BODIES 0
#else
#define GRAFT_HAS_BODIES 1
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

// What changes the meaning of inline bodies is part of the namespace, so that differing translation units cannot be mixed up.
#ifdef GRAFT_NO_EXCEPTIONS
#define GRAFT_ABI_EXCEPTIONS _noexcept
#else
#define GRAFT_ABI_EXCEPTIONS
#endif
#ifdef GRAFT_OPS
#define GRAFT_ABI_OPS _ops
#else
#define GRAFT_ABI_OPS
#endif
#if GRAFT_HAS_LIBJPEG
#define GRAFT_ABI_JPEG _jpeg
#else
#define GRAFT_ABI_JPEG
#endif
#if GRAFT_HAS_LIBWEBP
#define GRAFT_ABI_WEBP _webp
#else
#define GRAFT_ABI_WEBP
#endif
#define GRAFT_CONCAT_TEXT(a, b, c, d, e, f, g) a##b##_##c##d##e##f##g
#define GRAFT_CONCAT(a, b, c, d, e, f, g) GRAFT_CONCAT_TEXT(a, b, c, d, e, f, g)
#define GRAFT_ABI \
    GRAFT_CONCAT(v, GRAFT_VERSION_MAJOR, GRAFT_VERSION_MINOR, GRAFT_ABI_EXCEPTIONS, GRAFT_ABI_OPS, GRAFT_ABI_JPEG, GRAFT_ABI_WEBP)

#define GRAFT_BEGIN_NAMESPACE \
    namespace graft {         \
    inline namespace GRAFT_ABI {
#define GRAFT_END_NAMESPACE \
    }                       \
    }

#if defined(__GNUC__) || defined(__clang__)
#define GRAFT_NOINLINE __attribute__((noinline))
#define GRAFT_COLD __attribute__((noinline, cold))
#define GRAFT_FORCE_INLINE inline __attribute__((always_inline))
#elif defined(_MSC_VER)
#define GRAFT_NOINLINE __declspec(noinline)
#define GRAFT_COLD __declspec(noinline)
#define GRAFT_FORCE_INLINE __forceinline
#else
#define GRAFT_NOINLINE
#define GRAFT_COLD
#define GRAFT_FORCE_INLINE inline
#endif
