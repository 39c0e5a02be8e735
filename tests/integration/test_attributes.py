"""output_dtype, nan, initial, include_initial and the input type bool: compared with NumPy and with
exact sums, in all combinations, in every format, with strides, in parts and in slices."""

import itertools
import random

import numpy as np
import pytest

from support import attributes, calls, carries, dtypes, oracle
from support.attributes import BOOL, Case
from support.calls import JSON, NPY, RAW
from support.waiting import until

TYPES = dtypes.BY_NAME
FLOATS = [dtype for dtype in dtypes.ALL if dtype.is_float]
LENGTH = "Tally-Carry-Length"


def wider(dtype):
    """The types that the sums of a type may have."""
    if dtype == BOOL:
        return [other for other in dtypes.ALL if not other.is_float]
    kinds = {"f": "f", "i": "i", "u": "ui"}[dtype.kind]
    more = [o for o in dtypes.ALL if o.kind in kinds and o.bytes > dtype.bytes]
    return [dtype, *more]


PAIRS = [(came, out) for came in [*dtypes.ALL, BOOL] for out in wider(came)]


def random_stored(came, shape, rng, nans=False):
    if came == BOOL:
        return rng.integers(0, 2, shape, np.uint8)
    if not came.is_float:
        return came.random(rng, shape)
    values = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3, shape)
    values = np.where(rng.random(shape) < 0.1, -0.0, values)
    if nans:
        values = np.where(rng.random(shape) < 0.2, np.nan, values)
    return came.store(values)


def initial_of(out, rng):
    return float(rng.standard_normal() * 100) if out.is_float else int(rng.integers(0, 100))


# ---- against NumPy ----


@pytest.mark.parametrize("came, out", [p for p in PAIRS if "bfloat16" not in map(str, p)], ids=str)
def test_sums_of_a_wider_type_are_those_of_numpy(client, came, out):
    rng = np.random.default_rng(1)
    small = rng.integers(0, 2, (7, 30)).astype(np.uint8 if came == BOOL else came.storage)
    array = small.view(bool) if came == BOOL else small
    answer = attributes.as_npy(client, Case(came, small, out, axis=1))
    assert answer.status == 200, answer
    sums = calls.npy_array(answer.body)
    assert sums.dtype == out.storage
    assert np.array_equal(sums, np.cumsum(array, axis=1, dtype=out.storage))


def test_nan_as_zero_is_nancumsum(client):
    array = np.array([[1, np.nan, 2], [np.nan, np.nan, 4]])
    answer = calls.post_npy(client, array, axis=1, nan="zero")
    assert np.array_equal(calls.npy_array(answer.body), np.nancumsum(array, axis=1))


def test_nan_skipped_is_nancumsum_with_nan_in_its_places(client):
    array = np.array([[1, np.nan, 2], [np.nan, np.nan, 4]], np.float32)
    answer = calls.post_npy(client, array, axis=1, nan="skip")
    sums = np.where(np.isnan(array), np.nan, np.nancumsum(array, axis=1))
    assert np.array_equal(calls.npy_array(answer.body), sums, equal_nan=True)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("name", ["int16", "float64"])
def test_the_initial_sum_is_that_of_cumulative_sum(client, name, axis):
    array = np.arange(24).reshape(2, 3, 4).astype(name)
    answer = calls.post_npy(client, array, axis=axis, include_initial=True)
    sums = np.cumulative_sum(array, axis=axis, dtype=array.dtype, include_initial=True)
    assert np.array_equal(calls.npy_array(answer.body), sums)


def test_an_exclusive_sum_with_an_initial_value_begins_with_it(client):
    answer = client.post_json("/v1/cumsum", {"data": [1, 2, 3], "initial": 10, "exclusive": True})
    assert answer.json()["data"] == [10, 11, 13]


# ---- every type, exactly ----


