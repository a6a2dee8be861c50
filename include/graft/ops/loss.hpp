// Losses of classifiers: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss.
#pragma once

#include "gradient_common.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// NegativeLogLikelihoodLoss-12,13,22: loss[n, d] = -weight[t] * x[n, t, d], where t = target[n, d]; 0 where t is ignore_index.
// Then none, the sum, or the mean by the weights that count. SoftmaxCrossEntropyLoss-12,13: the same of log_prob = x - log(sum
// over classes of exp(x))
inline status loss_infer(infer_context& c) {
    const shape &x = c.in[0].extents, &target = c.in[1].extents;
    GRAFT_TRY(check_real(c, 0));
    if (c.in[1].type != dtype::int32 && c.in[1].type != dtype::int64) return refuse_type(c, 1);
    if (!c.is("reduction", "none", "mean") && !c.is("reduction", "mean", "mean") && !c.is("reduction", "sum", "mean"))
        return c.fail(errc::op_attribute, "reduction must be none, mean or sum");
    if (x.rank() < 2 || target.rank() != x.rank() - 1) return c.fail_shapes("the scores must be [N, C, d1, ...] and the targets [N, d1, ...]");
    for (int i = 0; i < target.rank(); ++i)
        if (target[i] != x[i ? i + 1 : 0]) return c.fail_shapes("the scores must be [N, C, d1, ...] and the targets [N, d1, ...]");
    if (c.has(2)) {
        GRAFT_TRY(check_same_type(c, 0, 2));
        if (c.in[2].extents != shape{x[1]}) return c.fail_shapes("there must be one weight a class");
    }
    GRAFT_TRY(c.set(0, c.in[0].type, c.is("reduction", "none", "mean") ? target : shape{}));
    return c.set(1, c.in[0].type, x);
}

// log(sum over classes of exp(x)) at element (n, j); what is taken off x to make log_prob.
inline double log_sum_exp_of(const tensor_view& x, const axis_split& s, std::int64_t n, std::int64_t j) noexcept {
    double highest = -HUGE_VAL, sum = 0;
    for (std::int64_t k = 0; k < s.n; ++k) highest = std::max(highest, x.real((n * s.n + k) * s.inner + j));
    for (std::int64_t k = 0; k < s.n; ++k) sum += std::exp(x.real((n * s.n + k) * s.inner + j) - highest);
    return highest + std::log(sum);
}

constexpr const char* target_out_of_range = "target %lld is out of range for %lld classes";
GRAFT_NOINLINE inline status loss_kernel(run_context& c, bool softmax) {
    const tensor_view x = c.in[0], target = c.in[1], y = c.out[0];
    const axis_split s = split_at(x.extents, 1);
    const bool ignores = c.has_attribute("ignore_index"), each = c.is("reduction", "none", "mean"), log_prob = softmax && c.wants(1) && c.out[1].data;
    const std::int64_t ignored = c.integer("ignore_index", 0);
    double total = 0, weights = 0;
    for (std::int64_t n = 0; n < s.outer; ++n)
        for (std::int64_t j = 0; j < s.inner; ++j) {
            const double off = softmax ? log_sum_exp_of(x, s, n, j) : 0;
            for (std::int64_t k = 0; log_prob && k < s.n; ++k) {
                const std::int64_t at = (n * s.n + k) * s.inner + j;
                const double value = x.real(at) - off;
                store_from_double(c.out[1].type, c.out[1].data, at, 1, &value);
            }
            const std::int64_t t = target.integer(n * s.inner + j);
            double loss = 0;
            if (!ignores || t != ignored) {
                if (t < 0 || t >= s.n) return c.fail(errc::op_index, target_out_of_range, t, s.n);
                const double weight = c.has(2) ? c.in[2].real(t) : 1;
                loss = -weight * (x.real((n * s.n + t) * s.inner + j) - off);
                total += loss;
                weights += weight;
            }
            if (each && y.data) store_from_double(y.type, y.data, n * s.inner + j, 1, &loss);
        }
    if (c.is("reduction", "mean", "mean")) total = weights != 0 ? total / weights : std::nan("");
    if (!each && y.data) store_from_double(y.type, y.data, 0, 1, &total);
    return {};
}
inline status negative_log_likelihood_loss_run(run_context& c) { return loss_kernel(c, false); }
inline status softmax_cross_entropy_loss_run(run_context& c) { return loss_kernel(c, true); }

