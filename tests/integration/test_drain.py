"""Shutdown: SIGTERM and SIGINT under load, with slow clients, and twice."""

import collections
import concurrent.futures
import contextlib
import os
import random
import selectors
import signal
import socket
import ssl
import threading
import time

import numpy as np
import pytest

from support import calls
from support.certificates import Tls
from support.http import post_bytes
from support.waiting import until

PATH = "/v1/cumsum?dtype=int32&shape=4"
SLOW = ["--batch-delay-us", "500000"]  # every request is in flight for half a second


def expected(number):
    return [number, number + 1, number + 2, number + 3]


def post(server, number):
    """Send one request on a new connection. Returns its status and whether the sums are correct."""
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
    """Half of the requests wait for the device; the other half still lack their last byte."""
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
                # http.client raises this error only if no byte of an answer arrived
                outcomes.append("closed")
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


class SteadyLoad:
    """Clients that always have a request in flight: some keep their connection as long as possible,
    some pause before the next request, some open a new connection for each."""

    REQUEST = post_bytes(
        PATH, np.array([5, 1, 1, 1], np.int32).tobytes(), [("Content-Type", calls.RAW)]
    )
    BODY = np.array([5, 6, 7, 8], np.int32).tobytes()

    def __init__(self, port, kept=24, pausing=4, fresh=4):
        self.port = port
        self.selector = selectors.DefaultSelector()
        self.outcomes = collections.Counter()
        self.said_close = 0
        self.lost = []
        self.open = set()
        self.paused = []
        self.over = False
        for kind in ["kept"] * kept + ["pausing"] * pausing + ["fresh"] * fresh:
            self._connect(kind)

    def _connect(self, kind):
        client = socket.socket()
        client.setblocking(False)
        self.open.add(client)
        client.connect_ex(("127.0.0.1", self.port))
        state = {"kind": kind, "connected": False, "sent": None, "text": b""}
        self.selector.register(client, selectors.EVENT_WRITE, state)

    def _end(self, client, again=None):
        self.selector.unregister(client)
        self.open.remove(client)
        client.close()
        if again is not None and not self.over:
            self._connect(again)

    def _send(self, client, state):
        state["sent"], state["text"] = time.monotonic(), b""
        try:
            client.send(self.REQUEST)
        except OSError:  # closed while idle: no request is lost
            self.outcomes["idle closed"] += 1
            self._end(client, state["kind"])

    def _read(self, client, state):
        try:
            data = client.recv(65536)
        except OSError:
            data = b""
        if not data:
            if state["sent"] is None:
                self.outcomes["idle closed"] += 1
            else:
                self.lost.append((state["kind"], time.monotonic() - state["sent"]))
            self._end(client, state["kind"])
            return
        state["text"] += data
        head, end, body = state["text"].partition(b"\r\n\r\n")
        if not end or len(body) < len(self.BODY) and head.startswith(b"HTTP/1.1 200"):
            return
        right = head.startswith(b"HTTP/1.1 200") and body == self.BODY
        self.outcomes["right" if right else head.split(b"\r\n")[0]] += 1
        closes = b"connection: close" in head.lower()
        self.said_close += closes
        state["sent"] = None
        if closes or state["kind"] == "fresh":
            self._end(client, state["kind"])
        elif state["kind"] == "pausing":
            self.paused.append((time.monotonic() + 0.02, client, state))
        else:
            self._send(client, state)

    def run(self, over):
        while not over():
            for key, _ in self.selector.select(0.01):
                client, state = key.fileobj, key.data
                if state["connected"]:
                    self._read(client, state)
                elif client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0:
                    self.outcomes["refused"] += 1
                    self._end(client)
                else:
                    state["connected"] = True
                    self.selector.modify(client, selectors.EVENT_READ, state)
                    self._send(client, state)
            now = time.monotonic()
            due = [each for each in self.paused if each[0] <= now]
            self.paused = [each for each in self.paused if each[0] > now]
            for _, client, state in due:
                if client in self.open:
                    self._send(client, state)

    def finish(self):
        """After the server's exit: read the remaining answers and count unanswered requests as
        lost."""
        self.over = True
        for client in list(self.open):
            state = self.selector.get_key(client).data
            if state["connected"]:
                state["kind"] = "fresh"  # this answer is the last of its connection
                client.setblocking(True)
                while client in self.open and state["sent"] is not None:
                    self._read(client, state)
            if client in self.open:
                self._end(client)
        self.selector.close()


