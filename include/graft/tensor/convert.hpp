// Runs of elements of any type to and from double and int64: what the type-erased reference kernels stand on.
#pragma once

#include "../core/dtype.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

GRAFT_BEGIN_NAMESPACE

// The 8-, 6- and 4-bit floats are decoded by formula: sign, exponent and mantissa widths, bias, and what the top code means.
struct small_float_format {
    int exponent_bits, mantissa_bits, bias;
    bool has_infinity;   // IEEE-like: top exponent is infinity / NaN
    bool unsigned_zero;  // fnuz: 0x80 is the only NaN, no negative zero
    bool has_nan;        // e2m1 has none
};

inline small_float_format small_float(dtype type) noexcept {
    switch (type) {
    case dtype::float8e4m3fn: return {4, 3, 7, false, false, true};
    case dtype::float8e4m3fnuz: return {4, 3, 8, false, true, true};
    case dtype::float8e5m2: return {5, 2, 15, true, false, true};
    case dtype::float8e5m2fnuz: return {5, 2, 16, false, true, true};
    default: return {2, 1, 1, false, false, false};  // float4e2m1
    }
}

inline double small_float_to_double(dtype type, std::uint8_t bits) noexcept {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    if (type == dtype::float8e8m0) return bits == 255 ? nan : std::ldexp(1.0, int(bits) - 127);
    const small_float_format f = small_float(type);
    const int width = 1 + f.exponent_bits + f.mantissa_bits, sign = bits >> (width - 1) & 1;
    const int exponent = bits >> f.mantissa_bits & ((1 << f.exponent_bits) - 1), mantissa = bits & ((1 << f.mantissa_bits) - 1);
    const int top = (1 << f.exponent_bits) - 1, full = (1 << f.mantissa_bits) - 1;
    if (f.unsigned_zero && sign && !exponent && !mantissa) return nan;
    if (f.has_infinity && exponent == top) return mantissa ? nan : (sign ? -HUGE_VAL : HUGE_VAL);
    if (f.has_nan && !f.has_infinity && !f.unsigned_zero && exponent == top && mantissa == full) return nan;
    const double value = exponent ? std::ldexp(1.0 + mantissa / double(1 << f.mantissa_bits), exponent - f.bias)
                                  : std::ldexp(mantissa / double(1 << f.mantissa_bits), 1 - f.bias);
    return sign ? -value : value;
}

// Rounds half to even. `saturate` as ONNX's Cast has it: out of range becomes the largest value, else NaN (or infinity).
inline std::uint8_t double_to_small_float(dtype type, double d, bool saturate) noexcept {
    if (type == dtype::float8e8m0) {
        if (!(d == d)) return 255;
        if (d <= 0) return 0;
        if (std::isinf(d)) return saturate ? 254 : 255;
        int exponent = 0;
        const double mantissa = std::frexp(d, &exponent) * 2;  // d = mantissa * 2^(exponent - 1), mantissa in [1, 2)
        const int code = exponent - 1 + 127 + (mantissa >= 1.5 ? 1 : 0);
        return static_cast<std::uint8_t>(code < 0 ? 0 : code > 254 ? (saturate ? 254 : 255) : code);
    }
    const small_float_format f = small_float(type);
    const int width = 1 + f.exponent_bits + f.mantissa_bits;
    const std::uint8_t sign = static_cast<std::uint8_t>(std::signbit(d) ? 1 << (width - 1) : 0);
    const int top = (1 << f.exponent_bits) - 1, full = (1 << f.mantissa_bits) - 1;
    const std::uint8_t nan = f.unsigned_zero ? std::uint8_t(0x80) : static_cast<std::uint8_t>(sign | (top << f.mantissa_bits) | full);
    // The largest finite code: e5m2 stops below the top exponent, e4m3fn one mantissa step below NaN, the others at the very top.
    const int largest = f.has_infinity                    ? ((top - 1) << f.mantissa_bits) | full
                        : (f.has_nan && !f.unsigned_zero) ? ((top << f.mantissa_bits) | (full - 1))
                                                          : ((top << f.mantissa_bits) | full);
    if (!(d == d)) return f.has_nan ? nan : std::uint8_t(0);
    const std::uint8_t beyond = saturate || !f.has_nan ? static_cast<std::uint8_t>(sign | largest)
                                : f.has_infinity       ? static_cast<std::uint8_t>(sign | (top << f.mantissa_bits))
                                                       : nan;
    const double a = std::fabs(d);
    if (std::isinf(a)) return beyond;
    int exponent = 0;
    std::frexp(a, &exponent);
    int e = exponent - 1 + f.bias;
    if (a == 0 || e < 1) e = 1;  // subnormal step
    const double step = std::ldexp(1.0, e - f.bias - f.mantissa_bits);
    const double units = std::nearbyint(a / step);  // default rounding mode: half to even
    // `units` counts steps of this binade; normal numbers start at 2^mantissa_bits, and overflow into the next binade adds up by itself.
    const int code = static_cast<int>(units) + ((e - 1) << f.mantissa_bits);
    if (code > largest) return beyond;
    if (code == 0) return f.unsigned_zero ? std::uint8_t(0) : sign;
    return static_cast<std::uint8_t>(sign | code);
}

