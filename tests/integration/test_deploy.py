"""deploy/: systemd accepts the units, and the settings of the units and of the compose file fit
tallyd and each other."""

import re
import subprocess

import pytest
import yaml

from support.tallyd import BINARY, TOP

SERVICE = (TOP / "deploy/tallyd.service").read_text()
COMPOSE = yaml.safe_load((TOP / "deploy/compose.yaml").read_text())["services"]["tally"]
CORES = 1024  # cores of a machine for which the files fit unchanged


def unit(key):
    (value,) = re.findall(rf"^{key}=(\S+)$", SERVICE, re.M)
    return int(value)


def default(name):
    said = subprocess.run([BINARY, "--print-config", "env"], capture_output=True, text=True)
    return int(re.search(rf"^#TALLY_{name}=(\d+)$", said.stdout, re.M)[1])


def mebibytes(text):
    number, unit = re.fullmatch(r"(\d+)([gm])(?:ib)?", text.lower()).groups()
    return int(number) * (1024 if unit == "g" else 1)


def test_systemd_takes_the_units_as_they_are(tmp_path):
    for name in ("tallyd.service", "tallyd.socket"):
        text = (TOP / "deploy" / name).read_text()
        (tmp_path / name).write_text(text.replace("/usr/local/bin/tallyd", str(BINARY)))
    command = ["systemd-analyze", "verify", "--man=no", *tmp_path.iterdir()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout + done.stderr == ""


def test_stop_timeouts_of_supervisors_are_longer_than_a_drain():
    longest_s = default("DRAIN_DELAY_MS") / 1000 + default("DRAIN_TIMEOUT_S")
    assert unit("TimeoutStopSec") > longest_s
    assert int(COMPOSE["stop_grace_period"].removesuffix("s")) > longest_s


def test_there_may_be_as_many_threads_as_a_large_machine_has(start_server):
    few, more = (start_server("--cpus", str(cpus)).threads() for cpus in (1, 9))
    of_a_core = (more - few) / 8
    # A process has two or three threads per core, with PoCL one more per core, and one more
    # thread during start or exit. The threads of Tally's own driver start with the first large
    # launch, which measures the device.
    assert 1 < of_a_core < 3.5
    assert unit("TasksMax") >= few + 3 * CORES
    assert COMPOSE["pids_limit"] == unit("TasksMax")


def test_a_container_has_a_budget_of_half_its_memory_and_settings_that_there_are():
    settings = COMPOSE["environment"]
    assert 2 * mebibytes(settings["TALLY_MEMORY_BUDGET"]) == mebibytes(COMPOSE["mem_limit"])
    command = [BINARY, "--print-config", "env"]
    said = subprocess.run(command, env=settings, capture_output=True, text=True, check=True).stdout
    for name in settings:
        assert re.search(rf"^#?{name}=", said, re.M), name


def most_connections():
    """The default of --max-connections for a machine with enough memory. It stands at the end
    of the option's description."""
    said = subprocess.run([BINARY, "--print-config", "env"], capture_output=True, text=True)
    return int(re.search(r"at most (\d+)\. \(connections\)", said.stdout.replace("\n# ", " "))[1])


@pytest.mark.parametrize("limit", [unit("LimitNOFILE"), COMPOSE["ulimits"]["nofile"]])
def test_descriptors_are_enough_for_all_connections(limit):
    assert limit > 2 * most_connections()


def test_the_log_of_a_container_has_an_end():
    logging = COMPOSE["logging"]
    assert logging["driver"] == "json-file"  # the options below are options of this driver
    kept = mebibytes(logging["options"]["max-size"]) * int(logging["options"]["max-file"])
    assert 64 <= kept <= 1024


def test_the_journal_leaves_none_of_the_lines_out_that_tallyd_writes():
    assert unit("LogRateLimitIntervalSec") == 0


def seconds(text, of):
    """The seconds of a timeout in a configuration of HAProxy or nginx."""
    number, unit = re.search(rf"{of} +(\d+)([smh])\b", text).groups()
    return int(number) * {"s": 1, "m": 60, "h": 3600}[unit]


def test_proxies_wait_as_long_as_tallyd_does():
    haproxy = (TOP / "deploy/haproxy.cfg").read_text()
    nginx = (TOP / "docs/securing.md").read_text()
    assert seconds(haproxy, "timeout http-request") * 1000 == default("HEADER_TIMEOUT_MS")
    assert seconds(haproxy, "timeout http-keep-alive") < default("IDLE_TIMEOUT_S")
    waiting_s = default("REQUEST_TIMEOUT_MS") / 1000
    assert seconds(haproxy, "timeout server") == waiting_s
    assert seconds(nginx, "proxy_read_timeout") == waiting_s
    assert int(re.search(r" maxconn (\d+)", haproxy)[1]) < most_connections()
    checks_s = int(re.search(r"check inter (\d+)s fall 2", haproxy)[1]) * 2
    assert checks_s * 1000 < default("DRAIN_DELAY_MS")
