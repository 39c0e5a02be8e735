"""tally.Carry and Client.totals(): exact sums of lines, compared with an independent encoder in
this file."""

import functools
import itertools
import math
import operator
import pickle
import struct
from fractions import Fraction

import numpy as np
import pytest
import tally
from lying_server import LyingServer, Told, error
from support import carries, dtypes

FLAGS = [{"exclusive": e, "reverse": r} for e, r in itertools.product((False, True), repeat=2)]
SPECIALS = [
    *([], [-0.0], [-0.0, -0.0], [-0.0, 0.0], [1.0, -1.0], [-0.0, 1.0, -1.0]),
    *([np.nan, 1.0], [np.inf, 1.0], [-np.inf, np.inf], [-np.inf, -np.inf, 2.0], [np.inf, np.nan]),
]
by_name = pytest.mark.parametrize("dtype", dtypes.ALL, ids=repr)


def random_lines(dtype, rng, shape=(5, 60)):
    """Lines of random bits without infinities and NaNs."""
    bits = np.frombuffer(rng.bytes(math.prod(shape) * dtype.bytes), dtype.storage).reshape(shape)
    if not dtype.is_float:
        return bits
    with np.errstate(invalid="ignore"):
        finite = np.isfinite(dtype.load(bits))
    return np.where(finite, bits, dtype.store(np.ones(shape)))


@by_name
def test_carries_are_read_and_written_as_the_page_says(dtype):
    rng = np.random.default_rng(1)
    for flags in FLAGS:
        for stored in (random_lines(dtype, rng), np.empty((3, 0), dtype.storage)):
            data = carries.of_tensor(dtype, stored, 1, **flags)
            carry = tally.Carry(data)
            assert (carry.dtype, carry.position) == (dtype.name, stored.shape[1])
            assert (carry.exclusive, carry.reverse) == (flags["exclusive"], flags["reverse"])
            assert bytes(carry) == data and len(carry) == len(stored)
            again = tally.Carry.from_sums(dtype.name, carry.sums(), carry.position, **flags)
            assert again == carry and hash(again) == hash(carry)
            assert pickle.loads(pickle.dumps(carry)) == carry


@pytest.mark.parametrize("nan", ["zero", "skip"])
def test_a_carry_says_how_nan_counts(nan):
    data = carries.of_tensor(FLOAT32, np.float32([[1, 2]]), 1, nan=nan)
    carry = tally.Carry(data)
    assert carry.nan == nan and bytes(carry) == data and f"nan={nan}" in repr(carry)
    assert tally.Carry.from_sums("float32", [3], 2, nan=nan) == carry
    assert (carry + carry).nan == nan and (carry + carry).sums() == [6]
    with pytest.raises(tally.InvalidArgument, match=f"nan {nan}, the other propagate"):
        carry + tally.Carry.from_sums("float32", [3], 2)
    with pytest.raises(tally.InvalidArgument, match="expected one of propagate"):
        tally.Carry.from_sums("float32", [3], 2, nan="drop")
    assert tally.Carry.from_sums("int8", [3], 2, nan=nan).nan == "propagate"
    with pytest.raises(tally.InvalidArgument, match="do not exist"):
        tally.Carry(carries.seal(dtypes.BY_NAME["int8"], 4, 1, 4, b"\1"))


@by_name
def test_sums_are_those_of_the_elements_as_fractions(dtype):
    stored = random_lines(dtype, np.random.default_rng(2))
    found = tally.Carry(carries.of_tensor(dtype, stored, 1)).sums()
    if dtype.is_float:
        assert found == [sum(map(Fraction, line)) for line in dtype.load(stored).tolist()]
    else:
        assert found == np.cumsum(stored, 1, dtype=dtype.storage)[:, -1].tolist()
    assert not any(isinstance(value, float) for value in found)


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=repr)
def test_what_is_no_fraction_is_a_float(dtype):
    told = [
        tally.Carry(carries.of_tensor(dtype, dtype.store(np.array([line], float)), 1)).sums()[0]
        for line in SPECIALS
    ]
    expected = "-0.0 -0.0 -0.0 0 0 0 nan inf nan -inf nan".split()
    assert list(map(str, told)) == expected
    exclusive = tally.Carry.from_sums(dtype.name, [-0.0], 3, exclusive=True)
    assert str(exclusive.sums()) == "[Fraction(0, 1)]"


