"""Many clients, many requests, large tensors: correct answers and constant memory."""

import concurrent.futures
import json
import os
import re
import socket
import subprocess
import threading

import numpy as np
import pytest

from support import calls, dtypes, oracle
from support.http import post_bytes
from support.tallyd import TOP
from support.waiting import until

MIB = 1 << 20


def test_mixed_types_and_shapes_from_many_threads_never_mix_up_answers(server):
    def load(seed):
        rng = np.random.default_rng(seed)
        client = server.client()
        for _ in range(60):
            dtype = dtypes.ALL[int(rng.integers(len(dtypes.ALL)))]
            rank = int(rng.integers(1, 4))
            shape = tuple(int(size) for size in rng.integers(1, [200, 30, 9][rank - 1] + 1, rank))
            stored = dtype.random(rng, shape)
            attributes = {
                "axis": int(rng.integers(-rank, rank)),
                "exclusive": bool(rng.integers(2)),
                "reverse": bool(rng.integers(2)),
            }
            send = calls.post_json if rng.integers(3) == 0 else calls.post_raw
            answer = send(client, dtype, stored, **attributes)
            actual = calls.stored_of(dtype, answer, shape)
            calls.expect_same(dtype, actual, stored, **attributes)
        client.close()

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for future in [pool.submit(load, seed) for seed in range(16)]:
            future.result()


def test_small_requests_are_not_held_up_by_large_ones(server):
    """While large tensors keep arriving, small requests are still answered correctly."""
    large = np.ones(8 * MIB, np.int32).tobytes()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:

        def send_large():
            client = server.client()
            for _ in range(3):
                answer = client.post(f"/v1/cumsum?dtype=int32&shape={8 * MIB}", large, calls.RAW)
                assert np.frombuffer(answer.body, np.int32)[-1] == 8 * MIB
            client.close()

        futures = [pool.submit(send_large) for _ in range(3)]
        client = server.client()
        served = 0
        while not all(future.done() for future in futures):
            answer = client.post("/v1/cumsum?dtype=int8&shape=2", b"\x01\x02", calls.RAW)
            assert answer.body == b"\x01\x03"
            served += 1
        client.close()
        for future in futures:
            future.result()
    assert served >= 5


@pytest.fixture(scope="module")
def quarter_gigabyte():
    return np.frombuffer(np.random.default_rng(1).bytes(256 * MIB), np.int32)


@pytest.mark.parametrize("shape, axis", [((64 * MIB,), 0), ((1024, 65536), 0), ((65536, 1024), 1)])
def test_a_quarter_gigabyte_is_right(server, quarter_gigabyte, shape, axis):
    values = quarter_gigabyte.reshape(shape)
    client = server.client(120)
    answer = calls.post_raw(client, dtypes.BY_NAME["int32"], values, axis=axis)
    client.close()
    actual = calls.stored_of(dtypes.BY_NAME["int32"], answer, shape)
    assert np.array_equal(actual, np.cumsum(values, axis=axis, dtype=np.int32))


def test_large_floats_have_the_documented_bits(client):
    float32 = dtypes.BY_NAME["float32"]
    stored = float32.random(np.random.default_rng(2), (3, 1 << 20))
    for axis in (0, 1):
        actual = calls.stored_of(
            float32, calls.post_raw(client, float32, stored, axis=axis), stored.shape
        )
        assert oracle.same_bits(float32, actual, oracle.cumsum(float32, stored, axis))


def wrk(server, script, seconds, connections=16):
    """(requests, errors) of a bounded wrk run."""
    result = subprocess.run(
        [
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{seconds}s",
            "--timeout",
            "10s",
            "-s",
            str(TOP / "tests/load" / script),
            f"http://127.0.0.1:{server.port}/",
        ],
        capture_output=True,
        text=True,
        timeout=seconds + 60,
        check=True,
        env={**os.environ, "LUA_PATH": f"{TOP}/tests/load/?.lua;;"},
    )
    requests = int(re.search(r"(\d+) requests in", result.stdout).group(1))
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", result.stdout)
    sockets = re.search(
        r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", result.stdout
    )
    errors = int(bad.group(1)) if bad else 0
    errors += sum(map(int, sockets.groups())) if sockets else 0
    return requests, errors


@pytest.mark.release_only
def test_memory_stays_flat_over_fifty_thousand_requests(start_server):
    server = start_server("--log-requests", "false")
    _, errors = wrk(server, "mixed.lua", 3)
    assert errors == 0
    warm = server.rss_bytes()
    done = 0
    for _ in range(40):
        requests, errors = wrk(server, "mixed.lua", 2)
        assert errors == 0
        done += requests
        if done >= 50_000:
            break
    assert done >= 50_000, "the machine is too slow for this figure"
    grown = server.rss_bytes() - warm
    assert grown < 8 * MIB, f"{grown / MIB:.1f} MiB more after {done} requests"
    client = server.client()
    stored = np.arange(12, dtype=np.float32).reshape(3, 4)
    float32 = dtypes.BY_NAME["float32"]
    actual = calls.stored_of(float32, calls.post_raw(client, float32, stored, axis=1), (3, 4))
    calls.expect_same(float32, actual, stored, axis=1)
    client.close()
    server.stop()


