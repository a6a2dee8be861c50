// Functions of one variable over V, and the activations made of them: text, included once for each instruction set.
//
// For convolutions and matrix products: relu and clip are a clamp, so bounds_of() turns none, relu and clip into two
// bounds for the store; every other activation runs over what was just stored, by activate_run, from the first cache.
// Polynomials are minimax fits made for this file, their coefficients rounded to float one after the other.

// Cuts x to [low, high]; NaN stays NaN.
GRAFT_VECTOR V clamp(V x, V low, V high) { return min(high, max(low, x)); }

// exp(x + low) = (1 + p) * 2^n, with |low| far below 1: returns p, an approximation of expm1 on [-ln2/2, ln2/2], and `factor`,
// 2^(n + up). Adding 1.5 * 2^23 rounds to a whole number whose bits are the low ones, ready to become an exponent; it is `round`
// with 127 + up on top. -126 <= n + up <= 127.
GRAFT_VECTOR V exp_reduced(V x, V low, V round, V& factor) {
    const I bits = as_int(fma(x, V::set1(1.44269504f), round));
    const V n = as_float(bits) - round;
    factor = as_float(shift_left<23>(bits));
    // ln 2 in two parts; the first has ten bits, so that n times it is exact without FMA too.
    const V r = fnma(n, V::set1(-2.12194440e-4f), fnma(n, V::set1(0.693359375f), x)) + low;
    // Even and odd terms apart: a chain of four products, not of six.
    const V r2 = r * r, low_terms = fma(r, V::set1(0.16666545f), V::set1(0.49999997f)), high_terms = fma(r, V::set1(0.00836643204f), V::set1(0.0416674614f));
    return fma(r2, fma(r2, fma(r2, V::set1(0.00138684351f), high_terms), low_terms), r);
}
GRAFT_VECTOR V exp_round(float up) { return V::set1(12582912.0f + 127.0f + up); }
// Subnormal results have an exponent that no single factor has: 24 is added to it, and taken off by a product that rounds once.
static constexpr float exp_down = 1.0f / 16777216.0f;

// exp(x + low) for x <= 70, times 2^24.
GRAFT_VECTOR V exp_up(V x, V low) {
    V factor;
    const V p = exp_reduced(x, low, exp_round(24), factor);
    return fma(p, factor, factor);
}
// exp(x) for x <= 70, however low, times 2^24.
GRAFT_VECTOR V exp_up(V x) { return exp_up(max(V::set1(-104.0f), x), V::set1(-0.0f)); }
// exp(x) for x <= 70.
GRAFT_VECTOR V exp_low(V x) { return exp_up(x) * V::set1(exp_down); }
GRAFT_VECTOR V exp(V x) {
    const M small = x < V::zero();
    V factor;
    const V p = exp_reduced(clamp(x, V::set1(-104.0f), V::set1(89.0f)), V::set1(-0.0f), select(small, exp_round(24), exp_round(-24)), factor);
    return fma(p, factor, factor) * select(small, V::set1(exp_down), V::set1(1.0f / exp_down));
}

// Exact enough for every x up to 40, which is all that elu and tanh ask for.
GRAFT_VECTOR V expm1(V x) {
    V factor;
    const V p = exp_reduced(clamp(x, V::set1(-40.0f), V::set1(40.0f)), V::set1(-0.0f), exp_round(0), factor);
    return fma(factor, p, factor - V::set1(1.0f));
}

// log of a positive normal number.
GRAFT_VECTOR V log_normal(V x, V shift) {
    const I root_half = I::set1(0x3f3504f3), bits = as_int(x), exponent = shift_right_arithmetic<23>(bits - root_half);
    const V f = as_float(bits - shift_left<23>(exponent)) - V::set1(1.0f), e = to_float(exponent) + shift, f2 = f * f;
    V p = V::set1(-0.0763750747f);
    p = fma(p, f, V::set1(0.127644107f));
    p = fma(p, f, V::set1(-0.13160263f));
    p = fma(p, f, V::set1(0.142013207f));
    p = fma(p, f, V::set1(-0.166233137f));
    p = fma(p, f, V::set1(0.20001249f));
    p = fma(p, f, V::set1(-0.250008225f));
    p = fma(p, f, V::set1(0.333333313f));
    p = fma(p * f, f2, e * V::set1(-2.12194440e-4f));
    return fma(e, V::set1(0.693359375f), f + fma(f2, V::set1(-0.5f), p));
}
GRAFT_VECTOR V log(V x) {
    const V infinity = V::set1(std::numeric_limits<float>::infinity());
    const M small = x < V::set1(1.17549435e-38f);
    V y = log_normal(select(small, x * V::set1(8388608.0f), x), select(small, V::set1(-23.0f), V::zero()));
    y = select(x < V::zero(), V::set1(std::numeric_limits<float>::quiet_NaN()), y);
    y = select(x == V::zero(), V::zero() - infinity, y);
    return select((x < infinity), y, x);  // infinity and NaN are their own logarithms
}

