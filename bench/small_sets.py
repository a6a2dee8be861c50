#!/usr/bin/env python3
"""Fine-tuning on small sets: graft's defaults, other options of it, and PyTorch's plain recipe from the same network.

  small_sets.py make FOLDER [--flowers DIR] [--mnist DIR] [--cifar DIR] [--demo DIR]
      draws the sets: FOLDER/<set>/{train,val}/<class>/*. flowers-10, flowers-24, mnist-20 and cifar-20 have so many pictures a class to learn from,
      flowers-60-5 two classes with 60 and 5, demo those of apps/graft/demo/new_pictures. `val` is drawn from what is left, alike in each class.
  small_sets.py run FOLDER --graft GRAFT --from MODEL.onnx [--sets A,B] [--seeds 0,1,2] [--folds] [--torch] [-- 'NAME=OPTIONS' ...]
      trains by graft with its defaults and with each of the named options, and with --torch by PyTorch; one row a way, one column a set: the mean top-1
      of the last epoch and of the best epoch, the mean balanced accuracy of the last one. With --folds nothing but `train` is read: each seed holds a
      fifth of it out and scores by that, so that options are not chosen by the pictures that they are compared on afterwards.
PyTorch's recipes are those of torchvision's transfer-learning tutorial: a new Linear head, everything learns or the head alone, SGD 0.001 with momentum 0.9, batch 4, the rate a
tenth after 7 epochs, RandomResizedCrop and a flip; --torch-epochs as many as graft's 10 unless told. The network comes by onnx2torch. Needs numpy and
Pillow, --torch also torch, torchvision, onnx and onnx2torch."""
import argparse
import gzip
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image


def idx(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
        data = f.read()
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape([int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])])


def pictures_below(folder):
    """Of each class all pictures, whatever part they lie in."""
    classes = {}
    for top, _, names in os.walk(folder):
        for name in sorted(names):
            if name.lower().endswith((".jpg", ".jpeg", ".png")):
                classes.setdefault(os.path.basename(top), []).append(os.path.join(top, name))
    return classes


def make_from_files(classes, out, train, val, seed=0):
    draw = random.Random(seed)
    for number, (name, files) in enumerate(sorted(classes.items())):
        files = sorted(files)
        draw.shuffle(files)
        count = train[number] if isinstance(train, (list, tuple)) else train
        for part, chosen in (("train", files[:count]), ("val", files[-val:])):
            os.makedirs(os.path.join(out, part, name), exist_ok=True)
            for path in chosen:
                shutil.copy(path, os.path.join(out, part, name))


def make_from_arrays(pictures, labels, out, train, val, seed=0):
    draw = np.random.default_rng(seed)
    for label in sorted(set(labels.tolist())):
        rows = draw.permutation(np.flatnonzero(labels == label))
        for part, chosen in (("train", rows[:train]), ("val", rows[-val:])):
            folder = os.path.join(out, part, str(label))
            os.makedirs(folder, exist_ok=True)
            for row in chosen:
                Image.fromarray(pictures[row]).save(os.path.join(folder, f"{row}.png"))


def make(a):
    def target(name):
        out = os.path.join(a.folder, name)
        shutil.rmtree(out, ignore_errors=True)
        return out

    if a.flowers:
        classes = pictures_below(a.flowers)
        make_from_files(classes, target("flowers-10"), 10, 30)
        make_from_files(classes, target("flowers-24"), 24, 30)
        two = dict(sorted(classes.items())[:2])
        make_from_files(two, target("flowers-60-5"), (60, 5), 30)
    if a.demo:
        make_from_files(pictures_below(a.demo), target("demo"), 24, 6)
    if a.mnist:
        named = {n.split("-")[1] + ("" if n.startswith("train") else "t"): idx(os.path.join(a.mnist, n)) for n in os.listdir(a.mnist) if n.startswith("train")}
        make_from_arrays(named["images"], named["labels"], target("mnist-20"), 20, 20)
    if a.cifar:
        rows = np.fromfile(os.path.join(a.cifar, "data_batch_1.bin"), np.uint8).reshape(-1, 3073)
        make_from_arrays(rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, 0], target("cifar-20"), 20, 20)


def balanced(rows):
    """Mean recall of the classes; rows are (label, predicted)."""
    recalls = {}
    for label, predicted in rows:
        recalls.setdefault(label, []).append(label == predicted)
    return float(np.mean([np.mean(r) for r in recalls.values()]))


def graft_run(a, data, options, seed):
    with tempfile.TemporaryDirectory() as out:
        data = os.path.join(data, "train") if a.folds else data
        command = [a.graft, "finetune", data, "--from", a.model, "--out", out, "--seed", str(seed), "--json", "-q"] + options
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(" ".join(command) + "\n" + done.stderr)
        told = json.loads(done.stdout)
        history = [e["top1"] for e in told["history"]]
        # The written model is the best epoch's.
        if a.folds:
            return history[-1], max(history), float("nan")
        scored = json.loads(subprocess.run([a.graft, "evaluate", os.path.join(out, "model.onnx"), os.path.join(data, "val"), "--json", "-q"], capture_output=True, text=True, check=True).stdout)
        confusion = np.array(scored["confusion"])
        return history[-1], max(history), float(np.mean(np.diag(confusion) / confusion.sum(1)))


