// Bodies of train/step.hpp.
#pragma once

#include "../graph/verify.hpp"
#include "step.hpp"
#include "step_parts.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE

// The usual engine: a place of its own, or the stages of a pipeline.
class training_step::single final : public step_engine, private detail::step_parts {
public:
    inline result<step_memory> prepare(const shape& batch, executor& pool) override {
        return detail::or_out_of_memory<result<step_memory>>("a step", [&] { return prepared(batch, pool); });
    }
    inline status run(const step_input& batch, executor& pool) override;
    inline std::vector<stage_work> stages() const override { return stage_work_; }
    inline double loss() const noexcept override { return last_loss; }
    inline loss_scale& scaling() noexcept override { return scale_now_; }
    inline const tensor& logits() const noexcept override { return last_logits; }
    inline status read_state() override { return read_residents(); }
    inline std::vector<training_state>& state() noexcept override { return states; }
    inline void state_changed() noexcept override {
        for (const auto& resident : residents)
            if (resident) resident->host_changed(nullptr);
    }
    inline result<graph> network(bool averaged) const override;

    status make(graph of, value_id logits, std::vector<parameter> parameters, const step_options& given);

private:
    status make_state();
    status run_whole(const step_input& in, executor& pool);
    status run_idle(const step_input& in, executor& pool);
    status run_staged(planned& p, const std::vector<tensor_view>& inputs, const void* next);
    status run_checked(const step_input& in, executor& pool);
    status check_learnt(std::int64_t at, executor& pool);
    status rescale(std::int64_t at);

    std::vector<char> finite_;  // of check_learnt, for each weight and statistic: had beforehand, as a step that has learnt must not want for memory
    loss_scale scale_now_;
    std::vector<stage_work> stage_work_;  // by stage
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
GRAFT_INLINE std::vector<stage_work> training_step::stages() const { return self_->stages(); }
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
    finite_.resize(layout.weights.size() + layout.statistics.size());
    // What the host's own memory has, beside the host itself, is the CPU in another precision.
    const bool on_host = options.on && options.on->in_host_memory();
    if (options.reference && on_host) GRAFT_TRY(detail::host_precision(options.on->precision()));
    GRAFT_TRY_ASSIGN(host, detail::training_host(on_host ? options.on->precision() : "float32"));
    if (options.reference || on_host) options.on.reset();
    for (std::shared_ptr<device>& stage : options.stages)
        if (stage && stage->in_host_memory()) GRAFT_TRY_ASSIGN(stage, detail::training_host(stage->precision()));
    residents.resize(1);
    for (const std::shared_ptr<device>& beside : staged() ? options.stages : std::vector<std::shared_ptr<device>>{options.on}) {
        residents.emplace_back();
        if (beside) GRAFT_TRY_ASSIGN(residents.back(), beside->make_state());
    }
    if (options.on && options.group) GRAFT_TRY(options.on->exchanges(*options.group, placement.device));
    return {};
}

GRAFT_INLINE result<step_memory> training_step::prepare(const shape& batch, executor& pool) { return self_->prepare(batch, pool); }

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
    const void* const next = alike ? in.next->raw() : nullptr;
    GRAFT_TRY(staged() ? run_staged(*p, all, next) : p->runner->run(all.data(), next));
    last_logits = p->runner->output(detail::step_outputs::logits);
    if (central()) return update_by(sums_in(*p), in.inputs->shape(), in, plain, pool);
    last_loss = static_cast<double>(p->runner->output(detail::step_outputs::loss).data<float>()[0]);
    read_norm(*p);
    return {};
}

// Counts what each stage does.
GRAFT_INLINE status training_step::single::run_staged(planned& p, const std::vector<tensor_view>& inputs, const void* next) {
    const std::size_t count = options.stages.size();
    stage_work_.resize(count);
    const bool again = p.runner->current() != nullptr;
    std::vector<double> before(count, 0);
    for (std::size_t s = 0; s < count && again; ++s) before[s] = p.runner->busy_seconds(static_cast<place_id>(s + 1));
    GRAFT_TRY(p.runner->run(inputs.data(), next));
    const plan& ran = *p.runner->current();
    for (std::size_t s = 0; s < count; ++s) {
        const double now = p.runner->busy_seconds(static_cast<place_id>(s + 1));
        stage_work& work = stage_work_[s];
        work.device = ran.places[s + 1].on->name();
        work.bytes = bytes_of_stage(ran, s + 1);
        work.busy_seconds = now < 0 || work.busy_seconds < 0 ? -1 : work.busy_seconds + std::max(0.0, now - std::max(0.0, before[s]));
    }
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
    const double factor = options.loss_scaling ? scale_now_.factor : 1;
    scale.data<float>()[0] = static_cast<float>(in.scale * factor);
    inverse_scale.data<float>()[0] = static_cast<float>(1 / factor);
    learning_rate.data<float>()[0] = static_cast<float>(in.learning_rate);
    step.data<std::int64_t>()[0] = in.step + 1;
    counter.data<std::int64_t>()[0] = in.step;
    counter.data<std::int64_t>()[1] = in.first;
    if (options.group) options.group->set_trace(options.trace && options.trace->recording() ? options.trace.get() : nullptr);
    status done = detail::or_out_of_memory<status>("a step", [&] { return run_checked(in, pool); });
    if (options.group) {
        status settled = options.group->settle(done.ok() ? nullptr : &done.error());
        if (done.ok()) done = std::move(settled);
    }
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
        if (++scale_now_.steps == 2000 && scale_now_.factor < 1e30) scale_now_.factor *= 2, scale_now_.steps = 0;
        return {};
    }
    ++scale_now_.skipped;
    scale_now_.steps = 0;
    scale_now_.factor /= 2;
    if (scale_now_.factor >= least) return {};
    return fail(
        errc::train_diverged, "step " + std::to_string(at),
        "gradients are not finite, however small the loss is made. Go back to a checkpoint; a smaller --lr, clipping of gradients or bfloat16 may help");
}

// A gradient may overflow where the loss does not. Updates run before all gradients are there, so that it shows in the weights.
GRAFT_INLINE status training_step::single::check_learnt(std::int64_t at, executor& pool) {
    if (on_device()) return {};  // not worth bringing all of it back: what is spoilt spoils the next loss
    const std::size_t count = finite_.size();
    parallel_for(pool, static_cast<std::int64_t>(count),
                 [&](std::int64_t i) { finite_[static_cast<std::size_t>(i)] = detail::all_finite(view(states[static_cast<std::size_t>(i)].value)) ? 1 : 0; });
    for (std::size_t i = 0; i < count; ++i)
        if (!finite_[i])
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
