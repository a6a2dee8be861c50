// Pictures as PNG files in memory: previews, sheets, reports.
#pragma once

#include "image.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE

/// The picture as a PNG file, 8 bits, gray or RGB; equal pixels give equal bytes. Errors: image.dimensions (no picture, or
/// neither 1 nor 3 channels).
result<std::string> encode_png(const image& picture);
/// The same, written to a file that is there whole or not at all. Errors: those of `encode_png`, and file.write.
status write_png(const std::string& path, const image& picture);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/file.hpp"
#include "deflate.hpp"
#include "png_decode.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// One row by one of PNG's five filters; the row above is null at the top.
inline void filter_png_row(int kind, const std::uint8_t* row, const std::uint8_t* above, std::int64_t n, int step, std::uint8_t* out) noexcept {
    for (std::int64_t i = 0; i < n; ++i) {
        const int left = i >= step ? row[i - step] : 0, up = above ? above[i] : 0;
        const int corner = above && i >= step ? above[i - step] : 0;
        int guess = 0;
        if (kind == 1) guess = left;
        if (kind == 2) guess = up;
        if (kind == 3) guess = (left + up) / 2;
        if (kind == 4) {
            const int to_left = std::abs(up - corner), to_up = std::abs(left - corner), to_corner = std::abs(left + up - 2 * corner);
            guess = to_left <= to_up && to_left <= to_corner ? left : to_up <= to_corner ? up : corner;
        }
        out[i] = static_cast<std::uint8_t>(row[i] - guess);
    }
}

inline void append_png_chunk(std::string& file, const char* type, const std::string& data) {
    const auto append = [&file](std::uint32_t v) {
        for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(v >> shift & 255);
    };
    append(static_cast<std::uint32_t>(data.size()));
    const std::size_t start = file.size();
    file += type;
    file += data;
    append(crc32(0, reinterpret_cast<const std::uint8_t*>(file.data()) + start, file.size() - start));
}

}  // namespace detail

GRAFT_INLINE result<std::string> encode_png(const image& picture) GRAFT_MEMORY_TRY {
    if (!picture || (picture.channels != 1 && picture.channels != 3))
        return fail(errc::image_dimensions, "png", "only pictures with 1 or 3 channels become PNG files");
    // A row's filter is the one whose bytes, taken as signed, are the smallest together: PNG's own advice.
    const std::int64_t n = picture.stride();
    std::string rows, tried(static_cast<std::size_t>(n), '\0'), best;
    rows.reserve(static_cast<std::size_t>(picture.bytes() + picture.height));
    for (std::int64_t y = 0; y < picture.height; ++y) {
        std::int64_t least = INT64_MAX;
        int chosen = 0;
        for (int kind = 0; kind < 5; ++kind) {
            detail::filter_png_row(kind, picture.row(y), y ? picture.row(y - 1) : nullptr, n, picture.channels, reinterpret_cast<std::uint8_t*>(&tried[0]));
            std::int64_t sum = 0;
            for (const char c : tried) sum += std::abs(static_cast<int>(static_cast<signed char>(c)));
            if (sum >= least) continue;
            least = sum;
            chosen = kind;
            best = tried;
        }
        rows += static_cast<char>(chosen);
        rows += best;
    }
    std::string header;
    for (const std::int64_t side : {picture.width, picture.height})
        for (int shift = 24; shift >= 0; shift -= 8) header += static_cast<char>(side >> shift & 255);
    header += {8, static_cast<char>(picture.channels == 3 ? 2 : 0), 0, 0, 0};
    const std::string packed = zlib_compress(rows.data(), rows.size());
    std::string file("\x89PNG\r\n\x1a\n", 8);
    detail::append_png_chunk(file, "IHDR", header);
    // A chunk cannot be longer than 2^31 - 1 bytes.
    for (std::size_t at = 0; at < packed.size(); at += std::size_t(1) << 30) detail::append_png_chunk(file, "IDAT", packed.substr(at, std::size_t(1) << 30));
    detail::append_png_chunk(file, "IEND", "");
    return file;
}
GRAFT_MEMORY_CATCH("encode_png")

GRAFT_INLINE status write_png(const std::string& path, const image& picture) GRAFT_MEMORY_TRY {
    std::string png;
    GRAFT_TRY_ASSIGN(png, encode_png(picture));
    atomic_file file;
    GRAFT_TRY(file.open(path));
    GRAFT_TRY(file.write(png.data(), png.size()));
    return file.commit();
}
GRAFT_MEMORY_CATCH(path)

GRAFT_END_NAMESPACE
#endif
