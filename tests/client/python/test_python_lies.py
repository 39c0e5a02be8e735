"""Both clients against a server that misbehaves: every call ends, either with the verified result
or with an error. The cases are those of tests/client/test_transport.c."""

import re
import time

import lying_server
import numpy as np
import pytest
import tally
from lying_server import INPUT, SUMS, LyingServer, Told, error, tensor

HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
TENSOR = "Tally-Dtype: float32\r\nTally-Shape: 4\r\n"
BODY = "abcdefghijklmnop"
WHOLE = tensor().data
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\nA: b\r\n\r\n"
HEAD_BYTES = WHOLE.index(b"\r\n\r\n") + 4


def array():
    return np.array(INPUT, np.float32)


def text(string, **how):
    return lambda seen: Told(string.encode("latin-1"), close=True, **how)


def test_sums_arrive_and_connections_are_kept(connect):
    with LyingServer(lambda seen: tensor()) as server:
        client = connect(server.url, retries=0)
        for _ in range(10):
            assert client.cumsum(array(), 0).tolist() == SUMS
        assert server.connections == 1


def test_a_connection_that_the_server_will_close_is_not_kept(connect):
    """The server announced that it will close, but never does."""
    told = WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with LyingServer(lambda seen: Told(told)) as server:
        client = connect(server.url, retries=0)
        for _ in range(3):
            assert client.cumsum(array(), 0).tolist() == SUMS
        assert server.connections == 3


def test_unix_sockets_work_in_all_spellings(connect, tmp_path):
    path = tmp_path / "t.sock"
    encoded = str(path).replace("/", "%2F")
    with LyingServer(lambda seen: tensor(), path=path) as server:
        for url in (f"unix:{path}", f"unix://{path}", f"http+unix://{encoded}/prefix/"):
            assert connect(url).cumsum(array(), 0).tolist() == SUMS
        assert server.heads[-1].startswith("POST /prefix/v1/cumsum?")


def test_interim_answers_without_end_are_cut_off(connect):
    flood = b"HTTP/1.1 102 Processing\r\n\r\n" * (1 << 12)
    with LyingServer(lambda seen: Told(flood, hang=True)) as server:
        with pytest.raises(tally.BadAnswer, match="head is longer than 65536 bytes"):
            connect(server.url, timeout=20).cumsum(array(), 0)
    few = Told(b"HTTP/1.1 102 Processing\r\nX: y\r\n\r\n" * 20 + WHOLE)
    with LyingServer(lambda seen: few) as server:
        assert connect(server.url).cumsum(array(), 0).tolist() == SUMS


@pytest.mark.parametrize("reset", [False, True])
def test_an_answer_cut_at_any_byte_is_an_error(connect, reset):
    cut = [0]
    with LyingServer(lambda seen: tensor(cut=cut[0], reset=reset)) as server:
        client = connect(server.url, retries=0)
        for cut[0] in range(len(WHOLE)):
            out = np.full(4, -1, np.float32)
            with pytest.raises((tally.ConnectionLost, tally.BadAnswer)) as caught:
                client.cumsum(array(), 0, out=out)
            assert str(caught.value) and caught.value.attempts == 1
            if cut[0] <= HEAD_BYTES:
                assert not caught.value.output_touched and (out == -1).all()


@pytest.mark.parametrize("cut", [0, 17, 40, 100, HEAD_BYTES, HEAD_BYTES + 1, len(WHOLE) - 1])
def test_a_cut_answer_is_asked_for_again(connect, cut):
    def script(seen):
        return tensor(cut=cut if seen.number == 0 else None)

    with LyingServer(script) as server:
        assert connect(server.url).cumsum(array(), 0).tolist() == SUMS
        assert server.requests == 2


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("extra", [0, 4, 8])
def test_in_place_is_not_repeated_once_overwritten(connect, extra, reset):
    def script(seen):
        first = seen.number == 0
        return tensor(cut=HEAD_BYTES + extra if first else None, reset=reset and first)

    with LyingServer(script) as server:
        x = array()
        if extra == 0:
            assert connect(server.url).cumsum(x, 0, out=x) is x and x.tolist() == SUMS
        else:
            with pytest.raises(tally.ConnectionLost, match="overwrite") as caught:
                connect(server.url).cumsum(x, 0, out=x)
            assert caught.value.output_touched and caught.value.attempts == 1
            assert server.requests == 1


