"""The replicas of tallyd that a dask worker uses, and their failures.

    replicas(urls, options)      the replicas of a process, made once
    Replicas.ask(work)           calls work(client) with a replica that answers

The process alternates between the replicas (round robin). If the TALLY_URL of the process is one of
them, this replica runs beside the worker and is preferred. A replica that is busy, cannot be
reached, breaks the connection or exceeds the timeout is not used for a pause, which doubles with
each failure, and the next replica does the work. A sum has no side effects, so work that failed in
the middle can be repeated.

Failure: the last error, if no replica has done the work PATIENCE seconds after the first failure.
In this time a service manager can restart a tallyd. Errors that every replica would return (a
rejection, an invalid answer) are raised at once.
Thread: any; the threads of a worker share its replicas.
"""

from __future__ import annotations

import functools
import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from tally.client import Client
from tally.errors import Busy, CallTimeout, ConnectFailed, ConnectionLost, TallyError

PATIENCE = 30.0  # seconds
REST_FIRST, REST_MAX = 0.1, 5.0  # seconds

Result = TypeVar("Result")
Options = tuple[tuple[str, Any], ...]  # keyword arguments of Client


class Replica:
    """A tallyd and its failures, as seen by one process."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.rests_until = 0.0  # seconds of the monotonic clock
        self.pause = 0.0  # seconds of the last rest

    def rest(self, now: float) -> None:
        """Begin a pause after a failure. A failure of work that began before the rest does not
        prolong it."""
        if now >= self.rests_until:
            self.pause = min(max(self.pause * 2, REST_FIRST), REST_MAX)
            self.rests_until = now + self.pause * random.uniform(0.75, 1.25)


class Replicas:
    """All replicas that a process may use."""

    def __init__(self, urls: tuple[str | None, ...], own: str | None, options: Options) -> None:
        # After a failure another replica is used, so the client itself does not retry.
        settings: dict[str, Any] = {"retries": 0, **dict(options)}
        self.all = [Replica(Client(url, **settings)) for url in urls]
        self.beside = urls.index(own) if own in urls else None
        self.turn = random.randrange(len(urls))  # so that workers begin with different replicas
        self.lock = threading.Lock()

    def ask(self, work: Callable[[Client], Result]) -> Result:
        """Return the result of `work` from the first replica that succeeds."""
        give_up: float | None = None
        while True:
            replica, pause = self._next()
            time.sleep(pause)
            try:
                result = work(replica.client)
            except (Busy, CallTimeout, ConnectFailed, ConnectionLost) as error:
                now = time.monotonic()
                if give_up is None:
                    give_up = now + PATIENCE
                with self.lock:
                    replica.rest(now)
                if now >= give_up:
                    raise self._in_vain(error) from None
            else:
                replica.pause = 0.0
                return result

    def _next(self) -> tuple[Replica, float]:
        """Return the next replica, and the seconds to wait before its use."""
        with self.lock:
            self.turn += 1
            count = len(self.all)
            order = [self.all[(self.turn + number) % count] for number in range(count)]
            if self.beside is not None:
                order.insert(0, self.all[self.beside])
            replica = min(order, key=lambda one: max(one.rests_until, time.monotonic()))
            return replica, max(0.0, replica.rests_until - time.monotonic())

    def _in_vain(self, error: TallyError) -> TallyError:
        if len(self.all) > 1:
            error.args = (f"none of {len(self.all)} replicas did it; the last error: {error}",)
        return error


def replicas(urls: tuple[str, ...] | None, options: Options) -> Replicas:
    """Return the replicas of this process for the arguments of a sum."""
    return _made(urls or (None,), os.environ.get("TALLY_URL"), options)


@functools.lru_cache(maxsize=16)
def _made(urls: tuple[str | None, ...], own: str | None, options: Options) -> Replicas:
    return Replicas(urls, own, options)