# number of repetitions; a manual run may set more
DRAINS = int(os.environ.get("TALLY_TEST_DRAINS", "2"))


@pytest.mark.parametrize("delay_ms", [0, 300])
@pytest.mark.parametrize("number", range(DRAINS))
def test_no_request_on_an_open_connection_is_lost_in_a_drain(start_server, number, delay_ms):
    server = start_server("--drain-delay-ms", str(delay_ms))
    load = SteadyLoad(server.port)
    load.run(lambda: load.outcomes["right"] > 500 + 37 * number)
    answered = load.outcomes["right"]
    server.signal(signal.SIGTERM)
    load.run(lambda: server.process.poll() is not None)
    load.finish()
    assert server.wait() == 0
    assert load.lost == []
    assert set(load.outcomes) <= {"right", "refused"}, load.outcomes
    assert load.outcomes["right"] > answered and load.said_close > 0


def test_during_the_drain_delay_new_clients_are_served_with_connection_close(start_server):
    server = start_server("--drain-delay-ms", "60000")
    with server.wire() as kept, server.wire() as chunked, server.wire() as late:
        assert "Connection" not in kept.send(SteadyLoad.REQUEST).answer().headers
        assert "Connection" not in chunked.send(numbered(1, "chunked")).answer().headers
        server.signal(signal.SIGTERM)
        client = server.client()
        until(lambda: client.get("/readyz").status == 503)
        assert client.get("/livez").status == 200
        client.close()
        for wire in (kept, chunked, late, server.wire()):
            answer = wire.send(SteadyLoad.REQUEST).answer()
            assert answer.status == 200 and answer.headers["Connection"] == "close"
            assert wire.closed()
            wire.close()


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_connections_in_the_backlog_are_answered_when_the_socket_closes(
    start_server, tmp_path, kind
):
    """The server accepts four connections. The others wait for a place; some of them are
    accepted, the rest is in the kernel's backlog."""
    path = str(tmp_path / "s")
    server = start_server(
        *("--max-connections", "4", "--batch-delay-us", "300000", "--listen", f"unix:{path}")
    )
    # no connection of another client remains
    until(lambda: server.metric("tally_connections") == 1)
    wires = []
    for _ in range(8):
        wire = server.wire(path=path if kind == "unix" else None)
        wires.append(wire.send(SteadyLoad.REQUEST))
    server.signal(signal.SIGTERM)
    for wire in wires:
        answer = wire.answer()
        assert answer.status == 200 and answer.body == SteadyLoad.BODY
        wire.close()
    assert server.wait(30) == 0
    assert not os.path.exists(path)


def test_requests_in_the_pipe_are_answered_in_a_drain(start_server):
    server = start_server("--drain-delay-ms", "60000", "--batch-delay-us", "100000")
    with server.wire() as wire:
        wire.send(SteadyLoad.REQUEST)
        server.signal(signal.SIGTERM)
        client = server.client()
        until(lambda: client.get("/readyz").status == 503)
        client.close()
        # sent before the answer to the first request can announce a close
        wire.send(SteadyLoad.REQUEST)
        assert [wire.answer().body for _ in range(2)] == [SteadyLoad.BODY] * 2
        assert wire.closed()


def numbered(number, framing):
    """A request whose body begins with `number`. framing: "length"; "chunked": the body is one
    chunk, as most clients send it; "chunks": it is several chunks. The server does not know how
    many bytes the frames of several chunks have."""
    body = np.array([number, 1, 1, 1], np.int32).tobytes()
    request = post_bytes(PATH, body, [("Content-Type", calls.RAW)])
    if framing != "length":
        head = request[: -len(body)].replace(b"Content-Length: 16", b"Transfer-Encoding: chunked")
        size = 16 if framing == "chunked" else 4
        pieces = [body[at : at + size] for at in range(0, 16, size)]
        request = head + b"".join(b"%x\r\n%s\r\n" % (size, piece) for piece in pieces)
        request += b"0\r\n\r\n"
    return request


