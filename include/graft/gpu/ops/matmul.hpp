// Matrix products by cuBLASLt: MatMul, Gemm, graft's MatMul with its epilogue, and the gradient of a weight.
#pragma once

#include "../libraries/cublaslt.hpp"
#include "../lower/decompose.hpp"
#include "../lower/layouts.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Rows of MatMul and Gemm, and of graft's MatMul and MatMulGradWeight (whose sum over the rows is cuBLASLt's own: `shards` has no
/// meaning on a device). Values are row-major: float32, float16, bfloat16, with sums in float32, or float64.
///
/// Of epilogues, a bias along the last axis, a residual before the activation, ReLU and the approximate GELU are taken; the others
/// are refused, so that the caller splits them off into a node of their own. graft's MatMul may have attributes here (gpu/decompose.hpp): "scale",
/// a factor of the product, before all else; "exact" (MatMul of ai.onnx too), which keeps TF32 away.
library_table matmul_rows();
/// Gemm whose C cuBLASLt does not add: a product, and its scaled sum with C.
decomposition_table matmul_decompositions();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/matmul.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

inline const char* check_product_values(const kernel_query& q, matrix_product& p) {
    const dtype t = q.in[0].type;
    p.type = t;
    p.result = q.out[0].type;
    if (t != dtype::float32 && t != dtype::float16 && t != dtype::bfloat16 && t != dtype::float64)
        return "cuBLASLt multiplies float32, float16, bfloat16 and float64";
    if (q.in[1].type != t) return "its factors differ in type";
    if (p.result != t && (t == dtype::float64 || p.result != dtype::float32)) return "the result has neither the type of the factors nor float32";
    if (q.in[0].elements() == 0 || q.in[1].elements() == 0 || q.out[0].elements() == 0) return "it is empty";
    for (int i = 0; i < q.inputs; ++i)
        if (q.has(i) && !is_row_major(q.in[i].extents, q.in_layout[i])) return "its values are not row-major";
    return is_row_major(q.out[0].extents, q.out_layout[0]) ? nullptr : "its values are not row-major";
}

// Dimensions before the matrices, folded into one stride where both factors walk them evenly; one more may be left to loop over.
inline const char* fold_batches(const shape& a, const shape& b, matrix_product& p) {
    const std::int64_t a_matrix = p.m * p.k, b_matrix = p.k * p.n;
    std::int64_t extents[2] = {1, 1}, as[2] = {0, 0}, bs[2] = {0, 0}, a_step = a_matrix, b_step = b_matrix;
    int used = 0;
    for (int d = 3; d <= std::max(a.rank(), b.rank()); ++d) {
        const std::int64_t ae = a.at(-d), be = b.at(-d), e = ae == 1 ? be : ae, a_now = ae == 1 ? 0 : a_step, b_now = be == 1 ? 0 : b_step;
        a_step *= ae, b_step *= be;
        if (e == 1) continue;
        if (used && a_now == as[used - 1] * extents[used - 1] && b_now == bs[used - 1] * extents[used - 1])
            extents[used - 1] *= e;
        else if (used == 2)
            return "its batches are broadcast in more than one way";
        else
            extents[used] = e, as[used] = a_now, bs[used] = b_now, ++used;
    }
    p.batch = extents[0], p.a_stride = as[0], p.b_stride = bs[0];
    p.outer = extents[1], p.a_outer = as[1], p.b_outer = bs[1];
    if (p.batch > 1 && p.b_stride == 0 && p.a_stride == a_matrix && !p.trans_a) p.m *= p.batch, p.batch = 1, p.a_stride = 0;
    constexpr std::int64_t most_calls = 64;
    if (p.outer > most_calls || p.batch > INT32_MAX) return "its batches are too many";
    return nullptr;
}

inline shape matrix_of_row(shape s) noexcept {
    if (s.rank() == 1) s.insert(0, 1);
    return s;
}
inline shape matrix_of_column(shape s) noexcept {
    if (s.rank() == 1) s.push_back(1);
    return s;
}

