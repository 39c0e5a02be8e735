"""An HTTP thread converts short texts itself. Here, more texts arrive at once than one round of
its loop has time for, so that some wait for a later round; and more arrive than may wait."""

import contextlib
import json
import signal

import numpy as np
import pytest

from support import calls
from support.http import post_bytes
from support.waiting import until

CROWD = 60  # texts of 70 to 110 KB each: 5 MB for one thread
KIB = 1 << 10


def texts():
    """[(body, sums)] of several lengths."""
    numbers = np.random.default_rng(1)
    made = []
    for i in range(CROWD):
        values = numbers.integers(-(1 << 30), 1 << 30, 6000 + 60 * i)
        body = json.dumps({"data": values.tolist(), "dtype": "int64"})
        made.append((body.encode(), np.cumsum(values).tolist()))
    assert len(made[0][0]) > 64 * KIB and len(made[-1][0]) < 128 * KIB
    return made


TEXTS = texts()


@pytest.fixture
def crowd(start_server):
    """A stopped service with one HTTP thread, to which every client has sent a text."""
    server = start_server("--http-loops", "1")
    server.client().get("/livez")
    server.signal(signal.SIGSTOP)
    until(server.is_stopped)
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(server.wire()) for _ in TEXTS]
        yield server, wires
        if server.is_stopped():
            server.signal(signal.SIGCONT)


def send_all(wires, headers=()):
    for wire, (body, _) in zip(wires, TEXTS):
        wire.send(post_bytes("/v1/cumsum", body, [("Content-Type", calls.JSON), *headers]))


def sums_of(answer):
    assert answer.status == 200, answer
    return json.loads(answer.body)["data"]


def test_all_texts_that_come_at_once_are_answered(crowd):
    server, wires = crowd
    send_all(wires)
    server.signal(signal.SIGCONT)
    for wire, (_, sums) in zip(wires, TEXTS):
        assert sums_of(wire.answer()) == sums


def test_clients_that_leave_while_their_texts_wait_take_nothing_with_them(crowd):
    server, wires = crowd
    send_all(wires)
    for wire in wires[::2]:
        wire.reset()
    server.signal(signal.SIGCONT)
    for wire, (_, sums) in list(zip(wires, TEXTS))[1::2]:
        assert sums_of(wire.answer()) == sums
    until(lambda: server.metric("tally_active_requests") == 1)
    until(lambda: server.metric("tally_memory_reserved_bytes") == 0)


def test_a_drain_answers_texts_that_wait_for_their_turn(crowd):
    server, wires = crowd
    send_all(wires)
    server.signal(signal.SIGTERM)
    server.signal(signal.SIGCONT)
    for wire, (_, sums) in zip(wires, TEXTS):
        assert sums_of(wire.answer()) == sums
    assert server.wait() == 0


def test_a_text_whose_deadline_passes_in_the_line_is_a_504(crowd):
    server, wires = crowd
    send_all(wires, [("X-Request-Timeout-Ms", "1")])
    server.signal(signal.SIGCONT)
    late = 0
    for wire, (_, sums) in zip(wires, TEXTS):
        answer = wire.answer()
        if answer.status == 200:
            assert sums_of(answer) == sums
        elif answer.status == 503:  # the texts before it needed more than the remaining time
            calls.expect_error(answer, 503, "queue_full", says=("takes about",))
        else:
            calls.expect_error(answer, 504, "deadline_passed")
            late += 1
    assert late > 0, "a thread parsed and printed 5 MB in a millisecond"
