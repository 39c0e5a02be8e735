"""The tables of docs/performance.md, made from the rows of a section. Tables of several makers are
side by side if they fit, else one below the other."""

import itertools
import re
import textwrap

from report import geometric_mean, number

COLUMNS = 118  # columns of text
TABLE_COLUMNS = 120  # width of a page in tests/lint_docs.py
LAYOUTS = {
    "rows of 4 to 256": r"rows of (4|16|64|100|256)",
    "rows of 1001 to 1 Mi": r"rows of (1Ki|1001|16Ki|1Mi)",
    "one row": r"one row",
    "columns of 2, 3, 7": r"columns of [237]",
    "columns from 16 on; short": r"columns of (16|31|50|64|200|1Ki|1000|64Ki)|short columns",
    "padded; middle axis": r"(padded|middle axis) .*",
    "transposed, channels moved": r"(transposed (in|out)put|channels).*|transposed around the axis",
    "every second or third": r"every .*",
    "repeated, few lines": r".* repeated.*|one line.*|four lines.*",
}
WAYS = ("TCP", "Unix socket", "shared memory", "arrays in it")
MOST_LOSSES = 220  # limit for the text that lists where peers are faster
NONE = "-"


class Table:
    """heads and lines; the first `keys` columns identify a line. words: text below the table."""

    def __init__(self, heads, lines, *, keys=1, words=""):
        self.heads, self.keys, self.words = heads, keys, words
        self.lines = [[str(cell) for cell in line] for line in lines]

    def cells(self):
        """{key: {head: cell}}"""
        figures = self.heads[self.keys :]
        return {
            tuple(line[: self.keys]): dict(zip(figures, line[self.keys :])) for line in self.lines
        }


def markdown(heads, lines):
    every = [heads, ["---"] * len(heads), *lines]
    return ["| " + " | ".join(line) + " |" for line in every]


def text_lines(words):
    return textwrap.wrap(words, COLUMNS, break_on_hyphens=False)


def side_by_side(tables):
    """Merge several tables, {maker: Table}: each figure for all makers in neighbouring columns.
    None if the result is wider than a page or the tables have different columns."""
    first = next(iter(tables.values()))
    keys = first.heads[: first.keys]
    if any(table.heads[: table.keys] != keys for table in tables.values()):
        return None
    cells = {maker: table.cells() for maker, table in tables.items()}
    about = dict.fromkeys(key for own in cells.values() for key in own)
    figures = dict.fromkeys(head for table in tables.values() for head in table.heads[table.keys :])
    heads = keys + [f"{figure}, {maker}" for figure in figures for maker in tables]
    lines = [
        [*key, *(cells[at].get(key, {}).get(head, NONE) for head in figures for at in tables)]
        for key in about
    ]
    found = markdown(heads, lines)
    return found if max(map(len, found)) <= TABLE_COLUMNS else None


def alone(caption, table):
    lines = [*text_lines(caption), "", *markdown(table.heads, table.lines)]
    return lines + (["", *text_lines(table.words)] if table.words else [])


def together(tables, captions):
    """The lines for the page. tables, captions: {maker: ...}; a caption names processor and run."""
    found = side_by_side(tables) if len(tables) > 1 else None
    if found is None:
        parts = [alone(captions[maker], table) for maker, table in tables.items()]
        return [line for part in parts for line in ["", *part]][1:]
    lines = [*text_lines(" ".join(captions[maker] for maker in tables)), "", *found]
    for maker, table in tables.items():
        lines += ["", *text_lines(f"{maker}: {table.words}")] if table.words else []
    return lines


# Sections -----------------------------------------------------------------------------------------


def shown(row):
    """The ratio of a row, in italics if it misses its goal."""
    if row is None or row["ratio"] is None:
        return "-"
    text = number(row["ratio"])
    return f"*{text}*" if row["verdict"] == "missed" else text


def mean_and_least(rows):
    """Mean and least ratio of several layouts, in italics if one misses its goal."""
    ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
    if not ratios:
        return "-"
    text = number(geometric_mean(ratios))
    if len(ratios) > 1:
        text += f", {number(min(ratios))}"
    return f"*{text}*" if any(row["verdict"] == "missed" for row in rows) else text


def kernels(rows):
    lines = []
    for words, layouts in LAYOUTS.items():
        kinds = ("float32", "float32 apart", "least of the other types")
        found = [
            [row for row in rows if re.fullmatch(f"({layouts}), {kind}", row["work"])]
            for kind in kinds
        ]
        if any(found):
            lines.append([words, *map(mean_and_least, found)])
    heads = ["mean of layouts, least", "float32", "apart", "others"]
    return Table(heads, lines) if lines else sizes(rows)


def sizes(rows):
    """The table of a quick run: seven layouts at their largest size."""
    lines = [[row["work"], shown(row), row.get("notes", "").split(";")[0]] for row in rows]
    return Table(["float32 in place", "ratio to the copy", "payload"], lines)


