#!/usr/bin/env python3
"""Makes docs/support-matrix.md from what the tests of the folder conformance measured.

    scripts/support_matrix.py            writes docs/support-matrix.md
    scripts/support_matrix.py --check    ends with 1 where the page is not what it would write (CI)

Reads build/conformance/operators.tsv (the op table: versions, element types, kernels) and build/conformance/node_tests.tsv (ONNX's own
tests; where they did not run, the numbers of the page stay). With the Python package onnx, every operator of ONNX must be in the
table or in the list of those left out below.
"""
import argparse, pathlib, re, sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER, PAGE = ROOT / "build" / "conformance", ROOT / "docs" / "support-matrix.md"
NO_SEQUENCES = "sequence types: graft's values are tensors"
NO_OPTIONALS = "optional types: graft's values are tensors"
NO_STRINGS = "strings: graft's tensors hold numbers"
LEFT_OUT = {
    "": {
        "ConcatFromSequence": NO_SEQUENCES, "SequenceAt": NO_SEQUENCES, "SequenceConstruct": NO_SEQUENCES, "SequenceEmpty": NO_SEQUENCES,
        "SequenceErase": NO_SEQUENCES, "SequenceInsert": NO_SEQUENCES, "SequenceLength": NO_SEQUENCES, "SequenceMap": NO_SEQUENCES,
        "SplitToSequence": NO_SEQUENCES, "Optional": NO_OPTIONALS, "OptionalGetElement": NO_OPTIONALS, "OptionalHasElement": NO_OPTIONALS,
        "StringConcat": NO_STRINGS, "StringNormalizer": NO_STRINGS, "StringSplit": NO_STRINGS, "RegexFullMatch": NO_STRINGS,
        "ImageDecoder": "a decoder in a model takes files past the limits that images have; decode before the model (`graft::decode_file`)",
    },
    "ai.onnx.ml": {None: "trees, linear models and vectorizers on tables and maps; no image network holds them"},
    "ai.onnx.preview": {None: "preview: it may change or go with any release"},
    "ai.onnx.preview.training": {None: "training operators that ONNX deprecated"},
}
TYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
FLOATS, INTEGERS = TYPES[:4], TYPES[4:12]
SHORT = [("all", TYPES), ("numbers", TYPES[:12]), ("floats", FLOATS), ("integers", INTEGERS)]


def short(types):
    """`float32 float64 float16 bfloat16` as `floats`, and so on."""
    left, words = set(types), []
    for name, group in SHORT:
        if set(group) <= left:
            words.append(name)
            left -= set(group)
    return ", ".join(words + [t for t in types if t in left])


