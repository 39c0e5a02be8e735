"""The handling of failing or hanging commands by tests/gpu/lease.sh. tests/gpu/test_lease_pack.py
packs a folder and runs all of it."""

import os
import re
import shutil
import subprocess

import pytest

from support.tallyd import TOP

pytestmark = pytest.mark.release_only

LEASE = TOP / "tests/gpu/lease.sh"


def lease(script, *words, seconds=600, env=None):
    command = ["sh", str(script), *map(str, words)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, **(env or {})},
    )


def results(folder):
    """Map each command of the run to its result."""
    text = (folder / "results/figures.txt").read_text()
    return dict(re.findall(r"^== (.*): (.*) \(\d+ s\)$", text, re.M))


# Stand-ins for the programs of a packed folder: they fail or hang in every possible way.
STUBS = {
    "test_corpus": """
        case " $* " in
        *' --list '*) echo '0: Fast, wide, Portable Computing Language, driver 3.1'
                      echo '1: A GPU, Some Platform, driver 7' ;;
        *' --lookback '*) exec sleep 1000 ;;
        *' --tiny '*) echo "ran $*" ;;
        esac""",
    "test_sources": "echo 'a program does not build'; exit 1",
    "kernel_bench": "exit 1",
    "tallyd": "exit 1",
    "tally": "exit 3",
}


@pytest.fixture
def stub(tmp_path):
    for name, script in STUBS.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    for name in ("lib", "spare", "requests"):
        (tmp_path / name).mkdir()
    (tmp_path / "spare/libnone.so.1").touch()
    (tmp_path / "commit").write_text("abc\n")
    (tmp_path / "requests/list").write_text("one int8 2 --axis 0\ntwo int8 1 --axis 0\n")
    (tmp_path / "requests/one.out").write_bytes(b"\1\2")
    (tmp_path / "requests/two.out").write_bytes(b"\3")
    shutil.copy(LEASE, tmp_path)
    return tmp_path


def test_a_command_that_fails_is_recorded_and_the_next_one_runs(stub):
    done = lease(stub / "lease.sh", "--quick", "kernels", "copy", "service")
    assert done.returncode == 1
    assert results(stub) == {
        "kernels: every program builds": "FAILED with status 1",
        "kernels: corpus, tiny": "ok",
        "copy: 1 MiB": "FAILED with status 1",
        "service: answers": "FAILED with status 2",
        "service: comparison": "FAILED with status 1",
    }
    text = (stub / "results/figures.txt").read_text()
    assert "a program does not build" in text and "tallyd ended before it was ready" in text
    assert "1 of 5 commands succeeded" in done.stdout


def test_the_first_device_of_another_driver_than_the_processors_is_measured(stub):
    lease(stub / "lease.sh", "--quick", "kernels")
    text = (stub / "results/figures.txt").read_text()
    assert "ran --device 1 --gpu-kernels" in text


def test_a_driver_that_the_loader_does_not_know_is_found(stub, monkeypatch):
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    (stub / "bin/test_corpus").write_text(
        """#!/bin/sh
case " $* " in
*' --list '*) grep . "$OCL_ICD_VENDORS"/*.icd >&2 && echo '0: A GPU, NVIDIA CUDA, driver 580' ;;
*) echo "vendors: $(cat "$OCL_ICD_VENDORS"/*.icd)"
esac
"""
    )
    library = stub / "driver/libnvidia-opencl.so.1"
    library.parent.mkdir()
    library.touch()
    lease(stub / "lease.sh", "--quick", "kernels")
    assert f"vendors: {library}" in (stub / "results/figures.txt").read_text()


def test_a_command_that_does_not_end_is_stopped_and_later_ones_do_not_run(stub):
    done = lease(stub / "lease.sh", "--quick", "--seconds", "4", "lookback", "kernels")
    assert done.returncode == 1
    first, *others = results(stub).values()
    assert first.startswith("OUT OF TIME after ")
    assert others == ["NOT RUN, no time is left"] * 2


def test_answers_that_differ_are_told(stub):
    answers = stub / "answers"
    shutil.copytree(stub / "requests", answers)
    assert lease(stub / "lease.sh", "compare", answers).returncode == 0
    (answers / "one.out").write_bytes(b"\1\3")
    done = lease(stub / "lease.sh", "compare", answers)
    assert done.returncode == 1
    assert "one (int8 2 --axis 0) differs" in done.stdout and "1 of 2 answers" in done.stdout


@pytest.mark.parametrize("words", [["--device", "7"], ["--slow"], ["--out"], ["measure"]])
def test_a_lease_with_wrong_arguments_is_refused(stub, words):
    done = lease(stub / "lease.sh", *words)
    assert done.returncode == 2 and done.stderr.startswith("lease.sh: ")
