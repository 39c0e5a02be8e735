"""The rules of a call: the request, the checks of its answer, and the retries. libtally has the
same rules. This module does no input or output.

    call = Call(caller, request)
    repeat: send call.head() and the body; read a Head
            200: call.judge(head), then exactly the expected bytes
            other statuses: the error is call.refusal(head, text)
            an error: sleep for call.retry_delay(error) seconds; retry_delay() raises an error
            that is final

tally.transport executes these steps with blocking sockets, tally.aio with asyncio.

Only a 200 answer with the type, shape and length of the request writes the output, and a call
succeeds only if exactly the expected bytes arrived. A sum has no side effects, so the server may
compute it twice. An input that the answer has begun to overwrite must not be sent again:
Request.once.

Failure: a TallyError. Thread: any; a call belongs to one thread at a time.
"""

from __future__ import annotations

import datetime
import email.utils
import json
import math
import os
import random
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tally.address import Address
from tally.errors import (
    BadAnswer,
    Busy,
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    DeadlineExceeded,
    Rejected,
    ServerError,
    TallyError,
)

TEXT_BYTES = 1 << 20  # maximum bytes of a text about the server
ERROR_BYTES = 1 << 16  # maximum bytes that are read of the text of an error
HEAD_BYTES = 1 << 16  # maximum bytes of an answer's head, interim answers included
LONGEST_MS = 10**12  # longest deadline sent to the service: 30 years
RETRY_AFTER_MAX = 30.0  # seconds; a call does not wait for a longer Retry-After
BACKOFF_BASE, BACKOFF_MAX = 0.05, 5.0  # seconds
QUEUE_NAP = 0.01  # seconds between attempts at a Unix socket whose queue is full
HEAD_START = 1.0  # seconds for each address of a host; the last address has the remaining time

SWITCHED = 101  # another protocol, which was not requested; no further answer follows
_BODILESS = (SWITCHED, 204, 304)  # answers of these statuses have no body, despite their headers
_STRANGERS = (18, 19, 20, 21)  # OpenSSL's codes for certificates of unknown authorities
# OpenSSL's reasons if the server does not speak TLS: another answer, or the end of the connection.
_NO_TLS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING")
_STATUS_LINE = re.compile(rb"HTTP/1\.(\d) ([1-9]\d\d)(?: [^\r\n]*)?\r?\n")
_INTERIM = re.compile(rb"(?:HTTP/1\.1 1(?!01)\d\d[^\n]*\n(?:[^\r\n][^\n]*\n)*\r?\n)+")
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")
# Codes of answers that the server sends before it writes any sum.
_BEFORE_THE_SCAN = {"queue_full", "too_many_requests", "unsupported"}
# Header fields that the client relies on.
_JUDGED = {
    *("content-type", "content-length", "content-encoding", "transfer-encoding"),
    *("tally-dtype", "tally-shape", "tally-carry-length"),
}


@dataclass
class Head:
    """The head of an answer."""

    status: int
    fields: dict[str, str]  # by lower-case names
    ambiguous: set[str]  # names of fields that occur twice with different values
    length: int | None  # announced bytes of the body; None: up to the end, or in chunks
    chunked: bool
    will_close: bool  # the connection cannot be used again


def parse_head(lines: Iterable[bytes]) -> Head:
    """Return the head that consists of these lines; the final empty line is not among them. Raises
    BadAnswer if the lines are not HTTP. The parser of the module email would take more time than
    the rest of a small call."""
    lines = iter(lines)
    first = next(lines, b"")
    match = _STATUS_LINE.fullmatch(first)
    if match is None:
        raise not_http(f"it begins with {clean(first[:40].decode('latin-1'))!r}")
    fields: dict[str, str] = {}
    ambiguous: set[str] = set()
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not name or name[0] in " \t" or name[-1] in " \t":
            raise not_http(f"it has the header {clean(name)[:40]!r}")
        name, value = name.lower(), value.strip()
        if fields.setdefault(name, value) != value:
            ambiguous.add(name)
    status = int(match[2])
    coding = fields.get("transfer-encoding", "identity").lower()
    if coding not in ("chunked", "identity"):
        raise not_http(f"its Transfer-Encoding is {clean(coding)[:40]!r}")
    chunked = coding == "chunked" and status not in _BODILESS
    length = None if chunked else fields.get("content-length")
    if status in _BODILESS:
        length = "0"
    if length is not None and not (length.isascii() and length.isdigit() and len(length) < 20):
        raise not_http(f"its Content-Length is {clean(length)[:40]!r}")
    connection = fields.get("connection", "").lower()
    return Head(
        status,
        fields,
        ambiguous,
        None if length is None else int(length),
        chunked,
        "close" in connection
        or status == SWITCHED
        or (match[1] == b"0" and "keep-alive" not in connection)
        or (length is None and not chunked),
    )


