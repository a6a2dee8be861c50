// The gradients of the operators, and the operators of the domain `graft` that training adds. Part of train.hpp.
#pragma once

#include "../graph/gradient.hpp"
#include "ops.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// The gradient of an operator; null where it has none.
const gradient_row* find_gradient(const node& n);

/// `find_op`, and after it the operators that only training has: gradients that are kernels of their own, optimisers.
const op_row* find_training_op(const char* domain, const char* name, int version);

/// The tables of both, for tests and documents.
using gradient_table_list = row_table<gradient_table>;
gradient_table_list all_gradient_tables();
table_list all_training_op_tables();

}  // namespace ops
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "norm_members.hpp"
#include "norm_training.hpp"
#include "optimizer.hpp"

#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace ops {

// Each family's file ends with these, beside its rows.
GRAFT_INLINE gradient_table_list all_gradient_tables() {
    static const gradient_table tables[] = {
        activation_gradients(),
        arg_gradients(),
        cast_gradients(),
        cumulative_gradients(),
        einsum_gradients(),
        elementwise_binary_gradients(),
        elementwise_unary_gradients(),
        elementwise_variadic_gradients(),
        gather_gradients(),
        generate_gradients(),
        legacy_gradients(),
        logical_gradients(),
        loss_gradients(),
        matmul_gradients(),
        pad_gradients(),
        rearrange_gradients(),
        reduce_gradients(),
        scatter_gradients(),
        selection_gradients(),
        shape_gradients(),
        slice_gradients(),
        softmax_gradients(),
        conv_gradients(),
        conv_transpose_gradients(),
        pool_gradients(),
        norm_gradients(),
        norm_local_gradients(),
        norm_training_gradients(),
        random_gradients(),
        quantize_gradients(),
        resize_gradients(),
        attention_gradients(),
        grid_gradients(),
        unfold_gradients(),
        detection_gradients(),
        deform_conv_gradients(),
    };
    return tables;
}
GRAFT_INLINE table_list all_training_op_tables() {
    static const op_table tables[] = {
        activation_training_ops(), softmax_training_ops(),   matmul_training_ops(),         pad_training_ops(),  reduce_training_ops(),
        slice_training_ops(),      conv_training_ops(),      conv_transpose_training_ops(), pool_training_ops(), norm_training_ops(),
        layer_norm_training_ops(), random_training_ops(),    quantize_training_ops(),       optimizer_ops(),     resize_training_ops(),
        grid_training_ops(),       detection_training_ops(), deform_conv_training_ops(),    collective_ops(),    norm_members_ops(),
    };
    return tables;
}

GRAFT_INLINE const gradient_row* find_gradient(const node& n) {
    for (const gradient_table& table : all_gradient_tables())
        for (const gradient_row& row : table)
            if (n.op_type == row.name && n.domain == row.domain) return &row;
    return nullptr;
}

GRAFT_INLINE const op_row* find_training_op(const char* domain, const char* name, int version) {
    if (const op_row* row = find_op(domain, name, version)) return row;
    const auto found = [&](const op_row& row) { return !std::strcmp(row.name, name) && !std::strcmp(row.domain, domain); };
    for (const op_table& table : all_training_op_tables())
        for (const op_row& row : table)
            if (found(row)) return &row;
    for (const op_row& row : training_lowered_ops())
        if (found(row)) return &row;
    return nullptr;
}

}  // namespace ops
GRAFT_END_NAMESPACE
#endif
