// Gradient of a 3 x 3 convolution with respect to its weights by Winograd: text, included once for each instruction set. With the
// transforms of F(m x m, 3 x 3), dw = G^T [sum over tiles of (B^T x B) * (A dy A^T)] G (Lavin and Gray, 2015, and its transpose): one
// product of matrices for each element, whose sums run over tiles instead of pixels.

// u = A y.
GRAFT_VECTOR void gradient_transform(const V (&y)[4], V (&u)[6]) {
    const V even = y[0] + y[2], odd = y[1] + y[3], two = V::set1(2);
    const V even2 = fma(V::set1(4), y[2], y[0]), odd2 = two * fma(V::set1(4), y[3], y[1]);
    u[0] = y[0];
    u[1] = even + odd;
    u[2] = even - odd;
    u[3] = even2 + odd2;
    u[4] = even2 - odd2;
    u[5] = y[3];
}
GRAFT_VECTOR void gradient_transform(const V (&y)[2], V (&u)[4]) {
    u[0] = y[0];
    u[1] = y[0] + y[1];
    u[2] = y[0] - y[1];
    u[3] = V::zero() - y[1];
}

// w = G^T u but for the factors that sum_scale has: 24, 12 and 6, or 2.
GRAFT_VECTOR void sum_transform(const V (&u)[6], V (&w)[3]) {
    const V s = u[1] + u[2], d = u[2] - u[1], t = u[3] + u[4], e = u[3] - u[4], six = V::set1(6);
    w[0] = fma(six, u[0], fnma(V::set1(4), s, t));
    w[1] = fma(V::set1(2), d, e);
    w[2] = fma(six, u[5], t - s);
}
GRAFT_VECTOR void sum_transform(const V (&u)[4], V (&w)[3]) {
    const V s = u[1] + u[2], two = V::set1(2);
    w[0] = fma(two, u[0], s);
    w[1] = u[1] - u[2];
    w[2] = fma(two, u[3], s);
}
template <int N>
constexpr float sum_scale(int i, int j) {
    return N == 4 ? 0.25f : 1.0f / static_cast<float>((24 >> i) * (24 >> j));
}

template <int N>
GRAFT_VECTOR void grad_winograd_tiles(const conv_grad_winograd_args& a, std::int64_t block, std::int64_t first, std::int64_t last) {
    constexpr int m = N - 2;
    const conv_problem& p = a.weight.p;
    const std::int64_t blocks = (p.oc + V::W - 1) / V::W, per_image = a.tiles_high * a.tiles_wide, element = a.dy_element;
    for (std::int64_t tile = first; tile < last; ++tile) {
        const std::int64_t image = tile / per_image, oy = tile % per_image / a.tiles_wide * m, ox = tile % a.tiles_wide * m;
        const float* dy = a.weight.dy + (((image * blocks + block) * p.oh + oy) * p.ow + ox) * V::W;
        const std::int64_t rows = p.oh - oy, columns = p.ow - ox;
        V half[N][m];
        GRAFT_UNROLL
        for (int j = 0; j < m; ++j) {
            V column[m], u[N];
            GRAFT_UNROLL
            for (int i = 0; i < m; ++i) column[i] = i < rows && j < columns ? V::load(dy + (i * p.ow + j) * V::W) : V::zero();
            gradient_transform(column, u);
            GRAFT_UNROLL
            for (int i = 0; i < N; ++i) half[i][j] = u[i];
        }
        float* to = a.dy_transformed + (block * a.tile_room + (tile - a.first_tile)) * V::W;
        for (int i = 0; i < N; ++i) {
            V u[N];
            gradient_transform(half[i], u);
            GRAFT_UNROLL
            for (int j = 0; j < N; ++j) u[j].store(to + (i * N + j) * element);
        }
    }
}
inline void grad_winograd_transform(const conv_grad_winograd_args& a, std::int64_t block, std::int64_t first, std::int64_t last) {
    a.wino == 4 ? grad_winograd_tiles<6>(a, block, first, last) : grad_winograd_tiles<4>(a, block, first, last);
}

