"""The arguments of a call, checked, and the requests of the sums that they ask for.

    prepare_sums()      x and the other arguments of cumsum() -> scans, two for a complex array
    raw_request()       a scan, or a part of one -> a request, whose answer fills the scan's output
    Scan.finish()       the caller's array

Failure: InvalidArgument; BadAnswer for an answer that is not that of the request. Thread: any.
"""

from __future__ import annotations

import math
import numbers
import time
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from tally.attributes import Attributes, NaN, attributes_of
from tally.call import Request
from tally.carry import NANS, Carry, carry_bytes_most
from tally.dtypes import Array, complex_types, name_of
from tally.errors import BadAnswer, InvalidArgument
from tally.layout import (
    Operand,
    Output,
    Scan,
    as_array,
    as_operand,
    axis_size,
    bytes_of,
    check_out,
    extra_sums,
    input_buffer,
    output_buffer,
)
from tally.parts import Part
from tally.segments import Segments, segments_of

RAW = "application/octet-stream"


def prepare(
    x: Any,
    axis: SupportsIndex | None = None,
    dtype: Any = None,
    out: Array | None = None,
    deadline: float | None = None,
    packed: bool = False,
    segments: Segments | None = None,
    **attributes: Any,
) -> Scan:
    """Check the arguments of cumsum() for an array that is not complex. packed: of a part."""
    operand = as_operand(x, axis, dtype, length=math.inf if packed else None)
    wanted = attributes_of(operand, **attributes)
    extra = extra_sums("include_initial" in wanted, segments)
    shape, sums = operand.sums_shape(extra), operand.sums
    if operand.result != sums and out is not None:
        check_out(out, shape, operand.result)
        kind = sums if out.dtype == operand.result else sums.newbyteorder()
        output = output_buffer(out.view(kind), shape, sums, packed)
    else:
        output = output_buffer(out, shape, sums, packed)
    result = out if out is not None else output.result.view(operand.result)
    if attributes.get("nan") == "zero":
        operand = operand._replace(nat=None)
    if segments is not None and segments.order is not None:
        operand = operand._replace(array=operand.array.take(segments.order, operand.axis))
        gathered = np.empty(shape, sums)
        output = Output(output.result, gathered, bytes_of(gathered), None)
    return Scan(operand, output, result, wanted, _due(deadline), segments)


def prepare_sums(
    x: Any,
    axis: SupportsIndex | None,
    out: Array | None,
    offsets: Any,
    groups: Any,
    **options: Any,
) -> tuple[list[Scan], Array]:
    """Check the arguments of cumsum(). Returns the sums to ask for, which are two for a complex
    array, and their result."""
    array = as_array(x)
    include_initial = options["include_initial"]
    segments = segments_of(axis_size(array, axis), offsets, groups, include_initial)
    options["segments"] = segments
    if array.dtype.kind != "c":
        scan = prepare(array, axis, out=out, **options)
        return [scan], scan.result
    result, component = complex_types(array, options.pop("dtype"))
    operand = as_operand(np.real(array), axis, component)
    shape = operand.sums_shape(extra_sums(include_initial, segments))
    if out is None:
        out = np.empty(shape, result)
    else:
        check_out(out, shape, result)
        x_place = (array.strides, array.ctypes.data, array.shape, array.itemsize)
        out_place = (out.strides, out.ctypes.data, out.shape, out.itemsize)
        if x_place != out_place and np.may_share_memory(array, out):
            array = array.copy()  # the real parts of the sums are written before x.imag is read
    initials = component_initials(options.pop("initial"), result)
    inputs = complex_parts(array, options["nan"])
    outputs = np.real(out), np.imag(out)
    scans = [
        prepare(one, axis, component, there, initial=first, **options)
        for one, there, first in zip(inputs, outputs, initials)
    ]
    return [scan._replace(deadline=scans[0].deadline) for scan in scans], out


