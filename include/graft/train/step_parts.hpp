// Bodies of train/step.hpp: what a batch is summed to, as a whole or in parts, the update by that, and the search for what made a loss infinite.
#pragma once

#include "divergence.hpp"
#include "step_plans.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace detail {

class step_parts : public step_plans {
public:
    // Of a batch, or of a part of it: what its samples are summed to; nothing where there are none.
    using sums = std::vector<tensor>;
    // A batch in parts while it runs.
    struct parted {
        const step_input& in;
        batch_parts cut;
        shape part;                  // of the largest part
        bool plain = false;          // whether the gradients are added, and not what they are made of
        std::int64_t diverged = -1;  // the first sample of the first part whose loss is not finite
    };

    status choose_sums(const step_input& in, bool& plain, executor& pool);
    status run_parts(parted& p, executor& pool);
    status update_by(sums total, const shape& part, const step_input& in, bool plain, executor& pool);
    status diverged(const step_input& in, std::int64_t first, executor& pool);
    // What a graph of sums has made; its statistics are state, and stand behind them.
    static sums sums_in(const planned& p) {
        std::size_t last = p.what.graph.outputs.size();
        for (const state_pair& s : p.what.graph.states) last -= s.output >= 0;
        sums found;
        for (std::size_t i = step_outputs::first_state; i < last; ++i) found.push_back(p.runner->output(i));
        return found;
    }
    void read_norm(const planned& p) {
        if (options.loss_scaling) last_norm = static_cast<double>(p.runner->output(p.what.graph.outputs.size() - 1).data<float>()[0]);
    }

    double last_loss = 0, last_norm = 0;
    tensor last_logits;
    std::int64_t most_samples = 0;  // of the largest part of the batch that choose_sums was asked about last

private:
    result<sums> sum_part(parted& p, std::int64_t part, executor& pool);
    result<sums> sum_parts(parted& p, std::int64_t first, std::int64_t count, executor& pool);
    status hand_out_variables();

    std::int64_t chosen_for_ = -1;  // the samples of that batch,
    bool chosen_ = false;           // and the answer
};

// One part: the sums over its samples, and its logits into their place.
GRAFT_INLINE result<step_parts::sums> step_parts::sum_part(parted& q, std::int64_t part, executor& pool) {
    const std::int64_t n = q.in.inputs->shape()[0], first = q.cut.first(n, part), last = q.cut.last(n, part);
    if (first == last) return sums();
    tensor_view x = rows_of(*q.in.inputs, first, last), t = rows_of(*q.in.targets, first, last);
    tensor more_inputs, more_targets;
    if (q.cut.each > last - first) {
        // Samples without a target cost nothing.
        GRAFT_TRY(filled_up(x, q.cut.each, true, more_inputs));
        GRAFT_TRY(filled_up(t, q.cut.each, false, more_targets));
        x = view(more_inputs), t = view(more_targets);
    }
    planned* p = nullptr;
    GRAFT_TRY_ASSIGN(p, plan_for(x.extents, x.type, step_part::sums, q.plain, pool));
    give_back_others(*p);
    counter.data<std::int64_t>()[1] = q.in.first + first;
    const std::vector<tensor_view> all = views(x, t, q.in.teacher ? rows_of(*q.in.teacher, first, last) : view(nothing));
    GRAFT_TRY(p->runner->run(all.data()));
    if (q.diverged < 0 && !std::isfinite(p->runner->output(step_outputs::loss).data<float>()[0])) q.diverged = first;
    const tensor& logits = p->runner->output(step_outputs::logits);
    std::memcpy(last_logits.data<float>() + first * classes, logits.raw(), static_cast<std::size_t>((last - first) * classes) * sizeof(float));
    return sums_in(*p);
}

// The parts [first, first + count) added as the tree of shards has it.
GRAFT_INLINE result<step_parts::sums> step_parts::sum_parts(parted& q, std::int64_t first, std::int64_t count, executor& pool) {
    if (count == 1) return sum_part(q, first, pool);
    sums left, right;
    GRAFT_TRY_ASSIGN(left, sum_parts(q, first, count / 2, pool));
    GRAFT_TRY_ASSIGN(right, sum_parts(q, first + count / 2, count / 2, pool));
    if (left.empty() && right.empty()) return left;
    sums& into = left.empty() ? right : left;
    if (!left.empty() && !right.empty() && !same_shapes(left, right)) return fail(errc::internal, trained.name, "the parts of a batch make different sums");
    for (std::size_t i = 0; i < into.size(); ++i) GRAFT_TRY(add_into(into[i], left.empty() || right.empty() ? tensor() : right[i], pool));
    return std::move(into);
}

