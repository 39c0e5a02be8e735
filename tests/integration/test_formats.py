"""The format of a request, the format of its answer, and the rules of each format."""

import io
import urllib.parse

import numpy as np
import pytest

from support import calls, dtypes

FLOAT32 = dtypes.BY_NAME["float32"]
MEDIA = {"json": calls.JSON, "raw": calls.RAW, "npy": calls.NPY}


def send(client, form, dtype, stored, accept=None, **attributes):
    if form == "json":
        return calls.post_json(client, dtype, stored, accept, **attributes)
    if form == "raw":
        return calls.post_raw(client, dtype, stored, accept, **attributes)
    return calls.post_npy(client, stored, accept, **attributes)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("answer_form", MEDIA)
@pytest.mark.parametrize("form", MEDIA)
def test_every_request_format_can_have_every_answer_format(client, form, answer_form, dtype):
    if "npy" in (form, answer_form) and dtype.npy is None:
        if form != "npy":
            stored = dtype.store([[1, 2], [3, 4]])
            answer = send(client, form, dtype, stored, MEDIA[answer_form])
            assert 400 <= answer.status < 500, answer
            calls.expect_error(answer, answer.status)
        return
    stored = dtype.random(np.random.default_rng(6), (3, 1, 5))
    answer = send(client, form, dtype, stored, MEDIA[answer_form], axis=2, exclusive=True)
    assert answer.headers["Content-Type"] == MEDIA[answer_form]
    actual = calls.stored_of(dtype, answer, stored.shape)
    calls.expect_same(dtype, actual, stored, axis=2, exclusive=True)


@pytest.mark.parametrize("form", MEDIA)
@pytest.mark.parametrize(
    "accept",
    [None, "*/*", "application/*", "text/html", "application/json, application/octet-stream", ""],
)
def test_answer_has_the_format_of_the_request_unless_accept_names_one(client, form, accept):
    stored = np.arange(6, dtype=np.float32)
    answer = send(client, form, FLOAT32, stored, accept)
    assert answer.status == 200, answer
    assert answer.headers["Content-Type"] == MEDIA[form]


@pytest.mark.parametrize("word", ["True", "true", "TRUE", "1"])
def test_the_booleans_of_any_client_are_understood_in_a_query(client, word):
    """Python's `requests` sends params={"exclusive": True} as exclusive=True."""
    stored = np.arange(1, 5, dtype=np.int32)
    query = f"?exclusive={word}&reverse={word}"
    raw = client.post(f"/v1/cumsum{query}&dtype=int32&shape=4", stored.tobytes(), calls.RAW)
    npy = client.post(f"/v1/cumsum{query}", calls.npy_bytes(stored), calls.NPY)
    v2 = client.request(
        "POST",
        f"/v2/models/cumsum_int32/infer{query}",
        stored.tobytes(),
        {"Content-Type": calls.RAW, "Inference-Header-Content-Length": "0"},
    )
    assert raw.status == npy.status == v2.status == 200, (raw, npy, v2)
    for answer in (raw, npy, v2):
        assert np.frombuffer(answer.body[-16:], np.int32).tolist() == [9, 7, 4, 0]


