#!/usr/bin/env python3
"""What a collector that hangs costs, where every request is sampled: small requests, in short turns.

    make bench-tools && build/venv/bin/python tests/bench/traces.py [--rounds 48]

Three tallyds take turns on one core, whose client has another: two without a collector, whose ratio shows what the
machine adds by itself, and one whose collector accepts a connection and then nothing.
"""

import argparse
import contextlib
import json
import math
import socket
import struct
import subprocess

import load
import works

TRACEPARENT = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
GOAL = 1.01
SECONDS = 0.25  # of a turn
CONNECTIONS = 32
RECORD = struct.Struct("=5QIHH")  # tests/load/load_client.h


def turn(child, base, files):
    """Processor time a request in nanoseconds, and requests a second."""
    command = ["taskset", "-c", "1", load.BIN / "load_client", "--port", base.split(":")[2]]
    command += ["--connections", CONNECTIONS, "--warm", 0.05, "--seconds", SECONDS, "--cool", 1]
    command += ["--server", child.pid, ",".join(["1", "-", *files])]
    done = subprocess.run(map(str, command), capture_output=True, timeout=30, check=True)
    line, records = done.stdout.split(b"\n", 1)
    window = json.loads(line)
    begin, end = window["begin_ns"], window["end_ns"]
    answered = [r for r in RECORD.iter_unpack(records) if begin <= r[2] < end]
    statuses = {record[6] for record in answered}
    if statuses != {200}:
        raise RuntimeError(f"answers of status {statuses}: {answered[-1:]}, {window}")
    return {
        "cpu": window["server_cpu_s"],
        "requests": len(answered),
        "request_s": window["server_cpu_s"] / len(answered),
        "rps": len(answered) / (end - begin) * 1e9,
    }


def middle(values):
    """The median, and between what it lies with 95 %."""
    values = sorted(values)
    low = max(math.floor(len(values) / 2 - 0.98 * math.sqrt(len(values))), 0)
    median = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
    return f"{median:.4f} ({values[low]:.4f} to {values[-1 - low]:.4f})"


def told(name, results, other, base):
    def in_all(side):
        return sum(r["cpu"] for r in results[side]) / sum(r["requests"] for r in results[side])

    cost = middle(load.ratios(results, other, base, "request_s"))
    rate = middle(load.ratios(results, other, base, "rps"))
    print(f"{name}: processor time a request {cost}, in all {in_all(other) / in_all(base):.4f};")
    print(f"    requests a second {rate}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=48)
    rounds = parser.parse_args().rounds
    data = works.raw_body(12)
    path = "/v1/cumsum" + works.raw_query("3,4")
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {works.RAW}\r\n{TRACEPARENT}"
    with contextlib.ExitStack() as stack:
        hole = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        hanging = ("--otlp-endpoint", f"http://127.0.0.1:{hole.getsockname()[1]}")
        head_file = stack.enter_context(
            load.body_file(f"{head}Content-Length: 48\r\n\r\n".encode())
        )
        files = head_file, stack.enter_context(load.body_file(data))
        flags = {"none": (), "again": (), "hangs": hanging}
        sides = {}
        for name in flags:
            side = load.tallyd("--log-requests", "false", *flags[name])
            sides[name] = stack.enter_context(side)
            subprocess.run(
                ["taskset", "-a", "-p", "-c", "0", str(sides[name][0].pid)],
                capture_output=True,
                check=True,
            )
            turn(*sides[name], files)
        results = {name: [] for name in sides}
        for number in range(rounds):
            for name in list(sides)[:: 1 if number % 2 else -1]:
                results[name].append(turn(*sides[name], files))
    usual = load.median_by(results["none"], "request_s")
    print(f"no collector: {usual['request_s'] * 1e6:.2f} us, {usual['rps']:.0f} requests a second")
    told("no collector again ÷ no collector", results, "again", "none")
    told(f"a collector that hangs ÷ none (goal {GOAL})", results, "hangs", "none")


if __name__ == "__main__":
    main()
