// Bodies of train/step.hpp.
#pragma once

#include "../exec/context.hpp"
#include "../graph/verify.hpp"
#include "divergence.hpp"
#include "execution.hpp"
#include "step.hpp"
#include "pipeline.hpp"
#include "step_graph.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE

class training_step::single final : public step_engine {
public:
    graph trained;
    value_id logits_value = no_value, input_value = no_value;
    std::vector<parameter> learning;
    step_options options;
    detail::step_placement placement;
    detail::step_state layout;
    std::vector<training_state> states;
    std::vector<char> finite;  // of check_learnt, for each weight and statistic: had beforehand, as a step that has learnt must not want for memory
    std::vector<std::unique_ptr<device_state>> residents;  // what devices hold of it, by place; null: nothing
    double last_loss = 0, last_norm = 0;
    tensor last_logits;
    // The small inputs of a step, in the order of detail::step_inputs.
    tensor scale, learning_rate, step, counter, inverse_scale, nothing;
    loss_scale scale_now;

    // A graph planned for one shape of batch.
    struct planned {
        shape batch;
        detail::step_part part = detail::step_part::whole;
        bool plain = false;
        std::size_t summed = 0;  // how many sums there are over this member's samples
        detail::executable what;
        std::unique_ptr<detail::context> runner;
        std::vector<tensor_view> inputs;  // their types and shapes
    };
    std::vector<std::unique_ptr<planned>> plans;
    // Of a batch, or of a part of it: what its samples are summed to; nothing where there are none.
    using sums = std::vector<tensor>;
    // A batch in parts while it runs.
    struct parted {
        const step_input& in;
        detail::batch_parts cut;
        shape part;                  // of the largest part
        bool plain = false;          // whether the gradients are added, and not what they are made of
        std::int64_t diverged = -1;  // the first sample of the first part whose loss is not finite
    };

    inline result<step_memory> prepare(const shape& batch, executor& pool) override {
        return detail::or_out_of_memory<result<step_memory>>("a step", [&] { return prepared(batch, pool); });
    }
    inline status run(const step_input& batch, executor& pool) override;
    inline double loss() const noexcept override { return last_loss; }
    inline loss_scale& scaling() noexcept override { return scale_now; }
    inline const tensor& logits() const noexcept override { return last_logits; }
    inline status read_state() override { return read_residents(); }
    inline std::vector<training_state>& state() noexcept override { return states; }
    inline void state_changed() noexcept override {
        for (const auto& resident : residents)
            if (resident) resident->host_changed(nullptr);
    }
    inline result<graph> network(bool averaged) const override;

