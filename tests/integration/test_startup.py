"""Startup: flags, environment, ports, sockets, devices, and immediate readiness."""

import contextlib
import http.client
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

import numpy as np
import pytest

from support import calls
from support.calls import BODY, PATH, SUMS, works
from support.tallyd import BINARY, POCL, TOP, free_port
from support.waiting import until


def run(*flags, env=None):
    """Run a tallyd that is expected to exit: (status, stdout, stderr)."""
    result = subprocess.run(
        [BINARY, *flags],
        env={k: v for k, v in {**os.environ, **(env or {})}.items() if v is not None},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=TOP,
    )
    return result.returncode, result.stdout, result.stderr


def test_help_names_every_flag_and_variable():
    status, out, _ = run("--help")
    assert status == 0
    for name in (
        "--listen",
        "--max-body-bytes",
        "--memory-budget",
        "--queue-depth",
        "--devices",
        "--drain-timeout-s",
        "--max-rank",
        "--batch-delay-us",
        "TALLY_",
    ):
        assert name in out, name
    assert all(len(line) <= 120 for line in out.splitlines())


def test_version():
    status, out, _ = run("--version")
    assert status == 0 and out.strip().split()[-1].count(".") == 2


def test_list_devices():
    status, out, _ = run("--list-devices")
    assert status == 0 and out.strip()


@pytest.mark.parametrize(
    "flags, named",
    [
        (["--no-such-flag"], "--no-such-flag"),
        (["--queue-depth", "0"], "queue-depth"),
        (["--queue-depth", "many"], "queue-depth"),
        (["--queue-depth", "-5"], "queue-depth"),
        (["--queue-depth", "99999999999999999999999"], "queue-depth"),
        (["--queue-depth"], "queue-depth"),
        (["--max-body-bytes", "5 parsecs"], "max-body-bytes"),
        (["--allow-client-shm=maybe"], "allow-client-shm"),
        (["--log-format", "xml"], "log-format"),
        (["--listen", "nonsense"], "nonsense"),
        (["--listen", "127.0.0.1:99999"], "99999"),
        (["--listen", "127.0.0.1:x"], "127.0.0.1:x"),
        (["--socket-mode", "0888"], "--socket-mode"),
        (["--socket-group", "no-such-group-here"], "--socket-group"),
        (["stray"], "stray"),
    ],
    ids=str,
)
def test_a_bad_flag_ends_it_with_status_2_and_a_sentence(flags, named):
    status, out, err = run(*flags)
    assert status == 2, (status, err)
    assert named in err and out == ""


def test_a_bad_variable_ends_it_with_status_2():
    status, _, err = run(env={"TALLY_QUEUE_DEPTH": "many"})
    assert status == 2 and "TALLY_QUEUE_DEPTH" in err


def test_a_misspelled_variable_ends_it_with_status_2_and_the_right_name(start_server):
    flags, env = ("--listen", f"127.0.0.1:{free_port()}"), {"TALLY_QUEUE_DEPHT": "7"}
    status, out, err = run(*flags, env=env)
    assert status == 2 and out == ""
    assert "unknown variable TALLY_QUEUE_DEPHT; did you mean TALLY_QUEUE_DEPTH?" in err
    assert works(start_server("--allow-unknown-env", env=env))
    assert works(start_server(env={**env, "TALLY_ALLOW_UNKNOWN_ENV": "true"}))


def test_variables_of_other_programs_end_nothing(start_server):
    kubernetes = {"TALLY_SERVICE_HOST": "10.0.0.1", "TALLY_PORT": "tcp://10.0.0.1:8000"}
    clients = {"TALLY_URL": "http://127.0.0.1:8000", "TALLY_TOKEN": "secret"}
    assert works(start_server(env={**kubernetes, **clients}))


def test_a_variable_sets_what_a_flag_overrides(start_server):
    server = start_server(env={"TALLY_MAX_BODY_BYTES": "64"})
    client = server.client()
    answer = client.post("/v1/cumsum?dtype=int8&shape=100", bytes(100), calls.RAW)
    calls.expect_error(answer, 413)
    client.close()
    server = start_server("--max-body-bytes", "1MiB", env={"TALLY_MAX_BODY_BYTES": "64"})
    client = server.client()
    assert client.post("/v1/cumsum?dtype=int8&shape=100", bytes(100), calls.RAW).status == 200
    client.close()


def test_a_port_in_use_ends_it_with_status_1(server):
    status, _, err = run("--listen", f"127.0.0.1:{server.port}")
    assert status == 1 and str(server.port) in err
    assert works(server)


