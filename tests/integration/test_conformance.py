"""Expected values of public test suites and of the operator pages, through every format. Published
sums of floats were rounded at each step: an answer must be the exact sum, and lie within the
bound of their rounding."""

import json

import numpy as np
import pytest

from support import calls, dtypes, oracle
from support.tallyd import TOP

CASES = [
    json.loads(line)
    for line in (TOP / "tests/conformance/cases.jsonl").read_text().splitlines()
    if line.strip()
]
SENDERS = {
    "json": calls.post_json,
    "raw": calls.post_raw,
    "npy": lambda client, dtype, stored, **attributes: calls.post_npy(client, stored, **attributes),
}


def case_id(case):
    return case["source"].split(":")[-1].replace(" ", "_")[:70]


def attributes_of(case):
    axis = None if case.get("axis_default") else case["axis"]
    attributes = {"axis": axis, "exclusive": case["exclusive"], "reverse": case["reverse"]}
    return {name: value for name, value in attributes.items() if value is not None}


def within_tolerance(case, dtype, actual):
    expected = dtype.from_json(case["expected"]).reshape(case["shape"])
    if not dtype.is_float:
        return np.array_equal(actual, expected)
    left, right = dtype.load(actual), dtype.load(expected)
    finite = np.isfinite(right)
    if not np.array_equal(left[~finite], right[~finite], equal_nan=True):
        return False
    if "atol" in case:
        return bool(np.all(np.abs(left - right)[finite] <= case["atol"]))
    length = case["shape"][case["axis"] or 0] if case["shape"] else 1
    tolerance = case.get("ulp_tolerance", max(length - 1, 0))
    return oracle.ulp_distance(dtype, actual[finite], expected[finite]) <= tolerance


def test_there_are_conformance_cases():
    assert len(CASES) >= 58
    assert sum("expect_error" in case for case in CASES) >= 1


@pytest.mark.parametrize("send", SENDERS.values(), ids=SENDERS.keys())
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_public_case_gives_its_published_values(client, case, send):
    dtype = dtypes.BY_NAME[case["dtype"]]
    if "strides" in case and send is not calls.post_raw:
        send = SENDERS["raw"]
    source = case["buffer"] if "strides" in case else case["input"]
    stored = dtype.from_json(source).reshape(-1 if "strides" in case else case["shape"])
    attributes = attributes_of(case)
    if "strides" in case:
        attributes = {**attributes, "strides": case["strides"], "shape": case["shape"]}
        path = "/v1/cumsum" + calls.query(dtype=dtype.name, **attributes)
        answer = client.post(path, stored.tobytes(), calls.RAW)
    else:
        answer = send(client, dtype, stored, **attributes)
    if "expect_error" in case:
        calls.expect_error(answer, 400)
        return
    actual = calls.stored_of(dtype, answer, case["shape"])
    assert within_tolerance(case, dtype, actual), (actual, case["expected"])
    if "strides" in case:
        strides = [stride * dtype.bytes for stride in attributes.pop("strides")]
        stored = np.lib.stride_tricks.as_strided(stored, attributes.pop("shape"), strides)
    if case["shape"]:
        calls.expect_same(dtype, actual, stored, **attributes)


# The examples of the operator pages, copied exactly.
SLIVERS = [[[[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]]]]
DIRECTML_PAGE = [
    ({"axis": 3}, [[[[2, 3, 6, 11], [3, 11, 18, 21], [9, 15, 17, 21]]]]),
    ({"axis": 3, "exclusive": True}, [[[[0, 2, 3, 6], [0, 3, 11, 18], [0, 9, 15, 17]]]]),
    ({"axis": 3, "reverse": True}, [[[[11, 9, 8, 5], [21, 18, 10, 3], [21, 12, 6, 4]]]]),
    ({"axis": 2}, [[[[2, 1, 3, 5], [5, 9, 10, 8], [14, 15, 12, 12]]]]),
]
OPENVINO_PAGE = [
    ({}, [1, 3, 6, 10, 15]),
    ({"exclusive": True}, [0, 1, 3, 6, 10]),
    ({"reverse": True}, [15, 14, 12, 9, 5]),
    ({"exclusive": True, "reverse": True}, [14, 12, 9, 5, 0]),
]


@pytest.mark.parametrize("attributes, expected", DIRECTML_PAGE)
def test_directml_page_example(client, attributes, expected):
    document = {"dtype": "float32", "data": SLIVERS, **attributes}
    answer = client.post_json("/v1/cumsum", document)
    assert answer.status == 200, answer
    assert answer.json() == {"dtype": "float32", "shape": [1, 1, 3, 4], "data": expected}


@pytest.mark.parametrize("attributes, expected", OPENVINO_PAGE)
def test_openvino_page_example(client, attributes, expected):
    document = {"dtype": "float32", "data": [1.0, 2.0, 3.0, 4.0, 5.0], **attributes}
    answer = client.post_json("/v1/cumsum", document)
    assert answer.status == 200, answer
    assert answer.json() == {"dtype": "float32", "shape": [5], "data": expected}


@pytest.mark.parametrize("attributes, expected", DIRECTML_PAGE)
def test_directml_page_example_in_its_own_dialect(client, attributes, expected):
    tensor = {"DataType": "FLOAT32", "Sizes": [1, 1, 3, 4]}
    direction = "DECREASING" if attributes.get("reverse") else "INCREASING"
    document = {
        "type": "DML_OPERATOR_CUMULATIVE_SUMMATION",
        "desc": {
            "InputTensor": tensor,
            "OutputTensor": tensor,
            "Axis": attributes["axis"],
            "AxisDirection": "DML_AXIS_DIRECTION_" + direction,
            "HasExclusiveSum": attributes.get("exclusive", False),
        },
        "data": np.ravel(SLIVERS).tolist(),
    }
    answer = client.post_json("/v1/directml/cumulative_summation", document)
    assert answer.status == 200, answer
    assert answer.json()["data"] == np.ravel(expected).tolist()
    assert answer.json()["OutputTensor"]["Sizes"] == [1, 1, 3, 4]


@pytest.mark.parametrize("attributes, expected", OPENVINO_PAGE)
def test_openvino_page_example_in_its_own_dialect(client, attributes, expected):
    document = {
        "attributes": attributes,
        "inputs": [
            {"precision": "FP32", "shape": [5], "data": [1.0, 2.0, 3.0, 4.0, 5.0]},
            {"precision": "I64", "shape": [], "data": 0},
        ],
    }
    answer = client.post_json("/v1/openvino/cumsum-3", document)
    assert answer.status == 200, answer
    assert answer.json() == {"outputs": [{"precision": "FP32", "shape": [5], "data": expected}]}
