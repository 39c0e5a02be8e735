"""Shared by conftest.py here and in tests/client/python: the folder for logs, the server that all
tests of a session share, and two different servers for the tests of a module."""

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
    """A server that must survive every test and exit with status 0."""
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
    """Two servers with different drivers and settings."""
    flags = {
        "own": ["--slice-bytes", "16KiB"],
        "pocl": [*POCL, "--cpus", "1", "--slice-bytes", "64KiB"],
    }
    servers = []
    with contextlib.ExitStack() as stack:
        for name, words in flags.items():
            servers.append(Tallyd(log_dir / f"{request.module.__name__}-{name}.log", words))
            # registered at once, in case the other server does not start
            stack.callback(servers[-1].stop)
        yield servers
        for server in servers:
            server.check_alive()


@pytest.fixture
def pair(two):
    clients = [server.client() for server in two]
    yield clients
    for client in clients:
        client.close()