    status make(graph of, value_id logits, std::vector<parameter> parameters, const step_options& given);
    status make_state();
    result<step_memory> prepared(const shape& batch, executor& pool);
    std::vector<tensor_view> views(const tensor_view& batch, const tensor_view& targets, const tensor_view& teacher) const;
    result<std::unique_ptr<planned>> make_plan_for(const shape& batch, dtype type, detail::step_part part, bool plain, executor& pool);
    result<planned*> plan_for(const shape& batch, dtype type, detail::step_part part, bool plain, executor& pool);
    status choose_sums(const step_input& in, bool& plain, executor& pool);
    result<std::shared_ptr<const plan>> plan_of(const planned& p, executor& pool) const { return p.what.plan_for(p.inputs.data(), pool); }
    void give_back_others(const planned& p);
    status run_whole(const step_input& in, executor& pool);
    status run_idle(const step_input& in, executor& pool);
    status run_parts(parted& p, executor& pool);
    result<sums> sum_part(parted& p, std::int64_t part, executor& pool);
    result<sums> sum_parts(parted& p, std::int64_t first, std::int64_t count, executor& pool);
    status update_by(sums total, const shape& part, const step_input& in, bool plain, executor& pool);
    status hand_out_variables();
    // Whether the first of several members keeps the weights for all.
    bool central() const { return options.central_variables && options.group && options.group->size() > 1; }
    detail::step_builder builder() const { return {trained, logits_value, learning, layout, options, placement}; }
    bool staged() const { return !options.stages.empty(); }
    bool in_parts() const { return !staged() && (options.micro_batches > 1 || options.fixed_batch > 0); }
    bool on_device() const {
        return std::any_of(residents.begin(), residents.end(), [](const auto& resident) { return resident != nullptr; });
    }
    status read_residents() const {
        for (const auto& resident : residents)
            if (resident) GRAFT_TRY(resident->read_back(nullptr));
        return {};
    }
    status check_stages(const plan& p) const;
    detail::step_part whole_part() const { return central() ? detail::step_part::sums : detail::step_part::whole; }
    // What a graph of sums has made; its statistics are state, and stand behind them.
    static sums sums_in(const planned& p) {
        std::size_t last = p.what.graph.outputs.size();
        for (const state_pair& s : p.what.graph.states) last -= s.output >= 0;
        sums found;
        for (std::size_t i = detail::step_outputs::first_state; i < last; ++i) found.push_back(p.runner->output(i));
        return found;
    }
    detail::batch_parts parts() const { return {{options.micro_batches}, options.fixed_batch}; }
    status find_classes(const shape& batch, executor& pool);
    status run_checked(const step_input& in, executor& pool);
    status check_learnt(std::int64_t at, executor& pool);
    status rescale(std::int64_t at);
    void read_norm(const planned& p) {
        if (options.loss_scaling) last_norm = static_cast<double>(p.runner->output(p.what.graph.outputs.size() - 1).data<float>()[0]);
    }
    status diverged(const step_input& in, std::int64_t first, executor& pool);
    std::int64_t state_on_device(const plan& p) const {
        std::int64_t bytes = 0;
        for (const state_pair& s : p.lowered.states)
            if (p.lowered.at(p.lowered.inputs[s.input]).place)
                bytes += static_cast<std::int64_t>(states[static_cast<std::size_t>(s.input - detail::step_inputs::first_state)].value.bytes());
        return bytes;
    }
    std::int64_t chosen_for = -1;   // the samples that choose_sums was asked about last,
    bool chosen = false;            // its answer,
    std::int64_t most_samples = 0;  // and what the largest part of it has
    std::int64_t classes = 0;       // numbers in a row of the logits
    // The shards that this member of a run computes.
    int own_shards() const { return options.group ? member_shards::of(options.group->rank(), options.group->size(), options.shards).count : options.shards; }
};

// What a step that was made and given nothing answers.
class training_step::nothing final : public step_engine {
public:
    inline result<step_memory> prepare(const shape&, executor&) override { return empty(); }
    inline status run(const step_input&, executor&) override { return empty(); }
    inline double loss() const noexcept override { return 0; }
    inline loss_scale& scaling() noexcept override { return scaling_; }
    inline const tensor& logits() const noexcept override { return logits_; }
    inline status read_state() override { return {}; }
    inline std::vector<training_state>& state() noexcept override { return state_; }
    inline void state_changed() noexcept override {}
    inline result<graph> network(bool) const override { return empty(); }

private:
    static status empty() { return fail(errc::usage, "training step", "it is empty: take what training_step::make returns"); }
    loss_scale scaling_;
    tensor logits_;
    std::vector<training_state> state_;
};

GRAFT_INLINE training_step::training_step() : self_(new nothing) {}
GRAFT_INLINE training_step::~training_step() = default;
GRAFT_INLINE training_step::training_step(training_step&&) noexcept = default;
GRAFT_INLINE training_step& training_step::operator=(training_step&&) noexcept = default;
GRAFT_INLINE double training_step::loss() const noexcept { return self_->loss(); }
GRAFT_INLINE loss_scale& training_step::scaling() noexcept { return self_->scaling(); }
GRAFT_INLINE const tensor& training_step::logits() const noexcept { return self_->logits(); }
GRAFT_INLINE const std::vector<training_state>& training_step::state() const noexcept { return self_->state(); }
GRAFT_INLINE std::vector<training_state>& training_step::state() noexcept { return self_->state(); }
GRAFT_INLINE status training_step::read_state() { return self_->read_state(); }
GRAFT_INLINE void training_step::state_changed() noexcept { self_->state_changed(); }
GRAFT_INLINE result<graph> training_step::network(bool averaged) const GRAFT_MEMORY_TRY { return self_->network(averaged); }
GRAFT_MEMORY_CATCH("training_step::network")
GRAFT_INLINE std::vector<replica_work> training_step::replicas() const { return self_->replicas(); }
GRAFT_INLINE int members_of(const step_options& o) { return o.replicas ? o.replicas->members() : o.group ? o.group->size() : 1; }

