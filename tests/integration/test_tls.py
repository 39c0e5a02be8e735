"""TLS of the service: which clients are accepted, what works as without TLS, and certificates that
change."""

import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import numpy as np
import pytest
import tritonclient.http as triton
from test_door import (  # noqa: F401
    impatient_server,
    test_a_body_cut_anywhere,
    test_a_body_that_comes_byte_by_byte,
    test_a_head_request_whose_large_body_is_refused_gets_no_body,
    test_ambiguous_framing_is_refused_and_closes,
    test_chunked_upload_is_as_good_as_one_with_a_length,
    test_clients_that_vanish_mid_job_leave_nothing_behind,
    test_expect_continue_is_answered_before_the_body,
    test_expect_continue_is_refused_without_the_body,
    test_http_1_0_and_connection_close,
    test_malformed_chunks_are_refused_or_cut_off,
    test_malformed_head_never_hurts_the_server,
    test_pipelined_requests_are_answered_in_order,
    test_too_many_header_bytes_are_refused,
)
from test_drain import (  # noqa: F401
    test_what_is_in_flight_is_answered_and_the_exit_is_clean,
)
from test_limits import (  # noqa: F401
    ASK,
    FULL,
    FULL_FLAGS,
    small_server,
    test_413_for_a_chunked_body_that_grows_too_long,
    test_413_reaches_a_client_that_is_still_sending,
    test_a_body_that_never_ends_is_cut_off,
    test_headers_that_stop_get_a_408_with_an_id_of_its_own,
    test_requests_sent_while_the_one_before_is_computed_are_answered_in_order,
)

from support import calls
from support.calls import BODY, PATH, SUMS, works
from support.certificates import Authority, Tls, between, costly_key, put
from support.http import Wire
from support.tallyd import BINARY, Tallyd
from support.waiting import pipe_with_reader, until

