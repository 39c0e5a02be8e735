"""Arrays larger than a part, cut into blocks (docs/carry.md).

    chains()      the blocks of an array. Chains are independent, so several are in flight. Within
                  a chain each block needs the carry of the block before it.
    blocks()      the scans of a chain's blocks

Blocks follow the array's memory: the outermost dimension is cut first. Only if this dimension is
the axis do the blocks form a chain. Each block of a chain but the last has at least LEAST_LENGTH
elements along the axis, so that its carry is much smaller than the block. The sums have the bits
of one request for every cut.

An axis of several segments is cut between segments, where no carry is necessary. A segment larger
than a part becomes a sum of its own without offsets, which is cut like any other.

Failure: the error of the first block that fails; no further block is started. Thread: any.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Literal

import numpy as np

from tally.dtypes import Array
from tally.errors import TallyError
from tally.layout import Scan, along, extra_sums, output_buffer
from tally.segments import Segments

PARALLEL = 4  # maximum chains in flight
LEAST_LENGTH = 64  # elements along the axis of a block in a chain

Index = tuple[slice, ...]
Chain = tuple[Scan, list[Index]]  # a sum, and blocks of its array
Part = Literal["first", "next", "last"]
Progress = Callable[[int, int], object]


def chains(scan: Scan, part_bytes: int) -> list[Chain]:
    """Return the chains of blocks of about `part_bytes` or less, in the order of traversal.
    Elements that the service widens count with the bytes of their sums."""
    if scan.segments is None:
        return _chains_of(scan, part_bytes)
    return [
        chain
        for run in _segment_runs(scan, scan.segments, part_bytes)
        for chain in _chains_of(run, part_bytes)
    ]


def _segment_runs(scan: Scan, segments: Segments, part_bytes: int) -> Iterator[Scan]:
    """Yield a scan for each run of adjacent segments. A run is a single segment, or several
    segments that need no cut along the axis: cuts along other dimensions give blocks of
    `part_bytes`."""
    array, axis, offsets = scan.operand.array, scan.operand.axis, segments.offsets
    lines = array.size // array.shape[axis] if _outermost(array)[:1] == [axis] else 1
    most = part_bytes // (lines * scan.operand.sums.itemsize)  # elements along the axis
    extra = int(scan.include_initial)
    first = 0
    while first < segments.segment_count:
        last = int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1
        last = max(last, first + 1)
        begin, end = int(offsets[first]), int(offsets[last])
        operand = scan.operand._replace(array=array[along(axis, slice(begin, end))], nat=None)
        place = slice(begin + extra * first, end + extra * last)
        filled = scan.output.filled[along(axis, place)]
        own = Segments(offsets[first : last + 1] - begin) if last > first + 1 else None
        if filled.size > 0:
            # part_scan() uses only `filled` of the output.
            output = scan.output._replace(result=filled, filled=filled)
            yield scan._replace(operand=operand, output=output, segments=own)
        first = last


def _outermost(array: Array) -> list[int]:
    """Return the dimensions of several elements, the outermost in memory first."""
    dims = [d for d in range(array.ndim) if array.shape[d] > 1]
    return sorted(dims, key=lambda d: abs(array.strides[d]), reverse=True)


def _chains_of(scan: Scan, part_bytes: int) -> list[Chain]:
    """Return the chains of a scan. An axis of several segments is not cut."""
    array, axis, reverse = scan.operand.array, scan.operand.axis, scan.reverse
    itemsize = scan.operand.sums.itemsize
    outermost = _outermost(array)
    found: list[Chain] = []
    pending: list[Index] = [tuple(slice(0, size) for size in array.shape)]
    while pending:
        block = pending.pop()
        lengths = [part.stop - part.start for part in block]
        size = math.prod(lengths) * itemsize
        dims = [d for d in outermost if lengths[d] > 1]
        others = [d for d in dims if d != axis]
        if size <= part_bytes or (scan.segments is not None and not others):
            found.append((scan, [block]))
            continue
        fitting = part_bytes // (size // lengths[axis])  # elements along the axis
        carried = not others or (dims[0] == axis and fitting >= LEAST_LENGTH)
        if carried and scan.segments is None:
            step = max(fitting, LEAST_LENGTH)
            chain = _cut(block, axis, range(0, lengths[axis], step))
            found.append((scan, chain[::-1] if reverse else chain))
            continue
        length = lengths[others[0]]
        count = min(length, -(-size // part_bytes))
        starts = [length * number // count for number in range(count)]
        pending += reversed(_cut(block, others[0], starts))
    return found


def _cut(block: Index, dim: int, starts: Any) -> list[Index]:
    """Return the pieces of a block that is cut along a dimension, at offsets that begin with 0."""
    whole = block[dim]
    edges = [whole.start + start for start in starts] + [whole.stop]
    return [
        (*block[:dim], slice(begin, end), *block[dim + 1 :]) for begin, end in zip(edges, edges[1:])
    ]


def blocks(scan: Scan, chain: list[Index]) -> Iterator[tuple[Scan, Part | None]]:
    """Yield the scan of each block of a chain, and which part it is; None for a single block."""
    last = len(chain) - 1
    for number, index in enumerate(chain):
        part: Part | None = "first" if number == 0 else "last" if number == last else "next"
        block = part_scan(scan, index, alone=last == 0, first=number == 0)
        yield block, part if last > 0 else None


def part_scan(scan: Scan, index: Index, alone: bool, first: bool) -> Scan:
    """Return the scan of a block. The answer is C-contiguous unless the block is alone. The first
    block of a chain has the initial value; later blocks have it in their carry."""
    axis, target = scan.operand.axis, list(index)
    operand = scan.operand._replace(array=scan.operand.array[index], nat=None)
    begin, end = index[axis].start, index[axis].stop
    if alone:
        target[axis] = slice(begin, end + extra_sums(scan.include_initial, scan.segments))
    elif scan.include_initial:
        # The sum before the first element is the first one, or the last one with `reverse`.
        forward = not scan.reverse
        target[axis] = slice(begin + (forward and not first), end + (forward or first))
    attributes = scan.attributes if first else without_initial(scan.attributes)
    filled = scan.output.filled[tuple(target)]
    output = output_buffer(filled, filled.shape, operand.sums, packed=not alone)
    return Scan(operand, output, output.result, attributes, scan.deadline, scan.segments)


def without_initial(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a part after the first one."""
    return {k: v for k, v in attributes.items() if k not in ("initial", "include_initial")}


