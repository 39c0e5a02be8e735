"""Refusals of /v1/cumsum: status, code, field and a helpful sentence."""

import gzip
import re

import numpy as np
import pytest

from support import calls

GOOD = {"data": [[1, 2, 3], [4, 5, 6]], "dtype": "int32"}

# A change to a valid document, the expected code and field.
JSON_REFUSALS = [
    ({"data": None}, ("invalid_data", "invalid_field", "missing_field"), "data"),
    ({"data": "x"}, ("invalid_data", "invalid_field"), "data"),
    ({"data": 5}, None, None),
    ({"data": {}}, ("invalid_data", "invalid_field"), "data"),
    ({"dtype": "float128"}, "invalid_dtype", "dtype"),
    ({"dtype": "FLOAT32"}, "invalid_dtype", "dtype"),
    ({"dtype": ""}, "invalid_dtype", "dtype"),
    ({"dtype": 3}, None, "dtype"),
    ({"dtype": None}, None, "dtype"),
    ({"axis": 2}, "invalid_axis", "axis"),
    ({"axis": -3}, "invalid_axis", "axis"),
    ({"axis": 9223372036854775807}, "invalid_axis", "axis"),
    ({"axis": -9223372036854775808}, "invalid_axis", "axis"),
    ({"axis": 9223372036854775808}, None, None),
    ({"axis": 0.5}, None, "axis"),
    ({"axis": "1"}, None, "axis"),
    ({"axis": True}, None, "axis"),
    ({"axis": None}, None, "axis"),
    ({"axis": [1]}, None, "axis"),
    ({"exclusive": 1}, None, "exclusive"),
    ({"exclusive": "true"}, None, "exclusive"),
    ({"exclusive": None}, None, "exclusive"),
    ({"reverse": 0}, None, "reverse"),
    ({"reverse": "false"}, None, "reverse"),
    ({"shape": 6}, None, "shape"),
    ({"shape": "6"}, None, "shape"),
    ({"shape": [2, "3"]}, None, None),
    ({"shape": [2, 2.5]}, None, "shape[1]"),
    ({"shape": [2, -3]}, None, None),
    ({"shape": [3, 3]}, None, None),
    ({"data": [1, 2], "shape": []}, None, None),
    ({"data": [1], "shape": [1] * 65}, "invalid_shape", "shape"),
    ({"data": [1, 2, 3], "shape": [2]}, None, None),
    ({"data": [1], "shape": [2]}, None, None),
    ({"data": [1], "shape": [4294967296, 4294967296, 4294967296]}, None, None),
    ({"data": [1], "shape": [9223372036854775807, 2]}, None, None),
    ({"axes": 0}, "unknown_field", "axes"),
    ({"precision": "wide"}, "unknown_field", "precision"),
    ({"Data": [1]}, "unknown_field", "Data"),
    ({"input": [1]}, "unknown_field", "input"),
    ({"": 1}, "unknown_field", ""),
]


@pytest.mark.parametrize("change, code, field", JSON_REFUSALS, ids=str)
def test_json_refusal(client, change, code, field):
    answer = client.post_json("/v1/cumsum", {**GOOD, **change})
    if answer.status == 413:
        calls.expect_error(answer, 413, "too_large")
        return
    calls.expect_error(answer, 400, code, field or None)


# Texts of Python that are no JSON, and words of the refusal.
PRINTED = {
    "array of one row": (b'{"data":[1 2 3]}', "element 0 is followed by '2'"),
    "array of rows": (b'{"data":[[1 2 3]\n [4 5 6]]}', "element 0 is followed by '2'"),
    "rows without commas": (b'{"data":[[1,2] [3,4]]}', "element 1 is followed by '[3'"),
    "repr of an array": (b'{"data":array([1, 2])}', 'json.dumps({"data": x.tolist()})'),
    "repr of a tensor": (b'{"data":tensor([1, 2])}', 'json.dumps({"data": x.tolist()})'),
    "booleans": (b'{"data":[True,False]}', "true and false in small letters"),
    "an attribute": (b'{"data":[1],"reverse":True}', "true and false in small letters"),
}