SPELLINGS = {
    "f4": "float32",
    "<f4": "float32",
    "float": "float32",
    "FP32": "float32",
    "double": "float64",
    "half": "float16",
    "bf16": "bfloat16",
    "INT64": "int64",
    "i8": "int64",
    "|u1": "uint8",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_type_has_the_spellings_of_numpy_c_and_the_protocols(client, spelling):
    """A spelling is accepted for elements and for sums, in the query and in JSON; the answer has
    the standard name."""
    name = SPELLINGS[spelling]
    dtype = dtypes.BY_NAME[name]
    stored = dtype.store([1, 2, 3])
    query = urllib.parse.quote(spelling)
    raw = client.post(f"/v1/cumsum?dtype={query}&shape=3", stored.tobytes(), calls.RAW)
    assert (raw.status, raw.headers["Tally-Dtype"]) == (200, name), raw
    assert raw.body == dtype.store([1, 3, 6]).tobytes()
    sums = client.post(
        f"/v1/cumsum?dtype={name}&shape=3&output_dtype={query}", stored.tobytes(), calls.RAW
    )
    assert (sums.status, sums.body) == (200, raw.body), sums
    for document in (
        {"data": [1, 2, 3], "dtype": spelling},
        {"data": [1, 2, 3], "dtype": name, "output_dtype": spelling},
    ):
        answer = client.post_json("/v1/cumsum", document)
        assert answer.status == 200, answer
        assert answer.json() == {"dtype": name, "shape": [3], "data": [1, 3, 6]}
    x = {"name": "x", "shape": [3], "datatype": dtype.kserve, "data": [1, 2, 3]}
    infer = client.post_json(
        "/v2/models/cumsum/infer", {"parameters": {"output_dtype": spelling}, "inputs": [x]}
    )
    assert infer.status == 200, infer
    assert infer.json()["outputs"][0]["datatype"] == dtype.kserve


@pytest.mark.parametrize("other", [">f4", "I8", "int", "FLOAT32"])
def test_another_spelling_is_refused_with_the_names_and_examples_of_spellings(client, other):
    query = urllib.parse.quote(other)
    raw = client.post(f"/v1/cumsum?dtype={query}&shape=1", bytes(4), calls.RAW)
    json = client.post_json("/v1/cumsum", {"data": [1], "dtype": other})
    for answer in (raw, json):
        says = ("float32", "uint64", "<f4", "double", "FP32")
        calls.expect_error(answer, 400, "invalid_dtype", "dtype", says=says)


def test_whole_numbers_are_integers_in_the_json_of_every_dialect(client):
    """JavaScript and pandas may write 2.0 for 2; JSON Schema defines both as integers."""
    plain = {"data": [1.0, 2e0, 3, 4], "dtype": "int32", "shape": [2.0, 2], "axis": -1.0}
    assert client.post_json("/v1/cumsum", plain).json()["data"] == [1, 3, 3, 7]
    v2 = {
        "parameters": {"axis": 1.0},
        "inputs": [{"name": "x", "datatype": "INT8", "shape": [2.0, 2], "data": [1.0, 2, 3, 4]}],
    }
    assert client.post_json("/v2/models/cumsum/infer", v2).json()["outputs"][0]["data"] == [
        *(1, 3, 3, 7)
    ]
    tensor = {"DataType": "UINT32", "Sizes": [2.0, 2]}
    directml = {
        "desc": {
            **{"InputTensor": tensor, "OutputTensor": tensor, "Axis": 1.0},
            **{"AxisDirection": "INCREASING", "HasExclusiveSum": False},
        },
        "data": [1.0, 2, 3, 4],
    }
    answer = client.post_json("/v1/directml/cumulative_summation", directml)
    assert answer.json()["data"] == [1, 3, 3, 7]
    openvino = {
        "inputs": [
            {"precision": "I64", "shape": [2.0, 2], "data": [1.0, 2, 3, 4]},
            {"precision": "I32", "shape": [], "data": -1.0},
        ]
    }
    answer = client.post_json("/v1/openvino/cumsum-3", openvino)
    assert answer.json()["outputs"][0]["data"] == [1, 3, 3, 7]


@pytest.mark.parametrize(
    "accept",
    ["Application/Octet-Stream", " application/octet-stream ", "application/octet-stream;q=1"],
)
def test_accept_is_a_media_type_not_a_string(client, accept):
    answer = send(client, "json", FLOAT32, np.arange(3, dtype=np.float32), accept)
    assert answer.status == 200 and answer.headers["Content-Type"] == calls.RAW


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "application/json",
        "application/json; charset=utf-8",
        "APPLICATION/JSON",
        "application/json;charset=UTF-8",
        "application/x-www-form-urlencoded",
    ],
)
def test_json_is_the_format_of_json_missing_and_form_types(client, content_type):
    answer = client.post("/v1/cumsum", b'{"data":[1,2,3]}', content_type)
    assert answer.status == 200, answer
    assert answer.headers["Content-Type"] == calls.JSON
    assert answer.json() == {"dtype": "int64", "shape": [3], "data": [1, 3, 6]}


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/xml",
        "application/jsonx",
        "image/png",
        "json",
        "multipart/form-data",
        "application/octet-streams",
        "application/x-numpy",
        ",",
        ";",
    ],
)
def test_any_other_content_type_is_415(client, content_type):
    answer = client.post("/v1/cumsum", b'{"data":[1,2,3]}', content_type)
    calls.expect_error(answer, 415, "unsupported_media_type")
    # this header would say that the encoding is not supported
    assert "Accept-Encoding" not in answer.headers
    for words in (
        "application/octet-stream (raw bytes)",
        "application/x-npy (NPY files)",
        "-H 'Content-Type: application/json'",
    ):
        assert words in answer.json()["error"]


