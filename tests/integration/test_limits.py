"""Limits and deadlines, each on a separate server with small values."""

import concurrent.futures
import contextlib
import gzip
import json
import os
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import threading
import time

import numpy as np
import pytest

from support import calls
from support.calls import BODY, PATH, SUMS, works
from support.http import post_bytes
from support.tallyd import FAULTY
from support.waiting import until

RAW = ("Content-Type", calls.RAW)
MIB = 1 << 20


def in_parallel(calls_to_make):
    with concurrent.futures.ThreadPoolExecutor(len(calls_to_make)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls_to_make]]


def one_post(server, path, body, headers=None):
    client = server.client()
    try:
        return client.post(path, body, calls.RAW, headers)
    finally:
        client.close()


def be_slow(server):
    """Let two seconds pass. After that, requests that hold memory without progress may be cut; the
    time counts from the first heartbeat that sees them."""
    server.pass_time_awake(2.7)


# Advice of an error about a size.
LESS = ["send less at once", "along any axis, along the summed one in parts", "ask the operator"]

# Size of the body ---------------------------------------------------------------------------


@pytest.fixture
def small_server(start_server):
    return start_server("--max-body-bytes", "1MiB")


def test_a_body_at_the_limit_is_served_and_one_byte_more_is_413(small_server):
    client = small_server.client()
    assert client.post(f"/v1/cumsum?dtype=int8&shape={MIB}", bytes(MIB), calls.RAW).status == 200
    answer = client.post(f"/v1/cumsum?dtype=int8&shape={MIB + 1}", bytes(MIB + 1), calls.RAW)
    says = ["has 1048577 bytes", "over 1 MiB, the server's --max-body-bytes", *LESS]
    calls.expect_error(answer, 413, "too_large", says=says)
    headers = {"Content-Encoding": "gzip"}
    for body in (gzip.compress(bytes(MIB + 1)), np.random.default_rng(1).bytes(MIB + 1)):
        answer = client.post(f"/v1/cumsum?dtype=int8&shape={MIB + 1}", body, calls.RAW, headers)
        says = ["over 1 MiB, the server's --max-body-bytes", *LESS]
        calls.expect_error(answer, 413, "too_large", says=says)
    page = b" " * (MIB + 1)
    for body, headers in ((page, {}), (gzip.compress(page), headers)):
        answer = client.post("/v2/repository/index", body, headers=headers)
        says = ["over 1 MiB, the limit of this path"]
        calls.expect_error(answer, 413, "too_large", says=says)
    client.close()
    assert works(small_server)


@pytest.mark.parametrize("size", [MIB + 1, 4 * MIB, 32 * MIB])
def test_413_reaches_a_client_that_is_still_sending(small_server, size):
    """The client writes its whole body before it reads, as many clients do."""
    with small_server.wire() as wire:
        try:
            wire.send(post_bytes(f"/v1/cumsum?dtype=int8&shape={size}", bytes(size), [RAW]))
        except (BrokenPipeError, ConnectionResetError):
            pass
        calls.expect_error(wire.answer(), 413, "too_large")
    assert works(small_server)


