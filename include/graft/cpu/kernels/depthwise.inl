// Depthwise convolution of blocked images: text, included once for each instruction set.

// One block of channels of one image, or a padded copy of some of its rows: then nothing lies outside, and the pads are 0.
struct depthwise_input {
    const float* x;
    std::int64_t ih, iw, pt, pl;
};

// M outputs of one row, all of whose columns are inside; S is the stride, [ky0, ky1) the rows that are inside. KW is the kernel's
// width where its taps are adjacent: then a row of weights stays in registers and an input is loaded once for all outputs that
// read it; 0 is for any other. The order of an output's sum is the same.
template <int M, int S, int KW>
GRAFT_VECTOR void depthwise_tile(const conv_args& a, const tile_job& job, const float* x, std::int64_t row_step, int ky0, int ky1) {
    const conv_problem& p = a.p;
    V sum[M][1];
    start_tile(sum, job);
    const int width = KW ? KW : p.kw;
    for (int ky = ky0; ky < ky1; ++ky) {
        const float* row = x + ky * row_step;
        const float* w = job.w + ky * width * V::W;
        if constexpr (KW) {
            V taps[KW];
            GRAFT_UNROLL
            for (int kx = 0; kx < KW; ++kx) taps[kx] = V::load(w + kx * V::W);
            GRAFT_UNROLL
            for (int i = 0; i < (M - 1) * S + KW; ++i) {
                const V v = V::load(row + i * V::W);
                GRAFT_UNROLL
                for (int kx = i % S; kx < KW; kx += S)
                    if (i >= kx && i - kx <= (M - 1) * S) sum[(i - kx) / S][0] = fma(v, taps[kx], sum[(i - kx) / S][0]);
            }
        } else {
            for (int kx = 0; kx < width; ++kx, row += std::int64_t(p.dw) * V::W, w += V::W) {
                const V b = V::load(w);
                GRAFT_UNROLL
                for (int m = 0; m < M; ++m) sum[m][0] = fma(V::load(row + m * S * V::W), b, sum[m][0]);
            }
        }
    }
    end_tile(sum, a, job);
}

// What is left of a row that tiles do not fill: rare, and small where it is shared by kernels of every width.
template <int S>
GRAFT_NOINLINE inline void depthwise_few(const conv_args& a, const tile_job& job, const float* x, std::int64_t row_step, int ky0, int ky1) {
    depthwise_tile<3, S, 0>(a, job, x, row_step, ky0, ky1);
}

// One output, whose columns may lie outside.
GRAFT_NOINLINE inline void depthwise_pixel(const conv_args& a, const tile_job& job, const depthwise_input& in, std::int64_t iy, std::int64_t ix, int ky0,
                                           int ky1) {
    const conv_problem& p = a.p;
    V sum[1][1];
    start_tile(sum, job);
    int kx0 = 0, kx1 = p.kw;
    while (kx0 < p.kw && ix + kx0 * p.dw < 0) ++kx0;
    while (kx1 > kx0 && ix + (kx1 - 1) * p.dw >= in.iw) --kx1;
    for (int ky = ky0; ky < ky1; ++ky) {
        const float* row = in.x + (iy + ky * p.dh) * in.iw * V::W;
        for (int kx = kx0; kx < kx1; ++kx) sum[0][0] = fma(V::load(row + (ix + kx * p.dw) * V::W), V::load(job.w + (ky * p.kw + kx) * V::W), sum[0][0]);
    }
    end_tile(sum, a, job);
}

