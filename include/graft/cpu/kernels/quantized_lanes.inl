// 8-bit images in lanes of four channels, as unsigned numbers, on machines that multiply four bytes a lane: text, included for each kind of them. A convolution
// of one tap reads them where they lie; for others the image is copied once, with its padding.

GRAFT_VECTOR I load_some(const std::int32_t* from, int lanes) { return as_int(V::load_partial(reinterpret_cast<const float*>(from), lanes)); }
GRAFT_VECTOR void store_some(I a, std::int32_t* to, int lanes) { as_float(a).store_partial(reinterpret_cast<float*>(to), lanes); }

// Four planes (of which `channels` are there) to lanes and back. `flip` is 0x80808080 where the codes are signed.
inline void codes_to_lanes(const std::uint8_t* x, std::int64_t plane, int channels, std::int32_t flip, std::int64_t count, std::int32_t* y) {
    const std::uint8_t* from[4];
    for (int c = 0; c < 4; ++c) from[c] = x + (c < channels ? c : 0) * plane;
    std::int64_t i = 0;
    for (; i + V::W <= count; i += V::W)
        (((load_u8(from[0] + i) | shift_left<8>(load_u8(from[1] + i))) | (shift_left<16>(load_u8(from[2] + i)) | shift_left<24>(load_u8(from[3] + i)))) ^
         I::set1(flip))
            .store(y + i);
    for (; i < count; ++i) {
        std::uint32_t all = 0;
        for (int c = 0; c < 4; ++c) all |= std::uint32_t(from[c][i]) << (8 * c);
        y[i] = static_cast<std::int32_t>(all) ^ flip;
    }
}
inline void lanes_to_codes(const std::int32_t* x, std::int64_t plane, int channels, std::int32_t flip, std::int64_t count, std::uint8_t* y) {
    std::int64_t i = 0;
    for (; i + V::W <= count; i += V::W) {
        const I all = I::load(x + i) ^ I::set1(flip);
        store_8(all, y + i);
        if (channels > 1) store_8(shift_right<8>(all), y + plane + i);
        if (channels > 2) store_8(shift_right<16>(all), y + 2 * plane + i);
        if (channels > 3) store_8(shift_right<24>(all), y + 3 * plane + i);
    }
    for (; i < count; ++i)
        for (int c = 0; c < channels; ++c) y[c * plane + i] = static_cast<std::uint8_t>(static_cast<std::uint32_t>(x[i] ^ flip) >> (8 * c));
}

GRAFT_VECTOR void fill_lanes_with(std::int32_t lane, std::int64_t count, std::int32_t* to) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = lane;
}
GRAFT_VECTOR void copy_lanes(const std::int32_t* from, std::int64_t step, std::int64_t count, std::int32_t* to) {
    if (step == 1)
        for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
    else if (step == 2)
        for (std::int64_t i = 0; i < count; ++i) to[i] = from[2 * i];
    else
        for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}
// Rows [first, first + rows) of a lane's planes, those of phase py one below the other, then those of the next.
GRAFT_VECTOR void copy_planes(const quantized_conv_problem& p, const image_planes& g, const std::int32_t* x, std::int64_t first, std::int64_t rows,
                              std::int32_t* to) {
    const std::int32_t empty = p.unsigned_zero() * 0x01010101;
    for (std::int64_t py = 0; py < g.row_phases; ++py)
        for (std::int64_t px = 0; px < g.column_phases; ++px) {
            const std::int64_t ix = g.column_phase[px] - p.pl;
            const column_span inside = columns_inside(ix, p.iw, p.sw, g.pitch);
            for (std::int64_t row = first; row < first + rows; ++row, to += g.pitch) {
                const std::int64_t iy = row * p.sh + g.row_phase[py] - p.pt;
                if (iy < 0 || iy >= p.ih || inside.first >= inside.last) {
                    fill_lanes_with(empty, g.pitch, to);
                    continue;
                }
                fill_lanes_with(empty, inside.first, to);
                copy_lanes(x + iy * p.iw + ix + inside.first * p.sw, p.sw, inside.last - inside.first, to + inside.first);
                fill_lanes_with(empty, g.pitch - inside.last, to + inside.last);
            }
        }
}
inline void gather_lanes(const quantized_conv_args& a, std::int64_t lane) {
    const quantized_conv_problem& p = a.p;
    std::int32_t* const to = a.gathered + lane * a.from.planes();
    if (lane * 4 < p.ic)
        copy_planes(p, a.from, reinterpret_cast<const std::int32_t*>(a.x) + lane * p.ih * p.iw, 0, a.from.rows, to);
    else
        fill_lanes_with(0, a.from.planes(), to);
}

