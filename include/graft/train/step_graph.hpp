// Builds the graph of a training step: the network, its loss, the gradients and the updates, with the state as inputs and outputs.
#pragma once

#include "../passes/differentiate.hpp"
#include "../passes/specialize.hpp"
#include "../passes/training_mode.hpp"
#include "step.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Which part of a step a graph computes: all of it, or, for batches in parts, the gradients of one part, or the update by their sums
// (which takes the loss where the others take the scale, and the gradients behind the state).
enum class step_part : std::uint8_t { whole, gradients, update };

// Places of the inputs of a step's graph; the state follows.
struct step_inputs {
    static constexpr int batch = 0, targets = 1, scale = 2, learning_rate = 3, step = 4, counter = 5, teacher = 6, first_state = 7;
};
// Places of its outputs: the loss, the logits, and then the gradients (of `gradients`) or the new state.
struct step_outputs {
    static constexpr int loss = 0, logits = 1, first_state = 2;
};

// What a step changes: weights, then running statistics, then what the optimiser keeps, weight by weight.
struct step_state {
    std::vector<value_id> weights, statistics;
    std::vector<std::string> kept;  // endings of the optimiser's states
    std::size_t count() const { return weights.size() * (1 + kept.size()) + statistics.size(); }
    std::size_t kept_of(std::size_t weight, std::size_t which) const { return weights.size() + statistics.size() + weight * kept.size() + which; }
};

class step_builder {
public:
    step_builder(const graph& network, value_id logits, const std::vector<parameter>& learning, const step_state& state, const step_options& o)
        : g_(network), logits_(logits), learning_(learning), state_(state), o_(o), emit_(g_, ops::find_training_op, o.limits) {}

    // `views` are those of all inputs of the graph, in order.
    result<graph> build(const std::vector<tensor_view>& views, step_part part, executor& pool) {
        declare_inputs(views);
        if (part == step_part::update) {
            g_.nodes.clear();
            gradients_.clear();
            for (std::size_t i = 0; i < state_.weights.size(); ++i) gradients_.push_back(add_input("gradient_of_" + learning_[i].name, views[g_.inputs.size()]));
            g_.outputs.clear();
            finish_updates(g_.inputs[step_inputs::scale]);
            GRAFT_TRY(std::move(emit_.failure));
            return std::move(g_);
        }
        training_mode_options mode;
        mode.learning = state_.weights;
        mode.batch_norm = o_.batch_norm;
        mode.counter = g_.inputs[step_inputs::counter];
        mode.seed = o_.seed;
        mode.shards = o_.shards / (part == step_part::gradients ? o_.micro_batches : 1);
        std::vector<running_statistic> running;
        GRAFT_TRY_ASSIGN(running, training_mode(g_, mode));
        if (part == step_part::gradients && !running.empty())
            return fail(errc::memory_budget, g_.name, "a layer of BatchNormalization looks across the batch, so the batch cannot be computed in parts: take a smaller --batch");
        // The logits stay a value of their own, and so do the new statistics.
        g_.outputs = {logits_};
        for (const running_statistic& r : running) g_.outputs.push_back(r.updated);
        const evaluation with{o_.limits, pool, nullptr, o_.seed};
        GRAFT_TRY_ASSIGN(g_, specialize(std::move(g_), views.data(), with));
        GRAFT_TRY(check_logits());
        const value_id loss = emit_loss(emit_, o_.loss, logits_, g_.inputs[step_inputs::targets], g_.inputs[step_inputs::scale],
                                        o_.loss.distillation > 0 ? g_.inputs[step_inputs::teacher] : no_value, mode.shards);
        GRAFT_TRY(std::move(emit_.failure));
        GRAFT_TRY_ASSIGN(gradients_, differentiate(g_, loss, state_.weights, mode.shards, o_.limits));
        emit_.prefix = "update";
        for (std::size_t i = 0; i < gradients_.size(); ++i)
            if (gradients_[i] == no_value) gradients_[i] = emit_.zeros(g_.values[static_cast<std::size_t>(state_.weights[i])].extents, state_.weights[i]);
        g_.outputs = {loss, logits_};
        if (part == step_part::gradients)
            for (value_id id : gradients_) g_.outputs.push_back(copied(id));
        else
            finish_updates(loss, running);
        GRAFT_TRY(std::move(emit_.failure));
        return std::move(g_);
    }

private:
    static std::size_t index(value_id id) { return static_cast<std::size_t>(id); }

    value_id add_input(std::string name, const tensor_view& v) {
        const value_id id = g_.add_value(std::move(name));
        become_input(id, v);
        return id;
    }
    void become_input(value_id id, const tensor_view& v) {
        value& made = g_.values[index(id)];
        made.constant = tensor();
        made.type = v.type;
        made.extents = v.extents;
        made.has_shape = true;
        g_.inputs.push_back(id);
    }

