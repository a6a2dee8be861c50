// Element-wise operators of any number of inputs with broadcasting: Max, Min, Sum, Mean.
#pragma once

#include "gradient_common.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

inline status variadic_infer(infer_context& c, unsigned accepted) {
    shape out;
    GRAFT_TRY(check_type(c, 0, accepted));
    for (int i = 1; i < c.inputs; ++i) GRAFT_TRY(check_same_type(c, 0, i));
    GRAFT_TRY(broadcast_inputs(c, out));
    return c.set(0, c.in[0].type, out);
}
inline status variadic_number_infer(infer_context& c) { return variadic_infer(c, accept::number); }
inline status variadic_real_infer(infer_context& c) { return variadic_infer(c, accept::real); }

// y = scale * f(... f(f(x0, x1), x2) ...); integers only where `whole` is given.
GRAFT_NOINLINE inline status variadic_elementwise(run_context& c, real_function2 real, integer_function2 whole, double scale) {
    const tensor_view y = c.out[0];
    element_parameters p;
    describe_type(p, y.type);
    const bool integers = whole && !is_float(y.type);
    for_blocks(c.pool, y.elements(), [&](std::int64_t first, int n) {
        if (integers) {
            std::int64_t block[block_size], other[block_size];
            for (int k = 0; k < c.inputs; ++k) {
                load_as_int64(broadcast_to(c.in[k], y.extents), first, n, k ? other : block);
                if (k) whole(block, other, n, p);
            }
            store_from_int64(y.type, y.data, first, n, block);
        } else {
            double block[block_size], other[block_size];
            for (int k = 0; k < c.inputs; ++k) {
                load_as_double(broadcast_to(c.in[k], y.extents), first, n, k ? other : block);
                if (k) real(block, other, n, p);
            }
            for (int i = 0; i < n; ++i) block[i] *= scale;
            store_from_double(y.type, y.data, first, n, block);
        }
    });
    return {};
}

// Max-1,6,8,12,13, Min-1,6,8,12,13: the largest, the smallest of the inputs; NaN wins over all
inline void max_real(double* x, const double* y, int n, const element_parameters&) {
    for (int i = 0; i < n; ++i) x[i] = y[i] > x[i] || y[i] != y[i] ? y[i] : x[i];
}
inline void max_whole(std::int64_t* x, const std::int64_t* y, int n, const element_parameters& p) {
    for (int i = 0; i < n; ++i) x[i] = less(x[i], y[i], p.unsigned64) ? y[i] : x[i];
}
inline status max_run(run_context& c) { return variadic_elementwise(c, max_real, max_whole, 1); }
inline void min_real(double* x, const double* y, int n, const element_parameters&) {
    for (int i = 0; i < n; ++i) x[i] = y[i] < x[i] || y[i] != y[i] ? y[i] : x[i];
}
inline void min_whole(std::int64_t* x, const std::int64_t* y, int n, const element_parameters& p) {
    for (int i = 0; i < n; ++i) x[i] = less(y[i], x[i], p.unsigned64) ? y[i] : x[i];
}
inline status min_run(run_context& c) { return variadic_elementwise(c, min_real, min_whole, 1); }

// Sum-1,6,8,13: x0 + x1 + ...; Mean-1,6,8,13: that by the number of inputs
inline void sum_real(double* x, const double* y, int n, const element_parameters&) {
    for (int i = 0; i < n; ++i) x[i] += y[i];
}
inline status sum_run(run_context& c) { return variadic_elementwise(c, sum_real, nullptr, 1); }
inline status mean_run(run_context& c) { return variadic_elementwise(c, sum_real, nullptr, 1.0 / c.inputs); }

// The inputs that hold the extreme share dy evenly, as torch.maximum has it for two.
inline status extreme_gradient(gradient_context& c) {
    emitter& e = c.build;
    const int count = static_cast<int>(c.n.inputs.size());
    if (count == 1) return c.give(0, c.dy()), status();
    std::vector<value_id> masks;
    value_id holders = no_value;
    for (int i = 0; i < count; ++i) {
        masks.push_back(cast_to(c, e.apply("Equal", {c.in(i), c.out()}), e.type(c.out())));
        holders = holders == no_value ? masks.back() : e.add(holders, masks.back());
    }
    const value_id share = e.div(c.dy(), holders);
    for (int i = 0; i < count; ++i)
        if (c.wants(i)) c.give_summed(i, e.mul(share, masks[static_cast<std::size_t>(i)]));
    return {};
}
inline status sum_gradient(gradient_context& c) {
    for (int i = 0; i < static_cast<int>(c.n.inputs.size()); ++i)
        if (c.wants(i)) c.give_summed(i, c.dy());
    return {};
}
inline status mean_gradient(gradient_context& c) {
    const value_id share = scaled(c, c.dy(), 1.0 / static_cast<double>(c.n.inputs.size()));
    for (int i = 0; i < static_cast<int>(c.n.inputs.size()); ++i)
        if (c.wants(i)) c.give_summed(i, share);
    return {};
}

inline op_table elementwise_variadic_ops() {
    static constexpr op_row rows[] = {
        onnx("Max")
            .inputs_from(1)
            .functions(variadic_number_infer, max_run)
            .elementwise()
            .commutes()
            .attributes("consumed_inputs:is")
            .problems("f32[2,3,17] f32[2,3,17]; f32[2,3] f32[3] f32[]; u64[5] u64[5]; i8[7]; f16[0,2] f16[2]"),
        onnx("Min")
            .inputs_from(1)
            .functions(variadic_number_infer, min_run)
            .elementwise()
            .commutes()
            .attributes("consumed_inputs:is")
            .problems("f32[2,3,17] f32[2,3,17]; f32[2,3] f32[3] f32[]; u64[5] u64[5]; i8[7]; f16[0,2] f16[2]"),
        onnx("Sum")
            .inputs_from(1)
            .functions(variadic_real_infer, sum_run)
            .elementwise()
            .commutes()
            .weights_from(0)
            .widens()
            .attributes("consumed_inputs:is")
            .problems("f32[2,3,17] f32[2,3,17]; f32[2,3] f32[3] f32[]; f64[5]; f16[0,2] f16[2]"),
        onnx("Mean")
            .inputs_from(1)
            .functions(variadic_real_infer, mean_run)
            .elementwise()
            .commutes()
            .attributes("consumed_inputs:is")
            .problems("f32[2,3,17] f32[2,3,17]; f32[2,3] f32[3] f32[]; f64[5]; f16[0,2] f16[2]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table elementwise_variadic_gradients() {
    static constexpr gradient_row rows[] = {
        {"Max", "", extreme_gradient},
        {"Min", "", extreme_gradient},
        {"Sum", "", sum_gradient},
        {"Mean", "", mean_gradient},
    };
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
