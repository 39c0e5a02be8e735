"""Calls over blocking sockets.

    run(call, pool)
      Pool.take(), else Connection()
      Connection.send()      the request; Connection.answer(): the head of what comes back
      _read_body()           where the caller wants it

Requests are written to the socket from the caller's memory; answers are read by http.client's
HTTPResponse, whose readinto() stores a body where the caller wants it.

An absolute time bounds all that a connection does for a request (`give_up`, on the monotonic
clock): it is looked at before each system call that may block, so a peer that sends a byte now
and then cannot hold a call.

Failure: run() raises a TallyError. A connection raises OSError (TimeoutError, ConnectionError,
ssl.SSLError) and http.client.HTTPException as they come; after any of them it is closed.
Thread: a connection belongs to one call at a time; the pool to all threads.
"""

from __future__ import annotations

import collections
import contextlib
import http.client
import math
import os
import queue
import select
import socket
import ssl
import threading
import time
from typing import Any

from tally.address import Address
from tally.call import (
    ERROR_BYTES,
    HEAD_BYTES,
    HEAD_START,
    QUEUE_NAP,
    TEXT_BYTES,
    Call,
    Head,
    HeadCut,
    HeadReader,
    chunk_size,
    interim_bytes,
    not_http,
    too_long,
)
from tally.errors import TallyError

JOINED_BYTES = 1 << 14  # of the body that travel in one piece with the head
LONGEST = 1e6  # seconds; poll() counts milliseconds in 31 bits
PIECE_BYTES = 1 << 30  # of the body for one call of send(); TLS takes less than 2 GiB


def seconds_left(give_up: float) -> float | None:
    """Until `give_up`, for settimeout(). TimeoutError if that has passed."""
    if give_up == math.inf:
        return None
    left = give_up - time.monotonic()
    if left <= 0:
        raise TimeoutError("no time is left")
    return min(left, LONGEST)


class _Timed(socket.socket):
    """A socket whose receiving ends at `give_up`, however often it is called."""

    give_up = math.inf

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        self.settimeout(seconds_left(self.give_up))
        return super().recv_into(buffer, nbytes, flags)


class _TimedTls(ssl.SSLSocket):
    give_up = math.inf

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        self.settimeout(seconds_left(self.give_up))
        return super().recv_into(buffer, nbytes, flags)


def tls_context(
    ca_file: str | None, client_cert: str | None, client_key: str | None, insecure: bool
) -> ssl.SSLContext:
    """What connections over TLS have in common. OSError: a file is missing or not usable."""
    context = ssl.create_default_context(cafile=ca_file)
    context.sslsocket_class = _TimedTls
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if client_cert is not None:
        context.load_cert_chain(client_cert, client_key)
    return context


class Answer(http.client.HTTPResponse):
    """An answer whose head was read whole: what one that was cut says is not believed."""

    head: Head

    def begin(self) -> None:
        """Read the head. http.client's own begin() believes what was cut."""
        reader = HeadReader()
        head: Head | None = None
        while head is None:
            head = reader.take(self.fp.readline(reader.room + 1))
        # What HTTPResponse's reading of bodies goes by.
        self.head = head
        self.headers = self.msg = http.client.HTTPMessage()
        self.code = self.status = head.status
        self.version = 11
        self.chunked = head.chunked
        self.chunk_left = None
        self.length = head.length
        self.will_close = head.will_close

    def _read_next_chunk_size(self) -> int:
        """http.client's own believes that a chunk has -1 byte, and reads without end."""
        line = self.fp.readline(HEAD_BYTES + 1)
        if len(line) > HEAD_BYTES:
            raise too_long("a chunk size")
        if not line.endswith(b"\n"):
            raise http.client.IncompleteRead(b"")
        return chunk_size(line)

    def _read_and_discard_trailer(self) -> None:
        """http.client's own reads lines without end."""
        room = HEAD_BYTES
        line = b""
        while line not in (b"\r\n", b"\n"):
            line = self.fp.readline(room + 1)
            room -= len(line)
            if room < 0:
                raise too_long("its trailer")
            if not line:
                raise http.client.IncompleteRead(b"")


