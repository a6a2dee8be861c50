// The plans of a step, one for each shape of batch, and what they are made of: the network, what of it learns, and the state that runs change.
#pragma once

#include "../exec/context.hpp"
#include "execution.hpp"
#include "pipeline.hpp"
#include "step.hpp"
#include "step_graph.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace detail {

class step_plans {
public:
    // A graph planned for one shape of batch.
    struct planned {
        shape batch;
        step_part part = step_part::whole;
        bool plain = false;
        std::size_t summed = 0;  // how many sums there are over this member's samples
        executable what;
        std::unique_ptr<context> runner;
        std::vector<tensor_view> inputs;  // their types and shapes
    };

    result<step_memory> prepared(const shape& batch, executor& pool);
    std::vector<tensor_view> views(const tensor_view& batch, const tensor_view& targets, const tensor_view& teacher) const;
    result<planned*> plan_for(const shape& batch, dtype type, step_part part, bool plain, executor& pool);
    void give_back_others(const planned& p);
    std::int64_t bytes_of_stage(const plan& p, std::size_t stage) const;  // `stage` from 1
    status find_classes(const shape& batch, executor& pool);
    step_builder builder() const { return {trained, logits_value, learning, layout, options, placement}; }

    bool staged() const { return !options.stages.empty(); }
    bool in_parts() const { return !staged() && (options.micro_batches > 1 || options.fixed_batch > 0); }
    batch_parts parts() const { return {{options.micro_batches}, options.fixed_batch}; }
    // Whether the first of several members keeps the weights for all.
    bool central() const { return options.central_variables && options.group && options.group->size() > 1; }
    step_part whole_part() const { return central() ? step_part::sums : step_part::whole; }
    // The shards that this member of a run computes.
    int own_shards() const { return options.group ? member_shards::of(options.group->rank(), options.group->size(), options.shards).count : options.shards; }
    bool on_device() const {
        return std::any_of(residents.begin(), residents.end(), [](const auto& resident) { return resident != nullptr; });
    }
    status read_residents() const {
        for (const auto& resident : residents)
            if (resident) GRAFT_TRY(resident->read_back(nullptr));
        return {};
    }

    graph trained;
    value_id logits_value = no_value, input_value = no_value;
    std::vector<parameter> learning;
    step_options options;
    std::shared_ptr<device> host;
    step_placement placement;
    step_state layout;
    std::vector<training_state> states;
    std::vector<std::unique_ptr<device_state>> residents;  // what devices hold of it, by place; null: nothing
    // The small inputs of a step, in the order of step_inputs.
    tensor scale, learning_rate, step, counter, inverse_scale, nothing;
    std::int64_t classes = 0;  // numbers in a row of the logits
    std::vector<std::unique_ptr<planned>> plans;

private:
    result<std::unique_ptr<planned>> make_plan_for(const shape& batch, dtype type, step_part part, bool plain, executor& pool);
    result<std::shared_ptr<const plan>> plan_of(const planned& p, executor& pool) const { return p.what.plan_for(p.inputs.data(), pool); }
    status check_stages(const plan& p) const;
    std::int64_t state_on_device(const plan& p) const {
        std::int64_t bytes = 0;
        for (const state_pair& s : p.lowered.states)
            if (p.lowered.at(p.lowered.inputs[s.input]).place)
                bytes += static_cast<std::int64_t>(states[static_cast<std::size_t>(s.input - step_inputs::first_state)].value.bytes());
        return bytes;
    }
};

GRAFT_INLINE std::vector<tensor_view> step_plans::views(const tensor_view& batch, const tensor_view& targets, const tensor_view& teacher) const {
    std::vector<tensor_view> all{batch, targets, view(scale), view(learning_rate), view(step), view(counter), teacher, view(inverse_scale)};
    for (const training_state& s : states) all.push_back(view(s.value));
    return all;
}

GRAFT_INLINE result<step_plans::planned*> step_plans::plan_for(const shape& batch, dtype type, step_part part, bool plain, executor& pool) {
    for (const auto& p : plans)
        if (p->batch == batch && p->part == part && p->plain == plain) {
            p->runner->use(pool);
            return p.get();
        }
    std::unique_ptr<planned> made;
    GRAFT_TRY_ASSIGN(made, make_plan_for(batch, type, part, plain, pool));
    // A cut by work alone may give a stage more than it has memory for.
    while (staged()) {
        std::shared_ptr<const plan> cut;
        GRAFT_TRY_ASSIGN(cut, plan_of(*made, pool));
        status fits = check_stages(*cut);
        if (fits.ok()) break;
        if (placement.stages_by_memory >= 1) return fits;
        made.reset();
        placement.stages_by_memory += 0.5;
        GRAFT_TRY_ASSIGN(made, make_plan_for(batch, type, part, plain, pool));
    }
    if (plans.size() >= 8) plans.erase(plans.begin());
    plans.push_back(std::move(made));
    return plans.back().get();
}

