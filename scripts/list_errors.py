#!/usr/bin/env python3
"""Writes docs/errors.md from the list in include/graft/core/error.hpp and the advice below.

    scripts/list_errors.py            writes the page
    scripts/list_errors.py --check    exits 1 if the page is not what would be written, or a code has no advice
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "include/graft/core/error.hpp"
PAGE = ROOT / "docs/errors.md"
CODE = re.compile(r'^\s*X\(\s*(\w+)\s*,\s*"([^"]+)"\s*,\s*"([^"]+)"\s*\)', re.M)

# What to do about each code.
ADVICE = {
    "data.open": "Check the path and its permissions; pipes, sockets, devices and broken links are passed over. `graft check DATA` lists all of them.",
    "data.format": "The message names the file and what is wrong with it; [data](data.md#datasets) says what each kind of dataset looks like.",
    "data.count_mismatch": "Pictures and labels are from different sets, or one of the files was cut: fetch both again.",
    "data.label_range": "Correct the label that the message names, or the list of classes.",
    "data.empty_class": "Fill the class, remove it, or allow empty classes (`--allow-empty`).",
    "data.no_classes": "Put pictures into `<class>/` or `train/<class>/`, at least two classes of them.",
    "data.class_mismatch": "Rename or remove the class that the message names; validation may have fewer classes than training, not others.",
    "data.leak": "Remove the picture from one of the two parts: the score would be better than the truth.",
    "data.label_conflict": "Decide which class the picture is of, and remove it from the other: a network cannot learn both.",
    "data.too_many_bad": "`graft check DATA` lists the pictures that cannot be read; remove them, fetch them again, or pass the `--bad-share` that the error names.",
    "train.no_gradient": "Freeze what lies before the operator that the message names (`--freeze`), or export the network without it.",
    "train.diverged": "Take a smaller `--lr`, a longer warm-up, or `--clip-norm 1`; the last good checkpoint is kept.",
    "train.head": "The network is no classifier of one picture, has several outputs (`--output NAME` says which), or ends in a way that gives no row of features: name the value to cut at with `--trunk`; `graft info MODEL` lists the network's values.",
    "train.freeze": "`--freeze none`, or a smaller number of stages.",
    "train.out_in_use": "`--resume` goes on with the run, `--overwrite` replaces its files, another `--out` leaves it alone; the message names one that is free.",
    "explain.features": "Only networks with convolutions or patches can show where they look; networks of dense layers alone cannot.",
    "quantize.accuracy": "Allow more by `--max-drop`, keep the nodes that cost most in float by `--keep`, give more pictures (`--samples`), or take another `--method`.",
    "quantize.nothing": "Only float32 networks with convolutions or matrix products of constant weights can be quantised, and only once; the message says which it is.",
    "quantize.range": "The message names the value. Check the preprocessing and the pictures: the float network gives no finite number there either.",
    "checkpoint.write": "Make room, or write elsewhere (`--out`); the checkpoint before is untouched.",
    "checkpoint.malformed": "Remove the checkpoint and its predecessor to begin afresh.",
    "resume.mismatch": "Resume with the settings of the first run, or begin afresh in another folder.",
    "usage": "Read the message: it names the argument. `graft VERB --help` lists the options.",
    "usage.preprocess": "Correct the item that the message names; [preprocessing](preprocessing.md) has the grammar.",
    "file.open": "Check the path and its permissions. Folders, pipes and devices are refused.",
    "file.write": "Check that the folder exists, can be written to and has room. The old file, if any, is still there.",
    "model.truncated": "Download or export the model again. Files that are no ONNX models may end here too: their first bytes are read as lengths.",
    "model.malformed": "Check that it is an ONNX file, not another framework's nor a Git LFS pointer (a text of about a hundred bytes); run `onnx.checker` on it.",
    "model.too_deep": "Raise `limits::nesting` or `limits::function_depth` if you trust the model.",
    "model.too_large": "Raise `limits::model_bytes`, `external_bytes` or `nodes` if you trust the model; past 2 GiB, export with external data.",
    "model.recursion": "The model is not valid ONNX: a function must not call itself, directly or through others. Export it again.",
    "model.version": "Convert the model with `onnx.version_converter` to an opset from 7 on; for one that is too new, take a newer graft.",
    "graph.cycle": "The model is not valid ONNX; run `onnx.checker`, and export it again.",
    "graph.dangling": "The message names the value. Usually a tool cut the graph in two; export it again.",
    "graph.duplicate": "The message names the value or the name. Rename one of the two.",
    "graph.fixed_batch": "Export the network with an open batch (`dynamic_shapes` or `dynamic_axes` in PyTorch); the message names the node where samples meet. Training goes on in parts of its own size.",
    "graph.no_output": "The message names the output. Correct the list of outputs, or export again.",
    "op.unsupported": "The message names the operator. See the [support matrix](support-matrix.md); an app can bring [operators of its own](../CONTRIBUTING.md#an-operator-of-an-app). In a build with `GRAFT_OPS`, add the operator to the list (`graft info --ops MODEL` prints it).",
    "op.attribute": "The message names the node and the attribute; compare them with the operator's page in the ONNX documentation.",
    "op.shape": "The message names the node and the shapes it was given. If the input's size is yours to choose, try the one that the model was exported for.",
    "op.type": "The message names the node and the type. Export the model with another element type, or cast before the node.",
    "op.index": "An index in the model or in your input points outside a tensor; the message names the node.",
    "op.value": "The message names the node. The value comes from the model or from an input, such as the number of pieces of a split.",
    "op.limit": "Raise `limits::loop_iterations` if you trust the model.",
    "tensor.shape": "An extent is negative, or there are more than 16 of them.",
    "tensor.overflow": "The shape is not one that memory can hold; the file is damaged, or an input is far too large.",
    "tensor.bytes": "The file gives a tensor too few or too many bytes for its shape; download or export it again.",
    "tensor.dtype": "The element type is unknown, or cannot be used in this place. Thrown by `tensor::data<T>()`: ask for the elements as what they are (`type()`).",
    "external.path": "External data have to lie in the model's folder or below it, as regular files, with no links. Models in memory cannot have any.",
    "external.range": "The file with the weights is shorter than the model says; it is from another export, or was cut.",
    "memory.budget": "Make the batch or the picture smaller, or raise `limits::memory_bytes`.",
    "memory.oom": "The system refused memory. Make the batch smaller, or free memory.",
    "input.name": "`graft info MODEL` prints the names of the inputs; those without a default have to be given.",
    "input.shape": "The message gives both shapes. Extents that are printed as a name are free.",
    "input.dtype": "The message gives both types; convert the array.",
    "image.open": "Check the path and its permissions.",
    "image.no_decoder": "JPEG needs `stb_image.h` where the compiler finds it (Debian: `libstb-dev`), or `GRAFT_HAS_LIBJPEG=1` and `-ljpeg`; PNG, BMP and PNM need neither.",
    "image.unsupported": "The message names the kind (GIF, HEIC, 12-bit JPEG ...) and, where there is one, a command that converts it. WebP takes a build with libwebp (Debian: `libwebp-dev`).",
    "image.malformed": "The file is damaged. Fetch or save it again.",
    "image.truncated": "The file was cut; a half picture is never classified. Fetch it again.",
    "image.dimensions": "A side of zero means a damaged file; for large ones raise `limits::image_side`.",
    "image.budget": "Raise `limits::image_bytes`, `image_scans` or `image_pixels` if such pictures are expected.",
    "preprocess.crop": "The picture is smaller than the crop after the resize: add `resize=` or make `crop=` smaller.",
    "classify.output": "The network is no classifier (a detector, say, or one that makes pictures), or another of its outputs is meant: `--output NAME`. `graft run` gives any network's outputs as arrays.",
    "labels.count": "The file with the names needs one line an output of the model, or exactly one less.",
    "json.malformed": "Correct the JSON text that the message names; it gives the location.",
    "safetensors.malformed": "The file is damaged or is no safetensors file; write or fetch it again.",
    "npy.malformed": "Save the array again with `numpy.save`.",
    "npy.dtype": "Arrays of text, of objects, complex and big-endian ones are refused, and types that .npy lacks (bfloat16, 8-bit floats, 4-bit integers); convert first.",
    "cpu.isa": "`GRAFT_ISA` takes the names that the message lists; unset it to use the best.",
    "device.unavailable": "The message names the library or the device that is missing, and the fix; `graft doctor` lists them all. `--device cpu` runs on the CPU. Of `precision`: this device computes in other ones only; leave `--precision` out.",
    "device.lost": "Start the process again and resume from the last checkpoint; if it happens again, look at `dmesg` and `nvidia-smi`.",
    "device.compile": "Remove the folder of compiled kernels (`graft doctor` tells it) and update NVRTC; else report it, with the message.",
    "placement.refused": "The message names the node and each back end's reason.",
    "dist.peer_lost": "The message names the member and why it left, where it could say so: see its own error and the machine that it ran on; `--resume` "
    "goes on from the last checkpoint, with as many processes as are left.",
    "dist.timeout": "The message names the members that did not come: they are stopped, or their machine or the network is gone. Where they are only slow, "
    "raise `--timeout`; then `--resume`.",
    "dist.mismatch": "Start all processes with the same command, of the same build, on the same data; machines of different kinds agree on `GRAFT_ISA`.",
    "dist.address_in_use": "Give `MASTER_PORT` a port that is free on rank 0's machine, or end the run that has it; under torchrun set `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1`, so that it leaves the port to rank 0.",
    "dist.no_mpi": "Build the program with `-DGRAFT_MPI=ON` where an MPI is installed and start it by that MPI's `mpirun`; or give each process a GPU (`--device cuda`) and [the variables of its launcher](cluster.md#torchrun-and-its-like); or start one process.",
    "internal": "Report it, with the model if you may share it: see [CONTRIBUTING](../CONTRIBUTING.md#reporting-a-defect).",
}

HEAD = """# Errors

