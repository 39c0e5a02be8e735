"""Calls over blocking sockets.

    run(call, pool)
      Pool.take(), else Connection()
      Connection.send()      the request
      Connection.answer()    the head of the answer
      _read_body()           the body, stored in the caller's memory

Requests are written to the socket from the caller's memory. HTTPResponse of http.client reads
answers; its readinto() stores a body in the caller's memory.

The time `give_up`, in seconds of the monotonic clock, bounds each request: the code checks it
before each system call that may block, so a peer that sends single bytes cannot prolong a call.

Failure: run() raises a TallyError. A connection raises OSError (TimeoutError, ConnectionError,
ssl.SSLError) and http.client.HTTPException, and is closed afterwards.
Thread: a connection belongs to one call at a time; all threads share the pool.
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

JOINED_BYTES = 1 << 14  # bytes of the body that are sent together with the head
LONGEST = 1e6  # seconds; poll() counts milliseconds in 31 bits
PIECE_BYTES = 1 << 30  # maximum bytes for one call of send(); TLS accepts less than 2 GiB


def seconds_left(give_up: float) -> float | None:
    """Return the seconds until `give_up`, for settimeout(). Raises TimeoutError after it."""
    if give_up == math.inf:
        return None
    left = give_up - time.monotonic()
    if left <= 0:
        raise TimeoutError("no time is left")
    return min(left, LONGEST)


class _Timed(socket.socket):
    """A socket that receives until `give_up`, over any number of calls."""

    give_up = math.inf

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        self.settimeout(seconds_left(self.give_up))
        return super().recv_into(buffer, nbytes, flags)


class _TimedTls(ssl.SSLSocket):
    """A TLS socket that receives until `give_up`, over any number of calls."""

    give_up = math.inf

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        self.settimeout(seconds_left(self.give_up))
        return super().recv_into(buffer, nbytes, flags)


def tls_context(
    ca_file: str | None, client_cert: str | None, client_key: str | None, insecure: bool
) -> ssl.SSLContext:
    """Return the context of TLS connections. Raises OSError if a file is missing or not usable."""
    context = ssl.create_default_context(cafile=ca_file)
    context.sslsocket_class = _TimedTls
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if client_cert is not None:
        context.load_cert_chain(client_cert, client_key)
    return context


class Answer(http.client.HTTPResponse):
    """An answer with a complete head. A head that was cut is an error."""

    head: Head

    def begin(self) -> None:
        """Read the head. begin() of http.client accepts a head that was cut."""
        reader = HeadReader()
        head: Head | None = None
        while head is None:
            head = reader.take(self.fp.readline(reader.room + 1))
        # HTTPResponse reads the body according to these attributes.
        self.head = head
        self.headers = self.msg = http.client.HTTPMessage()
        self.code = self.status = head.status
        self.version = 11
        self.chunked = head.chunked
        self.chunk_left = None
        self.length = head.length
        self.will_close = head.will_close

    def _read_next_chunk_size(self) -> int:
        """Read the line before a chunk. http.client accepts a size of -1, and reads lines without a
        limit."""
        line = self.fp.readline(HEAD_BYTES + 1)
        if len(line) > HEAD_BYTES:
            raise too_long("a chunk size")
        if not line.endswith(b"\n"):
            raise http.client.IncompleteRead(b"")
        return chunk_size(line)

    def _read_and_discard_trailer(self) -> None:
        """Read the trailer. http.client reads lines without a limit."""
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
    """Return the result of getaddrinfo(). A resolver that hangs cannot be stopped, so it runs in a
    thread of its own, which the call leaves behind at `give_up`."""
    asked = (address.host, address.port, 0, socket.SOCK_STREAM)
    with contextlib.suppress(socket.gaierror):
        return socket.getaddrinfo(*asked, flags=socket.AI_NUMERICHOST)  # without a resolver
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask() -> None:
        try:
            results.put(socket.getaddrinfo(*asked))
        except Exception as error:
            results.put(error)

    try:
        threading.Thread(target=ask, name="tally-resolver", daemon=True).start()
    except RuntimeError:  # an interpreter that shuts down starts no thread
        ask()
    try:
        found = results.get(timeout=seconds_left(give_up))
    except queue.Empty:
        raise TimeoutError("the resolver does not answer") from None
    if isinstance(found, Exception):
        raise found
    return list(found)


def _open_socket(address: Address, give_up: float) -> socket.socket:
    """Return a socket that is connected to the first address of the host that answers."""
    while address.socket_path is not None:
        try:
            return _connect_to(address.socket_path, give_up, socket.AF_UNIX)
        except BlockingIOError:  # the listen queue is full, and connect() does not wait
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
    """An open connection. Raises ConnectionError, TimeoutError or ssl.SSLError if it fails."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None, give_up: float) -> None:
        self.kept = False  # the connection was idle, so the server may have closed it
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
        # A TLS socket may be readable although no answer has begun: send() does not poll it.
        self.ready = select.poll()
        self.ready.register(self.socket, select.POLLIN | (0 if tls else select.POLLOUT))
        self.encrypted = tls is not None

    def send(self, head: bytes, body: memoryview, give_up: float) -> bool:
        """Send a request. Returns False if the server answered or closed the connection before the
        request was sent completely."""
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
                            time.sleep(QUEUE_NAP)  # the interim answer is incomplete
                        continue
                self.socket.settimeout(left)
                at += self.socket.send(body[at : at + PIECE_BYTES])
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            return False
        return True

    def _drop_interim(self) -> int | None:
        """Drop interim answers and return their bytes. Returns None if the connection ended or the
        final answer began."""
        came = self.socket.recv(HEAD_BYTES, socket.MSG_PEEK)
        end = interim_bytes(came) if came else None
        if end:
            self.socket.recv(end)
        return end

    def answer(self, method: str) -> Answer:
        """Return the answer to the last request, its head read."""
        answer = Answer(self.socket, method=method)
        try:
            answer.begin()
        except BaseException:
            answer.close()
            raise
        return answer

    def is_idle(self) -> bool:
        """Return whether nothing arrived since the last answer, neither bytes nor the end."""
        return not any(found & ~select.POLLOUT for _, found in self.ready.poll(0))

    def close(self) -> None:
        self.socket.close()


