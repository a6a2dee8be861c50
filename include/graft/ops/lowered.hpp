// Operators of the domain `graft`: what lowering makes of ONNX operators. No file holds them, and `save` refuses them.
#pragma once

#include "activation.hpp"
#include "control.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// Call: runs its body, which reads what it needs from the graph around it. Made of nodes whose shapes only a run can tell.
inline status call_infer(infer_context& c) { return c.defer(); }
inline status call_run(run_context& c) {
    const graph* body = nullptr;
    GRAFT_TRY(find_body(c, "body", body));
    std::vector<tensor> outputs;
    GRAFT_TRY(c.bodies->run(*body, nullptr, 0, outputs));
    for (int i = 0; i < c.outputs; ++i) give(c, i, std::move(outputs[static_cast<std::size_t>(i)]));
    return {};
}

/// Call, and rows without functions: kernels of a back end run those, and lowering gives them their shapes.
///   Conv(X, packed W, B?, residual?)   convolution with an epilogue; its parameters are the integers "problem"
///   PackConvWeights(W)                 the weights as the chosen algorithm wants them
///   MatMul(A, B, bias?, residual?)     with an epilogue; a constant B is packed
///   StridedMatMul(A, B, bias, residual)  of matrices that lie within A and B, and are written into a larger one; its parameters are the integers "problem"
///   ScaleShift(X, scale, shift)        per channel (axis 1), with an activation
///   Sum(A, B)                          of equal shapes, with an activation
///   Activation(X)                      by the attributes activation, alpha, beta
///   Reorder(X)                         between row-major and the blocked layout
///   Concat(X...)                       along the channels, blocked
///   SliceChannels(X)                   channels [start, start + channels of the output), blocked
///   GatherChannels(places, X...)       output channel c is channel places[c] of all images, counted from one to the next; blocked or not
///   QuantizedConv(X, packed W, scale, bias, B?)  of 8-bit images or rows, requantised, and the sum with B of that; its parameters are the integers "problem"
///   QuantizedSum(A, B)                 of 8-bit tensors of equal shapes, requantised; likewise
///   QuantizedProduct(A, B)             likewise, of equal shapes or by one code a channel
///   QuantizedGlobalAveragePool(X)      of 8-bit images, requantised; likewise
///   LookupTable(X, table)              of 8-bit tensors: for each code, by the byte that it is, the byte of the result
inline op_table lowered_ops() {
    static constexpr op_row rows[] = {
        own("Conv").inputs_from(0).outputs_from(0).takes_activation().residual(3),
        own("PackConvWeights").inputs_from(0).outputs_from(0),
        own("MatMul").inputs_from(0).outputs_from(0).takes_activation().residual(3),
        own("StridedMatMul").inputs_from(0).outputs_from(0).takes_activation().residual(3),
        own("ScaleShift").inputs_from(0).outputs_from(0).elementwise().takes_activation(),
        own("Sum").inputs_from(0).outputs_from(0).elementwise().takes_activation(),
        own("Activation").inputs_from(0).outputs_from(0).elementwise().activates(reads_lowered_activation),
        own("Reorder").inputs_from(0).outputs_from(0),
        own("Concat").inputs_from(0).outputs_from(0),
        own("SliceChannels").inputs_from(0).outputs_from(0),
        own("GatherChannels").inputs_from(0).outputs_from(0),
        own("QuantizedConv").inputs_from(0).outputs_from(0),
        own("QuantizedSum").inputs_from(0).outputs_from(0),
        own("QuantizedProduct").inputs_from(0).outputs_from(0),
        own("QuantizedGlobalAveragePool").inputs_from(0).outputs_from(0),
        own("LookupTable").inputs_from(0).outputs_from(0),
        own("Call").inputs(0).outputs_from(0).functions(call_infer, call_run).bodies().allocates().attributes("body:g"),
    };
    return rows;
}

/// Those that lowering makes of training's operators.
///   PackConvGradInputWeights(W)        the weights as the gradient of the input wants them
///   MaxPoolPlaces(X) -> places, Y?     max pooling that keeps which pixel of each window is the largest, a byte each
///   MaxPoolGradPlaces(dY, places)      its gradient
///   ActivationTraining(X) -> Y, X?, Y? Activation, which gives both in bfloat16 as well
///   ActivationAgain(X)                 of an input that was kept, in bfloat16
///   ActivationGradAgain(dY, X) -> dX, Y   ActivationGrad, and what ActivationAgain makes of X
///   AttentionTraining(Q, K, V) -> Y, P   of heads that lie within these, P = softmax(Q K^T)
///   AttentionGrad(dY, P, Q, K, V) -> dQ, dK, dV   its gradients; or one output that has all three
///   Narrow(X)                          float32 to bfloat16, however it lies
///   Widen(X)                           and back
inline op_table training_lowered_ops() {
    static constexpr op_row rows[] = {
        own("PackConvGradInputWeights").inputs_from(0).outputs_from(0),
        own("MaxPoolPlaces").inputs_from(0).outputs_from(0),
        own("MaxPoolGradPlaces").inputs_from(0).outputs_from(0),
        own("ActivationTraining").inputs_from(0).outputs_from(0),
        own("ActivationAgain").inputs_from(0).outputs_from(0),
        own("ActivationGradAgain").inputs_from(0).outputs_from(0),
        own("AttentionTraining").inputs_from(0).outputs_from(0),
        own("AttentionGrad").inputs_from(0).outputs_from(0),
        own("Narrow").inputs_from(0).outputs_from(0),
        own("Widen").inputs_from(0).outputs_from(0),
    };
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
