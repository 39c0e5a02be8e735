"""Cumulative sums of dask arrays, computed by the Tally servers of dask's workers.

    import dask.array as da, tally.dask

    d = da.from_zarr("in.zarr")
    tally.dask.cumsum(d, axis=0).to_zarr("out.zarr")

:func:`cumsum` makes a graph; nothing is sent before the graph is computed. The bits are those of
one request with the whole array, for all chunks and on all machines.

Chunks that span the axis do not depend on each other. Other chunks form a column for each position
along the other dimensions. A column is summed in two passes, and all blocks of a pass may be
processed at the same time:

    block 0 -> totals -> fold              the exact sum of each line of every block; a fold adds
    block 1 -> totals ---> fold            the totals of a block to the carry before the block
    block 1 and the carry before it -> cumsum

Tasks keep no block between the passes: a block is computed twice and sent twice instead. Therefore
a worker holds only the blocks that it processes, for any length of the columns.

Failure: ImportError without dask, InvalidArgument, TallyError. Thread: any.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

try:
    import dask.array as da
except ImportError as error:
    raise ImportError(
        f"tally.dask needs dask, which the extra tally-client[dask] installs: {error}"
    ) from error
from dask import core as dask_core
from dask._task_spec import GraphNode, Task, TaskRef
from dask.array import optimization
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from tally.address import parse_address
from tally.arrays import as_array
from tally.attributes import NaN, attributes_of
from tally.client import Client
from tally.dask import tasks
from tally.dtypes import complex_types
from tally.errors import InvalidArgument
from tally.layout import as_operand, extra_sums
from tally.prepare import component_initials
from tally.segments import segments_of

Key = tuple[Any, ...]

# dask declares no types for these functions, or only some of them.
_Array: Any = da.Array
_map_blocks: Any = da.map_blocks
_zeros: Any = da.zeros
_optimize: Any = optimization.optimize
_flatten: Any = dask_core.flatten

__all__ = ["cumsum"]


def cumsum(
    d: da.Array,
    axis: SupportsIndex | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    nan: NaN | None = None,
    skipna: bool | None = None,
    initial: Any = None,
    include_initial: bool = False,
    offsets: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
    urls: str | Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> da.Array:
    """Return the cumulative sum of ``d`` along ``axis``.

    Args:
        d: dask array of NumPy arrays, in chunks with known sizes along the axis.
        axis, dtype, exclusive, reverse, nan, initial, include_initial: as for
            :meth:`tally.Client.cumsum`. Sums of integers as floats are accepted or refused by the
            type and the length of the axis, because the values are not known yet.
        offsets, groups: as for :meth:`tally.Client.cumsum`. The axis must be one chunk, because
            every task has them. groups are keys in memory.
        skipna: xarray's name for ``nan``: True is "zero", False is "propagate".
        urls: URLs of the Tally servers that every worker may use; a worker alternates between
            them. A worker whose TALLY_URL is one of them prefers this server. After a failure a
            worker does not use the server for some time. None: each worker uses only the server of
            its own TALLY_URL.
        options: further arguments of :class:`tally.Client` in the workers, such as ``token``,
            ``ca_file`` and ``timeout``. They are part of the graph, which the scheduler sees.

    Returns:
        A dask array with the chunks of ``d``; for axis None those of ``d.reshape(-1)``. With
        ``include_initial`` one chunk of each line is one longer: the first one that has elements,
        with ``reverse`` the last one. With ``offsets`` the chunk is longer by the number of
        segments.

    Raises:
        InvalidArgument: an argument is invalid. An error in a worker is raised where the result is
            computed, as a :class:`tally.TallyError`.
    """
    if not isinstance(d, da.Array):
        raise InvalidArgument(
            f"d is a {type(d).__name__}, expected a dask array: da.from_array(...), or "
            "tally.Client.cumsum() for an array in memory",
            field="d",
        )
    array: Any = d
    if type(array._meta) is not np.ndarray:
        masked = isinstance(array._meta, np.ma.MaskedArray)  # numpy.asarray() would drop the mask
        raise InvalidArgument(
            f"the chunks of d are of type {type(array._meta).__name__}, expected NumPy arrays: "
            + ("fill it first, da.ma.filled(d, 0)" if masked else "d.map_blocks(numpy.asarray)"),
            field="d",
        )
    nan = _checked_skipna(skipna, nan)
    if axis is None or d.ndim == 0:
        _refuse_unknown(array, range(d.ndim))
        # dask does not reshape all empty arrays.
        array = array.reshape(-1) if array.size > 0 else _zeros(0, dtype=d.dtype)
        axis = None if axis is None else as_operand(np.empty(1), axis, None).axis
    if array.dtype.kind == "c":
        return _complex_sums(
            array,
            axis,
            dtype,
            initial,
            exclusive=exclusive,
            reverse=reverse,
            nan=nan,
            include_initial=include_initial,
            offsets=offsets,
            groups=groups,
            urls=urls,
            options=options,
        )
    empty = np.empty((0,) * array.ndim, array.dtype)
    number = as_operand(empty, axis, None).axis
    _refuse_unknown(array, [number])
    operand = as_operand(empty, axis, dtype, length=array.shape[number], seen=False)
    attributes = attributes_of(operand, exclusive, reverse, nan, initial, include_initial)
    segments = segments_of(array.shape[number], offsets, groups, include_initial)
    if segments is not None and array.numblocks[number] != 1:
        raise InvalidArgument(
            f"axis {number} of d is in {array.numblocks[number]} chunks, expected one with offsets "
            f"or groups: d.rechunk({{{number}: -1}})",
            field="d",
        )
    of_integers = np.can_cast(array.dtype, np.int64) and operand.array.dtype.kind not in "biu"
    asked = tasks.Sum(
        operand.axis,
        operand.sums if of_integers else None,
        operand.result,
        bool(exclusive),
        bool(reverse),
        nan,
        initial,
        "include_initial" in attributes,
        None if offsets is None or segments is None else segments.offsets,
        None if groups is None else as_array(groups, "groups"),
        _checked_urls(urls),
        _checked_options(options),
    )
    extra = extra_sums(asked.include_initial, segments)
    column = _Column(array.chunks[asked.axis], asked, extra)
    name = f"tally-cumsum-{tokenize(array.name, asked)}"
    made = np.empty((0,) * array.ndim, asked.dtype)
    if len(column.filled) <= 1 and not (asked.include_initial and column.count > 1):
        chunks = column.sums_chunks(array.chunks)
        summed: da.Array = _map_blocks(
            tasks.whole, array, asked=asked, name=name, dtype=asked.dtype, chunks=chunks, meta=made
        )
        return summed
    others = [range(count) for count in array.numblocks]
    others[asked.axis] = range(1)
    columns = list(product(*others))
    blocks = _Blocks(array)
    graph: dict[Any, Any] = {
        task.key: task for first in columns for task in column.tasks(blocks, name, first)
    }
    layers = HighLevelGraph.from_collections(
        name, {**graph, **blocks.graph}, dependencies=blocks.dependencies
    )
    result: da.Array = _Array(layers, name, column.sums_chunks(array.chunks), meta=made)
    return result


def _complex_sums(
    d: Any, axis: SupportsIndex | None, dtype: Any, initial: Any, **options: Any
) -> da.Array:
    """Return the sums of the real and the imaginary parts of a complex array, as complex sums."""
    result, part = complex_types(np.empty(0, d.dtype), dtype)
    sums = [
        cumsum(
            _map_blocks(tasks.component, d, imaginary, options["nan"], dtype=part),
            axis,
            dtype=part,
            initial=first,
            **options,
        )
        for imaginary, first in enumerate(component_initials(initial, result))
    ]
    joined: da.Array = _map_blocks(tasks.joined, *sums, result, dtype=result)
    return joined


def _checked_skipna(skipna: bool | None, nan: NaN | None) -> NaN | None:
    if skipna is None:
        return nan
    if not isinstance(skipna, (bool, np.bool_)):
        raise InvalidArgument(f"skipna is {skipna!r}, expected True or False", field="skipna")
    if nan is not None:
        raise InvalidArgument(
            "skipna and nan are both given: skipna=True is nan='zero', skipna=False is "
            "nan='propagate'",
            field="skipna",
        )
    return "zero" if skipna else "propagate"


class _Blocks:
    """The blocks of an array as arguments of tasks.

    If a block depends on no other task's result (it is read from a file, and then possibly
    changed), each task makes the block by itself. Otherwise dask keeps the block until both tasks
    have run.
    """

    def __init__(self, d: Any) -> None:
        self.name = d.name
        self.graph: dict[Any, Any] = {}
        self.dependencies: list[Any] = [d]
        nodes = dict(_optimize(d.dask, list(_flatten(d.__dask_keys__()))))
        self.nodes = {key: node for key, node in nodes.items() if key[0] == d.name}
        sources = {key for node in self.nodes.values() for key in node.dependencies}
        if all(isinstance(node, Task) for node in self.nodes.values()) and all(
            key not in self.nodes and key in nodes and not nodes[key].dependencies
            for key in sources
        ):
            self.graph = {key: nodes[key] for key in sources}
            self.dependencies = []

    def __call__(self, place: Key) -> GraphNode | TaskRef:
        key = (self.name, *place)
        return TaskRef(key) if self.dependencies else self.nodes[key]


class _Column:
    """The chunks at one position of the other dimensions, in their order along the axis."""

    def __init__(self, sizes: Sequence[int], asked: tasks.Sum, extra: int) -> None:
        self.asked = asked
        self.extra = extra  # additional sums along the axis, those of include_initial
        self.count = len(sizes)
        order = range(len(sizes))[:: -1 if asked.reverse else 1]
        self.filled = [number for number in order if sizes[number] > 0]  # in order of traversal
        if not self.filled and asked.include_initial:
            self.filled = [order[0]]

    def sums_chunks(self, chunks: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        """Return the chunks of the sums, for the chunks of the array."""
        sizes, axis = list(chunks[self.asked.axis]), self.asked.axis
        if self.asked.include_initial:
            sizes[self.filled[0]] += self.extra
        return (*chunks[:axis], tuple(sizes), *chunks[axis + 1 :])

    def at(self, first: Key, number: int) -> Key:
        """Return the position of a chunk in the column whose first chunk is at `first`."""
        axis = self.asked.axis
        return (*first[:axis], number, *first[axis + 1 :])

    def tasks(self, blocks: _Blocks, name: str, first: Key) -> Iterator[Task]:
        """Yield the tasks of a column."""
        for number in set(range(self.count)) - set(self.filled):
            place = self.at(first, number)
            yield Task((name, *place), tasks.converted, blocks(place), self.asked)
        totals_name, fold_name = (name.replace("cumsum", kind) for kind in ("totals", "fold"))
        before: bytes | TaskRef = b""
        for number in self.filled:
            place = self.at(first, number)
            block = blocks(place)
            yield Task((name, *place), tasks.scan, block, before, self.asked)
            if number != self.filled[-1]:
                totals, fold = (totals_name, *place), (fold_name, *place)
                yield Task(totals, tasks.totals, block, self.asked, number == self.filled[0])
                yield Task(fold, tasks.fold, before, TaskRef(totals))
                before = TaskRef(fold)


def _refuse_unknown(d: Any, axes: Sequence[int]) -> None:
    for axis in axes:
        if any(math.isnan(size) for size in d.chunks[axis]):
            raise InvalidArgument(
                f"the sizes of d's chunks along axis {axis} are unknown: "
                "d.compute_chunk_sizes() computes them",
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
