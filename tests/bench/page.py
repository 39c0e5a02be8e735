"""`make bench-page`: write docs/performance.md from the last figures of each maker's processors.

The figures are next to the plots (figures.py). New results of `make bench` in build/bench/ are
merged into them first. Then tables and plots are written again, on any machine. Only text
between the page's markers is replaced. A table holds, for each maker, figures of one run only;
the line above names the processor, the date and the commit."""

import argparse
import pathlib
import sys

import figures
import load
import plots
import tables

PAGE = load.ROOT / "docs" / "performance.md"
PICTURES = load.ROOT / "docs" / "plots"
SECTIONS = figures.SECTIONS
NOT_MEASURED = "Not measured yet."


def size_text(count):
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def commit_of(run):
    return f"commit {run['commit']}" if run.get("commit") else "commit not recorded"


def caption(family, section):
    """A caption: the processor, the run, and the speed at which that machine copied memory."""
    run, machine = section["run"], section["machine"]
    speed = run["copy_gb_per_s"]
    mode = figures.mode(family, run)
    copy = "copy not measured" if speed is None else f"copy {speed:.0f} GB/s"
    words = [f"{machine['name']}: {run['began']}", commit_of(run), copy]
    return ", ".join(words) + (f" ({mode} memory)." if mode else ".")


def machine_text(machine):
    caches = ", ".join(f"{size_text(size)} {name}" for name, size in machine["caches"].items())
    model = "" if machine["cpu"] == machine["name"] else f"{machine['cpu']}, "
    return f"**{machine['name']}**: {model}{machine['cores']} cores, {caches}; {machine['system']}."


def copies_text(family):
    """The speeds of a copy in the runs of this family, and a warning if they differ."""
    words = []
    for seen in family["copies"]:
        least, most = f"{seen['least']:.0f}", f"{seen['most']:.0f}"
        speed = least if least == most else f"{least} to {most}"
        words.append(f"{speed} ({seen['day']}, {seen['name']})")
    if not words:
        return ""
    text = f"Bytes that a copy of 64 MiB reads and writes, in GB/s: {', '.join(words)}."
    if figures.differ(family):
        text += " **The speeds of memory of these runs differ by more than a quarter (a slow and a"
        text += " fast mode): between them compare ratios to the copy, not GB/s.**"
    return text


def grouped(names_by_key):
    """{key: [names]} of pairs (key, name), in their order."""
    found = {}
    for key, name in names_by_key:
        found.setdefault(key, []).append(name)
    return found


def family_lines(family):
    """The family's machines, and the time of each section's run. Sections of one run share a
    line."""
    sections, lines = family["sections"], []
    machines = grouped((machine_text(each["machine"]), name) for name, each in sections.items())
    for text, names in machines.items():
        only = f" {', '.join(names)}:" if len(machines) > 1 else ""
        runs = []
        for name in names:
            run = sections[name]["run"]
            day, minute = run["began"].split()
            options = " ".join(["tests/bench/run.py", *run["options"]])
            how = f"{day}, {commit_of(run)}, `{options}`"
            runs.append((how, f"{name} {minute} ({run['seconds']:.0f} s)"))
        said = (f"{how}: {', '.join(own)}." for how, own in grouped(runs).items())
        lines += tables.text_lines(" ".join([text + only, *said]))
    lines += tables.text_lines(copies_text(family))
    notes = ((note, name) for name in sections for note in sections[name]["run"].get("notes", []))
    for note, names in grouped(notes).items():
        which = "All sections" if len(names) == len(sections) else ", ".join(names)
        lines += tables.text_lines(f"**{which}: {note}**")
    busy = [name for name, each in sections.items() if figures.is_busy(each["run"])]
    if busy:
        text = "Other programs used the machine: a trial run, whose figures are not reliable."
        lines += tables.text_lines(f"**{', '.join(busy)}: {text}**")
    return lines


def runs(families):
    return [line for family in families.values() for line in ["", *family_lines(family)]][1:]


def goals(families):
    found, captions = {}, {}
    for maker, family in families.items():
        found[maker] = tables.goals(family["sections"])
        names = dict.fromkeys(each["machine"]["name"] for each in family["sections"].values())
        days = dict.fromkeys(
            f"{each['run']['began'].split()[0]}, {commit_of(each['run'])}"
            for each in family["sections"].values()
        )
        captions[maker] = f"{', '.join(names)}: {'; '.join(days)}."
    return tables.together(found, captions)


def blocks(families, drawn):
    """{marker: lines}. drawn: {maker: {section: {file name: alternative text}}}."""
    found = {"runs": runs(families), "goals": goals(families)}
    for name in SECTIONS:
        having = {maker: each for maker, each in families.items() if name in each["sections"]}
        if not having:
            continue
        made = {
            maker: tables.MAKERS[name](each["sections"][name]["rows"])
            for maker, each in having.items()
        }
        captions = {maker: caption(each, each["sections"][name]) for maker, each in having.items()}
        pictures = [
            f"![{words}](plots/{file})"
            for maker in having
            for file, words in drawn.get(maker, {}).get(name, {}).items()
        ]
        lines = tables.together(made, captions)
        found[name] = [*pictures, "", *lines] if pictures else lines
    return found


def filled(text, found):
    """The page with new text between its markers; sections that were not measured say so."""
    for name in ("runs", *SECTIONS, "goals"):
        begin, end = f"<!-- bench: {name} -->\n", f"<!-- end: {name} -->\n"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"{PAGE}: no single pair of markers of {name}")
        before, rest = text.split(begin)
        lines = found.get(name, [NOT_MEASURED])
        text = before + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1]
    return text


def drawn_again(family, pictures):
    """Draw the plots of a family: {section: {file name: alternative text}}. Plots without figures
    are deleted."""
    ending = "-" + figures.path_of(pictures, family["maker"]).stem.removeprefix(figures.PREFIX)
    for own in plots.PLOTS.values():
        for name in own:
            (pictures / f"{name}{ending}.svg").unlink(missing_ok=True)
    return plots.draw_all(family["sections"], pictures, ending)


def write(page, pictures):
    """Write the page and its plots from the files of figures that are next to the plots."""
    families = figures.read_all(pictures)
    if not families:
        sys.exit(f"bench-page: found no figures in {pictures} and no new run; run make bench")
    drawn = {maker: drawn_again(family, pictures) for maker, family in families.items()}
    page.write_text(filled(page.read_text(), blocks(families, drawn)))
    for maker, family in families.items():
        print(f"{page}: {maker}: {', '.join(family['sections'])}")


def render(folder, page=PAGE, pictures=PICTURES, any_run=False):
    """Merge the results of a run from `folder`, then write the page."""
    families = figures.read_all(pictures)
    for sentence in figures.take_over(families, figures.read_documents(folder), any_run):
        print(f"bench-page: {sentence}")
    for family in families.values():
        figures.write(pictures, family)
    write(page, pictures)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("folder", nargs="?", type=pathlib.Path, default=load.ROOT / "build" / "bench")
    add("--page", type=pathlib.Path, default=PAGE, help="the page to fill in")
    add("--plots", type=pathlib.Path, default=PICTURES, help="for plots and files of figures")
    add(
        "--any",
        action="store_true",
        help="also take over runs that left work out or ran beside other programs",
    )
    add("--again", action="store_true", help="take nothing over: only write the page again")
    settings = parser.parse_args()
    if settings.again:
        write(settings.page, settings.plots)
    else:
        render(settings.folder, settings.page, settings.plots, settings.any)


if __name__ == "__main__":
    main()
