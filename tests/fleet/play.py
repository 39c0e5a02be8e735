#!/usr/bin/env python3
"""Simulate the events of a cluster: three replicas behind HAProxy with deploy/haproxy.cfg, in
network namespaces (replicas.py), are restarted one after the other and killed under load.

    make fleet [ARGS='--rounds 10']
    tests/fleet/play.py [--short] [--rounds N] [--root FOLDER] [--binary tallyd] [--json FILE]

Every answer is compared with NumPy's, byte by byte. There are two kinds of clients: bare ones,
which have a connection and never retry, and those of the Python package, which retry.
Requirements:

  - no answer is wrong, ever;
  - rolling restart (SIGTERM, wait for the exit, start, wait until HAProxy uses the replica
    again): no request fails;
  - kill -9: of the bare clients' requests only those in flight fail, at most one per client; no
    other request fails.

Exit status 1 if a requirement is not met. --short changes two things: HAProxy checks ten times
as often, so that --drain-delay-ms can be shorter, and clients pause between requests, which are
smaller."""

import argparse
import collections
import dataclasses
import http.client
import json
import pathlib
import random
import sys
import tempfile
import threading
import time

import replicas

sys.path.insert(0, str(replicas.TOP / "client/python"))

import numpy as np  # noqa: E402
import tally  # noqa: E402

BARE, RETRYING = 8, 3
SHORT = {r"inter 1s fall 2": "inter 100ms fall 2"}
SHORT_DELAY_MS = 1200  # HAProxy needs 200 ms, two checks, to notice that a replica drains
# Sizes in elements. Requests of the first two sizes fit into HAProxy's buffer (16 KiB), so that
# HAProxy can send them to another replica.
SIZES = (12, 1000, 40_000, 1_000_000)
SHORT_SIZES = (12, 1000, 40_000, 200_000)
SHORT_PAUSE_S = 0.02  # pause of a client between two requests, so that other processes can run
WEIGHTS = (8, 4, 2, 1)
RAW = {"Content-Type": "application/octet-stream"}


@dataclasses.dataclass
class Failure:
    began: float
    ended: float
    what: str


class Crowd:
    """Clients that send one request after the other until they are told to stop, and the results of
    all requests."""

    def __init__(self, port, sizes, pause_s):
        self.port = port
        self.sizes = sizes
        self.pause_s = pause_s
        self.counts = collections.Counter()
        self.failures = []  # failures of bare clients
        self.of_retrying = []
        self.wrong = []
        self.lock = threading.Lock()
        self.over = threading.Event()
        kinds = [self.bare] * BARE + [self.retrying] * RETRYING
        self.threads = [
            threading.Thread(target=self.run, args=(kind, seed), daemon=True)
            for seed, kind in enumerate(kinds)
        ]
        for thread in self.threads:
            thread.start()

    def run(self, kind, seed):
        try:
            kind(random.Random(seed))
        except BaseException as error:  # a client that ends early must not go unnoticed
            with self.lock:
                self.wrong.append(f"a client ended: {error!r}")

    def tensor(self, numbers):
        """A tensor with its sums; each is different, so that another request's answer would be
        wrong."""
        size = numbers.choices(self.sizes, WEIGHTS)[0]
        x = np.full(size, numbers.randrange(1 << 40), np.int64)
        x[:: numbers.randrange(2, 9)] = numbers.randrange(1 << 40)
        return x, np.cumsum(x)

    def count(self, kind, size, right):
        with self.lock:
            self.counts[kind] += right
            if not right:
                self.wrong.append(f"{kind}: {size} elements")

    def failed(self, failures, began, what):
        with self.lock:
            failures.append(Failure(began, time.monotonic(), what))

    def bare(self, numbers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=replicas.PATIENCE)
        while not self.over.wait(self.pause_s):
            x, sums = self.tensor(numbers)
            began = time.monotonic()
            try:
                as_text = len(x) < 100 and numbers.random() < 0.5
                if as_text:
                    connection.request("POST", "/v1/cumsum", json.dumps({"data": x.tolist()}))
                else:
                    path = f"/v1/cumsum?dtype=int64&shape={len(x)}"
                    connection.request("POST", path, x.tobytes(), RAW)
                answer = connection.getresponse()
                data = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.failed(self.failures, began, repr(error))
                connection.close()
                continue
            if answer.status != 200:
                self.failed(self.failures, began, f"{answer.status} {data[:200]!r}")
            elif as_text:
                self.count("bare", len(x), json.loads(data)["data"] == sums.tolist())
            else:
                self.count("bare", len(x), data == sums.tobytes())
        connection.close()

    def retrying(self, numbers):
        with tally.Client(f"http://127.0.0.1:{self.port}") as client:
            while not self.over.wait(self.pause_s):
                x, sums = self.tensor(numbers)
                began = time.monotonic()
                try:
                    answer = client.cumsum(x)
                except tally.TallyError as error:
                    self.failed(self.of_retrying, began, repr(error))
                    continue
                self.count("retrying", len(x), answer.tobytes() == sums.tobytes())

    def more(self, count):
        """Wait for `count` more answers of each kind of client."""
        least = {kind: self.counts[kind] + count for kind in ("bare", "retrying")}
        replicas.until(
            lambda: self.wrong or all(self.counts[kind] >= least[kind] for kind in least),
            f"clients do not get on: {self.counts}, {self.failures[-3:]}",
        )

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(replicas.PATIENCE)


