#!/bin/sh
# Become a program of a mounted image, with the restrictions of a locked-down container:
#
#   chroot.sh ROOT PROGRAM [ARGUMENT ...]
#
# The program gets a mount namespace of its own, a read-only root and no writable folder; uid 65532, no capabilities,
# no new privileges. Needs root.
set -eu

if [ "$1" != inside ]; then
    exec unshare --mount --ipc -- sh "$0" inside "$@"
fi
root=$2
shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mkdir -p "$root/proc" "$root/sys" "$root/dev" # a container engine creates these folders, too
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --bind /dev "$root/dev"
mount -o remount,bind,ro "$root"
# The capabilities that chroot needs to change root and user are dropped with the user, and cannot be regained.
exec setpriv --no-new-privs --clear-groups --inh-caps=-all --bounding-set=-all,+sys_chroot,+setuid,+setgid \
    chroot --userspec=+65532:+65532 "$root" "$@"
