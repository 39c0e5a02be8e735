"""Fail on a step of a workflow that shellcheck finds fault with: `python3 tests/lint_workflows.py FILE ...`.

The text of a step must not have an expression (${{ ... }}) in it: its value would be read as part of
the program. Such a value is passed as a variable of the step (`env`). A step must name an action by
the hash of a commit, because a tag of the action may be moved to other code."""

import re
import subprocess
import sys

import yaml


def faults(path):
    with open(path, encoding="utf-8") as file:
        jobs = yaml.safe_load(file)["jobs"]
    steps = [
        (name, step["run"]) for name, job in jobs.items() for step in job["steps"] if "run" in step
    ]
    if not steps:
        yield f"{path}: no step runs anything"
    for name, job in jobs.items():
        for action in (step["uses"] for step in job["steps"] if "uses" in step):
            if not re.fullmatch(r"[^@]+@[0-9a-f]{40}", action):
                yield f"{path}: a step of {name} uses {action}, expected the hash of a commit"
    for name, text in steps:
        if "${{" in text:
            yield f"{path}: a step of {name} has an expression in its program: {text!r}"
        # GitHub runs the text with `bash -e`.
        text = "set -e\n" + text
        command = ["shellcheck", "--shell=bash", "--severity=info", "-"]
        ran = subprocess.run(command, input=text, capture_output=True, text=True)
        if ran.returncode != 0:
            yield f"{path}: a step of {name}:\n{ran.stdout}{ran.stderr}"


def main():
    found = [fault for path in sys.argv[1:] for fault in faults(path)]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