FRAMINGS = ["length", "chunked", "chunks"]


def old_tls(context):
    context.maximum_version = ssl.TLSVersion.TLSv1_2


def slow_tls(context):
    old_tls(context)
    context.set_ciphers("ECDHE+CHACHA20")


KINDS = {
    "tcp": None,
    "tls": lambda context: None,
    "tls 1.2": old_tls,
    "chacha": slow_tls,
    "unix": None,
}


@pytest.fixture(params=KINDS)
def start_piped(request, start_server, tmp_path):
    """start_piped(*flags): a server, and a function that makes a wire of the given kind to it."""

    def start(*flags):
        path = str(tmp_path / "s")
        prepare = KINDS[request.param]
        tls = None if prepare is None else Tls(tmp_path / "tls")
        server = start_server(*flags, "--listen", f"unix:{path}", tls=tls)
        if prepare is not None:
            prepare(server.context)

        def wire():
            made = server.wire()
            if request.param == "unix":
                made.close()
                made.socket = socket.socket(socket.AF_UNIX)
                made.socket.settimeout(30)
                made.socket.connect(path)
            return made

        return server, wire

    return start


def answers_of_pipe(wire, count):
    """Read the answers: all must be correct, and only the last may announce a close."""
    for number in range(count):
        answer = wire.answer()
        assert answer.status == 200, answer
        assert np.frombuffer(answer.body, np.int32).tolist() == expected(number)
        if number + 1 < count:
            assert "Connection" not in answer.headers
    return answer


def says_when_it_ends(framing, last):
    """Whether the last answer announces a close exactly if it should. The server announces a
    close if it knows that all received bytes belong to requests that it has answered; with
    several chunks it cannot know this."""
    return last.headers["Connection"] == (None if framing == "chunks" else "close")


def test_all_that_were_sent_in_one_go_are_answered_in_a_drain(start_piped):
    """The first request is being computed when the signal arrives; the others were read together
    with it."""
    server, make_wire = start_piped("--batch-delay-us", "50000")
    with contextlib.ExitStack() as stack:
        wires = {framing: stack.enter_context(make_wire()) for framing in FRAMINGS}
        for framing, wire in wires.items():
            wire.send(b"".join(numbered(at, framing) for at in range(20)))
        until(lambda: server.metric("tally_active_requests") > 1)
        server.signal(signal.SIGTERM)
        for framing, wire in wires.items():
            last = answers_of_pipe(wire, 20)
            assert says_when_it_ends(framing, last) and wire.closed()
    assert server.wait() == 0


def test_a_client_that_always_has_another_request_in_the_pipe_does_not_hold_the_exit_up(
    start_server,
):
    """The client is told to close after half of the drain timeout."""
    server = start_server("--drain-timeout-s", "2", "--batch-delay-us", "5000")
    with server.wire() as wire:
        wire.send(SteadyLoad.REQUEST * 20)
        server.signal(signal.SIGTERM)
        closes = None
        while closes is None:
            # the server has closed the connection after announcing it
            with contextlib.suppress(ConnectionError):
                wire.send(SteadyLoad.REQUEST)
            answer = wire.answer()
            assert answer.body == SteadyLoad.BODY
            closes = answer.headers["Connection"]
        assert closes == "close"
    assert server.wait() == 0


def test_the_last_of_a_pipe_says_close_where_the_client_has_closed_its_side(start_server):
    server = start_server("--batch-delay-us", "50000")
    with server.wire() as wire:
        # 40 batches of 50 ms take two seconds
        wire.send(b"".join(numbered(at, "length") for at in range(40)))
        wire.half_close().await_half_closed()
        server.await_active(1)
        server.signal(signal.SIGTERM)
        assert answers_of_pipe(wire, 40).headers["Connection"] == "close"
        assert wire.closed()
    assert server.wait() == 0


