"""The clients retry failed requests, wait before each retry, and stop at a limit. The cases are
those of tests/client/test_retry.c; the retry budget is tested, too."""

import contextlib
import email.utils
import pickle
import re
import socket
import threading
import time

import numpy as np
import pytest
import tally
from lying_server import INPUT, SUMS, LyingServer, error, tensor

# RFC 9110, 5.6.7: the current format and two obsolete ones.
HTTP_DATES = ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr("tally.call.BACKOFF_BASE", 0.001)
    monkeypatch.setattr("tally.call.BACKOFF_MAX", 0.002)


def array():
    return np.array(INPUT, np.float32)


def storm(status, failures, more="", code="queue_full"):
    body = f'{{"error":"the queue is full","code":"{code}"}}'
    return lambda seen: error(status, more, body) if seen.number < failures else tensor()


@pytest.mark.parametrize("status", [429, 503])
def test_a_storm_is_weathered(connect, status):
    for in_place in (False, True):
        with LyingServer(storm(status, 4)) as server:
            x = array()
            out = x if in_place else None
            assert connect(server.url).cumsum(x, 0, out=out).tolist() == SUMS
            assert server.requests == 5


def test_retries_end(connect):
    for retries in (4, 0):
        with LyingServer(storm(503, 1000)) as server:
            with pytest.raises(tally.Busy, match="the queue is full") as caught:
                connect(server.url, retries=retries).cumsum(array(), 0)
            assert server.requests == caught.value.attempts == retries + 1
            assert (caught.value.code, caught.value.status) == ("queue_full", 503)
            assert ("5 attempts" in str(caught.value)) == (retries == 4)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        *((status, "", tally.Rejected) for status in (400, 401, 403, 404, 413)),
        *((status, "", tally.BadAnswer) for status in (299, 301, 999)),
        (500, "", tally.ServerError),
        (501, "unsupported", tally.ServerError),
        (503, "unsupported", tally.ServerError),
        (503, "deadline_passed", tally.DeadlineExceeded),
        (504, "", tally.DeadlineExceeded),
    ],
)
def test_other_answers_are_not_repeated(connect, status, code, kind):
    with LyingServer(storm(status, 1000, code=code)) as server:
        with pytest.raises(kind) as caught:
            connect(server.url).cumsum(array(), 0)
        assert server.requests == 1 and caught.value.status == status


@pytest.mark.parametrize(
    ("status", "advice"), [(401, "a token is needed"), (502, "a proxy .* is tallyd running")]
)
def test_an_error_without_words_is_explained(connect, status, advice):
    with LyingServer(lambda seen: error(status, body="<h1>no</h1>")) as server:
        with pytest.raises(tally.TallyError, match=advice):
            connect(server.url).cumsum(array(), 0)


def test_retry_after_is_waited_for(connect):
    with LyingServer(storm(503, 1, "Retry-After: 1\r\n")) as server:
        began = time.monotonic()
        assert connect(server.url).cumsum(array(), 0).tolist() == SUMS
        assert 1 <= time.monotonic() - began < 10


@pytest.mark.parametrize(
    "after", ["31", "999999999999", "Fri, 31 Dec 2999 23:59:59 GMT", "9" * 400]
)
def test_a_retry_after_beyond_all_time_is_not_waited_for(connect, after):
    with LyingServer(storm(503, 1, f"Retry-After: {after}\r\n")) as server:
        with pytest.raises(tally.Busy, match="asks to wait"):
            connect(server.url).cumsum(array(), 0)
        assert server.requests == 1


@pytest.mark.parametrize(
    ("status", "header", "seconds"),
    [(429, "Retry-After: 7\r\n", 7.0), (503, "Retry-After: 0\r\n", 0.0), (503, "", None)]
    + [(429, "Retry-After: soon\r\n", None)],
)
def test_a_busy_server_says_how_long_to_wait(connect, status, header, seconds):
    with LyingServer(storm(status, 1, header)) as server:
        with pytest.raises(tally.Busy) as caught:
            connect(server.url, retries=0).cumsum(array(), 0)
    assert caught.value.retry_after == seconds
    assert pickle.loads(pickle.dumps(caught.value)).retry_after == seconds
    assert tally.Busy("busy").retry_after is None


