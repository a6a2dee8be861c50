// The gradients of softmax(of_scores * Q K^T) V by Q, K and V, head by head: what has a number for each pair of a query and a key stays in a task's caches.
#pragma once

#include "../../core/executor.hpp"
#include "../isa.hpp"
#include "attention.hpp"
#include "bfloat16_grad.hpp"
#include "rows_grad.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// As attention_problem; gradients are as what they are of, dy as the result.
struct attention_grad_problem {
    std::int64_t batch[2] = {1, 1}, queries = 0, keys = 0, width = 0, value_width = 0;
    head_matrices dy, q, k, v, dq, dk, dv;
    float of_probabilities = 1, of_q = 1, of_k = 1, of_v = 1;  ///< what the gradients by them are multiplied by
    bool bfloat16 = false;  ///< products are of pairs of it, on sets that have those; of_q and of_k are equal then, of_v is 1
    bool narrow_y = false, narrow_q = false, narrow_k = false, narrow_v = false, narrow_out = false;  ///< of bfloat16: y the probabilities, out the results
};

/// Bytes of workspace, aligned to 64: at most 16 tasks' caches, or 1 MiB.
std::int64_t attention_grad_workspace(isa set, const attention_grad_problem& problem);
/// dV = of_v * Y^T dY, dS = the gradient of softmax by of_probabilities * dY V^T, dQ = of_q * dS K, dK = of_k * dS^T Q. Bits are the same on any number of
/// threads, and, in float32, those of the products one by one.
void run_attention_grad(isa set, const attention_grad_problem& problem, const float* dy, const saved_activation& y, const saved_activation& q,
                        const saved_activation& k, const saved_activation& v, void* dq, void* dk, void* dv, void* workspace, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../dispatch.hpp"
#include "dispatch.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// What a task has of its own, in floats, and its four products.
struct attention_grad_plan {
    gemm_problem dv, probabilities, dq, dk;
    bool wide_y;
    std::int64_t scores, widened, result, room, floats, slots;

    attention_grad_plan(isa set, const attention_grad_problem& p) {
        dv = product_of(p.keys, p.value_width, p.queries, p.of_v);
        dv.trans_a = true, dv.ldb = p.dy.row, dv.ldc = row_of(p.dv, p.narrow_out, p.value_width);
        probabilities = product_of(p.queries, p.keys, p.value_width, p.of_probabilities);
        probabilities.trans_b = true, probabilities.lda = p.dy.row, probabilities.ldb = row_of(p.v, p.narrow_v, p.value_width);
        dq = product_of(p.queries, p.width, p.keys, p.of_q);
        dq.ldb = row_of(p.k, p.narrow_k, p.width), dq.ldc = row_of(p.dq, p.narrow_out, p.width);
        dk = product_of(p.keys, p.width, p.queries, p.of_k);
        dk.trans_a = true, dk.ldb = row_of(p.q, p.narrow_q, p.width), dk.ldc = row_of(p.dk, p.narrow_out, p.width);
        // The gradient of softmax is linear: what both of its products are multiplied by can be in its operand, to which sums of pairs add no number.
        if (p.bfloat16) probabilities.alpha *= p.of_q, dq.alpha = dk.alpha = 1, dk.ldb = p.q.row;
        wide_y = p.narrow_y && !p.bfloat16;
        const std::int64_t matrix = whole_lines(std::max(p.queries, p.keys) * std::max(p.width, p.value_width));
        scores = whole_lines(p.queries * p.keys);
        widened = p.narrow_q || p.narrow_k || p.narrow_v ? matrix : 0;
        result = p.narrow_out ? matrix : 0;
        std::int64_t bytes = 0;
        for (const gemm_problem* g : {&probabilities, &dq}) bytes = std::max(bytes, product_bytes(set, *g, p.bfloat16));
        for (const gemm_problem* g : {&dv, &dk})
            bytes = std::max(bytes, p.bfloat16 ? bfloat16_grad_workspace(bfloat16_grad_of(set, over_queries(*g))) : gemm_workspace_bytes(set, *g));
        room = whole_lines(bytes / 4);
        floats = scores * (wide_y ? 2 : 1) + widened + result + room;
        slots = attention_slots(p.batch, floats);
    }
    // A product by the probabilities, or their gradient, turned: a sum over queries.
    static product_sum_problem over_queries(const gemm_problem& g) {
        product_sum_problem sum;
        sum.n = sum.each = g.k, sum.rows = g.m, sum.columns = g.n, sum.tree.count = 1;
        return sum;
    }
};

}  // namespace detail

