// Resizing along one axis or two neighbouring ones: the nearest element, or weighted sums of those around a place.
#pragma once

#include "../core/executor.hpp"
#include "../ops/resize.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// x, `[outer][rows.in][columns.in][inner]`, becomes y, `[outer][rows.out][columns.out][inner]`. How places and weights follow from the rest
/// is in `ops::resize_plan`. Sums are of float32.
struct resize_problem {
    struct axis {
        std::int64_t in = 1, out = 1;
        double scale = 1, width = 1;
        bool resized = false;
    };
    std::int64_t outer = 1, inner = 1;
    axis rows, columns;
    int element_bytes = 4;
    ops::interpolation_mode mode = ops::interpolation_mode::nearest;
    ops::coordinate_mode coordinate = ops::coordinate_mode::half_pixel;
    ops::nearest_mode nearest = ops::nearest_mode::round_prefer_floor;
    bool antialias = false, exclude_outside = false;
    double cubic_a = -0.75;
};

/// Bytes of workspace (alignment 64) that run_resize needs.
std::int64_t resize_workspace_bytes(const resize_problem& p);
/// `x` and `y` do not overlap. The same bits for any number of threads.
void run_resize(const resize_problem& p, const void* x, void* y, void* workspace, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

inline ops::resize_plan plan_of(const resize_problem& p) {
    ops::resize_plan made;
    made.out = {p.rows.out, p.columns.out};
    made.mode = p.mode, made.coordinate = p.coordinate, made.nearest = p.nearest;
    made.antialias = p.antialias, made.exclude_outside = p.exclude_outside, made.cubic_a = p.cubic_a;
    for (int d = 0; d < 2; ++d) {
        const resize_problem::axis& a = d ? p.columns : p.rows;
        made.scale[d] = a.scale, made.width[d] = a.width, made.start[d] = 0, made.end[d] = 1, made.resized[d] = a.resized;
    }
    return made;
}

// Of each output along an axis the places of the elements that it is made of, and their weights.
struct resize_taps {
    std::int64_t count = 1;  // of one output
    std::int32_t* places = nullptr;
    float* weights = nullptr;

    static std::int64_t bytes(const resize_problem::axis& a, std::int64_t count) { return (a.out * count * 8 + 63) / 64 * 64; }
    void take(char*& memory, const resize_problem::axis& a) {
        places = reinterpret_cast<std::int32_t*>(memory);
        weights = reinterpret_cast<float*>(memory) + a.out * count;
        memory += bytes(a, count);
    }
};
inline std::int64_t taps_along(const resize_problem& p, const ops::resize_plan& plan, int d) {
    const bool resized = d ? p.columns.resized : p.rows.resized;
    return p.mode == ops::interpolation_mode::nearest || !resized ? 1 : ops::kernel_taps(plan, d);
}
inline void fill_taps(const resize_problem& p, const ops::resize_plan& plan, int d, double* exact, const resize_taps& taps) {
    const resize_problem::axis& a = d ? p.columns : p.rows;
    const shape in{p.rows.in, p.columns.in};
    for (std::int64_t i = 0; i < a.out; ++i) {
        std::int32_t* const places = taps.places + i * taps.count;
        float* const weights = taps.weights + i * taps.count;
        bool outside = false;
        if (!a.resized) {
            places[0] = static_cast<std::int32_t>(i), weights[0] = 1;
        } else if (p.mode == ops::interpolation_mode::nearest) {
            places[0] = static_cast<std::int32_t>(ops::nearest_index(plan, in, d, ops::source_coordinate(plan, in, d, i, outside)));
        } else {
            const double first = ops::resize_weights(plan, in, d, i, exact, outside);
            for (std::int64_t k = 0; k < taps.count; ++k) {
                places[k] = static_cast<std::int32_t>(ops::clamp_index(first + static_cast<double>(k), a.in));
                weights[k] = static_cast<float>(exact[k]);
            }
        }
    }
}

// Rows of y that a task makes.
inline std::int64_t rows_together(const resize_problem& p) {
    return std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(1, p.columns.out * p.inner * p.element_bytes));
}
// A row between the two axes, of which each task has one; 0: none is needed.
inline std::int64_t row_between(const resize_problem& p) {
    return p.mode != ops::interpolation_mode::nearest && p.rows.resized && p.columns.resized ? (p.columns.in * p.inner * 4 + 63) / 64 * 64 : 0;
}

template <std::size_t Bytes>
inline void pick(const char* x, const std::int32_t* places, std::int64_t n, char* y) {
    for (std::int64_t i = 0; i < n; ++i) std::memcpy(y + i * static_cast<std::int64_t>(Bytes), x + places[i] * static_cast<std::int64_t>(Bytes), Bytes);
}
inline void pick_columns(const char* x, const std::int32_t* places, std::int64_t n, std::int64_t bytes, char* y) {
    switch (bytes) {
    case 1: return pick<1>(x, places, n, y);
    case 2: return pick<2>(x, places, n, y);
    case 4: return pick<4>(x, places, n, y);
    case 8: return pick<8>(x, places, n, y);
    case 16: return pick<16>(x, places, n, y);
    case 32: return pick<32>(x, places, n, y);
    case 64: return pick<64>(x, places, n, y);
    default:
        for (std::int64_t i = 0; i < n; ++i) std::memcpy(y + i * bytes, x + places[i] * bytes, static_cast<std::size_t>(bytes));
    }
}

