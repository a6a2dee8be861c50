// Gradients of elementwise functions: text, included once for each instruction set.

GRAFT_FORCE_INLINE int lanes_from(std::int64_t left) { return left < V::W ? static_cast<int>(left) : V::W; }

// What is left of a gradient behind a relu or a clip, by the function's result. A comparison with NaN is false.
template <gradient_mask Mask> GRAFT_VECTOR V pass_gradient(V dy, V y, V low, V high) {
    if constexpr (Mask == gradient_mask::relu) return select(V::zero() < y, dy, V::zero());
    if constexpr (Mask == gradient_mask::clip) return select((low < y) & (y < high), dy, V::zero());
    return dy;
}

template <gradient_mask Mask>
GRAFT_FORCE_INLINE void masked_loop(float low, float high, const float* dy, const float* y, float* dx, std::int64_t n) {
    const V l = V::set1(low), h = V::set1(high);
    for (std::int64_t i = 0; i < n; i += V::W) {
        const int lanes = lanes_from(n - i);
        store_some(pass_gradient<Mask>(load_some(dy + i, lanes), load_some(y + i, lanes), l, h), dx + i, lanes);
    }
}
inline void masked(gradient_mask mask, float low, float high, const float* dy, const float* y, float* dx, std::int64_t n) {
    switch (mask) {
    case gradient_mask::none: return masked_loop<gradient_mask::none>(low, high, dy, dy, dx, n);
    case gradient_mask::relu: return masked_loop<gradient_mask::relu>(low, high, dy, y, dx, n);
    case gradient_mask::clip: return masked_loop<gradient_mask::clip>(low, high, dy, y, dx, n);
    }
}

// sigmoid(x) and, without cancellation, 1 - sigmoid(x).
GRAFT_VECTOR V sigmoid_pair(V x, V& complement) {
    const V e = exp(V::zero() - abs(x)), r = V::set1(1.0f) / (V::set1(1.0f) + e), small = e * r;
    const M negative = x < V::zero();
    complement = select(negative, r, small);
    return select(negative, small, r);
}

// Phi(x) + x phi(x), Phi the cumulative normal distribution and phi its density.
GRAFT_VECTOR V gelu_slope(V x) {
    const V half = V::set1(0.5f), below = half * erfc_positive(abs(x) * V::set1(0.707106781f));
    const V cumulative = select(x < V::zero(), below, V::set1(1.0f) - below);
    // Beyond 14 the density is below any float, and x * x could overflow to infinity times zero.
    const V c = clamp(x, V::set1(-14.0f), V::set1(14.0f));
    return fma(c * V::set1(0.398942280f), exp(c * c * V::set1(-0.5f)), cumulative);
}
// d/dx of x * sigmoid(u(x)) with u = 2 sqrt(2/pi) (x + 0.044715 x^3).
GRAFT_VECTOR V gelu_tanh_slope(V x) {
    const V c = clamp(x, V::set1(-14.0f), V::set1(14.0f)), c2 = c * c;
    V rest = V::zero();
    const V s = sigmoid_pair(c * fma(c2, V::set1(0.0713548163f), V::set1(1.59576912f)), rest);
    const V inner = fma(c2, V::set1(0.214064449f), V::set1(1.59576912f));
    return fma(c * s * rest, inner, s);
}
// With w = e (e + 2), e = exp(x): mish(x) = x w / (w + 2), and tanh' = 4 e (e + 1) / (w + 2)^2.
GRAFT_VECTOR V mish_slope(V x) {
    const V c = clamp(x, V::set1(-80.0f), V::set1(20.0f)), e = exp(c), two = V::set1(2.0f), w = e * (e + two);
    const V q = V::set1(1.0f) / (w + two);
    return fma(c * (e * q), V::set1(4.0f) * (e + V::set1(1.0f)) * q, w * q);
}

/// The slope of an activation at x. PyTorch's choices where there are two: at a kink the slope of the flat or lower side.
template <activation Kind> GRAFT_VECTOR V slope(V x, float alpha, float beta) {
    const V zero = V::zero(), one = V::set1(1.0f), a = V::set1(alpha), b = V::set1(beta);
    if constexpr (Kind == activation::relu) return select(zero < x, one, zero);
    if constexpr (Kind == activation::clip) return select((a < x) & (x < b), one, zero);
    if constexpr (Kind == activation::leaky_relu) return select(zero < x, one, a);
    if constexpr (Kind == activation::sigmoid) {
        V rest = V::zero();
        const V s = sigmoid_pair(x, rest);
        return s * rest;
    }
    if constexpr (Kind == activation::silu) {
        V rest = V::zero();
        const V c = clamp(x, V::set1(-100.0f), V::set1(100.0f)), s = sigmoid_pair(c, rest);
        return s * fma(c, rest, one);
    }
    if constexpr (Kind == activation::hard_sigmoid) {
        const V y = fma(x, a, b);
        return select((zero < y) & (y < one), a, zero);
    }
    if constexpr (Kind == activation::hard_swish) {
        const V inside = fma(x, V::set1(1.0f / 3.0f), V::set1(0.5f));
        return select(x < V::set1(3.0f), select(V::set1(-3.0f) < x, inside, zero), one);
    }
    if constexpr (Kind == activation::tanh) {
        // 1 - tanh^2 = 4 q / (1 + q)^2 with q = exp(-2 |x|), without the cancellation far out.
        const V q = exp(abs(x) * V::set1(-2.0f)), r = one / (one + q);
        return V::set1(4.0f) * q * r * r;
    }
    if constexpr (Kind == activation::gelu) return gelu_slope(x);
    if constexpr (Kind == activation::gelu_tanh) return gelu_tanh_slope(x);
    if constexpr (Kind == activation::elu) return select(zero < x, one, a * exp(min(zero, x)));
    if constexpr (Kind == activation::softplus) return sigmoid(x);
    if constexpr (Kind == activation::mish) return mish_slope(x);
    return one;
}

inline void activation_grad(activation kind, float alpha, float beta, const float* dy, const float* x, float* dx, std::int64_t n) {
    switch (kind) {
#define GRAFT_X(id)                                                                                                              \
    case activation::id:                                                                                                         \
        for (std::int64_t i = 0; i < n; i += V::W) {                                                                             \
            const int lanes = lanes_from(n - i);                                                                                 \
            store_some(load_some(dy + i, lanes) * slope<activation::id>(load_some(x + i, lanes), alpha, beta), dx + i, lanes);   \
        }                                                                                                                        \
        return;
        GRAFT_X(none)
        GRAFT_X(relu)
        GRAFT_X(clip)
        GRAFT_X(leaky_relu)
        GRAFT_X(sigmoid)
        GRAFT_X(silu)
        GRAFT_X(hard_sigmoid)
        GRAFT_X(hard_swish)
        GRAFT_X(tanh)
        GRAFT_X(gelu)
        GRAFT_X(gelu_tanh)
        GRAFT_X(elu)
        GRAFT_X(softplus)
        GRAFT_X(mish)
#undef GRAFT_X
    }
}

inline const elementwise_grad_kernels* elementwise_grad_table() {
    static constexpr elementwise_grad_kernels all = {&masked, &activation_grad};
    return &all;
}