GRAFT_INLINE status training_step::single::make_state() {
    const auto add = [&](std::string state_name, const tensor& from, bool zero) -> status {
        tensor made;
        GRAFT_TRY_ASSIGN(made, zero ? tensor::zeros(from.type(), from.shape()) : tensor::make(from.type(), from.shape()));
        if (!zero && made.bytes()) std::memcpy(made.raw(), from.storage().unaligned(), made.bytes());
        states.push_back({std::move(state_name), std::move(made)});
        return {};
    };
    const auto constant = [&](value_id id) -> const tensor& { return trained.at(id).constant; };
    const auto add_constant = [&](value_id id) -> status {
        value& v = trained.at(id);
        GRAFT_TRY(add(v.name, v.constant, false));
        v.constant = states.back().value;  // what the network came with gives its memory back
        return {};
    };
    for (value_id id : layout.weights) GRAFT_TRY(add_constant(id));
    for (value_id id : layout.statistics) GRAFT_TRY(add_constant(id));
    for (const parameter& p : learning)
        for (const std::string& kept : layout.kept) GRAFT_TRY(add(p.name + "." + kept, constant(p.id), kept != "ema"));
    GRAFT_TRY_ASSIGN(scale, tensor::zeros(dtype::float32, shape{}));
    GRAFT_TRY_ASSIGN(learning_rate, tensor::zeros(dtype::float32, shape{}));
    GRAFT_TRY_ASSIGN(step, tensor::zeros(dtype::int64, shape{}));
    GRAFT_TRY_ASSIGN(counter, tensor::zeros(dtype::int64, shape{2}));
    GRAFT_TRY_ASSIGN(inverse_scale, tensor::zeros(dtype::float32, shape{}));
    GRAFT_TRY_ASSIGN(nothing, tensor::zeros(dtype::float32, shape{1, 1}));
    return {};
}

GRAFT_INLINE result<training_step> training_step::make(graph network, value_id logits, std::vector<parameter> parameters,
                                                       const step_options& options) GRAFT_MEMORY_TRY {
    if (!shards::legal(options.shards) || !shards::legal(options.micro_batches) || options.micro_batches > options.shards)
        return fail(errc::usage, "shards", "shards and the parts of a batch are powers of two up to 256, and there are at least as many shards as parts");
    training_step made;
    if (options.replicas) {
        GRAFT_TRY_ASSIGN(made.self_, options.replicas->make(std::move(network), logits, std::move(parameters), options));
        return made;
    }
    auto self = std::make_unique<single>();
    GRAFT_TRY(self->make(std::move(network), logits, std::move(parameters), options));
    made.self_ = std::move(self);
    return made;
}
GRAFT_MEMORY_CATCH("training_step::make")

