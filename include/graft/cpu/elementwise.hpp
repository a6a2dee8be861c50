// Elementwise float32 functions over whole tensors: unary, binary with broadcasting, per channel.
#pragma once

#include "../core/executor.hpp"
#include "elementwise_kernels.hpp"
#include "isa.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// y[i] = op(x[i]) for n elements; x may be y.
void run_unary(isa set, unary op, const float* x, float* y, std::int64_t n, executor& pool);
/// y[i] = act(x[i]) for n elements; x may be y.
void run_activation(isa set, activation kind, float alpha, float beta, const float* x, float* y, std::int64_t n, executor& pool);

/// Two operands, broadcast to `rank` <= 8 extents. A stride counts elements; 0 repeats the operand along that dimension.
struct binary_problem {
    binary op = binary::add;
    int rank = 0;
    std::int64_t extents[8] = {}, a_strides[8] = {}, b_strides[8] = {};
    epilogue ep;  ///< only the activation is looked at
};

/// The problem of y = op(a, b) for two row-major operands whose shapes (of rank a_rank, b_rank <= 8) broadcast as in numpy.
/// The shapes must fit each other.
binary_problem broadcast(binary op, const std::int64_t* a_shape, int a_rank, const std::int64_t* b_shape, int b_rank);

/// y = act(op(a, b)); y is row-major. y may be an operand that is not broadcast.
void run_binary(isa set, const binary_problem& problem, const float* a, const float* b, float* y, executor& pool);

/// y = act(x * scale[c] + shift[c]) or, with `prelu`, y = x < 0 ? x * scale[c] : x.
struct channel_problem {
    std::int64_t n = 0, c = 0, area = 0;            ///< area: height times width
    bool blocked = false;                           ///< layout of x and y: NCHWc with c = vector_width(set), else NCHW
    std::int64_t scale_image = 0, shift_image = 0;  ///< elements from one image's scales to the next's; 0: one set for all images
    bool prelu = false;
    epilogue ep;  ///< only the activation is looked at
};

/// scale and shift hold `c` numbers an image, in the order of the channels (as [N,C] row-major or [N][C/c][1][c] both do);
/// a null scale is 1, a null shift is 0. x may be y.
void run_channel(isa set, const channel_problem& problem, const float* x, const float* scale, const float* shift, float* y, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "dispatch.hpp"

#include <algorithm>
#include <limits>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// Elements a task: some microseconds of work, and twice that fits the second cache.
constexpr std::int64_t elementwise_grain = 16384;

// The bounds of none, relu and clip; true where the activation needs a pass of its own.
inline bool activation_bounds(const epilogue& ep, float& low, float& high) noexcept {
    const float infinity = std::numeric_limits<float>::infinity();
    low = ep.act == activation::relu ? 0.0f : ep.act == activation::clip ? ep.alpha : -infinity;
    high = ep.act == activation::clip ? ep.beta : infinity;
    return ep.act > activation::clip;
}

// A problem in as few dimensions as it needs; one more than problems have, for an inner run of one element.
struct binary_dims {
    int rank = 0;
    std::int64_t extents[9], a[9], b[9];
};

// Drops dimensions of extent 1 and joins neighbours that both operands walk through evenly; the innermost is last.
inline binary_dims collapse(const binary_problem& p) noexcept {
    binary_dims r;
    for (int d = 0; d < p.rank; ++d) {
        const std::int64_t e = p.extents[d], a = p.a_strides[d], b = p.b_strides[d];
        if (e == 1) continue;
        if (r.rank && r.a[r.rank - 1] == a * e && r.b[r.rank - 1] == b * e)
            r.extents[r.rank - 1] *= e, r.a[r.rank - 1] = a, r.b[r.rank - 1] = b;
        else
            r.extents[r.rank] = e, r.a[r.rank] = a, r.b[r.rank] = b, ++r.rank;
    }
    const int last = r.rank - 1;
    if (last < 0 || (r.a[last] != 0 && r.a[last] != 1) || (r.b[last] != 0 && r.b[last] != 1)) r.extents[r.rank] = 1, r.a[r.rank] = 0, r.b[r.rank] = 0, ++r.rank;
    return r;
}

}  // namespace detail

GRAFT_INLINE void run_unary(isa set, unary op, const float* x, float* y, std::int64_t n, executor& pool) {
    const elementwise_kernels& k = *kernels(set).elementwise;
    parallel_for_pieces(pool, n, detail::elementwise_grain, [&](std::int64_t i, std::int64_t count) { k.unary_run(op, x + i, y + i, count); });
}

GRAFT_INLINE void run_activation(isa set, activation kind, float alpha, float beta, const float* x, float* y, std::int64_t n, executor& pool) {
    const elementwise_kernels& k = *kernels(set).elementwise;
    parallel_for_pieces(pool, n, detail::elementwise_grain,
                        [&](std::int64_t i, std::int64_t count) { k.activation_run(kind, alpha, beta, x + i, y + i, count); });
}

