// Gradient of a depthwise convolution with respect to its weights: text, included once for each instruction set. Lanes are channels, so
// a tile's rows are taps; some pixels of a row are summed apart, so that the chains of sums do not wait for each other.

constexpr int grad_depthwise_pixels(int taps) {
    return V::registers == 32 ? (taps == 1 ? 8 : taps == 7 ? 3 : 4) : taps == 1 ? 8 : taps == 3 ? 3 : taps == 5 ? 2 : 1;
}

// KW taps of one row of the kernel, over rows of some images. `first` is what column 0 reads for the first of the taps; columns[k] are
// the outputs whose tap k is inside. Adjacent taps of adjacent pixels share their loads.
template <int KW, bool Adjacent, class T>
GRAFT_NOINLINE inline void grad_depthwise_pass(const T* first, const grad_strip& s, const grad_range* columns, std::int64_t tap_step, const grad_sums& out) {
    constexpr int U = grad_depthwise_pixels(KW);
    V sum[U][KW];
    GRAFT_UNROLL
    for (int u = 0; u < U; ++u) {
        GRAFT_UNROLL
        for (int k = 0; k < KW; ++k) sum[u][k] = V::zero();
    }
    std::int64_t low = columns[0].first, high = columns[0].last;
    for (int k = 1; k < KW; ++k) {
        if (columns[k].first > low) low = columns[k].first;
        if (columns[k].last < high) high = columns[k].last;
    }
    if (high < low) high = low;
    const std::int64_t x_pixel = s.x_pixel;
    for (std::int64_t i = 0; i < s.images; ++i)
        for (std::int64_t r = 0; r < s.rows; ++r) {
            const T* const x = first + i * s.x_image + r * s.x_row;
            const float* const dy = s.dy + i * s.dy_image + r * s.dy_row;
            std::int64_t column = low;
            for (; column + U <= high; column += U) {
                const T* from = x + column * x_pixel;
                V d[U];
                GRAFT_UNROLL
                for (int u = 0; u < U; ++u) d[u] = V::load(dy + (column + u) * V::W);
                if (Adjacent) {
                    GRAFT_UNROLL
                    for (int j = 0; j < U + KW - 1; ++j) {
                        const V a = load_saved(from + j * V::W);
                        GRAFT_UNROLL
                        for (int k = 0; k < KW; ++k)
                            if (j - k >= 0 && j - k < U) sum[j - k][k] = fma(a, d[j - k], sum[j - k][k]);
                    }
                } else {
                    GRAFT_UNROLL
                    for (int u = 0; u < U; ++u) {
                        GRAFT_UNROLL
                        for (int k = 0; k < KW; ++k) sum[u][k] = fma(load_saved(from + u * x_pixel + k * tap_step), d[u], sum[u][k]);
                    }
                }
            }
            for (; column < high; ++column) {
                const V d = V::load(dy + column * V::W);
                GRAFT_UNROLL
                for (int k = 0; k < KW; ++k) sum[0][k] = fma(load_saved(x + column * x_pixel + k * tap_step), d, sum[0][k]);
            }
            // Pixels that have some of the taps only.
            GRAFT_UNROLL
            for (int k = 0; k < KW; ++k) {
                const std::int64_t left = low < columns[k].last ? low : columns[k].last, right = high > columns[k].first ? high : columns[k].first;
                for (std::int64_t c = columns[k].first; c < left; ++c)
                    sum[0][k] = fma(load_saved(x + c * x_pixel + k * tap_step), V::load(dy + c * V::W), sum[0][k]);
                for (std::int64_t c = right; c < columns[k].last; ++c)
                    sum[0][k] = fma(load_saved(x + c * x_pixel + k * tap_step), V::load(dy + c * V::W), sum[0][k]);
            }
        }
    V all[KW][1];
    GRAFT_UNROLL
    for (int k = 0; k < KW; ++k) {
        all[k][0] = sum[0][k];
        GRAFT_UNROLL
        for (int u = 1; u < U; ++u) all[k][0] = all[k][0] + sum[u][k];
    }
    grad_store(all, out);
}

template <bool Adjacent, class T>
GRAFT_FORCE_INLINE void grad_depthwise_row(int count, const T* first, const grad_strip& s, const grad_range* columns, std::int64_t tap_step,
                                           const grad_sums& out) {
    if (count == 7) return grad_depthwise_pass<7, Adjacent>(first, s, columns, tap_step, out);
    if (count == 5) return grad_depthwise_pass<5, Adjacent>(first, s, columns, tap_step, out);
    if (count == 3) return grad_depthwise_pass<3, Adjacent>(first, s, columns, tap_step, out);
    grad_depthwise_pass<1, Adjacent>(first, s, columns, tap_step, out);
}

