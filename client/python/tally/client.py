"""The blocking client, and the base classes of both clients."""

from __future__ import annotations

import contextlib
import functools
import json
import numbers
import os
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    SupportsIndex,
    TypedDict,
    TypeVar,
    overload,
)

import numpy as np
import numpy.typing as npt

from tally.address import parse_address
from tally.arrays import as_array
from tally.attributes import NaN
from tally.call import Call, Caller, Request
from tally.carry import Carry
from tally.dtypes import Array, element_type
from tally.errors import BadAnswer, Busy, InvalidArgument, ServerError
from tally.frames import as_block, is_frame, labelled, prepare_call, refuse_include_initial
from tally.layout import Scan, as_shape
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
    prepare_totals,
    raw_request,
)
from tally.shared import Regions
from tally.transport import Pool, cut_off, run, tls_context
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

AnyParts = TypeVar("AnyParts", bound="CarriedSum")


class Health(NamedTuple):
    """The state of the server: whether it runs, and whether it accepts requests."""

    alive: bool
    ready: bool


class Device(TypedDict, total=False):
    """An OpenCL device of the server. It also has all other members of the server's answer."""

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
    """A sum in parts. The server keeps no state of it: any replica accepts the next part, and a
    part that failed may be sent again. One call at a time.

    Attributes:
        carry: the sums of the lines so far, as bytes that the caller may store (:class:`Carry`
            decodes them); empty before the first part.
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
                f"carry is of type {type(carry).__name__}, expected bytes or a Carry: the carry of "
                "Parts, or totals",
                field="carry",
            )
        self.axis = axis
        self.carry = bytes(carry)
        if self.carry and without_initial(attributes) != attributes:
            raise InvalidArgument(
                "initial and include_initial belong to the first part: a sum that continues from a "
                "carry is after it, and the carry has the initial value",
                field="initial" if "initial" in attributes else "include_initial",
            )
        self._turn = [True]  # empty while a call is in flight; pop() of a list needs no lock

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse a second call while one is in flight, because both would use the same carry."""
        try:
            self._turn.pop()
        except IndexError:
            raise InvalidArgument(
                "a part of this sum is in flight: send the next one after its call returned"
            ) from None
        try:
            yield
        finally:
            self._turn.append(True)

    def _next(self, x: Any, **options: Any) -> tuple[Scan, Request]:
        """Return the scan of the next part, and its request."""
        attributes = without_initial(self._attributes) if self.carry else dict(self._attributes)
        if is_frame(x):
            refuse_include_initial(attributes.get("include_initial"))
        x, axis, attributes["nan"] = as_block(x, self.axis, attributes["nan"])
        scan = prepare(x, axis, packed=True, **attributes, **options)
        return scan, raw_request(scan, "next" if self.carry else "first", self.carry)


class Parts(CarriedSum):
    """The sum in parts of a :class:`Client`."""

    @overload
    def cumsum(
        self, x: Frame, *, dtype: npt.DTypeLike | None = None, deadline: float | None = None
    ) -> Frame: ...
    @overload
    def cumsum(
        self,
        x: AnyArray,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Output,
        deadline: float | None = None,
    ) -> Output: ...
    @overload
    def cumsum(
        self, x: npt.NDArray[Signed], *, deadline: float | None = None
    ) -> npt.NDArray[np.int64]: ...
    @overload
    def cumsum(
        self, x: npt.NDArray[Unsigned], *, deadline: float | None = None
    ) -> npt.NDArray[np.uint64]: ...
    @overload
    def cumsum(
        self, x: npt.NDArray[Kept], *, deadline: float | None = None
    ) -> npt.NDArray[Kept]: ...
    @overload
    def cumsum(
        self,
        x: AnyArray,
        *,
        dtype: type[Scalar] | np.dtype[Scalar],
        deadline: float | None = None,
    ) -> npt.NDArray[Scalar]: ...
    @overload
    def cumsum(
        self,
        x: AnyArray,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Array | None = None,
        deadline: float | None = None,
    ) -> Array: ...
    def cumsum(
        self,
        x: Any,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Array | None = None,
        deadline: float | None = None,
    ) -> Any:
        """Return the sums of the next part; same arguments as :meth:`Client.cumsum`.

        Every part has the same ``dtype``, and the same shape except along the axis. A DataFrame has
        columns of one type; NaN is skipped by default, as for :meth:`Client.cumsum`."""
        with self._alone():
            scan, request = self._next(x, dtype=dtype, out=out, deadline=deadline)
            self.carry = self._run(request)
            return labelled(x, scan.finish())


