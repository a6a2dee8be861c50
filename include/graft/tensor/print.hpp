// Tensors, shapes and element types as text, for messages, logs and streams of any kind.
#pragma once

#include "../core/number_text.hpp"
#include "tensor.hpp"

#include <string>
#include <utility>

GRAFT_BEGIN_NAMESPACE

/// As `name` has it: "float32".
inline std::string to_string(dtype type) { return name(type); }
/// As `text` has it: "[2,3,?]".
inline std::string to_string(const shape& s) { return text(s); }
/// The element type, the shape and the first elements: "float32 [2,3]: 0.5, 1, 2, 3, 4, 5".
std::string to_string(const tensor& t);

namespace detail {
// Whatever text can be written to: std::ostream and its like, which are not included for it.
template <class Stream>
using stream_of_text = decltype(std::declval<Stream&>() << std::declval<const char*>());
}  // namespace detail

/// `std::cout << t.shape()`: what `to_string` says.
template <class Stream, class = detail::stream_of_text<Stream>>
Stream& operator<<(Stream& out, dtype type) {
    return out << name(type), out;
}
template <class Stream, class = detail::stream_of_text<Stream>>
Stream& operator<<(Stream& out, const shape& s) {
    return out << to_string(s).c_str(), out;
}
template <class Stream, class = detail::stream_of_text<Stream>>
Stream& operator<<(Stream& out, const tensor& t) {
    return out << to_string(t).c_str(), out;
}

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cstdio>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE std::string to_string(const tensor& t) {
    constexpr std::int64_t shown = 8;
    if (!t) return "no tensor";
    std::string out = std::string(name(t.type())) + " " + text(t.shape());
    for (std::int64_t i = 0; i < t.elements() && i < shown; ++i) {
        const std::int64_t whole = is_float(t.type()) ? 0 : element_as_int64(t.type(), t.raw(), i);
        out += (i ? ", " : ": ") + (is_float(t.type())      ? detail::number_text("%.6g", element_as_double(t.type(), t.raw(), i))
                                    : is_unsigned(t.type()) ? std::to_string(static_cast<std::uint64_t>(whole))
                                                            : std::to_string(whole));
    }
    return t.elements() > shown ? out + ", ..." : out;
}

GRAFT_END_NAMESPACE
#endif
