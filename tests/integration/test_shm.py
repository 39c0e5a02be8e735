"""Shared memory of clients, with tritonclient's own helpers and against hostile clients."""

import concurrent.futures
import contextlib
import functools
import http.client as http_client
import json
import os
import pathlib
import socket
import threading
from multiprocessing import shared_memory

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.utils.shared_memory as triton_shm
from support import calls, waiting
from support.http import post_bytes
from support.tallyd import Tallyd, free_port
from tritonclient.utils import InferenceServerException


@pytest.fixture(scope="module", params=["copies", "zero_copy"])
def shm_server(tmp_path_factory, request):
    """Every test runs on both servers: well-behaved clients see no difference except speed."""
    flags = ("--allow-client-shm", *(["--shm-zero-copy"] if request.param == "zero_copy" else []))
    server = Tallyd(tmp_path_factory.mktemp("shm") / "log", flags)
    yield server
    server.check_alive()
    server.stop()


@pytest.fixture
def v2(shm_server):
    client = triton.InferenceServerClient(f"127.0.0.1:{shm_server.port}", concurrency=4)
    client.unregister_system_shared_memory()
    yield client
    client.unregister_system_shared_memory()
    client.close()


@pytest.fixture
def http(shm_server):
    client = shm_server.client()
    yield client
    client.close()


@contextlib.contextmanager
def memory(size):
    """A POSIX shared memory object of exactly `size` bytes, as a NumPy array of bytes."""
    name = f"tally_pytest_{os.getpid()}_{threading.get_ident() % 10000}_{size}"
    path = pathlib.Path("/dev/shm") / name
    path.write_bytes(bytes(size))
    path.chmod(0o600)
    view = np.memmap(path, np.uint8, "r+", shape=(size,))
    try:
        yield name, view, path
    finally:
        del view
        path.unlink(missing_ok=True)


def register(http, name, key, offset, size):
    document = {"key": key, "offset": offset, "byte_size": size}
    return http.post_json(f"/v2/systemsharedmemory/region/{name}/register", document)


def infer(http, shape, region, size, offset=0, output=None):
    parameters = {"shared_memory_region": region, "shared_memory_byte_size": size}
    if offset:
        parameters["shared_memory_offset"] = offset
    document = {
        "inputs": [{"name": "x", "shape": shape, "datatype": "INT32", "parameters": parameters}]
    }
    if output:
        document["outputs"] = [
            {
                "name": "y",
                "parameters": {
                    "shared_memory_region": output[0],
                    "shared_memory_byte_size": output[1],
                    "shared_memory_offset": output[2],
                },
            }
        ]
    return http.post_json("/v2/models/cumsum/infer", document)


def test_tritonclient_example(v2):
    """The sequence of calls of the official Python example."""
    array = np.arange(16, dtype=np.int32)
    v2.unregister_system_shared_memory()
    v2.unregister_cuda_shared_memory()
    in_handle = triton_shm.create_shared_memory_region("input", "/tally_in", array.nbytes)
    out_handle = triton_shm.create_shared_memory_region("output", "/tally_out", array.nbytes)
    try:
        triton_shm.set_shared_memory_region(in_handle, [array])
        v2.register_system_shared_memory("input", "/tally_in", array.nbytes)
        v2.register_system_shared_memory("output", "/tally_out", array.nbytes)
        assert "system_shared_memory" in v2.get_server_metadata()["extensions"]
        tensor = triton.InferInput("x", [16], "INT32")
        tensor.set_shared_memory("input", array.nbytes)
        output = triton.InferRequestedOutput("y", binary_data=True)
        output.set_shared_memory("output", array.nbytes)
        result = v2.infer("cumsum", [tensor], outputs=[output])
        described = result.get_output("y")
        assert set(described) == {"name", "datatype", "shape"}
        actual = triton_shm.get_contents_as_numpy(out_handle, np.int32, described["shape"])
        assert (actual == np.cumsum(array)).all()
        names = {region["name"] for region in v2.get_system_shared_memory_status()}
        assert names == {"input", "output"}
        status = v2.get_system_shared_memory_status("input")
        assert status == [{"name": "input", "key": "/tally_in", "offset": 0, "byte_size": 64}]
        v2.unregister_system_shared_memory("input")
        with pytest.raises(InferenceServerException):
            v2.get_system_shared_memory_status("input")
        with pytest.raises(InferenceServerException) as caught:
            v2.infer("cumsum", [tensor])
        assert caught.value.status() == "404"
    finally:
        triton_shm.destroy_shared_memory_region(in_handle)
        triton_shm.destroy_shared_memory_region(out_handle)


