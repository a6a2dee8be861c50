#!/usr/bin/env python3
"""What sums of 16 bits that saturate change: ONNX Runtime's convolutions of 8-bit images beside exact sums, and what its exact ones cost.

  saturation.py [--graft GRAFT] [--rounds N] [--threads N] [NETWORK.onnx...]

Without VNNI ONNX Runtime adds two products of bytes in 16 bits, which cut off what does not fit; with `session.x64quantprecision` it does not. First, the
share of codes of a 1 x 1 convolution of 256 channels that differ from exact sums, for three kinds of weights. Then, for each 8-bit network, medians of
rounds in turn: ONNX Runtime as it is, ONNX Runtime exact, graft, which always is."""
import argparse
import json
import pathlib
import statistics
import subprocess
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def session(model, exact, threads=1):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.x64quantprecision", "1" if exact else "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def differences(random, weights, exact):
    rows, channels = weights.shape
    image = random.integers(0, 256, (1, channels, 14, 14)).astype(np.uint8)
    constants = {"xs": np.float32(0.02), "xz": np.uint8(0), "w": weights.reshape(rows, channels, 1, 1), "ws": np.float32(0.01), "wz": np.int8(0),
                 "ys": np.float32(2), "yz": np.uint8(128)}
    graph = helper.make_graph([helper.make_node("QLinearConv", ["x", *constants], ["y"])], "one", [helper.make_tensor_value_info("x", TensorProto.UINT8, image.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.UINT8, None)], [numpy_helper.from_array(v, k) for k, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    codes = session(model.SerializeToString(), exact).run(None, {"x": image})[0].astype(np.int64)[0]
    sums = np.einsum("mk,khw->mhw", weights.astype(np.int64), image[0].astype(np.int64))
    scale = np.float32(0.02) * np.float32(0.01) / np.float32(2)
    wanted = np.clip(np.rint(sums.astype(np.float32) * scale) + 128, 0, 255).astype(np.int64)
    return np.abs(wanted - codes)


def milliseconds(run, seconds=1.0):
    run()
    took, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        took.append(1000 * (time.perf_counter() - begin))
    return statistics.median(took)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", type=pathlib.Path)
    parser.add_argument("--graft", default="graft")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    random = np.random.default_rng(1)
    kinds = {"normal, sigma 16": random.normal(0, 16, (64, 256)), "normal, sigma 42": random.normal(0, 42, (64, 256)),
             "even over all codes": random.uniform(-127.5, 127.5, (64, 256))}
    print(f"| weights | ONNX Runtime {onnxruntime.__version__}: codes that differ, % | by more than one | at most | exact, % |\n| --- | ---: | ---: | ---: | ---: |")
    for name, weights in kinds.items():
        weights = np.clip(np.rint(weights), -127, 127).astype(np.int8)
        usual, exact = differences(random, weights, False), differences(random, weights, True)
        print(f"| {name} | {100 * np.mean(usual > 0):.2f} | {100 * np.mean(usual > 1):.2f} | {usual.max()} | {100 * np.mean(exact > 0):.2f} |")
    if arguments.networks:
        print("\n| network | threads | ONNX Runtime ms | exact ms | graft ms | exact / graft |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for network in arguments.networks:
        sessions = [session(str(network), exact, arguments.threads) for exact in (False, True)]
        of = sessions[0].get_inputs()[0]
        image = random.standard_normal([d if isinstance(d, int) else 1 for d in of.shape]).astype(np.float32)
        command = [arguments.graft, "bench", str(network), "--threads", str(arguments.threads), "--json", "-q", "--device", "cpu"]
        rounds = []
        for _ in range(arguments.rounds):
            theirs = [milliseconds(lambda s=s: s.run(None, {of.name: image})) for s in sessions]
            ours = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])["median_ms"]
            rounds.append((*theirs, ours))
        usual, exact, ours = (statistics.median(column) for column in zip(*rounds))
        ratio = statistics.median(r[1] / r[2] for r in rounds)
        print(f"| {network.stem} | {arguments.threads} | {usual:.1f} | {exact:.1f} | {ours:.1f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
