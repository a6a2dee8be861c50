// Gradients of pooling, on planes and on blocks of channels.
#pragma once

#include "../../core/executor.hpp"
#include "../isa.hpp"
#include "pool_grad_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Max pooling that keeps where each window's largest pixel lies: the first of them, row by row, as in PyTorch (a NaN counts only where
/// it comes first). `places` has y's layout, a byte for each float: which of the window's pixels that are inside. Windows have 256
/// pixels at most; y may be null.
void run_max_pool_places(isa set, const pool_problem& problem, const float* x, float* y, std::uint8_t* places, executor& pool);
/// Each gradient goes to the pixel that `places` names. Nothing may overlap dx.
void run_max_pool_grad(isa set, const pool_problem& problem, const float* dy, const std::uint8_t* places, float* dx, executor& pool);
/// Each gradient is spread over the pixels of its window, by the number that the forward pass divided by.
void run_average_pool_grad(isa set, const pool_problem& problem, const float* dy, float* dx, executor& pool);
/// Windows that are whole planes: dy is [n][c], or for blocks [n][ceil(c / W)][W].
void run_global_average_pool_grad(isa set, layout::kind l, std::int64_t n, std::int64_t c, std::int64_t pixels, const float* dy, float* dx, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../pool.hpp"
#include "dispatch.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// Planes, or blocks of channels, in tasks of some microseconds.
template <class F>
inline void over_planes(isa set, layout::kind l, std::int64_t n, std::int64_t c, std::int64_t pixels, executor& pool, const F& f) {
    const std::int64_t planes = planes_of(set, l, n, c), width = l == layout::blocked ? vector_width(set) : 1;
    const std::int64_t each = 8192 / (pixels * width + 1) + 1;
    if (pixels > 0) parallel_for(pool, (planes + each - 1) / each, [&](std::int64_t t) { f(t * each, std::min(each, planes - t * each)); });
}

}  // namespace detail

GRAFT_INLINE void run_max_pool_places(isa set, const pool_problem& p, const float* x, float* y, std::uint8_t* places, executor& pool) {
    const pool_grad_kernels& k = *training_kernels(set).pool_grad;
    const max_places_args a{p, x, y, places};
    detail::over_planes(set, p.l, p.n, p.c, p.ih * p.iw, pool, [&](std::int64_t first, std::int64_t count) { k.max_places(a, first, count); });
}

GRAFT_INLINE void run_max_pool_grad(isa set, const pool_problem& p, const float* dy, const std::uint8_t* places, float* dx, executor& pool) {
    const pool_grad_kernels& k = *training_kernels(set).pool_grad;
    const pool_grad_args a{p, dy, places, dx};
    detail::over_planes(set, p.l, p.n, p.c, p.ih * p.iw, pool, [&](std::int64_t first, std::int64_t count) { k.max(a, first, count); });
}

GRAFT_INLINE void run_average_pool_grad(isa set, const pool_problem& p, const float* dy, float* dx, executor& pool) {
    const pool_grad_kernels& k = *training_kernels(set).pool_grad;
    const bool whole = p.oh == 1 && p.ow == 1 && p.kh == p.ih && p.kw == p.iw && p.pt == 0 && p.pl == 0 && p.pb == 0 && p.pr == 0 && p.dh == 1 && p.dw == 1;
    if (whole) return run_global_average_pool_grad(set, p.l, p.n, p.c, p.ih * p.iw, dy, dx, pool);
    const pool_grad_args a{p, dy, nullptr, dx};
    detail::over_planes(set, p.l, p.n, p.c, p.ih * p.iw, pool, [&](std::int64_t first, std::int64_t count) { k.average(a, first, count); });
}

GRAFT_INLINE void run_global_average_pool_grad(isa set, layout::kind l, std::int64_t n, std::int64_t c, std::int64_t pixels, const float* dy, float* dx,
                                               executor& pool) {
    const pool_grad_kernels& k = *training_kernels(set).pool_grad;
    const std::int64_t width = l == layout::blocked ? vector_width(set) : 1;
    detail::over_planes(set, l, n, c, pixels, pool, [&](std::int64_t first, std::int64_t count) {
        k.global_average(dy + first * width, count, pixels, l == layout::blocked, dx + first * pixels * width);
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
