// What gradient functions share: the forward node as its own inference sees it, and short ways to build.
#pragma once

#include "../graph/activation.hpp"
#include "../graph/gradient.hpp"
#include "common.hpp"

#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// The context that the forward node's own functions take, with the contents of constant inputs; `in` is what it looks into.
inline op_context forward_context(const gradient_context& c, std::vector<tensor_view>& in) {
    in.clear();
    for (value_id id : c.n.inputs) {
        if (id == no_value) {
            in.push_back({});
            continue;
        }
        const value& v = c.build.target().at(id);
        in.push_back(v.constant ? view(v.constant) : tensor_view{v.type, v.extents, nullptr});
    }
    return {c.n, in.data(), static_cast<int>(in.size()), nullptr, 0, c.build.limit()};
}

/// Whether input i is left out, or its contents are known, or it has none.
inline bool is_constant(const gradient_context& c, int i) {
    if (c.in(i) == no_value) return true;
    const value& v = c.build.target().at(c.in(i));
    return v.constant || elements_of(v.extents) == 0;
}
/// The one number that constant input i holds; false where it is no constant or holds more.
inline bool constant_number(const gradient_context& c, int i, double& number) {
    if (c.in(i) == no_value) return false;
    const tensor& t = c.build.target().at(c.in(i)).constant;
    if (!t || t.elements() != 1) return false;
    number = element_as_double(t.type(), t.raw(), 0);
    return true;
}

/// x in another type; x itself where it has that type.
inline value_id cast_to(gradient_context& c, value_id x, dtype type) {
    if (x == no_value || c.build.type(x) == type) return x;
    return c.build.apply("Cast", {x}, {integer_attribute("to", static_cast<std::int64_t>(type))});
}
/// x * factor; x itself where that is 1.
inline value_id scaled(gradient_context& c, value_id x, double factor) { return factor == 1 ? x : c.build.mul(x, c.build.number(factor, x)); }
/// x + term.
inline value_id shifted(gradient_context& c, value_id x, double term) { return c.build.add(x, c.build.number(term, x)); }
/// Where `condition` holds x, elsewhere 0.
inline value_id where(gradient_context& c, value_id condition, value_id x) { return c.build.apply("Where", {condition, x, c.build.number(0, x)}); }
/// x broadcast to `to`; x itself where it has that shape.
inline value_id expanded(gradient_context& c, value_id x, const shape& to) {
    if (x == no_value || c.extents(x) == to) return x;
    return c.build.apply("Expand", {x, c.build.integers(std::vector<std::int64_t>(to.begin(), to.end()))});
}
/// The sum of x along one axis, which is kept with the extent 1.
inline value_id sum_along(gradient_context& c, value_id x, int axis) {
    return c.build.apply("ReduceSum", {x, c.build.integers({axis})}, {integer_attribute("keepdims", 1)});
}
/// dy * act'(x) by graft.ActivationGrad.
inline value_id activation_gradient(gradient_context& c, value_id dy, value_id x, activation kind, float alpha = 0, float beta = 0) {
    return c.build.apply_graft(
        "ActivationGrad", {dy, x},
        {integer_attribute("activation", static_cast<std::int64_t>(kind)), real_attribute("alpha", alpha), real_attribute("beta", beta)});
}

}  // namespace ops
GRAFT_END_NAMESPACE
