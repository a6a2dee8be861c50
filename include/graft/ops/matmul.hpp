// Matrix products: MatMul and Gemm, and the plain loop that the integer and quantised products share.
#pragma once

#include "gradient_common.hpp"
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
GRAFT_NOINLINE void matmul_row(const T* a, std::int64_t a_step, const T* b, std::int64_t b_row, std::int64_t b_column, std::int64_t k, std::int64_t first,
                               std::int64_t count, T* sums) {
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
template <class T>
struct matmul_store {
    run_context& c;
    const matmul_plan& p;
    void (*store)(const matmul_store& self, std::int64_t batch, std::int64_t row, std::int64_t first, std::int64_t count, T* sums);
    const void* extra;
};

/// Runs a planned product of whole row-major matrices; every row of the result is a task.
template <class T>
GRAFT_NOINLINE status multiply_matrices(run_context& c, const matmul_plan& p, const T* a, const T* b, const matmul_store<T>& out) {
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
inline status matmul_infer(infer_context& c) {
    matmul_plan p;
    GRAFT_TRY(check_wide_number(c, 0));
    GRAFT_TRY(check_same_type(c, 1, 0));
    GRAFT_TRY(plan_matmul(c, c.in[0].extents, c.in[1].extents, p));
    return c.set(0, c.in[0].type, p.result);
}
template <class T>
inline void store_product(const matmul_store<T>& self, std::int64_t batch, std::int64_t row, std::int64_t first, std::int64_t count, T* sums) {
    store_widened(self.c.out[0].type, self.c.out[0].data, (batch * self.p.m + row) * self.p.n + first, count, sums);
}
template <class T>
inline status matmul_run_as(run_context& c, const matmul_plan& p) {
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
    GRAFT_TRY(check_wide_number(c, 0));
    GRAFT_TRY(check_same_type(c, 1, 0));
    GRAFT_TRY(check_same_type(c, 2, 0));
    GRAFT_TRY(plan_gemm(c, p));
    return c.set(0, c.in[0].type, {p.m, p.n});
}
// Integers go by doubles where alpha or beta is not 1: ONNX gives these as floats.
inline double scale_and_add(double product, double alpha, double bias, double beta) { return alpha * product + (beta == 0 ? 0.0 : beta * bias); }
inline std::uint64_t scale_and_add(std::uint64_t product, double alpha, std::uint64_t bias, double beta) {
    return static_cast<std::uint64_t>(
        cut(alpha * static_cast<double>(static_cast<std::int64_t>(product)) + beta * static_cast<double>(static_cast<std::int64_t>(bias))));
}
template <class T>
inline status gemm_run_as(run_context& c, const gemm_plan& p) {
    widened<T> a, b, bias;
    GRAFT_TRY(widen(c, c.in[0], a));
    GRAFT_TRY(widen(c, c.in[1], b));
    if (c.has(2)) GRAFT_TRY(widen(c, c.in[2], bias));
    const double alpha = static_cast<double>(c.real("alpha", 1)), beta = static_cast<double>(c.real("beta", 1));
    const bool scaled = alpha != 1 || beta != 1;
    const std::int64_t bias_row = p.bias.rank() < 2 || p.bias.at(-2) == 1 ? 0 : p.bias.back(), bias_column = p.bias.back() == 1 ? 0 : 1;
    parallel_for(c.pool, p.n ? p.m : 0, [&](std::int64_t row) {
        constexpr std::int64_t block = 512;
        T sums[block];
        for (std::int64_t first = 0; first < p.n; first += block) {
            const std::int64_t count = std::min(block, p.n - first);
            matmul_row(a.data + (p.trans_a ? row : row * p.k), p.trans_a ? p.m : std::int64_t(1), b.data, p.trans_b ? std::int64_t(1) : p.n,
                       p.trans_b ? p.k : std::int64_t(1), p.k, first, count, sums);
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

// x with its last two axes swapped.
inline value_id transposed_matrices(gradient_context& c, value_id x) {
    const int rank = c.extents(x).rank();
    std::vector<std::int64_t> perm;
    for (int d = 0; d < rank; ++d) perm.push_back(d < rank - 2 ? d : 2 * rank - 3 - d);
    return c.build.apply("Transpose", {x}, {integers_attribute("perm", std::move(perm))});
}
// The rows of x as one matrix.
inline value_id rows_of(gradient_context& c, value_id x) {
    const shape s = c.extents(x);
    return c.build.reshape(x, shape{s.product(0, s.rank() - 1), s.back()});
}
// Of a weight [K, N] that the rows of x are multiplied with: the sum over all rows by the tree of shards. [N, K] where `transposed`.
inline value_id weight_gradient(gradient_context& c, value_id x, value_id dy, bool transposed) {
    // Shards end between samples, each of which may have several rows: tokens, windows.
    const graph& g = c.build.target();
    const std::int64_t rows = c.extents(x)[0];
    std::int64_t samples = 0;
    if (!g.inputs.empty() && g.at(g.inputs[0]).has_shape && g.at(g.inputs[0]).extents.rank() > 0) samples = g.at(g.inputs[0]).extents[0];
    const std::int64_t each = samples > 0 && rows % samples == 0 ? std::max<std::int64_t>(1, rows / samples) : 1;
    return c.build.apply_graft("MatMulGradWeight", {x, dy},
                               {integer_attribute("shards", c.shards), integer_attribute("transposed", transposed), integer_attribute("each", each)});
}

// dA = dY * B', dB = A' * dY; vectors are matrices of one row or column.
inline status matmul_gradient(gradient_context& c) {
    emitter& e = c.build;
    shape a = c.extents(c.in(0)), b = c.extents(c.in(1)), y = c.extents(c.out());
    if (b.rank() == 1) {
        b.push_back(1);
        y.push_back(1);
    }
    if (a.rank() == 1) {
        a.insert(0, 1);
        y.insert(y.rank() - 1, 1);
    }
    const value_id left = e.reshape(c.in(0), a), right = e.reshape(c.in(1), b), dy = e.reshape(c.dy(), y);
    if (b.rank() == 2) {  // a weight
        if (c.wants(0)) c.give(0, e.reshape(e.apply("Gemm", {rows_of(c, dy), right}, {integer_attribute("transB", 1)}), c.extents(c.in(0))));
        if (c.wants(1)) c.give(1, e.reshape(weight_gradient(c, rows_of(c, left), rows_of(c, dy), false), c.extents(c.in(1))));
        return {};
    }
    if (c.wants(0)) c.give(0, e.reshape(c.sum_to(e.apply("MatMul", {dy, transposed_matrices(c, right)}), a), c.extents(c.in(0))));
    if (c.wants(1)) c.give(1, e.reshape(c.sum_to(e.apply("MatMul", {transposed_matrices(c, left), dy}), b), c.extents(c.in(1))));
    return {};
}
inline status gemm_gradient(gradient_context& c) {
    emitter& e = c.build;
    const bool trans_a = c.integer("transA", 0) != 0, trans_b = c.integer("transB", 0) != 0;
    const float alpha = c.real("alpha", 1);
    const value_id a = c.in(0), b = c.in(1), dy = c.dy();
    if (c.wants(0) && trans_a)
        c.give(0, e.apply("Gemm", {b, dy}, {real_attribute("alpha", alpha), integer_attribute("transA", trans_b), integer_attribute("transB", 1)}));
    else if (c.wants(0))
        c.give(0, e.apply("Gemm", {dy, b}, {real_attribute("alpha", alpha), integer_attribute("transB", !trans_b)}));
    if (c.wants(1)) c.give(1, scaled(c, weight_gradient(c, trans_a ? transposed_matrices(c, a) : a, dy, trans_b), static_cast<double>(alpha)));
    if (c.wants(2)) c.give_summed(2, scaled(c, dy, static_cast<double>(c.real("beta", 1))));
    return {};
}

inline std::int64_t gemm_work(const op_context& c) {
    const shape& a = c.in[0].extents;
    return c.has(1) && a.rank() == 2 ? checked_mul(elements_of(c.out[0].extents), a[c.integer("transA", 0) ? 0 : 1]) : 0;
}

// How they carry a batch: see batch_rules.hpp.
// The product of two operands of numpy's matmul, at inputs a and b.
inline GRAFT_COLD bool carry_product(batch_carrier& c, int a, int b) {
    const int rank[] = {c.extents(a).rank(), c.extents(b).rank()}, out_rank = c.output_extents().rank();
    const bool vector[] = {rank[0] == 1, rank[1] == 1};
    if (c.carries(a) && (vector[0] || c.state(a).axis == rank[0] - 1)) return c.conflict("it sums over the samples");
    if (c.carries(b) && (vector[1] || c.state(b).axis == rank[1] - 2)) return c.conflict("it sums over the samples");
    const bool row = c.carries(a) && c.state(a).axis == rank[0] - 2, column = c.carries(b) && c.state(b).axis == rank[1] - 1;
    if (row || column) {
        if (c.carries(a) && c.carries(b)) return c.conflict("its inputs hold the samples along different axes");
        const int axis = column ? out_rank - 1 : out_rank - (vector[1] ? 1 : 2);
        return c.answer(0, {axis, c.state(row ? a : b).outer});
    }
    // Along the axes of many products: both have them at one place from the right.
    int from_right = 0;
    batch_axis where;
    std::int64_t extent = 0;
    for (int i : {a, b}) {
        if (!c.carries(i)) continue;
        const int here = c.state(i).axis - c.extents(i).rank();
        if (from_right == 0) from_right = here, where = c.state(i), extent = c.extent(i);
        if (here != from_right || c.state(i).outer != where.outer || c.extent(i) != extent)
            return c.conflict("its inputs hold the samples along different axes");
    }
    for (int i : {a, b}) {
        const int axis = c.extents(i).rank() + from_right;
        if (!c.carries(i) && axis >= 0 && !c.fits_beside(i, axis, extent, where.outer)) return false;
    }
    const int shift = (vector[0] ? 1 : 0) + (vector[1] ? 1 : 0);  // axes that the output lacks
    return c.answer(0, {out_rank + from_right + shift, where.outer});
}
inline bool carry_matmul(batch_carrier& c) { return c.only(3) && carry_product(c, 0, 1); }
inline GRAFT_COLD bool carry_gemm(batch_carrier& c) {
    const bool a = c.carries(0), b = c.carries(1);
    if (a && c.state(0).axis != (c.integer("transA", 0) ? 1 : 0)) return c.conflict("it sums over the samples");
    if (b && c.state(1).axis != (c.integer("transB", 0) ? 0 : 1)) return c.conflict("it sums over the samples");
    if (a && b) return c.conflict("its inputs hold the samples along different axes");
    batch_axis where{a ? 0 : 1, c.state(a ? 0 : 1).outer};
    if (!a && !b) where = {c.state(2).axis + 2 - c.extents(2).rank(), c.state(2).outer};
    if (!c.has(2)) return c.answer(0, where);
    const int axis = where.axis + c.extents(2).rank() - 2;
    const std::int64_t extent = c.output_extents()[where.axis];
    if (c.carries(2) && (c.state(2).axis != axis || c.state(2).outer != where.outer || c.extent(2) != extent))
        return c.conflict("its inputs hold the samples along different axes");
    if (!c.carries(2) && axis >= 0 && !c.fits_beside(2, axis, extent, where.outer)) return false;
    return c.answer(0, where);
}

inline op_table matmul_ops() {
    static constexpr op_row rows[] = {
        onnx("MatMul")
            .in_eight_bits(eight_bits::multiplies)
            .inputs(2)
            .functions(matmul_infer, matmul_run)
            .carries(carry_matmul)
            .combines()
            .plays(op_role::product)
            .weights(0, 1)
            .widens()
            .work(matmul_work)
            .problems("f32[7,13] f32[13,17]; f32[3,1,5,4] f32[2,4,6]; f32[9] f32[9,5]; f32[5,9] f32[9]; f32[9] f32[9]; f32[0,4] "
                      "f32[4,3]; f32[2,0] f32[0,3]; "
                      "i32[3,4] i32[4,5]; f32[1,64] f32[64,100]"),
        onnx("Gemm")
            .in_eight_bits(eight_bits::multiplies)
            .inputs(2, 3)
            .functions(gemm_infer, gemm_run)
            .carries(carry_gemm)
            .combines()
            .plays(op_role::product)
            .weights(0, 1, 2)
            .widens()
            .work(gemm_work)
            .attributes("alpha:f beta:f broadcast:i transA:i transB:i")
            .problems("f32[7,13] f32[13,17] f32[17]; f32[13,7] f32[17,13] f32[7,1] transA=1 transB=1 alpha=0.5 beta=2; f32[3,5] "
                      "f32[5,4]; f32[1,64] f32[100,64] f32[100] transB=1; "
                      "f32[0,5] f32[5,4] f32[4]; i32[3,5] i32[5,4] i32[3,4]; f32[3,5] f32[5,4] f32(2)"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table matmul_gradients() {
    static constexpr gradient_row rows[] = {{"MatMul", "", matmul_gradient}, {"Gemm", "", gemm_gradient}};
    return rows;
}

// graft.MatMulGradWeight-1: dW[k, m] = sum over n of X[n, k] * dY[n, m], by the tree of `shards` over n, in samples of `each` rows; dW[m, k] where
// `transposed`.
inline status matmul_grad_weight_infer(infer_context& c) {
    const shape &x = c.in[0].extents, &dy = c.in[1].extents;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(check_same_type(c, 1, 0));
    if (x.rank() != 2 || dy.rank() != 2 || x[0] != dy[0]) return c.fail_shapes("X and dY must be matrices of as many rows");
    if (!shards::legal(c.integer("shards", 1))) return c.fail(errc::op_attribute, "%lld shards are no power of two in range", c.integer("shards", 1));
    if (c.integer("each", 1) < 1 || x[0] % c.integer("each", 1))
        return c.fail(errc::op_attribute, "%lld rows each do not make up the rows", c.integer("each", 1));
    const bool transposed = c.integer("transposed", 0) != 0;
    return c.set(0, c.in[0].type, transposed ? shape{dy[1], x[1]} : shape{x[1], dy[1]});
}
inline status matmul_grad_weight_run(run_context& c) {
    widened<double> x, dy;
    GRAFT_TRY(widen(c, c.in[0], x));
    GRAFT_TRY(widen(c, c.in[1], dy));
    const std::int64_t each = c.integer("each", 1), n = c.in[0].extents[0] / each, k = c.in[0].extents[1], m = c.in[1].extents[1];
    const shards cut{static_cast<int>(c.integer("shards", 1))};
    const bool transposed = c.integer("transposed", 0) != 0;
    parallel_for(c.pool, m ? k : 0, [&](std::int64_t i) {
        for (std::int64_t j = 0; j < m; ++j) {
            const double sum = sum_shards_as(c.out[0].type == dtype::float32, cut.count, [&](int s) {
                double part = 0;
                for (std::int64_t r = cut.first(n, s) * each; r < cut.last(n, s) * each; ++r) part += x.data[r * k + i] * dy.data[r * m + j];
                return part;
            });
            store_from_double(c.out[0].type, c.out[0].data, transposed ? j * k + i : i * m + j, 1, &sum);
        }
    });
    return {};
}

inline op_table matmul_training_ops() {
    static constexpr op_row rows[] = {
        own("MatMulGradWeight")
            .inputs(2)
            .functions(matmul_grad_weight_infer, matmul_grad_weight_run)
            .exact_outputs_from(0)
            .sums_batch()
            .attributes("each:i shards:i transposed:i")
            .problems("f32[13,7] f32[13,17] shards=4; f32[15,7] f32[15,17] shards=4 each=3; f32[13,7] f32[13,17] shards=8 transposed=1; f32[1,64] f32[1,100] "
                      "shards=8; f32[64,33] f32[64,5] "
                      "shards=1; f32[300,40] "
                      "f32[300,24] shards=16 transposed=1; "
                      "f64[5,3] f64[5,2] shards=2; f16[4,3] f16[4,5] shards=4; bf16[4,3] bf16[4,5]; f32[0,3] f32[0,2] shards=8"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
