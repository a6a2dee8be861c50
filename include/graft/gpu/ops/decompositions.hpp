// The operators that are written as others: every family.
#pragma once

#include "../lower/decompose.hpp"
#include "attention.hpp"
#include "causal_conv.hpp"
#include "einsum.hpp"
#include "linear_attention.hpp"
#include "loss.hpp"
#include "matmul.hpp"
#include "norm_members.hpp"
#include "quantized.hpp"
#include "recurrent.hpp"
#include "signal.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE const decomposition_row* find_decomposition(const op_context& c) {
    const decomposition_table families[] = {
        attention_decompositions(), causal_conv_decompositions(), einsum_decompositions(),       linear_attention_decompositions(),
        loss_decompositions(),      matmul_decompositions(),      norm_members_decompositions(), quantize_decompositions(),
        quantized_decompositions(), recurrent_decompositions(),   signal_decompositions(),
    };
    for (const decomposition_table& family : families)
        for (const auto& row : family)
            if (c.n.op_type == row.op && c.n.domain == row.domain && (!row.applies || row.applies(c))) return &row;
    return nullptr;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