// A row of a matrix, its codes unsigned; what is beyond its columns meets weights of zero.
inline void gather_row_of_codes(const quantized_conv_args& a, std::int64_t row) {
    const std::int64_t columns = a.p.ic, bytes = a.p.lanes(columns) * 4;
    const std::uint8_t* const from = a.x + row * columns;
    std::uint8_t *const to = reinterpret_cast<std::uint8_t*>(a.gathered) + row * bytes, flip = a.p.x_signed ? 0x80 : 0;
    for (std::int64_t i = 0; i < columns; ++i) to[i] = static_cast<std::uint8_t>(from[i] ^ flip);
    for (std::int64_t i = columns; i < bytes; ++i) to[i] = 0;
}

// Sums become codes, as store_codes has it, but unsigned ones.
struct lane_end {
    float least, most;
    std::int32_t zero;
};
GRAFT_VECTOR lane_end end_of(const quantized_conv_problem& p) {
    return {static_cast<float>(p.low - p.y_zero), static_cast<float>(p.high - p.y_zero), p.y_zero + (p.y_signed ? 128 : 0)};
}
GRAFT_VECTOR I codes_of(const lane_end& e, I sum, V scale) {
    return to_int(min(max(to_float(sum) * scale, V::set1(e.least)), V::set1(e.most))) + I::set1(e.zero);
}

// `count` neighbours in an image whose rows lie `pitch` apart, of which those that are outputs go to their rows.
GRAFT_VECTOR void store_rows(const quantized_conv_problem& p, const std::int32_t* codes, std::int64_t first, std::int64_t count, std::int64_t pitch,
                             std::int32_t* y) {
    std::int64_t row = first / pitch, column = first % pitch;
    for (std::int64_t i = 0; i < count; ++row, column = 0) {
        const std::int64_t whole = pitch - column, here = whole < count - i ? whole : count - i, used = p.ow - column < here ? p.ow - column : here;
        for (std::int64_t k = 0; k < used; ++k) y[row * p.ow + column + k] = codes[i + k];
        i += here;
    }
}
// Four channels' sums of some neighbours: one lane of each.
template <int Columns>
GRAFT_VECTOR void store_lane(const quantized_conv_args& a, std::int64_t channel, std::int64_t first, int count, std::int64_t pitch, const I (*sums)[Columns]) {
    const quantized_conv_problem& p = a.p;
    const lane_end e = end_of(p);
    I lanes[Columns];
    GRAFT_UNROLL
    for (int r = 0; r < 4; ++r) {
        const V scale = V::set1(channel + r < p.oc ? a.scale[channel + r] : 0);
        GRAFT_UNROLL
        for (int c = 0; c < Columns; ++c) {
            const I codes = codes_of(e, sums[r][c], scale);
            lanes[c] = r == 0 ? codes : lanes[c] | (r == 1 ? shift_left<8>(codes) : r == 2 ? shift_left<16>(codes) : shift_left<24>(codes));
        }
    }
    std::int32_t* const y = reinterpret_cast<std::int32_t*>(a.y) + channel / 4 * p.oh * p.ow;
    const int last = count - (Columns - 1) * V::W;
    if (pitch == p.ow) {
        GRAFT_UNROLL
        for (int c = 0; c + 1 < Columns; ++c) lanes[c].store(y + first + c * V::W);
        store_some(lanes[Columns - 1], y + first + (Columns - 1) * V::W, last);
        return;
    }
    std::int32_t codes[Columns * V::W];
    GRAFT_UNROLL
    for (int c = 0; c < Columns; ++c) lanes[c].store(codes + c * V::W);
    store_rows(p, codes, first, count, pitch, y);
}