@pytest.mark.parametrize("kind", PRINTED)
def test_a_printed_value_of_python_inside_of_an_object_is_told_what_is_wrong(client, kind):
    body, says = PRINTED[kind]
    says = (says, "Python: json.dumps(x.tolist())") if "followed" in says else says
    calls.expect_error(client.post("/v1/cumsum", body, calls.JSON), 400, says=says)


@pytest.mark.parametrize("body", [b"", b" \n"], ids=str)
@pytest.mark.parametrize("content_type", [None, calls.JSON, calls.FORM], ids=str)
def test_an_empty_body_is_shown_an_example(client, content_type, body):
    answer = client.post("/v1/cumsum", body, content_type)
    calls.expect_error(answer, 400, "invalid_json", says=("is empty", '{"data": [1,2,3]}'))


THREE, MANY = calls.npy_bytes(np.zeros(3, np.float32)), calls.npy_bytes(np.zeros(99999))
ZIP = b"PK\x03\x04" + bytes(500)
RAW_3 = "?dtype=float32&shape=3"
RAW_MANY = "?dtype=float64&shape=99999"
# Bytes sent with a wrong type, and words of the refusal.
FOREIGN = {
    "npy as json": (calls.JSON, "", THREE, ("NPY file", "application/x-npy")),
    "long npy as json": (calls.JSON, "", MANY, ("NPY file", "application/x-npy")),
    "zip as nothing": (None, "", ZIP, ("ZIP archive", "numpy.save", "XLSX", "the sheet as CSV")),
    "csv as json": (calls.JSON, "", b"1,2\n3,4\n", ("CSV", '{"data": [[1,2],[3,4]]}')),
    "array as json": (calls.JSON, "", b"[1, 2]", ("an array, not an object", '{"data": [...]}')),
    "json as npy": (calls.NPY, "", b'{"data":[1,2]}', ("looks like JSON", calls.JSON)),
    "short json as npy": (calls.NPY, "", b"{}", ("looks like JSON", calls.JSON)),
    "nothing as npy": (calls.NPY, "", b"", ("is empty", "NPY file")),
    "zip as npy": (calls.NPY, "", ZIP, ("ZIP archive", "numpy.save")),
    "json as raw": (calls.RAW, RAW_3, b'{"data":[1,2]}', ("expected 12", "look like JSON")),
    "npy as raw": (calls.RAW, RAW_3, THREE, ("expected 12", "an NPY file", "application/x-npy")),
    "long npy as raw": (calls.RAW, RAW_MANY, MANY, ("128 bytes more, as the header of an NPY",)),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_body_of_another_kind_is_named_and_how_to_send_it(client, kind):
    media, query, body, says = FOREIGN[kind]
    calls.expect_error(client.post("/v1/cumsum" + query, body, media), 400, says=says)


@pytest.mark.parametrize("kind", ["npy as json", "long npy as json", "zip as npy", "json as raw"])
def test_a_packed_body_of_another_kind_is_named_too(client, kind):
    media, query, body, says = FOREIGN[kind]
    headers = {"Content-Encoding": "gzip"}
    answer = client.post("/v1/cumsum" + query, gzip.compress(body), media, headers)
    calls.expect_error(answer, 400, says=says)


V2_HEAD = b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32"}]}'
# Bodies that end inside their heads: path and headers.
CUT_HEADS = {
    "json as npy": ("/v1/cumsum", b"{}", {"Content-Type": calls.NPY}),
    "npy": ("/v1/cumsum", THREE[:50], {"Content-Type": calls.NPY}),
    "magic of npy": ("/v1/cumsum", THREE[:6], {"Content-Type": calls.NPY}),
    "carry": (
        "/v1/cumsum" + RAW_3 + "&part=last",
        bytes(20),
        {"Content-Type": calls.RAW, "Tally-Carry-Length": "1000"},
    ),
    "carry before npy": (
        "/v1/cumsum?part=last",
        bytes(20),
        {"Content-Type": calls.NPY, "Tally-Carry-Length": "100"},
    ),
} | {
    path: (path, V2_HEAD, {"Inference-Header-Content-Length": "1000"})
    for path in (
        "/v2/models/cumsum/infer",
        "/v1/directml/cumulative_summation",
        "/v1/openvino/cumsum-3",
    )
}


@pytest.mark.parametrize("kind", CUT_HEADS)
def test_a_body_that_ends_inside_its_head_is_refused_alike_however_it_comes(client, kind):
    path, body, headers = CUT_HEADS[kind]
    whole = calls.expect_error(client.post(path, body, headers=headers), 400)
    assert calls.expect_error(client.post(path, iter([body]), headers=headers), 400) == whole
    packed = {**headers, "Content-Encoding": "gzip"}
    assert calls.expect_error(client.post(path, gzip.compress(body), headers=packed), 400) == whole


def test_missing_data_is_refused(client):
    calls.expect_error(client.post_json("/v1/cumsum", {}), 400, "missing_field", "data")
    calls.expect_error(
        client.post_json("/v1/cumsum", {"dtype": "int32", "shape": [0]}),
        400,
        "missing_field",
        "data",
    )


def test_unknown_field_names_the_known_ones(client):
    document = calls.expect_error(client.post_json("/v1/cumsum", {**GOOD, "axes": 0}), 400)
    for name in ("data", "dtype", "shape", "axis", "exclusive", "reverse", "strides", "part"):
        assert name in document["error"]


V2 = "/v2/models/cumsum/infer"
V2_X = {"name": "x", "shape": [1], "datatype": "INT32", "data": [1]}
DIRECTML = "/v1/directml/cumulative_summation"
DIRECTML_TENSOR = {"DataType": "INT32", "Sizes": [1]}
DIRECTML_DESC = {
    "InputTensor": DIRECTML_TENSOR,
    "OutputTensor": DIRECTML_TENSOR,
    "Axis": 0,
    "AxisDirection": "INCREASING",
    "HasExclusiveSum": False,
}
OPENVINO = "/v1/openvino/cumsum-3"
OPENVINO_PORT = {"precision": "I32", "shape": [1], "data": [1]}
WIDE = {"precision": "wide"}
# Documents that are valid except for a precision, and the field that the error names.
PRECISIONS = {
    "json": ("/v1/cumsum", {"data": [1], **WIDE}, "precision"),
    "v2": (V2, {"inputs": [V2_X], "parameters": WIDE}, "parameters.precision"),
    "v2 input": (
        V2,
        {"inputs": [{**V2_X, "parameters": WIDE}]},
        "inputs[0].parameters.precision",
    ),
    "directml": (DIRECTML, {"desc": DIRECTML_DESC, "data": [1], **WIDE}, "precision"),
    "directml desc": (
        DIRECTML,
        {"desc": {**DIRECTML_DESC, **WIDE}, "data": [1]},
        "desc.precision",
    ),
    "directml tensor": (
        DIRECTML,
        {"desc": {**DIRECTML_DESC, "InputTensor": {**DIRECTML_TENSOR, **WIDE}}, "data": [1]},
        "desc.InputTensor.precision",
    ),
}


@pytest.mark.parametrize("path, document, field", PRECISIONS.values(), ids=PRECISIONS)
def test_the_refusal_of_precision_says_that_sums_are_always_exact(client, path, document, field):
    says = ["known here: ", "sums are always exact"]
    calls.expect_error(client.post_json(path, document), 400, "unknown_field", field, says=says)


@pytest.mark.parametrize(
    "path, body, content_type, length",
    [
        ("/v1/cumsum?dtype=int8&shape=1&precision=wide", b"1", calls.RAW, {}),
        ("/v1/cumsum?precision=wide", calls.npy_bytes(np.int8([1])), calls.NPY, {}),
        (
            "/v2/models/cumsum_int32/infer?precision=wide",
            bytes(4),
            None,
            {"Inference-Header-Content-Length": "0"},
        ),
    ],
    ids=["raw", "npy", "v2 raw"],
)
def test_the_refusal_of_precision_in_a_query_says_that_sums_are_always_exact(
    client, path, body, content_type, length
):
    answer = client.post(path, body, content_type, length)
    says = ["known are: ", "sums are always exact"]
    calls.expect_error(answer, 400, "unknown_field", "precision", says=says)


@pytest.mark.parametrize(
    "document, field",
    [
        ({"precision": "FP32", "inputs": [OPENVINO_PORT]}, "precision"),
        ({"attributes": WIDE, "inputs": [OPENVINO_PORT]}, "attributes.precision"),
    ],
    ids=["root", "attributes"],
)
def test_openvino_refuses_a_precision_outside_a_port_and_names_that_of_ports(
    client, document, field
):
    answer = client.post_json(OPENVINO, document)
    says = ["sums are always exact", "inputs[0].precision", "element type"]
    refusal = calls.expect_error(answer, 400, "unknown_field", field, says=says)
    assert "none is chosen" not in refusal["error"]


def test_the_precision_of_an_openvino_port_is_its_element_type(client):
    answer = client.post_json(OPENVINO, {"inputs": [OPENVINO_PORT]})
    assert answer.json() == {"outputs": [OPENVINO_PORT]}
    answer = client.post_json(OPENVINO, {"inputs": [{**OPENVINO_PORT, **WIDE}]})
    refusal = calls.expect_error(answer, 400, "invalid_dtype", "inputs[0].precision")
    assert "sums are always exact" not in refusal["error"]


JSON_ROUTES = ["/v1/cumsum", "/v1/cumsum/totals", OPENVINO, DIRECTML, "/v2/models/cumsum/infer"]


@pytest.mark.parametrize("path", JSON_ROUTES)
@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["without_mark", "with_mark"])
@pytest.mark.parametrize("text", ['{"data": [1, 2, 3]}', "[1, 2, 3]", "1,2\n3,4\n", "a,b\r\n1,2"])
def test_text_of_two_bytes_a_character_is_named(client, path, order, mark, text):
    body = (mark + text).encode(f"utf-16-{order}")
    answer = client.post(path, body, calls.JSON)
    says = (f"text in UTF-16{order.upper()}", "encode it as UTF-8, without a byte order mark")
    calls.expect_error(answer, 400, "invalid_json", says=says)


