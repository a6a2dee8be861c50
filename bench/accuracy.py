#!/usr/bin/env python3
"""Accuracy of the same recipe by graft and by PyTorch, several seeds each.

  accuracy.py lenet    DATA --graft GRAFT      LeNet on MNIST (a folder of IDX files): Adam 1e-3, batch 64, pixels / 255, 5 epochs
  accuracy.py resnet20 DATA --graft GRAFT      ResNet-20 on CIFAR-10 (a folder of binary batches): SGD, cosine, crops and flips
  accuracy.py finetune DATA --graft GRAFT --from MODEL.onnx [--preprocess SPEC] -- OPTIONS...      graft finetune alone, with these options
Of the first two, options behind -- go to graft alone.
Common: --seeds 0,1,2  --sides torch,graft  --threads 1  --epochs N  --out FOLDER (of graft's runs; else a temporary one)
Prints the accuracy of the last epoch and of the best epoch on the validation part for each seed, and their mean and spread (sample standard
deviation). Both sides begin with weights of the same distributions, never with the same numbers. Needs torch and torchvision."""
import argparse
import gzip
import json
import math
import os
import subprocess
import sys
import tempfile
import time

import numpy as np


def idx(folder, name):
    for path in (os.path.join(folder, name), os.path.join(folder, name + ".gz")):
        if os.path.exists(path):
            with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
                data = f.read()
            rank = data[3]
            return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape([int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(rank)])
    raise SystemExit(f"{folder} has no {name}")


def cifar(folder, start):
    rows = np.concatenate([np.fromfile(os.path.join(folder, f), np.uint8).reshape(-1, 3073) for f in sorted(os.listdir(folder)) if f.startswith(start) and f.endswith(".bin")])
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]


def lenet(nn):
    return nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def resnet20(nn):
    class Block(nn.Module):
        def __init__(self, channels, wide, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(channels, wide, 3, stride, 1, bias=False), nn.BatchNorm2d(wide)
            self.conv2, self.bn2 = nn.Conv2d(wide, wide, 3, 1, 1, bias=False), nn.BatchNorm2d(wide)
            self.downsample = nn.Identity() if wide == channels else nn.Sequential(nn.Conv2d(channels, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))

        def forward(self, x):
            y = nn.functional.relu(self.bn1(self.conv1(x)))
            return nn.functional.relu(self.bn2(self.conv2(y)) + self.downsample(x))

    layers, channels = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()], 16
    for stage in range(3):
        for block in range(3):
            layers.append(Block(channels, 16 << stage, 2 if stage > 0 and block == 0 else 1))
            channels = 16 << stage
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
    return model


def torch_run(a, seed):
    import torch
    from torch import nn
    torch.set_num_threads(a.threads)
    torch.manual_seed(seed)
    if a.task == "lenet":
        model = lenet(nn)
        parts = [torch.from_numpy(idx(a.data, p + "-images-idx3-ubyte").copy())[:, None] for p in ("train", "t10k")]
        labels = [torch.from_numpy(idx(a.data, p + "-labels-idx1-ubyte").astype(np.int64)) for p in ("train", "t10k")]
        tensor, change = (lambda x: x.float() / 255), None
        optimizer = torch.optim.Adam(model.parameters(), lr=a.lr)
    else:
        from torchvision.transforms import v2
        from torchvision.transforms.functional import to_pil_image, pil_to_tensor
        model = resnet20(nn).to(memory_format=torch.channels_last)
        read = [cifar(a.data, "data_batch"), cifar(a.data, "test_batch")]
        parts, labels = [torch.from_numpy(x.copy()) for x, _ in read], [torch.from_numpy(y.astype(np.int64)) for _, y in read]
        mean, std = torch.tensor([123.675, 116.28, 103.53])[:, None, None], torch.tensor([58.395, 57.12, 57.375])[:, None, None]
        tensor = lambda x: ((x.float() - mean) / std).contiguous(memory_format=torch.channels_last)
        changes = v2.Compose([v2.RandomResizedCrop(32, scale=(0.5, 1), ratio=(0.8, 1.25)), v2.RandomHorizontalFlip()])
        pictures = [to_pil_image(x) for x in parts[0]]
        change = lambda rows: torch.stack([pil_to_tensor(changes(pictures[i])) for i in rows.tolist()])
        optimizer = torch.optim.SGD(model.parameters(), lr=a.lr, momentum=0.9, weight_decay=5e-4)
    steps = math.ceil(len(parts[0]) / a.batch) * a.epochs
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps) if a.task == "resnet20" else torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0, 0)
    history = []
    for _ in range(a.epochs):
        model.train()
        for rows in torch.randperm(len(parts[0])).split(a.batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(tensor(change(rows) if change else parts[0][rows])), labels[0][rows]).backward()
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            right = sum(int((model(tensor(x)).argmax(1) == y).sum()) for x, y in zip(parts[1].split(500), labels[1].split(500)))
        history.append(right / len(parts[1]))
    return history