def test_pythons_shared_memory_and_offsets(v2, http):
    block = shared_memory.SharedMemory(create=True, size=4096)
    try:
        values = np.ndarray((1024,), np.int32, block.buf)
        values[:] = 0
        values[3:7] = [1, 2, 3, 4]
        assert register(http, "my%20region", block.name, 4, 4000).status == 200
        answer = infer(http, [4], "my region", 16, 8, ("my region", 16, 400))
        assert answer.status == 200, answer
        assert answer.json()["outputs"] == [{"name": "y", "datatype": "INT32", "shape": [4]}]
        assert values[101:105].tolist() == [1, 3, 6, 10]
        assert values[3:7].tolist() == [1, 2, 3, 4] and values[100] == 0 and values[105] == 0
        del values
    finally:
        block.close()
        block.unlink()


def test_shared_memory_in_only_and_out_only(v2, http):
    with memory(64) as (name, view, _):
        view.view(np.int32)[:4] = [1, 2, 3, 4]
        assert register(http, "r", name, 0, 64).status == 200
        answer = infer(http, [4], "r", 16)
        assert answer.json()["outputs"][0]["data"] == [1, 3, 6, 10]
        document = {
            "inputs": [{"name": "x", "shape": [2], "datatype": "INT32", "data": [5, 6]}],
            "outputs": [
                {
                    "name": "y",
                    "parameters": {
                        "shared_memory_region": "r",
                        "shared_memory_byte_size": 32,
                        "shared_memory_offset": 32,
                    },
                }
            ],
        }
        assert http.post_json("/v2/models/cumsum/infer", document).status == 200
        assert view.view(np.int32)[8:12].tolist() == [5, 11, 0, 0]


def test_an_output_in_shared_memory_goes_there_whatever_binary_data_output_says(v2, http):
    with memory(64) as (name, view, _):
        assert register(http, "r", name, 0, 64).status == 200
        window = {"shared_memory_region": "r", "shared_memory_byte_size": 8}
        document = {
            "parameters": {"binary_data_output": True},
            "inputs": [{"name": "x", "shape": [2], "datatype": "INT32", "data": [5, 6]}],
            "outputs": [{"name": "y", "parameters": window}],
        }
        answer = http.post_json("/v2/models/cumsum/infer", document)
        assert answer.status == 200, answer
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.json()["outputs"] == [{"name": "y", "datatype": "INT32", "shape": [2]}]
        assert view.view(np.int32)[:2].tolist() == [5, 11]


@pytest.mark.parametrize("in_at", [0, 2, 8])
@pytest.mark.parametrize("out_at", [0, 1, 4, 12, 400])
@pytest.mark.parametrize("second_name", [False, True])
def test_input_and_output_anywhere_in_one_object(v2, http, in_at, out_at, second_name):
    """Input and output are at the same address, overlap, are apart, are at odd addresses, or
    are in one object that has two names."""
    with memory(4096) as (name, view, _):
        assert register(http, "r", name, 0, 4096).status == 200
        assert register(http, "s", name, 4, 4092).status == 200
        view[:] = 9
        view[in_at : in_at + 64] = np.arange(16, dtype="<i4").view(np.uint8)
        target = ("s", 64, out_at - 4) if second_name and out_at >= 4 else ("r", 64, out_at)
        answer = infer(http, [16], "r", 64, in_at, target)
        assert answer.status == 200, answer
        actual = view[out_at : out_at + 64].copy().view("<i4")
        assert (actual == np.cumsum(np.arange(16))).all()
        touched = set(range(in_at, in_at + 64)) | set(range(out_at, out_at + 64))
        assert all(view[i] == 9 for i in range(4096) if i not in touched)