GRAFT_INLINE status training_step::single::make(graph of, value_id logits_id, std::vector<parameter> parameters, const step_options& given) {
    bool bound = true;
    for (const node& n : of.nodes) bound &= n.op != nullptr;
    if (!bound) {
        const ops::table_list all = ops::all_op_tables();
        GRAFT_TRY(verify_graph(of, all, given.limits));
    }
    trained = std::move(of);
    logits_value = logits_id;
    options = given;
    if (options.group && options.group->size() > options.shards)
        return fail(errc::usage, "shards",
                    std::to_string(options.group->size()) + " members cannot share " + std::to_string(options.shards) +
                        " shards: --shards has to be as many at least");
    if (options.group && (options.fixed_batch > 0 || options.micro_batches > own_shards()))
        return fail(errc::usage, "batch",
                    "among several members a batch is computed in as many parts as each has shards at most, and by networks that take any batch");
    if (staged() &&
        (options.stages.size() < 2 || options.stages.size() > 64 || options.group || options.fixed_batch > 0 || options.recompute || options.reference))
        return fail(errc::usage, "stages",
                    "a pipeline has 2 to 64 stages, of one process, of a network that takes any batch, without recomputation and reference kernels");
    if (staged()) options.on.reset();
    for (value_id id : trained.inputs) {
        const value& v = trained.at(id);
        if (v.constant) continue;
        if (input_value != no_value)
            return fail(errc::input_name, trained.name,
                        "the network asks for more than one input ('" + trained.at(input_value).name + "', '" + v.name + "'); a step gives it one, the batch");
        input_value = id;
    }
    if (input_value == no_value) return fail(errc::input_name, trained.name, "the network has no input");
    for (parameter& p : parameters)
        if (p.learns) learning.push_back(std::move(p));
    if (learning.empty()) return fail(errc::train_freeze, trained.name, "every weight is frozen, so that nothing can learn; --freeze none lets all of them");
    if (options.fixed_batch > 1 && (!is_of_probabilities(options.loss.kind) || options.loss.distillation > 0))
        return fail(errc::usage, "loss",
                    "this network only takes " + std::to_string(options.fixed_batch) +
                        " samples at a time; what fills up the last of them would count in every loss but " + joined_names(loss_names(true), "and") +
                        ", without a teacher");
    if (options.fixed_batch > 0) options.batch_norm = false;
    for (const parameter& p : learning) layout.weights.push_back(p.id);
    if (options.batch_norm) layout.statistics = running_statistics(trained, layout.weights);
    layout.kept = optimizer_states(options.optimizer);
    GRAFT_TRY(make_state());
    finite.resize(layout.weights.size() + layout.statistics.size());
    if (options.reference) options.on.reset();
    residents.resize(1);
    for (const std::shared_ptr<device>& beside : staged() ? options.stages : std::vector<std::shared_ptr<device>>{options.on}) {
        residents.emplace_back();
        if (beside) GRAFT_TRY_ASSIGN(residents.back(), beside->make_state());
    }
    if (options.on && options.group) GRAFT_TRY(options.on->exchanges(*options.group, placement.device));
    return {};
}

GRAFT_INLINE std::vector<tensor_view> training_step::single::views(const tensor_view& batch, const tensor_view& targets, const tensor_view& teacher) const {
    std::vector<tensor_view> all{batch, targets, view(scale), view(learning_rate), view(step), view(counter), teacher, view(inverse_scale)};
    for (const training_state& s : states) all.push_back(view(s.value));
    return all;
}

