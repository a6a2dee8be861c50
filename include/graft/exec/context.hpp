// Runs plans: an executable shared by threads, and the context that each of them brings.
#pragma once

#include "../passes/count.hpp"
#include "../passes/forward_pipeline.hpp"
#include "../plan/plan.hpp"
#include "../plan/step_task.hpp"
#include "sample_runs.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// A graph ready to be planned for any input shapes; plans are made on demand and shared.
class executable {
public:
    graft::graph graph;
    execution_options how;
    pipeline_options pipeline;  // the stages that its places behind the host are; none: nodes go where it is best
    result<std::shared_ptr<const plan>> (*staged)(const executable& what, const tensor_view* inputs,
                                                  executor& pool) = nullptr;  // plans stages; null: there are none
    std::vector<dtype> declared;                                              // the types that a file gives its outputs; undefined: any

    // The plan for inputs of these types and shapes. Threads that ask for others meanwhile do not wait.
    result<std::shared_ptr<const plan>> plan_for(const tensor_view* inputs, executor& pool) const {
        const std::shared_ptr<planned> entry = entry_for(inputs);
        std::lock_guard<std::mutex> guard(entry->making);
        if (!entry->made) {
            auto made = make(inputs, pool);
            if (!made.ok()) {
                forget(entry);
                return made.take_status();
            }
            entry->made = std::move(made).value();
        }
        return entry->made;
    }
    static bool fits(const std::vector<tensor_view>& known, const tensor_view* inputs) {
        for (std::size_t i = 0; i < known.size(); ++i)
            if (known[i].type != inputs[i].type || known[i].extents != inputs[i].extents) return false;
        return true;
    }
    // Callers take memory by the type that they were told.
    GRAFT_COLD status check_declared(std::size_t output, dtype made) const {
        if (output >= declared.size() || declared[output] == dtype::undefined || made == declared[output]) return {};
        return fail(errc::op_type, graph.at(graph.outputs[output]).name,
                    std::string("the model declares this output as ") + name(declared[output]) + ", but what makes it gives " + name(made));
    }

private:
    // A plan, or the place of one that a thread makes while it holds `making`.
    struct planned {
        std::vector<tensor_view> inputs;
        std::mutex making;
        std::shared_ptr<const plan> made;
    };

    GRAFT_COLD std::shared_ptr<planned> entry_for(const tensor_view* inputs) const {
        std::lock_guard<std::mutex> guard(lock_);
        const auto found = std::find_if(plans_.begin(), plans_.end(), [&](const auto& p) { return fits(p->inputs, inputs); });
        std::shared_ptr<planned> entry;
        if (found != plans_.end()) {
            entry = *found;
            plans_.erase(found);
        } else {
            entry = std::make_shared<planned>();
            for (std::size_t i = 0; i < graph.inputs.size(); ++i) entry->inputs.push_back({inputs[i].type, inputs[i].extents, nullptr});
            if (plans_.size() >= most_plans) plans_.erase(plans_.begin());
        }
        plans_.push_back(entry);
        return entry;
    }
    void forget(const std::shared_ptr<planned>& entry) const {
        std::lock_guard<std::mutex> guard(lock_);
        plans_.erase(std::remove(plans_.begin(), plans_.end(), entry), plans_.end());
    }
    result<std::shared_ptr<const plan>> make(const tensor_view* inputs, executor& pool) const {
        std::shared_ptr<const plan> made;
        GRAFT_TRY_ASSIGN(made, staged ? staged(*this, inputs, pool) : make_plan(graph, inputs, how, pool));
        for (std::size_t i = 0; i < made->outputs.size(); ++i)
            if (made->outputs[i].kind != slot_kind::none) GRAFT_TRY(check_declared(i, made->outputs[i].prototype.type));
        return made;
    }

    static constexpr std::size_t most_plans = 16;
    mutable std::mutex lock_;
    mutable std::vector<std::shared_ptr<planned>> plans_;  // the last one asked for at the end
};

// Who lends a run its inputs, and may want their memory back before the run has ended.
class input_lender {
public:
    inline virtual ~input_lender() {}
    // Nobody in the run reads that input any more.
    inline virtual void read_last(std::size_t input) = 0;
};

