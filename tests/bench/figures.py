"""The last figures of each maker's processors: docs/plots/figures-amd.json, figures-intel.json.

A file holds the sections of docs/performance.md, each with its machine, its run and its rows. A
run replaces only the sections that it measured, in the file of its own maker. It does not
replace a section if it left out work, if other programs were running, or if it began before the
stored run. The file also records how fast the machines of the last runs copied memory: machines
of one kind differ in that, depending on their host, and so do all figures in GB/s.
"""

import json
import statistics

import load
import processor

PREFIX = "figures-"
SECTIONS = ("kernels", "peers", "remote", "service", "frameworks", "startup", "goodput")
COPY_BYTES = 64 << 20
WHOLE = ("--rounds",)  # options with which a run still measures everything
COPIES_KEPT = 12
MODES_DIFFER = 1.25
DIGITS = 6


def read_documents(folder):
    """Read {section: document} from build/bench/, where run.py writes them."""
    files = {name: folder / f"{name}.json" for name in SECTIONS}
    return {name: json.loads(path.read_text()) for name, path in files.items() if path.exists()}


def machine_of(document):
    """Facts about the machine of a document. Old figures lack the maker; it is derived from the
    processor's model name."""
    facts = document["machine"]
    return {"maker": processor.maker_of(facts["cpu"]), "name": facts["cpu"], **facts}


def copy_of(document):
    """GB/s that a copy of 64 MiB read and wrote in the run, or None."""
    if document["run"].get("copy_gb_per_s") is not None:
        return document["run"]["copy_gb_per_s"]
    cases = [case for row in document["rows"] for case in row.get("cases", [])]
    speeds = [case["copy_gb_per_s"] for case in cases if case["bytes"] == COPY_BYTES]
    return round(statistics.median(speeds), 1) if speeds else None


def is_busy(run):
    """Whether other programs were at work on the machine."""
    return (run.get("others") or 0) > load.QUIET


def is_whole(document):
    options = [word for word in document["run"]["options"] if word.startswith("--")]
    return all(word in WHOLE for word in options)


# Rows, reduced to what the page and the plots show
# -------------------------------------------------


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: rounded(own) for key, own in value.items()}
    return [rounded(own) for own in value] if isinstance(value, list) else value


def slim(row):
    """The row as the file keeps it: only the element type with the least ratio has a case,
    since the notes list the other types."""
    kept = ("work", "against", "ratio", "goal", "verdict")
    row = {key: row[key] for key in row if key in kept or row[key] not in (None, "", [], {})}
    if "cases" in row and len({case["bytes"] for case in row["cases"]}) == 1:
        row["cases"] = [min(row["cases"], key=lambda case: case["ratio"])]
    unused = ("scan", "lookback", "variant", "ratio_low", "ratio_high")
    for case in row.get("cases", []):
        for name in unused:
            case.pop(name, None)
    return rounded(row)


def distance(row):
    """Factor by which a ratio misses (or exceeds) its goal."""
    bound = float(row["goal"].split()[1])
    return row["ratio"] / bound if row["goal"].startswith(">") else bound / max(row["ratio"], 1e-9)


def goals(rows):
    """How many goals are reached and missed, and the row that is farthest from its goal."""
    missed = sorted((row for row in rows if row["verdict"] == "missed"), key=distance)
    reached = sum(row["verdict"] == "reached" for row in rows)
    farthest = {key: missed[0][key] for key in ("work", "ratio", "goal")} if missed else None
    return {"reached": reached, "missed": len(missed), "farthest": rounded(farthest)}


def section_of(document):
    run = {**document["run"], "copy_gb_per_s": copy_of(document)}
    rows = document["rows"]
    found = {"machine": machine_of(document), "run": run, "goals": goals(rows)}
    return {**found, "rows": [slim(row) for row in json.loads(json.dumps(rows))]}


# The speed of a copy ------------------------------------------------------------------------------


