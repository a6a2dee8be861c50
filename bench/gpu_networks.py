#!/usr/bin/env python3
"""Exports the networks that bench/gpu measures: random weights (seed 0), opset 17, the batch open.

    bench/gpu_networks.py FOLDER [--networks resnet18,...] [--side 224] [--train resnet18,...] [--check GRAFT_TIME]

Writes FOLDER/NAME.onnx and FOLDER/NAME.pt (its weights, for PyTorch), FOLDER/train/NAME.onnx (100 classes, batch normalisation unfused, by
bench/export_training.py), and FOLDER/networks.json: of each network the multiply-adds and the fewest elements that its matrix operators
move. --check holds the answers of ONNX Runtime, and of graft on the CPU by the program gpu_time, against PyTorch's. Needs torch, torchvision
and onnx; vit_tiny_patch16_224 needs timm.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import warnings

import numpy as np
import torch
import torchvision

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

NETWORKS = "resnet18,resnet50,mobilenet_v2,efficientnet_b0,convnext_tiny,vit_tiny_patch16_224"
TRAINED = "resnet18,resnet50,mobilenet_v2"


def pictures(batch, side, seed=1):
    """The numbers that fill() of gpu_common.hpp makes."""
    i = np.arange(batch * 3 * side * side, dtype=np.int64)
    return torch.from_numpy(((i * 7919 + seed * 104729) % 257 / 64 - 2).astype(np.float32).reshape(batch, 3, side, side))


def module(name, side=224):
    if name.startswith("vit_"):
        import timm
        return timm.create_model(name, pretrained=False, img_size=side)
    return getattr(torchvision.models, name)(weights=None)


def drawn(name, side):
    """The network with weights of seed 0. Batch normalisation gets the statistics of random pictures, so that numbers stay of one size."""
    torch.manual_seed(0)
    network = module(name, side)
    norms = [m for m in network.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = None
    if norms:
        network.train()
        with torch.no_grad():
            network(torch.randn(4, 3, side, side))
    for norm in norms:
        norm.momentum = 0.1
        norm.weight.data.uniform_(0.8, 1.2)
        norm.bias.data.uniform_(-0.1, 0.1)
    return network.eval()


def saved(folder, name, side):
    """The network with the weights that FOLDER/NAME.pt holds."""
    network = module(name, side)
    network.load_state_dict(torch.load(folder / f"{name}.pt", weights_only=True))
    return network.eval()


def counts(path, side):
    """Of a sample: multiply-adds, and the elements that Conv, Gemm and MatMul read and write if each reads and writes once and everything
    else is fused into them; each entry [multiply-adds, elements of activations, elements of weights]."""
    import onnx
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    del model.graph.value_info[:]
    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in [*graph.value_info, *graph.input, *graph.output]}
    weights = {w.name: list(w.dims) for w in graph.initializer}
    rows = []
    for node in graph.node:
        if node.op_type not in ("Conv", "Gemm", "MatMul"):
            continue
        known = {n: shapes.get(n) or weights.get(n) for n in [*node.input[:2], node.output[0]]}
        if any(not s or 0 in s for s in known.values()):
            return None
        a, b, y = (known[n] for n in [*node.input[:2], node.output[0]])
        inner = int(np.prod(b[1:])) if node.op_type == "Conv" else a[-1]
        fixed = node.input[1] in weights
        rows.append([int(np.prod(y)) * inner, int(np.prod(a) + np.prod(y)) + (0 if fixed else int(np.prod(b))), int(np.prod(b)) if fixed else 0])
    return rows


def export(name, folder, side):
    network = drawn(name, side)
    torch.save(network.state_dict(), folder / f"{name}.pt")
    path = folder / f"{name}.onnx"
    with torch.no_grad():
        torch.onnx.export(network, (pictures(2, side),), str(path), opset_version=17, dynamo=False, input_names=["input"], output_names=["logits"],
                          dynamic_axes={"input": {0: "N"}, "logits": {0: "N"}})
    return path


def check(name, folder, side, program):
    import onnxruntime
    x = pictures(3, side)
    with torch.no_grad():
        want = saved(folder, name, side)(x).numpy()
    got = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), providers=["CPUExecutionProvider"]).run(None, {"input": x.numpy()})[0]
    found = {"kind": "export", "network": name, "onnxruntime": float(np.abs(got - want).max() / np.abs(want).max())}
    if program:
        answer = json.loads(subprocess.run([program, "once", str(folder / f"{name}.onnx"), "--device", "cpu", "--batch", "3"], check=True, capture_output=True, text=True).stdout)
        found["graft"] = float(np.abs(np.array(answer["answer"]) - want.reshape(-1)[:len(answer["answer"])]).max() / np.abs(want).max())
    print(json.dumps(found), flush=True)
    return all(v < 1e-4 for v in found.values() if isinstance(v, float))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--networks", default=NETWORKS)
    parser.add_argument("--train", default=TRAINED)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--check", metavar="GRAFT_TIME")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    (arguments.folder / "train").mkdir(parents=True, exist_ok=True)
    failed, rows = [], {}
    for name in filter(None, arguments.networks.split(",")):
        try:
            path = export(name, arguments.folder, arguments.side)
            rows[name] = {"matrix": counts(path, arguments.side), "side": arguments.side}
            print(path, flush=True)
            if arguments.check and not check(name, arguments.folder, arguments.side, arguments.check):
                failed.append(name)
        except Exception as error:  # one network that an exporter cannot write does not take the others along
            print(json.dumps({"kind": "failure", "network": name, "why": f"{type(error).__name__}: {error}"[:300]}), flush=True)
            failed.append(name)
    (arguments.folder / "networks.json").write_text(json.dumps(rows))
    import export_training
    for name in filter(None, arguments.train.split(",")):
        export_training.export(name, arguments.folder / "train")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
