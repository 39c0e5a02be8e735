"""The client that blocks: arguments to a request, a request to its call."""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import numbers
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, SupportsIndex, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from tally.address import parse_address
from tally.call import Call, Caller, Request
from tally.carry import Carry, carry_bytes_most
from tally.errors import BadAnswer, Busy, InvalidArgument, ServerError, WrapWarning
from tally.layout import (
    Array,
    Operand,
    Scan,
    as_operand,
    as_shape,
    input_buffer,
    output_buffer,
)
from tally.parts import (
    PARALLEL,
    Index,
    Meter,
    Part,
    Progress,
    apart,
    blocks,
    chains,
)
from tally.shared import Regions
from tally.transport import Pool, cut_off, run, tls_context

AnyParts = TypeVar("AnyParts", bound="CarriedSum")
RAW = "application/octet-stream"
# What NumPy sums types in that may wrap here.
NUMPYS = {
    **{"int8": "int64", "int16": "int64", "int32": "int64"},
    **{"uint8": "uint64", "uint16": "uint64", "uint32": "uint64"},
}


class Health(NamedTuple):
    """What the server says of itself: it runs; it takes requests."""

    alive: bool
    ready: bool


class Device(TypedDict, total=False):
    """An OpenCL device of the server. Members that are not named here are as the server says."""

    name: str
    platform: str
    type: str
    state: str
    running: int
    requests: int
    errors: int
    busy_us: int
    memory_bytes: int


