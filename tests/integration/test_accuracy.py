"""Every output lies within the bound of docs/design/numerics.md, measured against exact sums."""

import pathlib
import sys

import numpy as np
import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "accuracy"), str(TESTS / "bench")]

import run as accuracy  # noqa: E402

LENGTH = 3000


@pytest.mark.parametrize("name", accuracy.NMANT)
def test_every_output_is_within_the_documented_bound(server, name):
    base = f"http://127.0.0.1:{server.port}"
    places = np.arange(LENGTH)
    for kind, values in accuracy.kinds(LENGTH, name, np.random.default_rng(5)):
        elements, exactly = accuracy.encode(values, name)
        exact = accuracy.Exact(exactly, places)
        largest, _, _, kept = accuracy.measure(
            elements, name, exact, places, lambda x: accuracy.tally(base, x, name), True
        )
        assert kept, kind
        if name == "float16":  # correctly rounded, always
            assert largest <= 0.5, kind


def test_the_bound_tells_a_wrong_output():
    values = np.random.default_rng(6).standard_normal(LENGTH)
    elements, exactly = accuracy.encode(values, "float32")
    places = np.arange(LENGTH)
    exact = accuracy.Exact(exactly, places)
    sums = np.cumsum(exactly).astype(np.float32)
    off = sums.copy()
    off[1234] = np.nextafter(off[1234], np.float32(np.inf))
    off[1234] = np.nextafter(off[1234], np.float32(np.inf))
    for got, kept in ((sums, True), (off, False)):
        measured = accuracy.measure(elements, "float32", exact, places, lambda _, g=got: g, True)
        assert measured[3] is kept