@pytest.mark.parametrize(
    "path, content_type, says",
    [
        ("/v1/cumsum", "text/csv", "the command tally cumsum FILE"),
        ("/v1/cumsum/totals", "text/plain", "application/x-npy (NPY files)"),
        ("/v1/cumsum", "multipart/form-data; boundary=x", "--data-binary @FILE instead of -F"),
        ("/v1/directml/cumulative_summation", "application/x-npy", "JSON followed by binary"),
        ("/v1/openvino/cumsum-3", "text/csv", "JSON followed by binary"),
    ],
)
def test_a_415_says_how_to_send_the_body(client, path, content_type, says):
    answer = client.post(path, b"1,2\n", content_type)
    refusal = calls.expect_error(answer, 415, "unsupported_media_type", "Content-Type", says)
    assert "-H 'Content-Type: application/json'" in refusal["error"]
    assert ("application/x-npy (" in refusal["error"]) == path.startswith("/v1/cumsum")


def test_the_415_of_a_content_encoding_says_how_to_send_the_body(client):
    headers = {"Content-Encoding": "zstd"}
    answer = client.post("/v1/cumsum", b'{"data":[1]}', calls.JSON, headers)
    says = ("Content-Encoding: gzip", "without this header")
    calls.expect_error(answer, 415, "unsupported_media_type", "Content-Encoding", says)


@pytest.mark.parametrize("content_type", [None, calls.JSON, calls.FORM], ids=str)
@pytest.mark.parametrize(
    "query, body, code, says",
    [
        ("axis=1", b'{"data":[1]}', "unknown_field", "put axis into the body, as a field beside"),
        ("shape=3", b"[1,2,3]", "unknown_field", "put shape into the body, as a field beside"),
        ("axes=1", b'{"data":[1]}', "unknown_field", "data, dtype, shape, strides"),
        ("dtype=float32&shape=1", b"\0\0\x80?", "unknown_field", "octet-stream'"),
        ("axis=0", b"\x93NUMPY\x01\0v\0{", "unknown_field", "the body is an NPY file"),
        ("axis=0", b"data=1&data=2", "invalid_json", "send a JSON object"),
        ("axis=0", b"", "invalid_json", "the body is empty"),
    ],
    ids=str,
)
def test_a_query_where_none_is_read_is_told_where_attributes_belong(
    client, content_type, query, body, code, says
):
    answer = client.post(f"/v1/cumsum?{query}", body, content_type)
    field = query.split("=")[0] if code == "unknown_field" else None
    calls.expect_error(answer, 400, code, field, says)


@pytest.mark.parametrize(
    "path, says",
    [
        ("/v1/directml/cumulative_summation", "Axis, AxisDirection and HasExclusiveSum"),
        ("/v1/openvino/cumsum-3", "the axis as the second of the inputs"),
    ],
)
def test_a_dialect_without_query_says_where_its_attributes_belong(client, path, says):
    answer = client.post(f"{path}?axis=1", b"{}", calls.JSON)
    calls.expect_error(answer, 400, "unknown_field", "axis", says)


# JSON ---------------------------------------------------------------------------------------


def test_nested_data_gives_nested_and_flat_data_flat(client):
    nested = {"data": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], "axis": 2}
    answer = client.post_json("/v1/cumsum", nested).json()
    assert answer == {
        "dtype": "int64",
        "shape": [2, 2, 2],
        "data": [[[1, 3], [3, 7]], [[5, 11], [7, 15]]],
    }
    flat = {"data": [1, 2, 3, 4, 5, 6, 7, 8], "shape": [2, 2, 2], "axis": 2}
    answer = client.post_json("/v1/cumsum", flat).json()
    assert answer == {"dtype": "int64", "shape": [2, 2, 2], "data": [1, 3, 3, 7, 5, 11, 7, 15]}


