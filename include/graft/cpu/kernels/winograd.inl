// Winograd convolution F(m x m, 3 x 3), and the table of the family: text, included once for each instruction set.
// Tiles of m x m outputs read (m + 2) x (m + 2) inputs. Three passes over a run of tiles: inputs transformed to
// [element][block][tile][W], one matrix product for each element (the tiles are its pixels), products transformed back.

// d = B^T d, for F(4) by the points 0, 1, -1, 2, -2 and infinity, for F(2), also of whole numbers, by 0, 1, -1 and infinity.
GRAFT_VECTOR void input_transform(V (&d)[6]) {
    const V four = V::set1(4), five = V::set1(5), two = V::set1(2);
    const V a = fnma(four, d[2], d[4]), b = fnma(four, d[1], d[3]), c = d[4] - d[2], e = two * (d[3] - d[1]);
    const V first = fma(four, d[0], fnma(five, d[2], d[4])), last = fma(four, d[1], fnma(five, d[3], d[5]));
    d[0] = first;
    d[1] = a + b;
    d[2] = a - b;
    d[3] = c + e;
    d[4] = c - e;
    d[5] = last;
}
template <class T>
GRAFT_VECTOR void input_transform(T (&d)[4]) {
    const T first = d[0] - d[2], second = d[1] + d[2], third = d[2] - d[1], last = d[1] - d[3];
    d[0] = first;
    d[1] = second;
    d[2] = third;
    d[3] = last;
}

// y = A^T m.
GRAFT_VECTOR void output_transform(const V (&m)[6], V (&y)[4]) {
    const V a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
    y[0] = m[0] + a + c;
    y[1] = fma(V::set1(2), d, b);
    y[2] = fma(V::set1(4), c, a);
    y[3] = fma(V::set1(8), d, b) + m[5];
}
template <class T>
GRAFT_VECTOR void output_transform(const T (&m)[4], T (&y)[2]) {
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
}

template <int N>
GRAFT_VECTOR void winograd_input_tiles(const conv_args& a, std::int64_t block, std::int64_t first, std::int64_t last) {
    constexpr int m = N - 2;
    const conv_problem& p = a.p;
    const std::int64_t blocks = (p.ic + V::W - 1) / V::W, per_image = a.tiles_high * a.tiles_wide, element = a.in_element;
    const float* const zeros = zero_pixel();
    for (std::int64_t tile = first; tile < last; ++tile) {
        const std::int64_t image = tile / per_image, ty = tile % per_image / a.tiles_wide, tx = tile % a.tiles_wide;
        const std::int64_t iy = ty * m - p.pt, ix = tx * m - p.pl;
        const float* x = a.x + ((image * blocks + block) * p.ih * p.iw + iy * p.iw + ix) * V::W;
        V d[N][N];
        const bool inside = iy >= 0 && ix >= 0 && iy + N <= p.ih && ix + N <= p.iw;
        for (int j = 0; j < N; ++j) {
            V column[N];
            if (inside) {
                GRAFT_UNROLL
                for (int i = 0; i < N; ++i) column[i] = V::load(x + (i * p.iw + j) * V::W);
            } else {
                GRAFT_UNROLL
                for (int i = 0; i < N; ++i) {
                    const bool real = iy + i >= 0 && iy + i < p.ih && ix + j >= 0 && ix + j < p.iw;
                    column[i] = V::load(real ? x + (i * p.iw + j) * V::W : zeros);
                }
            }
            input_transform(column);
            GRAFT_UNROLL
            for (int i = 0; i < N; ++i) d[i][j] = column[i];
        }
        float* to = a.transformed + (block * a.tile_room + (tile - a.first_tile)) * V::W;
        for (int i = 0; i < N; ++i) {
            input_transform(d[i]);
            GRAFT_UNROLL
            for (int j = 0; j < N; ++j) d[i][j].store(to + (i * N + j) * element);
        }
    }
}

inline void winograd_input(const conv_args& a, std::int64_t block, std::int64_t first, std::int64_t last) {
    a.wino == 4 ? winograd_input_tiles<6>(a, block, first, last) : winograd_input_tiles<4>(a, block, first, last);
}

