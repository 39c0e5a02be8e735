"""Arrays in parts: however an array is cut, the bits equal those of one request."""

import asyncio
import sys

import numpy as np
import pytest
import tally
from lying_server import LyingServer, Seen, Told, error, tensor

rng = np.random.default_rng(5)
SHAPES = [(10000,), (40, 250), (3, 5000), (5000, 3), (7, 600, 5), (2, 3, 4, 500)]


def same(left, right):
    return left.dtype == right.dtype and left.tobytes() == right.tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "float64"])
def test_large_arrays_go_in_parts_by_themselves(connect, server, shape, dtype):
    whole, cut = connect(server.url), connect(server.url, part_bytes=4096)
    x = (rng.standard_normal(shape) * 50).astype(dtype)
    for axis in range(len(shape)):
        for options in ({}, {"exclusive": True}, {"reverse": True}):
            assert same(cut.cumsum(x, axis, **options), whole.cumsum(x, axis, **options))
    assert same(cut.cumsum(x), whole.cumsum(x))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_parts_of_any_layout_in_and_out(connect, server, axis):
    cut = connect(server.url, part_bytes=2000)
    x = rng.standard_normal((30, 40, 20)).astype(np.float32)
    expected = connect(server.url).cumsum(x, axis)
    layouts = [
        x,
        np.asfortranarray(x),
        np.ascontiguousarray(x[::-1])[::-1],
        np.pad(x, 1)[1:-1, 1:-1, 1:-1],
    ]
    for given in layouts:
        assert same(cut.cumsum(given, axis), expected)
    for like in layouts:
        out = np.zeros_like(like, subok=False)
        assert same(np.ascontiguousarray(cut.cumsum(x, axis, out=out)), expected)
        both = like.copy(order="K")
        assert cut.cumsum(both, axis, out=both) is both
        assert same(np.ascontiguousarray(both), expected)
    square = x[0, :20].copy()
    there = connect(server.url).cumsum(square, axis % 2)
    cut.cumsum(square, axis % 2, out=square.T)
    assert same(np.ascontiguousarray(square.T), there)


def test_what_is_sent_stays_below_a_part(connect):
    """Here every body has at most part_bytes. Only the smallest possible part, 64 elements of a
    line, may exceed part_bytes."""
    seen = []

    def script(request):
        seen.append(len(request.body))
        return Told(b"HTTP/1.1 500 Sorry\r\nContent-Length: 0\r\n\r\n")

    for shape in ((64, 64), (1 << 12,), (4096, 1), (1, 1, 4096)):
        with LyingServer(script) as server, pytest.raises(tally.ServerError):
            connect(server.url, part_bytes=1024).cumsum(np.ones(shape, np.float32), 0)
    assert seen and max(seen) <= 1024


def test_progress_is_told(connect, server):
    told = []
    x = np.ones((64, 64), np.float32)

    def progress(*numbers):
        told.append(numbers)

    connect(server.url, part_bytes=4096).cumsum(x, 1, progress=progress)
    assert told == [(done, x.nbytes) for done in range(4096, x.nbytes + 1, 4096)]
    told.clear()
    connect(server.url).cumsum(x, 1, progress=progress)
    assert told == [(x.nbytes, x.nbytes)]
    connect(server.url, shm=True).cumsum(x, 1, progress=progress)
    assert told == [(x.nbytes, x.nbytes)] * 2


def test_a_bar_is_shown_where_tqdm_is_installed(connect, server, monkeypatch, capsys):
    x = np.ones((64, 64), np.float32)
    client = connect(server.url, part_bytes=4096)
    assert client.cumsum(x, 1, progress=True)[0, -1] == 64
    assert "100%" in (shown := capsys.readouterr().err) and "16.4k/16.4k" in shown
    monkeypatch.setitem(sys.modules, "tqdm", None)  # simulates a missing tqdm
    assert client.cumsum(x, 1, progress=True)[0, -1] == 64
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", [(256, 512, 3, 1), (1, 2, 0, 300, 469), (772,)])
def test_streams(connect, server, sizes, reverse):
    client = connect(server.url)
    x = rng.standard_normal((6, sum(sizes))).astype(np.float32)
    expected = client.cumsum(x, 1, reverse=reverse)
    sums = np.zeros_like(x)
    parts = client.parts(1, reverse=reverse)
    assert parts.carry == b""
    at = 0
    for size in sizes:
        window = slice(x.shape[1] - at - size, x.shape[1] - at) if reverse else slice(at, at + size)
        parts.cumsum(x[:, window], out=sums[:, window])
        at += size
        # the saved carry is sufficient to continue
        parts = client.parts(1, reverse=reverse, carry=parts.carry)
    assert same(sums, expected)


