// Element-wise arithmetic of two inputs with broadcasting: sums, products, quotients, remainders, powers, bits.
#pragma once

#include "gradient_common.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// Element functions of z = f(x, y), in double and in 64-bit integers that wrap, and the kernel.
#define GRAFT_BINARY_WHOLE(id, whole_expression) \
    inline void id##_whole(std::int64_t* block, const std::int64_t* other, int n, const element_parameters& p) { \
        (void)p; \
        for (int i = 0; i < n; ++i) { \
            const std::int64_t x = block[i], y = other[i]; \
            block[i] = whole_expression; \
        } \
    }
#define GRAFT_BINARY(id, expression, whole_expression) \
    inline void id##_real(double* block, const double* other, int n, const element_parameters& p) { \
        (void)p; \
        for (int i = 0; i < n; ++i) { \
            const double x = block[i], y = other[i]; \
            block[i] = expression; \
        } \
    } \
    GRAFT_BINARY_WHOLE(id, whole_expression)

// Inference of operators with two inputs of one accepted type whose output has that type too.
inline status binary_infer(infer_context& c, unsigned accepted) {
    shape second, out;
    GRAFT_TRY(check_type(c, 0, accepted));
    GRAFT_TRY(check_same_type(c, 0, 1));
    GRAFT_TRY(binary_shapes(c, second, out));
    return c.set(0, c.in[0].type, out);
}
inline status arithmetic_infer(infer_context& c) { return binary_infer(c, accept::number); }
inline status bitwise_infer(infer_context& c) { return binary_infer(c, accept::integer); }
inline status binary_run(run_context& c, real_function2 real, integer_function2 whole, element_parameters p = {}) {
    shape second, out;
    GRAFT_TRY(binary_shapes(c, second, out));
    return binary_elementwise(c, second, real, whole, p);
}

// x / y cut toward zero; 0 where y is 0; the smallest integer by -1 wraps.
inline std::int64_t quotient(std::int64_t x, std::int64_t y, bool unsigned64) noexcept {
    if (y == 0) return 0;
    if (unsigned64) return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) / static_cast<std::uint64_t>(y));
    return y == -1 ? wrapping_sub(0, x) : x / y;
}
// x - y * (x / y), with the sign of x; `floored`: with the sign of y. 0 where y is 0.
inline std::int64_t remainder_of(std::int64_t x, std::int64_t y, bool floored, bool unsigned64) noexcept {
    if (y == 0) return 0;
    if (unsigned64) return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) % static_cast<std::uint64_t>(y));
    if (y == -1) return 0;
    const std::int64_t r = x % y;
    return floored && r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
inline double floored_remainder(double x, double y) noexcept {
    const double r = std::fmod(x, y);
    if (r == 0) return std::copysign(0.0, y);
    return r == r && (r < 0) != (y < 0) ? r + y : r;
}
inline double divide(double x, double y) noexcept {
    if (y != 0 || x != x) return x / y;
    return x == 0 || y != y ? std::nan("") : std::copysign(HUGE_VAL, std::signbit(x) == std::signbit(y) ? 1.0 : -1.0);
}
// x^y by squaring, wrapping; a negative power is 1 / x^-y cut toward zero, 0 for x = 0.
inline std::int64_t integer_power(std::int64_t x, std::int64_t y) noexcept {
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    std::int64_t result = 1;
    for (; y; y >>= 1, x = wrapping_mul(x, x))
        if (y & 1) result = wrapping_mul(result, x);
    return result;
}

// Add-1,6,7,13,14, Sub-1,6,7,13,14, Mul-1,6,7,13,14: z = x + y, x - y, x * y
GRAFT_BINARY(add, x + y, wrapping_add(x, y))
GRAFT_BINARY(sub, x - y, wrapping_sub(x, y))
GRAFT_BINARY(mul, x* y, wrapping_mul(x, y))
inline status add_run(run_context& c) { return binary_run(c, add_real, add_whole); }
inline status sub_run(run_context& c) { return binary_run(c, sub_real, sub_whole); }
inline status mul_run(run_context& c) { return binary_run(c, mul_real, mul_whole); }

