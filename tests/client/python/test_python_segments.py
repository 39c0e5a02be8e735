"""Segments of an axis, in one request and in parts. Sums with offsets are compared with NumPy's
sums of each segment, sums of groups with those of pandas."""

import itertools

import numpy as np
import pandas
import pytest
import tally
from tally.segments import segments_of

rng = np.random.default_rng(23)
SIZE = 40


@pytest.fixture(params=[False, True], ids=["wire", "shm"])
def client(connect, server, request):
    return connect(server.url, shm=request.param)


def same(left, right):
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and np.ascontiguousarray(left).tobytes() == np.ascontiguousarray(right).tobytes()
    )


def each_segment(sums_of, x, axis, offsets):
    """Concatenate the sums of each segment."""
    pieces = [
        sums_of(np.take(x, range(begin, end), axis)) for begin, end in itertools.pairwise(offsets)
    ]
    return np.concatenate(pieces, axis)


def random_offsets(count, size=SIZE):
    """Random offsets of `count` segments; some of the segments are empty."""
    inner = rng.choice([0, size, *rng.integers(0, size + 1, 6)], count - 1)
    return [0, *sorted(inner.tolist()), size]


def arrays(shape=(3, SIZE)):
    floats = rng.standard_normal(shape)
    floats[rng.random(shape) < 0.1] = np.nan
    times = rng.integers(-9, 9, shape).astype("m8[s]")
    times[rng.random(shape) < 0.1] = "NaT"
    return {
        "bool": floats < 0,
        "int8": rng.integers(-128, 128, shape, "int8"),
        "uint64": rng.integers(0, 1 << 64, shape, "uint64"),
        "float16": floats.astype("float16"),
        "swapped": floats.astype(">f4"),
        "float64": floats,
        "complex128": floats + 1j * rng.standard_normal(shape),
        "times": times,
    }


OPTIONS = (
    {},
    {"reverse": True, "nan": "skip"},
    {"exclusive": True, "nan": "zero"},
    {"include_initial": True, "nan": "skip"},
    {"include_initial": True, "reverse": True, "nan": "skip"},
)


# ---- offsets ----


