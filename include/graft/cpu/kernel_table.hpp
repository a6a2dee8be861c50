// What one instruction set offers: plain function pointers, one struct for each family, declared in the family's header.
#pragma once

#include "../config.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

struct conv_kernels;
struct pool_kernels;
struct reorder_kernels;
struct gemm_kernels;
struct elementwise_kernels;
struct rows_kernels;
struct move_kernels;
struct quantized_kernels;
struct quantized_conv_args;
struct byte_kernels;
struct code_pixel_kernels;
struct bfloat16_kernels;
/// y[i] = table[x[i]] for n bytes, of a table of 256. x may be y.
using byte_lookup = void (*)(const std::uint8_t* table, const std::uint8_t* x, std::uint8_t* y, std::int64_t n);

/// The kernels of one instruction set. A null function means that GRAFT_OPS left its operators out.
struct kernel_table {
    const conv_kernels* conv;
    const pool_kernels* pool;
    const reorder_kernels* reorder;
    const gemm_kernels* gemm;
    const elementwise_kernels* elementwise;
    const rows_kernels* rows;
    const move_kernels* move;
    const quantized_kernels* quantized;
};

}  // namespace cpu
GRAFT_END_NAMESPACE