@pytest.mark.parametrize(
    "name, says",
    [
        ("axis", ["put axis into the body, as a field beside data", '"axis": 1}']),
        ("axes", ["dtype", "shape", "strides", "axis", "exclusive", "reverse", "part"]),
    ],
)
def test_a_query_with_a_json_body_is_refused_with_the_place_of_attributes(client, name, says):
    body = calls.json_body(GOOD)
    answer = client.post(f"/v1/cumsum?{name}=1", body, calls.JSON)
    calls.expect_error(answer, 400, "unknown_field", name, says)


@pytest.mark.parametrize("query", ["?dtype=float32&shape=3", "?axis=0"])
def test_bytes_with_a_query_and_curls_type_are_told_the_type_that_they_need(client, query):
    for body in (bytes(12), THREE):
        answer = client.post(f"/v1/cumsum{query}", body, calls.FORM)
        calls.expect_error(answer, 400, "unknown_field", says=(calls.RAW, calls.NPY))


def test_a_list_in_two_parameters_is_told_how_lists_are_written(client):
    """Python's `requests` sends params={"shape": [2, 2]} as shape=2&shape=2."""
    answer = client.post("/v1/cumsum?dtype=int32&shape=2&shape=2", bytes(16), calls.RAW)
    calls.expect_error(answer, 400, "invalid_field", "shape", "shape=2,3")


