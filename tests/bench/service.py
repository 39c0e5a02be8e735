"""(c) The service under wrk against a bare libmicrohttpd daemon that does the same I/O.

One wrk thread with 1 to 128 connections. One second of requests, or one large request, warms up
and builds the kernels. Then tallyd and the bare daemon are measured alternately. A ratio
compares the requests per second of the same round.
"""

import contextlib
import statistics
import sys
import tempfile
import time
import urllib.request

import load
import works
from report import Goal, Row, failed, spread
from works import JSON, MIB, RAW, Work

sys.path.insert(0, str(load.ROOT / "tests/load"))

import overload  # noqa: E402

SECONDS = 1
SECONDS_LARGE = 3  # seconds of a measurement if a request takes about 10 ms
ROUNDS = 3
SECONDS_BESIDE = 6
ROUNDS_BESIDE = 3
RATE_BESIDE = 1000  # requests per second
# least ratio of the rate of large requests beside small ones to their rate alone
LEAST_BESIDE = 0.9
BESIDE = (
    (4, 10),
    (64, 50),
)  # (connections with large tensors, longest allowed p99 of small requests in ms)
SWEEP = (1, 4, 32, 128)
SWEEP_QUICK = (1, 32)


def small_works(quick):
    raw = works.raw_body(12)
    v2, header = works.v2_binary([3, 4], raw)
    raw_path = "/v1/cumsum" + works.raw_query("3,4", 1)
    for c in SWEEP_QUICK if quick else SWEEP:
        goal = {"goal": Goal(">=", 0.40)} if c == 32 else {}
        yield Work("small JSON", "/v1/cumsum", JSON, works.small_json, c, **goal)
        goal = {"goal": Goal(">=", 0.45)} if c == 32 else {}
        yield works.raw_work("small raw", raw_path, 12, c, **goal)
        if c == 32 or not quick:
            yield Work(
                "v2 binary", "/v2/models/cumsum/infer", RAW, lambda: v2, c, extra=header, **goal
            )


