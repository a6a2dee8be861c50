// Gradient of a convolution with respect to its weights: text, included once for each instruction set. A register tile of MI input
// channels by NV vectors of output channels takes a strip of pixels in registers; all taps go over the strip while it is in the first
// cache. Strips are summed from zero and then added to what came before, which rounds less than one long chain.

// How many rows of a tile one pass takes.
constexpr int grad_rows(int vectors) { return V::registers == 32 ? (vectors == 1 ? 16 : vectors == 4 ? 4 : 8) : vectors == 1 ? V::W : 4; }
constexpr int grad_plane_rows(int vectors) { return vectors == 1 ? 13 : V::registers == 32 ? (vectors == 2 ? 13 : 7) : 5; }
static constexpr int grad_vectors = V::registers == 32 ? 4 : V::W == 8 ? 3 : 2;
static constexpr int grad_plane_vectors = V::registers == 32 ? 4 : 2;
static constexpr int grad_plane_floats = 8192;

// What one pass goes over: images of rows of pixels, of which dy has W floats a pixel in each of its blocks.
struct grad_strip {
    const float *x, *dy;
    std::int64_t x_image, x_row, x_pixel, dy_image, dy_row, dy_block;  // steps in floats
    std::int64_t images, rows, pixels;
};

// Where the sums of a pass go: `to` for its first row. `first` of a shard's strips overwrites; at the `last` one the earlier shards'
// sums, of 1, 2, 4 ... shards, `level` floats apart, are added in this order, as the tree has it.
struct grad_sums {
    float* to;
    const float* levels;
    std::int64_t row, level;  // floats from row to row and from level to level
    int merges;
    bool first, last;
};

// sum = from + sum.
template <int MI, int NV>
GRAFT_VECTOR void grad_add(V (&sum)[MI][NV], const float* from, std::int64_t row) {
    GRAFT_UNROLL
    for (int m = 0; m < MI; ++m, from += row) {
        GRAFT_UNROLL
        for (int v = 0; v < NV; ++v) sum[m][v] = V::load(from + v * V::W) + sum[m][v];
    }
}
template <int MI, int NV>
GRAFT_VECTOR void grad_store(V (&sum)[MI][NV], const grad_sums& s) {
    if (!s.first) grad_add(sum, s.to, s.row);
    if (s.last)
        for (int i = 0; i < s.merges; ++i) grad_add(sum, s.levels + i * s.level, s.row);
    float* to = s.to;
    GRAFT_UNROLL
    for (int m = 0; m < MI; ++m, to += s.row) {
        GRAFT_UNROLL
        for (int v = 0; v < NV; ++v) sum[m][v].store(to + v * V::W);
    }
}

// Rows are adjacent input channels.
template <int MI, int NV>
GRAFT_NOINLINE inline void grad_weight_pass(const grad_strip& s, const grad_sums& out) {
    V sum[MI][NV];
    GRAFT_UNROLL
    for (int m = 0; m < MI; ++m) {
        GRAFT_UNROLL
        for (int v = 0; v < NV; ++v) sum[m][v] = V::zero();
    }
    const std::int64_t dy_block = s.dy_block, x_pixel = s.x_pixel;
    for (std::int64_t i = 0; i < s.images; ++i)
        for (std::int64_t r = 0; r < s.rows; ++r) {
            const float *x = s.x + i * s.x_image + r * s.x_row, *dy = s.dy + i * s.dy_image + r * s.dy_row;
            for (std::int64_t left = s.pixels; left > 0; --left, x += x_pixel, dy += V::W) {
                V b[NV];
                GRAFT_UNROLL
                for (int v = 0; v < NV; ++v) b[v] = V::load(dy + v * dy_block);
                GRAFT_UNROLL
                for (int m = 0; m < MI; ++m) {
                    const V a = V::set1(x[m]);
                    GRAFT_UNROLL
                    for (int v = 0; v < NV; ++v) sum[m][v] = fma(a, b[v], sum[m][v]);
                }
            }
        }
    grad_store(sum, out);
}

// The gradient of the bias: dy alone.
template <int NV>
GRAFT_NOINLINE inline void grad_bias_pass(const grad_strip& s, const grad_sums& out) {
    V sum[4][NV];
    GRAFT_UNROLL
    for (int m = 0; m < 4; ++m) {
        GRAFT_UNROLL
        for (int v = 0; v < NV; ++v) sum[m][v] = V::zero();
    }
    for (std::int64_t i = 0; i < s.images; ++i)
        for (std::int64_t r = 0; r < s.rows; ++r) {
            const float* dy = s.dy + i * s.dy_image + r * s.dy_row;
            std::int64_t left = s.pixels;
            for (; left >= 4; left -= 4, dy += 4 * V::W) {
                GRAFT_UNROLL
                for (int m = 0; m < 4; ++m) {
                    GRAFT_UNROLL
                    for (int v = 0; v < NV; ++v) sum[m][v] = sum[m][v] + V::load(dy + v * s.dy_block + m * V::W);
                }
            }
            for (; left > 0; --left, dy += V::W) {
                GRAFT_UNROLL
                for (int v = 0; v < NV; ++v) sum[0][v] = sum[0][v] + V::load(dy + v * s.dy_block);
            }
        }
    V all[1][NV];
    GRAFT_UNROLL
    for (int v = 0; v < NV; ++v) all[0][v] = (sum[0][v] + sum[1][v]) + (sum[2][v] + sum[3][v]);
    grad_store(all, out);
}

