"""The oracle, on which all numeric tests rely, against Python's integers and fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest

from support import dtypes, oracle

FLOAT64 = dtypes.BY_NAME["float64"]
LENGTHS = [1, 2, 7, 64, 255, 1025]


def rounded(dtype, total):
    """Round a fraction to nearest even, as float64."""
    precision, least, largest = oracle.FORMATS[dtype.name]
    units = abs(total) / Fraction(2) ** least
    assert units.denominator == 1
    drop = max(units.numerator.bit_length() - precision, 0)
    kept = Fraction(units.numerator, 2**drop)
    magnitude = round(kept) * 2**drop * Fraction(2) ** least  # Python rounds to nearest even
    value = math.inf if magnitude > Fraction(largest) else float(magnitude)
    return -value if total < 0 else value


def plain_sums(dtype, stored):
    """The inclusive sums of a line, added one by one."""
    total, special, minus_zero, sums = Fraction(0), None, True, []
    for value in dtype.load(stored).tolist():
        minus_zero = minus_zero and value == 0 and math.copysign(1, value) < 0
        if math.isfinite(value):
            total += Fraction(value)
        else:
            special = value if special is None else special + value  # inf - inf is NaN
        if special is not None:
            sums.append(special)
        else:
            sums.append(rounded(dtype, total) if total else -0.0 if minus_zero else 0.0)
    return dtype.store(np.array(sums))


def inputs(dtype, rng, length):
    """Random bits, typical numbers, sums that cancel, ties, and the ends of the range."""
    unsigned = np.dtype(f"u{dtype.bytes}")
    stored = np.frombuffer(rng.bytes(length * dtype.bytes), unsigned).view(dtype.storage)
    with np.errstate(all="ignore"):
        finite = np.where(np.isfinite(dtype.load(stored)), stored, np.zeros_like(stored))
    yield stored
    yield finite
    yield dtype.store(rng.standard_normal(length))
    pairs = np.repeat(dtype.load(finite), 2)[:length]
    yield dtype.store(pairs * np.where(np.arange(length) % 2, -1.0, 1.0))
    precision, least, largest = oracle.FORMATS[dtype.name]
    yield dtype.store(rng.choice([1.0, 2.0**-precision, 2.0**least, -(2.0**least)], length))
    yield dtype.store(rng.choice([largest, -largest, largest / 2, 1.0], length))
    yield dtype.store(rng.choice([0.0, -0.0, -0.0, -0.0], length))


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=repr)
@pytest.mark.parametrize("length", LENGTHS)
def test_every_sum_is_that_of_fractions_rounded_once(dtype, length):
    for stored in inputs(dtype, np.random.default_rng(length), length):
        assert oracle.same_bits(dtype, oracle.cumsum(dtype, stored), plain_sums(dtype, stored))


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=repr)
def test_sums_do_not_depend_on_the_pieces_that_they_are_computed_in(dtype, monkeypatch):
    rng = np.random.default_rng(3)
    for stored in inputs(dtype, rng, 300):
        lines = stored.reshape(5, 60)
        whole = [oracle.cumsum(dtype, lines, 1, exclusive) for exclusive in (False, True)]
        with monkeypatch.context() as patch:
            patch.setattr(oracle, "PIECE", 50)
            cut = [oracle.cumsum(dtype, lines, 1, exclusive) for exclusive in (False, True)]
        assert all(oracle.same_bits(dtype, a, b) for a, b in zip(whole, cut))


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=repr)
def test_reverse_is_the_sum_of_the_line_turned_around(dtype):
    stored = dtype.random(np.random.default_rng(4), (3, 70))
    for exclusive in (False, True):
        forwards = oracle.cumsum(dtype, stored[:, ::-1], 1, exclusive)
        backwards = oracle.cumsum(dtype, stored, 1, exclusive, reverse=True)
        assert oracle.same_bits(dtype, backwards, np.ascontiguousarray(forwards[:, ::-1]))


def test_exclusive_is_inclusive_moved_by_one_bit_for_bit():
    values = np.random.default_rng(5).standard_normal(70000)
    inclusive = oracle.cumsum(FLOAT64, values)
    exclusive = oracle.cumsum(FLOAT64, values, exclusive=True)
    assert np.array_equal(exclusive[1:], inclusive[:-1])
    assert exclusive[0] == 0 and not np.signbit(exclusive[0])


def test_a_sum_is_minus_zero_only_while_every_element_is():
    actual = oracle.cumsum(FLOAT64, np.array([-0.0, -0.0, 0.0, -0.0]))
    assert list(np.signbit(actual)) == [True, True, False, False]
    exclusive = oracle.cumsum(FLOAT64, np.array([-0.0, -0.0]), exclusive=True)
    assert not np.signbit(exclusive).any()


def test_known_sums_of_float64():
    largest = np.finfo(np.float64).max
    for values, sums in [
        ([0.9, 0.5, 0.7, 0.0], [0.9, 1.4, 2.1, 2.1]),
        (
            [largest, 6e291, 6e291, 0.0, -6e291, -6e291],
            [largest, largest, np.inf, np.inf, largest, largest],
        ),
        ([1.0, 2.0**-53, 2.0**-1074, -(2.0**-1074)], [1.0, 1.0, 1 + 2.0**-52, 1.0]),
    ]:
        assert oracle.cumsum(FLOAT64, np.array(values)).tolist() == sums


def test_bfloat16_rounds_once():
    one, unit = 1.0, 2.0**-7
    values = [
        one + unit / 2,
        one + unit / 2 + 2.0**-40,
        one + unit * 1.5,
        one + unit * 1.5 - 2.0**-40,
    ]
    expected = [one, one + unit, one + 2 * unit, one + unit]
    bfloat16 = dtypes.BY_NAME["bfloat16"]
    assert bfloat16.load(bfloat16.store(values)).tolist() == expected


def test_bfloat16_keeps_specials_and_overflows_to_infinity():
    bfloat16 = dtypes.BY_NAME["bfloat16"]
    values = np.array([np.inf, -np.inf, 3.4e38, 1e39, -0.0, 2.0**-133, np.nan])
    back = bfloat16.load(bfloat16.store(values))
    assert back[:2].tolist() == [np.inf, -np.inf] and back[2] == np.inf and back[3] == np.inf
    assert np.signbit(back[4]) and back[5] == 2.0**-133 and np.isnan(back[6])