// Rows [oy0, oy1) of `in`'s outputs; job's y and residual begin with the first of them. S is the stride, 0 for one without tiles.
template <int S, int KW>
GRAFT_NOINLINE inline void depthwise_rows(const conv_args& a, tile_job job, const depthwise_input& in, std::int64_t oy0, std::int64_t oy1) {
    constexpr int M = 7;
    const conv_problem& p = a.p;
    // Outputs [left, right) read no column outside. Pads are below zero in a gradient of a convolution whose pads exceed its kernel.
    std::int64_t left = in.pl > 0 ? (in.pl + p.sw - 1) / p.sw : 0, right = in.iw + in.pl - std::int64_t(p.kw - 1) * p.dw;
    right = right > 0 && S ? (right - 1) / p.sw + 1 : 0;
    if (right > p.ow) right = p.ow;
    // The last tile of a row reaches back and computes some outputs again; not where it adds to them, as y may be the residual.
    const bool whole = right - left >= M && !job.residual;
    const std::int64_t row_step = p.dh * in.iw * V::W;
    float* stored = job.y;  // from here on without their activation
    for (std::int64_t oy = oy0; oy < oy1; ++oy) {
        const std::int64_t iy = oy * p.sh - in.pt;
        int ky0 = 0, ky1 = p.kh;
        while (ky0 < p.kh && iy + ky0 * p.dh < 0) ++ky0;
        while (ky1 > ky0 && iy + (ky1 - 1) * p.dh >= in.ih) --ky1;
        for (std::int64_t ox = 0; ox < p.ow; ox += job.pixels) {
            const std::int64_t tiles = S && ox >= left ? right - ox : 0;
            if (whole && tiles > 0 && tiles < M) {
                ox -= M - tiles;
                job.y -= (M - tiles) * V::W;
            }
            const float* at = in.x + (iy * in.iw - in.pl + ox * p.sw) * V::W;
            job.pixels = tiles >= M || (whole && tiles > 0) ? M : tiles >= 3 ? 3 : 1;
            if (job.pixels == M)
                depthwise_tile<M, S, KW>(a, job, at, row_step, ky0, ky1);
            else if (job.pixels == 3)
                depthwise_few<S>(a, job, at, row_step, ky0, ky1);
            else
                depthwise_pixel(a, job, in, iy, ox * p.sw - in.pl, ky0, ky1);
            job.y += job.pixels * V::W;
            if (job.residual) job.residual += job.pixels * V::W;
        }
        // Rows of a small image are short runs.
        if (job.y - stored < 128 * V::W && oy + 1 < oy1) continue;
        finish_pair(a, stored, 0, V::W, (job.y - stored) / V::W);
        stored = job.y;
    }
}

template <int S>
GRAFT_FORCE_INLINE auto depthwise_rows_of(const conv_problem& p) {
    // These tiles are large, and sets of four lanes with few registers are there to be small.
    constexpr bool few = V::W == 4 && V::registers == 16;
    const int width = p.dw == 1 && !few ? p.kw : 0;
    if constexpr (S == 1 && V::registers == 32)
        if (width == 7) return &depthwise_rows<1, 7>;
    return width == 3 ? &depthwise_rows<S, 3> : width == 5 ? &depthwise_rows<S, 5> : &depthwise_rows<S, 0>;
}

// One task: some rows (`batch_tiles`) of one block of channels of one image.
inline void conv_depthwise(const conv_args& a, std::int64_t task) {
    const conv_problem& p = a.p;
    const std::int64_t blocks = (p.oc + V::W - 1) / V::W;
    const std::int64_t first = task % a.batches * a.batch_tiles, last = first + a.batch_tiles < p.oh ? first + a.batch_tiles : p.oh;
    task /= a.batches;
    const std::int64_t channel = task % blocks * V::W;
    tile_job job;
    job.channels = static_cast<int>(p.oc - channel < V::W ? p.oc - channel : V::W);
    job.w = a.weight + channel * p.kh * p.kw;
    job.bias = a.bias ? a.bias + channel : nullptr;
    job.out_plane = 0;
    const depthwise_input whole{a.x + task * p.ih * p.iw * V::W, p.ih, p.iw, p.pt, p.pl};
    const auto rows = p.sw == 1 ? depthwise_rows_of<1>(p) : p.sw == 2 ? depthwise_rows_of<2>(p) : &depthwise_rows<0, 0>;

    // Where borders are a good part of a row, rows are copied with their padding, so that tiles have none.
    constexpr std::int64_t room = 10240;
    alignas(64) float copy[room];
    const std::int64_t wide = (p.ow - 1) * p.sw + (p.kw - 1) * p.dw + 1, high = (p.kh - 1) * p.dh + 1;
    const std::int64_t fit = room / (wide * V::W) < high ? 0 : (room / (wide * V::W) - high) / p.sh + 1;  // rows of outputs that it feeds
    const bool padded = p.sw <= 2 && wide > p.iw && (wide - p.iw) * 16 > p.iw && fit >= 4;
    for (std::int64_t oy0 = first, oy1; oy0 < last; oy0 = oy1) {
        const std::int64_t out = (task * p.oh + oy0) * p.ow * V::W;
        job.y = a.y + out;
        job.residual = a.residual ? a.residual + out : nullptr;
        if (!padded) {
            oy1 = last;
            rows(a, job, whole, oy0, oy1);
            continue;
        }
        oy1 = oy0 + fit < last ? oy0 + fit : last;
        const depthwise_input part{copy, (oy1 - oy0 - 1) * p.sh + high, wide, 0, 0};
        float* to = copy;
        for (std::int64_t y = 0; y < part.ih; ++y) {
            const std::int64_t iy = oy0 * p.sh - p.pt + y, inside = wide - p.pl < p.iw ? wide - p.pl : p.iw;
            const bool real = iy >= 0 && iy < p.ih;
            const float* from = whole.x + (iy * p.iw + (p.pl < 0 ? -p.pl : 0)) * V::W;
            std::int64_t x = 0;
            for (; x < (real && p.pl < wide ? p.pl : wide); ++x, to += V::W) V::zero().store(to);
            for (; x < (real ? p.pl + inside : 0); ++x, to += V::W, from += V::W) V::load(from).store(to);
            for (; x < wide; ++x, to += V::W) V::zero().store(to);
        }
        rows(a, job, part, 0, oy1 - oy0);
    }
}

