// Activation functions: the Relu and Elu families, sigmoids, Softplus and its kin, Gelu, gates, and Clip.
#pragma once

#include "gradient_common.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

inline double logistic(double x) noexcept {
    const double e = std::exp(-std::fabs(x));
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
}
inline double soft_plus(double x) noexcept { return x != x ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
inline double unit_clip(double x) noexcept { return x < 0 ? 0 : x > 1 ? 1 : x; }
// What a bound is as a number of an operator's type.
inline double rounded_to(dtype type, double x) noexcept {
    unsigned char bytes[8];
    store_from_double(type, bytes, 0, 1, &x);
    return element_as_double(type, bytes, 0);
}
inline double clamp_into(double x, double low, double high) noexcept {
    if (x < low) x = low;
    return x > high ? high : x;
}

/// What is known of an activation, but for its vector form.
struct activation_entry {
    using function = double (*)(double x, double alpha, double beta);
    struct parameter {
        const char* name;  ///< the attribute of the ONNX operator that is this function; null: it has no such parameter
        float otherwise;
    };

    activation kind;
    const char* name;  ///< of its function in CUDA C++; that of its slope begins with slope_
    parameter alpha, beta;
    function value;
    function slope;            ///< at kinks as torch: of Relu's kin the slope below, of HardSigmoid and HardSwish 0 at both ends
    const char* device_value;  ///< the body of a function of T x, alpha and beta; null: CUDA has one of that name
    const char* device_slope;
};

// In the order of `activation`. The text for devices may call what stands before it and the functions of gpu/codegen/prelude_functions.hpp.
// Lines of two functions each, which the formatter would take apart.
// clang-format off
inline constexpr activation_entry activation_entries[] = {
    {activation::none, "unchanged", {}, {},
     [](double x, double, double) { return x; }, [](double, double, double) { return 1.0; },
     "return x;", "return T(1);"},
    {activation::relu, "relu", {}, {},
     [](double x, double, double) { return x < 0 ? 0 : x; }, [](double x, double, double) { return x > 0 ? 1.0 : 0.0; },
     "return is_negative(x) ? T(0) : x;", "return x > T(0) ? T(1) : T(0);"},
    {activation::clip, "clip", {"min", -3.402823466e38f}, {"max", 3.402823466e38f},
     [](double x, double low, double high) { return clamp_into(x, low, high); },
     [](double x, double low, double high) { return x > low && x < high ? 1.0 : 0.0; },
     "if (x < alpha) x = alpha; return x > beta ? beta : x;", "return x > alpha && x < beta ? T(1) : T(0);"},
    {activation::leaky_relu, "leaky_relu", {"alpha", 0.01f}, {},
     [](double x, double alpha, double) { return x < 0 ? alpha * x : x; }, [](double x, double alpha, double) { return x > 0 ? 1 : alpha; },
     "return x < T(0) ? alpha * x : x;", "return x > T(0) ? T(1) : alpha;"},
    {activation::sigmoid, "sigmoid", {}, {},
     [](double x, double, double) { return logistic(x); }, [](double x, double, double) { return logistic(x) * logistic(-x); },
     "const T e = exp(-abs(x)); return (x < T(0) ? e : T(1)) / (T(1) + e);", "return sigmoid(x) * sigmoid(-x);"},
    {activation::silu, "silu", {}, {},
     [](double x, double, double) { return x * logistic(x); }, [](double x, double, double) { return logistic(x) * (1 + x * logistic(-x)); },
     "return x * sigmoid(x);", "return sigmoid(x) * (T(1) + x * sigmoid(-x));"},
    {activation::hard_sigmoid, "hard_sigmoid", {"alpha", 0.2f}, {"beta", 0.5f},
     [](double x, double alpha, double beta) { return unit_clip(alpha * x + beta); },
     [](double x, double alpha, double beta) { return alpha * x + beta > 0 && alpha * x + beta < 1 ? alpha : 0; },
     "return unit_clip(alpha * x + beta);", "return alpha * x + beta > T(0) && alpha * x + beta < T(1) ? alpha : T(0);"},
    {activation::hard_swish, "hard_swish", {}, {},
     [](double x, double, double) { return x * unit_clip(x / 6 + 0.5); },
     [](double x, double, double) { return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5; },
     "return x * unit_clip(x / T(6) + T(0.5));", "return x <= T(-3) ? T(0) : x >= T(3) ? T(1) : x / T(3) + T(0.5);"},
    // 1 / cosh^2 without large numbers on devices.
    {activation::tanh, "tanh", {}, {},
     [](double x, double, double) { return std::tanh(x); }, [](double x, double, double) { return 1 / (std::cosh(x) * std::cosh(x)); },
     nullptr, "const T e = exp(T(-2) * abs(x)), d = T(1) + e; return T(4) * e / (d * d);"},
    {activation::gelu, "gelu", {}, {},
     [](double x, double, double) { return 0.5 * x * (1 + std::erf(x * 0.70710678118654752440)); },
     [](double x, double, double) { return 0.5 * (1 + std::erf(x * 0.70710678118654752440)) + x * 0.39894228040143267794 * std::exp(-0.5 * x * x); },
     "return T(0.5) * x * (T(1) + erf(x * T(0.70710678118654752440)));",
     "return T(0.5) * (T(1) + erf(x * T(0.70710678118654752440))) + x * T(0.39894228040143267794) * exp(T(-0.5) * x * x);"},
    {activation::gelu_tanh, "gelu_tanh", {}, {},
     [](double x, double, double) { return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))); },
     [](double x, double, double) {
         const double t = std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x));
         return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
     },
     "return T(0.5) * x * (T(1) + tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));",
     "const T inside = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x), slope = T(0.79788456080286535588) * (T(1) + T(3 * 0.044715) * x * x); "
     "return T(0.5) * (T(1) + tanh(inside)) + T(0.5) * x * slope_tanh(inside) * slope;"},
    {activation::elu, "elu", {"alpha", 1}, {},
     [](double x, double alpha, double) { return x < 0 ? alpha * std::expm1(x) : x; }, [](double x, double alpha, double) { return x > 0 ? 1 : alpha * std::exp(x); },
     "return x < T(0) ? alpha * expm1(x) : x;", "return x > T(0) ? T(1) : alpha * exp(x);"},
    {activation::softplus, "softplus", {}, {},
     [](double x, double, double) { return soft_plus(x); }, [](double x, double, double) { return logistic(x); },
     "return x != x ? x : (x > T(0) ? x : T(0)) + log1p(exp(-abs(x)));", "return sigmoid(x);"},
    // On devices tanh(log(1 + e)) = n / (n + 2) and 1 - tanh^2 = 4 (n + 1) / (n + 2)^2, with n = e (e + 2).
    {activation::mish, "mish", {}, {},
     [](double x, double, double) { return x * std::tanh(soft_plus(x)); },
     [](double x, double, double) {
         const double t = std::tanh(soft_plus(x));
         return t + x * (1 - t * t) * logistic(x);
     },
     "const T e = exp(x > T(30) ? T(30) : x), n = e * (e + T(2)); return x * (n / (n + T(2)));",
     "const T e = exp(x > T(30) ? T(30) : x), n = e * (e + T(2)), d = n + T(2); return n / d + x * (T(4) * (n + T(1)) / d / d) * sigmoid(x);"},
};
// clang-format on
constexpr bool entries_in_order() {
    for (int i = 0; i < activation_count; ++i)
        if (static_cast<int>(activation_entries[i].kind) != i) return false;
    return sizeof activation_entries / sizeof activation_entries[0] == activation_count;
}
static_assert(entries_in_order(), "every activation has its entry");

