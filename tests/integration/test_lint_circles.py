"""The circle check finds circles of includes and of calls within a folder, from up-to-date
objects."""

import shutil
import subprocess
import sys

import pytest

from support.tallyd import TOP

sys.path.insert(0, str(TOP / "tests"))

import check_circles  # noqa: E402

pytestmark = pytest.mark.release_only

# The last file calls nothing.
LINE = {
    "proto/a.c": '#include "proto/b.h"\nint a(void);\nint a(void) { return b(); }\n',
    "proto/b.h": "int b(void);\n",
    "proto/b.c": '#include "proto/b.h"\nextern int c;\nint b(void) { return c; }\n',
    "proto/c.c": "extern int c;\nint c = 1;\n",
}
# The last file now calls the first.
CLOSING = "int a(void);\nextern int c;\nint c = 1;\nint d(void);\nint d(void) { return a(); }\n"

MAKEFILE = """\
OBJ := $(patsubst %.c,build/release/%.o,$(wildcard */*.c))
product-objects: $(OBJ)
product-list:
	@echo $(OBJ)
build/release/%.o: %.c
	@mkdir -p $(@D)
	$(CC) -I. -c -o $@ $<
"""


def write(tree, files):
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)


@pytest.fixture(name="tree")
def tree_fixture(tmp_path):
    write(tmp_path, {**LINE, "Makefile": MAKEFILE})
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def faults(tree):
    subprocess.run(["make", "-s", "product-objects"], cwd=tree, check=True)
    objects = [str(path) for path in sorted(tree.glob("build/release/**/*.o"))]
    return list(check_circles.faults(tree, str(tree / "build/release"), objects))


def test_files_in_a_line_have_no_fault(tree):
    assert faults(tree) == []


def test_a_circle_of_calls_is_shown_in_order_with_its_symbols(tree):
    write(
        tree,
        {
            "proto/c.c": CLOSING,
            "proto/alone.c": "int b(void);\nint e(void);\nint e(void) { return b(); }\n",
        },
    )
    assert faults(tree) == [
        "proto: 3 files call each other in a circle:",
        "    a.c -> b.c: b",
        "    b.c -> c.c: c",
        "    c.c -> a.c: a",
    ]


def test_two_circles_of_a_folder_are_both_shown(tree):
    write(
        tree,
        {
            "proto/c.c": CLOSING,
            "proto/x.c": "int y(void);\nint x(void);\nint x(void) { return y(); }\n",
            "proto/y.c": "int x(void);\nint y(void);\nint y(void) { return x(); }\n",
        },
    )
    assert [line for line in faults(tree) if "circle" in line] == [
        "proto: 2 files call each other in a circle:",
        "proto: 3 files call each other in a circle:",
    ]


def test_a_circle_of_includes_is_shown(tree):
    write(
        tree,
        {
            "proto/b.h": '#include "proto/c.h"\nint b(void);\n',
            "proto/c.h": '#ifndef C\n#define C\n  #  include "proto/b.h"\n#endif\n',
        },
    )
    assert faults(tree) == [
        "proto: 2 files include each other in a circle:",
        "    b.h -> c.h",
        "    c.h -> b.h",
    ]


def test_files_of_two_folders_are_left_to_the_check_of_layers(tree):
    (tree / "kernels").mkdir()
    (tree / "proto/c.c").rename(tree / "kernels/c.c")
    write(tree, {"kernels/c.c": CLOSING})
    assert faults(tree) == []


def test_a_static_function_of_the_same_name_is_no_call(tree):
    write(
        tree,
        {
            "proto/c.c": "extern int c;\nint c = 1;\nstatic int a(void) { return 2; }\nint d(void);\nint d(void) { return a(); }\n"
        },
    )
    assert faults(tree) == []


def test_without_objects_nothing_passes(tree):
    (found,) = check_circles.faults(tree, "build/release", [])
    assert "no objects" in found


def test_an_object_whose_source_is_gone_is_refused(tree):
    assert faults(tree) == []
    (tree / "proto/a.c").unlink()
    (found,) = faults(tree)
    assert "no source proto/a.c" in found


def test_lint_brings_the_objects_up_to_date_first(tree):
    for name in ("lint.sh", "check_circles.py", "lint_docs.py"):
        (tree / "tests").mkdir(exist_ok=True)
        shutil.copy(TOP / "tests" / name, tree / "tests")
    command = ["sh", "tests/lint.sh", "circles"]
    assert subprocess.run(command, cwd=tree).returncode == 0
    write(tree, {"proto/c.c": CLOSING})
    ran = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, text=True)
    assert ran.returncode == 1
    assert "c.c -> a.c: a" in ran.stdout and "To end a circle" in ran.stdout