def test_a_retry_after_that_has_passed_or_is_none_costs_no_wait(connect):
    for after in (email.utils.formatdate(0, usegmt=True), "soon", "-3"):
        with LyingServer(storm(503, 1, f"Retry-After: {after}\r\n")) as server:
            assert connect(server.url).cumsum(array(), 0).tolist() == SUMS


@pytest.mark.parametrize("form", HTTP_DATES)
def test_each_form_of_a_date_is_of_greenwich(connect, monkeypatch, form):
    after = time.strftime(form, time.gmtime(time.time() + 600))
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    try:
        with LyingServer(storm(503, 1, f"Retry-After: {after}\r\n")) as server:
            with pytest.raises(tally.Busy, match="asks to wait (5[0-9][0-9]|600) s"):
                connect(server.url).cumsum(array(), 0)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_retry_after_longer_than_the_call_may_last_ends_it(connect):
    with LyingServer(storm(503, 2, "Retry-After: 3\r\n")) as server:
        with pytest.raises(tally.Busy):
            connect(server.url, timeout=0.5).cumsum(array(), 0)
        with pytest.raises(tally.Busy):
            connect(server.url).cumsum(array(), 0, deadline=0.5)
        assert server.requests == 2


def test_connections_lost_before_the_answer_are_made_again(connect):
    def script(seen):
        return tensor(cut=0, reset=seen.number % 2 == 0) if seen.number < 3 else tensor()

    with LyingServer(script) as server:
        x = array()
        assert connect(server.url).cumsum(x, 0, out=x).tolist() == SUMS
        assert server.requests == 4


