#!/bin/sh
# Run a program of a mounted image as a locked-down container would, and become it:
#
#   chroot.sh ROOT PROGRAM [ARGUMENT ...]
#
# A mount namespace of its own, the root read-only, nothing to write to;
# uid 65532, no capabilities, no new privileges. Needs root.
set -eu

if [ "$1" != inside ]; then
    exec unshare --mount --ipc -- sh "$0" inside "$@"
fi
root=$2
shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mkdir -p "$root/proc" "$root/sys" "$root/dev" # as an engine does
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --bind /dev "$root/dev"
mount -o remount,bind,ro "$root"
# What chroot needs to change root and user goes with the user, and nothing brings it back.
exec setpriv --no-new-privs --clear-groups --inh-caps=-all --bounding-set=-all,+sys_chroot,+setuid,+setgid \
    chroot --userspec=+65532:+65532 "$root" "$@"
