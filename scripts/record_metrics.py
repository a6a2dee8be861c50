#!/usr/bin/env python3
"""Prints tests/train/golden_metrics.hpp: learning rates by torch.optim.lr_scheduler, metrics by scikit-learn and torch.

    scripts/record_metrics.py | clang-format > tests/train/golden_metrics.hpp          needs torch, numpy and scikit-learn
"""
import sys

import numpy as np
import sklearn
import sklearn.metrics as skm
import torch
from torch.optim import lr_scheduler as lrs


def rates(make, steps, base=0.1, losses=None):
    """The rate of each step; the scheduler steps once behind each."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=base)
    scheduler = make(optimizer)
    out = []
    for i in range(steps):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if i + 1 < steps:
            scheduler.step(*([] if losses is None else [losses[i]]))
    return out


def warm(optimizer, steps, after):
    first = lrs.LinearLR(optimizer, start_factor=1 / steps, end_factor=1, total_iters=steps - 1)
    return lrs.SequentialLR(optimizer, [first, after], milestones=[steps])


PLATEAU_LOSSES = [2.0, 1.5, 1.4, 1.39995, 1.41, 1.45, 1.3, 1.35, 1.36, float("nan"), 1.31, 1.32, 1.33, 1.2, 1.25, 1.26, 1.27, 1.28, 1.29, 1.3]

SCHEDULES = [  # text, steps in an epoch, rates
    ("constant", 1, rates(lambda o: lrs.LambdaLR(o, lambda _: 1), 4)),
    ("step=3:0.5", 1, rates(lambda o: lrs.StepLR(o, 3, 0.5), 12)),
    ("multistep=2/5/6:0.1", 1, rates(lambda o: lrs.MultiStepLR(o, [2, 5, 6], 0.1), 9)),
    ("cosine", 4, rates(lambda o: lrs.CosineAnnealingLR(o, 20), 20)),
    ("cosine=0.001", 4, rates(lambda o: lrs.CosineAnnealingLR(o, 17, eta_min=0.001), 17)),
    ("cosine,warmup=5", 4, rates(lambda o: warm(o, 5, lrs.CosineAnnealingLR(o, 15)), 20)),
    ("cosine,warmup=0.1", 4, rates(lambda o: warm(o, 4, lrs.CosineAnnealingLR(o, 36)), 40)),
    ("onecycle=0.1", 5, rates(lambda o: lrs.OneCycleLR(o, 0.1, total_steps=20, cycle_momentum=False), 20)),
    ("onecycle=0.02:0.25", 5, rates(lambda o: lrs.OneCycleLR(o, 0.02, total_steps=31, pct_start=0.25, cycle_momentum=False), 31)),
    ("onecycle=0.5,start_divisor=10,end_divisor=100", 3,
     rates(lambda o: lrs.OneCycleLR(o, 0.5, total_steps=12, div_factor=10.0, final_div_factor=100.0, cycle_momentum=False), 12)),
    ("onecycle=0.1", 1, rates(lambda o: lrs.OneCycleLR(o, 0.1, total_steps=3, cycle_momentum=False), 3)),
    ("plateau=0.1:2", 1, rates(lambda o: lrs.ReduceLROnPlateau(o, factor=0.1, patience=2), 20, losses=PLATEAU_LOSSES)),
    ("plateau=0.5:1,minimum=0.01,cooldown=2,threshold=0.05", 1,
     rates(lambda o: lrs.ReduceLROnPlateau(o, factor=0.5, patience=1, min_lr=0.01, cooldown=2, threshold=0.05), 20, losses=PLATEAU_LOSSES)),
]


def logits_and_labels(n, classes):
    """Numbers that any language can make: a linear congruential generator; some logits are equal on purpose."""
    state, values = 12345, []
    for _ in range(n * classes + n):
        state = (state * 1103515245 + 12345) % 2**31
        values.append(state >> 16)
    logits = (np.array(values[: n * classes], np.float32).reshape(n, classes) % 64 - 32) / np.float32(8)
    labels = np.array(values[n * classes :]) % classes
    for i in range(0, n, 2):  # half of the samples lean towards the truth
        logits[i, labels[i]] += np.float32(3)
    return logits.astype(np.float32), labels


def rank_before(row, label):
    return int(((row > row[label]) | ((row == row[label]) & (np.arange(len(row)) < label))).sum())


def metrics(n, classes):
    logits, labels = logits_and_labels(n, classes)
    predicted = logits.argmax(1)  # numpy takes the first of equal ones
    probability = torch.softmax(torch.from_numpy(logits).double(), 1).numpy()
    loss = torch.nn.functional.cross_entropy(torch.from_numpy(logits).double(), torch.from_numpy(labels)).item()
    top5 = float(np.mean([rank_before(r, l) < 5 for r, l in zip(logits, labels)]))
    p, r, f, s = skm.precision_recall_fscore_support(labels, predicted, labels=range(classes), zero_division=0)
    matrix = skm.confusion_matrix(labels, predicted, labels=range(classes))
    confidence, right = probability.max(1), predicted == labels
    edges = np.linspace(0, 1, 16)
    ece = 0.0
    for low, high in zip(edges[:-1], edges[1:]):  # the calculation of Guo et al.'s published code
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            ece += abs(right[inside].mean() - confidence[inside].mean()) * inside.mean()
    top1 = skm.accuracy_score(labels, predicted)
    balanced = skm.balanced_accuracy_score(labels, predicted)
    return [loss, top1, top5, ece, f.mean(), *p, *r, *f, balanced], [*s, *matrix.ravel()]


def finder():
    """A noisy valley, smoothed as fastai does, its steepest descent by numpy.gradient."""
    losses = [2.3 - 1.5 / (1 + np.exp(-(i - 40) / 5)) + (np.exp((i - 75) / 4) if i > 60 else 0) + 0.05 * np.sin(i * 1.7) for i in range(100)]
    mean, smooth, best = 0.0, [], None
    for i, loss in enumerate(losses):
        mean = 0.98 * mean + 0.02 * loss
        smooth.append(mean / (1 - 0.98 ** (i + 1)))
        best = smooth[-1] if best is None else min(best, smooth[-1])
        if smooth[-1] > 4 * best:
            break
    gradient = np.gradient(smooth)
    gradient[: len(smooth) // 10] = np.inf
    rates = 1e-6 * (10 / 1e-6) ** (np.arange(100) / 99)
    return losses, len(smooth), smooth[-1], rates[gradient.argmin()]


def lines(values, form):
    text = ", ".join(form(v) for v in values)
    out, line = [], ""
    for part in text.split(" "):
        if len(line) + len(part) > 120:
            out.append(line.rstrip())
            line = ""
        line += part + " "
    return "\n    ".join(out + [line.rstrip()])


def main():
    real = lambda v: repr(float(v)).replace("nan", "std::nan(\"\")")
    whole = lambda v: str(int(v))
    print("// Made by scripts/record_metrics.py: learning rates by torch.optim.lr_scheduler, metrics by scikit-learn and torch.")
    print(f"// torch {torch.__version__}, scikit-learn {sklearn.__version__}, numpy {np.__version__}.")
    print("#pragma once\n\n#include <cmath>\n#include <cstdint>\n#include <vector>\n")
    print("struct golden_schedule {\n    const char* text;\n    int steps_per_epoch;\n    std::vector<double> rates;\n};\n")
    print(f"inline const std::vector<double>& golden_plateau_losses() {{\n    static const std::vector<double> losses = {{{lines(PLATEAU_LOSSES, real)}}};\n    return losses;\n}}\n")
    print("inline const std::vector<golden_schedule>& golden_schedules() {\n    static const std::vector<golden_schedule> all = {")
    for text, per_epoch, values in SCHEDULES:
        print(f'    {{"{text}", {per_epoch}, {{{lines(values, real)}}}}},')
    print("    };\n    return all;\n}\n")
    print("// Of each: loss, top-1, top-5, ECE, macro F1, then precision, recall and F1 of each class, balanced accuracy; then support and the matrix.")
    print("struct golden_metrics {\n    int samples, classes;\n    std::vector<double> reals;\n    std::vector<std::int64_t> counts;\n};\n")
    print("inline const std::vector<golden_metrics>& golden_metrics_all() {\n    static const std::vector<golden_metrics> all = {")
    for n, classes in [(100, 7), (37, 3), (500, 12), (1, 2)]:
        reals, counts = metrics(n, classes)
        print(f"    {{{n}, {classes}, {{{lines(reals, real)}}},\n    {{{lines(counts, whole)}}}}},")
    print("    };\n    return all;\n}\n")
    losses, seen, last, rate = finder()
    print("struct golden_finder {\n    std::vector<double> losses;\n    int seen;\n    double last_smoothed, suggestion;\n};\n")
    print(f"inline const golden_finder& golden_rate_finder() {{\n    static const golden_finder all = {{{{{lines(losses, real)}}}, {seen}, {real(last)}, {real(rate)}}};\n    return all;\n}}")


if __name__ == "__main__":
    sys.exit(main())
