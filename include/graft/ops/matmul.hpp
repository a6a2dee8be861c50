// Matrix products: MatMul and Gemm, and the plain loop that the integer and quantized products share.
#pragma once

#include "window.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// A batch of matrix products as numpy.matmul has it. Offsets of every batch into A and B come from walks over `batch`.
struct matmul_plan {
    std::int64_t m = 1, n = 1, k = 1;
    shape batch, batch_a, batch_b;
    shape result;
};

/// Shapes of a matrix product; vectors become matrices of one row or column, which the result then lacks.
GRAFT_NOINLINE inline status plan_matmul(const op_context& c, const shape& a, const shape& b, matmul_plan& p) {
    if (a.rank() < 1 || b.rank() < 1) return c.fail_shapes("a matrix product needs vectors or matrices");
    p.k = a.back();
    p.m = a.rank() > 1 ? a.at(-2) : 1;
    p.n = b.rank() > 1 ? b.back() : 1;
    if (p.k != (b.rank() > 1 ? b.at(-2) : b[0])) return c.fail_shapes("the inner dimensions of the matrix product differ");
    p.batch_a = shape::from(a.begin(), a.begin() + std::max(0, a.rank() - 2));
    p.batch_b = shape::from(b.begin(), b.begin() + std::max(0, b.rank() - 2));
    const int rank = std::max(p.batch_a.rank(), p.batch_b.rank());
    for (int i = 0; i < rank; ++i) {
        const std::int64_t x = p.batch_a.at(i - rank), y = p.batch_b.at(i - rank);
        if (x != y && x != 1 && y != 1) return c.fail_shapes("the batch dimensions of the matrix product differ");
        p.batch.push_back(x == 1 ? y : x);
    }
    p.result = p.batch;
    if (a.rank() > 1) p.result.push_back(p.m);
    if (b.rank() > 1) p.result.push_back(p.n);
    return {};
}

/// sums[j] = sum over k of a[k * a_step] * b[k * b_row + (first + j) * b_column], in order of k.
template <class T>
GRAFT_NOINLINE void matmul_row(const T* a, std::int64_t a_step, const T* b, std::int64_t b_row, std::int64_t b_column,
                               std::int64_t k, std::int64_t first, std::int64_t count, T* sums) {
    for (std::int64_t j = 0; j < count; ++j) sums[j] = T(0);
    if (b_column == 1 && count > 4) {
        for (std::int64_t i = 0; i < k; ++i) {
            const T factor = a[i * a_step];
            const T* row = b + i * b_row + first;
            for (std::int64_t j = 0; j < count; ++j) sums[j] += factor * row[j];
        }
        return;
    }
    for (std::int64_t j = 0; j < count; ++j) {
        const T* column = b + (first + j) * b_column;
        T sum = T(0);
        for (std::int64_t i = 0; i < k; ++i) sum += a[i * a_step] * column[i * b_row];
        sums[j] = sum;
    }
}

/// Where finished runs of a product go: row `row` of batch `batch`, columns [first, first + count).
template <class T> struct matmul_store {
    run_context& c;
    const matmul_plan& p;
    void (*store)(const matmul_store& self, std::int64_t batch, std::int64_t row, std::int64_t first, std::int64_t count,
                  T* sums);
    const void* extra;
};

/// Runs a planned product of whole row-major matrices; every row of the result is a task.
template <class T>
GRAFT_NOINLINE status multiply_matrices(run_context& c, const matmul_plan& p, const T* a, const T* b,
                                        const matmul_store<T>& out) {
    if (elements_of(p.result) == 0) return {};
    strided_walk walk_a(p.batch, p.batch_a), walk_b(p.batch, p.batch_b);
    for (std::int64_t batch = 0; batch < p.batch.elements(); ++batch, walk_a.next(), walk_b.next()) {
        const T *left = a + walk_a.offset * p.m * p.k, *right = b + walk_b.offset * p.k * p.n;
        parallel_for(c.pool, p.n ? p.m : 0, [&](std::int64_t row) {
            constexpr std::int64_t block = 512;
            T sums[block];
            for (std::int64_t first = 0; first < p.n; first += block) {
                const std::int64_t count = std::min(block, p.n - first);
                matmul_row(left + row * p.k, std::int64_t(1), right, p.n, std::int64_t(1), p.k, first, count, sums);
                out.store(out, batch, row, first, count, sums);
            }
        });
    }
    return {};
}

// MatMul-1,9,13: numpy.matmul
inline status need_matmul_type(const op_context& c, int i) {
    const dtype t = c.in[i].type;
    if (t == dtype::int32 || t == dtype::int64 || t == dtype::uint32 || t == dtype::uint64) return {};
    return need_arithmetic_float(c, i);
}
inline status matmul_infer(infer_context& c) {
    matmul_plan p;
    GRAFT_TRY(need_matmul_type(c, 0));
    GRAFT_TRY(need_same_type(c, 1, 0));
    GRAFT_TRY(plan_matmul(c, c.in[0].extents, c.in[1].extents, p));
    return c.set(0, c.in[0].type, p.result);
}
template <class T>
inline void store_product(const matmul_store<T>& self, std::int64_t batch, std::int64_t row, std::int64_t first,
                          std::int64_t count, T* sums) {
    store_widened(self.c.out[0].type, self.c.out[0].data, (batch * self.p.m + row) * self.p.n + first, count, sums);
}
template <class T> inline status matmul_run_as(run_context& c, const matmul_plan& p) {
    widened<T> a, b;
    GRAFT_TRY(widen(c, c.in[0], a));
    GRAFT_TRY(widen(c, c.in[1], b));
    return multiply_matrices<T>(c, p, a.data, b.data, {c, p, store_product<T>, nullptr});
}
inline status matmul_run(run_context& c) {
    matmul_plan p;
    GRAFT_TRY(plan_matmul(c, c.in[0].extents, c.in[1].extents, p));
    return is_float(c.in[0].type) ? matmul_run_as<double>(c, p) : matmul_run_as<std::uint64_t>(c, p);
}

