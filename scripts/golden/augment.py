"""Records what torchvision makes of small pictures, for tests/data: python scripts/golden/augment.py (needs torchvision, Pillow >= 13, numpy).
With a folder: holds the PNG files and zlib streams that tests/data/png_encode.cpp left there (GRAFT_PNG_DIR) against Pillow and zlib."""
import math, sys, zlib
from pathlib import Path
import numpy as np
import PIL, torch, torchvision
from PIL import Image
from torchvision import transforms as T
from torchvision.transforms import functional as F, v2
from torchvision.transforms.autoaugment import _apply_op

HERE = Path(__file__).resolve().parents[2] / "tests" / "data"
NEAREST, BILINEAR, BICUBIC = T.InterpolationMode.NEAREST, T.InterpolationMode.BILINEAR, T.InterpolationMode.BICUBIC


def noise(height, width, channels):
    """The same bytes as `noise` in tests/data/pictures.hpp."""
    out, state = bytearray(), 12345
    for _ in range(height * width * channels):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(state >> 24)
    return np.frombuffer(bytes(out), "u1").reshape(height, width, channels)


def slopes(height, width, channels):
    """The same bytes as `slopes` in tests/data/augment.cpp."""
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    return (30 + (7 * x + 3 * y + 41 * c + x * y % 31) % 190).astype("u1")


def colours():
    """Every colour whose parts are multiples of 5, in one column."""
    r, g, b = np.mgrid[0:256:5, 0:256:5, 0:256:5]
    return np.stack([r, g, b], -1).reshape(-1, 1, 3).astype("u1")


PICTURES = {"noise": noise(37, 53, 3), "slopes": slopes(40, 40, 3), "gray": slopes(31, 45, 1), "colours": colours()}


def picture(name):
    pixels = PICTURES[name]
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


lines = []


def record(op, name, parameters, made):
    numbers = [repr(float(p)) if p != int(p) else str(int(p)) for p in parameters]
    lines.append(f'    {{"{op}", "{name}", {{{", ".join(numbers)}}}, {zlib.crc32(made.tobytes()):#010x}}},')


def everything():
    for name in ("noise", "slopes", "gray"):
        p = picture(name)
        for op in ("brightness", "contrast", "saturation", "sharpness"):
            for factor in (0, 0.25, 0.7, 1, 1.3, 1.99):
                record(op, name, [factor], getattr(F, "adjust_" + op)(p, factor))
        for bits in range(1, 9):
            record("posterize", name, [bits], F.posterize(p, bits))
        for threshold in (0, 77.5, 128, 255):
            record("solarize", name, [threshold], F.solarize(p, threshold))
        for op in ("autocontrast", "equalize", "invert"):
            record(op, name, [], getattr(F, op)(p))
        for angle in (0, 17, -30, 90, 123.4, 180, 270, 359, -1e-3):
            for bilinear in (0, 1):
                for fill in (0, 114):
                    record("rotate", name, [angle, bilinear, fill], F.rotate(p, angle, BILINEAR if bilinear else NEAREST, fill=fill))
        for box in ((0, 0, 31, 40), (3, 5, 20, 21), (1, 0, 8, 33), (7, 9, 24, 3), (0, 11, 31, 16), (2, 2, 28, 28), (4, 4, 1, 1)):
            for size in ((16, 16), (28, 17), (9, 40)):
                for kernel, mode in ((2, BILINEAR), (4, BICUBIC)):
                    record(f"resized_crop {size[0]} {size[1]}", name, [*box, kernel], F.resized_crop(p, *box, list(size), mode))
    for name in ("noise", "slopes", "gray", "colours"):
        for factor in (-0.5, -0.21, 0, 0.05, 0.33, 0.5):
            record("hue", name, [factor], F.adjust_hue(picture(name), factor))
    for kind, policy in enumerate((T.RandAugment(), T.TrivialAugmentWide())):
        for name in ("noise", "gray"):
            p = picture(name)
            space = policy._augmentation_space(31, (p.height, p.width)) if kind == 0 else policy._augmentation_space(31)
            for number, (op, (magnitudes, signed)) in enumerate(space.items()):
                for place in ((0,) if magnitudes.ndim == 0 else (0, 9, 16, 30)):
                    for sign in (1, -1)[:1 + signed]:
                        for bilinear in (0, 1)[:1 + (op[:5] in ("Shear", "Trans") and place == 9)]:
                            magnitude = sign * (float(magnitudes[place]) if magnitudes.ndim else 0.0)
                            made = _apply_op(p, op, magnitude, BILINEAR if bilinear else NEAREST, None)
                            record(f"policy {kind} {op}", name, [number, place, sign, magnitude, bilinear], made)


