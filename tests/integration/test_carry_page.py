"""The layout of a carry in docs/carry.md is correct, and the page's Python code works. No server is
needed."""

import pathlib
import re
from fractions import Fraction

import numpy as np
import pytest

from support import carries, dtypes

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "carry.md").read_text()
FLAGS = {"nan": 1, "+inf": 2, "-inf": 4, "-0": 8}


def block(language):
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)
    return found


@pytest.fixture
def page():
    """The names that the page's Python defines."""
    names = {}
    exec(block("python"), names)
    return names


def test_the_example_is_the_carry_of_its_tensor(page):
    example = bytes.fromhex(block("carry"))
    tensor = np.float32([[1, 2, 3], [4, 5, 6]])
    assert example == carries.of_tensor(dtypes.BY_NAME["float32"], tensor, 1)
    assert [Fraction(number, 2**149) for _, number in page["read_carry"](example)] == [6, 15]


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=repr)
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_its_python_reads_and_writes_every_carry_of_floats(page, dtype, count):
    rng = np.random.default_rng(count)
    bits = rng.bytes(count * 30 * dtype.bytes)
    stored = np.frombuffer(bits, dtype.storage).reshape(count, 30)
    for tensor in (stored, dtype.random(rng, (count, 30)), dtype.store(np.full((count, 3), -0.0))):
        carry = carries.of_tensor(dtype, tensor, 1)
        lines = page["read_carry"](carry)
        assert lines == [
            (FLAGS.get(it, 0), 0 if it in FLAGS else it) for it in carries.sums_of(carry)
        ]
        head = carry[:32] + bytes(32)
        assert page["write_carry"](head, tensor.shape[1], lines) == carry


def test_its_python_adds_carries_as_the_page_says(page):
    dtype = dtypes.BY_NAME["float64"]
    tensor = dtype.random(np.random.default_rng(1), (4, 70))
    halves = [carries.of_tensor(dtype, half, 1) for half in (tensor[:, :33], tensor[:, 33:])]
    lines = [
        (0, left + right)
        for (_, left), (_, right) in zip(*(page["read_carry"](half) for half in halves))
    ]
    assert page["write_carry"](halves[0], 70, lines) == carries.of_tensor(dtype, tensor, 1)
