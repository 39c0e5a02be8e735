"""The operator against the oracle: types, flags, axes, shapes; compared bit by bit."""

import numpy as np
import pytest

from support import calls, dtypes

FLAGS = [(False, False), (True, False), (False, True), (True, True)]
FLAG_IDS = ["plain", "exclusive", "reverse", "exclusive_reverse"]

# Lengths around the block sizes of the sums (8, 256, 65536) and around vector widths.
LINES = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 255, 256, 257, 1000, 4097]
LARGE = [
    ((65537,), 0),
    ((200003,), 0),
    ((3, 70000), 1),
    ((70000, 3), 0),
    ((300, 257), 0),
    ((17, 129, 31), 1),
    ((2, 66000, 2), 1),
    ((20000, 5), 1),
    ((1000, 1, 64), 0),
]


def check_raw(client, dtype, stored, axis, exclusive, reverse):
    answer = calls.post_raw(client, dtype, stored, axis=axis, exclusive=exclusive, reverse=reverse)
    actual = calls.stored_of(dtype, answer, stored.shape)
    calls.expect_same(dtype, actual, stored, axis=axis, exclusive=exclusive, reverse=reverse)


def random_shape(rng, rank):
    """A shape with a small product; some sizes are 1, and sometimes one is large."""
    shape = [int(size) for size in rng.integers(1, 5, size=rank)]
    if rank <= 3:
        shape[int(rng.integers(rank))] = int(rng.integers(1, 300))
    return tuple(shape)


@pytest.mark.parametrize("exclusive, reverse", FLAGS, ids=FLAG_IDS)
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_every_axis_of_random_shapes_of_rank_one_to_eight(client, dtype, exclusive, reverse):
    rng = np.random.default_rng([dtypes.ALL.index(dtype), exclusive, reverse])
    for rank in range(1, 9):
        stored = dtype.random(rng, random_shape(rng, rank))
        for axis in range(-rank, rank):
            check_raw(client, dtype, stored, axis, exclusive, reverse)


@pytest.mark.parametrize("exclusive, reverse", FLAGS, ids=FLAG_IDS)
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_line_lengths_around_every_unit(client, dtype, exclusive, reverse):
    rng = np.random.default_rng(7)
    for length in LINES:
        check_raw(client, dtype, dtype.random(rng, (2, length)), 1, exclusive, reverse)
        check_raw(client, dtype, dtype.random(rng, (length, 3)), 0, exclusive, reverse)


@pytest.mark.parametrize("shape, axis", LARGE, ids=str)
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_large_shapes_of_every_access_pattern(client, dtype, shape, axis):
    rng = np.random.default_rng(11)
    stored = dtype.random(rng, shape)
    for exclusive, reverse in FLAGS[:: 3 if dtype.bytes > 2 else 1]:
        check_raw(client, dtype, stored, axis, exclusive, reverse)


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_sums_round_once(client, dtype):
    """2^k followed by ones: rounding at each step would stay at 2^k, a float64 accumulator does
    not."""
    sticky = {"float16": 2048.0, "bfloat16": 256.0, "float32": 2.0**24, "float64": 2.0**53}
    stored = dtype.store([sticky[dtype.name]] + [1.0] * 9)
    check_raw(client, dtype, stored, 0, False, False)
    answer = calls.post_raw(client, dtype, stored)
    last = dtype.load(calls.stored_of(dtype, answer, (10,)))[-1]
    if dtype.name != "float64":
        assert last > sticky[dtype.name]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_rank_64(client, dtype):
    rng = np.random.default_rng(64)
    shape = tuple(2 if at % 8 == 0 else 1 for at in range(64))
    stored = dtype.random(rng, int(np.prod(shape)))
    for axis in (0, 8, 1, 63, -1, -64, -8):
        for exclusive, reverse in FLAGS:
            path = "/v1/cumsum" + calls.query(
                dtype=dtype.name, shape=list(shape), axis=axis, exclusive=exclusive, reverse=reverse
            )
            answer = client.post(path, stored.tobytes(), calls.RAW)
            assert answer.status == 200, answer
            assert answer.headers["Tally-Shape"] == ",".join(map(str, shape))
            actual = np.frombuffer(answer.body, dtype.storage)
            # The same tensor without dimensions of 1, as NumPy allows at most 64 dimensions.
            at = axis % 64
            folded = stored.reshape([2] * 8 + [1])
            calls.expect_same(
                dtype,
                actual.reshape(folded.shape),
                folded,
                axis=at // 8 if shape[at] == 2 else 8,
                exclusive=exclusive,
                reverse=reverse,
            )


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4), (0, 0), (1, 5, 0, 1)], ids=str)
def test_zero_size_dimension_gives_an_empty_answer(client, dtype, shape):
    stored = np.zeros(shape, dtype.storage)
    for axis in range(len(shape)):
        for exclusive, reverse in FLAGS:
            answer = calls.post_raw(
                client, dtype, stored, axis=axis, exclusive=exclusive, reverse=reverse
            )
            assert calls.stored_of(dtype, answer, shape).size == 0
            assert answer.body == b""


