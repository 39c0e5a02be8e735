"""deploy/monitoring/: the rules fire exactly when they should, and each query of the dashboard has
an answer in a real Prometheus that scrapes a busy tallyd."""

import json
import math
import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import numpy as np
import pytest
import yaml

from support import calls
from support.tallyd import TOP, free_port
from support.waiting import until

MONITORING = TOP / "deploy" / "monitoring"
RULES = MONITORING / "rules.yaml"
KUBERNETES = TOP / "deploy" / "kubernetes" / "components"
RECORDED = json.loads((TOP / "tests" / "monitoring" / "step_load.json").read_text())
RULE_TESTS = TOP / "tests" / "monitoring" / "rules_test.yaml"
WATCHING = (TOP / "docs" / "watching.md").read_text()
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
VARIABLES = {"$__rate_interval": "5s", "$job": "tally", "$instance": ".*"}


def promtool(*arguments, stdin=None):
    """Run promtool; returns its exit status and output."""
    ran = subprocess.run(
        ["promtool", *arguments],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return ran.returncode, ran.stdout


def rules(kind):
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if kind in rule]


def queries():
    return {
        f"{panel['title']}-{target['refId']}": target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    }


class Load:
    """A client that sends small and large tensors and texts, some of which are refused, until it is
    stopped."""

    def __init__(self, server):
        self.server = server
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self._send)
        self.thread.start()

    def _send(self):
        client = self.server.client()
        large = np.ones((64, 4096), np.float32)
        while not self.ends.wait(0.1):
            client.post(calls.PATH, calls.BODY, calls.RAW)
            client.post("/v1/cumsum?dtype=float32&shape=64,4096&axis=1", large.tobytes(), calls.RAW)
            client.post_json("/v1/cumsum", {"data": list(range(4000))})
            client.post("/v1/cumsum", b"{", calls.JSON)
        client.close()

    def end(self):
        self.ends.set()
        self.thread.join()


def config_for(target):
    """The configuration of deploy/monitoring with another target and a shorter scrape interval."""
    config = (MONITORING / "prometheus.yaml").read_text()
    assert config.count("localhost:8000") == 1 and config.count(": 5s") == 2
    return config.replace("localhost:8000", target).replace(": 5s", ": 200ms")


class Prometheus:
    def __init__(self, folder, config):
        self.port = free_port()
        (folder / "prometheus.yaml").write_text(config)
        (folder / "rules.yaml").write_text(RULES.read_text())
        with open(folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={folder}/prometheus.yaml",
                    f"--storage.tsdb.path={folder}/data",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdout=log,
                stderr=log,
            )

    def ask(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}{path}?" + urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)

    def figures(self, query):
        """The present value of each series."""
        result = self.ask("/api/v1/query", query=query)["data"]["result"]
        return [float(series["value"][1]) for series in result]

    def answers(self, query="tally_ready"):
        try:
            return bool(self.figures(query))
        except OSError:
            assert self.process.poll() is None, "prometheus ended"
            return False

    def stop(self):
        self.process.kill()
        self.process.wait(10)


@pytest.fixture(scope="module")
def prometheus(session_server, tmp_path_factory):
    """A Prometheus that scrapes the shared server, which is under load."""
    folder = pathlib.Path(tmp_path_factory.mktemp("prometheus"))
    load = Load(session_server)
    watcher = Prometheus(folder, config_for(f"127.0.0.1:{session_server.port}"))
    try:
        until(watcher.answers, what="prometheus has no sample")
        yield watcher
    finally:
        watcher.stop()
        load.end()


def names_on(page):
    return set(re.findall(r"^([a-z_]+)(?:\{| )", page, re.M))


def test_the_rules_are_without_a_complaint():
    status, said = promtool("check", "rules", "--lint-fatal", str(RULES))
    assert status == 0, said
    status, said = promtool("check", "config", str(MONITORING / "prometheus.yaml"))
    assert status == 0, said


def test_alerts_fire_and_do_not_fire_as_told():
    status, said = promtool("test", "rules", str(RULE_TESTS))
    assert status == 0, said


def test_every_alert_has_a_time_at_which_it_fires_and_one_at_which_it_does_not():
    fires, rests = set(), set()
    for group in yaml.safe_load(RULE_TESTS.read_text())["tests"]:
        for case in group.get("alert_rule_test", ()):
            (fires if case["exp_alerts"] else rests).add(case["alertname"])
    alerts = {rule["alert"] for rule in rules("alert")}
    assert fires == alerts and rests == alerts


