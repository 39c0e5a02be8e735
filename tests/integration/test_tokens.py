"""Tokens: which client may use which route, the text of a refusal, and places where a secret must
never be."""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import termios
import threading

import numpy as np
import pytest
import tritonclient.http as triton

from support import calls
from support.calls import BODY, PATH, SUMS
from support.certificates import Tls, put
from support.http import post_bytes
from support.tallyd import BINARY, TOP, free_port
from support.waiting import pipe_with_reader, until

TALLY = pathlib.Path(BINARY).parent / "tally"
DOCUMENT = json.loads((TOP / "build" / "openapi" / "openapi.json").read_text())
OPEN = {"/livez", "/readyz"}
SECRETS = {
    "worker": ("tally_secret-of-a-worker", "infer"),
    "prometheus": ("tally_secret-of-prometheus", "metrics"),
    "root": ("tally_secret-of-root", "admin"),
    "all": ("tally_secret-of-all", "infer,metrics,admin"),
}
BODIES = {"application/json": b"{}", "application/octet-stream": b""}


def line_of(name, secret, scopes=None):
    digest = hashlib.sha256(secret.encode()).hexdigest()
    return f"{name}:{digest}" + ("" if scopes is None else f":{scopes}") + "\n"


def bearer(name):
    return {"Authorization": f"Bearer {SECRETS[name][0]}"}


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    lines = [line_of(name, *told) for name, told in SECRETS.items()]
    path.write_text("# who may come in\n\n" + "".join(lines))
    return path


@pytest.fixture
def guarded(start_server, tokens):
    return start_server("--token-file", str(tokens), "--allow-client-shm")


def routes():
    """(method, path, scopes) of every operation of the document; one of the scopes is enough."""
    values = {"{model}": "cumsum", "{version}": "1", "{region}": "region"}
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            if method in ("get", "post"):
                scopes = {name for way in operation["security"] for name in way.get("token", [])}
                for name, value in values.items():
                    path = path.replace(name, value)
                yield method.upper(), path, scopes


ROUTES = list(routes())


def test_the_document_names_a_scope_for_every_route_but_two():
    assert {path for _, path, scopes in ROUTES if not scopes} == OPEN
    assert len(ROUTES) > 30


def test_a_browser_gets_the_console_without_a_token_and_nothing_else(guarded):
    client = guarded.client()
    for path, status in (("/", 200), ("/version", 401), ("/openapi.json", 401)):
        answer = client.request("GET", path, headers={"Accept": "text/html"})
        assert answer.status == status, path
    assert client.request("GET", "/").status == 401
    client.close()


def test_where_there_is_no_console_a_browser_needs_a_token_for_the_page_of_links_too(
    start_server, tokens
):
    client = start_server("--token-file", str(tokens), "--console=false").client()
    assert client.request("GET", "/", headers={"Accept": "text/html"}).status == 401
    assert (
        client.request("GET", "/", headers={"Accept": "text/html", **bearer("all")}).status == 200
    )
    client.close()


def test_no_route_but_two_answers_without_a_token(guarded):
    """HEAD counts as GET; paths that do not exist give the same refusal."""
    client = guarded.client()
    tried = [(method, path) for method, path, _ in ROUTES]
    tried += [("HEAD", path) for method, path, _ in ROUTES if method == "GET"]
    tried += [("GET", "/nowhere"), ("POST", "/v1/nowhere"), ("DELETE", "/v1/cumsum")]
    for method, path in tried:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}):
            if path in OPEN:
                assert client.request(method, path, headers=headers).status == 200
                continue
            answer = client.request(method, path, headers=headers)
            assert answer.status == 401, (method, path, answer)
            wrong = ', error="invalid_token"' if headers else ""
            assert answer.headers["WWW-Authenticate"] == f'Bearer realm="tally"{wrong}'
            if method != "HEAD":
                calls.expect_error(answer, 401, "unauthorized", "Authorization")
    client.close()