inline const char* read_bias(const kernel_query& q, int input, matrix_product& p) {
    if (!q.has(input)) return nullptr;
    if (q.in[input].elements() != p.n || q.in[input].extents.back() != p.n) return "its bias is not one number for each column";
    if (q.in[input].type != p.result || p.type == dtype::float64) return "cuBLASLt has no bias of that type";
    p.bias = input;
    return nullptr;
}

// Sizes of op(A) * op(B) of at least two axes.
inline const char* read_factors(const shape& a, const shape& b, const shape& y, matrix_product& p) {
    p.m = p.trans_a ? a.at(-1) : a.at(-2);
    p.k = p.trans_a ? a.at(-2) : a.at(-1);
    p.n = p.trans_b ? b.at(-2) : b.at(-1);
    if (p.k != (p.trans_b ? b.at(-1) : b.at(-2))) return "its shapes do not fit";
    const std::int64_t m = p.m;
    if (const char* refused = fold_batches(a, b, p)) return refused;
    return checked_mul(checked_mul(p.m, p.n), p.batch * p.outer) == y.elements() && y.elements() % m == 0 ? nullptr : "its shapes do not fit";
}

inline const char* read_matmul(const kernel_query& q, matrix_product& p) {
    if (const char* refused = check_product_values(q, p)) return refused;
    ops::matmul_plan plan;
    if (!ops::plan_matmul(q, q.in[0].extents, q.in[1].extents, plan).ok() || plan.result != q.out[0].extents) return "its shapes do not fit";
    return read_factors(matrix_of_row(q.in[0].extents), matrix_of_column(q.in[1].extents), q.out[0].extents, p);
}

inline const char* read_fused_matmul(const kernel_query& q, matrix_product& p) {
    if (const char* refused = check_product_values(q, p)) return refused;
    if (q.in[0].extents.rank() < 2 || q.in[1].extents.rank() < 2) return "its factors are no matrices";
    p.trans_a = q.integer("transA", 0) != 0;
    p.trans_b = q.integer("transB", 0) != 0;
    p.alpha = static_cast<double>(q.real("scale", 1));
    if (const char* refused = read_factors(q.in[0].extents, q.in[1].extents, q.out[0].extents, p)) return refused;
    if (const char* refused = read_bias(q, 2, p)) return refused;
    p.act = static_cast<activation>(q.integer("activation", 0));
    if (!matmul_epilogue_supported(p.act) || (p.act != activation::none && p.type == dtype::float64)) return "cuBLASLt has not its activation";
    const std::int64_t residual = q.integer("residual", 0);
    if (!residual) return nullptr;
    if (residual == 2 && p.act != activation::none) return "cuBLASLt adds no residual behind the activation";
    if (!q.has(3) || q.in[3].extents != q.out[0].extents || q.in[3].type != p.result) return "its residual has another shape or type";
    p.c = 3;
    p.beta = 1;
    return nullptr;
}

inline const char* read_gemm(const kernel_query& q, matrix_product& p) {
    if (const char* refused = check_product_values(q, p)) return refused;
    ops::gemm_plan plan;
    if (!ops::plan_gemm(q, plan).ok() || q.out[0].extents != shape{plan.m, plan.n}) return "its shapes do not fit";
    p.trans_a = plan.trans_a;
    p.trans_b = plan.trans_b;
    p.m = plan.m, p.n = plan.n, p.k = plan.k;
    p.alpha = static_cast<double>(q.real("alpha", 1));
    const double beta = static_cast<double>(q.real("beta", 1));
    if (!q.has(2) || beta == 0) return nullptr;
    const shape& c = q.in[2].extents;
    if (c.elements() == p.m * p.n) {
        if (q.in[2].type != p.result) return "C differs from the result in type";
        p.c = 2;
        p.beta = beta;
        return nullptr;
    }
    if (beta != 1) return "its bias is scaled";
    return read_bias(q, 2, p);
}

