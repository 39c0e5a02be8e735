"""Simulated machines: each pair is a tallyd and a dask worker in a network namespace and a memory
control group of their own.

    with Pairs(count, memory) as pairs:
        pairs.scheduler_host        address of the scheduler for all pairs
        pairs.start(scheduler)      start a tallyd and a worker in each pair
        pairs.all[0].url, .tallyd, .worker

A bridge connects the namespaces, like a switch. Without the right to create namespaces, the
pairs use loopback addresses. Without the right to create control groups, only the processes' own
memory limits apply. `pairs.words` describes the result. Everything is removed at the end.
"""

import contextlib
import os
import pathlib
import subprocess
import sys
import time
import urllib.request

import load

PORT = 8000
NETWORK = "10.213.7"  # network of the bridge; without namespaces, 127.0.0
GROUPS = pathlib.Path("/sys/fs/cgroup")
TALLYD_SHARE = 0.25  # share of a pair's memory that tallyd uses for tensors
WORKER_SHARE = 0.65  # share of a pair's memory that a worker may use


def run(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)


class Pair:
    def __init__(self, number, pairs):
        self.number, self.pairs = number, pairs
        self.name = f"tally{os.getpid() % 10000}-{number}"
        self.host = f"{pairs.network}.{10 + number}"
        self.url = f"http://{self.host}:{PORT if pairs.spaces else pairs.ports[number]}"
        self.tallyd = self.worker = None

    def inside(self, command):
        """The command line that runs a command in the pair's namespace and control group."""
        words = [str(word) for word in command]
        if self.pairs.spaces:
            words = ["ip", "netns", "exec", self.name, *words]
        if self.pairs.groups:
            enter = f'echo $$ >{self.pairs.groups}/{self.name}/cgroup.procs && exec "$@"'
            words = ["sh", "-c", enter, "sh", *words]
        return words

    def start_tallyd(self):
        budget = int(self.pairs.memory * TALLYD_SHARE)
        command = [load.BIN / "tallyd", "--listen", self.url.removeprefix("http://")]
        command += ["--log-level", "error", "--drain-delay-ms", "0", "--memory-budget", budget]
        self.tallyd = load.start(self.inside(command), stderr=subprocess.DEVNULL)

    def start_worker(self, scheduler, folder):
        limit = int(self.pairs.memory * WORKER_SHARE)
        command = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler]
        command += ["--no-nanny", "--nthreads", 1, "--name", self.name, "--no-dashboard"]
        command += ["--host", self.host, "--memory-limit", limit, "--local-directory", folder]
        path = str(load.ROOT / "client" / "python")
        settings = {"TALLY_URL": self.url, "PYTHONPATH": path, "MALLOC_TRIM_THRESHOLD_": "65536"}
        with open(pathlib.Path(folder) / f"{self.name}.log", "ab") as log:
            self.worker = load.start(
                self.inside(command), stdout=log, stderr=log, env={**os.environ, **settings}
            )

    def wait_ready(self, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(self.url + "/readyz", timeout=2):
                    return
            time.sleep(0.02)
        raise RuntimeError(f"{self.url} did not become ready")


class Pairs:
    def __init__(self, count, memory):
        self.memory = memory
        self.bridge = f"tally{os.getpid() % 10000}"
        self.undo = contextlib.ExitStack()
        self.ports = [load.free_port() for _ in range(count)]
        self.groups = self.spaces = None
        self.network = NETWORK
        self.count = count

    def __enter__(self):
        try:
            self._lay_network()
            self.spaces = True
        except (OSError, subprocess.CalledProcessError):
            self.undo.close()
            self.network = "127.0.0"
        self.scheduler_host = f"{self.network}.1"
        self.all = [Pair(number, self) for number in range(self.count)]
        try:
            self.groups = self._make_groups()
        except OSError:
            self.groups = None
        bound = f"{self.memory >> 20} MiB each"
        where = "a network namespace each" if self.spaces else "an address of the loopback each"
        self.words = f"{where}, {bound}" if self.groups else f"{where}, no bound of memory"
        return self

    def __exit__(self, *_):
        for pair in self.all:
            for child in (pair.worker, pair.tallyd):
                if child is not None:
                    load.end(child, patience=5)
        self.undo.close()

    def start(self, scheduler, folder):
        for pair in self.all:
            pair.start_tallyd()
            pair.start_worker(scheduler, folder)
        for pair in self.all:
            pair.wait_ready()

    def _lay_network(self):
        run("ip", "link", "add", self.bridge, "type", "bridge")
        self.undo.callback(run, "ip", "link", "del", self.bridge)
        run("ip", "addr", "add", f"{NETWORK}.1/24", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")
        for number in range(self.count):
            pair = Pair(number, self)
            inner, outer = f"{self.bridge}i{number}", f"{self.bridge}o{number}"
            run("ip", "netns", "add", pair.name)
            self.undo.callback(run, "ip", "netns", "del", pair.name)
            run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner)
            run("ip", "link", "set", outer, "master", self.bridge, "up")
            run("ip", "link", "set", inner, "netns", pair.name)
            within = ("ip", "-n", pair.name)
            run(*within, "addr", "add", f"{pair.host}/24", "dev", inner)
            run(*within, "link", "set", inner, "up")
            run(*within, "link", "set", "lo", "up")

    def _make_groups(self):
        """Create a control group for each pair, version 1 or 2."""
        first = (GROUPS / "memory").is_dir()
        top = GROUPS / "memory" if first else GROUPS
        if not first:
            (top / "cgroup.subtree_control").write_text("+memory")
        for pair in self.all:
            group = top / pair.name
            group.mkdir()
            self.undo.callback(self._remove, group)
            limit = group / ("memory.limit_in_bytes" if first else "memory.max")
            limit.write_text(str(self.memory))
        return top

    @staticmethod
    def _remove(group):
        for _ in range(500):  # rmdir() fails until all processes of the group have exited
            with contextlib.suppress(OSError):
                group.rmdir()
                return
            time.sleep(0.01)
