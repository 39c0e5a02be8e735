"""One large tensor through shared memory: copied by the server, and summed in place
(--shm-zero-copy).

    build/venv/bin/python tests/bench/shm.py [MiB] [rounds]

The two servers are measured alternately, request by request, so that noise affects both.
"""

import json
import pathlib
import statistics
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "integration"))

import numpy as np  # noqa: E402
from support.tallyd import Tallyd  # noqa: E402

MODES = {"copied": ["--allow-client-shm"], "in place": ["--allow-client-shm", "--shm-zero-copy"]}


def document(size, output_at):
    def window(offset):
        return {
            "shared_memory_region": "r",
            "shared_memory_byte_size": size,
            "shared_memory_offset": offset,
        }

    return {
        "inputs": [
            {"name": "x", "shape": [size // 4], "datatype": "FP32", "parameters": window(0)}
        ],
        "outputs": [{"name": "y", "parameters": window(output_at)}],
    }


def measure(clients, body, rounds):
    times = {name: [] for name in clients}
    for _ in range(rounds + 2):
        for name, client in clients.items():
            began = time.perf_counter()
            answer = client.post("/v2/models/cumsum/infer", body)
            times[name].append(time.perf_counter() - began)
            assert answer.status == 200, answer
    return {name: statistics.median(values[2:]) for name, values in times.items()}


def main():
    mebibytes = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    size = mebibytes << 20
    path = pathlib.Path(f"/dev/shm/tally_bench_{mebibytes}")
    servers = {}
    with tempfile.TemporaryDirectory() as logs:
        try:
            path.write_bytes(bytes(2 * size))
            path.chmod(0o600)
            np.memmap(path, "<f4", "r+")[: size // 4] = 1
            for name, flags in MODES.items():
                servers[name] = Tallyd(pathlib.Path(logs) / name, flags)
            clients = {name: server.client() for name, server in servers.items()}
            for client in clients.values():
                registration = {"key": path.name, "offset": 0, "byte_size": 2 * size}
                url = "/v2/systemsharedmemory/region/r/register"
                assert client.post_json(url, registration).status == 200
            for what, output_at in (
                ("output beside the input", size),
                ("output over the input", 0),
            ):
                medians = measure(clients, json.dumps(document(size, output_at)).encode(), rounds)
                copied, in_place = medians["copied"], medians["in place"]
                print(
                    f"{mebibytes} MiB, {what}: copied {copied * 1e3:.1f} ms, "
                    f"zero copy {in_place * 1e3:.1f} ms, {copied / in_place:.2f} times as fast"
                )
        finally:
            for server in servers.values():
                server.kill()
            path.unlink(missing_ok=True)


main()
