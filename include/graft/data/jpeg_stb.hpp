// stb_image's JPEG decoder, in a namespace of its own. Its functions are static: each translation unit that holds bodies has
// its copy, and decode_jpeg_stb, which all of them share, uses whichever came with the copy that the linker keeps. They are the
// same text with the same macros everywhere; GRAFT_SPLIT leaves exactly one.
#pragma once

#include "jpeg_scan.hpp"

#if !GRAFT_HAS_LIBJPEG
#if defined(__has_include)
#if __has_include(<stb_image.h>)
#define GRAFT_STB_IMAGE <stb_image.h>
#elif __has_include(<stb/stb_image.h>)
#define GRAFT_STB_IMAGE <stb/stb_image.h>
#endif
#endif

#ifdef GRAFT_STB_IMAGE
// Whatever stb_image includes is included before, so that nothing of it lands in the namespace.
#include <climits>
#include <cmath>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__) || defined(_M_IX86)
#include <emmintrin.h>
#if defined(_MSC_VER)
#include <intrin.h>
#endif
#endif

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wmissing-declarations"
#endif
// An app may use stb_image as well: every macro that stb_image reads or sets is put aside, and put back behind it.
#pragma push_macro("FAST_BITS")
#undef FAST_BITS
#pragma push_macro("STBIDEF")
#undef STBIDEF
#pragma push_macro("STBI_ASSERT")
#undef STBI_ASSERT
#pragma push_macro("STBI_EXTERN")
#undef STBI_EXTERN
#pragma push_macro("STBI_FAILURE_USERMSG")
#undef STBI_FAILURE_USERMSG
#pragma push_macro("STBI_FREE")
#undef STBI_FREE
#pragma push_macro("STBI_INCLUDE_STB_IMAGE_H")
#undef STBI_INCLUDE_STB_IMAGE_H
#pragma push_macro("STBI_MALLOC")
#undef STBI_MALLOC
#pragma push_macro("STBI_MAX_DIMENSIONS")
#undef STBI_MAX_DIMENSIONS
#pragma push_macro("STBI_NEON")
#undef STBI_NEON
#pragma push_macro("STBI_NOTUSED")
#undef STBI_NOTUSED
#pragma push_macro("STBI_NO_BMP")
#undef STBI_NO_BMP
#pragma push_macro("STBI_NO_FAILURE_STRINGS")
#undef STBI_NO_FAILURE_STRINGS
#pragma push_macro("STBI_NO_GIF")
#undef STBI_NO_GIF
#pragma push_macro("STBI_NO_HDR")
#undef STBI_NO_HDR
#pragma push_macro("STBI_NO_JPEG")
#undef STBI_NO_JPEG
#pragma push_macro("STBI_NO_LINEAR")
#undef STBI_NO_LINEAR
#pragma push_macro("STBI_NO_PIC")
#undef STBI_NO_PIC
#pragma push_macro("STBI_NO_PNG")
#undef STBI_NO_PNG
#pragma push_macro("STBI_NO_PNM")
#undef STBI_NO_PNM
#pragma push_macro("STBI_NO_PSD")
#undef STBI_NO_PSD
#pragma push_macro("STBI_NO_SIMD")
#undef STBI_NO_SIMD
#pragma push_macro("STBI_NO_STDIO")
#undef STBI_NO_STDIO
#pragma push_macro("STBI_NO_TGA")
#undef STBI_NO_TGA
#pragma push_macro("STBI_NO_THREAD_LOCALS")
#undef STBI_NO_THREAD_LOCALS
#pragma push_macro("STBI_NO_ZLIB")
#undef STBI_NO_ZLIB
#pragma push_macro("STBI_ONLY_BMP")
#undef STBI_ONLY_BMP
#pragma push_macro("STBI_ONLY_GIF")
#undef STBI_ONLY_GIF
#pragma push_macro("STBI_ONLY_HDR")
#undef STBI_ONLY_HDR
#pragma push_macro("STBI_ONLY_JPEG")
#undef STBI_ONLY_JPEG
#pragma push_macro("STBI_ONLY_PIC")
#undef STBI_ONLY_PIC
#pragma push_macro("STBI_ONLY_PNG")
#undef STBI_ONLY_PNG
#pragma push_macro("STBI_ONLY_PNM")
#undef STBI_ONLY_PNM
#pragma push_macro("STBI_ONLY_PSD")
#undef STBI_ONLY_PSD
#pragma push_macro("STBI_ONLY_TGA")
#undef STBI_ONLY_TGA
#pragma push_macro("STBI_REALLOC")
#undef STBI_REALLOC
#pragma push_macro("STBI_REALLOC_SIZED")
#undef STBI_REALLOC_SIZED
#pragma push_macro("STBI_SIMD_ALIGN")
#undef STBI_SIMD_ALIGN
#pragma push_macro("STBI_SSE2")
#undef STBI_SSE2
#pragma push_macro("STBI_THREAD_LOCAL")
#undef STBI_THREAD_LOCAL
#pragma push_macro("STBI_VERSION")
#undef STBI_VERSION
#pragma push_macro("STBI_WINDOWS_UTF8")
#undef STBI_WINDOWS_UTF8
#pragma push_macro("STBI__BYTECAST")
#undef STBI__BYTECAST
#pragma push_macro("STBI__COMBO")
#undef STBI__COMBO
#pragma push_macro("STBI__HDR_BUFLEN")
#undef STBI__HDR_BUFLEN
#pragma push_macro("STBI__IDCT_1D")
#undef STBI__IDCT_1D
#pragma push_macro("STBI__MARKER_none")
#undef STBI__MARKER_none
#pragma push_macro("STBI__PNG_TYPE")
#undef STBI__PNG_TYPE
#pragma push_macro("STBI__RESTART")
#undef STBI__RESTART
#pragma push_macro("STBI__X64_TARGET")
#undef STBI__X64_TARGET
#pragma push_macro("STBI__ZFAST_BITS")
#undef STBI__ZFAST_BITS
#pragma push_macro("STBI__ZFAST_MASK")
#undef STBI__ZFAST_MASK
#pragma push_macro("STBI__ZNSYMS")
#undef STBI__ZNSYMS
#pragma push_macro("STB_IMAGE_IMPLEMENTATION")
#undef STB_IMAGE_IMPLEMENTATION
#pragma push_macro("STB_IMAGE_STATIC")
#undef STB_IMAGE_STATIC
#pragma push_macro("stbi__DNL")
#undef stbi__DNL
#pragma push_macro("stbi__EOI")
#undef stbi__EOI
#pragma push_macro("stbi__SOF")
#undef stbi__SOF
#pragma push_macro("stbi__SOF_progressive")
#undef stbi__SOF_progressive
#pragma push_macro("stbi__SOI")
#undef stbi__SOI
#pragma push_macro("stbi__SOS")
#undef stbi__SOS
#pragma push_macro("stbi__de_iphone_flag")
#undef stbi__de_iphone_flag
#pragma push_macro("stbi__div16")
#undef stbi__div16
#pragma push_macro("stbi__div4")
#undef stbi__div4
#pragma push_macro("stbi__err")
#undef stbi__err
#pragma push_macro("stbi__errpf")
#undef stbi__errpf
#pragma push_macro("stbi__errpuc")
#undef stbi__errpuc
#pragma push_macro("stbi__f2f")
#undef stbi__f2f
#pragma push_macro("stbi__float2fixed")
#undef stbi__float2fixed
#pragma push_macro("stbi__float2int")
#undef stbi__float2int
#pragma push_macro("stbi__fsh")
#undef stbi__fsh
#pragma push_macro("stbi__unpremultiply_on_load")
#undef stbi__unpremultiply_on_load
#pragma push_macro("stbi__vertically_flip_on_load")
#undef stbi__vertically_flip_on_load
#pragma push_macro("stbi_inline")
#undef stbi_inline
#pragma push_macro("stbi_lrot")
#undef stbi_lrot
#define STB_IMAGE_IMPLEMENTATION
// The header's first half would declare its functions extern "C", whose names an app's own stb_image has as well; what the
// second half needs of it stands below.
#define STBI_INCLUDE_STB_IMAGE_H
#define STBIDEF static
#define STBI_ASSERT(x) ((void)0)
#define STBI_MAX_DIMENSIONS 65535
#define STBI_NO_STDIO
#define STBI_ONLY_JPEG
GRAFT_BEGIN_NAMESPACE
namespace stb {
enum { STBI_default = 0, STBI_grey = 1, STBI_grey_alpha = 2, STBI_rgb = 3, STBI_rgb_alpha = 4 };
typedef unsigned char stbi_uc;
typedef unsigned short stbi_us;
typedef struct {
    int (*read)(void* user, char* data, int size);
    void (*skip)(void* user, int n);
    int (*eof)(void* user);
} stbi_io_callbacks;
#include GRAFT_STB_IMAGE
}  // namespace stb
GRAFT_END_NAMESPACE
#pragma pop_macro("FAST_BITS")
#pragma pop_macro("STBIDEF")
#pragma pop_macro("STBI_ASSERT")
#pragma pop_macro("STBI_EXTERN")
#pragma pop_macro("STBI_FAILURE_USERMSG")
#pragma pop_macro("STBI_FREE")
#pragma pop_macro("STBI_INCLUDE_STB_IMAGE_H")
#pragma pop_macro("STBI_MALLOC")
#pragma pop_macro("STBI_MAX_DIMENSIONS")
#pragma pop_macro("STBI_NEON")
#pragma pop_macro("STBI_NOTUSED")
#pragma pop_macro("STBI_NO_BMP")
#pragma pop_macro("STBI_NO_FAILURE_STRINGS")
#pragma pop_macro("STBI_NO_GIF")
#pragma pop_macro("STBI_NO_HDR")
#pragma pop_macro("STBI_NO_JPEG")
#pragma pop_macro("STBI_NO_LINEAR")
#pragma pop_macro("STBI_NO_PIC")
#pragma pop_macro("STBI_NO_PNG")
#pragma pop_macro("STBI_NO_PNM")
#pragma pop_macro("STBI_NO_PSD")
#pragma pop_macro("STBI_NO_SIMD")
#pragma pop_macro("STBI_NO_STDIO")
#pragma pop_macro("STBI_NO_TGA")
#pragma pop_macro("STBI_NO_THREAD_LOCALS")
#pragma pop_macro("STBI_NO_ZLIB")
#pragma pop_macro("STBI_ONLY_BMP")
#pragma pop_macro("STBI_ONLY_GIF")
#pragma pop_macro("STBI_ONLY_HDR")
#pragma pop_macro("STBI_ONLY_JPEG")
#pragma pop_macro("STBI_ONLY_PIC")
#pragma pop_macro("STBI_ONLY_PNG")
#pragma pop_macro("STBI_ONLY_PNM")
#pragma pop_macro("STBI_ONLY_PSD")
#pragma pop_macro("STBI_ONLY_TGA")
#pragma pop_macro("STBI_REALLOC")
#pragma pop_macro("STBI_REALLOC_SIZED")
#pragma pop_macro("STBI_SIMD_ALIGN")
#pragma pop_macro("STBI_SSE2")
#pragma pop_macro("STBI_THREAD_LOCAL")
#pragma pop_macro("STBI_VERSION")
#pragma pop_macro("STBI_WINDOWS_UTF8")
#pragma pop_macro("STBI__BYTECAST")
#pragma pop_macro("STBI__COMBO")
#pragma pop_macro("STBI__HDR_BUFLEN")
#pragma pop_macro("STBI__IDCT_1D")
#pragma pop_macro("STBI__MARKER_none")
#pragma pop_macro("STBI__PNG_TYPE")
#pragma pop_macro("STBI__RESTART")
#pragma pop_macro("STBI__X64_TARGET")
#pragma pop_macro("STBI__ZFAST_BITS")
#pragma pop_macro("STBI__ZFAST_MASK")
#pragma pop_macro("STBI__ZNSYMS")
#pragma pop_macro("STB_IMAGE_IMPLEMENTATION")
#pragma pop_macro("STB_IMAGE_STATIC")
#pragma pop_macro("stbi__DNL")
#pragma pop_macro("stbi__EOI")
#pragma pop_macro("stbi__SOF")
#pragma pop_macro("stbi__SOF_progressive")
#pragma pop_macro("stbi__SOI")
#pragma pop_macro("stbi__SOS")
#pragma pop_macro("stbi__de_iphone_flag")
#pragma pop_macro("stbi__div16")
#pragma pop_macro("stbi__div4")
#pragma pop_macro("stbi__err")
#pragma pop_macro("stbi__errpf")
#pragma pop_macro("stbi__errpuc")
#pragma pop_macro("stbi__f2f")
#pragma pop_macro("stbi__float2fixed")
#pragma pop_macro("stbi__float2int")
#pragma pop_macro("stbi__fsh")
#pragma pop_macro("stbi__unpremultiply_on_load")
#pragma pop_macro("stbi__vertically_flip_on_load")
#pragma pop_macro("stbi_inline")
#pragma pop_macro("stbi_lrot")
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline result<image> decode_jpeg_stb(const std::uint8_t* bytes, const std::string& name, const jpeg_header& header) {
    std::size_t size = header.end;
    buffer patched;
    // stb takes four components without Adobe's marker for something else than libjpeg does, and so the marker is put in.
    static constexpr std::uint8_t marker[16] = {0xff, 0xee, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 0};
    if (header.components == 4 && (!header.adobe || header.adobe_transform == 1)) {
        const std::size_t extra = header.adobe ? 0 : sizeof marker;
        GRAFT_TRY_ASSIGN(patched, buffer::allocate(size + extra));
        auto* to = reinterpret_cast<std::uint8_t*>(patched.data());
        std::memcpy(to, bytes, 2);
        std::memcpy(to + 2, marker, extra);
        std::memcpy(to + 2 + extra, bytes + 2, size - 2);
        if (header.adobe) to[header.adobe_transform_at] = 2;
        bytes = to;
        size += extra;
    }
    int width = 0, height = 0, components = 0;
    const int wanted = header.components == 1 ? 1 : 3;
    if (size > INT_MAX) return jpeg_error(errc::image_budget, name, "the file is too large");
    stb::stbi_uc* pixels = stb::stbi_load_from_memory(bytes, static_cast<int>(size), &width, &height, &components, wanted);
    if (!pixels) {
        const char* reason = stb::stbi_failure_reason();
        const bool memory = reason && std::strcmp(reason, "outofmem") == 0;
        return jpeg_error(memory ? errc::memory_oom : errc::image_malformed, name, reason ? reason : "the file is damaged");
    }
    auto made = image::make(height, width, 3);
    if (made.ok()) {
        const std::int64_t n = made->height * made->width;
        std::uint8_t* out = made->data();
        if (wanted == 3)
            std::memcpy(out, pixels, static_cast<std::size_t>(3 * n));
        else
            for (std::int64_t i = 0; i < n; ++i) out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = pixels[i];
    }
    std::free(pixels);
    return made;
}

}  // namespace detail
GRAFT_END_NAMESPACE
#endif
#endif
