// Crops, turns and shears of a picture, equal to torchvision's on Pillow images bit for bit.
#pragma once

#include "resize.hpp"

GRAFT_BEGIN_NAMESPACE

/// A rectangle of pixels.
struct crop_box {
    std::int64_t top = 0, left = 0, height = 0, width = 0;
};

/// The rectangle scaled to `height` x `width`: what `resize(crop(...))` gives, without the copy. Errors: preprocess.crop (not
/// inside), image.dimensions, memory.oom.
result<image> resized_crop(const image& picture, const crop_box& box, std::int64_t height, std::int64_t width, filter kernel = filter::bilinear);

/// The picture mirrored, top and bottom swapped.
result<image> flip_vertical(const image& picture);

/// Output pixel (x, y) shows the input's (a x + b y + c, d x + e y + f), both counted from pixel centres; `fill` where that is
/// outside. `kernel` is nearest or bilinear, which looks at the four nearest pixels.
struct affine_matrix {
    double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};
result<image> affine(const image& picture, const affine_matrix& inverse, filter kernel = filter::nearest, int fill = 0);

/// The inverse matrix of torchvision's `affine`: turned by `angle`, moved by (x, y) pixels and sheared, in degrees, about a
/// centre.
affine_matrix inverse_affine(double centre_x, double centre_y, double angle, double translate_x, double translate_y, double shear_x, double shear_y);

/// Turned counter-clockwise about the middle, in degrees, in the same frame; corners that come in are `fill`. Quarter turns of
/// square pictures and half turns are exact.
result<image> rotate(const image& picture, double degrees, filter kernel = filter::nearest, int fill = 0);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cmath>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The position in an axis of n pixels that a coordinate falls on, -1 where it falls outside.
inline std::int64_t pixel_at(double coordinate, std::int64_t n) noexcept {
    return coordinate < 0 || coordinate >= static_cast<double>(n) ? -1 : static_cast<std::int64_t>(coordinate);
}

inline void copy_pixel(const std::uint8_t* from, std::uint8_t* to, int channels) noexcept {
    for (int c = 0; c < channels; ++c) to[c] = from[c];
}

// Without turn and shear Pillow adds the scale up column by column, and so it is done here.
inline void affine_scaled(const image& in, const affine_matrix& m, image& out) {
    std::vector<std::int64_t> columns;
    double x_at = m.c + m.a * 0.5, y_at = m.f + m.e * 0.5;
    for (std::int64_t x = 0; x < out.width; ++x, x_at += m.a) columns.push_back(pixel_at(x_at, in.width));
    for (std::int64_t y = 0; y < out.height; ++y, y_at += m.e) {
        const std::int64_t from = pixel_at(y_at, in.height);
        if (from < 0) continue;
        for (std::int64_t x = 0; x < out.width; ++x) {
            const std::int64_t column = columns[static_cast<std::size_t>(x)];
            if (column >= 0) copy_pixel(in.row(from) + column * in.channels, out.row(y) + x * in.channels, in.channels);
        }
    }
}

// 16 bits behind the point, where every corner of the output falls within 15 bits before it.
inline bool affine_fits(const image& out, const affine_matrix& m) noexcept {
    for (const double x : {0.0, static_cast<double>(out.width)})
        for (const double y : {0.0, static_cast<double>(out.height)})
            if (!(std::fabs(x * m.a + y * m.b + m.c) < 32768.0 && std::fabs(x * m.d + y * m.e + m.f) < 32768.0)) return false;
    return true;
}

inline void affine_fixed(const image& in, const affine_matrix& m, image& out) noexcept {
    const auto fixed = [](double v) { return static_cast<std::int64_t>(std::floor(v * 65536.0 + 0.5)); };
    const std::int64_t a = fixed(m.a), b = fixed(m.b), d = fixed(m.d), e = fixed(m.e);
    std::int64_t row_x = fixed(m.c + m.a * 0.5 + m.b * 0.5), row_y = fixed(m.f + m.d * 0.5 + m.e * 0.5);
    for (std::int64_t y = 0; y < out.height; ++y, row_x += b, row_y += e) {
        std::int64_t at_x = row_x, at_y = row_y;
        std::uint8_t* to = out.row(y);
        for (std::int64_t x = 0; x < out.width; ++x, at_x += a, at_y += d, to += in.channels) {
            const std::int64_t from_x = at_x >> 16, from_y = at_y >> 16;
            if (from_x >= 0 && from_x < in.width && from_y >= 0 && from_y < in.height) copy_pixel(in.row(from_y) + from_x * in.channels, to, in.channels);
        }
    }
}

