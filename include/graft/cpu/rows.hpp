// Float32 functions along one dimension: softmax, normalisation, reductions, argmax.
#pragma once

#include "../core/executor.hpp"
#include "isa.hpp"
#include "rows_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// y = softmax (or its logarithm) of x along the middle dimension of [outer, n, inner]; x may be y.
void run_softmax(isa set, const float* x, float* y, std::int64_t outer, std::int64_t n, std::int64_t inner, bool logarithm, executor& pool);

/// y = (x - mean) / sqrt(variance + epsilon) * gamma[i] + beta[i] for each of `rows` rows of n; RMS norm where not `centered`.
/// gamma and beta (n numbers) and mean and inverse_deviation (a number a row, written) may be null; x may be y.
void run_layer_norm(isa set, const float* x, float* y, std::int64_t rows, std::int64_t n, const float* gamma, const float* beta, float epsilon, bool centered,
                    float* mean, float* inverse_deviation, executor& pool);
/// The same of rows of at most `narrow_row_numbers`, in bfloat16.
void run_narrow_layer_norm(isa set, const float* x, std::uint16_t* y, std::int64_t rows, std::int64_t n, const float* gamma, const float* beta, float epsilon,
                           bool centered, executor& pool);
constexpr std::int64_t narrow_row_numbers = 4096;
/// Normalises each image's groups of channels of an NCHW tensor [images, channels, area]; gamma and beta (channels numbers) may
/// be null. groups == channels: instance norm. channels is a multiple of groups; x may be y.
void run_group_norm(isa set, const float* x, float* y, std::int64_t images, std::int64_t channels, std::int64_t area, std::int64_t groups, const float* gamma,
                    const float* beta, float epsilon, executor& pool);

/// LRN-1,13 of `images` of [norm.channels, norm.n], which lie from x on; pointers and the range of channels in `norm` are not looked at. y does not overlap x.
void run_local_response_norm(isa set, const float* x, float* y, std::int64_t images, const neighbour_channels& norm, executor& pool);

/// What ReduceX gives: mean divides a sum, l2 is the root of a sum of squares. Empty sums are 0, max -infinity, min infinity.
enum class reduce_kind { sum, mean, max, min, sum_square, l1, l2 };
/// y[outer, inner] reduces the middle dimension of x[outer, n, inner].
void run_reduce(isa set, reduce_kind kind, const float* x, float* y, std::int64_t outer, std::int64_t n, std::int64_t inner, executor& pool);
/// y[outer, inner]: places in [0, n) of the highest (or lowest) elements of x[outer, n, inner], n >= 1; the first (or last) of
/// equal ones. NaN counts as beyond every number, as in numpy.
void run_arg(isa set, bool lowest, bool last, const float* x, std::int64_t* y, std::int64_t outer, std::int64_t n, std::int64_t inner, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "dispatch.hpp"

#include <algorithm>
#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// Calls f(first, count) for groups of rows with some 16k elements each.
template <class F>
inline void groups_of_rows(std::int64_t rows, std::int64_t n, executor& pool, const F& f) {
    const std::int64_t group = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, n)), groups = (rows + group - 1) / group;
    parallel_for(pool, groups, [&](std::int64_t t) { f(t * group, std::min(group, rows - t * group)); });
}

// Calls f(outer index, first column, count) for stripes of the columns of [outer, n, inner].
template <class F>
inline void stripes_of_columns(std::int64_t outer, std::int64_t n, std::int64_t inner, executor& pool, const F& f) {
    const std::int64_t stripe = std::min(inner, (std::max<std::int64_t>(64, 16384 / std::max<std::int64_t>(1, n)) + 63) / 64 * 64);
    const std::int64_t stripes = (inner + stripe - 1) / stripe, group = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, n * inner));
    parallel_for(pool, (outer + group - 1) / group * stripes, [&](std::int64_t t) {
        const std::int64_t first = t % stripes * stripe, begin = t / stripes * group;
        for (std::int64_t o = begin; o < std::min(outer, begin + group); ++o) f(o, first, std::min(stripe, inner - first));
    });
}

}  // namespace detail

GRAFT_INLINE void run_softmax(isa set, const float* x, float* y, std::int64_t outer, std::int64_t n, std::int64_t inner, bool logarithm, executor& pool) {
    const rows_kernels& k = *kernels(set).rows;
    if (outer <= 0 || n <= 0 || inner <= 0) return;
    if (inner == 1)
        return detail::groups_of_rows(outer, n, pool,
                                      [&](std::int64_t first, std::int64_t rows) { k.softmax(x + first * n, y + first * n, rows, n, logarithm); });
    constexpr std::int64_t most = 4096;
    const move_kernels& moves = *kernels(set).move;
    const bool turned = inner < vector_width(set) && n * inner <= most;
    detail::stripes_of_columns(outer, n, inner, pool, [&](std::int64_t o, std::int64_t first, std::int64_t count) {
        const float* const from = x + o * n * inner + first;
        float* const to = y + o * n * inner + first;
        if (!turned) return k.softmax_columns(from, to, n, inner, count, logarithm);
        // A few columns fill no vector: they become rows and columns again.
        alignas(64) float made[most];
        moves.transpose(sizeof(float), from, inner, made, n, n, inner);
        k.softmax(made, made, inner, n, logarithm);
        moves.transpose(sizeof(float), made, n, to, inner, inner, n);
    });
}

