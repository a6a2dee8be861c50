// Sums of rows and columns: text, included once for each instruction set.

constexpr int sum_vectors = 4;
constexpr std::int64_t sum_chunk = 128;  // rows that a float holds the sum of

GRAFT_VECTOR void add_lanes(V v, int lanes, double* sum) {
    float lane[V::W];
    v.store(lane);
    for (int i = 0; i < lanes; ++i) sum[i] += static_cast<double>(lane[i]);
}

// One vector of columns: four rows at a time.
template <class T>
inline void add_few_columns(const T* x, std::int64_t rows, std::int64_t step, int lanes, double* sum) {
    for (std::int64_t first = 0; first < rows; first += sum_chunk) {
        const std::int64_t last = rows - first < sum_chunk ? rows : first + sum_chunk;
        V a[4];
        GRAFT_UNROLL
        for (int j = 0; j < 4; ++j) a[j] = V::zero();
        std::int64_t i = first;
        if (lanes == V::W)
            for (; i + 4 <= last; i += 4) {
                GRAFT_UNROLL
                for (int j = 0; j < 4; ++j) a[j] = a[j] + load_saved(x + (i + j) * step);
            }
        for (; i < last; ++i) a[0] = a[0] + load_saved(x + i * step, lanes);
        add_lanes((a[0] + a[1]) + (a[2] + a[3]), lanes, sum);
    }
}
template <class T>
inline void add_columns_of(const T* x, std::int64_t rows, std::int64_t step, int lanes, double* sum) {
    if (lanes < sum_vectors * V::W) {
        for (int j = 0; j < lanes; j += V::W) add_few_columns(x + j, rows, step, lanes - j < V::W ? lanes - j : V::W, sum + j);
        return;
    }
    // A quarter of the rows that four running sums may have: here each has them all.
    constexpr std::int64_t chunk = sum_chunk / 4;
    for (std::int64_t first = 0; first < rows; first += chunk) {
        const std::int64_t last = rows - first < chunk ? rows : first + chunk;
        V a[sum_vectors];
        GRAFT_UNROLL
        for (int j = 0; j < sum_vectors; ++j) a[j] = V::zero();
        for (std::int64_t i = first; i < last; ++i) {
            GRAFT_UNROLL
            for (int j = 0; j < sum_vectors; ++j) a[j] = a[j] + load_saved(x + i * step + j * V::W);
        }
        GRAFT_UNROLL
        for (int j = 0; j < sum_vectors; ++j) add_lanes(a[j], V::W, sum + j * V::W);
    }
}
inline void add_columns(const saved_activation& x, std::int64_t rows, std::int64_t step, int lanes, double* sum) {
    with_saved(x, [&](const auto* of) { add_columns_of(of, rows, step, lanes, sum); });
}

inline double sum_row(const float* x, std::int64_t n) {
    double sum[V::W];
    for (int i = 0; i < V::W; ++i) sum[i] = 0;
    const std::int64_t whole = n / V::W;
    add_few_columns(x, whole, V::W, V::W, sum);
    for (std::int64_t i = whole * V::W; i < n; ++i) sum[i - whole * V::W] += static_cast<double>(x[i]);
    for (int half = V::W / 2; half; half /= 2)
        for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
    return sum[0];
}

inline const reduce_sum_kernels* reduce_sum_table() {
    static constexpr reduce_sum_kernels all = {sum_vectors * V::W, &add_columns, &sum_row};
    return &all;
}