// Div-1,6,7,13,14: z = x / y, of integers cut toward zero
GRAFT_BINARY(div, divide(x, y), quotient(x, y, p.unsigned64))
inline status div_run(run_context& c) { return binary_run(c, div_real, div_whole); }

// Mod-10,13,28: z = x - y * floor(x / y), or by fmod = 1: x - y * trunc(x / y)
GRAFT_BINARY(mod, p.k ? std::fmod(x, y) : floored_remainder(x, y), remainder_of(x, y, !p.k, p.unsigned64))
inline status mod_infer(infer_context& c) {
    const std::int64_t fmod = c.integer("fmod", 0);
    if (fmod != 0 && fmod != 1) return c.fail(errc::op_attribute, "fmod must be 0 or 1, not %lld", fmod);
    return arithmetic_infer(c);
}
inline status mod_run(run_context& c) {
    element_parameters p;
    p.k = c.integer("fmod", 0);
    return binary_run(c, mod_real, mod_whole, p);
}

// Pow-1,7,12,13,15: z = x^y in the type of x; y may be of another type
GRAFT_BINARY(pow, std::pow(x, y), integer_power(x, y))
inline status pow_infer(infer_context& c) {
    shape second, out;
    if (c.in[0].type != dtype::int32 && c.in[0].type != dtype::int64) GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(check_type(c, 1, accept::number));
    GRAFT_TRY(binary_shapes(c, second, out));
    return c.set(0, c.in[0].type, out);
}
inline status pow_run(run_context& c) { return binary_run(c, pow_real, pow_whole); }

// BitwiseAnd-18, BitwiseOr-18, BitwiseXor-18: z = x & y, x | y, x ^ y
GRAFT_BINARY_WHOLE(bitwise_and, x& y)
GRAFT_BINARY_WHOLE(bitwise_or, x | y)
GRAFT_BINARY_WHOLE(bitwise_xor, x ^ y)
inline status bitwise_and_run(run_context& c) { return binary_run(c, nullptr, bitwise_and_whole); }
inline status bitwise_or_run(run_context& c) { return binary_run(c, nullptr, bitwise_or_whole); }
inline status bitwise_xor_run(run_context& c) { return binary_run(c, nullptr, bitwise_xor_whole); }

// BitShift-11,28: z = x << y or x >> y by direction; a shift by all bits or more, or by less than none, leaves the sign alone
inline std::int64_t bit_shift(std::int64_t x, std::int64_t y, const element_parameters& p) noexcept {
    const bool too_far = static_cast<std::uint64_t>(y) >= static_cast<std::uint64_t>(p.bits);
    if (p.k) return too_far ? 0 : static_cast<std::int64_t>(static_cast<std::uint64_t>(x) << y);
    if (p.unsigned64) return too_far ? 0 : static_cast<std::int64_t>(static_cast<std::uint64_t>(x) >> y);
    return too_far ? (x < 0 ? -1 : 0) : x >> y;
}
GRAFT_BINARY_WHOLE(bit_shift, bit_shift(x, y, p))
inline status bit_shift_infer(infer_context& c) {
    if (!c.is("direction", "LEFT", "") && !c.is("direction", "RIGHT", "")) return c.fail(errc::op_attribute, "direction must be LEFT or RIGHT");
    return bitwise_infer(c);
}
inline status bit_shift_run(run_context& c) {
    element_parameters p;
    p.k = c.is("direction", "LEFT", "");
    return binary_run(c, nullptr, bit_shift_whole, p);
}
#undef GRAFT_BINARY
#undef GRAFT_BINARY_WHOLE

// The second operand with the shape that broadcasts it to the first, as `binary_shapes` aligned it.
struct binary_operands {
    value_id a, b;
    shape second;
};
inline status read_operands(gradient_context& c, binary_operands& o) {
    std::vector<tensor_view> in;
    shape out;
    GRAFT_TRY(binary_shapes(forward_context(c, in), o.second, out));
    o.a = c.in(0);
    o.b = c.build.reshape(c.in(1), o.second);
    return {};
}
inline void give_second(gradient_context& c, const binary_operands& o, value_id gradient) {
    c.give(1, c.build.reshape(c.sum_to(gradient, o.second), c.extents(c.in(1))));
}

