// Rules of the optimisers' updates. Their outputs may lie over the inputs that they update: each element is read before it is written.
#pragma once

#include "../codegen/element.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The rules of ops/optimizer.hpp, GlobalNorm aside.
rule_table optimizer_rules();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/optimizer.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// The number that an attribute was meant to be.
inline operand meant(const rule_call& r, const char* name, double otherwise) { return r.number(ops::decimal(r.c, name, otherwise)); }
// The one element of an input as an element of the weights' type.
inline operand scalar_of(const rule_call& r, int i) { return r.e.convert(r.scalar(i, r.number(0)), r.type()); }
inline operand like_weight(const rule_call& r, int i) { return r.c.has(i) ? r.e.convert(r.in(i), r.type()) : r.number(0); }
// `updated` where the loss in input i is a finite number and, as lowering asks for by an attribute, nothing has been refused in the run;
// else what was there.
inline operand if_finite(const rule_call& r, int i, const operand& updated, const operand& before) {
    operand may;
    if (r.c.has(i)) may = r.e.make(dtype::boolean, "is_finite(%)", {r.scalar(i, {})});
    if (r.c.integer("without_faults", 0)) may = r.e.both(may, r.e.make(dtype::boolean, "!%", {r.e.fault_seen()}));
    return may ? r.e.make(updated.type, "% ? % : %", {may, updated, before}) : updated;
}

inline operand emit_sgd(const rule_call& r) {
    const dtype type = r.type();
    element_emitter& e = r.e;
    const operand w = r.in(0), b = like_weight(r, 2), decay = meant(r, "weight_decay", 0);
    operand g = like_weight(r, 1), buffer = b;
    if (r.c.real("weight_decay", 0) != 0) g = e.make(type, "% + % * %", {g, decay, w});
    if (r.c.real("momentum", 0) != 0) {
        const operand momentum = meant(r, "momentum", 0), damped = r.number(1 - ops::decimal(r.c, "dampening", 0));
        buffer = e.make(type, "% * % + % * %", {momentum, b, damped, g});
        g = r.c.integer("nesterov", 0) ? e.make(type, "% + % * %", {g, momentum, buffer}) : buffer;
    }
    if (r.output == 1) return if_finite(r, 4, buffer, b);
    const operand rate = e.make(type, "% * %", {scalar_of(r, 3), meant(r, "rate", 1)});
    return if_finite(r, 4, e.make(type, "% - % * %", {w, rate, g}), w);
}

// 1 - beta^step is -expm1(step * log(beta)), which loses nothing where beta is near 1.
inline operand bias_correction(const rule_call& r, double beta, const operand& step) {
    return beta <= 0 ? r.number(1) : r.e.make(r.type(), "-expm1(% * %)", {step, r.number(std::log(beta))});
}
inline operand emit_adam(const rule_call& r) {
    const dtype type = r.type();
    element_emitter& e = r.e;
    const double beta1 = ops::decimal(r.c, "beta1", 0.9), beta2 = ops::decimal(r.c, "beta2", 0.999), decay = ops::decimal(r.c, "weight_decay", 0);
    if (beta1 >= 1 || beta2 >= 1 || beta1 < 0 || beta2 < 0) return e.refuse("its betas are not in [0, 1)");
    const operand before = r.in(0), m = like_weight(r, 2), v = like_weight(r, 3);
    const operand rate = e.make(type, "% * %", {scalar_of(r, 4), meant(r, "rate", 1)});
    operand w = before, g = like_weight(r, 1);
    if (decay != 0 && r.c.integer("decoupled", 0))
        w = e.make(type, "% * %", {w, e.make(type, "1 - % * %", {rate, r.number(decay)})});
    else if (decay != 0)
        g = e.make(type, "% + % * %", {g, r.number(decay), w});
    const operand mean = e.make(type, "% + % * (% - %)", {m, r.number(1 - beta1), g, m});
    if (r.output == 1) return if_finite(r, 6, mean, m);
    const operand square = e.make(type, "% * % + % * % * %", {r.number(beta2), v, r.number(1 - beta2), g, g});
    if (r.output == 2) return if_finite(r, 6, square, v);
    const operand counted = e.make(dtype::int64, "% < 1 ? 1 : %", {r.scalar(5, {}), r.scalar(5, {})});
    const operand step = e.convert(counted, type);
    const operand size = e.make(type, "% / %", {rate, bias_correction(r, beta1, step)}),
                  correction = e.make(type, "sqrt(%)", {bias_correction(r, beta2, step)});
    const operand root = e.make(type, "sqrt(%) / % + %", {square, correction, meant(r, "epsilon", 1e-8)});
    return if_finite(r, 6, e.make(type, "% - % * % / %", {w, size, mean, root}), before);
}

inline operand emit_average(const rule_call& r) {
    const dtype type = r.type();
    element_emitter& e = r.e;
    const operand average = r.in(0), w = like_weight(r, 1), most = meant(r, "decay", 0.999);
    operand decay = most;
    if (r.c.has(3)) {
        // warm_decay
        const operand counted = e.make(dtype::int64, "% < 1 ? 1 : %", {r.scalar(3, {}), r.scalar(3, {})}), step = e.convert(counted, type);
        const operand early = e.make(type, "(1 + %) / (10 + %)", {step, step});
        decay = e.make(type, "% < % ? % : %", {early, most, early, most});
    }
    return if_finite(r, 2, e.make(type, "% * % + (1 - %) * %", {decay, average, decay, w}), average);
}
// A norm that is no number makes the gradient that.
inline operand emit_scale_by_norm(const rule_call& r) {
    const operand ratio = r.e.make(r.type(), "% / (% + %)", {meant(r, "max_norm", 1), scalar_of(r, 1), r.number(1e-6)});
    return r.e.make(r.type(), "% * %", {r.in(0), r.e.make(r.type(), "% > 1 ? 1 : %", {ratio, ratio})});
}

}  // namespace detail

GRAFT_INLINE rule_table optimizer_rules() {
    using namespace detail;
    constexpr unsigned state = element_rule::same | element_rule::state;
    static constexpr element_rule rows[] = {
        {"SGD", "graft", state, emit_sgd, ""},
        {"Adam", "graft", state, emit_adam, ""},
        {"ExponentialMovingAverage", "graft", state, emit_average, ""},
        {"ScaleByNorm", "graft", element_rule::same, emit_scale_by_norm, ""},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
