"""What conftest.py has here and in tests/client/python: where logs go, and the server that a session's tests
share."""

import contextlib
import os
import pathlib

import pytest

from support.tallyd import Tallyd


@pytest.fixture(scope="session")
def log_dir(tmp_path_factory):
    logs = os.environ.get("TALLY_LOGS")
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
