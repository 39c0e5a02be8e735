"""Fail on imports that a Python file does not use; paths come on standard input."""

import ast
import sys


def unused_imports(source):
    """(line, name) of every unused import that is not marked noqa."""
    tree = ast.parse(source)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    lines = source.splitlines()
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Import, ast.ImportFrom)) or "noqa" in lines[node.lineno - 1]:
            continue
        for imported in node.names:
            name = (imported.asname or imported.name).split(".")[0]
            if name not in used:
                yield node.lineno, name


def main():
    bad = 0
    for path in sys.stdin.read().split():
        with open(path, encoding="utf-8") as file:
            for line, name in unused_imports(file.read()):
                print(f"{path}:{line}: {name} is imported and not used")
                bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