@pytest.mark.parametrize("name", SECRETS)
def test_a_token_opens_what_its_scopes_say_and_nothing_else(guarded, name):
    client = guarded.client()
    has = set(SECRETS[name][1].split(","))
    for method, path, scopes in ROUTES:
        answer = client.request(method, path, b"{}" if method == "POST" else None, bearer(name))
        if not scopes or has & scopes:
            assert answer.status not in (401, 403), (method, path, answer)
        else:
            document = calls.expect_error(answer, 403, "forbidden", "Authorization")
            assert f'"{name}"' in document["error"]
            assert "insufficient_scope" in answer.headers["WWW-Authenticate"]
            assert f'scope="{min(scopes)}"' in answer.headers["WWW-Authenticate"] or len(scopes) > 1
    client.close()


def test_the_operator_is_computed_with_a_token(guarded):
    client = guarded.client()
    assert client.post(PATH, BODY, calls.RAW, bearer("worker")).body == SUMS
    for scheme in ("bearer", "BEARER"):
        headers = {"Authorization": f"{scheme}   {SECRETS['worker'][0]}  "}
        assert client.post(PATH, BODY, calls.RAW, headers).body == SUMS
    client.close()
    until(lambda: "token=worker" in guarded.log)


def test_a_name_in_the_log_is_of_that_request_alone(guarded):
    client = guarded.client()
    for number in range(2):
        assert client.post(PATH, BODY, calls.RAW, bearer("worker")).body == SUMS
        assert client.get("/version", {"X-Request-Id": f"nameless-{number}"}).status == 401
    client.close()
    until(lambda: "id=nameless-1" in guarded.log)
    lines = [line for line in guarded.log.splitlines() if "id=nameless-" in line]
    assert len(lines) == 2 and not any("token=" in line for line in lines)


@pytest.mark.parametrize(
    "value",
    ["Bearer", "Bearer ", "Bearerx", "", SECRETS["worker"][0], f"Bearer {SECRETS['worker'][0]} x"],
)
def test_a_malformed_token_is_refused_like_a_missing_one(guarded, value):
    client = guarded.client()
    answer = client.post(PATH, BODY, calls.RAW, {"Authorization": value})
    calls.expect_error(answer, 401, "unauthorized", "Authorization", "Authorization: Bearer TOKEN")
    client.close()


def test_two_tokens_at_once_are_refused(guarded):
    both = [("Authorization", bearer("worker")["Authorization"])] * 2
    with guarded.wire() as wire:
        answer = wire.send(post_bytes(PATH, BODY, [("Content-Type", calls.RAW), *both])).answer()
        assert answer.status == 400


@pytest.mark.parametrize("size", [100, 300_000, 8 << 20])
def test_a_body_is_refused_before_it_is_read_and_says_how_to_come_in(guarded, size):
    with guarded.wire() as wire:
        wire.send(post_bytes(f"/v1/cumsum?dtype=int8&shape={size}", bytes(size))[:-50])
        answer = wire.answer() if size > 1 << 20 else wire.send(bytes(50)).answer()
        calls.expect_error(answer, 401, "unauthorized")
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="tally"'


@pytest.mark.parametrize(
    "fields, begin, end",
    [
        ("Content-Length: 1000000", bytes(999_999), b"x"),
        ("Content-Length: 1000000\r\nContent-Encoding: gzip", bytes(999_999), b"x"),
        ("Transfer-Encoding: chunked", b"f4240\r\n" + bytes(999_999), b"x\r\n0\r\n\r\n"),
    ],
)
def test_bodies_of_requests_without_token_take_no_memory(start_server, tokens, fields, begin, end):
    """If they took memory, strangers could take all of it."""
    flags = ["--token-file", str(tokens), "--cors-origins", "*", "--http-loops", "1"]
    server = start_server(*flags)
    preflight = "OPTIONS /v1/cumsum HTTP/1.1\r\nOrigin: x\r\nAccess-Control-Request-Method: POST"
    client = server.client()
    with contextlib.ExitStack() as stack:
        for head in ("GET /livez HTTP/1.1", "HEAD /readyz HTTP/1.1", preflight):
            wire = stack.enter_context(server.wire())
            wire.send(f"{head}\r\nHost: x\r\n{fields}\r\n\r\n".encode() + begin).await_read()
            page = client.get("/metrics", bearer("all")).body.decode()
            assert re.search(r"^tally_memory_reserved_bytes 0$", page, re.M)
            status = wire.send(end).answer(head_request="HEAD" in head).status
            assert status == (204 if head == preflight else 200)
    client.close()


