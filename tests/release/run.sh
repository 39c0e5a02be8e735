#!/bin/sh
# Make the files of a release twice (deploy/release.sh), compare all bytes, and start the programs in the files:
#
#   tests/release/run.sh         prints "N passed, N failed"; needs root
#
# The second run uses another clone of the commit, another umask, time zone and language. An emulator
# (qemu-user-static) runs the programs for the other architecture.
cd "$(dirname "$0")/../.."
. tests/lib/checks.sh
port=${PORT:-18200}
url=http://127.0.0.1:$port
venv=$PWD/${VENV:-build/venv}
version=$(sh deploy/version.sh)
suite=$(sed -n 's/^ARG BASE=.*:\([a-z]*\)-slim$/\1/p' Dockerfile)
first=build/release-test/first
second=build/release-test/second

make_first() { sh deploy/release.sh "$first"; }

# Both runs build in the same Debian systems, because the bytes may depend on the packages of these systems.
make_second() {
    rm -rf "$second"
    git clone -q --no-hardlinks . "$work/another clone"
    mkdir -p "$work/another clone/build"
    for folder in release-roots release-tools; do ln -s "$PWD/build/$folder" "$work/another clone/build/"; done
    (
        umask 077
        cd "$work/another clone"
        TZ=Pacific/Auckland LC_ALL=de_DE.UTF-8 CFLAGS=-O0 sh deploy/release.sh ../second
    )
    mv "$work/second" "$second"
}

they_are_the_same_bytes() { diff -r "$first" "$second"; }

names_expected() {
    for architecture in amd64 arm64; do
        for package in libtally-dev libtally0 libtally0-dbgsym tally tally-dbgsym tally-opencl-icd \
            tally-opencl-icd-dbgsym tallyd tallyd-dbgsym; do
            echo "${package}_$version-1_$architecture.deb"
        done
        for end in image-ARCH.oci.tar image-ARCH.spdx.json built-with-ARCH.txt; do
            echo "tally-$version-$end" | sed "s/ARCH/$architecture/"
        done
    done
    echo "tally-$version-changes.md SHA256SUMS tally-$version.tar.gz tally-doc_$version-1_all.deb" | tr ' ' '\n'
    printf '%s\n' "tally_client-$version.tar.gz" "tally_client-$version-py3-none-any.whl"
}

all_are_there() {
    names_expected | LC_ALL=C sort >"$work/expected"
    (cd "$first" && sha256sum --check --strict --quiet SHA256SUMS && find . -type f -printf '%P\n' | LC_ALL=C sort) \
        >"$work/found"
    diff "$work/expected" "$work/found" &&
        [ "$(wc -l <"$first/SHA256SUMS")" = $(($(wc -l <"$work/expected") - 1)) ]
}

changes_are_those_of_this_version() {
    sed -n "/^## $version - /,/^## [^#]/{/^## /d;p}" CHANGELOG.md | sed '1{/^$/d}' >"$work/changes"
    [ -s "$work/changes" ] && diff -B "$work/changes" "$first/tally-$version-changes.md"
}

archive_is_that_of_the_commit() {
    gzip -dc "$first/tally-$version.tar.gz" | git get-tar-commit-id | grep -x "$(git rev-parse HEAD)"
}

# Each program and library in a package is for the architecture of the package.
packages_are_of_their_architecture() {
    for package in "$first"/*.deb; do
        architecture=${package##*_} architecture=${architecture%.deb}
        [ "$(dpkg-deb -f "$package" Architecture)" = "$architecture" ] || return 1
        rm -rf "$work/unpacked"
        dpkg-deb -x "$package" "$work/unpacked"
        case $architecture in
        amd64) machine=X86-64 ;;
        arm64) machine=AArch64 ;;
        *) machine='none at all' ;;
        esac
        find "$work/unpacked" -type f \( -path '*/bin/*' -o -name '*.so' -o -name '*.so.*' -o -name '*.debug' \) \
            >"$work/programs"
        case $package in
        *_all.deb | */libtally-dev_*) ;;
        *) [ -s "$work/programs" ] || { echo "$package: no program, no library" && return 1; } ;;
        esac
        while read -r program; do
            readelf -h "$program" | grep -q "Machine:.*$machine" || { echo "$package: $program" && return 1; }
        done <"$work/programs"
    done
}

