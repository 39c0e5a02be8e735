"""Which tallyd a worker asks, and what it does when one is gone.

    replicas(urls, options)      those that a process knows, made once
    Replicas.ask(work)           work(client), with one that answers

The replicas take turns; where the process's TALLY_URL is one of them, that one stands beside the
worker and goes first. One that cannot be reached, breaks off, does not answer in time or is busy
rests, for twice as long each time, and the work goes to the next. A sum has no side effects, so
that what was half done is done again.

Failure: the last error, once nobody has done the work for PATIENCE seconds after it first failed:
long enough for a service manager to start a tallyd anew. Errors that would come again elsewhere
(a refusal, an answer that is none) are raised at once.
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
Options = tuple[tuple[str, Any], ...]  # of Client, by name


class Replica:
    """A tallyd, as one process sees it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.rests_until = 0.0  # on the monotonic clock
        self.pause = 0.0

    def rest(self, now: float) -> None:
        """It failed. Work that began before it rests does not make it rest longer."""
        if now >= self.rests_until:
            self.pause = min(max(self.pause * 2, REST_FIRST), REST_MAX)
            self.rests_until = now + self.pause * random.uniform(0.75, 1.25)


class Replicas:
    """Every tallyd that a process may ask."""

    def __init__(self, urls: tuple[str | None, ...], own: str | None, options: Options) -> None:
        # A replica that fails is answered by asking another, not by asking it again.
        settings: dict[str, Any] = {"retries": 0, **dict(options)}
        self.all = [Replica(Client(url, **settings)) for url in urls]
        self.beside = urls.index(own) if own in urls else None
        self.turn = random.randrange(len(urls))  # workers do not begin with the same
        self.lock = threading.Lock()

    def ask(self, work: Callable[[Client], Result]) -> Result:
        """What `work` gives with the first replica that does it."""
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
        """Whom to ask, and the seconds to wait before."""
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
            error.args = (f"none of {len(self.all)} replicas did it; the last one: {error}",)
        return error


def replicas(urls: tuple[str, ...] | None, options: Options) -> Replicas:
    """Those of this process, for the arguments of a sum."""
    return _made(urls or (None,), os.environ.get("TALLY_URL"), options)


@functools.lru_cache(maxsize=16)
def _made(urls: tuple[str | None, ...], own: str | None, options: Options) -> Replicas:
    return Replicas(urls, own, options)
