"""Arrays in shared memory: the client keeps regions, gives them back, and makes new ones after a
restart of the server."""

import contextlib
import http.client
import os
import pathlib
import threading
import time

import numpy as np
import pytest
import tally
from lying_server import LyingServer, Told, error
from support import fixtures
from support.tallyd import Tallyd

SHM = pathlib.Path("/dev/shm")


@pytest.fixture(scope="module", params=[(), ("--shm-zero-copy",)], ids=["copies", "zero_copy"])
def living_server(log_dir, request):
    log = log_dir / f"shm{''.join(request.param)}.log"
    with fixtures.living(log, ["--allow-client-shm", *request.param]) as server:
        server.url = f"http://127.0.0.1:{server.port}"
        yield server


@pytest.fixture
def shm_server(living_server):
    """The module's server, without regions of an earlier failed test."""
    with contextlib.closing(living_server.client()) as client:
        assert client.post("/v2/systemsharedmemory/unregister").status == 200
    assert regions(living_server) == []
    yield living_server
    living_server.check_alive()


def regions(server):
    client = server.client()
    try:
        return client.get("/v2/systemsharedmemory/status").json()
    finally:
        client.close()


def objects():
    """The shared memory objects of this process. Test processes that run in parallel have
    others."""
    return set(SHM.glob(f"tally_py_{os.getpid()}_*"))


def test_regions_are_kept_and_given_back(connect, shm_server):
    before = objects()
    client = connect(shm_server.url, shm=True)
    x = np.ones((1 << 18,), np.float64)
    for _ in range(5):
        assert client.cumsum(x, 0)[-1] == 1 << 18
    assert len(regions(shm_server)) == 1
    assert client.cumsum(np.ones(1 << 20), 0)[-1] == 1 << 20  # a larger region replaces the first
    assert len(regions(shm_server)) == 1
    assert objects() == before
    client.close()
    assert regions(shm_server) == []


def test_a_client_that_is_forgotten_gives_its_regions_back(shm_server):
    client = tally.Client(shm_server.url, shm=True)
    client.cumsum([1, 2])
    assert len(regions(shm_server)) == 1
    del client
    assert regions(shm_server) == []


def test_a_forked_child_gives_its_own_regions_back_and_no_other(shm_server):
    client = tally.Client(shm_server.url, shm=True)
    client.cumsum([1, 2])
    mine = regions(shm_server)
    child = os.fork()
    if child == 0:
        try:
            client.cumsum([1, 2])
            theirs = len(regions(shm_server)) == 2
            client.close()
            os._exit(0 if theirs else 2)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert regions(shm_server) == mine
    assert client.cumsum([1, 2]).tolist() == [1, 3]
    client.close()
    assert regions(shm_server) == []


def test_a_server_that_was_started_anew_gets_new_regions(connect, log_dir):
    first = Tallyd(log_dir / "first.log", ["--allow-client-shm"])
    client = connect(f"http://127.0.0.1:{first.port}", shm=True)
    assert client.cumsum([1, 2]).tolist() == [1, 3]
    first.stop()
    second = Tallyd(
        log_dir / "second.log",
        ["--allow-client-shm", "--listen", f"127.0.0.1:{first.port}"],
    )
    try:
        assert client.cumsum([1, 2]).tolist() == [1, 3]
        assert len(regions(second)) == 1
        client.close()
    finally:
        second.kill()


def test_a_server_that_allows_none_says_so(connect, log_dir):
    server = Tallyd(log_dir / "none.log", [])
    before = objects()
    try:
        with pytest.raises(tally.TallyError, match="--allow-client-shm"):
            connect(f"http://127.0.0.1:{server.port}", shm=True).cumsum([1, 2])
        assert objects() == before
    finally:
        server.kill()


def test_memory_that_cannot_be_had_is_said_so(connect, shm_server, monkeypatch):
    monkeypatch.setattr("tally.shared.FOLDER", "/nonexistent")
    with pytest.raises(tally.InvalidArgument, match="shared memory"):
        connect(shm_server.url, shm=True).cumsum([1, 2])


