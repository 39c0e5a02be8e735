"""Elements of JSON in every form: v1, v2, DirectML and OpenVINO read the same forms in the same
way."""

import pytest
from support import calls, dtypes

OPENVINO = {"float16": "FP16", "bfloat16": "BF16", "float32": "FP32", "float64": "FP64"}
DIRECTML_TYPES = ("float16", "float32", "int32", "int64", "uint32", "uint64")
NAN = ('"NaN"', "NaN", "null", "nan", '"nan"')
PLUS = ('"Infinity"', "Infinity", '"Inf"', '"inf"', '"+Infinity"', "inf", '"INF"')
MINUS = ('"-Infinity"', "-Infinity", "-inf", '"-Inf"')


def by_json(dtype, data, count):
    return "/v1/cumsum", f'{{"dtype":"{dtype}","data":{data}}}', "data"


def by_v2(dtype, data, count):
    tensor = f'{{"name":"x","datatype":"{dtype.kserve}","shape":[{count}],"data":{data}}}'
    return "/v2/models/cumsum/infer", f'{{"inputs":[{tensor}]}}', "inputs[0].data"


def by_directml(dtype, data, count):
    if dtype.name not in DIRECTML_TYPES:
        return None
    tensor = f'{{"DataType":"{dtype.name.upper()}","Sizes":[{count}]}}'
    desc = (
        f'{{"InputTensor":{tensor},"OutputTensor":{tensor},"Axis":0,'
        '"AxisDirection":"INCREASING","HasExclusiveSum":false}'
    )
    return "/v1/directml/cumulative_summation", f'{{"desc":{desc},"data":{data}}}', "data"


def by_openvino(dtype, data, count):
    name = OPENVINO.get(dtype.name) or dtype.kind.upper() + str(8 * dtype.bytes)
    port = f'{{"precision":"{name}","shape":[{count}],"data":{data}}}'
    return "/v1/openvino/cumsum-3", f'{{"inputs":[{port}]}}', "inputs[0].data"


DIALECTS = pytest.mark.parametrize("dialect", [by_json, by_v2, by_directml, by_openvino])


def post(client, dialect, dtype, elements):
    """Returns the answer and the path of the array; None if the dialect lacks the type."""
    request = dialect(dtype, f"[{','.join(elements)}]", len(elements))
    if request is None:
        return None
    path, body, field = request
    return client.post(path, body.encode(), calls.JSON), field


def sums(answer):
    assert answer.status == 200, answer
    document = answer.json()
    return document["data"] if "data" in document else document["outputs"][0]["data"]


@DIALECTS
def test_every_dialect_reads_the_same_words_for_numbers_that_are_not_finite(client, dialect):
    for dtype in dtypes.FLOATS:
        for forms, value in ((NAN, "NaN"), (PLUS, "Infinity"), (MINUS, "-Infinity")):
            for form in forms:
                request = post(client, dialect, dtype, ["1", form, "2"])
                if request is not None:
                    assert sums(request[0]) == [1.0, value, value], (dtype, form)


@DIALECTS
def test_every_dialect_refuses_them_of_integers_by_their_index(client, dialect):
    for dtype in (dtype for dtype in dtypes.ALL if not dtype.is_float):
        for form in NAN + PLUS + MINUS:
            request = post(client, dialect, dtype, ["1", form, "2"])
            if request is not None:
                answer, field = request
                says = ("element 1 is", f"which is not a value of {dtype}")
                calls.expect_error(answer, 400, "invalid_data", f"{field}[1]", says)


@DIALECTS
def test_every_dialect_refuses_other_words_in_the_same_sentence(client, dialect):
    said = set()
    for form in ('"null"', "+Infinity", '"+NaN"', "-NaN", "NaNs", "Null", "undefined", "None"):
        answer, field = post(client, dialect, dtypes.BY_NAME["float32"], ["1", "2", form])
        error = calls.expect_error(answer, 400, "invalid_data", f"{field}[2]")["error"]
        own, _ = post(client, by_json, dtypes.BY_NAME["float32"], ["1", "2", form])
        assert error == own.json()["error"]
        said.add(error)
    assert len(said) == 8


@DIALECTS
@pytest.mark.parametrize("name", ["int64", "uint64"])
def test_every_dialect_reads_64_bit_integers_in_quotes(client, dialect, name):
    """Languages whose only numbers are doubles write large integers in quotes; sums are still
    numbers."""
    most = 2**63 - 2**53 if name == "int64" else 2**64 - 2**53
    values = [2**53 + 1, 3, most - 5]
    elements = [f'"{values[0]}"', "3", f'"{values[2]}"']
    answer, _ = post(client, dialect, dtypes.BY_NAME[name], elements)
    assert sums(answer) == [values[0], values[0] + 3, most + 2**53 - 1]
    assert str(most + 2**53 - 1).encode() in answer.body and b'"9007' not in answer.body


@DIALECTS
def test_every_dialect_says_how_numbers_in_other_strings_are_written(client, dialect):
    for dtype in dtypes.ALL:
        wide = dtype.name in ("int64", "uint64")
        whole = "such as 12 or" if wide else "without quotes, such as 12"
        cases = [('"x"', whole), ('""', whole), ('"1,5"', whole), ('"+5"', whole), ('" 5"', whole)]
        if not wide:
            cases.append(('"5"', "write it without the quotes"))
        for form, says in cases:
            request = post(client, dialect, dtype, ["1", form])
            if request is not None:
                answer, field = request
                says = [says, f"element 1 is '{form}'"]
                calls.expect_error(answer, 400, "invalid_data", f"{field}[1]", says)


def test_quoted_integers_without_a_type_are_refused_with_the_types_that_take_them(client):
    answer = client.post("/v1/cumsum", b'{"data":[1,"9007199254740993"]}', calls.JSON)
    says = "only int64 and uint64 take whole numbers in quotes"
    calls.expect_error(answer, 400, "invalid_data", "data[1]", says)


def test_long_arrays_of_quoted_integers_are_read_in_pieces(client):
    values = [2**62 + i * 2**40 for i in range(20000)]
    document = {"dtype": "uint64", "shape": [20000, 1], "axis": 1, "data": list(map(str, values))}
    assert client.post_json("/v1/cumsum", document).json()["data"] == values
    document["data"][15000] = "5,5"
    answer = client.post_json("/v1/cumsum", document)
    calls.expect_error(answer, 400, "invalid_data", "data[15000]", "such as 12 or")