def test_an_address_of_another_machine_ends_it_with_status_1():
    status, _, err = run("--listen", f"192.0.2.1:{free_port()}")
    assert status == 1 and "192.0.2.1" in err


def no_drivers(directory):
    """The environment of a machine without an OpenCL driver."""
    return {
        "OCL_ICD_VENDORS": str(directory),
        "OCL_ICD_FILENAMES": "",
        "OPENCL_VENDOR_PATH": str(directory),
    }


def test_no_opencl_driver_need_be_installed(start_server, tmp_path):
    server = start_server(env=no_drivers(tmp_path))
    assert works(server)
    server.stop()


def test_without_a_device_that_is_asked_for_it_ends_with_status_3(tmp_path):
    flags = ("--listen", f"127.0.0.1:{free_port()}", "--devices", "gpu")
    status, _, err = run(*flags, env=no_drivers(tmp_path))
    assert status == 3 and "names no OpenCL device" in err


def test_the_processor_is_used_through_one_driver(start_server):
    listed = run("--list-devices")[1]
    assert listed.startswith("0: ") and "Tally; CPU" in listed.splitlines()[1]
    for flags, platform in ((), "Tally"), (POCL, "Portable Computing Language"):
        server = start_server(*flags)
        devices = server.client().get("/v1/devices").json()["devices"]
        assert [device["platform"] for device in devices if device["type"] == "cpu"] == [platform]
        server.stop()


