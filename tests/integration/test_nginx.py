"""nginx in front of a Unix socket, with the lines of docs/securing.md.

If the test runs as root, nginx runs as another user whose group --socket-group admits, as on a
server. Otherwise nginx runs as the same user, and the socket has one of the user's other groups."""

import errno
import os
import pathlib
import re
import shutil
import socket
import stat
import subprocess
import tempfile

import numpy as np
import pytest

from support import calls
from support.http import Client, Wire
from support.tallyd import BINARY, TOP, free_port
from support.waiting import until

NOBODY = 65534
PROXY_GROUP, OTHER_GROUP = 33, 65534  # 33: www-data in Debian; only the number matters
NGINX = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")


def as_proxy(group):
    """Options for a process with no more rights than a proxy."""
    if os.getuid() != 0:
        return {}
    return {"user": NOBODY, "group": group, "extra_groups": []}


def socket_group():
    if os.getuid() == 0:
        return PROXY_GROUP
    return next((group for group in os.getgroups() if group != os.getgid()), os.getgid())


@pytest.fixture
def folder():
    """A folder that every user may open, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="tally-nginx-") as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


def documented():
    """The upstream and the location block of the document."""
    page = (TOP / "docs" / "securing.md").read_text()
    blocks = re.findall(r"^    (?:upstream|location) .*?\}$", page, re.DOTALL | re.MULTILINE)
    upstream, location = (re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in blocks)
    assert upstream.count("{") == upstream.count("}") and location.endswith("}")
    assert "unix:/run/tally/sock" in upstream
    return upstream, location


@pytest.fixture
def nginx(folder):
    """Start nginx on a port, with the document's lines and the socket's real path. buffering: use
    nginx's default buffering of requests and answers."""
    started = []

    def start(path, buffering=False):
        upstream, location = documented()
        if buffering:
            location, removed = re.subn(r"\n +proxy_request_buffering off;", "", location)
            assert removed == 1
        port = free_port()
        own = folder / "nginx"
        own.mkdir()
        temporary = "\n".join(
            f"  {kind}_temp_path {own}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (own / "nginx.conf").write_text(
            f"daemon off;\nmaster_process off;\npid {own}/pid;\nerror_log {own}/error.log;\n"
            f"events {{}}\nhttp {{\n  access_log off;\n{temporary}\n"
            f"  {upstream.replace('/run/tally/sock', path)}\n"
            f"  server {{\n  listen 127.0.0.1:{port};\n  {location}\n  }}\n}}\n"
        )
        if os.getuid() == 0:
            os.chown(own, NOBODY, PROXY_GROUP)
        command = [
            NGINX,
            "-p",
            str(own),
            "-e",
            str(own / "error.log"),
            "-c",
            str(own / "nginx.conf"),
        ]
        with open(folder / "nginx.out", "wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, **as_proxy(PROXY_GROUP))
        started.append(process)

        def answers():
            assert process.poll() is None, (folder / "nginx.out").read_text()
            client = Client(port, 10)
            try:
                return client.get("/livez").status == 200
            except OSError:
                return False
            finally:
                client.close()

        until(answers, what="nginx never answered")
        return port

    yield start
    for process in started:
        process.terminate()
        process.wait(30)


def connect_as(path, group):
    """Connect as nobody with that group: returns 0 or the errno."""
    child = os.fork()
    if child == 0:
        result = errno.EINVAL
        try:
            os.setgroups([])
            os.setgid(group)
            os.setuid(NOBODY)
            with socket.socket(socket.AF_UNIX) as connection:
                result = connection.connect_ex(path)
        finally:
            os._exit(result)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_nginx_of_another_group_reaches_the_socket_as_documented(start_server, nginx, folder):
    assert NGINX, "nginx is missing: deploy/install-deps.sh test"
    path, group = str(folder / "sock"), socket_group()
    start_server("--listen", f"unix:{path}", "--socket-group", str(group))
    about = os.stat(path)
    assert (stat.S_IMODE(about.st_mode), about.st_gid) == (0o660, group)
    if os.getuid() == 0:
        assert connect_as(path, PROXY_GROUP) == 0
        assert connect_as(path, OTHER_GROUP) == errno.EACCES
    client = Client(nginx(path))
    answer = client.post_json("/v1/cumsum", {"data": [1, 2, 3]})
    assert answer.status == 200 and answer.json()["data"] == [1, 3, 6]
    stored = np.ones(1 << 20, np.int32)
    answer = client.post(f"/v1/cumsum?dtype=int32&shape={1 << 20}", stored.tobytes(), calls.RAW)
    assert answer.status == 200
    assert np.array_equal(np.frombuffer(answer.body, np.int32), np.arange(1, (1 << 20) + 1))
    calls.expect_error(client.post_json("/v1/cumsum", {"data": [1], "axis": 9}), 400)
    client.close()


@pytest.mark.parametrize("buffering", [False, True])
def test_a_line_feed_between_chunks_hides_no_request_behind_nginx(
    start_server, nginx, folder, buffering
):
    """The first chunk's line, with and without an extension, ends with a line feed alone.
    Depending on where a parser sees the end of this line, the bytes of `hidden` are data or a
    request. nginx and tallyd may decide either way, but must agree."""
    path = str(folder / "sock")
    server = start_server("--listen", f"unix:{path}", "--socket-group", str(socket_group()))
    port = nginx(path, buffering)
    hidden = b"0\r\n\r\nGET /version HTTP/1.1\r\nHost: x\r\nX-Request-Id: hidden\r\n\r\n"
    head = b"POST /v1/cumsum HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    rest = b"xx\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(hidden), hidden)
    answers = b""
    for line in (b"2;\n", b"2\n"):
        with Wire(port) as wire:
            wire.send(head + line + rest)
            assert wire.closed()
            answers += wire.buffer
    client = server.client()
    client.get("/version", {"X-Request-Id": "behind"})
    client.close()
    until(lambda: "id=behind" in server.log)
    assert answers.count(b"HTTP/1.1 400") == 2
    assert answers.count(b"X-Request-Id: hidden") == server.log.count("id=hidden")


