"""Run tests/load/rotation.py for some seconds: certificate and token file change every second,
and no client may notice it."""

import importlib.util

from support.tallyd import TOP

SECONDS = 3


def rotation_module():
    spec = importlib.util.spec_from_file_location("rotation", TOP / "tests/load/rotation.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_that_change_every_second_under_load_fail_no_request(tmp_path):
    rotation = rotation_module().Rotation(tmp_path, tmp_path / "log")
    rotation.run(SECONDS)
    assert rotation.failed == []
    assert rotation.serials[:2] == [2, 3]
    assert set(rotation.served) == {"wrk", "triton-0", "triton-1", "new"}
    assert all(count > 0 for count in rotation.served.values()), rotation.served
