// CausalConvWithState: depthwise 1-D convolution that looks back only, and hands on the positions that the next call needs.
#pragma once

#include "window.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace ops {

// CausalConvWithState-27: P = concat(past_state or zeros, input) along the length; output[b,c,t] = act(bias[c] + sum over j of
// weight[c,0,j] * P[b,c,t+j]); present_state = the last k - 1 positions of P
inline status causal_conv_infer(infer_context& c) {
    if (c.in[0].type == dtype::float64) return c.fail(errc::op_type, "float64 is not allowed");
    GRAFT_TRY(check_real(c, 0));
    for (int i = 1; i < 4; ++i) GRAFT_TRY(check_same_type(c, i, 0));
    const shape &x = c.in[0].extents, &w = c.in[1].extents;
    if (x.rank() != 3 || w.rank() != 3 || w[0] != x[1] || w[1] != 1 || w[2] < 1)
        return c.fail_shapes("input must be [batch, channels, length] and weight [channels, 1, k]");
    GRAFT_TRY(check_vector(c, 2, x[1]));
    const shape state{x[0], x[1], w[2] - 1};
    if (c.has(3) && c.in[3].extents != state) return c.fail_shapes("past_state must be [batch, channels, k - 1]");
    if (!c.is("activation", "none", "none") && !c.is("activation", "silu", "") && !c.is("activation", "swish", ""))
        return c.fail(errc::op_attribute, "activation is none of none, silu, swish");
    if (checked_add(x[2], w[2]) < 0) return c.fail_shapes("the length overflows");
    GRAFT_TRY(c.set(0, c.in[0].type, x));
    return c.set(1, c.in[0].type, state);
}
inline status causal_conv_run(run_context& c) {
    const shape& x = c.in[0].extents;
    const std::int64_t channels = x[1], length = x[2], k = c.in[1].extents[2], state = k - 1, padded = length + state;
    if (is_empty(c.in[0]) && state == 0) return {};
    const bool silu = !c.is("activation", "none", "none");
    buffer memory;
    double* p = nullptr;
    GRAFT_TRY(scratch_of(c, checked_add(padded, checked_add(k, length)), memory, p));
    double *w = p + padded, *y = w + k;
    for (std::int64_t i = 0; i < x[0] * channels; ++i) {
        if (c.has(3))
            load_as_double(c.in[3].type, c.in[3].data, i * state, state, p);
        else
            std::fill(p, p + state, 0.0);
        load_as_double(c.in[0].type, c.in[0].data, i * length, length, p + state);
        load_as_double(c.in[1].type, c.in[1].data, i % channels * k, k, w);
        const double bias = c.has(2) ? c.in[2].real(i % channels) : 0.0;
        for (std::int64_t t = 0; t < length; ++t) {
            double sum = bias;
            for (std::int64_t j = 0; j < k; ++j) sum += w[j] * p[t + j];
            y[t] = silu ? sum / (1 + std::exp(-sum)) : sum;
        }
        if (c.wants(0)) store_from_double(c.out[0].type, c.out[0].data, i * length, length, y);
        if (c.wants(1)) store_from_double(c.out[1].type, c.out[1].data, i * state, state, p + length);
    }
    return {};
}

inline op_table causal_conv_ops() {
    static constexpr op_row rows[] = {
        onnx("CausalConvWithState")
            .opsets(27)
            .inputs(2, 4)
            .outputs(2)
            .functions(causal_conv_infer, causal_conv_run)
            .combines()
            .attributes("activation:s")
            .problems("f32[2,3,7] f32[3,1,4] f32[3] f32[2,3,3] activation=silu; f32[1,2,1] f32[2,1,3]; f32[0,2,5] f32[2,1,1]; "
                      "f16[1,3,5] f16[3,1,2] f16[3]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