inline void affine_exact(const image& in, const affine_matrix& m, image& out) noexcept {
    double row_x = m.c + m.b * 0.5 + m.a * 0.5, row_y = m.f + m.e * 0.5 + m.d * 0.5;
    for (std::int64_t y = 0; y < out.height; ++y, row_x += m.b, row_y += m.e) {
        double at_x = row_x, at_y = row_y;
        for (std::int64_t x = 0; x < out.width; ++x, at_x += m.a, at_y += m.d) {
            const std::int64_t from_x = pixel_at(at_x, in.width), from_y = pixel_at(at_y, in.height);
            if (from_x >= 0 && from_y >= 0) copy_pixel(in.row(from_y) + from_x * in.channels, out.row(y) + x * in.channels, in.channels);
        }
    }
}

inline void affine_bilinear(const image& in, const affine_matrix& m, image& out) noexcept {
    const auto clip = [](std::int64_t v, std::int64_t n) { return v < 0 ? 0 : v < n ? v : n - 1; };
    for (std::int64_t y = 0; y < out.height; ++y)
        for (std::int64_t x = 0; x < out.width; ++x) {
            const double px = static_cast<double>(x) + 0.5, py = static_cast<double>(y) + 0.5;
            double at_x = m.a * px + m.b * py + m.c, at_y = m.d * px + m.e * py + m.f;
            if (pixel_at(at_x, in.width) < 0 || pixel_at(at_y, in.height) < 0) continue;
            at_x -= 0.5;
            at_y -= 0.5;
            const auto left = static_cast<std::int64_t>(std::floor(at_x)), top = static_cast<std::int64_t>(std::floor(at_y));
            const double dx = at_x - static_cast<double>(left), dy = at_y - static_cast<double>(top);
            const std::uint8_t *upper = in.row(clip(top, in.height)), *lower = in.row(clip(top + 1, in.height));
            const std::int64_t x0 = clip(left, in.width) * in.channels, x1 = clip(left + 1, in.width) * in.channels;
            for (int c = 0; c < in.channels; ++c) {
                const double up = upper[x0 + c] + (upper[x1 + c] - upper[x0 + c]) * dx;
                const double down = lower[x0 + c] + (lower[x1 + c] - lower[x0 + c]) * dx;
                out.row(y)[x * in.channels + c] = static_cast<std::uint8_t>(up + (down - up) * dy);
            }
        }
}

}  // namespace detail

GRAFT_INLINE result<image> resized_crop(const image& picture, const crop_box& box, std::int64_t height, std::int64_t width, filter kernel) GRAFT_MEMORY_TRY {
    const bool across = width != box.width, down = height != box.height;
    const bool inside =
        box.top >= 0 && box.left >= 0 && box.height >= 1 && box.width >= 1 && box.height <= picture.height - box.top && box.width <= picture.width - box.left;
    if (!inside || kernel == filter::nearest || (!across && !down)) {
        image part;
        GRAFT_TRY_ASSIGN(part, crop(picture, box.top, box.left, box.height, box.width));
        return resize(part, height, width, kernel);
    }
    image out, between;
    GRAFT_TRY_ASSIGN(out, image::make(height, width, picture.channels));
    detail::resample_weights rows, columns;
    if (down) rows = detail::weights_for(box.height, height, kernel, 0, height);
    if (across) columns = detail::weights_for(box.width, width, kernel, 0, width);
    // The same order of passes as in `resize_window`, for the same bits.
    if (down && (!across || (height < box.height && box.height - height > 2 * (box.width - width)))) {
        between = out;
        if (across) GRAFT_TRY_ASSIGN(between, image::make(height, box.width, picture.channels));
        detail::resample_down(picture, box.left, -box.top, rows, between);
        if (across) detail::resample_across(between, 0, columns, out);
        return out;
    }
    const std::int64_t first = down ? rows.spans.front().first : 0;
    const std::int64_t last = down ? rows.spans.back().first + rows.spans.back().count : height;
    between = out;
    if (down) GRAFT_TRY_ASSIGN(between, image::make(last - first, width, picture.channels));
    for (detail::resample_weights::span& span : columns.spans) span.first += box.left;
    detail::resample_across(picture, box.top + first, columns, between);
    if (down) detail::resample_down(between, 0, first, rows, out);
    return out;
}
GRAFT_MEMORY_CATCH("resized_crop")

