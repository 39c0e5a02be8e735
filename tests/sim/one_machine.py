"""A simulation of the fleet that tests/fleet/measure.py measured: clients, HAProxy and three
replicas share the cores of one machine.

The recorded load is replayed: the requests are those that load_client sent, at the same times. A
request is either in transit, in both directions, or at the replica, which follows fleet.py. The
duration and core time of both were measured with each size alone. Here, all activities share the
cores fairly (max-min fairness, like Linux without its time slices): if cores are scarce, each
activity slows down accordingly.
"""

import heapq
import math

import fleet

# The codec thread of a replica compresses one large answer at a time, and small answers in
# between.
CODEC = fleet.Settings(places=1, memory_budget=1, small_bytes=256 * fleet.KIB)
CHECKED = (50, 99)  # percentiles that are compared with the measurement
WITHIN = 0.2  # largest accepted deviation, relative to the measurement


def random_units(seed):
    """The random numbers of load_client with --seed: xorshift64*."""
    x, mask = 2 * seed + 1, (1 << 64) - 1
    while True:
        x ^= x >> 12
        x ^= x << 25 & mask
        x ^= x >> 27
        yield ((x * 2685821657736338717 & mask) >> 11) / (1 << 53)


def requests_of(client, rate, seconds, weights):
    """(time, kind) of each request that a load_client sends."""
    units = random_units(client + 1)
    time_ns = 0
    while time_ns < seconds * 1e9:
        at, kind = int(next(units) * sum(weights)), 0
        while at >= weights[kind]:
            at -= weights[kind]
            kind += 1
        yield time_ns / 1e9, kind
        time_ns += int(-math.log1p(-next(units)) / rate * 1e9) + 1


def fair_parts(needs, cores):
    """Share of cores for each activity: all that it needs, or as much as any other whose need is
    not met."""
    parts = [0.0] * len(needs)
    for done, at in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        parts[at] = min(needs[at], cores / (len(needs) - done))
        cores -= parts[at]
    return parts


class OnTheWay:
    def __init__(self, seconds, need, then):
        self.left, self.need, self.then = seconds, need, then
        self.speed = 0.0


class OneMachine(fleet.Machine):
    def __init__(self, env, cores):
        super().__init__(env)
        self.cores = cores
        self.on_the_way = []

    def carry(self, seconds, need, then):
        """Call then() after `seconds` of transit, which needs the share `need` of a core."""
        self.advance()
        self.on_the_way.append(OnTheWay(seconds, need, then))
        self.plan()

    def work(self, elapsed):
        super().work(elapsed)
        for one in self.on_the_way:
            one.left -= elapsed * one.speed

    def set_speeds(self):
        needs = [one.need for one in self.on_the_way]
        needs += [sum(replica.parts()) for replica in self.replicas]
        speeds = [
            part / need if need > 0 else 1.0
            for part, need in zip(fair_parts(needs, self.cores), needs)
        ]
        soonest = math.inf
        for one, speed in zip(self.on_the_way, speeds):
            one.speed = speed
            soonest = min(soonest, one.left / speed)
        for replica, speed in zip(self.replicas, speeds[len(self.on_the_way) :]):
            soonest = min(soonest, replica.set_speeds(speed))
        return soonest

    def finish_due(self):
        super().finish_due()
        there = [one for one in self.on_the_way if one.left <= 1e-9]
        self.on_the_way = [one for one in self.on_the_way if one.left > 1e-9]
        for one in there:
            one.then()


class MeasuredFleet(fleet.Fleet):
    """The fleet under one of the measured loads."""

    def __init__(self, measured, load):
        self.measured, self.load = measured, load
        self.one_machine = None
        self.needs = {
            row["bytes"]: row["rest_ms"] / (row["mean_ms"] - row["core_ms"])
            for row in measured["packed"]
        }
        self.ways = {}
        scenario = fleet.Scenario(
            measured["replicas"], replica=CODEC, seconds=load["seconds"], warm=0, deadline_times=0
        )
        super().__init__(scenario, fleet.Costs(measured["packed"]))

    def machine(self):
        if self.one_machine is None:
            self.one_machine = OneMachine(self.env, self.measured["cores"])
        return self.one_machine

    def arrivals(self):
        clients, weights = self.measured["clients"], self.measured["weights"]
        rate, seconds = self.load["rate"] / clients, self.load["seconds"]
        sent = (requests_of(client, rate, seconds, weights) for client in range(clients))
        for time, kind in heapq.merge(*sent):
            yield self.env.timeout(time - self.env.now)
            self.call(self.measured["packed"][kind]["bytes"], 0)

    def reach(self, request, replica):
        self.ways[request] = request.latency / 2, self.needs[request.size]
        request.latency = 0.0
        self.one_machine.carry(*self.ways[request], lambda: replica.take(request))

    def on_done(self, request, outcome):
        answer = super().on_done
        self.one_machine.carry(*self.ways.pop(request), lambda: answer(request, outcome))


def check(measured):
    """(load, percentile, ms measured, ms simulated)"""
    for load in measured["loads"]:
        found = MeasuredFleet(measured, load).run()
        for percent in CHECKED:
            yield load, percent, load["quantiles_ms"][2 * percent], found.p(percent) * 1e3


def missed(measured):
    """Sentences about percentiles that differ from the measurement by more than WITHIN."""
    for load, percent, real, simulated in check(measured):
        if abs(simulated / real - 1) > WITHIN:
            yield f"p{percent} of {load['rate']}/s: {simulated:.2f} ms, measured {real:.2f} ms"
