// Direct convolution: text, included once for each instruction set. A register tile of M pixels by NV vectors of output
// channels takes its whole reduction in registers; weights stream by in the order in which they are read. Pixels are counted
// through the plane, so tiles may wrap round rows; a table says where each pixel of a tile lies for each tap.

// A row of the table: the pixel that each of the M outputs reads (-1: padding), whether any is inside, and how far apart they
// are, if all by 1 or all by 2 (else 0).
struct tap_row {
    std::int32_t at[16];
    std::int32_t inside, step;
};

struct tile_job {
    const float* x;  // image, first block of the group
    const float* w;
    weight_lines next;
    const float* bias;  // null, or the channels of the tile
    const float* residual;
    float* y;  // first pixel, first block
    std::int64_t in_plane, out_plane;
    std::int64_t ic;  // channels to sum over
    const tap_row* taps;
    int tap_count, first_lane;
    int channels;  // real ones of this tile, from 1 to NV * W
    int pixels;    // real ones, from 1 to M
};

static constexpr int conv_tile_pixels = V::registers == 32 ? 14 : 6;
static constexpr int conv_small_tile = V::registers == 32 ? 8 : 4;

// How many pixels the next tile takes when `left` are left: full ones, but two small ones rather than a full one and a rest.
inline int tile_pixels(std::int64_t left) {
    if (left > 2 * conv_small_tile || left == conv_tile_pixels) return conv_tile_pixels;
    if (left > conv_small_tile && left <= conv_tile_pixels) return static_cast<int>(left);
    return left < conv_small_tile ? static_cast<int>(left) : conv_small_tile;
}
static constexpr int conv_table_rows = 512;

// What tile `tile` of `tiles` asks for of the next pair's weights, at each tap of each block of channels.
GRAFT_FORCE_INLINE weight_lines lines_of_next_pair(const tile_job& job, std::int64_t tile, std::int64_t tiles) {
    if (!asks_ahead) return {nullptr, 0};
    return lines_ahead(job.w + 2 * V::W * job.ic * job.tap_count, V::W * 2 * V::W / line_floats, (job.ic + V::W - 1) / V::W * job.tap_count, tile, tiles);
}

// Padding reads these.
GRAFT_VECTOR const float* zero_pixel() {
    alignas(64) static constexpr float zeros[V::W] = {};
    return zeros;
}

template <int M, int NV>
GRAFT_VECTOR void start_tile(V (&sum)[M][NV], const tile_job& job) {
    GRAFT_UNROLL
    for (int v = 0; v < NV; ++v) {
        V b = V::zero();
        const int left = job.channels - v * V::W;
        if (job.bias && left > 0) b = left >= V::W ? V::load(job.bias + v * V::W) : V::load_partial(job.bias + v * V::W, left);
        GRAFT_UNROLL
        for (int m = 0; m < M; ++m) sum[m][v] = b;
    }
}

// y = act(tile) [+ residual] for activations that are no clamp; n is a multiple of W. The tile is apart, as y may be the
// residual.
GRAFT_NOINLINE inline void finish_run(const conv_args& a, float* tile, float* y, const float* residual, std::int64_t n) {
    activate_run(tile, n, a.p.ep.act, a.p.ep.alpha, a.p.ep.beta);
    const bool add = residual && a.p.ep.residual_after_activation;
    for (std::int64_t i = 0; i < n; i += V::W) {
        V v = V::load(tile + i);
        if (add) v = v + V::load(residual + i);
        v.store(y + i);
    }
}

// The activation of a run of pixels of a pair of blocks, just stored: long runs keep more products in flight than a tile has.
GRAFT_FORCE_INLINE void finish_pair(const conv_args& a, float* y, std::int64_t out_plane, int channels, std::int64_t pixels) {
    if (!functions_wanted() || !a.run_activation) return;
    activate_run(y, pixels * V::W, a.p.ep.act, a.p.ep.alpha, a.p.ep.beta);
    if (channels > V::W) activate_run(y + out_plane, pixels * V::W, a.p.ep.act, a.p.ep.alpha, a.p.ep.beta);
}

