// Losses: what is summed over a batch and differentiated. They are emitted as nodes, so that they run wherever the network does.
#pragma once

#include "../graph/gradient.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE

/// What a network learns to make small, of one sample with logits x and targets t.
enum class loss_kind {
    cross_entropy,    ///< -sum_c t_c log softmax(x)_c; targets are probabilities, so smoothed, mixed and weighted ones need nothing more
    bce_with_logits,  ///< sum_c max(x, 0) - x t + log(1 + exp(-|x|)), the mean over c
    focal,            ///< -sum_c t_c (1 - p_c)^gamma log p_c, p = softmax(x): Lin et al., "Focal Loss for Dense Object Detection" (2017)
    mse,              ///< mean over c of (x - t)^2
    l1,               ///< mean over c of |x - t|
    huber,            ///< mean over c of d^2 / 2 where |d| = |x - t| <= delta, else delta (|d| - delta / 2)
};

/// Which loss, and its parameters.
struct loss_options {
    loss_kind kind = loss_kind::cross_entropy;
    float label_smoothing = 0.0f;      ///< cross_entropy, focal: targets become (1 - s) t + s / classes, as torch has it
    float gamma = 2.0f;                ///< focal
    float delta = 1.0f;                ///< huber
    std::vector<float> class_weights;  ///< cross_entropy, focal: weight of each class; empty: all 1
    float distillation = 0.0f;  ///< share of the teacher's part, KL(teacher || network): Hinton et al., "Distilling the Knowledge in a Neural Network" (2015)
    float temperature = 4.0f;   ///< of distillation; its part is scaled by temperature^2
};

/// The names of all, or of those that `is_of_probabilities` is true of.
std::vector<std::string> loss_names(bool of_probabilities = false);
/// Reads one of `loss_names`. Errors: usage.
result<loss_kind> loss_of(const std::string& name);
const char* name(loss_kind kind) noexcept;
/// Whether its targets are probabilities, which can be smoothed and weighted: a sum over the classes. The other losses are means over them.
bool is_of_probabilities(loss_kind kind) noexcept;

/// Emits scale * (sum over the samples of their losses), one number. `logits` and `targets` are [N, classes] of one type; `scale` is one
/// number, 1 / (what the mean divides by); `teacher` holds a teacher's logits, or no_value. The sum is the tree over `shards`.
value_id emit_loss(emitter& build, const loss_options& options, value_id logits, value_id targets, value_id scale, value_id teacher, int shards);

/// One row of targets for a label: probabilities with smoothing and class weights in them, `classes` floats. A mixed sample adds two
/// rows, each with its share. Returns what the row adds to the number that the mean divides by: the weight of the class, as torch has it.
double write_target(const loss_options& options, std::int64_t label, double share, std::int64_t classes, float* row, bool add);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/suggest.hpp"

GRAFT_BEGIN_NAMESPACE

namespace detail {

// -sum_c t_c log softmax(x)_c, of every c by itself.
inline value_id soft_cross_entropy(emitter& e, value_id logits, value_id targets) {
    return e.neg(e.mul(targets, e.apply("LogSoftmax", {logits}, {integer_attribute("axis", 1)})));
}

inline value_id emit_cross_entropy(emitter& e, const loss_options&, value_id x, value_id t) { return soft_cross_entropy(e, x, t); }
// max(x, 0) - x t + log(1 + exp(-|x|)) is softplus(x) - x t.
inline value_id emit_bce_with_logits(emitter& e, const loss_options&, value_id x, value_id t) { return e.sub(e.apply("Softplus", {x}), e.mul(x, t)); }
inline value_id emit_focal(emitter& e, const loss_options& o, value_id x, value_id t) {
    const value_id log_p = e.apply("LogSoftmax", {x}, {integer_attribute("axis", 1)});
    const value_id rest = e.sub(e.number(1, x), e.apply("Exp", {log_p}));
    return e.neg(e.mul(e.mul(t, e.apply("Pow", {rest, e.number(static_cast<double>(o.gamma), x)})), log_p));
}
inline value_id emit_mse(emitter& e, const loss_options&, value_id x, value_id t) {
    const value_id d = e.sub(x, t);
    return e.mul(d, d);
}
inline value_id emit_l1(emitter& e, const loss_options&, value_id x, value_id t) { return e.apply("Abs", {e.sub(x, t)}); }
// delta * (|d| - delta / 2) beyond delta is m (|d| - m / 2) with m = min(|d|, delta), everywhere.
inline value_id emit_huber(emitter& e, const loss_options& o, value_id x, value_id t) {
    const value_id d = e.apply("Abs", {e.sub(x, t)});
    const value_id m = e.apply("Min", {d, e.number(static_cast<double>(o.delta), x)});
    return e.mul(m, e.sub(d, e.mul(m, e.number(0.5, x))));
}

struct loss_row {
    loss_kind kind;
    const char* name;
    bool of_probabilities;
    value_id (*elementwise)(emitter& e, const loss_options& o, value_id x, value_id t);  // before it is summed
};
inline constexpr loss_row loss_rows[] = {
    {loss_kind::cross_entropy, "cross_entropy", true, emit_cross_entropy},
    {loss_kind::bce_with_logits, "bce_with_logits", false, emit_bce_with_logits},
    {loss_kind::focal, "focal", true, emit_focal},
    {loss_kind::mse, "mse", false, emit_mse},
    {loss_kind::l1, "l1", false, emit_l1},
    {loss_kind::huber, "huber", false, emit_huber},
};
inline const loss_row& row_of(loss_kind kind) noexcept {
    for (const loss_row& row : loss_rows)
        if (row.kind == kind) return row;
    return loss_rows[0];
}

}  // namespace detail

