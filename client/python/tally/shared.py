"""Arrays in shared memory: the service's system shared memory routes (docs/dialects.md).

A region is an object in /dev/shm that is registered with the server. A call copies its input to a
region, the server replaces the input by the sums, and the call copies the sums to the output.
Regions are kept between calls, so that their pages are allocated and registered once. A lent region
is the memory of an array of the caller, and is not copied.

The name of a region is removed from /dev/shm after the server opened it. A process that dies leaves
only the server's registration behind, which ends when the server restarts.

Failure: TallyError; InvalidArgument if /dev/shm has not enough room. A region whose call ended
without an answer is discarded, because the server may still write to it. If it is lent, it stays
the caller's array, and later calls copy it.
Thread: any; a region belongs to one call at a time, or to the arrays in it.
"""

from __future__ import annotations

import collections
import json
import math
import mmap
import os
import secrets
import time
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from tally.call import Call, Caller, Request
from tally.dtypes import V2_INPUT_NAMES, V2_NAMES, Array, name_of
from tally.errors import BadAnswer, ConnectionLost, InvalidArgument, Rejected, TallyError
from tally.layout import Scan
from tally.segments import Segments
from tally.transport import Pool, run

FOLDER = "/dev/shm"
UNIT = 1 << 20  # sizes of regions are multiples of it: similar arrays can use the same region
KEPT = 8  # idle regions
FORGET_SECONDS = 5.0  # maximum wait for the server when regions are released