template <int M, int NV>
GRAFT_VECTOR void add_residual(V (&sum)[M][NV], const tile_job& job) {
    GRAFT_UNROLL
    for (int v = 0; v < NV; ++v) {
        GRAFT_UNROLL
        for (int m = 0; m < M; ++m)
            if (m < job.pixels) sum[m][v] = sum[m][v] + V::load(job.residual + v * job.out_plane + m * V::W);
    }
}

template <int M, int NV>
GRAFT_VECTOR void end_tile(V (&sum)[M][NV], const conv_args& a, const tile_job& job) {
    // Copies, as a store may be to anything: the job would be read again after each.
    float* const y = job.y;
    const std::int64_t plane = job.out_plane;
    const int pixels = job.pixels;
    if (job.residual && !a.p.ep.residual_after_activation) add_residual(sum, job);
    if (functions_wanted() && a.tile_activation) {
        alignas(64) float tile[NV][M][V::W];
        GRAFT_UNROLL
        for (int v = 0; v < NV; ++v) {
            GRAFT_UNROLL
            for (int m = 0; m < M; ++m) sum[m][v].store(tile[v][m]);
        }
        for (int v = 0; v < NV; ++v)
            finish_run(a, tile[v][0], job.y + v * job.out_plane, job.residual ? job.residual + v * job.out_plane : nullptr, job.pixels * V::W);
        return;
    }
    if (a.clamp) {
        const V low = V::set1(a.low);
        GRAFT_UNROLL
        for (int v = 0; v < NV; ++v) {
            GRAFT_UNROLL
            for (int m = 0; m < M; ++m) sum[m][v] = max(low, sum[m][v]);
        }
    }
    if (a.clamp && a.high < std::numeric_limits<float>::infinity()) {
        const V high = V::set1(a.high);
        GRAFT_UNROLL
        for (int v = 0; v < NV; ++v) {
            GRAFT_UNROLL
            for (int m = 0; m < M; ++m) sum[m][v] = min(high, sum[m][v]);
        }
    }
    if (job.residual && a.p.ep.residual_after_activation) add_residual(sum, job);
    GRAFT_UNROLL
    for (int v = 0; v < NV; ++v) {
        GRAFT_UNROLL
        for (int m = 0; m < M; ++m)
            if (m < pixels) sum[m][v].store(y + v * plane + m * V::W);
    }
}

template <int M, int NV>
GRAFT_VECTOR void fma_pixels(V (&sum)[M][NV], const float* w, const float* const* p, int k) {
    V b[NV];
    GRAFT_UNROLL
    for (int v = 0; v < NV; ++v) b[v] = V::load(w + v * V::W);
    GRAFT_UNROLL
    for (int m = 0; m < M; ++m) {
        const V s = V::set1(p[m][k]);
        GRAFT_UNROLL
        for (int v = 0; v < NV; ++v) sum[m][v] = fma(s, b[v], sum[m][v]);
    }
}

// As fma_pixels, with pixels Step floats apart: one register addresses them all.
template <int Step, int M, int NV>
GRAFT_VECTOR void fma_adjacent(V (&sum)[M][NV], const float* w, const float* p) {
    V b[NV];
    GRAFT_UNROLL
    for (int v = 0; v < NV; ++v) b[v] = V::load(w + v * V::W);
    GRAFT_UNROLL
    for (int m = 0; m < M; ++m) {
        const V s = V::set1(p[m * Step]);
        GRAFT_UNROLL
        for (int v = 0; v < NV; ++v) sum[m][v] = fma(s, b[v], sum[m][v]);
    }
}

