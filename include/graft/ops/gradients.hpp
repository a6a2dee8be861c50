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
#include "activation_training.hpp"
#include "norm_members.hpp"
#include "norm_training.hpp"
#include "optimizer.hpp"

#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace ops {

// What the list of families marks, and behind it the tables of files that training alone includes.
#define GRAFT_FAMILY_0(table)
#define GRAFT_FAMILY_1(table) table(),
GRAFT_INLINE gradient_table_list all_gradient_tables() {
    static const gradient_table tables[] = {
#define GRAFT_X(name, gradients, training) GRAFT_FAMILY_##gradients(name##_gradients)
        GRAFT_FAMILIES(GRAFT_X)
#undef GRAFT_X
            norm_training_gradients(),
    };
    return tables;
}
GRAFT_INLINE table_list all_training_op_tables() {
    static const op_table tables[] = {
#define GRAFT_X(name, gradients, training) GRAFT_FAMILY_##training(name##_training_ops)
        GRAFT_FAMILIES(GRAFT_X)
#undef GRAFT_X
            activation_training_ops(),
        norm_training_ops(),
        layer_norm_training_ops(),
        optimizer_ops(),
        collective_ops(),
        norm_members_ops(),
    };
    return tables;
}
#undef GRAFT_FAMILY_0
#undef GRAFT_FAMILY_1

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
