// Encoded pictures to pixels. The content says what the format is, never the name.
#pragma once

#include "image.hpp"

GRAFT_BEGIN_NAMESPACE

/// Decodes a JPEG, PNG, BMP, PNM or (GRAFT_HAS_LIBWEBP) WebP file in memory to RGB, 8 bits. EXIF orientation is applied; alpha, ICC
/// profiles and gamma are dropped; 16 bits keep their high byte; of an animated PNG it is the default image, of an animated WebP the first
/// frame. Lossless formats and WebP equal Pillow's pixels. `name` stands in error messages. Errors: image.truncated, image.malformed,
/// image.unsupported (names the kind, and what converts it), image.dimensions, image.budget, image.no_decoder (JPEG, where the build found
/// neither stb_image nor libjpeg), memory.oom.
result<image> decode(const void* bytes, std::size_t size, const std::string& name, const limits& caps = {});

/// Reads and decodes a file; more errors: image.open.
result<image> decode_file(const std::string& path, const limits& caps = {});

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/read_file.hpp"
#include "bmp_decode.hpp"
#include "image_kinds.hpp"
#include "jpeg_libjpeg.hpp"
#include "jpeg_stb.hpp"
#include "png_decode.hpp"
#include "pnm_decode.hpp"
#include "webp_decode.hpp"

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
        fail(errc::image_no_decoder, name, "JPEG: this build has no decoder; install stb_image.h, or build with GRAFT_HAS_LIBJPEG=1 and link libjpeg");
#endif
    if (!decoded.ok()) return decoded;
    return orient(*decoded, orientation_of(header.exif, header.xmp));
}

}  // namespace detail

GRAFT_INLINE result<image> decode(const void* data, std::size_t size, const std::string& name, const limits& caps) GRAFT_MEMORY_TRY {
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    if (size == 0) return fail(errc::image_truncated, name, "the file is empty");
    if (size > static_cast<std::size_t>(caps.image_bytes))
        return fail(errc::image_budget, name, std::to_string(size) + " bytes; the limit is " + std::to_string(caps.image_bytes));
    if (detail::is_png(bytes, size)) return detail::decode_png(bytes, size, name, caps);
    if (detail::is_jpeg(bytes, size)) return detail::decode_jpeg(bytes, size, name, caps);
    if (detail::is_bmp(bytes, size)) return detail::decode_bmp(bytes, size, name, caps);
    if (detail::is_pnm(bytes, size)) return detail::decode_pnm(bytes, size, name, caps);
#if GRAFT_HAS_LIBWEBP
    if (detail::is_webp(bytes, size)) return detail::decode_webp(bytes, size, name, caps);
#endif
    static constexpr char png[] = "\x89PNG\r\n\x1a\n", jpeg[] = "\xff\xd8\xff", riff[] = "RIFF";
    if ((size < 8 && std::memcmp(bytes, png, size) == 0) || (size < 3 && std::memcmp(bytes, jpeg, size) == 0) ||
        (size < 12 && std::memcmp(bytes, riff, size < 4 ? size : 4) == 0))
        return fail(errc::image_truncated, name, "the file ends within its signature");
    return detail::unsupported_image(bytes, size, name);
}
GRAFT_MEMORY_CATCH(name)

GRAFT_INLINE result<image> decode_file(const std::string& path, const limits& caps) GRAFT_MEMORY_TRY {
    std::string bytes;
    GRAFT_TRY_ASSIGN(bytes, read_file(path, caps.image_bytes, errc::image_open, errc::image_budget));
    return decode(bytes.data(), bytes.size(), path, caps);
}
GRAFT_MEMORY_CATCH(path)

GRAFT_END_NAMESPACE
#endif
