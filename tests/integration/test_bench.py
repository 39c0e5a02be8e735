"""The benchmark's own tools: every section that needs no network, on tiny inputs, with a stand-in
for wrk; peers that die or hang; and an interrupted run, which must leave nothing behind."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from support.tallyd import TOP

BENCH = TOP / "tests" / "bench"
sys.path.insert(0, str(BENCH))

import compute  # noqa: E402
import load  # noqa: E402
import report  # noqa: E402

pytestmark = pytest.mark.release_only


# Posts once, and prints the same numbers as wrk's script.
WRK = """#!{python}
import json, os, sys, urllib.request
body = open(os.environ["BODY"], "rb").read()
header = {{"Content-Type": os.environ["CONTENT_TYPE"]}}
header.update(line.split(": ") for line in os.environ["EXTRA"].splitlines())
requests = int(os.environ.get("WRK_REQUESTS", "1"))
if requests:
    urllib.request.urlopen(urllib.request.Request(sys.argv[-1], body, header), timeout=20).read()
print('RESULT {{"requests":' + str(requests) + ',"seconds":0.5,"bytes":1,"p50_us":2,"p90_us":3,"p99_us":4,'
      '"p999_us":5,"max_us":6,"status_errors":0,"socket_errors":0}}')
"""


def run_command(out, *more):
    return [sys.executable, BENCH / "run.py", "--quick", "--rounds", "1", "--out", out, *more]


def bench(tmp_path, *more, env=None):
    """The rows of the single section that ran, and the table."""
    done = subprocess.run(
        run_command(tmp_path, *more),
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (written,) = tmp_path.glob("*.json")
    return json.loads(written.read_text())["rows"], done.stdout


def test_the_kernel_section_measures_every_size_it_is_given(tmp_path):
    more = ["--bytes", "4096", "--bytes", "300000", "--match", "one row, float32"]
    rows, table = bench(tmp_path, "--only", "kernels", *more)
    assert [r["work"] for r in rows] == ["one row, float32, 0.3 MB"]
    assert [c["bytes"] for c in rows[0]["cases"]] == [4096, 300000]
    assert rows[0]["ratio"] > 0 and rows[0]["goal"] == ">= 0.75"
    assert rows[0]["verdict"] in ("reached", "missed") and rows[0]["verdict"] in table


def test_a_run_records_the_processor_the_commit_and_the_speed_of_a_copy(tmp_path):
    bench(tmp_path, "--only", "kernels", "--bytes", "4096", "--match", "one row, float32")
    document = json.loads((tmp_path / "kernels.json").read_text())
    assert document["machine"]["name"] and document["machine"]["maker"]
    assert document["run"]["copy_gb_per_s"] > 0
    hash_of_tree = re.compile(r"[0-9a-f]{8,}\+?")
    commit = document["run"]["commit"]
    assert hash_of_tree.fullmatch(commit) if (TOP / ".git").exists() else commit is None


def test_peers_are_compared_and_one_that_dies_costs_only_itself(tmp_path):
    more = ["--match", "100x1000 axis 1", "--engines", "numpy", "dies"]
    rows, _ = bench(tmp_path, "--only", "peers", *more)
    row = rows[0]
    assert list(row["ratios"]) == ["numpy"] and row["ratios"]["numpy"] > 0
    assert row["unequal"] == [] and "KeyError" in row["lost"]["dies"]
    means = [r for r in rows if r["work"] == "geometric mean of 1"]
    assert [r["against"] for r in means] == ["numpy", "all"]


def test_outputs_that_differ_are_told(tmp_path):
    for name, values in (("a", b"\0\0\x80\x3f"), ("b", b"\0\0\x80\x3f"), ("c", b"\0\0\0\x40")):
        (tmp_path / name).write_bytes(values)
    assert compute.same(tmp_path / "a", tmp_path / "b", "float32")
    assert not compute.same(tmp_path / "a", tmp_path / "c", "float32")
    times = {"tally": [1.0], "numpy": [0.5]}
    case = ("float32", (1,), 0)
    row = compute.row_of(case, times, ["numpy"], {})
    assert row.ratio == 0.5 and row.verdict() == "missed"
    assert "OUTPUT OF numpy DIFFERS" in row.notes
    _, _, losses = compute.means([row])
    assert losses.ratio == 1 and "numpy on" in losses.notes


def test_a_peer_that_hangs_is_given_up():
    turns = compute.Turns(["sleep", "60"])
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="no answer"):
        turns.ask(seconds=0.1)
    turns.close()
    assert time.monotonic() - began < 10
    assert turns.child.returncode == -signal.SIGTERM


def wrk_path(tmp_path):
    """A PATH that begins with the stand-in."""
    wrk = tmp_path / "bin" / "wrk"
    wrk.parent.mkdir()
    wrk.write_text(WRK.format(python=sys.executable))
    wrk.chmod(0o755)
    return f"{wrk.parent}:{os.environ['PATH']}"


def test_a_server_that_answers_nothing_in_time_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", wrk_path(tmp_path))
    monkeypatch.setenv("WRK_REQUESTS", "0")
    with load.body_file(b"x") as body, pytest.raises(RuntimeError, match="no answer within 1 s"):
        load.wrk("http://127.0.0.1:1/", body, content_type="a/b", seconds=1, connections=1)


def test_the_service_section_measures_beside_the_bare_daemon(tmp_path):
    path = {"PATH": wrk_path(tmp_path)}
    rows, table = bench(tmp_path, "--only", "service", "--match", "v2 binary", env=path)
    assert [r["work"] for r in rows] == ["v2 binary c=32"]
    assert rows[0]["ratio"] == 1 and rows[0]["verdict"] == "reached"
    assert "goals: 1 reached, 0 missed" in table


def test_goals_say_which_side_of_them_a_figure_is_on():
    assert report.Goal(">=", 0.5).met(0.5) and not report.Goal(">=", 0.5).met(0.49)
    assert report.Goal(">", 1).met(1.01) and not report.Goal(">", 1).met(1)
    assert report.Goal("<", 3).met(2.9) and not report.Goal("<", 3).met(3)
    assert report.spread([3, 1, 2, 5, 4]) == {"ratio": 3, "low": 2, "high": 4}
    assert report.geometric_mean([1, 4]) == pytest.approx(2)


def alive(group):
    """Processes in the session of a process, from /proc."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) in group and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_behind_by_an_interrupted_run(tmp_path, number):
    command = run_command(tmp_path / "out", "--only", "service", "--match", "small raw c=1")
    folder = tmp_path / "temporary"
    folder.mkdir()
    run = subprocess.Popen(
        command,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts background jobs, perhaps these tests, with SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert any("... small raw c=1" in line for line in run.stderr)
        deadline = time.monotonic() + 30
        children = []
        while len(children) < 3 and time.monotonic() < deadline:  # tallyd, bare_mhd and wrk
            children = load.children(run.pid)
            time.sleep(0.01)
        assert len(children) >= 3, children or run.communicate()[1]
        run.send_signal(number)
        assert run.wait(30) != 0
        assert alive({run.pid, *children}) == []
        assert list(folder.iterdir()) == []
        assert not list(pathlib.Path("/dev/shm").glob(f"tally_bench_{run.pid}_*"))
        assert "interrupted" in run.stderr.read()
    finally:
        run.kill()
        run.wait()
        run.stderr.close()
