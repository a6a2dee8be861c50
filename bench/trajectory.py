#!/usr/bin/env python3
"""Losses of the same 50 training steps by graft and by PyTorch: same weights, data, order and hyper-parameters.

  trajectory.py TRAJECTORY lenet|MODEL.onnx [--steps 50] [--batch 16] [--threads 2]
TRAJECTORY is the program built from bench/trajectory.cpp. MODEL.onnx is turned into a torch module by onnx2torch. Needs torch, onnx, onnx2torch.
Prints, for SGD and AdamW, the largest relative difference over the steps, and PyTorch's own spread over thread counts and memory formats."""
import argparse
import os
import subprocess
import tempfile

import numpy as np
import onnx
import torch
from torch import nn


def lenet():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def torch_losses(path, data, labels, optimizer, rate, threads, channels_last):
    torch.set_num_threads(threads)
    if path == "lenet":
        model = lenet()
    else:
        from onnx2torch import convert
        model = convert(path)
    # What a converter keeps as buffers (biases behind MatMul, folded shifts) learns in graft, and so here.
    for module in model.modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            if buffer.is_floating_point() and buffer.numel() > 1 and "running" not in name:
                del module._buffers[name]
                module.register_parameter(name, nn.Parameter(buffer.clone()))
    model.train()
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    parameters = list(model.parameters())
    if optimizer == "sgd":
        opt = torch.optim.SGD(parameters, lr=rate, momentum=0.9, weight_decay=5e-4)
    else:
        opt = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)
    losses = []
    for x, y in zip(data, labels):
        x = torch.from_numpy(x)
        if channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        opt.zero_grad()
        out = model(x)
        loss = nn.functional.cross_entropy(out.reshape(len(x), -1), torch.from_numpy(y))
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return np.array(losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trajectory")
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sgd", type=float, default=0.01)
    parser.add_argument("--adamw", type=float, default=1e-4)
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = a.model
        if a.model == "lenet":
            path, shape, classes = folder + "/lenet.onnx", (1, 28, 28), 10
            torch.onnx.export(lenet(), (torch.zeros(a.batch, 1, 28, 28),), path, opset_version=17, dynamo=False, input_names=["input"], output_names=["output"])
        else:
            g = onnx.load(path).graph
            made = {i.name for i in g.initializer}
            shape = tuple(d.dim_value for d in next(i for i in g.input if i.name not in made).type.tensor_type.shape.dim)[1:]
            classes = g.output[0].type.tensor_type.shape.dim[-1].dim_value
        random = np.random.default_rng(0)
        data = random.standard_normal((a.steps, a.batch, *shape), dtype=np.float32)
        labels = random.integers(0, classes, (a.steps, a.batch))
        # Something to be learnt: the mean of a picture tells its class a little.
        data += (labels / classes - 0.5)[..., None, None, None].astype(np.float32)
        np.save(folder + "/data.npy", data)
        np.save(folder + "/labels.npy", labels)
        for optimizer, rate in (("sgd", a.sgd), ("adamw", a.adamw)):
            wanted = torch_losses(a.model, data, labels, optimizer, rate, a.threads, False)
            spread = 0.0
            for threads, channels_last in ((1, False), (a.threads, True), (1, True)):
                other = torch_losses(a.model, data, labels, optimizer, rate, threads, channels_last)
                spread = max(spread, float(np.max(np.abs(other - wanted) / np.abs(wanted))))
            out = subprocess.run([a.trajectory, path, folder + "/data.npy", folder + "/labels.npy", optimizer, str(rate), str(a.threads)],
                                 check=True, stdout=subprocess.PIPE, text=True).stdout.split("\n")
            got = np.array([float(v) for v in out[:a.steps]])
            difference = np.abs(got - wanted) / np.abs(wanted)
            limit = max(1e-3, 2 * spread)
            print(f"{os.path.basename(a.model):40} {optimizer:6} loss {wanted[0]:.4f} -> {wanted[-1]:.4f}  largest difference {difference.max():.2e} (step {difference.argmax()})"
                  f"  torch's own spread {spread:.2e}  {'ok' if difference.max() <= limit else 'OVER'}   graft {out[a.steps]}", flush=True)


if __name__ == "__main__":
    main()
