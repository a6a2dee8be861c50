// What training adds to activations: gradients by what they gave, graft.ReluGrad and graft.ClipGrad, or by what they were given, graft.ActivationGrad.
#pragma once

#include "activation.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// graft.ReluGrad-1: dx = y > 0 ? dy : 0. graft.ClipGrad-1: dx = min < y < max ? dy : 0
inline status masked_grad_infer(infer_context& c) {
    GRAFT_TRY(check_same_type(c, 0, 1));
    if (c.in[0].extents != c.in[1].extents) return c.fail_shapes("the gradient must have the shape of the output");
    return real_infer(c);
}
inline void masked_grad_real(double* dy, const double* y, int n, const element_parameters& p) {
    for (int i = 0; i < n; ++i) dy[i] = y[i] > p.a && y[i] < p.b ? dy[i] : 0;
}
// The bounds as the operator before had them, or values at a bound would pass.
inline status masked_grad_kernel(run_context& c, double low, double high) {
    element_parameters p;
    p.a = rounded_to(c.in[1].type, low);
    p.b = rounded_to(c.in[1].type, high);
    return binary_elementwise(c, c.in[1].extents, masked_grad_real, nullptr, p);
}
inline status relu_grad_run(run_context& c) { return masked_grad_kernel(c, 0, HUGE_VAL); }
inline status clip_grad_run(run_context& c) {
    return masked_grad_kernel(c, static_cast<double>(c.real("min", -HUGE_VALF)), static_cast<double>(c.real("max", HUGE_VALF)));
}

// graft.ActivationGrad-1: dx = dy * act'(x)
inline void activation_grad_real(double* dy, const double* x, int n, const element_parameters& p) {
    const activation_entry::function slope = activation_entries[p.k].slope;
    for (int i = 0; i < n; ++i) dy[i] *= slope(x[i], p.a, p.b);
}
inline status activation_grad_infer(infer_context& c) {
    const std::int64_t kind = c.integer("activation", 0);
    if (kind < 0 || kind >= activation_count) return c.fail(errc::op_attribute, "activation %lld is none that is known", kind);
    return masked_grad_infer(c);
}
inline status activation_grad_run(run_context& c) {
    element_parameters p;
    p.k = c.integer("activation", 0);
    p.a = static_cast<double>(c.real("alpha", 0));
    p.b = static_cast<double>(c.real("beta", 0));
    return binary_elementwise(c, c.in[1].extents, activation_grad_real, nullptr, p);
}

inline op_table activation_training_ops() {
    static constexpr op_row rows[] = {
        own("ReluGrad")
            .inputs(2)
            .functions(masked_grad_infer, relu_grad_run)
            .elementwise()
            .problems("f32[3,17] f32[3,17]; f64[] f64[]; f16[5] f16[5]; bf16[0,4] bf16[0,4]"),
        own("ClipGrad")
            .inputs(2)
            .functions(masked_grad_infer, clip_grad_run)
            .elementwise()
            .attributes("max:f min:f")
            .problems("f32[3,17] f32[3,17] min=-1 max=1; f32[5] f32[5] min=0; f64[4] f64[4] max=0.5; f16[0] f16[0]"),
        own("ActivationGrad")
            .inputs(2)
            .functions(activation_grad_infer, activation_grad_run)
            .elementwise()
            .attributes("activation:i alpha:f beta:f")
            .problems(
                "f32[3,17] f32[3,17] activation=3 alpha=0.1; f32[3,17] f32[3,17] activation=4; f32[3,17] f32[3,17] activation=5; f32[3,17] f32[3,17]~-5:5 "
                "activation=6 alpha=0.2 beta=0.5; "
                "f32[3,17] f32[3,17]~-5:5 activation=7; f32[3,17] f32[3,17] activation=8; f32[3,17] f32[3,17]~-5:5 activation=9; f32[3,17] f32[3,17] "
                "activation=10; "
                "f32[3,17] f32[3,17] activation=11 alpha=1.5; f32[3,17] f32[3,17]~-30:30 activation=12; f32[3,17] f32[3,17]~-30:30 activation=13; f16[5] "
                "f16[5] "
                "activation=4; f64[0,2] f64[0,2] activation=4"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