// Whether a node is an activation, and with which parameters: by its attributes, where its operator is always this function.
template <activation Kind>
bool reads_activation(const op_context& c, epilogue& e) {
    constexpr activation_entry entry = activation_entries[static_cast<int>(Kind)];
    e = {Kind, entry.alpha.name ? c.real(entry.alpha.name, entry.alpha.otherwise) : 0, entry.beta.name ? c.real(entry.beta.name, entry.beta.otherwise) : 0,
         false, false};
    return true;
}
// Clip with bounds that are not known is none.
inline bool reads_clip(const op_context& c, epilogue& e) {
    reads_activation<activation::clip>(c, e);
    for (int i = 1; i < c.inputs; ++i) {
        if (!c.has(i)) continue;
        if (!c.in[i].data || c.in[i].elements() != 1 || !is_float(c.in[i].type)) return false;
        (i == 1 ? e.alpha : e.beta) = static_cast<float>(c.in[i].real(0));
    }
    return true;
}
inline bool reads_gelu(const op_context& c, epilogue& e) {
    e.act = c.is("approximate", "tanh", "none") ? activation::gelu_tanh : activation::gelu;
    return true;
}
inline bool reads_swish(const op_context& c, epilogue& e) {
    e.act = activation::silu;
    return c.real("alpha", 1.0f) == 1.0f;
}
// The attributes that lowering writes.
inline bool reads_lowered_activation(const op_context& c, epilogue& e) {
    const std::int64_t kind = c.integer("activation", 0);
    e = {static_cast<activation>(kind), c.real("alpha", 0), c.real("beta", 0), false, false};
    return kind >= 0 && kind < activation_count;
}