def test_the_file_is_taken_up_when_it_changes_and_a_damaged_one_is_not(guarded, tokens, tmp_path):
    client = guarded.client()

    def status(secret):
        headers = {"Authorization": f"Bearer {secret}"}
        return client.post(PATH, BODY, calls.RAW, headers).status

    fresh = tmp_path / "fresh"
    fresh.write_text(line_of("worker", "tally_new") + line_of("worker", SECRETS["worker"][0]))
    put(fresh, tokens)
    until(lambda: status("tally_new") == 200, 60, 1.1)
    # both tokens are valid while the clients change to the new one
    assert status(SECRETS["worker"][0]) == 200
    fresh.write_text(line_of("worker", "tally_new"))
    put(fresh, tokens)
    until(lambda: status(SECRETS["worker"][0]) != 200, 60)
    for damaged in ("worker:abc\n", "no colon", "a b:" + "0" * 64, line_of("x", "y", "root")):
        before = guarded.log.count("stay in use")
        fresh.write_text(line_of("other", "tally_other") + damaged)
        put(fresh, tokens)
        until(lambda before=before: guarded.log.count("stay in use") > before, 60)
        assert "line 2: " in guarded.log
        assert status("tally_new") == 200
    for text in ("", "# worker:abc\n\n"):
        before = guarded.log.count("it has no token")
        fresh.write_text(text)
        put(fresh, tokens)
        until(lambda before=before: guarded.log.count("it has no token") > before, 60)
        assert status("tally_new") == 200
    client.close()


def test_a_file_that_is_written_in_place_with_its_old_size_and_time_is_taken_up(guarded, tokens):
    client = guarded.client()
    seen = os.stat(tokens)
    text = tokens.read_text()
    fresh = line_of("worker", "tally_another-secret", "infer")
    with open(tokens, "r+") as file:
        file.write(text.replace(line_of("worker", *SECRETS["worker"]), fresh))
    os.utime(tokens, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    now = os.stat(tokens)
    assert (now.st_ino, now.st_size, now.st_mtime_ns) == (
        seen.st_ino,
        seen.st_size,
        seen.st_mtime_ns,
    )
    headers = {"Authorization": "Bearer tally_another-secret"}
    until(lambda: client.post(PATH, BODY, calls.RAW, headers).status == 200, 60, 0.1)
    assert client.post(PATH, BODY, calls.RAW, bearer("worker")).status != 200
    client.close()


def test_a_pipe_or_device_in_place_of_the_token_file_is_refused_without_waiting(
    guarded, tokens, tmp_path
):
    client = guarded.client()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    os.rename(tokens, tmp_path / "kept")
    for times, name in enumerate(("pipe", "null"), 1):
        os.rename(tmp_path / name, tokens)
        until(lambda times=times: guarded.log.count("it is no file any more") == times, 60)
        assert client.post(PATH, BODY, calls.RAW, bearer("worker")).status == 200
    os.rename(tmp_path / "kept", tokens)
    until(lambda: guarded.log.count("loaded from") == 2, 60)
    client.close()


def test_tokens_that_change_under_load_fail_no_request(guarded, tokens, tmp_path):
    stop, failed, done = threading.Event(), [], [0]

    def work():
        client = guarded.client()
        while not stop.is_set():
            answer = client.post(PATH, BODY, calls.RAW, bearer("worker"))
            done[0] += 1
            if answer.body != SUMS:
                failed.append(answer)
        client.close()

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    fresh = tmp_path / "fresh"
    for at in range(5):
        before = guarded.log.count("loaded from")
        fresh.write_text(line_of("worker", SECRETS["worker"][0]) + line_of(f"x{at}", f"{at}"))
        put(fresh, tokens)
        until(lambda before=before: guarded.log.count("loaded from") > before, 60)
    stop.set()
    for worker in workers:
        worker.join()
    assert not failed and done[0] > 0


def test_wrong_tokens_of_an_address_are_slowed_and_right_ones_are_not(guarded):
    """The service has not seen a valid token of this address before."""
    guesser, user = guarded.client(), guarded.client()
    statuses = []
    for at in range(300):
        guess = guesser.get("/version", {"Authorization": f"Bearer guess-{at}"})
        statuses.append(guess.status)
        assert user.get("/version", bearer("worker" if at % 2 else "all")).status == 200, at
    assert statuses[:10] == [401] * 10 and 429 in statuses, statuses
    until(lambda: guesser.get("/version", {"Authorization": "Bearer x"}).status == 401, 60, 0.2)
    for at in range(300):
        throttled = guesser.get("/version", {"Authorization": f"Bearer another-{at}"})
        if throttled.status == 429:
            break
    calls.expect_error(throttled, 429, "too_many_requests", "Authorization", "not one of")
    assert throttled.headers["Retry-After"] == "1"
    metrics = user.get("/metrics", bearer("all")).body.decode()
    counted = re.search(r'^tally_client_refusals_total{limit="wrong-tokens"} (\d+)$', metrics, re.M)
    assert int(counted[1]) >= statuses.count(429)
    for client in (guesser, user):
        client.close()


def test_behind_a_trusted_proxy_nobody_pays_for_the_guesses_of_another(start_server, tokens):
    client = start_server("--token-file", str(tokens), "--trusted-proxies", "127.0.0.1").client()

    def status_of(address, field):
        return client.get("/version", {"X-Forwarded-For": address, **field}).status

    guesses = [{"Authorization": f"Bearer guess-{at}"} for at in range(40)]
    assert 429 in [status_of("192.0.2.1", guess) for guess in guesses]
    assert status_of("192.0.2.2", guesses[0]) == 401
    client.close()


@pytest.mark.parametrize(
    "text, says",
    [
        (None, "No such file"),
        ("worker", "line 1"),
        ("# fine\n\nworker:" + "0" * 63 + "\n", "line 3: after the name there are not 64"),
        ("worker:" + "g" * 64, "64 hexadecimal digits"),
        ("worker:" + "0" * 64 + ":infer,", "scopes are not some of infer, metrics and admin"),
        (":" + "0" * 64, "begins with no name"),
        ("x" * 65 + ":" + "0" * 64, "begins with no name"),
        ("", "it has no token"),
        ("# worker:" + "0" * 64 + "\n\n", "it has no token"),
        (line_of("a", "x") + "\n" + line_of("b", "x"), "line 3: its hash is that of line 1"),
    ],
)
def test_a_file_that_cannot_be_used_ends_the_start_and_says_where(
    start_server, tmp_path, text, says
):
    path = tmp_path / "tokens"
    if text is not None:
        path.write_text(text)
    server = start_server("--token-file", str(path), wait=False)
    assert server.wait() == 2
    assert says in server.log and str(path) in server.log


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def unread(pipe):
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]


