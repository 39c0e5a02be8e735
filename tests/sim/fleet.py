"""A simulation (SimPy) of a fleet of tallyd replicas behind balancers, for results that
measurements on two cores cannot show.

A request has a tensor size, `core_s` (seconds of a replica's core) and `latency_s` (additional
time of a request without contention: the wire, the balancer, wake-ups). Both come from
tests/sim/measured.json by size.

A replica has `cores` and two classes of work, as server/sched does. Requests up to
`small_bytes` are served one after the other. Of the larger requests, `places` share the core,
or more while their total size is small; the rest wait in order of arrival. While both classes
have work, each has at least half of the core. A large request is refused at once if the work
before it takes longer than its deadline allows, or if `queue_depth` requests wait; it leaves
the line when its deadline can no longer be met. Memory claims are limited by a budget.

A balancer chooses at random, by two choices or by least connections, and knows only its own
requests, refused connections, and health checks, which are delayed. After a refused connection
it tries another replica. Clients retry refused and lost requests, each with a budget: one per
ten calls and one per second.

Time is in seconds. All random numbers come from one generator, so a seed always gives the same
figures.
"""

import bisect
import collections
import dataclasses
import heapq
import itertools
import json
import math
import pathlib
import random

import simpy

KIB, MIB = 1 << 10, 1 << 20
MEASURED = pathlib.Path(__file__).with_name("measured.json")
SMALL_BYTES = MIB  # bytes; ADMISSION_LARGE_BYTES of server/sched/admission.h
SHORT_BYTES, SHORT_PART = 256 * MIB, 4  # server/sched/admission.h
CAUTION = 1.2  # server/sched/admission.c
CHECK_S = 1.0  # interval of health checks; two must fail (deploy/haproxy.cfg)
DRAIN_DELAY_S = 5.0
START_S = 0.1  # seconds from the start of a process until it is ready
PROXY_TRIES = 4
ERRORS = 2  # refused connections after which a balancer waits for the next check
RETRIES, RETRY_BURST, RETRY_PER_CALL, RETRY_PER_S = 4, 10, 0.1, 1.0  # client/python/tally/call.py
BACKOFF_S, BACKOFF_MOST_S = 0.1, 5.0


# Cost of a request ------------------------------------------------------------------------------


class Costs:
    """Seconds by size, from measurements: interpolated between two sizes, extrapolated by bytes
    beyond the last."""

    def __init__(self, rows):
        self.sizes = [row["bytes"] for row in rows]
        self.core_s = [row["core_ms"] / 1e3 for row in rows]
        self.alone_s = [row["mean_ms"] / 1e3 for row in rows]
        self.spread = []  # measured times divided by the mean of their size
        for row in rows:
            self.spread.append([ms / row["mean_ms"] for ms in row["alone_ms"]])

    def mean(self, values, size):
        at = min(max(bisect.bisect_right(self.sizes, size), 1), len(self.sizes) - 1)
        low, high = self.sizes[at - 1], self.sizes[at]
        slope = (values[at] - values[at - 1]) / (high - low)
        return max(values[at - 1] + (size - low) * slope, values[0] / 2)

    def draw(self, size, numbers):
        """(core seconds, additional seconds) of one request."""
        at = min(max(bisect.bisect_right(self.sizes, size) - 1, 0), len(self.sizes) - 1)
        luck = self.spread[at][int(numbers.random() * len(self.spread[at]))]
        core = self.mean(self.core_s, size) * luck
        return core, max(self.mean(self.alone_s, size) * luck - core, 0)


def pareto(numbers, least, most, alpha):
    """A random size with a bounded Pareto distribution."""
    u = numbers.random()
    ratio = (least / most) ** alpha
    return least / (1 - u * (1 - ratio)) ** (1 / alpha)


# A replica ---------------------------------------------------------------------------------------


class Request:
    __slots__ = "size core latency began deadline client attempt balancer replica".split()

    def __init__(self, size, cost, began, deadline, client):
        self.size = size
        self.core, self.latency = cost
        self.began, self.deadline, self.client, self.attempt = began, deadline, client, 0


