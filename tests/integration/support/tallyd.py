"""Start, watch and stop a real tallyd."""

import collections
import contextlib
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import time

from .http import Client, Wire
from .waiting import until

TOP = pathlib.Path(__file__).resolve().parents[3]
BINARY = os.environ.get("TALLYD", str(TOP / "build/bin/tallyd"))
MODE = os.environ.get("TALLY_TEST_MODE", "release")
READY_SECONDS = 300
MOVE_CLOCK = TOP / "build/release/tests/libmove_clock.so"
# size of the clock file: 64 numbers, the nanoseconds by which the clock is ahead and then the
# number of heartbeats of each timer
CLOCK_BYTES = 8 * 64
# A time without heartbeats that does not count as a stop, even on a busy machine.
UNSTOPPED_SECONDS = 0.5
# The server with faults on demand (tests/lib/cl_fault.h).
FAULTY = os.environ.get("TALLYD_FAULTS", str(TOP / f"build/{MODE}/tests/tallyd_faults"))
# A preloaded library that delays the server's threads (`make stalls`).
HOLD_UP = os.environ.get("TALLY_TEST_HOLD_UP")
# The processor through a driver that compiles kernels at run time, for tests of compiling and
# caching.
POCL = ("--devices", "portable computing language")

# A folder in which the ICD loader finds no driver.
NO_DRIVERS = TOP / "build/no-drivers"

# Sockets that reserve ports until servers listen on them.
HELD = collections.deque(maxlen=64)


def free_port():
    """Choose a port below the range that the system assigns to connections: a client could take
    such a port before the server listens. The port is also reserved: a bound socket that does
    not listen admits only sockets with SO_REUSEADDR, which servers set."""
    while True:
        port = random.SystemRandom().randrange(10000, 32768)
        with contextlib.suppress(OSError):
            holder = socket.socket()
            holder.bind(("127.0.0.1", port))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            HELD.append(holder)
            return port


