// Elementwise kernels: text, included once for each instruction set.

template <unary Op>
GRAFT_VECTOR V apply(V x) {
    if constexpr (Op == unary::abs) return abs(x);
    if constexpr (Op == unary::neg) return x ^ V::set1(-0.0f);
    if constexpr (Op == unary::exp) return exp(x);
    if constexpr (Op == unary::log) return log(x);
    if constexpr (Op == unary::sqrt) return sqrt(x);
    if constexpr (Op == unary::reciprocal) return V::set1(1.0f) / x;
    if constexpr (Op == unary::floor) return floor(x);
    if constexpr (Op == unary::ceil) return ceil(x);
    if constexpr (Op == unary::round) return round_even(x);
    if constexpr (Op == unary::sign) return select(x < V::zero(), V::set1(-1.0f), select(V::zero() < x, V::set1(1.0f), x));
    if constexpr (Op == unary::erf) return erf(x);
    if constexpr (Op == unary::square) return x * x;
}

template <binary Op>
GRAFT_VECTOR V apply(V a, V b) {
    if constexpr (Op == binary::add) return a + b;
    if constexpr (Op == binary::sub) return a - b;
    if constexpr (Op == binary::mul) return a * b;
    if constexpr (Op == binary::div) return a / b;
    if constexpr (Op == binary::max) return select(is_nan(a), a, max(a, b));
    if constexpr (Op == binary::min) return select(is_nan(a), a, min(a, b));
    if constexpr (Op == binary::prelu) return select(a < V::zero(), a * b, a);
    if constexpr (Op == binary::pow) {
        float x[V::W], y[V::W];
        a.store(x);
        b.store(y);
        for (int i = 0; i < V::W; ++i) x[i] = std::pow(x[i], y[i]);
        return V::load(x);
    }
}

inline void unary_run(unary op, const float* x, float* y, std::int64_t n) {
    switch (op) {
#define GRAFT_X(id) \
    case unary::id: \
        if constexpr (unary_wanted(unary::id)) \
            for (std::int64_t i = 0; i < n; i += V::W) { \
                const int lanes = n - i < V::W ? static_cast<int>(n - i) : V::W; \
                V v = apply<unary::id>(lanes == V::W ? V::load(x + i) : V::load_partial(x + i, lanes)); \
                if (lanes == V::W) \
                    v.store(y + i); \
                else \
                    v.store_partial(y + i, lanes); \
            } \
        return;
        GRAFT_X(abs)
        GRAFT_X(neg)
        GRAFT_X(exp)
        GRAFT_X(log)
        GRAFT_X(sqrt)
        GRAFT_X(reciprocal)
        GRAFT_X(floor)
        GRAFT_X(ceil)
        GRAFT_X(round)
        GRAFT_X(sign)
        GRAFT_X(erf)
        GRAFT_X(square)
#undef GRAFT_X
    }
}

// An operand that is one element for the whole row is spread over a vector in memory and read again and again: so one
// loop serves every form.
template <binary Op>
GRAFT_FORCE_INLINE void binary_loop(const binary_rows& g) {
    const V low = V::set1(g.low), high = V::set1(g.high);
    const std::int64_t n = g.n, whole = n - n % V::W;
    const int lanes = static_cast<int>(n - whole);
    if (n == V::W && g.a_step && g.b_step) {
        // Pixels of the blocked layout against one number for each channel.
        const float *a = g.a, *b = g.b;
        float* y = g.y;
        for (std::int64_t r = 0; r < g.rows; ++r, a += g.a_row, b += g.b_row, y += g.y_row) clamp(apply<Op>(V::load(a), V::load(b)), low, high).store(y);
        return;
    }
    float spread_a[V::W], spread_b[V::W];
    for (std::int64_t r = 0; r < g.rows; ++r) {
        const float *a = g.a + r * g.a_row, *b = g.b + r * g.b_row;
        float* y = g.y + r * g.y_row;
        if (!g.a_step) V::set1(*a).store(spread_a), a = spread_a;
        if (!g.b_step) V::set1(*b).store(spread_b), b = spread_b;
        const std::int64_t step_a = g.a_step * V::W, step_b = g.b_step * V::W;
        std::int64_t i = 0;
        for (; i < whole; i += V::W, a += step_a, b += step_b) clamp(apply<Op>(V::load(a), V::load(b)), low, high).store(y + i);
        if (lanes) clamp(apply<Op>(V::load_partial(a, lanes), V::load_partial(b, lanes)), low, high).store_partial(y + i, lanes);
    }
}

