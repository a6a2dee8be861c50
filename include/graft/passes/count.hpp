// Counts the arithmetic of a graph whose shapes are known.
#pragma once

#include "../graph/op.hpp"

GRAFT_BEGIN_NAMESPACE

/// Multiply-adds of the convolutions and matrix products of a graph with known shapes, as papers count them; other operators count
/// nothing. Nodes whose shapes only a run can tell count nothing either.
std::int64_t count_multiply_adds(const graph& g);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
GRAFT_INLINE std::int64_t count_multiply_adds(const graph& g) {
    std::int64_t total = 0;
    for (const node& n : g.nodes) {
        if (n.inputs.size() < 2 || n.inputs[0] == no_value || n.inputs[1] == no_value || n.outputs.empty() || n.outputs[0] == no_value) continue;
        // QLinear forms have their second operand behind scale and zero point.
        const bool quantized = n.op_type == "QLinearConv" || n.op_type == "QLinearMatMul";
        if (quantized && n.inputs.size() < 4) continue;
        const value& a = g.values[static_cast<std::size_t>(n.inputs[0])];
        const value& b = g.values[static_cast<std::size_t>(n.inputs[quantized ? 3 : 1])];
        const value& y = g.values[static_cast<std::size_t>(n.outputs[0])];
        if (!a.has_shape || !b.has_shape || !y.has_shape) continue;
        if (n.op_type == "Conv" || n.op_type == "QLinearConv" || n.op_type == "ConvInteger")
            total += y.extents.elements() * b.extents.product(1, b.extents.rank());
        else if (n.op_type == "ConvTranspose")
            total += a.extents.elements() * b.extents.product(1, b.extents.rank());
        else if (n.op_type == "Gemm") {
            const attribute* t = n.find("transA");
            total += y.extents.elements() * a.extents[t && t->integer ? 0 : 1];
        } else if (n.op_type == "MatMul" || n.op_type == "QLinearMatMul" || n.op_type == "MatMulInteger")
            total += y.extents.elements() * a.extents.back();
    }
    return total;
}
GRAFT_END_NAMESPACE
#endif
