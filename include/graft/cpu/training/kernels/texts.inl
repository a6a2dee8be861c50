// The kernel texts that training adds, and the table of what they define: each family's text has the function that names its own.

namespace training {

#include "saved.inl"

#include "conv_grad_weight.inl"
#include "conv_grad_weight_planes.inl"
#include "conv_grad_weight_depthwise.inl"
#include "conv_grad_weight_winograd.inl"
#include "conv_grad_pack.inl"
#include "conv_grad_input.inl"
#include "elementwise_grad.inl"
#include "norm_grad.inl"
#include "reduce_sum.inl"
#include "rows_grad.inl"
#include "matmul_grad.inl"
#include "optimizer.inl"
#include "pool_grad.inl"

inline const training_kernel_table& table() {
    static const training_kernel_table all = {conv_grad_table(), norm_grad_table(),  elementwise_grad_table(), pool_grad_table(),
                                              optimizer_table(), reduce_sum_table(), matmul_grad_table(),      rows_grad_table()};
    return all;
}

}  // namespace training
