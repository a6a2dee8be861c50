// Assignments to all of a tensor, as exporters write x[:, :, a:, b:] = y where both are 0.
#pragma once

#include "graph_queries.hpp"

#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Whether a ScatterND gives each element of its first input, in order, what its third one holds: then it is the third one. Its indices, one list for each
// element, are the places of all elements: constants, or ranges along each axis that are expanded and joined. The nodes that make them stand in the graph;
// shapes are known.
class whole_assignment {
public:
    /// `makers`: by value, which node of the graph makes it; -1, or too few: none.
    whole_assignment(const graph& g, const std::vector<int>& makers) : g_(g), makers_(makers) {}

    GRAFT_COLD bool is(const node& n) const {
        const attribute* reduction = n.find("reduction");
        if (!is_named(n, "ScatterND") || n.inputs.size() != 3 || (reduction && reduction->string != "none")) return false;
        const value &x = g_.at(n.inputs[0]), &places = g_.at(n.inputs[1]), &updates = g_.at(n.inputs[2]);
        if (!x.has_shape || !places.has_shape || !updates.has_shape || updates.extents != x.extents) return false;
        shape all = x.extents;
        if (all.rank() == 0 || all.rank() == shape::max_rank || all.elements() < 1) return false;
        all.push_back(all.rank());
        if (places.extents != all) return false;
        return places.constant ? lists_all(places.constant, x.extents) : joins_all(n.inputs[1], x.extents);
    }

private:
    GRAFT_COLD const node* maker(value_id id, const char* op) const {
        const auto at = static_cast<std::size_t>(id);
        const node* n = at < makers_.size() && makers_[at] >= 0 ? &g_.nodes[static_cast<std::size_t>(makers_[at])] : nullptr;
        return n && is_named(*n, op) ? n : nullptr;
    }
    // Whether every `step`th element from `first` on is the place along one axis: of `extent` elements, each `inner` times.
    GRAFT_COLD static bool counts(const tensor& t, std::int64_t first, std::int64_t step, std::int64_t extent, std::int64_t inner) {
        for (std::int64_t i = 0; first + i * step < t.elements(); ++i)
            if (element_as_int64(t.type(), t.raw(), first + i * step) != i / inner % extent) return false;
        return true;
    }
    static bool lists_all(const tensor& places, const shape& of) {
        for (int d = 0; d < of.rank(); ++d)
            if (!counts(places, d, of.rank(), of[d], of.product(d + 1, of.rank()))) return false;
        return true;
    }
    GRAFT_COLD bool joins_all(value_id places, const shape& of) const {
        const node* join = maker(places, "Concat");
        const attribute* axis = join ? join->find("axis") : nullptr;
        if (!axis || (axis->integer != -1 && axis->integer != of.rank()) || static_cast<int>(join->inputs.size()) != of.rank()) return false;
        for (int d = 0; d < of.rank(); ++d) {
            value_id id = join->inputs[static_cast<std::size_t>(d)];
            if (g_.at(id).extents.elements() != of.elements()) return false;
            if (const node* column = maker(id, "Unsqueeze")) id = column->inputs[0];
            if (const node* expand = g_.at(id).extents == of ? maker(id, "Expand") : nullptr) id = expand->inputs[0];
            const tensor& t = g_.at(id).constant;
            // What was folded has the joined axis already.
            if (!counts_along(t && t.elements() == of.elements() ? t.reshaped(of) : t, of, d)) return false;
        }
        return true;
    }
    // Whether a constant, where it is expanded to `of`, holds each element's place along an axis.
    GRAFT_COLD static bool counts_along(const tensor& t, const shape& of, int axis) {
        if (!t || t.shape().rank() > of.rank() || is_float(t.type())) return false;
        const int own = axis - of.rank() + t.shape().rank();
        if (own < 0) return of[axis] == 1 && counts(t, 0, 1, 1, 1);
        return t.shape()[own] == of[axis] && counts(t, 0, 1, of[axis], t.shape().product(own + 1, t.shape().rank()));
    }

    const graph& g_;
    const std::vector<int>& makers_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
