#!/bin/sh
# Lay out the file system of the small image from this tree and the libraries of this Debian system, without building
# an image; needs root:
#
#   tests/fleet/root.sh ROOT
#
# What is installed for that (make install) is seen by nobody else: /usr/local is another folder here, in a mount
# namespace of its own.
set -eu

if [ "$1" != inside ]; then
    rm -rf "$1" "$1.installed"
    mkdir -p "$1"
    root=$(cd "$1" && pwd)
    cd "$(dirname "$0")/../.."
    ${MAKE:-make} --no-print-directory -s install-built DESTDIR="$root.installed"
    exec unshare --mount -- sh tests/fleet/root.sh inside "$root"
fi
mount --make-rprivate /
mount --bind "$2.installed/usr/local" /usr/local
sh deploy/image-root.sh "$2" "$(sh deploy/version.sh)"