def test_unknown_dtype_names_the_known_ones(client):
    document = calls.expect_error(client.post_json("/v1/cumsum", {**GOOD, "dtype": "int"}), 400)
    for name in ("float16", "bfloat16", "float64", "int8", "uint64"):
        assert name in document["error"]


def test_axis_error_says_what_is_allowed(client):
    calls.expect_error(
        client.post_json("/v1/cumsum", {**GOOD, "axis": 7}),
        400,
        "invalid_axis",
        says=["7", "-2", "1"],
    )


# Query strings: parameters, code, field, body length (None: by the shape).
QUERY_REFUSALS = [
    ("", "missing_field", "dtype"),
    ("?shape=3", "missing_field", "dtype"),
    ("?dtype=int32", "missing_field", "shape"),
    ("?dtype=int33&shape=3", "invalid_dtype", "dtype"),
    ("?dtype=&shape=3", "invalid_dtype", "dtype"),
    ("?dtype=int32&shape=3,", None, "shape"),
    ("?dtype=int32&shape=,3", None, "shape"),
    ("?dtype=int32&shape=3,,1", None, "shape"),
    ("?dtype=int32&shape=-3", None, "shape"),
    ("?dtype=int32&shape=%2B3", None, "shape"),
    ("?dtype=int32&shape=3.0", None, "shape"),
    ("?dtype=int32&shape=0x3", None, "shape"),
    ("?dtype=int32&shape=3%20", None, "shape"),
    ("?dtype=int32&shape=99999999999999999999", None, "shape"),
    ("?dtype=int32&shape=18446744073709551616", None, "shape"),
    ("?dtype=int32&shape=[3]", None, "shape"),
    ("?dtype=int32&shape=" + ",".join("1" * 65), "invalid_shape", "shape"),
    ("?dtype=int32&shape=" + ",".join(["1"] * 2000), None, "shape"),
    ("?dtype=int32&shape=3&axis=1", "invalid_axis", "axis"),
    ("?dtype=int32&shape=3&axis=-2", "invalid_axis", "axis"),
    ("?dtype=int32&shape=3&axis=", None, "axis"),
    ("?dtype=int32&shape=3&axis=0.0", None, "axis"),
    ("?dtype=int32&shape=3&axis=zero", None, "axis"),
    ("?dtype=int32&shape=3&axis=99999999999999999999", None, "axis"),
    ("?dtype=int32&shape=3&precision=wide", "unknown_field", "precision"),
    ("?dtype=int32&shape=3&axes=0", "unknown_field", "axes"),
    ("?dtype=int32&shape=3&data=1", "unknown_field", "data"),
    ("?dtype=int32&shape=3&axis=0&axis=0", None, "axis"),
    ("?dtype=int32&shape=3&strides=1,1", "invalid_strides", "strides"),
    ("?dtype=int32&shape=3&strides=-1", None, "strides"),
    ("?dtype=int32&shape=3&output_strides=0", "invalid_strides", "output_strides"),
    ("?dtype=int32&shape=3&axis=%ZZ", None, None),
]