GRAFT_INLINE const char* name(loss_kind kind) noexcept { return detail::row_of(kind).name; }
GRAFT_INLINE bool is_of_probabilities(loss_kind kind) noexcept { return detail::row_of(kind).of_probabilities; }
GRAFT_INLINE std::vector<std::string> loss_names(bool of_probabilities) {
    std::vector<std::string> names;
    for (const detail::loss_row& row : detail::loss_rows)
        if (row.of_probabilities || !of_probabilities) names.push_back(row.name);
    return names;
}
GRAFT_INLINE result<loss_kind> loss_of(const std::string& given) GRAFT_MEMORY_TRY {
    for (const detail::loss_row& row : detail::loss_rows)
        if (given == row.name) return row.kind;
    return fail(errc::usage, given, "there is no such loss; the losses are " + detail::names_and_nearest(given, loss_names(), "and"));
}
GRAFT_MEMORY_CATCH("loss_of")

GRAFT_INLINE value_id emit_loss(emitter& e, const loss_options& o, value_id logits, value_id targets, value_id scale, value_id teacher, int shards) {
    e.prefix = "loss";
    const auto sum = [&](value_id x) { return e.apply_graft("SumTo", {x}, {integers_attribute("shape", {}), integer_attribute("shards", shards)}); };
    value_id total = sum(detail::row_of(o.kind).elementwise(e, o, logits, targets));
    if (!is_of_probabilities(o.kind) && e.failure.ok())
        total = e.mul(total, e.number(1.0 / static_cast<double>(e.extents(logits).product(1, e.extents(logits).rank())), total));
    if (teacher != no_value && o.distillation > 0) {
        const double t = static_cast<double>(o.temperature), share = static_cast<double>(o.distillation);
        const value_id cold = e.number(1 / t, logits);
        const value_id taught = e.mul(teacher, cold);
        const value_id wanted = e.apply("Softmax", {taught}, {integer_attribute("axis", 1)});
        // Without the teacher's own entropy, which no student could take away: 0 where the student equals it.
        const value_id soft = sum(e.sub(detail::soft_cross_entropy(e, e.mul(logits, cold), wanted), detail::soft_cross_entropy(e, taught, wanted)));
        total = e.add(e.mul(total, e.number(1 - share, total)), e.mul(soft, e.number(share * t * t, total)));
    }
    return e.mul(total, scale);
}

GRAFT_INLINE double write_target(const loss_options& o, std::int64_t label, double share, std::int64_t classes, float* row, bool add) {
    const bool probabilities = is_of_probabilities(o.kind);
    const double smoothing = probabilities ? static_cast<double>(o.label_smoothing) : 0;
    for (std::int64_t c = 0; c < classes; ++c) {
        const double weight = probabilities && !o.class_weights.empty() ? static_cast<double>(o.class_weights[static_cast<std::size_t>(c)]) : 1;
        const double t = share * weight * ((c == label ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes));
        row[c] = static_cast<float>(add ? static_cast<double>(row[c]) + t : t);
    }
    return share * (probabilities && !o.class_weights.empty() ? static_cast<double>(o.class_weights[static_cast<std::size_t>(label)]) : 1);
}

GRAFT_END_NAMESPACE
#endif