class HeadCut(ConnectionError):
    """The connection ended within the head of an answer."""


class NoAnswer(ConnectionError):
    """The connection ended before an answer."""


class HeadReader:
    """Reads the head of an answer line by line, and skips interim answers."""

    def __init__(self) -> None:
        self.room = HEAD_BYTES
        self.lines: list[bytes] = []

    def take(self, line: bytes) -> Head | None:
        """Return the head if this line is its last one. A line without a newline means that the
        connection ended."""
        self.room -= len(line)
        if self.room < 0:
            raise too_long("its head")
        if line in (b"\r\n", b"\n") and self.lines:
            head = parse_head(self.lines)
            self.lines = []
            return head if head.status >= 200 or head.status == SWITCHED else None
        if not line.endswith(b"\n"):
            if self.lines or line:
                raise HeadCut("it was closed in the answer's head")
            raise NoAnswer("it was closed without an answer")
        self.lines.append(line)
        return None


def interim_bytes(came: bytes | bytearray) -> int | None:
    """Return the bytes of complete interim answers at the start, such as 100 Continue, which a
    proxy may send unasked. Returns None if the final answer begins there or after them."""
    match = _INTERIM.match(came)
    end = 0 if match is None else match.end()
    rest = came[end : end + len("HTTP/1.1 101")]
    return end if b"HTTP/1.1 1".startswith(rest[:10]) and rest != b"HTTP/1.1 101" else None


def chunk_size(line: bytes) -> int:
    """Return the size of a chunk, from the line before it."""
    size = line.partition(b";")[0].strip()
    if not _CHUNK_SIZE.fullmatch(size):
        raise not_http("a chunk has no size")
    return int(size, 16)


def not_http(why: str) -> BadAnswer:
    return BadAnswer(f"no usable answer: {why} (is this the URL of a Tally server?)")


def too_long(what: str) -> BadAnswer:
    return not_http(f"{what} is longer than {HEAD_BYTES} bytes")


@dataclass
class Request:
    """A request, and the target of its answer."""

    method: str
    path: str  # including the query
    content_type: str = ""
    body: memoryview = field(default_factory=lambda: memoryview(b""))
    front: bytes = b""  # sent in front of the body: the carry of earlier parts, or offsets
    front_header: str = ""  # name of the header with the length of `front`
    # Maximum bytes of the carry in front of the answer's body; the call returns the carry.
    carry_limit: int = 0
    # Memory for the complete body of a 200 answer; None: the call returns the body, a text.
    into: memoryview | None = None
    # Raises BadAnswer unless the fields of a 200 answer belong to this request.
    check: Callable[[dict[str, str]], None] | None = None
    once: bool = False  # no retry after the first byte of the answer, which overwrites the input
    # The server itself writes the sums to the caller's memory. A failed attempt may have begun to
    # write unless its error is one of _BEFORE_THE_SCAN. Set together with `once`.
    writes_there: bool = False
    single: bool = False  # one attempt
    deadline: float = math.inf  # seconds of the monotonic clock; sent to the server, too
    # Returns the body for another attempt. The argument: whether the server answered the last one.
    before_retry: Callable[[bool], memoryview] | None = None