// The memory of one caller. Not for two threads at once.
class context final : public subgraph_runner {
public:
    // `states`: by place, where it keeps what it changes in memory of its own; null or missing where nothing is. `budget`: what all memory of its
    // runs counts against.
    context(const executable& what, executor& pool, std::vector<device_state*> states = {}, std::shared_ptr<memory_budget> budget = nullptr)
        : what_(what), pool_(&pool), states_(std::move(states)), budget_(std::move(budget)) {}
    // Later runs are spread by this executor; the one before need not live any more.
    void use(executor& pool) {
        if (pool_ != &pool)
            for (const auto& p : ready_) p->bodies.clear();  // they have contexts of their own
        pool_ = &pool;
    }

    // What a trace has its runs as, where they are of no group.
    void trace_as(int member) { traced_as_ = member; }

    // One view an input of the graph, in its order; the memory is only read, and only during the call. `next`: where input `coming` of
    // the next run lies, if it is there by now and of the same shape; it may be read until that run has ended.
    status run(const tensor_view* inputs, const void* next = nullptr, std::int64_t coming = 0, input_lender* lender = nullptr) {
        lender_ = lender;
        if (!now_ || !executable::fits(now_->source->inputs, inputs)) GRAFT_TRY(take_up(inputs));
        inputs_ = inputs;
        GRAFT_TRY(prepare_outputs());
        if (now_->samples) GRAFT_TRY(run_samples());
        for (const auto& at : now_->at)
            if (at && next) GRAFT_TRY(at->expect(coming, next));
        // State that this plan has in one place may have been changed in another by another plan.
        for (const state_pair& s : now_->source->lowered.states)
            GRAFT_TRY(each_other_state(s, [&](device_state& other) { return other.read_back(inputs_[s.input].data); }));
        status done = run_steps();
        for (const state_pair& s : now_->source->lowered.states)
            if (s.output >= 0) (void)each_other_state(s, [&](device_state& other) { return other.host_changed(inputs_[s.input].data), status(); });
        return done;
    }
    // Output i of the last run; holding on to it makes the next run allocate another.
    const tensor& output(std::size_t i) const { return now_ && i < now_->outputs.size() ? now_->outputs[i] : nothing_; }
    std::shared_ptr<const plan> current() const { return now_ ? now_->source : nullptr; }
    // Seconds that a place has computed for this plan; below 0: it does not measure them.
    double busy_seconds(place_id place) const { return now_ && now_->at[place] ? now_->at[place]->busy_seconds() : 0; }
    // Gives the memory back; the next run allocates anew.
    void trim() {
        now_ = nullptr;
        ready_.clear();
        arena_ = buffer();
        scratch_.kept.clear();
        workers_.clear();
        late_.clear();
    }

    status run(const graft::graph& body, const tensor_view* inputs, int count, std::vector<tensor>& outputs) override;

private:
    struct body_state {
        const graft::graph* source = nullptr;
        executable what;
        std::unique_ptr<context> runner;
    };
    // A `Call` runs its body once, so what the body has read for the last time may go, if nobody reads it behind the call.
    struct call_lender final : input_lender {
        context& caller;
        const std::vector<capture>& captures;
        call_lender(context& c, const std::vector<capture>& given) : caller(c), captures(given) {}
        void read_last(std::size_t input) override {
            const plan& p = *caller.now_->source;
            const value_id id = captures[input].outer;
            const slot& read = p.value_slots[id];
            for (value_id going : p.read_last[caller.late_at_ + 1]) {
                const slot& s = p.value_slots[static_cast<std::size_t>(going)];
                if (going == id || (s.kind == slot_kind::input && read.kind == s.kind && read.index == s.index)) caller.let_go(going);
            }
        }
    };
    // What it keeps of a plan for when the same shapes come again. The arena and the scratch memory are those of all plans.
    struct prepared {
        std::shared_ptr<const plan> source;
        std::vector<std::unique_ptr<device_context>> at;  // by place; null where no step runs there
        std::vector<tensor> outputs;
        memory_charge charge;                  // of the outputs; what a caller still holds of earlier ones is the caller's
        std::unique_ptr<sample_runs> samples;  // where samples of a batch go alone before the steps
        std::vector<std::unique_ptr<body_state>> bodies;
        std::vector<std::shared_ptr<const trace_task>> unmeasured;  // of steps whose place does not say how long they take; empty until something records
    };
    // At its end no place runs any more, and `failed` is the first that went wrong; also where something is thrown.
    struct settled_places {
        const prepared& run;
        status& failed;
        ~settled_places() {
            const int count = static_cast<int>(run.source->segments.size());
            for (const auto& each : run.at) {
                status ended = each ? or_out_of_memory<status>(run.source->lowered.name.c_str(), [&] { return each->finish(count); }) : status();
                if (failed.ok()) failed = std::move(ended);
            }
        }
    };
    static constexpr std::size_t most_ready = 4;

