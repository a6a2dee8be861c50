// JPEG by libjpeg-turbo, where GRAFT_HAS_LIBJPEG says that the program is linked with it.
#pragma once

#include "jpeg_scan.hpp"

#if GRAFT_HAS_LIBJPEG
#include <csetjmp>
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// libjpeg's error manager with a way out: C code cannot be thrown through.
struct jpeg_escape {
    jpeg_error_mgr manager;
    std::jmp_buf out;
    char text[JMSG_LENGTH_MAX];
    bool truncated, no_memory;
};

inline void jpeg_leave(j_common_ptr info) {
    auto* escape = reinterpret_cast<jpeg_escape*>(info->err);
    info->err->format_message(info, escape->text);
    escape->no_memory = info->err->msg_code == JERR_OUT_OF_MEMORY;
    std::longjmp(escape->out, 1);
}

inline void jpeg_warn(j_common_ptr info, int level) {
    auto* escape = reinterpret_cast<jpeg_escape*>(info->err);
    // Both mean that rows would be filled up with gray.
    if (level < 0 && (info->err->msg_code == JWRN_HIT_MARKER || info->err->msg_code == JWRN_JPEG_EOF)) escape->truncated = true;
}

// Makes no object that has a destructor: the jump would pass it by. `pixels` holds width * height * 3 bytes.
inline GRAFT_NOINLINE bool run_libjpeg(jpeg_escape& escape, const std::uint8_t* bytes, std::size_t size, std::uint8_t* row, std::uint8_t* pixels,
                                       std::int64_t width, std::int64_t height) {
    jpeg_decompress_struct info;
    info.err = jpeg_std_error(&escape.manager);
    escape.manager.error_exit = jpeg_leave;
    escape.manager.emit_message = jpeg_warn;
    if (setjmp(escape.out)) {
        jpeg_destroy_decompress(&info);
        return false;
    }
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, const_cast<unsigned char*>(bytes), static_cast<unsigned long>(size));
    jpeg_read_header(&info, TRUE);
    const int channels = info.num_components;
    info.out_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_start_decompress(&info);
    bool same = static_cast<std::int64_t>(info.output_width) == width && static_cast<std::int64_t>(info.output_height) == height;
    while (same && info.output_scanline < info.output_height) {
        std::uint8_t* out = pixels + std::int64_t(info.output_scanline) * width * 3;
        JSAMPROW to = channels == 3 ? out : row;
        jpeg_read_scanlines(&info, &to, 1);
        if (channels == 1)
            for (std::int64_t x = 0; x < width; ++x) out[3 * x] = out[3 * x + 1] = out[3 * x + 2] = row[x];
        if (channels == 4)
            for (std::int64_t x = 0; x < width; ++x)
                for (int c = 0; c < 3; ++c) out[3 * x + c] = ink(row[4 * x + c], row[4 * x + 3]);
    }
    if (same) jpeg_finish_decompress(&info);
    jpeg_destroy_decompress(&info);
    return same;
}

inline result<image> decode_jpeg_libjpeg(const std::uint8_t* bytes, const std::string& name, const jpeg_header& header) {
    image picture;
    buffer row;
    GRAFT_TRY_ASSIGN(picture, image::make(header.height, header.width, 3));
    GRAFT_TRY_ASSIGN(row, buffer::allocate(static_cast<std::size_t>(4 * header.width)));
    jpeg_escape escape;
    std::memset(&escape, 0, sizeof escape);
    const bool good = run_libjpeg(escape, bytes, header.end, reinterpret_cast<std::uint8_t*>(row.data()), picture.data(), header.width, header.height);
    if (!good) return jpeg_error(escape.no_memory ? errc::memory_oom : errc::image_malformed, name, escape.text[0] ? escape.text : "the file is damaged");
    if (escape.truncated) return jpeg_error(errc::image_truncated, name, "picture data is missing");
    return picture;
}

}  // namespace detail
GRAFT_END_NAMESPACE
#endif
