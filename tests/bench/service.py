"""The service under wrk against a bare libmicrohttpd daemon that does the same I/O, and against
what a user would otherwise run. Every ratio is taken from interleaved runs on one machine."""

import contextlib
import http.client
import json
import os
import random
import struct
import sys
import tempfile
import threading
import pathlib

import load

JSON = "application/json"
RAW = "application/octet-stream"


def floats(count, seed=1):
    rng = random.Random(seed)
    return [struct.unpack("f", struct.pack("f", rng.uniform(-1000, 1000)))[0] for _ in range(count)]


def raw_body(count):
    block = struct.pack("4096f", *floats(4096))
    return (block * (count // 4096 + 1))[: count * 4]


def json_body(count):
    return json.dumps(
        {"data": [float(f"{x:.6g}") for x in floats(count)], "dtype": "float32"}
    ).encode()


def v2_body(shape, data):
    head = json.dumps(
        {
            "parameters": {"axis": -1, "binary_data_output": True},
            "inputs": [
                {
                    "name": "x",
                    "shape": shape,
                    "datatype": "FP32",
                    "parameters": {"binary_data_size": len(data)},
                }
            ],
        }
    ).encode()
    return head + data, f"Inference-Header-Content-Length: {len(head)}"


class Work:
    """One kind of request: where it goes on tallyd, and what a bare daemon has to move for it."""

    def __init__(
        self,
        name,
        path,
        content_type,
        body,
        *,
        extra="",
        answer_bytes=None,
        connections=32,
        echo=False,
    ):
        self.name, self.path, self.content_type, self.body = name, path, content_type, body
        self.extra, self.connections, self.echo = extra, connections, echo
        self.answer_bytes = len(body) if answer_bytes is None else answer_bytes


def works(quick):
    small = struct.pack("12f", *floats(12))
    small_json = json.dumps(
        {"data": [[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]], "dtype": "float32", "axis": 1}
    ).encode()
    v2, header = v2_body([3, 4], small)
    mib = 1 << 20
    sweep = (1, 32) if quick else (1, 4, 32, 128)
    for c in sweep:
        yield Work(
            f"small JSON c={c}", "/v1/cumsum", JSON, small_json, answer_bytes=110, connections=c
        )
        yield Work(
            f"small raw c={c}",
            "/v1/cumsum?dtype=float32&shape=3,4&axis=1",
            RAW,
            small,
            connections=c,
        )
    yield Work("v2 binary c=32", "/v2/models/cumsum/infer", RAW, v2, extra=header)
    yield Work(
        "raw 1 MiB c=4",
        f"/v1/cumsum?dtype=float32&shape={mib // 4}",
        RAW,
        raw_body(mib // 4),
        connections=4,
        echo=True,
    )
    yield Work(
        "raw 64 MiB c=2",
        f"/v1/cumsum?dtype=float32&shape={16 * mib}",
        RAW,
        raw_body(16 * mib),
        connections=2,
        echo=True,
    )
    for count, c in ((1024, 16), (65536, 1), (65536, 4), (1 << 20, 1), (1 << 20, 4)):
        body = json_body(count)
        yield Work(f"JSON {count} numbers c={c}", "/v1/cumsum", JSON, body, connections=c)


@contextlib.contextmanager
def large_requests(base, mib):
    """Raw tensors of `mib` MiB, one after the other, until the block ends."""
    elements = mib << 18
    data, stop, seen = raw_body(elements), threading.Event(), []

    def send():
        connection = http.client.HTTPConnection(base.split("//")[1], timeout=60)
        path, room = f"/v1/cumsum?dtype=float32&shape={elements}", bytearray(1 << 20)
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


def beside_large(base, note):
    """Small requests alone, and beside 256 MiB ones that keep one connection busy."""
    note("small JSON c=8 beside 256 MiB")
    small = next(works(quick=True)).body
    with load.body_file(small) as body:
        args = {"content_type": JSON, "seconds": 4, "connections": 8}
        load.wrk(base + "/v1/cumsum", body, **args)
        with large_requests(base, 256):
            load.wrk(base + "/v1/cumsum", body, **{**args, "seconds": 1})
        load.wait_built(base)
        alone = load.wrk(base + "/v1/cumsum", body, **args)
        with large_requests(base, 256) as seen:
            beside = load.wrk(base + "/v1/cumsum", body, **args)
    if not seen or set(seen) != {200}:
        raise RuntimeError(f"the large requests were answered with {set(seen)}")
    return {
        "work": "small JSON c=8 beside 256 MiB",
        "requests_per_second": round(beside["rps"], 1),
        "p50_us": beside["p50_us"],
        "p99_us": beside["p99_us"],
        "alone_p50_us": alone["p50_us"],
        "alone_p99_us": alone["p99_us"],
    }


def paced(base, note):
    """Latencies at about 80 % of the rate that 32 connections reach when they never pause."""
    note("small raw at 80 % of the top rate")
    delay_ms, between_s = 4, 0.0045
    url = base + "/v1/cumsum?dtype=float32&shape=3,4&axis=1"
    with load.body_file(raw_body(12)) as body:
        args = {"content_type": RAW, "seconds": 4}
        top = load.wrk(url, body, connections=32, **args)["rps"]
        connections = max(1, round(0.8 * top * between_s))
        run = load.wrk(url, body, connections=connections, delay_ms=delay_ms, **args)
    return {
        "work": f"small raw c={connections}, paced",
        "requests_per_second": round(run["rps"], 1),
        "p50_us": run["p50_us"],
        "p99_us": run["p99_us"],
        "rate_over_top": round(run["rps"] / top, 2),
        "p99_over_p50": round(run["p99_us"] / run["p50_us"], 1),
    }


@contextlib.contextmanager
def bare(work):
    """The floor: libmicrohttpd alone, taking the body and answering as many bytes (or the body itself)."""
    port = load.free_port()
    url = f"http://127.0.0.1:{port}/"
    with load.process(
        [str(load.BIN / "bare_mhd"), str(port), "echo" if work.echo else str(work.answer_bytes)],
        url,
    ) as child:
        yield child, url


def service(quick, note):
    """(c): tallyd against bare_mhd."""
    seconds, rounds = (2, 1) if quick else (2, 3)
    rows = []
    with load.tallyd() as (tally, base):
        for work in works(quick):
            note(work.name)
            with load.body_file(work.body) as body, bare(work) as (floor, floor_url):
                args = {
                    "content_type": work.content_type,
                    "seconds": seconds,
                    "connections": work.connections,
                    "extra": work.extra,
                }
                runs = {
                    "tallyd": lambda: load.wrk(base + work.path, body, pid=tally.pid, **args),
                    "bare": lambda: load.wrk(floor_url, body, pid=floor.pid, **args),
                }
                load.wrk(
                    base + work.path, body, **{**args, "seconds": 1}
                )  # warm both ends of the path, and say which kernels are wanted
                load.wait_built(base)
                results = load.interleave(runs, rounds)
            mid = load.median_by(results["tallyd"], "rps")
            rows.append(
                {
                    "work": work.name,
                    "requests_per_second": round(mid["rps"], 1),
                    "megabytes_per_second": round(mid["rps"] * len(work.body) / 1e6, 1),
                    "p50_us": mid["p50_us"],
                    "p99_us": mid["p99_us"],
                    "server_cpu_us_per_request": round(
                        mid["cpu_seconds"] * 1e6 / max(mid["requests"], 1), 1
                    ),
                    "bare_requests_per_second": round(
                        load.median_by(results["bare"], "rps")["rps"], 1
                    ),
                    "ratio_to_bare_mhd": round(load.ratio(results, "tallyd", "bare", "rps"), 3),
                }
            )
        rows.append(beside_large(base, note))
        rows.append(paced(base, note))
    return rows


@contextlib.contextmanager
def fastapi(python, engine):
    port = load.free_port()
    command = [
        python,
        "-m",
        "uvicorn",
        "--app-dir",
        str(load.HERE / "peers"),
        "fastapi_sum:app",
        "--port",
        str(port),
        "--workers",
        "2",
        "--log-level",
        "error",
        "--no-access-log",
    ]
    with load.process(command, f"http://127.0.0.1:{port}/readyz", env={"ENGINE": engine}) as child:
        yield child, f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def mlserver(command):
    http, grpc, metrics = load.free_port(), load.free_port(), load.free_port()
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "settings.json").write_text(
            json.dumps(
                {
                    "http_port": http,
                    "grpc_port": grpc,
                    "metrics_port": metrics,
                    "host": "127.0.0.1",
                    "parallel_workers": 0,
                    "debug": False,
                }
            )
        )
        pathlib.Path(folder, "model-settings.json").write_text(
            json.dumps({"name": "cumsum", "implementation": "mlserver_sum.CumulativeSum"})
        )
        environment = {"PYTHONPATH": str(load.HERE / "peers")}
        with load.process(
            [str(command), "start", folder],
            f"http://127.0.0.1:{http}/v2/health/ready",
            env=environment,
            timeout=120,
        ) as child:
            yield child, f"http://127.0.0.1:{http}"


def frameworks(quick, note, python, mlserver_command):
    """(d): the same requests against FastAPI + NumPy, FastAPI + PyTorch and MLServer."""
    seconds, rounds = (2, 1) if quick else (2, 3)
    mib = 1 << 20
    small_json = json.dumps(
        {"data": [[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]], "dtype": "float32", "axis": 1}
    ).encode()
    v2_json = json.dumps(
        {
            "inputs": [
                {
                    "name": "x",
                    "shape": [3, 4],
                    "datatype": "FP32",
                    "data": [2, 1, 3, 5, 3, 8, 7, 3, 9, 6, 2, 4],
                }
            ]
        }
    ).encode()
    small, big = raw_body(12), raw_body(mib // 4)
    query = "?dtype=float32&shape={}&axis={}"
    web = [
        ("small JSON c=32", "/v1/cumsum", "/json", JSON, small_json, 32),
        (
            "small raw c=32",
            "/v1/cumsum" + query.format("3,4", 1),
            "/raw" + query.format("3,4", 1),
            RAW,
            small,
            32,
        ),
        (
            "raw 1 MiB c=4",
            "/v1/cumsum" + query.format(mib // 4, 0),
            "/raw" + query.format(mib // 4, 0),
            RAW,
            big,
            4,
        ),
        ("JSON 65536 numbers c=4", "/v1/cumsum", "/json", JSON, json_body(65536), 4),
    ]
    v2 = [
        (
            "v2 JSON c=32",
            "/v2/models/cumsum_fp32/infer",
            "/v2/models/cumsum/infer",
            JSON,
            v2_json,
            32,
        )
    ]
    peers = [
        ("FastAPI + NumPy", lambda: fastapi(python, "numpy"), web),
        ("FastAPI + PyTorch", lambda: fastapi(python, "torch"), web),
        ("MLServer", lambda: mlserver(mlserver_command), v2),
    ]
    rows = []
    for name, start, jobs in peers:
        try:
            with load.tallyd() as (_, ours), start() as (_, theirs):
                for work, our_path, their_path, kind, data, connections in jobs:
                    note(f"{name}: {work}")
                    rows.append(
                        compare(
                            name,
                            work,
                            (ours, our_path, theirs + their_path),
                            kind,
                            data,
                            seconds,
                            connections,
                            rounds,
                        )
                    )
        except (RuntimeError, FileNotFoundError) as error:
            print(f"bench: {name} could not be measured: {error}", file=sys.stderr)
            rows.append({"peer": name, "error": str(error).splitlines()[0]})
    return rows


def compare(peer, work, urls, kind, data, seconds, connections, rounds):
    base, path, their_url = urls
    urls = (base + path, their_url)
    with load.body_file(data) as body:
        args = {"content_type": kind, "seconds": seconds, "connections": connections}
        load.wrk(urls[0], body, **{**args, "seconds": 1})
        load.wait_built(base)
        results = load.interleave(
            {
                name: (lambda u=url: load.wrk(u, body, **args))
                for name, url in zip(("tallyd", "peer"), urls)
            },
            rounds,
        )
    mid = load.median_by(results["peer"], "rps")
    return {
        "peer": peer,
        "work": work,
        "peer_requests_per_second": round(mid["rps"], 1),
        "peer_p99_us": mid["p99_us"],
        "tallyd_requests_per_second": round(load.median_by(results["tallyd"], "rps")["rps"], 1),
        "tallyd_over_peer": round(load.ratio(results, "tallyd", "peer", "rps"), 2),
    }


def startup(quick, note):
    """(e): cold and warm start to ready, resident memory idle and under load."""
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        env = {"POCL_CACHE_DIR": os.path.join(cache, "pocl"), "XDG_CACHE_HOME": cache}
        times = {}
        for name, count in (("cold", 1), ("warm", 3 if quick else 7)):
            note(f"{name} start")
            seen = []
            for _ in range(count):
                with load.tallyd("--kernel-cache", os.path.join(cache, "tally"), env=env) as (
                    child,
                    base,
                ):
                    seen.append(child.ready_seconds)
                    idle = load.rss_bytes(child.pid)
            times[name] = sorted(seen)[len(seen) // 2]
            rows.append({"what": f"{name} start to ready, s", "value": round(times[name], 3)})
        rows.append({"what": "idle RSS, MB", "value": round(idle / 1e6, 1)})
        note("memory under load")
        with load.tallyd("--kernel-cache", os.path.join(cache, "tally"), env=env) as (child, base):
            with load.body_file(raw_body(12)) as body:
                load.wrk(
                    base + "/v1/cumsum?dtype=float32&shape=3,4",
                    body,
                    content_type=RAW,
                    seconds=3,
                    connections=64,
                )
            rows.append(
                {
                    "what": "RSS after small requests c=64, MB",
                    "value": round(load.rss_bytes(child.pid) / 1e6, 1),
                }
            )
            with load.body_file(raw_body(64 << 18)) as body:
                load.wrk(
                    base + f"/v1/cumsum?dtype=float32&shape={64 << 18}",
                    body,
                    content_type=RAW,
                    seconds=3,
                    connections=2,
                )
            rows.append(
                {
                    "what": "peak RSS with two 64 MiB requests, MB",
                    "value": round(load.rss_bytes(child.pid, "VmHWM") / 1e6, 1),
                }
            )
    return rows