def rows_of(path):
    return [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []


def page(operators, tests):
    table = {}
    for domain, name, since, until, speed, types in operators:
        entry = table.setdefault((domain, name), {"versions": [], "speed": set(), "types": []})
        entry["versions"].append((int(since), int(until)))
        entry["speed"].add(speed)
        entry["types"] += [t for t in types.split() if t not in entry["types"]]
    lines = [
        "# Operators", "",
        "Made by `scripts/support_matrix.py` from the op table and from ONNX's own tests; not written by hand. Every operator has a reference kernel;",
        "*fast* means that vectorised kernels take its usual forms too, *view* that it costs nothing. The types are those that its first test",
        "problem runs on; narrower ones (float8, int4 and the like) are held, cast and quantised. Tests are ONNX's backend tests of its newest release,",
        "with those of the functions that it defines operators by: passed / run.", "",
        f"{len(table)} operators.", "",
        "| operator | opset versions | kernel | element types | ONNX's tests |", "| --- | --- | --- | --- | --- |"]
    passed = 0
    for (domain, name), e in sorted(table.items(), key=lambda i: (i[0][1].lower(), i[0])):
        since = min(v[0] for v in e["versions"])
        until = 0 if any(v[1] == 0 for v in e["versions"]) else max(v[1] for v in e["versions"])
        versions = f"{since} – {until}" if until else f"{since} –"
        speed = next(s for s in ("fast", "view", "reference") if s in e["speed"])
        types = "any" if "any" in e["types"] else short([t for t in TYPES if t in e["types"]])
        count = ""
        if name in tests:
            ok, wrong, unsupported, skipped, reasons = tests[name]
            passed += ok
            count = f"{ok} / {ok + wrong + unsupported}" + (f"; {skipped} skipped: {reasons}" if skipped else "")
        lines.append(f"| {(domain + '.' if domain else '') + name} | {versions} | {speed} | {types} | {count} |")
    others = {n: t for n, t in tests.items() if n.startswith("(")}
    if others:
        lines += ["", "Sets of whole models:", "", "| set | passed / run | skipped |", "| --- | --- | --- |"]
        for name, (ok, wrong, unsupported, skipped, reasons) in sorted(others.items()):
            lines.append(f"| {name.strip('()')} | {ok} / {ok + wrong + unsupported} | {f'{skipped}: {reasons}' if skipped else ''} |")
    lines += ["", "## Not there", "", "A model that holds one of these is refused with `op.unsupported` and the name of the node; an app can bring a row of its own.", "",
              "| operator | why |", "| --- | --- |"]
    for domain, names in LEFT_OUT.items():
        for name, why in sorted(names.items(), key=lambda i: i[0] or ""):
            lines.append(f"| {domain + ': all' if name is None else name} | {why} |")
    return "\n".join(lines) + "\n", table


def tests_of(rows):
    return {r[0]: (int(r[1]), int(r[2]), int(r[3]), int(r[4]), r[5]) for r in rows}


def tests_on_page():
    """The numbers that the page has, for where ONNX's tests did not run."""
    found = {}
    number = r"(\d+) / (\d+)(?:; (\d+) skipped: ([^|]*?))?"
    for line in PAGE.read_text().splitlines() if PAGE.exists() else []:
        if m := re.fullmatch(r"\| ([\w.]+) \|.*\| " + number + r" \|", line):
            ok, run = int(m[2]), int(m[3])
            found[m[1].split(".")[-1]] = (ok, 0, run - ok, int(m[4] or 0), m[5] or "")
        elif m := re.fullmatch(r"\| ([\w-]+) \| (\d+) / (\d+) \| (?:(\d+): ([^|]*))? ?\|", line):
            found[f"({m[1]})"] = (int(m[2]), 0, int(m[3]) - int(m[2]), int(m[4] or 0), (m[5] or "").strip())
    return found


def forgotten(table):
    """Operators of ONNX that are neither in the table nor named as left out; and the other way round."""
    try:
        import onnx.defs
    except ImportError:
        return []
    wrong = []
    known = {(s.domain, s.name) for s in onnx.defs.get_all_schemas()}
    for domain, name in sorted(known):
        left = LEFT_OUT.get(domain, {})
        if ((domain, name) in table) == (name in left or None in left):
            wrong.append(f"{domain or 'ai.onnx'} {name}")
    return wrong


def without_numbers(text):
    """The page without the counts of tests, which change with every release of ONNX."""
    table, _, rest = text.partition("\nSets of whole models:")
    lines = (table + rest.partition("\n## ")[2] if rest else table).splitlines()
    return [line.rsplit("|", 2)[0] if line.count("|") == 6 else line for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    operators = rows_of(FOLDER / "operators.tsv")
    if not operators:
        print("build/conformance/operators.tsv is not there: run the tests of the folder conformance first (ctest -R conformance)")
        return 3
    tests = tests_of(rows_of(FOLDER / "node_tests.tsv")) or tests_on_page()
    text, table = page(operators, tests)
    if wrong := forgotten(table):
        print("neither in the op table nor left out with a reason, or both:", ", ".join(wrong))
        return 1
    if given.check:
        if not PAGE.exists() or without_numbers(PAGE.read_text()) != without_numbers(text):
            print("docs/support-matrix.md is not up to date: run scripts/support_matrix.py")
            return 1
        return 0
    PAGE.write_text(text)
    print(f"docs/support-matrix.md: {len(table)} operators")


if __name__ == "__main__":
    sys.exit(main())
