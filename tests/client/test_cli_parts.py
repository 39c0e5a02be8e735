"""`tally cumsum` with tensors of any size: in parts and as streams, also when the server dies.

Plain Python, without packages:  TALLY=build/bin/tally TALLY_URL=... python3 tests/client/test_cli_parts.py
Tests that kill servers start build/bin/tallyd beside TALLY.
"""

import itertools
import json
import math
import os
import queue
import random
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

from test_cli import (
    TALLY,
    URL,
    Directory,
    Server,
    Terminal,
    answer,
    npy,
    npy_parts,
    sums,
    tally,
)

TALLYD = os.path.join(os.path.dirname(TALLY), "tallyd")
INSTRUMENTED = "asan" in TALLY or "tsan" in TALLY
LONG = "TALLY_TEST_LONG" in os.environ  # set by `make soak-client`
MIB = 1 << 20

SLOW_NAMES = b"""
#include <netdb.h>
#include <unistd.h>
int getaddrinfo(const char *a, const char *b, const struct addrinfo *c, struct addrinfo **d)
{
    sleep(60);
    return EAI_AGAIN;
}
"""
SIGNALLED_IN_WRITE = rb"""
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
ssize_t write(int fd, const void *bytes, size_t count)
{
    if (count > 3)
        raise(SIGTERM);
    return syscall(SYS_write, fd, bytes, count);
}
"""
CLOCK_ABOUT_TO_BE_SET_BACK = rb"""
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_REALTIME)
        now->tv_sec += 3600;
    return result;
}
"""
SIGNALLED_WHILE_CATCHING = rb"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>
int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    int (*real)(int, const struct sigaction *, struct sigaction *) = dlsym(RTLD_NEXT, "sigaction");
    int result = real(number, action, before);
    if (number == SIGTERM) {
        raise(SIGTERM);
        pause(); /* until the alarm that wakes calls */
    }
    return result;
}
"""
FAILING_OUTPUT = rb"""
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>
static ssize_t fail_once(void *unused, const char *bytes, size_t count)
{
    static int calls;
    return calls++ == 0 ? 0 : write(1, bytes, count);
}
__attribute__((constructor)) static void replace_output(void)
{
    static char buffer[1024];
    stdout = fopencookie(NULL, "w", (cookie_io_functions_t){.write = fail_once});
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
}
"""


def int64s(*numbers):
    return struct.pack(f"<{len(numbers)}q", *numbers)


def running_sums(count):
    """`count` int64 numbers and their sums."""
    numbers = [(i * 2654435761) % 1000003 - 500000 for i in range(count)]
    return int64s(*numbers), int64s(*itertools.accumulate(numbers))


def forward(head, body):
    """Forward a request to the real server and return its answer."""
    fields = dict(re.findall(r"(?im)^(content-type|tally-carry-length): *(.*?)\r?$", head))
    request = urllib.request.Request(URL + head.split()[1], body, fields)
    with urllib.request.urlopen(request) as told:
        kept = ("Tally-Dtype", "Tally-Shape", "Tally-Carry-Length")
        headers = "".join(
            f"{name}: {told.headers[name]}\r\n" for name in kept if told.headers[name]
        )
        return answer(told.read(), told.headers["Content-Type"], headers=headers)


class Tallyd:
    """A server that can be killed and started again at its address."""

    def __init__(self, *options, limit=None):
        self.options, self.limit = options, limit
        for _ in range(5):  # another test may take the port before the server does
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.address = "127.0.0.1:%d" % free.getsockname()[1]
            self.url = f"http://{self.address}"
            if self.begin():
                return
        raise AssertionError("tallyd does not start")

    def start(self):
        assert self.begin(), "tallyd does not start"

    def begin(self):
        """Start the server. Returns false if it exits before it is ready."""

        def limited():
            if self.limit:  # limits the private writable memory of the server
                resource.setrlimit(resource.RLIMIT_DATA, (self.limit, self.limit))

        self.process = subprocess.Popen(
            [TALLYD, "--listen", self.address, "--drain-delay-ms", "0", *self.options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=limited,
        )
        while tally("health", url=self.url).returncode != 0:
            if self.process.poll() is not None:
                return False
        return self.process.poll() is None

    def peak_bytes(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) << 10

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class Files(Directory):
    def test_parts_have_the_bits_of_the_whole(self):
        rng = random.Random(17)
        # bytes of a part: `some` fit several elements, `one` fits one
        some, one = ("2048", "300"), ("4",)
        for shape, cuts in (
            ([3000], some),
            ([7, 400], some),
            ([400, 7], some),
            ([3, 300, 5], some),
            ([300], one),
            ([2, 20, 3], one),
        ):
            count = math.prod(shape)
            data = struct.pack(
                f"<{count}f", *(rng.uniform(-1, 1) * 10 ** rng.randint(-3, 3) for _ in range(count))
            )
            source = self.path("in.npy", npy("<f4", shape, data))
            for axis in range(len(shape)):
                for flags in ([], ["--reverse"], ["--exclusive"]):
                    with self.subTest(shape=shape, axis=axis, flags=flags):
                        flags = ["--axis", str(axis), *flags]
                        self.assert_done(
                            tally("cumsum", source, "-o", self.path("whole.npy"), *flags)
                        )
                        for part_bytes in cuts:
                            done = tally(
                                "cumsum",
                                source,
                                "-o",
                                self.path("parts.npy"),
                                *flags,
                                "--part-bytes",
                                part_bytes,
                            )
                            self.assert_done(done)
                            self.assertEqual(self.read("parts.npy"), self.read("whole.npy"))

    def test_a_file_in_fortran_order_stays_in_it(self):
        columns = [int64s(1, 2, 3), int64s(10, 20, 30)]
        source = self.path("in.npy", npy("<i8", (3, 2), b"".join(columns), True))
        for axis, expected in ((0, (1, 3, 6, 10, 30, 60)), (1, (1, 2, 3, 11, 22, 33))):
            self.assert_done(
                tally(
                    "cumsum",
                    source,
                    "-o",
                    self.path("out.npy"),
                    "-a",
                    str(axis),
                    "--part-bytes",
                    "16",
                )
            )
            header, data = npy_parts(self.read("out.npy"))
            self.assertRegex(header, r"'fortran_order': True *, 'shape': \(3, 2\)")
            self.assertEqual(data, int64s(*expected))

    def test_a_file_in_fortran_order_becomes_raw_or_json_in_c_order(self):
        columns = [int64s(1, 2, 3), int64s(10, 20, 30)]
        file = npy("<i8", (3, 2), b"".join(columns), True)
        for stdin, name in ((file, "-"), (b"", self.path("in.npy", file))):
            done = tally("cumsum", name, "-F", "json", stdin=stdin)
            self.assert_done(done)
            self.assertEqual(json.loads(done.stdout), [[1, 10], [3, 30], [6, 60]])
            done = tally("cumsum", name, "-F", "raw", "-a", "1", stdin=stdin)
            self.assert_done(done)
            self.assertEqual(done.stdout, int64s(1, 11, 2, 22, 3, 33))
            done = tally("cumsum", name, "-F", "csv", stdin=stdin)
            self.assertEqual(done.stdout, b"1,10\n3,30\n6,60\n")
        self.assert_failed(tally("cumsum", "-F", "json", stdin=file[:-8]), 2, "not written whole")
        large = npy("<i8", (1 << 62, 1 << 62, 0), b"", True)  # the array has no elements
        self.assert_done(tally("cumsum", self.path("in.npy", large), "-F", "raw"))

    def test_the_ending_of_a_result_is_that_of_a_format(self):
        source = self.path("in.npy", npy("<i8", (3,), int64s(1, 2, 3)))
        done = tally("cumsum", source, "-o", self.path("out.npz"))
        self.assert_failed(done, 2, "out.npz", ".npy", "--output-format")
        for name in ("out.xlsx", "out.txt.gz", "x.d/../out.npyx"):
            done = tally("cumsum", source, "-o", self.path(name))
            ending = name[name.rindex(".") :]
            self.assert_failed(done, 2, f"no format {ending}; the formats are .npy,", ".csv")
        self.assertEqual(self.files(), ["in.npy"])
        os.mkdir(self.path("x.d"))
        for name in ("out", "out.1", ".out", "x.d/out"):
            self.assert_done(tally("cumsum", source, "-o", self.path(name)))
            self.assertEqual(npy_parts(self.read(name))[1], int64s(1, 3, 6))
            os.remove(self.path(name))
        os.rmdir(self.path("x.d"))
        self.assert_done(tally("cumsum", source, "-o", self.path("OUT.NPY")))
        self.assertEqual(npy_parts(self.read("OUT.NPY"))[1], int64s(1, 3, 6))
        done = tally("cumsum", source, "-o", self.path("out.npz"), "-F", "raw")
        self.assert_done(done)
        self.assertEqual(self.read("out.npz"), int64s(1, 3, 6))

    def test_a_json_result_keeps_the_shape(self):
        source = self.path("in.npy", npy("<i8", (2, 1, 2), int64s(1, 2, 3, 4)))
        done = tally("cumsum", source, "-F", "json", "--axis=-1", "--part-bytes", "16")
        self.assert_done(done)
        self.assertEqual(json.loads(done.stdout), [[[1, 3]], [[3, 7]]])
        nan = self.path("nan.npy", npy("<f8", (1,), struct.pack("<d", float("nan"))))
        self.assertEqual(json.loads(tally("cumsum", nan, "-F", "json").stdout), ["NaN"])
        empty = self.path("empty.npy", npy("<i8", (2, 0, 3), b""))
        self.assertEqual(json.loads(tally("cumsum", empty, "-F", "json").stdout), [[], []])

    def test_an_open_size_is_that_of_the_file(self):
        source = self.path("in.bin", int64s(1, 2, 3, 4, 5, 6))
        for shape in ("-1,2", "3,-1"):
            done = tally("cumsum", source, "-d", "int64", "-s", shape, "-F", "json")
            self.assert_done(done)
            self.assertEqual(json.loads(done.stdout), [[1, 2], [4, 6], [9, 12]])
        self.assert_failed(tally("cumsum", source, "-d", "int64", "-s", "-1,4"), 2, "48 bytes")
        self.assert_failed(tally("cumsum", source, "-d", "int64", "-s", "-1,-1"), 2, "--shape")
        self.assert_failed(tally("cumsum", source, "-d", "int64", "-s", "-1,0"), 2, "can be any")
        huge = ["-d", "int64", "-s", f"{1 << 40},{1 << 40}"]
        self.assert_failed(tally("cumsum", source, *huge), 2, "more than 2^63 bytes")
        for shape in "3,-1", f"{1 << 40},{1 << 40}":
            done = tally(
                "cumsum", *["-f", "raw", "-d", "int64", "-s"], shape, stdin=int64s(1, 2, 3)
            )
            self.assert_failed(done, 2, "of a stream only the first size can be open")

    def test_an_input_that_is_written_to_meanwhile_is_no_input(self):
        """If the file changes between two parts, the sums would mix old and new elements."""
        count = 1 << 16
        for name, content, options in (
            ("in.npy", npy("<i8", (count,), bytes(8 * count)), []),
            ("in.bin", bytes(8 * count), ["-d", "int64", "-s", f"{count}"]),
            ("in.txt", b"1\n" * count, []),
        ):
            source = self.path(name, content)
            with open(source, "r+b", buffering=0) as file:

                def overwrite(number, head, body):
                    if number == 0:
                        before = os.fstat(file.fileno()).st_mtime_ns
                        os.pwrite(file.fileno(), content[-1:], len(content) - 1)
                        # the file system's clock may be too coarse to show the write
                        os.utime(source, ns=(0, before ^ 1))
                    return forward(head, body), True

                with Server(overwrite) as s:
                    output = ["-o", self.path("out.bin"), "--part-bytes", "64KiB"]
                    done = tally("cumsum", source, *options, *output, url=s.url)
            self.assert_failed(done, 7, name, "was written to while it was read", "again")
            self.assertNotIn("out.bin", self.files())

    def test_a_text_that_becomes_shorter_meanwhile_is_no_input(self):
        source = self.path("in.csv", b"1\n" * (1 << 20))

        before = os.stat(source).st_mtime_ns

        def cut(number, head, body):
            os.truncate(source, 1000)
            # the file system's clock may be too coarse to show the write
            os.utime(source, ns=(0, before))
            return forward(head, body), True

        with Server(cut) as s:
            options = ["-o", self.path("out.csv"), "--part-bytes", "64KiB"]
            done = tally("cumsum", source, *options, url=s.url)
        self.assert_failed(done, 7, "in.csv was written to while it was read")
        self.assertEqual(self.files(), ["in.csv"])

    def test_progress_is_that_of_the_whole(self):
        source = self.path("in.npy", npy("|u1", (MIB,), bytes(MIB)))
        terminal = Terminal("cumsum", source, "-o", self.path("out.npy"), "--part-bytes", "256")
        self.assertEqual(terminal.finish(), 0, terminal.shown)
        self.assertRegex(
            terminal.shown.decode(),
            r"summing +.*\[#*-+\].* \d+%  [\d.]+ [KM]iB of 1\.0 MiB  [\d.]+ [KM]iB/s  \d+:\d\d left",
        )

    def test_a_file_larger_than_memory_goes_through(self):
        """The client and the server are limited to 512 MiB each."""
        limit = None if INSTRUMENTED else 512 * MIB
        count = (64 if INSTRUMENTED else 20480 if LONG else 640) * MIB // 8
        source = self.path("in.npy", npy("<i8", (count,), b""))
        head = os.path.getsize(source)
        steps = sorted(random.Random(1).sample(range(count), 20))
        with open(source, "r+b") as file:
            file.truncate(head + 8 * count)
            for step in steps:
                file.seek(head + 8 * step)
                file.write(int64s(1 + step))

        def limited():
            if limit:
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        with Tallyd("--memory-budget", "192MiB", limit=limit) as server:
            process = subprocess.Popen(
                [TALLY, "cumsum", source, "-u", server.url],
                stdout=subprocess.PIPE,
                preexec_fn=limited,
            )
            total = 0
            process.stdout.read(head)
            for begin, end in zip([0, *steps], [*steps, count]):
                same = int64s(total) * MIB  # the sums are equal up to the next nonzero number
                while begin < end:
                    some = min(end - begin, MIB)
                    self.assertEqual(process.stdout.read(8 * some), same[: 8 * some])
                    begin += some
                total += 1 + end
            self.assertEqual((process.stdout.read(), process.wait()), (b"", 0))
            process.stdout.close()
            if limit:
                self.assertLess(server.peak_bytes(), limit)


class Servers(Directory):
    """The command continues when its server dies."""

    def start(self, server, *arguments, stdin=None):
        return subprocess.Popen(
            [
                TALLY,
                "cumsum",
                self.path("in.npy") if stdin is None else "-",
                "-o",
                self.path("out.npy"),
                "-u",
                server.url,
                *arguments,
            ],
            stdin=stdin,
            stderr=subprocess.PIPE,
        )

    def written(self):
        """Bytes of the result that are written so far."""
        names = [name for name in self.files() if name.startswith("out.npy")]
        return sum(os.stat(self.path(name)).st_size for name in names)

    def wait_for(self, process, condition):
        while not condition():
            self.assertIsNone(process.poll(), "it ended before the test had begun")
            time.sleep(0.0005)

    def test_a_server_killed_in_the_middle_costs_a_part(self):
        count = MIB // 2
        data, expected = running_sums(count)
        file = npy("<i8", (count,), data)
        head, size = file[: -len(data)], len(data) // 10
        tenths = [data[at * size : (at + 1) * size if at < 9 else None] for at in range(10)]
        come = queue.SimpleQueue()  # the next chunks, queued so that the client never reads ahead
        with Tallyd() as server:
            process = self.start(server, "--part-bytes", "4096", stdin=subprocess.PIPE)

            def feed():
                with process.stdin as pipe:
                    for text in iter(come.get, None):
                        pipe.write(text)

            feeder = threading.Thread(target=feed, daemon=True)
            feeder.start()
            come.put(head + b"".join(tenths[:4]))
            for share, more in ((0.1, (4, 5)), (0.2, (5, 6)), (0.3, (6, 8)), (0.5, (8, 10))):
                self.wait_for(process, lambda share=share: self.written() > share * len(data))
                server.kill()
                self.assertIsNone(process.poll())
                server.start()
                come.put(b"".join(tenths[slice(*more)]))
            come.put(None)
            feeder.join()
            process.stdin = None
            _, shown = process.communicate(timeout=60)
            with urllib.request.urlopen(server.url + "/metrics") as page:
                counts = re.findall(
                    r'tally_requests_total{route="cumsum",.*} (\d+)', page.read().decode()
                )
        # The last server summed the other half, and the part that was lost.
        self.assertIn(sum(map(int, counts)), range(1, len(data) // 4096 // 2 + 3))
        self.assertEqual((process.returncode, shown), (0, b""))
        self.assertEqual(npy_parts(self.read("out.npy"))[1], expected)
        self.assertEqual(self.files(), ["out.npy"])

    def test_a_server_that_stays_away_is_given_up(self):
        count = MIB // 2
        self.path("in.npy", npy("<i8", (count,), bytes(8 * count)))
        for arguments, seconds in ((["--timeout", "0.5"], 0.5), (["--retries", "0"], 0)):
            with Tallyd() as server:
                process = self.start(server, "--part-bytes", "4096", *arguments)
                self.wait_for(process, lambda: self.written() > 100000)
                start = time.time()  # the server may take longer to end than the timeout
            _, shown = process.communicate(timeout=60)
            self.assertGreaterEqual(time.time() - start, seconds * 0.5)
            self.assertEqual(process.returncode, 3, shown)
            self.assertEqual(self.files(), ["in.npy"])

    def test_a_busy_server_is_asked_less_and_less_often(self):
        """If the server has already answered a part, the command keeps waiting for a busy
        server."""
        busy = answer(
            b'{"error":"full","code":"queue_full"}', status="503 X", headers="Retry-After: 99\r\n"
        )
        right = sums(bytes(8), "int64", "1,1,1")
        self.path("in.npy", npy("<i8", (2,), bytes(16)))
        right = right.replace(b"Content-Length: 8", b"Tally-Carry-Length: 64\r\nContent-Length: 72")
        right = right.replace(b"\r\n\r\n", b"\r\n\r\n" + bytes(64))
        with Server(lambda number, *_: busy if number else right) as s:
            process = self.start(s, "--part-bytes", "8", "--timeout", "1")
            _, shown = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 4, shown)
        # The command asks after 0, 0.2, 0.6 and 1.4 seconds, and not every 0.2 seconds.
        self.assertIn(s.count, range(2, 6))

    def test_a_server_behind_a_proxy_is_waited_for_too(self):
        """A proxy without a server answers 502."""
        gone = answer(b"<h1>Bad Gateway</h1>", "text/html", status="502 Bad Gateway")
        data, expected = running_sums(1 << 16)
        self.path("in.npy", npy("<i8", (1 << 16,), data))
        with Server(lambda number, head, body: gone if number == 1 else forward(head, body)) as s:
            process = self.start(s, "--part-bytes", "64KiB")
            _, shown = process.communicate(timeout=60)
        self.assertEqual((process.returncode, shown), (0, b""))
        self.assertEqual(npy_parts(self.read("out.npy"))[1], expected)
        with Server(lambda *_: gone) as s:  # the server was never reachable
            process = self.start(s, "--part-bytes", "64KiB")
            _, shown = process.communicate(timeout=60)
        self.assertEqual((process.returncode, s.count), (6, 1), shown)

    def test_waiting_for_a_server_ends_with_a_signal(self):
        count = MIB // 2
        self.path("in.npy", npy("<i8", (count,), bytes(8 * count)))
        with Tallyd() as server:
            process = self.start(server, "--part-bytes", "4096")
            self.wait_for(process, lambda: self.written() > 100000)
        process.send_signal(signal.SIGTERM)
        _, shown = process.communicate(timeout=60)
        self.assertEqual((process.returncode, shown), (130, b"tally: error: interrupted\n"))
        self.assertEqual(self.files(), ["in.npy"])

    @unittest.skipIf(INSTRUMENTED, "a library is loaded before the sanitizer's")
    def test_a_signal_just_before_a_full_pipe_is_written_to_ends_it(self):
        self.be_signalled_before_a_full_pipe(SIGNALLED_IN_WRITE)

    @unittest.skipIf(INSTRUMENTED, "a library is loaded before the sanitizer's")
    def test_a_clock_that_is_set_back_holds_no_signal_up(self):
        self.be_signalled_before_a_full_pipe(SIGNALLED_IN_WRITE + CLOCK_ABOUT_TO_BE_SET_BACK)

    def be_signalled_before_a_full_pipe(self, text):
        code = self.path("write.c", text)
        library = self.path("write.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, code], check=True)
        data = bytes(1 << 17)  # more than a pipe holds
        os.mkfifo(self.path("out"))
        reader = os.open(self.path("out"), os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        asked = b'{"data":[0],"shape":[131072],"strides":[0],"dtype":"uint8"}'
        for described, stdin, right in (
            (["-f", "json"], asked, answer(b'{"data":[' + b"0," * len(data) + b"0]}")),
            (
                ["-d", "uint8", "-s", str(len(data)), "-F", "raw"],
                data,
                sums(data, "uint8", f"1,{len(data)},1"),
            ),
        ):
            with self.subTest(described), Server(lambda *_, right=right: right) as s:
                process = subprocess.Popen(
                    [TALLY, "cumsum", "-u", s.url, *described, "-o", self.path("out")],
                    stdin=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={**os.environ, "LD_PRELOAD": library},
                )
                try:
                    _, shown = process.communicate(stdin, timeout=60)
                finally:
                    process.kill()
                self.assertEqual((process.returncode, shown), (130, b"tally: error: interrupted\n"))

    @unittest.skipIf(INSTRUMENTED, "a library is loaded before the sanitizer's")
    def test_a_signal_that_comes_as_soon_as_it_is_caught_ends_it(self):
        code = self.path("catch.c", SIGNALLED_WHILE_CATCHING)
        library = self.path("catch.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, code, "-ldl"], check=True)
        process = subprocess.Popen(
            [TALLY, "cumsum", "-f", "json"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LD_PRELOAD": library},
        )
        try:
            self.assertEqual(process.wait(timeout=60), 130)
        finally:
            process.kill()
            _, shown = process.communicate()
        self.assertEqual(shown, b"tally: error: interrupted\n")

    @unittest.skipIf(INSTRUMENTED, "a library is loaded before the sanitizer's")
    def test_output_that_fails_in_between_is_an_error_where_its_end_is_written(self):
        """The preloaded library lets one write fail, and later writes succeed. A full pipe does
        the same if another process made it non-blocking."""
        code = self.path("output.c", FAILING_OUTPUT)
        library = self.path("output.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, code], check=True)
        done = tally("--complete", "-", env={"LD_PRELOAD": library})
        self.assertEqual(done.returncode, 7)
        self.assertIn(b"standard output: it could not be written", done.stderr)

    @unittest.skipIf(INSTRUMENTED, "a library is loaded before the sanitizer's")
    def test_a_name_that_is_long_looked_for_is_given_up_in_time(self):
        code = self.path("names.c", SLOW_NAMES)
        library = self.path("names.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, code], check=True)
        began = time.monotonic()
        for command in ("version", "cumsum"):
            done = tally(
                *(command, "--timeout", "0.2", "--url", "http://slow.example"),
                stdin=b"[1]",
                env={"LD_PRELOAD": library},
            )
            self.assert_failed(done, 5, "not done after 200 ms")
        self.assertLess(time.monotonic() - began, 50)


class Streams(Directory):
    def open(self, *arguments, **options):
        """Start the command with pipes as input and output."""
        process = subprocess.Popen(
            [TALLY, "cumsum", "-u", URL, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        return process

    def test_raw_numbers_are_summed_as_they_come(self):
        """Each answer arrives before the next numbers are sent; the last line is sent in two
        pieces."""
        process = self.open("-d", "int64", "-s", "-1,2")
        for i in range(1, 5):
            process.stdin.write(int64s(i, 10)[:8])
            process.stdin.flush()
            process.stdin.write(int64s(i, 10)[8:])
            process.stdin.flush()
            self.assertEqual(process.stdout.read(16), int64s(i * (i + 1) // 2, 10 * i))
        process.stdin.close()
        self.assertEqual((process.stdout.read(), process.wait()), (b"", 0))

    def test_a_line_that_has_not_come_whole_waits_for_its_rest(self):
        """Complete lines before the incomplete one are answered meanwhile."""
        process = self.open("-d", "int64", "-s", "-1,2")
        lines = [int64s(i, 10) for i in range(4)]
        process.stdin.write(lines[0] + lines[1][:5])
        process.stdin.flush()
        self.assertEqual(process.stdout.read(16), int64s(0, 10))
        process.stdin.write(lines[1][5:] + lines[2] + lines[3][:11])
        process.stdin.flush()
        self.assertEqual(process.stdout.read(32), int64s(1, 20, 3, 30))
        process.stdin.write(lines[3][11:])
        process.stdin.close()
        self.assertEqual((process.stdout.read(), process.wait()), (int64s(6, 40), 0))

    def test_pipes_have_the_bits_of_files(self):
        rng = random.Random(3)
        data = struct.pack("<9000f", *(rng.uniform(-1, 1) for _ in range(9000)))
        file = npy("<f4", (3, 1000, 3), data)
        for axis in range(3):
            flags = ["--axis", str(axis)]
            self.assert_done(
                tally("cumsum", self.path("in.npy", file), "-o", self.path("whole.npy"), *flags)
            )
            for part_bytes in ("10000", "3100", "100"):
                done = tally("cumsum", "--part-bytes", part_bytes, *flags, stdin=file)
                self.assert_done(done)
                self.assertEqual(done.stdout, self.read("whole.npy"))
        done = tally("cumsum", "--reverse", "-a", "-1", "--part-bytes", "100", stdin=file)
        self.assert_done(done)
        self.assert_failed(
            tally("cumsum", "--reverse", "--part-bytes", "100", stdin=file), 2, "needs a file"
        )

    def test_the_first_of_several_sizes_before_the_axis_may_be_open(self):
        for axis, expected in (
            ("1", (1, 2, 4, 6, 5, 6, 12, 14)),
            ("2", (1, 3, 3, 7, 5, 11, 7, 15)),
        ):
            described = ["-d", "int64", "-s", "-1,2,2", "--axis", axis, "--part-bytes", "32"]
            done = tally("cumsum", *described, stdin=int64s(*range(1, 9)))
            self.assert_done(done)
            self.assertEqual(done.stdout, int64s(*expected))

    def test_an_npy_file_of_a_stream_has_its_size_in_the_end(self):
        done = tally(
            "cumsum",
            "-d",
            "int64",
            "-s",
            "-1",
            "-o",
            self.path("out.npy"),
            "-F",
            "npy",
            stdin=int64s(1, 2, 3),
        )
        self.assert_done(done)
        header, data = npy_parts(self.read("out.npy"))
        self.assertIn("(3,)", header)
        self.assertEqual(data, int64s(1, 3, 6))
        numbers, sums = running_sums(1000)
        # The command writes the header again when the number of rows is known. For every rank,
        # the longer shape must fit into the bytes that were reserved for the first header.
        for rank in range(2, 24):
            shape = "-1" + (rank - 1) * ",1"
            out = ["-F", "npy", "-o", self.path("out.npy")]
            self.assert_done(tally("cumsum", "-d", "int64", "-s", shape, *out, stdin=numbers))
            header, data = npy_parts(self.read("out.npy"))
            self.assertIn("(1000, 1", header)
            self.assertEqual(data, sums)
        done = tally("cumsum", "-d", "int64", "-s", "-1", "-F", "npy", stdin=int64s(1))
        self.assert_failed(done, 2, "size is not known")

    def test_streams_that_end_too_early_or_too_late_are_no_result(self):
        whole = npy("<i8", (4,), int64s(1, 2, 3, 4))
        raw = ["-d", "int64", "-s", "-1,2"]
        for stdin, arguments, status, text in (
            (whole[:-8], [], 2, "ended in the middle of the tensor"),
            (whole + b"x", [], 2, "more bytes"),
            (int64s(1, 2, 3), raw, 2, "ended in the middle of a line"),
            (whole[:40], [], 2, "ends inside its header"),
        ):
            done = tally("cumsum", "-o", self.path("out"), "-F", "raw", *arguments, stdin=stdin)
            self.assert_failed(done, status, text)
            self.assertEqual(self.files(), [])

    def test_an_endless_pipe_needs_no_more_memory(self):
        def resident():
            with open(f"/proc/{process.pid}/status") as status:
                return (
                    int(next(line for line in status if line.startswith("VmRSS")).split()[1]) << 10
                )

        endless = subprocess.Popen(["yes", "1"], stdout=subprocess.PIPE)
        process = subprocess.Popen(
            [TALLY, "cumsum", "-u", URL, "-f", "text", "--part-bytes", "1048576"],
            stdin=endless.stdout,
            stdout=subprocess.PIPE,
            # an instrumented build keeps freed memory for a while
            env={
                **os.environ,
                "ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:quarantine_size_mb=1",
            },
        )
        try:
            self.assertEqual(process.stdout.read(8), b"1\n2\n3\n4\n")
            process.stdout.read(10 * MIB)
            before = resident()
            latest = time.monotonic() + 60 * LONG
            while time.monotonic() < latest:
                process.stdout.read(10 * MIB)
            process.stdout.read(30 * MIB)
            self.assertLess(resident() - before, 4 * MIB)
        finally:
            for one in (process, endless):
                one.kill()
                one.wait()
                one.stdout.close()


if __name__ == "__main__":
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2)
    result = unittest.main(exit=False, testRunner=runner).result
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)