class CarriedSum:
    """A sum in parts. The server keeps nothing of it: any replica takes the next part, and a part
    that failed may be sent again. One call at a time.

    Attributes:
        carry: the sums of the lines so far, as bytes to keep (:class:`Carry` reads them); empty
            before the first part.
    """

    def __init__(
        self,
        client: Any,
        axis: SupportsIndex,
        carry: bytes | Carry,
        **attributes: Any,
    ) -> None:
        self._run = client._run
        self._attributes = attributes
        if not isinstance(carry, (bytes, bytearray, memoryview, Carry)):
            raise InvalidArgument(
                f"carry is of type {type(carry).__name__}, expected bytes or a Carry: what "
                "Parts.carry was, or totals",
                field="carry",
            )
        self.axis = axis
        self.carry = bytes(carry)
        self._turn = [True]  # taken by the call that is under way: a list's pop needs no lock

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Two parts at a time would begin with the same carry."""
        try:
            self._turn.pop()
        except IndexError:
            raise InvalidArgument(
                "a part of this sum is under way: give the next one when its sums are there"
            ) from None
        try:
            yield
        finally:
            self._turn.append(True)

    def _next(self, x: Any, **options: Any) -> tuple[Scan, Request]:
        """The sums of the next part, to be filled, and what asks for them."""
        scan = prepare(x, self.axis, packed=True, **self._attributes, **options)
        return scan, raw_request(scan, "next" if self.carry else "first", self.carry)


class Parts(CarriedSum):
    """The sum in parts of a :class:`Client`."""

    def cumsum(
        self,
        x: npt.ArrayLike,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Array | None = None,
        deadline: float | None = None,
    ) -> Array:
        """The sums of the next part; its arguments are those of :meth:`Client.cumsum`.

        Every part has the same type and, but along the axis, the same shape."""
        with self._alone():
            scan, request = self._next(x, dtype=dtype, out=out, deadline=deadline)
            self.carry = self._run(request)
            return finish(scan)


class Options(Generic[AnyParts]):
    """What both clients have alike: how they are made, and how their sums in parts begin."""

    _parts: type[AnyParts]

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        ca_file: str | None = None,
        *,
        client_cert: str | None = None,
        client_key: str | None = None,
        insecure: bool = False,
        timeout: float | None = 600.0,
        connect_timeout: float = 10.0,
        retries: int = 4,
        idle_connections: int = 64,
        shm: bool = False,
        part_bytes: int = 64 << 20,
        user_agent: str = "tally-python",
    ) -> None:
        """Nothing is sent yet.

        Args:
            url: ``http://host:8000``, ``https://host/prefix``, ``host:8000``,
                ``unix:/run/tally.sock``; None: the environment's TALLY_URL, else
                http://127.0.0.1:8000.
            token: bearer token, sent with every request.
            ca_file: PEM file of the authorities to trust instead of the system's.
            client_cert: PEM file of a client certificate; its key in ``client_key``, or with it.
            insecure: do not verify the server's certificate.
            timeout: seconds for a whole call with all its retries, or for each part of an array
                that goes in parts; None: no limit.
            connect_timeout: seconds for a connection.
            retries: further attempts after the first, for 429, 503 and lost connections. All calls
                of a client share a budget of them (docs/client.md).
            idle_connections: kept open between calls.
            shm: pass arrays in shared memory. The server must run on this machine, as the same
                user, with ``--allow-client-shm``. Those of :meth:`empty` are not even copied.
            part_bytes: larger arrays go in parts, several under way; not with ``shm``.
            user_agent: sent with every request.

        Raises:
            InvalidArgument: the URL is not usable, a file is missing.
        """
        settings = {name: value for name, value in locals().copy().items() if name != "self"}
        for name, text in (("url", url), ("token", token), ("user_agent", user_agent)):
            if not isinstance(text, str) and (text is not None or name == "user_agent"):
                raise InvalidArgument(
                    f"{name} is of type {type(text).__name__}, expected a text", field=name
                )
        address = parse_address(url)
        for name, seconds in (("timeout", timeout), ("connect_timeout", connect_timeout)):
            if not (seconds is None and name == "timeout" or _is_positive(seconds)):
                raise InvalidArgument(
                    f"{name} is {seconds!r}, expected seconds, more than 0", field=name
                )
        for name, count, least in (
            ("retries", retries, 0),
            ("idle_connections", idle_connections, 0),
            ("part_bytes", part_bytes, 1),
        ):
            if not isinstance(count, numbers.Integral) or count < least:
                raise InvalidArgument(
                    f"{name} is {count!r}, expected an integer of at least {least}", field=name
                )
        for name, text in (("token", token), ("user_agent", user_agent)):
            if text is not None and not (text.isascii() and text.isprintable() and text):
                raise InvalidArgument(f"{name} is empty, or not printable ASCII", field=name)
        if ca_file == "":  # ssl would trust the system's, as without one
            raise InvalidArgument("ca_file is empty: name a file, or leave it out", field="ca_file")
        context: ssl.SSLContext | None = None
        if address.tls:
            try:
                context = tls_context(ca_file, client_cert, client_key, insecure)
            except (OSError, TypeError) as error:
                named = ", ".join(str(file) for file in (ca_file, client_cert, client_key) if file)
                raise InvalidArgument(f"cannot use {named}: {error}") from error
        self._caller = Caller(
            address, context, token, timeout, connect_timeout, retries, user_agent
        )
        self._settings = {**settings, "url": address.url}
        self._part_bytes = part_bytes
        self._open(idle_connections)
        self._regions = Regions(self._caller, self._pool) if shm else None

    def _open(self, idle_connections: int) -> None:
        self._pool = Pool(idle_connections)  # of connections that block

    def _empty(self, shape: SupportsIndex | Sequence[SupportsIndex], dtype: npt.DTypeLike) -> Array:
        kind = as_operand(np.empty(0), 0, dtype).array.dtype
        sizes = as_shape(shape, kind)
        if self._regions is None or 0 in sizes:
            return np.empty(sizes, kind)
        return self._regions.empty(sizes, kind)

    def parts(
        self,
        axis: SupportsIndex,
        *,
        exclusive: bool = False,
        reverse: bool = False,
        carry: bytes | Carry = b"",
    ) -> AnyParts:
        """A sum whose array comes in parts along ``axis``, without end if need be.

            parts = client.parts(axis=0)
            for block in stream:
                sums = parts.cumsum(block)      # of an AsyncClient: await parts.cumsum(block)

        Args:
            axis, exclusive, reverse: as for :meth:`cumsum`. With ``reverse`` the last part along
                the axis is the first one to send.
            carry: :attr:`Parts.carry` of an earlier sum, to go on with it; or the totals of all
                that is before (:meth:`Client.totals`).
        """
        return self._parts(self, axis, carry, exclusive=exclusive, reverse=reverse)

    def __getstate__(self) -> dict[str, Any]:
        """The settings alone: a copy makes connections of its own."""
        from multiprocessing.context import get_spawning_popen

        if self._settings["token"] is not None and get_spawning_popen() is None:
            raise TypeError(
                "a client with a token is pickled only for a process that multiprocessing starts: "
                "elsewhere its token may be kept, or read by others. Make the client where it is "
                "used"
            )
        return self._settings

    def __setstate__(self, settings: dict[str, Any]) -> None:
        Options.__init__(self, **settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._caller.address.url!r})"


class Client(Options[Parts]):
    """Sums arrays on a Tally server. Threads may share one; so may a process and its forks."""

    _parts = Parts

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections and give shared memory back."""
        if self._regions is not None:
            self._regions.close()
        self._pool.close()

    def cumsum(
        self,
        x: npt.ArrayLike,
        axis: SupportsIndex | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        exclusive: bool = False,
        reverse: bool = False,
        out: Array | None = None,
        deadline: float | None = None,
        progress: Progress | bool | None = None,
    ) -> Array:
        """The cumulative sum of ``x`` along ``axis``.

        Args:
            x: array of 0 to 64 dimensions, or what NumPy makes one of: sequences, buffers, objects
                with the array protocol. float16, bfloat16 (of ml_dtypes), float32, float64, int8
                to int64, uint8 to uint64; bool is summed as int64. Transposed, strided and
                broadcast arrays are sent as they are.
            axis: -rank to rank - 1. None sums the flattened array, as NumPy does.
            dtype: what ``x`` is converted to first. None: the sums have the type of ``x``, where
                NumPy widens small integers; integers wrap. A :class:`WrapWarning` says so of
                integers below 64 bits, where the axis has more than one element; with ``dtype``
                there is none. Conversions that would drop something silently are refused:
                complex numbers, times, objects that are no integers for an integer type.
            exclusive: leave each element out of its own sum.
            reverse: sum from the last element to the first.
            out: where the sums go, of their shape and type, in any layout; may be ``x`` itself, or
                a np.memmap. None: a new array.
            deadline: seconds; the server drops the request if it still waits then.
            progress: called with the bytes of ``x`` that are done and those in all, after each
                part; True: a bar of tqdm's, where that is installed.

        Returns:
            ``out``, or a new array in C order: of the shape of ``x``, (x.size,) for axis None.

        Raises:
            InvalidArgument: an argument cannot be; nothing was sent.
            TallyError: one of its other classes. With ``output_touched``, ``out`` was partly
                overwritten.
        """
        scan = prepare(x, axis, dtype, exclusive, reverse, out, deadline)
        array = scan.operand.array
        with Meter(progress, array.nbytes) as meter:
            if self._regions is not None and array.size > 0:
                self._regions.cumsum(scan)
                meter.add(array.nbytes)
            elif array.nbytes <= self._part_bytes:
                self._run(raw_request(scan))
                meter.add(array.nbytes)
            else:
                self._sum_in_parts(apart(scan), meter)
        return finish(scan)

    def _sum_in_parts(self, scan: Scan, meter: Meter) -> None:
        array, _, axis = scan.operand
        lock = threading.Lock()
        failed = threading.Event()
        under_way: set[Call] = set()

        def work(chain: list[Index]) -> None:
            carry = b""
            for block, part in blocks(scan, chain):
                call = Call(self._caller, raw_request(block, part, carry))
                with lock:
                    if failed.is_set():
                        return
                    under_way.add(call)
                try:
                    carry = run(call, self._pool)
                    finish(block)
                    with lock:
                        under_way.remove(call)
                        meter.add(block.operand.array.nbytes)
                except BaseException:
                    failed.set()
                    raise

        reverse = bool(scan.attributes.get("reverse"))
        found = chains(array, axis, self._part_bytes, reverse)
        with ThreadPoolExecutor(min(PARALLEL, len(found))) as threads:
            try:
                for _ in threads.map(work, found):
                    pass
            except BaseException:  # an interrupt, say: no thread but this one hears of it
                with lock:
                    failed.set()
                    for call in under_way:
                        cut_off(call)
                raise

    def totals(
        self,
        x: npt.ArrayLike,
        axis: SupportsIndex | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        exclusive: bool = False,
        reverse: bool = False,
        deadline: float | None = None,
    ) -> Carry:
        """The exact sum of each line of ``x``, as the carry behind it.

            before = client.totals(a, axis=0) + client.totals(b, axis=0)
            sums = client.parts(axis=0, carry=before).cumsum(c)     # of c, behind a and b

        Totals are added in any order, so the parts of an array can be summed at the same time. The
        array goes in one request, whatever ``part_bytes`` is.

        Args:
            x, axis, dtype, deadline: as for :meth:`cumsum`.
            exclusive, reverse: those of the sum that goes on with the carry; the totals are the
                same.

        Raises:
            InvalidArgument: an argument cannot be; nothing was sent.
            TallyError: one of its other classes.
        """
        total = prepare_totals(x, axis, dtype, exclusive, reverse, deadline)
        return total.carry(self._run(total.request))

    def empty(
        self, shape: SupportsIndex | Sequence[SupportsIndex], dtype: npt.DTypeLike = np.float64
    ) -> Array:
        """A new array, its elements arbitrary, that :meth:`cumsum` need not copy.

        With ``shm`` it lies in shared memory: given as ``x`` or ``out`` of this client, whole or
        in slices that are C-contiguous, the server reads or writes it where it lies (without its
        ``--shm-zero-copy`` it copies there). A call whose answer is lost leaves such an ``out``
        to whatever the server does with it still; it is not repeated. A process that is forked
        has the same memory, not a copy. Without ``shm`` this is ``numpy.empty``.

        Raises:
            InvalidArgument: no such type or shape, or no room in /dev/shm.
            TallyError: the server does not allow it; it has 256 regions for all clients.
        """
        return self._empty(shape, dtype)

    def devices(self) -> list[Device]:
        """Every OpenCL device of the server: its name, platform, type, state and work done."""
        return read_devices(self._run(DEVICES))

    def health(self) -> Health:
        """Whether the server is alive, and ready. An error only if no answer came."""
        alive = self._is_well("/livez")
        return Health(alive, alive and self._is_well("/readyz"))

    def _run(self, request: Request) -> bytes:
        return run(Call(self._caller, request), self._pool)

    def _is_well(self, path: str) -> bool:
        try:
            self._run(Request("GET", path, check=json_check, single=True))
        except (Busy, ServerError):
            return False
        return True