inline status add_gradient(gradient_context& c) {
    binary_operands o;
    GRAFT_TRY(read_operands(c, o));
    if (c.wants(0)) c.give_summed(0, c.dy());
    if (c.wants(1)) give_second(c, o, c.dy());
    return {};
}
inline status sub_gradient(gradient_context& c) {
    binary_operands o;
    GRAFT_TRY(read_operands(c, o));
    if (c.wants(0)) c.give_summed(0, c.dy());
    if (c.wants(1)) give_second(c, o, c.build.neg(c.dy()));
    return {};
}
inline status mul_gradient(gradient_context& c) {
    binary_operands o;
    GRAFT_TRY(read_operands(c, o));
    if (c.wants(0)) c.give_summed(0, c.build.mul(c.dy(), o.b));
    if (c.wants(1)) give_second(c, o, c.build.mul(c.dy(), o.a));
    return {};
}
// d(a / b) = da / b - db * y / b
inline status div_gradient(gradient_context& c) {
    binary_operands o;
    GRAFT_TRY(read_operands(c, o));
    const value_id quotient = c.build.div(c.dy(), o.b);
    if (c.wants(0)) c.give_summed(0, quotient);
    if (c.wants(1)) give_second(c, o, c.build.neg(c.build.mul(quotient, c.out())));
    return {};
}
// The quotient is constant between its steps.
inline status mod_gradient(gradient_context& c) {
    binary_operands o;
    GRAFT_TRY(read_operands(c, o));
    if (c.wants(0)) c.give_summed(0, c.dy());
    if (!c.wants(1)) return {};
    emitter& e = c.build;
    const value_id q = e.div(o.a, o.b);
    const value_id whole = c.integer("fmod", 0) ? e.mul(e.apply("Sign", {q}), e.apply("Floor", {e.apply("Abs", {q})})) : e.apply("Floor", {q});
    give_second(c, o, e.neg(e.mul(c.dy(), whole)));
    return {};
}
// d(a^b) = da * b * a^(b-1) + db * y * log(a); as torch, 0 where b is 0, and 0 for b where a is 0 and b is not negative
inline status pow_gradient(gradient_context& c) {
    binary_operands o;
    GRAFT_TRY(read_operands(c, o));
    emitter& e = c.build;
    const value_id dy = c.dy(), b = cast_to(c, o.b, e.type(o.a));
    double power = 0;
    const bool number = constant_number(c, 1, power);
    if (c.wants(0) && number && power == 2)
        c.give_summed(0, e.mul(dy, scaled(c, o.a, 2)));
    else if (c.wants(0) && number && power != 0)
        c.give_summed(0, e.mul(dy, scaled(c, e.apply("Pow", {o.a, e.number(power - 1, o.a)}), power)));
    else if (c.wants(0) && !number) {
        const value_id slope = e.mul(b, e.apply("Pow", {o.a, shifted(c, b, -1)}));
        c.give_summed(0, e.apply("Where", {e.apply("Equal", {b, e.number(0, b)}), e.number(0, b), e.mul(dy, slope)}));
    }
    if (!c.wants(1)) return {};
    const value_id zero = e.number(0, b), none = e.apply("And", {e.apply("Equal", {o.a, zero}), e.apply("GreaterOrEqual", {b, zero})});
    give_second(c, o, e.apply("Where", {none, zero, e.mul(dy, e.mul(c.out(), e.apply("Log", {o.a})))}));
    return {};
}

