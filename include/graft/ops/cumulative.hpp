// Running sums and products along an axis: CumSum, CumProd.
#pragma once

#include "gradient_common.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

inline status cumulative_axis(const op_context& c, int& axis) { return c.axis(c.in[1].integer(0), c.in[0].extents.rank(), axis); }

// CumSum-11,14: y[k] = x[0] + ... + x[k] along the axis that the second input names; CumProd-26: the product. exclusive: without
// x[k] itself; reverse: from the end
inline status cumulative_infer(infer_context& c) {
    GRAFT_TRY(check_wide_number(c, 0));
    if (c.in[1].type != dtype::int64 && c.in[1].type != dtype::int32) return refuse_type(c, 1);
    GRAFT_TRY(check_scalar(c, 1));
    int axis = 0;
    if (c.knows(1)) GRAFT_TRY(cumulative_axis(c, axis));
    return c.set(0, c.in[0].type, c.in[0].extents);
}
GRAFT_NOINLINE inline status cumulative_kernel(run_context& c, bool product) {
    const tensor_view x = c.in[0], y = c.out[0];
    int axis = 0;
    GRAFT_TRY(cumulative_axis(c, axis));
    if (!y.elements()) return {};
    const axis_split s = split_at(x.extents, axis);
    const bool exclusive = c.integer("exclusive", 0) != 0, reverse = c.integer("reverse", 0) != 0, real = is_float(x.type);
    const std::int64_t across = (s.inner + block_size - 1) / block_size;
    parallel_for(c.pool, s.outer * across, [&](std::int64_t task) {
        const std::int64_t o = task / across, j = task % across * block_size;
        const int lanes = static_cast<int>(std::min<std::int64_t>(block_size, s.inner - j));
        double sum[block_size], block[block_size];
        std::int64_t whole_sum[block_size], whole[block_size];
        std::fill(sum, sum + lanes, product ? 1.0 : 0.0);
        std::fill(whole_sum, whole_sum + lanes, std::int64_t(product));
        for (std::int64_t step = 0; step < s.n; ++step) {
            const std::int64_t k = reverse ? s.n - 1 - step : step, start = (o * s.n + k) * s.inner + j;
            if (real) {
                load_as_double(x.type, x.data, start, lanes, block);
                if (exclusive) store_from_double(y.type, y.data, start, lanes, sum);
                for (int i = 0; i < lanes; ++i) sum[i] = product ? sum[i] * block[i] : sum[i] + block[i];
                if (!exclusive) store_from_double(y.type, y.data, start, lanes, sum);
            } else {
                load_as_int64(x.type, x.data, start, lanes, whole);
                if (exclusive) store_from_int64(y.type, y.data, start, lanes, whole_sum);
                for (int i = 0; i < lanes; ++i) whole_sum[i] = product ? wrapping_mul(whole_sum[i], whole[i]) : wrapping_add(whole_sum[i], whole[i]);
                if (!exclusive) store_from_int64(y.type, y.data, start, lanes, whole_sum);
            }
        }
    });
    return {};
}
inline status cum_sum_run(run_context& c) { return cumulative_kernel(c, false); }
inline status cum_prod_run(run_context& c) { return cumulative_kernel(c, true); }

// The same sum the other way round.
inline status cum_sum_gradient(gradient_context& c) {
    c.give(0, c.build.apply("CumSum", {c.dy(), c.in(1)},
                            {integer_attribute("exclusive", c.integer("exclusive", 0)), integer_attribute("reverse", !c.integer("reverse", 0))}));
    return {};
}

// How they carry a batch: see batch_rules.hpp.
inline bool carry_cumulative(batch_carrier& c) {
    std::vector<std::int64_t> axis;
    if (!c.integers("axis", 1, axis)) return c.conflict("its axis depends on contents");
    return carry_beside(c, axis);
}

inline op_table cumulative_ops() {
    static constexpr op_row rows[] = {
        onnx("CumSum")
            .opsets(11)
            .inputs(2)
            .functions(cumulative_infer, cum_sum_run)
            .carries(carry_cumulative)
            .attributes("exclusive:i reverse:i")
            .problems("f32[3,17] i64(1); f32[2,3,5] i32(-2) exclusive=1; f64[7] i64(0) reverse=1; i32[2,4] i64(1) exclusive=1 "
                      "reverse=1; f32[0,2] i64(0)"),
        onnx("CumProd")
            .opsets(26)
            .inputs(2)
            .functions(cumulative_infer, cum_prod_run)
            .carries(carry_cumulative)
            .attributes("exclusive:i reverse:i")
            .problems("f32[3,17] i64(1); f32[2,3,5] i32(-2) exclusive=1; f64[7] i64(0) reverse=1; i32[2,4] i64(1) exclusive=1 "
                      "reverse=1; f32[0,2] i64(0)"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table cumulative_gradients() {
    static constexpr gradient_row rows[] = {{"CumSum", "", cum_sum_gradient}};
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
