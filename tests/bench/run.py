"""`make bench`: one table of ratios, each measured in one run on this machine. Every section is
also written as JSON to build/bench/, with the plots of docs/performance.md. Sections report
their progress on standard error."""

import argparse
import contextlib
import importlib
import json
import os
import pathlib
import platform
import signal
import sys
import time
import traceback

import figures
import kernels
import load
import page
import plots
import processor
from report import failed, print_table

# Section names of the command line, each with the module whose section() returns its rows.
SECTIONS = {
    "kernels": "kernels",
    "peers": "compute",
    "remote": "remote",
    "service": "service",
    "frameworks": "frameworks",
    "startup": "startup",
    "goodput": "goodput",
    "dask": "dask_cluster",
    "parts": "parts",
}
QUICK = ("kernels", "service", "startup")  # the other sections need packages from the network


def caches():
    """Total size of the processors' caches at each level above the first: {"L2": bytes}."""
    found = {}
    for index in pathlib.Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cache/index*"):
        level, size, sharers = (
            (index / name).read_text().strip() for name in ("level", "size", "shared_cpu_list")
        )
        if level != "1":
            found[f"L{level}", sharers] = int(size.removesuffix("K")) << 10
    totals = {}
    for (level, _), size in sorted(found.items()):
        totals[level] = totals.get(level, 0) + size
    return totals


def system():
    """Name of the distribution and version of the kernel."""
    kernel = ".".join(platform.release().split(".")[:2])
    with contextlib.suppress(OSError):
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, Linux {kernel}"
    return f"{platform.system()} {kernel}"


def machine():
    return {
        **processor.facts(),
        "cores": os.cpu_count(),
        "caches": caches(),
        "system": system(),
    }


def commit():
    """The commit that is measured, with "+" if files were changed; None in a tree without git."""
    told = ["git", "-C", str(load.ROOT), "describe", "--always", "--abbrev=8", "--exclude=*"]
    with contextlib.suppress(OSError, RuntimeError):
        return load.run([*told, "--dirty=+"], 10).strip()
    return None


def copy_speed(settings):
    """GB/s of a copy of 64 MiB now, or None. Machines of one kind differ in it, depending on their
    host."""
    try:
        return kernels.copy_speed(settings.out)
    except (RuntimeError, OSError) as error:
        settings.note(f"the speed of a copy was not measured: {error}")
        return None


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="about a minute: fewer cases, one round")
    add("--only", choices=SECTIONS, action="append", help="sections to run (repeatable)")
    add("--match", help="only work whose name contains this text")
    add("--rounds", type=int, help="instead of what each section thinks right")
    add("--bytes", type=int, action="append", help="kernels, dask: tensors of so many bytes")
    add("--cpu-time", action="store_true", help="kernels: count processor time, not wall time")
    add("--engines", nargs="+", help="peers: only these")
    add("--page", action="store_true", help="take the figures over into docs/performance.md")
    add("--out", type=pathlib.Path, default=load.ROOT / "build" / "bench", help="for the JSON")
    add("--python", default=sys.executable, help="interpreter that has the peers' packages")
    add(
        "--mlserver",
        default=load.ROOT / "build/mlserver-venv/bin/mlserver",
        help="the command of MLServer, which has an environment of its own",
    )
    settings = parser.parse_args()
    settings.note = lambda text: print(f"  ... {text}", file=sys.stderr, flush=True)
    return settings


def options_of(settings):
    """The options that change what a section measures, as on the command line."""
    words = ["--quick"] * settings.quick + ["--cpu-time"] * settings.cpu_time
    for name in ("match", "rounds", "bytes", "engines"):
        value = getattr(settings, name)
        if value is not None:
            words += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return words


def section_rows(name, settings):
    """The rows of a section. An exception in one section does not stop the others."""
    try:
        return importlib.import_module(SECTIONS[name]).section(settings)
    except Exception as error:
        traceback.print_exc()
        return [failed("all", "", error)]


def stop(*_):
    raise KeyboardInterrupt


def main():
    signal.signal(signal.SIGTERM, stop)
    settings = arguments()
    settings.out.mkdir(parents=True, exist_ok=True)
    facts = machine()
    print(f"{facts['name']} ({facts['cpu']}), {facts['cores']} cores")
    tables = {}
    for name in settings.only or (QUICK if settings.quick else SECTIONS):
        run = {"options": options_of(settings), "began": time.strftime("%Y-%m-%d %H:%M")}
        run["commit"] = commit()
        run["others"] = round(load.others_busy(), 2)
        run["copy_gb_per_s"] = copy_speed(settings)
        if run["others"] > load.QUIET:
            settings.note(
                f"{name}: others keep {run['others']} processors busy; figures will be off"
            )
        began = time.monotonic()
        rows = section_rows(name, settings)
        tables[name] = rows
        run["seconds"] = round(time.monotonic() - began, 1)
        document = {"machine": facts, "run": run, "rows": [row.as_json() for row in rows]}
        (settings.out / f"{name}.json").write_text(json.dumps(document, indent=1))
    print_table(tables)
    plots.draw_all(figures.read_documents(settings.out), settings.out)
    print(f"machine-readable: {settings.out}/*.json; plots: {settings.out}/*.svg")
    if settings.page:
        page.render(settings.out)
    lost = [row for rows in tables.values() for row in rows if "error" in row.figures]
    return 1 if lost else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("bench: interrupted")