/// Elements [first, first + n) of `data` as doubles.
void load_as_double(dtype type, const void* data, std::int64_t first, std::int64_t n, double* out) noexcept;
/// Elements [first, first + n) of `data` as 64-bit integers: floats cut toward zero, uint64 wraps.
void load_as_int64(dtype type, const void* data, std::int64_t first, std::int64_t n, std::int64_t* out) noexcept;
/// Stores doubles: floats rounded once, half to even; integers cut toward zero and wrapped; bool is value != 0.
void store_from_double(dtype type, void* data, std::int64_t first, std::int64_t n, const double* in) noexcept;
/// Stores 64-bit integers: narrower ones wrap.
void store_from_int64(dtype type, void* data, std::int64_t first, std::int64_t n, const std::int64_t* in) noexcept;

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE

// double to int64 without undefined behaviour: NaN becomes the smallest, as x86 does, and so does what is out of range.
inline std::int64_t cut(double d) noexcept {
    if (d >= -9223372036854775808.0 && d < 9223372036854775808.0) return static_cast<std::int64_t>(d);
    if (d >= 9223372036854775808.0 && d < 18446744073709551616.0) return static_cast<std::int64_t>(static_cast<std::uint64_t>(d));
    return INT64_MIN;
}

template <class To, class T>
inline void load_run(const void* data, std::int64_t first, std::int64_t n, To* out) noexcept {
    const T* p = static_cast<const T*>(data) + first;
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<To>(p[i]);  // NOLINT(bugprone-signed-char-misuse): int8 is a number here
}
template <class From, class T>
inline void store_run(void* data, std::int64_t first, std::int64_t n, const From* in) noexcept {
    T* p = static_cast<T*>(data) + first;
    for (std::int64_t i = 0; i < n; ++i) p[i] = static_cast<T>(in[i]);
}

GRAFT_INLINE void load_as_double(dtype type, const void* data, std::int64_t first, std::int64_t n, double* out) noexcept {
    switch (type) {
    case dtype::float32: return load_run<double, float>(data, first, n, out);
    case dtype::float64: return load_run<double, double>(data, first, n, out);
    case dtype::int4:
    case dtype::int2:
    case dtype::int8: return load_run<double, std::int8_t>(data, first, n, out);
    case dtype::uint4:
    case dtype::uint2:
    case dtype::boolean:
    case dtype::uint8: return load_run<double, std::uint8_t>(data, first, n, out);
    case dtype::int16: return load_run<double, std::int16_t>(data, first, n, out);
    case dtype::uint16: return load_run<double, std::uint16_t>(data, first, n, out);
    case dtype::int32: return load_run<double, std::int32_t>(data, first, n, out);
    case dtype::uint32: return load_run<double, std::uint32_t>(data, first, n, out);
    case dtype::int64: return load_run<double, std::int64_t>(data, first, n, out);
    case dtype::uint64: return load_run<double, std::uint64_t>(data, first, n, out);
    case dtype::float16:
        for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<double>(to_float(static_cast<const float16*>(data)[first + i]));
        return;
    case dtype::bfloat16:
        for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<double>(to_float(static_cast<const bfloat16*>(data)[first + i]));
        return;
    case dtype::float8e4m3fn:
    case dtype::float8e4m3fnuz:
    case dtype::float8e5m2:
    case dtype::float8e5m2fnuz:
    case dtype::float4e2m1:
    case dtype::float8e8m0:
        for (std::int64_t i = 0; i < n; ++i) out[i] = small_float_to_double(type, static_cast<const std::uint8_t*>(data)[first + i]);
        return;
    default:
        for (std::int64_t i = 0; i < n; ++i) out[i] = 0;
    }
}

