"""Bodies with a Content-Encoding: short ones are decompressed on the loop, others by the codec
pool."""

import gzip
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from support import calls, dtypes
from support.tallyd import MODE

MIB = 1 << 20
PACKED_NPY = (
    b"POST /v1/cumsum HTTP/1.1\r\nHost: x\r\nAccept: application/octet-stream\r\n"
    b"Content-Type: application/x-npy\r\nContent-Encoding: gzip\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
PACK = {"gzip": gzip.compress, "deflate": zlib.compress}
FLOAT32 = dtypes.BY_NAME["float32"]


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


@pytest.mark.parametrize("coding", PACK)
@pytest.mark.parametrize("length", [12, 5000, 1 << 18])
@pytest.mark.parametrize("form", ["json", "raw", "npy"])
def test_packed_bodies_of_all_lengths_are_those_unpacked(client, coding, length, form):
    stored = (np.arange(length) % 97).astype(np.float32)
    path, body, kind = {
        "json": (
            "/v1/cumsum",
            calls.json_body({"data": stored.tolist(), "dtype": "float32"}),
            calls.JSON,
        ),
        "raw": (f"/v1/cumsum?dtype=float32&shape={length}", stored.tobytes(), calls.RAW),
        "npy": ("/v1/cumsum", calls.npy_bytes(stored), calls.NPY),
    }[form]
    headers = {"Content-Encoding": coding}
    answer = client.post(path, PACK[coding](body), kind, headers)
    calls.expect_same(FLOAT32, calls.stored_of(FLOAT32, answer, (length,)), stored)


@pytest.mark.parametrize("cut", [1, 20, 300000])
def test_a_packed_body_that_ends_early_is_refused_and_the_connection_lives(client, cut):
    rng = np.random.default_rng(1)
    body = gzip.compress(rng.standard_normal(100000).astype(np.float32).tobytes(), 1)
    for damaged in (body[:-cut], body[:100] + bytes(50) + body[150:]):
        answer = client.post(
            "/v1/cumsum?dtype=float32&shape=100000",
            damaged,
            calls.RAW,
            {"Content-Encoding": "gzip"},
        )
        calls.expect_error(answer, 400, field="Content-Encoding")
    assert client.get("/livez").status == 200


def test_a_packed_body_in_chunks_whose_first_ones_are_short_is_read_to_its_end(start_server):
    """A compressor of a stream may send the gzip header first, separately. The header is short, but
    the possible size of such a body soon reaches the whole budget: the request must not wait for
    memory that it holds itself, which would also block all large requests behind it."""
    server = start_server("--memory-budget", "64MiB")
    stored = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 1 << 16, dtype=np.int64)
    packed = gzip.compress(calls.npy_bytes(stored), 1)
    with server.wire() as wire:
        wire.send(PACKED_NPY)
        for piece in (packed[:10], packed[10:500], packed[500:]):
            wire.send(chunk(piece))
        answer = wire.send(chunk(b"")).answer()
    assert answer.status == 200, answer.body
    assert answer.body == np.cumsum(stored).tobytes()


def test_packed_bodies_that_may_each_need_all_memory_come_one_after_the_other(start_server):
    """Each request holds a little memory when it begins to wait. No request may wait for memory
    that a later request holds."""
    server = start_server("--memory-budget", "64MiB")
    stored = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 1 << 16, dtype=np.int64)
    packed = gzip.compress(calls.npy_bytes(stored), 1)
    wires = [server.wire() for _ in range(5)]
    for wire in wires:
        wire.send(PACKED_NPY + chunk(packed[:10])).await_read()
    for wire in wires:
        wire.send(chunk(packed[10:]) + chunk(b""))
    # Read in parallel: while others lack memory, a client that does not read its answer is cut.
    with ThreadPoolExecutor(len(wires)) as readers:
        for answer in readers.map(lambda wire: wire.answer(), wires):
            assert answer.status == 200, answer.body
            assert answer.body == np.cumsum(stored).tobytes()
    for wire in wires:
        wire.close()


def test_a_packed_text_that_needs_more_than_all_memory_is_told_so(start_server):
    """The answer must not ask for a retry: libtally and `tally` would retry until their time is
    over."""
    server = start_server("--memory-budget", "2MiB")
    text = b'{"data":[' + b"1," * (MIB // 2) + b"1]}"
    client = server.client()
    answer = client.post(
        "/v1/cumsum", gzip.compress(text), calls.JSON, {"Content-Encoding": "gzip"}
    )
    error = calls.expect_error(answer, 413)["error"]
    assert "--memory-budget" in error, error
    client.close()


def test_bombs_are_refused_while_others_are_served(start_server):
    server = start_server("--max-body-bytes", "32MiB")
    bomb = gzip.compress(bytes(40 * MIB))
    slow = server.client(60)
    fast = server.client(60)
    assert fast.post("/v1/cumsum?dtype=int8&shape=2", b"\x01\x02", calls.RAW).body == b"\x01\x03"
    before = server.rss_bytes()
    for _ in range(3):
        start = time.monotonic()
        answer = slow.post(
            f"/v1/cumsum?dtype=int8&shape={40 * MIB}", bomb, calls.RAW, {"Content-Encoding": "gzip"}
        )
        assert answer.status == 413, answer
        assert time.monotonic() - start < 30
        answer = slow.post("/v1/cumsum", bomb, calls.JSON, {"Content-Encoding": "gzip"})
        assert answer.status in (400, 413), answer
        assert fast.post("/v1/cumsum?dtype=int8&shape=1", b"\x05", calls.RAW).body == b"\x05"
    if MODE == "release":  # sanitizers keep freed memory
        assert server.rss_bytes() - before < 150 * MIB
    slow.close()
    fast.close()
    server.stop()