@pytest.mark.parametrize(
    "data, dtype",
    [
        ([1, 2, 3], "int64"),
        ([1, 2.0, 3], "float64"),
        ([1, 2, 3e0], "float64"),
        ([-0, 5], "int64"),
        ([[1], [2.5]], "float64"),
        (["NaN", 1], "float64"),
        ([1, "Infinity"], "float64"),
        ([1, float("nan")], "float64"),
        ([1, None], "float64"),
    ],
    ids=str,
)
def test_missing_dtype_follows_numpys_rule(client, data, dtype):
    answer = client.post_json("/v1/cumsum", {"data": data})
    assert answer.status == 200, answer
    assert answer.json()["dtype"] == dtype


def test_shape_given_with_nested_data_must_agree(client):
    good = {"data": [[1, 2], [3, 4]], "shape": [2, 2]}
    assert client.post_json("/v1/cumsum", good).json()["data"] == [[1, 2], [4, 6]]
    for shape in ([4], [2, 3], [1, 2, 2], [2]):
        bad = {"data": [[1, 2], [3, 4]], "shape": shape}
        calls.expect_error(client.post_json("/v1/cumsum", bad), 400)


@pytest.mark.parametrize(
    "data, field, says",
    [
        ([[1, 2], [3]], "data[1]", "data[1] has 1 element, but data[0] has 2:"),
        ([[1, 2], [3, 4, 5]], "data[1]", "data[1] has 3 elements, but data[0] has 2:"),
        ([[1], []], "data[1]", "data[1] has 0 elements, but data[0] has 1:"),
        ([[[1]], [[1, 2]]], "data[1][0]", "data[1][0] has 2 elements, but data[0][0] has 1:"),
        ([[[1], [2]], [[3]]], "data[1]", "data[1] has 1 element, but data[0] has 2:"),
        ([[1, 2], 3], "data[1]", "nest every number equally deep"),
        ([1, [2]], "data[1]", "nest every number equally deep"),
    ],
    ids=str,
)
def test_ragged_nesting_is_refused_and_says_where(client, data, field, says):
    answer = client.post_json("/v1/cumsum", {"data": data})
    refusal = calls.expect_error(answer, 400, "invalid_shape", field, says)
    assert ("offsets" in refusal["error"]) == ("has" in says)


def test_ragged_rows_can_be_summed_as_their_refusal_advises(client):
    """The example in the refusal is a request that works."""
    answer = client.post_json("/v1/cumsum", {"data": [1, 2, 3], "offsets": [0, 2, 3]})
    assert answer.json()["data"] == [1, 3, 3]
    refusal = client.post_json("/v1/cumsum", {"data": [[1, 2], [3]]}).json()["error"]
    assert "[1,2,3] with offsets [0,2,3] for rows of 2 and 1" in refusal


def test_specials_are_strings_in_both_directions(client):
    document = {"data": ["-Infinity", 1, "NaN", 2], "dtype": "float32"}
    answer = client.post_json("/v1/cumsum", document)
    assert answer.status == 200, answer
    assert answer.json()["data"] == ["-Infinity", "-Infinity", "NaN", "NaN"]
    document = {"data": [1, "Infinity"], "dtype": "float16"}
    assert client.post_json("/v1/cumsum", document).json()["data"] == [1, "Infinity"]


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_json_floats_are_the_shortest_text_that_reads_back(client, dtype):
    rng = np.random.default_rng(12)
    stored = dtype.store(rng.standard_normal(500) * 10.0 ** rng.integers(-6, 4, 500))
    document = {"data": dtype.json_values(stored.reshape(-1, 1)), "dtype": dtype.name, "axis": 1}
    answer = client.post_json("/v1/cumsum", document)
    back = dtype.from_json(answer.json()["data"]).reshape(-1)
    assert back.tobytes() == stored.tobytes()
    longest = {"float16": 12, "bfloat16": 12, "float32": 16, "float64": 25}[dtype.name]
    texts = answer.body.split(b'"data":')[1].translate(None, b"[]} \n").split(b",")
    assert len(texts) == 500
    assert max(len(text) for text in texts) <= longest
    if dtype.name == "float64":
        assert [float(text) for text in texts] == stored.tolist()
        python = [len(repr(value)) for value in stored.tolist()]
        assert sum(len(text) for text in texts) <= sum(python) + len(texts)