// An element function in double; `x` is the element, `p` the parameters.
#define GRAFT_ELEMENT(id, expression) \
    inline void id##_real(double* block, int n, const element_parameters& p) { \
        (void)p; \
        for (int i = 0; i < n; ++i) { \
            const double x = block[i]; \
            block[i] = expression; \
        } \
    }
template <activation Kind>
void activation_real(double* block, int n, const element_parameters& p) {
    constexpr activation_entry::function value = activation_entries[static_cast<int>(Kind)].value;
    for (int i = 0; i < n; ++i) block[i] = value(block[i], p.a, p.b);
}

// A kernel whose parameters are the attributes `a` and `b`.
inline status activate(run_context& c, real_function f, const char* a = nullptr, float a_default = 0, const char* b = nullptr, float b_default = 0) {
    element_parameters p;
    p.a = a ? static_cast<double>(c.real(a, a_default)) : 0;
    p.b = b ? static_cast<double>(c.real(b, b_default)) : 0;
    return unary_elementwise(c, f, nullptr, p);
}
template <activation Kind>
status activation_run(run_context& c) {
    constexpr activation_entry entry = activation_entries[static_cast<int>(Kind)];
    return activate(c, activation_real<Kind>, entry.alpha.name, entry.alpha.otherwise, entry.beta.name, entry.beta.otherwise);
}

// Relu-1,6,13,14: y = max(x, 0)
inline void relu_whole(std::int64_t* x, int n, const element_parameters& p) {
    for (int i = 0; i < n; ++i) x[i] = x[i] < 0 && !p.unsigned64 ? 0 : x[i];
}
inline status relu_infer(infer_context& c) { return same_infer(c, accept::real | accept::signed_integer); }
inline status relu_run(run_context& c) { return unary_elementwise(c, activation_real<activation::relu>, relu_whole); }

// By their entries: LeakyRelu-1,6,16, Elu-1,6,22, Sigmoid-1,6,13, HardSigmoid-1,6,22, HardSwish-14,22, Tanh-1,6,13, Softplus-1,22, Mish-18,22

// ThresholdedRelu-1 (experimental),10,22: y = x > alpha ? x : 0
GRAFT_ELEMENT(thresholded_relu, x > p.a ? x : 0)
inline status thresholded_relu_run(run_context& c) { return activate(c, thresholded_relu_real, "alpha", 1.0f); }