GRAFT_FORCE_INLINE void grad_bias(int vectors, const grad_strip& s, const grad_sums& out) {
    if (vectors == 1) return grad_bias_pass<1>(s, out);
    if (vectors == 2) return grad_bias_pass<2>(s, out);
    if (vectors == 3) return grad_bias_pass<3>(s, out);
    grad_bias_pass<4>(s, out);
}

// `count` rows from the first lane on, by passes as wide as the block has lanes for (what they compute too much nobody reads).
template <int NV>
GRAFT_FORCE_INLINE void grad_weight_rows(grad_strip s, grad_sums out, int lane, int count) {
    constexpr int most = grad_rows(NV), half = most < 8 ? most : 8;
    for (int i = 0; i < count;) {
        const int left = count - i, room = V::W - lane - i;
        const int rows = left > half && room >= most ? most : left > 4 && room >= half ? half : room >= 4 ? 4 : 1;
        if (rows == most)
            grad_weight_pass<most, NV>(s, out);
        else if (rows == half)
            grad_weight_pass<half, NV>(s, out);
        else if (rows == 4)
            grad_weight_pass<4, NV>(s, out);
        else
            grad_weight_pass<1, NV>(s, out);
        i += rows;
        s.x += rows;
        out.to += rows * out.row;
        out.levels += rows * out.row;
    }
}

// A tile of the weights: which channels it has.
struct grad_tile {
    std::int64_t block;  // first vector of output channels
    int vectors;
    std::int64_t out0, out1;  // output channels
    std::int64_t in0, in1;    // input channels; none where in0 >= in1
    bool bias;
};
inline grad_tile grad_tile_at(const conv_grad_weight_args& a, std::int64_t tile) {
    grad_tile t;
    const std::int64_t blocks = (a.p.oc + V::W - 1) / V::W, chunk = tile % a.chunks;
    t.block = tile / a.chunks * a.vectors;
    t.vectors = static_cast<int>(blocks - t.block < a.vectors ? blocks - t.block : a.vectors);
    t.out0 = t.block * V::W;
    t.out1 = a.p.oc < t.out0 + t.vectors * V::W ? a.p.oc : t.out0 + t.vectors * V::W;
    const std::int64_t end = ((t.out1 - 1) / a.ocg + 1) * a.icg;
    t.in0 = t.out0 / a.ocg * a.icg + chunk * a.lanes;
    t.in1 = t.in0 + a.lanes < end ? t.in0 + a.lanes : end;
    t.bias = a.db && chunk == 0;
    return t;
}
inline float* grad_buffers(const conv_grad_weight_args& a, std::int64_t tile, std::int64_t part) {
    return a.workspace + ((tile - a.first_tile) * a.parts + part) * a.levels * a.tile_floats;
}
// How many sums of earlier shards of the part the sum of the shard `index` is added to.
inline int grad_merges(std::int64_t index) {
    int merges = 0;
    for (; index & 1; index >>= 1) ++merges;
    return merges;
}

// Outputs [first, last) of [low, high) whose tap, `offset` past the first one, lies inside an axis of `size`.
struct grad_range {
    std::int64_t first, last;
};
inline grad_range grad_inside(std::int64_t low, std::int64_t high, std::int64_t offset, std::int64_t size, std::int64_t stride) {
    std::int64_t first = -offset, last = size - offset;  // in steps of the input
    if (stride != 1) {
        first = first > 0 ? (first + stride - 1) / stride : 0;
        last = last > 0 ? (last + stride - 1) / stride : 0;
    }
    grad_range r;
    r.first = first > low ? first : low;
    r.last = last < high ? last : high;
    if (r.last < r.first) r.last = r.first;
    return r;
}

