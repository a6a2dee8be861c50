// Rules of the operators of old style-transfer networks.
#pragma once

#include "../codegen/element.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The rules of ops/legacy.hpp.
rule_table legacy_rules();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/legacy.hpp"
#include "resample.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

inline operand emit_affine(const rule_call& r) { return r.e.make(r.type(), r.text, {r.attribute("alpha", 1), r.in(0), r.attribute("beta", 0)}); }
inline operand emit_scale(const rule_call& r) { return r.e.make(r.type(), r.text, {r.attribute("scale", 1), r.in(0)}); }
inline operand emit_stretched(const rule_call& r) { return r.e.make(r.type(), r.text, {r.attribute("alpha", 1), r.attribute("beta", 1), r.in(0)}); }

inline operand emit_image_scaler(const rule_call& r) {
    const attribute* bias = r.c.n.find("bias");
    operand y = r.e.make(r.type(), "% * %", {r.in(0), r.attribute("scale", 1)});
    if (!bias) return y;
    if (bias->reals.size() > longest_table) return r.e.refuse("it has more channels than the tables of generated kernels");
    std::vector<std::string> shifts;
    for (float b : bias->reals) shifts.push_back(literal(r.type(), static_cast<double>(b)));
    return r.e.make(r.type(), ("% + " + define_table(r.e, r.type(), shifts) + "[%]").c_str(), {y, r.e.as_value(r.e.axis(r.at, 1))});
}
inline operand emit_crop(const rule_call& r) {
    std::int64_t top = 0, left = 0, height = 0, width = 0;
    if (!ops::crop_window(r.c, top, left, height, width).ok()) return r.e.refuse("its attributes do not fit");
    const shape& x = r.c.in[0].extents;
    return r.in(0, moved_along(moved_along(r.at, 2, r.e.add(r.e.axis(r.at, 2), top), x), 3, r.e.add(r.e.axis(r.at, 3), left), x));
}

}  // namespace detail

GRAFT_INLINE rule_table legacy_rules() {
    constexpr unsigned same = element_rule::same;
    static constexpr element_rule rows[] = {
        {"Affine", "", same, detail::emit_affine, "% * % + %"},
        {"Scale", "", same, detail::emit_scale, "% * %"},
        {"ScaledTanh", "", same, detail::emit_stretched, "% * tanh(% * %)"},
        {"ParametricSoftplus", "", same, detail::emit_stretched, "% * softplus(% * %)"},
        {"ImageScaler", "", same, detail::emit_image_scaler, ""},
        {"Crop", "", element_rule::moved, detail::emit_crop, ""},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