@by_name
@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_the_carries_of_pieces_add_up_to_that_of_the_whole_in_any_order(dtype, flags):
    rng = np.random.default_rng(3)
    lines = list(random_lines(dtype, rng, (6, 40)))
    if dtype.is_float:
        for special in SPECIALS:
            filled = [-0.0] * 20 + special + [-0.0] * (20 - len(special))
            lines.append(dtype.store(np.array(filled)))
    stored = np.array(lines)
    whole = carries.of_tensor(dtype, stored, 1, **flags)
    for _ in range(5):
        edges = [0, *sorted(rng.integers(0, 41, 4).tolist()), 40]
        pieces = [
            tally.Carry(carries.of_tensor(dtype, stored[:, begin:end], 1, **flags))
            for begin, end in zip(edges, edges[1:])
        ]
        rng.shuffle(pieces)
        left = functools.reduce(operator.add, pieces)
        tree = (pieces[0] + pieces[1]) + (pieces[2] + (pieces[3] + pieces[4]))
        assert bytes(left) == bytes(tree) == whole


def test_carries_of_different_tensors_are_not_added():
    def made(dtype="float32", sums=(1,), position=3, **flags):
        return tally.Carry.from_sums(dtype, sums, position, **flags)

    for other, says in (
        (made("float64"), "dtype float32, the other float64"),
        (made(reverse=True), "reverse False, the other True"),
        (made(exclusive=True), "exclusive"),
        (made(sums=(1, 2)), "1 lines, the other 2"),
        (made(position=2**63 - 1), "more than"),
    ):
        with pytest.raises(tally.InvalidArgument, match=says) as caught:
            made() + other
        assert caught.value.field == "carry"
    with pytest.raises(TypeError):
        made() + 1


@pytest.mark.parametrize(
    "dtype, sums, position, says",
    [
        ("complex64", [1], 1, "dtype is 'complex64', expected one of float16"),
        ("float32", [1], -1, "position is -1"),
        ("float32", [Fraction(1, 3)], 1, "lies between"),
        ("float16", [Fraction(1, 2**25)], 1, "lies between"),
        ("float16", [65505], 1, "cannot have"),
        ("int8", [128], 9, "cannot have"),
        ("int8", [1.5], 9, "expected an integer"),
    ],
)
def test_sums_that_no_elements_have_are_refused(dtype, sums, position, says):
    with pytest.raises(tally.InvalidArgument, match=says):
        tally.Carry.from_sums(dtype, sums, position)


FLOAT32 = dtypes.BY_NAME["float32"]


def forged(payload, lines=1, position=4, flags=0, **how):
    return carries.seal(FLOAT32, flags, lines, position, payload, **how)


def word(value):
    return struct.pack("<Q", value % 2**64)


# the number 1, which is 2^149 units of float32
ONE = forged(bytes([0, 0, 2, 1, 0, 0, 0, 0]) + word(2**21))
NO_CARRIES = {
    "empty": (b"", "no carry"),
    "short": (ONE[:63], "no carry"),
    "magic": (b"t" + ONE[1:], "no carry"),
    "version": (forged(bytes(8), version=1), "version 1, expected 2"),
    "damaged": (ONE[:-1] + b"\1", "CRC-32"),
    "type": (carries.seal(FLOAT32, 12, 1, 4, bytes(8)), "do not exist"),
    "cut": (forged(bytes([0, 0, 2, 1, 0, 0, 0, 0])), "length"),
    "longer": (forged(bytes(8) + word(1)), "length"),
    "many lines": (forged(bytes(8), lines=2**60), "length"),
    "unknown flags": (forged(bytes([3, 0, 0, 0]) + bytes(4)), "flags 3"),
    "negative zero, exclusive": (forged(bytes([8, 0, 0, 0]) + bytes(4), flags=1), "flags 8"),
    "words of a NaN": (forged(bytes([1, 0, 0, 1]) + bytes(4) + word(1)), "words besides"),
    "second byte": (forged(bytes([0, 1, 2, 1]) + bytes(4) + word(1)), "shortest"),
    "padding": (forged(bytes([0, 0, 2, 1]) + b"\0\0\0\1" + word(1)), "shortest"),
    "word 0 below": (forged(bytes([0, 0, 1, 2]) + bytes(4) + word(0) + word(1)), "shortest"),
    "sign above": (forged(bytes([0, 0, 1, 2]) + bytes(4) + word(5) + word(0)), "shortest"),
    "sign of -1 above": (forged(bytes([0, 0, 1, 2]) + bytes(4) + word(-5) + word(-1)), "shortest"),
    "place of 0": (forged(bytes([0, 0, 1, 0]) + bytes(4)), "shortest"),
    "beyond the position": (forged(bytes([0, 0, 4, 1]) + bytes(4) + word(2**50)), "cannot have"),
    "far": (forged(bytes([0, 0, 255, 1]) + bytes(4) + word(1)), "cannot have"),
}


