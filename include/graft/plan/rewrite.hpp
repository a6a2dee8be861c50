// What rewriting passes share: who makes and who reads a value, constants, attributes.
#pragma once

#include "../graph/captures.hpp"
#include "../graph/op.hpp"
#include "../ops/ops.hpp"
#include "backend.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// A graph under change. Nodes are dropped by clearing their `op_type`; `finish` takes them out.
class rewriter {
public:
    explicit rewriter(graph& target) : g(target) { index(); }

    // Rebuilds the tables: after nodes were added or their edges changed.
    void index() {
        maker_.assign(g.values.size(), -1);
        uses_.assign(g.values.size(), 0);
        std::vector<value_id> ids;
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            if (g.nodes[i].op_type.empty()) continue;
            for (value_id id : g.nodes[i].outputs)
                if (id != no_value) maker_[static_cast<std::size_t>(id)] = static_cast<int>(i);
            ids = g.nodes[i].inputs;
            append_captures(g.nodes[i], ids);
            for (value_id id : ids)
                if (id != no_value) ++uses_[static_cast<std::size_t>(id)];
        }
        // An output of the graph is read by the caller, so it cannot vanish into a fused node.
        for (value_id id : g.outputs) uses_[static_cast<std::size_t>(id)] += 2;
    }

    value& at(value_id id) { return g.values[static_cast<std::size_t>(id)]; }
    node* maker(value_id id) { return position(id) < 0 ? nullptr : &g.nodes[static_cast<std::size_t>(position(id))]; }
    // Index of the node that makes the value; -1 for inputs and constants.
    int position(value_id id) const { return id == no_value || static_cast<std::size_t>(id) >= maker_.size() ? -1 : maker_[static_cast<std::size_t>(id)]; }
    bool used_once(value_id id) const { return uses_[static_cast<std::size_t>(id)] == 1; }
    static bool is(const node& n, const char* op, const char* domain = "") { return n.op_type == op && n.domain == domain; }
    bool is_float32(value_id id) { return id != no_value && at(id).type == dtype::float32; }
    bool is_constant(value_id id) { return id != no_value && static_cast<bool>(at(id).constant); }
    // The one element of a float constant.
    bool scalar(value_id id, float& out) {
        if (!is_constant(id) || at(id).constant.elements() != 1 || !is_float(at(id).type)) return false;
        out = static_cast<float>(element_as_double(at(id).type, at(id).constant.raw(), 0));
        return true;
    }
    bool is_scalar(value_id id, double wanted_value) {
        float v = 0;
        return scalar(id, v) && std::fabs(static_cast<double>(v) - wanted_value) <= 1e-6 * std::fabs(wanted_value);
    }
    // A new value with the type and shape of another.
    value_id like(value_id id, const char* suffix) {
        const value source = at(id);
        const value_id made = g.add_value(source.name + suffix);
        at(made).type = source.type;
        at(made).has_shape = source.has_shape;
        at(made).extents = source.extents;
        return made;
    }
    static void drop(node& n) { n.op_type.clear(); }
    // Makes a node another operator; attributes stay.
    static void become(node& n, const char* op, const char* domain) {
        n.op_type = op;
        n.domain = domain;
        n.op = ops::find_op(domain, op, newest_opset);
        n.version = newest_opset;
    }
    static void set(node& n, const char* name, std::int64_t v) {
        attribute& a = attribute_of(n, name);
        a.kind = attribute_kind::integer;
        a.integer = v;
    }
    static void set(node& n, const char* name, float v) {
        attribute& a = attribute_of(n, name);
        a.kind = attribute_kind::real;
        a.real = v;
    }
    static std::int64_t integer(const node& n, const char* name, std::int64_t otherwise) {
        const attribute* a = n.find(name);
        return a ? a->integer : otherwise;
    }
    static float real(const node& n, const char* name, float otherwise) {
        const attribute* a = n.find(name);
        return a ? a->real : otherwise;
    }
    // Takes dropped nodes out.
    void finish() {
        std::vector<node> kept;
        for (node& n : g.nodes)
            if (!n.op_type.empty()) kept.push_back(std::move(n));
        g.nodes = std::move(kept);
        index();
    }

    graph& g;

private:
    static attribute& attribute_of(node& n, const char* name) {
        for (attribute& a : n.attributes)
            if (a.name == name) return a;
        n.attributes.emplace_back();
        n.attributes.back().name = name;
        return n.attributes.back();
    }
    std::vector<int> maker_, uses_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
