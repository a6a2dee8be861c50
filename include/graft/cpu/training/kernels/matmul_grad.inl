// Products summed over a batch: text, included once for each instruction set.
//
// A register tile of C takes a row of A and a row of B at a time. After a shard it is joined, still in registers, with the levels of
// the tree that are complete (the ones at the end of the shard's number in binary), and stored one level up: log2(shards) + 1
// partial blocks are all the memory that the tree needs.

// R rows of a tile over n samples, that go on from `start` if it is not null; `joins` levels are added, then it goes to `out`.
template <int R, bool Full>
inline GRAFT_NOINLINE void product_tile(const float* a, std::int64_t lda, const float* b, std::int64_t ldb, int lanes, std::int64_t n, const float* start,
                                        const float* levels, std::int64_t level_step, int joins, float* out, std::int64_t out_row, bool whole_out) {
    constexpr std::int64_t ahead = 24;  // samples: their rows may lie pages apart, which the machine does not foresee
    V acc[R][2];
    GRAFT_UNROLL
    for (int r = 0; r < R; ++r) {
        acc[r][0] = start ? V::load(start + r * gemm_columns) : V::zero();
        acc[r][1] = start ? V::load(start + r * gemm_columns + V::W) : V::zero();
    }
    const int first = lanes < V::W ? lanes : V::W, second = lanes - first;
    for (std::int64_t l = 0; l < n; ++l, a += lda, b += ldb) {
        V b0 = V::zero(), b1 = V::zero();
        if constexpr (Full) {
            b0 = V::load(b), b1 = V::load(b + V::W);
        } else {
            b0 = V::load_partial(b, first);
            if (second) b1 = V::load_partial(b + V::W, second);
        }
        fetch<2>(b + ahead * ldb);
        GRAFT_PREFETCH(a + ahead * lda + R - 1);  // the line of the first is one that the tile before has read
        GRAFT_UNROLL
        for (int r = 0; r < R; ++r) {
            const V x = V::set1(a[r]);
            acc[r][0] = fma(x, b0, acc[r][0]);
            acc[r][1] = fma(x, b1, acc[r][1]);
        }
    }
    for (int j = 0; j < joins; ++j, levels += level_step) {
        GRAFT_UNROLL
        for (int r = 0; r < R; ++r) {
            acc[r][0] = V::load(levels + r * gemm_columns) + acc[r][0];
            acc[r][1] = V::load(levels + r * gemm_columns + V::W) + acc[r][1];
        }
    }
    GRAFT_UNROLL
    for (int r = 0; r < R; ++r) {
        float* to = out + r * out_row;
        if (Full || whole_out) {
            acc[r][0].store(to), acc[r][1].store(to + V::W);
        } else {
            acc[r][0].store_partial(to, first);
            if (second) acc[r][1].store_partial(to + V::W, second);
        }
    }
}

// Samples [from, from + n) of a shard, of which it has more before and behind them.
struct shard_part {
    std::int64_t from, n;
    bool first, last;
};

template <int R>
GRAFT_FORCE_INLINE void product_rows(const product_sum_block& g, const shard_part& s, std::int64_t i, std::int64_t j, float* tile, int joins, bool end) {
    const int lanes = g.columns - j < gemm_columns ? static_cast<int>(g.columns - j) : gemm_columns;
    const float *a = g.a + s.from * g.lda + i, *b = g.b + s.from * g.ldb + j;
    float *const own = tile + joins * g.level_step, *const out = end ? g.c + i * g.ldc + j : own;
    const float* const start = s.first ? nullptr : own;
    const std::int64_t out_row = end ? g.ldc : gemm_columns;
    if (!s.last) joins = 0;
    if (lanes == gemm_columns)
        product_tile<R, true>(a, g.lda, b, g.ldb, lanes, s.n, start, tile, g.level_step, joins, out, out_row, true);
    else
        product_tile<R, false>(a, g.lda, b, g.ldb, lanes, s.n, start, tile, g.level_step, joins, out, out_row, !end);
}

inline void product_sum_part(const product_sum_block& g, const shard_part& s, int joins, bool end) {
    float* tile = g.levels;
    for (std::int64_t j = 0; j < g.columns; j += gemm_columns)
        for (std::int64_t i = 0; i < g.rows;) {
            const std::int64_t left = g.rows - i;
            int rows = 1;
            if (left >= gemm_rows)
                product_rows<gemm_rows>(g, s, i, j, tile, joins, end), rows = gemm_rows;
            else if (gemm_rows > 8 && left >= 8)
                product_rows<8>(g, s, i, j, tile, joins, end), rows = 8;
            else if (left >= 4)
                product_rows<4>(g, s, i, j, tile, joins, end), rows = 4;
            else if (left >= 2)
                product_rows<2>(g, s, i, j, tile, joins, end), rows = 2;
            else
                product_rows<1>(g, s, i, j, tile, joins, end);
            i += rows;
            tile += rows * gemm_columns;
        }
}

inline void product_sum_run(const product_sum_block& g) {
    constexpr std::int64_t most = 256;  // samples whose rows stay in the second cache from one tile of the block to the next
    const std::int64_t samples = g.n / g.each;
    for (int s = 0; s < g.tree.count; ++s) {
        const int joins = grad_merges(s);
        const std::int64_t first = g.tree.first(samples, s) * g.each, n = g.tree.last(samples, s) * g.each - first,
                           parts = n > most ? (n + most - 1) / most : 1;
        for (std::int64_t part = 0; part < parts; ++part) {
            const std::int64_t from = n * part / parts, to = n * (part + 1) / parts;
            const bool last = part + 1 == parts;
            product_sum_part(g, {first + from, to - from, part == 0, last}, joins, last && s + 1 == g.tree.count);
        }
    }
}

inline const matmul_grad_kernels* matmul_grad_table() {
    static constexpr matmul_grad_kernels all = {gemm_rows, gemm_columns, &product_sum_run};
    return &all;
}