// Products of one element of all tiles with some pairs of vectors of output channels.
inline void winograd_multiply(const conv_args& a, std::int64_t element, std::int64_t pair0, std::int64_t pair1) {
    const conv_problem& p = a.p;
    const std::int64_t room = a.tile_room * V::W, out_blocks = (p.oc + V::W - 1) / V::W;
    tap_row row{};
    row.inside = row.step = 1;
    conv_args plain;
    tile_job job;
    job.bias = job.residual = nullptr;
    job.in_plane = job.out_plane = room;
    job.ic = p.ic;
    job.taps = &row;
    job.tap_count = 1;
    job.first_lane = 0;
    std::int64_t tiles = 0;
    for (std::int64_t i = 0; i < a.tile_count; i += tile_pixels(a.tile_count - i)) ++tiles;
    for (std::int64_t pair = pair0; pair < pair1; ++pair) {
        const std::int64_t channel = pair * 2 * V::W;
        // The products of padded channels are zeros or rubbish, and are dropped with their lanes.
        job.channels = static_cast<int>(out_blocks * V::W - channel < 2 * V::W ? V::W : 2 * V::W);
        job.w = a.weight + element * a.group_weights + channel * p.ic;
        for (std::int64_t i = 0, t = 0; i < a.tile_count; i += job.pixels, ++t) {
            job.pixels = tile_pixels(a.tile_count - i);
            job.next = lines_of_next_pair(job, t, tiles);
            job.x = a.transformed + element * a.in_element + i * V::W;
            job.y = a.products + element * a.out_element + channel / V::W * room + i * V::W;
            run_tile(plain, job);
        }
    }
}

template <int N>
GRAFT_VECTOR void winograd_output_tiles(const conv_args& a, std::int64_t block, std::int64_t first, std::int64_t last) {
    constexpr int m = N - 2;
    const conv_problem& p = a.p;
    const std::int64_t blocks = (p.oc + V::W - 1) / V::W, per_image = a.tiles_high * a.tiles_wide, element = a.out_element;
    const std::int64_t left = p.oc - block * V::W;
    V bias = V::zero();
    if (a.bias) bias = left >= V::W ? V::load(a.bias + block * V::W) : V::load_partial(a.bias + block * V::W, static_cast<int>(left));
    const V low = V::set1(a.low), high = V::set1(a.high);
    const bool tile_activation = functions_wanted() && a.tile_activation;
    const bool before = a.residual && !p.ep.residual_after_activation, after = a.residual && p.ep.residual_after_activation && !tile_activation;
    for (std::int64_t tile = first; tile < last; ++tile) {
        const std::int64_t image = tile / per_image, oy = tile % per_image / a.tiles_wide * m, ox = tile % a.tiles_wide * m;
        const float* from = a.products + (block * a.tile_room + (tile - a.first_tile)) * V::W;
        V half[N][m];
        for (int j = 0; j < N; ++j) {
            V column[N], y[m];
            GRAFT_UNROLL
            for (int i = 0; i < N; ++i) column[i] = V::load(from + (i * N + j) * element);
            output_transform(column, y);
            GRAFT_UNROLL
            for (int i = 0; i < m; ++i) half[j][i] = y[i];
        }
        const std::int64_t at = (((image * blocks + block) * p.oh + oy) * p.ow + ox) * V::W;
        const int rows = static_cast<int>(p.oh - oy < m ? p.oh - oy : m), columns = static_cast<int>(p.ow - ox < m ? p.ow - ox : m);
        for (int i = 0; i < rows; ++i) {
            V row[N], y[m];
            GRAFT_UNROLL
            for (int j = 0; j < N; ++j) row[j] = half[j][i];
            output_transform(row, y);
            alignas(64) float apart[m * V::W];
            float* y_row = a.y + at + i * p.ow * V::W;
            const float* residual = a.residual ? a.residual + at + i * p.ow * V::W : nullptr;
            float* to = tile_activation ? apart : y_row;
            GRAFT_UNROLL
            for (int j = 0; j < m; ++j) {
                V v = y[j] + bias;
                const bool real = j < columns;
                if (before && real) v = v + V::load(residual + j * V::W);
                if (a.clamp) v = min(high, max(low, v));
                if (after && real) v = v + V::load(residual + j * V::W);
                if (real) v.store(to + j * V::W);
            }
            if (tile_activation) finish_run(a, apart, y_row, residual, columns * V::W);
        }
    }
}

inline void winograd_output(const conv_args& a, std::int64_t block, std::int64_t first, std::int64_t last) {
    a.wino == 4 ? winograd_output_tiles<6>(a, block, first, last) : winograd_output_tiles<4>(a, block, first, last);
}

inline const conv_kernels* conv_table() {
    static constexpr bool conv = wanted("Conv");
    static constexpr conv_kernels all = {
        conv_tile_pixels,
        conv_tile_pixels,
        conv ? &conv_direct : nullptr,
        conv ? &conv_generic : nullptr,
        conv ? &conv_first_layer : nullptr,
        conv ? &conv_depthwise : nullptr,
        conv ? &conv_shared : nullptr,
        conv ? &winograd_input : nullptr,
        conv ? &winograd_multiply : nullptr,
        conv ? &winograd_output : nullptr,
    };
    return &all;
}
