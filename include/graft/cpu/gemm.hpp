// Matrix products: C = act(alpha * A * B + bias + residual), batched, with B packed once where it is constant.
#pragma once

#include "../core/executor.hpp"
#include "gemm_kernels.hpp"
#include "isa.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// One product, or batch[0] * batch[1] products of one shape. Matrices are row-major, rows `ld` elements apart (0: dense).
/// Strides count elements from one matrix to the next in each batch dimension; 0 shares a matrix.
struct gemm_problem {
    std::int64_t m = 0, n = 0, k = 0;
    bool trans_a = false;   ///< a is k x m
    bool trans_b = false;   ///< b is n x k
    bool packed_b = false;  ///< b was packed by pack_b (ldb and trans_b say what it was before; the batch shares it)
    bool bfloat16 = false;  ///< b was, or will be, packed by pack_bfloat16 instead
    epilogue ep;
    float alpha = 1;
    bias_kind bias = bias_kind::none;  ///< column: n numbers, row: m numbers; the batch shares them
    std::int64_t lda = 0, ldb = 0, ldc = 0, ld_residual = 0;
    std::int64_t batch[2] = {1, 1};
    std::int64_t a_strides[2] = {0, 0}, b_strides[2] = {0, 0}, c_strides[2] = {0, 0}, residual_strides[2] = {0, 0};
};

/// Bytes that pack_b writes for an n x k (or k x n) matrix; packed memory wants an alignment of 64.
std::int64_t packed_b_bytes(isa set, std::int64_t n, std::int64_t k);
/// Packs B, which may be thrown away then: the packed form is as large, rounded up to whole panels of columns.
void pack_b(isa set, const gemm_problem& problem, const float* b, float* packed, executor& pool);
/// Bytes of workspace (alignment 64) that run_gemm needs: 0 for plain products with a packed B.
std::int64_t gemm_workspace_bytes(isa set, const gemm_problem& problem);
/// Runs the products. `b` is the packed matrix where the problem says so. c may be the residual unless that is added
/// after an activation other than relu and clip; it must not overlap anything else.
void run_gemm(isa set, const gemm_problem& problem, const float* a, const float* b, const float* bias, const float* residual, float* c, void* workspace,
              executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "dispatch.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// What becomes of B before the product: it is packed, or read in place but for a last partial panel.
struct gemm_plan {
    gemm_problem p;  // as joined_batches has it
    bool pack_whole, pack_last;
    std::int64_t panels, b_matrices, b_floats;  // floats: of one matrix in the workspace
};

// With every distance between rows filled in.
inline gemm_problem with_distances(gemm_problem p) {
    if (!p.lda) p.lda = p.trans_a ? p.m : p.k;
    if (!p.ldb) p.ldb = p.trans_b ? p.k : p.n;
    if (!p.ldc) p.ldc = p.n;
    if (!p.ld_residual) p.ld_residual = p.n;
    return p;
}
// Likewise; batches that walk A and C as one long matrix and share B are one product.
inline gemm_problem joined_batches(const gemm_problem& problem) {
    gemm_problem p = with_distances(problem);
    for (int d = 1; d >= 0; --d) {
        const bool shared = p.packed_b || p.b_strides[d] == 0, inner = d == 1 || p.batch[1] == 1;
        if (p.batch[d] > 1 && inner && shared && !p.trans_a && p.bias != bias_kind::row && p.a_strides[d] == p.m * p.lda && p.c_strides[d] == p.m * p.ldc &&
            (!p.ep.residual || p.residual_strides[d] == p.m * p.ld_residual)) {
            p.m *= p.batch[d];
            p.batch[d] = 1;
        }
    }
    return p;
}

GRAFT_NOINLINE inline gemm_plan plan_gemm(isa set, const gemm_problem& problem) {
    const gemm_kernels& kernel = *kernels(set).gemm;
    gemm_plan plan{};
    gemm_problem& p = plan.p = joined_batches(problem);
    plan.panels = (p.n + kernel.columns - 1) / kernel.columns;
    const std::int64_t tail = p.n % kernel.columns;
    // Packing reads and writes B once: it pays when several row tiles read it again, unless B is narrow and read well as it is.
    plan.pack_whole = !p.packed_b && (p.trans_b || (p.m > 4 * kernel.rows && p.n > 4 * kernel.columns));
    plan.pack_last = !p.packed_b && !plan.pack_whole && tail != 0;
    plan.b_matrices = (p.b_strides[0] ? p.batch[0] : 1) * (p.b_strides[1] ? p.batch[1] : 1);
    plan.b_floats = plan.pack_whole ? plan.panels * kernel.columns * p.k : plan.pack_last ? kernel.columns * p.k : 0;
    plan.b_floats = (plan.b_floats + 15) / 16 * 16;
    return plan;
}

}  // namespace detail