// Of 8 output channels and `count` neighbouring pixels, Columns vectors, the sums and their codes: Rows at a time stay in registers.
constexpr int rows_of_lanes = V::registers == 32 ? 8 : 4, columns_of_lanes = 3;
template <int Columns>
GRAFT_NOINLINE inline void conv_lanes_tile(const quantized_conv_args& a, const std::int32_t* x, const std::int64_t* taps, std::int64_t step,
                                           std::int64_t channel, std::int64_t first, int count, std::int64_t pitch, const std::int32_t* w) {
    constexpr int Rows = rows_of_lanes;
    const quantized_conv_problem& p = a.p;
    const std::int64_t steps = p.lanes_of_channels();
    const int last = count - (Columns - 1) * V::W, window = p.kh * p.kw;
    for (int half = 0; half < quantized_rows && channel + half < p.oc; half += Rows) {
        const std::int32_t* by = w + half;
        I sums[Rows][Columns];
        GRAFT_UNROLL
        for (int r = 0; r < Rows; ++r) {
            const I bias = I::set1(channel + half + r < p.oc ? a.bias[channel + half + r] : 0);
            GRAFT_UNROLL
            for (int c = 0; c < Columns; ++c) sums[r][c] = bias;
        }
        for (std::int64_t s = 0; s < steps; ++s)
            for (int t = 0; t < window; ++t, by += quantized_rows) {
                const std::int32_t* const at = x + s * step + taps[t];
                I pixels[Columns];
                GRAFT_UNROLL
                for (int c = 0; c + 1 < Columns; ++c) pixels[c] = I::load(at + c * V::W);
                pixels[Columns - 1] = load_some(at + (Columns - 1) * V::W, last);
                GRAFT_UNROLL
                for (int r = 0; r < Rows; ++r) {
                    const I weight = I::set1(by[r]);
                    GRAFT_UNROLL
                    for (int c = 0; c < Columns; ++c) sums[r][c] = add_bytes(sums[r][c], pixels[c], weight);
                }
            }
        GRAFT_UNROLL
        for (int r = 0; r < Rows; r += 4)
            if (channel + half + r < p.oc) store_lane<Columns>(a, channel + half + r, first, count, pitch, sums + r);
    }
}
// Tasks as those of the table's `conv`; there are no slots.
inline void conv_lanes(const quantized_conv_args& a, std::int64_t tile, std::int64_t, std::int64_t part) {
    static_assert(columns_of_lanes == 3 && quantized_pixels % (3 * V::W) == 0, "whole vectors");
    const quantized_conv_problem& p = a.p;
    const bool in_place = p.in_place();
    const std::int64_t pitch = in_place ? p.ow : a.from.pitch, pixels = (p.oh - 1) * pitch + p.ow, blocks = p.blocks();
    const std::int64_t begin = part * a.blocks_a_task, end = begin + a.blocks_a_task < blocks ? begin + a.blocks_a_task : blocks;
    const std::int64_t next = tile * quantized_pixels + quantized_pixels, stop = next < pixels ? next : pixels, step = in_place ? p.ih * p.iw : a.from.planes();
    const std::int32_t* const image = in_place ? reinterpret_cast<const std::int32_t*>(a.x) : a.gathered;
    for (std::int64_t block = begin; block < end; ++block) {
        const std::int32_t* const w = a.weights + block * p.lanes_of_channels() * p.kh * p.kw * quantized_rows;
        for (std::int64_t first = tile * quantized_pixels; first < stop; first += 3 * V::W) {
            const int count = static_cast<int>(stop - first < 3 * V::W ? stop - first : 3 * V::W);
            (count > 2 * V::W ? conv_lanes_tile<3>
             : count > V::W   ? conv_lanes_tile<2>
                              : conv_lanes_tile<1>)(a, image + first, a.from.taps, step, block * quantized_rows, first, count, pitch, w);
        }
    }
}

