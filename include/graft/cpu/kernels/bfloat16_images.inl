// Operators on images in bfloat16, whose pixels are 32 channels side by side: text, included for each set that rounds to it. They compute in float32, 2 W
// channels at a time.

inline void widen_pixels(const std::uint16_t* x, std::int64_t pixels, float* y) {
    for (std::int64_t i = 0; i < pixels; ++i) load_bf16(x + i * bfloat16_block).store(y + i * V::W);
}

inline void max_pool_bfloat16(const pool_args& a, std::int64_t task) { pool_band<max_of, bfloat16_pixels>(a, task); }
inline void average_pool_bfloat16(const pool_args& a, std::int64_t task) { pool_band<sum_of, bfloat16_pixels>(a, task); }

// The even and the odd ones of up to 2 W numbers; `other` where there are fewer.
inline void unzip(const float* from, int count, float other, V (&to)[2]) {
    alignas(64) float some[2][V::W];
    for (int i = 0; i < 2 * V::W; ++i) some[i % 2][i / 2] = i < count ? from[i] : other;
    to[0] = V::load(some[0]), to[1] = V::load(some[1]);
}

inline void global_average_bfloat16(const std::uint16_t* x, std::int64_t pixels, float* y) {
    V total[2][2] = {{V::zero(), V::zero()}, {V::zero(), V::zero()}};
    for (std::int64_t i = 0; i < pixels; ++i) {
        V some[2];
        bfloat16_pixels::load(x + i * bfloat16_block, some);
        total[i % 2][0] = total[i % 2][0] + some[0], total[i % 2][1] = total[i % 2][1] + some[1];
    }
    const V by = V::set1(static_cast<float>(pixels)), even = (total[0][0] + total[1][0]) / by, odd = (total[0][1] + total[1][1]) / by;
    zip_low(even, odd).store(y);
    zip_high(even, odd).store(y + V::W);
}

inline void channel_bfloat16(const std::uint16_t* x, std::int64_t pixels, const float* scale, const float* shift, int channels, float low, float high,
                             std::uint16_t* y) {
    const V least = V::set1(low), most = V::set1(high);
    V by[2], add[2];
    unzip(scale, scale ? channels : 0, 1, by);
    unzip(shift, shift ? channels : 0, 0, add);
    for (std::int64_t i = 0; i < pixels * bfloat16_block; i += bfloat16_block) {
        V some[2];
        bfloat16_pixels::load(x + i, some);
        for (int v = 0; v < 2; ++v) some[v] = clamp(fma(some[v], by[v], add[v]), least, most);
        narrow_pairs(some[0], some[1], y + i);
    }
}
inline void sum_bfloat16_images(const std::uint16_t* a, const std::uint16_t* b, std::int64_t n, float low, float high, std::uint16_t* y) {
    const V least = V::set1(low), most = V::set1(high);
    for (std::int64_t i = 0; i < n; i += 2 * V::W) {
        V first[2], second[2];
        bfloat16_pixels::load(a + i, first);
        bfloat16_pixels::load(b + i, second);
        for (int v = 0; v < 2; ++v) first[v] = clamp(first[v] + second[v], least, most);
        narrow_pairs(first[0], first[1], y + i);
    }
}

#include "bfloat16_depthwise.inl"

static constexpr bfloat16_image_kernels bfloat16_images = {&widen_pixels,
                                                           wanted("MaxPool") ? &max_pool_bfloat16 : nullptr,
                                                           wanted("AveragePool") ? &average_pool_bfloat16 : nullptr,
                                                           wanted("Conv") ? &depthwise_bfloat16 : nullptr,
                                                           wanted("GlobalAveragePool") ? &global_average_bfloat16 : nullptr,
                                                           &channel_bfloat16,
                                                           wanted("Add") ? &sum_bfloat16_images : nullptr};