LIES = [
    # Content-Length: too small, too large, absent with a short or long body, negative, not a
    # number, two values
    HEAD + TENSOR + "Content-Length: 12\r\n\r\nabcdefghijkl",
    HEAD + TENSOR + "Content-Length: 17\r\n\r\n" + BODY + "q",
    HEAD + TENSOR + "\r\nabcdefghijklmno",
    HEAD + TENSOR + "\r\n" + BODY + "q",
    HEAD + TENSOR + "Content-Length: -5\r\n\r\n" + BODY,
    HEAD + TENSOR + "Content-Length: 99999999999999999999999\r\n\r\n" + BODY,
    HEAD + TENSOR + "Content-Length: 1_6\r\n\r\n" + BODY,
    HEAD + TENSOR + "Content-Length: 16\r\nContent-Length: 17\r\n\r\n" + BODY,
    HEAD + TENSOR + "Transfer-Encoding: chunked\r\n\r\n8\r\nabcdefgh\r\n0\r\n\r\n",
    HEAD
    + TENSOR
    + "Transfer-Encoding: chunked\r\n\r\n8\r\nabcdefghX\r\n8\r\nijklmnop\r\n0\r\n\r\n",
    HEAD + TENSOR + "Transfer-Encoding: chunked\r\n\r\n20\r\n" + BODY + BODY + "\r\n0\r\n\r\n",
    HEAD + TENSOR + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + BODY + "\r\n0\r\n\r\n",
    HEAD + TENSOR + "Transfer-Encoding: chunked\r\n\r\n-10\r\n" + BODY + "\r\n0\r\n\r\n",
    HEAD + TENSOR + "Transfer-Encoding: gzip, chunked\r\nContent-Length: 16\r\n\r\n" + BODY,
    HEAD
    + TENSOR
    + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n10\r\n"
    + BODY
    + "\r\n0\r\n\r\n",
    # a tensor of another type, shape or length
    HEAD + "Tally-Dtype: int32\r\nTally-Shape: 4\r\nContent-Length: 16\r\n\r\n" + BODY,
    HEAD + "Tally-Dtype: float32\r\nTally-Shape: 2,2\r\nContent-Length: 16\r\n\r\n" + BODY,
    HEAD + "Tally-Dtype: float32\r\nContent-Length: 16\r\n\r\n" + BODY,
    HEAD + TENSOR + "Tally-Shape: 5\r\nContent-Length: 16\r\n\r\n" + BODY,
    # another Content-Type
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + TENSOR + "Content-Length: 16\r\n\r\n" + BODY,
    "HTTP/1.1 200 OK\r\n" + TENSOR + "Content-Length: 16\r\n\r\n" + BODY,
    HEAD + TENSOR + "Content-Encoding: gzip\r\nContent-Length: 16\r\n\r\n" + BODY,
    # another status
    "HTTP/1.1 201 Created\r\nContent-Type: application/octet-stream\r\n"
    + TENSOR
    + "Content-Length: 16\r\n\r\n"
    + BODY,
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    # not HTTP
    "",
    "\r\n\r\n",
    "SSH-2.0-OpenSSH_9.2\r\n",
    "HTTP/9.9 200 OK\r\n\r\n",
    "HTTP/1.1 xyz\r\n\r\n",
    "\x16\x03\x01\x02garbage\xff\xfe",
    "HTTP/1.1 200",
    HEAD + "no colon here\r\n" + TENSOR + "Content-Length: 16\r\n\r\n" + BODY,
    HEAD + TENSOR + " folded: 1\r\nContent-Length: 16\r\n\r\n" + BODY,
    BODY + BODY + BODY,
]


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_refused(connect, lie):
    with LyingServer(text(lie)) as server:
        with pytest.raises(tally.TallyError) as caught:
            connect(server.url, retries=0).cumsum(array(), 0)
        assert str(caught.value)
        assert isinstance(caught.value, (tally.BadAnswer, tally.ConnectionLost))


def test_heads_without_end_are_cut_off(connect):
    endless = "HTTP/1.1 200 OK\r\n" + "X-Filler: 0000000000000000000000000000000\r\n" * 3000
    with LyingServer(text(endless)) as server:
        with pytest.raises(tally.BadAnswer, match="head"):
            connect(server.url, retries=0).cumsum(array(), 0)


CHUNKS = "Transfer-Encoding: chunked\r\n\r\n8\r\nabcdefgh\r\n8;x=y\r\nijklmnop\r\n0\r\n\r\n"
TRUTHS = [
    HEAD + TENSOR + CHUNKS,
    HEAD + TENSOR + "\r\n" + BODY,
    "HTTP/1.1 103 Early Hints\r\nTally-Shape: 9\r\n\r\n"
    + HEAD
    + TENSOR
    + "Content-Length: 16\r\n\r\n"
    + BODY,
    "HTTP/1.1 200 OK\r\ncontent-type: Application/Octet-Stream; x=y\r\ntally-dtype:float32\r\n"
    "TALLY-SHAPE:\t4 \r\nContent-Length: 16\r\n\r\n" + BODY,
    HEAD + TENSOR + "Tally-Shape: 4\r\nContent-Length: 16\r\n\r\n" + BODY,
]


