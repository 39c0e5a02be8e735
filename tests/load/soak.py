#!/usr/bin/env python3
"""Send as many requests as a service gets in a day, in rounds: every dialect as text and as
bytes, shared memory, refusals, and clients that disconnect early. The resident memory is read
after each round. Memory that grows with the requests is a leak.

    tests/load/soak.py [--seconds 300 | --requests 8640000] [--rounds 20] [--binary build/bin/tallyd]

With --requests it runs until that many were served: 8640000 are a day of 100 per second. Prints
a line per round, then the slope of a straight line through the second half of the rounds, in
bytes per request; exit status 1 if it exceeds --most. The first 500000 requests do not count, as
they fill caches of libraries. Needs only Python and wrk.
"""

import argparse
import contextlib
import gzip
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

TOP = pathlib.Path(__file__).resolve().parents[2]
JSON, RAW = "application/json", "application/octet-stream"
MIB = 1 << 20
STEP_SECONDS = 2  # interval at which the number of requests is read


def message(path, body, kind=JSON, **headers):
    head = f"POST {path} HTTP/1.1\r\nHost: soak\r\nContent-Type: {kind}\r\n"
    head += "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def document(**fields):
    return json.dumps(fields).encode()


def framed(path, head, payload):
    return message(path, head + payload, RAW, Inference_Header_Content_Length=len(head))


def requests(shm):
    """(request, status of its answer), one of each kind."""
    row = struct.pack("12f", *range(12))
    numbers = document(data=[i / 8 for i in range(40000)], dtype="float32")
    tensor = {"DataType": "FLOAT32", "Sizes": [3, 4]}
    desc = {"InputTensor": tensor, "OutputTensor": tensor, "Axis": 1}
    desc |= {"AxisDirection": "INCREASING", "HasExclusiveSum": False}
    port = {"precision": "FP32", "shape": [3, 4]}
    axis = {"precision": "I64", "shape": [], "data": 1}
    x = {"name": "x", "shape": [3, 4], "datatype": "FP32"}
    binary = {**x, "parameters": {"binary_data_size": 48}}
    region = {"shared_memory_region": "soak", "shared_memory_byte_size": 48}
    directml, openvino = "/v1/directml/cumulative_summation", "/v1/openvino/cumsum-3"
    infer = "/v2/models/cumsum/infer"
    query = "/v1/cumsum?dtype=float32&shape="
    yield message("/v1/cumsum", document(data=[[1, 2], [3, 4]], axis=1)), 200
    yield message("/v1/cumsum", numbers), 200
    yield message("/v1/cumsum", gzip.compress(numbers), Content_Encoding="gzip"), 200
    yield message("/v1/cumsum", numbers, Accept_Encoding="gzip"), 200
    yield message(query + "3,4", row, RAW), 200
    yield message(query + "3,4", gzip.compress(row), RAW, Content_Encoding="gzip"), 200
    yield message(query + "1000000", bytes(4000000), RAW), 200
    yield message(query + "300,700&axis=0", bytes(840000), RAW, Accept=JSON), 200
    yield message(directml, document(desc=desc, data=list(range(12)))), 200
    yield framed(directml, document(desc=desc), row), 200
    yield message(openvino, document(inputs=[{**port, "data": list(range(12))}, axis])), 200
    yield framed(openvino, document(inputs=[{**port, "binary_data_size": 48}, axis]), row), 200
    yield message(infer, document(inputs=[{**x, "data": list(range(12))}])), 200
    yield framed(infer, document(inputs=[binary]), row), 200
    if shm:
        yield message(infer, document(inputs=[{**x, "parameters": region}])), 200
    yield message("/v1/cumsum", b'{"data":[1,2,'), 400
    yield message("/v1/cumsum", numbers[:-20] + b'"oops"' + numbers[-20:]), 400
    yield message("/v1/cumsum", gzip.compress(numbers)[:-9], Content_Encoding="gzip"), 400
    yield message(query + "5", row, RAW), 400
    yield message(infer, document(inputs=[{**x, "data": [1]}])), 400
    yield message("/nowhere", b"{}"), 404
    yield message("/v1/cumsum", b"{}", "text/plain"), 415


def connect(port):
    return socket.create_connection(("127.0.0.1", port), 60)


