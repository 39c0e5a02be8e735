"""Objects that the caller gives as arrays, converted to NumPy arrays.

NumPy converts sequences, buffers and objects with the array protocol. An object that has only
``__dlpack__`` is converted by numpy.from_dlpack(), without a copy.

Failure: InvalidArgument for masked arrays, for sequences that NumPy cannot convert, and for
iterables that NumPy would store whole as one element, such as texts, sets and generators. An
error of the object's own ``__array__`` or ``__dlpack__`` is not changed. Thread: any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tally.dtypes import Array
from tally.errors import InvalidArgument

_PROTOCOL = ("__array__", "__array_interface__", "__array_struct__")


def as_array(x: Any, field: str = "x") -> Array:
    """Return `x` as an array of any element type. field: name of the argument, for errors."""
    if type(x) is np.ndarray:
        return x
    if isinstance(x, np.ma.MaskedArray):
        raise InvalidArgument(
            f"{field} is a masked array: fill it first (x.filled(0))", field=field
        )
    if isinstance(x, (bytes, bytearray)):
        return np.asarray(memoryview(x))
    if any(hasattr(x, name) for name in _PROTOCOL):
        return np.asarray(x)
    if hasattr(x, "__dlpack__"):
        found: Array = np.from_dlpack(x)
        return found
    try:
        array = np.asarray(x)
    except ValueError as error:  # rows of different lengths, for example
        raise InvalidArgument(f"{field} cannot be an array: {error}", field=field) from error
    if array.ndim == 0 and (x is None or isinstance(x, Iterable)):
        raise InvalidArgument(f"{field} {_no_array(x)}", field=field)
    return array


def _no_array(x: Any) -> str:
    """Return the reason why an object is no array; NumPy would store it whole as one element."""
    if x is None:
        return "is None, expected an array or a list"
    if isinstance(x, str):
        return "is a text, expected an array or a list: numpy.load(x) reads a file of NumPy"
    items = "list(x.values())" if isinstance(x, Mapping) else "list(x)"
    return f"is of type {type(x).__name__}, expected an array or a list, such as {items}"