    // Makes the plan for these inputs the one at work: as it was kept, or anew. Where that fails none is.
    GRAFT_COLD status take_up(const tensor_view* inputs) {
        now_ = nullptr;
        const auto kept = std::find_if(ready_.begin(), ready_.end(), [&](const auto& p) { return executable::fits(p->source->inputs, inputs); });
        if (kept != ready_.end()) {
            std::rotate(kept, kept + 1, ready_.end());
            now_ = ready_.back().get();
            return {};
        }
        std::shared_ptr<const plan> found;
        GRAFT_TRY_ASSIGN(found, what_.plan_for(inputs, *pool_));
        if (ready_.size() >= most_ready) ready_.erase(ready_.begin());
        auto made = prepare(found);
        // Shapes that were run before give way.
        while (!made.ok() && !ready_.empty() && (made.error().code() == errc::memory_budget || made.error().code() == errc::memory_oom)) {
            ready_.erase(ready_.begin());
            made = prepare(found);
        }
        if (!made.ok()) return made.take_status();
        ready_.push_back(std::move(made).value());
        now_ = ready_.back().get();
        return {};
    }

    // An arena large enough for this plan and those before it, which are forgotten where it cannot be had. Contexts of a device know where
    // the arena before it lay.
    GRAFT_COLD status hold_arena(const plan& p) {
        const auto bytes = static_cast<std::size_t>(p.places[0].arena_bytes);
        if (arena_.bytes() >= bytes) return {};
        std::vector<std::unique_ptr<prepared>> before;
        before.swap(ready_);
        arena_ = buffer();
        auto made = buffer::allocate(bytes, budget_);
        if (!made.ok()) {
            before.clear();
            GRAFT_TRY_ASSIGN(made, buffer::allocate(bytes, budget_));
        }
        arena_ = std::move(made).value();
        before.erase(std::remove_if(before.begin(), before.end(), [](const auto& r) { return r->at.size() > 1; }), before.end());
        before.swap(ready_);
        return {};
    }

    GRAFT_COLD result<std::unique_ptr<prepared>> prepare(const std::shared_ptr<const plan>& source) {
        const plan& p = *source;
        auto made = std::make_unique<prepared>();
        made->source = source;
        GRAFT_TRY(hold_arena(p));
        made->at.resize(p.places.size());
        for (const plan_segment& s : p.segments)
            if (!made->at[s.place]) GRAFT_TRY_ASSIGN(made->at[s.place], p.places[s.place].on->make_context(source, s.place, state_at(s.place)));
        if (!made->charge.take(budget_, output_bytes(p)))
            return fail(errc::memory_budget, p.lowered.name,
                        "its outputs of " + std::to_string(output_bytes(p)) + " bytes more are over the limit of " + std::to_string(budget_->limit()));
        if (p.each) GRAFT_TRY_ASSIGN(made->samples, sample_runs::make(p, workers_, *pool_, budget_));
        return made;
    }

    device_state* state_at(place_id place) const { return place < states_.size() ? states_[place] : nullptr; }
    // Whoever may hold a state that this plan has elsewhere.
    template <class Ask>
    status each_other_state(const state_pair& s, Ask ask) {
        const plan& p = *now_->source;
        for (std::size_t i = 0; i < states_.size(); ++i)
            if (states_[i] && p.lowered.at(p.lowered.inputs[s.input]).place != i) GRAFT_TRY(ask(*states_[i]));
        return {};
    }
    run_environment environment() {
        trace_recorder* const trace = what_.how.trace && what_.how.trace->recording() ? what_.how.trace.get() : nullptr;
        return {*now_->source, arena_.data(), inputs_, now_->outputs,         *pool_, what_.how.limit,
                this,          &scratch_,     budget_, what_.how.group.get(), trace,  traced_as_};
    }

    status run_steps() {
        const run_environment around = environment();
        GRAFT_TRY(run_segments(around));
        status late = run_late_nodes();
        if (late.ok()) late = finish_outputs();
        for (tensor& t : late_) t = tensor();
        return late;
    }

