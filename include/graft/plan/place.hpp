// Placement: which nodes the device beside the CPU takes, and the copies between its memory and the host's.
#pragma once

#include "../lower/device.hpp"
#include "late.hpp"
#include "../lower/rewriter.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// Copies between the host's memory and a device's; both are the device's nodes.
///   Upload(X)    from the host
///   Download(X)  to the host, row-major whatever X is
inline op_table copy_ops() {
    static constexpr op_row rows[] = {make_op("Upload", "device").inputs(1), make_op("Download", "device").inputs(1)};
    return {rows, 2};
}

}  // namespace ops

namespace detail {

// Nodes of the device have domains of their own, so that no pass or kernel of the CPU that knows an operator by its name takes them.
inline std::string device_domain(const std::string& domain) { return domain.empty() ? "device" : domain == "graft" ? "device.graft" : domain; }
inline std::string plain_domain(const std::string& domain) { return domain == "device" ? "" : domain == "device.graft" ? "graft" : domain; }
// And while the device lowers its nodes, those of the host have.
inline bool is_host_domain(const std::string& domain) { return domain.compare(0, 5, "host:") == 0; }
inline void set_host_apart(graph& g) {
    for (node& n : g.nodes)
        if (!n.on_device) n.domain = "host:" + n.domain;
}
inline void bring_host_back(graph& g) {
    for (node& n : g.nodes)
        if (!n.on_device) n.domain.erase(0, 5);
}

// An order with as few runs of device nodes as there can be, in which host nodes and device nodes each keep the order that they had.
// A state is changed after everybody who reads it as it was.
class device_order : public rewriter {
public:
    using rewriter::rewriter;

