"""Prints the checksums in tests/data/to_image.cpp: the pixels that torchvision.utils.save_image makes of some tensors.

    scripts/golden/to_image.py        needs torch, torchvision and Pillow
"""
import tempfile
import zlib

import torch
import torchvision
from PIL import Image


def pixels(tensor, **options):
    with tempfile.NamedTemporaryFile(suffix=".png") as file:
        torchvision.utils.save_image(tensor, file.name, **options)
        return Image.open(file.name).convert("RGB").tobytes()


def main():
    print(f"// torchvision {torchvision.__version__}")
    ramp = torch.arange(3 * 11 * 13, dtype=torch.float32).mul(0.0073).sub(0.7).reshape(3, 11, 13)
    for name, tensor, options in (
        ("float32 [3,11,13]", ramp, {}),
        ("float64 [1,3,11,13] of 0 to 255", ramp.double().mul(255)[None], {"normalize": True, "value_range": (0, 255)}),
        ("float32 [1,11,13]", ramp[1:2], {}),
    ):
        print(f"{name}: 0x{zlib.crc32(pixels(tensor, **options)):08x}")


if __name__ == "__main__":
    main()