class Budget:
    """The budget of retries. A client may make one retry for every ten calls and one per second,
    and can save up at most ten.

    The limit keeps clients from multiplying the load of an overloaded server."""

    RESERVE = 10.0
    PER_CALL = 0.1
    PER_SECOND = 1.0

    def __init__(self) -> None:
        # A signal handler may begin a call while its own thread holds the lock.
        self.lock = threading.RLock()
        self.process = os.getpid()
        self.retries = self.RESERVE
        self.counted = time.monotonic()

    def _own_lock(self) -> threading.RLock:
        """Return the lock of this process. A fork may copy a lock that a thread of the parent
        holds."""
        if self.process != os.getpid():
            self.lock = threading.RLock()
            self.process = os.getpid()
        return self.lock

    def count_call(self) -> None:
        with self._own_lock():
            self.retries = min(self.RESERVE, self.retries + self.PER_CALL)

    def spend(self) -> bool:
        """Spend one retry. Returns False if none is left."""
        with self._own_lock():
            now = time.monotonic()
            earned = (now - self.counted) * self.PER_SECOND
            self.retries = min(self.RESERVE, self.retries + earned)
            self.counted = now
            if self.retries < 1:
                return False
            self.retries -= 1
            return True


class Caller:
    """The address, the options and the retry budget that all calls of a client share."""

    def __init__(
        self,
        address: Address,
        tls: ssl.SSLContext | None,
        token: str | None,
        timeout: float | None,
        connect_timeout: float,
        retries: int,
        user_agent: str,
    ) -> None:
        self.address = address
        self.tls = tls
        self.timeout = timeout
        self.connect_timeout = connect_timeout
        self.retries = retries
        self.budget = Budget()
        self.head = f" HTTP/1.1\r\nHost: {address.host_header}\r\nUser-Agent: {user_agent}\r\n"
        if token is not None:
            self.head += f"Authorization: Bearer {token}\r\n"