GRAFT_INLINE std::int64_t attention_grad_workspace(isa set, const attention_grad_problem& problem) {
    const detail::attention_grad_plan plan(set, problem);
    return plan.slots * plan.floats * 4;
}

GRAFT_INLINE void run_attention_grad(isa set, const attention_grad_problem& p, const float* dy, const saved_activation& y, const saved_activation& q,
                                     const saved_activation& k, const saved_activation& v, void* dq, void* dk, void* dv, void* workspace, executor& pool) {
    const detail::attention_grad_plan plan(set, p);
    const move_kernels& moves = *kernels(set).move;
    detail::for_each_head(pool, p.batch, plan.slots, plan.floats, workspace, [&](float* scores, std::int64_t head, std::int64_t outer, std::int64_t inner) {
        executor alone;
        float *const wide_y = scores + plan.scores, *const widened = wide_y + (plan.wide_y ? plan.scores : 0), *const result = widened + plan.widened,
                     *const room = result + plan.result;
        const auto of_head = [&](const saved_activation& x, const head_matrices& lies) { return x.from(lies.of(outer, inner)); };
        const auto floats_of = [&](const saved_activation& x, const head_matrices& lies, std::int64_t rows, std::int64_t width) {
            return detail::floats_of(moves, of_head(x, lies), lies, rows, width, widened);
        };
        const auto multiply = [&](const gemm_problem& g, const float* a, const float* b, float* c) {
            (p.bfloat16 ? run_bfloat16_batch : run_gemm)(set, g, a, b, nullptr, nullptr, c, room, alone);
        };
        const auto sum_over_queries = [&](const gemm_problem& g, const saved_activation& a, const saved_activation& b, float* c) {
            if (!p.bfloat16) return multiply(g, a.floats(), b.floats(), c);
            bfloat16_grad_args sum = bfloat16_grad_of(set, plan.over_queries(g));
            sum.dy_pixel = g.ldb, sum.out_row = g.ldc;
            run_bfloat16_grad(set, sum, a, b, c, room, alone);
        };
        // What `make` writes into an array of floats, where it lies or in bfloat16.
        const auto store = [&](const gemm_problem& g, void* out, const head_matrices& lies, const auto& make) {
            const std::int64_t at = lies.of(outer, inner);
            if (!p.narrow_out) return make(static_cast<float*>(out) + at);
            make(result);
            for (std::int64_t r = 0; r < g.m; ++r) moves.to_bfloat16(result + r * g.n, static_cast<std::uint16_t*>(out) + at + r * lies.row, g.n);
        };
        saved_activation share = y.from(head * p.queries * p.keys);
        if (plan.wide_y) {
            moves.from_bfloat16(static_cast<const std::uint16_t*>(share.data), wide_y, p.queries * p.keys);
            share = wide_y;
        }
        const float* const gradient = dy + p.dy.of(outer, inner);
        store(plan.dv, dv, p.dv, [&](float* to) { sum_over_queries(plan.dv, share, gradient, to); });
        multiply(plan.probabilities, gradient, floats_of(v, p.v, p.keys, p.value_width), scores);
        run_softmax_grad(set, scores, share, scores, p.queries, p.keys, 1, alone);
        store(plan.dq, dq, p.dq, [&](float* to) { multiply(plan.dq, scores, floats_of(k, p.k, p.keys, p.width), to); });
        store(plan.dk, dk, p.dk, [&](float* to) {
            sum_over_queries(plan.dk, scores, p.bfloat16 ? of_head(q, p.q) : saved_activation(floats_of(q, p.q, p.queries, p.width)), to);
        });
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
