"""Which large requests start and how much they may reserve: a client that announces much, or asks
for much with a few bytes, must not take memory from others before it has sent its data."""

import concurrent.futures
import contextlib
import json
import socket
import threading

import numpy as np
import pytest

from support import calls
from support.calls import BODY, PATH, SUMS, works
from support.http import post_bytes
from support.waiting import until

MIB = 1 << 20
RAW = ("Content-Type", calls.RAW)


def announce(size, body=b"", headers=()):
    """A raw request of `size` bytes, of which only `body` follows."""
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return (
        f"POST /v1/cumsum?dtype=int8&shape={size} HTTP/1.1\r\nHost: x\r\n"
        f"Content-Type: {calls.RAW}\r\nContent-Length: {size}\r\n{fields}\r\n"
    ).encode() + body


def test_headers_alone_take_nothing_of_the_budget(start_server):
    server = start_server("--memory-budget", "1GiB")
    wires = [server.wire().send(announce(256 * MIB)) for _ in range(26)]
    texts = [
        server.wire().send(
            b"POST /v1/cumsum HTTP/1.1\r\nHost: x\r\nContent-Length: 268435456\r\n\r\n"
        )
        for _ in range(4)
    ]
    # the count includes this query
    until(lambda: server.metric("tally_active_requests") == 31, 20)
    assert server.metric("tally_memory_reserved_bytes") == 0
    assert server.metric("tally_memory_promised_bytes") == 0
    assert works(server)
    for wire in wires + texts:
        wire.close()


def test_a_body_of_one_byte_holds_little_memory_and_its_reservation_is_given_to_senders(
    start_server,
):
    server = start_server("--memory-budget", "1GiB")
    size = 200 * MIB
    wires = [server.wire().send(announce(size, b"x")) for _ in range(26)]
    # each request has been admitted
    until(lambda: server.metric("tally_admission_waiting") == 0, 30)
    assert server.metric("tally_memory_reserved_bytes") < 26 * 128 * 1024
    client = server.client()
    answer = client.post(f"/v1/cumsum?dtype=int8&shape={size}", bytes(size), calls.RAW)
    assert answer.status == 200 and len(answer.body) == size
    client.close()
    assert works(server)
    for wire in wires:
        wire.close()


def test_a_request_that_waits_for_memory_is_504_when_its_deadline_passes_and_was_not_read(
    start_server,
):
    server = start_server("--memory-budget", "16MiB")
    size = 6 * MIB
    holders = [server.wire().send(announce(size, bytes(5 * MIB))) for _ in range(2)]
    until(lambda: server.metric("tally_memory_reserved_bytes") >= 10 * MIB, 20)
    with server.wire() as wire:
        wire.send(announce(size, bytes(64 * 1024), [("X-Request-Timeout-Ms", "200")]))
        calls.expect_error(wire.answer(), 504, "deadline_passed")
    assert works(server)
    for wire in holders:
        wire.close()