def test_a_pipe_is_waited_for_and_read_to_its_end(start_server, tokens, pipe):
    server = start_server("--token-file", str(pipe), wait=False)
    lines = tokens.read_bytes()
    with pipe_with_reader(pipe) as there:
        there.write(lines[:100])
        until(lambda: unread(there) == 0)
        there.write(lines[100:])
    server.wait_ready()
    assert server.client().get("/v1/devices", headers=bearer("prometheus")).status == 200


def test_tokens_in_a_pipe_whose_writer_has_exited_are_read(log_dir, tokens):
    """A shell opens such a pipe for --token-file <(command)."""
    port = free_port()
    command = f"exec {BINARY} --listen 127.0.0.1:{port} --token-file /dev/stdin"
    reader, writer = os.pipe()
    os.write(writer, tokens.read_bytes())
    os.close(writer)
    with open(log_dir / "token-pipe.log", "wb") as log:
        process = subprocess.Popen(["sh", "-c", command], stdin=reader, stderr=log)
    os.close(reader)
    try:
        until(lambda: b"4 loaded from /dev/stdin" in pathlib.Path(log.name).read_bytes())
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_start_that_waits_for_a_pipe(start_server, pipe, number):
    server = start_server("--token-file", str(pipe), wait=False)
    with pipe_with_reader(pipe):
        server.signal(number)
        assert server.wait() == 1
    assert f"--token-file {pipe}: told to stop" in server.log


@pytest.mark.release_only
@pytest.mark.parametrize("writes", [False, True], ids=["nobody is there", "somebody stays"])
def test_a_pipe_that_does_not_end_ends_the_start_and_says_what_it_needs(
    start_server, pipe, tokens, writes
):
    server = start_server("--token-file", str(pipe), wait=False, moves_clock=True)
    with pipe_with_reader(pipe) if writes else contextlib.nullcontext() as there:
        if writes:
            there.write(tokens.read_bytes())
        until(lambda: str(pipe) in server.open_paths())  # drivers must not delay the start
        until(lambda: server.pass_time(31) or server.process.poll() is not None)
    assert server.wait() == 2
    assert f"--token-file {pipe}: its end did not come within 30 s" in server.log