def test_segments_of_a_tensor_in_shared_memory_leave_it_as_it_is(v2, http):
    array = np.arange(2000, dtype=np.int32)
    with memory(16384) as (name, view, _):
        assert register(http, "r", name, 0, 16384).status == 200
        view[: array.nbytes] = array.view(np.uint8)
        shared = {"shared_memory_region": "r", "shared_memory_byte_size": array.nbytes}
        target = {**shared, "shared_memory_offset": 8192}
        x = {"name": "x", "shape": [array.size], "datatype": "INT32", "parameters": shared}
        offsets = {"name": "offsets", "shape": [5], "datatype": "INT64"}
        document = {
            "inputs": [x, offsets | {"data": [0, 3, 3, 7, 2000]}],
            "outputs": [{"name": "y", "parameters": target}],
        }
        answer = http.post_json("/v2/models/cumsum/infer", document)
        assert answer.status == 200, answer
        assert bytes(view[: array.nbytes]) == array.tobytes()
        sums = [np.cumsum(array[begin:end]) for begin, end in ((0, 3), (3, 7), (7, 2000))]
        actual = view[8192 : 8192 + array.nbytes].copy().view(np.int32)
        assert np.array_equal(actual, np.concatenate(sums))
        document["inputs"][1]["parameters"] = {**shared, "shared_memory_byte_size": 40}
        del document["inputs"][1]["data"]
        answer = http.post_json("/v2/models/cumsum/infer", document)
        assert answer.status == 400 and "must be in the body" in answer.json()["error"], answer


NAN = float("nan")
ATTRIBUTES = [
    ("UINT8", np.uint8([200, 100, 7]), {"output_dtype": "int64"}, np.int64([200, 300, 307])),
    ("BOOL", np.uint8([1, 0, 1]), {}, np.int64([1, 1, 2])),
    ("FP32", np.float32([1, NAN, 2]), {"nan": "skip"}, np.float32([1, NAN, 3])),
    ("FP32", np.float32([1, NAN, 2]), {"nan": "zero", "initial": 5}, np.float32([6, 6, 8])),
    ("INT32", np.int32([1, 2, 3]), {"include_initial": True}, np.int32([0, 1, 3, 6])),
]


@pytest.mark.parametrize(("datatype", "array", "words", "sums"), ATTRIBUTES, ids=str)
def test_elements_that_are_converted_stay_as_they_are_in_the_clients_memory(
    v2, http, datatype, array, words, sums
):
    with memory(4096) as (name, view, _):
        assert register(http, "r", name, 0, 4096).status == 200
        view[: array.nbytes] = array.view(np.uint8)
        shared = {"shared_memory_region": "r", "shared_memory_byte_size": array.nbytes}
        target = {**shared, "shared_memory_offset": 64, "shared_memory_byte_size": sums.nbytes}
        x = {"name": "x", "shape": [array.size], "datatype": datatype, "parameters": shared}
        document = {"inputs": [x], "outputs": [{"name": "y", "parameters": target}]}
        answer = http.post_json("/v2/models/cumsum/infer", {**document, "parameters": words})
        assert answer.status == 200, answer
        assert answer.json()["outputs"][0]["shape"] == [sums.size]
        assert bytes(view[: array.nbytes]) == array.tobytes()
        actual = view[64 : 64 + sums.nbytes].copy().view(sums.dtype)
        assert np.array_equal(actual, sums, equal_nan=sums.dtype.kind == "f")
        target["shared_memory_byte_size"] -= 1
        answer = http.post_json("/v2/models/cumsum/infer", {**document, "parameters": words})
        assert answer.status == 400 and f"{sums.nbytes} bytes" in answer.json()["error"], answer


def test_the_axis_in_shared_memory(v2, http):
    with memory(64) as (name, view, _):
        view.view(np.int32)[:4] = [1, 2, 3, 4]
        view.view(np.int64)[4] = 1
        assert register(http, "r", name, 0, 64).status == 200
        place = {"shared_memory_region": "r"}
        document = {
            "inputs": [
                {
                    "name": "axis",
                    "shape": [1],
                    "datatype": "INT64",
                    "parameters": {
                        **place,
                        "shared_memory_offset": 32,
                        "shared_memory_byte_size": 8,
                    },
                },
                {
                    "name": "x",
                    "shape": [2, 2],
                    "datatype": "INT32",
                    "parameters": {**place, "shared_memory_byte_size": 16},
                },
            ]
        }
        answer = http.post_json("/v2/models/cumsum_onnx/infer", document)
        assert answer.json()["outputs"][0]["data"] == [1, 3, 3, 7]


@pytest.mark.parametrize(
    ("offset", "size"),
    [(0, 65), (1, 64), (64, 1), (1 << 63, 1), ((1 << 63) - 1, (1 << 63) - 1), (0, 0), (-1, 4)],
)
def test_regions_outside_their_object_are_400(v2, http, offset, size):
    with memory(64) as (name, _, _path):
        calls.expect_error(register(http, "r", name, offset, size), 400)


