// The orientation that a camera wrote: EXIF's tag 0x0112, or XMP's tiff:Orientation where EXIF has none.
#pragma once

#include "../config.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What the TIFF structure in `bytes` (with or without "Exif\0\0" before it) says; 0 where it says nothing or is damaged.
inline int exif_orientation(const std::string& bytes) {
    std::size_t start = 0;
    while (bytes.compare(start, 6, std::string("Exif\0\0", 6)) == 0) start += 6;
    const std::size_t n = bytes.size() - start;
    const auto* p = reinterpret_cast<const std::uint8_t*>(bytes.data()) + start;
    if (n < 8) return 0;
    const bool little = p[0] == 'I' && p[1] == 'I', big = p[0] == 'M' && p[1] == 'M';
    if (!little && !big) return 0;
    const auto two = [p, little](std::size_t at) { return little ? p[at] | unsigned(p[at + 1]) << 8 : unsigned(p[at]) << 8 | p[at + 1]; };
    const auto four = [two, little](std::size_t at) {
        return little ? two(at) | std::uint32_t(two(at + 2)) << 16 : std::uint32_t(two(at)) << 16 | two(at + 2);
    };
    if (two(2) != 42) return 0;
    const std::size_t directory = four(4);
    if (directory > n - 2) return 0;
    int orientation = 0;
    for (std::size_t i = 0, entries = two(directory); i < entries; ++i) {
        std::size_t at = directory + 2 + 12 * i;
        if (at + 12 > n) break;
        if (two(at) != 0x0112) continue;
        const unsigned type = two(at + 2);
        const std::uint32_t count = four(at + 4);
        if ((type != 3 && type != 4) || count == 0) continue;
        const std::size_t width = type == 3 ? 2 : 4;
        at += 8;
        // More values than fit stand elsewhere; the first one is the orientation.
        if (count > 4 / width) at = four(at);
        if (at > n || n - at < width) continue;
        const std::uint32_t value = type == 3 ? two(at) : four(at);
        orientation = value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
    return orientation;
}

// tiff:Orientation="6" or <tiff:Orientation>6, 0 where there is none.
inline int xmp_orientation(const std::string& xmp) {
    static constexpr char key[] = "tiff:Orientation";
    for (std::size_t at = 0; (at = xmp.find(key, at)) != std::string::npos;) {
        at += sizeof key - 1;
        std::size_t digit = at;
        if (xmp.compare(at, 2, "=\"") == 0)
            digit = at + 2;
        else if (xmp.compare(at, 1, ">") == 0)
            digit = at + 1;
        if (digit != at && xmp[digit] >= '0' && xmp[digit] <= '9') return xmp[digit] - '0';
    }
    return 0;
}

inline int orientation_of(const std::string& exif, const std::string& xmp) {
    const int orientation = exif_orientation(exif);
    return orientation ? orientation : xmp_orientation(xmp);
}

}  // namespace detail
GRAFT_END_NAMESPACE
