// The kernels of graft.AttentionTraining and graft.AttentionGrad, which lowering makes of attention and of its backward part.
#pragma once

#include "../../training/attention_grad.hpp"
#include "saved.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

template <>
struct problem_fields<attention_grad_problem> {
    template <class Problem, class Field>
    static void visit(Problem& p, const Field& field) {
        const auto each = [&](auto&... fields) { (field(fields), ...); };
        each(p.batch[0], p.batch[1], p.queries, p.keys, p.width, p.value_width, p.of_probabilities, p.of_q, p.of_k, p.of_v, p.bfloat16);
        for (auto* lie : {&p.dy, &p.q, &p.k, &p.v, &p.dq, &p.dk, &p.dv}) each(lie->offset, lie->row, lie->strides[0], lie->strides[1]);
    }
};

template <>
struct problem_fields<attention_problem> {
    template <class Problem, class Field>
    static void visit(Problem& p, const Field& field) {
        const auto each = [&](auto&... fields) { (field(fields), ...); };
        each(p.batch[0], p.batch[1], p.queries, p.keys, p.width, p.value_width, p.of_scores, p.of_y, p.bfloat16);
        for (auto* lie : {&p.q, &p.k, &p.v, &p.y}) each(lie->offset, lie->row, lie->strides[0], lie->strides[1]);
    }
};

// Q, K and V, which may be of bfloat16 where products round them; to what they make, and the probabilities, where they are kept.
inline const char* choose_attention(const kernel_query& q, kernel_choice& choice) {
    attention_problem p;
    const bool kept = q.outputs > 1;
    if (!problem_in(q.n, p) || !q.all_row_major() || q.inputs != 3 || q.out[0].type != dtype::float32 || (kept && !is_saved(q.out[1])))
        return "it is not float32, row-major";
    for (int i = 0; i < 3; ++i)
        if (q.in[i].type != dtype::float32 && !(p.bfloat16 && is_saved(q.in[i]))) return "it is not float32";
    p.narrow_q = q.in[0].type == dtype::bfloat16, p.narrow_k = q.in[1].type == dtype::bfloat16, p.narrow_v = q.in[2].type == dtype::bfloat16;
    p.own_probabilities = !kept || q.out[1].type == dtype::bfloat16;
    choice.workspace_bytes = attention_workspace(q.level, p);
    choice.set(p);
    choice.note = p.bfloat16 ? "head by head, operands in bfloat16" : "head by head";
    return nullptr;
}
inline void run_attention_kernel(const kernel_call& c) {
    run_attention(c.level, c.parameters<attention_problem>(), saved_input(c, 0), saved_input(c, 1), saved_input(c, 2), c.outputs > 1 ? c.out[1].data : nullptr,
                  c.output(0), c.workspace, c.pool);
}

// dY, the probabilities, Q, K and V; to the gradients of the last three, or to one matrix that they all lie in, which may be of bfloat16.
inline const char* choose_attention_grad(const kernel_query& q, kernel_choice& choice) {
    attention_grad_problem p;
    if (!problem_in(q.n, p) || !q.all_row_major() || q.inputs != 5 || q.in[0].type != dtype::float32) return "it is not float32, row-major";
    for (int i = 1; i < 5; ++i)
        if (!is_saved(q.in[i])) return "it is not float32";
    p.narrow_y = q.in[1].type == dtype::bfloat16, p.narrow_q = q.in[2].type == dtype::bfloat16;
    p.narrow_k = q.in[3].type == dtype::bfloat16, p.narrow_v = q.in[4].type == dtype::bfloat16;
    p.narrow_out = q.out[0].type == dtype::bfloat16;
    for (int i = 0; i < q.outputs; ++i)
        if (!is_saved(q.out[i]) || q.out[i].type != q.out[0].type) return "its results differ in type";
    choice.workspace_bytes = attention_grad_workspace(q.level, p);
    choice.set(p);
    choice.note = p.bfloat16 ? "head by head, operands in bfloat16" : "head by head";
    return nullptr;
}
inline void run_attention_grad_kernel(const kernel_call& c) {
    const auto result = [&](int i) { return c.out[c.outputs > 1 ? i : 0].data; };
    run_attention_grad(c.level, c.parameters<attention_grad_problem>(), c.input(0), saved_input(c, 1), saved_input(c, 2), saved_input(c, 3), saved_input(c, 4),
                       result(0), result(1), result(2), c.workspace, c.pool);
}

inline kernel_rows attention_kernel_rows() {
    static constexpr kernel_row rows[] = {{"AttentionTraining", "graft", choose_attention, run_attention_kernel, false},
                                          {"AttentionGrad", "graft", choose_attention_grad, run_attention_grad_kernel, false}};
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
