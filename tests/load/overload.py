#!/usr/bin/env python3
"""Measure goodput under overload, and the influence of one client on another. On loopback, with a
new tallyd for each kind of work:

    make overload [ARGS='--only fairness']
    tests/load/overload.py [--quick] [--seconds 600] [--only goodput|fairness] [--match WORD]
        [--impatient] [--real-time] [--binary build/bin/tallyd] [--json FILE]
        [-- FLAGS OF TALLYD]

Goodput: answers within their deadline. The load with the highest goodput is searched first; then
1, 2, 4 and 8 times that load are offered in several rounds. Goal: at 8 times the load at least
95 % of the highest goodput.

Fairness: a polite client at 127.0.0.2 sends small requests at a tenth of the capacity, alone
and beside an aggressor at 127.0.0.1. Goal: none of its requests is refused, and its 99th
percentile is at most twice that without the aggressor. The 99th percentile is computed for
every half second, and the median of these percentiles is used: if the machine stops once for 20
ms, only one half second is affected. Then the measurement is repeated with a polite client at
the aggressor's address, without a goal.

Exit status 1 if a goal is missed, 2 if none is missed but other programs kept the machine too
busy. docs/design/load.md explains the tables, and how the effect of client and server sharing
the cores was reduced. Needs only Python and build/bin/load_client.
"""

import argparse
import array
import contextlib
import dataclasses
import http.client
import json
import math
import os
import pathlib
import random
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/bench"))

import load  # noqa: E402

JSON, RAW = "application/json", "application/octet-stream"
MIB = 1 << 20
RECORD = struct.Struct("<QQQQQIHH")  # struct record of load_client.c
MULTIPLES = (1, 2, 4, 8)
LEAST_OF_PEAK = 0.95
MOST_OF_ALONE = 2.0
POLITE_SHARE = 0.1
NOISY = 0.5  # cores used by other programs; with more, the result proves nothing
PIECE = 0.5  # seconds; each piece of the window has a percentile of its own
# share of the patience that one wait may use, so that some remains for later measurements
PATIENCE_AT_ONCE = 0.02
MOST_TRIES = 3
NICE = -20  # niceness of server and clients, so that other programs take little of their time
CORES = len(os.sched_getaffinity(0))
# seconds of a whole run for which the windows in works() are given; --seconds scales them
FULL_SECONDS = 600
POLITE, AGGRESSOR = "127.0.0.2", "127.0.0.1"


# Requests ------------------------------------------------------------------------------------


@dataclasses.dataclass
class Kind:
    """A request that clients send repeatedly."""

    name: str
    path: str
    body: bytes
    content_type: str = RAW
    deadline_ms: int = 0
    weight: int = 1
    flags: str = "-"  # flags of load_client: e expects 100, n never sends its body, s reads slowly
    accept: str = ""
    accept_encoding: str = ""

    def head(self):
        lines = [f"POST {self.path} HTTP/1.1", "Host: overload"]
        lines += [f"Content-Type: {self.content_type}", f"Content-Length: {len(self.body)}"]
        lines += [f"X-Request-Timeout-Ms: {self.deadline_ms}"] * (self.deadline_ms > 0)
        lines += ["Expect: 100-continue"] * ("e" in self.flags)
        lines += [f"Accept: {self.accept}"] * bool(self.accept)
        lines += [f"Accept-Encoding: {self.accept_encoding}"] * bool(self.accept_encoding)
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


