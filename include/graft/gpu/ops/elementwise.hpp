// Rules of element-wise operators: functions of one and more inputs, comparisons, choices, conversions.
#pragma once

#include "../codegen/element.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The rules of ops/elementwise_unary.hpp, elementwise_binary.hpp, elementwise_variadic.hpp, logical.hpp and cast.hpp.
rule_table elementwise_rules();

/// x, an element of the type `from` of memory, in the type `to` as Cast has it: floats rounded once, cut to integers, which wrap.
operand cast(element_emitter& e, const operand& x, dtype from, dtype to);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/elementwise_binary.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE operand cast(element_emitter& e, const operand& x, dtype from, dtype to) {
    if (!x || from == to) return x;
    const bool narrow = to == dtype::float16 || to == dtype::bfloat16;
    const std::string type = memory_name(to);
    if (to == dtype::boolean) return e.make(to, "% != 0", {x});
    if (!is_float(to)) return is_float(from) ? e.make(to, ("(" + type + ")cut(%)").c_str(), {x}) : e.convert(x, to);
    if (!narrow) return e.convert(x, to);
    // Through float in one step where float holds the number exactly; float16 is infinite where float does not hold an integer.
    const bool exact = compute_type(from) == dtype::float32 || (!is_float(from) && (size_of(from) < 4 || to == dtype::float16));
    const bool whole = !is_float(from) && from != dtype::uint64;
    const operand single = exact ? e.convert(x, dtype::float32) : e.make(dtype::float32, whole ? "to_odd((long long)%)" : "to_odd(%)", {x});
    return e.make(to, ("rounded<" + type + ">(%)").c_str(), {single});
}

namespace detail {

// The half of `text` before | for floats, behind it for integers and bools.
inline std::string form(const char* text, bool real) {
    std::string s = text;
    const std::size_t bar = s.find('|');
    if (bar == std::string::npos) return s;
    return real ? s.substr(0, bar) : s.substr(bar + 1);
}

// Input 1 of a binary operator, aligned as before opset 7 where it has to be.
inline operand second_input(const rule_call& r) {
    shape second, out;
    if (!ops::binary_shapes(r.c, second, out).ok()) return r.e.refuse("its shapes do not fit");
    const position at = broadcast_to(r.at, second);
    std::vector<int> axes;
    for (int d = 0; d < r.c.in[1].extents.rank(); ++d) axes.push_back(d);
    return r.in(1, with_axes(at, axes));
}

inline operand emit_identity(const rule_call& r) { return r.in(0); }
// A function of one number. Integers that have no form of their own go through double, and are cut.
inline operand emit_unary(const rule_call& r) {
    const dtype type = r.type();
    if (is_float(type) || std::strchr(r.text, '|')) return r.e.make(type, form(r.text, is_float(type)).c_str(), {r.in(0)});
    return cast(r.e, r.e.make(dtype::float64, r.text, {r.e.convert(r.in(0), dtype::float64)}), dtype::float64, type);
}
// A function of two numbers of one type.
inline operand emit_binary(const rule_call& r) {
    return r.e.make(r.type(), form(r.text, is_float(r.type())).c_str(), {r.in(0), r.e.convert(second_input(r), r.type())});
}
// The same with an answer that is true or false.
inline operand emit_test(const rule_call& r) { return r.e.make(dtype::boolean, r.text, {r.in(0)}); }
inline operand emit_comparison(const rule_call& r) { return r.e.make(dtype::boolean, r.text, {r.in(0), r.e.convert(second_input(r), r.type())}); }

inline operand emit_is_inf(const rule_call& r) {
    const bool above = r.c.integer("detect_positive", 1) != 0, below = r.c.integer("detect_negative", 1) != 0;
    const operand x = r.in(0), infinity = r.number(HUGE_VAL);
    if (above && below) return r.e.make(dtype::boolean, "abs(%) == %", {x, infinity});
    return above || below ? r.e.make(dtype::boolean, above ? "% == %" : "% == -%", {x, infinity}) : operand{"false", dtype::boolean, level::thread};
}
inline operand emit_mod(const rule_call& r) {
    const char* text = r.c.integer("fmod", 0) ? "remainder_toward_zero(%, %)" : "remainder_floored(%, %)";
    return r.e.make(r.type(), text, {r.in(0), r.e.convert(second_input(r), r.type())});
}
inline operand emit_bit_shift(const rule_call& r) {
    return r.e.make(r.type(), r.c.is("direction", "LEFT", "") ? "shift_left(%, %)" : "shift_right(%, %)", {r.in(0), r.e.convert(second_input(r), r.type())});
}
// In the type of x; where only one of the two is an integer, in double, as rounding a power down could lose a whole.
inline operand emit_pow(const rule_call& r) {
    const dtype type = r.type(), power = r.type(1);
    const operand x = r.in(0), y = second_input(r);
    if (!is_float(type) && !is_float(power)) return r.e.make(type, "integer_pow(%, (long long)%)", {x, y});
    if (!is_float(type)) return cast(r.e, r.e.make(dtype::float64, "pow((double)%, (double)%)", {x, y}), dtype::float64, r.c.in[0].type);
    const tensor_view& exponent = r.c.in[1];
    if (exponent.data && exponent.elements() == 1 && exponent.real(0) == 2) return r.e.make(type, "% * %", {x, x});
    if (type == dtype::float64 || power == dtype::float64) return r.e.convert(r.e.make(dtype::float64, "pow((double)%, (double)%)", {x, y}), type);
    return r.e.make(type, "pow(%, %)", {x, r.e.convert(y, type)});
}
inline operand emit_where(const rule_call& r) {
    const dtype type = compute_type(r.c.in[1].type);
    return r.e.make(type, "% ? % : %", {r.in(0), r.in(1), r.e.convert(r.in(2), type)});
}
inline operand emit_cast(const rule_call& r) { return cast(r.e, r.in(0), r.c.in[0].type, r.c.out[0].type); }

inline operand emit_variadic(const rule_call& r) {
    operand x = r.in(0);
    for (int i = 1; i < r.c.inputs; ++i) x = r.e.make(r.type(), r.text, {x, r.e.convert(r.in(i), r.type())});
    return x;
}
inline operand emit_mean(const rule_call& r) { return r.e.make(r.type(), "% * %", {emit_variadic(r), r.number(1.0 / r.c.inputs)}); }

}  // namespace detail

