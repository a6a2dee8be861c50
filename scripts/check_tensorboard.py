#!/usr/bin/env python3
"""Prints what TensorBoard itself reads from the event files of a folder: scalars, pictures and steps.

    scripts/check_tensorboard.py FOLDER          needs tensorboard
"""
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "images": 0})
    events.Reload()
    tags = events.Tags()
    for tag in tags["scalars"]:
        values = events.Scalars(tag)
        print(f"{tag}: {len(values)} values, steps {[v.step for v in values][:10]}, first {values[0].value:g}, last {values[-1].value:g}")
    for tag in tags["images"]:
        for picture in events.Images(tag):
            print(f"{tag}: step {picture.step}, {picture.width} x {picture.height}, {len(picture.encoded_image_string)} bytes")
    if not tags["scalars"] and not tags["images"]:
        sys.exit("no events were read")


if __name__ == "__main__":
    main()