def rolling(fleet, crowd, settings):
    """Restart every replica, one after the other. No request may fail."""
    for _ in range(settings.rounds):
        for replica in fleet.replicas:
            crowd.more(settings.answers)
            replica.terminate()
            replica.start()
            fleet.await_up()
    crowd.more(settings.answers)
    return crowd.failures + crowd.of_retrying


def killing(fleet, crowd, settings):
    """Kill the replicas one after the other. Returns the number of failed requests of bare
    clients that began before HAProxy had noticed the kill, and the list of those that began
    later."""
    under_way, later = 0, []
    for number in range(settings.kills):
        crowd.more(settings.answers)
        before = len(crowd.failures)
        replica = fleet.replicas[number % len(fleet.replicas)]
        replica.kill()
        # when HAProxy answers, it has noticed the closed connections of the replica
        fleet.ask("show info")
        gone = time.monotonic()
        crowd.more(settings.answers)
        replica.start()
        fleet.await_up()
        failures = crowd.failures[before:]
        under_way += sum(failure.began <= gone for failure in failures)
        later += [failure for failure in failures if failure.began > gone]
    return under_way, later


def play(settings):
    namespaces = replicas.inside()
    flags = ["--log-requests=false", "--cpus", "1", "--trusted-proxies", "10.0.0.0/8"]
    if settings.short:
        flags += ["--drain-delay-ms", str(SHORT_DELAY_MS)]
    with tempfile.TemporaryDirectory(prefix="tally-fleet-") as folder:
        adapt = SHORT if settings.short else None
        with replicas.Fleet(
            folder, namespaces, settings.binary, settings.root, flags, adapt
        ) as fleet:
            crowd = Crowd(fleet.port, *settings.requests)
            began = time.monotonic()
            lost = rolling(fleet, crowd, settings)
            restarted = time.monotonic()
            restarts = dict(crowd.counts)
            bare_before = len(crowd.failures)
            under_way, later = killing(fleet, crowd, settings)
            crowd.stop()
            killed = time.monotonic()
    return {
        "network": "namespaces" if namespaces else "loopback",
        "program": str(settings.root or settings.binary),
        "restarts": settings.rounds * len(fleet.replicas),
        "restart_seconds": round(restarted - began, 1),
        "right_in_restarts": restarts,
        "lost_in_restarts": [dataclasses.asdict(failure) for failure in lost],
        "kills": settings.kills,
        "kill_seconds": round(killed - restarted, 1),
        "right_in_all": dict(crowd.counts),
        "failed_under_way": under_way,
        "failed_later": [dataclasses.asdict(failure) for failure in later],
        "whats": sorted({failure.what for failure in crowd.failures[bare_before:]}),
        "failed_retrying": [dataclasses.asdict(failure) for failure in crowd.of_retrying],
        "wrong": crowd.wrong,
        "bare_clients": BARE,
    }


def faults(found):
    """Sentences about violated requirements."""
    if found["wrong"]:
        yield f"wrong answers: {found['wrong'][:5]}"
    if found["lost_in_restarts"]:
        yield f"lost in the rolling restart: {found['lost_in_restarts'][:5]}"
    if found["failed_later"]:
        yield f"failed, though it began after the kill: {found['failed_later'][:5]}"
    if found["failed_under_way"] > found["kills"] * found["bare_clients"]:
        yield f"{found['failed_under_way']} failed of {found['bare_clients']} clients"
    if found["failed_retrying"]:
        yield f"clients that retry saw: {found['failed_retrying'][:5]}"


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--short", action="store_true", help="some seconds, for the test suite")
    add("--rounds", type=int, help="rolling restarts of all replicas (3)")
    add("--kills", type=int, help="(12)")
    add("--root", type=pathlib.Path, help="file system of the image; needs root")
    add("--binary", type=pathlib.Path, default=replicas.load.BIN / "tallyd")
    add("--json", type=pathlib.Path)
    settings = parser.parse_args()
    settings.rounds = settings.rounds or (1 if settings.short else 3)
    settings.kills = settings.kills or (2 if settings.short else 12)
    settings.answers = 50 if settings.short else 500
    settings.requests = (SHORT_SIZES, SHORT_PAUSE_S) if settings.short else (SIZES, 0)
    return settings


def main():
    settings = arguments()
    found = play(settings)
    print(json.dumps(found, indent=1))
    if settings.json:
        settings.json.write_text(json.dumps(found))
    bad = list(faults(found))
    print("\n".join(bad) or "nothing lost, nothing wrong", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
