// From a tensor to a picture: what networks that make pictures give.
#pragma once

#include "../tensor/tensor.hpp"
#include "image.hpp"

GRAFT_BEGIN_NAMESPACE

/// The picture that a tensor holds: [H,W], [C,H,W] or [H,W,C], with any extents of 1 before it, C being 1 (gray) or 3 (RGB); where both
/// would do, the channels are the first. uint8 is taken as it is; of float types `low` becomes 0 and `high` 255, the nearest pixel value
/// in between, and what is outside or NaN the nearest end (NaN: 0). Errors: input.dtype, input.shape (no picture, or several),
/// memory.oom.
result<image> to_image(const tensor& t, double low = 0, double high = 1);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <string>

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline std::uint8_t pixel_of(double value, double low, double high) noexcept {
    const double scaled = (value - low) / (high - low) * 255 + 0.5;
    return static_cast<std::uint8_t>(scaled >= 255 ? 255 : scaled >= 0 ? scaled : 0);
}

}  // namespace detail

GRAFT_INLINE result<image> to_image(const tensor& t, double low, double high) GRAFT_MEMORY_TRY {
    if (t.type() != dtype::uint8 && t.type() != dtype::float32 && t.type() != dtype::float64 && t.type() != dtype::float16 && t.type() != dtype::bfloat16)
        return fail(errc::input_dtype, "to_image", std::string("pictures are made of uint8 or of floats, not of ") + name(t.type()));
    if (!(low < high)) return fail(errc::usage, "to_image", "the value that is black has to be below the one that is white");
    const auto refused = [&] {
        return fail(errc::input_shape, "to_image",
                    "a picture is [H,W], [C,H,W] or [H,W,C] with 1 or 3 channels, or a batch of one; this is " + text(t.shape()));
    };
    int first = 0;
    while (t.shape().rank() - first > 3 && t.shape()[first] == 1) ++first;
    const shape e = shape::from(t.shape().begin() + first, t.shape().end());
    const auto is_channels = [](std::int64_t n) { return n == 1 || n == 3; };
    if (e.rank() != 2 && (e.rank() != 3 || (!is_channels(e[0]) && !is_channels(e[2])))) return refused();
    const bool planes = e.rank() == 3 && is_channels(e[0]);
    const std::int64_t channels = e.rank() == 2 ? 1 : planes ? e[0] : e[2];
    const std::int64_t height = e[planes ? 1 : 0], width = e[planes ? 2 : 1], places = height * width;
    if (height < 1 || width < 1) return refused();
    image made;
    GRAFT_TRY_ASSIGN(made, image::make(height, width, static_cast<int>(channels)));
    for (std::int64_t i = 0; i < places; ++i)
        for (std::int64_t c = 0; c < channels; ++c) {
            const std::int64_t at = planes ? c * places + i : i * channels + c;
            made.data()[i * channels + c] =
                t.type() == dtype::uint8 ? t.data<std::uint8_t>()[at] : detail::pixel_of(element_as_double(t.type(), t.raw(), at), low, high);
        }
    return made;
}
GRAFT_MEMORY_CATCH("to_image")

GRAFT_END_NAMESPACE
#endif
