"""Cumulative sums of dask arrays, computed by the Tally servers beside dask's workers.

    import dask.array as da, tally.dask

    d = da.from_zarr("in.zarr")
    tally.dask.cumsum(d, axis=0).to_zarr("out.zarr")

:func:`cumsum` makes a graph, and nothing is sent before it is computed. However an array is cut
into chunks and on whatever machines they are summed, the bits are those of one request with the
whole of it.

Chunks that are whole along the axis have nothing to do with each other. Others form a column for
each place along the other dimensions, and what their lines sum up to so far goes along a column:

    carry     block 0 -> step -> step -> step     each waits for the one before it
    totals    block 0 -> totals -> fold           all totals and, as soon as the small folds have
                 \\---------------> scan            come so far, all scans at a time; every block
              block 1 -> totals -> fold           is sent twice
                 \\---------------> scan
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Literal, SupportsIndex

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from tally.address import parse_address
from tally.client import Client, Precision, attributes_of
from tally.dask import tasks
from tally.errors import InvalidArgument
from tally.layout import as_operand

Method = Literal["auto", "totals", "carry"]
Key = tuple[Any, ...]

CHAINS = 32  # so many columns keep most clusters busy: a carry for each then, which sends less

__all__ = ["Method", "cumsum"]


def cumsum(
    d: da.Array,
    axis: SupportsIndex | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    precision: Precision = "wide",
    urls: str | Sequence[str] | None = None,
    method: Method = "auto",
    options: Mapping[str, Any] | None = None,
) -> da.Array:
    """The cumulative sum of ``d`` along ``axis``.

    Args:
        d: dask array of NumPy arrays, in any chunks whose sizes along the axis are known.
        axis, dtype, exclusive, reverse, precision: as for :meth:`tally.Client.cumsum`.
        urls: of the Tally servers that any worker may ask. They take turns; a worker whose
            TALLY_URL is one of them asks that one first; one that is gone is left out until it
            is back. None: each worker asks that of its own TALLY_URL alone.
        method: how sums pass from chunk to chunk along the axis. "totals": all chunks at a time,
            each sent twice; in the order of traversal all but the last have a multiple of 65536
            elements along the axis (integers: any). "carry": one after the other, each sent once;
            only columns side by side are summed at a time. "auto": "totals" where the chunks
            allow it and there are less than 32 columns.
        options: further arguments of :class:`tally.Client`, for workers: ``token``, ``ca_file``,
            ``timeout``. They are part of the graph, which the scheduler sees.

    Returns:
        A dask array of the chunks of ``d``; for axis None those of ``d.reshape(-1)``.

    Raises:
        InvalidArgument: an argument cannot be. What goes wrong in a worker is raised where the
            result is computed: a :class:`tally.TallyError`.
    """
    if not isinstance(d, da.Array):
        raise InvalidArgument(
            f"d is a {type(d).__name__}, expected a dask array: da.from_array(...), or "
            "tally.Client.cumsum() for one that is in memory",
            field="d",
        )
    meta: Any = d._meta  # pyright: ignore[reportPrivateUsage]
    if type(meta) is not np.ndarray:
        raise InvalidArgument(
            f"the chunks of d are of type {type(meta).__name__}, expected NumPy arrays: "
            "d.map_blocks(numpy.asarray), or what fills in its gaps",
            field="d",
        )
    operand = as_operand(np.empty((0,) * d.ndim, d.dtype), axis, dtype)
    if axis is None or d.ndim == 0:
        _refuse_unknown(d, range(d.ndim))
        d = d.reshape(-1)
    _refuse_unknown(d, [operand.axis])
    attributes_of(exclusive, reverse, precision)  # checked
    asked = tasks.Sum(
        operand.axis,
        operand.array.dtype,
        operand.dtype,
        bool(exclusive),
        bool(reverse),
        precision,
        _checked_urls(urls),
        _checked_options(options),
    )
    column = _Column(d.chunks[asked.axis], asked)
    name = f"tally-cumsum-{tokenize(d.name, asked, method)}"
    made = np.empty((0,) * d.ndim, asked.dtype)
    if method not in ("auto", "totals", "carry"):
        raise InvalidArgument(
            f"method is {method!r}, expected 'auto', 'totals' or 'carry'", field="method"
        )
    if len(column.filled) <= 1:
        summed: da.Array = da.map_blocks(
            tasks.whole, d, asked=asked, name=name, dtype=asked.dtype, meta=made
        )
        return summed
    others = [range(count) for count in d.numblocks]
    others[asked.axis] = range(1)
    columns = list(product(*others))
    if method == "auto":
        method = "totals" if column.misfit is None and len(columns) < CHAINS else "carry"
    if method == "totals" and column.misfit is not None:
        raise InvalidArgument(
            f"method 'totals' needs chunks that are multiples of {tasks.SUPERBLOCK} along the "
            f"axis, but for the last in the order of traversal; {column.misfit}. Take 'carry', or "
            f"d.rechunk({{{asked.axis}: ...}})",
            field="method",
        )
    graph: dict[Key, Any] = {}
    for first in columns:
        add = column.side_by_side if method == "totals" else column.chained
        graph.update(add(d.name, name, first))
    layers = HighLevelGraph.from_collections(name, graph, dependencies=[d])
    return da.Array(layers, name, d.chunks, meta=made)


class _Column:
    """The chunks that lie behind each other along the axis."""

    def __init__(self, sizes: Sequence[int], asked: tasks.Sum) -> None:
        self.asked = asked
        self.count = len(sizes)
        order = range(len(sizes))[::-1] if asked.reverse else range(len(sizes))
        # Those with elements in the order of traversal, and how many elements are before each.
        self.filled: list[tuple[int, int]] = []
        position = 0
        self.misfit: str | None = None  # what is against method "totals"
        for number in order:
            if sizes[number] == 0:
                continue
            if asked.is_float and position % tasks.SUPERBLOCK and self.misfit is None:
                self.misfit = f"chunk {number} begins behind {position} elements"
            self.filled.append((number, position))
            position += sizes[number]

    def empty(self, source: str, name: str, first: Key) -> Iterator[tuple[Key, Any]]:
        """The chunks without elements: converted, if need be."""
        for number in set(range(self.count)) - {number for number, _ in self.filled}:
            yield self.at(name, first, number), (
                tasks.converted,
                self.at(source, first, number),
                self.asked,
            )

    def at(self, name: str, first: Key, number: int) -> Key:
        """The key of a chunk of this column, from that of its first one."""
        axis = self.asked.axis
        return (name, *first[:axis], number, *first[axis + 1 :])

    def chained(self, source: str, name: str, first: Key) -> Iterator[tuple[Key, Any]]:
        """Tasks of method "carry". A step's answer is two things, which are taken apart at once,
        so that the sums can go while the carry is waited for."""
        yield from self.empty(source, name, first)
        steps, carries = (name.replace("cumsum", kind) for kind in ("step", "carry"))
        carry: Any = b""
        for number, position in self.filled:
            block, here = self.at(source, first, number), self.at(steps, first, number)
            last = (number, position) == self.filled[-1]
            yield here, (tasks.step, block, carry, self.asked, last)
            yield self.at(name, first, number), (tasks.sums_of, here)
            if not last:
                carry = self.at(carries, first, number)
                yield carry, (tasks.carry_of, here)

    def side_by_side(self, source: str, name: str, first: Key) -> Iterator[tuple[Key, Any]]:
        """Tasks of method "totals"."""
        yield from self.empty(source, name, first)
        every, folds = (name.replace("cumsum", kind) for kind in ("totals", "fold"))
        before: Any = None
        for number, position in self.filled:
            block = self.at(source, first, number)
            sums = self.at(name, first, number)
            if before is None:
                yield sums, (tasks.whole, block, self.asked)
            else:
                yield sums, (tasks.scan, block, before, position, self.asked)
            if (number, position) != self.filled[-1]:
                here, fold = self.at(every, first, number), self.at(folds, first, number)
                yield here, (tasks.totals, block, self.asked)
                yield fold, (tasks.fold, before, here, self.asked)
                before = fold


def _refuse_unknown(d: da.Array, axes: Sequence[int]) -> None:
    for axis in axes:
        if any(math.isnan(size) for size in d.chunks[axis]):
            raise InvalidArgument(
                f"the sizes of d's chunks along axis {axis} are unknown: "
                "d.compute_chunk_sizes() finds them",
                field="d",
            )


def _checked_urls(urls: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if urls is None:
        return None
    found = (urls,) if isinstance(urls, str) else tuple(urls)
    if not found:
        raise InvalidArgument("urls is empty: name a server, or leave it out", field="urls")
    for url in found:
        parse_address(url)
    return found


def _checked_options(options: Mapping[str, Any] | None) -> tuple[tuple[str, Any], ...]:
    given = dict(options or {})
    known = set(inspect.signature(Client).parameters) - {"url"}
    for name in given:
        if name not in known:
            raise InvalidArgument(
                f"options has {name!r}; known are {', '.join(sorted(known))}", field="options"
            )
    return tuple(sorted(given.items()))