@pytest.mark.parametrize("truth", TRUTHS)
def test_lengths_may_be_chunked_or_left_out(connect, truth):
    with LyingServer(text(truth)) as server:
        assert connect(server.url, retries=0).cumsum(array(), 0).tobytes() == BODY.encode()


@pytest.mark.parametrize("line", [b"X-Filler: 0\r\n", b"0"], ids=["lines", "a line"])
def test_trailers_without_end_are_cut_off(connect, line):
    start = (HEAD + TENSOR + CHUNKS).encode()[:-2]
    with LyingServer(lambda seen: Told(start + line * (1 << 17), hang=True)) as server:
        with pytest.raises(tally.BadAnswer, match="trailer"):
            connect(server.url, timeout=20).cumsum(array(), 0)


def test_a_chunk_whose_size_does_not_end_is_cut_off(connect):
    start = (HEAD + TENSOR + "Transfer-Encoding: chunked\r\n\r\n8;").encode()
    with LyingServer(lambda seen: Told(start + b"x" * (1 << 17), hang=True)) as server:
        with pytest.raises(tally.BadAnswer, match="chunk size"):
            connect(server.url, timeout=20).cumsum(array(), 0)
        assert server.requests == 1


@pytest.mark.parametrize("size", ["-1", "+8", "0x8", "1_0"])
def test_a_chunk_of_a_size_that_is_none_is_not_waited_for(connect, size):
    """A client that accepted a size of -1 would read without end."""
    chunk = f"Transfer-Encoding: chunked\r\n\r\n{size}\r\n"
    told = (HEAD + TENSOR + chunk, HEAD.replace("octet-stream", "json") + chunk)
    for head, ask in zip(told, ("cumsum", "devices")):
        with LyingServer(lambda seen: Told(head.encode(), hang=True)) as server:
            method = getattr(connect(server.url, timeout=20), ask)
            with pytest.raises(tally.BadAnswer, match="a chunk has no size"):
                method(array(), 0) if ask == "cumsum" else method()
    refusal = ("HTTP/1.1 413 Too Large\r\n" + chunk).encode()
    with LyingServer(lambda seen: Told(refusal, hang=True)) as server:
        began = time.monotonic()
        with pytest.raises(tally.Rejected, match="HTTP 413"):
            connect(server.url, timeout=20).cumsum(array(), 0)
        assert time.monotonic() - began < 20


@pytest.mark.parametrize("cut", ["8\r\nabcd", "8", "8\r\nabcdefgh\r\n0\r\n"])
def test_a_chunked_answer_that_stops_is_waited_for_until_the_timeout(connect, cut):
    start = (HEAD + TENSOR + "Transfer-Encoding: chunked\r\n\r\n" + cut).encode()
    with LyingServer(lambda seen: Told(start, hang=True)) as server:
        with pytest.raises(tally.CallTimeout, match="0.3 s"):
            connect(server.url, timeout=0.3).cumsum(array(), 0)
        assert server.requests == 1


def test_many_chunks_cost_no_more_than_their_bytes(connect):
    """A proxy may send such chunks. If each chunk caused a copy of all earlier bytes, half a
    tebibyte would be copied."""
    size, chunk = 32 << 20, 1 << 10
    head = HEAD + f"Tally-Dtype: uint8\r\nTally-Shape: {size}\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = (f"{chunk:x}\r\n".encode() + bytes(chunk) + b"\r\n") * (size // chunk)
    with LyingServer(lambda seen: Told(head.encode() + chunks + b"0\r\n\r\n")) as server:
        assert (
            not connect(server.url, retries=0, timeout=20)
            .cumsum(np.ones(size, bool), dtype="uint8")
            .any()
        )


def test_a_chunked_answer_leaves_its_connection_usable(connect):
    with LyingServer(lambda seen: Told((HEAD + TENSOR + CHUNKS).encode())) as server:
        client = connect(server.url, retries=0)
        for _ in range(3):
            assert client.cumsum(array(), 0).tobytes() == BODY.encode()
        assert server.connections == 1


