// Moving elements of any type, converting narrow floats, and linear quantisation of float32.
#pragma once

#include "../core/executor.hpp"
#include "isa.hpp"
#include "move_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// y = x with its dimensions permuted: dimension d of y is dimension permutation[d] of x. Both row-major, rank <= 8, elements of
/// `size` 1, 2, 4 or 8 bytes; x and y do not overlap.
void run_transpose(isa set, int size, int rank, const std::int64_t* shape, const int* permutation, const void* x, void* y, executor& pool);

/// Copies a box of `rank` <= 8 extents between strided places (strides in elements, of either sign): slices, concatenations,
/// pads.
void run_copy(int size, int rank, const std::int64_t* extents, const void* x, const std::int64_t* x_strides, void* y, const std::int64_t* y_strides,
              executor& pool);

/// n elements from float16 or bfloat16 (their bits) to float32, exact, and back, rounded half to even.
void run_from_float16(isa set, const std::uint16_t* x, float* y, std::int64_t n, executor& pool);
void run_to_float16(isa set, const float* x, std::uint16_t* y, std::int64_t n, executor& pool);
void run_from_bfloat16(isa set, const std::uint16_t* x, float* y, std::int64_t n, executor& pool);
void run_to_bfloat16(isa set, const float* x, std::uint16_t* y, std::int64_t n, executor& pool);

