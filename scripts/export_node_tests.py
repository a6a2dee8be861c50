#!/usr/bin/env python3
"""Writes ONNX's backend tests into one file for tests/conformance/node_tests.cpp.

    scripts/export_node_tests.py [--out build/conformance/node_tests.bin] [--offline] [--source archives|package]

Two sources, the first one found: archives of the tests written out (the folder conformance/ of what GRAFT_SHARED names, or of ../shared),
which need nothing but this script; or the Python package onnx, which only has the generators: where it is not importable, a
virtual environment under build/conformance gets the newest (not with --offline). Without a source the script says so and ends with 3.

The file: the line "graft node tests 1", then for every test the strings set, name, label, reason to skip it ("": run it) and model,
the number of data sets, and for each the inputs and outputs as counts and TensorProtos. Numbers and lengths are u32, little-endian.
"""
import argparse, os, pathlib, re, struct, subprocess, sys, tarfile, warnings

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "conformance"
KINDS = {4: "sequence", 5: "map", 7: "opaque", 8: "sparse tensor", 9: "optional"}
ELEMENTS = {8: "string", 14: "complex64", 15: "complex128"}


def fields(data):
    """(number, value) of every field of a protobuf message; numbers of fixed width come as bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    while at < len(data):
        key = varint()
        wire = key & 7
        if wire == 0:
            yield key >> 3, varint()
            continue
        size = varint() if wire == 2 else {1: 8, 5: 4}[wire]
        yield key >> 3, data[at:at + size]
        at += size


def first(data, number, otherwise=b""):
    return next((v for n, v in fields(data) if n == number), otherwise)


def type_reason(type_proto):
    for number, part in fields(type_proto):
        if number in KINDS:
            return KINDS[number] + " type"
        if number == 1:
            return ELEMENTS.get(first(part, 1, 0), "") and ELEMENTS[first(part, 1, 0)] + " type"
    return ""


def walk(graph):
    """Every node of a graph and of the bodies in it, and every value with a type."""
    nodes, values = [], []
    for number, part in fields(graph):
        if number == 1:
            nodes.append((first(part, 4).decode(), first(part, 7).decode()))
            for n, attribute in fields(part):
                if n != 5:
                    continue
                for kind, body in fields(attribute):
                    if kind in (6, 11):
                        inner = walk(body)
                        nodes += inner[0]
                        values += inner[1]
        elif number in (11, 12, 13):
            values.append(first(part, 2))
    return nodes, values


def describe(model):
    """The operators of the model's own graph, and the reason to skip it."""
    graph = first(model, 7)
    nodes, values = walk(graph)
    for name, domain in nodes:
        if domain.startswith("ai.onnx.preview"):
            return [n for n, _ in nodes], "domain " + domain
        if domain == "ai.onnx.ml":
            return [n for n, _ in nodes], "domain ai.onnx.ml"
    for value in values:
        if reason := type_reason(value):
            return [n for n, _ in nodes], reason
    return [first(part, 4).decode() for number, part in fields(graph) if number == 1], ""


def light(model):
    """The input that onnx.backend.test gives its light models: float32 numbers 0/n, 1/n, 2/n ..."""
    graph = first(model, 7)
    given = {first(part, 8) for number, part in fields(graph) if number == 5}
    protos = []
    for number, part in fields(graph):
        if number != 11 or first(part, 1) in given:
            continue
        shape = first(first(first(part, 2), 1), 2)
        dims = [first(d, 1, 1) for n, d in fields(shape) if n == 1]
        count = 1
        for d in dims:
            count *= d
        raw = struct.pack(f"<{count}f", *(i / count for i in range(count)))
        protos.append(b"".join(b"\x08" + varint(d) for d in dims) + b"\x10\x01\x4a" + varint(len(raw)) + raw)
    return protos


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def written_out(kind, files):
    """The tests among (path, read) pairs: test_NAME/model.onnx with its data sets, and light_NAME.onnx with its outputs."""
    tests = {}
    for path, read in files:
        if alone := re.search(r"(?:^|/)(light_[^/]+?)(\.onnx|_output_\d+\.pb)$", path):
            file = "model.onnx" if alone[2] == ".onnx" else "test_data_set_0/" + alone[2][1:]
            tests.setdefault(alone[1], {})[file] = read()
        elif match := re.search(r"(?:^|/)(test_[^/]+)/(.+)$", path):
            tests.setdefault(match[1], {})[match[2]] = read()
    for name, held in tests.items():
        if "model.onnx" not in held:
            continue
        sets = []
        for folder in sorted({f.split("/")[0] for f in held if f.startswith("test_data_set")}):
            side = lambda what: [held[f"{folder}/{what}_{i}.pb"] for i in range(1000) if f"{folder}/{what}_{i}.pb" in held]
            sets.append((light(held["model.onnx"]) if kind == "light" else side("input"), side("output")))
        yield kind, name, held["model.onnx"], sets


