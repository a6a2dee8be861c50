// Resampling, equal to Pillow's bit for bit: antialiased, 22-bit fixed-point weights, each axis rounded to 8 bits.
#pragma once

#include "image.hpp"

GRAFT_BEGIN_NAMESPACE

/// Pillow's resampling filters; all but `nearest` widen with the shrink ratio, so that nothing aliases.
enum class filter { nearest, box, bilinear, hamming, bicubic, lanczos };

/// The picture scaled to `height` x `width` (aspect ignored), 8 bits again. Errors: image.dimensions, memory.oom.
result<image> resize(const image& picture, std::int64_t height, std::int64_t width, filter kernel = filter::bilinear);

/// The rectangle (top, left, window_height, window_width) of what `resize` gives, without the work for the rest.
/// Errors: as `resize`; preprocess.crop where the rectangle is not inside.
result<image> resize_window(const image& picture, std::int64_t height, std::int64_t width, filter kernel, std::int64_t top, std::int64_t left,
                            std::int64_t window_height, std::int64_t window_width);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cmath>
#include <cstring>
#include <vector>
#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define GRAFT_RESIZE_SSE2 1
#else
#define GRAFT_RESIZE_SSE2 0
#endif

GRAFT_BEGIN_NAMESPACE
namespace detail {

constexpr int resample_bits = 22;   // of a weight's fraction: 32 less 8 for the pixel and 2 for overshoot
constexpr int resample_split = 11;  // a weight is high * 2^11 + low, so that 16-bit products add up to it exactly

// For each output position the first input, how many there are, and their weights.
struct resample_weights {
    struct span {
        std::int64_t first, count;
        std::size_t at;  // in `weight`; even, so that `at / 2` is the place in `high` and `low`
    };
    std::vector<span> spans;
    std::vector<std::int32_t> weight;
    std::vector<std::uint32_t> high, low;  // two weights each, in 16-bit halves
};

inline double resample_sinc(double x) noexcept {
    if (x == 0.0) return 1.0;
    x *= 3.14159265358979323846;
    return std::sin(x) / x;
}

inline double resample_filter(filter kernel, double x) noexcept {
    if (kernel == filter::box) return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    if (kernel == filter::lanczos) return x >= -3.0 && x < 3.0 ? resample_sinc(x) * resample_sinc(x / 3) : 0.0;
    if (x < 0.0) x = -x;
    if (kernel == filter::bilinear) return x < 1.0 ? 1.0 - x : 0.0;
    if (kernel == filter::hamming) {
        if (x == 0.0) return 1.0;
        if (x >= 1.0) return 0.0;
        x *= 3.14159265358979323846;
        return std::sin(x) / x * (static_cast<double>(0.54f) + static_cast<double>(0.46f) * std::cos(x));  // floats in Pillow too
    }
    constexpr double a = -0.5;  // Catmull-Rom
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

// Weights for the outputs [begin, end) of an axis that goes from `in` to `out` positions.
inline resample_weights weights_for(std::int64_t in, std::int64_t out, filter kernel, std::int64_t begin, std::int64_t end) {
    const double reach = kernel == filter::box ? 0.5 : kernel == filter::bicubic ? 2.0 : kernel == filter::lanczos ? 3.0 : 1.0;
    const double scale = static_cast<double>(in) / static_cast<double>(out), widened = scale < 1.0 ? 1.0 : scale;
    const double support = reach * widened, shrink = 1.0 / widened;
    resample_weights w;
    std::vector<double> exact;
    for (std::int64_t x = begin; x < end; ++x) {
        const double centre = (static_cast<double>(x) + 0.5) * scale;
        auto first = static_cast<std::int64_t>(centre - support + 0.5), last = static_cast<std::int64_t>(centre + support + 0.5);
        if (first < 0) first = 0;
        if (last > in) last = in;
        const std::int64_t count = last - first;
        exact.clear();
        double sum = 0.0;
        for (std::int64_t i = 0; i < count; ++i) {
            exact.push_back(resample_filter(kernel, (static_cast<double>(i + first) - centre + 0.5) * shrink));
            sum += exact.back();
        }
        w.spans.push_back({first, count, w.weight.size()});
        for (double v : exact) {
            if (sum != 0.0) v /= sum;
            w.weight.push_back(static_cast<std::int32_t>((v < 0 ? -0.5 : 0.5) + v * (1 << resample_bits)));
        }
        if (count & 1) w.weight.push_back(0);
    }
    for (std::size_t i = 0; GRAFT_RESIZE_SSE2 && i < w.weight.size(); i += 2) {
        const std::int32_t a = w.weight[i], b = w.weight[i + 1];
        w.high.push_back((static_cast<std::uint32_t>(a >> resample_split) & 0xffff) | static_cast<std::uint32_t>(b >> resample_split) << 16);
        w.low.push_back((static_cast<std::uint32_t>(a) & 2047) | (static_cast<std::uint32_t>(b) & 2047) << 16);
    }
    return w;
}

inline std::uint8_t resample_clip(std::int32_t sum) noexcept {
    sum >>= resample_bits;
    return static_cast<std::uint8_t>(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

inline GRAFT_NOINLINE void resample_row(const std::uint8_t* in, std::uint8_t* out, int channels, const resample_weights& w) noexcept {
    for (const resample_weights::span& s : w.spans) {
        const std::uint8_t* p = in + s.first * channels;
#if GRAFT_RESIZE_SSE2
        if (channels == 3) {
            const __m128i zero = _mm_setzero_si128();
            __m128i high = zero, low = zero;
            const std::uint32_t *h = w.high.data() + s.at / 2, *l = w.low.data() + s.at / 2;
            std::int64_t i = 0;
            for (; i + 2 <= s.count; i += 2, p += 6) {
                // r0 g0 b0 r1 and r1 g1 b1, woven to the pairs r0 r1, g0 g1, b0 b1.
                std::uint32_t a, b;
                std::memcpy(&a, p, 4);
                std::memcpy(&b, p + 2, 4);
                const __m128i pairs =
                    _mm_unpacklo_epi8(_mm_unpacklo_epi8(_mm_cvtsi32_si128(static_cast<int>(a)), _mm_cvtsi32_si128(static_cast<int>(b >> 8))), zero);
                high = _mm_add_epi32(high, _mm_madd_epi16(pairs, _mm_set1_epi32(static_cast<int>(*h++))));
                low = _mm_add_epi32(low, _mm_madd_epi16(pairs, _mm_set1_epi32(static_cast<int>(*l++))));
            }
            if (i < s.count) {
                const __m128i last = _mm_set_epi16(0, 0, 0, p[2], 0, p[1], 0, p[0]);
                high = _mm_add_epi32(high, _mm_madd_epi16(last, _mm_set1_epi32(static_cast<int>(*h))));
                low = _mm_add_epi32(low, _mm_madd_epi16(last, _mm_set1_epi32(static_cast<int>(*l))));
            }
            const __m128i sum = _mm_add_epi32(_mm_add_epi32(_mm_slli_epi32(high, resample_split), low), _mm_set1_epi32(1 << (resample_bits - 1)));
            const __m128i words = _mm_packs_epi32(_mm_srai_epi32(sum, resample_bits), zero);
            const auto four = static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_packus_epi16(words, zero)));
            out[0] = static_cast<std::uint8_t>(four);
            out[1] = static_cast<std::uint8_t>(four >> 8);
            out[2] = static_cast<std::uint8_t>(four >> 16);
            out += 3;
            continue;
        }
#endif
        const std::int32_t* k = w.weight.data() + s.at;
        for (int c = 0; c < channels; ++c) {
            std::int32_t sum = 1 << (resample_bits - 1);
            for (std::int64_t i = 0; i < s.count; ++i) sum += p[i * channels + c] * k[i];
            *out++ = resample_clip(sum);
        }
    }
}

// One output row of `n` bytes from the rows of `s`, which are `stride` bytes apart.
inline GRAFT_NOINLINE void resample_column(const std::uint8_t* in, std::int64_t stride, std::uint8_t* out, std::int64_t n, const resample_weights& w,
                                           const resample_weights::span& s) noexcept {
    std::int64_t x = 0;
#if GRAFT_RESIZE_SSE2
    const __m128i zero = _mm_setzero_si128(), half = _mm_set1_epi32(1 << (resample_bits - 1));
    const std::uint32_t *h = w.high.data() + s.at / 2, *l = w.low.data() + s.at / 2;
    for (; x + 8 <= n; x += 8) {
        __m128i high0 = zero, high1 = zero, low0 = half, low1 = half;
        for (std::int64_t i = 0; i < s.count; i += 2) {
            const std::uint8_t* p = in + i * stride + x;
            const __m128i a = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
            const __m128i b = i + 1 < s.count ? _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + stride)) : zero;
            const __m128i both = _mm_unpacklo_epi8(a, b), pairs0 = _mm_unpacklo_epi8(both, zero), pairs1 = _mm_unpackhi_epi8(both, zero);
            const __m128i kh = _mm_set1_epi32(static_cast<int>(h[i / 2])), kl = _mm_set1_epi32(static_cast<int>(l[i / 2]));
            high0 = _mm_add_epi32(high0, _mm_madd_epi16(pairs0, kh));
            high1 = _mm_add_epi32(high1, _mm_madd_epi16(pairs1, kh));
            low0 = _mm_add_epi32(low0, _mm_madd_epi16(pairs0, kl));
            low1 = _mm_add_epi32(low1, _mm_madd_epi16(pairs1, kl));
        }
        const __m128i sum0 = _mm_srai_epi32(_mm_add_epi32(_mm_slli_epi32(high0, resample_split), low0), resample_bits);
        const __m128i sum1 = _mm_srai_epi32(_mm_add_epi32(_mm_slli_epi32(high1, resample_split), low1), resample_bits);
        const __m128i words = _mm_packs_epi32(sum0, sum1);
        _mm_storel_epi64(reinterpret_cast<__m128i*>(out + x), _mm_packus_epi16(words, words));
    }
#endif
    const std::int32_t* k = w.weight.data() + s.at;
    for (; x < n; ++x) {
        std::int32_t sum = 1 << (resample_bits - 1);
        for (std::int64_t i = 0; i < s.count; ++i) sum += in[i * stride + x] * k[i];
        out[x] = resample_clip(sum);
    }
}

