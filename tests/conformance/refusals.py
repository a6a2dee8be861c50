#!/usr/bin/env python3
"""What onnx.checker and ONNX Runtime both refuse and graft runs: mutants of ONNX's node tests, field by field.

    tests/conformance/refusals.py FOLDER --graft GRAFT [--count 20000] [--seed 1] [--only OPERATOR]

FOLDER holds ONNX's node tests written out (node/<test>/model.onnx and test_data_set_0). Each mutant has one field of a test bent: an attribute, an
input or output of the node, the type of an input, the operator or the opset. The checker runs with full_check; ONNX Runtime loads and runs; graft
runs with the test's inputs. What ONNX Runtime only lacks a kernel for counts as accepted. One line for each operator and kind of mutation that is
accepted by graft alone, with an example; docs/ops.md says what is accepted on purpose.
Needs numpy, onnx and onnxruntime."""
import argparse
import collections
import copy
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import AttributeProto, TensorProto, numpy_helper

onnxruntime.set_default_logger_severity(4)
np.seterr(all="ignore")
WHOLE = [-1, -2, 0, 1, 3, 7, 2**31, -(2**31), 2**62]


def bend(model, other, dice):
    """Bends one field of a copy; gives it and what was done, or None."""
    m = copy.deepcopy(model)
    node = dice.choice(m.graph.node)
    kind = dice.choice(["attribute"] * 6 + ["input", "output", "type", "operator", "opset"])
    if kind == "attribute":
        if not node.attribute or dice.random() < 0.05:
            a = node.attribute.add()
            a.name, a.type, a.i = "bogus", AttributeProto.INT, 1
            return m, "an unknown attribute"
        a = dice.choice(node.attribute)
        what = f"attribute {a.name}"
        how = dice.randrange(8)
        if how == 0:
            node.attribute.remove(a)
            return m, what + " left out"
        if how == 1:
            a.type = dice.choice([t for t in (AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.STRING, AttributeProto.INTS) if t != a.type])
            return m, what + " of another type"
        if a.type == AttributeProto.INT:
            a.i = dice.choice(WHOLE)
        elif a.type == AttributeProto.INTS and a.ints:
            at = dice.randrange(len(a.ints))
            if how == 2:
                del a.ints[at]
                return m, what + " shorter"
            if how == 3:
                a.ints.append(a.ints[at])
                return m, what + " longer"
            a.ints[at] = dice.choice(WHOLE)
        elif a.type == AttributeProto.FLOAT:
            a.f = dice.choice([float("nan"), float("inf"), -1.0, 0.0, 2.0])
        elif a.type == AttributeProto.STRING:
            a.s = b"bogus"
        else:
            return None
        return m, what
    if kind == "input" and node.input:
        how = dice.randrange(4)
        at = dice.randrange(len(node.input))
        if how == 0:
            del node.input[-1]
            return m, "an input left out"
        if how == 1:
            node.input.append(node.input[at])
            return m, "an input too many"
        if how == 2:
            node.input[at] = ""
            return m, f"input {at} empty"
        node.input[at] = dice.choice(node.input)
        return m, f"input {at} taken from another place"
    if kind == "output":
        node.output.append("bogus")
        return m, "an output too many"
    if kind == "type" and m.graph.input:
        v = dice.choice(m.graph.input)
        if not v.type.HasField("tensor_type"):
            return None
        v.type.tensor_type.elem_type = dice.choice([TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8, TensorProto.BOOL, TensorProto.FLOAT16])
        return m, f"input {v.name} of another type"
    if kind == "operator":
        node.op_type = dice.choice(other.graph.node).op_type
        return m, "another operator"
    if kind == "opset":
        m.opset_import[0].version = dice.randrange(1, 24)
        return m, "another opset"
    return None


def inputs_of(model, folder):
    found = {}
    for i, v in enumerate(model.graph.input):
        file = folder / "test_data_set_0" / f"input_{i}.pb"
        if not file.exists() or not v.type.HasField("tensor_type"):
            return None
        t = TensorProto()
        t.ParseFromString(file.read_bytes())
        array = numpy_helper.to_array(t)
        wanted = onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type)
        found[v.name] = array if array.dtype == wanted or array.dtype == object else array.astype(wanted, casting="unsafe")
    return found


def checker_refuses(m):
    try:
        onnx.checker.check_model(m, full_check=True)
        return ""
    except Exception as e:
        return str(e).strip().splitlines()[0][:120] if str(e) else "refused"


def apart(function, *given):
    """What a function of this file gives back, in a process of its own: mutants make the others crash, and hang."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(20)
        os.write(write, b"=" + function(*given).encode()[:4000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return told[1:].decode(errors="replace") if told else "it crashed"


def runtime_refuses(m, given):
    try:
        s = onnxruntime.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
        s.run(None, given)
        return ""
    except Exception as e:
        return "" if "NOT_IMPLEMENTED" in str(e) or "NotImplemented" in type(e).__name__ else str(e)[:160]


def graft_runs(program, m, given, tmp):
    (tmp / "m.onnx").write_bytes(m.SerializeToString())
    words = [program, "run", str(tmp / "m.onnx"), "--output-dir", str(tmp / "out"), "-q"]
    for i, (name, array) in enumerate(given.items()):
        np.save(tmp / f"{i}.npy", array)
        words += ["--input", f"{name}={tmp / f'{i}.npy'}"]
    try:
        return subprocess.run(words, capture_output=True, timeout=20).returncode
    except subprocess.TimeoutExpired:
        return "more than 20 s"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("folder", type=pathlib.Path)
    ap.add_argument("--graft", default="build/release/graft")
    ap.add_argument("--count", type=int, default=20000)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--only", default="")
    a = ap.parse_args()
    dice = random.Random(a.seed)
    tests = []
    for folder in sorted(p.parent for p in a.folder.glob("node/*/model.onnx")):
        model = onnx.load(folder / "model.onnx")
        if a.only and all(n.op_type != a.only for n in model.graph.node):
            continue
        if any(o.domain not in ("", "ai.onnx") for o in model.opset_import):
            continue
        given = inputs_of(model, folder)
        if given is None or any(v.dtype == object or v.dtype.kind == "V" for v in given.values()):
            continue
        tests.append((folder, model))
    made = refused = 0
    found = collections.defaultdict(list)
    odd = []
    with tempfile.TemporaryDirectory() as t:
        tmp = pathlib.Path(t)
        while made < a.count:
            folder, model = dice.choice(tests)
            bent = bend(model, dice.choice(tests)[1], dice)
            if not bent:
                continue
            m, what = bent
            made += 1
            by_checker = apart(checker_refuses, m)
            if not by_checker:
                continue
            try:
                given = inputs_of(m, folder)
            except Exception:
                continue
            by_runtime = apart(runtime_refuses, m, given)
            if not by_runtime:
                continue
            refused += 1
            code = graft_runs(a.graft, m, given, tmp)
            if code == 0:
                found[(m.graph.node[0].op_type, what)].append((folder.name, by_checker))
            elif code != 1:
                odd.append((folder.name, what, code))
    for (op, what), cases in sorted(found.items()):
        print(f"{op:28} {what:40} {len(cases):4}  {cases[0][0]}: {cases[0][1]}")
    for case in odd:
        print("ended oddly:", *case)
    print(f"{made} mutants of {len(tests)} tests, {refused} refused by both, {sum(map(len, found.values()))} of them run by graft, {len(odd)} ended oddly")
    sys.exit(1 if odd else 0)


if __name__ == "__main__":
    main()
