"""The Open Inference Protocol with the unmodified tritonclient: synchronous and asyncio."""

import asyncio
import json

import ml_dtypes
import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from support import dtypes, oracle
from tritonclient.utils import InferenceServerException

NUMPY_TYPES = [dtype for dtype in dtypes.ALL if dtype.name != "bfloat16"]


@pytest.fixture
def v2(server):
    client = triton.InferenceServerClient(f"127.0.0.1:{server.port}", concurrency=4)
    yield client
    client.close()


def infer_input(array, datatype, binary=True, name="x"):
    tensor = triton.InferInput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array, binary_data=binary)
    return tensor


def run(v2, array, datatype, binary_in=True, binary_out=True, model="cumsum", **parameters):
    return v2.infer(
        model,
        [infer_input(array, datatype, binary_in)],
        outputs=[triton.InferRequestedOutput("y", binary_data=binary_out)],
        parameters=parameters or None,
    )


# Server, models, statistics -------------------------------------------------------------------


def test_health_and_metadata(v2):
    assert v2.is_server_live() and v2.is_server_ready() and v2.is_model_ready("cumsum")
    assert v2.is_model_ready("cumsum", "1") and not v2.is_model_ready("cumsum", "2")
    assert not v2.is_model_ready("nothing")
    server = v2.get_server_metadata()
    assert server["name"] == "tally" and "binary_tensor_data" in server["extensions"]
    assert "system_shared_memory" not in server["extensions"]  # shared memory is off by default
    [x] = v2.get_model_metadata("cumsum", "1")["inputs"]
    assert (x["name"], x["datatype"], x["shape"]) == ("x", "FP32", [-1])
    config = v2.get_model_config("cumsum")
    assert config["max_batch_size"] == 0 and config["input"][0]["data_type"] == "TYPE_FP32"


def test_metadata_say_which_types_and_ranks_a_model_takes(v2):
    """One datatype and one shape are declared; those in the parameters are accepted as well, and no
    others."""
    [x] = v2.get_model_metadata("cumsum")["inputs"]
    said = x["parameters"]
    assert set(said["datatypes"].split(",")) == {dtype.kserve for dtype in dtypes.ALL} | {"BOOL"}
    for rank in (said["min_rank"], said["max_rank"]):
        ones = np.ones([1] * rank, np.float64)
        assert run(v2, ones, "FP64").as_numpy("y").shape == ones.shape
    config = v2.get_model_config("cumsum")["parameters"]
    for name in ("datatypes", "min_rank", "max_rank"):
        assert config[name] == {"string_value": str(said[name])}
    [x] = v2.get_model_metadata("cumsum_fp32")["inputs"]
    assert x["parameters"]["datatypes"] == "FP32"
    with pytest.raises(InferenceServerException, match="cumsum_fp32 takes FP32"):
        run(v2, np.ones(2), "FP64", model="cumsum_fp32")


def test_the_list_of_models_names_those_of_the_index(v2, client):
    answer = client.get("/v2/models")
    assert answer.status == 200, answer
    assert answer.json() == {"models": [row["name"] for row in v2.get_model_repository_index()]}
    refusal = client.get("/v2/models/nothing")
    assert refusal.status == 404 and "GET /v2/models lists the models" in refusal.json()["error"]


def test_every_model_is_in_the_index_and_describes_itself(v2):
    index = v2.get_model_repository_index()
    assert {entry["state"] for entry in index} == {"READY"}
    names = [entry["name"] for entry in index]
    assert len(names) == len(set(names)) == 17
    for name in names:
        assert v2.get_model_metadata(name)["name"] == name
        assert v2.get_model_config(name)["name"] == name
        assert v2.is_model_ready(name)


