// Bodies of train/step.hpp.
#pragma once

#include "../exec/context.hpp"
#include "../graph/verify.hpp"
#include "divergence.hpp"
#include "execution.hpp"
#include "step.hpp"
#include "step_graph.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE

struct training_step::implementation {
    graph network;
    value_id logits_value = no_value, input_value = no_value;
    std::vector<parameter> learning;
    step_options options;
    detail::step_state layout;
    std::vector<training_state> state;
    std::vector<char> finite;  // of check_learnt, for each weight and statistic: had beforehand, as a step that has learnt must not want for memory
    std::unique_ptr<device_state> resident;  // what the device holds of it
    double last_loss = 0, last_norm = 0;
    tensor last_logits;
    // The small inputs of a step, in the order of detail::step_inputs.
    tensor scale, learning_rate, step, counter, inverse_scale, nothing;
    loss_scale scaling;

    // A graph planned for one shape of batch.
    struct planned {
        shape batch;
        detail::step_part part = detail::step_part::whole;
        bool plain = false;
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

    status make_state();
    result<step_memory> prepare(const shape& batch, executor& pool);
    std::vector<tensor_view> views(const tensor_view& batch, const tensor_view& targets, const tensor_view& teacher) const;
    result<planned*> plan_for(const shape& batch, dtype type, detail::step_part part, bool plain, executor& pool);
    status choose_sums(parted& p, executor& pool);
    result<std::shared_ptr<const plan>> plan_of(const planned& p, executor& pool) const { return p.what.plan_for(p.inputs.data(), pool); }
    void give_back_others(const planned& p);
    status run_whole(const step_input& in, executor& pool);
    status run_parts(parted& p, executor& pool);
    result<sums> sum_part(parted& p, std::int64_t part, executor& pool);
    result<sums> sum_parts(parted& p, std::int64_t first, std::int64_t count, executor& pool);
    bool in_parts() const { return options.micro_batches > 1 || options.fixed_batch > 0; }
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
                bytes += static_cast<std::int64_t>(state[static_cast<std::size_t>(s.input - detail::step_inputs::first_state)].value.bytes());
        return bytes;
    }
    std::int64_t classes = 0;  // numbers in a row of the logits
    status usable() const {
        if (input_value != no_value) return {};
        return fail(errc::usage, "training step", "it is empty: take what training_step::make returns");
    }
};

GRAFT_INLINE training_step::training_step() : self_(new implementation) {}
GRAFT_INLINE training_step::~training_step() = default;
GRAFT_INLINE training_step::training_step(training_step&&) noexcept = default;
GRAFT_INLINE training_step& training_step::operator=(training_step&&) noexcept = default;
GRAFT_INLINE double training_step::loss() const noexcept { return self_->last_loss; }
GRAFT_INLINE loss_scale& training_step::scaling() noexcept { return self_->scaling; }
GRAFT_INLINE const tensor& training_step::logits() const noexcept { return self_->last_logits; }
GRAFT_INLINE const std::vector<training_state>& training_step::state() const noexcept { return self_->state; }
GRAFT_INLINE std::vector<training_state>& training_step::state() noexcept { return self_->state; }

GRAFT_INLINE status training_step::read_state() { return self_->resident ? self_->resident->read_back(nullptr) : status(); }
GRAFT_INLINE void training_step::state_changed() noexcept {
    if (self_->resident) self_->resident->host_changed(nullptr);
}