    // Each is begun when those that it waits for have ended; places run beside each other. None runs any more when this returns.
    status run_segments(const run_environment& around) {
        const std::vector<plan_segment>& segments = now_->source->segments;
        status failed;
        {
            const settled_places places{*now_, failed};
            for (std::size_t k = 0; k < segments.size() && failed.ok(); ++k) failed = start_segment(static_cast<int>(k), around);
        }
        if (around.trace) count_unmeasured(*around.trace);
        return failed;
    }
    void count_unmeasured(trace_recorder& trace);
    status start_segment(int number, const run_environment& around) {
        const std::vector<plan_segment>& segments = now_->source->segments;
        const plan_segment& s = segments[static_cast<std::size_t>(number)];
        for (int other : s.after) GRAFT_TRY(now_->at[segments[static_cast<std::size_t>(other)].place]->finish(other));
        return now_->at[s.place]->start(number, around);
    }

    // Behind it the steps read what the samples have made.
    status run_samples() {
        GRAFT_TRY(now_->samples->run(environment(), workers_));
        inputs_ = now_->samples->rows();
        return {};
    }
    GRAFT_COLD status prepare_outputs() {
        std::vector<tensor>& outputs = now_->outputs;
        const plan& p = *now_->source;
        outputs.resize(p.outputs.size());
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            const slot& s = p.outputs[i];
            if (p.state_of[i] >= 0) continue;
            // A late one is let go of, so that who makes it can use its memory again.
            if (s.kind == slot_kind::none) outputs[i] = tensor();
            if (s.kind == slot_kind::none) continue;
            if (outputs[i] && outputs[i].type() == s.prototype.type && outputs[i].shape() == s.prototype.extents && outputs[i].storage().unique()) continue;
            outputs[i] = tensor();
            GRAFT_TRY_ASSIGN(outputs[i], tensor::make(s.prototype.type, s.prototype.extents));
        }
        return {};
    }

    tensor_view late_view(value_id id) {
        if (id == no_value) return {};
        const auto at = static_cast<std::size_t>(id);
        if (at < late_.size() && late_[at]) return view(late_[at]);
        const slot& s = now_->source->value_slots[at];
        return {s.prototype.type, s.prototype.extents, environment().address(s)};
    }

    GRAFT_COLD status run_late_nodes() {
        const plan& p = *now_->source;
        if (p.late.empty()) return {};
        late_.assign(p.lowered.values.size(), tensor());
        for (value_id id : p.read_last[0]) let_go(id);
        for (late_at_ = 0; late_at_ < p.late.size(); ++late_at_) {
            GRAFT_TRY(run_late(p.lowered.nodes[static_cast<std::size_t>(p.late[late_at_])]));
            for (value_id id : p.read_last[late_at_ + 1]) let_go(id);
        }
        return {};
    }
    // Gives back what is read no more, here or to whom it belongs.
    void let_go(value_id id) {
        const slot& s = now_->source->value_slots[id];
        if (s.kind == slot_kind::input && lender_) lender_->read_last(static_cast<std::size_t>(s.index));
        if (s.kind == slot_kind::none) late_[id] = tensor();
    }
    status run_late(const node& n);
    void record_late(trace_recorder& trace, const node& n, const std::vector<tensor_view>& in, const std::vector<tensor>& made, double began);

    GRAFT_COLD status finish_outputs() {
        const plan& p = *now_->source;
        for (std::size_t i = 0; i < p.outputs.size(); ++i) {
            tensor& out = now_->outputs[i];
            const slot& s = p.outputs[i];
            const auto id = static_cast<std::size_t>(p.lowered.outputs[i]);
            if (p.state_of[i] >= 0) continue;
            if (s.kind == slot_kind::none) {
                if (id < late_.size()) out = late_[id];
                if (!out) return fail(errc::graph_no_output, p.lowered.values[id].name, "this output was never made");
                GRAFT_TRY(what_.check_declared(i, out.type()));
            } else if (environment().address(s) != out.raw() && out.bytes())
                std::memcpy(out.raw(), environment().address(s), out.bytes());
        }
        return {};
    }

    const executable& what_;
    executor* pool_;
    std::vector<device_state*> states_;
    std::shared_ptr<memory_budget> budget_;
    std::vector<std::unique_ptr<prepared>> ready_;  // the last one used at the end
    prepared* now_ = nullptr;
    buffer arena_;
    scratch_store scratch_;
    sample_workers workers_;
    const tensor_view* inputs_ = nullptr;
    input_lender* lender_ = nullptr;  // of the run at work
    std::vector<tensor> late_;
    std::size_t late_at_ = 0;  // the late node at work
    tensor nothing_;
    int traced_as_ = 0;
};

}  // namespace detail
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace detail {

GRAFT_INLINE GRAFT_COLD status context::run_late(const node& n) {
    if (!n.op->run) return fail(errc::op_unsupported, location(n), "this build does not hold the operator; GRAFT_OPS leaves it out");
    std::vector<value_id> ids = n.inputs;
    append_captures(n, ids);
    std::vector<tensor_view> in;
    for (value_id id : ids) in.push_back(late_view(id));
    std::vector<tensor> made;
    trace_recorder* const trace = environment().trace;
    const double began = trace ? seconds_now() : 0;
    GRAFT_TRY(run_reference(n, in.data(), static_cast<int>(n.inputs.size()), made,
                            {what_.how.limit, *pool_, this, seed_of(now_->source->lowered, n, what_.how.seed), budget_}));
    if (trace) record_late(*trace, n, in, made, began);
    for (std::size_t i = 0; i < made.size(); ++i)
        if (n.outputs[i] != no_value) late_[n.outputs[i]] = std::move(made[i]);
    return {};
}

// Its shapes are those of this run alone, and so is what they say.
GRAFT_INLINE GRAFT_COLD void context::record_late(trace_recorder& trace, const node& n, const std::vector<tensor_view>& in, const std::vector<tensor>& made,
                                                  double began) {
    trace_span span;
    span.begin = began, span.end = seconds_now();
    span.member = what_.how.group ? what_.how.group->rank() : traced_as_;
    span.thread = trace_recorder::compute;
    (void)or_out_of_memory<status>("a trace", [&]() -> status {
        std::vector<tensor_view> out;
        for (const tensor& t : made) out.push_back(t ? view(t) : tensor_view{});
        trace_task told = task_of(n, in, out, pool_->threads());
        // What a body computes is told by the steps of its own.
        if (!out.empty())
            told.multiply_adds = std::max<std::int64_t>(
                0, count_multiply_adds(op_context{n, in.data(), static_cast<int>(n.inputs.size()), out.data(), static_cast<int>(out.size()), what_.how.limit}));
        told.device = now_->source->places[0].on ? now_->source->places[0].on->name() : "cpu";
        told.kernel = "reference";
        span.bytes = told.made_bytes;
        span.task = std::make_shared<const trace_task>(std::move(told));
        return {};
    });
    trace.add(span);
}
GRAFT_INLINE GRAFT_COLD void context::count_unmeasured(trace_recorder& trace) {
    const plan& p = *now_->source;
    std::vector<std::shared_ptr<const trace_task>>& tasks = now_->unmeasured;
    (void)or_out_of_memory<status>("a trace", [&]() -> status {
        if (tasks.empty())
            for (const step& s : p.steps)
                if (p.places[s.place].on && !p.places[s.place].on->in_host_memory()) tasks.push_back(std::make_shared<const trace_task>(task_of(p, s, 1)));
        return {};
    });
    for (const auto& task : tasks) trace.add_unmeasured(task);
}

// A body becomes an executable of its own whose inputs are followed by what it captures.
GRAFT_INLINE GRAFT_COLD status context::run(const graft::graph& body, const tensor_view* inputs, int count, std::vector<tensor>& outputs) {
    body_state* state = nullptr;
    for (const auto& b : now_->bodies)
        if (b->source == &body) state = b.get();
    if (!state) {
        now_->bodies.push_back(std::make_unique<body_state>());
        state = now_->bodies.back().get();
        state->source = &body;
        executable& e = state->what;
        e.graph = body;
        bind_constants(e.graph, now_->source->lowered.values);
        for (const capture& c : e.graph.captures) e.graph.inputs.push_back(c.inner);
        e.how = what_.how;
        e.how.seed += 1;
        e.how.nesting += 1;
        state->runner = std::make_unique<context>(e, *pool_, std::vector<device_state*>(), budget_);
    }
    if (static_cast<std::size_t>(count) + state->what.graph.captures.size() != state->what.graph.inputs.size())
        return fail(errc::op_attribute, body.name, "the body takes another number of inputs than it is given");
    std::vector<tensor_view> all(inputs, inputs + count);
    for (const capture& c : state->what.graph.captures) all.push_back(late_view(c.outer));
    const bool once = now_->source->lowered.nodes[static_cast<std::size_t>(now_->source->late[late_at_])].domain == "graft";
    call_lender lender(*this, state->what.graph.captures);
    state->runner->trace_as(traced_as_);
    GRAFT_TRY(state->runner->run(all.data(), nullptr, 0, once ? &lender : nullptr));
    outputs.clear();
    for (std::size_t i = 0; i < body.outputs.size(); ++i) outputs.push_back(state->runner->output(i));
    return {};
}

}  // namespace detail
GRAFT_END_NAMESPACE
#endif
