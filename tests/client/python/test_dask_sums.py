"""tally.dask treats types of sums, NaN, initial values, times and complex numbers as the client
does, for any chunks. xarray's cumulative sums use it."""

import itertools
import warnings

import numpy as np
import pytest
import tally

rng = np.random.default_rng(19)
CHUNKS = [(2, 300), ((1, 4), (0, 256, 0, 444)), (5, 700)]


@pytest.fixture(autouse=True)
def threads_alone():
    """Run dask on two threads. dask is imported here and not at the top of the file, since
    every test process imports all test files."""
    global da
    import dask
    import dask.array as da
    import tally.dask  # noqa: F401

    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.fixture
def one(server):
    """A client that sends every array in one request."""
    with tally.Client(server.url, part_bytes=1 << 40) as client:
        yield client


def arrays():
    floats = rng.standard_normal((5, 700))
    floats[rng.random(floats.shape) < 0.1] = np.nan
    times = rng.integers(-9, 9, (5, 700)).astype("m8[s]")
    times[rng.random(times.shape) < 0.1] = "NaT"
    return {
        "bool": floats < 0,
        "int8": rng.integers(-128, 128, (5, 700), "int8"),
        "uint16": rng.integers(0, 1 << 16, (5, 700), "uint16"),
        "swapped": floats.astype(">f4"),
        "float32": floats.astype("float32"),
        "float64": floats,
        "complex64": (floats + 1j * floats[::-1]).astype("c8"),
        "times": times,
    }


def is_right(sums, expected):
    """Whether the dask array has the right type and chunks and computes to `expected`."""
    found, *blocks = da.compute(sums, *sums.to_delayed().reshape(-1))
    assert [block.shape for block in blocks] == list(itertools.product(*sums.chunks))
    return (
        sums.dtype == found.dtype == expected.dtype
        and found.shape == expected.shape
        and found.tobytes() == expected.tobytes()
    )


@pytest.mark.parametrize("kind", arrays())
@pytest.mark.parametrize("reverse", [False, True])
def test_sums_are_those_of_the_client_whatever_the_chunks(server, one, kind, reverse):
    x = arrays()[kind]
    initial = {"times": np.timedelta64(9, "s"), "complex64": 2 - 1j}.get(kind, 7)
    for options in (
        {},
        {"nan": "skip"},
        {"nan": "zero", "exclusive": True},
        {"initial": initial, "include_initial": True, "nan": "skip"},
        {"include_initial": True},
        {"initial": initial},
    ):
        for axis in (0, 1):
            expected = one.cumsum(x, axis, reverse=reverse, **options)
            for chunks in CHUNKS:
                d = da.from_array(x, chunks=chunks)
                sums = tally.dask.cumsum(d, axis, reverse=reverse, urls=server.url, **options)
                assert is_right(sums, expected), (options, axis, chunks)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        *(("int8", dtype) for dtype in ("int8", "uint64", "int16", "float64", "float32")),
        *(("bool", dtype) for dtype in ("uint8", "float16", "float64")),
        *(("float32", "float64"), ("complex64", "complex128")),
    ],
)
def test_types_are_those_of_the_client(server, one, kind, dtype):
    x = arrays()[kind]
    for chunks in CHUNKS:
        sums = tally.dask.cumsum(da.from_array(x, chunks=chunks), 1, dtype=dtype, urls=server.url)
        assert is_right(sums, one.cumsum(x, 1, dtype=dtype))


def test_integers_as_floats_are_judged_by_their_type(server):
    d = da.ones(1 << 10, chunks=100, dtype="int32")
    assert tally.dask.cumsum(d, dtype="float64", urls=server.url).compute()[-1] == 1 << 10
    for wide, dtype in (("int32", "float32"), ("int64", "float64")):
        with pytest.raises(tally.InvalidArgument, match="may exceed 2"):
            tally.dask.cumsum(d.astype(wide), dtype=dtype)


def test_floats_that_an_integer_type_does_not_hold_are_named_by_the_worker(server):
    d = da.from_array(np.array([1.5, 2.5, np.nan, 1]), chunks=2)
    assert tally.dask.cumsum(d[:2], dtype="int64", urls=server.url).compute().tolist() == [1, 3]
    with pytest.raises(tally.InvalidArgument, match=r"x\[0\] is nan, which int64"):
        tally.dask.cumsum(d, dtype="int64", urls=server.url).compute()


def test_an_axis_without_elements_has_the_initial_value(server):
    for chunks in (((0,),), ((0, 0),)):
        d = da.zeros(0, chunks=chunks, dtype="float32")
        for reverse in (False, True):
            sums = tally.dask.cumsum(
                d, 0, initial=2.5, include_initial=True, reverse=reverse, urls=server.url
            )
            assert sums.compute().tolist() == [2.5]


def test_narrow_integers_are_summed_without_a_warning(server):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sums = tally.dask.cumsum(da.ones(300, chunks=100, dtype="uint8"), urls=server.url)
        assert sums.dtype == np.uint64 and sums.compute()[-1] == 300


