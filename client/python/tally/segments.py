"""Segments of an axis, each of which is summed as a line of its own.

    segments_of(size, offsets, groups)      the arguments of cumsum() -> Segments, None without them

    groups  3 5 3 5 5      order 0 2 1 3 4      offsets 0 2 5

Groups are the sets of elements with equal keys. If the elements of a group are not adjacent,
`order` gathers them (a stable sort, so that each group keeps its order), and the sums are scattered
back to the positions of their elements.

Failure: InvalidArgument. Thread: any.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tally.arrays import as_array
from tally.dtypes import Array
from tally.errors import InvalidArgument


class Segments(NamedTuple):
    """Segments of the elements along an axis."""

    offsets: Array  # int64: index of the first element of each segment, then the axis' size
    # Index along the axis of each element, in the order of the segments; None: the same order.
    order: Array | None = None

    @property
    def segment_count(self) -> int:
        """Number of segments, empty ones among them."""
        return self.offsets.size - 1

    def numbers(self) -> Array:
        """Return the number of the segment of each element."""
        return np.repeat(np.arange(self.segment_count), np.diff(self.offsets))


def segments_of(
    size: int, offsets: Any, groups: Any, include_initial: Any = False
) -> Segments | None:
    """Return the segments of an axis of `size` elements; None if it is one line.

    offsets, groups, include_initial: arguments of cumsum()."""
    if offsets is not None and groups is not None:
        raise InvalidArgument(
            "offsets and groups are both given: the groups determine the segments",
            field="groups",
        )
    if offsets is not None:
        return Segments(_checked_offsets(offsets, size))
    if groups is None:
        return None
    if include_initial:
        raise InvalidArgument(
            "include_initial and groups are both given: the sums have the order of x, in which the "
            "sum before a group has no place; sort x by its keys and give offsets",
            field="include_initial",
        )
    return _grouped(_keys(groups, size))


def _checked_offsets(offsets: Any, size: int) -> Array:
    try:
        found = as_array(offsets, "offsets")
    except InvalidArgument:  # rows of different lengths
        found = np.empty((0, 0))
    if found.shape == (0,):
        raise InvalidArgument(
            "offsets is empty, expected the beginning of each segment and then the size of the "
            "axis",
            field="offsets",
        )
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InvalidArgument(
            f"offsets has the type {found.dtype} and {found.ndim} dimensions, expected integers in "
            "one dimension: the beginning of each segment and then the size of the axis",
            field="offsets",
        )
    falls = np.flatnonzero(found[1:] < found[:-1])
    words = ""
    if found[0] != 0:
        words = f"offsets[0] is {found[0]}, expected 0: the first segment begins with the axis"
    elif falls.size > 0:
        at = int(falls[0]) + 1
        words = (
            f"offsets[{at}] is {found[at]}, less than the offset before it, {found[at - 1]}: "
            "offsets never decrease, because each is the end of a segment and the beginning of the "
            "next one"
        )
    elif found[-1] != size:
        words = (
            f"offsets[{found.size - 1}], the last one, is {found[-1]}, expected the size of the "
            f"axis, {size}: the last segment ends with the axis"
        )
    if words:
        raise InvalidArgument(words, field="offsets")
    # A copy: the caller may change the list while the call is in flight.
    copied: Array = found.astype(np.int64)
    return copied


def _keys(groups: Any, size: int) -> Array:
    """Return the keys as an array, one for each element along the axis."""
    if isinstance(groups, np.ma.MaskedArray):
        raise InvalidArgument(
            "groups is a masked array: give its masked elements a key of their own, "
            "groups.filled(key)",
            field="groups",
        )
    try:
        keys = as_array(groups, "groups")
    except InvalidArgument:  # rows of different lengths
        keys = np.empty(())
    if keys.shape != (size,):
        raise InvalidArgument(
            f"groups has the shape {keys.shape}, expected ({size},): a key for each element along "
            "the axis",
            field="groups",
        )
    return keys


def _grouped(keys: Array) -> Segments:
    try:
        missing = np.flatnonzero(keys != keys)  # NaN and NaT
        starts = _starts(keys)
        order = _stable_order(keys)
        in_order = keys[order]
        sorted_starts = _starts(in_order)
    except TypeError as error:  # keys of dtype object that cannot be compared
        raise InvalidArgument(
            f"groups cannot be sorted: {error}; give numbers instead, pandas.factorize(groups)[0]",
            field="groups",
        ) from error
    if missing.size > 0:
        at = int(missing[0])
        raise InvalidArgument(
            f"groups[{at}] is {keys[at]}, which is in no group: leave such elements out, or give "
            "them a key of their own (pandas.factorize(groups)[0] has -1 for them)",
            field="groups",
        )
    if starts.size == sorted_starts.size:  # as many runs of equal keys as groups
        return Segments(np.append(starts, keys.size))
    return Segments(np.append(sorted_starts, keys.size), order)


def _stable_order(keys: Array) -> Array:
    """Return the indices of the sorted keys. NumPy sorts integers of 16 bits in linear time, so
    integers within a range of 2^16 are converted to this type first."""
    if keys.dtype.kind in "iu" and keys.size > 0:
        least = int(keys.min())
        if int(keys.max()) - least < 1 << 16:
            keys = keys.astype(np.uint16) - np.uint16(least % (1 << 16))  # modulo 2^16
    return np.argsort(keys, kind="stable")


def _starts(keys: Array) -> Array:
    """Return where runs of equal keys begin."""
    inner = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    first = np.zeros(min(keys.size, 1), np.int64)
    return np.concatenate([first, inner])
