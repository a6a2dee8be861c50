#!/usr/bin/env python3
"""The rival of bench/gpu: PyTorch, measured as gpu_time measures graft.

    bench/gpu_torch.py serve --device cuda          commands on stdin, a line of JSON for each:
        load KEY infer|resident|train FILE.onnx BATCH PRECISION MODE    FILE's weights lie beside it (bench/gpu_networks.py)
        run KEY SECONDS
        drop KEY
    bench/gpu_torch.py once FILE.onnx [--batch B] [--precision P]       a first prediction, in a process of its own
    bench/gpu_torch.py limits                                           the machine's: a copy on the device, matrix products
    bench/gpu_torch.py compile FILE.onnx... --batch B --precision P     fills torch.compile's cache

PRECISION: float32, tf32, bfloat16, float16. MODE: amp (autocast; eager), whole (all of the network in that type; eager), graph (the same as
a CUDA graph; a training step with autocast), compile (torch.compile, max-autotune-no-cudagraphs, as a CUDA graph too). Everything is
channels last. Inputs come from pinned memory, answers go to pinned memory; "resident" adds one number a sample to pictures on the device.
"""
import time

BEGUN = time.perf_counter()
import argparse
import contextlib
import json
import pathlib
import statistics
import sys
import warnings

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import export_training
import gpu_networks

TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def say(kind, **rest):
    print(json.dumps({"kind": kind, **rest}), flush=True)


def use(precision):
    torch.backends.cuda.matmul.allow_tf32 = precision != "float32"
    torch.backends.cudnn.allow_tf32 = precision != "float32"


def side_of(path):
    return json.loads((path.parent / "networks.json").read_text())[path.stem]["side"]