def _rounded(size: int) -> int:
    return -(-size // UNIT) * UNIT


class _Region:
    """A shared memory object that is registered under its own name."""

    def __init__(self, caller: Caller, pool: Pool, size: int) -> None:
        self.size = _rounded(size)
        self.process = os.getpid()
        self.name = f"tally_py_{self.process}_{secrets.token_hex(8)}"
        path = f"{FOLDER}/{self.name}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            file = os.open(path, flags, 0o600)
            try:
                os.posix_fallocate(file, 0, self.size)  # no SIGBUS later
                self.memory = mmap.mmap(file, self.size)
                self.address = np.frombuffer(self.memory, np.uint8).ctypes.data
                self._register(caller, pool)
            finally:
                os.close(file)
                os.unlink(path)
        except OSError as error:
            if isinstance(error, TallyError):
                raise
            raise InvalidArgument(
                f"cannot make {self.size} bytes of shared memory: {error}", field="shm"
            ) from error

    def _register(self, caller: Caller, pool: Pool) -> None:
        document = {"key": self.name, "offset": 0, "byte_size": self.size}

        def forget_first(answered: bool) -> memoryview:
            if not answered:  # the server may have registered it, and rejects a second registration
                _forget(caller, pool, self)
            return request.body

        request = _posted(f"/v2/systemsharedmemory/region/{self.name}/register", document)
        request.before_retry = forget_first
        try:
            run(Call(caller, request), pool)
        except ConnectionLost:
            _forget(caller, pool, self)
            raise
        finally:
            request.before_retry = None  # break the reference cycle


class _Place:
    """The memory of a tensor of a call."""

    def __init__(self, region: _Region, offset: int = 0, lent: bool = False) -> None:
        self.region = region  # replaced after an attempt without an answer
        self.offset = offset
        self.lent = lent  # the memory belongs to the caller's array and is not a copy

    def array_like(self, array: Array) -> Array:
        """Return an array of the same type and shape in this memory."""
        there: Array = np.ndarray(
            array.shape, array.dtype.newbyteorder("<"), self.region.memory, self.offset
        )
        return there

    def parameters(self, size: int) -> dict[str, Any]:
        """Return the parameters of a tensor in this memory."""
        return {
            "shared_memory_region": self.region.name,
            "shared_memory_offset": self.offset,
            "shared_memory_byte_size": size,
        }


class _Memory:
    """A region with the array interface. It exists as long as arrays use it."""

    def __init__(self, region: _Region, size: int) -> None:
        self.region = region
        self.__array_interface__ = np.ndarray((size,), np.uint8, region.memory).__array_interface__


class Regions:
    """The regions of a client."""

    def __init__(self, caller: Caller, pool: Pool) -> None:
        self.caller = caller
        self.pool = pool
        self.idle: collections.deque[_Region] = collections.deque()
        self.lent: dict[int, _Region] = {}  # regions with arrays in them, by address
        self.process = os.getpid()
        weakref.finalize(self, _forget_all, caller, pool, self.idle, self.lent)

    def close(self) -> None:
        """Unregister all regions. The arrays in them stay valid."""
        _forget_all(self.caller, self.pool, self.idle, self.lent)

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """Return an array in a region of its own, which is released with the array."""
        size = math.prod(shape) * dtype.itemsize
        region = self._take_sized(size) or _Region(self.caller, self.pool, size)
        memory = _Memory(region, size)
        self.lent[region.address] = region
        weakref.finalize(memory, _release, region, self.idle, self.lent)
        array: Array = np.asarray(memory).view(dtype).reshape(shape)
        return array

    def cumsum(self, scan: Scan) -> None:
        """Fill the output of a scan."""
        array, filled = scan.operand.array, scan.output.filled
        while True:
            target = self._place_of(filled)
            kept = True
            if target is None:
                region, kept = self._take(max(array.nbytes, filled.nbytes))
                target = _Place(region)
            source = self._place_of(array) or target
            try:
                self._call(scan, source, target)
            except Rejected as error:
                if error.status == 404 and (kept or source.lent):
                    # The server restarted, so the regions are not registered any more.
                    self._withdraw(source, target)
                    continue
                self._give(target)
                raise
            except TallyError as error:
                if error.status is None:
                    self._lose(target)
                else:
                    self._give(target)
                raise
            except BaseException:  # an interrupt: the server may still write
                self._lose(target)
                raise
            self._give(target)
            return

    def _call(self, scan: Scan, source: _Place, target: _Place) -> None:
        array, filled = scan.operand.array, scan.output.filled
        sums_type = V2_NAMES[name_of(scan.operand.sums)]

        def fill() -> memoryview:
            """Copy the array unless it is lent. Returns the body of the request."""
            if not source.lent:
                np.copyto(target.array_like(array), array)
            kind = V2_INPUT_NAMES[scan.operand.dtype]
            tensor = {"name": "x", "datatype": kind, "shape": list(array.shape)}
            inputs = [{**tensor, "parameters": source.parameters(array.nbytes)}]
            if scan.segments is not None:
                inputs.append(_offsets_input(scan.segments))
            document = {
                "inputs": inputs,
                "outputs": [{"name": "y", "parameters": target.parameters(filled.nbytes)}],
                "parameters": {"axis": scan.operand.axis, **scan.attributes},
            }
            return memoryview(json.dumps(document).encode())

        def fill_again(answered: bool) -> memoryview:
            if not answered:  # the server may still write to the region
                if target.lent:
                    raise ConnectionLost("the connection broke before the answer")
                lost = target.region
                target.region = _Region(self.caller, self.pool, lost.size)
                _forget(self.caller, self.pool, lost)
            return fill()

        request = Request(
            "POST",
            "/v2/models/cumsum/infer",
            "application/json",
            fill(),
            once=target.lent,
            writes_there=target.lent,
            deadline=scan.deadline,
            before_retry=fill_again,
        )
        text = run(Call(self.caller, request), self.pool)
        expected = {"name": "y", "datatype": sums_type, "shape": list(filled.shape)}
        try:
            found = json.loads(text)["outputs"]
        except (ValueError, KeyError, TypeError, RecursionError):
            found = None
        if found != [expected]:
            raise BadAnswer(f"the answer is {text[:200]!r}, expected one output {expected}")
        if not target.lent:
            np.copyto(filled, target.array_like(filled))

    def _place_of(self, array: Array) -> _Place | None:
        """Return the memory of a C-contiguous array within an array of empty(); else None."""
        if not self.lent or not array.flags.c_contiguous:
            return None
        if array.dtype != array.dtype.newbyteorder("<"):
            return None
        begin = array.ctypes.data
        for address, region in list(self.lent.items()):
            if (
                address <= begin <= address + region.size - array.nbytes
                and region.process == os.getpid()
            ):
                return _Place(region, begin - address, lent=True)
        return None

    def _leave_to_parent(self) -> None:
        """In a forked process, drop the regions of the parent."""
        if self.process != os.getpid():
            self.idle.clear()
            self.process = os.getpid()

    def _take(self, size: int) -> tuple[_Region, bool]:
        """Return a region of at least this size for a call, and whether it existed before."""
        self._leave_to_parent()
        while True:
            try:
                region = self.idle.pop()
            except IndexError:
                return _Region(self.caller, self.pool, size), False
            if region.size >= size:
                return region, True
            _forget(self.caller, self.pool, region)

    def _take_sized(self, size: int) -> _Region | None:
        """Return an idle region for an array. It has the exact size, because the array may live
        long."""
        self._leave_to_parent()
        for region in self.idle.copy():
            if region.size == _rounded(size):
                try:
                    self.idle.remove(region)
                except ValueError:  # another thread took it
                    continue
                return region
        return None

    def _give(self, place: _Place) -> None:
        """Keep the region of a call that ended, and unregister regions beyond KEPT."""
        if not place.lent:
            self.idle.append(place.region)
        while len(self.idle) > KEPT:
            _forget(self.caller, self.pool, self.idle.popleft())

    def _lose(self, place: _Place) -> None:
        """Unregister the region of a call that ended without an answer, because the server may
        still write to it."""
        self._withdraw(place)
        _forget(self.caller, self.pool, place.region)

    def _withdraw(self, *places: _Place) -> None:
        """Let later calls copy the arrays in these regions."""
        for place in places:
            if place.lent:
                self.lent.pop(place.region.address, None)


def _offsets_input(segments: Segments) -> dict[str, Any]:
    offsets = segments.offsets.tolist()
    return {"name": "offsets", "datatype": "INT64", "shape": [len(offsets)], "data": offsets}


def _posted(path: str, document: dict[str, Any] | None = None) -> Request:
    body = memoryview(json.dumps(document).encode() if document is not None else b"")
    return Request("POST", path, "application/json", body)


def _forget(caller: Caller, pool: Pool, *regions: _Region) -> None:
    """Unregister regions, if the server can be reached."""
    due = time.monotonic() + FORGET_SECONDS
    for region in regions:
        request = _posted(f"/v2/systemsharedmemory/region/{region.name}/unregister")
        request.deadline = due
        try:
            run(Call(caller, request), pool)
        except TallyError:
            pass


def _forget_all(
    caller: Caller, pool: Pool, idle: collections.deque[_Region], lent: dict[int, _Region]
) -> None:
    """Unregister all regions of this process; a fork copies those of its parent."""
    regions = []
    while idle:
        regions.append(idle.pop())
    while lent:
        regions.append(lent.popitem()[1])
    _forget(caller, pool, *(region for region in regions if region.process == os.getpid()))


def _release(region: _Region, idle: collections.deque[_Region], lent: dict[int, _Region]) -> None:
    """Keep a region whose last array was released. Any code may run at this time, so the function
    sends nothing."""
    if lent.pop(region.address, None) is region and region.process == os.getpid():
        idle.append(region)