@pytest.mark.parametrize("name", ["bool", "int8", "uint64"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_each_segment_has_the_sums_of_numpy(client, name, axis):
    x = arrays((SIZE, SIZE))[name]
    for count in (1, 2, 7, 50):
        offsets = random_offsets(count)
        expected = each_segment(lambda piece: np.cumsum(piece, axis), x, axis, offsets)
        assert same(client.cumsum(x, axis, offsets=offsets), expected)
        expected = each_segment(
            lambda piece: np.cumulative_sum(piece, axis=axis, include_initial=True),
            x,
            axis,
            offsets,
        )
        assert same(client.cumsum(x, axis, offsets=offsets, include_initial=True), expected)


@pytest.mark.parametrize("name", arrays())
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_each_segment_has_the_bits_of_a_call_of_its_own(client, name, options):
    x = arrays()[name]
    initial = {"times": np.timedelta64(9, "s"), "complex128": 2 - 1j}.get(name, 7)
    for given in (options, {**options, "initial": initial}):
        for count in (1, 3, 9):
            offsets = random_offsets(count)
            expected = each_segment(lambda piece: client.cumsum(piece, 1, **given), x, 1, offsets)
            assert same(client.cumsum(x, 1, offsets=offsets, **given), expected)


def test_rows_of_different_lengths_are_summed_flat(client):
    rows = [[1, 2], [], [3, 4, 5]]
    offsets = np.cumsum([0, *map(len, rows)])
    sums = client.cumsum([n for row in rows for n in row], offsets=offsets)
    assert [part.tolist() for part in np.split(sums, offsets[1:-1])] == [[1, 3], [], [3, 7, 12]]
    assert client.cumsum(np.ones((2, 3)), offsets=[0, 4, 6]).tolist() == [1, 2, 3, 4, 1, 2]


@pytest.mark.parametrize("kind", [list, tuple, np.uint8, np.int64, ">i4", pandas.Series])
def test_offsets_are_any_integers(client, kind):
    offsets = np.asarray([0, 2, 2, 5], kind) if isinstance(kind, str) else kind([0, 2, 2, 5])
    assert client.cumsum([1, 2, 3, 4, 5], offsets=offsets).tolist() == [1, 3, 3, 7, 12]


def test_an_axis_without_elements_has_the_initial_sum_of_each_segment(client):
    empty = np.empty((2, 0), np.int32)
    assert client.cumsum(empty, 1, offsets=[0]).shape == (2, 0)
    sums = client.cumsum(empty, 1, offsets=[0, 0, 0], initial=7, include_initial=True)
    assert sums.tolist() == [[7, 7], [7, 7]]
    assert client.cumsum(empty, 1, offsets=[0], include_initial=True).shape == (2, 0)


def test_an_output_of_any_layout_takes_the_sums_of_segments(client):
    x = rng.integers(-9, 9, (6, 5)).astype("float32")
    expected = each_segment(lambda piece: np.cumsum(piece, 0), x, 0, [0, 2, 6])
    for out in (np.empty((5, 6), "f4").T, np.empty((12, 10), ">f4")[::2, ::2], x):
        assert client.cumsum(x, 0, offsets=[0, 2, 6], out=out) is out
        assert np.array_equal(out, expected)


# ---- groups ----

KEYS = {
    "integers": rng.integers(-3, 3, SIZE),
    "of 8 bits": rng.choice(np.array([-128, 127, -1, 0], "int8"), SIZE),
    "of 64 bits": rng.choice([-(2**63), 2**63 - 1, 0, 1 << 16], SIZE),
    "beyond int64": rng.integers(2**64 - 4, 2**64, SIZE, "uint64"),
    "around 2^16": rng.choice([(1 << 16) - 1, 1 << 16, 0], SIZE),
    "around -2^15": rng.choice([-(1 << 15) - 1, -(1 << 15), (1 << 15) - 2, 0], SIZE),
    "sorted": np.sort(rng.integers(0, 5, SIZE)),
    "in runs": np.repeat([5, 3, 9, 4], SIZE // 4),
    "runs that come again": np.repeat([5, 3, 5, 4], SIZE // 4),
    "all different": rng.permutation(SIZE),
    "one group": np.zeros(SIZE, "uint8"),
    "bool": rng.random(SIZE) < 0.5,
    "floats": rng.choice([0.0, -0.0, 1.5, np.inf], SIZE),
    "texts": rng.choice(["b", "a", "cc"], SIZE),
    "objects": rng.choice(["b", "a", "cc"], SIZE).astype(object),
    "days": rng.choice(np.arange("2024-01-01", "2024-01-05", dtype="M8[D]"), SIZE),
    "category": pandas.Categorical(rng.choice(["x", "y"], SIZE)),
    "series": pandas.Series(rng.integers(0, 3, SIZE)),
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_groups_have_the_sums_of_pandas(client, keys):
    x = rng.integers(-9, 9, (SIZE, 4))
    floats = np.where(rng.random(x.shape) < 0.1, np.nan, x)
    times = x.astype("m8[s]")
    times[::7] = "NaT"
    by = np.asarray(keys)
    for given, options in ((x, {}), (floats, {"nan": "skip"}), (times, {})):
        expected = pandas.DataFrame(given).groupby(by, sort=False).cumsum().to_numpy()
        assert same(client.cumsum(given, 0, groups=keys, **options), expected)
        lines = np.ascontiguousarray(given.T)
        assert same(client.cumsum(lines, 1, groups=keys, **options), expected.T)
        if np.ndim(given) == 2:
            assert same(client.cumsum(given[:, 0], groups=keys, **options), expected[:, 0])


@pytest.mark.parametrize("name", arrays())
@pytest.mark.parametrize("keys", [KEYS["in runs"], KEYS["integers"]], ids=["runs", "mixed"])
def test_each_group_has_the_bits_of_a_call_of_its_own(client, name, keys):
    x = arrays()[name]
    initial = {"times": np.timedelta64(9, "s"), "complex128": 2 - 1j}.get(name, 7)
    for options in ({}, {"exclusive": True, "reverse": True, "nan": "zero", "initial": initial}):
        sums = client.cumsum(x, 1, groups=keys, **options)
        for key in np.unique(keys):
            assert same(sums[:, keys == key], client.cumsum(x[:, keys == key], 1, **options))


def test_groups_are_summed_in_place_and_into_any_layout(client):
    keys = [2, 1, 2, 1, 2, 0]
    x = np.arange(12.0).reshape(6, 2)
    expected = pandas.DataFrame(x).groupby(keys).cumsum().to_numpy()
    for out in (np.empty((2, 6)).T, np.empty((12, 4), ">f8")[::2, ::2], x):
        assert client.cumsum(x, 0, groups=keys, out=out) is out
        assert np.array_equal(out, expected)
    z = np.arange(6) + 1j
    assert client.cumsum(z, groups=keys, out=z) is z
    assert z.tolist() == [0 + 1j, 1 + 1j, 2 + 2j, 4 + 2j, 6 + 3j, 5 + 1j]


def test_only_groups_that_are_apart_are_gathered():
    for name in ("sorted", "in runs", "all different", "one group", "integers"):
        keys = KEYS[name]
        found = segments_of(SIZE, None, keys)
        apart = len(np.flatnonzero(np.diff(keys))) + 1 > len(np.unique(keys))
        assert (found.order is not None) == apart == (name == "integers")
        assert found.segment_count == len(np.unique(keys))


def test_an_array_without_elements_has_no_groups(client):
    assert client.cumsum(np.empty((0, 3)), 0, groups=[]).shape == (0, 3)
    assert client.cumsum(np.float32(3), groups=["a"]).tolist() == [3]


# ---- in parts ----

LENGTHS = [0, 1, 2, 0, 900, 3, 0, 0, 3000, *[1] * 90, 0, 500, 4]
LONG = np.concatenate([[0], np.cumsum(LENGTHS)])


@pytest.mark.parametrize("shape", [(1,), (1, 3), (3, 1), (2, 1, 2)], ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_large_arrays_have_the_bits_of_one_request(connect, server, shape, options):
    axis = shape.index(1)
    sizes = [LONG[-1] if d == axis else size for d, size in enumerate(shape)]
    one = connect(server.url, part_bytes=1 << 40)
    for name, x in arrays(tuple(sizes)).items():
        expected = one.cumsum(x, axis, offsets=LONG, **options)
        for part_bytes in (1, 1000, 4096):
            if part_bytes == 1 and (name != "int8" or len(shape) > 1):
                # parts of one byte: one request per element takes too long for most arrays
                continue
            told = []
            cut = connect(server.url, part_bytes=part_bytes)
            sums = cut.cumsum(
                x, axis, offsets=LONG, progress=lambda *so_far: told.append(so_far), **options
            )
            assert same(sums, expected), name
            assert len(told) > 1 and told[-1][0] == told[-1][1]


@pytest.mark.parametrize("part_bytes", [1000, 1 << 16])
def test_large_groups_have_the_bits_of_one_request(connect, server, part_bytes):
    keys = rng.integers(0, 40, 5000) ** 2 // 100
    one, cut = connect(server.url), connect(server.url, part_bytes=part_bytes)
    for x in arrays((5000, 2)).values():
        for options in ({}, {"reverse": True, "initial": None, "nan": "skip"}):
            expected = one.cumsum(x, 0, groups=keys, **options)
            assert same(cut.cumsum(x, 0, groups=keys, **options), expected)
            mirrored = np.ascontiguousarray(x.T)
            assert same(cut.cumsum(mirrored, 1, groups=keys, **options), expected.T)


def test_a_single_element_is_no_larger_than_a_part(connect, server):
    cut = connect(server.url, part_bytes=1)
    assert cut.cumsum([7], offsets=[0, 0, 1], include_initial=True).tolist() == [0, 0, 7]
    assert cut.cumsum([[7, 8]], 0, offsets=[0, 1], initial=1).tolist() == [[8, 9]]


# ---- refused ----


@pytest.mark.parametrize(
    ("field", "words", "options"),
    [
        ("offsets", "offsets is empty", {"offsets": []}),
        ("offsets", r"offsets\[0\] is 1, expected 0", {"offsets": [1, 5]}),
        ("offsets", r"offsets\[0\] is -1, expected 0", {"offsets": [-1, 5]}),
        ("offsets", r"offsets\[2\] is 2, less than .* before it, 3", {"offsets": [0, 3, 2, 5]}),
        ("offsets", r"offsets\[1\], the last one, is 4, .* axis, 5", {"offsets": [0, 4]}),
        ("offsets", r"offsets\[1\], the last one, is 9", {"offsets": [0, 9]}),
        ("offsets", "is 18446744073709551615", {"offsets": np.array([0, 2**64 - 1], "u8")}),
        ("offsets", "type float64 and 1 dimensions", {"offsets": [0, 5.0]}),
        ("offsets", "type bool and 1 dimensions", {"offsets": [False, True]}),
        ("offsets", "type object and 1 dimensions", {"offsets": [0, 2**70]}),
        ("offsets", "and 2 dimensions, expected integers", {"offsets": [[0, 5]]}),
        ("offsets", "and 2 dimensions", {"offsets": [[0], [1, 5]]}),
        ("offsets", "and 0 dimensions", {"offsets": 5}),
        ("groups", r"shape \(4,\), expected \(5,\)", {"groups": [1, 1, 2, 2]}),
        ("groups", r"shape \(1, 5\), expected \(5,\)", {"groups": [[1, 1, 2, 2, 2]]}),
        ("groups", r"shape \(\), expected", {"groups": [[1], [1, 2]]}),
        ("groups", r"groups\[3\] is nan, which is in no group", {"groups": [1, 1, 2, np.nan, 0]}),
        ("groups", r"groups\[0\] is NaT", {"groups": np.array(["NaT"] * 5, "M8[D]")}),
        ("groups", "cannot be sorted", {"groups": ["a", None, "a", None, "b"]}),
        ("groups", "cannot be sorted", {"groups": np.array([1, pandas.NA, 1, 1, 2])}),
        ("groups", "masked array", {"groups": np.ma.masked_equal([1, 1, 2, 2, 2], 1)}),
        ("groups", "offsets and groups", {"offsets": [0, 5], "groups": [1] * 5}),
        ("include_initial", "has no place", {"groups": [1] * 5, "include_initial": True}),
    ],
)
def test_what_cannot_be_is_refused_here(connect, field, words, options):
    with pytest.raises(tally.InvalidArgument, match=words) as caught:
        connect("http://127.0.0.1:9").cumsum(np.arange(5), 0, **options)
    assert caught.value.field == field


def test_offsets_belong_to_the_axis(connect):
    client = connect("http://127.0.0.1:9")
    with pytest.raises(tally.InvalidArgument, match="expected the size of the axis, 3"):
        client.cumsum(np.ones((2, 3)), 1, offsets=[0, 2])
    with pytest.raises(tally.InvalidArgument, match="expected the size of the axis, 6"):
        client.cumsum(np.ones((2, 3)), offsets=[0, 3])
    with pytest.raises(tally.InvalidArgument, match="axis 2 of an array"):
        client.cumsum(np.ones((2, 3)), 2, offsets=[0, 3])


def test_offsets_that_the_caller_changes_later_were_copied():
    offsets = np.array([0, 2, 5])
    found = segments_of(5, offsets, None)
    offsets[:] = 9
    assert found.offsets.tolist() == [0, 2, 5]
