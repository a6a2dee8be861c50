#!/usr/bin/env python3
"""Exports networks in the form that training wants them: batch normalisation unfused, weights as initializers, the batch open.

    bench/export_training.py FOLDER [NAME...]      default: resnet18 mobilenet_v2 squeezenet1_1 lenet

torchvision's networks, or timm's of other names, with random weights (seed 0) and 100 classes for 3x224x224, LeNet with 10 for 1x28x28. `graft bench FOLDER/NAME.onnx
--train full` times their steps; needs torch, torchvision and onnx.
"""
import pathlib
import sys

import torch
import torchvision
from torch import nn

CLASSES = 100


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def network(name):
    """The module and the shape of one picture."""
    torch.manual_seed(0)
    if name == "lenet":
        return lenet(), (1, 28, 28)
    if hasattr(torchvision.models, name):
        return getattr(torchvision.models, name)(weights=None, num_classes=CLASSES), (3, 224, 224)
    import timm
    return timm.create_model(name, num_classes=CLASSES), (3, 224, 224)


def distinct(name):
    """The same with no two tensors alike: torch's exporter writes equal ones once, and layers that share a tensor would learn as one."""
    module, picture = network(name)
    with torch.no_grad():
        for tensor in [*module.parameters(), *(b for b in module.buffers() if b.is_floating_point())]:
            tensor += 1e-3 * torch.rand_like(tensor)
    return module, picture


def export(name, folder):
    module, picture = distinct(name)
    module.eval()  # with PRESERVE below: batch normalisation stays a node of its own, in the form that graft trains or freezes as asked
    path = folder / f"{name}.onnx"
    torch.onnx.export(module, torch.randn(2, *picture), str(path), training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
                      input_names=["input"], output_names=["logits"], dynamic_axes={"input": {0: "N"}, "logits": {0: "N"}}, opset_version=17, dynamo=False)
    print(path, file=sys.stderr)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or ["resnet18", "mobilenet_v2", "squeezenet1_1", "lenet"]:
        export(name, folder)


if __name__ == "__main__":
    main()
