// Parts of a value that movements of elements make without a copy, as a kernel can read them: by steps through memory.
#pragma once

#include "../../lower/rewriter.hpp"
#include "../ops/attention.hpp"

#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

/// A part of a value, as steps through the value's memory: what movements of elements make of it, without a copy.
struct strided_view {
    value_id base = no_value;
    std::int64_t first = 0;
    shape extents, steps;
    double scale = 1;  ///< of products with one number on the way
};

inline shape packed_steps(const shape& extents) {
    shape steps = extents;
    std::int64_t step = 1;
    for (int d = extents.rank(); d-- > 0; step *= extents[d]) steps[d] = step;
    return steps;
}

// The view in other extents, where its elements stay in their order; false where that takes a copy.
inline bool reshape_view(strided_view& v, const shape& to) {
    shape steps = packed_steps(to);
    int from = 0, at = 0;
    while (from < v.extents.rank() || at < to.rank()) {
        // As few axes of each side as hold the same number of elements.
        int from_end = from, at_end = at;
        std::int64_t have = 1, want = 1;
        if (from_end < v.extents.rank()) have = v.extents[from_end++];
        if (at_end < to.rank()) want = to[at_end++];
        while (have != want)
            if (have < want && from_end < v.extents.rank())
                have *= v.extents[from_end++];
            else if (have > want && at_end < to.rank())
                want *= to[at_end++];
            else
                return false;
        std::int64_t step = 0;  // of the innermost axis that is longer than 1
        std::int64_t next = 0;
        for (int d = from_end; d-- > from;) {
            if (v.extents[d] == 1) continue;
            if (step && v.steps[d] != next) return false;
            if (!step) step = v.steps[d];
            next = v.steps[d] * v.extents[d];
        }
        if (!step) step = 1;
        for (int d = at_end; d-- > at; step *= to[d]) steps[d] = step;
        from = from_end, at = at_end;
    }
    v.extents = to;
    v.steps = steps;
    return true;
}

/// Finds where a value can be read from before it is moved.
class view_finder : public graft::detail::rewriter {
public:
    using rewriter::rewriter;

protected:
    static bool is_half(dtype t) { return t == dtype::float16 || t == dtype::bfloat16; }
    // Of a type that kernels read as a half.
    bool is_value(value_id id) { return is_half(at(id).type) || at(id).type == dtype::float32; }
    // The number that Mul or Div multiplies the other operand with.
    bool scales(const node& n, value_id& other, double& by) {
        const bool div = is(n, "Div");
        if ((!div && !is(n, "Mul")) || n.inputs.size() != 2) return false;
        for (std::size_t side = 0; side < (div ? 1u : 2u); ++side) {
            const value_id factor = n.inputs[1 - side];
            float number = 0;
            if (!scalar(factor, number) || at(n.inputs[side]).extents != at(n.outputs[0]).extents || (div && number == 0)) continue;
            other = n.inputs[side];
            by = div ? 1 / static_cast<double>(number) : static_cast<double>(number);
            return std::isfinite(by);
        }
        return false;
    }