@contextlib.contextmanager
def silence():
    """An address where connect() never ends: the listener's queue is full, and nobody accepts."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as listener,
        contextlib.ExitStack() as kept,
    ):
        place = listener.getsockname()
        for _ in range(4):
            waiting = kept.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(place)
        yield place


def addresses(*places):
    """Addresses in the form that getaddrinfo() returns."""
    kind = socket.SOCK_STREAM
    return lambda *_, **__: [(socket.AF_INET, kind, 6, "", place) for place in places]


def test_an_address_that_is_silent_is_passed_over(connect, monkeypatch):
    """For a host with several addresses, the address after the silent ones gets most of the
    time."""
    monkeypatch.setattr("tally.transport.HEAD_START", 0.05)
    monkeypatch.setattr("tally.aio.HEAD_START", 0.05)
    with silence() as dead, LyingServer(lambda seen: tensor()) as server:
        living = server.listener.getsockname()
        monkeypatch.setattr("socket.getaddrinfo", addresses(dead, dead, living))
        client = connect("http://many.example", connect_timeout=20)
        began = time.monotonic()
        assert client.cumsum(array(), 0).tolist() == SUMS
        assert time.monotonic() - began < 15


def test_connecting_to_several_addresses_takes_no_longer_than_to_one(connect, monkeypatch):
    with silence() as dead:
        monkeypatch.setattr("socket.getaddrinfo", addresses(*[dead] * 30))
        for options, kind in (
            ({"connect_timeout": 0.3}, tally.ConnectFailed),
            ({"timeout": 0.3}, tally.CallTimeout),
        ):
            began = time.monotonic()
            with pytest.raises(kind):
                connect("http://many.example", **options).cumsum(array(), 0)
            assert time.monotonic() - began < 8


def test_a_unix_socket_whose_queue_is_full_is_waited_for(connect, tmp_path):
    path = str(tmp_path / "t.sock")
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as kept:
        listener.bind(path)
        listener.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                waiting = kept.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(path)
        with pytest.raises(tally.ConnectFailed, match="no connection to unix:.* within 0.1 s"):
            connect(f"unix:{path}", connect_timeout=0.1).cumsum(array(), 0)


def test_a_resolver_that_hangs_holds_no_call_beyond_its_time(connect, monkeypatch):
    answers = threading.Event()

    def hang(*_, flags=0, **__):
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "it is none")
        answers.wait(60)
        return []

    monkeypatch.setattr("socket.getaddrinfo", hang)
    try:
        for options, deadline, kind in (
            ({}, 0.1, tally.DeadlineExceeded),
            ({"timeout": 0.1}, None, tally.CallTimeout),
            ({"connect_timeout": 0.1}, None, tally.ConnectFailed),
        ):
            began = time.monotonic()
            with pytest.raises(kind):
                connect("http://slow.example", **options).cumsum(array(), 0, deadline=deadline)
            assert time.monotonic() - began < 30
    finally:
        answers.set()


def test_a_name_that_is_not_known_is_told(connect, monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    with pytest.raises(tally.ConnectFailed, match="no.example: Name or service not known"):
        connect("http://no.example").cumsum(array(), 0)


@pytest.mark.parametrize(
    ("url", "port", "right"),
    [
        ("localhost", 80, "http://localhost:8000"),
        ("http://localhost/prefix/", 80, "http://localhost:8000/prefix"),
        ("https://localhost", 443, "https://localhost:8000"),
        ("http://[::1]", 80, "http://[::1]:8000"),
    ],
)
def test_a_url_without_a_port_that_fails_is_told_with_the_default_port(
    connect, monkeypatch, url, port, right
):
    asked = []

    def refuse(place, *_):
        asked.append(place[1])
        raise ConnectionRefusedError(111, "Connection refused")

    async def refuse_later(place, *_):
        refuse(place)

    monkeypatch.setattr("tally.transport._connect_to", refuse)
    monkeypatch.setattr("tally.aio._connect_to", refuse_later)
    words = f"The URL has no port, so port {port} was used; the default port of tallyd is 8000: "
    with pytest.raises(tally.ConnectFailed, match=re.escape(words + right) + "$"):
        connect(url).cumsum(array(), 0)
    assert set(asked) == {port}
    with pytest.raises(tally.ConnectFailed, match="Is tallyd running there") as caught:
        connect("http://localhost:80").cumsum(array(), 0)
    assert "no port" not in str(caught.value)


def test_another_server_at_a_url_without_a_port_is_told_with_the_default_port(connect, monkeypatch):
    with LyingServer(lambda seen: error(404, body="<h1>no</h1>")) as server:
        monkeypatch.setattr("socket.getaddrinfo", addresses(server.listener.getsockname()))
        with pytest.raises(tally.Rejected, match="is this the URL.*http://web.example:8000"):
            connect("web.example").cumsum(array(), 0)


def test_an_address_that_refuses_is_passed_over(connect, monkeypatch):
    with LyingServer(lambda seen: tensor()) as server, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setattr(
            "socket.getaddrinfo", addresses(free.getsockname(), server.listener.getsockname())
        )
        assert connect("http://many.example").cumsum(array(), 0).tolist() == SUMS
        monkeypatch.setattr("socket.getaddrinfo", addresses(*[free.getsockname()] * 2))
        with pytest.raises(tally.ConnectFailed, match="cannot reach http://many.example"):
            connect("http://many.example").cumsum(array(), 0)


def test_a_kept_connection_that_was_closed_costs_no_retry(connect):
    with LyingServer(lambda seen: tensor(close=True)) as server:
        client = connect(server.url, retries=0)
        for _ in range(20):
            assert client.cumsum(array(), 0).tolist() == SUMS


def test_retries_are_a_tenth_of_the_calls_and_a_reserve(connect, monkeypatch):
    """When every request is refused, the server sees only a few more requests than there are
    calls."""
    monkeypatch.setattr("tally.call.Budget.PER_SECOND", 0)
    calls = 200
    with LyingServer(storm(503, 1 << 30)) as server:
        client = connect(server.url)
        for _ in range(calls):
            with pytest.raises(tally.Busy):
                client.cumsum(array(), 0)
        assert calls < server.requests <= calls * 1.1 + 10


def test_the_budget_is_shared_by_threads_and_comes_back_with_time(monkeypatch):
    with LyingServer(storm(503, 1 << 30)) as server, tally.Client(server.url) as client:
        monkeypatch.setattr("tally.call.Budget.PER_SECOND", 0)

        def call():
            for _ in range(25):
                with pytest.raises(tally.Busy):
                    client.cumsum(array(), 0)

        threads = [threading.Thread(target=call) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.requests <= 200 * 1.1 + 10
        monkeypatch.setattr("tally.call.Budget.PER_SECOND", 1e9)
        server.script = storm(503, server.requests + 1)
        assert client.cumsum(array(), 0).tolist() == SUMS