def forward(seen, server):
    """Forward a request to the server and return its answer."""
    method, path, _ = seen.head.split(" ", 2)
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        connection.request(method, path, seen.body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
    kind = f"HTTP/1.1 {answer.status} OK\r\nContent-Type: application/json\r\n"
    return f"{kind}Content-Length: {len(body)}\r\n\r\n".encode() + body


def test_a_region_is_filled_again_where_a_kept_connection_broke_before_the_answer(
    connect, shm_server
):
    infers = []

    def proxy(seen):
        told = forward(seen, shm_server)
        infers.extend([seen] if "infer" in seen.head else [])
        lost = "infer" in seen.head and len(infers) == 2
        # the sums are in the region, but the answer is lost
        return Told(told, cut=0 if lost else None)

    with LyingServer(proxy) as between:
        client = connect(between.url, shm=True)
        assert client.cumsum([1, 2, 3, 4]).tolist() == [1, 3, 6, 10]
        assert client.cumsum([1, 2, 3, 4]).tolist() == [1, 3, 6, 10]
        client.close()
    assert len(infers) == 3


@pytest.mark.parametrize("lost", [0, 1], ids=["a_new_connection", "a_kept_one"])
def test_a_request_that_comes_late_does_not_spoil_the_next_attempt(connect, shm_server, lost):
    infers = []

    def proxy(seen):
        if "infer" in seen.head:
            infers.append(seen)
            if len(infers) == lost + 1:
                return Told(b"", cut=0)  # the request is still in flight
            if len(infers) == lost + 2:
                forward(infers[lost], shm_server)
        return Told(forward(seen, shm_server))

    with LyingServer(proxy) as between:
        client = connect(between.url, shm=True)
        for _ in range(lost + 1):
            assert client.cumsum([1, 2, 3, 4]).tolist() == [1, 3, 6, 10]
        assert len(regions(shm_server)) == 1  # the other region was given back
        client.close()
    assert regions(shm_server) == []


@pytest.mark.parametrize("lost", [1, 100], ids=["one_answer", "all_answers"])
def test_a_region_whose_registration_was_not_answered_is_not_left_behind(connect, shm_server, lost):
    registered = []

    def proxy(seen):
        told = forward(seen, shm_server)
        if "/register" not in seen.head:
            return Told(told)
        registered.append(seen)
        return Told(told, cut=0 if len(registered) <= lost else None)

    with LyingServer(proxy) as between:
        client = connect(between.url, shm=True)
        if lost == 1:
            assert client.cumsum([1, 2]).tolist() == [1, 3]
            assert len(regions(shm_server)) == 1
        else:
            with pytest.raises(tally.ConnectionLost):
                client.cumsum([1, 2])
        client.close()
    assert regions(shm_server) == []


def test_a_server_that_hangs_is_not_waited_for_to_give_regions_back(connect, monkeypatch):
    monkeypatch.setattr("tally.shared.FORGET_SECONDS", 0.25)

    def script(seen):
        # Two simultaneous calls leave more than one idle region.
        if "unregister" in seen.head or hung.is_set():
            return Told(b"", hang=True)
        if "infer" in seen.head:
            both.wait()
        return Told(
            b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n"
            if "infer" in seen.head
            else b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        )

    both, hung = threading.Barrier(2), threading.Event()
    with LyingServer(script) as server:
        client = tally.Client(server.url, shm=True)

        def call():
            with pytest.raises(tally.Rejected):
                client.cumsum([1, 2])

        threads = [threading.Thread(target=call) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        hung.set()
        began = time.monotonic()
        client.close()
        # close() does not wait ten minutes for each region
        assert time.monotonic() - began < 60
        told = [head for head in server.heads if "unregister" in head]
        assert all("X-Request-Timeout-Ms" in head for head in told) and told


def test_a_call_that_is_interrupted_gives_its_region_back(shm_server, monkeypatch):
    run = tally.shared.run

    def interrupted(call, pool):
        text = run(call, pool)
        if call.request.path.endswith("infer"):
            raise KeyboardInterrupt
        return text

    monkeypatch.setattr("tally.shared.run", interrupted)
    with tally.Client(shm_server.url, shm=True) as client:
        with pytest.raises(KeyboardInterrupt):
            client.cumsum([1, 2])
        assert regions(shm_server) == []


@pytest.fixture
def no_copies(monkeypatch):
    """Fail if the client copies an array into a region or out of one."""

    def copied(*_):
        raise AssertionError("an array was copied")

    monkeypatch.setattr("tally.shared.np.copyto", copied)


def test_arrays_in_shared_memory_are_not_copied(connect, shm_server, no_copies):
    client = connect(shm_server.url, shm=True)
    x = client.empty((3, 1000), np.int64)
    x[...] = np.arange(3000).reshape(3, 1000)
    expected = np.cumsum(x, axis=1)
    y = client.empty((3, 1000), "int64")
    assert client.cumsum(x, 1, out=y) is y
    assert np.array_equal(y, expected)
    # rows of an array in shared memory are summed there, too
    assert client.cumsum(x[1], 0, out=y[0]) is not x
    assert np.array_equal(y[:2], expected[[1, 1]])
    assert client.cumsum(x, 1, out=x) is x
    assert np.array_equal(x, expected)
    assert len(regions(shm_server)) == 2


@pytest.mark.parametrize("kind", ["float32", "float64", "int8", "uint64", "bfloat16"])
def test_one_of_both_arrays_in_shared_memory(connect, shm_server, kind):
    client = connect(shm_server.url, shm=True)
    there = client.empty((4, 5), kind)
    there[...] = np.arange(20).reshape(4, 5) % 3
    outside = np.array(there)
    expected = client.cumsum(outside, 0, dtype=there.dtype)
    assert np.array_equal(client.cumsum(there, 0, dtype=there.dtype), expected)
    assert np.array_equal(there, outside)  # the sums are not in shared memory
    result = np.empty_like(outside)
    assert np.array_equal(client.cumsum(there, 0, dtype=there.dtype, out=result), expected)
    assert client.cumsum(outside, 0, dtype=there.dtype, out=there) is there
    assert np.array_equal(there, expected)


def test_any_layout_of_an_array_in_shared_memory(connect, shm_server):
    client = connect(shm_server.url, shm=True)
    there = client.empty((6, 7))
    values = np.arange(42.0).reshape(6, 7)
    for view in (lambda a: a.T, lambda a: a[::-1], lambda a: a[1:, 2:5], lambda a: a[:, 3]):
        there[...] = values
        assert np.array_equal(client.cumsum(view(there), 0), np.cumsum(view(values), 0))
        assert np.array_equal(there, values)
        client.cumsum(view(there), 0, out=view(there))
        assert np.array_equal(view(there), np.cumsum(view(values), 0))
    there[...] = values
    client.cumsum(there[:4], 0, out=there[2:])  # input and output share two rows
    assert np.array_equal(there[2:], np.cumsum(values[:4], 0))
    assert np.array_equal(there[:2], values[:2])


def test_an_empty_array_and_one_without_shared_memory_are_ordinary(connect, shm_server):
    assert connect(shm_server.url, shm=True).empty((0, 3)).shape == (0, 3)
    assert regions(shm_server) == []
    assert connect(shm_server.url, shm=True).empty(()).shape == ()
    ordinary = connect(shm_server.url).empty(5, np.int16)
    assert ordinary.shape == (5,) and ordinary.dtype == np.int16 and ordinary.base is None


@pytest.mark.parametrize("shm", [True, False])
def test_an_array_of_booleans_is_an_input(connect, shm_server, no_copies, shm):
    client = connect(shm_server.url, shm=shm)
    x, out = client.empty((2, 3), bool), client.empty((2, 3), np.int64)
    assert x.dtype == bool
    x[...] = [[True, False, True], [False, True, True]]
    assert client.cumsum(x, 1, out=out) is out
    assert out.tolist() == [[1, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    ("shape", "dtype", "field"),
    [
        *((shape, "f4", "shape") for shape in ((2, -1), "3", 1.5, (1 << 62, 1 << 62), (1,) * 65)),
        (1 << 63, "i1", "shape"),
        ((0, 1 << 62, 1 << 62), "i1", "shape"),
        (3, object, "dtype"),
    ],
)
@pytest.mark.parametrize("shm", [True, False])
def test_an_array_that_cannot_be_is_refused(connect, shm_server, shape, dtype, field, shm):
    with pytest.raises(tally.InvalidArgument) as caught:
        connect(shm_server.url, shm=shm).empty(shape, dtype)
    assert caught.value.field == field


def test_the_memory_of_arrays_that_are_gone_is_used_again(connect, shm_server):
    before = objects()
    client = connect(shm_server.url, shm=True)
    for _ in range(20):
        x = client.empty(1000)
        view = x[10:20]
        del x
        view[...] = 1
        assert client.cumsum(view, 0)[-1] == 10
        del view
    assert len(regions(shm_server)) <= 9  # asyncio's threads release their regions a moment later
    many = [client.empty(1000) for _ in range(20)]
    del many
    client.cumsum([1, 2])
    assert len(regions(shm_server)) <= 9
    assert objects() == before
    client.close()
    assert regions(shm_server) == []


def test_a_client_that_goes_on_after_its_close_gives_back_what_it_took(shm_server):
    client = tally.Client(shm_server.url, shm=True)
    for _ in range(2):
        assert client.cumsum([1, 2]).tolist() == [1, 3]
        client.close()
        assert regions(shm_server) == []


def test_arrays_outlive_their_client(shm_server):
    client = tally.Client(shm_server.url, shm=True)
    x = client.empty(1000)
    x[...] = 1
    client.close()
    assert regions(shm_server) == []
    assert client.cumsum(x, 0)[-1] == 1000  # the client copies an array that has no region
    del client
    assert regions(shm_server) == []
    assert x.sum() == 1000


def test_an_array_that_a_new_server_does_not_know_is_copied(connect, log_dir):
    first = Tallyd(log_dir / "first.log", ["--allow-client-shm"])
    client = connect(f"http://127.0.0.1:{first.port}", shm=True)
    x, y = client.empty(4), client.empty(4)
    x[...] = 1
    first.stop()
    second = Tallyd(
        log_dir / "second.log",
        ["--allow-client-shm", "--listen", f"127.0.0.1:{first.port}"],
    )
    try:
        assert client.cumsum(x, 0, out=y).tolist() == [1, 2, 3, 4]
        assert client.cumsum(x, 0, out=x).tolist() == [1, 2, 3, 4]
        client.close()
        assert regions(second) == []
    finally:
        second.kill()


def test_a_forked_child_leaves_the_arrays_to_its_parent(shm_server):
    client = tally.Client(shm_server.url, shm=True)
    x = client.empty(4)
    x[...] = 1
    child = os.fork()
    if child == 0:
        try:
            good = client.cumsum(x, 0).tolist() == [1, 2, 3, 4]
            del x
            client.close()
            os._exit(0 if good else 2)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert client.cumsum(x, 0, out=x).tolist() == [1, 2, 3, 4]
    assert len(regions(shm_server)) == 1
    client.close()
    assert regions(shm_server) == []


@pytest.mark.parametrize("in_place", [False, True], ids=["apart", "in_place"])
def test_an_array_whose_answer_was_lost_is_not_asked_for_again(connect, shm_server, in_place):
    infers = []

    def proxy(seen):
        if "infer" in seen.head:
            infers.append(seen)
            if len(infers) == 2:
                return Told(b"", cut=0)  # the request is still in flight
        return Told(forward(seen, shm_server))

    with LyingServer(proxy) as between:
        client = connect(between.url, shm=True)
        x = client.empty(4)
        out = x if in_place else client.empty(4)
        x[...] = 0
        client.cumsum(x, 0, out=out)  # the next call uses a kept connection
        x[...] = 1
        with pytest.raises(tally.ConnectionLost) as caught:
            client.cumsum(x, 0, out=out)
        assert caught.value.output_touched
        x[...] = 1
        # the arrays have no regions any more and are copied
        assert client.cumsum(x, 0, out=out).tolist() == [1, 2, 3, 4]
        late = forward(infers[1], shm_server)
        assert b" 404 " in late.split(b"\r\n")[0] and out.tolist() == [1, 2, 3, 4]
        client.close()
    assert regions(shm_server) == []


@pytest.mark.parametrize(
    ("code", "attempts"), [("queue_full", 2), ("device_error", 1)], ids=["refused", "failed"]
)
def test_only_a_refusal_before_the_scan_is_tried_again_in_place(
    connect, shm_server, code, attempts
):
    infers = []

    def proxy(seen):
        infers.extend([seen] if "infer" in seen.head else [])
        if "infer" in seen.head and len(infers) == 1:
            return error(503, body=f'{{"code":"{code}","error":"no"}}')
        return Told(forward(seen, shm_server))

    with LyingServer(proxy) as between:
        client = connect(between.url, shm=True)
        x = client.empty(4)
        x[...] = 1
        if attempts == 1:
            with pytest.raises(tally.Busy, match="fill it again"):
                client.cumsum(x, 0, out=x)
        else:
            assert client.cumsum(x, 0, out=x).tolist() == [1, 2, 3, 4]
        client.close()
    assert len(infers) == attempts
