"""Types of sums, NaN, initial values, times and complex numbers, compared with NumPy and pandas."""

import datetime
import itertools

import ml_dtypes
import numpy as np
import pandas
import pytest
import tally
from support import dtypes

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
rng = np.random.default_rng(5)


@pytest.fixture(params=[False, True], ids=["wire", "shm"])
def client(connect, server, request):
    return connect(server.url, shm=request.param)


def same(left, right):
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and np.array_equal(left, right, equal_nan=left.dtype.kind in "fcmV")
    )


def integers_of(name, shape=(3, 40)):
    if name == "bool":
        return rng.random(shape) < 0.5
    info = np.iinfo(name)
    return rng.integers(info.min, info.max, shape, name, endpoint=True)


@pytest.mark.parametrize("name", ["bool", *INTEGERS])
def test_integers_and_booleans_have_the_sums_of_numpy(client, name):
    x = integers_of(name)
    for axis in (None, 0, 1):
        assert same(client.cumsum(x, axis), np.cumsum(x, axis))
        for dtype in INTEGERS:
            assert same(client.cumsum(x, axis, dtype=dtype), np.cumsum(x, axis, dtype))


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "bfloat16"])
def test_floats_keep_their_type_and_are_widened(client, name):
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    # The values are so small that even NumPy rounds no sum.
    x = rng.integers(-8, 8, (3, 5)).astype(dtype)
    assert same(client.cumsum(x, 1), np.cumsum(x, 1))
    for wide in ("float32", "float64"):
        if np.can_cast(dtype, wide):
            assert same(client.cumsum(x, 1, dtype=wide), np.cumsum(x, 1, wide))


def test_float64_sums_of_float32_are_those_of_the_widened_elements(client):
    x = np.array([1, 2**-30, 2**-30], np.float32)
    assert client.cumsum(x, dtype=float).tolist() == [1, 1 + 2**-30, 1 + 2**-29]
    assert client.cumsum(x).tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_floats_are_truncated_to_integers_as_numpy_does(client, name, dtype):
    x = np.array([[1.75, 0.5, 99.0], [-0.75, 2.0, 3.25]])
    x = x.astype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    assert same(client.cumsum(x, 1, dtype=dtype), np.cumsum(x, 1, dtype))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(np.nan, "int64"), (np.inf, "int8"), (-1.0, "uint8"), (128.5, "int8"), (2.0**63, "int64")],
)
def test_floats_that_an_integer_type_does_not_hold_are_named(client, value, dtype):
    x = np.array([[1.0, 2.0], [value, 3.0]])
    with pytest.raises(tally.InvalidArgument, match=rf"x\[1, 0\] is .*, which {dtype}") as caught:
        client.cumsum(x, 0, dtype=dtype)
    assert caught.value.field == "x"


@pytest.mark.parametrize(("dtype", "bits"), [("float16", 11), ("float32", 24), ("float64", 53)])
def test_integers_become_floats_where_no_sum_is_rounded(client, dtype, bits):
    x = np.array([2 ** (bits - 1), 2 ** (bits - 1)], np.int64)
    assert same(client.cumsum(x, dtype=dtype), np.cumsum(x, dtype=dtype))
    assert same(client.cumsum(x > 0, dtype=dtype), np.cumsum(x > 0, dtype=dtype))
    with pytest.raises(tally.InvalidArgument, match=f"may exceed 2\\^{bits}") as caught:
        client.cumsum(x + 1, dtype=dtype)
    assert caught.value.field == "dtype"


@pytest.mark.parametrize(
    ("came", "dtype"),
    [("float64", "float32"), ("float32", "float16"), ("float64", "bfloat16"), ("c16", "c8")],
)
def test_sums_that_numpy_would_round_on_the_way_are_refused(client, came, dtype):
    x = np.ones(3, came)
    with pytest.raises(tally.InvalidArgument, match="leave dtype out and convert") as caught:
        client.cumsum(x, dtype=dtype)
    assert caught.value.field == "dtype"


def test_an_output_has_the_type_of_the_sums(client):
    x = np.full((2, 300), 1, np.uint8)
    out = np.zeros((300, 2), ">u8").T
    assert client.cumsum(x, 1, out=out) is out and (out == np.cumsum(x, 1)).all()
    with pytest.raises(tally.InvalidArgument, match="out has elements of type uint8"):
        client.cumsum(x, 1, out=x)
    assert client.cumsum(x, 1, dtype="uint8", out=x) is x and x[1, -1] == 300 % 256


# ---- NaN ----

