// CUDA C++ for a host compiler: put before every text that the simulated NVRTC compiles. No other header: it is parsed each time.
#pragma once

#include "device_state.hpp"

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
// A section of its own, so that the runner can spoil what an earlier block left there. `extern __shared__` is rewritten by the runner.
#define __shared__ static __attribute__((section("graft_shared")))
#define asm _Pragma("GCC error \"inline PTX is GPU only: the simulator cannot run it\"") asm
#define __asm__ _Pragma("GCC error \"inline PTX is GPU only: the simulator cannot run it\"") __asm__

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;

extern graft_simulator::device_state graft_simulator_state __attribute__((visibility("hidden")));
extern "C" unsigned char graft_simulator_dynamic_shared[] __attribute__((visibility("hidden"), aligned(1024)));

// ---- vectors ----

struct __align__(16) float4 {
    float x, y, z, w;
};

#define threadIdx (graft_simulator_state.thread)
#define blockIdx (graft_simulator_state.block)
#define blockDim (graft_simulator_state.block_size)
#define gridDim (graft_simulator_state.grid_size)

// ---- waiting ----
#define __syncthreads() ((void)graft_simulator_state.wait_block(0, __LINE__))
#define __syncthreads_count(p) (graft_simulator_state.wait_block((p) ? 1 : 0, __LINE__))

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
inline unsigned lane_at(int index, int width) {
    const unsigned w = static_cast<unsigned>(width);
    return (lane_here() & ~(w - 1)) | (static_cast<unsigned>(index) & (w - 1));
}

}  // namespace graft_simulator

inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
    graft_simulator::warp(graft_simulator::wait_kind::synchronise, mask, 0, 0, line);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T v, int distance, int width = 32, int line = __builtin_LINE()) {
    return graft_simulator::shuffle(mask, v, graft_simulator::lane_xor(distance, width), line);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T v, unsigned distance, int width = 32, int line = __builtin_LINE()) {
    return graft_simulator::shuffle(mask, v, graft_simulator::lane_down(distance, width), line);
}
template <class T>
inline T __shfl_sync(unsigned mask, T v, int index, int width = 32, int line = __builtin_LINE()) {
    return graft_simulator::shuffle(mask, v, graft_simulator::lane_at(index, width), line);
}
extern "C" int printf(const char*, ...);

// ---- atomics ----
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
    GRAFT_SIMULATOR_ATOMIC(atomicMax, T, v > old ? v : old) \
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
GRAFT_SIMULATOR_ATOMIC(atomicMax, long long, v > old ? v : old)
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
GRAFT_SIMULATOR_MATH_1(expm1)
GRAFT_SIMULATOR_MATH_1(log)
GRAFT_SIMULATOR_MATH_1(log1p)
GRAFT_SIMULATOR_MATH_1(sqrt)
GRAFT_SIMULATOR_MATH_1(erf)
GRAFT_SIMULATOR_MATH_1(erfc)
GRAFT_SIMULATOR_MATH_1(ceil)
GRAFT_SIMULATOR_MATH_1(floor)
GRAFT_SIMULATOR_MATH_1(round)
GRAFT_SIMULATOR_MATH_1(rint)
GRAFT_SIMULATOR_MATH_1(nearbyint)
GRAFT_SIMULATOR_MATH_1(fabs)
GRAFT_SIMULATOR_MATH_2(pow)
GRAFT_SIMULATOR_MATH_2(fmod)
GRAFT_SIMULATOR_MATH_2(remainder)
GRAFT_SIMULATOR_MATH_2(fmin)
GRAFT_SIMULATOR_MATH_2(fmax)
GRAFT_SIMULATOR_MATH_2(copysign)
extern "C" float fmaf(float, float, float) noexcept;
extern "C" double ldexp(double, int) noexcept;
extern "C" float ldexpf(float, int) noexcept;
inline float ldexp(float a, int n) { return ldexpf(a, n); }
extern "C" double frexp(double, int*) noexcept;
extern "C" float frexpf(float, int*) noexcept;
inline float frexp(float a, int* n) { return frexpf(a, n); }
inline float rsqrtf(float a) { return static_cast<float>(1 / sqrt(static_cast<double>(a))); }
inline double rsqrt(double a) { return 1 / sqrt(a); }
inline float rsqrt(float a) { return rsqrtf(a); }
inline int abs(int a) { return a < 0 ? -a : a; }
inline long abs(long a) { return a < 0 ? -a : a; }
inline long long abs(long long a) { return a < 0 ? -a : a; }
inline float abs(float a) { return fabsf(a); }
inline double abs(double a) { return fabs(a); }
#define GRAFT_SIMULATOR_TEST(name) \
    inline bool name(float a) { return __builtin_##name(a); } \
    inline bool name(double a) { return __builtin_##name(a); }
GRAFT_SIMULATOR_TEST(isnan)
GRAFT_SIMULATOR_TEST(isinf)
GRAFT_SIMULATOR_TEST(isfinite)
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

// Fast mathematics: exact here, so that nothing about its rounding can be learnt from the simulator.
inline float __expf(float a) { return expf(a); }

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