/// A tensor [outer, axis, inner] whose scales and zero points run along the axis; one for all: axis 1.
struct quantize_problem {
    std::int64_t outer = 1, axis = 1, inner = 0;
    bool is_signed = false;  ///< int8, else uint8
};
/// y = saturate(round(x / scale) + zero), half to even; NaN becomes the zero point. `zero` has the type of y; null: all 0.
void run_quantize(isa set, const quantize_problem& problem, const float* x, const float* scale, const void* zero, void* y, executor& pool);
/// y = (x - zero) * scale; `zero` has the type of x; null: all 0.
void run_dequantize(isa set, const quantize_problem& problem, const void* x, const float* scale, const void* zero, float* y, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "dispatch.hpp"

#include <algorithm>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

constexpr std::int64_t move_grain = 65536;  // bytes a task

// Extents and strides of a copy in as few dimensions as it needs; the innermost of y is last.
struct copy_dims {
    int rank = 0;
    std::int64_t extents[8], x[8], y[8];
    void add(std::int64_t extent, std::int64_t x_stride, std::int64_t y_stride) noexcept {
        if (extent == 1) return;
        if (rank && x[rank - 1] == x_stride * extent && y[rank - 1] == y_stride * extent)
            extents[rank - 1] *= extent, x[rank - 1] = x_stride, y[rank - 1] = y_stride;
        else
            extents[rank] = extent, x[rank] = x_stride, y[rank] = y_stride, ++rank;
    }
};

// Where element `index` of the first `rank` dimensions lies in x and in y.
inline void locate(const copy_dims& d, int rank, std::int64_t index, std::int64_t& x, std::int64_t& y) noexcept {
    x = y = 0;
    for (int i = rank - 1; i >= 0; --i) {
        x += index % d.extents[i] * d.x[i], y += index % d.extents[i] * d.y[i];
        index /= d.extents[i];
    }
}

template <class T>
inline void copy_line(const char* x, std::int64_t x_stride, char* y, std::int64_t y_stride, std::int64_t n) noexcept {
    for (std::int64_t i = 0; i < n; ++i) std::memcpy(y + i * y_stride * std::int64_t(sizeof(T)), x + i * x_stride * std::int64_t(sizeof(T)), sizeof(T));
}

inline void copy_any_line(int size, const char* x, std::int64_t x_stride, char* y, std::int64_t y_stride, std::int64_t n) noexcept {
    if (size == 4) return copy_line<std::uint32_t>(x, x_stride, y, y_stride, n);
    if (size == 8) return copy_line<std::uint64_t>(x, x_stride, y, y_stride, n);
    if (size == 2) return copy_line<std::uint16_t>(x, x_stride, y, y_stride, n);
    copy_line<std::uint8_t>(x, x_stride, y, y_stride, n);
}

inline void copy_box(int size, const copy_dims& d, const char* x, char* y, executor& pool) {
    if (d.rank == 0) {
        std::memcpy(y, x, static_cast<std::size_t>(size));
        return;
    }
    const int last = d.rank - 1;
    const std::int64_t n = d.extents[last];
    std::int64_t lines = 1;
    for (int i = 0; i < last; ++i) lines *= d.extents[i];
    if (n == 0 || lines == 0) return;
    const bool run = d.x[last] == 1 && d.y[last] == 1;
    const std::int64_t piece = std::min(n, move_grain * 4 / size), pieces = (n + piece - 1) / piece;
    const std::int64_t group = std::max<std::int64_t>(1, move_grain / (n * size)), groups = (lines + group - 1) / group;
    parallel_for(pool, groups * pieces, [&](std::int64_t task) {
        const std::int64_t first = task % pieces * piece, length = std::min(piece, n - first), end = std::min(lines, (task / pieces + 1) * group);
        for (std::int64_t line = task / pieces * group; line < end;) {
            std::int64_t at_x, at_y;
            locate(d, last, line, at_x, at_y);
            // Lines of the same outer place follow each other by plain steps.
            const std::int64_t row = last ? line % d.extents[last - 1] : 0, rows = last ? std::min(end - line, d.extents[last - 1] - row) : 1;
            const std::int64_t x_row = last ? d.x[last - 1] : 0, y_row = last ? d.y[last - 1] : 0;
            for (std::int64_t r = 0; r < rows; ++r) {
                const char* from = x + (at_x + r * x_row + first * d.x[last]) * size;
                char* to = y + (at_y + r * y_row + first * d.y[last]) * size;
                if (run)
                    std::memcpy(to, from, static_cast<std::size_t>(length * size));
                else
                    copy_any_line(size, from, d.x[last], to, d.y[last], length);
            }
            line += rows;
        }
    });
}

inline int zero_point(const void* zero, bool is_signed, std::int64_t i) noexcept {
    return !zero ? 0 : is_signed ? static_cast<const std::int8_t*>(zero)[i] : static_cast<const std::uint8_t*>(zero)[i];
}

// Calls f(first element, how many, place on the axis) for pieces of a tensor [outer, axis, inner].
template <class F>
inline void along_axis(const quantize_problem& p, executor& pool, const F& f) {
    const std::int64_t lines = p.outer * p.axis, grain = 16384;
    if (lines == 0 || p.inner == 0) return;
    const std::int64_t piece = std::min(p.inner, grain), pieces = (p.inner + piece - 1) / piece;
    const std::int64_t group = std::max<std::int64_t>(1, grain / p.inner), groups = (lines + group - 1) / group;
    parallel_for(pool, groups * pieces, [&](std::int64_t t) {
        const std::int64_t first = t % pieces * piece, end = std::min(lines, (t / pieces + 1) * group);
        for (std::int64_t line = t / pieces * group; line < end; ++line) f(line * p.inner + first, std::min(piece, p.inner - first), line % p.axis);
    });
}

}  // namespace detail

GRAFT_INLINE void run_copy(int size, int rank, const std::int64_t* extents, const void* x, const std::int64_t* x_strides, void* y,
                           const std::int64_t* y_strides, executor& pool) {
    detail::copy_dims d;
    for (int i = 0; i < rank; ++i) {
        if (extents[i] == 0) return;
        d.add(extents[i], x_strides[i], y_strides[i]);
    }
    detail::copy_box(size, d, static_cast<const char*>(x), static_cast<char*>(y), pool);
}

