"""Large texts, compressed answers and long tails of zeros must delay small requests only by
sharing a thread's time, and may use only reserved memory. The tests check the order of events,
not times."""

import concurrent.futures
import contextlib
import datetime
import gzip
import json
import math
import pathlib
import re
import threading

import numpy as np
import pytest

from support import calls, dtypes, waiting

MIB = 1 << 20
SPARE = 8 * MIB  # memory for stacks and connection buffers
BEYOND_MEMORY = 200e9  # bytes per second: more than any thread can write
FLOAT32 = dtypes.BY_NAME["float32"]
LARGE = 16  # large requests that are sent before a small one


def metric(client, name):
    for line in client.get("/metrics").body.decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    raise AssertionError(f"no {name} in /metrics")


class Crowd:
    """Requests in parallel, each on its own connection."""

    def __init__(self, server, send, count):
        self.answers = []
        self.lock = threading.Lock()
        self.pool = concurrent.futures.ThreadPoolExecutor(count)
        self.futures = [self.pool.submit(self._run, server, send) for _ in range(count)]

    def _run(self, server, send):
        client = server.client(120)
        answer = send(client)
        with self.lock:
            self.answers.append(answer)
        client.close()

    def finished(self):
        with self.lock:
            return len(self.answers)

    def join(self):
        for future in self.futures:
            future.result()
        self.pool.shutdown()
        return self.answers


def print_much(elements, headers=None):
    """A request of four bytes whose answer is a long text."""

    def send(client):
        path = f"/v1/cumsum?dtype=float32&strides=0&shape={elements}"
        return client.post(
            path, np.float32(1).tobytes(), calls.RAW, {"Accept": calls.JSON, **(headers or {})}
        )

    return send


def pack_much(elements):
    def send(client):
        path = f"/v1/cumsum?dtype=int8&strides=0&shape={elements}"
        return client.post(path, b"\x00", calls.RAW, {"Accept-Encoding": "gzip"})

    return send


def pack_noise(elements, coding="gzip"):
    """A request whose answer is slow to compress."""
    noise = np.random.default_rng(1).integers(-128, 127, elements, np.int8).tobytes()

    def send(client, headers=None):
        path = f"/v1/cumsum?dtype=int8&shape={elements}"
        return client.post(path, noise, calls.RAW, {"Accept-Encoding": coding, **(headers or {})})

    return send


def unpack_much(elements):
    packed = gzip.compress(bytes(elements))

    def send(client):
        path = f"/v1/cumsum?dtype=int8&shape={elements}"
        return client.post(path, packed, calls.RAW, {"Content-Encoding": "gzip"})

    return send


def small_text(client, headers=None):
    """A text too long for the loop thread, and small for a codec thread."""
    numbers = (np.arange(40000) % 7 + 0.5).astype(np.float32)
    answer = client.post(
        "/v1/cumsum",
        calls.json_body({"data": numbers.tolist(), "dtype": "float32"}),
        calls.JSON,
        headers,
    )
    return answer


def begun(client):
    """Whether a large text is being converted while others wait."""
    return metric(client, "tally_codec_waiting") >= 2


def ended_beside(server, name):
    """Number of large requests that ended while the request with this X-Request-Id was in the
    service. The times are those of the service's log, because clients on the same machine
    notice their answers late."""
    ended = {}
    for line in server.log.splitlines():
        fields = json.loads(line)
        if fields.get("path") == "/v1/cumsum":
            end = datetime.datetime.fromisoformat(fields["time"])
            ended[fields["id"]] = end, datetime.timedelta(microseconds=fields["total_us"])
    end, took = ended.pop(name)
    return sum(end - took <= other <= end for other, _ in ended.values())


def check_overtakes(server, send):
    client = server.client(120)
    assert small_text(client).status == 200  # everything that is built at first use exists now
    assert send(client).status == 200
    crowd = Crowd(server, send, LARGE)
    waiting.until(lambda: begun(client), 20, 0.002)
    assert small_text(client, {"X-Request-Id": "small"}).status == 200
    assert all(large.status == 200 for large in crowd.join())
    client.close()
    server.stop()
    before = ended_beside(server, "small")
    assert before <= LARGE // 2, f"{before} of {LARGE} large ones came before a small one"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "send", [print_much(500000), pack_noise(2 * MIB)], ids=["printed", "packed"]
)
def test_a_small_text_overtakes_large_answers_of_the_same_client(start_server, send, threads):
    check_overtakes(start_server("--codec-threads", str(threads), "--log-format", "json"), send)


def test_a_small_text_overtakes_large_bodies_that_are_unpacked(start_server):
    server = start_server("--codec-threads", "1", "--log-format", "json")
    check_overtakes(server, unpack_much(16 * MIB))