WITH_NAN = np.array([[1, np.nan, 2, -0.5], [np.nan, np.nan, 4, np.inf]])


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_nan_counts_as_numpy_or_pandas_do(client, name, axis):
    x = WITH_NAN.astype(name)
    assert same(client.cumsum(x, axis), np.cumsum(x, axis))
    assert same(client.cumsum(x, axis, nan="propagate"), np.cumsum(x, axis))
    assert same(client.cumsum(x, axis, nan="zero"), np.nancumsum(x, axis))
    series = x.reshape(-1) if axis is None else x
    expected = pandas.DataFrame(series).cumsum(axis or 0).to_numpy().reshape(series.shape)
    assert same(client.cumsum(x, axis, nan="skip"), expected)


def test_integers_have_no_nan(client):
    assert client.cumsum(np.arange(3), nan="skip").tolist() == [0, 1, 3]


# ---- initial values ----


@pytest.mark.parametrize("name", ["bool", "int8", "uint32", "float32", "float64"])
def test_an_initial_value_counts_before_the_first_element(client, name):
    x = integers_of("int8", (4, 6)).astype(name)
    for axis, initial in itertools.product((0, 1), (7, np.int8(-3), 0)):
        if initial < 0 and name == "uint32":
            continue
        front = np.full_like(np.cumsum(x, axis), initial).take([0], axis)
        expected = np.cumsum(np.concatenate([front, x], axis), axis, front.dtype)
        behind = expected[1:] if axis == 0 else expected[:, 1:]
        before = expected[:-1] if axis == 0 else expected[:, :-1]
        assert same(client.cumsum(x, axis, initial=initial), behind)
        assert same(client.cumsum(x, axis, initial=initial, exclusive=True), before)
        with_first = client.cumsum(x, axis, initial=initial, include_initial=True)
        assert same(with_first, expected)


def test_a_reversed_sum_begins_at_the_end(client):
    x = np.array([[1, 2, 3]])
    sums = client.cumsum(x, 1, reverse=True, initial=10, include_initial=True)
    assert sums.tolist() == [[16, 15, 13, 10]]


@pytest.mark.parametrize("initial", [0.1, -2.5e-20, 1e20, np.float32(0.1), np.array(3.0), 2**70])
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_an_initial_value_is_rounded_once(client, name, initial):
    sums = client.cumsum(np.zeros(1, name), initial=initial)
    assert sums[0] == np.array(float(initial)).astype(name)


@pytest.mark.parametrize("initial", [np.nan, np.inf, -np.inf])
def test_an_initial_value_need_not_be_finite(client, initial):
    sums = client.cumsum(np.ones(2), initial=initial, include_initial=True)
    assert np.array_equal(sums, np.full(3, initial), equal_nan=True)


@pytest.mark.parametrize(
    ("field", "x", "options"),
    [
        ("initial", [1], {"initial": 1.0}),
        ("initial", [1], {"initial": "1"}),
        ("initial", [1], {"initial": 2**63}),
        ("initial", [1.0], {"initial": 1j}),
        ("initial", [1.0], {"initial": 10**400}),
        ("initial", [1.0], {"initial": [1]}),
        ("initial", np.ones(1, np.float32), {"initial": 1e39}),
        ("initial", [1j], {"initial": "1"}),
        ("initial", np.ones(1, "m8[s]"), {"initial": 5}),
        ("initial", np.ones(1, "m8[s]"), {"initial": np.timedelta64(5, "ms")}),
        ("initial", np.ones(1, "m8[s]"), {"initial": np.timedelta64("NaT")}),
        ("include_initial", [1], {"include_initial": 1}),
        ("include_initial", [1], {"include_initial": True, "exclusive": True}),
        ("nan", [1.0], {"nan": "ignore"}),
        ("nan", [1.0], {"nan": True}),
        ("nan", np.ones(1, "m8[s]"), {"nan": "propagate"}),
        ("dtype", np.ones(1, "m8[s]"), {"dtype": "int64"}),
        ("dtype", np.ones(1, "m8[s]"), {"dtype": "m8[ms]"}),
        ("x", np.array(["2024-01-01"], "M8[D]"), {}),
        ("x", [1j], {"dtype": "float64"}),
        ("out", [1], {"include_initial": True, "out": np.zeros(1, np.int64)}),
        ("out", [1j], {"out": np.zeros(1)}),
        ("out", np.ones(1, "m8[s]"), {"out": np.zeros(1, "m8[ms]")}),
    ],
)
def test_what_cannot_be_is_refused_here(connect, field, x, options):
    with pytest.raises(tally.InvalidArgument) as caught:
        connect("http://127.0.0.1:1").cumsum(x, 0, **options)
    assert caught.value.field == field


# ---- in parts ----


