"""What conftest.py has here and in tests/client/python: where logs go, the server that a session's tests
share, and two unlike servers for the tests of a module."""

import contextlib
import os
import pathlib

import pytest

from support.tallyd import POCL, Tallyd


@pytest.fixture(scope="session")
def log_dir(tmp_path_factory):
    logs = os.environ.get("TALLY_TEST_LOGS")
    if logs is None:
        return tmp_path_factory.mktemp("logs")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    directory = pathlib.Path(logs).resolve() / f"tallyd-{worker}"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextlib.contextmanager
def living(log, flags=()):
    """A server that must live through every test and leave with status 0."""
    server = Tallyd(log, flags)
    yield server
    server.check_alive()
    server.stop()


@pytest.fixture
def server(session_server):
    session_server.check_alive()
    yield session_server
    session_server.check_alive()


@pytest.fixture(scope="module")
def two(log_dir, request):
    """Two servers that have nothing in common but the contract."""
    flags = {
        "own": ["--slice-bytes", "16KiB"],
        "pocl": [*POCL, "--cpus", "1", "--slice-bytes", "64KiB"],
    }
    servers = []
    with contextlib.ExitStack() as stack:
        for name, words in flags.items():
            servers.append(Tallyd(log_dir / f"{request.module.__name__}-{name}.log", words))
            stack.callback(servers[-1].stop)  # also where the other one does not start
        yield servers
        for server in servers:
            server.check_alive()


@pytest.fixture
def pair(two):
    clients = [server.client() for server in two]
    yield clients
    for client in clients:
        client.close()
