"""The `tally` command: against the real server in TALLY_URL, and against servers that misbehave.

Plain Python, without packages:  TALLY=build/bin/tally TALLY_URL=... python3 tests/client/test_cli.py
"""

import fcntl
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

from lib.accept import listen

TALLY = os.path.abspath(os.environ["TALLY"])
URL = os.environ["TALLY_URL"]
# factor by which an instrumented build is slower
SLOW = float(os.environ.get("TALLY_TEST_SLOW", "1"))
COMMANDS = ["cumsum", "devices", "health", "version", "console", "token", "completion"]


def tally(*arguments, stdin=b"", env=None, url=URL, cwd=None):
    environment = {**os.environ, "TALLY_URL": url, **(env or {})}
    done = subprocess.run(
        [TALLY, *arguments], input=stdin, capture_output=True, env=environment, cwd=cwd, timeout=120
    )
    # An instrumented build must not report a fault.
    assert b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr, done.stderr
    return done


def npy(descr, shape, data, fortran=False):
    text = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, tuple(shape))
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


def npy_parts(file):
    length = struct.unpack("<H", file[8:10])[0]
    return file[10 : 10 + length].decode(), file[10 + length :]


class Server:
    """Answers the requests of each connection with the result of `script(number, head, body)`:
    bytes to send before the connection is closed; a generator of pieces; or None."""

    def __init__(self, script, read_rate=None, expected=b"100 Continue"):
        self.script, self.read_rate, self.expected = script, read_rate, expected
        self.count = 0
        self.heads = []
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        self.listener = listen(self._serve)
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.listener.close()

    def _serve(self, connection):
        try:
            with connection:
                while self._exchange(connection):
                    pass
        except OSError:
            pass

    def _exchange(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return False
            data += piece
        head, body = data.split(b"\r\n\r\n", 1)
        length = int((re.search(rb"(?i)content-length: *(\d+)", head) or [0, 0])[1])
        if b"100-continue" in head:
            connection.sendall(b"HTTP/1.1 " + self.expected + b"\r\n\r\n")
            if b"100" not in self.expected:
                return False
        got = len(body)
        body = [body]
        while got < length:
            if self.read_rate:
                time.sleep(65536 / self.read_rate)
            piece = connection.recv(65536)
            if not piece:
                return False
            body.append(piece)
            got += len(piece)
        with self.lock:
            number, self.count = self.count, self.count + 1
            self.heads.append(head.decode("latin1"))
        answer = self.script(number, head.decode("latin1"), b"".join(body))
        if answer is None:
            self.stopped.wait(30)
            return False
        keep = False
        if isinstance(answer, tuple):
            answer, keep = answer[0], True
        for piece in [answer] if isinstance(answer, bytes) else answer:
            connection.sendall(piece)
        return keep


def answer(body, content_type="application/json", status="200 OK", headers=""):
    text = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return (text + headers + "\r\n").encode() + body


def sums(data, dtype, shape):
    """A correct answer to raw bytes, the form in which parts of files are sent."""
    headers = f"Tally-Dtype: {dtype}\r\nTally-Shape: {shape}\r\n"
    return answer(data, "application/octet-stream", headers=headers)


class Terminal:
    """Runs `tally` with standard error on a terminal; collects the text that it shows."""

    def __init__(self, *arguments, env=None, url=URL, columns=100, stdout=subprocess.PIPE):
        mine, theirs = pty.openpty()
        environment = {**os.environ, "TALLY_URL": url, "TERM": "xterm", **(env or {})}
        if "NO_COLOR" not in (env or {}):
            environment.pop("NO_COLOR", None)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(
            [TALLY, *arguments],
            stderr=theirs,
            stdout=stdout,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
        os.close(theirs)
        self.mine = mine
        self.shown = b""

    def read(self, until=None, seconds=60):
        end = time.time() + seconds
        while time.time() < end and (until is None or until not in self.shown):
            if select.select([self.mine], [], [], 0.1)[0]:
                try:
                    piece = os.read(self.mine, 65536)
                except OSError:
                    piece = b""
                if not piece:
                    break
                self.shown += piece
        return self.shown

    def finish(self):
        self.read()
        status = self.process.wait(60)
        os.close(self.mine)
        if self.process.stdout:
            self.process.stdout.close()
        return status


class Directory(unittest.TestCase):
    """A test case with a temporary folder."""

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def path(self, name, content=None):
        path = os.path.join(self.directory.name, name)
        if content is not None:
            with open(path, "wb") as file:
                file.write(content)
        return path

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def files(self):
        return sorted(os.listdir(self.directory.name))

    def assert_done(self, done):
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def assert_failed(self, done, status, *texts):
        self.assertEqual(done.returncode, status, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr.decode())
        self.assertNotIn(b"\033", done.stderr)


class Cumsum(Directory):
    def test_npy_file_to_npy_file(self):
        data = struct.pack("<6f", 1, 2, 3, 10, 20, 30)
        source = self.path("in.npy", npy("<f4", (2, 3), data))
        self.assert_done(tally("cumsum", source, "-o", self.path("out.npy"), "--axis", "1"))
        header, data = npy_parts(self.read("out.npy"))
        self.assertIn("'<f4'", header)
        self.assertIn("(2, 3)", header)
        self.assertEqual(struct.unpack("<6f", data), (1, 3, 6, 10, 30, 60))
        self.assertEqual(self.files(), ["in.npy", "out.npy"])

    def test_a_result_goes_where_a_link_leads(self):
        source = self.path("in.npy", npy("|u1", (2,), b"\1\2"))
        os.mkdir(self.path("links"))
        self.path("out.bin", b"before")
        os.symlink("../out.bin", self.path("links/one"))
        os.symlink("one", self.path("links/two"))
        os.symlink("/proc/self/fd/1", self.path("links/stdout"))
        self.assert_done(tally("cumsum", source, "-F", "raw", "-o", self.path("links/two")))
        self.assertEqual(self.read("out.bin"), b"\1\3")
        with open(self.path("out.bin"), "ab") as log:
            command = [TALLY, "cumsum", source, "-F", "raw", "-o", self.path("links/stdout")]
            subprocess.run([*command, "-u", URL], stdout=log, check=True)
        self.assertEqual(self.read("out.bin"), b"\1\3\1\3")
        self.assertEqual(sorted(os.listdir(self.path("links"))), ["one", "stdout", "two"])
        self.assertEqual(self.files(), ["in.npy", "links", "out.bin"])

    def test_a_result_goes_where_a_link_leads_to_nothing_yet(self):
        source = self.path("in.npy", npy("|u1", (2,), b"\1\2"))
        os.mkdir(self.path("links"))
        os.symlink("../out.bin", self.path("links/one"))
        os.symlink("nowhere/out.bin", self.path("links/lost"))
        for flags in (["--frobnicate"], []):
            done = tally("cumsum", source, "-F", "raw", "-o", self.path("links/one"), *flags)
            self.assertEqual(done.returncode == 0, "out.bin" in self.files(), done.stderr)
        self.assertEqual(self.read("out.bin"), b"\1\3")
        os.unlink(self.path("out.bin"))
        with Server(lambda *_: answer(b"{}", status="400 X")) as s:
            done = tally("cumsum", source, "-F", "raw", "-o", self.path("links/one"), url=s.url)
        self.assertEqual(done.returncode == 0, "out.bin" in self.files(), done.stderr)
        done = tally("cumsum", source, "-F", "raw", "-o", self.path("links/lost"))
        self.assert_failed(done, 7, "links/lost: No such file or directory")
        self.assertTrue(all(os.path.islink(self.path("links/" + n)) for n in ("one", "lost")))
        self.assertEqual(sorted(os.listdir(self.path("links"))), ["lost", "one"])
        self.assertEqual(self.files(), ["in.npy", "links"])

    def test_a_file_that_says_it_is_empty_and_is_not_is_read(self):
        with open("/proc/version", "rb") as file:
            self.assertEqual(os.fstat(file.fileno()).st_size, 0)
            data = file.read()
        described = ["-f", "raw", "-d", "uint8", "-s", "-1"]
        expected = bytes(sum(data[: i + 1]) % 256 for i in range(len(data)))
        done = tally("cumsum", "/proc/version", *described)
        self.assert_done(done)
        self.assertEqual(done.stdout, expected)
        with open("/proc/version", "rb") as file:
            done = subprocess.run(
                [TALLY, "cumsum", *described], stdin=file, capture_output=True, check=True
            )
        self.assertEqual(done.stdout, expected)
        done = tally("cumsum", self.path("empty", b""), *described, "-F", "npy")
        self.assert_done(done)
        self.assertIn(b"'shape': (0,)", done.stdout)

    def test_flags_reach_the_server(self):
        source = self.path("in.npy", npy("<i8", (4,), struct.pack("<4q", 1, 2, 3, 4)))
        for flags, expected in [
            ([], (1, 3, 6, 10)),
            (["--exclusive"], (0, 1, 3, 6)),
            (["--reverse"], (10, 9, 7, 4)),
            (["--exclusive", "--reverse", "-a", "-1"], (9, 7, 4, 0)),
        ]:
            done = tally("cumsum", source, *flags)
            self.assert_done(done)
            self.assertEqual(struct.unpack("<4q", npy_parts(done.stdout)[1]), expected)

    def test_options_and_operands_come_in_any_order(self):
        source = self.path("-in.bin", struct.pack("<4B", 1, 2, 3, 4))
        shape = ["-duint8", "-s4", "--reverse", "-qa", "-1"]
        for arguments in (
            [*shape, source],
            [source, *shape],
            ["--dtype=uint8", source, "--shape=4", "--rev", "-q", "--axis=-1"],
            [*shape, "--", "-in.bin"],
        ):
            with self.subTest(arguments=arguments):
                for posix in ({}, {"POSIXLY_CORRECT": "1"}):
                    done = tally("cumsum", *arguments, cwd=self.directory.name, env=posix)
                    self.assert_done(done)
                    self.assertEqual(done.stdout, bytes([10, 9, 7, 4]))

    def test_fortran_order_and_big_endian_input(self):
        file = npy(">i4", (2, 2), struct.pack(">4i", 1, 3, 2, 4), True)
        for name, stdin in ((self.path("in.npy", file), b""), ("-", file)):
            for flags, expected in (([], (1, 3, 3, 7)), (["-F", "raw"], (1, 3, 3, 7))):
                done = tally("cumsum", name, "--axis=1", *flags, stdin=stdin)
                self.assert_done(done)
                self.assertEqual(struct.unpack("<4i", done.stdout[-16:]), expected)

    def test_raw_files(self):
        source = self.path("in.bin", struct.pack("<4H", 1, 2, 3, 65535))
        shape = ["--dtype", "uint16", "--shape", "2,2", "-a", "1"]
        self.assert_done(tally("cumsum", source, "-o", self.path("out.bin"), *shape))
        self.assertEqual(struct.unpack("<4H", self.read("out.bin")), (1, 3, 3, 2))
        self.assert_done(tally("cumsum", source, "-o", self.path("out.npy"), *shape))
        self.assertIn("'<u2'", npy_parts(self.read("out.npy"))[0])
        done = tally("cumsum", source, "-F", "json", *shape)
        self.assert_done(done)
        self.assertEqual(json.loads(done.stdout), [[1, 3], [3, 2]])

    def test_raw_strides(self):
        source = self.path("in.bin", struct.pack("<6i", 1, 10, 2, 20, 3, 30))
        shape = [
            "-d",
            "int32",
            "-s",
            "2,3",
            "-a",
            "1",
            "--strides",
            "1,2",
            "--output-strides",
            "4,1",
        ]
        done = tally("cumsum", source, *shape)
        self.assert_done(done)
        self.assertEqual(struct.unpack("<7i", done.stdout), (1, 3, 6, 0, 10, 30, 60))
        done = tally("cumsum", source, *shape, "--exclusive", "--reverse")
        self.assert_done(done)
        self.assertEqual(struct.unpack("<7i", done.stdout), (5, 3, 0, 0, 50, 30, 0))

    def test_json_from_a_pipe(self):
        for text, flags, expected in [
            ("[[1,2],[3,4]]", ["--axis", "1"], [[1, 3], [3, 7]]),
            ("[1.5, 2]", [], [1.5, 3.5]),
            ("[18446744073709551615, 2]", ["--dtype", "uint64"], [18446744073709551615, 1]),
            ("[1,2,3,4]", ["--shape", "2,2", "--axis", "0"], [1, 2, 4, 6]),
            ("[1,2,3]", ["--exclusive"], [0, 1, 3]),
            ("[1,2,3]", ["--reverse"], [6, 5, 3]),
            ("[]", [], []),
        ]:
            done = tally("cumsum", *flags, stdin=text.encode())
            self.assert_done(done)
            self.assertEqual(json.loads(done.stdout), expected)

    def test_a_json_object_is_a_whole_request(self):
        done = tally("cumsum", stdin=b' {"data":[1,2],"exclusive":true}')
        self.assert_done(done)
        self.assertEqual(json.loads(done.stdout), {"dtype": "int64", "shape": [2], "data": [0, 1]})
        for option in ("--reverse", "--axis=0", "--dtype=int8", "--shape=2", "--offsets=o"):
            done = tally("cumsum", option, stdin=b'{"data":[1,2]}')
            self.assert_failed(done, 2, "write the options into it")
        done = tally("cumsum", "-F", "npy", stdin=b'{"data":[1,2]}')
        self.assert_failed(done, 2, "give the array alone for a result in another format")
        source = self.path("in.json", b'{"data":[1,2]}')
        self.assert_done(tally("cumsum", source, "-o", self.path("out.json")))
        self.assertEqual(json.loads(self.read("out.json"))["data"], [1, 3])
        done = tally("cumsum", stdin=b'{"data":[1,2],"axis":7}')
        self.assert_failed(done, 1, "HTTP 400", "code invalid_axis", "field axis", "request ")

    def test_json_arrays_have_layouts(self):
        for text, flags, expected in (
            ("[1,10,2,20,3,30]", "-s 2,3 -a 1 --strides 1,2", [1, 3, 6, 10, 30, 60]),
            ("[1,10,2,20,3,30,9]", "-s 2,3 -a 1 --strides 1,2", [1, 3, 6, 10, 30, 60]),
            ("[1,2,3]", "-s 2,3 --strides 0,1", [1, 2, 3, 2, 4, 6]),
            ("[1,2,3]", "--output-strides 2", [1, 0, 3, 0, 6]),
            ("[1,2,3,4]", "-s 2,2 -a 1 --output-strides 3,1", [1, 3, 0, 3, 7]),
            ("[[[]],[[]]]", "-s 2,1,0,3", [[[]], [[]]]),
        ):
            with self.subTest(text=text, flags=flags):
                done = tally("cumsum", *flags.split(), stdin=text.encode())
                self.assert_done(done)
                self.assertEqual(json.loads(done.stdout), expected)
        offsets = self.path("o.txt", b"0\n1\n3\n")
        done = tally(
            *("cumsum", "-s", "3", "--strides", "2", "--offsets", offsets), stdin=b"[1,0,2,0,3]"
        )
        self.assertEqual(json.loads(done.stdout), [1, 2, 5])
        for text, flags, *says in (
            ("[1,2,3]", "-s 2,2", "standard input has 3 numbers, expected the product"),
            ("[1,2,3]", "-s -1", "standard input has 3 numbers"),
            ("[1,2,3]", "-s 2,3 --strides 2,1", "24 bytes of int64", "make 40"),
            ("[1,2,3]", "-s 3 --strides 1,1", "--strides has 2 numbers, and the shape has 1"),
            ("[1,2,3]", "--output-strides 1,1", "--output-strides has 2 numbers"),
            ("[[1,2],[3,4]]", "-s 4,1", "--shape is another than its own"),
            ("[[1,2],[3,4]]", "--output-strides 3,1", "strides lay out a flat one"),
            ("[[1,2],[3]]", "", "standard input: [1] has 1 element, but [0] has 2"),
            ("[[1,2],[3,x]]", "", "standard input: [1][1]: element 3 is 'x', expected a number"),
            ("[1,2.5]", "-d int8", "[1]: element 1 is 2.5, expected a whole number for int8"),
        ):
            with self.subTest(text=text, flags=flags):
                done = tally(
                    "cumsum", *flags.split(), stdin=text.encode(), url="http://127.0.0.1:1"
                )
                self.assert_failed(done, 2, *says)

    def test_json_goes_in_parts_too(self):
        rows = [[i * j % 7 for j in range(50)] for i in range(40)]
        for axis in ("0", "1"):
            whole, parts = (
                tally("cumsum", "-a", axis, "--part-bytes", size, stdin=json.dumps(rows).encode())
                for size in ("64MiB", "800")
            )
            self.assert_done(parts)
            self.assertEqual(parts.stdout, whole.stdout)

    def test_json_becomes_a_file(self):
        self.assert_done(
            tally("cumsum", "-o", self.path("out.npy"), "-d", "float64", stdin=b"[1,2]")
        )
        self.assertEqual(struct.unpack("<2d", npy_parts(self.read("out.npy"))[1]), (1, 3))
        self.assert_done(tally("cumsum", "-o", self.path("out.json"), stdin=b"[1,2]"))
        self.assertEqual(json.loads(self.read("out.json")), [1, 3])

    def test_binary_pipes(self):
        file = npy("<f8", (3,), struct.pack("<3d", 0.5, 1, 2))
        for names in ([], ["-"], ["-", "-o", "-"]):
            done = tally("cumsum", *names, stdin=file)
            self.assert_done(done)
            self.assertEqual(struct.unpack("<3d", npy_parts(done.stdout)[1]), (0.5, 1.5, 3.5))

    def test_standard_input_begins_where_it_stands(self):
        source = self.path("in.bin", struct.pack("<4q", 50, 60, 1, 2))
        with open(source, "rb", buffering=0) as file:
            file.seek(16)
            command = [
                TALLY,
                "cumsum",
                "-u",
                URL,
                *["-f", "raw", "-d", "int64", "-s", "2", "-F", "json"],
            ]
            done = subprocess.run(command, stdin=file, capture_output=True, timeout=60)
        self.assert_done(done)
        self.assertEqual(json.loads(done.stdout), [1, 3])

    def test_a_file_can_be_its_own_output(self):
        source = self.path("x.npy", npy("<i4", (3,), struct.pack("<3i", 1, 1, 1)))
        os.chmod(source, 0o640)
        self.assert_done(tally("cumsum", source, "-o", source))
        self.assertEqual(struct.unpack("<3i", npy_parts(self.read("x.npy"))[1]), (1, 2, 3))
        self.assertEqual(os.stat(source).st_mode & 0o777, 0o640)

    def test_standard_output_is_not_the_input(self):
        """A command that reads its own output would never end, or would sum its own results."""
        source = self.path("in.csv", b"1,2\n3,4\n")
        for line in ("cumsum in.csv >>in.csv", "cumsum -f csv <in.csv 1<>in.csv"):
            done = subprocess.run(
                ["sh", "-c", f"{TALLY} {line}"],
                cwd=self.directory.name,
                capture_output=True,
                timeout=60,
            )
            self.assert_failed(done, 2, "standard output is the input", "-o FILE")
        self.assert_done(tally("cumsum", source, "-o", source))
        self.assertEqual(self.read("in.csv"), b"1,2\n4,6\n")

    def test_empty_tensors(self):
        done = tally("cumsum", self.path("e.npy", npy("<f4", (0, 3), b"")))
        self.assert_done(done)
        self.assertIn("(0, 3)", npy_parts(done.stdout)[0])

    def test_a_larger_file_arrives_whole(self):
        count = 1 << 21
        source = self.path("big.npy", npy("|u1", (count,), b"\x01" * count))
        self.assert_done(tally("cumsum", source, "-o", self.path("out.npy")))
        self.assertEqual(
            npy_parts(self.read("out.npy"))[1],
            bytes(range(1, 256)) + b"\0" + (bytes(range(1, 256)) + b"\0") * (count // 256 - 1),
        )

    # -- failures --

    def test_a_refusal_names_code_field_and_request(self):
        source = self.path("in.json", b"[1, 2]")
        keep = self.path("out.npy", b"precious")
        refusal = answer(
            b'{"error":"no axis","code":"invalid_axis","field":"axis"}',
            status="400 X",
            headers="X-Request-Id: seven\r\n",
        )
        with Server(lambda *_: refusal) as s:
            done = tally("cumsum", source, "-o", keep, url=s.url)
        says = ("no axis", "HTTP 400", "code invalid_axis", "field axis", "request seven")
        self.assert_failed(done, 1, *says)
        self.assertEqual(self.read("out.npy"), b"precious")
        self.assertEqual(self.files(), ["in.json", "out.npy"])

    def test_a_file_of_another_kind_is_named_before_it_is_sent(self):
        """The command detects the kind by the content, not by the name or --format, and sends
        no request."""
        file = npy("<f4", (2,), bytes(8))
        for name, content, flags, *texts in [
            ("x.json", file, [], "x.json looks like an NPY file", "--format npy"),
            ("x", b"PK\x03\x04\x14\x00" + bytes(40), [], "looks like a ZIP archive", "numpy.save"),
            ("x.xlsx", b"PK\x03\x04\x14\x00" + bytes(40), [], "XLSX", "the sheet as CSV"),
            ("x.npy", b"PK\x03\x04\x14\x00" + bytes(40), [], "not an NPY file", "ZIP archive"),
            ("x.npy", b'{"data":[1,2]}', [], "not an NPY file", "looks like JSON", "--format json"),
            (
                "x.npy",
                b"\x1f\x8b\x08\x00" + bytes(9),
                [],
                "looks like gzip",
                "zcat FILE | tally cumsum",
            ),
            ("x.json", b"1,2\n3,4\n", [], "x.json looks like CSV", "--format text, or csv"),
            ("x", b"[[1. 2.]\n [3. 4.]]\n", [], "looks like a printed array", "x.tolist()"),
            ("x", b"{'data': [1]}", [], "looks like a printed Python dictionary"),
            ("x.pkl", b"\x80\x04\x95\x00\x00", [], "looks like a Python pickle"),
            ("x.json", b"\xff\xfe[\x001\x00]\x00", [], "UTF-16", "UTF-8"),
            ("x.bin", file, ["-d", "float32", "-s", "2"], "looks like an NPY file", "--format npy"),
            ("x", b"[1, 2]", ["-d", "float32", "-s", "2"], "looks like JSON", "--format json"),
        ]:
            with self.subTest(name=name, content=content[:20]):
                done = tally("cumsum", self.path(name, content), *flags, url="http://127.0.0.1:1")
                self.assert_failed(done, 2, *texts)

    def test_what_is_no_json_is_refused_before_all_of_it_is_there(self):
        """The input may have no end, and JSON is kept in memory as a whole."""
        process = subprocess.Popen(
            [TALLY, "cumsum", "-u", URL], stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            process.stdin.write(b" \0\1\2" * 256)
            process.stdin.flush()
            self.assertEqual(process.wait(20), 2)
            self.assertIn(
                b"byte 2 is 0x00, expected NPY, a JSON array such as", process.stderr.read()
            )
        finally:
            process.kill()
            process.communicate()

    def test_places_and_sizes_are_those_of_the_users_text(self):
        """Positions and sizes in errors refer to the text that the user gave, not to the
        request that the command makes of it."""
        for text, *says in [
            (b"[1,2]]", "byte 6", "']'", "behind the array"),
            (b" [[1,2],\n[3,4]] x", "byte 17", "'x'", "behind the array"),
            (b"[1,2,3", "6 bytes", "']' is missing"),
            (b'["a', "']' is missing"),
            (b"\n nonsense", "byte 3", "'n'", "expected NPY, a JSON array"),
            (b" " * 1000 + b"nonsense", "byte 1001", "'n'", "expected an array"),
        ]:
            with self.subTest(text=text):
                done = tally("cumsum", stdin=text, url="http://127.0.0.1:1")
                self.assert_failed(done, 2, "standard input", *says)
        done = tally("cumsum", "-f", "json", stdin=b"5", url="http://127.0.0.1:1")
        self.assert_failed(done, 2, "byte 1 is '5', expected an array such as")
        # An error inside the brackets names the number of the element, not its byte.
        self.assert_failed(tally("cumsum", stdin=b"[1,2,x]"), 2, "[2]: element 2 is 'x'")
        deep = b"[" * 65 + b"]" * 65
        self.assert_failed(tally("cumsum", stdin=deep), 2, "nested more than 64 levels deep")

    def test_wrong_usage(self):
        source = self.path("in.npy", npy("<f4", (2,), bytes(8)))
        raw = self.path("in.bin", bytes(10))
        for arguments, *texts in [
            (["frobnicate"], "--help"),
            (["cumsum", "--frob"], "--help"),
            (["cumsun"], "did you mean cumsum?"),
            (["cumsum", source, "--exclsive"], "did you mean --exclusive?"),
            (["health", "--exclsive"], "`tally health --help` lists them"),
            (["cumsum", source, "--forma", "jsn"], "did you mean json?"),
            (["cumsum", source, "-qx"], "unknown option -x"),
            (["--exclusive", "health"], "unknown option --exclusive; `tally health --help` lists"),
            (["health", "--output", "x"], "unknown option --output; `tally health --help` lists"),
            (["cumsum", "--version"], "unknown option --version"),
            (["-x"], "unknown option -x; `tally --help` lists them"),
            (["--output"], "option --output needs a value: --output FILE"),
            (["cumsum", source, "--re"], "--re is the beginning of --reverse, --retries"),
            (["cumsum", source, "--re=1"], "--re is the beginning of --reverse"),
            (["cumsum", source, "-qa"], "--axis N"),
            (["cumsum", source, "--axis", "one"], "integer"),
            (["cumsum", source, "--axis"], "--axis N"),
            (["cumsum", source, "--axis", "1"], "the tensor has 1 dimension, expected -1 to 0"),
            (["cumsum", source, "--axis", "-2"], "the tensor has 1 dimension, expected -1 to 0"),
            (["cumsum", source, "--format", "half"], "expected npy, raw, json, text or csv"),
            (["cumsum", source, "--precision", "wide"], "unknown option --precision"),
            (["cumsum", source, "--exclusive=yes"], "no value"),
            (["cumsum", source, "--part-bytes", "0"], "from 1 byte to 1 GiB"),
            (["cumsum", source, "--part-bytes", "1073741825"], "from 1 byte to 1 GiB"),
            (
                ["cumsum", source, "--part-bytes", "2GiB"],
                "2GiB: expected a size (65536, 64KiB, 64Mi, 64MB) from",
            ),
            (["cumsum", source, "--part-bytes", "99999999TiB"], "from 1 byte to 1 GiB"),
            (["cumsum", source, "--part-bytes", "-1"], "-1: expected a size"),
            (["cumsum", source, "--part-bytes", "64MBs"], "64MBs: expected a size"),
            (["cumsum", source, "--flush-ms", "-1"], "an integer from 0 to 1000000"),
            (["cumsum", source, "--deadline", "0"], "a number from 0.001 to 1000000000"),
            (["cumsum", source, "two"], "in.npy is the input already; -o FILE names the result"),
            (["cumsum", source, "--reverse", "1"], "--reverse takes no value"),
            (["cumsum", source, "-axis", "0"], "two dashes, --axis"),
            ([source], f"did you mean tally cumsum {source}?"),
            (["cumsum", source, "--dtype", "float32", "--shape", "2"], "in.npy is an NPY file"),
            (["cumsum", raw], "in.bin is raw, numbers alone, and its type and shape are not given"),
            (["cumsum", raw, "-d", "float32"], "its shape is not given: give both, like --dtype"),
            (["cumsum", raw, "-s", "2"], "type is not given: give both, like --dtype float32 --s"),
            (
                ["cumsum", raw, "-d", "float32", "-s", "2,1"],
                "10 bytes, and float32 of shape 2,1 makes 8: give another --dtype or --shape",
            ),
            (["cumsum", raw, "-d", "float33", "-s", "2"], "did you mean float32?"),
            (["cumsum", raw, "-d", "FLOAT32", "-s", "2"], "did you mean float32?"),
            (["cumsum", raw, "-d", "int", "-s", "2"], "uint64 or bool\n"),
            (["cumsum", raw, "-d", ">f4", "-s", "2"], "raw numbers are little-endian"),
            (["cumsum", raw, "-d", "int8", "-s", "(2,5)"], "like 3,4, of which one may be -1"),
            (["cumsum", raw, "-d", "int8", "-s", "2;5"], "like 3,4, of which one may be -1"),
            (["cumsum", raw, "-d", "int8", "-s", "2,5", "--strides", "-1,1"], "from 0 on"),
            (["cumsum", raw, "-d", "bfloat16", "-s", "5", "-F", "npy"], "files have no bfloat16"),
            (["cumsum", self.path("cut.npy", npy("<f4", (2,), b""))], "not written whole"),
            (
                ["cumsum", self.path("bool.npy", npy("|b1", (2,), b"00"))],
                "bool.npy: element 0 is the byte 48, expected 0 or 1",
            ),
            (
                ["cumsum", self.path("empty.npy", b"")],
                "empty.npy cannot be read as an NPY file: it",
            ),
            (["cumsum", self.path("0.npy", npy("<f4", (), bytes(4)))], "x.reshape(1)"),
            (["cumsum", self.path("x.png", b"\x89PNG")], "byte 1 is 0x89", "--format"),
            (
                ["cumsum", self.path("1.csv", b"1,2\n3\n")],
                "line 2 has 1 field, and the first line has 2",
            ),
            (["cumsum", raw, "-d", "float32", "-s", "9223372036854775807,9"], "bytes"),
            (["cumsum", raw, "-f", "npy"], "cannot be read as an NPY file"),
            (["cumsum", "/nonexistent"], "No such file"),
            (["cumsum", self.directory.name], "directory"),
            (["cumsum", source, "--url", "ftp://x"], "http://127.0.0.1:8000"),
            (["health", "extra"], "unexpected"),
            (["cumsum", ""], "an argument is empty"),
            (["cumsum", source, "-o", ""], "--output '': expected the name of a file"),
            (["health", "--cacert="], "--cacert '': expected the name of a file"),
            (["cumsum", source, "--dtype", ""], "--dtype '': expected float16"),
            (["cumsum", source, "--header"], "--header is for text and CSV"),
            (["cumsum", source, "--delimiter", ";"], "--delimiter is for text and CSV"),
            (["cumsum", source, "--decimal", ","], "--decimal is for text and CSV"),
            (["cumsum", source, "--columns", "1"], "--columns is for text and CSV"),
            (["help", "cumsun"], "did you mean cumsum?"),
            (["console", "--url", "unix:/run/x"], "no browser reaches a Unix socket"),
            (["token", "new", "ci", "--scopes", "infer,metric"], "--scopes infer,metric: expected"),
            (["token", "new", "ci", "--scopes", "metric,infer"], "--scopes metric,infer: expected"),
            (["completion", "tcsh"], "bash"),
            (["cumsum", source, "--token-file", "/nonexistent"], "/nonexistent: No such file"),
            (["cumsum", source, "--token-file", self.directory.name], "Is a directory"),
            (["cumsum", source, "--token-file", os.devnull], "the first line is empty"),
        ]:
            with self.subTest(arguments):
                self.assert_failed(tally(*arguments), 2, *texts)
        self.assert_failed(tally("cumsum"), 2, "empty")

    def test_local_output_that_fails(self):
        source = self.path("in.npy", npy("<f4", (2,), bytes(8)))
        self.assert_failed(
            tally("cumsum", source, "-o", "/nonexistent/x"),
            *(7, "/nonexistent/x: no file can be made in its folder: No such file"),
        )
        self.assert_failed(tally("cumsum", source, "-o", "/dev/full"), 7, "No space left")
        numbers = "echo 1 | $TALLY cumsum -f text"
        for line in ("$TALLY --help", "$TALLY cumsum --help", "$TALLY --version", numbers):
            for lost in (">/dev/full", ">&-"):
                with self.subTest(line=line, lost=lost):
                    done = subprocess.run(["sh", "-c", f"{line} {lost}"], capture_output=True)
                    self.assertEqual(done.returncode, 7)
                    self.assertIn(b"standard output", done.stderr)

    def test_a_signal_before_a_pipe_is_opened_ends_it(self):
        os.mkfifo(self.path("pipe"))
        source = self.path("in.json", b"[1]")
        places = (["-f", "npy", self.path("pipe")], [source, "-o", self.path("pipe")])
        # most signals arrive before the command waits, some while it waits
        for arguments in 10 * places:
            process = subprocess.Popen(
                [TALLY, "cumsum", "-u", URL, *arguments], stderr=subprocess.PIPE
            )
            caught = b"0"
            with open(f"/proc/{process.pid}/status", "rb", buffering=0) as status:
                while not int(caught, 16) >> (signal.SIGTERM - 1) & 1:
                    status.seek(0)
                    caught = status.read().partition(b"SigCgt:")[2].split()[0]
            process.terminate()
            try:
                told = process.communicate(timeout=20 * SLOW)[1]
            finally:
                process.kill()
            self.assertEqual((process.returncode, told), (130, b"tally: error: interrupted\n"))

    def test_pipes_are_opened_whoever_comes_first(self):
        os.mkfifo(self.path("in"))
        os.mkfifo(self.path("out"))
        for wait_for_it in (False, True):
            command = [TALLY, "cumsum", "-u", URL, "-f", "text", self.path("in")]
            process = subprocess.Popen([*command, "-o", self.path("out")])
            # let the command open the input pipe and block in open() of the output pipe
            if wait_for_it:
                time.sleep(0.2)
            with open(self.path("in"), "wb") as writer:
                writer.write(b"1\n2\n")
            with open(self.path("out"), "rb") as reader:
                self.assertEqual(reader.read(), b"1\n3\n")
            self.assertEqual(process.wait(), 0)

    def test_a_file_that_becomes_too_large_leaves_nothing_behind(self):
        source = self.path("in.npy", npy("|u1", (1 << 20,), bytes(1 << 20)))
        done = subprocess.run(
            [TALLY, "cumsum", source, "-o", self.path("out.npy"), "-u", URL],
            capture_output=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        )
        self.assert_failed(done, 7, "out.npy: File too large")
        self.assertEqual(self.files(), ["in.npy"])

    def test_parts_have_the_size_that_was_asked_for_in_any_unit(self):
        source = self.path("in.npy", npy("<i8", (4, 128), bytes(4096)))
        for size, part_bytes in (
            ("1024", 1024),
            ("1KiB", 1024),
            ("1 kib", 1024),
            ("2Ki", 2048),
            ("2K", 1024),  # 2000 bytes hold one whole row of 1024 bytes
            ("3kB", 2048),
            ("1MiB", 4096),
            ("64M", 4096),
            ("1GiB", 4096),
        ):
            with (
                self.subTest(size),
                Server(lambda *_: answer(b'{"error":"no","code":"no"}', status="400 X")) as s,
            ):
                done = tally("cumsum", source, "-a", "1", "--part-bytes", size, url=s.url)
                self.assert_failed(done, 1, "no")
                self.assertRegex(s.heads[0].lower(), rf"content-length: {part_bytes}\b")

    def test_a_socket_that_is_not_there_is_named(self):
        url = "unix:" + self.path("tally.sock")
        done = tally("health", url=url)
        self.assert_failed(done, 3, f"cannot reach {url}: No such file or directory.")

    def test_names_with_control_characters_do_not_reach_the_terminal(self):
        done = tally("cumsum", self.path("no\n\x1b[31m é\x9b.npy"))
        self.assert_failed(done, 2, "no??[31m é?.npy: No such file or directory\n")
        done = tally("cumsum", self.path("ypn\u202e\u2028x.npy"))
        self.assert_failed(done, 2, "ypn??x.npy: No such file or directory\n")
        self.assertEqual(done.stderr.count(b"\n"), 1)
        for name, says in (
            ("\x1b[31m.csv", "  it looks like JSON"),
            ("\x1b[31m.json", "?[31m.json: [1] is nested to another depth"),
        ):
            done = tally("cumsum", self.path(name, b'[["a"],1]'), url="http://127.0.0.1:1")
            self.assert_failed(done, 2, says)
            self.assertNotIn(b"\x1b", done.stderr)

    def test_nobody_listening(self):
        done = tally("cumsum", stdin=b"[1]", url="http://127.0.0.1:1")
        self.assert_failed(done, 3, "TALLY_URL, like http://127.0.0.1:8000", "http://127.0.0.1:1")

    def test_a_url_without_a_port_is_told_the_usual_one(self):
        for url, usual in (
            ("http://localhost", "http://localhost:8000/"),
            ("localhost", "http://localhost:8000/"),
            ("https://u:pass@[::1]/a/", "https://[::1]:8000/a"),
        ):
            with self.subTest(url):
                done = tally("health", "--url", url, env={"no_proxy": "*"})
                self.assert_failed(done, 3, f"the default port of tallyd is 8000: {usual}\n")
                self.assertNotIn(b"pass", done.stderr)
        for url in ("http://localhost:80", "http://127.0.0.1:1", "unix:/nonexistent/socket"):
            done = tally("health", "--url", url, env={"no_proxy": "*"})
            self.assert_failed(done, 3, "cannot reach")
            self.assertNotIn(b"default port", done.stderr)
        done = tally("health", "--url", '"http://localhost"')
        self.assert_failed(done, 2, """cannot use '"http://localhost"' as the server's URL""")

    def test_a_password_in_the_url_is_not_told(self):
        for url, status, shown in (
            ("http://me:secret@127.0.0.1:1/a@b", 3, "http://127.0.0.1:1/a@b:"),
            ("me:secret@127.0.0.1:1", 3, "http://127.0.0.1:1:"),
            ("ftp://me:secret@h", 2, "'***@h'"),
            ("http://me:se@cret@h:x", 2, "'***@h:x'"),
            ("http+unix://me:secret@%2Frun%2Fx", 2, "'***@%2Frun%2Fx'"),
            ("unix:me:secret@h", 2, "'***@h'"),
        ):
            with self.subTest(url):
                done = tally("health", url=url, env={"no_proxy": "*"})
                self.assert_failed(done, status, shown)
                self.assertNotIn(b"ret@", done.stderr)
        for proxy in (
            "ftp://me:secret@h:1",
            "http://me:secret@h:x",
            "http://me:secret@127.0.0.1:1",
        ):
            with self.subTest(proxy):
                done = tally("health", url="http://x.invalid", env={"http_proxy": proxy})
                self.assertEqual(done.returncode, 3)
                self.assertNotIn(b"secret", done.stderr)
        opener = self.path("xdg-open", b'#!/bin/sh\nprintf "%s\\n" "$@" >"$0.told"\n')
        os.chmod(opener, 0o755)
        path = {"PATH": self.directory.name + ":" + os.environ["PATH"]}
        for url in ("http://me:secret@h:1/a@b/", "me:secret@h:1/a@b"):
            done = tally("console", url=url, env=path)
            self.assertEqual((done.returncode, done.stdout), (0, b"http://h:1/a@b/\n"))
            self.assertEqual(self.read("xdg-open.told"), done.stdout)
        done = tally("console", url="http+unix://me:secret@x")
        self.assertEqual(done.returncode, 2)
        self.assertNotIn(b"secret", done.stderr)

    def test_where_a_proxy_may_be_what_is_not_reached_it_is_named(self):
        nowhere = "http://127.0.0.1:1"
        for url, env, shown in (
            (URL, {"http_proxy": nowhere}, "is named in no_proxy"),
            (nowhere, {}, "Is tallyd running there? Give its address"),
            ("unix:/nonexistent", {"http_proxy": nowhere}, "Is tallyd running there? Give its"),
        ):
            with self.subTest(url, env=env):
                self.assert_failed(tally("health", url=url, env=env), 3, shown)

    def test_a_proxy_that_refuses_is_not_asked_again(self):
        for refusal in (b"407 X", b"403 X", b"503 X\r\nRetry-After: 1"):
            said = b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % refusal
            with self.subTest(refusal), Server(lambda *_, said=said: said) as proxy:
                done = tally(
                    "cumsum", stdin=b"[1]", url="https://x.invalid", env={"https_proxy": proxy.url}
                )
                self.assert_failed(done, 3, "cannot reach https://x.invalid", refusal[:3].decode())
                self.assertEqual(proxy.count, 1)

    def test_what_a_proxy_says_is_told_from_what_the_server_says(self):
        for status, exit_status, advice in (
            ("407 X", 1, "the proxy wants a user and a password"),
            ("502 X", 6, "is tallyd running behind it?"),
            ("504 X", 5, "is tallyd running behind it?"),
        ):
            with Server(lambda *_, s=status: answer(b"<h1>no</h1>", "text/html", s)) as s:
                done = tally("cumsum", stdin=b"[1]", url=s.url)
            self.assert_failed(done, exit_status, advice)

    def test_a_busy_server(self):
        with Server(
            lambda *_: answer(b'{"error":"full","code":"queue_full"}', status="503 X")
        ) as s:
            done = tally("cumsum", "--retries", "1", stdin=b"[1]", url=s.url)
            self.assert_failed(done, 4, "full", "after 2 attempts", "queue_full")
            self.assertEqual(s.count, 2)

    def test_a_silent_server(self):
        with Server(lambda *_: None) as s:
            self.assert_failed(
                tally("cumsum", "--timeout", "0.3", stdin=b"[1]", url=s.url), 5, "300 ms"
            )

    def test_lying_servers_leave_no_file(self):
        good = npy("<f4", (2,), bytes(8))
        kind = "application/x-npy"
        right = sums(bytes(8), "float32", "1,2,1")
        raw_lies = [
            (sums(bytes(7), "float32", "1,2,1"), 6),
            (sums(bytes(9), "float32", "1,2,1"), 6),
            (sums(b"", "float32", "1,2,1"), 6),
            (sums(bytes(8), "float32", "1,3,1"), 6),
            (sums(bytes(8), "float33", "1,2,1"), 6),
            (sums(bytes(8), "float32", "x"), 6),
            (answer(bytes(8), "application/octet-stream"), 6),
            (answer(good, kind), 6),
            (right[:-3], 3),
        ]
        other = (sums(bytes(8), "int32", "1,2,1"), 6)
        any_lies = [(answer(b"<html>", "text/html"), 6), (b"garbage\r\n\r\n", 6), (b"", 3)]
        for name, content, flags in [
            ("in.json", b"[1.0, 2.0]", ["-d", "float32"]),
            ("in.npy", good, []),
        ]:
            source = self.path(name, content)
            for lie, status in [*raw_lies, *any_lies, other]:
                with Server(lambda *_, lie=lie: lie) as s:
                    output = ["-o", self.path("out.npy"), "--retries", "0"]
                    done = tally("cumsum", source, *flags, *output, url=s.url)
                    self.assertEqual(done.returncode, status, (lie, done.stderr))
                    self.assertNotEqual(done.stderr, b"")
                    self.assertEqual(self.files(), [name])
            os.remove(source)
        for lie in [answer(b"[1]"), answer(b""), answer(b'{"data":[1'), answer(b'{"a":1}}')]:
            with Server(lambda *_, lie=lie: lie) as s:
                self.assertEqual(tally("cumsum", stdin=b'{"data":[1]}', url=s.url).returncode, 6)
        raw = "application/octet-stream"
        strided = ["-d", "int8", "-s", "2", "--output-strides", "3"]
        of_type = "Tally-Dtype: int8\r\nTally-Shape: 2\r\n"
        for body, status in ((b"a\0\0b", 0), (b"a\0\0", 6), (b"a\0\0bc", 6), (b"", 6)):
            endless = answer(body, raw, headers=of_type).replace(b"Content-Length", b"X-Length")
            for told in (answer(body, raw, headers=of_type), endless):
                with Server(lambda *_, told=told: told) as s:
                    done = tally("cumsum", *strided, stdin=b"ab", url=s.url)
                    self.assertEqual(done.returncode, status, (told, done.stderr))

    def test_an_answer_that_is_cut_without_a_length_is_none(self):
        """Without a length, the client would take the end of the connection for the end of the
        answer."""
        raw = "application/octet-stream"
        numbers = struct.pack("<2q", 1, 3)
        whole = b'{"dtype":"int64","shape":[2],"data":[1,3]}\n'
        gaps = numbers[:8] + bytes(16) + numbers[8:]
        tensor = "Tally-Dtype: int64\r\nTally-Shape: "
        for flags, stdin, right in (
            (["-F", "raw"], b"[1,2]", sums(numbers, "int64", "1,2,1")),
            (
                ["-F", "raw", "-s", "2", "--output-strides", "3"],
                b"[1,2]",
                answer(gaps, raw, headers=tensor + "2\r\n"),
            ),
            (["-F", "npy"], b"[1,2]", sums(numbers, "int64", "1,2,1")),
            (["-F", "json"], b'{"data":[1,2]}', answer(whole)),
        ):
            endless = right.replace(b"Content-Length", b"X-Length")
            head = endless.index(b"\r\n\r\n") + 4
            short = endless[:head] + endless[head:].rstrip()
            for told, status in (
                (right, 0),
                (endless, 0),
                *((short[:-cut], 6) for cut in range(1, len(short) - head + 1, 7)),
                (endless + b"x", 6),
            ):
                with self.subTest(flags=flags, told=told), Server(lambda *_, t=told: t) as s:
                    out = self.path("out")
                    done = tally("cumsum", *flags, "-f", "json", "-o", out, stdin=stdin, url=s.url)
                    self.assertEqual(done.returncode, status, done.stderr)
                    self.assertEqual(self.files(), [] if status else ["out"])
                    if not status:
                        if "json" in flags:
                            self.assertEqual(self.read("out").count(b"\n"), 1)
                        os.remove(out)

    def test_what_is_laid_out_by_strides_becomes_an_npy_file(self):
        raw = self.path("in.bin", struct.pack("<4i", 1, 10, 2, 20))
        strided = ["-d", "int32", "-s", "2,2", "-a", "1", "--strides", "1,2"]
        for arguments, stdin, shape, numbers in (
            (["-f", "json"], b"[[1,2],[3,4]]", "(2, 2)", (1, 2, 4, 6)),
            (["-f", "json"], b"[[],[]]", "(2, 0)", ()),
            (["-s", "2", "--output-strides", "3"], b"[1,2]", "(4,)", (1, 0, 0, 3)),
            ([raw, *strided], b"", "(2, 2)", (1, 3, 10, 30)),
            (strided, struct.pack("<4i", 1, 10, 2, 20), "(2, 2)", (1, 3, 10, 30)),
            ([raw, *strided, "--output-strides", "3,1"], b"", "(5,)", (1, 3, 0, 10, 30)),
        ):
            for flags in ([], ["-o", self.path("out.npy")]):
                done = tally("cumsum", *arguments, "-F", "npy", *flags, stdin=stdin)
                self.assert_done(done)
                head, data = npy_parts(self.read("out.npy") if flags else done.stdout)
                self.assertIn(f"'shape': {shape}", head)
                kind = "q" if "<i8" in head else "d" if "<f8" in head else "i"
                self.assertEqual(struct.unpack(f"<{len(numbers)}{kind}", data), numbers)
        done = tally("cumsum", "-d", "bfloat16", "-F", "npy", stdin=b"[1,2]")
        self.assert_failed(done, 2, "NPY files have no bfloat16")
        done = tally("cumsum", raw, "-d", "int32", "-s", "2,2", "--strides", "3,1")
        self.assert_failed(done, 2, "in.bin has 16 bytes of int32, and shape and strides make 20")

    def test_an_answer_without_end_is_cut_off(self):
        """The command stops reading at its own limit, whatever the header of the answer
        announces. It must close the connection before the server has sent `at_most` bytes."""
        chunks = "Transfer-Encoding: chunked\r\n\r\n"
        kind = "Content-Type: application/json\r\n"
        spaces = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        array, request = b"[1,2]", b'{"data":[1,2]}'
        tensor = (
            "200 OK\r\nContent-Type: application/octet-stream\r\nTally-Dtype: int64\r\n"
            f"Tally-Shape: 1,2,1\r\n{chunks}"
        )
        for stdin, head, piece, at_most, says in (
            (
                request,
                f"200 OK\r\n{kind}{chunks}",
                spaces,
                300 << 20,
                "longer than 268435456 bytes",
            ),
            (request, f"500 X\r\n{kind}{chunks}", spaces, 64 << 20, "HTTP 500"),
            (array, f"500 X\r\n{kind}{chunks}", spaces, 64 << 20, "HTTP 500"),
            (array, tensor, spaces, 64 << 20, "longer than the expected 16 bytes"),
            (array, f"200 OK\r\n{kind}", b"X-More: and more\r\n", 1 << 20, "longer than 65536"),
        ):
            sent = []

            def script(*_, head=head, piece=piece, sent=sent, at_most=at_most):
                yield b"HTTP/1.1 " + head.encode()
                while sum(sent) < at_most:
                    sent.append(len(piece))
                    yield piece

            with self.subTest(head=head), Server(script) as s:
                done = tally("cumsum", "--retries", "0", stdin=stdin, url=s.url)
                self.assert_failed(done, 6, says)
                self.assertEqual(done.stdout, b"")
                self.assertLess(sum(sent), at_most)

    def test_a_page_without_end_is_cut_off(self):
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
        at_most = 64 << 20
        array = self.path("in.npy", npy("<f4", (2,), bytes(8)))
        of_array = b"Tally-Dtype: float32\r\nTally-Shape: 1,2,1\r\n\r\n"
        for command, told, says in (
            (["devices"], head, "longer than 1 MiB"),
            (["devices", "--json"], head, "longer than 1048576 bytes"),
            (["version"], head, "longer than 1 MiB"),
            (["health"], head, "longer than 1 MiB"),
            (
                ["cumsum", array],
                head.replace(b"json\r\n\r\n", b"octet-stream\r\n" + of_array),
                "longer than the expected 8 bytes",
            ),
        ):
            sent = []

            def script(*_, told=told, sent=sent):
                yield told
                while sum(sent) < at_most:
                    sent.append(1 << 16)
                    yield b" " * (1 << 16)

            with self.subTest(command), Server(script) as s:
                self.assert_failed(tally(*command, "--timeout", "60", url=s.url), 6, says)
                self.assertLess(sum(sent), at_most)

    def test_what_a_short_request_asks_for_may_be_long(self):
        deep = b"[" * 32 + b",".join([b"-1e-300"] * 2000) + b"]" * 32
        for text, elements in (
            (deep, 2000),
            (b'{"data":[1],"shape":[100000],"strides":[0]}', 100000),
            (b'{"data":[1,2],"shape":[2],"output_strides":[100000]}', 100001),
        ):
            with self.subTest(text=text[:60]):
                done = tally("cumsum", *(["-a", "-1"] if text is deep else []), stdin=text)
                self.assert_done(done)
                data = done.stdout[done.stdout.rindex(b"[") :]
                self.assertEqual(data.count(b",") + 1, elements)
        done = tally("cumsum", stdin=b'{"data":[],"shape":[20000,0],"axis":1,"part":"first"}')
        self.assert_done(done)
        self.assertGreater(len(json.loads(done.stdout)["carry"]), 20000 * 4)

    def test_a_connection_lost_in_the_answer_is_made_again(self):
        good = npy("<f4", (2,), bytes(8))
        whole = sums(bytes(8), "float32", "1,2,1")
        with Server(lambda number, *_: whole[: 40 + 40 * number] if number < 3 else whole) as s:
            source = self.path("in.npy", good)
            self.assert_done(tally("cumsum", source, "-o", self.path("out.npy"), url=s.url))
            self.assertEqual(self.read("out.npy"), good)
            self.assertEqual(s.count, 4)

    def test_a_server_that_knows_no_100_continue_is_asked_without(self):
        count = 1 << 21
        refusal = b"417 Expectation Failed\r\nContent-Length: 0\r\nTally-Dtype: int8"
        right = sums(bytes(count), "uint8", f"1,{count},1")
        with Server(lambda *_: right, expected=refusal) as s:
            source = self.path("in.npy", npy("|u1", (count,), bytes(count)))
            self.assert_done(tally("cumsum", source, "-o", self.path("out.npy"), url=s.url))
            self.assertNotIn("100-continue", s.heads[0])
        self.assertEqual(self.read("out.npy"), self.read("in.npy"))

    def test_a_pipe_gets_nothing_before_the_first_answer(self):
        """A program that reads the pipe cannot distinguish the beginning of a result from an
        error."""
        refusal = answer(b'{"error":"no","code":"no"}', status="400 X")
        array = self.path("in.npy", npy("<f4", (2,), bytes(8)))
        table = self.path("in.csv", b"x,y\n1,2\n")
        for arguments in ([array], [array, "-F", "json"], [table, "--header"]):
            with self.subTest(arguments), Server(lambda *_: refusal) as s:
                done = tally("cumsum", *arguments, url=s.url)
                self.assert_failed(done, 1, "no")
                self.assertEqual(done.stdout, b"")

    def unread(self, *arguments, ignored=False, stdin=subprocess.DEVNULL, env=None):
        """Run the command with a pipe as its output whose reading end is closed. SIGPIPE may be
        ignored."""
        reader, writer = os.pipe()
        os.close(reader)
        try:
            return subprocess.run(
                [TALLY, *arguments],
                stdin=stdin,
                stdout=writer,
                stderr=subprocess.PIPE,
                env={**os.environ, "TALLY_URL": URL, **(env or {})},
                restore_signals=not ignored,  # Python ignores SIGPIPE
                timeout=60,
            )
        finally:
            os.close(writer)

    def test_who_reads_no_more_ends_every_command_as_others(self):
        """The signal ends the command, and nothing is printed."""
        array = self.path("in.npy", npy("|u1", (1 << 20,), bytes(1 << 20)))
        text = self.path("in.csv", b"1\n2\n")
        asked = self.path("in.json", b"[1,2]")
        for arguments in (
            ["cumsum", array],
            ["cumsum", array, "-o", "/dev/stdout"],
            ["cumsum", text],
            ["cumsum", text, "-F", "json"],
            ["cumsum", text, "--columns", "1"],
            ["cumsum", asked, "-F", "csv"],
            ["cumsum", asked],
            ["cumsum", asked, "-F", "raw"],
            ["cumsum", "--help"],
            ["--help"],
            ["--version"],
            ["devices"],
            ["devices", "--json"],
            ["health"],
            ["version"],
            ["console"],
            ["token", "new", "ci"],
            ["completion", "bash"],
        ):
            with self.subTest(arguments):
                done = self.unread(*arguments, env={"PATH": ""})
                self.assertEqual(done.returncode, -signal.SIGPIPE, done.stderr)
                if "token" not in arguments:
                    self.assertEqual(done.stderr, b"")
        for arguments in (["cumsum", array], ["cumsum", text], ["devices"], ["--version"]):
            with self.subTest(arguments, ignored=True):
                done = self.unread(*arguments, ignored=True)
                self.assert_failed(done, 7, "standard output")

    def test_who_reads_no_more_ends_a_command_whose_input_goes_on(self):
        reader, writer = os.pipe()
        command = [TALLY, "cumsum", "-u", URL, "-f", "text", "--part-bytes", "8"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=writer, stderr=subprocess.PIPE
        ) as process:
            os.close(writer)
            process.stdin.write(b"1\n2\n")
            process.stdin.flush()
            self.assertEqual(os.read(reader, 2), b"1\n")
            os.close(reader)
            process.stdin.write(b"3\n4\n")
            process.stdin.flush()
            self.assertEqual((process.wait(60), process.stderr.read()), (-signal.SIGPIPE, b""))

    def test_a_pipe_that_is_not_the_standard_output_fails_where_nobody_reads_it(self):
        os.mkfifo(self.path("pipe"))
        readers = []

        def script(*_):
            os.close(readers.pop())
            return sums(bytes(8), "float32", "1,2,1")

        source = self.path("in.npy", npy("<f4", (2,), bytes(8)))
        with Server(script) as s:
            readers.append(os.open(self.path("pipe"), os.O_RDONLY | os.O_NONBLOCK))
            done = tally("cumsum", source, "-o", self.path("pipe"), url=s.url)
        self.assert_failed(done, 7, "pipe: Broken pipe")

    def test_a_file_is_finished_though_nobody_reads_the_standard_output(self):
        source = self.path("in.npy", npy("<i4", (2,), struct.pack("<2i", 1, 2)))
        done = self.unread("cumsum", source, "-o", self.path("out.npy"))
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(npy_parts(self.read("out.npy"))[1], struct.pack("<2i", 1, 3))
        self.assertEqual(self.files(), ["in.npy", "out.npy"])

    def test_signals_leave_nothing_behind(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self.interrupt(number)

    def test_commands_that_wait_for_an_answer_end_with_a_signal(self):
        for command in ("devices", "health", "version"):
            with self.subTest(command), Server(lambda *_: None) as s:
                arguments = [TALLY, command, "--url", s.url]
                process = subprocess.Popen(arguments, stderr=subprocess.PIPE)
                while s.count == 0:
                    time.sleep(0.01)
                # a shell that started this process in the background ignores SIGINT
                process.terminate()
                _, shown = process.communicate(timeout=60)
                self.assertEqual((process.returncode, shown), (-signal.SIGTERM, b""))

    def is_pending(self, process):
        """Whether a signal has not been delivered yet."""
        with open(f"/proc/{process.pid}/status") as status:
            return any(line.startswith("ShdPnd") and int(line[7:], 16) for line in status)

    def interrupt(self, number):
        source = self.path("in.npy", npy("|u1", (1 << 22,), bytes(1 << 22)))
        with Server(lambda *_: None) as s:
            process = subprocess.Popen(
                [TALLY, "cumsum", source, "-o", self.path("out.npy"), "--url", s.url],
                stderr=subprocess.PIPE,
            )
            while s.count == 0:
                time.sleep(0.01)
            process.send_signal(number)
            while self.is_pending(process):
                time.sleep(0.001)
            process.send_signal(number)  # timeout(1) signals the process first and then its group
            _, shown = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 130)
            self.assertIn(b"interrupted", shown)
            self.assertEqual(self.files(), ["in.npy"])

    def test_waiting_for_input_ends_with_a_signal(self):
        for flags in (["-f", "json"], ["-f", "text"], ["-f", "npy"], ["-d", "f4", "-s", "-1"], []):
            with self.subTest(flags=flags):
                pipe = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "env": {}}
                process = subprocess.Popen([TALLY, "cumsum", *flags], **pipe)
                while not self.is_caught(process, signal.SIGTERM):
                    time.sleep(0.001)
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(timeout=60), 130)
                self.assertEqual(process.stderr.read(), b"tally: error: interrupted\n")
                process.stdin.close()
                process.stderr.close()

    def test_writing_brackets_ends_with_a_signal(self):
        """An array without elements can have any number of rows, after a header of 128 bytes."""
        source = self.path("in.npy", npy("<i8", (1 << 31, 1 << 31, 0), b""))
        process = subprocess.Popen(
            [TALLY, "cumsum", source, "-o", self.path("out.json")], stderr=subprocess.PIPE
        )
        self.addCleanup(process.kill)
        while len(self.files()) < 2 or os.stat(self.path(max(self.files()))).st_size == 0:
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        _, shown = process.communicate(timeout=20)
        self.assertEqual((process.returncode, shown), (130, b"tally: error: interrupted\n"))
        self.assertEqual(self.files(), ["in.npy"])

    def test_waiting_for_the_other_end_of_a_pipe_ends_with_a_signal(self):
        source = self.path("in.npy", npy("|u1", (1 << 22,), bytes(1 << 22)))
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        for flags in ([pipe, "-f", "text"], [source, "-o", pipe]):
            with self.subTest(flags=flags):
                process = subprocess.Popen([TALLY, "cumsum", *flags], stderr=subprocess.PIPE)
                while not (self.is_caught(process, signal.SIGTERM) and self.is_asleep(process)):
                    time.sleep(0.001)
                process.send_signal(signal.SIGTERM)
                _, shown = process.communicate(timeout=60)
                self.assertEqual((process.returncode, shown), (130, b"tally: error: interrupted\n"))
        for flags in (["raw"], ["text"], ["json"], ["text", "--part-bytes", "65536"]):
            with self.subTest(flags=flags):
                process = subprocess.Popen(
                    [TALLY, "cumsum", source, "-u", URL, "-F", *flags],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
                while not self.is_full(process.stdout):
                    time.sleep(0.01)
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(timeout=60), 130)
                self.assertEqual(process.stderr.read(), b"tally: error: interrupted\n")
                process.stdout.close()
                process.stderr.close()

    def is_asleep(self, process):
        with open(f"/proc/{process.pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "S"

    def is_full(self, pipe):
        return select.select([pipe], [], [], 0)[0] and (
            struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]
            == fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
        )

    def is_caught(self, process, number):
        with open(f"/proc/{process.pid}/status") as status:
            caught = next(line for line in status if line.startswith("SigCgt"))
            return int(caught[7:], 16) >> (number - 1) & 1

    def test_tokens_are_sent_and_not_on_the_command_line(self):
        with Server(lambda *_: sums(bytes(8), "int64", "1,1,1")) as s:
            tally("cumsum", stdin=b"[1]", url=s.url, env={"TALLY_TOKEN": "one"})
            tally("cumsum", "--token-file", self.path("t", b"two\n"), stdin=b"[1]", url=s.url)
            tally("cumsum", stdin=b"[1]", url=s.url)
        self.assertIn("Authorization: Bearer one", s.heads[0])
        self.assertIn("Authorization: Bearer two", s.heads[1])
        self.assertNotIn("Authorization", s.heads[2])

    def test_who_is_asked_for_a_token_is_told_how_to_give_it(self):
        said = b'{"error":"send Authorization: Bearer TOKEN","code":"unauthorized"}'
        with Server(lambda *_: answer(said, status="401 X")) as s:
            done = tally("devices", url=s.url)
        self.assert_failed(done, 1, "code unauthorized; give it by --token-file or TALLY_TOKEN")

    def test_the_servers_token_file_is_recognised(self):
        hashed = tally("token", "new", "ci", "--scopes", "infer,metrics")
        token, line = hashed.stderr, hashed.stdout
        bare = re.sub(rb":[a-z,]*$", b"", line)
        self.assertRegex(bare, rb"\Aci:[0-9a-f]{64}\n\Z")
        says = "it holds hashes, for the server's --token-file; tally needs the token itself"
        for content in (line, bare, b"# of June\r\n\r\n" + line.upper(), b"\n" + line):
            with self.subTest(content):
                done = tally("health", "--token-file", self.path("t", content))
                self.assert_failed(done, 2, says, "`tally token new`")
                self.assertNotIn(b":" + bare[3:67], done.stderr)
        with Server(lambda *_: answer(b'{"data":[1]}')) as s:
            for content in (token, bare[:-2] + b"\n", b"a,b" + bare[2:], token + line):
                tally("cumsum", "--token-file", self.path("t", content), stdin=b"[1]", url=s.url)
        sent = [re.search(r"Authorization: Bearer (.*)", head)[1].strip() for head in s.heads]
        expected = (token, bare[:-2], b"a,b" + bare[2:], token)
        self.assertEqual(sent, [one.decode().strip() for one in expected])

    def test_what_cannot_be_a_token_is_refused(self):
        for content, text in (
            (b"", "empty"),
            (b"\n", "empty"),
            (bytes(100000), "empty"),
            (b"x" * 9000, "the first line is too long"),
            (b"a\x01b\n", "token"),
        ):
            done = tally("cumsum", "--token-file", self.path("t", content), stdin=b"[1]")
            self.assert_failed(done, 2, "token", text)
        for token in ("one\n", "one\r\nX-Y: z", "x" * 9000):
            done = tally("cumsum", stdin=b"[1]", env={"TALLY_TOKEN": token})
            self.assert_failed(done, 2)
            self.assertIn("token", done.stderr.decode().lower())

    def test_numbers_out_of_bounds_are_wrong_usage(self):
        """A number out of bounds must not silently mean the default."""
        for option, *values in (
            ("--retries", "-1", "1001"),
            ("--timeout", "0", "-1", "0.0001", "1e10", "nan", "inf"),
            ("--deadline", "0", "0.0009"),
        ):
            for value in values:
                done = tally("cumsum", f"{option}={value}", stdin=b"[1]", url="http://127.0.0.1:1")
                self.assert_failed(done, 2, option[2:])

    def test_a_shape_has_64_sizes_at_most(self):
        for count, status in (64, 0), (65, 2), (300, 2):
            shape = ",".join("1" * count)
            done = tally(
                "cumsum", *["-f", "raw", "-F", "raw", "-d", "int8", "-s"], shape, stdin=b"\7"
            )
            self.assertEqual((done.returncode, done.stdout), (status, b"" if status else b"\7"))

    def test_a_new_file_has_the_mode_that_the_umask_leaves(self):
        source = self.path("in.npy", npy("|u1", (2,), b"\1\2"))
        line = 'umask 027; exec "$0" cumsum "$1" -u "$2" -o "$3"'
        command = ["sh", "-c", line, TALLY, source, URL, self.path("out.npy")]
        self.assert_done(subprocess.run(command, capture_output=True, timeout=60))
        self.assertEqual(os.stat(self.path("out.npy")).st_mode & 0o777, 0o640)

    def test_a_thousand_retries_are_not_none(self):
        full = answer(b'{"error":"full","code":"queue_full"}', status="503 X")
        right = sums(bytes(8), "int64", "1,1,1")
        with Server(lambda number, *_: full if number < 5 else right) as s:
            done = tally("cumsum", "--retries", "1000", stdin=b"[1]", url=s.url)
        self.assertEqual((done.returncode, s.count), (0, 6), done.stderr)
        with Server(lambda *_: full) as s:
            done = tally("cumsum", "--retries", "0", stdin=b"[1]", url=s.url)
        self.assertEqual((done.returncode, s.count), (4, 1), done.stderr)

    def test_options_come_before_the_command_too(self):
        for words in (
            ["--url", URL, "health"],
            ["-u", URL, "--retries=0", "health"],
            [f"--url={URL}", "-k", "health"],
            ["--ur", URL, "--retr", "0", "health"],
            ["-ku", URL, "health"],
            [f"-ku{URL}", "health"],
        ):
            done = tally(*words, url="http://127.0.0.1:1")
            self.assertEqual((done.returncode, done.stdout), (0, b"ready\n"), done.stderr)
        self.assert_failed(tally("--url", URL), 2, "--help")
        self.assert_failed(tally("--frob", "health"), 2, "unknown option --frob")

    def test_types_have_the_names_of_others_too(self):
        for alias, size in (
            ("f4", 4),
            ("<f4", 4),
            ("|u1", 1),
            ("i8", 8),
            ("=i8", 8),
            ("double", 8),
            ("half", 2),
            ("F32", 4),
            ("FP32", 4),
            ("fp64", 8),
            ("bf16", 2),
            ("INT8", 1),
            ("u16", 2),
            ("I64", 8),
            ("b1", 1),
            ("|b1", 1),
            ("?", 1),
            ("bool", 1),
            ("BOOL", 1),
            ("boolean", 1),
        ):
            source = self.path("in.bin", bytes(2 * size))
            done = tally("cumsum", source, "-d", alias, "-s", "2")
            self.assert_done(done)
            booleans = alias.strip("|") in ("b1", "?", "bool", "BOOL", "boolean")
            self.assertEqual(done.stdout, bytes(2 * (8 if booleans else size)))
        for none in (">f4", "I8", "U8", "f", "F8"):
            self.assert_failed(tally("cumsum", source, "-d", none, "-s", "2"), 2, "float32")

    def test_the_deadline_is_sent(self):
        with Server(lambda *_: answer(b'{"data":[1]}')) as s:
            tally("cumsum", "--deadline", "999999.999", stdin=b"[1]", url=s.url)
        self.assertRegex(s.heads[0], "X-Request-Timeout-Ms: 9999[0-9]{5}\r")

    # -- terminals --

    def slow_transfer(self, **options):
        """Send a file larger than the socket buffers through a server that reads and answers
        slowly."""
        data = bytes(12 << 20)
        source = self.path("in.npy", npy("|u1", (len(data),), data))
        whole = sums(data, "uint8", f"1,{len(data)},1")

        def pieces():
            for at in range(0, len(whole), 1 << 18):
                yield whole[at : at + (1 << 18)]
                time.sleep(0.02)

        with Server(lambda *_: pieces(), read_rate=12e6) as s:
            terminal = Terminal("cumsum", source, "-o", self.path("out.npy"), url=s.url, **options)
            status = terminal.finish()
        self.assertEqual(status, 0, terminal.shown)
        return terminal.shown.decode()

    def test_progress_is_shown_on_a_terminal(self):
        shown = self.slow_transfer()
        self.assertRegex(
            shown, r"summing +.*\[#+-+\].*\d+%  [\d.]+ MiB of 12\.0 MiB  [\d.]+ .?i?B/s"
        )
        self.assertRegex(shown, r"summing +.*\[#+-*\].* \d:\d\d left")
        self.assertIn("\033[32m", shown)
        self.assertTrue(shown.endswith("\r\033[K"), shown[-40:])
        for line in re.split(r"\r\033\[K", shown):
            self.assertLess(len(re.sub(r"\033\[[0-9;]*m", "", line)), 100)

    def test_no_color_is_honoured(self):
        shown = self.slow_transfer(env={"NO_COLOR": "1"})
        self.assertIn("summing", shown)
        self.assertNotIn("\033[3", shown)
        terminal = Terminal("frobnicate", env={"NO_COLOR": "1"})
        self.assertEqual(terminal.finish(), 2)
        self.assertNotIn(b"\033", terminal.shown)
        terminal = Terminal("frobnicate")
        self.assertEqual(terminal.finish(), 2)
        self.assertIn(b"\033[1;31m", terminal.shown)

    def test_a_narrow_terminal_is_not_overrun(self):
        for line in re.split(r"\r\033\[K", self.slow_transfer(columns=30, env={"NO_COLOR": "1"})):
            self.assertLess(len(line), 30)

    def test_a_complaint_takes_the_place_of_the_bar(self):
        source = self.path("in.npy", npy("|u1", (1 << 20,), bytes(1 << 20)))
        for arguments in ([source], [self.path("in.json", b"[1]")]):
            with self.subTest(arguments), Server(lambda *_: None) as s:
                terminal = Terminal("cumsum", *arguments, url=s.url, env={"NO_COLOR": "1"})
                terminal.read(until=b"summing")
                terminal.process.terminate()
                self.assertEqual(terminal.finish(), 130)
                self.assertIn(b"\r\033[Ktally: error: interrupted", terminal.shown)

    def test_no_progress_in_a_pipe(self):
        data = bytes(3 << 20)
        source = self.path("in.npy", npy("|u1", (3 << 20,), data))
        whole = sums(data, "uint8", f"1,{len(data)},1")
        with Server(lambda *_: whole, read_rate=4e6) as s:
            self.assert_done(tally("cumsum", source, "-o", self.path("out.npy"), url=s.url))

    def test_binary_is_not_written_to_a_terminal(self):
        source = self.path("in.npy", npy("<f4", (2,), bytes(8)))
        mine, theirs = pty.openpty()
        done = subprocess.run([TALLY, "cumsum", source], stdout=theirs, stderr=subprocess.PIPE)
        os.close(theirs)
        os.close(mine)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"-o FILE", done.stderr)


class Information(unittest.TestCase):
    def test_devices(self):
        done = tally("devices")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.decode().splitlines()
        self.assertTrue(lines[0].startswith("DEVICE"))
        self.assertGreaterEqual(len(lines), 2)
        self.assertIn("ready", lines[1])
        told = json.loads(tally("devices", "--json").stdout)
        self.assertEqual(len(told["devices"]), len(lines) - 1)

    def test_health(self):
        done = tally("health")
        self.assertEqual((done.returncode, done.stdout), (0, b"ready\n"))
        self.assertEqual(
            json.loads(tally("health", "--json").stdout), {"alive": True, "ready": True}
        )
        script = lambda _, head, __: answer(b"{}", status="200 OK" if "/livez" in head else "503 X")
        with Server(script) as s:
            done = tally("health", url=s.url)
        self.assertEqual((done.returncode, done.stdout), (4, b"alive, not ready\n"))
        self.assertEqual(tally("health", url="http://127.0.0.1:1").returncode, 3)
        with Server(lambda *_: answer(b"", status="404 Not Found")) as s:
            self.assertEqual(tally("health", url=s.url).returncode, 1)

    def test_pages_of_something_else_are_no_information(self):
        with Server(lambda *_: answer(b"<html>", "text/html")) as s:
            for command in (["health"], ["devices"], ["version"], ["devices", "--json"]):
                done = tally(*command, url=s.url)
                self.assertEqual(done.returncode, 6)
                self.assertIn(b'"text/html"', done.stderr)
                self.assertNotIn(b"<html>", done.stdout)

    def test_control_characters_of_an_answer_do_not_reach_the_terminal(self):
        for text in (b'["\x1b[31m"]', b"[\0]", b'["\x7f"]', b'["\xc2\x9b31m"]', b'"\\\x1b[31m"'):
            with Server(
                lambda *_, text=text: answer(b'{"data":%s,"devices":%s}' % (text, text))
            ) as s:
                for command in (["cumsum"], ["devices", "--json"]):
                    done = tally(*command, stdin=b'{"data":[1]}', url=s.url)
                    self.assertEqual((done.returncode, done.stdout), (6, b""))
                    self.assertIn(b"not a whole JSON object", done.stderr)

    def test_pages_that_are_cut_are_no_information(self):
        page = b'{"devices":[{"name":"a","state":"ready"}],"version":"1.2.3"}'
        for kept in range(len(page), 0, -3):
            cut = answer(page).replace(b"Content-Length", b"X-Length")[: kept - len(page) or None]
            with Server(lambda *_, cut=cut: cut) as s:
                for command in (["devices"], ["version"], ["devices", "--json"]):
                    done = tally(*command, url=s.url)
                    status = 0 if kept == len(page) else 6
                    self.assertEqual((done.returncode, done.stdout != b""), (status, status == 0))

    def test_version(self):
        done = tally("version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout.decode(), r"^tally \d+\.\d+\.\d+\nserver \d+\.\d+\.\d+\n$")
        with Server(lambda *_: answer('{"version":"1\\"\\\\é"}'.encode())) as s:
            done = tally("version", "--json", url=s.url)
            self.assertEqual(json.loads(done.stdout)["server"], '1"\\é')
        for flag in ("--version", "-V"):
            self.assertRegex(tally(flag).stdout.decode(), r"^tally \d+\.\d+\.\d+\n$")

    def test_help_of_every_command(self):
        overview = tally("--help")
        self.assertEqual(overview.returncode, 0)
        for command in COMMANDS:
            self.assertIn(command, overview.stdout.decode())
            done = tally(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertIn(f"usage: tally {command}", done.stdout.decode())
            self.assertEqual(tally("help", command).stdout, done.stdout)
        self.assertEqual(tally("help").stdout, overview.stdout)
        self.assertEqual(tally().returncode, 2)


class Completion(unittest.TestCase):
    def options(self, command):
        shown = tally(command, "--help").stdout.decode()
        return re.findall(r"(?m)^  (?:-\w, |    )(--[a-z-]+)", shown)

    def offered(self, *words):
        """The completions that a completion script gets for the last word."""
        lines = tally("--complete", *words).stdout.decode().splitlines()
        return [line.split("\t")[0] for line in lines]

    def test_every_option_is_completed(self):
        self.assertEqual(self.offered(""), COMMANDS)
        self.assertEqual(self.offered("help", ""), COMMANDS)
        everywhere = self.offered("-")
        for command in COMMANDS:
            options = self.options(command)
            self.assertGreater(len(options), 0)
            self.assertLessEqual({*options}, {*self.offered(command, "-")})
            self.assertLessEqual({*options}, {*everywhere})
        for name in ("-d", "--dtype", "--dt", "-kd"):
            self.assertIn("bfloat16", self.offered(name, ""))
        for name in ("-o", "--output", "--token-file"):
            self.assertEqual(self.offered("cumsum", name, ""), ["<file>"])
        self.assertEqual(self.offered("cumsum", ""), ["<file>"])
        self.assertEqual(self.offered("cumsum", "--", "--url", ""), [])
        for nothing in (["--url", ""], ["health", "-u", ""], ["frobnicate", ""], ["--exclusive="]):
            self.assertEqual(self.offered(*nothing), [])

    PATH = {**os.environ, "PATH": f"{os.path.dirname(os.path.abspath(TALLY))}:{os.environ['PATH']}"}

    TYPED = {  # the completed line, without the blank or "=" at its end
        "tally cu": "tally cumsum",
        "true; tally cu": "true; tally cumsum",
        "tally --ver": "tally --version",
        "tally cumsum --forma": "tally cumsum --format",
        "tally cumsum --format j": "tally cumsum --format json",
        "tally cumsum --dtype uint1": "tally cumsum --dtype uint16",
        "tally cumsum -d uint1": "tally cumsum -d uint16",
        "tally health --ex": "tally health --ex",
        "tally completion z": "tally completion zsh",
        "tally completion f": "tally completion fish",
        # a value behind "="
        "tally cumsum --format=j": "tally cumsum --format=json",
        "tally cumsum --output=on": "tally cumsum --output=one.npy",
        "tally cumsum --reverse=n": "tally cumsum --reverse=n",
        "tally cumsum --url=http://h:1/x --forma": "tally cumsum --url=http://h:1/x --format",
        # options before the command
        "tally --ur": "tally --url",
        "tally --format js": "tally --format json",
        "tally --format=js": "tally --format=json",
        "tally --url http://h:1/x he": "tally --url http://h:1/x health",
        "tally --url http://h:1/x --retr": "tally --url http://h:1/x --retries",
        "tally --url=unix:/x -k cu": "tally --url=unix:/x -k cumsum",
        "tally -k --url cumsum health --js": "tally -k --url cumsum health --json",
        "tally -u cumsum health --forma": "tally -u cumsum health --forma",
        "tally --url unix:/x cumsum --format j": "tally --url unix:/x cumsum --format json",
        # files
        "tally cumsum on": "tally cumsum one.npy",
        "tally cumsum -o on": "tally cumsum -o one.npy",
        "tally cumsum --exclusive on": "tally cumsum --exclusive one.npy",
        "tally cumsum my": "tally cumsum my\\ \\$x\\*.npy",
        "tally cumsum -o my\\ ": "tally cumsum -o my\\ \\$x\\*.npy",
        # a tally outside PATH
        "~/tally cu": "~/tally cumsum",
        "./tally cu": "./tally cumsum",
    }

    def completed(self, shell, script, typed):
        """Type lines into an interactive shell on a terminal. Returns each line as the shell
        completes it after a Tab."""
        told, tell = os.pipe()
        mine, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, ".script"), "w") as file:
                file.write(f"TELL={tell}\n{script}\necho ready >&$TELL\n")
            for name in ("one.npy", "my $x*.npy"):
                open(os.path.join(folder, name), "w").close()
            os.symlink(TALLY, os.path.join(folder, "tally"))
            process = subprocess.Popen(
                shell,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                cwd=folder,
                env={**self.PATH, "TERM": "xterm", "HOME": folder, "INPUTRC": "/dev/null"},
                pass_fds=[tell],
                start_new_session=True,
            )
            os.close(theirs)
            os.close(tell)
            lines = []
            unread = b""
            shown = b""
            os.write(mine, b"source ./.script\r")
            try:
                while len(lines) < 1 + len(typed):
                    readable = select.select([mine, told], [], [], 30 * SLOW)[0]
                    self.assertTrue(readable, (lines, shown))
                    if mine in readable:
                        shown += os.read(mine, 65536)
                    if told in readable:
                        unread += os.read(told, 65536)
                    if unread.endswith(b"\n"):
                        lines += [line.decode() for line in unread.splitlines()]
                        unread = b""
                        # clear the line (Ctrl-U), type the next one, press Tab, and let the
                        # shell report the line (Ctrl-T)
                        if len(lines) <= len(typed):
                            next_one = typed[len(lines) - 1].encode()
                            os.write(mine, b"\x15" + next_one + b"\t\x14")
            finally:
                process.kill()
                process.wait()
                os.close(mine)
                os.close(told)
        return {line: done.rstrip(" =") for line, done in zip(typed, lines[1:])}, shown

    def test_bash_completes(self):
        script = tally("completion", "bash").stdout.decode()
        tell = """bind -x '"\\C-t": echo "$READLINE_LINE" >&$TELL'"""
        told, shown = self.completed(
            ["bash", "--norc", "--noprofile", "-i"], script + tell, list(self.TYPED)
        )
        self.assertEqual(told, self.TYPED)
        self.assertNotIn(b"bash:", shown)

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish_completes(self):
        cases = {
            "tally cu": "cumsum",
            "tally --url unix:/x he": "health",
            "tally --ver": "--version",
            "tally cumsum --forma": "--format",
            "tally cumsum --format j": "json",
            "tally health --ex": "",
            "tally completion z": "zsh",
            "tally cumsum --format=j": "--format=json",
            "tally --ur": "--url",
            "tally --format js": "json",
            "tally --url unix:/x --retr": "--retries",
            "tally --url unix:/x cumsum --format j": "json",
            "tally cumsum on": "one.npy",
            "tally cumsum -o on": "one.npy",
            "tally cumsum --output on": "one.npy",
            "tally health on": "",
        }
        # fish 4 lists first the options that begin with the typed letters, then options that
        # contain these letters elsewhere. Only the first one is compared.
        asked = [f"echo (complete -C '{line}' | string replace -r '\\t.*' '')[1]" for line in cases]
        with tempfile.TemporaryDirectory() as folder:
            open(os.path.join(folder, "one.npy"), "w").close()
            done = subprocess.run(
                ["fish", "-N", "-c", "; ".join(["source -", *asked])],
                input=tally("completion", "fish").stdout.decode(),
                capture_output=True,
                text=True,
                cwd=folder,
                env=self.PATH,
            )
        self.assertEqual((done.stdout.split("\n")[:-1], done.stderr), (list(cases.values()), ""))

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh_completes(self):
        script = tally("completion", "zsh").stdout.decode()
        script = "autoload -U compinit && compinit -D -u\n" + script
        tell = 'tell() { print -r -- "$BUFFER" >&$TELL; }; zle -N tell; bindkey ^T tell'
        told, _ = self.completed(["zsh", "-f", "-i"], script + tell, list(self.TYPED))
        self.assertEqual(told, self.TYPED)


if __name__ == "__main__":
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2)
    result = unittest.main(exit=False, testRunner=runner).result
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)
