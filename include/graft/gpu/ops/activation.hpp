// Rules of activation functions, of their slopes, and of what lowering makes of them with a scale or a sum before.
#pragma once

#include "../codegen/element.hpp"
#include "../../graph/activation.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The rules of ops/activation.hpp, and of Activation, ScaleShift and Sum of ops/lowered.hpp.
rule_table activation_rules();

/// act(x), for what follows a convolution, a matrix product or a sum.
operand activate(element_emitter& e, const operand& x, activation kind, float alpha, float beta);
/// The same by the attributes activation, alpha and beta of a node.
operand activate(const rule_call& r, const operand& x);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/activation.hpp"
#include "elementwise.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// A call of an activation's function of the prelude, or of its slope's.
inline std::string activation_call(activation kind, bool slope) {
    const ops::activation_entry& entry = ops::activation_entries[static_cast<int>(kind)];
    return std::string(slope ? "slope_" : "") + entry.name + (entry.beta.name ? "(%, %, %)" : entry.alpha.name ? "(%, %)" : "(%)");
}

// x of a real type in `text`, with one or two attributes behind it.
inline operand emit_real(const rule_call& r) { return r.e.make(r.type(), r.text, {r.in(0)}); }
inline operand with_attribute(const rule_call& r, const char* name, float otherwise) {
    return r.e.make(r.type(), r.text, {r.in(0), r.attribute(name, otherwise)});
}

// What the operator's row says that it is.
inline operand emit_by_row(const rule_call& r) {
    epilogue after;
    return ops::row_of(r.c.n).traits.activates(r.c, after) ? activate(r.e, r.in(0), after.act, after.alpha, after.beta)
                                                           : r.e.refuse("an activation that is not known");
}
inline operand emit_alpha_one(const rule_call& r) { return with_attribute(r, "alpha", 1.0f); }
inline operand emit_selu(const rule_call& r) {
    const bool old = r.c.version() < 6;
    const operand alpha = r.attribute("alpha", old ? 1.6732f : 1.67326319217681884765625f),
                  gamma = r.attribute("gamma", old ? 1.0507f : 1.05070102214813232421875f);
    return r.e.make(r.type(), r.text, {r.in(0), alpha, gamma});
}
inline operand emit_swiglu(const rule_call& r) { return r.e.make(r.type(), r.text, {r.in(0), r.in(1), r.attribute("alpha", 1.0f)}); }
// Integers are shrunk as numbers, and what comes of it is cut.
inline operand emit_shrink(const rule_call& r) {
    const dtype from = r.c.in[0].type, type = is_float(from) ? r.type() : dtype::float64;
    const operand lambd = r.e.number(type, static_cast<double>(r.c.real("lambd", 0.5f))), bias = r.e.number(type, static_cast<double>(r.c.real("bias", 0)));
    const operand y = r.e.make(type, r.text, {r.e.convert(r.in(0), type), lambd, bias});
    return is_float(from) ? y : cast(r.e, y, type, from);
}
inline operand emit_prelu(const rule_call& r) {
    shape slope;
    if (!ops::prelu_slope(r.c, slope).ok()) return r.e.refuse("its slope does not fit");
    std::vector<int> axes;
    for (int d = 0; d < r.c.in[1].extents.rank(); ++d) axes.push_back(d);
    const operand s = r.in(1, with_axes(broadcast_to(r.at, slope), axes));
    return r.e.make(r.type(), form(r.text, is_float(r.type())).c_str(), {r.in(0), r.e.convert(s, r.type())});
}
// The bounds are attributes before opset 11, inputs since; one that is left out bounds nothing.
inline operand emit_clip(const rule_call& r) {
    operand low, high;
    if (r.c.has_attribute("min")) low = r.attribute("min", 0);
    if (r.c.has_attribute("max")) high = r.attribute("max", 0);
    low = r.e.convert(r.scalar(1, low), r.type());
    high = r.e.convert(r.scalar(2, high), r.type());
    operand x = r.in(0);
    if (low) x = r.e.make(r.type(), "% < % ? % : %", {x, low, low, x});
    if (high) x = r.e.make(r.type(), "% > % ? % : %", {x, high, high, x});
    return x;
}

