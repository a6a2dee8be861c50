// 8-bit images in pixels of 64 channels, as unsigned numbers, and their convolutions by tiles: text, included for each kind of them. The pixels are the rows of
// a tile, as those of bfloat16 are.

// What becomes of the sums of one block of output channels.
struct code_sums_end {
    const pixel_args* args;
    alignas(64) float start[bfloat16_block];  // the bits of integers
    alignas(64) float scale[bfloat16_block];
    std::int64_t at;
    sum_divider by;  // where something is added
};

struct byte_tiles : tile_unit {
    GRAFT_VECTOR byte_tiles() {}
    GRAFT_VECTOR ~byte_tiles() {}
    template <int C, int A, int B>
    GRAFT_VECTOR void multiply() {
        multiply_bytes<C, A, B>();
    }
    static code_sums_end end_of(const pixel_args& a, std::int64_t block) {
        const std::int64_t first = block * bfloat16_block, left = a.out_channels - first;
        const std::size_t bytes = static_cast<std::size_t>(left < bfloat16_block ? left : bfloat16_block) * sizeof(float);
        code_sums_end e{&a, {}, {}, block / 2 * a.code_block + block % 2 * bfloat16_block, {}};
        if (a.codes->sum) e.by = divider_of(*a.codes->sum);
        std::memcpy(e.start, a.codes->bias + first, bytes);
        std::memcpy(e.scale, a.codes->scale + first, bytes);
        return e;
    }
};

// What is added to codes before they are stored.
template <bool Divides>
struct added_codes {
    V least, most, a_scale, b_zero, b_scale;
    sum_divider by;
    GRAFT_VECTOR added_codes(const code_end& c, const quantized_sum_problem& p, const sum_divider& divider)
        : least(V::set1(static_cast<float>(c.low - c.zero))), most(V::set1(static_cast<float>(c.high - c.zero))), a_scale(V::set1(p.a_scale)),
          b_zero(V::set1(static_cast<float>(p.b_zero))), b_scale(V::set1(p.b_scale)), by(divider) {
        by.multiplies = !Divides;
    }
    GRAFT_VECTOR I sum(V steps, const std::uint8_t* codes) const {
        const V a = to_float(to_int(max(min(steps, most), least))) * a_scale, b = (to_float(load_u8(codes)) - b_zero) * b_scale;
        return to_int(divide(a + b, by));
    }
};
// Nothing.
struct no_codes {
    GRAFT_VECTOR I sum(V steps, const std::uint8_t*) const { return to_int(steps); }
};
// Pixels [next, end), two at a time.
template <class Added>
GRAFT_VECTOR void finish_codes(const code_sums_end& e, const pixel_sums& of, int next, int end, const lane_end& codes, const Added& added) {
    constexpr int half = bfloat16_block / 2;
    const pixel_args& a = *e.args;
    const std::uint8_t* const add = a.code_residual ? a.code_residual : a.code_y;  // which no_codes does not read
    std::uint8_t none[bfloat16_block] = {};
    for (; next < end; next += 2) {
        const float *const first = of.sum[next], *const second = of.sum[next + 1];
        const std::int64_t at = of.place(next), other = next + 1 == end ? -1 : of.place(next + 1);
        std::uint8_t *const to_first = at < 0 ? none : a.code_y + at, *const to_second = other < 0 ? none : a.code_y + other;
        const std::uint8_t *const add_first = at < 0 ? none : add + at, *const add_second = other < 0 ? none : add + other;
        GRAFT_UNROLL
        for (int v = 0; v < half; v += V::W) {
            const auto steps = [&](const float* sums, int c, const std::uint8_t* others) {
                return added.sum(to_float(as_int(V::load(sums + c))) * V::load(e.scale + c), others + c);
            };
            store_fours(pack_codes(codes, steps(first, v, add_first), steps(first, half + v, add_first), steps(second, v, add_second),
                                   steps(second, half + v, add_second)),
                        to_first + v, to_second + v);
        }
    }
}
// The next few.
inline GRAFT_NOINLINE void finish_some(const code_sums_end& e, pixel_sums& of, int count) {
    const int next = of.next, end = of.pixels < next + count ? of.pixels : next + count;
    if (next >= end) return;
    of.next = end;
    const code_end& c = *e.args->codes;
    if (!c.sum) return finish_codes(e, of, next, end, lane_end_of(c.zero, c.low, c.high), no_codes());
    const quantized_sum_problem& p = *c.sum;
    const lane_end codes = lane_end_of(p.y_zero, p.low, p.high);
    if (e.by.multiplies)
        finish_codes(e, of, next, end, codes, added_codes<false>(c, p, e.by));
    else
        finish_codes(e, of, next, end, codes, added_codes<true>(c, p, e.by));
}

