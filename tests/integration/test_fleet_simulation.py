"""The fleet simulator (tests/sim/fleet.py) against formulas of queueing theory, and its parts
against the code and the measurements that they model."""

import json
import math
import struct
import subprocess
import sys

import pytest

from support.tallyd import TOP

sys.path.insert(0, str(TOP / "tests" / "sim"))

import fleet  # noqa: E402
import one_machine  # noqa: E402

pytestmark = pytest.mark.release_only
SMALL, LARGE = 1000, 8 * fleet.MIB
MANY = 1 << 30


class Exponential:
    """Requests with exponentially distributed core time of this mean, and no other cost."""

    def __init__(self, mean=1.0, all_alike=False):
        self.mean, self.all_alike = mean, all_alike

    def draw(self, size, numbers):
        return self.mean if self.all_alike else numbers.expovariate(1 / self.mean), 0.0


def simulate(size, costs=None, cores=1.0, places=MANY, **changes):
    changes = {"replicas": 1, "seconds": 15_000, "warm": 200, "deadline_times": 0} | changes
    settings = fleet.Settings(cores=cores, places=places, queue_depth=MANY, memory_budget=math.inf)
    return fleet.simulate(costs or Exponential(), kinds=((size, 1),), replica=settings, **changes)


def mean(outcome):
    return sum(outcome.times) / len(outcome.times)


def erlang_c(servers, load):
    """The probability of having to wait in M/M/c."""
    terms = [load**k / math.factorial(k) for k in range(servers)]
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(terms) + last)


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["first come first served", "shared core"])
@pytest.mark.parametrize("load", [0.4, 0.7])
def test_one_replica_is_an_m_m_1_queue(size, load):
    found = mean(simulate(size, rate=load))
    assert found == pytest.approx(1 / (1 - load), rel=0.1)


def test_percentiles_of_one_replica_are_those_of_m_m_1():
    outcome = simulate(SMALL, rate=0.5)
    for percent in (50, 99):
        expected = -math.log(1 - percent / 100) / 0.5
        assert outcome.p(percent) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("cores, load", [(2, 0.7), (4, 0.7)])
def test_a_replica_with_several_cores_is_an_m_m_c_queue(cores, load):
    found = mean(simulate(LARGE, cores=cores, rate=load * cores, seconds=8000))
    waiting = erlang_c(cores, load * cores) / (cores - load * cores)
    assert found == pytest.approx(1 + waiting, rel=0.08)


def test_small_requests_of_one_length_wait_half_as_long():
    """M/D/1: the Pollaczek-Khinchine formula."""
    found = mean(simulate(SMALL, Exponential(all_alike=True), rate=0.8))
    assert found == pytest.approx(1 + 0.8 / (2 * 0.2), rel=0.06)


def test_random_balancing_is_as_many_single_queues_and_others_are_better():
    times = {}
    for choice in ("random", "two", "least"):
        options = {"replicas": 20, "rate": 14, "seconds": 900, "choice": choice}
        times[choice] = mean(simulate(SMALL, **options))
    assert times["random"] == pytest.approx(1 / 0.3, rel=0.12)
    assert times["least"] < times["two"] < times["random"]


def test_only_so_many_large_requests_share_the_core_and_the_rest_waits_in_order():
    """With one place, requests are served in the order of their arrival. If they are equally
    long, they wait as in M/D/1."""
    one_length = Exponential(all_alike=True)
    settings = fleet.Settings(
        places=1, queue_depth=MANY, memory_budget=1.0
    )  # with this budget no request counts as short
    options = {"replicas": 1, "seconds": 20_000, "deadline_times": 0, "rate": 0.8}
    found = fleet.simulate(one_length, kinds=((LARGE, 1),), replica=settings, **options)
    assert mean(found) == pytest.approx(1 + 0.8 / (2 * 0.2), rel=0.06)


def test_small_requests_keep_half_of_a_core_that_large_ones_would_fill():
    settings = fleet.Settings(queue_depth=MANY)
    options = {"replicas": 1, "seconds": 4000, "deadline_times": 0, "rate": 0.9}
    kinds = ((SMALL, 1), (LARGE, 9))
    found = fleet.simulate(Exponential(), kinds=kinds, replica=settings, **options)
    # mean time of M/M/1 for small requests that have half of the core
    alone = 2 / (1 - 0.09 * 2)
    assert found.p(50) > sum(found.small_times) / len(found.small_times) * 0.5
    assert sum(found.small_times) / len(found.small_times) < alone * 1.1


def scenario(**changes):
    costs = Exponential(0.05)
    options = {"replicas": 10, "rate": 100, "seconds": 30, "kinds": ((LARGE, 1),)} | changes
    return fleet.simulate(costs, **options)


