"""The cost of pages: the time of an HTTP thread, memory here and in the kernel, the turns of others."""

import contextlib
import re
import signal

import pytest

from support.waiting import until


def get(path, method="GET"):
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


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
    """The kernel's backlog has one order for all clients. The log has the order of the answers."""
    server = start_server("--http-loops", "1", "--log-rate", "0")
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
    """In the order of their answers, but for those of the tests' own questions."""
    return re.findall(r" path=(/metrics|/version) ", server.log)
