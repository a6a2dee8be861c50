// Chains of element-wise operators and movements, with a reduction among them, become one node Fusion and its kernels.
#pragma once

#include "../../graph/builder.hpp"
#include "../../graph/captures.hpp"
#include "../codegen/reduce.hpp"
#include "../faults.hpp"
#include "../ops/ops.hpp"
#include "query.hpp"

#include <map>
#include <memory>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

using graft::detail::append_captures;

// A node joins the group of its readers, which becomes one node where the last of them stands. What others read of it is an output of
// the group, if they all stand behind: then no path leads out of a group and back. One reduction may be among a group's nodes.
class chains {
public:
    chains(graph& target, place_id on) : g(target), on_(on), alone_(target.nodes.size(), 0) {}

    void run() {
        find_readers();
        std::vector<std::vector<node>> made(g.nodes.size());
        // A group that no kernel can be written of is formed anew without its reduction.
        for (bool again = true; again;) {
            again = false;
            find_groups();
            for (std::size_t i = 0; i < g.nodes.size(); ++i) {
                made[i].clear();
                if (group_[i] != i || members_[i].size() < 2) continue;
                node fused = fusion(i);
                if (emits(fused))
                    made[i].push_back(std::move(fused));
                else if (reduction_[i] != none)
                    alone_[reduction_[i]] = 1, again = true;
            }
        }
        std::vector<node> old = std::move(g.nodes);
        g.nodes.clear();
        for (std::size_t i = 0; i < old.size(); ++i) {
            if (group_[i] != i) continue;  // it has gone into a later one
            if (made[i].empty())
                for (std::size_t k = members_[i].size(); k-- > 0;) g.nodes.push_back(std::move(old[members_[i][k]]));
            else
                g.nodes.push_back(std::move(made[i][0]));
        }
    }

private:
    static constexpr std::size_t most_nodes = 24, most_inputs = 24, none = static_cast<std::size_t>(-1);

    value& at(value_id id) { return g.at(id); }
    value& result(const node& n) { return at(n.outputs[0]); }
    std::int64_t elements(const node& n) { return n.outputs.empty() || n.outputs[0] == no_value ? 0 : result(n).extents.elements(); }

    // Whether its kernel would be a loop over its output that can take more in. What is only another look at memory costs nothing alone.
    bool joins(const node& n) {
        if (n.place != on_ || !fusable(n) || (n.outputs.size() != 1 && !updates(n)) || !elements(n)) return false;
        return !((n.op->flags & op_flag::view) && n.inputs[0] != no_value && at(n.inputs[0]).layout == result(n).layout &&
                 at(n.inputs[0]).type == result(n).type);
    }
    bool reduces(std::size_t i) {
        const node& n = g.nodes[i];
        return n.place == on_ && !alone_[i] && elements(n) && n.inputs[0] != no_value && find_reduction(n.op_type.c_str(), n.domain.c_str());
    }
    // Whether it changes state of an optimizer: all its outputs are of the extents of its first input.
    static bool updates(const node& n) {
        const element_rule* rule = find_rule(n.op_type.c_str(), n.domain.c_str());
        return rule && (rule->reads & element_rule::state);
    }
    // Whether it reads its inputs where it writes its output, or broadcasts them.
    bool works_in_place(const node& n) const {
        const element_rule* rule = find_rule(n.op_type.c_str(), n.domain.c_str());
        return rule && rule->reads == element_rule::same;
    }
    // Whether it reads each element of an input once, so that computing the input in place costs no more.
    bool reads_once(const node& n) const {
        const op_row& row = ops::row_of(n);
        const motion moves = row.traits.moves;
        const bool each_once = moves != motion::none && moves != motion::repeat && moves != motion::choose;
        return each_once || row.is(op_flag::elementwise) || updates(n);
    }

