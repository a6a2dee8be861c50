#!/usr/bin/env python3
"""Writes the defaults of training, as training_settings() tells them, into docs/finetuning.md and into the comments of their fields.

    scripts/defaults.py                    writes them
    scripts/defaults.py --check            says what differs, and exits 1
    scripts/defaults.py --library FILE     with a compiled graft_split, which saves compiling it

In docs/finetuning.md it is the table between the two <!-- defaults --> lines; in the headers what stands behind "below 0: " in the comment of
a field that is negative where nothing is given. CXX names the compiler (default c++).
"""
import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/finetuning.md"
HEADERS = [ROOT / "include/graft/train/options.hpp"]
SOURCE = r"""
#include <graft/train.hpp>
#include <cstdio>
int main() {
    for (bool from_scratch : {false, true})
        for (const graft::training_setting& s : graft::training_settings(from_scratch))
            std::printf("%d\t%s\t%s\t%s\t%s\n", from_scratch, s.option.c_str(), s.field.c_str(), s.by_default.c_str(), s.what.c_str());
}
"""


def settings(library):
    """(option, field, default, sentence) of finetune, and the defaults of train by option."""
    compiler = [*shlex.split(os.environ.get("CXX", "c++")), "-std=c++17", "-pthread", "-DGRAFT_SPLIT", f"-I{ROOT / 'include'}"]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "print.cpp").write_text(SOURCE)
        if not library:
            library = work / "split.o"
            subprocess.run([*compiler, "-c", ROOT / "cmake/graft_split.cpp", "-o", library], check=True)
        symbols = subprocess.run(["nm", library], capture_output=True).stdout
        decoders = [which for symbol, which in ((b"jpeg_start_decompress", "jpeg"), (b"WebPDecode", "webp")) if symbol in symbols]
        defined, linked = [f"-DGRAFT_HAS_LIB{d.upper()}=1" for d in decoders], [f"-l{d}" for d in decoders]
        subprocess.run([*compiler, *defined, work / "print.cpp", library, *linked, "-o", work / "print"], check=True)
        rows = [line.split("\t") for line in subprocess.run([work / "print"], capture_output=True, text=True, check=True).stdout.splitlines()]
    return [row[1:] for row in rows if row[0] == "0"], {row[1]: row[3] for row in rows if row[0] == "1"}


def table(finetune, train):
    lines = ["| option | what it is | in code | default of `finetune` | of `train`, where it differs |", "| --- | --- | --- | --- | --- |"]
    for option, field, by_default, what in finetune:
        other = train.get(option, "has none")
        lines.append(f"| `{option}` | {what} | {f'`{field}`' if field else ''} | {by_default} | {'' if other == by_default else other} |")
    return "\n".join(lines)


def page_with(text, made):
    parts = text.split("<!-- defaults -->\n")
    return "<!-- defaults -->\n".join([parts[0], made + "\n", parts[2]]) if len(parts) == 3 else None


def header_with(text, finetune):
    """Each line that gives such a field -1, with its default behind "below 0: "."""
    by_field = {field: by_default for _, field, by_default, _ in finetune if field}

    def comment(line):
        given = re.match(r"\s*(?:std::int64_t |double )?([\w.]+) = -1;", line)
        if not given:
            return line
        if given.group(1) not in by_field:
            raise SystemExit(f"training_settings() has no {given.group(1)}")
        before, there, _ = line.partition("below 0: ")
        return before + (there or "  ///< below 0: ") + by_field[given.group(1)]

    parts = re.split(r"(struct (?:trainer|finetune)_options.*?\n};\n)", text, flags=re.S)
    for i in range(1, len(parts), 2):
        parts[i] = "\n".join(comment(line) for line in parts[i].split("\n"))
    return "".join(parts)


def joined(text):
    """A header with each comment behind a field on one line, as it is before scripts/format wraps it."""
    return re.sub(r"\n *///< ", " ", text)


def differing(library):
    """What should be written where: {path: text}."""
    finetune, train = settings(library)
    wanted = {PAGE: page_with(PAGE.read_text(), table(finetune, train))}
    if wanted[PAGE] is None:
        raise SystemExit(f"{PAGE}: two <!-- defaults --> lines are needed")
    wanted.update({header: header_with(joined(header.read_text()), finetune) for header in HEADERS})
    return {path: text for path, text in wanted.items() if (path.read_text() if path == PAGE else joined(path.read_text())) != text}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 where something differs")
    parser.add_argument("--library", type=pathlib.Path, help="a compiled graft_split")
    options = parser.parse_args()
    found = differing(options.library)
    for path, text in found.items():
        print(f"{path.relative_to(ROOT)}: {'its defaults are stale' if options.check else 'written'}")
        if not options.check:
            path.write_text(text)
    if HEADERS[0] in found and not options.check:
        subprocess.run([ROOT / "scripts/format"], check=True)
    sys.exit(options.check and bool(found))


if __name__ == "__main__":
    main()
