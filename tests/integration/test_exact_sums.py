"""Sums of floats are exact and rounded once, as seen by clients: sums of non-negative numbers never
decrease, zeros change no sum, and the result does not depend on dialect, device or parts."""

import random
import zlib
from fractions import Fraction

import numpy as np
import pytest

from support import calls, carries, dialects, dtypes, families, oracle
from support.parts import cut_at, in_parts, post, raw_part, split

FLOAT64 = dtypes.BY_NAME["float64"]
LARGEST = np.finfo(np.float64).max
# positions around the block sizes of kernels
EDGES = [0, 1, 255, 256, 257, 512, 1023, 1024, 1025]
# Shapes and axes: rows, columns and the middle axis with thousands of lines, then a few long lines.
LAYOUTS = [
    ((3000, 40), 1),
    ((40, 3000), 0),
    ((60, 40, 50), 1),
    ((3, 30000), 1),
    ((15000, 6), 0),
]


def rng_of(*names):
    return np.random.default_rng(zlib.crc32(repr(names).encode()))


def sums_of(client, dtype, stored, axis=0, **attributes):
    """The service's sums for raw bytes."""
    answer = post(client, dtype, stored, axis=axis, **attributes)
    return calls.stored_of(dtype, answer, stored.shape)


def lines_of(stored, axis):
    return np.moveaxis(stored, axis, -1)


def tensor(family, dtype, rng, shape, axis):
    """A tensor; its lines along the axis are pieces of one line of the family."""
    lines = np.moveaxis(np.empty(shape, dtype.storage), axis, -1)
    drawn = families.draw(family, dtype, rng, lines.size).reshape(lines.shape)
    return np.ascontiguousarray(np.moveaxis(drawn, -1, axis))


# ---- properties that users notice ----


@pytest.mark.parametrize("shape, axis", LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=repr)
def test_sums_of_numbers_that_are_not_negative_never_fall(client, dtype, shape, axis):
    for family in ("prices", "probabilities", "rain"):
        stored = tensor(family, dtype, rng_of(family, dtype, shape), shape, axis)
        assert (dtype.load(stored) == 0).mean() > 0.2
        for reverse in (False, True):
            sums = lines_of(sums_of(client, dtype, stored, axis, reverse=reverse), axis)
            values = dtype.load(sums[..., ::-1] if reverse else sums)
            assert np.all(values[..., 1:] >= values[..., :-1]), (family, reverse)
            assert np.all(values[..., 0] >= 0) and values[..., -1].max() > 0


@pytest.mark.parametrize("shape, axis", LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=repr)
def test_a_zero_never_changes_a_sum(client, dtype, shape, axis):
    """Zeros of either sign are at random positions. A sum of only zeros is a zero whose sign may
    change."""
    unsigned = np.dtype(f"u{dtype.bytes}")
    for family in ("prices", "normal", "random finite bits", "tiny after huge"):
        rng = rng_of(family, dtype, shape)
        stored = tensor(family, dtype, rng, shape, axis)
        zeros = rng.random(shape) < 0.3
        stored[zeros] = dtype.store(rng.choice([0.0, -0.0], int(zeros.sum())))
        sums = np.ascontiguousarray(lines_of(sums_of(client, dtype, stored, axis), axis))
        silent = lines_of(zeros, axis)[..., 1:]
        before, at = sums[..., :-1][silent], sums[..., 1:][silent]
        assert np.array_equal(dtype.load(before), dtype.load(at)), family
        begun = dtype.load(before) != 0
        assert np.array_equal(before.view(unsigned)[begun], at.view(unsigned)[begun]), family
        assert begun.sum() > 0.2 * stored.size


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=repr)
def test_a_cumulative_distribution_has_no_step_where_the_probability_is_0(client, dtype):
    """Probabilities of 200 outcomes for thousands of cases, normalized in float64 and rounded."""
    rng = rng_of("distribution", dtype)
    weights = np.where(rng.random((3000, 200)) < 0.4, 0.0, rng.random((3000, 200)))
    stored = dtype.store(weights / weights.sum(axis=1, keepdims=True))
    values = dtype.load(sums_of(client, dtype, stored, axis=1))
    steps = np.diff(values, axis=1)
    probabilities = dtype.load(stored)[:, 1:]
    assert np.all(steps[probabilities == 0] == 0) and np.all(steps >= 0)
    # The last sum is 1 up to the rounding of 200 probabilities and of the sum.
    assert np.all(np.abs(values[:, -1] - 1) <= 2.0 ** (2 - oracle.FORMATS[dtype.name][0]))


