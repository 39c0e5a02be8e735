"""The rules of a call, without its bytes' way: what is sent, what an answer must be, when to try
again. They are libtally's.

    call = Call(caller, request)
    repeat: send call.head() and the body; read a Head
            200: call.judge(head), then exactly the expected bytes
            else: the error is call.refusal(head, text)
            an error: sleep call.settle(error) seconds, which raises what is final

tally.transport goes these steps with blocking sockets, tally.aio with asyncio.

The output is written only by a 200 answer whose type, shape and length are the request's, and the
call succeeds only if exactly the expected bytes came. A sum has no side effects, so sending it
twice is harmless to the server. What must not happen is to send an input that the answer has
begun to overwrite: Request.once.

Failure: a TallyError. Thread: any, one at a time for a call.
"""

from __future__ import annotations

import datetime
import email.utils
import json
import math
import os
import random
import re
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

TEXT_BYTES = 1 << 20  # a longer text is no answer to a question about the server
ERROR_BYTES = 1 << 16  # of the text of an error
HEAD_BYTES = 1 << 16  # of an answer's head, interim ones included
LONGEST_MS = 10**12  # that the service is told: 30 years
RETRY_AFTER_MAX = 30.0  # seconds; who is asked to wait longer gives up at once
BACKOFF_BASE, BACKOFF_MAX = 0.05, 5.0  # seconds
QUEUE_NAP = 0.01  # seconds between attempts at a Unix socket whose queue is full
HEAD_START = 1.0  # seconds for each address of a host but the last, which has all that are left

SWITCHED = 101  # to a protocol that nobody asked for: no further answer follows
_BODILESS = (SWITCHED, 204, 304)  # statuses of answers without a body, whatever they announce
_STRANGERS = (18, 19, 20, 21)  # what OpenSSL says of certificates whose authority is not known
# ... and of what is no TLS: another answer, or none but the end of the connection.
_NO_TLS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING")
_STATUS_LINE = re.compile(rb"HTTP/1\.(\d) ([1-9]\d\d)(?: [^\r\n]*)?\r?\n")
_INTERIM = re.compile(rb"(?:HTTP/1\.1 1(?!01)\d\d[^\n]*\n(?:[^\r\n][^\n]*\n)*\r?\n)+")
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")
# What a server says that refuses a request before it scans anything.
_BEFORE_THE_SCAN = {"queue_full", "too_many_requests", "unsupported"}
# The header fields that decide something.
_JUDGED = {
    *("content-type", "content-length", "content-encoding", "transfer-encoding"),
    *("tally-dtype", "tally-shape", "tally-carry-length"),
}


@dataclass
class Head:
    """The head of an answer."""

    status: int
    fields: dict[str, str]  # by lower-case names
    ambiguous: set[str]  # names that came twice, with different values
    length: int | None  # of the body as it was announced, None: to the end, or in chunks
    chunked: bool
    will_close: bool


def parse_head(lines: Iterable[bytes]) -> Head:
    """A head from its lines, the empty one at its end left out. email's parser would cost more
    than all else of a small call. BadAnswer: that is not HTTP."""
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
    """The connection ended in an answer's head."""


class NoAnswer(ConnectionError):
    """The connection ended before an answer."""


class HeadReader:
    """The head of an answer from its lines as they come, past all interim ones."""

    def __init__(self) -> None:
        self.room = HEAD_BYTES
        self.lines: list[bytes] = []

    def take(self, line: bytes) -> Head | None:
        """The head, if this line is its last. A line lacks its end where the connection ended."""
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
    """How many bytes of whole interim answers stand in front, such as 100 Continue, which a proxy
    may send unasked; None: an answer begins, there or behind them."""
    match = _INTERIM.match(came)
    end = 0 if match is None else match.end()
    rest = came[end : end + len("HTTP/1.1 101")]
    return end if b"HTTP/1.1 1".startswith(rest[:10]) and rest != b"HTTP/1.1 101" else None