GRAFT_INLINE status training_step::implementation::make_state() {
    const auto add = [&](std::string state_name, const tensor& from, bool zero) -> status {
        tensor made;
        GRAFT_TRY_ASSIGN(made, zero ? tensor::zeros(from.type(), from.shape()) : tensor::make(from.type(), from.shape()));
        if (!zero && made.bytes()) std::memcpy(made.raw(), from.storage().unaligned(), made.bytes());
        state.push_back({std::move(state_name), std::move(made)});
        return {};
    };
    const auto constant = [&](value_id id) -> const tensor& { return network.at(id).constant; };
    const auto add_constant = [&](value_id id) -> status {
        value& v = network.at(id);
        GRAFT_TRY(add(v.name, v.constant, false));
        v.constant = state.back().value;  // what the network came with gives its memory back
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
    implementation& self = *made.self_;
    bool bound = true;
    for (const node& n : network.nodes) bound &= n.op != nullptr;
    if (!bound) {
        const ops::table_list all = ops::all_op_tables();
        GRAFT_TRY(verify_graph(network, all, options.limits));
    }
    self.network = std::move(network);
    self.logits_value = logits;
    self.options = options;
    for (value_id id : self.network.inputs) {
        const value& v = self.network.at(id);
        if (v.constant) continue;
        if (self.input_value != no_value)
            return fail(errc::input_name, self.network.name,
                        "the network asks for more than one input ('" + self.network.at(self.input_value).name + "', '" + v.name +
                            "'); a step gives it one, the batch");
        self.input_value = id;
    }
    if (self.input_value == no_value) return fail(errc::input_name, self.network.name, "the network has no input");
    for (parameter& p : parameters)
        if (p.learns) self.learning.push_back(std::move(p));
    if (self.learning.empty())
        return fail(errc::train_freeze, self.network.name, "every weight is frozen, so that nothing can learn; --freeze none lets all of them");
    if (options.fixed_batch > 1 && (!is_of_probabilities(options.loss.kind) || options.loss.distillation > 0))
        return fail(errc::usage, "loss",
                    "this network only takes " + std::to_string(options.fixed_batch) +
                        " samples at a time; what fills up the last of them would count in every loss but " + joined_names(loss_names(true), "and") +
                        ", without a teacher");
    if (options.fixed_batch > 0) self.options.batch_norm = false;
    for (const parameter& p : self.learning) self.layout.weights.push_back(p.id);
    if (self.options.batch_norm) self.layout.statistics = running_statistics(self.network, self.layout.weights);
    self.layout.kept = optimizer_states(options.optimizer);
    GRAFT_TRY(self.make_state());
    self.finite.resize(self.layout.weights.size() + self.layout.statistics.size());
    if (self.options.reference) self.options.on.reset();
    if (self.options.on) GRAFT_TRY_ASSIGN(self.resident, self.options.on->make_state());
    return made;
}
GRAFT_MEMORY_CATCH("training_step::make")

GRAFT_INLINE std::vector<tensor_view> training_step::implementation::views(const tensor_view& batch, const tensor_view& targets,
                                                                           const tensor_view& teacher) const {
    std::vector<tensor_view> all{batch, targets, view(scale), view(learning_rate), view(step), view(counter), teacher, view(inverse_scale)};
    for (const training_state& s : state) all.push_back(view(s.value));
    return all;
}

GRAFT_INLINE result<training_step::implementation::planned*> training_step::implementation::plan_for(const shape& batch, dtype type, detail::step_part part,
                                                                                                     bool plain, executor& pool) {
    for (const auto& p : plans)
        if (p->batch == batch && p->part == part && p->plain == plain) {
            p->runner->use(pool);
            return p.get();
        }
    std::unique_ptr<planned> made(new planned);
    made->batch = batch;
    made->part = part;
    made->plain = plain;
    const tensor_view targets{dtype::float32, {batch.rank() ? batch[0] : 1, classes}, nullptr};
    made->inputs = views({type, batch, nullptr}, targets, options.loss.distillation > 0 ? targets : view(nothing));
    for (tensor_view& v : made->inputs) v.data = nullptr;
    GRAFT_TRY_ASSIGN(made->what.graph, detail::step_builder(network, logits_value, learning, layout, options).build(made->inputs, part, plain, pool));
    for (std::size_t i = made->inputs.size(); i < made->what.graph.inputs.size(); ++i) {
        const value& v = made->what.graph.at(made->what.graph.inputs[i]);
        made->inputs.push_back({v.type, v.extents, nullptr});
    }
    std::shared_ptr<device> host;
    GRAFT_TRY_ASSIGN(host, detail::training_host());
    made->what.how = execution_of(options, std::move(host), options.on);
    made->runner.reset(new detail::context(made->what, pool, {nullptr, resident.get()}));
    std::shared_ptr<const plan> planned_step;
    GRAFT_TRY_ASSIGN(planned_step, plan_of(*made, pool));
    if (plans.size() >= 8) plans.erase(plans.begin());
    plans.push_back(std::move(made));
    return plans.back().get();
}

// Batches of another size leave their memory to this one; the update of parts, which is small and runs between them, keeps its own.
GRAFT_INLINE void training_step::implementation::give_back_others(const planned& p) {
    for (const auto& other : plans)
        if (other.get() != &p && (other->part == detail::step_part::update) == (p.part == detail::step_part::update)) other->runner->trim();
}

GRAFT_INLINE result<step_memory> training_step::prepare(const shape& batch, executor& pool) {
    GRAFT_TRY(self_->usable());
    return detail::or_out_of_memory<result<step_memory>>("a step", [&] { return self_->prepare(batch, pool); });
}

GRAFT_INLINE result<step_memory> training_step::implementation::prepare(const shape& batch, executor& pool) {
    const bool by_parts = in_parts();
    const dtype type = network.at(input_value).type;
    GRAFT_TRY(find_classes(batch, pool));
    shape part = batch;
    if (by_parts) part[0] = parts().largest(part[0]);
    implementation::planned* p = nullptr;
    std::shared_ptr<const plan> found;
    GRAFT_TRY_ASSIGN(p, plan_for(part, type, by_parts ? detail::step_part::sums : detail::step_part::whole, false, pool));
    GRAFT_TRY_ASSIGN(found, plan_of(*p, pool));
    step_memory m;
    m.activations = host_arena_bytes(*found);
    m.constants = found->constant_bytes;
    m.device = device_bytes(*found);
    for (const training_state& s : state) m.state += static_cast<std::int64_t>(s.value.bytes());
    if (!by_parts) {
        m.device += state_on_device(*found);
        return m;
    }
    GRAFT_TRY_ASSIGN(p, plan_for(part, type, detail::step_part::update, false, pool));
    GRAFT_TRY_ASSIGN(found, plan_of(*p, pool));
    std::int64_t of_sums = 0, levels = 1;
    for (std::size_t i = detail::step_inputs::first_state + state.size(); i < p->inputs.size(); ++i)
        of_sums += bytes_of(p->inputs[i].type, p->inputs[i].extents);
    while (std::int64_t(1) << (levels - 1) < parts().count(batch[0])) ++levels;
    m.activations += host_arena_bytes(*found) + levels * of_sums;
    m.constants += found->constant_bytes;
    m.device += device_bytes(*found) + state_on_device(*found);
    return m;
}

// How many classes there are, where the network does not say: by its shapes for this batch.
GRAFT_INLINE status training_step::implementation::find_classes(const shape& batch, executor& pool) {
    if (classes > 0) return {};
    const value& declared = network.at(logits_value);
    if (declared.has_shape && declared.extents.rank() == 2 && declared.extents[1] > 0) {
        classes = declared.extents[1];
        return {};
    }
    shape part = batch;
    if (options.fixed_batch > 0 && part.rank()) part[0] = options.fixed_batch;
    graph known;
    GRAFT_TRY_ASSIGN(known, specialize_first_input(network, part, pool, options.limits));
    const value& v = known.at(logits_value);
    if (!v.has_shape || !v.extents.known() || v.extents.rank() < 1 || v.extents[0] < 1)
        return fail(errc::train_head, v.name, "how many classes it tells apart can only be told by running");
    classes = v.extents.elements() / v.extents[0];
    return {};
}

GRAFT_INLINE status training_step::implementation::run_whole(const step_input& in, executor& pool) {
    planned* p = nullptr;
    GRAFT_TRY_ASSIGN(p, plan_for(in.inputs->shape(), in.inputs->type(), detail::step_part::whole, false, pool));
    give_back_others(*p);
    last_logits = tensor();  // given back, so that the run need not allocate another
    const std::vector<tensor_view> all = views(view(*in.inputs), view(*in.targets), in.teacher ? view(*in.teacher) : view(nothing));
    const bool alike = in.next && in.next->shape() == in.inputs->shape() && in.next->type() == in.inputs->type();
    GRAFT_TRY(p->runner->run(all.data(), alike ? in.next->raw() : nullptr));
    last_loss = static_cast<double>(p->runner->output(detail::step_outputs::loss).data<float>()[0]);
    last_logits = p->runner->output(detail::step_outputs::logits);
    read_norm(*p);
    return {};
}

GRAFT_INLINE status training_step::run(const step_input& in, executor& pool) GRAFT_MEMORY_TRY {
    implementation& self = *self_;
    GRAFT_TRY(self.usable());
    if (!in.inputs || !in.targets) return fail(errc::input_name, "batch", "a step takes inputs and targets");
    const shape& x = in.inputs->shape();
    if (x.rank() < 1 || x[0] < 1) return fail(errc::input_shape, "batch", "a batch holds at least one sample; this has the shape " + text(x));
    GRAFT_TRY(self.find_classes(x, pool));
    if (in.targets->type() != dtype::float32 || in.targets->shape() != shape{x[0], self.classes})
        return fail(errc::input_shape, "targets",
                    "they have the shape " + text(in.targets->shape()) + " and have to have " + text(shape{x[0], self.classes}) + ", float32");
    if (self.options.loss.distillation > 0 && !in.teacher) return fail(errc::input_name, "teacher", "distillation needs the logits of a teacher");
    const double factor = self.options.loss_scaling ? self.scaling.factor : 1;
    self.scale.data<float>()[0] = static_cast<float>(in.scale * factor);
    self.inverse_scale.data<float>()[0] = static_cast<float>(1 / factor);
    self.learning_rate.data<float>()[0] = static_cast<float>(in.learning_rate);
    self.step.data<std::int64_t>()[0] = in.step + 1;
    self.counter.data<std::int64_t>()[0] = in.step;
    self.counter.data<std::int64_t>()[1] = 0;
    status done = detail::or_out_of_memory<status>("a step", [&] { return self.run_checked(in, pool); });
    // What was had of the memory goes back: a smaller batch may follow, or the same one where there is more room by then.
    if (!done.ok() && done.error().code() == errc::memory_oom)
        for (const auto& p : self.plans) p->runner->trim();
    return done;
}
GRAFT_MEMORY_CATCH("training_step::run")

GRAFT_INLINE status training_step::implementation::run_checked(const step_input& in, executor& pool) {
    parted by_parts{in, parts(), {}, false, -1};
    if (!in_parts())
        GRAFT_TRY(run_whole(in, pool));
    else
        GRAFT_TRY(run_parts(by_parts, pool));
    if (!std::isfinite(last_loss)) return diverged(in, by_parts.diverged, pool);
    return options.loss_scaling ? rescale(in.step) : check_learnt(in.step, pool);
}

// Where a gradient has overflown, nothing was changed.
GRAFT_INLINE status training_step::implementation::rescale(std::int64_t at) {
    constexpr double least = 1.0 / (1 << 14);
    if (std::isfinite(last_norm)) {
        if (++scaling.steps == 2000 && scaling.factor < 1e30) scaling.factor *= 2, scaling.steps = 0;
        return {};
    }
    ++scaling.skipped;
    scaling.steps = 0;
    scaling.factor /= 2;
    if (scaling.factor >= least) return {};
    return fail(
        errc::train_diverged, "step " + std::to_string(at),
        "gradients are not finite, however small the loss is made. Go back to a checkpoint; a smaller --lr, clipping of gradients or bfloat16 may help");
}

// A gradient may overflow where the loss does not. Updates run before all gradients are there, so that it shows in the weights.
GRAFT_INLINE status training_step::implementation::check_learnt(std::int64_t at, executor& pool) {
    if (resident) return {};  // not worth bringing all of it back: what is spoilt spoils the next loss
    const std::size_t count = finite.size();
    parallel_for(pool, static_cast<std::int64_t>(count),
                 [&](std::int64_t i) { finite[static_cast<std::size_t>(i)] = detail::all_finite(view(state[static_cast<std::size_t>(i)].value)) ? 1 : 0; });
    for (std::size_t i = 0; i < count; ++i)
        if (!finite[i])
            return fail(errc::train_diverged, "step " + std::to_string(at),
                        "the loss is finite, but '" + state[i].name +
                            "' no longer is after this step: its gradient or the step was too large. Go back to a checkpoint; a smaller --lr or clipping of "
                            "gradients may help");
    return {};
}

GRAFT_INLINE result<graph> training_step::network(bool averaged) const GRAFT_MEMORY_TRY {
    const implementation& self = *self_;
    GRAFT_TRY(self.usable());
    if (self.resident) GRAFT_TRY(self.resident->read_back(nullptr));
    graph g = self.network;
    const std::size_t weights = self.layout.weights.size();
    const bool ema = averaged && self.options.optimizer.ema_decay > 0;
    const auto put = [&](value_id id, const tensor& from) -> status {
        tensor copy;
        GRAFT_TRY_ASSIGN(copy, tensor::make(from.type(), from.shape()));
        if (copy.bytes()) std::memcpy(copy.raw(), from.raw(), copy.bytes());
        g.at(id).constant = std::move(copy);
        return {};
    };
    for (std::size_t w = 0; w < weights; ++w)
        GRAFT_TRY(put(self.layout.weights[w], self.state[ema ? self.layout.kept_of(w, self.layout.kept.size() - 1) : w].value));
    for (std::size_t s = 0; s < self.layout.statistics.size(); ++s) GRAFT_TRY(put(self.layout.statistics[s], self.state[weights + s].value));
    return g;
}
GRAFT_MEMORY_CATCH("training_step::network")

GRAFT_END_NAMESPACE