class Machine:
    """Finds the request that ends first, and sets the speeds of replicas. This class lets each
    replica work at full speed, as if it had its own machine."""

    def __init__(self, env):
        self.env = env
        self.replicas = []
        self.last = 0.0
        self.turn = 0

    def advance(self):
        """Advance the work by the time since the last change."""
        elapsed = self.env.now - self.last
        self.last = self.env.now
        if elapsed > 0:
            self.work(elapsed)

    def plan(self):
        """After a change: compute all speeds and the time at which the first request ends."""
        soonest = self.set_speeds()
        self.turn += 1
        if soonest < math.inf:
            event = self.env.timeout(max(soonest, 0.0), self.turn)
            event.callbacks.append(self.on_time)

    def on_time(self, event):
        if event.value != self.turn:
            return
        self.advance()
        self.finish_due()
        self.plan()

    def work(self, elapsed):
        for replica in self.replicas:
            replica.work(elapsed)

    def set_speeds(self):
        return min(replica.set_speeds(1.0) for replica in self.replicas)

    def finish_due(self):
        for replica in self.replicas:
            replica.finish_due()


@dataclasses.dataclass
class Settings:
    """Settings of a replica, with tallyd's names where it has the same ones."""

    cores: float = 1.0
    places: int = 4
    queue_depth: int = 1024
    memory_budget: float = 2048 * MIB
    small_bytes: float = SMALL_BYTES
    deadlines: bool = True  # refuse or drop requests that cannot be in time
    # small requests have half of the core; False: one line for all requests
    small_first: bool = True


class Replica:
    def __init__(self, machine, settings, done, speed=1.0):
        """done(request, outcome) is called at the end of a request; outcome: "answered",
        "refused", "late" or "lost"."""
        self.machine, self.settings, self.done, self.speed = machine, settings, done, speed
        machine.replicas.append(self)
        self.alive = True
        self.small = collections.deque()
        self.small_left = 0.0  # remaining core seconds of the first small request
        self.small_speed = 0.0
        self.large = []  # heap of (virtual finish, number, request)
        self.large_speed = 0.0  # core seconds per second of all large requests together
        self.virtual = 0.0
        self.numbers = itertools.count()
        self.waiting = collections.deque()
        self.waiting_bytes = 0
        self.active_bytes = 0
        # core seconds per byte of large requests, which the service measures under load
        self.seconds_per_byte = 0.0
        self.since = 0.0

    # Speeds

    def parts(self):
        """(cores for small requests, cores for large ones)."""
        cores, large = self.settings.cores, min(len(self.large), self.settings.cores)
        if not self.small:
            return 0.0, large
        small = min(1.0, max(cores / 2, cores - large))
        return small, min(large, cores - small)

    def set_speeds(self, share):
        """returns the seconds until the first request ends"""
        small, large = self.parts()
        self.small_speed = small * share * self.speed
        self.large_speed = large * share * self.speed
        soonest = math.inf
        if self.small:
            soonest = self.small_left / self.small_speed
        if self.large:
            soonest = min(
                soonest, (self.large[0][0] - self.virtual) * len(self.large) / self.large_speed
            )
        return soonest

    def work(self, elapsed):
        self.small_left -= elapsed * self.small_speed
        if self.large:
            self.virtual += elapsed * self.large_speed / len(self.large)

    # Requests

    def take(self, request):
        """Accept an arriving request; done() reports its outcome."""
        if request.size <= self.settings.small_bytes or not self.settings.small_first:
            if len(self.small) >= self.settings.queue_depth:
                self.done(request, "refused")
                return
            self.machine.advance()
            self.small.append(request)
            if len(self.small) == 1:
                self.small_left = request.core
                self.machine.plan()
            return
        if self.refuses(request):
            self.done(request, "refused")
        elif self.has_place(request) and not self.waiting:
            self.machine.advance()
            self.begin(request)
            self.machine.plan()
        else:
            self.waiting.append(request)
            self.waiting_bytes += request.size

    def refuses(self, request):
        if len(self.waiting) >= self.settings.queue_depth:
            return True
        crowd = self.waiting or len(self.large) >= self.settings.places
        if not (crowd and self.settings.deadlines):
            return False
        before = request.size + self.waiting_bytes + self.active_bytes / 2
        wait = before * self.seconds_per_byte * CAUTION
        return self.machine.env.now + wait > request.deadline

    def has_place(self, request):
        budget = self.settings.memory_budget
        if self.large and self.active_bytes + request.size > budget:
            return False
        short = min(budget / SHORT_PART, SHORT_BYTES)
        return len(self.large) < self.settings.places or self.active_bytes + request.size <= short

    def begin(self, request):
        if not self.large:
            self.since = self.machine.env.now
        heapq.heappush(self.large, (self.virtual + request.core, next(self.numbers), request))
        self.active_bytes += request.size

    def finish_due(self):
        now = self.machine.env.now
        while self.small and self.small_left <= 1e-9:
            self.done(self.small.popleft(), "answered")
            self.next_small(now)
        finished = False
        while self.large and self.large[0][0] - self.virtual <= 1e-9:
            request = heapq.heappop(self.large)[2]
            self.active_bytes -= request.size
            self.measure(request, now)
            self.done(request, "answered")
            finished = True
        if finished:
            self.admit(now)

    def next_small(self, now):
        """Begin the next small request; drop those whose deadline passed while they waited."""
        while self.small and self.settings.deadlines and self.small[0].deadline < now:
            self.done(self.small.popleft(), "late")
        if self.small:
            self.small_left = self.small[0].core

    def measure(self, request, now):
        took = now - self.since
        self.since = now
        if self.waiting:
            new = took / request.size
            self.seconds_per_byte = (
                0.8 * self.seconds_per_byte + 0.2 * new if self.seconds_per_byte else new
            )

    def admit(self, now):
        while self.waiting:
            request = self.waiting[0]
            needs = (request.size + self.active_bytes / 2) * self.seconds_per_byte * CAUTION
            hopeless = self.settings.deadlines and now + needs > request.deadline
            if not hopeless and not self.has_place(request):
                return
            self.waiting.popleft()
            self.waiting_bytes -= request.size
            if hopeless:
                self.done(request, "late")
            else:
                self.begin(request)

    def die(self):
        """kill -9: all requests of the replica are lost."""
        self.machine.advance()
        self.alive = False
        lost = [*self.small, *(entry[2] for entry in self.large), *self.waiting]
        self.small.clear()
        self.large.clear()
        self.waiting.clear()
        self.waiting_bytes = self.active_bytes = 0
        self.machine.plan()
        for request in lost:
            self.done(request, "lost")


