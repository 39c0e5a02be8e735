"""Arrays of every type and layout through a real server: the bits must equal the test oracle's, and
nothing is copied without need."""

import array as arrays
import decimal
import fractions
import json
import pathlib
import pickle
import re
import tracemalloc
import urllib.request

import ml_dtypes
import numpy as np
import pytest
import tally
from lying_server import LyingServer, Told
from support import dtypes, oracle
from support.tallyd import Tallyd
from tally.address import parse_address

TYPES = [dtype for dtype in dtypes.ALL]
SHAPE = (3, 4, 5)


def numpy_type(dtype):
    return np.dtype(ml_dtypes.bfloat16) if dtype.name == "bfloat16" else dtype.storage


def expect(dtype, actual, stored, axis, **attributes):
    assert actual.dtype == numpy_type(dtype)
    expected = oracle.cumsum(dtype, np.ascontiguousarray(stored), axis=axis, **attributes)
    assert oracle.same_bits(dtype, np.ascontiguousarray(actual).view(dtype.storage), expected)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shm", [False, True], ids=["wire", "shm"])
def test_every_type_and_attribute(connect, server, dtype, shm):
    client = connect(server.url, shm=shm)
    stored = dtype.random(np.random.default_rng(1), SHAPE)
    x = stored.view(numpy_type(dtype))
    for axis in (0, 1, -1):
        for exclusive in (False, True):
            for reverse in (False, True):
                flags = {"exclusive": exclusive, "reverse": reverse}
                sums = client.cumsum(x, axis, dtype=x.dtype, **flags)
                expect(dtype, sums, stored, axis, **flags)
    expect(dtype, client.cumsum(x, dtype=x.dtype), stored.reshape(-1), 0)
    swapped = x.astype(x.dtype.newbyteorder(">"))
    expect(dtype, client.cumsum(swapped, 1, dtype=x.dtype), stored, 1)


def layouts(x):
    wide = np.zeros((6, 4, 10), x.dtype)
    wide[::2, :, 1::2] = x
    record = np.zeros(x.shape, [("pad", "i1"), ("value", x.dtype)])
    record["value"] = x
    return {
        "packed": x,
        "Fortran": np.asfortranarray(x),
        "transposed": np.ascontiguousarray(x.transpose(2, 0, 1)).transpose(1, 2, 0),
        "window": np.pad(x, 1)[1:-1, 1:-1, 1:-1],
        "gaps": wide[::2, :, 1::2],
        "backwards": np.ascontiguousarray(x[::-1, :, ::-1])[::-1, :, ::-1],
        "unaligned": record["value"],
        "read only": np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
    }


@pytest.mark.parametrize("shm", [False, True], ids=["wire", "shm"])
def test_every_layout_in_and_out(connect, server, shm):
    client = connect(server.url, shm=shm)
    x = np.arange(60, dtype=np.float32).reshape(SHAPE)
    for axis in (None, 0, 1, 2):
        expected = np.cumsum(x, axis)
        for name, given in layouts(x).items():
            assert np.array_equal(given, x)
            assert np.array_equal(client.cumsum(given, axis), expected), (name, axis)
        if axis is None:
            continue
        for name, out in layouts(np.zeros_like(x)).items():
            if name == "read only":
                continue
            assert client.cumsum(x, axis, out=out) is out
            assert np.array_equal(out, expected), (name, axis)
        for name, both in layouts(x).items():
            if name != "read only":
                assert client.cumsum(both, axis, out=both) is both
                assert np.array_equal(both, expected), (name, axis)


def test_what_lies_around_an_output_is_left_alone(client):
    around = np.full((5, 6), 7.0, np.float32)
    client.cumsum(np.ones((3, 3), np.float32), 0, out=around[1:4, 1:6:2])
    assert around.sum() == 7 * 21 + 3 * (1 + 2 + 3)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_an_output_may_be_a_matrix(client):
    x = np.arange(6.0).reshape(2, 3)
    out = np.asmatrix(np.zeros((2, 3)))
    assert client.cumsum(x, 1, out=out) is out
    assert out.tolist() == np.cumsum(x, 1).tolist()


def test_an_output_that_overlaps_the_input_otherwise(client):
    for shift in (1, 3):
        memory = np.arange(20, dtype=np.int64)
        expected = np.cumsum(memory[:-shift])
        client.cumsum(memory[:-shift], out=memory[shift:])
        assert (memory[shift:] == expected).all()
    square = np.arange(9.0).reshape(3, 3)
    expected = np.cumsum(square, 0)
    client.cumsum(square, 0, out=square.T)
    assert (square.T == expected).all()


