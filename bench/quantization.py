#!/usr/bin/env python3
"""Float classifiers in eight bits by `graft quantize` and by ONNX Runtime's static quantiser, from the same pictures, side by side.

  quantization.py [NETWORK.onnx ...] [--graft GRAFT] [--methods minmax,percentile,entropy] [--json FILE] [--openvino no]

Without networks the float ones of $GRAFT_SHARED/pack/models are taken, of which the script knows what their pictures have to become; for others
--preprocess says it (default: imagenet), and --classes where their classes are those of a dataset. --max-drop is graft's gate (default 100: none, so that
the quantisation itself is seen). The datasets are those of $GRAFT_SHARED/pack: ranges come from training pictures of MNIST and CIFAR-10, of which test
pictures are measured; of the photographs, half of ImageNet's sample and some flowers give ranges, and all of the sample and other flowers are measured.

`graft preprocess` makes the tensors for all. ONNX Runtime's quantiser gets what its documentation says: quant_pre_process, operator set 13 or later, QDQ,
per channel (for the whole tensor where that fails), activations uint8, weights int8. "top-1" is of the pictures whose true class the network has;
"agreement" is with the float network's own top-1, on all pictures; "error" is the mean squared difference of the outputs by the mean square of the float
network's. Files are measured in ONNX Runtime with session.x64quantprecision=1, and, as "by default", without: on x86 without VNNI its sums of uint8 by
int8 then saturate in 16 bits. Needs onnxruntime, onnx, numpy and Pillow; OpenVINO where it is there."""
import argparse
import contextlib
import gzip
import hashlib
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from PIL import Image

SHARED = pathlib.Path(os.environ.get("GRAFT_SHARED", "."), "pack")
MNIST, CIFAR, TF = "resize=28x28,order=gray,raw", "resize=32x32", "mean=128,scale=0.0078125"
# Of each network of the pack: how pictures become its input, which dataset, and where the dataset's classes are in its outputs.
KNOWN = {
    "mnist-8": (MNIST, "mnist"),
    "winml_mnist": (MNIST, "mnist"),
    "wonnx_opt_mnist": (MNIST, "mnist"),
    "mlperftiny_resnet8_fp32_op12": ("raw," + CIFAR, "cifar10"),
    "resnet20_cifar10_fp32_op11": ("imagenet," + CIFAR, "cifar10"),
    "resnet20_cifar10_fp32_bn_unfused_op15": ("imagenet," + CIFAR, "cifar10"),
    "winml_imageclassifier_cifar10": ("signed," + CIFAR, "cifar10"),
    "mobilenetv1_025_128_fp32_op10": (TF, "imagenet1001"),
    "mobilenetv1_100_224_fp32_op13": (TF, "imagenet1001"),
    "mobilenetv2_100_224_fp32_op12": (TF, "imagenet1001"),
    "tinydarknet_fp32_op11": ("unit", "darknet"),
    "winml_squeezenet_fp16": ("order=bgr,mean=104:117:123,scale=1", "imagenet1000"),
    "mlperftiny_vww96_fp32_op9": ("unit", "photos"),
    "mini_xception_fer_fp32_op10": ("order=gray,signed", "photos"),
}
METHODS = {"minmax": CalibrationMethod.MinMax, "percentile": CalibrationMethod.Percentile, "entropy": CalibrationMethod.Entropy}


def fail_text(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[-1][:200]


def idx(name):
    with gzip.open(SHARED / "data/mnist" / f"{name}.gz") as f:
        data = f.read()
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape([int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])])