MIB = 1 << 20
TALLY = pathlib.Path(BINARY).parent / "tally"


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return Tls(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def session_server(log_dir, tls):
    """The tests imported from other files use this server, and start_server() starts servers with
    TLS, too."""
    server = Tallyd(log_dir / "tls.log", tls=tls)
    yield server
    server.check_alive()
    server.stop()


@pytest.fixture
def start_server(start_server, tls):
    return lambda *flags, **options: start_server(*flags, **{"tls": tls, **options})


@pytest.fixture
def changing(tmp_path):
    """Certificates for a single test."""
    return Tls(tmp_path / "changing")


def context_of(tls, low, high):
    context = tls.context()
    context.minimum_version, context.maximum_version = low, high
    if low < ssl.TLSVersion.TLSv1_2:
        # the client's own security level would refuse this
        context.set_ciphers("ALL:@SECLEVEL=0")
    return context


def serial_of(server, tls):
    """Serial number of the certificate on a new connection."""
    with socket.create_connection(("127.0.0.1", server.port), 30) as raw:
        with tls.context().wrap_socket(raw, server_hostname="localhost") as wire:
            return int(wire.getpeercert()["serialNumber"], 16)


# Accepted clients --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_version_that_is_current_is_spoken_with_forward_secrecy(server, tls, version):
    number = ssl.TLSVersion[version]
    context = context_of(tls, number, number)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_connection(("127.0.0.1", server.port), 30) as raw:
        with context.wrap_socket(raw, server_hostname="localhost") as wire:
            assert wire.version() == version.replace("_", ".")
            assert wire.selected_alpn_protocol() == "http/1.1"
            name = wire.cipher()[0]
            assert version == "TLSv1_3" or (name.startswith("ECDHE-") and "GCM" in name), name
            wire.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert wire.recv(9) == b"HTTP/1.1 "


@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
def test_a_version_that_is_not_current_is_refused(server, tls, version):
    number = ssl.TLSVersion[version]
    with pytest.warns(DeprecationWarning):
        context = context_of(tls, number, number)
    with socket.create_connection(("127.0.0.1", server.port), 30) as raw:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(raw, server_hostname="localhost")
    assert works(server)


def test_ciphers_without_authentication_or_forward_secrecy_are_refused(server, tls):
    for ciphers in (
        "AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES128-SHA256",
        "DHE-RSA-AES128-GCM-SHA256",
    ):
        context = context_of(tls, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
        context.set_ciphers(ciphers)
        with socket.create_connection(("127.0.0.1", server.port), 30) as raw:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                context.wrap_socket(raw, server_hostname="localhost")


def test_a_client_that_has_aes_gets_it_whatever_it_likes_better(server, tls):
    """ChaCha20 costs the server three times as much."""
    for ciphers, expected in (("CHACHA20:AESGCM", "AES"), ("CHACHA20", "CHACHA20")):
        context = context_of(tls, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
        context.set_ciphers(ciphers)
        with socket.create_connection(("127.0.0.1", server.port), 30) as raw:
            with context.wrap_socket(raw, server_hostname="localhost") as wire:
                assert expected in wire.cipher()[0]


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/cumsum HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n" + bytes(4000),
        b"P",
    ],
)
def test_plain_http_on_a_port_with_tls_is_told_to_use_https(server, sent):
    with Wire(server.port) as plain:
        answer = plain.send(sent).answer()
        calls.expect_error(answer, 400, "invalid_request", None, "use https://")
        assert answer.headers["X-Request-Id"] and answer.headers["Connection"] == "close"
        assert plain.closed() and plain.buffer == b""
    assert works(server)


@pytest.mark.parametrize("sent", [b"\x16\x02\x00\x00\x05", b"\x00GET / HTTP/1.1\r\n\r\n", b"get /"])
def test_bytes_that_are_neither_tls_nor_http_get_no_plain_answer(server, sent):
    with Wire(server.port) as plain:
        plain.send(sent)
        with contextlib.suppress(OSError):  # the server may have closed already
            plain.half_close()
        assert plain.closed() and b"HTTP" not in plain.buffer
    assert works(server)


def told_by_plain(server, sent):
    with Wire(server.port) as plain:
        return plain.send(sent).closed() and plain.buffer


def test_a_plain_request_in_the_middle_of_a_handshake_is_not_answered(server, tls):
    assert b"HTTP" not in told_by_plain(server, hello_of(tls)[:20] + b"GET / HTTP/1.1\r\n\r\n" * 40)
    assert works(server)


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize(
    "offered, chosen",
    [(None, None), (["http/1.1"], "http/1.1"), (["h2", "http/1.1"], "http/1.1"), (["h2"], "")],
)
def test_a_client_that_speaks_other_protocols_alone_is_told_so(
    server, tls, version, offered, chosen
):
    context = context_of(tls, ssl.TLSVersion[version], ssl.TLSVersion[version])
    if offered is not None:
        context.set_alpn_protocols(offered)
    with socket.create_connection(("127.0.0.1", server.port), 30) as raw:
        if chosen == "":
            with pytest.raises(ssl.SSLError, match="no application protocol"):
                context.wrap_socket(raw, server_hostname="localhost")
        else:
            with context.wrap_socket(raw, server_hostname="localhost") as wire:
                assert wire.selected_alpn_protocol() == chosen
                wire.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
                assert wire.recv(9) == b"HTTP/1.1 "


def test_a_unix_socket_beside_is_plain(start_server, tmp_path):
    path = tmp_path / "sock"
    server = start_server("--listen", f"unix:{path}")
    done = subprocess.run(
        ["curl", "-sS", "--unix-socket", path, "http://x/livez", "-w", "%{http_code}"],
        capture_output=True,
        timeout=60,
    )
    assert done.stdout.endswith(b"200"), done
    assert works(server)


# Servers that clients accept ---------------------------------------------------------------------


def of_another_host(authority):
    return authority.sign("elsewhere", names="DNS:elsewhere.example")


def that_is_over(authority):
    certificate, key = authority.sign("over", days=0)
    until(lambda: time.time() > end_of(certificate) + 1)
    return certificate, key


def signed_by_itself(authority):
    alone = Authority(authority.folder, "alone")
    return alone.certificate, alone.key


@pytest.mark.parametrize("bad", [of_another_host, that_is_over, signed_by_itself])
def test_no_client_speaks_to_a_server_whose_certificate_is_not_valid(start_server, changing, bad):
    server = start_server(tls=changing)
    certificate, key = bad(changing.authority)
    put(certificate, changing.certificate)
    put(key, changing.key)
    until(lambda: server.log.count("is loaded") == 2, 60)
    url, trust = f"https://localhost:{server.port}", changing.authority.certificate
    for command in (
        ["curl", "-sS", "--cacert", trust, f"{url}/livez"],
        [TALLY, "cumsum", "--url", url, "--cacert", trust],
    ):
        done = subprocess.run(command, input=b"[1,2,3]", capture_output=True, timeout=60)
        assert done.returncode != 0 and done.stdout == b"", done
        assert b"certificate" in done.stderr.lower(), done
    # The client connects to an address and not to a name: if a name also has an IPv6 address,
    # the client reports the refusal of that address.
    v2 = triton.InferenceServerClient(
        f"127.0.0.1:{server.port}", ssl=True, ssl_context_factory=changing.context
    )
    with pytest.raises(ssl.SSLCertVerificationError):
        v2.is_server_live()
    v2.close()


# Transfers ---------------------------------------------------------------------------------------


def test_16_mib_both_ways_are_the_same_bytes(server):
    values = np.random.default_rng(1).integers(-9, 9, 4 * MIB, dtype=np.int32)
    client = server.client()
    answer = client.post(f"/v1/cumsum?dtype=int32&shape={values.size}", values.tobytes(), calls.RAW)
    client.close()
    assert answer.status == 200
    assert answer.body == np.cumsum(values, dtype=np.int32).tobytes()


def test_every_size_of_an_answer_arrives_while_others_wait_for_devices(start_server):
    """libmicrohttpd sends these answers itself, in pieces. It must continue to do so while
    other requests, which wait for a device, make it poll."""
    server = start_server("--batch-delay-us", "100000")
    sizes = [1, 1000, 16384, 16385, 100_000, 500_000, MIB - 64, MIB + 1]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        stop = threading.Event()

        def wait_for_the_device():
            client = server.client()
            while not stop.is_set():
                assert client.post(PATH, BODY, calls.RAW).body == SUMS
            client.close()

        others = [pool.submit(wait_for_the_device) for _ in range(4)]
        client = server.client()
        for size in sizes:
            values = np.ones(size, np.int8)
            answer = client.post(f"/v1/cumsum?dtype=int8&shape={size}", values.tobytes(), calls.RAW)
            assert answer.body == np.cumsum(values, dtype=np.int8).tobytes()
            assert len(client.get("/openapi.json").body) > 50_000
        begun = time.monotonic()
        for _ in range(60):
            client.get("/openapi.json")
        # it would take longer if each answer waited for the next heartbeats
        assert time.monotonic() - begun < 8
        client.close()
        stop.set()
        for other in others:
            other.result()


def test_json_and_v2_are_as_they_are_without(server, tls):
    client = server.client()
    assert client.post_json("/v1/cumsum", {"data": [1, 2, 3]}).json()["data"] == [
        1,
        3,
        6,
    ]
    client.close()
    v2 = triton.InferenceServerClient(
        f"localhost:{server.port}", ssl=True, ssl_context_factory=tls.context
    )
    tensor = triton.InferInput("x", [4], "INT32")
    tensor.set_data_from_numpy(np.array([1, 2, 3, 4], np.int32))
    assert v2.infer("cumsum", [tensor]).as_numpy("y").tolist() == [1, 3, 6, 10]
    v2.close()


def test_curl_and_the_command_speak_it(server, tls, tmp_path):
    url = f"https://localhost:{server.port}"
    done = subprocess.run(
        ["curl", "-sS", "--cacert", tls.authority.certificate, "-d", '{"data":[1,2,3]}']
        + [f"{url}/v1/cumsum"],
        capture_output=True,
        timeout=60,
    )
    assert b"[1,3,6]" in done.stdout, done
    done = subprocess.run(
        [TALLY, "cumsum", "--url", url, "--cacert", tls.authority.certificate],
        input=b"[1,2,3]",
        capture_output=True,
        timeout=60,
    )
    assert b"[1,3,6]" in done.stdout.replace(b" ", b""), done


@pytest.mark.parametrize("loops", ["1", "3"])
def test_many_at_once_each_get_their_own_answer(start_server, loops):
    server = start_server("--http-loops", loops)

    def one(number):
        client = server.client()
        for _ in range(5):
            body = np.array([number, 1, 1, 1], np.int32).tobytes()
            answer = client.post(PATH, body, calls.RAW)
            assert np.frombuffer(answer.body, np.int32).tolist() == [number + at for at in range(4)]
        client.close()

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(one, number) for number in range(60)]:
            done.result()
    assert server.metric("tally_tls_handshakes_total") >= 60


