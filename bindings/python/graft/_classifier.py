"""Pictures to names."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections import deque
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Optional, Sequence, Union, overload

import numpy as np

from ._library import Errors, EvaluationStruct, GraftError, Handle, address_of, lib, options, utf8

Picture = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, "np.ndarray[Any, Any]"]
"""A picture file by its path, the contents of one, or pixels: an array of bytes, height x width x 3 (RGB), or height x width (gray)."""


@dataclass(frozen=True)
class Prediction:
    """One answer of a classifier."""

    index: int
    """Of the model's output."""
    label: str
    """Its name, or the index as text where nothing names it."""
    probability: float


@dataclass(frozen=True)
class Evaluation:
    """How well a classifier knows labelled pictures. Shares are from 0 to 1."""

    top1: float
    top5: float
    loss: float
    """Mean cross-entropy."""
    balanced_accuracy: float
    """Mean recall of the classes."""
    macro_f1: float
    pictures: int
    """That were scored."""
    bad_pictures: int
    """That could not be read."""
    classes: int


class _Answerer(Handle):
    """A classifier of the engine, and where its errors go."""

    __slots__ = ("errors",)

    def __init__(self, model: Handle, how: Mapping[str, object]) -> None:
        self.errors = Errors()
        given = options(how)
        super().__init__(self.errors.call(lib.classifier_new, model.address, address_of(given)), lib.classifier_free)


class Classifier:
    """A model, its labels and its preprocessing, made by `Model.classifier`. Any number of threads may use it at once."""

    def __init__(self, model: Handle, how: Mapping[str, object]) -> None:
        self._model, self._how = model, how
        first = _Answerer(model, how)
        count = lib.classifier_label_count(first.address)
        self.labels: tuple[str, ...] = tuple(lib.classifier_label(first.address, i).decode(errors="replace") for i in range(count))
        """The names of the classes; none where nothing names them."""
        self.preprocess: str = lib.classifier_preprocess(first.address).decode()
        """How pictures become tensors."""
        self._idle: deque[_Answerer] = deque([first])

    @overload
    def classify(self, pictures: Picture, top: int = 5) -> list[Prediction]: ...  # type: ignore[overload-overlap]  # a path is a sequence too

    @overload
    def classify(self, pictures: Sequence[Picture], top: int = 5) -> list[list[Prediction]]: ...

    def classify(self, pictures: Any, top: int = 5) -> Any:
        """The `top` likeliest classes of a picture, likeliest first; of a sequence of pictures, or an array of several (N x height x width x 3), a list for
        each, in their order. Pixels in C order are read in place. Raises GraftError: image.*, preprocess.crop, classify.output, usage, and those of a run."""
        many = isinstance(pictures, Sequence) and not isinstance(pictures, (str, bytes, bytearray, memoryview)) or getattr(pictures, "ndim", 0) == 4
        held: list[Any] = []  # what pictures look at
        read = [self._picture(picture, held) for picture in (pictures if many else [pictures])]
        addresses = (ctypes.c_void_p * len(read))(*[picture.address for picture in read])
        with self._answerer() as answerer:
            found = answerer.errors.call(lib.classifier_classify, answerer.address, addresses, len(read), top)
        try:
            rows = [
                [
                    Prediction(
                        lib.predictions_index(found, p, i), lib.predictions_label(found, p, i).decode(errors="replace"), lib.predictions_probability(found, p, i)
                    )
                    for i in range(lib.predictions_size(found, p))
                ]
                for p in range(len(read))
            ]
        finally:
            lib.predictions_free(found)
        return rows if many else rows[0]

    def evaluate(self, data: Union[str, os.PathLike[str]], *, batch: Optional[int] = None, bad_share: Optional[float] = None) -> Evaluation:
        """Scores every picture of a dataset once, as `graft evaluate` does. `data`: an image folder, an IDX pair, CIFAR files or a CSV file, whose classes are the
        classifier's by their names. `bad_share`: of the pictures that may be unreadable. Raises GraftError: data.*, classify.output, usage, and those of a run."""
        how = options({"batch": batch, "bad_share": bad_share})
        found = EvaluationStruct(size=ctypes.sizeof(EvaluationStruct))
        with self._answerer() as answerer:
            answerer.errors.call(lib.classifier_evaluate, answerer.address, utf8(data), address_of(how), ctypes.addressof(found))
        return Evaluation(*(getattr(found, name) for name, *_ in EvaluationStruct._fields_[1:]))

    @contextlib.contextmanager
    def _answerer(self) -> Iterator[_Answerer]:
        """One that no other thread uses meanwhile."""
        try:
            answerer = self._idle.pop()
        except IndexError:
            answerer = _Answerer(self._model, self._how)
        try:
            yield answerer
        finally:
            self._idle.append(answerer)

    @staticmethod
    def _picture(picture: Any, held: list[Any]) -> Handle:
        errors = Errors()
        if isinstance(picture, (str, os.PathLike)):
            return Handle(errors.call(lib.picture_read, utf8(picture)), lib.picture_free)
        if isinstance(picture, (bytes, bytearray, memoryview)):
            contents = bytes(picture)
            return Handle(errors.call(lib.picture_decode, contents, len(contents)), lib.picture_free)
        pixels = np.asarray(picture)
        gray = pixels.ndim == 2
        if pixels.dtype != np.uint8 or not (gray or (pixels.ndim == 3 and pixels.shape[2] in (1, 3))):
            raise GraftError("usage", "picture", f"pixels are bytes (uint8), height x width x 3 or height x width, not {pixels.dtype} {pixels.shape}")
        pixels = np.ascontiguousarray(pixels)
        held.append(pixels)
        channels = 1 if gray else pixels.shape[2]
        address = errors.call(lib.picture_borrow, pixels.__array_interface__["data"][0], pixels.shape[0], pixels.shape[1], channels)
        return Handle(address, lib.picture_free)
