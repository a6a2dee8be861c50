// Kernels of Softmax and LogSoftmax; Hardmax by way of ArgMax.
#pragma once

#include "../codegen/reduce.hpp"
#include "../decompose.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Softmax and LogSoftmax of ops/softmax.hpp.
reduction_table softmax_rows();
/// Hardmax of it.
decomposition_table softmax_decompositions();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "reduce.hpp"
#include "../../ops/softmax.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

class softmax_reduction : public reduction {
public:
    inline softmax_reduction(const kernel_query& query, bool take_logarithm) : reduction(query), logarithm(take_logarithm), type(compute_type(query.in[0].type)) {
        extents = q.in[0].extents;
        order = q.in_layout[0];
        bytes = size_of(q.in[0].type);
        by = log_sum_exp_reducer(type);
        mapped = {0};
        statistics = {type, type};
    }
    inline std::vector<operand> elements(element_emitter& e, const place& at, const place&) const override { return {in(e, 0, at)}; }
    inline std::vector<operand> finish(element_emitter& e, const std::vector<operand>& s, const place&, std::vector<reduction_result>&) const override {
        // An infinite element, or one that is no number, makes every element of its line none.
        const operand finite = e.make(dtype::boolean, "is_finite(%)", {s[1]}), none = e.number(type, std::nan(""));
        const std::string of_sum = logarithm ? "log(%)" : std::string("(") + memory_name(type) + ")1 / %";
        return {s[0], e.make(type, "% ? % : %", {finite, e.make(type, of_sum.c_str(), {s[1]}), none})};
    }
    inline std::vector<operand> map(element_emitter& e, const std::vector<operand>& s, const place& at) const override {
        const operand x = in(e, 0, at);
        return {e.make(type, logarithm ? "% - % - %" : "exp(% - %) * %", {x, s[0], s[1]})};
    }
    bool logarithm;
    dtype type;
};
template <bool logarithm> const char* generate_softmax(const kernel_query& q, const fused_node* around, program& p) {
    const int rank = q.in[0].extents.rank();
    const bool flat = q.version() < 13;
    int axis = 0;
    softmax_reduction r(q, logarithm);
    if (rank) {
        if (!q.axis(q.integer("axis", flat ? 1 : -1), rank, axis, flat && q.integer("axis", 1) >= 0).ok()) return "its axis does not fit its input";
        for (int d = axis; d < (flat ? rank : axis + 1); ++d) r.axes |= 1u << d;
    }
    if (const char* why = r.begin(around)) return why;
    return generate_reduction(r, p);
}

inline const char* decompose_hardmax(decomposition& d) {
    emitter& e = d.emit;
    ops::axis_split s;
    if (d.any_empty()) return "it is empty";
    if (!ops::softmax_split(d.c, s).ok()) return "its axis does not fit its input";
    const value_id x = e.reshape(d.in[0], {s.outer, s.n, s.inner});
    // What is no number is never the largest.
    const value_id ordered = d.where(e.emit("Not", {e.emit("IsNaN", {x})}), x, -HUGE_VAL);
    const value_id best = e.emit("ArgMax", {ordered}, {integer_attribute("axis", 1), integer_attribute("keepdims", 1)});
    const value_id chosen = e.emit("Equal", {d.numbers(0, {1, s.n, 1}), best});
    d.out[0] = e.reshape(d.cast(chosen, d.c.in[0].type), d.c.in[0].extents);
    return nullptr;
}

}  // namespace detail

GRAFT_INLINE reduction_table softmax_rows() {
    static constexpr reduction_row rows[] = {
        {"Softmax", "", detail::generate_softmax<false>},
        {"LogSoftmax", "", detail::generate_softmax<true>},
    };
    return {rows, sizeof rows / sizeof rows[0]};
}

GRAFT_INLINE decomposition_table softmax_decompositions() {
    static constexpr decomposition_row rows[] = {{"Hardmax", "", detail::decompose_hardmax, false}};
    return {rows, sizeof rows / sizeof rows[0]};
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
