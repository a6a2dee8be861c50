// Kernels that move and convert elements: what each instruction set fills.
#pragma once

#include "../config.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The moving kernels of one instruction set.
struct move_kernels {
    /// y[j * y_row + i] = x[i * x_row + j] for i < rows, j < columns; elements of `size` 1, 2, 4 or 8 bytes.
    void (*transpose)(int size, const void* x, std::int64_t x_row, void* y, std::int64_t y_row, std::int64_t rows, std::int64_t columns);
    void (*from_float16)(const std::uint16_t* x, float* y, std::int64_t n);
    void (*to_float16)(const float* x, std::uint16_t* y, std::int64_t n);
    void (*from_bfloat16)(const std::uint16_t* x, float* y, std::int64_t n);
    void (*to_bfloat16)(const float* x, std::uint16_t* y, std::int64_t n);
    /// y = saturate(round(x / scale) + zero), half to even; NaN becomes `zero`. is_signed: int8, else uint8.
    void (*quantize)(const float* x, void* y, std::int64_t n, float scale, int zero, bool is_signed);
    /// y = (x - zero) * scale.
    void (*dequantize)(const void* x, float* y, std::int64_t n, float scale, int zero, bool is_signed);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