// Groups of 2, 4 or 8 channels that share vectors: each output lane reads the lanes of its own group, by permutation.
template <int M>
GRAFT_NOINLINE inline void shared_tile(const conv_args& a, const tile_job& job) {
    const int channels = static_cast<int>(a.icg);
    V sum[M][1];
    start_tile(sum, job);
    std::int32_t lanes[V::W];
    for (int i = 0; i < V::W; ++i) lanes[i] = i / channels * channels;
    const I group = I::load(lanes);
    const float *w = job.w, *const zeros = zero_pixel();
    for (int t = 0; t < job.tap_count; ++t) {
        const tap_row& row = job.taps[t];
        if (!row.inside) {
            w += channels * V::W;
            continue;
        }
        V x[M];
        GRAFT_UNROLL
        for (int m = 0; m < M; ++m) x[m] = V::load(row.at[m] >= 0 ? job.x + std::int64_t(row.at[m]) * V::W : zeros);
        for (int k = 0; k < channels; ++k, w += V::W) {
            const V b = V::load(w);
            const I at = group + I::set1(k);
            GRAFT_UNROLL
            for (int m = 0; m < M; ++m) sum[m][0] = fma(permute(x[m], at), b, sum[m][0]);
        }
    }
    end_tile(sum, a, job);
}

// One task: some pixels of some blocks (`pairs_per_task`) of channels of one image.
inline void conv_shared(const conv_args& a, std::int64_t task) {
    constexpr int M = V::registers == 32 ? 12 : 5;
    const conv_problem& p = a.p;
    const std::int64_t blocks = (p.oc + V::W - 1) / V::W, pixels = p.oh * p.ow, in_plane = p.ih * p.iw * V::W;
    const std::int64_t first = task % a.batches * a.batch_tiles * conv_tile_pixels;
    const std::int64_t last = first + a.batch_tiles * conv_tile_pixels < pixels ? first + a.batch_tiles * conv_tile_pixels : pixels;
    task /= a.batches;
    const std::int64_t image = task / a.tasks_per_batch, block0 = task % a.tasks_per_batch * a.pairs_per_task;
    const std::int64_t block1 = block0 + a.pairs_per_task < blocks ? block0 + a.pairs_per_task : blocks;
    tap_row rows[conv_table_rows / 2];
    tile_job job;
    job.tap_count = p.kh * p.kw;
    job.taps = rows;
    job.out_plane = pixels * V::W;
    for (std::int64_t i = first; i < last; i += M) {
        job.pixels = last - i < M ? static_cast<int>(last - i) : M;
        fill_taps(p, i, job.pixels, M, rows);
        for (std::int64_t block = block0; block < block1; ++block) {
            const std::int64_t channel = block * V::W, at = ((image * blocks + block) * pixels + i) * V::W;
            job.channels = static_cast<int>(p.oc - channel < V::W ? p.oc - channel : V::W);
            job.x = a.x + (image * blocks + block) * in_plane;
            job.w = a.weight + channel * a.icg * job.tap_count;
            job.bias = a.bias ? a.bias + channel : nullptr;
            job.y = a.y + at;
            job.residual = a.residual ? a.residual + at : nullptr;
            shared_tile<M>(a, job);
        }
    }
}
