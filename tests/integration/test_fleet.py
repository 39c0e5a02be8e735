"""Three replicas behind HAProxy with deploy/haproxy.cfg, restarted and killed under load:
tests/fleet/play.py states the requirements. test_fleet_simulation.py tests the simulation of
larger fleets."""

import json
import subprocess
import sys

import pytest

from support.tallyd import BINARY, TOP

sys.path.insert(0, str(TOP / "tests" / "fleet"))

import play  # noqa: E402

SCRIPT = TOP / "tests/fleet/play.py"


@pytest.mark.release_only
def test_a_fleet_that_is_restarted_and_killed_loses_nothing_and_answers_nothing_wrong(tmp_path):
    written = tmp_path / "found.json"
    command = [sys.executable, SCRIPT, "--short", "--binary", BINARY, "--json", written]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(written.read_text())
    assert found["restarts"] == 3 and found["kills"] == 2, found
    assert found["right_in_restarts"]["bare"] > 150, found
    assert found["right_in_all"]["retrying"] > found["right_in_restarts"]["retrying"] > 150, found


def test_each_promise_that_is_broken_is_told():
    kept = {"wrong": [], "lost_in_restarts": [], "failed_later": [], "failed_retrying": []}
    kept |= {"failed_under_way": 8, "kills": 2, "bare_clients": 4}
    assert list(play.faults(kept)) == []
    for name in ("wrong", "lost_in_restarts", "failed_later", "failed_retrying"):
        assert len(list(play.faults(kept | {name: ["something"]}))) == 1, name
    assert len(list(play.faults(kept | {"failed_under_way": 9}))) == 1
