// Updates of weights: text, included once for each instruction set. Where PyTorch fuses a product with a sum this does, elsewhere not.

template <bool Momentum, bool Nesterov, bool Decay>
GRAFT_FORCE_INLINE void sgd_loop(const sgd_step& s, const float* w, const float* g, const float* m, float* new_w, float* new_m, std::int64_t n) {
    const V rate = V::set1(s.minus_rate), momentum = V::set1(s.momentum), decay = V::set1(s.weight_decay);
    for (std::int64_t i = 0; i < n; i += V::W) {
        const int lanes = lanes_from(n - i);
        const V old = load_some(w + i, lanes);
        V d = load_some(g + i, lanes);
        if constexpr (Decay) d = fma(old, decay, d);
        if constexpr (Momentum) {
            const V buffer = load_some(m + i, lanes) * momentum + d;
            store_some(buffer, new_m + i, lanes);
            d = Nesterov ? fma(buffer, momentum, d) : buffer;
        }
        store_some(fma(d, rate, old), new_w + i, lanes);
    }
}
inline void sgd(const sgd_step& s, const float* w, const float* g, const float* m, float* new_w, float* new_m, std::int64_t n) {
    const bool decay = s.weight_decay != 0;
    if (!m) return decay ? sgd_loop<false, false, true>(s, w, g, m, new_w, new_m, n) : sgd_loop<false, false, false>(s, w, g, m, new_w, new_m, n);
    if (s.nesterov) return decay ? sgd_loop<true, true, true>(s, w, g, m, new_w, new_m, n) : sgd_loop<true, true, false>(s, w, g, m, new_w, new_m, n);
    decay ? sgd_loop<true, false, true>(s, w, g, m, new_w, new_m, n) : sgd_loop<true, false, false>(s, w, g, m, new_w, new_m, n);
}

// From a to b, by the end that is nearer.
GRAFT_VECTOR V blended(float share, V a, V b) {
    const bool near = share < 0.5f;
    return fma(V::set1(near ? share : share - 1.0f), b - a, near ? a : b);
}

inline void adam(const adam_step& s, const float* w, const float* g, const float* m, const float* v, float* new_w, float* new_m, float* new_v, std::int64_t n) {
    const V shrink = V::set1(s.shrink), decay = V::set1(s.weight_decay), keep = V::set1(s.keep), square_share = V::set1(s.square_share);
    const V correction = V::set1(s.correction), epsilon = V::set1(s.epsilon), step = V::set1(s.minus_step);
    const bool shrinks = s.shrink != 1.0f, decays = s.weight_decay != 0.0f;
    for (std::int64_t i = 0; i < n; i += V::W) {
        const int lanes = lanes_from(n - i);
        V weight = load_some(w + i, lanes), d = load_some(g + i, lanes);
        if (shrinks) weight = weight * shrink;
        if (decays) d = fma(weight, decay, d);
        const V mean = blended(s.share, load_some(m + i, lanes), d);
        const V square = fma(square_share * d, d, load_some(v + i, lanes) * keep);
        store_some(mean, new_m + i, lanes);
        store_some(square, new_v + i, lanes);
        store_some(weight + step * mean / (sqrt(square) / correction + epsilon), new_w + i, lanes);
    }
}

inline void blend(float share, const float* a, const float* b, float* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += V::W) {
        const int lanes = lanes_from(n - i);
        store_some(blended(share, load_some(a + i, lanes), load_some(b + i, lanes)), y + i, lanes);
    }
}

inline void scale_by(float factor, const float* x, float* y, std::int64_t n) {
    const V f = V::set1(factor);
    for (std::int64_t i = 0; i < n; i += V::W) {
        const int lanes = lanes_from(n - i);
        store_some(load_some(x + i, lanes) * f, y + i, lanes);
    }
}

// The float sums are of at most 32 squares each.
inline double square_sum(const float* x, std::int64_t n) {
    double sum[V::W];
    for (int i = 0; i < V::W; ++i) sum[i] = 0;
    constexpr std::int64_t chunk = 128 * V::W;
    for (std::int64_t first = 0; first < n; first += chunk) {
        const std::int64_t last = n - first < chunk ? n : first + chunk;
        V a[4];
        GRAFT_UNROLL
        for (int j = 0; j < 4; ++j) a[j] = V::zero();
        std::int64_t i = first;
        for (; i + 4 * V::W <= last; i += 4 * V::W) {
            GRAFT_UNROLL
            for (int j = 0; j < 4; ++j) {
                const V v = V::load(x + i + j * V::W);
                a[j] = fma(v, v, a[j]);
            }
        }
        for (; i < last; i += V::W) {
            const V v = load_some(x + i, lanes_from(last - i));
            a[0] = fma(v, v, a[0]);
        }
        add_lanes((a[0] + a[1]) + (a[2] + a[3]), V::W, sum);
    }
    for (int half = V::W / 2; half; half /= 2)
        for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
    return sum[0];
}

inline const optimizer_kernels* optimizer_table() {
    static constexpr optimizer_kernels all = {&sgd, &adam, &blend, &scale_by, &square_sum};
    return &all;
}
