"""The client for asyncio, on asyncio's transports. Threads would take three times as much processor
time for small calls, and StreamReader twice as much for large ones.

    _run()      same contract as run() of tally.transport
      _Wire     a connection, which buffers received bytes or stores them directly in the output

Failure: same as tally.transport. A cancelled call closes its connection and stores nothing after
that. Thread: the event loop's. Several loops may use a client one after the other.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import inspect
import math
import os
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from tally.attributes import NaN
from tally.call import (
    ERROR_BYTES,
    HEAD_BYTES,
    HEAD_START,
    QUEUE_NAP,
    TEXT_BYTES,
    Call,
    Head,
    HeadReader,
    chunk_size,
    interim_bytes,
    NoAnswer,
    Request,
    not_http,
    too_long,
)
from tally.carry import Carry
from tally.client import (
    DEVICES,
    VERSION,
    CarriedSum,
    Client,
    Device,
    Health,
    Options,
    Parts,
    json_check,
    read_devices,
    read_version,
)
from tally.dtypes import Array
from tally.errors import Busy, ServerError, TallyError
from tally.frames import as_block, labelled, prepare_call
from tally.layout import Scan
from tally.parts import PARALLEL, Meter, apart, blocks, chains
from tally.prepare import prepare_totals, raw_request
from tally.signatures import (
    AnyArray,
    Axis,
    Frame,
    FrameAxis,
    Kept,
    Labelled,
    Output,
    Scalar,
    Shape,
    Signed,
    SumOptions,
    Unsigned,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

PIECE_BYTES = 1 << 18  # bytes written or read before other tasks of the loop run
WAITING_BYTES = 1 << 18  # maximum of unread bytes; reading then pauses


class _Lost(ConnectionError):
    """The connection has ended."""


class _Wire(asyncio.BufferedProtocol):
    """One connection of a loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.transport: Any = None
        self.kept = False  # the connection was idle, so the server may have closed it
        self.waiting = bytearray()  # received bytes that no call has read yet
        self.interim_room = 0  # bytes of interim answers still accepted
        self.scratch = memoryview(bytearray(1 << 14))
        self.into: memoryview | None = None  # target of received bytes; None: `waiting`
        self.stored = 0  # bytes stored in `into`
        self.ended: BaseException | None = None  # cause of the end of the connection
        self.writable = True
        self.paused = False  # reading is paused
        self.waiter: asyncio.Future[None] | None = None  # resolved by the next event
        self.alarm: asyncio.TimerHandle | None = None

    # ---- callbacks of asyncio ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        # Writing pauses while any byte is unsent, so `writable` means that the request is sent
        # completely. The TLS transport pauses at the limit, the other transports above the limit.
        encrypted = transport.get_extra_info("ssl_object") is not None
        self.transport.set_write_buffer_limits(high=1 if encrypted else 0)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self.into is not None:
            return self.into[self.stored : self.stored + PIECE_BYTES]
        return self.scratch

    def buffer_updated(self, nbytes: int) -> None:
        if self.into is not None:
            self.stored += nbytes
            if self.stored < len(self.into):
                return
            self.into = None
        else:
            self.waiting += self.scratch[:nbytes]
            if len(self.waiting) > WAITING_BYTES:
                self.paused = True
                self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self.connection_lost(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self.ended is None:
            self.ended = exc or _Lost("it was closed")
            if isinstance(exc, ConnectionError):
                self._read_remaining()
        self.into = None
        self._wake()

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self._wake()

    # ---- interface for calls ----

    def is_idle(self) -> bool:
        return self.ended is None and not self.waiting

    def close(self) -> None:
        self.into = None
        self.transport.abort()

    def watch(self, give_up: float) -> None:
        """Close the connection at `give_up`, in seconds of the monotonic clock; inf: never."""
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None
        if give_up != math.inf:
            self.alarm = self.loop.call_later(give_up - time.monotonic(), self._expire)

    def _expire(self) -> None:
        if self.ended is None:
            self.ended = TimeoutError("no time is left")
        self.close()
        self._wake()

    async def send(self, head: bytes, body: memoryview) -> bool:
        """Send a request. Returns False if the server answered or closed the connection before the
        request was sent completely."""
        self.interim_room = HEAD_BYTES
        self.transport.write(head + body[:PIECE_BYTES])
        for at in range(PIECE_BYTES, len(body), PIECE_BYTES):
            while not self.writable and not self._is_answered():
                await self._change()
            if self._is_answered():
                return False
            self.transport.write(body[at : at + PIECE_BYTES])
            await asyncio.sleep(0)  # let the loop deliver an early answer
        while not self.writable and not self._is_answered():
            await self._change()
        return self.writable

    def _is_answered(self) -> bool:
        """Return whether a final answer began or the connection ended. Drops interim answers."""
        end = interim_bytes(self.waiting)
        if end is None or end > self.interim_room:
            return True
        self.interim_room -= end
        self._take(end)
        return self.ended is not None

    async def line(self) -> bytes:
        """Return the next line. The newline is missing if the connection ended or the line is too
        long."""
        start = 0
        while True:
            end = self.waiting.find(b"\n", start) + 1
            if end == 0 and (self.ended is not None or len(self.waiting) > HEAD_BYTES):
                end = len(self.waiting)
            elif end == 0:
                start = len(self.waiting)
                await self._change()
                continue
            return self._take(end)

    async def read(self, count: int) -> bytes:
        """Return the next `count` bytes; fewer if the connection ended."""
        text = bytearray()
        while len(text) < count:
            if not self.waiting:
                if self.ended is not None:
                    break
                await self._change()
            text += self._take(count - len(text))
        return bytes(text)

    async def fill(self, into: memoryview) -> int:
        """Fill `into` with the next bytes and return their number; less if the connection ended."""
        early = self._take(len(into))
        into[: len(early)] = early
        if len(early) == len(into) or self.ended is not None:
            return len(early)
        rest = into[len(early) :]
        self.stored = 0
        self.into = rest
        try:
            while self.into is not None:
                await self._change()
        finally:
            self.into = None
        return len(early) + self.stored

    def _read_remaining(self) -> None:
        """Read the bytes that the socket still holds. The server may have refused a request before
        a write failed, and asyncio closes the socket without reading the refusal."""
        if self.transport.get_extra_info("ssl_object") is None:
            file = self.transport.get_extra_info("socket").fileno()
            try:
                while len(self.waiting) < WAITING_BYTES and (came := os.read(file, 1 << 14)):
                    self.waiting += came
            except OSError:
                pass  # the socket has no more bytes

    def _take(self, count: int) -> bytes:
        taken = bytes(self.waiting[:count])
        del self.waiting[:count]
        if self.paused and len(self.waiting) <= WAITING_BYTES:
            self.paused = False
            self.transport.resume_reading()
        return taken

    async def _change(self) -> None:
        """Wait until bytes were received, or the connection ended or became writable."""
        self.waiter = self.loop.create_future()
        try:
            await self.waiter
        finally:
            self.waiter = None

    def _wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


Method = TypeVar("Method")


def signed_like(method: Callable[..., Any]) -> Callable[[Method], Method]:
    """Return a decorator that gives a coroutine the signature of a method of the blocking client,
    for help() and editors."""

    def mark(own: Any) -> Any:
        own.__signature__ = inspect.signature(method)
        return own

    return mark


class AsyncParts(CarriedSum):
    """The sum in parts of an :class:`AsyncClient`."""

    @overload
    async def cumsum(
        self, x: Frame, *, dtype: npt.DTypeLike | None = None, deadline: float | None = None
    ) -> Frame: ...
    @overload
    async def cumsum(
        self,
        x: AnyArray,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Output,
        deadline: float | None = None,
    ) -> Output: ...
    @overload
    async def cumsum(
        self, x: npt.NDArray[Signed], *, deadline: float | None = None
    ) -> npt.NDArray[np.int64]: ...
    @overload
    async def cumsum(
        self, x: npt.NDArray[Unsigned], *, deadline: float | None = None
    ) -> npt.NDArray[np.uint64]: ...
    @overload
    async def cumsum(
        self, x: npt.NDArray[Kept], *, deadline: float | None = None
    ) -> npt.NDArray[Kept]: ...
    @overload
    async def cumsum(
        self,
        x: AnyArray,
        *,
        dtype: type[Scalar] | np.dtype[Scalar],
        deadline: float | None = None,
    ) -> npt.NDArray[Scalar]: ...
    @overload
    async def cumsum(
        self,
        x: AnyArray,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Array | None = None,
        deadline: float | None = None,
    ) -> Array: ...
    @signed_like(Parts.cumsum)
    async def cumsum(self, x: Any, **options: Any) -> Any:
        """Return the sums of the next part; same contract as :meth:`Parts.cumsum`."""
        with self._alone():
            scan, request = self._next(x, **options)
            self.carry = await self._run(request)
            return labelled(x, scan.finish())


class AsyncClient(Options[AsyncParts]):
    """Client of a Tally server for asyncio. The tasks of a loop may share a client."""

    _parts = AsyncParts
    _wires: collections.deque[_Wire]

    def _open(self, idle_connections: int) -> None:
        super()._open(idle_connections)
        self._wires = collections.deque()
        self._wires_kept = idle_connections

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close idle connections and release shared memory."""
        self._drop_wires()
        if self._regions is not None:
            await asyncio.to_thread(self._regions.close)
        self._pool.close()

    @overload
    async def cumsum(
        self,
        x: Frame,
        axis: FrameAxis = None,
        *,
        dtype: npt.DTypeLike | None = None,
        **options: Unpack[SumOptions],
    ) -> Frame: ...
    @overload
    async def cumsum(
        self,
        x: AnyArray,
        axis: Axis = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Output,
        **options: Unpack[SumOptions],
    ) -> Output: ...
    @overload
    async def cumsum(
        self, x: npt.NDArray[Signed], axis: Axis = None, **options: Unpack[SumOptions]
    ) -> npt.NDArray[np.int64]: ...
    @overload
    async def cumsum(
        self, x: npt.NDArray[Unsigned], axis: Axis = None, **options: Unpack[SumOptions]
    ) -> npt.NDArray[np.uint64]: ...
    @overload
    async def cumsum(
        self, x: npt.NDArray[Kept], axis: Axis = None, **options: Unpack[SumOptions]
    ) -> npt.NDArray[Kept]: ...
    @overload
    async def cumsum(
        self,
        x: AnyArray,
        axis: Axis = None,
        *,
        dtype: type[Scalar] | np.dtype[Scalar],
        **options: Unpack[SumOptions],
    ) -> npt.NDArray[Scalar]: ...
    @overload
    async def cumsum(
        self,
        x: AnyArray,
        axis: Axis = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Array | None = None,
        **options: Unpack[SumOptions],
    ) -> Array: ...
    @signed_like(Client.cumsum)
    async def cumsum(
        self,
        x: Any,
        axis: Any = None,
        *,
        dtype: Any = None,
        nan: Any = None,
        initial: Any = None,
        include_initial: Any = False,
        offsets: Any = None,
        groups: Any = None,
        out: Any = None,
        progress: Any = None,
        **options: Any,
    ) -> Any:
        """Return the cumulative sum of ``x`` along ``axis``; see :meth:`Client.cumsum`.

        The call owns ``x`` and ``out`` until the call ends. A cancelled call closes its connection
        and does not access ``x`` and ``out`` afterwards; with ``shm`` the call first waits for the
        server.
        """
        options.update(dtype=dtype, nan=nan, initial=initial, include_initial=include_initial)
        scans, result = prepare_call(x, axis, out, offsets, groups, **options)
        with Meter(progress, sum(scan.operand.array.nbytes for scan in scans)) as meter:
            for scan in scans:
                await self._sum(scan, meter)
                scan.finish()
        return result()

    async def _sum(self, scan: Scan, meter: Meter) -> None:
        array = scan.operand.array
        if self._regions is not None and array.size > 0:
            # A task would be cancelled at the end of the loop while its thread still runs.
            loop = asyncio.get_running_loop()
            work = loop.run_in_executor(None, self._regions.cumsum, scan)
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                while not work.done():  # also if the call is cancelled again
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.wait([work])
                work.exception()  # mark as retrieved
                raise
            meter.add(array.nbytes)
        elif scan.wide_bytes <= self._part_bytes:
            await self._run(raw_request(scan))
            meter.add(array.nbytes)
        else:
            await self._sum_in_parts(apart(scan), meter)

    async def _sum_in_parts(self, scan: Scan, meter: Meter) -> None:
        left = iter(chains(scan, self._part_bytes))

        async def sum_chains() -> None:
            for chain in left:
                carry = b""
                for block, part in blocks(*chain):
                    carry = await self._run(raw_request(block, part, carry))
                    block.finish()
                    meter.add(block.operand.array.nbytes)

        tasks = [asyncio.ensure_future(sum_chains()) for _ in range(PARALLEL)]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise

    async def totals(
        self,
        x: AnyArray | Labelled,
        axis: FrameAxis = None,
        *,
        dtype: npt.DTypeLike | None = None,
        exclusive: bool = False,
        reverse: bool = False,
        nan: NaN | None = None,
        initial: Any = None,
        deadline: float | None = None,
    ) -> Carry:
        """Return the exact sum of each line of ``x``; same contract as :meth:`Client.totals`."""
        array, number, nan = as_block(x, axis, nan)
        total = prepare_totals(array, number, dtype, exclusive, reverse, nan, initial, deadline)
        return total.carry(await self._run(total.request))

    @overload
    async def empty(self, shape: Shape) -> npt.NDArray[np.float64]: ...
    @overload
    async def empty(
        self, shape: Shape, dtype: type[Scalar] | np.dtype[Scalar]
    ) -> npt.NDArray[Scalar]: ...
    @overload
    async def empty(self, shape: Shape, dtype: npt.DTypeLike) -> Array: ...
    async def empty(self, shape: Shape, dtype: npt.DTypeLike = np.float64) -> Array:
        """Return a new array that :meth:`cumsum` need not copy; see :meth:`Client.empty`."""
        return await asyncio.to_thread(self._empty, shape, dtype)

    async def version(self) -> str:
        """Return the version of the server, such as "0.1.0"."""
        return read_version(await self._run(VERSION))

    async def devices(self) -> list[Device]:
        """Return the OpenCL devices of the server: name, platform, type, state and work done."""
        return read_devices(await self._run(DEVICES))

    async def health(self) -> Health:
        """Return whether the server is alive and ready. Raises an error only without an answer."""
        alive = await self._is_well("/livez")
        return Health(alive, alive and await self._is_well("/readyz"))

    async def _is_well(self, path: str) -> bool:
        try:
            await self._run(Request("GET", path, check=json_check, single=True))
        except (Busy, ServerError):
            return False
        return True

    # ---- a call ----

    async def _run(self, request: Request) -> bytes:
        call = Call(self._caller, request)
        while True:
            head: Head | None = None
            try:
                wire = self._take_wire() or await self._connect(call)
                try:
                    whole, head = await _exchange(call, wire)
                except _Stale:
                    self._drop_wires()  # other idle connections are stale, too
                    wire = await self._connect(call)
                    whole, head = await _exchange(call, wire)
                text = await self._finish(call, wire, head, whole)
                if head.status == 200:
                    return text
                raise call.refusal(head, text)
            except TallyError as error:
                await asyncio.sleep(call.retry_delay(error, head))

    def _take_wire(self) -> _Wire | None:
        while self._wires:
            wire = self._wires.pop()
            if wire.loop is not asyncio.get_running_loop():
                continue  # the connection ended with its loop
            if wire.is_idle():
                return wire
            wire.close()
        return None

    def _drop_wires(self) -> None:
        while (wire := self._take_wire()) is not None:
            wire.close()

    async def _connect(self, call: Call) -> _Wire:
        left = min(call.give_up - time.monotonic(), self._caller.connect_timeout)
        try:
            return await asyncio.wait_for(self._open_wire(), max(left, 0))
        except asyncio.TimeoutError:
            raise call.no_connection(TimeoutError()) from None
        except OSError as error:
            raise call.no_connection(error) from error

    async def _open_wire(self) -> _Wire:
        loop = asyncio.get_running_loop()
        address, tls = self._caller.address, self._caller.tls
        if address.socket_path is not None:
            opened = await _open_unix_socket(address.socket_path)
            _, wire = await loop.create_unix_connection(_Wire, sock=opened)
            return wire
        opened = await _open_socket(address.host, address.port)
        name = address.name if tls is not None else None
        _, wire = await loop.create_connection(_Wire, sock=opened, ssl=tls, server_hostname=name)
        return wire

    async def _finish(self, call: Call, wire: _Wire, head: Head, whole: bool) -> bytes:
        """Read the body, and keep the connection if it is reusable."""
        keep = False
        try:
            if head.status == 200:
                call.judge(head, whole)
                text = await _read_body(call, wire, head)
            else:
                text, all_of_it = await _read_error(wire, head)
                whole = whole and all_of_it
            keep = whole and not head.will_close and wire.is_idle()
            return text
        except OSError as error:
            if isinstance(error, TallyError):
                raise
            raise call.broken(error) from error
        finally:
            wire.watch(math.inf)
            if keep and len(self._wires) < self._wires_kept:
                wire.kept = True
                self._wires.append(wire)
            else:
                wire.close()


async def _open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is connected to the first address of the host that answers."""
    loop = asyncio.get_running_loop()
    *others, last = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for family, _, _, _, place in others:
        try:
            return await asyncio.wait_for(_connect_to(place, family), HEAD_START)
        except (OSError, asyncio.TimeoutError):
            pass
    return await _connect_to(last[4], last[0])


async def _open_unix_socket(path: str) -> socket.socket:
    """Return a socket that is connected to the Unix socket at `path`. The function retries while
    the listen queue is full, because asyncio would treat such a socket as connected."""
    opened = socket.socket(socket.AF_UNIX)
    opened.setblocking(False)
    try:
        while True:
            try:
                opened.connect(path)
                return opened
            except BlockingIOError:
                await asyncio.sleep(QUEUE_NAP)
    except BaseException:
        opened.close()
        raise


async def _connect_to(place: Any, family: int) -> socket.socket:
    # asyncio sets TCP_NODELAY only on sockets with an explicit protocol.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    opened.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(opened, place)
    except BaseException:
        opened.close()
        raise
    return opened


class _Stale(Exception):
    """The server closed an idle connection, as HTTP allows; no attempt failed."""


async def _exchange(call: Call, wire: _Wire) -> tuple[bool, Head]:
    """Send a request. Returns whether the request was sent completely, and the answer's head."""
    try:
        wire.watch(call.give_up)
        whole = await wire.send(call.head(), call.request.body)
        reader = HeadReader()
        while True:
            line = await wire.line()
            if not line.endswith(b"\n") and isinstance(wire.ended, TimeoutError):
                raise wire.ended
            head = reader.take(line)
            if head is not None:
                return whole, head
    except NoAnswer as error:
        wire.close()
        if wire.kept:
            raise _Stale from None
        raise call.broken(wire.ended or error) from error
    except OSError as error:
        wire.close()
        if isinstance(error, TallyError):
            raise
        raise call.broken(error) from error
    except BaseException:
        wire.close()
        raise


async def _read_body(call: Call, wire: _Wire, head: Head) -> bytes:
    into = call.request.into
    if into is not None and head.length is not None:
        carry = await wire.read(call.carry_bytes)
        count = await wire.fill(into) if len(carry) == call.carry_bytes else 0
        if count > 0:
            call.store(count)
        if count < len(into) or len(carry) < call.carry_bytes:
            raise _cut(call, wire, head)
        return carry
    limit = TEXT_BYTES if into is None else call.carry_bytes + len(into)
    if head.length is not None and head.length > limit:
        raise call.too_long()
    text = await _read_text(wire, head, limit + 1)
    if len(text) > limit:
        raise call.too_long()
    if into is None:
        call.received = len(text)
        if head.length not in (None, len(text)):
            raise _cut(call, wire, head)
        return text
    stored = text[call.carry_bytes :]
    if stored:
        into[: len(stored)] = stored
        call.store(len(stored))
    if len(text) < limit:
        raise _cut(call, wire, head)
    return text[: call.carry_bytes]


def _cut(call: Call, wire: _Wire, head: Head) -> TallyError:
    if isinstance(wire.ended, TimeoutError):
        return call.broken(wire.ended)
    return call.ended_early(head)


async def _read_error(wire: _Wire, head: Head) -> tuple[bytes, bool]:
    """Return the body of an error, up to ERROR_BYTES, and whether the body is complete. The
    function ignores failures, because the status already identifies the error."""
    try:
        text = await _read_text(wire, head, ERROR_BYTES)
        return text, len(text) < ERROR_BYTES if head.chunked else len(text) == head.length
    except (OSError, TallyError):
        return b"", False


async def _read_text(wire: _Wire, head: Head, limit: int) -> bytes:
    """Return a body, cut at `limit` bytes; shorter if the connection ended."""
    if not head.chunked:
        return await wire.read(limit if head.length is None else min(limit, head.length))
    text = bytearray()
    while len(text) < limit:
        line = await _chunk_line(wire, "a chunk size")
        count = chunk_size(line)
        if count == 0:
            room = HEAD_BYTES
            while line not in (b"\r\n", b"\n"):
                line = await _chunk_line(wire, "its trailer")
                room -= len(line)
                if room < 0:
                    raise too_long("its trailer")
            break
        text += await wire.read(min(count, limit - len(text)))
        if len(text) < limit and await _chunk_line(wire, "a chunk") not in (b"\r\n", b"\n"):
            raise not_http("a chunk is longer than its size")
    return bytes(text)


async def _chunk_line(wire: _Wire, what: str) -> bytes:
    """Return a line between chunks; `what` names the line in errors."""
    line = await wire.line()
    if line.endswith(b"\n"):
        return line
    if wire.ended is None:
        raise too_long(what)
    if isinstance(wire.ended, TimeoutError):
        raise wire.ended
    raise _Lost("it ended in the middle of a chunked answer")
