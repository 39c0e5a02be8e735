"""The DirectML dialect against the running service: every type, layouts, binary framing, and
refusals that need the server (errors of the plan, limits). Unit tests check the single rules."""

import json

import numpy as np
import pytest
from support import calls, dtypes, oracle

PATH = "/v1/directml/cumulative_summation"
TYPES = ["float16", "float32", "int32", "int64", "uint32", "uint64"]


def document(dtype, shape, axis=0, exclusive=False, decreasing=False, data=None, **tensors):
    tensor = {"DataType": dtype.name.upper(), "Sizes": list(shape)}
    result = {
        "desc": {
            "InputTensor": {**tensor, **tensors.get("input", {})},
            "OutputTensor": {**tensor, **tensors.get("output", {})},
            "Axis": axis,
            "AxisDirection": "DECREASING" if decreasing else "INCREASING",
            "HasExclusiveSum": exclusive,
        }
    }
    if data is not None:
        result["data"] = data
    return result


def post_framed(client, document, payload):
    text = json.dumps(document).encode()
    return client.post(
        PATH,
        text + payload,
        "application/octet-stream",
        {"Inference-Header-Content-Length": str(len(text))},
    )


def framed_answer(answer):
    assert answer.status == 200, answer
    assert answer.headers["Content-Type"] == "application/octet-stream"
    length = int(answer.headers["Inference-Header-Content-Length"])
    return json.loads(answer.body[:length]), answer.body[length:]


