#!/usr/bin/env python3
"""Whether two builds of the program do the same, bit for bit: for changes that are to change nothing.

    scripts/compare_builds.py OLD NEW NETWORK... [--data DIR] [--simulator DIR] [--save FILE]

OLD and NEW are programs; OLD may also be what --save wrote of one. A NETWORK is an ONNX file, or a folder with some in it. Compared are, for
each: its answers to random inputs with 1 and 2 threads on every instruction set of this machine, the kernel of every node, and with --simulator
(the folder of a build's tests/cuda_simulator) the kernels that a GPU would get, of networks below 200 million multiply-adds. With --data, a folder with mnist, cifar10 and flowers5 in it, five
trainings: their model.onnx, with 1 and 2 threads, and where that can be in parts of a batch. Prints what differs; exit code 1 where
something does. Needs numpy.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy


def run(program, *arguments, **environment):
    done = subprocess.run([program, *map(str, arguments), "--json"], capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1:]}
    return json.loads(done.stdout.splitlines()[-1])


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def isas(program):
    return run(program, "doctor")["cpu"]["isas"]


def inputs_of(program, network, folder):
    """Random inputs as .npy files; open extents are those that `info` assumes."""
    told = run(program, "info", network)
    assumed, made = told.get("assumed") or {}, []
    for i, given in enumerate(told.get("inputs", [])):
        shape = assumed.get(given["name"]) or [e if isinstance(e, int) else 1 for e in given["shape"] or []]
        random = numpy.random.default_rng(i + 1)
        kind = numpy.dtype(given["dtype"])
        values = random.standard_normal(shape) if kind.kind == "f" else random.integers(0, 100, shape)
        path = folder / f"in_{i}.npy"
        numpy.save(path, values.astype(kind))
        made += ["--input", f"{given['name']}={path}"]
    return made


def answers(program, network, simulator):
    found = {}
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        inputs = inputs_of(program, network, work)
        for isa in isas(program):
            for threads in (1, 2):
                out = work / f"{isa}-{threads}"
                done = run(program, "run", network, *inputs, "--output-dir", out, "--threads", threads, GRAFT_ISA=isa)
                found[f"{isa}, {threads} threads"] = done.get("error") or {name: digest(pathlib.Path(path)) for name, path in done["outputs"].items()}
            found[f"{isa}, kernels"] = kernels(run(program, "info", network, "--placement", GRAFT_ISA=isa))
        # Planning for a GPU tries kernels, which takes the simulator minutes where they are large.
        if simulator and (run(program, "info", network).get("macs") or 0) < 2e8:
            for precision in ("float32", "float16"):
                told = run(program, "info", network, "--placement", "--device", "cuda", "--precision", precision, GRAFT_CUDA_PATH=str(simulator), GRAFT_CACHE=str(work / "cache"))
                found[f"simulator, {precision}"] = kernels(told)
    return found


def kernels(told):
    if not told.get("placement"):
        return told.get("error") or "refused"
    return [f"{p['node']} {p['operator']}: {p['device']} {p['kernel']} {p['reason']}" for p in told["placement"]]


def without_chance(told):
    """Which of a library's engines a convolution gets is measured."""
    return [re.sub("cuDNN.*", "cuDNN", line) for line in told] if isinstance(told, list) else told


def trainings(program, data, networks):
    """The bytes of five trainings, each by 1 and 2 threads and in parts."""
    small = next((n for n in networks if "mobilenetv1_025" in n.name and n.suffix == ".onnx" and "fp32" in n.name), None)
    transformer = next((n for n in networks if "vit" in n.name), None)
    # Each with the memory in which its batches are computed in parts; 0: batch normalisation or a layer in between looks across the batch.
    runs = {
        "LeNet": (["train", data / "mnist", "--arch", "lenet", "--epochs", 1, "--batch", 256], "8M"),
        "ResNet-20": (["train", data / "cifar10", "--arch", "resnet20", "--epochs", 1, "--batch", 128], 0),
    }
    if small:
        runs["MobileNetV1"] = (["finetune", data / "flowers5", "--from", small, "--epochs", 2, "--unfreeze-epoch", 1], "60M")
        runs["frozen trunk"] = (["finetune", data / "flowers5", "--from", small, "--epochs", 2, "--freeze", "trunk"], 0)
    if transformer:
        runs["transformer"] = (["finetune", data / "flowers5", "--from", transformer, "--epochs", 1, "--unfreeze-epoch", 0, "--batch", 16], 0)
    found = {}
    for name, (arguments, memory) in runs.items():
        ways = {"1 thread": ["--threads", 1], "2 threads": ["--threads", 2]}
        if memory:
            ways["in parts"] = ["--max-ram", memory, "--threads", 2]
        for how, more in ways.items():
            with tempfile.TemporaryDirectory() as work:
                out = pathlib.Path(work) / "run"
                told = run(program, *arguments, "--out", out, "--seed", 1, *more)
                found[f"{name}, {how}"] = told.get("error") or {"model.onnx": digest(out / "model.onnx")}
            print(f"  {name}, {how}: {found[f'{name}, {how}']}", file=sys.stderr, flush=True)
    return found


def record(program, networks, arguments):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        told = pool.map(lambda network: answers(program, network, arguments.simulator), networks)
        found = {network.name: t for network, t in zip(networks, told)}
    if arguments.simulator and not any(isinstance(kernels, list) for t in found.values() for what, kernels in t.items() if what.startswith("simulator")):
        sys.exit(f"{program} plans nothing for the simulator in {arguments.simulator}")
    if arguments.data:
        found["training"] = trainings(program, arguments.data, networks)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("networks", nargs="+", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path)
    # A program takes no libraries from a relative path.
    parser.add_argument("--simulator", type=lambda given: pathlib.Path(given).resolve())
    parser.add_argument("--save", type=pathlib.Path, help="keep what OLD does here, to be compared with later")
    arguments = parser.parse_args()
    networks = sorted(n for given in arguments.networks for n in ([given] if given.is_file() else given.rglob("*.onnx")))
    old = json.loads(pathlib.Path(arguments.old).read_text()) if arguments.old.endswith(".json") else record(arguments.old, networks, arguments)
    if arguments.save:
        arguments.save.write_text(json.dumps(old))
    new = record(arguments.new, networks, arguments)
    compared = differ = 0
    for network, told in new.items():
        for what, answer in told.items():
            compared += 1
            before = old.get(network, {}).get(what)
            if without_chance(answer) == without_chance(before):
                continue
            answer, before = without_chance(answer), without_chance(before)
            differ += 1
            print(f"{network}: {what} differs")
            if isinstance(answer, list) and isinstance(before, list):
                print("".join(f"  - {line}\n" for line in before if line not in answer) + "".join(f"  + {line}\n" for line in answer if line not in before), end="")
            else:
                print(f"  - {before}\n  + {answer}")
    print(f"{compared} answers, kernels and trainings of {len(networks)} networks: {differ} differ")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