// A few planes of codes, of which a row of up to eight neighbouring taps is unrolled, as gather_bfloat16_neighbours has it; what follows a plane's taps meets
// weights of zero.
inline void gather_planes_of_codes(const pixel_args& a, std::int64_t, std::int64_t first, std::int64_t last) {
    constexpr std::int64_t together = 8;
    const image_planes& g = a.from;
    std::uint8_t rows[bfloat16_row];
    const std::int64_t step = a.unrolled_step, planes = a.channels / a.unrolled;
    std::uint8_t* to = reinterpret_cast<std::uint8_t*>(a.gathered + first * bfloat16_block);
    std::int64_t row = first / g.pitch, column = first % g.pitch;
    for (; first < last; ++row, column = 0) {
        const auto [row_phase, column_phase, image, iy, count, inside] = source_of(a, row, column, last - first);
        const std::int64_t numbers = (count - 1) * step + together, from = column * step - a.unrolled_pad, size = inside ? a.iw : 0;
        const std::int64_t begin = from < 0 ? 0 : from, end = from + numbers < size ? from + numbers : size;
        for (std::int64_t p = 0; p < planes; ++p) {
            std::uint8_t* const here = rows + p * numbers;
            std::memset(here, a.padding, static_cast<std::size_t>(numbers));
            const std::uint8_t* const plane = a.code_x + image * a.x_image + p * a.x_vector + (inside ? iy : 0) * a.x_row;
            if (begin < end) std::memcpy(here + begin - from, plane + begin, static_cast<std::size_t>(end - begin));
            for (std::int64_t i = begin; a.codes->flip && i < end; ++i) here[i - from] ^= a.codes->flip;
        }
        clear_pixels(reinterpret_cast<std::uint16_t*>(to), count);
        for (std::int64_t i = 0; i < count; ++i, to += code_pixel)
            for (std::int64_t p = 0; p < planes; ++p) std::memcpy(to + p * a.unrolled, rows + p * numbers + i * step, together);
        first += count;
    }
}

// W pixels, of which `count` are there, by 4 W channels.
template <bool ToPixels>
GRAFT_VECTOR void move_square(const code_image& m, int channel, std::int64_t pixel, int count) {
    V lanes[V::W];
    std::uint8_t* const pixels = m.pixels + pixel * code_pixel + channel;
    const auto at = [&](int i) { return m.planes + (channel + 4 * i) * m.plane + pixel * (m.lanes ? 4 : 1); };
    const auto there = [&](int i) { return m.channels - channel - 4 * i < 4 ? m.channels - channel - 4 * i : 4; };
    std::int32_t square[V::W][V::W] = {};
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof **square;
    for (int i = 0; i < V::W; ++i) {
        if (ToPixels && there(i) > 0 && m.lanes)
            std::memcpy(square[i], at(i), bytes);
        else if (ToPixels && there(i) > 0)
            codes_to_lanes(at(i), m.plane, there(i), m.flip, count, square[i]);
        if (!ToPixels && i < count) std::memcpy(square[i], pixels + i * code_pixel, sizeof square[i]);
    }
    GRAFT_UNROLL
    for (int i = 0; i < V::W; ++i) lanes[i] = as_float(I::load(square[i]));
    transpose(lanes);
    GRAFT_UNROLL
    for (int i = 0; i < V::W; ++i) as_int(lanes[i]).store(square[i]);
    for (int i = 0; i < V::W; ++i) {
        if (ToPixels && i < count) std::memcpy(pixels + i * code_pixel, square[i], sizeof square[i]);
        if (!ToPixels && there(i) > 0 && m.lanes)
            std::memcpy(at(i), square[i], bytes);
        else if (!ToPixels && there(i) > 0)
            lanes_to_codes(square[i], m.plane, there(i), m.flip, count, at(i));
    }
}
// Some pixels of up to 64 planes.
template <bool ToPixels>
inline void move_codes(const code_image& m, std::int64_t first, std::int64_t count) {
    for (std::int64_t end = first + count; first < end; first += V::W)
        for (int channel = 0; channel < m.channels; channel += 4 * V::W)
            move_square<ToPixels>(m, channel, first, static_cast<int>(end - first < V::W ? end - first : V::W));
}

