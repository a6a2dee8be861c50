// PBM, PGM and PPM (P1 to P6) to RGB, up to 16 bits a sample; scaling and rounding are Pillow's.
#pragma once

#include "image.hpp"

#include <cmath>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

struct pnm_reader {
    const std::uint8_t* bytes;
    std::size_t size;
    const std::string& name;
    std::size_t at = 2;

    GRAFT_COLD status failed(errc code, const char* what) const { return fail(code, name, std::string("PNM: ") + what); }
    static bool space(std::uint8_t c) noexcept { return c == ' ' || (c >= 9 && c <= 13); }
    void skip_comment() noexcept {
        while (at < size && bytes[at] != '\n' && bytes[at] != '\r') ++at;
    }

    // A decimal number, and the one white space behind it.
    status number(std::int64_t& value) {
        int digits = 0;
        value = 0;
        for (; at < size; ++at) {
            const std::uint8_t c = bytes[at];
            if (c == '#') {
                skip_comment();
                continue;  // behind the comment a number that it has interrupted goes on
            }
            if (space(c)) {
                if (!digits) continue;
                break;
            }
            if (c < '0' || c > '9') return failed(errc::image_malformed, "a number is expected");
            if (++digits > 10) return failed(errc::image_malformed, "a number is too long");
            value = value * 10 + (c - '0');
        }
        if (!digits) return failed(errc::image_truncated, "the file ends too early");
        if (at < size) ++at;
        return {};
    }

    // One sample of a plain file, or of a binary one that is known to hold it.
    status sample(bool plain, bool wide, std::int64_t top, std::int64_t& value) {
        if (plain) {
            GRAFT_TRY(number(value));
            return value <= top ? status() : failed(errc::image_malformed, "a sample is over the largest value");
        }
        value = wide ? bytes[at] << 8 | bytes[at + 1] : bytes[at];
        at += wide ? 2 : 1;
        return {};
    }
};

inline result<image> decode_pnm(const std::uint8_t* bytes, std::size_t size, const std::string& name, const limits& caps) {
    pnm_reader in{bytes, size, name};
    const int kind = bytes[1] - '0';
    const bool plain = kind <= 3, bitmap = kind == 1 || kind == 4, colour = kind == 3 || kind == 6;
    std::int64_t width = 0, height = 0, top = 1;
    GRAFT_TRY(in.number(width));
    GRAFT_TRY(in.number(height));
    if (!bitmap) GRAFT_TRY(in.number(top));
    if (top < 1 || top > 65535) return in.failed(errc::image_malformed, "the largest value is not in 1..65535");
    GRAFT_TRY(check_image_size(width, height, name, caps));
    const std::int64_t samples = width * height * (colour ? 3 : 1), row_bits = (width + 7) / 8;
    // Every sample takes a byte, or an eighth of one: known before the picture is allocated.
    const std::int64_t least = kind == 4 ? row_bits * height : samples * (!plain && top > 255 ? 2 : 1);
    if (static_cast<std::int64_t>(size - in.at) < least) return in.failed(errc::image_truncated, "the file ends too early");
    image picture;
    GRAFT_TRY_ASSIGN(picture, image::make(height, width, 3));
    std::uint8_t* out = picture.data();
    if (kind == 4) {
        for (std::int64_t y = 0; y < height; ++y)
            for (std::int64_t x = 0; x < width; ++x, out += 3)
                std::memset(out, bytes[in.at + static_cast<std::size_t>(y * row_bits + x / 8)] >> (7 - x % 8) & 1 ? 0 : 255, 3);
        return picture;
    }
    if (kind == 1) {  // digits need no space between them
        for (std::int64_t n = 0; n < samples; ++in.at) {
            if (in.at >= size) return in.failed(errc::image_truncated, "the file ends too early");
            const std::uint8_t c = bytes[in.at];
            if (c == '#') {
                in.skip_comment();
                continue;
            }
            if (in.space(c)) continue;
            if (c != '0' && c != '1') return in.failed(errc::image_malformed, "a bit is neither 0 nor 1");
            std::memset(out + 3 * n++, c == '0' ? 255 : 0, 3);
        }
        return picture;
    }
    // Gray of more than 8 bits is scaled to 16 and loses its low byte; the rest is scaled to 8.
    const bool high_byte = !colour && top > 255;
    const double full = high_byte ? 65535.0 : 255.0;
    for (std::int64_t i = 0; i < samples; ++i) {
        std::int64_t value = 0;
        GRAFT_TRY(in.sample(plain, top > 255, top, value));
        if (top != 255) {
            const double scaled = std::nearbyint(static_cast<double>(value) / static_cast<double>(top) * full);
            value = static_cast<std::int64_t>(scaled < full ? scaled : full);
            if (high_byte) value >>= 8;
        }
        if (colour)
            out[i] = static_cast<std::uint8_t>(value);
        else
            std::memset(out + 3 * i, static_cast<int>(value), 3);
    }
    return picture;
}

}  // namespace detail
GRAFT_END_NAMESPACE
