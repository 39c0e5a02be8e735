"""(e) Time from start to ready, memory, and the cost of the first request of a kind compared with
later ones."""

import contextlib
import mmap
import statistics
import tempfile
import time
import urllib.request

import load
import works
from report import Goal, Row, spread
from works import RAW

STARTS = 7
FIRSTS = 5  # number of starts, each followed by a first request for a tensor
LATER = 20  # number of later requests after each first one
TENSORS = [
    ("float32", "16384,1024", 1, 4 << 24),
    ("float32", "16384,1024", 0, 4 << 24),
    ("float32", "1048576,16", 1, 4 << 24),
    ("float32", "1048576,3", 0, 12 << 20),
    ("float32", "16384,1024&strides=1,16384", 1, 4 << 24),
    ("float64", "4096,1024", 0, 8 << 22),
    ("int16", "32768,1024", 1, 2 << 25),
    ("int8", "65536,1024", 0, 1 << 26),
]


@contextlib.contextmanager
def tallyd_as_in_the_image():
    """Run tallyd without PoCL, as in the image. On a test machine, the loader would otherwise
    map 60 MB of PoCL's libraries."""
    with (
        tempfile.TemporaryDirectory() as empty,
        load.tallyd(env={"OCL_ICD_VENDORS": empty}) as both,
    ):
        yield both


def start_rows(settings):
    settings.note("start")
    seconds, idle = [], []
    for _ in range(3 if settings.quick else STARTS):
        with tallyd_as_in_the_image() as (child, _):
            seconds.append(child.ready_seconds)
            time.sleep(0.2)
            idle.append(load.rss_bytes(child.pid) / 1e6)
    yield Row("start to ready, s", "", **spread(seconds), goal=Goal("<", 0.1))
    yield Row("RSS idle, without other drivers, MB", "", **spread(idle), goal=Goal("<", 25))


def loaded_rows(settings):
    settings.note("memory under load")
    with tallyd_as_in_the_image() as (child, base):
        for name, count, c, field in (
            ("RSS after small raw requests c=64, MB", 12, 64, "VmRSS"),
            ("peak RSS with raw 64 MiB c=2, MB", 64 << 18, 2, "VmHWM"),
        ):
            url = base + "/v1/cumsum" + works.raw_query(count)
            with load.body_file(works.raw_body(count)) as body:
                load.wrk(url, body, content_type=RAW, seconds=3, connections=c)
            yield Row(name, "", load.rss_bytes(child.pid, field) / 1e6)


def send(base, dtype, shape, axis, size):
    """Milliseconds that one raw request takes."""
    url = f"{base}/v1/cumsum?dtype={dtype}&shape={shape}&axis={axis}"
    request = urllib.request.Request(url, bytes(size), {"Content-Type": RAW})
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as answer:
        if len(answer.read()) != size:
            raise RuntimeError(f"{url}: a short answer")
    return (time.perf_counter() - began) * 1e3


def touch_new_pages(size):
    """Milliseconds that any program pays on this machine for unused memory: the host of a virtual
    machine may have reclaimed its pages (free page reporting) and has to find others."""
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        began = time.perf_counter()
        for page in range(0, size, mmap.PAGESIZE):
            memory[page] = 1
        return (time.perf_counter() - began) * 1e3


def first_rows(settings):
    """The first request of each tensor after a start, compared with later ones. The first includes
    the machine's cost for new memory."""
    settings.note("first requests")
    for tensor in TENSORS:
        ratios, firsts, laters, pages = [], [], [], []
        for _ in range(FIRSTS):
            pages.append(touch_new_pages(tensor[3]))
            with load.tallyd() as (_, base):
                firsts.append(send(base, *tensor))
                laters.append(statistics.median(send(base, *tensor) for _ in range(LATER)))
            ratios.append(laters[-1] / firsts[-1])
        first, later = statistics.median(firsts), statistics.median(laters)
        yield Row(
            f"first {tensor[0]} {tensor[1]} axis {tensor[2]}",
            "later ones",
            **spread(ratios),
            goal=Goal(">=", 0.8),
            notes=f"{first:.0f} ms, then {later:.0f} ms; its bytes in new pages "
            f"{statistics.median(pages):.0f} ms",
            first_ms=first,
            later_ms=later,
        )


def section(settings):
    rows = [*start_rows(settings), *loaded_rows(settings)]
    return rows + ([] if settings.quick else list(first_rows(settings)))
