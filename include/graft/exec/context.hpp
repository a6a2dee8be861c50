// Runs plans: an executable shared by threads, and the context that each of them brings.
#pragma once

#include "../plan/plan.hpp"

#include <memory>
#include <mutex>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// A graph ready to be planned for any input shapes; plans are made on demand and shared.
class executable {
public:
    graft::graph graph;
    limits limit;
    bool exact = false, reference = false;
    std::uint64_t seed = 0;
    std::vector<const backend*> backends;
    std::shared_ptr<pack_cache> packed;
    std::shared_ptr<device> on;     // null: the CPU alone
    bool strict_placement = false;
    std::vector<dtype> declared;    // the types that a file gives its outputs; undefined: any

    result<std::shared_ptr<const plan>> plan_for(const tensor_view* inputs, executor& pool) const {
        std::lock_guard<std::mutex> guard(lock_);
        for (std::size_t i = 0; i < plans_.size(); ++i)
            if (fits(*plans_[i], inputs)) {
                std::shared_ptr<const plan> found = plans_[i];
                plans_.erase(plans_.begin() + static_cast<std::ptrdiff_t>(i));
                plans_.push_back(found);
                return found;
            }
        std::shared_ptr<const plan> made;
        GRAFT_TRY_ASSIGN(made, make_plan(graph, inputs, {limit, pool, backends.data(), static_cast<int>(backends.size()), exact, reference, seed, packed.get(), on, strict_placement}));
        GRAFT_TRY(check_declared(*made));
        if (plans_.size() >= 16) plans_.erase(plans_.begin());
        plans_.push_back(made);
        return made;
    }
    static bool fits(const plan& p, const tensor_view* inputs) {
        for (std::size_t i = 0; i < p.inputs.size(); ++i)
            if (p.inputs[i].type != inputs[i].type || p.inputs[i].extents != inputs[i].extents) return false;
        return true;
    }

private:
    // Callers take memory by the type that they were told.
    status check_declared(const plan& p) const {
        for (std::size_t i = 0; i < declared.size() && i < p.outputs.size(); ++i) {
            const dtype made = p.outputs[i].prototype.type;
            if (p.outputs[i].kind != slot_kind::none && declared[i] != dtype::undefined && made != declared[i])
                return fail(errc::op_type, graph.values[static_cast<std::size_t>(graph.outputs[i])].name,
                            std::string("the model declares this output as ") + name(declared[i]) + ", but what makes it gives " + name(made));
        }
        return {};
    }

    mutable std::mutex lock_;
    mutable std::vector<std::shared_ptr<const plan>> plans_;
};

// The memory of one caller. Not for two threads at once.
class context final : public subgraph_runner, private host_addresses {
public:
    // `state`: where the device keeps what it changes in place; null where nothing is.
    context(const executable& what, executor& pool, device_state* state = nullptr) : what_(what), pool_(&pool), state_(state) {}
    // Later runs are spread by this executor; the one before need not live any more.
    void use(executor& pool) {
        if (pool_ != &pool) bodies_.clear();  // they have contexts of their own
        pool_ = &pool;
    }

    // One view an input of the graph, in its order; the memory is only read, and only during the call. `next`: where input `coming` of
    // the next run lies, if it is there by now and of the same shape; it may be read until that run has ended.
    status run(const tensor_view* inputs, const void* next = nullptr, std::int64_t coming = 0) {
        if (!plan_ || !executable::fits(*plan_, inputs)) {
            // Where this fails there is no plan, so that the next run begins anew.
            plan_.reset();
            std::shared_ptr<const plan> found;
            GRAFT_TRY_ASSIGN(found, what_.plan_for(inputs, *pool_));
            GRAFT_TRY(prepare(found));
            plan_ = std::move(found);
        }
        inputs_ = inputs;
        GRAFT_TRY(prepare_outputs());
        if (on_device_ && next) GRAFT_TRY(on_device_->expect(coming, next));
        if (host_states_.empty()) return run_steps();
        // State that this plan has on the host may have been changed on the device by another.
        for (const state_pair& s : host_states_) GRAFT_TRY(state_->read_back(inputs_[s.input].data));
        status done = run_steps();
        for (const state_pair& s : host_states_)
            if (s.output >= 0) state_->host_changed(inputs_[s.input].data);
        return done;
    }
    // Output i of the last run; holding on to it makes the next run allocate another.
    const tensor& output(std::size_t i) const { return i < outputs_.size() ? outputs_[i] : nothing_; }
    const std::shared_ptr<const plan>& current() const { return plan_; }
    // Gives the memory back; the next run allocates anew.
    void trim() {
        arena_ = buffer();
        on_device_.reset();
        scratch_.kept.clear();
        outputs_.clear();
        late_.clear();
        plan_.reset();
        bodies_.clear();
    }

