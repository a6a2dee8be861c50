"""libgraft by ctypes: the functions of graft.h, which let go of the interpreter's lock while they run, and failures as exceptions."""

from __future__ import annotations

import ctypes
import os
import pathlib
import sys
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from typing import Any, Mapping, Optional

_ABI = 1


class GraftError(Exception):
    """What went wrong: a `code` such as "op.shape" (docs/errors.md lists all), the place, and a sentence with the fix."""

    def __init__(self, code: str, where: str, detail: str) -> None:
        super().__init__(code, where, detail)
        self.code, self.where, self.detail = code, where, detail

    def __str__(self) -> str:
        return f"{self.code}: {self.where}: {self.detail}"


class ProgressStruct(ctypes.Structure):
    _fields_ = [
        ("event", c_int),
        ("epoch", c_int64),
        ("epochs", c_int64),
        ("step", c_int64),
        ("steps", c_int64),
        ("loss", c_double),
        ("top1", c_double),
        ("learning_rate", c_double),
        ("images_per_s", c_double),
        ("seconds_left", c_double),
        ("text", c_char_p),
    ]


class ResultStruct(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("best_top1", c_double),
        ("best_loss", c_double),
        ("best_epoch", c_int64),
        ("epochs", c_int64),
        ("images_per_s", c_double),
        ("seconds", c_double),
        ("bad_pictures", c_int64),
        ("training_pictures", c_int64),
        ("validation_pictures", c_int64),
        ("classes", c_int64),
        ("stopped", c_int),
    ]


class EvaluationStruct(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("top1", c_double),
        ("top5", c_double),
        ("loss", c_double),
        ("balanced_accuracy", c_double),
        ("macro_f1", c_double),
        ("pictures", c_int64),
        ("bad_pictures", c_int64),
        ("classes", c_int64),
    ]


ProgressFunction = ctypes.CFUNCTYPE(c_int, POINTER(ProgressStruct), c_void_p)

# What each function returns and takes. Handles, and errors to be filled, are addresses.
_FUNCTIONS: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
    "abi_version": (c_int, ()),
    "version": (c_char_p, ()),
    "error_code": (c_char_p, (c_void_p,)),
    "error_where": (c_char_p, (c_void_p,)),
    "error_detail": (c_char_p, (c_void_p,)),
    "error_free": (None, (c_void_p,)),
    "options_new": (c_void_p, ()),
    "options_set": (c_int, (c_void_p, c_char_p, c_char_p, c_void_p)),
    "options_free": (None, (c_void_p,)),
    "dtype_name": (c_char_p, (c_int,)),
    "model_load": (c_void_p, (c_char_p, c_void_p, c_void_p)),
    "model_load_bytes": (c_void_p, (c_char_p, c_size_t, c_void_p, c_void_p)),
    "model_free": (None, (c_void_p,)),
    "model_input_count": (c_size_t, (c_void_p,)),
    "model_output_count": (c_size_t, (c_void_p,)),
    "model_input": (c_void_p, (c_void_p, c_size_t)),
    "model_output": (c_void_p, (c_void_p, c_size_t)),
    "model_metadata_count": (c_size_t, (c_void_p,)),
    "model_metadata_key": (c_char_p, (c_void_p, c_size_t)),
    "model_metadata_value": (c_char_p, (c_void_p, c_size_t)),
    "model_device": (c_char_p, (c_void_p,)),
    "value_name": (c_char_p, (c_void_p,)),
    "value_dtype": (c_int, (c_void_p,)),
    "value_rank": (c_int, (c_void_p,)),
    "value_extent": (c_int64, (c_void_p, c_int)),
    "value_dimension": (c_char_p, (c_void_p, c_int)),
    "value_has_default": (c_int, (c_void_p,)),
    "session_new": (c_void_p, (c_void_p, c_void_p, c_void_p)),
    "session_free": (None, (c_void_p,)),
    "session_set_input": (c_int, (c_void_p, c_size_t, c_int, c_void_p, c_int, c_void_p, c_size_t, c_void_p)),
    "session_run": (c_int, (c_void_p, c_void_p)),
    "session_output": (c_void_p, (c_void_p, c_size_t)),
    "tensor_dtype": (c_int, (c_void_p,)),
    "tensor_rank": (c_int, (c_void_p,)),
    "tensor_shape": (POINTER(c_int64), (c_void_p,)),
    "tensor_data": (c_void_p, (c_void_p,)),
    "tensor_share": (c_void_p, (c_void_p, c_void_p)),
    "tensor_free": (None, (c_void_p,)),
    "picture_read": (c_void_p, (c_char_p, c_void_p)),
    "picture_decode": (c_void_p, (c_char_p, c_size_t, c_void_p)),
    "picture_borrow": (c_void_p, (c_void_p, c_int64, c_int64, c_int, c_void_p)),
    "picture_free": (None, (c_void_p,)),
    "classifier_new": (c_void_p, (c_void_p, c_void_p, c_void_p)),
    "classifier_free": (None, (c_void_p,)),
    "classifier_label_count": (c_size_t, (c_void_p,)),
    "classifier_label": (c_char_p, (c_void_p, c_size_t)),
    "classifier_preprocess": (c_char_p, (c_void_p,)),
    "classifier_classify": (c_void_p, (c_void_p, c_void_p, c_size_t, c_int, c_void_p)),
    "classifier_evaluate": (c_int, (c_void_p, c_char_p, c_void_p, c_void_p, c_void_p)),
    "predictions_size": (c_size_t, (c_void_p, c_size_t)),
    "predictions_index": (c_int, (c_void_p, c_size_t, c_size_t)),
    "predictions_label": (c_char_p, (c_void_p, c_size_t, c_size_t)),
    "predictions_probability": (c_double, (c_void_p, c_size_t, c_size_t)),
    "predictions_free": (None, (c_void_p,)),
    "finetune": (c_int, (c_char_p, c_char_p, c_char_p, c_void_p, ProgressFunction, c_void_p, c_void_p, c_void_p)),
}


