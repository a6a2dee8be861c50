#!/usr/bin/env python3
"""What classifiers answer in bfloat16 beside float32: the same pictures in both, by `graft classify`.

  bfloat16.py [--graft GRAFT] --pictures FOLDER... NETWORK.onnx...

"agreement" is the share of pictures whose top-1 is the same; "probability" the largest difference of what float32's top-1 gets. Where the machine has no
products of bfloat16, a build with tests computes the same bits by GRAFT_EMULATED_PRODUCTS=amx or =avx512_bf16, slowly."""
import argparse
import json
import pathlib
import subprocess
import sys


def answers(graft, network, pictures, precision):
    command = [graft, "classify", network, *pictures, "--json", "-q", "--top", "1000", "--precision", precision, "--device", "cpu"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        return run.stderr.strip().splitlines()[-1] if run.stderr.strip() else f"exit status {run.returncode}"
    return [{t["index"]: t["probability"] for t in r["top"]} for r in json.loads(run.stdout)["results"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--graft", default="graft")
    parser.add_argument("--pictures", nargs="+", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    kinds = {".jpg", ".jpeg", ".png", ".bmp"}
    pictures = sorted(str(p) for folder in arguments.pictures for p in folder.rglob("*") if p.suffix.lower() in kinds)
    total = same = 0
    print(f"{'network':<44}{'pictures':>9}{'agreement':>11}{'probability':>13}")
    for network in arguments.networks:
        wide, narrow = (answers(arguments.graft, network, pictures, precision) for precision in ("float32", "bfloat16"))
        if isinstance(wide, str) or isinstance(narrow, str):
            print(f"{pathlib.Path(network).stem[:43]:<44}  {wide if isinstance(wide, str) else narrow}")
            continue
        agree, worst = 0, 0.0
        for a, b in zip(wide, narrow):
            first = max(a, key=a.get)
            agree += first == max(b, key=b.get)
            worst = max(worst, abs(a[first] - b.get(first, 0)))
        total, same = total + len(wide), same + agree
        print(f"{pathlib.Path(network).stem[:43]:<44}{len(wide):>9}{agree / len(wide):>10.1%} {worst:>12.4f}", flush=True)
    if total:
        print(f"{'all':<44}{total:>9}{same / total:>10.1%}")
    sys.exit(not total)


if __name__ == "__main__":
    main()
