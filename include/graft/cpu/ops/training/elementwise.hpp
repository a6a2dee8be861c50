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

// Gradient and function lie in the same layout, so what stands in the gaps of blocks meets what stands in gaps. `gradients`: their type.
inline const char* refuse_gradient_operands(const kernel_query& q, dtype gradients = dtype::float32) {
    if (q.inputs < 2 || !is_saved(q.in[1]) || q.in[0].type != gradients || q.out[0].type != gradients) return "it is not float32";
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

// The gradients may be of bfloat16 where the function's input is. ActivationGradAgain makes what the function made once more, in bfloat16, behind its gradient.
inline const char* choose_activation_grad(const kernel_query& q, kernel_choice& choice) {
    const bool again = q.outputs > 1, kept = q.inputs > 1 && q.in[1].type == dtype::bfloat16;
    if (again && !(kept && q.out[1].type == dtype::bfloat16 && q.out_layout[1] == q.in_layout[1])) return "nothing was kept";
    if (const char* reason = refuse_gradient_operands(q, kept ? q.in[0].type : dtype::float32)) return reason;
    const epilogue e = epilogue_of(q.n);
    choice.set(activation_grad_parameters{e.act, e.alpha, e.beta, stored_elements(q.out[0], q.out_layout[0])});
    choice.note = again ? "gradient by the input, and the function again" : "gradient by the input";
    return nullptr;
}
inline void run_activation_grad_kernel(const kernel_call& c) {
    const auto& p = c.parameters<activation_grad_parameters>();
    std::uint16_t* const again = c.outputs > 1 ? c.out[1].as<std::uint16_t>() : nullptr;
    run_activation_grad(c.level, p.kind, p.alpha, p.beta, saved_input(c, 0), saved_input(c, 1), c.out[0].data, again, p.elements, c.pool);
}

inline kernel_rows elementwise_grad_kernel_rows() {
    static constexpr kernel_row rows[] = {
        {"ReluGrad", "graft", choose_relu_grad, run_masked_grad_kernel, true},
        {"ClipGrad", "graft", choose_clip_grad, run_masked_grad_kernel, true},
        {"ActivationGrad", "graft", choose_activation_grad, run_activation_grad_kernel, true},
        {"ActivationGradAgain", "graft", choose_activation_grad, run_activation_grad_kernel, true},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
