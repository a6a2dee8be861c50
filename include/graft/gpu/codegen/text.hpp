// Pieces of CUDA C++ text: names of types, and literals that are exact.
#pragma once

#include "../../core/dtype.hpp"
#include "../../core/number_text.hpp"

#include <cstdint>
#include <string>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Whether generated kernels know the type: floats of 16 bits and more, integers of 8 bits and more, bool.
inline bool is_generated(dtype type) noexcept {
    switch (type) {
    case dtype::float32:
    case dtype::float16:
    case dtype::bfloat16:
    case dtype::float64:
    case dtype::boolean: return true;
    default: return is_integer(type) && file_bits(type) >= 8;
    }
}

/// The type that elements of a type are computed in: float for the floats up to 32 bits, else the type itself.
inline dtype compute_type(dtype type) noexcept { return type == dtype::float16 || type == dtype::bfloat16 ? dtype::float32 : type; }

/// Name of the type as it lies in memory: "half", "float", "signed char".
const char* memory_name(dtype type) noexcept;

/// Name of the type that it is computed in.
inline const char* compute_name(dtype type) noexcept { return memory_name(compute_type(type)); }

/// A literal of the type `compute_type(type)` with exactly this value; infinities and NaN included.
std::string literal(dtype type, double value);
/// The same for integers, which a double may not hold; uint64 reads the bits as unsigned.
std::string literal(dtype type, std::int64_t value);
/// The literal of element i of `data`.
std::string element_literal(dtype type, const void* data, std::int64_t i);

/// `text` without the lines "const <type> <name> = ...;" whose name nothing behind them mentions: rules write coordinates down before
/// they know which of them will matter.
std::string without_unused(const std::string& text);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../tensor/convert.hpp"
#include "../../tensor/tensor.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <vector>
GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE const char* memory_name(dtype type) noexcept {
    switch (type) {
    case dtype::float32: return "float";
    case dtype::float16: return "half";
    case dtype::bfloat16: return "bfloat16";
    case dtype::float64: return "double";
    case dtype::boolean: return "bool";
    case dtype::int8: return "signed char";
    case dtype::uint8: return "unsigned char";
    case dtype::int16: return "short";
    case dtype::uint16: return "unsigned short";
    case dtype::int32: return "int";
    case dtype::uint32: return "unsigned int";
    case dtype::int64: return "long long";
    case dtype::uint64: return "unsigned long long";
    default: return "void";
    }
}

GRAFT_INLINE std::string literal(dtype type, double value) {
    const dtype computed = compute_type(type);
    if (!is_float(computed)) return literal(type, cut(value));
    const bool wide = computed == dtype::float64;
    if (!wide) value = static_cast<double>(static_cast<float>(value));
    if (value != value) return wide ? "not_a_number<double>()" : "not_a_number<float>()";
    if (std::isinf(value)) return std::string(value < 0 ? "-" : "") + (wide ? "infinity<double>()" : "infinity<float>()");
    // Short decimals are read best; the others are written in hexadecimal, which is exact.
    std::string s = graft::detail::number_text("%.4g", value);
    const double back = graft::detail::read_number(s.c_str());
    const bool same = wide ? back == value : static_cast<double>(static_cast<float>(back)) == value;
    if (!same) s = graft::detail::number_text("%a", value);
    if (s.find_first_of(".ep") == std::string::npos) s += ".0";
    return wide ? s : s + "f";
}

GRAFT_INLINE std::string literal(dtype type, std::int64_t value) {
    switch (compute_type(type)) {
    case dtype::boolean: return value ? "true" : "false";
    case dtype::float32:
    case dtype::float64: return literal(type, static_cast<double>(value));
    case dtype::uint64: return std::to_string(static_cast<std::uint64_t>(value)) + "ull";
    case dtype::int64: return value == INT64_MIN ? "(-9223372036854775807ll - 1)" : std::to_string(value) + "ll";
    case dtype::uint32: return std::to_string(static_cast<std::uint32_t>(value)) + "u";
    case dtype::int32: return static_cast<std::int32_t>(value) == INT32_MIN ? "(-2147483647 - 1)" : std::to_string(static_cast<std::int32_t>(value));
    case dtype::int8: return std::to_string(static_cast<std::int8_t>(value));
    case dtype::uint8: return std::to_string(static_cast<std::uint8_t>(value));
    case dtype::int16: return std::to_string(static_cast<std::int16_t>(value));
    default: return std::to_string(static_cast<std::uint16_t>(value));
    }
}

GRAFT_INLINE std::string element_literal(dtype type, const void* data, std::int64_t i) {
    return is_float(type) ? literal(type, element_as_double(type, data, i)) : literal(type, element_as_int64(type, data, i));
}

namespace detail {

inline bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// The name that a line defines, or nothing.
inline std::string defined_name(const std::string& line) {
    const std::size_t first = line.find_first_not_of(' '), equals = line.find(" = ");
    if (first == std::string::npos || line.compare(first, 6, "const ") != 0 || equals == std::string::npos || line.back() != ';') return {};
    return line.substr(line.rfind(' ', equals - 1) + 1, equals - line.rfind(' ', equals - 1) - 1);
}

}  // namespace detail

GRAFT_INLINE std::string without_unused(const std::string& text) {
    std::vector<std::string> kept;
    std::set<std::string> used;
    for (std::size_t end = text.size(); end > 0;) {  // from the last line to the first, so that one pass is enough
        const std::size_t newline = end >= 2 ? text.rfind('\n', end - 2) : std::string::npos, begin = newline == std::string::npos ? 0 : newline + 1;
        const std::string line = text.substr(begin, end - begin - (text[end - 1] == '\n'));
        end = begin;
        const std::string name = detail::defined_name(line);
        if (!name.empty() && !used.count(name)) continue;
        for (std::size_t i = 0; i < line.size(); ++i) {
            if (!detail::is_letter(line[i])) continue;
            const std::size_t word = i;
            while (i < line.size() && detail::is_letter(line[i])) ++i;
            used.insert(line.substr(word, i - word));
        }
        kept.push_back(line);
    }
    std::string out;
    for (std::size_t i = kept.size(); i-- > 0;) out += kept[i] + "\n";
    return out;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
