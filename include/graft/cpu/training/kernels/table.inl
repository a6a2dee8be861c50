// The training table of one instruction set; each family's text defines the function that names its own.

inline const training_kernel_table& table() {
    static const training_kernel_table all = {conv_grad_table(), norm_grad_table(), elementwise_grad_table(), pool_grad_table(), optimizer_table(),
                                              reduce_sum_table(), matmul_grad_table(), rows_grad_table()};
    return all;
}