class Call:
    """The state of one call, over all attempts."""

    def __init__(self, caller: Caller, request: Request) -> None:
        self.caller = caller
        self.request = request
        self.timeout_at = math.inf
        if caller.timeout is not None:
            self.timeout_at = time.monotonic() + caller.timeout
        self.give_up = min(self.timeout_at, request.deadline)
        self.attempts = 0
        self.touched = False  # an attempt wrote bytes of an answer to the output
        self.begun = False  # this attempt received the head of a 200 answer
        self.received = 0  # bytes received of its body
        self.carry_bytes = 0  # bytes of the carry in front of the body
        self.connection: Any = None  # connection in use, which another thread may shut down
        self.connection_lock = threading.Lock()  # guards `connection`
        caller.budget.count_call()

    def head(self) -> bytes:
        """Begin an attempt. Returns the head of the request and the front of its body."""
        request = self.request
        self.begun = False
        self.received = 0
        head = f"{request.method} {self.caller.address.prefix}{request.path}{self.caller.head}"
        if request.content_type:
            length = len(request.front) + len(request.body)
            head += f"Content-Type: {request.content_type}\r\nContent-Length: {length}\r\n"
        if request.deadline != math.inf:
            left = math.ceil((request.deadline - time.monotonic()) * 1000)
            head += f"X-Request-Timeout-Ms: {min(max(left, 1), LONGEST_MS)}\r\n"
        if request.front:
            head += f"{request.front_header}: {len(request.front)}\r\n"
        return f"{head}\r\n".encode("ascii") + request.front

    # ---- the answer ----

    def judge(self, head: Head, whole: bool) -> None:
        """Raise BadAnswer unless the head of a 200 answer belongs to this request.

        whole: the request had been sent completely before the answer."""
        self.begun = True
        doubtful = head.ambiguous & _JUDGED
        if doubtful:
            raise BadAnswer(
                f"the answer has header fields twice with different values: "
                f"{', '.join(sorted(doubtful))}"
            )
        encoding = head.fields.get("content-encoding", "identity")
        if encoding != "identity":
            raise BadAnswer(
                f"the answer is compressed ({clean(encoding)[:40]}), which was not requested"
            )
        if not whole:
            raise BadAnswer("the answer began before the request was sent")
        if self.request.check is not None:
            self.request.check(head.fields)
        into = self.request.into
        if into is None:
            return
        carried = head.fields.get("tally-carry-length", "0")
        if not (carried.isascii() and carried.isdigit() and len(carried) < 20):
            raise BadAnswer(f"the answer's Tally-Carry-Length is {clean(carried)[:40]!r}")
        self.carry_bytes = int(carried)
        if self.carry_bytes > self.request.carry_limit or (
            (self.carry_bytes == 0) != (self.request.carry_limit == 0)
        ):
            raise BadAnswer(
                f"the answer has a carry of {self.carry_bytes} bytes, expected "
                f"{'at most ' if self.request.carry_limit else ''}{self.request.carry_limit}"
            )
        expected = self.carry_bytes + len(into)
        if head.length is not None and head.length != expected:
            raise BadAnswer(f"the answer has {head.length} bytes, expected {expected}")

    def store(self, count: int) -> None:
        """Count bytes of the body that were stored."""
        self.received += count
        self.touched = True

    def ended_early(self, head: Head) -> TallyError:
        """Return the error of a body that ended too early."""
        expected = head.length if self.request.into is None else len(self.request.into)
        sentence = f"the answer ended after {self.received} of {expected} bytes"
        return BadAnswer(sentence) if head.length is None else ConnectionLost(sentence)

    def too_long(self) -> TallyError:
        into = self.request.into
        if into is None:
            return BadAnswer("the answer is longer than 1 MiB; is this the URL of a Tally server?")
        return BadAnswer(f"the answer is longer than the expected {len(into)} bytes")

    def refusal(self, head: Head, text: bytes) -> TallyError:
        """Return the error of an answer that is not 200."""
        document: Any = None
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            pass
        if not isinstance(document, dict):
            document = {}
        code, blamed, sentence = (
            clean(document.get(name))[:size]
            for name, size in (("code", 64), ("field", 160), ("error", 768))
        )
        if not sentence:
            location = clean(head.fields.get("location"))[:200]
            sentence = (
                f"the server answered HTTP {head.status}{' to ' if location else ''}{location}"
                f" without a reason{_hint(head.status)}"
            )
            if head.status == 404 and self.caller.address.port_hint:
                sentence += f" Its default port is 8000: {self.caller.address.port_hint}"
        error = _class_of(head.status, code)(sentence, code=code or None, field=blamed or None)
        if isinstance(error, Busy):
            error.retry_after = _retry_after(head.fields.get("retry-after", ""))
        return error

    # ---- no answer ----

    def no_connection(self, error: OSError) -> TallyError:
        """Return the error of a connection that could not be made."""
        address = self.caller.address
        hint = ""
        if address.port_hint:
            hint = (
                f". The URL has no port, so port {address.port} was used; "
                f"the default port of tallyd is 8000: {address.port_hint}"
            )
        if isinstance(error, TimeoutError):
            if time.monotonic() >= self.give_up:
                return self.too_late("no connection was made")
            return ConnectFailed(
                f"no connection to {address.url} within {self.caller.connect_timeout:g} s{hint}"
            )
        if isinstance(error, socket.gaierror):
            hint = f". Is {address.host!r} in the URL the name of a host?"
        elif isinstance(error, (ConnectionRefusedError, FileNotFoundError)):
            hint = hint or (
                ". Is tallyd running there? Give its address as the URL or in TALLY_URL, like "
                "http://127.0.0.1:8000"
            )
        elif isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _STRANGERS:
            hint = ". Name the file of the authorities to trust: ca_file"
        elif getattr(error, "reason", None) in _NO_TLS or (
            self.caller.tls is not None and isinstance(error, ConnectionResetError)
        ):  # asyncio's error for the end of a connection within the handshake
            hint = ". If the server speaks no TLS, its URL begins with http://"
        return ConnectFailed(f"cannot reach {address.url}: {_words(error)}{hint}")

    def broken(self, error: BaseException) -> TallyError:
        """Return the error of a connection that failed. A failure of TLS is a ConnectFailed, even
        if the peer reports it after the handshake."""
        if isinstance(error, TimeoutError):
            return self.too_late(f"{self.received} bytes of the answer had arrived")
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            return ConnectFailed(f"TLS failed: {_words(error)}")
        when = "in the middle of the answer" if self.begun else "before the answer"
        hint = ""
        closed = not self.begun and getattr(error, "errno", None) is None  # the peer closed it
        if closed and self.caller.tls is None and self.caller.address.socket_path is None:
            hint = ". If the server speaks TLS, its URL begins with https://"
        return ConnectionLost(f"the connection broke {when}: {_words(error)}{hint}")

    def too_late(self, so_far: str) -> TallyError:
        """Return the error of a call whose time is over."""
        if self.request.deadline <= self.timeout_at:
            return DeadlineExceeded(f"not done when the deadline passed ({so_far})")
        return CallTimeout(
            f"not done after {self.caller.timeout:g} s ({so_far}): raise timeout, or send less"
        )

    # ---- another attempt ----

    def retry_delay(self, error: TallyError, head: Head | None) -> float:
        """Return the seconds until the next attempt after a failed one. Raises the error if no
        attempt follows."""
        self.attempts += 1
        after = 0.0
        if isinstance(error, Busy) and error.retry_after is not None:
            after = error.retry_after
        if self.request.writes_there and not isinstance(error, (ConnectFailed, Rejected)):
            self.touched = self.touched or error.code not in _BEFORE_THE_SCAN
        overwritten = self.touched and self.request.once
        if isinstance(error, (Busy, ConnectionLost)) and not overwritten:
            limit = min(BACKOFF_MAX, BACKOFF_BASE * 2 ** min(self.attempts - 1, 20))
            pause = after + random.uniform(0, limit)
            if (
                not self.request.single
                and self.attempts <= self.caller.retries
                and after <= RETRY_AFTER_MAX
                and time.monotonic() + pause < self.give_up
                and self.caller.budget.spend()
            ):
                return pause
        sentence = str(error)
        if after > 0:
            sentence += f"; the server asks to wait {after:.0f} s"
        if self.attempts > 1:
            sentence += f" (after {self.attempts} attempts)"
        if overwritten:
            sentence += (
                "; the sums may have begun to overwrite the input: "
                "to repeat the call, fill it again"
            )
        error.args = (sentence,)
        error.attempts = self.attempts
        error.output_touched = self.touched
        if head is not None:
            error.status = head.status
            error.request_id = clean(head.fields.get("x-request-id"))[:160] or None
        raise error