def torch_run(a, data, seed, head_alone):
    import onnx
    import onnx2torch
    import torch
    from torch import nn
    from torchvision import datasets, transforms

    told = json.loads(subprocess.run([a.graft, "info", a.model, "--json"], capture_output=True, text=True, check=True).stdout)
    shape = told["inputs"][0]["shape"]
    size = shape[2] if shape[1] in (1, 3) else shape[1]
    torch.manual_seed(seed)
    random.seed(seed)
    numbers = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]} if a.torch_norm == "imagenet" else {"mean": [0.5] * 3, "std": [0.5] * 3}
    prepared = [transforms.ToTensor(), transforms.Normalize(**numbers)]
    learn = transforms.Compose([transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip()] + prepared)
    score = transforms.Compose([transforms.Resize(size * 8 // 7), transforms.CenterCrop(size)] + prepared)
    parts = {"train": datasets.ImageFolder(os.path.join(data, "train"), learn), "val": datasets.ImageFolder(os.path.join(data, "val"), score)}
    trunk = onnx2torch.convert(a.model)
    nhwc = shape[1] not in (1, 3)
    features = {}
    last = [m for m in trunk.modules() if isinstance(m, (nn.Linear, nn.Conv2d))][-1] if not a.torch_head else dict(trunk.named_modules())[a.torch_head]
    last.register_forward_pre_hook(lambda _, x: features.update(x=x[0]))
    width = last.in_features if isinstance(last, nn.Linear) else last.in_channels
    head = nn.Linear(width, len(parts["train"].classes))

    def logits(x):
        trunk(x.permute(0, 2, 3, 1).contiguous() if nhwc else x)
        f = features["x"]
        return head(f.mean((2, 3)) if f.dim() == 4 else f)

    learning = list(head.parameters()) + ([] if head_alone else list(trunk.parameters()))
    optimizer = torch.optim.SGD(learning, lr=0.001, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.1)
    history, rows = [], []
    for _ in range(a.torch_epochs):
        trunk.train(not head_alone)
        for x, y in torch.utils.data.DataLoader(parts["train"], 4, shuffle=True):
            if len(x) < 2:
                continue  # batch norm needs two
            optimizer.zero_grad()
            nn.functional.cross_entropy(logits(x), y).backward()
            optimizer.step()
        schedule.step()
        trunk.eval()
        with torch.no_grad():
            epoch = [(int(l), int(p)) for x, y in torch.utils.data.DataLoader(parts["val"], 10) for l, p in zip(y, logits(x).argmax(1))]
        history.append(float(np.mean([l == p for l, p in epoch])))
        if history[-1] >= max(history):
            rows = epoch
    return history[-1], max(history), balanced(rows)


def run(a):
    ways = [("defaults", [])] + [(w.partition("=")[0], shlex.split(w.partition("=")[2])) for w in a.options]
    sets = a.sets.split(",") if a.sets else sorted(os.listdir(a.folder))
    seeds = [int(s) for s in a.seeds.split(",")]
    print("| " + os.path.basename(a.model) + " | " + " | ".join(sets) + " |\n| --- |" + " --- |" * len(sets), flush=True)
    for name, options in ways + ([("PyTorch", False), ("PyTorch, head alone", True)] if a.torch and not a.folds else []):
        cells = []
        begin = time.time()
        for s in sets:
            data = os.path.join(a.folder, s)
            found = np.array([torch_run(a, data, seed, options) if isinstance(options, bool) else graft_run(a, data, options, seed) for seed in seeds])
            last, best, even = 100 * found.mean(0)
            cells.append(f"{last:.1f} / {best:.1f}" + ("" if np.isnan(even) else f" / {even:.1f}"))
        print(f"| {name} | " + " | ".join(cells) + f" | <!-- {time.time() - begin:.0f} s -->", flush=True)


def main():
    arguments, options = sys.argv[1:], []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, options = arguments[:at], arguments[at + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "run"))
    parser.add_argument("folder")
    for name in ("flowers", "mnist", "cifar", "demo", "sets"):
        parser.add_argument("--" + name)
    parser.add_argument("--graft", default="graft")
    parser.add_argument("--from", dest="model")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--folds", action="store_true")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--torch-epochs", type=int, default=10)
    parser.add_argument("--torch-norm", choices=("imagenet", "half"), default="imagenet")
    parser.add_argument("--torch-head", help="the module whose input is the features; the last Linear or Conv2d")
    a = parser.parse_args(arguments)
    a.options = options
    make(a) if a.what == "make" else run(a)


if __name__ == "__main__":
    main()
