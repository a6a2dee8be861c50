#!/usr/bin/env python3
"""Prints the ranges that tests/passes/quantize_network.cpp holds range_observer against: those of ONNX Runtime's calibrator (entropy) and of
numpy (percentile). Needs numpy and onnxruntime."""
import numpy as np
from onnxruntime.quantization.calibrate import HistogramCollector

for count, shift, relu in ((20000, 0.5, "false"), (5000, 0.2, "false"), (20000, 0.5, "true")):
    u = np.mod(np.arange(count) * 0.6180339887, 1.0) - shift
    x = (u / (0.7 - u * u)).astype(np.float32)
    if relu == "true":
        x = np.maximum(x, 0)
    most = float(np.abs(x).max())
    histogram, edges = np.histogram(x.astype(np.float64), 2048, (-most, most))
    # Zeros, which are exact in every range, are counted like their neighbours.
    histogram[1024] = min(histogram[1024], max(histogram[1023], histogram[1025]))
    low, high = HistogramCollector.__new__(HistogramCollector).get_entropy_threshold((histogram, edges, x.min(), x.max(), most), 256)
    left, right = np.percentile(x, [0.5, 99.5])
    print(f"{{{count}, {shift}, {relu}, {low:.7g}f, {high:.7g}f, {left:.7g}f, {right:.7g}f}},")
