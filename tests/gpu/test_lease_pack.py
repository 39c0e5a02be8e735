"""tests/gpu/lease.sh packs a folder that measures Tally on another machine, here with PoCL in the place of the
GPU. It takes a minute of processor time, so `make kernel-proofs` runs it."""

import os
import pathlib
import re
import subprocess

TOP = pathlib.Path(__file__).resolve().parents[2]
LEASE = TOP / "tests/gpu/lease.sh"
# Libraries that the pack lacks: those of glibc, which the other machine provides, and the kernel's.
OF_GLIBC = re.compile(r"(?:lib(?:c|m|resolv)\.so|.*/ld-linux|linux-vdso)")


def lease(script, *words, seconds=600, env=None):
    command = ["sh", str(script), *map(str, words)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, **(env or {})},
    )


def results(folder):
    """Map each command of the run to its result."""
    text = (folder / "results/figures.txt").read_text()
    return dict(re.findall(r"^== (.*): (.*) \(\d+ s\)$", text, re.M))


def test_a_packed_folder_measures_and_proves_a_device_without_the_tree(tmp_path):
    packed = tmp_path / "built"
    done = lease(LEASE, "pack", packed)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = packed.rename(tmp_path / "carried")
    for program in ("tallyd", "tally", "kernel_bench"):
        path = {"LD_LIBRARY_PATH": f"{folder}/lib:{folder}/spare"}
        command = ["ldd", folder / "bin" / program]
        told = subprocess.run(command, env=path, capture_output=True, text=True).stdout
        for line in filter(lambda line: not OF_GLIBC.match(line.strip()), told.splitlines()):
            assert f"=> {folder}/" in line
    # LEVELS=none: the only device is the one of the OpenCL driver.
    done = lease(folder / "lease.sh", "--quick", "--device", "0", env={"PATH": "/usr/bin:/bin"})
    text = (folder / "results/figures.txt").read_text()
    assert done.returncode == 0, done.stdout + done.stderr + text
    assert set(results(folder).values()) == {"ok"}
    steps = [name.split(":")[0] for name in results(folder)]
    assert list(dict.fromkeys(steps)) == "device kernels lookback copy bench service".split()
    assert "14 of 14 answers have the bits of the processor" in text
    assert re.search(r"^one row, int32 +\d+\.\d+ +\d+\.\d+ ", text, re.M)
    assert "Portable Computing Language" in done.stdout
    assert f"{len(steps)} of {len(steps)} commands succeeded" in done.stdout