GRAFT_INLINE std::int64_t packed_b_bytes(isa set, std::int64_t n, std::int64_t k) {
    const std::int64_t columns = kernels(set).gemm->columns;
    return (n + columns - 1) / columns * columns * k * 4;
}

GRAFT_INLINE void pack_b(isa set, const gemm_problem& p, const float* b, float* packed, executor& pool) {
    const gemm_kernels& kernel = *kernels(set).gemm;
    const std::int64_t panels = (p.n + kernel.columns - 1) / kernel.columns, ldb = p.ldb ? p.ldb : p.trans_b ? p.k : p.n;
    parallel_for(pool, panels, [&](std::int64_t panel) { kernel.pack({b, ldb, p.k, p.n, panel, panel + 1, p.trans_b, packed}); });
}

GRAFT_INLINE GRAFT_COLD std::int64_t gemm_workspace_bytes(isa set, const gemm_problem& problem) {
    const detail::gemm_plan plan = detail::plan_gemm(set, problem);
    return plan.b_floats * plan.b_matrices * 4;
}

GRAFT_INLINE void run_gemm(isa set, const gemm_problem& problem, const float* a, const float* b, const float* bias, const float* residual, float* c,
                           void* workspace, executor& pool) {
    const gemm_kernels& kernel = *kernels(set).gemm;
    const detail::gemm_plan plan = detail::plan_gemm(set, problem);
    const gemm_problem& p = plan.p;
    const std::int64_t batches = p.batch[0] * p.batch[1];
    if (p.m <= 0 || p.n <= 0 || batches <= 0) return;
    if (p.k <= 0) a = b = c;  // empty matrices have no address, and are not read
    float* packed = static_cast<float*>(workspace);
    const std::int64_t b_inner = p.b_strides[1] ? p.batch[1] : 1;
    const std::int64_t first_panel = plan.pack_last ? plan.panels - 1 : 0, packed_panels = plan.panels - first_panel;
    const auto pack = [&](std::int64_t matrix, std::int64_t begin, std::int64_t end, float* to) {
        const float* from = b + matrix / b_inner * p.b_strides[0] + matrix % b_inner * p.b_strides[1];
        kernel.pack({from, p.ldb, p.k, p.n, begin, end, p.trans_b, to - first_panel * kernel.columns * p.k});
    };
    // Blocks of C: a few row tiles by as many panels as stay in the second cache together, some 10 us of work or more.
    const std::int64_t depth = std::max<std::int64_t>(1, std::min<std::int64_t>(p.k, 512)), panel_bytes = depth * kernel.columns * 4;
    std::int64_t block_rows = std::min<std::int64_t>(p.m, kernel.rows * 8);
    std::int64_t block_panels = std::min(plan.panels, std::max<std::int64_t>(1, 262144 / panel_bytes));
    if (p.m <= kernel.rows) block_panels = std::min(plan.panels, std::max<std::int64_t>(1, 131072 / std::max<std::int64_t>(1, p.k * kernel.columns * 4)));
    const auto blocks = [&] { return (p.m + block_rows - 1) / block_rows * ((plan.panels + block_panels - 1) / block_panels) * batches; };
    const auto work = [&] { return block_rows * block_panels * kernel.columns * p.k; };
    while (blocks() < 12 * pool.threads() && work() > 250000 && block_panels > 1) block_panels = (block_panels + 1) / 2;
    while (blocks() < 12 * pool.threads() && work() > 500000 && block_rows > 2 * kernel.rows) block_rows = (block_rows / kernel.rows + 1) / 2 * kernel.rows;
    const std::int64_t down = (p.m + block_rows - 1) / block_rows, across = (plan.panels + block_panels - 1) / block_panels;
    const auto multiply = [&](std::int64_t t, const float* mine) {
        const std::int64_t batch = t / (down * across), outer = batch / p.batch[1], inner = batch % p.batch[1];
        const std::int64_t i = t / across % down * block_rows, panel = t % across * block_panels, j = panel * kernel.columns;
        gemm_block g{};
        g.a_row = p.trans_a ? 1 : p.lda, g.a_step = p.trans_a ? p.lda : 1;
        g.a = a + outer * p.a_strides[0] + inner * p.a_strides[1] + i * g.a_row;
        if (p.packed_b || plan.pack_whole) {
            g.b_step = kernel.columns, g.b_panel = p.k * kernel.columns;
            g.b = (p.packed_b ? b : mine) + panel * g.b_panel;
        } else {
            g.b_step = p.ldb, g.b_panel = kernel.columns;
            g.b = b + outer * p.b_strides[0] + inner * p.b_strides[1] + j;
            g.b_last = plan.pack_last ? mine : nullptr;
        }
        g.c = c + outer * p.c_strides[0] + inner * p.c_strides[1] + i * p.ldc + j;
        g.residual = p.ep.residual ? residual + outer * p.residual_strides[0] + inner * p.residual_strides[1] + i * p.ld_residual + j : nullptr;
        g.bias = p.bias == bias_kind::column ? bias + j : p.bias == bias_kind::row ? bias + i : nullptr;
        g.m = std::min(block_rows, p.m - i), g.n = std::min(block_panels * kernel.columns, p.n - j), g.k = p.k;
        g.ldc = p.ldc, g.ld_residual = p.ld_residual;
        g.alpha = p.alpha, g.bias_of = p.bias, g.ep = p.ep;
        kernel.block(g);
    };
    if (plan.b_floats && plan.b_matrices == batches && batches >= (pool.threads() > 1 ? 4 * pool.threads() : 2)) {
        // Products with a matrix of their own: a task packs each of its own and multiplies by it while that lies in its caches, in the same room.
        const std::int64_t tasks = pool.threads() > 1 ? 4 * pool.threads() : 1;
        return parallel_for(pool, tasks, [&](std::int64_t task) {
            float* const mine = packed + task * plan.b_floats;
            for (std::int64_t batch = task * batches / tasks; batch < (task + 1) * batches / tasks; ++batch) {
                pack(batch, first_panel, plan.panels, mine);
                for (std::int64_t t = 0; t < down * across; ++t) multiply(batch * down * across + t, mine);
            }
        });
    }
    if (plan.b_floats) {
        const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, p.k * kernel.columns)),
                           tasks = (packed_panels + grain - 1) / grain;
        parallel_for(pool, plan.b_matrices * tasks, [&](std::int64_t t) {
            const std::int64_t matrix = t / tasks, begin = first_panel + t % tasks * grain;
            pack(matrix, begin, std::min(plan.panels, begin + grain), packed + matrix * plan.b_floats);
        });
    }
    parallel_for(pool, batches * down * across, [&](std::int64_t t) {
        const std::int64_t batch = t / (down * across), outer = batch / p.batch[1], inner = batch % p.batch[1];
        const std::int64_t matrix = outer * (p.b_strides[0] ? b_inner : 0) + (p.b_strides[1] ? inner : 0);
        multiply(t, packed + matrix * plan.b_floats);
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
