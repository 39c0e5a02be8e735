#!/bin/sh
# Lay out the file system of the image that is made from scratch (Dockerfile, deploy/release.sh):
#
#   deploy/image-root.sh PROGRAMS ROOT VERSION [BASE]     PROGRAMS is a folder with tallyd and tally;
#                                                         ROOT gets them, the libraries they need, certificates and a
#                                                         user; BASE is the image that this system is, for the list of
#                                                         what there is
#
# The libraries are those of this Debian system, in the architecture of the programs, which may be another one than this
# machine's: none of the programs is run. ROOT also gets the copyright notice of each library's package, the licences
# that the notice refers to, and, where scanners look for packages, the dpkg entry and the list of the package's files.
# usr/share/doc/tally has Tally's licence, and sbom.spdx.json, which lists everything (sbom.sh). With SOURCE_DATE_EPOCH
# set, the same system and programs give the same bytes.
set -eu
umask 022

here=$(dirname "$0")
programs=$1 root=$2

mkdir -p "$root/usr/lib" "$root/usr/lib64" "$root/usr/local/bin" "$root/etc" "$root/var/lib/dpkg/status.d"
ln -s usr/lib usr/lib64 "$root"
cp "$programs/tallyd" "$programs/tally" "$root/usr/local/bin"

machine=$(readelf -h "$programs/tallyd" | sed -n 's/^ *Machine: *//p')
case $machine in
*X86-64) triplet=x86_64-linux-gnu ;;
AArch64) triplet=aarch64-linux-gnu ;;
*)
    echo "image-root: $programs/tallyd is of the architecture \"$machine\"; amd64 and arm64 are known" >&2
    exit 1
    ;;
esac

# names_needed FILE ...: the sonames that these ask for, and the loader.
names_needed() {
    readelf -Wdl "$@" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p; s/.*program interpreter: \(.*\)\]$/\1/p'
}

# The libraries that the programs need, and those that these need in turn.
libraries='' names=$(names_needed "$programs/tallyd" "$programs/tally")
while [ -n "$names" ]; do
    found=''
    for name in $names; do
        case $name in
        /*) library=$name ;;
        *) library=/usr/lib/$triplet/$name ;;
        esac
        case " $libraries $found " in
        *" $library "*) continue ;;
        esac
        [ -e "$library" ] || {
            echo "image-root: $library is needed, and no package of this system has it" >&2
            exit 1
        }
        found="$found $library"
    done
    libraries="$libraries $found" names=''
    # shellcheck disable=SC2086  # a list of words
    [ -z "$found" ] || names=$(names_needed $found)
done
# A library may ask for the loader by its soname, too: that is a second name of the same file.
loader=$(names_needed "$programs/tallyd" | grep '^/')
# shellcheck disable=SC2086
libraries=$(printf '%s\n' $libraries | grep -vx "/usr/lib/$triplet/${loader##*/}" | LC_ALL=C sort)
# shellcheck disable=SC2086
cp -L --parents $libraries /etc/ssl/certs/ca-certificates.crt "$root"

# list_files PACKAGE FILE ...: these lie in ROOT, and are the package's.
list_files() {
    list=$root/var/lib/dpkg/status.d/$1.md5sums
    shift
    for file in "$@"; do
        (cd "$root" && md5sum "$(realpath --relative-to="$root" "$root$file")") >>"$list"
    done
    LC_ALL=C sort -u -o "$list" "$list"
}

# Lines "PACKAGE: FILE". One search, because each reads the lists of all packages; Debian 12 knows some libraries by their
# names without /usr, so that the search does not find every name.
# shellcheck disable=SC2086
files=$(realpath $libraries /usr/sbin/update-ca-certificates)
# shellcheck disable=SC2046,SC2086
owners=$(dpkg-query -S $files $(printf '%s\n' $files | sed 's|^/usr||') 2>/dev/null) || true

for library in $libraries /usr/sbin/update-ca-certificates; do
    file=$(realpath "$library")
    package=$(printf '%s\n' "$owners" | awk -v file="$file" -v short="${file#/usr}" '
        { name = $0; sub(/: .*/, "", name); sub(/^.*: /, "") }
        $0 == file || $0 == short { print name; exit }')
    [ -n "$package" ] || {
        echo "image-root: no package of this system has $file" >&2
        exit 1
    }
    name=${package%%:*}
    cp -L --parents "/usr/share/doc/$name/copyright" "$root"
    dpkg-query -s "$package" >"$root/var/lib/dpkg/status.d/$name"
    [ "$name" != ca-certificates ] || library=/etc/ssl/certs/ca-certificates.crt # its program made it
    list_files "$name" "$library" "/usr/share/doc/$name/copyright"
done

cp -a --parents /usr/share/common-licenses "$root"

mkdir -p "$root/usr/share/doc/tally"
cp "$here/../LICENSE" "$root/usr/share/doc/tally/copyright"
echo 'tally:x:65532:65532::/nonexistent:/usr/sbin/nologin' >"$root/etc/passwd"
echo 'tally:x:65532:' >"$root/etc/group"

# shellcheck disable=SC2086  # no word, or one
sh "$here/sbom.sh" "$root" "$3" "${4:-}" ${SOURCE_DATE_EPOCH:-} >"$root/usr/share/doc/tally/sbom.spdx.json"
