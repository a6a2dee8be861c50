// Changes of a picture's colours, equal to torchvision's on Pillow images bit for bit: the functional forms of ColorJitter and of
// the colour operations of RandAugment and TrivialAugment.
#pragma once

#include "image.hpp"
#include "sampler.hpp"

GRAFT_BEGIN_NAMESPACE

/// Every value times `factor`, clamped: 0 is black, 1 the picture itself.
result<image> adjust_brightness(const image& picture, double factor);
/// Blends between the picture's mean gray (0) and the picture (1), and beyond.
result<image> adjust_contrast(const image& picture, double factor);
/// Blends between the gray picture (0) and the picture (1), and beyond. Gray pictures come back as they are.
result<image> adjust_saturation(const image& picture, double factor);
/// Turns the hue by `factor` of the circle, in [-0.5, 0.5], by way of Pillow's 8-bit HSV. Gray pictures come back as they are.
result<image> adjust_hue(const image& picture, double factor);
/// Blends between the picture smoothed by (1 1 1; 1 5 1; 1 1 1) / 13 (0) and the picture (1), and beyond; edges stay.
result<image> adjust_sharpness(const image& picture, double factor);
/// Keeps the high `bits` of every value, 0 to 8.
result<image> posterize(const image& picture, int bits);
/// Inverts the values from `threshold` on.
result<image> solarize(const image& picture, double threshold);
/// Stretches each channel so that its darkest value becomes 0 and its brightest 255.
result<image> autocontrast(const image& picture);
/// Equalizes the histogram of each channel.
result<image> equalize(const image& picture);
/// 255 less every value.
result<image> invert(const image& picture);

/// ColorJitter.
result<image> color_jitter(const image& picture, double brightness, double contrast, double saturation, double hue, random_sequence& random);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cmath>
#include <cstring>
#include <utility>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Pillow's blend: float arithmetic, cut towards zero, clamped. Product and sum are exact as doubles and are rounded one by one,
// so that no compiler makes a fused multiply-add of them, which would round once.
inline std::uint8_t blend_value(int degenerate, int value, float factor) noexcept {
    const float product = static_cast<float>(static_cast<double>(factor) * (value - degenerate));
    const float blended = static_cast<float>(degenerate + static_cast<double>(product));
    return static_cast<std::uint8_t>(blended <= 0.0f ? 0 : blended >= 255.0f ? 255 : static_cast<int>(blended));
}

// One table for each channel, 256 values each, or one for all of them.
inline result<image> look_up_pixels(const image& picture, const std::uint8_t (*tables)[256], int count) {
    image out;
    GRAFT_TRY_ASSIGN(out, image::make(picture.height, picture.width, picture.channels));
    const std::uint8_t* in = picture.data();
    std::uint8_t* to = out.data();
    const std::int64_t n = picture.bytes();
    if (count == 1) {
        for (std::int64_t i = 0; i < n; ++i) to[i] = tables[0][in[i]];
        return out;
    }
    for (int c = 0; c < picture.channels; ++c)
        for (std::int64_t i = c; i < n; i += picture.channels) to[i] = tables[c][in[i]];
    return out;
}

// A product that is rounded before anything is added to it.
inline GRAFT_NOINLINE double rounded_product(double a, double b) noexcept { return a * b; }

inline result<image> blend_with_gray(const image& picture, int gray, double factor) {
    std::uint8_t table[1][256];
    for (int v = 0; v < 256; ++v) table[0][v] = blend_value(gray, v, static_cast<float>(factor));
    return look_up_pixels(picture, table, 1);
}

inline void count_values(const image& picture, int channel, std::int64_t (&counts)[256]) {
    std::memset(counts, 0, sizeof counts);
    const std::uint8_t* in = picture.data();
    for (std::int64_t i = channel, n = picture.bytes(); i < n; i += picture.channels) ++counts[in[i]];
}

struct hsv {
    int h, s, v;
};

// Pillow's, after Python's colorsys: floats and doubles where it has them.
inline hsv rgb_to_hsv(int r, int g, int b) noexcept {
    const int most = r > g ? (r > b ? r : b) : (g > b ? g : b), least = r < g ? (r < b ? r : b) : (g < b ? g : b);
    if (most == least) return {0, 0, most};
    const float spread = static_cast<float>(most - least), s = spread / static_cast<float>(most);
    const float rc = static_cast<float>(most - r) / spread, gc = static_cast<float>(most - g) / spread, bc = static_cast<float>(most - b) / spread;
    float h;
    if (r == most)
        h = bc - gc;
    else if (g == most)
        h = static_cast<float>(2.0 + static_cast<double>(rc) - static_cast<double>(bc));
    else
        h = static_cast<float>(4.0 + static_cast<double>(gc) - static_cast<double>(rc));
    double turn = static_cast<double>(h) / 6.0 + 1.0;  // in [5/6, 2)
    if (turn >= 1.0) turn -= 1.0;
    h = static_cast<float>(turn);
    return {static_cast<int>(static_cast<double>(h) * 255.0), static_cast<int>(static_cast<double>(s) * 255.0), most};
}

