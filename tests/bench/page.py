"""`make bench-page`: the tables and plots of docs/performance.md, from what `make bench` left in
build/bench/. Only what stands between the page's markers is replaced. A table holds figures of one
run only: each section is a file, written by one; the first table says which and when."""

import itertools
import json
import pathlib
import re
import shutil
import sys
import textwrap

import load
import plots
from report import geometric_mean, number

PAGE = load.ROOT / "docs" / "performance.md"
PICTURES = load.ROOT / "docs" / "plots"
SECTIONS = ("kernels", "peers", "remote", "service", "frameworks", "startup", "goodput")
COLUMNS = 118
LAYOUTS = {
    "rows of 4 to 256": r"rows of (4|16|64|100|256)",
    "rows of 1001 to 1 Mi": r"rows of (1Ki|1001|16Ki|1Mi)",
    "one row": r"one row",
    "columns of 2, 3, 7": r"columns of [237]",
    "columns of 16 to 64 Ki, short ones": r"columns of (16|31|50|64|200|1Ki|1000|64Ki)|short columns",
    "padded; middle axis": r"(padded|middle axis) .*",
    "transposed, channels moved": r"(transposed (in|out)put|channels).*|transposed around the axis",
    "every second or third": r"every .*",
    "repeated, few lines": r".* repeated.*|one line.*|four lines.*",
}
WAYS = ("TCP", "Unix socket", "shared memory", "arrays in it")
MOST_LINES = 2  # of text about where peers are faster


def read_sections(folder):
    files = {name: folder / f"{name}.json" for name in SECTIONS}
    return {name: json.loads(path.read_text()) for name, path in files.items() if path.exists()}


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]


def shown(row):
    """Its ratio, in italics if it is below its goal."""
    if row is None or row["ratio"] is None:
        return "-"
    text = number(row["ratio"])
    return f"*{text}*" if row["verdict"] == "missed" else text


def size_text(count):
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def runs(sections):
    """The machine, and what ran when: sections of one run share a line."""
    facts = next(iter(sections.values()))["machine"]
    caches = ", ".join(f"{size_text(size)} {name}" for name, size in facts["caches"].items())
    lines = [f"Machine: {facts['cores']} cores of an {facts['cpu']}, {caches}; {facts['system']}."]
    together = {}
    for name, document in sections.items():
        run = document["run"]
        day, minute = run["began"].split()
        key = " ".join([day + ",", "`tests/bench/run.py", *run["options"]]) + "`"
        together.setdefault(key, []).append(f"{name} {minute} ({run['seconds']:.0f} s)")
    for how, names in together.items():
        words = f"{how}: {', '.join(names)}."
        lines += textwrap.wrap(words, COLUMNS, break_on_hyphens=False)
    if max(document["run"]["others"] for document in sections.values()) > load.QUIET:
        lines += [
            "",
            "**Other programs were at work on the machine: a trial run, no figures to go by.**",
        ]
    return lines


def mean_and_least(rows):
    """Of the ratios of several layouts, in italics if one is below its goal."""
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
    heads = [
        "64 MiB: mean of layouts, least",
        "float32",
        "float32, apart",
        "other types, least",
    ]
    return table(heads, lines) if lines else sizes(rows)


def sizes(rows):
    """What a quick run has: seven layouts at their largest size."""
    lines = [[row["work"], shown(row), row["notes"].split(";")[0]] for row in rows]
    return table(["float32 in place", "ratio to the copy", "payload"], lines)


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
    words = "Faster than Tally: " + ("; ".join(losses) or "none") + "."
    text = textwrap.wrap(words, COLUMNS, max_lines=MOST_LINES, placeholder=" and others.")
    return [*table(heads, lines), "", *text]


def micros(seconds):
    return "-" if seconds is None else f"{seconds * 1e6:.0f} us"


def is_won(seconds, engine):
    """Whether some way to a server took less than the library here."""
    return min(seconds.get(way, float("inf")) for way in WAYS) < seconds.get(engine, 0)


def remote(rows):
    """Times by size, and from which size on, to the largest, a call takes less than a library does."""
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
    return [*table(["elements", *names], lines), "", *textwrap.wrap(text, COLUMNS)]


def in_one_unit(values):
    """In thousands if all of them are many."""
    if values and min(values) >= 1000:
        return ", ".join(number(value / 1000) for value in values) + " k"
    return ", ".join(f"{value:.0f}" for value in values)