class Tallyd:
    """One server process on its own port. Its log is a file; it is stopped by its pid."""

    def __init__(
        self,
        log,
        flags=(),
        env=None,
        binary=BINARY,
        wait=True,
        preexec_fn=None,
        tls=None,
        moves_clock=False,
    ):
        """env: None as a value removes the variable. tls: certificates.Tls, for HTTPS. moves_clock:
        enables pass_time()."""
        self.port = free_port()
        self.context = None if tls is None else tls.shared
        self.log_path = pathlib.Path(log)
        if moves_clock and MODE == "release":
            self.clock_path = self.log_path.with_suffix(".clock")
            self.clock_path.write_bytes(bytes(CLOCK_BYTES))
            moved = {"LD_PRELOAD": str(MOVE_CLOCK), "MOVED_CLOCK": str(self.clock_path)}
            env = {**(env or {}), **moved}
        if not any(str(flag).startswith("--devices") for flag in flags):
            # Loading a driver that compiles kernels takes longer than the rest of a start.
            NO_DRIVERS.mkdir(parents=True, exist_ok=True)
            env = {"OCL_ICD_VENDORS": str(NO_DRIVERS), **(env or {})}
        if HOLD_UP:
            preloaded = [HOLD_UP, (env or {}).get("LD_PRELOAD")]
            env = {**(env or {}), "LD_PRELOAD": ":".join(filter(None, preloaded))}
        command = [
            binary,
            "--listen",
            f"127.0.0.1:{self.port}",
            "--drain-delay-ms",
            "0",  # no load balancer needs time to notice the shutdown
            *(() if tls is None else tls.flags),
            *flags,
        ]
        with open(self.log_path, "wb") as log_file:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                env={
                    name: value
                    for name, value in {**os.environ, **(env or {})}.items()
                    if value is not None
                },
                cwd=TOP,
                preexec_fn=preexec_fn,
            )
        if wait:
            self.wait_ready()

    @property
    def pid(self):
        return self.process.pid

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    def client(self, timeout=60, source=""):
        return Client(self.port, timeout, self.context, source)

    def wire(self, timeout=30, source="", path=None, window=None):
        context = self.context if path is None else None
        return Wire(self.port, timeout, context, source, path, window)

    def wait_ready(self):
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            self.check_alive()
            try:
                client = self.client(10)
                ready = client.get("/readyz").status == 200
                client.close()
                if ready:
                    return
            except OSError:
                pass
            time.sleep(0.02)
        self.kill()
        raise AssertionError(f"not ready after {READY_SECONDS} s; its log:\n{self.log}")

    def metric(self, name):
        """Query a metric from a separate address, whose limits no other client reaches."""
        client = self.client(source="127.0.0.254")
        text = client.get("/metrics").body.decode()
        client.close()
        return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])

    def await_active(self, count):
        """Wait until the service has `count` active requests besides the query."""
        until(lambda: self.metric("tally_active_requests") == count + 1, 60)

    def await_refusal(self):
        """Wait until new connections are refused: the service has begun to shut down."""

        def refused():
            try:
                self.wire().close()
            except ConnectionRefusedError:
                return True
            except ConnectionResetError:
                pass  # the listening socket was closed while this connection waited in its backlog
            return False

        until(refused, 60)

    def pass_time(self, seconds):
        """Advance the server's clock by `seconds` in one step: the service takes a step of more
        than a second for a time in which its process was stopped. The clock of an instrumented
        server cannot be moved; then this function sleeps."""
        if MODE != "release":
            time.sleep(seconds)
            return
        ahead_ns = self.clock_numbers()[0] + int(seconds * 1e9)
        with open(self.clock_path, "r+b", buffering=0) as clock:
            clock.write(ahead_ns.to_bytes(8, "little"))

    def pass_time_awake(self, seconds):
        """Advance the clock in steps while all loops run: each loop has a heartbeat after every
        step."""
        if MODE != "release":
            time.sleep(seconds)
            return
        while seconds > 0:
            self.pass_time(min(seconds, UNSTOPPED_SECONDS))
            seconds -= UNSTOPPED_SECONDS
            before = self.clock_numbers()[1:]
            until(lambda before=before: self.have_beaten(before))

    def have_beaten(self, before):
        """Whether every timer has fired since its count was `before`."""
        return all(
            now > then
            for now, then in zip(self.clock_numbers()[1:], before, strict=True)
            if then > 0
        )

    def clock_numbers(self):
        return struct.unpack(f"<{CLOCK_BYTES // 8}q", self.clock_path.read_bytes())

    def thread_seconds(self, name):
        """Processor time of each thread with that name."""
        tasks = pathlib.Path(f"/proc/{self.pid}/task").iterdir()
        named = [task for task in tasks if (task / "comm").read_text().strip() == name]
        return [int((task / "schedstat").read_text().split()[0]) * 1e-9 for task in named]

    def check_alive(self):
        status = self.process.poll()
        if status is not None:
            raise AssertionError(f"tallyd exited with {status}; its log:\n{self.log[-8000:]}")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=60):
        """Wait for the end; returns the exit status."""
        return self.process.wait(timeout)

    def stop(self, timeout=60):
        """Send SIGTERM and require a clean exit, or raise an AssertionError with the log."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"no exit {timeout} s after SIGTERM; its log:\n{self.log[-8000:]}")
        if status != 0:
            raise AssertionError(f"tallyd exited with {status}; its log:\n{self.log[-8000:]}")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)

    def children(self):
        """Process ids of the server's child processes."""
        pids = []
        for path in pathlib.Path(f"/proc/{self.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # the thread has ended
                pids += [int(pid) for pid in path.read_text().split()]
        return pids

    def rss_bytes(self):
        return self._status_kib("VmRSS") * 1024

    def address_space_bytes(self):
        return self._status_kib("VmSize") * 1024

    def sleeps(self):
        """How often the main thread has slept; it does so ten times per second."""
        status = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/status").read_text()
        return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)$", status, re.M)[1])

    def threads(self):
        return self._status_kib("Threads")

    def is_stopped(self):
        """Whether SIGSTOP has stopped all threads."""
        stats = pathlib.Path(f"/proc/{self.pid}/task").glob("*/stat")
        return all(path.read_text().rsplit(")", 1)[1].split()[0] == "T" for path in stats)

    def processor_seconds(self):
        """User and system time so far."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_files(self):
        return len(self._descriptors())

    def open_paths(self):
        """The paths of all open descriptors, as one text."""
        names = []
        for link in self._descriptors():
            with contextlib.suppress(FileNotFoundError):  # the descriptor was closed meanwhile
                names.append(os.readlink(link))
        return "\n".join(names)

    def _descriptors(self):
        return list(pathlib.Path(f"/proc/{self.pid}/fd").iterdir())

    def _status_kib(self, key):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1])
        raise AssertionError(f"no {key} in /proc/{self.pid}/status")