// y[i] = the sum over k of weights[k] x[places[k]][i], of rows of n; every way to interpolate has two taps or more.
inline void sum_rows(const float* x, const std::int32_t* places, const float* weights, std::int64_t taps, std::int64_t n, float* y) {
    const float *const first = x + places[0] * n, *const second = x + places[1] * n;
    const float a = weights[0], b = weights[1];
    for (std::int64_t i = 0; i < n; ++i) y[i] = a * first[i] + b * second[i];
    for (std::int64_t k = 2; k < taps; ++k)
        for (std::int64_t i = 0; i < n; ++i) y[i] += weights[k] * x[places[k] * n + i];
}
// The same of each output along a row, whose elements are `inner` (0: told by `any`) numbers side by side.
template <int Inner>
inline void sum_columns(const float* x, const resize_taps& taps, std::int64_t n, std::int64_t any, float* y) {
    const std::int64_t inner = Inner ? Inner : any;
    for (std::int64_t j = 0; j < n; ++j, y += inner) sum_rows(x, taps.places + j * taps.count, taps.weights + j * taps.count, taps.count, inner, y);
}
template <>
inline void sum_columns<1>(const float* x, const resize_taps& taps, std::int64_t n, std::int64_t, float* y) {
    const std::int32_t* places = taps.places;
    const float* weights = taps.weights;
    if (taps.count == 2) {
        for (std::int64_t j = 0; j < n; ++j) y[j] = weights[2 * j] * x[places[2 * j]] + weights[2 * j + 1] * x[places[2 * j + 1]];
        return;
    }
    for (std::int64_t j = 0; j < n; ++j, places += taps.count, weights += taps.count) {
        float sum = 0;
        for (std::int64_t k = 0; k < taps.count; ++k) sum += weights[k] * x[places[k]];
        y[j] = sum;
    }
}
inline void sum_columns(const resize_problem& p, const float* x, const resize_taps& taps, float* y) {
    switch (p.inner) {
    case 1: return sum_columns<1>(x, taps, p.columns.out, 1, y);
    case 4: return sum_columns<4>(x, taps, p.columns.out, 4, y);
    case 8: return sum_columns<8>(x, taps, p.columns.out, 8, y);
    case 16: return sum_columns<16>(x, taps, p.columns.out, 16, y);
    default: return sum_columns<0>(x, taps, p.columns.out, p.inner, y);
    }
}

}  // namespace detail

GRAFT_INLINE std::int64_t resize_workspace_bytes(const resize_problem& p) {
    const ops::resize_plan plan = detail::plan_of(p);
    const std::int64_t of_rows = detail::taps_along(p, plan, 0), of_columns = detail::taps_along(p, plan, 1);
    const std::int64_t together = detail::rows_together(p), tasks = (p.outer * p.rows.out + together - 1) / together;
    return detail::resize_taps::bytes(p.rows, of_rows) + detail::resize_taps::bytes(p.columns, of_columns) + tasks * detail::row_between(p) +
           std::max(of_rows, of_columns) * 8;
}

GRAFT_INLINE void run_resize(const resize_problem& p, const void* x, void* y, void* workspace, executor& pool) {
    const ops::resize_plan plan = detail::plan_of(p);
    detail::resize_taps rows, columns;
    rows.count = detail::taps_along(p, plan, 0), columns.count = detail::taps_along(p, plan, 1);
    char* memory = static_cast<char*>(workspace);
    rows.take(memory, p.rows);
    columns.take(memory, p.columns);
    const std::int64_t between = detail::row_between(p), together = detail::rows_together(p), all = p.outer * p.rows.out;
    const std::int64_t tasks = (all + together - 1) / together;
    double* const exact = reinterpret_cast<double*>(memory + tasks * between);
    detail::fill_taps(p, plan, 0, exact, rows);
    detail::fill_taps(p, plan, 1, exact, columns);
    const std::int64_t pixel_bytes = p.inner * p.element_bytes, in_bytes = p.columns.in * pixel_bytes, out_bytes = p.columns.out * pixel_bytes;
    parallel_for(pool, tasks, [&](std::int64_t task) {
        float* const row = reinterpret_cast<float*>(memory + task * between);
        for (std::int64_t first = task * together, i = first; i < std::min(all, first + together); ++i) {
            const std::int64_t at = i % p.rows.out;
            const std::int32_t* const places = rows.places + at * rows.count;
            const char* const image = static_cast<const char*>(x) + i / p.rows.out * p.rows.in * in_bytes;
            char* const to = static_cast<char*>(y) + i * out_bytes;
            if (p.mode == ops::interpolation_mode::nearest) {
                if (i > first && at > 0 && places[0] == places[-1])
                    std::memcpy(to, to - out_bytes, static_cast<std::size_t>(out_bytes));
                else if (p.columns.resized)
                    detail::pick_columns(image + places[0] * in_bytes, columns.places, p.columns.out, pixel_bytes, to);
                else
                    std::memcpy(to, image + places[0] * in_bytes, static_cast<std::size_t>(out_bytes));
                continue;
            }
            const float* from = reinterpret_cast<const float*>(image) + at * p.columns.in * p.inner;
            float* const made = p.columns.resized ? row : reinterpret_cast<float*>(to);
            if (p.rows.resized) {
                detail::sum_rows(reinterpret_cast<const float*>(image), places, rows.weights + at * rows.count, rows.count, p.columns.in * p.inner, made);
                from = made;
            }
            if (p.columns.resized) detail::sum_columns(p, from, columns, reinterpret_cast<float*>(to));
        }
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
