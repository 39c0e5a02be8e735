"""NumPy arrays as the raw buffers of the service's requests and answers.

An input is sent as the bytes between its first and its last element, together with its strides.
The strides describe arrays that are transposed, in Fortran order, broadcast, or a window of a
larger array. The input is copied first only if the service cannot describe it (negative strides,
big-endian, elements at addresses that are not multiples of their size) or if more than half of
these bytes would be gaps.

Sums of timedelta64 arrive as int64 in the memory of the caller's array; finish() then stores NaT.

An answer is stored directly in an output without gaps, for any order of the dimensions. For other
outputs the answer is stored in a temporary array and then copied.

Failure: InvalidArgument. Thread: any.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tally.arrays import as_array
from tally.dtypes import Array, elements_of
from tally.errors import InvalidArgument
from tally.segments import Segments

MAX_RANK = 64
GAPS_LIMIT = 2  # maximum bytes sent for each byte of elements


class Operand(NamedTuple):
    """A checked input: an array of a type that the service knows, in this machine's byte order."""

    array: Array
    dtype: str  # its name on the wire
    axis: int  # 0 to rank - 1
    sums: np.dtype[Any]  # type of the sums in the service's answer
    result: np.dtype[Any]  # type of the caller's array: `sums`, or timedelta64
    nat: Array | None  # True where x has NaT; None if it has none

    def sums_shape(self, extra: int) -> tuple[int, ...]:
        """Return the shape of the sums. extra: number of additional sums along the axis."""
        shape = list(self.array.shape)
        shape[self.axis] += extra
        return tuple(shape)


def as_operand(
    x: Any,
    axis: SupportsIndex | None,
    dtype: Any,
    *,
    length: float | None = None,
    seen: bool = True,
) -> Operand:
    """Return `x` as an operand with sums of type `dtype`; flattened for axis None.

    length: elements of a line; None: those of `x`; inf: unknown. seen: False if `x` is empty and
    stands for elements that a worker reads later."""
    array = as_array(x)
    shape, number = _as_summed(array, axis)
    own = shape[number] if length is None else length
    array, name, sums, result, nat = elements_of(array, dtype, own, seen)
    nat = None if nat is None else nat.reshape(shape)
    return Operand(array.reshape(shape), name, number, sums, result, nat)


def axis_size(array: Array, axis: SupportsIndex | None) -> int:
    """Return the elements along the axis to sum; all of them for axis None."""
    shape, number = _as_summed(array, axis)
    return shape[number]


def along(axis: int, index: Any) -> tuple[Any, ...]:
    """Return an index that selects `index` along an axis, and all along the other dimensions."""
    return (*(slice(None),) * axis, index)


def extra_sums(include_initial: Any, segments: Segments | None) -> int:
    """Return the number of sums along the axis minus the number of elements."""
    if not include_initial:
        return 0
    return 1 if segments is None else segments.segment_count


def _as_summed(array: Array, axis: SupportsIndex | None) -> tuple[tuple[int, ...], int]:
    """Return the shape in which an array is summed, and the axis, 0 to rank - 1."""
    if axis is None:
        return (array.size,), 0
    shape = array.shape or (1,)
    return shape, axis_number(axis, len(shape))


def as_shape(
    shape: SupportsIndex | Sequence[SupportsIndex], dtype: np.dtype[Any]
) -> tuple[int, ...]:
    """Return the shape of a new array."""
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


def axis_number(axis: SupportsIndex, rank: int) -> int:
    """Return the axis as a number from 0 to rank - 1."""
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
    """Return the memory of a C-contiguous array. The view is necessary because bfloat16 has no
    buffer protocol. asarray() converts np.matrix, which would keep two dimensions."""
    flat: Any = np.asarray(array).reshape(-1).view(np.uint8)
    return memoryview(flat)


def input_buffer(array: Array) -> tuple[memoryview, Sequence[int] | None]:
    """Return the bytes to send for an array, and its strides in elements; None: C-contiguous."""
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
    """Return the strides in elements, with 0 for a dimension of one element. Returns None if a
    stride is negative or not a multiple of the element size."""
    strides: list[int] = []
    for size, stride in zip(array.shape, array.strides):
        elements, rest = divmod(stride, array.itemsize)
        if size > 1 and (stride < 0 or rest != 0):
            return None
        strides.append(elements if size > 1 else 0)
    return strides


