// A walk over the segments of a JPEG file before anything is decoded: what kind it is, how large, whether it is whole.
#pragma once

#include "exif.hpp"
#include "image.hpp"

#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

struct jpeg_header {
    std::int64_t width = 0, height = 0;
    int components = 0, scans = 0;
    bool jfif = false, adobe = false;
    int adobe_transform = 0;
    std::size_t adobe_transform_at = 0;  // where in the file that byte stands
    std::size_t end = 0;                 // behind the EOI marker
    std::string exif, xmp;
};

GRAFT_COLD inline status jpeg_error(errc code, const std::string& name, const std::string& what) { return fail(code, name, "JPEG: " + what); }

// A frame header; `p` holds `n` bytes behind its length.
inline status read_jpeg_frame(int marker, const std::uint8_t* p, std::size_t n, const std::string& name, const limits& caps, jpeg_header& header) {
    if (marker == 0xc3) return jpeg_error(errc::image_unsupported, name, "lossless coding");
    if (marker == 0xc5 || marker == 0xc6 || marker == 0xc7 || marker == 0xde) return jpeg_error(errc::image_unsupported, name, "hierarchical coding");
    if (marker >= 0xc8) return jpeg_error(errc::image_unsupported, name, "arithmetic coding");
    if (header.components) return jpeg_error(errc::image_malformed, name, "two frames");
    if (n < 6) return jpeg_error(errc::image_malformed, name, "the frame header is too short");
    if (p[0] != 8) return jpeg_error(errc::image_unsupported, name, std::to_string(p[0]) + " bits a sample");
    header.height = p[1] << 8 | p[2];
    header.width = p[3] << 8 | p[4];
    const int components = p[5];
    if (components != 1 && components != 3 && components != 4) return jpeg_error(errc::image_malformed, name, std::to_string(components) + " components");
    if (n < 6 + 3 * static_cast<std::size_t>(components)) return jpeg_error(errc::image_malformed, name, "the frame header is too short");
    int across = 1, down = 1;
    for (int i = 0; i < components; ++i) {
        const int h = p[7 + 3 * i] >> 4, v = p[7 + 3 * i] & 15;
        if (h < 1 || h > 4 || v < 1 || v > 4) return jpeg_error(errc::image_malformed, name, "a sampling factor is not in 1..4");
        across = h > across ? h : across;
        down = v > down ? v : down;
    }
    for (int i = 0; i < components; ++i)
        if (across % (p[7 + 3 * i] >> 4) || down % (p[7 + 3 * i] & 15)) return jpeg_error(errc::image_unsupported, name, "fractional sampling");
    header.components = components;
    return check_image_size(header.width, header.height, name, caps);
}

// Huffman tables that are not prefix codes, or name coefficients wider than any, are refused here, whoever decodes.
inline status check_jpeg_huffman(const std::uint8_t* p, std::size_t n, const std::string& name) {
    while (n) {
        if (n < 17 || (p[0] >> 4) > 1 || (p[0] & 15) > 3) return jpeg_error(errc::image_malformed, name, "a Huffman table is not well formed");
        const bool dc = (p[0] >> 4) == 0;
        std::size_t symbols = 0;
        std::int64_t room = 1;
        for (int i = 1; i <= 16; ++i) {
            symbols += p[i];
            room = room * 2 - p[i];
            if (room < 0) return jpeg_error(errc::image_malformed, name, "a Huffman table is over-subscribed");
        }
        if (symbols > 256 || n < 17 + symbols) return jpeg_error(errc::image_malformed, name, "a Huffman table is too long");
        for (std::size_t i = 0; dc && i < symbols; ++i)
            if (p[17 + i] > 15) return jpeg_error(errc::image_malformed, name, "a Huffman table has an impossible symbol");
        p += 17 + symbols;
        n -= 17 + symbols;
    }
    return {};
}

