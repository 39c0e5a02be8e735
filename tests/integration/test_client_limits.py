"""The limits of one client: bytes per second, memory, and priority."""

import concurrent.futures
import contextlib
import hashlib
import json
import re
import socket
import time

import pytest

from support import calls
from support.calls import BODY, PATH, SUMS, works
from support.certificates import Tls
from support.http import post_bytes
from support.waiting import until

RAW = ("Content-Type", calls.RAW)
MIB = 1 << 20
LENGTH = 12 * MIB


def raw(size):
    return f"/v1/cumsum?dtype=int8&shape={size}"


def head(size, **fields):
    """The head of a raw request of `size` bytes; the body is sent later."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return (
        f"POST {raw(size)} HTTP/1.1\r\nHost: x\r\nContent-Type: {calls.RAW}\r\n{lines}\r\n"
    ).encode()


def post(server, size, **headers):
    client = server.client()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = client.post(raw(size), bytes(size), calls.RAW, names)
    client.close()
    return answer


def refusals(server, limit):
    return server.metric(f'tally_client_refusals_total\\{{limit="{limit}"\\}}')


# Priority ----------------------------------------------------------------------------------------


def order_of(server, requests):
    """The ids in the order in which they are served. requests: (id, headers). A further request
    holds all memory until every request of the list waits."""
    with server.wire() as holder, concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        holder.send(head(LENGTH, Content_Length=LENGTH) + bytes(LENGTH - MIB))
        until(lambda: server.metric("tally_memory_reserved_bytes") >= LENGTH - MIB, 120)
        answers = []
        for at, (name, headers) in enumerate(requests):
            answers.append(pool.submit(post, server, LENGTH, X_Request_Id=name, **headers))
            until(lambda at=at: server.metric("tally_admission_waiting") == at + 1, 120)
        holder.reset()
        assert [answer.result().status for answer in answers] == [200] * len(answers)
    names = "|".join(name for name, _ in requests)
    until(lambda: len(re.findall(f"id=({names}) ", server.log)) == len(requests), 120)
    return re.findall(f"id=({names}) ", server.log)


def test_high_priority_overtakes_but_a_fifth_of_the_turns_is_for_normal_priority(start_server):
    server = start_server("--memory-budget", "16MiB", "--min-upload-rate", "0")
    high = [(f"high-{at}", {"X_Request_Priority": "high"}) for at in range(6)]
    normal = [("normal-0", {}), ("normal-1", {"X_Request_Priority": "normal"})]
    served = order_of(server, [*normal, *high])
    assert served == [f"high-{at}" for at in range(4)] + [
        "normal-0",
        "high-4",
        "high-5",
        "normal-1",
    ]


@pytest.mark.parametrize("value", ["", "urgent", "High", "1", "high,normal", "high normal"])
def test_an_invalid_priority_is_refused_by_name(server, value):
    client = server.client()
    answer = client.post(PATH, BODY, calls.RAW, {"X-Request-Priority": value})
    calls.expect_error(answer, 400, "invalid_field", "X-Request-Priority", "high or normal")
    for value in ("high", "normal", "high \t"):
        answer = client.post(PATH, BODY, calls.RAW, {"X-Request-Priority": value})
        assert answer.body == SUMS
    client.close()


def test_v2_has_the_parameter_of_triton_and_takes_the_words_of_the_header(server):
    tensor = {"name": "x", "datatype": "INT32", "shape": [2], "data": [1, 2]}
    client = server.client()
    for priority in (0, 1, 2, 7, "high", "normal"):
        body = {"inputs": [tensor], "parameters": {"priority": priority}}
        answer = client.post_json("/v2/models/cumsum/infer", body)
        assert answer.json()["outputs"][0]["data"] == [1, 3]
    for priority in (-1, "High", "", 1.5, True):
        body = {"inputs": [tensor], "parameters": {"priority": priority}}
        answer = client.post_json("/v2/models/cumsum/infer", body)
        assert answer.status == 400 and "priority" in json.dumps(answer.json())
    batching = client.get("/v2/models/cumsum/config").json()["dynamic_batching"]
    assert (batching["priority_levels"], batching["default_priority_level"]) == (2, 2)
    client.close()


# Bytes a second ----------------------------------------------------------------------------------

RATE = ("--per-client-bytes-per-s", "4MiB")


def test_a_client_above_its_byte_rate_is_refused_before_its_body(start_server):
    server = start_server("--per-client-bytes-per-s", "1MiB")
    # A client that has sent nothing recently may send a body of any length.
    assert post(server, 32 * MIB).status == 200
    with server.wire() as wire:
        # the refusal arrives although no byte of the body was sent
        answer = wire.send(head(MIB, Content_Length=MIB)).answer()
        says = ["this client has sent", "1 MiB per second", "the server's --per-client-bytes-per-s"]
        calls.expect_error(answer, 429, "too_many_requests", says=says)
    # seconds; the server has credited one second of the rate
    assert 1 < int(answer.headers["Retry-After"]) <= 31
    until(lambda: refusals(server, "per-client-bytes-per-s") == 1, 20)
    assert post(server, 16).status == 429  # the client is refused on a new connection, too


def test_a_client_that_waits_for_retry_after_is_served(start_server):
    server = start_server(*RATE)
    answer = post(server, 8 * MIB)
    while answer.status == 200:
        answer = post(server, 8 * MIB)
    time.sleep(int(answer.headers["Retry-After"]))
    assert post(server, 16).status == 200


def test_a_chunked_body_counts_as_it_arrives_and_unsent_bytes_do_not_count(start_server):
    server = start_server(*RATE)
    with server.wire() as wire:
        wire.send(head(100 * MIB, Content_Length=100 * MIB) + bytes(MIB))
        until(lambda: server.metric("tally_memory_reserved_bytes") > 0, 20)
        assert post(server, 16).status == 429
        wire.reset()
    server.await_active(0)
    assert post(server, 16).status == 200  # only the received MiB counts
    with server.wire() as wire:
        wire.send(head(32 * MIB, Transfer_Encoding="chunked"))
        wire.send(b"2000000\r\n" + bytes(32 * MIB) + b"\r\n0\r\n\r\n")
        assert wire.answer().status == 200
    assert post(server, 16).status == 429


def test_only_the_first_of_several_chunked_bodies_above_the_rate_may_continue(start_server):
    """With known lengths, the second body would be refused at its header."""
    server = start_server(*RATE)
    with server.wire() as first, server.wire() as second:
        for wire in (first, second):
            wire.send(head(20 * MIB, Transfer_Encoding="chunked"))
        server.await_active(2)
        first.send(b"1200000\r\n" + bytes(18 * MIB))
        until(lambda: server.metric("tally_memory_reserved_bytes") >= 18 * MIB, 20)
        answer = second.send(b"1\r\nx\r\n0\r\n\r\n").answer()
        calls.expect_error(answer, 429, "too_many_requests", says=["--per-client-bytes-per-s"])
        # seconds; the server has credited one second of the rate
        assert 1 < int(answer.headers["Retry-After"]) <= 4
        first.send(b"\r\n200000\r\n" + bytes(2 * MIB) + b"\r\n0\r\n\r\n")
        assert first.answer().status == 200
    until(lambda: refusals(server, "per-client-bytes-per-s") == 1, 20)


def test_each_client_has_a_rate_of_its_own_and_pages_have_none(start_server, tmp_path):
    server = start_server(*RATE, "--trusted-proxies", "127.0.0.1")
    assert post(server, 32 * MIB, X_Forwarded_For="192.0.2.1").status == 200
    assert post(server, 16, X_Forwarded_For="192.0.2.1").status == 429
    assert post(server, 16, X_Forwarded_For="192.0.2.2").status == 200
    client = server.client()
    assert client.get("/readyz", {"X-Forwarded-For": "192.0.2.1"}).status == 200
    assert client.get("/version", {"X-Forwarded-For": "192.0.2.1"}).status == 200
    client.close()


def test_a_client_that_still_sends_over_tls_receives_its_refusal(start_server, tmp_path):
    server = start_server("--per-client-bytes-per-s", "1MiB", tls=Tls(tmp_path / "tls"))
    assert post(server, 32 * MIB).status == 200
    with server.wire() as wire:
        wire.send(head(3 * MIB, Content_Length=3 * MIB) + bytes(MIB // 2))
        answer = wire.answer()
        calls.expect_error(answer, 429, "too_many_requests")
        assert int(answer.headers["Retry-After"]) >= 1


# Requests ----------------------------------------------------------------------------------------


def test_a_client_may_send_again_on_any_connection_as_soon_as_it_has_its_answer(
    start_server, tmp_path
):
    """The client has read only the header of its first answer. Most of the body fills the
    socket buffers, and the service can send the rest only when they have room. The first
    request must no longer count, so that a client that has read all of its answer is never
    refused."""
    path = str(tmp_path / "s")
    tokens = tmp_path / "tokens"
    tokens.write_text(f"one:{hashlib.sha256(b'secret').hexdigest()}\n")
    server = start_server(
        *("--per-client-requests", "1", "--token-file", str(tokens), "--listen", f"unix:{path}")
    )
    fields = [RAW, ("Authorization", "Bearer secret")]
    with server.wire() as reader, server.wire() as other:
        reader.close()
        reader.socket = socket.socket(socket.AF_UNIX)
        reader.socket.settimeout(30)
        reader.socket.connect(path)
        reader.send(post_bytes(raw(MIB // 2) + "&strides=0", b"\x01", fields))
        assert reader.answer(head_request=True).status == 200
        assert other.send(post_bytes(PATH, BODY, fields)).answer().body == SUMS


def test_a_client_refused_within_its_body_may_send_again_on_another_connection(start_server):
    server = start_server("--per-client-requests", "1")
    with server.wire() as wire:
        head_of_none = head(MIB, Content_Length=MIB).replace(b"dtype=int8", b"dtype=none")
        assert wire.send(head_of_none + b"x").answer().status == 400
        assert works(server)  # although the rest of the first body may still arrive


def test_a_client_that_disconnects_before_its_answer_may_send_again(start_server):
    flags = ["--batch-delay-us", "300000", "--header-timeout-ms", "600000"]
    server = start_server("--per-client-requests", "1", *flags)
    # while this connection is open, the server keeps its record of the client
    with server.wire():
        for sent in (head(4, Content_Length=4) + b"x", post_bytes(raw(1), b"x", [RAW])):
            # first a request whose body is incomplete, then a complete one that waits for its
            # batch
            with server.wire() as wire:
                wire.send(sent)
                server.await_active(1)
                wire.reset()
            until(lambda: post(server, 1).status == 200, 20)


def test_a_long_answer_counts_until_its_last_piece(start_server):
    server = start_server("--per-client-requests", "1")
    with server.wire() as reader:
        reader.send(post_bytes(raw(64 * MIB) + "&strides=0", b"\x01", [RAW]))
        assert reader.answer(head_request=True).status == 200
        says = ["has 1 requests in flight", "the server's --per-client-requests"]
        calls.expect_error(post(server, 1), 429, "too_many_requests", says=says)
        left = 64 * MIB - len(reader.buffer)
        while left > 0:
            left -= len(reader.socket.recv(MIB))
        assert works(server)


# Memory ------------------------------------------------------------------------------------------

MEMORY = ("--per-client-memory", "8MiB")


def test_a_client_over_its_memory_is_refused_before_its_body_and_others_are_not(start_server):
    server = start_server(*MEMORY, "--trusted-proxies", "127.0.0.1")
    with server.wire() as holder:
        holder.send(head(6 * MIB, Content_Length=6 * MIB) + b"x")
        until(lambda: server.metric("tally_active_requests") == 2, 20)
        with server.wire() as wire:
            answer = wire.send(head(3 * MIB, Content_Length=3 * MIB)).answer()
        says = ["needs 3 MiB of memory", "over 8 MiB, the server's --per-client-memory"]
        calls.expect_error(answer, 429, "too_many_requests", says=says)
        assert answer.headers["Retry-After"] == "1"
        until(lambda: refusals(server, "per-client-memory") == 1, 20)
        assert post(server, 3 * MIB, X_Forwarded_For="192.0.2.1").status == 200
        assert works(server)  # the rest of the memory suffices for small requests
        holder.reset()
    server.await_active(0)
    assert post(server, 7 * MIB).status == 200  # no part of it stays reserved


def test_bytes_that_a_client_posts_to_pages_count_for_its_rate(start_server):
    server = start_server(*MEMORY, "--trusted-proxies", "127.0.0.1")

    def begin(client, length):
        fields = f"X-Forwarded-For: {client}\r\nContent-Length: {length}\r\n"
        head = f"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\n{fields}\r\n"
        return stack.enter_context(server.wire()).send(head.encode())

    with contextlib.ExitStack() as stack:
        for _ in range(8):
            begin("192.0.2.1", MIB).send(bytes(MIB - 1))
        until(lambda: server.metric("tally_memory_reserved_bytes") == 8 * MIB, 20)
        answer = begin("192.0.2.1", 2).send(b"{}").answer()
        says = ["over 8 MiB, the server's --per-client-memory"]
        calls.expect_error(answer, 429, "too_many_requests", says=says)
        assert begin("192.0.2.2", 2).send(b"{}").answer().status == 200


def test_at_a_unix_socket_they_hold_for_whoever_has_a_name_alone(start_server, tmp_path):
    path = str(tmp_path / "s")
    tokens = tmp_path / "tokens"
    tokens.write_text(f"one:{hashlib.sha256(b'secret').hexdigest()}\n")
    named_by_proxy = (["--trusted-proxies", "unix"], [("X-Forwarded-For", "192.0.2.1")], 413)
    named_by_token = (["--token-file", str(tokens)], [("Authorization", "Bearer secret")], 413)
    for flags, fields, status in (([], [], 200), named_by_proxy, named_by_token):
        server = start_server(*MEMORY, *flags, "--listen", f"unix:{path}")
        with server.wire() as wire:
            wire.close()
            wire.socket = socket.socket(socket.AF_UNIX)
            wire.socket.settimeout(30)
            wire.socket.connect(path)
            wire.send(post_bytes(raw(9 * MIB) + "&strides=0", b"\x01", [RAW, *fields]))
            assert wire.answer(head_request=True).status == status
        server.kill()


def test_memory_of_a_request_refused_within_its_body_is_no_longer_counted(start_server):
    server = start_server(*MEMORY)
    with server.wire() as wire:
        fields = {"Content_Length": 6 * MIB, "X_Request_Timeout_Ms": 300}
        wire.send(head(6 * MIB, **fields) + bytes(3 * MIB))
        calls.expect_error(wire.answer(), 504, "deadline_passed")
        assert post(server, 7 * MIB).status == 200


def test_a_request_that_alone_exceeds_the_memory_limit_gets_413_even_with_a_short_body(
    start_server,
):
    server = start_server(*MEMORY)
    says = ["over 8 MiB, the server's --per-client-memory", "send less at once"]
    calls.expect_error(post(server, 9 * MIB), 413, "too_large", says=says)
    client = server.client()
    answer = client.post(raw(9 * MIB) + "&strides=0", b"\x01", calls.RAW)
    calls.expect_error(answer, 413, "too_large", says=says)
    numbers = "[" + ",".join(["1"] * MIB) + "]"
    answer = client.post("/v1/cumsum", f'{{"data":{numbers}}}'.encode(), "application/json")
    # the text has 2 MiB and fits; its sums have 8 MiB
    calls.expect_error(answer, 413, "too_large", says=says)
    client.close()
    assert works(server)
    assert refusals(server, "per-client-memory") == 0
