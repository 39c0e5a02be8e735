"""README.md and docs/: what a reader is shown to type (`$ ...`) runs as it stands and prints what stands below it."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from support.tallyd import BINARY, TOP

PAGES = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]
CODES = (TOP / "proto" / "status.h").read_text()
END = "\0"


def sessions(page):
    """Of each indented block with a prompt: its commands, each with what is said to come out."""
    for block in re.findall(r"(?:^    .*\n)+", page.read_text(), re.M):
        if not block.startswith("    $ "):
            continue
        commands = []
        for line in re.sub(r"^    ", "", block, flags=re.M).splitlines(True):
            if line.startswith("$ "):
                commands.append([line[2:], ""])
            elif goes_on(commands[-1][0]):
                commands[-1][0] += line
            else:
                commands[-1][1] += line
        yield commands


def goes_on(command):
    return command.endswith("\\\n") or command.count("'") % 2 == 1


def without_blanks(text):
    """Pages break long lines."""
    return re.sub(r"\s", "", text)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(sessions(page))], ids=lambda page: page.stem
)
def test_the_commands_of_a_page_print_what_it_says(server, tmp_path, page):
    folders = [pathlib.Path(sys.executable).parent, pathlib.Path(BINARY).resolve().parent]
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    # One shell for all of them: later ones use what earlier ones left.
    commands = [command for session in sessions(page) for command in session]
    script = "".join(f"{command}printf '\\0'\n" for command, _ in commands)
    done = subprocess.run(
        ["sh", "-eu"],
        input=script.replace("localhost:8000", f"127.0.0.1:{server.port}"),
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split(END)
    for (command, said), found in zip(commands, printed, strict=False):
        assert without_blanks(found) == without_blanks(said), command
    assert len(printed) == len(commands) + 1 and printed[-1] == ""


def printed(*arguments):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, check=True).stdout


def test_the_help_of_tallyd_has_each_default():
    flags = {text.split()[0]: " ".join(text.split()) for text in printed("--help").split("\n  --")}
    settings = re.findall(r"^#TALLY_(\w+)=(.+)$", printed("--print-config", "env"), re.M)
    assert len(settings) > 30
    for name, default in settings:
        assert f"[{default}]" in flags[name.lower().replace("_", "-")], name


def test_the_manual_of_tallyd_names_options_that_it_has():
    options = set(re.findall(r"--[a-z][a-z-]*[a-z]", printed("--help")))
    manual = printed("--print-config", "man").replace("\\-", "-")
    named = set(re.findall(r"--[a-z][a-z-]*[a-z]", re.sub(r"\\f[BIR]", " ", manual)))
    assert named - {"--print-config"} == options - {"--print-config"}


def test_the_manual_of_tally_has_all_its_commands():
    tally = pathlib.Path(BINARY).with_name("tally")
    said = subprocess.run([tally, "--help"], capture_output=True, text=True, check=True).stdout
    commands = re.findall(r"^  ([a-z]+)  ", said, re.M)
    manual = (TOP / "client" / "man" / "tally.1").read_text()
    synopsis = re.search(r"^\.SH SYNOPSIS\n(.*?)^\.SH", manual, re.M | re.S)[1]
    assert {"cumsum", "token"} <= set(commands) <= set(re.findall(r"\w+", synopsis))


def test_each_code_of_an_error_stands_in_the_table_of_errors():
    rows = re.findall(r'^ +X\(\w+, +\w+, +"([a-z_]+)"\)', CODES, re.M)
    codes = set(rows) - {"ok", "client_gone"}
    assert len(codes) > 25
    section = re.search(r"^## Errors$.*", (TOP / "docs" / "calling.md").read_text(), re.M | re.S)[0]
    written = set(re.findall(r"`([a-z_]+)`", section))
    assert {code for code in codes if not code.startswith("invalid_")} <= written
    assert "`invalid_…`" in section


def test_each_file_of_the_client_is_on_its_map():
    folder = TOP / "client"
    words = set(re.findall(r"\w+", (folder / "README.md").read_text()))
    assert {path.stem for path in (*folder.glob("*.c"), *folder.glob("cli/*.c"))} <= words
