#!/usr/bin/env python3
"""Writes tests/conformance/microsoft_operators.bin: operators of com.microsoft, each as a model of one node with what ONNX Runtime makes of it.

    scripts/record_microsoft_operators.py

The file has the form of build/conformance/node_tests.bin (scripts/export_node_tests.py). Needs numpy, onnx and onnxruntime.
"""
import pathlib
import struct

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[1]
OUT = ROOT / "tests/conformance/microsoft_operators.bin"
random = np.random.default_rng(7)
cases = []


def codes(*shape, signed=False):
    return random.integers(-128 if signed else 0, 128 if signed else 256, shape).astype(np.int8 if signed else np.uint8)


def reals(*shape):
    return random.standard_normal(shape).astype(np.float32)


def scale(x):
    return np.float32(x)


def u8(x):
    return np.uint8(x)


def i8(x):
    return np.int8(x)


def case(op, name, inputs, version=13, outputs=1, domain="com.microsoft", fixed=(), **attributes):
    """`inputs`: None where one is left out; those numbered in `fixed`, and all scalars, are initializers."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    given = [i for i, x in enumerate(inputs) if x is not None and i not in fixed and np.ndim(x) > 0]
    kept = [i for i, x in enumerate(inputs) if x is not None and i not in given]
    node = helper.make_node(op, names, ["" if outputs == 4 and i in (1, 2) else f"y{i}" for i in range(outputs)], domain=domain, name=op, **attributes)
    made = [o for o in node.output if o]
    graph = helper.make_graph(
        [node], "one", [helper.make_tensor_value_info(names[i], helper.np_dtype_to_tensor_dtype(np.asarray(inputs[i]).dtype), np.shape(inputs[i])) for i in given],
        [onnx.ValueInfoProto(name=o) for o in made], [numpy_helper.from_array(np.asarray(inputs[i]), names[i]) for i in kept])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version), helper.make_opsetid("com.microsoft", 1)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = session.run(None, {names[i]: inputs[i] for i in given})
    for value, result in zip(graph.output, results):  # typed, as ONNX wants it
        value.CopyFrom(helper.make_tensor_value_info(value.name, helper.np_dtype_to_tensor_dtype(result.dtype), None))
    model.graph.CopyFrom(graph)
    cases.append((f"{op}_{name}", op, model.SerializeToString(), [numpy_helper.from_array(np.asarray(inputs[i])) for i in given],
                  [numpy_helper.from_array(r) for r in results]))


for op in ("QLinearAdd", "QLinearMul"):
    case(op, "uint8", [codes(1, 3, 4, 5), scale(0.0217), u8(120), codes(1, 3, 4, 5), scale(0.0313), u8(7), scale(0.0537), u8(90)])
    case(op, "int8_broadcast", [codes(2, 3, 4, 5, signed=True), scale(0.0217), i8(-3), codes(3, 1, 1, signed=True), scale(0.0313), i8(9), scale(0.0437), i8(5)])
case("QLinearSigmoid", "uint8", [codes(2, 9), scale(0.05), u8(128), scale(1 / 256), u8(0)])
case("QLinearSigmoid", "int8", [codes(2, 9, signed=True), scale(0.05), i8(3), scale(1 / 256), i8(-128)])
case("QLinearLeakyRelu", "uint8", [codes(2, 9), scale(0.05), u8(128), scale(0.04), u8(20)], alpha=0.1)
case("QLinearLeakyRelu", "int8", [codes(2, 9, signed=True), scale(0.05), i8(3), scale(0.04), i8(-20)], alpha=0.3)
case("QLinearSoftmax", "last_axis", [codes(3, 10), scale(0.1), u8(128), scale(1 / 256), u8(0)], axis=1, opset=13)
case("QLinearGlobalAveragePool", "uint8", [codes(2, 6, 7, 7), scale(0.02), u8(10), scale(0.01), u8(5)])
case("QLinearGlobalAveragePool", "channels_last", [codes(2, 7, 7, 6), scale(0.02), u8(10), scale(0.01), u8(5)], channels_last=1)
case("QLinearAveragePool", "strides", [codes(1, 3, 9, 9), scale(0.02), u8(10), scale(0.015), u8(5)], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
case("QLinearAveragePool", "padding_counts", [codes(1, 3, 9, 9, signed=True), scale(0.02), i8(-10), scale(0.015), i8(5)], kernel_shape=[2, 3], pads=[1, 0, 0, 1], count_include_pad=1)
case("QLinearAveragePool", "channels_last", [codes(1, 8, 8, 3), scale(0.02), u8(10), scale(0.015), u8(5)], kernel_shape=[2, 2], strides=[2, 2], channels_last=1)
case("QLinearConcat", "three", [scale(0.05), u8(100), codes(1, 2, 3, 3), scale(0.02), u8(10), codes(1, 4, 3, 3), scale(0.05), u8(100), codes(1, 1, 3, 3), scale(0.09), u8(0)], axis=1)
case("QLinearWhere", "uint8", [random.integers(0, 2, (3, 4)).astype(bool), codes(3, 4), scale(0.02), u8(10), codes(3, 4), scale(0.03), u8(20), scale(0.04), u8(30)])
for last in (0, 1):
    x = codes(1, 7, 7, 4) if last else codes(1, 4, 7, 7)
    case("QLinearConv", f"channels_last_{last}", [x, scale(0.02), u8(120), codes(6, 4, 3, 3, signed=True), random.uniform(0.001, 0.01, 6).astype(np.float32), np.zeros(6, np.int8),
         scale(0.05), u8(90), random.integers(-900, 900, 6).astype(np.int32)], fixed=(3, 4, 5, 8), pads=[1, 1, 1, 1], channels_last=last)
for transposed in (0, 1):
    b = codes(5, 8, signed=True) if transposed else codes(8, 5, signed=True)
    for along, b_scale, b_zero in (("tensor", scale(0.01), i8(3)), ("column", random.uniform(0.005, 0.02, 5).astype(np.float32), np.zeros(5, np.int8))):
        case("QGemm", f"codes_{along}_transB_{transposed}", [codes(4, 8), scale(0.02), u8(120), b, b_scale, b_zero, random.integers(-900, 900, 5).astype(np.int32), scale(0.02), u8(90)],
             fixed=(3, 4, 5, 6), transB=transposed)
case("QGemm", "reals", [codes(4, 8), scale(0.02), u8(120), codes(8, 5, signed=True), scale(0.01), i8(0), random.integers(-900, 900, 5).astype(np.int32)], fixed=(3, 6), alpha=0.5)
case("QGemm", "no_bias", [codes(4, 8), scale(0.02), u8(120), codes(8, 5, signed=True), scale(0.01), i8(0), None, scale(0.02), u8(90)], fixed=(3,))
case("MatMulIntegerToFloat", "bias", [codes(3, 8), codes(8, 5, signed=True), scale(0.02), scale(0.01), u8(120), i8(0), reals(5)], fixed=(1, 6))
case("MatMulIntegerToFloat", "columns", [codes(2, 3, 8), codes(8, 5, signed=True), scale(0.02), random.uniform(0.005, 0.02, 5).astype(np.float32), u8(120)], fixed=(1, 3))
case("DynamicQuantizeMatMul", "bias", [reals(3, 8), codes(8, 5, signed=True), scale(0.01), i8(0), reals(5)], fixed=(1, 4))
case("NhwcMaxPool", "uint8", [codes(1, 9, 9, 3)], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
case("QuantizeLinear", "uint8", [reals(3, 5), scale(0.02), u8(120)])
case("QuantizeLinear", "axis", [reals(3, 5), random.uniform(0.01, 0.1, 3).astype(np.float32), np.array([3, 4, 5], np.uint8)], fixed=(1, 2), axis=0)
case("DequantizeLinear", "int8", [codes(3, 5, signed=True), scale(0.02), i8(12)])

image, weights = reals(1, 4, 6, 6), reals(5, 4, 3, 3)
for activation, numbers in (("Relu", []), ("LeakyRelu", [0.2]), ("Sigmoid", []), ("Tanh", []), ("Clip", [-0.5, 1.5]), ("HardSigmoid", [0.2, 0.5])):
    more = {"activation_params": numbers} if numbers else {}
    case("FusedConv", activation, [image, weights, reals(5)], fixed=(1, 2), activation=activation, pads=[1, 1, 1, 1], **more)
case("FusedConv", "Clip_opset_10", [image, weights, reals(5)], version=10, fixed=(1, 2), activation="Clip", activation_params=[-0.5, 1.5])
case("FusedConv", "sum", [image, weights, None, reals(1, 5, 6, 6)], fixed=(1,), activation="Relu", pads=[1, 1, 1, 1])
case("FusedConv", "plain", [image, weights], fixed=(1,), strides=[2, 2])
for activation, numbers in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4})):
    case("FusedGemm", activation, [reals(3, 8), reals(5, 8), reals(5)], fixed=(1, 2), transB=1, activation=activation, **numbers)
case("FusedMatMul", "transA", [reals(2, 8, 3), reals(2, 8, 5)], transA=1, alpha=0.25)
case("FusedMatMul", "transB", [reals(2, 3, 8), reals(5, 8)], transB=1)
case("TransposeMatMul", "both", [reals(8, 3), reals(5, 8)], transA=1, transB=1)
for opset in (13, 20):
    case("Gelu", f"opset_{opset}", [2 * reals(3, 7)], version=opset)
    case("BiasGelu", f"opset_{opset}", [2 * reals(3, 7), reals(7)], version=opset)
    case("FastGelu", f"opset_{opset}", [2 * reals(3, 7)], version=opset)
    case("FastGelu", f"bias_opset_{opset}", [2 * reals(3, 7), reals(7)], version=opset)
    case("SkipLayerNormalization", f"opset_{opset}", [reals(2, 3, 8), reals(2, 3, 8), reals(8), reals(8), reals(8)], version=opset, fixed=(2, 3, 4), epsilon=1e-5)
    case("Attention", f"opset_{opset}", [reals(2, 5, 12), 0.3 * reals(12, 36), reals(36)], version=opset, fixed=(1, 2), num_heads=3)
case("QuickGelu", "alpha", [2 * reals(3, 7)], alpha=1.5)
case("SkipLayerNormalization", "sum", [reals(2, 3, 8), reals(2, 3, 8), reals(8)], fixed=(2,), outputs=4, epsilon=1e-6)
case("Attention", "scale", [reals(1, 4, 12), 0.3 * reals(12, 24), reals(24)], fixed=(1, 2), num_heads=2, scale=0.7)
case("MultiHeadAttention", "bias", [reals(2, 4, 12), reals(2, 6, 12), reals(2, 6, 12), reals(36)], fixed=(3,), num_heads=3)
case("MultiHeadAttention", "plain", [reals(1, 4, 12), reals(1, 4, 12), reals(1, 4, 12)], num_heads=2)
case("LayerNormalization", "before_17", [reals(2, 3, 8), reals(8), reals(8)], domain="", version=13, fixed=(1, 2), axis=-1, epsilon=1e-6)
case("GridSample", "bilinear", [reals(1, 2, 5, 5), np.clip(reals(1, 3, 4, 2), -1, 1)], version=16, mode="bilinear", padding_mode="zeros", align_corners=0)
case("Trilu", "lower", [reals(4, 5)], version=14, upper=0)
case("Pad", "constant", [reals(3, 4), np.array([0, 1, 2, 1], np.int64), np.float32(2.5)], fixed=(1,), mode="constant")


def part(data):
    data = data if isinstance(data, bytes) else data.encode()
    return struct.pack("<I", len(data)) + data


with open(OUT, "wb") as file:
    file.write(b"graft node tests 1\n")
    for name, label, model, inputs, outputs in cases:
        file.write(part("com.microsoft") + part(name) + part(label) + part("") + part(model) + struct.pack("<I", 1))
        for side in (inputs, outputs):
            file.write(struct.pack("<I", len(side)) + b"".join(part(t.SerializeToString()) for t in side))
print(f"{OUT.relative_to(ROOT)}: {len(cases)} cases by ONNX Runtime {onnxruntime.__version__}, {OUT.stat().st_size} bytes")
