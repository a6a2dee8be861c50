// Gradients: functions that build, for one node, the nodes of back-propagation through it.
#pragma once

#include "../core/shards.hpp"
#include "emitter.hpp"

#include <vector>

GRAFT_BEGIN_NAMESPACE

/// What the gradient of an operator is given: the node, the gradients of its outputs, and where to build. Every shape is known.
struct gradient_context {
    emitter& build;
    const node& n;                       ///< the forward node; stays valid while nodes are emitted
    const std::vector<value_id>& given;  ///< gradient of each output; no_value: nothing flows from there
    const std::vector<char>& wanted;     ///< whether the gradient of each input is asked for
    std::vector<value_id>& made;         ///< answers, one an input; no_value stands for zero
    int shards;                          ///< of sums over the batch: the attribute of operators that make them

    /// Input i, or no_value where it was left out.
    value_id in(int i) const noexcept { return i < static_cast<int>(n.inputs.size()) ? n.inputs[static_cast<std::size_t>(i)] : no_value; }
    value_id out(int i = 0) const noexcept { return n.outputs[static_cast<std::size_t>(i)]; }
    /// Output i of the forward node, which is asked to make it where nobody has yet.
    value_id also(int i);
    /// Gradient of output i; no_value where nothing flows from it.
    value_id dy(int i = 0) const noexcept { return given[static_cast<std::size_t>(i)]; }
    bool wants(int i) const noexcept { return i < static_cast<int>(wanted.size()) && wanted[static_cast<std::size_t>(i)] != 0; }
    void give(int i, value_id gradient) { made[static_cast<std::size_t>(i)] = gradient; }
    /// Gives the gradient of a broadcast input: sums it down to the input's shape.
    void give_summed(int i, value_id gradient) { give(i, sum_to(gradient, build.extents(in(i)))); }

    /// x summed over the axes along which `to` was broadcast (numpy's rules), by the tree of shards where the batch is among them.
    value_id sum_to(value_id x, const shape& to) {
        if (!build.failure.ok() || x == no_value || build.extents(x) == to) return x;
        return build.apply_graft("SumTo", {x},
                                 {integers_attribute("shape", std::vector<std::int64_t>(to.begin(), to.end())), integer_attribute("shards", shards)});
    }
    shape extents(value_id id) const { return build.extents(id); }
    /// Contents of a constant input of integers, such as axes; false where they are not known.
    bool constant_integers(int i, std::vector<std::int64_t>& values) const;

    std::int64_t integer(const char* name, std::int64_t otherwise) const noexcept {
        const attribute* a = n.find(name);
        return a ? a->integer : otherwise;
    }
    float real(const char* name, float otherwise) const noexcept {
        const attribute* a = n.find(name);
        return a ? a->real : otherwise;
    }
    /// The attribute of that name as the node has it, for an operator that takes the same; nothing where it is left out.
    void copy_attribute(const char* name, std::vector<attribute>& to) const {
        if (const attribute* a = n.find(name)) to.push_back(*a);
    }
    /// Refuses: train.no_gradient at this node.
    status refuse(const char* why) const;
};

/// Whether a gradient may flow from what a node makes to its input i.
using flow_rule = bool (*)(const node& n, std::size_t i);

/// The gradient of an operator; null `gradient`: nothing ever flows through it (Shape, Floor, comparisons).
struct gradient_row {
    const char* name;
    const char* domain;
    gradient_function gradient;
    flow_rule flows = nullptr;  ///< where nothing flows to some inputs, such as numbers that decide a shape; null: to all of them
};

/// A run of gradient rows.
using gradient_table = row_table<gradient_row>;

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE status gradient_context::refuse(const char* why) const { return fail(errc::train_no_gradient, location(n), why); }

GRAFT_INLINE value_id gradient_context::also(int i) {
    graph& g = build.target();
    const std::size_t at = static_cast<std::size_t>(i);
    node* forward = nullptr;
    for (node& each : g.nodes)
        if (!each.outputs.empty() && each.outputs[0] == n.outputs[0]) forward = &each;
    if (!forward || !build.failure.ok()) return no_value;
    if (at < forward->outputs.size() && forward->outputs[at] != no_value) return forward->outputs[at];
    std::vector<tensor_view> in, out(at + 1);
    for (value_id id : forward->inputs) {
        const value* v = id == no_value ? nullptr : &g.at(id);
        in.push_back(!v ? tensor_view{} : v->constant ? view(v->constant) : tensor_view{v->type, v->extents, nullptr});
    }
    if (forward->outputs.size() <= at) forward->outputs.resize(at + 1, no_value);
    const value_id more = g.add_value(g.at(n.outputs[0]).name + "." + std::to_string(i));
    forward->outputs[at] = more;
    infer_context inferred{{*forward, in.data(), static_cast<int>(in.size()), out.data(), i + 1, build.limit()}};
    if (status s = forward->op->infer(inferred); !s.ok()) return build.mistake(std::move(s)), no_value;
    value& v = g.at(more);
    v.type = out[at].type;
    v.extents = out[at].extents;
    v.has_shape = true;
    return more;
}

GRAFT_INLINE bool gradient_context::constant_integers(int i, std::vector<std::int64_t>& values) const {
    values.clear();
    if (in(i) == no_value) return false;
    const tensor& t = build.target().at(in(i)).constant;
    if (!t) return build.extents(in(i)).elements() == 0 && build.extents(in(i)).rank() > 0;
    for (std::int64_t k = 0; k < t.elements(); ++k) values.push_back(element_as_int64(t.type(), t.raw(), k));
    return true;
}

GRAFT_END_NAMESPACE
#endif
