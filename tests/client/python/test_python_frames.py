"""pandas DataFrames and Series: the sums, labels and types of pandas' own cumsum()."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pandas
import pytest
import tally
from lying_server import LyingServer, Told
from pandas.testing import assert_frame_equal, assert_series_equal

NUMPY_TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMPY_TYPES += ["float16", "float32", "float64", "complex64", "complex128"]
MASKED_TYPES = ["boolean", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt64", "Float32"]
MASKED_TYPES += ["Float64"]


@pytest.fixture(params=[False, True], ids=["wire", "shm"])
def client(connect, server, request):
    return connect(server.url, shm=request.param)


def frame_of(dtype):
    return pandas.DataFrame({"a": [1, 0, 1], "b": [0, 1, 1]}, index=["x", "y", "x"]).astype(dtype)


@pytest.mark.parametrize("dtype", NUMPY_TYPES + MASKED_TYPES)
def test_frames_and_series_have_the_sums_labels_and_types_of_pandas(client, dtype):
    x = frame_of(dtype)
    assert_frame_equal(client.cumsum(x), x.cumsum())
    for series in (x["b"], x["b"].rename(None), x["b"].rename(("p", 1))):
        assert_series_equal(client.cumsum(series), series.cumsum())


def test_the_columns_of_a_frame_keep_their_types(client):
    x = pandas.DataFrame(
        {
            "count": np.array([1, 2, 300], np.int16),
            "price": [0.5, np.nan, 1.5],
            "flag": pandas.array([True, None, True], "boolean"),
            "weight": np.array([1, 2, 3], np.float32),
            "more": np.array([4, 5, 6], np.int16),
            "hits": pandas.array([1, None, 3], "UInt8"),
        },
        index=pandas.date_range("2024-01-01", periods=3),
    )
    assert_frame_equal(client.cumsum(x), x.cumsum())


def test_labels_may_be_of_several_levels_and_occur_twice(client):
    columns = pandas.MultiIndex.from_tuples([("a", 1), ("a", 1), ("b", 2)], names=["p", "q"])
    index = pandas.MultiIndex.from_tuples([(1, "x"), (1, "x")], names=["r", "s"])
    x = pandas.DataFrame([[1, 0.5, 2], [3, 1.5, 4]], index=index, columns=columns)
    x.isetitem(2, x.iloc[:, 2].astype("int64"))
    assert_frame_equal(client.cumsum(x), x.cumsum())


@pytest.mark.parametrize("axis", [None, 0, 1, -1, -2, "index", "rows", "columns"])
def test_the_axis_of_a_frame_is_that_of_pandas(client, axis):
    x = pandas.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "c": [1, 2]})
    expected = x.cumsum(axis=axis + 2 if axis in (-1, -2) else axis)
    assert_frame_equal(client.cumsum(x, axis), expected)


def test_nan_is_skipped_by_default_and_counts_as_asked(client):
    x = pandas.Series([1.0, np.nan, 2.0], name="v")
    assert_series_equal(client.cumsum(x), x.cumsum())
    assert_series_equal(client.cumsum(x, nan="propagate"), x.cumsum(skipna=False))
    assert client.cumsum(x, nan="zero").tolist() == [1, 1, 3]
    y = pandas.Series([1, None, 2], dtype="Int8")
    assert client.cumsum(y, nan="zero").tolist() == [1, 1, 3]
    with pytest.raises(tally.InvalidArgument, match="skip pandas.NA") as caught:
        client.cumsum(y, nan="propagate")
    assert caught.value.field == "nan"


def test_times_are_summed_and_nat_is_skipped(client):
    x = pandas.DataFrame({"t": pandas.to_timedelta(["1s", None, "2s"]), "n": [1, 2, 3]})
    sums = client.cumsum(x)
    expected = pandas.DataFrame({"t": pandas.to_timedelta(["1s", None, "3s"]), "n": [1, 3, 6]})
    assert_frame_equal(sums, expected)


def test_options_apply_to_each_column(client):
    x = pandas.DataFrame({"a": [1, 2, 3, 4], "b": [1.0, 2.0, 3.0, 4.0]})
    keys = pandas.Series(["p", "q", "p", "q"])
    assert_frame_equal(client.cumsum(x, groups=keys), x.groupby(keys).cumsum())
    assert client.cumsum(x, offsets=[0, 1, 4])["b"].tolist() == [1, 2, 5, 9]
    assert client.cumsum(x, reverse=True, exclusive=True)["a"].tolist() == [9, 7, 4, 0]
    assert client.cumsum(x["a"], initial=10).tolist() == [11, 13, 16, 20]
    assert client.cumsum(x, dtype="float64").dtypes.tolist() == [np.float64, np.float64]
    assert client.cumsum(x["a"].astype("Int64"), dtype="float64").dtype == "Float64"
    done = []
    client.cumsum(x, progress=lambda *bytes_of: done.append(bytes_of))
    assert done == [(32, 64), (64, 64)]


@pytest.mark.parametrize("x", [pandas.DataFrame(), pandas.DataFrame(index=[1, 2])])
def test_a_frame_without_columns_is_its_own_sum(client, x):
    assert_frame_equal(client.cumsum(x), x.cumsum())


def test_a_frame_without_rows_keeps_its_columns_and_types(client):
    x = frame_of("float32").iloc[:0]
    assert_frame_equal(client.cumsum(x), x.cumsum())


def test_a_large_frame_goes_in_parts(connect, server):
    client = connect(server.url, part_bytes=1 << 12)
    x = pandas.DataFrame(np.arange(6000).reshape(2000, 3), columns=list("abc"))
    x["d"] = np.ones(2000, np.float32)
    assert_frame_equal(client.cumsum(x), x.cumsum())


def test_a_frame_of_one_type_is_one_request(connect):
    def script(seen):
        return Told(b"HTTP/1.1 500 Sorry\r\nContent-Length: 0\r\n\r\n")

    with LyingServer(script) as server:
        with pytest.raises(tally.ServerError):
            connect(server.url).cumsum(pandas.DataFrame(np.ones((3, 4))))
        assert "shape=3,4&axis=0" in server.heads[0] and server.requests == 1


@pytest.mark.parametrize(
    ("field", "words", "x", "options"),
    [
        ("x", "column 'b': elements of type category", {"b": pandas.Categorical([1, 2])}, {}),
        ("x", "column 'b': .* no sum", {"b": pandas.to_datetime(["2024", "2025"])}, {}),
        ("dtype", "columns 'b', 'c': elements of type object", {"b": ["x", "y"], "c": "z"}, {}),
        ("dtype", r"or sum the columns of numbers alone, x.select_dtypes\(", {"b": ["x", "y"]}, {}),
        ("dtype", r"'b', 'c', 'd', \.\.\.: ", dict.fromkeys("bcde", "z"), {}),
        ("axis", "axis is 'z', expected 0, 1, 'index' or 'columns'", {}, {"axis": "z"}),
        ("axis", "axis 2 of", {}, {"axis": 2}),
        ("out", "are a new one", {}, {"out": np.zeros((2, 1))}),
        ("include_initial", "has no label", {}, {"include_initial": True}),
        ("exclusive", "exclusive is 1", {}, {"exclusive": 1}),
    ],
)
def test_what_cannot_be_names_the_columns_and_the_argument(connect, field, words, x, options):
    given = pandas.DataFrame({"a": [1.0, 2.0], **x})
    with pytest.raises(tally.InvalidArgument, match=words) as caught:
        connect("http://127.0.0.1:1").cumsum(given, **options)
    assert caught.value.field == field


def test_the_parts_of_a_stream_may_be_frames(client):
    x = pandas.DataFrame({"a": [1.0, np.nan, 3.0, 4.0], "b": [0.5, 1.5, 2.5, 3.5]}).astype(
        "float32"
    )
    parts = client.parts(axis=0)
    found = [parts.cumsum(x.iloc[:1]), parts.cumsum(x.iloc[1:])]
    assert_frame_equal(pandas.concat(found), x.cumsum())
    parts = client.parts(axis=0)
    found = [parts.cumsum(x["a"].iloc[:3]), parts.cumsum(x["a"].iloc[3:])]
    assert_series_equal(pandas.concat(found), x["a"].cumsum())
    after = client.parts(axis=0, nan="skip", carry=client.totals(x)).cumsum(x)
    assert_frame_equal(after, x.sum() + x.cumsum())
    for given in (x.astype({"a": "float64"}), x["a"].astype("Float64"), pandas.DataFrame()):
        for call in (client.parts(axis=0).cumsum, client.totals):
            with pytest.raises(tally.InvalidArgument, match="expected one type of NumPy"):
                call(given)
    with pytest.raises(tally.InvalidArgument, match="has no label"):
        client.parts(axis=0, include_initial=True).cumsum(x)


def test_the_function_of_the_array_api_takes_frames(server, monkeypatch):
    monkeypatch.setenv("TALLY_URL", server.url)
    x = frame_of("float32")
    assert_frame_equal(tally.cumulative_sum(x), x.cumsum())


def test_pandas_is_not_imported_unless_the_caller_did(server):
    program = (
        "import sys, tally\n"
        "assert tally.Client(sys.argv[1]).cumsum([1, 2]).tolist() == [1, 3]\n"
        "assert 'pandas' not in sys.modules\n"
        "import pandas\n"
        "assert tally.Client(sys.argv[1]).cumsum(pandas.Series([1, 2], name='n')).name == 'n'\n"
    )
    path = pathlib.Path(tally.__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": str(path)}
    command = [sys.executable, "-c", program, server.url]
    subprocess.run(command, check=True, env=environment, timeout=120)
