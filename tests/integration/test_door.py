"""The HTTP entry of the service: valid and invalid bytes from well-behaved and misbehaving clients,
over raw sockets."""

import concurrent.futures
import contextlib
import fcntl
import json
import signal
import socket
import struct
import subprocess
import termios
import time

import numpy as np
import pytest

from support import calls
from support.http import post_bytes
from support.tallyd import Tallyd
from support.waiting import until

PATH = "/v1/cumsum?dtype=int32&shape=4"
BODY = np.array([1, 2, 3, 4], np.int32).tobytes()
SUMS = np.array([1, 3, 6, 10], np.int32).tobytes()
RAW = ("Content-Type", calls.RAW)


def good(path=PATH, body=BODY, headers=()):
    return post_bytes(path, body, [RAW, *headers])


def chunked(path, body, sizes, headers=(RAW,)):
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Transfer-Encoding: chunked"]
    lines += [f"{name}: {value}" for name, value in headers]
    out, at = ["\r\n".join(lines).encode() + b"\r\n\r\n"], 0
    while at < len(body):
        size = sizes
        piece = body[at : at + size]
        out.append(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        at += size
    out.append(b"0\r\n\r\n")
    return b"".join(out)


# Ways to send a body ------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 7, 16])
def test_chunked_upload_is_as_good_as_one_with_a_length(server, size):
    with server.wire() as wire:
        assert wire.send(chunked(PATH, BODY, size)).answer().body == SUMS
        assert wire.send(good()).answer().body == SUMS  # the connection is still usable


def test_chunked_upload_of_one_byte_chunks_of_ten_thousand(server):
    body = np.ones(2500, np.int32).tobytes()
    with server.wire() as wire:
        wire.send(chunked("/v1/cumsum?dtype=int32&shape=2500", body, 1))
        answer = wire.answer()
    assert answer.status == 200
    assert np.frombuffer(answer.body, np.int32).tolist() == list(range(1, 2501))


def test_chunked_json_and_npy(server):
    with server.wire() as wire:
        wire.send(chunked("/v1/cumsum", b'{"data":[1,2,3]}', 2, [("Content-Type", calls.JSON)]))
        assert wire.answer().json()["data"] == [1, 3, 6]
        body = calls.npy_bytes(np.array([1, 2, 3], np.int32))
        wire.send(chunked("/v1/cumsum", body, 5, [("Content-Type", calls.NPY)]))
        assert calls.npy_array(wire.answer().body).tolist() == [1, 3, 6]


def test_chunked_upload_of_the_wrong_length_is_refused(server):
    for body in (BODY[:-1], BODY + b"x", b"", BODY * 1000):
        with server.wire() as wire:
            calls.expect_error(wire.send(chunked(PATH, body, 100)).answer(), 400)


def test_a_body_that_comes_byte_by_byte(server):
    with server.wire() as wire:
        for byte in good():
            wire.send(bytes([byte]))
        assert wire.answer().body == SUMS


def test_a_body_cut_anywhere(server):
    request = good()
    for at in range(1, len(request), 5):
        with server.wire() as wire:
            wire.send(request[:at]).await_read()
            assert wire.send(request[at:]).answer().body == SUMS


def test_pipelined_requests_are_answered_in_order(server):
    with server.wire() as wire:
        requests = b""
        for number in range(20):
            body = np.array([number, 1], np.int32).tobytes()
            requests += good("/v1/cumsum?dtype=int32&shape=2", body)
            requests += b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
        wire.send(requests)
        for number in range(20):
            assert np.frombuffer(wire.answer().body, np.int32).tolist() == [number, number + 1]
            assert wire.answer().status == 200


@pytest.mark.parametrize("value", ["chunked", " chunked", "\t chunked", "CHUNKED", "  \tChunked"])
def test_blanks_before_a_coding_are_no_part_of_it(server, value):
    request = chunked(PATH, BODY, 5).replace(b": chunked", b":" + value.encode())
    with server.wire() as wire:
        assert wire.send(request).answer().body == SUMS
        assert wire.send(good()).answer().body == SUMS


@pytest.mark.parametrize("blanks", [" ", "\t", " \t "])
def test_blanks_behind_a_coding_cost_the_connection_at_most(server, blanks):
    """Blanks are not part of the coding's name, but libmicrohttpd 0.9.75 includes them and would
    read the body without end. The only remedy is to refuse such a request and close the
    connection. 1.0 handles them."""
    request = chunked(PATH, BODY, 5).replace(b": chunked", f": chunked{blanks}".encode())
    with server.wire() as wire:
        answer = wire.send(request + SMUGGLED).answer()
        if answer.status == 200:
            assert answer.body == SUMS and wire.answer().status == 404
            return
        calls.expect_error(answer, 501, "unsupported", says=["chunked"])
        assert answer.headers["Connection"] == "close"
        assert wire.closed() and wire.buffer == b""


@pytest.mark.parametrize("body", [b"", bytes(100)])
def test_options_of_the_service_in_general_is_answered_without_a_body(server, body):
    """OPTIONS * asks about the server as a whole, like a ping (RFC 9110, 9.3.7)."""
    head = f"OPTIONS * HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    with server.wire() as wire:
        wire.send(head.encode() + body + good())
        answer = wire.answer()
        assert answer.status == 204 and answer.headers["Allow"] == "GET, HEAD, POST, OPTIONS"
        assert answer.headers["X-Request-Id"] and "Content-Length" not in answer.headers
        assert wire.answer().body == SUMS
        wire.send(b"OPTIONS /v1/cumsum HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wire.answer().status == 405
        wire.send(b"GET * HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wire.answer().status == 404


def test_http_1_0_and_connection_close(server):
    with server.wire() as wire:
        assert wire.send(post_bytes(PATH, BODY, [RAW], version="1.0")).answer().body == SUMS
        assert wire.closed()
    with server.wire() as wire:
        assert wire.send(good(headers=[("Connection", "close")])).answer().body == SUMS
        assert wire.closed()


def test_a_post_without_length_or_body_is_an_empty_body(server):
    with server.wire() as wire:
        wire.send(b"POST /v1/cumsum HTTP/1.1\r\nHost: x\r\n\r\n")
        calls.expect_error(wire.answer(), 400)
    with server.wire() as wire:
        wire.send(
            b"POST /v1/cumsum?dtype=int8&shape=0 HTTP/1.1\r\nHost: x\r\n"
            b"Content-Type: application/octet-stream\r\n\r\n"
        )
        answer = wire.answer()
        assert answer.status == 200 and answer.body == b""


def test_header_names_and_values_in_any_case(server):
    request = (
        b"POST "
        + PATH.encode()
        + b" HTTP/1.1\r\nhOsT: x\r\nCONTENT-TYPE: Application/Octet-STREAM\r\n"
        b"content-length: 16\r\n\r\n" + BODY
    )
    with server.wire() as wire:
        assert wire.send(request).answer().body == SUMS


# Expect: 100-continue -----------------------------------------------------------------------


def test_expect_continue_is_answered_before_the_body(server):
    head, body = good(headers=[("Expect", "100-continue")]).split(b"\r\n\r\n", 1)
    with server.wire() as wire:
        wire.send(head + b"\r\n\r\n")
        assert wire.answer().status == 100
        assert wire.send(body).answer().body == SUMS


@pytest.mark.parametrize(
    "path, status", [("/nowhere", 404), ("/v1/cumsum?dtype=int8&shape=0", 200)]
)
def test_an_expectation_without_a_body_costs_the_requests_behind_it_nothing(server, path, status):
    """The request announces a body of 0 bytes. libmicrohttpd alone would read the following
    requests as its body, and answer none of them."""
    waits = post_bytes(path, b"", [RAW, ("Expect", "100-continue")])
    with server.wire() as wire:
        wire.send(waits + good() + waits + good(headers=[("Expect", "100-continue")]))
        assert wire.answer().status == status
        assert wire.answer().body == SUMS
        assert wire.answer().status == status
        assert wire.answer_after_100().body == SUMS


@pytest.mark.parametrize(
    "path, content_type, length, status",
    [
        ("/nowhere", calls.RAW, 16, 404),
        (PATH, "text/plain", 16, 415),
        (PATH, calls.RAW, 1 << 50, 413),
        ("/livez", calls.RAW, 16, 405),
    ],
)
def test_expect_continue_is_refused_without_the_body(server, path, content_type, length, status):
    with server.wire() as wire:
        wire.send(
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n".encode()
        )
        calls.expect_error(wire.answer(), status)


def test_a_head_request_whose_large_body_is_refused_gets_no_body(server):
    with server.wire() as wire:
        wire.send(
            f"HEAD /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: {1 << 30}\r\n\r\n".encode()
        )
        assert wire.answer(head_request=True).status == 404
        wire.half_close()
        assert wire.closed()
        assert wire.buffer == b""


def test_curl_uploads_with_expect(server, tmp_path):
    values = np.random.default_rng(1).integers(-9, 9, 1 << 20, dtype=np.int32)
    (tmp_path / "in").write_bytes(values.tobytes())
    started = time.monotonic()
    subprocess.run(
        [
            "curl",
            "-sS",
            "--fail",
            "-H",
            "Content-Type: application/octet-stream",
            "-H",
            "Expect: 100-continue",
            "--expect100-timeout",
            "20",
            "--data-binary",
            f"@{tmp_path}/in",
            "-o",
            f"{tmp_path}/out",
            f"http://127.0.0.1:{server.port}/v1/cumsum?dtype=int32&shape={values.size}",
        ],
        check=True,
        timeout=60,
    )
    assert time.monotonic() - started < 15, "curl waited for a 100 that never came"
    assert (tmp_path / "out").read_bytes() == np.cumsum(values, dtype=np.int32).tobytes()


def test_curl_chunked_upload_of_a_pipe(server, tmp_path):
    values = np.arange(300000, dtype=np.int64)
    result = subprocess.run(
        [
            "curl",
            "-sS",
            "--fail",
            "-X",
            "POST",
            "-T",
            "-",
            "-H",
            "Content-Type: application/octet-stream",
            f"http://127.0.0.1:{server.port}/v1/cumsum?dtype=int64&shape={values.size}",
        ],
        input=values.tobytes(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    assert result.stdout == np.cumsum(values).tobytes()


@pytest.mark.parametrize("query", ["", "?axis=1"])
@pytest.mark.parametrize("header", [[], ["-H", "Content-Type: application/x-npy"]], ids=str)
def test_curl_that_strips_an_npy_file_is_told_how_to_send_it(server, tmp_path, header, query):
    """curl -d strips NUL bytes and line ends, and without a Content-Type header labels the file as
    a form."""
    np.save(tmp_path / "in.npy", np.arange(12, dtype=np.float32).reshape(3, 4))
    target = f"http://127.0.0.1:{server.port}/v1/cumsum{query}"
    done = subprocess.run(
        ["curl", "-sS", *header, "-d", f"@{tmp_path}/in.npy", target],
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    refusal = json.loads(done.stdout)
    for words in ("--data-binary", "application/x-npy"):
        assert words in refusal["error"], refusal


@pytest.mark.parametrize("query", ["", "?axis=0"])
@pytest.mark.parametrize("numbers", ["1\n2\n3\n", "1 2 3\n4 5 6\n", "1,2\n3,4\n"], ids=repr)
def test_curl_that_sends_a_text_of_numbers_is_told_which_types_exist(
    server, tmp_path, numbers, query
):
    (tmp_path / "numbers.txt").write_text(numbers)
    target = f"http://127.0.0.1:{server.port}/v1/cumsum{query}"
    done = subprocess.run(
        ["curl", "-sS", "-d", f"@{tmp_path}/numbers.txt", target],
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    refusal = json.loads(done.stdout)
    assert set(refusal) >= {"error", "code"}
    for words in ("--data-binary @FILE", "Content-Type: application/octet-stream", "x-npy"):
        assert words in refusal["error"], refusal


def test_curl_npy_round_trip(server, tmp_path):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "in.npy", array)
    subprocess.run(
        [
            "curl",
            "-sS",
            "--fail",
            "--data-binary",
            f"@{tmp_path}/in.npy",
            "-H",
            "Content-Type: application/x-npy",
            f"http://127.0.0.1:{server.port}/v1/cumsum?axis=1",
            "-o",
            f"{tmp_path}/out.npy",
        ],
        check=True,
        timeout=60,
    )
    assert np.array_equal(np.load(tmp_path / "out.npy"), np.cumsum(array, axis=1))


@pytest.fixture(scope="module")
def impatient_server(log_dir):
    """A server that waits at most a second for heads and bodies."""
    server = Tallyd(
        log_dir / "impatient.log", ["--header-timeout-ms", "1000", "--body-timeout-ms", "1000"]
    )
    yield server
    server.stop()


# Request smuggling and malformed heads ------------------------------------------------------

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
SMUGGLING = {
    "two lengths": b"Content-Length: 16\r\nContent-Length: 4\r\n",
    "two equal lengths": b"Content-Length: 16\r\nContent-Length: 16\r\n",
    "length list": b"Content-Length: 16, 16\r\n",
    "signed length": b"Content-Length: +16\r\n",
    "hex length": b"Content-Length: 0x10\r\n",
    "length with blanks inside": b"Content-Length: 1 6\r\n",
    "negative length": b"Content-Length: -16\r\n",
    "empty length": b"Content-Length: \r\n",
    "huge length": b"Content-Length: 99999999999999999999999\r\n",
    "length and chunked": b"Content-Length: 16\r\nTransfer-Encoding: chunked\r\n",
    "chunked and length": b"Transfer-Encoding: chunked\r\nContent-Length: 16\r\n",
    "two codings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "gzip coding": b"Transfer-Encoding: gzip\r\n",
    "gzip and chunked": b"Transfer-Encoding: gzip, chunked\r\n",
    "identity coding": b"Transfer-Encoding: identity\r\n",
    "chunked twice": b"Transfer-Encoding: chunked, chunked\r\n",
    "xchunked": b"Transfer-Encoding: xchunked\r\n",
    "blank before the colon": b"Content-Length : 16\r\n",
    "folded header": b"X-Folded: a\r\n b: c\r\nContent-Length: 16\r\n",
    "folded length": b"X: a\r\n Content-Length: 16\r\n",
    "folded value of a length": b"Content-Length: 1\r\n 6\r\n",
    "length on the next line": b"Content-Length:\r\n 16\r\n",
    "coding on the next line": b"Transfer-Encoding:\r\n\tchunked\r\n",
    "folded value of another field": b"Content-Length: 16\r\nX: a\r\n b\r\n",
    "a line of blanks": b"X: a\r\n \r\nContent-Length: 16\r\n",
    "field without a name": b": x\r\nContent-Length: 16\r\n",
    "nothing but a colon": b":\r\nContent-Length: 16\r\n",
    "nothing but a colon, last": b"Content-Length: 16\r\n:\r\n",
    "nul in a value": b"X: a\0b\r\nContent-Length: 16\r\n",
    "nul behind a coding": b"Transfer-Encoding: chunked\0x\r\n",
    "nul in a length, last": b"Content-Length: 16\0 7\r\n",
    "nul before a name": b"\0X: 1\r\nContent-Length: 16\r\n",
    "name with a control byte": b"X\x01: 1\r\nContent-Length: 16\r\n",
    "name in brackets": b"(X): 1\r\nContent-Length: 16\r\n",
}


@pytest.mark.parametrize("headers", SMUGGLING.values(), ids=SMUGGLING.keys())
def test_ambiguous_framing_is_refused_and_closes(server, headers):
    """The server sends one refusal and closes the connection; it reads no later byte as a
    request."""
    request = (
        b"POST " + PATH.encode() + b" HTTP/1.1\r\nHost: x\r\n"
        b"Content-Type: application/octet-stream\r\n" + headers + b"\r\n" + BODY + SMUGGLED
    )
    with server.wire() as wire:
        wire.send(request)
        try:
            answer = wire.answer()
            assert answer.status in (400, 411, 413, 501), answer
        except (ConnectionError, ConnectionResetError):
            pass  # closing without an answer is safe as well
        assert wire.closed()
        assert b"smuggled" not in wire.buffer and wire.buffer.count(b"HTTP/1.1 404") == 0


MALFORMED = {
    "no version": b"GET /livez\r\n\r\n",
    "no host": b"GET /livez HTTP/1.1\r\n\r\n",
    "other protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
    "http 2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "version 9": b"GET /livez HTTP/9.9\r\nHost: x\r\n\r\n",
    "blank in the path": b"GET /live z HTTP/1.1\r\nHost: x\r\n\r\n",
    "nothing but line ends": b"\r\n" * 50,
    "nul bytes": bytes(500),
    "lower case": b"get /livez http/1.1\r\nhost: x\r\n\r\n",
    "header without colon": b"GET /livez HTTP/1.1\r\nHost: x\r\nNonsense\r\n\r\n",
}


CHUNKED = b"POST /v1/cumsum HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
LENGTH = b"POST /v1/cumsum HTTP/1.1\r\nHost: x\r\nContent-Length: "
# The bytes sent, and the status, code, field and a word of the answer.
UNREADABLE = {
    "nul in the path": (
        b"GET /livez\0x HTTP/1.1\r\nHost: x\r\n\r\n",
        *(400, "invalid_request", None, "NUL"),
    ),
    "nul in the method": (
        b"GET\0X /livez HTTP/1.1\r\nHost: x\r\n\r\n",
        *(400, "invalid_request", None, "NUL"),
    ),
    "nul in the query": (
        b"GET /livez?\0=1 HTTP/1.1\r\nHost: x\r\n\r\n",
        *(400, "invalid_request", None, "NUL"),
    ),
    "no host": (MALFORMED["no host"], 400, "invalid_request", "Host", "Host"),
    "blank in the path": (MALFORMED["blank in the path"], 400, "invalid_request", None, "%20"),
    "no version": (MALFORMED["no version"], 400, "invalid_request", None, "expected"),
    "lower case": (MALFORMED["lower case"], 400, "invalid_request", None, "expected"),
    "no colon": (MALFORMED["header without colon"], 400, "invalid_request", None, "expected"),
    "http 2": (MALFORMED["http 2 preface"], 505, "http_version", None, "HTTP/1.1"),
    "version 9": (MALFORMED["version 9"], 505, "http_version", None, "HTTP/1.1"),
    "length -1": (
        LENGTH + b"-1\r\n\r\n",
        400,
        "invalid_request",
        "Content-Length",
        "decimal digits",
    ),
    "length x": (LENGTH + b"x\r\n\r\n", 400, "invalid_request", "Content-Length", "decimal digits"),
    "length": (LENGTH + b"9" * 30 + b"\r\n\r\n", 413, "too_large", "Content-Length", "--max-body"),
    "chunk": (CHUNKED + b"zz\r\n", 400, "invalid_request", None, "hexadecimal digits"),
    "sign before a chunk": (CHUNKED + b"+5\r\n", 400, "invalid_request", None, "no blank, sign"),
    "chunk of another size": (
        CHUNKED + b"2\r\n{} \r\n",
        *(400, "invalid_request", None, "as many bytes as that"),
    ),
    "long chunk": (CHUNKED + b"f" * 18 + b"\r\n", 413, "too_large", None, "--max-body-bytes"),
    "header": (
        b"GET /livez HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 70000,
        431,
        "headers_too_large",
        None,
        "--max-header-bytes",
    ),
}


def test_a_request_that_cannot_be_parsed_is_refused_in_json_with_an_id(start_server):
    server = start_server("--http-loops", "1")
    for name, (data, status, code, field, word) in UNREADABLE.items():
        with server.wire() as wire:
            until(wire.is_alone)
            wire.send(data)
            if word == "NUL" and wire.closed() and wire.buffer == b"":
                continue  # libmicrohttpd 1.0 closes without an answer
            answer = wire.answer()
            calls.expect_error(answer, status, code, field, word)
            assert answer.headers["X-Request-Id"], name


@pytest.mark.parametrize("blanks", [b" ", b"  \t", b" ;x=y"])
def test_blanks_after_the_size_of_a_chunk_are_refused_by_name(start_server, blanks):
    """libmicrohttpd 1.0 may accept such a chunk; then the request is answered."""
    server = start_server("--http-loops", "1")
    with server.wire() as wire:
        until(wire.is_alone)
        head = CHUNKED.replace(b"Host: x", b"Host: x\r\nContent-Type: application/json")
        answer = wire.send(head + b"b" + blanks + b'\r\n{"data":[]}\r\n0\r\n\r\n').answer()
        if answer.status != 200:
            document = calls.expect_error(
                answer, 400, "invalid_request", None, ["hexadecimal", "no blank"]
            )
            assert "METHOD" not in document["error"], document


def test_no_client_gets_the_refusal_of_another_connection(start_server):
    server = start_server("--http-loops", "1")
    head = CHUNKED.replace(b"cumsum HTTP", b"cumsum?dtype=int8&shape=4 HTTP").replace(
        b"Host: x", b"Host: x\r\nContent-Type: application/octet-stream"
    )
    with server.wire(source="127.0.0.2") as good, server.wire(source="127.0.0.3") as bad:
        good.send(head + b"2\r\n\1\2\r\n")
        until(lambda: bad.metric("tally_active_requests") == 2)
        until(lambda: bad.metric("tally_connections") == 2)
        answer = bad.send(MALFORMED["version 9"]).answer()
        calls.expect_error(answer, 505, "http_version", None, "HTTP/1.1")
        answer = good.send(b"2\r\n\1\1\r\n0\r\n\r\n").answer()
        assert (answer.status, answer.body) == (200, b"\1\3\4\5")


def test_a_late_malformed_request_is_refused_on_its_own_connection_only(start_server):
    """The well-behaved client has sent half of a request before. The malformed bytes arrive
    while the server is stopped, and the server must know that only the other client sent bytes
    since then."""
    server = start_server("--http-loops", "1")
    with server.wire(source="127.0.0.2") as good, server.wire(source="127.0.0.3") as bad:
        good.send(CHUNKED)
        until(lambda: bad.metric("tally_active_requests") == 2 == bad.metric("tally_connections"))
        server.signal(signal.SIGSTOP)
        bad.send(MALFORMED["version 9"])
        time.sleep(0.2)
        server.signal(signal.SIGCONT)
        assert bad.answer().headers["Content-Type"] == calls.JSON
        answer = good.send(b'e\r\n{"data":[1,2]}\r\n0\r\n\r\n').answer()
        assert answer.status == 200


def test_a_silent_connection_does_not_get_the_refusal_of_a_malformed_request(start_server):
    server = start_server("--http-loops", "1")
    get = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    with server.wire(source="127.0.0.2") as silent:
        assert silent.send(get).answer().status == 200

        # repeated, since `silent` must have been silent for some time before
        def answer_in_json():
            with server.wire(source="127.0.0.3") as bad:
                answer = bad.send(MALFORMED["version 9"]).answer()
                return answer if answer.headers["Content-Type"] == calls.JSON else None

        calls.expect_error(until(answer_in_json, 20), 505, "http_version")
        assert silent.send(get).answer().status == 200


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_head_never_hurts_the_server(impatient_server, data):
    with impatient_server.wire() as wire:
        wire.send(data).half_close()
        assert wire.closed()
        assert not wire.buffer or wire.buffer.startswith(b"HTTP/1."), wire.buffer[:100]
    client = impatient_server.client()
    assert client.get("/livez").status == 200
    client.close()


def test_a_refusal_that_does_not_wait_for_the_body_has_all_its_fields(server):
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {1 << 30}\r\n"
    with server.wire() as wire:
        wire.send(f"{head}Content-Encoding: br\r\n\r\n".encode())
        answer = wire.answer()
        assert answer.status == 415 and answer.headers["Accept-Encoding"] == "gzip, deflate"


def test_a_client_that_sends_on_after_its_refusal_is_cut_off_and_still_reads_why(server):
    """After a refusal the server reads further bytes for a limited time: if it closed at once,
    the client would lose the answer."""
    announced = 1 << 30
    head = f"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: {announced}\r\n\r\n"
    piece = bytes(1 << 20)
    sent = 0
    with server.wire(timeout=30) as wire:
        wire.send(head.encode())
        with contextlib.suppress(ConnectionError):
            while sent < announced:
                sent += wire.socket.send(piece)
        assert sent < 64 << 20
        assert wire.answer().status == 404


@pytest.mark.parametrize(
    "data",
    [
        b"5\r\nhel",
        b"zz\r\nhello\r\n0\r\n\r\n",
        b"-1\r\nhello\r\n0\r\n\r\n",
        b"ffffffffffffffffff\r\nhello",
        b"7fffffffffffffff\r\nhello",
        b"5\r\nhelloXX0\r\n\r\n",
        b" 5\r\nhello\r\n0\r\n\r\n",
        b"\r\n",
        b"5;" + b"x" * 100000 + b"\r\nhello\r\n0\r\n\r\n",
    ],
    ids=lambda data: repr(data[:20]),
)
def test_malformed_chunks_are_refused_or_cut_off(impatient_server, data):
    head = (
        b"POST " + PATH.encode() + b" HTTP/1.1\r\nHost: x\r\n"
        b"Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with impatient_server.wire(timeout=20) as wire:
        try:
            wire.send(head + data).half_close()
            answer = wire.answer()
            assert answer.status >= 400, answer
        except OSError:
            pass  # the server closed the connection, perhaps before the client half-closed it
    client = impatient_server.client()
    assert client.post(PATH, BODY, calls.RAW).body == SUMS
    client.close()


def test_a_chunk_whose_header_never_ends_is_refused(server):
    """libmicrohttpd 0.9.75 alone would wait for the end of the chunk's header; 1.0 refuses
    it."""
    with server.wire() as wire:
        with contextlib.suppress(ConnectionError):
            wire.send(CHUNKED + b"5;" + b"x" * 100000)
        assert wire.answer().status in (400, 413)
        assert wire.closed()


def test_too_many_header_bytes_are_refused(server):
    for headers in ([("X-Long", "a" * 200000)], [(f"X-{at}", "b" * 90) for at in range(5000)]):
        with server.wire() as wire:
            try:
                answer = wire.send(good(headers=headers)).answer()
                assert answer.status in (400, 413, 431), answer
            except (ConnectionError, BrokenPipeError, ConnectionResetError):
                pass  # the server closed the connection while the client was sending
            assert wire.closed()
    client = server.client()
    assert client.get("/livez").status == 200
    client.close()


def test_headers_beyond_the_limit_are_431_on_the_first_connection_and_on_the_hundredth(server):
    wires = [server.wire() for _ in range(100)]
    try:
        for wire in wires[0], wires[-1]:
            assert wire.send(good(headers=[("X-Long", "a" * 12000)])).answer().status == 200
            assert wire.send(good(headers=[("X-Long", "a" * 17000)])).answer().status == 431
        for wire in wires[1], wires[-2]:  # the request target counts as part of the header
            long = good(PATH + "&x=" + "a" * 9000, headers=[("X-Long", "a" * 9000)])
            assert wire.send(long).answer().status == 431
    finally:
        for wire in wires:
            wire.close()


def test_a_long_request_line_is_refused(server):
    with server.wire() as wire:
        try:
            wire.send(b"GET /" + b"a" * 300000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            assert wire.answer().status in (400, 404, 414, 431)
        except (ConnectionError, BrokenPipeError, ConnectionResetError):
            pass


# Clients that misbehave ---------------------------------------------------------------------


def test_a_body_longer_than_declared_is_the_next_request_not_the_body(server):
    with server.wire() as wire:
        wire.send(good() + b"garbage that is no request\r\n\r\n")
        assert wire.answer().body == SUMS
        try:
            assert wire.answer().status == 400
        except ConnectionError:
            pass
        assert wire.closed()


def test_a_body_shorter_than_declared_holds_nobody_up(server):
    request = good()
    stuck = [server.wire() for _ in range(20)]
    for wire in stuck:
        wire.send(request[:-1])
    client = server.client()
    for _ in range(20):
        answer = client.post(PATH, BODY, calls.RAW)
        assert answer.body == SUMS
    client.close()
    for wire in stuck:
        wire.half_close()
        wire.close()


def test_clients_that_vanish_mid_job_leave_nothing_behind(server):
    size = 1 << 20
    request = good(f"/v1/cumsum?dtype=int32&shape={size}", bytes(4 * size))
    before = server.metric("tally_connections")
    for _ in range(30):
        wire = server.wire()
        wire.send(request)
        wire.close()
    client = server.client()
    # Daemons may stay open for other connections, so the number of descriptors proves nothing.
    until(lambda: server.metric("tally_connections") <= before, 30, what="connections stay open")
    until(lambda: server.metric("tally_memory_reserved_bytes") == 0, 30, what="memory is held")
    assert client.post(PATH, BODY, calls.RAW).body == SUMS
    client.close()


def test_a_client_that_reads_slowly_gets_every_byte(server):
    size = 2 << 20
    values = np.ones(size, np.int8)
    with server.wire() as wire:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
        wire.send(good(f"/v1/cumsum?dtype=int8&shape={size}", values.tobytes()))
        until(
            lambda: struct.unpack("i", fcntl.ioctl(wire.socket, termios.FIONREAD, bytes(4))) > (0,)
        )
        client = server.client()
        # the loop serves other clients meanwhile
        assert client.post(PATH, BODY, calls.RAW).body == SUMS
        client.close()
        answer = wire.answer()
    assert np.array_equal(np.frombuffer(answer.body, np.int8), np.cumsum(values, dtype=np.int8))


def test_a_client_that_does_not_read_holds_nobody_up(server):
    size = 8 << 20
    with server.wire() as deaf:
        deaf.send(good(f"/v1/cumsum?dtype=int8&shape={size}", bytes(size)))
        client = server.client()
        for _ in range(50):
            assert client.post(PATH, BODY, calls.RAW).body == SUMS
        client.close()


def test_many_connections_at_once_each_get_their_own_answer(server):
    def one(number):
        with server.wire() as wire:
            body = np.array([number, 1, 1, 1], np.int32).tobytes()
            answer = wire.send(good(body=body)).answer()
            return np.frombuffer(answer.body, np.int32).tolist() == [number + at for at in range(4)]

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        assert all(pool.map(one, range(300)))


def test_idle_connections_cost_no_thread_and_hold_nobody_up(server):
    threads = server.threads()
    idle = [server.wire() for _ in range(200)]
    client = server.client()
    assert client.post(PATH, BODY, calls.RAW).body == SUMS
    assert server.threads() == threads
    client.close()
    for wire in idle:
        wire.close()
