// Chains of element-wise operators and movements become one node Fusion, and one kernel.
#pragma once

#include "../graph/captures.hpp"
#include "ops/ops.hpp"
#include "query.hpp"

#include <memory>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The row of Fusion(inputs...) -> outputs: the attribute `body` is a graph of nodes that have rules, with as many inputs and outputs.
inline const op_row* fusion_row() {
    static constexpr op_row row = {"Fusion", "", 1, 0, 0, -1, 1, -1, nullptr, nullptr, 0, "body:g", ""};
    return &row;
}

namespace detail {

using graft::detail::append_captures;

// A node joins the group of its readers where all of them are in one group: so no path leads out of a group and back, and no value of a
// group but those of its last node is needed outside.
class chains {
public:
    explicit chains(graph& target) : g(target) {}

    void run() {
        find_groups();
        std::vector<node> old = std::move(g.nodes);
        g.nodes.clear();
        for (std::size_t i = 0; i < old.size(); ++i) {
            if (group_[i] != i) continue;  // it has gone into a later one
            std::vector<node> members;
            for (std::size_t k = members_[i].size(); k-- > 0;) members.push_back(std::move(old[members_[i][k]]));
            if (members.size() > 1) {
                node fused = fusion(members);
                if (emits(fused)) members.assign(1, std::move(fused));
            }
            for (node& n : members) g.nodes.push_back(std::move(n));
        }
    }

private:
    static constexpr std::size_t most_nodes = 24, most_inputs = 24;

    value& at(value_id id) { return g.values[static_cast<std::size_t>(id)]; }
    std::int64_t elements(const node& n) { return n.outputs.empty() || n.outputs[0] == no_value ? 0 : at(n.outputs[0]).extents.elements(); }

    // Whether its kernel would be a loop over its output that can take more in. What is only another look at memory costs nothing alone.
    bool joins(const node& n) {
        if (!n.on_device || !fusable(n) || n.outputs.size() != 1 || n.outputs[0] == no_value || !elements(n)) return false;
        return !((n.op->flags & op_flag::view) && n.inputs[0] != no_value && at(n.inputs[0]).block == at(n.outputs[0]).block);
    }
    // Whether it reads each element of an input once, so that computing the input in place costs no more.
    bool reads_once(const node& n) const {
        static constexpr const char* movements[] = {"Identity", "Cast", "Transpose", "Concat", "Slice", "Reshape", "Flatten", "Squeeze", "Unsqueeze"};
        if (n.op->flags & op_flag::elementwise) return true;
        for (const char* op : movements)
            if (n.op_type == op && n.domain.empty()) return true;
        return n.domain == "graft" && (n.op_type == "Activation" || n.op_type == "ScaleShift" || n.op_type == "Sum");
    }

    void find_groups() {
        std::vector<std::vector<std::size_t>> readers(g.values.size());
        std::vector<char> kept(g.values.size(), 0);
        std::vector<value_id> ids;
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            ids = g.nodes[i].inputs;
            append_captures(g.nodes[i], ids);
            for (value_id id : ids)
                if (id != no_value) readers[static_cast<std::size_t>(id)].push_back(i);
        }
        for (value_id id : g.outputs) kept[static_cast<std::size_t>(id)] = 1;
        group_.resize(g.nodes.size());
        members_.resize(g.nodes.size());
        inputs_.resize(g.nodes.size());
        for (std::size_t i = g.nodes.size(); i-- > 0;) {
            group_[i] = i;
            const node& n = g.nodes[i];
            members_[i] = {i};
            inputs_[i] = n.inputs.size();
            if (!joins(n) || kept[static_cast<std::size_t>(n.outputs[0])]) continue;
            const std::vector<std::size_t>& by = readers[static_cast<std::size_t>(n.outputs[0])];
            if (by.empty()) continue;
            const std::size_t root = group_[by[0]];
            bool together = members_[root].size() < most_nodes && joins(g.nodes[root]) && elements(g.nodes[root]) <= elements(n);
            for (std::size_t reader : by) together = together && group_[reader] == root && joins(g.nodes[reader]) && reads_once(g.nodes[reader]);
            if (!together || inputs_[root] + n.inputs.size() > most_inputs) continue;
            group_[i] = root;
            members_[root].push_back(i);
            inputs_[root] += n.inputs.size();
        }
    }

    // Whether a kernel can be written of it: rules have limits of their own together.
    bool emits(const node& n) {
        const limits limit;
        const device_traits any;
        program unused;
        return !find_generated("Fusion", "").generate(asked_in_graph(g, n, limit).on(any, {}).query(), unused);
    }

    node fusion(std::vector<node> members) {
        auto body = std::make_shared<graph>();
        std::vector<value_id> inner(g.values.size(), no_value);
        node made;
        made.name = members.back().name;
        made.op_type = "Fusion";
        made.op = fusion_row();
        made.version = 1;
        made.on_device = true;
        made.outputs = members.back().outputs;
        const auto copy = [&](value_id id) {
            const value& v = at(id);
            value_id& to = inner[static_cast<std::size_t>(id)];
            to = body->add_value(v.name);
            value& c = body->values.back();
            c.type = v.type;
            c.has_shape = true;
            c.extents = v.extents;
            c.block = v.block;
            return to;
        };
        for (node& n : members) {
            for (value_id& id : n.inputs) {
                if (id == no_value) continue;
                const bool seen = inner[static_cast<std::size_t>(id)] != no_value;
                const value_id from = id;
                id = seen ? inner[static_cast<std::size_t>(id)] : copy(id);
                if (seen) continue;
                // What the rules read when the text is made has to be in the body; other constants are the kernel's inputs.
                if (at(from).constant && (at(from).constant.elements() <= 1 || !is_float(at(from).type)))
                    body->values[static_cast<std::size_t>(id)].constant = at(from).constant;
                else {
                    body->inputs.push_back(id);
                    made.inputs.push_back(from);
                }
            }
            for (value_id& id : n.outputs) id = copy(id);
        }
        body->outputs = members.back().outputs;
        body->nodes = std::move(members);
        attribute a;
        a.name = "body";
        a.kind = attribute_kind::graph;
        a.graph = std::move(body);
        made.attributes.push_back(std::move(a));
        return made;
    }

    graph& g;
    std::vector<std::size_t> group_, inputs_;
    std::vector<std::vector<std::size_t>> members_;  // from the last node to the first
};

}  // namespace detail
}  // namespace gpu
GRAFT_END_NAMESPACE
