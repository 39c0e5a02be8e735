"""Sums of tally.dask have the same bits as the sums of one request, for any chunks, and a
worker holds few chunks at a time."""

import threading
import weakref

import ml_dtypes
import numpy as np
import pytest
import tally

SIZE = 131772
TYPES = [
    *("float16", ml_dtypes.bfloat16, "float32", "float64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
]
FLAGS = [
    {"exclusive": exclusive, "reverse": reverse}
    for exclusive, reverse in ((False, False), (True, True), (False, True), (True, False))
]
rng = np.random.default_rng(18)


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


def same(left, right):
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and left.tobytes() == right.tobytes()
    )


def random_array(shape, dtype="float32"):
    return (rng.standard_normal(shape) * 100).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_however_an_array_is_cut_the_bits_are_those_of_one_request(server, one, dtype):
    x = random_array((3, SIZE), dtype)
    for number, flags in enumerate(FLAGS):
        flags = {**flags, "dtype": x.dtype}
        expected = one.cumsum(x, 1, **flags)
        cuts = [
            (2, (65536, 0, 65536, 700)),
            ((1, 0, 2), (0, 1, 255, 0, 257, 65535, SIZE - 66048)),
            (1, -1),
        ]
        for chunks in cuts[number % 2 :]:
            d = da.from_array(x, chunks=chunks)
            sums = tally.dask.cumsum(d, -1, urls=server.url, **flags)
            assert sums.chunks == d.chunks and sums.dtype == x.dtype
            assert same(sums.compute(), expected), (flags, chunks)


def test_axes_between_others_and_layouts_that_are_not_packed(server, one):
    x = random_array((3, 65545, 2)).swapaxes(0, 2)
    expected = one.cumsum(x, 1)
    for chunks in ((1, 65536, 2), (2, 30000, 1), (1, -1, -1)):
        d = da.from_array(x, chunks=chunks)
        assert same(tally.dask.cumsum(d, 1, urls=server.url).compute(), expected)
        both = tally.dask.cumsum(d, 1, urls=server.url), d.rechunk((2, 50000, 3))
        assert same(both[0].compute(), expected)
        assert same(tally.dask.cumsum(both[1], 1, urls=server.url).compute(), expected)


def test_infinities_and_nans_pass_from_chunk_to_chunk_as_within_one(server, one):
    for found in ([np.inf, -np.inf], [np.nan], [-np.nan, np.inf], [3e38, 3e38, -np.inf]):
        x = np.full(131077, -0.0, np.float32)
        x[: len(found)] = found
        expected = one.cumsum(x, 0)
        for chunks in (65536, 50000, (1, 1, 1, 131074)):
            d = da.from_array(x, chunks=(chunks,))
            sums = tally.dask.cumsum(d, 0, urls=server.url)
            assert same(sums.compute(), expected), (found, chunks)


def test_the_advice_for_a_masked_array_leaves_masked_elements_out(server):
    d = da.ma.masked_equal(da.from_array(np.arange(4), chunks=2), 2)
    with pytest.raises(tally.InvalidArgument, match=r"da.ma.filled\(d, 0\)"):
        tally.dask.cumsum(d, urls=server.url)
    sums = tally.dask.cumsum(da.ma.filled(d, 0), urls=server.url).compute()
    assert sums.tolist() == [0, 1, 1, 4]


def test_no_axis_flattens_and_arrays_may_be_empty_or_scalars(server, one):
    x = random_array((4, 30, 7))
    sums = tally.dask.cumsum(da.from_array(x, chunks=(1, 10, 3)), urls=server.url)
    assert same(sums.compute(), one.cumsum(x))
    assert same(
        tally.dask.cumsum(da.from_array(x[0, 0, 0]), urls=server.url).compute(), x[0, 0, :1]
    )
    for shape, axis in (((0,), 0), ((3, 0, 5), 0), ((3, 0, 5), 1)):
        empty = da.ones(shape, chunks=2, dtype="float32")
        found = tally.dask.cumsum(empty, axis, urls=server.url).compute()
        assert same(found, np.empty(shape, np.float32))


@pytest.mark.parametrize("chunks", [((0, 0), (2, 2)), ((2, 2), (0,)), ((4,), (0, 0))])
def test_an_array_without_elements_is_flattened_whatever_its_chunks(server, chunks):
    d = da.zeros([sum(sizes) for sizes in chunks], dtype=np.int8, chunks=chunks)
    sums = tally.dask.cumsum(d, urls=server.url).compute()
    assert (sums.shape, sums.dtype) == ((0,), np.int64)