    status run(const graft::graph& body, const tensor_view* inputs, int count, std::vector<tensor>& outputs) override;

private:
    struct body_state {
        const graft::graph* source = nullptr;
        executable what;
        std::unique_ptr<context> runner;
    };

    status run_steps() {
        const std::vector<step>& steps = plan_->steps;
        for (std::size_t i = 0, end = 0; i < steps.size(); i = end) {
            end = i + 1;
            if (!steps[i].on_device) {
                GRAFT_TRY(run_step(steps[i]));
                continue;
            }
            while (end < steps.size() && steps[end].on_device) ++end;
            GRAFT_TRY(on_device_->run(static_cast<int>(i), static_cast<int>(end), *this, *pool_));
        }
        for (int i : plan_->late) GRAFT_TRY(run_late(plan_->lowered.nodes[static_cast<std::size_t>(i)]));
        return finish_outputs();
    }

    status prepare(const std::shared_ptr<const plan>& next) {
        const plan& p = *next;
        on_device_.reset();
        if (p.loaded) GRAFT_TRY_ASSIGN(on_device_, p.on->make_context(next, state_));
        arena_ = buffer();
        scratch_.kept.clear();
        bodies_.clear();  // a plan brings bodies of its own
        if (p.arena_bytes) GRAFT_TRY_ASSIGN(arena_, buffer::allocate(static_cast<std::size_t>(p.arena_bytes)));
        host_states_.clear();
        for (const state_pair& s : p.lowered.states)
            if (state_ && !p.lowered.values[static_cast<std::size_t>(p.lowered.inputs[static_cast<std::size_t>(s.input)])].on_device) host_states_.push_back(s);
        std::size_t most = 1;
        for (const step& s : p.steps) most = std::max(most, std::max(s.in.size(), s.out.size()));
        in_.assign(most, tensor_view{});
        out_.assign(most, tensor_view{});
        late_.assign(p.late.empty() ? 0 : p.lowered.values.size(), tensor());
        return {};
    }

    status prepare_outputs() {
        outputs_.resize(plan_->outputs.size());
        for (std::size_t i = 0; i < outputs_.size(); ++i) {
            const slot& s = plan_->outputs[i];
            if (s.kind == slot_kind::none || plan_->state_of[i] >= 0) continue;
            if (outputs_[i] && outputs_[i].type() == s.prototype.type && outputs_[i].shape() == s.prototype.extents && outputs_[i].storage().unique()) continue;
            GRAFT_TRY_ASSIGN(outputs_[i], tensor::make(s.prototype.type, s.prototype.extents));
        }
        return {};
    }

    void* address(const slot& s) const override {
        switch (s.kind) {
        case slot_kind::arena: return arena_.data() + s.index;
        case slot_kind::input: return inputs_[s.index].data;
        case slot_kind::output: return outputs_[static_cast<std::size_t>(s.index)].raw();
        case slot_kind::constant: return plan_->lowered.values[static_cast<std::size_t>(s.index)].constant.raw();
        case slot_kind::none: break;
        }
        return nullptr;
    }
    tensor_view resolve(const slot& s) const { return {s.prototype.type, s.prototype.extents, address(s)}; }

    status run_step(const step& s) {
        const node& n = plan_->lowered.nodes[static_cast<std::size_t>(s.node)];
        for (std::size_t i = 0; i < s.in.size(); ++i) in_[i] = resolve(s.in[i]);
        for (std::size_t i = 0; i < s.out.size(); ++i) out_[i] = resolve(s.out[i]);
        const int inputs = static_cast<int>(s.in.size()), outputs = static_cast<int>(s.out.size());
        if (s.kernel) {
            s.kernel->run({in_.data(), inputs, out_.data(), outputs, s.choice, arena_.data() + s.workspace_offset, *pool_, s.level});
            return {};
        }
        run_context c{{n, in_.data(), inputs, out_.data(), outputs, what_.limit}, *pool_, this, nullptr, s.seed, &scratch_};
        return n.op->run(c);
    }