GRAFT_INLINE binary_problem broadcast(binary op, const std::int64_t* a_shape, int a_rank, const std::int64_t* b_shape, int b_rank) {
    binary_problem p;
    p.op = op;
    p.rank = std::max(a_rank, b_rank);
    std::int64_t a_stride = 1, b_stride = 1;
    for (int d = p.rank - 1; d >= 0; --d) {
        const int at_a = d - (p.rank - a_rank), at_b = d - (p.rank - b_rank);
        const std::int64_t a = at_a >= 0 ? a_shape[at_a] : 1, b = at_b >= 0 ? b_shape[at_b] : 1;
        p.extents[d] = a == 1 ? b : a;
        p.a_strides[d] = a == 1 ? 0 : a_stride;
        p.b_strides[d] = b == 1 ? 0 : b_stride;
        a_stride *= a, b_stride *= b;
    }
    return p;
}

GRAFT_INLINE void run_binary(isa set, const binary_problem& problem, const float* a, const float* b, float* y, executor& pool) {
    const elementwise_kernels& k = *kernels(set).elementwise;
    std::int64_t elements = 1;
    for (int i = 0; i < problem.rank; ++i) elements *= problem.extents[i];
    if (elements == 0) return;
    const detail::binary_dims d = detail::collapse(problem);
    const int rank = d.rank;
    const std::int64_t n = d.extents[rank - 1], middle = rank > 1 ? d.extents[rank - 2] : 1, lines = elements / n;
    binary_rows base{};
    base.op = problem.op;
    base.n = n;
    base.y_row = n;
    base.a_row = rank > 1 ? d.a[rank - 2] : 0, base.b_row = rank > 1 ? d.b[rank - 2] : 0;
    base.a_step = static_cast<int>(d.a[rank - 1]), base.b_step = static_cast<int>(d.b[rank - 1]);
    const bool second_pass = detail::activation_bounds(problem.ep, base.low, base.high);
    const std::int64_t grain = detail::elementwise_grain;
    const std::int64_t columns = std::min(n, grain), rows = std::max<std::int64_t>(1, grain / n);
    const std::int64_t across = (n + columns - 1) / columns, down = (lines + rows - 1) / rows;
    parallel_for(pool, across * down, [&](std::int64_t task) {
        const std::int64_t column = task % across * columns, end = std::min(lines, (task / across + 1) * rows);
        for (std::int64_t line = task / across * rows; line < end;) {
            binary_rows g = base;
            std::int64_t rest = line / middle, at_a = line % middle * base.a_row, at_b = line % middle * base.b_row;
            for (int i = rank - 3; i >= 0; --i) {
                at_a += rest % d.extents[i] * d.a[i], at_b += rest % d.extents[i] * d.b[i];
                rest /= d.extents[i];
            }
            g.a = a + at_a + column * g.a_step, g.b = b + at_b + column * g.b_step;
            g.y = y + line * n + column;
            g.n = std::min(columns, n - column);
            g.rows = std::min(end - line, middle - line % middle);
            k.binary_run(g);
            // Several rows are whole ones, so what was stored is one run.
            if (second_pass) k.activation_run(problem.ep.act, problem.ep.alpha, problem.ep.beta, g.y, g.y, g.n * g.rows);
            line += g.rows;
        }
    });
}

GRAFT_INLINE void run_channel(isa set, const channel_problem& p, const float* x, const float* scale, const float* shift, float* y, executor& pool) {
    const elementwise_kernels& k = *kernels(set).elementwise;
    channel_rows base{};
    base.x = x, base.y = y, base.scale = scale, base.shift = shift;
    base.width = p.blocked ? vector_width(set) : 1;
    base.channels = p.c;
    base.rows_per_image = (p.c + base.width - 1) / base.width;
    base.run = p.area * base.width;
    base.scale_image = p.scale_image, base.shift_image = p.shift_image;
    base.prelu = p.prelu;
    const bool second_pass = detail::activation_bounds(p.ep, base.low, base.high);
    const std::int64_t lines = p.n * base.rows_per_image;
    if (lines == 0 || base.run == 0) return;
    const std::int64_t rows = std::max<std::int64_t>(1, detail::elementwise_grain / base.run);
    parallel_for(pool, (lines + rows - 1) / rows, [&](std::int64_t task) {
        channel_rows g = base;
        g.first = task * rows;
        g.rows = std::min(rows, lines - g.first);
        k.channel_run(g);
        if (second_pass) {
            float* out = y + g.first * g.run;
            k.activation_run(p.ep.act, p.ep.alpha, p.ep.beta, out, out, g.rows * g.run);
        }
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
