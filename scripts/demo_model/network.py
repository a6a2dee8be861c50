# SPDX-License-Identifier: MIT
"""The demo's classifier: its layers in PyTorch, and how its pictures are prepared."""

import numpy
import torch
from PIL import Image
from torch import nn

EDGE = 64
MEAN = numpy.array([123.675, 116.28, 103.53], dtype=numpy.float32)
STANDARD_DEVIATION = numpy.array([58.395, 57.12, 57.375], dtype=numpy.float32)
PREPROCESS = (
    "resize=64x64,crop=none,filter=bilinear,order=rgb,mean=123.675:116.28:103.53,"
    "std=58.395:57.12:57.375,layout=nchw,dtype=float32"
)


def resize(picture):
    """The picture as 64x64 RGB bytes, resized by Pillow's bilinear filter."""
    return numpy.asarray(picture.convert("RGB").resize((EDGE, EDGE), Image.BILINEAR))


def normalise(pictures):
    """[N,64,64,3] values of 0 to 255 as the network's input, [N,3,64,64] float32."""
    scaled = (pictures.astype(numpy.float32) - MEAN) / STANDARD_DEVIATION
    return numpy.ascontiguousarray(scaled.transpose(0, 3, 1, 2))


class Convolution(nn.Module):
    """Convolution, batch normalisation and, unless told otherwise, ReLU."""

    def __init__(self, inputs, outputs, kernel, stride=1, groups=1, relu=True):
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.normalisation = nn.BatchNorm2d(outputs)
        self.relu = relu

    def forward(self, x):
        x = self.normalisation(self.convolution(x))
        return torch.relu(x) if self.relu else x


class Separable(nn.Module):
    """MobileNet's block: a depthwise 3x3 convolution, then a pointwise one."""

    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.depthwise = Convolution(inputs, inputs, 3, stride, groups=inputs)
        self.pointwise = Convolution(inputs, outputs, 1)

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


class Residual(nn.Module):
    """ResNet's basic block: ReLU of the input plus what two convolutions make of it."""

    def __init__(self, channels, separable):
        super().__init__()
        if separable:
            self.first = Convolution(channels, channels, 3, groups=channels)
            self.second = Convolution(channels, channels, 1, relu=False)
        else:
            self.first = Convolution(channels, channels, 3)
            self.second = Convolution(channels, channels, 3, relu=False)

    def forward(self, x):
        return torch.relu(x + self.second(self.first(x)))


class Network(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.blocks = nn.ModuleDict(
            {
                "stem": Convolution(3, 16, 3, stride=2),  # 32x32
                "separable_1": Separable(16, 32, stride=2),  # 16x16
                "residual_1": Residual(32, separable=False),
                "separable_2": Separable(32, 64, stride=2),  # 8x8
                "residual_2": Residual(64, separable=True),
                "separable_3": Separable(64, 96),
                "residual_3": Residual(96, separable=True),
            }
        )
        self.classifier = nn.Linear(96, classes)

    def forward(self, x):
        for block in self.blocks.values():
            x = block(x)
        return self.classifier(x.mean(dim=(2, 3)))
