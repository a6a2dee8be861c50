#!/usr/bin/env python3
"""Records what PyTorch's autograd gives for Grad-CAM on small networks: writes tests/train/golden_grad_cam.hpp.

    scripts/record_grad_cam.py        needs torch

The networks and their input are made of sines, so that the test can make them too: element i of tensor k is sin((1 + 0.3 k) i + k) / 2.
"""
import math
import pathlib

import torch
from torch.nn import functional

CLASSES = 4


def sines(k, *shape):
    n = math.prod(shape)
    return torch.tensor([math.sin((1 + 0.3 * k) * i + k) / 2 for i in range(n)], dtype=torch.float64).reshape(shape)


def first_image():
    x = sines(1, 1, 2, 8, 6)
    return functional.relu(functional.conv2d(x, sines(2, 3, 2, 3, 3), sines(3, 3), padding=1))


def convolutional(label):
    """Grad-CAM of the first convolution's features."""
    features = first_image().requires_grad_(True)
    hidden = functional.max_pool2d(functional.conv2d(features, sines(4, 3, 3, 3, 3), sines(5, 3), padding=1), 2)
    logits = functional.linear(functional.relu(hidden).flatten(1), sines(6, CLASSES, 36), sines(7, CLASSES))
    gradient = torch.autograd.grad(logits[0, label], features)[0]
    weights = gradient.mean(dim=(2, 3), keepdim=True)
    return functional.relu((weights * features).sum(dim=1))[0]


def channels_last(label):
    """Grad-CAM of features [N, H, W, C] that are averaged over the places, as Swin's are."""
    features = torch.tanh(first_image().permute(0, 2, 3, 1) @ sines(8, 3, 5)).requires_grad_(True)
    logits = torch.tanh(features).mean(dim=(1, 2)) @ sines(9, 5, CLASSES)
    gradient = torch.autograd.grad(logits[0, label], features)[0]
    weights = gradient.mean(dim=(1, 2), keepdim=True)
    return functional.relu((weights * features).sum(dim=3))[0]


def normalized(x, k):
    return functional.layer_norm(x, (4,), sines(k, 4) + 1, sines(k + 1, 4))


def block(x, k, y=None):
    """One block of a transformer with two heads; `y` is what its attention reads."""
    y = normalized(x, k) if y is None else y
    q, key, v = ((y @ sines(k + i, 4, 4)).reshape(1, 13, 2, 2).transpose(1, 2) for i in (2, 3, 4))
    attention = (q @ key.transpose(2, 3) / math.sqrt(2)).softmax(-1)
    x = x + (attention @ v).transpose(1, 2).reshape(1, 13, 4) @ sines(k + 5, 4, 4)
    return x + torch.tanh(normalized(x, k + 6) @ sines(k + 8, 4, 8)) @ sines(k + 9, 8, 4)


def tokens(label):
    """A vision transformer of two blocks that answers by its class token: gradient times features of each patch, as the last attention reads them."""
    patches = functional.conv2d(sines(1, 1, 2, 8, 6), sines(10, 4, 2, 2, 2), sines(11, 4), stride=2).flatten(2).transpose(1, 2)
    x = block(torch.cat([sines(12, 1, 1, 4), patches], dim=1) + sines(13, 1, 13, 4), 20)
    features = normalized(x, 30).requires_grad_(True)
    logits = normalized(block(x, 30, features), 40)[:, 0] @ sines(42, 4, CLASSES)
    gradient = torch.autograd.grad(logits[0, label], features)[0]
    return functional.relu((gradient * features).sum(dim=2))[0, 1:].reshape(4, 3)


def main():
    lines = ["// Grad-CAM of small networks by PyTorch's autograd, a map for each class; written by scripts/record_grad_cam.py.", "#pragma once"]
    for name, size, maps in (("grad_cam", 48, convolutional), ("channels_last", 48, channels_last), ("tokens", 12, tokens)):
        lines += ["", f"constexpr double golden_{name}[{CLASSES}][{size}] = {{"]
        for label in range(CLASSES):
            lines.append("    {" + ", ".join(f"{v:.9g}" for v in maps(label).flatten().tolist()) + "},")
        lines.append("};")
    path = pathlib.Path(__file__).resolve().parent.parent / "tests/train/golden_grad_cam.hpp"
    path.write_text("\n".join(lines) + "\n")
    print(path)


if __name__ == "__main__":
    main()
