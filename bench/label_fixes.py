#!/usr/bin/env python3
"""What `graft finetune` and `graft fix` make of wrong labels: a known share of photos gets another class, and what is proposed is held against that.

    bench/label_fixes.py DATA MODEL [--share 0.05] [--seeds 1 2] [--epochs 8] [--work FOLDER] [--options "--freeze trunk"]

DATA is an image folder with train/ and val/, which is copied. In the copy the share of the photos of each part, drawn by the seed, moves to another class, drawn too.
The score is that of the model on the untouched val/ of DATA, so that the figures before and after are of the same photos with the right labels. GRAFT names the program.
"""
import argparse
import csv
import json
import os
import pathlib
import random
import shlex
import shutil
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GRAFT = os.environ.get("GRAFT", str(ROOT / "build/release/graft"))


def graft(*arguments, accept=(0,)):
    done = subprocess.run([GRAFT, *map(str, arguments), "--quiet", "--json"], capture_output=True, text=True)
    if done.returncode not in accept:
        raise SystemExit(f"graft {arguments}: {done.stderr}")
    return json.loads(done.stdout)


def swap_labels(data, share, seed):
    """Moves a share of each part's photos to another class; returns where they are now and the class that they came from."""
    draw, wrong = random.Random(seed), {}
    for part in ("train", "val"):
        classes = sorted(p.name for p in (data / part).iterdir())
        photos = sorted(p for p in (data / part).glob("*/*"))
        for photo in sorted(draw.sample(photos, round(share * len(photos)))):
            label = photo.parent.name
            other = draw.choice([c for c in classes if c != label])
            moved = data / part / other / photo.name
            assert not moved.exists()
            photo.rename(moved)
            wrong[f"{part}/{other}/{photo.name}"] = label
    return wrong


def judge(rows, wrong):
    """Of rows that propose a move: how many are of photos whose label was swapped, and how many go back to the right class."""
    of_wrong = sum(r["path"] in wrong for r in rows)
    right = sum(wrong.get(r["path"]) == r["to"] for r in rows)
    return len(rows), of_wrong, right


def trial(o, seed, folder):
    data = folder / "photos"
    shutil.copytree(o.data, data)
    wrong = swap_labels(data, o.share, seed)
    tune = lambda out: graft("finetune", data, "--from", o.model, "--out", folder / out, "--epochs", o.epochs, "--seed", seed, "--threads", o.threads, *o.options)
    score = lambda run: graft("evaluate", folder / run / "model.onnx", o.data / "val", "--threads", o.threads)["top1"]
    began = time.monotonic()
    tune("before")
    seconds = time.monotonic() - began
    fixes = folder / "before/fixes.csv"
    rows = [r for r in csv.DictReader(fixes.open()) if r["reason"] == "mislabelled"]
    parts = {part: judge([r for r in rows if r["path"].startswith(f"{part}/")], wrong) + (sum(p.startswith(f"{part}/") for p in wrong),) for part in ("train", "val")}
    done = graft("fix", fixes, "--only", "mislabelled")
    before = score("before")
    tune("after")
    after = score("after")
    left = sum((data / path).exists() for path in wrong)
    graft("fix", fixes, "--undo")
    restored = all((data / path).exists() for path in wrong)
    return {"seed": seed, "swapped": len(wrong), "parts": parts, "moved": done["counts"]["moved"], "left": left, "before": before, "after": after, "seconds": seconds,
            "restored": restored}


def clean(o, seed, folder):
    graft("finetune", o.data, "--from", o.model, "--out", folder / "clean", "--epochs", o.epochs, "--seed", seed, "--threads", o.threads, *o.options)
    rows = [r for r in csv.DictReader((folder / "clean/fixes.csv").open()) if r["reason"] == "mislabelled"]
    return graft("evaluate", folder / "clean/model.onnx", o.data / "val", "--threads", o.threads)["top1"], len(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path), parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--share", type=float, default=0.05), parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--epochs", type=int, default=8), parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--work", type=pathlib.Path), parser.add_argument("--options", type=shlex.split, default=[], help="of finetune")
    o = parser.parse_args()
    print("| seed | part | swapped | proposed | of swapped photos | to the right class | precision | recall |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    lines = []
    for seed in o.seeds:
        with tempfile.TemporaryDirectory(dir=o.work) as name:
            t = trial(o, seed, pathlib.Path(name))
            for part, (proposed, of_wrong, right, swapped) in t["parts"].items():
                share = lambda n, of: f"{n / of:.2f}" if of else "-"
                print(f"| {seed} | {part} | {swapped} | {proposed} | {of_wrong} | {right} | {share(of_wrong, proposed)} | {share(of_wrong, swapped)} |", flush=True)
            top1, on_clean = clean(o, seed, pathlib.Path(name))
            lines.append(f"| {seed} | {t['swapped']} | {t['moved']} | {t['left']} | {100 * t['before']:.1f} % | {100 * t['after']:.1f} % | {100 * top1:.1f} % | {on_clean} | "
                         f"{t['seconds']:.0f} s | {'yes' if t['restored'] else 'NO'} |")
    print("\n| seed | swapped | moved by fix | swapped photos left | top-1 before | after | with clean labels | proposed there | one run | undo restored all |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