def test_a_part_that_was_refused_may_be_sent_again(connect, server):
    client = connect(server.url)
    parts = client.parts(0)
    assert parts.cumsum(np.ones(300)).tolist()[-1] == 300
    carry = parts.carry
    with pytest.raises(tally.Rejected, match="carry") as caught:
        parts.cumsum(np.ones((300, 2)))
    assert caught.value.status == 400 and parts.carry == carry
    assert parts.cumsum(np.ones(5)).tolist() == [301, 302, 303, 304, 305]


def test_a_part_waits_for_the_carry_of_the_one_before():
    """If two parts were in flight, both would begin with the same carry."""
    under_way, said = [], []

    def give_another(seen):
        if not under_way:
            under_way.append(seen)
            try:
                parts.cumsum(np.ones(2))
            except tally.TallyError as told:
                said.append(type(told))
            under_way.clear()
        return error(413)

    with LyingServer(give_another) as server:
        parts = tally.Client(server.url).parts(0)
        for _ in range(2):
            with pytest.raises(tally.Rejected):
                parts.cumsum(np.ones(2))
    assert said == [tally.InvalidArgument] * 2


def test_tasks_do_not_share_a_carry(server):
    async def give_two():
        async with tally.AsyncClient(server.url) as client:
            parts = client.parts(0)
            both = [parts.cumsum(np.ones(2)) for _ in range(2)]
            first, second = await asyncio.gather(*both, return_exceptions=True)
            assert first.tolist() == [1, 2] and isinstance(second, tally.InvalidArgument)
            assert (await parts.cumsum(np.ones(2))).tolist() == [3, 4]

    asyncio.run(give_two())


def test_a_failure_ends_all_parts(connect):
    def script(seen: Seen):
        if seen.number < 3:
            return tensor("float32", "1,256", bytes(1024))
        return error(413)

    with LyingServer(script) as server:
        out = np.ones((100, 256), np.float32)
        with pytest.raises(tally.Rejected) as caught:
            connect(server.url, part_bytes=1024).cumsum(out, 1, out=out)
        assert caught.value.output_touched
        assert server.requests < 3 + 2 * 4


CARRY = b"c" * 64
HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nTally-Dtype: float32\r\n"
HEAD += "Tally-Shape: 4\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        "Content-Length: 16\r\n\r\n",  # no carry
        "Tally-Carry-Length: 0\r\nContent-Length: 16\r\n\r\n",
        "Tally-Carry-Length: 64\r\nContent-Length: 79\r\n\r\n",
        "Tally-Carry-Length: 64\r\nContent-Length: 16\r\n\r\n",
        "Tally-Carry-Length: 99999999999\r\nContent-Length: 100000000015\r\n\r\n",
        "Tally-Carry-Length: -1\r\nContent-Length: 15\r\n\r\n",
        "Tally-Carry-Length: 64\r\nTally-Carry-Length: 65\r\nContent-Length: 80\r\n\r\n",
        "Tally-Carry-Length: 64\r\n\r\n",  # fewer bytes than announced
        "Tally-Carry-Length: 68\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n",
    ],
)
def test_a_carry_that_cannot_be_is_refused(connect, answer):
    with LyingServer(lambda seen: Told((HEAD + answer).encode() + CARRY, close=True)) as server:
        parts = connect(server.url, retries=0).parts(0)
        with pytest.raises((tally.BadAnswer, tally.ConnectionLost)):
            parts.cumsum(np.ones(4, np.float32))
        assert parts.carry == b""