@pytest.mark.parametrize(
    "text, value",
    [
        ("0.1", 0.1),
        ("1e22", 1e22),
        ("123456789012345678901234567890", 1.2345678901234568e29),
        ("2.2250738585072011e-308", 2.2250738585072011e-308),
        ("5e-324", 5e-324),
        ("1e-400", 0.0),
        ("0.000000000000000000000000000000000000001", 1e-39),
        ("9007199254740993.0", 9007199254740992.0),
        ("1.7976931348623157e308", 1.7976931348623157e308),
    ],
)
def test_json_float64_numbers_are_read_exactly(client, text, value):
    body = f'{{"data":[{text}],"dtype":"float64"}}'.encode()
    answer = client.post("/v1/cumsum", body, calls.JSON)
    assert answer.status == 200, answer
    assert answer.json()["data"] == [value]


@pytest.mark.parametrize(
    "dtype, value",
    [
        ("int8", "128"),
        ("int8", "-129"),
        ("uint8", "256"),
        ("uint8", "-1"),
        ("int16", "32768"),
        ("uint16", "65536"),
        ("int32", "2147483648"),
        ("int32", "-2147483649"),
        ("uint32", "4294967296"),
        ("int64", "9223372036854775808"),
        ("uint64", "18446744073709551616"),
        ("uint64", "-1"),
        ("int32", "1.5"),
        ("int32", "1.25e1"),
        ("int32", "1e10"),
        ("int64", "99999999999999999999999"),
        ("float32", "1e39"),
        ("float16", "65520"),
        ("float64", "1e309"),
        ("bfloat16", "3.4e38"),
        ("int32", '"NaN"'),
        ("float32", '"null"'),
        ("float32", "true"),
        ("int32", "null"),
        ("float32", '"1"'),
        ("int32", "{}"),
    ],
)
def test_number_that_its_type_cannot_hold_is_refused_with_its_index(client, dtype, value):
    body = f'{{"data":[1,0,{value}],"dtype":"{dtype}"}}'.encode()
    document = calls.expect_error(client.post("/v1/cumsum", body, calls.JSON), 400)
    assert "2" in document["error"] or "[2]" in document.get("field", ""), document


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"null",
        b"[]",
        b"[1,2,3]",
        b'"data"',
        b"{",
        b'{"data":[1,2,3]',
        b'{"data":[1,,2]}',
        b'{"data":[1,2,3]}x',
        b'{"data":[01]}',
        b'{"data":[+1]}',
        b'{"data":[1.]}',
        b'{"data":[.5]}',
        b'{"data":[NaN7]}',
        b'{"data":[+Infinity]}',
        b'{"data":[1e]}',
        b'{"data":[0x10]}',
        b"{'data':[1]}",
        b'{"data":[1],}',
        b'\xff\xfe{"data":[1]}',
        b'{"data":[1],"axis":0,"axis":0}',
        b'{"data":[1],"data":[2]}',
        b'{"data":[1\x00]}',
        b'{"data":[1,]}',
        b'{"data":[--1]}',
        b'{"data":[1 2]}',
        b'{"data":[-]}',
        b'{"dtype":"\xff","data":[1]}',
    ],
)
def test_malformed_json_is_refused(client, body):
    answer = client.post("/v1/cumsum", body, calls.JSON)
    calls.expect_error(answer, 400)


def test_json_may_have_blanks_and_any_key_order(client):
    body = b' \r\n\t{ "axis" : 1 ,\n"data" : [ [ 1 , 2 ] , [ 3 , 4 ] ] , "dtype":"int32"} \n'
    answer = client.post("/v1/cumsum", body, calls.JSON)
    assert answer.json() == {"dtype": "int32", "shape": [2, 2], "data": [[1, 3], [3, 7]]}


def test_json_keys_may_be_escaped(client):
    body = rb'{"d\u0061ta":[1,2],"dtyp\u0065":"int32"}'
    answer = client.post("/v1/cumsum", body, calls.JSON)
    if answer.status == 200:
        assert answer.json() == {"dtype": "int32", "shape": [2], "data": [1, 3]}
    else:
        calls.expect_error(answer, 400)


