"""Lines of floats whose sums are hard to round correctly, and typical lines of users: the families
of tests/lib/float_inputs.h, generated with NumPy.

    draw("prices", dtype, rng, count)    a line of the type, as stored
"""

import numpy as np

from . import oracle

ONE = np.uint64(1)
APART = 100  # mean distance between infinities or NaNs, in elements


def draw(name, dtype, rng, count):
    """A line of `count` elements of the family."""
    line = ALL[name](dtype, rng, count)
    assert line.shape == (count,) and line.dtype == dtype.storage, name
    return line


def _unsigned(dtype):
    return np.dtype(f"u{dtype.bytes}")


def _sign(dtype):
    return np.uint64(1 << (8 * dtype.bytes - 1))


def _infinity(dtype):
    """The bits of +Infinity; the bits of the largest number are one less."""
    return np.uint64(dtype.store(np.array([np.inf])).view(_unsigned(dtype))[0])


def _normal(dtype):
    """The bits of the smallest positive normal number."""
    return np.uint64(1 << (oracle.FORMATS[dtype.name][0] - 1))


def _of_bits(dtype, bits):
    assert bits.dtype == np.uint64
    return bits.astype(_unsigned(dtype)).view(dtype.storage)


def _signs(dtype, rng, count):
    return rng.integers(0, 2, count).astype(np.uint64) * _sign(dtype)


def _bits(dtype, rng, count):
    return np.frombuffer(rng.bytes(count * dtype.bytes), _unsigned(dtype)).astype(np.uint64)


def _finite_bits(dtype, rng, count):
    bits = _bits(dtype, rng, count)
    finite = (bits & (_sign(dtype) - ONE)) < _infinity(dtype)
    return np.where(finite, bits, bits ^ _normal(dtype))


def _with_zeros(dtype, rng, values, share):
    """Values as stored; a random share of them is replaced by +0.0."""
    return dtype.store(np.where(rng.random(len(values)) < share, 0.0, values))


def _prices(dtype, rng, count):
    """Amounts of whole cents. They are smaller for float16, whose largest number is 65504."""
    most = 1000 if dtype.name == "float16" else 100_000
    return _with_zeros(dtype, rng, rng.integers(0, most, count) / 100, 0.3)


def _rain(dtype, rng, count):
    return _with_zeros(dtype, rng, rng.exponential(1.0, count), 0.75)


def _probabilities(dtype, rng, count):
    return _with_zeros(dtype, rng, rng.random(count) / 1000, 1 / 3)


def _cancelling(dtype, rng, count):
    """Each number is followed by its negative."""
    bits = np.repeat(_finite_bits(dtype, rng, count), 2)[:count]
    return _of_bits(dtype, np.where(np.arange(count) % 2, bits ^ _sign(dtype), bits))


def _halfway(dtype, rng, count):
    """Triples: 1, half a unit in the last place of 1, and a number of at most two of the smallest
    units."""
    precision = oracle.FORMATS[dtype.name][0]
    pair = dtype.store(np.array([1.0, 2.0**-precision])).view(_unsigned(dtype))
    tails = _signs(dtype, rng, count) | rng.integers(0, 3, count).astype(np.uint64)
    kind = np.arange(count) % 3
    return _of_bits(dtype, np.where(kind == 2, tails, pair.astype(np.uint64)[kind % 2]))


def _near_largest(dtype, rng, count):
    below = rng.integers(1, 4, count).astype(np.uint64)
    return _of_bits(dtype, _signs(dtype, rng, count) | (_infinity(dtype) - below))


def _subnormal(dtype, rng, count):
    bits = _bits(dtype, rng, count) & (_normal(dtype) - ONE)
    return _of_bits(dtype, _signs(dtype, rng, count) | bits)


def _tiny_after_huge(dtype, rng, count):
    tiny = np.where(rng.random(count) < 0.2, _sign(dtype) | ONE, ONE)
    return _of_bits(dtype, np.where(np.arange(count) % 50 == 0, _infinity(dtype) - ONE, tiny))


def _sorted(dtype, rng, count):
    """Runs of thirty numbers, each about twice the one before."""
    exponents = np.arange(count) % 30 - 15
    return dtype.store(np.ldexp(1 + rng.random(count), exponents))


def _lasting(dtype, rng, count, specials):
    chosen = rng.choice(np.array(specials, np.uint64), count)
    apart = rng.integers(0, APART, count) > 0
    return _of_bits(dtype, np.where(apart, _finite_bits(dtype, rng, count), chosen))


def _infinities(dtype, rng, count):
    plus = _infinity(dtype)
    return _lasting(dtype, rng, count, [plus, plus, plus, plus | _sign(dtype)])


def _nans(dtype, rng, count):
    nan = _infinity(dtype) | ONE
    return _lasting(dtype, rng, count, [nan, nan | _sign(dtype)])


ALL = {
    "uniform": lambda dtype, rng, count: dtype.store(rng.random(count)),
    "prices": _prices,
    "rain": _rain,
    "probabilities": _probabilities,
    "normal": lambda dtype, rng, count: dtype.store(rng.standard_normal(count)),
    "log-normal": lambda dtype, rng, count: dtype.store(np.exp(rng.standard_normal(count))),
    "random finite bits": lambda *given: _of_bits(given[0], _finite_bits(*given)),
    "cancelling pairs": _cancelling,
    "halfway cases": _halfway,
    "near the largest": _near_largest,
    "subnormal": _subnormal,
    "zeros of both signs": lambda *given: _of_bits(given[0], _signs(*given)),
    "-0.0 alone": lambda dtype, _, count: dtype.store(np.full(count, -0.0)),
    "tiny after huge": _tiny_after_huge,
    "sorted": _sorted,
    "infinities": _infinities,
    "NaN": _nans,
    "random bits": lambda *given: _of_bits(given[0], _bits(*given)),
}
USUAL = ["uniform", "prices", "rain", "probabilities", "normal", "log-normal"]
