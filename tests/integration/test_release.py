"""Releases: one version everywhere, a reproducible archive, an image build with everything that
`make install` names, and the contents of an image."""

import fnmatch
import gzip
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tomllib

import pytest
from spdx_tools.spdx.model import RelationshipType
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from support.tallyd import BINARY, TOP

sys.path.insert(0, str(TOP / "tests"))

import lint_docs  # noqa: E402

STATUS = """Package: {name}
Status: install ok installed
Maintainer: Some "One" <some@debian.org>
Architecture: amd64
Version: {version}
Depends: libc6 (>= 2.36)
Description: a library
 of many lines
"""


def run(*command, cwd=TOP, **options):
    return subprocess.run(
        command, cwd=cwd, check=True, capture_output=True, text=True, **options
    ).stdout


def sha256(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


VERSION = run("sh", "deploy/version.sh").strip()


def test_the_version_of_the_makefile_is_everywhere(client):
    assert f"VERSION := {VERSION}\n" in (TOP / "Makefile").read_text()
    run("sh", "deploy/version.sh", "check")
    assert run(BINARY, "--version") == f"tallyd {VERSION}\n"
    assert f'"tallyd {VERSION}"' in (TOP / "build/man/tallyd.8").read_text()
    tally = pathlib.Path(BINARY).parent / "tally"
    assert VERSION in run(tally, "--version")
    assert client.get("/version").json()["version"] == VERSION
    assert client.get("/openapi.json").json()["info"]["version"] == VERSION
    project = tomllib.loads((TOP / "client/python/pyproject.toml").read_text())["project"]
    assert project["dynamic"] == ["version"]  # tally.__version__, which version.sh checks
    assert f"## {VERSION} - " in (TOP / "CHANGELOG.md").read_text()


def test_another_version_is_found_wherever_it_stands_and_written_from_the_makefile(tmp_path):
    files = re.findall(r"^(\S+) s/", (TOP / "deploy/version.sh").read_text(), re.M)
    assert len(files) >= 8
    for name in [*files, "Makefile", "deploy/version.sh"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((TOP / name).read_bytes())
    makefile = tmp_path / "Makefile"
    makefile.write_text(makefile.read_text().replace(f"VERSION := {VERSION}", "VERSION := 98.7.6"))
    found = subprocess.run(
        ["sh", "deploy/version.sh", "check"], cwd=tmp_path, capture_output=True, text=True
    )
    assert found.returncode == 1
    assert [line.split(":")[0] for line in found.stdout.splitlines()] == files
    run("sh", "deploy/version.sh", "write", cwd=tmp_path)
    run("sh", "deploy/version.sh", "check", cwd=tmp_path)
    for name in files:
        assert "98.7.6" in (tmp_path / name).read_text()


@pytest.mark.parametrize(
    "tag, changelog, said",
    [
        (f"v{VERSION}", f"## {VERSION} - 2026-11-21\n", ""),
        (VERSION, f"## {VERSION} - 2026-11-21\n", f'the tag is "{VERSION}"'),
        ("v98.7.6", f"## {VERSION} - 2026-11-21\n", 'the tag is "v98.7.6"'),
        (f"v{VERSION}", "## 98.7.6 - 2026-11-21\n", "has no section"),
        (f"v{VERSION}", f"## Unreleased\n\n## {VERSION} - 2026-11-21\n", "Unreleased"),
    ],
)
def test_a_tag_is_of_the_version_that_the_changelog_ends_with(tmp_path, tag, changelog, said):
    (tmp_path / "deploy").mkdir()
    for name in ("Makefile", "deploy/version.sh"):
        (tmp_path / name).write_bytes((TOP / name).read_bytes())
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    command = ["sh", "deploy/version.sh", "tag", tag]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == (said != "") and said in ran.stderr and (said or not ran.stderr)


def test_without_a_commit_there_is_no_archive(tmp_path):
    for name in ("Makefile", "deploy/dist.sh", "deploy/version.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((TOP / name).read_bytes())
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    ran = subprocess.run(
        ["sh", "deploy/dist.sh"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert ran.returncode != 0 and "git repository" in ran.stderr, ran
    assert list((tmp_path / "build/dist").iterdir()) == []


def test_packages_are_built_with_every_library_that_a_build_installs():
    script = (TOP / "deploy/install-deps.sh").read_text()
    packages = re.search(r'^run_packages="(.*?)"', script, re.M | re.S)[1].split()
    control = (TOP / "deploy/debian/control").read_text()
    wanted = re.search(r"^Build-Depends:(.*?)^\S", control, re.M | re.S)[1]
    # every build has libc6-dev
    libraries = {name for name in packages if name.endswith("-dev")} - {"libc6-dev"}
    assert libraries <= set(re.findall(r"[\w.+-]+", wanted))


def test_whoever_builds_packages_gets_all_that_dpkg_asks_for():
    script = (TOP / "deploy/install-deps.sh").read_text()
    lists = re.findall(r'^(?:run|release)_packages="(.*?)"', script, re.M | re.S)
    installed = {name for packages in lists for name in packages.split()}
    control = (TOP / "deploy/debian/control").read_text()
    wanted = re.search(r"^Build-Depends:(.*?)^\S", control, re.M | re.S)[1]
    wanted = wanted.replace("debhelper-compat (= 13)", "debhelper")
    # The build also needs build-essential, on which no package depends by name.
    for needed in ("build-essential", *wanted.split(",")):
        assert installed & set(re.findall(r"[\w.+-]+", needed)), needed


def test_the_archive_of_a_commit_is_the_same_each_time_and_has_every_file(tmp_path):
    clone = tmp_path / "clone"
    run("git", "clone", "-q", "--no-hardlinks", str(TOP), str(clone))
    digests = set()
    for umask in (0o022, 0o077):
        run("sh", "deploy/dist.sh", cwd=clone, umask=umask)
        archive = clone / f"build/dist/tally-{VERSION}.tar.gz"
        digests.add(hashlib.sha256(archive.read_bytes()).hexdigest())
    assert len(digests) == 1
    assert digests.pop() in (clone / f"build/dist/tally-{VERSION}.tar.gz.sha256").read_text()
    with tarfile.open(archive) as tar:
        names = {member.name for member in tar if member.isfile()}
    tracked = run("git", "ls-files", cwd=clone).split("\n")[:-1]
    assert names == {f"tally-{VERSION}/{name}" for name in tracked}


def passes_dockerignore(name, patterns):
    """Docker's rule: the last pattern that matches a path or a folder above it decides."""
    ignored = False
    parts = name.split("/")
    paths = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    for pattern in patterns:
        depth = pattern.lstrip("!").count("/")
        if any(
            fnmatch.fnmatchcase(path, pattern.lstrip("!"))
            for path in paths
            if path.count("/") == depth
        ):
            ignored = not pattern.startswith("!")
    return not ignored


def test_what_an_image_is_built_of_passes_dockerignore(tmp_path):
    """Every file that the build and `make install` name must pass, if it is in git."""
    patterns = (TOP / ".dockerignore").read_text().split()
    tracked = run("git", "ls-files").split("\n")[:-1]
    kept = [name for name in tracked if passes_dockerignore(name, patterns)]
    for name in kept:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(TOP / name, tmp_path / name)
    show = (
        "show: ; @printf '%s\\n' $(DOCUMENTS) $(PROTO_SRC) $(KERNEL_SRC) $(SERVER_SRC) $(CLIENT_SRC) $(CLI_SRC)"
        " $(AHEAD_SRC) $(LIST_SRC) $(FRAGMENTS) $(MAKER_SRC) $(MANUAL_SRC)"
    )
    named = set(run("make", "-s", f"--eval={show}", "show").split())
    assert len(named) > 200
    missing = {name for name in named if not (tmp_path / name).exists()}
    assert not missing
    # The recipes of `make install` without its prerequisites.
    recipes = run("make", "-n", "-o", "all", "-o", "client", "-o", "opencl", "install-built")
    words = {word for word in re.split(r"[\s;']+", recipes) if word and "=" not in word}
    used = {name for word in words for name in tracked if fnmatch.fnmatchcase(name, word)}
    assert {"deploy/tallyd.service", "client/tally.pc.in", "client/man/tally.1"} <= used
    assert used <= set(kept), used - set(kept)
    dockerfile = (TOP / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", dockerfile, re.M)
    for name in " ".join(copied).split():
        assert name == "." or name in kept


@pytest.mark.release_only
def test_an_installation_is_whole_and_for_everybody_to_read(tmp_path):
    """The umask forbids access by other users, and the name of the folder has a blank."""
    make = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    settings = (f"DESTDIR={tmp_path}/a b", "PREFIX=/opt/tally")
    run("make", "-s", "install-built", *settings, umask=0o077, env=make)
    assert [path.name for path in tmp_path.iterdir()] == ["a b"]
    top = tmp_path / "a b/opt/tally"
    kept = [path for path in top.rglob("*") if path.stat().st_mode & 0o044 != 0o044]
    assert kept == []
    assert "prefix=/opt/tally\n" in (top / "lib/pkgconfig/tally.pc").read_text()
    driver = (top / "etc/OpenCL/vendors/tally.icd").read_text().rstrip()
    assert (tmp_path / f"a b{driver}").is_file()
    documents = top / "share/doc/tally"
    pages = list(documents.rglob("*.md"))
    assert len(pages) > 40
    for page in pages:
        for target in lint_docs.LINK.findall(page.read_text()):
            assert lint_docs.link_fault(None, page, target) is None, (page.name, target)


@pytest.mark.parametrize("setting", ["PREFIX=/opt/a b", "LIBDIR=/opt/a b"])
def test_a_prefix_that_its_readers_would_cut_at_a_blank_is_refused(setting):
    command = ["make", "-n", "install", setting]
    ran = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    assert ran.returncode == 2 and "a path with a blank" in ran.stderr


def test_the_root_of_an_image_has_each_library_that_the_loader_would_load(tmp_path):
    """The libraries are determined from the programs' ELF entries alone: nothing is run, so the
    programs may be of another architecture."""
    folder = pathlib.Path(BINARY).parent
    trees = []
    for number in (1, 2):
        root = tmp_path / str(number)
        run(
            *("sh", "deploy/image-root.sh", str(folder), str(root), VERSION),
            env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
            umask=0o022 if number == 1 else 0o077,
        )
        paths = sorted(path for path in root.rglob("*") if path.is_file())
        trees.append(
            [(path.relative_to(root), path.stat().st_mode, path.read_bytes()) for path in paths]
        )
    assert trees[0] == trees[1]
    loaded = run("ldd", str(folder / "tallyd"), str(folder / "tally"))
    libraries = set(re.findall(r"(?:=> |^\t)(/\S+) \(0x", loaded, re.M))
    assert len(libraries) > 10
    names = {path.name for path, _, _ in trees[0]}
    assert {pathlib.Path(library).name for library in libraries} <= names
    assert {"tallyd", "tally", "ca-certificates.crt", "libc6", "passwd"} <= names
    document = parse_file(str(tmp_path / "1/usr/share/doc/tally/sbom.spdx.json"))
    assert not validate_full_spdx_document(document)


def test_the_root_of_an_image_is_made_of_programs_of_a_known_architecture(tmp_path):
    header = bytearray(pathlib.Path(BINARY).read_bytes()[:64])
    header[18:20] = (243).to_bytes(2, "little")  # e_machine: RISC-V
    header[40:64] = bytes(24)  # the file has no section headers
    for name in ("tallyd", "tally"):
        (tmp_path / name).write_bytes(header)
    command = ["sh", "deploy/image-root.sh", str(tmp_path), str(tmp_path / "root"), VERSION]
    ran = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    assert ran.returncode == 1 and 'the architecture "RISC-V"' in ran.stderr


def test_an_archive_of_an_image_is_the_same_for_the_same_image(tmp_path):
    """The archive does not depend on the container that created the image, although Docker's
    configuration names it."""
    layer = gzip.compress(b"a layer", mtime=0)
    archives = []
    for container in ("one", "another"):
        folder = tmp_path / container
        folder.mkdir()
        config = {
            "architecture": "arm64",
            "os": "linux",
            "created": "2026-11-21T00:00:00Z",
            "config": {
                "User": "65532:65532",
                "Healthcheck": {"Test": ["CMD", "tally"]},
                "Hostname": container,
            },
            "rootfs": {"type": "layers", "diff_ids": [sha256(b"a layer")]},
            "container": container,
            "docker_version": container,
        }
        entries = []
        for content in (json.dumps(config).encode(), layer):
            (folder / sha256(content).split(":")[1]).write_bytes(content)
            entries.append({"digest": sha256(content), "size": len(content)})
        manifest = {"config": entries[0], "layers": entries[1:]}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        archive = tmp_path / f"{container}.tar"
        run(sys.executable, "deploy/oci_archive.py", str(folder), "tally:1.2.3", str(archive))
        archives.append(archive)
    assert archives[0].read_bytes() == archives[1].read_bytes()
    with tarfile.open(archives[0]) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}
    (image,) = json.loads(files["index.json"])["manifests"]
    assert image["platform"] == {"architecture": "arm64", "os": "linux"}
    assert image["annotations"] == {"org.opencontainers.image.ref.name": "1.2.3"}
    manifest = json.loads(files["blobs/" + image["digest"].replace(":", "/")])
    kept = json.loads(files["blobs/" + manifest["config"]["digest"].replace(":", "/")])
    assert kept["config"] == {"User": "65532:65532", "Healthcheck": {"Test": ["CMD", "tally"]}}
    assert files["blobs/" + manifest["layers"][0]["digest"].replace(":", "/")] == layer
    (docker,) = json.loads(files["manifest.json"])  # the file that `docker load` reads
    assert docker["RepoTags"] == ["tally:1.2.3"] and {docker["Config"], *docker["Layers"]} <= set(
        files
    )


def test_an_image_with_a_broken_layer_is_not_packed(tmp_path):
    entries = []
    for content in (b'{"config": {}}', b"a layer"):
        (tmp_path / sha256(content).split(":")[1]).write_bytes(content)
        entries.append({"digest": sha256(content), "size": len(content)})
    (tmp_path / sha256(b"a layer").split(":")[1]).write_bytes(b"another")
    (tmp_path / "manifest.json").write_text(
        json.dumps({"config": entries[0], "layers": entries[1:]})
    )
    command = [sys.executable, "deploy/oci_archive.py", str(tmp_path), "a:b", str(tmp_path / "tar")]
    ran = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    assert ran.returncode == 1 and "has not the bytes of its name" in ran.stderr
    assert not (tmp_path / "tar").exists()


NOTICE = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Source: somewhere

Files: debian/*
License: GPL-3+

Files: *
Copyright: somebody
License: {license}
 text of the licence

License: ISC
"""
LICENSES = {
    "libc6": (None, "NOASSERTION"),  # a text that only people can interpret
    "libstdc++6": (
        "LGPL-2.1+ or Expat and BSD-3-clause",
        "LGPL-2.1-or-later OR MIT AND BSD-3-Clause",
    ),
    "libk": ('GPL-2 with a "word" more', "LicenseRef-libk-GPL-2-with-a--word--more"),
}
BASE_DIGEST = "0123456789abcdef" * 4


@pytest.fixture
def image_root(tmp_path):
    """A small model of the folder that deploy/image-root.sh lays out."""
    root = tmp_path / "root"

    def put(name, text):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    versions = {"libc6": "2.41-12", "libstdc++6": "14.2.0-19", "libk": "1:5.0~rc1+dfsg-2"}
    for name, version in versions.items():
        license = LICENSES[name][0]
        notice = "It is free.\n" if license is None else NOTICE.format(license=license)
        files = [f"usr/share/doc/{name}/copyright", f"usr/lib/{name}.so.1"]
        put(files[0], notice)
        put(files[1], f"of {name}")
        put(f"var/lib/dpkg/status.d/{name}", STATUS.format(name=name, version=version))
        put(f"var/lib/dpkg/status.d/{name}.md5sums", "".join(f"0  {file}\n" for file in files))
    for name in ("usr/local/bin/tallyd", "usr/local/bin/tally", "etc/a file"):
        put(name, name)
    put("usr/share/doc/tally/sbom.spdx.json", "")  # the shell creates the file before it is written
    put("os-release", 'ID=debian\nVERSION_ID="13"\n')
    (root / "os-release").rename(tmp_path / "os-release")
    return root, versions


def list_parts(root, base, time="1700000000"):
    environment = {**os.environ, "OS_RELEASE": str(root.parent / "os-release")}
    return run("sh", "deploy/sbom.sh", str(root), VERSION, base, time, env=environment)


def test_the_list_of_what_an_image_is_made_of_is_valid_and_complete(image_root, tmp_path):
    root, versions = image_root
    text = list_parts(root, "")
    assert text == list_parts(root, "")
    path = tmp_path / "sbom.spdx.json"
    path.write_text(text)
    document = parse_file(str(path))
    assert not validate_full_spdx_document(document)
    assert {package.name: package.version for package in document.packages} == {
        "tally": VERSION,
        **versions,
    }
    needed = [
        relation
        for relation in document.relationships
        if relation.relationship_type == RelationshipType.DEPENDS_ON
    ]
    assert len(needed) == len(versions)
    purls = [
        package["externalRefs"][0]["referenceLocator"] for package in json.loads(text)["packages"]
    ]
    assert purls[1:] == [
        "pkg:deb/debian/libc6@2.41-12?arch=amd64&distro=debian-13",
        "pkg:deb/debian/libk@1%3A5.0~rc1%2Bdfsg-2?arch=amd64&distro=debian-13",
        "pkg:deb/debian/libstdc%2B%2B6@14.2.0-19?arch=amd64&distro=debian-13",
    ]
    (root / "usr/lib/libk.so.1").write_text("another")
    changed = json.loads(list_parts(root, ""))
    assert changed["documentNamespace"] != json.loads(text)["documentNamespace"]


def test_each_file_of_an_image_is_listed_with_its_hashes_and_whose_it_is(image_root):
    root, versions = image_root
    document = json.loads(list_parts(root, ""))
    sums = {}
    for entry in document["files"]:
        content = (root / entry["fileName"]).read_bytes()
        assert {each["algorithm"]: each["checksumValue"] for each in entry["checksums"]} == {
            "SHA1": hashlib.sha1(content).hexdigest(),
            "SHA256": hashlib.sha256(content).hexdigest(),
        }
        sums[entry["SPDXID"]] = hashlib.sha1(content).hexdigest()
    named = sorted(entry["fileName"] for entry in document["files"])
    there = [path for path in root.rglob("*") if path.is_file() and "dpkg" not in path.parts]
    assert named == sorted(
        f"./{path.relative_to(root)}" for path in there if path.name != "sbom.spdx.json"
    )
    names = {package["SPDXID"]: package["name"] for package in document["packages"]}
    files = {entry["SPDXID"]: entry["fileName"] for entry in document["files"]}
    contained = {name: [] for name in names}
    for relation in document["relationships"]:
        if relation["relationshipType"] == "CONTAINS":
            contained[relation["spdxElementId"]].append(relation["relatedSpdxElement"])
    for package in document["packages"]:
        its = contained[package["SPDXID"]]
        if package["name"] in versions:
            assert len(its) == 2 and all(package["name"] in files[file] for file in its)
        code = hashlib.sha1("".join(sorted(sums[file] for file in its)).encode()).hexdigest()
        assert package["packageVerificationCode"]["packageVerificationCodeValue"] == code
    assert sum(map(len, contained.values())) == len(files)


def test_licences_of_an_image_are_those_that_its_notices_declare(image_root):
    document = json.loads(list_parts(image_root[0], ""))
    declared = {package["name"]: package["licenseDeclared"] for package in document["packages"]}
    assert declared.pop("tally") == "Apache-2.0"
    assert declared == {name: expected for name, (_, expected) in LICENSES.items()}
    (reference,) = document["hasExtractedLicensingInfos"]
    assert reference["licenseId"] == LICENSES["libk"][1]
    assert reference["name"] == LICENSES["libk"][0]


@pytest.mark.parametrize(
    "base, name, tag, digest",
    [
        (f"docker.io/library/debian:trixie-slim@sha256:{BASE_DIGEST}",)
        + ("docker.io/library/debian", "trixie-slim", BASE_DIGEST),
        ("localhost:5000/debian", "localhost:5000/debian", "latest", None),
    ],
)
def test_an_image_says_what_it_was_built_on(image_root, tmp_path, base, name, tag, digest):
    text = list_parts(image_root[0], base)
    path = tmp_path / "sbom.spdx.json"
    path.write_text(text)
    assert not validate_full_spdx_document(parse_file(str(path)))
    (found,) = [part for part in json.loads(text)["packages"] if part["name"] == name]
    assert found["versionInfo"] == tag
    if digest is None:
        assert "checksums" not in found and "without a digest" in found["comment"]
    else:
        assert found["checksums"] == [{"algorithm": "SHA256", "checksumValue": digest}]


TOOL = """#!/bin/sh
echo "$@" >>"{log}"
case $1 in
pull) {pull} ;;
image) echo '{digests}' ;;
esac
"""


@pytest.mark.parametrize(
    "settings, pull, digests, base",
    [
        ({}, "true", f"debian@sha256:{BASE_DIGEST}", "{default}@sha256:{digest}"),
        ({}, "false", f"debian@sha256:{BASE_DIGEST}", "{default}"),  # no network
        ({}, "true", "<no value>", "{default}"),
        ({"BASE": "a/b:c"}, "true", f"a/b@sha256:{BASE_DIGEST}", "a/b:c@sha256:{digest}"),
        ({"BASE": "a@sha256:ff"}, "false", "", "a@sha256:ff"),
    ],
)
def test_images_are_built_on_the_base_whose_digest_they_say(
    tmp_path, settings, pull, digests, base
):
    log = tmp_path / "log"
    (tmp_path / "docker").write_text(TOOL.format(log=log, pull=pull, digests=digests))
    (tmp_path / "docker").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "CONTAINER_TOOL": "docker", **settings}
    run("sh", "tests/image/build.sh", env=environment)
    dockerfile = (TOP / "Dockerfile").read_text()
    default = re.search(r"^ARG BASE=(\S+)$", dockerfile, re.M)[1]
    expected = "--build-arg BASE=" + base.format(default=default, digest=BASE_DIGEST) + " "
    builds = [line for line in log.read_text().splitlines() if line.startswith("build ")]
    assert len(builds) == 2 and all(expected in line for line in builds)
    # The files of deploy/kubernetes/ use these names.
    assert log.read_text().splitlines()[-1] == f"tag tally:latest tally:{VERSION}"
    assert 'org.opencontainers.image.base.name="${BASE}"' in dockerfile
    assert '/image "$VERSION" "$BASE"\n' in dockerfile