@pytest.mark.parametrize("depth", [65, 80, 100, 1000, 100000])
def test_too_deep_nesting_is_refused(client, depth):
    body = b'{"data":' + b"[" * depth + b"1" + b"]" * depth + b"}"
    calls.expect_error(client.post("/v1/cumsum", body, calls.JSON), 400)
    body = b'{"x":' + b'{"x":' * depth + b"1" + b"}" * depth + b"}"
    calls.expect_error(client.post("/v1/cumsum", body, calls.JSON), 400)


def test_nesting_of_rank_64_is_accepted(client):
    body = b'{"data":' + b"[" * 64 + b"7,8" + b"]" * 64 + b',"axis":-1}'
    answer = client.post("/v1/cumsum", body, calls.JSON)
    assert answer.status == 200, answer
    assert answer.json()["shape"] == [1] * 63 + [2]
    assert b"[" * 64 + b"7,15" + b"]" * 64 in answer.body.replace(b" ", b"")


def test_empty_json_arrays_are_empty_tensors(client):
    answer = client.post_json("/v1/cumsum", {"data": [], "dtype": "float32"})
    assert answer.status == 200, answer
    assert answer.json() == {"dtype": "float32", "shape": [0], "data": []}
    answer = client.post_json("/v1/cumsum", {"data": [[], []], "dtype": "int8", "axis": 1})
    assert answer.json() == {"dtype": "int8", "shape": [2, 0], "data": [[], []]}
    answer = client.post_json("/v1/cumsum", {"data": [], "dtype": "int8", "shape": [0, 3]})
    assert answer.json() == {"dtype": "int8", "shape": [0, 3], "data": []}


@pytest.mark.parametrize("shape", [(2, 0, 3), (1, 0, 1, 7), (3, 2, 0, 0, 5), (2, 0)], ids=str)
def test_the_lists_of_an_empty_array_agree_with_its_shape(client, shape):
    """NumPy's tolist() ends at the first dimension of 0: the lists do not show the later
    dimensions."""
    data = np.zeros(shape, np.float32).tolist()
    document = {"data": data, "dtype": "float32", "shape": list(shape), "axis": -1}
    answer = client.post_json("/v1/cumsum", document)
    assert answer.json() == {"dtype": "float32", "shape": list(shape), "data": data}
    for other in ([shape[0] + 1, *shape[1:]], [shape[0]], [1, *shape]):
        refused = client.post_json("/v1/cumsum", {**document, "shape": other})
        calls.expect_error(refused, 400, "invalid_shape", "shape")


@pytest.mark.parametrize("damaged", [(150000,), (150000, 160000), (10, 150000), (199999,)])
def test_the_first_error_of_a_long_json_text_is_reported(client, damaged):
    """Long texts are read in parallel pieces, which must not affect the result."""
    numbers = ["1.25"] * 200000
    for index in damaged:
        numbers[index] = f"oops{index}"
    answer = client.post("/v1/cumsum", f'{{"data":[{",".join(numbers)}]}}'.encode(), calls.JSON)
    first = min(damaged)
    calls.expect_error(
        answer, 400, "invalid_data", f"data[{first}]", f"element {first} is 'oops{first}'"
    )


@pytest.mark.parametrize("length", [5000, 200000])
def test_long_json_texts_are_read_and_printed_exactly(client, length):
    values = np.random.default_rng(14).standard_normal(length)
    answer = calls.post_json(client, dtypes.BY_NAME["float64"], values)
    actual = calls.stored_of(dtypes.BY_NAME["float64"], answer, values.shape)
    calls.expect_same(dtypes.BY_NAME["float64"], actual, values)


# Raw ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("word, value", [("true", 1), ("1", 1), ("false", 0), ("0", 0)])
def test_query_booleans(client, word, value):
    stored = np.array([1, 2, 3], np.int32)
    path = f"/v1/cumsum?dtype=int32&shape=3&exclusive={word}"
    answer = client.post(path, stored.tobytes(), calls.RAW)
    expected = [0, 1, 3] if value else [1, 3, 6]
    assert np.frombuffer(answer.body, np.int32).tolist() == expected


@pytest.mark.parametrize("name", ["exclusive", "reverse"])
@pytest.mark.parametrize("word", ["yes", "T", "2", "", "-1", "on"])
def test_other_query_booleans_are_refused(client, name, word):
    path = f"/v1/cumsum?dtype=int32&shape=1&{name}={word}"
    calls.expect_error(client.post(path, bytes(4), calls.RAW), 400, field=name)