@pytest.mark.parametrize("came, out", PAIRS, ids=str)
def test_every_element_is_widened_exactly(client, came, out):
    """All bit patterns of short types; edge cases and random patterns of long ones."""
    if came == BOOL:
        stored = np.array([0, 1], np.uint8)
    elif came.bytes <= 2:
        stored = np.arange(2 ** (8 * came.bytes), dtype=f"u{came.bytes}").view(came.storage)
    else:
        words = np.random.default_rng(2).integers(
            0, 2 ** (8 * came.bytes) - 1, 5000, f"u{came.bytes}"
        )
        edges = [0, 1, 2 ** (8 * came.bytes - 1), 2 ** (8 * came.bytes - 1) - 1]
        stored = np.concatenate([words, np.array(edges, f"u{came.bytes}")]).view(came.storage)
    column = stored.reshape(-1, 1)  # one element per line: the sums are the elements
    attributes.check(client, Case(came, column, out, axis=1))


@pytest.mark.parametrize("came, out", PAIRS, ids=str)
@pytest.mark.parametrize("name", attributes.FORMATS)
def test_every_pair_of_attributes_works_together_in_every_format(client, came, out, name):
    rng, draw = np.random.default_rng(3), random.Random(f"{came}{out}{name}")
    is_float = out.is_float
    settings = itertools.product(
        ["propagate", "zero", "skip"] if is_float else ["propagate"],
        [False, True],  # initial
        [False, True],  # include_initial
        [False, True],  # exclusive
        [False, True],  # reverse
    )
    for nan, initial, include, exclusive, reverse in settings:
        if include and exclusive:
            continue
        shape, axis = draw.choice(
            [((9,), 0), ((3, 8), 1), ((8, 3), 0), ((2, 5, 3), 1), ((4, 1), 1)]
        )
        case = Case(
            came,
            random_stored(came, shape, rng, nans=is_float),
            out,
            axis,
            exclusive,
            reverse,
            nan,
            initial_of(out, rng) if initial else None,
            include,
        )
        if attributes.fits(name, case):
            attributes.check(client, case, name)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "initial", [0.0, -0.0, 1.0, -1.0, "tiny", "huge", -2.5, np.inf, -np.inf, np.nan]
)
def test_every_initial_value_counts_as_an_element(client, dtype, initial):
    rng = np.random.default_rng(4)
    edges = {"tiny": 2.0 ** carries.LEAST[dtype.name], "huge": oracle.FORMATS[dtype.name][2]}
    value = edges.get(initial, initial)
    plain = random_stored(dtype, (4, 5), rng)
    zeros = dtype.store(np.full((4, 5), -0.0))
    for stored, include, exclusive in (
        (plain, False, True),
        (plain, True, False),
        (zeros, True, False),
    ):
        for name in ("raw", "json", "v2 json"):
            case = Case(dtype, stored, dtype, 1, exclusive, initial=value, include_initial=include)
            attributes.check(client, case, name)


def test_a_sum_of_negative_zeros_stays_negative_zero_after_the_additional_first_sum(client):
    answer = client.post_json("/v1/cumsum", {"data": [-0.0, -0.0, 1.5], "include_initial": True})
    assert answer.body.endswith(b'"data":[0.0,-0.0,-0.0,1.5]}'), answer