def _look_up(address: Address, give_up: float) -> list[Any]:
    """What getaddrinfo() says. A resolver that hangs cannot be told to end: it is asked on a thread
    of its own, which is left alone then."""
    asked = (address.host, address.port, 0, socket.SOCK_STREAM)
    with contextlib.suppress(socket.gaierror):
        return socket.getaddrinfo(*asked, flags=socket.AI_NUMERICHOST)  # nobody has to be asked
    said: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask() -> None:
        try:
            said.put(socket.getaddrinfo(*asked))
        except Exception as error:
            said.put(error)

    try:
        threading.Thread(target=ask, name="tally-resolver", daemon=True).start()
    except RuntimeError:  # an interpreter that ends starts no thread
        ask()
    try:
        found = said.get(timeout=seconds_left(give_up))
    except queue.Empty:
        raise TimeoutError("the resolver does not answer") from None
    if isinstance(found, Exception):
        raise found
    return list(found)


def _open_socket(address: Address, give_up: float) -> socket.socket:
    """A socket that is connected; to the first address of a host that answers."""
    while address.socket_path is not None:
        try:
            return _connect_to(address.socket_path, give_up, socket.AF_UNIX)
        except BlockingIOError:  # its queue is full, which is not waited for
            time.sleep(QUEUE_NAP)
    *others, last = _look_up(address, give_up)
    for family, _, _, _, place in others:
        try:
            return _connect_to(place, min(give_up, time.monotonic() + HEAD_START), family)
        except OSError:
            pass
    return _connect_to(last[4], give_up, last[0])


def _connect_to(place: Any, give_up: float, family: int) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.settimeout(seconds_left(give_up))
        opened.connect(place)
        if family != socket.AF_UNIX:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        opened.close()
        raise
    return opened


class Connection:
    """An open connection. ConnectionError, TimeoutError or ssl.SSLError: there is none."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None, give_up: float) -> None:
        self.kept = False  # it has been in the pool, so the server may have closed it
        opened = _open_socket(address, give_up)
        if tls is not None:
            opened.settimeout(seconds_left(give_up))
            try:
                self.socket: Any = tls.wrap_socket(opened, server_hostname=address.name)
            except OSError:
                opened.close()
                raise
        else:
            self.socket = _Timed(fileno=opened.detach())
        # Of an encrypted connection nobody can tell whether an answer has begun.
        self.ready = select.poll()
        self.ready.register(self.socket, select.POLLIN | (0 if tls else select.POLLOUT))
        self.encrypted = tls is not None

    def send(self, head: bytes, body: memoryview, give_up: float) -> bool:
        """Send a request; False if the server answered, or left, before it had all of it."""
        self.socket.give_up = give_up
        self.socket.settimeout(seconds_left(give_up))
        first = memoryview(head + body[:JOINED_BYTES])
        try:
            while first:
                first = first[self.socket.send(first) :]
            at = JOINED_BYTES
            room = HEAD_BYTES  # for interim answers
            while at < len(body):
                left = seconds_left(give_up)
                if not self.encrypted:
                    found = self.ready.poll(None if left is None else math.ceil(left * 1000))
                    if not found:
                        continue
                    if found[0][1] & ~select.POLLOUT:
                        dropped = self._drop_interim()
                        if dropped is None or dropped > room:
                            return False
                        room -= dropped
                        if dropped == 0:
                            time.sleep(QUEUE_NAP)  # its rest is to come
                        continue
                self.socket.settimeout(left)
                at += self.socket.send(body[at : at + PIECE_BYTES])
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            return False
        return True

    def _drop_interim(self) -> int | None:
        """Drop interim answers, and say how many bytes they had; None: the end, or an answer."""
        came = self.socket.recv(HEAD_BYTES, socket.MSG_PEEK)
        end = interim_bytes(came) if came else None
        if end:
            self.socket.recv(end)
        return end

    def answer(self, method: str) -> Answer:
        """The head of the answer to what was sent."""
        answer = Answer(self.socket, method=method)
        try:
            answer.begin()
        except BaseException:
            answer.close()
            raise
        return answer

    def is_idle(self) -> bool:
        """Whether nothing has come since the last answer: neither bytes nor the end."""
        return not any(found & ~select.POLLOUT for _, found in self.ready.poll(0))

    def close(self) -> None:
        self.socket.close()


class Pool:
    """Idle connections, the last used first. A deque's pop and append need no lock, so that a
    process may fork at any time; its child drops what it inherits."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.idle: collections.deque[Connection] = collections.deque()
        self.process = os.getpid()

    def take(self) -> Connection | None:
        """One that can be used, or None."""
        if self.process != os.getpid():
            self.idle.clear()
            self.process = os.getpid()
        while True:
            try:
                connection = self.idle.pop()
            except IndexError:
                return None
            if connection.is_idle():
                return connection
            connection.close()

    def give(self, connection: Connection) -> None:
        """Keep one for the next call."""
        if len(self.idle) < self.limit:
            connection.kept = True
            self.idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        while True:
            try:
                self.idle.pop().close()
            except IndexError:
                return