// erfc(t) for t >= 0, relative error of a few ulp as far as floats go: exp(-t^2) times a polynomial in 1 / (1 + t/2). `gauss`: exp(-t^2).
GRAFT_VECTOR V erfc_positive(V t, V& gauss) {
    t = min(V::set1(10.1f), t);
    const V q = V::set1(1.0f) / fma(t, V::set1(0.5f), V::set1(1.0f)), s = q - V::set1(0.5f);
    V p = V::set1(0.0116570946f);
    p = fma(p, s, V::set1(-0.0678043887f));
    p = fma(p, s, V::set1(0.0467541255f));
    p = fma(p, s, V::set1(0.0973643884f));
    p = fma(p, s, V::set1(-0.103015117f));
    p = fma(p, s, V::set1(-0.172018796f));
    p = fma(p, s, V::set1(0.145747185f));
    p = fma(p, s, V::set1(0.558942795f));
    p = fma(p, s, V::set1(0.68716085f));
    p = fma(p, s, V::set1(0.510791361f));
    // The square in two parts, the first exact: a rounded one would cost 100 ulp far out.
    const V top = as_float(as_int(t) & I::set1(~0xfff));
    gauss = exp_up(V::zero() - top * top, (top - t) * (top + t)) * V::set1(exp_down);
    return gauss * (p * q);
}
GRAFT_VECTOR V erf(V x) {
    const V sign = x & V::set1(-0.0f), t = abs(x), x2 = x * x;
    V p = V::set1(7.80690389e-05f);
    p = fma(p, x2, V::set1(-0.00079978531f));
    p = fma(p, x2, V::set1(0.0051871622f));
    p = fma(p, x2, V::set1(-0.0268533472f));
    p = fma(p, x2, V::set1(0.112835787f));
    p = fma(p, x2, V::set1(-0.37612626f));
    p = fma(p, x2, V::set1(0.128379166f));
    V gauss = V::zero();
    const V near = fma(x, p, x), far = (V::set1(1.0f) - erfc_positive(t, gauss)) | sign;
    return select(t < V::set1(1.0f), near, far);
}
// x * Phi(x), where Phi - 1/2 is x P(x^2) / Q(x^2): a third faster than by erf, within 1.3e-6 of the true value below zero and
// 4 ulp above. Beyond the ends Phi is 0 or 1 as far as that goes.
GRAFT_VECTOR V gelu(V x) {
    const V end = V::set1(5.6f), c = clamp(x, V::zero() - end, end), s = c * c;
    V p = V::set1(2.17104912e-08f), q = V::set1(1.18515345e-06f);
    p = fma(p, s, V::set1(6.59061516e-06f));
    q = fma(q, s, V::set1(8.10119891e-05f));
    p = fma(p, s, V::set1(0.000190158098f));
    q = fma(q, s, V::set1(0.00200337009f));
    p = fma(p, s, V::set1(0.00480543636f));
    q = fma(q, s, V::set1(0.0298041087f));
    p = fma(p, s, V::set1(0.0358474404f));
    q = fma(q, s, V::set1(0.25651896f));
    p = fma(p, s, V::set1(0.398941904f));
    q = fma(q, s, V::set1(1.0f));
    return select(x < V::zero() - end, V::zero(), x * fma(c, p / q, V::set1(0.5f)));
}
GRAFT_VECTOR V tanh(V x) {
    const V e = expm1(abs(x) * V::set1(2.0f));
    return (e / (e + V::set1(2.0f))) | (x & V::set1(-0.0f));
}
// Both parts of 1 / (1 + exp(-x)) are times 2^-24, so that the exponential stays finite as far as the quotient is not 0.
GRAFT_VECTOR V sigmoid(V x) {
    V factor;
    const V p = exp_reduced(V::zero() - clamp(x, V::set1(-104.0f), V::set1(70.0f)), V::set1(-0.0f), exp_round(-24), factor);
    return V::set1(exp_down) / (V::set1(exp_down) + fma(p, factor, factor));
}
// log(1 + u) for u in [0, 1].
GRAFT_VECTOR V log1p_unit(V u) {
    const V w = V::set1(1.0f) + u;
    return log_normal(w, V::zero()) + (u - (w - V::set1(1.0f))) / w;
}

