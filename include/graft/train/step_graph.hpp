// Builds the graph of a training step: the network, its loss, the gradients and the updates, with the state as inputs and outputs.
#pragma once

#include "../graph/verify.hpp"
#include "../passes/differentiate.hpp"
#include "../passes/graph_queries.hpp"
#include "../passes/recompute.hpp"
#include "../passes/specialize.hpp"
#include "../passes/spread_norms.hpp"
#include "../passes/training_mode.hpp"
#include "batch_sums.hpp"
#include "stages.hpp"
#include "step.hpp"
#include "trunk.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Which part of a step a graph computes: all of it, or, for batches in parts, the sums over one part, or the update by the sums over all;
// or the forward part alone.
enum class step_part { whole, sums, update, forward };

// Places of the inputs of a step's graph; the state follows.
struct step_inputs {
    static constexpr int batch = 0, targets = 1, scale = 2, learning_rate = 3, step = 4, counter = 5, teacher = 6, inverse_scale = 7, first_state = 8;
};
// Places of its outputs: the loss, the logits, and then the new state (`whole`, but the update has no logits) or the sums. With loss
// scaling the norm of all gradients is the last.
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

// What was found out about where a step runs.
struct step_placement {
    bool device = false;          // the members of the run exchange by their devices, and not by their hosts
    double stages_by_memory = 0;  // see stage_limits::by_memory
};

class step_builder {
public:
    step_builder(const graph& network, value_id logits, const std::vector<parameter>& learning, const step_state& state, const step_options& o,
                 const step_placement& by)
        : g_(network), logits_(logits), learning_(learning), state_(state), o_(o), by_(by), emit_(g_, ops::find_training_op, o.limits) {
        set_apart(g_, o.operators);
    }

    // `views` are those of the inputs that every graph of a step has, in order. `plain`: the sums are the gradients themselves.
    result<graph> build(const std::vector<tensor_view>& views, step_part part, bool plain, executor& pool) {
        GRAFT_TRY(build_loss(views, part, pool));
        if (part == step_part::forward) return std::move(g_);
        GRAFT_TRY(build_gradients());
        std::vector<value_id> found, wanted = gradients_;
        wanted.insert(wanted.begin(), loss_);
        if (part == step_part::sums || part == step_part::update || o_.group) {
            found = sums_of_batch().behind(wanted, plain, &made_of_sums_);
            for (value_id id : found) summed_.push_back(g_.at(id).name);
        }
        std::vector<value_id> cut = found;
        if (o_.group && (part == step_part::sums || part == step_part::update)) add_complete(wanted, cut);
        if (part == step_part::sums) {
            g_.outputs = {loss_, logits_};
            g_.outputs.insert(g_.outputs.end(), cut.begin(), cut.end());
            for (const running_statistic& r : running_) g_.outputs.push_back(r.updated);
            if (o_.recompute && !asks_members()) g_ = recompute(g_, forward_);
            g_.outputs.resize(step_outputs::first_state + cut.size());
            keep_states(updated_statistics(running_));
        } else if (part == step_part::update) {
            start_from(cut, wanted);
            g_.outputs = {loss_};
            if (o_.group && !o_.central_variables) GRAFT_TRY(reduce(found, false));  // the backward part is over
            finish_updates({});
        } else {
            g_.outputs = {loss_, logits_};
            for (const running_statistic& r : running_) g_.outputs.push_back(r.updated);
            if (o_.recompute && !asks_members()) g_ = recompute(g_, forward_);
            const bool on_host = !o_.on || o_.on->in_host_memory();
            // Devices that exchange need neither a thread nor a channel for it; what goes by way of the host from a device has neither.
            if (o_.group) GRAFT_TRY(reduce(found, o_.overlap && o_.group->size() > 1 && (by_.device || (on_host && o_.group->overlaps()))));
            g_.outputs = {loss_, logits_};
            finish_updates(running_);
        }
        GRAFT_TRY(std::move(emit_.failure));
        if (o_.group && o_.on && !o_.on->in_host_memory()) GRAFT_TRY(spread_norms(g_, o_.group->size(), by_.device, o_.limits));
        return std::move(g_);
    }

