#!/usr/bin/env python3
"""Checks the house: includes point only towards the left of
    core <- tensor <- graph <- ops <- {io, passes} <- lower <- plan <- {cpu, gpu};  {io, plan} <- exec <- train <- dist
    data uses core and tensor only; neither plan nor exec knows a back end, and train knows the CPU alone
and every header is reached from an umbrella. Scoped enumerations have the width of int: g++ hands narrower ones over with what else the register held, and
clang reads the whole register, so that a program by the one and a library by the other would not agree. Prints each fault and exits 1."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent / "include/graft"
MAY_USE = {
    "core": set(),
    "tensor": {"core"},
    "graph": {"core", "tensor"},
    "ops": {"core", "tensor", "graph"},
    "io": {"core", "tensor", "graph", "ops"},
    "passes": {"core", "tensor", "graph", "ops"},
    "lower": {"core", "tensor", "graph", "ops", "passes"},
    "plan": {"core", "tensor", "graph", "ops", "passes", "lower"},
    "cpu": {"core", "tensor", "graph", "ops", "passes", "lower", "plan"},
    "gpu": {"core", "tensor", "graph", "ops", "passes", "lower", "plan"},
    "exec": {"core", "tensor", "graph", "ops", "passes", "lower", "plan", "io"},
    "data": {"core", "tensor"},
    "train": {"core", "tensor", "graph", "ops", "cpu", "io", "passes", "lower", "plan", "exec", "data"},
    "dist": {"core", "tensor", "graph", "ops", "lower", "train"},
}
TOP = {"config.hpp", "version.hpp", "fwd.hpp"}  # may be used by everything


def main():
    faults, reached = [], set()
    files = sorted(p for p in ROOT.rglob("*") if p.suffix in (".hpp", ".inl"))
    edges, declared = {}, {}  # all includes; those outside of bodies, which alone can make a circle
    named = {}  # `#include NAME` -> the includes that it stands for: one for each `#define NAME "file.inl"`
    for path in files:
        for name, text in re.findall(r'^#define (\w+) ("[^"]+\.inl")$', path.read_text(), re.M):
            named.setdefault(f"#include {name}", []).append(f"#include {text}")
    for path in files:
        bodies = False
        folder = path.relative_to(ROOT).parts[0] if path.parent != ROOT else ""
        lines = enumerate(path.read_text().splitlines(), 1)
        for number, line in ((n, include) for n, line in lines for include in named.get(line, [line])):
            bodies |= line.strip() == "#if GRAFT_HAS_BODIES"
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if narrow := re.match(r"\s*enum class \w+ : \S+", line):
                faults.append(f"{path.relative_to(ROOT)}:{number}: `{narrow.group().strip()}` has to have the width of int")
            if not match:
                continue
            target = (path.parent / match.group(1)).resolve()
            if not target.is_file():
                faults.append(f"{path.relative_to(ROOT)}:{number}: no such file {match.group(1)}")
                continue
            edges.setdefault(path, set()).add(target)
            if not bodies:
                declared.setdefault(path, set()).add(target)
            parts = target.relative_to(ROOT).parts
            other = parts[0] if len(parts) > 1 else ""
            if folder and other != folder and not (other == "" and parts[0] in TOP) and other not in MAY_USE.get(folder, set()):
                faults.append(f"{path.relative_to(ROOT)}:{number}: {folder} may not use {'/'.join(parts)}")
    # MPI's interface differs from vendor to vendor, and sockets bring the system's headers, so that no umbrella brings either.
    waiting = [p for p in files if p.parent == ROOT and p.name not in TOP] + [ROOT / "fwd.hpp", ROOT / "dist/mpi.hpp", ROOT / "dist/store.hpp"]
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            waiting += edges.get(path, ())
    for path in files:
        if path not in reached:
            faults.append(f"{path.relative_to(ROOT)}: no umbrella reaches it")
    colour = {}

    def circle(path, trail):
        colour[path] = 1
        for other in sorted(declared.get(path, ())):
            if colour.get(other) == 1:
                faults.append("circle: " + " -> ".join(str(p.relative_to(ROOT)) for p in trail[trail.index(other):] + [other]))
            elif other not in colour:
                circle(other, trail + [other])
        colour[path] = 2

    for path in files:
        if path not in colour:
            circle(path, [path])
    print("\n".join(faults) or f"{len(files)} headers, every include points left")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