// The taps of some input channels of one block, over one strip.
template <int NV>
GRAFT_NOINLINE inline void grad_weight_taps(const conv_grad_weight_args& a, const float* x, const float* dy, std::int64_t images, std::int64_t row0,
                                            std::int64_t row1, std::int64_t column0, std::int64_t column1, int lane, int count, grad_sums out) {
    const conv_problem& p = a.p;
    grad_strip s;
    const std::int64_t step = out.row;
    s.x_image = (p.ic + V::W - 1) / V::W * p.ih * p.iw * V::W;
    s.x_row = p.sh * p.iw * V::W;
    s.x_pixel = std::int64_t(p.sw) * V::W;
    s.dy_block = p.oh * p.ow * V::W;
    s.dy_image = (p.oc + V::W - 1) / V::W * s.dy_block;
    s.dy_row = p.ow * V::W;
    out.row = step * p.kh * p.kw;
    for (int ky = 0; ky < p.kh; ++ky) {
        const std::int64_t down = std::int64_t(ky) * p.dh - p.pt;
        const grad_range rows = grad_inside(row0, row1, down, p.ih, p.sh);
        for (int kx = 0; kx < p.kw; ++kx, out.to += step, out.levels += step) {
            const std::int64_t right = std::int64_t(kx) * p.dw - p.pl;
            const grad_range columns = grad_inside(column0, column1, right, p.iw, p.sw);
            s.images = images;
            s.rows = rows.last - rows.first;
            s.pixels = columns.last - columns.first;
            if (s.rows == 0 || s.pixels == 0) s.images = 0;
            if (s.images == 0 && !out.first && !out.last) continue;
            s.x = x + lane;
            s.dy = dy;
            if (s.images) {
                s.x += ((rows.first * p.sh + down) * p.iw + columns.first * p.sw + right) * V::W;
                s.dy += (rows.first * p.ow + columns.first) * V::W;
            }
            grad_weight_rows<NV>(s, out, lane, count);
        }
    }
}

// One part of the shards of one tile.
inline void grad_weight(const conv_grad_weight_args& a, std::int64_t tile, std::int64_t part) {
    const conv_problem& p = a.p;
    const grad_tile t = grad_tile_at(a, tile);
    if (t.in0 >= t.in1) return;
    const std::int64_t in_blocks = (p.ic + V::W - 1) / V::W, out_blocks = (p.oc + V::W - 1) / V::W;
    const std::int64_t in_plane = p.ih * p.iw * V::W, out_plane = p.oh * p.ow * V::W;
    float* const buffers = grad_buffers(a, tile, part);
    const auto taps = t.vectors == 1                          ? &grad_weight_taps<1>
                      : t.vectors == 2                        ? &grad_weight_taps<2>
                      : t.vectors == 3                        ? &grad_weight_taps<3>
                      : &grad_weight_taps < grad_vectors == 4 ? 4
                                                              : 1 > ;
    const std::int64_t each = a.shards.count / a.parts;
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
        float* const to = buffers + out.merges * a.tile_floats;
        for (;;) {
            const std::int64_t images = last - n < a.strip_images ? last - n : a.strip_images;
            const std::int64_t row1 = row + a.strip_rows < p.oh ? row + a.strip_rows : p.oh,
                               column1 = column + a.strip_columns < p.ow ? column + a.strip_columns : p.ow;
            out.last = images == 0 || (n + images >= last && row1 == p.oh && column1 == p.ow);
            const float* dy = a.dy + (n * out_blocks + t.block) * out_plane;
            for (std::int64_t c = t.in0, length; c < t.in1; c += length) {
                const int lane = static_cast<int>(c % V::W);
                length = V::W - lane < t.in1 - c ? V::W - lane : t.in1 - c;
                grad_sums mine = out;
                const std::int64_t offset = (c - t.in0) * p.kh * p.kw * out.row;
                mine.to = to + offset;
                mine.levels += offset;
                taps(a, a.x.floats() + (n * in_blocks + c / V::W) * in_plane, dy, images, row, row1, column, column1, lane, static_cast<int>(length), mine);
            }
            if (t.bias) {
                grad_sums mine = out;
                const std::int64_t offset = a.tile_floats - a.vectors * V::W;
                mine.to = to + offset;
                mine.levels += offset;
                grad_strip s{};
                s.dy = images ? dy + (row * p.ow + column) * V::W : dy;
                s.dy_block = out_plane;
                s.dy_image = out_blocks * out_plane;
                s.dy_row = p.ow * V::W;
                s.images = images, s.rows = row1 - row, s.pixels = column1 - column;
                grad_bias(t.vectors, s, mine);
            }
            out.first = false;
            if (out.last) break;
            column = column1 == p.ow ? 0 : column1;
            if (column == 0) row = row1 == p.oh ? 0 : row1;
            if (row == 0 && column == 0) n += images;
        }
    }
}