inline int round_up_half(double x) noexcept { return static_cast<int>(x + 0.5); }  // what round() does where x >= 0

inline void hsv_to_rgb(const hsv& in, std::uint8_t* out) noexcept {
    const auto v = static_cast<std::uint8_t>(in.v);
    if (in.s == 0) {
        out[0] = out[1] = out[2] = v;
        return;
    }
    const double sixths = static_cast<double>(in.h) * 6.0 / 255.0;
    const int sector = static_cast<int>(sixths);
    const double f = static_cast<double>(static_cast<float>(sixths - sector));
    const double s = static_cast<double>(static_cast<float>(in.s / 255.0));
    const auto p = static_cast<std::uint8_t>(round_up_half(in.v * (1.0 - s)));
    const auto q = static_cast<std::uint8_t>(round_up_half(in.v * (1.0 - s * f)));
    const auto t = static_cast<std::uint8_t>(round_up_half(in.v * (1.0 - s * (1.0 - f))));
    const std::uint8_t values[6][3] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};
    std::memcpy(out, values[sector % 6], 3);
}

}  // namespace detail

GRAFT_INLINE result<image> adjust_brightness(const image& picture, double factor) { return detail::blend_with_gray(picture, 0, factor); }

GRAFT_INLINE result<image> adjust_contrast(const image& picture, double factor) GRAFT_MEMORY_TRY {
    image gray;
    GRAFT_TRY_ASSIGN(gray, to_gray(picture));
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < gray.bytes(); ++i) sum += gray.data()[i];
    const double mean = static_cast<double>(sum) / static_cast<double>(gray.bytes());
    return detail::blend_with_gray(picture, static_cast<int>(mean + 0.5), factor);
}
GRAFT_MEMORY_CATCH("adjust_contrast")

GRAFT_INLINE result<image> adjust_saturation(const image& picture, double factor) GRAFT_MEMORY_TRY {
    if (picture.channels == 1) return picture;
    image gray, out;
    GRAFT_TRY_ASSIGN(gray, to_gray(picture));
    GRAFT_TRY_ASSIGN(out, image::make(picture.height, picture.width, 3));
    const std::uint8_t *in = picture.data(), *l = gray.data();
    std::uint8_t* to = out.data();
    const float f = static_cast<float>(factor);
    for (std::int64_t i = 0, n = gray.bytes(); i < n; ++i)
        for (int c = 0; c < 3; ++c) to[3 * i + c] = detail::blend_value(l[i], in[3 * i + c], f);
    return out;
}
GRAFT_MEMORY_CATCH("adjust_saturation")

GRAFT_INLINE result<image> adjust_hue(const image& picture, double factor) GRAFT_MEMORY_TRY {
    if (picture.channels == 1) return picture;
    image out;
    GRAFT_TRY_ASSIGN(out, image::make(picture.height, picture.width, 3));
    const int turn = static_cast<int>(factor * 255) & 255;
    const std::uint8_t* in = picture.data();
    std::uint8_t* to = out.data();
    for (std::int64_t i = 0, n = picture.bytes(); i < n; i += 3) {
        detail::hsv colour = detail::rgb_to_hsv(in[i], in[i + 1], in[i + 2]);
        colour.h = (colour.h + turn) & 255;
        detail::hsv_to_rgb(colour, to + i);
    }
    return out;
}
GRAFT_MEMORY_CATCH("adjust_hue")

GRAFT_INLINE result<image> adjust_sharpness(const image& picture, double factor) GRAFT_MEMORY_TRY {
    image out;
    GRAFT_TRY_ASSIGN(out, crop(picture, 0, 0, picture.height, picture.width));
    float edge[256], middle[256];  // the products, rounded
    for (int v = 0; v < 256; ++v) {
        edge[v] = static_cast<float>(v) * (1.0f / 13.0f);
        middle[v] = static_cast<float>(v) * (5.0f / 13.0f);
    }
    const float f = static_cast<float>(factor);
    const std::int64_t step = picture.channels, last = picture.stride() - step;
    for (std::int64_t y = 1; y + 1 < picture.height; ++y) {
        const std::uint8_t *above = picture.row(y - 1), *here = picture.row(y), *below = picture.row(y + 1);
        std::uint8_t* to = out.row(y);
        const auto three = [step, &edge](const std::uint8_t* row, std::int64_t i, const float* centre) {
            return edge[row[i - step]] + centre[row[i]] + edge[row[i + step]];
        };
        for (std::int64_t i = step; i < last; ++i) {
            float sum = 0.5f;  // added in this order by Pillow
            sum += three(below, i, edge);
            sum += three(here, i, middle);
            sum += three(above, i, edge);
            to[i] = detail::blend_value(static_cast<int>(sum), here[i], f);
        }
    }
    return out;
}
GRAFT_MEMORY_CATCH("adjust_sharpness")

