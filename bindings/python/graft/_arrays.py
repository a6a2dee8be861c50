"""numpy arrays over the engine's memory, and the engine's runs over numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._library import Errors, GraftError, lib

# The numbers of element types (onnx.TensorProto.DataType) that numpy has, and those that ml_dtypes adds to it.
_NUMPY = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64"}
_ML_DTYPES = {16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz"}
_NUMBER_OF = {np.dtype(name): number for number, name in _NUMPY.items()}
_NUMBER_OF_NAME = {name: number for number, name in _ML_DTYPES.items()}


def number_of(array: np.ndarray[Any, Any], where: str) -> int:
    """The element type of an array that the engine can read in place. Raises GraftError where it cannot."""
    number = _NUMBER_OF.get(array.dtype) or _NUMBER_OF_NAME.get(array.dtype.name)
    if number is None or not array.dtype.isnative:
        swapped = not array.dtype.isnative
        why = "in another byte order than this machine's: array.astype(array.dtype.newbyteorder('=')) is in it" if swapped else "no type that a tensor has"
        raise GraftError("input.dtype", where, f"its elements are {array.dtype}, which is {why}")
    if not array.flags.c_contiguous:
        raise GraftError("usage", where, f"its memory is not in C order (shape {array.shape}, strides {array.strides}): numpy.ascontiguousarray copies it so")
    if not array.flags.aligned:
        raise GraftError("usage", where, f"its memory is not aligned to its elements, {array.dtype}: array.copy() is")
    return number


def _dtype_of(number: int, where: str) -> np.dtype[Any]:
    if number in _NUMPY:
        return np.dtype(_NUMPY[number])
    name = lib.dtype_name(number).decode()
    if number in _ML_DTYPES:
        try:
            import ml_dtypes
        except ImportError:
            raise GraftError("tensor.dtype", where, f"numpy has no {name}; `pip install ml_dtypes` adds it") from None
        added: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[number]))
        return added
    raise GraftError("tensor.dtype", where, f"numpy has no {name}")


class _Owner:
    """A tensor of the engine, as numpy asks for memory. Arrays over it hold it."""

    __slots__ = ("__array_interface__", "_address", "_free")

    def __init__(self, address: int, interface: dict[str, Any]) -> None:
        self._address, self._free, self.__array_interface__ = address, lib.tensor_free, interface

    def __del__(self) -> None:
        self._free(self._address)


def shared(tensor: int, errors: Errors, where: str) -> np.ndarray[Any, Any]:
    """An output as an array that keeps its memory, without a copy."""
    number = lib.tensor_dtype(tensor)
    dtype = _dtype_of(number, where)
    rank = lib.tensor_rank(tensor)
    shape = tuple(lib.tensor_shape(tensor)[:rank])
    data = lib.tensor_data(tensor)
    if not data or 0 in shape:
        return np.empty(shape, dtype)
    # numpy knows types of its own alone by a text; others are bytes that are seen as what they are.
    text = dtype.str if number in _NUMPY else f"|V{dtype.itemsize}"
    own = errors.call(lib.tensor_share, tensor)
    array = np.asarray(_Owner(own, {"shape": shape, "typestr": text, "data": (data, False), "version": 3}))
    return array if array.dtype == dtype else array.view(dtype)
