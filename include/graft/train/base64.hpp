// Base64 (RFC 4648): bytes as text, for pictures in a page and arrays in a model's metadata.
#pragma once

#include "../config.hpp"

#include <string>
#include <string_view>

GRAFT_BEGIN_NAMESPACE

/// The bytes in base64, with padding and without line breaks.
std::string base64_encode(std::string_view bytes);
/// The bytes of a text as `base64_encode` writes it; false for anything else.
bool base64_decode(std::string_view text, std::string& bytes);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cstddef>
#include <cstdint>
GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE std::string base64_encode(std::string_view bytes) {
    static constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t three = 0;
        for (std::size_t k = 0; k < 3; ++k) three = three << 8 | (i + k < bytes.size() ? static_cast<std::uint8_t>(bytes[i + k]) : 0u);
        out += digits[three >> 18];
        out += digits[three >> 12 & 63];
        out += i + 1 < bytes.size() ? digits[three >> 6 & 63] : '=';
        out += i + 2 < bytes.size() ? digits[three & 63] : '=';
    }
    return out;
}

GRAFT_INLINE bool base64_decode(std::string_view text, std::string& bytes) {
    bytes.clear();
    if (text.size() % 4) return false;
    const std::size_t padding = text.empty() ? 0 : (text[text.size() - 1] == '=') + (text[text.size() - 1] == '=' && text[text.size() - 2] == '=');
    bytes.reserve(text.size() / 4 * 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        const int digit = c >= 'A' && c <= 'Z'         ? c - 'A'
                          : c >= 'a' && c <= 'z'       ? c - 'a' + 26
                          : c >= '0' && c <= '9'       ? c - '0' + 52
                          : c == '+'                   ? 62
                          : c == '/'                   ? 63
                          : i >= text.size() - padding ? 0
                                                       : -1;
        if (digit < 0) return false;
        bits = bits << 6 | static_cast<std::uint32_t>(digit);
        if (i % 4 != 3) continue;
        for (int shift = 16; shift >= 0; shift -= 8) bytes += static_cast<char>(bits >> shift & 255);
        bits = 0;
    }
    bytes.resize(bytes.size() - padding);
    return true;
}

GRAFT_END_NAMESPACE
#endif