@pytest.mark.parametrize("asks", [b"POST /v1/cumsum", b"GET /livez"])
def test_413_for_a_chunked_body_that_grows_too_long(small_server, asks):
    piece = b"10000\r\n" + bytes(0x10000) + b"\r\n"
    with small_server.wire() as wire:
        wire.send(asks + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(64):
                wire.send(piece)
            wire.send(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        try:
            calls.expect_error(wire.answer(), 413)
        except (ConnectionResetError, ConnectionError):
            pass  # the connection was closed inside the body: the client cannot read an answer
    assert works(small_server)


@pytest.mark.parametrize("flags", [["-H", "Expect:"], ["-H", "Expect: 100-continue"], []])
def test_curl_shows_the_413(small_server, tmp_path, flags):
    (tmp_path / "in").write_bytes(bytes(8 * MIB))
    result = subprocess.run(
        [
            "curl",
            "-sS",
            *flags,
            "-w",
            "%{http_code}",
            "-H",
            "Content-Type: application/octet-stream",
            "--data-binary",
            f"@{tmp_path}/in",
            "-o",
            f"{tmp_path}/out",
            f"http://127.0.0.1:{small_server.port}/v1/cumsum?dtype=int8&shape={8 * MIB}",
        ],
        stdout=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    assert result.stdout == b"413"
    assert b"--max-body-bytes" in (tmp_path / "out").read_bytes()


def test_limit_on_rank_names_its_flag(start_server):
    server = start_server("--max-rank", "3")
    client = server.client()
    assert client.post("/v1/cumsum?dtype=int8&shape=1,1,1", b"x", calls.RAW).status == 200
    answer = client.post("/v1/cumsum?dtype=int8&shape=1,1,1,1", b"x", calls.RAW)
    says = ["has 4 dimensions", "at most 3, the server's --max-rank", "merge", "operator"]
    calls.expect_error(answer, 413, "too_large", "shape", says)
    client.close()


# Memory -------------------------------------------------------------------------------------


@pytest.fixture
def tight_server(start_server):
    return start_server("--memory-budget", "16MiB", moves_clock=True)


def test_a_tensor_that_never_fits_is_413_before_its_body(tight_server):
    with tight_server.wire() as wire:
        wire.send(
            f"POST /v1/cumsum?dtype=int8&shape={64 * MIB} HTTP/1.1\r\nHost: x\r\n"
            f"Content-Type: {calls.RAW}\r\nContent-Length: {64 * MIB}\r\n"
            "Expect: 100-continue\r\n\r\n".encode()
        )
        says = ["64 MiB", "16 MiB, the server's --memory-budget", *LESS]
        calls.expect_error(wire.answer(), 413, "too_large", says=says)
    assert works(tight_server)


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("", f"Content-Type: {calls.JSON}"),
        ("", f"Content-Type: {calls.JSON}\r\nContent-Encoding: gzip"),
        ("?dtype=int8&shape=9", f"Content-Type: {calls.RAW}\r\nContent-Encoding: gzip"),
    ],
    ids=["text", "packed text", "packed tensor"],
)
def test_a_body_that_never_fits_is_413_before_it_is_read(tight_server, query, fields):
    """The refusal depends only on the announced length, whatever the body contains."""
    with tight_server.wire() as wire:
        wire.send(
            f"POST /v1/cumsum{query} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"
            f"Content-Length: {17 * MIB}\r\nExpect: 100-continue\r\n\r\n".encode()
        )
        says = ["needs 17", "16 MiB, the server's --memory-budget", *LESS]
        calls.expect_error(wire.answer(), 413, "too_large", says=says)
    assert works(tight_server)


def test_a_small_body_cannot_ask_for_a_large_output(tight_server):
    """The body has one element, and strides of 0 repeat it for an answer of 64 MiB."""
    client = tight_server.client()
    answer = client.post(f"/v1/cumsum?dtype=int8&shape={64 * MIB}&strides=0", b"\x01", calls.RAW)
    assert answer.status in (413, 503), answer
    calls.expect_error(answer, answer.status)
    client.close()
    assert works(tight_server)


def test_a_small_request_is_503_while_others_hold_all_memory_and_served_when_they_gave_way(
    start_server,
):
    """A large request would wait and not get 503: see tests/integration/test_admission.py."""
    server = start_server("--memory-budget", "1MiB", moves_clock=True)
    size = 400 * 1024
    path = f"/v1/cumsum?dtype=int8&shape={size}"
    request = post_bytes(path, bytes(size), [RAW])
    holders = [server.wire().send(request[:-1000]) for _ in range(2)]
    until(lambda: server.metric("tally_memory_reserved_bytes") >= 2 * (size - 1000), 20)
    answer = one_post(server, path, bytes(size))
    says = ["KiB of 1 MiB, the server's --memory-budget", "Retry-After", "send less at once"]
    calls.expect_error(answer, 503, "out_of_memory", says=says)
    assert int(answer.headers["Retry-After"]) >= 1
    be_slow(server)
    until(lambda: one_post(server, path, bytes(size)).status == 200, 20, 0.05)
    for wire in holders:
        wire.close()


def test_sizes_whose_sum_overflows_are_refused(tight_server):
    """The output of n bytes and its text of 5 n bytes add up to slightly more than 2**64."""
    size = 2**64 // 6 + 1
    document = {"data": [1, 2], "dtype": "int8", "shape": [2], "output_strides": [size - 1]}
    client = tight_server.client()
    answer = client.post_json("/v1/cumsum", document)
    calls.expect_error(answer, 413, "too_large", says="--memory-budget")
    client.close()


@pytest.mark.parametrize(
    ("query", "body"),
    [
        (f"?dtype=int8&shape=2&output_strides={2**63 - 2}", b"\x01\x02"),
        (f"?dtype=float32&shape={2**61},0&axis=1&part=first", b""),
        (f"?dtype=int8&shape={2**62},1&strides=0,0&axis=1&part=first", b"\x01"),
    ],
    ids=["a gap in the output", "lines of no elements", "lines that are one element"],
)
def test_a_tensor_beyond_all_memory_is_refused_with_the_limit_and_its_flag(
    tight_server, query, body
):
    answer = one_post(tight_server, "/v1/cumsum" + query, body)
    says = ["16 MiB, the server's --memory-budget", *LESS]
    calls.expect_error(answer, 413, "too_large", says=says)


@pytest.mark.release_only
def test_declared_bytes_that_never_come_are_not_touched(start_server):
    server = start_server("--memory-budget", "2GiB")
    before = server.rss_bytes()
    size = 1 << 30
    with server.wire() as wire:
        wire.send(
            f"POST /v1/cumsum?dtype=int8&shape={size} HTTP/1.1\r\nHost: x\r\n"
            f"Content-Type: {calls.RAW}\r\nContent-Length: {size}\r\n\r\nx".encode()
        )
        until(lambda: server.metric("tally_memory_reserved_bytes") > 0)
        assert server.metric("tally_memory_reserved_bytes") < MIB
        assert server.rss_bytes() - before < 64 * MIB
        assert works(server)


# Queue and deadlines ------------------------------------------------------------------------
# With --batch-delay-us a device waits for more requests: work stays queued for a known time.


@pytest.fixture
def busy_server(start_server, tmp_path):
    """make(): a service whose device is slow and busy with one request."""

    def make():
        fault = tmp_path / "fault"
        fault.write_text("")
        # With a batch delay the HTTP thread computes nothing itself; otherwise it would block.
        env = {"TALLY_TEST_CL_FAULT": f"@{fault}"}
        server = start_server("--batch-delay-us", "1", env=env, binary=FAULTY)
        assert one_post(server, PATH, BODY).body == SUMS
        fault.write_text("hang_ms=400")
        path = "/v1/cumsum?dtype=int8&shape=4"
        wires.append(server.wire().send(post_bytes(path, bytes(4), [RAW])))
        server.await_active(1)
        return server

    wires = []
    yield make
    for wire in wires:
        wire.close()


def test_a_deadline_that_passes_in_the_queue_is_504(busy_server):
    server = busy_server()
    answer = one_post(server, PATH, BODY, {"X-Request-Timeout-Ms": "50"})
    calls.expect_error(answer, 504, "deadline_passed")
    answer = one_post(server, PATH, BODY, {"X-Request-Timeout-Ms": "60000"})
    assert answer.status == 200 and answer.body == SUMS


@pytest.mark.parametrize("own_ms, header_ms", [(50, None), (50, 60000), (60000, 50), (0, 50)])
def test_of_the_servers_time_and_the_clients_the_shorter_one_counts(
    start_server, own_ms, header_ms
):
    """own_ms is --request-timeout-ms; 0: the server has no time limit of its own."""
    server = start_server("--request-timeout-ms", str(own_ms))
    headers = [] if header_ms is None else [("X-Request-Timeout-Ms", str(header_ms))]
    with server.wire() as wire:
        wire.send(post_bytes(PATH, BODY, [RAW, *headers])[:-1])
        calls.expect_error(wire.answer(), 504, "deadline_passed")


def test_a_batch_that_waits_for_company_begins_in_time_for_a_deadline(start_server):
    server = start_server("--batch-delay-us", "1000000")
    answer = one_post(server, PATH, BODY, {"X-Request-Timeout-Ms": "800"})
    assert answer.status == 200 and answer.body == SUMS


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "", "99999999999999999999", "10s"])
def test_a_deadline_that_is_no_number_is_refused(client, value):
    headers = {"X-Request-Timeout-Ms": value}
    calls.expect_error(client.post(PATH, BODY, calls.RAW, headers), 400)


def test_a_deadline_is_not_given_up_because_others_wait_for_company(start_server):
    """The first request has waited for its batch for as long as the deadline of the second one
    allows. The service must not conclude that the second one will wait as long, and refuse
    it."""
    server = start_server("--batch-delay-us", "1000000")
    for _ in range(5):  # repeated, since on a machine that stops for 0.4 s the deadline passes
        with server.wire() as wire:
            wire.send(post_bytes(PATH, BODY, [RAW]))
            until(lambda: server.metric("tally_queue_oldest_seconds") > 0.4)
            answer = one_post(server, PATH, BODY, {"X-Request-Timeout-Ms": "400"})
            assert wire.answer().body == SUMS
        if answer.status == 200:
            break
    assert answer.status == 200 and answer.body == SUMS


@pytest.mark.parametrize("timeout_us, header_ms", [(50_000, None), (60_000_000, "50")])
def test_v2_timeout_is_503_as_triton_says_it(busy_server, timeout_us, header_ms):
    """The shorter of the header's and the document's time counts."""
    client = busy_server().client()
    document = {
        "parameters": {"timeout": timeout_us},
        "inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}],
    }
    headers = {"X-Request-Timeout-Ms": header_ms} if header_ms else {}
    body = json.dumps(document).encode()
    answer = client.post("/v2/models/cumsum/infer", body, calls.JSON, headers)
    assert answer.status == 503, answer
    assert "error" in answer.json()
    client.close()


