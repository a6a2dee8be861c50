#!/usr/bin/env python3
"""Times training steps of graft and of PyTorch on this CPU, in float32 and in bfloat16, each in a process of its own and all in turn.

    bench/training_rivals.py --graft GRAFT --networks FOLDER [NAME...] [--batch 16] [--threads 2] [--rounds 3] [--json FILE]

FOLDER holds what bench/export_training.py wrote. SGD with momentum, random pictures. PyTorch runs channels last (`--contiguous` adds its default layout), in bfloat16
under autocast. Prints the median and the least of each in ms, the ratio PyTorch / graft of either, and the memory of a process at most. Needs torch,
torchvision and timm."""
import argparse
import json
import resource
import statistics
import subprocess
import sys
import time


def torch_step(name, batch, threads, precision, channels_last, steps):
    import torch
    from export_training import CLASSES, network
    torch.set_num_threads(threads)
    model, picture = network(name)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    model = model.to(memory_format=layout).train()
    optimizer, loss = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9), torch.nn.CrossEntropyLoss()
    x, y = torch.randn(batch, *picture).to(memory_format=layout), torch.randint(0, 10 if name == "lenet" else CLASSES, (batch,))
    times = []
    for _ in range(steps + 2):
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bfloat16"):
            value = loss(model(x), y)
        value.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    return {"times": times[2:], "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def graft_step(o, name, precision):
    command = [o.graft, "bench", f"{o.networks}/{name}.onnx", "--train", "full", "--batch", str(o.batch), "--threads", str(o.threads), "--rounds", str(o.steps),
               "--device", "cpu", "--precision", precision, "--json", "-q"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {"times": told["latency_ms"], "rss_mb": told["rss_mb"]}


def torch_apart(o, name, precision, channels_last):
    command = [sys.executable, __file__, "--worker", json.dumps([name, o.batch, o.threads, precision, channels_last, o.steps])]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", default=["resnet18", "mobilenet_v2", "squeezenet1_1", "lenet"])
    p.add_argument("--graft"), p.add_argument("--networks"), p.add_argument("--json"), p.add_argument("--worker")
    p.add_argument("--batch", type=int, default=16), p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3), p.add_argument("--steps", type=int, default=6), p.add_argument("--contiguous", action="store_true")
    o = p.parse_args()
    if o.worker:
        return print(json.dumps(torch_step(*json.loads(o.worker))))
    print(f"{'network':16} {'precision':10} {'graft ms':>9} {'least':>9} {'PyTorch ms':>10} {'least':>9} {'ratio':>6} {'least':>6} {'graft MB':>9} {'PyTorch MB':>10}")
    for name in o.names:
        runs = {}
        for _ in range(o.rounds):
            for precision in ("float32", "bfloat16"):
                runs.setdefault((precision, "graft"), []).append(graft_step(o, name, precision))
                for channels_last in (True, False) if o.contiguous else (True,):
                    runs.setdefault((precision, f"torch {channels_last}"), []).append(torch_apart(o, name, precision, channels_last))
        for precision in ("float32", "bfloat16"):
            def figures(side):
                each = runs[precision, side]
                return statistics.median(statistics.median(r["times"]) for r in each), min(min(r["times"]) for r in each), max(r["rss_mb"] for r in each)
            ours, rival = figures("graft"), min(figures(side) for of, side in runs if of == precision and side != "graft")
            print(f"{name:16} {precision:10} {ours[0]:9.2f} {ours[1]:9.2f} {rival[0]:10.2f} {rival[1]:9.2f} {rival[0] / ours[0]:6.2f} {rival[1] / ours[1]:6.2f} "
                  f"{ours[2]:9.0f} {rival[2]:10.0f}", flush=True)
            if o.json:
                with open(o.json, "a") as f:
                    f.write(json.dumps({"network": name, "precision": precision, "runs": {side: r for (of, side), r in runs.items() if of == precision}}) + "\n")


if __name__ == "__main__":
    main()
