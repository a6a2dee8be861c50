#!/usr/bin/env python3
"""What onnx.checker and ONNX Runtime agree on and graft does not: bent copies of ONNX's node tests and of whole networks.

    tests/conformance/refusals.py FOLDER... --graft GRAFT [--count 20000] [--seed 1] [--only OPERATOR] [--details FILE]

FOLDER: tests written out (<test>/model.onnx beside test_data_set_0), and networks (other .onnx files of at most --largest MB), which are given random
inputs. Each mutant has one field bent: an attribute (given, or left to its default), an input or output of a node, the type or shape of an input, a
constant, an operator, a body, or what stands around the nodes. The checker runs with full_check; ONNX Runtime loads and runs, in a process that is
started again when a mutant ends it; graft runs on the same inputs. Tests that graft refuses unbent, or takes long for, are left out, and so is what
ONNX Runtime only lacks a kernel for.

One line for each operator and kind of mutation: what graft alone accepts, then what graft alone refuses. docs/ops.md says what is accepted on
purpose. --details writes one JSON object for each such mutant, and the mutants beside it. Needs numpy, onnx and onnxruntime."""
import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from refusals_bend import BENT, bend, nodes_of

SECONDS, MEGABYTES = 10, 4000  # for one mutant in one engine
NEWEST_IR = 13  # that ONNX Runtime reads
os.environ["ALLOW_RELEASED_ONNX_OPSET_ONLY"] = "0"
np.seterr(all="ignore")


def checker_refuses(m):
    try:
        onnx.checker.check_model(m, full_check=True)
        return ""
    except Exception as e:
        return str(e).strip()[:400] or "refused"


def runtime_refuses(m, given):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, given)
        return ""
    except Exception as e:
        lacks = "NotImplemented" in type(e).__name__ or any(text in str(e) for text in ("NOT_IMPLEMENTED", "No Op registered"))
        return "lacks a kernel" if lacks else str(e).strip()[:400] or "refused"


def declare_outputs(m):
    """Outputs whose shape may be true no longer get the one that ONNX infers; where it infers none, any does."""
    bent = [v for v in m.graph.output if v.doc_string == BENT and v.type.HasField("tensor_type")]
    told = onnx.ModelProto()
    told.CopyFrom(m)
    for v in told.graph.output:
        v.type.tensor_type.ClearField("shape")
    inferred = {v.name: v.type.tensor_type for v in onnx.shape_inference.infer_shapes(told).graph.output}
    for v in bent:
        if inferred[v.name].HasField("shape"):
            v.type.tensor_type.shape.CopyFrom(inferred[v.name].shape)


def judge(pipe):
    """In a process of its own: mutants make the others crash, and hang."""
    onnxruntime.set_default_logger_severity(4)
    resource.setrlimit(resource.RLIMIT_AS, (MEGABYTES << 20,) * 2)
    while True:
        data, given = pipe.recv()
        m = onnx.load_from_string(data)
        try:
            declare_outputs(m)
        except Exception:
            pass
        pipe.send(checker_refuses(m))
        pipe.send(runtime_refuses(m, given))


class Judge:
    worker = None

    def ask(self, m, given):
        if self.worker is None:
            self.pipe, theirs = multiprocessing.Pipe()
            self.worker = multiprocessing.Process(target=judge, args=(theirs,), daemon=True)
            self.worker.start()
            theirs.close()
        answers = []
        try:
            self.pipe.send((m.SerializeToString(), given))
            while len(answers) < 2:
                if not self.pipe.poll(SECONDS):
                    raise EOFError
                answers.append(self.pipe.recv())
        except (EOFError, OSError):
            self.worker.kill()
            self.worker.join()
            self.worker = None
        return (answers + ["crashed or hung"] * 2)[:2]


def graft_runs(program, m, given, tmp):
    """The exit status, and the error."""
    (tmp / "m.onnx").write_bytes(m.SerializeToString())
    words = ["prlimit", f"--as={MEGABYTES << 20}", program, "run", str(tmp / "m.onnx"), "--output-dir", str(tmp / "out"), "-q", "--threads", "1"]
    for i, (name, array) in enumerate(given.items()):
        np.save(tmp / f"{i}.npy", array)
        words += ["--input", f"{name}={tmp / f'{i}.npy'}"]
    try:
        ended = subprocess.run(words, capture_output=True, timeout=SECONDS)
        return ended.returncode, ended.stderr.decode(errors="replace").strip()[:400]
    except subprocess.TimeoutExpired:
        return f"more than {SECONDS} s", ""


def recorded(folder, model):
    """The inputs that stand beside a test; None where they are no tensors of numbers."""
    given = {}
    for i, v in enumerate(model.graph.input):
        file = folder / f"input_{i}.pb"
        if not file.exists() or not v.type.HasField("tensor_type"):
            return None
        given[v.name] = numpy_helper.to_array(onnx.load_tensor(file))
    return None if any(a.dtype == object for a in given.values()) else given