class _Library:
    """The functions of graft.h as attributes, without the prefix `graft_`."""

    def __init__(self) -> None:
        name = {"darwin": "libgraft.dylib", "win32": "graft.dll"}.get(sys.platform, "libgraft.so")
        loaded = ctypes.CDLL(str(pathlib.Path(__file__).with_name(name)))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, "graft_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        if self.abi_version() != _ABI:
            raise ImportError(f"libgraft has the ABI {self.abi_version()}, and this package is for {_ABI}: install it anew")

    def __getattr__(self, name: str) -> Any:  # for type checkers; what is not set above is not there
        raise AttributeError(name)


lib = _Library()


def version() -> str:
    """The version of the engine."""
    return str(lib.version().decode())


class Errors:
    """Where functions put an error: `call(lib.f, ...)` raises it."""

    __slots__ = ("_error", "_out")

    def __init__(self) -> None:
        self._error = c_void_p()
        self._out = ctypes.addressof(self._error)

    def call(self, function: Any, *arguments: Any) -> Any:
        """The result of a function that takes `graft_error**` last."""
        result = function(*arguments, self._out)
        if self._error.value:
            self._raise()
        return result

    def _raise(self) -> None:
        error, self._error.value = self._error.value, None
        try:
            texts = [f(error).decode(errors="replace") for f in (lib.error_code, lib.error_where, lib.error_detail)]
        finally:
            lib.error_free(error)
        raise GraftError(*texts)


class Handle:
    """An address that is freed with this object."""

    __slots__ = ("address", "_free")

    def __init__(self, address: int, free: Any) -> None:
        self.address, self._free = address, free

    def __del__(self) -> None:
        if hasattr(self, "_free"):  # where it could not be made, nothing is there
            self._free(self.address)


def utf8(text: str | os.PathLike[str]) -> bytes:
    """A text or a path as C takes it. Raises ValueError where it holds a zero byte, which C would end at."""
    encoded = os.fsencode(text) if isinstance(text, os.PathLike) else text.encode("utf-8", "surrogateescape")
    if b"\0" in encoded:
        raise ValueError(f"{text!r} holds a zero byte")
    return encoded


def options(given: Mapping[str, object]) -> Optional[Handle]:
    """Options of graft.h; those that are None are left out."""
    told = {name: value for name, value in given.items() if value is not None}
    if not told:
        return None
    address = lib.options_new()
    if not address:
        raise MemoryError
    handle = Handle(address, lib.options_free)
    errors = Errors()
    for name, value in told.items():
        errors.call(lib.options_set, handle.address, utf8(name), utf8(_text(value)))
    return handle


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ":".join(_text(item) for item in value)
    return os.fsdecode(value) if isinstance(value, os.PathLike) else str(value)


def address_of(handle: Optional[Handle]) -> Optional[int]:
    return handle.address if handle else None