@pytest.mark.parametrize(
    "dtype, text, first",
    [
        ("uint64", "18446744073709551615", b"18446744073709551615"),
        ("int64", "-9223372036854775808", b"-9223372036854775808"),
        ("float64", "0.1", b"0.1"),
        (
            "float32",
            "1.00000017881393432617187499",
            b"1.0000001",
        ),  # a conversion to double would round it up first
        ("float32", '"-Infinity"', b'"-Infinity"'),
        ("int8", "1e2", b"100"),
        ("int64", '"9007199254740993"', b"9007199254740993"),  # some languages have only doubles
        ("uint64", '"18446744073709551615"', b"18446744073709551615"),
    ],
)
def test_an_initial_value_is_read_in_the_type_of_the_output(client, dtype, text, first):
    body = f'{{"data":[0],"dtype":"{dtype}","initial":{text},"include_initial":true}}'
    answer = client.post("/v1/cumsum", body.encode(), JSON)
    assert b'"data":[' + first + b"," in answer.body, answer
    v2 = (
        f'{{"inputs":[{{"name":"x","shape":[1],"datatype":"{TYPES[dtype].kserve}","data":[0]}}],'
        f'"parameters":{{"initial":{text},"include_initial":true}}}}'
    )
    answer = client.post("/v2/models/cumsum/infer", v2.encode(), JSON)
    assert b'"data":[' + first + b"," in answer.body, answer


# ---- sizes, strides, memory ----


@pytest.fixture(scope="module")
def sliced(tmp_path_factory):
    """A server that cuts large tensors into many slices."""
    from support.tallyd import Tallyd

    server = Tallyd(tmp_path_factory.mktemp("sliced") / "log", ["--slice-bytes", "16KiB"])
    yield server
    server.check_alive()
    server.stop()


LARGE = [
    Case(BOOL, None, TYPES["int64"], 0),
    Case(BOOL, None, TYPES["uint8"], 1, reverse=True, include_initial=True),
    Case(TYPES["int8"], None, TYPES["int32"], 1, exclusive=True, initial=-7),
    Case(TYPES["uint16"], None, TYPES["int64"], 0, include_initial=True, initial=3),
    Case(TYPES["float32"], None, TYPES["float64"], 0, nan="skip", include_initial=True),
    Case(TYPES["bfloat16"], None, TYPES["float32"], 1, nan="zero", initial=0.5),
    Case(TYPES["float32"], None, TYPES["float32"], 1, nan="skip", reverse=True),
    Case(TYPES["float64"], None, TYPES["float64"], 0, initial=1e-300, include_initial=True),
    Case(TYPES["float16"], None, TYPES["float16"], 1, nan="skip", exclusive=True, initial=2.0),
]


@pytest.mark.parametrize("case", LARGE, ids=lambda case: f"{case.name}-{case.out}-{case.nan}")
@pytest.mark.parametrize("shape", [(3000, 257), (3, 250001), (300007, 3)], ids=str)
def test_large_tensors_have_the_same_sums(client, sliced, case, shape):
    stored = random_stored(case.came, shape, np.random.default_rng(5), nans=case.out.is_float)
    case = Case(**{**vars(case), "stored": stored})
    sums = expected_once(case)
    other = sliced.client()
    for name, where in (("raw", client), ("raw", other), ("v2 binary", other)):
        actual = attributes.answered(case, attributes.FORMATS[name](where, case))
        assert oracle.same_bits(case.out, actual, sums), (name, shape)
    other.close()


def expected_once(case):
    return attributes.expected(case)


