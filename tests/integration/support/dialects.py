"""One call of the cumulative sum through every dialect and format that can express it.

    by_json(client, call, rng)    the stored sums in one dimension, and whether they have the
                                  layout of the call's output_strides; None: the dialect
                                  cannot express the call

The generator `rng` chooses between the forms of a dialect: text or bytes, nested or flat.
"""

import json

import numpy as np

from . import calls, oracle

DIRECTML_TYPES = ("float16", "float32", "int32", "int64", "uint32", "uint64")
OPENVINO_FLOATS = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}


class Call:
    """A tensor with its layout, the layout of its sums, and the expected sums."""

    def __init__(
        self,
        dtype,
        buffer,
        shape,
        axis=0,
        exclusive=False,
        reverse=False,
        strides=None,
        output_strides=None,
    ):
        """strides: the strides of the tensor in its buffer; output_strides: those of the sums.
        None: packed."""
        self.dtype, self.buffer, self.shape = dtype, buffer, list(shape)
        self.axis, self.exclusive, self.reverse = axis, exclusive, reverse
        self.strides, self.output_strides = strides, output_strides
        self.tensor = np.ascontiguousarray(buffer.reshape(-1)[places_of(self.shape, strides)])
        self.sums = oracle.cumsum(dtype, self.tensor, axis, exclusive, reverse)

    def expected(self, laid_out):
        """The sums in one dimension, or the output buffer with zeros in its gaps."""
        if not laid_out or self.output_strides is None:
            return self.sums.reshape(-1)
        places = places_of(self.shape, self.output_strides)
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


def places_of(shape, strides):
    """The index of each element in a buffer with these strides; None: packed."""
    if strides is None:
        return np.arange(np.prod(shape, dtype=int)).reshape(shape)
    places = np.zeros(shape, int)
    for dim, (size, stride) in enumerate(zip(shape, strides)):
        steps = np.arange(size) * (stride if size > 1 else 0)
        places += steps.reshape([-1] + [1] * (len(shape) - 1 - dim))
    return places


def framed(client, path, document, payload=b""):
    """Send JSON and the bytes of `payload` behind it. Returns the JSON of the answer, and the
    bytes behind it."""
    text = json.dumps(document).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    answer = client.post(path, text + payload, calls.RAW, headers)
    assert answer.status == 200, (document, answer)
    length = int(answer.headers.get("Inference-Header-Content-Length", len(answer.body)))
    return json.loads(answer.body[:length]), answer.body[length:]


def by_json(client, call, rng):
    nested = not call.strides_given() and rng.random() < 0.5
    data = call.dtype.json_values(call.tensor if nested else call.buffer)
    document = {"data": data, "dtype": call.dtype.name, "shape": call.shape, **call.flags()}
    answer = client.post_json("/v1/cumsum", {**document, **call.strides_given()})
    assert answer.status == 200, (document, answer)
    return call.stored(answer.json()["data"]), True


def by_raw(client, call, rng):
    query = calls.query(
        dtype=call.dtype.name, shape=call.shape, **call.flags(), **call.strides_given()
    )
    answer = client.post("/v1/cumsum" + query, call.buffer.tobytes(), calls.RAW)
    assert answer.status == 200, (query, answer)
    return np.frombuffer(answer.body, call.dtype.storage), True


def by_npy(client, call, rng):
    if call.dtype.npy is None:
        return None
    array = np.asfortranarray(call.tensor) if rng.random() < 0.5 else call.tensor
    array = array.astype(array.dtype.newbyteorder(rng.choice(["<", ">"])))
    version = (int(rng.integers(1, 4)), 0)
    query = calls.query(**call.flags(), output_strides=call.output_strides)
    answer = client.post("/v1/cumsum" + query, calls.npy_bytes(array, version), calls.NPY)
    assert answer.status == 200, (query, answer)
    return calls.npy_array(answer.body).reshape(-1), True


def by_directml(client, call, rng):
    if call.dtype.name not in DIRECTML_TYPES or 0 in call.shape:
        return None
    tensor = {"DataType": call.dtype.name.upper(), "Sizes": call.shape}
    desc = {
        "InputTensor": {**tensor, "Strides": call.strides},
        "OutputTensor": {**tensor, "Strides": call.output_strides},
        "Axis": call.axis % len(call.shape),
        "AxisDirection": "DECREASING" if call.reverse else "INCREASING",
        "HasExclusiveSum": call.exclusive,
    }
    path = "/v1/directml/cumulative_summation"
    if rng.random() < 0.5:
        document = {"desc": desc, "data": call.dtype.json_values(call.buffer)}
        return call.stored(framed(client, path, document)[0]["data"]), True
    _, payload = framed(client, path, {"desc": desc}, call.buffer.tobytes())
    whole = np.frombuffer(payload, call.dtype.storage)
    count = call.expected(True).size  # the rest is padding to 4 bytes
    assert not whole[count:].any() and len(payload) == -(-count * call.dtype.bytes // 4) * 4
    return whole[:count], True


def by_openvino(client, call, rng):
    name = OPENVINO_FLOATS.get(call.dtype.name) or call.dtype.name.replace("int", "").upper()
    name = name if call.dtype.is_float else ("I" + name if call.dtype.kind == "i" else name)
    data = {"precision": name, "shape": call.shape}
    axis = {
        "precision": str(rng.choice(["I32", "i64"])),
        "shape": [1] if rng.random() < 0.5 else [],
    }
    payload = b""
    if rng.random() < 0.5:
        data["data"] = call.dtype.json_values(call.tensor.reshape(-1))
    else:
        data["binary_data_size"] = call.tensor.nbytes
        payload += call.tensor.tobytes()
    if rng.random() < 0.5:
        axis["data"] = call.axis if rng.random() < 0.5 else [call.axis]
    else:
        axis["binary_data_size"] = int(axis["precision"][1:]) // 8
        payload += call.axis.to_bytes(axis["binary_data_size"], "little", signed=True)
    attributes = {"exclusive": call.exclusive, "reverse": str(int(call.reverse))}
    document = {"attributes": attributes, "inputs": [data, axis]}
    answer, rest = framed(client, "/v1/openvino/cumsum-3", document, payload)
    [output] = answer["outputs"]
    in_text = "data" in output
    return (
        call.stored(output["data"]) if in_text else np.frombuffer(rest, call.dtype.storage)
    ), False


def by_v2(client, call, rng):
    x = {"name": "x", "datatype": call.dtype.kserve, "shape": call.shape}
    payload = b""
    if rng.random() < 0.5:
        x["data"] = call.dtype.json_values(call.tensor)
    else:
        x["parameters"] = {"binary_data_size": call.tensor.nbytes}
        payload = call.tensor.tobytes()
    parameters = {**call.flags(), "binary_data_output": bool(rng.integers(2))}
    document = {"inputs": [x], "parameters": parameters}
    answer, rest = framed(client, "/v2/models/cumsum/infer", document, payload)
    [output] = answer["outputs"]
    in_text = "data" in output
    return (
        call.stored(output["data"]) if in_text else np.frombuffer(rest, call.dtype.storage)
    ), False


ALL = [by_json, by_raw, by_npy, by_directml, by_openvino, by_v2]
