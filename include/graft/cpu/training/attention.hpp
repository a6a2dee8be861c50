// softmax(Q K^T) V head by head, which keeps the probabilities for the backward part: what has a number for each pair of a query and a key stays in a task's
// caches.
#pragma once

#include "../../core/executor.hpp"
#include "../bfloat16_batch.hpp"
#include "../isa.hpp"
#include "saved_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The matrices of all heads: that of head (i, j) lies at offset + i * strides[0] + j * strides[1] of an array, its rows `row` elements apart.
struct head_matrices {
    std::int64_t offset = 0, row = 0, strides[2] = {0, 0};

    std::int64_t of(std::int64_t outer, std::int64_t inner) const noexcept { return offset + outer * strides[0] + inner * strides[1]; }
};

/// batch[0] * batch[1] heads. The probabilities, one row of `keys` for each query, are dense. Q has `queries` rows and K `keys`, of `width` numbers, V has
/// `keys` of `value_width`, the result y `queries`.
struct attention_problem {
    std::int64_t batch[2] = {1, 1}, queries = 0, keys = 0, width = 0, value_width = 0;
    head_matrices q, k, v, y;
    float of_scores = 1, of_y = 1;
    bool bfloat16 = false;                                      ///< products are of it, on sets that have bfloat16_products
    bool narrow_q = false, narrow_k = false, narrow_v = false;  ///< of bfloat16
    bool own_probabilities = false;                             ///< they are kept in bfloat16, or not at all
};

/// Bytes of workspace, aligned to 64: at most 16 tasks' caches, or 1 MiB.
std::int64_t attention_workspace(isa set, const attention_problem& problem);
/// probabilities = softmax(of_scores * Q K^T), y = of_y * probabilities * V. Bits are the same on any number of threads, and, in float32, those of the
/// operators one by one. `probabilities`: float32, or, with own_probabilities, bfloat16 or null.
void run_attention(isa set, const attention_problem& problem, const saved_activation& q, const saved_activation& k, const saved_activation& v,
                   void* probabilities, float* y, void* workspace, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../dispatch.hpp"
#include "../rows.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

inline std::int64_t whole_lines(std::int64_t floats) { return (floats + 15) / 16 * 16; }
// Tasks that have so many floats of their own.
inline std::int64_t attention_slots(const std::int64_t (&batch)[2], std::int64_t floats) {
    return std::min(batch[0] * batch[1], std::max<std::int64_t>(16, (std::int64_t(1) << 20) / (floats * 4)));
}
inline std::int64_t product_bytes(isa set, const gemm_problem& p, bool bfloat16) {
    return bfloat16 ? bfloat16_batch_workspace(p) : gemm_workspace_bytes(set, p);
}
inline gemm_problem product_of(std::int64_t m, std::int64_t n, std::int64_t depth, float alpha) {
    gemm_problem g;
    g.m = m, g.n = n, g.k = depth, g.alpha = alpha;
    return g;
}
inline std::int64_t row_of(const head_matrices& m, bool narrow, std::int64_t width) { return narrow ? width : m.row; }

// A head's matrix as floats: where it lies, or widened into `room`.
inline const float* floats_of(const move_kernels& moves, const saved_activation& head, const head_matrices& lies, std::int64_t rows, std::int64_t width,
                              float* room) {
    if (!head.narrow) return head.floats();
    for (std::int64_t r = 0; r < rows; ++r) moves.from_bfloat16(static_cast<const std::uint16_t*>(head.data) + r * lies.row, room + r * width, width);
    return room;
}

// f(what the task has of its own, head, outer, inner) for every head, some of them a task.
template <class F>
inline void for_each_head(executor& pool, const std::int64_t (&batch)[2], std::int64_t slots, std::int64_t floats, void* workspace, const F& f) {
    const std::int64_t heads = batch[0] * batch[1];
    parallel_for(pool, slots, [&](std::int64_t slot) {
        for (std::int64_t head = slot * heads / slots; head < (slot + 1) * heads / slots; ++head)
            f(static_cast<float*>(workspace) + slot * floats, head, head / batch[1], head % batch[1]);
    });
}

// What a task has of its own, in floats, and its two products.
struct attention_plan {
    gemm_problem scores, y;
    std::int64_t square, widened, room, floats, slots;

    attention_plan(isa set, const attention_problem& p) {
        scores = product_of(p.queries, p.keys, p.width, p.of_scores);
        scores.trans_b = true, scores.lda = row_of(p.q, p.narrow_q, p.width), scores.ldb = row_of(p.k, p.narrow_k, p.width);
        y = product_of(p.queries, p.value_width, p.keys, p.of_y);
        y.ldb = row_of(p.v, p.narrow_v, p.value_width), y.ldc = p.y.row;
        square = p.own_probabilities ? whole_lines(p.queries * p.keys) : 0;
        widened = p.narrow_q || p.narrow_k || p.narrow_v ? whole_lines(std::max(p.queries, p.keys) * std::max(p.width, p.value_width)) : 0;
        room = whole_lines(std::max(product_bytes(set, scores, p.bfloat16), product_bytes(set, y, p.bfloat16)) / 4);
        floats = square + 2 * widened + room;
        slots = attention_slots(p.batch, floats);
    }
};

}  // namespace detail

GRAFT_INLINE std::int64_t attention_workspace(isa set, const attention_problem& problem) {
    const detail::attention_plan plan(set, problem);
    return plan.slots * plan.floats * 4;
}

GRAFT_INLINE void run_attention(isa set, const attention_problem& p, const saved_activation& q, const saved_activation& k, const saved_activation& v,
                                void* probabilities, float* y, void* workspace, executor& pool) {
    const detail::attention_plan plan(set, p);
    const move_kernels& moves = *kernels(set).move;
    const std::int64_t square = p.queries * p.keys;
    const auto multiply = p.bfloat16 ? run_bfloat16_batch : run_gemm;
    detail::for_each_head(pool, p.batch, plan.slots, plan.floats, workspace, [&](float* own, std::int64_t head, std::int64_t outer, std::int64_t inner) {
        executor alone;
        float *const first = own + plan.square, *const second = first + plan.widened, *const room = second + plan.widened;
        const auto matrix = [&](const saved_activation& x, const head_matrices& lies, std::int64_t rows, std::int64_t width, float* wide) {
            return detail::floats_of(moves, x.from(lies.of(outer, inner)), lies, rows, width, wide);
        };
        float* const scores = p.own_probabilities ? own : static_cast<float*>(probabilities) + head * square;
        const float *const of_q = matrix(q, p.q, p.queries, p.width, first), *const of_k = matrix(k, p.k, p.keys, p.width, second);
        multiply(set, plan.scores, of_q, of_k, nullptr, nullptr, scores, room, alone);
        run_softmax(set, scores, scores, p.queries, p.keys, 1, false, alone);
        if (p.own_probabilities && probabilities) moves.to_bfloat16(scores, static_cast<std::uint16_t*>(probabilities) + head * square, square);
        multiply(set, plan.y, scores, matrix(v, p.v, p.keys, p.value_width, first), nullptr, nullptr, y + p.y.of(outer, inner), room, alone);
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
