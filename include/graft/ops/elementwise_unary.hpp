// Element-wise mathematics of one input: roots, exponentials, trigonometry, rounding, tests of floats, bitwise not, identity.
#pragma once

#include "gradient_common.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// The element function of y = expression(x), computed in double.
#define GRAFT_REAL_FUNCTION(id, expression) \
    inline void id##_real(double* block, int n, const element_parameters&) { \
        for (int i = 0; i < n; ++i) { \
            const double x = block[i]; \
            block[i] = expression; \
        } \
    }
// The same with the kernel.
#define GRAFT_REAL_UNARY(id, expression) \
    GRAFT_REAL_FUNCTION(id, expression) \
    inline status id##_run(run_context& c) { return unary_elementwise(c, id##_real, nullptr); }

// The same with a second element function for integers.
#define GRAFT_NUMBER_UNARY(id, expression, whole_expression) \
    GRAFT_REAL_FUNCTION(id, expression) \
    inline void id##_whole(std::int64_t* block, int n, const element_parameters& p) { \
        const bool unsigned64 = p.unsigned64; \
        (void)unsigned64; \
        for (int i = 0; i < n; ++i) { \
            const std::int64_t x = block[i]; \
            block[i] = whole_expression; \
        } \
    } \
    inline status id##_run(run_context& c) { return unary_elementwise(c, id##_real, id##_whole); }

// Abs-1,6,13: y = |x|. The smallest integer stays itself.
GRAFT_NUMBER_UNARY(abs, std::fabs(x), x < 0 && !unsigned64 ? wrapping_sub(0, x) : x)
// Neg-1,6,13: y = -x
GRAFT_NUMBER_UNARY(neg, -x, wrapping_sub(0, x))
inline status neg_infer(infer_context& c) { return same_infer(c, accept::real | accept::signed_integer); }
// Sign-9,13: y = -1, 0 or 1; NaN stays NaN
GRAFT_NUMBER_UNARY(sign, x > 0 ? 1.0 : x < 0 ? -1.0 : x == 0 ? 0.0 : x, x == 0 ? 0 : x > 0 || unsigned64 ? 1 : -1)

// Floor-1,6,13, Ceil-1,6,13: y = the next integer below, above
GRAFT_REAL_UNARY(floor, std::floor(x))
GRAFT_REAL_UNARY(ceil, std::ceil(x))
// Round-11,22: y = the nearest integer, halves to even
GRAFT_REAL_UNARY(round, std::nearbyint(x))
// Sqrt-1,6,13: y = x^(1/2); NaN below zero
GRAFT_REAL_UNARY(sqrt, std::sqrt(x))
// Reciprocal-1,6,13: y = 1 / x
GRAFT_REAL_UNARY(reciprocal, (x == 0 ? std::copysign(HUGE_VAL, x) : 1 / x))
// Exp-1,6,13, Log-1,6,13
GRAFT_REAL_UNARY(exp, std::exp(x))
GRAFT_REAL_UNARY(log, std::log(x))
// Erf-9,13: y = 2 / sqrt(pi) * integral of exp(-t^2) from 0 to x
GRAFT_REAL_UNARY(erf, std::erf(x))
inline status erf_infer(infer_context& c) { return same_infer(c, c.version() < 13 ? accept::number : accept::real); }
// Sin-7,22, Cos-7,22, Tan-7,22, Asin-7,22, Acos-7,22, Atan-7,22, Sinh-9,22, Cosh-9,22, Asinh-9,22, Acosh-9,22,
// Atanh-9,22
GRAFT_REAL_UNARY(sin, std::sin(x))
GRAFT_REAL_UNARY(cos, std::cos(x))
GRAFT_REAL_UNARY(tan, std::tan(x))
GRAFT_REAL_UNARY(asin, std::asin(x))
GRAFT_REAL_UNARY(acos, std::acos(x))
GRAFT_REAL_UNARY(atan, std::atan(x))
GRAFT_REAL_UNARY(sinh, std::sinh(x))
GRAFT_REAL_UNARY(cosh, std::cosh(x))
GRAFT_REAL_UNARY(asinh, std::asinh(x))
GRAFT_REAL_UNARY(acosh, std::acosh(x))
GRAFT_REAL_UNARY(atanh, std::atanh(x))

