"""`make bench`: one table of ratios, each from interleaved runs on this machine, and a JSON copy in build/bench/."""

import argparse
import json
import os
import platform
import subprocess
import sys
import time

import load

OUT = load.ROOT / "build" / "bench"
SECTIONS = ("kernels", "peers", "service", "frameworks", "startup")


def note(text):
    print(f"  ... {text}", file=sys.stderr, flush=True)


def kernels(quick):
    """(a): the kernel benchmark, which needs nothing but libOpenCL."""
    target = OUT / "kernels.json"
    subprocess.run(
        [str(load.BIN / "kernel_bench"), "--json", str(target), *(["--quick"] if quick else [])],
        check=True,
    )
    return json.loads(target.read_text())


def table(rows):
    rows = [r for r in rows if r]
    heads = list(dict.fromkeys(k for r in rows for k in r))
    cells = [[str(r.get(h, "")) for h in heads] for r in rows]
    widths = [max(len(h), *(len(c[i]) for c in cells)) for i, h in enumerate(heads)]
    for line in [heads, ["-" * w for w in widths], *cells]:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())


def machine():
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in open("/proc/cpuinfo")
            if line.startswith("model name")
        ),
        "unknown",
    )
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "load_average": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="about a minute: fewer cases, one round"
    )
    parser.add_argument(
        "--only", choices=SECTIONS, action="append", help="sections to run (repeatable)"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter that has the peers' packages"
    )
    parser.add_argument(
        "--mlserver",
        default=load.ROOT / "build/mlserver-venv/bin/mlserver",
        help="the command of MLServer, which has an environment of its own",
    )
    args = parser.parse_args()
    wanted = args.only or (("kernels", "service", "startup") if args.quick else SECTIONS)
    OUT.mkdir(parents=True, exist_ok=True)
    facts = machine()
    print(
        f"{facts['cpu']}, {facts['cores']} cores, load {facts['load_average']:.2f} before the run"
    )
    if facts["load_average"] > 0.5:
        print("bench: the machine is busy; figures will be off, ratios less so", file=sys.stderr)
    import service

    sections = {
        "kernels": lambda: kernels(args.quick),
        "peers": lambda: __import__("compute").peers(args.quick, note, args.python),
        "service": lambda: service.service(args.quick, note),
        "frameworks": lambda: service.frameworks(args.quick, note, args.python, args.mlserver),
        "startup": lambda: service.startup(args.quick, note),
    }
    for name in wanted:
        print(f"\n== {name}")
        rows = sections[name]()
        (OUT / f"{name}.json").write_text(json.dumps({"machine": facts, "rows": rows}, indent=1))
        if name != "kernels":  # the kernel benchmark prints its own
            table(rows)
    print(f"\nmachine-readable: {OUT}/*.json")


if __name__ == "__main__":
    main()
