"""Fail if files of one folder include or call each other in a circle.

    python3 tests/check_circles.py BUILD OBJECT ...

OBJECT is BUILD/folder/name.o, an up-to-date object of folder/name.c; `make product-list` prints all
objects of the product. One file calls another if its object uses a symbol that the other's object
defines, so data count as functions do. Headers are compared with the sources of their folder.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys

from lint_docs import tracked

FOLDERS = ("proto/", "kernels/", "server/", "client/")
SUFFIXES = (".c", ".cc", ".h", ".cl", ".S")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
ADVICE = """\
To end a circle, move the code that both files need into a file below them, join files that are one
module, or let a file above them hold the table or make the call. A forward declaration or a function
pointer that only hides the arrow does not help a reader."""


def include_graph(names, top):
    """Map each file to the files of its folder that it includes, each with the name it includes."""
    graph = {}
    for name in names:
        text = (top / name).read_text(encoding="utf-8", errors="ignore")
        graph[name] = {
            other: {other}
            for other in INCLUDE.findall(text)
            if os.path.dirname(other) == os.path.dirname(name)
        }
    return graph


def call_graph(sources):
    """Map each source to the sources of its folder that it calls, each with the symbols it uses.

    sources: the source of each object, by the object's path."""
    command = ["nm", "-A", "-P", *sources]
    listing = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    definers, uses = {}, []
    for line in listing.stdout.splitlines():
        path, symbol, kind = line.split()[:3]
        name = sources[path.removesuffix(":")]
        folder = os.path.dirname(name)
        if kind == "U":
            uses.append((name, folder, symbol))
        elif kind.isupper():
            definers[folder, symbol] = name
    graph = {name: collections.defaultdict(set) for name in sources.values()}
    for name, folder, symbol in uses:
        if (folder, symbol) in definers:
            graph[name][definers[folder, symbol]].add(symbol)
    return graph


def shortest_circle(graph, start):
    """Return the files of a shortest circle through `start`, in order, or None."""
    before = {}
    queue = collections.deque([start])
    while queue:
        name = queue.popleft()
        for other in sorted(graph[name]):
            if other == start:
                circle = [name]
                while circle[0] != start:
                    circle.insert(0, before[circle[0]])
                return circle
            if other in graph and other not in before:
                before[other] = name
                queue.append(other)
    return None


def circles(graph):
    """Yield a shortest circle for each group of files that reach each other."""
    rest = dict(graph)
    while rest:
        found = [
            circle for circle in (shortest_circle(rest, name) for name in sorted(rest)) if circle
        ]
        if not found:
            return
        circle = min(found, key=len)
        yield circle
        for name in circle:  # report a file only once
            del rest[name]


def describe(circle, graph, verb):
    folder = os.path.dirname(circle[0])
    yield f"{folder}: {len(circle)} files {verb} each other in a circle:"
    for name, other in zip(circle, circle[1:] + circle[:1]):
        what = "" if verb == "include" else ": " + ", ".join(sorted(graph[name][other]))
        yield f"    {os.path.basename(name)} -> {os.path.basename(other)}{what}"


def faults(top, build, objects):
    files = [n for n in tracked(top) if n.startswith(FOLDERS) and n.endswith(SUFFIXES)]
    sources = {os.path.splitext(name)[0]: name for name in files if not name.endswith(".h")}
    built = {}
    for path in objects:
        stem = os.path.splitext(os.path.relpath(path, build))[0]
        if stem not in sources:
            yield f"{path}: no source {stem}.c is here; run `make product-objects` again"
        else:
            built[path] = sources[stem]
    if not built:
        yield f"{build}: no objects are here to look at"
        return
    for verb, graph in (("include", include_graph(files, top)), ("call", call_graph(built))):
        for circle in circles(graph):
            yield from describe(circle, graph, verb)


def main():
    build, *objects = sys.argv[1:]
    found = list(faults(pathlib.Path.cwd(), build, objects))
    print("\n".join([*found, ADVICE] if found else []))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
