#!/usr/bin/env python3
"""Large raw uploads, with and without scanning slices while the upload is in progress.

    make all && tests/bench/upload.py [MIB ...]       several slice sizes against none

Servers with different --slice-bytes are measured alternately, request by request; the figures
are medians of the rounds. For a client that sends as fast as it can: seconds from first byte to
last, and the server's processor time. For a client that sends at 500 MB/s: seconds from its last
byte sent to the first byte of the answer."""

import os
import pathlib
import socket
import statistics
import subprocess
import sys
import threading
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
PIECE = 1 << 18
ROUNDS = 5
SLOW = 500e6
SLICES = ["0", "1MiB", "4MiB", "16MiB"]
SHAPES = {
    "rows": ("shape={rows},1024&axis=1", 4096),
    "one row": ("shape={all}&axis=0", 4),
}


class Server:
    def __init__(self, slice_bytes, port):
        self.port = port
        self.process = subprocess.Popen(
            [TOP / "build/bin/tallyd", "--listen", f"127.0.0.1:{port}", "--log-requests=false"]
            + ["--slice-bytes", slice_bytes, "--drain-delay-ms", "0"],
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", port)) as probe:
                    probe.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
                    if b" 200 " in probe.recv(4096):
                        return
            except OSError:
                pass
            time.sleep(0.05)
        raise RuntimeError("not ready")

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1]
        return sum(int(ticks) for ticks in fields.split()[11:13]) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


class Upload:
    """A client that sends the same body repeatedly, each time on a new connection."""

    def __init__(self, server, query, body):
        self.port = server.port
        self.body = memoryview(body)
        self.room = bytearray(1 << 20)
        self.head = (
            f"POST /v1/cumsum?dtype=float32&{query} HTTP/1.1\r\nHost: h\r\n"
            f"Content-Type: application/octet-stream\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode()

    def send(self, rate):
        self.socket.sendall(self.head)
        if rate is None:
            self.socket.sendall(self.body)
            return
        began = time.monotonic()
        for at in range(0, len(self.body), PIECE):
            ahead = at / rate - (time.monotonic() - began)
            if ahead > 0:
                time.sleep(ahead)
            self.socket.sendall(self.body[at : at + PIECE])

    def once(self, rate=None):
        """(seconds in total, seconds from the last byte sent to the first byte received)."""
        with socket.create_connection(("127.0.0.1", self.port)) as self.socket:
            return self.exchange(rate)

    def exchange(self, rate):
        began = time.monotonic()
        self.send(rate)
        sent = time.monotonic()
        got = self.socket.recv_into(self.room)
        first = time.monotonic()
        head, rest = bytes(self.room[:got]).split(b"\r\n\r\n", 1)
        if b" 200 " not in head[:20]:
            raise RuntimeError(head + rest)
        left = len(self.body) - len(rest)
        while left > 0:
            left -= self.socket.recv_into(self.room)
        return time.monotonic() - began, first - sent


def together(uploads, rate):
    """Seconds until all uploads end, and the median wait for a first byte."""
    waits = []
    threads = [threading.Thread(target=lambda u=u: waits.append(u.once(rate)[1])) for u in uploads]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - began, statistics.median(waits)


def measure(servers, query, body, connections, rate):
    uploads = [[Upload(s, query, body) for _ in range(connections)] for s in servers]
    seconds, waits, cpu = ([[] for _ in servers] for _ in range(3))
    for round_number in range(ROUNDS + 1):
        for i, server in enumerate(servers):
            before = server.cpu_seconds()
            took, wait = together(uploads[i], rate)
            if round_number > 0:  # the first round warms up
                seconds[i].append(took)
                waits[i].append(wait)
                cpu[i].append(server.cpu_seconds() - before)
    return [[statistics.median(v) for v in values] for values in zip(seconds, waits, cpu)]


def report(what, results):
    base = results[0]
    for slice_bytes, (seconds, wait, cpu) in zip(SLICES, results):
        print(
            f"{what} slices {slice_bytes:>5}: {seconds * 1e3:7.1f} ms ({seconds / base[0]:.2f})"
            f"  last byte to first {wait * 1e3:7.2f} ms ({wait / base[1]:.2f})"
            f"  server cpu {cpu * 1e3:6.0f} ms ({cpu / max(base[2], 1e-3):.2f})",
            flush=True,
        )


def main():
    sizes = [int(word) for word in sys.argv[1:]] or [64, 256]
    port = int(os.environ.get("BENCH_PORT", "9220"))
    servers = [Server(slices, port + i) for i, slices in enumerate(SLICES)]
    try:
        for mib in sizes:
            body = os.urandom(1 << 20).replace(b"\x7f", b"\x3f").replace(b"\xff", b"\x3f") * mib
            for name, (query, row) in SHAPES.items():
                query = query.format(rows=len(body) // row, all=len(body) // 4)
                for connections, rate in ((1, None), (2, None), (1, SLOW)):
                    speed = "500 MB/s" if rate else "full speed"
                    what = f"{mib:4} MiB {name:8} {connections} conn {speed:10}"
                    report(what, measure(servers, query, body, connections, rate))
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
