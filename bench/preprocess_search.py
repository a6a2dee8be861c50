#!/usr/bin/env python3
"""Which preprocessing graft finetune finds for networks that do not say theirs, beside the one they were trained with.

    preprocess_search.py --graft GRAFT MODEL.onnx=DATASET=NAME...     NAME: imagenet, unit, signed, raw or caffe; DATASET as small_sets.py makes them

Prints a row for each: the name that is right, whether it was found, and the sentence that graft says about it."""
import argparse
import json
import os
import subprocess
import tempfile

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("cases", nargs="+")
parser.add_argument("--graft", default="graft")
a = parser.parse_args()


def preprocessing(model, options):
    with tempfile.TemporaryDirectory() as out:
        command = [a.graft, "finetune", *options, "--from", model, "--freeze", "trunk", "--epochs", "1", "--out", out, "--json", "-q"]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


right = 0
print("| network | trained with | found | what is said |\n| --- | --- | --- | --- |", flush=True)
for case in a.cases:
    model, data, name = case.rsplit("=", 2)
    found, wanted = preprocessing(model, [data]), preprocessing(model, [data, "--preprocess", name])
    said = [n for n in found["notes"] if "prepared" in n]
    right += found["preprocess"] == wanted["preprocess"]
    print(f"| {os.path.basename(model)} | {name} | {'yes' if found['preprocess'] == wanted['preprocess'] else 'no'} | {said[0].replace('; --preprocess SPEC says otherwise', '') if said else ''} |", flush=True)
print(f"\n{right} of {len(a.cases)} right")
