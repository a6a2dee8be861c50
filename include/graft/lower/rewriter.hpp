// What rewriting passes share: who makes and who reads a value, kept up to date through every change; constants, attributes.
#pragma once

#include "../graph/captures.hpp"
#include "../graph/op.hpp"
#include "../ops/ops.hpp"
#include "backend.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// A graph under change: the nodes of one place are rewritten, and the reads of all are counted. Who makes and who reads a value is known at any
// time: nodes are changed by `edit` and `drop`, which keep that exact, and new ones are put in by `insert_before` and `insert_behind`. Dropped
// nodes have no `op_type`; `finish` takes them out, and the new ones in.
class rewriter {
public:
    explicit rewriter(graph& target, place_id on = 0) : g(target), on_(on) { index(); }

    // Looks at the whole graph anew: after its list of nodes was changed.
    GRAFT_COLD void index() {
        maker_.assign(g.values.size(), -1);
        uses_.assign(g.values.size(), 0);
        readers_.clear();
        for (std::size_t i = 0; i < g.nodes.size(); ++i)
            if (!g.nodes[i].op_type.empty()) link(g.nodes[i]);
        // An output of the graph is read by the caller, so it cannot vanish into a fused node.
        for (value_id id : g.outputs) uses_[id] += 2;
    }

    // Changes one node of the graph, or a few together, which may exchange what they make.
    template <class Change>
    GRAFT_COLD void edit(node& n, Change change) {
        unlink(n);
        change();
        link(n);
    }
    template <class Change>
    GRAFT_COLD void edit(std::initializer_list<node*> nodes, Change change) {
        for (node* n : nodes) unlink(*n);
        change();
        for (node* n : nodes) link(*n);
    }
    GRAFT_COLD void drop(node& n) {
        unlink(n);
        n.op_type.clear();
    }
    // What a pass does with nodes of an operator.
    template <class Pass>
    struct rewrite {
        const char* op;
        const char* domain;
        void (Pass::*rewrites)(node&);
    };
    // Goes through the nodes in order: each row that its operator has is applied, until it has another one or is gone.
    template <class Pass, std::size_t N>
    void sweep(Pass& pass, const rewrite<Pass> (&rows)[N]) {
        for (node& n : g.nodes)
            for (const rewrite<Pass>& row : rows)
                if (is(n, row.op, row.domain)) (pass.*row.rewrites)(n);
        finish();
    }
    // Puts a node into a place that a dropped one has left.
    void put(node& dropped, node n) {
        dropped = std::move(n);
        link(dropped);
    }
    // The node takes the place of one that reads its first output and has one output: it makes what that one made.
    GRAFT_COLD void replace(node& reader, node& by) {
        const value_id y = reader.outputs[0];
        drop(reader);
        edit(by, [&] { by.outputs[0] = y; });
    }
    // New nodes are in the graph when `finish` has been called.
    void insert_before(const node& n, node added) { insert(place_of(n), std::move(added)); }
    void insert_behind(const node& n, node added) { insert(place_of(n) + 1, std::move(added)); }

