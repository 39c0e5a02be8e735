"""The service scans large tensors in slices, while they arrive or when they are complete. The
sums have the same bits as those of the whole tensor, for every format, type, axis and speed. A
client that leaves between two slices does not affect others."""

import concurrent.futures
import json
import re
import signal
import threading
import time

import numpy as np
import pytest

from support import calls, dtypes, oracle
from support.http import post_bytes
from support.tallyd import POCL, Tallyd
from support.waiting import until

SLICE = 16 << 10
FLAGS = ["--slice-bytes", str(SLICE)]
TWO_DEVICES = {"POCL_DEVICES": "pthread pthread"}


@pytest.fixture(scope="module")
def server(log_dir):
    server = Tallyd(log_dir / "slices.log", FLAGS)
    yield server
    server.check_alive()
    server.stop()


def counter(server, name):
    client = server.client()
    page = client.get("/metrics").body.decode()
    client.close()
    each = [line.split()[-1] for line in page.splitlines() if re.match(name + "[ {]", line)]
    assert each
    return sum(map(int, each))  # total of all devices


PATIENCE_S = 300  # the first slice of a type may wait until its kernels are built


def await_counter(server, name, more_than):
    until(
        lambda: counter(server, name) > more_than, PATIENCE_S, 0.002, f"{name} stays at {more_than}"
    )


def await_no_reservation(server):
    """Wait until no memory is reserved, soon after the last client has disconnected."""
    until(
        lambda: counter(server, "tally_memory_reserved_bytes") == 0,
        PATIENCE_S,
        what="memory is held for clients that are gone",
    )


def send_by_parts(server, request, cuts=(0.6,), sliced=True):
    """Send a request up to each cut; at each cut, wait until the service has handed over one
    more slice. sliced=False: check that no slice is handed over before the end."""
    with server.wire(PATIENCE_S) as wire:
        begun, at = counter(server, "tally_sliced_requests_total"), 0
        for cut in cuts:
            end = int(len(request) * cut)
            before = counter(server, "tally_slices_total")
            wire.send(request[at:end])
            if sliced:
                await_counter(server, "tally_slices_total", before)
            else:
                wire.await_read()
            at = end
        assert counter(server, "tally_sliced_requests_total") == begun + (1 if sliced else 0)
        answer = wire.send(request[at:]).answer()
    if sliced:
        assert counter(server, "tally_sliced_requests_total") == begun + 1
    return answer


def raw_request(dtype, stored, **attributes):
    path = "/v1/cumsum" + calls.query(dtype=dtype.name, shape=list(stored.shape), **attributes)
    return post_bytes(path, stored.tobytes(), [("Content-Type", calls.RAW)])


def framed_request(path, document, payload):
    head = json.dumps(document).encode()
    headers = [("Content-Type", calls.RAW), ("Inference-Header-Content-Length", str(len(head)))]
    return post_bytes(path, head + payload, headers)


def framed_payload(answer):
    assert answer.status == 200, answer
    return answer.body[int(answer.headers["Inference-Header-Content-Length"]) :]


def tensor(dtype, shape, seed=5):
    return dtype.random(np.random.default_rng(seed), shape)


# Shape and axis; slices end in the middle of a block, or exactly at the end of a block or slice.
GEOMETRIES = [
    ((70001,), 0),
    ((1, 65536, 1), 1),
    ((300, 257), 1),
    ((4096, 16), 1),
    ((2000, 33), 0),
    ((8, 256, 32), 1),
    ((5, 4, 4099), 2),
    ((4096, 1, 16), 1),
]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_every_type_and_axis_has_the_bits_of_the_whole(server, dtype):
    for i, (shape, axis) in enumerate(GEOMETRIES):
        chained = all(size == 1 for size in shape[:axis])
        attributes = {
            "axis": axis,
            "exclusive": i % 2 == 0,
            "reverse": i % 3 != 0 and not chained,
        }
        stored = tensor(dtype, shape)
        answer = send_by_parts(server, raw_request(dtype, stored, **attributes), (0.5, 0.8))
        actual = calls.stored_of(dtype, answer, shape)
        calls.expect_same(dtype, actual, stored, **attributes)


