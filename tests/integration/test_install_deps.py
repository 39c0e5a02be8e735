"""deploy/install-deps.sh creates Python environments: one at a time, and again if an environment is
unusable. The Python that creates them in these tests is a shell script."""

import os
import subprocess

import pytest

from support.tallyd import TOP

PACKAGES = """#!/bin/sh
for package; do echo "installed $package"; done
"""
PYTHON = """#!/bin/sh
[ "$1 $2" = "-m venv" ] || exit 9
shift 2
[ "$1" != --clear ] || { shift && rm -rf "$1"/* "$1"/.[a-z]*; }
echo made >>"$LOG"
mkdir "$1/bin" && cd "$1" && touch pyvenv.cfg
cat >bin/python <<'END'
#!/bin/sh
[ -e "$PACKAGES_OF_PYTHON" ] || exit 1
[ "$1" = -c ] || { sleep 0.1 && echo "$*" >>"$LOG"; }
END
printf '#!%s\\n' "$PWD/bin/python" >bin/pip
printf '#!/bin/sh\\necho "uv $*" >>"$LOG"\\nexit "${UV_ENDS:-0}"\\n' >bin/uv
chmod +x bin/*
"""


@pytest.fixture(name="tree")
def tree_fixture(tmp_path):
    tree = tmp_path / "tree"
    for name, text in {
        "deploy/install-deps.sh": (TOP / "deploy/install-deps.sh").read_text(),
        "tests/bench/requirements-mlserver.txt": "mlserver==1\n",
        "stubs/dpkg-query": PACKAGES,
        "stubs/python3": PYTHON,
    }.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return tree


def start(tree, **more):
    path = f"{tree}/stubs:{os.environ['PATH']}"
    packages = tree.parent / "python3.11"
    packages.touch()
    env = {"PATH": path, "LOG": str(tree.parent / "log"), "PACKAGES_OF_PYTHON": str(packages)}
    command = ["sh", str(tree / "deploy/install-deps.sh"), "mlserver"]
    return subprocess.Popen(command, env={**env, **more}, stderr=subprocess.PIPE, text=True)


def done(tree, **more):
    """The actions since the last call."""
    process = start(tree, **more)
    assert process.communicate(timeout=60)[1] is not None and process.returncode == 0
    return news(tree)


def news(tree):
    log = tree.parent / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return [" ".join(line.split()[:3]) for line in lines]


FILLED = ["-m pip install", "uv pip install"]  # uv is installed, then uv installs the requirements
ALL = ["made", *FILLED]


def test_several_at_once_make_one_environment(tree):
    processes = [start(tree) for _ in range(4)]
    for process in processes:
        assert process.communicate(timeout=60)[1] is not None and process.returncode == 0
    assert news(tree) == ALL
    assert done(tree) == []


def test_an_environment_is_filled_anew_when_its_requirements_change(tree):
    assert done(tree) == ALL
    (tree / "tests/bench/requirements-mlserver.txt").write_text("mlserver==2\n")
    assert done(tree) == FILLED


def test_an_environment_that_was_moved_is_made_anew(tree):
    assert done(tree) == ALL
    moved = tree.rename(tree.parent / "moved")
    assert done(moved) == ALL
    assert done(moved) == []


def test_an_environment_of_another_python_is_made_anew(tree):
    assert done(tree) == ALL
    other = tree.parent / "python3.12"
    (tree / "stubs/python3").write_text(PYTHON.replace("echo made", f"touch '{other}'; echo made"))
    assert done(tree, PACKAGES_OF_PYTHON=str(other)) == ALL
    assert done(tree, PACKAGES_OF_PYTHON=str(other)) == []


def test_pip_installs_the_packages_that_uv_does_not_find(tree):
    assert done(tree, UV_ENDS="2") == [*ALL, "-m pip install"]
    assert done(tree) == []


def test_a_folder_that_is_no_environment_is_not_emptied(tree):
    folder = tree / "home"
    folder.mkdir()
    (folder / "letters").touch()
    assert done(tree, VENV=str(folder)) == ALL
    assert (folder / "letters").exists()