class Output(NamedTuple):
    """The target of an answer."""

    result: Array  # the caller's array
    filled: Array  # the array that the answer's bytes fill: `result`, or a temporary one
    buffer: memoryview  # the memory of `filled`
    strides: Sequence[int] | None  # strides of `filled` in elements; None if it is C-contiguous


def output_buffer(
    out: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any], packed: bool = False
) -> Output:
    """Return `out`, or a new array, as the output of sums of this shape and type. packed: the sums
    are answered in row-major order."""
    if out is None:
        out = np.empty(shape, dtype)
        return Output(out, out, bytes_of(out), None)
    check_out(out, shape, dtype)
    if out.dtype == dtype and sys.byteorder == "little":
        if out.flags.c_contiguous:
            return Output(out, out, bytes_of(out), None)
        strides = _strides(out)
        if strides is not None and not packed and _is_dense(out.shape, strides):
            flat = as_strided(out, (out.size,), (out.itemsize,))
            return Output(out, out, bytes_of(flat), strides)
    temporary = np.empty(shape, dtype)
    return Output(out, temporary, bytes_of(temporary), None)


def check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise InvalidArgument unless `out` is an array that sums of this shape and type fit into."""
    if not isinstance(out, np.ndarray):
        raise InvalidArgument(f"out is a {type(out).__name__}, expected an array", field="out")
    if isinstance(out, np.ma.MaskedArray):  # its mask would hide the sums
        raise InvalidArgument("out is a masked array: give its memory, out.data", field="out")
    if out.shape != shape:
        raise InvalidArgument(f"out has shape {out.shape}, the result has {shape}", field="out")
    if not _is_of(out, dtype):
        raise InvalidArgument(
            f"out has elements of type {out.dtype}, the result of {dtype}", field="out"
        )
    if not out.flags.writeable:
        raise InvalidArgument("out is read-only", field="out")


def _is_of(out: Array, dtype: np.dtype[Any]) -> bool:
    """Return whether an array has this type, in any byte order."""
    return out.dtype == dtype or out.dtype == dtype.newbyteorder()


class Scan(NamedTuple):
    """A requested sum with checked arguments."""

    operand: Operand
    output: Output
    result: Array  # the caller's array: output.result, or the same memory as timedelta64
    attributes: dict[str, str | int | float]  # without dtype, shape, axis and offsets
    deadline: float  # seconds of the monotonic clock
    # Segments of the axis; None: one. The elements of the operand are in the order of the segments.
    segments: Segments | None = None

    @property
    def reverse(self) -> bool:
        return "reverse" in self.attributes

    @property
    def include_initial(self) -> bool:
        return "include_initial" in self.attributes

    @property
    def wide_bytes(self) -> int:
        """Bytes of the elements in the type of the sums, which the service allocates."""
        return self.operand.array.size * self.operand.sums.itemsize

    def finish(self) -> Array:
        """Return the result, after the answer filled the output."""
        output, operand = self.output, self.operand
        if self.segments is not None and self.segments.order is not None:
            output.result[along(operand.axis, self.segments.order)] = output.filled
        elif output.result is not output.filled:
            np.copyto(output.result, output.filled)
        if operand.nat is not None:
            nat = operand.nat
            if self.include_initial:
                nat = np.zeros(self.result.shape, bool)
                nat[along(operand.axis, self._places())] = operand.nat
            self.result[nat] = np.timedelta64("NaT")
        return self.result

    def _places(self) -> Array:
        """Return the index along the axis of each element's sum. The index counts the initial sums
        before it: those of all earlier segments and, without `reverse`, that of the element's own
        segment."""
        places = np.arange(self.operand.array.shape[self.operand.axis]) + (not self.reverse)
        return places if self.segments is None else places + self.segments.numbers()


def _is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether the elements fill their memory without gaps and without overlaps."""
    reached = 1
    for stride, size in sorted(zip(strides, shape)):
        if size > 1:
            if stride != reached:
                return False
            reached *= size
    return True
