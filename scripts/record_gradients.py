#!/usr/bin/env python3
"""Prints tests/passes/golden_gradients.hpp: losses and gradients of three small networks by PyTorch's autograd, in float64.

    scripts/record_gradients.py > tests/passes/golden_gradients.hpp          needs torch and numpy

tests/passes/autograd.cpp builds the same networks of ONNX operators. Inputs and weights are numbered in the order of their making;
element i of tensor k is a hash of both, so that nothing has to be stored. Of each gradient are kept its product with the numbers of
tensor 100 + k, and some elements.
"""
import numpy as np
import torch
import torch.nn.functional as F

MASK = 0xFFFFFFFF
SAMPLES = 5


def numbers(k, shape, scale):
    """Fixed numbers in [-scale, scale)."""
    h = (np.arange(int(np.prod(shape)), dtype=np.uint64) * np.uint64(2654435761) + np.uint64(k * 40503 + 12345)) & np.uint64(MASK)
    for shift, factor in ((15, 2246822519), (13, 3266489917)):
        h = ((h ^ (h >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(MASK)
    h ^= h >> np.uint64(16)
    return torch.tensor((h.astype(np.float64) / 2.0**32 * 2 - 1) * scale).reshape(shape)


class Net:
    def __init__(self):
        self.tensors = []

    def tensor(self, *shape, scale=1.0):
        t = numbers(len(self.tensors), shape, scale).requires_grad_()
        self.tensors.append(t)
        return t

    def record(self, name, loss):
        loss.backward()
        print(f'inline constexpr golden_gradient golden_{name}[] = {{')
        print(f'    {{{loss.item()!r}, {{}}}},  // the loss')
        for k, t in enumerate(self.tensors):
            flat = t.grad.flatten()
            n = flat.numel()
            dot = (flat * numbers(100 + k, (n,), 1.0)).sum().item()
            some = ', '.join(repr(flat[j * n // SAMPLES].item()) for j in range(SAMPLES))
            print(f'    {{{dot!r}, {{{some}}}}},')
        print('};')


def convolutions():
    n = Net()
    x = n.tensor(3, 3, 10, 12)
    x = F.conv2d(x, n.tensor(8, 3, 3, 3, scale=0.4), n.tensor(8), padding=1)
    x = F.relu(F.group_norm(x, 4, n.tensor(8), n.tensor(8)))
    x = F.silu(F.conv2d(x, n.tensor(8, 4, 3, 3, scale=0.4), stride=2, padding=1, groups=2))
    x = F.max_pool2d(x, 2)
    x = F.conv2d(x, n.tensor(6, 8, 1, 1), n.tensor(6)).mean((2, 3))
    x = F.linear(x, n.tensor(5, 6), n.tensor(5))
    n.record('convolutions', F.cross_entropy(x, torch.tensor([1, 4, 0])))


def attention():
    n = Net()
    x = n.tensor(2, 6, 8)
    h = F.layer_norm(x, (8,), n.tensor(8), n.tensor(8))
    h = h @ n.tensor(8, 24, scale=0.6) + n.tensor(24, scale=0.3)
    q, k, v = (t.reshape(2, 6, 2, 4).transpose(1, 2) for t in h.split(8, 2))
    bias = n.tensor(11, 2)[torch.arange(6)[:, None] - torch.arange(6)[None] + 5]
    h = (q @ k.transpose(2, 3) * 0.5 + bias.permute(2, 0, 1)).softmax(-1) @ v
    x = x + h.transpose(1, 2).reshape(2, 6, 8) @ n.tensor(8, 8, scale=0.6) + n.tensor(8, scale=0.3)
    h = F.layer_norm(x, (8,), n.tensor(8), n.tensor(8))
    h = F.gelu(h @ n.tensor(8, 16, scale=0.6) + n.tensor(16, scale=0.3)) @ n.tensor(16, 8, scale=0.6) + n.tensor(8, scale=0.3)
    x = F.linear((x + h)[:, 0], n.tensor(3, 8), n.tensor(3))
    n.record('attention', F.cross_entropy(x, torch.tensor([2, 0]), weight=torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)))


def segmentation():
    n = Net()
    x = n.tensor(2, 4, 9, 7)
    a = F.conv2d(x, n.tensor(6, 4, 3, 3, scale=0.3), padding=1)
    a = F.batch_norm(a, numbers(90, (6,), 0.2), numbers(91, (6,), 0.2) + 1, n.tensor(6), n.tensor(6, scale=0.2))
    a = a.clamp(-0.5, 0.5)
    s = F.hardswish(F.conv2d(a.mean((2, 3), keepdim=True), n.tensor(3, 6, 1, 1), n.tensor(3)))
    s = (F.conv2d(s, n.tensor(6, 3, 1, 1), n.tensor(6)) * 0.25 + 0.5).clamp(0, 1)  # HardSigmoid; 1 / 6 is no float32
    a = a * s
    x = F.prelu(a + F.conv2d(x, n.tensor(6, 4, 1, 1)), n.tensor(6, scale=0.5))
    x = F.pad(torch.cat([x, a], 1), (1, 1, 1, 1), mode='reflect')
    x = F.avg_pool2d(x, 3, 2)
    x = F.conv_transpose2d(x, n.tensor(12, 5, 2, 2), n.tensor(5), stride=2)
    x = F.interpolate(x, scale_factor=2, mode='bilinear', align_corners=False)
    x = F.leaky_relu(x[:, :, 3:17:2], 0.125)
    targets = (torch.arange(2 * 7 * 16) * 7 + 3) % 6
    targets = torch.where(targets == 5, 255, targets).reshape(2, 7, 16)
    n.record('segmentation', F.nll_loss(F.log_softmax(x, 1), targets, ignore_index=255))


print('// Made by scripts/record_gradients.py: losses and gradients of small networks by autograd in float64.')
print(f'// torch {torch.__version__}.')
print(f'''#pragma once

struct golden_gradient {{
    double dot;             ///< with the numbers of tensor 100 + k; of the first entry, the loss
    double some[{SAMPLES}];
}};
''')
convolutions()
print()
attention()
print()
segmentation()
