"""Run tests/load/soak.py for some seconds: requests of every kind must not let the memory
grow."""

import importlib.util

import pytest

from support.tallyd import TOP

MIB = 1 << 20


def soak_module():
    spec = importlib.util.spec_from_file_location("soak", TOP / "tests/load/soak.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.release_only
def test_memory_stays_flat_under_everything_at_once(start_server):
    soak = soak_module()
    server = start_server("--log-requests", "false", "--allow-client-shm")
    with soak.region(server.port):
        points = soak.run(server.port, server.pid, 4, 4, shm=True)
    grown = points[-1][1] - points[1][1]
    assert points[-1][0] > 5000, points
    assert grown < 24 * MIB, points
    server.stop()