def apart(scan: Scan) -> Scan:
    """Return a scan whose blocks do not overwrite the input of other blocks: the scan itself if
    input and output do not overlap, or are the same memory with the same layout; else a scan of a
    copy of the input."""
    x, y = scan.operand.array, scan.output.filled
    same = (x.strides, x.ctypes.data, x.shape) == (y.strides, y.ctypes.data, y.shape)
    if same or not np.may_share_memory(x, y):
        return scan
    return scan._replace(operand=scan.operand._replace(array=x.copy()))


class Meter:
    """Reports progress as progress(bytes done, bytes in total), or as a bar of tqdm. An error
    within the context gets `output_touched` if any block was done."""

    def __init__(self, progress: Progress | bool | None, total: int) -> None:
        self.done, self.total = 0, total
        self.call = progress if callable(progress) else None
        self.bar: Any = None
        if progress is True:
            try:
                self.bar = importlib.import_module("tqdm").tqdm(
                    total=total, unit="B", unit_scale=True
                )
            except ImportError:
                pass  # without tqdm there is no bar

    def add(self, count: int) -> None:
        """Count bytes that are done."""
        self.done += count
        if self.call is not None:
            self.call(self.done, self.total)
        if self.bar is not None:
            self.bar.update(count)

    def __enter__(self) -> Meter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, TallyError):
            error.output_touched |= self.done > 0
        if self.bar is not None:
            self.bar.close()
