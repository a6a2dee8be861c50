// What one instruction set offers for training: plain function pointers, one struct for each family, declared in the family's header.
#pragma once

#include "../../config.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

struct conv_grad_kernels;
struct norm_grad_kernels;
struct elementwise_grad_kernels;
struct pool_grad_kernels;
struct optimizer_kernels;
struct reduce_sum_kernels;
struct matmul_grad_kernels;
struct rows_grad_kernels;

/// The training kernels of one instruction set, apart from `kernel_table` so that programs that only predict do not carry them.
struct training_kernel_table {
    const conv_grad_kernels* conv_grad;
    const norm_grad_kernels* norm_grad;
    const elementwise_grad_kernels* elementwise_grad;
    const pool_grad_kernels* pool_grad;
    const optimizer_kernels* optimizer;
    const reduce_sum_kernels* reduce_sum;
    const matmul_grad_kernels* matmul_grad;
    const rows_grad_kernels* rows_grad;
};

}  // namespace cpu
GRAFT_END_NAMESPACE