GRAFT_INLINE rule_table elementwise_rules() {
    using namespace detail;
    constexpr unsigned same = element_rule::same;
    static constexpr element_rule rows[] = {
        {"Identity", "", same, emit_identity, ""},
        {"Abs", "", same, emit_unary, "abs(%)|wrapping_abs(%)"},
        {"Neg", "", same, emit_unary, "-(%)|wrapping_neg(%)"},
        {"Sign", "", same, emit_unary, "sign(%)|sign(%)"},
        {"Floor", "", same, emit_unary, "floor(%)"},
        {"Ceil", "", same, emit_unary, "ceil(%)"},
        {"Round", "", same, emit_unary, "round(%)"},
        {"Sqrt", "", same, emit_unary, "sqrt(%)"},
        {"Reciprocal", "", same, emit_unary, "reciprocal(%)"},
        {"Exp", "", same, emit_unary, "exp(%)"},
        {"Log", "", same, emit_unary, "log(%)"},
        {"Erf", "", same, emit_unary, "erf(%)"},
        {"Sin", "", same, emit_unary, "sin(%)"},
        {"Cos", "", same, emit_unary, "cos(%)"},
        {"Tan", "", same, emit_unary, "tan(%)"},
        {"Asin", "", same, emit_unary, "asin(%)"},
        {"Acos", "", same, emit_unary, "acos(%)"},
        {"Atan", "", same, emit_unary, "atan(%)"},
        {"Sinh", "", same, emit_unary, "sinh(%)"},
        {"Cosh", "", same, emit_unary, "cosh(%)"},
        {"Tanh", "", same, emit_unary, "tanh(%)"},
        {"Asinh", "", same, emit_unary, "asinh(%)"},
        {"Acosh", "", same, emit_unary, "acosh(%)"},
        {"Atanh", "", same, emit_unary, "atanh(%)"},
        {"Not", "", same, emit_unary, "|!%"},
        {"BitwiseNot", "", same, emit_unary, "|~%"},
        {"IsNaN", "", same, emit_test, "is_nan(%)"},
        {"IsInf", "", same, emit_is_inf, ""},
        {"Add", "", same, emit_binary, "% + %|wrapping_add(%, %)"},
        {"Sub", "", same, emit_binary, "% - %|wrapping_sub(%, %)"},
        {"Mul", "", same, emit_binary, "% * %|wrapping_mul(%, %)"},
        {"Div", "", same, emit_binary, "divide(%, %)|quotient(%, %)"},
        {"Mod", "", same, emit_mod, ""},
        {"Pow", "", same, emit_pow, ""},
        {"BitwiseAnd", "", same, emit_binary, "% & %"},
        {"BitwiseOr", "", same, emit_binary, "|% | %"},
        {"BitwiseXor", "", same, emit_binary, "% ^ %"},
        {"BitShift", "", same, emit_bit_shift, ""},
        {"And", "", same, emit_comparison, "% && %"},
        {"Or", "", same, emit_comparison, "% || %"},
        {"Xor", "", same, emit_comparison, "% != %"},
        {"Equal", "", same, emit_comparison, "% == %"},
        {"Less", "", same, emit_comparison, "% < %"},
        {"LessOrEqual", "", same, emit_comparison, "% <= %"},
        {"Greater", "", same, emit_comparison, "% > %"},
        {"GreaterOrEqual", "", same, emit_comparison, "% >= %"},
        {"Where", "", same, emit_where, ""},
        {"Max", "", same, emit_variadic, "maximum(%, %)"},
        {"Min", "", same, emit_variadic, "minimum(%, %)"},
        {"Sum", "", same, emit_variadic, "% + %"},
        {"Mean", "", same, emit_mean, "% + %"},
        {"Cast", "", same, emit_cast, ""},
        {"CastLike", "", same, emit_cast, ""},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
