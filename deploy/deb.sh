#!/bin/sh
# Build the Debian packages of a source archive, for the architecture of this system or another one:
#
#   deploy/deb.sh ARCHIVE FOLDER [ARCHITECTURE]      FOLDER is emptied and gets the packages; then lintian checks
#                                                    them, and the script fails if lintian reports anything
#
# The packaging is deploy/debian. Its changelog is generated from the version and the time of the commit, which is the
# time of the files in the archive (dist.sh). The package of documents, which is for every architecture, is built
# together with those for the architecture of this system.
set -eu

archive=$(realpath "$1") folder=$2 architecture=${3:-$(dpkg --print-architecture)}
build=binary
[ "$architecture" = "$(dpkg --print-architecture)" ] || build=any
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
tar -xzf "$archive"
cd tally-*
version=$(sh deploy/version.sh)
date=$(date -R -u -d "@$(stat -c %Y Makefile)")
cp -r deploy/debian debian
cat >debian/changelog <<END
tally ($version-1) unstable; urgency=medium

  * Version $version: see /usr/share/doc/tally/CHANGELOG.md of tally-doc.

 -- $(sed -n 's/^Maintainer: //p' debian/control)  $date
END
dpkg-buildpackage --build="$build" --host-arch "$architecture" --no-sign >../build.log 2>&1 || {
    tail -n 40 ../build.log
    exit 1
}
cd ..
# The packages are not for an upload to Debian, so there is no bug report for them to close.
lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs ./*.changes
ls -l ./*.deb
