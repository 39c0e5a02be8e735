"""Random tensors, layouts and flags through every dialect and format that can say them: each answer has the
bits of the oracle. Seeds are the tests' names, so that a failure comes again."""

import json

import numpy as np
import pytest
from support import calls, dtypes, oracle

CASES = 100  # of each seed
SIZES = [1, 1, 2, 3, 5, 7]
LONG = [8, 9, 33, 255, 256, 257, 513]
DIRECTML_TYPES = ("float16", "float32", "int32", "int64", "uint32", "uint64")
OPENVINO_FLOATS = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}


class Case:
    """A tensor, how it lies in its buffer, how the sums are to lie, and what they are."""

    def __init__(self, rng):
        self.dtype = dtypes.ALL[rng.integers(len(dtypes.ALL))]
        self.shape = [int(size) for size in rng.choice(SIZES, rng.integers(1, 5))]
        if rng.random() < 0.4:
            self.shape[rng.integers(len(self.shape))] = int(rng.choice(LONG))
        if rng.random() < 0.25:
            self.shape[rng.integers(len(self.shape))] = 0
        rank = len(self.shape)
        self.strides = self.layout(rng, repeats=True) if rng.random() < 0.5 else None
        self.output_strides = self.layout(rng, repeats=False) if rng.random() < 0.4 else None
        self.axis = int(rng.integers(-rank, rank))
        self.exclusive, self.reverse = bool(rng.integers(2)), bool(rng.integers(2))
        places = self.places(self.strides)
        self.buffer = self.dtype.random(rng, (int(places.max(initial=-1)) + 1,))
        self.tensor = np.ascontiguousarray(self.buffer[places])
        self.sums = oracle.cumsum(self.dtype, self.tensor, self.axis, self.exclusive, self.reverse)

    def layout(self, rng, repeats):
        """Strides of dimensions in any order, with padding; of an input some repeat elements."""
        strides, stride = [0] * len(self.shape), 1
        for dim in rng.permutation(len(self.shape)):
            strides[dim] = stride
            stride = stride * max(self.shape[dim], 1) + int(rng.choice([0, 0, 1, 2]))
        if repeats:
            strides = [0 if rng.random() < 0.2 else stride for stride in strides]
        return [999 if size == 1 else stride for size, stride in zip(self.shape, strides)]

    def places(self, strides):
        """Of each element in a buffer with these strides; None: packed."""
        if strides is None:
            return np.arange(np.prod(self.shape, dtype=int)).reshape(self.shape)
        places = np.zeros(self.shape, int)
        for dim, (size, stride) in enumerate(zip(self.shape, strides)):
            steps = np.arange(size) * (stride if size > 1 else 0)
            places += steps.reshape([-1] + [1] * (len(self.shape) - 1 - dim))
        return places

    def expected(self, laid_out):
        """The sums in a row, or the output buffer with zeros in its gaps."""
        if not laid_out or self.output_strides is None:
            return self.sums.reshape(-1)
        places = self.places(self.output_strides)
        buffer = np.zeros(int(places.max(initial=-1)) + 1, self.dtype.storage)
        buffer[places] = self.sums
        return buffer

    def flags(self):
        return {"axis": self.axis, "exclusive": self.exclusive, "reverse": self.reverse}

    def strides_given(self):
        both = {"strides": self.strides, "output_strides": self.output_strides}
        return {name: strides for name, strides in both.items() if strides is not None}

    def stored(self, data):
        return self.dtype.from_json(data).reshape(-1)


def framed(client, path, document, payload=b""):
    """The answer's JSON, and the bytes behind it."""
    text = json.dumps(document).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    answer = client.post(path, text + payload, calls.RAW, headers)
    assert answer.status == 200, (document, answer)
    length = int(answer.headers.get("Inference-Header-Content-Length", len(answer.body)))
    return json.loads(answer.body[:length]), answer.body[length:]


def by_json(client, case, rng):
    nested = not case.strides_given() and rng.random() < 0.5
    data = case.dtype.json_values(case.tensor if nested else case.buffer)
    document = {"data": data, "dtype": case.dtype.name, "shape": case.shape, **case.flags()}
    answer = client.post_json("/v1/cumsum", {**document, **case.strides_given()})
    assert answer.status == 200, (document, answer)
    return case.stored(answer.json()["data"]), True


def by_raw(client, case, rng):
    query = calls.query(
        dtype=case.dtype.name, shape=case.shape, **case.flags(), **case.strides_given()
    )
    answer = client.post("/v1/cumsum" + query, case.buffer.tobytes(), calls.RAW)
    assert answer.status == 200, (query, answer)
    return np.frombuffer(answer.body, case.dtype.storage), True


def by_npy(client, case, rng):
    if case.dtype.npy is None:
        return None
    array = np.asfortranarray(case.tensor) if rng.random() < 0.5 else case.tensor
    array = array.astype(array.dtype.newbyteorder(rng.choice(["<", ">"])))
    version = (int(rng.integers(1, 4)), 0)
    query = calls.query(**case.flags(), output_strides=case.output_strides)
    answer = client.post("/v1/cumsum" + query, calls.npy_bytes(array, version), calls.NPY)
    assert answer.status == 200, (query, answer)
    return calls.npy_array(answer.body).reshape(-1), True