@pytest.mark.parametrize(
    ("offset", "size", "status"),
    [(0, 16, 200), (48, 16, 200), (52, 16, 400), (64, 16, 400), ((1 << 63) - 8, 16, 400)],
)
def test_windows_outside_their_region_are_400(v2, http, offset, size, status):
    with memory(128) as (name, _, _path):
        assert register(http, "r", name, 0, 64).status == 200
        answer = infer(http, [4], "r", size, offset)
        assert answer.status == status
        named = infer(http, [4], "r", 16, 0, ("r", size, offset))
        assert named.status == status
        if status == 400:
            member = "parameters.shared_memory_byte_size"
            calls.expect_error(answer, 400, "shared_memory_error", f"inputs[0].{member}")
            calls.expect_error(named, 400, "shared_memory_error", f"outputs[0].{member}")


def test_sizes_that_do_not_fit_the_tensor_are_400(v2, http):
    with memory(128) as (name, _, _path):
        assert register(http, "r", name, 0, 128).status == 200
        for size in (0, 15, 17):
            calls.expect_error(infer(http, [4], "r", size), 400, "length_mismatch")
        answer = infer(http, [4], "r", 16, 0, ("r", 15, 0))
        calls.expect_error(answer, 400, says="--output-shared-memory-size")


KEYS = ["../etc/passwd", "/../etc/passwd", "a/b", "", "/", ".", "..", ".hidden", "sem.x", "a b"]


@pytest.mark.parametrize("key", [*KEYS, "a\u0000b", "\u00e9", "a" * 300])
def test_keys_that_are_no_names_are_400(v2, http, key):
    answer = register(http, "r", key, 0, 4)
    calls.expect_error(answer, 400)
    assert b"/dev/shm/" not in answer.body and b"etc/passwd" not in answer.body


def test_a_missing_object_is_404_with_a_hint(v2, http):
    calls.expect_error(register(http, "r", "tally_none", 0, 4), 404, says="--ipc=host")


def test_names_are_taken_once_and_unknown_ones_are_404(v2, http):
    with memory(16) as (name, _, _path):
        assert register(http, "r", name, 0, 16).status == 200
        calls.expect_error(register(http, "r", name, 0, 16), 400, says="already")
        assert register(http, "q", name, 0, 16).status == 200
        field = "inputs[0].parameters.shared_memory_region"
        calls.expect_error(infer(http, [4], "nothing", 16), 404, "not_found", field)
        answer = infer(http, [4], "r", 16, output=("nothing", 16, 0))
        field = "outputs[0].parameters.shared_memory_region"
        calls.expect_error(answer, 404, "not_found", field)
        assert http.get("/v2/systemsharedmemory/region/nothing/status").status == 404
        assert http.post("/v2/systemsharedmemory/region/nothing/unregister").status == 200


def test_an_object_that_shrinks_is_an_error_and_not_the_end(shm_server, v2, http):
    with memory(1 << 20) as (name, _, path):
        assert register(http, "r", name, 0, 1 << 20).status == 200
        assert infer(http, [1 << 18], "r", 1 << 20).status == 200
        os.truncate(path, 10)
        answer = infer(http, [1 << 18], "r", 1 << 20, 0, ("r", 1 << 20, 0))
        calls.expect_error(answer, 400, "shared_memory_error", says="smaller")
        assert path.stat().st_size == 10
        shm_server.check_alive()


def test_an_object_that_shrinks_and_grows_all_the_time(shm_server, v2, http):
    """At any time each answer is 200 or a clean 400."""
    with memory(1 << 20) as (name, _, path):
        assert register(http, "r", name, 0, 1 << 20).status == 200
        stop = threading.Event()

        def shrink_and_grow():
            while not stop.is_set():
                os.truncate(path, 4096)
                os.truncate(path, 1 << 20)

        thread = threading.Thread(target=shrink_and_grow)
        thread.start()
        try:
            for _ in range(100):
                answer = infer(http, [1 << 18], "r", 1 << 20, 0, ("r", 1 << 20, 0))
                assert answer.status in (200, 400), answer
        finally:
            stop.set()
            thread.join()
        shm_server.check_alive()


