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

// w = G^T u.
GRAFT_VECTOR void sum_transform(const V (&u)[6], V (&w)[3]) {
    const V s = u[1] + u[2], d = u[2] - u[1], t = u[3] + u[4], e = u[3] - u[4], sixth = V::set1(1.0f / 6);
    w[0] = fma(V::set1(1.0f / 24), t, fnma(sixth, s, V::set1(0.25f) * u[0]));
    w[1] = fma(V::set1(1.0f / 12), e, sixth * d);
    w[2] = fma(sixth, t - s, u[5]);
}
GRAFT_VECTOR void sum_transform(const V (&u)[4], V (&w)[3]) {
    const V half = V::set1(0.5f), s = half * (u[1] + u[2]);
    w[0] = u[0] + s;
    w[1] = half * (u[1] - u[2]);
    w[2] = s + u[3];
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

// Adds the products of the strips of this run to the sums of one tile of weights and one element.
inline void grad_winograd_multiply(const conv_grad_winograd_args& a, std::int64_t tile, std::int64_t element) {
    const conv_grad_weight_args& w = a.weight;
    const grad_tile t = grad_tile_at(w, tile);
    float* const buffers = grad_buffers(w, tile, 0) + element * w.lanes * t.vectors * V::W;
    const auto rows = t.vectors == 1                          ? &grad_weight_rows<1>
                      : t.vectors == 2                        ? &grad_weight_rows<2>
                      : t.vectors == 3                        ? &grad_weight_rows<3>
                      : &grad_weight_rows < grad_vectors == 4 ? 4
                                                              : 1 > ;
    const std::int64_t room = a.tile_room * V::W;
    const float *x = a.x_transformed + element * a.x_element + t.in0 / V::W * room, *dy = a.dy_transformed + element * a.dy_element + t.block * room;
    grad_strip s{};
    s.x_pixel = V::W;
    s.dy_block = room;
    s.images = s.rows = 1;
    grad_sums out;
    out.row = t.vectors * V::W;
    out.level = w.tile_floats;
    for (conv_grad_run at = a.begin; at.shard < a.end.shard || (at.shard == a.end.shard && at.strip < a.end.strip);) {
        const conv_grad_strips& strips = a.strips[at.shard];
        s.pixels = strips.length_of(at.strip);
        const std::int64_t from = (strips.first + at.strip * strips.length - a.first_tile) * V::W;
        s.x = x + from;
        s.dy = dy + from;
        out.merges = grad_merges(at.shard);
        out.first = at.strip == 0;
        out.last = at.strip + 1 == strips.count;
        out.to = buffers + out.merges * w.tile_floats;
        out.levels = buffers;
        rows(s, out, 0, static_cast<int>(t.in1 - t.in0));
        // The element that sums both axes of a tile of dy is the bias's.
        if (t.bias && element == a.wino + 3) {
            const std::int64_t bias = w.tile_floats - w.vectors * V::W - element * w.lanes * t.vectors * V::W;
            grad_sums mine = out;
            mine.to += bias;
            mine.levels += bias;
            grad_bias(t.vectors, s, mine);
        }
        ++at.strip;
        if (at.strip == strips.count) at.strip = 0, ++at.shard;
    }
}

template <int N>
GRAFT_NOINLINE inline void grad_winograd_sums(const float* from, std::int64_t element, float* to, std::int64_t tap) {
    V half[3][N];
    GRAFT_UNROLL
    for (int j = 0; j < N; ++j) {
        V u[N], w[3];
        GRAFT_UNROLL
        for (int i = 0; i < N; ++i) u[i] = V::load(from + (i * N + j) * element);
        sum_transform(u, w);
        GRAFT_UNROLL
        for (int i = 0; i < 3; ++i) half[i][j] = w[i];
    }
    GRAFT_UNROLL
    for (int i = 0; i < 3; ++i) {
        V w[3];
        sum_transform(half[i], w);
        GRAFT_UNROLL
        for (int j = 0; j < 3; ++j) w[j].store(to + (i * 3 + j) * tap);
    }
}

// A tile's sums, transformed back, go into the weights.
inline void grad_winograd_end(const conv_grad_winograd_args& a, std::int64_t tile) {
    const conv_grad_weight_args& w = a.weight;
    const grad_tile t = grad_tile_at(w, tile);
    const float* sums = grad_buffers(w, tile, 0) + (w.levels - 1) * w.tile_floats;
    const std::int64_t row = t.vectors * V::W, element = w.lanes * row;
    alignas(64) float taps[V::W * 9 * grad_vectors * V::W];
    for (std::int64_t c = 0; c < t.in1 - t.in0; ++c)
        for (int v = 0; v < t.vectors; ++v) {
            const float* from = sums + c * row + v * V::W;
            float* to = taps + c * 9 * row + v * V::W;
            a.wino == 4 ? grad_winograd_sums<6>(from, element, to, row) : grad_winograd_sums<4>(from, element, to, row);
        }
    for (std::int64_t o = t.out0; o < t.out1; o += V::W)
        grad_transpose(taps + (o - t.out0), row, (t.in1 - t.in0) * 9, static_cast<int>(t.out1 - o < V::W ? t.out1 - o : V::W), w.dw + (o * w.p.ic + t.in0) * 9,
                       w.p.ic * 9);
    if (!t.bias) return;
    const float* bias = sums + w.tile_floats - w.vectors * V::W;
    for (std::int64_t o = t.out0; o < t.out1; ++o) w.db[o] = bias[o - t.out0];
}
