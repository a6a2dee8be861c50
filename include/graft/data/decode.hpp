// Encoded pictures to pixels. The content says what the format is, never the name.
#pragma once

#include "image.hpp"

GRAFT_BEGIN_NAMESPACE

/// Decodes a JPEG, PNG, BMP or PNM file in memory to RGB, 8 bits. EXIF orientation is applied; alpha, ICC profiles and gamma are
/// dropped; 16 bits keep their high byte; of an animated PNG it is the default image. Lossless formats equal Pillow's pixels.
/// `name` stands in error messages. Errors: image.truncated, image.malformed, image.unsupported (names the kind),
/// image.dimensions, image.budget, image.no_decoder (JPEG, where the build found neither stb_image nor libjpeg), memory.oom.
result<image> decode(const void* bytes, std::size_t size, const std::string& name, const limits& caps = {});

/// Reads and decodes a file; more errors: image.open.
result<image> decode_file(const std::string& path, const limits& caps = {});

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/read_file.hpp"
#include "bmp_decode.hpp"
#include "jpeg_libjpeg.hpp"
#include "jpeg_stb.hpp"
#include "png_decode.hpp"
#include "pnm_decode.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline result<image> decode_jpeg(const std::uint8_t* bytes, std::size_t size, const std::string& name, const limits& caps) {
    jpeg_header header;
    GRAFT_TRY(scan_jpeg(bytes, size, name, caps, header));
#if GRAFT_HAS_LIBJPEG
    auto decoded = decode_jpeg_libjpeg(bytes, name, header);
#elif defined(GRAFT_STB_IMAGE)
    auto decoded = decode_jpeg_stb(bytes, name, header);
#else
    result<image> decoded =
        fail(errc::image_no_decoder, name,
             "JPEG: this build has no decoder; install stb_image.h, or build with GRAFT_HAS_LIBJPEG=1 and link libjpeg");
#endif
    if (!decoded.ok()) return decoded;
    return orient(*decoded, orientation_of(header.exif, header.xmp));
}

// The name of a format that is known but not decoded, or null.
inline const char* unsupported_image_kind(const std::uint8_t* p, std::size_t n) {
    struct signature {
        const char* bytes;
        unsigned char length, at;
        const char* kind;
    };
    static constexpr signature signatures[] = {
        {"GIF8", 4, 0, "GIF"},
        {"WEBP", 4, 8, "WebP"},
        {"II*\0", 4, 0, "TIFF"},
        {"MM\0*", 4, 0, "TIFF"},
        {"II+\0", 4, 0, "BigTIFF"},
        {"MM\0+", 4, 0, "BigTIFF"},
        {"II\xbc", 3, 0, "JPEG XR"},
        {"ftyphe", 6, 4, "HEIC"},
        {"ftypmif1", 8, 4, "HEIF"},
        {"ftypmsf1", 8, 4, "HEIF"},
        {"ftypavif", 8, 4, "AVIF"},
        {"ftypavis", 8, 4, "AVIF"},
        {"ftyp", 4, 4, "ISO media"},
        {"jP  \r\n\x87\n", 8, 4, "JPEG 2000"},
        {"\xff\x4f\xff\x51", 4, 0, "JPEG 2000"},
        {"JXL \r\n\x87\n", 8, 4, "JPEG XL"},
        {"\xff\x0a", 2, 0, "JPEG XL"},
        {"\0\0\1\0", 4, 0, "ICO"},
        {"\0\0\2\0", 4, 0, "CUR"},
        {"8BPS", 4, 0, "Photoshop"},
        {"qoif", 4, 0, "QOI"},
        {"DDS ", 4, 0, "DDS"},
        {"\x76\x2f\x31\x01", 4, 0, "OpenEXR"},
        {"#?RADIANCE", 10, 0, "Radiance HDR"},
        {"\x8aMNG", 4, 0, "MNG"},
        {"\x8bJNG", 4, 0, "JNG"},
        {"%PDF", 4, 0, "PDF"},
        {"P7\n", 3, 0, "PAM"},
        {"Pf", 2, 0, "PFM"},
        {"PF", 2, 0, "PFM"},
    };
    for (const signature& s : signatures)
        if (n >= std::size_t(s.at) + s.length && std::memcmp(p + s.at, s.bytes, s.length) == 0) return s.kind;
    std::size_t at = n >= 3 && p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf ? 3 : 0;
    while (at < n && pnm_reader::space(p[at])) ++at;
    const std::string head(reinterpret_cast<const char*>(p) + at, n - at < 1024 ? n - at : 1024);
    if (head.compare(0, 4, "<svg") == 0 || (head.compare(0, 2, "<?") == 0 && head.find("<svg") != std::string::npos) ||
        (head.compare(0, 4, "<!--") == 0 && head.find("<svg") != std::string::npos))
        return "SVG";
    if (head.compare(0, 5, "<?xml") == 0 || head.compare(0, 5, "<html") == 0 || head.compare(0, 9, "<!DOCTYPE") == 0)
        return "XML or HTML";
    return nullptr;
}

} // namespace detail

GRAFT_INLINE result<image> decode(const void* data, std::size_t size, const std::string& name, const limits& caps) {
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    if (size == 0) return fail(errc::image_truncated, name, "the file is empty");
    if (size > static_cast<std::size_t>(caps.image_bytes))
        return fail(errc::image_budget, name, std::to_string(size) + " bytes; the limit is " + std::to_string(caps.image_bytes));
    static constexpr std::uint8_t png[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    static constexpr std::uint8_t jpeg[3] = {0xff, 0xd8, 0xff};
    if (size >= 8 && std::memcmp(bytes, png, 8) == 0) return detail::decode_png(bytes, size, name, caps);
    if (size >= 3 && std::memcmp(bytes, jpeg, 3) == 0) return detail::decode_jpeg(bytes, size, name, caps);
    if (size >= 2 && bytes[0] == 'B' && bytes[1] == 'M') return detail::decode_bmp(bytes, size, name, caps);
    if (size >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
        (detail::pnm_reader::space(bytes[2]) || bytes[2] == '#'))
        return detail::decode_pnm(bytes, size, name, caps);
    if (const char* kind = detail::unsupported_image_kind(bytes, size))
        return fail(errc::image_unsupported, name, std::string(kind) + " is not supported; JPEG, PNG, BMP and PNM are");
    if ((size < 8 && std::memcmp(bytes, png, size) == 0) || (size < 3 && std::memcmp(bytes, jpeg, size) == 0))
        return fail(errc::image_truncated, name, "the file ends within its signature");
    return fail(errc::image_unsupported, name, "not a picture of a kind that is known; JPEG, PNG, BMP and PNM are");
}

GRAFT_INLINE result<image> decode_file(const std::string& path, const limits& caps) {
    std::string bytes;
    GRAFT_TRY_ASSIGN(bytes, read_file(path, caps.image_bytes, errc::image_open, errc::image_budget));
    return decode(bytes.data(), bytes.size(), path, caps);
}

GRAFT_END_NAMESPACE
#endif