template <int M, int NV>
GRAFT_NOINLINE inline void conv_tile(const conv_args& a, const tile_job& job) {
    V sum[M][NV];
    start_tile(sum, job);
    const float *w = job.w, *x = job.x, *next = job.next.at;
    const std::intptr_t zeros = reinterpret_cast<std::intptr_t>(zero_pixel());
    int lane = job.first_lane;
    for (std::int64_t left = job.ic; left > 0; x += job.in_plane, lane = 0) {
        const int channels = left < V::W - lane ? static_cast<int>(left) : V::W - lane;
        left -= channels;
        for (int t = 0; t < job.tap_count; ++t) {
            const tap_row& row = job.taps[t];
            for (int line = 0; asks_ahead && NV == 2 && M > 1 && line < job.next.lines; ++line, next += line_floats) GRAFT_PREFETCH_FAR(next);
            if (!row.inside) {
                w += channels * (NV * V::W);
            } else if (row.step) {
                const float* p = x + std::int64_t(row.at[0]) * V::W + lane;
                if (row.step == 1) {
                    // The pixels of the next block of channels lie a plane away; behind the last block those of the next tile come.
                    if (job.tap_count == 1) fetch<M>((left > 0 ? x + job.in_plane : job.x + M * V::W) + std::int64_t(row.at[0]) * V::W);
                    for (int k = 0; k < channels; ++k, ++p, w += NV * V::W) {
                        fetch<NV>(w + 16 * NV * V::W);
                        fma_adjacent<V::W>(sum, w, p);
                    }
                } else
                    for (int k = 0; k < channels; ++k, ++p, w += NV * V::W) fma_adjacent<2 * V::W>(sum, w, p);
            } else {
                // Without branches: -1 becomes a mask that leaves the address of the zeros.
                const float* p[M];
                const std::intptr_t from = reinterpret_cast<std::intptr_t>(x + lane) - zeros;
                GRAFT_UNROLL
                for (int m = 0; m < M; ++m) {
                    const std::intptr_t at = row.at[m];
                    p[m] = reinterpret_cast<const float*>(zeros + ((from + at * std::intptr_t(V::W * sizeof(float))) & ~(at >> 31)));
                }
                for (int k = 0; k < channels; ++k, w += NV * V::W) fma_pixels(sum, w, p, k);
            }
        }
    }
    end_tile(sum, a, job);
}

inline void run_tile(const conv_args& a, const tile_job& job) {
    constexpr int M = conv_tile_pixels, S = conv_small_tile;
    if (job.pixels > S)
        job.channels > V::W ? conv_tile<M, 2>(a, job) : conv_tile<M, 1>(a, job);
    else if (V::registers == 16 && job.pixels == 1)  // what follows an average over the plane
        job.channels > V::W ? conv_tile<1, 2>(a, job) : conv_tile<1, 1>(a, job);
    else
        job.channels > V::W ? conv_tile<S, 2>(a, job) : conv_tile<S, 1>(a, job);
}

