// What the picture tests share: base64, checksums, and the noise that scripts/golden/pillow.py draws as well.
#pragma once

#include "golden.hpp"

#include <graft/data/decode.hpp>

#include <cstring>
#include <memory>
#include <string>

inline std::string from_base64(const char* text) {
    std::string out;
    unsigned bits = 0, held = 0;
    for (; *text && *text != '='; ++text) {
        const char c = *text;
        const int v = c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= '0' && c <= '9' ? c - '0' + 52 : c == '+' ? 62 : 63;
        held = held << 6 | static_cast<unsigned>(v);
        if ((bits += 6) >= 8) out += static_cast<char>(held >> (bits -= 8) & 255);
    }
    return out;
}

inline std::uint32_t crc_of(const void* bytes, std::size_t size) {
    std::uint32_t crc = ~0u;
    for (std::size_t i = 0; i < size; ++i) {
        crc ^= static_cast<const std::uint8_t*>(bytes)[i];
        for (int k = 0; k < 8; ++k) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0u);
    }
    return ~crc;
}

inline std::uint32_t crc_of(const graft::image& picture) { return crc_of(picture.data(), static_cast<std::size_t>(picture.bytes())); }

inline graft::image noise(std::int64_t height, std::int64_t width, int channels) {
    graft::image made = graft::image::make(height, width, channels).value();
    std::uint32_t state = 12345;
    for (std::int64_t i = 0; i < made.bytes(); ++i) {
        state = state * 1664525u + 1013904223u;
        made.data()[i] = static_cast<std::uint8_t>(state >> 24);
    }
    return made;
}

// The golden picture of that name, encoded.
inline std::string golden_file(const std::string& name) {
    for (const golden_picture& picture : golden_pictures)
        if (name == picture.name) return from_base64(picture.file);
    return "";
}

// The code that decoding ends with, "ok" where it ends well.
inline std::string verdict(const std::string& file, const graft::limits& caps = {}) {
    // A block of exactly that size, so that a sanitizer sees every byte that is read too far.
    const std::unique_ptr<char[]> exact(new char[file.size() + (file.empty() ? 1 : 0)]);
    file.copy(exact.get(), file.size());
    const auto decoded = graft::decode(exact.get(), file.size(), "test", caps);
    return decoded.ok() ? "ok" : graft::text(decoded.error().code());
}