@pytest.fixture(scope="module", params=["copies", "zero_copy"])
def waiting_server(tmp_path_factory, request):
    """A server whose device starts half a second after a request arrives, so that the test can
    change the memory meanwhile."""
    flags = ["--allow-client-shm", "--batch-delay-us=500000"]
    zero_copy = request.param == "zero_copy"
    server = Tallyd(
        tmp_path_factory.mktemp("shm") / "log", (*flags, *(["--shm-zero-copy"] * zero_copy))
    )
    yield server, zero_copy
    server.check_alive()
    server.stop()


@contextlib.contextmanager
def while_it_waits(server, *arguments):
    """Send infer(*arguments) in a thread, and run the block while the request waits. After the
    block, the yielded list has the answer."""
    answers = []

    def send():
        client = server.client()
        answers.append(infer(client, *arguments))
        client.close()

    thread = threading.Thread(target=send)
    thread.start()
    waiting.until(lambda: server.metric("tally_queue_requests") == 1, every=0.001)
    yield answers
    thread.join()


def test_a_client_that_changes_its_input_changes_only_its_own_answer(waiting_server):
    server, zero_copy = waiting_server
    with memory(1 << 16) as (name, view, _):
        client = server.client()
        assert register(client, "r", name, 0, 1 << 16).status == 200
        values = view.view("<i4")
        values[:1000] = 1
        with while_it_waits(server, [1000], "r", 4000, 0, ("r", 4000, 8192)) as answers:
            values[:1000] = 2
        assert answers[0].status == 200
        # A device that works in the client's pages sees the change, a copy does not.
        assert values[2048 + 999] == (2000 if zero_copy else 1000)
        client.post("/v2/systemsharedmemory/unregister")
        client.close()


@pytest.mark.parametrize("output", [None, ("r", 1 << 20, 0), ("r", 1 << 20, 1 << 20)])
def test_pages_that_disappear_before_the_device_reads_them(waiting_server, output):
    """The object is truncated between the request's checks and the kernel: SIGBUS in a thread of
    the driver."""
    server, zero_copy = waiting_server
    with memory(1 << 21) as (name, view, path):
        client = server.client()
        assert register(client, "r", name, 0, 1 << 21).status == 200
        with while_it_waits(server, [1 << 18], "r", 1 << 20, 0, output) as answers:
            os.truncate(path, 0)
        if zero_copy:
            calls.expect_error(answers[0], 400, "shared_memory_error", says="missing")
        elif output:
            calls.expect_error(answers[0], 400, "shared_memory_error", says="smaller")
        else:
            assert answers[0].status == 200  # the input was copied before
        server.check_alive()
        os.truncate(path, 1 << 21)
        view.view("<i4")[: 1 << 18] = 1
        answer = infer(client, [1 << 18], "r", 1 << 20, 0, ("r", 1 << 20, 1 << 20))
        # the server copies from now on
        assert answer.status == 200 and view.view("<i4")[-1] == 1 << 18
        client.post("/v2/systemsharedmemory/unregister")
        client.close()


def test_a_region_outlives_its_registration_for_requests_that_wait(waiting_server):
    server, _ = waiting_server
    with memory(1 << 16) as (name, view, path):
        client = server.client()
        assert register(client, "r", name, 0, 1 << 16).status == 200
        view.view("<i4")[:1000] = 1
        with while_it_waits(server, [1000], "r", 4000, 0, ("r", 4000, 8192)) as answers:
            assert client.post("/v2/systemsharedmemory/unregister").status == 200
            path.unlink()
        assert answers[0].status == 200 and view.view("<i4")[2048 + 999] == 1000
        # The client may have its answer before the server has ended the request.
        maps = pathlib.Path(f"/proc/{server.pid}/maps")
        waiting.until(lambda: name not in maps.read_text(), 20, what="its pages are still mapped")
        client.close()


def test_shared_memory_counts_against_the_memory_budget(start_server):
    for flags in ([], ["--shm-zero-copy"]):
        server = start_server("--allow-client-shm", "--memory-budget=1MiB", *flags)
        client = server.client()
        with memory(1 << 21) as (name, _, _path):
            assert register(client, "r", name, 0, 1 << 21).status == 200
            answer = infer(client, [1 << 19], "r", 1 << 21, 0, ("r", 1 << 21, 0))
            calls.expect_error(answer, 413, "too_large", says="--memory-budget")
            assert infer(client, [1000], "r", 4000, 0, ("r", 4000, 0)).status == 200
        client.close()


