// Reductions over axes: sums, means, extremes, products, norms.
#pragma once

#include "gradient_common.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

enum class reduction { sum, mean, maximum, minimum, product, l1, l2, log_sum, log_sum_exp, sum_square };

// The axes to be reduced, as bits: from the second input (ReduceSum-13, the others since 18), or from the attribute.
// Without any, all are reduced, or with noop_with_empty_axes none. Only to be called when the input's contents are known.
inline status reduced_axes(const op_context& c, std::uint32_t& axes) {
    const int rank = c.in[0].extents.rank();
    const integer_list listed = c.integers("axes");
    const std::int64_t count = c.has(1) ? c.in[1].elements() : listed.size;
    axes = 0;
    if (!count) {
        axes = c.integer("noop_with_empty_axes", 0) ? 0u : (1u << rank) - 1u;
        return {};
    }
    if (count > rank && !(rank == 0 && count == 1)) return c.fail(errc::op_attribute, "%lld axes for rank %lld", count, rank);
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t given = c.has(1) ? c.in[1].integer(i) : listed[static_cast<int>(i)];
        int axis = 0;
        if (rank == 0 && (given == 0 || given == -1)) continue;
        GRAFT_TRY(c.axis(given, rank, axis));
        if (axes >> axis & 1u) return c.fail(errc::op_attribute, "axis %lld is given twice", given);
        axes |= 1u << axis;
    }
    return {};
}

inline status reduced_shape_infer(infer_context& c) {
    if (c.has(1)) {
        if (c.in[1].type != dtype::int64) return refuse_type(c, 1);
        if (c.in[1].extents.rank() > 1) return c.fail(errc::op_shape, "axes must have one dimension");
        if (!c.knows(1)) return c.defer();
    }
    std::uint32_t axes = 0;
    GRAFT_TRY(reduced_axes(c, axes));
    const shape& x = c.in[0].extents;
    shape out;
    const bool keep = c.integer("keepdims", 1) == 1;
    for (int i = 0; i < x.rank(); ++i)
        if (!(axes >> i & 1u))
            out.push_back(x[i]);
        else if (keep)
            out.push_back(1);
    return c.set(0, c.in[0].type, out);
}
inline status reduce_infer(infer_context& c) {
    GRAFT_TRY(check_wide_number(c, 0));
    return reduced_shape_infer(c);
}
inline status reduce_logarithm_infer(infer_context& c) {
    if (c.version() >= 28) GRAFT_TRY(check_real(c, 0));
    return reduce_infer(c);
}
inline status reduce_extreme_infer(infer_context& c) {
    const dtype type = c.in[0].type;
    if (type != dtype::int8 && type != dtype::uint8 && type != dtype::boolean) GRAFT_TRY(check_wide_number(c, 0));
    return reduced_shape_infer(c);
}

// Neighbouring dimensions of one kind are joined. The last of them is walked in runs: `lanes` results side by side if it is
// kept (`step` 1), one result in pieces if it is reduced (`step` 0).
struct reduce_plan {
    int kept = 0, reduced = 0;  // joined dimensions besides the last
    std::int64_t kept_extents[shape::max_rank], kept_strides[shape::max_rank];
    std::int64_t reduced_extents[shape::max_rank], reduced_strides[shape::max_rank];
    std::int64_t run = 1;  // extent of the last joined dimension
    int step = 0;
    std::int64_t kept_count = 1, reduced_count = 1;  // products of the above
    std::int64_t total = 1;                          // elements that go into one result
};
inline reduce_plan plan_reduction(const shape& x, std::uint32_t axes) noexcept {
    reduce_plan p;
    std::int64_t stride = 1;
    bool first = true, last_reduced = false;
    for (int i = x.rank() - 1; i >= 0; --i) {
        if (x[i] == 1) continue;
        const bool is_reduced = axes >> i & 1u;
        if (is_reduced) p.total *= x[i];
        if (first || (is_reduced == last_reduced && p.kept + p.reduced == 0)) {
            if (first) p.step = !is_reduced;
            p.run *= x[i];
            first = false;
        } else {
            int& count = is_reduced ? p.reduced : p.kept;
            std::int64_t* extents = is_reduced ? p.reduced_extents : p.kept_extents;
            if (is_reduced == last_reduced) {
                extents[count - 1] *= x[i];
            } else {
                extents[count] = x[i];
                (is_reduced ? p.reduced_strides : p.kept_strides)[count++] = stride;
            }
            (is_reduced ? p.reduced_count : p.kept_count) *= x[i];
        }
        last_reduced = is_reduced;
        stride *= x[i];
    }
    return p;
}
inline std::int64_t offset_of(std::int64_t index, int rank, const std::int64_t* extents, const std::int64_t* strides) noexcept {
    std::int64_t offset = 0;
    for (int i = 0; i < rank; ++i) {
        offset += index % extents[i] * strides[i];
        index /= extents[i];
    }
    return offset;
}