def test_a_zero_behind_three_decimals_leaves_their_sum(client):
    """0.9 + 0.5 + 0.7 is 2.1; two rounded additions give 2.0999999999999996."""
    assert (0.9 + 0.5) + 0.7 != 2.1
    answer = client.post_json("/v1/cumsum", {"data": [0.9, 0.5, 0.7, 0]})
    assert answer.json() == {"dtype": "float64", "shape": [4], "data": [0.9, 1.4, 2.1, 2.1]}


@pytest.mark.parametrize(
    "data, sums",
    [
        ([LARGEST, 6e291, 6e291, 0], [LARGEST, LARGEST, "Infinity", "Infinity"]),
        ([LARGEST, 6e291, 0, 0], [LARGEST] * 4),
        (
            [LARGEST, 6e291, 6e291, 0, -6e291, 0],
            [LARGEST, LARGEST, "Infinity", "Infinity", LARGEST, LARGEST],
        ),
        ([-LARGEST, -6e291, -6e291, 0], [-LARGEST, -LARGEST, "-Infinity", "-Infinity"]),
    ],
    ids=["beyond", "below", "beyond and back", "negative"],
)
def test_a_sum_at_the_end_of_the_range_is_infinite_exactly_while_the_true_sum_is(
    client, data, sums
):
    """6e291 is less than half a unit in the last place of the largest number; twice 6e291 is
    more."""
    half_a_unit = Fraction(2) ** 970
    assert Fraction(6e291) < half_a_unit < 2 * Fraction(6e291)
    answer = client.post_json("/v1/cumsum", {"data": data, "dtype": "float64"})
    assert answer.json()["data"] == sums
    stored = np.array(data, np.float64)
    calls.expect_same(FLOAT64, sums_of(client, FLOAT64, stored), stored)


# ---- every dialect ----

# dialects without the type
ABSENT = {"bfloat16": {"by_npy", "by_directml"}, "float64": {"by_directml"}}


@pytest.mark.parametrize("family", families.ALL)
@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=repr)
def test_every_dialect_answers_the_exact_sums_rounded_once(client, dtype, family):
    """Every dialect that can express the call returns the expected bits, including those of
    NaN."""
    rng = rng_of(family, dtype)
    for shape, axis in (((5, 67), 1), ((150,), 0), ((2, 40, 3), 1)):
        stored = tensor(family, dtype, rng, shape, axis)
        flags = {"exclusive": bool(rng.integers(2)), "reverse": bool(rng.integers(2))}
        call = dialects.Call(dtype, stored.reshape(-1), shape, axis, **flags)
        answers = {send.__name__: send(client, call, rng) for send in dialects.ALL}
        absent = {name for name, answer in answers.items() if answer is None}
        assert absent == ABSENT.get(dtype.name, set())
        for name in answers.keys() - absent:
            sums = np.ascontiguousarray(answers[name][0]).tobytes()
            assert sums == call.sums.tobytes(), (name, shape, flags)


# ---- every device, every division into parts ----

ADVERSARIAL = [name for name in families.ALL if name not in families.USUAL]


@pytest.mark.parametrize("family", ADVERSARIAL)
def test_devices_that_compute_in_different_ways_answer_equal_bytes(pair, family):
    """Tally's own driver has vector kernels for the processor; the other driver compiles the
    general kernel, which uses only integer additions."""
    listed = [client.get("/v1/devices").json()["devices"] for client in pair]
    assert listed[0][0]["platform"] != listed[1][0]["platform"]
    for dtype in dtypes.FLOATS:
        rng = rng_of(family, dtype)
        for shape, axis in (((300, 70), 1), ((700, 35), 0), ((3, 2100), 1), ((3, 80, 40), 1)):
            stored = tensor(family, dtype, rng, shape, axis)
            flags = {"exclusive": bool(rng.integers(2)), "reverse": bool(rng.integers(2))}
            bodies = [sums_of(client, dtype, stored, axis, **flags).tobytes() for client in pair]
            assert bodies[0] == bodies[1], (dtype, shape, flags)
            assert bodies[0] == oracle.cumsum(dtype, stored, axis, **flags).tobytes()


