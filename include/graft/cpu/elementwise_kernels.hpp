// Elementwise float32 kernels that each instruction set fills, and what they are given.
#pragma once

#include "../core/wanted.hpp"
#include "../graph/activation.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Functions of one element beyond the activations. round: half to even; erf and exp within 2 ulp, log within 2.
enum class unary { abs, neg, exp, log, sqrt, reciprocal, floor, ceil, round, sign, erf, square };

/// Functions of two elements. max and min hand NaN on; pow is powf; prelu is a < 0 ? a * b : a.
enum class binary { add, sub, mul, div, max, min, pow, prelu };

/// Whether an operator that this build holds can come to need the function: by itself, or fused from several.
constexpr bool unary_wanted(unary op) noexcept {
    constexpr const char* names[] = {"Abs", "Neg", "Exp", "Log", "Sqrt", "Reciprocal", "Floor", "Ceil", "Round", "Sign", "Erf"};
    return op == unary::square || wanted(names[static_cast<int>(op)]);
}
constexpr bool binary_wanted(binary op) noexcept {
    constexpr const char* names[] = {"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu"};
    return wanted(names[static_cast<int>(op)]);
}

/// Rows of a binary function: y[r][i] = clamp(op(a[r][i], b[r][i])), r < rows, i < n.
struct binary_rows {
    binary op;
    const float* a;
    const float* b;
    float* y;
    std::int64_t rows, n;
    std::int64_t a_row, b_row, y_row;  ///< elements from one row to the next
    int a_step, b_step;                ///< 1, or 0 where a row has one element for all i
    float low, high;                   ///< bounds; -infinity and infinity for none
};

/// Rows of a per-channel function: y = clamp(x * scale[c] + shift[c]), or x < 0 ? x * scale[c] : x.
/// A row is a channel of `run` elements, or (`width` > 1) a block of `width` channels, interleaved.
struct channel_rows {
    const float* x;
    float* y;
    const float* scale;  ///< null: 1
    const float* shift;  ///< null: 0
    std::int64_t first, rows, run;
    std::int64_t channels, rows_per_image;
    std::int64_t scale_image, shift_image;  ///< elements from one image's scales to the next's; 0: the same for all
    int width;
    bool prelu;
    float low, high;
};

/// The elementwise kernels of one instruction set.
struct elementwise_kernels {
    void (*unary_run)(unary op, const float* x, float* y, std::int64_t n);
    void (*activation_run)(activation kind, float alpha, float beta, const float* x, float* y, std::int64_t n);
    void (*binary_run)(const binary_rows&);
    void (*channel_run)(const channel_rows&);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