// sum[i * step] takes in x[i]; of log_sum_exp exp(x[i] - shift[i * step]).
inline void accumulate(reduction kind, double* sum, const double* x, const double* shift, int n, int step) noexcept {
    switch (kind) {
    case reduction::maximum:
        for (int i = 0; i < n; ++i) sum[i * step] = x[i] > sum[i * step] || x[i] != x[i] ? x[i] : sum[i * step];
        return;
    case reduction::minimum:
        for (int i = 0; i < n; ++i) sum[i * step] = x[i] < sum[i * step] || x[i] != x[i] ? x[i] : sum[i * step];
        return;
    case reduction::product:
        for (int i = 0; i < n; ++i) sum[i * step] *= x[i];
        return;
    case reduction::l1:
        for (int i = 0; i < n; ++i) sum[i * step] += std::fabs(x[i]);
        return;
    case reduction::l2:
    case reduction::sum_square:
        for (int i = 0; i < n; ++i) sum[i * step] += x[i] * x[i];
        return;
    case reduction::log_sum_exp:
        for (int i = 0; i < n; ++i) sum[i * step] += std::exp(x[i] - shift[i * step]);
        return;
    default:
        for (int i = 0; i < n; ++i) sum[i * step] += x[i];
    }
}
inline void accumulate(reduction kind, std::int64_t* sum, const std::int64_t* x, int n, int step, bool unsigned64) noexcept {
    for (int i = 0; i < n; ++i) {
        std::int64_t& s = sum[i * step];
        switch (kind) {
        case reduction::maximum: s = less(s, x[i], unsigned64) ? x[i] : s; break;
        case reduction::minimum: s = less(x[i], s, unsigned64) ? x[i] : s; break;
        case reduction::product: s = wrapping_mul(s, x[i]); break;
        case reduction::l1: s = wrapping_add(s, x[i] < 0 && !unsigned64 ? wrapping_sub(0, x[i]) : x[i]); break;
        case reduction::sum_square: s = wrapping_add(s, wrapping_mul(x[i], x[i])); break;
        default: s = wrapping_add(s, x[i]);
        }
    }
}

inline double initial_real(reduction kind) noexcept {
    return kind == reduction::maximum ? -HUGE_VAL : kind == reduction::minimum ? HUGE_VAL : kind == reduction::product ? 1 : 0;
}
// For the extremes, the lowest or highest value of the type, which is what an empty reduction gives.
inline std::int64_t initial_whole(reduction kind, dtype type) noexcept {
    if (kind == reduction::product) return 1;
    if (kind != reduction::maximum && kind != reduction::minimum) return 0;
    if (type == dtype::boolean) return kind == reduction::minimum;
    const int bits = static_cast<int>(file_bits(type));
    if (is_unsigned(type)) return kind == reduction::maximum ? 0 : bits == 64 ? -1 : (std::int64_t(1) << bits) - 1;
    const std::int64_t highest = static_cast<std::int64_t>((std::uint64_t(1) << (bits - 1)) - 1);
    return kind == reduction::maximum ? -highest - 1 : highest;
}
inline double finish(reduction kind, double sum, double shift, std::int64_t total) noexcept {
    switch (kind) {
    case reduction::mean: return total ? sum / static_cast<double>(total) : std::nan("");
    case reduction::l2: return std::sqrt(sum);
    case reduction::log_sum: return std::log(sum);
    case reduction::log_sum_exp: return std::log(sum) + shift;
    default: return sum;
    }
}

