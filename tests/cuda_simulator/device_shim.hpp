// CUDA C++ for a host compiler: put before every text that the simulated NVRTC compiles. No other header: it is parsed each time.
#pragma once

#include "device_state.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__
#define __managed__
// A section of its own, so that the runner can spoil what an earlier block left there. `extern __shared__` is rewritten by the runner.
#define __shared__ static __attribute__((section("graft_shared")))
#define asm _Pragma("GCC error \"inline PTX is GPU only: the simulator cannot run it\"") asm
#define __asm__ _Pragma("GCC error \"inline PTX is GPU only: the simulator cannot run it\"") __asm__

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;

extern graft_simulator::device_state graft_simulator_state __attribute__((visibility("hidden")));
extern "C" unsigned char graft_simulator_dynamic_shared[] __attribute__((visibility("hidden"), aligned(1024)));

// ---- vectors ----

struct __align__(1) char1 { signed char x; };
inline char1 make_char1(signed char x) { return {x}; }
struct __align__(2) char2 { signed char x, y; };
inline char2 make_char2(signed char x, signed char y) { return {x, y}; }
struct __align__(1) char3 { signed char x, y, z; };
inline char3 make_char3(signed char x, signed char y, signed char z) { return {x, y, z}; }
struct __align__(4) char4 { signed char x, y, z, w; };
inline char4 make_char4(signed char x, signed char y, signed char z, signed char w) { return {x, y, z, w}; }
struct __align__(1) uchar1 { unsigned char x; };
inline uchar1 make_uchar1(unsigned char x) { return {x}; }
struct __align__(2) uchar2 { unsigned char x, y; };
inline uchar2 make_uchar2(unsigned char x, unsigned char y) { return {x, y}; }
struct __align__(1) uchar3 { unsigned char x, y, z; };
inline uchar3 make_uchar3(unsigned char x, unsigned char y, unsigned char z) { return {x, y, z}; }
struct __align__(4) uchar4 { unsigned char x, y, z, w; };
inline uchar4 make_uchar4(unsigned char x, unsigned char y, unsigned char z, unsigned char w) { return {x, y, z, w}; }
struct __align__(2) short1 { short x; };
inline short1 make_short1(short x) { return {x}; }
struct __align__(4) short2 { short x, y; };
inline short2 make_short2(short x, short y) { return {x, y}; }
struct __align__(2) short3 { short x, y, z; };
inline short3 make_short3(short x, short y, short z) { return {x, y, z}; }
struct __align__(8) short4 { short x, y, z, w; };
inline short4 make_short4(short x, short y, short z, short w) { return {x, y, z, w}; }
struct __align__(2) ushort1 { unsigned short x; };
inline ushort1 make_ushort1(unsigned short x) { return {x}; }
struct __align__(4) ushort2 { unsigned short x, y; };
inline ushort2 make_ushort2(unsigned short x, unsigned short y) { return {x, y}; }
struct __align__(2) ushort3 { unsigned short x, y, z; };
inline ushort3 make_ushort3(unsigned short x, unsigned short y, unsigned short z) { return {x, y, z}; }
struct __align__(8) ushort4 { unsigned short x, y, z, w; };
inline ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z, unsigned short w) { return {x, y, z, w}; }
struct __align__(4) int1 { int x; };
inline int1 make_int1(int x) { return {x}; }
struct __align__(8) int2 { int x, y; };
inline int2 make_int2(int x, int y) { return {x, y}; }
struct __align__(4) int3 { int x, y, z; };
inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
struct __align__(16) int4 { int x, y, z, w; };
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
struct __align__(4) uint1 { unsigned int x; };
inline uint1 make_uint1(unsigned int x) { return {x}; }
struct __align__(8) uint2 { unsigned int x, y; };
inline uint2 make_uint2(unsigned int x, unsigned int y) { return {x, y}; }
struct __align__(4) uint3 { unsigned int x, y, z; };
inline uint3 make_uint3(unsigned int x, unsigned int y, unsigned int z) { return {x, y, z}; }
struct __align__(16) uint4 { unsigned int x, y, z, w; };
inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) { return {x, y, z, w}; }
struct __align__(8) long1 { long x; };
inline long1 make_long1(long x) { return {x}; }
struct __align__(16) long2 { long x, y; };
inline long2 make_long2(long x, long y) { return {x, y}; }
struct __align__(8) long3 { long x, y, z; };
inline long3 make_long3(long x, long y, long z) { return {x, y, z}; }
struct __align__(16) long4 { long x, y, z, w; };
inline long4 make_long4(long x, long y, long z, long w) { return {x, y, z, w}; }
struct __align__(8) ulong1 { unsigned long x; };
inline ulong1 make_ulong1(unsigned long x) { return {x}; }
struct __align__(16) ulong2 { unsigned long x, y; };
inline ulong2 make_ulong2(unsigned long x, unsigned long y) { return {x, y}; }
struct __align__(8) ulong3 { unsigned long x, y, z; };
inline ulong3 make_ulong3(unsigned long x, unsigned long y, unsigned long z) { return {x, y, z}; }
struct __align__(16) ulong4 { unsigned long x, y, z, w; };
inline ulong4 make_ulong4(unsigned long x, unsigned long y, unsigned long z, unsigned long w) { return {x, y, z, w}; }
struct __align__(8) longlong1 { long long x; };
inline longlong1 make_longlong1(long long x) { return {x}; }
struct __align__(16) longlong2 { long long x, y; };
inline longlong2 make_longlong2(long long x, long long y) { return {x, y}; }
struct __align__(8) longlong3 { long long x, y, z; };
inline longlong3 make_longlong3(long long x, long long y, long long z) { return {x, y, z}; }
struct __align__(16) longlong4 { long long x, y, z, w; };
inline longlong4 make_longlong4(long long x, long long y, long long z, long long w) { return {x, y, z, w}; }
struct __align__(8) ulonglong1 { unsigned long long x; };
inline ulonglong1 make_ulonglong1(unsigned long long x) { return {x}; }
struct __align__(16) ulonglong2 { unsigned long long x, y; };
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }
struct __align__(8) ulonglong3 { unsigned long long x, y, z; };
inline ulonglong3 make_ulonglong3(unsigned long long x, unsigned long long y, unsigned long long z) { return {x, y, z}; }
struct __align__(16) ulonglong4 { unsigned long long x, y, z, w; };
inline ulonglong4 make_ulonglong4(unsigned long long x, unsigned long long y, unsigned long long z, unsigned long long w) { return {x, y, z, w}; }
struct __align__(4) float1 { float x; };
inline float1 make_float1(float x) { return {x}; }
struct __align__(8) float2 { float x, y; };
inline float2 make_float2(float x, float y) { return {x, y}; }
struct __align__(4) float3 { float x, y, z; };
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
struct __align__(16) float4 { float x, y, z, w; };
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct __align__(8) double1 { double x; };
inline double1 make_double1(double x) { return {x}; }
struct __align__(16) double2 { double x, y; };
inline double2 make_double2(double x, double y) { return {x, y}; }
struct __align__(8) double3 { double x, y, z; };
inline double3 make_double3(double x, double y, double z) { return {x, y, z}; }
struct __align__(16) double4 { double x, y, z, w; };
inline double4 make_double4(double x, double y, double z, double w) { return {x, y, z, w}; }

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

