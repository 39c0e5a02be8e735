"""TLS, client certificates and tokens, against a server with certificates made by the test."""

import pathlib
import socket
import ssl
import subprocess
import threading

import numpy as np
import pytest
import tally
from lying_server import INPUT, SUMS, LyingServer, Told, error, tensor

X = np.array(INPUT, np.float32)
LARGE = np.ones(1 << 20, np.float32)  # 4 MiB, more than a socket buffer holds


def script(seen):
    if len(seen.body) == LARGE.nbytes:
        return tensor(shape=str(LARGE.size), body=seen.body[::-1])
    return tensor()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """name -> (certificate, key): each certificate is self-signed, for localhost."""
    folder = tmp_path_factory.mktemp("tls")

    def make(name):
        certificate, key = str(folder / f"{name}.pem"), str(folder / f"{name}.key")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
            + ["-nodes", "-days", "2", "-subj", f"/CN={name}"]
            + ["-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
            check=True,
            capture_output=True,
        )
        return certificate, key

    return {name: make(name) for name in ("server", "stranger", "client")}


@pytest.fixture
def secure(certificates):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificates["server"])
    with LyingServer(script, tls=context) as server:
        yield server


def test_the_authority_that_is_named_is_accepted(connect, secure, certificates):
    client = connect(secure.url, ca_file=certificates["server"][0])
    for _ in range(5):
        assert client.cumsum(X, 0).tolist() == SUMS
        assert client.cumsum(LARGE, 0).tobytes() == LARGE.tobytes()[::-1]
    assert secure.connections == 1


def test_other_authorities_are_refused(connect, secure, certificates):
    for options in ({}, {"ca_file": certificates["stranger"][0]}):
        with pytest.raises(tally.ConnectFailed, match="(?i)certificate.* trust: ca_file"):
            connect(secure.url, **options).cumsum(X, 0)
    assert secure.requests == 0


def test_a_certificate_for_another_host_is_refused(connect, secure, certificates):
    url = secure.url.replace("localhost", "127.0.0.1")
    with pytest.raises(tally.ConnectFailed, match="(?i)certificate|mismatch") as caught:
        connect(url, ca_file=certificates["server"][0]).cumsum(X, 0)
    assert "ca_file" not in str(caught.value)
    assert connect(url, insecure=True).cumsum(X, 0).tolist() == SUMS


def test_a_client_certificate_is_shown(connect, certificates):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificates["server"])
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificates["client"][0])
    trusted = {"ca_file": certificates["server"][0]}
    with LyingServer(script, tls=context) as server:
        certificate, key = certificates["client"]
        client = connect(server.url, client_cert=certificate, client_key=key, **trusted)
        assert client.cumsum(X, 0).tolist() == SUMS
        for shown in ({}, dict(zip(("client_cert", "client_key"), certificates["stranger"]))):
            with pytest.raises(tally.TallyError) as caught:
                connect(server.url, retries=0, **shown, **trusted).cumsum(X, 0)
            assert isinstance(caught.value, ConnectionError)
        assert server.requests == 1


def test_a_port_without_tls_is_no_connection(connect):
    with LyingServer(script) as server:
        url = server.url.replace("http", "https")
        with pytest.raises(tally.ConnectFailed):
            connect(url, insecure=True, connect_timeout=0.5).cumsum(X, 0)


def test_a_url_of_the_other_kind_is_said_to_be_one(connect, server):
    with pytest.raises(tally.ConnectFailed, match="speaks no TLS, its URL begins with http://"):
        connect(server.url.replace("http", "https"), insecure=True).cumsum(X, 0)
    # A tallyd with TLS also closes a plain connection without an answer.
    with LyingServer(lambda seen: Told(b"", close=True)) as silent:
        with pytest.raises(tally.ConnectionLost, match="speaks TLS, its URL begins with https://"):
            connect(silent.url, retries=0).cumsum(X, 0)


def test_a_server_that_closes_at_the_first_word_of_tls_may_speak_none(connect):
    """A plain server reads the first bytes of TLS as a request line. If this line has no blank,
    libmicrohttpd closes the connection without an answer."""

    def close_at_a_word(listener):
        with listener.accept()[0] as taken:
            taken.recv(1 << 16)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        closing = threading.Thread(target=close_at_a_word, args=[listener])
        closing.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(tally.ConnectFailed, match="speaks no TLS, its URL begins with http://"):
            connect(url, insecure=True).cumsum(X, 0)
        closing.join()


@pytest.mark.parametrize("kind", [str, pathlib.Path])
def test_a_file_that_is_missing_is_named(connect, kind):
    with pytest.raises(tally.InvalidArgument, match="missing.pem"):
        connect("https://localhost:1", ca_file=kind("/nonexistent/missing.pem"))


def test_a_file_of_authorities_without_a_name_does_not_mean_the_systems(connect):
    with pytest.raises(tally.InvalidArgument, match="ca_file is empty") as caught:
        connect("https://localhost:1", ca_file="")
    assert caught.value.field == "ca_file"


def test_a_token_is_sent_and_its_refusal_is_told(connect):
    def guarded(seen):
        if "Authorization: Bearer s3cret\r\n" in seen.head:
            return tensor()
        return error(
            401, body='{"error":"the token is unknown to this server","code":"unauthorized"}'
        )

    with LyingServer(guarded) as server:
        assert connect(server.url, token="s3cret").cumsum(X, 0).tolist() == SUMS
        with pytest.raises(tally.Rejected, match="unknown") as caught:
            connect(server.url, token="other").cumsum(X, 0)
        assert (caught.value.status, caught.value.code) == (401, "unauthorized")


@pytest.mark.parametrize("token", ["", "a\r\nX-Evil: 1", "é", "a\0"])
def test_a_token_that_is_no_header_is_refused(connect, token):
    with pytest.raises(tally.InvalidArgument, match="token"):
        connect(token=token)