def test_under_overload_late_requests_are_refused_and_the_others_are_answered():
    """The load is twice the capacity. Without refusals hardly any answer would be in time."""
    overload = {"rate": 400, "deadline_times": 1, "deadline_s": 1, "seconds": 20, "retries": 0}
    kept = scenario(**overload)
    blind = scenario(**overload, replica=fleet.Settings(deadlines=False))
    assert kept.good_core_s > 0.15 * kept.offered_core_s
    assert blind.good_core_s < 0.05 * blind.offered_core_s
    assert kept.failed > 0.2 * kept.calls


def test_a_budget_of_retries_bounds_the_attempts():
    overload = {"rate": 400, "deadline_times": 1, "deadline_s": 1, "seconds": 30, "clients": 20}
    budgeted, unbounded = scenario(**overload), scenario(**overload, budget=False)
    calls = budgeted.calls
    most = calls * fleet.RETRY_PER_CALL + 20 * (fleet.RETRY_BURST + 30 * fleet.RETRY_PER_S)
    assert calls < budgeted.attempts <= calls + most
    assert unbounded.attempts > budgeted.attempts


def test_replicas_that_die_lose_nothing_for_clients_that_retry():
    patient = {"rate": 50, "deadline_s": 30, "deaths": 0.5}
    assert scenario(**patient, retries=0).failed > 0
    assert scenario(**patient).failed == 0


def test_a_rolling_restart_loses_nothing():
    found = scenario(rolling=0.1, rate=50, seconds=40, deadline_s=30, retries=0)
    assert found.calls > 1000 and found.failed == 0 and found.late == 0


def test_every_call_is_good_late_or_failed():
    for changes in ({}, {"rate": 400}, {"deaths": 1.0}, {"slow": 0.2, "choice": "random"}):
        found = scenario(**changes)
        assert found.good + found.late + found.failed == found.calls > 1000, changes


def test_a_seed_gives_the_same_figures_and_another_one_others():
    assert scenario().times == scenario().times != scenario(seed=2).times


def test_costs_are_those_that_were_measured_and_grow_with_the_size():
    costs = fleet.measured_costs()
    for row in fleet.measured()["sizes"]:
        assert costs.mean(costs.core_s, row["bytes"]) == pytest.approx(row["core_ms"] / 1e3)
    sizes = [1 << power for power in range(10, 30)]
    means = [costs.mean(costs.core_s, size) for size in sizes]
    assert means == sorted(means) and means[0] > 0


def test_a_retry_that_avoids_a_replica_goes_to_another():
    balancer = fleet.Balancer(2, "least", fleet.random.Random(1))
    assert {balancer.least(avoid=0) for _ in range(9)} == {1}
    balancer.set_up(1, False)
    assert balancer.least(avoid=-1) == 0
    balancer.set_up(1, True)
    balancer.begin(0)
    assert balancer.least(avoid=-1) == 1


# ---- the measured fleet of three replicas ----


def test_the_simulation_predicts_the_measurements_within_a_fifth():
    assert len(fleet.measured()["loads"]) == 3
    assert list(one_machine.missed(fleet.measured())) == []


def test_a_fleet_that_was_measured_half_as_fast_is_not_foretold():
    measured = fleet.measured()
    del measured["loads"][1:]
    measured["loads"][0]["quantiles_ms"] = [2 * ms for ms in measured["loads"][0]["quantiles_ms"]]
    assert len(list(one_machine.missed(measured))) == 2


def test_the_requests_of_a_load_are_replayed(server, tmp_path):
    """The simulated requests are those that load_client sends, at the same times."""
    weights, command = [5, 2, 1], [str(TOP / "build/bin/load_client"), "--port", str(server.port)]
    command += "--connections 50 --warm 0 --seconds 0.3 --rate 200 --seed 4".split()
    (tmp_path / "body").write_bytes(b"")
    for number, weight in enumerate(weights):
        head = tmp_path / str(number)
        head.write_text("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        command.append(f"{weight},-,{head},{tmp_path / 'body'}")
    line, _, data = subprocess.run(command, check=True, capture_output=True).stdout.partition(b"\n")
    record = struct.Struct("<QQQQQIHH")  # struct record of load_client.c
    assert json.loads(line)["record_bytes"] == record.size
    sent = sorted((due, kind) for due, *_, kind in record.iter_unpack(data))
    foretold = list(one_machine.requests_of(3, 200, 0.3, weights))
    assert 30 < len(foretold) == len(sent)
    for (due_ns, kind), (time_s, foretold_kind) in zip(sent, foretold):
        assert kind == foretold_kind
        assert (due_ns - sent[0][0]) / 1e9 == pytest.approx(time_s, abs=1e-8)


def test_fair_parts_give_small_needs_in_full_and_equal_parts_to_the_others():
    assert one_machine.fair_parts([1, 0.2, 1], 2) == pytest.approx([0.9, 0.2, 0.9])
    assert one_machine.fair_parts([0.5, 0.25], 2) == [0.5, 0.25]
    assert one_machine.fair_parts([1, 1, 1, 1], 2) == [0.5] * 4