    value& at(value_id id) { return g.at(id); }
    node* maker(value_id id) { return position(id) < 0 ? nullptr : &g.nodes[position(id)]; }
    // Index of the node that makes the value; -1 for inputs and constants.
    int position(value_id id) const { return id == no_value || static_cast<std::size_t>(id) >= maker_.size() ? -1 : maker_[id]; }
    // By one node, and not by the caller.
    bool used_once(value_id id) const { return static_cast<std::size_t>(id) < uses_.size() && uses_[id] == 1; }
    // By the caller, who wants it by its name.
    bool is_output(value_id id) const { return std::find(g.outputs.begin(), g.outputs.end(), id) != g.outputs.end(); }
    bool used_at_all(value_id id) const { return static_cast<std::size_t>(id) < uses_.size() && uses_[id] > 0; }
    // The nodes that read the value, in order.
    GRAFT_COLD const std::vector<int>& readers(value_id id) {
        if (readers_.empty()) {
            readers_.resize(g.values.size());
            for (std::size_t i = 0; i < g.nodes.size(); ++i) note_reader(g.nodes[i]);
        }
        readers_.resize(g.values.size());
        // Those that read it no more are taken out when somebody asks.
        std::vector<int>& found = readers_[id];
        std::sort(found.begin(), found.end());
        found.erase(std::unique(found.begin(), found.end()), found.end());
        found.erase(std::remove_if(found.begin(), found.end(), [&](int i) { return !is_read_by(g.nodes[static_cast<std::size_t>(i)], id); }), found.end());
        return found;
    }
    // The node here that alone reads the value, which the caller does not; null where there is none.
    GRAFT_COLD node* only_reader(value_id id) {
        if (!used_once(id)) return nullptr;
        const std::vector<int>& all = readers(id);
        node* const n = all.size() == 1 ? &g.nodes[static_cast<std::size_t>(all[0])] : nullptr;
        return n && here(*n) ? n : nullptr;
    }
    // Whether it is at the place whose nodes are rewritten.
    bool here(const node& n) const { return n.place == on_; }
    bool is(const node& n, const char* op, const char* domain = "") const { return here(n) && n.op_type == op && n.domain == domain; }
    // What its row tells of a node here; nothing of others.
    const op_row& row(const node& n) const {
        static constexpr op_row none = make_op("");
        return here(n) ? ops::row_of(n) : none;
    }
    // Whether it is a Transpose of a matrix that turns it.
    bool turns_matrix(const node& n) {
        const attribute* const perm = n.find("perm");
        return is(n, "Transpose") && at(n.outputs[0]).extents.rank() == 2 && (!perm || (perm->integers.size() == 2 && perm->integers[0] == 1));
    }
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
    GRAFT_COLD value_id like(value_id id, const char* suffix) {
        const value source = at(id);
        const value_id made = g.add_value(source.name + suffix);
        at(made).type = source.type;
        at(made).has_shape = source.has_shape;
        at(made).extents = source.extents;
        return made;
    }
    // Makes a node another operator, here; attributes stay.
    GRAFT_COLD void become(node& n, const char* op, const char* domain) const {
        n.place = on_;
        n.op_type = op;
        n.domain = domain;
        n.op = ops::find_op(domain, op, newest_opset);
        n.version = newest_opset;
    }
    GRAFT_COLD static void set(node& n, const char* name, std::int64_t v) {
        attribute& a = attribute_of(n, name);
        a.kind = attribute_kind::integer;
        a.integer = v;
    }
    GRAFT_COLD static void set(node& n, const char* name, float v) {
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
    GRAFT_COLD void finish() {
        std::sort(order_.begin(), order_.end());
        std::vector<node> kept;
        auto next = order_.begin();
        for (std::size_t i = 0; i <= g.nodes.size(); ++i) {
            for (; next != order_.end() && next->first == i; ++next) kept.push_back(std::move(inserted_[next->second]));
            if (i < g.nodes.size() && !g.nodes[i].op_type.empty()) kept.push_back(std::move(g.nodes[i]));
        }
        inserted_.clear();
        order_.clear();
        g.nodes = std::move(kept);
        index();
    }

    graph& g;

protected:
    const place_id on_;

private:
    GRAFT_COLD void insert(std::size_t before, node added) {
        order_.emplace_back(before, inserted_.size());
        inserted_.push_back(std::move(added));
    }
    GRAFT_COLD static attribute& attribute_of(node& n, const char* name) {
        for (attribute& a : n.attributes)
            if (a.name == name) return a;
        n.attributes.emplace_back();
        n.attributes.back().name = name;
        return n.attributes.back();
    }

    std::size_t place_of(const node& n) const { return static_cast<std::size_t>(&n - g.nodes.data()); }
    // What a node reads, bodies among it.
    const std::vector<value_id>& inputs_of(const node& n) {
        ids_ = n.inputs;
        append_captures(n, ids_);
        return ids_;
    }
    bool is_read_by(const node& n, value_id id) {
        const std::vector<value_id>& ids = inputs_of(n);
        return !n.op_type.empty() && std::find(ids.begin(), ids.end(), id) != ids.end();
    }
    GRAFT_COLD void link(const node& n) {
        maker_.resize(g.values.size(), -1);
        uses_.resize(g.values.size(), 0);
        for (value_id id : n.outputs)
            if (id != no_value) maker_[id] = static_cast<int>(place_of(n));
        for (value_id id : inputs_of(n))
            if (id != no_value) ++uses_[id];
        if (!readers_.empty()) note_reader(n);
    }
    GRAFT_COLD void unlink(const node& n) {
        for (value_id id : n.outputs)
            if (position(id) == static_cast<int>(place_of(n))) maker_[id] = -1;
        for (value_id id : inputs_of(n))
            if (id != no_value) --uses_[id];
    }
    GRAFT_COLD void note_reader(const node& n) {
        readers_.resize(g.values.size());
        for (value_id id : inputs_of(n))
            if (id != no_value) readers_[id].push_back(static_cast<int>(place_of(n)));
    }

    std::vector<int> maker_, uses_;          // by value
    std::vector<std::vector<int>> readers_;  // by value; empty until somebody asks
    std::vector<node> inserted_;
    std::vector<std::pair<std::size_t, std::size_t>> order_;  // of each that is inserted: the node that it goes before, and its own number
    std::vector<value_id> ids_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