@pytest.mark.parametrize("name", ["bool", "int16", "float32"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_large_arrays_have_the_bits_of_one_request(connect, server, name, axis, reverse):
    whole, cut = connect(server.url), connect(server.url, part_bytes=4096)
    x = integers_of("int8", (300, 90)).astype(name)
    if name == "float32":
        x[rng.random(x.shape) < 0.1] = np.nan
    options = {"reverse": reverse, "nan": "skip", "initial": 3, "include_initial": True}
    for given in (x, np.asfortranarray(x)):
        expected = whole.cumsum(given, axis, **options)
        assert same(cut.cumsum(given, axis, **options), expected)
        memory = np.zeros(x.size * 2 + 1000, expected.dtype)
        source = memory.view(x.dtype)[: x.size].reshape(x.shape)  # the output overlaps the input
        source[...] = x
        out = memory[: expected.size].reshape(expected.shape)
        assert same(cut.cumsum(source, axis, out=out, **options), expected)


@pytest.mark.parametrize("reverse", [False, True])
def test_sums_in_parts_take_the_initial_value_once(server, reverse):
    x = WITH_NAN.astype(np.float32)
    options = {"reverse": reverse, "nan": "skip", "initial": 0.5}
    with tally.Client(server.url) as client:
        expected = client.cumsum(x, 1, dtype=float, include_initial=True, **options)
        parts = client.parts(1, include_initial=True, **options)
        windows = [x[:, :1], x[:, 1:2], x[:, 2:]][:: -1 if reverse else 1]
        sums = [parts.cumsum(window, dtype=float) for window in windows]
        assert same(np.concatenate(sums[:: -1 if reverse else 1], 1), expected)
        before = client.totals(windows[0], 1, dtype=float, **options)
        before += client.totals(windows[1], 1, dtype=float, reverse=reverse, nan="skip")
        behind = client.parts(1, reverse=reverse, nan="skip", carry=before)
        assert same(behind.cumsum(windows[2], dtype=float), sums[2])
        for wrong in ({"initial": 1.0}, {"include_initial": True}):
            with pytest.raises(tally.InvalidArgument, match="belong to the first part"):
                client.parts(1, carry=before, **wrong)
        with pytest.raises(tally.InvalidArgument, match=r"x.real and x.imag"):
            client.parts(0).cumsum([1j])


# ---- times and complex numbers ----

TIMES = np.array([[1, "NaT", 3, 4], ["NaT", 6, 7, "NaT"]], "m8[s]")


@pytest.mark.parametrize("kind", ["m8[s]", ">m8[s]", "m8[ns]"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_nat_is_skipped_as_pandas_does(client, kind, axis):
    x = TIMES.astype(kind)
    series = x.reshape(-1) if axis is None else x
    rows = series if axis in (None, 0) else series.T
    columns = rows.reshape(len(rows), -1).T
    expected = np.stack([pandas.Series(one.astype("m8[s]")).cumsum().to_numpy() for one in columns])
    expected = expected.reshape(-1) if axis is None else expected if axis == 1 else expected.T
    sums = client.cumsum(x, axis)
    assert same(sums, expected.astype(kind.lstrip(">")))
    assert same(client.cumsum(x, axis, dtype=x.dtype), sums)
    filled = np.where(np.isnat(series), np.timedelta64(0, "s"), series)
    assert same(client.cumsum(x, axis, nan="zero"), np.cumsum(filled, axis or 0).astype(sums.dtype))


def test_times_have_all_of_the_attributes(client):
    x = TIMES[0]
    for initial in (np.timedelta64(10, "s"), datetime.timedelta(seconds=10)):
        sums = client.cumsum(x, initial=initial, include_initial=True)
        assert same(sums, np.array([10, 11, "NaT", 14, 18], "m8[s]"))
        back = client.cumsum(x, initial=initial, include_initial=True, reverse=True)
        assert same(back, np.array([18, "NaT", 17, 14, 10], "m8[s]"))
    for kind in ("m8[s]", ">m8[s]"):
        both = np.array([1, "NaT", 3], kind)
        assert client.cumsum(both, out=both) is both
        assert same(both.astype("m8[s]"), np.array([1, "NaT", 4], "m8[s]"))


def test_parts_of_times_go_to_outputs_of_any_layout(server):
    with tally.Client(server.url) as client:
        parts = client.parts(1, initial=np.timedelta64(1, "s"))
        for kind, expected in (
            ("m8[s]", [[2, "NaT", 5, 9], ["NaT", 7, 14, "NaT"]]),
            (">m8[s]", [[10, "NaT", 13, 17], ["NaT", 20, 27, "NaT"]]),
        ):
            out = np.zeros((4, 2), kind).T
            assert parts.cumsum(TIMES, out=out) is out
            assert same(out.astype("m8[s]", order="C"), np.array(expected, "m8[s]"))


def test_times_are_summed_in_parts(connect, server):
    x = np.arange(5000).astype("m8[ms]").reshape(50, 100)
    x[rng.random(x.shape) < 0.2] = "NaT"
    for given in (x, x.T):
        sums = connect(server.url, part_bytes=2048).cumsum(given, 0)
        columns = [pandas.Series(column).cumsum().to_numpy() for column in given.T]
        assert same(sums, np.stack(columns, 1).astype("m8[ms]"))


@pytest.mark.parametrize("kind", ["c8", "c16", ">c16"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_complex_arrays_are_two_sums(client, kind, axis):
    x = (rng.integers(-9, 9, (3, 7)) + 1j * rng.integers(-9, 9, (3, 7))).astype(kind)
    assert same(client.cumsum(x, axis), np.cumsum(x, axis))
    assert same(client.cumsum(x, axis, dtype="c16"), np.cumsum(x, axis, "c16"))
    x[1, 2], x[2, 0] = complex(np.nan, 1), complex(np.inf, 2)
    assert same(client.cumsum(x, axis), np.cumsum(x, axis))
    assert same(client.cumsum(x, axis, nan="zero"), np.nancumsum(x, axis))
    series = x.reshape(-1) if axis is None else x
    expected = np.where(np.isnan(series), np.nan, np.nancumsum(x, axis))
    assert same(client.cumsum(x, axis, nan="skip"), expected.astype(x.dtype.newbyteorder("=")))


def test_complex_sums_have_all_of_the_attributes(client, connect, server):
    x = np.array([1 + 2j, 3 - 1j])
    sums = client.cumsum(x, initial=1 - 1j, include_initial=True)
    assert same(sums, np.cumsum([1 - 1j, *x]))
    done = []
    assert client.cumsum(x, out=x, progress=lambda *both: done.append(both)) is x
    assert x.tolist() == [1 + 2j, 4 + 1j] and done == [(16, 32), (32, 32)]
    square = np.arange(36).reshape(6, 6) * (1 + 2j)
    for out in (square.T, np.zeros((7, 6), complex)[1:]):
        expected, given = np.cumsum(square, 0), square.copy()
        target = given.T if out.base is square else out
        connect(server.url, part_bytes=128).cumsum(given, 0, out=target)
        assert same(np.ascontiguousarray(target), expected)


def test_a_complex_output_may_begin_in_the_middle_of_an_element(client):
    memory = np.arange(20.0)
    x, out = memory[:-2].view(complex), memory[1:-1].view(complex)
    expected = np.cumsum(x)
    assert same(client.cumsum(x, out=out), expected)


def test_a_wider_complex_output_may_begin_where_the_input_begins(client):
    memory = np.zeros(10, complex)
    x = memory.view(np.complex64)[::2]  # each element is at the address of the real part of its sum
    x[...] = np.arange(10) * (1 + 2j)
    expected = np.cumsum(x, dtype=complex)
    assert same(client.cumsum(x, dtype=complex, out=memory), expected)


# ---- the Array API ----


@pytest.fixture
def here(server, monkeypatch):
    monkeypatch.setenv("TALLY_URL", server.url)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_cumulative_sum_is_that_of_the_array_api(here, dtype):
    if dtype.name == "bfloat16":
        dtype_of = np.dtype(ml_dtypes.bfloat16)
    else:
        dtype_of = dtype.storage
    x = rng.integers(0, 4, (2, 5)).astype(dtype_of)
    for include in (False, True):
        for axis in (0, -1):
            sums = tally.cumulative_sum(x, axis=axis, include_initial=include)
            assert same(sums, np.cumulative_sum(x, axis=axis, include_initial=include))
        sums = tally.cumulative_sum(x[0], include_initial=include)
        assert same(sums, np.cumulative_sum(x[0], include_initial=include))


def test_cumulative_sum_of_other_shapes(here):
    for shape, axis in (((0,), None), ((2, 0, 3), 1), ((2, 0, 3), 0), ((0, 2), 1), ((), None)):
        x = np.ones(shape)
        for include in (False, True):
            sums = tally.cumulative_sum(x, axis=axis, include_initial=include)
            assert same(sums, np.cumulative_sum(x, axis=axis, include_initial=include)), shape
    assert same(
        tally.cumulative_sum([1, 2], dtype="float64"), np.cumulative_sum([1, 2], dtype="float64")
    )
    with pytest.raises(tally.InvalidArgument, match="x has 2 dimensions: name the axis") as caught:
        tally.cumulative_sum(np.ones((2, 2)))
    assert caught.value.field == "axis" and isinstance(caught.value, ValueError)
    with pytest.raises(TypeError):
        tally.cumulative_sum(np.ones(2), 0)