def test_a_full_queue_is_503_with_retry_after_and_no_wrong_answer(start_server):
    server = start_server("--queue-depth", "2", "--batch-delay-us", "1000000")
    dtypes = ["int32", "uint32", "float32"] * 8  # types that never share a batch
    answers = in_parallel(
        [
            lambda dtype=dtype: one_post(
                server, f"/v1/cumsum?dtype={dtype}&shape=4", np.ones(4, dtype).tobytes()
            )
            for dtype in dtypes
        ]
    )
    statuses = [answer.status for answer in answers]
    assert set(statuses) <= {200, 503} and 200 in statuses and 503 in statuses, statuses
    for dtype, answer in zip(dtypes, answers, strict=True):
        if answer.status == 200:
            assert np.frombuffer(answer.body, dtype).tolist() == [1, 2, 3, 4]
        else:
            says = ["2 requests wait", "the server's --queue-depth", "Retry-After"]
            calls.expect_error(answer, 503, "queue_full", says=says)
            assert int(answer.headers["Retry-After"]) >= 1
    assert one_post(server, PATH, BODY).status == 200


def test_one_client_over_its_share_is_429(start_server):
    server = start_server("--per-client-requests", "1", "--batch-delay-us", "1000000")
    kept = server.client()
    # the server keeps its record of a client while the client has a connection open
    assert kept.get("/livez").status == 200
    for retry in ("1", "2"):  # seconds that requests of this client took so far
        answers = in_parallel([lambda: one_post(server, PATH, BODY) for _ in range(4)])
        assert sorted(answer.status for answer in answers) == [200, 429, 429, 429]
        refused = next(answer for answer in answers if answer.status == 429)
        says = ["1 requests in flight", "the server's --per-client-requests", "wait for an answer"]
        calls.expect_error(refused, 429, "too_many_requests", says=says)
        assert refused.headers["Retry-After"] == retry
    kept.close()


# The connection of a small request in the queue is not suspended: libmicrohttpd keeps watching it.


def test_clients_that_reset_while_the_device_has_their_request_cost_nothing(start_server):
    server = start_server("--batch-delay-us", "1000000", "--per-client-requests", "20")
    wires = [server.wire().send(post_bytes(PATH, BODY, [RAW])) for _ in range(20)]
    server.await_active(20)
    for wire in wires:
        wire.reset()
    server.await_active(0)
    # the only connection is that of this query
    until(lambda: server.metric("tally_connections") == 1)
    assert server.metric("tally_clients_gone_total") == 20
    assert works(server)  # the client's quota is free again


HALF_CLOSED = {
    "small, polled": (PATH, BODY, SUMS, []),
    "wide, suspended": (
        f"/v1/cumsum?dtype=int8&shape={MIB}&strides=0",
        b"\x01",
        np.cumsum(np.ones(MIB, np.int8), dtype=np.int8).tobytes(),
        [],
    ),
    "large, sliced": (
        f"/v1/cumsum?dtype=int8&shape={9 * MIB}",
        bytes(9 * MIB),
        bytes(9 * MIB),
        ["--slice-bytes", "1MiB"],
    ),
}


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("name", HALF_CLOSED)
def test_a_client_that_has_closed_its_side_gets_its_answer(start_server, name, framing):
    """The client half-closes its connection, as `nc -N` and shutdown(SHUT_WR) do. The device
    answers only after several heartbeats of the loop."""
    path, body, expected, flags = HALF_CLOSED[name]
    server = start_server("--batch-delay-us", "900000", *flags)
    request = post_bytes(path, body, [RAW])
    if framing == "chunked":
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {calls.RAW}\r\n"
        head += "Transfer-Encoding: chunked\r\n\r\n"
        request = head.encode() + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    with server.wire() as wire:
        answer = wire.send(request).half_close().answer()
        assert answer.status == 200 and answer.body == expected
        assert wire.closed()
    assert server.metric("tally_clients_gone_total") == 0


def test_a_client_that_has_closed_its_side_gets_the_answer_to_a_long_text(start_server):
    """A codec thread owns the request when the client half-closes its connection."""
    server = start_server("--inline-json-bytes", "64", "--batch-delay-us", "600000")
    client = server.client()
    expected = client.post_json("/v1/cumsum", {"data": list(range(5000))}).body
    client.close()
    body = json.dumps({"data": list(range(5000))}).encode()
    with server.wire() as wire:
        request = post_bytes("/v1/cumsum", body, [("Content-Type", "application/json")])
        assert wire.send(request).half_close().answer().body == expected


# bytes of a row; three rows do not fit into the memory that the holders leave of 16 MiB
WIDE_ROWS = 3 * MIB
ROWS_PATH = f"/v1/cumsum?dtype=int8&shape=3,{WIDE_ROWS}&strides=1,0"
ROWS = b"\1\2\3"
ROWS_SUMS = b"".join(bytes([at]) * WIDE_ROWS for at in (1, 3, 6))


def in_chunks(head, *pieces):
    return head + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))


def rows_request(framing):
    """A request with a body of a few bytes, whose sums need more memory than is free."""
    head = f"POST {ROWS_PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: {calls.RAW}\r\n".encode()
    to_chunk = head + b"Transfer-Encoding: chunked\r\n"
    packed = gzip.compress(ROWS)
    return {
        "length": head + b"Content-Length: 3\r\n\r\n" + ROWS,
        "expected": head + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n" + ROWS,
        "packed": head
        + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
        + packed,
        "chunk": in_chunks(to_chunk + b"\r\n", ROWS),
        "chunks": in_chunks(to_chunk + b"\r\n", b"\1", b"\2", b"\3"),
        "packed chunks": in_chunks(
            to_chunk + b"Content-Encoding: gzip\r\n\r\n", packed[:9], packed[9:]
        ),
    }[framing]


@pytest.fixture
def short_of_memory(start_server):
    """A service, and the requests that hold its memory."""
    flags = ("--memory-budget", "16MiB", "--min-upload-rate", "0", "--http-loops", "1")
    server = start_server(*flags)
    size = 6 * MIB
    request = post_bytes(f"/v1/cumsum?dtype=int8&shape={size}", bytes(size), [RAW])
    # libmicrohttpd treats the oldest one of its connections differently. These three are older
    # than the connections under test.
    beside = [server.wire() for _ in range(3)]
    holders = [server.wire().send(request[: len(request) - MIB]) for _ in range(2)]
    until(lambda: server.metric("tally_memory_reserved_bytes") >= 10 * MIB)
    yield server, holders
    for wire in holders + beside:
        wire.close()


