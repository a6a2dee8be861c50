"""Models: answers are the program's to the bit, memory is neither copied nor leaked, and what does not fit is said."""

import gc
import threading

import numpy as np
import pytest
from conftest import DEMO, resident_bytes

import graft


def refused(call, code):
    with pytest.raises(graft.GraftError) as raised:
        call()
    error = raised.value
    assert error.code == code and error.where and error.detail, error
    assert str(error) == f"{error.code}: {error.where}: {error.detail}"
    return error.detail


def test_a_model_tells_what_it_is(model):
    assert model.inputs == (graft.Value("input", "float32", ("N", 3, 64, 64), False),)
    assert model.outputs == (graft.Value("logits", "float32", ("N", 8), False),)
    assert model.device == "cpu"
    assert "moon" in model.metadata["graft.labels"]
    assert repr(model) == "<graft.Model (input float32 [N,3,64,64]) -> (logits float32 [N,8]) on cpu>"


@pytest.mark.parametrize("batch", [1, 5])
def test_a_run_has_the_bits_of_the_program(model, program, pictures, tmp_path, batch):
    x = pictures(batch)
    np.save(tmp_path / "x.npy", x)
    program("run", DEMO / "model.onnx", "--input", f"input={tmp_path / 'x.npy'}", "--output-dir", tmp_path)
    expected = np.load(tmp_path / "logits.npy")
    for given in ({"input": x}, x, {"input": memoryview(x)}):
        outputs = model.run(given)
        assert list(outputs) == ["logits"]
        assert outputs["logits"].dtype == np.float32
        assert outputs["logits"].tobytes() == expected.tobytes()
        assert outputs["logits"].shape == expected.shape


def test_bytes_load_as_a_file_does(model, pictures):
    contents = (DEMO / "model.onnx").read_bytes()
    for given in (contents, bytearray(contents), memoryview(contents), str(DEMO / "model.onnx")):
        assert np.array_equal(graft.load(given, device="cpu").run(pictures(2))["logits"], model.run(pictures(2))["logits"])


def test_onnxruntime_agrees(model, pictures):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(DEMO / "model.onnx", providers=["CPUExecutionProvider"])
    x = pictures(3)
    np.testing.assert_allclose(model.run(x)["logits"], session.run(["logits"], {"input": x})[0], rtol=1e-4, atol=1e-4)


def test_an_output_stays_as_it_is(model, pictures):
    first = model.run(pictures(1, 1))["logits"]
    kept = first.copy()
    view = first[0, 2:]
    second = model.run(pictures(1, 2))["logits"]
    assert not np.array_equal(first, second)
    del first, second, model
    gc.collect()
    assert np.array_equal(view, kept[0, 2:])
    view += 1  # it is the caller's


def test_eight_threads_run_one_model(model, pictures):
    inputs = [pictures(1, seed) for seed in range(8)]
    expected = [model.run(x)["logits"].tobytes() for x in inputs]
    wrong = []

    def work(i):
        for _ in range(50):
            if model.run(inputs[i])["logits"].tobytes() != expected[i]:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_other_threads_run_meanwhile(model, pictures):
    """A thread that counts gets on while another is in the engine, so that the interpreter's lock is not held there."""
    x, counted, over = pictures(256), 0, threading.Event()
    begun = threading.Event()

    def work():
        begun.set()
        for _ in range(3):
            model.run(x)
        over.set()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    while not over.wait(0.0005):
        counted += 1
    thread.join()
    assert counted > 3


def test_nothing_leaks_over_ten_thousand_calls(model, pictures):
    x, wrong = pictures(1), np.zeros((1, 3, 64, 63), np.float32)

    def calls(count):
        for _ in range(count):
            model.run(x)
            try:
                model.run(wrong)
            except graft.GraftError:
                pass

    calls(500)
    gc.collect()
    before = resident_bytes()
    calls(10000)
    gc.collect()
    # A tensor of 32 bytes, or a text of 100, that stayed behind each time would be more.
    assert resident_bytes() - before < 1 << 19


def test_models_and_classifiers_go_with_their_objects():
    def one():
        m = graft.load(DEMO / "model.onnx", device="cpu")
        m.classify(DEMO / "pictures/moon-1.png")

    for _ in range(20):
        one()
    gc.collect()
    before = resident_bytes()
    for _ in range(200):
        one()
    gc.collect()
    assert resident_bytes() - before < 8 << 20  # a model of 200 would take forty times that


