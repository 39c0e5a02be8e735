#!/bin/sh
# Create a folder with the file system of the small image, from this tree and the libraries of this Debian system,
# without building an image:
#
#   tests/fleet/root.sh ROOT
set -eu

rm -rf "$1"
mkdir -p "$1"
root=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
${MAKE:-make} --no-print-directory -s all
sh deploy/image-root.sh build/bin "$root" "$(sh deploy/version.sh)"