GRAFT_INLINE result<std::unique_ptr<step_plans::planned>> step_plans::make_plan_for(const shape& batch, dtype type, step_part part, bool plain,
                                                                                    executor& pool) {
    std::unique_ptr<planned> made(new planned);
    made->batch = batch;
    made->part = part;
    made->plain = plain;
    const tensor_view targets{dtype::float32, {batch.rank() ? batch[0] : 1, classes}, nullptr};
    made->inputs = views({type, batch, nullptr}, targets, options.loss.distillation > 0 ? targets : view(nothing));
    for (tensor_view& v : made->inputs) v.data = nullptr;
    if (staged() && part == step_part::whole) {
        const std::function<step_builder()> new_builder = [this] { return builder(); };
        GRAFT_TRY_ASSIGN(made->what.graph, pipeline_builder(new_builder, options, parts()).build(made->inputs, plain, pool));
    } else {
        step_builder building = builder();
        GRAFT_TRY_ASSIGN(made->what.graph, building.build(made->inputs, part, plain, pool));
        made->summed = building.summed().size();
    }
    for (std::size_t i = made->inputs.size(); i < made->what.graph.inputs.size(); ++i) {
        const value& v = made->what.graph.at(made->what.graph.inputs[i]);
        made->inputs.push_back({v.type, v.extents, nullptr});
    }
    const bool at_home = central() && part == step_part::update;
    made->what.how = execution_of(options, host, at_home ? nullptr : options.on);
    made->what.how.group = options.group;
    for (const std::shared_ptr<device>& stage : options.stages) {
        made->what.how.places.push_back(stage ? stage : host);
    }
    made->what.how.in_order = staged();
    std::vector<device_state*> states_of;
    for (const auto& resident : residents) states_of.push_back(at_home ? nullptr : resident.get());
    made->runner.reset(new context(made->what, pool, std::move(states_of)));
    std::shared_ptr<const plan> planned_step;
    GRAFT_TRY_ASSIGN(planned_step, plan_of(*made, pool));
    return made;
}

// What the plan really takes of a stage: intermediates, weights with what is kept of them, and constants that a device has.
GRAFT_INLINE std::int64_t step_plans::bytes_of_stage(const plan& p, std::size_t s) const {
    std::int64_t bytes = p.places[s].arena_bytes + (p.places[s].loaded ? p.places[s].loaded->constant_bytes() : 0);
    for (const state_pair& pair : p.lowered.states)
        if (p.lowered.at(p.lowered.inputs[pair.input]).place == s)
            bytes += static_cast<std::int64_t>(states[static_cast<std::size_t>(pair.input - step_inputs::first_state)].value.bytes());
    return bytes;
}
GRAFT_INLINE status step_plans::check_stages(const plan& p) const {
    for (std::size_t s = 1; s < p.places.size() && options.stage_bytes > 0; ++s) GRAFT_TRY(check_stage(s, bytes_of_stage(p, s), options.stage_bytes));
    return {};
}

// Batches of another size leave their memory to this one; the update of parts, which is small and runs between them, keeps its own.
GRAFT_INLINE void step_plans::give_back_others(const planned& p) {
    for (const auto& other : plans)
        if (other.get() != &p && (other->part == step_part::update) == (p.part == step_part::update)) other->runner->trim();
}

GRAFT_INLINE result<step_memory> step_plans::prepared(const shape& batch, executor& pool) {
    const bool by_parts = in_parts();
    const dtype type = trained.at(input_value).type;
    GRAFT_TRY(find_classes(batch, pool));
    shape part = batch;
    if (by_parts) part[0] = parts().largest(part[0]);
    planned* p = nullptr;
    std::shared_ptr<const plan> found;
    GRAFT_TRY_ASSIGN(p, plan_for(part, type, by_parts ? step_part::sums : whole_part(), false, pool));
    GRAFT_TRY_ASSIGN(found, plan_of(*p, pool));
    step_memory m;
    m.activations = host_arena_bytes(*found);
    m.constants = found->constant_bytes;
    m.device = device_bytes(*found);
    for (const training_state& s : states) m.state += static_cast<std::int64_t>(s.value.bytes());
    m.device += state_on_device(*found);
    if (!by_parts && !central()) return m;
    GRAFT_TRY_ASSIGN(p, plan_for(part, type, step_part::update, false, pool));
    GRAFT_TRY_ASSIGN(found, plan_of(*p, pool));
    std::int64_t of_sums = 0, levels = 1;
    for (std::size_t i = step_inputs::first_state + states.size(); i < p->inputs.size(); ++i) of_sums += bytes_of(p->inputs[i].type, p->inputs[i].extents);
    while (std::int64_t(1) << (levels - 1) < parts().count(batch[0])) ++levels;
    m.activations += host_arena_bytes(*found) + levels * of_sums;
    m.constants += found->constant_bytes;
    m.device += device_bytes(*found);
    return m;
}

// How many classes there are, where the network does not say: by its shapes for this batch.
GRAFT_INLINE status step_plans::find_classes(const shape& batch, executor& pool) {
    if (classes > 0) return {};
    const value& declared = trained.at(logits_value);
    if (declared.has_shape && declared.extents.rank() == 2 && declared.extents[1] > 0) {
        classes = declared.extents[1];
        return {};
    }
    shape part = batch;
    if (part.rank()) part[0] = options.fixed_batch > 0 ? options.fixed_batch : std::max<std::int64_t>(1, part[0]);
    graph known;
    GRAFT_TRY_ASSIGN(known, specialize_first_input(trained, part, pool, options.limits));
    const value& v = known.at(logits_value);
    if (!v.has_shape || !v.extents.known() || v.extents.rank() < 1 || v.extents[0] < 1)
        return fail(errc::train_head, v.name, "how many classes it tells apart can only be told by running");
    classes = v.extents.elements() / v.extents[0];
    return {};
}

}  // namespace detail
GRAFT_END_NAMESPACE
