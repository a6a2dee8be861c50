// The plan: which kernel runs each node of a graph whose shapes are known, and where every value lies.
#pragma once

#include "../core/fnv1a.hpp"
#include "../cpu/ops/ops.hpp"
#include "../graph/memory_roots.hpp"
#include "../passes/count.hpp"
#include "../passes/specialize.hpp"
#include "../lower/backend.hpp"
#include "memory.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Where the memory of a value is found in a run.
enum class slot_kind : std::uint8_t { none, arena, input, output, constant };

/// A value as a step sees it. `extents` and `type` are those of the value; `index` is a byte offset into the arena, or the number
/// of an input, an output, or a value with a constant.
struct slot {
    slot_kind kind = slot_kind::none;
    bool on_device = false;  ///< in the device's arena; of inputs, the state that it holds; of constants, its copy
    std::int64_t index = 0;
    tensor_view prototype;
};

/// One node of the plan with its kernel.
struct step {
    int node = 0;                              ///< in plan::lowered
    const cpu::kernel_row* kernel = nullptr;   ///< null: the reference kernel of the op table
    cpu::kernel_choice choice;
    const char* refusal = "";                  ///< why no faster kernel took it
    const char* device_refusal = "";           ///< why the device did not take it
    std::shared_ptr<const device_kernel> on_device;  ///< set: the device runs this step
    std::vector<slot> in, out;                 ///< captures of bodies follow the inputs
    std::int64_t workspace_offset = 0;
    cpu::isa level = cpu::isa::baseline;
    std::uint64_t seed = 0;
};

/// Everything a run needs that does not change from run to run. Immutable, shared by contexts.
struct plan {
    std::shared_ptr<device> on;      ///< the device beside the CPU; null: there is none. Its kernels, in the steps, go before it does
    graph lowered;                   ///< keeps constants alive; its nodes are in running order
    std::vector<step> steps;
    std::vector<int> late;           ///< nodes whose output shapes only a run can tell, in order: they run behind the steps, by their reference kernels
    std::vector<std::vector<value_id>> read_last;  ///< for each of `late`, and in front for the steps: inputs and late values that nobody reads behind it
    std::vector<slot> value_slots;   ///< of every value; none for those made late
    std::vector<slot> outputs;       ///< where each output of the graph is made; none: made late
    std::vector<int> state_of;       ///< of each output: the input whose memory it takes, or -1
    std::int64_t arena_bytes = 0;    ///< intermediates and scratch together
    std::int64_t scratch_bytes = 0;  ///< at most, of reference kernels, beside the arena
    std::int64_t constant_bytes = 0;
    std::int64_t multiply_adds = 0;  ///< of the graph before lowering
    std::vector<tensor_view> inputs; ///< the shapes that this plan is for

    std::int64_t device_arena_bytes = 0;
    std::shared_ptr<const device_program> loaded;  ///< what the device keeps for this plan; null: no step is its
};

/// Bytes of the outputs that a plan makes; those that only a run can shape are not among them.
inline std::int64_t output_bytes(const plan& p) noexcept {
    std::int64_t bytes = 0;
    for (const slot& s : p.outputs)
        if (s.kind != slot_kind::none) bytes += std::max<std::int64_t>(0, bytes_of(s.prototype.type, s.prototype.extents));
    return bytes;
}

/// How plans are made.
struct plan_options {
    const limits& limit;
    executor& pool;
    const backend* const* backends = nullptr;
    int backend_count = 0;
    bool exact = false;
    bool reference = false;   ///< reference kernels only
    std::uint64_t seed = 0;
    pack_cache* packed = nullptr;
    std::shared_ptr<device> on = {};
    bool strict_placement = false;  ///< a node that the device refuses ends the planning
    int nesting = 0;                ///< bodies that this graph is the body of
    std::shared_ptr<memory_budget> budget = nullptr;  ///< what the constants that it makes count against
};

/// Makes the plan of a graph for one set of input shapes (an input without a type keeps its default).
result<std::shared_ptr<const plan>> make_plan(const graph& g, const tensor_view* inputs, const plan_options& options);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "place.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What a random node draws from: the seed of the model, and the name of what it makes, which no lowering changes.
inline std::uint64_t seed_of(const graph& g, const node& n, std::uint64_t seed) {
    std::uint64_t hash = fnv1a_basis ^ seed;
    for (value_id id : n.outputs)
        if (id != no_value) {
            const std::string& name = g.at(id).name;
            hash = fnv1a(name.data(), name.size(), hash);
        }
    return hash;
}

