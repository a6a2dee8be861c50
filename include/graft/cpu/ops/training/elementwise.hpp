// Kernels of the gradients of activations.
#pragma once

#include "../../training/elementwise_grad.hpp"
#include "saved.hpp"

#include <limits>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

struct activation_grad_parameters {
    activation kind;
    float alpha, beta;
    std::int64_t elements;
};

// Gradient and function lie in the same layout, so what stands in the gaps of blocks meets what stands in gaps.
inline const char* refuse_gradient_operands(const kernel_query& q) {
    if (q.inputs < 2 || !float32_but_saved(q, 1)) return "it is not float32";
    if (q.in[0].extents != q.in[1].extents || q.in[0].extents != q.out[0].extents) return "its shapes differ";
    if (q.in_layout[0] != q.in_layout[1] || q.in_layout[0] != q.out_layout[0]) return "its operands lie differently";
    return nullptr;
}

inline const char* choose_relu_grad(const kernel_query& q, kernel_choice& choice) {
    if (const char* reason = refuse_gradient_operands(q)) return reason;
    choice.set(activation_grad_parameters{activation::relu, 0, 0, stored_elements(q.out[0], q.out_layout[0])});
    choice.note = "gradient by the result";
    return nullptr;
}
inline const char* choose_clip_grad(const kernel_query& q, kernel_choice& choice) {
    if (const char* reason = refuse_gradient_operands(q)) return reason;
    const float infinity = std::numeric_limits<float>::infinity();
    const float low = real_of(q.n, "min", -infinity), high = real_of(q.n, "max", infinity);
    choice.set(activation_grad_parameters{activation::clip, low, high, stored_elements(q.out[0], q.out_layout[0])});
    choice.note = "gradient by the result";
    return nullptr;
}
inline void run_masked_grad_kernel(const kernel_call& c) {
    const auto& p = c.parameters<activation_grad_parameters>();
    const gradient_mask mask = p.kind == activation::relu ? gradient_mask::relu : gradient_mask::clip;
    run_masked_grad(c.level, mask, p.alpha, p.beta, c.input(0), saved_input(c, 1), c.output(0), p.elements, c.pool);
}

inline const char* choose_activation_grad(const kernel_query& q, kernel_choice& choice) {
    if (const char* reason = refuse_gradient_operands(q)) return reason;
    const epilogue e = epilogue_of(q.n);
    choice.set(activation_grad_parameters{e.act, e.alpha, e.beta, stored_elements(q.out[0], q.out_layout[0])});
    choice.note = "gradient by the input";
    return nullptr;
}
inline void run_activation_grad_kernel(const kernel_call& c) {
    const auto& p = c.parameters<activation_grad_parameters>();
    run_activation_grad(c.level, p.kind, p.alpha, p.beta, c.input(0), saved_input(c, 1), c.output(0), p.elements, c.pool);
}

inline kernel_rows elementwise_grad_kernel_rows() {
    static constexpr kernel_row rows[] = {
        {"ReluGrad", "graft", choose_relu_grad, run_masked_grad_kernel, true},
        {"ClipGrad", "graft", choose_clip_grad, run_masked_grad_kernel, true},
        {"ActivationGrad", "graft", choose_activation_grad, run_activation_grad_kernel, true},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
