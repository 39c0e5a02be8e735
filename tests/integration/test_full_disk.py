"""Disks without room for kernels, and damaged caches: the process lives, the device says what it
lacks, and goes on when there is room.

A disk is a small tmpfs; where none can be mounted, a limit on the size of files (RLIMIT_FSIZE) makes
the same writes fail.
"""

import contextlib
import os
import resource
import signal
import subprocess

import numpy as np
import pytest

from support import calls
from support.tallyd import POCL
from support.waiting import until

NO_LIMIT = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
SIZE_KIB = 24 << 10


class SmallDisk:
    """A file system of its own. With LITTLE_KIB left compilers fail, with NONE_KIB everything."""

    LITTLE_KIB = 300
    NONE_KIB = 0

    def __init__(self, path):
        self.path = path

    def start_full(self, start, left_kib, *flags, **options):
        self.fill(None, left_kib)
        return start(*flags, **options)

    def fill(self, _server, left_kib):
        def take():
            info = os.statvfs(self.path)
            used = info.f_bavail * info.f_frsize - (left_kib << 10)
            try:
                if used > 0:
                    os.posix_fallocate(file.fileno(), 0, used)
            except OSError:
                return False  # a compiler took some of it meanwhile
            return True

        with open(self.path / "fill", "wb") as file:
            until(take)

    def free(self, _server):
        (self.path / "fill").unlink()


class ShortFiles:
    """A disk on which no file gets longer than what is left."""

    LITTLE_KIB = 64
    NONE_KIB = 8

    def __init__(self, path):
        self.path = path

    def start_full(self, start, left_kib, *flags, **options):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # write() fails, as on a full disk
            resource.setrlimit(resource.RLIMIT_FSIZE, (left_kib << 10, resource.RLIM_INFINITY))

        return start(*flags, preexec_fn=limit, **options)

    def fill(self, server, left_kib):
        self._set(server, (left_kib << 10, resource.RLIM_INFINITY))

    def free(self, server):
        self._set(server, NO_LIMIT)

    def _set(self, server, limit):
        """For its children, too: they inherited what it had as they started."""
        seen = set()
        while not seen.issuperset(pids := {server.pid, *server.children()}):
            for pid in pids - seen:
                with contextlib.suppress(ProcessLookupError):
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)
            seen |= pids


@contextlib.contextmanager
def small_disk(path, kind):
    path.mkdir()
    if kind is ShortFiles:
        yield ShortFiles(path)
        return
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_KIB}k", "tally-test", str(path)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield SmallDisk(path) if mounted else ShortFiles(path)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(path)], check=False)


@pytest.fixture
def disk(request, tmp_path):
    with small_disk(tmp_path / "disk", getattr(request, "param", SmallDisk)) as made:
        yield made


both_kinds = pytest.mark.parametrize("disk", [SmallDisk, ShortFiles], indirect=True)


@pytest.fixture
def start(start_server):
    """Servers whose log stays short, and PoCL's own place for its cache is below the kernel cache."""

    def make(*flags, env=None, **options):
        env = {"POCL_CACHE_DIR": None, **(env or {})}
        return start_server("--log-requests=false", *POCL, *flags, env=env, **options)

    return make


def connects(server):
    server.check_alive()
    try:
        return server.client().get("/livez").status == 200
    except OSError:
        return False


def device(server):
    server.check_alive()
    return server.client().get("/v1/devices").json()["devices"][0]


def ask(server, dtype):
    server.check_alive()
    path = f"/v1/cumsum?dtype={np.dtype(dtype).name}&shape=4"
    answer = server.client().post(path, np.array([1, 2, 3, 4], dtype).tobytes(), calls.RAW)
    if answer.status == 200:
        assert np.frombuffer(answer.body, dtype).tolist() == [1, 3, 6, 10]
    return answer


def is_unready(server):
    return server.client().get("/readyz").status == 503


def becomes_ready(server):
    until(lambda: ask(server, np.int32).status == 200)
    assert device(server)["state"] == "ready"
    until(lambda: server.client().get("/readyz").status == 200)


def expect_unbuilt(server):
    until(lambda: connects(server))
    until(lambda: device(server)["state"] == "unbuilt")
    until(lambda: is_unready(server))
    error = calls.expect_error(ask(server, np.int32), 503)["error"]
    assert "GET /v1/devices" in error
    state = device(server)
    assert "int32 scan_generic" in state["last_error"]
    assert state["last_build_error"] == state["last_error"]
    return state["last_error"]


