// Updates of many small parameters become one node MultiTensor and its kernel, and so do other nodes that optimisers need one of for each
// parameter: the scaling of gradients, and the copies of weights in 16 bits.
#pragma once

#include "../../graph/builder.hpp"
#include "../../graph/captures.hpp"
#include "../codegen/multi_tensor.hpp"
#include "../ops/ops.hpp"

#include <set>

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

inline bool is_optimizer(const node& n) {
    if (ops::row_of(n).traits.role == op_role::update) return true;
    const attribute* body = n.op == fusion_row() ? n.find("body") : nullptr;
    if (body && body->graph)
        for (const node& inner : body->graph->nodes)
            if (is_optimizer(inner)) return true;
    return false;
}

// An update waits for others of its kind until they fill a launch, somebody needs one of them, or their gradients would hold too much
// memory; then they run where the last of them stood. Copies of weights run where the first of them stood, as weights are there from
// the beginning.
class update_joiner {
public:
    update_joiner(graph& target, place_id on) : g(target), on_(on) {}

    void run() {
        bool any = !g.states.empty();
        for (const node& n : g.nodes) any |= updates(n);
        if (!any) return;
        find_values();
        join_copies();
        find_values();
        std::vector<node> old = std::move(g.nodes);
        g.nodes.clear();
        for (std::size_t i = 0; i < old.size(); ++i) {
            node& n = old[i];
            tensor_loop t;
            const uses of = uses_of(n);
            const bool waits = waits_[i] && of.held <= 4 * most_bytes && small(n, t);
            close_if([&](const group& other) { return needs(of, other.of) || (waits && meets(other.of.changed, of.read)); });
            if (waits)
                wait(std::move(n), t, of);
            else
                g.nodes.push_back(std::move(n));
        }
        close_if([](const group&) { return true; });
    }

private:
    // A tensor of more bytes keeps a launch of its own busy. All gradients that wait together hold no more than `most_held`.
    static constexpr std::int64_t most_bytes = std::int64_t(512) << 10, most_held = std::int64_t(4) << 20;

    // What nodes read and make, and of which state they read what was before, or change it: values of the graph's inputs.
    struct uses {
        std::set<value_id> inputs, outputs, read, changed;
        std::int64_t held = 0;  // bytes of inputs that nodes made
    };
    struct group {
        std::string kind;
        std::size_t most;
        std::vector<node> members;
        uses of;
    };

    value& at(value_id id) { return g.at(id); }
    bool updates(const node& n) const { return n.place == on_ && is_optimizer(n); }
    value_id root(value_id id) const { return roots_[id]; }
    std::int64_t bytes(value_id id) { return bytes_of(at(id).type, at(id).extents); }

