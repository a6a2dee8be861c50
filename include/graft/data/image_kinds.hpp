// Kinds of pictures that are known by their first bytes and not decoded, each with what turns it into one that is.
#pragma once

#include "image.hpp"

#if GRAFT_HAS_BODIES
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

struct image_kind {
    const char* title;   // behind "this is"
    const char* convert; // a command whose last word is a file that can be decoded; null where there is none
};

inline bool is_png(const std::uint8_t* p, std::size_t n) noexcept { return n >= 8 && std::memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0; }
inline bool is_jpeg(const std::uint8_t* p, std::size_t n) noexcept { return n >= 3 && std::memcmp(p, "\xff\xd8\xff", 3) == 0; }
inline bool is_bmp(const std::uint8_t* p, std::size_t n) noexcept { return n >= 2 && p[0] == 'B' && p[1] == 'M'; }
inline bool is_pnm(const std::uint8_t* p, std::size_t n) noexcept {
    return n >= 3 && p[0] == 'P' && p[1] >= '1' && p[1] <= '6' && (p[2] == '#' || p[2] == ' ' || (p[2] >= '\t' && p[2] <= '\r'));
}
inline bool is_webp(const std::uint8_t* p, std::size_t n) noexcept {
    return n >= 12 && std::memcmp(p, "RIFF", 4) == 0 && std::memcmp(p + 8, "WEBP", 4) == 0;
}

// What graft decodes, for sentences.
inline const char* decoded_kinds() noexcept { return GRAFT_HAS_LIBWEBP ? "JPEG, PNG, BMP, PNM and WebP" : "JPEG, PNG, BMP and PNM"; }

inline bool looks_like_svg(const std::string& head) noexcept {
    const bool markup = head.compare(0, 2, "<?") == 0 || head.compare(0, 4, "<!--") == 0 || head.compare(0, 5, "<!DOC") == 0;
    return head.compare(0, 4, "<svg") == 0 || (markup && head.find("<svg") != std::string::npos);
}

// The kind of a file that is none of those decoded; without a title where it is not known.
inline image_kind other_image_kind(const std::uint8_t* p, std::size_t n) {
    struct signature {
        const char* bytes;
        unsigned char length, at;
        image_kind kind;
    };
    static constexpr image_kind tiff = {"a TIFF picture", "magick 'a.tif[0]' a.png"}, heic = {"a HEIC picture", "heif-convert a.heic a.jpg"},
                                avif = {"an AVIF picture", "avifdec a.avif a.png"}, jpeg_2000 = {"a JPEG 2000 picture", "opj_decompress -i a.jp2 -o a.png"},
                                jpeg_xl = {"a JPEG XL picture", "djxl a.jxl a.png"}, pfm = {"a PFM picture", "magick a.pfm a.png"};
    static constexpr signature signatures[] = {
        {"GIF8", 4, 0, {"a GIF picture", "magick 'a.gif[0]' a.png"}},
        {"II*\0", 4, 0, tiff},
        {"MM\0*", 4, 0, tiff},
        {"II+\0", 4, 0, tiff},
        {"MM\0+", 4, 0, tiff},
        {"II\xbc", 3, 0, {"a JPEG XR picture", "magick a.jxr a.png"}},
        {"ftyphe", 6, 4, heic},
        {"ftypmif1", 8, 4, heic},
        {"ftypmsf1", 8, 4, heic},
        {"ftypavif", 8, 4, avif},
        {"ftypavis", 8, 4, avif},
        {"ftyp", 4, 4, {"a video or another ISO media file", "ffmpeg -i a.mp4 -frames:v 1 a.png"}},
        {"jP  \r\n\x87\n", 8, 4, jpeg_2000},
        {"\xff\x4f\xff\x51", 4, 0, jpeg_2000},
        {"JXL \r\n\x87\n", 8, 4, jpeg_xl},
        {"\xff\x0a", 2, 0, jpeg_xl},
        {"\0\0\1\0", 4, 0, {"an icon (ICO)", "magick 'a.ico[0]' a.png"}},
        {"\0\0\2\0", 4, 0, {"a cursor (CUR)", "magick 'a.cur[0]' a.png"}},
        {"8BPS", 4, 0, {"a Photoshop picture (PSD)", "magick 'a.psd[0]' a.png"}},
        {"qoif", 4, 0, {"a QOI picture", "magick a.qoi a.png"}},
        {"DDS ", 4, 0, {"a DDS picture", "magick a.dds a.png"}},
        {"\x76\x2f\x31\x01", 4, 0, {"an OpenEXR picture", "magick a.exr a.png"}},
        {"#?RADIANCE", 10, 0, {"a Radiance HDR picture", "magick a.hdr a.png"}},
        {"\x8aMNG", 4, 0, {"a MNG picture", "magick 'a.mng[0]' a.png"}},
        {"\x8bJNG", 4, 0, {"a JNG picture", "magick a.jng a.png"}},
        {"%PDF", 4, 0, {"a PDF document", "pdftoppm -png -singlefile a.pdf a"}},
        {"P7\n", 3, 0, {"a PAM picture", "magick a.pam a.png"}},
        {"Pf", 2, 0, pfm},
        {"PF", 2, 0, pfm},
    };
    for (const signature& s : signatures)
        if (n >= std::size_t(s.at) + s.length && std::memcmp(p + s.at, s.bytes, s.length) == 0) return s.kind;
    if (is_webp(p, n)) return {"a WebP picture, which takes a graft that was built with libwebp", "dwebp a.webp -o a.png"};
    std::size_t at = n >= 3 && p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf ? 3 : 0;
    while (at < n && (p[at] == ' ' || (p[at] >= '\t' && p[at] <= '\r'))) ++at;
    const std::string head(reinterpret_cast<const char*>(p) + at, n - at < 1024 ? n - at : 1024);
    if (looks_like_svg(head)) return {"an SVG drawing", "rsvg-convert a.svg -o a.png"};
    if (head.compare(0, 5, "<?xml") == 0 || head.compare(0, 5, "<html") == 0 || head.compare(0, 9, "<!DOCTYPE") == 0 || head.compare(0, 9, "<!doctype") == 0)
        return {"XML or HTML and no picture: a download may have got a page about it", nullptr};
    return {nullptr, nullptr};
}

// What is said of a file that is none of the kinds decoded.
GRAFT_COLD inline status unsupported_image(const std::uint8_t* bytes, std::size_t size, const std::string& name) {
    const image_kind kind = other_image_kind(bytes, size);
    if (!kind.title) return fail(errc::image_unsupported, name, std::string("not a picture of a kind that is known; ") + decoded_kinds() + " can be read");
    std::string text = std::string("this is ") + kind.title;
    if (kind.convert) {
        const std::string command = kind.convert;
        const bool jpeg = command.compare(command.size() - 4, 4, ".jpg") == 0;
        text += "; `" + command + "` makes a " + (jpeg ? "JPEG" : "PNG") + " of it";
    }
    return fail(errc::image_unsupported, name, text);
}

} // namespace detail
GRAFT_END_NAMESPACE
#endif
