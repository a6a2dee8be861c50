// Gradients along rows: text, included once for each instruction set.

template <class T>
GRAFT_FORCE_INLINE V some_of(const T* p, std::int64_t i, std::int64_t n) {
    return load_saved(p + i, lanes_from(n - i));
}

// The sum of f(i) over [0, n), which is 0 in lanes past the end: pieces in float, added up in double.
template <class F>
GRAFT_FORCE_INLINE double sum_of_row(std::int64_t n, const F& f) {
    constexpr std::int64_t piece = 2048;
    double total = 0;
    for (std::int64_t first = 0; first < n; first += piece) {
        const std::int64_t last = n - first < piece ? n : first + piece;
        V a = V::zero(), b = a;
        std::int64_t i = first;
        for (; i + V::W < last; i += 2 * V::W) a = a + f(i), b = b + f(i + V::W);
        if (i < last) a = a + f(i);
        total += static_cast<double>(sum(a + b));
    }
    return total;
}

inline void softmax_grad_rows(const float* dy, const saved_activation& saved, float* dx, std::int64_t rows, std::int64_t n) {
    with_saved(saved, [&](const auto* all) {
        for (std::int64_t r = 0; r < rows; ++r) {
            const auto* const y = all + r * n;
            const float* const g = dy + r * n;
            const V along = V::set1(static_cast<float>(sum_of_row(n, [&](std::int64_t i) { return some_of(g, i, n) * some_of(y, i, n); })));
            for (std::int64_t i = 0; i < n; i += V::W) store_some(some_of(y, i, n) * (some_of(g, i, n) - along), dx + r * n + i, lanes_from(n - i));
        }
    });
}
inline void softmax_grad_columns(const float* dy, const saved_activation& saved, float* dx, std::int64_t n, std::int64_t inner, std::int64_t count) {
    with_saved(saved, [&](const auto* y) {
        for (std::int64_t j = 0; j < count; j += V::W) {
            V along = V::zero();
            for (std::int64_t i = 0; i < n; ++i) along = fma(some_of(dy + i * inner, j, count), some_of(y + i * inner, j, count), along);
            for (std::int64_t i = 0; i < n; ++i)
                store_some(some_of(y + i * inner, j, count) * (some_of(dy + i * inner, j, count) - along), dx + i * inner + j, lanes_from(count - j));
        }
    });
}

template <class T>
inline void layer_norm_grad_of(const normalized_rows_grad& g, const T* all) {
    for (std::int64_t r = 0; r < g.rows; ++r) {
        const float* const dy = g.dy + r * g.n;
        const T* const x = all + r * g.n;
        float* dx = g.dx + r * g.n;
        const V mean = V::set1(g.mean ? g.mean[r] : 0.0f), inverse = V::set1(g.inverse[r]);
        // Lanes past the end have a dy of 0.
        const auto scaled = [&](std::int64_t i) { return g.scale ? some_of(dy, i, g.n) * some_of(g.scale, i, g.n) : some_of(dy, i, g.n); };
        const auto normalized = [&](std::int64_t i) { return (some_of(x, i, g.n) - mean) * inverse; };
        const double one = 1.0 / static_cast<double>(g.n);
        const V along = V::set1(static_cast<float>(sum_of_row(g.n, [&](std::int64_t i) { return scaled(i) * normalized(i); }) * one));
        const V centre = V::set1(g.mean ? static_cast<float>(sum_of_row(g.n, scaled) * one) : 0.0f);
        for (std::int64_t i = 0; i < g.n; i += V::W) store_some(fnma(normalized(i), along, scaled(i) - centre) * inverse, dx + i, lanes_from(g.n - i));
    }
}
inline void layer_norm_grad(const normalized_rows_grad& g) {
    with_saved(g.x, [&](const auto* x) { layer_norm_grad_of(g, x); });
}

template <class T>
inline void layer_norm_grad_sums_of(const normalized_rows_grad& g, const T* x, std::int64_t first, std::int64_t count, double* scale, double* bias) {
    constexpr std::int64_t chunk = 128;  // rows that a float holds the sum of, and that stay in the first cache
    for (std::int64_t begin = 0; begin < g.rows; begin += chunk) {
        const std::int64_t end = g.rows - begin < chunk ? g.rows : begin + chunk;
        for (std::int64_t j = 0; j < count; j += V::W) {
            const int lanes = lanes_from(count - j);
            V products = V::zero(), sums = products;
            for (std::int64_t r = begin; r < end; ++r) {
                const std::int64_t at = r * g.n + first + j;
                const V dy = load_some(g.dy + at, lanes), off = load_saved(x + at, lanes) - V::set1(g.mean ? g.mean[r] : 0.0f);
                products = fma(dy, off * V::set1(g.inverse[r]), products);
                sums = sums + dy;
            }
            if (scale) add_lanes(products, lanes, scale + j);
            if (bias) add_lanes(sums, lanes, bias + j);
        }
    }
}
inline void layer_norm_grad_sums(const normalized_rows_grad& g, std::int64_t first, std::int64_t count, double* scale, double* bias) {
    with_saved(g.x, [&](const auto* x) { layer_norm_grad_sums_of(g, x, first, count, scale, bias); });
}

inline const rows_grad_kernels* rows_grad_table() {
    static constexpr rows_grad_kernels all = {&softmax_grad_rows, &softmax_grad_columns, &layer_norm_grad, &layer_norm_grad_sums};
    return &all;
}