def _retry_after(text: str) -> float | None:
    """Return the seconds in a Retry-After header, which may have a date instead; None if it has
    neither."""
    if text.isascii() and text.isdigit():
        return float(text[:10])
    try:
        date = email.utils.parsedate_to_datetime(text)
        if date.tzinfo is None:  # the form of asctime() has no zone and means UTC
            date = date.replace(tzinfo=datetime.timezone.utc)
        return max(0.0, date.timestamp() - time.time())
    except (ValueError, OverflowError, TypeError):
        return None


def clean(text: object) -> str:
    """Return a text from the network with its control characters replaced."""
    if not isinstance(text, str):
        return ""
    return "".join(c if c.isprintable() else "?" for c in text)


def _words(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _class_of(status: int, code: str) -> type[TallyError]:
    """Return the class of an error. v2 also answers 503 for errors that other routes answer with
    501 or 504, where a retry cannot help."""
    if status == 504 or (status == 503 and code == "deadline_passed"):
        return DeadlineExceeded
    if status == 429 or (status == 503 and code != "unsupported"):
        return Busy
    if 500 <= status <= 599:
        return ServerError
    if 400 <= status <= 499:
        return Rejected
    return BadAnswer


def _hint(status: int) -> str:
    """Return advice for an answer without a text of its own."""
    if status == 401:
        return "; a token is needed: Client(token=...)"
    if status == 403:
        return "; the server does not permit this request"
    if status == 404:
        return "; is this the URL of a Tally server?"
    if status == 413:
        return "; the tensor is larger than the server accepts"
    if status in (429, 503):
        return "; try again later"
    if status in (502, 504):
        return "; a proxy sent this answer: is tallyd running behind it?"
    if status < 400:
        return "; expected 200. Give the server's own URL: redirects are not followed"
    return ""