// The rows of one tile's table for a tile kernel of `width` pixels; outputs past `pixels` repeat the last one, so that they
// read what exists.
GRAFT_NOINLINE inline void fill_taps(const conv_problem& p, std::int64_t pixel, int pixels, int width, tap_row* rows) {
    // A matrix product has nothing to look up.
    if (p.kh * p.kw == 1 && p.sh * p.sw == 1 && pixels == width && p.pt == 0 && p.pl == 0 && p.oh == p.ih && p.ow == p.iw) {
        for (int m = 0; m < 16; ++m) rows->at[m] = static_cast<std::int32_t>(pixel) + m;
        rows->inside = rows->step = 1;
        return;
    }
    constexpr int parts = 16 / V::W;
    std::int32_t first[3][16];
    std::int64_t oy = pixel / p.ow, ox = pixel % p.ow;
    for (int m = 0; m < 16; ++m) {
        first[0][m] = static_cast<std::int32_t>(oy * p.sh - p.pt);
        first[1][m] = static_cast<std::int32_t>(ox * p.sw - p.pl);
        first[2][m] = static_cast<std::int32_t>((oy * p.sh - p.pt) * p.iw + ox * p.sw - p.pl);
        if (m + 1 < pixels && ++ox == p.ow) ox = 0, ++oy;
    }
    // All in one row, and no further apart than the kernels have loops for.
    const bool steps = p.sw <= 2 && pixels >= width && first[2][width - 1] == first[2][0] + (width - 1) * p.sw &&
                       (first[0][width - 1] == first[0][0] || (p.pl == 0 && p.sw == 1 && p.sh == 1 && p.ow == p.iw));
    const I ih = I::set1(static_cast<std::int32_t>(p.ih)), iw = I::set1(static_cast<std::int32_t>(p.iw)), outside = I::set1(-1);
    const int used = (width + V::W - 1) / V::W;
    for (int ky = 0; ky < p.kh; ++ky)
        for (int kx = 0; kx < p.kw; ++kx, ++rows) {
            const I down = I::set1(ky * p.dh), right = I::set1(kx * p.dw), both = I::set1(static_cast<std::int32_t>(ky * p.dh * p.iw + kx * p.dw));
            bool inside = false, whole = true;
            for (int i = 0; i < parts && i < used; ++i) {
                const I iy = I::load(first[0] + i * V::W) + down, ix = I::load(first[1] + i * V::W) + right;
                const M ok = (iy > outside) & (ih > iy) & (ix > outside) & (iw > ix), mine = M::lanes(width - i * V::W);
                select(ok, I::load(first[2] + i * V::W) + both, outside).store(rows->at + i * V::W);
                inside |= any(ok & mine);
                whole &= !any(~ok & mine);
            }
            rows->inside = inside;
            rows->step = whole && steps ? p.sw : 0;
        }
}

// Channels of a group that shares its vectors with other groups: a tile is computed apart, and only its own lanes come from
// the residual and go to y.
GRAFT_NOINLINE inline void gather_tile(const conv_args& a, float* tile, std::int64_t image, std::int64_t channel, int channels, std::int64_t pixel,
                                       int pixels) {
    const std::int64_t plane = a.p.oh * a.p.ow, blocks = (a.p.oc + V::W - 1) / V::W;
    for (int j = 0; j < channels; ++j) {
        const std::int64_t c = channel + j;
        const float* from = a.residual + ((image * blocks + c / V::W) * plane + pixel) * V::W + c % V::W;
        for (int m = 0; m < pixels; ++m) tile[((j / V::W) * 14 + m) * V::W + j % V::W] = from[m * V::W];
    }
}
GRAFT_NOINLINE inline void scatter_tile(const conv_args& a, const float* tile, std::int64_t image, std::int64_t channel, int channels, std::int64_t pixel,
                                        int pixels) {
    const std::int64_t plane = a.p.oh * a.p.ow, blocks = (a.p.oc + V::W - 1) / V::W;
    for (int j = 0; j < channels; ++j) {
        const std::int64_t c = channel + j;
        float* to = a.y + ((image * blocks + c / V::W) * plane + pixel) * V::W + c % V::W;
        for (int m = 0; m < pixels; ++m) to[m * V::W] = tile[((j / V::W) * 14 + m) * V::W + j % V::W];
    }
}

