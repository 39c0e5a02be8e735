"""(g) Sums in parts: libtally against one request, the cost of a carry against the same number of
tensor bytes, and the command with a file and with text."""

import ctypes
import os
import pathlib
import shutil
import tempfile
import threading
import time

import load
from report import Goal, Row, failed, spread

MIB = 1 << 20
ROUNDS = 3
CARRY_ROUNDS = 7  # more rounds, as each takes a tenth of a second
LINES = 10**6
FLOAT32 = 2  # enum tally_dtype
SETTINGS = ("--max-body-bytes", "2GiB", "--memory-budget", "6GiB")


class Scan(ctypes.Structure):
    """struct tally_scan"""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int32),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("output_strides", ctypes.c_void_p),
        ("axis", ctypes.c_int64),
        ("exclusive", ctypes.c_int32),
        ("reverse", ctypes.c_int32),
        ("input_bytes", ctypes.c_uint64),
        ("output_bytes", ctypes.c_uint64),
        ("deadline_ms", ctypes.c_int64),
        ("progress", ctypes.c_void_p),
        ("progress_user", ctypes.c_void_p),
    ]


class Library:
    """libtally with a client of its server. Buffers hold zeros; sums are written in place."""

    def __init__(self, url):
        self.calls = ctypes.CDLL(str(load.BIN.parent / "lib" / "libtally.so"))
        for name in ("tally_open", "tally_parts_open"):
            getattr(self.calls, name).restype = ctypes.c_void_p
        self.error = ctypes.create_string_buffer(4096)
        self.client = ctypes.c_void_p(self.calls.tally_open(url.encode(), None, self.error))

    def scan(self, sizes, axis):
        return Scan(
            ctypes.sizeof(Scan),
            FLOAT32,
            len(sizes),
            (ctypes.c_int64 * len(sizes))(*sizes),
            axis=axis,
        )

    def check(self, status, error):
        if status != 0:
            raise RuntimeError(f"libtally: {error.raw[100:].decode(errors='replace')}")

    def cumsum(self, sizes, axis, buffer):
        error = ctypes.create_string_buffer(4096)
        scan = self.scan(sizes, axis)
        self.check(
            self.calls.tally_cumsum(self.client, ctypes.byref(scan), buffer, buffer, error),
            error,
        )

    def lane(self, sizes, axis):
        error = ctypes.create_string_buffer(4096)
        scan = self.scan(sizes, axis)
        return ctypes.c_void_p(self.calls.tally_parts_open(self.client, ctypes.byref(scan), error))

    def next_parts(self, lane, counts, buffer, step):
        """Send the next parts of a lane, with these numbers of elements; parts are `step` bytes
        apart."""
        error = ctypes.create_string_buffer(4096)
        for i, count in enumerate(counts):
            at = ctypes.byref(buffer, i * step)
            self.check(
                self.calls.tally_parts_next(lane, ctypes.c_int64(count), at, at, error),
                error,
            )

    def parts(self, sizes, axis, counts, buffer, step):
        lane = self.lane(sizes, axis)
        self.next_parts(lane, counts, buffer, step)
        self.calls.tally_parts_close(lane)


def timed(call):
    began = time.perf_counter()
    call()
    return {"seconds": time.perf_counter() - began}


