// Gradient of a convolution with respect to its weights, of images of few channels that are read from planes: text, included once for
// each instruction set. The rows of a tile are all taps of all channels. Rows of the image are copied with their padding, so that every
// tap of every pixel is inside.

// Rows lie anywhere: taps of planes.
template <int MI, int NV>
GRAFT_NOINLINE inline void grad_plane_pass(const grad_strip& s, const std::int32_t* offsets, const grad_sums& out) {
    V sum[MI][NV];
    GRAFT_UNROLL
    for (int m = 0; m < MI; ++m) {
        GRAFT_UNROLL
        for (int v = 0; v < NV; ++v) sum[m][v] = V::zero();
    }
    const std::int64_t dy_block = s.dy_block, x_pixel = s.x_pixel;
    for (std::int64_t r = 0; r < s.rows; ++r) {
        const float *x[MI], *dy = s.dy + r * s.dy_row;
        GRAFT_UNROLL
        for (int m = 0; m < MI; ++m) x[m] = s.x + r * s.x_row + offsets[m];
        const std::int64_t end = s.pixels * x_pixel;
        for (std::int64_t i = 0; i < end; i += x_pixel, dy += V::W) {
            V b[NV];
            GRAFT_UNROLL
            for (int v = 0; v < NV; ++v) b[v] = V::load(dy + v * dy_block);
            GRAFT_UNROLL
            for (int m = 0; m < MI; ++m) {
                const V a = V::set1(x[m][i]);
                GRAFT_UNROLL
                for (int v = 0; v < NV; ++v) sum[m][v] = fma(a, b[v], sum[m][v]);
            }
        }
    }
    grad_store(sum, out);
}

template <int NV>
GRAFT_NOINLINE inline void grad_plane_rows_of(const grad_strip& s, const std::int32_t* offsets, std::int64_t count, grad_sums out) {
    constexpr int MI = grad_plane_rows(NV);
    for (std::int64_t i = 0; i < count; i += MI, out.to += MI * out.row, out.levels += MI * out.row) grad_plane_pass<MI, NV>(s, offsets + i, out);
}

GRAFT_NOINLINE inline void grad_copy_row(const float* row, std::int64_t width, std::int64_t first, std::int64_t n, float* out) {
    std::int64_t low = first < 0 ? -first : 0, high = width - first;
    if (high > n) high = n;
    if (high < 0) high = 0;
    if (low > high) low = high;
    for (std::int64_t i = 0; i < low; ++i) out[i] = 0;
    for (std::int64_t i = low; i < high; ++i) out[i] = row[first + i];
    for (std::int64_t i = high; i < n; ++i) out[i] = 0;
}

inline void grad_weight_planes(const conv_grad_weight_args& a, std::int64_t tile, std::int64_t part) {
    const conv_problem& p = a.p;
    const grad_tile t = grad_tile_at(a, tile);
    const std::int64_t out_blocks = (p.oc + V::W - 1) / V::W, out_plane = p.oh * p.ow * V::W;
    float* const buffers = grad_buffers(a, tile, part);
    const std::int64_t each = a.shards.count / a.parts, taps = p.ic * p.kh * p.kw;
    const std::int64_t wide = (a.strip_columns - 1) * p.sw + std::int64_t(p.kw - 1) * p.dw + 1,
                       tall = (a.strip_rows - 1) * p.sh + std::int64_t(p.kh - 1) * p.dh + 1;
    alignas(64) float copy[grad_plane_floats];
    std::int32_t offsets[first_layer_taps + 16];
    std::int64_t k = 0;
    for (std::int64_t c = 0; c < p.ic; ++c)
        for (int ky = 0; ky < p.kh; ++ky)
            for (int kx = 0; kx < p.kw; ++kx) offsets[k++] = static_cast<std::int32_t>((c * tall + ky * p.dh) * wide + kx * p.dw);
    for (int i = 0; i < 16; ++i) offsets[k + i] = offsets[k - 1];  // passes are whole
    const auto rows_of = t.vectors == 1                                  ? &grad_plane_rows_of<1>
                         : t.vectors == 2                                ? &grad_plane_rows_of<2>
                         : t.vectors == 3                                ? &grad_plane_rows_of < grad_plane_vectors == 4 ? 3 : 1 >
                         : &grad_plane_rows_of < grad_plane_vectors == 4 ? 4
                                                                         : 1 > ;
    grad_sums out;
    out.levels = buffers;
    out.row = t.vectors * V::W;
    out.level = a.tile_floats;
    for (std::int64_t i = 0; i < each; ++i) {
        const int shard = static_cast<int>(part * each + i);
        const std::int64_t last = a.shards.last(p.n, shard);
        std::int64_t n = a.shards.first(p.n, shard), row = 0, column = 0;
        out.merges = grad_merges(i);
        out.first = true;
        out.to = buffers + out.merges * a.tile_floats;
        for (;;) {
            const std::int64_t row1 = row + a.strip_rows < p.oh ? row + a.strip_rows : p.oh,
                               column1 = column + a.strip_columns < p.ow ? column + a.strip_columns : p.ow;
            out.last = n >= last || (n + 1 == last && row1 == p.oh && column1 == p.ow);
            grad_strip s{};
            if (n < last) {
                for (std::int64_t c = 0; c < p.ic; ++c)
                    for (std::int64_t r = 0; r < (row1 - row - 1) * p.sh + std::int64_t(p.kh - 1) * p.dh + 1; ++r) {
                        const std::int64_t iy = row * p.sh - p.pt + r;
                        const bool inside = iy >= 0 && iy < p.ih;
                        grad_copy_row(a.x.floats() + ((n * p.ic + c) * p.ih + (inside ? iy : 0)) * p.iw, inside ? p.iw : 0, column * p.sw - p.pl,
                                      (column1 - column - 1) * p.sw + std::int64_t(p.kw - 1) * p.dw + 1, copy + (c * tall + r) * wide);
                    }
                s.x = copy;
                s.x_row = p.sh * wide;
                s.x_pixel = p.sw;
                s.dy = a.dy + (n * out_blocks + t.block) * out_plane + (row * p.ow + column) * V::W;
                s.dy_row = p.ow * V::W;
                s.dy_block = out_plane;
                s.images = 1, s.rows = row1 - row, s.pixels = column1 - column;
            }
            rows_of(s, offsets, taps, out);
            if (t.bias) {
                grad_sums mine = out;
                const std::int64_t offset = a.tile_floats - a.vectors * V::W;
                mine.to += offset;
                mine.levels += offset;
                grad_bias(t.vectors, s, mine);
            }
            out.first = false;
            if (out.last) break;
            column = column1 == p.ow ? 0 : column1;
            if (column == 0) row = row1 == p.oh ? 0 : row1;
            if (row == 0 && column == 0) ++n;
        }
    }
}