def prepare(
    x: Any,
    axis: SupportsIndex | None = None,
    dtype: Any = None,
    exclusive: bool = False,
    reverse: bool = False,
    out: Array | None = None,
    deadline: float | None = None,
    packed: bool = False,
) -> Scan:
    """Check the arguments of cumsum()."""
    operand = as_operand(x, axis, dtype)
    attributes = attributes_of(exclusive, reverse)
    if dtype is None and operand.dtype in NUMPYS:  # of a part the axis goes on
        warn_of_wrapping(
            operand, math.inf if packed else operand.array.shape[operand.axis], exclusive
        )
    return Scan(operand, output_buffer(out, operand, packed), attributes, _due(deadline))


def _due(deadline: float | None) -> float:
    """When a deadline passes, on the monotonic clock."""
    if deadline is None:
        return math.inf
    if not _is_positive(deadline):
        raise InvalidArgument(
            f"deadline is {deadline!r}, expected seconds, more than 0", field="deadline"
        )
    return time.monotonic() + deadline


def warn_of_wrapping(operand: Operand, length: float, exclusive: bool) -> None:
    """Warn of the sums of one of those types along an axis of that length, NaN if unknown: they may
    wrap where NumPy's, of 64 bits, do not."""
    if length <= 1 + exclusive:
        return
    name, bits = operand.dtype, 8 * operand.array.itemsize
    wide = NUMPYS[name]
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "tally":
        level, frame = level + 1, frame.f_back
    warnings.warn(
        f"sums of {name} wrap modulo 2^{bits}, where NumPy's are {wide}: give dtype={wide!r} for "
        f"those, or dtype={name!r} for sums that may wrap",
        WrapWarning,
        stacklevel=level,
    )