    tensor_view late_view(value_id id) const {
        if (id == no_value) return {};
        if (late_[static_cast<std::size_t>(id)]) return view(late_[static_cast<std::size_t>(id)]);
        return resolve(plan_->value_slots[static_cast<std::size_t>(id)]);
    }

    status run_late(const node& n) {
        if (!n.op->run) return fail(errc::op_unsupported, place(n), "this build does not hold the operator; GRAFT_OPS leaves it out");
        std::vector<value_id> ids = n.inputs;
        append_captures(n, ids);
        std::vector<tensor_view> in;
        for (value_id id : ids) in.push_back(late_view(id));
        std::vector<tensor> made;
        GRAFT_TRY(evaluate(n, in.data(), static_cast<int>(n.inputs.size()), made, {what_.limit, *pool_, this, seed_of(plan_->lowered, n, what_.seed)}));
        for (std::size_t i = 0; i < made.size(); ++i)
            if (n.outputs[i] != no_value) late_[static_cast<std::size_t>(n.outputs[i])] = std::move(made[i]);
        return {};
    }

    status finish_outputs() {
        for (std::size_t i = 0; i < outputs_.size(); ++i) {
            const slot& s = plan_->outputs[i];
            const value_id id = plan_->lowered.outputs[i];
            if (plan_->state_of[i] >= 0) continue;
            if (s.kind == slot_kind::none || (!late_.empty() && late_[static_cast<std::size_t>(id)])) {
                outputs_[i] = late_.empty() ? tensor() : late_[static_cast<std::size_t>(id)];
                if (!outputs_[i]) return fail(errc::graph_no_output, plan_->lowered.values[static_cast<std::size_t>(id)].name, "this output was never made");
            } else if ((s.kind != slot_kind::output || s.index != static_cast<std::int64_t>(i)) && outputs_[i].bytes())
                std::memcpy(outputs_[i].raw(), address(s), outputs_[i].bytes());
        }
        for (tensor& t : late_) t = tensor();
        return {};
    }

    const executable& what_;
    executor* pool_;
    device_state* state_;
    std::shared_ptr<const plan> plan_;
    std::unique_ptr<device_context> on_device_;
    std::vector<state_pair> host_states_;  // where there is a device that keeps state: what this plan has on the host
    buffer arena_;
    scratch_store scratch_;
    const tensor_view* inputs_ = nullptr;
    std::vector<tensor> outputs_, late_;
    tensor nothing_;
    std::vector<tensor_view> in_, out_;
    std::vector<std::unique_ptr<body_state>> bodies_;
};

// A body becomes an executable of its own whose inputs are followed by what it captures.
inline status context::run(const graft::graph& body, const tensor_view* inputs, int count, std::vector<tensor>& outputs) {
    body_state* state = nullptr;
    for (const auto& b : bodies_)
        if (b->source == &body) state = b.get();
    if (!state) {
        bodies_.push_back(std::make_unique<body_state>());
        state = bodies_.back().get();
        state->source = &body;
        executable& e = state->what;
        e.graph = body;
        for (const capture& c : body.captures) e.graph.inputs.push_back(c.inner);
        e.limit = what_.limit;
        e.exact = what_.exact;
        e.reference = what_.reference;
        e.seed = what_.seed + 1;
        e.backends = what_.backends;
        e.packed = what_.packed;
        e.on = what_.on;
        e.strict_placement = what_.strict_placement;
        state->runner = std::make_unique<context>(e, *pool_);
    }
    if (static_cast<std::size_t>(count) + body.captures.size() != state->what.graph.inputs.size())
        return fail(errc::op_attribute, body.name, "the body takes another number of inputs than it is given");
    std::vector<tensor_view> all(inputs, inputs + count);
    for (const capture& c : body.captures) all.push_back(late_view(c.outer));
    GRAFT_TRY(state->runner->run(all.data()));
    outputs.clear();
    for (std::size_t i = 0; i < body.outputs.size(); ++i) outputs.push_back(state->runner->output(i));
    return {};
}

}  // namespace detail
GRAFT_END_NAMESPACE
