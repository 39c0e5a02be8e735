"""The expected values of public test suites through every dialect, as text and as bytes."""

import json

import numpy as np
import pytest
from support import calls, dtypes
from test_conformance import CASES, case_id, within_tolerance

GOOD = [case for case in CASES if "expect_error" not in case and "strides" not in case]
BAD = [case for case in CASES if "expect_error" in case]
LEVEL_BELOW = {"5_0": "4_1", "4_0": "3_1", "2_1": "2_0"}
IR = {"float16": "FP16", "bfloat16": "BF16", "float32": "FP32", "float64": "FP64"}


def tensor_of(case):
    dtype = dtypes.BY_NAME[case["dtype"]]
    return dtype, dtype.from_json(case["input"]).reshape(case["shape"])


def post(client, path, document, payload):
    """Send the document as text if payload is None, else as JSON with the bytes of the payload
    behind it."""
    text = json.dumps(document).encode()
    if payload is None:
        return client.post(path, text, "application/json")
    return client.post(
        path,
        text + payload,
        "application/octet-stream",
        {"Inference-Header-Content-Length": str(len(text))},
    )


def stored_of(dtype, case, answer, data):
    """The tensor of an answer in either form; `data` selects it from the JSON."""
    assert answer.status == 200, answer
    length = answer.headers.get("Inference-Header-Content-Length")
    if length is None:
        return dtype.from_json(data(answer.json())).reshape(case["shape"])
    count = int(np.prod(case["shape"]))
    return np.frombuffer(answer.body[int(length) :], dtype.storage)[:count].reshape(case["shape"])


def directml(client, case, binary, level):
    dtype, stored = tensor_of(case)
    tensor = {"DataType": dtype.name.upper(), "Sizes": case["shape"]}
    document = {
        "feature_level": level,
        "desc": {
            "InputTensor": tensor,
            "OutputTensor": tensor,
            "Axis": case["axis"] % len(case["shape"]),
            "AxisDirection": "DECREASING" if case["reverse"] else "INCREASING",
            "HasExclusiveSum": case["exclusive"],
        },
    }
    if not binary:
        document["data"] = dtype.json_values(stored.reshape(-1))
    path = "/v1/directml/cumulative_summation"
    return post(client, path, document, stored.tobytes() if binary else None)


def openvino(client, case, binary):
    dtype, stored = tensor_of(case)
    precision = IR.get(dtype.name) or dtype.name.replace("uint", "U").replace("int", "I")
    data = {"precision": precision, "shape": case["shape"]}
    if binary:
        data["binary_data_size"] = stored.nbytes
    else:
        data["data"] = dtype.json_values(stored.reshape(-1))
    axis = {
        "precision": "I64" if case.get("axis_dtype") == "int64" else "I32",
        "shape": case.get("axis_shape", []),
        "data": [case["axis"]],
    }
    attributes = {"exclusive": case["exclusive"], "reverse": case["reverse"]}
    document = {"attributes": attributes, "inputs": [data, axis]}
    return post(client, "/v1/openvino/cumsum-3", document, stored.tobytes() if binary else None)


def v2(client, case, binary):
    dtype, stored = tensor_of(case)
    x = {"name": "x", "shape": case["shape"], "datatype": dtype.kserve}
    if binary:
        x["parameters"] = {"binary_data_size": stored.nbytes}
    else:
        x["data"] = dtype.json_values(stored)
    axis = {
        "name": "axis",
        "shape": case.get("axis_shape", []),
        "datatype": "INT64" if case.get("axis_dtype") == "int64" else "INT32",
        "data": [case["axis"]],
    }
    document = {
        "parameters": {
            "exclusive": int(case["exclusive"]),
            "reverse": int(case["reverse"]),
            "binary_data_output": binary,
        },
        "inputs": [x, axis],
    }
    path = "/v2/models/cumsum_onnx/infer"
    return post(client, path, document, stored.tobytes() if binary else None)


@pytest.mark.parametrize("binary", [False, True], ids=["text", "bytes"])
@pytest.mark.parametrize("case", GOOD, ids=case_id)
def test_directml_gives_the_published_values_from_its_level_on(client, case, binary):
    dtype = dtypes.BY_NAME[case["dtype"]]
    level = case["dml_min_level"]
    if level is None:
        calls.expect_error(directml(client, case, binary, "6_4"), 400)
        return
    for at in (level, "6_4"):
        answer = directml(client, case, binary, at)
        actual = stored_of(dtype, case, answer, lambda document: document["data"])
        assert within_tolerance(case, dtype, actual), (actual, case["expected"])
    calls.expect_error(directml(client, case, binary, LEVEL_BELOW[level]), 400)


@pytest.mark.parametrize("binary", [False, True], ids=["text", "bytes"])
@pytest.mark.parametrize("case", GOOD, ids=case_id)
def test_openvino_gives_the_published_values(client, case, binary):
    dtype = dtypes.BY_NAME[case["dtype"]]
    answer = openvino(client, case, binary)
    actual = stored_of(dtype, case, answer, lambda document: document["outputs"][0]["data"])
    assert within_tolerance(case, dtype, actual), (actual, case["expected"])


@pytest.mark.parametrize("binary", [False, True], ids=["text", "bytes"])
@pytest.mark.parametrize("case", GOOD, ids=case_id)
def test_v2_gives_the_published_values(client, case, binary):
    dtype = dtypes.BY_NAME[case["dtype"]]
    answer = v2(client, case, binary)
    actual = stored_of(dtype, case, answer, lambda document: document["outputs"][0]["data"])
    assert within_tolerance(case, dtype, actual), (actual, case["expected"])


@pytest.mark.parametrize("send", [openvino, v2])
@pytest.mark.parametrize("case", BAD, ids=case_id)
def test_published_failures_fail(client, case, send):
    for binary in (False, True):
        calls.expect_error(send(client, {"input": [0] * case["shape"][0], **case}, binary), 400)
