"""Carries of version 2 as docs/carry.md describes them, computed with Python's integers from the
elements.

    of_tensor(dtype, stored, axis)    the carry after a tensor, which the service must return
    of_sums(dtype, sums, position)    the same from the sums of the lines
    sums_of(carry)                    the sums of the lines of a carry

The sum of a line of floats is an int, in units of the type's least positive number, or one of
the texts "nan", "+inf", "-inf" and "-0" (every element so far is -0.0, or there is none). The
sum of a line of integers is an int modulo 2^n. The functions share no code with the Python
client.
"""

import math
import struct
import zlib

import numpy as np

from support import dtypes

# Exponents of the least positive numbers.
LEAST = {"float16": -24, "bfloat16": -133, "float32": -149, "float64": -1074}
FLAGS = {"nan": 1, "+inf": 2, "-inf": 4, "-0": 8}
WORD = 2**64


def line_sum(dtype, elements, exclusive=False):
    """The sum of one line, from its elements as stored."""
    if not dtype.is_float:
        return sum(elements.tolist())
    values = dtype.load(elements).tolist()
    infinities = {value for value in values if math.isinf(value)}
    if len(infinities) == 2 or any(math.isnan(value) for value in values):
        return "nan"
    if infinities:
        return "+inf" if infinities.pop() > 0 else "-inf"
    if not exclusive and all(value == 0 and math.copysign(1, value) < 0 for value in values):
        return "-0"
    scale = 2 ** -LEAST[dtype.name]
    ratios = (value.as_integer_ratio() for value in values)
    return sum(numerator * (scale // denominator) for numerator, denominator in ratios)


NAN = {"propagate": 0, "zero": 4, "skip": 8}  # flags of a header


def of_tensor(dtype, stored, axis=0, exclusive=False, reverse=False, nan="propagate"):
    """The carry after a whole tensor. The caller has already replaced the NaNs of the tensor as
    `nan` demands."""
    stored = np.asarray(stored)
    lines = np.moveaxis(stored, axis, -1)
    length = lines.shape[-1]
    count = math.prod(lines.shape[:-1])
    sums = [line_sum(dtype, line, exclusive) for line in lines.reshape(count, length)]
    return of_sums(dtype, sums, length, exclusive, reverse, nan)


def of_sums(dtype, sums, position, exclusive=False, reverse=False, nan="propagate"):
    """A carry of lines with these sums after `position` elements of each line."""
    payload = (_float_payload if dtype.is_float else _integer_payload)(dtype, sums)
    return seal(dtype, exclusive + 2 * reverse + NAN[nan], len(sums), position, payload)


def seal(dtype, flags, lines, position, payload, version=2):
    """Prepend a header with a correct checksum to any payload."""
    code = 1 + dtypes.ALL.index(dtype)
    rest = struct.pack("<BxB5xQQ24x", code, flags, lines, position) + payload
    return b"TALLYSUM" + struct.pack("<II", version, zlib.crc32(rest)) + rest


def sums_of(carry):
    """The sums of the lines of a carry."""
    assert carry[:8] == b"TALLYSUM" and carry[8:12] == b"\2\0\0\0", carry[:12]
    assert int.from_bytes(carry[12:16], "little") == zlib.crc32(carry[16:])
    dtype = dtypes.ALL[carry[16] - 1]
    lines = int.from_bytes(carry[24:32], "little")
    payload = carry[64:]
    if not dtype.is_float:
        assert len(payload) == lines * dtype.bytes
        return np.frombuffer(payload, dtype.storage).tolist()
    at = -(-4 * lines // 8) * 8
    assert not any(payload[4 * lines : at])
    sums = []
    for line in range(lines):
        flags, zero, low, count = payload[4 * line : 4 * line + 4]
        number = int.from_bytes(payload[at : at + 8 * count], "little", signed=True)
        at += 8 * count
        assert zero == 0
        names = [name for name, flag in FLAGS.items() if flag == flags]
        sums.append(names[0] if flags else number * WORD**low)
    assert at == len(payload)
    return sums


def _integer_payload(dtype, sums):
    bits = 8 * dtype.bytes
    return b"".join((number % 2**bits).to_bytes(dtype.bytes, "little") for number in sums)


def _float_payload(dtype, sums):
    descriptors, words = b"", b""
    for number in sums:
        flags = FLAGS.get(number, 0)
        low, kept = _words(0 if flags else number)
        descriptors += bytes([flags, 0, low, len(kept)])
        words += b"".join(word.to_bytes(8, "little") for word in kept)
    return descriptors + bytes(-len(descriptors) % 8) + words


def _words(number):
    """The words of an integer in two's complement, without redundant words at either end, and the
    index of the first word."""
    words = []
    rest = number
    while True:
        word, rest = rest % WORD, rest // WORD
        words.append(word)
        if rest == (-1 if word >= WORD // 2 else 0):
            break
    if number == 0:
        return 0, []
    low = next(index for index, word in enumerate(words) if word != 0)
    return low, words[low:]