def side_by_side(calls):
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def against_one(library, part_mib, rounds, quick):
    """Sum two lines in parts, with one part of each line in flight, and compare with one
    request for both lines."""
    line = (64 if quick else 512) * MIB
    buffers = [ctypes.create_string_buffer(line) for _ in range(2)]
    whole = ctypes.create_string_buffer(2 * line)
    part = part_mib * MIB
    lane = [
        lambda b=b: library.parts([0], 0, [part // 4] * (line // part), b, part) for b in buffers
    ]
    runs = {
        "parts": lambda: timed(lambda: side_by_side(lane)),
        "one": lambda: timed(lambda: library.cumsum([2, line // 4], 1, whole)),
    }
    for run in runs.values():
        run()
    results = load.interleave(runs, rounds)
    seconds = load.median_by(results["parts"], "seconds")["seconds"]
    return Row(
        f"{2 * line // MIB} MiB in parts of {part_mib} MiB",
        "one request",
        **spread(load.ratios(results, "one", "parts", "seconds")),
        goal=Goal(">=", 0.95),
        notes=f"{2 * line / seconds / 1e6:.0f} MB/s",
        megabytes_per_second=round(2 * line / seconds / 1e6, 1),
    )


def carry(library, rounds):
    """Send a part without elements in the middle of a line: only the carry is transferred, both
    ways."""
    buffer = ctypes.create_string_buffer(16 * LINES)
    lane = library.lane([0, LINES], 0)
    library.next_parts(lane, [0], buffer, 0)
    runs = {
        "carry": lambda: timed(lambda: library.next_parts(lane, [0] * 8, buffer, 0)),
        "bytes": lambda: timed(lambda: [library.cumsum([4, LINES], 0, buffer) for _ in range(8)]),
    }
    for run in runs.values():
        run()
    results = load.interleave(runs, CARRY_ROUNDS * rounds)
    ms = {
        name: load.median_by(found, "seconds")["seconds"] * 125 for name, found in results.items()
    }
    return Row(
        "carry of 1000000 lines",
        "as many bytes of a tensor",
        **spread(load.ratios(results, "bytes", "carry", "seconds")),
        goal=Goal(">=", 1),
        notes=f"{ms['carry']:.1f} ms; {ms['bytes']:.1f} ms",
        carry_ms=round(ms["carry"], 2),
        bytes_ms=round(ms["bytes"], 2),
    )


def file_through(base, folder, rounds, quick):
    """Measure `tally` with a file that is in the page cache. The comparison sends the same file
    with socat over two connections: to a relay, and from the relay to a third process."""
    if shutil.which("socat") is None:
        raise RuntimeError("socat is missing: sh deploy/install-deps.sh test")
    size = (256 if quick else 10240) * MIB
    source = pathlib.Path(folder) / "in.bin"
    with open(source, "wb") as file:
        for _ in range(size // (16 * MIB)):
            file.write(bytes(16 * MIB))
    there, back = load.free_port(), load.free_port()
    pipe, again = f"socat -u -b {MIB}", "retry=500,interval=0.02"
    shape = f"-1,{MIB}"
    ours = [
        load.BIN / "tally",
        "cumsum",
        source,
        "-o",
        "/dev/null",
        "-d",
        "float32",
        "-s",
        shape,
    ]
    ours += ["--axis", "1", "-F", "raw", "-q", "-u", base]
    theirs = f"""{pipe} TCP-LISTEN:{back},reuseaddr - >/dev/null &
        {pipe} TCP-LISTEN:{there},reuseaddr TCP:127.0.0.1:{back},{again} &
        cat {source} | {pipe} - TCP:127.0.0.1:{there},{again}
        wait"""
    runs = {
        "tally": lambda: timed(lambda: load.run(ours, 120)),
        "cat": lambda: timed(lambda: load.run(["sh", "-c", theirs], 120)),
    }
    try:
        results = load.interleave(runs, rounds)
    finally:
        source.unlink()
    seconds = load.median_by(results["tally"], "seconds")["seconds"]
    return Row(
        f"tally, file of {size // MIB} MiB",
        "cat through socat",
        **spread(load.ratios(results, "cat", "tally", "seconds")),
        goal=Goal(">=", 0.8),
        notes=f"{size / seconds / 1e6:.0f} MB/s",
        megabytes_per_second=round(size / seconds / 1e6, 1),
    )


def text(base, folder, rounds):
    """Megabytes of text per second that one core of the client reads, sums and prints."""
    source = pathlib.Path(folder) / "in.txt"
    source.write_text("".join(f"{i * 2654435761 % 1000003 - 500000}\n" for i in range(4 * MIB)))
    command = [
        str(load.BIN / "tally"),
        "cumsum",
        str(source),
        "-f",
        "text",
        "-o",
        "/dev/null",
        "-u",
        base,
    ]
    size, rates = source.stat().st_size, []
    for _ in range(rounds):
        child = load.start(command)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = status
        if status != 0:
            raise RuntimeError(f"tally ended with {status}")
        rates.append(size / 1e6 / (used.ru_utime + used.ru_stime))
    return Row(
        "tally, text: MB/s of the client's processor time",
        "",
        **spread(rates),
        goal=Goal(">=", 50),
        notes=f"{size / 1e6:.0f} MB",
    )


def section(settings):
    rounds = settings.rounds or (1 if settings.quick else ROUNDS)
    rows = []
    with (
        load.tallyd(*SETTINGS) as (
            child,
            base,
        ),
        tempfile.TemporaryDirectory() as folder,
    ):
        library = Library(base)
        steps = {
            "parts of 16 MiB": lambda: against_one(library, 16, rounds, settings.quick),
            "parts of 64 MiB": lambda: against_one(library, 64, rounds, settings.quick),
            "carry": lambda: carry(library, rounds),
            "file": lambda: file_through(base, folder, min(rounds, 2), settings.quick),
            "text": lambda: text(base, folder, rounds),
        }
        for name, step in steps.items():
            if settings.match is not None and settings.match not in name:
                continue
            settings.note(name)
            try:
                rows.append(step())
            except (RuntimeError, OSError) as error:
                rows.append(failed(name, "", error))
                if child.poll() is not None:
                    raise RuntimeError("tallyd has ended") from error
    return rows
