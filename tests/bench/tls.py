#!/usr/bin/env python3
"""The cost of TLS: 64 MiB both ways, small requests, handshakes. Plain HTTP and TLS are measured
alternately.

    build/venv/bin/python tests/bench/tls.py [--rounds 3]

For 64 MiB the relevant figure is tallyd's processor time, as the client (curl) needs about as
much and shares the cores; curl's time is shown as well. The bound is the rate of `openssl speed`
for AES-128-GCM in records of 16 KiB, both ways.
"""

import argparse
import contextlib
import pathlib
import re
import resource
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "integration"))

from support.certificates import Authority, Tls  # noqa: E402
from support.tallyd import Tallyd  # noqa: E402

BYTES = 64 << 20
LARGE = 8  # number of large requests in a round
SECONDS = 3
REFUSED = 40  # number of refused handshakes that are measured
NAMES = {"one name": 1, "127 names": 127, "3,500 names": 3500}


def said_by(*command, **options):
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=120, **options
    ).stdout


def openssl_rate():
    """Bytes per second that `openssl speed` encrypts with AES-128-GCM."""
    said = said_by("openssl", "speed", "-seconds", 1, "-bytes", 16384, "-evp", "aes-128-gcm")
    return float(re.search(r"^AES-128-GCM +([0-9.]+)k", said, re.M)[1]) * 1000


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Side:
    """A server and the options to reach it."""

    def __init__(self, folder, name, tls):
        self.server = Tallyd(folder / f"{name}.log", ["--log-requests", "false"], tls=tls)
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://localhost:{self.server.port}"
        self.trust = [] if tls is None else ["--cacert", tls.authority.certificate]
        self.seconds, self.curls, self.rates = [], [], []

    def large(self, body):
        """Processor time per request, for several requests on one connection."""
        request = (
            *("-s", *self.trust, "-T", body, "-X", "POST", "-H", "Expect:"),
            *("-H", "Content-Type: application/octet-stream", "-o", "/dev/null"),
            *("-w", "%{http_code} ", f"{self.url}/v1/cumsum?dtype=int8&shape={BYTES}", "--next"),
        )
        begun, begun_curl = self.server.processor_seconds(), children_seconds()
        codes = said_by("curl", *(request * LARGE)[:-1]).split()
        assert codes == ["200"] * LARGE, codes
        self.seconds.append((self.server.processor_seconds() - begun) / LARGE)
        self.curls.append((children_seconds() - begun_curl) / LARGE)

    def small(self):
        script = TOP / "tests/load/raw.lua"
        said = said_by("wrk", "-t1", "-c32", f"-d{SECONDS}s", "-s", script, self.url)
        self.rates.append(float(re.search(r"Requests/sec: +([0-9.]+)", said)[1]))


def handshakes(side, tls):
    """Handshakes per second, each on a new connection."""
    said = said_by(
        *("openssl", "s_time", "-connect", f"localhost:{side.server.port}", "-new"),
        *("-time", SECONDS, "-CAfile", tls.authority.certificate),
    )
    count, seconds = re.search(r"(\d+) connections in (\d+) real seconds", said).groups()
    return int(count) / max(int(seconds) - 1, 1)  # openssl counts the second in which it began


def refused_us(server, context):
    """Microseconds of HTTP threads for a handshake that fails at the client's certificate."""
    begun = sum(server.thread_seconds("tally-http"))
    for _ in range(REFUSED):
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            with socket.create_connection(("127.0.0.1", server.port), 60) as raw:
                with context.wrap_socket(raw, server_hostname="localhost") as wire:
                    wire.recv(1)
    return (sum(server.thread_seconds("tally-http")) - begun) / REFUSED * 1e6


def strangers(folder):
    """The cost of untrusted client certificates: the issuer has an authority's name, or another
    name."""
    tls = Tls(folder / "mutual", Authority(folder / "clients"))
    server = Tallyd(folder / "mutual.log", ["--log-requests", "false"], tls=tls)
    for issuer in ("authority", "stranger"):
        signer = Authority(folder / issuer, issuer)
        for said, count in NAMES.items():
            names = ",".join(f"DNS:{number:06x}" for number in range(count))
            context = tls.context(signer.sign(f"client-{count}", "clientAuth", names=names))
            yield issuer, said, refused_us(server, context)
    server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name, tempfile.NamedTemporaryFile(dir="/dev/shm") as body:
        folder = pathlib.Path(name)
        body.truncate(BYTES)
        tls = Tls(folder / "tls")
        plain, secure = Side(folder, "plain", None), Side(folder, "tls", tls)
        for _ in range(rounds):
            for side in (plain, secure):
                side.large(body.name)
                side.small()
        shaken = handshakes(secure, tls)
        refused = list(strangers(folder))
        plain.server.stop()
        secure.server.stop()
    bound = 2 * BYTES / openssl_rate()
    most = statistics.median(secure.seconds)
    least = statistics.median(plain.seconds)
    curl, plain_curl = statistics.median(secure.curls), statistics.median(plain.curls)
    ratio = statistics.median(b / a for a, b in zip(plain.rates, secure.rates))
    for name, seconds, curls in (("plain", least, plain_curl), ("TLS", most, curl)):
        print(
            f"64 MiB both ways, processor time, {name}: server {seconds * 1e3:.0f} ms "
            f"({seconds / 2 / BYTES * 1e9:.2f} ns a byte), curl {curls * 1e3:.0f} ms "
            f"({curls / 2 / BYTES * 1e9:.2f})"
        )
    print(
        f"  openssl speed one way {bound / 2 * 1e3:.0f} ms ({bound / 2 / BYTES * 1e9:.2f} ns a byte); "
        f"both ways {bound / most:.2f} of that bound (goal 0.6)"
    )
    print(f"  what TLS adds to the server: {bound / (most - least):.2f} of it is AES")
    print(f"  plain and openssl speed together would be {bound / (bound + least):.2f}")
    print(f"small raw requests, 32 connections: TLS {ratio:.2f} of plain (goal 0.5)")
    print(f"handshakes with a P-256 key: {shaken:.0f} a second")
    for issuer, names, cost_us in refused:
        print(f"a refused client certificate, issuer {issuer}, {names}: {cost_us:.0f} us")


if __name__ == "__main__":
    main()