// Selu-1,6,22: y = gamma * (x > 0 ? x : alpha * (exp(x) - 1)); opset 1 to 5 had defaults of four digits
GRAFT_ELEMENT(selu, p.b*(x <= 0 ? p.a * std::expm1(x) : x))
inline status selu_run(run_context& c) {
    const bool old = c.version() < 6;
    return activate(c, selu_real, "alpha", old ? 1.6732f : 1.67326319217681884765625f, "gamma", old ? 1.0507f : 1.05070102214813232421875f);
}

// Celu-12,28: y = max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
GRAFT_ELEMENT(celu, (x < 0 ? 0 : x) + std::min(0.0, p.a* std::expm1(x / p.a)))
inline status celu_infer(infer_context& c) {
    if (c.real("alpha", 1.0f) == 0.0f) return c.fail(errc::op_attribute, "alpha must not be zero");
    return real_infer(c);
}
inline status celu_run(run_context& c) { return activate(c, celu_real, "alpha", 1.0f); }

// Softsign-1,22: y = x / (1 + |x|)
GRAFT_ELEMENT(softsign, x / (1 + std::fabs(x)))
inline status softsign_run(run_context& c) { return activate(c, softsign_real); }

// Swish-24: y = x / (1 + exp(-alpha * x))
GRAFT_ELEMENT(swish, x* logistic(p.a* x))
inline status swish_run(run_context& c) { return activate(c, swish_real, "alpha", 1.0f); }

// Gelu-20: y = x / 2 * (1 + erf(x / sqrt(2))), or by approximate = tanh: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
inline status gelu_infer(infer_context& c) {
    if (!c.is("approximate", "none", "none") && !c.is("approximate", "tanh", "none")) return c.fail(errc::op_attribute, "approximate must be none or tanh");
    return real_infer(c);
}
inline status gelu_run(run_context& c) {
    return c.is("approximate", "tanh", "none") ? activation_run<activation::gelu_tanh>(c) : activation_run<activation::gelu>(c);
}

// Shrink-9: y = x < -lambd ? x + bias : x > lambd ? x - bias : 0
GRAFT_ELEMENT(shrink, x<-p.a ? x + p.b : x> p.a ? x - p.b : 0)
inline status shrink_run(run_context& c) { return activate(c, shrink_real, "lambd", 0.5f, "bias", 0.0f); }

// Clip-1,6,11,12,13: y = min(max(x, low), high); the bounds are attributes before opset 11, inputs since
inline void clip_whole(std::int64_t* x, int n, const element_parameters& p) {
    for (int i = 0; i < n; ++i) {
        if (less(x[i], p.k, p.unsigned64)) x[i] = p.k;
        if (less(p.m, x[i], p.unsigned64)) x[i] = p.m;
    }
}
inline status clip_infer(infer_context& c) {
    for (int i = 1; i < c.inputs; ++i) {
        if (!c.has(i)) continue;
        GRAFT_TRY(check_same_type(c, 0, i));
        GRAFT_TRY(check_scalar(c, i));
    }
    return number_infer(c);
}
inline status clip_run(run_context& c) {
    element_parameters p;
    p.a = -HUGE_VAL;
    p.b = HUGE_VAL;
    const bool unsigned64 = c.in[0].type == dtype::uint64;
    p.k = unsigned64 ? 0 : INT64_MIN;
    p.m = unsigned64 ? -1 : INT64_MAX;
    if (c.has_attribute("min")) p.a = static_cast<double>(c.real("min", 0));
    if (c.has_attribute("max")) p.b = static_cast<double>(c.real("max", 0));
    if (c.has(1)) p.a = c.in[1].real(0), p.k = c.in[1].integer(0);
    if (c.has(2)) p.b = c.in[2].real(0), p.m = c.in[2].integer(0);
    return unary_elementwise(c, activation_real<activation::clip>, clip_whole, p);
}
#undef GRAFT_ELEMENT