// A part of one sample may have no sum where others have one. The gradients themselves are alike, whatever the size of a part.
GRAFT_INLINE status step_parts::choose_sums(const step_input& in, bool& plain, executor& pool) {
    const std::int64_t n = options.group ? in.samples : in.inputs->shape()[0];
    plain = chosen_;
    if (n == chosen_for_) return {};
    plain = false;
    bool single_sample = false;
    std::int64_t largest = 0;
    const int members = options.group ? options.group->size() : 1;
    for (int m = 0; m < members; ++m) {
        const member_shards share = member_shards::of(m, members, options.shards);
        const std::int64_t own = members > 1 ? share.end(n, options.shards) - share.begin(n, options.shards) : n;
        const batch_parts cut = parts();
        for (std::int64_t s = 0; s < cut.count(own); ++s) {
            const std::int64_t size = cut.last(own, s) - cut.first(own, s);
            single_sample |= size == 1;
            largest = std::max(largest, size);
        }
    }
    most_samples = largest;
    if (single_sample && largest > 1 && options.fixed_batch == 0) {
        std::vector<std::string> names[2];
        for (std::vector<std::string>& of : names) {
            shape x = in.inputs->shape();
            x[0] = &of == names ? 1 : largest;
            const tensor_view targets{dtype::float32, {x[0], classes}, nullptr};
            std::vector<tensor_view> shapes = views({in.inputs->type(), x, nullptr}, targets, in.teacher ? targets : view(nothing));
            for (tensor_view& v : shapes) v.data = nullptr;
            step_builder summing = builder();
            graph unused;
            GRAFT_TRY_ASSIGN(unused, summing.build(shapes, in_parts() || staged() ? step_part::sums : step_part::whole, false, pool));
            of = summing.summed();
        }
        plain = names[0] != names[1];
    }
    chosen_for_ = n;
    chosen_ = plain;
    return {};
}

GRAFT_INLINE status step_parts::run_parts(parted& q, executor& pool) {
    const std::int64_t n = q.in.inputs->shape()[0];
    last_logits = tensor();
    GRAFT_TRY_ASSIGN(last_logits, tensor::make(dtype::float32, {n, classes}));
    q.part = q.in.inputs->shape();
    GRAFT_TRY(choose_sums(q.in, q.plain, pool));
    q.part[0] = n > 0 ? q.cut.largest(n) : std::min<std::int64_t>(2, most_samples);
    sums total;
    GRAFT_TRY_ASSIGN(total, sum_parts(q, 0, q.cut.count(n), pool));
    return update_by(std::move(total), q.part, q.in, q.plain, pool);
}

// The update by the sums over the batch, of which `total` holds this member's. Of a graph for parts like `part`.
GRAFT_INLINE status step_parts::update_by(sums total, const shape& part, const step_input& in, bool plain, executor& pool) {
    planned* p = nullptr;
    GRAFT_TRY_ASSIGN(p, plan_for(part, in.inputs->type(), step_part::update, plain, pool));
    const std::size_t own = step_inputs::first_state + states.size();
    // A member without samples has nothing to add.
    const bool idle = options.group && (in.inputs->shape()[0] == 0 || options.group->idle());
    if (idle) total.resize(std::max(total.size(), p->summed));
    for (std::size_t i = 0; idle && i < p->summed; ++i) GRAFT_TRY_ASSIGN(total[i], tensor::zeros(p->inputs[own + i].type, p->inputs[own + i].extents));
    bool same = own + total.size() == p->inputs.size();
    for (std::size_t i = 0; same && i < total.size(); ++i) same = total[i].shape() == p->inputs[own + i].extents;
    if (!same) return fail(errc::internal, trained.name, "the parts of a batch do not make what its update takes");
    if (central()) {
        std::vector<float*> sums_of;
        std::vector<std::int64_t> counts;
        for (std::size_t i = 0; i < p->summed; ++i) sums_of.push_back(total[i].data<float>()), counts.push_back(total[i].elements());
        GRAFT_TRY(options.group->reduce({sums_of.data(), sums_of.data(), counts.data(), static_cast<int>(counts.size())}, 0));
    }
    if (!central() || options.group->rank() == 0) {
        std::vector<tensor_view> all = p->inputs;
        const std::vector<tensor_view> now = views(all[step_inputs::batch], all[step_inputs::targets], all[step_inputs::teacher]);
        std::copy(now.begin(), now.end(), all.begin());
        for (std::size_t i = 0; i < total.size(); ++i) all[own + i] = view(total[i]);
        GRAFT_TRY(p->runner->run(all.data()));
        last_loss = static_cast<double>(p->runner->output(step_outputs::loss).data<float>()[0]);
        read_norm(*p);
    }
    return central() ? hand_out_variables() : status();
}