    void declare_inputs(const std::vector<tensor_view>& views) {
        g_.states.clear();
        // An initializer that is an input as well is a default that nobody replaces here.
        std::vector<value_id> open;
        for (value_id id : g_.inputs)
            if (!g_.values[index(id)].constant) open.push_back(id);
        g_.inputs.clear();
        become_input(open[0], views[step_inputs::batch]);
        for (const char* name : {"targets", "scale", "learning_rate", "step", "counter", "teacher"}) add_input(std::string("training/") + name, views[g_.inputs.size()]);
        for (value_id id : state_.weights) become_input(id, views[g_.inputs.size()]);
        for (value_id id : state_.statistics) become_input(id, views[g_.inputs.size()]);
        for (std::size_t w = 0; w < state_.weights.size(); ++w)
            for (const std::string& kept : state_.kept) add_input(learning_[w].name + "." + kept, views[g_.inputs.size()]);
    }

    status check_logits() {
        const value& v = g_.values[index(logits_)];
        if (!v.has_shape || v.extents.rank() != 2) return fail(errc::train_head, v.name, "what the loss is taken of has to be [N, classes]; it is " + (v.has_shape ? text(v.extents) : "of a shape that is not known"));
        return {};
    }

    // A graph output of its own, as a gradient may be the constant 0 or be given out twice.
    value_id copied(value_id id) { return emit_.emit("Identity", {id}); }

    void finish_updates(value_id loss, const std::vector<running_statistic>& running = {}) {
        const std::size_t first_update = g_.nodes.size();
        emit_.prefix = "update";
        const auto input = [&](std::size_t state) { return g_.inputs[static_cast<std::size_t>(step_inputs::first_state) + state]; };
        std::vector<value_id> updated(state_.count(), no_value);
        if (o_.optimizer.clip_norm > 0) {
            const value_id norm = emit_.emit_graft("GlobalNorm", gradients_);
            for (value_id& id : gradients_) id = emit_.emit_graft("ScaleByNorm", {id, norm}, {real_attribute("max_norm", static_cast<float>(o_.optimizer.clip_norm))});
        }
        for (std::size_t w = 0; w < state_.weights.size() && emit_.failure.ok(); ++w) {
            std::vector<value_id> kept;
            for (std::size_t k = 0; k < state_.kept.size(); ++k) kept.push_back(input(state_.kept_of(w, k)));
            const std::vector<value_id> made =
                emit_update(emit_, o_.optimizer, state_.weights[w], gradients_[w], kept, g_.inputs[step_inputs::learning_rate], g_.inputs[step_inputs::step], loss, learning_[w].rate);
            updated[w] = made[0];
            for (std::size_t k = 0; k < state_.kept.size(); ++k) updated[state_.kept_of(w, k)] = made[k + 1];
        }
        for (const running_statistic& r : running)
            for (std::size_t s = 0; s < state_.statistics.size(); ++s)
                if (state_.statistics[s] == r.current) updated[state_.weights.size() + s] = r.updated;
        if (!emit_.failure.ok()) return;
        for (std::size_t s = 0; s < updated.size(); ++s) {
            if (updated[s] == no_value) continue;
            g_.states.push_back({step_inputs::first_state + static_cast<int>(s), static_cast<int>(g_.outputs.size())});
            g_.outputs.push_back(updated[s]);
        }
        schedule(first_update);
    }

    // Each update runs as soon as its gradient is there and nobody needs the weight as it was, so that gradients do not pile up.
    void schedule(std::size_t first_update) {
        std::vector<std::size_t> ready(g_.values.size(), 0);
        for (std::size_t i = 0; i < first_update; ++i) {
            for (value_id id : g_.nodes[i].inputs)
                if (id != no_value) ready[index(id)] = std::max(ready[index(id)], i);
            for (value_id id : g_.nodes[i].outputs)
                if (id != no_value) ready[index(id)] = std::max(ready[index(id)], i);
        }
        std::vector<std::pair<std::size_t, node>> order;
        for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
            std::size_t key = 2 * i;
            if (i >= first_update) {
                key = 0;
                for (value_id id : g_.nodes[i].inputs)
                    if (id != no_value) key = std::max(key, 2 * ready[index(id)] + 1);
                for (value_id id : g_.nodes[i].outputs)
                    if (id != no_value) ready[index(id)] = key / 2;
            }
            order.emplace_back(key, std::move(g_.nodes[i]));
        }
        std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        for (std::size_t i = 0; i < order.size(); ++i) g_.nodes[i] = std::move(order[i].second);
    }

    graph g_;
    value_id logits_;
    const std::vector<parameter>& learning_;
    const step_state& state_;
    const step_options& o_;
    emitter emit_;
    std::vector<value_id> gradients_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