@pytest.mark.parametrize("decreasing", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_every_type_and_flag_as_text_and_as_bytes(client, name, exclusive, decreasing):
    dtype = dtypes.BY_NAME[name]
    stored = dtype.random(np.random.default_rng(7), (2, 3, 5))
    for axis in range(3):
        expected = oracle.cumsum(dtype, stored, axis, exclusive, decreasing)
        request = document(dtype, stored.shape, axis, exclusive, decreasing)
        body, payload = framed_answer(post_framed(client, request, stored.tobytes()))
        assert body == {"OutputTensor": request["desc"]["OutputTensor"]}
        whole = np.frombuffer(payload, dtype.storage)
        assert len(payload) == (stored.nbytes + 3) // 4 * 4
        assert oracle.same_bits(dtype, whole[: stored.size].reshape(stored.shape), expected)
        request["data"] = dtype.json_values(stored.reshape(-1))
        answer = client.post_json(PATH, request)
        assert answer.status == 200, answer
        actual = dtype.from_json(answer.json()["data"]).reshape(stored.shape)
        assert oracle.same_bits(dtype, actual, expected)


def test_eight_dimensions(client):
    dtype = dtypes.BY_NAME["int32"]
    stored = np.arange(256, dtype=np.int32).reshape((2,) * 8)
    for axis in range(8):
        request = document(dtype, stored.shape, axis, data=stored.reshape(-1).tolist())
        answer = client.post_json(PATH, request)
        expected = np.cumsum(stored, axis=axis).reshape(-1).tolist()
        assert answer.json()["data"] == expected


def test_uint16_in_the_edition_of_2020(client):
    dtype = dtypes.BY_NAME["uint16"]
    request = document(dtype, (1, 1, 1, 3), 3, data=[65535, 1, 2])
    answer = client.post_json(PATH, {**request, "feature_level": "2020_10"})
    assert answer.json()["data"] == [65535, 0, 2]
    calls.expect_error(
        client.post_json(PATH, request), 400, "invalid_dtype", "desc.InputTensor.DataType"
    )


def strided(sizes, strides, flat):
    return np.lib.stride_tricks.as_strided(
        flat, sizes, [stride * flat.itemsize for stride in strides]
    )


@pytest.mark.parametrize(
    ("in_strides", "out_strides"),
    [
        ([20, 5, 1], [30, 10, 2]),
        ([1, 2, 6], [15, 5, 1]),
        ([0, 5, 1], [1, 2, 6]),
        ([0, 0, 0], [16, 5, 1]),
        ([64, 8, 1], [64, 8, 1]),
    ],
)
def test_layouts_with_padding_transposition_and_broadcast(client, in_strides, out_strides):
    sizes = [2, 3, 5]
    dtype = dtypes.BY_NAME["float32"]
    reach = sum((n - 1) * stride for n, stride in zip(sizes, in_strides)) + 1
    flat = dtype.random(np.random.default_rng(3), (reach,))
    out_reach = sum((n - 1) * stride for n, stride in zip(sizes, out_strides)) + 1
    for axis in range(3):
        request = document(
            dtype, sizes, axis, input={"Strides": in_strides}, output={"Strides": out_strides}
        )
        _, payload = framed_answer(post_framed(client, request, flat.tobytes()))
        expected = np.zeros(out_reach, np.float32)
        logical = np.ascontiguousarray(strided(sizes, in_strides, flat))
        strided(sizes, out_strides, expected)[...] = oracle.cumsum(dtype, logical, axis)
        assert np.array_equal(np.frombuffer(payload, np.float32), expected)


def test_total_sizes_leave_a_zero_tail_behind_the_output(client):
    dtype = dtypes.BY_NAME["float32"]
    request = document(
        dtype,
        (3,),
        input={"TotalTensorSizeInBytes": 64},
        output={"TotalTensorSizeInBytes": 1024},
    )
    sent = np.full(16, 9, np.float32)
    _, payload = framed_answer(post_framed(client, request, sent.tobytes()))
    assert np.frombuffer(payload, np.float32).tolist() == [9, 18, 27] + [0] * 253
    _, payload = framed_answer(post_framed(client, request, sent[:3].tobytes()))
    assert len(payload) == 1024
    request["data"] = [9] * 3
    assert client.post_json(PATH, request).json()["data"] == [9, 18, 27] + [0] * 253


def test_an_output_that_overlaps_itself_blames_its_strides(client):
    dtype = dtypes.BY_NAME["float32"]
    request = document(dtype, (2, 2), data=[1, 2, 3, 4], output={"Strides": [1, 1]})
    field = "desc.OutputTensor.Strides"
    refusal = calls.expect_error(client.post_json(PATH, request), 400, "invalid_strides", field)
    assert "output_strides" not in refusal["error"], "no member of this dialect"


def test_another_operator_is_named_beside_the_one_that_is_here(client):
    request = document(dtypes.BY_NAME["float32"], (2,), data=[1, 2])
    request["type"] = "DML_OPERATOR_CUMULATIVE_PRODUCT"
    says = ["DML_OPERATOR_CUMULATIVE_PRODUCT", "DML_OPERATOR_CUMULATIVE_SUMMATION"]
    calls.expect_error(client.post_json(PATH, request), 400, "invalid_field", "type", says)


def test_a_huge_total_size_is_refused_without_being_allocated(server, client):
    dtype = dtypes.BY_NAME["float32"]
    before = server.rss_bytes()
    for which in ("input", "output"):
        for total in (1 << 40, 1 << 62, (1 << 63) - 1):
            request = document(dtype, (2,), **{which: {"TotalTensorSizeInBytes": total}})
            answer = post_framed(client, request, bytes(8))
            assert answer.status in (200, 413, 503), answer
            if which == "output":
                calls.expect_error(answer, 413, "too_large")
    assert server.rss_bytes() - before < 64 << 20


@pytest.mark.parametrize("bytes_sent", [0, 3, 5, 7, 9, 12, 4096])
def test_payloads_of_the_wrong_length_are_400(client, bytes_sent):
    dtype = dtypes.BY_NAME["float32"]
    request = document(dtype, (2,))
    calls.expect_error(
        post_framed(client, request, bytes(bytes_sent)), 400, "length_mismatch", says="8 bytes"
    )


def test_chunked_binary_requests(server):
    text = json.dumps(document(dtypes.BY_NAME["int32"], (4,))).encode()
    body = text + np.arange(1, 5, dtype="<i4").tobytes()
    with server.wire() as wire:
        wire.send(
            b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
            b"Content-Type: application/octet-stream\r\n"
            b"Inference-Header-Content-Length: %d\r\n\r\n" % (PATH.encode(), len(text))
        )
        for at in range(0, len(body), 11):
            piece = body[at : at + 11]
            wire.send(b"%x\r\n" % len(piece) + piece + b"\r\n")
        wire.send(b"0\r\n\r\n")
        _, payload = framed_answer(wire.answer())
    assert np.frombuffer(payload, "<i4").tolist() == [1, 3, 6, 10]
