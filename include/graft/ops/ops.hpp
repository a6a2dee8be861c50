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

// Every family of operators that files may hold: X(name, gradients, training). Its file, included above, has <name>_ops(); where gradients is 1, also
// <name>_gradients(), and where training is 1, <name>_training_ops(). Those two are expanded by gradients.hpp alone.
#define GRAFT_FAMILIES(X) \
    X(activation, 1, 0) \
    X(arg, 1, 0) \
    X(attention, 1, 0) \
    X(cast, 1, 0) \
    X(causal_conv, 0, 0) \
    X(control, 0, 0) \
    X(conv, 1, 1) \
    X(conv_transpose, 1, 1) \
    X(cumulative, 1, 0) \
    X(deform_conv, 1, 1) \
    X(detection, 1, 1) \
    X(einsum, 1, 0) \
    X(elementwise_binary, 1, 0) \
    X(elementwise_unary, 1, 0) \
    X(elementwise_variadic, 1, 0) \
    X(gather, 1, 0) \
    X(generate, 1, 0) \
    X(grid, 1, 1) \
    X(legacy, 1, 0) \
    X(linear_algebra, 0, 0) \
    X(linear_attention, 0, 0) \
    X(logical, 1, 0) \
    X(loss, 1, 0) \
    X(matmul, 1, 1) \
    X(norm, 1, 0) \
    X(norm_local, 1, 0) \
    X(pad, 1, 1) \
    X(pool, 1, 1) \
    X(quantize, 1, 1) \
    X(quantized, 0, 0) \
    X(random, 1, 1) \
    X(rearrange, 1, 0) \
    X(recurrent, 0, 0) \
    X(reduce, 1, 1) \
    X(resize, 1, 1) \
    X(scatter, 1, 0) \
    X(selection, 1, 0) \
    X(shape, 1, 0) \
    X(signal, 0, 0) \
    X(slice, 1, 1) \
    X(softmax, 1, 1) \
    X(tfidf, 0, 0) \
    X(unfold, 1, 0) \
    X(window_function, 0, 0)

GRAFT_BEGIN_NAMESPACE
namespace ops {

GRAFT_INLINE table_list all_op_tables() {
    static const op_table tables[] = {
#define GRAFT_X(name, gradients, training) name##_ops(),
        GRAFT_FAMILIES(GRAFT_X)
#undef GRAFT_X
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