// PRelu-1,6,7,9,16: y = x < 0 ? slope * x : x; the slope is broadcast to x (before opset 7: one for all, or one a channel)
inline status prelu_slope(const op_context& c, shape& slope) {
    slope = c.in[1].extents;
    if (c.version() < 7 && slope.rank() == 1 && slope[0] != 1)
        for (int behind = c.in[0].extents.rank() - 2; behind > 0; --behind) slope.push_back(1);
    return broadcasts_to(slope, c.in[0].extents) ? status() : c.fail_shapes("the slope cannot be broadcast to the input");
}
inline status prelu_infer(infer_context& c) {
    shape slope;
    GRAFT_TRY(prelu_slope(c, slope));
    GRAFT_TRY(check_wide_number(c, 0));
    GRAFT_TRY(check_same_type(c, 0, 1));
    return c.set(0, c.in[0].type, c.in[0].extents);
}
inline void prelu_real(double* x, const double* slope, int n, const element_parameters&) {
    for (int i = 0; i < n; ++i) x[i] = x[i] < 0 ? x[i] * slope[i] : x[i];
}
inline void prelu_whole(std::int64_t* x, const std::int64_t* slope, int n, const element_parameters& p) {
    for (int i = 0; i < n; ++i) x[i] = x[i] < 0 && !p.unsigned64 ? wrapping_mul(x[i], slope[i]) : x[i];
}
inline status prelu_run(run_context& c) {
    shape slope;
    GRAFT_TRY(prelu_slope(c, slope));
    return binary_elementwise(c, slope, prelu_real, prelu_whole);
}

// SwiGLU-28: y = a / (1 + exp(-alpha * a)) * b, of equal shapes
inline status swiglu_infer(infer_context& c) {
    GRAFT_TRY(check_same_type(c, 0, 1));
    if (c.in[0].extents != c.in[1].extents) return c.fail_shapes("A and B must have one shape");
    return real_infer(c);
}
inline void swiglu_real(double* a, const double* b, int n, const element_parameters& p) {
    for (int i = 0; i < n; ++i) a[i] = a[i] * logistic(p.a * a[i]) * b[i];
}
inline status swiglu_run(run_context& c) {
    element_parameters p;
    p.a = static_cast<double>(c.real("alpha", 1.0f));
    return binary_elementwise(c, c.in[1].extents, swiglu_real, nullptr, p);
}