    status run() {
        roots_ = memory_roots(g);
        join();
        std::vector<char> done(g.nodes.size(), 0);
        std::vector<node> ordered;
        bool device_turn = false;
        for (int idle = 0; ordered.size() < g.nodes.size() && idle < 2; device_turn = !device_turn)
            idle = take(device_turn, done, ordered) ? 0 : idle + 1;
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
    void join() {
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
    // Every node of one side that waits for nothing of the other.
    bool take(bool device_turn, std::vector<char>& done, std::vector<node>& ordered) {
        bool any = false;
        for (bool found = true; found;) {
            found = false;
            for (std::size_t i = 0; i < g.nodes.size(); ++i) {
                if (done[i] || waits_[i] || g.nodes[i].on_device != device_turn) continue;
                done[i] = 1;
                any = found = true;
                for (int next : feeds_[i]) --waits_[static_cast<std::size_t>(next)];
                ordered.push_back(std::move(g.nodes[i]));
            }
        }
        return any;
    }

    std::vector<value_id> roots_;
    std::vector<int> waits_;
    std::vector<std::vector<int>> feeds_;
};

class placer : public rewriter {
public:
    // `refusals`: why the device did not take the node that makes a value; by value.
    placer(graph& target, const device& on, const limits& limit, std::vector<const char*>& refusals) : rewriter(target), on_(on), limit_(limit), refusals_(refusals) {}

    void run() {
        refusals_.assign(g.values.size(), "");
        // State is taken to lie on the device until a node of the host turns out to change it.
        for (const state_pair& s : g.states) state_input(s).on_device = true;
        choose();
        if (settle_states()) {
            choose();
            settle_states();
        }
    }
    // The first node that belongs on the device and was refused.
    status first_refused() { return std::move(first_refused_); }
    // After the device's lowering: copies wherever a value crosses.
    status finish_placement() {
        for (node& n : g.nodes)
            for (value_id id : n.outputs)
                if (id != no_value) at(id).on_device = n.on_device;
        index();
        add_copies();
        GRAFT_TRY(device_order(g).run());
        for (node& n : g.nodes)
            if (n.on_device) n.domain = device_domain(n.domain);
        index();
        return {};
    }

private:
    // Sums over shapes and indices are a few host instructions; on a device each is a launch.
    static constexpr std::int64_t few = 256;

    void choose() {
        first_refused_ = status();
        late_.assign(g.values.size(), 0);
        for (node& n : g.nodes) {
            for_host_ = false;
            const char* reason = refusal(n);
            n.on_device = !reason;
            if (reason && !for_host_ && first_refused_.ok()) first_refused_ = fail(errc::placement_refused, place(n), on_.name() + " does not take it: " + reason);
            for (value_id id : n.outputs) {
                if (id == no_value) continue;
                at(id).on_device = n.on_device;
                refusals_[id] = reason ? reason : "";
            }
        }
    }
    const char* refusal(const node& n) {
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
            from_device |= at(id).on_device;
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
        if (!from_device && integers && elements <= few) return "a few integers that the host has";
        if (!from_device && from_run && (n.op->flags & op_flag::view)) return "it only looks at memory of the host";
        for_host_ = false;
        return on_.refuse({n, in_.data(), static_cast<int>(in_.size()), out_.data(), static_cast<int>(out_.size()), limit_});
    }

    // State that the device changes stays on the device; state that the host changes stays on the host. What is only read is on the
    // device where a node there reads it. Returns whether a state has left the device.
    bool settle_states() {
        std::vector<char> read_by[2] = {std::vector<char>(g.values.size(), 0), std::vector<char>(g.values.size(), 0)};
        for (const node& n : g.nodes) {
            ids_ = n.inputs;
            append_captures(n, ids_);
            for (value_id id : ids_)
                if (id != no_value) read_by[n.on_device][id] = 1;
        }
        bool left = false;
        for (const state_pair& s : g.states) {
            const std::size_t id = static_cast<std::size_t>(g.inputs[s.input]);
            const bool stays = s.output >= 0 ? at(g.outputs[s.output]).on_device : read_by[1][id] || !read_by[0][id];
            left |= state_input(s).on_device && !stays;
            state_input(s).on_device = stays;
        }
        return left;
    }
    value& state_input(const state_pair& s) { return at(g.inputs[s.input]); }
    bool state_output(std::size_t i) const {
        for (const state_pair& s : g.states)
            if (s.output >= 0 && static_cast<std::size_t>(s.output) == i) return true;
        return false;
    }

    void add_copies() {
        std::vector<value_id> up(g.values.size(), no_value), down(g.values.size(), no_value), captured;
        std::vector<node> nodes;
        const auto copy = [&](value_id from, std::vector<value_id>& made, bool to_device) {
            value_id& to = made[from];
            if (to != no_value) return to;
            to = like(from, to_device ? "_device" : "_host");
            at(to).on_device = to_device;
            node n;
            n.name = at(to).name;
            n.op_type = to_device ? "Upload" : "Download";
            n.domain = "device";
            n.op = ops::copy_ops().rows + (to_device ? 0 : 1);
            n.version = 1;
            n.on_device = true;
            n.inputs = {from};
            n.outputs = {to};
            nodes.push_back(std::move(n));
            return to;
        };
        std::vector<node> old = std::move(g.nodes);
        for (node& n : old) {
            for (value_id& id : n.inputs) {
                if (id == no_value || at(id).constant || at(id).on_device == n.on_device) continue;
                id = copy(id, n.on_device ? up : down, n.on_device);
            }
            nodes.push_back(std::move(n));
        }
        // Bodies read by the id of the value outside, so what they capture changes places with its copy.
        std::vector<value_id> host_of(g.values.size());
        for (std::size_t i = 0; i < host_of.size(); ++i) host_of[i] = static_cast<value_id>(i);
        const std::size_t count = nodes.size();
        for (std::size_t i = 0; i < count; ++i) append_captures(nodes[i], captured);
        bool crosses = false;
        for (value_id id : captured) {
            if (at(id).constant || !at(id).on_device) continue;
            host_of[id] = copy(id, down, false);
            crosses = true;
        }
        for (std::size_t i = 0; i < count && crosses; ++i) rename_captures(nodes[i], host_of);
        for (std::size_t i = 0; i < g.outputs.size(); ++i) {
            value_id& id = g.outputs[i];
            if (at(id).constant || !at(id).on_device || state_output(i)) continue;
            const std::string name = at(id).name;
            id = copy(id, down, false);
            at(id).name = name;
        }
        g.nodes = std::move(nodes);
        index();
    }

    const device& on_;
    const limits& limit_;
    std::vector<const char*>& refusals_;
    std::vector<tensor_view> in_, out_;
    std::vector<value_id> ids_;
    std::vector<char> late_;  // by value: made late
    bool for_host_ = false;  // the node is refused because the host is the better place for it
    status first_refused_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
