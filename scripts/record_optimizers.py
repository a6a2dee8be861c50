#!/usr/bin/env python3
"""Records what torch.optim does to a few weights in five steps: tests/cpu/training/optimizer_values.hpp.

Needs torch. Run it again only where a case is added: the values are PyTorch's, and the tests compare with them.
"""
import pathlib

import numpy
import torch

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/cpu/training/optimizer_values.hpp"
COUNT, STEPS, KEPT = 32, 5, 4  # every fourth weight is written down


def numbers(n, seed, low=-1.0, high=1.0):
    """The numbers of tests/cpu/training/support.hpp, float operation by float operation."""
    x = numpy.empty(n, numpy.float32)
    for i in range(n):
        seed = (seed * 1664525 + 1013904223) % 2**32
        x[i] = numpy.float32(low) + numpy.float32(high - low) * (numpy.float32(seed >> 8) / numpy.float32(16777216))
    return x


def rate(step):
    return float(numpy.float32(0.05) * numpy.float32(1 - 0.125 * step))


CASES = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, foreach=False),
    "sgd_decay": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01, foreach=False),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4, foreach=False),
    "sgd_nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True, foreach=False),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, foreach=False),
    "adam_decay": lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.05, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.05, foreach=False),
}


def main():
    lines = [
        "// What torch.optim does to 32 weights in five steps: every fourth of them after each step. Written by",
        f"// scripts/record_optimizers.py with torch {torch.__version__.split('+')[0]}.",
        "#pragma once",
        "",
        "namespace optimizer_values {",
        "",
    ]
    for name, make in CASES.items():
        weights = torch.nn.Parameter(torch.from_numpy(numbers(COUNT, 1)))
        optimizer = make([weights])
        lines.append(f"constexpr float {name}[{STEPS}][{COUNT // KEPT}] = {{")
        for step in range(STEPS):
            for group in optimizer.param_groups:
                group["lr"] = rate(step)
            weights.grad = torch.from_numpy(numbers(COUNT, 100 + step))
            optimizer.step()
            kept = weights.detach().numpy()[::KEPT]
            lines.append("    {" + ", ".join(f"{float(v):.9g}f" for v in kept) + "},")
        lines.append("};")
    gradients = [torch.nn.Parameter(torch.zeros(n)) for n in (5, 32, 100)]
    for i, p in enumerate(gradients):
        p.grad = torch.from_numpy(numbers(p.numel(), 200 + i))
    norm = torch.nn.utils.clip_grad_norm_(gradients, 2.0, foreach=False)
    kept = gradients[1].grad.numpy()[::KEPT]
    lines += [
        "// torch.nn.utils.clip_grad_norm_ to 2 of three gradients, of 5, 32 and 100 numbers: the norm, and of the second what became of it.",
        f"constexpr float norm = {float(norm):.9g}f;",
        f"constexpr float clipped[{COUNT // KEPT}] = {{" + ", ".join(f"{float(v):.9g}f" for v in kept) + "};",
        "",
        "} // namespace optimizer_values",
        "",
    ]
    text = "\n".join(lines)
    OUT.write_text(text)


if __name__ == "__main__":
    main()
