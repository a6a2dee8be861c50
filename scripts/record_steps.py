#!/usr/bin/env python3
"""Records ten steps of a small LeNet by torch, under several optimisers, and losses with their gradients: tests/train/golden_steps.hpp.

Needs torch. Weights, pictures and logits are the hashed numbers that tests/train/small_steps.hpp has."""
import pathlib
import textwrap

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/train/golden_steps.hpp"
STEPS, BATCH = 10, 6


def hashed(k, n):
    h = (np.arange(n, dtype=np.uint64) * 2654435761 + k * 40503 + 12345) & 0xFFFFFFFF
    h = ((h ^ (h >> np.uint64(15))) * 2246822519) & 0xFFFFFFFF
    h = ((h ^ (h >> np.uint64(13))) * 3266489917) & 0xFFFFFFFF
    h = h ^ (h >> np.uint64(16))
    return h.astype(np.float64) / 4294967296.0 * 2 - 1


def numbered(k, shape, scale=1.0, shift=0.0):
    return torch.from_numpy((hashed(k, int(np.prod(shape))) * scale + shift).reshape(shape))


def lenet():
    model = nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    fan_in = [25, 25, 150, 150, 256, 256, 120, 120, 84, 84]
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_(numbered(300 + k, p.shape, 1.7 / fan_in[k] ** 0.5).float())
    return model


CLASS_WEIGHTS = [0.5 + 0.1 * c for c in range(10)]
# name, optimiser, settings of the step beside it
CASES = [
    ("sgd", lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=5e-4), {}),
    ("momentum", lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, weight_decay=5e-4), {"smoothing": 0.1}),
    ("nesterov", lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, weight_decay=5e-4, nesterov=True), {"weights": True}),
    ("adamw", lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.01), {"smoothing": 0.1, "weights": True}),
    ("adam", lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=0.01), {}),
    ("clipped", lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), {"clip": 0.5}),
    ("averaged", lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.01), {"ema": 0.8}),
]


def run(make, smoothing=0.0, weights=False, clip=0.0, ema=0.0):
    model = lenet()
    parameters = list(model.parameters())
    optimizer = make(parameters)
    average = [p.detach().clone() for p in parameters]
    losses = []
    for step in range(STEPS):
        x = numbered(200 + step, (BATCH, 1, 28, 28)).float()
        y = torch.tensor([(7 * s + step) % 10 for s in range(BATCH)])
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, weight=torch.tensor(CLASS_WEIGHTS) if weights else None, label_smoothing=smoothing)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(parameters, clip)
        optimizer.step()
        losses.append(loss.item())
        if ema:
            decay = min(ema, (2 + step) / (11 + step))
            average = [decay * a + (1 - decay) * p.detach() for a, p in zip(average, parameters)]
    dots = []
    for k, p in enumerate(average if ema else parameters):
        values = p.detach().double().numpy().ravel()
        dots.append(float(values @ hashed(400 + k, values.size)))
    return losses, dots


def losses():
    """Losses of 4 samples of 5 classes in float64: sum over samples / 3.5, and their gradients by the logits."""
    soft = torch.softmax(numbered(501, (4, 5), 2), 1)
    plain = numbered(502, (4, 5)).abs()
    teacher = numbered(503, (4, 5), 3)
    made = []
    for name in ("cross_entropy", "bce_with_logits", "focal", "mse", "l1", "huber", "distillation"):
        x = numbered(500, (4, 5), 2).requires_grad_()
        log_p = torch.log_softmax(x, 1)
        total = {
            "cross_entropy": lambda: F.cross_entropy(x, soft, reduction="sum"),
            "bce_with_logits": lambda: F.binary_cross_entropy_with_logits(x, plain, reduction="sum") / 5,
            "focal": lambda: -(soft * (1 - log_p.exp()) ** 1.5 * log_p).sum(),
            "mse": lambda: F.mse_loss(x, plain, reduction="sum") / 5,
            "l1": lambda: F.l1_loss(x, plain, reduction="sum") / 5,
            "huber": lambda: F.huber_loss(x, plain, reduction="sum", delta=0.7) / 5,
            "distillation": lambda: 0.7 * F.cross_entropy(x, soft, reduction="sum") + 0.3 * 9 * F.kl_div(torch.log_softmax(x / 3, 1), torch.log_softmax(teacher / 3, 1), reduction="sum", log_target=True),
        }[name]() / 3.5
        total.backward()
        made.append((name, total.item(), x.grad.numpy().ravel().tolist()))
    return made


def main():
    torch.set_num_threads(1)
    lines = ["// Made by scripts/record_steps.py: ten steps of LeNet and losses with their gradients by torch " + torch.__version__.split("+")[0] + ".", "#pragma once", "",
             "#include <vector>", "", "struct golden_step {", "    const char* name;", "    std::vector<double> losses, weights;  ///< weights: of each tensor the sum with hashed numbers", "};",
             "struct golden_loss {", "    const char* name;", "    double value;", "    std::vector<double> gradient;", "};", "", "inline std::vector<golden_step> golden_steps() {", "    return {"]
    for name, make, settings in CASES:
        values, dots = run(make, **settings)
        lines.append(f'        {{"{name}", {{{", ".join(repr(v) for v in values)}}},')
        lines.append(f'         {{{", ".join(repr(v) for v in dots)}}}}},')
    lines += ["    };", "}", "", "inline std::vector<golden_loss> golden_losses() {", "    return {"]
    for name, value, gradient in losses():
        lines.append(f'        {{"{name}", {value!r}, {{{", ".join(repr(v) for v in gradient)}}}}},')
    lines += ["    };", "}", ""]
    out = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()))
        out += textwrap.wrap(line.strip(), 150, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False) or [""]
    OUT.write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
