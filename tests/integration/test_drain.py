"""Leaving: SIGTERM and SIGINT under load, with slow clients, twice."""

import concurrent.futures
import signal
import threading
import time

import numpy as np
import pytest

from support import calls
from support.http import post_bytes
from support.waiting import until

PATH = "/v1/cumsum?dtype=int32&shape=4"
SLOW = ["--batch-delay-us", "500000"]  # every request is in flight for half a second


def expected(number):
    return [number, number + 1, number + 2, number + 3]


def post(server, number):
    """One request on a connection of its own; its status and whether the sums are right."""
    client = server.client()
    try:
        answer = client.post(PATH, np.array([number, 1, 1, 1], np.int32).tobytes(), calls.RAW)
        right = answer.status == 200 and (
            np.frombuffer(answer.body, np.int32).tolist() == expected(number)
        )
        return answer.status, right
    finally:
        client.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda s: s.name)
def test_what_is_in_flight_is_answered_and_the_exit_is_clean(start_server, number):
    """Half of the requests wait for the device, of the others the last byte is still to come."""
    server = start_server(*SLOW)
    wires = [server.wire() for _ in range(32)]
    for at, wire in enumerate(wires):
        body = np.array([at, 1, 1, 1], np.int32).tobytes()
        wire.send(post_bytes(PATH, body, [("Content-Type", calls.RAW)])[:-1])
    server.await_active(32)
    for wire in wires[::2]:
        wire.send(b"\0")
    started = time.monotonic()
    server.signal(number)
    server.await_refusal()
    for wire in wires[1::2]:
        wire.send(b"\0")
    for at, wire in enumerate(wires):
        answer = wire.answer()
        assert answer.status == 200, answer
        assert np.frombuffer(answer.body, np.int32).tolist() == expected(at)
        wire.close()
    assert server.wait(30) == 0
    assert time.monotonic() - started < 15


def test_under_steady_load_no_answer_is_wrong_or_half_sent(start_server):
    server = start_server()
    stop = threading.Event()
    outcomes = []

    def load(seed):
        client = server.client()
        rng = np.random.default_rng(seed)
        while not stop.is_set():
            size = int(rng.choice([4, 1000, 300000]))
            values = rng.integers(-9, 9, size, dtype=np.int32)
            path = f"/v1/cumsum?dtype=int32&shape={size}"
            try:
                answer = client._exchange(
                    "POST", path, values.tobytes(), {"Content-Type": calls.RAW}
                )
            except ConnectionError:
                outcomes.append("closed")  # before a byte of an answer: http.client checks that
                return
            if answer.status == 200:
                right = answer.body == np.cumsum(values, dtype=np.int32).tobytes()
                outcomes.append("right" if right else "wrong")
            else:
                calls.expect_error(answer, 503, "draining")
                outcomes.append("draining")
                return

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(load, seed) for seed in range(8)]
        latest = time.monotonic() + 30
        while len(outcomes) < 500 and time.monotonic() < latest:
            time.sleep(0.1)
        server.signal(signal.SIGTERM)
        status = server.wait(30)
        stop.set()
        for future in futures:
            future.result()
    assert status == 0
    assert set(outcomes) <= {"right", "draining", "closed"}
    assert outcomes.count("right") > 20
    assert outcomes.count("draining") + outcomes.count("closed") <= 8


def test_idle_connections_do_not_delay_the_exit(start_server):
    server = start_server()
    idle = [server.wire() for _ in range(50)]
    used = server.wire()
    used.send(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
    assert used.answer().status == 200
    started = time.monotonic()
    server.signal(signal.SIGTERM)
    assert server.wait(60) == 0
    assert time.monotonic() - started < 20  # --drain-timeout-s is 30
    for wire in [*idle, used]:
        assert wire.closed()
        wire.close()


def test_during_the_drain_delay_it_is_not_ready_but_serves(start_server):
    server = start_server("--drain-delay-ms", "5000")
    server.signal(signal.SIGTERM)
    client = server.client()
    until(lambda: client.get("/readyz").status == 503)
    assert client.get("/livez").status == 200
    assert post(server, 7) == (200, True)
    client.close()
    assert server.wait(30) == 0


def test_a_stuck_client_ends_with_the_drain_timeout(start_server):
    server = start_server("--drain-timeout-s", "1")
    with server.wire() as stuck:
        stuck.send(post_bytes(PATH, bytes(16), [("Content-Type", calls.RAW)])[:-1])
        server.await_active(1)
        started = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.wait(60) == 1
        assert 0.5 < time.monotonic() - started < 25  # 30 without the flag


def test_a_second_signal_ends_at_once(start_server):
    server = start_server("--drain-timeout-s", "60")
    with server.wire() as stuck:
        stuck.send(post_bytes(PATH, bytes(16), [("Content-Type", calls.RAW)])[:-1])
        server.await_active(1)
        server.signal(signal.SIGTERM)
        server.await_refusal()
        started = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.wait(90) == 1
        assert time.monotonic() - started < 30


def test_after_the_exit_the_port_is_free_again(start_server):
    first = start_server()
    first.stop()
    with pytest.raises(OSError):
        first.wire(timeout=2)


def test_sighup_and_sigpipe_are_ignored(start_server):
    server = start_server()
    server.signal(signal.SIGHUP)
    server.signal(signal.SIGPIPE)
    assert post(server, 1) == (200, True)
    server.stop()  # with status 0, which nobody has whom a signal ended


def test_sigterm_while_starting_ends_it(start_server):
    server = start_server("--kernel-cache", "", wait=False)
    until(lambda: "listening on" in server.log)  # before any device is opened
    server.signal(signal.SIGTERM)
    assert server.wait(60) == 0
