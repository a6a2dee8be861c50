#!/usr/bin/env python3
"""Time to a first prediction, in processes of their own: graft with an empty folder of kernels, graft with a full one, PyTorch.

    bench/gpu_start.py --graft GPU_TIME --networks FOLDER --names resnet50,... [--device cuda:0] [--precision tf32] [--rounds 3] [--budget 25]

Prints a line of JSON for each process: wall_ms from its start to its end, and what it says of its parts.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graft", required=True)
    parser.add_argument("--networks", type=pathlib.Path, required=True)
    parser.add_argument("--names", required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--precision", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=25)
    a = parser.parse_args()
    until, failed = time.monotonic() + a.budget, False
    for name in a.names.split(","):
        path = str(a.networks / f"{name}.onnx")
        options = ["--device", a.device, "--precision", a.precision, "--batch", "1"]
        programs = {"graft": [a.graft, "once", path, *options], "torch": [sys.executable, str(HERE / "gpu_torch.py"), "once", path, *options]}
        with tempfile.TemporaryDirectory() as kernels:
            for program, turn in [("graft", i) for i in range(a.rounds + 1)] + [("torch", i) for i in range(2)]:
                if time.monotonic() > until:
                    print(json.dumps({"kind": "not_run", "what": "start", "network": name, "program": program}), flush=True)
                    continue
                begun = time.perf_counter()
                try:
                    done = subprocess.run(programs[program], env={**os.environ, "GRAFT_CACHE_DIR": kernels}, capture_output=True, text=True, timeout=max(5, until + 5 - time.monotonic()))
                except subprocess.TimeoutExpired:
                    done = subprocess.CompletedProcess([], 124, "", "it was stopped after its time")
                found = {"kind": "start", "network": name, "program": program, "cold": program == "graft" and turn == 0, "wall_ms": 1e3 * (time.perf_counter() - begun)}
                if done.returncode:
                    failed |= program == "graft"
                    found |= {"kind": "failure", "why": done.stderr[-300:]}
                else:
                    found |= {k: v for k, v in json.loads(done.stdout).items() if k.endswith("_ms")}
                print(json.dumps(found), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
