#!/usr/bin/env python3
"""Checks how graft's headers get on with macros: those of the program that includes them, and their own.

    scripts/check_macros.py               the folders include/ and single_include/
    scripts/check_macros.py FOLDER...     these folders

1. macros_begin.inl and macros_end.inl set aside and bring back the same words.
2. After each umbrella, split or whole, every macro of tests/consume/hostile_macros.hpp is what it was before.
3. What an umbrella itself defines and leaves defined begins with GRAFT_ and is named in config.hpp.
4. No plain word of the headers is a macro of windows.h, X11, curses and the like, as far as this machine has them, unless it is set aside.

Compilers: g++, clang++ and mingw-w64's, those that are there. Prints each fault; exits 1 if there is one."""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include/graft"
HOSTILE = ROOT / "tests/consume/hostile_macros.hpp"
UMBRELLAS = ("graft", "train", "gpu")
MINGW = "x86_64-w64-mingw32-g++-posix"
STRANGERS = {  # headers whose macros reach into files that do not expect them
    "g++": "complex.h curses.h term.h sys/sysmacros.h sys/param.h termios.h arpa/telnet.h arpa/nameser.h netdb.h syslog.h assert.h X11/Xlib.h X11/Xutil.h "
           "X11/Intrinsic.h X11/keysym.h",
    MINGW: "winsock2.h windows.h windowsx.h commctrl.h shellapi.h ole2.h mmsystem.h assert.h",
}
# Function-like macros of these names do not touch words that no parenthesis follows.
HARMLESS = {"major", "minor"}


def preprocess(compiler, text, *flags):
    command = [compiler, "-std=gnu++17", "-x", "c++", "-E", *flags, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def macros(compiler, text, *flags):
    """Every macro that is defined at the end, with its text."""
    return dict(re.findall(r"^#define (\w+)(.*)$", preprocess(compiler, text, "-dM", *flags), re.M))


def pairs(say):
    begin, end = ((INCLUDE / f"macros_{part}.inl").read_text() for part in ("begin", "end"))
    pushed, undefined = re.findall(r'push_macro\("(\w+)"\)', begin), re.findall(r"#undef (\w+)", begin)
    if pushed != undefined or pushed != re.findall(r'pop_macro\("(\w+)"\)', end):
        say("macros_begin.inl and macros_end.inl differ in their words")
    return set(pushed)


def restored(say, compiler, folder, umbrella, flags):
    hostile = {name: text for name, text in macros(compiler, HOSTILE.read_text()).items() if name in HOSTILE.read_text()}
    after = macros(compiler, f'#include "{HOSTILE}"\n#include <graft/{umbrella}.hpp>\n', f"-I{folder}", *flags)
    for name, text in hostile.items():
        if after.get(name) != text:
            say(f"{compiler} {' '.join(flags)}: after {folder.name}/graft/{umbrella}.hpp the macro {name} is not what it was before")
    return len(hostile)


def left_behind(say, compiler, folder, umbrella, flags):
    include, file, defined_in = f"#include <graft/{umbrella}.hpp>\n", "", {}
    for line in preprocess(compiler, include, "-dD", f"-I{folder}", *flags).splitlines():
        if place := re.match(r'# \d+ "([^"]*)"', line):
            file = place.group(1)
        elif name := re.match(r"\s*#\s*define (\w+)", line):
            defined_in[name.group(1)] = file
    described = (INCLUDE / "config.hpp").read_text().split("#pragma once")[0]
    for name in macros(compiler, include, f"-I{folder}", *flags):
        if not re.search(r"/graft/|stb_image", defined_in.get(name, "")):
            continue
        families = [f"{name[:i]}..." for i in range(len("GRAFT_"), len(name))]
        if not name.startswith("GRAFT_") or not (re.search(rf"\b{name}\b", described) or any(f in described for f in families)):
            say(f"{compiler} {' '.join(flags)}: {folder.name}/graft/{umbrella}.hpp leaves {name} behind, which config.hpp does not name")


def words():
    """The identifiers of the headers, each with a file that has it."""
    found = {}
    for path in sorted([*INCLUDE.rglob("*.hpp"), *INCLUDE.rglob("*.inl")]):
        if path.name in ("macros_begin.inl", "macros_end.inl"):
            continue
        text = re.sub(r'R"(\w*)\(.*?\)\1"', "", path.read_text(), flags=re.S)
        text = re.sub(r'"(\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/|^[ \t]*#[ \t]*include[^\n]*', "", text, flags=re.S | re.M)
        for word in re.findall(r"\b[a-zA-Z_]\w*", text):
            found.setdefault(word, path.relative_to(ROOT))
    return found


def strangers(say, compiler, headers, aside):
    there = "".join(f"#if __has_include(<{h}>)\n#include <{h}>\n#endif\n" for h in headers.split())
    theirs = set(macros(compiler, there))
    # What the headers use of the system's own macros, such as EINTR, they get from the same place.
    for umbrella in UMBRELLAS:
        theirs -= set(macros(compiler, f"#include <graft/{umbrella}.hpp>\n", f"-I{INCLUDE.parent}"))
    own = words()
    for word in sorted(theirs & set(own) - aside - HARMLESS):
        if not re.match(r"_|[A-Z][A-Z0-9_]+$", word):
            say(f"{own[word]}: {word} is a macro of a header of {compiler}'s system: rename it, or set it aside in macros_begin.inl")


def main():
    folders = [pathlib.Path(f).resolve() for f in sys.argv[1:]] or [ROOT / "include", ROOT / "single_include"]
    compilers = [c for c in ("g++", "clang++", MINGW) if shutil.which(c)]
    faults, count = [], 0
    aside = pairs(faults.append)
    for compiler in compilers:
        for folder in folders:
            for umbrella in UMBRELLAS:
                for flags in ([], ["-DGRAFT_SPLIT"]):
                    count = restored(faults.append, compiler, folder, umbrella, flags)
                    left_behind(faults.append, compiler, folder, umbrella, flags)
        if compiler in STRANGERS:
            strangers(faults.append, compiler, STRANGERS[compiler], aside)
    print("\n".join(faults) or f"{', '.join(compilers)}: {count} macros of strangers are as before, none of graft's own is left that config.hpp does not name")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