def floats(bytes_):
    """float32 numbers of different magnitudes, without subnormal numbers and infinities."""
    numbers = random.Random(1)
    piece = array.array("f", (numbers.uniform(-100, 100) for _ in range(65536))).tobytes()
    return (piece * (bytes_ // len(piece) + 1))[:bytes_]


def raw(mib, **more):
    path = f"/v1/cumsum?dtype=float32&shape={mib * MIB // 4}"
    return Kind(f"{mib} MiB raw", path, floats(mib * MIB), **more)


def small(**more):
    body = json.dumps({"data": [[1.5, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12.25]], "axis": 1})
    return Kind("3x4 JSON", "/v1/cumsum", body.encode(), JSON, **more)


def long_json(**more):
    numbers = random.Random(2)
    body = json.dumps({"data": [numbers.uniform(-1000, 1000) for _ in range(1320)]})
    return Kind(f"{len(body) // 1000} KB JSON", "/v1/cumsum", body.encode(), JSON, **more)


def random_bits(mib, **more):
    """The slowest floats: their exponents are as far apart as possible."""
    path = f"/v1/cumsum?dtype=float64&shape={mib * MIB // 8}"
    return Kind(f"{mib} MiB of random bits", path, random.Random(3).randbytes(mib * MIB), **more)


def strided(elements, value=1.5, **more):
    path = f"/v1/cumsum?dtype=float32&shape={elements}&strides=0"
    return Kind("4 bytes in", path, struct.pack("<f", value), **more)


# A load and its result -------------------------------------------------------------------------


def percentile(values, percent):
    """Percentile of a sorted list."""
    return values[min(len(values) - 1, int(len(values) * percent / 100))] if values else None


@dataclasses.dataclass
class Run:
    """The output of load_client, summed up. Rates are per second of the window."""

    seconds: float
    offered: float = 0
    # answers within their deadline; those in flight at an edge of the window count in part
    good: float = 0
    late: float = 0  # answered after the deadline, or not answered when the run ended
    refused_before: float = 0  # 429, 503, 504 before any of the body was sent
    refused_later: float = 0  # refused during or after the body
    errors: float = 0
    unsent: float = 0  # no connection was free (open loop)
    vain_mib: float = 0  # MiB of bodies sent without a timely answer
    cpu: float = 0  # processors used by the clients
    server_cpu: float = 0
    others_cpu: float = 0  # processors used by everything else on the machine
    latencies_ms: list = dataclasses.field(default_factory=list)  # latencies of answers, sorted
    server_ms: list = dataclasses.field(default_factory=list)  # Server-Timing's total, sorted
    # for each piece of the window: the latencies in ms of its requests; infinity for a lost one
    pieces: list = dataclasses.field(default_factory=list)
    # name of a kind -> its part of `good`
    by_kind: dict = dataclasses.field(default_factory=dict)

    def p(self, percent, of="latencies_ms"):
        return percentile(getattr(self, of), percent)

    def piece_p(self, percent):
        """The median of the percentiles of all pieces of the window."""
        each = [percentile(sorted(piece), percent) for piece in self.pieces if piece]
        return statistics.median_low(each) if each else None

    def figures(self):
        kept = {k: v for k, v in dataclasses.asdict(self).items() if not isinstance(v, list)}
        for name, values in (("latency", "latencies_ms"), ("server", "server_ms")):
            kept |= {f"{name}_p{percent}_ms": self.p(percent, values) for percent in (50, 99)}
        return kept | {f"piece_p{percent}_ms": self.piece_p(percent) for percent in (50, 99)}


def merge(runs):
    """Combine several runs of the same load into one, weighted by their durations."""
    whole = Run(sum(run.seconds for run in runs))
    for field in dataclasses.fields(Run):
        values = [getattr(run, field.name) for run in runs]
        if field.name == "seconds":
            continue
        if field.type is list:
            setattr(whole, field.name, sorted(sum(values, [])))
        elif field.type is dict:
            for run in runs:
                for name, good in run.by_kind.items():
                    part = good * run.seconds / whole.seconds
                    whole.by_kind[name] = whole.by_kind.get(name, 0) + part
        else:
            rate = sum(v * run.seconds for v, run in zip(values, runs)) / whole.seconds
            setattr(whole, field.name, rate)
    return whole


def summed_up(output, kinds):
    line, _, data = output.partition(b"\n")
    head = json.loads(line)
    assert head["record_bytes"] == RECORD.size and len(data) == head["records"] * RECORD.size
    begin, end = head["begin_ns"], head["end_ns"]
    seconds = max(end - begin, 1) / 1e9
    run = Run(seconds, cpu=head["cpu_s"] / seconds, server_cpu=head["server_cpu_s"] / seconds)
    run.by_kind = {kind.name: 0.0 for kind in kinds}
    run.pieces = [[] for _ in range(max(1, round(seconds / PIECE)))]
    for record in RECORD.iter_unpack(data):
        due, start, ended, sent, _, server_us, status, which = record
        kind = kinds[which]
        took_ms = (ended - due) / 1e6
        good = status == 200 and (kind.deadline_ms == 0 or took_ms <= kind.deadline_ms)
        if good:
            inside = min(ended, end) - max(due, begin)
            run.by_kind[kind.name] += inside / max(ended - due, 1)
        if not begin <= due < end:
            continue
        run.offered += 1
        piece = run.pieces[int((due - begin) / (end - begin) * len(run.pieces))]
        if status == 200:
            piece.append(took_ms)
            run.late += not good
            run.vain_mib += 0 if good else sent / MIB
            run.latencies_ms.append(took_ms)
            run.server_ms.append(server_us / 1e3)
            continue
        piece.append(math.inf)
        run.vain_mib += sent / MIB
        if start == 0:
            run.unsent += 1
        elif ended == 0:
            run.late += 1
        elif status in (429, 503, 504):
            run.refused_before += sent == 0
            run.refused_later += sent > 0
        else:
            run.errors += 1
    run.latencies_ms.sort()
    run.server_ms.sort()
    run.good = sum(run.by_kind.values())
    run.by_kind = {name: good / seconds for name, good in run.by_kind.items()}
    for name in "offered good late refused_before refused_later errors unsent vain_mib".split():
        setattr(run, name, getattr(run, name) / seconds)
    return run


def cpu_of(pid):
    """Processor seconds of a process, from its clock."""
    return time.clock_gettime((~pid << 3) | 2)


def set_nice(pid, nice):
    """Set the niceness of a process that leads a session. With autogrouping, Linux compares
    niceness only within a session, and compares sessions by the niceness of their groups: set
    both."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, nice)
    with contextlib.suppress(OSError):
        pathlib.Path(f"/proc/{pid}/autogroup").write_text(str(nice))


def real_time(thread):
    os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(1))


def more_important(pid):
    """Raise the priority of clients that stand for another machine, so that the server does not
    keep them from a core."""
    with contextlib.suppress(OSError):
        real_time(pid)
        return
    set_nice(pid, NICE)


def http_threads(pid):
    """Yields the HTTP threads of a tallyd that is ready."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text() == "tally-http\n":
            yield int(task.name)


@contextlib.contextmanager
def under_way(command, nice=NICE):
    """Run a process until the end of the block; the system kills it if this process dies before."""
    child = load.start(command, stdout=subprocess.PIPE)
    try:
        set_nice(child.pid, nice)
        yield child
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


class Load:
    """Runs load_client with kinds of requests; their heads and bodies are files in memory."""

    def __init__(self, client, folder, impatient=False):
        self.client = client
        self.folder = pathlib.Path(folder)
        self.impatient = impatient
        self.files = {}  # bytes -> path

    def file(self, data):
        if data not in self.files:
            self.files[data] = self.folder / str(len(self.files))
            self.files[data].write_bytes(data)
        return self.files[data]

    def command(self, server, kinds, **options):
        words = [self.client, "--port", server.port, "--server", server.pid]
        words += ["--impatient"] * self.impatient
        for name, value in options.items():
            words += ["--" + name, value]
        for kind in kinds:
            head, body = self.file(kind.head()), self.file(kind.body)
            words.append(f"{kind.weight},{kind.flags},{head},{body}")
        return [str(word) for word in words]

    def run(self, server, kinds, important=False, ours=(), **options):
        """`ours` are further processes that belong to the measurement."""
        command = self.command(server, kinds, **options)
        ours = [server.pid, *ours]
        began, busy, times = time.monotonic(), load.machine_busy(), os.times()
        before = sum(map(cpu_of, ours))
        with under_way(command) as child:
            if important:
                more_important(child.pid)
            output = child.stdout.read()
            if child.wait(60) != 0:
                raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}")
        after = os.times()
        spent = sum(after[:4]) - sum(times[:4]) + sum(map(cpu_of, ours)) - before
        run = summed_up(output, kinds)
        run.others_cpu = max(0, (load.machine_busy() - busy - spent) / (time.monotonic() - began))
        return run


@dataclasses.dataclass
class Server:
    port: int
    pid: int


class Bench:
    """A load, its servers, and the lengths of the windows."""

    def __init__(self, settings, folder):
        self.settings = settings
        self.load = Load(settings.client, folder, settings.impatient)
        self.scale = settings.seconds / FULL_SECONDS
        self.patience = settings.patience
        self.small_capacity = None

    def await_quiet(self):
        """Wait until other programs use little of the machine, or until a small share of the
        total patience is spent."""
        others = math.inf
        least = self.patience - self.settings.patience * PATIENCE_AT_ONCE
        while self.patience > max(0, least) and others > load.QUIET:
            busy, began = load.machine_busy(), time.monotonic()
            time.sleep(0.25)
            others = (load.machine_busy() - busy) / (time.monotonic() - began)
            self.patience -= 0.25 * (others > load.QUIET)

    def quietly(self, measure):
        """Returns the runs of measure(). If other programs used the machine meanwhile, the
        measurement is repeated, and the repetition with the least use by other programs is
        returned."""
        tries = []
        while not tries or (
            tries[-1][0].others_cpu > load.QUIET and self.patience > 0 and len(tries) < MOST_TRIES
        ):
            self.await_quiet()
            began = time.monotonic()
            tries.append(measure())
            if len(tries) > 1:
                self.patience -= time.monotonic() - began
        return min(tries, key=lambda runs: runs[0].others_cpu)

    def run(self, server, kinds, **options):
        (run,) = self.quietly(lambda: [self.load.run(server, kinds, **options)])
        return run

    def note(self, text):
        print(f"  ... {text}", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def server(self, kinds):
        """A tallyd that is ready and has loaded the kernels for these kinds of requests."""
        port = load.free_port()
        command = [self.settings.binary, "--listen", f"127.0.0.1:{port}", "--log-requests=false"]
        command += ["--drain-delay-ms", "0"]
        base = f"http://127.0.0.1:{port}"
        with load.process([*command, *self.settings.flags], base + "/readyz") as child:
            server = Server(port, child.pid)
            set_nice(child.pid, NICE)
            if self.settings.real_time:
                for thread in http_threads(child.pid):
                    real_time(thread)
            for kind in kinds:
                self.warm(server, kind)
            alone = [dataclasses.replace(kind, deadline_ms=0, flags="-") for kind in kinds]
            # small requests may share a launch, which needs other kernels
            if all(len(kind.body) < MIB for kind in kinds):
                self.load.run(server, alone, connections=16, seconds=0.2, cool=5)
            yield server

    def warm(self, server, kind):
        """Send a request of the kind before the measurement."""
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        headers = {"Content-Type": kind.content_type, "Accept": kind.accept or "*/*"}
        connection.request("POST", kind.path, kind.body, headers)
        answer = connection.getresponse()
        while answer.read(MIB):
            pass
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{kind.name}: {answer.status} from a server without load")


# Goodput ---------------------------------------------------------------------------------------


@dataclasses.dataclass
class Work:
    """One row of the goodput table, at several loads."""

    name: str
    kinds: list
    connections: tuple  # numbers of connections that the search for the capacity tries
    seconds: float  # seconds of a window
    warm: float
    cool: float
    rounds: int = 1  # passes over all loads, alternately with rising and falling loads
    goal: bool = True
    open_loop: int = 0  # number of connections of an open loop; 0: a closed loop
    # of a mix: kind -> its goodput when it runs alone
    rates: dict = dataclasses.field(default_factory=dict)


def value(work, run):
    """Goodput as one number per free processor: answers per second, or for a mix the sum over
    its kinds of goodput / goodput of the kind alone. Processors that other programs used do not
    count as free."""
    good = run.good
    if work.rates:
        good = sum(good / work.rates[name] for name, good in run.by_kind.items())
    return good / (CORES - run.others_cpu)


def works(quick):
    large, long = (4, 2) if quick else (256, 64)
    five = {"deadline_ms": 5000}
    yield Work(f"{large} MiB raw, Expect", [raw(large, flags="e", **five)], (4, 2), 5, 1.5, 5, 3)
    json_ = long_json(deadline_ms=500)
    yield Work(json_.name, [json_], (8, 2, 4, 16), 1.2, 0.4, 0.5, 5)
    three = small(deadline_ms=100)
    yield Work(three.name, [three], (32, 8, 16, 64), 1.2, 0.4, 0.5, 5)
    mix = [small(deadline_ms=100, weight=90), raw(1, deadline_ms=500, weight=9)]
    mix.append(raw(long, deadline_ms=2000, weight=1))
    yield Work(f"mix of 3x4 JSON, 1 and {long} MiB", mix, (4, 2, 8), 3, 2, 2, 4)
    if quick:
        return
    yield Work(f"{large} MiB raw", [raw(large, **five)], (4, 2), 5, 1.5, 5, 3)
    yield Work(json_.name + ", open loop", [json_], (8,), 1.5, 0.6, 0.5, 1, False, 3000)
    yield Work(three.name + ", open loop", [three], (32,), 1.5, 0.4, 0.5, 1, False, 2000)


def load_of(values, least=0.95):
    """The smallest load whose value is at least `least` times the best value."""
    return min(load for load, v in values.items() if v >= least * max(values.values()))


def shares_of(rounds):
    """For each load, the median over the rounds of its value divided by the value of the best
    load in the same round. The best load is the one with the best mean over all rounds, since
    chance can decide which load is best in a single round."""
    loads = list(rounds[0])
    best = max(loads, key=lambda load: statistics.fmean(values[load] for values in rounds))
    rounds = [values for values in rounds if values[best] > 0]
    if not rounds:
        return dict.fromkeys(loads, 0)
    return {
        load: statistics.median(values[load] / values[best] for values in rounds) for load in loads
    }


def goodput(bench, work):
    """Returns {multiple: Run}, {multiple: share of the best value}, and the load to which the
    multiples refer."""
    scale, quick = bench.scale, bench.settings.quick
    multiples = MULTIPLES[:: len(MULTIPLES) - 1] if quick else MULTIPLES
    times = {
        "seconds": work.seconds * scale,
        "warm": work.warm * scale,
        "cool": min(work.cool, 0.3) if quick else work.cool,
    }

    def measure(server, load_, **options):
        bench.note(f"{work.name}: {load_:.0f} {'a second' if 'rate' in options else 'connections'}")
        return bench.run(server, work.kinds, **times, **options)

    with bench.server(work.kinds) as server:
        for kind in work.kinds if len(work.kinds) > 1 else ():
            alone = dataclasses.replace(kind, deadline_ms=0)
            run = bench.run(server, [alone], connections=4, **times)
            work.rates[kind.name] = 1
            work.rates[kind.name] = value(work, run)
        search = {
            connections: measure(server, connections, connections=connections)
            for connections in work.connections[: 1 if quick else None]
        }
        one = load_of({load_: value(work, run) for load_, run in search.items()})
        if work.open_loop:
            one = search[one].good
        rounds = []
        for back in range(1 if quick else work.rounds):
            rounds.append({})
            for multiple in multiples[:: -1 if back % 2 else 1]:
                options = {"connections": one * multiple}
                if work.open_loop:
                    options = {"rate": one * multiple, "connections": work.open_loop, "seed": back}
                rounds[-1][multiple] = measure(server, one * multiple, **options)
    shares = shares_of([{m: value(work, run) for m, run in runs.items()} for runs in rounds])
    merged = {multiple: merge([runs[multiple] for runs in rounds]) for multiple in multiples}
    if work.open_loop:  # the shares are relative to the best value of the closed loop
        (most,) = (value(work, run) for run in search.values())
        shares = {multiple: value(work, run) / most for multiple, run in merged.items()}
    if work.name == small().name:
        bench.small_capacity = max(run.good for run in merged.values())
    return merged, shares, one


# Fairness --------------------------------------------------------------------------------------


@dataclasses.dataclass
class Aggressor:
    name: str
    kind: Kind
    connections: int
    lead: float = 0.5  # seconds before the polite client begins


def aggressors(quick):
    large, answer, zeros, numbers, bits, lead = (
        (4, 4, 16, 200_000, 2, 0.5) if quick else (256, 64, 256, 2_000_000, 16, 2)
    )
    yield Aggressor(f"{large} MiB raw without a deadline", raw(large), 32, lead)
    yield Aggressor(f"4 bytes in, {numbers} numbers out", strided(numbers, accept=JSON), 8)
    slow = strided(answer * MIB // 4, flags="s")
    yield Aggressor(f"{answer} MiB out, read slowly", slow, 64)
    yield Aggressor(f"{bits} MiB of random bits", random_bits(bits), 8)
    if quick:
        return
    yield Aggressor("25 KB JSON", long_json(), 64)
    packed = strided(zeros * MIB // 4, 0, accept_encoding="gzip")
    yield Aggressor(f"{zeros} MiB of zeros out, gzip", packed, 8)
    never = dataclasses.replace(raw(large), flags="n")
    yield Aggressor(f"{large} MiB announced, never sent", never, 128)


# A program that uses as much of a processor as the aggressor's clients did.
BURN = """
import sys, time
share, piece = float(sys.argv[1]), 0.001
while True:
    until = time.monotonic() + share * piece
    while time.monotonic() < until:
        pass
    time.sleep((1 - share) * piece)
"""


def small_capacity(bench):
    """Capacity in small requests per second, measured here if the goodput table has not found
    it."""
    if bench.small_capacity is None:
        kind = small(deadline_ms=100)
        with bench.server([kind]) as server:
            options = {"connections": 32, "warm": 0.3, "seconds": 2 * bench.scale}
            run = bench.run(server, [kind], **options)
        bench.small_capacity = run.good
    return bench.small_capacity


def beside(bench, aggressor, rate, address):
    """Run a polite client beside an aggressor; returns both results."""
    with bench.server([small(), aggressor.kind]) as server:
        options = {"connections": aggressor.connections, "warm": aggressor.lead, "cool": 0}
        command = bench.load.command(server, [aggressor.kind], seconds=60, **options)
        with under_way(command, bench.settings.aggressor_nice) as child:
            time.sleep(aggressor.lead)
            run = polite_run(bench, server, rate, address, [child.pid])
            child.terminate()  # the polite client has all of its answers
            output, _ = child.communicate(timeout=60)
        return run, summed_up(output, [aggressor.kind])


def alone(bench, share, rate):
    """Run the polite client beside a process that sends nothing, but uses as much of a
    processor as the aggressor did."""
    with bench.server([small()]) as server:
        command = [sys.executable, "-c", BURN, min(share, 0.98)]
        with under_way(command, bench.settings.aggressor_nice) as child:
            return (polite_run(bench, server, rate, POLITE, [child.pid]),)


def polite_run(bench, server, rate, address, ours):
    options = {"rate": rate, "from": address, "connections": 512, "warm": 0.2}
    options |= {"cool": 0.3 if bench.settings.quick else 3, "seconds": 5 * bench.scale}
    return bench.load.run(server, [small()], True, ours, **options)


def fairness(bench, aggressor):
    rate = POLITE_SHARE * small_capacity(bench)
    bench.note(f"beside {aggressor.name}")
    side, other = bench.quietly(lambda: beside(bench, aggressor, rate, POLITE))
    (quiet,) = bench.quietly(lambda: alone(bench, other.cpu, rate))
    runs = {"beside": side, "aggressor": other, "alone": quiet}
    if not bench.settings.quick:
        runs["same"], _ = bench.quietly(lambda: beside(bench, aggressor, rate, AGGRESSOR))
    return runs


def not_served(run):
    """Number of the polite client's requests without an answer of 200."""
    lost = run.late + run.refused_before + run.refused_later + run.errors + run.unsent
    return round(lost * run.seconds)


# Tables ----------------------------------------------------------------------------------------


def number(x):
    if x is None:
        return "-"
    if math.isinf(x):
        return "never"
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 or x == 0 else f"{x:.2f}"


def print_rows(header, rows):
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        cells = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


GOODPUT_HEADER = ["work, load", "offered/s", "good/s", "late/s", "refused before", "later"]
GOODPUT_HEADER += ["errors/s", "unsent/s", "p50 ms", "p99 ms", "vain MiB/s", "cores: server"]
GOODPUT_HEADER += ["clients", "others", "ms each", "of peak"]


def goodput_rows(work, runs, shares, one):
    unit = "/s" if work.open_loop else " connections"
    for multiple, run in runs.items():
        figures = [run.offered, run.good, run.late, run.refused_before, run.refused_later]
        figures += [run.errors, run.unsent, run.p(50), run.p(99), run.vain_mib]
        each = 1e3 * run.server_cpu / run.good if run.good > 0 else None
        figures += [run.server_cpu, run.cpu, run.others_cpu, each]
        name = f"{work.name}, {multiple}x ({one * multiple:.0f}{unit})"
        yield [name, *map(number, figures), f"{shares[multiple]:.2f}"]
        if work.rates:
            for kind, good in run.by_kind.items():
                yield [f"    {kind}", "", number(good), *[""] * 13]


FAIRNESS_HEADER = ["beside", "alone p50", "p99", "beside p50", "p99", "server's p99", "alone"]
FAIRNESS_HEADER += ["not served", "x alone", "same address p50", "p99", "not served", "aggressor/s"]
FAIRNESS_HEADER += ["cores: server", "aggressor", "others", "alone"]


def fairness_row(name, runs):
    alone, side, aggressor = runs["alone"], runs["beside"], runs["aggressor"]
    same = runs.get("same", Run(0))
    row = [name]
    row += [run.piece_p(percent) for run in (alone, side) for percent in (50, 99)]
    row += [side.p(99, "server_ms"), alone.p(99, "server_ms"), not_served(side)]
    row += [
        slowdown(runs),
        same.piece_p(50),
        same.piece_p(99),
        not_served(same),
        aggressor.good,
    ]
    row += [side.server_cpu, aggressor.cpu, side.others_cpu, alone.others_cpu]
    return [row[0], *(str(x) if isinstance(x, int) else number(x) for x in row[1:])]


def slowdown(runs):
    alone, side = (runs[name].piece_p(99) for name in ("alone", "beside"))
    if alone is None or side is None or math.isinf(alone):
        return math.inf
    return side / alone


@dataclasses.dataclass
class Verdict:
    """Whether a goal is reached, and whether its runs can decide that."""

    text: str
    met: bool
    others_cpu: float

    def word(self):
        return "unclear" if self.others_cpu > NOISY else "reached" if self.met else "MISSED"

    def __str__(self):
        others = f" (others took {self.others_cpu:.1f} processors)" * (self.others_cpu > load.QUIET)
        return f"{self.word():7}  {self.text}{others}"


def judge(text, met, runs):
    return Verdict(text, met, max(run.others_cpu for run in runs))


def run_goodput(bench, verdicts):
    rows, figures = [], []
    for work in works(bench.settings.quick):
        if bench.settings.match not in work.name:
            continue
        runs, shares, one = goodput(bench, work)
        rows += goodput_rows(work, runs, shares, one)
        met = shares[8] >= LEAST_OF_PEAK
        text = f"goodput of {work.name} at 8 times: {shares[8]:.2f} of its peak"
        if work.goal:
            verdicts.append(judge(f"{text}, goal {LEAST_OF_PEAK}", met, runs.values()))
        loads = {multiple: run.figures() for multiple, run in runs.items()}
        about = {"work": work.name, "goal": work.goal, "one": one}
        figures.append({**about, "shares": shares, "loads": loads})
    print("\nGoodput in the deadline")
    print_rows(GOODPUT_HEADER, rows)
    return figures


def run_fairness(bench, verdicts):
    rows, figures = [], []
    for aggressor in aggressors(bench.settings.quick):
        if bench.settings.match not in aggressor.name:
            continue
        runs = fairness(bench, aggressor)
        rows.append(fairness_row(aggressor.name, runs))
        lost, factor = not_served(runs["beside"]), slowdown(runs)
        met = lost == 0 and factor <= MOST_OF_ALONE
        text = f"polite client beside {aggressor.name}: {lost} not served, p99 {factor:.1f} times "
        text += f"that alone, goal 0 and {MOST_OF_ALONE:.0f}"
        verdicts.append(judge(text, met, [runs["beside"], runs["alone"]]))
        runs = {name: run.figures() for name, run in runs.items()}
        figures.append(
            {"aggressor": aggressor.name, "slowdown": factor, "lost": lost, "runs": runs}
        )
    print(f"\nA polite client's {number(POLITE_SHARE * small_capacity(bench))} small requests a")
    print("second beside others, milliseconds")
    print_rows(FAIRNESS_HEADER, rows)
    return figures


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="some 10 s, to see that it runs; no figures to keep")
    add("--seconds", type=float, default=FULL_SECONDS, help="for all of it, about")
    add("--only", choices=("goodput", "fairness"))
    add("--match", default="", help="only work whose name contains this text")
    add("--impatient", action="store_true", help="refused clients come back at once")
    add("--real-time", action="store_true", help="of the server's HTTP threads (chrt -r 1)")
    add("--aggressor-nice", type=int, default=NICE + 5, help="of the aggressor's clients")
    add("--binary", type=pathlib.Path, default=load.BIN / "tallyd")
    add("--client", type=pathlib.Path, default=load.BIN / "load_client")
    add("--patience", type=float, default=120, help="seconds more, where the machine is not quiet")
    add("--json", type=pathlib.Path, help="write all figures to this file")
    add("flags", nargs="*", help="flags for tallyd, behind --")
    settings = parser.parse_args()
    settings.binary = settings.binary.resolve()
    if settings.quick:
        settings.seconds = min(settings.seconds, FULL_SECONDS / 10)
        settings.patience = 0
    return settings


def stop(number, frame):
    raise KeyboardInterrupt


def main():
    settings = arguments()
    signal.signal(signal.SIGTERM, stop)
    verdicts, figures = [], {}
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix=load.PREFIX, dir=load.shm_dir()) as folder:
            bench = Bench(settings, folder)
            if settings.only != "fairness":
                figures["goodput"] = run_goodput(bench, verdicts)
            if settings.only != "goodput":
                figures["fairness"] = run_fairness(bench, verdicts)
    except KeyboardInterrupt:
        sys.exit("overload: interrupted")
    print()
    for verdict in verdicts:
        print(verdict)
    words = [verdict.word() for verdict in verdicts]
    missed, unclear = words.count("MISSED"), words.count("unclear")
    print(f"{words.count('reached')} reached, {missed} missed, {unclear} unclear, ", end="")
    print(f"{time.monotonic() - began:.0f} s")
    if settings.json:
        figures["verdicts"] = [{"word": v.word(), **dataclasses.asdict(v)} for v in verdicts]
        settings.json.write_text(json.dumps(figures, indent=1) + "\n")
    sys.exit(1 if missed else 2 if unclear else 0)


if __name__ == "__main__":
    main()
