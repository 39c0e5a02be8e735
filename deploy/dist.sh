#!/bin/sh
# Make an archive of this commit's source. Its bytes do not depend on time and machine:
#
#   deploy/dist.sh          writes build/dist/tally-VERSION.tar.gz and its SHA-256
set -eu

cd "$(dirname "$0")/.."
name=tally-$(sh deploy/version.sh)
mkdir -p build/dist
# git's tar has the commit's time for every file; gzip -n omits the current time. Without a pipe the failure of each
# step ends the script; the archive gets its final name when it is complete.
trap 'rm -f "build/dist/$name.tar.new" "build/dist/$name.tar.gz.new"' EXIT
git archive --format=tar --prefix="$name/" --output="build/dist/$name.tar.new" HEAD
gzip -9 -n <"build/dist/$name.tar.new" >"build/dist/$name.tar.gz.new"
mv "build/dist/$name.tar.gz.new" "build/dist/$name.tar.gz"
rm -f "build/dist/$name.tar.new"
trap - EXIT
cd build/dist
sha256sum "$name.tar.gz" | tee "$name.tar.gz.sha256"
