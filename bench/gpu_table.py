#!/usr/bin/env python3
"""Writes the tables of a run of bench/gpu: FOLDER/results.jsonl and stages.jsonl become FOLDER/gpu.md.

    bench/gpu_table.py FOLDER [--name NAME] [--networks networks.json] [--check-here]
"""
import argparse
import json
import math
import os
import pathlib
import statistics

BYTES = {"float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2}
APART = {"float32": 1e-3, "tf32": 2e-2, "float16": 2e-2, "bfloat16": 2e-1}  # answers of two engines further apart are named


class Table:
    def __init__(self, *heads):
        self.heads, self.rows = heads, []

    def add(self, *cells):
        self.rows.append([str(c) for c in cells])

    def __str__(self):
        numbers = [bool(self.rows) and all(r[i].replace(".", "").replace("-", "").replace("e", "").replace("%", "").strip().isdigit() or not r[i] for r in self.rows)
                   for i in range(len(self.heads))]
        head = ["| " + " | ".join(self.heads) + " |", "| " + " | ".join("---:" if n else "---" for n in numbers) + " |"]
        return "\n".join(head + ["| " + " | ".join(r).replace("\n", " ") + " |" for r in self.rows])


def geometric(values):
    return math.exp(statistics.fmean(math.log(v) for v in values))


def number(v, digits=3):
    return "" if v is None else f"{v:.{digits}f}" if isinstance(v, float) else str(v)


def fraction(v):
    return f"{v:.1e}" if isinstance(v, (int, float)) else str(v)


def read(path):
    """The lines of a file; one that is cut, by a program that was stopped while it wrote, is a failure."""
    lines = []
    for text in path.read_text().splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            lines.append({"kind": "failure", "why": "a line was cut: " + text[:80]})
    return lines


def of(lines, kind, **wanted):
    return [l for l in lines if l["kind"] == kind and all(l.get(k) == v for k, v in wanted.items())]


def floor_ms(rows, batch, precision, limits):
    """What the matrix operators need at the least: each limited by arithmetic or by memory, each array moved once."""
    if not rows or not limits or precision + "_tflops" not in limits:
        return None
    rate, bandwidth, size = limits[precision + "_tflops"] * 1e12, limits["copy_gbps"] * 1e9, BYTES[precision]
    return 1e3 * sum(max(2 * batch * macs / rate, size * (batch * activations + weights) / bandwidth) for macs, activations, weights in rows)


def checks(lines, say):
    tables = of(lines, "operators")
    if tables:
        t = Table("operators of", "precision", "problems", "on the device", "in part", "on the CPU", "worst error", "failures", "not run", "not comparable")
        for l in tables:
            t.add(l["table"], l["precision"], l["problems"], l["on_device"], l["in_part"], l["on_cpu"], fraction(l["worst"]), l["failures"], l["not_run"], l["not_comparable"])
        say("## Operators\n", "Each operator's test problems on the device, beside the reference kernels. Errors are relative to the largest number of the answer.\n", t, "")
    reasons = {}
    for l in of(lines, "refused"):
        reasons[l["precision"], l["why"]] = reasons.get((l["precision"], l["why"]), 0) + l["problems"]
    refused = sorted(reasons.items(), key=lambda r: -r[1])
    if refused:
        t = Table("precision", "problems", "why not on the device")
        for (precision, why), count in refused[:25]:
            t.add(precision, count, why)
        say(f"The reasons of refusals{', the most frequent 25' if len(refused) > 25 else ''}:\n", t, "")
    networks = of(lines, "network")
    if networks:
        t = Table("network", "precision", "batch", "error", "bound", "same class", "steps on the device", "on the CPU", "")
        for l in networks:
            t.add(l["network"], l["precision"], l["batch"], fraction(l["error"]), fraction(l["bound"]), f"{l['same_class']} of {l['batch']}", l["steps_on_device"], l["steps_on_cpu"], "" if l["ok"] else "FAILED")
        say("## Networks beside the CPU back end\n", t, "")
    steps = of(lines, "steps")
    if steps:
        t = Table("network", "precision", "steps", "first losses", "last losses", "the CPU's", "apart, 10 steps", "bound", "apart, all", "the CPU's own, all", "the same bits twice", "")
        for l in steps:
            t.add(l["network"], l["precision"], l["steps"], number(l["first_loss"]), number(l["last_loss"]), number(l["cpu_last_loss"]), fraction(l["error_10"]), fraction(l["bound_10"]), fraction(l["error_all"]),
                  fraction(l["cpu_spread_all"]), "yes" if l["repeats"] else "NO", "" if l["ok"] else "FAILED")
        say("## Training steps beside the CPU's\n", "\"The CPU's own\": how far its losses part where its sums have another order.\n", t, "")
    memory = of(lines, "memory") + of(lines, "returned") + of(lines, "threads")
    if memory:
        say("## Memory and threads\n")
        for l in memory:
            if l["kind"] == "memory":
                say(f"- {l['case']}: a batch of {l['batch']} {'is refused (' + l['why'] + ')' if l['refused'] else 'was NOT refused: ' + l['why']}; a small one after it {'works' if l['works_after'] else 'FAILS: ' + l['after']}")
            elif l["kind"] == "returned":
                say(f"- at the end {l['handed_out']} bytes are handed out, {l['reserved_after_trim']} kept after a trim; most at a time {l['peak']}")
            else:
                say(f"- a thread with a session of its own, {l['network']}: {l['runs']} runs, {l['wrong']} with other bits {l['why']}")
        say("")


def timings(lines, networks, say, short):
    limits = (of(lines, "limits") or [None])[0]
    cells = [c for c in of(lines, "cell") if "graft" in c.get("ms", {})]
    if limits:
        say("## The machine's limits, by PyTorch\n", ", ".join(f"{k} {v:.4g}" for k, v in limits.items() if k.endswith(("_gbps", "_tflops"))) +
            ". A copy on the device counts what is read and written; products are of 8192 x 8192.\n")
    titles = {"infer": "Inference, pictures brought over", "resident": "Inference, pictures on the device", "train": "Training steps"}
    for what, title in titles.items():
        chosen = [c for c in cells if c["what"] == what]
        if chosen:
            say(f"## {title}\n")
        for precision, batch in dict.fromkeys((c["precision"], c["batch"]) for c in chosen):
            t, ratios, eager = Table("network", "graft ms", "fastest PyTorch ms", "its mode", "ratio", "eager ratio", "images/s", "floor ms", "of the floor", "spread"), [], []
            for c in chosen:
                if (c["precision"], c["batch"]) != (precision, batch):
                    continue
                ms = c["ms"]["graft"]
                rivals = {k: v for k, v in c["ms"].items() if k != "graft"}
                least = floor_ms(networks.get(c["network"], {}).get("matrix"), batch, precision, limits) if what != "train" else None
                mode = min(rivals, key=rivals.get) if rivals else ""
                ratio = rivals[mode] / ms if rivals else None
                slow = [v for k, v in rivals.items() if k in ("amp", "whole")]
                if ratio:
                    ratios.append(ratio)
                    if ratio < 1:
                        short.append((ratio, f"{c['network']}, {what}, batch {batch}, {precision}: {ratio:.2f} of {mode}"))
                if slow:
                    eager.append(min(slow) / ms)
                t.add(c["network"], number(ms), number(rivals.get(mode)), mode, number(ratio, 2), number(min(slow) / ms if slow else None, 2), f"{1e3 * batch / ms:.0f}", number(least),
                      f"{100 * least / ms:.0f} %" if least else "", f"{100 * max(c['spread'].values()):.0f} %")
                for k, v in c.get("apart", {}).items():
                    if not v <= APART[precision]:
                        short.append((0, f"{c['network']}, {what}, batch {batch}, {precision}: the answers of graft and of PyTorch ({k}) are {v:.1e} apart"))
            means = f"Geometric mean {geometric(ratios):.2f}, worst {min(ratios):.2f}" + (f"; beside eager PyTorch {geometric(eager):.2f}" if eager else "") + "." if ratios else ""
            say(f"### {precision}, batch {batch}\n", t, "", means, "")
    memory = [c for c in cells if c.get("device_bytes", {}).get("graft")]
    if memory:
        t = Table("network", "what", "batch", "precision", "graft MB", "PyTorch MB, least")
        for c in memory:
            others = [v for k, v in c["device_bytes"].items() if k != "graft"]
            t.add(c["network"], c["what"], c["batch"], c["precision"], f"{c['device_bytes']['graft'] / 1e6:.0f}", f"{min(others) / 1e6:.0f}" if others else "")
        say("## Device memory\n", "graft: what its plan needs, weights included. PyTorch: the most that its allocator had handed out, from loading on.\n", t, "")
    starts = of(lines, "start")
    if starts:
        t = Table("network", "program", "kernels", "processes", "wall ms", "load ms", "first run ms")
        for key in dict.fromkeys((l["network"], l["program"], l["cold"]) for l in starts):
            same = [l for l in starts if (l["network"], l["program"], l["cold"]) == key]
            middle = [statistics.median(l[k] for l in same if k in l) if any(k in l for l in same) else None for k in ("wall_ms", "load_ms", "first_ms")]
            t.add(key[0], key[1], "" if key[1] == "torch" else "compiled" if key[2] else "kept", len(same), *(number(m, 0) for m in middle))
        say("## To the first prediction\n", "A process each, batch 1, from its start to its end; medians.\n", t, "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--name", default="")
    parser.add_argument("--networks", type=pathlib.Path)
    parser.add_argument("--check-here", action="store_true")
    a = parser.parse_args()
    lines, stages = (read(a.folder / name) for name in ("results.jsonl", "stages.jsonl"))
    networks = json.loads(a.networks.read_text()) if a.networks and a.networks.is_file() else {}
    out, short = [], []

    def say(*parts):
        out.extend(str(p) for p in parts)

    machine = (of(lines, "machine") or [{}])[0]
    say(f"# Inference and training on a GPU: {a.name}\n")
    if a.check_here:
        say("**Made by `bench/gpu --check-here`, on the CPU: it shows that the scripts work. None of its numbers is a measurement of anything.**\n")
    libraries = ", ".join(f"{k} {v}" for k, v in machine.items() if v and k in ("torch", "torchvision", "timm", "nvidia_cudnn_cu13", "nvidia_cublas", "nvidia_cuda_nvrtc"))
    say(f"{machine.get('date', '')} UTC. {machine.get('gpu') or machine.get('device', '')}; {machine.get('cpu', '')}, {machine.get('cores', '')} cores, Linux {machine.get('kernel', '')}; "
        f"{machine.get('compiler', '')} -O2; {libraries}. Made by `bench/gpu`; docs/gpu_benchmarks.md says how and what.\n"
        "Ratios are PyTorch / graft, above 1 where graft is faster.\n")
    at = len(out)
    checks(lines, say)
    timings(lines, networks, say, short)
    failures = [f"{l.get('stage', '')} {l.get('operator') or l.get('network') or l.get('part') or l.get('key') or ''} {l.get('precision', '')} {l.get('problem', '')}: {l.get('why', '')}" for l in of(lines, "failure")]
    failures += [f"{c['network']}, {c['what']}, batch {c['batch']}, {c['precision']}, {k}: {v}" for c in of(lines, "cell") for k, v in c.get("failures", {}).items()]
    failures += [f"{l['network']}, {l['precision']}: error {fraction(l['error'])}, the bound is {fraction(l['bound'])}" for l in of(lines, "network", ok=False)]
    failures += [f"training of {l['network']}, {l['precision']}" for l in of(lines, "steps", ok=False)]
    skipped = [" ".join(str(v) for k, v in l.items() if k not in ("kind", "stage")) for l in of(lines, "not_run")]
    text = ["## What fell short\n"]
    stopped = [f"{s['stage']} ({'not begun, no time was left' if s['exit'] == -1 else 'stopped after its time' if s['exit'] in (124, 137) else 'exit %d' % s['exit']})" for s in stages if s["exit"]]
    for title, items, most in (("Stages", stopped, 99), ("Failures", failures, 40), ("Slower than PyTorch, or apart from it, the worst first", [s for _, s in sorted(short)], 60), ("Not run", skipped, 40)):
        if items:
            text += [f"{title}: {len(items)}{f', the first {most}' if len(items) > most else ''}\n", *(f"- {i}" for i in items[:most]), ""]
    if len(text) == 1:
        text += ["Nothing.\n"]
    out[at:at] = text
    t = Table("stage", "seconds", "of", "exit")
    for s in stages:
        t.add(s["stage"], f"{s['seconds']:.1f}", s["budget"], s["exit"])
    say("## Stages\n", t)
    (a.folder / "gpu.md").write_text("\n".join(out).replace("\n\n\n", "\n\n").rstrip() + "\n")
    print(json.dumps({"kind": "table", "path": os.fspath(a.folder / "gpu.md"), "failures": len(failures), "slower": len(short)}))


if __name__ == "__main__":
    main()
