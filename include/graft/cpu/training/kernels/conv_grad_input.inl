// Gradient of a convolution with respect to its input where it has strides: text, included once for each instruction set. Every sh-th row
// and sw-th column of dX is a convolution of stride 1 over dY with some of the taps, so that nothing is multiplied by inserted zeros.

// One task: some tiles of one image and group of one phase, by some pairs of vectors of channels. As conv_direct, but pixels go to where
// they belong in dX.
struct grad_phase_tile {
    std::int64_t image, channel, pixel;
    int channels, pixels;
};

GRAFT_NOINLINE inline void grad_phase_store(const conv_grad_input_args& a, const float* tile, const grad_phase_tile& t) {
    const conv_problem& p = a.conv.p;
    const conv_problem& f = a.forward;
    const std::int64_t plane = f.ih * f.iw, blocks = (f.ic + V::W - 1) / V::W;
    std::int64_t y = t.pixel / p.ow, x = t.pixel % p.ow, at[14];
    for (int m = 0; m < t.pixels; ++m) {
        at[m] = ((a.row0 + y * f.sh) * f.iw + a.column0 + x * f.sw) * V::W;
        if (++x == p.ow) x = 0, ++y;
    }
    const bool whole = t.channel % V::W == 0;
    for (int j = 0; j < t.channels;) {
        const std::int64_t c = t.channel + j, base = (t.image * blocks + c / V::W) * plane * V::W;
        const float* from = tile + (j / V::W) * 14 * V::W + j % V::W;
        if (whole && (t.channels - j >= V::W || c + t.channels - j == f.ic)) {
            for (int m = 0; m < t.pixels; ++m) {
                V v = V::load(from + m * V::W);
                if (a.conv.residual) v = v + V::load(a.conv.residual + base + at[m]);
                v.store(a.conv.y + base + at[m]);
            }
            j += V::W;
            continue;
        }
        for (int m = 0; m < t.pixels; ++m) {
            const std::int64_t to = base + at[m] + c % V::W;
            a.conv.y[to] = a.conv.residual ? from[m * V::W] + a.conv.residual[to] : from[m * V::W];
        }
        ++j;
    }
}

inline void grad_input_phase(const conv_grad_input_args& phase, std::int64_t task) {
    constexpr int M = conv_tile_pixels;
    const conv_args& a = phase.conv;
    const conv_problem& p = a.p;
    const std::int64_t pair0 = task % a.tasks_per_batch * a.pairs_per_task;
    task /= a.tasks_per_batch;
    const std::int64_t batch = task % a.batches;
    task /= a.batches;
    const std::int64_t group = task % p.groups, image = task / p.groups;
    const std::int64_t pair1 = pair0 + a.pairs_per_task < a.pairs ? pair0 + a.pairs_per_task : a.pairs;
    const std::int64_t in_plane = p.ih * p.iw * V::W, pixels = p.oh * p.ow, in_blocks = (p.ic + V::W - 1) / V::W;
    const int taps = p.kh * p.kw;
    tap_row rows[conv_table_rows];
    conv_problem lookup = p;
    if (p.pt != 0 || p.pl != 0) lookup.oh = -1;               // pads that cancel are no matrix product: one of a phase's may be negative
    const std::int64_t at_once = conv_table_rows / taps - 1;  // the taps of a phase are few enough for one at least
    alignas(64) float sums[2 * 14 * V::W];
    tile_job job;
    job.in_plane = in_plane;
    job.out_plane = 14 * V::W;
    job.ic = a.icg;
    job.tap_count = taps;
    job.first_lane = static_cast<int>(group * a.icg % V::W);
    job.x = a.x + (image * in_blocks + group * a.icg / V::W) * in_plane;
    job.bias = nullptr;
    job.residual = nullptr;
    job.y = sums;
    const std::int64_t first = batch * a.batch_tiles * M;
    const std::int64_t last = first + a.batch_tiles * M < pixels ? first + a.batch_tiles * M : pixels;
    for (std::int64_t start = first; start < last; start += at_once * M) {
        const std::int64_t stop = start + at_once * M < last ? start + at_once * M : last;
        std::int64_t tiles = 0;
        for (std::int64_t i = start; i < stop; i += tile_pixels(stop - i), ++tiles) {
            const int count = tile_pixels(stop - i);
            fill_taps(lookup, i, count, count <= conv_small_tile ? conv_small_tile : M, rows + tiles * taps);
        }
        for (std::int64_t pair = pair0; pair < pair1; ++pair) {
            const std::int64_t channel = pair * 2 * V::W;
            job.channels = static_cast<int>(a.ocg - channel < 2 * V::W ? a.ocg - channel : 2 * V::W);
            job.w = a.weight + group * a.group_weights + channel * a.icg * taps;
            for (std::int64_t i = start, t = 0; i < stop; i += job.pixels, ++t) {
                job.pixels = tile_pixels(stop - i);
                job.taps = rows + t * taps;
                job.next = lines_of_next_pair(job, t, tiles);
                run_tile(a, job);
                grad_phase_store(phase, sums, {image, group * a.ocg + channel, i, job.channels, job.pixels});
            }
        }
    }
}

