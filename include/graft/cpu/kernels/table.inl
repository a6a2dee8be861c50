// The table of one instruction set; each family's text defines the function that names its own.

inline const kernel_table& table() {
    static const kernel_table all = {conv_table(),        pool_table(), reorder_table(), gemm_table(),
                                     elementwise_table(), rows_table(), move_table()};
    return all;
}
