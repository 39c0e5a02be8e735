#!/usr/bin/env python3
"""The cost of a collector that hangs, when every request is sampled: processor time per small
request.

    make bench-tools && build/venv/bin/python tests/bench/traces.py [--lives 24]

Three tallyds are under load at once and share one core, so that noise affects all of them; their
clients use another core. Two of them have no collector; their ratio shows the accuracy of the
measurement. The collector of the third accepts a connection and then does nothing. Each life
starts three new processes, since two processes of the same program can differ by a hundredth as
long as they live. The collector's first batch fills and is sent in the first turn of a life, the
next ten seconds later. The cost of a batch is therefore measured separately and added in
proportion.
"""

import argparse
import contextlib
import json
import math
import socket
import statistics
import struct
import subprocess

import load
import works

TRACEPARENT = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
GOAL = 1  # largest cost of the collector, in per cent of the processor time
TURNS = 4  # turns of a life after the first one, in which the first batch is sent
BATCH_S = 10  # time between two batches
SECONDS = 0.4  # length of a turn
CONNECTIONS = 12  # connections of each client
RECORD = struct.Struct("=5QIHH")  # layout of a record in tests/load/load_client.h


def begin(child, base, files):
    command = ["taskset", "-c", "1", load.BIN / "load_client", "--port", base.split(":")[2]]
    command += ["--connections", CONNECTIONS, "--warm", 0, "--seconds", SECONDS, "--cool", 1]
    command += ["--server", child.pid, ",".join(["1", "-", *files])]
    return load.start(command, stdout=subprocess.PIPE)


def end(client):
    """(processor seconds of the server, requests that it answered)."""
    try:
        output = client.communicate(timeout=30)[0]
    finally:
        load.end(client, patience=0)
    line, records = output.split(b"\n", 1)
    window = json.loads(line)
    answered = [
        record
        for record in RECORD.iter_unpack(records)
        if window["begin_ns"] <= record[2] < window["end_ns"]
    ]
    statuses = {record[6] for record in answered}
    if statuses != {200}:
        raise RuntimeError(f"answers of status {statuses}: {answered[-1:]}, {window}")
    return window["server_cpu_s"], len(answered)


def live(flags, files):
    """Start new processes with these flags: (processor seconds, requests) of each turn."""
    with contextlib.ExitStack() as stack:
        sides = {}
        for name, more in flags.items():
            sides[name] = stack.enter_context(load.tallyd("--log-requests", "false", *more))
            subprocess.run(
                ["taskset", "-a", "-p", "-c", "0", str(sides[name][0].pid)],
                capture_output=True,
                check=True,
            )
        turns = {name: [] for name in sides}
        for number in range(1 + TURNS):
            names = list(sides)[:: 1 if number % 2 else -1]
            clients = {name: begin(*sides[name], files) for name in names}
            for name, client in clients.items():
                turns[name].append(end(client))
    return turns


def request_s(turns):
    """Processor time per request after the first batch was sent."""
    return sum(cpu for cpu, _ in turns[1:]) / sum(count for _, count in turns[1:])


def first_s(turns):
    """Additional processor time of the first turn, compared with the others."""
    cpu, count = turns[0]
    return cpu - count * request_s(turns)


def middle(values):
    """The median and its 95 % confidence interval."""
    values = sorted(values)
    low = max(math.floor(len(values) / 2 - 0.98 * math.sqrt(len(values))), 0)
    median = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
    return f"{median:.4f} ({values[low]:.4f} to {values[-1 - low]:.4f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lives", type=int, default=24)
    count = parser.parse_args().lives
    data = works.raw_body(12)
    path = "/v1/cumsum" + works.raw_query("3,4")
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {works.RAW}\r\n{TRACEPARENT}"
    with contextlib.ExitStack() as stack:
        hole = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=2 * count))
        hanging = ("--otlp-endpoint", f"http://127.0.0.1:{hole.getsockname()[1]}")
        head_file = stack.enter_context(
            load.body_file(f"{head}Content-Length: 48\r\n\r\n".encode())
        )
        files = head_file, stack.enter_context(load.body_file(data))
        flags = {"none": (), "again": (), "hangs": hanging}
        names = list(flags)
        lives = []
        for number in range(count):
            order = names[number % 3 :] + names[: number % 3]
            lives.append(live({name: flags[name] for name in order}, files))
    least = min(request_s(life["none"]) for life in lives)
    print(f"no collector: {least * 1e6:.2f} us of a processor a request, at best")
    again = [request_s(life["again"]) / request_s(life["none"]) for life in lives]
    print(f"the one without a collector ÷ the other: {middle(again)}")
    ratios = [
        request_s(life["hangs"])
        / statistics.geometric_mean([request_s(life["none"]), request_s(life["again"])])
        for life in lives
    ]
    print(f"a collector that hangs ÷ no collector: {middle(ratios)}")
    batches = [1e3 * (first_s(life["hangs"]) - first_s(life["none"])) for life in lives]
    print(f"a batch, in ms of a processor each {BATCH_S} s: {middle(batches)}")
    cost = statistics.median(ratios) - 1 + statistics.median(batches) / BATCH_S / 1e3
    print(f"a collector that hangs costs {100 * cost:.2f} % in all (goal {GOAL} %)")


if __name__ == "__main__":
    main()
