"""NumPy arrays as the raw buffers that the service takes and gives.

An input in whatever layout travels as the bytes between its first and its last element, with its
strides beside them: transposed, in Fortran order, a window of a larger array, broadcast. It is
copied first only where the service has no word for it (negative strides, big-endian, elements
that do not lie at multiples of their size) or where more than half of those bytes would be gaps.

An answer is stored where it belongs where the output has no gaps, in whatever order of its
dimensions; else beside it, and then copied.

Failure: InvalidArgument. Thread: any.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from tally.errors import InvalidArgument

Array = npt.NDArray[Any]

MAX_RANK = 64
GAPS_LIMIT = 2  # bytes sent for a byte of elements, at most
# Every name on the wire, and that of the Open Inference Protocol.
V2_NAMES = {
    **{"float16": "FP16", "bfloat16": "BF16", "float32": "FP32", "float64": "FP64"},
    **{"int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64"},
    **{"uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64"},
}
# Those names by type. bfloat16 joins when one is seen: its type belongs to ml_dtypes.
_NAMES: dict[np.dtype[Any], str] = {np.dtype(name): name for name in V2_NAMES if name != "bfloat16"}
# What to do about elements that no conversion leaves as they are, by NumPy's kind of their type.
_NO_CONVERSION = {
    "c": "sum x.real and x.imag, each in a call of its own",
    "m": "replace its NaT (numpy.isnat finds them), sum x.astype('int64'), and convert the sums to "
    "the type of x",
    "M": "points in time have no sum; sum the differences between them (numpy.diff)",
}
# What to do about others.
_TEXT = "dtype='int64' or 'float64' reads them as numbers"
_CONVERSIONS = {
    "f": "dtype='float64' rounds each of them first",
    "O": "dtype='int64' if all are integers below 2^63, or 'float64', which rounds decimals, "
    "fractions and larger integers",
    **{"S": _TEXT, "U": _TEXT, "T": _TEXT},
}


class Operand(NamedTuple):
    """A checked input: an array of a type that the service knows, in this machine's byte order."""

    array: Array
    dtype: str  # its name on the wire
    axis: int  # 0 to rank - 1


def as_operand(x: Any, axis: SupportsIndex | None, dtype: Any) -> Operand:
    """`x` as an array; flattened for axis None, converted for a dtype."""
    if type(x) is not np.ndarray:
        if isinstance(x, np.ma.MaskedArray):
            raise InvalidArgument("x is a masked array: fill it first (x.filled(0))", field="x")
        try:
            x = np.asarray(memoryview(x) if isinstance(x, (bytes, bytearray)) else x)
        except ValueError as error:  # rows of different lengths, say
            raise InvalidArgument(f"x cannot be an array: {error}", field="x") from error
    array: Array = x
    if dtype is not None:
        array = _converted(array, _wanted(dtype))
    elif array.dtype == np.bool_:
        array = array.astype(np.int64)
    name = _NAMES.get(array.dtype)
    if name is None:
        name, array = _adopt(array)
    if axis is None:
        return Operand(array.reshape(-1), name, 0)
    if array.ndim == 0:
        array = array.reshape(1)
    return Operand(array, name, _axis(axis, array.ndim))


def as_shape(
    shape: SupportsIndex | Sequence[SupportsIndex], dtype: np.dtype[Any]
) -> tuple[int, ...]:
    """The shape of a new array."""
    try:
        sizes = shape if isinstance(shape, Sequence) else (shape,)
        found = tuple(map(operator.index, sizes))
    except TypeError:
        found = (-1,)
    if any(size < 0 for size in found):
        raise InvalidArgument(f"shape is {shape!r}, expected sizes of at least 0", field="shape")
    if len(found) > MAX_RANK:
        raise InvalidArgument(
            f"shape has {len(found)} dimensions, expected at most {MAX_RANK}", field="shape"
        )
    if math.prod(size or 1 for size in found) * dtype.itemsize > sys.maxsize:  # NumPy's rule
        raise InvalidArgument(f"shape is {shape!r}: no memory holds 2^63 bytes", field="shape")
    return found


def _wanted(dtype: Any) -> np.dtype[Any]:
    if isinstance(dtype, str) and dtype == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise InvalidArgument(
                "bfloat16 needs the package ml_dtypes: pip install ml_dtypes",
                field="dtype",
            ) from None
        dtype = ml_dtypes.bfloat16
    try:
        wanted: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):  # it is Python to NumPy, some of it
        raise InvalidArgument(f"there is no element type {dtype!r}", field="dtype") from None
    if _native(wanted) not in _NAMES and wanted.name != "bfloat16":
        raise InvalidArgument(
            f"dtype is {wanted}, expected one of {', '.join(V2_NAMES)}", field="dtype"
        )
    return wanted


def _refuse_changes(dtype: np.dtype[Any]) -> None:
    """Refuse elements that a conversion to numbers would change silently: it drops imaginary parts,
    and takes NaT for a number."""
    advice = _NO_CONVERSION.get(dtype.kind)
    if dtype.names:
        advice = f"sum one of its fields, x[{dtype.names[0]!r}]"
    elif dtype.type is np.void and dtype.itemsize == 2:
        advice = (
            "if they are bfloat16, which files of NumPy do not name, x.view(ml_dtypes.bfloat16)"
        )
    elif dtype.type is np.void:
        advice = "they are bytes without a type: view them as what they are, x.view(dtype)"
    if advice is not None:
        raise InvalidArgument(f"elements of type {dtype} cannot be summed: {advice}", field="x")


