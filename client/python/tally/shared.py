"""Arrays in shared memory: the service's system shared memory routes (docs/dialects.md).

A region is an object in /dev/shm that the server knows by name. A call copies its input there, the
server replaces it by the sums, and they are copied out. Regions are kept between calls, so that
their pages are made and registered once. One that is lent to the caller as an array is neither
copied in nor out.

A region's name is taken from /dev/shm as soon as the server has opened it: of a process that dies
nothing stays behind but the server's registration, which its next start forgets.

Failure: TallyError; InvalidArgument where /dev/shm has no room. A region whose call did not end
with an answer is given up, because the server may still write to it; one that is lent stays the
caller's array, and is copied from then on.
Thread: any; a region belongs to one call at a time, or to the arrays over it.
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
UNIT = 1 << 20  # sizes of regions are multiples, so that similar arrays share them
KEPT = 8  # idle regions
FORGET_SECONDS = 5.0  # whoever is done, or interrupted, waits no longer for the server


def _rounded(size: int) -> int:
    return -(-size // UNIT) * UNIT


class _Region:
    """An object that is registered under its own name."""

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
            if not answered:  # it may be registered: a second time it would be refused
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
            request.before_retry = None  # which refers to it


class _Place:
    """Where a tensor of a call lies."""

    def __init__(self, region: _Region, offset: int = 0, lent: bool = False) -> None:
        self.region = region  # another one after an attempt that the server did not answer
        self.offset = offset
        self.lent = lent  # it is an array of the caller's, not a copy of one

    def array_like(self, array: Array) -> Array:
        """The elements there."""
        there: Array = np.ndarray(
            array.shape, array.dtype.newbyteorder("<"), self.region.memory, self.offset
        )
        return there

    def words(self, size: int) -> dict[str, Any]:
        """The parameters of a tensor that lies there."""
        return {
            "shared_memory_region": self.region.name,
            "shared_memory_offset": self.offset,
            "shared_memory_byte_size": size,
        }


class _Memory:
    """A region as NumPy takes it. Its life is that of the arrays over it."""

    def __init__(self, region: _Region, size: int) -> None:
        self.region = region
        self.__array_interface__ = np.ndarray((size,), np.uint8, region.memory).__array_interface__


class Regions:
    """The regions of a client."""

    def __init__(self, caller: Caller, pool: Pool) -> None:
        self.caller = caller
        self.pool = pool
        self.idle: collections.deque[_Region] = collections.deque()
        self.lent: dict[int, _Region] = {}  # by address: there are arrays over them
        self.process = os.getpid()
        weakref.finalize(self, _forget_all, caller, pool, self.idle, self.lent)

    def close(self) -> None:
        """Let the server let go of all regions; the arrays over them stay."""
        _forget_all(self.caller, self.pool, self.idle, self.lent)

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """An array over a region of its own, which comes back when the array is gone."""
        size = math.prod(shape) * dtype.itemsize
        region = self._take_sized(size) or _Region(self.caller, self.pool, size)
        memory = _Memory(region, size)
        self.lent[region.address] = region
        weakref.finalize(memory, _come_back, region, self.idle, self.lent)
        array: Array = np.asarray(memory).view(dtype).reshape(shape)
        return array

    def cumsum(self, scan: Scan) -> None:
        """Fill a scan's output."""
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
                    # The server was started anew and knows them no more.
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
            except BaseException:  # an interrupt: the server may be at it still
                self._lose(target)
                raise
            self._give(target)
            return

    def _call(self, scan: Scan, source: _Place, target: _Place) -> None:
        array, filled = scan.operand.array, scan.output.filled
        sums_type = V2_NAMES[name_of(scan.operand.sums)]

        def fill() -> memoryview:
            """Copy the array there, unless it is; the bytes that ask for its sums."""
            if not source.lent:
                np.copyto(target.array_like(array), array)
            kind = V2_INPUT_NAMES[scan.operand.dtype]
            tensor = {"name": "x", "datatype": kind, "shape": list(array.shape)}
            inputs = [{**tensor, "parameters": source.words(array.nbytes)}]
            if scan.segments is not None:
                inputs.append(_offsets_input(scan.segments))
            document = {
                "inputs": inputs,
                "outputs": [{"name": "y", "parameters": target.words(filled.nbytes)}],
                "parameters": {"axis": scan.operand.axis, **scan.attributes},
            }
            return memoryview(json.dumps(document).encode())

        def fill_again(answered: bool) -> memoryview:
            if not answered:  # the server may write there still
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
        """Where an array lies that is, or is part of, one of empty()'s, in the order of a row."""
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
        if self.process != os.getpid():
            self.idle.clear()
            self.process = os.getpid()

    def _take(self, size: int) -> tuple[_Region, bool]:
        """A region of at least that size for a call, and whether it was kept."""
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
        """A region for an array, which may keep it long: no larger than it must be."""
        self._leave_to_parent()
        for region in self.idle.copy():
            if region.size == _rounded(size):
                try:
                    self.idle.remove(region)
                except ValueError:  # another thread has it
                    continue
                return region
        return None

    def _give(self, place: _Place) -> None:
        """A call is done with its region."""
        if not place.lent:
            self.idle.append(place.region)
        while len(self.idle) > KEPT:
            _forget(self.caller, self.pool, self.idle.popleft())

    def _lose(self, place: _Place) -> None:
        """A call ended without an answer: what comes late is not to find the region."""
        self._withdraw(place)
        _forget(self.caller, self.pool, place.region)

    def _withdraw(self, *places: _Place) -> None:
        """Arrays there are copied from now on, as all others are."""
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
    """Let the server let go of regions, if it can be reached."""
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
    """But those that a fork has copied: they are the parent's."""
    regions = []
    while idle:
        regions.append(idle.pop())
    while lent:
        regions.append(lent.popitem()[1])
    _forget(caller, pool, *(region for region in regions if region.process == os.getpid()))


def _come_back(region: _Region, idle: collections.deque[_Region], lent: dict[int, _Region]) -> None:
    """The last array over a region is gone. This may be anywhere, so nothing is sent here."""
    if lent.pop(region.address, None) is region and region.process == os.getpid():
        idle.append(region)
