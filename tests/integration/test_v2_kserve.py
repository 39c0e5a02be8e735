"""The Open Inference Protocol with the unmodified KServe SDK: InferenceRESTClient."""

import asyncio

import ml_dtypes
import numpy as np
import pytest
from support import dtypes, oracle

SDK_TYPES = [dtype for dtype in dtypes.ALL if dtype.name != "bfloat16"]  # the SDK has no BF16
FORMS = [  # (type, as binary?): the SDK sends FP16 only as binary
    (dtype, binary)
    for dtype in SDK_TYPES
    for binary in ([True] if dtype.name == "float16" else [True, False])
]


@pytest.fixture(scope="module", autouse=True)
def imported():
    """Import here and not at the top of the file, since every test process imports all test
    files."""
    global httpx, InferenceRESTClient, InferInput, InferRequest, RESTConfig
    global InvalidInput, RequestedOutput
    pytest.importorskip("kserve", reason="the KServe SDK does not install for this Python")
    import httpx
    from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
    from kserve.errors import InvalidInput
    from kserve.protocol.infer_type import RequestedOutput


@pytest.fixture(scope="module")
def sdk(imported):
    """A runner and a client that its coroutines share: creating a client takes longer than a
    request."""
    with asyncio.Runner() as runner:
        client = InferenceRESTClient(RESTConfig(protocol="v2", timeout=60))
        yield runner, client
        runner.run(client.close())


@pytest.fixture
def url(server):
    return f"http://127.0.0.1:{server.port}"


@pytest.fixture
def call(sdk, url):
    """call(method, ...): call one method of the client."""
    runner, client = sdk
    return lambda method, *args, **named: runner.run(getattr(client, method)(url, *args, **named))


def make_request(array, datatype, binary_in, binary_out, model="cumsum", **attributes):
    tensor = InferInput("x", list(array.shape), datatype)
    tensor.set_data_from_numpy(array, binary_data=binary_in)
    outputs = [RequestedOutput("y", {"binary_data": binary_out})]
    return InferRequest(model, [tensor], parameters=attributes or None, request_outputs=outputs)


def infer(call, array, datatype, binary_in=True, binary_out=True, model="cumsum", **attributes):
    request = make_request(array, datatype, binary_in, binary_out, model, **attributes)
    return call("infer", request, model_name=model)


def test_health(call):
    assert call("is_server_live") is True
    assert call("is_server_ready") is True
    assert call("is_model_ready", "cumsum") is True
    assert call("is_model_ready", "nothing") is False


def test_the_models_of_the_sdk_read_the_list_and_the_metadata(client):
    from kserve.protocol.rest.v2_datamodels import ListModelsResponse, ModelMetadataResponse

    listed = ListModelsResponse.model_validate(client.get("/v2/models").json())
    assert {"cumsum", "cumsum_onnx"} <= set(listed.models)
    for name in listed.models:
        page = client.get(f"/v2/models/{name}").json()
        assert ModelMetadataResponse.model_validate(page).inputs[0].name == "x"


def test_the_answer_describes_itself(call):
    tensor = InferInput("x", [2], "INT32", data=[1, 2])
    response = call("infer", InferRequest("cumsum", [tensor], "an id"), model_name="cumsum")
    assert (response.id, response.model_name) == ("an id", "cumsum")
    [output] = response.outputs
    assert (output.name, output.datatype, output.shape) == ("y", "INT32", [2])
    assert output.data == [1, 3]


@pytest.mark.parametrize("binary_out", [True, False], ids=["binary_out", "json_out"])
@pytest.mark.parametrize(
    ("dtype", "binary_in"), FORMS, ids=[f"{d}-{'binary' if b else 'json'}_in" for d, b in FORMS]
)
def test_every_type_in_either_form(call, dtype, binary_in, binary_out):
    array = dtype.random(np.random.default_rng(2), (3, 5))
    response = infer(call, array, dtype.kserve, binary_in, binary_out, axis=1, exclusive=True)
    expected = oracle.cumsum(dtype, array, axis=1, exclusive=True, reverse=False)
    actual = response.outputs[0].as_numpy()
    assert actual.dtype == dtype.storage and actual.shape == array.shape
    assert oracle.same_bits(dtype, actual, expected)


