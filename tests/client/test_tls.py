"""The `tally` command over TLS: a proxy with its own certificate in front of the real server.

Plain Python and openssl:  TALLY=build/bin/tally TALLY_URL=http://HOST:PORT python3 tests/client/test_tls.py
"""

import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse

from lib.accept import listen

TALLY = os.path.abspath(os.environ["TALLY"])
PLAIN = urllib.parse.urlsplit(os.environ["TALLY_URL"])
TENSOR, SUMS = b"[1, 2, 3]", [1, 3, 6]
UNREACHED = 3  # exit status: the server was not reached, or the connection broke


def tally(url, *arguments, before=()):
    """Sum a small tensor with the command, which runs under `before`. Returns exit status, answer,
    standard error."""
    command = [*before, TALLY, "cumsum", "--url", url, *arguments]
    done = subprocess.run(command, input=TENSOR, capture_output=True, timeout=60)
    assert b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr.decode()


def make_certificate(folder, name, host):
    """A self-signed certificate for this host only."""
    certificate, key = (os.path.join(folder, f"{name}.{kind}") for kind in ("pem", "key"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        + ["-nodes", "-days", "2", "-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}"]
        + ["-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    return certificate, key


class Proxy:
    """Terminates TLS and forwards every byte to the server."""

    def __init__(self, certificate, key):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        self.passed = 0  # connections whose handshake succeeded
        self.listener = listen(self._serve)
        self.port = self.listener.getsockname()[1]

    def _serve(self, raw):
        try:
            with self.context.wrap_socket(raw, server_side=True) as client:
                self.passed += 1
                with socket.create_connection((PLAIN.hostname, PLAIN.port)) as server:
                    answers = threading.Thread(target=self._pump, args=(server, client))
                    answers.start()
                    self._pump(client, server)
                    answers.join()
        except OSError:
            pass  # the client refused the certificate

    @staticmethod
    def _pump(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.certificate, key = make_certificate(cls.folder.name, "server", "localhost")
        cls.stranger, _ = make_certificate(cls.folder.name, "stranger", "localhost")
        cls.proxy = Proxy(cls.certificate, key)
        cls.url = f"https://localhost:{cls.proxy.port}"
        cls.other_name = f"https://127.0.0.1:{cls.proxy.port}"

    @classmethod
    def tearDownClass(cls):
        cls.proxy.listener.close()
        cls.folder.cleanup()

    def expect_sums(self, *arguments):
        passed = self.proxy.passed
        status, out, told = tally(*arguments)
        self.assertEqual((status, told), (0, ""))
        answer = json.loads(out)
        self.assertEqual(answer["data"] if isinstance(answer, dict) else answer, SUMS)
        self.assertGreater(self.proxy.passed, passed)

    def expect_refusal(self, words, *arguments):
        status, out, told = tally(*arguments)
        self.assertEqual((status, out), (UNREACHED, b""))
        self.assertRegex(told.lower(), words)
        self.assertEqual(len(told.strip().splitlines()), 1, told)

    def test_an_unknown_authority_is_refused(self):
        self.expect_refusal("certificate.*trust.*--cacert", self.url)

    def test_another_authority_is_refused(self):
        self.expect_refusal("certificate", self.url, "--cacert", self.stranger)

    def test_the_authority_that_is_named_is_accepted(self):
        self.expect_sums(self.url, "--cacert", self.certificate)

    def test_the_authorities_of_the_system_are_not_trusted_beside_the_one_that_is_named(self):
        """The server's authority is in the system's folder, which libcurl searches by default."""
        trusted = os.path.join(self.folder.name, "system")
        # its subject is not that of the server's authority
        other, _ = make_certificate(self.folder.name, "other", "other.test")
        of_subject = ["openssl", "x509", "-noout", "-hash", "-in", self.certificate]
        name = subprocess.run(of_subject, check=True, capture_output=True, text=True).stdout.strip()
        os.mkdir(trusted)
        for link in (f"{name}.0", "ca-certificates.crt"):
            os.symlink(self.certificate, os.path.join(trusted, link))
        user = ["--user", "--map-root-user"] * (os.getuid() != 0)
        command = f'mount --bind "{trusted}" /etc/ssl/certs && exec "$0" "$@"'
        there = ("unshare", "--mount", *user, "sh", "-c", command)
        if subprocess.run([*there, "true"], capture_output=True).returncode != 0:
            self.skipTest("no folder can be put in the place of another here")
        passed = self.proxy.passed
        status, _, told = tally(self.url, before=there)
        if status != 0:
            self.skipTest(f"this libcurl looks for authorities elsewhere: {told}")
        status, out, told = tally(self.url, "--cacert", other, before=there)
        self.assertEqual((status, out), (UNREACHED, b""), told)
        self.assertEqual(self.proxy.passed, passed + 1)

    def test_a_certificate_for_another_host_is_refused(self):
        words = "certificate|host name|hostname|does not match|subject name"
        self.expect_refusal(words, self.other_name, "--cacert", self.certificate)
        self.assertNotIn("--cacert", tally(self.other_name, "--cacert", self.certificate)[2])

    def test_insecure_accepts_whatever_certificate(self):
        for flag in ("-k", "--insecure"):
            self.expect_sums(self.url, flag)
            self.expect_sums(self.other_name, flag)

    def test_a_file_that_is_not_there_is_wrong_usage(self):
        """The command must not retry: the file would still be missing."""
        missing = os.path.join(self.folder.name, "missing.pem")
        for options in (("--cacert", missing), ("-k", "--cert", missing)):
            status, out, told = tally(self.url, *options)
            self.assertEqual((status, out), (2, b""), told)
            self.assertRegex(told, "cannot use a certificate.*missing.pem")

    def test_a_port_without_tls_is_said_to_be_one(self):
        url = f"https://{PLAIN.hostname}:{PLAIN.port}"
        self.expect_refusal("speaks no tls, its address begins with http://", url, "-k")

    def test_a_port_with_tls_does_not_answer_plain_http(self):
        status, out, told = tally(self.url.replace("https", "http"))
        self.assertEqual((status, out), (UNREACHED, b""))
        self.assertNotEqual(told, "")

    def test_a_port_that_says_nothing_to_plain_http_may_speak_tls(self):
        def close(connection):
            with connection:
                connection.recv(65536)

        listener = listen(close)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.expect_refusal("speaks tls, its address begins with https://", url)
        listener.close()

    def test_other_commands_take_the_options_too(self):
        for command in ("health", "version", "devices"):
            for arguments, status in (((), UNREACHED), (("--cacert", self.certificate), 0)):
                done = subprocess.run(
                    [TALLY, command, "--url", self.url, *arguments], capture_output=True, timeout=60
                )
                self.assertEqual(done.returncode, status, (command, arguments, done.stderr))


if __name__ == "__main__":
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2)
    result = unittest.main(exit=False, testRunner=runner).result
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)
