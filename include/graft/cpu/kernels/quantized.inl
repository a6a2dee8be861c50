// Convolutions and sums of 8-bit images: text, included once for each instruction set. Sums are integers, so their order changes nothing;
// reals behind them are computed one by one, in the same steps on every set.

// 32-bit lanes of a channel pair or four channels: what the taps of a tile read.
template <bool Bytes>
GRAFT_VECTOR void gather_lane(const quantized_conv_args& a, std::int64_t lane) {
    const quantized_conv_problem& p = a.p;
    const quantized_gather& g = a.from;
    constexpr int width = Bytes ? 4 : 2;
    // As unsigned bytes, which the instruction multiplies; as differences from the zero point in 16 bits.
    const std::uint32_t flip = p.x_signed ? 0x80u : 0u;
    const std::int32_t zero = p.x_zero + (p.x_signed ? 128 : 0);
    std::uint32_t* to = reinterpret_cast<std::uint32_t*>(a.gathered) + lane * g.planes();
    std::uint32_t empty = 0;
    if (Bytes) empty = static_cast<std::uint32_t>(zero) * 0x01010101u;
    const std::uint8_t* plane[width];
    for (int c = 0; c < width; ++c) {
        const std::int64_t channel = lane * width + c;
        // Channels that are not there meet weights of zero.
        plane[c] = a.x + (channel < p.ic ? channel : p.ic - 1) * p.ih * p.iw;
    }
    for (std::int64_t py = 0; py < g.row_phases; ++py)
        for (std::int64_t px = 0; px < g.column_phases; ++px)
            for (std::int64_t row = 0; row < g.rows; ++row, to += g.pitch) {
                const std::int64_t iy = row * p.sh + g.row_phase[py] - p.pt, ix = g.column_phase[px] - p.pl;
                // Columns [first, last) are pixels of the image.
                std::int64_t first = ix < 0 ? (-ix + p.sw - 1) / p.sw : 0, last = p.iw > ix ? (p.iw - ix + p.sw - 1) / p.sw : 0;
                if (iy < 0 || iy >= p.ih) last = 0;
                last = last < g.pitch ? last : g.pitch;
                first = first < last ? first : last;
                for (std::int64_t i = 0; i < first; ++i) to[i] = empty;
                const std::int64_t offset = last ? iy * p.iw + ix : 0;
                if (Bytes) {
                    const std::uint8_t *x0 = plane[0] + offset, *x1 = plane[1] + offset, *x2 = plane[width - 2] + offset, *x3 = plane[width - 1] + offset;
                    const std::uint32_t flips = flip * 0x01010101u;
                    if (p.sw == 1)
                        for (std::int64_t i = first; i < last; ++i)
                            to[i] = (std::uint32_t(x0[i]) | std::uint32_t(x1[i]) << 8 | std::uint32_t(x2[i]) << 16 | std::uint32_t(x3[i]) << 24) ^ flips;
                    else if (p.sw == 2)
                        for (std::int64_t i = first; i < last; ++i)
                            to[i] =
                                (std::uint32_t(x0[2 * i]) | std::uint32_t(x1[2 * i]) << 8 | std::uint32_t(x2[2 * i]) << 16 | std::uint32_t(x3[2 * i]) << 24) ^
                                flips;
                    else
                        for (std::int64_t i = first, j = first * p.sw; i < last; ++i, j += p.sw)
                            to[i] = (std::uint32_t(x0[j]) | std::uint32_t(x1[j]) << 8 | std::uint32_t(x2[j]) << 16 | std::uint32_t(x3[j]) << 24) ^ flips;
                } else {
                    const std::uint8_t *x0 = plane[0] + offset, *x1 = plane[1] + offset;
                    for (std::int64_t i = first, j = first * p.sw; i < last; ++i, j += p.sw) {
                        const std::int32_t low = std::int32_t(x0[j] ^ flip) - zero, high = std::int32_t(x1[j] ^ flip) - zero;
                        to[i] = (std::uint32_t(low) & 0xffffu) | std::uint32_t(high) << 16;
                    }
                }
                for (std::int64_t i = last; i < g.pitch; ++i) to[i] = empty;
            }
}
inline void gather_quantized(const quantized_conv_args& a, std::int64_t task) {
    if (a.p.bytes)
        gather_lane<true>(a, task);
    else
        gather_lane<false>(a, task);
}

