// Matrix product kernels: text, included once for each instruction set.
//
// A register tile of C, 14 x 2 vectors (6 x 2 where there are 16 registers), takes one row of a panel of B and one
// element of each row of A at a time. An element of C is always the same chain of fmas over k, wherever its tile lies.

constexpr int gemm_rows = V::registers == 32 ? 14 : 6;
constexpr int gemm_columns = 2 * V::W;
constexpr int gemm_steps = 16;  // of k, between which weights are asked for

// Asks for N vectors, a line of the cache at a time, that are wanted later.
template <int N>
GRAFT_FORCE_INLINE void fetch(const float* at) {
    GRAFT_UNROLL
    for (int i = 0; i < N; i += 16 / V::W) GRAFT_PREFETCH(at + i * V::W);
}

// Weights that come next, some lines of which are asked for from time to time: those beyond the second cache are waited for as long as they are multiplied by.
struct weight_lines {
    const float* at;
    int lines;
};
static constexpr int line_floats = 16;
static constexpr bool asks_ahead = V::W > 4;
// Those that tile `tile` of `tiles` asks for at each of so many `times`, of `lines` that the tiles ask for together. Where two tiles read all weights, they are
// a stream that the machine fetches by itself as fast as memory gives it.
inline GRAFT_NOINLINE weight_lines lines_ahead(const float* next, std::int64_t lines, std::int64_t times, std::int64_t tile, std::int64_t tiles) {
    const std::int64_t each = tiles < 3 ? 0 : (lines + tiles - 1) / tiles;
    return {next + tile * each * times * line_floats, static_cast<int>(each)};
}

// out = (init + A * B) * factor for R rows and one panel; null `init` is zero.
// `Plain`: rows of A lie along k, and B is packed; what is known of distances leaves a step fewer registers to wait for.
template <int R, bool Plain = false>
inline GRAFT_NOINLINE void gemm_tile(const float* a, std::int64_t a_row, std::int64_t a_step, const float* b, std::int64_t b_step, std::int64_t length,
                                     const float* init, std::int64_t init_row, float* out, std::int64_t out_row, float factor, weight_lines next) {
    constexpr bool asks = asks_ahead && (Plain || R == 8);
    if constexpr (Plain) a_step = 1, b_step = gemm_columns;
    // One row does so little with a line that the memory is all its time: 16 KiB on the way hide it better than 1 KiB.
    const std::int64_t ahead = (R == 1 ? 128 : 16) * b_step;
    V acc[R][2];
    if (init) {
        GRAFT_UNROLL
        for (int r = 0; r < R; ++r) acc[r][0] = V::load(init + r * init_row), acc[r][1] = V::load(init + r * init_row + V::W);
    } else {
        GRAFT_UNROLL
        for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = V::zero();
    }
    // One pointer for four rows, so that the addresses of a step need few registers.
    const float* rows[(R + 3) / 4];
    GRAFT_UNROLL
    for (int q = 0; q < (R + 3) / 4; ++q) rows[q] = a + 4 * q * a_row;
    for (std::int64_t l = 0; l < length;) {
        const std::int64_t end = asks && l + gemm_steps < length ? l + gemm_steps : length;
        for (int line = 0; asks && line < next.lines; ++line, next.at += line_floats) GRAFT_PREFETCH_FAR(next.at);
        for (; l < end; ++l) {
            const V b0 = V::load(b), b1 = V::load(b + V::W);
            fetch<2>(b + ahead);
            GRAFT_UNROLL
            for (int r = 0; r < R; ++r) {
                const V x = V::set1(rows[r / 4][r % 4 * a_row]);
                acc[r][0] = fma(x, b0, acc[r][0]);
                acc[r][1] = fma(x, b1, acc[r][1]);
            }
            b += b_step;
            GRAFT_UNROLL
            for (int q = 0; q < (R + 3) / 4; ++q) rows[q] += a_step;
        }
    }
    if (factor != 1.0f) {
        const V f = V::set1(factor);
        GRAFT_UNROLL
        for (int r = 0; r < R; ++r) acc[r][0] = acc[r][0] * f, acc[r][1] = acc[r][1] * f;
    }
    GRAFT_UNROLL
    for (int r = 0; r < R; ++r) acc[r][0].store(out + r * out_row), acc[r][1].store(out + r * out_row + V::W);
}

