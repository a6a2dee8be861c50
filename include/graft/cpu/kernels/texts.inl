// The kernel texts that inference needs, and the table of what they define: each family's text has the function that names its own.

#include "../simd/common.inl"

#include "activation.inl"
#include "elementwise.inl"
#include "rows.inl"
#include "move.inl"
#include "gemm.inl"
#include "pool.inl"
#include "reorder.inl"
#include "conv.inl"
#include "depthwise.inl"
#include "winograd.inl"
#include "quantized.inl"
#include "quantized_depthwise.inl"
#include "quantized_winograd.inl"
#include "quantized_elementwise.inl"

inline const kernel_table& table() {
    static const kernel_table all = {conv_table(),        pool_table(), reorder_table(), gemm_table(),
                                     elementwise_table(), rows_table(), move_table(),    quantized_table()};
    return all;
}
