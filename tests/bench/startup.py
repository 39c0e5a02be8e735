"""(e) Start to ready with an empty and a kept kernel cache, memory, and what the first request of
a kind costs before its kernel is built or loaded.
"""

import os
import tempfile
import time
import urllib.request

import load
import works
from report import Goal, Row, spread
from works import RAW

WARM_STARTS = 7
COLD_STARTS = 3
TENSORS = [
    ("float32", "16384,1024", 1, 4 << 24),
    ("float32", "1048576,16", 1, 4 << 24),
    ("float32", "1048576,3", 0, 12 << 20),
    ("float64", "4096,1024", 0, 8 << 22),
]


def starts(cache, env, count):
    """Seconds to ready, and idle memory in MB."""
    seconds, idle = [], []
    for _ in range(count):
        with load.tallyd("--kernel-cache", cache, env=env) as (child, _):
            seconds.append(child.ready_seconds)
            time.sleep(0.2)
            idle.append(load.rss_bytes(child.pid) / 1e6)
    return seconds, idle


def fresh(folder, name):
    """A cache of its own: where it is, and the environment that keeps the driver's beside it."""
    home = os.path.join(folder, name)
    return os.path.join(home, "tally"), {
        "POCL_CACHE_DIR": os.path.join(home, "pocl"),
        "XDG_CACHE_HOME": home,
    }


def start_rows(folder, settings):
    cold = []
    for i in range(1 if settings.quick else COLD_STARTS):
        settings.note("cold start")
        cache, env = fresh(folder, f"start{i}")
        cold += starts(cache, env, 1)[0]
    settings.note("warm start")
    warm, idle = starts(cache, env, 3 if settings.quick else WARM_STARTS)
    yield Row("cold start to ready, s", "", **spread(cold), goal=Goal("<", 3))
    yield Row("warm start to ready, s", "", **spread(warm), goal=Goal("<", 0.5))
    yield Row("RSS idle, MB", "", **spread(idle), goal=Goal("<", 120))


def loaded_rows(folder, settings):
    settings.note("memory under load")
    cache, env = fresh(folder, "start0")
    with load.tallyd("--kernel-cache", cache, env=env) as (child, base):
        for name, count, c, field in (
            ("RSS after small raw requests c=64, MB", 12, 64, "VmRSS"),
            ("peak RSS with raw 64 MiB c=2, MB", 64 << 18, 2, "VmHWM"),
        ):
            url = base + "/v1/cumsum" + works.raw_query(count)
            with load.body_file(works.raw_body(count)) as body:
                load.wrk(url, body, content_type=RAW, seconds=3, connections=c)
            yield Row(name, "", load.rss_bytes(child.pid, field) / 1e6)


def send(base, dtype, shape, axis, size):
    """Milliseconds of one raw request."""
    url = f"{base}/v1/cumsum?dtype={dtype}&shape={shape}&axis={axis}"
    request = urllib.request.Request(url, bytes(size), {"Content-Type": RAW})
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as answer:
        if len(answer.read()) != size:
            raise RuntimeError(f"{url}: a short answer")
    return (time.perf_counter() - began) * 1e3


def first_rows(folder, settings):
    """The first request of each tensor on an empty cache, then on the one that it left."""
    cache, env = fresh(folder, "first")
    for name in ("empty", "kept"):
        settings.note(f"first requests, {name} cache")
        with load.tallyd("--kernel-cache", cache, env=env) as (_, base):
            load.wait_built(base)  # the generic kernels of the other types
            for tensor in TENSORS:
                first = send(base, *tensor)
                began = time.perf_counter()
                load.wait_built(base)
                built = time.perf_counter() - began
                after = min(send(base, *tensor) for _ in range(3))
                yield Row(
                    f"first {tensor[0]} {tensor[1]} axis {tensor[2]}, {name} cache",
                    "later ones",
                    first / after,
                    notes=f"{first:.0f} ms, kernel there {built:.2f} s after, then {after:.0f} ms",
                    first_ms=first,
                    built_s=built,
                    after_ms=after,
                )


def section(settings):
    with tempfile.TemporaryDirectory() as folder:
        rows = [*start_rows(folder, settings), *loaded_rows(folder, settings)]
        return rows + ([] if settings.quick else list(first_rows(folder, settings)))
