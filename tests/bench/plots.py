"""The plots of docs/performance.md: SVG, written from the JSON of `make bench` without a plotting
library, so that the same figures give the same file. A plot whose section was not measured is
not drawn. Each function returns its picture, or None; the title ends with `of`, which names the
processor."""

import math
import re
from xml.sax.saxutils import escape

INK, FAINT, PAPER = "#222222", "#dddddd", "#ffffff"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
WIDTH = 800
STYLE = f"text{{font:12px sans-serif;fill:{INK}}}.title{{font-size:14px;font-weight:bold}}"
STYLE += ".right{text-anchor:end}.middle{text-anchor:middle}"


class Picture:
    def __init__(self, height, title, width=WIDTH):
        self.width, self.height, self.title = width, height, title
        self.parts = [f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>"]
        self.parts.append(f'<rect width="{width}" height="{height}" fill="{PAPER}"/>')
        self.text(12, 20, title, "title")

    def text(self, x, y, words, kind=""):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(str(words))}</text>'
        )

    def line(self, x1, y1, x2, y2, colour=FAINT, dash=""):
        more = f' stroke-dasharray="{dash}"' if dash else ""
        ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        self.parts.append(f'<line {ends} stroke="{colour}"{more}/>')

    def curve(self, points, colour, dash=""):
        more = f' stroke-dasharray="{dash}"' if dash else ""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{more}/>'
        )

    def dot(self, x, y, colour, hollow=False):
        fill = PAPER if hollow else colour
        self.parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{colour}" stroke-width="2"/>'
        )

    def legend(self, y, entries, x=20):
        """entries: (words, colour, dash or None for a dot, hollow), from left to right."""
        for words, colour, dash, hollow in entries:
            if dash is None:
                self.dot(x + 10, y - 4, colour, hollow)
            else:
                self.curve([(x, y - 4), (x + 20, y - 4)], colour, dash)
            self.text(x + 26, y, words)
            x += 44 + 6.6 * len(words)

    def write(self, path):
        size = (
            f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        )
        lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', *self.parts, "</svg>"]
        path.write_text("\n".join(lines) + "\n")