inline void read_jpeg_application(int marker, const std::uint8_t* p, std::size_t n, std::size_t at, jpeg_header& header) {
    const auto starts = [p, n](const char* text, std::size_t size) { return n >= size && std::memcmp(p, text, size) == 0; };
    const char* chars = reinterpret_cast<const char*>(p);
    if (marker == 0xe0 && starts("JFIF", 5)) header.jfif = true;
    // NOLINTNEXTLINE(bugprone-string-literal-with-embedded-nul): all six bytes are compared
    if (marker == 0xe1 && starts("Exif\0\0", 6)) header.exif.append(chars + (header.exif.empty() ? 0 : 6), n - (header.exif.empty() ? 0 : 6));
    if (marker == 0xe1 && starts("http://ns.adobe.com/xap/1.0/", 29)) header.xmp.assign(chars + 29, n - 29);
    if (marker == 0xee && n >= 12 && starts("Adobe", 5)) {
        header.adobe = true;
        header.adobe_transform = p[11];
        header.adobe_transform_at = at + 11;
    }
}

inline status scan_jpeg(const std::uint8_t* bytes, std::size_t size, const std::string& name, const limits& caps, jpeg_header& header) {
    std::size_t at = 2;
    for (;;) {
        // To the next marker: within a scan past its entropy-coded bytes, elsewhere past padding.
        const auto* mark = at < size ? static_cast<const std::uint8_t*>(std::memchr(bytes + at, 0xff, size - at)) : nullptr;
        if (!mark || mark + 1 == bytes + size) return jpeg_error(errc::image_truncated, name, "the file ends before its end marker");
        at = static_cast<std::size_t>(mark - bytes) + 1;
        const int marker = bytes[at];
        if (marker == 0xff) continue;
        ++at;
        if (marker == 0 || marker == 1 || (marker >= 0xd0 && marker <= 0xd7)) continue;
        if (marker == 0xd8) return jpeg_error(errc::image_malformed, name, "a second start marker");
        if (marker == 0xd9) break;
        if (size - at < 2) return jpeg_error(errc::image_truncated, name, "the file ends before its end marker");
        const std::size_t length = std::size_t(bytes[at]) << 8 | bytes[at + 1];
        if (length < 2) return jpeg_error(errc::image_malformed, name, "a segment is shorter than its length");
        if (length > size - at) return jpeg_error(errc::image_truncated, name, "a segment reaches past the end of the file");
        const std::uint8_t* body = bytes + at + 2;
        const std::size_t n = length - 2;
        if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xcc) {
            GRAFT_TRY(read_jpeg_frame(marker, body, n, name, caps, header));
        } else if (marker == 0xc4) {
            GRAFT_TRY(check_jpeg_huffman(body, n, name));
        } else if (marker == 0xde) {
            return read_jpeg_frame(marker, body, n, name, caps, header);
        } else if (marker == 0xdc) {
            return jpeg_error(errc::image_unsupported, name, "the height stands behind the picture (DNL)");
        } else if (marker == 0xda) {
            if (!header.components) return jpeg_error(errc::image_malformed, name, "a scan without a frame");
            // Each scan of a progressive file passes over the whole picture, so a few bytes can cost a second.
            if (++header.scans > caps.image_scans || header.scans * header.width * header.height > 32 * caps.image_pixels)
                return jpeg_error(errc::image_budget, name, "more than " + std::to_string(header.scans - 1) + " scans");
        } else if (marker >= 0xe0 && marker <= 0xef)
            read_jpeg_application(marker, body, n, at + 2, header);
        at += length;
    }
    header.end = at;
    if (!header.components) return jpeg_error(errc::image_malformed, name, "there is no frame");
    if (!header.scans) return jpeg_error(errc::image_malformed, name, "there is no scan");
    return {};
}

// CMYK as Adobe writes it (inverted) to RGB, with Pillow's rounding: v - (255 - c) * v / 255.
inline std::uint8_t ink(int c, int black) noexcept {
    const int product = (255 - c) * black + 128;
    return static_cast<std::uint8_t>(black - (((product >> 8) + product) >> 8));
}

}  // namespace detail
GRAFT_END_NAMESPACE