    void find_values() {
        const std::size_t count = g.values.size();
        roots_ = graft::detail::memory_roots(g);
        state_.assign(count, 0);
        made_.assign(count, 0);
        before_.assign(count, no_value);
        for (const state_pair& s : g.states) {
            const value_id before = g.inputs[s.input];
            state_[static_cast<std::size_t>(before)] = 1;
            if (s.output >= 0) before_[g.outputs[s.output]] = before;
        }
        // By value: whether anybody reads it, and whether somebody does who is no optimiser.
        std::vector<char> read(count, 0), elsewhere(count, 0);
        std::vector<value_id> ids;
        for (const node& n : g.nodes) {
            ids = n.inputs;
            append_captures(n, ids);
            const bool optimizer = updates(n);
            for (value_id id : ids)
                if (id != no_value) read[id] = 1, elsewhere[id] = elsewhere[id] || !optimizer ? 1 : 0;
            for (value_id id : n.outputs)
                if (id != no_value) made_[id] = 1;
        }
        for (value_id id : g.outputs) elsewhere[id] = 1;
        waits_.assign(g.nodes.size(), 0);
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            bool feeds = true;
            for (value_id id : g.nodes[i].outputs) feeds &= id == no_value || (read[id] && !elsewhere[id]);
            waits_[i] = feeds || updates(g.nodes[i]) ? 1 : 0;
        }
    }

    // Whether its kernel is a loop over few elements.
    bool small(const node& n, tensor_loop& t) {
        if (n.place != on_) return false;
        for (value_id id : n.outputs)
            if (id != no_value && bytes(id) > most_bytes) return false;
        const bool view = (n.op->flags & op_flag::view) && n.inputs[0] != no_value && n.outputs[0] != no_value &&
                          at(n.inputs[0]).layout == at(n.outputs[0]).layout && at(n.inputs[0]).type == at(n.outputs[0]).type;
        if (view || (n.op != fusion_row() && find_generated(n.op_type.c_str(), n.domain.c_str()).generate != generate_loop)) return false;
        const limits limit;
        const device_traits any;
        return !read_tensor_loop(asked_in_graph(g, n, limit, &roots_).on(any, {}).query(), t);
    }
    uses uses_of(const node& n) {
        uses u;
        std::vector<value_id> ids = n.inputs;
        append_captures(n, ids);
        for (value_id id : ids) {
            if (id == no_value || !u.inputs.insert(id).second) continue;
            if (state_[root(id)]) u.read.insert(root(id));
            if (made_[root(id)]) u.held += bytes(id);
        }
        for (value_id id : n.outputs) {
            if (id == no_value) continue;
            u.outputs.insert(id);
            if (before_[id] != no_value) u.changed.insert(before_[id]);
        }
        return u;
    }
    static bool meets(const std::set<value_id>& a, const std::set<value_id>& b) {
        for (value_id id : a)
            if (b.count(id)) return true;
        return false;
    }
    // Whether the one has to run behind the other: it reads what that makes, or changes state that it reads.
    static bool needs(const uses& one, const uses& other) { return meets(one.inputs, other.outputs) || meets(one.changed, other.read); }

    template <class F>
    void close_if(const F& due) {
        for (std::size_t i = 0; i < open_.size();) {
            if (!due(open_[i])) {
                ++i;
                continue;
            }
            held_ -= open_[i].of.held;
            g.nodes.push_back(joined(std::move(open_[i].members)));
            open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
    std::string kind_of(const node& n, const tensor_loop& t) const {
        std::string kind = t.text;
        for (int i : t.shared) kind += "\n" + std::to_string(n.inputs[static_cast<std::size_t>(i)]);
        return kind;
    }
    void wait(node n, const tensor_loop& t, const uses& of) {
        if (held_ + of.held > most_held) close_if([](const group&) { return true; });
        const std::string kind = kind_of(n, t);
        std::size_t i = 0;
        while (i < open_.size() && open_[i].kind != kind) ++i;
        if (i == open_.size()) open_.push_back({kind, t.most_tensors(), {}, {}});
        group& to = open_[i];
        to.members.push_back(std::move(n));
        to.of.inputs.insert(of.inputs.begin(), of.inputs.end());
        to.of.outputs.insert(of.outputs.begin(), of.outputs.end());
        to.of.read.insert(of.read.begin(), of.read.end());
        to.of.changed.insert(of.changed.begin(), of.changed.end());
        to.of.held += of.held;
        held_ += of.held;
        if (to.members.size() == to.most) close_if([&](const group& other) { return other.kind == kind; });
    }

    // Copies of state in another type or layout: the weights that products in 16 bits read.
    void join_copies() {
        std::vector<std::pair<group, std::size_t>> found;  // with where the first stands
        std::vector<char> moved(g.nodes.size(), 0);
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            node& n = g.nodes[i];
            tensor_loop t;
            if (!ops::row_of(n).is(op_flag::copies | op_flag::converts) || n.inputs[0] == no_value || !state_[n.inputs[0]] ||
                before_[n.outputs[0]] != no_value || !small(n, t))
                continue;
            const std::string kind = kind_of(n, t);
            std::size_t k = 0;
            while (k < found.size() && (found[k].first.kind != kind || found[k].first.members.size() == t.most_tensors() ||
                                        found[k].first.of.held + bytes(n.outputs[0]) > most_held))
                ++k;
            if (k == found.size()) found.push_back({{kind, t.most_tensors(), {}, {}}, i});
            found[k].first.of.held += bytes(n.outputs[0]);
            found[k].first.members.push_back(std::move(n));
            moved[i] = 1;
        }
        std::vector<node> old = std::move(g.nodes);
        g.nodes.clear();
        for (std::size_t i = 0; i < old.size(); ++i) {
            for (auto& f : found)
                if (f.second == i) g.nodes.push_back(joined(std::move(f.first.members)));
            if (!moved[i]) g.nodes.push_back(std::move(old[i]));
        }
    }

    // One node of several, or the one that there is.
    node joined(std::vector<node> members) {
        if (members.size() == 1) return std::move(members[0]);
        graph body;
        std::vector<value_id> inner(g.values.size(), no_value);
        node made;
        made.name = members[0].name;
        made.op_type = "MultiTensor";
        made.op = multi_tensor_row();
        made.version = 1;
        made.place = on_;
        const auto copy = [&](value_id id) {
            const value_id to = inner[id] = copy_value(body, at(id));
            body.values.back().constant = at(id).constant;
            return to;
        };
        for (node& n : members) {
            for (value_id& id : n.inputs) {
                if (id == no_value) continue;
                const value_id from = id;
                const bool seen = inner[id] != no_value;
                id = seen ? inner[id] : copy(id);
                if (seen || (at(from).constant && at(from).constant.elements() == 1)) continue;  // which is in the text
                body.inputs.push_back(id);
                made.inputs.push_back(from);
            }
            for (value_id& id : n.outputs) {
                if (id == no_value) continue;
                made.outputs.push_back(id);
                id = copy(id);
                body.outputs.push_back(id);
            }
        }
        body.nodes = std::move(members);
        made.attributes.push_back(graph_attribute("body", std::move(body)));
        return made;
    }

    graph& g;
    place_id on_;
    std::vector<value_id> roots_, before_;  // by value: whose memory it is; the state that it follows
    std::vector<char> state_, made_;        // by value: it is state as it was; a node makes it
    std::vector<char> waits_;               // by node: an optimiser's, or read by those alone
    std::vector<group> open_;               // none needs another
    std::int64_t held_ = 0;
};

}  // namespace detail
}  // namespace gpu
GRAFT_END_NAMESPACE