def test_the_documentation_says_of_every_alert_what_to_do():
    for rule in rules("alert"):
        assert f"`{rule['alert']}`" in WATCHING


def test_rules_dashboard_and_documentation_name_only_what_is_measured(client):
    measured = names_on(client.get("/metrics").body.decode())
    expressions = [rule["expr"] for rule in rules("expr")]
    expressions += queries().values()
    named = set(re.findall(r"(?<![:\w])(?:tally|process)_[a-z_]+", " ".join(expressions)))
    named |= set(re.findall(r"`((?:tally|process)_[a-z_]*[a-z])[`{]", WATCHING))
    measured |= {name.removesuffix("_count") for name in measured}  # histograms
    assert len(named) > 25 and named <= measured, named - measured


def test_recorded_names_in_the_dashboard_are_recorded():
    recorded = {rule["record"] for rule in rules("record")}
    text = json.dumps(DASHBOARD) + " ".join(rule["expr"] for rule in rules("expr"))
    used = set(re.findall(r"instance\w*:tally_\w+:\w+", text))
    assert used and used <= recorded


def test_every_query_of_the_dashboard_has_an_answer(prometheus):
    waiting = queries()
    assert len(waiting) > 20

    def all_answered():
        for name, query in list(waiting.items()):
            for variable, value in VARIABLES.items():
                query = query.replace(variable, value)
            assert "$" not in query, name
            figures = prometheus.figures(query)
            if figures and np.isfinite(figures).all():
                del waiting[name]
        return not waiting

    until(all_answered, 60, 0.2, what=waiting)


def test_the_choices_of_the_dashboard_have_values(prometheus):
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] != "query":
            continue
        asked = variable["definition"].replace("$job", "tally")
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", asked).groups()
        series = prometheus.ask("/api/v1/series", **{"match[]": selector})["data"]
        assert series and all(one[label] for one in series)


def test_prometheus_has_every_rule_and_none_fails(prometheus):
    def evaluated():
        groups = prometheus.ask("/api/v1/rules")["data"]["groups"]
        states = [rule["health"] for group in groups for rule in group["rules"]]
        return states if "unknown" not in states else None

    states = until(evaluated, 60, 0.2)
    assert states == ["ok"] * len(rules("expr"))


def test_prometheus_complains_of_none_of_our_metrics(client):
    status, said = promtool("check", "metrics", stdin=client.get("/metrics").body.decode())
    lines = said.splitlines()
    assert lines and status == 3, said  # the linter works: it objects to Triton's names
    assert [line for line in lines if not line.startswith("nv_")] == []


def test_every_outcome_is_there_from_the_start(start_server):
    server = start_server()
    client = server.client()
    page = client.get("/metrics").body.decode()
    for outcome in ("ok", "queue_full", "out_of_memory", "internal_error", "deadline_passed"):
        assert f'\ntally_requests_total{{route="cumsum",outcome="{outcome}"}} 0\n' in page
    client.close()
    server.stop()


def test_limits_are_those_of_the_flags(start_server):
    limits = ("--queue-depth", "7", "--max-connections", "99", "--memory-budget", "1GiB")
    server = start_server(*limits)
    assert server.metric("tally_queue_limit_requests") == 7
    assert server.metric("tally_connections_limit") == 99
    assert server.metric("tally_memory_budget_bytes") == 1 << 30
    server.stop()


def test_a_drain_shows_while_all_are_still_served(start_server):
    server = start_server("--drain-delay-ms", "60000")
    assert server.metric("tally_draining") == 0
    server.signal(signal.SIGTERM)
    until(lambda: server.metric("tally_draining") == 1)
    assert server.metric("tally_ready") == 0
    server.signal(signal.SIGTERM)
    assert server.wait() == 1


# ---- autoscaling, replayed ----

ASKED_EVERY_S = 15


def horizontal():
    return yaml.safe_load((KUBERNETES / "hpa" / "hpa.yaml").read_text())["spec"]


def keda():
    return yaml.safe_load((KUBERNETES / "keda" / "keda.yaml").read_text())["spec"]


def expression(name):
    """The expression of a recording rule, with the names of other rules replaced by their
    expressions."""
    recorded = {rule["record"]: rule["expr"] for rule in rules("record")}
    text = recorded[name]
    for other, expr in recorded.items():
        text = text.replace(other, f"({expr})")
    return text