@pytest.mark.parametrize(
    "framing", ["length", "expected", "packed", "chunk", "chunks", "packed chunks"]
)
def test_a_client_that_closes_its_side_while_the_end_of_its_body_waits_for_memory_is_answered(
    short_of_memory, framing
):
    """While the request waits for memory, the service does not consume the body. libmicrohttpd
    therefore sees the end of the client's stream before the service has all of the body."""
    server, holders = short_of_memory
    with server.wire() as wire:
        wire.send(rows_request(framing))
        until(lambda: server.metric("tally_admission_waiting") == 1)
        wire.half_close().await_half_closed()
        for holder in holders:
            holder.reset()
        answer = wire.answer_after_100() if framing == "expected" else wire.answer()
        assert answer.status == 200 and answer.body == ROWS_SUMS
        assert wire.closed()


def test_a_pipe_whose_first_request_waits_for_memory_is_answered_to_its_end(short_of_memory):
    server, holders = short_of_memory
    with server.wire() as wire:
        wire.send(rows_request("chunks") + post_bytes(PATH, BODY, [RAW]) + rows_request("length"))
        until(lambda: server.metric("tally_admission_waiting") == 1)
        wire.half_close().await_half_closed()
        for holder in holders:
            holder.reset()
        assert [wire.answer().body for _ in range(3)] == [ROWS_SUMS, SUMS, ROWS_SUMS]
        assert wire.closed()


def long_request(kind):
    """A request with a body of several MiB, which needs more memory than is free."""
    size = 6 * MIB
    path = f"/v1/cumsum?dtype=int8&shape={size}"
    if kind == "packed":
        stored = gzip.compress(bytes(size), 0)
        return post_bytes(path, stored, [RAW, ("Content-Encoding", "gzip")])
    if kind == "v2":
        tensor = {"name": "x", "shape": [size], "datatype": "INT8"}
        tensor["parameters"] = {"binary_data_size": size}
        output = {"name": "y", "parameters": {"binary_data": True}}
        head = calls.json_body({"inputs": [tensor], "outputs": [output]})
        fields = [("Inference-Header-Content-Length", str(len(head)))]
        return post_bytes("/v2/models/cumsum/infer", head + bytes(size), fields)
    return post_bytes(path, bytes(size), [RAW])


@pytest.mark.parametrize("kind", ["rows", "raw", "packed", "v2"])
def test_a_client_that_closes_its_side_inside_a_body_that_waits_for_memory_is_told_at_once(
    short_of_memory, kind
):
    """No memory is available yet, and the missing part of the body will never arrive."""
    server, _ = short_of_memory
    with server.wire() as wire:
        wire.send(rows_request("length")[:-1] if kind == "rows" else long_request(kind)[:60000])
        until(lambda: server.metric("tally_admission_waiting") == 1)
        wire.half_close()
        calls.expect_error(wire.answer(), 400, "length_mismatch")
        assert wire.closed()
    assert server.metric("tally_slow_clients_total") == 0  # no holder of memory was cut
    assert server.metric("tally_active_requests") == 3


def test_clients_that_leave_inside_bodies_that_wait_for_memory_leave_nothing(short_of_memory):
    server, holders = short_of_memory
    kinds = ["raw", "packed", "v2", "raw", "v2"]
    wires = [server.wire().send(long_request(kind)[:60000]) for kind in kinds]
    until(lambda: server.metric("tally_admission_waiting") == len(kinds))
    for wire in wires:
        wire.close()
    # the connections of the holders, the three older ones, and that of the query
    until(lambda: server.metric("tally_connections") == len(holders) + 3 + 1)
    assert server.metric("tally_slow_clients_total") == 0
    assert server.metric("tally_active_requests") == 3


def test_a_request_that_waits_for_memory_does_not_get_the_refusal_of_a_malformed_one(
    short_of_memory,
):
    """libmicrohttpd does not say which connection sent malformed bytes. The service answers in
    JSON only if a single connection can have sent them, and the waiting request must not count
    as one."""
    server, holders = short_of_memory

    def says(wire, line):
        page = wire.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").answer().body
        return b"\n%s\n" % line in page

    with server.wire() as waiting, server.wire() as wire:
        waiting.send(rows_request("chunks")[:-3])
        until(lambda: says(wire, b"tally_admission_waiting 1"))
        # Wait until only these two connections, the holders and the three older ones remain:
        # the server has then noticed that the connections of earlier queries were closed.
        until(lambda: says(wire, b"tally_connections %d" % (2 + len(holders) + 3)))
        wire.send(b"GET /livez HTTP/9.9\r\nHost: x\r\n\r\n")
        calls.expect_error(wire.answer(), 505, "http_version")


def test_chunks_behind_one_that_waits_for_memory_are_still_read_as_chunks(short_of_memory):
    """The next chunk is malformed: its request is refused, and all of its state is freed."""
    server, holders = short_of_memory
    with server.wire() as wire:
        wire.send(rows_request("chunks")[: -len(b"0\r\n\r\n")] + b"zz\r\n")
        assert wire.answer().status == 400
        assert wire.closed()
    for holder in holders:
        holder.reset()
    until(lambda: server.metric("tally_active_requests") == 1)
    assert server.metric("tally_memory_reserved_bytes") == 0
    server.stop()


def test_a_pipe_that_is_closed_behind_the_last_request_is_answered_to_its_end(start_server):
    server = start_server("--batch-delay-us", "400000")
    with server.wire() as wire:
        wire.send(post_bytes(PATH, BODY, [RAW]) * 3).half_close()
        assert [wire.answer().body for _ in range(3)] == [SUMS] * 3
        assert wire.closed()


@pytest.mark.parametrize("size", [4, MIB])
def test_a_client_that_is_killed_while_it_waits_is_noticed(start_server, size):
    """The connection is reset, as for a process that dies with an unread answer."""
    server = start_server("--batch-delay-us", "1000000")
    with server.wire() as wire:
        wire.send(post_bytes(f"/v1/cumsum?dtype=int8&shape={size}&strides=0", b"\x01", [RAW]))
        until(lambda: server.metric("tally_active_requests") == 2, 20)
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until(lambda: server.metric("tally_clients_gone_total") == 1, 20)
    until(lambda: server.metric("tally_memory_reserved_bytes") == 0, 20)
    assert works(server)


def test_a_client_that_is_killed_while_many_others_idle_is_noticed(start_server):
    server = start_server("--batch-delay-us", "1000000", "--http-loops", "1")
    waits = post_bytes(f"/v1/cumsum?dtype=int8&shape={MIB}&strides=0", b"\1", [RAW])
    with contextlib.ExitStack() as stack:
        wires = [server.wire(source=f"127.0.0.{number}") for number in range(2, 7)]
        idle = [stack.enter_context(server.wire()) for _ in range(300)]
        until(lambda: server.metric("tally_connections") == len(wires) + len(idle) + 1)

        # whether it is noticed in the second for which the request waits for its batch
        def is_noticed():
            wire = wires.pop()
            wire.send(waits)
            server.await_active(1)
            wire.reset()
            server.await_active(0)
            return server.metric("tally_clients_gone_total") > 0

        # repeated, since a machine that stops may let the server notice too late
        while not is_noticed():
            assert wires
        for wire in wires:
            wire.close()


