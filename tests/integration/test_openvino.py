"""The OpenVINO dialect against the running service. Unit tests check the single statements of the
page."""

import json

import numpy as np
import pytest
from support import calls, dtypes, oracle

PATH = "/v1/openvino/cumsum-3"
IR = {"float16": "FP16", "bfloat16": "BF16", "float32": "FP32", "float64": "FP64"}


def ir_name(dtype):
    return IR.get(dtype.name) or dtype.name.replace("uint", "U").replace("int", "I")


def post_framed(client, document, payload):
    text = json.dumps(document).encode()
    return client.post(
        PATH,
        text + payload,
        "application/octet-stream",
        {"Inference-Header-Content-Length": str(len(text))},
    )


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_every_type_axis_and_flag(client, dtype):
    stored = dtype.random(np.random.default_rng(5), (3, 4, 2))
    for axis in range(-3, 3):
        for exclusive in (False, True):
            for reverse in (False, True):
                expected = oracle.cumsum(dtype, stored, axis, exclusive, reverse)
                attributes = {"exclusive": exclusive, "reverse": str(int(reverse))}
                axis_input = {"precision": "I64", "shape": [], "data": axis}
                data_input = {
                    "precision": ir_name(dtype),
                    "shape": list(stored.shape),
                    "data": dtype.json_values(stored.reshape(-1)),
                }
                answer = client.post_json(
                    PATH, {"attributes": attributes, "inputs": [data_input, axis_input]}
                )
                assert answer.status == 200, answer
                (output,) = answer.json()["outputs"]
                assert output["precision"] == ir_name(dtype)
                assert output["shape"] == list(stored.shape)
                actual = dtype.from_json(output["data"]).reshape(stored.shape)
                assert oracle.same_bits(dtype, actual, expected)


@pytest.mark.parametrize("axis_storage", [None, "<i4", "<i8"])
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_binary_data_and_axis(client, dtype, axis_storage):
    stored = dtype.random(np.random.default_rng(6), (3, 7))
    inputs = [
        {
            "precision": ir_name(dtype).lower().replace("fp", "f"),
            "shape": [3, 7],
            "binary_data_size": stored.nbytes,
        }
    ]
    payload = stored.tobytes()
    if axis_storage is not None:
        axis = np.array(-1, axis_storage).tobytes()
        inputs.append(
            {"precision": f"I{8 * len(axis)}", "shape": [1], "binary_data_size": len(axis)}
        )
        payload += axis
    answer = post_framed(client, {"inputs": inputs}, payload)
    assert answer.status == 200, answer
    length = int(answer.headers["Inference-Header-Content-Length"])
    (output,) = json.loads(answer.body[:length])["outputs"]
    assert output == inputs[0]
    actual = np.frombuffer(answer.body[length:], dtype.storage).reshape(3, 7)
    assert oracle.same_bits(
        dtype, actual, oracle.cumsum(dtype, stored, 0 if axis_storage is None else 1)
    )


def test_zero_size_dimensions_give_empty_answers(client):
    for shape in ([0], [2, 0], [0, 3, 4]):
        document = {"inputs": [{"precision": "FP32", "shape": shape, "data": []}]}
        answer = client.post_json(PATH, document)
        assert answer.json() == {"outputs": [{"precision": "FP32", "shape": shape, "data": []}]}
        document["inputs"].append({"precision": "I64", "shape": [], "data": len(shape)})
        calls.expect_error(client.post_json(PATH, document), 400, "invalid_axis")


def test_a_binary_axis_out_of_range_is_refused(client):
    inputs = [
        {"precision": "FP32", "shape": [2], "data": [1, 2]},
        {"precision": "I64", "shape": [], "binary_data_size": 8},
    ]
    for axis in (1, -2, 1 << 62):
        answer = post_framed(client, {"inputs": inputs}, np.array(axis, "<i8").tobytes())
        calls.expect_error(answer, 400, "invalid_axis", "inputs[1].data")


def test_rank_0_data_is_refused(client):
    document = {"inputs": [{"precision": "FP32", "shape": [], "data": [1]}]}
    calls.expect_error(client.post_json(PATH, document), 400, "invalid_shape", "inputs[0].shape")