@pytest.mark.parametrize("setting", LARGE, ids=lambda case: f"{case.name}-{case.out}-{case.nan}")
@pytest.mark.parametrize(
    "shape, strides, output_strides",
    [
        ((4, 6), (1, 4), None),
        ((4, 6), (0, 1), None),
        ((4, 6), (6, 0), None),
        ((4, 6), None, (9, 1)),
        ((4, 6), None, (1, 8)),
        ((4, 6), (7, 1), (20, 2)),
        ((4, 6), (1, 1), (700, 40)),  # far apart: JSON prints zeros for the gaps
    ],
)
def test_strides_on_both_sides_go_with_each_attribute(
    client, setting, shape, strides, output_strides
):
    rng = np.random.default_rng(6)
    used = strides or (shape[1], 1)
    count = 1 + sum((size - 1) * stride for size, stride in zip(shape, used, strict=True))
    buffer = random_stored(setting.came, count, rng, nans=setting.out.is_float)
    view = np.lib.stride_tricks.as_strided(
        buffer, shape, [stride * buffer.itemsize for stride in used], writeable=False
    )
    case = Case(**{**vars(setting), "stored": np.ascontiguousarray(view)})
    sums = attributes.expected(case)
    words = {"strides": list(used), **case.words()}
    if output_strides:
        words["output_strides"] = list(output_strides)
        ends = zip(sums.shape, output_strides, strict=True)
        laid_out = np.zeros(1 + sum((size - 1) * stride for size, stride in ends), case.out.storage)
        for index in np.ndindex(sums.shape):
            at = sum(i * stride for i, stride in zip(index, output_strides, strict=True))
            laid_out[at] = sums[index]
        sums = laid_out
    query = calls.query(dtype=case.name, shape=list(shape), **words)
    answer = client.post("/v1/cumsum" + query, buffer.tobytes(), RAW)
    assert answer.status == 200, answer
    actual = np.frombuffer(answer.body, case.out.storage)
    assert oracle.same_bits(case.out, actual, sums.reshape(-1)), (actual, sums)
    document = {
        "data": attributes.json_data(case, buffer),
        "dtype": case.name,
        "shape": list(shape),
    }
    answer = client.post_json("/v1/cumsum", {**document, **words})
    assert answer.status == 200 and answer.json()["shape"] == list(case.shape()), answer
    actual = case.out.from_json(answer.json()["data"]).reshape(-1)
    assert oracle.same_bits(case.out, actual, sums.reshape(-1)), (actual, sums)


@pytest.mark.parametrize(
    "shape, axis", [((5, 1), 0), ((1, 5, 1), 1), ((5, 1, 1), 1), ((1,), 0)], ids=str
)
def test_dimensions_of_one_element_change_nothing(client, shape, axis):
    stored = random_stored(TYPES["float32"], shape, np.random.default_rng(10), nans=True)
    for reverse in (False, True):
        case = Case(
            TYPES["float32"], stored, TYPES["float64"], axis, False, reverse, "skip", 2.5, True
        )
        attributes.check(client, case)


@pytest.mark.parametrize("shape, axis", [((0,), 0), ((3, 0), 1), ((3, 0), 0), ((0, 3), 0)], ids=str)
@pytest.mark.parametrize("initial", [None, 7])
def test_an_empty_axis_has_the_initial_sum_alone(client, shape, axis, initial):
    stored = np.empty(shape, np.int16)
    for name in ("raw", "npy", "json", "v2 json"):
        case = Case(
            TYPES["int16"], stored, TYPES["int32"], axis, initial=initial, include_initial=True
        )
        answer = attributes.FORMATS[name](client, case)
        if name.endswith("json"):
            assert answer.status == 200, answer
            continue
        actual = attributes.answered(case, answer)
        assert actual.tolist() == np.full(case.shape(), initial or 0).tolist()


@pytest.mark.parametrize("axis", [1, 2])
def test_no_lines_have_no_initial_sums_however_long_they_are(client, axis):
    path = f"/v1/cumsum?dtype=int8&shape=0,4611686018427387904,3&axis={axis}&include_initial=1"
    answer = client.post(path + "&initial=1&output_dtype=int16", b"", RAW)
    assert answer.status == 200 and answer.body == b"", answer


def test_a_big_endian_file_in_columns_is_widened_too(client):
    array = np.asfortranarray(np.arange(-10, 14).reshape(4, 6).astype(">i2"))
    answer = calls.post_npy(client, array, axis=1, output_dtype="int64", initial=1)
    assert np.array_equal(calls.npy_array(answer.body), np.cumsum(array, 1, np.int64) + 1)


def test_memory_is_counted_for_the_wide_elements(start_server):
    server = start_server("--memory-budget", "64MiB")
    client = server.client()
    body = bytes(16 << 20)
    path = f"/v1/cumsum?dtype=uint8&shape={len(body)}"
    assert client.post(path, body, RAW).status == 200
    answer = client.post(path + "&output_dtype=int64", body, RAW)
    calls.expect_error(answer, 413, "too_large", says=["128 MiB", "--memory-budget"])
    assert client.post(path + "&output_dtype=int16", body, RAW).status == 200
    client.close()
    server.check_alive()


