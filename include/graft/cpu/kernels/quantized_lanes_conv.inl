// Convolutions of images in lanes, and products of rows: text, included by quantized_lanes.inl.

// Of 8 output channels and `count` neighbouring pixels, Columns vectors, the sums and their codes: rows_of_lanes at a time stay in registers.
constexpr int rows_of_lanes = V::registers == 32 ? 8 : 4, pixels_of_lanes = 3 * V::W;
template <int Columns>
GRAFT_NOINLINE inline void conv_lanes_tile(const quantized_conv_args& a, const std::int32_t* x, const std::int64_t* taps, std::int64_t step,
                                           std::int64_t channel, std::int64_t first, int count, std::int64_t pitch, const std::int32_t* w) {
    constexpr int rows = rows_of_lanes;
    const quantized_conv_problem& p = a.p;
    const std::int64_t steps = p.lanes_of_block();
    const int last = count - (Columns - 1) * V::W, window = p.window();
    for (int half = 0; half < quantized_rows && channel + half < p.oc; half += rows) {
        const std::int32_t* by = w + half;
        I sums[rows][Columns];
        GRAFT_UNROLL
        for (int r = 0; r < rows; ++r) {
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
                for (int r = 0; r < rows; ++r) {
                    const I weight = I::set1(by[r]);
                    GRAFT_UNROLL
                    for (int c = 0; c < Columns; ++c) sums[r][c] = add_bytes(sums[r][c], pixels[c], weight);
                }
            }
        GRAFT_UNROLL
        for (int r = 0; r < rows; r += 4)
            if (channel + half + r < p.oc) store_lane<Columns>(a, channel + half + r, first, count, pitch, sums + r);
    }
}
// Where the lanes of an image's pixels lie that a convolution reads: where it was written, or where it was gathered.
struct lane_source {
    const std::int32_t* image;
    std::int64_t pitch;  // from a row to the next
};
GRAFT_VECTOR lane_source source_of(const quantized_conv_args& a) {
    if (a.p.in_place()) return {reinterpret_cast<const std::int32_t*>(a.x), a.p.ow};
    return {a.gathered, a.from.pitch};
}
// Tasks as those of the table's `conv`; there are no slots.
inline void conv_lanes(const quantized_conv_args& a, std::int64_t tile, std::int64_t, std::int64_t part) {
    static_assert(quantized_pixels % pixels_of_lanes == 0, "whole vectors");
    const quantized_conv_problem& p = a.p;
    const auto [image, pitch] = source_of(a);
    const std::int64_t step = a.lane_step();
    const auto [begin, end] = blocks_of_task(a, part);
    const std::int64_t pixels = (p.oh - 1) * pitch + p.ow, next = tile * quantized_pixels + quantized_pixels, stop = next < pixels ? next : pixels;
    for (std::int64_t block = begin; block < end; ++block) {
        const std::int32_t *const w = a.weights + block * p.lanes_of_block() * p.window() * quantized_rows, *const lanes = image + p.first_lane(block) * step;
        for (std::int64_t first = tile * quantized_pixels; first < stop; first += pixels_of_lanes) {
            const int count = static_cast<int>(stop - first < pixels_of_lanes ? stop - first : pixels_of_lanes);
            (count > 2 * V::W ? conv_lanes_tile<3>
             : count > V::W   ? conv_lanes_tile<2>
                              : conv_lanes_tile<1>)(a, lanes + first, a.from.taps, step, block * quantized_rows, first, count, pitch, w);
        }
    }
}

