// Verification: a graph that passes is in an order in which it can run, and every node is bound to its row of the op table.
#pragma once

#include "op.hpp"

GRAFT_BEGIN_NAMESPACE

/// Checks names, makers, order, operators and attributes of a graph and of the bodies in it; sorts the nodes where they are not
/// in an order in which they can run (else the order stays), and sets `node::op`, and `node::version` where it is 0. Errors:
/// graph.duplicate, graph.dangling, graph.no_output, graph.cycle, op.unsupported, op.attribute, op.shape, model.too_deep,
/// internal.
status verify_graph(graph& g, row_table<op_table> tables, const limits& limit);

namespace detail {
// Nodes that a row of the app's own runs in place of graft's get the long name of the domain, so that no pass or kernel that knows
// the operator by its name takes them.
void set_apart(graph& g, const op_table& own);
}  // namespace detail

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/name_table.hpp"

#include <cstring>
GRAFT_BEGIN_NAMESPACE
namespace detail {

// Rows by name: those of one name are chained.
class op_rows {
public:
    explicit op_rows(row_table<op_table> tables) {
        for (const op_table& table : tables)
            for (const op_row& row : table) {
                const int head = heads_.find(row.name);
                const int here = static_cast<int>(chain_.size());
                chain_.push_back({&row, -1});
                if (head < 0)
                    heads_.insert(row.name, here);
                else {
                    // The head stays; users' tables come first, and win.
                    int last = head;
                    while (chain_[static_cast<std::size_t>(last)].next >= 0) last = chain_[static_cast<std::size_t>(last)].next;
                    chain_[static_cast<std::size_t>(last)].next = here;
                }
            }
    }
    const op_row* find(const node& n) const noexcept {
        for (int i = heads_.find(n.op_type); i >= 0; i = chain_[static_cast<std::size_t>(i)].next) {
            const op_row* row = chain_[static_cast<std::size_t>(i)].row;
            if (n.domain == row->domain && n.version >= row->since && (row->until == 0 || n.version <= row->until)) return row;
        }
        return nullptr;
    }
    bool knows(const node& n) const noexcept { return heads_.find(n.op_type) >= 0; }

private:
    struct link {
        const op_row* row;
        int next;
    };
    std::vector<link> chain_;
    name_table heads_;
};

inline const char* letters_of(attribute_kind kind) noexcept {
    constexpr const char* letters[] = {"", "f", "i", "s", "t", "g", "fs", "is", "ss"};
    return letters[static_cast<int>(kind)];
}

// The kind letters that a row's list gives an attribute, or null; `size` is how many.
inline const char* listed_kind(const char* list, const std::string& name, std::size_t& size) noexcept {
    while (list && *list) {
        while (*list == ' ') ++list;
        const char* end = list;
        while (*end && *end != ' ') ++end;
        const char* colon = list;
        while (colon != end && *colon != ':') ++colon;
        if (static_cast<std::size_t>(colon - list) == name.size() && std::memcmp(list, name.data(), name.size()) == 0 && colon != end) {
            size = static_cast<std::size_t>(end - colon - 1);
            return colon + 1;
        }
        list = end;
    }
    return nullptr;
}

class verifier {
public:
    verifier(graph& root, row_table<op_table> tables, const limits& limit) : root_(root), rows_(tables), limit_(limit) {}
    status run(graph& g, int depth);

private:
    status check_values(const graph& g, std::vector<int>& maker);
    status check_ids(const graph& g);
    status bind(node& n);
    status check_attributes(const node& n);
    status sort(graph& g, const std::vector<int>& maker);
    static GRAFT_COLD status failure(errc code, const node& n, const std::string& detail) { return fail(code, location(n), detail); }
    status unsupported(const node& n) const;

