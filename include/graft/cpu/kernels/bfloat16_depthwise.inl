// Depthwise convolution of images in bfloat16: text, included for each set that rounds to it. Numbers become floats as they are loaded, the even channels of a
// pixel one vector and the odd ones another, and sums are rounded as they are stored.

// One group of channels of one image, of which some rows are copied with their padding.
struct depthwise_group {
    conv_args a;
    std::int64_t wide;  // pixels of a row of the copy
    V bias[2];
    alignas(64) float weights[narrow_depthwise_taps][2][V::W];  // of the even channels and of the odd ones
};

// Those of two vectors of channels, [2][taps][W], of which the second may not be there.
inline void unzip_weights(const float* from, int taps, bool both, float (*to)[2][V::W]) {
    constexpr int half = V::W / 2;
    for (int t = 0; t < taps; ++t, from += V::W)
        for (int i = 0; i < half; ++i) {
            const float* const second = from + taps * V::W + 2 * i;
            to[t][0][i] = from[2 * i], to[t][0][half + i] = both ? second[0] : 0;
            to[t][1][i] = from[2 * i + 1], to[t][1][half + i] = both ? second[1] : 0;
        }
}

// M neighbouring outputs of one row; S is the stride. KW as in depthwise_tile: the kernel's width where its taps are adjacent, 0 for any other.
template <int M, int S, int KW>
GRAFT_VECTOR void depthwise_some(const depthwise_group& g, const std::uint16_t* x, std::uint16_t* y) {
    const conv_problem& p = g.a.p;
    V sum[M][2];
    GRAFT_UNROLL
    for (int m = 0; m < M; ++m) sum[m][0] = g.bias[0], sum[m][1] = g.bias[1];
    const float(*w)[2][V::W] = g.weights;
    for (int ky = 0; ky < p.kh; ++ky, x += p.dh * g.wide * bfloat16_block) {
        if constexpr (KW > 0) {
            V taps[KW][2];
            GRAFT_UNROLL
            for (int kx = 0; kx < KW; ++kx, ++w) taps[kx][0] = V::load((*w)[0]), taps[kx][1] = V::load((*w)[1]);
            GRAFT_UNROLL
            for (int i = 0; i < (M - 1) * S + KW; ++i) {
                V some[2];
                bfloat16_pixels::load(x + i * bfloat16_block, some);
                GRAFT_UNROLL
                for (int kx = i % S; kx < KW; kx += S)
                    if (i >= kx && i - kx <= (M - 1) * S) {
                        V(&to)[2] = sum[(i - kx) / S];
                        to[0] = fma(some[0], taps[kx][0], to[0]), to[1] = fma(some[1], taps[kx][1], to[1]);
                    }
            }
        } else {
            const std::uint16_t* at = x;
            for (int kx = 0; kx < p.kw; ++kx, ++w, at += p.dw * bfloat16_block) {
                const V even = V::load((*w)[0]), odd = V::load((*w)[1]);
                GRAFT_UNROLL
                for (int m = 0; m < M; ++m) {
                    V some[2];
                    bfloat16_pixels::load(at + m * p.sw * bfloat16_block, some);
                    sum[m][0] = fma(some[0], even, sum[m][0]), sum[m][1] = fma(some[1], odd, sum[m][1]);
                }
            }
        }
    }
    if (functions_wanted() && g.a.run_activation) {
        alignas(64) float made[M][2][V::W];
        GRAFT_UNROLL
        for (int m = 0; m < M; ++m) sum[m][0].store(made[m][0]), sum[m][1].store(made[m][1]);
        activate_run(made[0][0], M * 2 * V::W, p.ep.act, p.ep.alpha, p.ep.beta);
        GRAFT_UNROLL
        for (int m = 0; m < M; ++m) sum[m][0] = V::load(made[m][0]), sum[m][1] = V::load(made[m][1]);
    }
    const V low = V::set1(g.a.low), high = V::set1(g.a.high);
    GRAFT_UNROLL
    for (int m = 0; m < M; ++m) narrow_pairs(clamp(sum[m][0], low, high), clamp(sum[m][1], low, high), y + m * bfloat16_block);
}

// A row of outputs. The last tile reaches back and computes some of them again.
template <int S, int KW>
GRAFT_NOINLINE inline void depthwise_row(const depthwise_group& g, const std::uint16_t* x, std::uint16_t* y) {
    constexpr int M = 7;
    const std::int64_t ow = g.a.p.ow, sw = g.a.p.sw;
    for (std::int64_t ox = 0; ox < ow;) {
        if (ow >= M) {
            if (ox + M > ow) ox = ow - M;
            depthwise_some<M, S, KW>(g, x + ox * sw * bfloat16_block, y + ox * bfloat16_block);
            ox += M;
        } else {
            depthwise_some<1, 1, 0>(g, x + ox * sw * bfloat16_block, y + ox * bfloat16_block);
            ox += 1;
        }
    }
}