    // What the batch is summed to in the graph that was built, by name: alike for batches of two samples and more.
    const std::vector<std::string>& summed() const { return summed_; }
    // How many of its first nodes are the forward pass, with the loss.
    std::size_t forward_nodes() const { return forward_; }

private:
    batch_sums sums_of_batch() const {
        std::vector<value_id> samples;
        for (int i : {step_inputs::batch, step_inputs::targets, step_inputs::counter, step_inputs::teacher})
            samples.push_back(g_.inputs[static_cast<std::size_t>(i)]);
        return {g_, samples};
    }
    // Behind the sums over this member's samples, those that a layer has taken over all members' already, where the update takes them.
    void add_complete(const std::vector<value_id>& wanted, std::vector<value_id>& cut) const {
        std::vector<char> of_samples(g_.values.size(), 0), taken(g_.values.size(), 0), made = made_of_sums_;
        made.resize(g_.values.size(), 0);
        for (int i : {step_inputs::batch, step_inputs::targets, step_inputs::counter, step_inputs::teacher})
            of_samples[g_.inputs[static_cast<std::size_t>(i)]] = 1;
        for (value_id id : cut) taken[id] = 1;
        for (const node& n : g_.nodes) {
            bool any = false;
            for (value_id id : n.inputs) any |= id != no_value && of_samples[id] && !taken[id];
            for (value_id id : n.outputs)
                if (id != no_value) of_samples[id] = any ? 1 : 0;
        }
        const auto add = [&](value_id id) {
            if (id == no_value || taken[id] || made[id] || !of_samples[id]) return;
            taken[id] = 1;
            cut.push_back(id);
        };
        for (const node& n : g_.nodes)
            if (std::any_of(n.outputs.begin(), n.outputs.end(), [&](value_id id) { return id != no_value && made[id]; }))
                for (value_id id : n.inputs) add(id);
        for (value_id id : wanted) add(id);
    }
    // Whether layers sum over the samples of all members: computed again by each of them for as many segments as suit it, they would not meet.
    bool asks_members() const {
        return o_.group && std::any_of(g_.nodes.begin(), g_.nodes.end(), [](const node& n) { return ops::row_of(n).is(op_flag::sums_members); });
    }

    // Sums over the samples of this member become those over all members'; what is made of them comes behind that. They are exchanged in buckets,
    // in the order in which they are there: `beside` the rest of the backward part, which ends behind what it waits for, or in the step's own order.
    status reduce(std::vector<value_id> found, bool beside) {
        const std::int64_t bucket_bytes = beside ? bytes_of_bucket(found) : largest_bucket;
        // The loss, and then the weights from the last on, as the backward part makes them: an order that all members have.
        if (!found.empty()) std::reverse(found.begin() + 1, found.end());
        // What is made of the sums on the way to gradients and loss goes behind them. Who else reads them is before that, and reads this member's.
        const batch_sums sums = sums_of_batch();
        std::vector<char> exchanged = made_of_sums_;
        exchanged.resize(g_.values.size(), 0);
        std::vector<node> kept, later;
        for (node& n : g_.nodes) {
            bool moves = false;
            for (const std::vector<value_id>* ids : {&n.inputs, &n.outputs})
                for (value_id id : *ids) moves |= id != no_value && exchanged[id];
            bool of_sums = false, of_samples = false;
            for (value_id id : n.inputs)
                if (id != no_value && sums.depends(id)) (sums.is_summed(id) ? of_sums : of_samples) = true;
            if (!moves && of_sums && of_samples)
                return fail(errc::op_unsupported, location(n),
                            "it joins a sum over the batch with single samples, which several members cannot compute together");
            for (value_id id : n.outputs)
                if (moves && id != no_value) exchanged[id] = 1;
            (moves ? later : kept).push_back(std::move(n));
        }
        g_.nodes = std::move(kept);
        first_late_ = g_.nodes.size();
        emit_.prefix = "reduce";
        std::vector<value_id> reduced(g_.values.size(), no_value), bucket;
        std::int64_t bytes = 0;
        for (std::size_t i = 0; i < found.size(); ++i) {
            bucket.push_back(found[i]);
            bytes += bytes_of(g_.at(found[i]).type, g_.at(found[i]).extents);
            if (bytes < bucket_bytes && i + 1 < found.size()) continue;
            const std::vector<value_id> made =
                beside ? begin_exchange(bucket)
                       : emit_.apply_all("graft", "AllReduce", bucket, {integer_attribute("by_device", by_.device)}, static_cast<int>(bucket.size()));
            GRAFT_TRY(std::move(emit_.failure));
            for (std::size_t k = 0; k < bucket.size(); ++k) reduced[bucket[k]] = made[k];
            bucket.clear();
            bytes = 0;
        }
        const auto now = [&](value_id& id) {
            if (id != no_value && static_cast<std::size_t>(id) < reduced.size() && reduced[id] != no_value) id = reduced[id];
        };
        for (node& n : later) {
            for (value_id& id : n.inputs) now(id);
            g_.nodes.push_back(std::move(n));
        }
        for (value_id& id : gradients_) now(id);
        now(loss_);
        return {};
    }