def test_a_client_that_leaves_while_its_elements_are_widened_ends_the_request(start_server):
    server = start_server()
    import socket

    body = bytes(8 << 20)
    head = (
        f"POST /v1/cumsum?dtype=bool&shape={len(body)}&nan=skip&initial=1 HTTP/1.1\r\nHost: x\r\n"
    )
    head += f"Content-Type: {RAW}\r\nContent-Length: {len(body)}\r\n\r\n"
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(head.encode() + body)
    client = server.client()
    until(lambda: b"\ntally_memory_reserved_bytes 0" in client.get("/metrics").body)
    client.close()
    server.check_alive()


# ---- parts and totals ----


def cut_case(case, begin, end, first):
    where = (slice(None),) * case.axis + (slice(begin, end),)
    part = {**vars(case), "stored": np.ascontiguousarray(case.stored[where])}
    if not first:
        part |= {"initial": None, "include_initial": False}
    return Case(**part)


def post_part(client, case, carry, part):
    query = calls.query(dtype=case.name, shape=list(case.stored.shape), part=part, **case.words())
    headers = {LENGTH: str(len(carry))} if carry else {}
    answer = client.post("/v1/cumsum" + query, carry + case.stored.tobytes(), RAW, headers)
    assert answer.status == 200, answer
    length = int(answer.headers.get(LENGTH, "0"))
    out = np.frombuffer(answer.body[length:], case.out.storage).reshape(case.shape())
    return answer.body[:length], out


