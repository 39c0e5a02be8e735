"""When --max-connections are open, the service decides which clients keep their connections and
which clients get new ones. Each client is an address of 127.0.0.0/8."""

import contextlib
import select
import selectors
import socket
import threading

import pytest

from support import calls
from support.calls import BODY, PATH, SUMS
from support.certificates import Tls
from support.http import Wire, post_bytes
from support.tallyd import free_port
from support.waiting import until

RAW = ("Content-Type", calls.RAW)
ASK = post_bytes(PATH, BODY, [RAW])
BEGIN, END = ASK[:-1], ASK[-1:]
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
READYZ = b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"
PLACES = 32
LINE = 64  # connections that wait for a place (server/http/places.h)
FULL = ("--max-connections", str(PLACES), "--header-timeout-ms", "100000")
REFUSED = 'tally_client_refusals_total\\{limit="%s"\\}'


class Crowd:
    """Clients that hold as many connections as they can, run by their own thread. Each connection
    sends `first`, then `again` after each byte that it reads, and every few milliseconds if
    `pushes`. Connections that the server closes are opened again."""

    def __init__(self, server, sources, first, again=b"", pushes=False):
        self.server, self.first, self.again, self.pushes = server, first, again, pushes
        self.heard = set()  # places whose connection has received something
        self.opened = 0
        self.stopping = threading.Event()
        self.selector = selectors.DefaultSelector()
        self.sockets = {}
        for source in sources:
            self.open(source)
        self.thread = threading.Thread(target=self.run)

    def open(self, place):
        sock = socket.create_connection(("127.0.0.1", self.server.port), 30, (place[0], 0))
        sock.setblocking(False)
        self.sockets[place] = sock
        self.opened += 1
        self.selector.register(sock, selectors.EVENT_READ, place)
        with contextlib.suppress(OSError):
            sock.send(self.first)

    def on_readable(self, place):
        sock = self.sockets[place]
        with contextlib.suppress(OSError):
            if sock.recv(65536):
                self.heard.add(place)
                sock.send(self.again)
                return
        self.selector.unregister(sock)
        sock.close()
        self.open(place)

    def run(self):
        while not self.stopping.is_set():
            for key, _ in self.selector.select(0.005):
                self.on_readable(key.data)
            for sock in self.sockets.values() if self.pushes else ():
                with contextlib.suppress(OSError):
                    sock.send(self.again)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()
        for sock in self.sockets.values():
            sock.close()


def of_one(count):
    return [("127.0.0.2", at) for at in range(count)]


def of_many(count):
    return [(f"127.0.1.{at + 1}", 0) for at in range(count)]


def gets_in(server, asks=ASK, source="127.0.0.3", patience=30):
    """Send one request on a new connection and return the answer."""
    with server.wire(patience, source) as wire:
        return wire.send(asks).answer()


def has_answer(wire):
    return bool(select.select([wire.socket], [], [], 0)[0])


def alone_with(server):
    """Open a connection from a separate address for queries of metrics, and wait until it is
    the server's only connection."""
    watch = server.wire(source="127.0.0.9")
    until(watch.is_alone)
    return watch


def expect_everybody_in(server):
    """Check that a client gets an answer, and a probe from another address."""
    for at in range(4):
        assert gets_in(server).body == SUMS
        assert gets_in(server, (LIVEZ, READYZ)[at % 2], "127.0.0.4").status == 200


@pytest.mark.parametrize("loops", ["1", "3"])
def test_one_address_that_asks_on_all_connections_keeps_nobody_out(start_server, loops):
    server = start_server("--http-loops", loops, *FULL)
    with Crowd(server, of_one(PLACES + 8), LIVEZ, LIVEZ) as crowd:
        until(lambda: len(crowd.heard) >= PLACES)
        expect_everybody_in(server)
    # the number is not exact: some clients got a place that another client had freed
    assert server.metric("tally_connections_evicted_total") > 0


def test_many_addresses_with_an_idle_connection_each_keep_nobody_out(start_server):
    server = start_server("--http-loops", "2", *FULL)
    with Crowd(server, of_many(PLACES + 8), LIVEZ) as crowd:
        until(lambda: len(crowd.heard) >= PLACES)
        expect_everybody_in(server)


def test_many_addresses_that_ask_now_and_then_keep_nobody_out(start_server):
    server = start_server("--http-loops", "2", *FULL)
    with Crowd(server, of_many(PLACES + 8), b"GET /livez HTTP/1.1\r\nHost: x\r\n") as crowd:
        until(lambda: crowd.opened > PLACES + 8)  # some connections were evicted for others
        expect_everybody_in(server)


def upload(size):
    head = f"POST /v1/cumsum?dtype=int8&shape={size} HTTP/1.1\r\nHost: x\r\n"
    return f"{head}Content-Type: {calls.RAW}\r\nContent-Length: {size}\r\n\r\n".encode()