def large_works(quick):
    for mib, c, least in ((1, 4, None), (64, 1, 1.5), (64, 2, 0.8)):
        path = "/v1/cumsum" + works.raw_query(mib * MIB // 4)
        goal = {"goal": Goal(">=", least)} if least else {}
        yield works.raw_work(f"raw {mib} MiB", path, mib * MIB // 4, c, echo=True, **goal)
    every = ((1 << 10, 16), (1 << 16, 1), (1 << 16, 4), (1 << 20, 1), (1 << 20, 4))
    for count, c in every[:3:2] if quick else every:
        yield works.json_work(count, "/v1/cumsum", c)


def answer_bytes(url, work):
    """Length of the answer in bytes."""
    extra = dict(line.split(": ") for line in work.extra.splitlines())
    header = {"Content-Type": work.content_type, **extra}
    request = urllib.request.Request(url, work.body, header)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return len(answer.read())


@contextlib.contextmanager
def bare(base, work):
    """The baseline: libmicrohttpd alone receives a body, and sends as many bytes as tallyd does, or
    the body itself."""
    port = load.free_port()
    url = f"http://127.0.0.1:{port}/"
    answer = "echo" if work.echo else answer_bytes(base + work.path, work)
    with load.process([load.BIN / "bare_mhd", port, answer], url) as child:
        yield child, url


def warm_path(url, work, body):
    """Warm up one URL: for a second, or by one request that may take longer."""
    if len(work.body) >= MIB:
        answer_bytes(url, work)
    else:
        load.wrk(url, body, **work.wrk_args(1))


def warm(base, work, body):
    """Warm up tallyd before the measurement."""
    warm_path(base + work.path, work, body)


def against_bare(tally, base, work, settings):
    large = len(work.body) >= 4 * MIB
    args = work.wrk_args(SECONDS_LARGE if large and not settings.quick else SECONDS)
    with load.body_file(work.body) as body, bare(base, work) as (floor, url):
        warm(base, work, body)
        runs = {
            "tallyd": lambda: load.wrk(base + work.path, body, pid=tally.pid, **args),
            "bare": lambda: load.wrk(url, body, pid=floor.pid, **args),
        }
        results = load.interleave(runs, settings.rounds or (1 if settings.quick else ROUNDS))
    ours, theirs = (load.median_by(results[name], "rps") for name in ("tallyd", "bare"))
    figures = {
        "requests_per_second": round(ours["rps"], 1),
        "megabytes_per_second": round(ours["rps"] * len(work.body) / 1e6, 1),
        "p50_us": ours["p50_us"],
        "p99_us": ours["p99_us"],
        "server_cpu_us_per_request": cpu_us(ours),
        "bare_requests_per_second": round(theirs["rps"], 1),
        "bare_p50_us": theirs["p50_us"],
        "bare_p99_us": theirs["p99_us"],
        "bare_cpu_us_per_request": cpu_us(theirs),
    }
    notes = "{requests_per_second}/s, p50 {p50_us} us, p99 {p99_us} us, cpu {server_cpu_us_per_request} us; "
    notes += (
        "bare {bare_requests_per_second}/s, {bare_p50_us}, {bare_p99_us}, {bare_cpu_us_per_request}"
    )
    return Row(
        work.name,
        "bare libmicrohttpd",
        **spread(load.ratios(results, "tallyd", "bare", "rps")),
        goal=work.goal,
        notes=notes.format(**figures),
        **figures,
    )


def cpu_us(result):
    return round(result["cpu_seconds"] * 1e6 / max(result["requests"], 1), 1)


class Beside:
    """Small requests while other connections send 256 MiB repeatedly."""

    def __init__(self, base, child, folder):
        self.base = base
        self.server = overload.Server(int(base.rsplit(":", 1)[1]), child.pid)
        self.clients = overload.Load(load.BIN / "load_client", folder)
        self.large = overload.raw(256)

    def run_large(self, connections, small):
        """Run the large requests while small() runs; returns the result of small()."""
        options = {"connections": connections, "warm": 1, "seconds": SECONDS_BESIDE}
        command = self.clients.command(self.server, [self.large], **options)
        with overload.under_way(command, 0) as other:
            time.sleep(1)
            result = small()
            run = overload.summed_up(other.communicate(timeout=60)[0], [self.large])
        if run.errors > 0 or run.good == 0:
            raise RuntimeError(f"large requests failed: {run.figures()}")
        return run, result

    def at_their_own_pace(self, connections, most_ms):
        """Latency of 8 clients, each of which sends its next request when it has an answer."""
        work = Work("small JSON", "/v1/cumsum", JSON, works.small_json, 8)
        with load.body_file(work.body) as body:
            warm(self.base, work, body)
            args = work.wrk_args(SECONDS_BESIDE)
            beside, small = self.run_large(
                connections, lambda: load.wrk(self.base + work.path, body, **args)
            )
        return Row(
            f"small JSON c=8 beside {connections} of 256 MiB",
            "p99, ms",
            small["p99_us"] / 1000,
            goal=Goal("<", most_ms),
            notes=f"p50 {small['p50_us']} us, {beside.good:.1f}/s of the large",
            requests_per_second=round(small["rps"], 1),
            p50_us=small["p50_us"],
            p99_us=small["p99_us"],
        )

    def at_a_rate(self, connections):
        """The rate of large requests beside 1000 small ones per second, relative to their rate
        alone."""
        options = {"connections": 8, "rate": RATE_BESIDE, "warm": 0, "seconds": SECONDS_BESIDE}
        runs = {
            "alone": lambda: self.run_large(connections, lambda: time.sleep(SECONDS_BESIDE)),
            "beside": lambda: self.run_large(
                connections,
                lambda: self.clients.run(self.server, [overload.small()], **options),
            ),
        }
        results = load.interleave(runs, ROUNDS_BESIDE)
        of_each = [
            beside[0].good / alone[0].good
            for alone, beside in zip(results["alone"], results["beside"])
        ]
        rates = [run.good for run, _ in results["alone"]]
        late = statistics.median(small.p(99) for _, small in results["beside"])
        return Row(
            f"256 MiB c={connections} beside {RATE_BESIDE} small JSON a second",
            "alone",
            **spread(of_each),
            goal=Goal(">=", LEAST_BESIDE),
            notes=f"{statistics.median(rates):.1f}/s alone; p99 of the small {late:.1f} ms",
            small_p99_ms=late,
        )


def beside_large(base, child):
    """The influence of small and large requests on each other."""
    with tempfile.TemporaryDirectory(prefix=load.PREFIX, dir=load.shm_dir()) as folder:
        beside = Beside(base, child, folder)
        for connections, most_ms in BESIDE:
            yield beside.at_their_own_pace(connections, most_ms)
            yield beside.at_a_rate(connections)


def paced(base):
    """Latencies at about 80 % of the rate that 32 connections reach without pauses."""
    delay_ms, between_s = 4, 0.0045
    work = works.raw_work("small raw", "/v1/cumsum" + works.raw_query("3,4", 1), 12, 32)
    with load.body_file(work.body) as body:
        warm(base, work, body)
        args = work.wrk_args(4)
        top = load.wrk(base + work.path, body, **args)["rps"]
        args["connections"] = max(1, round(0.8 * top * between_s))
        # Correct the number of connections: each also spends time waiting for its answers.
        for _ in range(4):
            run = load.wrk(base + work.path, body, delay_ms=delay_ms, **args)
            rate = run["rps"] / top
            if 0.77 <= rate <= 0.83:
                break
            args["connections"] = max(1, round(args["connections"] * 0.8 / rate))
    return Row(
        f"p99 of small raw at {rate:.0%} of the top rate",
        "p50",
        run["p99_us"] / run["p50_us"],
        notes=f"{run['rps']:.0f}/s, p50 {run['p50_us']} us, p99 {run['p99_us']} us",
        p50_us=run["p50_us"],
        p99_us=run["p99_us"],
        rate_over_top=round(rate, 3),
    )


def section(settings):
    wanted = [*small_works(settings.quick), *large_works(settings.quick)]
    steps = [
        (w.name, lambda base, child, w=w: [against_bare(child, base, w, settings)]) for w in wanted
    ]
    if not settings.quick:
        steps.append(("small beside large", beside_large))
        steps.append(("paced", lambda base, child: [paced(base)]))
    rows = []
    with load.tallyd() as (child, base):
        for name, step in steps:
            if settings.match is not None and settings.match not in name:
                continue
            settings.note(name)
            try:
                rows.extend(step(base, child))
            except (RuntimeError, OSError) as error:
                rows.append(failed(name, "", error))
                if child.poll() is not None:
                    raise RuntimeError("tallyd has ended") from error
    return rows
