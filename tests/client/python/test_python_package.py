"""The package as users get it: built by its own build system, installed from the wheel into a fresh
environment that has only NumPy, later dask as well, and used there."""

import email
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import venv
import zipfile

import pytest
from packaging.requirements import Requirement

import tally
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
    """Build as a build frontend does: call the hook of the backend that pyproject.toml names."""
    folder.mkdir(exist_ok=True)
    hook = f"import sys, flit_core.buildapi as b; print(b.build_{kind}(sys.argv[1]))"
    return folder / run(sys.executable, "-c", hook, folder, cwd=source).split()[-1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist of the tree, and the wheel built from the sdist."""
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


def metadata(wheel):
    (name,) = (name for name in contents(wheel) if name.endswith(".dist-info/METADATA"))
    return contents(wheel)[name]


def test_the_sdist_holds_all_that_the_wheel_is_made_of(built, tmp_path):
    assert contents(built[1]) == contents(build("wheel", PACKAGE, tmp_path))


def test_the_wheel_is_whole_and_of_this_version(built):
    version = re.search(r"^VERSION := (\S+)", (TOP / "Makefile").read_text(), re.M)[1]
    names = contents(built[1])
    assert built[1].name == f"tally_client-{version}-py3-none-any.whl"
    files = [path for path in (PACKAGE / "tally").rglob("*") if path.suffix in (".py", ".typed")]
    sources = {str(path.relative_to(PACKAGE)) for path in files}
    assert sources <= set(names) and {"tally/py.typed", "tally/dask/__init__.py"} <= sources
    said = metadata(built[1]).decode()
    assert "Requires-Dist: numpy>=" in said and "# tally" in said
    assert said.count("Requires-Dist:") == 1 + said.count("; extra ==")


def test_the_wheel_has_the_license_the_author_and_the_address_of_the_project(built):
    said = email.message_from_bytes(metadata(built[1]))
    assert said["Name"] == "tally-client" and said["License-Expression"] == "Apache-2.0"
    assert said["License-File"] == "LICENSE" and "authors of Tally" in said["Author"]
    assert said["Project-URL"].startswith("Homepage, https://")
    (text,) = (text for name, text in contents(built[1]).items() if name.endswith("/LICENSE"))
    assert text == (TOP / "LICENSE").read_bytes()


def test_pages_and_messages_call_the_distribution_by_its_name():
    """Pages contain the name in commands that install the package, and before the names of
    extras."""
    pages = [TOP / "README.md", *(TOP / "docs").rglob("*.md"), *(TOP / "deploy").rglob("*.md")]
    pages += [PACKAGE / "README.md", *(PACKAGE / "tally").rglob("*.py")]
    pages.append(TOP / "CHANGELOG.md")
    installs = re.compile(r"pip install '?\./client/python")
    installing = [page for page in pages if installs.search(page.read_text())]
    assert PACKAGE / "README.md" in installing and len(installing) >= 4
    for page in pages:
        text = page.read_text()
        assert page not in installing or "tally-client" in text, page
        assert not re.search(r"pip install '?tally\b|\btally\[", text), page


def test_the_pages_and_help_say_that_the_default_axis_is_not_that_of_http():
    texts = [(PACKAGE / "README.md").read_text(), (TOP / "docs/clients/python.md").read_text()]
    for text in (*texts, tally.Client.cumsum.__doc__):
        words = " ".join(text.split())
        assert re.search(r"HTTP service (is 0|\(0\))", words) and "as in pandas" in words


def link(requirements, extras, fresh):
    """Install the requirements of a package's metadata into an environment by linking their files
    from this one, with all indirect requirements. No index is used."""
    for words in requirements or ():
        wanted = Requirement(words)
        if wanted.marker and not any(wanted.marker.evaluate({"extra": one}) for one in extras):
            continue
        package = importlib.metadata.distribution(wanted.name)
        entries = {file.parts[0] for file in package.files} - {"..", "__pycache__"}
        missing = [entry for entry in entries if not (fresh / entry).exists()]
        for entry in missing:
            (fresh / entry).symlink_to(package.locate_file(entry))
        if missing or wanted.extras:
            link(package.requires, wanted.extras or [""], fresh)


def test_the_wheel_works_in_a_fresh_environment_and_its_extra_for_dask_too(built, server, tmp_path):
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    (fresh,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    environment = {**os.environ, "PYTHONPATH": "", "TALLY_URL": server.url}
    requirements = email.message_from_bytes(metadata(built[1])).get_all("Requires-Dist")

    def installed(extra):
        link(requirements, [extra], fresh)
        what = f"{built[1]}[{extra}]" if extra else built[1]
        # pip fails if a requirement of the wheel is missing.
        run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", what)

    installed("")
    assert (fresh / "tally" / "__init__.py").exists() and not (fresh / "dask").exists()
    program = programs_of("python")[0]  # the program on the package's page
    sums = run(python, "-W", "error", "-c", program.text, cwd=tmp_path, env=environment)
    assert sums == program.output
    for line, words in (
        ("import tally.dask", "tally.dask needs dask, which the extra tally-client[dask]"),
        (
            "import tally; tally.Client().cumsum([1], dtype='bfloat16')",
            "bfloat16 needs ml_dtypes, which the extra tally-client[bfloat16]",
        ),
    ):
        command = [python, "-c", line]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 1 and words in done.stderr

    installed("dask")
    lines = (  # the program of docs/dask.md, run on files
        "import dask.array as da, distributed, tally.dask",
        "da.arange(6, chunks=2).to_zarr('in.zarr')",
        "d = da.from_zarr('in.zarr')",
        "tally.dask.cumsum(d, axis=0).to_zarr('out.zarr')",
        "print(da.from_zarr('out.zarr').compute(scheduler='sync').tolist())",
    )
    sums = run(python, "-c", "\n".join(lines), cwd=tmp_path, env=environment)
    assert sums == "[0, 1, 3, 6, 10, 15]\n"