def test_all_that_come_in_one_go_during_a_drain_are_answered(start_piped):
    """The requests arrive on new connections, on idle ones, and on connections with half a
    request."""
    server, make_wire = start_piped("--drain-delay-ms", "60000")
    pipes = {framing: b"".join(numbered(at, framing) for at in range(20)) for framing in FRAMINGS}
    begins = ("", "used", "begun")
    with contextlib.ExitStack() as stack:
        wires = {
            (framing, begin): stack.enter_context(make_wire())
            for framing in FRAMINGS
            for begin in begins
        }
        for framing in FRAMINGS:
            wires[framing, "used"].send(SteadyLoad.REQUEST).answer()
            wires[framing, "begun"].send(pipes[framing][:50])
        server.signal(signal.SIGTERM)
        client = server.client()
        until(lambda: client.get("/readyz").status == 503)
        client.close()
        for (framing, begin), wire in wires.items():
            wire.send(pipes[framing][50 if begin == "begun" else 0 :])
            assert says_when_it_ends(framing, answers_of_pipe(wire, 20))


@pytest.mark.parametrize("number", range(DRAINS))
def test_no_request_that_was_sent_before_the_signal_is_lost(start_piped, number):
    """Many clients send many requests each, in any framing and in arbitrary pieces. When the signal
    arrives, most requests are in socket buffers, or half of them in libmicrohttpd's buffers."""
    server, make_wire = start_piped()
    rng = random.Random(number)
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(make_wire()) for _ in range(24)]
        pipes = [b"".join(numbered(at, rng.choice(FRAMINGS)) for at in range(30)) for _ in wires]
        for wire in wires[::2]:
            wire.send(SteadyLoad.REQUEST).answer()
        for wire, pipe in zip(wires, pipes):
            cut = rng.randrange(1, len(pipe))
            wire.send(pipe[:cut]).send(pipe[cut:])
        server.signal(signal.SIGTERM)
        lost = 0
        for wire in wires:
            try:
                answers_of_pipe(wire, 30)
            except ConnectionError:
                lost += 1
    assert lost == 0
    assert server.wait() == 0


def test_a_refused_request_does_not_end_a_pipeline_in_a_drain(start_server):
    server = start_server("--batch-delay-us", "300000")
    with server.wire() as wire:
        refused = post_bytes("/nowhere", bytes(100), [])
        wire.send(SteadyLoad.REQUEST + refused * 2 + SteadyLoad.REQUEST)
        server.await_active(1)
        server.signal(signal.SIGTERM)
        assert [wire.answer().status for _ in range(4)] == [200, 404, 404, 200]
        assert wire.closed()
    assert server.wait() == 0


def test_an_interrupt_at_the_keyboard_waits_for_no_balancer(start_server):
    server = start_server("--drain-delay-ms", "60000")
    server.signal(signal.SIGINT)
    assert server.wait(30) == 0


def test_without_clients_there_is_no_balancer_to_wait_for(start_server):
    server = start_server("--drain-delay-ms", "60000", wait=False)
    until(lambda: "ready" in server.log.split("listening on")[-1])
    server.signal(signal.SIGTERM)
    assert server.wait(30) == 0


@pytest.mark.parametrize("timeout_s", [0, 30])
def test_idle_connections_neither_delay_the_exit_nor_make_it_a_failure(start_server, timeout_s):
    server = start_server("--drain-timeout-s", str(timeout_s))
    idle = [server.wire() for _ in range(50)]
    used = server.wire()
    used.send(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
    assert used.answer().status == 200
    started = time.monotonic()
    server.signal(signal.SIGTERM)
    assert server.wait(60) == 0
    assert time.monotonic() - started < 20
    for wire in [*idle, used]:
        assert wire.closed()
        wire.close()


def test_a_stuck_client_ends_with_the_drain_timeout(start_server):
    server = start_server("--drain-timeout-s", "1")
    with server.wire() as stuck:
        stuck.send(post_bytes(PATH, bytes(16), [("Content-Type", calls.RAW)])[:-1])
        server.await_active(1)
        started = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.wait(60) == 1
        # without the flag, the drain would take 30 s
        assert 0.5 < time.monotonic() - started < 25


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
    server.stop()  # stop() requires exit status 0, so no signal ended the process


def test_sigterm_while_starting_ends_it(start_server):
    server = start_server(wait=False)
    until(lambda: "listening on" in server.log)  # the service listens before it opens a device
    server.signal(signal.SIGTERM)
    assert server.wait(60) == 0