// The rows of `out`, each from the row of `in` that is `top` further down.
inline void resample_across(const image& in, std::int64_t top, const resample_weights& columns, image& out) noexcept {
    for (std::int64_t y = 0; y < out.height; ++y) resample_row(in.row(top + y), out.row(y), in.channels, columns);
}

// The columns of `in` from `left` on, as many as `out` has; spans count rows from `top`.
inline void resample_down(const image& in, std::int64_t left, std::int64_t top, const resample_weights& rows, image& out) noexcept {
    for (std::int64_t y = 0; y < out.height; ++y) {
        const resample_weights::span& span = rows.spans[static_cast<std::size_t>(y)];
        resample_column(in.row(span.first - top) + left * in.channels, in.stride(), out.row(y), out.stride(), rows, span);
    }
}

// Input positions of the outputs [begin, end), -1 where there is none: Pillow adds the scale up step by step, and so it is done
// here.
inline std::vector<std::int64_t> nearest_positions(std::int64_t in, std::int64_t out, std::int64_t begin, std::int64_t end) {
    const double scale = static_cast<double>(in) / static_cast<double>(out);
    double at = scale * 0.5;
    std::vector<std::int64_t> positions;
    for (std::int64_t x = 0; x < end; ++x, at += scale)
        if (x >= begin) positions.push_back(static_cast<std::int64_t>(at) < in ? static_cast<std::int64_t>(at) : -1);
    return positions;
}

