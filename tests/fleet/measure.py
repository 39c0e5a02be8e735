#!/usr/bin/env python3
"""Measure the input of the fleet simulation: three replicas (`--cpus 1`) behind HAProxy on this
machine, with deploy/haproxy.cfg, in network namespaces (replicas.py). One run takes two minutes
and measures:

  - each tensor size alone, with pauses: the time of a request, the processor time of its replica
    and of everything else;
  - the same with compressed answers (gzip): then replicas do nearly all of the work, while
    clients and HAProxy, which share the machine with them here, do little;
  - all sizes together at random times (open loop), at three loads: the results that the
    simulation must predict.

    tests/fleet/measure.py [--binary tallyd] [--out tests/sim/measured.json] [--seconds 10]

Each size is twice the one before, and two thirds as frequent. Tensors are raw float32. The
compressed answers are sums of zeros; the request has strides of 0, so that four bytes are enough
input. Clients are tests/load/load_client.c, which sends the same requests at the same times in
every run.
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
import urllib.request

import replicas

sys.path.insert(0, str(replicas.TOP / "tests/load"))

import overload  # noqa: E402

KIB = 1 << 10
SIZES = [64 * KIB << step for step in range(8)]
WEIGHTS = [100, 66, 44, 29, 19, 13, 8, 6]
LONGEST = 64 << 20  # bytes; times of larger tensors are extrapolated from this size
RATES = (160, 400, 640)  # requests per second: about 0.1, 0.3 and 0.5 of two cores
QUANTILES = 41
CLIENTS, CONNECTIONS = 16, 8  # client processes, and connections of each
ALONE_S = 3.0
QUIET = 0.2  # cores used by other programs; with more, the results are meaningless


def raw(size):
    path = f"/v1/cumsum?dtype=float32&shape={size // 4}"
    return overload.Kind(str(size), path, overload.floats(size))


def packed(size, weight=1):
    return overload.strided(size // 4, 0, weight=weight, accept_encoding="gzip")


def quantiles(values, count=QUANTILES):
    values = sorted(values)
    return [values[round(i * (len(values) - 1) / (count - 1))] for i in range(count)]


class Meter:
    """Runs load_client, and reads the processor time of the replicas, HAProxy and the machine."""

    def __init__(self, fleet, folder):
        self.load = overload.Load(replicas.load.BIN / "load_client", folder)
        self.replicas = fleet.replicas
        self.tallyds = [replica.process.pid for replica in fleet.replicas]
        self.proxy = fleet.proxy.pid
        self.server = overload.Server(fleet.port, self.proxy)
        for process in (*self.tallyds, self.proxy):
            # other programs get little processor time
            overload.set_nice(process, overload.NICE)

    def work_s(self):
        """Seconds that the replicas spent computing and encoding."""
        total = 0.0
        for replica in self.replicas:
            url = f"http://{replica.address}:{replica.port}/metrics"
            with urllib.request.urlopen(url, timeout=replicas.PATIENCE) as answer:
                text = answer.read().decode()
            for stage in ("compute", "encode"):
                total += float(re.search(rf'stage_seconds_sum{{stage="{stage}"}} (\S+)', text)[1])
        return total

    def spent(self):
        """Processor seconds of the replicas, of HAProxy and of the machine, and the working seconds
        of all replicas."""
        replica_s = sum(map(overload.cpu_of, self.tallyds))
        return replica_s, overload.cpu_of(self.proxy), overload.machine_busy(), self.work_s()

    def run(self, kinds, clients=1, **options):
        commands = [
            self.load.command(self.server, kinds, warm=0, cool=5, seed=seed + 1, **options)
            for seed in range(clients)
        ]
        before = self.spent()
        began, times = time.monotonic(), os.times()
        with (
            contextlib.ExitStack() as stack,
            concurrent.futures.ThreadPoolExecutor(clients) as pool,
        ):
            running = [stack.enter_context(overload.under_way(command)) for command in commands]
            outputs = list(pool.map(lambda child: child.stdout.read(), running))
            if any(child.wait(60) != 0 for child in running):
                raise RuntimeError("load_client failed")
        took, client = time.monotonic() - began, os.times()
        replica_s, proxy_s, busy_s, work_s = (b - a for a, b in zip(before, self.spent()))
        else_s = proxy_s + sum(client[:4]) - sum(times[:4])
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
            "work_s": work_s,
            "others": round((busy_s - replica_s - else_s) / took, 2),
        }


def alone(meter, kind, size, core):
    """Measure requests that are alone in the fleet: with one connection, load_client skips a
    request if the previous one is not answered yet. All processes are asleep when a request
    arrives. `core` names the processor time that is the work of the replica; the rest of the
    processor time is overhead.
    """
    # requests are in flight for about a quarter of the time
    rate = min(80, 0.25 / (0.6e-3 + size * 4e-9))
    run = meter.run([kind], connections=1, rate=rate, seconds=ALONE_S)
    times = [ms for _, ms in run["answers"]]
    core_ms = 1e3 * run[core] / len(times)
    return {
        "bytes": size,
        "requests": len(times),
        "mean_ms": round(sum(times) / len(times), 4),
        "core_ms": round(core_ms, 4),
        "rest_ms": round(1e3 * (run["replica_s"] + run["else_s"]) / len(times) - core_ms, 4),
        "alone_ms": [round(ms, 3) for ms in quantiles(times)],
    }


def together(meter, rate, seconds):
    kinds = [packed(size, weight) for size, weight in zip(SIZES, WEIGHTS)]
    options = {"connections": CONNECTIONS, "rate": rate / CLIENTS, "seconds": seconds}
    return meter.run(kinds, CLIENTS, **options) | {"rate": rate, "seconds": seconds}


def summary(run):
    times = [ms for _, ms in run["answers"]]
    return {
        "rate": run["rate"],
        "seconds": run["seconds"],
        "requests": len(times),
        "lost": run["lost"],
        "replica_cores": round(run["replica_s"] / run["seconds"], 3),
        "else_cores": round(run["else_s"] / run["seconds"], 3),
        "others": run["others"],
        "quantiles_ms": [round(ms, 3) for ms in quantiles(times, 201)],
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
        for make in (raw, packed):
            meter.run([make(size) for size in SIZES], connections=6, seconds=1.0)
        sizes = [alone(meter, raw(size), size, "replica_s") for size in [*SIZES, LONGEST]]
        of_packed = [alone(meter, packed(size), size, "work_s") for size in SIZES]
        loads = [summary(together(meter, rate, settings.seconds)) for rate in RATES]
    found = {
        "command": "tests/fleet/measure.py",
        "date": time.strftime("%Y-%m-%d"),
        "machine": next(
            line.split(": ")[1]
            for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "system": f"Linux {platform.release().split('-')[0]}",
        "cores": len(os.sched_getaffinity(0)),
        "network": "namespaces" if namespaces else "loopback",
        "replicas": len(meter.replicas),
        "clients": CLIENTS,
        "weights": WEIGHTS,
        "sizes": sizes,
        "packed": of_packed,
        "loads": loads,
    }
    for row in sizes + of_packed:
        print(
            "{bytes:9} bytes: {mean_ms:8.3f} ms, replica {core_ms:.3f}, rest {rest_ms:.3f}".format(
                **row
            )
        )
    for run in loads:
        q = run["quantiles_ms"]
        print(
            f"{run['rate']}/s: p50 {q[100]:.2f}, p99 {q[198]:.2f} ms, cores of replicas {run['replica_cores']},"
            f" all else {run['else_cores']}, others {run['others']}, {run['lost']} lost"
        )
    busiest = max(run["others"] for run in loads)
    if busiest > QUIET:
        sys.exit(f"other programs took up to {busiest} cores meanwhile: nothing is written")
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1)
    text = re.sub(r"\[[-\d.,\s]+\]", lambda numbers: " ".join(numbers[0].split()), text)
    settings.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