#define threadIdx (graft_simulator_state.thread)
#define blockIdx (graft_simulator_state.block)
#define blockDim (graft_simulator_state.block_size)
#define gridDim (graft_simulator_state.grid_size)
constexpr int warpSize = 32;

// ---- waiting ----
#define __syncthreads() ((void)graft_simulator_state.wait_block(0, __LINE__))
#define __syncthreads_count(p) (graft_simulator_state.wait_block((p) ? 1 : 0, __LINE__))
#define __syncthreads_or(p) (graft_simulator_state.wait_block((p) ? 1 : 0, __LINE__) != 0)
#define __syncthreads_and(p) (graft_simulator_state.wait_block((p) ? 0 : 1, __LINE__) == 0)
#define __trap() (graft_simulator_state.stop("the kernel called __trap()", __LINE__))

namespace graft_simulator {

inline unsigned long long warp(wait_kind kind, unsigned mask, unsigned long long value, unsigned lane, int line) {
    return graft_simulator_state.wait_warp(kind, mask, value, lane, line);
}
inline unsigned lane_here() { return graft_simulator_state.current % 32; }

template <class T>
inline T shuffle(unsigned mask, T value, unsigned from, int line) {
    static_assert(sizeof(T) <= 8, "shuffles move 32 or 64 bits");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    bits = warp(wait_kind::shuffle, mask, bits, from, line);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
// The lane to read: the own one where the distance leaves the segment.
inline unsigned lane_xor(int distance, int width) {
    const unsigned lane = lane_here(), other = lane ^ static_cast<unsigned>(distance), last = lane | static_cast<unsigned>(width - 1);
    return other > last ? lane : other;
}
inline unsigned lane_down(unsigned distance, int width) {
    const unsigned lane = lane_here(), last = lane | static_cast<unsigned>(width - 1);
    return lane + distance > last ? lane : lane + distance;
}
inline unsigned lane_up(unsigned distance, int width) {
    const unsigned lane = lane_here(), first = lane & ~static_cast<unsigned>(width - 1);
    return distance > lane - first ? lane : lane - distance;
}
inline unsigned lane_at(int index, int width) {
    const unsigned w = static_cast<unsigned>(width);
    return (lane_here() & ~(w - 1)) | (static_cast<unsigned>(index) & (w - 1));
}

}  // namespace graft_simulator

inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) { graft_simulator::warp(graft_simulator::wait_kind::synchronise, mask, 0, 0, line); }
template <class T>
inline T __shfl_xor_sync(unsigned mask, T v, int distance, int width = 32, int line = __builtin_LINE()) {
    return graft_simulator::shuffle(mask, v, graft_simulator::lane_xor(distance, width), line);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T v, unsigned distance, int width = 32, int line = __builtin_LINE()) {
    return graft_simulator::shuffle(mask, v, graft_simulator::lane_down(distance, width), line);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T v, unsigned distance, int width = 32, int line = __builtin_LINE()) {
    return graft_simulator::shuffle(mask, v, graft_simulator::lane_up(distance, width), line);
}
template <class T>
inline T __shfl_sync(unsigned mask, T v, int index, int width = 32, int line = __builtin_LINE()) {
    return graft_simulator::shuffle(mask, v, graft_simulator::lane_at(index, width), line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    return static_cast<unsigned>(graft_simulator::warp(graft_simulator::wait_kind::ballot, mask, predicate ? 1 : 0, 0, line));
}
inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) { return __ballot_sync(mask, predicate, line) != 0; }
inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) { return __ballot_sync(mask, !predicate, line) == 0; }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) {}
extern "C" int printf(const char*, ...);