@pytest.mark.parametrize("query, code, field", QUERY_REFUSALS)
def test_raw_refusal(client, query, code, field):
    answer = client.post("/v1/cumsum" + query, bytes(12), calls.RAW)
    calls.expect_error(answer, 400, code, field)


@pytest.mark.parametrize("size", [0, 4, 12])
def test_rank_0_is_refused(client, size):
    answer = client.post("/v1/cumsum?dtype=int32&shape=", bytes(size), calls.RAW)
    calls.expect_error(answer, 400)


@pytest.mark.parametrize("query", ["?axis=1", "?axis=-2", "?axis=x"])
def test_npy_axis_refusal(client, query):
    answer = client.post("/v1/cumsum" + query, calls.npy_bytes(np.zeros(3, np.int32)), calls.NPY)
    calls.expect_error(answer, 400, field="axis")


@pytest.mark.parametrize("query", ["?dtype=int32", "?shape=3", "?strides=1"])
def test_npy_takes_type_and_shape_from_the_file_only(client, query):
    answer = client.post("/v1/cumsum" + query, calls.npy_bytes(np.zeros(3, np.int32)), calls.NPY)
    assert answer.status in (200, 400), answer
    if answer.status == 400:
        calls.expect_error(answer, 400, "unknown_field", query[1:].split("=")[0])
    else:
        assert calls.npy_array(answer.body).tolist() == [0, 0, 0]