def test_statistics_count_inferences(v2):
    def counts():
        stats = v2.get_inference_statistics("cumsum_reverse")["model_stats"]
        assert len(stats) == 1
        return stats[0]

    before = counts()
    for _ in range(3):
        run(v2, np.arange(4, dtype=np.float32), "FP32", model="cumsum_reverse")
    with pytest.raises(InferenceServerException):
        run(v2, np.arange(4, dtype=np.float32), "FP32", model="cumsum_reverse", axis=7)
    after = counts()
    assert after["inference_count"] - before["inference_count"] == 3
    assert 1 <= after["execution_count"] - before["execution_count"] <= 3
    success = after["inference_stats"]["success"]
    assert success["count"] - before["inference_stats"]["success"]["count"] == 3
    assert success["ns"] > 0 and after["last_inference"] > 1_600_000_000_000
    failed = after["inference_stats"]["fail"]["count"]
    assert failed - before["inference_stats"]["fail"]["count"] == 1
    assert len(v2.get_inference_statistics()["model_stats"]) == 17


def test_statistics_count_launches_by_batch_size(start_server):
    """Four requests that wait for each other run as one batch; a fifth runs alone."""
    server = start_server("--batch-delay-us=1000000", "--batch-max-requests=4")
    v2 = triton.InferenceServerClient(f"127.0.0.1:{server.port}", concurrency=4)
    tensor = infer_input(np.arange(1000, dtype=np.float32), "FP32")
    for pending in [v2.async_infer("cumsum_fp32", [tensor]) for _ in range(4)]:
        pending.get_result()
    v2.infer("cumsum_fp32", [tensor])
    [stats] = v2.get_inference_statistics("cumsum_fp32")["model_stats"]
    assert stats["execution_count"] == 2
    assert [batch["batch_size"] for batch in stats["batch_stats"]] == [1, 4]
    for part in ("compute_input", "compute_infer", "compute_output"):
        assert [batch[part]["count"] for batch in stats["batch_stats"]] == [1, 1]
    one, four = (batch["compute_infer"]["ns"] for batch in stats["batch_stats"])
    assert one > 0 and four > 0
    # In the batch of four, each request counts the whole launch as its own time.
    assert stats["inference_stats"]["compute_infer"] == {"count": 5, "ns": one + 4 * four}
    [idle] = v2.get_inference_statistics("cumsum_int8")["model_stats"]
    assert idle["batch_stats"] == [] and idle["execution_count"] == 0
    v2.close()


def test_models_cannot_be_loaded_or_unloaded(v2):
    for call in (v2.load_model, v2.unload_model):
        with pytest.raises(InferenceServerException, match="built in") as caught:
            call("cumsum")
        assert caught.value.status() == "503"


def test_trace_logging_and_cuda_memory_are_refused_as_clients_expect(v2):
    for call in (v2.get_trace_settings, v2.get_log_settings):
        with pytest.raises(InferenceServerException) as caught:
            call()
        assert caught.value.status() == "503"
    with pytest.raises(InferenceServerException):
        v2.update_log_settings({"log_file": "/tmp/x"})
    assert v2.get_cuda_shared_memory_status() == []
    v2.unregister_cuda_shared_memory()
    v2.unregister_cuda_shared_memory("r")
    with pytest.raises(InferenceServerException, match="CUDA"):
        v2.register_cuda_shared_memory("r", b"handle", 0, 4)


# Inference ------------------------------------------------------------------------------------


@pytest.mark.parametrize("binary_out", [True, False], ids=["binary_out", "json_out"])
@pytest.mark.parametrize("binary_in", [True, False], ids=["binary_in", "json_in"])
@pytest.mark.parametrize("dtype", NUMPY_TYPES, ids=str)
def test_every_type_in_either_form(v2, dtype, binary_in, binary_out):
    array = dtype.random(np.random.default_rng(1), (3, 5, 4))
    for axis in (0, 1, -1):
        for exclusive in (False, True):
            result = run(
                v2,
                array,
                dtype.kserve,
                binary_in,
                binary_out,
                axis=axis,
                exclusive=exclusive,
                reverse=not exclusive,
            )
            expected = oracle.cumsum(
                dtype, array, axis=axis, exclusive=exclusive, reverse=not exclusive
            )
            actual = result.as_numpy("y")
            assert actual.dtype == dtype.storage and actual.shape == array.shape
            assert oracle.same_bits(dtype, actual, expected)


