"""The client that blocks, and what both clients have alike."""

from __future__ import annotations

import contextlib
import functools
import json
import numbers
import os
import ssl
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, SupportsIndex, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from tally.address import parse_address
from tally.attributes import NaN
from tally.call import Call, Caller, Request
from tally.carry import Carry
from tally.dtypes import Array, element_type
from tally.errors import BadAnswer, Busy, InvalidArgument, ServerError
from tally.layout import Scan, as_array, as_shape
from tally.parts import (
    PARALLEL,
    Chain,
    Meter,
    Progress,
    apart,
    blocks,
    chains,
    without_initial,
)
from tally.prepare import (
    check_kind,
    is_positive,
    prepare,
    prepare_sums,
    prepare_totals,
    raw_request,
)
from tally.shared import Regions
from tally.transport import Pool, cut_off, run, tls_context

AnyParts = TypeVar("AnyParts", bound="CarriedSum")


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
        if self.carry and without_initial(attributes) != attributes:
            raise InvalidArgument(
                "initial and include_initial belong to the first part: a sum that goes on with a "
                "carry is behind it, and an initial value is in the carry",
                field="initial" if "initial" in attributes else "include_initial",
            )
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
        attributes = without_initial(self._attributes) if self.carry else self._attributes
        scan = prepare(x, self.axis, packed=True, **attributes, **options)
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

        Every part has the same ``dtype`` and, but along the axis, the same shape."""
        with self._alone():
            scan, request = self._next(x, dtype=dtype, out=out, deadline=deadline)
            self.carry = self._run(request)
            return scan.finish()


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
            if not (seconds is None and name == "timeout" or is_positive(seconds)):
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
        kind = element_type(dtype)
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
        nan: NaN | None = None,
        initial: Any = None,
        include_initial: bool = False,
        carry: bytes | Carry = b"",
    ) -> AnyParts:
        """A sum whose array comes in parts along ``axis``, without end if need be.

            parts = client.parts(axis=0)
            for block in stream:
                sums = parts.cumsum(block)      # of an AsyncClient: await parts.cumsum(block)

        Args:
            axis, exclusive, reverse, nan: as for :meth:`cumsum`. With ``reverse`` the last part
                along the axis is the first one to send.
            initial, include_initial: as for :meth:`cumsum`. They change the sums of the first part
                alone, and are not given with ``carry``.
            carry: :attr:`Parts.carry` of an earlier sum, to go on with it; or the totals of all
                that is before (:meth:`Client.totals`).
        """
        given: dict[str, Any] = {"exclusive": exclusive, "reverse": reverse, "nan": nan}
        if initial is not None:
            given["initial"] = initial
        if include_initial is not False:
            given["include_initial"] = include_initial
        return self._parts(self, axis, carry, **given)

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
        nan: NaN | None = None,
        initial: Any = None,
        include_initial: bool = False,
        offsets: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        out: Array | None = None,
        deadline: float | None = None,
        progress: Progress | bool | None = None,
    ) -> Array:
        """The cumulative sum of ``x`` along ``axis``.

        Args:
            x: array of 0 to 64 dimensions, or what NumPy makes one of: sequences, buffers, objects
                with the array protocol. float16, bfloat16 (of ml_dtypes), float32, float64, bool,
                int8 to int64, uint8 to uint64; complex64 and complex128, whose real and imaginary
                parts are summed one after the other; timedelta64. Transposed, strided and broadcast
                arrays are sent as they are.
            axis: -rank to rank - 1. None sums the flattened array, as NumPy does.
            dtype: the type of the sums. None: NumPy's choice, which is int64 for bool and smaller
                signed integers, uint64 for smaller unsigned integers, else the type of ``x``.
                Other types: a wider one of the same kind; any integer type for integers (sums
                modulo 2^n) and for floats (NumPy truncates each element; it must be in range); a
                float type for integers, as long as no sum is rounded. Sums that NumPy would round
                on the way are refused.
            exclusive: leave each element out of its own sum.
            reverse: sum from the last element to the first.
            nan: "propagate" (the default): NaN from the first NaN on; "zero": NaN counts as 0, as
                in numpy.nancumsum; "skip": the same, and the sum at its place is NaN, as in pandas.
                NaT of timedelta64 is skipped unless nan is "zero".
            initial: a number of the type of the sums, which counts before the first element of
                every line.
            include_initial: the axis has one sum more: ``initial`` or 0 before the first element.
            offsets: segments of the axis, each summed as a line of its own: k + 1 integers for k
                segments, the index of the first element of each and then the size of the axis. They
                begin with 0 and never decrease. ``initial`` counts in each segment, and with
                ``include_initial`` each has one sum more, an empty one too.
            groups: a key for each element along the axis, of any type that NumPy sorts. Elements of
                equal keys are summed as a line of their own, wherever they lie, and each sum stands
                at the place of its element, as in pandas ``groupby(groups).cumsum()``. Groups that
                do not lie in one piece are copied together first. NaN and NaT are no keys. Not with
                ``offsets`` and ``include_initial``.
            out: where the sums go, of their shape and type, in any layout; may be ``x`` itself, or
                a np.memmap. None: a new array.
            deadline: seconds; the server drops the request if it still waits then.
            progress: called with the bytes of ``x`` that are done and those in all, after each
                part; True: a bar of tqdm's, where that is installed.

        Returns:
            ``out``, or a new array in C order: of the shape of ``x``, (x.size,) for axis None; with
            ``include_initial`` one longer along the axis, or as much longer as there are segments.

        Raises:
            InvalidArgument: an argument cannot be; nothing was sent.
            TallyError: one of its other classes. With ``output_touched``, ``out`` was partly
                overwritten.
        """
        scans, result = prepare_sums(
            x,
            axis,
            out,
            offsets,
            groups,
            dtype=dtype,
            exclusive=exclusive,
            reverse=reverse,
            nan=nan,
            initial=initial,
            include_initial=include_initial,
            deadline=deadline,
        )
        with Meter(progress, sum(scan.operand.array.nbytes for scan in scans)) as meter:
            for scan in scans:
                self._sum(scan, meter)
                scan.finish()
        return result

    def _sum(self, scan: Scan, meter: Meter) -> None:
        array = scan.operand.array
        if self._regions is not None and array.size > 0:
            self._regions.cumsum(scan)
            meter.add(array.nbytes)
        elif scan.wide_bytes <= self._part_bytes:
            self._run(raw_request(scan))
            meter.add(array.nbytes)
        else:
            self._sum_in_parts(apart(scan), meter)

    def _sum_in_parts(self, scan: Scan, meter: Meter) -> None:
        lock = threading.Lock()
        failed = threading.Event()
        under_way: set[Call] = set()

        def work(chain: Chain) -> None:
            carry = b""
            for block, part in blocks(*chain):
                call = Call(self._caller, raw_request(block, part, carry))
                with lock:
                    if failed.is_set():
                        return
                    under_way.add(call)
                try:
                    carry = run(call, self._pool)
                    block.finish()
                    with lock:
                        under_way.remove(call)
                        meter.add(block.operand.array.nbytes)
                except BaseException:
                    failed.set()
                    raise

        found = chains(scan, self._part_bytes)
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
        nan: NaN | None = None,
        initial: Any = None,
        deadline: float | None = None,
    ) -> Carry:
        """The exact sum of each line of ``x``, as the carry behind it.

            before = client.totals(a, axis=0) + client.totals(b, axis=0)
            sums = client.parts(axis=0, carry=before).cumsum(c)     # of c, behind a and b

        Totals are added in any order, so the parts of an array can be summed at the same time. The
        array goes in one request, whatever ``part_bytes`` is.

        Args:
            x, axis, dtype, deadline: as for :meth:`cumsum`, but that complex arrays have two
                totals: those of x.real and x.imag.
            exclusive, reverse: those of the sum that goes on with the carry; the totals are the
                same.
            nan: as for :meth:`cumsum`, and that of the sum that goes on with the carry.
            initial: a number that is added to the total of each line; of the first part alone.

        Raises:
            InvalidArgument: an argument cannot be; nothing was sent.
            TallyError: one of its other classes.
        """
        total = prepare_totals(x, axis, dtype, exclusive, reverse, nan, initial, deadline)
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


def json_check(fields: dict[str, str]) -> None:
    """Raise BadAnswer unless this is the head of a page of the service's."""
    check_kind(fields, "application/json")


