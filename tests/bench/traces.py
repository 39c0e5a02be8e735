#!/usr/bin/env python3
"""What a collector that hangs costs, where every request is sampled: small requests, in turns of a second.

    build/venv/bin/python tests/bench/traces.py [--rounds 16]

Three tallyds take turns: two without a collector, whose ratio shows what the machine adds by itself, and one whose
collector accepts a connection and then nothing. Processor time a request counts, as it is steadier than the rate.
"""

import argparse
import contextlib
import math
import pathlib
import socket

import load
import works

TRACEPARENT = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
GOAL = 1.01
CONNECTIONS = 32


def processor_ns(pid):
    """Of all threads, finer than the ticks of /proc/PID/stat."""
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def turn(child, base, work, body):
    before = processor_ns(child.pid)
    result = load.wrk(base + work.path, body, **work.wrk_args(1))
    result["ns"] = processor_ns(child.pid) - before
    result["request_ns"] = result["ns"] / result["requests"]
    return result


def middle(values):
    """The median, and between what it lies with 95 %."""
    values = sorted(values)
    reach = 0.98 * math.sqrt(len(values))
    low = max(math.floor(len(values) / 2 - reach), 0)
    median = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
    return f"{median:.4f} ({values[low]:.4f} to {values[-1 - low]:.4f})"


def told(name, results, other, base):
    cost = load.ratios(results, other, base, "request_ns")
    rate = load.ratios(results, other, base, "rps")
    mine, theirs = (
        sum(r["ns"] for r in results[side]) / sum(r["requests"] for r in results[side])
        for side in (other, base)
    )
    print(f"{name}: processor time a request {middle(cost)}, in all {mine / theirs:.4f}")
    print(f"  requests a second {middle(rate)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=16)
    rounds = parser.parse_args().rounds
    path = "/v1/cumsum" + works.raw_query("3,4")
    work = works.raw_work("raw", path, 12, CONNECTIONS, extra=TRACEPARENT)
    with contextlib.ExitStack() as stack:
        hole = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        endpoint = f"http://127.0.0.1:{hole.getsockname()[1]}"
        body = stack.enter_context(load.body_file(work.body))
        quiet = ("--log-requests", "false")
        flags = {"none": (), "again": (), "hangs": ("--otlp-endpoint", endpoint)}
        sides = {name: stack.enter_context(load.tallyd(*quiet, *flags[name])) for name in flags}
        for side in sides.values():
            turn(*side, work, body)
        results = {name: [] for name in sides}
        for number in range(rounds):
            order = list(sides)[:: 1 if number % 2 else -1]
            for name in order:
                results[name].append(turn(*sides[name], work, body))
    per = load.median_by(results["none"], "request_ns")
    print(f"no collector: {per['request_ns'] / 1000:.2f} us, {per['rps']:.0f} requests a second")
    told("no collector again ÷ no collector", results, "again", "none")
    told(f"a collector that hangs ÷ none (goal {GOAL})", results, "hangs", "none")


if __name__ == "__main__":
    main()
