// Kernels of normalisations by statistics of the picture, the group or the row; rules of those that need none.
#pragma once

#include "../codegen/reduce.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// InstanceNormalization, GroupNormalization, LayerNormalization, RMSNormalization, MeanVarianceNormalization and LpNormalization of
/// ops/norm.hpp.
reduction_table norm_rows();
/// BatchNormalization by given statistics, and LRN.
rule_table norm_rules();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "reduce.hpp"
#include "../../ops/norm.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// Number of elements, their mean, and the sum of squares around it: by Welford's update, and joined by Chan's.
inline reducer moments_reducer(dtype type) {
    const std::string t = memory_name(type);
    reducer r;
    r.fields = {{"n", type, "0"}, {"mean", type, "0"}, {"squares", type, "0"}};
    r.elements = {type};
    r.take = fill(R"cuda(const $type off = x0 - s.mean;
    s.n = ($type)taken;
    s.mean += off * (($type)1 / s.n);
    s.squares += off * (x0 - s.mean);)cuda",
                  {{"type", t}});
    r.merge = fill(R"cuda(if (b.n == 0) return;
    const $type n = a.n + b.n, off = b.mean - a.mean, share = b.n / n;
    a.squares += b.squares + off * off * a.n * share;
    a.mean += off * share;
    a.n = n;)cuda",
                   {{"type", t}});
    return r;
}

enum class norm_kind { channels, rows, root_mean_square, mean_variance, lp };

class normalisation : public reduction {
public:
    inline normalisation(const kernel_query& query, norm_kind what) : reduction(query), kind(what), type(compute_type(query.in[0].type)) {
        extents = q.in[0].extents;
        order = q.in_layout[0];
        bytes = size_of(q.in[0].type);
        const bool sums = kind == norm_kind::root_mean_square || kind == norm_kind::lp;
        by = sums ? sum_reducer(type, kind == norm_kind::lp && q.integer("p", 2) == 1 ? "s.sum += abs(x0);" : "s.sum += x0 * x0;") : moments_reducer(type);
        if (q.wants(0)) mapped = {0};
        statistics.assign(sums ? 1 : 2, type);
        for (int o = 1; o < q.outputs; ++o)
            if (q.wants(o) && q.out[o].type != dtype::undefined) finished.push_back(o);
    }
    inline std::vector<operand> elements(element_emitter& e, const position& at, const position&) const override { return {in(e, 0, at)}; }
    inline operand inverse_root(element_emitter& e, const operand& variance) const {
        return e.make(type, (std::string("(") + memory_name(type) + ")1 / sqrt(% + %)").c_str(), {variance, e.number(type, ops::epsilon_of(q))});
    }
    inline std::vector<operand> finish(element_emitter& e, const std::vector<operand>& s, const position& at,
                                       std::vector<reduction_result>& results) const override {
        if (kind == norm_kind::lp) {
            const operand norm = q.integer("p", 2) == 1 ? s[0] : e.make(type, "sqrt(%)", {s[0]});
            return {norm};
        }
        if (kind == norm_kind::root_mean_square)
            return {inverse_root(e, e.make(type, "% / %", {s[0], e.number(type, static_cast<double>(std::max<std::int64_t>(count, 1)))}))};
        const operand variance = e.make(type, "% > 0 ? % / % : %", {s[0], s[2], s[0], e.number(type, 0)});
        if (kind == norm_kind::mean_variance) return {s[1], e.make(type, "sqrt(%) + %", {variance, e.number(type, 1e-9)})};
        const operand inverse = inverse_root(e, variance);
        for (int o : finished) results.push_back({o, e.convert(o == 1 ? s[1] : inverse, q.out[o].type), at});
        return {s[1], inverse};
    }
    inline std::vector<operand> map(element_emitter& e, const std::vector<operand>& s, const position& at) const override {
        const operand x = in(e, 0, at);
        switch (kind) {
        case norm_kind::lp: return {e.make(type, "% == 0 ? % : % / %", {s[0], e.number(type, 0), x, s[0]})};
        case norm_kind::mean_variance: return {e.make(type, "(% - %) / %", {x, s[0], s[1]})};
        case norm_kind::channels: {
            position vector = with_axes(at, {1});
            if (groups && q.in[1].extents[0] != extents[1]) vector = at_axes({groups}, {e.divide(e.axis(at, 1), extents[1] / groups)});
            const operand scale = e.convert(in(e, 1, vector), type), shift = e.convert(in(e, 2, vector), type);
            return {e.make(type, "(% - %) * % * % + %", {x, s[0], s[1], scale, shift})};
        }
        default: break;
        }
        const bool centred = kind == norm_kind::rows;
        const operand scale = e.convert(in(e, 1, broadcast_to(at, q.in[1].extents)), type);
        operand y = centred ? e.make(type, "(% - %) * % * %", {x, s[0], s[1], scale}) : e.make(type, "% * % * %", {x, s[0], scale});
        if (q.has(2)) y = e.make(type, "% + %", {y, e.convert(in(e, 2, broadcast_to(at, q.in[2].extents)), type)});
        return {e.convert(y, q.out[0].type)};
    }
    norm_kind kind;
    dtype type;
    std::int64_t count = 1;  // elements of a result
};
inline const char* generate_normalisation(normalisation& r, const fused_node* around, program& p) {
    if (const char* why = r.begin(around)) return why;
    for (int d = 0; d < r.extents.rank(); ++d)
        if (r.axes >> d & 1u) r.count *= r.extents[d];
    return generate_reduction(r, p);
}