@pytest.mark.parametrize("path, says", [("/dev/zero", "more than 1 MiB"), ("/", "Is a directory")])
def test_a_token_file_with_a_mistake_is_refused(start_server, path, says):
    server = start_server("--token-file", path, wait=False)
    assert server.wait() == 2
    assert f"--token-file {path}: " in server.log and says in server.log


def test_a_line_that_is_a_token_by_mistake_is_not_in_the_log(start_server, tmp_path):
    path = tmp_path / "tokens"
    path.write_text("tally_the-secret-itself\n")
    server = start_server("--token-file", str(path), wait=False)
    assert server.wait() == 2
    assert "the-secret-itself" not in server.log


def memory_of(process):
    """The writable memory of a process, piece by piece. Pieces of a gigabyte or more are left
    out: they are reserved addresses that nothing has touched."""
    with open(process / "mem", "rb", 0) as memory:
        for row in (process / "maps").read_text().splitlines():
            span, rights, *_ = row.split()
            begin, end = (int(place, 16) for place in span.split("-"))
            if "w" in rights and end - begin < 1 << 30:
                memory.seek(begin)
                with contextlib.suppress(OSError):  # this piece has no readable pages
                    yield memory.read(end - begin)


def test_a_token_that_came_is_not_in_the_memory_of_the_process(guarded):
    """Only root can read the memory of the process; the user of the process cannot. With TLS,
    GnuTLS may leave the token in freed memory, so this test uses no TLS."""
    process = pathlib.Path(f"/proc/{guarded.pid}")
    secrets = [*(secret for secret, _ in SECRETS.values()), "tally_secret-of-nobody"]
    client = guarded.client()
    for secret in secrets:
        headers = {"Authorization": f"Bearer {secret}"}
        for path in ("/readyz", PATH, "/nowhere", PATH + "&axis=9"):
            client.post(path, BODY, calls.RAW, headers)
    begun = [guarded.wire() for _ in range(2)]
    # the first token may compute, the second one may not
    for wire, secret in zip(begun, secrets, strict=False):
        fields = [("Content-Type", calls.RAW), ("Authorization", f"Bearer {secret}")]
        wire.send(post_bytes(PATH, BODY, fields)[:-1]).await_read()
    assert client.get("/livez").status == 200
    if os.getuid() == 0:
        pieces = list(memory_of(process))
        # shows that the search works: the process stores the names of tokens
        assert any(b"prometheus" in piece for piece in pieces)
        for secret in secrets:
            assert not any(secret.encode() in piece for piece in pieces), secret
    else:
        with pytest.raises(PermissionError):
            next(memory_of(process))
    for connection in (client, *begun):
        connection.close()