// What one target adds to the loss, weighted: 0 where it is ignored, its class's weight else, by the sum of those for a mean; times dy.
// `chosen` becomes the one-hot form of the targets along the classes, 0 where they are ignored.
inline status loss_shares(gradient_context& c, value_id& chosen, value_id& shares) {
    if (c.wants(2)) return c.refuse("class weights do not learn: leave them out of what is trained");
    emitter& e = c.build;
    const value_id x = c.in(0);
    const shape target = c.extents(c.in(1));
    const std::int64_t classes = c.extents(x)[1];
    value_id t = cast_to(c, c.in(1), dtype::int64), counts = no_value;
    if (const attribute* ignore = c.n.find("ignore_index")) {
        const value_id kept = e.apply("Not", {e.apply("Equal", {t, e.number(static_cast<double>(ignore->integer), t)})});
        t = e.apply("Where", {kept, t, e.number(0, t)});
        counts = cast_to(c, kept, e.type(x));
    }
    tensor off_on;
    GRAFT_TRY_ASSIGN(off_on, tensor::zeros(e.type(x), shape{2}));
    const double one = 1;
    store_from_double(off_on.type(), off_on.raw(), 1, 1, &one);
    chosen = e.apply("OneHot", {t, e.integers({classes}), e.constant(std::move(off_on), "off_on")}, {integer_attribute("axis", 1)});
    if (c.in(2) != no_value) {
        const value_id weights = e.apply("Gather", {c.in(2), t});
        counts = counts == no_value ? weights : e.mul(weights, counts);
    }
    const attribute* reduction = c.n.find("reduction");
    value_id dy = c.dy();
    if (!reduction || reduction->string == "mean")
        dy = counts == no_value ? scaled(c, dy, 1.0 / static_cast<double>(std::max<std::int64_t>(target.elements(), 1))) : e.div(dy, c.sum_to(counts, shape{}));
    shares = counts == no_value ? dy : e.mul(counts, dy);
    shape apart = target;  // with the axis of the classes
    apart.insert(1, 1);
    if (c.extents(shares) == target) shares = e.reshape(shares, apart);
    return std::move(e.failure);
}
inline status negative_log_likelihood_loss_gradient(gradient_context& c) {
    value_id chosen = no_value, shares = no_value;
    GRAFT_TRY(loss_shares(c, chosen, shares));
    c.give(0, c.build.neg(c.build.mul(chosen, shares)));
    return {};
}
// (softmax(x) - chosen) * shares; of the second output, log_prob, as of LogSoftmax.
inline status softmax_cross_entropy_loss_gradient(gradient_context& c) {
    emitter& e = c.build;
    const value_id p = e.apply("Softmax", {c.in(0)}, {integer_attribute("axis", 1)});
    value_id dx = no_value;
    if (c.dy() != no_value) {
        value_id chosen = no_value, shares = no_value;
        GRAFT_TRY(loss_shares(c, chosen, shares));
        dx = e.mul(e.sub(p, chosen), shares);
    }
    if (c.given.size() > 1 && c.dy(1) != no_value) {
        const value_id of_logarithm = e.sub(c.dy(1), e.mul(p, sum_along(c, c.dy(1), 1)));
        dx = dx == no_value ? of_logarithm : e.add(dx, of_logarithm);
    }
    c.give(0, dx);
    return {};
}

#define GRAFT_LOSS_PROBLEMS \
    "f32[3,5] i64{0,4,2}; f32[3,5] i64{0,4,2} f32[5]~0.1:1; f32[2,3,4] i32[2,4]~0:3 reduction=none; f32[2,3,2,2] " \
    "i64[2,2,2]~0:3 reduction=sum; " \
    "f32[3,5] i64{0,-100,2} ignore_index=-100; f64[0,5] i64[0] reduction=sum"
inline op_table loss_ops() {
    static constexpr op_row rows[] = {
        onnx("NegativeLogLikelihoodLoss")
            .opsets(12)
            .inputs(2, 3)
            .functions(loss_infer, negative_log_likelihood_loss_run)
            .attributes("ignore_index:i reduction:s")
            .problems(GRAFT_LOSS_PROBLEMS),
        onnx("SoftmaxCrossEntropyLoss")
            .opsets(12)
            .inputs(2, 3)
            .outputs(1, 2)
            .functions(loss_infer, softmax_cross_entropy_loss_run)
            .attributes("ignore_index:i reduction:s")
            .problems(GRAFT_LOSS_PROBLEMS),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}
#undef GRAFT_LOSS_PROBLEMS

inline gradient_table loss_gradients() {
    static constexpr gradient_row rows[] = {
        {"NegativeLogLikelihoodLoss", "", negative_log_likelihood_loss_gradient},
        {"SoftmaxCrossEntropyLoss", "", softmax_cross_entropy_loss_gradient},
    };
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
