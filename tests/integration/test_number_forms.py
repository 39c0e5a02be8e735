"""Elements of JSON in every form: v1, v2, DirectML and OpenVINO read the same ones alike."""

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
    """The answer and the path of the array; None where the dialect lacks the type."""
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
def test_every_dialect_reads_the_same_words_for_what_is_not_finite(client, dialect):
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
                says = ("element 1 is", f"which {dtype} has not")
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