@pytest.mark.parametrize("buffering", [False, True])
def test_a_tensor_in_parts_goes_through_nginx(start_server, nginx, folder, buffering):
    """nginx passes on the header that announces the end of the carry, both ways."""
    assert NGINX, "nginx is missing: deploy/install-deps.sh test"
    path = str(folder / "sock")
    start_server("--listen", f"unix:{path}", "--socket-group", str(socket_group()))
    port = nginx(path, buffering)
    client = Client(port)
    stored = np.random.default_rng(1).standard_normal((100_000, 3)).astype(np.float32)
    whole = client.post("/v1/cumsum?dtype=float32&shape=100000,3", stored.tobytes(), calls.RAW)
    assert whole.status == 200
    carry, sums = b"", b""
    for begin, end in ((0, 33_000), (33_000, 33_001), (33_001, 100_000)):
        headers = {"Tally-Carry-Length": str(len(carry))} if carry else {}
        query = f"?dtype=float32&shape={end - begin},3&part={'next' if carry else 'first'}"
        body = carry + stored[begin:end].tobytes()
        answer = client.post("/v1/cumsum" + query, body, calls.RAW, headers)
        assert answer.status == 200, answer
        length = int(answer.headers["Tally-Carry-Length"])
        carry, part = answer.body[:length], answer.body[length:]
        sums += part
    assert sums == whole.body
    client.close()
    stored = np.arange(1, 200_001)
    np.save(folder / "in.npy", stored)
    command = [BINARY.removesuffix("d"), "cumsum", str(folder / "in.npy")]
    command += ["--url", f"http://127.0.0.1:{port}", "--part-bytes", "100000"]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    (folder / "out.npy").write_bytes(done.stdout)
    assert np.array_equal(np.load(folder / "out.npy"), np.cumsum(stored))