// Of 32 output channels, which the vectors run along, the sums of Pixels pixels and the codes of `count` of them, from `first` on. at[i] is where a pixel's
// lanes lie.
template <int Pixels>
GRAFT_NOINLINE inline void conv_lanes_pixels(const quantized_conv_args& a, const std::int32_t* x, const std::int64_t* at, std::int64_t step,
                                             std::int64_t channel, std::int64_t first, int count, const std::int32_t* w) {
    constexpr int vectors = quantized_rows_of_tiles / V::W, ahead = 16 * quantized_rows_of_tiles;
    const quantized_conv_problem& p = a.p;
    const int window = p.kh * p.kw;
    const auto of_channels = [&](const auto* from, int v) {
        const std::int64_t left = p.oc - channel - v * V::W;
        return load_some(reinterpret_cast<const std::int32_t*>(from) + (left > 0 ? channel + v * V::W : 0),
                         static_cast<int>(left < V::W ? left > 0 ? left : 0 : V::W));
    };
    I sums[Pixels][vectors];
    GRAFT_UNROLL
    for (int v = 0; v < vectors; ++v) {
        const I bias = of_channels(a.bias, v);
        GRAFT_UNROLL
        for (int i = 0; i < Pixels; ++i) sums[i][v] = bias;
    }
    for (std::int64_t s = p.lanes_of_channels(); s > 0; --s, x += step)
        for (int t = 0; t < window; ++t, w += quantized_rows_of_tiles) {
            const std::int32_t* const lane = x + a.from.taps[t];
            I weights[vectors];
            GRAFT_UNROLL
            for (int v = 0; v < vectors; ++v) {
                weights[v] = I::load(w + v * V::W);
                GRAFT_PREFETCH(w + v * V::W + ahead);
            }
            GRAFT_UNROLL
            for (int i = 0; i < Pixels; ++i) {
                const I pixel = I::set1(lane[at[i]]);
                GRAFT_UNROLL
                for (int v = 0; v < vectors; ++v) sums[i][v] = add_bytes(sums[i][v], pixel, weights[v]);
            }
        }
    alignas(64) std::int32_t made[Pixels][quantized_rows_of_tiles];
    GRAFT_UNROLL
    for (int i = 0; i < Pixels; ++i) GRAFT_UNROLL
    for (int v = 0; v < vectors; ++v) sums[i][v].store(made[i] + v * V::W);
    lane_end e = end_of(p);
    if (p.matrix) e.zero = p.y_zero;
    const std::int64_t y_pixel = p.matrix ? p.oc : 4, y_lane = p.matrix ? 4 : 4 * p.oh * p.ow;
    for (int v = 0; v < vectors; ++v) {
        const V scale = as_float(of_channels(a.scale, v));
        const std::int64_t left = p.oc - channel - v * V::W;
        for (int i = 0; i < Pixels && i < count; ++i) {
            std::uint8_t codes[V::W], *to = a.y + (first + i) * y_pixel + (channel + v * V::W) / 4 * y_lane;
            store_8(codes_of(e, I::load(made[i] + v * V::W), scale), codes);
            for (int r = 0; r < V::W && r < left; r += 4, to += y_lane)
                std::memcpy(to, codes + r, p.matrix && left - r < 4 ? static_cast<std::size_t>(left - r) : 4);
        }
    }
}
// Tasks as those of conv_lanes, of more channels and of whole images of pixels where these are few.
inline void conv_lanes_of_few(const quantized_conv_args& a, std::int64_t tile, std::int64_t, std::int64_t part) {
    constexpr int many = 10, least = 2, rows = quantized_rows_of_tiles;
    static_assert(quantized_pixels_of_few % many == 0, "whole runs of pixels");
    const quantized_conv_problem& p = a.p;
    const bool in_place = p.in_place();
    const std::int64_t pitch = in_place ? p.ow : a.from.pitch, step = p.matrix ? 1 : in_place ? p.ih * p.iw : a.from.planes();
    const std::int64_t pixels = p.oh * p.ow, blocks = p.blocks(), between = p.matrix ? p.lanes(p.ic) : 1;
    const std::int64_t begin = part * a.blocks_a_task, end = begin + a.blocks_a_task < blocks ? begin + a.blocks_a_task : blocks;
    const std::int64_t from = tile * quantized_pixels_of_few, next = from + quantized_pixels_of_few, stop = next < pixels ? next : pixels;
    const std::int32_t* const image = in_place ? reinterpret_cast<const std::int32_t*>(a.x) : a.gathered;
    std::int64_t at[quantized_pixels_of_few];
    for (std::int64_t i = 0; i < quantized_pixels_of_few; ++i) {
        const std::int64_t pixel = from + i < stop ? from + i : stop - 1;
        at[i] = (pixel / p.ow * pitch + pixel % p.ow) * between;
    }
    for (std::int64_t block = begin; block < end; ++block) {
        const std::int32_t* const w = a.weights + block * p.lanes_of_channels() * p.kh * p.kw * rows;
        for (std::int64_t first = from; first < stop; first += many) {
            const int count = static_cast<int>(stop - first < many ? stop - first : many);
            (count > least ? conv_lanes_pixels<many> : conv_lanes_pixels<least>)(a, image, at + (first - from), step, block * rows, first, count, w);
        }
    }
}