// By graft.ActivationGrad, as the node is read.
template <activation_reader Reads>
status activation_gradient_of(gradient_context& c) {
    std::vector<tensor_view> in;
    epilogue e;
    Reads(forward_context(c, in), e);
    c.give(0, activation_gradient(c, c.dy(), c.in(0), e.act, e.alpha, e.beta));
    return {};
}
// selu(x) = gamma * elu(x)
inline status selu_gradient(gradient_context& c) {
    const bool old = c.n.version < 6;
    const value_id g = activation_gradient(c, c.dy(), c.in(0), activation::elu, c.real("alpha", old ? 1.6732f : 1.67326319217681884765625f));
    c.give(0, scaled(c, g, static_cast<double>(c.real("gamma", old ? 1.0507f : 1.05070102214813232421875f))));
    return {};
}
// celu(x) = alpha * elu(x / alpha) where alpha > 0
inline status celu_gradient(gradient_context& c) {
    const float alpha = c.real("alpha", 1.0f);
    if (!(alpha > 0)) return c.refuse("Celu can only be differentiated for alpha > 0: freeze what lies before it");
    const value_id x = alpha == 1 ? c.in(0) : c.build.div(c.in(0), c.build.number(static_cast<double>(alpha), c.in(0)));
    c.give(0, activation_gradient(c, c.dy(), x, activation::elu, 1.0f));
    return {};
}
// swish(x) = silu(alpha * x) / alpha
inline status swish_gradient(gradient_context& c) {
    c.give(0, activation_gradient(c, c.dy(), scaled(c, c.in(0), static_cast<double>(c.real("alpha", 1.0f))), activation::silu));
    return {};
}
inline status swiglu_gradient(gradient_context& c) {
    const float alpha = c.real("alpha", 1.0f);
    const value_id a = c.in(0), b = c.in(1);
    if (c.wants(0)) c.give(0, activation_gradient(c, c.build.mul(c.dy(), b), scaled(c, a, static_cast<double>(alpha)), activation::silu));
    if (c.wants(1)) c.give(1, c.build.mul(c.dy(), c.build.apply("Swish", {a}, {real_attribute("alpha", alpha)})));
    return {};
}
// dy where y > 0, which is where x > 0
inline status relu_gradient(gradient_context& c) {
    c.give(0, c.build.apply_graft("ReluGrad", {c.dy(), c.out()}));
    return {};
}
inline status thresholded_relu_gradient(gradient_context& c) {
    const value_id alpha = c.build.number(static_cast<double>(c.real("alpha", 1.0f)), c.in(0));
    c.give(0, where(c, c.build.apply("Greater", {c.in(0), alpha}), c.dy()));
    return {};
}
// dy / (1 + |x|)^2
inline status softsign_gradient(gradient_context& c) {
    const value_id d = shifted(c, c.build.apply("Abs", {c.in(0)}), 1);
    c.give(0, c.build.div(c.dy(), c.build.mul(d, d)));
    return {};
}
inline status shrink_gradient(gradient_context& c) {
    const value_id x = c.in(0), low = c.build.number(-static_cast<double>(c.real("lambd", 0.5f)), x),
                   high = c.build.number(static_cast<double>(c.real("lambd", 0.5f)), x);
    c.give(0, where(c, c.build.apply("Or", {c.build.apply("Less", {x, low}), c.build.apply("Greater", {x, high})}), c.dy()));
    return {};
}
// Numbers: dy strictly inside of the bounds. Tensors: the bound that holds gets the rest; the upper one where both do, as it comes last.
inline status clip_gradient(gradient_context& c) {
    const value_id x = c.in(0);
    const bool inputs = c.n.version >= 11;
    double low = -HUGE_VAL, high = HUGE_VAL;
    bool numbers = true;
    if (inputs) {
        numbers = (c.in(1) == no_value || constant_number(c, 1, low)) && (c.in(2) == no_value || constant_number(c, 2, high));
    } else {
        if (c.n.find("min")) low = static_cast<double>(c.real("min", 0));
        if (c.n.find("max")) high = static_cast<double>(c.real("max", 0));
    }
    const float first = static_cast<float>(low), last = static_cast<float>(high);
    if (numbers && static_cast<double>(first) == low && static_cast<double>(last) == high) {  // bounds of float64 may be no floats
        c.give(0, c.build.apply_graft("ClipGrad", {c.dy(), c.out()}, {real_attribute("min", first), real_attribute("max", last)}));
        return {};
    }
    value_id above = no_value, below = no_value, raised = x;
    if (c.in(1) != no_value) {
        const value_id bound = c.build.reshape(c.in(1), shape{});
        above = c.build.apply("Greater", {x, bound});
        raised = c.build.apply("Max", {x, bound});
    }
    if (c.in(2) != no_value) below = c.build.apply("Less", {raised, c.build.reshape(c.in(2), shape{})});
    const value_id under = below == no_value ? c.dy() : where(c, below, c.dy());
    if (c.wants(0)) c.give(0, above == no_value ? under : where(c, above, under));
    if (c.wants(1)) c.give(1, c.build.reshape(c.sum_to(where(c, c.build.apply("Not", {above}), under), shape{}), c.extents(c.in(1))));
    if (c.wants(2)) c.give(2, c.build.reshape(c.sum_to(where(c, c.build.apply("Not", {below}), c.dy()), shape{}), c.extents(c.in(2))));
    return {};
}
// As torch has it: the slope counts at 0 too.
inline status prelu_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    shape slope;
    GRAFT_TRY(prelu_slope(forward_context(c, in), slope));
    const value_id x = c.in(0), positive = c.build.apply("Greater", {x, c.build.number(0, x)});
    if (c.wants(0)) c.give(0, c.build.apply("Where", {positive, c.dy(), c.build.mul(c.dy(), c.build.reshape(c.in(1), slope))}));
    if (!c.wants(1)) return {};
    const value_id g = c.build.apply("Where", {positive, c.build.number(0, x), c.build.mul(c.dy(), x)});
    c.give(1, c.build.reshape(c.sum_to(g, slope), c.extents(c.in(1))));
    return {};
}