def test_too_many_query_parameters_are_refused(client):
    query = "?dtype=int32&shape=3" + "".join(f"&p{at}=1" for at in range(100))
    calls.expect_error(client.post("/v1/cumsum" + query, bytes(12), calls.RAW), 400)


def one_number(dialect, dtype, number):
    """Path and document of a request with one number of a type; `dtype` is its name in v1."""
    short = dtype.upper().replace("FLOAT", "FP").replace("BFP", "BF")
    if dialect == "json":
        return "/v1/cumsum", {"data": [number], "dtype": dtype}
    if dialect == "openvino":
        name = short.replace("UINT", "U").replace("INT", "I")
        tensor = {"precision": name, "shape": [1], "data": [number]}
        return "/v1/openvino/cumsum-3", {"inputs": [tensor]}
    if dialect.startswith("v2"):
        x = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}
        tensor = {"name": "x", "shape": [1], "datatype": short, "data": [number]}
        if dialect == "v2 axis":
            return "/v2/models/cumsum/infer", {"inputs": [x, {**tensor, "name": "axis"}]}
        if dialect == "v2 carry":
            carry = {**tensor, "name": "carry", "shape": [80], "data": [number] * 80}
            return "/v2/models/cumsum/infer", {"inputs": [x, carry], "parameters": {"part": "last"}}
        return "/v2/models/cumsum/infer", {"inputs": [tensor]}
    tensor = {"DataType": dtype.upper(), "Sizes": [1, 1, 1, 1]}
    desc = {
        **{"InputTensor": tensor, "OutputTensor": tensor, "Axis": 0},
        **{"AxisDirection": "INCREASING", "HasExclusiveSum": False},
    }
    document = {"feature_level": dialect, "desc": desc, "data": [number]}
    return "/v1/directml/cumulative_summation", document


HOLDS_NOT = [
    *[("json", "int8", 128), ("json", "uint16", -1), ("json", "float16", 1e5)],
    *[("openvino", "int32", 2**31), ("openvino", "bfloat16", 1e39), ("openvino", "uint64", 0.5)],
    *[("v2", "int64", 2**63), ("v2", "uint32", -1), ("v2", "float32", 1e39)],
    *[("v2 axis", "int32", 2**31), ("v2 axis", "int64", 2**63), ("v2 axis", "int32", 0.5)],
    *[("v2 carry", "uint8", 256), ("v2 carry", "uint8", -1), ("v2 carry", "uint8", 0.5)],
    *[(level, "float16", 1e5) for level in ("2_1", "4_0", "5_0", "2020_10")],
    *[(level, "float32", 1e39) for level in ("2_1", "5_0")],
    *[(level, "uint32", -1) for level in ("3_1", "5_0", "2020_10")],
    *[(level, "int32", number) for level in ("4_1", "6_4") for number in (2**31, 2**40, 0.5)],
    *[("2020_10", "uint16", 2**16), ("2020_10", "uint16", 0.5)],
]


@pytest.mark.parametrize("dialect, dtype, number", HOLDS_NOT)
def test_the_types_that_a_refused_number_is_sent_to_take_it(client, dialect, dtype, number):
    path, document = one_number(dialect, dtype, number)
    sentence = calls.expect_error(client.post_json(path, document), 400, "invalid_data")["error"]
    named = re.search(r"; (.*) takes? it$", sentence)
    for other in re.split(", | and ", named[1]) if named else []:
        path, document = one_number(dialect, other, number)
        answer = client.post_json(path, document)
        assert answer.status == 200 or "invalid_axis" in answer.body.decode(), (sentence, answer)


@pytest.mark.parametrize("length", [0, 1, 11, 13, 16, 100000])
def test_raw_body_of_another_length_than_the_shape_is_refused(client, length):
    answer = client.post("/v1/cumsum?dtype=int32&shape=3", bytes(length), calls.RAW)
    document = calls.expect_error(answer, 400, "length_mismatch")
    assert "12" in document["error"] and str(length) in document["error"]