class Axis:
    """Map values to coordinates of the picture; start may be larger than end."""

    def __init__(self, low, high, start, end, log=False):
        self.of = math.log if log else float
        self.low, self.high, self.start, self.end = self.of(low), self.of(high), start, end

    def __call__(self, value):
        share = (self.of(value) - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * min(max(share, 0), 1)


def round_up(value):
    """Round up to 1, 2 or 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def grid_y(picture, axis, top, left, right, unit=""):
    step = round_up(top / 6)
    for i in range(int(top / step + 1e-9) + 1):
        y = axis(i * step)
        picture.line(left, y, right, y)
        picture.text(left - 6, y + 4, f"{i * step:g}{unit if i else ''}", "right")


# Speed of the kernels -------------------------------------------------------------------------


def by_layout(rows, of=""):
    """Draw the speed of a scan relative to that of a copy, one line per layout: float32 in
    place, float32 with a separate output, and the slowest of the other types."""
    layouts = {}
    for row in rows:
        by_type = not re.search(r", [\d.]+ ([KMG]iB|MB)$", row["work"])
        for case in row.get("cases", []) if by_type else []:
            floats = case["dtype"] == "float32" and not (case["exclusive"] or case["reverse"])
            kind = ("apart" if case["apart"] else "in place") if floats else "others"
            if "least of the other types" in row["work"] or floats:
                layouts.setdefault(case["layout"], {}).setdefault(kind, []).append(case["ratio"])
    if not any("others" in kinds for kinds in layouts.values()):
        return None
    looks = {"in place": (COLOURS[0], False), "apart": (COLOURS[0], True)}
    looks |= {"others": (COLOURS[6], True)}
    words = {"in place": "float32, in place", "apart": "float32, output apart"}
    words |= {"others": "least of the other types"}
    left, right, top = 250, WIDTH - 20, 70
    picture = Picture(top + 18 * len(layouts) + 40, f"Scan speed by layout, ratio to a copy{of}")
    picture.legend(46, [(words[kind], *look[:1], None, look[1]) for kind, look in looks.items()])
    x, bottom = Axis(0, 1.5, left, right), top + 18 * len(layouts)
    for tick in range(0, 16, 2):
        picture.line(x(tick / 10), top - 8, x(tick / 10), bottom, INK if tick == 10 else FAINT)
        picture.text(x(tick / 10), bottom + 18, f"{tick / 10:g}", "middle")
    for at, (layout, kinds) in enumerate(layouts.items()):
        y = top + 18 * at + 6
        picture.text(left - 10, y + 4, layout, "right")
        least = {kind: min(values) for kind, values in kinds.items()}
        picture.line(x(min(least.values())), y, x(max(least.values())), y)
        for kind in ("others", "apart", "in place"):
            if kind in least:
                picture.dot(x(least[kind]), y, *looks[kind])
    return picture


def size_cases(rows):
    """{layout: {bytes: case}} of the cases measured at several sizes."""
    found = {}
    for row in rows:
        for case in row.get("cases", []) if "least" not in row["work"] else []:
            if case["dtype"] == "float32" and not (
                case["exclusive"] or case["reverse"] or case["apart"]
            ):
                found.setdefault(case["layout"], {})[case["bytes"]] = case
    return {layout: cases for layout, cases in found.items() if len(cases) > 1}


def by_size(rows, of=""):
    """Payload in GB/s by the size of the tensor, with the copy for comparison."""
    found = size_cases(rows)
    if not found:
        return None
    sizes = sorted({size for cases in found.values() for size in cases})
    most = max(
        max(c["gb_per_s"], c["copy_gb_per_s"]) for cases in found.values() for c in cases.values()
    )
    picture = Picture(440, f"Scan speed by size, float32 in place, GB/s read and written{of}")
    entries = [(name, COLOURS[at % 7], "", False) for at, name in enumerate(found)]
    picture.legend(46, entries[:4])
    picture.legend(66, [*entries[4:], ("copy (median)", INK, "5 4", False)])
    left, right, top, bottom = 50, WIDTH - 20, 90, 390
    x, y = Axis(sizes[0], sizes[-1], left, right, log=True), Axis(0, most, bottom, top)
    grid_y(picture, y, most, left, right)
    for size in sizes:
        picture.line(x(size), top, x(size), bottom)
        picture.text(x(size), bottom + 18, size_text(size), "middle")
    for at, cases in enumerate(found.values()):
        points = [(x(size), y(case["gb_per_s"])) for size, case in sorted(cases.items())]
        picture.curve(points, COLOURS[at % 7])
    copies = [
        (size, sorted(cases[size]["copy_gb_per_s"] for cases in found.values() if size in cases))
        for size in sizes
    ]
    picture.curve([(x(s), y(seen[len(seen) // 2])) for s, seen in copies], INK, "5 4")
    return picture


def size_text(count):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count / 1e6:g} MB"


# Peers ----------------------------------------------------------------------------------------


def peers(rows, of=""):
    """Speed relative to each engine, one line per shape."""
    shapes = [row for row in rows if row.get("ratios")]
    if not shapes:
        return None
    engines = list(dict.fromkeys(name for row in shapes for name in row["ratios"]))
    left, right, top = 270, WIDTH - 20, 70
    bottom = top + 18 * len(shapes)
    picture = Picture(bottom + 40, f"Tally beside other libraries: times their speed{of}")
    picture.legend(46, [(name, COLOURS[at], None, False) for at, name in enumerate(engines)])
    x = Axis(0.25, 64, left, right, log=True)
    for tick in (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64):
        picture.line(x(tick), top - 8, x(tick), bottom, INK if tick == 1 else FAINT)
        picture.text(x(tick), bottom + 18, f"{tick:g}", "middle")
    for at, row in enumerate(shapes):
        y = top + 18 * at + 6
        picture.text(left - 10, y + 4, row["work"], "right")
        for engine, ratio in row["ratios"].items():
            picture.dot(x(ratio), y, COLOURS[engines.index(engine)])
    return picture


# The service ----------------------------------------------------------------------------------


def sweep(rows):
    """{kind: {connections: row}} of the small requests."""
    found = {}
    for row in rows:
        name = re.fullmatch(r"(small JSON|small raw|v2 binary) c=(\d+)", row["work"])
        if name and "requests_per_second" in row:
            found.setdefault(name[1], {})[int(name[2])] = row
    return found


def service(rows, of=""):
    found = sweep(rows)
    counts = sorted({c for kind in found.values() for c in kind})
    if len(counts) < 2:
        return None
    kinds = [(kind, "requests_per_second", "") for kind in found]
    kinds += [("small raw", "bare_requests_per_second", "5 4")] * ("small raw" in found)
    most = max(row[key] for kind, key, _ in kinds for row in found[kind].values())
    picture = Picture(380, f"Requests per second by connections, tensors of 3x4{of}")
    entries = [(kind, COLOURS[at], "", False) for at, kind in enumerate(found)]
    picture.legend(46, [*entries, ("libmicrohttpd alone, as raw", INK, "5 4", False)])
    left, right, top, bottom = 70, WIDTH - 20, 70, 330
    x, y = Axis(counts[0], counts[-1], left, right, log=True), Axis(0, most, bottom, top)
    grid_y(picture, y, most, left, right)
    for count in counts:
        picture.line(x(count), top, x(count), bottom)
        picture.text(x(count), bottom + 18, count, "middle")
    picture.text((left + right) / 2, bottom + 38, "connections", "middle")
    for at, (kind, key, dash) in enumerate(kinds):
        points = [(x(c), y(row[key])) for c, row in sorted(found[kind].items())]
        picture.curve(points, INK if dash else COLOURS[at], dash)
        for point in points if not dash else []:
            picture.dot(*point, COLOURS[at])
    return picture


# Overload -------------------------------------------------------------------------------------


def goodput(rows, of=""):
    works = [row for row in rows if row.get("shares")]
    if not works:
        return None
    picture = Picture(420, f"Goodput by load offered: answers in time, share of the most{of}")
    entries = [(row["kind"], COLOURS[at % 7], "", False) for at, row in enumerate(works)]
    for line in range(0, len(entries), 3):
        picture.legend(46 + 20 * (line // 3), entries[line : line + 3])
    left, right, top, bottom = 70, WIDTH - 20, 116, 370
    x, y = Axis(1, 8, left, right, log=True), Axis(0, 1.05, bottom, top)
    for share in range(0, 101, 20):
        picture.line(left, y(share / 100), right, y(share / 100))
        picture.text(left - 6, y(share / 100) + 4, f"{share} %", "right")
    picture.line(left, y(0.95), right, y(0.95), INK, "2 4")
    picture.text(x(2.8), y(0.95) + 14, "goal", "middle")
    for multiple in (1, 2, 4, 8):
        picture.line(x(multiple), top, x(multiple), bottom)
        picture.text(x(multiple), bottom + 18, f"{multiple}x", "middle")
    for at, row in enumerate(works):
        points = [(x(float(m)), y(share)) for m, share in row["shares"].items()]
        picture.curve(points, COLOURS[at % 7])
        for point in points:
            picture.dot(*point, COLOURS[at % 7])
    return picture


PLOTS = {
    "kernels": {"kernels-by-layout": by_layout, "kernels-by-size": by_size},
    "peers": {"peers": peers},
    "service": {"service": service},
    "goodput": {"goodput": goodput},
}


def draw_all(sections, out, ending=""):
    """Write kernels-by-layout.svg and so on; `ending` is appended to each name. sections: {name:
    document}, as run.py writes them. Returns {section: {file name: alternative text}}."""
    drawn = {}
    for section, own in PLOTS.items():
        document = sections.get(section)
        for name, plot in own.items() if document else ():
            processor = document["machine"].get("name", document["machine"]["cpu"])
            day = document["run"]["began"].split()[0]
            picture = plot(document["rows"], f" - {processor}, {day}")
            if picture is not None:
                picture.write(out / f"{name}{ending}.svg")
                words = f"{re.split('[,:]', picture.title)[0]}, {processor}"
                drawn.setdefault(section, {})[f"{name}{ending}.svg"] = words
    return drawn
