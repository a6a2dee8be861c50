// Sums of products of bfloat16 by vectors, a pair of channels of a pixel at a time: text, included for each set that multiplies pairs.

struct pair_unit {
    static bfloat16_end end_of(const pixel_args& a, std::int64_t block) { return bfloat16_end_of(a, block); }
};

// Some neighbouring pixels, PixelStep numbers apart, by 32 output channels: with two vectors of weights, 22 sums and a pair of a pixel's channels fill 25 of 32
// registers. `pair_step`: numbers from a pair to the next. `to` is told by reference: a copy would be one wide load of what narrow stores have just written,
// and wait for all stores before them.
template <int Pixels, int PixelStep>
inline GRAFT_NOINLINE void sum_pairs_bfloat16(const pixel_args& a, const std::uint16_t* x, std::int64_t pair_step, const std::uint16_t* w, sums_from start,
                                              const sums_to& to) {
    constexpr int vectors = bfloat16_block / V::W, half = bfloat16_block / 2;
    V sum[Pixels][vectors];
    GRAFT_UNROLL
    for (int p = 0; p < Pixels; ++p) GRAFT_UNROLL
    for (int v = 0; v < vectors; ++v) sum[p][v] = V::load(start.first + p * start.pixel + v * V::W);
    for (std::int64_t left = a.steps; left > 0; left -= a.taps, x += a.source_block) {
        const int pairs = left > a.taps ? half : a.last_pairs;
        for (int t = 0; t < a.taps; ++t, w += bfloat16_step) {
            const std::uint16_t* const from = x + a.from.taps[t] * bfloat16_block;
            if (a.taps == 1 && left > 1) {
                GRAFT_UNROLL
                for (int p = 0; p < Pixels; ++p) GRAFT_PREFETCH(from + a.source_block + p * PixelStep);
            }
            for (int k = 0; k < pairs; ++k) {
                I weights[vectors];
                fetch<vectors>(reinterpret_cast<const float*>(w + (k + 16) * bfloat16_block * 2));
                GRAFT_UNROLL
                for (int v = 0; v < vectors; ++v) weights[v] = I::load(reinterpret_cast<const std::int32_t*>(w + (k * bfloat16_block + v * V::W) * 2));
                GRAFT_UNROLL
                for (int p = 0; p < Pixels; ++p) {
                    std::int32_t pair;
                    std::memcpy(&pair, from + p * PixelStep + k * pair_step, sizeof pair);
                    const I pixel = I::set1(pair);
                    GRAFT_UNROLL
                    for (int v = 0; v < vectors; ++v) sum[p][v] = add_pairs(sum[p][v], pixel, weights[v]);
                }
            }
        }
    }
    for (int i = 0; i < to.count; ++i) {
        const float* const earlier = to.earlier + i * to.step;
        GRAFT_UNROLL
        for (int p = 0; p < Pixels; ++p) GRAFT_UNROLL
        for (int v = 0; v < vectors; ++v) sum[p][v] = V::load(earlier + p * to.pixel + v * V::W) + sum[p][v];
    }
    GRAFT_UNROLL
    for (int p = 0; p < Pixels; ++p) GRAFT_UNROLL
    for (int v = 0; v < vectors; ++v) sum[p][v].store(to.first + p * to.pixel + v * V::W);
}

inline void sum_block(pair_unit&, const pixel_args& a, const std::uint16_t* x, const std::uint16_t* w, weights_ahead, const float* start, pixel_sums& to,
                      const bfloat16_end&, pixel_sums&) {
    constexpr int many = 11, fewer = bfloat16_block - 2 * many, few = 3;
    static_assert(room_of_sums >= 2 * many + many && many < 4 * few, "the last pixels may be some of no output");
    for (int p = 0; p < to.pixels;) {
        const int left = to.pixels - p, n = left <= 2 * few ? few : left == fewer ? fewer : many;
        const auto sum = n == few     ? &sum_pairs_bfloat16<few, bfloat16_block>
                         : n == fewer ? &sum_pairs_bfloat16<fewer, bfloat16_block>
                                      : &sum_pairs_bfloat16<many, bfloat16_block>;
        sum(a, x + p * bfloat16_block, 2, w, {start, 0}, {to.sum[p], bfloat16_block, nullptr, 0, 0});
        p += n;
    }
}

// A step of 32 pixels takes some 300 ns: tasks of 10 us.
inline const bfloat16_kernels* bfloat16_by_vectors() {
    static constexpr bfloat16_kernels all = {
        {&gather_bfloat16, &gather_bfloat16_planes, &multiply_pixels<pair_unit>, false, 33, 0}, &pack_bfloat16_weights, &bfloat16_images};
    return &all;
}
