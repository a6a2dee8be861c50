"""Models: what they are, and runs."""

from __future__ import annotations

import ctypes
import os
from collections import deque
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union, overload

import numpy as np

from ._arrays import number_of, shared
from ._classifier import Classifier, Evaluation, Picture, Prediction
from ._library import Errors, GraftError, Handle, address_of, lib, options, utf8


class Value(NamedTuple):
    """An input or an output of a model."""

    name: str
    dtype: str
    """numpy's name of the element type, or ONNX's in lower case where numpy has none ("bfloat16")."""
    shape: Optional[tuple[Union[int, str, None], ...]]
    """Extents; of an open axis its name, or None where it has none. None where the file does not say."""
    has_default: bool
    """Of an input: whether the model has a value that serves where none is given."""


def _value(at: int) -> Value:
    def extent(axis: int) -> Union[int, str, None]:
        known = int(lib.value_extent(at, axis))
        return known if known >= 0 else lib.value_dimension(at, axis).decode() or None

    rank = lib.value_rank(at)
    shape = tuple(extent(axis) for axis in range(rank)) if rank >= 0 else None
    dtype = lib.dtype_name(lib.value_dtype(at)).decode()
    return Value(lib.value_name(at).decode(errors="replace"), dtype, shape, bool(lib.value_has_default(at)))


class _Session(Handle):
    """A session, where its errors go, and the shapes that it was given."""

    __slots__ = ("errors", "shapes")

    def __init__(self, model: Handle) -> None:
        self.errors = Errors()
        self.shapes: dict[tuple[int, ...], Any] = {}
        super().__init__(self.errors.call(lib.session_new, model.address, None), lib.session_free)

    def shape(self, extents: tuple[int, ...]) -> Any:
        found = self.shapes.get(extents)
        if found is None:
            if len(self.shapes) >= 64:
                self.shapes.clear()
            found = self.shapes[extents] = (ctypes.c_int64 * len(extents))(*extents)
        return found


