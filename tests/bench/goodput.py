"""(f) Goodput under overload: answers within their deadline at 1, 2, 4 and 8 times the load with
the highest goodput. tests/load/overload.py measures and explains the figures
(docs/design/load.md)."""

import json
import subprocess
import sys
import tempfile

import load
from report import Goal, Row

GOAL = Goal(">=", 0.95)
SECONDS = 900
FINISHED = (0, 1, 2)  # exit status: goals reached, missed, or not decidable


def figures_of(settings):
    """Run overload.py and return its figures."""
    with tempfile.NamedTemporaryFile(prefix=load.PREFIX, suffix=".json") as file:
        command = [sys.executable, load.ROOT / "tests/load/overload.py", "--only", "goodput"]
        command += ["--json", file.name, *(["--quick"] if settings.quick else [])]
        command += ["--match", settings.match] if settings.match else []
        child = load.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            _, errors = child.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"overload.py took more than {SECONDS} s") from None
        finally:
            load.end(child, patience=5)
        if child.returncode not in FINISHED:
            raise RuntimeError(f"overload.py ended with {child.returncode}: {errors[-300:]}")
        return json.load(file)["goodput"]


def section(settings):
    settings.note("goodput under overload")
    return [
        Row(
            f"goodput of {work['work']} at 8 times",
            "its peak",
            work["shares"]["8"],
            goal=GOAL if work["goal"] else None,
            notes=", ".join(f"{at}x {share:.2f}" for at, share in work["shares"].items()),
            kind=work["work"],
            **{name: work[name] for name in ("one", "shares", "loads")},
        )
        for work in figures_of(settings)
    ]