// What a vector of neighbours of a lane reads for four taps, brought together so that the products of each channel are one lane's: pixels 4 q + k are
// lanes 4 q to 4 q + 3 of vector k.
struct four_taps {
    I of[4];
};
GRAFT_VECTOR void bring_together(I a, I b, I c, I d, four_taps& to) {
    const I ab_low = zip_bytes_low(a, b), cd_low = zip_bytes_low(c, d), ab_high = zip_bytes_high(a, b), cd_high = zip_bytes_high(c, d);
    to.of[0] = zip_halves_low(ab_low, cd_low);
    to.of[1] = zip_halves_high(ab_low, cd_low);
    to.of[2] = zip_halves_low(ab_high, cd_high);
    to.of[3] = zip_halves_high(ab_high, cd_high);
}
GRAFT_VECTOR I lane_of_sums(const lane_end& e, const I (&sums)[4], V scale) {
    return pack_bytes(codes_of(e, sums[0], scale), codes_of(e, sums[1], scale), codes_of(e, sums[2], scale), codes_of(e, sums[3], scale));
}
// Rows of outputs, of a window whose taps are read at x[slot] + row * pitch.
struct lane_rows {
    const quantized_conv_problem* p;
    const std::int32_t* const* x;
    std::int64_t pitch, rows;
    const std::int32_t *weights, *bias, *scale;
};
template <int Groups>
GRAFT_VECTOR I depthwise_lane(const lane_rows& of, std::int64_t at, int groups, I bias, V scale, const lane_end& e) {
    I sums[4] = {bias, bias, bias, bias};
    for (int g = 0; g < (Groups ? Groups : groups); ++g) {
        const std::int32_t* const* x = of.x + 4 * g;
        four_taps taps;
        bring_together(I::load(x[0] + at), I::load(x[1] + at), I::load(x[2] + at), I::load(x[3] + at), taps);
        const I weights = repeat_four(of.weights + 4 * g);
        GRAFT_UNROLL
        for (int k = 0; k < 4; ++k) sums[k] = add_bytes(sums[k], taps.of[k], weights);
    }
    return lane_of_sums(e, sums, scale);
}
template <int Groups>
GRAFT_NOINLINE inline void depthwise_lane_rows(const lane_rows& of, int groups, std::int32_t* y) {
    const quantized_conv_problem& p = *of.p;
    const lane_end e = end_of(p);
    const I bias = repeat_four(of.bias);
    const V scale = as_float(repeat_four(of.scale));
    if (p.ow >= V::W) {
        for (std::int64_t row = 0; row < of.rows; ++row)
            for (std::int64_t next = 0; next < p.ow; next += V::W) {
                // The last of a row with some of those before.
                const std::int64_t column = next + V::W > p.ow ? p.ow - V::W : next;
                depthwise_lane<Groups>(of, row * of.pitch + column, groups, bias, scale, e).store(y + row * p.ow + column);
            }
        return;
    }
    // Narrow rows are one, with what lies between them.
    const std::int64_t pixels = (of.rows - 1) * of.pitch + p.ow;
    for (std::int64_t first = 0; first < pixels; first += V::W) {
        std::int32_t codes[V::W];
        depthwise_lane<Groups>(of, first, groups, bias, scale, e).store(codes);
        store_rows(p, codes, first, V::W < pixels - first ? V::W : pixels - first, of.pitch, y);
    }
}
// A window of 3 x 3 whose rows are neighbours: what is brought together of a row of the image serves three rows of outputs.
GRAFT_NOINLINE inline void depthwise_lane_columns(const lane_rows& of, std::int32_t* y) {
    const quantized_conv_problem& p = *of.p;
    const lane_end e = end_of(p);
    const I bias = repeat_four(of.bias), upper = repeat_four(of.weights), middle = repeat_four(of.weights + 4), lower = repeat_four(of.weights + 8);
    const V scale = as_float(repeat_four(of.scale));
    for (std::int64_t next = 0; next < p.ow; next += V::W) {
        const std::int64_t column = next + V::W > p.ow && p.ow >= V::W ? p.ow - V::W : next;
        const int count = static_cast<int>(p.ow - column < V::W ? p.ow - column : V::W);
        I last[4] = {bias, bias, bias, bias}, second[4] = {bias, bias, bias, bias};
        for (std::int64_t row = 0; row < of.rows + 2; ++row) {
            const std::int64_t at = row * of.pitch + column;
            const I right = I::load(of.x[2] + at);
            four_taps taps;
            bring_together(I::load(of.x[0] + at), I::load(of.x[1] + at), right, right, taps);
            I whole[4];
            GRAFT_UNROLL
            for (int k = 0; k < 4; ++k) {
                whole[k] = add_bytes(last[k], taps.of[k], lower);
                last[k] = add_bytes(second[k], taps.of[k], middle);
                second[k] = add_bytes(bias, taps.of[k], upper);
            }
            if (row >= 2) store_some(lane_of_sums(e, whole, scale), y + (row - 2) * p.ow + column, count);
        }
    }
}
// Four channels.
inline void depthwise_lanes(const quantized_conv_args& a, std::int64_t lane) {
    const quantized_conv_problem& p = a.p;
    const image_planes& g = a.from;
    // Beyond the planes: what the last vectors read.
    alignas(64) std::int32_t image[quantized_depthwise_pixels + V::W];
    const int groups = p.fours_of_taps();
    const bool neighbours = p.kh == 3 && p.kw == 3 && p.sh == 1 && p.dh == 1 && 2 * p.ow > V::W;
    const std::int64_t below = g.rows - p.oh;
    std::int64_t band = quantized_depthwise_pixels / (g.row_phases * g.column_phases * g.pitch) - below;
    band = band < p.oh ? band : p.oh;
    std::int32_t bias[4] = {}, scale[4] = {};
    for (int c = 0; c < 4 && lane * 4 + c < p.oc; ++c) {
        bias[c] = a.bias[lane * 4 + c];
        std::memcpy(scale + c, a.scale + lane * 4 + c, sizeof *scale);
    }
    const std::int32_t* at[4 * quantized_taps];
    for (std::int64_t oy = 0; oy < p.oh; oy += band) {
        const std::int64_t height = p.oh - oy < band ? p.oh - oy : band, rows = height + below;
        copy_planes(p, g, reinterpret_cast<const std::int32_t*>(a.x) + lane * p.ih * p.iw, oy, rows, image);
        for (int slot = 0; slot < 4 * groups; ++slot) at[slot] = image;  // what no tap has meets weights of zero
        for (int t = 0; t < p.kh * p.kw; ++t) {
            const depthwise_tap& tap = a.tap[t];
            at[p.slot_of_tap(t)] = image + (tap.plane * rows + tap.row) * g.pitch + tap.column;
        }
        const lane_rows of = {&p, at, g.pitch, height, a.weights + lane * 4 * groups, bias, scale};
        std::int32_t* const y = reinterpret_cast<std::int32_t*>(a.y) + (lane * p.oh + oy) * p.ow;
        if (neighbours)
            depthwise_lane_columns(of, y);
        else
            (groups == 3 ? depthwise_lane_rows<3> : depthwise_lane_rows<0>)(of, groups, y);
    }
}

