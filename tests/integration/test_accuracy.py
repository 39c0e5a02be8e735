"""Every output is the exact sum, rounded once."""

import pathlib
import sys

import numpy as np
import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "accuracy"), str(TESTS / "bench")]

import run as accuracy  # noqa: E402
from support import dtypes, oracle  # noqa: E402

LENGTH = 3000


@pytest.mark.parametrize("name", accuracy.NMANT)
def test_every_output_is_the_exact_sum_rounded_once(server, name):
    base = f"http://127.0.0.1:{server.port}"
    places = np.arange(LENGTH)
    for kind, values in accuracy.kinds(LENGTH, name, np.random.default_rng(5)):
        elements, exactly = accuracy.encode(values, name)
        exact = accuracy.Exact(exactly, places)
        largest, _, over, fine = accuracy.measure(
            elements, name, exact, places, lambda x: accuracy.tally(base, x, name), True
        )
        assert fine and largest <= 0.5 * (1 + 1e-12), kind
        assert (over > 0) == (kind == "out of range and back" and name != "float64"), kind


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_the_measure_tells_an_output_that_is_one_number_off(name):
    values = np.random.default_rng(6).standard_normal(LENGTH)
    elements, exactly = accuracy.encode(values, name)
    places = np.arange(LENGTH)
    exact = accuracy.Exact(exactly, places)
    sums = oracle.cumsum(dtypes.BY_NAME[name], elements)
    for step, fine in ((0, True), (np.inf, False), (-np.inf, False)):
        off = sums.copy()
        if step != 0:
            off[1234] = np.nextafter(off[1234], off.dtype.type(step))
        measured = accuracy.measure(elements, name, exact, places, lambda _, g=off: g, True)
        assert measured[3] is fine
