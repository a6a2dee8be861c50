// Normalisations by neighbours and by a norm: LRN, LpNormalization; and their gradients.
#pragma once

#include "window_gradient.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace ops {

// LRN-1,13: Y = X / (bias + alpha / size * sum of X^2 over `size` neighbouring channels)^beta
inline status lrn_infer(infer_context& c) {
    GRAFT_TRY(check_real(c, 0));
    if (c.in[0].extents.rank() < 2) return c.fail_shapes("the input needs batch and channels");
    if (c.integer("size", 0) < 1) return c.fail(errc::op_attribute, "size is %lld, but must be at least 1", c.integer("size", 0));
    return c.set(0, c.in[0].type, c.in[0].extents);
}
inline status lrn_run(run_context& c) {
    if (is_empty(c.in[0])) return {};
    const shape& x = c.in[0].extents;
    const std::int64_t channels = x[1], plane = x.product(2, x.rank()), size = c.integer("size", 1);
    // No more neighbours than there are channels, so that the loop is bounded by the input.
    const std::int64_t before = std::min((size - 1) / 2, channels), after = std::min(size - 1 - (size - 1) / 2, channels);
    const double factor = static_cast<double>(c.real("alpha", 1e-4f)) / static_cast<double>(size), beta = static_cast<double>(c.real("beta", 0.75f));
    const double bias = static_cast<double>(c.real("bias", 1.0f));
    widened<double> in;
    GRAFT_TRY(widen(c, c.in[0], in));
    parallel_for(c.pool, x[0] * channels, [&](std::int64_t task) {
        const std::int64_t channel = task % channels;
        const double *own = in.data + task * plane, *image = own - channel * plane;
        const std::int64_t first = std::max<std::int64_t>(0, channel - before), last = std::min(channels - 1, channel + after);
        for (std::int64_t i = 0; i < plane; ++i) {
            double sum = 0;
            for (std::int64_t k = first; k <= last; ++k) sum += image[k * plane + i] * image[k * plane + i];
            const double y = own[i] / std::pow(bias + factor * sum, beta);
            store_from_double(c.out[0].type, c.out[0].data, task * plane + i, 1, &y);
        }
    });
    return {};
}

// LpNormalization-1,22: X / (sum of |X|^p)^(1/p) along `axis`; 0 where the norm is 0
inline status lp_norm_infer(infer_context& c) {
    int axis = 0;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(c.axis(c.integer("axis", -1), c.in[0].extents.rank(), axis));
    const std::int64_t p = c.integer("p", 2);
    if (p != 1 && p != 2) return c.fail(errc::op_attribute, "p is %lld, but must be 1 or 2", p);
    return c.set(0, c.in[0].type, c.in[0].extents);
}
inline status lp_norm_run(run_context& c) {
    if (is_empty(c.in[0])) return {};
    const shape& x = c.in[0].extents;
    int axis = 0;
    GRAFT_TRY(c.axis(c.integer("axis", -1), x.rank(), axis));
    const std::int64_t n = x[axis], inner = x.product(axis + 1, x.rank()), outer = x.product(0, axis);
    const bool squares = c.integer("p", 2) == 2;
    widened<double> in;
    GRAFT_TRY(widen(c, c.in[0], in));
    for (std::int64_t o = 0; o < outer; ++o)
        for (std::int64_t k = 0; k < inner; ++k) {
            const std::int64_t first = o * n * inner + k;
            double norm = 0;
            for (std::int64_t i = 0; i < n; ++i) {
                const double v = in.data[first + i * inner];
                norm += squares ? v * v : std::fabs(v);
            }
            if (squares) norm = std::sqrt(norm);
            for (std::int64_t i = 0; i < n; ++i) {
                const double y = norm == 0 ? 0 : in.data[first + i * inner] / norm;
                store_from_double(c.out[0].type, c.out[0].data, first + i * inner, 1, &y);
            }
        }
    return {};
}

