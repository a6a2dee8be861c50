// stb_image's JPEG decoder, in a namespace of its own. Its functions are static: each translation unit that holds bodies has
// its copy, and decode_jpeg_stb, which all of them share, uses whichever came with the copy that the linker keeps. They are the
// same text with the same macros everywhere; GRAFT_SPLIT leaves exactly one.
#pragma once

#include "jpeg_scan.hpp"

#if GRAFT_HAS_BODIES && !GRAFT_HAS_LIBJPEG
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
#pragma GCC diagnostic ignored "-Wuseless-cast"
#pragma GCC diagnostic ignored "-Wduplicated-branches"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wmissing-declarations"
#endif
// An app may use stb_image as well: its include guard and settings are put aside.
#pragma push_macro("STBI_INCLUDE_STB_IMAGE_H")
#pragma push_macro("STB_IMAGE_IMPLEMENTATION")
#pragma push_macro("STB_IMAGE_STATIC")
#pragma push_macro("STBIDEF")
#pragma push_macro("STBI_ASSERT")
#pragma push_macro("STBI_MAX_DIMENSIONS")
#pragma push_macro("STBI_NO_STDIO")
#pragma push_macro("STBI_ONLY_JPEG")
#undef STBI_INCLUDE_STB_IMAGE_H
#undef STB_IMAGE_IMPLEMENTATION
#undef STB_IMAGE_STATIC
#undef STBIDEF
#undef STBI_ASSERT
#undef STBI_MAX_DIMENSIONS
#undef STBI_NO_STDIO
#undef STBI_ONLY_JPEG
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ASSERT(x) ((void)0)
#define STBI_MAX_DIMENSIONS 65535
#define STBI_NO_STDIO
#define STBI_ONLY_JPEG
GRAFT_BEGIN_NAMESPACE
namespace stb {
#include GRAFT_STB_IMAGE
}  // namespace stb
GRAFT_END_NAMESPACE
#undef STBI_NO_PNG
#undef STBI_NO_BMP
#undef STBI_NO_PSD
#undef STBI_NO_TGA
#undef STBI_NO_GIF
#undef STBI_NO_HDR
#undef STBI_NO_PIC
#undef STBI_NO_PNM
#undef STBI_NO_LINEAR
#undef STBI_NO_ZLIB
#pragma pop_macro("STBI_INCLUDE_STB_IMAGE_H")
#pragma pop_macro("STB_IMAGE_IMPLEMENTATION")
#pragma pop_macro("STB_IMAGE_STATIC")
#pragma pop_macro("STBIDEF")
#pragma pop_macro("STBI_ASSERT")
#pragma pop_macro("STBI_MAX_DIMENSIONS")
#pragma pop_macro("STBI_NO_STDIO")
#pragma pop_macro("STBI_ONLY_JPEG")
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