def test_bfloat16(v2):
    array = np.array([1.0, 2.5, -0.5], ml_dtypes.bfloat16)
    for binary_out in (True, False):
        result = run(v2, array, "BF16", binary_out=binary_out)
        assert result.as_numpy("y").astype(np.float32).tolist() == [1.0, 3.5, 3.0]


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2, 2)])
@pytest.mark.parametrize("binary", [True, False])
def test_zero_size_tensors(v2, shape, binary):
    result = run(v2, np.zeros(shape, np.float32), "FP32", binary, binary)
    assert result.as_numpy("y").shape == shape


@pytest.mark.parametrize("rank", range(1, 9))
def test_rank_1_to_8(v2, rank):
    array = np.arange(2**rank, dtype=np.int64).reshape((2,) * rank)
    for axis in range(-rank, rank):
        result = run(v2, array, "INT64", axis=axis)
        assert (result.as_numpy("y") == np.cumsum(array, axis=axis)).all()


def test_rank_0_is_refused(v2):
    with pytest.raises(InferenceServerException):
        run(v2, np.float32(1).reshape(()), "FP32")


def test_non_finite_values_survive_json(v2):
    array = np.array([np.inf, 1.0, -np.inf, np.nan], np.float32).reshape(4, 1)
    result = run(v2, array, "FP32", False, False, axis=1)
    assert np.array_equal(result.as_numpy("y"), array, equal_nan=True)


def test_without_requested_outputs_the_answer_is_binary(v2):
    result = v2.infer("cumsum", [infer_input(np.ones(4, np.float32), "FP32")])
    assert result.as_numpy("y").tolist() == [1, 2, 3, 4]
    assert result.get_output("y")["parameters"] == {"binary_data_size": 16}


def test_ids_versions_and_names(v2):
    result = v2.infer(
        "cumsum", [infer_input(np.ones(1, np.float32), "FP32")], "1", request_id='a"7\u00e9'
    )
    response = result.get_response()
    assert response["id"] == 'a"7\u00e9'
    assert response["model_name"] == "cumsum" and response["model_version"] == "1"


def test_directml_synonyms(v2):
    array = np.array([1, 2, 3], np.int32)
    result = run(v2, array, "INT32", axis_direction="decreasing", has_exclusive_sum=True)
    assert result.as_numpy("y").tolist() == [5, 3, 0]


def test_aliases_need_no_parameters(v2):
    array = np.array([[1, 2], [3, 4]], np.float32)
    expected = {
        "cumsum_exclusive": [[0, 1], [0, 3]],
        "cumsum_reverse": [[3, 2], [7, 4]],
        "cumsum_exclusive_reverse": [[2, 0], [4, 0]],
        "cumsum_fp32": [[1, 3], [3, 7]],
    }
    for model, rows in expected.items():
        assert run(v2, array, "FP32", model=model).as_numpy("y").tolist() == rows


def test_onnx_model_takes_its_axis_as_a_tensor(v2):
    array = np.array([[1, 2], [3, 4]], np.float32)
    for axis, rows in ((0, [[1, 2], [4, 6]]), (1, [[1, 3], [3, 7]]), (-1, [[1, 3], [3, 7]])):
        for binary in (True, False):
            for storage, datatype in ((np.int32, "INT32"), (np.int64, "INT64")):
                for shape in ((1,), ()):
                    tensor = infer_input(
                        np.full(shape, axis, storage), datatype, binary, name="axis"
                    )
                    for inputs in (
                        [infer_input(array, "FP32"), tensor],
                        [tensor, infer_input(array, "FP32", False)],
                    ):
                        result = v2.infer("cumsum_onnx", inputs)
                        assert result.as_numpy("y").tolist() == rows


