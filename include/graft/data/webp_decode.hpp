// WebP by libwebp, where GRAFT_HAS_LIBWEBP says that the program is linked with it: a walk over the chunks of the file, which tells how
// large the picture is and whether it is whole, then libwebp on the one that holds its first frame.
#pragma once

#include "exif.hpp"
#include "image.hpp"

#if GRAFT_HAS_LIBWEBP
#include <cstring>

#include <webp/decode.h>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// A chunk of a RIFF file: four letters, a length, and what it holds.
struct webp_chunk {
    const std::uint8_t* bytes = nullptr;  // with its letters and its length
    std::size_t size = 0;                 // of what it holds
    const std::uint8_t* body() const noexcept { return bytes + 8; }
    bool is(const char* letters) const noexcept { return std::memcmp(bytes, letters, 4) == 0; }
    bool is_frame() const noexcept { return is("VP8 ") || is("VP8L"); }
};

struct webp_header {
    std::int64_t width = 0, height = 0;  // of the picture, or of what an animation is played on
    std::int64_t left = 0, top = 0, frame_width = 0, frame_height = 0;
    webp_chunk frame;
    std::string exif, xmp;
};

GRAFT_COLD inline status webp_error(errc code, const std::string& name, const std::string& what) { return fail(code, name, "WebP: " + what); }

inline std::int64_t webp_number(const std::uint8_t* p, int bytes) noexcept {
    std::int64_t n = 0;
    for (int i = 0; i < bytes; ++i) n |= std::int64_t(p[i]) << (8 * i);
    return n;
}

// The chunk at `at`, which moves behind it; `found` stays empty at the end.
inline status next_webp_chunk(const std::uint8_t* bytes, std::size_t end, std::size_t& at, const std::string& name, webp_chunk& found) {
    found = {};
    if (at >= end) return {};
    if (end - at < 8) return webp_error(errc::image_malformed, name, "there are a few bytes where a chunk should begin");
    const std::int64_t size = webp_number(bytes + at + 4, 4);
    if (size > static_cast<std::int64_t>(end - at - 8)) return webp_error(errc::image_malformed, name, "a chunk reaches past the end of the file");
    found.bytes = bytes + at;
    found.size = static_cast<std::size_t>(size);
    at += 8 + found.size + (found.size & 1);  // chunks begin at even places
    return {};
}

// The first frame of an animation: where it lies, then the chunks of a picture.
inline status read_webp_frame(const webp_chunk& animated, const std::string& name, webp_header& header) {
    if (animated.size < 16) return webp_error(errc::image_malformed, name, "the header of a frame is too short");
    const std::uint8_t* p = animated.body();
    header.left = 2 * webp_number(p, 3);
    header.top = 2 * webp_number(p + 3, 3);
    header.frame_width = 1 + webp_number(p + 6, 3);
    header.frame_height = 1 + webp_number(p + 9, 3);
    if (header.left + header.frame_width > header.width || header.top + header.frame_height > header.height)
        return webp_error(errc::image_malformed, name, "a frame lies outside of the picture");
    webp_chunk part;
    for (std::size_t at = 16; !header.frame.bytes;) {
        GRAFT_TRY(next_webp_chunk(p, animated.size, at, name, part));
        if (!part.bytes) return webp_error(errc::image_malformed, name, "a frame without a picture");
        if (part.is_frame()) header.frame = part;
    }
    return {};
}

