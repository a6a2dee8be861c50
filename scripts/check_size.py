#!/usr/bin/env python3
"""Prints how long the files are, and exits 1 if one is past 600 lines (recorded ones aside: those whose names have `golden` in them)."""
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("include", "apps", "bindings", "tests", "examples", "bench", "fuzz", "scripts", "cmake")
ENDINGS = {".hpp", ".h", ".inl", ".cpp", ".c", ".rs", ".py", ".cmake", ".sh", ""}


def main():
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    lengths = {}
    for name in filter(None, names):
        path = ROOT / name
        if path.is_file() and path.suffix in ENDINGS:
            lengths[name] = len(path.read_text(errors="replace").splitlines())
    by_folder = {}
    for name, lines in lengths.items():
        parts = name.split("/")
        by_folder.setdefault("/".join(parts[:3]) if parts[0] == "include" and len(parts) > 3 else parts[0], []).append(lines)
    print(f"{'folder':<24}{'files':>6}{'lines':>8}{'median':>8}{'longest':>9}")
    for folder, lines in sorted(by_folder.items()):
        print(f"{folder:<24}{len(lines):>6}{sum(lines):>8}{int(statistics.median(lines)):>8}{max(lines):>9}")
    long = {n: l for n, l in lengths.items() if l > 600 and "golden" not in n.rpartition("/")[2]}
    for name, lines in long.items():
        print(f"past 600 lines: {name} ({lines})")
    sys.exit(bool(long))


if __name__ == "__main__":
    main()