def _is_positive(seconds: Any) -> bool:
    return isinstance(seconds, numbers.Real) and float(seconds) > 0


def attributes_of(exclusive: bool, reverse: bool) -> dict[str, str | bool]:
    """The flags of a sum, checked; those that are left out have the server's defaults."""
    attributes: dict[str, str | bool] = {}
    for name, flag in (("exclusive", exclusive), ("reverse", reverse)):
        if flag is not False and not isinstance(flag, (bool, np.bool_)):
            raise InvalidArgument(f"{name} is {flag!r}, expected True or False", field=name)
        if flag:
            attributes[name] = True
    return attributes


def raw_request(scan: Scan, part: Part | None = None, carry: bytes = b"") -> Request:
    """The request of a scan, or of a part of one, its answer straight to the output."""
    array, name, axis = scan.operand
    body, path = raw_body("/v1/cumsum", scan.operand, scan.attributes)
    if part is not None:
        path += f"&part={part}"
    if scan.output.strides is not None:
        path += f"&output_strides={','.join(map(str, scan.output.strides))}"
    return Request(
        "POST",
        path,
        RAW,
        body,
        carry,
        carry_bytes_most(name, _lines(array, axis)) if part in ("first", "next") else 0,
        into=scan.output.buffer,
        check=tensor_check(name, array.shape),
        # All of a request is sent before a byte of its answer is stored: whatever the layouts,
        # an input that is overwritten is lost for a retry, and for nothing else.
        once=bool(np.may_share_memory(array, scan.output.filled)),
        deadline=scan.deadline,
    )


