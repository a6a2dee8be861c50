# SPDX-License-Identifier: MIT
"""Trains the classifier of graft's demo on pictures that `draw.py` draws, and writes it as ONNX.

The command lines, from the root of the repository:

    python3 -m venv /tmp/venv-demo
    /tmp/venv-demo/bin/pip install numpy==2.4.6 pillow==13.0.0 torch==2.15.0 onnx==1.23.2 onnxruntime==1.31.1
    /tmp/venv-demo/bin/python scripts/demo_model/draw.py --output apps/graft/demo/pictures
    /tmp/venv-demo/bin/python scripts/demo_model/train.py --output apps/graft/demo/model.onnx

Made with Python 3.11 and the versions above. Drawing the pictures and training take some minutes
on two processor cores. Training sums in an order that depends on the machine, so a second run
gives a model of the same kind, not the same bytes; the pictures are the same every time.

Training pictures, test pictures and the demo's pictures come from three separate ranges of seeds.
The test pictures are drawn as the demo's are and are used once, after training, to measure the
ONNX file with onnxruntime; no choice was made by them.
"""

import argparse
import concurrent.futures
import functools
import pathlib
import time

import numpy
import onnxruntime
import torch
from torch import nn

from draw import CLASS_NAMES, TEST_SEED, TRAINING_SEED, draw
from export_onnx import export
from network import MEAN, STANDARD_DEVIATION, Network, normalise, resize

TRAINING_SIZES = (128, 160, 192, 256)
BATCH = 128


def example(task, training):
    class_name, seed = task
    if training:
        return resize(draw(class_name, seed, TRAINING_SIZES[seed % len(TRAINING_SIZES)], oversample=2))
    return resize(draw(class_name, seed))


def drawn(first_seed, per_class, training, workers):
    """Pictures [N,64,64,3] uint8 and their classes [N]."""
    tasks = [(name, first_seed + number) for number in range(per_class) for name in CLASS_NAMES]
    with concurrent.futures.ProcessPoolExecutor(workers) as pool:
        pictures = list(pool.map(functools.partial(example, training=training), tasks, chunksize=64))
    classes = [CLASS_NAMES.index(name) for name, _ in tasks]
    return numpy.stack(pictures), numpy.array(classes)


def uniform(count, low, high, channels=1):
    return torch.empty(count, channels, 1, 1).uniform_(low, high)


def augmented(pictures):
    """Varied copies of [N,3,64,64] values of 0 to 255: place, mirror, colours, blur and noise."""
    count = len(pictures)
    angle, scale = uniform(count, -0.25, 0.25).flatten(), uniform(count, 0.75, 1.25).flatten()
    mirror = (torch.rand(count) < 0.5).float() * -2 + 1
    cosine, sine = torch.cos(angle) / scale, torch.sin(angle) / scale
    move = torch.empty(2, count).uniform_(-0.15, 0.15)
    matrices = torch.stack(
        [torch.stack([cosine * mirror, -sine, move[0]], 1), torch.stack([sine * mirror, cosine, move[1]], 1)], 1
    )
    grid = nn.functional.affine_grid(matrices, pictures.shape, align_corners=False)
    moved = nn.functional.grid_sample(pictures, grid, padding_mode="reflection", align_corners=False)

    grey = moved.mean(dim=1, keepdim=True)
    moved = grey + (moved - grey) * uniform(count, 0.3, 1.4)  # saturation
    average = moved.mean(dim=(1, 2, 3), keepdim=True)
    moved = average + (moved - average) * uniform(count, 0.6, 1.35)  # contrast
    moved = moved * uniform(count, 0.65, 1.3) * uniform(count, 0.88, 1.12, 3)  # brightness and tint
    blurred = nn.functional.avg_pool2d(moved, 3, stride=1, padding=1, count_include_pad=False)
    moved = torch.lerp(moved, blurred, uniform(count, -0.5, 1.0))  # sharper or softer
    moved = moved + torch.randn_like(moved) * uniform(count, 0, 12)
    return moved.clamp(0, 255)


def train(pictures, classes, epochs):
    network = Network(len(CLASS_NAMES))
    parameters = sum(parameter.numel() for parameter in network.parameters())
    print(f"network: {parameters} parameters, {len(pictures)} training pictures, {epochs} epochs")
    inputs = torch.from_numpy(pictures).permute(0, 3, 1, 2).contiguous()
    targets = torch.from_numpy(classes)
    mean = torch.from_numpy(MEAN).view(1, 3, 1, 1)
    deviation = torch.from_numpy(STANDARD_DEVIATION).view(1, 3, 1, 1)
    steps = len(inputs) // BATCH
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.008, epochs=epochs, steps_per_epoch=steps)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    network.train()
    for epoch in range(epochs):
        start, total, right = time.monotonic(), 0.0, 0
        for batch in torch.randperm(len(inputs))[: steps * BATCH].view(steps, BATCH):
            logits = network((augmented(inputs[batch].float()) - mean) / deviation)
            loss = criterion(logits, targets[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
            right += (logits.argmax(1) == targets[batch]).sum().item()
        print(
            f"epoch {epoch + 1}: loss {total / steps:.4f}, augmented training accuracy "
            f"{right / (steps * BATCH):.4f}, {time.monotonic() - start:.1f} s",
            flush=True,
        )
    return network.eval()


def measure(network, path, pictures, classes):
    """Compare the ONNX file with the network and report its accuracy."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = normalise(pictures)
    logits = numpy.concatenate(
        [session.run(["logits"], {"input": inputs[start : start + BATCH]})[0] for start in range(0, len(inputs), BATCH)]
    )
    with torch.no_grad():
        difference = numpy.abs(network(torch.from_numpy(inputs[:BATCH])).numpy() - logits[:BATCH]).max()
    print(f"largest difference between PyTorch and onnxruntime: {difference:.2e}")
    right = logits.argmax(axis=1) == classes
    for index, class_name in enumerate(CLASS_NAMES):
        print(f"  {class_name:9} {right[classes == index].sum()} of {(classes == index).sum()}")
    print(f"held-out accuracy: {right.sum()} of {len(right)} = {100 * right.mean():.2f} %")
    print(f"size of the file: {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, required=True, help="the ONNX file to write")
    parser.add_argument("--training-pictures", type=int, default=2000, help="pictures per class")
    parser.add_argument("--test-pictures", type=int, default=250, help="pictures per class")
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--workers", type=int, default=2, help="processes that draw, threads that train")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(arguments.workers)
    start = time.monotonic()
    pictures, classes = drawn(TRAINING_SEED, arguments.training_pictures, True, arguments.workers)
    print(f"drawing took {time.monotonic() - start:.0f} s", flush=True)
    network = train(pictures, classes, arguments.epochs)
    export(network, CLASS_NAMES, arguments.output)
    test_pictures, test_classes = drawn(TEST_SEED, arguments.test_pictures, False, arguments.workers)
    measure(network, arguments.output, test_pictures, test_classes)


if __name__ == "__main__":
    main()