DEVICES = Request("GET", "/v1/devices", check=json_check)


def read_devices(text: bytes) -> list[Device]:
    try:
        devices: list[Device] = json.loads(text)["devices"]
    except (ValueError, KeyError, TypeError, RecursionError):
        devices = None  # type: ignore[assignment]
    if not isinstance(devices, list):
        raise BadAnswer("the server's devices are no list; is this the URL of a Tally server?")
    return devices


def cumulative_sum(
    x: npt.ArrayLike,
    /,
    *,
    axis: SupportsIndex | None = None,
    dtype: npt.DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """The cumulative sum of ``x`` with the signature of the Array API standard, from the server of
    the environment's TALLY_URL, else from http://127.0.0.1:8000.

    Args:
        x: as for :meth:`Client.cumsum`.
        axis: -rank to rank - 1; None only if ``x`` has one dimension.
        dtype: the type of the sums; None: NumPy's choice.
        include_initial: the first sum along the axis is 0, and the axis is one longer.

    Raises:
        InvalidArgument: an argument cannot be; nothing was sent.
        TallyError: one of its other classes.
    """
    array = as_array(x)
    if axis is None and array.ndim > 1:
        raise InvalidArgument(
            f"axis is None, but x has {array.ndim} dimensions: name the axis to sum along, or sum "
            "x.reshape(-1)",
            field="axis",
        )
    client = _client_of(os.environ.get("TALLY_URL"))
    return client.cumsum(array, axis, dtype=dtype, include_initial=include_initial)


@functools.lru_cache(maxsize=4)
def _client_of(url: str | None) -> Client:
    """The client of cumulative_sum() for an address; threads share it."""
    return Client(url)