# Balancers -----------------------------------------------------------------------------------------


class Balancer:
    """A proxy. It knows its own requests, and the replicas that were up at its last check."""

    def __init__(self, count, choice, numbers):
        self.choose = {"random": self.random, "two": self.two, "least": self.least}[choice]
        self.numbers = numbers
        self.open = [0] * count
        self.up = list(range(count))
        # position of each replica in `up`; -1: the replica is down
        self.place = list(range(count))
        self.heap = [(0, numbers.random(), replica) for replica in range(count)]
        heapq.heapify(self.heap)
        self.heaped = choice == "least"
        self.errors = [0] * count

    def refused(self, replica):
        """A connection was refused: `observe layer4` of deploy/haproxy.cfg."""
        self.errors[replica] += 1
        if self.errors[replica] >= ERRORS:
            self.set_up(replica, False)

    def set_up(self, replica, up):
        at = self.place[replica]
        self.errors[replica] = 0
        if up and at < 0:
            self.place[replica] = len(self.up)
            self.up.append(replica)
            self.changed(replica)
        elif not up and at >= 0:
            last = self.up.pop()
            if last != replica:
                self.up[at] = last
                self.place[last] = at
            self.place[replica] = -1

    def changed(self, replica):
        if self.heaped and self.place[replica] >= 0:
            heapq.heappush(self.heap, (self.open[replica], self.numbers.random(), replica))

    def random(self, avoid):
        return self.up[int(self.numbers.random() * len(self.up))]

    def two(self, avoid):
        one, other = self.random(avoid), self.random(avoid)
        return one if self.open[one] <= self.open[other] and one != avoid else other

    def least(self, avoid):
        aside = None
        while self.heap:
            entry = self.heap[0]
            count, _, replica = entry
            if self.place[replica] < 0 or self.open[replica] != count:
                heapq.heappop(self.heap)
            elif replica == avoid:
                aside = heapq.heappop(self.heap)
            else:
                break
        found = self.heap[0][2] if self.heap else avoid
        if aside is not None:
            heapq.heappush(self.heap, aside)
        return found

    def begin(self, replica):
        self.open[replica] += 1
        self.changed(replica)

    def end(self, replica):
        self.open[replica] -= 1
        self.changed(replica)


