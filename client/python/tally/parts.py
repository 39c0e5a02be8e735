"""Arrays larger than a part, and arrays without end (docs/carry.md).

    chains()      an array as blocks: between chains nothing is carried, so that several are under
                  way; within one the carry of each block goes with the next
    blocks()      the sums of a chain's blocks

Blocks follow the array's memory: its outermost dimension is cut first. Only where that is the axis
do blocks make a chain; each but the last has at least LEAST_LENGTH elements along the axis, so that
its carry is short beside them. However an array is cut, its sums have the bits of one request.

Failure: that of the first block that fails; the others are not begun. Thread: any.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Literal

import numpy as np

from tally.errors import TallyError
from tally.layout import Scan, output_buffer

PARALLEL = 4  # chains under way at a time
LEAST_LENGTH = 64  # elements along the axis of a block in a chain

Index = tuple[slice, ...]
Part = Literal["first", "next", "last"]
Progress = Callable[[int, int], object]


def chains(scan: Scan, part_bytes: int) -> list[list[Index]]:
    """Blocks of at most about `part_bytes`, in chains; in each in the order of traversal. Elements
    that the service widens count with the bytes of their sums."""
    array, axis, reverse = scan.operand.array, scan.operand.axis, scan.reverse
    itemsize = scan.operand.sums.itemsize
    outermost = sorted(range(array.ndim), key=lambda d: abs(array.strides[d]), reverse=True)
    found: list[list[Index]] = []
    pending: list[Index] = [tuple(slice(0, size) for size in array.shape)]
    while pending:
        block = pending.pop()
        lengths = [part.stop - part.start for part in block]
        size = math.prod(lengths) * itemsize
        if size <= part_bytes:
            found.append([block])
            continue
        dims = [d for d in outermost if lengths[d] > 1]
        others = [d for d in dims if d != axis]
        fitting = part_bytes // (size // lengths[axis])  # elements along the axis
        if not others or (dims[0] == axis and fitting >= LEAST_LENGTH):
            step = max(fitting, LEAST_LENGTH)
            chain = _cut(block, axis, range(0, lengths[axis], step))
            found.append(chain[::-1] if reverse else chain)
            continue
        length = lengths[others[0]]
        count = min(length, -(-size // part_bytes))
        starts = [length * number // count for number in range(count)]
        pending += reversed(_cut(block, others[0], starts))
    return found


def _cut(block: Index, dim: int, starts: Any) -> list[Index]:
    """A block cut along a dimension, at offsets of which the first is 0."""
    whole = block[dim]
    edges = [whole.start + start for start in starts] + [whole.stop]
    return [
        (*block[:dim], slice(begin, end), *block[dim + 1 :]) for begin, end in zip(edges, edges[1:])
    ]


def blocks(scan: Scan, chain: list[Index]) -> Iterator[tuple[Scan, Part | None]]:
    """The sums of a chain's blocks, and what each is; None: it is alone."""
    last = len(chain) - 1
    for number, index in enumerate(chain):
        part: Part | None = "first" if number == 0 else "last" if number == last else "next"
        block = part_scan(scan, index, alone=last == 0, first=number == 0)
        yield block, part if last > 0 else None


def part_scan(scan: Scan, index: Index, alone: bool, first: bool) -> Scan:
    """The sum of a block of a sum; one that is not alone has its answer packed. The first block of
    a chain has the initial value, which later blocks have in their carry."""
    axis, target = scan.operand.axis, list(index)
    operand = scan.operand._replace(array=scan.operand.array[index], nat=None)
    if scan.include_initial:
        # The sum before the first element stands in front, or behind all others with `reverse`.
        begin, end = index[axis].start, index[axis].stop
        forward = not scan.reverse
        target[axis] = slice(begin + (forward and not first), end + (forward or first))
    attributes = scan.attributes if first else without_initial(scan.attributes)
    filled = scan.output.filled[tuple(target)]
    output = output_buffer(filled, filled.shape, operand.sums, packed=not alone)
    return Scan(operand, output, output.result, attributes, scan.deadline)


def without_initial(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a part behind the first one."""
    return {k: v for k, v in attributes.items() if k not in ("initial", "include_initial")}


def apart(scan: Scan) -> Scan:
    """A sum whose blocks do not overwrite each other's input: that of one in place, element for
    element, they do not; where input and output overlap otherwise, the input is copied."""
    x, y = scan.operand.array, scan.output.filled
    same = (x.strides, x.ctypes.data, x.shape) == (y.strides, y.ctypes.data, y.shape)
    if same or not np.may_share_memory(x, y):
        return scan
    return scan._replace(operand=scan.operand._replace(array=x.copy()))


class Meter:
    """Tells how far a sum is: progress(bytes done, bytes in all), or a bar of tqdm's. An error that
    ends it says whether any of the output was written."""

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
                pass  # a bar is shown where there is one

    def add(self, count: int) -> None:
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
