// The kernel of graft.MatMul.
#pragma once

#include "../../ops/product_batches.hpp"
#include "../bfloat16_batch.hpp"
#include "../gemm.hpp"
#include "attributes.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The product of two shapes of rank >= 2, batches broadcast as in numpy. False where the batches cannot be walked in two steps.
inline GRAFT_COLD bool gemm_problem_of(const node& n, const shape& a, const shape& b, const shape& y, gemm_problem& p) {
    p.trans_a = integer_of(n, "transA", 0) != 0;
    p.trans_b = integer_of(n, "transB", 0) != 0;
    p.m = y.at(-2);
    p.n = y.at(-1);
    p.k = p.trans_a ? a.at(-2) : a.at(-1);
    if (p.m == 0 || p.n == 0 || p.k == 0) return false;
    p.c_strides[1] = p.m * p.n;
    ops::product_batches batches;
    if (!ops::join_batches(a, b, y, batches)) return false;
    for (int i = 0; i < 2; ++i) p.batch[i] = batches.extents[i], p.a_strides[i] = batches.a_strides[i], p.b_strides[i] = batches.b_strides[i];
    p.c_strides[0] = p.c_strides[1] * p.batch[1];
    p.residual_strides[0] = p.c_strides[0], p.residual_strides[1] = p.c_strides[1];
    p.ep = epilogue_of(n);
    p.packed_b = integer_of(n, "packed", 0) != 0;
    p.bfloat16 = integer_of(n, "bfloat16", 0) != 0;
    if (n.inputs.size() > 2 && n.inputs[2] != no_value) p.bias = bias_kind::column;
    return true;
}

// What a matrix B that is packed at every run, as weights that learn are, takes of the workspace.
inline std::int64_t unpacked_bfloat16_bytes(const gemm_problem& p) { return p.packed_b ? 0 : packed_bfloat16_bytes(bfloat16_weights_of(p)); }

// Whether that is worth it, however many rows a batch has: parts of one are computed as the whole is.
inline bool learning_product_in_bfloat16(const gemm_problem& p) { return p.k >= bfloat16_block && p.n >= bfloat16_block; }

// Whether each product of a batch has a B of its own.
inline bool has_own_matrices(const gemm_problem& p) { return wanted("MatMul") && !p.packed_b && (p.b_strides[0] != 0 || p.b_strides[1] != 0); }

struct product_parameters {
    gemm_problem problem;
    bool narrow_a, narrow_c;  // matrices in bfloat16
};
inline GRAFT_COLD const char* choose_product(const kernel_query& q, kernel_choice& choice) {
    gemm_problem p;
    shape b = q.in[1].extents;
    // A packed operand is bytes; the node keeps the shape that it had.
    if (const attribute* unpacked = q.n.find("unpacked")) b = shape::from(unpacked->integers.begin(), unpacked->integers.end());
    const bool narrow_a = q.in[0].type == dtype::bfloat16, narrow_c = q.out[0].type == dtype::bfloat16;
    if (!q.all_row_major() || !gemm_problem_of(q.n, q.in[0].extents, b, q.out[0].extents, p)) return "its batches do not fit";
    if ((narrow_a || narrow_c) && !(p.bfloat16 && !has_own_matrices(p) && takes_narrow_matrices(p, narrow_a, narrow_c))) return "it reads or writes float32";
    choice.workspace_bytes = !p.bfloat16           ? gemm_workspace_bytes(q.level, p)
                             : has_own_matrices(p) ? bfloat16_batch_workspace(p)
                                                   : bfloat16_product_workspace(p) + unpacked_bfloat16_bytes(p);
    choice.note = p.bfloat16 ? "matrix product, operands in bfloat16" : p.packed_b ? "matrix product, packed weights" : "matrix product";
    choice.set(product_parameters{p, narrow_a, narrow_c});
    return nullptr;
}
inline void run_product(const kernel_call& c) {
    const auto& [p, narrow_a, narrow_c] = c.parameters<product_parameters>();
    if (!p.bfloat16) return run_gemm(c.level, p, c.input(0), c.input(1), c.input(2), c.input(3), c.output(0), c.workspace, c.pool);
    if (has_own_matrices(p)) return run_bfloat16_batch(c.level, p, c.input(0), c.input(1), c.input(2), c.input(3), c.output(0), c.workspace, c.pool);
    const std::int64_t bytes = unpacked_bfloat16_bytes(p);
    if (bytes) pack_bfloat16(c.level, bfloat16_weights_of(p), c.input(1), 0, p.n, c.workspace, c.pool);
    narrow_images narrow;
    if (narrow_a) narrow.x = c.in[0].as<const std::uint16_t>();
    if (narrow_c) narrow.y = c.out[0].as<std::uint16_t>();
    run_bfloat16_product(c.level, p, c.input(0), bytes ? c.workspace : c.in[1].data, c.input(2), c.input(3), c.output(0),
                         static_cast<char*>(c.workspace) + bytes, c.pool, narrow);
}

// A product of matrices that lie within others, where lowering has found them.
struct strided_product {
    gemm_problem problem;
    std::int64_t a_offset = 0, b_offset = 0;  // elements
};
template <>
struct problem_fields<strided_product> {
    template <class Problem, class Field>
    static void visit(Problem& s, const Field& field) {
        auto& [m, n, k, trans_a, trans_b, packed_b, bfloat16, ep, alpha, bias, lda, ldb, ldc, ld_residual, batch, a, b, c, residual] = s.problem;
        const auto each = [&](auto&... fields) { (field(fields), ...); };
        each(m, n, k, trans_a, trans_b, packed_b, bfloat16, ep.act, ep.alpha, ep.beta, ep.residual, ep.residual_after_activation, alpha, bias, lda, ldb, ldc,
             ld_residual);
        each(batch[0], batch[1], a[0], a[1], b[0], b[1], c[0], c[1], residual[0], residual[1], s.a_offset, s.b_offset);
    }
};
inline GRAFT_COLD const char* choose_strided_product(const kernel_query& q, kernel_choice& choice) {
    strided_product s;
    if (!problem_in(q.n, s) || !q.all_row_major() || !q.all_float32()) return "it is not float32, row-major";
    choice.workspace_bytes = s.problem.bfloat16 ? bfloat16_batch_workspace(s.problem) : gemm_workspace_bytes(q.level, s.problem);
    choice.note = s.problem.bfloat16 ? "matrix products where they lie, operands in bfloat16" : "matrix products where they lie";
    choice.set(s);
    return nullptr;
}
inline void run_strided_product(const kernel_call& c) {
    const auto& s = c.parameters<strided_product>();
    const auto run = [&](auto product) {
        product(c.level, s.problem, c.input(0) + s.a_offset, c.input(1) + s.b_offset, c.input(2), c.input(3), c.output(0), c.workspace, c.pool);
    };
    s.problem.bfloat16 ? run(run_bfloat16_batch) : run(run_gemm);
}

inline kernel_rows matmul_kernel_rows() {
    constexpr bool used = wanted("MatMul") || wanted("Gemm");
    static constexpr kernel_row rows[] = {
        {"MatMul", "graft", used ? choose_product : nullptr, used ? run_product : nullptr, false},
        {"StridedMatMul", "graft", wanted("MatMul") ? choose_strided_product : nullptr, wanted("MatMul") ? run_strided_product : nullptr, false},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
