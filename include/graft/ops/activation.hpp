// Activation functions: the Relu and Elu families, sigmoids, Softplus and its kin, Gelu, gates, and Clip.
#pragma once

#include "gradient_common.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// An element function in double; `x` is the element, `p` the parameters.
#define GRAFT_ACTIVATION(id, expression)                                                                                         \
    inline void id##_real(double* block, int n, const element_parameters& p) {                                                   \
        (void)p;                                                                                                                 \
        for (int i = 0; i < n; ++i) {                                                                                            \
            const double x = block[i];                                                                                           \
            block[i] = expression;                                                                                               \
        }                                                                                                                        \
    }
inline double logistic(double x) noexcept {
    const double e = std::exp(-std::fabs(x));
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
}
inline double soft_plus(double x) noexcept { return x != x ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

inline double unit_clip(double x) noexcept { return x < 0 ? 0 : x > 1 ? 1 : x; }

// A kernel whose parameters are the attributes `a` and `b`.
inline status activate(run_context& c, real_function f, const char* a = nullptr, float a_default = 0, const char* b = nullptr,
                       float b_default = 0) {
    element_parameters p;
    p.a = a ? static_cast<double>(c.real(a, a_default)) : 0;
    p.b = b ? static_cast<double>(c.real(b, b_default)) : 0;
    return unary_elementwise(c, f, nullptr, p);
}

// Relu-1,6,13,14: y = max(x, 0)
GRAFT_ACTIVATION(relu, x < 0 ? 0 : x)
inline void relu_whole(std::int64_t* x, int n, const element_parameters& p) {
    for (int i = 0; i < n; ++i) x[i] = x[i] < 0 && !p.unsigned64 ? 0 : x[i];
}
inline status relu_infer(infer_context& c) { return same_infer(c, accept::real | accept::signed_integer); }
inline status relu_run(run_context& c) { return unary_elementwise(c, relu_real, relu_whole); }

// LeakyRelu-1,6,16: y = x < 0 ? alpha * x : x
GRAFT_ACTIVATION(leaky_relu, x < 0 ? p.a * x : x)
inline status leaky_relu_run(run_context& c) { return activate(c, leaky_relu_real, "alpha", 0.01f); }

// ThresholdedRelu-1 (experimental),10,22: y = x > alpha ? x : 0
GRAFT_ACTIVATION(thresholded_relu, x > p.a ? x : 0)
inline status thresholded_relu_run(run_context& c) { return activate(c, thresholded_relu_real, "alpha", 1.0f); }

// Elu-1,6,22: y = x < 0 ? alpha * (exp(x) - 1) : x
GRAFT_ACTIVATION(elu, x < 0 ? p.a * std::expm1(x) : x)
inline status elu_run(run_context& c) { return activate(c, elu_real, "alpha", 1.0f); }

// Selu-1,6,22: y = gamma * (x > 0 ? x : alpha * (exp(x) - 1)); opset 1 to 5 had defaults of four digits
GRAFT_ACTIVATION(selu, p.b*(x <= 0 ? p.a * std::expm1(x) : x))
inline status selu_run(run_context& c) {
    const bool old = c.version() < 6;
    return activate(c, selu_real, "alpha", old ? 1.6732f : 1.67326319217681884765625f, "gamma",
                    old ? 1.0507f : 1.05070102214813232421875f);
}

// Celu-12,28: y = max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
GRAFT_ACTIVATION(celu, (x < 0 ? 0 : x) + std::min(0.0, p.a* std::expm1(x / p.a)))
inline status celu_infer(infer_context& c) {
    if (c.real("alpha", 1.0f) == 0.0f) return c.fail(errc::op_attribute, "alpha must not be zero");
    return real_infer(c);
}
inline status celu_run(run_context& c) { return activate(c, celu_real, "alpha", 1.0f); }

// Sigmoid-1,6,13: y = 1 / (1 + exp(-x))
GRAFT_ACTIVATION(sigmoid, logistic(x))
inline status sigmoid_run(run_context& c) { return activate(c, sigmoid_real); }

// HardSigmoid-1,6,22: y = max(0, min(1, alpha * x + beta))
GRAFT_ACTIVATION(hard_sigmoid, unit_clip(p.a* x + p.b))
inline status hard_sigmoid_run(run_context& c) { return activate(c, hard_sigmoid_real, "alpha", 0.2f, "beta", 0.5f); }

// HardSwish-14,22: y = x * max(0, min(1, x / 6 + 1 / 2))
GRAFT_ACTIVATION(hard_swish, x* unit_clip(x / 6 + 0.5))
inline status hard_swish_run(run_context& c) { return activate(c, hard_swish_real); }

// Softplus-1,22: y = log(exp(x) + 1)
GRAFT_ACTIVATION(softplus, soft_plus(x))
inline status softplus_run(run_context& c) { return activate(c, softplus_real); }

// Softsign-1,22: y = x / (1 + |x|)
GRAFT_ACTIVATION(softsign, x / (1 + std::fabs(x)))
inline status softsign_run(run_context& c) { return activate(c, softsign_real); }

// Mish-18,22: y = x * tanh(log(exp(x) + 1))
GRAFT_ACTIVATION(mish, x* std::tanh(soft_plus(x)))
inline status mish_run(run_context& c) { return activate(c, mish_real); }

// Swish-24: y = x / (1 + exp(-alpha * x))
GRAFT_ACTIVATION(swish, x* logistic(p.a* x))
inline status swish_run(run_context& c) { return activate(c, swish_real, "alpha", 1.0f); }

// Gelu-20: y = x / 2 * (1 + erf(x / sqrt(2))), or by approximate = tanh: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
GRAFT_ACTIVATION(gelu, 0.5 * x * (1 + std::erf(x * 0.70710678118654752440)))
GRAFT_ACTIVATION(gelu_tanh, 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))))
inline status gelu_infer(infer_context& c) {
    if (!c.is("approximate", "none", "none") && !c.is("approximate", "tanh", "none"))
        return c.fail(errc::op_attribute, "approximate must be none or tanh");
    return real_infer(c);
}
inline status gelu_run(run_context& c) { return activate(c, c.is("approximate", "tanh", "none") ? gelu_tanh_real : gelu_real); }