@pytest.mark.parametrize("devices", ["cpu", "tally", "0"])
def test_without_sys_the_processor_is_served_by_our_own_driver(devices, start_server, tmp_path):
    """Without /sys, PoCL aborts when it is asked for its devices."""
    user = "" if os.getuid() == 0 else "--user --map-root-user"
    unshare = f"exec unshare --mount {user} sh -c"
    hide = "mount -t tmpfs none /sys"
    if subprocess.run(["sh", "-c", f"{unshare} '{hide}'"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("nothing can be mounted here")
    binary = tmp_path / "tallyd"
    binary.write_text(f'#!/bin/sh\n{unshare} \'{hide} && exec {BINARY} "$@"\' tallyd "$@"\n')
    binary.chmod(0o755)
    server = start_server("--devices", devices, binary=str(binary))
    assert works(server)
    server.stop()


def test_devices_that_match_nothing_end_it():
    status, _, err = run("--listen", f"127.0.0.1:{free_port()}", "--devices", "no-such-device")
    assert status in (2, 3) and "no-such-device" in err


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self.path)


def test_several_listeners_and_a_unix_socket(start_server, tmp_path):
    path, port = str(tmp_path / "s"), free_port()
    server = start_server("--listen", f"unix:{path}", "--listen", f"127.0.0.1:{port}")
    assert works(server)
    for connection in (UnixConnection(path), http.client.HTTPConnection("127.0.0.1", port)):
        connection.request("POST", PATH, BODY, {"Content-Type": calls.RAW})
        assert connection.getresponse().read() == SUMS
        connection.close()
    server.stop()
    assert not os.path.exists(path), "the socket file stays behind"
    again = start_server("--listen", f"unix:{path}")
    assert os.path.exists(path)
    again.kill()
    third = start_server("--listen", f"unix:{path}")  # replaces the socket file of a killed server
    third.stop()


def test_base_path_is_a_prefix_of_every_route(start_server):
    server = start_server("--base-path", "/tally", wait=False)
    wait_for(server, "/tally/readyz")
    client = server.client()
    assert client.post("/tally" + PATH, BODY, calls.RAW).body == SUMS
    assert client.get("/tally/livez").status == 200
    links = client.get("/tally/").json()["links"]
    assert client.get("/tally").json()["links"] == links
    nowhere = client.get("/tallyx")
    says = ["there is nothing at /tallyx;", "GET /tally/ lists"]
    calls.expect_error(nowhere, 404, "not_found", says=says)
    slash = client.get("/tally/v1/cumsum/").json()["error"]
    assert slash == "there is nothing at /tally/v1/cumsum/; did you mean POST /tally/v1/cumsum?"
    assert {"cumsum", "totals", "directml", "openvino", "openapi"} <= set(links)
    for path in links.values():
        assert path.startswith("/tally/") and client.get(path).status in (200, 405), path
    document = "/tally/openapi.json"
    [described] = client.get(document).json()["servers"]  # the URL is relative to the document
    assert urllib.parse.urljoin(document, described["url"]) == "/tally/"
    client.close()
    server.stop()


def wait_for(server, path):

    for _ in range(3000):
        server.check_alive()
        client = server.client(5)
        try:
            if client.get(path).status == 200:
                return
        except OSError:
            pass
        finally:
            client.close()
        time.sleep(0.02)
    raise AssertionError(f"{path} never answered 200; log:\n{server.log}")


# Missing resources of the system ------------------------------------------------------------


def limited(log_dir, name, limit, value):
    """A server with a limit on one resource: (process, port)."""
    port = free_port()
    with open(log_dir / name, "wb") as log:
        return port, subprocess.Popen(
            [BINARY, "--listen", f"127.0.0.1:{port}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=lambda: resource.setrlimit(limit, (value, value)),
        )


def answers(port, method, path, body=None):
    """Status and body, or None if no server answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, {"Content-Type": calls.RAW})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except OSError:
        return None
    finally:
        connection.close()


def is_ready(port):
    return (answers(port, "GET", "/readyz") or [None])[0] == 200


@pytest.mark.release_only  # sanitizers need terabytes of address space
@pytest.mark.parametrize("share", [0.80, 0.86, 0.90, 0.94])
def test_with_too_little_address_space_it_ends_or_is_ready_and_works(start_server, log_dir, share):
    enough = start_server()
    peak = re.search(r"VmPeak:\s+(\d+) kB", pathlib.Path(f"/proc/{enough.pid}/status").read_text())
    enough.kill()
    value = int(int(peak[1]) * 1024 * share)
    port, process = limited(log_dir, f"address-space-{share}.log", resource.RLIMIT_AS, value)
    try:

        def ended_or_ready():
            return process.poll() is not None or is_ready(port)

        until(ended_or_ready)
        if process.poll() is None:
            assert answers(port, "POST", PATH, BODY) == (200, SUMS)
        else:
            assert process.returncode != 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.release_only
@pytest.mark.parametrize("mib", [4, 8])
def test_a_start_without_threads_names_the_limit_to_check(log_dir, mib):
    name = f"data-{mib}.log"
    _, process = limited(log_dir, name, resource.RLIMIT_DATA, mib << 20)
    try:
        assert process.wait(60) == 1
        last = (log_dir / name).read_text().splitlines()[-1]
        assert "no thread for" in last and "ulimit -u" in last
    finally:
        process.kill()
        process.wait()


def test_a_budget_that_hardly_anything_fits_in_is_said_at_the_start(start_server):
    """Half of the available memory may be almost nothing, and a number may lack its unit."""
    server = start_server("--memory-budget", "4096")
    assert "no more than 4 KiB of memory" in server.log
    server.stop()
    server = start_server("--memory-budget", "32MiB")
    assert "no more than" not in server.log
    server.stop()


@pytest.mark.release_only
def test_a_log_that_may_not_grow_ends_nothing(log_dir):
    port, process = limited(log_dir, "full.log", resource.RLIMIT_FSIZE, 4096)
    try:
        until(lambda: answers(port, "GET", "/livez") is not None)
        for _ in range(100):
            assert answers(port, "GET", "/version")[0] == 200
        assert (log_dir / "full.log").stat().st_size == 4096
        assert answers(port, "GET", "/livez")[0] == 200 and process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.release_only
@pytest.mark.parametrize("descriptors", [5, 6, 8, 10, 14, 24, 40])
def test_with_too_few_descriptors_it_says_so_and_ends(log_dir, descriptors):
    name = f"descriptors-{descriptors}.log"
    _, process = limited(log_dir, name, resource.RLIMIT_NOFILE, descriptors)
    try:
        assert process.wait(60) == 1
        assert "file descriptors" in (log_dir / name).read_text().splitlines()[-1]
    finally:
        process.kill()
        process.wait()


@pytest.mark.release_only
def test_a_hundred_descriptors_are_enough(log_dir):
    port, process = limited(log_dir, "descriptors-100.log", resource.RLIMIT_NOFILE, 100)
    try:
        until(lambda: is_ready(port))
        assert answers(port, "POST", PATH, BODY) == (200, SUMS)
    finally:
        process.kill()
        process.wait()


@pytest.mark.release_only
@pytest.mark.parametrize("stack", [64 << 10, 1 << 36], ids=["64 KiB", "64 GiB"])
def test_the_limit_of_the_stack_is_not_that_of_its_threads(log_dir, stack):
    """Large requests would overflow a small stack; large stacks might not fit in memory."""
    port, process = limited(log_dir, f"stack-{stack}.log", resource.RLIMIT_STACK, stack)
    try:
        until(lambda: process.poll() is not None or is_ready(port))
        large = "/v1/cumsum?dtype=float16&shape=4096,1000&axis=0"
        assert answers(port, "POST", large, bytes(8192000)) == (200, bytes(8192000))
    finally:
        process.kill()
        process.wait()


def test_without_dev_null_it_runs_unless_it_needs_it():
    def run_without(redirections):
        command = f"mount -t tmpfs none /dev && exec {BINARY} --version {redirections}"
        user = ["--user", "--map-root-user"] if os.getuid() != 0 else []
        return subprocess.run(
            ["unshare", "--mount", *user, "sh", "-c", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    result = run_without("")
    if "tallyd" not in result.stdout + result.stderr:
        pytest.skip(f"nothing can be mounted here: {result.stderr}")
    assert result.returncode == 0 and result.stdout.startswith("tallyd ")
    result = run_without("<&-")
    assert result.returncode == 1 and "/dev/null" in result.stderr


def test_descriptors_that_were_closed_are_not_taken_for_something_else():
    """If the service left descriptor 2 closed, its first socket or connection could get this
    number, and the log would be written to it."""
    port = free_port()
    command = f"exec {BINARY} --listen 127.0.0.1:{port}"
    process = subprocess.Popen(["sh", "-c", f"{command} <&- >&- 2>&-"])
    try:
        until(lambda: is_ready(port))
        files = pathlib.Path(f"/proc/{process.pid}/fd")
        assert [os.readlink(files / name) for name in "012"] == ["/dev/null"] * 3
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


# Being ready --------------------------------------------------------------------------------


def device(server):
    client = server.client()
    try:
        return client.get("/v1/devices").json()["devices"][0]
    finally:
        client.close()


def test_the_log_has_the_ready_device_before_the_ready_service(start_server):
    for _ in range(5):
        server = start_server()
        log = until(lambda log=server: " info ready\n" in log.log and log.log)
        assert 0 < log.index(" is ready after ") < log.index(" info ready\n")
        server.stop()


@pytest.mark.release_only
def test_it_is_ready_at_once_and_small(start_server, tmp_path):
    """The test hides other drivers, which need time and memory to list their devices."""
    env = {"OCL_ICD_VENDORS": str(tmp_path)}
    seconds = []
    for _ in range(5):
        began = time.monotonic()
        server = start_server(env=env)
        seconds.append(time.monotonic() - began)
        assert server.rss_bytes() < 25 << 20
        server.stop()
    assert min(seconds) < 0.5  # 0.04 s on an idle machine


def test_the_kernel_of_every_layout_is_there_at_the_start(start_server):
    layouts = [
        "shape=100,2000&axis=1",
        "shape=100,12&axis=1",
        "shape=100,4&axis=1",
        "shape=100,3&axis=0",
        "shape=100,50&axis=0",
        "shape=50,80&axis=1&strides=1,50",
        "shape=12,9,20&axis=1&strides=1,12,108",
    ]
    server = start_server(*POCL)
    client = server.client()
    for layout in layouts:
        elements = np.prod([int(n) for n in re.search("shape=([0-9,]+)", layout)[1].split(",")])
        path = f"/v1/cumsum?dtype=float32&{layout}"
        answer = client.post(path, bytes(int(elements) * 4), calls.RAW)
        assert answer.status == 200 and not any(answer.body)
    assert not server.children()
    client.close()
    server.stop()


def test_a_driver_that_compiles_is_used_when_it_is_named(start_server):
    server = start_server("--devices", "portable computing language")
    assert device(server)["platform"] == "Portable Computing Language"
    assert works(server)
    server.stop()


def thread_names(server):
    names = []
    for path in pathlib.Path(f"/proc/{server.pid}/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # the process has ended
            names.append(path.read_text().strip())
    return names


class Counted:
    """The thread counts that a server chooses for a number of cores."""

    def __init__(self, server):
        self.codecs = thread_names(server).count("tally-codec")
        self.units = device(server)["compute_units"]
        # The driver's threads have no names, and start with the first large launch.
        client = server.client()
        large = client.post("/v1/cumsum?dtype=int8&shape=4194304", bytes(4 << 20), calls.RAW)
        assert large.status == 200
        client.close()
        self.threads = server.threads()


def one_core():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


WITHOUT_POCL_NUMBERS = {
    name: None
    for name in ("POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT", "POCL_MAX_COMPUTE_UNITS")
}


def test_affinity_decides_the_number_of_threads(start_server, tmp_path):
    pinned = start_server(env=no_drivers(tmp_path), preexec_fn=one_core)
    counted = Counted(pinned)
    assert (counted.codecs, counted.units) == (1, 1)
    assert works(pinned)
    three = Counted(start_server("--cpus", "3", env=no_drivers(tmp_path), preexec_fn=one_core))
    assert (three.codecs, three.units) == (3, 3)
    # two more threads each for HTTP, the codec pool and the driver
    assert three.threads == counted.threads + 3 * 2


def test_a_number_of_threads_for_pocl_alone_is_left_to_it(start_server):
    env = {**WITHOUT_POCL_NUMBERS, "POCL_MAX_PTHREAD_COUNT": "2"}
    counted = Counted(start_server(*POCL, "--cpus", "3", env=env))
    assert (counted.codecs, counted.units) == (3, 2)
    status, out, _ = run(
        "--list-devices", "--cpus", "3", env={**env, "POCL_MAX_PTHREAD_COUNT": "5"}
    )
    assert status == 0 and "5 compute units" in out


def set_quota(group, quota_us, period_us):
    """Create a control group with that quota; False if that is impossible."""
    try:
        group.mkdir()
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota_us} {period_us}")
            return True
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_period_us").write_text(str(period_us))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
            return True
    except OSError:
        pass
    return False


@pytest.fixture
def half_a_core():
    """The directory of a control group with half a core; None if none can be created."""
    groups = [
        pathlib.Path(top) / f"tally-test-{os.getpid()}"
        for top in ("/sys/fs/cgroup", "/sys/fs/cgroup/cpu")
    ]
    yield next((group for group in groups if set_quota(group, 50000, 100000)), None)
    for group in groups:
        with contextlib.suppress(OSError):
            group.rmdir()


def test_the_quota_of_a_control_group_decides_the_number_of_threads(start_server, half_a_core):
    """The test uses a real control group. If this machine allows none, only
    tests/unit/test_machine.c tests the quota, with simulated groups."""

    def join():
        if half_a_core is not None:
            (half_a_core / "cgroup.procs").write_text(str(os.getpid()))

    server = start_server(env=WITHOUT_POCL_NUMBERS, preexec_fn=join)
    counted = Counted(server)
    server.stop()
    assert counted.codecs == counted.units
    assert half_a_core is None or counted.codecs == 1


@pytest.mark.parametrize(
    "flags", [["--help"], ["--version"], ["--print-config", "env"], ["--list-devices"]]
)
def test_printing_to_a_full_disk_is_an_error(flags):
    with open("/dev/full", "w") as full:
        result = subprocess.run([BINARY, *flags], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1
    assert result.stderr == "tallyd: standard output: No space left on device\n"


def test_the_environment_example_is_what_the_program_prints():
    example = pathlib.Path(TOP / "deploy/tallyd.env.example")
    status, out, _ = run("--print-config", "env")
    assert status == 0
    assert example.read_text() == out, "run: tallyd --print-config env > deploy/tallyd.env.example"


@contextlib.contextmanager
def handed_over(listener, log_path):
    """Start tallyd like systemd: the listener is descriptor 3, LISTEN_FDS is 1, LISTEN_PID is the
    process itself."""
    with open(log_path, "wb") as log:
        become = "import os, sys; os.dup2(int(sys.argv[1]), 3); "
        become += "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1'); "
        become += "os.execv(sys.argv[2], sys.argv[2:])"
        process = subprocess.Popen(
            [sys.executable, "-c", become, str(listener.fileno()), BINARY]
            + ["--drain-delay-ms", "0"],
            pass_fds=[listener.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    listener.close()
    try:
        yield
        process.terminate()
        assert process.wait(60) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def ask(port):
    """Send a request to the listener: its backlog accepts the connection at once, and tallyd
    answers when it runs."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", PATH, BODY, {"Content-Type": calls.RAW})
    answer = connection.getresponse()
    assert answer.status in (200, 503)
    answer.read()
    connection.close()


def test_systemd_may_hand_the_socket_over(log_dir):
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    port = listener.getsockname()[1]
    with handed_over(listener, log_dir / "socket-activation.log"):
        ask(port)


def test_an_ipv4_client_of_a_dual_stack_socket_is_logged_with_its_ipv4_address(log_dir):
    listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    port = listener.getsockname()[1]
    log = log_dir / "both-families.log"
    with handed_over(listener, log):
        ask(port)
    assert "client=127.0.0.1 " in log.read_text()
