// The kernel of graft.MatMulGradWeight: the gradient of a linear layer's weights.
#pragma once

#include "../../training/bfloat16_grad.hpp"
#include "../../training/matmul_grad.hpp"
#include "saved.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

struct matmul_grad_parameters {
    product_sum_problem p;
    bool transposed, bfloat16;
};

// X [N,K] and dY [N,M] to [K,M], or [M,K] where `transposed`: the operands change places. Null, or why it is not taken.
inline const char* product_sum_of(const node& n, const shape& x, const shape& dy, product_sum_problem& p) {
    if (x.rank() != 2 || dy.rank() != 2 || x[0] != dy[0] || x.elements() == 0 || dy.elements() == 0) return "its operands are no two matrices of one height";
    const std::int64_t count = integer_of(n, "shards", shards().count);
    if (!shards::legal(count)) return "its shards are no power of two up to 256";
    const bool transposed = integer_of(n, "transposed", 0) != 0;
    p.n = x[0], p.rows = transposed ? dy[1] : x[1], p.columns = transposed ? x[1] : dy[1];
    p.tree.count = static_cast<int>(count);
    p.each = integer_of(n, "each", 1);
    return nullptr;
}

inline const char* choose_matmul_grad_weight(const kernel_query& q, kernel_choice& choice) {
    if (!q.all_row_major() || q.inputs < 2 || !is_saved(q.in[0]) || !is_saved(q.in[1]) || q.out[0].type != dtype::float32)
        return "it is not float32, row-major";
    product_sum_problem p;
    if (const char* refused = product_sum_of(q.n, q.in[0].extents, q.in[1].extents, p)) return refused;
    const bool transposed = integer_of(q.n, "transposed", 0) != 0;
    const bool bfloat16 = integer_of(q.n, "bfloat16", 0) != 0;
    if (!bfloat16 && !q.all_float32()) return "its kernel reads float32";
    choice.workspace_bytes = bfloat16 ? bfloat16_grad_workspace(bfloat16_grad_of(q.level, p)) : product_sum_workspace_bytes(q.level, p);
    choice.set(matmul_grad_parameters{p, transposed, bfloat16});
    choice.note = bfloat16 ? "product summed over the batch, operands in bfloat16" : "product summed over the batch";
    return nullptr;
}
inline void run_matmul_grad_weight(const kernel_call& c) {
    const auto& p = c.parameters<matmul_grad_parameters>();
    const int left = p.transposed ? 1 : 0;
    if (!p.bfloat16) return run_product_sum(c.level, p.p, c.input(left), c.input(1 - left), c.output(0), c.workspace, c.pool);
    bfloat16_grad_args of = bfloat16_grad_of(c.level, p.p);
    run_bfloat16_grad(c.level, of, saved_input(c, left), saved_input(c, 1 - left), c.output(0), c.workspace, c.pool);
}

inline kernel_rows matmul_grad_kernel_rows() {
    static constexpr kernel_row rows[] = {{"MatMulGradWeight", "graft", choose_matmul_grad_weight, run_matmul_grad_weight, false}};
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