    void find_readers() {
        readers_.resize(g.values.size());
        leaves_.assign(g.values.size(), 0);
        std::vector<value_id> ids;
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            ids = g.nodes[i].inputs;
            append_captures(g.nodes[i], ids);
            for (value_id id : ids)
                if (id != no_value) readers_[id].push_back(i);
        }
        for (value_id id : g.outputs) leaves_[id] = 1;
        std::vector<std::size_t> maker(g.values.size(), none);
        changed_at_.assign(g.values.size(), none);
        roots_ = graft::detail::memory_roots(g);
        for (std::size_t i = 0; i < g.nodes.size(); ++i)
            for (value_id id : g.nodes[i].outputs)
                if (id != no_value) maker[id] = i;
        for (const state_pair& s : g.states)
            if (s.output >= 0) changed_at_[g.inputs[s.input]] = maker[g.outputs[s.output]];
    }
    // Whether a node that goes to where the group's last stands still reads all state before it is changed: an update there may have
    // to wait for another one that waits for this group.
    bool reads_in_time(std::size_t i, std::size_t root) const {
        bool changes = false;
        for (std::size_t member : members_[root]) changes |= updates(g.nodes[member]);
        for (value_id id : g.nodes[i].inputs) {
            const std::size_t at = id == no_value ? none : changed_at_[static_cast<std::size_t>(roots_[id])];
            if (changes && at != none && at != i && root > group_[at]) return false;
        }
        return true;
    }
    // Whether somebody outside of the group reads it, and if so, whether all of them stand behind the group.
    bool read_outside(value_id id, std::size_t root) const {
        bool outside = leaves_[id] != 0;
        for (std::size_t reader : readers_[id]) outside |= group_[reader] != root;
        return outside;
    }
    bool read_behind(value_id id, std::size_t root) const {
        for (std::size_t reader : readers_[id])
            if (group_[reader] != root && reader <= root) return false;
        return true;
    }
    void find_groups() {
        const std::size_t count = g.nodes.size();
        group_.resize(count);
        members_.assign(count, {});
        inputs_.resize(count);
        reduction_.assign(count, none);
        for (std::size_t i = count; i-- > 0;) {
            group_[i] = i;
            members_[i] = {i};
            inputs_[i] = g.nodes[i].inputs.size();
            const bool sums = reduces(i);
            if (sums) reduction_[i] = i;
            if (!sums && !joins(g.nodes[i])) continue;
            const std::size_t root = group_of_readers(i);
            if (root == none || !(sums ? reduction_joins(i, root) : element_joins(i, root))) continue;
            group_[i] = root;
            members_[root].push_back(i);
            inputs_[root] += g.nodes[i].inputs.size();
            if (sums) reduction_[root] = i;
        }
    }
    // The group of the first node that reads its first output, if there is room and whoever else reads an output stands behind it.
    std::size_t group_of_readers(std::size_t i) {
        const node& n = g.nodes[i];
        const std::vector<std::size_t>& by = readers_[n.outputs[0]];
        if (by.empty()) return none;
        const std::size_t root = group_[by[0]];
        if (members_[root].size() >= most_nodes || inputs_[root] + n.inputs.size() > most_inputs) return none;
        if (reduction_[root] == none && !joins(g.nodes[root])) return none;
        for (value_id id : n.outputs)
            if (id != no_value && !read_behind(id, root)) return none;
        return reads_in_time(i, root) ? root : none;
    }
    // What is computed element by element goes where each of its elements is wanted once; to be an output as well, it has to be of the
    // extents that the group walks.
    bool element_joins(std::size_t i, std::size_t root) {
        const node& n = g.nodes[i];
        const value_id y = n.outputs[0];
        const bool outside = read_outside(y, root);
        for (std::size_t reader : readers_[y]) {
            if (group_[reader] != root) continue;
            if (reader == reduction_[root] ? at(g.nodes[reader].inputs[0]).extents != at(y).extents || (g.nodes[reader].op->flags & op_flag::view)
                                           : !reads_once(g.nodes[reader]))
                return false;
        }
        if (elements(g.nodes[root]) > elements(n)) return false;
        // A part of it would be checked in part.
        for (std::size_t member : members_[root])
            if (ops::row_of(g.nodes[member]).traits.moves == motion::part && may_fault(g, n)) return false;
        if (reduction_[root] == none) return !outside || at(y).extents == result(g.nodes[root]).extents;
        // Nothing is moved on the way to a reduction, which may read twice. One that goes over memory twice reads the factors of y twice
        // instead of y, which need not be written then.
        if (!works_in_place(n)) return false;
        const kernel_shape how = shape_of(reduction_[root]);
        if (outside && !how.maps) return false;
        if (how.passes < 2) return true;
        std::size_t read = 0;
        for (value_id id : n.inputs) read += id != no_value && at(id).extents.elements() == at(y).extents.elements();
        return read < (outside ? 2u : 3u);
    }
    // What follows from a reduction element by element, in the extents that it has.
    bool reduction_joins(std::size_t i, std::size_t root) {
        const node& n = g.nodes[i];
        if (reduction_[root] != none) return false;
        for (std::size_t member : members_[root])
            if (!works_in_place(g.nodes[member]) || result(g.nodes[member]).extents != result(n).extents) return false;
        for (std::size_t k = 1; k < n.outputs.size(); ++k)
            if (n.outputs[k] != no_value)
                for (std::size_t reader : readers_[n.outputs[k]])
                    if (group_[reader] == root) return false;
        return true;
    }
    // How often a reduction goes over memory, and whether it has outputs of the extents that it sums up.
    struct kernel_shape {
        int passes;
        bool maps;
    };
    kernel_shape shape_of(std::size_t i) {
        const auto known = shapes_.find(i);
        if (known != shapes_.end()) return known->second;
        const limits limit;
        const device_traits any;
        program alone;
        const node& n = g.nodes[i];
        const char* refused = find_generated(n.op_type.c_str(), n.domain.c_str()).generate(asked_in_graph(g, n, limit).on(any, {}).query(), alone);
        const bool maps = !refused && result(n).extents == at(n.inputs[0]).extents;
        return shapes_[i] = {maps && alone.launches.size() > 1 ? 2 : 1, maps};
    }

    // Whether a kernel can be written of it: rules have limits of their own together.
    bool emits(const node& n) {
        const limits limit;
        const device_traits any;
        program unused;
        return !find_generated("Fusion", "").generate(asked_in_graph(g, n, limit, &roots_).on(any, {}).query(), unused);
    }

    node fusion(std::size_t root) {
        std::vector<node> members;
        for (std::size_t k = members_[root].size(); k-- > 0;) members.push_back(g.nodes[members_[root][k]]);
        graph body;
        std::vector<value_id> inner(g.values.size(), no_value);
        node made;
        made.name = members.back().name;
        made.op_type = "Fusion";
        made.op = fusion_row();
        made.version = 1;
        made.place = on_;
        for (std::size_t k = members.size(); k-- > 0;)
            for (value_id id : members[k].outputs)
                if (id != no_value && (k + 1 == members.size() || read_outside(id, root))) made.outputs.push_back(id);
        const auto copy = [&](value_id id) { return inner[id] = copy_value(body, at(id)); };
        for (node& n : members) {
            for (std::size_t i = 0; i < n.inputs.size(); ++i) {
                value_id& id = n.inputs[i];
                if (id == no_value) continue;
                const bool seen = inner[id] != no_value;
                const value_id from = id;
                id = seen ? inner[id] : copy(id);
                if (seen) continue;
                // What the rules read when the text is made has to be in the body; other constants are the kernel's inputs, as is what
                // one of them reads element by element.
                const bool gathered = i == 1 && ops::row_of(n).traits.moves == motion::choose;
                const bool in_text = at(from).constant && (at(from).constant.elements() <= 1 || (!is_float(at(from).type) && !gathered));
                if (in_text) body.at(id).constant = at(from).constant;
                if (!in_text || (at(from).constant.elements() > 1 && works_in_place(n))) {
                    body.inputs.push_back(id);
                    made.inputs.push_back(from);
                }
            }
            for (value_id& id : n.outputs)
                if (id != no_value) id = copy(id);
        }
        for (value_id id : made.outputs) body.outputs.push_back(inner[id]);
        body.nodes = std::move(members);
        made.attributes.push_back(graph_attribute("body", std::move(body)));
        return made;
    }

    graph& g;
    place_id on_;
    std::vector<std::vector<std::size_t>> readers_;  // by value
    std::map<std::size_t, kernel_shape> shapes_;
    std::vector<value_id> roots_;                          // by value: whose memory it is
    std::vector<std::size_t> changed_at_;                  // by value: the node that makes the state that follows it
    std::vector<char> leaves_, alone_;                     // values that leave the graph; reductions that cannot be fused with anything
    std::vector<std::size_t> group_, inputs_, reduction_;  // the last two by the group's last node
    std::vector<std::vector<std::size_t>> members_;        // from the last node to the first
};

}  // namespace detail
}  // namespace gpu
GRAFT_END_NAMESPACE
