#!/bin/sh
# Run tallyd in a mounted image as a locked-down container would, and become it:
#
#   chroot.sh ROOT CACHE LISTEN
#
# A mount namespace of its own, the root read-only, tmpfs on /tmp, CACHE on /var/cache/tally;
# uid 65532, no capabilities, no new privileges. Needs root.
set -eu

if [ "${4:-}" != inside ]; then
    exec unshare --mount --ipc -- sh "$0" "$1" "$2" "$3" inside
fi
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --bind /dev "$root/dev"
mount -t tmpfs -o mode=1777,size=256m tmp "$root/tmp"
mount --bind "$2" "$root/var/cache/tally"
mount -o remount,bind,ro "$root"
exec env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/var/cache/tally TALLY_LISTEN="$3" \
    TALLY_KERNEL_CACHE=/var/cache/tally \
    chroot "$root" setpriv --reuid 65532 --regid 65532 --clear-groups --no-new-privs \
    --bounding-set=-all --inh-caps=-all /usr/local/bin/tallyd
