#!/usr/bin/env python3
"""Requests per second, bytes per second and memory of one tallyd by shape, with one core and with
two: the tables of docs/sizing.md, and the formula for larger machines.

    make sizing                     # under a minute; writes the tables into the page

taskset gives the server core 0, or all cores. The clients (tests/load/load_client.c) use the
other cores, or share all of them. Every figure comes from a new tallyd."""

import re
import sys
import tempfile
import time

import replicas

sys.path.insert(0, str(replicas.TOP / "tests/load"))

import overload  # noqa: E402

load = replicas.load
PAGE = replicas.TOP / "docs/sizing.md"
SECONDS = 2.0


def works():
    """Yields (kind of request, number of connections)."""
    yield overload.small(), 32
    yield overload.long_json(), 32
    for kib, connections in ((64, 16), (1024, 8), (16384, 4), (65536, 4)):
        path = f"/v1/cumsum?dtype=float32&shape={kib * 256}"
        name = f"{kib} KiB raw" if kib < 1024 else f"{kib >> 10} MiB raw"
        yield overload.Kind(name, path, overload.floats(kib << 10)), connections


def measure(kind, connections, cores, folder):
    """Requests per second, cores used by the server and by the clients, peak memory, and cores used
    by other programs."""
    port = load.free_port()
    command = ["taskset", "-c", "0" if cores == 1 else f"0-{cores - 1}", load.BIN / "tallyd"]
    command += [
        "--listen",
        f"127.0.0.1:{port}",
        "--log-requests=false",
        "--cpus",
        cores,
        "--drain-delay-ms",
        "0",
    ]
    with load.process(command, f"http://127.0.0.1:{port}/readyz") as child:
        overload.set_nice(child.pid, overload.NICE)
        client = overload.Load(load.BIN / "load_client", folder)
        server = overload.Server(port, child.pid)
        client.run(server, [kind], connections=connections, seconds=0.3)
        run = client.run(server, [kind], connections=connections, seconds=SECONDS)
        if run.errors or run.late or run.refused_before or run.refused_later:
            raise RuntimeError(f"{kind.name}: {run.figures()}")
        return run, load.rss_bytes(child.pid, "VmHWM")


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(str(word) for word in line) + " |" for line in lines)


def main():
    rows, others = [], []
    with tempfile.TemporaryDirectory(prefix="tally-sizing-", dir=load.shm_dir()) as folder:
        for kind, connections in works():
            row = [kind.name, connections]
            for cores in (1, 2):
                run, memory = measure(kind, connections, cores, folder)
                others.append(run.others_cpu)
                milliseconds = 1e3 * run.server_cpu / run.good
                row += [
                    f"{run.good:.0f}",
                    f"{run.good * len(kind.body) / 1e6:.0f}",
                    f"{milliseconds:.3f}",
                ]
                row += [f"{memory / 1e6:.0f}"]
                print(
                    kind.name,
                    cores,
                    row[-4:],
                    f"clients {run.cpu:.2f}, others {run.others_cpu:.2f}",
                    flush=True,
                )
            rows.append(row)
    heads = ["request", "clients"]
    for cores in ("1 core", "2 cores"):
        heads += [f"{cores}: /s", "MB/s", "core ms", "peak MB"]
    day = time.strftime("%Y-%m-%d")
    text = PAGE.read_text()
    made = f"Taken on {day} with `make sizing`, while other programs took {min(others):.1f} to {max(others):.1f} cores.\n\n"
    made += table(heads, rows)
    text, changed = re.subn(
        r"(<!-- sizing -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{made}\n{m[2]}", text, flags=re.S
    )
    assert changed == 1
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