// to = the larger of both, byte by byte.
GRAFT_VECTOR void take_larger(const std::int32_t* from, std::int64_t count, std::int32_t* to) {
    std::int64_t i = 0;
    for (; i + V::W <= count; i += V::W) max_bytes(I::load(from + i), I::load(to + i)).store(to + i);
    if (i < count) {
        const int rest = static_cast<int>(count - i);
        store_some(max_bytes(load_some(from + i, rest), load_some(to + i, rest)), to + i, rest);
    }
}
// Of each column of a row of windows the largest of their rows, of these the largest of their columns, and of these every sw-th.
inline void max_pool_lanes(const pool_problem& p, const std::int32_t* x, std::int32_t* y) {
    const std::int64_t columns = std::int64_t(p.kw - 1) * p.dw, width = (p.ow - 1) * p.sw + columns + 1, starts = width - columns;
    const std::int64_t first = p.pl < width ? p.pl : width, last = p.pl + p.iw < width ? p.pl + p.iw : width;
    std::int32_t down[quantized_row], across[quantized_row];
    for (std::int64_t oy = 0; oy < p.oh; ++oy, y += p.ow) {
        fill_lanes_with(0, width, down);
        for (int ky = 0; ky < p.kh; ++ky) {
            const std::int64_t iy = oy * p.sh - p.pt + std::int64_t(ky) * p.dh;
            if (iy >= 0 && iy < p.ih && first < last) take_larger(x + iy * p.iw + first - p.pl, last - first, down + first);
        }
        copy_lanes(down, 1, starts, across);
        for (int kx = 1; kx < p.kw; ++kx) take_larger(down + std::int64_t(kx) * p.dw, starts, across);
        copy_lanes(across, p.sw, p.ow, y);
    }
}

inline const byte_kernels* bytes_in_lanes() {
    static constexpr byte_kernels all = {&codes_to_lanes, &lanes_to_codes,    &gather_lanes,    &gather_row_of_codes,
                                         &conv_lanes,     &conv_lanes_of_few, &depthwise_lanes, &max_pool_lanes};
    return &all;
}
