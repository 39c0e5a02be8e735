"""Peak memory of one request: the tensor is held only once, and so is its text."""

import gzip
import pathlib
import signal

import numpy as np
import pytest

from support import calls, dtypes
from support.http import post_bytes
from support.waiting import until

MIB = 1 << 20
SPARE = 8 * MIB  # memory for stacks and connection buffers, of which 1 to 2 MiB were measured


def peak_of(server, send):
    """Bytes of resident memory that a request needed at its peak, in addition to the memory
    before."""
    proc = pathlib.Path(f"/proc/{server.process.pid}")
    (proc / "clear_refs").write_text("5")  # resets the peak
    before = server.rss_bytes()
    send()
    line = next(x for x in (proc / "status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 - before


@pytest.fixture
def fresh(start_server):
    """A server that has run all relevant code, on small tensors."""
    server = start_server("--log-requests", "false")
    client = server.client(120)
    for shape in ((3, 4), (1 << 19,), (1 << 17, 1)):
        ones = np.ones(shape, np.float32)
        calls.post_raw(client, dtypes.BY_NAME["float32"], ones, axis=len(shape) - 1)
    calls.post_json(client, dtypes.BY_NAME["float32"], np.ones((4, 1), np.float32), axis=1)
    yield server, client
    client.close()
    server.stop()


@pytest.mark.release_only
def test_a_raw_tensor_is_held_once(fresh):
    server, client = fresh
    body = bytes(192 * MIB)

    def send():
        answer = client.post(f"/v1/cumsum?dtype=float32&shape={48 * MIB}", body, calls.RAW)
        assert answer.status == 200 and len(answer.body) == len(body)

    peak = peak_of(server, send)
    assert peak <= len(body) + SPARE, f"{peak / MIB:.0f} MiB"


@pytest.mark.release_only
def test_a_json_request_holds_its_text_or_its_answer_and_the_tensor(fresh):
    """The numbers' text is freed before the answer, which is about as long, is printed."""
    server, client = fresh
    count = 3 << 20
    body = b'{"dtype":"float32","axis":1,"shape":[%d,1],"data":[' % count
    body += b"0.12345679," * (count - 1) + b"0.5]}"

    def send():
        answer = client.post("/v1/cumsum", body, calls.JSON)
        assert answer.status == 200 and abs(len(answer.body) - len(body)) < 100

    peak = peak_of(server, send)
    bound = len(body) + 4 * count
    assert peak <= bound + SPARE, f"{peak / MIB:.0f} MiB, {bound / MIB:.0f} needed"


def zeros_of(kind, cells):
    """A short request whose answer is a long text of zeros, and the end of that answer."""
    if kind == "tail":
        tensor = {"DataType": "FLOAT32", "Sizes": [2]}
        total = {"TotalTensorSizeInBytes": 4 * cells}
        desc = {"InputTensor": tensor, "OutputTensor": {**tensor, **total}, "Axis": 0}
        desc.update({"AxisDirection": "INCREASING", "HasExclusiveSum": False})
        path = "/v1/directml/cumulative_summation"
        return path, {"desc": desc, "data": [1, 2]}, b"[1.0,3.0,0.0,", b",0.0]}"
    gaps = {"data": [1, 2, 3, 4], "shape": [2, 2], "dtype": "float32", "axis": 1}
    gaps["output_strides"] = [cells - 2, 1]
    return "/v1/cumsum", gaps, b"[1.0,3.0,0.0,", b",0.0,3.0,7.0]}"


@pytest.mark.release_only
@pytest.mark.parametrize("kind", ["tail", "gaps"])
def test_zeros_that_a_text_shows_are_held_by_their_text_alone(start_server, kind):
    """The zeros have no buffer, and no room for longer numbers: the budget fits only their text."""
    cells = 6 * MIB
    path, document, begin, end = zeros_of(kind, cells)
    server = start_server("--memory-budget", "40MiB", "--log-requests", "false")
    client = server.client(60)
    assert client.post_json(path, zeros_of(kind, 1000)[1]).status == 200
    answers = []
    peak = peak_of(server, lambda: answers.append(client.post_json(path, document)))
    answer = answers[0]
    assert answer.status == 200, answer
    assert begin in answer.body[:300] and answer.body.endswith(end)
    assert answer.body.count(b",0.0") == cells - (2 if kind == "tail" else 4)
    assert peak <= 4 * cells + SPARE, f"{peak / MIB:.0f} MiB"
    client.close()
    server.stop()


def request_and_sums(kind):
    """(a request of about 8 MiB, the end of its answer)"""
    path = f"/v1/cumsum?dtype=int8&shape={8 * MIB}"
    octets = ("Content-Type", calls.RAW)
    if kind == "tensor":
        return post_bytes(path, bytes(8 * MIB), [octets]), bytes(8 * MIB)
    if kind == "packed":
        stored = gzip.compress(bytes(8 * MIB), 0)
        return post_bytes(path, stored, [octets, ("Content-Encoding", "gzip")]), bytes(8 * MIB)
    numbers = b"[" + b"0," * (4 * MIB) + b"0]}"
    body = b'{"dtype":"int8","data":' + numbers
    return post_bytes("/v1/cumsum", body, [("Content-Type", calls.JSON)]), numbers


@pytest.mark.release_only
@pytest.mark.parametrize("kind", ["tensor", "text", "packed"])
def test_a_client_that_stops_after_its_first_bytes_holds_only_counted_memory(start_server, kind):
    server = start_server()
    before = server.rss_bytes()
    request, sums = request_and_sums(kind)
    wires = [server.wire().send(request[:30000]) for _ in range(12)]
    until(lambda: server.metric("tally_memory_blocks") == 12)
    # no memory is promised any more to requests that are being received
    until(lambda: server.metric("tally_memory_promised_bytes") == 0)
    # reserved are the received bytes, and room for some more
    assert server.metric("tally_memory_reserved_bytes") < 12 * MIB
    # each request has used one huge page of the four that are prepared for its body
    assert server.rss_bytes() - before < 12 * 3 * MIB
    for wire in wires[::6]:
        assert wire.send(request[30000:]).answer().body.endswith(sums)
    for wire in wires:
        wire.close()


def test_a_client_that_left_within_its_body_gets_no_memory(start_server):
    """Many connections are accepted before the first one is read: memory for all of them would be a
    multiple of what the remaining ones need."""
    server = start_server("--http-loops", "1", "--log-bytes-per-s", "0")
    left = 40
    with server.wire() as wire:
        before = wire.metric("tally_memory_slab_bytes")
        request, _ = request_and_sums("tensor")
        server.signal(signal.SIGSTOP)
        until(server.is_stopped)
        for _ in range(left):
            with server.wire() as leaver:
                leaver.send(request[:60000])
        server.signal(signal.SIGCONT)
        until(lambda: server.log.count("outcome=length_mismatch") == left)
        assert wire.metric("tally_memory_slab_bytes") == before