// Of Gemm with a C that is broadcast in another way than along the rows, or along them and scaled, or of float64.
inline bool adds_gemm_apart(const op_context& c) {
    if (!c.has(2) || !is_float(c.in[0].type) || c.real("beta", 1) == 0.0f) return false;
    const shape &bias = c.in[2].extents, &y = c.out[0].extents;
    for (int i = 0; i < c.inputs; ++i)
        if (elements_of(c.in[i].extents) <= 0) return false;
    if (y.rank() != 2 || bias.elements() == y.elements()) return false;
    return bias.back() != y[1] || bias.elements() != y[1] || c.real("beta", 1) != 1.0f || c.in[0].type == dtype::float64;
}
// The product and what is added to it are rounded once, to the type of the result.
inline const char* decompose_gemm(decomposition& d) {
    const op_context& c = d.c;
    const dtype type = c.in[0].type, sums = type == dtype::float64 ? type : dtype::float32;
    const double beta = static_cast<double>(c.real("beta", 1));
    const value_id y = d.product(d.in[0], c.integer("transA", 0) != 0, d.in[1], c.integer("transB", 0) != 0, sums, static_cast<double>(c.real("alpha", 1)));
    value_id bias = d.cast(d.in[2], sums);
    if (beta != 1) bias = d.build.mul(bias, d.build.number(beta, bias));
    d.out[0] = d.cast(d.build.add(y, bias), type);
    return nullptr;
}

inline const char* read_matmul_grad_weight(const kernel_query& q, matrix_product& p) {
    if (const char* refused = check_product_values(q, p)) return refused;
    const bool transposed = q.integer("transposed", 0) != 0;
    const shape &x = q.in[0].extents, &dy = q.in[1].extents;
    if (x.rank() != 2 || dy.rank() != 2 || x[0] != dy[0]) return "its shapes do not fit";
    p.a = transposed ? 1 : 0;
    p.b = 1 - p.a;
    p.trans_a = true;
    p.k = x[0];
    p.m = q.in[p.a].extents[1];
    p.n = q.in[p.b].extents[1];
    return q.out[0].extents == shape{p.m, p.n} ? nullptr : "its shapes do not fit";
}

template <const char* (*Read)(const kernel_query&, matrix_product&)>
inline const char* refuse_product(const kernel_query& q) {
    matrix_product p;
    return Read(q, p);
}
template <const char* (*Read)(const kernel_query&, matrix_product&)>
inline result<std::unique_ptr<library_kernel>> make_product_of(const kernel_query& q, const libraries& with) {
    matrix_product p;
    if (const char* refused = Read(q, p)) return fail(errc::op_unsupported, graft::location(q.n), refused);
    if (!with.cublaslt)
        return fail(errc::device_unavailable, graft::location(q.n),
                    "cuBLASLt is not loaded: install the CUDA libraries; `graft doctor` tells where they are looked for");
    return make_product(q, with, p);
}

}  // namespace detail

GRAFT_INLINE library_table matmul_rows() {
    using namespace detail;
    static constexpr library_row rows[] = {
        {"MatMul", "", refuse_product<read_matmul>, make_product_of<read_matmul>},
        {"MatMul", "graft", refuse_product<read_fused_matmul>, make_product_of<read_fused_matmul>},
        {"Gemm", "", refuse_product<read_gemm>, make_product_of<read_gemm>},
        {"MatMulGradWeight", "graft", refuse_product<read_matmul_grad_weight>, make_product_of<read_matmul_grad_weight>},
    };
    return rows;
}

GRAFT_INLINE decomposition_table matmul_decompositions() {
    static constexpr decomposition_row rows[] = {{"Gemm", "", detail::decompose_gemm, true, detail::adds_gemm_apart}};
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
