#!/usr/bin/env python3
"""Prints the ranges that tests/passes/quantize_network.cpp holds range_observer against: those of ONNX Runtime's calibrator (entropy) and of
numpy (percentile). Needs numpy and onnxruntime."""
import numpy as np
from onnxruntime.quantization.calibrate import HistogramCollector

for count, shift in ((20000, 0.5), (5000, 0.2)):
    u = np.mod(np.arange(count) * 0.6180339887, 1.0) - shift
    x = (u / (0.7 - u * u)).astype(np.float32)
    most = float(np.abs(x).max())
    histogram, edges = np.histogram(x.astype(np.float64), 2048, (-most, most))
    low, high = HistogramCollector.__new__(HistogramCollector).get_entropy_threshold((histogram, edges, x.min(), x.max(), most), 128)
    left, right = np.percentile(x, [0.5, 99.5])
    print(f"{{{count}, {shift}, {low:.7g}f, {high:.7g}f, {left:.7g}f, {right:.7g}f}},")
