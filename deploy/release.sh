#!/bin/sh
# Make all files of a release of this commit; each run gives the same bytes:
#
#   deploy/release.sh [FOLDER]       FOLDER (build/release-files) gets them; needs root
#
#   tally-VERSION.tar.gz                     the source (dist.sh)
#   tally_client-VERSION...                  the Python package, as a wheel and as a source archive
#   *_ARCH.deb                               Debian packages (deb.sh), with those of debugging symbols
#   tally-VERSION-image-ARCH.oci.tar         the container image, as an OCI archive
#   tally-VERSION-image-ARCH.spdx.json       the list of the image's components
#   tally-VERSION-built-with-ARCH.txt        the packages of the build system, with their versions
#   tally-VERSION-changes.md                 the section of this version in the changelog
#   SHA256SUMS                               the SHA-256 of each file
#
# ARCH is amd64 and arm64. Each architecture is built in a separate Debian system without a network, of the Debian
# release on which the Dockerfile builds. Both systems have this machine's architecture; one of them also has cross
# compilers and the libraries of the other architecture, and runs none of the programs that it builds. The bytes
# therefore depend only on the commit and on the packages of these systems. The systems are kept in
# build/release-roots/ for the next run; remove that folder to get newer packages.
#
# MIRROR and SECURITY_MIRROR: sources of Debian's packages (deb.debian.org). With the mirrors of snapshot.debian.org
# the systems have the packages of another day.
set -eu
umask 022

cd "$(dirname "$0")/.."
out=${1:-build/release-files}
suite=$(sed -n 's/^ARG BASE=.*:\([a-z]*\)-slim$/\1/p' Dockerfile)
mirror=${MIRROR:-http://deb.debian.org/debian}
security=${SECURITY_MIRROR:-http://deb.debian.org/debian-security}
architectures='amd64 arm64'
version=$(sh deploy/version.sh)
native=$(dpkg --print-architecture)

die() {
    echo "release: $*" >&2
    exit 1
}

# changes: print the section of this version in the changelog, without its heading.
changes() {
    awk -v heading="## $version " '
        index($0 " ", heading) == 1 { inside = 1; next }
        /^## / { inside = 0 }
        inside && (NF || begun) { begun = 1; print }' CHANGELOG.md
}

# packages_for ARCH: print the packages of the build system in addition to those for building any package. The
# libraries are those of deploy/debian/control; buildah packs the image, and does not start without netavark.
packages_for() {
    echo "buildah netavark ca-certificates clang debhelper lintian opencl-headers python3"
    libraries=$(sed -n -E '/^Build-Depends:/,/^[S-Z]/s/^.* ([a-z0-9.+-]*-dev(:native)?),?$/\1/p' deploy/debian/control)
    for library in $libraries; do
        case $library in
        *:native) echo "${library%:native}:$native" ;;
        *) echo "$library:$1" ;;
        esac
    done
    [ "$1" = "$native" ] || echo "crossbuild-essential-$1 libc6-dev:$1 libstdc++6:$1"
}

# make_system ARCH: create build/release-roots/SUITE-ARCH, unless it exists and was created in the same way.
make_system() {
    system=build/release-roots/$suite-$1
    set -- "$1" --variant=buildd --architectures="$native$([ "$1" = "$native" ] || echo ",$1")" \
        --include="$(packages_for "$1" | tr ' ' '\n' | paste -sd ,)"
    sources="deb $mirror $suite main
deb $mirror $suite-updates main
deb $security $suite-security main"
    made="$* $sources"
    [ "$(cat "$system/made" 2>/dev/null)" != "$made" ] || return 0
    rm -rf --one-file-system "$system"
    mkdir -p build/release-roots
    shift
    echo "release: making the system $system" >&2
    echo "$sources" | unshare --mount -- mmdebstrap --mode=root --quiet "$@" "$suite" "$system" - || die "mmdebstrap failed"
    echo "$made" >"$system/made"
}

# build_in_system ARCH: build the files of this architecture in build/release-roots/SUITE-ARCH/build/files.
build_in_system() {
    system=$(realpath "build/release-roots/$suite-$1")
    rm -rf --one-file-system "$system/build"
    mkdir -p "$system/build/source"
    tar -xzf "build/dist/tally-$version.tar.gz" -C "$system/build/source" --strip-components=1
    cp "build/dist/tally-$version.tar.gz" "$system/build/"
    cp -r build/release-tools/flit_core "$system/build/"
    # The network namespace has only a loopback interface, which is down.
    # shellcheck disable=SC2016  # the inner shell expands them
    unshare --mount --pid --fork --net -- sh -euc '
        mount --make-rprivate /
        mount --bind "$1" "$1" # buildah wants a mount as its root
        mount -t proc proc "$1/proc"
        mount -t tmpfs tmpfs "$1/tmp"
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 chroot "$1" \
            sh /build/source/deploy/release-build.sh "$2" "$3"' sh "$system" "$1" "$revision"
}

[ "$(id -u)" = 0 ] || die "run this as root: it makes systems to build in, and changes root to them"
revision=$(git rev-parse HEAD)
[ -n "$(changes)" ] || die "CHANGELOG.md has no section \"## $version - ...\", or an empty one"
sh deploy/dist.sh

# The Python package is built by its build system, in the version that the tests use.
pin=$(grep '^flit_core==' tests/requirements.txt)
if [ ! -e "build/release-tools/$pin" ]; then
    rm -rf build/release-tools
    python3 -m venv build/release-tools/venv
    build/release-tools/venv/bin/python -m pip --disable-pip-version-check install -q --no-compile \
        --target build/release-tools/flit_core "$pin"
    : >"build/release-tools/$pin"
fi

rm -rf "$out.new"
mkdir -p "$out.new"
for architecture in $architectures; do
    make_system "$architecture"
    build_in_system "$architecture"
    cp "build/release-roots/$suite-$architecture/build/files/"* "$out.new/"
done
cp "build/dist/tally-$version.tar.gz" "$out.new/"
changes >"$out.new/tally-$version-changes.md"
chmod 644 "$out.new"/*
(cd "$out.new" && LC_ALL=C sha256sum -- * >../SHA256SUMS.new && mv ../SHA256SUMS.new SHA256SUMS)
rm -rf "$out"
mv "$out.new" "$out"
cat "$out/SHA256SUMS"