// Kernels with more taps than a table holds: one pixel and vector at a time. A task is a row of one image.
inline void conv_generic(const conv_args& a, std::int64_t task) {
    const conv_problem& p = a.p;
    const std::int64_t oy = task % p.oh, image = task / p.oh, in_plane = p.ih * p.iw * V::W, out_plane = p.oh * p.ow * V::W;
    const std::int64_t in_blocks = (p.ic + V::W - 1) / V::W, out_blocks = (p.oc + V::W - 1) / V::W;
    tile_job job;
    job.out_plane = 0;
    job.pixels = 1;
    for (std::int64_t group = 0; group < p.groups; ++group)
        for (std::int64_t channel = 0; channel < a.ocg; channel += V::W) {
            const std::int64_t pair = channel / (2 * V::W) * 2 * V::W;
            const std::int64_t stride = a.ocg - pair > V::W ? 2 * V::W : V::W, out = group * a.ocg + channel;
            job.channels = static_cast<int>(a.ocg - channel < V::W ? a.ocg - channel : V::W);
            job.bias = a.bias ? a.bias + out : nullptr;
            for (std::int64_t ox = 0; ox < p.ow; ++ox) {
                const float* w = a.weight + group * a.group_weights + pair * a.icg * p.kh * p.kw + (channel - pair);
                V sum[1][1];
                start_tile(sum, job);
                for (std::int64_t left = a.icg, c = group * a.icg; left > 0;) {
                    const int lane = static_cast<int>(c % V::W), channels = left < V::W - lane ? static_cast<int>(left) : V::W - lane;
                    const float* x = a.x + (image * in_blocks + c / V::W) * in_plane + lane;
                    for (int ky = 0; ky < p.kh; ++ky)
                        for (int kx = 0; kx < p.kw; ++kx, w += channels * stride) {
                            const std::int64_t iy = oy * p.sh - p.pt + ky * p.dh, ix = ox * p.sw - p.pl + kx * p.dw;
                            if (iy < 0 || iy >= p.ih || ix < 0 || ix >= p.iw) continue;
                            for (int k = 0; k < channels; ++k) sum[0][0] = fma(V::set1(x[(iy * p.iw + ix) * V::W + k]), V::load(w + k * stride), sum[0][0]);
                        }
                    left -= channels;
                    c += channels;
                }
                const std::int64_t to = (image * out_blocks + out / V::W) * out_plane + (oy * p.ow + ox) * V::W;
                alignas(64) float scattered[V::W] = {}, gathered[V::W] = {};
                job.y = a.scatter ? scattered : a.y + to;
                job.residual = !a.residual ? nullptr : a.scatter ? gathered : a.residual + to;
                if (a.scatter && a.residual) gather_tile(a, gathered, image, out, job.channels, oy * p.ow + ox, 1);
                end_tile(sum, a, job);
                if (a.scatter) scatter_tile(a, scattered, image, out, job.channels, oy * p.ow + ox, 1);
            }
        }
}

