"""offsets: every segment of the axis is a separate line, in every format and with every other
attribute; an invalid list of offsets is refused."""

import gzip
import itertools
import json
import random
import socket

import numpy as np
import pytest

from support import attributes, calls, dtypes, oracle
from support.attributes import BOOL, Case
from support.calls import JSON, NPY, RAW
from support.waiting import until

TYPES = dtypes.BY_NAME
LENGTH = "Tally-Offsets-Length"
FLOATS = [dtype for dtype in dtypes.ALL if dtype.is_float]
WIDER = [
    (came, out)
    for came, out in (
        (BOOL, "int64"),
        (BOOL, "uint8"),
        ("int8", "int32"),
        ("uint16", "int64"),
        ("uint32", "uint64"),
        ("float16", "float32"),
        ("bfloat16", "float64"),
        ("float32", "float64"),
    )
]


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


def random_offsets(draw, size, count):
    """Offsets of segments with any length, including empty ones."""
    inner = sorted(draw.choice([0, size, draw.randint(0, size)]) for _ in range(count - 1))
    return [0, *inner, size]


def of_lengths(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


# ---- every type, format and attribute ----


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("name", attributes.FORMATS)
def test_each_segment_is_a_line_of_its_own_in_every_format(client, dtype, name):
    rng, draw = np.random.default_rng(1), random.Random(f"{dtype}{name}")
    for shape, axis in (((40,), 0), ((3, 20), 1), ((20, 3), 0), ((2, 9, 3), 1), ((4, 5, 6), -1)):
        stored = random_stored(dtype, shape, rng)
        for count in (1, 2, 5, 30):
            offsets = random_offsets(draw, shape[axis], count)
            case = Case(dtype, stored, dtype, axis, offsets=offsets)
            if attributes.fits(name, case):
                attributes.check(client, case, name)


@pytest.mark.parametrize(
    "came, out",
    [(dtype.name, dtype.name) for dtype in dtypes.ALL] + WIDER,
    ids=str,
)
@pytest.mark.parametrize("name", attributes.FORMATS)
def test_offsets_go_with_each_pair_of_other_attributes(client, came, out, name):
    rng, draw = np.random.default_rng(2), random.Random(f"{came}{out}{name}")
    came, out = came if came == BOOL else TYPES[came], TYPES[out]
    settings = itertools.product(
        ["propagate", "zero", "skip"] if out.is_float else ["propagate"],
        [None, float(rng.standard_normal()) if out.is_float else 7],
        [False, True],  # include_initial
        [False, True],  # exclusive
        [False, True],  # reverse
    )
    for nan, initial, include, exclusive, reverse in settings:
        if include and exclusive:
            continue
        shape, axis = draw.choice(
            [((19,), 0), ((3, 12), 1), ((12, 3), 0), ((2, 8, 3), 1), ((4, 1), 1), ((1, 5, 1), 1)]
        )
        offsets = random_offsets(draw, shape[axis], draw.randint(1, 8))
        stored = random_stored(came, shape, rng, nans=out.is_float)
        case = Case(
            came, stored, out, axis, exclusive, reverse, nan, initial, include, offsets=offsets
        )
        if attributes.fits(name, case):
            attributes.check(client, case, name)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("initial", [0.0, -0.0, -2.5, np.inf, -np.inf, np.nan])
def test_every_initial_value_counts_as_an_element_of_each_segment(client, dtype, initial):
    rng = np.random.default_rng(3)
    zeros = dtype.store(np.full((3, 9), -0.0))
    for stored in (random_stored(dtype, (3, 9), rng), zeros):
        for include, exclusive, reverse in ((0, 0, 0), (1, 0, 0), (1, 0, 1), (0, 1, 1)):
            case = Case(
                dtype,
                stored,
                dtype,
                1,
                bool(exclusive),
                bool(reverse),
                initial=initial,
                include_initial=bool(include),
                offsets=[0, 2, 2, 3, 9],
            )
            for name in ("raw", "json", "v2 json"):
                attributes.check(client, case, name)


@pytest.mark.parametrize("initial", [None, 2.5])
def test_one_segment_has_the_bits_of_a_request_without_offsets(client, initial):
    dtype, rng = TYPES["float64"], np.random.default_rng(4)
    stored = random_stored(dtype, (3, 5000), rng, nans=True)
    for reverse, exclusive in itertools.product([False, True], repeat=2):
        case = Case(dtype, stored, dtype, 1, exclusive, reverse, "skip", initial)
        whole = attributes.as_raw(client, case)
        case.offsets = [0, 5000]
        assert attributes.as_raw(client, case).body == whole.body


@pytest.mark.parametrize(
    "offsets",
    [[0, 5], [0, 0, 5], [0, 5, 5], [0, 0, 0, 2, 2, 2, 5, 5, 5], [0, 1, 2, 3, 4, 5]],
    ids=str,
)
@pytest.mark.parametrize("include", [False, True])
def test_empty_segments_stand_anywhere_and_yield_their_initial_sum(client, offsets, include):
    for shape, axis in (((5,), 0), ((2, 5), 1), ((5, 2), 0)):
        stored = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        for reverse in (False, True):
            case = Case(
                TYPES["int32"],
                stored,
                TYPES["int32"],
                axis,
                reverse=reverse,
                initial=100,
                include_initial=include,
                offsets=offsets,
            )
            for name in attributes.FORMATS:
                attributes.check(client, case, name)


@pytest.mark.parametrize("offsets, sums", [([0], 0), ([0, 0], 1), ([0, 0, 0, 0], 3)], ids=str)
def test_an_axis_of_no_elements_has_an_initial_sum_for_each_segment(client, offsets, sums):
    for shape, axis in (((0,), 0), ((3, 0), 1), ((0, 3), 0)):
        case = Case(
            TYPES["int16"],
            np.empty(shape, np.int16),
            TYPES["int16"],
            axis,
            initial=7,
            include_initial=True,
            offsets=offsets,
        )
        actual = attributes.answered(case, attributes.as_raw(client, case))
        assert actual.shape[axis] == sums and (actual == 7).all()


# ---- lengths, strides, sizes ----

MIXED = [1, 2, 3, 0, 511, 512, 513, 4, 4, 4, 600, 1, 0, 0, 2000, 7, 7, 255, 256, 257, 16, 17, 1024]
LONG = [70000, 1, 70000, 3, 3, 0, 140000, *[9] * 200, 66000]


@pytest.fixture(scope="module")
def sliced(tmp_path_factory):
    """A server that cuts large tensors into many slices."""
    from support.tallyd import Tallyd

    server = Tallyd(tmp_path_factory.mktemp("sliced") / "log", ["--slice-bytes", "16KiB"])
    yield server
    server.check_alive()
    server.stop()


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("initial", [None, 3])
def test_short_and_long_segments_lie_side_by_side(client, sliced, dtype, initial):
    """Some segments are gathered, some are scanned in place, some are cut. Each type has long
    segments in each shape, with an initial sum in two of the shapes and without one in the
    others."""
    rng = np.random.default_rng(5)
    other = sliced.client()
    for lengths in (MIXED, LONG):
        size = sum(lengths)
        shapes = (((size,), 0), ((2, size), 1), ((size, 3), 0), ((2, size, 2), 1))
        if lengths is LONG:
            shapes = shapes[::3] if initial is None else shapes[1:3]
        for shape, axis in shapes:
            reverse = axis == 1
            stored = random_stored(dtype, shape, rng)
            case = Case(
                dtype,
                stored,
                dtype,
                axis,
                exclusive=shape[0] == size,
                reverse=reverse,
                initial=initial,
                offsets=of_lengths(lengths),
            )
            sums = attributes.expected(case)
            for where in (client, other):
                actual = attributes.answered(case, attributes.as_raw(where, case))
                assert oracle.same_bits(dtype, actual, sums), (shape, axis)
    other.close()


@pytest.mark.parametrize("columns", [600, 30001], ids=str)
def test_segments_of_many_columns_are_scanned_where_they_lie(client, columns):
    dtype, rng = TYPES["float32"], np.random.default_rng(6)
    stored = random_stored(dtype, (40, columns), rng)
    for initial, include in ((None, False), (None, True), (2.5, False)):
        case = Case(
            dtype,
            stored,
            dtype,
            0,
            initial=initial,
            include_initial=include,
            offsets=of_lengths([1, 0, 2, 30, 7]),
        )
        attributes.check(client, case)


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("lengths", [[1, 0, 3, 2], [2, 2, 2], [6]], ids=str)
@pytest.mark.parametrize(
    "shape, axis, strides, output_strides",
    [
        ((4, 6), 1, (1, 4), None),
        ((4, 6), 1, (0, 1), None),
        ((6, 4), 0, (0, 1), None),
        ((4, 6), 1, (6, 0), None),
        ((4, 6), 1, None, (15, 1)),
        ((4, 6), 1, None, (1, 8)),
        ((6, 4), 0, (7, 1), (40, 2)),
        ((6, 4), 0, (1, 1), (700, 40)),
        ((2, 6, 3), 1, (1, 2, 12), (3, 60, 1)),
    ],
)
def test_strides_on_both_sides_go_with_offsets(
    client, shape, axis, strides, output_strides, lengths, include
):
    rng = np.random.default_rng(7)
    dtype = TYPES["float32"]
    used = strides or tuple(int(np.prod(shape[d + 1 :])) for d in range(len(shape)))
    count = 1 + sum((size - 1) * stride for size, stride in zip(shape, used, strict=True))
    buffer = random_stored(dtype, count, rng, nans=True)
    view = np.lib.stride_tricks.as_strided(
        buffer, shape, [stride * buffer.itemsize for stride in used], writeable=False
    )
    case = Case(
        dtype,
        np.ascontiguousarray(view),
        dtype,
        axis,
        nan="skip",
        include_initial=include,
        offsets=of_lengths(lengths),
    )
    sums = attributes.expected(case)
    words = {"strides": list(used), **case.words()}
    if output_strides:
        words["output_strides"] = list(output_strides)
        ends = zip(sums.shape, output_strides, strict=True)
        laid_out = np.zeros(1 + sum((size - 1) * stride for size, stride in ends), dtype.storage)
        for index in np.ndindex(sums.shape):
            at = sum(i * stride for i, stride in zip(index, output_strides, strict=True))
            laid_out[at] = sums[index]
        sums = laid_out
    query = calls.query(dtype=case.name, shape=list(shape), **words)
    front, headers = case.front()
    answer = client.post("/v1/cumsum" + query, front + buffer.tobytes(), RAW, headers)
    assert answer.status == 200, answer
    actual = np.frombuffer(answer.body, dtype.storage)
    assert oracle.same_bits(dtype, actual, sums.reshape(-1)), (actual, sums)
    document = {
        "data": attributes.json_data(case, buffer),
        "dtype": case.name,
        "shape": list(shape),
        **case.json_offsets(),
    }
    answer = client.post_json("/v1/cumsum", {**document, **words})
    assert answer.status == 200 and answer.json()["shape"] == list(case.shape()), answer
    actual = dtype.from_json(answer.json()["data"]).reshape(-1)
    assert oracle.same_bits(dtype, actual, sums.reshape(-1)), (actual, sums)


def segment_sums(array, offsets):
    """For integers: the sums of the whole axis, minus the sum before the segment."""
    sums = np.cumsum(array, dtype=array.dtype)
    before = np.concatenate([[0], sums]).astype(array.dtype)[offsets[:-1]]
    return sums - np.repeat(before, np.diff(offsets))


@pytest.mark.parametrize("name", ["raw", "v2 binary", "flat json"])
def test_a_million_segments_have_the_sums_of_numpy(client, name):
    rng = np.random.default_rng(8)
    offsets = of_lengths(rng.integers(0, 5, 1_000_000))
    array = rng.integers(-1000, 1000, offsets[-1], np.int64)
    case = Case(TYPES["int64"], array, TYPES["int64"], offsets=offsets)
    actual = attributes.answered(case, attributes.FORMATS[name](client, case))
    assert np.array_equal(actual, segment_sums(array, offsets))


def test_a_segment_an_element_gives_the_elements_back(client):
    array = np.random.default_rng(9).integers(-1000, 1000, 300_000, np.int32)
    case = Case(TYPES["int32"], array, TYPES["int32"], offsets=np.arange(300_001))
    actual = attributes.answered(case, attributes.as_npy(client, case))
    assert np.array_equal(actual, array)


def test_groups_of_sorted_keys_are_those_of_pandas(client):
    """The conversion of sorted keys to offsets in docs/calling.md."""
    keys = np.repeat([3, 5, 8, 9], [4, 1, 3, 2])
    values = np.arange(10.0)
    offsets = np.concatenate([[0], np.flatnonzero(np.diff(keys)) + 1, [len(keys)]])
    answer = client.post_json(
        "/v1/cumsum", {"data": values.tolist(), "offsets": offsets.tolist(), "dtype": "float64"}
    )
    groups = [np.cumsum(values[keys == key]) for key in np.unique(keys)]
    assert answer.json()["data"] == np.concatenate(groups).tolist()


def test_a_nested_answer_has_a_sum_more_for_each_segment(client):
    document = {"data": [[1, 2, 3], [4, 5, 6]], "axis": 1, "offsets": [0, 1, 1, 3]}
    answer = client.post_json("/v1/cumsum", {**document, "include_initial": True})
    assert answer.json()["shape"] == [2, 6]
    assert answer.json()["data"] == [[0, 1, 0, 0, 2, 5], [0, 4, 0, 0, 5, 11]]


def test_the_answer_may_have_another_format_than_the_request(client):
    array = np.arange(6, dtype=np.int32)
    front = np.array([0, 2, 6], "<i8").tobytes()
    headers = {LENGTH: str(len(front)), "Accept": JSON}
    path = "/v1/cumsum?dtype=int32&shape=6"
    answer = client.post(path, front + array.tobytes(), RAW, headers)
    assert answer.json() == {"dtype": "int32", "shape": [6], "data": [0, 1, 2, 5, 9, 14]}


@pytest.mark.parametrize("content_type", [RAW, NPY])
def test_offsets_are_inside_of_a_packed_body(client, content_type):
    array = np.arange(3000, dtype=np.int32)
    offsets = np.arange(0, 3001, 3)
    tensor = array.tobytes() if content_type == RAW else calls.npy_bytes(array)
    front = offsets.astype("<i8").tobytes()
    headers = {LENGTH: str(len(front)), "Content-Encoding": "gzip", "Accept": RAW}
    query = "?dtype=int32&shape=3000" if content_type == RAW else ""
    answer = client.post("/v1/cumsum" + query, gzip.compress(front + tensor), content_type, headers)
    assert answer.status == 200, answer
    assert np.array_equal(np.frombuffer(answer.body, np.int32), segment_sums(array, offsets))


def test_a_chunked_body_begins_with_offsets_too(client):
    array, offsets = np.arange(50_000, dtype=np.int32), np.arange(0, 50_001, 2)
    body = offsets.astype("<i8").tobytes() + array.tobytes()
    pieces = (body[at : at + 7777] for at in range(0, len(body), 7777))
    headers = {LENGTH: str(8 * len(offsets))}
    answer = client.post("/v1/cumsum?dtype=int32&shape=50000", pieces, RAW, headers)
    assert answer.status == 200, answer
    assert np.array_equal(np.frombuffer(answer.body, np.int32), segment_sums(array, offsets))


# ---- refusals ----

WRONG = [
    ([1, 5], "offsets[0] is 1, expected 0"),
    ([-1, 5], "offsets[0] is -1, expected 0"),
    ([0, 3], "offsets[1], the last one, is 3, expected the size of the axis, 5"),
    ([0], "offsets[0], the last one, is 0"),
    ([0, 6], "offsets[1] is 6, beyond the axis"),
    ([0, 6, 5], "offsets[1] is 6, beyond the axis"),
    ([0, 3, 2, 5], "offsets[2] is 2, less than the offset before it, 3"),
    ([0, -1, 5], "offsets[1] is -1, less than the offset before it, 0"),
    ([0, 2**63 - 1, 5], "offsets[1] is 9223372036854775807, beyond the axis"),
    ([0, -(2**63), 5], "offsets[1] is -9223372036854775808, less than"),
]


@pytest.mark.parametrize("offsets, says", WRONG, ids=str)
@pytest.mark.parametrize("name", attributes.FORMATS)
def test_wrong_offsets_are_refused_with_their_index(client, name, offsets, says):
    for shape, axis in (((5,), 0), ((2, 5), -1)):
        stored = np.zeros(shape, np.float32)
        case = Case(TYPES["float32"], stored, TYPES["float32"], axis, offsets=offsets)
        answer = attributes.FORMATS[name](client, case)
        calls.expect_error(answer, 400, "invalid_field", "offsets", says)


@pytest.mark.parametrize(
    "text, says",
    [
        ("[]", "is empty"),
        ("[0,1.5,5]", "element 1 is 1.5"),
        ("[0,9223372036854775808,5]", "element 1 is 9223372036854775808"),
        ('[0,"a",5]', "element 1 is"),
        ("[0,true,5]", "element 1 is"),
        ("[0,null,5]", "element 1 is"),
        ("[0,[1],5]", "flat array of integers"),
        ("[[0,5]]", "flat array of integers"),
        ("5", "flat array of integers"),
        ("null", "flat array of integers"),
        ('"0,5"', "flat array of integers"),
        ("{}", "flat array of integers"),
    ],
)
def test_offsets_that_are_not_an_array_of_integers_are_refused(client, text, says):
    body = f'{{"data":[1,2,3,4,5],"offsets":{text}}}'
    answer = client.post("/v1/cumsum", body.encode(), JSON)
    calls.expect_error(answer, 400, None, "offsets", says)


def test_whole_numbers_are_offsets_however_they_are_written(client):
    body = b'{"offsets":[0,2e0, "3" ,5.0],"data":[1,2,3,4,5]}'
    assert client.post("/v1/cumsum", body, JSON).json()["data"] == [1, 3, 3, 4, 9]


@pytest.mark.parametrize(
    "length, says",
    [
        ("4", "the number of bytes of the offsets"),
        ("0", "the number of bytes of the offsets"),
        ("-8", "the number of bytes of the offsets"),
        ("x", "the number of bytes of the offsets"),
        ("12", "a multiple of 8"),
        ("8000", "Tally-Offsets-Length says that the offsets alone have 8000"),
        (str(2**63 - 8), "Tally-Offsets-Length says"),
        (str(2**64), "the number of bytes of the offsets"),
    ],
)
@pytest.mark.parametrize("content_type", [RAW, NPY])
def test_a_wrong_length_of_offsets_is_refused(client, content_type, length, says):
    array = np.arange(5, dtype=np.int32)
    tensor = array.tobytes() if content_type == RAW else calls.npy_bytes(array)
    query = "?dtype=int32&shape=5" if content_type == RAW else ""
    body = np.array([0, 5], "<i8").tobytes() + tensor
    answer = client.post("/v1/cumsum" + query, body, content_type, {LENGTH: length})
    calls.expect_error(answer, 400, says=says)


def test_a_chunked_body_that_ends_inside_of_its_offsets_is_refused(client):
    headers = {LENGTH: str(2**63 - 8)}
    answer = client.post("/v1/cumsum?dtype=int32&shape=5", iter([bytes(40)]), RAW, headers)
    calls.expect_error(answer, 400, "length_mismatch", "offsets", "the body has 40 bytes")


def test_a_tensor_that_ends_early_behind_offsets_is_refused(client):
    body = np.array([0, 5], "<i8").tobytes() + bytes(12)
    answer = client.post("/v1/cumsum?dtype=int32&shape=5", body, RAW, {LENGTH: "16"})
    calls.expect_error(answer, 400, "length_mismatch", says="12 bytes of data, expected 20")


@pytest.mark.parametrize("name", attributes.FORMATS)
def test_parts_have_no_offsets(client, name, monkeypatch):
    case = Case(TYPES["int32"], np.arange(5, dtype=np.int32), TYPES["int32"], offsets=[0, 2, 5])
    words = case.words()
    monkeypatch.setattr(Case, "words", lambda self: {**words, "part": "first"})
    answer = attributes.FORMATS[name](client, case)
    calls.expect_error(answer, 400, "invalid_field", "offsets", "a part ends where a segment ends")


def test_totals_and_carries_have_no_offsets(client):
    front, body = np.array([0, 5], "<i8").tobytes(), bytes(20)
    path = "/v1/cumsum/totals?dtype=int32&shape=5"
    answer = client.post(path, front + body, RAW, {LENGTH: "16"})
    calls.expect_error(answer, 400, "invalid_field", "offsets", "leave offsets out")
    answer = client.post_json("/v1/cumsum/totals", {"data": [1, 2], "offsets": [0, 2]})
    calls.expect_error(answer, 400, "invalid_field", "offsets", "leave offsets out")
    both = {LENGTH: "16", "Tally-Carry-Length": "80"}
    answer = client.post("/v1/cumsum?dtype=int32&shape=5&part=last", front + bytes(100), RAW, both)
    calls.expect_error(answer, 400, "invalid_field", "offsets", "leave offsets out")


def test_the_header_is_for_raw_and_npy_bodies(client):
    answer = client.post("/v1/cumsum", b'{"data":[1]}', JSON, {LENGTH: "16"})
    calls.expect_error(answer, 400, "invalid_field", LENGTH, "the member offsets, an array")
    body = b'{"inputs":[{"name":"x","shape":[1],"datatype":"INT32","data":[1]}]}'
    answer = client.post("/v2/models/cumsum/infer", body, JSON, {LENGTH: "16"})
    assert answer.status == 400 and b'the input \\"offsets\\"' in answer.body, answer


def test_descriptors_of_directml_and_openvino_know_no_offsets(client):
    tensor = {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 4]}
    desc = {"InputTensor": tensor, "OutputTensor": tensor, "Axis": 3}
    document = {"desc": desc, "data": [1, 2, 3, 4], "offsets": [0, 4]}
    answer = client.post_json("/v1/directml/cumulative_summation", document)
    calls.expect_error(answer, 400, "unknown_field", "offsets", "have no segments")
    inputs = [{"precision": "FP32", "shape": [4], "data": [1, 2, 3, 4]}]
    answer = client.post_json("/v1/openvino/cumsum-3", {"inputs": inputs, "offsets": [0, 4]})
    calls.expect_error(answer, 400, "unknown_field", "offsets", "have no segments")


