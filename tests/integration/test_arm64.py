"""The arm64 build: clang compiles for arm64 here, too, and reports constructs that compilers for
arm64 refuse."""

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


def compile_kernel(folder, kernel, flags):
    """The object or assembly of one kernel that clang makes for arm64. The kernel's name includes
    its element type."""
    row = next(row for row in LIST.read_text().splitlines() if row.startswith(f"scan_{kernel}_"))
    (folder / "list").write_text(row + "\n")
    name = row.split("\t")[0]
    compiled = folder / "baseline" / f"{name}.o"
    run(
        *("make", "-s", "-f", "kernels/cpu/kernels.mk", "LEVELS=baseline", f"LIST={folder}/list"),
        *(f"DIR={folder}", f"OUT={folder}/all.o", f"FLAGS={TARGET} {flags}", str(compiled)),
    )
    return compiled


OF_INTEGERS = ["generic", "rows", "narrow", "thin_columns", "columns", "tiles"]
OF_FLOATS = ["exact", "exact_rows", "exact_columns", "exact_tiles"]


@pytest.mark.parametrize(
    "kernel",
    [f"{kernel}_i16" for kernel in OF_INTEGERS]
    + [f"{kernel}_{dtype}" for kernel in OF_FLOATS for dtype in ("f16", "f64")],
)
def test_kernels_are_compiled_for_arm64(tmp_path, kernel):
    assert compile_kernel(tmp_path, kernel, "-O0").stat().st_size > 0


def test_the_build_makes_kernels_for_the_target_of_the_compiler():
    variables = run("make", "-n", "-p", f"CC=clang {TARGET}", "warnings").splitlines()
    assert "LEVELS := baseline" in variables
    assert "CLANG = clang --target=$(TARGET)" in variables
    assert "TARGET := aarch64-unknown-linux-gnu" in variables


def test_compilers_for_arm64_take_the_flags_of_the_build(tmp_path):
    commands = run(
        *("make", "-n", f"CC=clang {TARGET}"),
        *("-W", "kernels/plan.c", "build/release/kernels/plan.o"),
    )
    flags = [word for word in shlex.split(commands) if word.startswith("-f")]
    assert "-fPIC" in flags, commands
    # arm64 has fused multiply-add, which would round sums differently
    assert "-ffp-contract=off" in flags, commands
    run("clang", TARGET, *flags, "-c", "-x", "c", "/dev/null", "-o", str(tmp_path / "nothing.o"))
