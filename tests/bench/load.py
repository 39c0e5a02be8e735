"""Start servers and load generators on loopback, run wrk, and measure their cost.

Everything has a time limit. Each process is started in a process group of its own and is ended
with its group on every path. If the runner is killed, its processes are killed with it.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BIN = ROOT / os.environ.get("TALLY_TEST_BIN", "build/bin")
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
# processors used by other programs. If they use more, measured times are unreliable; ratios
# suffer less.
QUIET = 0.2
PREFIX = f"tally_bench_{os.getpid()}_"  # prefix of files in shared folders


def free_port():
    """Choose a port below the range from which the system assigns client ports: a client could take
    such a port before the server listens. Test servers use other ports."""
    while True:
        port = random.SystemRandom().randrange(2000, 10000)
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            return port


def machine_busy():
    """Processor seconds spent since boot by the machine, including the time its hypervisor took."""
    words = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    ticks = [int(word) for word in words]
    return (sum(ticks[:8]) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def others_busy(seconds=1):
    """Number of processors that are busy while this program sleeps."""
    began, before = time.monotonic(), machine_busy()
    time.sleep(seconds)
    return (machine_busy() - before) / (time.monotonic() - began)


def cpu_seconds(pid):
    """User and system time of a process and its children, in seconds."""
    total = 0.0
    tick = os.sysconf("SC_CLK_TCK")
    for stat in [
        pathlib.Path(f"/proc/{pid}/stat"),
        *(pathlib.Path(f"/proc/{p}/stat") for p in children(pid)),
    ]:
        with contextlib.suppress(OSError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            # processor time of the process, and of its children that have ended
            total += sum(int(n) for n in fields[11:15]) / tick
    return total


def children(pid):
    found = []
    with contextlib.suppress(OSError):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found.append(int(child))
                found.extend(children(int(child)))
    return found


def rss_bytes(pid, field="VmRSS"):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+)", text).group(1)) * 1024


def start(command, **more):
    """Start a process that leads its own process group and is killed when this process dies."""

    def die_with_parent():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    command = [str(word) for word in command]
    return subprocess.Popen(command, start_new_session=True, preexec_fn=die_with_parent, **more)


def end(child, patience=30):
    """End a process of start() and everything that it started."""
    if child.poll() is None:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(patience)
    with contextlib.suppress(ProcessLookupError):
        # kill the remaining processes of the group, or the child itself
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def run(command, seconds, **more):
    """Run a command for at most `seconds`; returns its standard output."""
    child = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    try:
        out, errors = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{command[0]} took more than {seconds} s") from None
    finally:
        end(child, patience=0)
    if child.returncode != 0:
        last = (errors.strip() or out.strip() or "nothing said").splitlines()[-1]
        raise RuntimeError(f"{command[0]} ended with {child.returncode}: {last}")
    return out


@contextlib.contextmanager
def process(command, url, *, env=None, timeout=60):
    """Run a server until the block ends. The server is ready when `url` answers 200."""
    with tempfile.TemporaryFile() as log:
        started = time.perf_counter()
        child = start(command, stdout=log, stderr=log, env={**os.environ, **(env or {})}, cwd=HERE)
        try:
            child.ready_seconds = wait_ready(child, url, started + timeout, log) - started
            yield child
        finally:
            end(child)


def wait_ready(child, url, deadline, log):
    while time.perf_counter() < deadline:
        if child.poll() is not None:
            break
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return time.perf_counter()
        time.sleep(0.005)
    log.seek(0)
    said = log.read().decode(errors="replace").strip()[-3000:]
    raise RuntimeError(f"{child.args[0]} did not become ready: {said}")


@contextlib.contextmanager
def tallyd(*flags, env=None):
    """Run a tallyd on a free port; yields (process, base URL)."""
    port = free_port()
    command = [str(BIN / "tallyd"), "--listen", f"127.0.0.1:{port}", "--log-level", "error"]
    command += ["--drain-delay-ms", "0", *flags]
    base = f"http://127.0.0.1:{port}"
    with process(command, base + "/readyz", env=env) as child:
        yield child, base


@contextlib.contextmanager
def body_file(data):
    with tempfile.NamedTemporaryFile(prefix=PREFIX, dir=shm_dir()) as f:
        f.write(data)
        f.flush()
        yield f.name


def shm_dir():
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def wrk(url, body, *, content_type, seconds, connections, extra="", pid=None, delay_ms=0):
    """Run wrk once. Returns the numbers of post.lua, requests per second, and the server's CPU
    seconds."""
    if shutil.which("wrk") is None:
        raise RuntimeError("wrk is missing: sh deploy/install-deps.sh test")
    env = {**os.environ, "BODY": body, "CONTENT_TYPE": content_type, "EXTRA": extra}
    env["DELAY_MS"] = str(delay_ms)
    before = cpu_seconds(pid) if pid else 0
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s"]
    command += ["--latency", "-s", str(HERE / "post.lua"), url]
    out = run(command, seconds + 60, env=env)
    result = json.loads(re.search(r"^RESULT (.*)$", out, re.M).group(1))
    if result["requests"] == 0:
        raise RuntimeError(f"{url}: no answer within {seconds} s")
    result["rps"] = result["requests"] / result["seconds"]
    result["cpu_seconds"] = cpu_seconds(pid) - before if pid else None
    if result["status_errors"] or result["socket_errors"]:
        raise RuntimeError(
            f"{url}: {result['status_errors']} refusals, {result['socket_errors']} socket errors"
        )
    return result


def median_by(results, key):
    """The result whose `key` is the median of all results."""
    ordered = sorted(results, key=lambda r: r[key])
    return ordered[len(ordered) // 2]


def interleave(runs, rounds):
    """Call every function once per round. Returns the results of each name, in order."""
    results = {name: [] for name in runs}
    for _ in range(rounds):
        for name, call in runs.items():
            results[name].append(call())
    return results


def ratios(results, name, base, key):
    """The figures of `name` divided by those of `base`, round by round."""
    return [a[key] / b[key] for a, b in zip(results[name], results[base])]