    graph& root_;
    op_rows rows_;
    const limits& limit_;
};

inline GRAFT_COLD status verifier::unsupported(const node& n) const {
    const std::string domain = n.domain.empty() ? "ai.onnx" : n.domain;
    if (n.version == 0) return failure(errc::op_unsupported, n, "the model does not import the operator set '" + domain + "'");
    return failure(errc::op_unsupported, n,
                   "operator " + n.op_type + " of " + domain + " version " + std::to_string(n.version) +
                       (rows_.knows(n) ? " is not supported in this version" : " is not supported"));
}

inline status verifier::check_attributes(const node& n) {
    for (std::size_t i = 0; i < n.attributes.size(); ++i) {
        const attribute& a = n.attributes[i];
        for (std::size_t k = 0; k < i; ++k)
            if (n.attributes[k].name == a.name) return failure(errc::op_attribute, n, "attribute '" + escape(a.name) + "' is given twice");
        std::size_t size = 0;
        const char* kind = listed_kind(n.op->attributes, a.name, size);
        if (!kind) return failure(errc::op_attribute, n, "attribute '" + escape(a.name) + "' is not known");
        const char* is = letters_of(a.kind);
        if (size != std::strlen(is) || std::memcmp(kind, is, size) != 0)
            return failure(errc::op_attribute, n, "attribute '" + escape(a.name) + "' is of kind '" + is + "', not '" + std::string(kind, size) + "'");
    }
    return {};
}

inline GRAFT_COLD status verifier::bind(node& n) {
    if (n.domain == "ai.onnx") n.domain.clear();
    if (n.version == 0) n.version = n.domain == "graft" ? 1 : root_.version_of(n.domain);
    n.op = rows_.find(n);
    if (!n.op) return unsupported(n);
    if (!n.op->infer || !n.op->run)
        return failure(errc::op_unsupported, n, "operator " + n.op_type + " is not compiled into this program: GRAFT_OPS leaves it out");
    const auto inputs = static_cast<long>(n.inputs.size()), outputs = static_cast<long>(n.outputs.size());
    if (inputs < n.op->min_inputs || (n.op->max_inputs >= 0 && inputs > n.op->max_inputs))
        return failure(errc::op_shape, n,
                       "it has " + std::to_string(inputs) + " inputs; the operator takes " + std::to_string(n.op->min_inputs) +
                           (n.op->max_inputs < 0 ? " or more" : " to " + std::to_string(n.op->max_inputs)));
    if (outputs < n.op->min_outputs || (n.op->max_outputs >= 0 && outputs > n.op->max_outputs))
        return failure(errc::op_shape, n,
                       "it has " + std::to_string(outputs) + " outputs; the operator makes " + std::to_string(n.op->min_outputs) +
                           (n.op->max_outputs < 0 ? " or more" : " to " + std::to_string(n.op->max_outputs)));
    for (int i = n.op->is(op_flag::first_optional) ? 1 : 0; i < n.op->min_inputs; ++i)
        if (n.inputs[static_cast<std::size_t>(i)] == no_value)
            return failure(errc::op_shape, n, "input " + std::to_string(i) + " is left out, but the operator needs it");
    return check_attributes(n);
}

// Ids come from code as well as from files: none may point outside.
inline status verifier::check_ids(const graph& g) {
    const auto size = static_cast<value_id>(g.values.size());
    bool fine = true;
    for (const value_id id : g.inputs) fine &= id >= 0 && id < size;
    for (const value_id id : g.outputs) fine &= id >= 0 && id < size;
    for (const capture& c : g.captures) fine &= c.inner >= 0 && c.inner < size && c.outer >= 0;
    for (const node& n : g.nodes) {
        for (const value_id id : n.inputs) fine &= id >= no_value && id < size;
        for (const value_id id : n.outputs) fine &= id >= no_value && id < size;
    }
    return fine ? status() : fail(errc::internal, "graph '" + g.name + "'", "a value id is out of range");
}

inline GRAFT_COLD status duplicate(const graph& g, value_id id, const char* what) { return fail(errc::graph_duplicate, "value '" + g.at(id).name + "'", what); }

inline status verifier::check_values(const graph& g, std::vector<int>& maker) {
    constexpr int nobody = -1, given = -2;
    maker.assign(g.values.size(), nobody);
    name_table names;
    for (std::size_t i = 0; i < g.values.size(); ++i) {
        if (g.values[i].constant) maker[i] = given;
        if (!g.values[i].name.empty() && !names.insert(g.values[i].name, 0)) return duplicate(g, static_cast<value_id>(i), "two values have this name");
    }
    std::vector<char> input(g.values.size(), 0);
    for (const value_id id : g.inputs) {
        if (input[id]++) return duplicate(g, id, "it is an input twice");
        maker[id] = given;
    }
    for (const capture& c : g.captures) {
        if (maker[c.inner] != nobody) return duplicate(g, c.inner, "it is captured and made as well");
        maker[c.inner] = given;
    }
    for (std::size_t i = 0; i < g.nodes.size(); ++i)
        for (const value_id id : g.nodes[i].outputs) {
            if (id == no_value) continue;
            if (maker[id] != nobody) return duplicate(g, id, "it is made twice");
            maker[id] = static_cast<int>(i);
        }
    for (const node& n : g.nodes) {
        for (const value_id id : n.inputs)
            if (id != no_value && maker[id] == nobody) return failure(errc::graph_dangling, n, "input '" + escape(g.at(id).name) + "' is made nowhere");
        for (const attribute& a : n.attributes)
            if (a.graph)
                for (const capture& c : a.graph->captures)
                    if (c.outer < 0 || static_cast<std::size_t>(c.outer) >= g.values.size() || maker[c.outer] == nobody)
                        return failure(errc::graph_dangling, n, "its body reads a value that is made nowhere");
    }
    for (const value_id id : g.outputs)
        if (maker[id] == nobody) return fail(errc::graph_no_output, "output '" + g.at(id).name + "'", "no node makes it");
    return {};
}

// Makers of what a node reads, itself or by its bodies, one after the other.
struct reads_of {
    const node* n;
    std::size_t input = 0, attribute = 0, capture = 0;
    value_id next() noexcept {
        while (input < n->inputs.size())
            if (n->inputs[input++] != no_value) return n->inputs[input - 1];
        for (; attribute < n->attributes.size(); ++attribute, capture = 0) {
            const graph* body = n->attributes[attribute].graph.get();
            if (body && capture < body->captures.size()) return body->captures[capture++].outer;
        }
        return no_value;
    }
};

// Depth first, in the order given: a node goes behind what it needs, and stays where it is if that is there already.
inline status verifier::sort(graph& g, const std::vector<int>& maker) {
    enum : char { waiting, open, done };
    std::vector<char> state(g.nodes.size(), waiting);
    std::vector<int> order;
    order.reserve(g.nodes.size());
    struct frame {
        int node;
        reads_of reads;
    };
    std::vector<frame> stack;
    for (std::size_t start = 0; start < g.nodes.size(); ++start) {
        if (state[start] != waiting) continue;
        state[start] = open;
        stack.push_back({static_cast<int>(start), {&g.nodes[start]}});
        while (!stack.empty()) {
            const value_id id = stack.back().reads.next();
            if (id == no_value) {
                state[static_cast<std::size_t>(stack.back().node)] = done;
                order.push_back(stack.back().node);
                stack.pop_back();
                continue;
            }
            const int needed = maker[id];
            if (needed < 0 || state[static_cast<std::size_t>(needed)] == done) continue;
            const node& n = g.nodes[static_cast<std::size_t>(needed)];
            if (state[static_cast<std::size_t>(needed)] == open)
                return failure(errc::graph_cycle, n, "it needs its own output '" + escape(g.at(id).name) + "'");
            state[static_cast<std::size_t>(needed)] = open;
            stack.push_back({needed, {&n}});
        }
    }
    bool sorted = true;
    for (std::size_t i = 0; i < order.size(); ++i) sorted &= order[i] == static_cast<int>(i);
    if (sorted) return {};
    std::vector<node> nodes;
    nodes.reserve(order.size());
    for (const int i : order) nodes.push_back(std::move(g.nodes[static_cast<std::size_t>(i)]));
    g.nodes = std::move(nodes);
    return {};
}

inline GRAFT_COLD status verifier::run(graph& g, int depth) {
    if (depth >= limit_.nesting) return fail(errc::model_too_deep, "graph '" + g.name + "'", "graphs nest deeper than " + std::to_string(limit_.nesting));
    std::vector<int> maker;
    GRAFT_TRY(check_ids(g));
    GRAFT_TRY(check_values(g, maker));
    for (node& n : g.nodes) GRAFT_TRY(bind(n));
    GRAFT_TRY(sort(g, maker));
    for (node& n : g.nodes)
        for (attribute& a : n.attributes) {
            if (a.kind != attribute_kind::graph) continue;
            if (!a.graph) return failure(errc::op_attribute, n, "attribute '" + escape(a.name) + "' has no graph");
            status body = run(*a.graph, depth + 1);
            if (!body.ok()) return fail(body.error().code(), body.error().where() + " in the body of " + location(n), body.error().detail());
        }
    return {};
}

GRAFT_INLINE void set_apart(graph& g, const op_table& own) {
    for (node& n : g.nodes) {
        if (n.domain.empty() && n.op >= own.begin() && n.op < own.end()) n.domain = "ai.onnx";
        for (attribute& a : n.attributes)
            if (a.graph) {
                auto body = std::make_shared<graph>(*a.graph);
                set_apart(*body, own);
                a.graph = std::move(body);
            }
    }
}

}  // namespace detail

GRAFT_INLINE status verify_graph(graph& g, row_table<op_table> tables, const limits& limit) GRAFT_MEMORY_TRY {
    detail::verifier v(g, tables, limit);
    return v.run(g, 0);
}
GRAFT_MEMORY_CATCH("verify_graph")

GRAFT_END_NAMESPACE
#endif
