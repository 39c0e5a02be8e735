"""What workers do with the blocks of an array: one function for each kind of task.

    whole()                     the sums of a block that has its lines whole
    step()                      the sums of a block, and the carry behind it: a chain
    totals(), fold(), scan()    what the superblocks of a block sum up to; what all before a block
                                do; its sums: side by side

Whichever it is, the bits are those of one request (docs/carry.md). Blocks come as they are and are
not changed: dask may hand the same one to others.

Failure: TallyError. Thread: any; each task belongs to one.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from tally.call import Request
from tally.client import (
    Client,
    Precision,
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
    precision: Precision
    urls: tuple[str, ...] | None
    options: Options

    @property
    def is_float(self) -> bool:
        return "float" in self.name

    @property
    def native(self) -> bool:
        """Whether it makes a difference that it was asked for."""
        return self.precision == "native" and self.is_float and self.name != "float64"

    @property
    def accumulator(self) -> np.dtype[Any]:
        """What totals are added up in, little-endian as they travel."""
        wide = np.dtype(np.float32 if self.native else np.float64)
        return (wide if self.is_float else self.dtype).newbyteorder("<")


def whole(block: Array, asked: Sum) -> Array:
    """The sums of a block whose lines are whole. A large one goes in parts by itself."""

    def work(client: Client) -> Array:
        return client.cumsum(
            block,
            asked.axis,
            dtype=asked.dtype,
            exclusive=asked.exclusive,
            reverse=asked.reverse,
            precision=asked.precision,
        )

    return replicas(asked.urls, asked.options).ask(work)


def step(block: Array, carry: bytes, asked: Sum, last: bool) -> tuple[Array, bytes]:
    """The sums of the next block of a chain, and the carry for the one behind it."""
    return _part(block, "last" if last else "next" if carry else "first", carry, asked)


def sums_of(found: tuple[Array, bytes]) -> Array:
    """Of what step() gave."""
    return found[0]


def carry_of(found: tuple[Array, bytes]) -> bytes:
    """Of what step() gave."""
    return found[1]


def converted(block: Array, asked: Sum) -> Array:
    """A block without elements, which is its own sums."""
    return block.astype(asked.dtype, copy=False)


def totals(block: Array, asked: Sum) -> Array:
    """What each superblock of a block sums up to, in the order of traversal: (superblocks, lines)."""
    operand = as_operand(block, asked.axis, asked.dtype)
    attributes = attributes_of(asked.exclusive, asked.reverse, asked.precision)
    length = block.shape[asked.axis]
    found = np.empty((block.size // length, -(-length // SUPERBLOCK)), asked.accumulator)
    request = totals_request(operand, attributes, found)
    _send(request, asked)
    return found.T


def fold(before: Array | None, more: Array, asked: Sum) -> Array:
    """What each line sums up to behind a block, from the same before it (None: it is the first)
    and the block's totals: added one after the other, as one request adds them."""
    if before is None:
        zero = 0.0 if asked.exclusive or not asked.is_float else -0.0
        before = np.full(more.shape[1], zero, asked.accumulator)
    sums = before
    with np.errstate(all="ignore"):
        for one in more:
            sums = sums + one
    if asked.is_float:
        sums = np.where(np.isnan(sums), sums.dtype.type(np.nan), sums)  # the one without payload
    return sums


def scan(block: Array, before: Array, position: int, asked: Sum) -> Array:
    """The sums of a block that begins with a superblock, behind so many elements of each line."""
    return _part(block, "last", folded_carry(before, position, asked), asked)[0]


def folded_carry(sums: Array, position: int, asked: Sum) -> bytes:
    """The carry of lines that sum up to this at a position where a superblock begins. Integers
    may be anywhere."""
    planes = sums.astype(asked.accumulator).tobytes()
    if asked.is_float:
        planes += np.full(sums.size, -0.0, asked.accumulator).tobytes()
    flags = asked.exclusive + 2 * asked.reverse
    head = struct.pack("<BBB5xQQ24x", CODES[asked.name], asked.native, flags, sums.size, position)
    crc = zlib.crc32(planes, zlib.crc32(head))
    return b"TALLYSUM" + struct.pack("<II", 1, crc) + head + planes


def _part(block: Array, part: Part, carry: bytes, asked: Sum) -> tuple[Array, bytes]:
    prepared = prepare(
        block,
        asked.axis,
        asked.dtype,
        asked.exclusive,
        asked.reverse,
        asked.precision,
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
