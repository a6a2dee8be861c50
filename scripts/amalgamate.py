#!/usr/bin/env python3
"""Writes single_include/graft: each umbrella header with everything that it includes, in one file.

    scripts/amalgamate.py                writes the files
    scripts/amalgamate.py --check        exits 1 if the committed files are not what would be written
    scripts/amalgamate.py --to FOLDER    writes them elsewhere

graft.hpp comes first; train.hpp, gpu.hpp, quantize.hpp and profile.hpp hold what graft.hpp does not, and begin by including it. What several need is in each of them.
dist.hpp holds what train.hpp does not.

Rules, each enforced: a header is written once, at its first include; where that first include stands under a condition that a later
one does not have, it is written again there, and a guard keeps the compiler from seeing it twice. Texts (.inl) are written at
every include: those of kernels once for each instruction set, macros_begin and macros_end around each umbrella; `#include NAME`
stands for the text of the last `#define NAME "file.inl"`. Standard headers stay where they are, and none stands inside a target region or a
namespace, stb_image aside.
"""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include"
LOCAL = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
NAMED = re.compile(r'^#define (\w+) ("[^"]+\.inl")$')
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)")
STANDARD = re.compile(r"^\s*#\s*include\s+<")
REGION = re.compile(r"^\s*GRAFT_(BEGIN|END)_(TARGET|BASELINE|NAMESPACE)\b")
UMBRELLAS = {  # the first is what the others include
    "graft.hpp": "runs ONNX image models. One header; C++17; MIT licence (LICENSE in the project).",
    "train.hpp": "fine-tunes ONNX image models. Goes beside graft.hpp, which it includes; C++17; MIT licence (LICENSE in the project).",
    "gpu.hpp": "runs ONNX image models on NVIDIA GPUs. Goes beside graft.hpp, which it includes; C++17; MIT licence (LICENSE in the project).",
    "quantize.hpp": "quantises ONNX image models after training. Goes beside graft.hpp, which it includes; C++17; MIT licence (LICENSE in the project).",
    "profile.hpp": "tells where the time of ONNX image models goes. Goes beside graft.hpp, which it includes; C++17; MIT licence (LICENSE in the project).",
    "dist.hpp": "spreads training over replicas and devices. Goes beside train.hpp, which it includes; C++17; MIT licence (LICENSE in the project).",
}
BASED = {"dist.hpp": "train.hpp"}  # the others begin with the first


class Amalgamator:
    def __init__(self):
        self.contexts = {}  # header -> the sets of conditions that it was written under, in this file or what that includes
        self.shared = set()  # headers that several files hold
        self.texts = set()  # kernel texts that were written
        self.named = {}  # `#include NAME` -> the include that it stands for now
        self.lines = []

    def seen(self, path, context):
        return any(c <= context for c in self.contexts.get(path, []))

    def write(self, path, context):
        """Writes a file and what it includes, where the conditions in `context` hold."""
        name = path.relative_to(INCLUDE)
        guard = None
        if path.suffix == ".hpp":
            if self.seen(path, context):
                return
            self.contexts.setdefault(path, []).append(context)
            if context or len(self.contexts[path]) > 1 or path in self.shared:
                guard = "GRAFT_SINGLE_" + re.sub(r"\W", "_", str(name)).upper()
        else:
            self.texts.add(path)
        if guard:
            self.lines += [f"#ifndef {guard}", f"#define {guard}"]
        self.lines.append(f"// ---- {name}")
        stack = []
        for line in path.read_text().splitlines():
            if line.strip() == "#pragma once":
                continue
            condition = CONDITION.match(line)
            if condition:
                word, rest = condition.group(1), condition.group(2).split("//")[0].strip()
                if word == "endif":
                    if not stack:
                        sys.exit(f"amalgamate: {path}: #endif without #if")
                    stack.pop()
                elif word in ("elif", "else"):
                    stack[-1] = f"{word} {rest} of {stack[-1]}"
                else:
                    stack.append(f"{word} {rest}")
            if named := NAMED.match(line):
                self.named[f"#include {named.group(1)}"] = f"#include {named.group(2)}"
            local = LOCAL.match(self.named.get(line, line))
            if not local:
                self.lines.append(line)
                continue
            target = (path.parent / local.group(1)).resolve()
            if not target.is_file():
                sys.exit(f"amalgamate: {path}: no such file: {local.group(1)}")
            if target.parent == INCLUDE / "graft" and target.name in UMBRELLAS:
                if not self.seen(target, frozenset()):
                    sys.exit(f"amalgamate: {path}: {target.name} has to be written before it")
                if context or stack:
                    sys.exit(f"amalgamate: {path}: {target.name} is included under a condition")
                self.lines.append(line)
                continue
            self.write(target, context | frozenset(stack))
        if stack:
            sys.exit(f"amalgamate: {path}: unbalanced conditions")
        if guard:
            self.lines.append("#endif")


