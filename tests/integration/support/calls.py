"""Calls of /v1/cumsum in each format, and checks shared by many tests."""

import io
import json

import numpy as np

from . import oracle

RAW = "application/octet-stream"
NPY = "application/x-npy"
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


def query(**params):
    """A query string. Lists become comma-separated, booleans become words, None is left out."""
    parts = []
    for name, value in params.items():
        if value is None:
            continue
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, (list, tuple)):
            value = ",".join(str(item) for item in value)
        plus = str(value).replace("+", "%2B")  # in a query, a plain "+" means a space
        parts.append(f"{name}={plus}")
    return "?" + "&".join(parts) if parts else ""


def npy_bytes(array, version=(1, 0)):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), version=version)
    return stream.getvalue()


def npy_array(body):
    return np.load(io.BytesIO(body), allow_pickle=False)


def post_raw(client, dtype, stored, accept=None, **attributes):
    path = "/v1/cumsum" + query(dtype=dtype.name, shape=list(stored.shape), **attributes)
    return client.post(path, stored.tobytes(), RAW, {"Accept": accept} if accept else None)


def post_npy(client, stored, accept=None, **attributes):
    headers = {"Accept": accept} if accept else None
    return client.post("/v1/cumsum" + query(**attributes), npy_bytes(stored), NPY, headers)


def post_json(client, dtype, stored, accept=None, flat=False, **attributes):
    data = dtype.json_values(stored.reshape(-1) if flat else stored)
    document = {"data": data, "dtype": dtype.name, **attributes}
    if flat:
        document["shape"] = list(stored.shape)
    return client.post_json("/v1/cumsum", document, {"Accept": accept} if accept else None)


def stored_of(dtype, answer, shape):
    """The stored array of a success answer in any format, after checking its headers."""
    assert answer.status == 200, answer
    content_type = answer.headers["Content-Type"]
    if content_type == RAW:
        assert answer.headers["Tally-Dtype"] == dtype.name
        assert answer.headers["Tally-Shape"] == ",".join(str(size) for size in shape)
        return np.frombuffer(answer.body, dtype.storage).reshape(shape)
    if content_type == NPY:
        array = npy_array(answer.body)
        assert array.dtype.str == dtype.npy and array.shape == tuple(shape)
        assert answer.body[6:8] == b"\x01\x00" and array.flags.c_contiguous
        return array
    assert content_type == JSON
    document = answer.json()
    assert document["dtype"] == dtype.name and document["shape"] == list(shape)
    return dtype.from_json(document["data"]).reshape(shape)


def expect_same(dtype, actual, stored, **attributes):
    """Check that the answer has the oracle's bits."""
    expected = oracle.cumsum(dtype, stored, **attributes)
    if not oracle.same_bits(dtype, actual, expected):
        differ = np.argwhere(actual.view(f"u{dtype.bytes}") != expected.view(f"u{dtype.bytes}"))[
            :3
        ].tolist()
        raise AssertionError(
            f"{dtype} {stored.shape} {attributes}: first differences at {differ}: "
            f"{[dtype.load(actual)[tuple(at)] for at in differ]} instead of "
            f"{[dtype.load(expected)[tuple(at)] for at in differ]}"
        )


def expect_error(answer, status, code=None, field=None, says=()):
    """Check the common form of every error answer; `says` are words that its sentence must
    contain."""
    assert answer.status == status, answer
    assert answer.headers["Content-Type"] == JSON, answer
    document = answer.json()
    assert set(document) <= {"error", "code", "field"}, document
    assert isinstance(document["error"], str) and len(document["error"]) >= 10, document
    assert isinstance(document["code"], str) and document["code"], document
    if code is not None:
        codes = (code,) if isinstance(code, str) else code
        assert document["code"] in codes, document
    if field is not None:
        assert document.get("field") == field, document
    for words in [says] if isinstance(says, str) else says:
        assert words in document["error"], document
    return document


def json_body(document):
    return json.dumps(document).encode()


# A request that any server accepts, and its answer.
PATH = "/v1/cumsum?dtype=int32&shape=4"
BODY = np.array([1, 2, 3, 4], np.int32).tobytes()
SUMS = np.array([1, 3, 6, 10], np.int32).tobytes()


def works(server):
    client = server.client()
    try:
        return client.post(PATH, BODY, RAW).body == SUMS
    finally:
        client.close()
