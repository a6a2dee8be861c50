#!/usr/bin/env python3
"""What a call costs in C++, C and Python: the same run of a model by one thread, in turns; microseconds of the processor's time, which a busy machine
disturbs less than a clock's. The least and the median of all rounds.

    bench/bindings.py MODEL.onnx... [--rounds 200] [--calls 50]

It runs in a Python that has the package (build/bindings/venv/bin/python, made by scripts/bindings), and compiles bench/bindings.cpp for build/release.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import graft

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/release"
AT_ONCE = 10  # rounds in C++ and C, then as many in Python


def compiled(folder):
    program = pathlib.Path(folder) / "bindings"
    symbols = subprocess.run(["nm", BUILD / "libgraft_split.a"], capture_output=True).stdout
    decoders = [which for symbol, which in ((b"jpeg_start_decompress", "jpeg"), (b"WebPDecode", "webp")) if symbol in symbols]
    macros = [f"-DGRAFT_HAS_LIB{which.upper()}=1" for which in decoders]
    library = BUILD / "bindings/c"
    subprocess.run([*os.environ.get("CXX", "c++").split(), "-std=c++17", "-O2", "-DGRAFT_SPLIT", *macros, f"-I{ROOT / 'include'}", f"-I{ROOT / 'bindings/c'}",
                    ROOT / "bench/bindings.cpp", BUILD / "libgraft_split.a", f"-L{library}", "-lgraft", f"-Wl,-rpath,{library}",
                    *[f"-l{which}" for which in decoders], "-pthread", "-ldl", "-o", program], check=True)
    return program


def python_us(model, array, calls):
    name, begun = model.inputs[0].name, time.process_time()
    for _ in range(calls):
        model.run({name: array})
    return (time.process_time() - begun) / calls * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--calls", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(folder)
        print("| model | | C++ us | C us | Python us | C - C++ | Python - C |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |")
        for path in options.models:
            model = graft.load(path, device="cpu", threads=1)
            shape = [e if isinstance(e, int) else 1 for e in model.inputs[0].shape]
            array = np.zeros(shape, model.inputs[0].dtype)
            python_us(model, array, options.calls)
            times = {"cpp": [], "c": [], "python": []}
            for _ in range(AT_ONCE, options.rounds + 1, AT_ONCE):
                said = json.loads(subprocess.run([program, path, str(AT_ONCE), str(options.calls)], capture_output=True, text=True, check=True).stdout)
                for which, values in said.items():
                    times[which] += values
                times["python"] += [python_us(model, array, options.calls) for _ in range(AT_ONCE)]
            for what, of in (("least", min), ("median", statistics.median)):
                cpp, c, python = (of(times[which]) for which in ("cpp", "c", "python"))
                print(f"| {path.name} | {what} | {cpp:.1f} | {c:.1f} | {python:.1f} | {c - cpp:+.1f} | {python - c:+.1f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