// Adds the products of the strips of this run to the sums of their shards, of one tile of weights and the elements [first, last).
inline void grad_winograd_multiply(const conv_grad_winograd_args& a, std::int64_t tile, std::int64_t first, std::int64_t last) {
    const conv_grad_weight_args& w = a.weight;
    const grad_tile t = grad_tile_at(w, tile);
    const std::int64_t elements = (a.wino + 2) * (a.wino + 2), both = a.wino + 3;
    const std::int64_t in_blocks = (w.p.ic + V::W - 1) / V::W, out_blocks = (w.p.oc + V::W - 1) / V::W;
    float* const sums = a.sums + (tile - w.first_tile) * a.slots * a.slot_floats;
    float* const bias = grad_buffers(w, tile, 0) + w.tile_floats - w.vectors * V::W;
    const auto rows = t.vectors == 1                          ? &grad_weight_rows<1>
                      : t.vectors == 2                        ? &grad_weight_rows<2>
                      : t.vectors == 3                        ? &grad_weight_rows<3>
                      : &grad_weight_rows < grad_vectors == 4 ? 4
                                                              : 1 > ;
    grad_strip s{};
    s.x_pixel = V::W;
    s.images = s.rows = 1;
    grad_sums out;
    out.row = t.vectors * V::W;
    out.level = w.tile_floats;
    for (conv_grad_run at = a.begin; at.shard < a.end.shard || (at.shard == a.end.shard && at.strip < a.end.strip);) {
        const conv_grad_strips& strips = a.strips[at.shard];
        const std::int64_t element_step = strips.room() * V::W, block = elements * element_step;
        const std::int64_t from = (strips.place_of(at.strip) - a.first_place) * elements * V::W;
        const float* const x = a.x_transformed + from * in_blocks + t.in0 / V::W * block;
        const float* const dy = a.dy_transformed + from * out_blocks + t.block * block;
        s.pixels = strips.length_of(at.strip);
        s.dy_block = block;
        out.first = at.strip == 0;
        out.last = at.strip + 1 == strips.count;
        out.merges = 0;
        for (std::int64_t element = first; element < last && strips.tiles > 0; ++element) {
            s.x = x + element * element_step;
            s.dy = dy + element * element_step;
            out.to = sums + strips.slot * a.slot_floats + element * a.sum_element;
            out.levels = out.to;  // of which none is added
            rows(s, out, 0, static_cast<int>(t.in1 - t.in0));
        }
        // The element that sums both axes of a tile of dy is the bias's, which needs no transform back.
        if (t.bias && first <= both && both < last) {
            s.dy = dy + both * element_step;
            out.merges = grad_merges(at.shard);
            out.to = bias + out.merges * w.tile_floats;
            out.levels = bias;
            grad_bias(t.vectors, s, out);
        }
        ++at.strip;
        if (at.strip == strips.count) at.strip = 0, ++at.shard;
    }
}

// The taps of `count` input channels of a shard from its sums, which are zeros where there are none, joined with those of earlier shards.
template <int N>
GRAFT_NOINLINE inline void grad_winograd_taps(const float* from, std::int64_t element, std::int64_t count, int vectors, const grad_sums& out) {
    const std::int64_t row = out.row, level = out.level;
    const int merges = out.merges;
    for (std::int64_t c = 0; c < count; ++c)
        for (int v = 0; v < vectors; ++v) {
            V half[3][N] = {};
            if (from) {
                GRAFT_UNROLL
                for (int j = 0; j < N; ++j) {
                    V u[N], w[3];
                    GRAFT_UNROLL
                    for (int i = 0; i < N; ++i) u[i] = V::load(from + (i * N + j) * element);
                    sum_transform(u, w);
                    GRAFT_UNROLL
                    for (int i = 0; i < 3; ++i) half[i][j] = w[i];
                }
                from += V::W;
            }
            const std::int64_t at = c * 9 * row + v * V::W;
            GRAFT_UNROLL
            for (int i = 0; i < 3; ++i) {
                V w[3];
                if (from) {
                    sum_transform(half[i], w);
                    GRAFT_UNROLL
                    for (int j = 0; j < 3; ++j) w[j] = w[j] * V::set1(sum_scale<N>(i, j));
                } else {
                    w[0] = w[1] = w[2] = V::zero();
                }
                const float* levels = out.levels + at + i * 3 * row;
                for (int l = 0; l < merges; ++l, levels += level) {
                    GRAFT_UNROLL
                    for (int j = 0; j < 3; ++j) w[j] = V::load(levels + j * row) + w[j];
                }
                float* to = out.to + at + i * 3 * row;
                GRAFT_UNROLL
                for (int j = 0; j < 3; ++j) w[j].store(to + j * row);
            }
        }
}

// The sums of the shards that this run has ended, of input channels [first, last) of a tile: each is transformed back by itself, so that the
// tree is one of weights, as it is without Winograd. Behind the last shard they go into the weights.
inline void grad_winograd_end(const conv_grad_winograd_args& a, std::int64_t tile, std::int64_t first, std::int64_t last) {
    const conv_grad_weight_args& w = a.weight;
    const grad_tile t = grad_tile_at(w, tile);
    if (last > t.in1 - t.in0) last = t.in1 - t.in0;
    const std::int64_t row = t.vectors * V::W;
    float* const buffers = grad_buffers(w, tile, 0);
    const float* const sums = a.sums + (tile - w.first_tile) * a.slots * a.slot_floats + first * row;
    const auto taps = a.wino == 4 ? &grad_winograd_taps<6> : &grad_winograd_taps<4>;
    grad_sums out{};
    out.row = row;
    out.level = w.tile_floats;
    out.levels = buffers + first * 9 * row;
    for (int shard = a.begin.shard; shard < a.end.shard; ++shard) {
        const conv_grad_strips& strips = a.strips[shard];
        out.merges = grad_merges(shard);
        out.to = buffers + first * 9 * row + out.merges * w.tile_floats;
        taps(strips.tiles > 0 ? sums + strips.slot * a.slot_floats : nullptr, a.sum_element, last - first, t.vectors, out);
    }
    if (a.end.shard < w.shards.count) return;
    const float* const total = buffers + (w.levels - 1) * w.tile_floats;
    for (std::int64_t o = t.out0; first < last && o < t.out1; o += V::W)
        grad_transpose(total + first * 9 * row + (o - t.out0), row, (last - first) * 9, static_cast<int>(t.out1 - o < V::W ? t.out1 - o : V::W),
                       w.dw + (o * w.p.ic + t.in0 + first) * 9, w.p.ic * 9);
    if (!t.bias || first > 0) return;
    const float* bias = total + w.tile_floats - w.vectors * V::W;
    for (std::int64_t o = t.out0; o < t.out1; ++o) w.db[o] = bias[o - t.out0];
}
