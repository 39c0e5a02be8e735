#!/bin/sh
# Lay out the image that is made from scratch (Dockerfile), on the Debian system that has Tally installed:
#
#   deploy/image-root.sh ROOT VERSION [BASE]      ROOT gets tallyd, tally, the libraries they need, certificates, a user;
#                                                 BASE is the image that this system is, for the list of what there is
#
# With each library comes its package's copyright notice, with the licences that it refers to, and, where scanners look
# for packages, its dpkg entry and the list of the package's files; usr/share/doc/tally has Tally's licence, and
# sbom.spdx.json, which says what all of it is (sbom.sh, which lies next to this).
set -eu

root=$1
programs="/usr/local/bin/tallyd /usr/local/bin/tally"

mkdir -p "$root/usr/lib" "$root/usr/lib64" "$root/etc" "$root/var/lib/dpkg/status.d"
ln -s usr/lib usr/lib64 "$root"
# shellcheck disable=SC2086  # lists of words
libraries=$(ldd $programs | awk '$2 == "=>" { print $3 } $2 ~ /^\(/ && /\// { print $1 }' | sort -u)
# shellcheck disable=SC2086
cp -L --parents $programs $libraries /etc/ssl/certs/ca-certificates.crt "$root"

# list_files PACKAGE FILE ...: these lie in ROOT, and are the package's.
list_files() {
    list=$root/var/lib/dpkg/status.d/$1.md5sums
    shift
    for file in "$@"; do
        (cd "$root" && md5sum "$(realpath --relative-to="$root" "$root$file")") >>"$list"
    done
    sort -u -o "$list" "$list"
}

for library in $libraries /usr/sbin/update-ca-certificates; do
    # Debian 12 knows some libraries by the name that the loader uses.
    package=$(dpkg-query -S "$(realpath "$library")" 2>/dev/null || dpkg-query -S "$library")
    package=${package%%:*}
    cp -L --parents "/usr/share/doc/$package/copyright" "$root"
    dpkg-query -s "$package" >"$root/var/lib/dpkg/status.d/$package"
    [ "$package" != ca-certificates ] || library=/etc/ssl/certs/ca-certificates.crt # its program made it
    list_files "$package" "$library" "/usr/share/doc/$package/copyright"
done

cp -a --parents /usr/share/common-licenses "$root"

mkdir -p "$root/usr/share/doc/tally"
cp /usr/local/share/doc/tally/LICENSE "$root/usr/share/doc/tally/copyright"
echo 'tally:x:65532:65532::/nonexistent:/usr/sbin/nologin' >"$root/etc/passwd"
echo 'tally:x:65532:' >"$root/etc/group"

sh "$(dirname "$0")/sbom.sh" "$root" "$2" "${3:-}" >"$root/usr/share/doc/tally/sbom.spdx.json"
