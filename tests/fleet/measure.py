#!/usr/bin/env python3
"""What the simulation of fleets stands on, measured: three replicas (`--cpus 1`) behind HAProxy on this machine, all
with deploy/haproxy.cfg and in network namespaces (replicas.py). In one run of under a minute:

  - each size of tensor, one request at a time: the processor time of the replica and of all else (HAProxy, client);
  - all sizes together at random moments (open loop), at a load so low that they hardly meet: how long each takes;
  - two higher loads: the latencies that the simulation is to foretell.

    tests/fleet/measure.py [--binary tallyd] [--out tests/sim/measured.json] [--seconds 15]

Raw float32. Sizes double, each is two thirds as frequent as the one before. Clients are tests/load/load_client.c.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import platform
import re
import sys
import tempfile
import time

import replicas

sys.path.insert(0, str(replicas.TOP / "tests/load"))

import overload  # noqa: E402

KIB = 1 << 10
SIZES = [64 * KIB << step for step in range(8)]
WEIGHTS = [100, 66, 44, 29, 19, 13, 8, 6]
LONGEST = 64 << 20  # alone, so that longer ones can be reckoned
SHARES = (0.1, 0.3, 0.5)  # of the processors, by what one at a time takes
QUANTILES = 41
CLIENTS = 4  # processes, so that a tensor that one of them sends holds few up
QUIET = 0.15  # processors


def kind(size, weight=1):
    path = f"/v1/cumsum?dtype=float32&shape={size // 4}"
    return overload.Kind(str(size), path, overload.floats(size), weight=weight)


def quantiles(values, count=QUANTILES):
    values = sorted(values)
    return [values[round(i * (len(values) - 1) / (count - 1))] for i in range(count)]


class Meter:
    """Runs load_client, and asks for the processor time of all who take part."""

    def __init__(self, fleet, folder):
        self.load = overload.Load(replicas.load.BIN / "load_client", folder)
        self.tallyds = [replica.process.pid for replica in fleet.replicas]
        self.proxy = fleet.proxy.pid
        self.server = overload.Server(fleet.port, self.proxy)
        for process in (*self.tallyds, self.proxy):
            overload.set_nice(
                process, overload.NICE
            )  # what else runs here takes little of the time

    def run(self, kinds, clients=1, **options):
        """[(kind, ms)] of the answers, and processor seconds: of the replicas, of HAProxy and the clients."""
        commands = [
            self.load.command(self.server, kinds, warm=0, seed=seed + 1, **options)
            for seed in range(clients)
        ]
        before = [sum(map(overload.cpu_of, self.tallyds)), overload.cpu_of(self.proxy)]
        began, busy, times = time.monotonic(), overload.machine_busy(), os.times()
        with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor() as pool:
            running = [stack.enter_context(overload.under_way(command)) for command in commands]
            outputs = list(pool.map(lambda child: child.stdout.read(), running))
            if any(child.wait(60) != 0 for child in running):
                raise RuntimeError("load_client failed")
        after = [sum(map(overload.cpu_of, self.tallyds)), overload.cpu_of(self.proxy)]
        took, client = time.monotonic() - began, os.times()
        replica_s = after[0] - before[0]
        else_s = after[1] - before[1] + sum(client[:4]) - sum(times[:4])
        others = (overload.machine_busy() - busy - replica_s - else_s) / took
        records = [
            record
            for output in outputs
            for record in overload.RECORD.iter_unpack(output.partition(b"\n")[2])
        ]
        found = [
            (which, (ended - due) / 1e6)
            for due, _, ended, _, _, _, status, which in records
            if status == 200
        ]
        return {
            "answers": found,
            "lost": len(records) - len(found),
            "replica_s": replica_s,
            "else_s": else_s,
            "others": round(others, 2),
        }


def quietly(measure):
    """Once more if other programs took much of the machine meanwhile; the quieter of the two."""
    tries = [measure()]
    if tries[0]["others"] > QUIET:
        tries.append(measure())
    return min(tries, key=lambda run: run["others"])


def one_at_a_time(meter, size, seconds):
    """Processor time of a request."""
    run = meter.run([kind(size)], connections=1, seconds=seconds)
    count = len(run["answers"])
    return {
        "bytes": size,
        "replica_ms": 1e3 * run["replica_s"] / count,
        "else_ms": 1e3 * run["else_s"] / count,
        "alone_ms": sorted(ms for _, ms in run["answers"]),
        "others": run["others"],
    }


def together(meter, rate, seconds):
    kinds = [kind(size, weight) for size, weight in zip(SIZES, WEIGHTS)]
    rate = max(1, round(rate / CLIENTS))
    run = meter.run(kinds, CLIENTS, connections=32, rate=rate, seconds=seconds, cool=5)
    return run | {"rate": rate * CLIENTS, "seconds": seconds}


def costs(rows, idle):
    """What a request takes when it meets hardly any other, but finds everybody asleep, as when it came alone: times from
    the run at the lowest load, processor time as one at a time, all longer by what it was longer in that run.
    """
    mean_ms = sum(w * row["replica_ms"] for w, row in zip(WEIGHTS, rows)) / sum(WEIGHTS)
    asleep = 1e3 * idle["replica_s"] / len(idle["answers"]) / mean_ms
    for at, row in enumerate(rows):
        times = (
            [ms for which, ms in idle["answers"] if which == at]
            if at < len(SIZES)
            else row["alone_ms"]
        )
        yield {
            "bytes": row["bytes"],
            "requests": len(times),
            "mean_ms": round(sum(times) / len(times), 4),
            "replica_ms": round(row["replica_ms"] * (asleep if at < len(SIZES) else 1), 4),
            "else_ms": round(row["else_ms"], 4),
            "alone_ms": [round(ms, 3) for ms in quantiles(times)],
        }


def summary(run):
    times = [ms for _, ms in run["answers"]]
    by_size = {
        str(size): quantiles([ms for which, ms in run["answers"] if which == at], 101)
        for at, size in enumerate(SIZES)
    }
    return {
        "rate": run["rate"],
        "seconds": run["seconds"],
        "requests": len(times),
        "lost": run["lost"],
        "replica_cores": round(run["replica_s"] / run["seconds"], 3),
        "else_cores": round(run["else_s"] / run["seconds"], 3),
        "others": run["others"],
        "quantiles_ms": [round(ms, 3) for ms in quantiles(times, 201)],
        "of_size_p50_p99_ms": {
            size: [round(q[50], 3), round(q[99], 3)] for size, q in by_size.items()
        },
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--binary", type=pathlib.Path, default=replicas.load.BIN / "tallyd")
    parser.add_argument(
        "--out", type=pathlib.Path, default=replicas.TOP / "tests/sim/measured.json"
    )
    parser.add_argument("--seconds", type=float, default=10, help="of each load")
    settings = parser.parse_args()
    namespaces = replicas.inside()
    flags = ["--log-requests=false", "--cpus", "1"]
    with (
        tempfile.TemporaryDirectory(prefix="tally-fleet-", dir=replicas.load.shm_dir()) as folder,
        replicas.Fleet(folder, namespaces, settings.binary, None, flags) as fleet,
    ):
        meter = Meter(fleet, folder)
        meter.run([kind(size) for size in SIZES], connections=6, seconds=1.5)
        rows = [one_at_a_time(meter, size, 0.8) for size in [*SIZES, LONGEST]]
        work_ms = sum(w * (row["replica_ms"] + row["else_ms"]) for w, row in zip(WEIGHTS, rows))
        cores = len(os.sched_getaffinity(0))
        rates = [share * cores * 1e3 / (work_ms / sum(WEIGHTS)) for share in SHARES]
        runs = [quietly(lambda: together(meter, rate, settings.seconds)) for rate in rates]
    found = {
        "command": "tests/fleet/measure.py",
        "date": time.strftime("%Y-%m-%d"),
        "machine": next(
            line.split(": ")[1]
            for line in open("/proc/cpuinfo").read().splitlines()
            if line.startswith("model name")
        ),
        "system": f"Linux {platform.release().split('-')[0]}",
        "cores": cores,
        "network": "namespaces" if namespaces else "loopback",
        "replicas": 3,
        "weights": WEIGHTS,
        "sizes": list(costs(rows, runs[0])),
        "loads": [summary(run) for run in runs],
    }
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1)
    text = re.sub(r"\[[-\d.,\s]+\]", lambda numbers: " ".join(numbers[0].split()), text)
    settings.out.write_text(text + "\n")
    for row in found["sizes"]:
        print(
            "{bytes:9} bytes: {mean_ms:8.3f} ms, replica {replica_ms:.3f}, else {else_ms:.3f}".format(
                **row
            )
        )
    for run in found["loads"]:
        q = run["quantiles_ms"]
        print(
            f"{run['rate']}/s: p50 {q[100]:.2f}, p99 {q[198]:.2f} ms, cores of replicas {run['replica_cores']},"
            f" all else {run['else_cores']}, others {run['others']}, {run['lost']} lost"
        )


if __name__ == "__main__":
    main()