// ---- bits ----
#define GRAFT_SIMULATOR_BITS(name, To, From) \
    inline To name(From v) { \
        To r; \
        static_assert(sizeof(To) == sizeof(From), ""); \
        __builtin_memcpy(&r, &v, sizeof r); \
        return r; \
    }
GRAFT_SIMULATOR_BITS(__float_as_uint, unsigned, float)
GRAFT_SIMULATOR_BITS(__float_as_int, int, float)
GRAFT_SIMULATOR_BITS(__uint_as_float, float, unsigned)
GRAFT_SIMULATOR_BITS(__int_as_float, float, int)
GRAFT_SIMULATOR_BITS(__double_as_longlong, long long, double)
GRAFT_SIMULATOR_BITS(__longlong_as_double, double, long long)
inline double __hiloint2double(int hi, int lo) {
    return __longlong_as_double(static_cast<long long>((static_cast<unsigned long long>(static_cast<unsigned>(hi)) << 32) | static_cast<unsigned>(lo)));
}
inline int __double2hiint(double v) { return static_cast<int>(static_cast<unsigned long long>(__double_as_longlong(v)) >> 32); }
inline int __double2loint(double v) { return static_cast<int>(__double_as_longlong(v)); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clz(int v) { return v ? __builtin_clz(static_cast<unsigned>(v)) : 32; }
inline int __clzll(long long v) { return v ? __builtin_clzll(static_cast<unsigned long long>(v)) : 64; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline unsigned __brev(unsigned v) {
    unsigned r = 0;
    for (int i = 0; i < 32; ++i) r |= ((v >> i) & 1u) << (31 - i);
    return r;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const unsigned long long both = (static_cast<unsigned long long>(b) << 32) | a;
    unsigned r = 0;
    for (int i = 0; i < 4; ++i) r |= static_cast<unsigned>((both >> (8 * ((selector >> (4 * i)) & 7u))) & 0xffu) << (8 * i);
    return r;
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) { return static_cast<unsigned>(((static_cast<unsigned long long>(hi) << 32 | lo) << (s & 31u)) >> 32); }
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s) { return static_cast<unsigned>((static_cast<unsigned long long>(hi) << 32 | lo) >> (s & 31u)); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32); }
inline int __mulhi(int a, int b) { return static_cast<int>((static_cast<long long>(a) * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64); }
inline long long __mul64hi(long long a, long long b) { return static_cast<long long>((static_cast<__int128>(a) * b) >> 64); }
inline int __mul24(int a, int b) { return a * b; }
inline unsigned __umul24(unsigned a, unsigned b) { return a * b; }
inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; ++i) c += static_cast<signed char>(a >> (8 * i)) * static_cast<signed char>(b >> (8 * i));
    return c;
}