def test_shared_memory_waits_for_room_in_the_memory_budget(start_server):
    size = 8 << 20
    for flags in ([], ["--shm-zero-copy"]):
        server = start_server("--allow-client-shm", "--memory-budget=16MiB", *flags)
        client = server.client()
        with memory(size) as (name, view, _path), server.wire() as holder:
            assert register(client, "r", name, 0, size).status == 200
            path = f"/v1/cumsum?dtype=int8&shape={12 << 20}"
            holder.send(post_bytes(path, bytes(12 << 20), [("Content-Type", calls.RAW)])[:-1])
            waiting.until(lambda: server.metric("tally_memory_reserved_bytes") >= 12 << 20)
            view.view("<i4")[:] = 1
            arguments = (client, [size // 4], "r", size, 0, ("r", size, 0))
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                answer = pool.submit(infer, *arguments)
                waiting.until(
                    lambda: answer.done() or server.metric("tally_admission_waiting") == 1
                )
                holder.reset()
                assert answer.result().status == 200, answer.result()
            assert view.view("<i4")[-1] == size // 4
        client.close()


def test_zero_copy_alone_allows_nothing(start_server):
    server = start_server("--shm-zero-copy", wait=False)
    assert server.wait() == 2 and "add --allow-client-shm" in server.log


def test_unregistering_while_requests_run(shm_server, v2, http):
    with memory(1 << 22) as (name, view, _):
        view.view(np.int32)[:] = 1
        stop = threading.Event()

        def flip():
            other = shm_server.client()
            while not stop.is_set():
                register(other, "r", name, 0, 1 << 22)
                other.post("/v2/systemsharedmemory/unregister")
            other.close()

        thread = threading.Thread(target=flip)
        thread.start()
        good = 0
        try:
            for _ in range(200):
                answer = infer(http, [1 << 19], "r", 1 << 21, 0, ("r", 1 << 21, 1 << 21))
                assert answer.status in (200, 404), answer
                if answer.status == 200:
                    good += 1
                    assert view.view(np.int32)[-1] == 1 << 19
        finally:
            stop.set()
            thread.join()
        http.post("/v2/systemsharedmemory/unregister")
        assert good > 0
        waiting.until(
            lambda: name not in shm_server.open_paths(), 20, what="its file is still open"
        )


def test_the_table_of_regions_is_bounded(v2, http):
    with memory(16) as (name, _, _path):
        statuses = [register(http, f"r{i}", name, 0, 16).status for i in range(300)]
        assert statuses.count(200) == 256 and set(statuses) == {200, 400}
        assert len(v2.get_system_shared_memory_status()) == 256
        metrics = http.get("/metrics").body.decode()
        assert "\ntally_shm_regions 256\n" in metrics and "\ntally_shm_bytes 4096\n" in metrics
        http.post("/v2/systemsharedmemory/unregister")
        assert "\ntally_shm_regions 0\n" in http.get("/metrics").body.decode()


def outer_address():
    """A non-loopback address of this machine; None if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # connect() of a datagram socket sends nothing
            return probe.getsockname()[0]
        except OSError:
            return None


def test_remote_clients_are_refused(start_server):
    address = outer_address()
    if address is None:
        return  # this machine has no remote address to test with
    port = free_port()
    start_server("--allow-client-shm", "--listen", f"{address}:{port}")
    connection = http_client.HTTPConnection(address, port, timeout=30)
    with memory(16) as (name, _, _path):
        body = json.dumps({"key": name, "byte_size": 16})
        connection.request("POST", "/v2/systemsharedmemory/region/r/register", body)
        response = connection.getresponse()
        assert response.status == 403 and json.loads(response.read())["code"] == "forbidden"
    connection.close()


HERE, THERE = "127.0.0.1", "10.1.2.3"


@pytest.mark.parametrize(
    "trusted, forwarded, status",
    [
        ([HERE], HERE, 200),
        ([HERE], f"192.0.2.1, {HERE}", 403),
        ([HERE], "192.0.2.1", 403),
        ([HERE], "unknown", 403),
        ([HERE, THERE], f"{HERE}, {THERE}", 403),  # a loopback address that another machine reports
        ([], HERE, 403),
        ([], "192.0.2.1", 403),
    ],
)
def test_a_client_behind_proxies_is_local_only_if_every_address_is_local(
    start_server, trusted, forwarded, status
):
    flags = ["--trusted-proxies", ",".join(trusted)] if trusted else []
    server = start_server("--allow-client-shm", *flags)
    elsewhere = server.client()
    elsewhere.post_json = functools.partial(
        elsewhere.post_json, headers={"X-Forwarded-For": forwarded}
    )
    here = server.client()
    with memory(16) as (name, _, _path):
        answer = register(elsewhere, "r", name, 0, 16)
        assert answer.status == status, answer
        if trusted and status == 403:
            assert register(here, "r", name, 0, 16).status == 200
            calls.expect_error(infer(elsewhere, [4], "r", 16), 403, "forbidden")
            unregister = "/v2/systemsharedmemory/region/r/unregister"
            calls.expect_error(elsewhere.post_json(unregister, {}), 403, "forbidden")
            assert infer(here, [4], "r", 16).status == 200
    here.close()
    elsewhere.close()


@pytest.mark.parametrize(
    "name, value",
    [
        ("Forwarded", "for=192.0.2.1;proto=http"),
        ("forwarded", "for=127.0.0.1"),  # the service does not read addresses from this field
        ("Via", "1.1 proxy.example"),
        ("X-Real-IP", "192.0.2.1"),
        ("X-Forwarded-Host", "tally.example"),
        ("X-Forwarded-Port", "443"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Server", "proxy.example"),
    ],
)
@pytest.mark.parametrize("named", [{}, {"X-Forwarded-For": HERE}], ids=["alone", "beside"])
def test_a_request_with_a_header_of_a_proxy_is_not_local(start_server, name, value, named):
    server = start_server("--allow-client-shm", "--trusted-proxies", HERE)
    here, marked = server.client(), server.client()
    marked.post_json = functools.partial(marked.post_json, headers={name: value, **named})
    with memory(16) as (key, _, _path):
        calls.expect_error(register(marked, "r", key, 0, 16), 403, "forbidden")
        assert register(here, "r", key, 0, 16).status == 200
        calls.expect_error(infer(marked, [4], "r", 16), 403, "forbidden")
        unregister = "/v2/systemsharedmemory/region/r/unregister"
        calls.expect_error(marked.post_json(unregister, {}), 403, "forbidden")
        assert infer(here, [4], "r", 16).status == 200
    here.close()
    marked.close()


def test_a_page_in_a_browser_on_this_machine_is_not_here(start_server):
    """Any site that the user visits can post to loopback without a preflight. If the site's host
    name then resolves to 127.0.0.1, the site can also read the answers."""
    server = start_server("--allow-client-shm", "--cors-origins", "*")
    here, page = server.client(), server.client()
    plain = {"Origin": f"http://evil.example:{server.port}", "Content-Type": "text/plain"}
    page.post_json = lambda path, document: page.post(
        path, json.dumps(document).encode(), headers=plain
    )
    with memory(16) as (name, _, _path):
        calls.expect_error(register(page, "r", name, 0, 16), 403, "forbidden")
        assert register(here, "r", name, 0, 16).status == 200
        calls.expect_error(infer(page, [4], "r", 16), 403, "forbidden")
        unregister = "/v2/systemsharedmemory/region/r/unregister"
        calls.expect_error(page.post_json(unregister, {}), 403, "forbidden")
        assert infer(here, [4], "r", 16).status == 200
    here.close()
    page.close()


def test_off_means_off(client):
    with memory(16) as (name, _, _path):
        answer = register(client, "r", name, 0, 16)
        calls.expect_error(answer, 501, "unsupported", says="--allow-client-shm")
        calls.expect_error(infer(client, [4], "r", 16), 501, says="--allow-client-shm")
        assert client.post("/v2/systemsharedmemory/unregister").status == 200
        assert client.post("/v2/systemsharedmemory/region/r/unregister").status == 200
        assert client.get("/v2/systemsharedmemory/status").json() == []


def test_a_key_prefix_is_enforced(start_server):
    server = start_server("--allow-client-shm", "--shm-key-prefix", "other_")
    client = server.client()
    with memory(16) as (name, _, _path):
        calls.expect_error(register(client, "r", name, 0, 16), 403, "forbidden", "key")
    client.close()


def test_objects_of_other_users_are_refused(v2, http):
    if os.geteuid() != 0:
        return  # only root can create an object of another user
    with memory(16) as (name, _, path):
        os.chown(path, 12345, 12345)
        calls.expect_error(register(http, "r", name, 0, 16), 403, "forbidden", "key")
