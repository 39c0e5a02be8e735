"""Fail on faults in documents: `python3 tests/lint_docs.py [TOP]`.

A Markdown file has lines of at most 120 columns, links to existing targets (including
headings), and names only existing files, folders and make targets. A comment names only
existing documents. The changelog has no repeated entries. A table behind
<!-- table N of FILE --> equals the Nth table in the comments of that file.

Checks the files that git tracks or would track, or all files of a tree without git, such as
that of `make dist`.
"""

import fnmatch
import os
import pathlib
import re
import subprocess
import sys

COLUMNS = 120
FOLDERS = ("proto", "kernels", "server", "client", "tests", "deploy", "docs", ".ci", ".github")
SUFFIXES = "c h cl cc S py sh md mk json lua"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(rf"(?:{'|'.join(re.escape(name) for name in FOLDERS)})/[\w./*<>{{}}\[\],-]*")
NAME = re.compile(rf"[\w.-]+\.(?:{SUFFIXES.replace(' ', '|')})")
MAKE = re.compile(r"make ((?:[a-z][a-z-]* ?)+)(?![\w=/.])")
TARGET = re.compile(r"^([a-z][\w %-]*):(?!=)", re.M)
TABLE = re.compile(r"^<!-- table (\d+) of (\S+) -->$", re.M)
DOCUMENT = re.compile(r"\b(?:docs|deploy)/[\w/.-]+")
PICTURE_OR_PAGE = (".md", ".svg")
DATA = ("tests/fuzz/corpus/", "tests/golden/", "tests/conformance/")
PLANTED = "tests/integration/test_lint_docs.py"


def tracked(top):
    if (top / ".git").exists():
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=top, stdout=subprocess.PIPE, text=True, check=True)
        return [name for name in names.stdout.splitlines() if (top / name).is_file()]
    found = []
    for folder, below, names in os.walk(top):
        below[:] = [name for name in below if pathlib.Path(folder, name) != top / "build"]
        inside = pathlib.Path(folder).relative_to(top)
        found += [str(inside / name) for name in names if not name.endswith(".pyc")]
    return sorted(found)


def anchors(text):
    """Anchors of headings, as GitHub creates them."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    heads = re.findall(r"^#+ (.*)$", prose, re.M)
    plain = (re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads)
    return set(plain)


def alternatives(pattern):
    """a.[ch] is a pattern already; {a,b} gives two patterns, <name> matches anything."""
    pattern = re.sub(r"<\w+>", "*", pattern)
    braces = re.search(r"\{([^}]*)\}", pattern)
    if not braces:
        return [pattern]
    before, after = pattern[: braces.start()], pattern[braces.end() :]
    return [before + word + after for word in braces[1].split(",")]


class Tree:
    def __init__(self, top):
        self.top = top
        self.files = tracked(top)
        self.bases = {name.rsplit("/", 1)[-1] for name in self.files}
        self.known = {
            f"{folder}" for name in self.files for folder in pathlib.PurePath(name).parents
        }
        self.known |= set(self.files)
        makefile = (top / "Makefile").read_text() if "Makefile" in self.known else ""
        names = " ".join(TARGET.findall(makefile)).split()
        self.targets = [name.replace("%", "*") for name in names]

    def has(self, path):
        """Whether a file or folder of this name exists; for several alternatives, whether all
        exist."""
        return all(
            fnmatch.filter(self.known, pattern.rstrip("/")) for pattern in alternatives(path)
        )


def link_fault(tree, page, target):
    """The reason why a link has no target, or None."""
    if re.match(r"[a-z]+:", target):
        return None
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return f"the link {target} leads to no file"
    if anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
        return f"the link {target} leads to no heading"
    return None


def named_faults(tree, line):
    """Paths and file names in code marks that do not exist in the tree."""
    spans = [line] if line.startswith("    ") else CODE.findall(line)
    for span in spans:
        for word in re.split(r"[\s\"'=()]+", span):
            word = re.sub(r"(::.*|[.,:;]+)$", "", word)
            if PATH.fullmatch(word) and not tree.has(word):
                yield f"there is no {word}"
        made = MAKE.match(span.strip())
        for target in made[1].split() if made and tree.targets else ():
            if not any(fnmatch.fnmatch(target, pattern) for pattern in tree.targets):
                yield f"there is no target {target} of make"
        if NAME.fullmatch(span) and span not in tree.bases:
            yield f"there is no file called {span}"


def page_faults(tree, name):
    page = tree.top / name
    fenced = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fenced ^= line.startswith("```")
        faults = []
        if len(line) > COLUMNS:
            faults.append(f"{len(line)} columns, {COLUMNS} are allowed")
        if not fenced:
            faults += filter(
                None, (link_fault(tree, page, target) for target in LINK.findall(line))
            )
            faults += named_faults(tree, line)
        for fault in faults:
            yield f"{name}:{number}: {fault}"


def changelog_faults(tree, name):
    """A merge of two branches may duplicate lines that both have: report repeated lines."""
    seen = {}
    for number, line in enumerate((tree.top / name).read_text(encoding="utf-8").splitlines(), 1):
        if len(line) > 40 and line in seen:
            yield f"{name}:{number}: stands at line {seen[line]} already"
        seen[line] = number


def tables(text, begins):
    """The tables of a text whose lines begin with `begins`, each a list of rows without padding."""
    found, inside = [], False
    for line in text.splitlines():
        row = line[len(begins) :] if line.startswith(begins + "|") else ""
        if row and not inside:
            found.append([])
        inside = bool(row)
        if row:
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            found[-1].append(["-" if set(cell) <= set("-") else cell for cell in cells])
    return found


def table_faults(tree, name):
    text = (tree.top / name).read_text(encoding="utf-8")
    for mark in TABLE.finditer(text):
        number, source = int(mark[1]), mark[2]
        copies = tables(text[mark.end() :].lstrip("\n"), "")
        known = source in tree.files
        originals = tables((tree.top / source).read_text(), " * ") if known else []
        if number > len(originals):
            yield f"{name}: {source} has no table {number} in its comments"
        elif not copies or copies[0] != originals[number - 1]:
            yield f"{name}: the table is not table {number} of {source}: copy its rows"


def comment_faults(tree, name):
    """Documents that are named in code but do not exist. A decision may be named by its number."""
    text = (tree.top / name).read_text(encoding="utf-8", errors="ignore")
    for number, line in enumerate(text.splitlines(), 1):
        for word in DOCUMENT.findall(line):
            word = word.rstrip(".-/")
            if not (word.endswith(PICTURE_OR_PAGE) or "/decisions/" in word):
                continue
            if not tree.has(word) and not tree.has(word + "*"):
                yield f"{name}:{number}: there is no {word}"


def faults(top):
    tree = Tree(top)
    if not any(name.endswith(".md") for name in tree.files):
        yield f"{top}: no documents are here to look at"
    for name in tree.files:
        if name.endswith(".md"):
            yield from page_faults(tree, name)
            yield from table_faults(tree, name)
            if name == "CHANGELOG.md":
                yield from changelog_faults(tree, name)
        elif name != PLANTED and not name.startswith(DATA):
            yield from comment_faults(tree, name)


def main():
    top = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = list(faults(top))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