// Shrink-9: y = x < -lambd ? x + bias : x > lambd ? x - bias : 0
GRAFT_ACTIVATION(shrink, x<-p.a ? x + p.b : x> p.a ? x - p.b : 0)
inline status shrink_run(run_context& c) { return activate(c, shrink_real, "lambd", 0.5f, "bias", 0.0f); }

// Clip-1,6,11,12,13: y = min(max(x, low), high); the bounds are attributes before opset 11, inputs since
inline double clamp_into(double x, double low, double high) noexcept {
    if (x < low) x = low;
    return x > high ? high : x;
}
GRAFT_ACTIVATION(clip, clamp_into(x, p.a, p.b))
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
    return unary_elementwise(c, clip_real, clip_whole, p);
}
#undef GRAFT_ACTIVATION

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

// Gradients by graft.ActivationGrad; alpha and beta have the defaults of the operators.
inline status leaky_relu_gradient(gradient_context& c) {
    c.give(0, activation_gradient(c, c.dy(), c.in(0), cpu::activation::leaky_relu, c.real("alpha", 0.01f)));
    return {};
}
inline status elu_gradient(gradient_context& c) {
    c.give(0, activation_gradient(c, c.dy(), c.in(0), cpu::activation::elu, c.real("alpha", 1.0f)));
    return {};
}
inline status hard_sigmoid_gradient(gradient_context& c) {
    c.give(0, activation_gradient(c, c.dy(), c.in(0), cpu::activation::hard_sigmoid, c.real("alpha", 0.2f), c.real("beta", 0.5f)));
    return {};
}
inline status sigmoid_gradient(gradient_context& c) {
    c.give(0, activation_gradient(c, c.dy(), c.in(0), cpu::activation::sigmoid));
    return {};
}
inline status hard_swish_gradient(gradient_context& c) {
    c.give(0, activation_gradient(c, c.dy(), c.in(0), cpu::activation::hard_swish));
    return {};
}
inline status softplus_gradient(gradient_context& c) {
    c.give(0, activation_gradient(c, c.dy(), c.in(0), cpu::activation::softplus));
    return {};
}
inline status mish_gradient(gradient_context& c) {
    c.give(0, activation_gradient(c, c.dy(), c.in(0), cpu::activation::mish));
    return {};
}
inline status tanh_gradient(gradient_context& c) {
    c.give(0, activation_gradient(c, c.dy(), c.in(0), cpu::activation::tanh));
    return {};
}
inline status gelu_gradient(gradient_context& c) {
    const attribute* form = c.n.find("approximate");
    c.give(0, activation_gradient(c, c.dy(), c.in(0), form && form->string == "tanh" ? cpu::activation::gelu_tanh : cpu::activation::gelu));
    return {};
}
// selu(x) = gamma * elu(x)
inline status selu_gradient(gradient_context& c) {
    const bool old = c.n.version < 6;
    const value_id g = activation_gradient(c, c.dy(), c.in(0), cpu::activation::elu, c.real("alpha", old ? 1.6732f : 1.67326319217681884765625f));
    c.give(0, scaled(c, g, static_cast<double>(c.real("gamma", old ? 1.0507f : 1.05070102214813232421875f))));
    return {};
}
// celu(x) = alpha * elu(x / alpha) where alpha > 0
inline status celu_gradient(gradient_context& c) {
    const float alpha = c.real("alpha", 1.0f);
    if (!(alpha > 0)) return c.refuse("Celu can only be differentiated for alpha > 0: freeze what lies before it");
    const value_id x = alpha == 1 ? c.in(0) : c.build.div(c.in(0), c.build.number(static_cast<double>(alpha), c.in(0)));
    c.give(0, activation_gradient(c, c.dy(), x, cpu::activation::elu, 1.0f));
    return {};
}
// swish(x) = silu(alpha * x) / alpha
inline status swish_gradient(gradient_context& c) {
    c.give(0, activation_gradient(c, c.dy(), scaled(c, c.in(0), static_cast<double>(c.real("alpha", 1.0f))), cpu::activation::silu));
    return {};
}
inline status swiglu_gradient(gradient_context& c) {
    const float alpha = c.real("alpha", 1.0f);
    const value_id a = c.in(0), b = c.in(1);
    if (c.wants(0)) c.give(0, activation_gradient(c, c.build.mul(c.dy(), b), scaled(c, a, static_cast<double>(alpha)), cpu::activation::silu));
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
    if (numbers && static_cast<double>(first) == low && static_cast<double>(last) == high) { // bounds of float64 may be no floats
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

inline op_table activation_ops() {
    static constexpr op_row rows[] = {
        onnx("Relu").inputs(1).functions(relu_infer, relu_run).elementwise().widens().attributes("consumed_inputs:is")
            .problems("f32[3,17]; i8[9]; f64[]; f16[0,4]; bf16[5]"),
        onnx("LeakyRelu").inputs(1).functions(real_infer, leaky_relu_run).elementwise().widens()
            .attributes("alpha:f consumed_inputs:is").problems("f32[3,17]; f32[2,3] alpha=0.3; f64[]; f16[0]"),
        onnx("ThresholdedRelu").inputs(1).functions(real_infer, thresholded_relu_run).elementwise().attributes("alpha:f")
            .problems("f32[3,17]; f32[5] alpha=-0.5; f64[]; f16[0]"),
        onnx("Elu").inputs(1).functions(real_infer, elu_run).elementwise().widens().attributes("alpha:f consumed_inputs:is")
            .problems("f32[3,17]; f32[2,3] alpha=2; f64[]; f16[0]"),
        onnx("Selu").inputs(1).functions(real_infer, selu_run).elementwise().widens()
            .attributes("alpha:f gamma:f consumed_inputs:is").problems("f32[3,17]; f32[2,3] alpha=2 gamma=3; f64[]; f16[0]"),
        onnx("Celu").opsets(12).inputs(1).functions(celu_infer, celu_run).elementwise().attributes("alpha:f")
            .problems("f32[3,17]; f32[2,3] alpha=2; f32[]; f32[0]"),
        onnx("Sigmoid").inputs(1).functions(real_infer, sigmoid_run).elementwise().widens().attributes("consumed_inputs:is")
            .problems("f32[3,17]; f32{-200,-20,0,20,200}; f64[]; f16[0]"),
        onnx("HardSigmoid").inputs(1).functions(real_infer, hard_sigmoid_run).elementwise().widens()
            .attributes("alpha:f beta:f consumed_inputs:is").problems("f32[3,17]~-5:5; f32[5] alpha=0.5 beta=0.1; f64[]; f16[0]"),
        onnx("HardSwish").opsets(14).inputs(1).functions(real_infer, hard_swish_run).elementwise().widens()
            .problems("f32[3,17]~-5:5; f64[]; f16[0]"),
        onnx("Softplus").inputs(1).functions(real_infer, softplus_run).elementwise().widens()
            .problems("f32[3,17]; f32{-200,0,200}; f64[]; f16[0]"),
        onnx("Softsign").inputs(1).functions(real_infer, softsign_run).elementwise().problems("f32[3,17]; f64[]; f16[0]"),
        onnx("Mish").opsets(18).inputs(1).functions(real_infer, mish_run).elementwise().widens()
            .problems("f32[3,17]; f32{-200,0,200}; f64[]; f16[0]"),
        onnx("Swish").opsets(24).inputs(1).functions(real_infer, swish_run).elementwise().attributes("alpha:f")
            .problems("f32[3,17]; f32[5] alpha=2; f64[]; f16[0]"),
        onnx("Gelu").opsets(20).inputs(1).functions(gelu_infer, gelu_run).elementwise().widens().attributes("approximate:s")
            .problems("f32[3,17]; f32[3,17] approximate=tanh; f64[]; f16[0]"),
        onnx("Shrink").opsets(9).inputs(1).functions(number_infer, shrink_run).elementwise().attributes("bias:f lambd:f")
            .problems("f32[3,17]; f32[5] bias=1.5 lambd=1.5; i32[5] bias=1; f16[0]"),
        onnx("Clip").opsets(1, 10).inputs(1).functions(clip_infer, clip_run).elementwise().widens()
            .attributes("max:f min:f consumed_inputs:is").problems("f32[3,17] min=-1 max=1; f32[5] max=0; f64[]; f16[0]"),
        onnx("Clip").opsets(11).inputs(1, 3).functions(clip_infer, clip_run).elementwise().widens()
            .problems("f32[3,17] f32(-1) f32(1); f32[5] - f32(0); i8[9] i8(-1); u64[4] u64(1) u64(3); f64[]; f16[0] f16(0)"),
        onnx("PRelu").inputs(2).functions(prelu_infer, prelu_run).elementwise().weights(1).widens()
            .attributes("consumed_inputs:is")
            .problems("f32[2,3,5] f32[3,1]; f32[2,3] f32[1]; i32[5] i32[5]; f64[] f64[]; f16[0,2] f16[2]; f32[2,3,2] f32[3] @6"),
        onnx("SwiGLU").opsets(28).inputs(2).functions(swiglu_infer, swiglu_run).elementwise().attributes("alpha:f")
            .problems("f32[3,17] f32[3,17]; f32[5] f32[5] alpha=2; f64[] f64[]; f16[0] f16[0]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return {rows, sizeof rows / sizeof rows[0]};
}

inline gradient_table activation_gradients() {
    static constexpr gradient_row rows[] = {
        {"Relu", "", relu_gradient},
        {"LeakyRelu", "", leaky_relu_gradient},
        {"ThresholdedRelu", "", thresholded_relu_gradient},
        {"Elu", "", elu_gradient},
        {"Selu", "", selu_gradient},
        {"Celu", "", celu_gradient},
        {"Sigmoid", "", sigmoid_gradient},
        {"HardSigmoid", "", hard_sigmoid_gradient},
        {"HardSwish", "", hard_swish_gradient},
        {"Softplus", "", softplus_gradient},
        {"Softsign", "", softsign_gradient},
        {"Mish", "", mish_gradient},
        {"Swish", "", swish_gradient},
        {"Gelu", "", gelu_gradient},
        {"Shrink", "", shrink_gradient},
        {"Clip", "", clip_gradient},
        {"PRelu", "", prelu_gradient},
        {"SwiGLU", "", swiglu_gradient},
        {"Tanh", "", tanh_gradient},
    };
    return {rows, sizeof rows / sizeof rows[0]};
}

// graft.ReluGrad-1: dx = y > 0 ? dy : 0. graft.ClipGrad-1: dx = min < y < max ? dy : 0
inline status masked_grad_infer(infer_context& c) {
    GRAFT_TRY(check_same_type(c, 0, 1));
    if (c.in[0].extents != c.in[1].extents) return c.fail_shapes("the gradient must have the shape of the output");
    return real_infer(c);
}
inline void masked_grad_real(double* dy, const double* y, int n, const element_parameters& p) {
    for (int i = 0; i < n; ++i) dy[i] = y[i] > p.a && y[i] < p.b ? dy[i] : 0;
}
// The bounds as the operator before had them: rounded to the type of its output, or values at a bound would pass.
inline double rounded_to(dtype type, double x) noexcept {
    unsigned char bytes[8];
    store_from_double(type, bytes, 0, 1, &x);
    return element_as_double(type, bytes, 0);
}
inline status masked_grad_kernel(run_context& c, double low, double high) {
    element_parameters p;
    p.a = rounded_to(c.in[1].type, low);
    p.b = rounded_to(c.in[1].type, high);
    return binary_elementwise(c, c.in[1].extents, masked_grad_real, nullptr, p);
}
inline status relu_grad_run(run_context& c) { return masked_grad_kernel(c, 0, HUGE_VAL); }
inline status clip_grad_run(run_context& c) {
    return masked_grad_kernel(c, static_cast<double>(c.real("min", -HUGE_VALF)), static_cast<double>(c.real("max", HUGE_VALF)));
}

// graft.ActivationGrad-1: dx = dy * act'(x), act one of cpu::activation. At kinks as torch: of Relu's kin the slope below, of
// HardSigmoid and HardSwish 0 at both ends.
inline double activation_slope(cpu::activation kind, double x, double alpha, double beta) noexcept {
    switch (kind) {
    case cpu::activation::relu: return x > 0;
    case cpu::activation::clip: return x > alpha && x < beta;
    case cpu::activation::leaky_relu: return x > 0 ? 1 : alpha;
    case cpu::activation::sigmoid: return logistic(x) * logistic(-x);
    case cpu::activation::silu: return logistic(x) * (1 + x * logistic(-x));
    case cpu::activation::hard_sigmoid: return alpha * x + beta > 0 && alpha * x + beta < 1 ? alpha : 0;
    case cpu::activation::hard_swish: return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5;
    case cpu::activation::tanh: return 1 / (std::cosh(x) * std::cosh(x));
    case cpu::activation::gelu: return 0.5 * (1 + std::erf(x * 0.70710678118654752440)) + x * 0.39894228040143267794 * std::exp(-0.5 * x * x);
    case cpu::activation::gelu_tanh: {
        const double t = std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x));
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
    }
    case cpu::activation::elu: return x > 0 ? 1 : alpha * std::exp(x);
    case cpu::activation::softplus: return logistic(x);
    case cpu::activation::mish: {
        const double t = std::tanh(soft_plus(x));
        return t + x * (1 - t * t) * logistic(x);
    }
    default: return 1;
    }
}
inline void activation_grad_real(double* dy, const double* x, int n, const element_parameters& p) {
    const auto kind = static_cast<cpu::activation>(p.k);
    for (int i = 0; i < n; ++i) dy[i] *= activation_slope(kind, x[i], p.a, p.b);
}
inline status activation_grad_infer(infer_context& c) {
    const std::int64_t kind = c.integer("activation", 0);
    if (kind < 0 || kind > static_cast<std::int64_t>(cpu::activation::mish)) return c.fail(errc::op_attribute, "activation %lld is none that is known", kind);
    return masked_grad_infer(c);
}
inline status activation_grad_run(run_context& c) {
    element_parameters p;
    p.k = c.integer("activation", 0);
    p.a = static_cast<double>(c.real("alpha", 0));
    p.b = static_cast<double>(c.real("beta", 0));
    return binary_elementwise(c, c.in[1].extents, activation_grad_real, nullptr, p);
}

inline op_table activation_training_ops() {
    static constexpr op_row rows[] = {
        own("ReluGrad").inputs(2).functions(masked_grad_infer, relu_grad_run).elementwise()
            .problems("f32[3,17] f32[3,17]; f64[] f64[]; f16[5] f16[5]; bf16[0,4] bf16[0,4]"),
        own("ClipGrad").inputs(2).functions(masked_grad_infer, clip_grad_run).elementwise().attributes("max:f min:f")
            .problems("f32[3,17] f32[3,17] min=-1 max=1; f32[5] f32[5] min=0; f64[4] f64[4] max=0.5; f16[0] f16[0]"),
        own("ActivationGrad").inputs(2).functions(activation_grad_infer, activation_grad_run).elementwise()
            .attributes("activation:i alpha:f beta:f")
            .problems("f32[3,17] f32[3,17] activation=3 alpha=0.1; f32[3,17] f32[3,17] activation=4; f32[3,17] f32[3,17] activation=5; f32[3,17] f32[3,17]~-5:5 "
                      "activation=6 alpha=0.2 beta=0.5; "
                      "f32[3,17] f32[3,17]~-5:5 activation=7; f32[3,17] f32[3,17] activation=8; f32[3,17] f32[3,17]~-5:5 activation=9; f32[3,17] f32[3,17] activation=10; "
                      "f32[3,17] f32[3,17] activation=11 alpha=1.5; f32[3,17] f32[3,17]~-30:30 activation=12; f32[3,17] f32[3,17]~-30:30 activation=13; f16[5] f16[5] "
                      "activation=4; f64[0,2] f64[0,2] activation=4"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return {rows, sizeof rows / sizeof rows[0]};
}

} // namespace ops
GRAFT_END_NAMESPACE
