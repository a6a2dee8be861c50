#!/usr/bin/env python3
"""Times two threads of graft and its rivals apart for each state of a virtual machine whose two cores its host moves: near and far from each other.

    bench/near_and_far.py [--seconds 600] [--core-distance PROGRAM] MODEL.onnx...

Engines take turns on one picture; before and after each turn bench/core_distance tells where the cores lie, and turns in which they were moved do not count. A cell is
the median over a state's turns of each turn's median, in ms. GRAFT names the program (default build/release/graft), CXX the compiler. Runs in an interpreter that has
numpy, onnxruntime and openvino; ncnn where MODEL has a .ncnn.param and a .ncnn.bin beside it, named without _b1.
"""
import argparse
import collections
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GRAFT = os.environ.get("GRAFT", str(ROOT / "build/release/graft"))
THREADS, TURN, NEAR_NS, FAR_NS = 2, 0.3, 110, 200


def onnxruntime_run(model, picture):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = THREADS, 3
    session = onnxruntime.InferenceSession(model, options)
    name = session.get_inputs()[0].name
    return lambda: session.run(None, {name: picture})


def openvino_run(model, picture):
    import openvino
    request = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": THREADS, "NUM_STREAMS": 1,
                                                           "PERFORMANCE_HINT": "LATENCY"}).create_infer_request()
    return lambda: request.infer({0: picture})


def ncnn_run(model, picture):
    stem = str(pathlib.Path(model).with_suffix("")).removesuffix("_b1")
    if not os.path.exists(stem + ".ncnn.param"):
        return None
    import ncnn
    import numpy
    net = ncnn.Net()
    net.opt.num_threads, net.opt.use_vulkan_compute = THREADS, False
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    if net.load_param(stem + ".ncnn.param") or net.load_model(stem + ".ncnn.bin"):
        return None

    def run():
        extractor = net.create_extractor()
        extractor.input("in0", ncnn.Mat(picture[0]))
        return numpy.array(extractor.extract("out0")[1])
    return run


def graft_ms(model):
    made = subprocess.run([GRAFT, "bench", model, "--threads", str(THREADS), "--rounds", "40", "--json", "-q"], capture_output=True, text=True, check=True)
    return json.loads(made.stdout)["median_ms"]


def median_ms(run):
    times, end = [], time.perf_counter() + TURN
    run()
    while len(times) < 3 or time.perf_counter() < end:
        began = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times)


def state(before, after):
    return "near" if max(before, after) < NEAR_NS else "far" if min(before, after) > FAR_NS else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--core-distance")
    options = parser.parse_args()
    import numpy
    picture = numpy.random.default_rng(0).random((1, 3, 224, 224), dtype=numpy.float32)
    with tempfile.TemporaryDirectory() as folder:
        distance = options.core_distance or f"{folder}/core_distance"
        if not options.core_distance:
            subprocess.run(shlex.split(os.environ.get("CXX", "g++")) + ["-std=c++17", "-O2", str(ROOT / "bench/core_distance.cpp"), "-o", distance, "-pthread"], check=True)

        def trip_ns():
            return float(subprocess.run([distance], capture_output=True, text=True, check=True).stdout.split("to and fro ")[1].split()[0])

        engines = {}
        for model in options.models:
            made = {"graft": lambda model=model: graft_ms(model)}
            for name, make in (("ONNX Runtime", onnxruntime_run), ("OpenVINO", openvino_run), ("ncnn", ncnn_run)):
                if run := make(model, picture):
                    run()
                    made[name] = lambda run=run: median_ms(run)
            engines[model] = made
        cells, end = collections.defaultdict(list), time.time() + options.seconds
        while time.time() < end:
            for model, made in engines.items():
                before = trip_ns()
                for name, turn in made.items():
                    ms = turn()
                    after = trip_ns()
                    if where := state(before, after):
                        cells[model, where, name].append(ms)
                    before = after
    names = ["graft", "ONNX Runtime", "OpenVINO", "ncnn"]
    print("| network | cores | " + " | ".join(names) + " | ratio | turns |\n| --- | --- | " + "---: | " * (len(names) + 2))
    for where in ("near", "far"):
        for model in options.models:
            got = {n: statistics.median(cells[model, where, n]) for n in names if cells[model, where, n]}
            ratio = min((v for n, v in got.items() if n != "graft"), default=0) / got["graft"] if "graft" in got else 0
            turns = min((len(cells[model, where, n]) for n in engines[model]), default=0)
            row = " | ".join(f"{got[n]:.2f}" if n in got else "" for n in names)
            print(f"| {pathlib.Path(model).stem} | {where} | {row} | {ratio:.2f} | {turns} |")


if __name__ == "__main__":
    sys.exit(main())
