#!/usr/bin/env python3
"""What the simulation of fleets stands on, measured: three replicas (`--cpus 1`) behind HAProxy on this machine, all
with deploy/haproxy.cfg and in network namespaces (replicas.py). In one run of under a minute:

  - each size of tensor alone, one request at a time: how long it takes, and the processor time of the replica and of all
    else (HAProxy, client);
  - two loads of all sizes together, at random moments (open loop): the latencies that the simulation is to foretell.

    tests/fleet/measure.py [--binary tallyd] [--out tests/sim/measured.json] [--seconds 15]

Raw float32. Sizes double, each is two thirds as frequent as the one before. Clients are tests/load/load_client.c."""

import argparse
import json
import os
import pathlib
import platform
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
SHARES = (0.3, 0.5)  # of the processors, as far as they are busy with one at a time
QUANTILES = 41


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

    def run(self, kinds, **options):
        """[(kind, ms)] of the answers, and processor seconds a second: replicas, all else."""
        command = self.load.command(self.server, kinds, warm=0, **options)
        before = [sum(map(overload.cpu_of, self.tallyds)), overload.cpu_of(self.proxy)]
        began, busy, times = time.monotonic(), overload.machine_busy(), os.times()
        with overload.under_way(command, nice=0) as child:
            output = child.stdout.read()
            if child.wait(60) != 0:
                raise RuntimeError(f"load_client ended with {child.returncode}")
        after = [sum(map(overload.cpu_of, self.tallyds)), overload.cpu_of(self.proxy)]
        took, client = time.monotonic() - began, os.times()
        replica_s = after[0] - before[0]
        else_s = after[1] - before[1] + sum(client[:4]) - sum(times[:4])
        others = (overload.machine_busy() - busy - replica_s - else_s) / took
        head, _, data = output.partition(b"\n")
        found, lost = [], 0
        for due, start, ended, _, _, _, status, which in overload.RECORD.iter_unpack(data):
            if status == 200:
                found.append((which, (ended - due) / 1e6))
            else:
                lost += 1
        return {"answers": found, "lost": lost, "replica_s": replica_s, "else_s": else_s, "others": round(others, 2)}


def alone(meter, size, seconds):
    run = meter.run([kind(size)], connections=1, seconds=seconds)
    times = [ms for _, ms in run["answers"]][3:]
    count = len(run["answers"])
    return {
        "bytes": size,
        "requests": count,
        "alone_ms": [round(ms, 4) for ms in quantiles(times)],
        "mean_ms": round(sum(times) / len(times), 4),
        "replica_ms": round(1e3 * run["replica_s"] / count, 4),
        "else_ms": round(1e3 * run["else_s"] / count, 4),
        "others": run["others"],
    }


def together(meter, rate, seconds):
    kinds = [kind(size, weight) for size, weight in zip(SIZES, WEIGHTS)]
    run = meter.run(kinds, connections=256, rate=round(rate), seconds=seconds, cool=5)
    times = [ms for _, ms in run["answers"]]
    of_size = {
        str(size): [round(v, 3) for v in quantiles([ms for w, ms in run["answers"] if w == at], 101)]
        for at, size in enumerate(SIZES)
    }
    return {
        "rate": round(rate),
        "seconds": seconds,
        "requests": len(times),
        "lost": run["lost"],
        "replica_cores": round(run["replica_s"] / seconds, 3),
        "else_cores": round(run["else_s"] / seconds, 3),
        "others": run["others"],
        "quantiles_ms": [round(ms, 3) for ms in quantiles(times, 201)],
        "of_size_p50_p99_ms": {size: [q[50], q[99]] for size, q in of_size.items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=replicas.load.BIN / "tallyd")
    parser.add_argument("--out", type=pathlib.Path, default=replicas.TOP / "tests/sim/measured.json")
    parser.add_argument("--seconds", type=float, default=14, help="of each load")
    settings = parser.parse_args()
    namespaces = replicas.inside()
    flags = ["--log-requests=false", "--cpus", "1"]
    with (
        tempfile.TemporaryDirectory(prefix="tally-fleet-", dir=replicas.load.shm_dir()) as folder,
        replicas.Fleet(folder, namespaces, settings.binary, None, flags) as fleet,
    ):
        meter = Meter(fleet, folder)
        meter.run([kind(size) for size in SIZES], connections=6, seconds=1.5)
        sizes = [alone(meter, size, 1.2) for size in [*SIZES, LONGEST]]
        weights = sum(WEIGHTS)
        work_ms = sum(
            weight * (found["replica_ms"] + found["else_ms"])
            for weight, found in zip(WEIGHTS, sizes)
        )
        cores = len(os.sched_getaffinity(0))
        rates = [share * cores * 1e3 / (work_ms / weights) for share in SHARES]
        loads = [together(meter, rate, settings.seconds) for rate in rates]
    found = {
        "command": "tests/fleet/measure.py",
        "date": time.strftime("%Y-%m-%d"),
        "machine": next(line.split(": ")[1] for line in open("/proc/cpuinfo").read().splitlines() if line.startswith("model name")),
        "system": f"Linux {platform.release().split('-')[0]}",
        "cores": cores,
        "network": "namespaces" if namespaces else "loopback",
        "replicas": 3,
        "weights": WEIGHTS,
        "sizes": sizes,
        "loads": loads,
    }
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    settings.out.write_text(json.dumps(found, indent=1) + "\n")
    for at in sizes:
        print(f"{at['bytes'] >> 10:6} KiB  {at['mean_ms']:8.3f} ms, replica {at['replica_ms']:.3f}, else {at['else_ms']:.3f}, others {at['others']}")
    for at in loads:
        q = at["quantiles_ms"]
        print(f"{at['rate']}/s: p50 {q[100]:.2f} p99 {q[198]:.2f} ms, replicas {at['replica_cores']}, else {at['else_cores']}, others {at['others']}, lost {at['lost']}")


if __name__ == "__main__":
    main()