def test_one_address_whose_bodies_arrive_at_the_least_rate_keeps_nobody_out(start_server):
    server = start_server("--http-loops", "2", "--min-upload-rate", "1", *FULL)
    with Crowd(server, of_one(PLACES + 8), upload(8 << 20), bytes(512), pushes=True):
        until(lambda: gets_in(server, LIVEZ).status == 200)
        server.await_active(PLACES - 1)
        expect_everybody_in(server)
    # the number is not exact: some clients got a place that another client had freed
    assert server.metric("tally_connections_evicted_total") > 0


def test_many_addresses_whose_bodies_arrive_at_the_least_rate_keep_nobody_out(start_server):
    server = start_server(
        *("--http-loops", "1", "--min-upload-rate", "1", "--body-timeout-ms", "80000000"),
        *("--memory-budget", "4GiB", *FULL),
        moves_clock=True,
    )
    watch = alone_with(server)
    with Crowd(server, of_many(PLACES + 3), upload(8 << 20), bytes(512), pushes=True):
        # the count includes this query
        until(lambda: watch.metric("tally_active_requests") == PLACES)
        assert watch.closed()  # the connection was idle, so the crowd got its place
        begun = threading.Event()

        def let_time_pass():
            while not begun.is_set():
                server.pass_time_awake(2.1)

        passing = threading.Thread(target=let_time_pass)
        passing.start()
        try:
            assert gets_in(server, LIVEZ).status == 200
            assert gets_in(server, ASK).body == SUMS
        finally:
            begun.set()
            passing.join()
    watch.close()


# An address for probes ----------------------------------------------------------------------------


def ask_probe(port, path):
    with Wire(port) as wire:
        answer = wire.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()).answer()
        assert wire.closed()
        return answer


def test_a_probe_has_an_address_of_its_own_where_all_connections_are_busy(start_server):
    port = free_port()
    server = start_server(
        *("--http-loops", "2", "--min-upload-rate", "0", "--max-connections", "5"),
        *("--probe-listen", f"127.0.0.1:{port}"),
    )
    watch = alone_with(server)
    busy = [server.wire(source=f"127.0.1.{at + 1}").send(BEGIN) for at in range(4)]
    for wire in busy:
        wire.await_read()
    # connections to the probe address that send nothing do not block probes
    silent = [Wire(port) for _ in range(100)]
    for _ in range(5):
        assert ask_probe(port, "/livez").status == 200
        assert ask_probe(port, "/readyz").status == 200
    answer = ask_probe(port, "/metrics")
    says = ("--probe-listen", "/livez and /readyz alone", "an address of --listen")
    calls.expect_error(answer, 404, "not_found", says=says)
    # no connection was evicted for the probe
    assert all(wire.send(END).answer().body == SUMS for wire in busy)
    for wire in (watch, *busy, *silent):
        wire.close()
    server.stop()


def test_a_probe_needs_neither_tls_nor_a_token(start_server, tmp_path):
    port = free_port()
    tokens = tmp_path / "tokens"
    tokens.write_text(f"one:{'0' * 64}\n")
    server = start_server(
        *("--probe-listen", f"127.0.0.1:{port}", "--token-file", str(tokens)),
        tls=Tls(tmp_path / "tls"),
    )
    assert ask_probe(port, "/livez").status == 200
    assert ask_probe(port, "/readyz").status == 200
    assert ask_probe(port, "/").status == 404
    assert gets_in(server, LIVEZ).status == 200
    assert f"listening on 127.0.0.1:{port}, for probes alone" in server.log


# Connections that are evicted, and those that are not ---------------------------------------------


def test_a_request_that_has_begun_is_cut_for_a_client_with_fewer_connections(start_server):
    server = start_server("--http-loops", "2", "--min-upload-rate", "0", *FULL)
    watch = alone_with(server)
    begun = [server.wire(source="127.0.0.2").send(BEGIN) for _ in range(PLACES - 1)]
    # the count includes this query
    until(lambda: watch.metric("tally_active_requests") == PLACES)
    with server.wire(source="127.0.0.3") as first, server.wire(source="127.0.0.3") as second:
        assert first.send(ASK).answer().body == SUMS
        assert second.send(ASK).answer().body == SUMS
        until(lambda: watch.metric("tally_connections_evicted_total") == 2)
        cut = until(lambda: [wire for wire in begun if has_answer(wire)])
        assert len(cut) == 2
        says = ("--max-connections", "more than its equal share", "use fewer")
        for wire in cut:
            calls.expect_error(wire.answer(), 429, "too_many_requests", says=says)
            assert wire.closed()
        for wire in begun:
            if wire not in cut:
                assert wire.send(END).answer().body == SUMS
    for wire in (watch, *begun):
        wire.close()