// The tile for the rows that are left, out of which `before` come before them in the block. It may be taller than what is
// left: then it starts earlier, and what it computes again is dropped. Rows of A that lie whole pages apart share one set of the first cache, which has eight
// to twelve lines: eight of them at a time stay there.
GRAFT_FORCE_INLINE int gemm_tile_rows(std::int64_t left, std::int64_t before, std::int64_t a_row) {
    if (gemm_rows > 8 && left >= 8 && a_row % 1024 == 0) return 8;
    if (left >= gemm_rows) return gemm_rows;
    static constexpr unsigned char of_14[] = {0, 1, 2, 4, 4, 8, 8, 8, 8, 8, 8, 14, 8, 14}, of_6[] = {0, 1, 2, 4, 4, 6};
    const int rest = static_cast<int>(left), tall = gemm_rows > 8 ? of_14[rest] : of_6[rest % 6];
    if (tall - rest <= before) return tall;
    return gemm_rows > 8 && rest >= 8 ? 8 : rest >= 4 ? 4 : rest >= 2 ? 2 : 1;
}
GRAFT_FORCE_INLINE void gemm_tile(int rows, const float* a, std::int64_t a_row, std::int64_t a_step, const float* b, std::int64_t b_step, std::int64_t length,
                                  const float* init, std::int64_t init_row, float* out, std::int64_t out_row, float factor, weight_lines next) {
    if (rows == gemm_rows && a_step == 1 && b_step == gemm_columns)
        return gemm_tile<gemm_rows, true>(a, a_row, a_step, b, b_step, length, init, init_row, out, out_row, factor, next);
    if (rows == gemm_rows) return gemm_tile<gemm_rows>(a, a_row, a_step, b, b_step, length, init, init_row, out, out_row, factor, next);
    if (gemm_rows > 8 && rows == 8) return gemm_tile<8>(a, a_row, a_step, b, b_step, length, init, init_row, out, out_row, factor, next);
    if (rows == 4) return gemm_tile<4>(a, a_row, a_step, b, b_step, length, init, init_row, out, out_row, factor, next);
    if (rows == 2) return gemm_tile<2>(a, a_row, a_step, b, b_step, length, init, init_row, out, out_row, factor, next);
    gemm_tile<1>(a, a_row, a_step, b, b_step, length, init, init_row, out, out_row, factor, next);
}

// rows x n elements from one place to another.
inline void gemm_copy(const float* from, std::int64_t from_row, float* to, std::int64_t to_row, int rows, int n) {
    for (int r = 0; r < rows; ++r)
        for (int j = 0; j < n; j += V::W) {
            const int lanes = n - j < V::W ? n - j : V::W;
            V::load_partial(from + r * from_row + j, lanes).store_partial(to + r * to_row + j, lanes);
        }
}

struct gemm_end {
    bool bias, residual;
    float alpha, low, high;
};

// C = clamp(tile * alpha + bias + residual) for the rows from i and the columns from j.
inline GRAFT_NOINLINE void gemm_finish(const gemm_block& g, const gemm_end& e, const float* tile, std::int64_t i, std::int64_t j, int rows, int n) {
    const V low = V::set1(e.low), high = V::set1(e.high), alpha = V::set1(e.alpha);
    const bool per_column = e.bias && g.bias_of == bias_kind::column;
    for (int o = 0; o < n; o += V::W) {
        const int lanes = n - o < V::W ? n - o : V::W;
        V bias = per_column ? V::load_partial(g.bias + j + o, lanes) : V::zero();
        for (int r = 0; r < rows; ++r) {
            if (e.bias && !per_column) bias = V::set1(g.bias[i + r]);
            V y = fma(V::load(tile + r * gemm_columns + o), alpha, bias);
            V residual = V::zero();
            if (e.residual) residual = V::load_partial(g.residual + (i + r) * g.ld_residual + j + o, lanes);
            if (!g.ep.residual_after_activation) y = y + residual;
            y = clamp(y, low, high);
            if (e.residual && g.ep.residual_after_activation) y = y + residual;
            y.store_partial(g.c + (i + r) * g.ldc + j + o, lanes);
        }
    }
}

