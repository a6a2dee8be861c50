// UTF-8: checking, and writing code points.
#pragma once

#include "../config.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

GRAFT_BEGIN_NAMESPACE

/// Bytes of the well-formed character at the start of `text`, 0 where there is none (overlong forms, surrogates and what lies
/// past U+10FFFF are not well formed).
std::size_t utf8_length(std::string_view text) noexcept;
/// Whether all of the text is well-formed UTF-8.
bool is_utf8(std::string_view text) noexcept;
/// Appends a code point; it must be one (not a surrogate, at most U+10FFFF).
void append_utf8(std::string& out, std::uint32_t code_point);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE std::size_t utf8_length(std::string_view text) noexcept {
    if (text.empty()) return 0;
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t(0); };
    const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
    const std::uint8_t a = byte(0), b = byte(1);
    if (a < 0x80) return 1;
    if (a < 0xc2) return 0;
    if (a < 0xe0) return follows(1) ? 2 : 0;
    if (a < 0xf0) {
        if (!follows(1) || !follows(2) || (a == 0xe0 && b < 0xa0) || (a == 0xed && b >= 0xa0)) return 0;
        return 3;
    }
    if (a > 0xf4 || !follows(1) || !follows(2) || !follows(3) || (a == 0xf0 && b < 0x90) || (a == 0xf4 && b >= 0x90)) return 0;
    return 4;
}

GRAFT_INLINE bool is_utf8(std::string_view text) noexcept {
    while (!text.empty()) {
        const std::size_t n = utf8_length(text);
        if (!n) return false;
        text.remove_prefix(n);
    }
    return true;
}

GRAFT_INLINE void append_utf8(std::string& out, std::uint32_t c) {
    const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
    if (c < 0x80) return put(c);
    if (c < 0x800)
        put(0xc0 | c >> 6);
    else if (c < 0x10000)
        put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 0x3f));
    else
        put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 0x3f)), put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
}

GRAFT_END_NAMESPACE
#endif
