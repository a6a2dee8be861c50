// Operators of the domain com.microsoft, which ONNX Runtime's quantiser and its optimised files hold, written as ONNX's own.
#pragma once

#include "../core/error.hpp"
#include "../core/limits.hpp"
#include "../graph/graph.hpp"
#include "../graph/op_row.hpp"

GRAFT_BEGIN_NAMESPACE

/// Whether the graph has operators of com.microsoft, or a LayerNormalization of an operator set that has none yet, as ONNX Runtime writes it.
bool has_microsoft_operators(const graph& g);
/// Writes those out in operators of ONNX, as far as their meaning is known: ContribOperators.md of ONNX Runtime, and what its kernels do. What has no form in
/// the operator set that the file imports stays, and is refused by name when the graph is verified; so do operators that are rows of `known`, which an app
/// brings along. A build with GRAFT_OPS does so where that names `microsoft`. Nodes need not be bound. Errors: memory.oom, model.too_large (more nodes than
/// the limit).
status write_out_microsoft_operators(graph& g, const op_table& known, const limits& limit);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "microsoft_operators_body.hpp"
#endif