GRAFT_INLINE void load_as_int64(dtype type, const void* data, std::int64_t first, std::int64_t n, std::int64_t* out) noexcept {
    switch (type) {
    case dtype::int4:
    case dtype::int2:
    case dtype::int8: return load_run<std::int64_t, std::int8_t>(data, first, n, out);
    case dtype::uint4:
    case dtype::uint2:
    case dtype::boolean:
    case dtype::uint8: return load_run<std::int64_t, std::uint8_t>(data, first, n, out);
    case dtype::int16: return load_run<std::int64_t, std::int16_t>(data, first, n, out);
    case dtype::uint16: return load_run<std::int64_t, std::uint16_t>(data, first, n, out);
    case dtype::int32: return load_run<std::int64_t, std::int32_t>(data, first, n, out);
    case dtype::uint32: return load_run<std::int64_t, std::uint32_t>(data, first, n, out);
    case dtype::int64: return load_run<std::int64_t, std::int64_t>(data, first, n, out);
    case dtype::uint64: return load_run<std::int64_t, std::uint64_t>(data, first, n, out);
    default:
        for (std::int64_t i = 0; i < n; ++i) {
            double d = 0;
            load_as_double(type, data, first + i, 1, &d);
            out[i] = cut(d);
        }
    }
}

GRAFT_INLINE void store_from_int64(dtype type, void* data, std::int64_t first, std::int64_t n, const std::int64_t* in) noexcept {
    switch (type) {
    case dtype::int8: return store_run<std::int64_t, std::int8_t>(data, first, n, in);
    case dtype::uint8: return store_run<std::int64_t, std::uint8_t>(data, first, n, in);
    case dtype::int16: return store_run<std::int64_t, std::int16_t>(data, first, n, in);
    case dtype::uint16: return store_run<std::int64_t, std::uint16_t>(data, first, n, in);
    case dtype::int32: return store_run<std::int64_t, std::int32_t>(data, first, n, in);
    case dtype::uint32: return store_run<std::int64_t, std::uint32_t>(data, first, n, in);
    case dtype::int64: return store_run<std::int64_t, std::int64_t>(data, first, n, in);
    case dtype::uint64: return store_run<std::int64_t, std::uint64_t>(data, first, n, in);
    case dtype::boolean:
        for (std::int64_t i = 0; i < n; ++i) static_cast<std::uint8_t*>(data)[first + i] = in[i] != 0;
        return;
    case dtype::uint4:
    case dtype::uint2:
        for (std::int64_t i = 0; i < n; ++i) static_cast<std::uint8_t*>(data)[first + i] = static_cast<std::uint8_t>(in[i] & (type == dtype::uint4 ? 15 : 3));
        return;
    case dtype::int4:
    case dtype::int2:
        for (std::int64_t i = 0; i < n; ++i) {
            const int bits = type == dtype::int4 ? 4 : 2, low = static_cast<int>(in[i] & ((1 << bits) - 1));
            static_cast<std::int8_t*>(data)[first + i] = static_cast<std::int8_t>(low >= 1 << (bits - 1) ? low - (1 << bits) : low);
        }
        return;
    default:
        for (std::int64_t i = 0; i < n; ++i) {
            const double d = static_cast<double>(in[i]);
            store_from_double(type, data, first + i, 1, &d);
        }
    }
}

GRAFT_INLINE void store_from_double(dtype type, void* data, std::int64_t first, std::int64_t n, const double* in) noexcept {
    switch (type) {
    case dtype::float32:
        for (std::int64_t i = 0; i < n; ++i) static_cast<float*>(data)[first + i] = static_cast<float>(in[i]);
        return;
    case dtype::float64:
        for (std::int64_t i = 0; i < n; ++i) static_cast<double*>(data)[first + i] = in[i];
        return;
    case dtype::float16:
        for (std::int64_t i = 0; i < n; ++i) static_cast<float16*>(data)[first + i] = to_float16(in[i]);
        return;
    case dtype::bfloat16:
        for (std::int64_t i = 0; i < n; ++i) static_cast<bfloat16*>(data)[first + i] = to_bfloat16(in[i]);
        return;
    case dtype::float8e4m3fn:
    case dtype::float8e4m3fnuz:
    case dtype::float8e5m2:
    case dtype::float8e5m2fnuz:
    case dtype::float4e2m1:
    case dtype::float8e8m0:
        for (std::int64_t i = 0; i < n; ++i) static_cast<std::uint8_t*>(data)[first + i] = double_to_small_float(type, in[i], true);
        return;
    case dtype::boolean:
        for (std::int64_t i = 0; i < n; ++i) static_cast<std::uint8_t*>(data)[first + i] = in[i] != 0;
        return;
    default:
        for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t whole = cut(in[i]);
            store_from_int64(type, data, first + i, 1, &whole);
        }
    }
}

GRAFT_END_NAMESPACE
#endif