def test_shape_beyond_every_limit_is_413_or_400_and_never_allocates(client, server):
    before = server.rss_bytes()
    for shape in ("9223372036854775807", "1099511627776,1024", "4294967295,4294967295"):
        answer = client.post(f"/v1/cumsum?dtype=float64&shape={shape}", bytes(8), calls.RAW)
        assert answer.status in (400, 413), answer
        calls.expect_error(answer, answer.status)
    assert server.rss_bytes() - before < 64 << 20


# Paths and methods --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/v1",
        "/v1/",
        "/v1/cumsums",
        "/V1/cumsum",
        "/v1//cumsum",
        "/v2/models/none",
        "/v2/models/none/infer",
        "/v3",
        "/livez/x",
        "/..",
        "/v1/../livez",
        "/%2e%2e",
        "/favicon.ico",
        "/" + "a" * 4000,
    ],
)
def test_unknown_path_is_404(client, path):
    method = client.post if path.endswith("infer") else client.get
    answer = method(path)
    calls.expect_error(answer, 404, "not_found")


@pytest.mark.parametrize(
    "path, meant",
    [
        ("/v2/repository/list", "POST /v2/repository/index?"),
        ("/v2/systemsharedmemory", "GET /v2/systemsharedmemory/status?"),
        ("/v2/systemsharedmemory/region/a", "GET /v2/systemsharedmemory/status?"),
        ("/v2/model", "GET /v2/models?"),
        ("/v1/models", "GET /v2/models?"),
        ("/v1/models/cumsum:predict", "POST /v2/models/cumsum/infer?"),
        ("/v1/cumsun", "POST /v1/cumsum?"),
        ("/cumsum", "POST /v1/cumsum?"),
    ],
)
def test_an_unknown_path_is_told_which_one_is_near(start_server, client, path, meant):
    calls.expect_error(client.get(path), 404, "not_found", says=f"did you mean {meant}")
    based = start_server("--base-path", "/sums").client().get("/sums" + path)
    says = "did you mean {} /sums{}".format(*meant.split())
    calls.expect_error(based, 404, "not_found", says=says)


def test_a_tensor_posted_to_the_page_of_links_is_told_the_path_of_sums(start_server, client):
    says = "this path takes GET, HEAD; sums are computed by POST {}/v1/cumsum"
    answer = client.post_json("/", {"data": [1, 2]})
    calls.expect_error(answer, 405, "method_not_allowed", says=says.format(""))
    based = start_server("--base-path", "/sums").client().post_json("/sums/", {"data": [1, 2]})
    calls.expect_error(based, 405, "method_not_allowed", says=says.format("/sums"))


def near_misses(path):
    """Paths that a client may send by mistake instead of this one."""
    parts = path.strip("/").split("/")
    for i, part in enumerate(parts):
        for other in (
            part + "s",
            part[:-1],
            part[1:],
            part + ":predict",
            part.upper(),
            "x" + part,
            part + "/x",
        ):
            yield "/" + "/".join(parts[:i] + [other] + parts[i + 1 :])
        yield "/" + "/".join(parts[:i] + parts[i + 1 :])
    yield path + "/"
    yield "/v1" + path[3:]
    yield "/v2" + path[3:]


def test_what_is_suggested_exists_with_that_method(client):
    """Slightly wrong paths for every route, with names that exist and names that do not: the
    request that the refusal suggests must get neither 404 nor 405."""
    names = {
        "{model}": ["cumsum", "cumsum_fp32", "cumsun", "resnet50"],
        "{version}": ["1", "2"],
        "{region}": ["a", "a%20b"],
    }
    asked, told = {f"/v1/models/{name}:predict" for name in names["{model}"]}, set()
    for pattern in client.get("/openapi.json").json()["paths"]:
        forms = [pattern]
        for name, values in names.items():
            forms = [form.replace(name, value) for form in forms for value in values]
        assert not any("{" in form for form in forms), pattern
        asked.update(path for form in forms for path in near_misses(form))
    for method in ("GET", "POST"):
        for path in sorted(asked):
            answer = client.request(method, path)
            says = answer.json()["error"] if answer.status == 404 else ""
            meant = re.search(r"(GET|POST) (/\S*)(?: lists|\?$)", says)
            if meant:
                told.add(meant.groups())
    assert len(told) > 20
    for method, path in sorted(told):
        assert client.request(method, path).status not in (404, 405), (method, path)