@pytest.mark.parametrize("name", NO_CARRIES)
def test_bytes_that_are_no_carry_are_refused(name):
    data, says = NO_CARRIES[name]
    with pytest.raises(tally.InvalidArgument, match=says) as caught:
        tally.Carry(data)
    assert caught.value.field == "carry"
    assert tally.Carry(ONE).sums() == [1]


def answer(data, shape):
    head = (
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
        f"Tally-Dtype: float32\r\nTally-Shape: {shape}\r\n"
        f"Tally-Carry-Length: {len(data)}\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return Told(head.encode() + data)


def test_totals_are_asked_for_and_answered_as_a_carry(connect):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axis, flags in ((1, {}), (-1, {"exclusive": True, "reverse": True}), (None, {})):
        stored = x.reshape(-1) if axis is None else x
        data = carries.of_tensor(FLOAT32, stored, axis or 0, **flags)
        shape = ",".join(map(str, stored.shape))
        with LyingServer(lambda seen, told=answer(data, shape): told) as server:
            total = connect(server.url).totals(x, axis, deadline=100, **flags)
            assert bytes(total) == data
            assert total.sums() == stored.sum(axis or 0).reshape(-1).tolist()
            (head,) = server.heads
        query = f"dtype=float32&shape={shape}&axis={(axis or 0) % stored.ndim}"
        query += "&exclusive=true&reverse=true" if flags else ""
        assert head.startswith(f"POST /v1/cumsum/totals?{query} HTTP/1.1\r\n")
        assert "X-Request-Timeout-Ms:" in head


def test_an_answer_that_is_not_the_carry_behind_the_array_is_refused(connect):
    x = np.ones((2, 3), np.float32)
    right = carries.of_tensor(FLOAT32, x, 1)
    for data in (
        right[:-1],
        right[:-1] + b"\7",
        b"",
        right + bytes(64 + 8 * 6 * 2),
        carries.of_tensor(FLOAT32, x, 0),
        carries.of_tensor(FLOAT32, x, 1, reverse=True),
        carries.of_tensor(FLOAT32, x[:, :2], 1),
        carries.of_tensor(dtypes.BY_NAME["float64"], x.astype(float), 1),
    ):
        with LyingServer(lambda seen, told=answer(data, "2,3"): told) as server:
            with pytest.raises(tally.BadAnswer):
                connect(server.url).totals(x, 1)
    with LyingServer(lambda seen: answer(right, "3,2")) as server:
        with pytest.raises(tally.BadAnswer, match="shape '3,2', expected"):
            connect(server.url).totals(x, 1)


def test_totals_raise_what_any_call_does(connect):
    with LyingServer(lambda seen: error(400, body='{"error":"no","field":"axis"}')) as server:
        with pytest.raises(tally.Rejected, match="^no$"):
            connect(server.url).totals(np.ones(3), 0)
    client = connect("http://127.0.0.1:1")
    with pytest.raises(tally.InvalidArgument, match="axis 1"):
        client.totals(np.ones(3), 1)
    with pytest.raises(tally.InvalidArgument, match="exclusive is 2"):
        client.totals(np.ones(3), 0, exclusive=2)
