"""docs/clients: the programs of the pages, run unchanged, print the output on the pages.

`make test` runs the languages that need no installation; `make test-clients` installs and runs
all.
"""

import os
import re
import subprocess
import sys

import pytest

from support.pages import FOLDER, programs_of
from support.tallyd import TOP

HERE = ["curl", "javascript", "python"]
WITH_COMPILERS = ["go", "java", "r", "rust"]
RUN = HERE + WITH_COMPILERS if os.environ.get("TALLY_TEST_ALL_CLIENTS") else HERE
COMMANDS = {  # command by language of the program
    "sh": ("sums.sh", "sh -eu sums.sh"),
    "js": ("sums.mjs", "node sums.mjs"),
    "python": ("sums.py", f"{sys.executable} -W error sums.py"),
    "go": ("sums.go", "go run sums.go"),
    "java": ("Sums.java", "java Sums.java"),
    "r": ("sums.R", "Rscript sums.R"),
    "rust": ("sums.rs", "rustc --edition 2021 sums.rs && ./sums"),
}
# The largest number of connections of each program. Most use one; each curl has its own, and in
# Node the first connection is not yet back in the pool when the next call begins.
CONNECTIONS = {("curl", 0): 2, ("curl", 2): 2, ("javascript", 0): 2, ("javascript", 1): 2}
BROWSER = "html"  # tests/integration/test_cors.py


def cases():
    return [
        pytest.param(program, CONNECTIONS.get((page, at), 1), id=f"{page}-{at}")
        for page in RUN
        for at, program in enumerate(programs_of(page))
        if program.language != BROWSER
    ]


def without_id(text):
    """Replace request ids, which differ in every run, by a constant word."""
    return re.sub(r"\b[0-9a-f]{16}\b", "REQUEST", text)


@pytest.mark.parametrize("program, connections", cases())
def test_a_program_prints_what_its_page_says_over_a_kept_connection(
    server, tmp_path, program, connections
):
    name, command = COMMANDS[program.language]
    (tmp_path / name).write_text(program.text)
    environment = {
        **os.environ,
        "TALLY_URL": f"http://127.0.0.1:{server.port}",
        "PYTHONPATH": str(TOP / "client" / "python"),
        "PYTHONWARNINGS": "",
        "GOCACHE": str(tmp_path / "go"),
        "GOFLAGS": "-mod=mod",
    }
    before = server.metric("tally_connections_total")
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert without_id(done.stdout) == without_id(program.output)
    # the query for the metric is one more connection
    assert server.metric("tally_connections_total") - before <= connections + 1


def test_every_page_is_run_linked_and_short():
    pages = {path.stem for path in FOLDER.glob("*.md")} - {"README"}
    assert pages == set(HERE + WITH_COMPILERS)
    index = (FOLDER / "README.md").read_text()
    for page in pages:
        assert f"]({page}.md)" in index
        assert len((FOLDER / f"{page}.md").read_text().splitlines()) < 120, page


@pytest.mark.parametrize("page", ["javascript", *WITH_COMPILERS])
def test_a_page_says_how_its_programs_are_saved_and_run(page):
    """The page uses the same commands as the tests."""
    text = (FOLDER / f"{page}.md").read_text()
    for language in {program.language for program in programs_of(page)} - {BROWSER}:
        for words in COMMANDS[language]:
            assert f"`{words}`" in text, words
