"""Arrays in shared memory: the service's system shared memory routes (docs/dialects.md).

A region is an object in /dev/shm that the server knows by name. A call copies its input there, the
server replaces it by the sums, and they are copied out. Regions are kept between calls, so that
their pages are made and registered once.

A region's name is taken from /dev/shm as soon as the server has opened it: of a process that dies
nothing stays behind but the server's registration, which its next start forgets.

Failure: TallyError; InvalidArgument where /dev/shm has no room. A region whose call did not end
with an answer is given up, because the server may still write to it.
Thread: any; a region belongs to one call at a time.
"""

from __future__ import annotations

import collections
import json
import mmap
import os
import secrets
import time
import weakref
from typing import Any

import numpy as np

from tally.call import Call, Caller, Request
from tally.errors import BadAnswer, ConnectionLost, InvalidArgument, Rejected, TallyError
from tally.layout import V2_NAMES, Array, Scan
from tally.transport import Pool, run

FOLDER = "/dev/shm"
UNIT = 1 << 20  # sizes of regions are multiples, so that similar arrays share them
KEPT = 8  # idle regions
FORGET_SECONDS = 5.0  # whoever is done, or interrupted, waits no longer for the server


class _Region:
    """An object that is registered under its own name."""

    def __init__(self, caller: Caller, pool: Pool, size: int) -> None:
        self.size = -(-size // UNIT) * UNIT
        self.process = os.getpid()
        self.name = f"tally_py_{self.process}_{secrets.token_hex(8)}"
        path = f"{FOLDER}/{self.name}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            file = os.open(path, flags, 0o600)
            try:
                os.posix_fallocate(file, 0, self.size)  # no SIGBUS later
                self.memory = mmap.mmap(file, self.size)
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


class _Lease:
    """The region of a call: another one after an attempt that the server did not answer."""

    def __init__(self, region: _Region) -> None:
        self.region = region


class Regions:
    """The regions of a client."""

    def __init__(self, caller: Caller, pool: Pool) -> None:
        self.caller = caller
        self.pool = pool
        self.idle: collections.deque[_Region] = collections.deque()
        self.process = os.getpid()
        self.close = weakref.finalize(self, _forget_all, caller, pool, self.idle)

    def cumsum(self, scan: Scan) -> None:
        """Fill a scan's output."""
        array = scan.operand.array
        while True:
            region, kept = self._take(array.nbytes)
            lease = _Lease(region)
            try:
                self._call(scan, lease)
            except Rejected as error:
                if kept and error.status == 404:
                    continue  # the server was started anew and knows it no more
                self._give(lease.region)
                raise
            except TallyError as error:
                if error.status is None:
                    _forget(self.caller, self.pool, lease.region)
                else:
                    self._give(lease.region)
                raise
            except BaseException:  # an interrupt: the server may be at it still
                _forget(self.caller, self.pool, lease.region)
                raise
            self._give(lease.region)
            return

    def _call(self, scan: Scan, lease: _Lease) -> None:
        array, dtype, axis = scan.operand
        shape = list(array.shape)

        def stored() -> Array:
            memory = lease.region.memory
            there: Array = np.ndarray(array.shape, array.dtype.newbyteorder("<"), memory)
            return there

        def fill() -> memoryview:
            """Copy the array there; the bytes that ask for its sums."""
            np.copyto(stored(), array)
            name = lease.region.name
            place = {"shared_memory_region": name, "shared_memory_byte_size": array.nbytes}
            tensor = {"name": "x", "datatype": V2_NAMES[dtype], "shape": shape, "parameters": place}
            document = {
                "inputs": [tensor],
                "outputs": [{"name": "y", "parameters": place}],
                "parameters": {"axis": axis, **scan.attributes},
            }
            return memoryview(json.dumps(document).encode())

        def fill_again(answered: bool) -> memoryview:
            if not answered:  # the server may write there still
                lost = lease.region
                lease.region = _Region(self.caller, self.pool, lost.size)
                _forget(self.caller, self.pool, lost)
            return fill()

        request = Request(
            "POST",
            "/v2/models/cumsum/infer",
            "application/json",
            fill(),
            deadline=scan.deadline,
            before_retry=fill_again,
        )
        text = run(Call(self.caller, request), self.pool)
        expected = {"name": "y", "datatype": V2_NAMES[dtype], "shape": shape}
        try:
            found = json.loads(text)["outputs"]
        except (ValueError, KeyError, TypeError, RecursionError):
            found = None
        if found != [expected]:
            raise BadAnswer(f"the answer is {text[:200]!r}, expected one output {expected}")
        np.copyto(scan.output.filled, stored())

    def _take(self, size: int) -> tuple[_Region, bool]:
        if self.process != os.getpid():
            self.idle.clear()  # the parent's
            self.process = os.getpid()
        while True:
            try:
                region = self.idle.pop()
            except IndexError:
                return _Region(self.caller, self.pool, size), False
            if region.size >= size:
                return region, True
            _forget(self.caller, self.pool, region)

    def _give(self, region: _Region) -> None:
        if len(self.idle) < KEPT:
            self.idle.append(region)
        else:
            _forget(self.caller, self.pool, region)


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


def _forget_all(caller: Caller, pool: Pool, regions: collections.deque[_Region]) -> None:
    """But those that a fork has copied: they are the parent's."""
    mine = []
    while regions:
        region = regions.pop()
        if region.process == os.getpid():
            mine.append(region)
    _forget(caller, pool, *mine)