// With b = bias + alpha / size * sum of X^2 over the neighbours: dX = dY * b^-beta - 2 * alpha * beta / size * X * sum over those whose
// neighbour X is of dY * X * b^(-beta - 1). Sums over channels are AveragePool's along an axis of its own.
inline status lrn_gradient(gradient_context& c) {
    const shape x = c.extents(c.in(0));
    if (x.elements() == 0) return c.give(0, c.build.zeros(x, c.in(0))), status();
    const std::int64_t size = c.integer("size", 1), before = (size - 1) / 2, after = size - 1 - before;
    const double alpha = static_cast<double>(c.real("alpha", 1e-4f)), beta = static_cast<double>(c.real("beta", 0.75f)),
                 bias = static_cast<double>(c.real("bias", 1.0f));
    const shape parted{x[0], 1, x[1], x.product(2, x.rank())};
    const auto average = [&](value_id v, std::int64_t begin, std::int64_t end) {
        return c.build.apply(
            "AveragePool", {v},
            {integers_attribute("kernel_shape", {size, 1}), integers_attribute("pads", {begin, 0, end, 0}), integer_attribute("count_include_pad", 1)});
    };
    const value_id flat = c.build.reshape(c.in(0), parted), b = shifted(c, scaled(c, average(c.build.mul(flat, flat), before, after), alpha), bias);
    const value_id g = c.build.mul(c.build.reshape(c.dy(), parted), c.build.apply("Pow", {b, c.build.number(-beta, b)}));
    const value_id shared = average(c.build.div(c.build.mul(g, flat), b), after, before);
    c.give(0, c.build.reshape(c.build.sub(g, c.build.mul(scaled(c, flat, 2 * alpha * beta), shared)), x));
    return {};
}

// With the norm n: dX = (dY - Y * sum(dY * Y)) / n for p = 2, (dY - sign(X) * sum(dY * Y)) / n for p = 1; 0 where n is 0
inline status lp_norm_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    const op_context forward = forward_context(c, in);
    int axis = 0;
    GRAFT_TRY(forward.axis(forward.integer("axis", -1), c.extents(c.in(0)).rank(), axis));
    const bool squares = c.integer("p", 2) == 2;
    const value_id norm = c.build.apply(squares ? "ReduceL2" : "ReduceL1", {c.in(0), c.build.integers({axis})}, {integer_attribute("keepdims", 1)});
    const value_id zero = c.build.apply("Equal", {norm, c.build.number(0, norm)});
    const value_id inverse =
        c.build.apply("Where", {zero, c.build.number(0, norm), c.build.apply("Reciprocal", {c.build.apply("Where", {zero, c.build.number(1, norm), norm})})});
    const value_id along = sum_along(c, c.build.mul(c.dy(), c.out()), axis);
    c.give(0, c.build.mul(c.build.sub(c.dy(), c.build.mul(squares ? c.out() : c.build.apply("Sign", {c.in(0)}), along)), inverse));
    return {};
}

inline gradient_table norm_local_gradients() {
    static constexpr gradient_row rows[] = {{"LRN", "", lrn_gradient}, {"LpNormalization", "", lp_norm_gradient}};
    return rows;
}

inline op_table norm_local_ops() {
    static constexpr op_row rows[] = {
        onnx("LRN")
            .inputs(1)
            .functions(lrn_infer, lrn_run)
            .carries(carry_first_axis<1>)
            .combines()
            .widens()
            .attributes("alpha:f beta:f bias:f size:i")
            .problems("f32[2,9,3,5] size=5; f32[1,4,3] size=2 alpha=0.1 beta=0.5 bias=2; f32[1,3,2,2] size=9"),
        onnx("LpNormalization")
            .inputs(1)
            .functions(lp_norm_infer, lp_norm_run)
            .carries(carry_axis_last)
            .attributes("axis:i p:i")
            .problems("f32[3,5,4]; f32[3,5,4] axis=1 p=1; f32[0,4]; f32[7] axis=0"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
