#!/usr/bin/env python3
# Names what is in pictures, and runs the same network on an array, in Python.
#   build   pip install ./bindings/python
#   run     examples/python/classify.py apps/graft/demo/model.onnx apps/graft/demo/pictures/moon-1.png apps/graft/demo/pictures/fish-2.png
#   prints  apps/graft/demo/pictures/moon-1.png: moon
#   prints  apps/graft/demo/pictures/fish-2.png: fish
#   prints  logits: float32 (2, 8)
#   prints  input.dtype: input: it is float64, the model asks for float32
import sys

import numpy as np

import graft

if len(sys.argv) < 3:
    sys.exit(f"usage: {sys.argv[0]} MODEL PICTURE...")
model = graft.load(sys.argv[1])
for path, best in zip(sys.argv[2:], model.classify(sys.argv[2:], top=1)):
    print(f"{path}: {best[0].label}")
for name, array in model.run({"input": np.zeros((2, 3, 64, 64), np.float32)}).items():
    print(f"{name}: {array.dtype} {array.shape}")
try:
    model.run({"input": np.zeros((2, 3, 64, 64))})
except graft.GraftError as error:
    print(error)
