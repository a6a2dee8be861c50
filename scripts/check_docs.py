#!/usr/bin/env python3
"""Checks that the documentation says what is there.

    scripts/check_docs.py                       links, names, and programs: blocks marked ```cpp complete are compiled, and run
    scripts/check_docs.py --library FILE        the same with a compiled graft_split (libgraft_split.a), which saves compiling it
    scripts/check_docs.py --names               links and names only
    scripts/check_docs.py --operator            the worked example of CONTRIBUTING.md alone: added to a copy, and run by the tests

A comment before a block says how it is run: `<!-- run: ARGUMENTS -->`, `<!-- prints: WHAT -->` (`.*`: anything).
Blocks with file=PATH are the files of the worked example; a second one of a file stands above its table. CXX names the compiler (default c++).
"""
import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import defaults

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include/graft"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "fuzz").glob("*.md")])
BLOCK = re.compile(r"((?:<!--[^\n]*-->\n)*)^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")
CXX = shlex.split(os.environ.get("CXX", "c++"))
FLAGS = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread"]


def outside_code(text):
    return re.sub(r"`[^`\n]*`", "", BLOCK.sub("", text))


def anchors(text):
    """The anchors that GitHub gives the headings of a page."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", BLOCK.sub("", text), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-"))
    return found


def check_links(say):
    for page in PAGES:
        for link in LINK.findall(outside_code(page.read_text())):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists():
                say(f"{page.relative_to(ROOT)}: no such file {link}")
            elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
                say(f"{page.relative_to(ROOT)}: no such heading {link}")
    index = (ROOT / "docs/README.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        if page.name != "README.md" and f"]({page.name})" not in index:
            say(f"docs/README.md does not name {page.name}")


def missing(say, page, names, what):
    text = (ROOT / page).read_text()
    for name in names:
        if not re.search(r"(?<![\w-])" + re.escape(name) + r"(?![\w-])", text):
            say(f"{page} does not mention the {what} {name}")


def check_names(say):
    for folder in sorted(p for p in INCLUDE.iterdir() if p.is_dir()):
        page = f"docs/{folder.name}.md"
        if not (ROOT / page).is_file():
            say(f"include/graft/{folder.name} has no page {page}")
            continue
        if f"]({folder.name}.md)" not in (ROOT / "docs/architecture.md").read_text():
            say(f"docs/architecture.md does not name {page}")
        if folder.name != "cpu":  # its page tells how the names are made
            missing(say, page, sorted(h.stem for h in folder.glob("*.hpp")), "header")
    program = (ROOT / "apps/graft/main.cpp").read_text()
    verbs = re.findall(r"VERB\((\w+)\)", re.search(r"GRAFT_VERBS\(VERB\)(.*?)\n\n", program, re.S).group(1))
    missing(say, "docs/program.md", verbs, "verb")
    missing(say, "README.md", [f"graft {verb}" for verb in verbs], "verb")
    sources = "".join(p.read_text() for p in sorted((ROOT / "apps/graft").glob("*.cpp")))
    options = re.findall(r'"(?:-\w,)?(--[a-z-]+)"', sources + (INCLUDE / "train/settings.hpp").read_text())
    missing(say, "docs/program.md", sorted(set(options)), "option")
    missing(say, "docs/program.md", sorted(json_keys(sources)), "JSON key")
    texts = "".join(p.read_text() for p in INCLUDE.rglob("*.hpp"))
    variables = re.findall(r'getenv\("(\w+)"\)|(?:environment|positive_env)\("(\w+)"\)', sources + texts)
    missing(say, "docs/program.md", sorted({a or b for a, b in variables} | {"GRAFT_NUM_THREADS", "OMP_NUM_THREADS"}), "variable")
    augmentations = re.findall(r'^        \{"(\w+)', (INCLUDE / "data/augment_spec.hpp").read_text(), re.M)
    missing(say, "docs/augmentation.md", augmentations, "augmentation")
    losses = re.findall(r'\{loss_kind::\w+, "(\w+)"', (INCLUDE / "train/losses.hpp").read_text())
    for page in ("docs/program.md", "docs/train.md"):
        missing(say, page, losses, "loss")
    limits = (INCLUDE / "core/limits.hpp").read_text()
    missing(say, "docs/limits.md", re.findall(r"^    (?:int|std::int64_t) (\w+) =", limits, re.M), "limit")
    macros = re.findall(r"^//   (GRAFT_\w+)", (INCLUDE / "config.hpp").read_text(), re.M)
    everything = "".join(p.read_text() for p in PAGES)
    for macro in macros:
        if macro not in everything:
            say(f"no page mentions the macro {macro}")
    if subprocess.run([sys.executable, ROOT / "scripts/list_errors.py", "--check"], capture_output=True).returncode:
        say("docs/errors.md is stale or lacks a code: scripts/list_errors.py --check")
    presets = re.findall(r'"configurePreset": "(\w+)"', (ROOT / "CMakePresets.json").read_text())
    missing(say, "CONTRIBUTING.md", sorted(set(presets)), "preset")
    example = re.sub(r"\A(//[^\n]*\n)+", "", (ROOT / "examples/01_classify.cpp").read_text())
    first = next((b.group(4) for b in BLOCK.finditer((ROOT / "README.md").read_text()) if b.group(2) == "cpp"), "")
    if first != example:
        say("README.md's first program is not that of examples/01_classify.cpp")
    check_other_languages(say)


def check_other_languages(say):
    """Their page has the examples that scripts/bindings builds and runs."""
    blocks = [b.group(4) for b in BLOCK.finditer((ROOT / "docs/bindings.md").read_text())]
    for path, comment in (("c/classify.c", "//"), ("python/classify.py", "#"), ("rust/src/main.rs", "//")):
        lines = (ROOT / "examples" / path).read_text().splitlines(keepends=True)
        head = next(i for i, line in enumerate(lines) if not line.startswith(comment))
        if "".join(lines[head:]).lstrip("\n") not in blocks:
            say(f"docs/bindings.md has not the program of examples/{path}")


def json_keys(sources):
    """What the program prints as JSON: the first strings of the pairs inside print(json{...}) and of push_back({...})."""
    keys = set()
    for part in re.findall(r"(?:print\(json\{|json object\{|push_back\(\{|return \{\{)(.*?);\n", sources, re.S):
        keys |= set(re.findall(r'\{"([a-z_]+)", ', "{" + part))
    return keys


def compile_and_run(say, library, work):
    (work / "apps").symlink_to(ROOT / "apps")
    if not library:
        library = work / "graft_split.o"
        subprocess.run([*CXX, *FLAGS, "-O1", "-DGRAFT_SPLIT", f"-I{ROOT / 'include'}", "-c", ROOT / "cmake/graft_split.cpp", "-o", library], check=True)
    symbols = subprocess.run(["nm", library], capture_output=True).stdout
    decoders = [which for symbol, which in ((b"jpeg_start_decompress", "jpeg"), (b"WebPDecode", "webp")) if symbol in symbols]
    defined, linked = [f"-DGRAFT_HAS_LIB{d.upper()}=1" for d in decoders], [f"-l{d}" for d in decoders]
    count = 0
    for page in PAGES:
        for number, block in enumerate(BLOCK.finditer(page.read_text())):
            comments, language, info, code = block.groups()
            if language != "cpp" or info.strip() != "complete":
                continue
            count += 1
            place = f"{page.relative_to(ROOT)}: program {number}"
            source, program = work / "block.cpp", work / "block"
            source.write_text(code)
            done = subprocess.run([*CXX, *FLAGS, "-DGRAFT_SPLIT", *defined, f"-I{ROOT / 'include'}", source, library, *linked, "-o", program], capture_output=True, text=True)
            if done.returncode:
                say(f"{place} does not compile:\n{done.stderr[:2000]}")
                continue
            run = re.search(r"<!-- run:(.*?)-->", comments)
            prints = re.search(r"<!-- prints: (.*?) -->", comments)
            if run:
                done = subprocess.run([program, *shlex.split(run.group(1))], capture_output=True, text=True, cwd=work)
                if done.returncode or (prints.group(1) != ".*" and done.stdout.strip() != prints.group(1)):
                    say(f"{place} ends with {done.returncode} and prints {done.stdout!r} {done.stderr!r}")
    for path in defaults.differing(library):
        say(f"{path.relative_to(ROOT)}: its defaults are stale: scripts/defaults.py")
    if count < 6:
        say(f"only {count} programs were found")
    return count


def insert(path, text, before):
    old = path.read_text()
    assert before in old, f"{path} has no {before}"
    path.write_text(old.replace(before, text + before, 1))


def check_operator(say, work):
    """Does what CONTRIBUTING.md tells: two files, the two places in ops.hpp; then the tests of the op table, of gradients, and the operator's own."""
    include, tests = work / "include", work / "tests"
    shutil.copytree(ROOT / "include", include)
    shutil.copytree(ROOT / "tests", tests)
    blocks = [(m.group(1), b.group(4)) for b in BLOCK.finditer((ROOT / "CONTRIBUTING.md").read_text()) if (m := re.search(r"file=(\S+)", b.group(3)))]
    if len(blocks) != 3 or blocks[2][0] != blocks[0][0]:
        say("CONTRIBUTING.md: the worked example has a header, its test, and a gradient for the header")
        return
    header, test = work / blocks[0][0], work / blocks[1][0]
    header.write_text(blocks[0][1].replace('"common.hpp"', '"gradient_common.hpp"'))
    test.write_text(blocks[1][1])
    insert(header, blocks[2][1] + "\n", f"inline op_table {header.stem}_ops()")
    insert(include / "graft/ops/ops.hpp", f'#include "{header.name}"\n', '#include "lowered.hpp"\n')
    insert(include / "graft/ops/ops.hpp", f"    X({header.stem}, 1, 0) \\\n", "    X(window_function, 0, 0)")
    # The operator and what its gradient and the tests are made of: the others take most of a minute.
    operator = re.search(r'onnx\("(\w+)"', blocks[0][1]).group(1)
    flags = [*FLAGS, "-O0", "-DGRAFT_SPLIT", f"-DGRAFT_OPS={operator},Add,Expand,Mul,ReduceSum,Reshape", f"-I{include}", f"-I{tests}"]
    library = work / "library.cpp"
    library.write_text("#define GRAFT_IMPLEMENTATION\n#include <graft/train.hpp>\n")
    objects = []
    for source in [library, tests / "main.cpp", tests / "ops/table.cpp", tests / "passes/differentiate.cpp", test]:
        objects.append(work / (source.stem + ".o"))
        done = subprocess.run([*CXX, *flags, "-c", source, "-o", objects[-1]], capture_output=True, text=True)
        if done.returncode:
            say(f"the worked example: {source.name} does not compile:\n{done.stderr[:2000]}")
            return
    subprocess.run([*CXX, *objects, "-pthread", "-o", work / "tests_with_operator"], check=True)
    done = subprocess.run([work / "tests_with_operator", f"--test-case=*{operator}*,every operator's problems*,the gradient of every operator*"], capture_output=True,
                          text=True, env={**os.environ, "GRAFT_TEST_OPERATOR": operator})
    if done.returncode or "gradients: 1 operators" not in done.stdout:
        say(f"the worked example fails its tests:\n{done.stdout[-2000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=pathlib.Path, help="a compiled graft_split")
    parser.add_argument("--names", action="store_true", help="links and names only")
    parser.add_argument("--operator", action="store_true", help="the worked example alone")
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        if options.operator:
            check_operator(found.append, work)
            done = "the worked example passes the tests"
        else:
            check_links(found.append)
            check_names(found.append)
            done = f"{len(PAGES)} pages: links and names hold"
            if not options.names:
                done += f"; {compile_and_run(found.append, options.library and options.library.resolve(), work)} programs compile and print what they should"
    print("\n".join(found) or done)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
