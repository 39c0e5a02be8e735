"""The cost of the Python package compared with bare http.client, and with many callers that share
one client.

    build/venv/bin/python tests/bench/python_client.py [rounds]

Both are measured alternately, so that noise affects both. Processor time is this process's.
"""

import asyncio
import http.client
import json
import pathlib
import statistics
import sys
import tempfile
import threading
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests" / "integration"), str(TOP / "client" / "python")]

import numpy as np  # noqa: E402
import tally  # noqa: E402
from support.tallyd import Tallyd  # noqa: E402

CALLERS = 64
CALLS = 50  # calls of each caller


def turns(works, rounds, repeats):
    """Median (processor, wall) seconds of one call of each work, by name."""
    times = {name: [] for name in works}
    for _ in range(rounds + 2):
        for name, work in works.items():
            processor, wall = time.process_time(), time.perf_counter()
            for _ in range(repeats):
                work()
            spent = time.process_time() - processor, time.perf_counter() - wall
            times[name].append([seconds / repeats for seconds in spent])
    return {
        name: [statistics.median(column) for column in zip(*rows[2:])]
        for name, rows in times.items()
    }


def show(what, times):
    names = list(times)
    ours, bare = times[names[0]], times[names[1]]
    for name, (processor, wall) in times.items():
        print(f"{what}: {name}: processor {processor * 1e6:.0f} us, wall {wall * 1e6:.0f} us")
    print(f"{what}: ratio processor {ours[0] / bare[0]:.2f}, wall {ours[1] / bare[1]:.2f}")


def large(client, connection, rounds):
    x = np.ones(1 << 24, np.float32)
    out = np.empty_like(x)

    def bare():
        headers = {"Content-Type": "application/octet-stream"}
        path = f"/v1/cumsum?dtype=float32&shape={x.size}&axis=0"
        connection.request("POST", path, memoryview(x).cast("B"), headers)
        response = connection.getresponse()
        view, at = memoryview(out).cast("B"), 0
        while at < len(view):
            at += response.readinto(view[at:])

    works = {"tally": lambda: client.cumsum(x, 0, out=out), "http.client": bare}
    show("64 MiB", turns(works, rounds, 1))


def small(client, connection, rounds):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    headers = {"Content-Type": "application/json"}

    def bare():
        body = json.dumps({"data": x.tolist(), "dtype": "float32", "axis": 1})
        connection.request("POST", "/v1/cumsum", body, headers)
        return np.array(json.loads(connection.getresponse().read())["data"], np.float32)

    assert (bare() == client.cumsum(x, 1)).all()
    works = {"tally": lambda: client.cumsum(x, 1), "http.client and json": bare}
    show("3x4", turns(works, rounds, 200))


def threads(client):
    x = np.ones((3, 4), np.float32)

    def call():
        for _ in range(CALLS):
            assert client.cumsum(x, 1)[0, 3] == 4

    callers = [threading.Thread(target=call) for _ in range(CALLERS)]
    began = time.process_time(), time.perf_counter()
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    told(f"{CALLERS} threads", began)


async def tasks(url):
    x = np.ones((3, 4), np.float32)

    async def call(client):
        for _ in range(CALLS):
            assert (await client.cumsum(x, 1))[0, 3] == 4

    async with tally.AsyncClient(url) as client:
        began = time.process_time(), time.perf_counter()
        await asyncio.gather(*(call(client) for _ in range(CALLERS)))
        told(f"{CALLERS} tasks", began)


def told(what, began):
    processor, wall = time.process_time() - began[0], time.perf_counter() - began[1]
    calls = CALLERS * CALLS
    print(f"{what}: {calls / wall:.0f} calls/s, processor {processor / calls * 1e6:.0f} us a call")


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as logs:
        server = Tallyd(pathlib.Path(logs) / "log")
        try:
            url = f"http://127.0.0.1:{server.port}"
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
            with tally.Client(url) as client:
                large(client, connection, rounds)
                small(client, connection, rounds)
                threads(client)
            asyncio.run(tasks(url))
            connection.close()
            server.stop()
        finally:
            server.kill()


if __name__ == "__main__":
    main()
