#!/usr/bin/env python3
"""How often a request's control enters another file of server/, and by which functions.

    make trips [ARGS='--list']

A call counts if it enters another file of server/ than the function that made it; a callback of libuv,
libmicrohttpd, proto/ or kernels/ counts as well. A return counts if the file that control returns to makes
another such call before it returns itself. Not counted: inline functions of headers; the main thread;
a call that repeats the one before it, with all that both call, as in a loop over fields; and, among
callbacks and calls of http_loop.c, one that repeats any before it, as for the pieces of a long body. Each trip
is taken several times, after another request on its connection; the one with the fewest calls counts, which no
heartbeat of the loop has met. --list prints all calls in order.
"""

import argparse
import collections
import contextlib
import json
import os
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
QUIET_SECONDS = 0.05  # behind an answer: all that the trip causes has happened by then
TAKEN = 16  # times that each trip is taken
MAIN_FILE = "server/service.c"
LOOP_FILE = "server/http/http_loop.c"


class Wire:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb")

    def ask(self, path, fields, body, sent=None):
        """The answer's header fields and body. sent: the bytes to send of the body, None for all."""
        lines = [f"POST {path} HTTP/1.1", "Host: tally", f"Content-Length: {len(body)}", *fields]
        head = "\r\n".join([*lines, "", ""]).encode()
        self.socket.sendall(head + (body if sent is None else body[:sent]))
        status = self.file.readline().decode()
        answer = {}
        for line in iter(self.file.readline, b"\r\n"):
            name, value = line.decode().split(":", 1)
            answer[name.lower()] = value.strip()
        return status, answer, self.file.read(int(answer["content-length"]))


RAW = "Content-Type: application/octet-stream"


def ask_json(wire, _carry):
    body = json.dumps(
        {"data": [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]}, separators=(",", ":")
    )
    return wire.ask("/v1/cumsum", ["Content-Type: application/json"], body.encode())


def ask_raw(wire, _carry):
    return wire.ask("/v1/cumsum?dtype=float32&shape=1024,2048&axis=1", [RAW], bytes(8 << 20))


def ask_too_much(wire, _carry):
    body = bytes(100 << 20)
    return wire.ask("/v1/cumsum?dtype=float32&shape=1024,25600&axis=1", [RAW], body, sent=0)


def first_carry(wire):
    query = "/v1/cumsum?dtype=float32&shape=16,16&axis=1&part=first"
    _, head, answer = wire.ask(query, [RAW], bytes(16 * 16 * 4))
    return answer[: int(head["tally-carry-length"])]


def ask_part(wire, carry):
    query = "/v1/cumsum?dtype=float32&shape=16,16&axis=1&part=next"
    fields = [RAW, f"Tally-Carry-Length: {len(carry)}"]
    return wire.ask(query, fields, carry + bytes(16 * 16 * 4))


TRIPS = [
    ("3x4 JSON, 48 bytes", ask_json, "200"),
    ("raw POST of 8 MiB", ask_raw, "200"),
    ("413 before 100 MiB", ask_too_much, "413"),
    ("part with a carry", ask_part, "200"),
]


def take_trips(port):
    """(name, begin, end) of each trip, in nanoseconds."""
    spans = []
    for name, ask, expected in TRIPS * TAKEN:
        wire = Wire(port)
        carry = first_carry(wire)
        time.sleep(QUIET_SECONDS)
        begin = time.monotonic_ns()
        status, _, _ = ask(wire, carry)
        assert expected in status, (name, status)
        time.sleep(QUIET_SECONDS)
        spans.append((name, begin, time.monotonic_ns()))
        wire.socket.close()
    return spans


class Places:
    """(file, function) of addresses."""

    def __init__(self, program, addresses):
        command = ["addr2line", "-f", "-e", program, *map(hex, sorted(addresses))]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split(
            "\n"
        )
        self.places = {}
        for address, function, place in zip(sorted(addresses), lines[0::2], lines[1::2]):
            path = os.path.normpath(place.rsplit(":", 1)[0])
            self.places[address] = (os.path.relpath(path, TOP), function)

    def __getitem__(self, address):
        return self.places[address]


class Call:
    """A call into another file, with the calls out of that file again; those inside it are left out."""

    def __init__(self, place):
        self.file, self.function = place
        self.calls = []

    def shape(self):
        return (self.file, self.function, tuple(call.shape() for call in self.calls))


def read_events(path):
    data = path.read_bytes()
    for ns, function in struct.iter_unpack("<QQ", data):
        if ns == 0:
            return
        yield ns, function


def tree_of(events, places):
    """The calls that no function of server/ made, with all that they led to."""
    root = Call(("", ""))
    stack = [root]
    for function in events:
        if function & RETURNED:
            if len(stack) > 1:
                stack.pop()
        elif places[function][0] == stack[-1].file:
            stack.append(stack[-1])
        else:
            call = Call(places[function])
            stack[-1].calls.append(call)
            stack.append(call)
    return root


class Count:
    def __init__(self):
        self.calls, self.returns, self.files, self.lines = 0, 0, collections.Counter(), []
        self.seen, self.roots = set(), set()

    def repeats(self, call, before, shape):
        if call.file in ("", LOOP_FILE):
            key = (call.function, shape)
            known = key in self.seen
            self.seen.add(key)
            return known
        return before == shape

    def walk(self, call, depth):
        before = None
        for index, inner in enumerate(call.calls):
            shape = inner.shape()
            repeated, before = self.repeats(call, before, shape), shape
            if repeated or inner.file == MAIN_FILE:
                continue
            self.calls += 1
            self.files[inner.file] += 1
            self.lines.append(f"{'  ' * depth}{inner.file}  {inner.function}()")
            calls_before = self.calls
            self.walk(inner, depth + 1)
            self.returns += call.file != "" and index + 1 < len(call.calls)
            if call.file == "" and self.calls == calls_before and inner.function in self.roots:
                self.calls -= 1  # a turn of the loop with nothing new
                self.files[inner.file] -= 1
                self.lines.pop()
            self.roots.add(inner.function)


def count_trip(threads, places, begin, end):
    count = Count()
    for events in threads:
        count.walk(tree_of([f for ns, f in events if begin <= ns < end], places), 0)
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print every call")
    args = parser.parse_args()
    program = str(BUILD / "bin/tallyd")
    with tempfile.TemporaryDirectory() as folder:
        calls = pathlib.Path(folder) / "calls"
        calls.mkdir()
        env = {"LD_PRELOAD": str(BUILD / "tests/liblog_calls.so"), "LOG_CALLS": str(calls)}
        flags = ["--log-requests", "false", "--max-body-bytes", "64MiB", "--http-loops", "1"]
        with contextlib.ExitStack() as stack:
            server = Tallyd(f"{folder}/log", flags, env, program)
            stack.callback(server.stop)
            spans = take_trips(server.port)
        threads = [list(read_events(path)) for path in sorted(calls.iterdir())]
    places = Places(program, {f & ~RETURNED for events in threads for _, f in events})
    for name, _, _ in TRIPS:
        counts = [count_trip(threads, places, *span[1:]) for span in spans if span[0] == name]
        count = min(counts, key=lambda each: each.calls)
        if args.list:
            print("\n".join(count.lines))
        most = ", ".join(f"{pathlib.Path(f).name} {n}" for f, n in count.files.most_common(6))
        print(
            f"{name}: {count.calls} calls, {count.returns} returns, {len(count.files)} files; {most}"
        )


if __name__ == "__main__":
    main()
