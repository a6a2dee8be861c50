#!/usr/bin/env python3
"""Whether networks learn in graft as in PyTorch: the losses of their first steps, beside PyTorch's in float32 and in float64.

    bench/first_losses.py TRAJECTORY NAME... [--steps 3] [--batch 4] [--rate 0.003] [--threads 2]

TRAJECTORY is the program built from bench/trajectory.cpp; NAME is a network of torchvision or timm, as bench/export_training.py exports it, with random
weights. SGD with momentum and weight decay, batch normalisation as it trains, dropout and dropped paths off. Prints the largest relative distance from the
losses in float64, of graft and of PyTorch's own float32 (the larger of both memory formats); a network is OVER where graft's is more than ten times PyTorch's
and more than one in 100,000: then something else learns, or learns otherwise. Needs torch, torchvision, timm and onnx."""
import argparse
import pathlib
import subprocess
import tempfile

import numpy as np
import torch

from export_training import CLASSES, distinct, export


def torch_losses(name, dtype, layout, data, labels, rate):
    module, _ = distinct(name)
    module = module.to(dtype=dtype, memory_format=layout).train()
    for part in module.modules():
        for attribute in ("p", "drop_prob", "drop_rate", "dropout"):
            if isinstance(getattr(part, attribute, None), float):
                setattr(part, attribute, 0.0)
    optimizer, losses = torch.optim.SGD(module.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4), []
    for x, y in zip(data, labels):
        optimizer.zero_grad()
        made = module(torch.from_numpy(x).to(dtype=dtype, memory_format=layout))
        loss = torch.nn.functional.cross_entropy(made if torch.is_tensor(made) else made[0], torch.from_numpy(y))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def graft_losses(o, network, folder, data, labels):
    np.save(folder / "data.npy", data)
    np.save(folder / "labels.npy", labels)
    command = [o.trajectory, network, folder / "data.npy", folder / "labels.npy", "sgd", o.rate, o.threads]
    told = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if told.returncode:
        return None, told.stderr.strip().split("\n")[-1]
    return np.array([float(v) for v in told.stdout.split("\n")[:o.steps]]), ""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("trajectory"), p.add_argument("names", nargs="+")
    p.add_argument("--steps", type=int, default=3), p.add_argument("--batch", type=int, default=4)
    p.add_argument("--rate", type=float, default=0.003), p.add_argument("--threads", type=int, default=2)
    o = p.parse_args()
    torch.set_num_threads(o.threads)
    over = 0
    print(f"{'network':32} {'loss':>17} {'graft':>9} {'PyTorch':>9}")
    for name in o.names:
        with tempfile.TemporaryDirectory() as made:
            folder, random = pathlib.Path(made), np.random.default_rng(1)
            export(name, folder)
            data = random.standard_normal((o.steps, o.batch, 3, 224, 224), dtype=np.float32)
            labels = random.integers(0, CLASSES, (o.steps, o.batch))
            ours, why = graft_losses(o, folder / f"{name}.onnx", folder, data, labels)
            runs = [torch_losses(name, dtype, layout, data, labels, o.rate) for dtype, layout in (
                (torch.float64, torch.contiguous_format), (torch.float32, torch.contiguous_format), (torch.float32, torch.channels_last))]
        exact = runs[0]
        mine, *theirs = [np.max(np.abs(of - exact) / np.abs(exact)) if of is not None else np.inf for of in (ours, *runs[1:])]
        bad = mine > max(1e-5, 10 * max(theirs))
        over += bad
        print(f"{name:32} {exact[0]:7.4f} -> {exact[-1]:6.4f} {mine:9.1e} {max(theirs):9.1e}{'  OVER ' + why if bad else ''}", flush=True)
    raise SystemExit(f"{over} of {len(o.names)} networks do not learn as in PyTorch" if over else None)


if __name__ == "__main__":
    main()