inline void gemm_run(const gemm_block& g) {
    gemm_end e{};
    const bool clamped = bounds_of(g.ep, e.low, e.high);
    const bool residual = g.ep.residual && g.residual;
    // A scaled product to which nothing is added is scaled where its tile is stored.
    const bool added = residual || g.bias_of != bias_kind::none;
    e.alpha = added ? g.alpha : 1.0f;
    const float factor = added ? 1.0f : g.alpha;
    // What can start the sum does: a residual, else a bias. Then C may be the residual, whatever parts k is cut into.
    const bool residual_first = residual && e.alpha == 1.0f && !g.ep.residual_after_activation;
    const bool bias_first = !residual_first && e.alpha == 1.0f && g.bias_of == bias_kind::column;
    e.bias = g.bias_of != bias_kind::none && !bias_first;
    e.residual = residual && !residual_first && (clamped || !g.ep.residual_after_activation);
    const bool finish = e.alpha != 1.0f || e.bias || e.residual || (clamped && g.ep.act != activation::none);
    // Parts of k whose panel stays in the first caches; one row tile streams B from memory, and reads it once anyway.
    const bool split = g.m > gemm_rows && !(residual && !residual_first);
    const std::int64_t parts = split && g.k > 640 ? (g.k + 511) / 512 : 1, part = (g.k + parts - 1) / parts;
    const std::int64_t panels = (g.n + gemm_columns - 1) / gemm_columns, usual = gemm_tile_rows(g.m, 0, g.a_row),
                       tiles = g.b_step == gemm_columns ? g.m / usual : 0;
    const auto ahead = [&](const float* next, std::int64_t length, std::int64_t i) {
        return asks_ahead ? lines_ahead(next, gemm_steps * gemm_columns / line_floats, (length + gemm_steps - 1) / gemm_steps, i, tiles) : weight_lines();
    };
    alignas(64) float tile[gemm_rows * gemm_columns] = {};
    std::int64_t l = 0;
    do {
        const std::int64_t length = g.k - l < part ? g.k - l : part;
        const bool first = l == 0, last = l + length >= g.k;
        for (std::int64_t i = 0; i < g.m;) {
            const int height = gemm_tile_rows(g.m - i, i, g.a_row), rows = g.m - i < height ? static_cast<int>(g.m - i) : height, back = height - rows;
            const std::int64_t top = i - back;
            for (std::int64_t j = 0; j < g.n; j += gemm_columns) {
                const int n = g.n - j < gemm_columns ? static_cast<int>(g.n - j) : gemm_columns;
                const bool in_last = n < gemm_columns && g.b_last;
                const std::int64_t step = in_last ? gemm_columns : g.b_step;
                const float* b = (in_last ? g.b_last : g.b + j / gemm_columns * g.b_panel) + l * step;
                const float* init = nullptr;
                std::int64_t init_row = g.ldc;
                if (!first)
                    init = g.c + top * g.ldc + j;
                else if (residual_first)
                    init = g.residual + top * g.ld_residual + j, init_row = g.ld_residual;
                else if (bias_first)
                    init = g.bias + j, init_row = 0;
                const bool direct = n == gemm_columns && !back && !(last && finish);
                if (init && n < gemm_columns) {
                    gemm_copy(init, init_row, tile, gemm_columns, height, n);
                    init = tile, init_row = gemm_columns;
                }
                float* c = g.c + i * g.ldc + j;
                // Of the panels of the next part of k, or of the next block.
                const float* const next = last ? b + panels * g.b_panel - l * step : b + length * step;
                gemm_tile(height, g.a + top * g.a_row + l * g.a_step, g.a_row, g.a_step, b, step, length, init, init_row, direct ? c : tile,
                          direct ? g.ldc : gemm_columns, last ? factor : 1.0f, ahead(next, length, i / usual));
                if (last && finish)
                    gemm_finish(g, e, tile + back * gemm_columns, i, j, rows, n);
                else if (!direct)
                    gemm_copy(tile + back * gemm_columns, gemm_columns, c, g.ldc, rows, n);
            }
            if (functions_wanted() && last && !clamped)
                for (int r = 0; r < rows; ++r) {
                    float* c = g.c + (i + r) * g.ldc;
                    activate_run(c, g.n, g.ep.act, g.ep.alpha, g.ep.beta);
                    if (!residual || !g.ep.residual_after_activation) continue;
                    const float* add = g.residual + (i + r) * g.ld_residual;
                    for (std::int64_t o = 0; o < g.n; o += V::W) {
                        const int lanes = g.n - o < V::W ? static_cast<int>(g.n - o) : V::W;
                        (V::load_partial(c + o, lanes) + V::load_partial(add + o, lanes)).store_partial(c + o, lanes);
                    }
                }
            i += rows;
        }
        l += length;
    } while (l < g.k);
}

inline void gemm_pack_run(const gemm_pack& g) {
    for (std::int64_t p = g.first_panel; p < g.last_panel; ++p) {
        const std::int64_t j0 = p * gemm_columns;
        float* out = g.packed + p * gemm_columns * g.k;
        for (int h = 0; h < 2; ++h, out += V::W) {
            const std::int64_t j = j0 + h * V::W;
            const int lanes = j >= g.n ? 0 : g.n - j < V::W ? static_cast<int>(g.n - j) : V::W;
            if (!g.transposed) {
                for (std::int64_t l = 0; l < g.k; ++l) {
                    const V row = !lanes ? V::zero() : lanes == V::W ? V::load(g.b + l * g.ldb + j) : V::load_partial(g.b + l * g.ldb + j, lanes);
                    row.store(out + l * gemm_columns);
                }
                continue;
            }
            for (std::int64_t l = 0; l < g.k; l += V::W) {
                const int length = g.k - l < V::W ? static_cast<int>(g.k - l) : V::W;
                V block[V::W];
                for (int r = 0; r < V::W; ++r) {
                    const float* from = g.b + (j + r) * g.ldb + l;
                    block[r] = r >= lanes ? V::zero() : length == V::W ? V::load(from) : V::load_partial(from, length);
                }
                transpose(block);
                for (int r = 0; r < length; ++r) block[r].store(out + (l + r) * gemm_columns);
            }
        }
    }
}

inline const gemm_kernels* gemm_table() {
    constexpr bool any = wanted("Gemm") || wanted("MatMul") || wanted("ConvTranspose");
    static constexpr gemm_kernels all = {gemm_rows, gemm_columns, any ? &gemm_run : nullptr, any ? &gemm_pack_run : nullptr};
    return &all;
}