class Total(NamedTuple):
    """The totals of a tensor that were asked for."""

    operand: Operand
    attributes: dict[str, str | bool]
    request: Request

    def carry(self, data: bytes) -> Carry:
        """The answer, if it is the carry behind this tensor."""
        array, name, axis = self.operand
        try:
            carry = Carry(data)
        except InvalidArgument as error:
            raise BadAnswer(f"the answer holds no carry: {error}") from None
        expected = (
            name,
            "exclusive" in self.attributes,
            "reverse" in self.attributes,
            array.shape[axis],
            _lines(array, axis),
        )
        if (carry.dtype, carry.exclusive, carry.reverse, carry.position, len(carry)) != expected:
            raise BadAnswer(f"the answer is {carry!r}, which is not the carry behind this array")
        return carry


def prepare_totals(
    x: Any,
    axis: SupportsIndex | None,
    dtype: Any = None,
    exclusive: bool = False,
    reverse: bool = False,
    deadline: float | None = None,
) -> Total:
    """Check the arguments of totals()."""
    operand = as_operand(x, axis, dtype)
    attributes = attributes_of(exclusive, reverse)
    if dtype is None and operand.dtype in NUMPYS:
        warn_of_wrapping(operand, math.inf, exclusive)
    body, path = raw_body("/v1/cumsum/totals", operand, attributes)
    request = Request(
        "POST",
        path,
        RAW,
        body,
        carry_limit=carry_bytes_most(operand.dtype, _lines(operand.array, operand.axis)),
        into=memoryview(bytearray()),
        check=tensor_check(operand.dtype, operand.array.shape),
        deadline=_due(deadline),
    )
    return Total(operand, attributes, request)


def _lines(array: Array, axis: int) -> int:
    return math.prod(size for d, size in enumerate(array.shape) if d != axis)


def raw_body(
    route: str, operand: Operand, attributes: dict[str, str | bool]
) -> tuple[memoryview, str]:
    """The bytes of a tensor, and the path that says what they are."""
    array, name, axis = operand
    body, strides = input_buffer(array)
    path = f"{route}?dtype={name}&shape={','.join(map(str, array.shape))}&axis={axis}"
    for attribute, value in attributes.items():
        path += f"&{attribute}={'true' if value is True else value}"
    if strides is not None:
        path += f"&strides={','.join(map(str, strides))}"
    return body, path


def _check_kind(fields: dict[str, str], expected: str) -> None:
    kind = fields.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != expected:
        raise BadAnswer(
            f"the answer's Content-Type is {kind[:80]!r}, expected {expected}; is this the URL of "
            "a Tally server?"
        )


def json_check(fields: dict[str, str]) -> None:
    """Raise BadAnswer unless this is the head of a page of the service's."""
    _check_kind(fields, "application/json")


DEVICES = Request("GET", "/v1/devices", check=json_check)


def tensor_check(name: str, sizes: Sequence[int]) -> Callable[[dict[str, str]], None]:
    """What raises BadAnswer unless the head of an answer is that of such a tensor."""
    shape = ",".join(map(str, sizes))

    def check(fields: dict[str, str]) -> None:
        _check_kind(fields, RAW)
        found = fields.get("tally-dtype", ""), fields.get("tally-shape", "")
        if found != (name, shape):
            raise BadAnswer(
                f"the answer is a tensor of type {found[0][:40]!r} and shape {found[1][:200]!r}, "
                f"expected {name} and {shape[:200]}"
            )

    return check


def finish(scan: Scan) -> Array:
    """The result, from what the answer filled."""
    output = scan.output
    if output.result is not output.filled:
        np.copyto(output.result, output.filled)
    return output.result


def read_devices(text: bytes) -> list[Device]:
    try:
        devices: list[Device] = json.loads(text)["devices"]
    except (ValueError, KeyError, TypeError, RecursionError):
        devices = None  # type: ignore[assignment]
    if not isinstance(devices, list):
        raise BadAnswer("the server's devices are no list; is this the URL of a Tally server?")
    return devices