// Not-1: y = !x, of bools
GRAFT_NUMBER_UNARY(logical_not, x == 0, x == 0)
inline status not_infer(infer_context& c) { return same_infer(c, accept::boolean); }
// BitwiseNot-18: y = ~x
GRAFT_NUMBER_UNARY(bitwise_not, x, ~x)
inline status bitwise_not_infer(infer_context& c) { return same_infer(c, accept::integer); }
#undef GRAFT_REAL_UNARY
#undef GRAFT_REAL_FUNCTION
#undef GRAFT_NUMBER_UNARY

// IsNaN-9,13,20: y = whether x is not a number. IsInf-10,20: whether x is +inf (detect_positive) or -inf (detect_negative)
inline status float_test_infer(infer_context& c) {
    if (!is_float(c.in[0].type)) return refuse_type(c, 0);
    return c.set(0, dtype::boolean, c.in[0].extents);
}
inline void is_nan_real(double* x, int n, const element_parameters&) {
    for (int i = 0; i < n; ++i) x[i] = x[i] != x[i];
}
inline status is_nan_run(run_context& c) { return unary_elementwise(c, is_nan_real, nullptr); }
inline void is_inf_real(double* x, int n, const element_parameters& p) {
    for (int i = 0; i < n; ++i) x[i] = std::isinf(x[i]) && (x[i] > 0 ? p.k != 0 : p.m != 0);
}
inline status is_inf_run(run_context& c) {
    element_parameters p;
    p.k = c.integer("detect_positive", 1);
    p.m = c.integer("detect_negative", 1);
    return unary_elementwise(c, is_inf_real, nullptr, p);
}

// Identity-1,13,14,16,19,21,23,24,25: y = x, of tensors
inline status identity_run(run_context& c) { return copy_input(c); }

// Gradients: dx = dy * expression, where x is the input and y the output.
#define GRAFT_UNARY_GRADIENT(id, expression) \
    inline status id##_gradient(gradient_context& c) { \
        emitter& e = c.build; \
        const value_id x = c.in(0), y = c.out(); \
        const value_id dy = c.dy(); \
        (void)e, (void)x, (void)y; \
        c.give(0, expression); \
        return {}; \
    }
GRAFT_UNARY_GRADIENT(abs, e.mul(dy, e.apply("Sign", {x})))
GRAFT_UNARY_GRADIENT(neg, e.neg(dy))
GRAFT_UNARY_GRADIENT(sqrt, e.div(dy, scaled(c, y, 2)))
GRAFT_UNARY_GRADIENT(reciprocal, e.neg(e.mul(dy, e.mul(y, y))))
GRAFT_UNARY_GRADIENT(exp, e.mul(dy, y))
GRAFT_UNARY_GRADIENT(log, e.div(dy, x))
GRAFT_UNARY_GRADIENT(erf, e.mul(dy, scaled(c, e.apply("Exp", {e.neg(e.mul(x, x))}), 1.12837916709551257390)))  // 2 / sqrt(pi)
GRAFT_UNARY_GRADIENT(sin, e.mul(dy, e.apply("Cos", {x})))
GRAFT_UNARY_GRADIENT(cos, e.neg(e.mul(dy, e.apply("Sin", {x}))))
GRAFT_UNARY_GRADIENT(tan, e.mul(dy, shifted(c, e.mul(y, y), 1)))
GRAFT_UNARY_GRADIENT(asin, e.div(dy, e.apply("Sqrt", {shifted(c, e.neg(e.mul(x, x)), 1)})))
GRAFT_UNARY_GRADIENT(acos, e.neg(e.div(dy, e.apply("Sqrt", {shifted(c, e.neg(e.mul(x, x)), 1)}))))
GRAFT_UNARY_GRADIENT(atan, e.div(dy, shifted(c, e.mul(x, x), 1)))
GRAFT_UNARY_GRADIENT(sinh, e.mul(dy, e.apply("Cosh", {x})))
GRAFT_UNARY_GRADIENT(cosh, e.mul(dy, e.apply("Sinh", {x})))
GRAFT_UNARY_GRADIENT(asinh, e.div(dy, e.apply("Sqrt", {shifted(c, e.mul(x, x), 1)})))
GRAFT_UNARY_GRADIENT(acosh, e.div(dy, e.apply("Sqrt", {shifted(c, e.mul(x, x), -1)})))
GRAFT_UNARY_GRADIENT(atanh, e.div(dy, shifted(c, e.neg(e.mul(x, x)), 1)))
GRAFT_UNARY_GRADIENT(identity, dy)
#undef GRAFT_UNARY_GRADIENT

