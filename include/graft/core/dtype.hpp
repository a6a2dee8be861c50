// Element types, numbered as ONNX numbers them, and the exact conversions between the narrow floats and float.
#pragma once

#include "../config.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

GRAFT_BEGIN_NAMESPACE

/// The type of a tensor's elements; the numbers are those of onnx.TensorProto.DataType.
enum class dtype {
    undefined = 0,
    float32 = 1,
    uint8 = 2,
    int8 = 3,
    uint16 = 4,
    int16 = 5,
    int32 = 6,
    int64 = 7,
    string = 8,
    boolean = 9,
    float16 = 10,
    float64 = 11,
    uint32 = 12,
    uint64 = 13,
    complex64 = 14,
    complex128 = 15,
    bfloat16 = 16,
    float8e4m3fn = 17,
    float8e4m3fnuz = 18,
    float8e5m2 = 19,
    float8e5m2fnuz = 20,
    uint4 = 21,
    int4 = 22,
    float4e2m1 = 23,
    float8e8m0 = 24,
    uint2 = 25,
    int2 = 26,
};

/// numpy's name of the type ("float32", "bool"), or ONNX's in lower case where numpy has none ("bfloat16"). Static storage.
inline const char* name(dtype type) noexcept {
    constexpr const char* names[] = {"undefined", "float32",    "uint8",      "int8",         "uint16",         "int16",      "int32",
                                     "int64",     "string",     "bool",       "float16",      "float64",        "uint32",     "uint64",
                                     "complex64", "complex128", "bfloat16",   "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
                                     "uint4",     "int4",       "float4e2m1", "float8e8m0",   "uint2",          "int2"};
    return static_cast<unsigned>(type) <= 26 ? names[static_cast<unsigned>(type)] : "undefined";
}

/// Bytes that one element takes in a tensor of graft, 0 for types that no tensor holds (string, complex).
/// The types below one byte are held one element a byte, sign-extended; files pack them.
inline std::size_t size_of(dtype type) noexcept {
    constexpr std::uint8_t sizes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 0, 0, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    return static_cast<unsigned>(type) <= 26 ? sizes[static_cast<unsigned>(type)] : 0;
}

/// Bits that one element takes in an ONNX file (`raw_data`).
inline std::size_t file_bits(dtype type) noexcept {
    switch (type) {
    case dtype::uint4:
    case dtype::int4:
    case dtype::float4e2m1: return 4;
    case dtype::uint2:
    case dtype::int2: return 2;
    default: return size_of(type) * 8;
    }
}

/// Whether the type is float16, bfloat16 or double: what float32 stands in for.
inline bool is_half_or_double(dtype type) noexcept { return type == dtype::float16 || type == dtype::bfloat16 || type == dtype::float64; }

/// Whether the type is a float of any width.
inline bool is_float(dtype type) noexcept {
    switch (type) {
    case dtype::float32:
    case dtype::float16:
    case dtype::float64:
    case dtype::bfloat16:
    case dtype::float8e4m3fn:
    case dtype::float8e4m3fnuz:
    case dtype::float8e5m2:
    case dtype::float8e5m2fnuz:
    case dtype::float4e2m1:
    case dtype::float8e8m0: return true;
    default: return false;
    }
}

/// Whether the type is an integer of any width; bool is not.
inline bool is_integer(dtype type) noexcept {
    switch (type) {
    case dtype::uint8:
    case dtype::int8:
    case dtype::uint16:
    case dtype::int16:
    case dtype::int32:
    case dtype::int64:
    case dtype::uint32:
    case dtype::uint64:
    case dtype::uint4:
    case dtype::int4:
    case dtype::uint2:
    case dtype::int2: return true;
    default: return false;
    }
}

/// Whether the type is an integer that has no negative values.
inline bool is_unsigned(dtype type) noexcept {
    switch (type) {
    case dtype::uint8:
    case dtype::uint16:
    case dtype::uint32:
    case dtype::uint64:
    case dtype::uint4:
    case dtype::uint2: return true;
    default: return false;
    }
}

/// IEEE 754 binary16, as stored; arithmetic is done in float.
struct float16 {
    std::uint16_t bits;
};
/// The upper half of a float, as stored.
struct bfloat16 {
    std::uint16_t bits;
};