class Subject:
    """What is measured: `once` puts one run on the device's queue, and `run` waits for it."""

    def __init__(self, device, kind, path, batch, precision, mode):
        begun = time.perf_counter()
        self.cuda = device != "cpu"
        self.device, self.precision, self.mode, self.graph = device, precision, mode, None
        self.type = TYPES.get(precision)
        use(precision)
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        self.prepare_training(path, batch) if kind == "train" else self.prepare(path, batch, kind == "resident")
        self.wait()
        loaded = time.perf_counter()
        if self.cuda and mode in ("graph", "compile"):
            self.capture()
        self.run()
        self.load_ms, self.first_ms = 1e3 * (loaded - begun), 1e3 * (time.perf_counter() - loaded)
        self.device_bytes = torch.cuda.max_memory_allocated() if self.cuda else 0

    def pinned(self, t):
        return t.pin_memory() if self.cuda else t

    def compiled(self, network):
        return torch.compile(network, mode="max-autotune-no-cudagraphs") if self.mode == "compile" else network

    def autocast(self, cache=True):
        return torch.autocast(self.device.split(":")[0], self.type, cache_enabled=cache) if self.type else contextlib.nullcontext()

    loaded = {}

    def network(self, path, side, whole):
        """The network on the device; the last one is kept, for the settings that it is measured in."""
        if not any(known == path for known, _ in self.loaded):
            self.loaded.clear()
        if (path, whole) not in self.loaded:
            made = gpu_networks.saved(path.parent, path.stem, side).to(self.device, memory_format=torch.channels_last)
            self.loaded[path, whole] = made.to(whole) if whole else made
        return self.loaded[path, whole]

    def prepare(self, path, batch, resident):
        side = side_of(path)
        whole = self.type if self.mode != "amp" else None
        network = self.compiled(self.network(path, side, whole))
        pictures = gpu_networks.pictures(batch, side)
        given = self.pinned(torch.zeros(batch, 1, 1, 1) if resident else pictures)
        on_device, there = torch.empty_like(given, device=self.device), pictures.to(self.device) if resident else None
        self.answer = self.pinned(torch.empty(batch, 1000))

        def once():
            on_device.copy_(given, non_blocking=True)
            x = (there + on_device if resident else on_device).contiguous(memory_format=torch.channels_last)
            with torch.inference_mode(), contextlib.nullcontext() if whole else self.autocast(cache=self.mode != "graph"):
                self.answer.copy_(network(x.to(whole) if whole else x), non_blocking=True)
        self.once = once

    def prepare_training(self, path, batch):
        network, picture = export_training.network(path.stem)
        network = network.to(self.device, memory_format=torch.channels_last).train()
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, foreach=True)
        forward = self.compiled(network)
        count = batch * picture[0] * picture[1] * picture[2]
        values = (torch.arange(count, dtype=torch.int64) * 7919 + 104729) % 257 / 64 - 2
        given = self.pinned(values.float().reshape(batch, *picture))
        labels = self.pinned((torch.arange(batch) * 5) % 10)
        x, y = torch.empty_like(given, device=self.device), torch.empty_like(labels, device=self.device)
        self.answer = self.pinned(torch.zeros(1))
        scaler = torch.amp.GradScaler(self.device.split(":")[0], enabled=self.type is torch.float16)
        if scaler.is_enabled() and self.mode in ("graph", "compile"):
            raise RuntimeError("a step with a GradScaler is not captured")

        def once():
            x.copy_(given, non_blocking=True)
            y.copy_(labels, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            with self.autocast(cache=self.mode == "amp"):
                loss = torch.nn.functional.cross_entropy(forward(x.contiguous(memory_format=torch.channels_last)), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            self.answer.copy_(loss.detach().reshape(1), non_blocking=True)
        self.once = once

    def capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.once()
        torch.cuda.current_stream().wait_stream(stream)
        self.wait()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.once()

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def run(self):
        self.graph.replay() if self.graph else self.once()
        self.wait()

    def measure(self, seconds):
        use(self.precision)
        for _ in range(3):
            self.run()
        times, begun = [], time.perf_counter()
        while len(times) < 5 or (len(times) < 2000 and time.perf_counter() - begun < seconds):
            start = time.perf_counter()
            self.run()
            times.append(1e3 * (time.perf_counter() - start))
        return times


def serve(device):
    subjects = {}
    for text in sys.stdin:
        command, key, *rest = text.split()
        try:
            if command == "load":
                kind, path, batch, precision, mode = rest
                s = subjects[key] = Subject(device, kind, pathlib.Path(path), int(batch), precision, mode)
                say("loaded", key=key, load_ms=s.load_ms, first_ms=s.first_ms, device_bytes=s.device_bytes, answer=[float(v) for v in s.answer.reshape(-1)[:16]])
            elif command == "run":
                times = subjects[key].measure(float(rest[0]))
                say("ran", key=key, median_ms=statistics.median(times), least_ms=min(times), runs=len(times))
            elif command == "drop":
                subjects.pop(key, None)
                if device != "cpu":
                    torch.cuda.empty_cache()
                say("dropped", key=key)
            else:
                raise ValueError(f"no such command: {command}")
        except Exception as error:  # whatever one setting fails with is a finding about that setting
            subjects.pop(key, None)
            say("failure", key=key, why=f"{type(error).__name__}: {error}"[:400])


def best(f, rounds=10):
    """The shortest of the rounds, in seconds, by events of the device."""
    times = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        f()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return min(times)


def limits(device):
    if device == "cpu":
        n, found = 256, {}
        a = torch.randn(n, n)
        begun = time.perf_counter()
        a @ a
        found["float32_tflops"] = 2 * n**3 / (time.perf_counter() - begun) / 1e12
        big = torch.randn(1 << 20)
        begun = time.perf_counter()
        big.clone()
        return say("limits", device="cpu", copy_gbps=8 * big.numel() / (time.perf_counter() - begun) / 1e9, **found)
    a, b = torch.empty(1 << 30, dtype=torch.float32, device=device).normal_(), torch.empty(1 << 30, dtype=torch.float32, device=device)
    for _ in range(3):
        b.copy_(a)
    found = {"copy_gbps": 8 * a.numel() / best(lambda: b.copy_(a)) / 1e9}
    host = torch.empty(1 << 26, dtype=torch.float32).normal_().pin_memory()
    small = b[:1 << 26]
    found["upload_gbps"] = 4 * host.numel() / best(lambda: small.copy_(host, non_blocking=True), 5) / 1e9
    del a, b, small
    for precision in ("float32", "tf32", "float16", "bfloat16"):
        use(precision)
        n = 8192
        x = torch.randn(n, n, device=device, dtype=TYPES.get(precision, torch.float32))
        y = torch.randn(n, n, device=device, dtype=x.dtype)
        for _ in range(3):
            x @ y
        found[precision + "_tflops"] = 2 * n**3 / best(lambda: x @ y) / 1e12
    say("limits", device=torch.cuda.get_device_name(), torch=torch.__version__, cudnn=torch.backends.cudnn.version(), **found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["serve", "once", "limits", "compile"])
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--precision", default="tf32")
    a = parser.parse_intermixed_args()
    warnings.filterwarnings("ignore")
    torch.backends.cudnn.benchmark = True
    if a.verb == "serve":
        serve(a.device)
    elif a.verb == "limits":
        limits(a.device)
    elif a.verb == "compile":
        for path in a.files:
            begun = time.perf_counter()
            Subject(a.device, "infer", path, a.batch, a.precision, "compile")
            say("compiled", network=path.stem, batch=a.batch, precision=a.precision, seconds=time.perf_counter() - begun)
    else:
        imported = time.perf_counter()
        torch.backends.cudnn.benchmark = False
        s = Subject(a.device, "infer", a.files[0], a.batch, a.precision, "amp")
        say("loaded", key="once", import_ms=1e3 * (imported - BEGUN), load_ms=s.load_ms, first_ms=s.first_ms, total_ms=1e3 * (time.perf_counter() - BEGUN))


if __name__ == "__main__":
    main()