def v2(client, offsets, model="cumsum", parameters=None, axis=None):
    inputs = [{"name": "x", "shape": [4], "datatype": "INT32", "data": [1, 2, 3, 4]}, offsets]
    body = b""
    if axis is not None:
        body = np.array(axis, "<i8").tobytes()
        place = {"binary_data_size": 8}
        inputs.append({"name": "axis", "shape": [], "datatype": "INT64", "parameters": place})
    head = json.dumps({"inputs": inputs, "parameters": parameters or {}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    return client.post(f"/v2/models/{model}/infer", head + body, RAW, headers)


@pytest.mark.parametrize(
    "change, says",
    [
        ({"datatype": "INT32"}, "the input offsets is of datatype INT64"),
        ({"shape": [1, 3]}, "the input offsets is of datatype INT64 and one dimension"),
        ({"shape": [0], "data": []}, "offsets is empty"),
        ({"shape": [2]}, "found 3 elements, expected 2"),
        ({"data": [0, 0.5, 4]}, "element 1 is 0.5"),
    ],
)
def test_an_input_that_is_no_row_of_int64_is_refused(client, change, says):
    offsets = {"name": "offsets", "shape": [3], "datatype": "INT64", "data": [0, 1, 4]}
    assert v2(client, offsets).json()["outputs"][0]["data"] == [1, 2, 5, 9]
    answer = v2(client, offsets | change)
    assert answer.status == 400 and says in answer.json()["error"], answer


def test_offsets_need_an_axis_that_is_known_before_the_body(client):
    offsets = {"name": "offsets", "shape": [3], "datatype": "INT64", "data": [0, 1, 4]}
    answer = v2(client, offsets, axis=0)
    assert answer.status == 400 and "with offsets the axis must be known" in answer.json()["error"]
    answer = v2(client, offsets, model="cumsum_reverse")
    assert answer.json()["outputs"][0]["data"] == [1, 9, 7, 4]


# ---- memory and time ----


def test_memory_is_counted_for_offsets_and_their_sums_before_it_is_taken(start_server):
    server = start_server("--memory-budget", "32MiB")
    client = server.client()
    many = {"name": "offsets", "shape": [1 << 23], "datatype": "INT64"}
    many["parameters"] = {"binary_data_size": 8 << 23}
    x = {"name": "x", "shape": [1], "datatype": "INT32", "data": [1]}
    head = json.dumps({"inputs": [x, many]}).encode()
    wire = server.wire()
    wire.send(
        b"POST /v2/models/cumsum/infer HTTP/1.1\r\nHost: x\r\n"
        + f"Content-Type: {RAW}\r\n".encode()
        + f"Inference-Header-Content-Length: {len(head)}\r\n".encode()
        + f"Content-Length: {len(head) + (8 << 23)}\r\n\r\n".encode()
        + head
    )
    answer = wire.answer()  # the refusal arrives before the offsets are sent
    assert answer.status == 413 and b"--memory-budget" in answer.body, answer
    wire.close()
    body = b'{"data":[1],"dtype":"int64","offsets":[' + b"0," * 4_000_000 + b"1]}"
    answer = client.post("/v1/cumsum", body, JSON)  # 8 MB of text become 32 MB of offsets
    assert answer.status == 413 and b"--memory-budget" in answer.body, answer
    front = np.array([0, 4 << 20], "<i8").tobytes()
    path = f"/v1/cumsum?dtype=int32&shape={4 << 20}"
    assert client.post(path, front + bytes(16 << 20), RAW, {LENGTH: "16"}).status == 200
    # with an initial value every segment is gathered, which needs 16 MiB more
    path += "&initial=1"
    answer = client.post(path, front + bytes(16 << 20), RAW, {LENGTH: "16"})
    assert answer.status == 413 and b"--memory-budget" in answer.body, answer
    until(lambda: b"\ntally_memory_reserved_bytes 0" in client.get("/metrics").body)
    client.close()
    server.check_alive()


def test_a_client_that_leaves_while_its_segments_are_gathered_ends_the_request(start_server):
    server = start_server()
    size = 2 << 20
    front = np.arange(0, size + 1, 2, dtype="<i8").tobytes()
    head = f"POST /v1/cumsum?dtype=int8&shape={size}&initial=1 HTTP/1.1\r\nHost: x\r\n"
    head += f"Content-Type: {RAW}\r\n{LENGTH}: {len(front)}\r\n"
    head += f"Content-Length: {len(front) + size}\r\n\r\n"
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(head.encode() + front + bytes(size))
    client = server.client()
    until(lambda: b"\ntally_memory_reserved_bytes 0" in client.get("/metrics").body)
    client.close()
    server.check_alive()


def test_empty_segments_cost_no_more_for_many_lines(client):
    """A million empty segments times a hundred thousand lines: the service must not visit each
    pair."""
    offsets = np.zeros(1_000_001, "<i8")
    offsets[-1] = 1
    array = np.arange(100_000, dtype=np.int32).reshape(-1, 1)
    case = Case(TYPES["int32"], array, TYPES["int32"], 1, offsets=offsets)
    actual = attributes.answered(case, attributes.as_raw(client, case))
    assert np.array_equal(actual, array)
