// An 8-bit picture in memory, and the plain operations on it: gray, crop, flips and turns.
#pragma once

#include "../core/buffer.hpp"
#include "../core/limits.hpp"

#include <cstdint>
#include <string>

GRAFT_BEGIN_NAMESPACE

/// A picture: rows from the top, pixels from the left, channels interleaved (HWC), 8 bits each; 3 channels are RGB, 1 is gray.
/// Copies share the pixels, as tensors do.
struct image {
    std::int64_t height = 0, width = 0;
    int channels = 3;
    buffer pixels;

    /// A picture whose pixels are not set yet. Errors: image.dimensions (a side < 1), memory.oom.
    static result<image> make(std::int64_t height, std::int64_t width, int channels);

    std::uint8_t* data() const noexcept { return reinterpret_cast<std::uint8_t*>(pixels.data()); }
    /// Bytes from one row to the next.
    std::int64_t stride() const noexcept { return width * channels; }
    std::int64_t bytes() const noexcept { return height * stride(); }
    std::uint8_t* row(std::int64_t y) const noexcept { return data() + y * stride(); }
    /// Whether there is a picture at all.
    explicit operator bool() const noexcept { return height > 0 && width > 0; }
};

/// The luma of an RGB picture, Pillow's mode L: (19595 R + 38470 G + 7471 B + 32768) >> 16. Gray pictures come back as they are.
result<image> to_gray(const image& picture);
/// The rectangle of `height` x `width` pixels whose top left corner is (top, left). Errors: preprocess.crop where it is not
/// inside.
result<image> crop(const image& picture, std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width);
/// The picture mirrored, left and right swapped.
result<image> flip_horizontal(const image& picture);
/// The picture as it is to be seen when its EXIF orientation is `orientation` (1..8; others leave it as it is).
result<image> orient(const image& picture, int orientation);

namespace detail {
// Refuses sides that are zero or over the limits, before anything is allocated for them.
status check_image_size(std::int64_t width, std::int64_t height, const std::string& name, const limits& caps);
}  // namespace detail

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cstring>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE result<image> image::make(std::int64_t height, std::int64_t width, int channels) GRAFT_MEMORY_TRY {
    // 2^27 a side keeps every product below 2^63.
    if (height < 1 || width < 1 || channels < 1 || channels > 4 || height > (1 << 27) || width > (1 << 27))
        return fail(errc::image_dimensions, "image", std::to_string(width) + "x" + std::to_string(height) + "x" + std::to_string(channels) + " is no picture");
    image made;
    made.height = height;
    made.width = width;
    made.channels = channels;
    GRAFT_TRY_ASSIGN(made.pixels, buffer::allocate(static_cast<std::size_t>(height * width * channels)));
    return made;
}
GRAFT_MEMORY_CATCH("image::make")

GRAFT_INLINE status detail::check_image_size(std::int64_t width, std::int64_t height, const std::string& name, const limits& caps) {
    if (width >= 1 && height >= 1 && width <= caps.image_side && height <= caps.image_side && width * height <= caps.image_pixels) return {};
    const std::string size = std::to_string(width) + "x" + std::to_string(height) + " pixels; ";
    if (width < 1 || height < 1) return fail(errc::image_dimensions, name, size + "no side can be zero");
    if (width > caps.image_side || height > caps.image_side)
        return fail(errc::image_dimensions, name, size + "the longest side allowed is " + std::to_string(caps.image_side));
    return fail(errc::image_budget, name, size + "the limit is " + std::to_string(caps.image_pixels) + " pixels");
}

GRAFT_INLINE result<image> to_gray(const image& picture) GRAFT_MEMORY_TRY {
    if (picture.channels == 1) return picture;
    image gray;
    GRAFT_TRY_ASSIGN(gray, image::make(picture.height, picture.width, 1));
    const std::uint8_t* in = picture.data();
    std::uint8_t* out = gray.data();
    for (std::int64_t i = 0, n = gray.bytes(); i < n; ++i, in += 3)
        out[i] = static_cast<std::uint8_t>((19595u * in[0] + 38470u * in[1] + 7471u * in[2] + 32768u) >> 16);
    return gray;
}
GRAFT_MEMORY_CATCH("to_gray")

GRAFT_INLINE result<image> crop(const image& picture, std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width) GRAFT_MEMORY_TRY {
    if (top < 0 || left < 0 || height < 1 || width < 1 || height > picture.height - top || width > picture.width - left)
        return fail(errc::preprocess_crop, "crop",
                    "a picture of " + std::to_string(picture.width) + "x" + std::to_string(picture.height) + " does not hold a crop of " +
                        std::to_string(width) + "x" + std::to_string(height));
    image part;
    GRAFT_TRY_ASSIGN(part, image::make(height, width, picture.channels));
    for (std::int64_t y = 0; y < height; ++y) std::memcpy(part.row(y), picture.row(top + y) + left * picture.channels, static_cast<std::size_t>(part.stride()));
    return part;
}
GRAFT_MEMORY_CATCH("crop")

GRAFT_INLINE result<image> flip_horizontal(const image& picture) { return orient(picture, 2); }

GRAFT_INLINE result<image> orient(const image& picture, int orientation) GRAFT_MEMORY_TRY {
    if (orientation < 2 || orientation > 8) return picture;
    const bool turned = orientation >= 5;
    // Which source pixel the target's (y, x) shows: rows or columns counted backwards, then axes swapped.
    const bool x_back = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool y_back = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    image out;
    GRAFT_TRY_ASSIGN(out, image::make(turned ? picture.width : picture.height, turned ? picture.height : picture.width, picture.channels));
    const std::int64_t channels = picture.channels, stride = picture.stride();
    const std::int64_t step_x = x_back ? -channels : channels, step_y = y_back ? -stride : stride;
    const std::uint8_t* origin = picture.data() + (x_back ? (picture.width - 1) * channels : 0) + (y_back ? (picture.height - 1) * stride : 0);
    const std::int64_t along = turned ? step_y : step_x, across = turned ? step_x : step_y;
    for (std::int64_t y = 0; y < out.height; ++y) {
        const std::uint8_t* in = origin + y * across;
        std::uint8_t* to = out.row(y);
        for (std::int64_t x = 0; x < out.width; ++x, in += along, to += channels)
            for (std::int64_t c = 0; c < channels; ++c) to[c] = in[c];
    }
    return out;
}
GRAFT_MEMORY_CATCH("orient")

GRAFT_END_NAMESPACE
#endif