// The results [at, at + lanes) whose elements start at `base`.
inline void reduce_lanes_real(const tensor_view& x, const tensor_view& y, const reduce_plan& p, reduction kind, std::int64_t base, std::int64_t at, int lanes) {
    double block[block_size], sum[block_size], shift[block_size];
    std::fill(shift, shift + lanes, 0.0);
    for (int pass = kind == reduction::log_sum_exp ? 0 : 1; pass < 2; ++pass) {
        const reduction now = pass ? kind : reduction::maximum;
        std::fill(sum, sum + lanes, initial_real(now));
        if (p.total)
            for (std::int64_t r = 0; r < p.reduced_count; ++r) {
                const std::int64_t start = base + offset_of(r, p.reduced, p.reduced_extents, p.reduced_strides);
                for (std::int64_t i = 0, end = p.step ? lanes : p.run; i < end; i += block_size) {
                    const int n = static_cast<int>(std::min<std::int64_t>(block_size, end - i));
                    load_as_double(x.type, x.data, start + i, n, block);
                    accumulate(now, sum, block, shift, n, p.step);
                }
            }
        if (!pass)
            for (int i = 0; i < lanes; ++i) shift[i] = std::isfinite(sum[i]) ? sum[i] : 0;
    }
    for (int i = 0; i < lanes; ++i) sum[i] = finish(kind, sum[i], shift[i], p.total);
    store_from_double(y.type, y.data, at, lanes, sum);
}
inline void reduce_lanes_whole(const tensor_view& x, const tensor_view& y, const reduce_plan& p, reduction kind, std::int64_t base, std::int64_t at,
                               int lanes) {
    std::int64_t block[block_size], sum[block_size];
    const bool unsigned64 = x.type == dtype::uint64;
    std::fill(sum, sum + lanes, initial_whole(kind, x.type));
    if (p.total)
        for (std::int64_t r = 0; r < p.reduced_count; ++r) {
            const std::int64_t start = base + offset_of(r, p.reduced, p.reduced_extents, p.reduced_strides);
            for (std::int64_t i = 0, end = p.step ? lanes : p.run; i < end; i += block_size) {
                const int n = static_cast<int>(std::min<std::int64_t>(block_size, end - i));
                load_as_int64(x.type, x.data, start + i, n, block);
                accumulate(kind, sum, block, n, p.step, unsigned64);
            }
        }
    if (kind == reduction::mean)
        for (int i = 0; i < lanes; ++i) {
            const auto s = static_cast<std::uint64_t>(sum[i]), total = static_cast<std::uint64_t>(p.total);
            sum[i] = !p.total ? 0 : unsigned64 ? static_cast<std::int64_t>(s / total) : sum[i] / p.total;
        }
    store_from_int64(y.type, y.data, at, lanes, sum);
}

GRAFT_NOINLINE inline status reduce_kernel(run_context& c, reduction kind) {
    std::uint32_t axes = 0;
    GRAFT_TRY(reduced_axes(c, axes));
    const tensor_view x = c.in[0], y = c.out[0];
    if (!y.elements()) return {};
    const reduce_plan p = plan_reduction(x.extents, axes);
    const bool through_doubles = is_float(x.type) || kind == reduction::l2 || kind == reduction::log_sum || kind == reduction::log_sum_exp;
    const std::int64_t across = p.step ? p.run : 1, blocks = (across + block_size - 1) / block_size;
    parallel_for(c.pool, p.kept_count * blocks, [&](std::int64_t task) {
        const std::int64_t row = task / blocks, j = task % blocks * block_size;
        const int lanes = static_cast<int>(std::min<std::int64_t>(block_size, across - j));
        const std::int64_t base = offset_of(row, p.kept, p.kept_extents, p.kept_strides) + j;
        (through_doubles ? reduce_lanes_real : reduce_lanes_whole)(x, y, p, kind, base, row * across + j, lanes);
    });
    return {};
}