GRAFT_INLINE result<training_step::single::planned*> training_step::single::plan_for(const shape& batch, dtype type, detail::step_part part, bool plain,
                                                                                     executor& pool) {
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

GRAFT_INLINE result<std::unique_ptr<training_step::single::planned>> training_step::single::make_plan_for(const shape& batch, dtype type,
                                                                                                          detail::step_part part, bool plain, executor& pool) {
    std::unique_ptr<planned> made(new planned);
    made->batch = batch;
    made->part = part;
    made->plain = plain;
    const tensor_view targets{dtype::float32, {batch.rank() ? batch[0] : 1, classes}, nullptr};
    made->inputs = views({type, batch, nullptr}, targets, options.loss.distillation > 0 ? targets : view(nothing));
    for (tensor_view& v : made->inputs) v.data = nullptr;
    if (staged() && part == detail::step_part::whole) {
        const std::function<detail::step_builder()> new_builder = [this] { return builder(); };
        GRAFT_TRY_ASSIGN(made->what.graph, detail::pipeline_builder(new_builder, options, parts()).build(made->inputs, plain, pool));
    } else {
        detail::step_builder building = builder();
        GRAFT_TRY_ASSIGN(made->what.graph, building.build(made->inputs, part, plain, pool));
        made->summed = building.summed().size();
    }
    for (std::size_t i = made->inputs.size(); i < made->what.graph.inputs.size(); ++i) {
        const value& v = made->what.graph.at(made->what.graph.inputs[i]);
        made->inputs.push_back({v.type, v.extents, nullptr});
    }
    std::shared_ptr<device> host;
    GRAFT_TRY_ASSIGN(host, detail::training_host());
    const bool at_home = central() && part == detail::step_part::update;
    made->what.how = execution_of(options, std::move(host), at_home ? nullptr : options.on);
    made->what.how.group = options.group;
    for (const std::shared_ptr<device>& stage : options.stages) {
        made->what.how.places.push_back(stage);
        if (!stage) GRAFT_TRY_ASSIGN(made->what.how.places.back(), detail::training_host());
    }
    made->what.how.in_order = staged();
    std::vector<device_state*> states_of;
    for (const auto& resident : residents) states_of.push_back(at_home ? nullptr : resident.get());
    made->runner.reset(new detail::context(made->what, pool, std::move(states_of)));
    std::shared_ptr<const plan> planned_step;
    GRAFT_TRY_ASSIGN(planned_step, plan_of(*made, pool));
    return made;
}

// What the plan really takes of each stage: intermediates, weights with what is kept of them, and constants that a device has.
GRAFT_INLINE status training_step::single::check_stages(const plan& p) const {
    for (std::size_t s = 1; s < p.places.size() && options.stage_bytes > 0; ++s) {
        std::int64_t bytes = p.places[s].arena_bytes + (p.places[s].loaded ? p.places[s].loaded->constant_bytes() : 0);
        for (const state_pair& pair : p.lowered.states)
            if (p.lowered.at(p.lowered.inputs[pair.input]).place == s)
                bytes += static_cast<std::int64_t>(states[static_cast<std::size_t>(pair.input - detail::step_inputs::first_state)].value.bytes());
        if (bytes > options.stage_bytes)
            return fail(errc::memory_budget, "stage " + std::to_string(s),
                        "it takes " + std::to_string(bytes) + " bytes and may take " + std::to_string(options.stage_bytes) +
                            ": take more stages or parts, or a smaller batch");
    }
    return {};
}

// Batches of another size leave their memory to this one; the update of parts, which is small and runs between them, keeps its own.
GRAFT_INLINE void training_step::single::give_back_others(const planned& p) {
    for (const auto& other : plans)
        if (other.get() != &p && (other->part == detail::step_part::update) == (p.part == detail::step_part::update)) other->runner->trim();
}

GRAFT_INLINE result<step_memory> training_step::prepare(const shape& batch, executor& pool) { return self_->prepare(batch, pool); }

GRAFT_INLINE result<step_memory> training_step::single::prepared(const shape& batch, executor& pool) {
    const bool by_parts = in_parts();
    const dtype type = trained.at(input_value).type;
    GRAFT_TRY(find_classes(batch, pool));
    shape part = batch;
    if (by_parts) part[0] = parts().largest(part[0]);
    planned* p = nullptr;
    std::shared_ptr<const plan> found;
    GRAFT_TRY_ASSIGN(p, plan_for(part, type, by_parts ? detail::step_part::sums : whole_part(), false, pool));
    GRAFT_TRY_ASSIGN(found, plan_of(*p, pool));
    step_memory m;
    m.activations = host_arena_bytes(*found);
    m.constants = found->constant_bytes;
    m.device = device_bytes(*found);
    for (const training_state& s : states) m.state += static_cast<std::int64_t>(s.value.bytes());
    m.device += state_on_device(*found);
    if (!by_parts && !central()) return m;
    GRAFT_TRY_ASSIGN(p, plan_for(part, type, detail::step_part::update, false, pool));
    GRAFT_TRY_ASSIGN(found, plan_of(*p, pool));
    std::int64_t of_sums = 0, levels = 1;
    for (std::size_t i = detail::step_inputs::first_state + states.size(); i < p->inputs.size(); ++i)
        of_sums += bytes_of(p->inputs[i].type, p->inputs[i].extents);
    while (std::int64_t(1) << (levels - 1) < parts().count(batch[0])) ++levels;
    m.activations += host_arena_bytes(*found) + levels * of_sums;
    m.constants += found->constant_bytes;
    m.device += device_bytes(*found);
    return m;
}

// How many classes there are, where the network does not say: by its shapes for this batch.
GRAFT_INLINE status training_step::single::find_classes(const shape& batch, executor& pool) {
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

GRAFT_INLINE status training_step::single::run_whole(const step_input& in, executor& pool) {
    planned* p = nullptr;
    bool plain = false;
    if (options.group || staged()) GRAFT_TRY(choose_sums(in, plain, pool));
    if (in.inputs->shape()[0] == 0) return run_idle(in, pool);
    GRAFT_TRY_ASSIGN(p, plan_for(in.inputs->shape(), in.inputs->type(), whole_part(), plain, pool));
    give_back_others(*p);
    last_logits = tensor();  // given back, so that the run need not allocate another
    const std::vector<tensor_view> all = views(view(*in.inputs), view(*in.targets), in.teacher ? view(*in.teacher) : view(nothing));
    const bool alike = in.next && in.next->shape() == in.inputs->shape() && in.next->type() == in.inputs->type();
    GRAFT_TRY(p->runner->run(all.data(), alike ? in.next->raw() : nullptr));
    last_logits = p->runner->output(detail::step_outputs::logits);
    if (central()) return update_by(sums_in(*p), in.inputs->shape(), in, plain, pool);
    last_loss = static_cast<double>(p->runner->output(detail::step_outputs::loss).data<float>()[0]);
    read_norm(*p);
    return {};
}

// A member without samples meets the others in the same exchanges, with samples that are not counted.
GRAFT_INLINE status training_step::single::run_idle(const step_input& in, executor& pool) {
    const auto made_up = [&](const tensor& like, tensor& made) -> status {
        shape extents = like.shape();
        extents[0] = std::min<std::int64_t>(2, most_samples);
        GRAFT_TRY_ASSIGN(made, tensor::zeros(like.type(), extents));
        return {};
    };
    tensor inputs, targets, teacher;
    GRAFT_TRY(made_up(*in.inputs, inputs));
    GRAFT_TRY(made_up(*in.targets, targets));
    if (in.teacher) GRAFT_TRY(made_up(*in.teacher, teacher));
    step_input idle = in;
    idle.inputs = &inputs, idle.targets = &targets;
    if (in.teacher) idle.teacher = &teacher;
    idle.next = nullptr;
    options.group->set_idle(true);
    status done = run_whole(idle, pool);
    options.group->set_idle(false);
    GRAFT_TRY(std::move(done));
    last_logits = tensor();
    GRAFT_TRY_ASSIGN(last_logits, tensor::make(dtype::float32, {0, classes}));
    return {};
}

GRAFT_INLINE status training_step::run(const step_input& batch, executor& pool) GRAFT_MEMORY_TRY { return self_->run(batch, pool); }
GRAFT_MEMORY_CATCH("training_step::run")

GRAFT_INLINE status training_step::single::run(const step_input& in, executor& pool) {
    if (!in.inputs || !in.targets) return fail(errc::input_name, "batch", "a step takes inputs and targets");
    const shape& x = in.inputs->shape();
    if (x.rank() < 1 || x[0] < (options.group ? 0 : 1))
        return fail(errc::input_shape, "batch", "a batch holds at least one sample; this has the shape " + text(x));
    GRAFT_TRY(find_classes(x, pool));
    if (in.targets->type() != dtype::float32 || in.targets->shape() != shape{x[0], classes})
        return fail(errc::input_shape, "targets",
                    "they have the shape " + text(in.targets->shape()) + " and have to have " + text(shape{x[0], classes}) + ", float32");
    if (options.loss.distillation > 0 && !in.teacher) return fail(errc::input_name, "teacher", "distillation needs the logits of a teacher");
    const double factor = options.loss_scaling ? scale_now.factor : 1;
    scale.data<float>()[0] = static_cast<float>(in.scale * factor);
    inverse_scale.data<float>()[0] = static_cast<float>(1 / factor);
    learning_rate.data<float>()[0] = static_cast<float>(in.learning_rate);
    step.data<std::int64_t>()[0] = in.step + 1;
    counter.data<std::int64_t>()[0] = in.step;
    counter.data<std::int64_t>()[1] = in.first;
    status done = detail::or_out_of_memory<status>("a step", [&] { return run_checked(in, pool); });
    // What was had of the memory goes back: a smaller batch may follow, or the same one where there is more room by then.
    if (!done.ok() && done.error().code() == errc::memory_oom)
        for (const auto& p : plans) p->runner->trim();
    return done;
}

GRAFT_INLINE status training_step::single::run_checked(const step_input& in, executor& pool) {
    parted by_parts{in, parts(), {}, false, -1};
    if (!in_parts())
        GRAFT_TRY(run_whole(in, pool));
    else
        GRAFT_TRY(run_parts(by_parts, pool));
    if (!std::isfinite(last_loss)) return diverged(in, by_parts.diverged, pool);
    return options.loss_scaling ? rescale(in.step) : check_learnt(in.step, pool);
}

// Where a gradient has overflown, nothing was changed.
GRAFT_INLINE status training_step::single::rescale(std::int64_t at) {
    constexpr double least = 1.0 / (1 << 14);
    if (std::isfinite(last_norm)) {
        if (++scale_now.steps == 2000 && scale_now.factor < 1e30) scale_now.factor *= 2, scale_now.steps = 0;
        return {};
    }
    ++scale_now.skipped;
    scale_now.steps = 0;
    scale_now.factor /= 2;
    if (scale_now.factor >= least) return {};
    return fail(
        errc::train_diverged, "step " + std::to_string(at),
        "gradients are not finite, however small the loss is made. Go back to a checkpoint; a smaller --lr, clipping of gradients or bfloat16 may help");
}

// A gradient may overflow where the loss does not. Updates run before all gradients are there, so that it shows in the weights.
GRAFT_INLINE status training_step::single::check_learnt(std::int64_t at, executor& pool) {
    if (on_device()) return {};  // not worth bringing all of it back: what is spoilt spoils the next loss
    const std::size_t count = finite.size();
    parallel_for(pool, static_cast<std::int64_t>(count),
                 [&](std::int64_t i) { finite[static_cast<std::size_t>(i)] = detail::all_finite(view(states[static_cast<std::size_t>(i)].value)) ? 1 : 0; });
    for (std::size_t i = 0; i < count; ++i)
        if (!finite[i])
            return fail(errc::train_diverged, "step " + std::to_string(at),
                        "the loss is finite, but '" + states[i].name +
                            "' no longer is after this step: its gradient or the step was too large. Go back to a checkpoint; a smaller --lr or clipping of "
                            "gradients may help");
    return {};
}

GRAFT_INLINE result<graph> training_step::single::network(bool averaged) const {
    GRAFT_TRY(read_residents());
    graph g = trained;
    const std::size_t weights = layout.weights.size();
    const bool ema = averaged && options.optimizer.ema_decay > 0;
    const auto put = [&](value_id id, const tensor& from) -> status {
        tensor copy;
        GRAFT_TRY_ASSIGN(copy, tensor::make(from.type(), from.shape()));
        if (copy.bytes()) std::memcpy(copy.raw(), from.raw(), copy.bytes());
        g.at(id).constant = std::move(copy);
        return {};
    };
    for (std::size_t w = 0; w < weights; ++w) GRAFT_TRY(put(layout.weights[w], states[ema ? layout.kept_of(w, layout.kept.size() - 1) : w].value));
    for (std::size_t s = 0; s < layout.statistics.size(); ++s) GRAFT_TRY(put(layout.statistics[s], states[weights + s].value));
    return g;
}

GRAFT_END_NAMESPACE
