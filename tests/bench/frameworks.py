"""(d) The same requests against common alternatives: FastAPI with NumPy or PyTorch, and MLServer.
After one second (or request) of warm-up, tallyd and the alternative are measured alternately in
rounds.
"""

import contextlib
import json
import os
import pathlib
import tempfile

import load
import works
from report import Goal, Row, failed, spread
from service import ROUNDS, SECONDS, SECONDS_LARGE, warm, warm_path
from works import JSON, MIB, Work


@contextlib.contextmanager
def fastapi(python, engine):
    port = load.free_port()
    command = [python, "-m", "uvicorn", "--app-dir", load.HERE / "peers", "fastapi_sum:app"]
    command += ["--port", port, "--workers", os.cpu_count(), "--log-level", "error"]
    command += ["--no-access-log"]
    url = f"http://127.0.0.1:{port}"
    with load.process(command, url + "/readyz", env={"ENGINE": engine}) as child:
        yield child, url


@contextlib.contextmanager
def mlserver(command):
    http, grpc, metrics = load.free_port(), load.free_port(), load.free_port()
    server = {"http_port": http, "grpc_port": grpc, "metrics_port": metrics}
    server.update({"host": "127.0.0.1", "parallel_workers": 0, "debug": False})
    model = {"name": "cumsum", "implementation": "mlserver_sum.CumulativeSum"}
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "settings.json").write_text(json.dumps(server))
        pathlib.Path(folder, "model-settings.json").write_text(json.dumps(model))
        environment = {"PYTHONPATH": str(load.HERE / "peers")}
        url = f"http://127.0.0.1:{http}"
        ready = url + "/v2/health/ready"
        with load.process([command, "start", folder], ready, env=environment, timeout=120) as child:
            yield child, url


def web_works(quick):
    """Yields (work for tallyd, path of the same request on the other server)."""
    yield Work("small JSON", "/v1/cumsum", JSON, works.small_json, 32), "/json"
    for name, shape, axis, count, c in (
        ("small raw", "3,4", 1, 12, 32),
        ("raw 1 MiB", MIB // 4, 0, MIB // 4, 4),
        ("raw 64 MiB", 16 * MIB, 0, 16 * MIB, 2),
    ):
        query = works.raw_query(shape, axis)
        if not quick or count <= MIB:
            yield works.raw_work(name, "/v1/cumsum" + query, count, c), "/raw" + query
    for count, c in ((1 << 10, 16), (1 << 16, 1), (1 << 16, 8), (1 << 20, 1)):
        goal = {"goal": Goal(">=", 3)} if count == 1 << 16 else {}
        if not quick or count == 1 << 16:
            yield works.json_work(count, "/v1/cumsum", c, **goal), "/json"


def v2_works():
    path = "/v2/models/{}/infer"
    work = Work("v2 JSON", path.format("cumsum_fp32"), JSON, works.v2_json, 32)
    yield work, path.format("cumsum")


def compare(peer, work, base, their_url, settings):
    args = work.wrk_args(SECONDS_LARGE if len(work.body) >= MIB else SECONDS)
    with load.body_file(work.body) as body:
        warm(base, work, body)
        warm_path(their_url, work, body)
        runs = {
            "tallyd": lambda: load.wrk(base + work.path, body, **args),
            "peer": lambda: load.wrk(their_url, body, **args),
        }
        results = load.interleave(runs, settings.rounds or (1 if settings.quick else ROUNDS))
    ours, theirs = (load.median_by(results[name], "rps") for name in ("tallyd", "peer"))
    figures = {
        "requests_per_second": round(ours["rps"], 1),
        "p50_us": ours["p50_us"],
        "p99_us": ours["p99_us"],
        "peer_requests_per_second": round(theirs["rps"], 1),
        "peer_p50_us": theirs["p50_us"],
        "peer_p99_us": theirs["p99_us"],
    }
    notes = "{requests_per_second}/s, p50 {p50_us} us, p99 {p99_us} us; "
    notes += "peer {peer_requests_per_second}/s, {peer_p50_us}, {peer_p99_us}"
    return Row(
        work.name,
        peer,
        **spread(load.ratios(results, "tallyd", "peer", "rps")),
        goal=work.goal or Goal(">", 1),
        notes=notes.format(**figures),
        **figures,
    )


def against(peer, start, jobs, settings):
    """Rows of one peer. A peer that does not start or gives up loses only its own rows."""
    with load.tallyd() as (_, base), start() as (_, theirs):
        for work, path in jobs:
            settings.note(f"{peer}: {work.name}")
            try:
                yield compare(peer, work, base, theirs + path, settings)
            except RuntimeError as error:
                yield failed(work.name, peer, error)


def section(settings):
    python, rows = settings.python, []
    peers = [
        ("FastAPI + NumPy", lambda: fastapi(python, "numpy"), web_works),
        ("FastAPI + PyTorch", lambda: fastapi(python, "torch"), web_works),
        ("MLServer", lambda: mlserver(settings.mlserver), lambda quick: v2_works()),
    ]
    for name, start, jobs in peers:
        jobs = [
            (work, path)
            for work, path in jobs(settings.quick)
            if settings.match is None or settings.match in f"{name}: {work.name}"
        ]
        try:
            if jobs:
                rows += against(name, start, jobs, settings)
        except (RuntimeError, OSError) as error:
            rows.append(failed("all", name, error))
    return rows