inline op_table elementwise_binary_ops() {
    static constexpr op_row rows[] = {
        onnx("Add")
            .in_eight_bits(eight_bits::computes)
            .inputs(2)
            .functions(arithmetic_infer, add_run)
            .elementwise()
            .commutes()
            .linear(linearity::joint)
            .weights(0, 1)
            .widens()
            .attributes("axis:i broadcast:i consumed_inputs:is")
            .problems("f32[2,3,17] f32[2,3,17]; f32[2,3,5] f32[3,1]; f32[4,1] f32[1,5]; f32[] f32[3]; u8[9] u8[9]; f16[0,2] f16[2]; "
                      "f32[2,3,4] f32[3] axis=1 broadcast=1 @6"),
        onnx("Sub")
            .inputs(2)
            .functions(arithmetic_infer, sub_run)
            .elementwise()
            .linear(linearity::joint)
            .weights(0, 1)
            .widens()
            .attributes("axis:i broadcast:i consumed_inputs:is")
            .problems("f32[2,3,17] f32[2,3,17]; f32[2,3,5] f32[3,1]; f32[5] f32[]; u64[9] u64[9]; f16[0,2] f16[2]"),
        onnx("Mul")
            .in_eight_bits(eight_bits::computes)
            .inputs(2)
            .functions(arithmetic_infer, mul_run)
            .elementwise()
            .commutes()
            .linear(linearity::either)
            .weights(0, 1)
            .widens()
            .attributes("axis:i broadcast:i consumed_inputs:is")
            .problems("f32[2,3,17] f32[2,3,17]; f32[2,3,5] f32[2,3,1]; f32[] f32[]; i32[9] i32[9]; bf16[0,2] bf16[2]"),
        onnx("Div")
            .inputs(2)
            .functions(arithmetic_infer, div_run)
            .elementwise()
            .linear(linearity::first)
            .weights(0, 1)
            .widens()
            .attributes("axis:i broadcast:i consumed_inputs:is")
            .problems("f32[2,3,17] f32[2,3,17]~1:3; f32[2,3] f32[3]; f32{1,-1,0} f32(0); i32[9] i32{-1,0,1,2,-2,3,-3,4,5}; u64[4] "
                      "u64[4]; f64[0] f64[]"),
        onnx("Mod")
            .opsets(10)
            .inputs(2)
            .functions(mod_infer, mod_run)
            .elementwise()
            .attributes("fmod:i")
            .problems("i32{-4,7,5,4,-7,8} i32{2,-3,8,-2,3,5}; i64{-4,7,5} i64(0); f32[3,5] f32[5]~1:2 fmod=1; f32[4] f32[]~-2:-1; "
                      "u8[0] u8[]"),
        onnx("Pow")
            .inputs(2)
            .functions(pow_infer, pow_run)
            .elementwise()
            .widens()
            .attributes("axis:i broadcast:i")
            .problems("f32[2,9]~0.1:3 f32[9]; f32[5] i64(2); f32[3,17] f32(0.5); i32[6] i32{0,1,2,3,-1,40}; i64[3] f32[3]~0:2; f16[0] "
                      "f16[]"),
        onnx("BitwiseAnd")
            .opsets(18)
            .inputs(2)
            .functions(bitwise_infer, bitwise_and_run)
            .elementwise()
            .commutes()
            .problems("u8[3,9] u8[9]; i64[5] i64[]; i16[0] i16[1]"),
        onnx("BitwiseOr")
            .opsets(18)
            .inputs(2)
            .functions(bitwise_infer, bitwise_or_run)
            .elementwise()
            .commutes()
            .problems("u8[3,9] u8[9]; i64[5] i64[]; i16[0] i16[1]"),
        onnx("BitwiseXor")
            .opsets(18)
            .inputs(2)
            .functions(bitwise_infer, bitwise_xor_run)
            .elementwise()
            .commutes()
            .problems("u8[3,9] u8[9]; i64[5] i64[]; i16[0] i16[1]"),
        onnx("BitShift")
            .opsets(11)
            .inputs(2)
            .functions(bit_shift_infer, bit_shift_run)
            .elementwise()
            .attributes("direction:s")
            .problems("u8[3,9] u8[9] direction=LEFT; u64[5] u64{0,1,63,64,65} direction=RIGHT; i32[3] i32{-1,2,40} direction=RIGHT; "
                      "u16[0] u16[] direction=LEFT"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table elementwise_binary_gradients() {
    static constexpr gradient_row rows[] = {
        {"Add", "", add_gradient}, {"Sub", "", sub_gradient}, {"Mul", "", mul_gradient},
        {"Div", "", div_gradient}, {"Mod", "", mod_gradient}, {"Pow", "", pow_gradient},
    };
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
