// Kernels that move and convert elements: what each instruction set fills.
#pragma once

#include "../core/wanted.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// A block of output channels that is brought together lane by lane, out of blocks of inputs. Lanes that no source has are 0.
struct channel_gather {
    static constexpr int most = 16;  // lanes of a block, and so sources
    int sources = 0;
    const float* from[most];        // each source's block of the first pixel
    std::int32_t lane[most][most];  // of a source, for each lane of the output: which of its lanes is brought there
    float taken[most][most];        // and 1 where it is, else 0
};

/// Whether this build joins, cuts or mixes images along their channels.
constexpr bool channels_wanted() noexcept { return wanted("Conv") && (wanted("Concat") || wanted("Split") || wanted("Slice") || wanted("Transpose")); }

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
    /// y[pixel] = the lanes of the sources' blocks of that pixel; 0 where none is named.
    void (*gather_channels)(const channel_gather& of, float* y, std::int64_t pixels);
};

}  // namespace cpu
GRAFT_END_NAMESPACE
