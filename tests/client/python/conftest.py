"""Fixtures: a real tallyd, the package from the tree, and both of its clients behind one
interface."""

import asyncio
import pathlib
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TOP / "client" / "python"), str(TOP / "tests" / "integration")]

import tally  # noqa: E402
from support import fixtures  # noqa: E402

log_dir, server = fixtures.log_dir, fixtures.server


class Driven:
    """An AsyncClient with the methods of a Client, run on an event loop of its own."""

    def __init__(self, *arguments, **options):
        self.client = tally.AsyncClient(*arguments, **options)
        self.loop = asyncio.new_event_loop()

    def __getattr__(self, name):
        method = getattr(self.client, name)
        return lambda *arguments, **options: self.loop.run_until_complete(
            method(*arguments, **options)
        )

    def parts(self, *arguments, **options):
        return DrivenParts(self.client.parts(*arguments, **options), self.loop)

    def close(self):
        if self.loop.is_closed():
            return
        self.loop.run_until_complete(self.client.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class DrivenParts:
    """The AsyncParts of a driven client."""

    def __init__(self, parts, loop):
        self.parts, self.loop = parts, loop

    carry = property(lambda self: self.parts.carry)

    def cumsum(self, *arguments, **options):
        return self.loop.run_until_complete(self.parts.cumsum(*arguments, **options))


@pytest.fixture(params=[tally.Client, Driven], ids=["Client", "AsyncClient"])
def connect(request):
    """connect(url, **options): a client of either kind, closed after the test."""
    clients = []

    def make(*arguments, **options):
        clients.append(request.param(*arguments, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    monkeypatch.delenv("TALLY_URL", raising=False)


@pytest.fixture(scope="session")
def session_server(log_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("socket") / "tally.sock"
    with fixtures.living(
        log_dir / "python.log", ["--allow-client-shm", "--listen", f"unix:{path}"]
    ) as server:
        server.url, server.unix_url = f"http://127.0.0.1:{server.port}", f"unix:{path}"
        yield server


@pytest.fixture
def client(connect, server):
    return connect(server.url)