def test_empty_tensor_is_still_checked(client):
    calls.expect_error(
        client.post("/v1/cumsum?dtype=int32&shape=0,3&axis=2", b"", calls.RAW), 400, "invalid_axis"
    )
    calls.expect_error(
        client.post("/v1/cumsum?dtype=int32&shape=0,3", b"1234", calls.RAW), 400, "length_mismatch"
    )


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_axis_of_size_one_is_identity_or_zeros(client, dtype):
    rng = np.random.default_rng(1)
    stored = dtype.random(rng, (4, 1, 5))
    for reverse in (False, True):
        answer = calls.post_raw(client, dtype, stored, axis=1, reverse=reverse)
        assert calls.stored_of(dtype, answer, stored.shape).tobytes() == stored.tobytes()
        answer = calls.post_raw(client, dtype, stored, axis=1, reverse=reverse, exclusive=True)
        assert calls.stored_of(dtype, answer, stored.shape).tobytes() == bytes(stored.nbytes)


@pytest.mark.parametrize("dtype", dtypes.INTEGERS, ids=str)
def test_integers_wrap_at_both_ends(client, dtype):
    info = np.iinfo(dtype.storage)
    for values in ([info.max, 1, 1], [info.min, info.max, info.max], [info.max] * 300, [1] * 300):
        stored = np.array(values, dtype.storage)
        for send in (calls.post_raw, calls.post_json):
            answer = send(client, dtype, stored)
            modulus = 1 << (8 * dtype.bytes)
            total = sum(int(value) for value in values) % modulus
            if total > info.max:
                total -= modulus
            actual = calls.stored_of(dtype, answer, stored.shape)
            assert int(actual[-1]) == total
            calls.expect_same(dtype, actual, stored)


def test_json_integers_beyond_2_to_the_53_are_exact(client):
    values = [2**64 - 1, 0, 1, 2**63, 9007199254740993]
    answer = client.post_json("/v1/cumsum", {"data": values, "dtype": "uint64"})
    sums, total = [], 0
    for value in values:
        total = (total + value) % 2**64
        sums.append(total)
    assert answer.status == 200 and answer.json()["data"] == sums
    values = [-(2**63), 2**63 - 1, 9007199254740993]
    answer = client.post_json("/v1/cumsum", {"data": values, "dtype": "int64"})
    assert answer.status == 200
    assert answer.json()["data"] == [-(2**63), -1, 9007199254740992]


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_nan_and_infinity_never_reach_back_or_sideways(client, dtype):
    stored = dtype.store(np.ones((6, 40)))
    poison = dtype.store([np.nan, np.inf, -np.inf])
    stored[1, 20], stored[3, 0], stored[4, 39] = poison
    stored[3, 5] = poison[2]
    for axis in (0, 1):
        for exclusive in (False, True):
            for reverse in (False, True):
                check_raw(client, dtype, stored, axis, exclusive, reverse)


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_first_inclusive_element_is_copied_with_its_sign(client, dtype):
    stored = dtype.store([-0.0, -0.0, 0.0, -0.0])
    answer = calls.post_raw(client, dtype, stored)
    signs = np.signbit(dtype.load(calls.stored_of(dtype, answer, (4,))))
    assert signs.tolist() == [True, True, False, False]
    check_raw(client, dtype, stored, 0, True, False)


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_subnormals_are_kept(client, dtype):
    stored = np.ones(20, f"u{dtype.bytes}").view(dtype.storage)
    assert dtype.load(stored)[0] > 0
    check_raw(client, dtype, stored, 0, False, False)


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_sums_beyond_the_largest_number_are_infinite(client, dtype):
    largest = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}.get(dtype.name)
    if largest is None:
        largest = float(np.finfo(dtype.storage).max)
    stored = dtype.store([largest, largest, -largest, -largest])
    check_raw(client, dtype, stored, 0, False, False)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_same_request_gives_the_same_bits_every_time(client, dtype):
    stored = dtype.random(np.random.default_rng(9), (7, 1013))
    bodies = {calls.post_raw(client, dtype, stored, axis=1).body for _ in range(20)}
    assert len(bodies) == 1


def test_a_line_has_the_same_bits_in_every_layout(client):
    """The same line alone, as a row, as a column, strided, and reversed twice."""
    dtype = dtypes.BY_NAME["float32"]
    line = dtype.random(np.random.default_rng(21), 70001)
    alone = calls.stored_of(dtype, calls.post_raw(client, dtype, line), line.shape)
    rows = np.stack([line, line[::-1], line])
    row = calls.stored_of(dtype, calls.post_raw(client, dtype, rows, axis=1), rows.shape)[2]
    columns = np.ascontiguousarray(rows.T)
    column = calls.stored_of(dtype, calls.post_raw(client, dtype, columns, axis=0), columns.shape)
    turned = np.ascontiguousarray(line[::-1])
    back = calls.stored_of(dtype, calls.post_raw(client, dtype, turned, reverse=True), line.shape)
    assert alone.tobytes() == row.tobytes() == np.ascontiguousarray(column[:, 2]).tobytes()
    assert alone.tobytes() == np.ascontiguousarray(back[::-1]).tobytes()