@pytest.mark.parametrize("came, out", PAIRS, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_any_cut_has_the_sums_of_the_whole(client, came, out, reverse):
    rng, draw = np.random.default_rng(7), random.Random(f"{came}{out}{reverse}")
    for nan, initial, include in itertools.product(
        ["propagate", "zero", "skip"] if out.is_float else ["propagate"],
        [False, True],
        [False, True],
    ):
        shape, axis = draw.choice([((600,), 0), ((3, 600), 1), ((600, 2), 0)])
        case = Case(
            came,
            random_stored(came, shape, rng, nans=nan != "propagate"),
            out,
            axis,
            not include and draw.random() < 0.5,
            reverse,
            nan,
            initial_of(out, rng) if initial else None,
            include,
        )
        edges = [0, *sorted(draw.sample(range(601), 3)), 600]
        edges[1] = draw.choice([0, edges[1]])
        carry, parts = b"", []
        for k, (begin, end) in enumerate(zip(edges, edges[1:], strict=False)):
            part = "first" if k == 0 else "last" if k == 3 else "next"
            begin, end = (600 - end, 600 - begin) if reverse else (begin, end)
            carry, sums = post_part(client, cut_case(case, begin, end, k == 0), carry, part)
            parts.append(sums)
        together = np.concatenate(parts[::-1] if reverse else parts, axis)
        assert oracle.same_bits(out, together, attributes.expected(case)), (case, edges)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("nan", ["propagate", "zero", "skip"])
def test_a_carry_holds_the_initial_value_as_an_element_and_how_nan_counts(client, dtype, nan):
    rng = np.random.default_rng(8)
    stored = random_stored(dtype, (3, 40), rng, nans=nan != "propagate")
    nan = nan if dtype.is_float else "propagate"
    for initial, size in itertools.product([None, initial_of(dtype, rng)], [0, 40]):
        case = Case(dtype, stored[:, :size].copy(), dtype, 1, nan=nan, initial=initial)
        carry, _ = post_part(client, case, b"", "first")
        assert carry == carries.of_tensor(dtype, attributes.elements(case)[0], 1, nan=nan)


def test_totals_are_of_the_wide_type_and_begin_with_the_initial_value(client):
    body = np.array([[200, 100, 7]], np.uint8).tobytes()
    path = "/v1/cumsum/totals?dtype=uint8&shape=1,3&axis=1&output_dtype=int32&initial=1000"
    answer = client.post(path, body, RAW)
    assert answer.status == 200 and answer.headers["Tally-Dtype"] == "int32", answer
    assert carries.sums_of(answer.body) == [1307]


def test_totals_count_nan_as_zero_with_zero_and_with_skip(client):
    array = np.array([1.5, np.nan, 2.5])
    for nan in ("zero", "skip"):
        answer = client.post(f"/v1/cumsum/totals?nan={nan}", calls.npy_bytes(array), NPY)
        assert answer.status == 200 and carries.sums_of(answer.body) == [4 << 1074], answer


# ---- bool ----


def test_booleans_of_json_have_their_type_by_numpys_rule(client):
    answer = client.post_json("/v1/cumsum", {"data": [[True, False], [True, True]], "axis": 1})
    assert answer.json() == {"dtype": "int64", "shape": [2, 2], "data": [[1, 1], [1, 2]]}


@pytest.mark.parametrize("precision, sums", [("BOOL", "I64"), ("boolean", "i64")])
@pytest.mark.parametrize("binary", [False, True])
def test_booleans_of_openvino_have_sums_of_64_bits(client, precision, sums, binary):
    tensor = {"precision": precision, "shape": [3]}
    if not binary:
        tensor["data"] = [True, True, False]
        answer = client.post_json("/v1/openvino/cumsum-3", {"inputs": [tensor]})
        port = {"precision": sums, "shape": [3], "data": [1, 2, 2]}
        assert answer.json() == {"outputs": [port]}
        return
    head = calls.json_body({"inputs": [{**tensor, "binary_data_size": 3}]})
    headers = {"Inference-Header-Content-Length": str(len(head))}
    answer = client.post("/v1/openvino/cumsum-3", head + b"\1\1\0", RAW, headers)
    assert answer.status == 200, answer
    at = int(answer.headers["Inference-Header-Content-Length"])
    assert np.frombuffer(answer.body[at:], np.int64).tolist() == [1, 2, 2]


def test_a_long_text_of_booleans_is_read_in_pieces(client):
    stored = random_stored(BOOL, 400_000, np.random.default_rng(9))
    attributes.check(client, Case(BOOL, stored, TYPES["int32"]), "json")


# ---- refusals ----


@pytest.mark.parametrize("came", [*dtypes.ALL, BOOL], ids=str)
def test_a_type_that_does_not_hold_every_element_is_refused_with_those_that_do(client, came):
    name, stored = (
        (came, np.zeros(2, np.uint8)) if came == BOOL else (came.name, np.zeros(2, came.storage))
    )
    possible = wider(came)
    for out in dtypes.ALL:
        query = calls.query(dtype=name, shape=[2], output_dtype=out.name)
        answer = client.post("/v1/cumsum" + query, stored.tobytes(), RAW)
        if out in possible:
            assert answer.status == 200, answer
        else:
            said = "have sums of " + ", ".join(
                sorted((o.name for o in possible), key=names_in_order)
            )
            calls.expect_error(answer, 400, "invalid_dtype", "output_dtype", [said, out.name])


def names_in_order(name):
    return [dtype.name for dtype in dtypes.ALL].index(name)


REFUSED = [
    ({"output_dtype": "bool"}, "invalid_dtype", "output_dtype", "expected one of float16"),
    ({"output_dtype": "int128"}, "invalid_dtype", "output_dtype", "int128"),
    ({"output_dtype": "int64"}, "invalid_dtype", "output_dtype", "have sums of float32, float64"),
    ({"nan": "ignore"}, "invalid_field", "nan", "propagate, zero"),
    ({"initial": "one"}, "invalid_field", "initial", "expected a number"),
    ({"initial": "1,5"}, "invalid_field", "initial", "expected a number"),
    ({"initial": "-nan"}, "invalid_field", "initial", "expected a number"),
    ({"initial": ""}, "invalid_field", "initial", "expected a number"),
    ({"initial": "1e39"}, "invalid_field", "initial", "that this type holds"),
    ({"include_initial": "maybe"}, "invalid_field", "include_initial", "expected true"),
    ({"include_initial": True, "exclusive": True}, "invalid_field", "include_initial", "n+1"),
    ({"initial": 1, "part": "next"}, "invalid_field", "initial", "holds the initial value already"),
    ({"include_initial": True, "part": "last"}, "invalid_field", "include_initial", "leave"),
    ({"precision": "exact"}, "unknown_field", "precision", "sums are always exact"),
]


@pytest.mark.parametrize("words, code, field, says", REFUSED, ids=str)
def test_an_attribute_that_cannot_be_is_refused_in_a_query(client, words, code, field, says):
    query = calls.query(dtype="float32", shape=[2], **words)
    answer = client.post("/v1/cumsum" + query, bytes(8), RAW)
    calls.expect_error(answer, 400, code, field, says)


@pytest.mark.parametrize("words, code, field, says", REFUSED, ids=str)
def test_an_attribute_that_cannot_be_is_refused_in_json_and_v2(client, words, code, field, says):
    document = {"data": [1, 2], "dtype": "float32", **words}
    if words.get("initial") == "1e39":
        document["initial"] = 1e39
    calls.expect_error(client.post_json("/v1/cumsum", document), 400, code, field, says)
    x = {"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}
    words = {name: document[name] for name in words}
    answer = client.post_json("/v2/models/cumsum/infer", {"inputs": [x], "parameters": words})
    assert answer.status == 400 and says in answer.json()["error"], answer


def test_an_integer_type_takes_no_fraction_as_initial_value(client):
    for text, says in ((1.5, "a whole number"), (300, "that this type holds"), ("NaN", "a number")):
        document = {"data": [1], "dtype": "uint8", "initial": text}
        calls.expect_error(
            client.post_json("/v1/cumsum", document), 400, "invalid_field", "initial", says
        )
        document["output_dtype"] = "int16"
    wide = {"data": [1], "dtype": "uint8", "output_dtype": "int16", "initial": 300}
    assert client.post_json("/v1/cumsum", wide).json()["data"] == [301]


@pytest.mark.parametrize("value", [[1], {"a": 1}, True, None])
def test_an_initial_value_is_a_number(client, value):
    answer = client.post_json("/v1/cumsum", {"data": [1], "initial": value})
    calls.expect_error(answer, 400, "invalid_field", "initial", "number")


def test_a_byte_that_is_no_boolean_is_refused_with_its_index(client):
    body = bytes(200_000) + b"\2" + bytes(9) + b"\3"
    answer = client.post(f"/v1/cumsum?dtype=bool&shape={len(body)}", body, RAW)
    calls.expect_error(answer, 400, "invalid_data", says=["element 200000 ", "expected 0 or 1"])
    answer = client.post("/v1/cumsum", calls.npy_bytes(np.ones(3, bool))[:-1] + b"\5", NPY)
    calls.expect_error(answer, 400, "invalid_data", says=["element 2 ", "expected 0 or 1"])


@pytest.mark.parametrize(
    "data, dtype, field, says",
    [
        ([True, 1], None, "data[1]", "expected true or false"),
        ([0, 1], "bool", "data[0]", "expected true or false"),
        ([1, True], None, "data[1]", "of type bool"),
        ([True, "NaN"], "bool", "data[1]", "expected true or false"),
    ],
)
def test_booleans_and_numbers_are_not_mixed(client, data, dtype, field, says):
    document = {"data": data, **({"dtype": dtype} if dtype else {})}
    calls.expect_error(client.post_json("/v1/cumsum", document), 400, "invalid_data", field, says)


def test_directml_has_no_booleans_and_descriptors_have_no_new_attributes(client):
    tensor = {"DataType": "BOOL", "Sizes": [1, 1, 1, 2]}
    document = {"desc": {"InputTensor": tensor, "OutputTensor": tensor, "Axis": 3}, "data": [1, 1]}
    path = "/v1/directml/cumulative_summation"
    calls.expect_error(client.post_json(path, document), 400, "invalid_dtype")
    port = {"precision": "FP32", "shape": [1], "data": [1]}
    answer = client.post_json("/v1/openvino/cumsum-3", {"inputs": [port], "nan": "zero"})
    calls.expect_error(answer, 400, "unknown_field", "nan")


def test_a_value_that_v2_states_twice_must_agree(client):
    x = {"name": "x", "shape": [1], "datatype": "UINT8", "data": [1]}
    for output, parameters, says in (
        ("INT32", {"output_dtype": "int64"}, "contradicts"),
        (None, {"initial": 1}, "different values"),
    ):
        document = {"inputs": [dict(x)], "parameters": parameters}
        if output:
            document["outputs"] = [{"name": "y", "datatype": output}]
        else:
            document["inputs"][0]["parameters"] = {"initial": 2}
        answer = client.post_json("/v2/models/cumsum/infer", document)
        assert answer.status == 400 and says in answer.json()["error"], answer
    outputs = [{"name": "y", "datatype": "INT32"}]
    document = {"inputs": [x], "outputs": outputs, "parameters": {"output_dtype": "INT32"}}
    assert (
        client.post_json("/v2/models/cumsum/infer", document).json()["outputs"][0]["datatype"]
        == "INT32"
    )


@pytest.mark.parametrize("other", ["propagate", "zero"])
def test_a_carry_of_another_nan_or_type_is_refused(client, other):
    array = np.ones(3, np.float32)
    carry, _ = post_part(
        client, Case(TYPES["float32"], array, TYPES["float64"], nan="skip"), b"", "first"
    )
    for words, says in (
        ({"nan": other, "output_dtype": "float64"}, f"nan=skip, the part has nan={other}"),
        ({"nan": "skip"}, "of type float64, the part of float32"),
    ):
        query = calls.query(dtype="float32", shape=[3], part="last", **words)
        answer = client.post(
            "/v1/cumsum" + query, carry + array.tobytes(), RAW, {LENGTH: str(len(carry))}
        )
        calls.expect_error(answer, 400, "invalid_data", "carry", says)


def test_an_initial_value_does_not_go_with_a_carry_of_totals(client):
    array = np.ones(3, np.float32)
    carry = client.post("/v1/cumsum/totals?dtype=float32&shape=3", array.tobytes(), RAW).body
    path = "/v1/cumsum/totals?dtype=float32&shape=3&initial=1"
    answer = client.post(path, carry + array.tobytes(), RAW, {LENGTH: str(len(carry))})
    calls.expect_error(answer, 400, "invalid_field", "initial", "holds the initial value already")
    answer = client.post("/v1/cumsum/totals?include_initial=1", calls.npy_bytes(array), NPY)
    calls.expect_error(answer, 400, "invalid_field", "include_initial", "totals")


def test_the_axis_is_known_before_the_body_where_lines_begin_with_a_value(client):
    x = {"name": "x", "shape": [2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}
    axis = {
        "name": "axis",
        "shape": [1],
        "datatype": "INT64",
        "parameters": {"binary_data_size": 8},
    }
    for words in ({"initial": 1}, {"include_initial": True}):
        head = calls.json_body({"inputs": [x, axis], "parameters": words})
        headers = {"Inference-Header-Content-Length": str(len(head))}
        answer = client.post("/v2/models/cumsum/infer", head + bytes(16), RAW, headers)
        assert answer.status == 400 and "axis must be known" in answer.json()["error"], answer