# Handshakes that stop ----------------------------------------------------------------------------


def hello_of(tls):
    """The first bytes of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = tls.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


def test_handshakes_that_stop_end_with_the_header_timeout_and_cost_nothing_until_then(
    start_server, tls
):
    """libmicrohttpd alone would poll for them without pause."""
    server = start_server("--header-timeout-ms", "1500")
    hello = hello_of(tls)
    begun = server.processor_seconds()
    silent = server.wire()  # this client finishes its handshake, and sends no request
    stuck = []
    for at in range(40):
        raw = socket.create_connection(("127.0.0.1", server.port), 60)
        # no byte of it, a part of it, or all of it
        raw.sendall(hello[: len(hello) * (at % 4) // 3])
        stuck.append(raw)
    for raw in stuck:
        try:
            while raw.recv(65536):
                pass
        except ConnectionResetError:
            pass
        raw.close()
    assert silent.closed()
    assert server.processor_seconds() - begun < 0.75
    until(lambda: server.metric("tally_tls_handshake_failures_total") == 40)
    assert works(server)


def test_at_the_connection_limit_a_handshake_that_stops_is_evicted_for_another_client(
    start_server, tls
):
    server = start_server("--http-loops", "2", *FULL_FLAGS)
    watch = server.wire(source="127.0.0.5")
    until(watch.is_alone)
    idle = []
    for count in range(1, FULL):
        idle.append(socket.create_connection(("127.0.0.1", server.port), 30, ("127.0.0.2", 0)))
        until(lambda count=count: watch.metric("tally_connections") == count + 1)
    with server.wire(source="127.0.0.3") as other:
        assert other.send(ASK).answer().body == SUMS
    assert watch.metric("tally_connections_evicted_total") == 1
    watch.close()
    for connection in idle:
        connection.close()


def test_a_client_that_stops_in_many_handshakes_delays_no_other_client(start_server, tls):
    """To make room, the service cuts the oldest unfinished handshakes of the client with the
    most connections. It never cuts a connection whose handshake has finished."""
    server = start_server("--http-loops", "1", "--header-timeout-ms", "600000")
    hello = hello_of(tls)

    def begin(source):
        raw = socket.create_connection(("127.0.0.1", server.port), 60, (source, 0))
        raw.sendall(hello[:100])
        return raw

    other = begin("127.0.0.3")
    until(lambda: server.metric("tally_connections") == 2, 60)
    ready = server.wire(source="127.0.0.2")
    stuck = [begin("127.0.0.2") for _ in range(300)]
    for raw in stuck[:40]:
        with contextlib.suppress(ConnectionResetError):
            assert raw.recv(1) == b""
    for _ in range(20):
        assert works(server)
    other.sendall(hello[100:])
    assert other.recv(1)
    assert ready.send(ASK).answer().body == SUMS
    for raw in (other, ready, *stuck):
        raw.close()


def test_a_client_that_leaves_during_other_handshakes_is_noticed(start_server, tls):
    """libmicrohttpd learns only once that a connection has ended, and perhaps learns it in a
    run for another connection."""
    server = start_server("--idle-timeout-s", "600", moves_clock=True)
    hello = hello_of(tls)
    leaving, beginning = [], []
    for _ in range(16):
        for group in (leaving, beginning):
            group.append(socket.create_connection(("127.0.0.1", server.port), 60))
    until(lambda: server.metric("tally_connections") == 33, 60)
    server.signal(signal.SIGSTOP)
    until(server.is_stopped, 60)
    for raw in beginning:
        raw.sendall(hello)
    for raw in leaving:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.close()  # with SO_LINGER, close() resets the connection
    server.pass_time(2)  # the service itself cuts connections in the same round
    server.signal(signal.SIGCONT)
    for raw in beginning:
        assert raw.recv(65536)
        raw.close()
    until(lambda: server.metric("tally_connections") == 1, 20)


def test_a_handshake_of_single_bytes_is_a_handshake(server, tls):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = tls.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", server.port), 60) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def step(call):
            while True:
                try:
                    return call()
                except ssl.SSLWantReadError:
                    for byte in outgoing.read():
                        raw.sendall(bytes([byte]))
                    incoming.write(raw.recv(65536))

        step(session.do_handshake)
        session.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert step(lambda: session.read(9)) == b"HTTP/1.1 "


def test_the_end_of_a_handshake_is_acknowledged_at_once(start_server):
    """Linux delays the acknowledgement by 40 ms if there is nothing to send; until then, the
    client's system holds back a small first request (Nagle's algorithm)."""
    server = start_server("--http-loops", "1")
    with server.wire() as wire:
        wire.await_read()
        assert server.metric("tally_tls_handshakes_total") >= 2
        assert wire.unacknowledged() == 0


# Certificates that change ------------------------------------------------------------------------


def test_certificates_that_change_under_load_fail_no_request(start_server, changing):
    server = start_server(tls=changing)
    stop = threading.Event()

    def kept():
        client = server.client()
        done = 0
        while not stop.is_set():
            assert client.post(PATH, BODY, calls.RAW).body == SUMS
            assert client.connection.sock is not None
            done += 1
        client.close()
        return done

    def new():
        done = 0
        while not stop.is_set():
            assert works(server)
            done += 1
        return done

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(work) for work in (kept, new, kept, new)]
        try:
            seen = []
            for _ in range(3):
                serial = changing.rotate()
                until(lambda serial=serial: serial_of(server, changing) == serial, 60)
                seen.append(serial)
        finally:
            stop.set()
        assert seen == [2, 3, 4]
        assert all(client.result() > 0 for client in clients)
    assert server.metric("tally_tls_handshake_failures_total") == 0
    server.stop()


def end_of(path):
    """Expiry of the certificate in this file, in seconds since the epoch."""
    said = subprocess.run(
        ["openssl", "x509", "-noout", "-enddate", "-in", path], capture_output=True, text=True
    ).stdout
    return ssl.cert_time_to_seconds(said.strip().removeprefix("notAfter="))


def test_the_end_of_the_first_certificate_is_measured_and_follows_the_file(start_server, changing):
    name = "tally_tls_certificate_expiry_timestamp_seconds"
    server = start_server(tls=changing)
    assert server.metric(name) == end_of(changing.certificate)
    assert time.gmtime(server.metric(name)).tm_year == time.gmtime(time.time() + 2 * 86400).tm_year
    short, key = changing.authority.sign("short", days=1)
    chain = changing.certificate.with_name("chain.pem")
    chain.write_bytes(short.read_bytes() + changing.authority.certificate.read_bytes())
    put(chain, changing.certificate)
    put(key, changing.key)
    until(lambda: server.metric(name) == end_of(short), 60)


def test_a_damaged_certificate_or_a_key_of_another_is_refused_and_the_old_one_stays(
    start_server, changing
):
    server = start_server(tls=changing)
    good = changing.certificate.read_bytes()
    for damaged in (good[: len(good) // 2], None):
        lines = server.log.count("stays in use")
        if damaged is None:
            # this certificate does not belong to the key
            put(changing.authority.certificate, changing.certificate)
        else:
            changing.certificate.write_bytes(damaged)
        until(lambda lines=lines: server.log.count("stays in use") > lines, 60)
        assert serial_of(server, changing) == 1
    assert str(changing.certificate) in server.log
    serial = changing.rotate()
    until(lambda: serial_of(server, changing) == serial, 60)


RSA = ("rsa", "-pkeyopt")


def test_a_server_key_of_less_than_2048_bits_of_rsa_is_refused(start_server, changing):
    strong = changing.authority.sign("strong", kind=(*RSA, "rsa_keygen_bits:2048"))
    serial = changing.authority.signed
    weak = changing.authority.sign("weak", kind=(*RSA, "rsa_keygen_bits:1024"))
    says = "its key has 1024 bits (RSA), expected 2048 or more"
    flags = ["--tls-cert", str(weak[0]), "--tls-key", str(weak[1])]
    at_the_start = start_server(*flags, tls=None, wait=False)
    server = start_server(tls=changing)
    put(strong[0], changing.certificate)
    put(strong[1], changing.key)
    until(lambda: serial_of(server, changing) == serial, 60)
    put(weak[0], changing.certificate)
    put(weak[1], changing.key)
    until(lambda: f"--tls-cert {changing.certificate}: {says}" in server.log, 60)
    assert serial_of(server, changing) == serial
    assert at_the_start.wait() == 2
    assert f"--tls-cert {weak[0]}: {says}" in at_the_start.log


def not_yet(certificate):
    """A copy that is valid from the year 2049. The server does not check the signature of its own
    certificate."""
    der = ssl.PEM_cert_to_DER_cert(certificate.read_text())
    at = der.index(b"\x17\x0d") + 2  # a UTCTime of 13 bytes; the begin of validity precedes the end
    later = certificate.with_name("later.pem")
    later.write_text(ssl.DER_cert_to_PEM_cert(der[:at] + b"490101000000Z" + der[at + 13 :]))
    return later


def test_a_certificate_that_is_not_valid_now_is_warned_of(start_server, changing):
    ended = f"TLS: {changing.certificate} has a certificate that expired at 20"
    begins = f"TLS: {changing.certificate} has a certificate that is not valid before 2049-01-01T00"
    server = start_server(tls=changing)
    later = not_yet(changing.certificate)
    over, key = that_is_over(changing.authority)
    put(over, changing.certificate)
    put(key, changing.key)
    until(lambda: ended in server.log, 60)
    assert begins not in server.log
    started = start_server(tls=changing, wait=False)
    until(lambda: ended in started.log, 60)
    put(changing.authority.folder / "server-1.key", changing.key)
    put(later, changing.certificate)
    until(lambda: begins in server.log, 60)
    assert server.log.count(ended) == 1


@pytest.mark.parametrize("mode, warns", [(0o600, 0), (0o640, 0), (0o644, 1)])
def test_a_key_that_every_user_may_read_is_warned_of(start_server, changing, mode, warns):
    says = f"may read or write the key {changing.key} (mode 0644)"
    os.chmod(changing.key, mode)
    server = start_server(tls=changing)
    until(lambda: "listening on" in server.log, 60)
    assert server.log.count(says) == warns
    put(changing.key, changing.key)
    until(lambda: server.log.count("is loaded") == 2, 60)
    os.chmod(changing.key, 0o604)
    until(lambda: says.replace("0644", "0604") in server.log, 60)
    assert server.log.count(says) == 2 * warns


def test_a_certificate_that_has_become_a_huge_file_is_refused_unread(start_server, changing):
    server = start_server(tls=changing)
    os.truncate(changing.certificate, 1 << 30)
    until(lambda: "stays in use" in server.log, 60)
    assert f"--tls-cert {changing.certificate}: it has more than 16 MiB" in server.log
    assert serial_of(server, changing) == 1


@pytest.mark.parametrize(
    "flags, says",
    [
        (["--tls-cert", "{cert}"], "--tls-cert needs --tls-key"),
        (["--tls-key", "{key}"], "--tls-key needs --tls-cert"),
        (["--tls-client-ca", "{cert}"], "--tls-client-ca needs --tls-cert"),
        (
            ["--tls-cert", "{cert}", "--tls-key", "/nowhere/key"],
            "--tls-key /nowhere/key: No such file or directory",
        ),
        (["--tls-cert", "/", "--tls-key", "{key}"], "--tls-cert /: Is a directory"),
        (["--tls-cert", "{cert}", "--tls-key", "/dev/null"], "--tls-key /dev/null: "),
        (
            ["--tls-cert", "/dev/zero", "--tls-key", "{key}"],
            "--tls-cert /dev/zero: it has more than",
        ),
        (["--tls-cert", "{key}", "--tls-key", "{key}"], "The first file must hold the certificate"),
        (["--tls-cert", "{key}", "--tls-key", "{cert}"], "the second one its key as PEM"),
        (
            ["--tls-cert", "{cert}", "--tls-key", "{key}", "--tls-client-ca", "{key}"],
            "-client-ca",
        ),
    ],
)
def test_files_that_cannot_be_used_are_named_at_the_start(start_server, tls, flags, says):
    flags = [flag.format(cert=tls.certificate, key=tls.key) for flag in flags]
    server = start_server(*flags, tls=None, wait=False)
    assert server.wait() == 2
    assert says in server.log


def test_certificate_key_and_authorities_may_be_pipes(start_server, tmp_path):
    clients = Authority(tmp_path / "clients")
    tls = Tls(tmp_path / "server", clients)
    pipes = [tmp_path / name for name in ("certificate", "key", "authorities")]
    for pipe in pipes:
        os.mkfifo(pipe)
    flags = zip(("--tls-cert", "--tls-key", "--tls-client-ca"), pipes)
    server = start_server(*(str(word) for pair in flags for word in pair), wait=False)
    server.context = tls.shared
    for pipe, file in zip(pipes, (tls.certificate, tls.key, clients.certificate)):
        pipe.write_bytes(file.read_bytes())
    server.wait_ready()
    assert works(server)


def test_a_signal_ends_the_start_that_waits_for_a_key(start_server, tls, tmp_path):
    pipe = tmp_path / "key"
    os.mkfifo(pipe)
    server = start_server(
        "--tls-cert", str(tls.certificate), "--tls-key", str(pipe), tls=None, wait=False
    )
    with pipe_with_reader(pipe):
        server.signal(signal.SIGTERM)
        assert server.wait() == 1
    assert f"--tls-key {pipe}: told to stop" in server.log


# Clients with certificates -----------------------------------------------------------------------


@pytest.fixture
def mutual(tmp_path, start_server):
    clients = Authority(tmp_path / "clients")
    tls = Tls(tmp_path / "server", clients)
    return start_server(tls=tls), tls, clients


def refused(server, context):
    """Whether a request with this context is not answered."""
    try:
        with socket.create_connection(("127.0.0.1", server.port), 60) as raw:
            with context.wrap_socket(raw, server_hostname="localhost") as wire:
                wire.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
                return wire.recv(9) == b""
    except (ssl.SSLError, ConnectionError):
        return True


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_only_clients_with_a_certificate_of_the_authority_get_in(mutual, tmp_path, version):
    server, tls, clients = mutual
    stranger = Authority(tmp_path / "strangers").sign("stranger", "clientAuth")
    of_a_server = clients.sign("server", "serverAuth")
    for own, enters in (
        (tls.own, True),
        (None, False),
        (stranger, False),
        (of_a_server, False),
    ):
        context = tls.context(own)
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        assert refused(server, context) != enters, own
    assert works(server)


@pytest.mark.parametrize(
    "version, says", [("TLSv1_2", "handshake failure"), ("TLSv1_3", "certificate required")]
)
def test_a_client_without_certificate_gets_an_alert_that_says_so(mutual, version, says):
    server, tls, _ = mutual
    context = tls.context()
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    with socket.create_connection(("127.0.0.1", server.port), 60) as raw:
        with pytest.raises(ssl.SSLError) as error:
            wire = context.wrap_socket(raw, server_hostname="localhost")
            # in TLS 1.3 the handshake ends for the client before the server refuses it
            wire.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            wire.recv(1)
    assert says in str(error.value)


def prime(bits):
    text = subprocess.check_output(
        ["openssl", "prime", "-generate", "-bits", str(bits)], timeout=60
    )
    return int(text)


def ffdhe8192():
    """A prime of 8192 bits that is computed without a search (RFC 7919, A.5)."""
    e = term = 1 << 8130
    for factor in itertools.takewhile(lambda _: term, itertools.count(1)):
        term //= factor
        e += term
    return 2**8192 - 2**8128 + (((e >> 68) + 10965728) << 64) - 1


@pytest.mark.parametrize(
    "kind", ["a long exponent", "a long exponent of RSA-PSS", "a long modulus"]
)
def test_a_key_whose_signature_takes_long_to_check_is_refused_unchecked(
    start_server, tmp_path, kind
):
    clients = Authority(tmp_path / "clients")
    tls = Tls(tmp_path / "server", clients)
    server = start_server("--log-level", "debug", tls=tls)
    if kind == "a long modulus":
        own = costly_key(tmp_path, "costly", (ffdhe8192(), prime(256)), exponent=65537)
    else:
        own = costly_key(tmp_path, "costly", (prime(1024), prime(1024)), pss="PSS" in kind)
    context = tls.context(own)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The certificate is unsigned: if it were checked, the answer would be "unknown ca".
    with pytest.raises(ssl.SSLError, match="unsupported certificate"):
        with socket.create_connection(("127.0.0.1", server.port), 60) as raw:
            with context.wrap_socket(raw, server_hostname="localhost") as wire:
                wire.recv(1)
    until(lambda: "expected at most 8192 and 64: make a shorter key" in server.log, 60)
    assert not refused(server, tls.context(tls.own))


def names_of(count):
    return ",".join(f"DNS:{i:x}" for i in range(count))


def chain_file(name, own, *behind):
    """Write a certificate and those sent behind it to a file; returns the file and the key."""
    file = own[0].with_name(f"{name}.chain")
    file.write_bytes(b"".join(path.read_bytes() for path in (own[0], *behind)))
    return file, own[1]


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_chain_that_would_take_long_to_decode_is_refused_undecoded(
    start_server, tmp_path, version
):
    """A chain with the name of an authority is refused as well: anybody can copy this name."""
    clients = Authority(tmp_path / "clients")
    tls = Tls(tmp_path / "server", clients)
    server = start_server("--log-level", "debug", tls=tls)

    def told(own):
        context = tls.context(own)
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        try:
            with socket.create_connection(("127.0.0.1", server.port), 60) as raw:
                with context.wrap_socket(raw, server_hostname="localhost") as wire:
                    with contextlib.suppress(ssl.SSLEOFError, ConnectionError):
                        # In TLS 1.3 the handshake of a refused client may have ended before the
                        # refusal.
                        wire.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
                    return wire.recv(9).decode()
        except (ssl.SSLError, ConnectionError) as error:
            return str(error)

    few, many, thousands, bulky = (
        clients.sign(name, "clientAuth", names=names)
        for name, names in (
            ("few", names_of(100)),
            ("many", names_of(128)),
            ("thousands", names_of(3500)),
            ("bulky", ",".join(f"DNS:{'x' * 60}{i:02}.{'y' * 60}.example" for i in range(70))),
        )
    )
    for own, said in (
        (few, None),
        (chain_file("several", few, clients.certificate), None),
        (many, "an extension has 129 elements (names, for example), expected at most 128"),
        (thousands, "bytes, expected at most 8192"),
        (bulky, "bytes, expected at most 8192"),
        (chain_file("nine", few, *[clients.certificate] * 8), "more than 8 certificates were sent"),
        (chain_file("forms", few, *[few[0]] * 5), "elements of DER, expected at most 640"),
    ):
        if said is None:
            assert told(own) == "HTTP/1.1 ", own
        else:
            assert "unsupported certificate" in told(own), own
            until(lambda said=said: said in server.log, 60)
    assert "unknown ca" in told(Authority(tmp_path / "strangers", "s").sign("few", "clientAuth"))
    until(lambda: "its issuer is unknown, expected an authority of" in server.log, 60)


def test_certificates_between_client_and_authority_are_followed(start_server, tmp_path):
    clients = Authority(tmp_path / "clients")
    tls = Tls(tmp_path / "server", clients)
    server = start_server(tls=tls)
    inner = between(between(clients, "outer"), "inner")
    outer = clients.folder / "outer.pem"
    own = inner.sign("deep", "clientAuth")
    assert not refused(server, tls.context(chain_file("deep", own, inner.certificate, outer)))
    assert refused(server, tls.context(own))
    stranger = Authority(tmp_path / "strangers", "authority").sign("posing", "clientAuth")
    # this certificate has the authority's name, but not its signature
    assert refused(server, tls.context(stranger))


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_client_key_of_less_than_2048_bits_of_rsa_is_refused(mutual, version):
    server, tls, clients = mutual
    for bits, enters in ((2048, True), (1024, False)):
        own = clients.sign(f"rsa-{bits}", "clientAuth", kind=(*RSA, f"rsa_keygen_bits:{bits}"))
        context = ssl.create_default_context(cafile=tls.authority.certificate)
        # the client's own security level would refuse this
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.load_cert_chain(*own)
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        assert refused(server, context) != enters, bits


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_client_with_a_refused_certificate_gets_an_alert_with_the_reason(
    start_server, tmp_path, version
):
    clients = Authority(tmp_path / "clients")
    tls = Tls(tmp_path / "server", clients)
    server = start_server("--log-level", "debug", tls=tls)

    def told(own):
        """The server's error for this certificate; "" for an accepted one."""
        context = tls.context(own)
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        try:
            with socket.create_connection(("127.0.0.1", server.port), 60) as raw:
                with context.wrap_socket(raw, server_hostname="localhost") as wire:
                    wire.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    return wire.recv(9).decode()[9:]
        except ssl.SSLError as error:
            return str(error)

    stranger = Authority(tmp_path / "strangers").sign("stranger", "clientAuth")
    assert "unknown ca" in told(stranger)
    assert "unsupported certificate" in told(clients.sign("server", "serverAuth"))
    old = clients.sign("old", "clientAuth", days=0)
    until(lambda: "certificate expired" in told(old), 60)
    until(lambda: server.log.count("TLS: the certificate of 127.0.0.1 is refused: ") >= 3, 60)
    assert "expired" in server.log


def test_the_command_shows_its_certificate(mutual):
    server, tls, _ = mutual
    url = f"https://localhost:{server.port}"
    ours = [TALLY, "health", "--url", url, "--cacert", tls.authority.certificate, "--retries", "0"]
    certificate, key = tls.own
    done = subprocess.run([*ours, "--cert", certificate, "--key", key], timeout=60)
    assert done.returncode == 0
    done = subprocess.run(ours, capture_output=True, timeout=60)
    assert done.returncode != 0


def test_the_authorities_of_clients_change_too(mutual, tmp_path):
    server, tls, clients = mutual
    others = Authority(tmp_path / "others")
    other = tls.context(others.sign("other", "clientAuth"))
    assert refused(server, other)
    put(others.certificate, clients.certificate)
    until(lambda: not refused(server, other), 60)
    assert refused(server, tls.context(tls.own))
