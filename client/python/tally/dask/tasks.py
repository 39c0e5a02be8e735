"""The tasks on the blocks of an array, a function for each kind of task.

    whole()    the sums of a block with complete lines
    totals()   the exact sum of each line of a block, as a carry
    fold()     the carry after a block: the carry before it plus the block's totals
    scan()     the sums of a block after a carry

Carries are exact, so the bits are those of one request (docs/carry.md). A task does not change its
block, because dask may give the same block to other tasks.

Failure: TallyError. Thread: any; a task belongs to one thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tally.carry import Carry
from tally.client import Client
from tally.dask.replicas import Options, replicas
from tally.dtypes import Array
from tally.prepare import complex_parts, prepare, prepare_totals, raw_request


@dataclass(frozen=True)
class Sum:
    """A requested sum and its servers. Each of its tasks has a copy."""

    axis: int
    elements: np.dtype[Any] | None  # type that blocks are converted to first; None: no conversion
    dtype: np.dtype[Any]  # type of the sums
    exclusive: bool
    reverse: bool
    nan: str | None
    initial: Any  # applies to the first block with elements
    include_initial: bool  # applies to the first block with elements
    offsets: Array | None  # with offsets or groups the axis is one chunk
    groups: Array | None
    urls: tuple[str, ...] | None
    options: Options = field(repr=False)  # not printed, because they may contain a token

    def read(self, block: Array) -> Array:
        """Return a block with the elements to sum."""
        return block if self.elements is None else block.astype(self.elements, copy=False)


def whole(block: Array, asked: Sum) -> Array:
    """Return the sums of a block that is the first one of its lines. The client sends a large block
    in parts."""

    def work(client: Client) -> Array:
        return client.cumsum(
            asked.read(block),
            asked.axis,
            dtype=asked.dtype,
            exclusive=asked.exclusive,
            reverse=asked.reverse,
            nan=asked.nan,  # type: ignore[arg-type]
            initial=asked.initial,
            include_initial=asked.include_initial,
            offsets=asked.offsets,
            groups=asked.groups,
        )

    return replicas(asked.urls, asked.options).ask(work)


def totals(block: Array, asked: Sum, first: bool) -> bytes:
    """Return the totals of a block. Those of the first block have the initial value."""
    total = prepare_totals(
        asked.read(block),
        asked.axis,
        asked.dtype,
        asked.exclusive,
        asked.reverse,
        asked.nan,  # type: ignore[arg-type]
        asked.initial if first else None,
    )

    def work(client: Client) -> Carry:
        return total.carry(client._run(total.request))  # pyright: ignore[reportPrivateUsage]

    return bytes(replicas(asked.urls, asked.options).ask(work))


def fold(before: bytes, more: bytes) -> bytes:
    """Return the carry after a block, from the carry before it (empty: none) and its totals."""
    return bytes(Carry(before) + Carry(more)) if before else more


def scan(block: Array, carry: bytes, asked: Sum) -> Array:
    """Return the sums of a block after a carry (empty: the block is the first one)."""
    if not carry:
        return whole(block, asked)
    prepared = prepare(
        asked.read(block),
        asked.axis,
        asked.dtype,
        packed=True,
        exclusive=asked.exclusive,
        reverse=asked.reverse,
        nan=asked.nan,
    )
    request = raw_request(prepared, "last", carry)

    def work(client: Client) -> bytes:
        return client._run(request)  # pyright: ignore[reportPrivateUsage]

    replicas(asked.urls, asked.options).ask(work)
    return prepared.finish()


def converted(block: Array, asked: Sum) -> Array:
    """Return the sums of a block without elements."""
    return block.astype(asked.dtype, copy=False)


def component(block: Array, imaginary: bool, nan: str | None) -> Array:
    """Return the real or the imaginary parts of a complex block."""
    return complex_parts(block, nan)[imaginary]


def joined(real: Array, imaginary: Array, dtype: np.dtype[Any]) -> Array:
    """Return the complex sums with these parts."""
    both = np.empty(real.shape, dtype)
    both.real, both.imag = real, imaginary
    return both
