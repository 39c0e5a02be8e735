"""The identity of a request's client: the token's name, else the certificate's subject, else the
address."""

import concurrent.futures
import hashlib
import http.client
import re

import pytest

from support import calls
from support.calls import BODY, PATH, SUMS
from support.certificates import Authority, Tls
from support.waiting import until

SLOW = ["--per-client-requests", "1", "--batch-delay-us", "1000000"]


def post(server, headers=None, source="127.0.0.1", context=None):
    """Send one request on a new connection; returns its status."""
    where = {"port": server.port, "timeout": 60, "source_address": (source, 0)}
    if context is None:
        connection = http.client.HTTPConnection("127.0.0.1", **where)
    else:
        connection = http.client.HTTPSConnection("127.0.0.1", context=context, **where)
    connection.request("POST", PATH, BODY, {"Content-Type": calls.RAW, **(headers or {})})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    assert answer.status != 200 or body == SUMS
    return answer.status


def statuses(*requests):
    """The sorted statuses of requests that are in flight together; each is given as keywords of
    post()."""
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        return sorted(pool.map(lambda request: post(**request), requests))


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    names = {"a": "first", "b": "second", "c": "first"}  # two tokens share a name
    path.write_text(
        "".join(f"{name}:{hashlib.sha256(t.encode()).hexdigest()}\n" for t, name in names.items())
    )
    return path


def test_tokens_of_one_name_are_one_client_wherever_they_come_from(start_server, tokens):
    server = start_server("--token-file", str(tokens), *SLOW)
    a, b, c = ({"server": server, "headers": {"Authorization": f"Bearer {t}"}} for t in "abc")
    assert statuses(a, b) == [200, 200]
    assert statuses(a, c) == [200, 429]
    assert statuses(a, {**a, "source": "127.0.0.2"}) == [200, 429]


def test_certificates_of_one_subject_are_one_client(start_server, tmp_path):
    clients = Authority(tmp_path / "clients")
    tls = Tls(tmp_path / "server", clients)
    server = start_server(*SLOW, tls=tls)
    one = {"server": server, "context": tls.context(clients.sign("one", "clientAuth"))}
    two = {"server": server, "context": tls.context(clients.sign("two", "clientAuth"))}
    again = {"server": server, "context": tls.context(clients.sign("one", "clientAuth"))}
    assert statuses(one, two) == [200, 200]
    assert statuses(one, again) == [200, 429]
    assert statuses(one, {**one, "source": "127.0.0.3"}) == [200, 429]


def test_certificates_of_long_subjects_are_told_apart(start_server, tmp_path):
    """An authority may sign a subject of any length: this one has 2 KiB."""
    clients = Authority(tmp_path / "clients")
    tls = Tls(tmp_path / "server", clients)
    server = start_server(*SLOW, tls=tls)
    long = "".join(f"/OU={'x' * 60}{at:02}" for at in range(32))
    one, two, again = (
        {
            "server": server,
            "context": tls.context(clients.sign(name, "clientAuth", subject=long)),
        }
        for name in ("one", "two", "one")
    )
    assert statuses(one, two) == [200, 200]
    assert statuses(one, {**again, "source": "127.0.0.3"}) == [200, 429]


def behind(server, forwarded, source="127.0.0.1"):
    return {"server": server, "source": source, "headers": {"X-Forwarded-For": forwarded}}


def test_the_address_that_a_trusted_proxy_names_is_the_client(start_server):
    server = start_server("--trusted-proxies", "127.0.0.1,10.0.0.0/8", *SLOW)
    assert statuses(behind(server, "192.0.2.1"), behind(server, "192.0.2.2")) == [200, 200]
    assert statuses(behind(server, "192.0.2.1"), behind(server, "192.0.2.1:80")) == [200, 429]
    spoofed = behind(server, "192.0.2.9, 192.0.2.1")  # the client forged the first address
    assert statuses(behind(server, "192.0.2.1"), spoofed) == [200, 429]
    through_two = behind(server, "192.0.2.1, 10.1.2.3")
    assert statuses(behind(server, "192.0.2.1"), through_two) == [200, 429]
    assert "client=192.0.2.1 " in server.log and "client=192.0.2.9 " not in server.log
    broken = behind(server, "192.0.2.7")
    broken["headers"]["X-Request-Timeout-Ms"] = "soon"
    assert post(**broken) == 400
    # the log also names the client of a request that is refused at its header
    until(lambda: "client=192.0.2.7 " in server.log)