# The fleet -------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Scenario:
    replicas: int = 10
    rate: float = 100.0  # new requests per second, in total
    seconds: float = 10.0
    warm: float = 1.0  # seconds at the beginning; their requests are not counted
    balancers: int = 1
    choice: str = "least"
    slow: float = 0.0  # share of replicas that are slow
    slow_speed: float = 0.1  # speed of a slow replica, relative to the others
    deaths: float = 0.0  # replicas killed per second; each is back after down_s
    down_s: float = 2.0
    # share of replicas that restart at the same time, one group after the other
    rolling: float = 0.0
    clients: int = 1000
    budget: bool = True  # limits retries; False: every client tries RETRIES times
    retries: int = RETRIES
    deadline_s: float = 1.0  # least time from the request to its deadline
    # The deadline is later if this multiple of the request's time without contention is longer.
    # 0: requests have no deadline.
    deadline_times: float = 20.0
    replica: Settings = dataclasses.field(default_factory=Settings)
    # smallest and largest size in bytes, and exponent, of a bounded Pareto distribution
    sizes: tuple = (512 * KIB, 256 * MIB, 1.1)
    kinds: tuple = ()  # (size, weight) of each kind of request; if empty, `sizes` applies
    seed: int = 1


class Outcome:
    """The clients' view of the requests that began after the warm-up."""

    def __init__(self):
        self.times = []  # seconds of answered requests
        self.good = 0
        self.good_core_s = 0.0
        self.offered_core_s = 0.0
        self.late = 0
        self.failed = 0  # never answered
        self.calls = 0
        self.attempts = 0
        self.small_times = []
        self.events = 0

    def p(self, percent, small=False):
        times = sorted(self.small_times if small else self.times)
        return times[min(len(times) - 1, int(len(times) * percent / 100))] if times else math.nan

    def figures(self):
        return {
            "calls": self.calls,
            "good": self.good / max(self.calls, 1),
            "good_work": self.good_core_s / max(self.offered_core_s, 1e-9),
            "late": self.late / max(self.calls, 1),
            "failed": self.failed / max(self.calls, 1),
            "attempts": self.attempts / max(self.calls, 1),
            "p50_ms": self.p(50) * 1e3,
            "p99_ms": self.p(99) * 1e3,
            "small_p99_ms": self.p(99, small=True) * 1e3,
        }


