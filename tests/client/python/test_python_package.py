"""The package as users get it: built by its own build system, installed from the wheel into a fresh
environment that has NumPy and nothing else, and used from there."""

import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import venv
import zipfile

import numpy
import pytest

from support.pages import programs_of

TOP = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = TOP / "client" / "python"


def run(*command, **options):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=300, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(kind, source, folder):
    """What a build frontend does: the hook of the backend that pyproject.toml names."""
    folder.mkdir(exist_ok=True)
    hook = f"import sys, flit_core.buildapi as b; print(b.build_{kind}(sys.argv[1]))"
    return folder / run(sys.executable, "-c", hook, folder, cwd=source).split()[-1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist of the tree, and the wheel made from what is in the sdist."""
    folder = tmp_path_factory.mktemp("package")
    sdist = build("sdist", PACKAGE, folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return sdist, build("wheel", folder / sdist.name.removesuffix(".tar.gz"), folder / "wheel")


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: archive.read(name) for name in archive.namelist() if not name.endswith("RECORD")
        }


def test_the_sdist_holds_all_that_the_wheel_is_made_of(built, tmp_path):
    assert contents(built[1]) == contents(build("wheel", PACKAGE, tmp_path))


def test_the_wheel_is_whole_and_of_this_version(built):
    version = re.search(r"^VERSION := (\S+)", (TOP / "Makefile").read_text(), re.M)[1]
    names = contents(built[1])
    assert built[1].name == f"tally_client-{version}-py3-none-any.whl"
    files = [path for path in (PACKAGE / "tally").rglob("*") if path.suffix in (".py", ".typed")]
    sources = {str(path.relative_to(PACKAGE)) for path in files}
    assert sources <= set(names) and {"tally/py.typed", "tally/dask/__init__.py"} <= sources
    metadata = names[f"tally_client-{version}.dist-info/METADATA"].decode()
    assert "Requires-Dist: numpy>=" in metadata and "# tally" in metadata
    assert metadata.count("Requires-Dist:") == 1 + metadata.count("; extra ==")


def test_the_wheel_works_in_a_fresh_environment(built, server, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    fresh = pathlib.Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    # NumPy as it is installed here: no index is asked.
    site = pathlib.Path(numpy.__file__).parents[1]
    version = importlib.metadata.version("numpy")
    for name in ("numpy", "numpy.libs", f"numpy-{version}.dist-info"):
        if (site / name).exists():
            os.symlink(site / name, fresh / name)
    environment = {**os.environ, "PYTHONPATH": "", "TALLY_URL": server.url}
    run(python, "-m", "pip", "install", "--no-index", built[1], env=environment)
    run(python, "-m", "pip", "check", env=environment)
    assert (fresh / "tally" / "__init__.py").exists()
    program = programs_of("python")[0]  # of the package's page
    sums = run(python, "-W", "error", "-c", program.text, cwd=tmp_path, env=environment)
    assert sums == program.output
