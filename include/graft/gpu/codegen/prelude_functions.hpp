// The functions of the prelude: what element-wise operators compute, for float and double, and for integers that wrap.
#pragma once

#include "../../config.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

inline const char* prelude_functions() noexcept {
    return R"cuda(namespace graft {

// Functions of the mathematics library by one name for both types.
#define GRAFT_MATH(name) \
    __device__ __forceinline__ float name(float x) { return ::name##f(x); } \
    __device__ __forceinline__ double name(double x) { return ::name(x); }
GRAFT_MATH(floor) GRAFT_MATH(ceil) GRAFT_MATH(sqrt) GRAFT_MATH(exp) GRAFT_MATH(expm1) GRAFT_MATH(log) GRAFT_MATH(log1p) GRAFT_MATH(erf)
GRAFT_MATH(sin) GRAFT_MATH(cos) GRAFT_MATH(tan) GRAFT_MATH(asin) GRAFT_MATH(acos) GRAFT_MATH(atan)
GRAFT_MATH(sinh) GRAFT_MATH(cosh) GRAFT_MATH(tanh) GRAFT_MATH(asinh) GRAFT_MATH(acosh) GRAFT_MATH(atanh)
#undef GRAFT_MATH
__device__ __forceinline__ float round(float x) { return ::rintf(x); }  // halves to even
__device__ __forceinline__ double round(double x) { return ::rint(x); }
__device__ __forceinline__ float abs(float x) { return ::fabsf(x); }
__device__ __forceinline__ double abs(double x) { return ::fabs(x); }
__device__ __forceinline__ float pow(float x, float y) { return ::powf(x, y); }
__device__ __forceinline__ double pow(double x, double y) { return ::pow(x, y); }
__device__ __forceinline__ float remainder_toward_zero(float x, float y) { return ::fmodf(x, y); }
__device__ __forceinline__ double remainder_toward_zero(double x, double y) { return ::fmod(x, y); }
__device__ __forceinline__ float with_sign(float x, float sign) { return ::copysignf(x, sign); }
__device__ __forceinline__ double with_sign(double x, double sign) { return ::copysign(x, sign); }

template <class T> __device__ __forceinline__ T divide(T x, T y) { return x / y; }
template <class T> __device__ __forceinline__ T reciprocal(T x) { return T(1) / x; }

// Integers wrap; a division by zero gives 0.
template <class T> __device__ __forceinline__ constexpr bool is_signed() { return T(-1) < T(0); }
template <class T> __device__ __forceinline__ bool is_negative(T x) {
    if constexpr (is_signed<T>())
        return x < T(0);
    else
        return false;
}
template <class T> __device__ __forceinline__ T wrapping_add(T x, T y) { return (T)((unsigned long long)x + (unsigned long long)y); }
template <class T> __device__ __forceinline__ T wrapping_sub(T x, T y) { return (T)((unsigned long long)x - (unsigned long long)y); }
template <class T> __device__ __forceinline__ T wrapping_mul(T x, T y) { return (T)((unsigned long long)x * (unsigned long long)y); }
template <class T> __device__ __forceinline__ T wrapping_neg(T x) { return wrapping_sub(T(0), x); }
template <class T> __device__ __forceinline__ T wrapping_abs(T x) { return is_negative(x) ? wrapping_neg(x) : x; }
template <class T> __device__ __forceinline__ T quotient(T x, T y) {
    if (y == T(0)) return T(0);
    return is_signed<T>() && y == T(-1) ? wrapping_neg(x) : (T)(x / y);
}
template <class T> __device__ __forceinline__ T remainder_toward_zero(T x, T y) {
    return y == T(0) || (is_signed<T>() && y == T(-1)) ? T(0) : (T)(x % y);
}
template <class T> __device__ __forceinline__ T remainder_floored(T x, T y) {
    const T r = remainder_toward_zero(x, y);
    return r != T(0) && is_negative(r) != is_negative(y) ? (T)(r + y) : r;
}
template <class T> __device__ __forceinline__ T real_remainder_floored(T x, T y) {
    const T r = remainder_toward_zero(x, y);
    if (r == T(0)) return with_sign(T(0), y);
    return r == r && (r < T(0)) != (y < T(0)) ? r + y : r;
}
__device__ __forceinline__ float remainder_floored(float x, float y) { return real_remainder_floored(x, y); }
__device__ __forceinline__ double remainder_floored(double x, double y) { return real_remainder_floored(x, y); }
template <class T> __device__ __forceinline__ T integer_pow(T base, long long y) {
    unsigned long long x = (unsigned long long)(long long)base, result = 1;
    if (y < 0) return base == T(1) ? T(1) : (long long)base == -1 ? (y & 1 ? (T)-1 : T(1)) : T(0);
    for (; y; y >>= 1, x *= x)
        if (y & 1) result *= x;
    return (T)result;
}
// Shifts by all bits or more, or by less than none, leave the sign alone.
template <class T> __device__ __forceinline__ T shift_left(T x, T y) {
    return (unsigned long long)y >= 8 * sizeof(T) ? T(0) : (T)((unsigned long long)x << y);
}
template <class T> __device__ __forceinline__ T shift_right(T x, T y) {
    return (unsigned long long)y >= 8 * sizeof(T) ? (is_negative(x) ? (T)-1 : T(0)) : (T)(x >> y);
}

// Coordinates outside of [0, last]: the nearest inside, mirrored about the border elements, repeated.
template <class T> __device__ __forceinline__ T clamped(T i, T last) { return i < 0 ? 0 : i > last ? last : i; }
template <class T> __device__ __forceinline__ T wrapped(T i, T extent) {
    i %= extent;
    return i < 0 ? i + extent : i;
}
template <class T> __device__ __forceinline__ T reflected(T i, T last) {
    if (i < 0) i = -i;
    if (i > last) i = 2 * last - i;
    if (i >= 0) return i;
    i = wrapped<T>(-i, 2 * last);  // mirrored more than once
    return i > last ? 2 * last - i : i;
}

// Floating numbers to integers: cut toward zero, then wrapped; NaN and what 64 bits do not hold is the smallest.
__device__ __forceinline__ long long cut(double x) {
    if (x >= -9223372036854775808.0 && x < 9223372036854775808.0) return (long long)x;
    if (x >= 9223372036854775808.0 && x < 18446744073709551616.0) return (long long)(unsigned long long)x;
    return (long long)0x8000000000000000ull;
}
__device__ __forceinline__ long long cut(float x) {
    if (x >= -9223372036854775808.0f && x < 9223372036854775808.0f) return (long long)x;
    if (x >= 9223372036854775808.0f && x < 18446744073709551616.0f) return (long long)(unsigned long long)x;
    return (long long)0x8000000000000000ull;
}
// Rounded half to even and kept inside of the range of T.
template <class T, class From> __device__ __forceinline__ T saturated(From x) {
    const From top = (From)(is_signed<T>() ? 1ull << (8 * sizeof(T) - 1) : 2 * (1ull << (8 * sizeof(T) - 2))) * (is_signed<T>() ? From(1) : From(2));
    x = round(x);
    if (x >= top) return (T)(is_signed<T>() ? ~(1ull << (8 * sizeof(T) - 1)) : ~0ull);
    if (!(x >= (is_signed<T>() ? -top : From(0)))) return (T)(is_signed<T>() ? 1ull << (8 * sizeof(T) - 1) : 0ull);
    return (T)x;
}
// To float so that a second rounding, to a narrower type, gives what one rounding would: inexact results end in a 1.
__device__ __forceinline__ float to_odd(double x) {
    const float f = (float)x;
    const double back = f;
    unsigned int u = bits_as<unsigned int>(f);
    if (back == x || x != x || (u & 1)) return f;
    if ((u & 0x7fffffffu) == 0x7f800000u) return bits_as<float>(u - 1);
    const bool over = ::fabs(back) > ::fabs(x);
    return bits_as<float>(over ? u - 1 : u + 1);
}
__device__ __forceinline__ float to_odd(unsigned long long x) {
    unsigned long long lost = 0;
    int places = 0;
    for (; x >> 24; ++places) {
        lost |= x & 1;
        x >>= 1;
    }
    return (float)(x | lost) * bits_as<float>((unsigned int)(127 + places) << 23);
}
__device__ __forceinline__ float to_odd(long long x) { return x < 0 ? -to_odd((unsigned long long)-(x + 1) + 1) : to_odd((unsigned long long)x); }

template <class T> __device__ __forceinline__ bool is_nan(T x) { return x != x; }
template <class T> __device__ __forceinline__ bool is_finite(T x) { return abs(x) < infinity<T>(); }
template <class T> __device__ __forceinline__ T sign(T x) { return x > T(0) ? T(1) : is_negative(x) ? (T)-1 : x; }
template <class T> __device__ __forceinline__ T maximum(T x, T y) { return y > x || y != y ? y : x; }
template <class T> __device__ __forceinline__ T minimum(T x, T y) { return y < x || y != y ? y : x; }

template <class T> __device__ __forceinline__ T clamp_into(T x, T low, T high) {
    if (x < low) x = low;
    return x > high ? high : x;
}
template <class T> __device__ __forceinline__ T unit_clip(T x) { return clamp_into(x, T(0), T(1)); }
)cuda";
}

