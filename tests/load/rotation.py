#!/usr/bin/env python3
"""Replace certificate and token file every second under load: no request may fail, and each new
file must soon be in use.

    build/venv/bin/python tests/load/rotation.py [--seconds 60]

wrk and two tritonclients keep their connections, another client opens a connection for each
request. All send a token that stays valid while other tokens change. Prints a line per
certificate and the number of requests; exit status 1 if a request failed or a file was not used.
"""

import argparse
import contextlib
import hashlib
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import tritonclient.http as triton

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "integration"))

from support import calls  # noqa: E402
from support.certificates import Tls, put  # noqa: E402
from support.tallyd import Tallyd  # noqa: E402

TOKEN = "tally_rotation"
SEEN_SECONDS = 20  # a new file must be in use by then
# If more seconds pass between the new certificate and its key, the server may read the
# certificate with the old key.
TORN_SECONDS = 0.2


def write_tokens(path, number):
    """Write the file with the clients' token and a token that no other file has."""
    fresh = path.with_suffix(".fresh")
    secrets = {"steady": TOKEN, f"passing-{number}": f"tally_{number}"}
    lines = [f"{name}:{hashlib.sha256(t.encode()).hexdigest()}\n" for name, t in secrets.items()]
    fresh.write_text("".join(lines))
    put(fresh, path)


class Rotation:
    def __init__(self, folder, log):
        self.tls = Tls(pathlib.Path(folder) / "tls")
        self.tokens = pathlib.Path(folder) / "tokens"
        write_tokens(self.tokens, 0)
        flags = ["--token-file", str(self.tokens), "--log-requests", "false"]
        self.server = Tallyd(log, flags, tls=self.tls)
        self.headers = {"Authorization": f"Bearer {TOKEN}"}
        self.ends = threading.Event()
        self.failed, self.served, self.serials = [], {}, []
        self.torn = 0  # replacements that a busy machine delayed between certificate and key

    def wrk(self, seconds):
        command = ["wrk", "-t1", "-c8", f"-d{seconds}s", "-s", TOP / "tests/load/raw.lua"]
        # instead of wrk's default of two: slowness of a busy machine is not a failure
        command += ["--timeout", "30s"]
        command += ["-H", f"Authorization: {self.headers['Authorization']}"]
        said = subprocess.run(
            [*command, f"https://localhost:{self.server.port}"],
            capture_output=True,
            text=True,
            timeout=seconds + 60,
        ).stdout
        self.served["wrk"] = int(re.search(r"(\d+) requests in", said)[1])
        self.failed += re.findall(r"Socket errors.*|Non-2xx.*", said)

    def triton(self, name):
        client = triton.InferenceServerClient(
            f"localhost:{self.server.port}", ssl=True, ssl_context_factory=self.tls.context
        )
        values = np.arange(1000, dtype=np.int32)
        tensor = triton.InferInput("x", [1000], "INT32")
        tensor.set_data_from_numpy(values)
        while not self.ends.is_set():
            answer = client.infer("cumsum", [tensor], headers=self.headers).as_numpy("y")
            assert np.array_equal(answer, np.cumsum(values))
            self.served[name] += 1
        client.close()

    def fresh(self, name):
        while not self.ends.is_set():
            client = self.server.client()
            answer = client.post(calls.PATH, calls.BODY, calls.RAW, self.headers)
            client.close()
            assert answer.body == calls.SUMS
            self.served[name] += 1

    def client(self, work, name):
        self.served[name] = 0
        try:
            work(name)
        except Exception as failure:  # any exception counts as a failure
            self.failed.append(f"{name}: {failure!r}")

    def shown(self):
        """Serial number of the certificate on a new connection."""
        with socket.create_connection(("127.0.0.1", self.server.port), 30) as raw:
            with self.tls.context().wrap_socket(raw, server_hostname="localhost") as wire:
                return int(wire.getpeercert()["serialNumber"], 16)

    def wait(self, seen, what):
        until = time.monotonic() + SEEN_SECONDS
        while not seen():
            if time.monotonic() > until:
                self.failed.append(f"{what} within {SEEN_SECONDS} s")
                return
            time.sleep(0.02)

    def rotate(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            begun = time.monotonic()
            taken = self.server.log.count("tokens: ")
            serial = self.tls.rotate()
            self.torn += self.tls.apart_s > TORN_SECONDS
            write_tokens(self.tokens, serial)
            self.wait(lambda: self.shown() == serial, f"certificate {serial} was not shown")
            self.wait(
                lambda: self.server.log.count("tokens: ") > taken,
                f"tokens {serial} were not taken up",
            )
            self.serials.append(serial)
            self.ends.wait(begun + 1 - time.monotonic())

    def run(self, seconds):
        kept = [("triton-0", self.triton), ("triton-1", self.triton), ("new", self.fresh)]
        threads = [threading.Thread(target=self.client, args=(w, name)) for name, w in kept]
        threads.append(threading.Thread(target=self.wrk, args=(seconds,)))
        for thread in threads:
            thread.start()
        with contextlib.ExitStack() as at_end:
            at_end.callback(lambda: [thread.join() for thread in threads])
            at_end.callback(self.ends.set)
            self.rotate(seconds)
        refused = re.findall(r".* stays? in use", self.server.log)
        if refused and self.torn == 0:
            self.failed.append(f"whole files were refused: {refused}")
        self.server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        rotation = Rotation(folder, pathlib.Path(folder) / "log")
        rotation.run(seconds)
    print(f"{len(rotation.serials)} certificates and token files in {seconds} s, each in use")
    print("requests: " + ", ".join(f"{name} {n}" for name, n in rotation.served.items()))
    for failure in rotation.failed:
        print("FAILED:", failure)
    return bool(rotation.failed)


if __name__ == "__main__":
    sys.exit(main())