def test_idle_connections_of_a_client_are_closed_before_its_requests_are_cut(start_server):
    server = start_server("--http-loops", "3", "--min-upload-rate", "0", *FULL)
    watch = alone_with(server)
    wires = [server.wire(source="127.0.0.2").send(ASK) for _ in range(PLACES - 1)]
    assert all(wire.answer().body == SUMS for wire in wires)
    busy, idle = wires[::2], wires[1::2]
    for wire in busy:
        wire.send(BEGIN)
    for wire in busy:
        wire.await_read()
    others = [server.wire(source="127.0.0.3").send(ASK) for _ in range(PLACES // 2 - 1)]
    assert all(wire.answer().body == SUMS for wire in others)
    assert all(wire.closed() for wire in idle)
    assert all(wire.send(END).answer().body == SUMS for wire in busy)
    for wire in (watch, *wires, *others):
        wire.close()


def test_a_client_alone_at_the_limit_waits_and_beyond_the_line_it_is_refused(start_server):
    server = start_server("--http-loops", "1", "--min-upload-rate", "0", *FULL)
    inside = [server.wire().send(BEGIN) for _ in range(PLACES)]
    for wire in inside:
        wire.await_read()
    waiting = [server.wire().send(ASK) for _ in range(LINE)]
    refused = server.wire()
    answer = refused.answer()
    says = ("--max-connections", "its equal share", "use one that is open")
    calls.expect_error(answer, 429, "too_many_requests", says=says)
    assert answer.headers["Retry-After"] == "1" and refused.closed()
    assert gets_in(server).body == SUMS  # another client gets a place before all of them
    for wire in inside:
        with contextlib.suppress(ConnectionError):
            wire.send(END)
    assert sum(wire.answer().body == SUMS for wire in inside) == PLACES - 1
    for wire in inside:
        wire.close()
    for wire in waiting:
        assert wire.answer().body == SUMS
        wire.close()
    # one refused connection and one evicted request
    assert server.metric(REFUSED % "max-connections") == 2


@pytest.mark.parametrize("tls", [False, True])
def test_further_connections_of_a_client_are_refused_beyond_its_limit(start_server, tmp_path, tls):
    server = start_server(
        "--per-client-connections", "3", tls=Tls(tmp_path / "tls") if tls else None
    )
    watch = alone_with(server)
    # refusals so far: connections that were opened before the server was ready may be among
    # them
    refused = watch.metric(REFUSED % "per-client-connections")
    kept = [server.wire(source="127.0.0.2") for _ in range(3)]
    assert all(wire.send(ASK).answer().body == SUMS for wire in kept)
    if tls:
        with pytest.raises(OSError):
            server.wire(source="127.0.0.2")
    else:
        with server.wire(source="127.0.0.2") as fourth:
            answer = fourth.answer()
            says = ("--per-client-connections", "use one that is open")
            calls.expect_error(answer, 429, "too_many_requests", says=says)
            assert fourth.closed()
    assert gets_in(server).body == SUMS  # another client may still connect
    assert all(wire.send(ASK).answer().body == SUMS for wire in kept)
    kept.pop().close()
    until(lambda: watch.metric("tally_connections") == 3)
    with server.wire(source="127.0.0.2") as fourth:
        assert fourth.send(ASK).answer().body == SUMS
    assert watch.metric(REFUSED % "per-client-connections") == refused + 1
    for wire in (watch, *kept):
        wire.close()


def test_the_limit_of_connections_does_not_apply_to_proxies_and_unix_sockets(
    start_server, tmp_path
):
    path = str(tmp_path / "s")
    server = start_server(
        *("--per-client-connections", "1", "--trusted-proxies", "127.0.0.2"),
        *("--listen", f"unix:{path}"),
    )
    watch = alone_with(server)
    refused = watch.metric(REFUSED % "per-client-connections")
    proxy = [server.wire(source="127.0.0.2").send(ASK) for _ in range(3)]
    local = [server.wire(path=path).send(ASK) for _ in range(3)]
    assert all(wire.answer().body == SUMS for wire in (*proxy, *local))
    assert watch.metric(REFUSED % "per-client-connections") == refused
    for wire in (watch, *proxy, *local):
        wire.close()


def test_a_request_that_waits_unread_is_cancelled_for_a_client_with_fewer_connections(start_server):
    server = start_server(
        *("--max-connections", "4", "--memory-budget", "16MiB", "--min-upload-rate", "0"),
        *("--http-loops", "2"),
    )
    watch = alone_with(server)
    large = upload(12 << 20)
    holder = server.wire(source="127.0.0.2").send(large + bytes(11 << 20))
    until(lambda: watch.metric("tally_memory_reserved_bytes") >= 11 << 20)
    waiting = []
    for count in (1, 2):
        waiting.append(server.wire(source="127.0.0.2").send(large + b"\0"))
        until(lambda count=count: watch.metric("tally_admission_waiting") == count)
    assert gets_in(server, LIVEZ, "127.0.0.4").status == 200
    assert waiting[1].closed()  # the request that arrived last
    until(lambda: watch.metric("tally_admission_waiting") == 1)
    assert holder.send(bytes(1 << 20)).answer().status == 200
    assert waiting[0].send(bytes((12 << 20) - 1)).answer().status == 200
    for wire in (watch, holder, *waiting):
        wire.close()