def sent_bytes(connect, x, axis):
    """The body and the query that the client sends for an array; the server never answers."""
    seen = []

    def script(request):
        seen.append(request)
        return Told(b"HTTP/1.1 500 Sorry\r\nContent-Length: 0\r\n\r\n")

    with LyingServer(script) as server:
        with pytest.raises(tally.ServerError):
            connect(server.url).cumsum(x, axis)
    return seen[0].body, seen[0].head.partition(" HTTP")[0]


def test_layouts_are_sent_as_they_are(connect):
    x = np.arange(12, dtype=np.int64).reshape(3, 4)
    body, query = sent_bytes(connect, np.asfortranarray(x), 1)
    assert body == x.T.tobytes() and query.endswith("shape=3,4&axis=1&strides=1,3")
    body, query = sent_bytes(connect, x[:, ::2], 0)
    assert body == x.tobytes()[:-8] and query.endswith("shape=3,2&axis=0&strides=4,2")
    body, query = sent_bytes(connect, np.broadcast_to(x[0], (1000, 4)), 0)
    assert body == x[0].tobytes() and query.endswith("shape=1000,4&axis=0&strides=0,1")
    windows = np.lib.stride_tricks.sliding_window_view(x.reshape(-1), 5)
    body, query = sent_bytes(connect, windows, 1)
    assert body == x.tobytes() and query.endswith("shape=8,5&axis=1&strides=1,1")
    # The client copies this column: three of four bytes between its elements are gaps.
    body, query = sent_bytes(connect, x[:, 3], 0)
    assert body == x[:, 3].tobytes() and "strides" not in query
    body, query = sent_bytes(connect, x[::-1], 0)
    assert body == x[::-1].tobytes() and "strides" not in query


def test_no_array_is_copied_on_its_way(client):
    packed, wide = np.ones((512, 4096), np.float32), np.ones((512, 6000), np.float32)
    for x in (
        packed,
        np.asfortranarray(packed),
        wide[:, :4096],
        np.broadcast_to(wide[0], (512, 6000)),
    ):
        out = np.empty_like(x, subok=False)
        tracemalloc.start()
        try:
            client.cumsum(x, 1, out=out)
            assert tracemalloc.get_traced_memory()[1] < x.nbytes / 8
        finally:
            tracemalloc.stop()
        assert (out[7] == np.arange(1, x.shape[1] + 1)).all()


def test_broadcast_and_overlapping_arrays_are_summed(client):
    x = np.arange(5, dtype=np.int32)
    for given in (
        np.broadcast_to(x, (7, 5)),
        np.broadcast_to(x[:, None], (5, 9)),
        np.broadcast_to(np.int32(3), (4, 4)),
        np.lib.stride_tricks.sliding_window_view(x, 3),
    ):
        for axis in (None, 0, 1):
            assert (client.cumsum(given, axis) == np.cumsum(given, axis)).all()


class Made:
    def __array__(self, dtype=None, copy=None):
        return np.array([1.5, 2.5], dtype)


@pytest.mark.parametrize(
    ("given", "expected", "dtype"),
    [
        ([1, 2, 3], [1, 3, 6], np.int64),
        ([[1.5], [2.5]], [1.5, 4.0], np.float64),
        ((True, False, True), [1, 1, 2], np.int64),
        (5, [5], np.int64),
        (np.float32(2.5), [2.5], np.float32),
        (arrays.array("h", [1, 2]), [1, 3], np.int64),
        (b"\x01\x02", [1, 3], np.uint64),
        (bytearray(b"\x01\x02"), [1, 3], np.uint64),
        (memoryview(arrays.array("d", [1, 2])), [1, 3], np.float64),
        (Made(), [1.5, 4.0], np.float64),
        ([], [], np.float64),
        (np.zeros((3, 0), np.int8), [], np.int64),
    ],
)
def test_whatever_numpy_makes_an_array_of(client, given, expected, dtype):
    result = client.cumsum(given)
    assert result.tolist() == expected and result.dtype == dtype