def check_regions(lines):
    """A standard header inside a region would put vector code into functions that the whole program shares."""
    inside = []
    for number, line in enumerate(lines, 1):
        region = REGION.match(line)
        if region and region.group(1) == "BEGIN":
            inside.append(region.group(2))
        elif region:
            if not inside or inside.pop() != region.group(2):
                sys.exit(f"amalgamate: line {number}: {line.strip()} closes what is not open")
        elif inside and STANDARD.match(line):
            sys.exit(f"amalgamate: line {number}: {line.strip()} stands inside {inside[-1]}")
    if inside:
        sys.exit(f"amalgamate: {inside[-1]} is never closed")


def version():
    text = (INCLUDE / "graft/version.hpp").read_text()
    return ".".join(re.search(rf"GRAFT_VERSION_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH"))


def amalgamate():
    """The text of each umbrella's file."""
    work, files, known = Amalgamator(), {}, {}

    def write(umbrella):
        work.lines = []
        work.write(INCLUDE / "graft" / umbrella, frozenset())
        check_regions(work.lines)
        head = [f"// graft {version()}: {UMBRELLAS[umbrella]}", "// Generated by scripts/amalgamate.py from include/graft; change that, not this.", "#pragma once", ""]
        files[umbrella] = "\n".join(head + work.lines) + "\n"

    first, *others = UMBRELLAS
    write(first)
    base = {p: list(contexts) for p, contexts in work.contexts.items()}
    holders = []
    for again in (False, True):
        for umbrella in others:
            below = known[BASED[umbrella]] if umbrella in BASED else base
            work.contexts = {p: list(contexts) for p, contexts in below.items()}
            write(umbrella)
            known[umbrella] = {p: list(contexts) for p, contexts in work.contexts.items()}
            if umbrella not in BASED:
                holders.append(set(work.contexts) - set(base))
        work.shared = {p for p in set.union(*holders) if sum(p in held for held in holders) > 1}
    unused = set(INCLUDE.rglob("*.inl")) - work.texts
    if unused:
        sys.exit("amalgamate: never included: " + ", ".join(str(p.relative_to(ROOT)) for p in sorted(unused)))
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the committed files instead of writing them")
    parser.add_argument("--to", type=pathlib.Path, default=ROOT / "single_include", help="the folder to write graft/*.hpp into")
    arguments = parser.parse_args()
    files = amalgamate()
    stale, done = [], []
    for umbrella, text in files.items():
        target = arguments.to / "graft" / umbrella
        done.append(f"{target.name}: {len(text.splitlines())} lines, {len(text) // 1024} KiB")
        if not arguments.check:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        elif not target.is_file() or target.read_text() != text:
            stale.append(umbrella)
    if stale:
        sys.exit(f"single_include/graft: {' and '.join(stale)} not up to date: run scripts/amalgamate.py")
    print(("up to date: " if arguments.check else "") + "; ".join(done))


if __name__ == "__main__":
    main()
