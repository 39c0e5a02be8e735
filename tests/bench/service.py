"""(c) The service under wrk against a bare libmicrohttpd daemon that does the same I/O.

One wrk thread, 1 to 128 connections; kernels built, one second (or request) to warm up; then rounds in which
tallyd and the bare daemon take turns. Ratio: of the requests a second in one round.
"""

import contextlib
import http.client
import threading
import urllib.request

import load
import works
from report import Goal, Row, failed, spread
from works import JSON, MIB, RAW, Work

SECONDS = 1
SECONDS_LARGE = 3  # of work that takes some 10 ms a request
ROUNDS = 3
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
    for mib, c in ((1, 4), (64, 2)):
        path = "/v1/cumsum" + works.raw_query(mib * MIB // 4)
        goal = {"goal": Goal(">=", 0.80)} if mib == 64 else {}
        yield works.raw_work(f"raw {mib} MiB", path, mib * MIB // 4, c, echo=True, **goal)
    every = ((1 << 10, 16), (1 << 16, 1), (1 << 16, 4), (1 << 20, 1), (1 << 20, 4))
    for count, c in every[:3:2] if quick else every:
        yield works.json_work(count, "/v1/cumsum", c)


def answer_bytes(url, work):
    """How long the answer is."""
    extra = dict(line.split(": ") for line in work.extra.splitlines())
    header = {"Content-Type": work.content_type, **extra}
    request = urllib.request.Request(url, work.body, header)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return len(answer.read())


@contextlib.contextmanager
def bare(base, work):
    """The floor: libmicrohttpd alone, which takes a body and sends as many bytes as tallyd does,
    or the body itself."""
    port = load.free_port()
    url = f"http://127.0.0.1:{port}/"
    answer = "echo" if work.echo else answer_bytes(base + work.path, work)
    with load.process([load.BIN / "bare_mhd", port, answer], url) as child:
        yield child, url


def warm_path(url, work, body):
    """Both ends of it: for a second, or by one request that may take longer."""
    if len(work.body) >= MIB:
        answer_bytes(url, work)
    else:
        load.wrk(url, body, **work.wrk_args(1))


def warm(base, work, body):
    """tallyd, before anything is measured."""
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


@contextlib.contextmanager
def large_requests(base, mib):
    """Raw tensors of `mib` MiB, one after the other, until the block ends."""
    elements = mib << 18
    data, stop, seen = works.raw_body(elements), threading.Event(), []

    def send():
        connection = http.client.HTTPConnection(base.split("//")[1], timeout=60)
        path, room = "/v1/cumsum" + works.raw_query(elements), bytearray(MIB)
        with contextlib.suppress(OSError):
            while not stop.is_set():
                connection.request("POST", path, data, {"Content-Type": RAW})
                answer = connection.getresponse()
                while answer.readinto(room):
                    pass
                seen.append(answer.status)
        connection.close()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def beside_large(base):
    """Small requests alone, and beside 256 MiB ones that keep one connection busy."""
    work = Work("small JSON", "/v1/cumsum", JSON, works.small_json, 8)
    with load.body_file(work.body) as body:
        warm(base, work, body)
        with large_requests(base, 256):
            load.wrk(base + work.path, body, **work.wrk_args(1))
        alone = load.wrk(base + work.path, body, **work.wrk_args(4))
        with large_requests(base, 256) as seen:
            beside = load.wrk(base + work.path, body, **work.wrk_args(4))
    if not seen or set(seen) != {200}:
        raise RuntimeError(f"the large requests were answered with {set(seen)}")
    figures = {f"{name}_us": beside[f"{name}_us"] for name in ("p50", "p99")}
    figures.update({f"alone_{name}_us": alone[f"{name}_us"] for name in ("p50", "p99")})
    notes = "p50 {p50_us} us, p99 {p99_us} us; alone {alone_p50_us}, {alone_p99_us}"
    return Row(
        "p99 of small JSON c=8 beside 256 MiB",
        "alone",
        beside["p99_us"] / alone["p99_us"],
        notes=notes.format(**figures),
        **figures,
    )


def paced(base):
    """Latencies at about 80 % of the rate that 32 connections reach when they never pause."""
    delay_ms, between_s = 4, 0.0045
    work = works.raw_work("small raw", "/v1/cumsum" + works.raw_query("3,4", 1), 12, 32)
    with load.body_file(work.body) as body:
        warm(base, work, body)
        args = work.wrk_args(4)
        top = load.wrk(base + work.path, body, **args)["rps"]
        args["connections"] = max(1, round(0.8 * top * between_s))
        for _ in range(4):  # connections that wait for answers are slower than they pause
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
        (w.name, lambda base, child, w=w: against_bare(child, base, w, settings)) for w in wanted
    ]
    if not settings.quick:
        steps.append(("small beside large", lambda base, child: beside_large(base)))
        steps.append(("paced", lambda base, child: paced(base)))
    rows = []
    with load.tallyd() as (child, base):
        for name, step in steps:
            if settings.match is not None and settings.match not in name:
                continue
            settings.note(name)
            try:
                rows.append(step(base, child))
            except (RuntimeError, OSError) as error:
                rows.append(failed(name, "", error))
                if child.poll() is not None:
                    raise RuntimeError("tallyd has ended") from error
    return rows