class Options(Generic[AnyParts]):
    """Base class of both clients: construction, and the start of sums in parts."""

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
        """Make a client. Nothing is sent yet.

        Args:
            url: ``http://host:8000``, ``https://host/prefix``, ``host:8000``,
                ``unix:/run/tally.sock``. Without a port HTTP uses 80 and HTTPS 443. None: the
                environment variable TALLY_URL, else http://127.0.0.1:8000.
            token: bearer token, sent with every request.
            ca_file: PEM file of the authorities to trust instead of the system's.
            client_cert: PEM file of a client certificate; the key is in ``client_key`` or in the
                same file.
            insecure: do not verify the server's certificate.
            timeout: seconds for a whole call with all its retries, or for each part of an array
                that is sent in parts; None: no limit.
            connect_timeout: seconds for a connection.
            retries: further attempts after the first one, for 429, 503 and lost connections. All
                calls of a client share a budget of retries (docs/client.md).
            idle_connections: maximum number of connections kept open between calls.
            shm: pass arrays in shared memory. The server must run on this machine, as the same
                user, with ``--allow-client-shm``. Arrays of :meth:`empty` are not copied.
            part_bytes: larger arrays are sent in parts, several in flight; not with ``shm``.
            user_agent: sent with every request.

        Raises:
            InvalidArgument: the URL is not usable, or a file is missing.
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
        if ca_file == "":  # ssl would trust the system's authorities
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
        self._pool = Pool(idle_connections)  # blocking connections

    def _empty(self, shape: Shape, dtype: npt.DTypeLike) -> Array:
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
        """Return a sum of an array that is given part by part along ``axis``, possibly without end.

            parts = client.parts(axis=0)
            for block in stream:
                sums = parts.cumsum(block)      # of an AsyncClient: await parts.cumsum(block)

        Args:
            axis, exclusive, reverse, nan: as for :meth:`cumsum`. With ``reverse`` the last part
                along the axis is the first one to send.
            initial, include_initial: as for :meth:`cumsum`. They change the sums of the first part
                only, and are not given with ``carry``.
            carry: :attr:`Parts.carry` of an earlier sum, to continue from it; or the totals of all
                earlier elements (:meth:`Client.totals`).
        """
        given: dict[str, Any] = {"exclusive": exclusive, "reverse": reverse, "nan": nan}
        if initial is not None:
            given["initial"] = initial
        if include_initial is not False:
            given["include_initial"] = include_initial
        return self._parts(self, axis, carry, **given)

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings only: a copy makes connections of its own."""
        from multiprocessing.context import get_spawning_popen

        if self._settings["token"] is not None and get_spawning_popen() is None:
            raise TypeError(
                "a client with a token is pickled only for a process that multiprocessing starts, "
                "because others may store or read its token elsewhere. Make the client where it is "
                "used"
            )
        return self._settings

    def __setstate__(self, settings: dict[str, Any]) -> None:
        Options.__init__(self, **settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._caller.address.url!r})"


