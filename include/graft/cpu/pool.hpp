// Pooling of float32 images, on planes and on blocks of channels. NaN goes through.
#pragma once

#include "../core/executor.hpp"
#include "isa.hpp"
#include "pool_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The largest of each window; padding never wins. A window without a single pixel gives minus infinity.
void run_max_pool(isa set, const pool_problem& problem, const float* x, float* y, executor& pool);
/// The sum of each window over the number of its pixels: the real ones, or with count_include_pad those of the padding too
/// (but not what a last window of ceil mode has beyond the padding).
void run_average_pool(isa set, const pool_problem& problem, const float* x, float* y, executor& pool);
/// The mean of each plane: y is [n][c], or for blocks [n][ceil(c / W)][W].
void run_global_average_pool(isa set, layout::kind l, std::int64_t n, std::int64_t c, std::int64_t pixels, const float* x, float* y, executor& pool);
/// The largest of each plane; shapes as above.
void run_global_max_pool(isa set, layout::kind l, std::int64_t n, std::int64_t c, std::int64_t pixels, const float* x, float* y, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "dispatch.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// Planes, or blocks of channels, that a tensor has.
inline std::int64_t planes_of(isa set, layout::kind l, std::int64_t n, std::int64_t c) {
    return l == layout::blocked ? n * ((c + vector_width(set) - 1) / vector_width(set)) : n * c;
}

inline void run_pool(std::int64_t planes, const pool_problem& p, const void* x, void* y, executor& pool, void (*kernel)(const pool_args&, std::int64_t)) {
    const std::int64_t row = p.ow * p.kh * p.kw * (p.l == layout::blocked ? 1 : 2);
    if (planes * p.oh * p.ow == 0) return;
    pool_args a;
    a.p = p;
    a.x = x;
    a.y = y;
    a.band_rows = 20000 / row + 1 < p.oh ? 20000 / row + 1 : p.oh;
    a.bands = (p.oh + a.band_rows - 1) / a.band_rows;
    parallel_for(pool, planes * a.bands, [&](std::int64_t task) { kernel(a, task); });
}

inline void run_global_pool(isa set, layout::kind l, std::int64_t n, std::int64_t c, std::int64_t pixels, const float* x, float* y, executor& pool,
                            void (*kernel)(const float*, std::int64_t, std::int64_t, bool, float*)) {
    const std::int64_t planes = planes_of(set, l, n, c), width = l == layout::blocked ? vector_width(set) : 1;
    if (planes == 0) return;
    const std::int64_t batch = 16384 / (pixels * width + 1) + 1, tasks = (planes + batch - 1) / batch;
    parallel_for(pool, tasks, [&](std::int64_t task) {
        const std::int64_t first = task * batch, count = planes - first < batch ? planes - first : batch;
        kernel(x + first * pixels * width, count, pixels, l == layout::blocked, y + first * width);
    });
}

}  // namespace detail

GRAFT_INLINE void run_max_pool(isa set, const pool_problem& problem, const float* x, float* y, executor& pool) {
    detail::run_pool(detail::planes_of(set, problem.l, problem.n, problem.c), problem, x, y, pool, kernels(set).pool->max);
}

GRAFT_INLINE void run_average_pool(isa set, const pool_problem& problem, const float* x, float* y, executor& pool) {
    detail::run_pool(detail::planes_of(set, problem.l, problem.n, problem.c), problem, x, y, pool, kernels(set).pool->average);
}

GRAFT_INLINE void run_global_average_pool(isa set, layout::kind l, std::int64_t n, std::int64_t c, std::int64_t pixels, const float* x, float* y,
                                          executor& pool) {
    detail::run_global_pool(set, l, n, c, pixels, x, y, pool, kernels(set).pool->global_average);
}

GRAFT_INLINE void run_global_max_pool(isa set, layout::kind l, std::int64_t n, std::int64_t c, std::int64_t pixels, const float* x, float* y, executor& pool) {
    detail::run_global_pool(set, l, n, c, pixels, x, y, pool, kernels(set).pool->global_max);
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
