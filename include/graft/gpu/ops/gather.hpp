// Rules of operators that pick elements by index: Gather, GatherElements, GatherND.
#pragma once

#include "../codegen/element.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The rules of ops/gather.hpp. Indices that are constants are checked when the text is made, and a wrong one is refused. One that is
/// computed in a run is a fault: nothing is read there, and the element is NaN, or 0 of other types.
rule_table gather_rules();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/gather.hpp"
#include "movement.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// Whether every `step`-th of constant indices, from `first` on, is within [-extent, extent).
inline bool indices_fit(const tensor_view& indices, std::int64_t first, std::int64_t step, std::int64_t extent) {
    std::int64_t at = 0;
    for (std::int64_t i = first; i < indices.elements(); i += step)
        if (!ops::resolve_index(indices, i, extent, at)) return false;
    return true;
}

// The element of input 1 at `where` as an index in [0, extent), counted from the end where it is negative. `inside` gets the condition
// that it is in range where that is not known; where it does not hold the index is 0, and the run fails.
inline index resolved_index(const rule_call& r, const position& where, std::int64_t extent, bool known, operand& inside) {
    element_emitter& e = r.e;
    const operand k = r.in(1, where);
    if (!k) return {};
    const std::string n = std::to_string(extent);
    const operand counted = e.make(k.type, ("% < 0 ? % + " + n + " : %").c_str(), {k, k, k});
    if (known) return e.as_index(counted, extent);
    if (extent == 0) return e.refuse("there is nothing that its indices could name"), index();
    const operand fits = e.make(dtype::boolean, ("% >= 0 && % < " + n).c_str(), {counted, counted});
    e.demand(fits, k, {errc::op_index, graft::location(r.c.n), ops::index_out_of_range, extent});
    inside = e.both(inside, fits);
    return e.as_index(e.make(k.type, "% ? % : 0", {fits, counted}), extent);
}
constexpr const char* out_of_range = "one of its indices is out of range";

inline operand emit_gather(const rule_call& r) {
    const shape &x = r.c.in[0].extents, &indices = r.c.in[1].extents;
    const int axis = resolved_axis(r.c, 0, x.rank());
    const bool known = is_known(r.c, 1);
    if (known && !indices_fit(r.c.in[1], 0, 1, x[axis])) return r.e.refuse(out_of_range);
    std::vector<int> of_indices, of_data;
    for (int d = 0; d < indices.rank(); ++d) of_indices.push_back(axis + d);
    for (int d = 0; d < x.rank(); ++d) of_data.push_back(d == axis ? -1 : d < axis ? d : d + indices.rank() - 1);
    operand inside;
    const index chosen = resolved_index(r, with_axes(r.at, of_indices), x[axis], known, inside);
    const position from = moved_along(with_axes(r.at, of_data), axis, chosen, x);
    return r.e.where(inside, nothing_there(r), [&] { return r.in(0, from); });
}

inline operand emit_gather_elements(const rule_call& r) {
    const shape& x = r.c.in[0].extents;
    const int axis = resolved_axis(r.c, 0, x.rank());
    const bool known = is_known(r.c, 1);
    if (known && !indices_fit(r.c.in[1], 0, 1, x[axis])) return r.e.refuse(out_of_range);
    operand inside;
    const index chosen = resolved_index(r, r.at, x[axis], known, inside);
    position from = r.at;
    from.extents = x;
    from = moved_along(from, axis, chosen, x);
    return r.e.where(inside, nothing_there(r), [&] { return r.in(0, from); });
}

// The last axis of the indices lists a coordinate for each axis that is picked from.
inline operand emit_gather_nd(const rule_call& r) {
    const shape &x = r.c.in[0].extents, &indices = r.c.in[1].extents;
    const int batch = static_cast<int>(r.c.integer("batch_dims", 0)), lead = indices.rank() - 1;
    const std::int64_t k = indices.back();
    const bool known = is_known(r.c, 1);
    std::vector<int> of_indices, of_data;
    for (int d = 0; d < lead; ++d) of_indices.push_back(d);
    of_indices.push_back(-1);
    for (int d = 0; d < x.rank(); ++d) of_data.push_back(d < batch ? d : d < batch + k ? -1 : lead + d - batch - static_cast<int>(k));
    position from = with_axes(r.at, of_data);
    const position row = with_axes(r.at, of_indices);
    operand inside;
    for (std::int64_t j = 0; j < k; ++j) {
        const int axis = batch + static_cast<int>(j);
        if (known && !indices_fit(r.c.in[1], j, k, x[axis])) return r.e.refuse(out_of_range);
        from = moved_along(from, axis, resolved_index(r, with_axis(row, lead, index_of(j), k), x[axis], known, inside), x);
    }
    return r.e.where(inside, nothing_there(r), [&] { return r.in(0, from); });
}

}  // namespace detail

GRAFT_INLINE rule_table gather_rules() {
    constexpr unsigned moved = element_rule::moved;
    static constexpr element_rule rows[] = {
        {"Gather", "", moved, detail::emit_gather, ""},
        {"GatherElements", "", moved, detail::emit_gather_elements, ""},
        {"GatherND", "", moved, detail::emit_gather_nd, ""},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
