// Everything that the text of training kernels may use: included before any region is opened.
#pragma once

#include "../kernel_headers.hpp"
#include "conv_grad_kernels.hpp"
#include "elementwise_grad_kernels.hpp"
#include "matmul_grad_kernels.hpp"
#include "norm_grad_kernels.hpp"
#include "optimizer_kernels.hpp"
#include "pool_grad_kernels.hpp"
#include "reduce_sum_kernels.hpp"
#include "rows_grad_kernels.hpp"
#include "kernel_table.hpp"
