#!/usr/bin/env python3
"""Records what PyTorch answers for gradients of layers and for optimisers: writes tests/ops/layer_gradients.hpp.

    python scripts/record_layer_gradients.py        (needs torch)

Inputs are not stored: both sides make them by the formula of `values`, which is exact in binary."""
import pathlib

import torch
import torch.nn.functional as F

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/ops/layer_gradients.hpp"
lines = []


def values(seed, *shape, steps=257, scale=64.0, offset=2.0):
    """Element i is ((i * 7919 + seed * 104729) mod steps) / scale - offset."""
    n = int(torch.tensor(shape).prod()) if shape else 1
    return torch.tensor([((i * 7919 + seed * 104729) % steps) / scale - offset for i in range(n)], dtype=torch.float64).reshape(shape)


def record(name, tensor):
    numbers = [f"{v:.17g}" for v in tensor.detach().flatten().tolist()]
    lines.append(f"constexpr double {name}[] = {{")
    for i in range(0, len(numbers), 7):
        lines.append("    " + ", ".join(numbers[i : i + 7]) + ",")
    lines.append("};")


def leaf(t):
    return t.clone().requires_grad_(True)


def conv():
    x, w, b = leaf(values(1, 3, 4, 5, 4)), leaf(values(2, 4, 2, 3, 2)), leaf(values(3, 4))
    y = F.conv2d(x, w, b, stride=(2, 1), padding=(1, 1), dilation=(1, 2), groups=2)
    y.backward(values(4, *y.shape))
    record("conv_dx", x.grad)
    record("conv_dw", w.grad)
    x, w = leaf(values(1, 2, 4, 3, 3)), leaf(values(2, 4, 1, 3, 2))
    y = F.conv_transpose2d(x, w, None, stride=2, padding=1, output_padding=1, groups=2)
    y.backward(values(4, *y.shape))
    record("conv_transpose_dx", x.grad)
    record("conv_transpose_dw", w.grad)


def pool():
    # Few steps: many elements are equal.
    x = leaf(values(5, 2, 2, 7, 6, steps=7, scale=2.0, offset=1.5))
    y = F.max_pool2d(x, (3, 2), stride=(2, 2), padding=(1, 0), dilation=(1, 2), ceil_mode=True)
    y.backward(values(6, *y.shape))
    record("max_pool_dx", x.grad)


def batch_norm():
    x, scale, bias = leaf(values(7, 5, 3, 2, 2)), leaf(values(8, 3)), leaf(values(9, 3))
    mean, var = values(10, 3), values(11, 3).abs() + 0.5
    residual = leaf(values(12, 5, 3, 2, 2))
    y = torch.relu(F.batch_norm(x, mean, var, scale, bias, training=True, momentum=0.1, eps=1e-3) + residual)
    record("batch_norm_y", y)
    record("batch_norm_mean", mean)
    record("batch_norm_var", var)
    y.backward(values(13, *y.shape))
    for name, t in (("dx", x), ("dscale", scale), ("dbias", bias), ("dresidual", residual)):
        record(f"batch_norm_{name}", t.grad)


def optimizers():
    kinds = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
        "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
        "sgd_nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
        "adam": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1, foreach=False),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1, foreach=False),
    }
    for name, make in kinds.items():
        w = leaf(values(14, 6))
        optimizer = make([w])
        for step in range(4):
            w.grad = values(15 + step, 6)
            optimizer.step()
        record(f"{name}_w", w)
    a, b = leaf(values(20, 6)), leaf(values(21, 4))
    a.grad, b.grad = values(22, 6), values(23, 4)
    record("norm", torch.nn.utils.clip_grad_norm_([a, b], 1.5))
    record("clipped", a.grad)
    average = torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    e = [values(24, 6)]
    average(e, [values(25, 6)], 1)
    record("ema", e[0])


conv()
pool()
batch_norm()
optimizers()
OUT.write_text(
    f"// What PyTorch {torch.__version__.split('+')[0]} answers for gradients of layers and for optimisers; written by scripts/record_layer_gradients.py.\n"
    "#pragma once\n\nnamespace layer_gradients {\n\n" + "\n".join(lines) + "\n\n}  // namespace layer_gradients\n"
)
