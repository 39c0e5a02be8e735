"""A service with a slow GPU that can be lost (tests/gpu/slow_gpu.c), and Tally's own device."""

import concurrent.futures

import numpy as np

from support import calls
from support.tallyd import MODE, TOP
from support.waiting import until

VENDORS = TOP / f"build/{MODE}/tests/slow_gpu"
# 12 MB: large enough for slices, which go through the queue
ELEMENTS = np.arange(3_000_000, dtype=np.int32) % 1999 - 999
SUMS = np.cumsum(ELEMENTS, dtype=np.int32).tobytes()
PATH = f"/v1/cumsum?dtype=int32&shape={ELEMENTS.size}"
COMPILE_SECONDS = 300


def ask(server):
    answer = server.client().post(PATH, ELEMENTS.tobytes(), calls.RAW)
    assert answer.status == 200, answer.body
    assert answer.body == SUMS


def ask_until(server, reached):
    """Six clients send requests until reached() is true."""
    with concurrent.futures.ThreadPoolExecutor(6) as clients:

        def some_answers_reach_it():
            for done in [clients.submit(ask, server) for _ in range(12)]:
                done.result()
            return reached()

        until(some_answers_reach_it)


def test_a_gpu_that_is_lost_is_reported_and_the_processor_serves_on(start_server, tmp_path):
    lost = tmp_path / "lost"
    env = {
        "OCL_ICD_VENDORS": str(VENDORS),
        "SLOW_GPU_BYTES_PER_S": "1000000000",
        "SLOW_GPU_LOST": str(lost),
    }
    server = start_server("--gpu-lookback", "off", env=env)

    def gpu():
        return server.client().get("/v1/devices").json()["devices"][1]

    until(lambda: gpu()["state"] == "ready", COMPILE_SECONDS)
    assert gpu()["name"] == "Slow GPU 1" and gpu()["type"] == "gpu"
    # Slices of a tensor run on any device, and a slice on a lost GPU is not retried: the GPU is
    # lost only after these requests.
    ask_until(server, lambda: gpu()["batches"] > 0)

    lost.touch()
    small = np.ones(400_000, np.int32)  # one batch, which is retried elsewhere if its device fails

    def ask_small():
        path = f"/v1/cumsum?dtype=int32&shape={small.size}"
        answer = server.client().post(path, small.tobytes(), calls.RAW)
        assert answer.status == 200, answer.body
        assert answer.body == np.cumsum(small, dtype=np.int32).tobytes()
        return gpu()["state"] == "failed"

    until(ask_small)
    assert "CL_" in gpu()["last_error"] and gpu()["errors"] == 1
    assert server.client().get("/readyz").status == 200
    for _ in range(3):
        ask(server)

    lost.unlink()
    until(lambda: gpu()["state"] == "ready", COMPILE_SECONDS)
    batches = gpu()["batches"]
    ask_until(server, lambda: gpu()["batches"] > batches)