def test_a_request_that_ends_without_an_answer_is_logged_with_0_bytes_out(start_server):
    server = start_server()
    with server.wire() as wire:
        assert wire.send(ASK).answer().body == SUMS
        wire.send(b"GET /half-a-header HTTP/1.1\r\nHost: ").await_read()
        server.await_active(1)
        wire.reset()
    ended = until(lambda: re.findall(r"path=/half-a-header .*", server.log))
    assert "outcome=client_gone" in ended[0] and "bytes_out=0" in ended[0]


def test_requests_sent_while_the_one_before_is_computed_are_answered_in_order(start_server):
    server = start_server("--batch-delay-us", "50000")
    with server.wire() as wire:
        wire.send(post_bytes(PATH, BODY, [RAW]) * 2)
        for number in range(10):
            values = np.full(4, number, np.int32)
            wire.send(post_bytes(PATH, values.tobytes(), [RAW]))
            time.sleep(0.02)
        assert [wire.answer().body for _ in range(2)] == [SUMS] * 2
        for number in range(10):
            sums = np.cumsum(np.full(4, number, np.int32), dtype=np.int32)
            assert wire.answer().body == sums.tobytes()


# Slow clients and connections ---------------------------------------------------------------


def test_headers_that_trickle_are_cut_off(start_server):
    server = start_server("--header-timeout-ms", "500")
    with server.wire() as wire:
        started = time.monotonic()
        try:
            for byte in b"GET /livez HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 1000:
                wire.send(bytes([byte]))
                time.sleep(0.05)
                if time.monotonic() - started > 20:
                    break
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert wire.closed()
        assert time.monotonic() - started < 10
    assert works(server)


