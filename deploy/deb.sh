#!/bin/sh
# Debian packages of this commit, in build/deb/, built from the archive that `make dist` makes:
#
#   deploy/deb.sh          ends with what lintian says of them, and fails if it finds anything
#
# The packaging is deploy/debian; its changelog is made here, of the version and the commit's time.
set -eu

cd "$(dirname "$0")/.."
version=$(sh deploy/version.sh)
date=$(git log -1 --format=%cD)
rm -rf build/deb
mkdir -p build/deb
tar -xzf "build/dist/tally-$version.tar.gz" -C build/deb
cd "build/deb/tally-$version"
cp -r deploy/debian debian
cat >debian/changelog <<END
tally ($version-1) unstable; urgency=medium

  * Version $version: see /usr/share/doc/tally/CHANGELOG.md of tally-doc.

 -- $(sed -n 's/^Maintainer: //p' debian/control)  $date
END
dpkg-buildpackage --build=binary --no-sign >../build.log 2>&1 || {
    tail -n 40 ../build.log
    exit 1
}
cd ..
# They are not for an upload to Debian, so there is no request for them to close.
lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs ./*.changes
ls -l ./*.deb