class Exported:
    """An array that offers no interface but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_with_dlpack_alone_are_taken(client):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert (client.cumsum(Exported(x), 1) == np.cumsum(x, 1)).all()
    assert client.cumsum(Exported(x), 1).dtype == np.float32
    assert client.cumsum(x, 1, offsets=Exported(np.array([0, 1, 3]))).tolist() == [
        [0, 1, 3],
        [3, 4, 9],
    ]
    assert client.cumsum(x, 1, groups=Exported(np.array([1, 2, 1]))).tolist() == [
        [0, 1, 2],
        [3, 4, 8],
    ]
    assert client.parts(0).cumsum(Exported(x)).tolist() == np.cumsum(x, 0).tolist()
    assert client.totals(Exported(x), 1).sums() == [3, 12]


@pytest.mark.parametrize("kind", [ValueError, TypeError, RuntimeError, BufferError])
@pytest.mark.parametrize("method", ["__array__", "__dlpack__"])
@pytest.mark.parametrize("argument", ["x", "offsets", "groups"])
def test_errors_of_an_array_itself_are_not_changed(connect, kind, method, argument):
    own = kind("the array is on a device: call cpu() first")

    def fail(*_, **__):
        raise own

    members = {method: fail, "__dlpack_device__": lambda self: (1, 0)}
    given = {"x": [1, 2], argument: type("Remote", (), members)()}
    for call in (connect("http://127.0.0.1:1").cumsum, tally.cumulative_sum):
        if call is tally.cumulative_sum and argument != "x":
            continue
        with pytest.raises(kind) as caught:
            call(given["x"], **{name: given[name] for name in given if name != "x"})
        assert caught.value is own


def test_64_dimensions(client):
    x = np.arange(4).reshape((2,) + (1,) * 62 + (2,))
    assert (client.cumsum(x, -1) == np.cumsum(x, -1)).all()


def test_files_are_summed_in_place(client, tmp_path):
    path = tmp_path / "x.bin"
    np.ones((512, 1024), np.float32).tofile(path)
    file = np.memmap(path, np.float32, "r+", shape=(512, 1024))
    assert client.cumsum(file, 1, out=file) is file
    file.flush()
    stored = np.fromfile(path, np.float32).reshape(512, 1024)
    assert (stored == np.arange(1, 1025)).all()


def test_16_mib_there_and_back(client):
    x = np.ones((4, 1 << 20), np.float32)
    sums = client.cumsum(x, 1)
    assert (sums == np.arange(1, (1 << 20) + 1, dtype=np.float32)).all()


GOOD = np.ones((2, 3), np.float32)
READ_ONLY = np.ones((2, 3), np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("field", "x", "axis", "options"),
    [
        ("axis", GOOD, 2, {}),
        ("axis", GOOD, -3, {}),
        ("axis", GOOD, 1.0, {}),
        ("axis", GOOD, "1", {}),
        ("dtype", GOOD, 0, {"dtype": "complex64"}),
        ("dtype", GOOD, 0, {"dtype": "no type"}),
        ("dtype", GOOD, 0, {"dtype": "f4,,"}),
        ("dtype", GOOD, 0, {"dtype": "(2,)f4"}),
        ("dtype", np.array(["a"]), 0, {}),
        ("dtype", np.array([{}]), 0, {}),
        ("x", np.array([1j]), 0, {"dtype": float}),
        ("dtype", np.array([1j], np.clongdouble), 0, {}),
        ("x", np.array([1], "M8[s]"), 0, {}),
        ("dtype", np.array(["1"], np.dtypes.StringDType()), 0, {}),
        ("x", np.ma.masked_equal([1, 2], 2), 0, {}),
        ("out", GOOD, 0, {"out": np.ones((3, 2), np.float32)}),
        ("out", GOOD, 0, {"out": np.ones((2, 3), np.float64)}),
        ("out", GOOD, None, {"out": np.ones((2, 3), np.float32)}),
        ("out", GOOD, 0, {"out": READ_ONLY}),
        ("out", GOOD, 0, {"out": [1, 2]}),
        ("out", GOOD, 0, {"out": np.ma.masked_array(np.ones((2, 3), np.float32), True)}),
        ("out", GOOD, 0, {"out": np.full((2, 3), "1", np.dtypes.StringDType())}),
        ("exclusive", GOOD, 0, {"exclusive": 1}),
        ("reverse", GOOD, 0, {"reverse": "true"}),
        ("deadline", GOOD, 0, {"deadline": 0}),
        ("deadline", GOOD, 0, {"deadline": float("nan")}),
        ("deadline", GOOD, 0, {"deadline": "5"}),
        ("x", [[1], [2, 3]], 0, {}),
        ("dtype", ["a"], 0, {"dtype": "float32"}),
        ("x", [{}], 0, {"dtype": "int64"}),
        ("x", [2**64], 0, {"dtype": "int64"}),
    ],
)
def test_arguments_that_cannot_be_are_refused_here(connect, field, x, axis, options):
    with pytest.raises(tally.InvalidArgument) as caught:
        connect("http://127.0.0.1:1").cumsum(x, axis, **options)
    assert caught.value.field == field and isinstance(caught.value, ValueError)


NAMED = np.zeros(2, [("price", "f4"), ("count", "i4")])
DIFFERENCES = "points in time have no sum; sum the differences"
VIEW = r"bytes without a type: view .* x.view\(dtype\)"


@pytest.mark.parametrize("dtype", [None, "float64", "int64", "float32"])
@pytest.mark.parametrize(
    ("x", "advice"),
    [
        (np.array(["2024-01-01"], "M8[D]"), DIFFERENCES),
        (np.zeros(2, "V1"), VIEW),
        (np.zeros(2, "V3"), VIEW),
        (np.zeros(2, "V2"), r"x.view\(ml_dtypes.bfloat16\)"),
        (NAMED, r"one of its fields, x\['price'\]"),
        (NAMED[["price"]], r"one of its fields, x\['price'\]"),
    ],
    ids=lambda given: None if isinstance(given, str) else str(np.asarray(given).dtype),
)
def test_what_a_conversion_would_change_is_refused_whatever_the_dtype(connect, x, advice, dtype):
    with pytest.raises(tally.InvalidArgument, match=advice) as caught:
        connect("http://127.0.0.1:1").cumsum(x, dtype=dtype)
    assert caught.value.field == "x"


AS_FLOAT64 = r"numpy.asarray\(x, 'float64'\)"
AS_NUMBERS = rf"numpy.asarray\(x, 'int64'\) or {AS_FLOAT64} reads them as numbers"


@pytest.mark.parametrize(
    ("x", "dtype", "advice"),
    [
        (np.array([1], np.longdouble), "float64", f"{AS_FLOAT64} rounds each of them first"),
        (np.array([decimal.Decimal("0.1")]), "float64", f"{AS_FLOAT64} rounds decimals"),
        ([2**64], "float64", f"{AS_FLOAT64} rounds decimals, fractions and larger"),
        (np.array(["1"]), "int64", AS_NUMBERS),
        (np.array([b"1.5"]), "float64", AS_NUMBERS),
        (np.array(["1"], np.dtypes.StringDType()), "int64", AS_NUMBERS),
    ],
    ids=lambda given: None if isinstance(given, str) else str(np.asarray(given).dtype),
)
def test_the_advice_for_other_types_says_what_it_costs(connect, server, x, dtype, advice):
    client = connect(server.url)
    for asked in (None, dtype):
        with pytest.raises(tally.InvalidArgument, match=advice) as caught:
            client.cumsum(x, dtype=asked)
        assert caught.value.field == "dtype"
    converted = np.asarray(x, dtype)
    assert client.cumsum(converted).tolist() == [float(np.asarray(x)[0])]


@pytest.mark.parametrize(
    ("x", "dtype", "advice"),
    [
        (np.array([1, -3], ml_dtypes.int4), "int64", "give dtype='int64', which holds all of"),
        (np.array([1, 3], ml_dtypes.float8_e5m2), "float64", "dtype='float64', which holds all"),
        (np.array([7, 9], object), "int64", "dtype='int64' sums them if all are integers below"),
    ],
    ids=lambda given: None if isinstance(given, str) else str(given.dtype),
)
def test_a_dtype_that_holds_the_elements_of_other_types_gives_numpys_sums(
    connect, server, x, dtype, advice
):
    client = connect(server.url)
    with pytest.raises(tally.InvalidArgument, match=advice) as caught:
        client.cumsum(x)
    assert caught.value.field == "dtype"
    sums = client.cumsum(x, dtype=dtype)
    assert sums.dtype == dtype and (sums == np.cumsum(x, dtype=dtype)).all()


@pytest.mark.parametrize(
    ("x", "odd"),
    [
        ([1, decimal.Decimal("1.5")], r"x\[1\] is Decimal\('1.5'\)"),
        ([[2, 3], [4, 0.5]], r"x\[1, 1\] is 0.5"),
        ([fractions.Fraction(1, 3)], r"x\[0\] is Fraction\(1, 3\)"),
    ],
)
def test_objects_are_not_cut_to_integers(connect, server, x, odd):
    client = connect(server.url)
    given = np.array(x, object)
    with pytest.raises(tally.InvalidArgument, match=f"{odd}, which int64 does not hold") as caught:
        client.cumsum(given, dtype="int64")
    assert caught.value.field == "x"
    whole = np.array([decimal.Decimal("2"), 3, True, "4"], object)
    assert client.cumsum(whole, dtype="int64").tolist() == [2, 5, 6, 10]


@pytest.mark.parametrize(
    ("x", "advice"),
    [
        (None, "x is None, expected an array or a list"),
        ("in.npy", r"x is a text, .* numpy.load\(x\) reads"),
        ((i for i in range(3)), r"x is of type generator, .*, such as list\(x\)$"),
        ({1, 2}, r"x is of type set, .*, such as list\(x\)$"),
        ({"a": 1}, r"x is of type dict, .*, such as list\(x.values\(\)\)$"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_the_refusal_of_an_object_that_is_no_array_says_how_to_make_one(connect, x, advice):
    with pytest.raises(tally.InvalidArgument, match=advice) as caught:
        connect("http://127.0.0.1:1").cumsum(x)
    assert caught.value.field == "x"


def test_the_refusal_of_an_unknown_dtype_names_some_types(connect):
    with pytest.raises(tally.InvalidArgument, match="'float99', expected one such as 'float64'"):
        connect("http://127.0.0.1:1").cumsum([1], dtype="float99")


def test_a_dtype_that_has_no_sums_is_named(connect):
    for dtype in ("complex64", "m8[s]", "longdouble", "S3", object, bool):
        with pytest.raises(
            tally.InvalidArgument, match=r"dtype is .*, expected one of float16, "
        ) as e:
            connect("http://127.0.0.1:1").cumsum(np.ones(2), dtype=dtype)
        assert e.value.field == "dtype"


@pytest.mark.parametrize("name", ["timeout", "connect_timeout"])
@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "5"])
def test_times_that_cannot_be_are_refused(connect, name, seconds):
    with pytest.raises(tally.InvalidArgument, match=name) as caught:
        connect(**{name: seconds})
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *(("retries", count) for count in (None, -1, "4")),
        *(("idle_connections", count) for count in (None, -1)),
        *(("part_bytes", count) for count in (None, 0, 1.5)),
    ],
)
def test_counts_that_cannot_be_are_refused(connect, name, count):
    with pytest.raises(tally.InvalidArgument, match=f"{name} is .*expected an integer") as caught:
        connect(**{name: count})
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("token", text) for text in (b"secret", 5)),
        *(("user_agent", text) for text in (b"me", None)),
        *(("url", text) for text in (b"http://h", 5, pathlib.Path("/run/tally.sock"))),
        *((name, 5.0) for name in ("ca_file", "client_cert")),
    ],
)
def test_texts_that_are_none_are_refused(connect, name, text):
    with pytest.raises(tally.InvalidArgument, match="expected a text|cannot use 5.0") as caught:
        connect(**{"url": "https://localhost", name: text})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("seconds", [1e7, 1e300])
def test_a_time_may_be_longer_than_the_system_counts(connect, server, seconds):
    client = connect(server.url, timeout=seconds, connect_timeout=seconds)
    x = np.ones(1 << 20, np.uint8)
    assert client.cumsum(x, dtype=np.int64, deadline=seconds)[-1] == 1 << 20


@pytest.mark.parametrize(
    "url",
    [
        *("http://me:secret@h:1", "me:secret@h", "ftp://me:se@cret@h"),
        *("http+unix://a:secret@h", "unix:a:secret@h"),
    ],
)
def test_a_password_in_the_url_is_not_told(connect, url):
    with pytest.raises(tally.InvalidArgument, match="cannot use") as caught:
        connect(url)
    assert "ret@" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["", "ftp://h", "http://", "http://h:x", "http://h?q", "http://h#f", "unix:relative"]
    + ["http://" + "a" * 64 + ".org"]
    + [
        "http://u:p@h",
        "http://h:0",
        "unix:/" + "a" * 107,  # sockaddr_un has room for a path of 107 bytes
        "http://h/a b",
        "http://h\r\nX: 1",
        "http://é",
    ],
)
def test_urls_that_cannot_be_are_refused(connect, url):
    if url == "":
        url = "http://:8000"
    with pytest.raises(tally.InvalidArgument, match="Write for example"):
        connect(url)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("htp://localhost:8000", "its scheme must be http, https, unix or http+unix"),
        ("http:/localhost:8000", "'://' must follow 'http'"),
        ("http:localhost:8000", "'://' must follow 'http'"),
        ("HTTPS//localhost", "'://' must follow 'HTTPS'"),
        ("http+unix:%2Frun%2Ftally.sock", "'://' must follow 'http+unix'"),
        ("localhost:80000", "its port must be a number from 1 to 65535"),
        ("localhost:http", "its port must be a number from 1 to 65535"),
        ("http://localhost:0", "its port must be a number from 1 to 65535"),
        ("http://localhost:8000/v1/cumsum", "it has the path of a route"),
        ("localhost:8000/prefix/v2/models/cumsum/infer", "it has the path of a route"),
        ("/run/tally.sock", "the path of a socket needs 'unix:' in front of it"),
        ("unix:run/tally.sock", "the path of a socket must be absolute"),
        ("http://", "it names no host"),
        ("http://localhost:8000?x=1", "it must have no query"),
        ("localhost 8000", "it has a blank"),
    ],
)
def test_a_wrong_url_is_refused_at_once_in_words_that_say_what_is_wrong(connect, url, words):
    expected = re.escape(f"as the server's URL: {words}") + ".* Write for example http://"
    with pytest.raises(tally.InvalidArgument, match=expected) as caught:
        connect(url)
    assert caught.value.field == "url"


@pytest.mark.parametrize("url", ["http:8000", "https:8443", "unixhost", "http.example/v1", "v1:1"])
def test_a_host_may_be_named_like_a_scheme_or_a_route(url):
    assert parse_address(url).host == url.split(":")[0].split("/")[0]


@pytest.mark.parametrize("zone", ["%25eth0", "%eth0"])
def test_the_zone_of_an_ipv6_address_is_for_connecting_alone(zone):
    address = parse_address(f"http://[fe80::1{zone}]:8000/prefix")
    assert (address.host, address.port) == ("fe80::1%eth0", 8000)
    assert (address.name, address.host_header) == ("fe80::1", "[fe80::1]:8000")


def test_the_address_comes_from_the_environment(connect, server, monkeypatch):
    monkeypatch.setenv("TALLY_URL", f"127.0.0.1:{server.port}")
    assert connect().cumsum([1, 2]).tolist() == [1, 3]


def test_the_servers_own_refusal_is_told(connect, start_small):
    with pytest.raises(tally.Rejected, match="--max-body-bytes") as caught:
        connect(start_small.url).cumsum(np.ones(1 << 20), 0)
    error = caught.value
    assert error.status == 413 and error.code == "too_large" and error.request_id
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is tally.Rejected and vars(copied) == vars(error)
    assert str(copied) == str(error)


@pytest.fixture
def start_small(log_dir):
    server = Tallyd(log_dir / "small.log", ["--max-body-bytes", "1MiB"])
    server.url = f"http://127.0.0.1:{server.port}"
    yield server
    server.kill()


def test_health_and_devices(connect, server):
    client = connect(server.unix_url)
    assert client.health() == (True, True)
    devices = client.devices()
    assert devices and all(device["name"] and device["state"] for device in devices)


def test_the_version_is_that_of_the_server(connect, server):
    with urllib.request.urlopen(f"{server.url}/version") as answer:
        assert connect(server.url).version() == json.load(answer)["version"]


@pytest.mark.parametrize("body", ["[]", '{"version":1}', "no"])
def test_a_version_that_is_none_is_a_bad_answer(connect, body):
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    with LyingServer(lambda seen: Told(f"{head}\r\n\r\n{body}".encode())) as lying:
        with pytest.raises(tally.BadAnswer, match="no valid member 'version'"):
            connect(lying.url).version()


def test_the_default_axis_of_arrays_is_that_of_numpy(client):
    x = np.arange(6.0).reshape(2, 3)
    assert client.cumsum(x).tolist() == np.cumsum(x).tolist()
    assert client.totals(x).sums() == [15]


def test_a_server_that_is_not_ready_is_alive(connect):
    def script(seen):
        ready = "/livez" in seen.head
        kind = "Content-Type: application/json"
        head = f"HTTP/1.1 {200 if ready else 503} x\r\n{kind}\r\nContent-Length: 0\r\n\r\n"
        return Told(head.encode())

    with LyingServer(script) as lying:
        assert connect(lying.url).health() == (True, False)
        assert lying.requests == 2