def read_answer(stream):
    status = int(stream.readline().split()[1])
    length = 0
    while (line := stream.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    while length > 0:
        length -= len(stream.read(min(length, MIB)) or exit_early())
    return status


def exit_early():
    raise ConnectionError("the answer ended early")


class Soak:
    def __init__(self, port, shm=False):
        self.port = port
        self.kinds = list(requests(shm))
        self.served = 0
        self.lock = threading.Lock()
        self.failures = []

    def count(self, requests):
        with self.lock:
            self.served += requests

    def guard(self, part, until):
        try:
            while time.monotonic() < until:
                self.count(part())
        except (OSError, ValueError, IndexError, AssertionError) as error:
            self.failures.append(f"{part.__name__}: {error!r}")

    def orderly(self):
        """Send every kind on one connection; each must be answered as expected."""
        with connect(self.port) as sock, sock.makefile("rb") as stream:
            for request, expected in self.kinds:
                sock.sendall(request)
                status = read_answer(stream)
                assert status == expected, (status, request[:200])
        return len(self.kinds)

    def leave(self):
        """Send every kind; disconnect after half of it, after all of it, or inside the answer."""
        for request, _ in self.kinds:
            for sent in (len(request) // 2, len(request)):
                with connect(self.port) as sock:
                    sock.sendall(request[:sent])
        for request, _ in self.kinds[:8]:
            with connect(self.port) as sock:
                sock.sendall(request)
                sock.recv(100)
        return 2 * len(self.kinds) + 8

    def storm(self, script, seconds):
        """Run wrk; returns the number of requests."""
        out = subprocess.run(
            ["wrk", "-t1", "-c8", f"-d{seconds}s", "-s", str(TOP / "tests/load" / script)]
            + [f"http://127.0.0.1:{self.port}/"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "LUA_PATH": f"{TOP}/tests/load/?.lua;;"},
        ).stdout
        self.count(int(re.search(r"(\d+) requests in", out).group(1)))

    def round(self, seconds):
        until = time.monotonic() + seconds
        threads = [
            threading.Thread(target=self.guard, args=(part, until))
            for part in (self.orderly, self.orderly, self.leave)
        ]
        threads += [
            threading.Thread(target=self.storm, args=(script, max(1, round(seconds))))
            for script in ("mixed.lua", "refused.lua")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failures:
            raise RuntimeError("; ".join(self.failures))


def slope(points):
    """Slope of the straight line closest to the (x, y) points; 0 for fewer than two x."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    together = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return together / spread if spread > 0 else 0.0


def resident(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) * 1024


def run(port, pid, seconds, rounds, shm=False, say=print, requests=0):
    """Load the service for a time, or with a number of requests; returns [(requests so far,
    resident bytes)] after each round."""
    soak = Soak(port, shm)
    points = []
    for i in range(rounds):
        if requests == 0:
            soak.round(seconds / rounds)
        while soak.served * rounds < requests * (i + 1):
            soak.round(STEP_SECONDS)
        time.sleep(0.5)  # time in which the service frees the memory of cancelled requests
        points.append((soak.served, resident(pid)))
        say(f"round {i + 1}: {points[-1][0]} requests, {points[-1][1] / MIB:.1f} MiB resident")
    return points


def growth(points):
    """Bytes per request, over the second half of the rounds."""
    return slope(points[len(points) // 2 :])


@contextlib.contextmanager
def region(port):
    """Shared memory registered under the name "soak"."""
    path = pathlib.Path(f"/dev/shm/tally_soak_{os.getpid()}")
    path.write_bytes(struct.pack("12f", *range(12)))
    path.chmod(0o600)
    url = f"http://127.0.0.1:{port}/v2/systemsharedmemory/region/soak/"
    try:
        body = document(key=f"/{path.name}", offset=0, byte_size=48)
        urllib.request.urlopen(urllib.request.Request(url + "register", body), timeout=30).close()
        yield
    finally:
        path.unlink()


def wait_ready(port):
    while True:
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30):
                return
        time.sleep(0.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--requests", type=int, default=0, help="so many instead of so long")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--binary", default=TOP / "build/bin/tallyd")
    parser.add_argument("--most", type=float, default=2.0, help="bytes a request")
    args = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(args.binary), "--listen", f"127.0.0.1:{port}", "--allow-client-shm"]
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen([*command, "--log-requests", "false"], stdout=log, stderr=log)
        try:
            wait_ready(port)
            with region(port):
                points = run(
                    port, child.pid, args.seconds, args.rounds, True, requests=args.requests
                )
        finally:
            child.terminate()
            status = child.wait(60)
    found = growth(points)
    print(f"{points[-1][0]} requests, {found:.3f} bytes a request, exit status {status}")
    sys.exit(found > args.most or status != 0)


if __name__ == "__main__":
    main()
