// The kernels of training's operators, and behind them those of inference.
#pragma once

#include "../ops.hpp"
#include "attention.hpp"
#include "conv_grad.hpp"
#include "dropout.hpp"
#include "elementwise.hpp"
#include "matmul.hpp"
#include "norm.hpp"
#include "optimizer.hpp"
#include "pool.hpp"
#include "reduce.hpp"
#include "rows.hpp"
#include "saved.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// As `choose_kernel`, with the operators that training adds.
inline const kernel_row* choose_training_kernel(const kernel_query& q, kernel_choice& choice, const char*& refusal) {
    const kernel_rows tables[] = {conv_grad_kernel_rows(),   norm_grad_kernel_rows(), elementwise_grad_kernel_rows(), reduce_grad_kernel_rows(),
                                  matmul_grad_kernel_rows(), optimizer_kernel_rows(), pool_grad_kernel_rows(),        dropout_kernel_rows(),
                                  rows_grad_kernel_rows(),   saved_kernel_rows(),     attention_kernel_rows()};
    refusal = "its first output is left out";
    if (!q.wants(0)) return nullptr;
    for (const kernel_rows& table : tables)
        for (const kernel_row& row : table) {
            if (q.n.op_type != row.op || q.n.domain != row.domain || !row.choose) continue;
            refusal = row.choose(q, choice);
            return refusal ? nullptr : &row;
        }
    return choose_kernel(q, choice, refusal);
}

}  // namespace cpu
GRAFT_END_NAMESPACE
