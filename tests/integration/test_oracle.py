"""The oracle itself: it is what every other numeric test leans on."""

import numpy as np
import pytest

from support import dtypes, oracle

FLOAT64 = dtypes.BY_NAME["float64"]


@pytest.mark.parametrize("length", [1, 7, 8, 9, 255, 256, 257, 65535, 65536, 65537, 200000])
@pytest.mark.parametrize("exclusive", [False, True])
def test_oracle_is_a_cumulative_sum_within_rounding(length, exclusive):
    values = np.random.default_rng(length).standard_normal((2, length))
    expected = np.cumsum(values, axis=1)
    if exclusive:
        expected = np.concatenate([np.zeros((2, 1)), expected[:, :-1]], axis=1)
    bound = 4 * np.finfo(np.float64).eps * np.cumsum(np.abs(values), axis=1) * length**0.5
    actual = oracle.cumsum(FLOAT64, values, 1, exclusive)
    assert np.all(np.abs(actual - expected) <= bound)


@pytest.mark.parametrize("length", [1, 8, 9, 256, 257, 65536, 65537, 131072])
def test_oracle_is_exact_where_every_sum_is_an_integer(length):
    values = np.arange(length, dtype=np.float64) % 7 - 3
    for reverse in (False, True):
        for exclusive in (False, True):
            actual = oracle.cumsum(FLOAT64, values, 0, exclusive, reverse)
            turned = values[::-1] if reverse else values
            sums = np.cumsum(turned)
            expected = np.concatenate([[0.0], sums[:-1]]) if exclusive else sums
            assert np.array_equal(actual, expected[::-1] if reverse else expected)


def test_exclusive_is_inclusive_moved_by_one_bit_for_bit():
    values = np.random.default_rng(5).standard_normal(70000)
    inclusive = oracle.cumsum(FLOAT64, values)
    exclusive = oracle.cumsum(FLOAT64, values, exclusive=True)
    assert np.array_equal(exclusive[1:], inclusive[:-1]) and exclusive[0] == 0


def test_first_negative_zero_is_copied_as_it_is():
    actual = oracle.cumsum(FLOAT64, np.array([-0.0, -0.0, 0.0]))
    assert list(np.signbit(actual)) == [True, True, False]


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
