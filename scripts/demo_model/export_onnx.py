# SPDX-License-Identifier: MIT
"""Writes a trained `Network` as an ONNX model (opset 17, IR 8), batch normalisation folded in."""

import json

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from network import EDGE, PREPROCESS, Convolution, Residual, Separable


def folded(module):
    """Weight and bias of one convolution that does what convolution and normalisation do."""
    normalisation = module.normalisation
    weight = module.convolution.weight.detach().double().numpy()
    mean, variance, scale, shift = (
        tensor.detach().double().numpy()
        for tensor in (normalisation.running_mean, normalisation.running_var, normalisation.weight, normalisation.bias)
    )
    factor = scale / numpy.sqrt(variance + normalisation.eps)
    return weight * factor[:, None, None, None], shift - mean * factor


class GraphBuilder:
    def __init__(self):
        self.nodes, self.initializers = [], []

    def constant(self, name, values):
        self.initializers.append(numpy_helper.from_array(values.astype(numpy.float32), name))
        return name

    def node(self, kind, inputs, output, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def convolution(self, name, module, value):
        weight, bias = folded(module)
        convolution = module.convolution
        padding = list(convolution.padding)
        inputs = [value, self.constant(name + ".weight", weight), self.constant(name + ".bias", bias)]
        value = self.node(
            "Conv",
            inputs,
            name + ".conv",
            kernel_shape=list(convolution.kernel_size),
            strides=list(convolution.stride),
            pads=padding + padding,
            dilations=[1, 1],
            group=convolution.groups,
        )
        return self.node("Relu", [value], name + ".relu") if module.relu else value

    def block(self, name, module, value):
        if isinstance(module, Convolution):
            return self.convolution(name, module, value)
        if isinstance(module, Separable):
            value = self.convolution(name + ".depthwise", module.depthwise, value)
            return self.convolution(name + ".pointwise", module.pointwise, value)
        assert isinstance(module, Residual)
        change = self.convolution(name + ".first", module.first, value)
        change = self.convolution(name + ".second", module.second, change)
        return self.node("Relu", [self.node("Add", [value, change], name + ".add")], name + ".relu")


def export(network, class_names, path):
    """Write `network` to `path` and return the model."""
    network = network.eval().cpu()
    builder = GraphBuilder()
    value = "input"
    for name, module in network.blocks.items():
        value = builder.block(name, module, value)
    value = builder.node("GlobalAveragePool", [value], "pool")
    value = builder.node("Flatten", [value], "flatten", axis=1)
    classifier = network.classifier
    weight = builder.constant("classifier.weight", classifier.weight.detach().numpy())
    bias = builder.constant("classifier.bias", classifier.bias.detach().numpy())
    builder.node("Gemm", [value, weight, bias], "logits", transB=1)

    graph = helper.make_graph(
        builder.nodes,
        "graft_demo_classifier",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 3, EDGE, EDGE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", len(class_names)])],
        builder.initializers,
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="graft scripts/demo_model/train.py"
    )
    model.doc_string = "Names drawn pictures. Made by the graft project; MIT licence."
    labels = json.dumps(list(class_names))
    helper.set_model_props(model, {"graft.labels": labels, "graft.preprocess": PREPROCESS, "class_names": labels})
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return model