def by_directml(client, case, rng):
    if case.dtype.name not in DIRECTML_TYPES or 0 in case.shape:
        return None
    tensor = {"DataType": case.dtype.name.upper(), "Sizes": case.shape}
    desc = {
        "InputTensor": {**tensor, "Strides": case.strides},
        "OutputTensor": {**tensor, "Strides": case.output_strides},
        "Axis": case.axis % len(case.shape),
        "AxisDirection": "DECREASING" if case.reverse else "INCREASING",
        "HasExclusiveSum": case.exclusive,
    }
    path = "/v1/directml/cumulative_summation"
    if rng.random() < 0.5:
        document = {"desc": desc, "data": case.dtype.json_values(case.buffer)}
        return case.stored(framed(client, path, document)[0]["data"]), True
    _, payload = framed(client, path, {"desc": desc}, case.buffer.tobytes())
    whole = np.frombuffer(payload, case.dtype.storage)
    count = case.expected(True).size  # the rest fills up 4 bytes
    assert not whole[count:].any() and len(payload) == -(-count * case.dtype.bytes // 4) * 4
    return whole[:count], True


def by_openvino(client, case, rng):
    name = OPENVINO_FLOATS.get(case.dtype.name) or case.dtype.name.replace("int", "").upper()
    name = name if case.dtype.is_float else ("I" + name if case.dtype.kind == "i" else name)
    data = {"precision": name, "shape": case.shape}
    axis = {
        "precision": str(rng.choice(["I32", "i64"])),
        "shape": [1] if rng.random() < 0.5 else [],
    }
    payload = b""
    if rng.random() < 0.5:
        data["data"] = case.dtype.json_values(case.tensor.reshape(-1))
    else:
        data["binary_data_size"] = case.tensor.nbytes
        payload += case.tensor.tobytes()
    if rng.random() < 0.5:
        axis["data"] = case.axis if rng.random() < 0.5 else [case.axis]
    else:
        axis["binary_data_size"] = int(axis["precision"][1:]) // 8
        payload += case.axis.to_bytes(axis["binary_data_size"], "little", signed=True)
    attributes = {"exclusive": case.exclusive, "reverse": str(int(case.reverse))}
    document = {"attributes": attributes, "inputs": [data, axis]}
    answer, rest = framed(client, "/v1/openvino/cumsum-3", document, payload)
    [output] = answer["outputs"]
    in_text = "data" in output
    return (
        case.stored(output["data"]) if in_text else np.frombuffer(rest, case.dtype.storage)
    ), False


def by_v2(client, case, rng):
    x = {"name": "x", "datatype": case.dtype.kserve, "shape": case.shape}
    payload = b""
    if rng.random() < 0.5:
        x["data"] = case.dtype.json_values(case.tensor)
    else:
        x["parameters"] = {"binary_data_size": case.tensor.nbytes}
        payload = case.tensor.tobytes()
    parameters = {**case.flags(), "binary_data_output": bool(rng.integers(2))}
    document = {"inputs": [x], "parameters": parameters}
    answer, rest = framed(client, "/v2/models/cumsum/infer", document, payload)
    [output] = answer["outputs"]
    in_text = "data" in output
    return (
        case.stored(output["data"]) if in_text else np.frombuffer(rest, case.dtype.storage)
    ), False


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("send", [by_json, by_raw, by_npy, by_directml, by_openvino, by_v2])
def test_any_tensor_has_the_oracles_sums(client, send, seed):
    rng = np.random.default_rng(seed)
    sent = 0
    for _ in range(CASES):
        case = Case(rng)
        answer = send(client, case, rng)
        if answer is None:
            continue
        actual, laid_out = answer
        expected = case.expected(laid_out)
        actual = np.asarray(actual).astype(case.dtype.storage)
        assert oracle.same_bits(case.dtype, actual, expected), vars(case)
        sent += 1
    assert sent > CASES / 4


def test_every_dialect_counts_elements_in_the_same_words(client):
    tensor = {"DataType": "INT32", "Sizes": [3]}
    desc = {
        "InputTensor": tensor,
        "OutputTensor": tensor,
        "Axis": 0,
        "AxisDirection": "INCREASING",
        "HasExclusiveSum": False,
    }
    v2 = {"name": "x", "datatype": "INT32", "shape": [3], "data": [7]}
    openvino = {"precision": "I32", "shape": [3], "data": [7]}
    for path, field, request in (
        ("/v1/cumsum", "data", {"shape": [3], "data": [7]}),
        ("/v1/directml/cumulative_summation", "data", {"desc": desc, "data": [7]}),
        ("/v1/openvino/cumsum-3", "inputs[0].data", {"inputs": [openvino]}),
        ("/v2/models/cumsum/infer", "inputs[0].data", {"inputs": [v2]}),
    ):
        answer = client.post_json(path, request)
        calls.expect_error(answer, 400, "length_mismatch", field, "found 1 element, expected 3")
