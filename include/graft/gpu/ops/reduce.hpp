// Kernels of reductions: sums, means, extremes, products, norms over axes; ArgMax and ArgMin; pools over whole pictures; graft.SumTo.
#pragma once

#include "../codegen/reduce.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The kernels of ops/reduce.hpp, ops/arg.hpp and of the global pools.
reduction_table reduce_rows();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/pool.hpp"
#include "../../ops/reduce.hpp"
#include "../../ops/arg.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// What a sum is kept in: float and double as they are, integers in 64 bits that wrap.
inline dtype sum_type(dtype type) noexcept { return is_float(type) ? compute_type(type) : dtype::uint64; }
inline dtype order_type(dtype type) noexcept { return is_float(type) ? compute_type(type) : type == dtype::uint64 ? type : dtype::int64; }

// The largest x and the sum of exp(x - largest). The largest is finite, so that infinities show in the sum alone.
inline reducer log_sum_exp_reducer(dtype type) {
    const std::string name = memory_name(type), lowest = type == dtype::float64 ? "-0x1.fffffffffffffp+1023" : "-0x1.fffffep+127f";
    reducer r;
    r.fields = {{"highest", type, lowest}, {"sum", type, "0"}};
    r.elements = {type};
    const fillings names = {{"type", name}};
    r.take = fill(R"cuda(if (x0 > s.highest && x0 < infinity<$type>()) {
        s.sum = scaled(s.sum, s.highest - x0) + 1;
        s.highest = x0;
    } else
        s.sum += exp(x0 - s.highest);)cuda",
                  names);
    r.merge = fill(R"cuda(const $type highest = b.highest > a.highest ? b.highest : a.highest;
    a.sum = scaled(a.sum, a.highest - highest) + scaled(b.sum, b.highest - highest);
    a.highest = highest;)cuda",
                   names);
    r.helpers = fill("__device__ __forceinline__ $type scaled($type sum, $type by) { return sum < infinity<$type>() ? sum * exp(by) : sum; }\n", names);
    return r;
}
inline reducer sum_reducer(dtype type, const char* take = "s.sum += x0;") {
    reducer r;
    r.fields = {{"sum", type, "0"}};
    r.elements = {type};
    r.take = take;
    r.merge = "a.sum += b.sum;";
    return r;
}
inline reducer make_reducer(ops::reduction kind, dtype type) {
    using ops::reduction;
    const bool whole = !is_float(type), doubles = whole && (kind == reduction::l2 || kind == reduction::log_sum || kind == reduction::log_sum_exp);
    const dtype sum = doubles ? dtype::float64 : sum_type(type), ordered = order_type(type);
    reducer r;
    switch (kind) {
    case reduction::maximum:
    case reduction::minimum: {
        const bool maximum = kind == reduction::maximum;
        r.fields = {{"sum", ordered, whole ? literal(ordered, ops::initial_whole(kind, type)) : literal(ordered, ops::initial_real(kind))}};
        r.elements = {ordered};
        r.take = maximum ? "s.sum = maximum(s.sum, x0);" : "s.sum = minimum(s.sum, x0);";
        r.merge = maximum ? "a.sum = maximum(a.sum, b.sum);" : "a.sum = minimum(a.sum, b.sum);";
        return r;
    }
    case reduction::product:
        r = sum_reducer(sum, "s.sum *= x0;");
        r.fields[0].start = "1";
        r.merge = "a.sum *= b.sum;";
        return r;
    case reduction::l2:
    case reduction::sum_square: return sum_reducer(sum, "s.sum += x0 * x0;");
    case reduction::log_sum_exp: return log_sum_exp_reducer(sum);
    default: return sum_reducer(sum);
    }
}

