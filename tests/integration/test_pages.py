"""The cost of pages: time of an HTTP thread, memory of the process and the kernel, delays of other
clients."""

import contextlib
import pathlib
import re
import signal

import pytest

from support import calls
from support.http import post_bytes
from support.waiting import until

MIB = 1 << 20
RAW = ("Content-Type", calls.RAW)
ASK = post_bytes("/v1/cumsum?dtype=int8&shape=1", b"\1", [RAW])


def get(path, method="GET"):
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def refusals(server, limit):
    return server.metric(f'tally_client_refusals_total\\{{limit="{limit}"\\}}')


def http_seconds(server):
    return sum(server.thread_seconds("tally-http"))


@pytest.mark.release_only
def test_the_metrics_page_costs_the_same_however_many_connections_are_open(start_server):
    server = start_server("--http-loops", "1", "--header-timeout-ms", "600000")

    def cost(wire):
        began = http_seconds(server)
        for _ in range(40):
            wire.metric("tally_ready")
        return http_seconds(server) - began

    with contextlib.ExitStack() as stack:
        wire = stack.enter_context(server.wire())
        alone = min(cost(wire) for _ in range(3))
        for _ in range(800):
            stack.enter_context(server.wire())
        until(lambda: wire.metric("tally_connections") == 801)
        beside = min(cost(wire) for _ in range(3))
    assert beside < 2 * alone, (beside, alone)


def test_the_metrics_page_counts_the_descriptors_that_are_open(start_server):
    server = start_server()
    with server.wire() as wire, contextlib.ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(server.wire())
        until(lambda: wire.metric("process_open_fds") == server.open_files())


OTHERS = 300


def test_a_newcomer_is_accepted_while_connections_before_it_wait_for_their_turns(start_server):
    """In the kernel's backlog, the newcomer is behind all connections of the other client. The
    log shows the order of the answers."""
    server = start_server("--http-loops", "1", "--log-bytes-per-s", "0")
    with contextlib.ExitStack() as stack:
        server.signal(signal.SIGSTOP)
        until(server.is_stopped)
        others = [stack.enter_context(server.wire(source="127.0.0.2")) for _ in range(OTHERS)]
        for wire in others:
            wire.send(get("/metrics", "HEAD"))
        newcomer = stack.enter_context(server.wire(source="127.0.0.3")).send(get("/version"))
        server.signal(signal.SIGCONT)
        assert newcomer.answer().status == 200
        for wire in others:
            assert wire.answer(head_request=True).status == 200
    until(lambda: len(asked_paths(server)) == OTHERS + 1)
    assert asked_paths(server).index("/version") < OTHERS * 2 / 3


def asked_paths(server):
    """Paths of the pages in the order of their answers, without the tests' own queries."""
    return re.findall(r" path=(/metrics|/version) ", server.log)


# Unread answers -----------------------------------------------------------------------------------


# Connections that read nothing stay open, even if the machine stops for long.
PATIENT = ("--min-upload-rate", "0", "--idle-timeout-s", "600", "--answer-timeout-ms", "600000")


def unread(server, stack, path, source, pipelined=1):
    """A connection whose client receives almost nothing of the answers, since its window is
    small."""
    wire = stack.enter_context(server.wire(source=source, window=4096))
    return wire.send(get(path) * pipelined)


def queued_bytes(server):
    """Bytes in the kernel's send queue of each of the server's connections, from /proc/net/tcp."""
    rows = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
    columns = [row.split() for row in rows]
    established = "01"
    return [
        int(column[4].split(":")[0], 16)
        for column in columns
        if int(column[1].split(":")[1], 16) == server.port and column[3] == established
    ]


def test_the_kernel_takes_little_of_pages_that_are_not_read(start_server):
    server = start_server(*PATIENT)
    clients = [f"127.0.1.{at}" for at in range(1, 9)]
    with contextlib.ExitStack() as stack:
        for source in clients:
            for _ in range(4):
                unread(server, stack, "/openapi.json", source, 30)
        server.await_active(4 * len(clients))
        queues = queued_bytes(server)
        assert len(queues) >= 4 * len(clients)
        assert max(queues) <= 128 << 10, queues