def _converted(array: Array, wanted: np.dtype[Any]) -> Array:
    """An array of the wanted type. Python objects become integers only where they are some."""
    _refuse_changes(array.dtype)
    try:
        converted: Array = array.astype(wanted, copy=False)
    except (ValueError, TypeError, OverflowError) as error:  # texts, say, or objects
        raise InvalidArgument(f"x cannot become {wanted}: {error}", field="x") from error
    if array.dtype == np.object_ and wanted.kind in "iu":
        integers = converted.reshape(-1).tolist()
        for (index, before), after in zip(np.ndenumerate(array), integers):
            if before != after and not isinstance(before, (str, bytes)):
                place = ", ".join(map(str, index))
                raise InvalidArgument(
                    f"x[{place}] is {before!r}, which {wanted} does not hold", field="x"
                )
    return converted


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """In this machine's byte order; NumPy's newer types, of texts, have none."""
    try:
        native: np.dtype[Any] = dtype.newbyteorder("=")
        return native
    except TypeError:
        return dtype


def _adopt(array: Array) -> tuple[str, Array]:
    """An array whose type is not in the table: bfloat16, another byte order, or none of ours."""
    native = _native(array.dtype)
    if native in _NAMES:
        return _NAMES[native], array.astype(native)
    if array.dtype.name == "bfloat16" and array.dtype.itemsize == 2:
        _NAMES[array.dtype] = "bfloat16"
        return "bfloat16", array
    _refuse_changes(array.dtype)
    advice = _CONVERSIONS.get(array.dtype.kind, "convert them to a type of numbers first")
    for wide in ("int64", "float64"):
        if np.can_cast(array.dtype, wide):
            advice = f"give dtype={wide!r}, which holds all of their values"
            break
    raise InvalidArgument(
        f"elements of type {array.dtype} cannot be summed: {advice}", field="dtype"
    )


def _axis(axis: SupportsIndex, rank: int) -> int:
    try:
        number = operator.index(axis)
    except TypeError:
        raise InvalidArgument(f"axis is {axis!r}, expected an integer", field="axis") from None
    if not -rank <= number < rank:
        raise InvalidArgument(
            f"axis {number} of an array with {rank} dimension{'' if rank == 1 else 's'}: "
            f"expected {-rank} to {rank - 1}",
            field="axis",
        )
    return number % rank


def bytes_of(array: Array) -> memoryview:
    """The memory of a C-contiguous array. bfloat16 has no buffer protocol, hence the view; an
    np.matrix has two dimensions always."""
    flat: Any = np.asarray(array).reshape(-1).view(np.uint8)
    return memoryview(flat)


def input_buffer(array: Array) -> tuple[memoryview, Sequence[int] | None]:
    """The bytes to send for an array, and its strides in elements, None where it is packed."""
    if sys.byteorder == "big":
        array = array.astype(array.dtype.newbyteorder("<"))
    if array.flags.c_contiguous:
        return bytes_of(array), None
    strides = _strides(array)
    if strides is not None:
        span = 1 + sum((size - 1) * stride for size, stride in zip(array.shape, strides))
        if span <= GAPS_LIMIT * array.size:
            return bytes_of(as_strided(array, (span,), (array.itemsize,), writeable=False)), strides
    return bytes_of(np.ascontiguousarray(array)), None


def _strides(array: Array) -> list[int] | None:
    """In elements, none negative; None: there are none such. A dimension of one element has 0."""
    strides: list[int] = []
    for size, stride in zip(array.shape, array.strides):
        elements, rest = divmod(stride, array.itemsize)
        if size > 1 and (stride < 0 or rest != 0):
            return None
        strides.append(elements if size > 1 else 0)
    return strides


class Output(NamedTuple):
    """Where an answer goes."""

    result: Array  # what the caller gets
    filled: Array  # what the answer's bytes fill: `result`, or an array beside it
    buffer: memoryview  # the memory of `filled`
    strides: Sequence[int] | None  # of `filled` in elements, None where it is packed


def output_buffer(out: Array | None, operand: Operand, packed: bool = False) -> Output:
    """`out`, or a new array, for the sums of an operand; `packed`: they come in row-major order."""
    array = operand.array
    if out is None:
        out = np.empty(array.shape, array.dtype)
        return Output(out, out, bytes_of(out), None)
    if not isinstance(out, np.ndarray):
        raise InvalidArgument(f"out is a {type(out).__name__}, expected an array", field="out")
    if isinstance(out, np.ma.MaskedArray):  # its mask would hide the sums
        raise InvalidArgument("out is a masked array: give its memory, out.data", field="out")
    if out.shape != array.shape:
        raise InvalidArgument(
            f"out has shape {out.shape}, the result has {array.shape}", field="out"
        )
    if _native(out.dtype) != array.dtype:
        raise InvalidArgument(
            f"out has elements of type {out.dtype}, the result of {array.dtype}", field="out"
        )
    if not out.flags.writeable:
        raise InvalidArgument("out is read-only", field="out")
    if out.dtype == array.dtype and sys.byteorder == "little":
        if out.flags.c_contiguous:
            return Output(out, out, bytes_of(out), None)
        strides = _strides(out)
        if strides is not None and not packed and _is_dense(out.shape, strides):
            flat = as_strided(out, (out.size,), (out.itemsize,))
            return Output(out, out, bytes_of(flat), strides)
    beside = np.empty(array.shape, array.dtype)
    return Output(out, beside, bytes_of(beside), None)


class Scan(NamedTuple):
    """A sum that was asked for, its arguments checked."""

    operand: Operand
    output: Output
    attributes: dict[str, str | bool]  # besides dtype, shape and axis
    deadline: float  # on the monotonic clock


def _is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements fill their memory without gaps, each at a place of its own."""
    reached = 1
    for stride, size in sorted(zip(strides, shape)):
        if size > 1:
            if stride != reached:
                return False
            reached *= size
    return True