// A reduction of input 0 that gives output 0.
class plain_reduction : public reduction {
public:
    inline plain_reduction(const kernel_query& query, ops::reduction what, std::uint32_t over) : reduction(query), kind(what) {
        axes = over;
        extents = q.in[0].extents;
        order = q.in_layout[0];
        bytes = size_of(q.in[0].type);
        by = make_reducer(kind, q.in[0].type);
        finished = {0};
        for (int d = 0; d < extents.rank(); ++d)
            if (axes >> d & 1u) total *= extents[d];
    }
    inline std::vector<operand> elements(element_emitter& e, const position& at, const position&) const override {
        operand x = e.convert(in(e, 0, at), by.elements[0]);
        if (kind == ops::reduction::l1)
            x = is_float(x.type) ? e.make(x.type, "abs(%)", {x}) : is_unsigned(q.in[0].type) ? x : e.make(x.type, "% >> 63 ? 0 - % : %", {x, x, x});
        return {x};
    }
    inline std::vector<operand> finish(element_emitter& e, const std::vector<operand>& s, const position& at,
                                       std::vector<reduction_result>& results) const override {
        operand y = s[0];
        const dtype type = q.out[0].type;
        switch (kind) {
        case ops::reduction::mean:
            if (is_float(y.type))  // of nothing 0, times no number
                y = total ? e.make(y.type, "% / %", {y, e.number(y.type, static_cast<double>(total))})
                          : e.make(y.type, "% * %", {y, e.number(y.type, std::nan(""))});
            else if (total)
                y = e.make(order_type(type), type == dtype::uint64 ? "% / %" : "(long long)% / (long long)%",
                           {y, {literal(dtype::int64, total), dtype::int64, level::thread}});
            break;
        case ops::reduction::l2: y = e.make(y.type, "sqrt(%)", {y}); break;
        case ops::reduction::log_sum: y = e.make(y.type, "log(%)", {y}); break;
        case ops::reduction::log_sum_exp: y = e.make(y.type, "log(%) + %", {s[1], s[0]}); break;
        default: break;
        }
        if (is_float(y.type) && !is_float(type)) y = e.make(dtype::int64, "cut(%)", {y});
        results.push_back({0, e.convert(y, type), with_axes(at, output_axes)});
        return {};
    }
    std::vector<int> output_axes;  // the input's axis of each of the output's; -1: a new one
    ops::reduction kind;
    std::int64_t total = 1;
};

// Which axes of the input those of the output are: the same without `gone` ones.
inline std::vector<int> kept_axes(const shape& x, std::uint32_t gone) {
    std::vector<int> axes;
    for (int d = 0; d < x.rank(); ++d)
        if (!(gone >> d & 1u)) axes.push_back(d);
    return axes;
}
inline const char* generate_plain(plain_reduction& r, const fused_node* around, program& p) {
    if (const char* why = r.begin(around)) return why;
    return generate_reduction(r, p);
}
inline const char* generate_reduce(const kernel_query& q, const fused_node* around, program& p, ops::reduction kind) {
    if (q.has(1) && !q.in[1].data && q.in[1].elements()) return "its axes are computed in the graph";
    std::uint32_t axes = 0;
    if (!ops::reduced_axes(q, axes).ok()) return "its axes do not fit its input";
    plain_reduction r(q, kind, axes);
    r.output_axes = kept_axes(r.extents, q.integer("keepdims", 1) == 1 ? 0 : axes);
    return generate_plain(r, around, p);
}
template <ops::reduction Kind>
const char* generate_reduce_of(const kernel_query& q, const fused_node* around, program& p) {
    return generate_reduce(q, around, p, Kind);
}

// graft.SumTo
inline const char* generate_sum_to(const kernel_query& q, const fused_node* around, program& p) {
    const shape &x = q.in[0].extents, &y = q.out[0].extents;
    std::uint32_t axes = 0;
    std::vector<int> kept;
    for (int d = 0; d < x.rank(); ++d) {
        const int to = d - (x.rank() - y.rank());
        if (to < 0 || y[to] != x[d]) axes |= 1u << d;
        if (to >= 0) kept.push_back(d);
    }
    plain_reduction r(q, ops::reduction::sum, axes);
    r.output_axes = kept;
    return generate_plain(r, around, p);
}