def test_it_is_the_sdk_that_sends_no_fp16_as_json(call):
    with pytest.raises(InvalidInput, match="Sending FP16 data via JSON is not supported"):
        make_request(np.ones(3, np.float16), "FP16", False, True).to_rest()
    document = {"inputs": [{"name": "x", "shape": [3], "datatype": "FP16", "data": [1, 2, 3.5]}]}
    document["outputs"] = [{"name": "y", "parameters": {"binary_data": True}}]
    # The SDK does not check a document that is a dict; the service accepts it.
    response = call("infer", document, model_name="cumsum")
    assert response.outputs[0].as_numpy().tolist() == [1, 3, 6.5]


def test_it_is_the_sdk_that_knows_no_bf16(client):
    with pytest.raises(Exception):
        make_request(np.ones(3, ml_dtypes.bfloat16), "BF16", True, True)
    document = {"inputs": [{"name": "x", "shape": [2], "datatype": "BF16", "data": [1, 2]}]}
    answer = client.post_json("/v2/models/cumsum/infer", document)
    assert answer.json()["outputs"][0]["data"] == [1, 3]


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
@pytest.mark.parametrize("binary", [True, False])
def test_zero_size_tensors(call, shape, binary):
    """A binary tensor of size zero has "data": null and a binary_data_size of 0."""
    response = infer(call, np.zeros(shape, np.float32), "FP32", binary, binary)
    assert response.outputs[0].as_numpy().shape == shape


@pytest.mark.parametrize("binary_out", [True, False])
def test_non_finite_values(call, binary_out):
    """In JSON the SDK writes null for NaN and for infinities; binary tensors keep them."""
    array = np.array([[np.inf], [np.nan], [-np.inf]], np.float32)
    response = infer(call, array, "FP32", True, binary_out, axis=1)
    assert np.array_equal(response.outputs[0].as_numpy(), array, equal_nan=True)
    response = infer(call, array, "FP32", False, binary_out, axis=1)
    assert np.isnan(response.outputs[0].as_numpy()).all()


def test_attributes_of_the_request_and_of_the_tensor(call):
    array = np.array([[1, 2], [3, 4]], np.int64)
    response = infer(call, array, "INT64", axis=1, reverse=True)
    assert response.outputs[0].as_numpy().tolist() == [[3, 2], [7, 4]]
    tensor = InferInput("x", [2, 2], "INT64", data=[1, 2, 3, 4], parameters={"axis": 1})
    response = call("infer", InferRequest("cumsum", [tensor]), model_name="cumsum")
    assert response.outputs[0].as_numpy().tolist() == [[1, 3], [3, 7]]
    response = infer(call, array, "INT64", model="cumsum_exclusive")
    assert response.outputs[0].as_numpy().tolist() == [[0, 1], [0, 3]]


def test_the_axis_as_a_tensor(call):
    for binary in (True, False):
        x = InferInput("x", [2, 2], "FP32")
        x.set_data_from_numpy(np.array([[1, 2], [3, 4]], np.float32), binary_data=binary)
        axis = InferInput("axis", [1], "INT64")
        axis.set_data_from_numpy(np.array([1], np.int64), binary_data=binary)
        response = call("infer", InferRequest("cumsum_onnx", [x, axis]), model_name="cumsum_onnx")
        assert response.outputs[0].as_numpy().tolist() == [[1, 3], [3, 7]]


def test_many_requests_at_a_time(sdk, url):
    runner, client = sdk
    arrays = [np.full(i + 1, i, np.int64) for i in range(24)]

    async def scenario():
        requests = [
            make_request(array, "INT64", i % 2 == 0, i % 3 == 0) for i, array in enumerate(arrays)
        ]
        return await asyncio.gather(
            *(client.infer(url, request, model_name="cumsum") for request in requests)
        )

    for array, answer in zip(arrays, runner.run(scenario())):
        assert (answer.outputs[0].as_numpy() == np.cumsum(array)).all()


@pytest.mark.parametrize(
    ("model", "datatype", "attributes", "status", "words"),
    [
        ("nothing", "INT32", {}, 404, "there is no model"),
        ("cumsum", "INT32", {"axis": 5}, 400, "axis"),
        ("cumsum", "INT32", {"axes": 1}, 400, "axes"),
        ("cumsum_fp32", "INT32", {}, 400, "FP32"),
        ("cumsum", "BYTES", {}, 400, "BYTES"),
    ],
)
def test_refusals_reach_the_client(call, model, datatype, attributes, status, words):
    """The SDK reads the error message only if the content type is exactly application/json."""
    tensor = InferInput("x", [1], datatype, data=[1])
    request = InferRequest(model, [tensor], parameters=attributes or None)
    with pytest.raises(httpx.HTTPStatusError, match=words) as caught:
        call("infer", request, model_name=model)
    assert caught.value.response.status_code == status
