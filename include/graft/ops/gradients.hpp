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
struct gradient_table_list {
    const gradient_table* tables;
    int size;
};
gradient_table_list all_gradient_tables();
table_list all_training_op_tables();

}  // namespace ops
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "norm_training.hpp"
#include "optimizer.hpp"

#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace ops {

// Each family's file ends with these, beside its rows.
GRAFT_INLINE gradient_table_list all_gradient_tables() {
    static const gradient_table tables[] = {
        activation_gradients(), arg_gradients(), cast_gradients(), cumulative_gradients(), einsum_gradients(), elementwise_binary_gradients(),
        elementwise_unary_gradients(), elementwise_variadic_gradients(), gather_gradients(), generate_gradients(), legacy_gradients(),
        logical_gradients(), loss_gradients(), matmul_gradients(), pad_gradients(), rearrange_gradients(), reduce_gradients(), scatter_gradients(),
        selection_gradients(), shape_gradients(), slice_gradients(), softmax_gradients(), conv_gradients(), conv_transpose_gradients(),
        pool_gradients(), norm_gradients(), norm_training_gradients(), random_gradients(), quantize_gradients(), resize_gradients(),
        attention_gradients(), grid_gradients(), unfold_gradients(), detection_gradients(), deform_conv_gradients(),
    };
    return {tables, static_cast<int>(sizeof tables / sizeof tables[0])};
}
GRAFT_INLINE table_list all_training_op_tables() {
    static const op_table tables[] = {
        activation_training_ops(), softmax_training_ops(), matmul_training_ops(), pad_training_ops(), reduce_training_ops(), slice_training_ops(), conv_training_ops(),
        conv_transpose_training_ops(), pool_training_ops(), norm_training_ops(), layer_norm_training_ops(), random_training_ops(), quantize_training_ops(), optimizer_ops(),
        resize_training_ops(), grid_training_ops(), detection_training_ops(), deform_conv_training_ops(),
    };
    return {tables, static_cast<int>(sizeof tables / sizeof tables[0])};
}

GRAFT_INLINE const gradient_row* find_gradient(const node& n) {
    const gradient_table_list list = all_gradient_tables();
    for (int t = 0; t < list.size; ++t)
        for (int i = 0; i < list.tables[t].size; ++i) {
            const gradient_row& row = list.tables[t].rows[i];
            if (n.op_type == row.name && n.domain == row.domain) return &row;
        }
    return nullptr;
}

GRAFT_INLINE const op_row* find_training_op(const char* domain, const char* name, int version) {
    if (const op_row* row = find_op(domain, name, version)) return row;
    const table_list list = all_training_op_tables();
    const op_table lowered = training_lowered_ops();
    for (int t = 0; t <= list.size; ++t) {
        const op_table& table = t < list.size ? list.tables[t] : lowered;
        for (int i = 0; i < table.size; ++i)
            if (!std::strcmp(table.rows[i].name, name) && !std::strcmp(table.rows[i].domain, domain)) return table.rows + i;
    }
    return nullptr;
}

}  // namespace ops
GRAFT_END_NAMESPACE
#endif