<!-- Written by scripts/list_errors.py from include/graft/core/error.hpp; change those, not this page. -->

Everything that can fail returns `graft::status` or `graft::result<T>`. An error has a code from the list below, the location
(a file, a node, an argument) and a sentence with the shapes and the fix; `what()` is `<code>: <where>: <detail>`, and the
program prints it behind `graft: error: `. Codes are stable: match on `graft::errc` or on the text, not on the sentence. Names
that come from files are escaped and cut before they are printed.

```cpp
auto loaded = graft::load("net.onnx");               // graft::result<graft::model>
if (!loaded.ok()) return report(loaded.error());     // asked for its error
graft::model net = std::move(loaded).value();        // or: becomes its value
graft::model same = graft::load("net.onnx");         // throws graft::error if there is none
```

Where exceptions are off (`-fno-exceptions`), a result that is forced while it holds an error calls `GRAFT_FATAL(text)`, which
prints the text and aborts unless you define it otherwise.

The library throws nothing else. Functions that return a `status` or a `result` report want of memory as `memory.oom`; that error needs no
memory itself, so it arrives where none is left, and copying or throwing an error allocates nothing. What remains to a program is what it does
with its own memory: arguments that it copies, and functions that return a plain value (a string, a graph, a copy of a list), which throw
`std::bad_alloc` as the standard library does. Where exceptions are off, an `operator new` that finds no memory ends the program, as it ends
every such program. What an app's own operator or executor throws comes out of the call once, and the session can be used on.

The program ends with 2 for `usage` and `usage.preprocess`, with 1 for all others.

| code | what it means | what to do |
| --- | --- | --- |
"""


def page():
    text = LIST.read_text()
    codes = CODE.findall(text)
    names = [name for _, name, _ in codes]
    faults = [f"{name} has no advice in scripts/list_errors.py" for name in names if name not in ADVICE]
    faults += [f"scripts/list_errors.py: {name} is in no list" for name in ADVICE if name not in names]
    if len(codes) < 20:
        faults.append("the list in error.hpp was not understood")
    rows = [f"| `{name}` | {meaning} | {ADVICE.get(name, '')} |" for _, name, meaning in codes]
    return HEAD + "\n".join(rows) + "\n", faults


def main():
    text, faults = page()
    if sys.argv[1:] == ["--check"]:
        if not PAGE.is_file() or PAGE.read_text() != text:
            faults.append("docs/errors.md is stale: run scripts/list_errors.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    elif not faults:
        PAGE.write_text(text)
    print("\n".join(faults) or "docs/errors.md is up to date")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
