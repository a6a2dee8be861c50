// Rules of QuantizeLinear and DequantizeLinear, by one scale or one for each index of an axis; and DynamicQuantizeLinear as other operators.
#pragma once

#include "../lower/decompose.hpp"
#include "elementwise.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The rules of ops/quantize.hpp, between float32 and integers of 8 and 16 bits.
rule_table quantize_rules();

/// DynamicQuantizeLinear of the same file.
decomposition_table quantize_decompositions();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/quantize.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// Scale and zero point of the element, or why they are not taken.
struct quantization {
    operand scale, zero;
    const char* refused = nullptr;
};
inline quantization read_quantization(const rule_call& r, dtype real, dtype whole, bool divisor) {
    quantization made;
    ops::quantization_layout q;
    // A half here is a float32 of the graph that lies in memory so: a network of halves has scales of halves.
    if (compute_type(real) != dtype::float32 || r.c.in[1].type != dtype::float32 ||
        !(whole == dtype::uint8 || whole == dtype::int8 || whole == dtype::uint16 || whole == dtype::int16))
        made.refused = "its types are not float32 and integers of 8 or 16 bits";
    else if (!ops::plan_quantization(r.c, q).ok() || q.blocked)
        made.refused = "its scales lie in blocks";
    // Zero or NaN among constant scales is an error, which the host reports.
    else if (r.c.in[1].data && !ops::check_scales(r.c, 1, divisor).ok())
        made.refused = "one of its scales is zero or not a number";
    if (made.refused) return made;
    std::vector<int> axes;
    if (!q.per_tensor) {
        const std::int64_t axis = r.c.version() < 13 ? 1 : r.c.integer("axis", 1);
        axes.push_back(static_cast<int>(axis < 0 ? axis + r.at.extents.rank() : axis));
    } else
        axes.assign(static_cast<std::size_t>(r.c.in[1].extents.rank()), -1);
    made.scale = r.in(1, with_axes(r.at, axes));
    if (r.c.has(2)) {
        if (q.per_tensor) axes.assign(static_cast<std::size_t>(r.c.in[2].extents.rank()), -1);
        made.zero = r.e.convert(r.in(2, with_axes(r.at, axes)), dtype::float32);
    } else
        made.zero = r.e.number(dtype::float32, 0);
    return made;
}

// NaN becomes the smallest, as the comparison has it.
inline operand emit_quantize(const rule_call& r) {
    if (r.c.integer("precision", 0)) return r.e.refuse("it asks for a precision of its own");
    const dtype type = r.c.out[0].type;
    const quantization q = read_quantization(r, r.c.in[0].type, type, true);
    if (q.refused) return r.e.refuse(q.refused);
    double low = 0, high = 0;
    ops::quantized_range(type, low, high);
    const operand y = r.e.make(dtype::float32, "round(% / %) + %", {r.in(0), q.scale, q.zero}), least = r.e.number(dtype::float32, low),
                  most = r.e.number(dtype::float32, high);
    return cast(r.e, r.e.make(dtype::float32, "% >= % ? % : % > % ? % : %", {y, most, most, y, least, y, least}), dtype::float32, type);
}
inline operand emit_dequantize(const rule_call& r) {
    const quantization q = read_quantization(r, r.c.out[0].type, r.c.in[0].type, false);
    if (q.refused) return r.e.refuse(q.refused);
    return r.e.make(dtype::float32, "(% - %) * %", {r.e.convert(r.in(0), dtype::float32), q.zero, q.scale});
}

// What lies outside of [low, high] becomes its border, and what is no number `low`, as ops::saturate has it.
inline value_id saturated(const decomposition& d, value_id x, double low, double high) {
    emitter& e = d.build;
    const value_id least = e.number(low, x), most = e.number(high, x);
    const value_id below = e.apply("Where", {e.apply("Greater", {x, least}), x, least});
    return e.apply("Where", {e.apply("GreaterOrEqual", {x, most}), most, below});
}

// What is no number is neither the least nor the most.
inline const char* decompose_dynamic_quantize(decomposition& d) {
    emitter& e = d.build;
    if (d.any_empty()) return "it is empty";
    const value_id x = d.in[0], zero = e.number(0, x);
    const auto border = [&](const char* compare, const char* reduce) {
        return e.apply(reduce, {e.apply("Where", {e.apply(compare, {x, zero}), x, zero})}, {integer_attribute("keepdims", 0)});
    };
    const value_id low = border("Less", "ReduceMin"), high = border("Greater", "ReduceMax");
    const value_id scale = e.apply("Where", {e.apply("Equal", {high, low}), e.number(1, x), e.div(e.sub(high, low), e.number(255, x))});
    const value_id shift = e.apply("Round", {saturated(d, e.sub(zero, e.div(low, scale)), 0, 255)});
    d.out[1] = scale;
    d.out[2] = d.cast(shift, dtype::uint8);
    d.out[0] = d.cast(saturated(d, e.add(e.apply("Round", {e.div(x, scale)}), shift), 0, 255), dtype::uint8);
    return nullptr;
}

}  // namespace detail

GRAFT_INLINE decomposition_table quantize_decompositions() {
    static constexpr decomposition_row rows[] = {{"DynamicQuantizeLinear", "", detail::decompose_dynamic_quantize, true}};
    return rows;
}
GRAFT_INLINE rule_table quantize_rules() {
    static constexpr element_rule rows[] = {
        {"QuantizeLinear", "", element_rule::same, detail::emit_quantize, ""},
        {"DequantizeLinear", "", element_rule::same, detail::emit_dequantize, ""},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