@pytest.mark.parametrize("family", ADVERSARIAL)
def test_parts_cut_anywhere_and_sent_to_devices_by_turns_have_the_bytes_of_the_whole(pair, family):
    for dtype in dtypes.FLOATS:
        rng, draw = rng_of(family, dtype), random.Random(f"{family} {dtype}")
        for shape, axis in (((4, 1300), 1), ((1100, 5), 0), ((2, 700, 3), 1)):
            size = shape[axis]
            near = [edge for edge in EDGES if edge <= size]
            cuts = [draw.choice([draw.choice(near), draw.randint(0, size)]) for _ in range(5)]
            stored = tensor(family, dtype, rng, shape, axis)
            flags = {"exclusive": bool(rng.integers(2)), "reverse": bool(rng.integers(2))}
            clients = draw.sample(pair, 2)
            out = in_parts(clients, raw_part, dtype, stored, cuts, axis, **flags)
            expected = oracle.cumsum(dtype, stored, axis, **flags)
            assert out.tobytes() == expected.tobytes(), (dtype, shape, cuts, flags)


# ---- totals in any order ----


def lines_in_parts(dtype, draw):
    """One line of each family, including infinities and NaN, whole and in parts. One part is
    empty."""
    rng = rng_of("totals", dtype)
    stored = np.array([families.draw(name, dtype, rng, 400) for name in families.ALL])
    cuts = [draw.randint(0, 400) for _ in range(4)]
    parts = [np.ascontiguousarray(stored[:, a:b]) for a, b in cut_at(400, [*cuts, cuts[0]])]
    return stored, parts


def total(client, dtype, part, carry=b""):
    """The carry after a part, given the carry before it."""
    answer = post(client, dtype, part, carry, path="/v1/cumsum/totals", axis=1)
    carry, rest = split(answer)
    assert rest == b""
    return carry


def added(dtype, left, right):
    """Add two carries as a client does, from the sums of their lines."""
    sums = []
    for pair in zip(carries.sums_of(left), carries.sums_of(right), strict=True):
        if "nan" in pair or {"+inf", "-inf"} <= set(pair):
            sums.append("nan")
        elif "+inf" in pair or "-inf" in pair:
            sums.append("+inf" if "+inf" in pair else "-inf")
        elif pair == ("-0", "-0"):
            sums.append("-0")
        else:
            sums.append(sum(0 if number == "-0" else number for number in pair))
    position = sum(int.from_bytes(carry[32:40], "little") for carry in (left, right))
    return carries.of_sums(dtype, sums, position)


def tree_of_totals(clients, dtype, parts, draw):
    """The carry after all parts: a server totals single parts, the client adds the carries of
    subtrees."""
    if len(parts) == 1:
        return total(draw.choice(clients), dtype, parts[0])
    middle = draw.randint(1, len(parts) - 1)
    left = tree_of_totals(clients, dtype, parts[:middle], draw)
    if middle == len(parts) - 1:
        return total(draw.choice(clients), dtype, parts[-1], left)
    return added(dtype, left, tree_of_totals(clients, dtype, parts[middle:], draw))


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=repr)
def test_totals_have_the_same_bytes_in_any_order_and_in_any_tree(pair, dtype):
    draw = random.Random(dtype.name)
    stored, parts = lines_in_parts(dtype, draw)
    whole = carries.of_tensor(dtype, stored, 1)
    assert total(pair[0], dtype, stored) == whole
    for _ in range(6):
        carry = b""
        for part in draw.sample(parts, len(parts)):
            carry = total(draw.choice(pair), dtype, part, carry)
        assert carry == whole
    for _ in range(12):
        shuffled = draw.sample(parts, len(parts))
        assert tree_of_totals(pair, dtype, shuffled, draw) == whole