    // A bucket is on its way while the backward part fills the next, so that several pay: eight of a small network, but none that is mostly latency.
    static constexpr std::int64_t largest_bucket = std::int64_t(4) << 20, least_bucket = std::int64_t(128) << 10;
    std::int64_t bytes_of_bucket(const std::vector<value_id>& found) const {
        std::int64_t all = 0;
        for (value_id id : found) all = std::max(all, checked_add(all, bytes_of(g_.at(id).type, g_.at(id).extents)));
        return std::min(largest_bucket, std::max(least_bucket, all / 8));
    }
    // The bucket's sums, which are waited for where they are read.
    std::vector<value_id> begin_exchange(const std::vector<value_id>& bucket) {
        const attribute by_device = integer_attribute("by_device", by_.device);
        const value_id sent = emit_.apply_graft("AllReduceStart", bucket, {by_device});
        std::vector<std::int64_t> ranks, all;
        for (value_id id : bucket) {
            const shape& own = g_.at(id).extents;
            ranks.push_back(own.rank());
            all.insert(all.end(), own.begin(), own.end());
        }
        std::vector<value_id> sums = emit_.apply_all("graft", "AllReduceEnd", {sent},
                                                     {integers_attribute("ranks", std::move(ranks)), integers_attribute("extents", std::move(all)), by_device},
                                                     static_cast<int>(bucket.size()));
        if (!sums.empty()) ends_.push_back(sums[0]);
        return sums;
    }

