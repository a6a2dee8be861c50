// Losses of classifiers as a softmax, a choice of one class each, and sums.
#pragma once

#include "../decompose.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss of ops/loss.hpp. A target that names no class, which the host would report, makes
/// the loss no number.
decomposition_table loss_decompositions();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/loss.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

inline const char* decompose_loss(decomposition& d, bool softmax) {
    const op_context& c = d.c;
    emitter& e = d.emit;
    if (d.any_empty()) return "it is empty";
    const shape target = c.in[1].extents, x = c.in[0].extents;
    const std::int64_t classes = x[1];
    const dtype type = c.in[0].type, sums = type == dtype::float64 ? type : dtype::float32;
    value_id scores = d.cast(d.in[0], sums);
    if (softmax) scores = e.emit("LogSoftmax", {scores}, {integer_attribute("axis", 1)});
    if (c.wants(1)) d.out[1] = d.cast(scores, type);
    shape apart = target, along;  // with an axis for the classes; with that axis alone
    apart.insert(1, 1);
    for (int i = 0; i < x.rank(); ++i) along.push_back(i == 1 ? classes : 1);
    const value_id t = d.cast(d.in[1], dtype::int64), none = e.number(0, t);
    const value_id chosen = e.emit("Equal", {e.reshape(t, apart), d.numbers(0, along)});
    const value_id inside = e.emit("And", {e.emit("GreaterOrEqual", {t, none}), e.emit("Less", {t, e.number(static_cast<double>(classes), t)})});
    value_id kept = no_value, weights = no_value, loss = d.sum(d.where(chosen, scores, 0), {1}, false);
    if (c.has(2)) {
        weights = d.sum(d.where(chosen, e.reshape(d.cast(d.in[2], sums), along), 0), {1}, false);
        loss = e.mul(loss, weights);
    }
    loss = d.where(inside, e.neg(loss), std::nan(""));
    if (c.has_attribute("ignore_index")) {
        kept = e.emit("Not", {e.emit("Equal", {t, e.number(static_cast<double>(c.integer("ignore_index", 0)), t)})});
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
    return {rows, sizeof rows / sizeof rows[0]};
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
