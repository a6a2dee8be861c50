#!/usr/bin/env python3
"""Measures graft and PyTorch in turn: both stay resident, and in each round each runs for a moment, so that clocks and heat are the same.

    bench/gpu_rounds.py --graft GPU_TIME --networks FOLDER --what infer|train [--device cuda:0] [--rounds 3] [--seconds 0.1]
        [--names ...] [--batches 64,1,256,8] [--precisions bfloat16,tf32] [--modes whole,graph] [--compile resnet50:64:bfloat16] [--budget 150]

Prints a line of JSON for each cell (network, batch, precision, with pictures brought over or resident): the median of the rounds of graft and of each mode
of PyTorch, the spread of the rounds, first runs, memory. Cells that the budget of seconds has no room for are named as not run.
"""
import argparse
import json
import math
import os
import pathlib
import select
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


class Side:
    """A server at the other end of a pipe. One that dies or hangs is started anew at the next command."""

    def __init__(self, command):
        self.command, self.process = command, None

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.rest = b""

    def stop(self):
        if self.process:
            self.process.stdin.close()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def ask(self, text, patience):
        """The answer, a dict; its kind is "failure" where there is none."""
        if not self.process:
            self.start()
        try:
            self.process.stdin.write((text + "\n").encode())
            self.process.stdin.flush()
            until = time.monotonic() + patience
            while True:
                while b"\n" in self.rest:
                    one, self.rest = self.rest.split(b"\n", 1)
                    if one.startswith(b'{"kind"'):
                        return json.loads(one)
                ready, _, _ = select.select([self.process.stdout], [], [], max(0, until - time.monotonic()))
                more = os.read(self.process.stdout.fileno(), 1 << 16) if ready else None
                if not more:
                    raise TimeoutError(f"no answer in {patience:.0f} s" if more is None else "the process ended")
                self.rest += more
        except (OSError, TimeoutError) as error:
            self.process.kill()
            self.process.wait()
            self.process = None
            return {"kind": "failure", "why": f"{text.split()[0]}: {error}"}


def cells(a):
    """The most telling ones first."""
    feeds = ["train"] if a.what == "train" else ["infer", "resident"]
    for turn, precision in enumerate(a.precisions.split(",")):
        for batch in a.batches.split(","):
            for name in a.names.split(","):
                for feed in feeds if turn == 0 else feeds[:1]:  # the cost of copies is the same in every precision
                    yield name, int(batch), precision, feed


def distance(got, want):
    return max((abs(g - w) for g, w in zip(got, want)), default=math.inf) / max(1e-3, *(abs(w) for w in want))


def measure(a, cell, graft, torch, compiled, left):
    name, batch, precision, feed = cell
    path = a.networks / ("train" if feed == "train" else "") / f"{name}.onnx"
    modes = [m for m in a.modes.split(",") if not (precision in ("tf32", "float32") and m == "amp" and "whole" in a.modes)]
    if f"{name}:{batch}:{precision}" in a.compile.split(","):
        modes.append("compile")
    found = {"kind": "cell", "what": feed, "network": name, "batch": batch, "precision": precision}
    # torch.compile has a process of its own: where it hangs, the others go on
    sides = {"graft": (graft, "")} | {m: (compiled if m == "compile" else torch, " " + m) for m in modes}
    loaded, times = {}, {}
    for key, (side, mode) in sides.items():
        answer = side.ask(f"load {key} {feed} {path} {batch} {precision}{mode}", max(5, min(left() + 5, 45)))
        if answer["kind"] == "failure":
            found.setdefault("failures", {})[key] = answer["why"]
            continue
        loaded[key], times[key] = answer, []
    for turn in range(a.rounds):
        order = list(times)
        for key in order[turn % max(1, len(order)):] + order[:turn % max(1, len(order))]:
            answer = sides[key][0].ask(f"run {key} {a.seconds}", 60)
            if answer["kind"] == "failure":
                found.setdefault("failures", {})[key] = answer["why"]
                del times[key]
            else:
                times[key].append(answer["median_ms"])
    for key, (side, _) in sides.items():
        side.ask(f"drop {key}", 30)
    found["ms"] = {k: statistics.median(v) for k, v in times.items() if v}
    found["spread"] = {k: (max(v) - min(v)) / statistics.median(v) for k, v in times.items() if v}
    found["first_ms"] = {k: v["first_ms"] for k, v in loaded.items()}
    found["load_ms"] = {k: v["load_ms"] for k, v in loaded.items()}
    found["device_bytes"] = {k: v["device_bytes"] for k, v in loaded.items()}
    if "graft" in loaded:
        found["multiply_adds"] = loaded["graft"]["multiply_adds"]
        # the weights of networks that learn are drawn apart: their answers are losses, and not compared
        if feed != "train":
            found["apart"] = {k: distance(loaded["graft"]["answer"], v["answer"]) for k, v in loaded.items() if k != "graft"}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graft", required=True)
    parser.add_argument("--networks", type=pathlib.Path, required=True)
    parser.add_argument("--what", choices=["infer", "train"], default="infer")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--names", required=True)
    parser.add_argument("--batches", default="64,1,256,8")
    parser.add_argument("--precisions", default="bfloat16,tf32")
    parser.add_argument("--modes", default="whole,graph")
    parser.add_argument("--compile", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--budget", type=float, default=150)
    a = parser.parse_args()
    until = time.monotonic() + a.budget
    failed = 0
    graft = Side([a.graft, "serve", "--device", a.device])
    torch, compiled = (Side([sys.executable, str(HERE / "gpu_torch.py"), "serve", "--device", a.device]) for _ in range(2))
    for cell in cells(a):
        if time.monotonic() > until:
            found = {"kind": "not_run", **dict(zip(("network", "batch", "precision", "what"), cell))}
        else:
            found = measure(a, cell, graft, torch, compiled, lambda: until - time.monotonic())
            failed += "graft" in found.get("failures", {})
        print(json.dumps(found), flush=True)
    for side in (graft, torch, compiled):
        side.stop()
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
