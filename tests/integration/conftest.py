"""Fixtures: one tallyd for the whole session, and a factory for private ones."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from support import fixtures  # noqa: E402
from support.tallyd import MODE, Tallyd  # noqa: E402

log_dir, server = fixtures.log_dir, fixtures.server
two, pair = fixtures.two, fixtures.pair


def pytest_configure(config):
    config.addinivalue_line("markers", "release_only: figures that an instrumented build spoils")


def pytest_collection_modifyitems(config, items):
    """Tests that need a release build are not collected in other builds, instead of being reported
    as skipped."""
    if MODE != "release":
        dropped = [item for item in items if item.get_closest_marker("release_only")]
        items[:] = [item for item in items if not item.get_closest_marker("release_only")]
        config.hook.pytest_deselected(items=dropped)


@pytest.fixture(scope="session")
def session_server(log_dir):
    with fixtures.living(log_dir / "session.log") as server:
        yield server


@pytest.fixture
def client(server):
    client = server.client()
    yield client
    client.close()


@pytest.fixture
def start_server(log_dir, request):
    """start_server(*flags, env=..., wait=...): private servers, killed after the test."""
    servers = []

    def start(*flags, **options):
        log = log_dir / f"{request.node.name[:80].replace('/', '_')}-{len(servers)}.log"
        server = Tallyd(log, flags, **options)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.kill()
