"""README.md and docs/: commands on the pages (`$ ...`) run unchanged and print the output below
them; every option, variable and metric that a page names exists in the programs, and the pages
name each one that exists."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from support.tallyd import BINARY, TOP

PAGES = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]
USERS_PAGES = [*PAGES, *(TOP / "docs/clients").glob("*.md"), *(TOP / "deploy").rglob("*.md")]
TALLY = pathlib.Path(BINARY).with_name("tally")
MANUAL = TOP / "build/man/tallyd.8"
FLAG = r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9](?![\w-])"
# Options of curl and docker that pages name without the command.
OTHERS_FLAGS = {"--data-binary", "--fail-with-body", "--retry", "--gpus", "--group-add"}
# Header fields that are common in HTTP and need no action by a client.
PLAIN_HEADERS = {
    *("Access-Control-Request-Method", "Content-Length", "ETag", "Host", "If-None-Match"),
    "Transfer-Encoding",
}
CODES = (TOP / "proto" / "status.h").read_text()
END = "\0"


def sessions(page):
    """The commands of each indented block with a prompt, each with its expected output."""
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
    """Remove blanks, since pages break long lines."""
    return re.sub(r"\s", "", text)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(sessions(page))], ids=lambda page: page.stem
)
def test_the_commands_of_a_page_print_what_it_says(server, tmp_path, page):
    folders = [pathlib.Path(sys.executable).parent, pathlib.Path(BINARY).resolve().parent]
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    # One shell runs all commands: later ones use files and variables of earlier ones.
    commands = [command for session in sessions(page) for command in session]
    script = "".join(f"{command}printf '\\0'\n" for command, _ in commands)
    done = subprocess.run(
        ["sh", "-eu"],
        input=script.replace("localhost:8000", f"127.0.0.1:{server.port}"),
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(TOP / "client" / "python")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split(END)
    for (command, said), found in zip(commands, printed, strict=False):
        assert without_blanks(found) == without_blanks(said), command
    assert len(printed) == len(commands) + 1 and printed[-1] == ""


def printed(*arguments, program=BINARY):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def test_the_help_of_tallyd_has_each_default():
    flags = {text.split()[0]: " ".join(text.split()) for text in printed("--help").split("\n  --")}
    settings = re.findall(r"^#TALLY_(\w+)=(.+)$", printed("--print-config", "env"), re.M)
    assert len(settings) > 30
    for name, default in settings:
        assert f"[{default}]" in flags[name.lower().replace("_", "-")], name


def test_the_manual_of_tallyd_names_options_that_it_has():
    options = set(re.findall(r"--[a-z][a-z-]*[a-z]", printed("--help")))
    manual = MANUAL.read_text().replace("\\-", "-")
    named = set(re.findall(r"--[a-z][a-z-]*[a-z]", re.sub(r"\\f[BIR]", " ", manual)))
    assert named - {"--print-config"} == options - {"--print-config"}


def test_the_manual_of_tally_has_all_its_commands():
    commands = re.findall(r"^  ([a-z]+)  ", printed("--help", program=TALLY), re.M)
    manual = (TOP / "client" / "man" / "tally.1").read_text()
    synopsis = re.search(r"^\.SH SYNOPSIS\n(.*?)^\.SH", manual, re.M | re.S)[1]
    assert {"cumsum", "token"} <= set(commands) <= set(re.findall(r"\w+", synopsis))


def test_the_manual_of_libtally_names_and_declares_all_its_functions():
    functions = re.findall(r"\w+(?=@@)", (TOP / "tests/client/abi.expected").read_text())
    manual = (TOP / "client" / "man" / "tally.3").read_text()
    names = re.search(r"^\.SH NAME\n(.*?)\\-", manual, re.M | re.S)[1]
    synopsis = re.search(r"^\.SH SYNOPSIS\n(.*?)^\.SH", manual, re.M | re.S)[1]
    assert set(re.findall(r"\w+", names)) == set(functions)
    assert set(re.findall(r"(tally_\w+)\(", synopsis)) == set(functions)


def test_each_code_of_an_error_stands_in_the_table_of_errors_with_its_status():
    rows = re.findall(r'^ +X\(\w+, +(\w+), +"([a-z_]+)"\)', CODES, re.M)
    codes = {code: status for status, code in rows if code not in ("ok", "client_gone")}
    assert len(codes) > 25
    table = re.findall(r"^\|([\d, ]+).*?\|(.*?)\|.*$", section("calling.md", "Errors"), re.M)
    told = {
        (status, code)
        for numbers, words in table
        for status in re.findall(r"\d+", numbers)
        for code in re.findall(r"`([a-z_]+…?)`", words)
    }
    for code, status in codes.items():
        assert (status, re.sub("^invalid_.*", "invalid_…", code)) in told, code


def test_each_file_of_the_client_is_on_its_map():
    folder = TOP / "client"
    words = set(re.findall(r"\w+", (folder / "README.md").read_text()))
    assert {path.stem for path in (*folder.glob("*.c"), *folder.glob("cli/*.c"))} <= words


def text_of(pattern):
    return "\n".join(path.read_text() for path in sorted(TOP.glob(pattern)))


def section(page, heading):
    text = (TOP / "docs" / page).read_text()
    return re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", text, re.M | re.S)[1]


def shown(page):
    """Yields the texts in code marks, and the command lines that run Tally's programs or
    make."""
    text = page.read_text()
    yield from re.findall(r"`([^`\n]+)`", text)
    yield from re.findall(r"^ +(?:\$ |sudo )?((?:tallyd?|make) .*)$", text, re.M)


def test_each_flag_that_a_page_names_is_there():
    flags = set(re.findall(FLAG, printed("--help")))
    for command in re.findall(r"^  ([a-z]+)  ", printed("--help", program=TALLY), re.M):
        flags |= set(re.findall(FLAG, printed(command, "--help", program=TALLY)))
    for folder in ("bench", "fleet", "kernels", "load", "sim"):
        flags |= set(re.findall(FLAG, text_of(f"tests/{folder}/*.[pcs]*")))
    named = [
        (page.name, flag)
        for page in [*USERS_PAGES, TOP / "CONTRIBUTING.md"]
        for text in shown(page)
        if not re.match(r"(systemctl|prometheus|docker|curl|rustc|-H) ", text)
        for flag in re.findall(FLAG, text)
    ]
    assert len(named) > 150
    assert [name for name in named if name[1] not in flags | OTHERS_FLAGS] == []


def others_variables():
    """Names and patterns of the variables that tallyd ignores, from the end of its manual page."""
    manual = MANUAL.read_text().replace("\\-", "-")
    part = re.search(r"belong to other programs and are ignored:\n(.*)\.SH", manual, re.S)[1]
    return {name for tag in re.findall(r"^\\fB(.*)\\fR$", part, re.M) for name in tag.split()}


def test_each_variable_that_a_page_names_is_there_and_the_other_way_round():
    settings = set(re.findall(r"^#(TALLY_\w+)=", printed("--print-config", "env"), re.M))
    read = set(re.findall(r'getenv\("(TALLY_\w+)"\)', text_of("[ck]*/**/*.c")))
    assert {"TALLY_URL", "TALLY_TOKEN", "TALLY_OPENCL_THREADS"} <= read
    words = set(re.findall(r"\bTALLY_[A-Z][A-Z0-9_]*", text_of("client/tally.h")))
    ignored = others_variables()
    assert read <= ignored
    named = set()
    for page in USERS_PAGES:
        named |= set(re.findall(r"\bTALLY_[A-Z][A-Z0-9_]*\b", page.read_text()))
    # Pages describe patterns such as TALLY_*PORT in words.
    others = {name.rstrip("*") for name in ignored if not name.startswith("TALLY_*")}
    assert named <= settings | others | words, named - settings - others - words
    assert others <= named


def test_the_page_on_load_tests_needs_no_build_of_the_project():
    """Users of a package or an image have wrk, oha and the scripts of wrk; other tools are
    described in docs/design/load.md."""
    page = (TOP / "docs/load-testing.md").read_text()
    assert re.search(r"^    wrk ", page, re.M) and re.search(r"^ +oha ", page, re.M)
    assert not re.search(r"\bmake [a-z]", page)
    assert not re.search(r"tests/(?!load/(\w+\.lua|`))\S+", page)
    method = (TOP / "docs/design/load.md").read_text()
    assert {"make overload", "make soak"} <= set(re.findall(r"\bmake [a-z]+", method))


# Targets that rules and scripts use, not people.
PARTS = {
    *("unit-tests", "kernel-tests", "client-tests", "bench-tools", "install-built"),
    *("libtally.a", "libtally.so", "product-objects", "product-list", "test-objects"),
    *("cxx-objects", "warnings"),
}


def test_make_help_lists_each_target_in_a_line():
    makefile = (TOP / "Makefile").read_text()
    command = ["make", "--no-print-directory", "-C", str(TOP), "help"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    listed = [re.fullmatch(r"  make ([a-z-]+) +([A-Z].*)", line)[1] for line in lines]
    assert listed == sorted(set(listed)) and max(map(len, lines)) <= 100
    phony = set(" ".join(re.findall(r"^\.PHONY: (.*)$", makefile, re.M)).split())
    assert set(listed) == phony - PARTS
    pages = [*USERS_PAGES, TOP / "CONTRIBUTING.md", *(TOP / "docs/design").rglob("*.md")]
    named = {
        name
        for page in pages
        for text in shown(page)
        for name in re.findall(r"^make ([a-z][a-z-]*)(?![\w/-])", text)
    }
    assert len(named) > 20 and named <= set(listed), named - set(listed)


def test_each_route_that_a_page_names_is_there(client):
    routes = client.get("/openapi.json").json()["paths"]
    patterns = [re.compile(re.sub(r"\{\w+\}", "[^/]+", route)) for route in routes]
    named = {
        (page.name, route)
        for page in USERS_PAGES
        for route in re.findall(r"(?<![\w.:/])/v[12](?:/[\w.-]*\w)*", page.read_text())
    }
    assert len(named) > 10
    assert [name for name in named if not any(one.fullmatch(name[1]) for one in patterns)] == []


def test_each_metric_that_a_page_names_is_there(client):
    families = set(re.findall(r"^# TYPE (\w+)", client.get("/metrics").body.decode(), re.M))
    functions = set(re.findall(r"\btally_\w+", text_of("client/*.h")))
    named = {
        (page.name, name)
        for page in USERS_PAGES
        for name in re.findall(r"`((?:tally|nv|process)_[a-z0-9_]*[a-z0-9])[`{(]", page.read_text())
    }
    assert len(named) > 40
    assert [name for name in named if name[1] not in families | functions] == []


def test_each_header_that_is_read_or_answered_stands_in_a_page():
    source = text_of("server/http/cors.c") + text_of("server/http/header_check.c")
    headers = set(re.findall(r'NAME\("([\w-]+)"', source))
    for fields in re.findall(r"_fields\[\] =\n(.*?);", source, re.S):
        headers |= set(re.findall(r"[\w-]+", fields))
    assert len(headers) > 25
    pages = "\n".join(page.read_text() for page in PAGES)
    missing = {name for name in headers if not re.search(rf"\b{name}\b", pages)}
    assert missing <= PLAIN_HEADERS, missing - PLAIN_HEADERS


def test_each_field_of_the_log_and_each_attribute_of_a_span_stands_in_its_section():
    fields = re.findall(r'log_line_\w+\(&line, "(\w+)"', text_of("server/base/log.c"))
    told = set(re.findall(r"\w+", section("watching.md", "The log")))
    assert len(fields) > 15 and set(fields) - {"lines"} <= told, set(fields) - told
    attributes = set(re.findall(r'"(tally\.\w+)"', text_of("server/base/trace.c")))
    told = set(re.findall(r"`(tally\.\w+)`", section("watching.md", "Traces")))
    assert len(attributes) > 5 and attributes == told


def test_exit_statuses_are_told_alike():
    manual = MANUAL.read_text()
    statuses = re.findall(r"^\.B (\d)$", manual, re.M)
    page = section("running.md", "Signals and exit")
    assert re.findall(r"^\| (\d) \|", page, re.M) == statuses == ["0", "1", "2", "3"]
    said = re.search(r"^exit status:(.*)", printed("--help", program=TALLY), re.M | re.S)[1]
    table = re.findall(r"^(\d+);", (TOP / "client/man/tally.1").read_text(), re.M)
    assert re.findall(r"\b(\d+) [a-z]", said) == table


def test_a_default_that_stands_behind_its_setting_is_right():
    """Pages write the default of an option behind its name, as in `--drain-delay-ms` (5 s)."""
    defaults = dict(re.findall(r"^#TALLY_(\w+)=(.*)$", printed("--print-config", "env"), re.M))
    files = [*USERS_PAGES, *(path for path in (TOP / "deploy").glob("*.*") if path.is_file())]
    units = {"ms": 1, "s": 1000, "": 1}
    count = 0
    for path in files:
        found = re.findall(rf"({FLAG})`? \((\d+) ?(m?s?)\)", path.read_text())
        for flag, number, unit in found:
            name = flag[2:].replace("-", "_").upper()
            if name in defaults:
                scale = 1000 if name.endswith("_S") else 1
                assert int(number) * units[unit] == int(defaults[name]) * scale, (path, flag)
                count += 1
    assert count >= 3