def component_initials(initial: Any, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the initial values of the real and of the imaginary parts of complex sums."""
    if initial is None:
        return None, None
    if isinstance(initial, np.ndarray) and initial.ndim == 0:
        initial = initial[()]
    if not isinstance(initial, numbers.Complex):
        raise InvalidArgument(
            f"initial is {initial!r}, expected a number: the sums are of type {dtype}",
            field="initial",
        )
    return initial.real, initial.imag


def complex_parts(array: Array, nan: str | None) -> tuple[Array, Array]:
    """Return the real and the imaginary parts. Where NaN does not propagate, an element that has
    NaN in one part has it in both: numpy.nancumsum and pandas leave out the whole element."""
    parts: tuple[Array, Array] = np.real(array), np.imag(array)
    if nan not in (None, NANS[0]):
        mask = np.isnan(array)
        if mask.any():
            none = parts[0].dtype.type(np.nan)
            return np.where(mask, none, parts[0]), np.where(mask, none, parts[1])
    return parts


def _due(deadline: float | None) -> float:
    """When a deadline passes, on the monotonic clock."""
    if deadline is None:
        return math.inf
    if not is_positive(deadline):
        raise InvalidArgument(
            f"deadline is {deadline!r}, expected seconds, more than 0", field="deadline"
        )
    return time.monotonic() + deadline


def is_positive(seconds: Any) -> bool:
    return isinstance(seconds, numbers.Real) and float(seconds) > 0


def raw_request(scan: Scan, part: Part | None = None, carry: bytes = b"") -> Request:
    """The request of a scan, or of a part of one, its answer straight to the output."""
    operand, filled = scan.operand, scan.output.filled
    sums = name_of(operand.sums)
    body, path = raw_body("/v1/cumsum", operand, scan.attributes)
    front, counted_by = carry, "Tally-Carry-Length"
    if scan.segments is not None:
        front, counted_by = scan.segments.offsets.astype("<i8").tobytes(), "Tally-Offsets-Length"
    if part is not None:
        path += f"&part={part}"
    if scan.output.strides is not None:
        path += f"&output_strides={','.join(map(str, scan.output.strides))}"
    return Request(
        "POST",
        path,
        RAW,
        body,
        front,
        counted_by,
        carry_bytes_most(sums, _lines(operand)) if part in ("first", "next") else 0,
        into=scan.output.buffer,
        check=tensor_check(sums, filled.shape),
        # All of a request is sent before a byte of its answer is stored: whatever the layouts,
        # an input that is overwritten is lost for a retry, and for nothing else.
        once=bool(np.may_share_memory(operand.array, filled)),
        deadline=scan.deadline,
    )


class Total(NamedTuple):
    """The totals of a tensor that were asked for."""

    operand: Operand
    attributes: Attributes
    request: Request

    def carry(self, data: bytes) -> Carry:
        """The answer, if it is the carry behind this tensor."""
        try:
            carry = Carry(data)
        except InvalidArgument as error:
            raise BadAnswer(f"the answer holds no carry: {error}") from None
        expected = (
            name_of(self.operand.sums),
            "exclusive" in self.attributes,
            "reverse" in self.attributes,
            self.attributes.get("nan", NANS[0]),
            self.operand.array.shape[self.operand.axis] + ("initial" in self.attributes),
            _lines(self.operand),
        )
        found = carry.dtype, carry.exclusive, carry.reverse, carry.nan, carry.position, len(carry)
        if found != expected:
            raise BadAnswer(f"the answer is {carry!r}, which is not the carry behind this array")
        return carry


def prepare_totals(
    x: Any,
    axis: SupportsIndex | None,
    dtype: Any = None,
    exclusive: bool = False,
    reverse: bool = False,
    nan: NaN | None = None,
    initial: Any = None,
    deadline: float | None = None,
) -> Total:
    """Check the arguments of totals()."""
    operand = as_operand(x, axis, dtype, length=math.inf)
    attributes = attributes_of(operand, exclusive, reverse, nan, initial)
    body, path = raw_body("/v1/cumsum/totals", operand, attributes)
    sums = name_of(operand.sums)
    request = Request(
        "POST",
        path,
        RAW,
        body,
        carry_limit=carry_bytes_most(sums, _lines(operand)),
        into=memoryview(bytearray()),
        check=tensor_check(sums, operand.array.shape),
        deadline=_due(deadline),
    )
    return Total(operand, attributes, request)


def _lines(operand: Operand) -> int:
    return math.prod(size for d, size in enumerate(operand.array.shape) if d != operand.axis)


def raw_body(route: str, operand: Operand, attributes: Attributes) -> tuple[memoryview, str]:
    """The bytes of a tensor, and the path that says what they are."""
    body, strides = input_buffer(operand.array)
    shape = ",".join(map(str, operand.array.shape))
    path = f"{route}?dtype={operand.dtype}&shape={shape}&axis={operand.axis}"
    for attribute, value in attributes.items():
        text = "true" if value is True else urllib.parse.quote(str(value))
        path += f"&{attribute}={text}"
    if strides is not None:
        path += f"&strides={','.join(map(str, strides))}"
    return body, path


def check_kind(fields: dict[str, str], expected: str) -> None:
    kind = fields.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != expected:
        raise BadAnswer(
            f"the answer's Content-Type is {kind[:80]!r}, expected {expected}; is this the URL of "
            "a Tally server?"
        )


def tensor_check(name: str, sizes: Sequence[int]) -> Callable[[dict[str, str]], None]:
    """What raises BadAnswer unless the head of an answer is that of such a tensor."""
    shape = ",".join(map(str, sizes))

    def check(fields: dict[str, str]) -> None:
        check_kind(fields, RAW)
        found = fields.get("tally-dtype", ""), fields.get("tally-shape", "")
        if found != (name, shape):
            raise BadAnswer(
                f"the answer is a tensor of type {found[0][:40]!r} and shape {found[1][:200]!r}, "
                f"expected {name} and {shape[:200]}"
            )

    return check
