"""Tables and plots of docs/design/scale.md, from simulations with fixed seeds: `make sim`, some
minutes on two cores.

    tests/sim/page.py [--quick | --check]

--quick simulates a tenth of the time and prints the tables without writing files, to test that
it runs. --check only compares with the three replicas that were measured: status 1 if a
percentile differs by more than a fifth.
"""

import argparse
import concurrent.futures
import pathlib
import re
import sys

import fleet
import one_machine

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/bench"))

import plots  # noqa: E402

PAGE = TOP / "docs/design/scale.md"
PICTURES = TOP / "docs/plots"
CHOICES = ("random", "two", "least")
WORDS = {"random": "random", "two": "two choices", "least": "least connections"}
LOADS = (0.5, 0.7, 0.8, 0.9)
OVERLOADS = (0.8, 1.0, 1.5, 2.0, 3.0)
SIZES = fleet.Scenario.sizes
WARM = 0.3


def one(arguments):
    """Figures of a scenario; `load` is relative to the capacity of all replicas."""
    name, load, changes = arguments
    costs = fleet.measured_costs()
    count = changes.setdefault("replicas", 1000)
    changes.setdefault("clients", 10 * count)
    changes.setdefault("warm", WARM)
    rate = load * count * fleet.capacity(costs, SIZES, count=50_000)
    return name, fleet.simulate(costs, rate=rate, **changes).figures()


def check_table(measured):
    rows = []
    for load, percent, real, simulated in one_machine.check(measured):
        if percent == one_machine.CHECKED[0]:
            busy = (load["replica_cores"] + load["else_cores"]) / measured["cores"]
            rows.append([load["rate"], load["requests"], share(busy), load["others"]])
        rows[-1] += [f"{real:.2f}", f"{simulated:.2f}", f"{simulated / real:.2f}"]
    heads = ["requests/s", "requests", "cores busy", "others"]
    for percent in one_machine.CHECKED:
        heads += [f"p{percent} ms", "simulated", "ratio"]
    return table(heads, rows)


def scenarios(scale):
    """Yields (name, load, differences from a thousand replicas behind one balancer with least
    connections)."""
    for choice in CHOICES:
        for load in LOADS:
            yield ("load", choice, load), load, {"choice": choice, "seconds": 0.5 * scale}
        for count, seconds in ((10, 30), (100, 5), (10_000, 0.2)):
            yield (
                ("count", choice, count),
                0.8,
                {
                    "choice": choice,
                    "replicas": count,
                    "seconds": seconds * scale,
                },
            )
        yield ("slow", choice), 0.7, {"choice": choice, "slow": 0.01, "seconds": 0.5 * scale}
        yield (
            ("dying", choice),
            0.7,
            {
                "choice": choice,
                "replicas": 100,
                "deaths": 1.0,
                "seconds": 8 * scale,
                "warm": 2,
            },
        )
        rolling = {"replicas": 100, "rolling": 0.1, "seconds": 7 * scale, "warm": 6}
        yield ("rolling", choice), 0.7, {"choice": choice} | rolling
    for balancers in (10, 100):
        yield ("balancers", balancers), 0.8, {"balancers": balancers, "seconds": 0.5 * scale}
    for load in OVERLOADS:
        crowd = {"replicas": 20, "seconds": 8 * scale, "warm": 4, "clients": 200}
        blind = fleet.Settings(deadlines=False)
        yield ("over", "as it is", load), load, dict(crowd)
        yield ("over", "retries without a budget", load), load, crowd | {"budget": False}
        yield ("over", "no deadlines", load), load, crowd | {"replica": blind}
        yield ("over", "neither", load), load, crowd | {"replica": blind, "budget": False}
    settings = fleet.Settings
    knobs = {
        "as it is": {},
        "random instead of least connections": {"choice": "random"},
        "one place for large requests": {
            "replica": settings(places=1, memory_budget=256 * fleet.MIB)
        },
        "64 places": {"replica": settings(places=64)},
        "memory budget 512 MiB": {"replica": settings(memory_budget=512 * fleet.MIB)},
        "queue of 16": {"replica": settings(queue_depth=16)},
        "one line for small and large": {"replica": settings(small_first=False)},
        "retries without a budget": {"budget": False},
        "largest tensor 32 MiB, not 256": {"sizes": (*SIZES[:1], 32 * fleet.MIB, SIZES[2])},
        "half as many replicas of 2 cores": {"replica": settings(cores=2.0)},
    }
    for name, changes in knobs.items():
        for load in (0.8, 1.5):
            yield (
                ("knob", name, load),
                load,
                {
                    "replicas": 20,
                    "seconds": 8 * scale,
                    "warm": 3,
                    "clients": 200,
                }
                | changes,
            )


def prepared(name, load, changes):
    """If a scenario changes the sizes or the cores, its load refers to the capacity with the
    changed ones."""
    costs = fleet.measured_costs()
    if "sizes" in changes:
        ratio = fleet.capacity(costs, changes["sizes"], count=50_000) / fleet.capacity(
            costs, SIZES, count=50_000
        )
        return name, load * ratio, changes
    if name[:2] == ("knob", "half as many replicas of 2 cores"):
        changes |= {"replicas": changes["replicas"] // 2}
        return name, load * 2, changes
    return name, load, changes


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(str(word) for word in line) + " |" for line in lines)


def share(part):
    return f"{100 * part:.1f} %" if part < 0.9995 else "100 %"