class Pictures:
    """Folders `calibration` (classes as folders where the model has them) and `measured`, with the true output of each measured picture or -1."""

    def __init__(self, kind, work, calibrated, measured):
        self.calibration, self.measured, self.labels = work / f"{kind}-calibration", work / f"{kind}-measured", []
        if kind in ("mnist", "cifar10"):
            self.tiny(kind, calibrated, measured)
        else:
            self.photographs(kind, calibrated, measured)
        self.calibration_files = sorted(p for p in self.calibration.rglob("*") if p.is_file())
        self.measured_files = sorted(self.measured.iterdir())

    def tiny(self, kind, calibrated, measured):
        if kind == "mnist":
            parts = [(idx(f"{part}-images-idx3-ubyte"), idx(f"{part}-labels-idx1-ubyte")) for part in ("train", "t10k")]
        else:
            parts = []
            for name in ("data_batch_1", "test_batch"):
                rows = np.fromfile(SHARED / f"data/cifar10/{name}.bin", np.uint8).reshape(-1, 3073)
                parts.append((rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, 0]))
        (images, labels), (tests, truth) = parts
        for c in range(10):
            (self.calibration / str(c)).mkdir(parents=True)
            for i in np.flatnonzero(labels == c)[:calibrated // 10]:
                Image.fromarray(images[i]).save(self.calibration / str(c) / f"{i:05}.png")
        self.measured.mkdir()
        for i in range(min(measured, len(tests))):
            Image.fromarray(tests[i]).save(self.measured / f"{i:05}.png")
            self.labels.append(int(truth[i]))

    def photographs(self, kind, calibrated, measured):
        sample = sorted((SHARED / "photos/imagenet_sample").iterdir())
        flowers = {part: [sorted(folder.iterdir()) for folder in sorted((SHARED / "data/flowers5" / part).iterdir())] for part in ("train", "val")}
        self.calibration.mkdir()
        self.measured.mkdir()
        if kind == "flowers":
            for c, (learnt, held_out) in enumerate(zip(flowers["train"], flowers["val"])):
                (self.calibration / learnt[0].parent.name).mkdir()
                for path in learnt[:calibrated // 5]:
                    os.symlink(path, self.calibration / path.parent.name / path.name)
                for i, path in enumerate(held_out[:measured // 5]):
                    os.symlink(path, self.measured / f"{c}-{i:05}{path.suffix}")
            self.labels = [int(path.name[0]) for path in sorted(self.measured.iterdir())]
            return
        for path in sample[::2] + [p for c in flowers["train"] for p in c[:max(0, calibrated - len(sample[::2])) // 5]]:
            os.symlink(path, self.calibration / path.name)
        for path in sample + [p for c in flowers["val"] for p in c[:max(0, measured - len(sample)) // 5]]:
            os.symlink(path, self.measured / path.name)
        names = {"imagenet1000": ("imagenet_wnids.txt", 0), "imagenet1001": ("imagenet_wnids.txt", 1), "darknet": ("darknet_wnids.txt", 0)}
        order, first = [], 0
        if kind in names:
            order, first = (SHARED / "data" / names[kind][0]).read_text().split(), names[kind][1]
        for path in sorted(self.measured.iterdir()):
            name = path.name.split("_")[0]
            self.labels.append(order.index(name) + first if name in order else -1)


class Runner:
    """What the networks answer, by each runtime."""

    def __init__(self, arguments, work):
        self.a, self.work, self.kept = arguments, work, {}

    def graft(self, *words):
        done = subprocess.run([self.a.graft, *map(str, words), "-q", "--device", "cpu", "--threads", str(self.a.threads)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(fail_text(done.stderr))
        return done.stdout

    def tensors(self, model, spec, files):
        extents = [d.dim_value for d in first_input(onnx.load(model, load_external_data=False)).type.tensor_type.shape.dim][1:]
        made = []
        for path in files:
            key = hashlib.sha256(repr((extents, spec, str(path))).encode()).hexdigest()
            if key not in self.kept:
                out = self.work / "one.npy"
                self.graft("preprocess", path, "--model", model, "--preprocess", spec, "--output", out)
                self.kept[key] = np.load(out)
            made.append(self.kept[key])
        return made

    def onnxruntime(self, model, tensors, exact=True):
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.x64quantprecision", "1" if exact else "0")
        options.intra_op_num_threads = self.a.threads
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        except Exception:
            # It fails at some files with exact sums; without rewriting the graph they are exact, too.
            if not exact:
                raise
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        return np.stack([session.run([session.get_outputs()[0].name], {name: x})[0].reshape(-1) for x in tensors]).astype(np.float64)

    def openvino(self, model, tensors):
        import openvino
        network = openvino.Core().compile_model(str(model), "CPU", {"INFERENCE_NUM_THREADS": self.a.threads})
        return np.stack([np.array(network([x])[network.outputs[0]]).reshape(-1) for x in tensors]).astype(np.float64)

    def top1_of_graft(self, model, spec, folder):
        said = json.loads(self.graft("classify", model, folder, "--preprocess", spec, "--top", 1, "--json"))["results"]
        return np.array([one["top"][0]["index"] for one in sorted(said, key=lambda one: one["image"])])


def first_input(model):
    constants = {i.name for i in model.graph.initializer}
    return next(i for i in model.graph.input if i.name not in constants)


class Reader(CalibrationDataReader):
    def __init__(self, name, tensors):
        self.left = iter([{name: x} for x in tensors])

    def get_next(self):
        return next(self.left, None)


def by_onnxruntime(model, out, method, tensors, work):
    """As its documentation has it; what it could not do is an exception."""
    network = onnx.load(model)
    if next(o.version for o in network.opset_import if o.domain in ("", "ai.onnx")) < 13:
        network = onnx.version_converter.convert_version(network, 13)
    raised, prepared = work / "raised.onnx", work / "prepared.onnx"
    onnx.save(network, raised)
    try:
        quant_pre_process(str(raised), str(prepared))
    except Exception:
        quant_pre_process(str(raised), str(prepared), skip_symbolic_shape=True)
    name = first_input(onnx.load(prepared)).name
    for per_channel in (True, False):
        try:
            with contextlib.redirect_stdout(sys.stderr):
                quantize_static(str(prepared), str(out), Reader(name, tensors), quant_format=QuantFormat.QDQ, per_channel=per_channel,
                                activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, calibrate_method=METHODS[method])
            return per_channel
        except ValueError:
            if not per_channel:
                raise


def compare(run, path, spec, pictures, labelled):
    calibration, measured = run.tensors(path, spec, pictures.calibration_files), run.tensors(path, spec, pictures.measured_files)
    plain = run.onnxruntime(path, measured)
    truth, named = plain.argmax(1), np.array(pictures.labels)
    rows = []

    def row(who, method, model, **more):
        found = dict(network=path.stem, quantiser=who, method=method, pictures=len(measured), labelled=int((named >= 0).sum()) if labelled else 0, **more)
        if model is not None:
            got = run.onnxruntime(model, measured)
            top = got.argmax(1)
            # A top-1 that several outputs share is nobody's to name.
            sure = (got == got.max(1, keepdims=True)).sum(1) == 1
            found.update(bytes=model.stat().st_size, agreement=float((top == truth).mean()), error=float(((got - plain) ** 2).mean() / (plain ** 2).mean()))
            if labelled:
                found["top1"] = float((top == named)[named >= 0].mean())
            usual = run.onnxruntime(model, measured, exact=False).argmax(1)
            found["default_agreement"] = float((usual == truth).mean())
            if labelled:
                found["default_top1"] = float((usual == named)[named >= 0].mean())
            others = [("graft", lambda: run.top1_of_graft(model, spec, pictures.measured))] if who != "onnxruntime" else []
            if run.a.openvino != "no" and who != "onnxruntime":
                others.append(("openvino", lambda: run.openvino(model, measured).argmax(1)))
            for other, answers in others:
                try:
                    theirs = answers()
                    found[other + "_agrees"] = float((theirs == top)[sure].mean())
                    found[other + "_with_float"] = float((theirs == truth).mean())
                    if labelled:
                        found[other + "_top1"] = float((theirs == named)[named >= 0].mean())
                except Exception as error:
                    found[other + "_refused"] = fail_text(error)
            found["ties"] = int((~sure).sum())
        rows.append(found)

    row("float", "", path)
    for method in run.a.methods:
        ours, theirs = run.work / "graft.onnx", run.work / "onnxruntime.onnx"
        for who, out in (("graft", ours), ("onnxruntime", theirs)):
            more = {}
            try:
                if who == "graft":
                    said = json.loads(run.graft("quantize", path, pictures.calibration, "--out", out, "--preprocess", spec, "--samples", 1 << 20, "--method", method,
                                                "--max-drop", run.a.max_drop, "--json"))
                    more["kept"] = len(said["kept"])
                else:
                    more["per_channel"] = by_onnxruntime(path, out, method, calibration, run.work)
                row(who, method, out, **more)
            except Exception as error:
                row(who, method, None, refused=fail_text(error))
        if run.a.keep:
            for out in (ours, theirs):
                if out.exists():
                    out.replace(pathlib.Path(run.a.keep) / f"{path.stem}-{method}-{out.name}")
    return rows


def percent(x):
    return "" if x is None else f"{100 * x:.1f}"


def table(rows):
    lines = ["| network | in eight bits by | top-1 | agreement | error | kB | float layers | OpenVINO top-1 | graft top-1 | same answer as ONNX Runtime's: OpenVINO, graft |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for r in rows:
        who = r["quantiser"] if not r["method"] else f"{r['quantiser']}, {r['method']}" + (", per tensor" if r.get("per_channel") is False else "")
        if "refused" in r:
            lines.append(f"| {r['network']} | {who} | refused: {r['refused']} | | | | | | | |")
            continue
        same = ", ".join(percent(r.get(o + "_agrees")) or r.get(o + "_refused", "-") for o in ("openvino", "graft"))
        share = lambda o: percent(r.get(o + "_top1") if r["labelled"] else r.get(o + "_with_float"))
        lines.append(f"| {r['network']} | {who} | {percent(r.get('top1'))} | {percent(r['agreement'])} | {r['error']:.2g} | {r['bytes'] / 1000:.0f} | {r.get('kept', '')} | "
                     f"{share('openvino')} | {share('graft')} | {same} |")
    return "\n".join(lines)


def verdict(rows):
    """By how many points graft's loss is above ONNX Runtime's, of each network and method; negative: graft loses less."""
    lines = ["| network | method | pictures | measure | float | graft | ONNX Runtime's | graft loses more, points | by default: graft | ONNX Runtime's |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for r in rows:
        if r["quantiser"] != "graft":
            continue
        base = next(x for x in rows if x["network"] == r["network"] and x["quantiser"] == "float")
        them = next(x for x in rows if x["network"] == r["network"] and x["quantiser"] == "onnxruntime" and x["method"] == r["method"])
        for measure, key in (("top-1", "top1"), ("agreement", "agreement")):
            if key not in base or (key == "agreement" and r["labelled"] == r["pictures"]):
                continue
            count = r["labelled"] if key == "top1" else r["pictures"]
            more = f"{100 * (them[key] - r[key]):+.1f}" if key in them and key in r else ""
            cells = [percent(x.get(k)) or "refused" for k in (key, "default_" + key) for x in (r, them)]
            lines.append(f"| {r['network']} | {r['method']} | {count} | {measure} | {percent(base[key])} | {cells[0]} | {cells[1]} | {more} | {cells[2]} | {cells[3]} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", type=pathlib.Path)
    parser.add_argument("--graft", default="build/release/graft")
    parser.add_argument("--methods", default="minmax,percentile,entropy", type=lambda s: s.split(","))
    parser.add_argument("--preprocess", default="imagenet", help="of networks that the script does not know")
    parser.add_argument("--classes", default="photos", choices=("mnist", "cifar10", "flowers", "imagenet1000", "imagenet1001", "darknet", "photos"), help="of those, too; photos: none")
    parser.add_argument("--max-drop", type=float, default=100)
    parser.add_argument("--calibrated", type=int, default=100, help="pictures that ranges are taken from")
    parser.add_argument("--measured", type=int, default=1000, help="pictures measured, of which there may be fewer")
    parser.add_argument("--photographs", type=int, default=250, help="the same, of photographs")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--openvino", choices=("auto", "no"), default="auto")
    parser.add_argument("--keep", help="a folder for the files in eight bits")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    if not SHARED.is_dir():
        raise SystemExit("GRAFT_SHARED has to name the folder with the pictures: pack/data and pack/photos")
    try:
        import openvino
        versions = f"OpenVINO {openvino.__version__.split('-')[0]}"
    except ImportError:
        arguments.openvino, versions = "no", "no OpenVINO"
    networks = arguments.networks or [SHARED / "models" / f"{name}.onnx" for name in KNOWN]
    print(f"ONNX Runtime {onnxruntime.__version__}, {versions}, onnx {onnx.__version__}, Python {platform.python_version()}\n", flush=True)
    rows, sets = [], {}
    with tempfile.TemporaryDirectory() as folder:
        run = Runner(arguments, pathlib.Path(folder))
        for path in networks:
            spec, kind = KNOWN.get(path.stem, (arguments.preprocess, arguments.classes))
            if kind not in sets:
                sets[kind] = Pictures(kind, run.work, arguments.calibrated, arguments.measured if kind in ("mnist", "cifar10") else arguments.photographs)
            try:
                rows += compare(run, path.resolve(), spec, sets[kind], kind != "photos")
            except Exception as error:
                print(f"{path.stem}: {fail_text(error)}", file=sys.stderr, flush=True)
                continue
            print(f"{path.stem}: done", file=sys.stderr, flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(rows, indent=1))
    print(verdict(rows) + "\n\n" + table(rows))


if __name__ == "__main__":
    main()