def test_slices_of_a_tensor_take_turns_on_several_devices(start_server):
    """A slice runs on the device that will finish it first. Other requests, which share no launch,
    occupy each device at times. A device therefore has more batches than requests only if it ran
    slices."""
    server = start_server(*FLAGS, *POCL, env=TWO_DEVICES)
    dtype = dtypes.BY_NAME["float32"]
    client = server.client()
    stored = tensor(dtype, (150001,))
    over = threading.Event()

    def keep_busy(other):
        short = tensor(other, (SLICE // other.bytes,))  # this tensor is too short for slices
        with server.wire(PATIENCE_S) as wire:
            while not over.is_set():
                answer = wire.send(raw_request(other, short)).answer()
                calls.expect_same(other, calls.stored_of(other, answer, short.shape), short)

    def both_had_slices():
        answer = send_by_parts(server, raw_request(dtype, stored), (0.2, 0.4, 0.6, 0.8))
        calls.expect_same(dtype, calls.stored_of(dtype, answer, stored.shape), stored)
        devices = client.get("/v1/devices").json()["devices"]
        return [device["batches"] > device["requests"] for device in devices] == [True, True]

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        others = [dtypes.BY_NAME[name] for name in ("float32", "float64", "int64")]
        busy = [pool.submit(keep_busy, other) for other in others]
        try:
            until(both_had_slices, 60)
        finally:
            over.set()
        for one in busy:
            one.result()
    client.close()


@pytest.mark.parametrize("extra", [-1, 0, 1])
@pytest.mark.parametrize("steps", [2, 3, 8])
def test_sizes_around_the_ends_of_slices(server, steps, extra):
    dtype = dtypes.BY_NAME["float32"]
    stored = tensor(dtype, (steps * SLICE // 4 + extra,))
    sliced = stored.nbytes >= 2 * SLICE
    request = raw_request(dtype, stored)
    answer = send_by_parts(server, request, (0.85,), sliced)
    calls.expect_same(dtype, calls.stored_of(dtype, answer, stored.shape), stored)


def test_npy(server):
    dtype = dtypes.BY_NAME["int16"]
    stored = tensor(dtype, (500, 300))
    path = "/v1/cumsum" + calls.query(axis=1)
    for order in "C", "F":
        body = calls.npy_bytes(np.asarray(stored, order=order))
        request = post_bytes(path, body, [("Content-Type", calls.NPY)])
        answer = send_by_parts(server, request, sliced=order == "C")
        calls.expect_same(dtype, calls.stored_of(dtype, answer, stored.shape), stored, axis=1)


def test_npy_answered_in_json(server):
    dtype = dtypes.BY_NAME["float64"]
    stored = tensor(dtype, (90, 100))
    headers = [("Content-Type", calls.NPY), ("Accept", calls.JSON)]
    request = post_bytes("/v1/cumsum?axis=1", calls.npy_bytes(stored), headers)
    answer = send_by_parts(server, request)
    calls.expect_same(dtype, calls.stored_of(dtype, answer, stored.shape), stored, axis=1)


def test_directml_binary(server):
    dtype = dtypes.BY_NAME["uint32"]
    stored = tensor(dtype, (1, 3, 200, 150))
    described = {"DataType": "UINT32", "Sizes": list(stored.shape)}
    document = {
        "desc": {
            "InputTensor": described,
            "OutputTensor": described,
            "Axis": 2,
            "AxisDirection": "DECREASING",
            "HasExclusiveSum": True,
        }
    }
    request = framed_request("/v1/directml/cumulative_summation", document, stored.tobytes())
    payload = framed_payload(send_by_parts(server, request))
    actual = np.frombuffer(payload, dtype.storage).reshape(stored.shape)
    calls.expect_same(dtype, actual, stored, axis=2, exclusive=True, reverse=True)


def test_openvino_binary(server):
    dtype = dtypes.BY_NAME["bfloat16"]
    stored = tensor(dtype, (400, 300))
    data = {"precision": "BF16", "shape": [400, 300], "binary_data_size": stored.nbytes}
    axis = {"precision": "I64", "shape": [], "data": 1}
    request = framed_request("/v1/openvino/cumsum-3", {"inputs": [data, axis]}, stored.tobytes())
    actual = np.frombuffer(framed_payload(send_by_parts(server, request)), dtype.storage)
    calls.expect_same(dtype, actual.reshape(stored.shape), stored, axis=1)
    # An axis that follows the tensor is known too late.
    axis = {"precision": "I64", "shape": [], "binary_data_size": 8}
    payload = stored.tobytes() + np.array(1, "<i8").tobytes()
    request = framed_request("/v1/openvino/cumsum-3", {"inputs": [data, axis]}, payload)
    actual = np.frombuffer(
        framed_payload(send_by_parts(server, request, sliced=False)), dtype.storage
    )
    calls.expect_same(dtype, actual.reshape(stored.shape), stored, axis=1)


@pytest.mark.parametrize("binary_output", [True, False])
def test_v2_binary(server, binary_output):
    dtype = dtypes.BY_NAME["int64"]
    stored = tensor(dtype, (100, 90))
    tensor_input = {
        "name": "x",
        "shape": [100, 90],
        "datatype": "INT64",
        "parameters": {"binary_data_size": stored.nbytes},
    }
    document = {
        "parameters": {"axis": 1, "binary_data_output": binary_output},
        "inputs": [tensor_input],
    }
    request = framed_request("/v2/models/cumsum/infer", document, stored.tobytes())
    answer = send_by_parts(server, request)
    if binary_output:
        actual = np.frombuffer(framed_payload(answer), dtype.storage)
    else:
        actual = dtype.from_json(answer.json()["outputs"][0]["data"])
    calls.expect_same(dtype, actual.reshape(stored.shape), stored, axis=1)


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((70000,), {"reverse": True}),
        ((300, 300), {"reverse": True}),
        ((100, 700), {"axis": 0}),
        ((300, 300), {"axis": 1, "output_strides": [1, 300]}),
        ((300, 300), {"axis": 1, "output_strides": [301, 1]}),
    ],
    ids=str,
)
def test_a_tensor_that_cannot_be_cut_while_it_arrives_is_scanned_when_complete(
    server, shape, attributes
):
    dtype = dtypes.BY_NAME["int32"]
    stored = tensor(dtype, shape)
    gaps = attributes.get("output_strides") == [301, 1]
    begun = counter(server, "tally_sliced_requests_total")
    answer = send_by_parts(server, raw_request(dtype, stored, **attributes), sliced=False)
    # the axis of 100 steps is too short to be cut, since it is shorter than a block
    small_carry = attributes.get("axis") != 0
    assert counter(server, "tally_sliced_requests_total") == begun + (small_carry and not gaps)
    assert answer.status == 200, answer
    if "output_strides" not in attributes:
        calls.expect_same(dtype, calls.stored_of(dtype, answer, shape), stored, **attributes)


@pytest.mark.parametrize("flags", [{}, {"exclusive": True}, {"reverse": True}], ids=str)
@pytest.mark.parametrize(
    ("shape", "strides"),
    [((300001,), [0]), ((3, 90000), [1, 0]), ((70000, 3), [0, 1]), ((300, 300), [1, 300])],
    ids=str,
)
def test_complete_tensors_of_any_layout(server, shape, strides, flags):
    dtype = dtypes.BY_NAME["float32"]
    reach = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    stored = tensor(dtype, (reach,))
    view = np.lib.stride_tricks.as_strided(stored, shape, [4 * stride for stride in strides])
    path = "/v1/cumsum" + calls.query(
        dtype=dtype.name, shape=list(shape), strides=strides, axis=len(shape) - 1, **flags
    )
    begun = counter(server, "tally_sliced_requests_total")
    client = server.client()
    answer = client.post(path, stored.tobytes(), calls.RAW)
    client.close()
    assert counter(server, "tally_sliced_requests_total") == begun + 1
    whole = np.ascontiguousarray(view)
    calls.expect_same(
        dtype, calls.stored_of(dtype, answer, shape), whole, axis=len(shape) - 1, **flags
    )


def test_strided_lines_are_cut_by_their_cost_and_not_by_their_bytes(server):
    dtype = dtypes.BY_NAME["int8"]
    side = SLICE >> 7  # the tensor has the bytes of one slice and the cost of 128 slices
    stored = tensor(dtype, (side, side))
    path = "/v1/cumsum" + calls.query(
        dtype=dtype.name, shape=[side, side, 1], strides=[1, side, 1], axis=2
    )
    before = counter(server, "tally_slices_total")
    client = server.client()
    answer = client.post(path, stored.tobytes(), calls.RAW)
    client.close()
    assert counter(server, "tally_slices_total") >= before + 4  # 4, 16, 64 and the rest
    turned = np.ascontiguousarray(stored.T)[:, :, np.newaxis]
    assert np.array_equal(calls.stored_of(dtype, answer, turned.shape), turned)


@pytest.mark.parametrize("strides", [[2], [1]], ids=["in place", "apart"])
def test_a_long_output_with_gaps_is_cut_when_they_are_zeroes(server, strides):
    count = 17 << 20
    stored = np.arange((count - 1) * strides[0] + 1).astype(np.int8)
    path = f"/v1/cumsum?dtype=int8&shape={count}&strides={strides[0]}&output_strides=2"
    before = counter(server, "tally_slices_total")
    client = server.client(PATIENCE_S)
    sums = np.frombuffer(client.post(path, stored.tobytes(), calls.RAW).body, np.int8)
    client.close()
    assert counter(server, "tally_slices_total") > before + 1
    expected = np.zeros(2 * count - 1, np.int8)
    expected[::2] = np.cumsum(stored[:: strides[0]], dtype=np.int8)
    assert np.array_equal(sums, expected)


def test_a_long_text_and_a_tensor_that_is_turned_over(server):
    """The slicing loop does not prepare these tensors itself: another thread converts the text,
    and another one swaps the bytes of the NPY file."""
    dtype = dtypes.BY_NAME["int32"]
    stored = tensor(dtype, (90000,))
    begun = counter(server, "tally_sliced_requests_total")
    client = server.client()
    answer = calls.post_json(client, dtype, stored, reverse=True)
    calls.expect_same(dtype, calls.stored_of(dtype, answer, stored.shape), stored, reverse=True)
    large = tensor(dtype, (600000,))
    body = calls.npy_bytes(large.astype(">i4"))
    answer = client.post("/v1/cumsum", body, calls.NPY)
    client.close()
    assert np.array_equal(calls.npy_array(answer.body), oracle.cumsum(dtype, large))
    assert counter(server, "tally_sliced_requests_total") == begun + 2


BROADCAST = "/v1/cumsum?dtype=int8&shape=200000000&strides=0"


def test_small_requests_pass_between_slices_of_a_complete_tensor(server):
    client = server.client()
    small = np.array([1, 2, 3, 4], np.int32)
    before = counter(server, "tally_slices_total")
    with server.wire(PATIENCE_S) as wire:
        wire.send(post_bytes(BROADCAST, b"\x01", [("Content-Type", calls.RAW)]))
        await_counter(server, "tally_slices_total", before)
        answer = client.post("/v1/cumsum?dtype=int32&shape=4", small.tobytes(), calls.RAW)
        between = counter(server, "tally_slices_total")
        assert np.frombuffer(answer.body, np.int32).tolist() == [1, 3, 6, 10]
        body = wire.answer().body
    client.close()
    assert counter(server, "tally_slices_total") > between + 1
    wraps = np.arange(1, 257).astype(np.uint8)
    assert np.array_equal(np.frombuffer(body, np.uint8), np.resize(wraps, len(body)))


def test_a_complete_tensor_is_not_scanned_to_its_end_for_a_client_that_left(server):
    before = counter(server, "tally_device_elements_total")
    slices = counter(server, "tally_slices_total")
    with server.wire(PATIENCE_S) as wire:
        ten_times = BROADCAST.replace("200000000", "2000000000")
        wire.send(post_bytes(ten_times, b"\x01", [("Content-Type", calls.RAW)]))
        await_counter(server, "tally_slices_total", slices)
        wire.reset()
    await_no_reservation(server)
    assert counter(server, "tally_device_elements_total") < before + 2000000000


def test_a_chunked_body_once_its_memory_is_there(server):
    dtype = dtypes.BY_NAME["float32"]
    stored = tensor(dtype, (1 << 20,))
    body = stored.tobytes()
    path = "/v1/cumsum" + calls.query(dtype=dtype.name, shape=list(stored.shape))
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: {calls.RAW}\r\n"
    chunks = b"".join(
        b"%x\r\n%s\r\n" % (len(body[at : at + 50000]), body[at : at + 50000])
        for at in range(0, len(body), 50000)
    )
    request = head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    answer = send_by_parts(server, request, (0.9,))
    calls.expect_same(dtype, calls.stored_of(dtype, answer, stored.shape), stored)


def test_a_client_that_leaves_takes_its_slices_with_it(server):
    dtype = dtypes.BY_NAME["float32"]
    request = raw_request(dtype, tensor(dtype, (200000,)))
    for cut in (0.3, 0.6, 0.9, 0.999):
        before = counter(server, "tally_slices_total")
        with server.wire() as wire:
            wire.send(request[: int(len(request) * cut)])
            await_counter(server, "tally_slices_total", before)
    await_no_reservation(server)


def test_a_client_that_leaves_at_random_is_no_harm_to_others(server):
    dtype = dtypes.BY_NAME["float32"]
    stored = tensor(dtype, (100000,))
    request = raw_request(dtype, stored)
    expected = oracle.cumsum(dtype, stored).tobytes()
    stop = threading.Event()

    def leave(seed):
        rng = np.random.default_rng(seed)
        while not stop.is_set():
            with server.wire() as wire:
                wire.send(request[: int(rng.integers(len(request)))])
            time.sleep(0.02)

    leavers = [threading.Thread(target=leave, args=(seed,)) for seed in range(3)]
    for leaver in leavers:
        leaver.start()
    try:
        for _ in range(20):
            with server.wire() as wire:
                assert wire.send(request).answer().body == expected
    finally:
        stop.set()
        for leaver in leavers:
            leaver.join()


def test_small_requests_pass_between_slices(server):
    dtype = dtypes.BY_NAME["float32"]
    stored = tensor(dtype, (1 << 20,))
    request = raw_request(dtype, stored)
    small = np.array([1, 2, 3, 4], np.int32)
    with server.wire() as wire:
        client = server.client()
        for at in range(0, len(request), 1 << 18):
            wire.send(request[at : at + (1 << 18)])
            answer = client.post("/v1/cumsum?dtype=int32&shape=4", small.tobytes(), calls.RAW)
            assert np.frombuffer(answer.body, np.int32).tolist() == [1, 3, 6, 10]
        answer = wire.answer()
        client.close()
    calls.expect_same(dtype, calls.stored_of(dtype, answer, stored.shape), stored)


def test_a_sliced_request_counts_once(server):
    dtype = dtypes.BY_NAME["float32"]
    stored = tensor(dtype, (70000,))
    path = "/v2/models/cumsum/infer"
    tensor_input = {
        "name": "x",
        "shape": [70000],
        "datatype": "FP32",
        "parameters": {"binary_data_size": stored.nbytes},
    }
    client = server.client()

    def stats():
        (model,) = client.get("/v2/models/cumsum/stats").json()["model_stats"]
        devices = client.get("/v1/devices").json()["devices"]
        return (
            model["inference_count"],
            model["execution_count"],
            sum(device["requests"] for device in devices),
        )

    before = stats()
    request = framed_request(path, {"inputs": [tensor_input]}, stored.tobytes())
    answer = send_by_parts(server, request, (0.4, 0.8))
    assert answer.status == 200
    assert "compute;dur=" in answer.headers["Server-Timing"]
    assert stats() == tuple(count + 1 for count in before)
    client.close()


def test_a_drain_waits_for_a_sliced_request(start_server):
    server = start_server(*FLAGS)
    dtype = dtypes.BY_NAME["float32"]
    stored = tensor(dtype, (100000,))
    request = raw_request(dtype, stored)
    with server.wire() as wire:
        wire.send(request[: len(request) // 2])
        await_counter(server, "tally_slices_total", 0)
        server.signal(signal.SIGTERM)
        server.await_refusal()
        answer = wire.send(request[len(request) // 2 :]).answer()
    calls.expect_same(dtype, calls.stored_of(dtype, answer, stored.shape), stored)
    assert server.wait(30) == 0


def test_a_drain_does_not_wait_for_a_client_that_left(start_server):
    server = start_server(*FLAGS)
    dtype = dtypes.BY_NAME["float32"]
    request = raw_request(dtype, tensor(dtype, (3000000,)))
    with server.wire() as wire:
        wire.send(request[: len(request) - 1])
        await_counter(server, "tally_slices_total", 0)
    server.signal(signal.SIGTERM)
    assert server.wait(30) == 0


def test_without_slices_the_whole_is_scanned(start_server):
    server = start_server("--slice-bytes", "0")
    dtype = dtypes.BY_NAME["float32"]
    stored = tensor(dtype, (4 << 20,))
    answer = send_by_parts(server, raw_request(dtype, stored), sliced=False)
    assert calls.stored_of(dtype, answer, stored.shape)[0] == stored[0]
