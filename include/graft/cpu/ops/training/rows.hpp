// Kernels of the gradients of softmax and of layer normalisation.
#pragma once

#include "../../training/rows_grad.hpp"
#include "../rows.hpp"
#include "saved.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

// Input 1 is what was kept.
inline const char* read_kept_rows(const kernel_query& q, bool to_the_end, rows_parameters& p) {
    return is_saved(q.in[1]) ? read_rows(q, 1, -1, to_the_end, p, 1) : "it is not float32";
}

inline const char* choose_softmax_grad(const kernel_query& q, kernel_choice& choice) {
    rows_parameters p{};
    if (const char* reason = read_kept_rows(q, false, p)) return reason;
    choice.set(p);
    choice.note = "rows";
    return nullptr;
}
inline void run_softmax_grad_kernel(const kernel_call& c) {
    const auto& p = c.parameters<rows_parameters>();
    run_softmax_grad(c.level, c.input(0), saved_input(c, 1), c.output(0), p.outer, p.n, p.inner, c.pool);
}

inline const char* choose_layer_norm_grad(const kernel_query& q, kernel_choice& choice) {
    rows_parameters p{};
    if (const char* reason = read_kept_rows(q, true, p)) return reason;
    if (q.has(4) && q.in[4].elements() != p.n) return "its scale is broadcast";
    choice.set(p);
    choice.note = "rows";
    return nullptr;
}
inline void run_layer_norm_grad_kernel(const kernel_call& c) {
    const auto& p = c.parameters<rows_parameters>();
    run_layer_norm_grad(c.level, {c.input(0), saved_input(c, 1), c.input(2), c.input(3), c.input(4), c.output(0), p.outer, p.n}, c.pool);
}

struct layer_norm_sums {
    rows_parameters rows;
    std::int64_t samples;
    shards tree;
};
inline const char* choose_layer_norm_grad_scale(const kernel_query& q, kernel_choice& choice) {
    layer_norm_sums p{};
    if (const char* reason = read_kept_rows(q, true, p.rows)) return reason;
    const std::int64_t count = integer_of(q.n, "shards", shards().count);
    if (!shards::legal(count)) return "its shards are no power of two up to 256";
    p.tree.count = static_cast<int>(count);
    p.samples = p.rows.n == q.in[1].elements() ? 1 : q.in[1].extents[0];
    choice.workspace_bytes = layer_norm_workspace_bytes(p.samples, p.rows.n, p.tree);
    if (choice.workspace_bytes < 0) return "its size overflows";
    choice.set(p);
    choice.note = "sums of columns";
    return nullptr;
}
inline void run_layer_norm_grad_scale_kernel(const kernel_call& c) {
    const auto& p = c.parameters<layer_norm_sums>();
    float* bias = c.outputs > 1 ? c.output(1) : nullptr;
    run_layer_norm_grad_scale(c.level, {c.input(0), saved_input(c, 1), c.input(2), c.input(3), nullptr, nullptr, p.rows.outer, p.rows.n}, p.samples, p.tree,
                              c.output(0), bias, c.workspace, c.pool);
}

inline kernel_rows rows_grad_kernel_rows() {
    static constexpr kernel_row rows[] = {
        {"SoftmaxGrad", "graft", choose_softmax_grad, run_softmax_grad_kernel, true},
        {"LayerNormalizationGrad", "graft", choose_layer_norm_grad, run_layer_norm_grad_kernel, true},
        {"LayerNormalizationGradScale", "graft", choose_layer_norm_grad_scale, run_layer_norm_grad_scale_kernel, false},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
