"""A full disk: Tally needs no disk. Its kernels are compiled at build time, so nothing is compiled,
cached or written at run time.

Other drivers are hidden, since they write files when they are asked for devices.
"""

import resource
import signal

import numpy as np
import pytest

from support import calls
from support.dtypes import ALL


@pytest.fixture
def start(start_server, tmp_path):
    """A server that uses one empty directory for everything; returns both."""
    home = tmp_path / "home"
    vendors = tmp_path / "vendors"
    home.mkdir()
    vendors.mkdir()
    places = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR", "POCL_CACHE_DIR")
    env = {"OCL_ICD_VENDORS": str(vendors), **dict.fromkeys(places, str(home))}
    return lambda **options: (start_server(env=env, **options), home)


def expect_every_type_to_work(server):
    client = server.client()
    for dtype in ALL:
        ones = dtype.store(np.ones((60, 70)))
        for axis in (0, 1):
            answer = calls.post_raw(client, dtype, ones, axis=axis)
            sums = calls.stored_of(dtype, answer, ones.shape)
            assert np.array_equal(dtype.load(sums), np.cumsum(dtype.load(ones), axis=axis))
    client.close()


def test_where_no_file_can_have_a_single_byte_every_type_works(start):
    def no_file_grows():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # write() fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    server, _ = start(preexec_fn=no_file_grows)
    expect_every_type_to_work(server)
    server.stop()
    assert server.log == ""  # the log file could not grow either


def test_the_service_writes_no_file_and_starts_no_process(start):
    server, home = start()
    expect_every_type_to_work(server)
    assert not server.children()
    server.stop()
    assert not list(home.iterdir())