// What the first member has updated, for all: the weights, their running averages, and what the step came to.
GRAFT_INLINE status step_parts::hand_out_variables() {
    double told[] = {last_loss, last_norm};
    GRAFT_TRY(options.group->broadcast(told, sizeof told, 0));
    last_loss = told[0], last_norm = told[1];
    const auto hand_out = [&](tensor& variable) -> status {
        GRAFT_TRY(options.group->broadcast(variable.raw(), variable.bytes(), 0));
        for (const auto& resident : residents)
            if (resident) resident->host_changed(variable.raw());
        return {};
    };
    for (std::size_t w = 0; w < layout.weights.size(); ++w) {
        GRAFT_TRY(hand_out(states[w].value));
        if (options.optimizer.ema_decay > 0) GRAFT_TRY(hand_out(states[layout.kept_of(w, layout.kept.size() - 1)].value));
    }
    return {};
}

// Names what is not finite: of the samples, of the state, or the first value that the forward part makes. In parts, of the part.
GRAFT_INLINE status step_parts::diverged(const step_input& in, std::int64_t first, executor& pool) {
    const auto stop = [&](const std::string& what) {
        const std::string where = "step " + std::to_string(in.step);
        return fail(errc::train_diverged, where,
                    "the loss is no longer finite: " + what + "; the weights are those before this step. A smaller --lr or clipping of gradients may help");
    };
    if (!all_finite(view(*in.inputs))) return stop("the batch's pictures hold NaN or infinity");
    if (!all_finite(view(*in.targets))) return stop("the batch's targets hold NaN or infinity");
    if (in.teacher && !all_finite(view(*in.teacher))) return stop("the teacher's logits hold NaN or infinity");
    GRAFT_TRY(read_residents());
    for (const training_state& s : states)
        if (!all_finite(view(s.value))) return stop("'" + s.name + "' holds NaN or infinity");
    const std::int64_t n = in.inputs->shape()[0];
    std::int64_t last = n;
    if (first < 0) first = 0;
    const batch_parts cut = parts();
    for (std::int64_t s = 0; s < cut.count(n); ++s)
        if (cut.first(n, s) <= first && first < cut.last(n, s)) last = cut.last(n, s);
    counter.data<std::int64_t>()[1] = in.first + first;
    const tensor_view teacher = in.teacher ? rows_of(*in.teacher, first, last) : view(nothing);
    tensor_view x = rows_of(*in.inputs, first, last), t = rows_of(*in.targets, first, last);
    tensor more_inputs, more_targets;
    if (cut.each > last - first) {
        GRAFT_TRY(filled_up(x, cut.each, true, more_inputs));
        GRAFT_TRY(filled_up(t, cut.each, false, more_targets));
        x = view(more_inputs), t = view(more_targets);
    }
    const std::vector<tensor_view> all = views(x, t, teacher);
    std::vector<tensor_view> shapes = all;
    for (tensor_view& v : shapes) v.data = nullptr;
    graph forward;
    GRAFT_TRY_ASSIGN(forward, builder().build(shapes, step_part::forward, false, pool));
    for (const auto& p : plans) p->runner->trim();
    std::string name;
    GRAFT_TRY_ASSIGN(name, first_not_finite(forward, all, options.limits, options.seed, pool));
    return stop(name.empty() ? "the sum over the batch overflows" : "the first of its values is the output " + name);
}

}  // namespace detail
GRAFT_END_NAMESPACE