def run(call: Call, pool: Pool) -> bytes:
    """The text of the answer; where its body went to ``into``, the carry before it."""
    while True:
        head: Head | None = None
        try:
            connection = pool.take() or _connect(call)
            try:
                answer, whole = _exchange(call, connection)
            except _Stale:
                pool.close()  # the others are as old
                _renew(call, answered=False)  # it may have come, and its answer not
                connection = _connect(call)
                answer, whole = _exchange(call, connection)
            head = answer.head
            text = _finish(call, connection, answer, whole, pool)
            if head.status == 200:
                return text
            raise call.refusal(head, text)
        except TallyError as error:
            time.sleep(call.settle(error, head))
        _renew(call, answered=head is not None)


def cut_off(call: Call) -> None:
    """End a call of another thread: what it waits for does not come, and it does not try again."""
    call.give_up = 0.0
    with call.holding:
        if call.connection is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(call.connection.socket, socket.SHUT_RDWR)  # not TLS's own


def _renew(call: Call, answered: bool) -> None:
    if call.request.before_retry is not None:
        call.request.body = call.request.before_retry(answered)


class _Stale(Exception):
    """A kept connection was closed by the server meanwhile, as it may: no failed attempt."""


def _connect(call: Call) -> Connection:
    give_up = min(call.give_up, time.monotonic() + call.caller.connect_timeout)
    try:
        return Connection(call.caller.address, call.caller.tls, give_up)
    except OSError as error:
        raise call.no_connection(error) from error


def _exchange(call: Call, connection: Connection) -> tuple[Answer, bool]:
    """The answer, its head read; and whether the request had been sent whole before."""
    call.connection = connection
    try:
        whole = connection.send(call.head(), call.request.body, call.give_up)
        return connection.answer(call.request.method), whole
    except OSError as error:
        connection.close()
        lost = isinstance(error, (ConnectionError, ssl.SSLEOFError))
        if connection.kept and lost and not isinstance(error, HeadCut):
            raise _Stale from None
        raise call.broken(error) from error
    except BaseException:
        connection.close()
        raise


def _finish(call: Call, connection: Connection, answer: Answer, whole: bool, pool: Pool) -> bytes:
    """Read the body; keep the connection if it may be."""
    keep = False
    try:
        if answer.status == 200:
            call.judge(answer.head, whole)
            text = _read_body(call, answer)
        else:
            text = _read_error(answer)
        keep = whole and answer.isclosed() and not answer.will_close
        return text
    except (http.client.IncompleteRead, OSError) as error:
        if isinstance(error, TallyError):
            raise
        raise call.broken(error) from error
    except (http.client.HTTPException, ValueError) as error:
        raise not_http(str(error)) from error
    finally:
        answer.close()
        with call.holding:
            call.connection = None
        if keep:
            pool.give(connection)
        else:
            connection.close()


def _read_body(call: Call, answer: Answer) -> bytes:
    into = call.request.into
    if into is None:
        text = answer.read(TEXT_BYTES + 1)
        call.received = len(text)
        if len(text) > TEXT_BYTES:
            raise call.too_long()
        if answer.head.length not in (None, len(text)):
            raise call.ended_early(answer.head)
        return text
    carry = answer.read(call.carry_bytes) if call.carry_bytes else b""
    if len(carry) < call.carry_bytes:
        raise call.ended_early(answer.head)
    while call.received < len(into):
        # The first byte alone, because a readinto() that fails does not say what it stored.
        end = len(into) if call.received else 1
        count = answer.readinto(into[call.received : end])
        if count == 0:
            raise call.ended_early(answer.head)
        call.store(count)
    if not answer.isclosed() and answer.read(1):
        raise call.too_long()
    return carry


def _read_error(answer: Answer) -> bytes:
    """What there is of it: the status has said the most."""
    try:
        return answer.read(ERROR_BYTES)
    except (OSError, ValueError, http.client.HTTPException, TallyError):
        return b""