inline void resize_nearest(const image& picture, std::int64_t height, std::int64_t width, std::int64_t top, std::int64_t left, image& out) {
    const std::vector<std::int64_t> ys = nearest_positions(picture.height, height, top, top + out.height);
    const std::vector<std::int64_t> xs = nearest_positions(picture.width, width, left, left + out.width);
    const int channels = picture.channels;
    for (std::int64_t y = 0; y < out.height; ++y) {
        std::uint8_t* to = out.row(y);
        const std::int64_t from = ys[static_cast<std::size_t>(y)];
        for (const std::int64_t x : xs)
            for (int c = 0; c < channels; ++c) *to++ = from < 0 || x < 0 ? std::uint8_t(0) : picture.row(from)[x * channels + c];
    }
}

}  // namespace detail

GRAFT_INLINE result<image> resize(const image& picture, std::int64_t height, std::int64_t width, filter kernel) GRAFT_MEMORY_TRY {
    return resize_window(picture, height, width, kernel, 0, 0, height, width);
}
GRAFT_MEMORY_CATCH("resize")

GRAFT_INLINE result<image> resize_window(const image& picture, std::int64_t height, std::int64_t width, filter kernel, std::int64_t top, std::int64_t left,
                                         std::int64_t window_height, std::int64_t window_width) GRAFT_MEMORY_TRY {
    if (!picture || height < 1 || width < 1 || height > (1 << 27) || width > (1 << 27))
        return fail(errc::image_dimensions, "resize",
                    std::to_string(picture.width) + "x" + std::to_string(picture.height) + " cannot be resized to " + std::to_string(width) + "x" +
                        std::to_string(height));
    const bool across = width != picture.width, down = height != picture.height;
    if (top < 0 || left < 0 || window_height < 1 || window_width < 1 || window_height > height - top || window_width > width - left)
        return fail(errc::preprocess_crop, "resize",
                    "a picture resized to " + std::to_string(width) + "x" + std::to_string(height) + " does not hold a crop of " +
                        std::to_string(window_width) + "x" + std::to_string(window_height));
    if (!across && !down) {
        if (window_height == height && window_width == width) return picture;
        return crop(picture, top, left, window_height, window_width);
    }
    image out;
    GRAFT_TRY_ASSIGN(out, image::make(window_height, window_width, picture.channels));
    if (kernel == filter::nearest) {
        detail::resize_nearest(picture, height, width, top, left, out);
        return out;
    }
    detail::resample_weights rows, columns;
    if (down) rows = detail::weights_for(picture.height, height, kernel, top, top + window_height);
    if (across) columns = detail::weights_for(picture.width, width, kernel, left, left + window_width);
    // Rounding between the passes makes their order visible. Pillow >= 13 goes down first where many more rows than columns
    // vanish.
    if (down && (!across || (height < picture.height && picture.height - height > 2 * (picture.width - width)))) {
        const std::int64_t first = across ? columns.spans.front().first : left;
        const std::int64_t last = across ? columns.spans.back().first + columns.spans.back().count : left + window_width;
        image between = out;
        if (across) GRAFT_TRY_ASSIGN(between, image::make(window_height, last - first, picture.channels));
        detail::resample_down(picture, first, 0, rows, between);
        for (detail::resample_weights::span& span : columns.spans) span.first -= first;
        if (across) detail::resample_across(between, 0, columns, out);
        return out;
    }
    const std::int64_t first = down ? rows.spans.front().first : top;
    const std::int64_t last = down ? rows.spans.back().first + rows.spans.back().count : top + window_height;
    image between = out;
    if (down) GRAFT_TRY_ASSIGN(between, image::make(last - first, window_width, picture.channels));
    detail::resample_across(picture, first, columns, between);
    if (down) detail::resample_down(between, 0, first, rows, out);
    return out;
}
GRAFT_MEMORY_CATCH("resize_window")

GRAFT_END_NAMESPACE
#undef GRAFT_RESIZE_SSE2
#endif