// InstanceNormalization, GroupNormalization
inline const char* generate_group_norm(const kernel_query& q, const fused_node* around, program& p) {
    normalisation r(q, norm_kind::channels);
    for (int d = 2; d < r.extents.rank(); ++d) r.axes |= 1u << d;
    if (q.n.op_type == "GroupNormalization") r.groups = q.integer("num_groups", 0);
    return generate_normalisation(r, around, p);
}
// LayerNormalization, RMSNormalization
template <norm_kind Kind>
const char* generate_row_norm(const kernel_query& q, const fused_node* around, program& p) {
    normalisation r(q, Kind);
    int axis = 0;
    if (!q.axis(q.integer("axis", -1), r.extents.rank(), axis).ok()) return "its axis does not fit its input";
    for (int d = axis; d < r.extents.rank(); ++d) r.axes |= 1u << d;
    return generate_normalisation(r, around, p);
}
inline const char* generate_mean_variance(const kernel_query& q, const fused_node* around, program& p) {
    normalisation r(q, norm_kind::mean_variance);
    static constexpr std::int64_t otherwise[] = {0, 2, 3};
    const integer_list axes = q.has_attribute("axes") ? q.integers("axes") : integer_list{otherwise, 3};
    for (std::int64_t a : axes) {
        int axis = 0;
        if (!q.axis(a, r.extents.rank(), axis).ok()) return "its axes do not fit its input";
        r.axes |= 1u << axis;
    }
    return generate_normalisation(r, around, p);
}
inline const char* generate_lp_norm(const kernel_query& q, const fused_node* around, program& p) {
    normalisation r(q, norm_kind::lp);
    int axis = 0;
    if (!q.axis(q.integer("axis", -1), r.extents.rank(), axis).ok()) return "its axis does not fit its input";
    r.axes = 1u << axis;
    return generate_normalisation(r, around, p);
}

// BatchNormalization by the statistics that it is given.
inline operand emit_batch_norm(const rule_call& r) {
    if (ops::batch_norm_trains(r.c.n)) return r.e.refuse("it normalises by the batch's own statistics, which graft.BatchNormalizationTraining does");
    if (r.output) return r.in(r.output % 2 ? 3 : 4, r.at);
    const dtype type = r.type();
    const bool by_element = r.c.version() < 9 && !r.c.integer("spatial", 1);
    std::vector<int> axes;
    if (by_element)
        for (int d = 1; d < r.at.extents.rank(); ++d) axes.push_back(d);
    else
        axes.push_back(r.at.extents.rank() > 1 ? 1 : -1);
    const position channel = with_axes(r.at, axes);
    const operand x = r.in(0), scale = r.e.convert(r.in(1, channel), type), shift = r.e.convert(r.in(2, channel), type),
                  mean = r.e.convert(r.in(3, channel), type), variance = r.e.convert(r.in(4, channel), type),
                  factor = r.e.make(type, "% / sqrt(% + %)", {scale, variance, r.number(ops::epsilon_of(r.c))});
    return r.e.make(type, "(% - %) * % + %", {x, mean, factor, shift});
}

constexpr std::int64_t widest_lrn = 64;  ///< neighbours that are written down one by one

// LRN: the squares of the neighbouring channels.
inline operand emit_lrn(const rule_call& r) {
    const std::int64_t size = r.c.integer("size", 1), channels = r.c.in[0].extents[1], before = std::min((size - 1) / 2, channels),
                       after = std::min(size - 1 - (size - 1) / 2, channels);
    if (before + after >= widest_lrn) return r.e.refuse("it looks at more neighbouring channels than are written down one by one");
    const operand own = r.in(0);
    operand sum = r.e.make(own.type, "% * %", {own, own});
    const index channel = r.e.axis(r.at, 1);
    for (std::int64_t off = -before; off <= after; ++off) {
        if (off == 0) continue;
        const index there = r.e.formula(("% + (" + std::to_string(off) + ")").c_str(), {channel}, 0);
        const operand inside = off < 0 ? r.e.at_least(there, 0) : r.e.less(there, channels);
        const operand x = r.e.where(inside, r.number(0), [&] { return r.in(0, with_axis(r.at, 1, there, channels)); });
        sum = r.e.make(own.type, "% + % * %", {sum, x, x});
    }
    const operand scale = r.number(static_cast<double>(r.c.real("alpha", 1e-4f)) / static_cast<double>(size));
    return r.e.make(own.type, "% / pow(% + % * %, %)", {own, r.attribute("bias", 1.0f), scale, sum, r.attribute("beta", 0.75f)});
}

}  // namespace detail

GRAFT_INLINE reduction_table norm_rows() {
    static constexpr reduction_row rows[] = {
        {"InstanceNormalization", "", detail::generate_group_norm},
        {"GroupNormalization", "", detail::generate_group_norm},
        {"LayerNormalization", "", detail::generate_row_norm<detail::norm_kind::rows>},
        {"RMSNormalization", "", detail::generate_row_norm<detail::norm_kind::root_mean_square>},
        {"MeanVarianceNormalization", "", detail::generate_mean_variance},
        {"LpNormalization", "", detail::generate_lp_norm},
    };
    return rows;
}
GRAFT_INLINE rule_table norm_rules() {
    static constexpr element_rule rows[] = {
        {"BatchNormalization", "", element_rule::same, detail::emit_batch_norm, ""},
        {"LRN", "", element_rule::several, detail::emit_lrn, ""},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