// ---- loads, stores, atomics ----
#define GRAFT_SIMULATOR_LOAD(name) \
    template <class T> \
    inline T name(const T* p) { return *p; }
GRAFT_SIMULATOR_LOAD(__ldg)
GRAFT_SIMULATOR_LOAD(__ldcg)
GRAFT_SIMULATOR_LOAD(__ldca)
GRAFT_SIMULATOR_LOAD(__ldcs)
GRAFT_SIMULATOR_LOAD(__ldlu)
GRAFT_SIMULATOR_LOAD(__ldcv)
#define GRAFT_SIMULATOR_STORE(name) \
    template <class T> \
    inline void name(T* p, T v) { *p = v; }
GRAFT_SIMULATOR_STORE(__stwb)
GRAFT_SIMULATOR_STORE(__stcg)
GRAFT_SIMULATOR_STORE(__stcs)
GRAFT_SIMULATOR_STORE(__stwt)

// Threads of the simulator run one after the other, so that plain code is atomic; and what is atomic is no race.
#define GRAFT_SIMULATOR_ATOMIC(name, T, expression) \
    __attribute__((no_sanitize_thread)) inline T name(T* p, T v) { \
        const T old = *p; \
        *p = expression; \
        return old; \
    }
#define GRAFT_SIMULATOR_ATOMIC_INTEGER(T) \
    GRAFT_SIMULATOR_ATOMIC(atomicAdd, T, old + v) \
    GRAFT_SIMULATOR_ATOMIC(atomicExch, T, v) \
    GRAFT_SIMULATOR_ATOMIC(atomicMin, T, v < old ? v : old) \
    GRAFT_SIMULATOR_ATOMIC(atomicMax, T, v > old ? v : old) \
    GRAFT_SIMULATOR_ATOMIC(atomicAnd, T, old & v) \
    GRAFT_SIMULATOR_ATOMIC(atomicOr, T, old | v) \
    GRAFT_SIMULATOR_ATOMIC(atomicXor, T, old ^ v) \
    __attribute__((no_sanitize_thread)) inline T atomicCAS(T* p, T compare, T v) { \
        const T old = *p; \
        if (old == compare) *p = v; \
        return old; \
    }