@pytest.mark.parametrize("path", ["/v1/cumsum%00", "/v1%2fcumsum", "/%zz", "/%"])
def test_a_path_with_a_bad_escape_is_400(client, path):
    calls.expect_error(client.get(path), 400)


METHODS = {
    "/v1/cumsum": "POST",
    "/v1/directml/cumulative_summation": "POST",
    "/v1/openvino/cumsum-3": "POST",
    "/livez": "GET",
    "/readyz": "GET",
    "/metrics": "GET",
    "/version": "GET",
    "/v1/devices": "GET",
    "/openapi.json": "GET",
    "/v2": "GET",
    "/v2/health/live": "GET",
    "/v2/models": "GET",
    "/v2/models/cumsum": "GET",
    "/v2/models/cumsum/infer": "POST",
    "/v2/repository/index": "POST",
}


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "FROB"])
@pytest.mark.parametrize("path", METHODS)
def test_wrong_method_is_405_and_names_the_right_one(client, path, method):
    if method == METHODS[path]:
        return
    answer = client.request(method, path)
    calls.expect_error(answer, 405, "method_not_allowed", says=method)
    allowed = [name.strip() for name in answer.headers["Allow"].split(",")]
    assert METHODS[path] in allowed and method not in allowed


@pytest.mark.parametrize("path", [path for path, method in METHODS.items() if method == "GET"])
def test_head_is_get_without_a_body(client, path):
    answer = client.request("HEAD", path)
    assert answer.status == 200 and answer.body == b"", answer
    assert int(answer.headers["Content-Length"]) >= 0
    get = client.get(path)
    assert answer.headers["Content-Type"] == get.headers["Content-Type"]


def test_head_of_a_post_route_is_405(client):
    answer = client.request("HEAD", "/v1/cumsum")
    assert answer.status == 405 and answer.body == b"" and "POST" in answer.headers["Allow"]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, gzip", "x"])
def test_a_body_with_a_content_encoding_is_understood_or_refused(client, encoding):
    """An encoded body is never taken for plain bytes."""
    headers = {"Content-Encoding": encoding}
    answer = client.post("/v1/cumsum", b'{"data":[1,2,3]}', calls.JSON, headers)
    assert answer.status in (400, 415, 501), answer
    assert ("Accept-Encoding" in answer.headers) == (answer.status == 415)
    calls.expect_error(answer, answer.status)


def test_identity_content_encoding_is_no_encoding(client):
    headers = {"Content-Encoding": "identity"}
    answer = client.post("/v1/cumsum", b'{"data":[1,2,3]}', calls.JSON, headers)
    assert answer.status == 200, answer


@pytest.mark.parametrize(
    "method, path",
    [
        ("GET", "/v2/logging"),
        ("POST", "/v2/logging"),
        ("GET", "/v2/trace/setting"),
        ("POST", "/v2/models/cumsum/trace/setting"),
        ("POST", "/v2/repository/models/cumsum/load"),
        ("POST", "/v2/repository/models/cumsum/unload"),
    ],
)
def test_the_503_of_a_missing_feature_has_no_retry_after(client, method, path):
    answer = client.request(method, path, b"{}" if method == "POST" else None)
    calls.expect_error(answer, 503, "unsupported")
    assert "Retry-After" not in answer.headers, answer


def test_every_refusal_keeps_the_connection_usable(client):
    for _ in range(3):
        calls.expect_error(client.post("/v1/cumsum", b"{", calls.JSON), 400)
        sock = client.connection.sock
        answer = client.post("/v1/cumsum", b'{"data":[1,2]}', calls.JSON)
        assert answer.status == 200 and answer.json()["data"] == [1, 3]
        assert sock is not None and client.connection.sock is sock