// Sums of consecutive pixels of the padded image become bytes, and those that are outputs go to their rows.
GRAFT_VECTOR void store_quantized(const quantized_conv_args& a, std::int64_t channel, std::int64_t first, std::int64_t count, const std::int32_t* sums) {
    const quantized_conv_problem& p = a.p;
    const V scale = V::set1(a.scale[channel]), low = V::set1(static_cast<float>(p.low - p.y_zero)), high = V::set1(static_cast<float>(p.high - p.y_zero));
    const I bias = I::set1(a.bias[channel]), zero = I::set1(p.y_zero);
    std::uint8_t codes[quantized_pixels];
    // The zero point is added behind the rounding: halves go to the even number of steps from it.
    GRAFT_UNROLL
    for (int i = 0; i < quantized_pixels; i += V::W) store_8(to_int(min(max(to_float(I::load(sums + i) + bias) * scale, low), high)) + zero, codes + i);
    std::uint8_t* y = a.y + channel * p.oh * p.ow;
    std::int64_t row = first / a.from.pitch, column = first % a.from.pitch;
    for (std::int64_t i = 0; i < count; ++row, column = 0) {
        const std::int64_t whole = a.from.pitch - column, here = whole < count - i ? whole : count - i, used = p.ow - column < here ? p.ow - column : here;
        if (used > 0) std::memcpy(y + row * p.ow + column, codes + i, static_cast<std::size_t>(used));
        i += here;
    }
}

// The tasks of a convolution, with the tile that multiplies.
GRAFT_VECTOR void conv_quantized_by(const quantized_conv_args& a, std::int64_t task, quantized_tile tile) {
    const quantized_conv_problem& p = a.p;
    const std::int64_t pixels = (p.oh - 1) * a.from.pitch + p.ow, tiles = (pixels + quantized_pixels - 1) / quantized_pixels;
    const std::int64_t blocks = (p.oc + quantized_rows - 1) / quantized_rows, steps = p.lanes_of_channels(), taps = std::int64_t(p.kh) * p.kw;
    const std::int64_t first = task % tiles * quantized_pixels, count = pixels - first < quantized_pixels ? pixels - first : quantized_pixels;
    const std::int64_t begin = task / tiles * a.blocks_a_task, end = begin + a.blocks_a_task < blocks ? begin + a.blocks_a_task : blocks;
    alignas(64) std::int32_t sums[quantized_rows * quantized_pixels];
    for (std::int64_t block = begin; block < end; ++block) {
        tile(a.gathered + first, a.from.taps, static_cast<int>(taps), steps, a.from.planes(), a.weights + block * steps * taps * quantized_rows, sums);
        for (int r = 0; r < quantized_rows && block * quantized_rows + r < p.oc; ++r)
            store_quantized(a, block * quantized_rows + r, first, count, sums + r * quantized_pixels);
    }
}

// Two 16-bit products a lane.
GRAFT_VECTOR void tile_of_pairs(const std::int32_t* x, const std::int64_t* taps, int count, std::int64_t steps, std::int64_t step, const std::int32_t* w,
                                std::int32_t* sums) {
    constexpr int columns = 3, rows = V::W == 16 ? 8 : 4;
    for (int r0 = 0; r0 < quantized_rows; r0 += rows)
        for (int c0 = 0; c0 < quantized_pixels; c0 += columns * V::W) {
            I total[rows][columns];
            GRAFT_UNROLL
            for (int r = 0; r < rows; ++r) GRAFT_UNROLL
            for (int c = 0; c < columns; ++c) total[r][c] = I::set1(0);
            const std::int32_t* weight = w + r0;
            for (std::int64_t s = 0; s < steps; ++s)
                for (int t = 0; t < count; ++t, weight += quantized_rows) {
                    const std::int32_t* at = x + s * step + taps[t] + c0;
                    I pixels[columns];
                    GRAFT_UNROLL
                    for (int c = 0; c < columns; ++c) pixels[c] = I::load(at + c * V::W);
                    GRAFT_UNROLL
                    for (int r = 0; r < rows; ++r) {
                        const I by = I::set1(weight[r]);
                        GRAFT_UNROLL
                        for (int c = 0; c < columns; ++c) total[r][c] = total[r][c] + multiply_pairs(pixels[c], by);
                    }
                }
            GRAFT_UNROLL
            for (int r = 0; r < rows; ++r) GRAFT_UNROLL
            for (int c = 0; c < columns; ++c) total[r][c].store(sums + (r0 + r) * quantized_pixels + c0 + c * V::W);
        }
}
inline void conv_quantized(const quantized_conv_args& a, std::int64_t task) { conv_quantized_by(a, task, tile_of_pairs); }

