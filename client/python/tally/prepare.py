"""Checks of a call's arguments, and the requests of its sums.

    prepare_sums()      x and the other arguments of cumsum() -> Sums; two scans for a complex array
    raw_request()       a scan, or a part of one -> a request whose answer fills the scan's output
    Scan.finish()       completes the caller's array
    Sums.result()       the result, after all scans

Failure: InvalidArgument; BadAnswer for an answer that does not belong to the request. Thread: any.
"""

from __future__ import annotations

import math
import numbers
import time
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from tally.arrays import as_array
from tally.attributes import Attributes, NaN, attributes_of
from tally.call import Request
from tally.carry import NANS, Carry, carry_bytes_most
from tally.dtypes import Array, complex_types, name_of
from tally.errors import BadAnswer, InvalidArgument
from tally.layout import (
    Operand,
    Output,
    Scan,
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


class Sums(NamedTuple):
    """The scans of a call, and a function that returns its result after all of them finished."""

    scans: list[Scan]
    result: Callable[[], Any]


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
    """Check the arguments of cumsum() for an array that is not complex.

    packed: the array is a part."""
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
) -> Sums:
    """Check the arguments of cumsum() for an array."""
    array = as_array(x)
    include_initial = options["include_initial"]
    segments = segments_of(axis_size(array, axis), offsets, groups, include_initial)
    options["segments"] = segments
    if array.dtype.kind != "c":
        scan = prepare(array, axis, out=out, **options)
        return Sums([scan], lambda: scan.result)
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
    result_array = out
    return Sums(with_one_deadline(scans), lambda: result_array)


def with_one_deadline(scans: list[Scan]) -> list[Scan]:
    """Return the scans of one call, with the deadline of the first scan."""
    return [scan._replace(deadline=scans[0].deadline) for scan in scans]


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
    """Return the real and the imaginary parts. If NaN does not propagate, an element with NaN in
    one part gets NaN in both, because numpy.nancumsum and pandas skip the whole element."""
    parts: tuple[Array, Array] = np.real(array), np.imag(array)
    if nan not in (None, NANS[0]):
        mask = np.isnan(array)
        if mask.any():
            none = parts[0].dtype.type(np.nan)
            return np.where(mask, none, parts[0]), np.where(mask, none, parts[1])
    return parts


def _due(deadline: float | None) -> float:
    """Return the time of a deadline, in seconds of the monotonic clock."""
    if deadline is None:
        return math.inf
    if not is_positive(deadline):
        raise InvalidArgument(
            f"deadline is {deadline!r}, expected seconds, more than 0", field="deadline"
        )
    return time.monotonic() + deadline


def is_positive(seconds: Any) -> bool:
    """Return whether an argument is a number above 0."""
    return isinstance(seconds, numbers.Real) and float(seconds) > 0


def raw_request(scan: Scan, part: Part | None = None, carry: bytes = b"") -> Request:
    """Return the request of a scan or of a part of one. The output of the scan is the target of
    the answer."""
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
        # The request is sent completely before a byte of its answer is stored. Therefore an answer
        # may overwrite the input in any layout; only a retry is then impossible.
        once=bool(np.may_share_memory(operand.array, filled)),
        deadline=scan.deadline,
    )


class Total(NamedTuple):
    """The requested totals of a tensor."""

    operand: Operand
    attributes: Attributes
    request: Request

    def carry(self, data: bytes) -> Carry:
        """Return the carry in an answer. Raises BadAnswer unless it belongs to this tensor."""
        try:
            carry = Carry(data)
        except InvalidArgument as error:
            raise BadAnswer(f"the answer has no valid carry: {error}") from None
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
            raise BadAnswer(f"the answer is {carry!r}, which is not the carry of this array")
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
    """Return the bytes of a tensor, and the path whose query describes them."""
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
    """Raise BadAnswer unless an answer has this Content-Type."""
    kind = fields.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != expected:
        raise BadAnswer(
            f"the answer's Content-Type is {kind[:80]!r}, expected {expected}; is this the URL of "
            "a Tally server?"
        )


def tensor_check(name: str, sizes: Sequence[int]) -> Callable[[dict[str, str]], None]:
    """Return a function that raises BadAnswer unless an answer has this type and shape."""
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
