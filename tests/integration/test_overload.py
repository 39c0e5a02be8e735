"""The overload benchmark: a quick run of everything, the reaction of its clients to refusals, and
its counting. `make overload` decides on a quiet machine whether the goals are reached."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from support import calls
from support.tallyd import BINARY, TOP
from support.waiting import until

sys.path.insert(0, str(TOP / "tests" / "load"))

import overload  # noqa: E402

pytestmark = pytest.mark.release_only

SCRIPT = TOP / "tests/load/overload.py"
BEGIN, END = 1_000_000_000, 2_000_000_000  # a window of one second


def command(*more):
    return [sys.executable, SCRIPT, "--quick", "--binary", BINARY, *more]


def test_a_quick_run_of_the_overload_benchmark_gives_sane_figures(tmp_path):
    written = tmp_path / "figures.json"
    done = subprocess.run(command("--json", written), capture_output=True, text=True, timeout=240)
    assert done.returncode in (0, 1, 2), done.stdout + done.stderr
    figures = json.loads(written.read_text())
    words = [verdict["word"] for verdict in figures["verdicts"]]
    assert len(words) == 8 and words.count("MISSED") == done.stdout.count("\nMISSED")
    assert done.returncode == (1 if "MISSED" in words else 2 if "unclear" in words else 0)
    assert [work["work"].split()[0] for work in figures["goodput"]] == ["4", "25", "3x4", "mix"]
    for work in figures["goodput"]:
        assert list(work["loads"]) == list(work["shares"]) == ["1", "8"], work
        assert max(work["shares"].values()) == 1 and min(work["shares"].values()) >= 0, work
        for run in work["loads"].values():
            lost = run["late"] + run["refused_before"] + run["refused_later"] + run["errors"]
            assert 0 <= lost <= run["offered"] + 1e-6 and run["good"] >= 0, work
            assert run["errors"] == 0 and run["unsent"] == 0, work
            assert 0 < run["server_cpu"] <= os.cpu_count() and run["cpu"] > 0, work
        assert work["loads"]["1"]["good"] > 0, work
        assert work["loads"]["1"]["latency_p50_ms"] > work["loads"]["1"]["server_p50_ms"], work
    for beside in figures["fairness"]:
        alone = beside["runs"]["alone"]
        assert alone["good"] > 0 and 0 < alone["latency_p50_ms"] <= alone["latency_p99_ms"], beside
        assert beside["slowdown"] > 0 and beside["lost"] >= 0, beside


@pytest.mark.parametrize("impatient, least, most", [(False, 1, 3), (True, 10, 1 << 30)])
def test_refused_clients_come_back_when_they_are_told_to(
    start_server, tmp_path, impatient, least, most
):
    server = start_server("--log-requests", "false", "--per-client-requests", "1")
    load = overload.Load(overload.load.BIN / "load_client", tmp_path, impatient)
    kind = overload.strided(1 << 24, flags="s")  # reading one answer takes longer than the test
    run = load.run(server, [kind], connections=4, seconds=0.8, cool=0)
    refused = round((run.refused_before + run.refused_later) * run.seconds)
    assert least <= refused <= most, run.figures()
    assert run.good < 1 and run.errors == 0, run.figures()


@pytest.mark.parametrize("flags, refused", [("e", "refused_before"), ("-", "refused_later")])
def test_a_body_that_is_announced_with_expect_is_sent_only_when_it_is_wanted(
    start_server, tmp_path, flags, refused
):
    server = start_server("--log-requests", "false", "--per-client-requests", "1")
    load = overload.Load(overload.load.BIN / "load_client", tmp_path, impatient=True)
    kind = overload.raw(4, flags=flags)
    run = load.run(server, [kind], connections=8, seconds=0.5)
    assert getattr(run, refused) > 0, run.figures()
    # The admitted request sends its whole body, and a busy machine may answer it late.
    assert (run.vain_mib <= 4 * run.late) == (flags == "e"), run.figures()


def test_a_body_that_is_never_sent_costs_the_client_only_its_head(start_server, tmp_path):
    server = start_server("--log-requests", "false")
    load = overload.Load(overload.load.BIN / "load_client", tmp_path)
    run = load.run(server, [overload.raw(4, flags="n")], connections=8, seconds=0.3, cool=0)
    assert round(run.late * run.seconds) == 8 and run.vain_mib == 0, run.figures()
    client = server.client()
    assert client.post("/v1/cumsum?dtype=int8&shape=2", b"\1\2", calls.RAW).body == b"\1\3"
    client.close()


def test_requests_that_arrive_at_a_rate_come_so_often_whatever_becomes_of_them(
    start_server, tmp_path
):
    server = start_server("--log-requests", "false")
    load = overload.Load(overload.load.BIN / "load_client", tmp_path)
    options = {"connections": 4, "seconds": 0.5, "rate": 2000}
    run = load.run(server, [overload.small()], **options)
    assert 1500 < run.offered < 2500, run.figures()
    never = load.run(server, [overload.raw(1, flags="n")], **options)
    assert 1500 < never.offered < 2500, never.figures()
    assert round(never.unsent * never.seconds) >= 700, never.figures()


def written(*records):
    """A file in the format of load_client; records: (due, started, ended, sent, status), in ms."""
    head = {"begin_ns": BEGIN, "end_ns": END, "cpu_s": 0.5, "server_cpu_s": 1}
    head |= {"records": len(records), "record_bytes": overload.RECORD.size}
    data = b""
    for due, start, end, sent, status in records:
        times = [moment * 1_000_000 for moment in (due, start, end)]
        data += overload.RECORD.pack(*times, sent, 9, 250, status, 0)
    return json.dumps(head).encode() + b"\n" + data


def test_only_answers_in_their_deadline_are_goodput_and_those_at_an_edge_count_in_part():
    kind = overload.Kind("k", "/", b"", deadline_ms=200)
    output = written(
        (900, 900, 1100, 0, 200),  # half of this request lies in the window
        (1100, 1100, 1300, 0, 200),
        (1100, 1100, 1301, 1 << 20, 200),  # this answer is late
        (1200, 1200, 1210, 0, 503),
        (1200, 1200, 1210, 5, 429),
        (1200, 1200, 1210, 0, 500),
        (1200, 1200, 0, 0, 0),  # this request is in flight at the end of the run
        (1200, 0, 1200, 0, 0),  # this request found no free connection
        (1900, 1900, 2100, 0, 200),  # half of this request lies in the window
    )
    run = overload.summed_up(output, [kind])
    assert (run.offered, run.good, run.late) == (8, 2, 2)
    assert (run.refused_before, run.refused_later, run.errors, run.unsent) == (1, 1, 1, 1)
    assert run.p(0) == 200 and run.p(99) == 201 and run.p(99, "server_ms") == 0.25
    assert [sorted(piece) for piece in run.pieces] == [[200, 201] + 5 * [float("inf")], [200]]
    assert run.piece_p(99) == 200  # the median of two is the lower one
    assert (run.cpu, run.server_cpu) == (0.5, 1)


def test_runs_of_the_same_load_are_merged_by_their_time():
    kind = overload.Kind("k", "/", b"")
    one = overload.summed_up(written((1100, 1100, 1200, 0, 200)), [kind])
    none = overload.summed_up(written(), [kind])
    none.seconds = 3
    both = overload.merge([one, none])
    assert (both.seconds, both.offered, both.good, both.by_kind) == (4, 0.25, 0.25, {"k": 0.25})


def test_the_capacity_is_the_smallest_load_that_gives_nearly_the_most():
    assert overload.load_of({2: 50, 4: 97, 8: 100, 16: 99}) == 4


def test_a_load_is_compared_with_the_best_one_in_the_same_round():
    rounds = [{1: 100, 2: 90}, {1: 60, 2: 57}, {1: 200, 2: 120}]
    assert overload.shares_of(rounds) == {1: 1, 2: 0.9}


def test_a_load_is_not_measured_by_the_luckiest_window_of_another():
    rounds = [{1: 130, 2: 100}, {1: 90, 2: 100}, {1: 75, 2: 100}]
    assert overload.shares_of(rounds) == {1: 0.9, 2: 1}


def test_where_no_answer_was_in_time_every_share_is_nothing():
    assert overload.shares_of([{1: 0, 2: 0}]) == {1: 0, 2: 0}


def test_a_verdict_beside_busy_neighbours_is_no_verdict():
    quiet, busy = overload.Run(1), overload.Run(1, others_cpu=0.9)
    assert overload.judge("it", True, [quiet]).word() == "reached"
    assert overload.judge("it", False, [quiet]).word() == "MISSED"
    assert overload.judge("it", True, [quiet, busy]).word() == "unclear"
    assert "others took 0.9 processors" in str(overload.judge("it", False, [busy]))


def runs(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def test_nothing_is_left_behind_by_an_interrupted_overload(tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    run = subprocess.Popen(
        command("--only", "fairness", "--match", "read slowly"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert any("beside" in line for line in run.stderr)
        names = []
        while "load_client" not in names:
            assert run.poll() is None
            started = overload.load.children(run.pid)
            names = [pathlib.Path(f"/proc/{p}/comm") for p in started]
            names = [name.read_text().strip() for name in names if name.exists()]
        run.send_signal(signal.SIGTERM)
        assert run.wait(30) != 0
        until(lambda: not any(map(runs, started)), 10, 0.01, "a process is left")
        assert not list(pathlib.Path("/dev/shm").glob(f"tally_bench_{run.pid}_*"))
        assert "interrupted" in run.stderr.read()
    finally:
        run.kill()
        run.wait()
        run.stderr.close()