class Client(Options[Parts]):
    """Client of a Tally server. Threads may share a client, and so may a process and its forks."""

    _parts = Parts

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections and release shared memory."""
        if self._regions is not None:
            self._regions.close()
        self._pool.close()

    @overload
    def cumsum(
        self,
        x: Frame,
        axis: FrameAxis = None,
        *,
        dtype: npt.DTypeLike | None = None,
        **options: Unpack[SumOptions],
    ) -> Frame: ...
    @overload
    def cumsum(
        self,
        x: AnyArray,
        axis: Axis = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Output,
        **options: Unpack[SumOptions],
    ) -> Output: ...
    @overload
    def cumsum(
        self, x: npt.NDArray[Signed], axis: Axis = None, **options: Unpack[SumOptions]
    ) -> npt.NDArray[np.int64]: ...
    @overload
    def cumsum(
        self, x: npt.NDArray[Unsigned], axis: Axis = None, **options: Unpack[SumOptions]
    ) -> npt.NDArray[np.uint64]: ...
    @overload
    def cumsum(
        self, x: npt.NDArray[Kept], axis: Axis = None, **options: Unpack[SumOptions]
    ) -> npt.NDArray[Kept]: ...
    @overload
    def cumsum(
        self,
        x: AnyArray,
        axis: Axis = None,
        *,
        dtype: type[Scalar] | np.dtype[Scalar],
        **options: Unpack[SumOptions],
    ) -> npt.NDArray[Scalar]: ...
    @overload
    def cumsum(
        self,
        x: AnyArray,
        axis: Axis = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Array | None = None,
        **options: Unpack[SumOptions],
    ) -> Array: ...
    def cumsum(
        self,
        x: Any,
        axis: Any = None,
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
    ) -> Any:
        """Return the cumulative sum of ``x`` along ``axis``.

        Args:
            x: array of 0 to 64 dimensions, or an object that NumPy converts to one: a sequence, a
                buffer, an object with the array protocol or with ``__dlpack__``. float16, bfloat16
                (of ml_dtypes), float32, float64, bool, int8 to int64, uint8 to uint64; complex64
                and complex128, whose real and imaginary parts are summed one after the other;
                timedelta64. Transposed, strided and broadcast arrays are sent without a copy.
                A pandas DataFrame or Series is summed as by its own ``cumsum()``: each column by
                itself, with index, columns and types of the result as in pandas.
            axis: -rank to rank - 1. None, the default, sums the flattened array, as NumPy does; of
                a DataFrame or Series it means 0, as in pandas, which also has "index" and
                "columns". The default of the HTTP service is 0.
            dtype: the type of the sums. None: NumPy's choice, which is int64 for bool and smaller
                signed integers, uint64 for smaller unsigned integers, else the type of ``x``.
                Other types: a wider one of the same kind; any integer type for integers (sums
                modulo 2^n) and for floats (NumPy truncates each element; it must be in range); a
                float type for integers, as long as no sum is rounded. Sums that NumPy would round
                at each step are refused.
            exclusive: leave each element out of its own sum.
            reverse: sum from the last element to the first.
            nan: "propagate", the default for arrays: NaN from the first NaN on; "zero": NaN counts
                as 0, as in numpy.nancumsum; "skip", the default for DataFrame and Series: NaN
                counts as 0, and the sum in its place is NaN, as in pandas. NaT of timedelta64 is
                skipped unless nan is "zero".
            initial: a number of the type of the sums, which counts before the first element of
                every line.
            include_initial: the axis has one sum more: ``initial`` or 0 before the first element.
                Not with a DataFrame or Series.
            offsets: segments of the axis, each summed as a line of its own: k + 1 integers for k
                segments, the index of the first element of each and then the size of the axis. They
                begin with 0 and never decrease. ``initial`` counts in each segment, and with
                ``include_initial`` each segment, also an empty one, has one sum more.
            groups: a key for each element along the axis, of any type that NumPy sorts. Elements
                with equal keys are summed as a line of their own, and each sum has the place of its
                element, as in pandas ``groupby(groups).cumsum()``. Groups whose elements are not
                adjacent are copied together first. NaN and NaT are no keys. Not with ``offsets``
                and ``include_initial``.
            out: array for the sums, of their shape and type, in any layout; may be ``x`` itself or
                a np.memmap. None: a new array. Not with a DataFrame or Series.
            deadline: seconds after which the server drops the request if it is still queued.
            progress: called with the bytes of ``x`` that are done and the bytes in total, after
                each part; True: a bar of tqdm, if tqdm is installed.

        Returns:
            ``out``, or a new array in C order: of the shape of ``x``, (x.size,) for axis None. With
            ``include_initial`` the axis is longer by one, or by the number of segments.
            A DataFrame or Series for a DataFrame or Series.

        Raises:
            InvalidArgument: an argument is invalid; nothing was sent.
            TallyError: another error of this package. With ``output_touched``, ``out`` was partly
                overwritten.
        """
        scans, result = prepare_call(
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
        return result()

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
        in_flight: set[Call] = set()

        def work(chain: Chain) -> None:
            carry = b""
            for block, part in blocks(*chain):
                call = Call(self._caller, raw_request(block, part, carry))
                with lock:
                    if failed.is_set():
                        return
                    in_flight.add(call)
                try:
                    carry = run(call, self._pool)
                    block.finish()
                    with lock:
                        in_flight.remove(call)
                        meter.add(block.operand.array.nbytes)
                except BaseException:
                    failed.set()
                    raise

        found = chains(scan, self._part_bytes)
        with ThreadPoolExecutor(min(PARALLEL, len(found))) as threads:
            try:
                for _ in threads.map(work, found):
                    pass
            except BaseException:  # an interrupt, for example, which reaches only this thread
                with lock:
                    failed.set()
                    for call in in_flight:
                        cut_off(call)
                raise

    def totals(
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
        """Return the exact sum of each line of ``x``, as the carry after ``x``.

            before = client.totals(a, axis=0) + client.totals(b, axis=0)
            sums = client.parts(axis=0, carry=before).cumsum(c)     # of c, after a and b

        Totals may be added in any order, so the parts of an array can be summed at the same time.
        The array is sent in one request, for any ``part_bytes``.

        Args:
            x, axis, dtype, deadline: as for :meth:`cumsum`. A complex array has two totals, those
                of x.real and x.imag. A DataFrame has columns of one type.
            exclusive, reverse: options of the sum that continues from the carry; the totals do not
                depend on them.
            nan: as for :meth:`cumsum`, also for the sum that continues from the carry.
            initial: a number that is added to the total of each line; for the first part only.

        Raises:
            InvalidArgument: an argument is invalid; nothing was sent.
            TallyError: another error of this package.
        """
        array, number, nan = as_block(x, axis, nan)
        total = prepare_totals(array, number, dtype, exclusive, reverse, nan, initial, deadline)
        return total.carry(self._run(total.request))

    @overload
    def empty(self, shape: Shape) -> npt.NDArray[np.float64]: ...
    @overload
    def empty(
        self, shape: Shape, dtype: type[Scalar] | np.dtype[Scalar]
    ) -> npt.NDArray[Scalar]: ...
    @overload
    def empty(self, shape: Shape, dtype: npt.DTypeLike) -> Array: ...
    def empty(self, shape: Shape, dtype: npt.DTypeLike = np.float64) -> Array:
        """Return a new array with arbitrary elements, which :meth:`cumsum` need not copy.

        With ``shm`` the array is in shared memory. The server accesses it directly if it is ``x``
        or ``out`` of this client, as a whole or as a C-contiguous slice; without the server's
        ``--shm-zero-copy`` the server copies it. If the answer of a call is lost, the server may
        still write to ``out``, and the call is not repeated. A forked process shares the memory.
        Without ``shm`` this is ``numpy.empty``.

        Raises:
            InvalidArgument: an invalid type or shape, or not enough room in /dev/shm.
            TallyError: the server does not permit it; it has 256 regions for all clients.
        """
        return self._empty(shape, dtype)

    def version(self) -> str:
        """Return the version of the server, such as "0.1.0"."""
        return read_version(self._run(VERSION))

    def devices(self) -> list[Device]:
        """Return the OpenCL devices of the server: name, platform, type, state and work done."""
        return read_devices(self._run(DEVICES))

    def health(self) -> Health:
        """Return whether the server is alive and ready. Raises an error only without an answer."""
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
    """Raise BadAnswer unless an answer is a JSON page of the service."""
    check_kind(fields, "application/json")


DEVICES = Request("GET", "/v1/devices", check=json_check)
VERSION = Request("GET", "/version", check=json_check)


def read_devices(text: bytes) -> list[Device]:
    """Return the devices in a page of the service."""
    devices: list[Device] = _member(text, "devices", list)
    return devices


def read_version(text: bytes) -> str:
    """Return the version in a page of the service."""
    version: str = _member(text, "version", str)
    return version


def _member(text: bytes, name: str, kind: type) -> Any:
    """Return a member of a JSON page."""
    try:
        found = json.loads(text)[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        found = None
    if not isinstance(found, kind):
        raise BadAnswer(
            f"the answer has no valid member {name!r}; is this the URL of a Tally server?"
        )
    return found


@overload
def cumulative_sum(
    x: Frame,
    /,
    *,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    include_initial: bool = False,
) -> Frame: ...
@overload
def cumulative_sum(
    x: npt.NDArray[Signed], /, *, axis: Axis = None, include_initial: bool = False
) -> npt.NDArray[np.int64]: ...
@overload
def cumulative_sum(
    x: npt.NDArray[Unsigned], /, *, axis: Axis = None, include_initial: bool = False
) -> npt.NDArray[np.uint64]: ...
@overload
def cumulative_sum(
    x: npt.NDArray[Kept], /, *, axis: Axis = None, include_initial: bool = False
) -> npt.NDArray[Kept]: ...
@overload
def cumulative_sum(
    x: AnyArray,
    /,
    *,
    axis: Axis = None,
    dtype: type[Scalar] | np.dtype[Scalar],
    include_initial: bool = False,
) -> npt.NDArray[Scalar]: ...
@overload
def cumulative_sum(
    x: AnyArray,
    /,
    *,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    include_initial: bool = False,
) -> Array: ...
def cumulative_sum(
    x: Any,
    /,
    *,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    include_initial: bool = False,
) -> Any:
    """Return the cumulative sum of ``x``, with the signature of the Array API standard. The URL of
    the server is the environment variable TALLY_URL, else http://127.0.0.1:8000.

    Args:
        x: as for :meth:`Client.cumsum`.
        axis: -rank to rank - 1; None only if ``x`` has one dimension, or is a DataFrame.
        dtype: the type of the sums; None: NumPy's choice.
        include_initial: the first sum along the axis is 0, and the axis is one longer.

    Raises:
        InvalidArgument: an argument is invalid; nothing was sent.
        TallyError: another error of this package.
    """
    if not is_frame(x):
        x = as_array(x)
        if axis is None and x.ndim > 1:
            raise InvalidArgument(
                f"axis is None, but x has {x.ndim} dimensions: name the axis to sum along, or sum "
                "x.reshape(-1)",
                field="axis",
            )
    client = _client_of(os.environ.get("TALLY_URL"))
    return client.cumsum(x, axis, dtype=dtype, include_initial=include_initial)


@functools.lru_cache(maxsize=4)
def _client_of(url: str | None) -> Client:
    """Return the client of cumulative_sum() for an address. Threads share it."""
    return Client(url)
