"""What workers do with the blocks of an array: one function for each kind of task.

    whole()            the sums of a block that has its lines whole
    advance(), scan()  the carry behind a block; the sums of a block behind a carry: a chain
    totals(), fold(),  what the superblocks of a block sum up to; what a block and all before it
    scan_behind()      do; the sums of a block, from what those before it do: side by side

Whichever it is, the bits are those of one request (docs/carry.md). Blocks come as they are and are
not changed: dask may hand the same one to others.

Failure: TallyError. Thread: any; each task belongs to one.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tally.call import Request
from tally.client import (
    Client,
    attributes_of,
    finish,
    prepare,
    raw_request,
    totals_request,
)
from tally.dask.replicas import Options, replicas
from tally.layout import V2_NAMES, Array, as_operand
from tally.parts import Part

SUPERBLOCK = 65536  # elements along the axis
CODES = {name: code for code, name in enumerate(V2_NAMES, 1)}


@dataclass(frozen=True)
class Sum:
    """A sum that was asked for, and whom to ask. Every task of it has it."""

    axis: int
    dtype: np.dtype[Any]  # of the sums: what blocks are converted to
    name: str  # of that type on the wire
    exclusive: bool
    reverse: bool
    urls: tuple[str, ...] | None
    options: Options = field(repr=False)  # a token may be among them

    @property
    def is_float(self) -> bool:
        return "float" in self.name

    @property
    def accumulator(self) -> np.dtype[Any]:
        """What totals are added up in."""
        return np.dtype(np.float64) if self.is_float else self.dtype


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


def scan(block: Array, carry: bytes, asked: Sum) -> Array:
    """The sums of a block behind a carry; empty: it is the first."""
    if not carry:
        return whole(block, asked)
    return _part(block, "last", carry, asked)[0]


def advance(block: Array, carry: bytes, asked: Sum) -> bytes:
    """The carry behind a block. The service gives its sums as well, which are dropped."""
    return _part(block, "next" if carry else "first", carry, asked)[1]


def converted(block: Array, asked: Sum) -> Array:
    """A block without elements, which is its own sums."""
    return block.astype(asked.dtype, copy=False)


def totals(block: Array, asked: Sum) -> Array:
    """What each superblock of a block sums up to: (superblocks, lines)."""
    operand = as_operand(block, asked.axis, asked.dtype)
    attributes = attributes_of(asked.exclusive, asked.reverse)
    length = block.shape[asked.axis]
    count = block.size // length
    found: Array = np.empty((count, -(-length // SUPERBLOCK)), asked.accumulator.newbyteorder("<"))
    request = totals_request(operand, attributes, found)
    _send(request, asked)
    transposed: Array = found.T
    return transposed


def fold(before: Array | None, more: Array, asked: Sum) -> Array:
    """What each line sums up to behind a block, from the same before it (None: it is the first)
    and the block's totals: added one after the other, as one request adds them."""
    zero = 0.0 if asked.exclusive or not asked.is_float else -0.0
    sums: Array = np.full(more.shape[1], zero, asked.accumulator)
    if before is not None:
        sums[:] = before
    with np.errstate(all="ignore"):
        for one in more:
            sums += one
    if asked.is_float:
        sums[np.isnan(sums)] = np.nan  # the one without payload
    return sums


def scan_behind(block: Array, before: Array | None, position: int, asked: Sum) -> Array:
    """The sums of a block behind so many elements of each line, and what they sum up to."""
    carry = b"" if before is None else folded_carry(before, position, asked)
    return scan(block, carry, asked)


def folded_carry(sums: Array, position: int, asked: Sum) -> bytes:
    """The carry of lines that sum up to this at a position where a superblock begins. Integers
    may be anywhere."""
    stored = asked.accumulator.newbyteorder("<")
    planes = sums.astype(stored).tobytes()
    if asked.is_float:
        planes += np.full(sums.size, -0.0, stored).tobytes()
    flags = asked.exclusive + 2 * asked.reverse
    head = struct.pack("<BxB5xQQ24x", CODES[asked.name], flags, sums.size, position)
    crc = zlib.crc32(planes, zlib.crc32(head))
    return b"TALLYSUM" + struct.pack("<II", 1, crc) + head + planes


def _part(block: Array, part: Part, carry: bytes, asked: Sum) -> tuple[Array, bytes]:
    prepared = prepare(
        block,
        asked.axis,
        asked.dtype,
        asked.exclusive,
        asked.reverse,
        None,
        None,
        packed=True,
    )
    request = raw_request(prepared, part, carry)
    carry = _send(request, asked)
    return finish(prepared), carry


def _send(request: Request, asked: Sum) -> bytes:
    def work(client: Client) -> bytes:
        return client._run(request)  # pyright: ignore[reportPrivateUsage]

    return replicas(asked.urls, asked.options).ask(work)
