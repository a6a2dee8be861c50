#!/usr/bin/env python3
"""Times two threads of graft and its rivals apart for each state of a virtual machine whose two cores its host moves: near and far from each other.

    bench/near_and_far.py [--seconds 600] FOLDER NAME...

FOLDER holds for each network what bench/rivals puts into build/rivals/networks: NAME.onnx, NAME.npy (its picture), and NAME.ncnn.param and NAME.ncnn.bin where ncnn is to run
it. Engines take turns; before and after each bench/core_distance tells where the cores lie, and turns in which they were moved do not count. A cell is the median
over a state's turns of each turn's median, in ms; there is a ratio where every engine had a turn. GRAFT names the program (default build/release/graft), CXX the
compiler. Runs in an interpreter that has numpy, onnxruntime, openvino and ncnn.
"""
import argparse
import collections
import importlib.machinery
import importlib.util
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
RIVALS = ["ort", "openvino", "ncnn"]


def rivals():
    """bench/rivals, which knows how each engine is run."""
    loader = importlib.machinery.SourceFileLoader("rivals", str(ROOT / "bench/rivals"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("rivals", loader))
    loader.exec_module(module)
    return module


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
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--seconds", type=float, default=600)
    options = parser.parse_args()
    known = rivals()
    with tempfile.TemporaryDirectory() as folder:
        distance = f"{folder}/core_distance"
        subprocess.run(shlex.split(os.environ.get("CXX", "g++")) + ["-std=c++17", "-O2", str(ROOT / "bench/core_distance.cpp"), "-o", distance, "-pthread"], check=True)

        def trip_ns():
            return float(subprocess.run([distance], capture_output=True, text=True, check=True).stdout.split("to and fro ")[1].split()[0])

        engines = {}
        for network in options.names:
            engines[network] = {"graft": lambda network=network: graft_ms(str(options.folder / f"{network}.onnx"))}
            for engine in RIVALS:
                if engine == "ncnn" and not (options.folder / f"{network}.ncnn.param").exists():
                    continue
                try:
                    run = known.runner(engine, network, options.folder, THREADS)[0]
                    run()
                except Exception as e:  # whatever a rival throws: it is then not in the row
                    print(f"{network}: {known.ENGINES[engine]} does not run it: {e}", file=sys.stderr)
                    continue
                engines[network][engine] = lambda run=run: median_ms(run)
        cells, end = collections.defaultdict(list), time.time() + options.seconds
        while time.time() < end:
            for network, made in engines.items():
                before = trip_ns()
                for name, turn in made.items():
                    ms = turn()
                    after = trip_ns()
                    if where := state(before, after):
                        cells[network, where, name].append(ms)
                    before = after
    columns = ["graft", *RIVALS]
    print("| network | cores | " + " | ".join(known.ENGINES[c] for c in columns) + " | ratio | turns |\n| --- | --- |" + " ---: |" * (len(columns) + 2))
    for where in ("near", "far"):
        for network, made in engines.items():
            got = {c: statistics.median(cells[network, where, c]) for c in made if cells[network, where, c]}
            ratio = f"{min(v for c, v in got.items() if c != 'graft') / got['graft']:.2f}" if len(got) == len(made) else ""
            row = " | ".join(f"{got[c]:.2f}" if c in got else "" for c in columns)
            print(f"| {network} | {where} | {row} | {ratio} | {min(len(cells[network, where, c]) for c in made)} |")


if __name__ == "__main__":
    sys.exit(main())