// Gemm-1,6,7,9,11,13: Y = alpha * A' * B' + beta * C, C broadcast to [M, N]
struct gemm_plan {
    std::int64_t m, n, k;
    bool trans_a, trans_b;
    shape bias;
};
inline status plan_gemm(const op_context& c, gemm_plan& p) {
    const shape &a = c.in[0].extents, &b = c.in[1].extents;
    if (a.rank() != 2 || b.rank() != 2) return c.fail_shapes("A and B must be matrices");
    p.trans_a = c.integer("transA", 0) != 0;
    p.trans_b = c.integer("transB", 0) != 0;
    p.m = a[p.trans_a];
    p.k = a[!p.trans_a];
    p.n = b[!p.trans_b];
    if (p.k != b[p.trans_b]) return c.fail_shapes("the inner dimensions of A and B differ");
    if (!c.has(2)) return {};
    p.bias = c.in[2].extents;
    const shape target{p.m, p.n};
    if (broadcasts_to(p.bias, target) && (c.version() >= 7 || c.integer("broadcast", 0) || p.bias == target)) return {};
    return c.fail_shapes("C cannot be broadcast to the product");
}
inline status gemm_infer(infer_context& c) {
    gemm_plan p;
    GRAFT_TRY(need_matmul_type(c, 0));
    GRAFT_TRY(need_same_type(c, 1, 0));
    GRAFT_TRY(need_same_type(c, 2, 0));
    GRAFT_TRY(plan_gemm(c, p));
    return c.set(0, c.in[0].type, {p.m, p.n});
}
// Integers go by doubles where alpha or beta is not 1: ONNX gives these as floats.
inline double scale_and_add(double product, double alpha, double bias, double beta) {
    return alpha * product + (beta == 0 ? 0.0 : beta * bias);
}
inline std::uint64_t scale_and_add(std::uint64_t product, double alpha, std::uint64_t bias, double beta) {
    return static_cast<std::uint64_t>(cut(alpha * static_cast<double>(static_cast<std::int64_t>(product)) +
                                          beta * static_cast<double>(static_cast<std::int64_t>(bias))));
}
template <class T> inline status gemm_run_as(run_context& c, const gemm_plan& p) {
    widened<T> a, b, bias;
    GRAFT_TRY(widen(c, c.in[0], a));
    GRAFT_TRY(widen(c, c.in[1], b));
    if (c.has(2)) GRAFT_TRY(widen(c, c.in[2], bias));
    const double alpha = static_cast<double>(c.real("alpha", 1)), beta = static_cast<double>(c.real("beta", 1));
    const bool scaled = alpha != 1 || beta != 1;
    const std::int64_t bias_row = p.bias.rank() < 2 || p.bias.at(-2) == 1 ? 0 : p.bias.back(),
                       bias_column = p.bias.back() == 1 ? 0 : 1;
    parallel_for(c.pool, p.n ? p.m : 0, [&](std::int64_t row) {
        constexpr std::int64_t block = 512;
        T sums[block];
        for (std::int64_t first = 0; first < p.n; first += block) {
            const std::int64_t count = std::min(block, p.n - first);
            matmul_row(a.data + (p.trans_a ? row : row * p.k), p.trans_a ? p.m : std::int64_t(1), b.data,
                       p.trans_b ? std::int64_t(1) : p.n, p.trans_b ? p.k : std::int64_t(1), p.k, first, count, sums);
            for (std::int64_t j = 0; j < count; ++j) {
                const T c_value = bias.data ? bias.data[row * bias_row + (first + j) * bias_column] : T(0);
                if (!scaled)
                    sums[j] += c_value;
                else
                    sums[j] = scale_and_add(sums[j], alpha, c_value, bias.data ? beta : 0.0);
            }
            store_widened(c.out[0].type, c.out[0].data, row * p.n + first, count, sums);
        }
    });
    return {};
}
inline status gemm_run(run_context& c) {
    gemm_plan p;
    GRAFT_TRY(plan_gemm(c, p));
    return is_float(c.in[0].type) ? gemm_run_as<double>(c, p) : gemm_run_as<std::uint64_t>(c, p);
}

inline op_table matmul_ops() {
    static constexpr op_row rows[] = {
        GRAFT_OP("MatMul", 1, 0, 2, 2, 1, 1, matmul_infer, matmul_run, op_flag::none, "",
                 "f32[7,13] f32[13,17]; f32[3,1,5,4] f32[2,4,6]; f32[9] f32[9,5]; f32[5,9] f32[9]; f32[9] f32[9]; f32[0,4] "
                 "f32[4,3]; f32[2,0] f32[0,3]; "
                 "i32[3,4] i32[4,5]; f32[1,64] f32[64,100]"),
        GRAFT_OP("Gemm", 1, 0, 2, 3, 1, 1, gemm_infer, gemm_run, op_flag::none, "alpha:f beta:f broadcast:i transA:i transB:i",
                 "f32[7,13] f32[13,17] f32[17]; f32[13,7] f32[17,13] f32[7,1] transA=1 transB=1 alpha=0.5 beta=2; f32[3,5] "
                 "f32[5,4]; f32[1,64] f32[100,64] f32[100] transB=1; "
                 "f32[0,5] f32[5,4] f32[4]; i32[3,5] i32[5,4] i32[3,4]; f32[3,5] f32[5,4] f32(2)"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return {rows, sizeof rows / sizeof rows[0]};
}

} // namespace ops
GRAFT_END_NAMESPACE
