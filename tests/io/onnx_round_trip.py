"""Reads models with graft, writes them again, and asks onnx's checker and ONNX Runtime whether anything changed.

    tests/io/onnx_round_trip.py [--program FILE] [MODEL...]

Needs Python with numpy, onnx and onnxruntime, and a C++ compiler (CXX, default g++). Without models it takes made-up ones
(functions, bodies, narrow types) and those of the folder that GRAFT_SHARED names, where it is there.
"""
import argparse, os, pathlib, subprocess, sys, tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    sys.exit(print(f"skipped: {missing}") or 0)

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = r"""
#include <graft/io/onnx_read.hpp>
#include <graft/io/onnx_write.hpp>
int main(int count, char** arguments) {
    auto read = graft::read_onnx_file(arguments[1]);
    if (!read.ok()) return std::fprintf(stderr, "%s\n", read.error().what()), 1;
    auto wrote = graft::write_onnx_file(*read, arguments[2], count > 3 ? std::atoll(arguments[3]) : graft::most_model_bytes);
    if (!wrote.ok()) return std::fprintf(stderr, "%s\n", wrote.error().what()), 1;
    auto again = graft::read_onnx_file(arguments[2]);
    std::vector<std::uint8_t> first, second;
    if (!again.ok() || !graft::write_onnx(*read, first).ok() || !graft::write_onnx(*again, second).ok()) return 2;
    return first == second ? 0 : 3;
}
"""
NUMPY = {"tensor(float)": "f4", "tensor(float16)": "f2", "tensor(double)": "f8", "tensor(bool)": "?",
         **{f"tensor({t})": t for t in "int8 uint8 int16 uint16 int32 uint32 int64 uint64".split()}}


def run(path, feeds=None):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    if feeds is None:
        random = np.random.default_rng(0)
        feeds = {}
        for i in session.get_inputs():
            shape = [d if isinstance(d, int) and d > 0 else 1 for d in i.shape]
            feeds[i.name] = np.asarray(random.uniform(0, 1, shape) * (1 if "float" in i.type else 100)).astype(NUMPY[i.type])
    sides = [[(v.name, v.shape, v.type) for v in side] for side in (session.get_inputs(), session.get_outputs())]
    return feeds, session.run(None, feeds), sides


def compare(before, after, plain):
    onnx.checker.check_model(str(after), full_check=True)
    a, b = onnx.load(before), onnx.load(after)
    domains = {(o.domain, o.version) for o in a.opset_import}
    assert domains <= {(o.domain, o.version) for o in b.opset_import} if plain else True, "operator sets"
    assert [(m.key, m.value) for m in a.metadata_props] == [(m.key, m.value) for m in b.metadata_props], "metadata"
    assert a.producer_name == b.producer_name and a.ir_version <= b.ir_version, "producer, IR version"
    assert {i.name for i in a.graph.initializer} == {i.name for i in b.graph.initializer}, "initializers"
    if plain:
        assert [n.name for n in a.graph.node] == [n.name for n in b.graph.node], "node names"
    feeds, outputs, sides = run(before)
    _, outputs_again, sides_again = run(after, feeds)
    assert sides == sides_again, (sides, sides_again)
    for x, y in zip(outputs, outputs_again):
        assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f"), "outputs differ"


def function_model():
    """Functions in functions, with attribute references, a default, bodies that capture."""
    scale = helper.make_node("Constant", [], ["factor"])
    scale.attribute.append(onnx.AttributeProto(name="value_float", ref_attr_name="by", type=onnx.AttributeProto.FLOAT))
    inner = helper.make_function("own", "scaled", ["x"], ["y", "untouched"], [scale, helper.make_node("Mul", ["x", "factor"], ["y"]),
                                 helper.make_node("Identity", ["factor"], ["untouched"])],
                                 [helper.make_opsetid("", 17)], [], [helper.make_attribute("by", 3.0)])
    call = helper.make_node("scaled", ["a"], ["t", "t2"], domain="own")
    passing = helper.make_node("scaled", ["t"], ["u", "u2"], domain="own")
    passing.attribute.append(onnx.AttributeProto(name="by", ref_attr_name="outer", type=onnx.AttributeProto.FLOAT))
    then = helper.make_graph([helper.make_node("Add", ["u", "b"], ["sum"])], "then", [], [helper.make_tensor_value_info("sum", 1, None)])
    other = helper.make_graph([helper.make_node("Sub", ["u", "b"], ["r"])], "else", [], [helper.make_tensor_value_info("r", 1, None)])
    outer = helper.make_function("own", "both", ["a", "b", "c"], ["r", "copy"], [call, passing, helper.make_node("Identity", ["b"], ["copy"]),
                                 helper.make_node("If", ["c"], ["r"], then_branch=then, else_branch=other)],
                                 [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)], ["outer"], [])
    nodes = [helper.make_node("both", ["p", "q", "yes"], ["r0", "b0"], domain="own", outer=0.5),
             helper.make_node("both", ["r0", "p", "no"], ["r1", "b1"], domain="own", name="second", outer=2.0)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, 1, ["N", 3]) for n in "pq"] +
                              [helper.make_tensor_value_info(n, TensorProto.BOOL, []) for n in ("yes", "no")],
                              [helper.make_tensor_value_info(n, 1, None) for n in ("r1", "b0", "b1")])
    for o in graph.output:
        o.type.tensor_type.shape.dim.add().dim_param = "N"
        o.type.tensor_type.shape.dim.add().dim_value = 3
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)], ir_version=8, functions=[inner, outer])