@pytest.mark.parametrize("request_coding", [None, "gzip", "deflate"])
@pytest.mark.parametrize("response_coding", [None, "gzip", "deflate"])
def test_compression(v2, request_coding, response_coding):
    array = np.arange(10000, dtype=np.int32)
    result = v2.infer(
        "cumsum",
        [infer_input(array, "INT32")],
        request_compression_algorithm=request_coding,
        response_compression_algorithm=response_coding,
    )
    assert (result.as_numpy("y") == np.cumsum(array, dtype=np.int32)).all()


def test_async_infer_keeps_requests_apart(v2):
    arrays = [np.full(i + 1, i, np.int64) for i in range(32)]
    pending = [v2.async_infer("cumsum", [infer_input(array, "INT64")]) for array in arrays]
    for array, request in zip(arrays, pending):
        assert (request.get_result().as_numpy("y") == np.cumsum(array)).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parameters": {"axis": 5}}, "axis"),
        ({"parameters": {"axes": 1}}, "axes"),
        ({"parameters": {"exclusive": True, "has_exclusive_sum": False}}, "contradicts"),
        ({"sequence_id": 3}, "sequence"),
        ({"model": "nothing"}, "there is no model"),
        ({"version": "2"}, "there is no model"),
        ({"datatype": "BYTES"}, "BYTES"),
        ({"outputs": ["z"]}, "unexpected output"),
        ({"outputs": ["y", "y"]}, "twice"),
    ],
)
def test_refusals_reach_the_client(v2, change, words):
    if change.get("datatype") == "BYTES":
        tensor = triton.InferInput("x", [1], "BYTES")
        tensor.set_data_from_numpy(np.array([b"a"], dtype=object))
    else:
        tensor = infer_input(np.ones(2, np.float32), "FP32")
    outputs = [triton.InferRequestedOutput(name) for name in change.get("outputs", [])]
    with pytest.raises(InferenceServerException, match=words) as caught:
        v2.infer(
            change.get("model", "cumsum"),
            [tensor],
            change.get("version", ""),
            outputs=outputs or None,
            parameters=change.get("parameters"),
            sequence_id=change.get("sequence_id", 0),
        )
    assert caught.value.status() in ("400", "404")


def test_a_client_without_system_shared_memory_is_told_the_flag(v2):
    v2.unregister_system_shared_memory()
    assert v2.get_system_shared_memory_status() == []
    with pytest.raises(InferenceServerException, match="--allow-client-shm") as caught:
        v2.register_system_shared_memory("r", "/key", 4)
    assert caught.value.status() == "501"


# asyncio --------------------------------------------------------------------------------------


def test_aio_client(server):
    async def scenario():
        client = triton_aio.InferenceServerClient(f"127.0.0.1:{server.port}")
        try:
            assert await client.is_server_ready() and await client.is_model_ready("cumsum")
            metadata = await client.get_server_metadata()
            assert metadata["name"] == "tally"
            assert len(await client.get_model_repository_index()) == 17
            arrays = [np.arange(i + 1, dtype=np.int32) for i in range(16)]
            results = await asyncio.gather(
                *[
                    client.infer(
                        "cumsum",
                        [infer_input(array, "INT32", binary=i % 2 == 0)],
                        outputs=[triton.InferRequestedOutput("y", binary_data=i % 3 == 0)],
                        request_compression_algorithm=[None, "gzip", "deflate"][i % 3],
                        response_compression_algorithm=[None, "gzip", "deflate"][i % 3],
                    )
                    for i, array in enumerate(arrays)
                ]
            )
            for array, result in zip(arrays, results):
                assert (result.as_numpy("y") == np.cumsum(array, dtype=np.int32)).all()
            with pytest.raises(InferenceServerException):
                await client.infer("nothing", [infer_input(arrays[0], "INT32")])
        finally:
            await client.close()

    asyncio.run(scenario())


# Plain HTTP -----------------------------------------------------------------------------------