GRAFT_INLINE void run_layer_norm(isa set, const float* x, float* y, std::int64_t rows, std::int64_t n, const float* gamma, const float* beta, float epsilon,
                                 bool centered, float* mean, float* inverse_deviation, executor& pool) {
    const rows_kernels& k = *kernels(set).rows;
    if (n <= 0) return;
    detail::groups_of_rows(rows, n, pool, [&](std::int64_t first, std::int64_t count) {
        k.normalize({x, y, gamma, beta, mean, inverse_deviation, first, count, n, 0, 1, epsilon, centered});
    });
}

GRAFT_INLINE void run_narrow_layer_norm(isa set, const float* x, std::uint16_t* y, std::int64_t rows, std::int64_t n, const float* gamma, const float* beta,
                                        float epsilon, bool centered, executor& pool) {
    const rows_kernels& k = *kernels(set).rows;
    const move_kernels& moves = *kernels(set).move;
    if (n <= 0) return;
    detail::groups_of_rows(rows, n, pool, [&](std::int64_t first, std::int64_t count) {
        alignas(64) float made[narrow_row_numbers];
        for (std::int64_t row = first, some; row < first + count; row += some) {
            some = std::min(narrow_row_numbers / n, first + count - row);
            k.normalize({x + row * n, made, gamma, beta, nullptr, nullptr, 0, some, n, 0, 1, epsilon, centered});
            moves.to_bfloat16(made, y + row * n, some * n);
        }
    });
}

GRAFT_INLINE void run_group_norm(isa set, const float* x, float* y, std::int64_t images, std::int64_t channels, std::int64_t area, std::int64_t groups,
                                 const float* gamma, const float* beta, float epsilon, executor& pool) {
    const rows_kernels& k = *kernels(set).rows;
    if (images <= 0 || channels <= 0 || area <= 0 || groups <= 0) return;
    const std::int64_t n = channels / groups * area;
    detail::groups_of_rows(images * groups, n, pool, [&](std::int64_t first, std::int64_t count) {
        k.normalize({x, y, gamma, beta, nullptr, nullptr, first, count, n, area, groups, epsilon, true});
    });
}

GRAFT_INLINE void run_local_response_norm(isa set, const float* x, float* y, std::int64_t images, const neighbour_channels& norm, executor& pool) {
    const std::int64_t group = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, norm.n)), groups = (norm.channels + group - 1) / group;
    parallel_for(pool, images * groups, [&](std::int64_t t) {
        neighbour_channels some = norm;
        some.x = x + t / groups * norm.channels * norm.n, some.y = y + t / groups * norm.channels * norm.n;
        some.first = t % groups * group, some.last = std::min(norm.channels, some.first + group);
        kernels(set).rows->normalize_neighbours(some);
    });
}

GRAFT_INLINE void run_reduce(isa set, reduce_kind kind, const float* x, float* y, std::int64_t outer, std::int64_t n, std::int64_t inner, executor& pool) {
    const rows_kernels& k = *kernels(set).rows;
    if (outer <= 0 || inner <= 0) return;
    const reduction raw = kind == reduce_kind::max                                ? reduction::max
                          : kind == reduce_kind::min                              ? reduction::min
                          : kind == reduce_kind::sum || kind == reduce_kind::mean ? reduction::sum
                          : kind == reduce_kind::l1                               ? reduction::sum_abs
                                                                                  : reduction::sum_square;
    const auto finish = [&](float* out, std::int64_t count) {
        if (kind == reduce_kind::mean)
            for (std::int64_t i = 0; i < count; ++i) out[i] /= static_cast<float>(n);
        if (kind == reduce_kind::l2)
            for (std::int64_t i = 0; i < count; ++i) out[i] = std::sqrt(out[i]);
    };
    if (inner > 1)
        return detail::stripes_of_columns(outer, n, inner, pool, [&](std::int64_t o, std::int64_t first, std::int64_t count) {
            float* out = y + o * inner + first;
            k.reduce_columns(raw, x + o * n * inner + first, out, n, inner, count);
            finish(out, count);
        });
    constexpr std::int64_t most_parts = 256;
    if (n < 262144)
        return detail::groups_of_rows(outer, n, pool, [&](std::int64_t first, std::int64_t rows) {
            k.reduce(raw, x + first * n, y + first, rows, n);
            finish(y + first, rows);
        });
    // Long rows are cut into parts by their length alone, so that threads can share one without changing its bits.
    const std::int64_t part = std::max<std::int64_t>(65536, (n + most_parts - 1) / most_parts), parts = (n + part - 1) / part;
    for (std::int64_t o = 0; o < outer; ++o) {
        float sums[most_parts];
        parallel_for(pool, parts, [&](std::int64_t t) { k.reduce(raw, x + o * n + t * part, sums + t, 1, std::min(part, n - t * part)); });
        k.reduce(raw == reduction::max || raw == reduction::min ? raw : reduction::sum, sums, y + o, 1, parts);
        finish(y + o, 1);
    }
}

GRAFT_INLINE void run_arg(isa set, bool lowest, bool last, const float* x, std::int64_t* y, std::int64_t outer, std::int64_t n, std::int64_t inner,
                          executor& pool) {
    const rows_kernels& k = *kernels(set).rows;
    if (outer <= 0 || n <= 0 || inner <= 0) return;
    if (inner == 1)
        return detail::groups_of_rows(outer, n, pool, [&](std::int64_t first, std::int64_t rows) { k.arg(lowest, last, x + first * n, y + first, rows, n); });
    detail::stripes_of_columns(outer, n, inner, pool, [&](std::int64_t o, std::int64_t first, std::int64_t count) {
        k.arg_columns(lowest, last, x + o * n * inner + first, y + o * inner + first, n, inner, count);
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