def test_dimensions_of_unknown_size_are_no_matter_but_along_the_axis(server, one):
    x = random_array((6, 900))
    d = da.from_array(x, chunks=(2, 256))
    some = d[d[:, 0] > np.sort(x[:, 0])[2]]
    expected = one.cumsum(some.compute(), 1)
    assert same(tally.dask.cumsum(some, 1, urls=server.url).compute(), expected)
    for axis in (0, None):
        with pytest.raises(tally.InvalidArgument, match="compute_chunk_sizes"):
            tally.dask.cumsum(some, axis, urls=server.url)
    known = some.copy()
    known.compute_chunk_sizes()
    sums = tally.dask.cumsum(known, 0, urls=server.url)
    assert same(sums.compute(), one.cumsum(some.compute(), 0))


@pytest.mark.parametrize(
    "words, arguments",
    [
        ("expected a dask array", {"d": lambda: np.ones(3)}),
        ("MaskedArray", {"d": lambda: da.ma.masked_equal(da.ones(3), 1)}),
        ("clongdouble|complex256", {"d": lambda: da.ones(3, dtype=np.clongdouble)}),
        ("axis 1 of an array with 1 dimension", {"axis": 1}),
        ("axis is 'x'", {"axis": "x"}),
        ("exclusive is 2", {"exclusive": 2}),
        ("urls is empty", {"urls": []}),
        ("scheme must be", {"urls": ["http://here:1", "ftp://there"]}),
        ("options has 'tokn'; known are ca_file", {"options": {"tokn": "x"}}),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_computed(words, arguments):
    arguments = {"d": lambda: da.ones(3), "axis": 0, **arguments}
    d = arguments.pop("d")()
    with pytest.raises(tally.InvalidArgument, match=words):
        tally.dask.cumsum(d, **arguments)


def test_totals_of_chunks_wait_for_nothing_and_whole_lines_need_none(server):
    def graph_of(d, **arguments):
        return tally.dask.cumsum(d, 0, urls=server.url, **arguments).dask

    def kinds(graph):
        return {key[0].split("-")[1] for key in graph if key[0].startswith("tally-")}

    x = da.ones(200000, chunks=30001, dtype="float32")
    for flags in FLAGS:
        graph = graph_of(x, **flags)
        assert kinds(graph) == {"cumsum", "totals", "fold"}
        waits_for = {
            kind: {
                other[0].split("-")[1]
                for key, task in graph.items()
                if key[0].startswith(f"tally-{kind}")
                for other in task.dependencies
                if other[0].startswith("tally-")
            }
            for kind in ("cumsum", "totals", "fold")
        }
        assert waits_for == {"cumsum": {"fold"}, "totals": set(), "fold": {"totals", "fold"}}
    assert kinds(graph_of(x.rechunk(-1))) == {"cumsum"}


class Made:
    """Counts the arrays that exist at the same time."""

    def __init__(self):
        self.lock = threading.Lock()
        self.now = self.most = 0

    def add(self, array):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        weakref.finalize(array, self.gone)

    def gone(self):
        with self.lock:
            self.now -= 1


def test_no_more_blocks_are_there_at_a_time_than_threads_work_on(server):
    made, stored = Made(), Made()

    def make(block_info=None):
        block = np.ones(block_info[None]["chunk-shape"], np.float32)
        made.add(block)
        return block

    class Target:
        shape, dtype = (4, 24 * 60000), np.dtype(np.float32)

        def __setitem__(self, index, sums):
            stored.add(sums)

    chunks = ((2, 2), (60000,) * 24)
    d = da.map_blocks(make, chunks=chunks, dtype=np.float32, meta=np.empty((0, 0), np.float32))
    sums = tally.dask.cumsum(d, 1, urls=server.url)
    da.store(sums, Target(), lock=False)
    assert stored.now == made.now == 0
    assert 1 <= made.most <= 2 and 1 <= stored.most <= 4


def test_xarray_and_zarr(server, one, tmp_path):
    import xarray

    x = random_array((40, 700))
    da.from_array(x, chunks=(20, 256)).to_zarr(tmp_path / "in.zarr")
    read = da.from_zarr(tmp_path / "in.zarr")
    tally.dask.cumsum(read, 0, urls=server.url).to_zarr(tmp_path / "out.zarr")
    assert same(da.from_zarr(tmp_path / "out.zarr").compute(), one.cumsum(x, 0))
    array = xarray.DataArray(read, dims=("time", "place"), coords={"place": range(700)})
    sums = xarray.apply_ufunc(
        tally.dask.cumsum,
        array,
        kwargs={"axis": -1, "reverse": True, "urls": server.url},
        input_core_dims=[["time"]],
        output_core_dims=[["time"]],
        dask="allowed",
    ).transpose(*array.dims)
    assert sums.dims == array.dims and sums.coords.equals(array.coords)
    assert isinstance(sums.data, da.Array)
    assert same(np.ascontiguousarray(sums.values), one.cumsum(x, 0, reverse=True))