// Of two vectors of output channels the sums of Pixels pixels, which stay in registers, and the codes of `count` of them, from `first` on. at[i] is where a
// pixel's first lane lies.
constexpr int channels_at_once = 2 * V::W, pixels_at_once = V::registers == 32 ? 10 : 5;
// Codes of a matrix's rows, which lie beside each other.
template <int Pixels>
GRAFT_VECTOR void store_row_codes(const quantized_conv_args& a, const I (&sums)[Pixels][channels_at_once / V::W], std::int64_t channel, std::int64_t first,
                                  int count) {
    const quantized_conv_problem& p = a.p;
    alignas(64) std::int32_t made[Pixels][channels_at_once];
    GRAFT_UNROLL
    for (int i = 0; i < Pixels; ++i) GRAFT_UNROLL
    for (int v = 0; v < channels_at_once / V::W; ++v) sums[i][v].store(made[i] + v * V::W);
    const V least = V::set1(static_cast<float>(p.low - p.y_zero)), most = V::set1(static_cast<float>(p.high - p.y_zero));
    const I zero = I::set1(p.y_zero);
    for (std::int64_t c = 0; c < channels_at_once && channel + c < p.oc; c += V::W) {
        const std::int64_t left = p.oc - channel - c;
        const V scale = V::load_partial(a.scale + channel + c, static_cast<int>(left < V::W ? left : V::W));
        for (int i = 0; i < Pixels && i < count; ++i) {
            std::uint8_t codes[V::W];
            store_8(to_int(min(max(to_float(I::load(made[i] + c)) * scale, least), most)) + zero, codes);
            std::memcpy(a.y + (first + i) * p.oc + channel + c, codes, static_cast<std::size_t>(left < V::W ? left : V::W));
        }
    }
}
template <int Pixels>
GRAFT_NOINLINE inline void conv_lanes_pixels(const quantized_conv_args& a, const std::int32_t* const* at, std::int64_t steps, std::int64_t channel,
                                             std::int64_t first, int count, const std::int32_t* w, const std::int32_t* coming) {
    constexpr int vectors = channels_at_once / V::W, ahead = 16 * quantized_rows_of_tiles, line = 16;
    const quantized_conv_problem& p = a.p;
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
    // One loop for lanes and taps: of one tap a loop of its own would be all beginning. Pointers to the pixels, and one number that moves them all, are what
    // fits into registers.
    const std::int32_t* pixel_at[Pixels];
    GRAFT_UNROLL
    for (int i = 0; i < Pixels; ++i) pixel_at[i] = at[i];
    for (const std::int32_t *move = a.moves, *const end = move + steps; move != end; ++move, w += quantized_rows_of_tiles, coming += line) {
        const std::int64_t moved = *move;
        GRAFT_PREFETCH_FAR(coming);
        I weights[vectors];
        GRAFT_UNROLL
        for (int v = 0; v < vectors; ++v) {
            weights[v] = I::load(w + v * V::W);
            if constexpr (Pixels < pixels_at_once) GRAFT_PREFETCH(w + v * V::W + ahead);
        }
        GRAFT_UNROLL
        for (int i = 0; i < Pixels; ++i) {
            const I pixel = I::set1(pixel_at[i][moved]);
            GRAFT_UNROLL
            for (int v = 0; v < vectors; ++v) sums[i][v] = add_bytes(sums[i][v], pixel, weights[v]);
        }
    }
    if (p.matrix) return store_row_codes<Pixels>(a, sums, channel, first, count);
    const lane_end e = end_of(p);
    V scale[vectors];
    GRAFT_UNROLL
    for (int v = 0; v < vectors; ++v) scale[v] = as_float(of_channels(a.scale, v));
    // Of two pixels the lanes of all channels: of each four those of the first vector, both pixels beside each other, and of the second.
    static_assert(vectors == 2, "what pack_bytes takes of two pixels");
    alignas(64) std::int32_t lanes[(Pixels + 1) / 2][V::W];
    GRAFT_UNROLL
    for (int i = 0; i < Pixels; i += 2) {
        const int other = i + 1 < Pixels ? i + 1 : i;
        pack_codes(e, steps_of(sums[i][0], scale[0]), steps_of(sums[other][0], scale[0]), steps_of(sums[i][1], scale[1]), steps_of(sums[other][1], scale[1]))
            .store(lanes[i / 2]);
    }
    constexpr int lanes_a_vector = V::W / 4;
    const std::int64_t pixels = p.oh * p.ow, there = p.lanes(p.oc - channel);
    std::int32_t* const y = reinterpret_cast<std::int32_t*>(a.y) + channel / 4 * pixels + first;
    for (std::int64_t lane = 0; lane < 2 * lanes_a_vector && lane < there; ++lane) {
        const std::int32_t* const from = lanes[0] + lane % lanes_a_vector * 4 + lane / lanes_a_vector * 2;
        std::int32_t* const to = y + lane * pixels;
        if (count >= Pixels) GRAFT_UNROLL
        for (int i = 0; i < Pixels; i += 2) std::memcpy(to + i, from + i / 2 * V::W, (i + 1 < Pixels ? 2 : 1) * sizeof *to);
        else for (int i = 0; i < count; ++i) to[i] = from[i / 2 * V::W + i % 2];
    }
}
// Tasks as those of conv_lanes, of more channels and of whole images of pixels where these are few.
inline void conv_lanes_of_few(const quantized_conv_args& a, std::int64_t tile, std::int64_t, std::int64_t part) {
    constexpr int many = pixels_at_once, least = 2, rows = quantized_rows_of_tiles;
    static_assert(quantized_pixels_of_few % many == 0 && rows % channels_at_once == 0, "whole runs of pixels and of channels");
    const quantized_conv_problem& p = a.p;
    const lane_source source = source_of(a);
    const auto [begin, end] = blocks_of_task(a, part);
    const std::int64_t pixels = p.oh * p.ow, between = p.matrix ? p.lanes(p.ic) : 1;
    const std::int64_t from = tile * quantized_pixels_of_few, next = from + quantized_pixels_of_few, stop = next < pixels ? next : pixels;
    const std::int32_t* at[quantized_pixels_of_few];
    for (std::int64_t i = 0; i < quantized_pixels_of_few; ++i) {
        const std::int64_t pixel = from + i < stop ? from + i : stop - 1;
        at[i] = source.image + (pixel / p.ow * source.pitch + pixel % p.ow) * between;
    }
    const std::int64_t steps = p.lanes_of_channels() * p.window();
    for (std::int64_t block = begin; block < end; ++block) {
        const std::int32_t* const w = a.weights + block * steps * rows;
        for (std::int64_t first = from; first < stop; first += many) {
            // While a block is multiplied for the last time, the next one is brought near, half of it with each of the first pixels: a network's weights come
            // from far.
            const std::int64_t run = (first - from) / many;
            const std::int32_t* const coming = w + (run < 2 && stop == pixels ? steps * (rows + run * 16) : 0);
            const int count = static_cast<int>(stop - first < many ? stop - first : many);
            for (int some = 0; some < rows && block * rows + some < p.oc; some += channels_at_once)
                (count > least ? conv_lanes_pixels<many> : conv_lanes_pixels<least>)(a, at + (first - from), steps, block * rows + some, first, count, w + some,
                                                                                     coming);
        }
    }
}