def drawn(model):
    constants = {t.name for t in model.graph.initializer}
    dice = np.random.default_rng(1)
    given = {}
    for v in model.graph.input:
        if v.name in constants:
            continue
        t = v.type.tensor_type
        extents = [d.dim_value or 1 for d in t.shape.dim]
        given[v.name] = dice.uniform(0, 2, extents).astype(onnx.helper.tensor_dtype_to_np_dtype(t.elem_type))
    return given


def read_tests(folders, only, largest):
    """(name, model, inputs) by operator; networks stand under a name of their own."""
    tests = collections.defaultdict(list)
    for folder in folders:
        for file in sorted(folder.rglob("*.onnx")):
            data = file.parent / "test_data_set_0"
            if not data.is_dir() and file.stat().st_size > largest << 20:
                continue
            model = onnx.load(file)
            model.ir_version = min(model.ir_version, NEWEST_IR)
            if any(o.domain not in ("", "ai.onnx") for o in model.opset_import) or (only and all(n.op_type != only for n in nodes_of(model.graph))):
                continue
            try:
                given = recorded(data, model) if data.is_dir() else drawn(model)
            except TypeError:  # no tensor, or of an element type that numpy has not
                continue
            if given is not None:
                for op in {n.op_type for n in nodes_of(model.graph)} if data.is_dir() else ["networks"]:
                    tests[op].append((file.parent.name if data.is_dir() else file.stem, model, given))
    return tests


def embed(m, given):
    """Inputs of element types that .npy files have not become constants."""
    for name in [n for n, a in given.items() if a.dtype.kind == "V" or a.dtype.name not in np.sctypeDict]:
        m.graph.initializer.append(numpy_helper.from_array(given.pop(name), name))


def table(title, found):
    print(title)
    for (op, what), cases in sorted(found.items(), key=lambda c: (c[0][1], c[0][0])):
        why = (cases[0]["why"] or f"ended with {cases[0]['code']}").splitlines()[0]
        print(f"  {op:26} {what:44} {len(cases):5}  {cases[0]['test']}: {why[:150]}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("folders", nargs="+", type=pathlib.Path)
    ap.add_argument("--graft", default="build/release/graft")
    ap.add_argument("--count", type=int, default=20000)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--only", default="")
    ap.add_argument("--largest", type=int, default=1, help="MB of a network's file")
    ap.add_argument("--details", type=pathlib.Path)
    a = ap.parse_args()
    dice = random.Random(a.seed)
    tests = read_tests(a.folders, a.only, a.largest)
    operators = sorted(tests)
    # One mutant in eight is a network's.
    shares = [len(operators) / 8 if op == "networks" else 1 for op in operators]
    count = collections.Counter()
    too_much, too_little, odd = collections.defaultdict(list), collections.defaultdict(list), []
    judged, fine = Judge(), {}
    if a.details:
        a.details.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as t:
        tmp = pathlib.Path(t)
        while count["made"] < a.count:
            op = dice.choices(operators, shares)[0]
            name, model, arrays = dice.choice(tests[op])
            given = dict(arrays)
            m = onnx.ModelProto()
            m.CopyFrom(model)
            other = dice.choice(tests[dice.choice(operators)])[1]
            try:
                what = bend(m, given, other, dice)
            except (ValueError, TypeError, OverflowError):  # a value that its field cannot hold
                continue
            if not what:
                continue
            if name not in fine:
                started = time.monotonic()
                fine[name] = graft_runs(a.graft, model, dict(arrays), tmp)[0] == 0 and time.monotonic() - started < SECONDS / 5
            if not fine[name]:
                continue
            embed(m, given)
            count["made"] += 1
            by_checker, by_runtime = judged.ask(m, given)
            lacks = by_runtime == "lacks a kernel"
            if lacks or bool(by_checker) != bool(by_runtime):
                count["not judged alike by the others"] += 1
                continue
            count["refused by both" if by_checker else "run by both"] += 1
            code, error = graft_runs(a.graft, m, given, tmp)
            if code not in (0, 1):
                odd.append((name, what, code))
                continue
            if (code == 0) != bool(by_checker):
                continue
            case = {"test": name, "operator": op, "what": what, "code": code, "why": by_checker or error, "runtime": by_runtime, "mutant": count["made"]}
            (too_much if by_checker else too_little)[(op, what)].append(case)
            if a.details:
                (a.details / f"{a.seed}-{count['made']}.onnx").write_bytes(m.SerializeToString())
                with open(a.details / f"{a.seed}.jsonl", "a") as file:
                    file.write(json.dumps(case) + "\n")
    table("graft alone accepts:", too_much)
    table("graft alone refuses:", too_little)
    for case in odd:
        print("graft ended oddly:", *case)
    print(f"{len({t[0] for made in tests.values() for t in made})} tests and networks; " + ", ".join(f"{n} {what}" for what, n in count.items())
          + f"; {sum(map(len, too_much.values()))} accepted by graft alone, {sum(map(len, too_little.values()))} refused by graft alone, {len(odd)} ended oddly")
    sys.exit(1 if odd else 0)


if __name__ == "__main__":
    main()