// One task: some tiles of one image and group, by some pairs of vectors of output channels.
inline void conv_direct(const conv_args& a, std::int64_t task) {
    constexpr int M = conv_tile_pixels;
    const conv_problem& p = a.p;
    const std::int64_t pair0 = task % a.tasks_per_batch * a.pairs_per_task;
    task /= a.tasks_per_batch;
    const std::int64_t batch = task % a.batches;
    task /= a.batches;
    const std::int64_t group = task % p.groups, image = task / p.groups;
    const std::int64_t pair1 = pair0 + a.pairs_per_task < a.pairs ? pair0 + a.pairs_per_task : a.pairs;
    const std::int64_t in_plane = p.ih * p.iw * V::W, out_plane = p.oh * p.ow * V::W, pixels = p.oh * p.ow;
    const std::int64_t in_blocks = (p.ic + V::W - 1) / V::W, out_blocks = (p.oc + V::W - 1) / V::W;
    const int taps = p.kh * p.kw;

    tap_row rows[conv_table_rows];
    const std::int64_t at_once = conv_table_rows / taps - 1;  // tiles whose tables fit, small ones counted; choose_conv sees to it that one does
    alignas(64) float scattered[2 * 14 * V::W], gathered[2 * 14 * V::W];
    if (a.scatter) std::memset(gathered, 0, sizeof gathered);
    tile_job job;
    job.in_plane = in_plane;
    job.out_plane = a.scatter ? 14 * V::W : out_plane;
    job.ic = a.icg;
    job.tap_count = taps;
    job.first_lane = static_cast<int>(group * a.icg % V::W);
    job.x = a.x + (image * in_blocks + group * a.icg / V::W) * in_plane;
    const std::int64_t first = batch * a.batch_tiles * M;
    const std::int64_t last = first + a.batch_tiles * M < pixels ? first + a.batch_tiles * M : pixels;
    for (std::int64_t start = first; start < last; start += at_once * M) {
        const std::int64_t stop = start + at_once * M < last ? start + at_once * M : last;
        std::int64_t tiles = 0;
        for (std::int64_t i = start; i < stop; i += tile_pixels(stop - i), ++tiles) {
            const int count = tile_pixels(stop - i);
            fill_taps(p, i, count, count <= conv_small_tile ? conv_small_tile : M, rows + tiles * taps);
        }
        for (std::int64_t pair = pair0; pair < pair1; ++pair) {
            const std::int64_t channel = pair * 2 * V::W;
            job.channels = static_cast<int>(a.ocg - channel < 2 * V::W ? a.ocg - channel : 2 * V::W);
            job.w = a.weight + group * a.group_weights + channel * a.icg * taps;
            job.bias = a.bias ? a.bias + group * a.ocg + channel : nullptr;
            const std::int64_t base = a.scatter ? 0 : (image * out_blocks + (group * a.ocg + channel) / V::W) * out_plane;
            for (std::int64_t i = start, t = 0; i < stop; i += job.pixels, ++t) {
                job.pixels = tile_pixels(stop - i);
                job.taps = rows + t * taps;
                job.next = lines_of_next_pair(job, t, tiles);
                job.y = a.scatter ? scattered : a.y + base + i * V::W;
                job.residual = !a.residual ? nullptr : a.scatter ? gathered : a.residual + base + i * V::W;
                if (a.scatter && a.residual) gather_tile(a, gathered, image, group * a.ocg + channel, job.channels, i, job.pixels);
                run_tile(a, job);
                if (a.scatter) scatter_tile(a, scattered, image, group * a.ocg + channel, job.channels, i, job.pixels);
            }
            finish_pair(a, a.y + base + start * V::W, out_plane, job.channels, stop - start);
        }
    }
}

// The first layer reads planes, not blocks. The rows that a run of outputs needs are laid out by the phase of their column
// in the stride, padding included, so that the pixels of a tile are adjacent floats for every tap.
static constexpr int first_layer_floats = 16384, first_layer_taps = 4096;

template <int NV>
GRAFT_NOINLINE inline void first_tile(const conv_args& a, const tile_job& job, const std::int32_t* offsets) {
    constexpr int M = conv_tile_pixels;
    V sum[M][NV];
    start_tile(sum, job);
    const float *w = job.w, *x = job.x;
    for (int k = 0; k < job.tap_count; ++k, w += NV * V::W) fma_adjacent<1>(sum, w, x + offsets[k]);
    end_tile(sum, a, job);
}

// out[phase][i] = row[first + i * step + phase] for i in [0, n), 0 outside [0, width).
GRAFT_NOINLINE inline void gather_row(const float* row, std::int64_t width, std::int64_t first, std::int64_t step, std::int64_t n, float* out) {
    // Whole steps [low, high) are inside.
    std::int64_t low = first < 0 ? (-first + step - 1) / step : 0, high = width > first ? (width - first) / step : 0;
    if (high > n) high = n;
    if (low > high) low = high;
    for (std::int64_t i = 0; i < n; ++i) {
        if (i == low && low < high) i = high;
        if (i == n) break;
        for (std::int64_t phase = 0; phase < step; ++phase) {
            const std::int64_t at = first + i * step + phase;
            out[phase * n + i] = at >= 0 && at < width ? row[at] : 0;
        }
    }
    const float* from = row + first;
    if (step == 1)
        for (std::int64_t i = low; i < high; ++i) out[i] = from[i];
    else if (step == 2)
        for (std::int64_t i = low; i < high; ++i) {
            out[i] = from[2 * i];
            out[n + i] = from[2 * i + 1];
        }
    else
        for (std::int64_t i = low; i < high; ++i)
            for (std::int64_t phase = 0; phase < step; ++phase) out[phase * n + i] = from[i * step + phase];
}

