"""Write the requests that lease.sh sends to a service on a GPU: `python3 tests/gpu/requests.py FOLDER`.

FOLDER/list has a line for each: its name, element type, shape, and options of `tally cumsum`. FOLDER/NAME.in is
the input, raw. Integers are random bits. Floats have random signs and fractions, and exponents of a range that
makes many sums inexact and some cancel, but no NaN or infinity.
"""

import math
import pathlib
import random
import sys

REQUESTS = """
long_line_i32      int32     500001     --axis 0
long_rows_i8       int8      3,300003   --axis 1 --exclusive
long_rows_u64      uint64    2,70001    --axis 1 --reverse
rows_i16           int16     500,1001   --axis 1 --exclusive --reverse
short_rows_i64     int64     5000,7     --axis 1
columns_i32        int32     100,1000   --axis 0
middle_axis_u8     uint8     20,64,65   --axis 1
strided_rows_i32   int32     100,200    --axis 1 --strides 400,2
rows_f32           float32   100,1001   --axis 1
columns_f32        float32   200,513    --axis 0 --exclusive
rows_f64           float64   64,1025    --axis 1 --reverse
columns_f16        float16   300,257    --axis 0
rows_bf16          bfloat16  200,333    --axis 1
one_number_f32     float32   1          --axis 0
"""
# Bytes of an element, bits of its fraction, exponent field of 1.0.
FLOATS = {
    "float16": (2, 10, 15),
    "bfloat16": (2, 7, 127),
    "float32": (4, 23, 127),
    "float64": (8, 52, 1023),
}
EXPONENTS = range(-12, 4)


def elements(shape, options):
    """Count the elements that the input spans."""
    sizes = [int(size) for size in shape.split(",")]
    if "--strides" not in options:
        return math.prod(sizes)
    strides = options[options.index("--strides") + 1].split(",")
    return 1 + sum((size - 1) * int(stride) for size, stride in zip(sizes, strides))


def content(dtype, count, draw):
    if dtype not in FLOATS:
        return draw.randbytes(count * int(dtype.lstrip("uint")) // 8)
    width, fraction, one = FLOATS[dtype]
    numbers = (
        draw.getrandbits(1) << (8 * width - 1)
        | one + draw.choice(EXPONENTS) << fraction
        | draw.getrandbits(fraction)
        for _ in range(count)
    )
    return b"".join(number.to_bytes(width, "little") for number in numbers)


def main(folder):
    draw = random.Random(1)
    for line in REQUESTS.strip().splitlines():
        name, dtype, shape, *options = line.split()
        (folder / f"{name}.in").write_bytes(content(dtype, elements(shape, options), draw))
    (folder / "list").write_text(REQUESTS.lstrip())


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