inline operand emit_activation(const rule_call& r) { return activate(r, r.in(0)); }
inline operand emit_sum(const rule_call& r) { return activate(r, r.e.make(r.type(), "% + %", {r.in(0), r.e.convert(r.in(1), r.type())})); }
// Scale and shift have an element for each channel, or for each channel of each image.
inline operand emit_scale_shift(const rule_call& r) {
    const shape& x = r.at.extents;
    if (x.rank() < 2) return r.e.refuse("it has no channels");
    operand y = r.in(0);
    for (int i = 1; i <= 2; ++i) {
        if (!r.c.has(i)) continue;
        const std::int64_t n = r.c.in[i].elements();
        if (n != x[1] && n != x[0] * x[1]) return r.e.refuse("its scale or shift has not one number a channel");
        const position of_channels = with_axes(r.at, n == x[1] ? std::vector<int>{1} : std::vector<int>{0, 1});
        const operand s = r.e.convert(r.in(i, walk(r.c.in[i].extents, layout::row_major, r.e.number(of_channels))), r.type());
        y = r.e.make(r.type(), i == 1 ? "% * %" : "% + %", {y, s});
    }
    return activate(r, y);
}

// dy where low < y < high. The bounds are rounded as y is in memory: else values at a bound would pass.
inline operand masked_gradient(const rule_call& r, double low, double high) {
    const dtype type = r.c.in[1].type;
    const double lowest = ops::rounded_to(type, low), highest = ops::rounded_to(type, high);
    operand y = r.in(1);
    const bool exact = lowest == low && highest == high;
    if (!exact && type != compute_type(type)) y = r.e.make(type, (std::string("rounded<") + memory_name(type) + ">(%)").c_str(), {y});
    return r.e.make(r.type(), "% > % && % < % ? % : 0", {y, r.e.number(type, lowest), y, r.e.number(type, highest), r.in(0)});
}
inline operand emit_relu_grad(const rule_call& r) { return masked_gradient(r, 0, HUGE_VAL); }
inline operand emit_clip_grad(const rule_call& r) {
    return masked_gradient(r, static_cast<double>(r.c.real("min", -HUGE_VALF)), static_cast<double>(r.c.real("max", HUGE_VALF)));
}
inline operand emit_activation_grad(const rule_call& r) {
    const std::int64_t kind = r.c.integer("activation", 0);
    if (kind < 0 || kind >= activation_count) return r.e.refuse("an activation that is not known");
    const operand slope = r.e.make(r.type(), activation_call(static_cast<activation>(kind), true).c_str(),
                                   {r.e.convert(r.in(1), r.type()), r.attribute("alpha", 0), r.attribute("beta", 0)});
    return r.e.make(r.type(), "% * %", {r.in(0), slope});
}

}  // namespace detail

GRAFT_INLINE operand activate(element_emitter& e, const operand& x, activation kind, float alpha, float beta) {
    if (kind == activation::none || !x) return x;
    if (static_cast<int>(kind) >= activation_count) return e.refuse("an activation that is not known");
    return e.make(x.type, detail::activation_call(kind, false).c_str(),
                  {x, e.number(x.type, static_cast<double>(alpha)), e.number(x.type, static_cast<double>(beta))});
}
GRAFT_INLINE operand activate(const rule_call& r, const operand& x) {
    const std::int64_t kind = r.c.integer("activation", 0);
    if (kind < 0 || kind >= activation_count) return r.e.refuse("an activation that is not known");
    return activate(r.e, x, static_cast<activation>(kind), r.c.real("alpha", 0), r.c.real("beta", 0));
}

GRAFT_INLINE rule_table activation_rules() {
    using namespace detail;
    constexpr unsigned same = element_rule::same;
    static constexpr element_rule rows[] = {
        {"Relu", "", same, emit_real, "relu(%)"},
        {"ThresholdedRelu", "", same, emit_alpha_one, "thresholded_relu(%, %)"},
        {"Selu", "", same, emit_selu, "selu(%, %, %)"},
        {"Celu", "", same, emit_alpha_one, "celu(%, %)"},
        {"Softsign", "", same, emit_real, "softsign(%)"},
        {"Swish", "", same, emit_alpha_one, "swish(%, %)"},
        {"SwiGLU", "", same, emit_swiglu, "swiglu(%, %, %)"},
        {"Shrink", "", same, emit_shrink, "shrink(%, %, %)"},
        {"Clip", "", same, emit_clip, ""},
        {"PRelu", "", same, emit_prelu, "leaky_relu(%, %)|wrapping_leaky_relu(%, %)"},
        {"Activation", "graft", same, emit_activation, ""},
        {"ScaleShift", "graft", same, emit_scale_shift, ""},
        {"Sum", "graft", same, emit_sum, ""},
        {"ReluGrad", "graft", same, emit_relu_grad, ""},
        {"ClipGrad", "graft", same, emit_clip_grad, ""},
        {"ActivationGrad", "graft", same, emit_activation_grad, ""},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
