// What only a run can shape: which nodes wait for it, and those behind them as the body of one node, planned when its inputs have shapes.
#pragma once

#include "../graph/captures.hpp"
#include "../graph/op.hpp"
#include "../ops/ops.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace detail {

// Why a node runs late, which the host's reference kernels do.
inline const char* late_reason(const node& n) noexcept {
    if (n.op->flags & op_flag::bodies) return "its bodies are run step by step";
    return n.op->flags & op_flag::allocates ? "the extents of its output depend on what its inputs hold" : "its shapes are known only in a run";
}

// Whether a node runs late: when what it reads or makes is known only in a run. `late` tells it of the values that nodes before it make.
inline bool runs_late(const graph& g, const node& n, const std::vector<char>& late, std::vector<value_id>& ids) {
    const auto known = [&](value_id id) {
        const value& v = g.at(id);
        return v.constant || (v.has_shape && v.extents.known());
    };
    if (n.op->flags & (op_flag::allocates | op_flag::bodies)) return true;
    ids = n.inputs;
    append_captures(n, ids);
    for (value_id id : ids)
        if (id != no_value && (late[id] || !known(id))) return true;
    for (value_id id : n.outputs)
        if (id != no_value && !known(id)) return true;
    return false;
}

// Bodies in bodies at which late nodes are gathered no more, but run one by one: each is a context of its own, with all that comes behind it,
// and a call in a call. Long chains end earlier: the nodes of all bodies together take memory.
constexpr int most_calls = 8;
constexpr std::size_t most_called_nodes = 8192;

// Constants that the bodies of a node read from around it become constants of theirs, so that they can be folded and packed there.
inline void bind_constants(graph& body, const std::vector<value>& around) {
    std::vector<capture> open;
    for (const capture& c : body.captures) {
        const tensor& constant = around[c.outer].constant;
        if (!constant) {
            open.push_back(c);
            continue;
        }
        value& v = body.at(c.inner);
        v.type = constant.type();
        v.has_shape = true;
        v.extents = constant.shape();
        v.constant = constant;
    }
    body.captures = std::move(open);
}

// What is known of the shapes of late values before a run: each extent that depends on a run is tried with two numbers, and what comes out
// alike does not depend on it. A guess, by which nodes are grouped, and no more: bodies are planned by the shapes that they are given.
class shape_probe {
public:
    shape_probe(const graph& g, const limits& limit) : limit_(limit) {
        for (const value& v : g.values) {
            for (int trial = 0; trial < 2; ++trial) {
                tried_[trial].push_back(v.constant || v.has_shape ? view_at_hand(v) : tensor_view{});
                guess(trial, tried_[trial].back().extents);
            }
        }
    }

    // Infers the outputs of a node whose shape the graph does not know. Whether all that it reads and makes has one shape in every run.
    bool fixed(const node& n) {
        bool alike = true, known = n.op->infer != nullptr;
        for (value_id id : n.inputs) {
            if (id == no_value) continue;
            known = known && at(0, id).type != dtype::undefined;
            alike = alike && at(0, id).extents == at(1, id).extents;
        }
        for (int trial = 0; trial < 2 && known; ++trial) known = infer(n, trial);
        for (value_id id : n.outputs) {
            if (id == no_value) continue;
            if (!known) at(0, id) = at(1, id) = tensor_view{};
            alike = alike && at(0, id).type != dtype::undefined && at(0, id).extents == at(1, id).extents;
        }
        return known && alike;
    }
    // The element type of a value that a node makes which `fixed` has been asked of, where that can be told.
    dtype type(value_id id) { return at(0, id).type; }

private:
    static void guess(int trial, shape& extents) {
        for (int d = 0; d < extents.rank(); ++d)
            if (extents[d] < 0) extents[d] = trial ? 7 : 3;
    }
    // No type: its shape is not known even so.
    tensor_view& at(int trial, value_id id) { return tried_[trial][id]; }
    bool infer(const node& n, int trial) {
        in_.clear();
        for (value_id id : n.inputs) in_.push_back(id == no_value ? tensor_view{} : at(trial, id));
        out_.assign(n.outputs.size(), tensor_view{});
        infer_context c{{n, in_.data(), static_cast<int>(in_.size()), out_.data(), static_cast<int>(out_.size()), limit_}};
        if (!n.op->infer(c).ok()) return false;
        for (std::size_t i = 0; i < n.outputs.size(); ++i) {
            if (n.outputs[i] == no_value) continue;
            guess(trial, out_[i].extents);
            at(trial, n.outputs[i]) = out_[i];
        }
        return true;
    }

    const limits& limit_;
    std::vector<tensor_view> tried_[2];  // by value
    std::vector<tensor_view> in_, out_;
};

