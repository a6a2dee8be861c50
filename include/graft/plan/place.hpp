// Placement: which place runs each node, and the copies where a value crosses from one memory into another.
#pragma once

#include "../lower/device.hpp"
#include "late.hpp"
#include "../lower/rewriter.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// Copies a value between the host's memory and that of another place, whose node it is; to the host it comes row-major, whatever X is.
///   Transfer(X)
inline op_table transfer_ops() {
    static constexpr op_row rows[] = {make_op("Transfer", "graft").inputs(1)};
    return rows;
}

}  // namespace ops

namespace detail {

using device_list = std::vector<std::shared_ptr<device>>;

// An order with as few runs of nodes of one place as there can be, in which the nodes of each place keep the order that they had. A state is
// changed after everybody who reads it as it was.
class place_order : public rewriter {
public:
    place_order(graph& target, std::size_t places) : rewriter(target), places_(places) {}

    GRAFT_COLD status run() {
        roots_ = memory_roots(g);
        join();
        std::vector<char> done(g.nodes.size(), 0);
        std::vector<node> ordered;
        std::size_t turn = 0;
        for (std::size_t idle = 0; ordered.size() < g.nodes.size() && idle < places_; turn = (turn + 1) % places_)
            idle = take(static_cast<place_id>(turn), done, ordered) ? 0 : idle + 1;
        if (ordered.size() != g.nodes.size()) return fail(errc::internal, g.name, "state that is read after it was changed cannot be placed");
        g.nodes = std::move(ordered);
        index();
        return {};
    }

private:
    void edge(int from, int to) {
        if (from < 0 || to < 0 || from == to) return;
        feeds_[from].push_back(to);
        ++waits_[to];
    }
    GRAFT_COLD void join() {
        waits_.assign(g.nodes.size(), 0);
        feeds_.assign(g.nodes.size(), {});
        std::vector<int> updated(g.values.size(), -1);
        for (const state_pair& s : g.states)
            if (s.output >= 0) updated[g.inputs[s.input]] = position(g.outputs[s.output]);
        std::vector<value_id> ids;
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            ids = g.nodes[i].inputs;
            append_captures(g.nodes[i], ids);
            for (value_id id : ids) {
                if (id == no_value) continue;
                edge(position(id), static_cast<int>(i));
                edge(static_cast<int>(i), updated[static_cast<std::size_t>(roots_[id])]);
            }
        }
    }
    // Every node of one place that waits for nothing of the others.
    bool take(place_id turn, std::vector<char>& done, std::vector<node>& ordered) {
        bool any = false;
        for (bool found = true; found;) {
            found = false;
            for (std::size_t i = 0; i < g.nodes.size(); ++i) {
                if (done[i] || waits_[i] || g.nodes[i].place != turn) continue;
                done[i] = 1;
                any = found = true;
                for (int next : feeds_[i]) --waits_[static_cast<std::size_t>(next)];
                ordered.push_back(std::move(g.nodes[i]));
            }
        }
        return any;
    }

    std::size_t places_;
    std::vector<value_id> roots_;
    std::vector<int> waits_;
    std::vector<std::vector<int>> feeds_;
};

// Nodes that come with a place are that place's where it takes them. The others go to the first device with a memory of its own that takes
// them, else to the host.
class placer : public rewriter {
public:
    placer(graph& target, const device_list& places, const limits& limit) : rewriter(target), places_(places), limit_(limit), brought_(places.size()) {
        for (std::size_t i = 1; i < places.size(); ++i)
            if (!places[i]->in_host_memory()) beside_.push_back(static_cast<place_id>(i));
        for (const node& n : g.nodes) asked_.push_back(n.place);
    }

    GRAFT_COLD void run() {
        refusals_.assign(g.values.size(), {});
        // State is taken to lie on the device until a node elsewhere turns out to change it.
        for (const state_pair& s : g.states) state_input(s).place = beside_.empty() ? 0 : beside_.front();
        choose();
        if (settle_states()) {
            choose();
            settle_states();
        }
    }
    // The first node that belongs elsewhere than on the host and was refused.
    status first_refused() { return std::move(first_refused_); }
    // Why each value is made on the host.
    const std::vector<placement_refusal>& refusals() const { return refusals_; }
    // Behind the lowering of a place, which has added nodes there.
    void settle_values() {
        for (node& n : g.nodes)
            for (value_id id : n.outputs)
                if (id != no_value) at(id).place = n.place;
    }
    // Behind the lowering of all places but the host: copies wherever a value crosses.
    status connect(bool in_order) {
        index();
        add_transfers();
        if (!in_order) return place_order(g, places_.size()).run();
        leave_early();
        return {};
    }

private:
    // Sums over shapes and indices are a few host instructions; on a device each is a launch.
    static constexpr std::int64_t few = 256;