GRAFT_VECTOR V load_codes(const std::uint8_t* from, bool is_signed) {
    return to_float(is_signed ? load_s8(reinterpret_cast<const std::int8_t*>(from)) : load_u8(from));
}
// Codes `stride` apart, as differences from the zero point. Whole vectors are written, and up to `limit` read.
GRAFT_VECTOR void widen_codes(const std::uint8_t* from, std::int64_t stride, std::int64_t count, const std::uint8_t* limit, bool is_signed, V zero, float* to) {
    for (std::int64_t i = 0; i < count; i += V::W) {
        std::uint8_t some[V::W] = {};
        const std::uint8_t* at = some;
        const std::int64_t rest = limit - (from + i * stride);
        if (stride == 1 && rest >= V::W)
            at = from + i;
        else if (stride == 2 && rest >= 2 * V::W) {
            // The low bytes of 16-bit words, which compilers narrow by one instruction.
            std::uint16_t words[V::W];
            std::memcpy(words, from + 2 * i, sizeof words);
            for (int k = 0; k < V::W; ++k) some[k] = static_cast<std::uint8_t>(words[k]);
        } else
            for (std::int64_t k = 0; k < V::W && i + k < count; ++k) some[k] = from[(i + k) * stride];
        (load_codes(at, is_signed) - zero).store(to + i);
    }
}