def remember_copy(family, section):
    """Record the copy speed in family["copies"], the newest first: one entry for each day, commit
    and processor. A slow copy is ignored if other programs were running."""
    run, name, speed = section["run"], section["machine"]["name"], section["run"]["copy_gb_per_s"]
    if speed is None or is_busy(run):
        return
    key = {"day": run["began"].split()[0], "commit": run.get("commit"), "name": name}
    entry = {**key, "least": speed, "most": speed}
    for seen in [seen for seen in family["copies"] if key.items() <= seen.items()]:
        entry |= {"least": min(speed, seen["least"]), "most": max(speed, seen["most"])}
        family["copies"].remove(seen)
    ordered = sorted([entry, *family["copies"]], key=lambda seen: seen["day"], reverse=True)
    family["copies"] = ordered[:COPIES_KEPT]


def differ(family):
    """Whether runs of the family copied memory at speeds more than a quarter apart."""
    speeds = [seen[end] for seen in family["copies"] for end in ("least", "most")]
    return bool(speeds) and max(speeds) > MODES_DIFFER * min(speeds)


def mode(family, run):
    """The mode of memory in a run, "slow" or "fast"; "" if the runs of the family show one mode only, if
    the speed is not known, or if the machine was busy."""
    speed = run["copy_gb_per_s"]
    if not differ(family) or speed is None or is_busy(run):
        return ""
    slow = max(seen["most"] for seen in family["copies"]) > MODES_DIFFER * speed
    return "slow" if slow else "fast"


# The files ----------------------------------------------------------------------------------------


def path_of(folder, maker):
    plain = "".join(letter if letter.isalnum() else "-" for letter in maker.lower())
    return folder / f"{PREFIX}{plain}.json"


def read_all(folder):
    """{maker: family}, by name."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob(f"{PREFIX}*.json"))]
    return {family["maker"]: family for family in sorted(found, key=lambda each: each["maker"])}


def as_text(family):
    """JSON with one line per row, so that a changed figure changes one line."""
    lines = json.dumps({**family, "sections": None}, indent=1).splitlines()[:-1]
    lines[-1] = ' "sections": {'
    for at, (name, section) in enumerate(family["sections"].items()):
        lines.append(f"  {json.dumps(name)}: {{")
        lines += [
            f"   {json.dumps(key)}: {json.dumps(section[key])}," for key in section if key != "rows"
        ]
        rows = ",\n".join(f"    {json.dumps(row)}" for row in section["rows"])
        lines += ['   "rows": [', *([rows] if rows else []), "   ]"]
        lines.append("  }" + "," * (at + 1 < len(family["sections"])))
    return "\n".join([*lines, " }", "}"]) + "\n"


def write(folder, family):
    path_of(folder, family["maker"]).write_text(as_text(family))


def why_not(document, old, any_run):
    """The reason why a document does not replace the section that is there, or None."""
    run = document["run"]
    if not is_whole(document) and not any_run:
        return f"its run left work out ({' '.join(run['options'])}); --any takes it"
    if is_busy(run) and not any_run:
        return f"other programs kept {run['others']} processors busy; --any takes it"
    if old is not None and run["began"] < old["run"]["began"]:
        return f"newer figures, of {old['run']['began']}, are there"
    if old is not None and not any(row["ratio"] is not None for row in document["rows"]):
        return "its run measured nothing"
    return None


def take_over(families, documents, any_run=False):
    """Merge the documents of a run into the family of their maker. Returns a sentence for each
    section. Families stay sorted by name."""
    words = []
    for name, document in documents.items():
        maker = machine_of(document)["maker"]
        family = families.get(maker, {"maker": maker, "copies": [], "sections": {}})
        old = family["sections"].get(name)
        reason = why_not(document, old, any_run)
        if reason:
            words.append(f"{name}: the figures of {maker} stay as they are: {reason}")
            continue
        section = section_of(document)
        if old == section:
            continue
        for each in [old, section] if old else [section]:
            remember_copy(family, each)
        found = {**family["sections"], name: section}
        family["sections"] = {key: found[key] for key in SECTIONS if key in found}
        families[maker] = family
        words.append(f"{name}: figures of {section['machine']['name']} taken over")
    ordered = {maker: families[maker] for maker in sorted(families)}
    families.clear()
    families.update(ordered)
    return words