inline status scan_webp(const std::uint8_t* bytes, std::size_t size, const std::string& name, const limits& caps, webp_header& header) {
    if (size < 20) return webp_error(errc::image_truncated, name, "the file ends within its header");
    const std::int64_t whole = 8 + webp_number(bytes + 4, 4);
    if (whole > static_cast<std::int64_t>(size)) return webp_error(errc::image_truncated, name, "the file ends before the end that it names");
    const auto end = static_cast<std::size_t>(whole);
    std::size_t at = 12;
    webp_chunk chunk;
    GRAFT_TRY(next_webp_chunk(bytes, end, at, name, chunk));
    if (chunk.bytes && chunk.is_frame()) {
        header.frame = chunk;
        return {};
    }
    if (!chunk.bytes || !chunk.is("VP8X") || chunk.size != 10) return webp_error(errc::image_malformed, name, "it begins with none of the chunks of a picture");
    const std::uint8_t* p = chunk.body();
    const bool animated = (p[0] & 0x02) != 0, has_exif = (p[0] & 0x08) != 0, has_xmp = (p[0] & 0x04) != 0;
    header.width = 1 + webp_number(p + 4, 3);
    header.height = 1 + webp_number(p + 7, 3);
    GRAFT_TRY(check_image_size(header.width, header.height, name, caps));
    for (;;) {
        GRAFT_TRY(next_webp_chunk(bytes, end, at, name, chunk));
        if (!chunk.bytes) break;
        const auto* text = reinterpret_cast<const char*>(chunk.body());
        if (!header.frame.bytes && animated && chunk.is("ANMF")) GRAFT_TRY(read_webp_frame(chunk, name, header));
        if (!header.frame.bytes && !animated && chunk.is_frame()) header.frame = chunk;
        if (has_exif && chunk.is("EXIF")) header.exif.assign(text, chunk.size);
        if (has_xmp && chunk.is("XMP ")) header.xmp.assign(text, chunk.size);
    }
    if (!header.frame.bytes) return webp_error(errc::image_malformed, name, "there is no picture in it");
    return {};
}

GRAFT_COLD inline status webp_failed(VP8StatusCode code, const std::string& name) {
    if (code == VP8_STATUS_OUT_OF_MEMORY) return webp_error(errc::memory_oom, name, "the system has not enough memory for this");
    if (code == VP8_STATUS_NOT_ENOUGH_DATA || code == VP8_STATUS_SUSPENDED) return webp_error(errc::image_truncated, name, "picture data is missing");
    if (code == VP8_STATUS_UNSUPPORTED_FEATURE) return webp_error(errc::image_unsupported, name, "a kind of coding that libwebp does not know");
    return webp_error(errc::image_malformed, name, "the picture is damaged");
}

inline result<image> decode_webp(const std::uint8_t* bytes, std::size_t size, const std::string& name, const limits& caps) {
    webp_header header;
    GRAFT_TRY(scan_webp(bytes, size, name, caps, header));
    const std::uint8_t* data = header.frame.bytes;
    const std::size_t n = 8 + header.frame.size;
    // The entry points that the inline functions of libwebp's header call: those are static.
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfigInternal(&config, WEBP_DECODER_ABI_VERSION))
        return webp_error(errc::image_no_decoder, name, "the libwebp of this machine is another one than the program was built for");
    VP8StatusCode code = WebPGetFeaturesInternal(data, n, &config.input, WEBP_DECODER_ABI_VERSION);
    if (code != VP8_STATUS_OK) return webp_failed(code, name);
    const std::int64_t width = config.input.width, height = config.input.height;
    if (!header.width) {
        header.width = width, header.height = height;
        GRAFT_TRY(check_image_size(width, height, name, caps));
    }
    if (!header.frame_width) header.frame_width = header.width, header.frame_height = header.height;
    if (width != header.frame_width || height != header.frame_height)
        return webp_error(errc::image_malformed, name, "the picture has not the size that the file gives it");
    image picture;
    GRAFT_TRY_ASSIGN(picture, image::make(header.height, header.width, 3));
    // What the first frame of an animation leaves free is black, as in Pillow.
    if (width != header.width || height != header.height) std::memset(picture.data(), 0, static_cast<std::size_t>(picture.bytes()));
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = picture.row(header.top) + 3 * header.left;
    config.output.u.RGBA.stride = static_cast<int>(picture.stride());
    config.output.u.RGBA.size = static_cast<std::size_t>((height - 1) * picture.stride() + 3 * width);
    code = WebPDecode(data, n, &config);
    WebPFreeDecBuffer(&config.output);
    if (code != VP8_STATUS_OK) return webp_failed(code, name);
    return orient(picture, orientation_of(header.exif, header.xmp));
}

}  // namespace detail
GRAFT_END_NAMESPACE
#endif
