// Kernels of batch normalisation in training.
#pragma once

#include "../../training/norm_grad.hpp"
#include "saved.hpp"
#include "../../../core/decimal.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

// What the forward pass has applied, [2, C], as its output and as an input of its gradient, which makes of X again what the activation saw.
constexpr int applied_output = 7, applied_input = 9;

// What both passes have in common; `x` is the input that holds the images. It and the last one are of one type, all others are float32.
inline const char* norm_problem_of(const kernel_query& q, int x, int last_image_input, norm_problem& p) {
    if (q.in[0].type != dtype::float32 || !is_saved(q.in[x])) return "it is not float32";
    const shape& s = q.in[x].extents;
    if (s.rank() < 2 || s.elements() == 0) return "it is empty or has no channels";
    const std::int64_t count = integer_of(q.n, "shards", shards().count);
    if (!shards::legal(count)) return "its shards are no power of two up to 256";
    p.n = s[0], p.c = s[1], p.area = s.product(2, s.rank());
    p.blocked = q.in_layout[x] == layout::blocked;
    p.tree.count = static_cast<int>(count);
    p.epsilon = decimal_of(real_of(q.n, "epsilon", 1e-5f));
    p.momentum = decimal_of(real_of(q.n, "momentum", 0.9f));
    p.ep = epilogue_of(q.n);
    for (int i = 0; i < q.inputs; ++i) {
        if (!q.has(i)) continue;
        if (q.in[i].type != (i == x || i == last_image_input ? q.in[x].type : dtype::float32)) return "it is not float32";
        const bool image = i == 0 || i == x || i == last_image_input;
        const bool fits = image ? q.in[i].extents == s && q.in_layout[i] == q.in_layout[x]
                                : q.in[i].elements() == (i == applied_input ? 2 * p.c : p.c) && q.in_layout[i] == layout::row_major;
        if (!fits) return "its operands lie differently";
    }
    if (q.out_layout[0] != q.in_layout[x]) return "its operands lie differently";
    return nullptr;
}

inline const char* choose_batch_norm_training(const kernel_query& q, kernel_choice& choice) {
    norm_problem p;
    if (const char* reason = norm_problem_of(q, 0, 5, p)) return reason;
    if (q.wants(6) && p.ep.act > activation::clip) return "its result is not there before its activation";
    if (q.inputs < 5) return "its running statistics are left out";
    if (q.has(6)) return "its statistics are given";
    for (int i = 1; i < q.outputs; ++i)
        if (q.wants(i) && q.out_layout[i] != (i < 5 || i == applied_output ? layout() : q.in_layout[0])) return "its operands lie differently";
    choice.workspace_bytes = norm_workspace_bytes(q.level, p);
    if (choice.workspace_bytes < 0) return "its size overflows";
    choice.set(p);
    choice.note = p.blocked ? "statistics of blocks" : "statistics of planes";
    return nullptr;
}
inline void run_batch_norm_training_kernel(const kernel_call& c) {
    const auto out = [&](int i) { return i < c.outputs ? c.output(i) : nullptr; };
    const auto narrow = [&](int i) { return i < c.outputs ? c.out[i].as<std::uint16_t>() : nullptr; };
    c.failed = run_batch_norm_training(c.level, c.parameters<norm_problem>(),
                                       {c.input(0), c.input(1), c.input(2), c.input(3), c.input(4), c.input(5), out(0), out(1), out(2), out(3), out(4),
                                        narrow(5), narrow(6), out(applied_output)},
                                       c.workspace, c.pool, c.group);
}

inline const char* choose_batch_norm_grad(const kernel_query& q, kernel_choice& choice) {
    norm_problem p;
    if (const char* reason = norm_problem_of(q, 1, 5, p)) return reason;
    if (q.inputs < 5) return "its saved statistics are left out";
    if (q.has(6)) return "its sums are given";
    if (p.ep.act > activation::clip) return "its activation is neither relu nor clip";
    if (p.ep.act != activation::none && !q.has(5) && !q.has(applied_input)) return "its activation needs the result";
    for (int i = 1; i < q.outputs; ++i)
        if (q.wants(i) && q.out_layout[i] != (i == 3 ? q.in_layout[1] : layout())) return "its operands lie differently";
    choice.workspace_bytes = norm_workspace_bytes(q.level, p);
    if (choice.workspace_bytes < 0) return "its size overflows";
    choice.set(p);
    choice.note = p.blocked ? "gradient on blocks" : "gradient on planes";
    return nullptr;
}
inline void run_batch_norm_grad_kernel(const kernel_call& c) {
    const auto out = [&](int i) { return i < c.outputs ? c.output(i) : nullptr; };
    c.failed = run_batch_norm_grad(
        c.level, c.parameters<norm_problem>(),
        {c.input(0), c.input(2), c.input(3), c.input(4), saved_input(c, 1), saved_input(c, 5), out(0), out(1), out(2), out(3), c.input(applied_input)},
        c.workspace, c.pool, c.group);
}

inline kernel_rows norm_grad_kernel_rows() {
    static constexpr kernel_row rows[] = {
        {"BatchNormalizationTraining", "graft", choose_batch_norm_training, run_batch_norm_training_kernel, true},
        {"BatchNormalizationGrad", "graft", choose_batch_norm_grad, run_batch_norm_grad_kernel, true},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
