"""deploy/tallyd.service: its filter of system calls lets everything through that serving takes."""

import ctypes
import errno
import json
import multiprocessing.shared_memory
import os
import pathlib
import re
import signal
import subprocess

import pytest

from support import calls
from support.calls import BODY, PATH, SUMS, works
from support.certificates import Tls
from support.collector import Collector
from support.tallyd import MODE, TOP
from support.waiting import until

UNIT = TOP / "deploy" / "tallyd.service"
KILL, ALLOW = 0x80000000, 0x7FFF0000  # SCMP_ACT_KILL_PROCESS, SCMP_ACT_ALLOW
REFUSE = 0x00050000 | errno.EPERM  # SCMP_ACT_ERRNO, as the unit's SystemCallErrorNumber
TRIED = "io_uring_setup"  # by the libuv of Debian 13, which does without where it is refused
MOST_EXPOSED = 18  # tenths, of what systemd-analyze says


def expanded(word):
    """System calls of a set of systemd's."""
    if not word.startswith("@"):
        return {word}
    said = subprocess.run(
        ["systemd-analyze", "syscall-filter", word], capture_output=True, text=True, check=True
    ).stdout
    names = re.findall(r"^ +([@a-z_0-9]+)$", said, re.M)
    return set().union(*map(expanded, names))


def allowed():
    lines = re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(), re.M)
    assert lines and not any(line.startswith("~") for line in lines)
    return set().union(*(expanded(word) for line in lines for word in line.split()))


def filtered(names):
    """For preexec_fn: whatever else is called ends the process at once."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_rule_add_array.argtypes = [
        *(ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
    ]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    answers = {**dict.fromkeys(names, ALLOW), TRIED: REFUSE}
    numbers = [
        (library.seccomp_syscall_resolve_name(name.encode()), answer)
        for name, answer in answers.items()
    ]

    def load():
        rules = library.seccomp_init(KILL)
        for number, answer in numbers:
            if number >= 0:  # there is one of this name on this machine
                assert library.seccomp_rule_add_array(rules, answer, number, 0, None) == 0
        assert library.seccomp_load(rules) == 0

    return load


def test_the_unit_is_hardly_exposed():
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", UNIT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


@pytest.mark.parametrize("name", ["fork", "execveat", "ptrace", "io_uring_setup", "keyctl", "bpf"])
def test_the_unit_lets_no_such_call_through(name):
    assert name not in allowed()


@pytest.mark.skipif(MODE != "release", reason="sanitizers call more")
def test_what_serving_takes_passes_the_filter_of_the_unit(start_server, tmp_path):
    sock = tmp_path / "sock"
    tls = Tls(tmp_path / "tls")
    collector = Collector()
    endpoint = collector.url.replace("127.0.0.1", "localhost")
    group = str(os.getgid())
    server = start_server(
        *("--listen", f"unix:{sock}", "--socket-group", group, "--allow-client-shm"),
        *("--otlp-endpoint", endpoint),
        preexec_fn=filtered(allowed()),
        env={"OCL_ICD_VENDORS": str(tmp_path)},  # other drivers call more: docs/devices.md
        tls=tls,
    )
    client = server.client()
    size = 20 << 20
    answer = client.post(f"/v1/cumsum?dtype=int8&shape={size}", bytes(size), calls.RAW)
    assert answer.body == bytes(size)
    numbers = json.dumps({"data": [1] * 300_000}).encode()
    headers = {"Accept-Encoding": "gzip"}
    assert client.post("/v1/cumsum", numbers, calls.JSON, headers).status == 200
    for path in ("/", "/metrics", "/v1/devices", "/openapi.json", "/v2", "/nowhere"):
        assert client.get(path).status in (200, 404)
    memory = multiprocessing.shared_memory.SharedMemory(create=True, size=4096)
    region = {"key": f"/{memory.name.lstrip('/')}", "offset": 0, "byte_size": 4096}
    answer = client.post_json("/v2/systemsharedmemory/region/r/register", region)
    assert answer.status == 200, answer
    memory.close()
    memory.unlink()
    serial = tls.rotate()
    until(lambda: server.log.count("is taken up") == 2, 60, what=f"certificate {serial}")
    with server.wire() as wire:  # past libmicrohttpd
        wire.send(b"POST /v1/cumsum HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
        assert wire.answer().status == 413
    assert client.post(PATH, BODY, calls.RAW).body == SUMS
    assert works(server)
    until(lambda: server.metric("tally_traces_sent_total") > 0, 60)
    assert pathlib.Path(f"/proc/{server.pid}/status").read_text().count("Seccomp:\t2") == 1
    client.close()
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    collector.close()
