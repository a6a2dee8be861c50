// The kernels of the CPU back end, best first; where all refuse a node, the reference kernel of the op table runs it.
#pragma once

#include "bfloat16.hpp"
#include "channels.hpp"
#include "conv.hpp"
#include "conv_transpose.hpp"
#include "elementwise.hpp"
#include "matmul.hpp"
#include "move.hpp"
#include "pool.hpp"
#include "quantized.hpp"
#include "resize.hpp"
#include "rows.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The first kernel that takes the node, or null: `refusal` says then what the last one asked had against it.
inline GRAFT_COLD const kernel_row* choose_kernel(const kernel_query& q, kernel_choice& choice, const char*& refusal) {
    const kernel_rows tables[] = {bfloat16_kernel_rows(),    conv_kernel_rows(),   matmul_kernel_rows(), pool_kernel_rows(),
                                  elementwise_kernel_rows(), move_kernel_rows(),   rows_kernel_rows(),   conv_transpose_kernel_rows(),
                                  quantized_kernel_rows(),   resize_kernel_rows(), channel_kernel_rows()};
    refusal = "its first output is left out";
    if (!q.wants(0)) return nullptr;
    refusal = "no fast kernel for this operator";
    for (const kernel_rows& table : tables)
        for (const kernel_row& row : table) {
            if (q.n.op_type != row.op || q.n.domain != row.domain || !row.choose) continue;
            refusal = row.choose(q, choice);
            if (!refusal) return refusal = "", &row;
        }
    return nullptr;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
