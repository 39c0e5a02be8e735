#!/bin/sh
# The build step of release.sh, which runs it inside the system that it created:
#
#   deploy/release-build.sh ARCH REVISION     reads /build/source and the archive beside it, writes /build/files
#
# The Python package and Debian's package of documents are the same for every architecture; they are built together
# with the files for the architecture of this machine.
set -eu
umask 022

architecture=$1 revision=$2
cd /build/source
version=$(sh deploy/version.sh)
# The time of the commit, which git gave to each file of the archive.
SOURCE_DATE_EPOCH=$(stat -c %Y Makefile)
export SOURCE_DATE_EPOCH
files=/build/files
image=$files/tally-$version-image-$architecture
mkdir "$files"

dpkg-query -W -f '${Package}:${Architecture} ${Version}\n' | LC_ALL=C sort \
    >"$files/tally-$version-built-with-$architecture.txt"

sh deploy/deb.sh "/build/tally-$version.tar.gz" /build/deb "$architecture"
cp /build/deb/*.deb "$files"

if [ "$architecture" = "$(dpkg --print-architecture)" ]; then
    for kind in wheel sdist; do
        (cd client/python && PYTHONPATH=/build/flit_core python3 -c \
            "import sys, flit_core.buildapi as build; build.build_$kind(sys.argv[1])" "$files")
    done
fi

# The image contains the programs of the Debian packages, in a file system that is built here. The last two stages of
# the Dockerfile define the labels, the settings and the entry point.
for package in tallyd tally; do
    dpkg-deb -x "/build/deb/${package}_$version-1_$architecture.deb" /build/installed
done
mkdir /build/root
sh deploy/image-root.sh /build/installed/usr/bin /build/root/image "$version"
cp /build/root/image/usr/share/doc/tally/sbom.spdx.json "$image.spdx.json"
buildah --storage-driver vfs bud --quiet --isolation chroot --format docker --timestamp "$SOURCE_DATE_EPOCH" \
    --arch "$architecture" --build-context root=/build/root --build-arg BASE=scratch --build-arg REVISION="$revision" \
    --build-arg CREATED="$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" --tag tally .
buildah --storage-driver vfs push --quiet --format v2s2 tally dir:/build/pushed
python3 deploy/oci_archive.py /build/pushed "tally:$version" "$image.oci.tar"
