// Losses of classifiers as a softmax, a choice of one class each, and sums.
#pragma once

#include "../codegen/element.hpp"
#include "../lower/decompose.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss of ops/loss.hpp. A target that names no class is a fault, and the loss no number.
decomposition_table loss_decompositions();
/// The rule of TargetInRange(target) -> whether it names a class, which is a part of them.
rule_table loss_rules();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/loss.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

inline const op_row* target_row() {
    static constexpr op_row row = make_op("TargetInRange", "graft").inputs(1).elementwise().attributes("classes:i ignore_index:i loss:s");
    return &row;
}
// Reports as the loss that it is a part of.
inline value_id target_in_range(decomposition& d, value_id target, std::int64_t classes) {
    if (!d.build.failure.ok() || target == no_value) return no_value;
    node n;
    n.op_type = target_row()->name;
    n.domain = target_row()->domain;
    n.op = target_row();
    n.version = 1;
    n.name = d.c.n.name;
    n.attributes = {integer_attribute("classes", classes), string_attribute("loss", d.c.n.op_type)};
    if (d.c.has_attribute("ignore_index")) n.attributes.push_back(integer_attribute("ignore_index", d.c.integer("ignore_index", 0)));
    n.inputs = {target};
    return d.append(std::move(n), dtype::boolean, d.build.extents(target));
}
inline operand emit_target_in_range(const rule_call& r) {
    const std::int64_t classes = r.c.integer("classes", 0);
    operand target = r.in(0), inside = r.e.make(dtype::boolean, ("% >= 0 && % < " + std::to_string(classes)).c_str(), {target, target});
    operand fits = inside;
    if (r.c.has_attribute("ignore_index"))
        fits = r.e.make(dtype::boolean, "% || % == %", {inside, target, {literal(dtype::int64, r.c.integer("ignore_index", 0)), dtype::int64, level::thread}});
    node loss;
    loss.name = r.c.n.name;
    loss.op_type = r.c.string("loss", "");
    r.e.demand(fits, target, {errc::op_index, graft::location(loss), ops::target_out_of_range, classes});
    return inside;
}

inline const char* decompose_loss(decomposition& d, bool softmax) {
    const op_context& c = d.c;
    emitter& e = d.build;
    if (d.any_empty()) return "it is empty";
    if (!c.wants(0)) return "its targets are checked, and the loss of them is not wanted";
    const shape target = c.in[1].extents, x = c.in[0].extents;
    const std::int64_t classes = x[1];
    const dtype type = c.in[0].type, sums = type == dtype::float64 ? type : dtype::float32;
    value_id scores = d.cast(d.in[0], sums);
    if (softmax) scores = e.apply("LogSoftmax", {scores}, {integer_attribute("axis", 1)});
    if (c.wants(1)) d.out[1] = d.cast(scores, type);
    shape apart = target, along;  // with an axis for the classes; with that axis alone
    apart.insert(1, 1);
    for (int i = 0; i < x.rank(); ++i) along.push_back(i == 1 ? classes : 1);
    const value_id t = d.cast(d.in[1], dtype::int64);
    const value_id chosen = e.apply("Equal", {e.reshape(t, apart), d.numbers(0, along)});
    const value_id inside = target_in_range(d, t, classes);
    value_id kept = no_value, weights = no_value, loss = d.sum(d.where(chosen, scores, 0), {1}, false);
    if (c.has(2)) {
        weights = d.sum(d.where(chosen, e.reshape(d.cast(d.in[2], sums), along), 0), {1}, false);
        loss = e.mul(loss, weights);
    }
    loss = d.where(inside, e.neg(loss), std::nan(""));
    if (c.has_attribute("ignore_index")) {
        kept = e.apply("Not", {e.apply("Equal", {t, e.number(static_cast<double>(c.integer("ignore_index", 0)), t)})});
        loss = d.where(kept, loss, 0);
        weights = weights == no_value ? d.cast(kept, sums) : d.where(kept, weights, 0);
    }
    std::vector<std::int64_t> all;
    for (int i = 0; i < target.rank(); ++i) all.push_back(i);
    const bool mean = c.is("reduction", "mean", "mean");
    if (mean || c.is("reduction", "sum", "mean")) loss = d.sum(loss, all, false);
    if (mean) loss = e.div(loss, weights == no_value ? e.number(static_cast<double>(target.elements()), loss) : d.sum(weights, all, false));
    d.out[0] = d.cast(loss, type);
    return nullptr;
}
inline const char* decompose_likelihood_loss(decomposition& d) { return decompose_loss(d, false); }
inline const char* decompose_cross_entropy_loss(decomposition& d) { return decompose_loss(d, true); }

}  // namespace detail

GRAFT_INLINE decomposition_table loss_decompositions() {
    static constexpr decomposition_row rows[] = {
        {"NegativeLogLikelihoodLoss", "", detail::decompose_likelihood_loss, true},
        {"SoftmaxCrossEntropyLoss", "", detail::decompose_cross_entropy_loss, true},
    };
    return rows;
}

GRAFT_INLINE rule_table loss_rules() {
    static constexpr element_rule rows[] = {{"TargetInRange", "graft", element_rule::same, detail::emit_target_in_range, ""}};
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