// One task: the rows of one block of channels of one image that no tap reaches.
inline void grad_input_empty_phase(const conv_grad_input_args& a, std::int64_t task) {
    const conv_problem& f = a.forward;
    const std::int64_t base = task * f.ih * f.iw * V::W;
    for (std::int64_t y = a.row0; y < f.ih; y += f.sh)
        for (std::int64_t x = a.column0; x < f.iw; x += f.sw) {
            const std::int64_t at = base + (y * f.iw + x) * V::W;
            (a.conv.residual ? V::load(a.conv.residual + at) : V::zero()).store(a.conv.y + at);
        }
}

// The taps of one axis that reach one row (or column): tap, tap + step ..., which read outputs at, at - back ... .
struct grad_taps {
    int tap, step;
    std::int64_t at, back;
};
// For the input `i` of an axis, which lies `pad` behind the first tap of output 0; no tap: `tap` is `taps` then.
inline grad_taps grad_taps_of(std::int64_t i, int taps, int stride, int dilation) {
    grad_taps t;
    t.step = stride;
    for (int d = 2; d <= t.step; ++d)
        while (t.step % d == 0 && std::int64_t(t.step / d) * dilation % stride == 0) t.step /= d;
    t.back = std::int64_t(t.step) * dilation / stride;
    for (t.tap = 0; t.tap < taps && t.tap < t.step; ++t.tap) {
        if ((i - std::int64_t(t.tap) * dilation) % stride != 0) continue;
        t.at = (i - std::int64_t(t.tap) * dilation) / stride;
        return t;
    }
    t.tap = taps;
    t.at = 0;
    return t;
}

// M pixels of dX, sw apart, all of whose columns of dY are inside. `dy` is what the first tap reads in the row of the first valid ky.
struct grad_depthwise_job {
    const float *dy, *w, *residual;
    float* dx;
    std::int64_t row_back;                      // floats from one row of dY to that of the next ky
    int rows, columns;                          // taps that reach these pixels
    std::int64_t column_back;                   // floats
    std::int64_t row_tap, column_tap, dx_step;  // floats of w and dX
};
template <int M>
GRAFT_VECTOR void grad_depthwise_tile(const grad_depthwise_job& j) {
    V sum[M];
    GRAFT_UNROLL
    for (int m = 0; m < M; ++m) sum[m] = V::zero();
    for (int ky = 0; ky < j.rows; ++ky) {
        const float *dy = j.dy - ky * j.row_back, *w = j.w + ky * j.row_tap;
        for (int kx = 0; kx < j.columns; ++kx, dy -= j.column_back, w += j.column_tap) {
            const V b = V::load(w);
            GRAFT_UNROLL
            for (int m = 0; m < M; ++m) sum[m] = fma(V::load(dy + m * V::W), b, sum[m]);
        }
    }
    GRAFT_UNROLL
    for (int m = 0; m < M; ++m) {
        if (j.residual) sum[m] = sum[m] + V::load(j.residual + m * j.dx_step);
        sum[m].store(j.dx + m * j.dx_step);
    }
}