def peers(rows):
    lines, losses = [], []
    shapes = [row for row in rows if row.get("ratios")]
    engines = list(dict.fromkeys(name for row in shapes for name in row["ratios"]))
    for engine in engines:
        seen = {row["work"]: row["ratios"][engine] for row in shapes if engine in row["ratios"]}
        slower = {work: ratio for work, ratio in seen.items() if ratio <= 1}
        mean = f"{number(geometric_mean(seen.values()))} of {len(seen)}"
        lines.append([engine, mean, len(slower)])
        losses += [f"{engine} {work} ({number(ratio)})" for work, ratio in slower.items()]
    heads = ["engine", "mean of shapes", "it is faster on"]
    said = list(losses)
    while len("; ".join(said)) > MOST_LOSSES:
        said.pop()
    others = f"; {len(losses) - len(said)} others" if len(said) < len(losses) else ""
    words = f"Faster than Tally: {'; '.join(said) or 'none'}{others}."
    return Table(heads, lines, words=words)


def micros(seconds):
    return "-" if seconds is None else f"{seconds * 1e6:.0f} us"


def is_won(seconds, engine):
    """Whether at least one way to a server took less time than the library here."""
    return min(seconds.get(way, float("inf")) for way in WAYS) < seconds.get(engine, 0)


def remote(rows):
    """Times by size, and the size from which on every call takes less time than the library."""
    rows = [row for row in rows if "seconds" in row]
    names = list(dict.fromkeys(name for row in rows for name in row["seconds"]))
    lines = [
        [row["elements"], *(micros(row["seconds"].get(name)) for name in names)] for row in rows
    ]
    words = []
    for engine in [name for name in names if name not in WAYS]:
        won = list(itertools.takewhile(lambda row: is_won(row["seconds"], engine), rows[::-1]))
        end = f"from {won[-1]['elements']}" if won else "at no size"
        words.append(f"{engine} {end}")
    text = f"A remote call is faster, in elements, than {', '.join(words)}."
    return Table(["elements", *names], lines, words=text)


def in_one_unit(values):
    """The values in thousands, if all are at least 1000."""
    if values and min(values) >= 1000:
        return ", ".join(number(value / 1000) for value in values) + " k"
    return ", ".join(f"{value:.0f}" for value in values)


def service(rows):
    """One line per kind of request, with the numbers of connections side by side."""
    keys = (("requests_per_second", "requests/s"), ("p99_us", "p99, us"))
    kinds = {}
    for row in [row for row in rows if row["ratio"] is not None]:
        kind = re.sub(r" c=\d+", "", row["work"])
        kind += "" if "libmicrohttpd" in row["against"] else f", to {row['against']}"
        kinds.setdefault(kind, []).append(row)
    lines = []
    for kind, own in kinds.items():
        counts = [count for row in own for count in re.findall(r" c=(\d+)", row["work"])]
        figures = [in_one_unit([row[key] for row in own if key in row]) for key, _ in keys]
        lines.append([kind, ", ".join(counts), *figures, ", ".join(map(shown, own))])
    heads = ["request", "connections", *(head for _, head in keys), "to libmicrohttpd"]
    return Table(heads, lines, keys=2)


def frameworks(rows):
    """One line per kind of request and peer; different numbers of connections share it."""
    rows = [row for row in rows if row["ratio"] is not None]
    by_both = {(row["work"], row["against"]): row for row in rows}
    peers_seen = list(dict.fromkeys(row["against"] for row in rows))
    kinds = {}
    for work in dict.fromkeys(row["work"] for row in rows):
        kind, connections = work.split(" c=")
        kinds.setdefault(kind, []).append(connections)
    lines = []
    for kind, counts in kinds.items():
        cells = []
        for peer in peers_seen:
            found = [by_both.get((f"{kind} c={count}", peer)) for count in counts]
            cells.append(", ".join(map(shown, found)) if any(found) else NONE)
        lines.append([kind, ", ".join(counts), *cells])
    heads = [peer.replace("FastAPI + ", "") for peer in peers_seen]
    return Table(["request", "clients", *heads], lines, keys=2)


def startup(rows):
    firsts = [row for row in rows if "first_ms" in row]
    lines = [[row["work"], row["goal"] or "", shown(row)] for row in rows if row not in firsts]
    words = ""
    if firsts:
        least = min(firsts, key=lambda row: row["ratio"])
        times = f"{least['first_ms']:.0f} ms, then {least['later_ms']:.0f} ms"
        lines.append(["later to first time, the least", least["goal"], shown(least)])
        words = f"The least is that of {least['work'][6:]}: {times}."
    return Table(["what", "goal", "found"], lines, keys=2, words=words)


def goodput(rows):
    lines = []
    for row in [row for row in rows if row.get("shares")]:
        at = {multiple: number(share) for multiple, share in row["shares"].items()}
        last = f"*{at['8']}*" if row["verdict"] == "missed" else at["8"]
        shares = [at["1"], at.get("2", NONE), at.get("4", NONE), last]
        capacity = f"{row['loads']['1']['good']:.0f}/s"
        lines.append([row["kind"], capacity, ", ".join(shares)])
    return Table(["requests", "in time at 1x", "1x, 2x, 4x, 8x"], lines)


def goals(sections):
    """sections: {section: {"goals": ...}}, as figures.py stores them."""
    lines = []
    for name, section in sections.items():
        reached, missed, far = (section["goals"][key] for key in ("reached", "missed", "farthest"))
        if reached + missed:
            words = f"{far['work']}: {number(far['ratio'])}, goal {far['goal']}" if far else NONE
            lines.append([name, reached, missed, words])
    return Table(["section", "reached", "missed", "the farthest from its goal"], lines)


MAKERS = {
    "kernels": kernels,
    "peers": peers,
    "remote": remote,
    "service": service,
    "frameworks": frameworks,
    "startup": startup,
    "goodput": goodput,
}