class planner {
public:
    planner(plan& p, const plan_options& options, const std::vector<const char*>& refusals) : p_(p), g_(p.lowered), options_(options), refusals_(refusals) {}

    status run() {
        roots_ = memory_roots(g_);
        GRAFT_TRY(split_late());
        GRAFT_TRY(choose_kernels());
        GRAFT_TRY(place_values());
        find_last_readers();
        finish_slots();
        return {};
    }

private:
    value& at(value_id id) { return g_.at(id); }

    // A node whose outputs have no known shape is late, and so is every node that reads one.
    status split_late() {
        late_value_.assign(g_.values.size(), 0);
        for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
            const node& n = g_.nodes[i];
            if (runs_late(g_, n, late_value_, ids_)) {
                for (value_id id : n.outputs)
                    if (id != no_value) late_value_[id] = 1;
                p_.late.push_back(static_cast<int>(i));
                continue;
            }
            step s;
            s.node = static_cast<int>(i);
            s.seed = seed_of(g_, n, options_.seed);
            p_.steps.push_back(std::move(s));
        }
        return {};
    }
    // Who reads each input and each late value last. The graph's outputs are read by the caller.
    void find_last_readers() {
        std::vector<char> seen(g_.values.size(), 0);
        for (value_id id : g_.outputs) seen[root(id)] = 1;
        p_.read_last.assign(p_.late.size() + 1, {});
        const auto reads = [&](std::size_t place, value_id id) {
            if (id != no_value && !seen[root(id)]++) p_.read_last[place].push_back(root(id));
        };
        for (std::size_t i = p_.late.size(); i-- > 0;) {
            const node& n = g_.nodes[static_cast<std::size_t>(p_.late[i])];
            ids_ = n.inputs;
            append_captures(n, ids_);
            ids_.insert(ids_.end(), n.outputs.begin(), n.outputs.end());
            for (value_id id : ids_) reads(i + 1, id);
        }
        for (value_id id : g_.inputs) reads(0, id);
    }

    status choose_kernels() {
        cpu::isa level = cpu::isa::baseline;
        GRAFT_TRY_ASSIGN(level, cpu::active_isa());
        for (step& s : p_.steps) {
            const node& n = g_.nodes[static_cast<std::size_t>(s.node)];
            in_.clear();
            out_.clear();
            in_layout_.clear();
            out_layout_.clear();
            for (value_id id : n.inputs) {
                // What a kernel of the CPU reads is copied now where it has to be, and not in a run.
                const auto address = [&](const tensor& t) { return n.on_device ? t.storage().at_hand() : t.raw(); };
                in_.push_back(id == no_value ? tensor_view{} : tensor_view{at(id).type, at(id).extents, address(at(id).constant)});
                in_layout_.push_back(id == no_value ? layout() : at(id).layout);
            }
            for (value_id id : n.outputs) {
                out_.push_back(id == no_value ? tensor_view{} : tensor_view{at(id).type, at(id).extents, nullptr});
                out_layout_.push_back(id == no_value ? layout() : at(id).layout);
            }
            if (n.on_device) {
                GRAFT_TRY(prepare_on_device(s, n));
                continue;
            }
            if (!n.outputs.empty() && n.outputs[0] != no_value && static_cast<std::size_t>(n.outputs[0]) < refusals_.size()) s.device_refusal = refusals_[n.outputs[0]];
            const cpu::kernel_query query{{n, in_.data(), static_cast<int>(in_.size()), out_.data(), static_cast<int>(out_.size()), options_.limit},
                                          in_layout_.data(), out_layout_.data(), level, options_.exact};
            s.level = level;
            if (!options_.reference) s.kernel = host_choice()(query, s.choice, s.refusal);
            if (!s.kernel && !n.op->run) return fail(errc::op_unsupported, place(n), "this build does not hold the operator; GRAFT_OPS leaves it out");
            // They compute in doubles: copies of what they read and of what they make, and places among them.
            if (!s.kernel) p_.scratch_bytes = std::max(p_.scratch_bytes, 16 * std::max<std::int64_t>(0, elements_of_all(in_) + elements_of_all(out_)));
            if (!s.kernel && !query.all_row_major()) return fail(errc::internal, place(n), "a blocked layout met an operator without a kernel for it");
        }
        return {};
    }

    static std::int64_t elements_of_all(const std::vector<tensor_view>& views) {
        std::int64_t sum = 0;
        for (const tensor_view& v : views)
            if (v.type != dtype::undefined) sum += v.extents.elements();
        return sum;
    }
    auto host_choice() const -> const cpu::kernel_row* (*)(const cpu::kernel_query&, cpu::kernel_choice&, const char*&) {
        for (int i = 0; i < options_.backend_count; ++i)
            if (options_.backends[i]->choose) return options_.backends[i]->choose;
        return cpu::choose_kernel;
    }
    status prepare_on_device(step& s, const node& n) {
        node plain = n;
        plain.domain = plain_domain(n.domain);
        const std::vector<value_id> memory = memory_of_inputs(n, roots_);
        GRAFT_TRY_ASSIGN(s.on_device, options_.on->prepare({{plain, in_.data(), static_cast<int>(in_.size()), out_.data(), static_cast<int>(out_.size()), options_.limit},
                                                            in_layout_.data(), out_layout_.data(), memory.data()}));
        return {};
    }

    // Where a value's memory really is: of the views of roots_, those whose memory need not be that of a graph output.
    value_id root(value_id id) const {
        while (view_of_[id] != no_value) id = view_of_[id];
        return id;
    }

    status place_values() {
        const int end = static_cast<int>(p_.steps.size());
        std::vector<slot>& slots = p_.value_slots;
        slots.assign(g_.values.size(), slot{});
        view_of_.assign(g_.values.size(), no_value);
        std::vector<int> first(g_.values.size(), -1), last(g_.values.size(), -1), output_of(g_.values.size(), -1);
        for (std::size_t i = 0; i < g_.values.size(); ++i)
            if (g_.values[i].constant) {
                slots[i].kind = slot_kind::constant;
                slots[i].index = static_cast<std::int64_t>(i);
                p_.constant_bytes += static_cast<std::int64_t>(g_.values[i].constant.bytes());
            }
        for (std::size_t i = 0; i < g_.inputs.size(); ++i)
            if (!at(g_.inputs[i]).constant) {
                slots[g_.inputs[i]].kind = slot_kind::input;
                slots[g_.inputs[i]].on_device = at(g_.inputs[i]).on_device;
                slots[g_.inputs[i]].index = static_cast<std::int64_t>(i);
            }
        for (std::size_t i = 0; i < g_.outputs.size(); ++i)
            if (output_of[g_.outputs[i]] < 0) output_of[g_.outputs[i]] = static_cast<int>(i);

        p_.state_of.assign(g_.outputs.size(), -1);
        for (const state_pair& s : g_.states)
            if (s.output >= 0) p_.state_of[s.output] = s.input;

        std::vector<step> kept;
        for (step& s : p_.steps) {
            const node& n = g_.nodes[static_cast<std::size_t>(s.node)];
            // A view costs nothing, unless its memory has to be that of a graph output.
            const bool same_layout = !n.inputs.empty() && n.inputs[0] != no_value && n.outputs[0] != no_value && at(n.inputs[0]).type == at(n.outputs[0]).type &&
                                     at(n.inputs[0]).layout == at(n.outputs[0]).layout && (at(n.inputs[0]).layout != layout::channels_last || at(n.inputs[0]).extents == at(n.outputs[0]).extents);
            if ((n.op->flags & op_flag::view) && same_layout && output_of[n.outputs[0]] < 0) {
                view_of_[n.outputs[0]] = n.inputs[0];
                continue;
            }
            kept.push_back(std::move(s));
        }
        p_.steps = std::move(kept);

        for (int i = 0; i < static_cast<int>(p_.steps.size()); ++i) {
            const node& n = g_.nodes[static_cast<std::size_t>(p_.steps[static_cast<std::size_t>(i)].node)];
            for (value_id id : n.outputs)
                if (id != no_value) first[id] = last[id] = i;
            for (value_id id : n.inputs)
                if (id != no_value) last[root(id)] = i;
        }
        // What late nodes and the caller read stays until the end.
        const auto keep = [&](value_id id) {
            if (id != no_value) last[root(id)] = end;
        };
        for (int i : p_.late) {
            ids_ = g_.nodes[static_cast<std::size_t>(i)].inputs;
            append_captures(g_.nodes[static_cast<std::size_t>(i)], ids_);
            for (value_id id : ids_) keep(id);
        }
        GRAFT_TRY(check_states(first, last));
        for (value_id id : g_.outputs) keep(id);

        std::vector<lifetime> arenas[2];  // of the host and of the device
        std::vector<int> lifetime_of(g_.values.size(), -1);
        std::vector<std::pair<std::size_t, int>> scratch;
        for (std::size_t i = 0; i < p_.steps.size(); ++i) {
            const step& s = p_.steps[i];
            const node& n = g_.nodes[static_cast<std::size_t>(s.node)];
            for (value_id id : n.outputs) {
                if (id == no_value) continue;
                slot& where = slots[id];
                if (output_of[id] >= 0) {
                    const int output = output_of[id], state = p_.state_of[static_cast<std::size_t>(output)];
                    where.kind = state < 0 ? slot_kind::output : slot_kind::input;
                    where.on_device = at(id).on_device;
                    where.index = state < 0 ? output : state;
                    continue;
                }
                const std::int64_t bytes = stored_bytes(at(id).type, at(id).extents, at(id).layout);
                if (bytes < 0) return fail(errc::memory_budget, place(n), "the size of an output overflows");
                where.kind = slot_kind::arena;
                where.on_device = at(id).on_device;
                std::vector<lifetime>& lifetimes = arenas[where.on_device];
                // An element-wise kernel may write over an input that dies here; a device's knows itself what else it reads there.
                const bool in_place = s.on_device ? s.on_device->in_place : s.kernel && s.kernel->in_place && !shares_memory(memory_of_inputs(n, roots_), 0);
                if (in_place && id == n.outputs[0] && !n.inputs.empty() && n.inputs[0] != no_value) {
                    const value_id source = root(n.inputs[0]);
                    const int l = lifetime_of[source];
                    if (l >= 0 && at(source).on_device == where.on_device && last[source] == static_cast<int>(i) && lifetimes[static_cast<std::size_t>(l)].bytes == bytes) {
                        lifetimes[static_cast<std::size_t>(l)].last = std::max(lifetimes[static_cast<std::size_t>(l)].last, last[id]);
                        lifetime_of[id] = l;
                        continue;
                    }
                }
                lifetime_of[id] = static_cast<int>(lifetimes.size());
                lifetimes.push_back({bytes, first[id], last[id], 0});
            }
            const std::int64_t workspace = s.on_device ? s.on_device->workspace_bytes : s.choice.workspace_bytes;
            if (workspace > 0) {
                std::vector<lifetime>& lifetimes = arenas[s.on_device != nullptr];
                scratch.emplace_back(i, static_cast<int>(lifetimes.size()));
                lifetimes.push_back({workspace, static_cast<int>(i), static_cast<int>(i), 0});
            }
        }
        p_.arena_bytes = plan_memory(arenas[0]);
        p_.device_arena_bytes = plan_memory(arenas[1], 256);
        const std::int64_t beside = options_.budget ? options_.budget->taken() : 0;
        if (p_.arena_bytes > options_.limit.memory_bytes - beside)
            return fail(errc::memory_budget, g_.name, "running this model needs " + std::to_string(p_.arena_bytes) + " bytes" + (beside ? " beside the " + std::to_string(beside) + " of its constants" : "") +
                                                          ", over the limit of " + std::to_string(options_.limit.memory_bytes));
        for (std::size_t i = 0; i < slots.size(); ++i)
            if (slots[i].kind == slot_kind::arena) slots[i].index = arenas[slots[i].on_device][static_cast<std::size_t>(lifetime_of[i])].offset;
        for (const auto& pair : scratch)
            p_.steps[pair.first].workspace_offset = arenas[p_.steps[pair.first].on_device != nullptr][static_cast<std::size_t>(pair.second)].offset;
        return {};
    }

    // New state is written over the old, so whoever reads the old has to run before, or be the writer itself.
    status check_states(const std::vector<int>& first, const std::vector<int>& last) {
        for (const state_pair& s : g_.states) {
            if (s.output < 0) continue;
            const value_id before = g_.inputs[s.input], after = g_.outputs[s.output];
            if (first[after] >= 0 && last[before] > first[after])
                return fail(errc::op_unsupported, "'" + at(before).name + "'", "the step changes it and something else in the network still reads what it was; a running statistic that is read twice can stay as it is: --batch-norm frozen");
            if (first[after] < 0 || at(before).extents != at(after).extents || at(before).type != at(after).type)
                return fail(errc::internal, at(after).name, "this state cannot be changed in place");
        }
        return {};
    }

    slot slot_of(value_id id) {
        if (id == no_value) return {};
        slot s = p_.value_slots[root(id)];
        s.prototype = {at(id).type, at(id).extents, nullptr};
        return s;
    }

    void finish_slots() {
        for (step& s : p_.steps) {
            const node& n = g_.nodes[static_cast<std::size_t>(s.node)];
            for (value_id id : n.inputs) {
                s.in.push_back(slot_of(id));
                if (s.in.back().kind == slot_kind::constant) s.in.back().on_device = n.on_device;
            }
            for (value_id id : n.outputs) s.out.push_back(slot_of(id));
        }
        for (value_id id : g_.outputs) p_.outputs.push_back(slot_of(id));
        std::vector<slot> all;
        for (std::size_t i = 0; i < g_.values.size(); ++i) all.push_back(slot_of(static_cast<value_id>(i)));
        p_.value_slots = std::move(all);
    }

    plan& p_;
    graph& g_;
    const plan_options& options_;
    const std::vector<const char*>& refusals_;  // why the device did not take the node that makes a value
    std::vector<char> late_value_;
    std::vector<value_id> ids_, roots_, view_of_;
    std::vector<tensor_view> in_, out_;
    std::vector<layout> in_layout_, out_layout_;
};