def test_a_token_names_its_client_behind_a_trusted_proxy_as_well(start_server, tokens):
    flags = ["--token-file", str(tokens), "--trusted-proxies", "127.0.0.1"]
    server = start_server(*flags, *SLOW)
    one, two = (behind(server, f"192.0.2.{at}") for at in (1, 2))
    for request in (one, two):
        request["headers"]["Authorization"] = "Bearer a"
    assert statuses(one, two) == [200, 429]


def test_the_certificate_of_a_trusted_proxy_is_not_that_of_its_clients(start_server, tmp_path):
    tls = Tls(tmp_path / "server", Authority(tmp_path / "clients"))
    server = start_server("--trusted-proxies", "127.0.0.1", *SLOW, tls=tls)
    own = {"server": server, "context": tls.shared}
    one, two = ({**behind(server, f"192.0.2.{at}"), "context": tls.shared} for at in (1, 2))
    assert statuses(one, two) == [200, 200]
    assert statuses(one, own) == [200, 200]
    assert statuses(one, one) == [200, 429]
    assert statuses(own, own) == [200, 429]


def test_a_proxy_may_append_a_field_of_its_own_to_the_list(start_server):
    server = start_server("--trusted-proxies", "127.0.0.1,10.0.0.0/8", *SLOW)

    def through_two(*fields):
        lines = "".join(f"X-Forwarded-For: {field}\r\n" for field in fields)
        with server.wire() as wire:
            head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: {calls.RAW}\r\n{lines}"
            wire.send(f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY)
            return wire.answer().status

    assert through_two("192.0.2.1", "10.1.2.3") == 200
    assert through_two("192.0.2.9, 192.0.2.2", "10.1.2.4, 10.1.2.3") == 200
    assert through_two("192.0.2.9", "unknown", "10.1.2.5") == 200
    assert through_two(*["192.0.2.9"] * 20, "192.0.2.4") == 200
    clients = ["192.0.2.1", "192.0.2.2", "10.1.2.5", "192.0.2.4"]
    until(lambda: re.findall(r" client=(\S+) .*path=/v1/cumsum ", server.log) == clients)


def test_ipv4_written_as_ipv6_is_the_same_client_and_not_every_one(start_server):
    server = start_server("--trusted-proxies", "127.0.0.1", *SLOW)
    mapped = behind(server, "::ffff:192.0.2.1")
    assert statuses(mapped, behind(server, "::ffff:192.0.2.2")) == [200, 200]
    assert statuses(mapped, behind(server, "192.0.2.1")) == [200, 429]


def test_x_forwarded_for_of_an_untrusted_address_is_ignored(start_server):
    server = start_server("--trusted-proxies", "127.0.0.1", *SLOW)
    stranger = [behind(server, f"192.0.2.{at}", "127.0.0.2") for at in (1, 2)]
    assert statuses(*stranger) == [200, 429]
    plain = start_server(*SLOW)
    assert statuses(behind(plain, "192.0.2.1"), behind(plain, "192.0.2.2")) == [200, 429]


@pytest.mark.parametrize("forwarded", ["", "unknown", "192.0.2.1, unknown", ",", "[::1", "a" * 500])
def test_an_entry_that_is_no_address_stands_for_the_proxy_that_wrote_it(start_server, forwarded):
    server = start_server("--trusted-proxies", "127.0.0.1", *SLOW)
    assert statuses(behind(server, forwarded), {"server": server}) == [200, 429]


@pytest.mark.parametrize(
    "network", ["x", "10.0.0.0/33", "10.0.0.0/", "::/129", "10.0.0.0/8x", "10.0.0.0/08", "::/00"]
)
def test_an_invalid_network_is_refused_by_name_at_the_start(start_server, network):
    server = start_server("--trusted-proxies", network, wait=False)
    assert server.wait() == 2
    assert "--trusted-proxies" in server.log and network in server.log