GRAFT_SIMULATOR_ATOMIC_INTEGER(int)
GRAFT_SIMULATOR_ATOMIC_INTEGER(unsigned)
GRAFT_SIMULATOR_ATOMIC_INTEGER(unsigned long long)
GRAFT_SIMULATOR_ATOMIC(atomicAdd, float, old + v)
GRAFT_SIMULATOR_ATOMIC(atomicAdd, double, old + v)
GRAFT_SIMULATOR_ATOMIC(atomicExch, float, v)
GRAFT_SIMULATOR_ATOMIC(atomicSub, int, old - v)
GRAFT_SIMULATOR_ATOMIC(atomicSub, unsigned, old - v)
GRAFT_SIMULATOR_ATOMIC(atomicMin, long long, v < old ? v : old)
GRAFT_SIMULATOR_ATOMIC(atomicMax, long long, v > old ? v : old)
GRAFT_SIMULATOR_ATOMIC(atomicInc, unsigned, old >= v ? 0 : old + 1)
GRAFT_SIMULATOR_ATOMIC(atomicDec, unsigned, old == 0 || old > v ? v : old - 1)
__attribute__((no_sanitize_thread)) inline unsigned short atomicCAS(unsigned short* p, unsigned short compare, unsigned short v) {
    const unsigned short old = *p;
    if (old == compare) *p = v;
    return old;
}