def test_a_deadline_passes_while_a_text_waits_for_a_codec_thread(start_server):
    server = start_server("--codec-threads", "1", "--log-requests", "false")
    client = server.client(120)
    crowd = Crowd(server, print_much(4000000), 4)
    waiting.until(lambda: metric(client, "tally_codec_waiting") >= 1, 20, 0.002)
    answer = print_much(4000000, {"X-Request-Timeout-Ms": "50"})(client)
    before = crowd.finished()
    calls.expect_error(answer, 504, "deadline_passed")
    assert before < 4
    crowd.join()
    client.close()
    server.stop()


def print_lines(accept=calls.JSON):
    """Eight KiB of numbers, repeated by strides into thousands of equal lines. Reading and summing
    the lines takes a small part of the time that printing takes."""
    line = np.random.default_rng(1).standard_normal(1000)

    def send(client, headers=None):
        path = "/v1/cumsum?dtype=float64&strides=0,1&shape=6000,1000&axis=1"
        return client.post(path, line.tobytes(), calls.RAW, {"Accept": accept, **(headers or {})})

    return send


def computed(client):
    """Number of requests whose sums the devices have computed."""
    return sum(device["requests"] for device in client.get("/v1/devices").json()["devices"])


def total_ms(answer):
    assert answer.status == 200, answer
    return float(re.search(r"total;dur=([0-9.]+)", answer.headers["Server-Timing"])[1])


def expect_too_late(client, bare, send):
    """Check that a deadline passes after the sums are computed and before their answer is written.

    The bare request has the same sums and returns them unchanged. The other request's answer is
    therefore written between the total times of the two requests. The deadline is the geometric
    mean of these times: both may change by the same factor before the deadline falls outside. On
    a busy machine they may change by more, so each try measures them again."""
    send(client)  # touches new pages, which later requests reuse
    tries = []
    for _ in range(20):
        least_ms, most_ms = total_ms(bare(client)), total_ms(send(client))
        deadline_ms = max(1, round(math.sqrt(least_ms * most_ms)))
        before, answer = computed(client), None
        with contextlib.suppress(ConnectionError):  # the deadline passed while the body was sent
            answer = send(client, {"X-Request-Timeout-Ms": str(deadline_ms)})
            late = answer.status != 200 and "answer written" in answer.json()["error"]
            if late and computed(client) == before + 1:
                calls.expect_error(answer, 504, "deadline_passed")
                return
        tries.append((least_ms, deadline_ms, most_ms, answer))
    raise AssertionError(f"no deadline passed while the answer was written: {tries}")


def test_a_deadline_passes_while_an_answer_is_printed(start_server):
    server = start_server("--codec-threads", "1", "--log-requests", "false")
    client = server.client(120)
    expect_too_late(client, print_lines(calls.RAW), print_lines())
    counted = 'tally_requests_total{route="cumsum",outcome="deadline_passed"}'
    assert metric(client, counted) >= 1
    client.close()
    server.stop()


def test_a_deadline_passes_while_an_answer_is_packed(start_server):
    server = start_server("--codec-threads", "1", "--log-requests", "false")
    client = server.client(120)
    expect_too_late(client, pack_noise(8 * MIB, "identity"), pack_noise(8 * MIB))
    client.close()
    server.stop()


def test_a_deadline_in_the_codec_pool_is_503_for_v2(start_server):
    server = start_server("--codec-threads", "1", "--log-requests", "false")
    client = server.client(120)
    numbers = {"name": "x", "shape": [400000], "datatype": "INT32", "data": list(range(400000))}
    body = {"parameters": {"timeout": 1000}, "inputs": [numbers]}
    answer = client.post_json("/v2/models/cumsum/infer", body)
    calls.expect_error(answer, 503, "deadline_passed")
    client.close()
    server.stop()


def test_a_client_that_leaves_while_its_answer_is_packed_frees_the_thread(start_server):
    server = start_server("--codec-threads", "1", "--log-requests", "false")
    client = server.client(120)
    assert small_text(client).status == 200
    wires = []
    noise = np.random.default_rng(1).integers(-128, 127, 16 * MIB, np.int8).tobytes()
    request = (
        f"POST /v1/cumsum?dtype=int8&shape={len(noise)} HTTP/1.1\r\nHost: x\r\n"
        "Content-Type: application/octet-stream\r\nAccept-Encoding: gzip\r\n"
        f"Content-Length: {len(noise)}\r\n\r\n"
    )
    for _ in range(4):
        wires.append(server.wire().send(request.encode() + noise[:-1]).await_read())
    for wire in wires:
        wire.send(noise[-1:])
    waiting.until(lambda: begun(client), 20, 0.002)
    for wire in wires:
        wire.reset()
    waiting.until(lambda: metric(client, "tally_active_requests") == 1)
    # the count includes at least the requests that were waiting
    assert metric(client, "tally_clients_gone_total") >= 2
    client.close()
    server.stop()


