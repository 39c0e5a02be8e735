"""tally.dask on two workers, each with a tallyd of its own: if a process dies, the other worker
takes over its work. Workers are started by the command line of the systemd unit in
deploy/dask."""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from support.tallyd import TOP, Tallyd
from support.waiting import until


UNIT = TOP / "deploy" / "dask" / "tally-dask-worker.service"
INSTALLED = "/opt/tally-dask/bin/dask"  # path in deploy/dask/README.md
DASK = str(pathlib.Path(sys.executable).with_name("dask"))


def exec_start(settings, temporary):
    """Expand the unit's ExecStart as systemd does, with `settings` as its EnvironmentFile."""
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.M)
    for word in line.replace(INSTALLED, DASK).replace("%T", str(temporary)).split():
        yield from settings[word[1:]].split() if word.startswith("$") else [word]


def test_systemd_takes_the_unit_as_it_is(tmp_path):
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace(INSTALLED, DASK))
    command = ["systemd-analyze", "verify", copy]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout + done.stderr == ""


def test_no_variable_of_the_unit_is_a_setting_of_dask():
    """dask reads DASK_* variables as settings; DASK_SCHEDULER, for one, chooses the scheduler of
    every compute()."""
    names = re.findall(r"\$(\w+)", UNIT.read_text())
    assert len(names) == 2 and not any(name.startswith("DASK") for name in names)


class Worker:
    """A worker in its own process, with a tallyd of its own."""

    def __init__(self, scheduler, number, folder):
        name = f"worker-{number}"
        self.server = Tallyd(folder / f"dask-{number}.log")
        self.url = f"http://127.0.0.1:{self.server.port}"
        here = [str(TOP / "client" / "python"), str(pathlib.Path(__file__).parent)]
        settings = {
            "SCHEDULER": scheduler,
            "WORKER_OPTIONS": f"--no-nanny --nthreads 1 --name {name} --no-dashboard",
            "TALLY_URL": self.url,
        }
        with open(folder / f"{name}.log", "wb") as log:
            self.process = subprocess.Popen(
                list(exec_start(settings, folder)),
                stdout=log,
                stderr=log,
                env={**os.environ, **settings, "PYTHONPATH": os.pathsep.join(here)},
            )

    def stop(self):
        self.process.kill()
        self.process.wait(30)
        self.server.kill()


@pytest.fixture
def cluster(tmp_path):
    """A scheduler in this process and two workers."""
    import distributed  # imported here, since every test process imports all test files

    with distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as scheduler:
        workers = [Worker(scheduler.scheduler_address, number, tmp_path) for number in range(2)]
        try:
            with distributed.Client(scheduler) as client:
                client.wait_for_workers(2, timeout=120)
                client.workers = workers
                yield client
        finally:
            for worker in workers:
                worker.stop()


def test_each_worker_asks_the_tallyd_beside_it_and_what_dies_is_done_without(cluster, tmp_path):
    """Kill first a tallyd, then a worker, each in the middle of a sum and permanently."""
    import tally.dask
    from dask_blocks import CHUNKS, beside, block_of, lazy

    assert list(cluster.run(beside).values()) == [[1, 2, 3]] * 2
    for worker in cluster.workers:
        # The server counts a request when it frees the connection, perhaps after the client read
        # the answer.
        counter = 'tally_requests_total{route="cumsum",outcome="ok"}'
        until(lambda server=worker.server: server.metric(counter) == 1)

    x = np.concatenate([block_of(number) for number in range(CHUNKS)], 1)
    with tally.Client(cluster.workers[1].url) as client:
        expected = client.cumsum(x, 1).tobytes()
    urls = [worker.url for worker in cluster.workers]
    for name, kill in (
        ("tallyd", cluster.workers[0].server.kill),
        ("worker", cluster.workers[1].process.kill),
    ):
        folder = tmp_path / name
        folder.mkdir()
        future = cluster.compute(tally.dask.cumsum(lazy(folder), 1, urls=urls))
        until((folder / "waits").exists)
        kill()
        (folder / "go").touch()
        assert future.result(timeout=120).tobytes() == expected, name
    cluster.workers[1].process.wait(60)

    # The dashboard groups and colours tasks by these names.
    names = cluster.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.task_prefixes))
    assert {"tally-totals", "tally-fold", "tally-cumsum"} <= names
