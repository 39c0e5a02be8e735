"""What is built on arm64: clang compiles for it here, too, and says what that processor's compilers do not take."""

import shlex
import subprocess

import pytest

from support.tallyd import TOP

TARGET = "--target=aarch64-linux-gnu"
LIST = TOP / "build/ahead/list"


def run(*command):
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows_of_one_type():
    """Of the kernels for processors, each of those for float16: only these have squares of rows."""
    return [row for row in LIST.read_text().splitlines() if "_f16_f64_" in row.split("\t")[0]]


@pytest.mark.parametrize(
    "kernel", ["generic", "rows", "steps", "columns", "strided", "permuted", "narrow", "transposed"]
)
def test_kernels_are_compiled_for_arm64(tmp_path, kernel):
    row = next(row for row in rows_of_one_type() if row.startswith(f"scan_{kernel}_"))
    (tmp_path / "list").write_text(row + "\n")
    name = row.split("\t")[0]
    compiled = tmp_path / "baseline" / f"{name}.o"
    run(
        *("make", "-s", "-f", "kernels/cpu/kernels.mk", "LEVELS=baseline", f"LIST={tmp_path}/list"),
        *(f"DIR={tmp_path}", f"OUT={tmp_path}/all.o", f"FLAGS={TARGET} -O0", str(compiled)),
    )
    assert compiled.stat().st_size > 0


def test_compilers_for_arm64_take_the_flags_of_the_build(tmp_path):
    commands = run(
        "make", "-n", "MACHINE=aarch64", "-W", "kernels/plan.c", "build/release/kernels/plan.o"
    )
    flags = [word for word in shlex.split(commands) if word.startswith("-f")]
    assert "-fPIC" in flags, commands
    run("clang", TARGET, *flags, "-c", "-x", "c", "/dev/null", "-o", str(tmp_path / "nothing.o"))