// Where the taps of a column of windows lie: rows of the image that are none read padding.
struct column_of_taps {
    const std::uint8_t* first;
    std::int64_t row;  // bytes from a row to the next; 0: padding
};
struct depthwise_pixels {
    const quantized_conv_problem& p;
    const std::uint8_t *x, *padding;
    column_of_taps column(std::int64_t ix) const {
        return ix < 0 || ix >= p.iw ? column_of_taps{padding, 0} : column_of_taps{x + ix * code_pixel, p.iw * code_pixel};
    }
    const std::uint8_t* at(const column_of_taps& c, std::int64_t iy) const { return iy < 0 || iy >= p.ih ? padding : c.first + iy * c.row; }
};
// Four channels' numbers at a time are a lane's: of each sixteen channels the first four are those of vector 0, and so on.
constexpr int code_vectors = 16 / V::W;
struct depthwise_end {
    lane_end codes;
    alignas(64) std::int32_t bias[code_pixel];
    alignas(64) float scale[code_pixel];
};
GRAFT_VECTOR I load_pixel(const std::uint8_t* from, int vector) {
    std::int32_t lanes[V::W];
    std::memcpy(lanes, from + vector * 4 * V::W, sizeof lanes);
    return I::load(lanes);
}
GRAFT_VECTOR void store_pixel(const depthwise_end& e, const I (&sums)[4], int vector, std::uint8_t* to) {
    const auto steps = [&](int k) { return steps_of(sums[k], V::load(e.scale + k * 16 + vector * V::W)); };
    std::int32_t lanes[V::W];
    pack_codes(e.codes, steps(0), steps(1), steps(2), steps(3)).store(lanes);
    std::memcpy(to + vector * 4 * V::W, lanes, sizeof lanes);
}
// A window of 3 x 3 whose rows are neighbours: what is brought together of a row of the image serves three rows of outputs.
template <bool Wide>
GRAFT_NOINLINE inline void depthwise_pixel_columns(const depthwise_pixels& of, const std::int32_t* w, const depthwise_end& e, std::int64_t first,
                                                   std::int64_t last, std::uint8_t* y) {
    const quantized_conv_problem& p = of.p;
    for (std::int64_t ox = 0; ox < p.ow; ++ox) {
        const std::int64_t ix = ox * p.sw - p.pl;
        const column_of_taps left = of.column(ix), middle = of.column(ix + p.dw), right = of.column(ix + 2 * p.dw);
        for (int v = 0; v < code_vectors; ++v) {
            I before[4], here[4];
            GRAFT_UNROLL
            for (int k = 0; k < 4; ++k) before[k] = here[k] = I::load(e.bias + k * 16 + v * V::W);
            for (std::int64_t oy = first - 2; oy < last; ++oy) {
                const std::int64_t iy = oy + 2 - p.pt;
                const I third = load_pixel(of.at(right, iy), v);
                four_taps taps;
                bring_together(load_pixel(of.at(left, iy), v), load_pixel(of.at(middle, iy), v), third, third, taps);
                I whole[4];
                GRAFT_UNROLL
                for (int k = 0; k < 4; ++k) {
                    const std::int32_t* const weights = w + k * 16 + v * V::W;
                    whole[k] = add_bytes(before[k], taps.of[k], I::load(weights + 2 * code_pixel));
                    before[k] = add_bytes(here[k], taps.of[k], I::load(weights + code_pixel));
                    here[k] = add_bytes(I::load(e.bias + k * 16 + v * V::W), taps.of[k], I::load(weights));
                }
                if constexpr (Wide) GRAFT_UNROLL
                for (int k = 0; k < 4; ++k) {
                    const std::int32_t* const weights = w + 3 * code_pixel + k * 16 + v * V::W;
                    whole[k] = add_bytes(whole[k], taps.of[k], I::load(weights + 2 * code_pixel));
                    before[k] = add_bytes(before[k], taps.of[k], I::load(weights + code_pixel));
                    here[k] = add_bytes(here[k], taps.of[k], I::load(weights));
                }
                if (oy >= first) store_pixel(e, whole, v, y + (oy * p.ow + ox) * code_pixel);
            }
        }
    }
}
GRAFT_NOINLINE inline void depthwise_pixel_windows(const depthwise_pixels& of, const std::int32_t* w, const depthwise_end& e, std::int64_t first,
                                                   std::int64_t last, std::uint8_t* y) {
    const quantized_conv_problem& p = of.p;
    const int groups = p.fours_of_taps(), parts = p.parts();
    // From a window's first pixel to those of its taps, where all are the image's; else where those lie. What no tap has meets weights of zero.
    std::int64_t inside[4 * quantized_taps] = {};
    const std::uint8_t* at[4 * quantized_taps];
    for (int slot = 0; slot < 4 * groups; ++slot) at[slot] = of.padding;
    for (int t = 0; t < p.kh * p.kw; ++t) inside[p.slot_of_tap(t)] = (std::int64_t(t / p.kw) * p.dh * p.iw + std::int64_t(t % p.kw) * p.dw) * code_pixel;
    const auto compute = [&](const auto& tap, std::uint8_t* to) {
        for (int v = 0; v < code_vectors; ++v) {
            I sums[4];
            GRAFT_UNROLL
            for (int k = 0; k < 4; ++k) sums[k] = I::load(e.bias + k * 16 + v * V::W);
            for (int g = 0; g < groups; ++g) {
                four_taps taps;
                bring_together(load_pixel(tap(4 * g), v), load_pixel(tap(4 * g + 1), v), load_pixel(tap(4 * g + 2), v), load_pixel(tap(4 * g + 3), v), taps);
                for (int part = 0; part < parts; ++part) {
                    const std::int32_t* const by = w + (g + part * groups) * code_pixel + v * V::W;
                    GRAFT_UNROLL
                    for (int k = 0; k < 4; ++k) sums[k] = add_bytes(sums[k], taps.of[k], I::load(by + k * 16));
                }
            }
            store_pixel(e, sums, v, to);
        }
    };
    for (std::int64_t oy = first; oy < last; ++oy)
        for (std::int64_t ox = 0; ox < p.ow; ++ox) {
            const std::int64_t iy = oy * p.sh - p.pt, ix = ox * p.sw - p.pl;
            std::uint8_t* const to = y + (oy * p.ow + ox) * code_pixel;
            if (iy >= 0 && ix >= 0 && iy + std::int64_t(p.kh - 1) * p.dh < p.ih && ix + std::int64_t(p.kw - 1) * p.dw < p.iw) {
                const std::uint8_t* const window = of.x + (iy * p.iw + ix) * code_pixel;
                compute([&](int slot) { return window + inside[slot]; }, to);
                continue;
            }
            for (int t = 0; t < p.kh * p.kw; ++t)
                at[p.slot_of_tap(t)] = of.at(of.column(ix + std::int64_t(t % p.kw) * p.dw), iy + std::int64_t(t / p.kw) * p.dh);
            compute([&](int slot) { return at[slot]; }, to);
        }
}
// 64 channels of rows [first, last) of the outputs.
inline void depthwise_codes(const quantized_conv_args& a, std::int64_t block, std::int64_t first, std::int64_t last) {
    const quantized_conv_problem& p = a.p;
    alignas(64) std::uint8_t padding[code_pixel];
    std::memset(padding, p.unsigned_zero(), sizeof padding);
    depthwise_end e{end_of(p), {}, {}};
    for (int c = 0; c < code_pixel && block * code_pixel + c < p.oc; ++c) {
        const int at = word_of_channel(c);
        e.bias[at] = a.bias[block * code_pixel + c], e.scale[at] = a.scale[block * code_pixel + c];
    }
    const depthwise_pixels of{p, a.x + block * p.ih * p.iw * code_pixel, padding};
    const std::int32_t* const w = a.weights + block * p.fours() * code_pixel;
    std::uint8_t* const y = a.y + block * p.oh * p.ow * code_pixel;
    const bool neighbours = p.kh == 3 && p.kw == 3 && p.sh == 1 && p.dh == 1;
    (!neighbours ? depthwise_pixel_windows : p.wide ? depthwise_pixel_columns<true> : depthwise_pixel_columns<false>)(of, w, e, first, last, y);
}