def test_what_follows_an_answer_is_not_taken_for_the_next(connect):
    """The server sends more bytes than it announced: the connection is not used again."""
    with LyingServer(lambda seen: Told(tensor().data + tensor().data[:-1] + b"\xff")) as server:
        client = connect(server.url, retries=0)
        for _ in range(3):
            assert client.cumsum(array(), 0).tolist() == SUMS


@pytest.mark.parametrize("close", [False, True])
def test_an_answer_before_the_request_is_refused(connect, close):
    """64 MiB exceed the socket buffers, so the client cannot have sent the whole request."""
    x = np.ones(1 << 24, np.float32)
    answer = tensor(shape=str(x.size), body=bytes(x.nbytes), cut=1 << 20, hang=not close)
    with LyingServer(lambda seen: answer, early=0) as server:
        with pytest.raises((tally.BadAnswer, tally.ConnectionLost)) as caught:
            connect(server.url, retries=0, timeout=60).cumsum(x, 0, out=x)
        assert not caught.value.output_touched and (x == 1).all()


@pytest.mark.parametrize("interim", [CONTINUE, HINTS, HINTS + CONTINUE, HINTS * 300])
def test_an_interim_answer_while_the_request_is_sent_is_none(connect, interim):
    """A proxy may send an interim answer that nobody asked for. It arrives while the client is
    sending, since 16 MiB exceed the socket buffers."""
    x = np.ones(1 << 22, np.float32)
    answer = tensor(shape=str(x.size), body=np.arange(1, x.size + 1, dtype=np.float32).tobytes())
    with LyingServer(lambda seen: answer, interim=interim) as server:
        assert connect(server.url, retries=0, timeout=60).cumsum(x, 0)[-1] == x.size


def test_interim_answers_without_end_while_the_request_is_sent_are_cut_off(connect):
    x = np.ones(1 << 24, np.float32)
    with LyingServer(lambda seen: Told(HINTS * 10000, hang=True), early=0) as server:
        with pytest.raises(tally.BadAnswer, match="head is longer"):
            connect(server.url, retries=0, timeout=60).cumsum(x, 0)


@pytest.mark.parametrize("close", [False, True])
def test_an_early_rejection_is_told(connect, close):
    x = np.ones(1 << 24, np.float32)
    told = '{"error":"too big \\u00e9\\u001b[31m","code":"too_large","field":"body"}'
    answer = error(413, body=told, close=close, hang=not close)
    with LyingServer(lambda seen: answer, early=0) as server:
        with pytest.raises(tally.Rejected, match=r"^too big é\?\[31m$") as caught:
            connect(server.url).cumsum(x, 0)
        assert (caught.value.status, caught.value.code) == (413, "too_large")
        assert (caught.value.field, caught.value.request_id) == ("body", "req-8")


def test_a_slow_answer_is_waited_for_until_the_timeout(connect):
    with LyingServer(lambda seen: tensor(drip=0.0005)) as server:
        assert connect(server.url, retries=0).cumsum(array(), 0).tolist() == SUMS
    with LyingServer(lambda seen: tensor(drip=0.02)) as server:
        began = time.monotonic()
        with pytest.raises(tally.CallTimeout, match="0.3 s"):
            connect(server.url, timeout=0.3).cumsum(array(), 0)
        assert time.monotonic() - began < 5


def test_a_silent_server_ends_in_a_timeout_or_at_the_deadline(connect):
    with LyingServer(lambda seen: Told(b"", hang=True)) as server:
        with pytest.raises(tally.CallTimeout):
            connect(server.url, timeout=0.2).cumsum(array(), 0)
        with pytest.raises(tally.DeadlineExceeded):
            connect(server.url).cumsum(array(), 0, deadline=0.2)
        with pytest.raises(TimeoutError):
            connect(server.url).cumsum(array(), 0, deadline=0.2)
        while server.requests < 3:  # the client may give up before the server counts the request
            time.sleep(0.001)
        left = re.findall(r"\r\nX-Request-Timeout-Ms: (\d+)\r\n", "".join(server.heads))
        assert len(left) == 2 and all(0 < int(ms) <= 200 for ms in left)


def test_the_longest_deadline_that_is_told_is_30_years(connect):
    with LyingServer(lambda seen: tensor()) as server:
        assert connect(server.url).cumsum(array(), 0, deadline=1e300).tolist() == SUMS
        assert "X-Request-Timeout-Ms: 1000000000000\r\n" in server.heads[0]


def test_nobody_listening_is_said_so(connect):
    for url in ("http://127.0.0.1:1", "unix:/nonexistent/tally.sock"):
        with pytest.raises(tally.ConnectFailed, match="TALLY_URL") as caught:
            connect(url).cumsum(array(), 0)
        assert caught.value.attempts == 1 and caught.value.status is None