def spent_on(server, send):
    """Seconds of the HTTP loop, and of the codec threads."""
    names = ("tally-http", "tally-codec")
    before = [sum(server.thread_seconds(name)) for name in names]
    assert send().status == 200
    return [sum(server.thread_seconds(name)) - b for name, b in zip(names, before)]


def directml_tail(total_bytes):
    tensor = {"DataType": "FLOAT32", "Sizes": [1]}
    return {
        "desc": {
            "InputTensor": tensor,
            "OutputTensor": {**tensor, "TotalTensorSizeInBytes": total_bytes},
            "Axis": 0,
            "AxisDirection": "INCREASING",
            "HasExclusiveSum": False,
        },
        "data": [1.0],
    }


@pytest.mark.release_only
def test_a_zero_tail_is_written_and_printed_off_the_loop(start_server):
    server = start_server("--log-requests", "false")
    client = server.client(120)
    path = "/v1/directml/cumulative_summation"

    def send_text():
        return client.post_json(path, directml_tail(256 * MIB))

    def send_bytes():
        document = directml_tail(256 * MIB)
        del document["data"]
        text = json.dumps(document).encode()
        headers = {"Inference-Header-Content-Length": str(len(text))}
        return client.post(path, text + np.float32(1).tobytes(), calls.RAW, headers)

    assert client.post_json(path, directml_tail(64)).status == 200
    _, codec = spent_on(server, send_bytes)
    assert codec > 256 * MIB / BEYOND_MEMORY, "nobody wrote the zeroes"
    _, codec = spent_on(server, send_text)
    assert codec > 256 * MIB / BEYOND_MEMORY, "nobody but the loop printed the zeroes"
    client.close()
    server.stop()


@pytest.mark.release_only
@pytest.mark.parametrize("count, step", [(3, 64 * MIB), (24 * MIB, 5)], ids=["sparse", "dense"])
def test_gaps_of_an_output_that_outgrows_its_input_are_zeroed_off_the_device(
    start_server, count, step
):
    """If the device zeroed the gaps, a request with a few elements could occupy it for any
    time, even after its deadline."""
    server = start_server("--slice-bytes", "1MiB", "--log-requests", "false")
    client = server.client(120)
    path = f"/v1/cumsum?dtype=int8&shape={count}&strides=0&output_strides={step}"
    answers = []

    def send():
        answers.append(client.post(path, b"\x01", calls.RAW))
        return answers[0]

    _, codec = spent_on(server, send)
    assert codec > count * step / BEYOND_MEMORY, "nobody but the device zeroed the gaps"
    sums = np.frombuffer(answers[0].body, np.int8)
    expected = np.zeros((count - 1) * step + 1, np.int8)
    expected[::step] = np.arange(1, count + 1).astype(np.int8)
    assert np.array_equal(sums, expected)
    slices = metric(client, "tally_slices_total")
    assert slices > 1 if count > 3 else slices == 0
    client.close()
    server.stop()


@pytest.mark.release_only
def test_a_zero_tail_takes_no_memory_that_was_not_counted(start_server):
    budget = 64 * MIB
    server = start_server("--memory-budget", str(budget), "--log-requests", "false")
    client = server.client(120)
    path = "/v1/directml/cumulative_summation"
    assert client.post_json(path, directml_tail(64)).status == 200
    statuses = []
    for total in (MIB, 8 * MIB, 16 * MIB, 32 * MIB, 128 * MIB):
        proc = pathlib.Path(f"/proc/{server.pid}")
        (proc / "clear_refs").write_text("5")  # resets the peak
        before = server.rss_bytes()
        answer = client.post_json(path, directml_tail(total))
        line = next(x for x in (proc / "status").read_text().splitlines() if x.startswith("VmHWM"))
        peak = int(line.split()[1]) * 1024 - before
        statuses.append(answer.status)
        assert peak <= budget + SPARE, f"{total / MIB} MiB: {peak / MIB:.0f} MiB"
        if answer.status != 200:
            calls.expect_error(answer, 413, says="--memory-budget")
    assert statuses[-2] == 200 and statuses[-1] == 413, statuses
    waiting.until(lambda: metric(client, "tally_memory_reserved_bytes") == 0)
    client.close()
    server.stop()


@pytest.mark.release_only
def test_a_packed_answer_of_zeros_takes_little_memory(start_server):
    server = start_server("--log-requests", "false")
    client = server.client(120)
    send = pack_much(256 * MIB)
    assert send(client).status == 200
    proc = pathlib.Path(f"/proc/{server.pid}")
    (proc / "clear_refs").write_text("5")
    before = server.rss_bytes()
    answer = send(client)
    line = next(x for x in (proc / "status").read_text().splitlines() if x.startswith("VmHWM"))
    peak = int(line.split()[1]) * 1024 - before
    assert answer.headers["Content-Encoding"] == "gzip" and len(answer.body) < 2 * MIB
    assert peak <= 256 * MIB + SPARE, f"{peak / MIB:.0f} MiB"
    client.close()
    server.stop()
