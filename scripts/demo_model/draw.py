# SPDX-License-Identifier: MIT
"""Draws the pictures of graft's demo: every picture is decided by its class and its seed.

    python scripts/demo_model/draw.py --demo apps/graft/demo                   # the pictures in the repository
    python scripts/demo_model/draw.py --dataset /tmp/drawings                  # what the demo's network learnt from
    python scripts/demo_model/draw.py --contact-sheet /tmp/sheet.png --rows 8  # an overview, a class per column

Needs numpy and Pillow. The same seed gives the same picture at any size.
"""

import argparse
import concurrent.futures
import functools
import pathlib

import numpy
from PIL import Image

from land_subjects import flower, house, tree
from new_subjects import balloon, butterfly, mushroom, umbrella
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
    "balloon": balloon,
    "butterfly": butterfly,
    "mushroom": mushroom,
    "umbrella": umbrella,
}
CLASS_NAMES = tuple(PAINTERS)
KNOWN, NEW = CLASS_NAMES[:8], CLASS_NAMES[8:]  # what the demo's network knows, and what it learns in the demo

# Seeds below one million train, from one million on test, from two million on are the demo's pictures.
TRAINING_SEED, TEST_SEED, DEMO_SEED = 0, 1_000_000, 2_000_000

# The demo's pictures of known classes as offsets from DEMO_SEED: chosen by eye, for variety, without asking a network.
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
# Those of new classes: the first ones to learn from, the next ones to be named.
NEW_PICTURES, UNSEEN_PICTURES = 30, 3
SMALL = 96  # width and height of pictures to learn from


def draw(class_name, seed, size=192, oversample=4):
    """A square RGB picture of `class_name`."""
    rng = numpy.random.default_rng([CLASS_NAMES.index(class_name), seed])
    painter = Painter(size, oversample, rng)
    PAINTERS[class_name](painter)
    return painter.finish(texture=rng.uniform(0, 0.03))


def few_colours(picture):
    """With 128 colours of its own, which makes a small file."""
    return picture.quantize(128, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)


def draw_demo(folder):
    for name in ("pictures", "unseen_pictures", *(f"new_pictures/{name}" for name in NEW)):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for class_name in KNOWN:
        for number, offset in enumerate(DEMO_PICTURES[class_name], start=1):
            draw(class_name, DEMO_SEED + offset).save(folder / "pictures" / f"{class_name}-{number}.png", optimize=True)
    for class_name in NEW:
        for number in range(NEW_PICTURES + UNSEEN_PICTURES):
            picture = few_colours(draw(class_name, DEMO_SEED + number, SMALL))
            unseen = number - NEW_PICTURES + 1
            name = f"new_pictures/{class_name}/{number + 1:02}.png" if unseen < 1 else f"unseen_pictures/{class_name}-{unseen}.png"
            picture.save(folder / name, optimize=True)


def draw_one(folder, task):
    part, class_name, seed = task
    draw(class_name, seed, SMALL, oversample=2).save(folder / part / class_name / f"{seed:07}.png", compress_level=1)


def draw_dataset(folder, training, validation, workers):
    """An image folder of the known classes: train/<class>/<seed>.png and val/<class>/<seed>.png."""
    tasks = [("train", name, TRAINING_SEED + number) for number in range(training) for name in KNOWN]
    tasks += [("val", name, TEST_SEED + number) for number in range(validation) for name in KNOWN]
    for part in ("train", "val"):
        for name in KNOWN:
            (folder / part / name).mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ProcessPoolExecutor(workers) as pool:
        for _ in pool.map(functools.partial(draw_one, folder), tasks, chunksize=32):
            pass


def contact_sheet(first_seed, rows, size):
    sheet = Image.new("RGB", (len(CLASS_NAMES) * (size + 4), rows * (size + 4)), "white")
    for column, class_name in enumerate(CLASS_NAMES):
        for row in range(rows):
            sheet.paste(draw(class_name, first_seed + row, size), (column * (size + 4), row * (size + 4)))
    return sheet


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--demo", type=pathlib.Path, help="folder for the demo's pictures")
    parser.add_argument("--dataset", type=pathlib.Path, help="folder for what the demo's network learns from")
    parser.add_argument("--training-pictures", type=int, default=800, help="per class, of the dataset")
    parser.add_argument("--validation-pictures", type=int, default=50, help="per class, of the dataset")
    parser.add_argument("--workers", type=int, default=2, help="processes that draw")
    parser.add_argument("--contact-sheet", type=pathlib.Path, help="file for an overview of all classes")
    parser.add_argument("--seed", type=int, default=DEMO_SEED, help="seed of the first row of the overview")
    parser.add_argument("--rows", type=int, default=8, help="rows of the overview")
    arguments = parser.parse_args()
    if arguments.demo:
        draw_demo(arguments.demo)
    if arguments.dataset:
        draw_dataset(arguments.dataset, arguments.training_pictures, arguments.validation_pictures, arguments.workers)
    if arguments.contact_sheet:
        contact_sheet(arguments.seed, arguments.rows, 192).save(arguments.contact_sheet)


if __name__ == "__main__":
    main()