def test_arrays_that_do_not_fit_are_refused_with_a_sentence(model, pictures):
    x = pictures(2)
    assert "it is float64, the model asks for float32" in refused(lambda: model.run(x.astype(np.float64)), "input.dtype")
    assert "float16" in refused(lambda: model.run(x.astype(np.float16)), "input.dtype")
    assert "byte order" in refused(lambda: model.run(x.astype(">f4")), "input.dtype")
    assert "complex64" in refused(lambda: model.run(x.astype(np.complex64)), "input.dtype")
    assert "[2,3,64,63]" in refused(lambda: model.run(np.zeros((2, 3, 64, 63), np.float32)), "input.shape")
    assert "[64,64]" in refused(lambda: model.run(np.zeros((64, 64), np.float32)), "input.shape")
    for order in (x.transpose(0, 1, 3, 2), x[:, ::-1], np.asfortranarray(x), x[::2, :, ::2]):
        assert "ascontiguousarray" in refused(lambda: model.run(order), "usage")
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
    assert "aligned" in refused(lambda: model.run(unaligned), "usage")
    assert "it has input" in refused(lambda: model.run({"inptu": x}), "input.name")
    refused(lambda: model.run({}), "input.name")
    assert model.run(x)["logits"].shape == (2, 8)
    assert model.run(np.zeros((0, 3, 64, 64), np.float32))["logits"].shape == (0, 8)


def test_files_that_are_none_raise(tmp_path):
    contents = (DEMO / "model.onnx").read_bytes()
    for size in (1, len(contents) // 3, len(contents) - 1):
        with pytest.raises(graft.GraftError) as raised:
            graft.load(contents[:size])
        assert raised.value.code.startswith("model.")
    refused(lambda: graft.load(tmp_path / "none.onnx"), "file.open")
    refused(lambda: graft.load(b""), "model.truncated")
    with pytest.raises(ValueError, match="zero byte"):
        graft.load("model\0.onnx")


def test_options_are_told(pictures):
    path = DEMO / "model.onnx"
    one = graft.load(path, device="cpu", threads=1, exact=True, memory_bytes=1 << 30).run(pictures(1))["logits"]
    np.testing.assert_allclose(one, graft.load(path, device="cpu").run(pictures(1))["logits"], rtol=1e-4, atol=1e-5)
    assert "1024" in refused(lambda: graft.load(path, threads=-1), "usage")
    refused(lambda: graft.load(path, device="abacus"), "device.unavailable")
    refused(lambda: graft.load(path, device="cpu", precision="float31"), "usage")
    refused(lambda: graft.load(path, device="cpu", memory_bytes=1000).run(pictures(1)), "memory.budget")
    with pytest.raises(TypeError):
        graft.load(path, thread=1)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_floats_of_16_and_8_bits_go_in_and_out(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    onnx = pytest.importorskip("onnx")
    dtype = np.dtype(getattr(np, name, None) or getattr(ml_dtypes, name))
    number = getattr(onnx.TensorProto, name.replace("_", "").upper())
    make = onnx.helper
    x, y = (make.make_tensor_value_info(n, number, ["N"]) for n in "xy")
    nodes = [make.make_node("Cast", ["x"], ["w"], to=onnx.TensorProto.FLOAT), make.make_node("Neg", ["w"], ["n"]), make.make_node("Cast", ["n"], ["y"], to=number)]
    made = make.make_model(make.make_graph(nodes, "g", [x], [y]), opset_imports=[make.make_opsetid("", 19)], ir_version=9)
    model = graft.load(made.SerializeToString(), device="cpu")
    assert model.inputs[0].dtype == name.replace("_", "")
    found = model.run(np.array([1, -2.5, 0.125], dtype))["y"]
    assert found.dtype == dtype
    assert found.astype(np.float32).tolist() == [-1, 2.5, -0.125]


def test_the_version_is_that_of_the_headers():
    header = (DEMO.parents[2] / "include/graft/version.hpp").read_text()
    numbers = [line.split()[-1] for line in header.splitlines() if line.startswith("#define GRAFT_VERSION_")]
    assert graft.__version__ == ".".join(numbers)