template <int S>
inline auto depthwise_row_of(const conv_problem& p) {
    return p.dw > 1 ? &depthwise_row<1, 0> : p.kw == 3 ? &depthwise_row<S, 3> : p.kw == 5 ? &depthwise_row<S, 5> : &depthwise_row<1, 0>;
}

// Rows [first, first + rows) of a group's image, with their padding.
inline void copy_padded_rows(const conv_problem& p, const std::uint16_t* x, std::int64_t first, std::int64_t rows, std::int64_t wide, std::uint16_t* to) {
    constexpr std::size_t group = 2 * V::W * sizeof *to;
    const auto clear = [&](std::int64_t count) {
        for (; count > 0; --count, to += bfloat16_block) std::memset(to, 0, group);
    };
    for (std::int64_t iy = first; iy < first + rows; ++iy) {
        const bool inside = iy >= 0 && iy < p.ih;
        const std::int64_t before = !inside || p.pl > wide ? wide : p.pl, count = wide - before < p.iw ? wide - before : p.iw;
        const std::uint16_t* from = x + iy * p.iw * bfloat16_block;
        clear(before);
        for (std::int64_t i = 0; i < count; ++i, to += bfloat16_block, from += bfloat16_block) std::memcpy(to, from, group);
        clear(wide - before - count);
    }
}

// What an output row of the next copy will read first, while this one is computed.
inline void fetch_rows(const conv_problem& p, const std::uint16_t* x, std::int64_t first) {
    for (std::int64_t iy = first < 0 ? 0 : first; iy < first + p.sh && iy < p.ih; ++iy)
        for (std::int64_t i = 0; i < p.iw; ++i) fetch_line(x + (iy * p.iw + i) * bfloat16_block);
}

// One task: some rows (`batch_tiles`) of one group of channels of one image.
inline void depthwise_bfloat16(const conv_args& a, std::int64_t task) {
    const conv_problem& p = a.p;
    constexpr int together = 2 * V::W;
    const std::int64_t groups = (p.oc + bfloat16_block - 1) / bfloat16_block * (bfloat16_block / together);
    const std::int64_t first = task % a.batches * a.batch_tiles, last = first + a.batch_tiles < p.oh ? first + a.batch_tiles : p.oh;
    task /= a.batches;
    const std::int64_t channel = task % groups * together, left = p.oc - channel;
    const std::uint16_t* const x = a.narrow_x + group_at<bfloat16_pixels>(task, p.ih * p.iw);
    std::uint16_t* const y = a.narrow_y + group_at<bfloat16_pixels>(task, p.oh * p.ow);
    if (left <= 0) {
        for (std::int64_t i = first * p.ow; i < last * p.ow; ++i) std::memset(y + i * bfloat16_block, 0, together * sizeof *y);
        return;
    }
    const int channels = static_cast<int>(left < together ? left : together), taps = p.kh * p.kw;
    const std::int64_t wide = (p.ow - 1) * p.sw + (p.kw - 1) * p.dw + 1, high = (p.kh - 1) * p.dh + 1, fit = narrow_depthwise_rows(p);
    depthwise_group g;
    g.a = a, g.wide = wide;
    unzip(a.bias ? a.bias + channel : nullptr, a.bias ? channels : 0, 0, g.bias);
    unzip_weights(a.weight + channel * taps, taps, channels > V::W, g.weights);
    const auto row = p.sw == 1 ? depthwise_row_of<1>(p) : p.sw == 2 ? depthwise_row_of<2>(p) : &depthwise_row<1, 0>;
    alignas(64) std::uint16_t room[narrow_depthwise_room];
    for (std::int64_t oy0 = first, oy1; oy0 < last; oy0 = oy1) {
        oy1 = oy0 + fit < last ? oy0 + fit : last;
        copy_padded_rows(p, x, oy0 * p.sh - p.pt, (oy1 - oy0 - 1) * p.sh + high, wide, room);
        for (std::int64_t oy = oy0; oy < oy1; ++oy) {
            fetch_rows(p, x, (oy1 + oy - oy0) * p.sh - p.pt + high - p.sh);
            row(g, room + (oy - oy0) * p.sh * wide * bfloat16_block, y + oy * p.ow * bfloat16_block);
        }
    }
}