def tables(found, measured):
    """{mark: text} of the page."""
    done = {"check": check_table(measured)}
    counts = (10, 100, 10_000)
    rows = []
    for choice in CHOICES:
        row = [WORDS[choice]] + [
            f"{found['count', choice, count]['p99_ms']:.0f}" for count in counts
        ]
        row.insert(3, f"{found['load', choice, 0.8]['p99_ms']:.0f}")
        rows.append(row)
    done["count"] = table(["p99 in ms of", "10 replicas", "100", "1000", "10,000"], rows)
    rows = []
    for choice in CHOICES:
        row = [WORDS[choice]]
        for what in (
            ("load", choice, 0.7),
            ("slow", choice),
            ("dying", choice),
            ("rolling", choice),
        ):
            f = found[what]
            row.append(f"{f['p99_ms']:.0f} ms, {share(f['good'])}")
        rows.append(row)
    heads = [
        "p99, goodput",
        "all well",
        "1 % at a tenth",
        "one death per second",
        "ten at a time restart",
    ]
    done["trouble"] = table(heads, rows)
    rows = []
    for name in ("as it is", "retries without a budget", "no deadlines", "neither"):
        row = [name]
        for load in OVERLOADS:
            f = found["over", name, load]
            row.append(f"{f['good_work'] * load:.2f} ({f['attempts']:.1f})")
        rows.append(row)
    done["over"] = table(["goodput (attempts a call)", *(f"{load:g}x" for load in OVERLOADS)], rows)
    rows = []
    for key in found:
        if key[0] == "knob" and key[2] == 0.8:
            name = key[1]
            low, high = found[key], found["knob", name, 1.5]
            rows.append(
                [
                    name,
                    f"{low['p99_ms']:.0f}",
                    f"{low['small_p99_ms']:.0f}",
                    f"{high['good_work'] * 1.5:.2f}",
                    share(high["good"]),
                ]
            )
    done["knobs"] = table(
        [
            "changed",
            "p99 at 0.8, ms",
            "of up to 1 MiB",
            "goodput at 1.5, of capacity",
            "calls in time",
        ],
        rows,
    )
    rows = [["1 (knows all)", f"{found['load', 'least', 0.8]['p99_ms']:.0f}"]]
    rows += [[n, f"{found['balancers', n]['p99_ms']:.0f}"] for n in (10, 100)]
    rows.append(["any, at random", f"{found['load', 'random', 0.8]['p99_ms']:.0f}"])
    done["balancers"] = table(["balancers with least connections", "p99, ms"], rows)
    return done


def curves(found, path, title, kinds, xs, value, top, unit, log=False):
    """kinds: [(name in the legend, key of x)]."""
    picture = plots.Picture(380, title)
    picture.legend(46, [(name, plots.COLOURS[at], "", False) for at, (name, _) in enumerate(kinds)])
    x = plots.Axis(xs[0], xs[-1], 70, plots.WIDTH - 20)
    y = plots.Axis(10 if log else 0, top, 330, 70, log=log)
    for tick in (10, 30, 100, 300, 1000, 3000) if log else ():
        if tick <= top:
            picture.line(70, y(tick), plots.WIDTH - 20, y(tick))
            picture.text(64, y(tick) + 4, f"{tick}{unit}", "right")
    if not log:
        plots.grid_y(picture, y, top, 70, plots.WIDTH - 20, unit)
    for tick in xs:
        picture.line(x(tick), 70, x(tick), 330)
        picture.text(x(tick), 348, f"{tick:g}", "middle")
    picture.text(plots.WIDTH / 2, 368, "load, in parts of what all replicas can do", "middle")
    for at, (_, key) in enumerate(kinds):
        points = [(x(tick), y(value(found[key(tick)], tick))) for tick in xs]
        picture.curve(points, plots.COLOURS[at])
        for point in points:
            picture.dot(*point, plots.COLOURS[at])
    picture.write(PICTURES / path)


def draw(found):
    by_choice = [(WORDS[c], lambda load, c=c: ("load", c, load)) for c in CHOICES]
    title = "p99 of a thousand replicas by load and balancing, ms"
    curves(
        found,
        "fleet-load.svg",
        title,
        by_choice,
        LOADS,
        lambda f, _: f["p99_ms"],
        3000,
        "",
        log=True,
    )
    names = ("as it is", "retries without a budget", "no deadlines", "neither")
    kinds = [(name, lambda load, name=name: ("over", name, load)) for name in names]
    title = "Goodput of twenty replicas beyond their capacity: work answered in time"
    curves(
        found,
        "fleet-overload.svg",
        title,
        kinds,
        OVERLOADS,
        lambda f, load: f["good_work"] * load,
        1.0,
        "",
    )


def write(found, made):
    text = PAGE.read_text()
    for mark, words in made.items():
        between = rf"(<!-- sim: {mark} -->\n).*?(<!-- end: {mark} -->)"
        text, changed = re.subn(between, lambda m: f"{m[1]}{words}\n{m[2]}", text, flags=re.S)
        if changed != 1:
            raise SystemExit(f"{PAGE} has no place for {mark}")
    PAGE.write_text(text)
    draw(found)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true")
    settings = parser.parse_args()
    if settings.check:
        print(check_table(fleet.measured()))
        sys.exit("\n".join(one_machine.missed(fleet.measured())) or 0)
    todo = [prepared(*scenario) for scenario in scenarios(0.1 if settings.quick else 1)]
    with concurrent.futures.ProcessPoolExecutor() as pool:
        found = {}
        for name, figures in pool.map(one, todo):
            print(*name, {k: round(v, 3) for k, v in figures.items()}, file=sys.stderr, flush=True)
            found[name] = figures
    made = tables(found, fleet.measured())
    if settings.quick:
        print("\n\n".join(made.values()))
        return
    write(found, made)


if __name__ == "__main__":
    main()
