#!/bin/sh
# Install Debian packages in a new Debian system, run them there, and purge them:
#
#   tests/deb/run.sh [FOLDER [SUITE]]      prints "N passed, N failed"; needs root
#
# FOLDER (default: build/deb, which `make deb` writes) has the packages. SUITE (default: the release of this machine) is
# the Debian release of the new system. MIRROR is the archive of the other packages; the default is the archive that
# this machine uses for SUITE.
cd "$(dirname "$0")/../.."
. tests/lib/checks.sh
folder=${1:-build/deb}
# shellcheck source=/dev/null
suite=${2:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
port=${PORT:-18100}
url=http://127.0.0.1:$port
root=$work/root

unmount_all() { umount "$root/proc" 2>/dev/null || true; }

inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }

install_system() {
    # shellcheck disable=SC2016  # apt-get expands them
    mirror=${MIRROR:-$(apt-get indextargets --format '$(SITE) $(CODENAME)' 'Created-By: Packages' |
        awk -v suite="$suite" '$2 == suite { print $1; exit }')}
    mmdebstrap --mode=root --variant=minbase "$suite" "$root" "${mirror:-http://deb.debian.org/debian}"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    mount -t proc proc "$root/proc"
}

install_packages() {
    mkdir -p "$root/packages"
    cp "$folder"/*_all.deb "$folder"/*_"$(dpkg --print-architecture)".deb "$root/packages"
    rm -f "$root"/packages/*-dbgsym_*
    # The settings of a minimal system exclude manual pages and documents.
    rm -f "$root"/etc/dpkg/dpkg.cfg.d/*
    inside apt-get update -q
    inside apt-get install -y -q --no-install-recommends man-db clinfo gcc libc6-dev pkg-config
    inside sh -c 'apt-get install -y -q --no-install-recommends /packages/*.deb'
}

# systemd starts the units that are linked in these folders.
units_are_enabled() {
    [ -L "$root/etc/systemd/system/multi-user.target.wants/tallyd.service" ] &&
        [ -L "$root/etc/systemd/system/sockets.target.wants/tallyd.socket" ] &&
        grep -qx 'ExecStart=/usr/bin/tallyd' "$(find "$root"/lib/systemd/system/ "$root"/usr/lib/systemd/system/ -name tallyd.service 2>/dev/null | head -n 1)"
}

# scripts_ask REQUESTS SCRIPT ARGUMENT ...: run a maintainer script of tallyd as on a system with systemd, and compare
# its requests to systemd. A stand-in for deb-systemd-invoke records the requests.
scripts_ask() {
    wanted=$1 script=$2
    shift 2
    mkdir -p "$root/run/systemd/system" "$root/asked"
    printf '#!/bin/sh\necho "$*" >>/asked/of-units\n' >"$root/asked/deb-systemd-invoke"
    ln -s /bin/true "$root/asked/systemctl"
    chmod 755 "$root/asked/deb-systemd-invoke"
    inside env PATH=/asked:/usr/sbin:/usr/bin:/sbin:/bin "/var/lib/dpkg/info/tallyd.$script" "$@"
    asked=$(paste -sd , "$root/asked/of-units")
    rm -r "$root/run/systemd/system" "$root/asked"
    echo "asked: $asked"
    [ "$asked" = "$wanted" ]
}

manual_pages_are_found() {
    inside man -w 8 tallyd && inside man -w 1 tally && inside man -w 3 tally
}

system_user_is_there() {
    inside getent passwd tallyd | grep -E ':(/usr/sbin/nologin|/sbin/nologin)$' && inside getent group tallyd
}

# Start the service like its unit: as the user of the unit, without permission to write anywhere.
start() {
    started=$(date +%s.%N)
    env -i PATH=/usr/bin:/usr/sbin TALLY_LISTEN="127.0.0.1:$port" TALLY_LOG_FORMAT=json \
        setpriv --no-new-privs --clear-groups --inh-caps=-all --bounding-set=-all,+sys_chroot,+setuid,+setgid \
        chroot --userspec=tallyd:tallyd "$root" /usr/bin/tallyd >"$work/tallyd.log" 2>&1 &
    pid=$!
    python3 tests/image/check.py "$url" ready "$started"
}

command_sums() {
    sums=$(echo '[1,2,3]' | inside tally cumsum --url "$url") && [ "$sums" = '[1,3,6]' ] && inside tally health --url "$url"
}

# Build a program with the header and the library of the packages, and run it.
program_runs() {
    cp client/examples/cumsum.c "$root/tmp/program.c"
    # shellcheck disable=SC2016  # the inner shell expands it
    inside sh -c 'gcc -std=c17 -o /tmp/program /tmp/program.c $(pkg-config --cflags --libs tally)' &&
        inside env TALLY_URL="$url" /tmp/program "$url"
}

purge() {
    inside sh -c 'apt-get purge -y -q tallyd tally libtally0 libtally-dev tally-opencl-icd tally-doc'
    rm -rf "$root/packages" "$root/tmp/program" "$root/tmp/program.c"
}

# Lists of available packages and the logs of the package manager may stay.
nothing_is_left() {
    left=$(find "$root" -xdev \( -path "$root/proc" -o -path "$root/var/log" -o -path "$root/var/lib/apt" \
        -o -path "$root/var/cache" \) -prune -o \( -iname '*tally*' -print \))
    [ -z "$left" ] || { echo "$left" && return 1; }
}

check "a new system is made" install_system
check "the packages are installed" install_packages
check "the units are enabled" units_are_enabled
check "the service gets its socket from the start on" scripts_ask \
    'start tallyd.socket,start tallyd.service' postinst configure
check "an upgrade leaves the socket open, where clients wait" scripts_ask \
    'start tallyd.socket,restart tallyd.service' postinst configure 0.1.0-0
check "nothing starts the service again when it is removed" scripts_ask \
    'stop tallyd.socket,stop tallyd.service,stop tallyd.socket' prerm remove
check "the manual pages are found" manual_pages_are_found
check "the system user is there" system_user_is_there
check "other programs see the OpenCL driver" inside sh -c 'clinfo --list | grep -q Tally'
check "the service starts as that user, and gets ready" start
check "the pages' examples" python3 tests/image/check.py "$url" examples
check "the command gets sums and finds the service healthy" command_sums
check "a program that is built with libtally-dev runs" program_runs
check "SIGTERM ends the service cleanly" stop_service
check "the packages are purged" purge
check "no file of the packages is left" nothing_is_left
checks_end