def test_a_token_is_in_no_log_no_page_and_not_in_what_others_may_see_of_the_process(
    start_server, tokens
):
    server = start_server("--token-file", str(tokens), "--log-level", "debug")
    client = server.client()
    for secret in ("tally_wrong-secret", *(secret for secret, _ in SECRETS.values())):
        for path in ("/v1/cumsum", "/nowhere", "/metrics"):
            client.post(path, b"{", "application/json", {"Authorization": f"Bearer {secret}"})
    pages = b""
    for path in ("/metrics", "/v1/devices", "/version", "/openapi.json", "/v2"):
        pages += client.get(path, bearer("all")).body
    client.close()
    # wait for the last line, since a separate thread writes the log
    until(lambda: "path=/v2 " in server.log)
    process = pathlib.Path(f"/proc/{server.pid}")
    seen = server.log.encode() + pages
    seen += (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    assert b"secret" not in seen.replace(b"--token-file", b"")
    for secret, _ in SECRETS.values():
        assert hashlib.sha256(secret.encode()).hexdigest().encode() not in seen
    assert server.log.count("token=worker") >= 1


def test_the_process_leaves_no_core_and_is_closed_to_its_own_user(start_server, tokens):
    """Linux gives the files in /proc of a process that leaves no core to root, whichever user
    runs the process."""

    def as_nobody():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if os.getuid() == 0:
            os.chmod(tokens.parent, 0o755)
            os.setgid(65534)
            os.setuid(65534)

    pathlib.Path(tokens).chmod(0o644)
    for folder in tokens.parents:
        if str(folder).startswith("/tmp/") and os.access(folder, os.W_OK):
            folder.chmod(folder.stat().st_mode | 0o055)
    # The user nobody cannot read a source tree below /root.
    binary = shutil.copy(BINARY, tokens.parent)
    server = start_server("--token-file", str(tokens), binary=binary, preexec_fn=as_nobody)
    plain = start_server(binary=binary, preexec_fn=as_nobody)
    assert os.stat(f"/proc/{server.pid}/mem").st_uid == 0
    assert os.stat(f"/proc/{plain.pid}/mem").st_uid == (65534 if os.getuid() == 0 else os.getuid())


def test_the_command_makes_a_token_that_opens_the_door_once_shown(start_server, tmp_path):
    path = tmp_path / "tokens"
    made = subprocess.run(
        [TALLY, "token", "new", "ci", "--scopes", "infer,metrics"], capture_output=True, timeout=60
    )
    assert made.returncode == 0
    secret = made.stderr.decode().strip()
    assert re.fullmatch(r"tally_[A-Za-z0-9_-]{43}", secret)
    assert made.stdout.decode() == line_of("ci", secret, "infer,metrics")
    again = subprocess.run([TALLY, "token", "new", "ci"], capture_output=True, timeout=60)
    assert again.stderr != made.stderr and again.stdout.endswith(b":infer\n")
    path.write_bytes(made.stdout)
    server = start_server("--token-file", str(path))
    url = f"http://127.0.0.1:{server.port}"
    held = tmp_path / "held"
    held.write_text(secret + "\n")
    for command in ("health", "devices", "version"):
        done = subprocess.run(
            [TALLY, command, "--url", url, "--token-file", held], capture_output=True, timeout=60
        )
        assert done.returncode == 0, done
    done = subprocess.run(
        [TALLY, "cumsum", "--url", url],
        env={**os.environ, "TALLY_TOKEN": secret},
        input=b"[1,2,3]",
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0 and b"6" in done.stdout
    done = subprocess.run(
        [TALLY, "cumsum", "--url", url], input=b"[1,2,3]", capture_output=True, timeout=60
    )
    assert done.returncode == 1 and b"wants a token" in done.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["new"], ["old", "x"], ["new", "a b"], ["new", "a", "b"]]
)
def test_the_command_makes_no_token_that_the_server_would_refuse(arguments):
    done = subprocess.run([TALLY, "token", *arguments], capture_output=True, timeout=60)
    assert done.returncode == 2 and done.stdout == b""
    assert b"tally_" not in done.stderr


def test_curl_and_triton_come_in_over_tls_with_a_token(start_server, tokens, tmp_path):
    tls = Tls(tmp_path / "tls")
    server = start_server("--token-file", str(tokens), tls=tls)
    done = subprocess.run(
        ["curl", "-sS", "--cacert", tls.authority.certificate, "-d", '{"data":[1,2,3]}']
        + ["--oauth2-bearer", SECRETS["worker"][0], f"https://localhost:{server.port}/v1/cumsum"],
        capture_output=True,
        timeout=60,
    )
    assert b"[1,3,6]" in done.stdout, done
    v2 = triton.InferenceServerClient(
        f"localhost:{server.port}", ssl=True, ssl_context_factory=tls.context
    )
    tensor = triton.InferInput("x", [4], "INT32")
    tensor.set_data_from_numpy(np.array([1, 2, 3, 4], np.int32))
    answer = v2.infer("cumsum", [tensor], headers=bearer("worker"))
    assert answer.as_numpy("y").tolist() == [1, 3, 6, 10]
    assert v2.is_server_ready(headers=bearer("worker"))
    v2.close()


def test_a_unix_socket_asks_for_tokens_too(start_server, tokens, tmp_path):
    path = tmp_path / "sock"
    start_server("--token-file", str(tokens), "--listen", f"unix:{path}")
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(30)
        wire.connect(str(path))
        wire.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wire.recv(12) == b"HTTP/1.1 401"