// The device's part of a graph: which nodes it takes, rewritten as it wants them, with the copies in between. The CPU's nodes are set
// apart meanwhile, so that the device's lowering may match operators by name.
inline status place_on_device(graph& g, const plan_options& options, std::vector<const char*>& refusals) {
    placer placing(g, *options.on, options.limit, refusals);
    placing.run();
    if (options.strict_placement) GRAFT_TRY(placing.first_refused());
    set_host_apart(g);
    GRAFT_TRY(options.on->lower(g, {options.limit, options.pool, options.packed, options.exact, options.budget}));
    bring_host_back(g);
    return placing.finish_placement();
}

// The first back end that takes a node has it; one that none takes ends the planning with every reason.
inline status place_nodes(const graph& g, const plan_options& options, const std::vector<const char*>& refusals) {
    for (const node& n : g.nodes) {
        std::string reasons;
        bool taken = options.backend_count == 0 || n.on_device;
        for (int i = 0; i < options.backend_count && !taken; ++i) {
            const std::size_t made = n.outputs.empty() || n.outputs[0] == no_value ? refusals.size() : static_cast<std::size_t>(n.outputs[0]);
            const char* reason = !options.backends[i]->open ? options.backends[i]->refuse(n) : made < refusals.size() ? refusals[made] : "its device is not in use";
            taken = !reason;
            if (reason) reasons += std::string(reasons.empty() ? "" : "; ") + options.backends[i]->name + ": " + reason;
        }
        if (!taken) return fail(errc::placement_refused, place(n), reasons);
    }
    return {};
}

}  // namespace detail

