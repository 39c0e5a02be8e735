"""(b) The same cumulative sums in NumPy, PyTorch, OpenVINO and ONNX Runtime, all on the CPU.

No HTTP: inputs and outputs are in memory, and each engine is a process of its own. After one
warm-up call each, Tally and the engines are called alternately. A ratio is the engine's time
divided by Tally's time in the same round; the median over the rounds is reported. Inputs are
small random integers, whose sums are exact in every type, so all outputs must be equal. Tally
adds float32 in float64; the engines do not.
"""

import contextlib
import json
import os
import select
import shutil
import statistics
import subprocess
import tempfile
import time

import numpy as np

import load
from report import Goal, Row, failed, geometric_mean, number, spread

ENGINES = ("numpy", "torch", "openvino", "onnxruntime")
FLAGS = ("exclusive", "reverse")
MEAN_GOAL = Goal(">=", 3)
CALL_SECONDS = 30
CASE_SECONDS = 5  # a case ends after this time, but not before ROUNDS_MIN rounds
ROUNDS = 7
ROUNDS_MIN = 3
REST_SECONDS = 0.01  # pause between calls: threads of an engine spin for a while after a call

# Shapes for which no engine is tuned: primes and odd sizes, 64 MiB and small ones.
CASES = [
    ("float32", (16777213,), 0),
    ("float32", (1021, 16411), 1),
    ("float32", (16411, 1021), 1),
    ("float32", (131101, 127), 1),
    ("float32", (1000003, 16), 1),
    ("float32", (3000017, 5), 1),
    ("float32", (16411, 1021), 0),
    ("float32", (61, 262147), 0),
    ("float32", (262147, 61), 0),
    ("float32", (500009, 31), 0),
    ("float32", (2396741, 7), 0),
    ("float32", (5592419, 3), 0),
    ("float32", (257, 255, 251), 1),
    ("float32", (127, 8, 16411), 1),
    ("float32", (16411, 1021), 1, "exclusive", "reverse"),
    ("float32", (16411, 1021), 0, "reverse"),
    ("float64", (8209, 1021), 1),
    ("float64", (8209, 1021), 0),
    ("float16", (524309, 61), 1),
    ("float16", (32003, 509), 0),
    ("int32", (16411, 1021), 1),
    ("int32", (16411, 1021), 0),
    ("int64", (8209, 1021), 1),
    ("int8", (65537, 1021), 1),
    ("uint8", (65537, 1021), 0),
    ("float32", (1021, 1021), 1),
    ("float32", (1021, 1021), 0),
    ("float32", (100, 1000), 1),
    ("float32", (100, 1000), 0),
    ("float32", (1000,), 0),
    ("float32", (3, 4), 1),
]
QUICK = [CASES[i] for i in (0, 2, 6, 9, 27)]
LIMITS = {"float16": 1}  # largest magnitude of the inputs; 8 for other types
REASON_LENGTH = 60


class Turns:
    """A process that does one call for every line on its standard input."""

    def __init__(self, command, env=None):
        self.errors = tempfile.TemporaryFile()
        self.child = load.start(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**os.environ, **(env or {})},
        )

    def line(self, seconds):
        if not select.select([self.child.stdout], [], [], seconds)[0]:
            raise RuntimeError(f"no answer in {seconds} s")
        answer = self.child.stdout.readline().decode().strip()
        if not answer:
            self.errors.seek(0)
            said = self.errors.read().decode(errors="replace").strip().splitlines()[-1:]
            raise RuntimeError(f"it ended: {' '.join(said)}")
        return answer

    def ask(self, text="go", seconds=CALL_SECONDS):
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.write(text.encode() + b"\n")
            self.child.stdin.flush()
        return self.line(seconds)

    def close(self):
        load.end(self.child, patience=0)
        for file in (self.child.stdin, self.child.stdout, self.errors):
            with contextlib.suppress(BrokenPipeError):
                file.close()


class Engine:
    """The process of an engine. It is started when first needed, and again after it died or
    hung."""

    def __init__(self, python, name):
        self.command = [python, load.HERE / "peers" / "compute_turns.py"]
        self.name, self.turns = name, None

    def prepare(self, case):
        """Return the reason why the engine cannot run the case, or None."""
        if self.turns is None:
            self.turns = Turns(self.command, {"ENGINE": self.name})
        answer = self.attempt(json.dumps(case), 2 * CALL_SECONDS)
        return None if answer == "ready" else answer

    def attempt(self, text, seconds=CALL_SECONDS):
        """Return the engine's answer, or "no: " and the reason."""
        try:
            return self.turns.ask(text, seconds)
        except RuntimeError as error:
            self.close()
            return f"no: {error}"

    def close(self):
        if self.turns is not None:
            self.turns.close()
            self.turns = None


def folder():
    """A temporary folder for tensors: in memory if there is room."""
    shm = load.shm_dir()
    roomy = shm and shutil.disk_usage(shm).free > 1 << 30
    return tempfile.TemporaryDirectory(prefix=load.PREFIX, dir=shm if roomy else None)