def moments(draw, count=100_000):
    """Means and deviations of what is drawn, with the standard errors of the means."""
    values = np.array([draw() for _ in range(count)], dtype=float)
    return [(m, s, s / math.sqrt(count)) for m, s in zip(values.mean(0), values.std(0))]


def draws():
    torch.manual_seed(1)
    out = []
    for height, width, scale, ratio in ((375, 500, (0.08, 1), (3 / 4, 4 / 3)), (40, 300, (0.35, 1), (3 / 4, 4 / 3)), (500, 60, (0.5, 1), (0.9, 1.1))):
        p = Image.new("L", (width, height))
        found = moments(lambda: T.RandomResizedCrop.get_params(p, list(scale), list(ratio)))
        out.append(("crop", (height, width, *scale, *ratio), found))
    x = torch.zeros(1, 64, 48)
    def erased():
        i, j, h, w, _ = T.RandomErasing.get_params(x, (0.02, 0.33), (0.3, 3.3), [0.0])
        return i, j, h, w
    out.append(("erase", (64, 48, 0.02, 0.33, 0.3, 3.3), moments(erased)))
    cut = v2.CutMix(alpha=0.7, num_classes=2)
    found = moments(lambda: ((p := cut.make_params([torch.zeros(2, 3, 30, 50)]))["lam_adjusted"], *p["box"][:2]), 30_000)
    out.append(("cutmix", (30, 50, 0.7, 0, 0, 0), found + [(0, 0, 0)]))
    rows = []
    for kind, parameters, found in out:
        rows.append(f'    {{"{kind}", {{{", ".join(repr(float(p)) for p in parameters)}}}, '
                    f'{{{", ".join(f"{{{m:.6g}, {s:.6g}, {e:.4g}}}" for m, s, e in found)}}}}},')
    return rows


def mixes():
    x = torch.arange(3 * 2 * 4 * 5, dtype=torch.float32).reshape(3, 2, 4, 5).mul(0.37).sin()
    labels = torch.arange(3)
    mixup = v2.MixUp(num_classes=3).transform(x, {"lam": 0.3, "labels": labels, "batch_size": 3})
    cutmix = v2.CutMix(num_classes=3).transform(x, {"box": (1, 2, 4, 4), "labels": labels, "batch_size": 3})
    out = []
    for name, made in (("mixup", mixup), ("cutmix", cutmix)):
        values = [f"{v:.8e}f" for v in made.flatten().tolist()]
        rows = ["    " + ", ".join(values[i:i + 8]) for i in range(0, len(values), 8)]
        out.append(f"inline constexpr float golden_{name}[] = {{\n" + ",\n".join(rows) + "};")
    return out


def check_written(folder):
    count = 0
    for stream in sorted(folder.glob("*.zlib")):
        assert zlib.decompress(stream.read_bytes()) == stream.with_suffix(".bin").read_bytes(), stream
        count += 1
    for file in sorted(folder.glob("*.png")):
        assert Image.open(file).tobytes() == file.with_suffix(".raw").read_bytes(), file
        count += 1
    print(count, "files are what they should be")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(check_written(Path(sys.argv[1])))
    everything()
    text = f"""// Made by scripts/golden/augment.py: what torchvision makes of pictures drawn in tests/data/augment.cpp.
// torchvision {torchvision.__version__}, Pillow {PIL.__version__}. CRC-32 of the pixels; means, deviations and standard errors of what is drawn.
#pragma once

#include <cstdint>

struct golden_change {{
    const char *op, *picture;
    double parameters[6];
    std::uint32_t crc;
}};

inline constexpr golden_change golden_changes[] = {{
""" + "\n".join(lines) + """
};

struct golden_draw {
    const char* kind;
    double parameters[6]; // height, width, and the transform's own
    double moments[4][3]; // crop and erase: top, left, height, width; cutmix: lambda, left, top
};

inline constexpr golden_draw golden_draws[] = {
""" + "\n".join(draws()) + """
};

""" + "\n".join(mixes()) + "\n"
    (HERE / "golden_augment.hpp").write_text(text)
    print(len(lines), "changes")
