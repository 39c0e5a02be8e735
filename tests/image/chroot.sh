#!/bin/sh
# Run tallyd in a mounted image as a locked-down container would, and become it:
#
#   chroot.sh ROOT LISTEN
#
# A mount namespace of its own, the root read-only, nothing to write to;
# uid 65532, no capabilities, no new privileges. Needs root.
set -eu

if [ "${3:-}" != inside ]; then
    exec unshare --mount --ipc -- sh "$0" "$1" "$2" inside
fi
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --bind /dev "$root/dev"
mount -o remount,bind,ro "$root"
exec env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin TALLY_LISTEN="$2" \
    chroot "$root" setpriv --reuid 65532 --regid 65532 --clear-groups --no-new-privs \
    --bounding-set=-all --inh-caps=-all /usr/local/bin/tallyd