// ReduceSum-1,11,13, ReduceMean-1,11,13,18, ReduceMax-1,11,12,13,18,20, ReduceMin-1,11,12,13,18,20, ReduceProd-1,11,13,18
// ReduceL1-1,11,13,18: sum |x|; ReduceL2: sqrt(sum x^2); ReduceLogSum-...,28: log(sum x); ReduceLogSumExp-...,28: log(sum exp x);
// ReduceSumSquare: sum x^2. Of nothing: 0, NaN, the lowest, the highest, 1; 0, 0, -inf, -inf; 0.
inline status reduce_sum_run(run_context& c) { return reduce_kernel(c, reduction::sum); }
inline status reduce_mean_run(run_context& c) { return reduce_kernel(c, reduction::mean); }
inline status reduce_max_run(run_context& c) { return reduce_kernel(c, reduction::maximum); }
inline status reduce_min_run(run_context& c) { return reduce_kernel(c, reduction::minimum); }
inline status reduce_prod_run(run_context& c) { return reduce_kernel(c, reduction::product); }
inline status reduce_l1_run(run_context& c) { return reduce_kernel(c, reduction::l1); }
inline status reduce_l2_run(run_context& c) { return reduce_kernel(c, reduction::l2); }
inline status reduce_log_sum_run(run_context& c) { return reduce_kernel(c, reduction::log_sum); }
inline status reduce_log_sum_exp_run(run_context& c) { return reduce_kernel(c, reduction::log_sum_exp); }
inline status reduce_sum_square_run(run_context& c) { return reduce_kernel(c, reduction::sum_square); }