/// One activation of a vector. The kind is a template parameter: switch outside of loops.
template <activation Kind>
GRAFT_VECTOR V activate(V x, float alpha, float beta) {
    const V zero = V::zero(), one = V::set1(1.0f), a = V::set1(alpha), b = V::set1(beta);
    if constexpr (Kind == activation::relu) return max(zero, x);
    if constexpr (Kind == activation::clip) return clamp(x, a, b);
    if constexpr (Kind == activation::leaky_relu) return select(x < zero, x * a, x);
    if constexpr (Kind == activation::sigmoid) return sigmoid(x);
    if constexpr (Kind == activation::silu) return x * sigmoid(x);
    if constexpr (Kind == activation::hard_sigmoid) return clamp(fma(x, a, b), zero, one);
    if constexpr (Kind == activation::hard_swish) return x * clamp(fma(x, V::set1(1.0f / 6.0f), V::set1(0.5f)), zero, one);
    if constexpr (Kind == activation::tanh) return tanh(x);
    if constexpr (Kind == activation::gelu) return gelu(x);
    if constexpr (Kind == activation::gelu_tanh)
        return x * sigmoid(x * fma(x * x, V::set1(0.0713548163f), V::set1(1.59576912f)));  // 2 sqrt(2/pi) (0.044715 x^2, 1)
    if constexpr (Kind == activation::elu) return select(x < zero, a * expm1(x), x);
    if constexpr (Kind == activation::softplus) return max(zero, x) + log1p_unit(exp_low(zero - abs(x)));
    if constexpr (Kind == activation::mish) {
        // tanh(log(1 + e)) = e (e + 2) / (e (e + 2) + 2)
        const V e = exp_low(min(V::set1(20.0f), x)), w = e * (e + V::set1(2.0f));
        return x * (w / (w + V::set1(2.0f)));
    }
    return x;
}

// sigmoid(x) and, without cancellation, 1 - sigmoid(x).
GRAFT_VECTOR V sigmoid_pair(V x, V& complement) {
    const V e = exp_low(V::zero() - abs(x)), r = V::set1(1.0f) / (V::set1(1.0f) + e), small = e * r;
    const M negative = x < V::zero();
    complement = select(negative, r, small);
    return select(negative, small, r);
}

