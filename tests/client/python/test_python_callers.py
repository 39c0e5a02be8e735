"""Many callers of one client: threads, tasks, processes, and callers that cancel."""

import asyncio
import gc
import multiprocessing
import os
import pickle
import signal
import socket
import threading
import time

import lying_server
import numpy as np
import pytest
import tally
from lying_server import LyingServer, Told, tensor

CALLERS, CALLS = 64, 10


def array_of(caller, call):
    """An array with a size and content of its own, so that no other answer can be mistaken for its
    sums."""
    return np.full(10 + caller, caller * CALLS + call, np.int64)


def is_right(sums, x):
    return (sums == np.cumsum(x)).all()


@pytest.mark.parametrize("shm", [False, True], ids=["wire", "shm"])
def test_64_threads_share_a_client(server, shm):
    wrong = []
    with tally.Client(server.url, shm=shm) as client:

        def call(caller):
            for number in range(CALLS):
                x = array_of(caller, number)
                if not is_right(client.cumsum(x), x):
                    wrong.append(x)

        threads = [threading.Thread(target=call, args=(caller,)) for caller in range(CALLERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


@pytest.mark.parametrize("shm", [False, True], ids=["wire", "shm"])
def test_64_tasks_share_a_client(server, shm):
    async def call(client, caller):
        for number in range(CALLS):
            x = array_of(caller, number)
            assert is_right(await client.cumsum(x), x)

    async def main():
        async with tally.AsyncClient(server.url, shm=shm) as client:
            await asyncio.gather(*(call(client, caller) for caller in range(CALLERS)))

    asyncio.run(main())


def test_large_and_small_tasks_side_by_side(server):
    async def main():
        async with tally.AsyncClient(server.url) as client:
            large = np.ones((8, 1 << 20), np.float32)
            x = array_of(1, 1)
            sums = await asyncio.gather(
                *(client.cumsum(large, 0) for _ in range(3)), *(client.cumsum(x) for _ in range(50))
            )
        assert all((big[-1] == 8).all() for big in sums[:3])
        assert all(is_right(small, x) for small in sums[3:])

    asyncio.run(main())


def test_an_asyncio_client_outlives_its_loop(server):
    client = tally.AsyncClient(server.url)
    x = array_of(0, 1)
    for _ in range(2):
        assert is_right(asyncio.run(client.cumsum(x)), x)


def test_small_requests_are_not_held_back_to_be_sent_together(server):
    async def main():
        async with tally.AsyncClient(server.url) as client:
            await client.cumsum([1, 2])
            (wire,) = client._wires
            kept = wire.transport.get_extra_info("socket")
            assert kept.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    asyncio.run(main())


def test_a_task_that_is_cancelled_closes_its_connection(connect):
    """The late answer is stored nowhere, and the next call uses a new connection."""
    answers = threading.Event()

    def script(seen):
        if seen.number == 0:
            answers.wait(60)
        return tensor()

    async def main(url):
        async with tally.AsyncClient(url) as client:
            x = np.array(lying_server.INPUT, np.float32)
            task = asyncio.ensure_future(client.cumsum(x, 0, out=x))
            while server.requests == 0:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            answers.set()
            assert (await client.cumsum(x, 0)).tolist() == lying_server.SUMS
            assert x.tolist() == lying_server.INPUT
            assert server.connections == 2

    with LyingServer(script) as server:
        asyncio.run(main(server.url))


def test_a_cancelled_task_in_shared_memory_leaves_its_output_alone_afterwards(server):
    async def main():
        async with tally.AsyncClient(server.url, shm=True) as client:
            x = np.ones(1 << 20, np.float32)
            out = np.zeros_like(x)
            task = asyncio.ensure_future(client.cumsum(x, 0, out=out))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            then = out.copy()
            assert (await client.cumsum(x, 0))[-1] == 1 << 20
            assert (out == then).all()

    asyncio.run(main())


@pytest.mark.parametrize("fails", [False, True])
def test_a_task_that_is_cancelled_again_waits_for_the_server_all_the_same(server, fails):
    begun, goes_on = threading.Event(), threading.Event()
    complaints = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(said))
        async with tally.AsyncClient(server.url, shm=True) as client:
            sum_there = client._regions.cumsum

            def slow(scan):
                begun.set()
                goes_on.wait()
                sum_there(scan)
                if fails:
                    raise tally.Busy("later")

            client._regions.cumsum = slow
            out = np.zeros(4)
            task = asyncio.ensure_future(client.cumsum(np.ones(4), 0, out=out))
            await asyncio.to_thread(begun.wait)
            for _ in range(3):
                task.cancel()
                for _ in range(3):
                    await asyncio.sleep(0)
            ended_before = task.done()
            goes_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not ended_before and out.tolist() == [1, 2, 3, 4]

    asyncio.run(main())
    gc.collect()
    assert complaints == []


def test_a_forked_child_makes_connections_of_its_own(server):
    with tally.Client(server.url, shm=True) as shared, tally.Client(server.url) as client:
        x = array_of(3, 3)
        assert is_right(client.cumsum(x), x) and is_right(shared.cumsum(x), x)
        child = os.fork()
        if child == 0:
            right = False
            try:
                right = all(is_right(c.cumsum(x * 2), x * 2) for c in (client, shared))
            finally:
                os._exit(0 if right else 1)
        for _ in range(50):
            assert is_right(client.cumsum(x), x) and is_right(shared.cumsum(x), x)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_child_forked_while_another_thread_begins_a_call_can_call(server):
    with tally.Client(server.url) as client:
        with client._caller.budget.lock:  # as if another thread held the lock during fork()
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                right = False
                try:
                    right = client.cumsum([1, 2]).tolist() == [1, 3]
                finally:
                    os._exit(0 if right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def sum_in_a_new_process(client):
    x = np.array(lying_server.INPUT, np.float32)
    process = multiprocessing.get_context("spawn").Process(target=client.cumsum, args=(x, 0))
    process.start()
    process.join()
    return process.exitcode


def test_a_client_goes_to_a_process_that_is_spawned_with_its_token():
    with LyingServer(lambda seen: tensor()) as server:
        with tally.Client(server.url, token="secret") as client:
            client.cumsum(np.array(lying_server.INPUT, np.float32), 0)
            assert sum_in_a_new_process(client) == 0
        assert server.requests == server.connections == 2
        assert "Authorization: Bearer secret" in server.heads[1]


def test_a_copy_of_a_client_has_its_settings_and_connections_of_its_own(monkeypatch):
    with LyingServer(lambda seen: tensor()) as server:
        client = tally.Client(server.url, timeout=7, retries=1, part_bytes=99, user_agent="me")
        x = np.array(lying_server.INPUT, np.float32)
        client.cumsum(x, 0)
        monkeypatch.setenv("TALLY_URL", "http://other.example")
        with client, pickle.loads(pickle.dumps(client)) as copy:
            assert repr(copy) == repr(client)
            assert (copy._caller.timeout, copy._caller.retries, copy._part_bytes) == (7, 1, 99)
            assert copy.cumsum(x, 0).tolist() == client.cumsum(x, 0).tolist() == lying_server.SUMS
            assert server.connections == 2 and "User-Agent: me\r\n" in server.heads[1]
    kept = tally.Client().parts(axis=1, reverse=True, carry=b"abc")
    again = pickle.loads(pickle.dumps(kept))
    assert (again.axis, again.carry, again._attributes) == (1, b"abc", kept._attributes)
    other = pickle.loads(pickle.dumps(tally.AsyncClient("http://h:1", idle_connections=3)))
    assert repr(other) == "AsyncClient('http://h:1')" and other._wires_kept == 3


def test_a_token_is_not_pickled_where_it_may_be_kept():
    for client in (tally.Client(token="secret"), tally.AsyncClient(token="secret")):
        with pytest.raises(TypeError, match="where it is used") as caught:
            pickle.dumps(client)
        assert "secret" not in str(caught.value)


def test_an_interrupted_call_leaves_no_half_read_connection(monkeypatch):
    """After KeyboardInterrupt in the middle of an answer, the connection is not used again."""
    hang = [True]

    def script(seen):
        return tensor(cut=170, hang=True) if hang[0] else tensor()

    def interrupt(call, count):
        raise KeyboardInterrupt

    x = np.array(lying_server.INPUT, np.float32)
    with LyingServer(script) as server, tally.Client(server.url) as client:
        with monkeypatch.context() as patch:
            patch.setattr("tally.call.Call.store", interrupt)
            with pytest.raises(KeyboardInterrupt):
                client.cumsum(x, 0)
        hang[0] = False
        assert client.cumsum(x, 0).tolist() == lying_server.SUMS
        assert server.connections == 2


def interrupt_when(condition, heard):
    """Send Ctrl-C to the main thread once `condition` is true, and repeat until `heard` is set: a
    signal that arrives just before a thread begins to wait does not wake it."""

    def wait():
        while not condition():
            time.sleep(0.001)
        while not heard.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            heard.wait(0.1)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.fixture
def heard():
    """An event that the first SIGINT sets; only that SIGINT raises KeyboardInterrupt. Also works if
    a shell started this process in the background with SIGINT ignored."""
    event = threading.Event()

    def interrupt(number, frame):
        if not event.is_set():
            event.set()
            signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, interrupt)
    yield event
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_a_large_sum_whose_server_hangs(heard):
    """Other threads send its parts, and no signal reaches those threads."""
    hang = [True]

    def script(seen):
        return Told(b"", hang=True) if hang[0] else tensor()

    with LyingServer(script) as server, tally.Client(server.url, part_bytes=64) as client:
        thread = interrupt_when(lambda: server.requests == 4, heard)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            client.cumsum(np.zeros((400, 4), np.float32), 1)
        thread.join()
        assert time.monotonic() - began < 60  # the timeout of a call is ten minutes
        assert server.requests == 4
        hang[0] = False
        x = np.array(lying_server.INPUT, np.float32)
        assert client.cumsum(x, 0).tolist() == lying_server.SUMS


def test_no_more_idle_connections_are_kept_than_asked_for(connect):
    """Each thread of the server ends when the client closes its connection."""
    with LyingServer(lambda seen: Told(tensor().data)) as server:
        with tally.Client(server.url, idle_connections=2) as client:
            barrier = threading.Barrier(8)

            def call():
                barrier.wait()
                client.cumsum(np.array(lying_server.INPUT, np.float32), 0)

            threads = [threading.Thread(target=call) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(client._pool.idle) <= 2


def test_no_more_idle_connections_of_an_async_client_are_kept():
    async def calls(url):
        async with tally.AsyncClient(url, idle_connections=2) as client:
            x = np.array(lying_server.INPUT, np.float32)
            await asyncio.gather(*(client.cumsum(x, 0) for _ in range(8)))
            return len(client._wires)

    with LyingServer(lambda seen: Told(tensor().data)) as server:
        assert 1 <= asyncio.run(calls(server.url)) <= 2


def test_a_signal_handler_may_call_wherever_the_signal_comes(server):
    """A signal may interrupt a thread that holds the lock of a counter: the lock can be acquired
    again by its own thread."""
    client = tally.Client(server.url)
    sums = []

    def interrupted():
        with client._caller.budget._own_lock():
            sums.append(client.cumsum([1, 2]).tolist())

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(20)
    assert sums == [[1, 3]]
    client.close()