// Adds up sums of parts, `step` floats apart, as the tree has it; the sum is left in the first one.
inline void grad_join(float* first, std::int64_t step, std::int64_t parts, std::int64_t floats) {
    for (std::int64_t apart = 1; apart < parts; apart *= 2)
        for (std::int64_t part = 0; part + apart < parts; part += 2 * apart) {
            float* left = first + part * step;
            const float* right = left + apart * step;
            for (std::int64_t i = 0; i < floats; i += V::W) (V::load(left + i) + V::load(right + i)).store(left + i);
        }
}
inline float* grad_join_parts(const conv_grad_weight_args& a, std::int64_t tile, std::int64_t floats) {
    float* const first = grad_buffers(a, tile, 0) + (a.levels - 1) * a.tile_floats;
    grad_join(first, a.levels * a.tile_floats, a.parts, floats);
    return first;
}

// Rows of W floats to columns: to[j * to_step + i] is float j of row i, for i < rows, j < columns <= W. Rows lie from_step apart, or, where a channel has
// several taps that lie `from_tap` apart, row i is tap i % taps of channel i / taps.
GRAFT_NOINLINE inline void grad_transpose(const float* from, std::int64_t from_step, std::int64_t rows, int columns, float* to, std::int64_t to_step,
                                          int taps = 1, std::int64_t from_tap = 0) {
    std::int64_t channel = 0;  // where the next row's lies
    int tap = 0;
    for (std::int64_t i = 0; i < rows; i += V::W) {
        const int count = static_cast<int>(rows - i < V::W ? rows - i : V::W);
        V block[V::W];
        GRAFT_UNROLL
        for (int r = 0; r < V::W; ++r) {
            block[r] = r < count ? V::load(from + channel + tap * from_tap) : V::zero();
            if (++tap == taps) tap = 0, channel += from_step;
        }
        transpose(block);
        GRAFT_UNROLL
        for (int j = 0; j < V::W; ++j) {
            if (j >= columns) continue;
            if (count == V::W)
                block[j].store(to + j * to_step + i);
            else
                block[j].store_partial(to + j * to_step + i, count);
        }
    }
}

// The gradient of the bias alone, of one vector of output channels.
inline void grad_bias_alone(const conv_grad_weight_args& a, std::int64_t vector) {
    constexpr int most_levels = 9;
    static_assert(shards::most == 1 << (most_levels - 1), "a level for each power of two");
    const conv_problem& p = a.p;
    float levels[most_levels][V::W];
    grad_strip s{};
    s.dy_image = (p.oc + V::W - 1) / V::W * p.oh * p.ow * V::W;
    s.dy_row = p.ow * V::W;
    s.rows = p.oh, s.pixels = p.ow;
    grad_sums out{};
    out.levels = levels[0];
    out.row = out.level = V::W;
    out.first = out.last = true;
    for (int shard = 0; shard < a.shards.count; ++shard) {
        const std::int64_t first = a.shards.first(p.n, shard);
        s.images = a.shards.last(p.n, shard) - first;
        s.dy = a.dy + first * s.dy_image + vector * p.oh * s.dy_row;
        out.merges = grad_merges(shard);
        out.to = levels[out.merges];
        grad_bias(1, s, out);
    }
    const std::int64_t channels = p.oc - vector * V::W;
    for (std::int64_t j = 0; j < V::W && j < channels; ++j) a.db[vector * V::W + j] = out.to[j];
}

// A tile's sums go into the weights as they are stored, [oc][ic / groups][kh][kw].
inline void grad_weight_end(const conv_grad_weight_args& a, std::int64_t tile) {
    const conv_problem& p = a.p;
    const grad_tile t = grad_tile_at(a, tile);
    if (t.in0 >= t.in1) return;
    const float* sums = grad_join_parts(a, tile, a.tile_floats);
    const std::int64_t taps = std::int64_t(p.kh) * p.kw, row = t.vectors * V::W;
    const float* bias = sums + a.tile_floats - a.vectors * V::W;
    if (t.bias)
        for (std::int64_t o = t.out0; o < t.out1; ++o) a.db[o] = bias[o - t.out0];
    if (t.out0 / a.ocg == (t.out1 - 1) / a.ocg) {
        const std::int64_t skip = t.in0 - t.out0 / a.ocg * a.icg;
        for (std::int64_t o = t.out0; o < t.out1; o += V::W)
            grad_transpose(sums + (o - t.out0), row, (t.in1 - t.in0) * taps, static_cast<int>(t.out1 - o < V::W ? t.out1 - o : V::W),
                           a.dw + (o * a.icg + skip) * taps, a.icg * taps);
        return;
    }
    // Channels of several groups: of each output channel the inputs of its own group.
    for (std::int64_t o = t.out0; o < t.out1; ++o) {
        const std::int64_t group = o / a.ocg * a.icg, c0 = group > t.in0 ? group : t.in0, c1 = group + a.icg < t.in1 ? group + a.icg : t.in1;
        for (std::int64_t i = c0 * taps; i < c1 * taps; ++i) a.dw[(o * a.icg - group) * taps + i] = sums[(i - t.in0 * taps) * row + (o - t.out0)];
    }
}