@pytest.mark.parametrize(
    ("words", "x", "options"),
    [
        ("points in time", np.array(["2024-01-01"], "M8[s]"), {}),
        ("x.real and x.imag", np.ones(3, "c8"), {"dtype": "float64"}),
        ("does not hold all values of float64", np.ones(3), {"dtype": "float32"}),
        ("expected an integer", np.arange(3), {"initial": 1.5}),
        ("expected a number", np.ones(3, "c8"), {"initial": "1"}),
        ("both True", np.arange(3), {"include_initial": True, "exclusive": True}),
        ("nan is 'ignore'", np.ones(3), {"nan": "ignore"}),
        ("skipna is 1", np.ones(3), {"skipna": 1}),
        (r"offsets\[1\], the last one, is 2", np.ones(3), {"offsets": [0, 2]}),
        ("has no place", np.ones(3), {"groups": [1, 1, 2], "include_initial": True}),
        ("skipna and nan are both given", np.ones(3), {"skipna": True, "nan": "skip"}),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_asked_for(words, x, options):
    with pytest.raises(tally.InvalidArgument, match=words):
        tally.dask.cumsum(da.from_array(x, chunks=2), 0, **options)


# ---- segments ----

OFFSETS = [0, 0, 3, 300, 300, 699, 700]


@pytest.mark.parametrize("kind", arrays())
def test_segments_and_groups_are_those_of_the_client(server, one, kind):
    x, keys = arrays()[kind], rng.integers(0, 9, 700)
    initial = {"times": np.timedelta64(9, "s"), "complex64": 2 - 1j}.get(kind, 7)
    for options in (
        {"offsets": OFFSETS},
        {"offsets": OFFSETS, "include_initial": True, "initial": initial, "nan": "skip"},
        {"offsets": OFFSETS, "include_initial": True, "reverse": True},
        {"groups": keys, "nan": "skip", "exclusive": True},
        {"groups": np.sort(keys).tolist(), "initial": initial},
    ):
        d = da.from_array(x, chunks=(2, 700))
        sums = tally.dask.cumsum(d, 1, urls=server.url, **options)
        assert is_right(sums, one.cumsum(x, 1, **options))
    flat = np.ascontiguousarray(x[0])
    sums = tally.dask.cumsum(da.from_array(flat, chunks=700), urls=server.url, offsets=OFFSETS)
    assert is_right(sums, one.cumsum(flat, offsets=OFFSETS))


def test_sums_of_other_segments_have_another_name():
    d = da.ones((2, 6), chunks=(1, 6))
    options = [{}, {"offsets": [0, 6]}, {"offsets": [0, 3, 6]}, {"groups": [0] * 6}]
    options += [{"groups": [0] * 5 + [1]}]
    assert len({tally.dask.cumsum(d, 1, **one).name for one in options}) == len(options)


@pytest.mark.parametrize("options", [{"offsets": OFFSETS}, {"groups": [1] * 700}], ids=str)
@pytest.mark.parametrize("kind", ["float32", "complex64"])
def test_an_axis_with_segments_is_one_chunk(kind, options):
    d = da.from_array(arrays()[kind], chunks=(5, 300))
    with pytest.raises(
        tally.InvalidArgument, match=r"3 chunks, .*: d.rechunk\({1: -1}\)"
    ) as caught:
        tally.dask.cumsum(d, -1, **options)
    assert caught.value.field == "d"


def test_groups_of_xarray_are_those_of_pandas(server):
    import pandas
    import xarray

    days = pandas.date_range("2020-10-01", periods=700)
    x = rng.integers(-9, 9, (5, 700)).astype(float)
    array = xarray.DataArray(x, dims=("place", "time"), coords={"time": days})
    sums = array.chunk({"place": 2}).reduce(
        tally.dask.cumsum, "time", groups=array.time.dt.month, urls=server.url
    )
    assert isinstance(sums.data, da.Array) and sums.dims == array.dims
    expected = pandas.DataFrame(x.T).groupby(days.month).cumsum().to_numpy().T
    assert np.array_equal(sums.values, expected)


@pytest.mark.parametrize("skipna", [True, False])
def test_a_reduction_of_xarray_passes_skipna_on(server, skipna):
    import xarray

    x = rng.integers(-9, 9, (5, 700)).astype(float)
    x[rng.random(x.shape) < 0.1] = np.nan
    array = xarray.DataArray(x, dims=("place", "time")).chunk({"place": 2, "time": 300})
    sums = array.reduce(tally.dask.cumsum, "time", skipna=skipna, urls=server.url)
    assert isinstance(sums.data, da.Array) and sums.dims == array.dims
    expected = xarray.DataArray(x, dims=array.dims).cumsum("time", skipna=skipna)
    assert np.array_equal(sums.values, expected.values, equal_nan=True)
