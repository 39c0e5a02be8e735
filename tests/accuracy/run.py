"""Errors of Tally, NumPy and PyTorch against the exact sums, on the same inputs.

    build/venv/bin/python tests/accuracy/run.py [--torch]

Starts build/bin/tallyd on a free port, sends each input as raw bytes, and prints for every output the largest
and the mean distance from the exact running sum, in units in the last place of the element type (0.5 is a
correctly rounded result). The exact sums are kept as Python integers: every finite float is a multiple of 2^-1074.
"""

import argparse
import pathlib
import sys
import urllib.request

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import load  # noqa: E402

SCALE = 160  # float32 and float16 are multiples of 2^-149


def inputs():
    rng = np.random.default_rng(20)
    ones = np.ones((1 << 24) + (1 << 18), np.float32)
    yield "ones, past 2^24", ones
    yield "5e6 times 0.0005", np.full(5_000_000, 0.0005, np.float32)
    yield "uniform 0..1", rng.random(1 << 20, dtype=np.float32)
    yield "normal", rng.standard_normal(1 << 20).astype(np.float32)
    yield "1e8, 1, -1e8 in turn", np.tile(np.array([1e8, 1, -1e8], np.float32), 100_000)
    wide = rng.standard_normal(1 << 18) * 10.0 ** rng.integers(-20, 20, 1 << 18)
    yield "forty decades", wide.astype(np.float32)
    yield "uniform 0..1, float16", rng.random(50_000).astype(np.float16)
    yield "normal, float16", rng.standard_normal(1 << 18).astype(np.float16)
    yield "normal, float64", rng.standard_normal(1 << 18)
    yield "uniform 0..1, float64", rng.random(1 << 20)


def exact_sums(x):
    """The running sums as integers in units of 2^-shift, and the shift."""
    shift = 1074 if x.dtype == np.float64 else SCALE
    mantissa, exponent = np.frexp(x.astype(np.float64))
    whole = (mantissa * 2.0**53).astype(np.int64)
    total, sums = 0, []
    for m, e in zip(whole.tolist(), exponent.tolist()):
        move = e - 53 + shift
        total += m << move if move >= 0 else m >> -move
        sums.append(total)
    return sums, shift


def errors(got, sums, shift):
    """Distances from the exact sums in ulps of got's type at the exact value: largest, mean."""
    info = np.finfo(got.dtype)
    digits, least = info.nmant + 1, info.minexp - info.nmant
    mantissa, exponent = np.frexp(got.astype(np.float64))
    whole = (mantissa * 2.0**53).astype(np.int64)
    worst = mean = 0.0
    for m, e, want, value in zip(whole.tolist(), exponent.tolist(), sums, got.tolist()):
        ulp = max(abs(want).bit_length() - shift - digits, least)
        if value != value or value in (float("inf"), float("-inf")):
            continue  # beyond the type's range
        move = e - 53 + shift
        there = m << move if move >= 0 else m >> -move
        units = ulp + shift
        distance = abs(there - want)
        ratio = distance / (1 << units) if units >= 0 else float(distance << -units)
        worst = max(worst, ratio)
        mean += ratio
    return worst, mean / len(sums)


def tally(base, x, precision):
    url = f"{base}/v1/cumsum?dtype={x.dtype.name}&shape={x.size}&precision={precision}"
    request = urllib.request.Request(url, x.tobytes(), {"Content-Type": "application/octet-stream"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return np.frombuffer(answer.read(), x.dtype)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", action="store_true", help="PyTorch's CPU sums as well")
    args = parser.parse_args()
    print(f"{'input':26} {'n':>9}  {'system':16} {'largest, ulp':>14} {'mean, ulp':>12}")
    with load.tallyd() as (_, base):
        for name, x in inputs():
            sums, shift = exact_sums(x)
            systems = {
                "tally wide": lambda: tally(base, x, "wide"),
                "tally native": lambda: tally(base, x, "native"),
                "numpy": lambda: np.cumsum(x, dtype=x.dtype),
            }
            if x.dtype == np.float64:
                del systems["tally native"]
            if args.torch:
                import torch

                systems["torch"] = lambda: torch.cumsum(torch.from_numpy(x), 0).numpy()
            for system, run in systems.items():
                worst, mean = errors(run(), sums, shift)
                print(f"{name:26} {x.size:9}  {system:16} {worst:14.3f} {mean:12.4f}", flush=True)


if __name__ == "__main__":
    main()