// What uses activations, and random numbers.
inline const char* prelude_functions_behind() noexcept {
    return R"cuda(
template <class T> __device__ __forceinline__ T wrapping_leaky_relu(T x, T alpha) { return is_negative(x) ? wrapping_mul(x, alpha) : x; }
template <class T> __device__ __forceinline__ T thresholded_relu(T x, T alpha) { return x > alpha ? x : T(0); }
template <class T> __device__ __forceinline__ T selu(T x, T alpha, T gamma) { return gamma * (x <= T(0) ? alpha * expm1(x) : x); }
template <class T> __device__ __forceinline__ T celu(T x, T alpha) {
    const T below = alpha * expm1(x / alpha);
    return (x < T(0) ? T(0) : x) + (below < T(0) ? below : T(0));
}
template <class T> __device__ __forceinline__ T swish(T x, T alpha) { return x * sigmoid(alpha * x); }
template <class T> __device__ __forceinline__ T swiglu(T a, T b, T alpha) { return a * sigmoid(alpha * a) * b; }
template <class T> __device__ __forceinline__ T softsign(T x) { return x / (T(1) + abs(x)); }
template <class T> __device__ __forceinline__ T shrink(T x, T lambd, T bias) { return x < -lambd ? x + bias : x > lambd ? x - bias : T(0); }

// Random numbers by counter, Philox4x32-10 (Salmon et al., 2011): 64 bits each, two from a block.
struct random_block { unsigned long long half[2]; };
__device__ __forceinline__ random_block philox(unsigned long long seed, unsigned long long stream, unsigned long long counter) {
    unsigned int x0 = (unsigned int)counter, x1 = (unsigned int)(counter >> 32), x2 = (unsigned int)stream, x3 = (unsigned int)(stream >> 32);
    unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
        const unsigned long long p = 0xd2511f53ull * x0, q = 0xcd9e8d57ull * x2;
        x0 = (unsigned int)(q >> 32) ^ x1 ^ k0;
        x1 = (unsigned int)q;
        x2 = (unsigned int)(p >> 32) ^ x3 ^ k1;
        x3 = (unsigned int)p;
    }
    random_block b;
    b.half[0] = (unsigned long long)x1 << 32 | x0;
    b.half[1] = (unsigned long long)x3 << 32 | x2;
    return b;
}
// The upper 53 bits of number `first` + i of the stream.
template <int N> __device__ __forceinline__ pack<unsigned long long, N> random_numbers(unsigned long long seed, unsigned long long stream, unsigned long long first) {
    pack<unsigned long long, N> p;
    const bool odd = first & 1;
    random_block b = philox(seed, stream, first >> 1);
#pragma unroll
    for (int i = 0; i < N; i += 2) {
        random_block next = b;
        if (i + 1 < N) next = philox(seed, stream, (first >> 1) + i / 2 + 1);
        p.at[i] = (odd ? b.half[1] : b.half[0]) >> 11;
        if (i + 1 < N) p.at[i + 1] = (odd ? next.half[0] : b.half[1]) >> 11;
        b = next;
    }
    return p;
}

}  // namespace graft
using namespace graft;  // entry points are found without their namespace, too
)cuda";
}

}  // namespace detail
}  // namespace gpu
GRAFT_END_NAMESPACE
