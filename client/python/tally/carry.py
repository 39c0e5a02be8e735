"""Carries: the exact sum of each line of a tensor so far (docs/carry.md).

    total = client.totals(x, axis=0)         # or tally.Carry(parts.carry)
    total.sums()                             # one Fraction for each line
    bytes(before + total)                    # the carry after both tensors

A sum of floats is an integer multiple of the least positive number of the type. Python's integers
hold every such sum, so carries are added without rounding, in any order. Equal sums have equal
bytes.

Failure: InvalidArgument, for bytes that are not a carry and for carries of different tensors.
Thread: any; a carry is immutable.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tally.dtypes import V2_NAMES
from tally.errors import InvalidArgument

MAGIC, VERSION = b"TALLYSUM", 2
HEADER = struct.Struct("<8sIIBxB5xQQ24x")
HEADER_BYTES, CRC_END = 64, 16  # bytes; the checksum covers the bytes from CRC_END on
NAMES = tuple(V2_NAMES)  # the code of a type in the header is its index + 1
POSITION_MAX = 2**63 - 1
WORD_BYTES = 8

NANS = ("propagate", "zero", "skip")  # how NaN counts; the header's flags have the index, times 4

NAN, PLUS, MINUS, NEGATIVE_ZERO = 1, 2, 4, 8  # flags of a line of floats
SPECIAL = {NAN: math.nan, PLUS: math.inf, MINUS: -math.inf, NEGATIVE_ZERO: -0.0}


class _Float(NamedTuple):
    """A float type. Finite elements are multiples of 2^-shift."""

    shift: int
    largest: int  # largest finite element, in units of 2^-shift
    words: int  # 64-bit words of the sum of 2^63 elements


def _float(fraction: int, exponent: int) -> _Float:
    """Return the type with these numbers of fraction and exponent bits."""
    largest = (2 ** (fraction + 1) - 1) << (2**exponent - 3)
    sum_bits = (largest * POSITION_MAX).bit_length() + 1
    return _Float(2 ** (exponent - 1) - 2 + fraction, largest, -(-sum_bits // 64))


FLOATS = {
    "float16": _float(10, 5),
    "bfloat16": _float(7, 8),
    "float32": _float(23, 8),
    "float64": _float(52, 11),
}


class Carry:
    """The exact sum of each line of a tensor so far. ``+`` adds carries, in any order.

    Attributes:
        dtype: name of the element type, such as "float32".
        exclusive, reverse, nan: options of the scan; nan is "propagate", "zero" or "skip".
        position: elements of each line in the sums.
    """

    __slots__ = ("dtype", "exclusive", "reverse", "nan", "position", "_lines")
    dtype: str
    exclusive: bool
    reverse: bool
    nan: str
    position: int
    # Flags and finite sum of each line; sums of floats are in units of 2^-shift.
    _lines: list[tuple[int, int]]

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        """Decode a carry: ``Parts.carry``, or the bytes in an answer of the service.

        Raises:
            InvalidArgument: the bytes are not a carry, or are damaged.
        """
        data = bytes(data)
        if len(data) < HEADER_BYTES or not data.startswith(MAGIC):
            raise _refusal("these bytes are no carry: they do not begin with its header")
        _, version, crc, code, flags, lines, position = HEADER.unpack_from(data)
        if version != VERSION:
            raise _refusal(f"the carry is of version {version}, expected {VERSION}")
        if crc != zlib.crc32(data[CRC_END:]):
            raise _refusal("the carry was damaged: its CRC-32 is not that of its bytes")
        known = NANS if 1 <= code <= len(NAMES) and NAMES[code - 1] in FLOATS else NANS[:1]
        if not 1 <= code <= len(NAMES) or flags >> 2 >= len(known) or position > POSITION_MAX:
            raise _refusal("the carry's header has a type, flags or a position that do not exist")
        nan = known[flags >> 2]
        self._fill(NAMES[code - 1], bool(flags & 1), bool(flags & 2), nan, position, [])
        payload = data[HEADER_BYTES:]
        self._lines = (self._read_floats if self.dtype in FLOATS else self._read_integers)(
            payload, lines
        )
        self._check_range()
        if bytes(self) != data:
            raise _refusal("the carry is not in its shortest form: send it as the service gave it")

    @classmethod
    def from_sums(
        cls,
        dtype: str,
        sums: Iterable[Fraction | float],
        position: int,
        *,
        exclusive: bool = False,
        reverse: bool = False,
        nan: str = "propagate",
    ) -> Carry:
        """Return the carry of lines that have these sums after ``position`` elements.

        Args:
            dtype: name of the element type.
            sums: one sum for each line, in row-major order and in the form of :meth:`sums`.
            position: elements of each line in the sums.
            exclusive, reverse, nan: options of the scan that continues from the carry. The nan of
                integers is "propagate".

        Raises:
            InvalidArgument: ``position`` elements of this type cannot have these sums.
        """
        if dtype not in NAMES:
            raise InvalidArgument(
                f"dtype is {dtype!r}, expected one of {', '.join(NAMES)}", field="dtype"
            )
        if not 0 <= position <= POSITION_MAX:
            raise _refusal(f"position is {position}, expected 0 to 2^63 - 1")
        if nan not in NANS:
            raise InvalidArgument(f"nan is {nan!r}, expected one of {', '.join(NANS)}", field="nan")
        carry = cls.__new__(cls)
        nan = nan if dtype in FLOATS else NANS[0]
        carry._fill(dtype, bool(exclusive), bool(reverse), nan, position, [])
        carry._lines = [carry._line_of(value) for value in sums]
        carry._check_range()
        return carry

    def sums(self) -> list[int | Fraction | float]:
        """Return the sum of each line, in row-major order. A sum of integers is an int, modulo 2^n.
        A sum of floats is a Fraction, or one of the floats ``nan``, ``inf``, ``-inf``, and ``-0.0``
        if every element so far is -0.0."""
        if self.dtype not in FLOATS:
            return [number for _, number in self._lines]
        unit = Fraction(1, 2 ** FLOATS[self.dtype].shift)
        return [SPECIAL[flags] if flags else number * unit for flags, number in self._lines]

    def __add__(self, other: Carry) -> Carry:
        """Return the carry of the elements of both. Raises InvalidArgument if dtype, options or
        number of lines differ, or if the position exceeds 2^63 - 1."""
        if not isinstance(other, Carry):
            return NotImplemented
        for name in ("dtype", "exclusive", "reverse", "nan"):
            mine, its = getattr(self, name), getattr(other, name)
            if mine != its:
                raise _refusal(f"one carry has {name} {mine}, the other {its}")
        if len(self._lines) != len(other._lines):
            raise _refusal(f"one carry has {len(self)} lines, the other {len(other)}")
        position = self.position + other.position
        if position > POSITION_MAX:
            raise _refusal("together the carries have more than 2^63 - 1 elements")
        lines = [_added(*both) for both in zip(self._lines, other._lines)]
        if self.dtype not in FLOATS:
            info = np.iinfo(self.dtype)
            least, count = int(info.min), 2**info.bits
            lines = [(0, (number - least) % count + least) for _, number in lines]
        carry = Carry.__new__(Carry)
        carry._fill(self.dtype, self.exclusive, self.reverse, self.nan, position, lines)
        return carry

    def __bytes__(self) -> bytes:
        """Return the carry in the form that the service accepts."""
        payload = self._float_payload() if self.dtype in FLOATS else self._integer_payload()
        code = NAMES.index(self.dtype) + 1
        flags = self.exclusive + 2 * self.reverse + 4 * NANS.index(self.nan)
        head = HEADER.pack(MAGIC, VERSION, 0, code, flags, len(self), self.position)
        crc = zlib.crc32(payload, zlib.crc32(head[CRC_END:]))
        return head[: CRC_END - 4] + crc.to_bytes(4, "little") + head[CRC_END:] + payload

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self._lines)

    def __eq__(self, other: object) -> bool:
        return bytes(self) == bytes(other) if isinstance(other, Carry) else NotImplemented

    def __hash__(self) -> int:
        return hash(bytes(self))

    def __reduce__(self) -> tuple[type[Carry], tuple[bytes]]:
        return Carry, (bytes(self),)

    def __repr__(self) -> str:
        flags = [name for name in ("exclusive", "reverse") if getattr(self, name)]
        flags += [f"nan={self.nan}"] if self.nan != NANS[0] else []
        return f"<{' '.join(['Carry', *flags, self.dtype])}, {len(self)} lines at {self.position}>"

    # ---- the layout ----

    def _fill(
        self, dtype: str, exclusive: bool, reverse: bool, nan: str, position: int, lines: Any
    ) -> None:
        self.dtype, self.exclusive, self.reverse, self.nan = dtype, exclusive, reverse, nan
        self.position, self._lines = position, lines

    def _read_integers(self, payload: bytes, lines: int) -> list[tuple[int, int]]:
        stored = np.dtype(self.dtype).newbyteorder("<")
        if len(payload) != lines * stored.itemsize:
            raise _length_refusal(lines)
        return [(0, number) for number in np.frombuffer(payload, stored).tolist()]

    def _read_floats(self, payload: bytes, lines: int) -> list[tuple[int, int]]:
        at = _descriptors_bytes(lines)
        if at > len(payload):
            raise _length_refusal(lines)
        found: list[tuple[int, int]] = []
        for flags, _, low, count in struct.iter_unpack("4B", payload[: 4 * lines]):
            end = at + count * WORD_BYTES
            number = int.from_bytes(payload[at:end], "little", signed=True)
            if flags not in (0, *SPECIAL) or (flags == NEGATIVE_ZERO and self.exclusive):
                raise _refusal(f"a line of the carry has flags {flags}, which do not exist")
            if flags != 0 and count != 0:
                raise _refusal(f"a line of the carry has flags {flags} and words besides")
            found.append((flags, number << 64 * low))
            at = end
        if at != len(payload):
            raise _length_refusal(lines)
        return found

    def _integer_payload(self) -> bytes:
        stored = np.dtype(self.dtype).newbyteorder("<")
        return np.array([number for _, number in self._lines], stored).tobytes()

    def _float_payload(self) -> bytes:
        descriptors, words = bytearray(), bytearray()
        for flags, number in self._lines:
            low = ((number & -number).bit_length() - 1) // 64 if number else 0
            kept = number >> 64 * low
            # One additional bit holds the sign.
            count = (kept if kept >= 0 else ~kept).bit_length() // 64 + 1 if number else 0
            descriptors += bytes((flags, 0, low, count))
            words += kept.to_bytes(count * WORD_BYTES, "little", signed=True)
        padding = _descriptors_bytes(len(self)) - len(descriptors)
        return bytes(descriptors) + bytes(padding) + bytes(words)

    def _line_of(self, value: Fraction | float) -> tuple[int, int]:
        """Return the flags and the finite sum of a line with this sum."""
        if self.dtype not in FLOATS:
            if not isinstance(value, (int, np.integer)):
                raise _refusal(f"a sum of {self.dtype} is {value!r}, expected an integer")
            return 0, int(value)
        if isinstance(value, (float, np.floating)):
            value = float(value)
            for flags, special in SPECIAL.items():
                if str(value) == str(special):
                    return (0, 0) if flags == NEGATIVE_ZERO and self.exclusive else (flags, 0)
        scaled = Fraction(value) * 2 ** FLOATS[self.dtype].shift
        if scaled.denominator != 1:
            raise _refusal(
                f"{value} is no sum of {self.dtype}: it lies between two multiples of "
                f"2^-{FLOATS[self.dtype].shift}"
            )
        return 0, scaled.numerator

    def _check_range(self) -> None:
        """Raise InvalidArgument if a sum is impossible for `position` elements."""
        if self.dtype in FLOATS:
            most = FLOATS[self.dtype].largest * self.position
            least = -most
        else:
            least, most = int(np.iinfo(self.dtype).min), int(np.iinfo(self.dtype).max)
        for _, number in self._lines:
            if not least <= number <= most:
                raise _refusal(
                    f"a line of the carry has a sum that {self.position} elements of type "
                    f"{self.dtype} cannot have"
                )


def carry_bytes_most(dtype: str, lines: int) -> int:
    """Return the maximum bytes of a carry of `lines` lines."""
    if dtype not in FLOATS:
        return HEADER_BYTES + lines * np.dtype(dtype).itemsize
    return HEADER_BYTES + _descriptors_bytes(lines) + lines * FLOATS[dtype].words * WORD_BYTES


def _added(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    """Return the flags and the finite sum of two lines added."""
    flags = (left[0] | right[0]) & (NAN | PLUS | MINUS)
    if flags:
        return (flags if flags in (PLUS, MINUS) else NAN), 0
    return left[0] & right[0], left[1] + right[1]


def _descriptors_bytes(lines: int) -> int:
    """Return the bytes of the descriptors, including the padding before the words."""
    return (4 * lines + WORD_BYTES - 1) // WORD_BYTES * WORD_BYTES


def _length_refusal(lines: int) -> InvalidArgument:
    return _refusal(f"the carry's length is not that of its {lines} lines: give all of it")


def _refusal(sentence: str) -> InvalidArgument:
    return InvalidArgument(sentence, field="carry")