@pytest.mark.parametrize(
    ("dtype", "most"), [("int64", 72), ("float16", 88), ("float32", 120), ("float64", 344)]
)
def test_a_carry_is_no_longer_than_the_widest_sums_of_its_lines(connect, dtype, most):
    """The client allocates as many bytes as the answer announces."""
    for announced in (most, most + 1):

        def script(seen, announced=announced):
            x = np.ones(4, dtype)
            head = HEAD.replace("float32", dtype) + f"Tally-Carry-Length: {announced}\r\n"
            head += f"Content-Length: {announced + x.nbytes}\r\n\r\n"
            return Told(head.encode() + bytes(announced) + x.tobytes())

        with LyingServer(script) as server:
            parts = connect(server.url, retries=0).parts(0)
            if announced == most:
                assert parts.cumsum(np.ones(4, dtype)).tolist() == [1, 1, 1, 1]
                continue
            with pytest.raises(
                tally.BadAnswer, match=f"{announced} bytes, expected at most {most}$"
            ):
                parts.cumsum(np.ones(4, dtype))


@pytest.mark.parametrize("carry", ["abc", None, 5, [1, 2], np.zeros(64, np.uint8)])
def test_a_carry_that_is_no_bytes_is_refused(connect, carry):
    with pytest.raises(tally.InvalidArgument, match="expected bytes") as caught:
        connect("http://127.0.0.1:1").parts(0, carry=carry)
    assert caught.value.field == "carry"


@pytest.mark.parametrize("kind", [bytearray, memoryview, tally.Carry])
def test_a_carry_in_whatever_form_goes_on(connect, server, kind):
    client = connect(server.url)
    parts = client.parts(0)
    parts.cumsum(np.arange(3))
    again = client.parts(0, carry=kind(parts.carry))
    assert again.cumsum(np.arange(3)).tolist() == [3, 4, 6]


def test_totals_of_the_parts_before_are_the_carry_of_a_part(connect, server):
    client = connect(server.url)
    x = rng.standard_normal((6, 1000)).astype(np.float32)
    edges = [0, 1, 333, 700, 1000]
    for flags in ({}, {"exclusive": True}, {"reverse": True}):
        whole = client.cumsum(x, 1, **flags)
        windows = [slice(*both) for both in zip(edges, edges[1:])]
        windows = windows[::-1] if flags.get("reverse") else windows
        totals = [client.totals(x[:, window], 1, **flags) for window in windows]
        for number, window in enumerate(windows[1:], 1):
            before = sum(totals[1:number], totals[0])
            parts = client.parts(1, carry=before, **flags)
            assert same(parts.cumsum(x[:, window]), np.ascontiguousarray(whole[:, window]))
            assert parts.carry == bytes(before + totals[number])
        assert sum(totals[1:], totals[0]) == client.totals(x, 1, **flags)


def test_a_carry_that_was_not_asked_for_is_refused(connect):
    answer = "Tally-Carry-Length: 64\r\nContent-Length: 80\r\n\r\n"
    told = Told((HEAD + answer).encode() + CARRY + bytes(16), close=True)
    with LyingServer(lambda seen: told) as server:
        with pytest.raises(tally.BadAnswer, match="carry"):
            connect(server.url).cumsum(np.ones(4, np.float32), 0)


@pytest.mark.parametrize("count", [0, 4])
def test_a_carry_cut_at_any_byte_is_asked_for_again(connect, count):
    result = tensor().data[-16:][: 4 * count]
    head = HEAD.replace("Shape: 4", f"Shape: {count}")
    head += f"Tally-Carry-Length: 64\r\nContent-Length: {64 + len(result)}\r\n\r\n"
    whole = head.encode() + CARRY + result
    first = len(head)
    for cut in range(first, len(whole), 7):

        def script(seen, cut=cut):
            return Told(whole, cut=None if seen.number else cut)

        with LyingServer(script) as server:
            parts = connect(server.url).parts(0)
            x = np.ones(count, np.float32)
            assert parts.cumsum(x).tolist() == [1, 3, 6, 10][:count]
            assert parts.carry == CARRY and server.requests == 2