GRAFT_INLINE result<image> flip_vertical(const image& picture) { return orient(picture, 4); }

GRAFT_INLINE result<image> affine(const image& picture, const affine_matrix& inverse, filter kernel, int fill) GRAFT_MEMORY_TRY {
    image out;
    GRAFT_TRY_ASSIGN(out, image::make(picture.height, picture.width, picture.channels));
    std::memset(out.data(), fill, static_cast<std::size_t>(out.bytes()));
    if (kernel != filter::nearest)
        detail::affine_bilinear(picture, inverse, out);
    else if (inverse.b == 0 && inverse.d == 0)
        detail::affine_scaled(picture, inverse, out);
    else if (detail::affine_fits(out, inverse))
        detail::affine_fixed(picture, inverse, out);
    else
        detail::affine_exact(picture, inverse, out);
    return out;
}
GRAFT_MEMORY_CATCH("affine")

GRAFT_INLINE affine_matrix inverse_affine(double centre_x, double centre_y, double angle, double translate_x, double translate_y, double shear_x,
                                          double shear_y) {
    constexpr double radian = 3.14159265358979323846 / 180;
    const double turn = angle * radian, sx = shear_x * radian, sy = shear_y * radian;
    const double a = std::cos(turn - sy) / std::cos(sy), b = -std::cos(turn - sy) * std::tan(sx) / std::cos(sy) - std::sin(turn);
    const double c = std::sin(turn - sy) / std::cos(sy), d = -std::sin(turn - sy) * std::tan(sx) / std::cos(sy) + std::cos(turn);
    affine_matrix m = {d, -b, 0, -c, a, 0};
    m.c += m.a * (-centre_x - translate_x) + m.b * (-centre_y - translate_y);
    m.f += m.d * (-centre_x - translate_x) + m.e * (-centre_y - translate_y);
    m.c += centre_x;
    m.f += centre_y;
    return m;
}

GRAFT_INLINE result<image> rotate(const image& picture, double degrees, filter kernel, int fill) GRAFT_MEMORY_TRY {
    double turn = std::fmod(degrees, 360.0);
    if (turn < 0) turn += 360.0;
    if (turn == 0) return picture;
    if (turn == 180) return orient(picture, 3);
    if (picture.height == picture.width && (turn == 90 || turn == 270)) return orient(picture, turn == 90 ? 8 : 6);
    const double radians = -(turn * 3.14159265358979323846 / 180.0);
    // To 15 decimals, as Pillow does; the product's own rounding error decides where it falls near the middle.
    const auto rounded = [](double v) {
        const double scaled = v * 1e15, lost = std::fma(v, 1e15, -scaled), near = std::nearbyint(scaled), rest = scaled - near + lost;
        return (near + (rest > 0.5 ? 1 : rest < -0.5 ? -1 : 0)) / 1e15;
    };
    affine_matrix m = {rounded(std::cos(radians)), rounded(std::sin(radians)), 0, rounded(-std::sin(radians)), rounded(std::cos(radians)), 0};
    const double x = static_cast<double>(picture.width) / 2, y = static_cast<double>(picture.height) / 2;
    m.c = m.a * -x + m.b * -y + m.c + x;
    m.f = m.d * -x + m.e * -y + m.f + y;
    return affine(picture, m, kernel, fill);
}
GRAFT_MEMORY_CATCH("rotate")

GRAFT_END_NAMESPACE
#endif