def graft_run(a, seed, folder):
    out = os.path.join(folder, f"{a.task}-{seed}")
    if a.task == "lenet":
        options = ["train", a.data, "--arch", "lenet", "--optimizer", "adam", "--weight-decay", "0", "--schedule", "constant", "--augment", "none",
                   "--preprocess", "resize=28x28,order=gray,unit"]
    elif a.task == "resnet20":
        options = ["train", a.data, "--arch", "resnet20", "--optimizer", "sgd", "--momentum", "0.9", "--weight-decay", "5e-4", "--schedule", "cosine",
                   "--augment", "random_resized_crop=0.5:1:0.8:1.25,random_horizontal_flip", "--preprocess", "imagenet,resize=32x32"]
    else:
        options = ["finetune", a.data, "--from", a.model] + (["--preprocess", a.preprocess] if a.preprocess else []) + a.options
    if a.task != "finetune":
        options += ["--warmup", "0", "--label-smoothing", "0", "--lr", repr(a.lr), "--batch", str(a.batch), "--epochs", str(a.epochs)] + a.options
    command = [a.graft] + options + ["--seed", str(seed), "--threads", str(a.threads), "--out", out, "--overwrite", "--json", "-q"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(" ".join(command) + "\n" + done.stderr)
    return [e["top1"] for e in json.loads(done.stdout)["history"]]


def main():
    arguments, options = sys.argv[1:], []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, options = arguments[:at], arguments[at + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("lenet", "resnet20", "finetune"))
    parser.add_argument("data")
    parser.add_argument("--graft", default="graft")
    parser.add_argument("--from", dest="model")
    parser.add_argument("--preprocess")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--sides", default="torch,graft")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--out")
    a = parser.parse_args(arguments)
    a.options = options
    lenet_recipe = a.task == "lenet"
    a.epochs, a.batch, a.lr = a.epochs or (5 if lenet_recipe else 10), a.batch or (64 if lenet_recipe else 128), a.lr or (1e-3 if lenet_recipe else 0.1)
    with tempfile.TemporaryDirectory() as temporary:
        for side in ["graft"] if a.task == "finetune" else a.sides.split(","):
            last, best = [], []
            for seed in (int(s) for s in a.seeds.split(",")):
                begin = time.time()
                history = torch_run(a, seed) if side == "torch" else graft_run(a, seed, a.out or temporary)
                last.append(100 * history[-1])
                best.append(100 * max(history))
                print(f"{a.task:9} {side:6} seed {seed}  last {last[-1]:6.2f}  best {best[-1]:6.2f}  epochs {len(history)}  {time.time() - begin:.0f} s  "
                      + " ".join(f"{100 * h:.1f}" for h in history), flush=True)
            spread = lambda v: float(np.std(v, ddof=1)) if len(v) > 1 else 0.0
            print(f"{a.task:9} {side:6} mean    last {np.mean(last):6.2f} +- {spread(last):.2f}  best {np.mean(best):6.2f} +- {spread(best):.2f}", flush=True)


if __name__ == "__main__":
    main()