// One task: a band of `pairs_per_task` rows of outputs, of each a run (`batches` runs a row, each of `batch_tiles` tiles); all
// output channels.
inline void conv_first_layer(const conv_args& a, std::int64_t task) {
    constexpr int M = conv_tile_pixels;
    const conv_problem& p = a.p;
    const std::int64_t ox0 = task % a.batches * a.batch_tiles * M, ox1 = ox0 + a.batch_tiles * M < p.ow ? ox0 + a.batch_tiles * M : p.ow;
    task /= a.batches;
    const std::int64_t oy0 = task % a.tasks_per_batch * a.pairs_per_task, image = task / a.tasks_per_batch;
    const std::int64_t oy1 = oy0 + a.pairs_per_task < p.oh ? oy0 + a.pairs_per_task : p.oh;
    const std::int64_t length = a.batch_tiles * M + (p.kw - 1) * p.dw / p.sw + 1, row_floats = p.sw * length;
    const std::int64_t high = (oy1 - oy0 - 1) * p.sh + (p.kh - 1) * p.dh + 1;
    alignas(64) float rows[first_layer_floats];
    std::int32_t offsets[first_layer_taps];
    int k = 0;
    for (std::int64_t c = 0; c < p.ic; ++c) {
        for (std::int64_t r = 0; r < high; ++r) {
            const std::int64_t iy = oy0 * p.sh - p.pt + r;
            const bool inside = iy >= 0 && iy < p.ih;
            gather_row(a.x + ((image * p.ic + c) * p.ih + (inside ? iy : 0)) * p.iw, inside ? p.iw : 0, ox0 * p.sw - p.pl, p.sw, length,
                       rows + (c * high + r) * row_floats);
        }
        for (int ky = 0; ky < p.kh; ++ky) {
            std::int64_t phase = 0, at = 0;
            for (int kx = 0; kx < p.kw; ++kx, phase += p.dw) {
                for (; phase >= p.sw; phase -= p.sw) ++at;
                offsets[k++] = static_cast<std::int32_t>((c * high + ky * p.dh) * row_floats + phase * length + at);
            }
        }
    }
    const std::int64_t out_plane = p.oh * p.ow * V::W, out_blocks = (p.oc + V::W - 1) / V::W;
    tile_job job;
    job.tap_count = k;
    job.out_plane = out_plane;
    for (std::int64_t channel = 0; channel < p.oc; channel += 2 * V::W) {
        job.channels = static_cast<int>(p.oc - channel < 2 * V::W ? p.oc - channel : 2 * V::W);
        job.w = a.weight + channel * k;
        job.bias = a.bias ? a.bias + channel : nullptr;
        for (std::int64_t oy = oy0; oy < oy1; ++oy) {
            const std::int64_t base = (image * out_blocks + channel / V::W) * out_plane + oy * p.ow * V::W;
            for (std::int64_t ox = ox0; ox < ox1; ox += M) {
                job.pixels = static_cast<int>(ox1 - ox < M ? ox1 - ox : M);
                job.x = rows + (oy - oy0) * p.sh * row_floats + (ox - ox0);
                job.y = a.y + base + ox * V::W;
                job.residual = a.residual ? a.residual + base + ox * V::W : nullptr;
                job.channels > V::W ? first_tile<2>(a, job, offsets) : first_tile<1>(a, job, offsets);
            }
            finish_pair(a, a.y + base + ox0 * V::W, out_plane, job.channels, ox1 - ox0);
        }
    }
}