def chunk_size(line: bytes) -> int:
    """What the line before a chunk says."""
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
    """What is sent, and where the answer goes."""

    method: str
    path: str  # with its query
    content_type: str = ""
    body: memoryview = field(default_factory=lambda: memoryview(b""))
    front: bytes = b""  # sent in front of the body: the carry of the parts before, or offsets
    front_header: str = ""  # which says how many bytes these are
    # The most bytes of a carry that the answer has in front of its body; the call returns it.
    carry_limit: int = 0
    # The bytes of a 200 answer's body, all of them; None: a text, which the call returns.
    into: memoryview | None = None
    # Raises BadAnswer where the head of a 200 answer is not that of this request's.
    check: Callable[[dict[str, str]], None] | None = None
    once: bool = False  # no retry after the first byte of the answer: the input is overwritten
    # The server writes the sums to memory of the caller's own, which every attempt may have begun
    # that was not refused before the scan. With `once`.
    writes_there: bool = False
    single: bool = False  # one attempt
    deadline: float = math.inf  # on the monotonic clock; told to the server, too
    # Gives the body before the request is sent again; told whether the server answered the last.
    before_retry: Callable[[bool], memoryview] | None = None


class Budget:
    """How many retries a client has: one for ten calls and one a second, at most ten at a time.

    A server that is overloaded is not made to work twice for those whom it could serve."""

    RESERVE = 10.0
    PER_CALL = 0.1
    PER_SECOND = 1.0

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal's handler may call while its thread has it
        self.process = os.getpid()
        self.retries = self.RESERVE
        self.counted = time.monotonic()

    def _own_lock(self) -> threading.RLock:
        """Of this process: a fork may have copied it while a thread of the parent had it."""
        if self.process != os.getpid():
            self.lock = threading.RLock()
            self.process = os.getpid()
        return self.lock

    def count_call(self) -> None:
        with self._own_lock():
            self.retries = min(self.RESERVE, self.retries + self.PER_CALL)

    def spend(self) -> bool:
        """Whether one more retry may be made; it counts as made."""
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
    """What all calls of a client share: where the server is, options, the budget."""

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
    """A request on its way."""

    def __init__(self, caller: Caller, request: Request) -> None:
        self.caller = caller
        self.request = request
        self.timeout_at = math.inf
        if caller.timeout is not None:
            self.timeout_at = time.monotonic() + caller.timeout
        self.give_up = min(self.timeout_at, request.deadline)
        self.attempts = 0
        self.touched = False  # bytes of an answer were written, in any attempt
        self.retry_after = 0.0  # seconds, as the last answer asked
        self.begun = False  # the head of a 200 answer has come, in this attempt
        self.received = 0  # bytes of its body
        self.carry_bytes = 0  # in front of them
        self.connection: Any = None  # that it has: another thread may cut it off
        self.holding = threading.Lock()  # guards `connection` while it is given back
        caller.budget.count_call()

    def head(self) -> bytes:
        """The head of the request and the front of its body; an attempt begins."""
        request = self.request
        self.retry_after = 0.0
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
        """BadAnswer unless this is the head of the 200 answer to a request that was sent whole."""
        self.begun = True
        doubtful = head.ambiguous & _JUDGED
        if doubtful:
            raise BadAnswer(
                f"the answer has twice, with different values: {', '.join(sorted(doubtful))}"
            )
        encoding = head.fields.get("content-encoding", "identity")
        if encoding != "identity":
            raise BadAnswer(
                f"the answer is compressed ({clean(encoding)[:40]}), which was not asked for"
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
        """So many bytes of the body have been stored."""
        self.received += count
        self.touched = True

    def ended_early(self, head: Head) -> TallyError:
        """The body is over before all of it came."""
        expected = head.length if self.request.into is None else len(self.request.into)
        sentence = f"the answer ended after {self.received} of {expected} bytes"
        return BadAnswer(sentence) if head.length is None else ConnectionLost(sentence)

    def too_long(self) -> TallyError:
        into = self.request.into
        if into is None:
            return BadAnswer("the answer is longer than 1 MiB; is this the URL of a Tally server?")
        return BadAnswer(f"the answer is longer than the expected {len(into)} bytes")

    def refusal(self, head: Head, text: bytes) -> TallyError:
        """What an answer that is not 200 means."""
        told: Any = None
        try:
            told = json.loads(text)
        except (ValueError, RecursionError):
            pass
        if not isinstance(told, dict):
            told = {}
        code, blamed, sentence = (
            clean(told.get(name))[:size]
            for name, size in (("code", 64), ("field", 160), ("error", 768))
        )
        if not sentence:
            location = clean(head.fields.get("location"))[:200]
            sentence = (
                f"the server answered HTTP {head.status}{' to ' if location else ''}{location}"
                f" without saying why{_hint(head.status)}"
            )
        error = _class_of(head.status, code)(sentence, code=code or None, field=blamed or None)
        if isinstance(error, Busy):
            self.retry_after = _retry_after(head.fields.get("retry-after", ""))
        return error

    # ---- no answer ----

    def no_connection(self, error: OSError) -> TallyError:
        url = self.caller.address.url
        if isinstance(error, TimeoutError):
            if time.monotonic() >= self.give_up:
                return self.too_late("no connection was made")
            return ConnectFailed(f"no connection to {url} within {self.caller.connect_timeout:g} s")
        hint = ""
        if isinstance(error, (ConnectionRefusedError, FileNotFoundError)):
            hint = (
                ". Is tallyd running there? Give its address as the URL or in TALLY_URL, like "
                "http://127.0.0.1:8000"
            )
        elif isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _STRANGERS:
            hint = ". Say whose certificates to trust: ca_file"
        elif getattr(error, "reason", None) in _NO_TLS or (
            self.caller.tls is not None and isinstance(error, ConnectionResetError)
        ):  # asyncio's word for an end in the handshake
            hint = ". If the server speaks no TLS, its URL begins with http://"
        return ConnectFailed(f"cannot reach {url}: {_words(error)}{hint}")

    def broken(self, error: BaseException) -> TallyError:
        """A connection failed. TLS that fails is none, also where a peer says so late."""
        if isinstance(error, TimeoutError):
            return self.too_late(f"{self.received} bytes of the answer had come")
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            return ConnectFailed(f"TLS failed: {_words(error)}")
        when = "in the middle of the answer" if self.begun else "before the answer"
        hint = ""
        closed = not self.begun and getattr(error, "errno", None) is None  # the system has one
        if closed and self.caller.tls is None and self.caller.address.socket_path is None:
            hint = ". If the server speaks TLS, its URL begins with https://"
        return ConnectionLost(f"the connection broke {when}: {_words(error)}{hint}")

    def too_late(self, so_far: str) -> TallyError:
        if self.request.deadline <= self.timeout_at:
            return DeadlineExceeded(f"not done when the deadline passed ({so_far})")
        return CallTimeout(
            f"not done after {self.caller.timeout:g} s ({so_far}): raise timeout, or send less"
        )

    # ---- another attempt ----

    def settle(self, error: TallyError, head: Head | None) -> float:
        """After a failed attempt: the seconds until the next. Raises the error where there is
        none, and says there what the caller should know."""
        self.attempts += 1
        after = self.retry_after
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
        told = str(error)
        if after > 0:
            told += f"; the server asks to wait {after:.0f} s"
        if self.attempts > 1:
            told += f" (after {self.attempts} attempts)"
        if overwritten:
            told += (
                "; the sums may have begun to overwrite the input: "
                "to repeat the call, fill it again"
            )
        error.args = (told,)
        error.attempts = self.attempts
        error.output_touched = self.touched
        if head is not None:
            error.status = head.status
            error.request_id = clean(head.fields.get("x-request-id"))[:160] or None
        raise error


def _retry_after(text: str) -> float:
    """Seconds that the server asks to wait; it may name the time instead."""
    if text.isascii() and text.isdigit():
        return float(text[:10])
    try:
        date = email.utils.parsedate_to_datetime(text)
        if date.tzinfo is None:  # asctime()'s form has no zone, and means Greenwich
            date = date.replace(tzinfo=datetime.timezone.utc)
        return max(0.0, date.timestamp() - time.time())
    except (ValueError, OverflowError, TypeError):
        return 0.0


def clean(text: object) -> str:
    """A text from the network without its control characters."""
    if not isinstance(text, str):
        return ""
    return "".join(c if c.isprintable() else "?" for c in text)


def _words(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _class_of(status: int, code: str) -> type[TallyError]:
    """v2 answers 503 also where other routes say 501 or 504, which no retry mends."""
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
    """For who reads an answer that does not explain itself."""
    if status == 401:
        return "; a token is needed: Client(token=...)"
    if status == 403:
        return "; the server does not allow this to you"
    if status == 404:
        return "; is this the URL of a Tally server?"
    if status == 413:
        return "; the tensor is larger than the server accepts"
    if status in (429, 503):
        return "; try again later"
    if status in (502, 504):
        return "; a proxy in between says so: is tallyd running behind it?"
    if status < 400:
        return "; expected 200. Give the server's own URL, redirects are not followed"
    return ""
