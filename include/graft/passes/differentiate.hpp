// Differentiation as a pass: appends the nodes of back-propagation to a graph whose shapes are known.
#pragma once

#include "../graph/gradient.hpp"

#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Appends to `g` what computes the gradient of `loss`, which holds one number, for each value of `wrt`, and returns those gradients:
/// one of the shape of its value each, or no_value where the loss does not depend on it. Reverse mode; a value that several nodes read
/// gets the sum of what comes back, in the reverse order of those nodes. What comes back through a node asks for its place, and is marked as `node::backward`.
/// Shapes have to be known
/// (`specialize`). Sums over the batch are trees over `shards`. Errors: train.no_gradient (names the node), memory.oom.
result<std::vector<value_id>> differentiate(graph& g, value_id loss, const std::vector<value_id>& wrt, int shards, const limits& limit);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../ops/gradients.hpp"
#include "graph_queries.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

class differentiator {
public:
    differentiator(graph& g, int shards, const limits& limit) : g_(g), emit_(g, ops::find_training_op, limit), shards_(shards) {}

    status run(value_id loss, const std::vector<value_id>& wrt, std::vector<value_id>& gradients) {
        const std::size_t forward = g_.nodes.size();
        std::vector<char> depends(g_.values.size(), 0);
        for (value_id id : wrt) depends[id] = 1;
        mark_dependents(g_, forward, depends);
        gradient_.assign(g_.values.size(), no_value);
        auto one = tensor::make(g_.at(loss).type, g_.at(loss).extents);
        if (!one.ok()) return one.take_status();
        if (one->elements() != 1) return fail(errc::op_shape, g_.at(loss).name, "a loss is one number; this has the shape " + text(one->shape()));
        const double seed = 1;
        store_from_double(one->type(), one->raw(), 0, 1, &seed);
        emit_.prefix = "gradient";
        gradient_[loss] = emit_.constant(std::move(one).value(), "seed");
        for (std::size_t i = forward; i-- > 0;) GRAFT_TRY(through(i, depends));
        gradients.clear();
        for (value_id id : wrt) gradients.push_back(gradient_[id]);
        return std::move(emit_.failure);
    }

private:
    status through(std::size_t i, const std::vector<char>& depends) {
        const node n = g_.nodes[i];  // a copy: the list grows
        std::vector<value_id> given, made(n.inputs.size(), no_value);
        std::vector<char> wanted;
        bool flows = false, asked = false;
        for (value_id id : n.outputs) {
            given.push_back(id == no_value ? no_value : gradient_[id]);
            flows |= given.back() != no_value;
        }
        for (value_id id : n.inputs) {
            wanted.push_back(id != no_value && depends[id] && is_float(g_.at(id).type) ? 1 : 0);
            asked |= wanted.back() != 0;
        }
        if (!flows || !asked) return {};
        const gradient_row own{n.op_type.c_str(), n.domain.c_str(), n.op ? n.op->gradient : nullptr};
        const gradient_row* row = own.gradient ? &own : ops::find_gradient(n);
        if (!row)
            return fail(errc::train_no_gradient, location(n),
                        "this operator has no gradient, and a weight that learns lies before it: freeze what lies before it");
        if (!row->gradient) return {};
        emit_.prefix = "gradient/" + (n.name.empty() ? n.op_type : n.name);
        const std::size_t before = g_.nodes.size();
        gradient_context c{emit_, n, given, wanted, made, shards_};
        GRAFT_TRY(row->gradient(c));
        GRAFT_TRY(std::move(emit_.failure));
        for (std::size_t k = 0; k < made.size(); ++k) {
            if (made[k] == no_value || !wanted[k]) continue;
            if (emit_.extents(made[k]) != emit_.extents(n.inputs[k]))
                return fail(errc::internal, location(n),
                            "its gradient for input " + std::to_string(k) + " has shape " + text(emit_.extents(made[k])) + " and not " +
                                text(emit_.extents(n.inputs[k])));
            gradient_.resize(g_.values.size(), no_value);
            value_id& sum = gradient_[n.inputs[k]];
            const value_id joined = sum == no_value ? made[k] : emit_.add(sum, made[k]);
            gradient_.resize(g_.values.size(), no_value);
            gradient_[n.inputs[k]] = joined;
        }
        for (std::size_t k = before; k < g_.nodes.size(); ++k) g_.nodes[k].place = n.place, g_.nodes[k].backward = true;
        return std::move(emit_.failure);
    }

    graph& g_;
    emitter emit_;
    int shards_;
    std::vector<value_id> gradient_;
};

}  // namespace detail

GRAFT_INLINE result<std::vector<value_id>> differentiate(graph& g, value_id loss, const std::vector<value_id>& wrt, int shards, const limits& limit) {
    std::vector<value_id> gradients;
    GRAFT_TRY(detail::differentiator(g, shards, limit).run(loss, wrt, gradients));
    return gradients;
}

GRAFT_END_NAMESPACE
#endif
