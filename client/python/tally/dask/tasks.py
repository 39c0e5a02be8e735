"""The work of the tasks on the blocks of an array: one function for each kind of task.

    whole()    the sums of a block whose lines are whole
    totals()   the exact sum of each line of a block, as a carry
    fold()     the carry behind a block: that before it, and the block's totals
    scan()     the sums of a block behind a carry

Carries are exact, so the bits are those of one request (docs/carry.md). A task does not change its
block: dask may give the same block to others.

Failure: TallyError. Thread: any; each task belongs to one.
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
    """A sum that was asked for, and whom to ask. Every task of it has it."""

    axis: int
    elements: np.dtype[Any] | None  # what blocks are converted to first; None: they are not
    dtype: np.dtype[Any]  # of the sums
    exclusive: bool
    reverse: bool
    nan: str | None
    initial: Any  # of the first block with elements, as include_initial
    include_initial: bool
    offsets: Array | None  # of the axis, which is one chunk then; as groups
    groups: Array | None
    urls: tuple[str, ...] | None
    options: Options = field(repr=False)  # a token may be among them

    def read(self, block: Array) -> Array:
        """Return a block with the elements to sum."""
        return block if self.elements is None else block.astype(self.elements, copy=False)


def whole(block: Array, asked: Sum) -> Array:
    """The sums of a block that is the first one of its lines. A large one goes in parts by
    itself."""

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
    """The carry behind a block alone. That of the first block has the initial value."""
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
    """The carry behind a block, from the carry before it (empty: none) and its totals."""
    return bytes(Carry(before) + Carry(more)) if before else more


def scan(block: Array, carry: bytes, asked: Sum) -> Array:
    """The sums of a block behind a carry (empty: it is the first)."""
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
    """A block without elements, which is its own sums."""
    return block.astype(asked.dtype, copy=False)


def component(block: Array, imaginary: bool, nan: str | None) -> Array:
    """The real or the imaginary parts of a complex block."""
    return complex_parts(block, nan)[imaginary]


def joined(real: Array, imaginary: Array, dtype: np.dtype[Any]) -> Array:
    """The complex sums of these parts."""
    both = np.empty(real.shape, dtype)
    both.real, both.imag = real, imaginary
    return both