// Phi(x) + x phi(x), Phi the cumulative normal distribution and phi its density, which share an exponential; y = x Phi(x).
GRAFT_VECTOR V gelu_slope(V x, V& y) {
    V gauss = V::zero();
    const V half = V::set1(0.5f), below = half * erfc_positive(abs(x) * V::set1(0.707106781f), gauss);
    const V cumulative = select(x < V::zero(), below, V::set1(1.0f) - below);
    // Beyond 14 both are below any float: an infinite x must not meet their zeros.
    y = max(V::set1(-14.0f), x) * cumulative;
    return fma(clamp(x, V::set1(-14.0f), V::set1(14.0f)) * V::set1(0.398942280f), gauss, cumulative);
}
// The same within 2e-4 of their values, which is a tenth of what rounding to bfloat16 costs, in two thirds of the time: Phi(-t) is exp(-t^2 / 2) times a
// polynomial in 1 / (1 + 0.38 t).
GRAFT_VECTOR V gelu_slope_near(V x, V& y) {
    const V end = V::set1(13.0f), one = V::set1(1.0f), t = min(end, abs(x)), t2 = t * t, q = one / fma(t, V::set1(0.38f), one);
    V p = fma(q, V::set1(-0.0899253786f), V::set1(0.188869581f));
    p = fma(p, q, V::set1(0.0919854268f));
    p = fma(p, q, V::set1(0.15782751f));
    p = fma(p, q, V::set1(0.15122538f)) * q;
    // 2^(n + r), n whole.
    const V round = exp_round(0), power = V::set1(-0.721347520f);
    const I bits = as_int(fma(t2, power, round));
    const V r = fma(t2, power, round - as_float(bits));
    const V mantissa = fma(r, fma(r, fma(r, V::set1(0.0551717728f), V::set1(0.242611587f)), V::set1(0.693261027f)), V::set1(0.999928057f));
    const V gauss = mantissa * as_float(shift_left<23>(bits)), below = gauss * p, cumulative = select(x < V::zero(), below, one - below);
    y = max(V::zero() - end, x) * cumulative;
    return fma(clamp(x, V::zero() - end, end) * V::set1(0.398942280f), gauss, cumulative);
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
    const V c = clamp(x, V::set1(-80.0f), V::set1(20.0f)), e = exp_low(c), two = V::set1(2.0f), w = e * (e + two);
    const V q = V::set1(1.0f) / (w + two);
    return fma(c * (e * q), V::set1(4.0f) * (e + V::set1(1.0f)) * q, w * q);
}

/// The slope of an activation at x, and what it makes of x. PyTorch's choices where there are two slopes: at a kink that of the flat or lower side.
template <activation Kind>
GRAFT_VECTOR V slope(V x, float alpha, float beta, V& made) {
    const V zero = V::zero(), one = V::set1(1.0f), a = V::set1(alpha), b = V::set1(beta);
    if constexpr (Kind != activation::gelu) made = activate<Kind>(x, alpha, beta);
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
        const V q = exp_low(abs(x) * V::set1(-2.0f)), r = one / (one + q);
        return V::set1(4.0f) * q * r * r;
    }
    if constexpr (Kind == activation::gelu) return gelu_slope(x, made);
    if constexpr (Kind == activation::gelu_tanh) return gelu_tanh_slope(x);
    if constexpr (Kind == activation::elu) return select(zero < x, one, a * exp_low(min(zero, x)));
    if constexpr (Kind == activation::softplus) return sigmoid(x);
    if constexpr (Kind == activation::mish) return mish_slope(x);
    return one;
}

/// The same for results that are rounded to bfloat16.
template <activation Kind>
GRAFT_VECTOR V slope_near(V x, float alpha, float beta, V& made) {
    if constexpr (Kind == activation::gelu) return gelu_slope_near(x, made);
    return slope<Kind>(x, alpha, beta, made);
}

/// y[i] = act(x[i]) for i in [0, n); x may be y.
inline GRAFT_NOINLINE void activate_run(activation kind, float alpha, float beta, const float* x, float* y, std::int64_t n) {
    switch (kind) {
#define GRAFT_X(id, first, second) \
    case activation::id: \
        if constexpr (activation_wanted(activation::id)) \
            for (std::int64_t i = 0; i < n; i += V::W) { \
                const int lanes = n - i < V::W ? static_cast<int>(n - i) : V::W; \
                V v = lanes == V::W ? V::load(x + i) : V::load_partial(x + i, lanes); \
                v = activate<activation::id>(v, alpha, beta); \
                if (lanes == V::W) \
                    v.store(y + i); \
                else \
                    v.store_partial(y + i, lanes); \
            } \
        return;
        GRAFT_X(none, , )
        GRAFT_ACTIVATION_LIST(GRAFT_X)
#undef GRAFT_X
    }
}

/// The same in place.
GRAFT_FORCE_INLINE void activate_run(float* y, std::int64_t n, activation kind, float alpha, float beta) { activate_run(kind, alpha, beta, y, y, n); }

/// Whether the activation is none, relu or clip; then [low, high] are its bounds, to be applied with clamp.
GRAFT_FORCE_INLINE bool bounds_of(const epilogue& ep, float& low, float& high) {
    const float infinity = std::numeric_limits<float>::infinity();
    low = ep.act == activation::relu ? 0.0f : ep.act == activation::clip ? ep.alpha : -infinity;
    high = ep.act == activation::clip ? ep.beta : infinity;
    return ep.act <= activation::clip;
}