class Fleet:
    def __init__(self, scenario, costs):
        self.scenario, self.costs = scenario, costs
        self.numbers = random.Random(scenario.seed)
        self.env = simpy.Environment()
        self.outcome = Outcome()
        slow = round(scenario.replicas * scenario.slow)
        self.replicas = [
            Replica(
                self.machine(),
                scenario.replica,
                self.on_done,
                scenario.slow_speed if number < slow else 1.0,
            )
            for number in range(scenario.replicas)
        ]
        self.balancers = [
            Balancer(scenario.replicas, scenario.choice, self.numbers)
            for _ in range(scenario.balancers)
        ]
        self.tokens = [float(RETRY_BURST)] * scenario.clients
        self.token_time = [0.0] * scenario.clients
        if scenario.kinds:
            self.kind_sizes = [size for size, _ in scenario.kinds]
            self.kind_weights = list(itertools.accumulate(weight for _, weight in scenario.kinds))
        # Requests in flight at the end are completed, as long as a client waits.
        self.end = scenario.warm + scenario.seconds

    def size(self):
        if not self.scenario.kinds:
            return pareto(self.numbers, *self.scenario.sizes)
        drawn = self.numbers.random() * self.kind_weights[-1]
        return self.kind_sizes[bisect.bisect_right(self.kind_weights, drawn)]

    def run(self):
        self.env.process(self.arrivals())
        if self.scenario.deaths:
            self.env.process(self.dying())
        if self.scenario.rolling:
            self.env.process(self.restarting())
        self.env.run(until=self.end * 2 + 20 if self.scenario.deadline_times else self.end * 3)
        return self.outcome

    def arrivals(self):
        draw, rate = self.numbers.expovariate, self.scenario.rate
        while self.env.now < self.end:
            yield self.env.timeout(draw(rate))
            self.call(self.size(), int(self.numbers.random() * self.scenario.clients))

    def call(self, size, client):
        scenario, now = self.scenario, self.env.now
        cost = core, latency = self.costs.draw(size, self.numbers)
        allowed = max(scenario.deadline_s, scenario.deadline_times * (core + latency))
        deadline = now + allowed if scenario.deadline_times else math.inf
        if self.counts(now):
            self.outcome.calls += 1
            self.outcome.offered_core_s += core
        self.tokens[client] = min(RETRY_BURST, self.tokens[client] + RETRY_PER_CALL)
        self.send(Request(size, cost, now, deadline, client))

    def counts(self, began):
        return self.scenario.warm <= began < self.end

    def send(self, request):
        if self.counts(request.began):
            self.outcome.attempts += 1
        request.balancer = balancer = self.balancers[
            int(self.numbers.random() * len(self.balancers))
        ]
        avoid = -1
        for _ in range(PROXY_TRIES):
            if not balancer.up:
                break
            number = balancer.choose(avoid)
            if self.replicas[number].alive:
                request.replica = number
                balancer.begin(number)
                self.reach(request, self.replicas[number])
                return
            balancer.refused(number)
            avoid = number
        self.again(request)

    def machine(self):
        """The machine of a replica."""
        return Machine(self.env)

    def reach(self, request, replica):
        """The request arrives at the replica that the balancer has chosen."""
        replica.take(request)

    def on_done(self, request, outcome):
        request.balancer.end(request.replica)
        if outcome == "answered":
            ended = self.env.now + request.latency
            if self.counts(request.began):
                took = ended - request.began
                self.outcome.times.append(took)
                if request.size <= SMALL_BYTES:
                    self.outcome.small_times.append(took)
                if ended <= request.deadline:
                    self.outcome.good += 1
                    self.outcome.good_core_s += request.core
                else:
                    self.outcome.late += 1
        elif outcome == "late":  # 504: a retry cannot help
            if self.counts(request.began):
                self.outcome.failed += 1
        else:
            self.again(request)

    def again(self, request):
        """Retry a refused or lost request, if the client may."""
        now, client = self.env.now, request.client
        pause = self.numbers.random() * min(BACKOFF_S * 2**request.attempt, BACKOFF_MOST_S)
        may = request.attempt < self.scenario.retries and now + pause < request.deadline
        if may and self.scenario.budget:
            earned = (now - self.token_time[client]) * RETRY_PER_S
            self.token_time[client] = now
            self.tokens[client] = min(RETRY_BURST, self.tokens[client] + earned)
            may = self.tokens[client] >= 1
            self.tokens[client] -= may
        if not may:
            if self.counts(request.began):
                self.outcome.failed += 1
            return
        request.attempt += 1
        self.env.timeout(pause).callbacks.append(lambda _: self.send(request))

    # Events of replicas

    def seen(self, number, up, delay):
        """Each balancer notices at its next check that the replica is up or down."""
        for balancer in self.balancers:
            late = delay + self.numbers.random() * CHECK_S
            self.env.timeout(late).callbacks.append(
                lambda _, balancer=balancer: balancer.set_up(number, up)
            )

    def dying(self):
        while True:
            yield self.env.timeout(self.numbers.expovariate(self.scenario.deaths))
            number = int(self.numbers.random() * len(self.replicas))
            if self.replicas[number].alive:
                self.replicas[number].die()
                self.seen(number, False, CHECK_S)
                self.env.process(self.reviving(number, self.scenario.down_s))

    def reviving(self, number, after):
        yield self.env.timeout(after)
        self.replicas[number].alive = True
        self.seen(number, True, 0.0)

    def restarting(self):
        group = max(1, round(len(self.replicas) * self.scenario.rolling))
        for first in itertools.cycle(range(0, len(self.replicas), group)):
            for number in range(first, min(first + group, len(self.replicas))):
                self.seen(number, False, CHECK_S)
            yield self.env.timeout(DRAIN_DELAY_S)
            for number in range(first, min(first + group, len(self.replicas))):
                self.env.process(self.restart(number))
            yield self.env.timeout(START_S + CHECK_S)

    def restart(self, number):
        """After the drain delay, the process ends when its last request is answered."""
        replica = self.replicas[number]
        while replica.small or replica.large or replica.waiting:
            yield self.env.timeout(0.05)
        replica.alive = False
        yield from self.reviving(number, START_S)


def measured():
    return json.loads(MEASURED.read_text())


def measured_costs():
    return Costs(measured()["sizes"])


def simulate(costs, **changes):
    return Fleet(Scenario(**changes), costs).run()


def capacity(costs, sizes, cores=1.0, count=200_000, seed=7):
    """Maximum requests per second of a replica: its cores divided by the mean core time of a
    request."""
    numbers = random.Random(seed)
    total = sum(costs.mean(costs.core_s, pareto(numbers, *sizes)) for _ in range(count))
    return cores * count / total