class Pool:
    """Idle connections; the most recently used one is first. pop() and append() of a deque need no
    lock, so a process may fork at any time. A child drops the connections of its parent."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.idle: collections.deque[Connection] = collections.deque()
        self.process = os.getpid()

    def take(self) -> Connection | None:
        """Return an idle connection, or None."""
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
        """Keep a connection for the next call."""
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
    """Execute a call. Returns the text of the answer; with ``into`` the carry in front of it."""
    while True:
        head: Head | None = None
        try:
            connection = pool.take() or _connect(call)
            try:
                answer, whole = _exchange(call, connection)
            except _Stale:
                pool.close()  # other idle connections are stale, too
                _renew(call, answered=False)  # the server may have received the request
                connection = _connect(call)
                answer, whole = _exchange(call, connection)
            head = answer.head
            text = _finish(call, connection, answer, whole, pool)
            if head.status == 200:
                return text
            raise call.refusal(head, text)
        except TallyError as error:
            time.sleep(call.retry_delay(error, head))
        _renew(call, answered=head is not None)


def cut_off(call: Call) -> None:
    """End a call of another thread: its connection is shut down, and no attempt follows."""
    call.give_up = 0.0
    with call.connection_lock:
        if call.connection is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(call.connection.socket, socket.SHUT_RDWR)  # below TLS


def _renew(call: Call, answered: bool) -> None:
    if call.request.before_retry is not None:
        call.request.body = call.request.before_retry(answered)


class _Stale(Exception):
    """The server closed an idle connection, as HTTP allows; no attempt failed."""


def _connect(call: Call) -> Connection:
    give_up = min(call.give_up, time.monotonic() + call.caller.connect_timeout)
    try:
        return Connection(call.caller.address, call.caller.tls, give_up)
    except OSError as error:
        raise call.no_connection(error) from error


def _exchange(call: Call, connection: Connection) -> tuple[Answer, bool]:
    """Send a request. Returns the answer, its head read, and whether the request was sent
    completely."""
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
    """Read the body, and keep the connection if it is reusable."""
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
        with call.connection_lock:
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
        # The first byte is read alone, because a readinto() that fails does not report its bytes.
        end = len(into) if call.received else 1
        count = answer.readinto(into[call.received : end])
        if count == 0:
            raise call.ended_early(answer.head)
        call.store(count)
    if not answer.isclosed() and answer.read(1):
        raise call.too_long()
    return carry


def _read_error(answer: Answer) -> bytes:
    """Return the body of an error. The function ignores failures, because the status already
    identifies the error."""
    try:
        return answer.read(ERROR_BYTES)
    except (OSError, ValueError, http.client.HTTPException, TallyError):
        return b""
