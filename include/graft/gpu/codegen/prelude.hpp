// The text that is put before every generated kernel: element types, packs, and the functions that operators are written in.
#pragma once

#include "../../config.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// CUDA C++ without any include, so that NVRTC needs no headers; a C++17 compiler of the host reads it too, where `__device__` and
/// `__forceinline__` are defined and <math.h> is included. Everything is in `namespace graft`, as the kernels are; kernels are
/// `extern "C"`.
///
/// - `half`, `bfloat16`: as stored. `compute(x)` makes an element what it is computed in, `stored<T>(x)` turns it back.
/// - `pack<T, N>`: N elements beside each other, `p.at[i]`. `load_pack<T, N, A>(from)`, `store_pack<A>(to, p)` move them by accesses
///   of up to 16 bytes; `from` is a multiple of A elements from a 16-byte boundary. A load with a condition reads only where it holds.
/// - Functions of the name of their operator, for float, double and integers as far as the operator takes them.
std::string prelude();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/activation.hpp"
#include "prelude_functions.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// Types, conversions, packs.
inline const char* prelude_types() noexcept {
    return R"cuda(// graft: what generated kernels share
namespace graft {

struct half { unsigned short bits; };
struct bfloat16 { unsigned short bits; };

template <class To, class From> __device__ __forceinline__ To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "");
    union { From from; To to; } both;
    both.from = from;
    return both.to;
}
template <class T> __device__ __forceinline__ T infinity();
template <> __device__ __forceinline__ float infinity<float>() { return bits_as<float>(0x7f800000u); }
template <> __device__ __forceinline__ double infinity<double>() { return bits_as<double>(0x7ff0000000000000ull); }
template <class T> __device__ __forceinline__ T not_a_number();
template <> __device__ __forceinline__ float not_a_number<float>() { return bits_as<float>(0x7fc00000u); }
template <> __device__ __forceinline__ double not_a_number<double>() { return bits_as<double>(0x7ff8000000000000ull); }

// What an element in memory is computed in.
template <class T> __device__ __forceinline__ T compute(T x) { return x; }
__device__ __forceinline__ float compute(bfloat16 x) { return bits_as<float>((unsigned int)x.bits << 16); }
__device__ __forceinline__ float compute(half x) {
#if defined(__CUDA_ARCH__)
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
    return f;
#else
    const unsigned int sign = (x.bits & 0x8000u) << 16, exponent = x.bits >> 10 & 31, mantissa = x.bits & 1023;
    if (exponent == 31) return bits_as<float>(sign | 0x7f800000u | mantissa << 13);
    if (exponent) return bits_as<float>(sign | (exponent + 112) << 23 | mantissa << 13);
    const float small = (float)mantissa * 0x1p-24f;
    return sign ? -small : small;
#endif
}

// Rounds half to even; NaN stays NaN.
__device__ __forceinline__ half to_half(float f) {
    half h;
#if defined(__CUDA_ARCH__)
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(f));
#else
    const unsigned int u = bits_as<unsigned int>(f), sign = u >> 16 & 0x8000u, size = u & 0x7fffffffu;
    unsigned int bits;
    if (size > 0x7f800000u)
        bits = 0x7e00u;
    else if (size >= 0x477ff000u)
        bits = 0x7c00u;
    else if (size < 0x38800000u) {  // adding 1/2 leaves the mantissa of a subnormal half in the low bits, rounded
        const float shifted = bits_as<float>(size) + 0.5f;
        bits = bits_as<unsigned int>(shifted) - 0x3f000000u;
    } else
        bits = (size + 0xfffu + (size >> 13 & 1) - 0x38000000u) >> 13;
    h.bits = (unsigned short)(sign | bits);
#endif
    return h;
}
__device__ __forceinline__ bfloat16 to_bfloat16(float f) {
    bfloat16 b;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b.bits) : "f"(f));
#else
    const unsigned int u = bits_as<unsigned int>(f);
    b.bits = (unsigned short)(f != f ? (u >> 16 & 0x8000u) | 0x7fc0u : (u + 0x7fffu + (u >> 16 & 1)) >> 16);
#endif
    return b;
}

// Makes an element of memory of what was computed.
template <class T> struct storing {
    template <class From> static __device__ __forceinline__ T from(From x) { return (T)x; }
};
template <> struct storing<half> {
    static __device__ __forceinline__ half from(float x) { return to_half(x); }
};
template <> struct storing<bfloat16> {
    static __device__ __forceinline__ bfloat16 from(float x) { return to_bfloat16(x); }
};
template <class T, class From> __device__ __forceinline__ T stored(From x) { return storing<T>::from(x); }
// x rounded to the type T of memory.
template <class T, class From> __device__ __forceinline__ From rounded(From x) { return (From)compute(stored<T>(x)); }

template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) pack { T at[N]; };

template <class T, int N, int A> __device__ __forceinline__ pack<T, N> load_pack(const T* from) {
    constexpr int step = A * sizeof(T) <= 16 ? A : 16 / sizeof(T);
    pack<T, N> p;
#pragma unroll
    for (int i = 0; i < N; i += step) {
        const pack<T, step> part = *reinterpret_cast<const pack<T, step>*>(from + i);
#pragma unroll
        for (int k = 0; k < step; ++k) p.at[i + k] = part.at[k];
    }
    return p;
}
template <class T, int N, int A> __device__ __forceinline__ pack<T, N> load_pack(const T* from, bool condition) {
    return condition ? load_pack<T, N, A>(from) : pack<T, N>{};
}
template <int A, class T, int N> __device__ __forceinline__ void store_pack(T* to, const pack<T, N>& p) {
    constexpr int step = A * sizeof(T) <= 16 ? A : 16 / sizeof(T);
#pragma unroll
    for (int i = 0; i < N; i += step) {
        pack<T, step> part;
#pragma unroll
        for (int k = 0; k < step; ++k) part.at[k] = p.at[i + k];
        *reinterpret_cast<pack<T, step>*>(to + i) = part;
    }
}
template <class T> __device__ __forceinline__ auto load(const T* from) -> decltype(compute(*from)) { return compute(*from); }
template <class T> __device__ __forceinline__ auto load(const T* from, bool condition) -> decltype(compute(*from)) {
    return condition ? compute(*from) : decltype(compute(*from))();
}

}  // namespace graft
)cuda";
}

// A function for each activation, and one for each slope, which may call those.
inline std::string prelude_activations() {
    std::string text;
    for (const bool slope : {false, true})
        for (const ops::activation_entry& a : ops::activation_entries) {
            const char* const body = slope ? a.device_slope : a.device_value;
            if (!body) continue;
            text += std::string("template <class T> __device__ __forceinline__ T ") + (slope ? "slope_" : "") + a.name + "(T x";
            text += std::string(a.alpha.name ? ", T alpha" : "") + (a.beta.name ? ", T beta" : "") + ") { " + body + " }\n";
        }
    return text;
}

}  // namespace detail

GRAFT_INLINE std::string prelude() {
    return detail::prelude_types() + std::string(detail::prelude_functions()) + detail::prelude_activations() + detail::prelude_functions_behind();
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
