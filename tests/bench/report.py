"""The rows that every section returns, and the table made from all of them.

A row is one ratio (or value) with its quartiles, its goal, and the figures behind it.
"""

import math
import statistics


class Row:
    """ratio: Tally relative to `against`, the median over rounds; low, high: quartiles."""

    def __init__(
        self, work, against, ratio, *, low=None, high=None, goal=None, notes="", **figures
    ):
        self.work, self.against, self.ratio = work, against, ratio
        self.low, self.high, self.goal = low, high, goal
        self.notes, self.figures = notes, figures

    def verdict(self):
        if self.goal is None or self.ratio is None:
            return ""
        return "reached" if self.goal.met(self.ratio) else "missed"

    def as_json(self):
        return {
            "work": self.work,
            "against": self.against,
            "ratio": self.ratio,
            "low": self.low,
            "high": self.high,
            "goal": str(self.goal) if self.goal else None,
            "verdict": self.verdict(),
            "notes": self.notes,
            **self.figures,
        }

    def cells(self, section):
        spread = "" if self.low is None else f"{number(self.low)}-{number(self.high)}"
        goal = str(self.goal) if self.goal else ""
        ratio = "-" if self.ratio is None else number(self.ratio)
        return [section, self.work, self.against, ratio, spread, goal, self.verdict(), self.notes]


class Goal:
    """A bound on a number: at least, more than, or less than."""

    def __init__(self, sign, bound):
        self.sign, self.bound = sign, bound

    def met(self, value):
        return {
            ">=": value >= self.bound,
            ">": value > self.bound,
            "<": value < self.bound,
        }[self.sign]

    def __str__(self):
        return f"{self.sign} {self.bound:g}"


def failed(work, against, reason):
    """A row with the reason why it has no figure."""
    return Row(work, against, None, notes=f"not measured: {reason}", error=str(reason))


def number(value):
    if isinstance(value, int):
        return str(value)
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def spread(values):
    """Median and quartiles, as Row takes them."""
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return {
        "ratio": statistics.median(ordered),
        "low": ordered[quarter],
        "high": ordered[-1 - quarter],
    }


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


HEADS = ["section", "work", "against", "ratio", "quartiles", "goal", "", "figures"]


def print_table(sections):
    lines = [HEADS] + [row.cells(name) for name, rows in sections.items() for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADS))]
    for at, line in enumerate(lines):
        print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())
        if at == 0:
            print("  ".join("-" * width for width in widths))
    verdicts = [row.verdict() for rows in sections.values() for row in rows]
    print(f"goals: {verdicts.count('reached')} reached, {verdicts.count('missed')} missed")