    // The network as it trains, and its loss.
    status build_loss(const std::vector<tensor_view>& views, step_part part, executor& pool) {
        declare_inputs(views);
        const bool parts = part == step_part::sums || part == step_part::update;
        training_mode_options mode;
        mode.learning = state_.weights;
        mode.samples = g_.inputs[step_inputs::batch];
        mode.batch_norm = o_.batch_norm;
        mode.counter = g_.inputs[step_inputs::counter];
        mode.seed = o_.seed;
        const int own = o_.group ? member_shards::of(o_.group->rank(), o_.group->size(), o_.shards).count : o_.shards;
        mode.shards = shards_ = !parts ? own : o_.fixed_batch > 0 ? 1 : own / o_.micro_batches;
        GRAFT_TRY_ASSIGN(running_, training_mode(g_, mode));
        const bool apart = parts && (o_.micro_batches > 1 || o_.fixed_batch > 0 || !o_.stages.empty());
        if (apart && !running_.empty()) return across("a layer of BatchNormalization");
        // The logits stay a value of their own, and so do the new statistics.
        g_.outputs = {logits_};
        for (const running_statistic& r : running_) g_.outputs.push_back(r.updated);
        const reference_options with{o_.limits, pool, nullptr, o_.seed};
        GRAFT_TRY_ASSIGN(g_, specialize(std::move(g_), views.data(), with));
        norms_of_weights(g_, g_.inputs[step_inputs::batch]);
        drop_unread(g_);
        GRAFT_TRY(rows_of_logits());
        if (apart && o_.fixed_batch == 0) GRAFT_TRY(check_samples_apart());
        if (!o_.stages.empty()) GRAFT_TRY(place_stages());
        loss_ = emit_loss(emit_, o_.loss, logits_, g_.inputs[step_inputs::targets], g_.inputs[step_inputs::scale],
                          o_.loss.distillation > 0 ? g_.inputs[step_inputs::teacher] : no_value, shards_);
        for (std::size_t i = forward_; i < g_.nodes.size(); ++i) g_.nodes[i].place = static_cast<place_id>(o_.stages.size());
        forward_ = g_.nodes.size();
        return std::move(emit_.failure);
    }
    // Nodes ask for the place of their stage: 1 and on, behind the host. What the loss is made of has that of the last.
    status place_stages() {
        stage_limits fits;
        fits.stages = static_cast<int>(o_.stages.size());
        fits.parts = o_.micro_batches;
        fits.kept = static_cast<int>(state_.kept.size());
        fits.by_memory = by_.stages_by_memory;
        fits.weights = state_.weights;
        fits.of_samples = {g_.inputs[step_inputs::batch], g_.inputs[step_inputs::counter]};
        forward_ = g_.nodes.size();
        std::vector<int> stages;
        GRAFT_TRY_ASSIGN(stages, cut_stages(g_, forward_, fits));
        for (std::size_t i = 0; i < forward_; ++i) g_.nodes[i].place = static_cast<place_id>(stages[i] + 1);
        weight_place_.assign(g_.values.size(), 0);
        for (std::size_t i = forward_; i-- > 0;)
            for (value_id id : g_.nodes[i].inputs)
                if (id != no_value) weight_place_[id] = g_.nodes[i].place;
        return {};
    }
    status build_gradients() {
        GRAFT_TRY_ASSIGN(gradients_, differentiate(g_, loss_, state_.weights, shards_, o_.limits));
        emit_.prefix = "update";
        for (std::size_t i = 0; i < gradients_.size(); ++i)
            if (gradients_[i] == no_value) gradients_[i] = emit_.zeros(g_.at(state_.weights[i]).extents, state_.weights[i]);
        return std::move(emit_.failure);
    }

    status across(const std::string& what) const {
        if (!o_.stages.empty())
            return fail(
                errc::op_unsupported, g_.name,
                what + " looks across the batch, of which stages have a part at a time: batch normalisation can keep its statistics (--batch-norm frozen)");
        return fail(errc::memory_budget, g_.name, what + " looks across the batch, so that a batch cannot be computed in parts: take a smaller --batch");
    }
    // Whatever depends on the samples has them along its first axis: where one has not, its layer may have mixed them.
    status check_samples_apart() const {
        const std::int64_t n = g_.at(g_.inputs[step_inputs::batch]).extents[0];
        std::vector<char> depends(g_.values.size(), 0);
        depends[g_.inputs[step_inputs::batch]] = 1;
        mark_dependents(g_, g_.nodes.size(), depends);
        for (const node& m : g_.nodes)
            for (value_id id : m.outputs) {
                if (id == no_value || !depends[id]) continue;
                const value& v = g_.at(id);
                if (v.has_shape && (v.extents.rank() < 1 || v.extents[0] % n != 0)) return across("'" + (m.name.empty() ? m.op_type : m.name) + "'");
            }
        return {};
    }

    // The graph from the sums on: they become inputs, behind the others.
    void start_from(const std::vector<value_id>& sums, const std::vector<value_id>& wanted) {
        std::vector<char> given(g_.values.size(), 0);
        for (value_id id : sums) given[id] = 1;
        const auto makes_one = [&](const node& n) {
            for (value_id id : n.outputs)
                if (id != no_value && given[id]) return true;
            return false;
        };
        g_.nodes.erase(std::remove_if(g_.nodes.begin(), g_.nodes.end(), makes_one), g_.nodes.end());
        for (value_id id : sums) g_.inputs.push_back(id);
        g_.outputs = wanted;
        drop_unread(g_);
    }