def describe(dtype, shape, axis, *flags):
    return " ".join(["x".join(map(str, shape)), f"axis {axis}", dtype, *flags])


def rounds_of(calls, settings):
    """Returns the seconds of each call in each round, and for each call that failed the reason.
    A call that failed is not repeated in later rounds."""
    times, lost = {name: [] for name in calls}, {}
    began, done = time.monotonic(), 0
    while done < (settings.rounds or ROUNDS):
        if done >= ROUNDS_MIN and time.monotonic() - began > CASE_SECONDS:
            break
        for name in [n for n in calls if n not in lost]:
            answer = calls[name]()
            if answer.startswith("no: "):
                lost[name] = answer.removeprefix("no: ")
            else:
                times[name].append(float(answer))
            time.sleep(REST_SECONDS)
        done += 1
    return {name: seen for name, seen in times.items() if name not in lost}, lost


def same(path, other, dtype):
    return bool(np.array_equal(np.fromfile(path, dtype), np.fromfile(other, dtype)))


def measure(where, engines, settings, dtype, shape, axis, *flags):
    """Measure one case: the seconds of Tally and each engine, the engines whose outputs differ from
    Tally's, and those without an answer."""
    limit = LIMITS.get(dtype, 8)
    x = np.random.default_rng(1).integers(-limit, limit, shape, "i1", endpoint=True)
    source = os.path.join(where, "x")
    x.astype(dtype).tofile(source)
    case = {"dtype": dtype, "shape": shape, "axis": axis, "input": source}
    case.update({flag: flag in flags for flag in FLAGS})
    lost = {}
    outputs = {name: os.path.join(where, name) for name in (*engines, "tally")}
    words = [",".join(map(str, shape)), str(axis), ",".join(flags) or "-", source]
    tally = Turns([load.BIN / "scan_turns", dtype, *words, outputs["tally"]])
    try:
        tally.line(2 * CALL_SECONDS)
        calls = {"tally": tally.ask}
        for name, engine in engines.items():
            reason = engine.prepare({**case, "output": outputs[name]})
            if reason:
                lost[name] = reason.removeprefix("no: ")
            else:
                calls[name] = lambda engine=engine: engine.attempt("go")
        unequal = [n for n in calls if not same(outputs["tally"], outputs[n], dtype)]
        times, late = rounds_of(calls, settings)
    finally:
        tally.close()
    return times, unequal, {**lost, **late}


def row_of(case, times, unequal, lost):
    payload = 2 * np.dtype(case[0]).itemsize * int(np.prod(case[1]))
    speed = {n: payload / statistics.median(seen) / 1e9 for n, seen in times.items()}
    against = {
        n: spread([peer / ours for peer, ours in zip(seen, times["tally"])])
        for n, seen in times.items()
        if n != "tally"
    }
    if not against:
        why = "; ".join(f"{n}: {reason}" for n, reason in lost.items())
        return failed(describe(*case), "", why)
    fastest = min(against, key=lambda n: against[n]["ratio"])
    notes = [f"{n} {number(r['ratio'])}" for n, r in against.items()]
    notes += [f"{n}: {why[:REASON_LENGTH]}" for n, why in lost.items()]
    notes += [f"OUTPUT OF {n} DIFFERS" for n in unequal]
    return Row(
        describe(*case),
        fastest,
        **against[fastest],
        goal=Goal(">", 1),
        notes=f"{speed['tally']:.2f} GB/s; " + ", ".join(notes),
        ratios={n: r["ratio"] for n, r in against.items()},
        gb_per_s=speed,
        unequal=unequal,
        lost=lost,
    )


def means(rows):
    """Geometric means over all shapes, for each engine and for all together, with the shapes where
    Tally was slower."""
    rows = [row for row in rows if row.ratio is not None]
    for name in [*ENGINES, "all"]:
        seen = [r.figures["ratios"] for r in rows]
        ratios = [v for ratios in seen for n, v in ratios.items() if name in (n, "all")]
        if ratios:
            work = f"geometric mean of {len(ratios)}"
            yield Row(work, name, geometric_mean(ratios), goal=MEAN_GOAL)
    losses = [
        f"{n} on {r.work}: {number(v)}"
        for r in rows
        for n, v in r.figures["ratios"].items()
        if v <= 1
    ]
    if rows:
        work = "shapes on which a peer is faster"
        yield Row(work, "any", len(losses), goal=Goal("<", 1), notes="; ".join(losses) or "none")


def section(settings):
    cases = QUICK if settings.quick else CASES
    cases = [c for c in cases if settings.match is None or settings.match in describe(*c)]
    engines = {name: Engine(settings.python, name) for name in settings.engines or ENGINES}
    rows = []
    try:
        with folder() as where:
            for case in cases:
                settings.note(describe(*case))
                try:
                    rows.append(row_of(case, *measure(where, engines, settings, *case)))
                except RuntimeError as error:
                    rows.append(failed(describe(*case), "", f"scan_turns: {error}"))
    finally:
        for engine in engines.values():
            engine.close()
    return rows + list(means(rows))