@both_kinds
def test_a_disk_without_room_for_a_kernel_ends_no_process(start, disk):
    """With so little left LLVM ends the process that it is in."""
    flags = ("--kernel-cache", str(disk.path / "cache"), "--warm=int32")
    server = disk.start_full(start, disk.LITTLE_KIB, *flags, wait=False)
    said = expect_unbuilt(server)
    assert "LLVM ERROR" in said or "clBuildProgram" in said, said
    disk.free(server)
    becomes_ready(server)
    server.stop()


def test_a_disk_without_any_room_ends_no_process(start, disk):
    flags = ("--kernel-cache", str(disk.path / "cache"), "--warm=int32")
    server = disk.start_full(start, disk.NONE_KIB, *flags, wait=False)
    expect_unbuilt(server)
    disk.free(server)
    becomes_ready(server)
    server.stop()


def test_a_service_without_a_kernel_cache_does_not_compile_without_room(start, disk):
    """There is no child then: what comes of it is worse."""
    flags = ("--kernel-cache=", "--warm=int32")
    server = disk.start_full(
        start,
        disk.LITTLE_KIB,
        *flags,
        env={"POCL_CACHE_DIR": str(disk.path)},
        wait=False,
    )
    assert "no room" in expect_unbuilt(server)
    disk.free(server)
    becomes_ready(server)
    server.stop()


def test_a_type_that_cannot_be_built_for_now_fails_alone(start, disk):
    """The others go on, and it works when there is room."""
    server = start("--kernel-cache", str(disk.path / "cache"), "--warm=int32")
    disk.fill(server, 64)
    refused = until(lambda: next((t for t in "efdbhlq" if ask(server, t).status == 503), None))
    error = calls.expect_error(ask(server, refused), 503)["error"]
    assert f"no kernel for {np.dtype(refused).name}" in error
    assert "Retry-After" in ask(server, refused).headers
    assert ask(server, np.int32).status == 200
    assert device(server)["state"] == "ready"
    assert "scan_generic" in device(server)["last_build_error"]
    disk.free(server)
    until(lambda: ask(server, refused).status == 200)
    server.stop()


@both_kinds
def test_kernels_of_the_cache_that_find_no_room_as_they_are_loaded_end_no_process(
    start, disk, tmp_path
):
    """PoCL makes files of a binary, and aborts the process if it cannot."""
    cache = tmp_path / "cache"
    start("--kernel-cache", str(cache), "--warm=int32").stop()
    assert list(cache.glob("*.clbin"))
    flags = ("--kernel-cache", str(cache), "--warm=int32")
    env = {"POCL_CACHE_DIR": str(disk.path)}
    server = disk.start_full(start, 16, *flags, env=env, wait=False)
    expect_unbuilt(server)
    disk.free(server)
    becomes_ready(server)
    server.stop()


def test_kernels_that_are_all_there_are_served_from_a_full_disk(start, disk):
    flags = ("--kernel-cache", str(disk.path / "cache"), "--warm=int32")
    start(*flags).stop()
    server = disk.start_full(start, 16, *flags)
    assert ask(server, np.int32).status == 200
    server.stop()


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_damaged_cache_in_a_place_of_the_operators_is_never_trusted(start, tmp_path, damage):
    """What other programs keep there is left alone."""
    theirs = tmp_path / "theirs"
    (theirs / "AB" / "CD").mkdir(parents=True)
    (theirs / "AB" / "CD" / "program.bc").write_text("of another program")
    flags = ("--kernel-cache=", "--warm=int32")
    start(*flags, env={"POCL_CACHE_DIR": str(theirs)}).stop()
    files = [path for path in (theirs / "tally").rglob("*.*") if path.suffix in (".so", ".bc")]
    assert files
    for path in files:
        data = path.read_bytes()
        middle = len(data) // 2
        rest = b"" if damage == "truncated" else bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]
        path.write_bytes(data[:middle] + rest)
    server = start(*flags, env={"POCL_CACHE_DIR": str(theirs)})
    assert ask(server, np.int32).status == 200
    assert "entries of PoCL's kernel cache were damaged or incomplete: removed" in server.log
    server.stop()
    assert (theirs / "AB" / "CD" / "program.bc").read_text() == "of another program"
