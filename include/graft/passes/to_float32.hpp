// A network in float32: half precision and double converted, quantised weights and activations told by the numbers that they stand for.
#pragma once

#include "../core/executor.hpp"
#include "../core/limits.hpp"
#include "../graph/graph.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE

/// What `to_float32` had to change; both false: the network was float32 already.
struct float32_changes {
    dtype converted = dtype::undefined;  ///< the first other floating type that was met: float16, bfloat16 or float64
    bool dequantized = false;            ///< QuantizeLinear, QLinearConv and their like are gone, and weights are what their integers stand for
};

/// The network with all floating-point values in float32, an input of such a type included; an input of integers stays. Values of integers
/// that stand for numbers by a scale and a zero point become those numbers, and QuantizeLinear a Clip to the numbers that its type can stand
/// for: rounding goes, saturation stays, for networks rely on it (a ReLU6 that has become part of a scale). `input` is the shape of one batch;
/// nodes have to be bound (`verify_graph`), and stay so. Errors: op.unsupported (names an operator that does arithmetic on integers of
/// which that form is not known), memory.oom, those of shape inference.
result<graph> to_float32(graph g, const shape& input, executor& pool, const limits& limit, float32_changes& changes);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "to_float32_body.hpp"
#endif