@pytest.mark.parametrize("bytes_out", [64 << 10, 900 << 10, 8 << 20])
def test_the_kernel_takes_little_of_sums_that_are_not_read(start_server, bytes_out):
    """The kernel's send queue of a connection has at most 128 KiB. For a large answer, whose
    memory is still reserved, it has at most one block of 512 KiB."""
    server = start_server(*PATIENT)
    ask = post_bytes(f"/v1/cumsum?dtype=int8&shape={bytes_out}&strides=0", b"\1", [RAW])
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            wire = stack.enter_context(server.wire(source="127.0.1.1", window=4096))
            wire.send(ask * (2 if bytes_out > MIB else (8 * MIB) // bytes_out))
        server.await_active(4)
        queues = queued_bytes(server)
        assert len(queues) >= 4
        assert max(queues) <= ((512 if bytes_out > MIB else 128) << 10), queues


def test_a_client_that_does_not_read_pages_gets_no_more_pages_but_others_do(start_server):
    server = start_server(*PATIENT)
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            unread(server, stack, "/openapi.json", "127.0.1.1")
        until(lambda: refusals(server, "unread-pages") > 0)
        with server.wire(source="127.0.1.1") as wire:
            answer = wire.send(get("/openapi.json")).answer()
            says = ["has not read pages", "4 MiB", "after Retry-After seconds"]
            calls.expect_error(answer, 429, "too_many_requests", says=says)
            assert answer.headers["Retry-After"] == "1"
            assert wire.send(get("/readyz")).answer().status == 200
        with server.wire(source="127.0.1.2") as wire:
            assert wire.send(get("/openapi.json")).answer().status == 200
    # the connections with unread pages are closed
    with server.wire(source="127.0.1.1") as wire:
        until(lambda: wire.send(get("/openapi.json")).answer().status == 200)


def test_all_clients_together_have_a_bounded_number_of_unread_pages(start_server):
    server = start_server(*PATIENT)
    with contextlib.ExitStack() as stack:
        ask = stack.enter_context(server.wire(source="127.0.1.9"))
        page = len(ask.send(get("/openapi.json")).answer().body)
        for client in range(1, 13):  # the kernel takes up to 128 KiB of each page
            for _ in range(4 * MIB // page):
                unread(server, stack, "/openapi.json", f"127.0.1.{client}")
        until(lambda: ask.send(get("/openapi.json")).answer().status == 503)
        answer = ask.send(get("/openapi.json")).answer()
        calls.expect_error(answer, 503, "out_of_memory", says=["pages", "16 MiB", "Retry-After"])
        assert ask.send(get("/livez")).answer().status == 200


# The requests of one client -----------------------------------------------------------------------


def test_pages_count_among_the_requests_of_their_client(start_server):
    server = start_server("--per-client-requests", "2", *PATIENT)
    paths = ["/metrics", "/openapi.json", "/version", "/v2", "/v1/devices", "/"]
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            unread(server, stack, "/openapi.json", "127.0.1.1")
        server.await_active(2)
        wire = stack.enter_context(server.wire(source="127.0.1.1"))
        for path in paths:
            says = ["has 2 requests in flight", "the server's --per-client-requests"]
            answer = wire.send(get(path)).answer()
            calls.expect_error(answer, 429, "too_many_requests", says=says)
        calls.expect_error(wire.send(ASK).answer(), 429, "too_many_requests")
        # refusing these probes would make an orchestrator end the service
        for path in ("/livez", "/readyz"):
            assert wire.send(get(path)).answer().status == 200
        other = stack.enter_context(server.wire(source="127.0.1.2"))
        for path in paths:
            assert other.send(get(path)).answer().status == 200


def test_a_client_that_has_read_a_page_may_get_the_next_on_another_connection(start_server):
    server = start_server("--per-client-requests", "1", "--http-loops", "2")
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(server.wire()) for _ in range(8)]
        for at in range(200):
            wire = wires[at % len(wires)]
            for path in ("/openapi.json", "/metrics"):
                assert wire.send(get(path)).answer().status == 200