    value_id add_input(std::string name, const tensor_view& v) {
        const value_id id = g_.add_value(std::move(name));
        become_input(id, v);
        return id;
    }
    void become_input(value_id id, const tensor_view& v) {
        value& made = g_.at(id);
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
            if (!g_.at(id).constant) open.push_back(id);
        g_.inputs.clear();
        become_input(open[0], views[step_inputs::batch]);
        for (const char* name : {"targets", "scale", "learning_rate", "step", "counter", "teacher", "inverse_scale"})
            add_input(std::string("training/") + name, views[g_.inputs.size()]);
        for (value_id id : state_.weights) become_input(id, views[g_.inputs.size()]);
        for (value_id id : state_.statistics) become_input(id, views[g_.inputs.size()]);
        for (std::size_t w = 0; w < state_.weights.size(); ++w)
            for (const std::string& kept : state_.kept) add_input(learning_[w].name + "." + kept, views[g_.inputs.size()]);
    }

    // A row for each sample, whatever else: a network that holds its batch somewhere would learn from the first sample alone.
    status rows_of_logits() {
        const value& v = g_.at(logits_);
        const std::int64_t n = g_.at(g_.inputs[step_inputs::batch]).extents[0];
        const bool known = v.has_shape && v.extents.known() && v.extents.rank() >= 1, row = known && (v.extents.rank() == 2 || class_axis(v.extents) > 0);
        if (!row || v.extents[0] != n || v.extents.elements() < n)
            return fail(errc::train_head, v.name,
                        "what the loss is taken of has to be [N, classes]; for " + std::to_string(n) + " samples it is " +
                            (v.has_shape ? text(v.extents) : "of a shape that is not known"));
        if (v.extents.rank() != 2) logits_ = emit_.reshape(logits_, {n, v.extents.elements() / n});
        return std::move(emit_.failure);
    }

    void finish_updates(const std::vector<running_statistic>& running) {
        const std::size_t first_update = first_late_ ? first_late_ : g_.nodes.size(), behind_all = o_.group && first_late_ ? g_.nodes.size() : no_node;
        emit_.prefix = "update";
        value_id decides = loss_, scaled_norm = no_value;  // an update is left out where this is not finite
        if (o_.loss_scaling) {
            const value_id inverse = g_.inputs[step_inputs::inverse_scale];
            decides = scaled_norm = emit_.apply_graft("GlobalNorm", gradients_);
            for (value_id& id : gradients_) id = emit_.mul(id, inverse);
            g_.outputs[step_outputs::loss] = emit_.mul(loss_, inverse);
        }
        const auto input = [&](std::size_t state) { return g_.inputs[static_cast<std::size_t>(step_inputs::first_state) + state]; };
        std::vector<value_id> updated = updated_statistics(running);
        if (o_.optimizer.clip_norm > 0) {
            const value_id norm = emit_.apply_graft("GlobalNorm", gradients_);
            for (value_id& id : gradients_)
                id = emit_.apply_graft("ScaleByNorm", {id, norm}, {real_attribute("max_norm", static_cast<float>(o_.optimizer.clip_norm))});
        }
        for (std::size_t w = 0; w < state_.weights.size() && emit_.failure.ok(); ++w) {
            std::vector<value_id> kept;
            for (std::size_t k = 0; k < state_.kept.size(); ++k) kept.push_back(input(state_.kept_of(w, k)));
            const std::size_t before = g_.nodes.size();
            const std::vector<value_id> made = emit_update(emit_, o_.optimizer, state_.weights[w], gradients_[w], kept, g_.inputs[step_inputs::learning_rate],
                                                           g_.inputs[step_inputs::step], decides, learning_[w].rate);
            // Where the weight is read.
            for (std::size_t i = before; i < g_.nodes.size() && !weight_place_.empty(); ++i) g_.nodes[i].place = weight_place_[state_.weights[w]];
            updated[w] = made[0];
            for (std::size_t k = 0; k < state_.kept.size(); ++k) updated[state_.kept_of(w, k)] = made[k + 1];
        }
        if (!emit_.failure.ok()) return;
        keep_states(updated);
        if (scaled_norm != no_value) g_.outputs.push_back(scaled_norm);
        schedule(first_update, behind_all);
    }