GRAFT_INLINE void run_transpose(isa set, int size, int rank, const std::int64_t* shape, const int* permutation, const void* x, void* y, executor& pool) {
    const move_kernels& k = *kernels(set).move;
    std::int64_t x_strides[8], y_strides[8], stride = 1, elements = 1;
    for (int i = rank - 1; i >= 0; --i) x_strides[i] = stride, stride *= shape[i];
    for (int i = rank - 1; i >= 0; --i) y_strides[i] = elements, elements *= shape[permutation[i]];
    if (elements == 0) return;
    detail::copy_dims d;
    for (int i = 0; i < rank; ++i) d.add(shape[permutation[i]], x_strides[permutation[i]], y_strides[i]);
    const char* from = static_cast<const char*>(x);
    char* to = static_cast<char*>(y);
    // A run of elements that stays together and is as large as a larger element is one.
    if (d.rank > 1 && d.x[d.rank - 1] == 1) {
        const std::int64_t run = d.extents[d.rank - 1] * size;
        if (run != 2 && run != 4 && run != 8) return detail::copy_box(size, d, from, to, pool);
        for (int i = 0; i < d.rank - 1; ++i) d.x[i] /= d.extents[d.rank - 1], d.y[i] /= d.extents[d.rank - 1];
        --d.rank;
        size = static_cast<int>(run);
    }
    const int last = d.rank - 1;
    int contiguous = last;
    for (int i = 0; i < d.rank; ++i)
        if (d.x[i] == 1) contiguous = i;
    if (d.rank < 2 || contiguous == last) return detail::copy_box(size, d, from, to, pool);
    // Dimension `last` of y runs along rows of x, `contiguous` along its columns; the others are walked.
    const std::int64_t rows = d.extents[last], columns = d.extents[contiguous], x_row = d.x[last], y_row = d.y[contiguous];
    detail::copy_dims others;
    std::int64_t planes = 1;
    for (int i = 0; i < last; ++i)
        if (i != contiguous) {
            others.extents[others.rank] = d.extents[i], others.x[others.rank] = d.x[i], others.y[others.rank] = d.y[i], ++others.rank;
            planes *= d.extents[i];
        }
    const std::int64_t wanted_columns = std::max<std::int64_t>(1, detail::move_grain / (rows * size));
    const std::int64_t stripe = std::min(columns, (wanted_columns + 15) / 16 * 16), stripes = (columns + stripe - 1) / stripe;
    const std::int64_t tall = std::min(rows, std::max<std::int64_t>(16, detail::move_grain / (stripe * size) / 16 * 16)), parts = (rows + tall - 1) / tall;
    parallel_for(pool, planes * stripes * parts, [&](std::int64_t t) {
        std::int64_t at_x, at_y;
        detail::locate(others, others.rank, t / (stripes * parts), at_x, at_y);
        const std::int64_t j = t / parts % stripes * stripe, i = t % parts * tall;
        k.transpose(size, from + (at_x + i * x_row + j) * size, x_row, to + (at_y + j * y_row + i) * size, y_row, std::min(tall, rows - i),
                    std::min(stripe, columns - j));
    });
}

#define GRAFT_X(name, kernel, From, To) \
    GRAFT_INLINE void name(isa set, const From* x, To* y, std::int64_t n, executor& pool) { \
        const move_kernels& k = *kernels(set).move; \
        parallel_for_pieces(pool, n, 16384, [&](std::int64_t i, std::int64_t count) { k.kernel(x + i, y + i, count); }); \
    }
GRAFT_X(run_from_float16, from_float16, std::uint16_t, float)
GRAFT_X(run_to_float16, to_float16, float, std::uint16_t)
GRAFT_X(run_from_bfloat16, from_bfloat16, std::uint16_t, float)
GRAFT_X(run_to_bfloat16, to_bfloat16, float, std::uint16_t)
#undef GRAFT_X

GRAFT_INLINE void run_quantize(isa set, const quantize_problem& p, const float* x, const float* scale, const void* zero, void* y, executor& pool) {
    const move_kernels& k = *kernels(set).move;
    detail::along_axis(p, pool, [&](std::int64_t first, std::int64_t n, std::int64_t at) {
        k.quantize(x + first, static_cast<std::uint8_t*>(y) + first, n, scale[at], detail::zero_point(zero, p.is_signed, at), p.is_signed);
    });
}

GRAFT_INLINE void run_dequantize(isa set, const quantize_problem& p, const void* x, const float* scale, const void* zero, float* y, executor& pool) {
    const move_kernels& k = *kernels(set).move;
    detail::along_axis(p, pool, [&](std::int64_t first, std::int64_t n, std::int64_t at) {
        k.dequantize(static_cast<const std::uint8_t*>(x) + first, y + first, n, scale[at], detail::zero_point(zero, p.is_signed, at), p.is_signed);
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