def test_headers_that_stop_get_a_408_with_an_id_of_its_own(start_server):
    server = start_server("--header-timeout-ms", "300")
    ids = set()
    for _ in range(2):
        with server.wire() as wire:
            answer = wire.send(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-").answer()
            says = "the server's --header-timeout-ms"
            calls.expect_error(answer, 408, "request_timeout", says=says)
            ids.add(answer.headers["X-Request-Id"])
    assert len(ids) == 2 and all(len(name) == 16 for name in ids), ids


def test_a_body_that_never_ends_is_cut_off(start_server):
    server = start_server("--body-timeout-ms", "500")
    with server.wire() as wire:
        started = time.monotonic()
        wire.send(post_bytes(PATH, BODY, [RAW])[:-1])
        assert wire.closed()
        assert time.monotonic() - started < 10
    assert works(server)


def test_a_client_that_disconnects_within_a_body_is_not_counted_as_slow(start_server):
    server = start_server()
    request = post_bytes(PATH, BODY, [RAW])
    endless = post_bytes(f"/v1/cumsum?dtype=int8&shape={MIB}", bytes(MIB), [RAW])[:-9]
    for data in (request[:-1], in_chunks(request[: -len(BODY)])[:-3], endless):
        with server.wire() as wire:
            wire.send(data).half_close()
            assert wire.closed()
        with server.wire() as wire:
            wire.send(data).await_read().reset()
    until(lambda: server.metric("tally_active_requests") == 1)
    assert server.metric("tally_slow_clients_total") == 0


def test_who_closes_his_side_inside_a_body_gets_a_400_or_nothing_and_the_connection_ends(
    start_server,
):
    server = start_server()
    small = post_bytes(PATH, BODY, [RAW])
    text = post_bytes("/v1/cumsum", b'{"data":[1,2,3]}')
    large = post_bytes(f"/v1/cumsum?dtype=int8&shape={4 * MIB}", bytes(4 * MIB), [RAW])
    begun = [
        small[: -len(BODY)],
        small[:-1],
        text[:-1],
        b"POST /v1/cumsum HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[1,2,\r\n",
        large[: -2 * MIB],
    ]
    for data in begun * 4:
        with server.wire() as wire:
            wire.send(data).half_close()
            with contextlib.suppress(ConnectionError):
                calls.expect_error(wire.answer(), 400, "length_mismatch")
            assert wire.closed() and wire.buffer == b""
    until(lambda: server.metric("tally_active_requests") == 1)
    until(lambda: server.log.count("method=POST") == 4 * len(begun))
    ended = re.findall(r"method=POST .* outcome=(\w+)", server.log)
    assert set(ended) <= {"client_gone", "length_mismatch"}
    assert works(server)


def test_a_client_that_is_cut_off_inside_its_body_does_not_hang_in_a_closed_window(start_server):
    """After a stop (docker pause) the service finds its socket buffers full. It reads the
    available bytes until the time of the body is over, and closes the connection. By then the
    client may have sent all bytes that it has, fewer than it announced. The client must notice
    that the service reads nothing more. tests/unit/test_conn_cut.c tests the case in which the
    window is still closed."""
    server = start_server("--body-timeout-ms", "2000", moves_clock=True)
    request = post_bytes(f"/v1/cumsum?dtype=int8&shape={MIB}", bytes(MIB), [RAW])
    head = request[: len(request) - MIB].replace(b"%d" % MIB, b"%d" % (512 * MIB))
    with server.wire(10) as wire:
        wire.send(head)
        wire.await_read()
        server.signal(signal.SIGSTOP)
        until(server.is_stopped)
        wire.socket.settimeout(0.25)
        with pytest.raises(TimeoutError):
            wire.send(bytes(64 * MIB))
        server.signal(signal.SIGCONT)
        # seconds for each MiB: plenty even on a busy machine
        wire.socket.settimeout(10)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(512 - 64 - 1):
                wire.send(bytes(MIB))
                server.pass_time(0.01)
        assert wire.answer().status == 408
    assert works(server)


def test_who_sends_while_the_service_stands_still_is_answered_however_long_that_was(start_server):
    """After docker pause, or the migration of a virtual machine, all deadlines have passed when
    the service continues, and the bytes that arrived meanwhile are unread."""
    flags = ["--header-timeout-ms", "5000", "--body-timeout-ms", "5000", "--idle-timeout-s", "5"]
    server = start_server(*flags, "--request-timeout-ms", "600000", moves_clock=True)
    request = post_bytes("/v1/cumsum?dtype=int8&shape=4", bytes(4), [RAW])
    begun = {"nothing": 0, "half a header": 60, "half a body": len(request) - 2}
    with contextlib.ExitStack() as stack:
        kept = stack.enter_context(server.wire())
        assert kept.send(request).answer().status == 200
        wires = {name: stack.enter_context(server.wire()) for name in begun}
        for name, sent in begun.items():
            wires[name].send(request[:sent]).await_read()
        until(lambda: server.metric("tally_connections") == 5)  # the count includes this query
        server.signal(signal.SIGSTOP)
        until(server.is_stopped)
        kept.send(request)
        for name, sent in begun.items():
            wires[name].send(request[sent:])
        server.pass_time(11)
        server.signal(signal.SIGCONT)
        answers = {name: wire.answer().status for name, wire in {"kept": kept, **wires}.items()}
    assert answers == dict.fromkeys(answers, 200)


def test_bounds_hold_in_a_service_that_stands_still_before_every_heartbeat(start_server):
    """The clock advances by two seconds before every heartbeat, as on a machine where the
    service hardly ever gets a processor."""
    server = start_server("--header-timeout-ms", "5000", moves_clock=True)
    with server.wire() as wire:
        wire.send(b"GET /livez HTTP/1.1\r\nHost: ").await_read()

        def is_cut_after_a_pause():
            server.pass_time(2)
            return server.metric("tally_slow_clients_total") == 1

        until(is_cut_after_a_pause)
        calls.expect_error(wire.answer(), 408, "request_timeout")


def test_a_request_line_that_trickles_in_behind_an_answer_is_cut_off(start_server):
    """libmicrohttpd's own timeout does not help: each byte restarts it."""
    flags = ["--header-timeout-ms", "5000", "--idle-timeout-s", "5"]
    server = start_server(*flags, moves_clock=True)
    with server.wire() as wire:
        assert wire.send(ASK).answer().body == SUMS

        passed = []

        def is_cut_after_a_byte():
            wire.send(b"G")
            server.pass_time_awake(0.5)
            passed.append(0.5)
            return server.metric("tally_slow_clients_total") == 1

        with contextlib.suppress(ConnectionError):
            until(is_cut_after_a_byte)
        assert wire.closed() and wire.buffer == b""
        assert sum(passed) < 100
    assert server.metric("tally_slow_clients_total") == 1


def test_a_client_that_sends_slowly_after_its_refusal_is_disconnected(start_server):
    server = start_server(moves_clock=True)
    head = f"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: {64 * MIB}\r\n\r\n"
    with server.wire() as wire:
        assert wire.send(head.encode()).answer().status == 404
        for _ in range(2):
            wire.send(b"x").await_read()
            server.pass_time_awake(0.9)
        # the server reads further bytes of this connection for ten seconds
        server.await_active(1)
        server.pass_time_awake(9)
        server.await_active(0)
    assert works(server)


# without a movable clock libmicrohttpd's idle timeout ends the connection first
@pytest.mark.release_only
def test_an_answer_that_is_read_slower_than_the_minimum_rate_is_cut_off(start_server):
    """An answer may take the idle timeout plus the time of its bytes at the minimum rate."""
    flags = ["--min-upload-rate", "512KiB", "--idle-timeout-s", "8", "--http-loops", "1"]
    server = start_server(*flags, moves_clock=True)
    with wide(server) as wire:
        assert wire.socket.recv(1) == b"H"  # the answer has begun

        def read_on():
            server.pass_time_awake(0.9)
            wire.socket.recv(MIB // 8, socket.MSG_WAITALL)

        for _ in range(10):
            read_on()
        for _ in range(4):  # the idle timeout has passed, but the answer is still being sent
            assert server.metric("tally_active_requests") == 2  # the count includes this query
        # At the minimum rate, the 6 MiB of the answer may take twelve seconds more.
        with contextlib.suppress(ConnectionError):
            while server.metric("tally_active_requests") == 2:
                read_on()
        server.await_active(0)
    assert server.metric("tally_slow_clients_total") == 1


def test_a_body_slower_than_the_minimum_rate_is_cut_off(start_server):
    server = start_server("--min-upload-rate", "85KiB", moves_clock=True)
    size = 8 * MIB
    request = post_bytes(f"/v1/cumsum?dtype=int8&shape={size}", bytes(size), [RAW])
    with server.wire() as wire:
        wire.send(request[: 2 * MIB + 1000])  # enough for 24 seconds
        # The buffer grows in powers of two: when it exceeds 2 MiB, the server has read 2 MiB.
        until(lambda: server.metric("tally_memory_reserved_bytes") > 2 * MIB)
        server.pass_time_awake(GRACE_S + 1.5)
        wire.send(request[2 * MIB + 1000 : 4 * MIB + 1000])  # faster than the rate so far
        until(lambda: server.metric("tally_memory_reserved_bytes") > 4 * MIB)
        server.pass_time_awake(4 * MIB / (85 * 1024))
        says = "--min-upload-rate"
        calls.expect_error(wire.answer(), 408, "request_timeout", says=says)
        assert wire.closed()
    assert works(server)


GRACE_S = 10  # seconds before the rate of a body counts
WIDE = 6 * MIB  # bytes of an answer that one byte requests
WIDE_PATH = f"/v1/cumsum?dtype=int8&shape={WIDE}&strides=0"


def wide(server, path=None):
    """A client that has sent a request with a long answer, which it does not read yet."""
    wire = server.wire()
    if path is not None:
        wire.close()
        wire.socket = socket.socket(socket.AF_UNIX)
        wire.socket.settimeout(30)
        wire.socket.connect(path)
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
    return wire.send(post_bytes(WIDE_PATH, b"\x01", [RAW]))


def read_at(wires, rate, over):
    """Read `rate` bytes per second from each wire until over(); returns how many connections
    ended."""
    ended = set()
    while not over():
        for wire in set(wires) - ended:
            try:
                if not wire.socket.recv(int(rate / 20)):
                    ended.add(wire)
            except OSError:
                ended.add(wire)
        time.sleep(0.05)
    return len(ended)


def test_a_client_that_sends_on_and_reads_late_gets_every_answer(start_server, tmp_path):
    """The client does not read, so its sockets are full. On some connections the server cannot
    send 100 Continue yet and does not read the following chunks. It must not take them for
    bytes that it will never be able to read (deadlines.c)."""
    path = str(tmp_path / "s")
    server = start_server("--listen", f"unix:{path}")
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: {calls.RAW}\r\n"
    head += "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
    request = head.encode() + b"10\r\n" + BODY + b"\r\n0\r\n\r\n"
    count = 500
    wires = [socket.socket(socket.AF_UNIX) for _ in range(8)]
    for at, wire in enumerate(wires):
        wire.settimeout(30)
        wire.connect(path)
        wire.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * at + request * count)
    time.sleep(1.6)  # longer than the STUCK_SWEEPS heartbeats of deadlines.c
    for at, wire in enumerate(wires):
        got = b""
        while got.count(SUMS) < count:
            piece = wire.recv(1 << 20)
            assert piece, got[-500:]
            got += piece
        assert got.count(b"HTTP/1.1 200 ") == count + at
        wire.close()
    assert works(server)


def test_an_answer_has_a_deadline_however_steadily_it_is_read(start_server):
    server = start_server("--answer-timeout-ms", "700")
    with wide(server) as wire:
        until(lambda: server.metric("tally_slow_clients_total") == 1, 20)
        until(lambda: server.metric("tally_memory_reserved_bytes") == 0, 20)
        with pytest.raises(ConnectionError):
            wire.answer()
    assert works(server)


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_the_slowest_readers_are_closed_when_memory_is_lacking(start_server, tmp_path, kind):
    """Two slow readers hold all memory; a third client waits, and is soon served."""
    path = str(tmp_path / "s")
    flags = ["--memory-budget", "16MiB", "--listen", f"unix:{path}"]
    server = start_server(*flags, moves_clock=True)
    readers = [wide(server, path if kind == "unix" else None) for _ in range(2)]
    until(lambda: server.metric("tally_memory_reserved_bytes") >= 2 * WIDE, 20)
    be_slow(server)
    served = threading.Event()
    statuses = []

    def ask():
        statuses.append(one_post(server, WIDE_PATH, b"\x01").status)
        if statuses[-1] == 200:
            served.set()
        return served.is_set() or len(statuses) > 400

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asking = pool.submit(until, ask, 20, 0.05)
        ended = read_at(readers, 64 * 1024, asking.done)
        asking.result()
    assert statuses == [200]
    # only one of the two readers was closed
    assert ended <= 1 and server.metric("tally_slow_clients_total") == 1
    for wire in readers:
        wire.close()


def test_a_slow_reader_is_left_alone_while_memory_is_enough(start_server):
    """After two seconds of slowness, the client is cut only if another request lacks memory."""
    server = start_server("--memory-budget", "16MiB", moves_clock=True)
    with wide(server) as reader:
        until(lambda: server.metric("tally_memory_reserved_bytes") >= WIDE, 20)
        be_slow(server)
        ended = read_at([reader], 64 * 1024, stop_after(0.6))
        assert ended == 0 and server.metric("tally_slow_clients_total") == 0


def stop_after(seconds):
    deadline = time.monotonic() + seconds
    return lambda: time.monotonic() > deadline


def test_the_slowest_senders_are_closed_when_memory_is_lacking(tight_server):
    size = 6 * MIB
    request = post_bytes(f"/v1/cumsum?dtype=int8&shape={size}", bytes(size), [RAW])
    senders = [tight_server.wire().send(request[:-1000]) for _ in range(2)]
    until(lambda: tight_server.metric("tally_memory_reserved_bytes") >= 2 * size - 2000, 20)
    be_slow(tight_server)
    path = f"/v1/cumsum?dtype=int8&shape={size}"
    assert one_post(tight_server, path, bytes(size)).status == 200
    assert tight_server.metric("tally_slow_clients_total") == 1
    answered = [wire for wire in senders if has_answer(wire)]
    assert len(answered) == 1 and answered[0].answer().status == 408
    for wire in senders:
        wire.close()


def test_a_request_that_is_refused_inside_its_body_gives_its_memory_back_at_once(start_server):
    """The memory is free before the client has read the refusal. The client may keep the
    connection open for ten seconds more."""
    server = start_server()
    size = 8 * MIB
    fields = [RAW, ("X-Request-Timeout-Ms", "300")]
    request = post_bytes(f"/v1/cumsum?dtype=int8&shape={size}", bytes(size), fields)
    with server.wire() as wire:
        calls.expect_error(wire.send(request[: size // 2]).answer(), 504, "deadline_passed")
        assert server.metric("tally_active_requests") == 2  # the count includes this query
        assert server.metric("tally_memory_reserved_bytes") == 0
        assert server.metric("tally_memory_promised_bytes") == 0


def test_one_refusal_of_memory_has_one_relief_however_many_threads_there_are(start_server):
    server = start_server("--memory-budget", "32MiB", "--http-loops", "2", moves_clock=True)
    size = 3 * MIB
    request = post_bytes(f"/v1/cumsum?dtype=int8&shape={size}", bytes(size), [RAW])
    # one of the two loops gets four of these connections, the other one five
    senders = [server.wire().send(request[:-1000]) for _ in range(9)]
    until(lambda: server.metric("tally_memory_reserved_bytes") >= 9 * size - 9000, 20)
    be_slow(server)
    path = f"/v1/cumsum?dtype=int8&shape={size + MIB}"
    assert one_post(server, path, bytes(size + MIB)).status == 200
    assert server.metric("tally_slow_clients_total") == 1
    for wire in senders:
        wire.close()


def has_answer(wire):
    return bool(select.select([wire.socket], [], [], 0)[0])


def test_idle_connections_are_closed(start_server):
    server = start_server("--idle-timeout-s", "1")
    with server.wire() as wire:
        wire.send(post_bytes(PATH, BODY, [RAW]))
        assert wire.answer().body == SUMS
        started = time.monotonic()
        assert wire.closed()
        assert time.monotonic() - started < 10


def test_a_client_that_stops_within_a_body_is_refused_after_the_idle_timeout(start_server):
    """libmicrohttpd's own timeout would close a connection without an answer."""
    server = start_server("--idle-timeout-s", "1", "--min-upload-rate", "0")
    chunked = (
        b"POST /v1/cumsum HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[1,2,\r\n"
    )
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(server.wire()) for _ in range(3)]
        for wire, sent in zip(wires, (ASK[:-1], chunked, ASK[:-1].replace(b"/v1/", b"/v9/"))):
            wire.send(sent)
        for wire in wires[:2]:
            calls.expect_error(wire.answer(), 408, "request_timeout", says="--idle-timeout-s")
        calls.expect_error(wires[2].answer(), 404, "not_found")
    assert server.metric("tally_slow_clients_total") == 2


def test_a_client_that_reads_nothing_is_disconnected_after_the_idle_timeout_and_counted(
    start_server,
):
    server = start_server("--idle-timeout-s", "1")
    with wide(server):
        until(lambda: server.metric("tally_memory_reserved_bytes") >= WIDE, 20)
        until(lambda: server.metric("tally_active_requests") == 1)
    assert server.metric("tally_slow_clients_total") == 1


def test_a_head_that_comes_before_its_body_is_acknowledged_at_once(start_server):
    """Linux delays the acknowledgement by 40 ms on a connection that had an answer; until then, the
    client's system holds back a small body (Nagle's algorithm)."""
    server = start_server("--http-loops", "1")
    with server.wire() as wire:
        head = ASK[: -len(BODY)]
        for _ in range(3):
            assert wire.send(ASK).answer().body == SUMS
        for first in (head, head + BODY[:1]):
            wire.send(first).await_read()
            server.await_active(1)
            assert wire.unacknowledged() == 0
            assert wire.send(ASK[len(first) :]).answer().body == SUMS


ASK = post_bytes(PATH, BODY, [RAW])
BEGIN, END = ASK[:-1], ASK[-1:]
ANY_RATE = ("--min-upload-rate", "0")  # no minimum rate for a body


@pytest.mark.parametrize("loops, limit", [("1", 4), ("3", 10)])
def test_at_the_connection_limit_clients_wait_and_are_served_as_others_leave(
    start_server, loops, limit
):
    server = start_server("--http-loops", loops, "--max-connections", str(limit), *ANY_RATE)

    def answered(wire):
        return wire.send(END + BEGIN).answer().body == SUMS

    for _ in range(5):
        inside = [server.wire().send(BEGIN) for _ in range(limit)]
        assert all(answered(wire) for wire in inside)
        waiting = server.wire()
        waiting.send(ASK)
        # the answers show that all loops have run while a client waited to be accepted
        for wire in inside:
            assert answered(wire) and not has_answer(waiting)
        inside[0].close()
        started = time.monotonic()
        assert waiting.answer().body == SUMS
        assert time.monotonic() - started < 15, "the freed place was not given away at once"
        for wire in [*inside[1:], waiting]:
            wire.close()


def test_loops_that_accept_at_the_same_moment_keep_to_the_limit(start_server):
    limit = 10
    server = start_server("--http-loops", "16", "--max-connections", str(limit), *ANY_RATE)

    def ask(wire):
        wire.send(END + BEGIN)

    for _ in range(60):
        # A connection without a byte is idle, and could be evicted for the next one.
        wires = [server.wire().send(BEGIN) for _ in range(limit + 15)]
        for wire in wires:
            ask(wire)
        until(lambda wires=wires: sum(map(has_answer, wires)) >= limit)
        inside = [wire for wire in wires if has_answer(wire)]
        for wire in inside:  # the answers show that all loops have run
            assert wire.answer().status == 200
            ask(wire)
            assert wire.answer().status == 200
        assert len(inside) + sum(map(has_answer, wires)) == limit
        for wire in wires:
            wire.close()


FULL = 6  # value of --max-connections; a client opens nearly all of them
FULL_FLAGS = ("--max-connections", str(FULL), "--header-timeout-ms", "100000")


@pytest.mark.parametrize("loops", ["1", "3"])
@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nHost: x\r\n", ASK])
def test_at_the_connection_limit_a_client_that_asks_for_nothing_is_evicted_for_another(
    start_server, loops, sent
):
    server = start_server("--http-loops", loops, *FULL_FLAGS)
    watch = server.wire(source="127.0.0.5")
    until(watch.is_alone)
    idle = [server.wire(source="127.0.0.2").send(sent) for _ in range(FULL - 1)]
    if sent == ASK:
        assert all(wire.answer().body == SUMS for wire in idle)
    until(lambda: watch.metric("tally_connections") == FULL)
    with server.wire(source="127.0.0.3") as other:
        assert other.send(ASK).answer().body == SUMS
        ended = until(lambda: [wire for wire in idle if has_answer(wire)])
        assert len(ended) == 1
        if sent.startswith(b"GET"):
            says = ("--max-connections", "send the request again")
            calls.expect_error(ended[0].answer(), 408, "request_timeout", says=says)
        assert ended[0].closed()
        with server.wire(source="127.0.0.4") as another:  # connections in sequence
            assert another.send(ASK).answer().body == SUMS
    assert watch.metric("tally_connections_evicted_total") >= 1
    for wire in (watch, *idle):
        wire.close()


def test_at_the_connection_limit_an_answer_that_is_not_read_is_cut_for_another_client(
    start_server,
):
    server = start_server("--http-loops", "1", *FULL_FLAGS)
    long = post_bytes(f"/v1/cumsum?dtype=int8&shape={32 << 20}&strides=0", b"\1", [RAW])
    unread = []
    # each also sends a second request, which the server cannot read before the first answer
    # ends
    for _ in range(FULL):
        unread.append(server.wire(source="127.0.0.2").send(long + ASK))
        assert unread[-1].socket.recv(1) == b"H"
    with server.wire(source="127.0.0.3") as other:
        assert other.send(ASK).answer().body == SUMS
    assert server.metric("tally_connections_evicted_total") >= 1
    for wire in unread:
        wire.close()


def test_a_client_with_one_connection_keeps_it_at_the_connection_limit(start_server):
    server = start_server("--http-loops", "1", *FULL_FLAGS)
    kept = [server.wire(source=f"127.0.0.{at + 10}").send(ASK) for at in range(FULL - 2)]
    # each new connection lets the server look for the client with the most connections
    for _ in range(3):
        with server.wire(source="127.0.0.10") as over:
            assert over.send(ASK).answer().body == SUMS
        # the count includes this query
        until(lambda: server.metric("tally_connections") == FULL - 1)
    pair = [server.wire(source="127.0.0.2").send(ASK) for _ in range(2)]
    assert all(wire.answer().body == SUMS for wire in [*kept, *pair])
    with server.wire(source="127.0.0.3") as other:
        assert other.send(ASK).answer().body == SUMS
    assert sum(map(has_answer, pair)) == 1 and not any(map(has_answer, kept))
    for wire in [*kept, *pair]:
        wire.close()


@pytest.mark.release_only
def test_where_descriptors_are_few_connections_are_evicted_before_they_are_used_up(start_server):
    descriptors = 120
    server = start_server(
        *("--http-loops", "1", "--header-timeout-ms", "100000"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors)),
    )
    most = server.metric("tally_connections_limit")
    # half of the descriptors are for connections, two for each, and half for everything else
    assert most == descriptors / 4
    assert f"only {descriptors} file descriptors are allowed" in server.log
    idle = [server.wire(source="127.0.0.2") for _ in range(descriptors)]
    with server.wire(source="127.0.0.3") as other:
        assert other.send(ASK).answer().body == SUMS
    for wire in idle:
        wire.close()


def test_without_a_descriptor_left_clients_wait_and_are_served_as_others_leave(start_server):
    server = start_server("--max-connections", "4096")
    first = server.wire()
    until(first.is_alone)
    used = len(os.listdir(f"/proc/{server.pid}/fd"))
    limits = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (used, limits[1]))
    waiting = server.wire()
    waiting.send(post_bytes(PATH, BODY, [RAW]))
    first.send(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
    assert first.answer().status == 200  # the loop has run while a client waited to be accepted
    ticks = server.sleeps()
    until(lambda: server.sleeps() > ticks + 10)  # the loop runs again at each of ten heartbeats
    assert server.log.count("no file descriptor") <= len(server.thread_seconds("tally-http"))
    first.close()
    assert waiting.answer().body == SUMS
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, limits)
    waiting.close()


def test_more_http_loops_serve_alike(start_server):
    server = start_server("--http-loops", "3")

    def one(number):
        body = np.array([number, 1, 1, 1], np.int32).tobytes()
        answer = one_post(server, PATH, body)
        return np.frombuffer(answer.body, np.int32).tolist() == [number + at for at in range(4)]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(one, range(200)))
    server.stop()


def test_connections_are_dealt_out_among_the_http_threads(start_server):
    """The connections arrive in a burst, which one thread alone could accept."""
    server = start_server("--http-loops", "2")
    wires = [server.wire() for _ in range(16)]
    for _ in range(20):
        for wire in wires:
            wire.send(post_bytes(PATH, BODY, [RAW]))
        assert all(wire.answer().body == SUMS for wire in wires)
    seconds = server.thread_seconds("tally-http")
    assert len(seconds) == 2 and min(seconds) > max(seconds) / 4, seconds
    for wire in wires:
        wire.close()