    // By state: its new value; none where it stays as it is.
    std::vector<value_id> updated_statistics(const std::vector<running_statistic>& running) const {
        std::vector<value_id> updated(state_.count(), no_value);
        for (const running_statistic& r : running)
            for (std::size_t s = 0; s < state_.statistics.size(); ++s)
                if (state_.statistics[s] == r.current) updated[state_.weights.size() + s] = r.updated;
        return updated;
    }
    void keep_states(const std::vector<value_id>& updated) {
        for (std::size_t s = 0; s < updated.size(); ++s) {
            const bool changes = updated[s] != no_value;
            g_.states.push_back({step_inputs::first_state + static_cast<int>(s), changes ? static_cast<int>(g_.outputs.size()) : -1});
            if (changes) g_.outputs.push_back(updated[s]);
        }
    }

    // Each update runs as soon as its gradient is there and nobody needs the weight as it was, so that gradients do not pile up. Where members exchange
    // them, all updates stand behind the last exchange: one that fails leaves every weight as it was.
    void schedule(std::size_t first_update, std::size_t behind_all) {
        std::vector<std::size_t> ready(g_.values.size(), 0);
        std::vector<value_id> root(g_.values.size());  // whose memory it is: a view may be read long after it was made
        for (std::size_t i = 0; i < root.size(); ++i) root[i] = static_cast<value_id>(i);
        for (std::size_t i = 0; i < first_update; ++i) {
            const node& n = g_.nodes[i];
            for (value_id id : n.inputs)
                if (id != no_value) ready[id] = ready[root[id]] = i;
            for (value_id id : n.outputs)
                if (id != no_value) ready[id] = i;
            if ((n.op->flags & op_flag::view) && n.outputs[0] != no_value && n.inputs[0] != no_value) root[n.outputs[0]] = root[n.inputs[0]];
        }
        std::vector<std::pair<std::size_t, std::size_t>> order;
        for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
            std::size_t key = 2 * i;
            if (i >= first_update) {
                key = 0;
                for (value_id id : g_.nodes[i].inputs)
                    if (id != no_value) key = std::max(key, 2 * ready[id] + 1);
                // Waited for behind the whole backward part, in the order in which they were started.
                if (std::find(ends_.begin(), ends_.end(), g_.nodes[i].outputs[0]) != ends_.end())
                    key += 2 * first_update;
                else if (i >= behind_all)
                    key = 4 * first_update + 2 * i;
                for (value_id id : g_.nodes[i].outputs)
                    if (id != no_value) ready[id] = key / 2;
            }
            order.emplace_back(key, i);
        }
        std::sort(order.begin(), order.end());
        std::vector<node> ordered;
        for (const auto& entry : order) ordered.push_back(std::move(g_.nodes[entry.second]));
        g_.nodes = std::move(ordered);
    }

    static constexpr std::size_t no_node = static_cast<std::size_t>(-1);

    graph g_;
    value_id logits_;
    const std::vector<parameter>& learning_;
    const step_state& state_;
    const step_options& o_;
    step_placement by_;
    emitter emit_;
    int shards_ = 1;
    std::size_t forward_ = 0;     // nodes of the forward part
    std::size_t first_late_ = 0;  // the first node behind the exchange with other members; 0: there is none
    std::vector<value_id> ends_;  // the first sum of each exchange that goes on beside the backward part
    std::vector<std::string> summed_;
    std::vector<place_id> weight_place_;  // by value: the stage that reads it first; empty without stages
    std::vector<char> made_of_sums_;      // by value: whether it is on the way from the sums to gradients and loss
    value_id loss_ = no_value;
    std::vector<running_statistic> running_;
    std::vector<value_id> gradients_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