// ---- numbers ----
// CUDA has each function under its C name for either type, and for float with an f.
#define GRAFT_SIMULATOR_MATH_1(name) \
    extern "C" double name(double) noexcept; \
    extern "C" float name##f(float) noexcept; \
    inline float name(float a) { return name##f(a); }
#define GRAFT_SIMULATOR_MATH_2(name) \
    extern "C" double name(double, double) noexcept; \
    extern "C" float name##f(float, float) noexcept; \
    inline float name(float a, float b) { return name##f(a, b); }
GRAFT_SIMULATOR_MATH_1(sin)
GRAFT_SIMULATOR_MATH_1(cos)
GRAFT_SIMULATOR_MATH_1(tan)
GRAFT_SIMULATOR_MATH_1(asin)
GRAFT_SIMULATOR_MATH_1(acos)
GRAFT_SIMULATOR_MATH_1(atan)
GRAFT_SIMULATOR_MATH_1(sinh)
GRAFT_SIMULATOR_MATH_1(cosh)
GRAFT_SIMULATOR_MATH_1(tanh)
GRAFT_SIMULATOR_MATH_1(asinh)
GRAFT_SIMULATOR_MATH_1(acosh)
GRAFT_SIMULATOR_MATH_1(atanh)
GRAFT_SIMULATOR_MATH_1(exp)
GRAFT_SIMULATOR_MATH_1(exp2)
GRAFT_SIMULATOR_MATH_1(expm1)
GRAFT_SIMULATOR_MATH_1(log)
GRAFT_SIMULATOR_MATH_1(log2)
GRAFT_SIMULATOR_MATH_1(log10)
GRAFT_SIMULATOR_MATH_1(log1p)
GRAFT_SIMULATOR_MATH_1(sqrt)
GRAFT_SIMULATOR_MATH_1(cbrt)
GRAFT_SIMULATOR_MATH_1(erf)
GRAFT_SIMULATOR_MATH_1(erfc)
GRAFT_SIMULATOR_MATH_1(ceil)
GRAFT_SIMULATOR_MATH_1(floor)
GRAFT_SIMULATOR_MATH_1(trunc)
GRAFT_SIMULATOR_MATH_1(round)
GRAFT_SIMULATOR_MATH_1(rint)
GRAFT_SIMULATOR_MATH_1(nearbyint)
GRAFT_SIMULATOR_MATH_1(fabs)
GRAFT_SIMULATOR_MATH_1(tgamma)
GRAFT_SIMULATOR_MATH_1(lgamma)
GRAFT_SIMULATOR_MATH_1(logb)
GRAFT_SIMULATOR_MATH_1(exp10)
GRAFT_SIMULATOR_MATH_1(j0)
GRAFT_SIMULATOR_MATH_1(j1)
GRAFT_SIMULATOR_MATH_1(y0)
GRAFT_SIMULATOR_MATH_1(y1)
GRAFT_SIMULATOR_MATH_2(pow)
GRAFT_SIMULATOR_MATH_2(fmod)
GRAFT_SIMULATOR_MATH_2(remainder)
GRAFT_SIMULATOR_MATH_2(atan2)
GRAFT_SIMULATOR_MATH_2(hypot)
GRAFT_SIMULATOR_MATH_2(fmin)
GRAFT_SIMULATOR_MATH_2(fmax)
GRAFT_SIMULATOR_MATH_2(fdim)
GRAFT_SIMULATOR_MATH_2(copysign)
GRAFT_SIMULATOR_MATH_2(nextafter)
extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
inline float fma(float a, float b, float c) { return fmaf(a, b, c); }
extern "C" double ldexp(double, int) noexcept;
extern "C" float ldexpf(float, int) noexcept;
inline float ldexp(float a, int n) { return ldexpf(a, n); }
inline double scalbn(double a, int n) { return ldexp(a, n); }
inline float scalbnf(float a, int n) { return ldexpf(a, n); }
extern "C" double frexp(double, int*) noexcept;
extern "C" float frexpf(float, int*) noexcept;
inline float frexp(float a, int* n) { return frexpf(a, n); }
extern "C" double modf(double, double*) noexcept;
extern "C" float modff(float, float*) noexcept;
inline float modf(float a, float* n) { return modff(a, n); }
extern "C" long lrint(double) noexcept;
extern "C" long lrintf(float) noexcept;
extern "C" long long llrint(double) noexcept;
extern "C" long long llrintf(float) noexcept;
extern "C" long lround(double) noexcept;
extern "C" long lroundf(float) noexcept;
extern "C" long long llround(double) noexcept;
extern "C" long long llroundf(float) noexcept;
extern "C" void sincos(double, double*, double*) noexcept;
extern "C" void sincosf(float, float*, float*) noexcept;
inline float rsqrtf(float a) { return static_cast<float>(1 / sqrt(static_cast<double>(a))); }
inline double rsqrt(double a) { return 1 / sqrt(a); }
inline float rsqrt(float a) { return rsqrtf(a); }
inline float normcdff(float a) { return 0.5f * erfcf(-a * 0.70710678118654752440f); }
inline double normcdf(double a) { return 0.5 * erfc(-a * 0.70710678118654752440); }
inline float sinpif(float a) { return static_cast<float>(sin(3.14159265358979323846 * fmod(static_cast<double>(a), 2.0))); }
inline float cospif(float a) { return static_cast<float>(cos(3.14159265358979323846 * fmod(static_cast<double>(a), 2.0))); }
inline int abs(int a) { return a < 0 ? -a : a; }
inline long abs(long a) { return a < 0 ? -a : a; }
inline long long abs(long long a) { return a < 0 ? -a : a; }
inline long long llabs(long long a) { return abs(a); }
inline float abs(float a) { return fabsf(a); }
inline double abs(double a) { return fabs(a); }
#define GRAFT_SIMULATOR_TEST(name) \
    inline bool name(float a) { return __builtin_##name(a); } \
    inline bool name(double a) { return __builtin_##name(a); }
GRAFT_SIMULATOR_TEST(isnan)
GRAFT_SIMULATOR_TEST(isinf)
GRAFT_SIMULATOR_TEST(isfinite)
GRAFT_SIMULATOR_TEST(signbit)
#define GRAFT_SIMULATOR_MIN_MAX(R, A, B) \
    inline R min(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); } \
    inline R max(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(b) : static_cast<R>(a); }
GRAFT_SIMULATOR_MIN_MAX(int, int, int)
GRAFT_SIMULATOR_MIN_MAX(unsigned, unsigned, unsigned)
GRAFT_SIMULATOR_MIN_MAX(unsigned, int, unsigned)
GRAFT_SIMULATOR_MIN_MAX(unsigned, unsigned, int)
GRAFT_SIMULATOR_MIN_MAX(long, long, long)
GRAFT_SIMULATOR_MIN_MAX(unsigned long, unsigned long, unsigned long)
GRAFT_SIMULATOR_MIN_MAX(unsigned long, long, unsigned long)
GRAFT_SIMULATOR_MIN_MAX(unsigned long, unsigned long, long)
GRAFT_SIMULATOR_MIN_MAX(long long, long long, long long)
GRAFT_SIMULATOR_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
GRAFT_SIMULATOR_MIN_MAX(unsigned long long, long long, unsigned long long)
GRAFT_SIMULATOR_MIN_MAX(unsigned long long, unsigned long long, long long)
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(double a, float b) { return fmax(a, b); }
inline unsigned umin(unsigned a, unsigned b) { return min(a, b); }
inline unsigned umax(unsigned a, unsigned b) { return max(a, b); }
inline long long llmin(long long a, long long b) { return min(a, b); }
inline long long llmax(long long a, long long b) { return max(a, b); }

// Fast mathematics: exact here, so that nothing about its rounding can be learnt from the simulator.
inline float __expf(float a) { return expf(a); }
inline float __exp10f(float a) { return exp10f(a); }
inline float __logf(float a) { return logf(a); }
inline float __log2f(float a) { return log2f(a); }
inline float __log10f(float a) { return log10f(a); }
inline float __sinf(float a) { return sinf(a); }
inline float __cosf(float a) { return cosf(a); }
inline float __tanf(float a) { return tanf(a); }
inline float __powf(float a, float b) { return powf(a, b); }
inline void __sincosf(float a, float* s, float* c) { sincosf(a, s, c); }
inline float __fdividef(float a, float b) { return a / b; }
inline float fdividef(float a, float b) { return a / b; }
inline float __saturatef(float a) { return a > 0 ? (a < 1 ? a : 1.0f) : 0.0f; }
inline float __frsqrt_rn(float a) { return rsqrtf(a); }
inline float __frcp_rn(float a) { return 1 / a; }
inline double __drcp_rn(double a) { return 1 / a; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline double __dsqrt_rn(double a) { return sqrt(a); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

// Conversions: a GPU's stop at the ends of the type, and make 0 of a NaN.
namespace graft_simulator {
template <class To, class From>
inline To convert(From v) {
    constexpr bool is_signed = static_cast<To>(-1) < static_cast<To>(0);
    constexpr int bits = static_cast<int>(sizeof(To)) * 8 - (is_signed ? 1 : 0);
    constexpr To high = static_cast<To>(~static_cast<To>(0) ^ (is_signed ? static_cast<To>(1) << (sizeof(To) * 8 - 1) : static_cast<To>(0)));
    const double limit = ldexp(1.0, bits), d = static_cast<double>(v);
    if (d != d) return bits == 63 || bits == 64 ? static_cast<To>(static_cast<To>(1) << (sizeof(To) * 8 - 1)) : static_cast<To>(0);
    if (d >= limit) return high;
    if (is_signed ? d < -limit : d <= -1) return is_signed ? static_cast<To>(~high) : static_cast<To>(0);
    return static_cast<To>(v);
}
}  // namespace graft_simulator
#define GRAFT_SIMULATOR_ROUND(name, To, From) \
    inline To name##_rn(From v) { return graft_simulator::convert<To>(rint(v)); } \
    inline To name##_rz(From v) { return graft_simulator::convert<To>(trunc(v)); } \
    inline To name##_rd(From v) { return graft_simulator::convert<To>(floor(v)); } \
    inline To name##_ru(From v) { return graft_simulator::convert<To>(ceil(v)); }
GRAFT_SIMULATOR_ROUND(__float2int, int, float)
GRAFT_SIMULATOR_ROUND(__float2uint, unsigned, float)
GRAFT_SIMULATOR_ROUND(__float2ll, long long, float)
GRAFT_SIMULATOR_ROUND(__float2ull, unsigned long long, float)
GRAFT_SIMULATOR_ROUND(__double2int, int, double)
GRAFT_SIMULATOR_ROUND(__double2uint, unsigned, double)
GRAFT_SIMULATOR_ROUND(__double2ll, long long, double)
GRAFT_SIMULATOR_ROUND(__double2ull, unsigned long long, double)
inline float __double2float_rn(double v) { return static_cast<float>(v); }
inline float __int2float_rn(int v) { return static_cast<float>(v); }
inline float __uint2float_rn(unsigned v) { return static_cast<float>(v); }
inline float __ll2float_rn(long long v) { return static_cast<float>(v); }
inline float __ull2float_rn(unsigned long long v) { return static_cast<float>(v); }
inline double __int2double_rn(int v) { return v; }
inline double __uint2double_rn(unsigned v) { return v; }
inline double __ll2double_rn(long long v) { return static_cast<double>(v); }
inline double __ull2double_rn(unsigned long long v) { return static_cast<double>(v); }

#ifdef GRAFT_SIMULATOR_RACES
#include "device_races.hpp"
#endif

// ---- the way in, which the runner writes at the text's end ----
namespace graft_simulator {

template <unsigned... I>
struct indices {};

template <class T>
struct parameter {
    static constexpr parameter_kind kind = plain;
    static constexpr unsigned pointee = 0;
};
template <class T>
struct pointee_of {
    static constexpr unsigned bytes = sizeof(T);
};
template <>
struct pointee_of<void> {
    static constexpr unsigned bytes = 1;
};
template <class T>
struct parameter<T*> {
    static constexpr parameter_kind kind = read_write;
    static constexpr unsigned pointee = pointee_of<T>::bytes;
};
template <class T>
struct parameter<const T*> {
    static constexpr parameter_kind kind = read_only;
    static constexpr unsigned pointee = pointee_of<T>::bytes;
};
template <class T>
struct parameter<T* const> : parameter<T*> {};

template <class... P>
struct parameter_list {
    static constexpr unsigned bytes[sizeof...(P) + 1] = {sizeof(P)..., 0};
    static constexpr parameter_kind kinds[sizeof...(P) + 1] = {parameter<P>::kind..., plain};
    static constexpr unsigned pointees[sizeof...(P) + 1] = {parameter<P>::pointee..., 0};
};

template <auto Entry, class... P, unsigned... I>
__attribute__((no_sanitize_thread)) inline void run_threads(void (*)(P...), void** p, indices<I...>) {
    device_state& s = graft_simulator_state;
    (void)p;
    while (s.next != s.count) {
        const unsigned started = s.next++, id = s.backward ? s.count - 1 - started : started;
        s.current = id;
        s.status[id] = running;
        if (s.block_size.x == s.count) {
            s.thread = {id, 0, 0};
        } else {
            s.thread = {id % s.block_size.x, id / s.block_size.x % s.block_size.y, id / (s.block_size.x * s.block_size.y)};
        }
        Entry(*static_cast<P*>(p[I])...);
        s.status[id] = finished;
    }
}
template <auto Entry, class... P>
inline void run_threads(void (*f)(P...), void** p) {
    run_threads<Entry>(f, p, indices<__integer_pack(sizeof...(P))...>());
}
template <auto Entry>
void run(void** p) {
    run_threads<Entry>(Entry, p);
}
template <class... P>
constexpr entry_description describe(const char* name, void (*run)(void**), unsigned max_threads, void (*)(P...)) {
    return {name, run, max_threads, sizeof...(P), parameter_list<P...>::bytes, parameter_list<P...>::kinds, parameter_list<P...>::pointees};
}

}  // namespace graft_simulator
