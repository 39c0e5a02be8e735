"""The document check finds each planted fault, and no fault in a correct page, in a tree with
git and in one without."""

import shutil
import subprocess
import sys

import pytest

from support.tallyd import TOP

sys.path.insert(0, str(TOP / "tests"))

import lint_docs  # noqa: E402

pytestmark = pytest.mark.release_only

RIGHT = """# A page

See [the other](docs/other.md#what-it-says), `proto/a.c`, `proto/<any>.[ch]`, `a.c`:

    cc proto/a.c
    make run deps-test MODE=debug     # and more
"""


@pytest.fixture(name="tree")
def tree_fixture(tmp_path):
    for name, text in {
        "README.md": RIGHT,
        "docs/other.md": "# Other\n\n## What it says\n",
        "proto/a.c": "/* as docs/other.md has it */\n",
        "Makefile": "run test: deps\ndeps-%:\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def test_a_page_that_is_right_has_no_faults(tree):
    assert list(lint_docs.faults(tree)) == []


ROWS = "| state | next |\n|---|---|\n| a | b |\n"


def test_a_table_is_the_one_in_the_comments_of_a_file_whatever_its_padding(tree):
    comment = "".join(f" * {row}\n" for row in ROWS.replace("| a |", "| a     |").splitlines())
    (tree / "proto/a.c").write_text(f"/* States:\n{comment} * and more */\n")
    (tree / "README.md").write_text(RIGHT + "\n<!-- table 1 of proto/a.c -->\n" + ROWS)
    assert list(lint_docs.faults(tree)) == []


@pytest.mark.parametrize(
    "mark, rows, fault",
    [
        ("1 of proto/a.c", ROWS.replace("b", "c"), "the table is not table 1 of proto/a.c"),
        ("1 of proto/a.c", ROWS + "| c | d |\n", "the table is not table 1 of proto/a.c"),
        ("1 of proto/a.c", "No table.\n", "the table is not table 1 of proto/a.c"),
        ("2 of proto/a.c", ROWS, "proto/a.c has no table 2"),
        ("1 of proto/b.c", ROWS, "proto/b.c has no table 1"),
    ],
)
def test_a_table_that_differs_from_its_file_is_found(tree, mark, rows, fault):
    comment = "".join(f" * {row}\n" for row in ROWS.splitlines())
    (tree / "proto/a.c").write_text(f"/* States:\n{comment} */\n")
    (tree / "README.md").write_text(RIGHT + f"\n<!-- table {mark} -->\n" + rows)
    (found,) = lint_docs.faults(tree)
    assert fault in found


@pytest.mark.parametrize(
    "line, fault",
    [
        ("x" * 121, "121 columns"),
        ("See [this](docs/none.md).", "the link docs/none.md leads to no file"),
        ("See [this](docs/other.md#none).", "the link docs/other.md#none leads to no heading"),
        ("It is in `proto/b.c`.", "there is no proto/b.c"),
        ("It is in `b.c`.", "there is no file called b.c"),
        ("It is in `proto/a.[h]`.", "there is no proto/a.[h]"),
        ("    sh tests/none.sh now", "there is no tests/none.sh"),
        ("Say `make test runs`.", "there is no target runs of make"),
        ("    make none ARGS=--quick", "there is no target none of make"),
    ],
)
def test_a_planted_fault_is_found_where_it_is(tree, line, fault):
    (tree / "README.md").write_text(RIGHT + "\n" + line + "\n")
    (found,) = lint_docs.faults(tree)
    assert found.startswith(f"README.md:{len(RIGHT.splitlines()) + 2}: ") and fault in found


def test_a_line_that_two_merges_brought_is_found(tree):
    line = "- A fault of long ago that was mended at last.\n"
    (tree / "CHANGELOG.md").write_text("# Changelog\n\n" + line + "- Another.\n" + line)
    assert list(lint_docs.faults(tree)) == ["CHANGELOG.md:5: stands at line 3 already"]


def test_a_tree_without_git_is_looked_at_all_the_same(tree):
    shutil.rmtree(tree / ".git")
    (tree / "build").mkdir()
    (tree / "build/page.md").write_text("`proto/b.c`\n")
    assert list(lint_docs.faults(tree)) == []
    (tree / "README.md").write_text(RIGHT + "It is in `proto/b.c`.\n")
    (found,) = lint_docs.faults(tree)
    assert "there is no proto/b.c" in found


def test_a_tree_without_documents_is_not_right(tmp_path):
    (found,) = lint_docs.faults(tmp_path)
    assert "no documents" in found


def test_a_document_that_a_comment_names_must_be_there(tree):
    (tree / "proto/a.c").write_text("/* docs/none.md, docs/decisions/012 */\n")
    assert [found.split(": ")[1] for found in lint_docs.faults(tree)] == [
        "there is no docs/none.md",
        "there is no docs/decisions/012",
    ]


def lint(tree, check):
    (tree / "tests").mkdir(exist_ok=True)
    shutil.copy(TOP / "tests/lint.sh", tree / "tests")
    command = ["sh", "tests/lint.sh", check]
    ran = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return ran.returncode, ran.stdout.decode()


@pytest.mark.parametrize("git", ["with", "without"])
def test_lint_looks_at_the_files_of_a_tree(tree, git):
    if git == "without":
        shutil.rmtree(tree / ".git")
    assert lint(tree, "size")[0] == 0
    (tree / "proto/long.c").write_text("\n" * 801)
    status, said = lint(tree, "size")
    assert status == 1 and "proto/long.c: 801 lines" in said


def test_lint_that_git_tells_of_no_files_is_not_passed(tree):
    shutil.rmtree(tree / ".git")
    (tree / ".git").write_text("gitdir: /nowhere\n")
    status, said = lint(tree, "size")
    assert status == 1 and "found no file" in said