// An operator that its entry of the table says all of.
template <activation Kind>
constexpr make_op activation_op(const char* name) {
    return onnx(name).inputs(1).functions(real_infer, activation_run<Kind>).activates(reads_activation<Kind>).elementwise().widens();
}

inline op_table activation_ops() {
    static constexpr op_row rows[] = {
        onnx("Relu")
            .in_eight_bits(eight_bits::cuts_range)
            .inputs(1)
            .functions(relu_infer, relu_run)
            .activates(reads_activation<activation::relu>)
            .elementwise()
            .widens()
            .attributes("consumed_inputs:is")
            .problems("f32[3,17]; i8[9]; f64[]; f16[0,4]; bf16[5]"),
        activation_op<activation::leaky_relu>("LeakyRelu").attributes("alpha:f consumed_inputs:is").problems("f32[3,17]; f32[2,3] alpha=0.3; f64[]; f16[0]"),
        onnx("ThresholdedRelu")
            .inputs(1)
            .functions(real_infer, thresholded_relu_run)
            .elementwise()
            .attributes("alpha:f")
            .problems("f32[3,17]; f32[5] alpha=-0.5; f64[]; f16[0]"),
        activation_op<activation::elu>("Elu").attributes("alpha:f consumed_inputs:is").problems("f32[3,17]; f32[2,3] alpha=2; f64[]; f16[0]"),
        onnx("Selu")
            .inputs(1)
            .functions(real_infer, selu_run)
            .elementwise()
            .widens()
            .attributes("alpha:f gamma:f consumed_inputs:is")
            .problems("f32[3,17]; f32[2,3] alpha=2 gamma=3; f64[]; f16[0]"),
        onnx("Celu")
            .opsets(12)
            .inputs(1)
            .functions(celu_infer, celu_run)
            .elementwise()
            .attributes("alpha:f")
            .problems("f32[3,17]; f32[2,3] alpha=2; f32[]; f32[0]"),
        activation_op<activation::sigmoid>("Sigmoid").attributes("consumed_inputs:is").problems("f32[3,17]; f32{-200,-20,0,20,200}; f64[]; f16[0]"),
        activation_op<activation::hard_sigmoid>("HardSigmoid")
            .attributes("alpha:f beta:f consumed_inputs:is")
            .problems("f32[3,17]~-5:5; f32[5] alpha=0.5 beta=0.1; f64[]; f16[0]"),
        activation_op<activation::hard_swish>("HardSwish").opsets(14).problems("f32[3,17]~-5:5; f64[]; f16[0]"),
        activation_op<activation::tanh>("Tanh").attributes("consumed_inputs:is").problems("f32[3,17]; f32{-100,-9,0,9,100}; f64[5]; f16[0]; f32[]"),
        activation_op<activation::softplus>("Softplus").problems("f32[3,17]; f32{-200,0,200}; f64[]; f16[0]"),
        onnx("Softsign").inputs(1).functions(real_infer, softsign_run).elementwise().problems("f32[3,17]; f64[]; f16[0]"),
        activation_op<activation::mish>("Mish").opsets(18).problems("f32[3,17]; f32{-200,0,200}; f64[]; f16[0]"),
        onnx("Swish")
            .opsets(24)
            .inputs(1)
            .functions(real_infer, swish_run)
            .activates(reads_swish)
            .elementwise()
            .attributes("alpha:f")
            .problems("f32[3,17]; f32[5] alpha=2; f64[]; f16[0]"),
        onnx("Gelu")
            .opsets(20)
            .inputs(1)
            .functions(gelu_infer, gelu_run)
            .activates(reads_gelu)
            .elementwise()
            .widens()
            .attributes("approximate:s")
            .problems("f32[3,17]; f32[3,17] approximate=tanh; f64[]; f16[0]"),
        onnx("Shrink")
            .opsets(9)
            .inputs(1)
            .functions(number_infer, shrink_run)
            .elementwise()
            .attributes("bias:f lambd:f")
            .problems("f32[3,17]; f32[5] bias=1.5 lambd=1.5; i32[5] bias=1; f16[0]"),
        onnx("Clip")
            .in_eight_bits(eight_bits::cuts_range)
            .opsets(1, 10)
            .inputs(1)
            .functions(clip_infer, clip_run)
            .activates(reads_clip)
            .elementwise()
            .widens()
            .attributes("max:f min:f consumed_inputs:is")
            .problems("f32[3,17] min=-1 max=1; f32[5] max=0; f64[]; f16[0]"),
        onnx("Clip")
            .in_eight_bits(eight_bits::cuts_range)
            .opsets(11)
            .inputs(1, 3)
            .functions(clip_infer, clip_run)
            .activates(reads_clip)
            .elementwise()
            .widens()
            .problems("f32[3,17] f32(-1) f32(1); f32[5] - f32(0); i8[9] i8(-1); u64[4] u64(1) u64(3); f64[]; f16[0] f16(0)"),
        onnx("PRelu")
            .inputs(2)
            .functions(prelu_infer, prelu_run)
            .elementwise()
            .weights(1)
            .widens()
            .attributes("consumed_inputs:is")
            .problems("f32[2,3,5] f32[3,1]; f32[2,3] f32[1]; i32[5] i32[5]; f64[] f64[]; f16[0,2] f16[2]; f32[2,3,2] f32[3] @6"),
        onnx("SwiGLU")
            .opsets(28)
            .inputs(2)
            .functions(swiglu_infer, swiglu_run)
            .elementwise()
            .attributes("alpha:f")
            .problems("f32[3,17] f32[3,17]; f32[5] f32[5] alpha=2; f64[] f64[]; f16[0] f16[0]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table activation_gradients() {
    static constexpr gradient_row rows[] = {
        {"Relu", "", relu_gradient},
        {"LeakyRelu", "", activation_gradient_of<reads_activation<activation::leaky_relu>>},
        {"ThresholdedRelu", "", thresholded_relu_gradient},
        {"Elu", "", activation_gradient_of<reads_activation<activation::elu>>},
        {"Selu", "", selu_gradient},
        {"Celu", "", celu_gradient},
        {"Sigmoid", "", activation_gradient_of<reads_activation<activation::sigmoid>>},
        {"HardSigmoid", "", activation_gradient_of<reads_activation<activation::hard_sigmoid>>},
        {"HardSwish", "", activation_gradient_of<reads_activation<activation::hard_swish>>},
        {"Softplus", "", activation_gradient_of<reads_activation<activation::softplus>>},
        {"Softsign", "", softsign_gradient},
        {"Mish", "", activation_gradient_of<reads_activation<activation::mish>>},
        {"Swish", "", swish_gradient},
        {"Gelu", "", activation_gradient_of<reads_gelu>},
        {"Shrink", "", shrink_gradient},
        {"Clip", "", clip_gradient},
        {"PRelu", "", prelu_gradient},
        {"SwiGLU", "", swiglu_gradient},
        {"Tanh", "", activation_gradient_of<reads_activation<activation::tanh>>},
    };
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