def service(rows):
    """A line for each kind of request, with its numbers of connections side by side."""
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
    return table(["request", "connections", *(head for _, head in keys), "to libmicrohttpd"], lines)


def frameworks(rows):
    """Work on several numbers of connections shares a column."""
    rows = [row for row in rows if row["ratio"] is not None]
    by_both = {(row["work"], row["against"]): row for row in rows}
    columns = {}
    for work in dict.fromkeys(row["work"] for row in rows):
        kind, connections = work.split(" c=")
        columns.setdefault(kind, []).append(connections)
    heads = []
    for kind, counts in columns.items():
        several = f" c={', '.join(counts)}" if len(counts) > 1 else ""
        heads.append(re.sub("of | numbers", "", kind) + several)
    lines = []
    for peer in dict.fromkeys(row["against"] for row in rows):
        found = [
            [shown(by_both.get((f"{kind} c={count}", peer))) for count in counts]
            for kind, counts in columns.items()
        ]
        lines.append([peer, *map(", ".join, found)])
    return table(["Tally to", *heads], lines)


def startup(rows):
    firsts = [row for row in rows if "first_ms" in row]
    lines = [[row["work"], shown(row), row["goal"] or ""] for row in rows if row not in firsts]
    if firsts:
        least = min(firsts, key=lambda row: row["ratio"])
        times = f"{least['first_ms']:.0f} ms, then {least['later_ms']:.0f} ms"
        words = f"later to first time, least of {len(firsts)}: {least['work'][6:]}"
        lines.append([f"{words} ({times})", shown(least), least["goal"]])
    return table(["what", "found", "goal"], lines)


def goodput(rows):
    rows = [row for row in rows if row.get("shares")]
    lines = []
    for row in rows:
        at = {multiple: number(share) for multiple, share in row["shares"].items()}
        capacity = f"{row['loads']['1']['good']:.0f}/s"
        share = f"*{at['8']}*" if row["verdict"] == "missed" else at["8"]
        lines.append([row["kind"], capacity, at["1"], at.get("2", "-"), at.get("4", "-"), share])
    return table(["requests", "answers in time at 1x", "1x", "2x", "4x", "8x"], lines)


def distance(row):
    """How far below (or above) its goal, as a factor."""
    bound = float(row["goal"].split()[1])
    return row["ratio"] / bound if row["goal"].startswith(">") else bound / max(row["ratio"], 1e-9)


def goals(sections):
    lines = []
    for name, document in sections.items():
        judged = [row for row in document["rows"] if row["verdict"]]
        if not judged:
            continue
        missed = sorted((row for row in judged if row["verdict"] == "missed"), key=distance)
        words = "-"
        if missed:
            words = f"{missed[0]['work']}: {number(missed[0]['ratio'])}, goal {missed[0]['goal']}"
        lines.append([name, len(judged) - len(missed), len(missed), words])
    return table(["section", "reached", "missed", "the farthest from its goal"], lines)


def blocks(sections):
    """{marker: lines}"""
    found = {"runs": runs(sections), "goals": goals(sections)}
    makers = (kernels, peers, remote, service, frameworks, startup, goodput)
    for name, make in zip(SECTIONS, makers):
        if name in sections:
            found[name] = make(sections[name]["rows"])
    return found


def filled(text, found):
    """The page with what is new between its markers; what was not measured says so."""
    for name in ("runs", *SECTIONS, "goals"):
        begin, end = f"<!-- bench: {name} -->\n", f"<!-- end: {name} -->\n"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"{PAGE}: no single pair of markers of {name}")
        before, rest = text.split(begin)
        lines = found.get(name, ["Not measured in this run."])
        text = before + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1]
    return text


def render(folder):
    sections = read_sections(folder)
    if not sections:
        sys.exit(f"bench-page: nothing in {folder}; run make bench")
    PAGE.write_text(filled(PAGE.read_text(), blocks(sections)))
    plots.draw_all(sections, folder)
    PICTURES.mkdir(exist_ok=True)
    for picture in sorted(folder.glob("*.svg")):
        shutil.copyfile(picture, PICTURES / picture.name)
    print(f"{PAGE}: {', '.join(sections)}")


if __name__ == "__main__":
    render(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else load.ROOT / "build" / "bench")