// One task: some rows (`batch_tiles`) of one block of channels of one image of dX. Weights lie as [block][tap][W].
inline void grad_input_depthwise(const conv_grad_input_args& a, std::int64_t task) {
    const conv_problem& p = a.forward;
    const std::int64_t blocks = (p.oc + V::W - 1) / V::W, band = task % a.conv.batches;
    task /= a.conv.batches;
    const std::int64_t row0 = band * a.conv.batch_tiles, row1 = row0 + a.conv.batch_tiles < p.ih ? row0 + a.conv.batch_tiles : p.ih;
    const float *dy = a.conv.x + task * p.oh * p.ow * V::W, *w = a.conv.weight + task % blocks * p.kh * p.kw * V::W;
    const std::int64_t base = task * p.ih * p.iw * V::W;
    for (std::int64_t column = 0; column < p.sw && column < p.iw; ++column) {
        const grad_taps x = grad_taps_of(column + p.pl, p.kw, p.sw, p.dw);
        const std::int64_t count = (p.iw - 1 - column) / p.sw + 1;  // columns of this phase
        grad_depthwise_job j;
        j.column_back = x.back * V::W;
        j.column_tap = std::int64_t(x.step) * V::W;
        j.dx_step = std::int64_t(p.sw) * V::W;
        const int columns = x.tap < p.kw ? (p.kw - 1 - x.tap) / x.step + 1 : 0;
        // Pixels [left, right) of the phase have all its taps inside.
        std::int64_t left = x.back * (columns - 1) - x.at, right = p.ow - x.at;
        if (left < 0) left = 0;
        if (right > count) right = count;
        for (std::int64_t row = row0; row < row1; ++row) {
            grad_taps y = grad_taps_of(row + p.pt, p.kh, p.sh, p.dh);
            int rows = y.tap < p.kh ? (p.kh - 1 - y.tap) / y.step + 1 : 0;
            while (rows > 0 && y.at >= p.oh) --rows, y.tap += y.step, y.at -= y.back;
            while (rows > 0 && y.at - (rows - 1) * y.back < 0) --rows;
            j.row_back = y.back * p.ow * V::W;
            j.row_tap = std::int64_t(y.step) * p.kw * V::W;
            for (std::int64_t i = 0, tile; i < count; i += tile) {
                const std::int64_t at = base + (row * p.iw + column + i * p.sw) * V::W, fit = columns && rows && i >= left ? right - i : 0;
                tile = fit >= 8 ? 8 : fit == 7 ? 7 : fit >= 3 ? 3 : 1;
                j.dx = a.conv.y + at;
                j.residual = a.conv.residual ? a.conv.residual + at : nullptr;
                // One pixel at a border has some of the taps.
                std::int64_t from = x.at + i;
                int tap = x.tap;
                j.columns = columns, j.rows = rows;
                while (j.columns > 0 && from >= p.ow) --j.columns, tap += x.step, from -= x.back;
                while (j.columns > 0 && from - (j.columns - 1) * x.back < 0) --j.columns;
                j.dy = dy + (y.at * p.ow + from) * V::W;
                j.w = w + (std::int64_t(y.tap) * p.kw + tap) * V::W;
                if (tile == 8)
                    grad_depthwise_tile<8>(j);
                else if (tile == 7)
                    grad_depthwise_tile<7>(j);
                else if (tile == 3)
                    grad_depthwise_tile<3>(j);
                else
                    grad_depthwise_tile<1>(j);
            }
        }
    }
}

// Some neighbouring pixels of row y of an image.
template <int Pixels>
GRAFT_VECTOR void tap_rows_tile(const conv_tap_rows_args& a, const float* sums, std::int64_t y, const float* residual, float* dx) {
    const conv_problem& f = a.forward;
    const std::int64_t row = f.iw * V::W, plane = f.oh * row;
    V sum[Pixels];
    GRAFT_UNROLL
    for (int m = 0; m < Pixels; ++m) sum[m] = residual ? V::load(residual + m * V::W) : V::zero();
    for (int ky = 0; ky < f.kh; ++ky) {
        const std::int64_t oy = y + f.pt - std::int64_t(ky) * f.dh;
        if (oy < 0 || oy >= f.oh) continue;
        for (int v = 0; v < a.vectors; ++v) {
            const float* const from = sums + v * plane + oy * row;
            const I lane = I::load(a.lane[ky][v]);
            const M taken = I::load(a.taken[ky][v]) > I::set1(0);
            GRAFT_UNROLL
            for (int m = 0; m < Pixels; ++m) sum[m] = sum[m] + select(taken, permute(V::load(from + m * V::W), lane), V::zero());
        }
    }
    GRAFT_UNROLL
    for (int m = 0; m < Pixels; ++m) sum[m].store(dx + m * V::W);
}
inline void grad_input_tap_rows(const conv_tap_rows_args& a, std::int64_t task) {
    constexpr int many = 8;
    const conv_problem& f = a.forward;
    const std::int64_t image = task / f.ih, y = task % f.ih, at = task * f.iw * V::W;
    const float* const sums = a.sums + image * a.vectors * f.oh * f.iw * V::W;
    for (std::int64_t x = 0, count; x < f.iw; x += count) {
        const std::int64_t first = x * V::W;
        const float* const residual = a.residual ? a.residual + at + first : nullptr;
        count = f.iw - x < many ? 1 : many;
        (count == many ? tap_rows_tile<many> : tap_rows_tile<1>)(a, sums + first, y, residual, a.dx + at + first);
    }
}

inline const conv_grad_kernels* conv_grad_table() {
    constexpr bool weight = wanted("ConvGradWeight"), input = wanted("ConvGradInput");
    static constexpr conv_grad_kernels all = {grad_vectors,
                                              grad_plane_vectors,
                                              weight ? &grad_weight : nullptr,
                                              weight ? &grad_weight_planes : nullptr,
                                              weight ? &grad_weight_depthwise : nullptr,
                                              weight ? &grad_weight_end : nullptr,
                                              weight ? &grad_weight_depthwise_end : nullptr,
                                              weight ? &grad_bias_alone : nullptr,
                                              weight ? &grad_winograd_transform : nullptr,
                                              weight ? &grad_winograd_multiply : nullptr,
                                              weight ? &grad_winograd_end : nullptr,
                                              input ? &grad_input_phase : nullptr,
                                              input ? &grad_input_empty_phase : nullptr,
                                              input ? &grad_input_depthwise : nullptr,
                                              input ? &grad_input_tap_rows : nullptr,
                                              input || weight ? &conv_pack : nullptr};
    return &all;
}
