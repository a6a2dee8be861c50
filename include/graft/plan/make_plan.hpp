// Makes plans: nodes get their places and their kernels, values their memory. Bodies of plan/plan.hpp.
#pragma once

#include "../core/fnv1a.hpp"
#include "../graph/memory_roots.hpp"
#include "../passes/count.hpp"
#include "../passes/sample_cut.hpp"
#include "../passes/specialize.hpp"
#include "memory.hpp"
#include "place.hpp"
#include "plan.hpp"
#include "segments.hpp"

#include <string>
#include <utility>

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
    planner(plan& p, const execution_options& how, const std::vector<placement_refusal>& refusals) : p_(p), g_(p.lowered), how_(how), refusals_(refusals) {}

    GRAFT_COLD status run() {
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
    GRAFT_COLD status split_late() {
        late_value_.assign(g_.values.size(), 0);
        for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
            const node& n = g_.nodes[i];
            if (!p_.places[n.place].on) return fail(errc::placement_refused, location(n), why_on_host(n));
            if (runs_late(g_, n, late_value_, ids_)) {
                for (value_id id : n.outputs)
                    if (id != no_value) late_value_[id] = 1;
                p_.late.push_back(static_cast<int>(i));
                continue;
            }
            step s;
            s.node = static_cast<int>(i);
            s.place = n.place;
            s.seed = seed_of(g_, n, how_.seed);
            p_.steps.push_back(std::move(s));
        }
        return {};
    }
    // Why the node is on the host.
    placement_refusal refused(const node& n) const {
        const value_id y = n.place || n.outputs.empty() ? no_value : n.outputs[0];
        return y == no_value || static_cast<std::size_t>(y) >= refusals_.size() ? placement_refusal{} : refusals_[y];
    }
    std::string why_on_host(const node& n) const {
        const placement_refusal r = refused(n);
        return r.by ? p_.places[r.by].on->name() + ": " + r.why : "this program names no back end of the host";
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

    GRAFT_COLD status choose_kernels() {
        std::vector<tensor_view> in, out;
        std::vector<layout> in_layout, out_layout;
        for (step& s : p_.steps) {
            const node& n = g_.nodes[static_cast<std::size_t>(s.node)];
            device& on = *p_.places[s.place].on;
            in.clear(), out.clear(), in_layout.clear(), out_layout.clear();
            for (value_id id : n.inputs) {
                // What a kernel reads in the host's memory is copied now where it has to be, and not in a run.
                const auto address = [&](const tensor& t) { return on.in_host_memory() ? t.raw() : t.storage().at_hand(); };
                in.push_back(id == no_value ? tensor_view{} : tensor_view{at(id).type, at(id).extents, address(at(id).constant)});
                in_layout.push_back(id == no_value ? layout() : at(id).layout);
            }
            for (value_id id : n.outputs) {
                out.push_back(id == no_value ? tensor_view{} : tensor_view{at(id).type, at(id).extents, nullptr});
                out_layout.push_back(id == no_value ? layout() : at(id).layout);
            }
            s.refused = refused(n);
            const std::vector<value_id> memory = memory_of_inputs(n, roots_);
            GRAFT_TRY_ASSIGN(s.kernel, on.prepare({{n, in.data(), static_cast<int>(in.size()), out.data(), static_cast<int>(out.size()), how_.limit},
                                                   in_layout.data(),
                                                   out_layout.data(),
                                                   memory.data(),
                                                   how_.exact,
                                                   how_.reference}));
            p_.scratch_bytes = std::max(p_.scratch_bytes, s.kernel->scratch_bytes);
        }
        return {};
    }

    // Where a value's memory really is: of the views of roots_, those whose memory need not be that of a graph output.
    value_id root(value_id id) const {
        while (view_of_[id] != no_value) id = view_of_[id];
        return id;
    }

    GRAFT_COLD status place_values() {
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
                slots[g_.inputs[i]].place = at(g_.inputs[i]).place;
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
            const bool same_layout = !n.inputs.empty() && n.inputs[0] != no_value && n.outputs[0] != no_value &&
                                     at(n.inputs[0]).type == at(n.outputs[0]).type && at(n.inputs[0]).layout == at(n.outputs[0]).layout &&
                                     (at(n.inputs[0]).layout != layout::channels_last || at(n.inputs[0]).extents == at(n.outputs[0]).extents);
            if ((n.op->flags & op_flag::view) && same_layout && output_of[n.outputs[0]] < 0) {
                view_of_[n.outputs[0]] = n.inputs[0];
                continue;
            }
            kept.push_back(std::move(s));
        }
        p_.steps = std::move(kept);

        std::vector<value_id> memory(g_.values.size());
        for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = root(static_cast<value_id>(i));
        const segment_order order(p_, memory, how_.in_order);
        for (int i = 0; i < static_cast<int>(p_.steps.size()); ++i) {
            const step& s = p_.steps[static_cast<std::size_t>(i)];
            const node& n = g_.nodes[static_cast<std::size_t>(s.node)];
            // What another place reads or writes is taken for as long as that may last.
            const auto until = [&](value_id id) { last[id] = std::max(last[id], at(id).place == s.place ? i : order.behind(at(id).place, i)); };
            for (value_id id : n.outputs) {
                if (id == no_value) continue;
                first[id] = at(id).place == s.place ? i : order.beside(at(id).place, i);
                until(id);
            }
            for (value_id id : n.inputs)
                if (id != no_value) until(root(id));
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

        std::vector<std::vector<lifetime>> arenas(p_.places.size());
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
                    where.place = at(id).place;
                    where.index = state < 0 ? output : state;
                    continue;
                }
                const std::int64_t bytes = stored_bytes(at(id).type, at(id).extents, at(id).layout);
                if (bytes < 0) return fail(errc::memory_budget, location(n), "the size of an output overflows");
                where.kind = slot_kind::arena;
                where.place = at(id).place;
                std::vector<lifetime>& lifetimes = arenas[where.place];
                // An element-wise kernel may write over an input that dies here.
                if (s.kernel->in_place && id == n.outputs[0] && !n.inputs.empty() && n.inputs[0] != no_value) {
                    const value_id source = root(n.inputs[0]);
                    const int l = lifetime_of[source];
                    if (l >= 0 && at(source).place == where.place && last[source] == static_cast<int>(i) &&
                        lifetimes[static_cast<std::size_t>(l)].bytes == bytes) {
                        lifetimes[static_cast<std::size_t>(l)].last = std::max(lifetimes[static_cast<std::size_t>(l)].last, last[id]);
                        lifetime_of[id] = l;
                        continue;
                    }
                }
                lifetime_of[id] = static_cast<int>(lifetimes.size());
                lifetimes.push_back({bytes, first[id], last[id], 0});
            }
            if (s.kernel->workspace_bytes > 0) {
                std::vector<lifetime>& lifetimes = arenas[s.place];
                scratch.emplace_back(i, static_cast<int>(lifetimes.size()));
                lifetimes.push_back({s.kernel->workspace_bytes, static_cast<int>(i), static_cast<int>(i), 0});
            }
        }
        for (std::size_t i = 0; i < arenas.size(); ++i)
            p_.places[i].arena_bytes = plan_memory(arenas[i], p_.places[i].on && p_.places[i].on->in_host_memory() ? 64 : 256);
        const std::int64_t beside = how_.budget ? how_.budget->taken() : 0, needed = host_arena_bytes(p_);
        if (needed > how_.limit.memory_bytes - beside)
            return fail(errc::memory_budget, g_.name,
                        "running this model needs " + std::to_string(needed) + " bytes" +
                            (beside ? " beside the " + std::to_string(beside) + " of its constants" : "") + ", over the limit of " +
                            std::to_string(how_.limit.memory_bytes));
        for (std::size_t i = 0; i < slots.size(); ++i)
            if (slots[i].kind == slot_kind::arena) slots[i].index = arenas[slots[i].place][static_cast<std::size_t>(lifetime_of[i])].offset;
        for (const auto& pair : scratch)
            p_.steps[pair.first].workspace_offset = arenas[p_.steps[pair.first].place][static_cast<std::size_t>(pair.second)].offset;
        return {};
    }

    // New state is written over the old, so whoever reads the old has to run before, or be the writer itself.
    status check_states(const std::vector<int>& first, const std::vector<int>& last) {
        for (const state_pair& s : g_.states) {
            if (s.output < 0) continue;
            const value_id before = g_.inputs[s.input], after = g_.outputs[s.output];
            if (first[after] >= 0 && last[before] > first[after])
                return fail(errc::op_unsupported, "'" + at(before).name + "'",
                            "the step changes it and something else in the network still reads what it was; a running statistic that is read twice can stay as "
                            "it is: --batch-norm frozen");
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

    GRAFT_COLD void finish_slots() {
        for (step& s : p_.steps) {
            const node& n = g_.nodes[static_cast<std::size_t>(s.node)];
            for (value_id id : n.inputs) {
                s.in.push_back(slot_of(id));
                if (s.in.back().kind == slot_kind::constant) s.in.back().place = s.place;
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
    const execution_options& how_;
    const std::vector<placement_refusal>& refusals_;
    std::vector<char> late_value_;
    std::vector<value_id> ids_, roots_, view_of_;
};

// Each place but the host takes its nodes and rewrites them; copies connect them, and the host rewrites what is left.
inline GRAFT_COLD status lower_places(plan& p, const execution_options& how, executor& pool, std::vector<placement_refusal>& refusals) {
    graph& g = p.lowered;
    const auto lowered_at = [&](place_id on) { return p.places[on].on->lower(g, {how.limit, pool, how.packed.get(), how.exact, how.budget, on}); };
    for (const node& n : g.nodes)
        if (n.place >= p.places.size())
            return fail(errc::usage, location(n), "it asks for place " + std::to_string(n.place) + ", and there are " + std::to_string(p.places.size()));
    if (p.places.size() == 1) return p.places[0].on ? lowered_at(0) : status();
    placer placing(g, how.places, how.limit);
    placing.run();
    if (how.strict_placement) GRAFT_TRY(placing.first_refused());
    refusals = placing.refusals();
    for (std::size_t i = p.places.size(); --i > 0;) {
        GRAFT_TRY(lowered_at(static_cast<place_id>(i)));
        placing.settle_values();
    }
    GRAFT_TRY(placing.connect(how.in_order));
    if (p.places[0].on) GRAFT_TRY(lowered_at(0));
    if (how.in_order) return {};
    // What lowering has added on the host stands next to who needs it, which may be between nodes of a device.
    return place_order(g, p.places.size()).run();
}

// The graph is given away where nobody else needs its constants once they are packed.
inline GRAFT_COLD result<std::shared_ptr<plan>> plan_whole(graph g, const tensor_view* inputs, const execution_options& how, executor& pool) {
    auto p = std::make_shared<plan>();
    const reference_options with{how.limit, pool, nullptr, how.seed, how.budget};
    GRAFT_TRY_ASSIGN(p->lowered, specialize(std::move(g), inputs, with));
    p->multiply_adds = note_multiply_adds(p->lowered);
    for (std::size_t i = 0; i < p->lowered.inputs.size(); ++i)
        p->inputs.push_back(inputs ? tensor_view{inputs[i].type, inputs[i].extents, nullptr} : tensor_view{});
    std::vector<placement_refusal> refusals;
    for (const std::shared_ptr<device>& on : how.places)
        if (!how.reference || p->places.empty())
            p->places.push_back({on, 0, p->places.empty() ? 0 : count_multiply_adds(p->lowered, static_cast<place_id>(p->places.size())), nullptr});
    if (how.reference) {
        for (node& n : p->lowered.nodes) n.place = 0;
    } else {
        late_gatherer(p->lowered, how.limit, how.nesting).run();
        GRAFT_TRY(lower_places(*p, how, pool, refusals));
    }
    GRAFT_TRY(planner(*p, how, refusals).run());
    for (std::size_t i = 0; i < p->places.size(); ++i)
        if (std::any_of(p->segments.begin(), p->segments.end(), [&](const plan_segment& s) { return s.place == i; }))
            GRAFT_TRY_ASSIGN(p->places[i].loaded, p->places[i].on->load(*p, static_cast<place_id>(i), pool));
    return p;
}

// Null where the samples of a batch do not go alone.
inline GRAFT_COLD result<std::shared_ptr<plan>> plan_by_sample(const graph& g, const tensor_view* inputs, const execution_options& how, executor& pool) {
    sample_cut cut;
    GRAFT_TRY_ASSIGN(cut, cut_by_sample(g, inputs, {how.limit, pool, nullptr, how.seed, how.budget}));
    if (!cut.samples) return std::shared_ptr<plan>();
    std::vector<tensor_view> one(inputs, inputs + g.inputs.size()), rows;
    one[cut.input].extents[0] = 1;
    for (value_id id : cut.together.inputs) rows.push_back({cut.together.at(id).type, cut.together.at(id).extents, nullptr});
    std::shared_ptr<plan> each, p;
    GRAFT_TRY_ASSIGN(each, plan_whole(std::move(cut.each), one.data(), how, pool));
    if (!each->late.empty()) return std::shared_ptr<plan>();
    GRAFT_TRY_ASSIGN(p, plan_whole(std::move(cut.together), rows.data(), how, pool));
    p->multiply_adds += each->multiply_adds * cut.samples;
    p->constant_bytes += each->constant_bytes;
    p->scratch_bytes = std::max(p->scratch_bytes, each->scratch_bytes);
    p->inputs.assign(inputs, inputs + g.inputs.size());
    for (tensor_view& v : p->inputs) v.data = nullptr;
    p->each = std::move(each);
    p->samples = cut.samples;
    p->batch_input = cut.input;
    return p;
}

}  // namespace detail

GRAFT_INLINE GRAFT_COLD result<std::shared_ptr<const plan>> make_plan(const graph& g, const tensor_view* inputs, const execution_options& how, executor& pool) {
    std::shared_ptr<plan> p;
    if (how.packed) how.packed->sweep();
    if (how.by_sample && how.nesting == 0 && how.places.size() == 1 && !how.reference && inputs)
        GRAFT_TRY_ASSIGN(p, detail::plan_by_sample(g, inputs, how, pool));
    if (!p) GRAFT_TRY_ASSIGN(p, detail::plan_whole(g, inputs, how, pool));
    if (how.packed) how.packed->keep(pool);
    return std::shared_ptr<const plan>(std::move(p));
}

GRAFT_END_NAMESPACE