    void choose() {
        first_refused_ = status();
        late_.assign(g.values.size(), 0);
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            node& n = g.nodes[i];
            for_host_ = false;
            const placement_refusal refused = place_node(n, asked_[i]);
            if (!n.place && *refused.why && !for_host_ && first_refused_.ok())
                first_refused_ = fail(errc::placement_refused, location(n), places_[refused.by]->name() + " does not take it: " + refused.why);
            for (value_id id : n.outputs) {
                if (id == no_value) continue;
                at(id).place = n.place;
                refusals_[id] = refused;
            }
        }
    }
    placement_refusal place_node(node& n, place_id asked) {
        n.place = 0;
        if (beside_.empty() && !asked) return {};
        placement_refusal refused{asked ? asked : beside_.front(), nullptr};
        refused.why = reason_for_host(n, asked != 0);
        if (refused.why) return refused;
        const std::vector<place_id> only{asked};
        for (place_id to : asked ? only : beside_) {
            refused = {to, places_[to]->refuse({n, in_.data(), static_cast<int>(in_.size()), out_.data(), static_cast<int>(out_.size()), limit_})};
            if (refused.why) continue;
            n.place = to;
            return {};
        }
        return refused;
    }
    // Null where it may go elsewhere; what a device is asked with is at hand then.
    const char* reason_for_host(const node& n, bool asked) {
        if (runs_late(g, n, late_, ids_)) {
            for (value_id id : n.outputs)
                if (id != no_value) late_[id] = 1;
            return late_reason(n);
        }
        bool integers = true, from_device = false, from_run = false;
        std::int64_t elements = 0;
        in_.clear();
        out_.clear();
        for (value_id id : n.inputs) {
            in_.push_back(id == no_value ? tensor_view{} : view_at_hand(at(id)));
            if (id == no_value || at(id).constant) continue;
            from_device |= at(id).place != 0;
            from_run = true;
        }
        for (value_id id : n.outputs) {
            out_.push_back(id == no_value ? tensor_view{} : tensor_view{at(id).type, at(id).extents, nullptr});
            if (id == no_value) continue;
            integers &= !is_float(at(id).type);
            elements = std::max(elements, at(id).extents.elements());
        }
        for_host_ = true;
        if (!elements) return "it makes nothing";
        if (!asked && !from_device && integers && elements <= few) return "a few integers that the host has";
        if (!asked && !from_device && from_run && (n.op->flags & op_flag::view)) return "it only looks at memory of the host";
        for_host_ = false;
        return nullptr;
    }

    // State stays where it is changed. What is only read is on a device where a node there reads it. Returns whether a state has moved.
    bool settle_states() {
        std::vector<place_id> reader(g.values.size(), 0);  // the first beside the host
        std::vector<char> host_reads(g.values.size(), 0);
        for (const node& n : g.nodes) {
            ids_ = n.inputs;
            append_captures(n, ids_);
            for (value_id id : ids_) {
                if (id == no_value) continue;
                if (!n.place) host_reads[id] = 1;
                if (n.place && !reader[id]) reader[id] = n.place;
            }
        }
        bool moved = false;
        for (const state_pair& s : g.states) {
            const value_id id = g.inputs[s.input];
            place_id lies = at(id).place;
            if (s.output >= 0)
                lies = at(g.outputs[s.output]).place;
            else if (reader[id] || host_reads[id])
                lies = reader[id];
            moved |= at(id).place != lies;
            at(id).place = lies;
        }
        return moved;
    }
    value& state_input(const state_pair& s) { return at(g.inputs[s.input]); }
    bool state_output(std::size_t i) const {
        for (const state_pair& s : g.states)
            if (s.output >= 0 && static_cast<std::size_t>(s.output) == i) return true;
        return false;
    }

    // The value in the memory of another place: by way of the host's.
    value_id bring(value_id from, place_id to, std::vector<node>& nodes) {
        if (at(from).place && to) from = bring(from, 0, nodes);
        std::vector<value_id>& brought = brought_[to];
        brought.resize(g.values.size(), no_value);
        if (brought[from] != no_value) return brought[from];
        const value_id made = brought[from] = like(from, to ? "_device" : "_host");
        at(made).place = to;
        node n;
        n.name = at(made).name;
        n.op_type = "Transfer";
        n.domain = "graft";
        n.op = ops::transfer_ops().rows;
        n.version = 1;
        n.place = to ? to : at(from).place;
        n.inputs = {from};
        n.outputs = {made};
        nodes.push_back(std::move(n));
        return made;
    }
    GRAFT_COLD void add_transfers() {
        std::vector<value_id> captured;
        std::vector<node> nodes, old = std::move(g.nodes);
        for (node& n : old) {
            for (value_id& id : n.inputs)
                if (id != no_value && !at(id).constant && at(id).place != n.place) id = bring(id, n.place, nodes);
            nodes.push_back(std::move(n));
        }
        // Bodies read by the id of the value outside, so what they capture changes places with its copy.
        std::vector<value_id> host_of(g.values.size());
        for (std::size_t i = 0; i < host_of.size(); ++i) host_of[i] = static_cast<value_id>(i);
        const std::size_t count = nodes.size();
        for (std::size_t i = 0; i < count; ++i) append_captures(nodes[i], captured);
        bool crosses = false;
        for (value_id id : captured) {
            if (at(id).constant || !at(id).place) continue;
            host_of[id] = bring(id, 0, nodes);
            crosses = true;
        }
        for (std::size_t i = 0; i < count && crosses; ++i) rename_captures(nodes[i], host_of);
        for (std::size_t i = 0; i < g.outputs.size(); ++i) {
            value_id& id = g.outputs[i];
            if (at(id).constant || !at(id).place || state_output(i)) continue;
            const std::string name = at(id).name;
            id = bring(id, 0, nodes);
            at(id).name = name;
        }
        g.nodes = std::move(nodes);
        index();
    }

    // What leaves a place does so as soon as it is there, so that who waits for it need not wait for what its maker does next. What is made for that alone,
    // such as another layout, goes with it.
    GRAFT_COLD void leave_early() {
        std::vector<int> readers(g.values.size(), 0), leaving(g.values.size(), 0);
        for (const node& n : g.nodes)
            for (value_id id : n.inputs)
                if (id != no_value) ++readers[id];
        for (value_id id : g.outputs) ++readers[id];
        std::vector<int> maker(g.nodes.size(), -1);  // of what moves: the node that it goes behind
        for (std::size_t i = g.nodes.size(); i-- > 0;) {
            const node& n = g.nodes[i];
            const value_id made = n.outputs.empty() ? no_value : n.outputs[0];
            if (made == no_value) continue;
            const bool transfer = n.op == ops::transfer_ops().rows && at(made).place == 0,
                       made_for_that = n.place && n.inputs.size() == 1 && n.outputs.size() == 1 && readers[made] && leaving[made] == readers[made];
            if (!transfer && !made_for_that) continue;
            maker[i] = position(n.inputs[0]);
            if (maker[i] >= 0) ++leaving[n.inputs[0]];
        }
        std::vector<std::vector<std::size_t>> behind(g.nodes.size());
        for (std::size_t i = 0; i < g.nodes.size(); ++i)
            if (maker[i] >= 0) behind[static_cast<std::size_t>(maker[i])].push_back(i);
        std::vector<node> ordered;
        std::vector<std::size_t> next;
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            if (maker[i] >= 0) continue;
            for (next.assign(1, i); !next.empty();) {
                const std::size_t now = next.back();
                next.pop_back();
                next.insert(next.end(), behind[now].rbegin(), behind[now].rend());
                ordered.push_back(std::move(g.nodes[now]));
            }
        }
        g.nodes = std::move(ordered);
        index();
    }

    const device_list& places_;
    const limits& limit_;
    std::vector<place_id> beside_;  // the devices with a memory of their own
    std::vector<place_id> asked_;   // by node: the place that it came with
    std::vector<placement_refusal> refusals_;
    std::vector<std::vector<value_id>> brought_;  // by place and value: its copy there
    std::vector<tensor_view> in_, out_;
    std::vector<value_id> ids_;
    std::vector<char> late_;  // by value: made late
    bool for_host_ = false;   // the node is refused because the host is the better place for it
    status first_refused_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