    // An operand as [batch, heads, ...]: part of the earliest value that it can be read from without a copy. Its heads have to lie element
    // by element along the axis `along`, and all else in steps of 16 bytes.
    bool view_of(value_id id, int along, strided_view& made) {
        std::vector<std::pair<const node*, value_id>> path;  // each node with the output that is followed
        for (value_id now = id; path.size() < 16;) {
            const node* n = maker(now);
            value_id other = no_value;
            double by = 1;
            if (!n || !here(*n) || n->inputs.empty() || n->inputs[0] == no_value) break;
            const bool scaled = scales(*n, other, by);
            if (!scaled && !moves(*n)) break;
            path.emplace_back(n, now);
            now = scaled ? other : n->inputs[0];
        }
        for (std::size_t from = path.size() + 1; from-- > 0;) {
            strided_view v;
            value_id other = from ? path[from - 1].first->inputs[0] : id;
            double by = 1;
            if (from) scales(*path[from - 1].first, other, by);
            v.base = other;
            if (at(v.base).constant || !is_value(v.base)) continue;
            v.extents = at(v.base).extents;
            v.steps = packed_steps(v.extents);
            bool all = v.extents.elements() > 0;
            for (std::size_t i = from; i-- > 0 && all;) all = move(*path[i].first, path[i].second, v);
            if (all && four_axes(v) && reads_packs(v, along)) {
                made = v;
                return true;
            }
        }
        return false;
    }
    static bool four_axes(strided_view& v) {
        if (v.extents.rank() < 2 || v.extents.rank() > 4) return false;
        // The one axis before matrices is the batch.
        for (; v.extents.rank() < 4; v.extents.insert(v.extents.rank() - 2, 1)) v.steps.insert(v.steps.rank() - 2, 1);
        return true;
    }

private:
    static bool reads_packs(const strided_view& v, int along) {
        for (int d = 0; d < 4; ++d)
            if (d == along ? v.steps[d] != 1 : v.extents[d] > 1 && v.steps[d] % attention_pack != 0) return false;
        return v.first % attention_pack == 0;
    }
    using mover = bool (view_finder::*)(const node&, value_id, strided_view&);
    // What tells the view that a node's output is; null where no view is known of its operator.
    static mover mover_of(const node& n) {
        static constexpr struct {
            const char* op;
            mover moves;
        } known[] = {{"Transpose", &view_finder::transpose}, {"Split", &view_finder::split}, {"Gather", &view_finder::gather}, {"Slice", &view_finder::slice}};
        if (ops::row_of(n).traits.moves == motion::same) return &view_finder::reshape;
        for (const auto& row : known)
            if (n.op_type == row.op && n.domain.empty()) return row.moves;
        return nullptr;
    }
    bool moves(const node& n) { return is_value(n.inputs[0]) && mover_of(n); }
    // The view behind a node.
    bool move(const node& n, value_id y, strided_view& v) {
        value_id other = no_value;
        double by = 1;
        if (scales(n, other, by)) return v.scale *= by, true;
        return (this->*mover_of(n))(n, y, v);
    }
    bool reshape(const node&, value_id y, strided_view& v) { return is_value(y) && reshape_view(v, at(y).extents); }
    bool transpose(const node& n, value_id, strided_view& v) {
        const strided_view from = v;
        const attribute* perm = n.find("perm");
        const int rank = from.extents.rank();
        if (perm && static_cast<int>(perm->integers.size()) != rank) return false;
        for (int d = 0; d < rank; ++d) {
            const int source = perm ? static_cast<int>(perm->integers[static_cast<std::size_t>(d)]) : rank - 1 - d;
            if (source < 0 || source >= rank) return false;
            v.extents[d] = from.extents[source];
            v.steps[d] = from.steps[source];
        }
        return true;
    }
    static int axis_of(const node& n, int rank) {
        const std::int64_t axis = integer(n, "axis", 0);
        return axis < -rank || axis >= rank ? -1 : static_cast<int>(axis < 0 ? axis + rank : axis);
    }
    bool split(const node& n, value_id y, strided_view& v) {
        const int axis = axis_of(n, v.extents.rank());
        if (axis < 0) return false;
        for (value_id id : n.outputs) {
            if (id == y) break;
            if (id == no_value) return false;
            v.first += at(id).extents[axis] * v.steps[axis];
        }
        v.extents[axis] = at(y).extents[axis];
        return true;
    }
    bool gather(const node& n, value_id, strided_view& v) {
        const int axis = axis_of(n, v.extents.rank());
        if (axis < 0 || !is_constant(n.inputs[1]) || at(n.inputs[1]).constant.elements() != 1 || at(n.inputs[1]).extents.rank() > 1) return false;
        std::int64_t index = element_as_int64(at(n.inputs[1]).type, at(n.inputs[1]).constant.raw(), 0);
        if (index < 0) index += v.extents[axis];
        if (index < 0 || index >= v.extents[axis]) return false;
        v.first += index * v.steps[axis];
        v.extents[axis] = 1;
        if (at(n.inputs[1]).extents.rank()) return true;
        v.extents.erase(axis);
        v.steps.erase(axis);
        return true;
    }
    // Of a slice in steps of 1 along one axis the place is told by where it begins.
    bool slice(const node& n, value_id y, strided_view& v) {
        if (n.version < 10 || n.inputs.size() < 4) return false;
        for (std::size_t i = 1; i < n.inputs.size(); ++i)
            if (n.inputs[i] != no_value && (!is_constant(n.inputs[i]) || at(n.inputs[i]).constant.elements() != 1)) return false;
        const auto number = [&](std::size_t i) { return element_as_int64(at(n.inputs[i]).type, at(n.inputs[i]).constant.raw(), 0); };
        if (n.inputs[1] == no_value || n.inputs[3] == no_value || (n.inputs.size() > 4 && n.inputs[4] != no_value && number(4) != 1)) return false;
        const int rank = v.extents.rank();
        const std::int64_t axis = number(3) < 0 ? number(3) + rank : number(3);
        if (axis < 0 || axis >= rank) return false;
        const int d = static_cast<int>(axis);
        const std::int64_t begin = number(1) < 0 ? number(1) + v.extents[d] : number(1);
        if (begin < 0 || begin + at(y).extents[d] > v.extents[d]) return false;
        v.first += begin * v.steps[d];
        v.extents[d] = at(y).extents[d];
        return true;
    }
};

}  // namespace detail
}  // namespace gpu
GRAFT_END_NAMESPACE
