#!/usr/bin/env python3
"""Speed of gloo's all_reduce among processes, measured as bench/collectives.cpp measures graft's and MPI's: medians over rounds.

    PYTHON bench/allreduce_gloo.py [--processes 2] [--bytes 10000,1000000,100000000] [--rounds 21] [--json]

PYTHON needs torch. Each process has one thread; sums are taken in place, over the loopback interface, which is what PyTorch's
DistributedDataParallel does with gloo on one host. A round is a barrier and some calls in a row; it counts what the slowest process needed.
`bench/scaling --allreduce FILE` takes the JSON.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import sys
import tempfile
import time


def calls_of(size):
    """As many calls a round as bench/collectives.cpp makes."""
    return 500 if size <= 10_000 else 100 if size <= 100_000 else 20 if size <= 1_000_000 else 3 if size <= 10_000_000 else 1


def member(rank, o, folder):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=o.processes)
    rows = []
    for size in o.bytes:
        count = size // 4
        sums = torch.full((count,), rank + 1.0)
        dist.all_reduce(sums)
        if not bool((sums == o.processes * (o.processes + 1) / 2).all()):
            raise SystemExit(f"allreduce_gloo: wrong sums of {size} bytes")
        array, calls, took = torch.zeros(count), calls_of(size), []  # zeros stay what they are, however often they are added up
        for n in range(-2, o.rounds):
            dist.barrier()
            began = time.perf_counter()
            for _ in range(calls):
                dist.all_reduce(array)
            own = torch.tensor([(time.perf_counter() - began) / calls * 1e6], dtype=torch.float64)
            dist.all_reduce(own, op=dist.ReduceOp.MAX)
            if n >= 0:
                took.append(own.item())
        quarters = statistics.quantiles(took, n=4, method="inclusive") if len(took) > 1 else took * 3
        rows.append({"bytes": count * 4, "us": statistics.median(took), "quartiles_us": [quarters[0], quarters[2]], "least_us": min(took)})
        if rank == 0 and not o.json:
            r = rows[-1]
            print(f"| {r['bytes']} | {r['us']:.1f} | {quarters[0]:.1f} - {quarters[2]:.1f} | {r['bytes'] / r['us'] / 1e3:.2f} |", flush=True)
    if rank == 0 and o.json:
        print(json.dumps({"what": "gloo all_reduce, float32, in place", "devices": o.processes, "rounds": o.rounds, "torch": torch.__version__.split("+")[0],
                          "machine": machine(), "rows": rows}))
    dist.destroy_process_group()


def machine():
    found = [line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return f"{found[0] if found else platform.machine()}, {os.cpu_count()} CPUs"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--bytes", default="10000,1000000,100000000", help="sizes of the arrays")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    o = parser.parse_args()
    o.bytes = [int(size) for size in o.bytes.split(",")]
    if o.processes < 1 or o.rounds < 1 or min(o.bytes) < 4:
        parser.error("a process, a round and 4 bytes are the least")
    try:
        import torch
        import torch.multiprocessing as processes
    except ImportError as e:
        raise SystemExit(f"allreduce_gloo: {sys.executable}: {e}; run it by an interpreter that has torch") from e
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if not o.json:
        print(f"gloo of PyTorch {torch.__version__.split('+')[0]}; {machine()}; {time.strftime('%-d %B %Y')}")
        print(f"{o.processes} processes of one thread, {o.rounds} rounds, medians (and quartiles), microseconds a call\n")
        print("| bytes | gloo all_reduce | quartiles | GB/s of the array |\n| ---: | ---: | ---: | ---: |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(member, (o, folder), nprocs=o.processes)


if __name__ == "__main__":
    main()