def archives(folder):
    for path in sorted(folder.glob("*.tar*")):
        kind = re.sub(r"^onnx-[0-9.]+-|\.tar.*$", "", path.name)
        with tarfile.open(path) as tar:
            yield from written_out(kind, ((e.name, lambda e=e: tar.extractfile(e).read()) for e in tar if e.isfile()))


def package():
    """The node tests of the package onnx, made by their generators, and the models that lie beside them."""
    import numpy as np
    import onnx
    from onnx import numpy_helper
    from onnx.backend.test.case.node import collect_testcases

    def proto(value):
        if isinstance(value, onnx.TensorProto):
            return value.SerializeToString()
        if isinstance(value, (list, dict)) or value is None:
            return None
        array = np.asarray(value)
        try:
            return numpy_helper.from_array(array).SerializeToString()
        except Exception:
            return None

    warnings.simplefilter("ignore")  # of the generators' own arithmetic
    for case in collect_testcases():
        sets = [tuple([proto(v) for v in side] for side in pair) for pair in case.data_sets or []]
        yield "node-tests", case.name, case.model.SerializeToString(), sets
    data = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data"
    for kind in ("light", "simple", "pytorch-operator", "pytorch-converted"):
        yield from written_out(kind, ((p.as_posix(), p.read_bytes) for p in sorted((data / kind).rglob("*")) if p.is_file()))


def with_package(offline):
    """Runs this script again in an environment that has onnx; None where there is none."""
    python = FOLDER / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        if offline:
            return None
        print("making a Python environment with onnx in", FOLDER / "venv", flush=True)
        FOLDER.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run([sys.executable, "-m", "venv", FOLDER / "venv"], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", "onnx", "numpy"], check=True)
        except (subprocess.CalledProcessError, OSError) as problem:
            print(f"skipped: no environment with onnx: {problem}")
            return None
    return python


def write(out, tests):
    text = lambda b: struct.pack("<I", len(b)) + b
    label_of, count, skipped = {}, 0, {}
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_suffix(f".{os.getpid()}")
    with open(part, "wb") as file:
        file.write(b"graft node tests 1\n")
        for kind, name, model, sets in sorted(tests, key=lambda t: (t[0], "_expanded" in t[1], t[1])):
            operators, reason = describe(model)
            if not reason and any(p is None for pair in sets for side in pair for p in side):
                reason = "sequence type"
            if kind != "node-tests":
                label = f"({kind})"
            elif "_expanded" in name:
                label = label_of.get(name[:name.index("_expanded")], "(expanded)")
            else:
                label = label_of[name] = operators[0] if len(set(operators)) == 1 else next((o for o in operators if o.lower() in name.replace("_", "")), operators[-1])
            body = text(kind.encode()) + text(name.encode()) + text(label.encode()) + text(reason.encode())
            body += text(b"" if reason else model) + struct.pack("<I", 0 if reason else len(sets))
            for pair in [] if reason else sets:
                for side in pair:
                    body += struct.pack("<I", len(side)) + b"".join(map(text, side))
            file.write(body)
            count += 1
            if reason:
                skipped[reason] = skipped.get(reason, 0) + 1
    os.replace(part, out)
    print(f"{out}: {count} tests, of which to be skipped: {skipped}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=FOLDER / "node_tests.bin")
    parser.add_argument("--offline", action="store_true", help="never install anything")
    parser.add_argument("--source", choices=["archives", "package"], help="take this source only")
    given = parser.parse_args()
    folder = pathlib.Path(os.environ.get("GRAFT_SHARED", ROOT.parent / "shared")) / "pack" / "conformance"
    if given.source != "package" and folder.is_dir():
        return write(given.out, archives(folder))
    if given.source != "archives":
        try:
            import onnx.backend.test  # noqa: F401
        except ImportError:
            if python := with_package(given.offline):
                return subprocess.run([python, __file__, "--source", "package", "--out", given.out]).returncode
        else:
            return write(given.out, package())
    print("skipped: neither archives of ONNX's node tests nor the Python package onnx are here")
    return 3


if __name__ == "__main__":
    sys.exit(main())
