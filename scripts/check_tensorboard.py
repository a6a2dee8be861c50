#!/usr/bin/env python3
"""Prints what TensorBoard itself reads from the event files of a folder: scalars, pictures and steps.

    scripts/check_tensorboard.py FOLDER [--pictures DIR]     needs tensorboard, and Pillow, which has to find each picture as its event tells it

With --pictures they are written to DIR as well.
"""
import argparse
import io
import pathlib
import sys

from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--pictures", type=pathlib.Path)
    options = parser.parse_args()
    events = EventAccumulator(options.folder, size_guidance={"scalars": 0, "images": 0})
    events.Reload()
    tags = events.Tags()
    for tag in tags["scalars"]:
        values = events.Scalars(tag)
        print(f"{tag}: {len(values)} values, steps {[v.step for v in values][:10]}, first {values[0].value:g}, last {values[-1].value:g}")
    for tag in tags["images"]:
        for event in events.Images(tag):
            picture = Image.open(io.BytesIO(event.encoded_image_string))
            picture.load()
            print(f"{tag}: step {event.step}, {event.width} x {event.height}, {picture.format} {picture.mode}, {len(event.encoded_image_string)} bytes")
            if picture.size != (event.width, event.height):
                sys.exit(f"{tag}: the picture has {picture.width} x {picture.height} pixels")
            if options.pictures:
                options.pictures.mkdir(parents=True, exist_ok=True)
                picture.save(options.pictures / f"{tag.replace('/', '_')}-{event.step}.png")
    if not tags["scalars"] and not tags["images"]:
        sys.exit("no events were read")


if __name__ == "__main__":
    main()