GRAFT_INLINE result<std::shared_ptr<const plan>> make_plan(const graph& g, const tensor_view* inputs, const plan_options& options) {
    auto p = std::make_shared<plan>();
    if (options.packed) options.packed->sweep();
    const evaluation with{options.limit, options.pool, nullptr, options.seed, options.budget};
    GRAFT_TRY_ASSIGN(p->lowered, specialize(g, inputs, with));
    p->multiply_adds = count_multiply_adds(p->lowered);
    if (!options.reference) detail::late_gatherer(p->lowered, options.limit, options.nesting).run();
    std::vector<const char*> refusals;
    p->on = options.reference ? nullptr : options.on;
    if (p->on) GRAFT_TRY(detail::place_on_device(p->lowered, options, refusals));
    GRAFT_TRY(detail::place_nodes(p->lowered, options, refusals));
    if (!options.reference)
        for (int i = 0; i < options.backend_count; ++i)
            if (!options.backends[i]->open) GRAFT_TRY(options.backends[i]->lower(p->lowered, {options.limit, options.pool, options.packed, options.exact, options.budget}));
    for (std::size_t i = 0; i < g.inputs.size(); ++i) p->inputs.push_back(inputs ? tensor_view{inputs[i].type, inputs[i].extents, nullptr} : tensor_view{});
    // What host lowering has added stands next to who needs it, which may be between nodes of the device.
    if (p->on) GRAFT_TRY(detail::device_order(p->lowered).run());
    GRAFT_TRY(detail::planner(*p, options, refusals).run());
    bool any_on_device = false;
    for (const step& s : p->steps) any_on_device |= s.on_device != nullptr;
    if (any_on_device) GRAFT_TRY_ASSIGN(p->loaded, p->on->load(*p, options.pool));
    return std::shared_ptr<const plan>(std::move(p));
}

GRAFT_END_NAMESPACE
#endif
