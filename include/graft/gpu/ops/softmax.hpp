// Kernels of Softmax, LogSoftmax and Hardmax, and of graft.SoftmaxGrad.
#pragma once

#include "../codegen/reduce.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The operators of ops/softmax.hpp.
reduction_table softmax_rows();

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
    inline softmax_reduction(const kernel_query& query, bool take_logarithm)
        : reduction(query), logarithm(take_logarithm), type(compute_type(query.in[0].type)) {
        extents = q.in[0].extents;
        order = q.in_layout[0];
        bytes = size_of(q.in[0].type);
        by = log_sum_exp_reducer(type);
        mapped = {0};
        statistics = {type, type};
    }
    inline std::vector<operand> elements(element_emitter& e, const position& at, const position&) const override { return {in(e, 0, at)}; }
    inline std::vector<operand> finish(element_emitter& e, const std::vector<operand>& s, const position&, std::vector<reduction_result>&) const override {
        // An infinite element, or one that is no number, makes every element of its line none.
        const operand finite = e.make(dtype::boolean, "is_finite(%)", {s[1]}), none = e.number(type, std::nan(""));
        const std::string of_sum = logarithm ? "log(%)" : std::string("(") + memory_name(type) + ")1 / %";
        return {s[0], e.make(type, "% ? % : %", {finite, e.make(type, of_sum.c_str(), {s[1]}), none})};
    }
    inline std::vector<operand> map(element_emitter& e, const std::vector<operand>& s, const position& at) const override {
        const operand x = in(e, 0, at);
        return {e.make(type, logarithm ? "% - % - %" : "exp(% - %) * %", {x, s[0], s[1]})};
    }
    bool logarithm;
    dtype type;
};
class softmax_gradient : public reduction {
public:
    inline explicit softmax_gradient(const kernel_query& query) : reduction(query), type_(compute_type(query.in[1].type)) {
        extents = q.in[1].extents;
        order = q.in_layout[1];
        bytes = std::min(size_of(q.in[0].type), size_of(q.in[1].type));
        by = sum_reducer(type_, "s.sum += x0 * x1;");
        by.elements = {type_, type_};
        mapped = {0};
        statistics = {type_};
    }
    inline std::vector<operand> elements(element_emitter& e, const position& at, const position&) const override { return {value(e, 0, at), value(e, 1, at)}; }
    inline std::vector<operand> finish(element_emitter&, const std::vector<operand>& s, const position&, std::vector<reduction_result>&) const override {
        return {s[0]};
    }
    inline std::vector<operand> map(element_emitter& e, const std::vector<operand>& s, const position& at) const override {
        return {e.make(type_, "% * (% - %)", {value(e, 1, at), value(e, 0, at), s[0]})};
    }

private:
    inline operand value(element_emitter& e, int i, const position& at) const { return e.convert(in(e, i, at), type_); }
    dtype type_;
};
// The largest element of each line, of equals the first by its number along the axes; NaN is never chosen, nor is it compared with.
class hardmax_reduction : public reduction {
public:
    inline explicit hardmax_reduction(const kernel_query& query) : reduction(query), type_(compute_type(query.in[0].type)) {
        extents = q.in[0].extents;
        order = q.in_layout[0];
        bytes = size_of(q.in[0].type);
        const std::string lowest = std::string("-infinity<") + memory_name(type_) + ">()";
        by.fields = {{"best", type_, lowest}, {"at", dtype::int64, "0"}};
        by.elements = {type_, dtype::int64};
        by.take = "if (x0 > s.best || (x0 == s.best && x0 > " + lowest + " && x1 < s.at)) {\n        s.best = x0;\n        s.at = x1;\n    }";
        by.merge = "if (b.best > a.best || (b.best == a.best && b.at < a.at)) a = b;";
        mapped = {0};
        statistics = {dtype::int64};
    }
    inline std::vector<operand> elements(element_emitter& e, const position& at, const position&) const override { return {in(e, 0, at), number(e, at)}; }
    inline std::vector<operand> finish(element_emitter&, const std::vector<operand>& s, const position&, std::vector<reduction_result>&) const override {
        return {s[1]};
    }
    inline std::vector<operand> map(element_emitter& e, const std::vector<operand>& s, const position& at) const override {
        return {e.make(type_, "% == % ? 1 : 0", {number(e, at), s[0]})};
    }

private:
    operand number(element_emitter& e, const position& at) const { return e.as_value(e.offset(at, strides_among(extents, axes))); }
    dtype type_;
};

template <class Reduction>
const char* generate_softmax(Reduction& r, const fused_node* around, program& p) {
    const kernel_query& q = r.q;
    const int rank = q.in[0].extents.rank();
    const bool flat = q.version() < 13;
    int axis = 0;
    if (rank) {
        if (!q.axis(q.integer("axis", flat ? 1 : -1), rank, axis, flat && q.integer("axis", 1) >= 0).ok()) return "its axis does not fit its input";
        for (int d = axis; d < (flat ? rank : axis + 1); ++d) r.axes |= 1u << d;
    }
    if (const char* why = r.begin(around)) return why;
    return generate_reduction(r, p);
}
template <bool Logarithm>
const char* generate_softmax_of(const kernel_query& q, const fused_node* around, program& p) {
    softmax_reduction r(q, Logarithm);
    return generate_softmax(r, around, p);
}
inline const char* generate_softmax_gradient(const kernel_query& q, const fused_node* around, program& p) {
    softmax_gradient r(q);
    int axis = 0;
    if (!q.axis(q.integer("axis", -1), r.extents.rank(), axis).ok()) return "its axis does not fit its input";
    r.axes = 1u << axis;
    if (const char* why = r.begin(around)) return why;
    return generate_reduction(r, p);
}
inline const char* generate_hardmax(const kernel_query& q, const fused_node* around, program& p) {
    hardmax_reduction r(q);
    return generate_softmax(r, around, p);
}

}  // namespace detail

GRAFT_INLINE reduction_table softmax_rows() {
    static constexpr reduction_row rows[] = {
        {"Softmax", "", detail::generate_softmax_of<false>},
        {"LogSoftmax", "", detail::generate_softmax_of<true>},
        {"Hardmax", "", detail::generate_hardmax},
        {"SoftmaxGrad", "graft", detail::generate_softmax_gradient},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
