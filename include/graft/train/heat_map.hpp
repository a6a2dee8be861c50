// Where a network looked: a map of weights laid over the picture in colours of even steps, as for Grad-CAM.
#pragma once

#include "../data/image.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE

/// A colour between dark violet (0) and pale yellow (1), in sRGB. Its lightness in OKLab grows evenly, so that equal differences
/// of the value look equal, in gray too (Ottosson, "A perceptual color space for image processing", 2020).
void heat_color(double value, std::uint8_t rgb[3]) noexcept;

/// The picture in gray with a map over it: the map, [height, width] row-major, is stretched to the picture between the centres of
/// its cells, its smallest value becomes 0 and its largest 1; where it is larger there is more colour. `strength` is how much
/// colour there is at 1, from 0 to 1. Values that are not finite count as the smallest, and an even map has no colour. Errors:
/// input.shape (no map, no picture), memory.oom.
result<image> overlay_heat_map(const image& picture, const float* map, std::int64_t height, std::int64_t width, double strength = 0.75);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
#include <cmath>
#include <string>
GRAFT_BEGIN_NAMESPACE
namespace detail {

inline std::uint8_t srgb_byte(double linear) noexcept {
    const double v = std::min(std::max(linear, 0.0), 1.0);
    return static_cast<std::uint8_t>(std::lround(255 * (v <= 0.0031308 ? 12.92 * v : 1.055 * std::pow(v, 1 / 2.4) - 0.055)));
}

}  // namespace detail

GRAFT_INLINE void heat_color(double value, std::uint8_t rgb[3]) noexcept {
    // Lightness is even; a and b turn from violet over red and orange to yellow.
    static constexpr double stops[6][2] = {{0.02, -0.10}, {0.12, -0.12}, {0.18, -0.02}, {0.15, 0.10}, {0.06, 0.15}, {-0.03, 0.12}};
    const double v = value >= 0 ? std::min(value, 1.0) : 0;
    const int at = std::min(static_cast<int>(v * 5), 4);
    const double part = v * 5 - at;
    const double lightness = 0.22 + 0.74 * v;
    const double a = stops[at][0] + part * (stops[at + 1][0] - stops[at][0]), b = stops[at][1] + part * (stops[at + 1][1] - stops[at][1]);
    const double l = std::pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3), m = std::pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
    const double s = std::pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
    rgb[0] = detail::srgb_byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s);
    rgb[1] = detail::srgb_byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s);
    rgb[2] = detail::srgb_byte(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s);
}

GRAFT_INLINE result<image> overlay_heat_map(const image& picture, const float* map, std::int64_t height, std::int64_t width, double strength) GRAFT_MEMORY_TRY {
    if (!picture || !map || height < 1 || width < 1 || (picture.channels != 1 && picture.channels != 3))
        return fail(errc::input_shape, "heat map", "there must be a picture of one or three channels and a map with at least one value");
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (std::int64_t i = 0; i < height * width; ++i)
        if (std::isfinite(map[i])) low = std::min(low, double(map[i])), high = std::max(high, double(map[i]));
    image gray, out;
    GRAFT_TRY_ASSIGN(gray, to_gray(picture));
    GRAFT_TRY_ASSIGN(out, image::make(picture.height, picture.width, 3));
    const auto cell = [&](std::int64_t y, std::int64_t x) {
        const double v = map[std::min(std::max<std::int64_t>(y, 0), height - 1) * width + std::min(std::max<std::int64_t>(x, 0), width - 1)];
        return std::isfinite(v) && high > low ? (v - low) / (high - low) : 0.0;
    };
    for (std::int64_t y = 0; y < picture.height; ++y) {
        const double v = (static_cast<double>(y) + 0.5) * static_cast<double>(height) / static_cast<double>(picture.height) - 0.5;
        const auto y0 = static_cast<std::int64_t>(std::floor(v));
        const double fy = v - static_cast<double>(y0);
        for (std::int64_t x = 0; x < picture.width; ++x) {
            const double u = (static_cast<double>(x) + 0.5) * static_cast<double>(width) / static_cast<double>(picture.width) - 0.5;
            const auto x0 = static_cast<std::int64_t>(std::floor(u));
            const double fx = u - static_cast<double>(x0);
            const double heat = (1 - fy) * ((1 - fx) * cell(y0, x0) + fx * cell(y0, x0 + 1)) + fy * ((1 - fx) * cell(y0 + 1, x0) + fx * cell(y0 + 1, x0 + 1));
            std::uint8_t color[3];
            heat_color(heat, color);
            const double share = strength * std::sqrt(heat), shade = gray.row(y)[x];
            for (int c = 0; c < 3; ++c) out.row(y)[x * 3 + c] = static_cast<std::uint8_t>(std::lround(shade + share * (color[c] - shade)));
        }
    }
    return out;
}
GRAFT_MEMORY_CATCH("overlay_heat_map")

GRAFT_END_NAMESPACE
#endif
