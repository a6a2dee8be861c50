# SPDX-License-Identifier: MIT
"""Draws the pictures of graft's demo: eight classes, every picture decided by its seed.

    python scripts/demo_model/draw.py --output apps/graft/demo/pictures        # the pictures in the repository
    python scripts/demo_model/draw.py --contact-sheet /tmp/sheet.png --rows 8  # an overview, a class per column

Needs numpy and Pillow. The same seed gives the same picture at any size.
"""

import argparse
import pathlib

import numpy
from PIL import Image

from land_subjects import flower, house, tree
from painter import Painter
from sky_subjects import moon, mountain, sun
from water_subjects import boat, fish

PAINTERS = {
    "boat": boat,
    "fish": fish,
    "flower": flower,
    "house": house,
    "moon": moon,
    "mountain": mountain,
    "sun": sun,
    "tree": tree,
}
CLASS_NAMES = tuple(PAINTERS)

# Seeds below one million train, from one million on test, from two million on are the demo's pictures.
TRAINING_SEED, TEST_SEED, DEMO_SEED = 0, 1_000_000, 2_000_000

# The demo's pictures as offsets from DEMO_SEED: chosen by eye, for variety, without asking a network.
DEMO_PICTURES = {
    "boat": (0, 10),
    "fish": (14, 17),
    "flower": (0, 16),
    "house": (0, 21),
    "moon": (4, 12),
    "mountain": (0, 3),
    "sun": (1, 12),
    "tree": (1, 10),
}


def draw(class_name, seed, size=192, oversample=4):
    """A square RGB picture of `class_name`."""
    rng = numpy.random.default_rng([CLASS_NAMES.index(class_name), seed])
    painter = Painter(size, oversample, rng)
    PAINTERS[class_name](painter)
    return painter.finish(texture=rng.uniform(0, 0.03))


def contact_sheet(first_seed, rows, size):
    sheet = Image.new("RGB", (len(CLASS_NAMES) * (size + 4), rows * (size + 4)), "white")
    for column, class_name in enumerate(CLASS_NAMES):
        for row in range(rows):
            sheet.paste(draw(class_name, first_seed + row, size), (column * (size + 4), row * (size + 4)))
    return sheet


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, help="folder for the demo's pictures, <class>-<n>.png")
    parser.add_argument("--contact-sheet", type=pathlib.Path, help="file for an overview of all classes")
    parser.add_argument("--seed", type=int, default=DEMO_SEED, help="seed of the first row of the overview")
    parser.add_argument("--rows", type=int, default=8, help="rows of the overview")
    parser.add_argument("--size", type=int, default=192, help="width and height in pixels")
    arguments = parser.parse_args()
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        for class_name in CLASS_NAMES:
            for number, offset in enumerate(DEMO_PICTURES[class_name], start=1):
                picture = draw(class_name, DEMO_SEED + offset, arguments.size)
                picture.save(arguments.output / f"{class_name}-{number}.png", optimize=True)
    if arguments.contact_sheet:
        contact_sheet(arguments.seed, arguments.rows, arguments.size).save(arguments.contact_sheet)


if __name__ == "__main__":
    main()