@pytest.mark.release_only
def test_memory_stays_flat_over_refusals(start_server):
    server = start_server("--log-requests", "false")
    wrk(server, "refused.lua", 1)
    warm = server.rss_bytes()
    requests, errors = wrk(server, "refused.lua", 2)
    assert errors == requests, "a request of refused.lua was accepted"
    assert requests > 1000
    assert server.rss_bytes() - warm < 8 * MIB
    server.stop()


@pytest.mark.release_only
def test_memory_of_large_tensors_is_given_back(start_server):
    server = start_server()
    client = server.client(120)
    before = server.rss_bytes()
    for _ in range(3):
        size = 128 * MIB
        answer = client.post(f"/v1/cumsum?dtype=int8&shape={size}", bytes(size), calls.RAW)
        assert answer.status == 200
    client.close()
    until(lambda: server.rss_bytes() - before <= 32 * MIB, 60, 0.5, "its memory is still held")
    server.stop()


def see_them_leave(server, wires, most):
    """Close all connections at once, and wait until the server's memory is below `most`
    bytes."""
    seen = server.sleeps() + 2  # wait until the main thread has run twice
    until(lambda: server.sleeps() >= seen)
    for wire in wires:
        wire.close()
    until(lambda: server.metric("tally_connections") == 1)
    until(
        lambda: server.pass_time(31) or server.rss_bytes() < most,
        60,
        what="its memory is still held",
    )


def rss_at_rest(server):
    """Resident bytes after the devices are measured, which needs memory for a moment."""
    client = server.client()
    until(lambda: all(d["pace"] for d in client.get("/v1/devices").json()["devices"]))
    client.close()
    return server.rss_bytes()


@pytest.mark.release_only
def test_memory_of_a_burst_of_connections_is_given_back(start_server):
    """Each connection has a buffer of 16 KiB. glibc keeps freed buffers until the service
    returns them to the system."""
    server = start_server(moves_clock=True)
    before = rss_at_rest(server)
    wires = [server.wire() for _ in range(800)]
    for wire in wires:
        wire.send(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
    assert all(wire.answer().status == 200 for wire in wires)
    assert server.rss_bytes() - before > 10 * MIB
    see_them_leave(server, wires, before + 5 * MIB)
    server.stop()


@pytest.mark.release_only
@pytest.mark.parametrize("long", ["text", "target"])
def test_after_a_burst_of_requests_only_their_short_records_stay_in_memory(start_server, long):
    """A finished request leaves about 15 KiB in memory, not the 60 KiB of its long text or
    target."""
    server = start_server("--max-header-bytes", "64KiB", moves_clock=True)
    before = rss_at_rest(server)
    body = json.dumps({"data": [1] * (20000 if long == "text" else 20), "dtype": "int8"}).encode()
    path = "/v1/cumsum" if long == "text" else "/" + "a" * 60000
    request = post_bytes(path, body, [("Content-Type", calls.JSON)])
    wires = [server.wire().send(request[:-1]) for _ in range(600)]
    server.await_active(len(wires))
    if long == "text":
        until(lambda: server.metric("tally_memory_reserved_bytes") > 600 * (len(body) - 100))
    answers = {wire.send(request[-1:]).answer().status for wire in wires}
    assert answers == {200 if long == "text" else 404}
    see_them_leave(server, wires, before + 24 * MIB)
    server.stop()


def test_clients_that_leave_inside_a_body_take_nothing_from_others(start_server):
    server = start_server()
    head = b"POST /v1/cumsum?dtype=float32&shape=100000 HTTP/1.1\r\nHost: tally\r\n"
    head += b"Content-Type: application/octet-stream\r\nContent-Length: 400000\r\n\r\n"
    # 20 permits per answer, so that a delayed server loop gets no more connections
    may_leave = threading.Semaphore(0)
    done = threading.Event()
    left = []

    def leave():
        while may_leave.acquire() and not done.is_set():
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(head + bytes(100000))
            left.append(1)

    before = server.rss_bytes()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        leavers = [pool.submit(leave) for _ in range(3)]
        client = server.client()
        try:
            while len(left) < 2000:
                answer = client.post("/v1/cumsum?dtype=int8&shape=2", b"\x01\x02", calls.RAW)
                assert answer.status == 200 and answer.body == b"\x01\x03"
                may_leave.release(20)
        finally:
            done.set()
            may_leave.release(len(leavers))
        for leaver in leavers:
            leaver.result()
    # Only connections whose end the server has not yet seen hold half a MiB each; 2000 such
    # connections would exceed this bound.
    assert server.rss_bytes() - before < 300 * MIB