// One channel. Its sums are small enough for a float to hold them exactly, so that every set multiplies and adds floats.
inline void depthwise_quantized(const quantized_conv_args& a, std::int64_t channel) {
    const quantized_conv_problem& p = a.p;
    const quantized_gather& g = a.from;
    constexpr std::int64_t room = 8192;
    float image[room + quantized_pixels];
    const std::int64_t taps = std::int64_t(p.kh) * p.kw, phases = g.row_phases * g.column_phases, below = g.rows - p.oh;
    // Bands of output rows whose input fits; the planes of a band stand as far apart as the taps say for a whole image, less what is left out.
    std::int64_t band = room / (phases * g.pitch) - below;
    band = band < p.oh ? band : p.oh;
    const V zero = V::set1(static_cast<float>(p.x_zero));
    const float* weight = reinterpret_cast<const float*>(a.weights) + channel * taps;
    const std::uint8_t *x = a.x + channel * p.ih * p.iw, *limit = a.x + p.ic * p.ih * p.iw;
    for (std::int64_t oy = 0; oy < p.oh; oy += band) {
        const std::int64_t height = p.oh - oy < band ? p.oh - oy : band, rows = height + below;
        std::int64_t offset[quantized_taps];
        for (std::int64_t t = 0; t < taps; ++t) offset[t] = g.taps[t] / g.plane() * rows * g.pitch + g.taps[t] % g.plane();
        float* to = image;
        for (std::int64_t py = 0; py < g.row_phases; ++py)
            for (std::int64_t px = 0; px < g.column_phases; ++px) {
                // Columns [first, last) of the image's rows are pixels.
                const std::int64_t ix = g.column_phase[px] - p.pl, end = p.iw > ix ? (p.iw - ix + p.sw - 1) / p.sw : 0, last = end < g.pitch ? end : g.pitch;
                const std::int64_t start = ix < 0 ? (-ix + p.sw - 1) / p.sw : 0, first = start < last ? start : last;
                for (std::int64_t row = 0; row < rows; ++row, to += g.pitch) {
                    const std::int64_t iy = (oy + row) * p.sh + g.row_phase[py] - p.pt;
                    if (iy < 0 || iy >= p.ih || first == last) {
                        for (std::int64_t i = 0; i < g.pitch; ++i) to[i] = 0;
                        continue;
                    }
                    for (std::int64_t i = 0; i < first; ++i) to[i] = 0;
                    widen_codes(x + iy * p.iw + ix + first * p.sw, p.sw, last - first, limit, p.x_signed, zero, to + first);
                    for (std::int64_t i = last; i < g.pitch; ++i) to[i] = 0;
                }
            }
        // What the tiles of the last pixels read beyond the planes.
        for (int i = 0; i < quantized_pixels; ++i) to[i] = 0;
        const std::int64_t pixels = (height - 1) * g.pitch + p.ow;
        for (std::int64_t first = 0; first < pixels; first += quantized_pixels) {
            // Two running sums, as one waits for itself.
            constexpr int vectors = quantized_pixels / V::W;
            V total[vectors], other[vectors];
            GRAFT_UNROLL
            for (int i = 0; i < vectors; ++i) total[i] = other[i] = V::zero();
            std::int64_t t = 0;
            for (; t + 2 <= taps; t += 2) {
                const float *at = image + offset[t] + first, *beside = image + offset[t + 1] + first;
                const V by = V::set1(weight[t]), next = V::set1(weight[t + 1]);
                GRAFT_UNROLL
                for (int i = 0; i < vectors; ++i) {
                    total[i] = fma(V::load(at + i * V::W), by, total[i]);
                    other[i] = fma(V::load(beside + i * V::W), next, other[i]);
                }
            }
            if (t < taps) {
                const float* at = image + offset[t] + first;
                const V by = V::set1(weight[t]);
                GRAFT_UNROLL
                for (int i = 0; i < vectors; ++i) total[i] = fma(V::load(at + i * V::W), by, total[i]);
            }
            GRAFT_UNROLL
            for (int i = 0; i < vectors; ++i) total[i] = total[i] + other[i];
            alignas(64) std::int32_t sums[quantized_pixels];
            GRAFT_UNROLL
            for (int i = 0; i < vectors; ++i) to_int(total[i]).store(sums + i * V::W);
            const std::int64_t count = pixels - first < quantized_pixels ? pixels - first : quantized_pixels;
            store_quantized(a, channel, oy * g.pitch + first, count, sums);
        }
    }
}

GRAFT_VECTOR void sum_codes(const quantized_sum_problem& p, const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* y) {
    const V left = (load_codes(a, p.a_signed) - V::set1(static_cast<float>(p.a_zero))) * V::set1(p.a_scale);
    const V right = (load_codes(b, p.b_signed) - V::set1(static_cast<float>(p.b_zero))) * V::set1(p.b_scale);
    const V steps = (left + right) / V::set1(p.y_scale);
    const V low = V::set1(static_cast<float>(p.low - p.y_zero)), high = V::set1(static_cast<float>(p.high - p.y_zero));
    store_8(to_int(min(max(steps, low), high)) + I::set1(p.y_zero), y);
}
inline void sum_quantized(const quantized_sum_problem& p, const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* y, std::int64_t n) {
    std::int64_t i = 0;
    for (; i + V::W <= n; i += V::W) sum_codes(p, a + i, b + i, y + i);
    if (i == n) return;
    std::uint8_t rest_a[V::W] = {}, rest_b[V::W] = {}, rest_y[V::W];
    std::memcpy(rest_a, a + i, static_cast<std::size_t>(n - i));
    std::memcpy(rest_b, b + i, static_cast<std::size_t>(n - i));
    sum_codes(p, rest_a, rest_b, rest_y);
    std::memcpy(y + i, rest_y, static_cast<std::size_t>(n - i));
}

inline const quantized_kernels* quantized_table() {
    constexpr bool conv = quantized_conv_wanted();
    static constexpr quantized_kernels all = {
        conv ? &gather_quantized : nullptr,
        conv ? &conv_quantized : nullptr,
        conv ? &depthwise_quantized : nullptr,
        quantized_sum_wanted() ? &sum_quantized : nullptr,
    };
    return &all;
}
