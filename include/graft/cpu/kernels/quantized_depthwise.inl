// Depthwise convolutions of 8-bit images, a channel for a task: text, included once for each instruction set. The channel's image stands as unsigned
// numbers of 16 bits, padded by its zero point, whose part in the sums the bias takes back; of two taps at a time the products are added.

constexpr int halves = 2 * V::W;  // numbers of 16 bits in a vector

// Whole vectors.
GRAFT_VECTOR void pad_codes(I empty, std::int64_t count, std::int16_t* to) {
    for (std::int64_t i = 0; i < count; i += halves) store_halves(empty, to + i);
}
// Few codes, or far apart ones.
GRAFT_NOINLINE inline void collect_codes(const std::uint8_t* from, std::int64_t stride, std::int64_t count, std::uint8_t (&to)[halves]) {
    for (std::int64_t i = 0; i < halves; ++i) to[i] = i < count ? from[i * stride] : 0;
}
// Codes `stride` apart, as unsigned ones. Whole vectors are written, and up to `limit` is read.
GRAFT_VECTOR void widen_codes(const std::uint8_t* from, std::int64_t stride, std::int64_t count, const std::uint8_t* limit, I flip, std::int16_t* to) {
    const std::int64_t readable = stride == 1 ? limit - from : stride == 2 ? (limit - from) >> 1 : 0;
    std::int64_t i = 0;
    const std::int64_t last = readable - halves < count - 1 ? readable - halves : count - 1;  // that a vector may begin at
    if (stride == 1)
        for (; i <= last; i += halves) store_halves(load_u8_halves(from + i) ^ flip, to + i);
    else
        for (; i <= last; i += halves) store_halves((load_halves(from + 2 * i) & I::set1(0x00ff00ff)) ^ flip, to + i);
    for (; i < count; i += halves) {
        std::uint8_t some[halves];
        collect_codes(from + i * stride, stride, count - i, some);
        store_halves(load_u8_halves(some) ^ flip, to + i);
    }
}

