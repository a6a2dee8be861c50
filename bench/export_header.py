#!/usr/bin/env python3
"""What `graft export --header` costs: how long a compiler takes, how large the program is, and how fast it answers.

    bench/export_header.py MODEL.onnx...               a program for each network, at -O2, at -Os and as small as can be: seconds, size, time of a run
    bench/export_header.py --functions 20 MODEL.onnx   also what takes most room in the program
    bench/export_header.py --literals MODEL.onnx       ways of writing the bytes of a file of so many MB: seconds and memory of each compiler
    bench/export_header.py --half PICTURES [--preprocess SPEC] MODEL.onnx...   what --float16 changes of the answers to a folder of pictures

Programs are compiled by CXX (default g++), without sections that nothing uses, and stripped. What a classifier answers is held against `graft classify`.
Times of runs are those of one thread, and the least of 200, as the machine may have other work. Needs build/release/graft.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GRAFT = ROOT / "build/release/graft"
PICTURE = ROOT / "apps/graft/demo/pictures/moon-1.png"
# Prints the class of a picture, its probability, the milliseconds of that, and those of the network alone.
APP = """#include "net.hpp"
#include <chrono>
#include <cstdio>
namespace {
template <class F>
double least_ms(int rounds, const F& f) {
    double least = 1e9;
    for (int i = 0; i < rounds; ++i) {
        const auto begun = std::chrono::steady_clock::now();
        f();
        const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count();
        if (ms < least) least = ms;
    }
    return least;
}
}
int main(int, char** paths) {
    const graft::model m = net::model().value();
    graft::shape extents = m.inputs()[0].extents;
    for (int d = 0; d < extents.rank(); ++d)
        if (extents[d] < 0) extents[d] = d < 2 ? 1 : 224;
    const graft::tensor x = graft::tensor::zeros(m.inputs()[0].type, extents);
    graft::session session(m);
    const double run = least_ms(200, [&] { session.run(x).value(); });
#ifdef CLASSIFIES
    const graft::image picture = graft::decode_file(paths[1]).value();
    const double whole = least_ms(200, [&] { net::classify(picture, 1).value(); });
    const graft::prediction best = net::classify(paths[1], 1).value()[0];
    std::printf("%d %.17g %.3f %.3f\\n", best.index, best.probability, whole, run);
#else
    std::printf("- 0 0 %.3f\\n", run);
#endif
}
"""


# What a program may be compiled with. The smallest has no exceptions, no tables to unwind by, and relocations that glibc 2.36 can unpack.
LEVELS = {"O2": ["-O2"], "Os": ["-Os"], "smallest": ["-Os", "-fno-exceptions", "-fno-asynchronous-unwind-tables", "-Wl,-z,pack-relative-relocs"]}


def cost(command):
    """CPU seconds and peak MiB of a command."""
    # By a small process between: what a child began with counts as its memory, and this one may be large.
    code = "import os,sys;p=os.posix_spawnp(sys.argv[1],sys.argv[1:],os.environ);_,s,u=os.wait4(p,0);" \
           "print(u.ru_utime+u.ru_stime,u.ru_maxrss/1024,file=sys.stderr);sys.exit(s!=0)"
    done = subprocess.run([sys.executable, "-S", "-c", code, *map(str, command)], capture_output=True, text=True, env={**os.environ, "CCACHE_DISABLE": "1"})
    if done.returncode:
        sys.exit(f"failed: {shlex.join(map(str, command))}\n{done.stderr[-3000:]}")
    return [float(number) for number in done.stderr.splitlines()[-1].split()]


def largest(program, count):
    """Prints what takes most room in a program, but for the model."""
    listed = subprocess.run(["nm", "-CS", "--size-sort", "-r", program], capture_output=True, text=True, check=True).stdout
    found = [(int(size, 16), re.sub(r"graft::v\d+_\d+\w*::", "", name)) for size, name in re.findall(r"^\w+ (\w+) \w (.*)$", listed, re.M)]
    for size, name in [one for one in found if "model_bytes" not in one[1]][:count]:
        print(f"    {size:>8}  {name[:120]}")


def programs(models, functions, levels):
    compiler = shlex.split(os.environ.get("CXX", "g++")) + ["-std=c++17", f"-I{ROOT / 'include'}", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-pthread"]
    print("| network | operators | bytes | header | at | compiled, CPU s | MiB | program, bytes | without the model | run, ms | with its picture |\n| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for model in models:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            said = json.loads(subprocess.run([GRAFT, "export", model, "--header", folder / "net.hpp", "--json", "-q"], capture_output=True, text=True, check=True).stdout)
            (folder / "app.cpp").write_text(("#define CLASSIFIES\n" if said["classes"] else "") + APP)
            for level in levels:
                seconds, memory = cost([*compiler, *LEVELS[level], folder / "app.cpp", "-o", folder / "app"])
                shutil.copy(folder / "app", folder / "named")
                subprocess.run(["strip", folder / "app"], check=True)
                size = (folder / "app").stat().st_size
                one_thread = {**os.environ, "GRAFT_NUM_THREADS": "1"}
                index, probability, whole, run = subprocess.run([folder / "app", PICTURE], capture_output=True, text=True, check=True, env=one_thread).stdout.split()
                if said["classes"]:
                    wanted = json.loads(subprocess.run([GRAFT, "classify", model, PICTURE, "--json", "-q"], capture_output=True, text=True, check=True).stdout)["results"][0]["top"][0]
                    if int(index) != wanted["index"] or float(probability) != wanted["probability"]:
                        sys.exit(f"{model}: the program says {index} {probability}, and graft classify {wanted}")
                print(f"| {model.stem if model.stem != 'model' else model.parent.name} | {len(said['operators'])} | {said['model_bytes']:,} | {said['bytes']:,} | {level} | {seconds:.1f} | {memory:.0f} | {size:,} | "
                      f"{size - said['model_bytes']:,} | {float(run):.2f} | {float(whole):.2f} |", flush=True)
                largest(folder / "named", functions)


def octal(data, columns):
    text, line = [], ""
    for i, byte in enumerate(data):
        digit_next = i + 1 < len(data) and 48 <= data[i + 1] <= 55
        line += chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" if digit_next else f"\\{byte:o}"
        if len(line) >= columns:
            text.append(f'"{line}"')
            line = ""
    return "\n".join(text + [f'"{line}"'])


def one_literal(data):
    return f"inline constexpr char bytes[] =\n{octal(data, 150)};\n"


def hexadecimal(data):
    lines = ("".join(f"\\x{byte:02x}" for byte in data[i:i + 40]) for i in range(0, len(data), 40))
    return "inline constexpr char bytes[] =\n" + "\n".join(f'"{line}"' for line in lines) + ";\n"


def words(data):
    numbers = struct.unpack(f"<{len(data) // 8}Q", data[:len(data) // 8 * 8])
    return "inline constexpr unsigned long long bytes[] = {\n" + ",\n".join(",".join(f"{n:#x}" for n in numbers[i:i + 8]) for i in range(0, len(numbers), 8)) + "};\n"


def octets(data):
    return "inline constexpr unsigned char bytes[] = {\n" + ",\n".join(",".join(map(str, data[i:i + 40])) for i in range(0, len(data), 40)) + "};\n"


def several_literals(data):
    """As the program writes them: an array for each 64 KiB, which ends where the file has a 0."""
    parts, at = [], 0
    while len(data) - at > 65000:
        end = data.rfind(b"\0", at, at + 65000)
        parts.append(data[at:end])
        at = end + 1
    parts.append(data[at:])
    members = " ".join(f"char p{i}[{len(part) + 1}];" for i, part in enumerate(parts))
    return f"struct parts {{ {members} }};\ninline constexpr parts bytes = {{\n" + ",\n".join(octal(part, 150) for part in parts) + "};\n"


def literals(model):
    data = model.read_bytes()
    ways = {"literals of 64 KiB, octal": several_literals, "one literal, octal": one_literal, "one literal, hexadecimal": hexadecimal, "64-bit numbers": words, "8-bit numbers": octets}
    compilers = [name for name in ("g++", "clang++") if shutil.which(name)]
    print("| written as | MB | header, MB |" + "".join(f" {name}, CPU s | MiB |" for name in compilers) + "\n| --- | ---: | ---: |" + " ---: | ---: |" * len(compilers))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for way, write in ways.items():
            for megabytes in (0.2, 4.9, 14):
                text = write(data[:int(megabytes * 1e6)])
                (folder / "app.cpp").write_text(text + "const void* get() { return &bytes; }\n")
                row = f"| {way} | {megabytes} | {len(text) / 1e6:.1f} |"
                for compiler in compilers:
                    seconds, memory = cost([compiler, "-std=c++17", "-O2", "-c", folder / "app.cpp", "-o", folder / "app.o"])
                    row += f" {seconds:.2f} | {memory:.0f} |"
                print(row, flush=True)


def network_of(header):
    """The ONNX file in a header."""
    text = header.read_text(encoding="ascii").split("model_parts model_bytes = {\n")[1].split("\n};\n")[0]
    byte = lambda digits: bytes([int(digits.group(1), 8)])
    lines = lambda part: (line.strip(",")[1:-1].encode("ascii") for line in part.splitlines())
    return b"\0".join(b"".join(re.sub(rb"\\([0-7]{1,3})", byte, line) for line in lines(part)) for part in re.split(r'(?<="),\n', text))


def half(models, pictures, preprocess):
    print("| network | bytes | in half precision | pictures | the same class | largest difference of a best probability |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for model in models:
        sizes, answers = [], []
        for options in ([], ["--float16"]):
            with tempfile.TemporaryDirectory() as name:
                header, network = pathlib.Path(name) / "net.hpp", pathlib.Path(name) / "net.onnx"
                how = ["--preprocess", preprocess] if preprocess else []
                subprocess.run([GRAFT, "export", model, "--header", header, "-q", *how, *options], check=True, stdout=subprocess.DEVNULL)
                network.write_bytes(network_of(header))
                sizes.append(network.stat().st_size)
                said = subprocess.run([GRAFT, "classify", network, pictures, "--json", "-q", "--top", "1"], capture_output=True, text=True, check=True).stdout
                answers.append([one["top"][0] for one in json.loads(said)["results"]])
        same = sum(a["index"] == b["index"] for a, b in zip(*answers))
        most = max(abs(a["probability"] - b["probability"]) for a, b in zip(*answers) if a["index"] == b["index"])
        print(f"| {model.stem} | {sizes[0]:,} | {sizes[1]:,} | {len(answers[0])} | {same} | {most:.1e} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--literals", action="store_true", help="how bytes are written, by the first 14 MB of the first model")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="also the N functions that take most room")
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=list(LEVELS), help="how programs are compiled")
    parser.add_argument("--half", type=pathlib.Path, metavar="PICTURES", help="what weights in half precision change")
    parser.add_argument("--preprocess", default="", metavar="SPEC", help="how pictures are prepared for --half")
    arguments = parser.parse_args()
    if arguments.literals:
        literals(arguments.models[0])
    elif arguments.half:
        half(arguments.models, arguments.half, arguments.preprocess)
    else:
        print(subprocess.run(shlex.split(os.environ.get("CXX", "g++")) + ["--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0])
        programs(arguments.models, arguments.functions, arguments.levels)


if __name__ == "__main__":
    main()
