// Depthwise convolutions of images in lanes, four channels for a task: text, included by quantized_lanes.inl.

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
    return pack_codes(e, steps_of(sums[0], scale), steps_of(sums[1], scale), steps_of(sums[2], scale), steps_of(sums[3], scale));
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
    const int groups = p.fours(), fours = p.fours_of_taps();
    const bool neighbours = !p.wide && p.kh == 3 && p.kw == 3 && p.sh == 1 && p.dh == 1 && 2 * p.ow > V::W;
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
            for (int slot = p.slot_of_tap(t); slot < 4 * groups; slot += 4 * fours) at[slot] = image + (tap.plane * rows + tap.row) * g.pitch + tap.column;
        }
        const lane_rows of = {&p, at, g.pitch, height, a.weights + lane * 4 * groups, bias, scale};
        std::int32_t* const y = reinterpret_cast<std::int32_t*>(a.y) + (lane * p.oh + oy) * p.ow;
        if (neighbours)
            depthwise_lane_columns(of, y);
        else
            (groups == 3 ? depthwise_lane_rows<3> : depthwise_lane_rows<0>)(of, groups, y);
    }
}