GRAFT_INLINE result<image> posterize(const image& picture, int bits) GRAFT_MEMORY_TRY {
    std::uint8_t table[1][256];
    const int mask = bits >= 8 ? 255 : bits <= 0 ? 0 : 255 & ~((1 << (8 - bits)) - 1);
    for (int v = 0; v < 256; ++v) table[0][v] = static_cast<std::uint8_t>(v & mask);
    return detail::look_up_pixels(picture, table, 1);
}
GRAFT_MEMORY_CATCH("posterize")

GRAFT_INLINE result<image> solarize(const image& picture, double threshold) GRAFT_MEMORY_TRY {
    std::uint8_t table[1][256];
    for (int v = 0; v < 256; ++v) table[0][v] = static_cast<std::uint8_t>(v < threshold ? v : 255 - v);
    return detail::look_up_pixels(picture, table, 1);
}
GRAFT_MEMORY_CATCH("solarize")

GRAFT_INLINE result<image> autocontrast(const image& picture) GRAFT_MEMORY_TRY {
    std::uint8_t tables[4][256];
    for (int c = 0; c < picture.channels; ++c) {
        std::int64_t counts[256];
        detail::count_values(picture, c, counts);
        int low = 0, high = 255;
        while (low < 255 && !counts[low]) ++low;
        while (high > 0 && !counts[high]) --high;
        const double scale = high > low ? 255.0 / (high - low) : 1.0, offset = high > low ? -low * scale : 0.0;
        for (int v = 0; v < 256; ++v) {
            const double stretched = detail::rounded_product(v, scale) + offset;
            tables[c][v] = static_cast<std::uint8_t>(stretched <= 0 ? 0 : stretched >= 255 ? 255 : static_cast<int>(stretched));
        }
    }
    return detail::look_up_pixels(picture, tables, picture.channels);
}
GRAFT_MEMORY_CATCH("autocontrast")

GRAFT_INLINE result<image> equalize(const image& picture) GRAFT_MEMORY_TRY {
    std::uint8_t tables[4][256];
    for (int c = 0; c < picture.channels; ++c) {
        std::int64_t counts[256], sum = picture.height * picture.width;
        detail::count_values(picture, c, counts);
        int last = 255;
        while (last > 0 && !counts[last]) --last;
        // With one value only, nothing is left of the sum, and the picture stays.
        const std::int64_t step = (sum - counts[last]) / 255;
        std::int64_t n = step / 2;
        for (int v = 0; v < 256; n += counts[v], ++v) {
            const std::int64_t level = step ? n / step : v;
            tables[c][v] = static_cast<std::uint8_t>(level > 255 ? 255 : level);
        }
    }
    return detail::look_up_pixels(picture, tables, picture.channels);
}
GRAFT_MEMORY_CATCH("equalize")

GRAFT_INLINE result<image> invert(const image& picture) GRAFT_MEMORY_TRY {
    std::uint8_t table[1][256];
    for (int v = 0; v < 256; ++v) table[0][v] = static_cast<std::uint8_t>(255 - v);
    return detail::look_up_pixels(picture, table, 1);
}
GRAFT_MEMORY_CATCH("invert")

GRAFT_INLINE result<image> color_jitter(const image& picture, double brightness, double contrast, double saturation, double hue,
                                        random_sequence& random) GRAFT_MEMORY_TRY {
    const double spread[4] = {brightness, contrast, saturation, hue};
    double factor[4];
    int order[4] = {0, 1, 2, 3};
    for (int i = 3; i > 0; --i) std::swap(order[i], order[random.below(static_cast<std::uint64_t>(i) + 1)]);
    for (int i = 0; i < 4; ++i) factor[i] = i == 3 ? random.uniform(-hue, hue) : random.uniform(spread[i] < 1 ? 1 - spread[i] : 0, 1 + spread[i]);
    image out = picture;
    for (const int which : order) {
        if (spread[which] <= 0) continue;
        if (which == 0) GRAFT_TRY_ASSIGN(out, adjust_brightness(out, factor[0]));
        if (which == 1) GRAFT_TRY_ASSIGN(out, adjust_contrast(out, factor[1]));
        if (which == 2) GRAFT_TRY_ASSIGN(out, adjust_saturation(out, factor[2]));
        if (which == 3) GRAFT_TRY_ASSIGN(out, adjust_hue(out, factor[3]));
    }
    return out;
}
GRAFT_MEMORY_CATCH("color_jitter")

GRAFT_END_NAMESPACE
#endif
