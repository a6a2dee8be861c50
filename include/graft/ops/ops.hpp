// The op table: every family of operators, and how a row is found.
#pragma once

#include "../graph/op.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// Tables of rows.
using table_list = row_table<op_table>;

/// Every operator that files may hold.
table_list all_op_tables();

/// The row of an operator at an opset version, the domain `graft` included; null where there is none.
const op_row* find_op(const char* domain, const char* name, int version);

/// The row of a node, whether it is bound to it or not: nodes of networks that are written in code are only when they are loaded. One without
/// any property where there is none, and for nodes that are set apart by their domain.
const op_row& row_of(const node& n);

}  // namespace ops
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "activation.hpp"
#include "arg.hpp"
#include "attention.hpp"
#include "cast.hpp"
#include "causal_conv.hpp"
#include "control.hpp"
#include "conv.hpp"
#include "conv_transpose.hpp"
#include "cumulative.hpp"
#include "deform_conv.hpp"
#include "detection.hpp"
#include "einsum.hpp"
#include "elementwise_binary.hpp"
#include "elementwise_unary.hpp"
#include "elementwise_variadic.hpp"
#include "gather.hpp"
#include "generate.hpp"
#include "grid.hpp"
#include "legacy.hpp"
#include "linear_algebra.hpp"
#include "linear_attention.hpp"
#include "logical.hpp"
#include "loss.hpp"
#include "matmul.hpp"
#include "norm.hpp"
#include "norm_local.hpp"
#include "pad.hpp"
#include "pool.hpp"
#include "quantize.hpp"
#include "quantized.hpp"
#include "random.hpp"
#include "rearrange.hpp"
#include "recurrent.hpp"
#include "reduce.hpp"
#include "resize.hpp"
#include "scatter.hpp"
#include "selection.hpp"
#include "shape.hpp"
#include "signal.hpp"
#include "slice.hpp"
#include "softmax.hpp"
#include "tfidf.hpp"
#include "unfold.hpp"
#include "window_function.hpp"
#include "lowered.hpp"

#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace ops {

GRAFT_INLINE table_list all_op_tables() {
    static const op_table tables[] = {
        activation_ops(),
        arg_ops(),
        attention_ops(),
        cast_ops(),
        causal_conv_ops(),
        control_ops(),
        conv_ops(),
        conv_transpose_ops(),
        cumulative_ops(),
        deform_conv_ops(),
        detection_ops(),
        einsum_ops(),
        elementwise_binary_ops(),
        elementwise_unary_ops(),
        elementwise_variadic_ops(),
        gather_ops(),
        generate_ops(),
        grid_ops(),
        legacy_ops(),
        linear_algebra_ops(),
        linear_attention_ops(),
        logical_ops(),
        loss_ops(),
        matmul_ops(),
        norm_ops(),
        norm_local_ops(),
        pad_ops(),
        pool_ops(),
        quantize_ops(),
        quantized_ops(),
        random_ops(),
        rearrange_ops(),
        recurrent_ops(),
        reduce_ops(),
        resize_ops(),
        scatter_ops(),
        selection_ops(),
        shape_ops(),
        signal_ops(),
        slice_ops(),
        softmax_ops(),
        tfidf_ops(),
        unfold_ops(),
        window_function_ops(),
    };
    return tables;
}

GRAFT_INLINE const op_row* find_op(const char* domain, const char* name, int version) {
    const op_table lowered = lowered_ops();
    const bool is_lowered = std::strcmp(domain, "graft") == 0;
    for (const op_table& table : is_lowered ? table_list(&lowered, 1) : all_op_tables())
        for (const op_row& row : table)
            if (!std::strcmp(row.name, name) && !std::strcmp(row.domain, domain) &&
                (is_lowered || (version >= row.since && (!row.until || version <= row.until))))
                return &row;
    return nullptr;
}

GRAFT_INLINE const op_row& row_of(const node& n) {
    static constexpr op_row none = make_op("");
    if (n.op && n.domain == n.op->domain) return *n.op;
    const op_row* row = n.op ? nullptr : find_op(n.domain.c_str(), n.op_type.c_str(), n.version ? n.version : newest_opset);
    return row ? *row : none;
}

}  // namespace ops
GRAFT_END_NAMESPACE
#endif