// Of one block, row oy of the outputs.
inline void max_pool_pixels(const pool_problem& p, std::int64_t oy, const std::uint8_t* x, std::uint8_t* y) {
    for (std::int64_t ox = 0; ox < p.ow; ++ox)
        for (int v = 0; v < code_vectors; ++v) {
            I most = I::set1(0);
            for (int ky = 0; ky < p.kh; ++ky)
                for (int kx = 0; kx < p.kw; ++kx) {
                    const std::int64_t iy = oy * p.sh - p.pt + std::int64_t(ky) * p.dh, ix = ox * p.sw - p.pl + std::int64_t(kx) * p.dw;
                    if (iy >= 0 && iy < p.ih && ix >= 0 && ix < p.iw) most = max_bytes(most, load_pixel(x + (iy * p.iw + ix) * code_pixel, v));
                }
            std::int32_t lanes[V::W];
            most.store(lanes);
            std::memcpy(y + (oy * p.ow + ox) * code_pixel + v * 4 * V::W, lanes, sizeof lanes);
        }
}

inline const code_pixel_kernels* codes_by_tiles() {
    static constexpr code_pixel_kernels all = {{&gather_bfloat16, &gather_planes_of_codes, &multiply_pixels<byte_tiles>, true, 500, 3},
                                               &move_codes<true>,
                                               &move_codes<false>,
                                               &depthwise_codes,
                                               &max_pool_pixels};
    return &all;
}