/// What the gradient of a reduction needs: which axes were reduced, and dy and y with those axes kept at extent 1.
struct reduction_gradient {
    std::uint32_t axes = 0;
    shape x, kept;
    std::int64_t count = 1;  // of elements that went into one result
    value_id dy = no_value, y = no_value;
};
inline status read_reduction(gradient_context& c, reduction_gradient& r) {
    std::vector<tensor_view> in;
    if (!is_constant(c, 1)) return c.refuse("its axes are computed in the graph: freeze what lies before it");
    GRAFT_TRY(reduced_axes(forward_context(c, in), r.axes));
    r.x = r.kept = c.extents(c.in(0));
    for (int i = 0; i < r.x.rank(); ++i)
        if (r.axes >> i & 1u) {
            r.count *= r.x[i];
            r.kept[i] = 1;
        }
    r.dy = c.build.reshape(c.dy(), r.kept);
    r.y = c.build.reshape(c.out(), r.kept);
    return {};
}
inline status reduce_sum_gradient(gradient_context& c) {
    reduction_gradient r;
    GRAFT_TRY(read_reduction(c, r));
    c.give(0, expanded(c, r.dy, r.x));
    return {};
}
inline status reduce_mean_gradient(gradient_context& c) {
    reduction_gradient r;
    GRAFT_TRY(read_reduction(c, r));
    c.give(0, expanded(c, scaled(c, r.dy, 1.0 / static_cast<double>(r.count)), r.x));
    return {};
}
// As torch.amax: equal ones share dy evenly.
inline status reduce_extreme_gradient(gradient_context& c) {
    reduction_gradient r;
    GRAFT_TRY(read_reduction(c, r));
    emitter& e = c.build;
    const value_id mask = cast_to(c, e.apply("Equal", {c.in(0), r.y}), e.type(r.y));
    std::vector<std::int64_t> axes;
    for (int i = 0; i < r.x.rank(); ++i)
        if (r.axes >> i & 1u) axes.push_back(i);
    const value_id holders = axes.empty() ? mask : e.apply("ReduceSum", {mask, e.integers(axes)}, {integer_attribute("keepdims", 1)});
    c.give(0, e.mul(mask, e.div(r.dy, holders)));
    return {};
}
// dy * the product of all others, which is that of those before and of those behind: right where some are 0.
inline status reduce_prod_gradient(gradient_context& c) {
    reduction_gradient r;
    GRAFT_TRY(read_reduction(c, r));
    emitter& e = c.build;
    std::vector<std::int64_t> order, back(static_cast<std::size_t>(r.x.rank()));
    shape moved;
    for (std::uint32_t reduced = 0; reduced < 2; ++reduced)
        for (int i = 0; i < r.x.rank(); ++i)
            if ((r.axes >> i & 1u) == reduced) {
                back[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(order.size());
                order.push_back(i);
                moved.push_back(r.x[i]);
            }
    const value_id x = r.x.rank() > 1 ? e.apply("Transpose", {c.in(0)}, {integers_attribute("perm", order)}) : c.in(0);
    const value_id lines = e.reshape(x, shape{r.kept.elements(), r.count}), axis = e.integers({1});
    const value_id before = e.apply("CumProd", {lines, axis}, {integer_attribute("exclusive", 1)});
    const value_id behind = e.apply("CumProd", {lines, axis}, {integer_attribute("exclusive", 1), integer_attribute("reverse", 1)});
    const value_id others = e.reshape(e.mul(before, behind), moved);
    c.give(0, e.mul(r.x.rank() > 1 ? e.apply("Transpose", {others}, {integers_attribute("perm", back)}) : others, r.dy));
    return {};
}
inline status reduce_l1_gradient(gradient_context& c) {
    reduction_gradient r;
    GRAFT_TRY(read_reduction(c, r));
    c.give(0, c.build.mul(c.build.apply("Sign", {c.in(0)}), r.dy));
    return {};
}
// dy * x / y, as torch 0 where y is 0
inline status reduce_l2_gradient(gradient_context& c) {
    reduction_gradient r;
    GRAFT_TRY(read_reduction(c, r));
    emitter& e = c.build;
    const value_id zero = e.number(0, r.y);
    c.give(0, e.mul(c.in(0), e.apply("Where", {e.apply("Equal", {r.y, zero}), zero, e.div(r.dy, r.y)})));
    return {};
}
inline status reduce_log_sum_gradient(gradient_context& c) {
    reduction_gradient r;
    GRAFT_TRY(read_reduction(c, r));
    c.give(0, expanded(c, c.build.div(r.dy, c.build.apply("Exp", {r.y})), r.x));
    return {};
}
inline status reduce_log_sum_exp_gradient(gradient_context& c) {
    reduction_gradient r;
    GRAFT_TRY(read_reduction(c, r));
    c.give(0, c.build.mul(c.build.apply("Exp", {c.build.sub(c.in(0), r.y)}), r.dy));
    return {};
}
inline status reduce_sum_square_gradient(gradient_context& c) {
    reduction_gradient r;
    GRAFT_TRY(read_reduction(c, r));
    c.give(0, c.build.mul(c.in(0), scaled(c, r.dy, 2)));
    return {};
}

// Of graft.SumTo: every element of a sum gets the sum's gradient.
inline status sum_to_gradient(gradient_context& c) {
    const shape& x = c.extents(c.in(0));
    c.give(0, c.build.apply("Expand", {c.dy(), c.build.integers(std::vector<std::int64_t>(x.begin(), x.end()))}));
    return {};
}
#define GRAFT_REDUCE_ATTRIBUTES "axes:is keepdims:i noop_with_empty_axes:i"
#define GRAFT_REDUCE_PROBLEMS(range) \
    "f32[2,3,4,5]" range " i64{2,3}; f32[3,17]" range " i64{-1} keepdims=0; f32[2,3,17]" range " i64{1}; f32[2,3,4,5]" range " i64{1,3}; " \
    "f32[3,5]" range "; f32[3,5]" range " noop_with_empty_axes=1; f32[3,600]" range " axes=0 @11; i32[2,7]~1:5 i64{1} @18; f32[]; f32[2,0,3] i64{1}; f16[0,2]"
// How they carry a batch: see batch_rules.hpp.
inline bool carry_reduce(batch_carrier& c) {
    std::vector<std::int64_t> axes;
    if (c.has(1) && !c.integers("axes", 1, axes)) return c.conflict("its axes depend on contents");
    c.integers("axes", 1, axes);
    if (axes.empty() && c.integer("noop_with_empty_axes", 0)) return c.answer(0, c.state(0));
    if (axes.empty()) return c.conflict("it reduces over the samples");
    return carry_dropping(c, axes, c.integer("keepdims", 1) == 1);
}

inline op_table reduce_ops() {
    static constexpr op_row rows[] = {
        onnx("ReduceSum")
            .inputs(1, 2)
            .functions(reduce_infer, reduce_sum_run)
            .carries(carry_reduce)
            .attributes(GRAFT_REDUCE_ATTRIBUTES)
            .problems(GRAFT_REDUCE_PROBLEMS("")),
        onnx("ReduceMean")
            .inputs(1, 2)
            .functions(reduce_infer, reduce_mean_run)
            .carries(carry_reduce)
            .widens()
            .attributes(GRAFT_REDUCE_ATTRIBUTES)
            .problems(GRAFT_REDUCE_PROBLEMS("")),
        onnx("ReduceMax")
            .inputs(1, 2)
            .functions(reduce_extreme_infer, reduce_max_run)
            .carries(carry_reduce)
            .attributes(GRAFT_REDUCE_ATTRIBUTES)
            .problems(GRAFT_REDUCE_PROBLEMS("") "; b[3,4] i64{1}; u8[0] i64{0}"),
        onnx("ReduceMin")
            .inputs(1, 2)
            .functions(reduce_extreme_infer, reduce_min_run)
            .carries(carry_reduce)
            .attributes(GRAFT_REDUCE_ATTRIBUTES)
            .problems(GRAFT_REDUCE_PROBLEMS("") "; b[3,4] i64{1}; u8[0] i64{0}"),
        onnx("ReduceProd")
            .inputs(1, 2)
            .functions(reduce_infer, reduce_prod_run)
            .carries(carry_reduce)
            .attributes(GRAFT_REDUCE_ATTRIBUTES)
            .problems(GRAFT_REDUCE_PROBLEMS("")),
        onnx("ReduceL1")
            .inputs(1, 2)
            .functions(reduce_infer, reduce_l1_run)
            .carries(carry_reduce)
            .attributes(GRAFT_REDUCE_ATTRIBUTES)
            .problems(GRAFT_REDUCE_PROBLEMS("")),
        onnx("ReduceL2")
            .inputs(1, 2)
            .functions(reduce_infer, reduce_l2_run)
            .carries(carry_reduce)
            .attributes(GRAFT_REDUCE_ATTRIBUTES)
            .problems(GRAFT_REDUCE_PROBLEMS("")),
        onnx("ReduceLogSum")
            .inputs(1, 2)
            .functions(reduce_logarithm_infer, reduce_log_sum_run)
            .carries(carry_reduce)
            .attributes(GRAFT_REDUCE_ATTRIBUTES)
            .problems(GRAFT_REDUCE_PROBLEMS("~0.1:2")),
        onnx("ReduceLogSumExp")
            .inputs(1, 2)
            .functions(reduce_logarithm_infer, reduce_log_sum_exp_run)
            .carries(carry_reduce)
            .attributes(GRAFT_REDUCE_ATTRIBUTES)
            .problems(GRAFT_REDUCE_PROBLEMS("")),
        onnx("ReduceSumSquare")
            .inputs(1, 2)
            .functions(reduce_infer, reduce_sum_square_run)
            .carries(carry_reduce)
            .attributes(GRAFT_REDUCE_ATTRIBUTES)
            .problems(GRAFT_REDUCE_PROBLEMS("")),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}
#undef GRAFT_REDUCE_ATTRIBUTES
#undef GRAFT_REDUCE_PROBLEMS

inline gradient_table reduce_gradients() {
    static constexpr gradient_row rows[] = {
        {"SumTo", "graft", sum_to_gradient},
        {"ReduceSum", "", reduce_sum_gradient},
        {"ReduceMean", "", reduce_mean_gradient},
        {"ReduceMax", "", reduce_extreme_gradient},
        {"ReduceMin", "", reduce_extreme_gradient},
        {"ReduceProd", "", reduce_prod_gradient},
        {"ReduceL1", "", reduce_l1_gradient},
        {"ReduceL2", "", reduce_l2_gradient},
        {"ReduceLogSum", "", reduce_log_sum_gradient},
        {"ReduceLogSumExp", "", reduce_log_sum_exp_gradient},
        {"ReduceSumSquare", "", reduce_sum_square_gradient},
    };
    return rows;
}

// graft.SumTo-1: x summed over the axes along which `shape` would have to be broadcast to x; where axis 0 is among them, by the tree
// of `shards` over it.
inline status sum_to_shape(const op_context& c, shape& to) {
    const integer_list listed = c.integers("shape");
    if (listed.size > shape::max_rank) return c.fail(errc::op_attribute, "a shape of %lld dimensions is more than a tensor has", listed.size);
    to = shape::from(listed.begin(), listed.end());
    if (!to.known() || !broadcasts_to(to, c.in[0].extents)) return c.fail_shapes("the shape cannot be broadcast to the input");
    return shards::legal(c.integer("shards", 1)) ? status() : c.fail(errc::op_attribute, "%lld shards are no power of two in range", c.integer("shards", 1));
}
inline status sum_to_infer(infer_context& c) {
    shape to;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(sum_to_shape(c, to));
    return c.set(0, c.in[0].type, to);
}
// The sum over the summed axes from `axis` on, at element `offset`; of axis 0 only [first, last).
inline double sum_of(const tensor_view& x, const bool* summed, int axis, std::int64_t offset, std::int64_t stride, std::int64_t first,
                     std::int64_t last) noexcept {
    while (axis < x.extents.rank() && !summed[axis]) stride /= std::max<std::int64_t>(x.extents[axis++], 1);
    if (axis == x.extents.rank()) return x.real(offset);
    const std::int64_t inner = stride / x.extents[axis];
    double sum = 0;
    for (std::int64_t i = axis ? 0 : first; i < (axis ? x.extents[axis] : last); ++i)
        sum += sum_of(x, summed, axis + 1, offset + i * inner, inner, first, last);
    return sum;
}
inline status sum_to_run(run_context& c) {
    shape to;
    GRAFT_TRY(sum_to_shape(c, to));
    const tensor_view x = c.in[0], y = c.out[0];
    if (!y.elements()) return {};
    const bool empty = x.elements() == 0;
    bool summed[shape::max_rank] = {};
    for (int i = 0; i < x.extents.rank(); ++i) summed[i] = i < x.extents.rank() - to.rank() || to[i - (x.extents.rank() - to.rank())] != x.extents[i];
    const shards cut{static_cast<int>(c.integer("shards", 1))};
    for (std::int64_t k = 0; k < y.elements(); ++k) {
        std::int64_t offset = 0, rest = k, stride = 1;
        for (int i = x.extents.rank() - 1; i >= 0; --i) {
            if (!summed[i] && x.extents[i]) {
                offset += rest % x.extents[i] * stride;
                rest /= x.extents[i];
            }
            stride *= x.extents[i];
        }
        double sum = 0;
        if (!empty && summed[0])
            sum = sum_shards_as(y.type == dtype::float32, cut.count,
                                [&](int s) { return sum_of(x, summed, 0, offset, stride, cut.first(x.extents[0], s), cut.last(x.extents[0], s)); });
        else if (!empty)
            sum = sum_of(x, summed, 0, offset, stride, 0, x.extents.at(0));
        store_from_double(y.type, y.data, k, 1, &sum);
    }
    return {};
}

inline op_table reduce_training_ops() {
    static constexpr op_row rows[] = {
        own("SumTo")
            .inputs(1)
            .functions(sum_to_infer, sum_to_run)
            .exact_outputs_from(0)
            .sums_if_shorter()
            .linear(linearity::first)
            .attributes("shape:is shards:i")
            .problems("f32[6,3,4,5] shape=3,1,1 shards=4; f32[7,5] shape=5 shards=8; f32[7,5] shape=7,1 shards=8; f32[9,600] shape=600 shards=2; f32[2,3,4] "
                      "shape=2,1,4; "
                      "f32[5,3] shape= shards=8; "
                      "f64[3,2] shape=1,1 shards=4; f16[5,4] shape=4 shards=2; bf16[3] shape=3; f32[0,3] shape=3 shards=8"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