class Model:
    """A loaded network, made by `graft.load`. Any number of threads may use it at once."""

    def __init__(self, handle: Handle) -> None:
        at = handle.address
        self._handle = handle
        self.inputs: tuple[Value, ...] = tuple(_value(lib.model_input(at, i)) for i in range(lib.model_input_count(at)))
        """Inputs in the file's order; those with a default come too."""
        self.outputs: tuple[Value, ...] = tuple(_value(lib.model_output(at, i)) for i in range(lib.model_output_count(at)))
        self.metadata: dict[str, str] = {
            lib.model_metadata_key(at, i).decode(errors="replace"): lib.model_metadata_value(at, i).decode(errors="replace") for i in range(lib.model_metadata_count(at))
        }
        self.device: str = lib.model_device(at).decode()
        """What it runs on: "cpu", "cuda:0"."""
        self._places = {value.name: i for i, value in enumerate(self.inputs)}
        # A thread that runs takes one and gives it back, so that there are as many as ran at once.
        self._idle: deque[_Session] = deque()
        self._classifier: Optional[Classifier] = None

    def __repr__(self) -> str:
        def described(value: Value) -> str:
            extents = "of any rank" if value.shape is None else "[" + ",".join("?" if e is None else str(e) for e in value.shape) + "]"
            return f"{value.name} {value.dtype} {extents}"

        return f"<graft.Model ({', '.join(map(described, self.inputs))}) -> ({', '.join(map(described, self.outputs))}) on {self.device}>"

    def run(self, inputs: Union[Mapping[str, Any], Any]) -> dict[str, np.ndarray[Any, Any]]:
        """Runs on arrays by the names of inputs, or on one array where the model has one input that must be given.

        Inputs are read in place: arrays, or what numpy sees as one without a copy, of the element type and shape that the model asks for, in C order.
        Nothing is converted. Outputs are arrays by name over the engine's memory, which they keep. Other threads run meanwhile. Raises GraftError:
        input.name, input.dtype, input.shape, usage (order of memory), memory.*, op.*, device.*.
        """
        given = inputs if isinstance(inputs, Mapping) else {self._only_input(): inputs}
        try:
            session = self._idle.pop()
        except IndexError:
            session = _Session(self._handle)
        # One that failed may still look at an array of this call: it is dropped.
        held = [self._give(session, name, value) for name, value in given.items()]
        errors, at = session.errors, session.address
        errors.call(lib.session_run, at)
        del held
        outputs = {value.name: shared(lib.session_output(at, i), errors, value.name) for i, value in enumerate(self.outputs)}
        self._idle.append(session)
        return outputs

    def _give(self, session: _Session, name: str, value: Any) -> np.ndarray[Any, Any]:
        place = self._places.get(name)
        if place is None:
            raise GraftError("input.name", str(name), "the model has no such input; it has " + ", ".join(self._places))
        array = value if type(value) is np.ndarray else np.asarray(value)
        number = number_of(array, f"input {name}")
        session.errors.call(
            lib.session_set_input, session.address, place, number, session.shape(array.shape), array.ndim, array.__array_interface__["data"][0], array.nbytes
        )
        return array

    def _only_input(self) -> str:
        asked = [value.name for value in self.inputs if not value.has_default]
        if len(asked) != 1:
            raise GraftError("input.name", "inputs", f"the model has {len(asked)} inputs that must be given: name them, as {{name: array}}")
        return asked[0]

    def classifier(
        self,
        *,
        labels: Union[str, os.PathLike[str], None] = None,
        preprocess: Optional[str] = None,
        output: Optional[str] = None,
    ) -> Classifier:
        """A classifier of the model. `labels`: a text file with one name a line; `preprocess`: how pictures become tensors, such as "imagenet,crop=224";
        `output`: the output that names classes. What is not given is the model's own. Raises GraftError."""
        return Classifier(self._handle, {"labels": labels, "preprocess": preprocess, "output": output})

    @overload
    def classify(self, pictures: Picture, top: int = 5) -> list[Prediction]: ...  # type: ignore[overload-overlap]  # a path is a sequence too

    @overload
    def classify(self, pictures: Sequence[Picture], top: int = 5) -> list[list[Prediction]]: ...

    def classify(self, pictures: Any, top: int = 5) -> Any:
        """The `top` likeliest classes of a picture, or of each of several: see `Classifier.classify`."""
        return self._own_classifier().classify(pictures, top)

    def evaluate(self, data: Union[str, os.PathLike[str]], *, batch: Optional[int] = None, bad_share: Optional[float] = None) -> Evaluation:
        """Scores every picture of a dataset once: see `Classifier.evaluate`."""
        return self._own_classifier().evaluate(data, batch=batch, bad_share=bad_share)

    def _own_classifier(self) -> Classifier:
        if self._classifier is None:
            self._classifier = self.classifier()
        return self._classifier


def load(
    model: Union[str, os.PathLike[str], bytes, bytearray, memoryview],
    *,
    device: Optional[str] = None,
    precision: Optional[str] = None,
    threads: Optional[int] = None,
    exact: Optional[bool] = None,
    deterministic: Optional[bool] = None,
    strict_placement: Optional[bool] = None,
    open_batch: Optional[bool] = None,
    memory_bytes: Optional[int] = None,
) -> Model:
    """Loads an ONNX model from a file or from its bytes.

    device: "auto" (a GPU that can be used, else the CPU), "cpu", "cuda", "cuda:1". precision: "auto", "float32", "tf32", "float16", "bfloat16", as the device
    has them. threads: of runs; 0 or None: as many as the process may use. exact: no algorithms that reorder sums. deterministic: only algorithms that
    give the same bits every time, on a GPU. strict_placement: a node that the device does not take is an error. open_batch: a network that was exported for a
    fixed batch takes any, where that can be proved to mean the same. memory_bytes: what the model and one run take, together, at most. Raises GraftError.
    """
    how = options(
        {
            "device": device,
            "precision": precision,
            "threads": threads,
            "exact": exact,
            "deterministic": deterministic,
            "strict_placement": strict_placement,
            "open_batch": open_batch,
            "memory_bytes": memory_bytes,
        }
    )
    errors = Errors()
    if isinstance(model, (str, os.PathLike)):
        address = errors.call(lib.model_load, utf8(model), address_of(how))
    else:
        contents = bytes(model)
        address = errors.call(lib.model_load_bytes, contents, len(contents), address_of(how))
    return Model(Handle(address, lib.model_free))