inline op_table elementwise_unary_ops() {
    static constexpr op_row rows[] = {
        onnx("Abs")
            .inputs(1)
            .functions(number_infer, abs_run)
            .elementwise()
            .attributes("consumed_inputs:is")
            .problems("f32[3,17]; i8{-128,-1,0,127}; u64[5]; f16[]; f64[0,4]"),
        onnx("Neg")
            .inputs(1)
            .functions(neg_infer, neg_run)
            .elementwise()
            .linear(linearity::first)
            .attributes("consumed_inputs:is")
            .problems("f32[3,17]; i32[7]; bf16[]; f32[2,0]"),
        onnx("Sign").opsets(9).inputs(1).functions(number_infer, sign_run).elementwise().problems("f32{-2,0,3}; i16[9]; u64[3]; f32[]; f64[0]"),
        onnx("Floor").inputs(1).functions(real_infer, floor_run).elementwise().attributes("consumed_inputs:is").problems("f32[3,17]; f64[5]; f16[0]; f32[]"),
        onnx("Ceil").inputs(1).functions(real_infer, ceil_run).elementwise().attributes("consumed_inputs:is").problems("f32[3,17]; f64[5]; f16[0]; f32[]"),
        onnx("Round")
            .opsets(11)
            .inputs(1)
            .functions(real_infer, round_run)
            .elementwise()
            .problems("f32{-2.5,-1.5,-0.5,0.5,1.5,2.5}; f32[3,17]; f64[5]; f16[0]; f32[]"),
        onnx("Sqrt")
            .inputs(1)
            .functions(real_infer, sqrt_run)
            .elementwise()
            .widens()
            .attributes("consumed_inputs:is")
            .problems("f32[3,17]~0:9; f32{-1,0,4}; f16[5]~0:2; f32[0]; f32[]~1:2"),
        onnx("Reciprocal")
            .inputs(1)
            .functions(real_infer, reciprocal_run)
            .elementwise()
            .widens()
            .attributes("consumed_inputs:is")
            .problems("f32[3,17]~0.5:2; f32{0,-0.0}; f16[5]~1:2; f32[0]"),
        onnx("Exp")
            .inputs(1)
            .functions(real_infer, exp_run)
            .elementwise()
            .widens()
            .attributes("consumed_inputs:is")
            .problems("f32[3,17]; f32{-200,-80,0,80,100}; f64[5]; f16[0]; f32[]"),
        onnx("Log")
            .inputs(1)
            .functions(real_infer, log_run)
            .elementwise()
            .attributes("consumed_inputs:is")
            .problems("f32[3,17]~0.01:9; f32{-1,0,1}; f64[5]~1:2; f16[0]"),
        onnx("Erf").opsets(9).inputs(1).functions(erf_infer, erf_run).elementwise().widens().problems("f32[3,17]; f32{-6,-3,0,3,6}; f64[5]; i32[3] @9; f16[0]"),
        onnx("Sin").opsets(7).inputs(1).functions(real_infer, sin_run).elementwise().problems("f32[3,17]~-9:9; f64[5]; f16[0]; f32[]"),
        onnx("Cos").opsets(7).inputs(1).functions(real_infer, cos_run).elementwise().problems("f32[3,17]~-9:9; f64[5]; f16[0]; f32[]"),
        onnx("Tan").opsets(7).inputs(1).functions(real_infer, tan_run).elementwise().problems("f32[3,17]~-1.5:1.5; f64[5]~-1:1; f16[0]"),
        onnx("Asin").opsets(7).inputs(1).functions(real_infer, asin_run).elementwise().problems("f32[3,17]~-1:1; f32{2}; f64[5]~-1:1; f16[0]"),
        onnx("Acos").opsets(7).inputs(1).functions(real_infer, acos_run).elementwise().problems("f32[3,17]~-1:1; f32{2}; f64[5]~-1:1; f16[0]"),
        onnx("Atan").opsets(7).inputs(1).functions(real_infer, atan_run).elementwise().problems("f32[3,17]~-9:9; f64[5]; f16[0]; f32[]"),
        onnx("Sinh").opsets(9).inputs(1).functions(real_infer, sinh_run).elementwise().problems("f32[3,17]; f64[5]; f16[0]; f32[]"),
        onnx("Cosh").opsets(9).inputs(1).functions(real_infer, cosh_run).elementwise().problems("f32[3,17]; f64[5]; f16[0]; f32[]"),
        onnx("Asinh").opsets(9).inputs(1).functions(real_infer, asinh_run).elementwise().problems("f32[3,17]~-9:9; f64[5]; f16[0]"),
        onnx("Acosh").opsets(9).inputs(1).functions(real_infer, acosh_run).elementwise().problems("f32[3,17]~1:9; f32{0}; f64[5]~1:2; f16[0]"),
        onnx("Atanh").opsets(9).inputs(1).functions(real_infer, atanh_run).elementwise().problems("f32[3,17]~-0.9:0.9; f32{1,2}; f64[5]~-0.5:0.5; f16[0]"),
        onnx("Not").inputs(1).functions(not_infer, logical_not_run).elementwise().problems("b[3,17]; b[]; b[0,2]"),
        onnx("BitwiseNot").opsets(18).inputs(1).functions(bitwise_not_infer, bitwise_not_run).elementwise().problems("i32[3,5]; u8[9]; u64[3]; i16[0]"),
        onnx("IsNaN").opsets(9).inputs(1).functions(float_test_infer, is_nan_run).elementwise().problems("f32{0,nan,inf}; f64[3]; f16[0]; f32[]"),
        onnx("IsInf")
            .opsets(10)
            .inputs(1)
            .functions(float_test_infer, is_inf_run)
            .elementwise()
            .attributes("detect_negative:i detect_positive:i")
            .problems("f32{0,nan,inf,-inf}; f32{inf,-inf} detect_negative=0; f64{inf,-inf} detect_positive=0; f16[0]"),
        onnx("Identity")
            .inputs(1)
            .functions(any_infer, identity_run)
            .elementwise()
            .view()
            .copies()
            .widens()
            .problems("f32[3,17]; b[4]; i64[]; u16[0,3]; f16[5]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table elementwise_unary_gradients() {
    static constexpr gradient_row rows[] = {
        {"Abs", "", abs_gradient},
        {"Neg", "", neg_gradient},
        {"Sqrt", "", sqrt_gradient},
        {"Reciprocal", "", reciprocal_gradient},
        {"Exp", "", exp_gradient},
        {"Log", "", log_gradient},
        {"Erf", "", erf_gradient},
        {"Sin", "", sin_gradient},
        {"Cos", "", cos_gradient},
        {"Tan", "", tan_gradient},
        {"Asin", "", asin_gradient},
        {"Acos", "", acos_gradient},
        {"Atan", "", atan_gradient},
        {"Sinh", "", sinh_gradient},
        {"Cosh", "", cosh_gradient},
        {"Asinh", "", asinh_gradient},
        {"Acosh", "", acosh_gradient},
        {"Atanh", "", atanh_gradient},
        {"Identity", "", identity_gradient},
        {"Sign", "", nullptr},
        {"Floor", "", nullptr},
        {"Ceil", "", nullptr},
        {"Round", "", nullptr},
        {"IsNaN", "", nullptr},
        {"IsInf", "", nullptr},
    };
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
