// Gradients of softmax and of layer normalisation.
#pragma once

#include "../../core/executor.hpp"
#include "../../core/shards.hpp"
#include "../isa.hpp"
#include "rows_grad_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// dx = y * (dy - sum(dy * y)), the sum along the middle dimension of [outer, n, inner]; dx may be dy.
void run_softmax_grad(isa set, const float* dy, const saved_activation& y, float* dx, std::int64_t outer, std::int64_t n, std::int64_t inner, executor& pool);

/// dx = inverse * (g - mean(g) - x' * mean(g * x')) for each row, with g = dy * scale and x' = (x - mean) * inverse.
void run_layer_norm_grad(isa set, const normalized_rows_grad& arrays, executor& pool);

/// scale = the sum over rows of dy * x', bias that of dy (null: not wanted), n numbers each. The rows are those of
/// `samples` samples: each shard is summed in double, and rounded where the tree begins.
void run_layer_norm_grad_scale(isa set, const normalized_rows_grad& arrays, std::int64_t samples, const shards& tree, float* scale, float* bias,
                               void* workspace, executor& pool);
/// Bytes of workspace (alignment 64) for that; -1 where they overflow.
std::int64_t layer_norm_workspace_bytes(std::int64_t samples, std::int64_t n, const shards& tree);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../rows.hpp"
#include "dispatch.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

GRAFT_INLINE void run_softmax_grad(isa set, const float* dy, const saved_activation& y, float* dx, std::int64_t outer, std::int64_t n, std::int64_t inner,
                                   executor& pool) {
    const rows_grad_kernels& k = *training_kernels(set).rows_grad;
    if (outer <= 0 || n <= 0 || inner <= 0) return;
    if (inner == 1)
        return detail::groups_of_rows(outer, n, pool,
                                      [&](std::int64_t first, std::int64_t rows) { k.softmax(dy + first * n, y.from(first * n), dx + first * n, rows, n); });
    detail::stripes_of_columns(outer, n, inner, pool, [&](std::int64_t o, std::int64_t first, std::int64_t count) {
        const std::int64_t at = o * n * inner + first;
        k.softmax_columns(dy + at, y.from(at), dx + at, n, inner, count);
    });
}

namespace detail {
// Rows [first, first + count).
inline normalized_rows_grad some_rows(normalized_rows_grad g, std::int64_t first, std::int64_t count) {
    g.dy += first * g.n, g.x = g.x.from(first * g.n), g.inverse += first;
    if (g.mean) g.mean += first;
    if (g.dx) g.dx += first * g.n;
    g.rows = count;
    return g;
}
}  // namespace detail

GRAFT_INLINE void run_layer_norm_grad(isa set, const normalized_rows_grad& arrays, executor& pool) {
    const rows_grad_kernels& k = *training_kernels(set).rows_grad;
    if (arrays.n <= 0) return;
    detail::groups_of_rows(arrays.rows, arrays.n, pool, [&](std::int64_t first, std::int64_t count) { k.layer_norm(detail::some_rows(arrays, first, count)); });
}

GRAFT_INLINE std::int64_t layer_norm_workspace_bytes(std::int64_t samples, std::int64_t n, const shards& tree) {
    const std::int64_t slots = std::min<std::int64_t>(tree.count, samples);
    return n > (std::int64_t(1) << 40) ? -1 : 2 * slots * n * 8;
}

GRAFT_INLINE void run_layer_norm_grad_scale(isa set, const normalized_rows_grad& arrays, std::int64_t samples, const shards& tree, float* scale, float* bias,
                                            void* workspace, executor& pool) {
    const rows_grad_kernels& k = *training_kernels(set).rows_grad;
    const std::int64_t n = arrays.n, each = samples > 0 ? arrays.rows / samples : 0;
    if (n <= 0) return;
    constexpr std::int64_t stripe = 64;
    const std::int64_t stripes = (n + stripe - 1) / stripe;
    // With fewer samples than shards only those that have one are kept.
    const auto sums = [&](int s, int which) {
        const std::int64_t slot = samples < tree.count ? tree.first(samples, s) : s;
        return static_cast<double*>(workspace) + (2 * slot + which) * n;
    };
    const auto empty = [&](int s) { return tree.first(samples, s) == tree.last(samples, s); };
    parallel_for(pool, stripes * tree.count, [&](std::int64_t t) {
        const int s = static_cast<int>(t / stripes);
        if (empty(s)) return;
        const std::int64_t first = t % stripes * stripe, count = std::min(stripe, n - first), begin = tree.first(samples, s) * each;
        double *products = sums(s, 0) + first, *plain = sums(s, 1) + first;
        std::fill(products, products + count, 0.0);
        std::fill(plain, plain + count, 0.0);
        k.layer_norm_sums(detail::some_rows(arrays, begin, tree.last(samples, s) * each - begin), first, count, scale ? products : nullptr,
                          bias ? plain : nullptr);
    });
    parallel_for(pool, stripes, [&](std::int64_t t) {
        for (std::int64_t i = t * stripe; i < std::min(n, (t + 1) * stripe); ++i)
            for (int which = 0; which < 2; ++which)
                if (float* to = which ? bias : scale)
                    to[i] = static_cast<float>(sum_shards_as(true, tree.count, [&](int s) { return empty(s) ? 0.0 : sums(s, which)[i]; }));
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
