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
from tally.client import Client, finish, prepare, raw_request
from tally.dask.replicas import Options, replicas
from tally.layout import Array


@dataclass(frozen=True)
class Sum:
    """A sum that was asked for, and whom to ask. Every task of it has it."""

    axis: int
    dtype: np.dtype[Any]  # of the sums: what blocks are converted to
    exclusive: bool
    reverse: bool
    urls: tuple[str, ...] | None
    options: Options = field(repr=False)  # a token may be among them


def whole(block: Array, asked: Sum) -> Array:
    """The sums of a block whose lines are whole. A large one goes in parts by itself."""

    def work(client: Client) -> Array:
        return client.cumsum(
            block,
            asked.axis,
            dtype=asked.dtype,
            exclusive=asked.exclusive,
            reverse=asked.reverse,
        )

    return replicas(asked.urls, asked.options).ask(work)


def totals(block: Array, asked: Sum) -> bytes:
    """The carry behind a block alone."""

    def work(client: Client) -> Carry:
        return client.totals(
            block,
            asked.axis,
            dtype=asked.dtype,
            exclusive=asked.exclusive,
            reverse=asked.reverse,
        )

    return bytes(replicas(asked.urls, asked.options).ask(work))


def fold(before: bytes, more: bytes) -> bytes:
    """The carry behind a block, from the carry before it (empty: none) and its totals."""
    return bytes(Carry(before) + Carry(more)) if before else more


def scan(block: Array, carry: bytes, asked: Sum) -> Array:
    """The sums of a block behind a carry (empty: it is the first)."""
    if not carry:
        return whole(block, asked)
    prepared = prepare(block, asked.axis, asked.dtype, asked.exclusive, asked.reverse, packed=True)
    request = raw_request(prepared, "last", carry)

    def work(client: Client) -> bytes:
        return client._run(request)  # pyright: ignore[reportPrivateUsage]

    replicas(asked.urls, asked.options).ask(work)
    return finish(prepared)


def converted(block: Array, asked: Sum) -> Array:
    """A block without elements, which is its own sums."""
    return block.astype(asked.dtype, copy=False)