@pytest.mark.parametrize("addresses", [1, 4])
def test_slow_bodies_keep_no_other_client_out(start_server, addresses):
    """Each body arrives as fast as over many real links, and would keep its memory for minutes."""
    server = start_server("--memory-budget", "4GiB")
    wires = [
        server.wire(source=f"127.0.0.{10 + i % addresses}").send(announce(512 * MIB))
        for i in range(4)
    ]
    stop = threading.Event()

    def feed():
        while not stop.wait(0.05):
            for wire in wires:
                wire.send(bytes(MIB // 8))

    with concurrent.futures.ThreadPoolExecutor() as pool:
        feeding = pool.submit(feed)
        try:
            until(lambda: server.metric("tally_admission_active") == 4, 30)
            with server.wire(source="127.0.0.3") as other:
                body = bytes(16 * MIB)
                answer = other.send(announce(len(body), body)).answer()
                assert answer.status == 200 and answer.body == body
        finally:
            stop.set()
        feeding.result()
    for wire in wires:
        wire.close()


def test_a_slow_reader_and_a_large_unsent_body_block_no_other_client(start_server):
    """The reader is faster than many links. It holds more than half of the budget, and another
    client needs more than the rest: small requests overtake that client, and the reader keeps
    its memory for two minutes.
    """
    server = start_server("--memory-budget", "384MiB", moves_clock=True)
    held, announced, size = 240 * MIB, 200 * MIB, 4 * MIB
    with server.wire() as reader, server.wire() as waiting:
        path = f"/v1/cumsum?dtype=int8&shape={held}&strides=0"
        reader.send(post_bytes(path, b"\x01", [RAW]))
        reader.socket.recv(1)  # the answer has begun
        waiting.send(announce(announced, bytes(300_000)))
        until(lambda: server.metric("tally_admission_waiting") == 1)
        for _ in range(3):
            with server.wire() as other:
                other.send(announce(size, bytes(size), [("X-Request-Timeout-Ms", "30000")]))
                assert other.answer().body == bytes(size)

        def is_cut():
            """By the server's clock the client reads 1.5 MiB per second; the minimum is 2."""
            with contextlib.suppress(ConnectionError):
                for _ in range(24):
                    reader.socket.recv(MIB // 16, socket.MSG_WAITALL)
            server.pass_time_awake(1)
            return server.metric("tally_slow_clients_total") == 1

        until(is_cut, 60, 0.05)
        until(lambda: server.metric("tally_admission_waiting") == 0)


def test_a_body_that_is_refused_gives_its_place_up_before_its_client_stops_sending(start_server):
    server = start_server()
    size = 4 * MIB
    head = (
        f"POST /v1/cumsum?dtype=int8&shape={size} HTTP/1.1\r\nHost: x\r\n"
        f"Content-Type: {calls.RAW}\r\nTransfer-Encoding: chunked\r\n\r\n"
    ).encode()
    with server.wire() as wire:
        # the body is longer than the header announced
        wire.send(head + b"%x\r\n" % (2 * size) + bytes(size + 2 * MIB))
        calls.expect_error(wire.answer(), 400, "length_mismatch")
        assert server.metric("tally_admission_active") == 0
        assert server.metric("tally_memory_promised_bytes") == 0


def test_a_deadline_that_passes_while_the_body_arrives_is_504_before_its_end(start_server):
    """The server cannot refuse the request earlier, since it does not know how fast the body
    will arrive."""
    server = start_server()
    with server.wire() as wire:
        wire.send(announce(6 * MIB, bytes(MIB), [("X-Request-Timeout-Ms", "300")]))
        calls.expect_error(wire.answer(), 504, "deadline_passed", says=["body"])
    with server.wire() as wire:
        wire.send(announce(600, bytes(100), [("X-Request-Timeout-Ms", "300")]))
        calls.expect_error(wire.answer(), 504, "deadline_passed", says=["body"])
    assert works(server)
    until(lambda: server.metric("tally_memory_reserved_bytes") == 0, 20)


def test_a_client_that_leaves_while_it_waits_for_memory_is_not_waited_for(start_server):
    """The client has sent bytes that the server has not read. They must not let the server wait
    for memory again."""
    server = start_server("--memory-budget", "16MiB")
    size = 6 * MIB
    holders = [server.wire().send(announce(size, bytes(5 * MIB))) for _ in range(2)]
    until(lambda: server.metric("tally_memory_reserved_bytes") >= 10 * MIB, 20)

    def is_or_was(name):
        """True if the metric is 1, or if it may no longer be 1: after some seconds the server
        evicts a holder of memory, and on a busy machine this may happen before the test reads
        the metric."""
        given_way = server.metric("tally_memory_reserved_bytes") < 10 * MIB
        return server.metric(name) == 1 or given_way

    # this request has to wait for memory
    wire = server.wire().send(announce(4 * MIB, bytes(MIB)))
    until(lambda: is_or_was("tally_admission_waiting"), 60)
    wire.reset()
    until(lambda: is_or_was("tally_clients_gone_total"), 60)
    for holder in holders:
        holder.close()
    # the only active request is this query
    until(lambda: server.metric("tally_active_requests") == 1, 20)
    assert server.metric("tally_memory_reserved_bytes") == 0
    assert works(server)


def test_a_request_that_waits_for_memory_continues_when_memory_is_free(start_server):
    server = start_server("--memory-budget", "16MiB")
    size = 6 * MIB
    holders = [server.wire().send(announce(size, bytes(5 * MIB))) for _ in range(2)]
    until(lambda: server.metric("tally_memory_reserved_bytes") >= 10 * MIB, 20)
    body = np.ones(size, np.int8).tobytes()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        client = server.client()
        future = pool.submit(client.post, f"/v1/cumsum?dtype=int8&shape={size}", body, calls.RAW)
        until(lambda: server.metric("tally_admission_waiting") == 1, 20)
        for wire in holders:
            wire.close()
        answer = future.result()
        client.close()
    assert answer.status == 200
    assert answer.body == np.cumsum(np.ones(size, np.int8), dtype=np.int8).tobytes()
    server.stop()  # checks the loop's count of its connections


def test_a_few_bytes_that_ask_for_much_wait_for_memory_instead_of_taking_it(start_server):
    """The requests are broadcasts: each has one byte of body and a large output. The server
    knows the size of the output before the body arrives."""
    server = start_server("--memory-budget", "64MiB")

    def ask(_):
        client = server.client()
        path = f"/v1/cumsum?dtype=int8&shape={24 * MIB}&strides=0"
        answer = client.post(path, b"\x01", calls.RAW)
        client.close()
        return answer

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for answer in pool.map(ask, range(16)):
            assert answer.status == 200 and len(answer.body) == 24 * MIB
    until(lambda: server.metric("tally_memory_reserved_bytes") == 0, 20)
    assert server.metric("tally_memory_promised_bytes") == 0


@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
def test_texts_that_together_need_more_than_there_is_wait_for_each_other(start_server, chunked):
    """The memory that a text needs is known only after it is read; an estimate is reserved
    before."""
    server = start_server("--memory-budget", "48MiB")
    values = list(range(400000))
    text = json.dumps({"data": values, "dtype": "int64"}).encode()
    sums = np.cumsum(np.array(values, np.int64))

    def pieces():
        for at in range(0, len(text), 100000):
            yield text[at : at + 100000]

    def ask(_):
        client = server.client()
        answer = client.post("/v1/cumsum", pieces() if chunked else text, calls.JSON)
        client.close()
        return answer

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for answer in pool.map(ask, range(12)):
            assert answer.status == 200, answer.body[:300]
            assert np.array_equal(answer.json()["data"], sums)
    until(lambda: server.metric("tally_memory_reserved_bytes") == 0, 20)
    assert server.metric("tally_memory_promised_bytes") == 0


def test_a_full_queue_is_said_before_the_body_is_sent(start_server):
    server = start_server("--queue-depth", "1", "--batch-delay-us", "1000000")
    with server.wire() as waiting, server.wire() as wire:
        waiting.send(post_bytes(PATH, BODY, [RAW]))
        until(lambda: server.metric("tally_queue_requests") == 1, 20)
        wire.send(announce(MIB, headers=[("Expect", "100-continue")]))
        answer = wire.answer()
        calls.expect_error(answer, 503, "queue_full", says=["--queue-depth"])
        assert int(answer.headers["Retry-After"]) >= 1
        assert waiting.answer().body == SUMS


def test_a_queue_that_one_client_fills_has_room_for_another_one(start_server):
    server = start_server("--queue-depth", "2", "--batch-delay-us", "1000000")
    filling = [server.wire(source="127.0.0.2").send(post_bytes(PATH, BODY, [RAW])) for _ in "12"]
    until(lambda: server.metric("tally_queue_requests") == 2, 20)
    with server.wire(source="127.0.0.3") as other:
        assert other.send(post_bytes(PATH, BODY, [RAW])).answer().body == SUMS
    for wire in filling:
        assert wire.answer().body == SUMS
        wire.close()


def test_a_tensor_that_was_admitted_is_not_refused_because_the_queue_is_full(start_server):
    """Each of its slices enters the queue again, which other requests fill meanwhile."""
    server = start_server("--queue-depth", "1", "--slice-bytes", "64KiB")
    size = 16 * MIB
    body = np.ones(size, np.int8).tobytes()
    sums = np.cumsum(np.ones(size, np.int8), dtype=np.int8).tobytes()
    stop = threading.Event()

    def flood():
        client = server.client()
        while not stop.is_set():
            client.post(PATH, BODY, calls.RAW)
        client.close()

    def ask():
        """Returns whether the request was admitted. Every admitted request must be answered
        with its sums."""
        with server.wire() as wire:
            wire.send(announce(size, headers=[("Expect", "100-continue")]))
            answer = wire.answer()
            if answer.status != 100:
                calls.expect_error(answer, 503, "queue_full", says=["--queue-depth"])
                return False
            answer = wire.send(body).answer()
            assert answer.status == 200 and answer.body == sums
            return True

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        floods = [pool.submit(flood) for _ in range(4)]
        try:
            for _ in range(4):
                until(ask, 60, 0)
        finally:
            stop.set()
        for future in floods:
            future.result()