# A system may install these packages for both architectures; files with the same path must be equal then.
libraries_of_both_architectures_agree() {
    for package in libtally0 libtally-dev; do
        for architecture in amd64 arm64; do
            dpkg-deb -x "$first/${package}_$version-1_$architecture.deb" "$work/both-$architecture"
        done
    done
    (cd "$work/both-amd64" && find . -type f) | while read -r file; do
        [ ! -e "$work/both-arm64/$file" ] || cmp "$work/both-amd64/$file" "$work/both-arm64/$file" || exit 1
    done
}

package_sums() {
    PYTHONPATH=$(realpath "$first/tally_client-$version-py3-none-any.whl") "$venv/bin/python" -c \
        "import tally; assert '.whl' in tally.__file__ and tally.__version__ == '$version'
print(tally.Client('$url').cumsum([0.9, 0.5, 0.7, 0]).tolist())" | grep -F '[0.9, 1.4, 2.1, 2.1]'
}

# image_is_whole ARCH: check the configuration of the image, and unpack its file system into $work/root-ARCH.
image_is_whole() {
    archive=$first/tally-$version-image-$1.oci.tar
    "$venv/bin/python" tests/release/unpack.py "$archive" "$work/root-$1" >"$work/config" &&
        grep -F "\"architecture\": \"$1\"" "$work/config" && grep -F '"User": "65532:65532"' "$work/config" &&
        grep -F '"CMD", "/usr/local/bin/tally", "health"' "$work/config" &&
        grep -F "\"org.opencontainers.image.revision\": \"$(git rev-parse HEAD)\"" "$work/config"
}

# list_is_right ARCH
list_is_right() {
    list=$first/tally-$version-image-$1.spdx.json
    "$venv/bin/pyspdxtools" -i "$list" && python3 tests/image/check.py "$list" hashes "$work/root-$1" &&
        cmp "$list" "$work/root-$1/usr/share/doc/tally/sbom.spdx.json"
}

# inside ARCH PROGRAM ARGUMENT ...: replace this shell by a program of the image, with the restrictions of a container.
inside() {
    root=$work/root-$1
    case $1 in
    "$(dpkg --print-architecture)") shift && exec sh tests/image/chroot.sh "$root" "$@" ;;
    amd64) emulator=qemu-x86_64-static ;;
    arm64) emulator=qemu-aarch64-static ;;
    esac
    shift
    cp "$(command -v "$emulator")" "$root/emulator"
    exec sh tests/image/chroot.sh "$root" /emulator "$@"
}

# start ARCH
start() {
    started=$(date +%s.%N)
    (TALLY_LISTEN="127.0.0.1:$port" inside "$1" /usr/local/bin/tallyd) >"$work/tallyd.log" 2>&1 &
    pid=$!
    python3 tests/image/check.py "$url" ready "$started"
}

# command_is_healthy ARCH
command_is_healthy() { (TALLY_URL="$url" inside "$1" /usr/local/bin/tally health); }

check "the files are made" make_first
check "they are made again" make_second
check "both times they are the same bytes" they_are_the_same_bytes
check "all files are there, and SHA256SUMS has the sum of each" all_are_there
check "the text of the release is the section of this version in the changelog" changes_are_those_of_this_version
check "the source archive is the commit" archive_is_that_of_the_commit
check "programs in packages are for the architecture of the package" packages_are_of_their_architecture
check "libraries of both architectures can be installed side by side" libraries_of_both_architectures_agree
for architecture in amd64 arm64; do
    check "the image for $architecture is whole" image_is_whole "$architecture"
    check "the SPDX list of the image for $architecture is right" list_is_right "$architecture"
    check "tallyd of the image gets ready under the restrictions of a container" start "$architecture"
    check "the pages' examples" python3 tests/image/check.py "$url" examples
    check "the command tally of the image finds the service healthy" command_is_healthy "$architecture"
    check "the wheel gets sums from the service" package_sums
    check "SIGTERM ends the service cleanly" stop_service
done
echo "The packages in a new system:"
check "the packages are installed, run and purged" sh tests/deb/run.sh "$first" "$suite"
cat "$work/log"
checks_end