// One part of the shards of one block of channels.
template <class T>
inline void grad_weight_depthwise_of(const conv_grad_weight_args& a, const T* all, std::int64_t tile, std::int64_t part) {
    const conv_problem& p = a.p;
    const std::int64_t blocks = (p.oc + V::W - 1) / V::W, in_plane = p.ih * p.iw * V::W, out_plane = p.oh * p.ow * V::W;
    float* const buffers = grad_buffers(a, tile, part);
    const std::int64_t each = a.shards.count / a.parts;
    grad_strip s{};
    s.x_image = blocks * in_plane, s.dy_image = blocks * out_plane;
    s.x_row = p.sh * p.iw * V::W, s.dy_row = p.ow * V::W;
    s.x_pixel = std::int64_t(p.sw) * V::W;
    grad_sums out;
    out.row = V::W;
    out.level = a.tile_floats;
    for (std::int64_t i = 0; i < each; ++i) {
        const int shard = static_cast<int>(part * each + i);
        const std::int64_t last = a.shards.last(p.n, shard);
        std::int64_t n = a.shards.first(p.n, shard), row = 0;
        out.merges = grad_merges(i);
        out.first = true;
        for (;;) {
            const std::int64_t images = last - n < a.strip_images ? last - n : a.strip_images;
            const std::int64_t row1 = row + a.strip_rows < p.oh ? row + a.strip_rows : p.oh;
            out.last = images == 0 || (n + images >= last && row1 == p.oh);
            out.to = buffers + out.merges * a.tile_floats;
            out.levels = buffers;
            const T* const x = all + (n * blocks + tile) * in_plane;
            const float* const dy = a.dy + (n * blocks + tile) * out_plane;
            for (int ky = 0; ky < p.kh; ++ky) {
                const std::int64_t down = std::int64_t(ky) * p.dh - p.pt;
                const grad_range rows = grad_inside(row, row1, down, p.ih, p.sh);
                for (int kx = 0, count; kx < p.kw; kx += count) {
                    const int left = p.kw - kx;
                    count = left == 7 || left == 5 || left == 3 ? left : left > 5 ? 5 : left > 3 ? 3 : 1;
                    grad_range columns[7];
                    const std::int64_t right = std::int64_t(kx) * p.dw - p.pl;
                    for (int k = 0; k < count; ++k) columns[k] = grad_inside(0, p.ow, right + std::int64_t(k) * p.dw, p.iw, p.sw);
                    s.images = images;
                    s.rows = rows.last - rows.first;
                    if (s.rows == 0) s.images = 0;
                    const T* const from = x + ((rows.first * p.sh + down) * p.iw + right) * V::W;
                    s.dy = dy + rows.first * p.ow * V::W;
                    if (p.sw == 1 && p.dw == 1)
                        grad_depthwise_row<true>(count, from, s, columns, V::W, out);
                    else
                        grad_depthwise_row<false>(count, from, s, columns, std::int64_t(p.dw) * V::W, out);
                    out.to += count * V::W;
                    out.levels += count * V::W;
                }
            }
            if (a.db) {
                grad_strip sum = s;
                sum.dy = dy + row * p.ow * V::W;
                sum.images = images, sum.rows = row1 - row, sum.pixels = p.ow;
                grad_bias(1, sum, out);
            }
            out.first = false;
            if (out.last) break;
            row = row1 == p.oh ? 0 : row1;
            if (row == 0) n += images;
        }
    }
}
inline void grad_weight_depthwise(const conv_grad_weight_args& a, std::int64_t tile, std::int64_t part) {
    with_saved(a.x, [&](const auto* x) { grad_weight_depthwise_of(a, x, tile, part); });
}

inline void grad_weight_depthwise_end(const conv_grad_weight_args& a, std::int64_t tile) {
    const float* sums = grad_join_parts(a, tile, a.tile_floats);
    const std::int64_t taps = std::int64_t(a.p.kh) * a.p.kw, c0 = tile * V::W, c1 = c0 + V::W < a.p.oc ? c0 + V::W : a.p.oc;
    for (std::int64_t c = c0; c < c1; ++c)
        for (std::int64_t t = 0; t < taps; ++t) a.dw[c * taps + t] = sums[t * V::W + c - c0];
    if (!a.db) return;
    for (std::int64_t c = c0; c < c1; ++c) a.db[c] = sums[taps * V::W + c - c0];
}
