#!/usr/bin/env python3
"""Records what PyTorch's autograd gives for Grad-CAM on a small network: writes tests/train/golden_grad_cam.hpp.

    scripts/record_grad_cam.py        needs torch

The network and its input are made of sines, so that the test can make them too: element i of tensor k is sin((1 + 0.3 k) i + k) / 2.
"""
import math
import pathlib

import torch
from torch.nn import functional

CLASSES = 4


def sines(k, *shape):
    n = math.prod(shape)
    return torch.tensor([math.sin((1 + 0.3 * k) * i + k) / 2 for i in range(n)], dtype=torch.float64).reshape(shape)


def grad_cam(label):
    x = sines(1, 1, 2, 8, 6)
    features = functional.relu(functional.conv2d(x, sines(2, 3, 2, 3, 3), sines(3, 3), padding=1))
    features.requires_grad_(True)
    hidden = functional.max_pool2d(functional.conv2d(features, sines(4, 3, 3, 3, 3), sines(5, 3), padding=1), 2)
    logits = functional.linear(functional.relu(hidden).flatten(1), sines(6, CLASSES, 36), sines(7, CLASSES))
    gradient = torch.autograd.grad(logits[0, label], features)[0]
    weights = gradient.mean(dim=(2, 3), keepdim=True)
    return functional.relu((weights * features).sum(dim=1))[0]


def main():
    lines = ["// Grad-CAM of a small network by PyTorch's autograd, a map of 8 x 6 for each class; written by scripts/record_grad_cam.py.", "#pragma once", "",
             f"constexpr double golden_grad_cam[{CLASSES}][48] = {{"]
    for label in range(CLASSES):
        lines.append("    {" + ", ".join(f"{v:.9g}" for v in grad_cam(label).flatten().tolist()) + "},")
    lines.append("};")
    path = pathlib.Path(__file__).resolve().parent.parent / "tests/train/golden_grad_cam.hpp"
    path.write_text("\n".join(lines) + "\n")
    print(path)


if __name__ == "__main__":
    main()
