#!/usr/bin/env python3
# Teaches a network the classes of a folder of pictures, in Python; Ctrl-C stops in order, and what was reached is on disk.
#   build   pip install ./bindings/python
#   run     examples/python/finetune.py apps/graft/demo/new_pictures apps/graft/demo/model.onnx finetuned apps/graft/demo/unseen_pictures/umbrella-1.png
#   prints  the best epoch names nine tenths or more right
#   prints  apps/graft/demo/unseen_pictures/umbrella-1.png: umbrella
import sys

import graft

if len(sys.argv) < 5:
    sys.exit(f"usage: {sys.argv[0]} FOLDER MODEL OUT PICTURE")
data, network, out, picture = sys.argv[1:5]


def show(progress):
    if progress.event == "epoch":
        print(f"epoch {progress.epoch} of {progress.epochs}: top-1 {progress.top1:.3f}", file=sys.stderr)


# This network is small: large ones do well by the defaults.
done = graft.finetune(data, from_=network, out=out, epochs=20, lr=0.01, overwrite=True, progress=show)
print("the best epoch names", "nine tenths or more right" if done.best_top1 >= 0.9 else "less than nine tenths right")
print(f"{picture}: {graft.load(done.model).classify(picture, top=1)[0].label}")
