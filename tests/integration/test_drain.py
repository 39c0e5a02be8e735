"""Leaving: SIGTERM and SIGINT under load, with slow clients, twice."""

import concurrent.futures
import signal
import threading
import time

import numpy as np
import pytest

from support import calls
from support.http import post_bytes

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
    server = start_server(*SLOW)
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        futures = [pool.submit(post, server, at) for at in range(32)]
        time.sleep(0.25)
        started = time.monotonic()
        server.signal(number)
        results = [future.result() for future in futures]
    assert results == [(200, True)] * 32
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
    time.sleep(0.3)
    client = server.client()
    ready = client.get("/readyz")
    assert ready.status == 503
    assert client.get("/livez").status == 200
    assert post(server, 7) == (200, True)
    client.close()
    assert server.wait(30) == 0


def test_a_stuck_client_ends_with_the_drain_timeout(start_server):
    server = start_server("--drain-timeout-s", "1")
    with server.wire() as stuck:
        stuck.send(post_bytes(PATH, bytes(16), [("Content-Type", calls.RAW)])[:-1])
        time.sleep(0.3)
        started = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.wait(60) == 1
        assert 0.5 < time.monotonic() - started < 25  # 30 without the flag


def test_a_second_signal_ends_at_once(start_server):
    server = start_server("--drain-timeout-s", "60")
    with server.wire() as stuck:
        stuck.send(post_bytes(PATH, bytes(16), [("Content-Type", calls.RAW)])[:-1])
        time.sleep(0.3)
        server.signal(signal.SIGTERM)
        time.sleep(0.5)
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
    time.sleep(0.2)
    assert post(server, 1) == (200, True)
    server.stop()


def test_sigterm_while_starting_ends_it(start_server):
    server = start_server("--kernel-cache", "", wait=False)
    time.sleep(0.3)
    server.signal(signal.SIGTERM)
    assert server.wait(60) == 0
