"""deploy/tallyd.service: its system call filter permits everything that serving needs."""

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
from support.tallyd import BINARY, MODE, TOP
from support.waiting import until

UNIT = TOP / "deploy" / "tallyd.service"
KILL, ALLOW = 0x80000000, 0x7FFF0000  # SCMP_ACT_KILL_PROCESS, SCMP_ACT_ALLOW
REFUSE = 0x00050000 | errno.EPERM  # SCMP_ACT_ERRNO, as the unit's SystemCallErrorNumber
# libuv in Debian 13 tries this call, and continues without it if the call is refused
TRIED = "io_uring_setup"
MOST_EXPOSED = 15  # largest allowed exposure, in tenths of the unit that systemd-analyze prints


def expanded(word):
    """The system calls in a set that systemd defines."""
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
    """Returns a function for preexec_fn. After it has run, any system call that is not in
    `names` ends the process at once."""
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
            if number >= 0:  # this machine has a system call of this name
                assert library.seccomp_rule_add_array(rules, answer, number, 0, None) == 0
        assert library.seccomp_load(rules) == 0

    return load


NEW_MOUNTS, NEW_USERS = 0x00020000, 0x10000000  # CLONE_NEWNS, CLONE_NEWUSER
PRIVATE, BIND = 0x4000 | 0x40000, 0x1000  # MS_REC | MS_PRIVATE, MS_BIND
OTHER_PAGES = ["meminfo", "cpuinfo", "stat", "mounts"]  # pages of /proc that a program may read


def enclosed():
    """Returns a function for preexec_fn, with the effect of ProcSubset=pid and
    PrivateUsers=yes. The function raises OSError if that is impossible."""
    library = ctypes.CDLL(None, use_errno=True)
    is_root = os.getuid() == 0

    def call(function, *arguments):
        if function(*arguments) != 0:
            raise OSError(ctypes.get_errno(), function.__name__)

    def new_users():
        call(library.unshare, NEW_USERS)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", "{0} {0} 1"),
            ("gid_map", "{1} {1} 1"),
        ):
            pathlib.Path(f"/proc/self/{name}").write_text(text.format(*ids))

    def enter():
        if not is_root:
            new_users()
        call(library.unshare, NEW_MOUNTS)
        call(library.mount, b"none", b"/", None, PRIVATE, None)
        if is_root:
            call(library.mount, b"proc", b"/proc", b"proc", 0, b"subset=pid")
            new_users()
        else:
            for name in OTHER_PAGES:
                call(library.mount, b"/dev/null", f"/proc/{name}".encode(), None, BIND, None)

    ids = os.getuid(), os.getgid()
    return enter


def can_be_enclosed():
    try:
        subprocess.run(["true"], preexec_fn=enclosed(), check=True)
    except subprocess.SubprocessError:
        return False
    return True


def test_the_unit_is_hardly_exposed():
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", UNIT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


@pytest.mark.parametrize("name", ["fork", "execveat", "ptrace", "io_uring_setup", "keyctl", "bpf"])
def test_the_unit_lets_no_such_call_through(name):
    assert name not in allowed()


@pytest.mark.skipif(MODE != "release", reason="sanitizers call more")
@pytest.mark.parametrize("is_enclosed", [False, True], ids=["filter", "all"])
def test_the_system_calls_of_serving_pass_the_filter_of_the_unit(
    start_server, tmp_path, is_enclosed
):
    """If namespaces can be created, the test also shows that the service works with the part of
    /proc and with the users that the unit lets it see."""
    if is_enclosed and not can_be_enclosed():
        pytest.skip("no namespaces can be made here")
    enclose, restrict = enclosed() if is_enclosed else lambda: None, filtered(allowed())
    sock = tmp_path / "sock"
    tls = Tls(tmp_path / "tls")
    collector = Collector()
    endpoint = collector.url.replace("127.0.0.1", "localhost")
    group = str(os.getgid())
    server = start_server(
        *("--listen", f"unix:{sock}", "--socket-group", group, "--allow-client-shm"),
        *("--otlp-endpoint", endpoint),
        preexec_fn=lambda: (enclose(), restrict()),
        # other drivers make more system calls: docs/devices.md
        env={"OCL_ICD_VENDORS": str(tmp_path)},
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
    until(lambda: server.log.count("is loaded") == 2, 60, what=f"certificate {serial}")
    with server.wire() as wire:  # the service refuses this header itself, without libmicrohttpd
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


def budget_and_memory(server):
    return server.metric("tally_memory_budget_bytes"), server.metric("nv_cpu_memory_total_bytes")


def test_the_service_knows_machine_and_processor_without_the_rest_of_proc(start_server, tmp_path):
    assert {"ProcSubset=pid", "PrivateUsers=yes"} <= set(UNIT.read_text().splitlines())
    if not can_be_enclosed():
        pytest.skip("no namespaces can be made here")
    own = {"OCL_ICD_VENDORS": str(tmp_path)}
    outside, inside = start_server(env=own), start_server(env=own, preexec_fn=enclosed())
    (budget, memory), (own_budget, own_memory) = map(budget_and_memory, (outside, inside))
    assert own_memory == memory > 0
    assert own_budget > budget / 4  # half of the free memory, computed in another way
    names = [
        server.client().get("/v1/devices").json()["devices"][0]["name"]
        for server in (outside, inside)
    ]
    assert names[0] == names[1]


def test_a_socket_group_that_the_service_is_not_in_is_refused_with_advice(tmp_path):
    if not can_be_enclosed():
        pytest.skip("no namespaces can be made here")
    flags = ["--listen", f"unix:{tmp_path}/s", "--socket-group", str(os.getgid() + 1)]
    done = subprocess.run(
        [BINARY, *flags], preexec_fn=enclosed(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1 and "PrivateUsers=no" in done.stderr, done.stderr
