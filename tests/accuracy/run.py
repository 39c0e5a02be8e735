"""Errors of Tally, math.fsum, NumPy and PyTorch against the exact sums, on the same inputs.

    build/venv/bin/python tests/accuracy/run.py [--quick] [--torch] [--types LIST]

Starts tallyd on a free port, sends each input as raw bytes, and prints for every output the
largest and the mean distance from the exact running sum, in units in the last place of the
element type at that sum (0.5 is a correctly rounded result). Every output of Tally must be the
exact sum, rounded once: an output that is not ends the run with status 1. --quick: a thousand
elements of each kind, for the test suite. math.fsum sums the elements up to each output as
float64, and its result is rounded to the element type; it is measured only for lines of at most
1000 elements.

The exact sums are integers: every input is a multiple of 2^-1074. Each integer is split into
limbs of 38 bits, and NumPy sums the limbs of each position separately: the sum of ten million
limbs stays below 2^63. If a line has more than a million outputs, only every 97th output is
compared.
"""

import argparse
import math
import pathlib
import sys
import urllib.request

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import load  # noqa: E402

LIMB = 38
MASK = (1 << LIMB) - 1
NMANT = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
MINEXP = {"float16": -14, "bfloat16": -126, "float32": -126, "float64": -1022}


# ---- element types; bfloat16, which NumPy lacks, is passed as uint16 ----
def encode(values, name):
    """Convert float64 values to a type: (elements, the rounded values as float64)."""
    if name != "bfloat16":
        elements = values.astype(name)
        return elements, elements.astype(np.float64)
    bits = values.astype(np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return bits.astype(np.uint16), decode(bits.astype(np.uint16), name)


def decode(elements, name):
    if name == "bfloat16":
        elements = (elements.astype(np.uint32) << 16).view(np.float32)
    return elements.astype(np.float64)


# ---- inputs ----
def kinds(n, name, rng):
    yield "uniform 0..1", rng.random(n)
    yield "normal", rng.standard_normal(n)
    large = 1000.0 if name == "float16" else 1e8
    yield "cancelling", np.tile([large, 1.0, -large], n // 3 + 1)[:n]
    decades = 4 if name == "float16" else 20
    yield "wide range", rng.standard_normal(n) * 10.0 ** rng.integers(-decades, 4, n)
    largest = float(np.finfo("float16" if name == "float16" else "float32").max)
    yield "out of range and back", np.tile([0.7, 0.6, -0.9, -0.4], n // 4 + 1)[:n] * largest


# ---- exact sums ----
def split(x, low):
    """Split float64 numbers into limbs, in units of 2^low; each limb has the sign of its number.
    Yields the lowest limb first."""
    mantissa, exponent = np.frexp(x)
    whole = (mantissa * 2.0**53).astype(np.int64)
    shift = exponent.astype(np.int64) - 53 - low
    whole >>= np.minimum(np.maximum(-shift, 0), 63)  # drops only zero bits
    shift = np.maximum(shift, 0)
    sign, magnitude = np.sign(whole), np.abs(whole)
    for index in range(int(shift.max()) // LIMB + 3):
        move = shift - index * LIMB  # position of the 53 bits in this limb
        up, down = np.clip(move, 0, LIMB), np.clip(-move, 0, 62)
        yield sign * np.where(
            move >= 0, (magnitude & (MASK >> up)) << up, (magnitude >> down) & MASK
        )


def value_of(limbs, low):
    """Sum of signed limbs as float64, accurate to the last bits: cancellation happens before any
    rounding."""
    carry, rest = 0, []
    for limb in limbs:
        total = limb + carry
        rest.append(total & MASK)
        carry = total >> LIMB
    value = np.ldexp(carry.astype(np.float64), LIMB * len(rest) + low)
    for index in reversed(range(len(rest))):
        value = value + np.ldexp(rest[index].astype(np.float64), LIMB * index + low)
    return value


class Exact:
    """The exact running sums of x at the places that are compared."""

    def __init__(self, x, places):
        used = x[x != 0]
        self.low = int(np.frexp(used)[1].min()) - 53
        self.limbs = [np.cumsum(limb)[places] for limb in split(x, self.low)]
        self.value = value_of(self.limbs, self.low)

    def distance(self, got):
        """got minus the exact sum, for finite float64 numbers."""
        limbs = list(split(got, self.low))
        none = np.zeros(len(got), np.int64)
        pairs = max(len(limbs), len(self.limbs))
        mine = self.limbs + [none] * (pairs - len(self.limbs))
        theirs = limbs + [none] * (pairs - len(limbs))
        return value_of([b - a for a, b in zip(mine, theirs)], self.low)


def ulps(values, name):
    exponent = np.frexp(values)[1] - 1
    return np.ldexp(1.0, np.maximum(exponent, MINEXP[name]) - NMANT[name])


# ---- systems ----
def tally(base, elements, name):
    url = f"{base}/v1/cumsum?dtype={name}&shape={elements.size}"
    headers = {"Content-Type": "application/octet-stream"}
    request = urllib.request.Request(url, elements.tobytes(), headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return np.frombuffer(answer.read(), elements.dtype)


def torch_sums(elements, name):
    import torch

    line = torch.from_numpy(elements)
    if name == "bfloat16":
        return torch.cumsum(line.view(torch.bfloat16), 0).view(torch.uint16).numpy()
    return torch.cumsum(line, 0).numpy()


def fsum_sums(elements, name):
    """math.fsum() of each prefix. For types narrower than float64 the result is rounded a second
    time."""
    values = decode(elements, name).tolist()
    sums = np.array([math.fsum(values[: k + 1]) for k in range(len(values))])
    with np.errstate(over="ignore"):
        return encode(sums, name)[0]


def systems(base, name, with_torch, length):
    """Yields (name, function that computes the sums of a line, whether every output must be
    exact)."""
    yield "tally", lambda x: tally(base, x, name), True
    if length <= 1000:
        yield "math.fsum", lambda x: fsum_sums(x, name), False
    if name != "bfloat16":
        yield "numpy", lambda x: np.cumsum(x, dtype=x.dtype), False
    if with_torch:
        yield "torch", lambda x: torch_sums(x, name), False


# ---- the table ----
def range_end(name):
    """The smallest sum that rounds to infinity: half a unit above the largest number of the
    type."""
    largest = np.finfo(np.float32 if name == "bfloat16" else name).max
    if name == "bfloat16":
        largest = np.ldexp(2.0 - 2.0**-7, 127)
    return float(largest) + 0.5 * float(ulps(np.float64(largest), name))


def are_rounded_once(error, got, exact, name):
    """Whether each output is a number of the type that is nearest to the exact sum. The
    comparison allows for the rounding in the last bits of `error`."""
    outside = np.abs(exact.value) >= range_end(name)
    half = ulps(exact.value, name) / 2 * (1 + 1e-12)
    infinite = np.isinf(got) & (np.sign(got) == np.sign(exact.value))
    return np.where(outside, infinite, np.isfinite(got) & (np.abs(error) <= half))


def measure(x, name, exact, places, run, must_be_exact):
    """Returns the largest error, the mean error, the number of outputs out of range, and false
    if outputs are not the exact sums rounded once although `must_be_exact` demands it."""
    got = decode(run(x)[places], name)
    finite = np.isfinite(got)
    error = exact.distance(np.where(finite, got, 0.0))
    ratio = np.abs(error[finite]) / ulps(exact.value[finite], name)
    fine = not must_be_exact or bool(np.all(are_rounded_once(error, got, exact, name)))
    return ratio.max(), ratio.mean(), int((~finite).sum()), fine


def rows(base, lengths, names, with_torch):
    for name in names:
        for n in lengths:
            places = np.arange(n) if n <= 1 << 20 else np.arange(0, n, 97)
            for kind, values in kinds(n, name, np.random.default_rng(20)):
                elements, exactly = encode(values, name)
                exact = Exact(exactly, places)
                for system, run, ours in systems(base, name, with_torch, n):
                    found = measure(elements, name, exact, places, run, ours)
                    yield name, n, kind, system, ours, *found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short lines only")
    parser.add_argument("--torch", action="store_true", help="PyTorch's CPU sums as well")
    parser.add_argument("--types", default=",".join(NMANT), help="a comma-separated list")
    args = parser.parse_args()
    lengths = (1000,) if args.quick else (1000, 100_000, 10_000_000)
    print(
        "| type | elements | input | system | largest, ulp | mean, ulp | out of range | rounded once |"
    )
    print("|---|---|---|---|---|---|---|---|")
    broken = 0
    with load.tallyd() as (_, base):
        for name, n, kind, system, ours, worst, mean, over, fine in rows(
            base, lengths, args.types.split(","), args.torch
        ):
            verdict = ("yes" if fine else "NO") if ours else ""
            broken += not fine
            print(
                f"| {name} | {n} | {kind} | {system} | {worst:.4g} | {mean:.3g} | {over or ''} | {verdict} |",
                flush=True,
            )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