def test_empty_arrays_travel(connect):
    with LyingServer(lambda seen: tensor(shape="0", body=b"")) as server:
        result = connect(server.url).cumsum(np.zeros(0, np.float32), 0)
        assert result.shape == (0,) and result.dtype == np.float32
        assert "Content-Length: 0\r\n" in server.heads[0]


def test_the_request_says_all_of_the_scan(connect):
    with LyingServer(lambda seen: tensor("float16", "2,3", bytes(12))) as server:
        client = connect(f"{server.url}/prefix/", token="s3cret")
        x = np.zeros((3, 2), np.float16).T
        out = np.empty((3, 2), np.float16).T
        options = {
            "exclusive": True,
            "reverse": True,
            "deadline": 60.5,
        }
        client.cumsum(x, -1, out=out, **options)
    head = server.heads[0]
    assert head.startswith(
        "POST /prefix/v1/cumsum?dtype=float16&shape=2,3&axis=1&exclusive=true&reverse=true"
        "&strides=1,2&output_strides=1,2 HTTP/1.1\r\n"
    )
    assert "Content-Length: 12\r\n" in head and "Expect" not in head
    assert "Content-Type: application/octet-stream\r\n" in head
    assert 1000 < int(re.search(r"\r\nX-Request-Timeout-Ms: (\d+)\r\n", head)[1]) <= 60500
    assert "Authorization: Bearer s3cret\r\n" in head
    assert "s3cret" not in repr(client)


def test_devices_that_are_no_list_are_refused(connect):
    for body in ("", "[]", '{"devices": 3}', "{" * 100000):
        with LyingServer(lambda seen: error(200, body=body)) as server:
            with pytest.raises(tally.BadAnswer, match="Tally server"):
                connect(server.url).devices()


def test_a_page_of_something_else_is_no_health(connect):
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"
    with LyingServer(lambda _: Told(page)) as lying:
        client = connect(lying.url)
        for ask in (client.health, client.devices):
            with pytest.raises(tally.BadAnswer, match="'text/html', expected application/json"):
                ask()


def test_an_error_that_is_nested_deeply_is_a_refusal(connect):
    with LyingServer(lambda _: error(400, body="[" * 60000)) as lying:
        with pytest.raises(tally.Rejected, match="HTTP 400"):
            connect(lying.url).cumsum([1])


@pytest.mark.parametrize("cut", ["", "zz\r\n", "40\r\n{", "2\r\n{}\r\n0\r\nX: y"])
def test_an_error_whose_text_is_cut_is_a_refusal(connect, cut):
    head = "HTTP/1.1 413 Too Large\r\nTransfer-Encoding: chunked\r\n\r\n"
    with LyingServer(text(head + cut)) as server:
        with pytest.raises(tally.Rejected, match="HTTP 413"):
            connect(server.url).cumsum([1])
        assert server.requests == 1


@pytest.mark.parametrize("status", ["101 Switching Protocols", "204 Nothing", "304 The Same"])
def test_no_body_is_waited_for_where_there_is_none(connect, status):
    answer = f"HTTP/1.1 {status}\r\nUpgrade: x\r\nContent-Length: 5\r\n\r\n".encode()
    with LyingServer(lambda seen: Told(answer, hang=True)) as server:
        began = time.monotonic()
        with pytest.raises(tally.BadAnswer, match=f"HTTP {status[:3]} "):
            connect(server.url, timeout=60).cumsum([1])
        assert time.monotonic() - began < 30


def test_a_text_without_end_is_cut_off(connect):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
    with LyingServer(lambda seen: Told(head + b" " * (3 << 20), close=True)) as server:
        with pytest.raises(tally.BadAnswer, match="1 MiB"):
            connect(server.url, retries=0).devices()


@pytest.mark.parametrize("chunked", [False, True])
def test_a_refusal_without_end_is_cut_off(connect, chunked):
    framing = b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"\r\n"
    piece = b"10000\r\n" + b" " * (1 << 16) + b"\r\n" if chunked else b" " * (1 << 16)
    with LyingServer(lambda seen: Told(b"HTTP/1.1 500 X\r\n" + framing + 99 * piece)) as server:
        client = connect(server.url, retries=0)
        for _ in range(2):  # the second answer must not contain a byte of the first
            with pytest.raises(tally.ServerError, match="HTTP 500"):
                client.cumsum([1])
        assert server.connections == 2


def test_the_sums_of_the_script_are_those_of_its_input():
    assert np.cumsum(lying_server.INPUT).tolist() == lying_server.SUMS
