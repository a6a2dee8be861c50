#!/usr/bin/env python3
"""Checks what object files that include graft define: no dynamic initialisers, and no global names but those of graft, of the
standard library, and of the unit itself.

    scripts/check_symbols.py OBJECT...     prints each fault; exits 1 if there is one
"""
import re
import subprocess
import sys

OWN = re.compile(r"^(main|operators_here\(|exceptions_here\(|load_in_second\(|pool_of_second\(|training_of_second\()")
PREFIX = re.compile(r"^((vtable|VTT|typeinfo|typeinfo name|guard variable|construction vtable|reference temporary #\d+|TLS init function|TLS wrapper function) for "
                    r"|(non-virtual|virtual|covariant return) thunk to )+")
STANDARD = re.compile(r"(std::|__gnu_cxx::|operator new|operator delete|__cxa|__gxx|__clang_call_terminate)")
LEFT_MANGLED = re.compile(r"^_ZZ*NK?5graft")  # lambdas in lambdas in lambdas, which nm does not read
BUILT_IN = re.compile(r"^(DW\.ref\.|typeinfo (name )?for [^a-z]*(void|bool|char|int|long|float|double)\b)")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def faults(path):
    if re.search(r"\.(init_array|ctors)\b", output("readelf", "-SW", path)):
        names = [l.split()[-1] for l in output("nm", path).splitlines() if "_GLOBAL__sub_I" in l]
        yield f"{path}: has dynamic initialisers: {' '.join(names)}"
    count = 0
    for line in output("nm", "-C", "--defined-only", path).splitlines():
        kind, name = line[17:18], line[19:]
        if kind.islower() and kind not in "uvw":
            continue  # seen by this unit only
        count += 1
        bare = PREFIX.sub("", name)
        # Templates are printed with their return type: what counts is the name in front of the parameters.
        head = re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", bare)).split("(")[0].split(" ")[-1]
        if OWN.match(name) or LEFT_MANGLED.match(name) or BUILT_IN.match(name) or bare.startswith("graft::") or head.startswith("graft::"):
            continue
        if kind in "WVuvw" and STANDARD.search(bare):
            continue
        yield f"{path}: defines {kind} {name}"
    if not count:
        yield f"{path}: defines nothing, so this check proves nothing"


def main():
    found = [fault for path in sys.argv[1:] for fault in faults(path)]
    print("\n".join(found) or f"{len(sys.argv) - 1} object files: no dynamic initialisers, no names but graft's")
    sys.exit(bool(found) or len(sys.argv) < 2)


if __name__ == "__main__":
    main()
