"""(h) The fixed cost of a call: libraries in the caller's own process, and Tally from Python over
TCP, over a Unix socket, through shared memory, and with arrays allocated in shared memory
(Client.empty).

The input is one line of float32. Libraries and Tally are called alternately, as in compute.py,
and their outputs are compared. Tally adds in float64, which is its default. Each call of Tally
verifies the answer and writes it into an array of the caller.
"""

import contextlib
import functools
import json
import os
import sys
import tempfile
import time

import numpy as np

import load
from compute import Engine, folder, rounds_of
from report import Row, failed, spread
from tables import WAYS

sys.path.insert(0, str(load.ROOT / "client" / "python"))
import tally  # noqa: E402

SIZES = (1000, 100_000, 1_000_000, 16 << 20)
THERE = WAYS[-1]
ENGINES = ("numpy", "onnxruntime", "openvino")
SEED = 1


@contextlib.contextmanager
def clients():
    """Yield {way: client} for one tallyd."""
    with tempfile.TemporaryDirectory(prefix=load.PREFIX) as where, contextlib.ExitStack() as opened:
        path = f"{where}/tally.sock"
        flags = ("--listen", f"unix:{path}", "--allow-client-shm", "--shm-zero-copy")
        _, base = opened.enter_context(load.tallyd(*flags))
        made = (
            tally.Client(base),
            tally.Client(f"unix:{path}"),
            tally.Client(base, shm=True),
            tally.Client(base, shm=True),
        )
        yield {way: opened.enter_context(client) for way, client in zip(WAYS, made)}


def timed(client, x, out):
    began = time.perf_counter()
    client.cumsum(x, 0, out=out)
    return str(time.perf_counter() - began)


def measure(where, engines, ways, settings, count):
    """Returns the seconds of each library and each way in each round, and the reasons of those
    that failed or gave different sums."""
    x = np.random.default_rng(SEED).integers(-8, 8, count).astype(np.float32)
    source = os.path.join(where, "x")
    x.tofile(source)
    expected = np.cumsum(x, dtype=np.float64).astype(np.float32)
    calls, lost = {}, {}
    for name, engine in engines.items():
        output = os.path.join(where, name)
        case = {
            "dtype": "float32",
            "shape": [count],
            "axis": 0,
            "input": source,
            "output": output,
        }
        reason = engine.prepare({**case, "exclusive": False, "reverse": False})
        if reason is None and not np.array_equal(np.fromfile(output, np.float32), expected):
            reason = "its sums differ"
        if reason:
            lost[name] = reason.removeprefix("no: ")
        else:
            calls[name] = lambda engine=engine: engine.attempt("go")
    for way, client in ways.items():
        new = client.empty if way == THERE else np.empty
        given, out = new(x.shape, x.dtype), new(x.shape, x.dtype)
        given[...] = x
        timed(client, given, out)
        if np.array_equal(out, expected):
            calls[way] = functools.partial(timed, client, given, out)
        else:
            lost[way] = "its sums differ"
    times, late = rounds_of(calls, settings)
    return times, {**lost, **late}


def row_of(count, times, lost):
    seconds = {name: spread(seen)["ratio"] for name, seen in times.items()}
    inside = [name for name in ENGINES if name in seconds]
    remote = [name for name in WAYS if name in seconds]
    work = f"{count} elements"
    if not inside or not remote:
        return failed(work, "", json.dumps(lost))
    engine, way = min(inside, key=seconds.get), min(remote, key=seconds.get)
    ratios = [peer / ours for peer, ours in zip(times[engine], times[way])]
    notes = [f"{name} {value * 1e6:.0f} us" for name, value in seconds.items()]
    notes += [f"{name}: {why}" for name, why in lost.items()]
    return Row(
        f"{work}, {way}",
        engine,
        **spread(ratios),
        notes=", ".join(notes),
        elements=count,
        seconds=seconds,
    )


def section(settings):
    engines = {name: Engine(settings.python, name) for name in settings.engines or ENGINES}
    rows = []
    try:
        with folder() as where, clients() as ways:
            for count in SIZES:
                settings.note(f"{count} elements")
                rows.append(row_of(count, *measure(where, engines, ways, settings, count)))
    finally:
        for engine in engines.values():
            engine.close()
    return rows