// Adds to sums of as many neighbouring outputs as `low` and `high` have lanes the products of two taps.
GRAFT_VECTOR void add_taps(const std::int16_t* first, const std::int16_t* second, I weights, I& low, I& high) {
    const I a = load_halves(first), b = load_halves(second);
    low = low + multiply_pairs(zip_halves_low(a, b), weights);
    high = high + multiply_pairs(zip_halves_high(a, b), weights);
}
// Rows of outputs of a channel: the pixels for tap t lie at x[t] + row * pitch, the weights of taps 2 i and 2 i + 1 are w[i]. Pairs is the number of
// these, 0 for any. Up to `end` is written.
template <int Pairs>
GRAFT_NOINLINE inline void depthwise_rows(const quantized_conv_problem& p, const std::int16_t* const* x, std::int64_t pitch, int pairs, const std::int32_t* w,
                                          float scale, std::int32_t bias, std::int64_t rows, std::uint8_t* y, std::uint8_t* end) {
    constexpr int together = halves > 16 ? halves : 16;       // outputs
    const int least = p.low, most = p.high, zero = p.y_zero;  // which no code that is stored can be part of
    const std::int64_t columns = p.ow;
    const std::int16_t* at[Pairs ? 2 * Pairs : 1];
    I weight[Pairs ? Pairs : 1];
    for (int i = 0; i < Pairs; ++i) at[2 * i] = x[2 * i], at[2 * i + 1] = x[2 * i + 1], weight[i] = I::set1(w[i]);
    for (std::int64_t row = 0; row < rows; ++row, y += columns)
        for (std::int64_t next = 0; next < columns; next += together) {
            // The last of a wide row with some of those before.
            const std::int64_t column = columns >= together && next + together > columns ? columns - together : next, first = row * pitch + column;
            I sum[together / V::W];
            GRAFT_UNROLL
            for (int v = 0; v < together / V::W; v += 2) {
                const std::int64_t from = first + v * V::W;
                sum[v] = sum[v + 1] = I::set1(bias);
                if constexpr (Pairs != 0) {
                    GRAFT_UNROLL
                    for (int i = 0; i < Pairs; ++i) add_taps(at[2 * i] + from, at[2 * i + 1] + from, weight[i], sum[v], sum[v + 1]);
                } else
                    for (int i = 0; i < pairs; ++i) add_taps(x[2 * i] + from, x[2 * i + 1] + from, I::set1(w[i]), sum[v], sum[v + 1]);
                order_zipped(sum[v], sum[v + 1]);
            }
            // What a narrow row writes behind its end the next one overwrites.
            std::uint8_t* const to = y + column;
            std::uint8_t some[together];
            const bool fits = end - to >= together;
            GRAFT_UNROLL
            for (int part = 0; part < together; part += 16) {
                V steps[16 / V::W];
                GRAFT_UNROLL
                for (int k = 0; k < 16 / V::W; ++k) steps[k] = to_float(sum[part / V::W + k]) * V::set1(scale);
                store_codes(steps, zero, least, most, (fits ? to : some) + part);
            }
            if (!fits) copy_bytes(some, end - to < columns - column ? end - to : columns - column, to);
        }
}
// One channel.
inline void depthwise_quantized(const quantized_conv_args& a, std::int64_t channel) {
    const quantized_conv_problem& p = a.p;
    const image_planes& g = a.from;
    // Beyond the planes: what the last outputs read, or the last row writes.
    alignas(64) std::int16_t image[quantized_depthwise_pixels + 2 * halves];
    const int taps = p.kh * p.kw, pairs = (taps + 1) / 2;
    const std::int64_t phases = g.row_phases * g.column_phases, below = g.rows - p.oh, pitch = depthwise_pitch(g);
    // Bands of output rows whose input fits.
    std::int64_t band = quantized_depthwise_pixels / (phases * pitch) - below;
    band = band < p.oh ? band : p.oh;
    const I flip = I::set1(p.x_signed ? 0x00800080 : 0), empty = I::set1(p.unsigned_zero() * 0x00010001);
    const std::uint8_t *x = a.x + channel * p.ih * p.iw, *limit = a.x + p.ic * p.ih * p.iw;
    std::uint8_t* const y = a.y + channel * p.oh * p.ow;
    for (std::int64_t oy = 0; oy < p.oh; oy += band) {
        const std::int64_t height = p.oh - oy < band ? p.oh - oy : band, rows = height + below;
        std::int16_t* to = image;
        const std::int16_t* planes[quantized_taps];
        int plane = 0;
        for (std::int64_t py = 0; py < g.row_phases; ++py)
            for (std::int64_t px = 0; px < g.column_phases; ++px, ++plane) {
                const std::int64_t ix = g.column_phase[px] - p.pl;
                const auto [first, last] = columns_inside(ix, p.iw, p.sw, g.pitch);
                // The first pixel that is none of padding stands where stores are aligned.
                const std::int64_t lead = (depthwise_lead - first % depthwise_lead) % depthwise_lead;
                planes[plane] = to + lead;
                for (std::int64_t row = 0; row < rows; ++row, to += pitch) {
                    const std::int64_t iy = (oy + row) * p.sh + g.row_phase[py] - p.pt;
                    const bool outside = iy < 0 || iy >= p.ih || first == last;
                    // What comes behind these pixels is written later.
                    pad_codes(empty, lead + (outside ? g.pitch : first), to);
                    if (outside) continue;
                    widen_codes(x + iy * p.iw + ix + first * p.sw, p.sw, last - first, limit, flip, to + lead + first);
                    pad_codes(empty, g.pitch - last, to + lead + last);
                }
            }
        const std::int16_t* at[quantized_taps + 1];
        for (int t = 0; t <= taps; ++t) {
            const depthwise_tap& tap = a.tap[t < taps ? t : 0];  // an odd one's partner has a weight of zero
            at[t] = planes[tap.plane] + tap.row * pitch + tap.column;
        }
        (taps == 9 ? depthwise_rows<5> : depthwise_rows<0>)(p, at, pitch, pairs, a.weights + channel * pairs, a.scale[channel], a.bias[channel], height,
                                                            y + oy * p.ow, y + p.oh * p.ow);
    }
}
