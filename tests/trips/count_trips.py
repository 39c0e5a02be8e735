#!/usr/bin/env python3
"""Count how often a request's control enters another file of server/, and by which functions.

    make trips [ARGS=--list]       --list: all calls in order

A call counts if it enters a file of server/ other than that of its caller, or if its caller is
libuv, libmicrohttpd, proto/ or kernels/ (a callback). A return counts if the file to which it
returns makes another such call before it returns itself. Not counted: inline functions of
headers; the main thread; a call that repeats the one before it with all nested calls, as in a
loop over fields; and, for callbacks and calls of http_loop.c, a repetition of any earlier call,
as for the pieces of a long body. Each trip is measured several times, after another request on
its connection; the one with the fewest calls is reported, since no heartbeat of the loop
interrupted it.
"""

import collections
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = TOP / "build/trips"
sys.path.insert(0, str(TOP / "tests" / "integration"))

from support.tallyd import Tallyd  # noqa: E402

RETURNED = 1 << 63
QUIET_SECONDS = 0.05  # pause after an answer, in which all remaining effects of the trip happen
TAKEN = 16  # measurements of each trip
JSON, RAW = "application/json", "application/octet-stream"
DATA = b'{"data":[[1,2,3,4],[5,6,7,8],[9,10,11,12]]}'
PART = "?dtype=float32&shape=16,16&axis=1&part="
LONG = "?dtype=float32&axis=1&shape=1024,"
CARRY = "Tally-Carry-Length"
TRIPS = {  # query, type, body, announced length of the body
    "3x4 JSON, 48 bytes": ("", JSON, DATA, len(DATA)),
    "raw POST of 8 MiB": (LONG + "2048", RAW, bytes(8 << 20), 8 << 20),
    "413 before 100 MiB": (LONG + "25600", RAW, b"", 100 << 20),
    "part with a carry": (PART + "next", RAW, None, 0),  # created from the answer to the first part
}


def ask(wire, query, kind, body, length, carry=0):
    """Send a request; returns the length of the answer's carry, and the answer's body."""
    fields = [f"Content-Length: {length}", f"Content-Type: {kind}", "Host: tally"]
    fields += [f"{CARRY}: {carry}"] if carry else []
    wire.sendall("\r\n".join([f"POST /v1/cumsum{query} HTTP/1.1", *fields, "", ""]).encode() + body)
    with wire.makefile("rb") as file:
        lines = [line.decode().strip() for line in iter(file.readline, b"\r\n")]
        head = dict(line.split(": ", 1) for line in lines[1:])
        assert lines[0].split()[1] == ("200" if len(body) == length else "413"), lines
        return int(head.get(CARRY, 0)), file.read(int(head["Content-Length"]))


def take_trip(port, query, kind, body, length):
    """Make one trip; returns its begin and end in nanoseconds."""
    with socket.create_connection(("127.0.0.1", port)) as wire:
        carry, answer = ask(wire, PART + "first", RAW, bytes(1024), 1024)
        time.sleep(QUIET_SECONDS)
        begin = time.monotonic_ns()
        if body is None:
            ask(wire, query, kind, answer[:carry] + bytes(1024), carry + 1024, carry)
        else:
            ask(wire, query, kind, body, length)
        time.sleep(QUIET_SECONDS)
        return begin, time.monotonic_ns()


def find_places(addresses):
    """(file, function) of each address."""
    command = ["addr2line", "-f", "-e", BUILD / "bin/tallyd", *map(hex, addresses)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    files = [line.rsplit(":", 1)[0].removeprefix(f"{TOP}/") for line in lines[1::2]]
    return dict(zip(addresses, zip(files, lines[0::2])))


class Call:
    """A call into another file, with that file's calls into further files; calls within the file
    are not recorded."""

    def __init__(self, place):
        self.file, self.function = place
        self.calls = []

    def shape(self):
        return (self.file, self.function, tuple(call.shape() for call in self.calls))


def tree_of(functions, places):
    """The calls from outside server/, with all nested calls."""
    stack = [root := Call(("", ""))]
    for function in functions:
        if function & RETURNED:
            del stack[max(1, len(stack) - 1) :]
        elif places[function][0] == stack[-1].file:
            stack.append(stack[-1])
        else:
            stack[-1].calls.append(Call(places[function]))
            stack.append(stack[-1].calls[-1])
    return root


class Count:
    def __init__(self):
        self.returns, self.lines, self.files, self.seen = 0, [], collections.Counter(), set()

    def walk(self, call, depth):
        before = None
        for inner in call.calls:
            shape = inner.shape()
            top = call.file in ("", "server/http/http_loop.c")
            repeats = (call.function, shape) in self.seen if top else shape == before
            before = shape
            self.seen.add((call.function, shape))
            if repeats or inner.file == "server/service.c":
                continue
            self.lines.append(f"{'  ' * depth}{inner.file}  {inner.function}()")
            count = len(self.lines)
            self.walk(inner, depth + 1)
            if call.file == "" and len(self.lines) == count and inner.function in self.seen:
                self.lines.pop()  # the call was a run of the loop without new events
                continue
            self.seen.add(inner.function)
            self.files[inner.file] += 1
            self.returns += call.file != "" and inner is not call.calls[-1]


def main():
    with tempfile.TemporaryDirectory() as folder:
        env = {"LD_PRELOAD": str(BUILD / "tests/liblog_calls.so"), "LOG_CALLS": folder}
        flags = ["--log-requests", "false", "--max-body-bytes", "64MiB", "--http-loops", "1"]
        with tempfile.NamedTemporaryFile() as log:
            server = Tallyd(log.name, flags, env, str(BUILD / "bin/tallyd"))
            try:
                spans = [(name, *take_trip(server.port, *TRIPS[name])) for name in [*TRIPS] * TAKEN]
            finally:
                server.stop()
        logs = [
            struct.iter_unpack("<QQ", path.read_bytes()) for path in pathlib.Path(folder).iterdir()
        ]
        threads = [[event for event in events if event[0] != 0] for events in logs]
    places = find_places({f & ~RETURNED for events in threads for _, f in events})
    for name in TRIPS:
        counts = []
        for _, begin, end in [span for span in spans if span[0] == name]:
            counts.append(Count())
            for events in threads:
                counts[-1].walk(tree_of([f for ns, f in events if begin <= ns < end], places), 0)
        best = min(counts, key=lambda count: len(count.lines))
        print("\n".join(best.lines if "--list" in sys.argv else []))
        most = ", ".join(f"{pathlib.Path(f).name} {n}" for f, n in best.files.most_common(6))
        print(
            f"{name}: {len(best.lines)} calls, {best.returns} returns, {len(best.files)} files; {most}"
        )


if __name__ == "__main__":
    main()