@pytest.fixture(scope="module")
def recorded_work(tmp_path_factory):
    """Replay a recorded step of the load, and evaluate the recording rules every 15 s, as an
    autoscaler does. Returns two lists: the work of a replica, and the busy share of its
    devices."""
    folder = pathlib.Path(tmp_path_factory.mktemp("recorded"))
    began = int(time.time()) - 86400
    lines = []
    for name, values in RECORDED["series"].items():
        lines.append(f"# TYPE {name} unknown")
        for at, value in zip(RECORDED["times_s"], values):
            lines.append(f"{name} {value} {began + at}")
    (folder / "recorded.txt").write_text("\n".join([*lines, "# EOF", ""]))
    made = promtool(
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        str(folder / "recorded.txt"),
        str(folder / "data"),
    )
    assert made[0] == 0, made[1]
    watcher = Prometheus(folder, "global: {}\n")
    try:
        until(lambda: watcher.answers("vector(1)"), what="prometheus does not answer")
        figures = []
        for name in ("instance:tally_work:ratio", "instance:tally_device_busy:ratio_rate1m"):
            answer = watcher.ask(
                "/api/v1/query_range",
                query=expression(name),
                start=began + ASKED_EVERY_S / 2,
                end=began + RECORDED["times_s"][-1],
                step=ASKED_EVERY_S,
            )
            (series,) = answer["data"]["result"]
            figures.append([float(value) for _, value in series["values"]])
        yield tuple(figures)
    finally:
        watcher.stop()


def replicas(work, spec):
    """The number of replicas that Kubernetes' autoscaler would run, every 15 s. work: total work,
    in units of what one replica can do. The number is work / target, rounded up, within the
    limits, as fast as the policies allow; it decreases only after it was lower for the whole
    stabilization window."""
    target = float(spec["metrics"][0]["pods"]["target"]["averageValue"].removesuffix("m")) / 1000
    up, down = spec["behavior"]["scaleUp"], spec["behavior"]["scaleDown"]
    window = down["stabilizationWindowSeconds"] // ASKED_EVERY_S + 1
    wanted, run = [], [spec["minReplicas"]]

    def change(policy, sign):
        base = run[max(0, len(run) - 1 - policy["periodSeconds"] // ASKED_EVERY_S)]
        share = base * policy["value"] / 100 if policy["type"] == "Percent" else policy["value"]
        return base + sign * math.ceil(share)

    for much in work:
        wanted.append(min(max(math.ceil(much / target), run[0]), spec["maxReplicas"]))
        fewest = max(wanted[-window:])
        if wanted[-1] > run[-1]:
            run.append(min(wanted[-1], max(change(policy, 1) for policy in up["policies"])))
        elif fewest < run[-1]:
            run.append(max(fewest, min(change(policy, -1) for policy in down["policies"])))
        else:
            run.append(run[-1])
    return run[1:]


def test_the_recorded_step_scales_out_at_once_and_in_again_when_it_is_long_over(recorded_work):
    work, busy = recorded_work
    low, step, _ = (end_s // ASKED_EVERY_S for end_s in RECORDED["phases_end_s"])
    spec = horizontal()
    quiet = 60 * 30 // ASKED_EVERY_S  # half an hour of the load before the step
    run = replicas(work + work[:1] * quiet, spec)
    assert run[:low] == [2] * low
    assert run[low + 2] > 2, run  # within half a minute
    highest = max(run)
    assert highest >= 2 * spec["minReplicas"], run
    fell = next(i for i in range(1, len(run)) if run[i] < run[i - 1])
    calm = spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"] // ASKED_EVERY_S
    assert fell >= step + calm - 1, run
    assert run[fell:] == sorted(run[fell:], reverse=True) and run[-1] == 2, run
    # If the autoscaler looked only at the busy share of the devices, it would keep two
    # replicas: most of the work of a request is not done by the devices.
    assert set(replicas(busy, spec)) == {2}


def test_both_autoscalers_decide_alike():
    ours, theirs = horizontal(), keda()
    work = next(one for one in theirs["triggers"] if one["type"] == "prometheus")["metadata"]
    assert "instance:tally_work:ratio" in work["query"]
    assert float(work["threshold"]) * 1000 == float(
        ours["metrics"][0]["pods"]["target"]["averageValue"].removesuffix("m")
    )
    assert theirs["minReplicaCount"] == ours["minReplicas"]
    assert theirs["maxReplicaCount"] == ours["maxReplicas"]
    behavior = theirs["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior == ours["behavior"]