def test_raw_binary_requests(client):
    body = np.array([1, 2, 3], "<f4").tobytes()
    headers = {"Inference-Header-Content-Length": "0"}
    answer = client.post("/v2/models/cumsum/infer", body, None, headers)
    length = int(answer.headers["Inference-Header-Content-Length"])
    assert answer.headers["Content-Type"] == "application/octet-stream"
    document = json.loads(answer.body[:length])
    assert document["outputs"][0]["shape"] == [3]
    assert np.frombuffer(answer.body[length:], "<f4").tolist() == [1, 3, 6]
    answer = client.post(
        "/v2/models/cumsum/infer?binary_data_output=false&reverse=1", body, None, headers
    )
    assert answer.json()["outputs"][0]["data"] == [6.0, 5.0, 3.0]
    answer = client.post("/v2/models/cumsum/infer", body[:-1], None, headers)
    assert answer.status == 400 and "FP32" in answer.json()["error"]


def test_chunked_requests_of_both_framings(server):
    tensor = np.arange(6, dtype="<i4")
    document = {
        "parameters": {"binary_data_output": True},
        "inputs": [
            {
                "name": "x",
                "shape": [6],
                "datatype": "INT32",
                "parameters": {"binary_data_size": 24},
            }
        ],
    }
    text = json.dumps(document).encode()
    for head, body in ((len(text), text + tensor.tobytes()), (0, tensor.astype("<f4").tobytes())):
        with server.wire() as wire:
            wire.send(
                b"POST /v2/models/cumsum/infer HTTP/1.1\r\nHost: x\r\n"
                b"Transfer-Encoding: chunked\r\n"
                b"inference-header-content-length: %d\r\n\r\n" % head
            )
            for at in range(0, len(body), 7):
                piece = body[at : at + 7]
                wire.send(b"%x\r\n" % len(piece) + piece + b"\r\n")
            wire.send(b"0\r\n\r\n")
            answer = wire.answer()
        assert answer.status == 200, answer
        length = int(answer.headers["Inference-Header-Content-Length"])
        kind = "<f4" if head == 0 else "<i4"
        assert np.frombuffer(answer.body[length:], kind).tolist() == [0, 1, 3, 6, 10, 15]


@pytest.mark.parametrize("head", ["-1", "x", "1e2", "99999", "18446744073709551616", ""])
def test_bad_framing_headers_are_400(client, head):
    document = b'{"inputs":[]}'
    answer = client.post(
        "/v2/models/cumsum/infer", document, None, {"Inference-Header-Content-Length": head}
    )
    assert answer.status == 400 and answer.headers["Content-Type"] == "application/json"


def test_error_bodies_are_plain_json_even_if_compression_is_asked_for(client):
    answer = client.post(
        "/v2/models/cumsum/infer", b"{}", "application/json", {"Accept-Encoding": "gzip"}
    )
    assert answer.status == 400 and answer.headers["Content-Type"] == "application/json"
    assert "Content-Encoding" not in answer.headers and answer.json()["error"]


def test_posts_without_body_or_length_are_empty(server):
    for path in ("/v2/repository/index", "/v2/systemsharedmemory/unregister"):
        with server.wire() as wire:
            wire.send(b"POST %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
            assert wire.answer().status == 200


def test_kserve_style_requests(client):
    """Requests in the style of the KServe SDK: lower-case framing header, model_name, null data."""
    answer = client.get("/v2/health/live")
    assert answer.json() == {"live": True}
    assert client.get("/v2/health/ready").json()["ready"] is True
    document = {
        "id": "6d0b",
        "model_name": "cumsum",
        "inputs": [
            {
                "name": "x",
                "shape": [2],
                "datatype": "FP32",
                "parameters": {"binary_data_size": 8},
                "data": None,
            }
        ],
        "parameters": {"binary_data_output": False},
    }
    text = json.dumps(document).encode()
    answer = client.post(
        "/v2/models/cumsum/infer",
        text + np.array([1, 2], "<f4").tobytes(),
        "application/octet-stream",
        {"inference-header-content-length": str(len(text))},
    )
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/json"
    assert answer.json()["outputs"][0]["data"] == [1.0, 3.0]
