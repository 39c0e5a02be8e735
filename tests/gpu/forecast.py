"""Forecast the speed of the kernels for GPUs from the instructions and the memory accesses that an interpreter counts.

    build/venv/bin/python tests/gpu/forecast.py [--elements N]

Nothing is measured on a GPU. For each type the command scans rows of 1024 elements, columns of 256, and one
long line by reduce-then-scan and, of integers, by look-back, as simulate.py does, compares the bits, and prints

    instructions an element   what the 32 lanes of a warp issue together counts once, divided by 32; PTX, with 64-bit
                              operations weighted as the instructions of sm_90 (ptx.issue_slots)
    sectors an element        32 bytes that a warp reads or writes of the tensor at once, in units of those that each
                              element needs once: 2.0 is a copy, 3.0 reads the tensor twice
    of a copy                 the forecast for an H100: least and most

A streaming multiprocessor of an H100 issues 4 instructions of a warp in each cycle. Its units for integers and those
for float64 take 2 each, those for float32 take 4: the forecast has both limits. Conversions between floats and
integers of 64 bits take two cycles each in units of their own, which are not the limit here.
Elements are normally distributed numbers, or random bits of integers. The command fails if a line of floats is left
for gpu_rest_scan: then these figures would say nothing.
"""

import argparse
import pathlib
import random
import sys
import tempfile

import numpy

import programs
import ptx
import simulate

# NVIDIA H100 SXM: processors, cycles a second, bytes a second of a copy, reads and writes together.
PROCESSORS, CLOCK, COPY = 132, 1.755e9, 3.0e12
TYPES = ("int32", "int64", "float32", "float64", "int8", "float16", "bfloat16")


class Fixed(simulate.Case):
    """A scan of a case, of given sizes, not in place."""

    def __init__(self, family, dtype, sizes, axis=1):  # pylint: disable=super-init-not-called
        self.family, self.dtype, self.wide, self.test = family, dtype, False, 0
        self.size, self.fraction = simulate.TYPES[dtype]
        self.draw, self.in_place, self.cut, self.partition = random.Random(1), False, None, 0
        strides = [sizes[1], 1]
        self.options = ""
        self.pieces = [simulate.Piece(sizes, axis, strides, strides, (False, False))]
        self.in_elements = self.out_elements = sizes[0] * sizes[1]

    def content(self, count):
        if not self.fraction:
            return super().content(count)
        numbers = numpy.random.default_rng(1).standard_normal(count)
        if self.dtype == "bfloat16":
            return (numbers.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)
        return numbers.astype(self.dtype).view(f"u{self.size}")


def forecast(host, what, case):
    """Run the case; return the words of a line."""
    meter = ptx.Meter()
    host.run(case, meter=meter)
    count = case.in_elements
    instructions = sum(meter.slots.values()) / count
    traffic = sum(meter.sectors.values()) * ptx.SECTOR / (count * case.size)
    copy = 2 * case.size / COPY
    memory = copy * traffic / 2
    shares = [
        copy / max(memory, instructions * ptx.WARP / (lanes * PROCESSORS * CLOCK))
        for lanes in (64, 128)
    ]
    rest = meter.slots["gpu_rest_scan"]
    piece = case.pieces[0]
    if rest * ptx.WARP > 100 * count // piece.sizes[piece.axis] + 5000:
        raise ptx.Fault(f"{case.dtype}: gpu_rest_scan issued {rest} instructions")
    per_kernel = ", ".join(f"{k} {n / count * ptx.WARP:.0f}" for k, n in meter.slots.items())
    return (
        f"{case.dtype:<10}{what:<28}{instructions * ptx.WARP:>13.0f}{traffic:>9.2f}"
        f"{shares[0]:>9.2f} to {shares[1]:.2f}   {per_kernel}"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--elements", type=int, default=1 << 16)
    options = parser.parse_args()
    programs.run("make", "--no-print-directory", "-s", simulate.LAUNCHES)
    print(f"{'':38}instructions  sectors   of a copy   instructions by kernel")
    with tempfile.TemporaryDirectory() as folder:
        host = simulate.Host(pathlib.Path(folder))
        for dtype in TYPES:
            rows = [options.elements // 1024, 1024]
            columns = [256, options.elements // 256]
            line = [1, options.elements]
            print(forecast(host, "rows of 1024", Fixed("tiles", dtype, rows)))
            print(forecast(host, "columns of 256", Fixed("tiles", dtype, columns, axis=0)))
            print(forecast(host, "one line", Fixed("tiles", dtype, line)))
            if dtype.startswith("int"):
                print(forecast(host, "one line, look-back", Fixed("look-back", dtype, line)))
            sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except (programs.Fault, ptx.Fault) as fault:
        sys.exit(str(fault))