def nested_model():
    """A Loop in an If, three graphs deep, reading values and constants of both graphs around it."""
    body = helper.make_graph([helper.make_node("Add", ["acc", "w"], ["s"]), helper.make_node("Mul", ["s", "x"], ["acc_out"]),
                              helper.make_node("Identity", ["cond"], ["cond_out"])], "body",
                             [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("cond", 9, []), helper.make_tensor_value_info("acc", 1, [2])],
                             [helper.make_tensor_value_info("cond_out", 9, []), helper.make_tensor_value_info("acc_out", 1, [2])])
    then = helper.make_graph([helper.make_node("Add", ["x", "local"], ["start"]), helper.make_node("Loop", ["n", "", "start"], ["y"], body=body)], "then", [],
                             [helper.make_tensor_value_info("y", 1, [2])], [numpy_helper.from_array(np.array([1, -1], "f4"), "local")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["z"])], "else", [], [helper.make_tensor_value_info("z", 1, [2])])
    graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)], "g",
                              [helper.make_tensor_value_info("x", 1, [2]), helper.make_tensor_value_info("c", 9, [])],
                              [helper.make_tensor_value_info("y", 1, [2])],
                              [numpy_helper.from_array(np.array([0.5, 2], "f4"), "w"), numpy_helper.from_array(np.array(3, "i8"), "n")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def typed_model(raw):
    """An initializer of every element type, cast to float; in raw_data, or in the field of its type."""
    nodes, initializers, outputs = [], [], []
    kinds = ["FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "BOOL", "FLOAT16", "DOUBLE", "UINT32", "UINT64", "BFLOAT16", "FLOAT8E4M3FN",
             "FLOAT8E5M2", "UINT4", "INT4"]
    for kind in kinds:
        number = getattr(TensorProto, kind)
        values = [0, 1, 2, 3, 5, 6, 7] if kind.startswith("U") else [0, 1, 1, 0, 1, 1, 0] if kind == "BOOL" else [0, 1, -2, 3, -5, 6, 7]
        t = helper.make_tensor(kind, number, [7], values)
        if raw:
            t = numpy_helper.from_array(numpy_helper.to_array(t), kind)
            assert t.data_type == number, kind
        initializers.append(t)
        nodes.append(helper.make_node("Cast", [kind], ["as_" + kind], to=TensorProto.FLOAT))
        outputs.append(helper.make_tensor_value_info("as_" + kind, 1, [7]))
    graph = helper.make_graph(nodes, "g", [], outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def default_model():
    """IR version 3: every initializer is an input as well."""
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", 1, [2]), helper.make_tensor_value_info("w", 1, [2])],
                              [helper.make_tensor_value_info("y", 1, [2])], [numpy_helper.from_array(np.array([0.5, 2], "f4"), "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3)
    model.metadata_props.add(key="k", value="v")
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", help="the program that reads and writes, where it is built already")
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    given = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    failures, done = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program = given.program or folder / "round_trip"
        if not given.program:
            (folder / "round_trip.cpp").write_text(PROGRAM)
            subprocess.run([os.environ.get("CXX", "g++"), "-std=c++17", "-O1", f"-I{ROOT / 'include'}", folder / "round_trip.cpp", "-o", program], check=True)
        cases = [(m, True) for m in given.models]
        if not cases:
            made = {"functions": function_model(), "nested": nested_model(), "typed": typed_model(False), "raw": typed_model(True), "defaults": default_model()}
            for name, model in made.items():
                onnx.checker.check_model(model, full_check=name != "functions")
                onnx.save(model, folder / f"{name}.onnx")
                cases.append((folder / f"{name}.onnx", name != "functions"))
            models = pathlib.Path(os.environ.get("GRAFT_SHARED", ROOT.parent / "shared")) / "pack" / "models"
            if not models.is_dir():
                print("skipped: the models of GRAFT_SHARED are not there")
            cases += [(m, True) for m in sorted(models.glob("**/*.onnx"))]
        for model, plain in cases:
            for inline in ([], ["1000"]):
                out = folder / "out" / "again.onnx"
                out.parent.mkdir(exist_ok=True)
                for old in out.parent.iterdir():
                    old.unlink()
                done += 1
                try:
                    subprocess.run([program, model, out, *inline], check=True, capture_output=True, text=True)
                    compare(model, out, plain)
                except Exception as e:
                    failures += 1
                    print(f"{model} {inline}: {e} {getattr(e, 'stderr', '')}"[:2000])
    print(f"{done} round trips, {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