/// The dtype of a C++ element type: `dtype_of<float>::value`.
template <class T>
struct dtype_of;
#define GRAFT_X(T, D) \
    template <> \
    struct dtype_of<T> { \
        static constexpr dtype value = dtype::D; \
    };
GRAFT_X(float, float32)
GRAFT_X(double, float64)
GRAFT_X(std::uint8_t, uint8)
GRAFT_X(std::int8_t, int8)
GRAFT_X(std::uint16_t, uint16)
GRAFT_X(std::int16_t, int16)
GRAFT_X(std::uint32_t, uint32)
GRAFT_X(std::int32_t, int32)
GRAFT_X(std::uint64_t, uint64)
GRAFT_X(std::int64_t, int64)
GRAFT_X(bool, boolean)
GRAFT_X(float16, float16)
GRAFT_X(bfloat16, bfloat16)
#undef GRAFT_X

/// Bits of `from` seen as a value of the type `To` of the same size.
template <class To, class From>
inline To bit_cast(From from) noexcept {
    static_assert(sizeof(To) == sizeof(From), "bit_cast needs equal sizes");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

/// float16 to float, exact.
inline float to_float(float16 h) noexcept {
    const std::uint32_t sign = std::uint32_t(h.bits & 0x8000u) << 16, exponent = (h.bits >> 10) & 31, mantissa = h.bits & 1023;
    if (exponent == 31) return bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
    if (exponent) return bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
    const float small = static_cast<float>(mantissa) * 5.9604644775390625e-8f;  // 2^-24: subnormal
    return sign ? -small : small;
}

/// bfloat16 to float, exact.
inline float to_float(bfloat16 b) noexcept { return bit_cast<float>(std::uint32_t(b.bits) << 16); }

/// double to float16, rounded once, half to even; too large becomes infinity, NaN stays NaN.
inline float16 to_float16(double d) noexcept {
    const std::uint64_t bits = bit_cast<std::uint64_t>(d);
    const std::uint16_t sign = static_cast<std::uint16_t>((bits >> 48) & 0x8000u);
    const double a = sign ? -d : d;
    if (!(d == d)) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
    if (a >= 65520.0) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
    if (a < 6.103515625e-05) {  // 2^-14: the result is subnormal, one unit is 2^-24
        const double units = a * 16777216.0, whole = static_cast<double>(static_cast<std::int64_t>(units)), rest = units - whole;
        auto n = static_cast<std::uint16_t>(whole);
        if (rest > 0.5 || (rest == 0.5 && (n & 1))) ++n;
        return {static_cast<std::uint16_t>(sign | n)};
    }
    const std::uint64_t magnitude = bits & 0x7fffffffffffffffull, dropped = magnitude & ((1ull << 42) - 1), half = 1ull << 41;
    std::uint64_t kept = (magnitude >> 42) - (std::uint64_t(1008) << 10);
    if (dropped > half || (dropped == half && (kept & 1))) ++kept;
    return {static_cast<std::uint16_t>(sign | kept)};
}

/// double to bfloat16, rounded once, half to even.
inline bfloat16 to_bfloat16(double d) noexcept {
    if (!(d == d)) return {static_cast<std::uint16_t>((bit_cast<std::uint64_t>(d) >> 63 << 15) | 0x7fc0u)};
    // Round to odd first, so that the second rounding sees every bit that was dropped.
    float f = static_cast<float>(d);
    std::uint32_t u = bit_cast<std::uint32_t>(f);
    const double back = static_cast<double>(f);
    if (back != d && !(u & 1) && (u & 0x7f800000u) != 0x7f800000u) {
        const bool over = (back < 0 ? -back : back) > (d < 0 ? -d : d);
        u = over ? u - 1 : u + 1;
    } else if (back != d && (u & 0x7fffffffu) == 0x7f800000u)
        u = (u & 0x80000000u) | 0x7f7fffffu;
    const std::uint32_t dropped = u & 0xffffu, kept = u >> 16;
    return {static_cast<std::uint16_t>(kept + (dropped > 0x8000u || (dropped == 0x8000u && (kept & 1))))};
}

GRAFT_END_NAMESPACE