// Powers with one exponent for all that is made of products and roots, in places where powf would take 50 times as long.
inline bool power_run(const binary_rows& g) {
    if (g.b_step || (g.b_row && g.rows > 1)) return false;
    const float e = *g.b;
    if (!(e == 2.0f || e == 3.0f || e == 0.5f || e == 0.75f || e == -0.5f || e == -1.0f) || !g.a_step) return false;
    const V low = V::set1(g.low), high = V::set1(g.high), infinity = V::set1(std::numeric_limits<float>::infinity());
    for (std::int64_t r = 0; r < g.rows; ++r)
        for (std::int64_t i = 0; i < g.n; i += V::W) {
            const int lanes = g.n - i < V::W ? static_cast<int>(g.n - i) : V::W;
            V x = V::load_partial(g.a + r * g.a_row + i, lanes);
            if (e == 2.0f)
                x = x * x;
            else if (e == 3.0f)
                x = x * x * x;
            else if (e == -1.0f)
                x = V::set1(1.0f) / x;
            else {  // powf has +0 for -0 and infinity for -infinity
                const V root = sqrt(select(x == V::zero() - infinity, infinity, x + V::zero()));
                x = e == 0.5f ? root : e == 0.75f ? root * sqrt(root) : V::set1(1.0f) / root;
            }
            clamp(x, low, high).store_partial(g.y + r * g.y_row + i, lanes);
        }
    return true;
}

inline void binary_run(const binary_rows& g) {
    if constexpr (binary_wanted(binary::pow))
        if (g.op == binary::pow && power_run(g)) return;
    switch (g.op) {
#define GRAFT_X(id) \
    case binary::id: \
        if constexpr (binary_wanted(binary::id)) binary_loop<binary::id>(g); \
        return;
        GRAFT_X(add)
        GRAFT_X(sub)
        GRAFT_X(mul)
        GRAFT_X(div)
        GRAFT_X(max)
        GRAFT_X(min)
        GRAFT_X(pow)
        GRAFT_X(prelu)
#undef GRAFT_X
    }
}

inline void channel_run(const channel_rows& g) {
    const V low = V::set1(g.low), high = V::set1(g.high);
    for (std::int64_t r = g.first; r < g.first + g.rows; ++r) {
        const std::int64_t image = r / g.rows_per_image, channel = (r % g.rows_per_image) * g.width;
        const std::int64_t left = g.channels - channel;
        const int lanes = left < g.width ? static_cast<int>(left) : g.width;
        V scale = V::set1(1.0f), shift = V::zero();
        if (g.scale) {
            const float* p = g.scale + image * g.scale_image + channel;
            scale = g.width == 1 ? V::set1(*p) : V::load_partial(p, lanes);
        }
        if (g.shift) {
            const float* p = g.shift + image * g.shift_image + channel;
            shift = g.width == 1 ? V::set1(*p) : V::load_partial(p, lanes);
        }
        const float* x = g.x + r * g.run;
        float* y = g.y + r * g.run;
        const std::int64_t whole = g.run - g.run % V::W;
        const int rest = static_cast<int>(g.run - whole);
        if (g.prelu) {
            for (std::int64_t i = 0; i < whole; i += V::W) apply<binary::prelu>(V::load(x + i), scale).store(y + i);
            if (rest) apply<binary::prelu>(V::load_partial(x + whole, rest), scale).store_partial(y + whole, rest);
            continue;
        }
        for (std::int64_t i = 0; i < whole; i += V::W) clamp(fma(V::load(x + i), scale, shift), low, high).store(y + i);
        if (rest) clamp(fma(V::load_partial(x + whole, rest), scale, shift), low, high).store_partial(y + whole, rest);
    }
}

inline const elementwise_kernels* elementwise_table() {
    static constexpr elementwise_kernels all = {&unary_run, &activate_run, &binary_run, &channel_run};
    return &all;
}
