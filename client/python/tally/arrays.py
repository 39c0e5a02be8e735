"""Objects that the caller gives as arrays, converted to NumPy arrays.

NumPy converts sequences, buffers and objects with the array protocol. An object that has only
``__dlpack__`` is converted by numpy.from_dlpack(), without a copy.

Failure: InvalidArgument for masked arrays, and for sequences that NumPy cannot convert. An error
of the object's own ``__array__`` or ``__dlpack__`` is not changed. Thread: any.
"""

from __future__ import annotations

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
        return np.asarray(x)
    except ValueError as error:  # rows of different lengths, for example
        raise InvalidArgument(f"{field} cannot be an array: {error}", field=field) from error