// GlobalAveragePool, GlobalMaxPool: over all axes behind the channels
template <ops::reduction Kind>
const char* generate_global_pool(const kernel_query& q, const fused_node* around, program& p) {
    const shape& x = q.in[0].extents;
    std::uint32_t axes = 0;
    for (int d = 2; d < x.rank(); ++d) axes |= 1u << d;
    if (x.elements() == 0 && q.out[0].elements() != 0) return "pictures without pixels";
    plain_reduction r(q, Kind, axes);
    r.output_axes = kept_axes(x, 0);
    return generate_plain(r, around, p);
}

// ArgMax, ArgMin. NaN is chosen before any number; of equals the first, or the last.
class choice : public reduction {
public:
    inline choice(const kernel_query& query, bool smallest, int over) : reduction(query) {
        axes = 1u << over;
        extents = q.in[0].extents;
        order = q.in_layout[0];
        bytes = size_of(q.in[0].type);
        finished = {0};
        const dtype type = order_type(q.in[0].type);
        by.fields = {{"best", type, "0"}, {"at", dtype::int64, "-1"}};
        by.elements = {type};
        by.take = "state x;\n    x.best = x0;\n    x.at = position;\n    if (precedes(s, x)) s = x;";
        by.merge = "if (precedes(a, b)) a = b;";
        const bool last = q.integer("select_last_index", 0) != 0;
        by.helpers = std::string("__device__ __forceinline__ bool precedes(const state& a, const state& b) {\n    if (a.at < 0 || b.at < 0) return b.at >= 0;\n"
                                 "    const bool no_number = a.best != a.best;\n    if (no_number != (b.best != b.best)) return !no_number;\n"
                                 "    if (no_number || a.best == b.best) return b.at ") +
                     (last ? ">" : "<") + " a.at;\n    return b.best " + (smallest ? "<" : ">") + " a.best;\n}\n";
    }
    inline std::vector<operand> elements(element_emitter& e, const position& at, const position&) const override { return {in(e, 0, at)}; }
    inline std::vector<operand> finish(element_emitter&, const std::vector<operand>& s, const position& at,
                                       std::vector<reduction_result>& results) const override {
        results.push_back({0, s[1], with_axes(at, output_axes)});
        return {};
    }
    std::vector<int> output_axes;
};
template <bool Smallest>
const char* generate_choice(const kernel_query& q, const fused_node* around, program& p) {
    const shape& x = q.in[0].extents;
    int axis = 0;
    if (!q.axis(q.integer("axis", 0), x.rank(), axis).ok()) return "its axis does not fit its input";
    choice r(q, Smallest, axis);
    r.output_axes = kept_axes(x, q.integer("keepdims", 1) == 1 ? 0 : r.axes);
    if (const char* why = r.begin(around)) return why;
    return generate_reduction(r, p);
}

}  // namespace detail

GRAFT_INLINE reduction_table reduce_rows() {
    using ops::reduction;
    static constexpr reduction_row rows[] = {
        {"ReduceSum", "", detail::generate_reduce_of<reduction::sum>},
        {"ReduceMean", "", detail::generate_reduce_of<reduction::mean>},
        {"ReduceMax", "", detail::generate_reduce_of<reduction::maximum>},
        {"ReduceMin", "", detail::generate_reduce_of<reduction::minimum>},
        {"ReduceProd", "", detail::generate_reduce_of<reduction::product>},
        {"ReduceL1", "", detail::generate_reduce_of<reduction::l1>},
        {"ReduceL2", "", detail::generate_reduce_of<reduction::l2>},
        {"ReduceLogSum", "", detail::generate_reduce_of<reduction::log_sum>},
        {"ReduceLogSumExp", "", detail::generate_reduce_of<reduction::log_sum_exp>},
        {"ReduceSumSquare", "", detail::generate_reduce_of<reduction::sum_square>},
        {"SumTo", "graft", detail::generate_sum_to},
        {"GlobalAveragePool", "", detail::generate_global_pool<reduction::mean>},
        {"GlobalMaxPool", "", detail::generate_global_pool<reduction::maximum>},
        {"ArgMax", "", detail::generate_choice<false>},
        {"ArgMin", "", detail::generate_choice<true>},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