def test_query_is_percent_decoded(client):
    path = "/v1/cumsum?dtype=%69nt32&shape=1%2C3&axi%73=%2D1"
    answer = client.post(path, np.array([1, 2, 3], np.int32).tobytes(), calls.RAW)
    assert answer.status == 200 and answer.headers["Tally-Shape"] == "1,3"
    assert np.frombuffer(answer.body, np.int32).tolist() == [1, 3, 6]


# NPY ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d.npy], ids=str)
def test_npy_versions_orders_and_endians_round_trip(client, dtype, endian, order, version):
    stored = dtype.random(np.random.default_rng(15), (4, 1, 6))
    array = np.asarray(stored.astype(stored.dtype.newbyteorder(endian)), order=order)
    answer = client.post("/v1/cumsum?axis=2", calls.npy_bytes(array, version), calls.NPY)
    actual = calls.stored_of(dtype, answer, stored.shape)
    calls.expect_same(dtype, actual, stored, axis=2)


def npy_head(text, version=b"\x01\x00", magic=b"\x93NUMPY"):
    text = text.encode("latin-1") + b"\n"
    width = 2 if version[0] == 1 else 4
    return magic + version + len(text).to_bytes(width, "little") + text


GOOD = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }"


def test_npy_header_is_read_as_python_writes_it(client):
    for text in [
        GOOD,
        GOOD + " " * 70,
        '{"descr": "<i4", "fortran_order": False, "shape": (3,)}',
        "{'shape': (3,), 'fortran_order': True, 'descr': '<i4'}",
        "{'descr':'<i4','fortran_order':False,'shape':(3,)}",
        "{'descr': '=i4', 'fortran_order': False, 'shape': (3,), }",
    ]:
        body = npy_head(text) + np.array([1, 2, 3], np.int32).tobytes()
        answer = client.post("/v1/cumsum", body, calls.NPY)
        assert answer.status == 200, (text, answer)
        assert calls.npy_array(answer.body).tolist() == [1, 3, 6]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPX\x01\x00" + bytes(200),
        npy_head(GOOD, version=b"\x04\x00") + bytes(12),
        npy_head(GOOD)[:-5],
        npy_head(GOOD) + bytes(11),
        npy_head(GOOD) + bytes(13),
        npy_head(GOOD),
        npy_head("{}") + bytes(12),
        npy_head("not a dict") + bytes(12),
        npy_head(GOOD.replace("<i4", "<U4")) + bytes(12),
        npy_head(GOOD.replace("<i4", "|O")) + bytes(12),
        npy_head(GOOD.replace("<i4", "<c8")) + bytes(24),
        npy_head(GOOD.replace("'<i4'", "[('a', '<i4')]")) + bytes(12),
        npy_head(GOOD.replace("(3,)", "(-3,)")) + bytes(12),
        npy_head(GOOD.replace("(3,)", "()")) + bytes(4),
        npy_head(GOOD.replace("(3,)", "3")) + bytes(12),
        npy_head(GOOD.replace("(3,)", "(3.0,)")) + bytes(12),
        npy_head(GOOD.replace("(3,)", "(99999999999999999999,)")) + bytes(12),
        npy_head(GOOD.replace("(3,)", "(4294967296, 4294967296)")) + bytes(12),
        npy_head(GOOD.replace("False", "0")) + bytes(12),
        npy_head(GOOD.replace("}", "'x': 1}")) + bytes(12),
        npy_head(GOOD + "(") + bytes(12),
        b"\x93NUMPY\x01\x00\xff\xff" + b" " * 100,
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 100,
    ],
)
def test_malformed_npy_is_refused(client, body):
    calls.expect_error(client.post("/v1/cumsum", body, calls.NPY), 400)


def test_npy_answer_loads_and_keeps_the_shape(client):
    for shape in [(1,), (2, 3), (2, 0, 3), (1, 1, 1, 1, 4)]:
        stored = np.ones(shape, np.float32)
        answer = calls.post_npy(client, stored, axis=len(shape) - 1)
        loaded = np.load(io.BytesIO(answer.body))
        assert loaded.shape == shape and loaded.dtype == np.float32
        assert len(answer.body) == (answer.body.index(b"\n") + 1) + stored.nbytes
        assert (answer.body.index(b"\n") + 1) % 64 == 0