// Gathers the nodes that read late values into bodies of `Call`, in their order, so that they are planned when a run has given the shapes
// of what they capture. What is left late in the graph reads nothing late. Three bodies: what stands at once behind it and changes its
// shapes from run to run; what stands behind that and does not, so that one plan does for every run; and the rest.
class late_gatherer {
public:
    late_gatherer(graph& g, const limits& limit, int nesting) : g_(g), limit_(limit), nesting_(nesting) {}

    GRAFT_COLD void run() {
        const std::size_t values = g_.values.size();
        std::vector<char> late(values, 0), stage(values, 0);  // stage of a late value: 0 the graph's own, then the body that makes it
        if (!worth_it(late)) return;
        shape_probe probe(g_, limit_);
        std::vector<node> kept, gathered[bodies];
        for (node& n : g_.nodes) {
            if (!runs_late(g_, n, late, ids_)) {
                kept.push_back(std::move(n));
                continue;
            }
            const bool behind = reads(n, late), fixed = probe.fixed(n) && !(n.op->flags & (op_flag::allocates | op_flag::bodies));
            int place = behind ? 1 : 0;
            if (behind) {
                for (value_id id : ids_)
                    if (id != no_value) place = std::max(place, static_cast<int>(stage[id]));
                // 1 moves, 2 is fixed, 3 takes whatever follows.
                if (place == 1 && fixed) place = 2;
                if (place == 2 && !fixed) place = 3;
            }
            for (value_id id : n.outputs)
                if (id != no_value) late[id] = 1, stage[id] = static_cast<char>(place);
            (place ? gathered[place - 1] : kept).push_back(std::move(n));
        }
        g_.nodes = std::move(kept);
        for (int i = 0; i < bodies; ++i) {
            const std::vector<char> read_behind = read_by(gathered, i + 1);
            if (!gathered[i].empty()) g_.nodes.push_back(call(std::move(gathered[i]), read_behind));
        }
    }

private:
    static constexpr int bodies = 3;

    bool reads(const node& n, const std::vector<char>& late) {
        ids_ = n.inputs;
        append_captures(n, ids_);
        for (value_id id : ids_)
            if (id != no_value && late[id]) return true;
        return false;
    }
    // By value: whether the caller or a body from `first` on reads it.
    std::vector<char> read_by(const std::vector<node> (&gathered)[bodies], int first) {
        std::vector<char> read(g_.values.size(), 0);
        for (value_id id : g_.outputs) read[id] = 1;
        for (int i = first; i < bodies; ++i)
            for (const node& n : gathered[i]) {
                ids_ = n.inputs;
                append_captures(n, ids_);
                for (value_id id : ids_)
                    if (id != no_value) read[id] = 1;
            }
        return read;
    }

    value_id made(value_id id) {
        value_id& inner = inner_[id];
        if (inner == no_value) inner = body_->add_value(g_.at(id).name);
        return inner;
    }
    value_id read(value_id id) {
        if (inner_[id] == no_value) body_->captures.push_back({made(id), id});
        return inner_[id];
    }

    GRAFT_COLD node call(std::vector<node> nodes, const std::vector<char>& read_behind) {
        body_ = std::make_shared<graph>();
        inner_.assign(g_.values.size(), no_value);
        node caller;
        body_->name = caller.name = g_.name;
        body_->opsets = g_.opsets;
        for (node& n : nodes) {
            for (value_id& id : n.inputs)
                if (id != no_value) id = read(id);
            ids_.clear();
            append_captures(n, ids_);
            for (value_id id : ids_) read(id);
            if (!ids_.empty()) rename_captures(n, inner_);
            for (value_id& id : n.outputs) {
                if (id == no_value) continue;
                const value_id inner = made(id);
                if (read_behind[id]) {
                    caller.outputs.push_back(id);
                    body_->outputs.push_back(inner);
                }
                id = inner;
            }
        }
        body_->nodes = std::move(nodes);
        caller.op_type = "Call";
        caller.domain = "graft";
        caller.version = 1;
        caller.op = ops::find_op("graft", "Call", 1);
        bind_constants(*body_, g_.values);
        attribute a;
        a.name = "body";
        a.kind = attribute_kind::graph;
        a.graph = std::move(body_);
        caller.attributes.push_back(std::move(a));
        return caller;
    }

    graph& g_;
    // Whether any node is late, and not too many for bodies in this depth.
    bool worth_it(const std::vector<char>& late) {
        const auto behind = std::find_if(g_.nodes.begin(), g_.nodes.end(), [&](const node& n) { return runs_late(g_, n, late, ids_); });
        const auto count = static_cast<std::size_t>(g_.nodes.end() - behind);
        return count && nesting_ < most_calls && (nesting_ == 0 || count * static_cast<std::size_t>(nesting_ + 1) <= most_called_nodes);
    }

    const limits& limit_;
    int nesting_;
    std::shared_ptr<graph> body_;  // the one at work
    std::vector<value_id> inner_;  // by value: its place in that
    std::vector<value_id> ids_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
#endif
