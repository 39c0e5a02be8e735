"""(a) The kernels against a copy kernel with streaming stores, measured by kernel_bench.

Every layout is measured with every element type at 64 MiB (unsigned integers share the kernels
of signed ones), and seven layouts of float32 from 1 KiB to 1 GiB. Every type at every size would
take an hour.
"""

import json
import re

import load
from report import Goal, Row

TYPES_BYTES = 64 << 20
SIZES = [1 << 10, 16 << 10, 300_000, 4 << 20, 20_000_000, 64 << 20, 256 << 20, 1 << 30]
QUICK_SIZES = [300_000, 64 << 20]
GOAL_BYTES = 256 << 20  # the size that the goals are stated for
ROUNDS = 5


def run(more, out, seconds):
    """Run kernel_bench and return its cases; an empty list if no case matches."""
    target = out / "kernel_bench.json"
    command = [str(load.BIN / "kernel_bench"), "--json", str(target), *more]
    if not load.run([*command, "--list"], 10):
        return []
    try:
        load.run(command, seconds)
        return json.loads(target.read_text())
    finally:
        target.unlink(missing_ok=True)


def copy_speed(out):
    """GB/s that a copy of 64 MiB reads and writes, alternating with a scan."""
    more = ["--quick", "--bytes", str(TYPES_BYTES), "--rounds", "3", "--only", "one row, float32"]
    return round(run(more, out, 60)[0]["copy_gb_per_s"], 1)


def goal_of(layout):
    """The goal for a layout; docs/performance.md states the same goals."""
    row = re.fullmatch(r"rows of (\d+)(Ki|Mi)?", layout)
    columns = re.fullmatch(r"columns of (\d+)(Ki)?", layout)
    if row and (row[2] or int(row[1]) > 256):
        return Goal(">=", 0.85)
    if layout == "one row" or (columns and (columns[2] or int(columns[1]) >= 64)):
        return Goal(">=", 0.75)
    return Goal(">=", 0.5)


def short(case):
    return " ".join([case["dtype"], *(w for w in ("exclusive", "reverse", "apart") if case[w])])


def row_of(cases, work, goal):
    """The row of the case with the least ratio; the notes list the others."""
    least = min(cases, key=lambda c: c["ratio"])
    notes = f"{least['gb_per_s']:.1f} GB/s, copy {least['copy_gb_per_s']:.1f}"
    if len(cases) > 1:
        notes = ", ".join(f"{short(c)} {c['ratio']:.2f}" for c in cases)
    return Row(
        work,
        "copy kernel",
        least["ratio"],
        low=least["ratio_low"],
        high=least["ratio_high"],
        goal=goal,
        notes=notes,
        cases=cases,
    )


def type_rows(cases):
    for layout in dict.fromkeys(c["layout"] for c in cases):
        own = [c for c in cases if c["layout"] == layout]
        floats = [c for c in own if c["dtype"] == "float32"]
        turned = [c for c in floats if c["exclusive"] or c["reverse"]]
        for case in [c for c in floats if c not in turned]:
            yield row_of([case], f"{layout}, {short(case)}", goal_of(layout))
        if turned:
            yield row_of(turned, f"{layout}, float32, flags", goal_of(layout))
        others = [c for c in own if c["dtype"] != "float32"]
        if others:
            yield row_of(others, f"{layout}, least of the other types", Goal(">=", 0.5))


def size_text(count):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count / 1e6:g} MB"


def size_rows(cases):
    for scan in dict.fromkeys(c["scan"] for c in cases):
        own = [c for c in cases if c["scan"] == scan]
        stated = max((c for c in own if c["bytes"] <= GOAL_BYTES), key=lambda c: c["bytes"])
        row = row_of(
            [stated],
            f"{scan}, {size_text(stated['bytes'])}",
            goal_of(stated["layout"]),
        )
        row.notes += "; " + ", ".join(f"{size_text(c['bytes'])} {c['ratio']:.2f}" for c in own)
        row.figures["cases"] = own
        yield row


def available_bytes():
    text = open("/proc/meminfo").read()
    return int(re.search(r"MemAvailable:\s+(\d+)", text)[1]) * 1024


def section(settings):
    sizes = QUICK_SIZES if settings.quick else SIZES
    sizes = [n for n in sizes if 4 * n < available_bytes()]
    text = ["--only", settings.match] if settings.match else []
    rounds = ["--rounds", str(settings.rounds or ROUNDS)]
    rounds += ["--cpu-time"] if settings.cpu_time else []
    settings.note("kernels by size")
    more = ["--quick", "--bytes", ",".join(map(str, settings.bytes or sizes)), *rounds, *text]
    rows = list(size_rows(run(more, settings.out, 300)))
    if not settings.quick:
        settings.note("kernels by layout and type")
        size = str((settings.bytes or [TYPES_BYTES])[0])
        rows += type_rows(run(["--bytes", size, *rounds, *text], settings.out, 600))
    return rows
