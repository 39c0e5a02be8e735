#!/bin/sh
# Install Debian packages in a new Debian system, run them there, and purge them:
#
#   tests/deb/run.sh [FOLDER [SUITE]]      prints "N passed, N failed"; needs root
#
# FOLDER (build/deb, of `make deb`) has the packages, SUITE (that of this machine) is the Debian release of the new
# system. Its packages come from where this machine has them, or from MIRROR.
set -eu

cd "$(dirname "$0")/../.."
folder=${1:-build/deb}
# shellcheck source=/dev/null
suite=${2:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
port=${PORT:-18100}
url=http://127.0.0.1:$port
work=$(mktemp -d)
root=$work/root
pid=''

cleanup() {
    [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
    for place in proc dev/null; do umount "$root/$place" 2>/dev/null || true; done
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

passed=0 failed=0
check() { # check WHAT COMMAND ...
    what=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
        echo "ok    $what"
    else
        failed=$((failed + 1))
        echo "FAIL  $what"
        tail -n 20 "$work/log"
    fi
}

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
    # A minimal system leaves out what only people read.
    rm -f "$root"/etc/dpkg/dpkg.cfg.d/*
    inside apt-get update -q
    inside apt-get install -y -q --no-install-recommends man-db clinfo
    inside sh -c 'apt-get install -y -q --no-install-recommends /packages/*.deb'
}

# Each has its link where systemd looks at the start.
units_are_enabled() {
    [ -L "$root/etc/systemd/system/multi-user.target.wants/tallyd.service" ] &&
        [ -L "$root/etc/systemd/system/sockets.target.wants/tallyd.socket" ] &&
        grep -qx 'ExecStart=/usr/bin/tallyd' "$(find "$root"/lib/systemd/system/ "$root"/usr/lib/systemd/system/ -name tallyd.service 2>/dev/null | head -n 1)"
}

# scripts_ask WHAT SCRIPT ARGUMENT ...: what a script of the package asks of systemd where that runs. Who is asked
# here only writes it down.
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

# As the unit runs it: as its user, with nothing that it could write to.
start() {
    started=$(date +%s.%N)
    env -i PATH=/usr/bin:/usr/sbin TALLY_LISTEN="127.0.0.1:$port" TALLY_LOG_FORMAT=json \
        setpriv --no-new-privs --clear-groups --inh-caps=-all --bounding-set=-all,+sys_chroot,+setuid,+setgid \
        chroot --userspec=tallyd:tallyd "$root" /usr/bin/tallyd >"$work/tallyd.log" 2>&1 &
    pid=$!
    python3 tests/image/check.py "$url" ready "$started"
}

stop() {
    kill -TERM "$pid"
    status=0
    wait "$pid" || status=$?
    pid=''
    return "$status"
}

command_sums() {
    sums=$(echo '[1,2,3]' | inside tally cumsum --url "$url") && [ "$sums" = '[1,3,6]' ] && inside tally health --url "$url"
}

# A program that is built against the header and the library of the packages, and runs with them.
program_runs() {
    library=$(dirname "$(find "$root/usr/lib" -name libtally.so)")
    cc -std=c17 -I"$root/usr/include" -o "$root/tmp/program" client/examples/cumsum.c -L"$library" -ltally \
        -Wl,--unresolved-symbols=ignore-in-shared-libs &&
        inside env TALLY_URL="$url" /tmp/program "$url"
}

purge() {
    inside sh -c 'apt-get purge -y -q tallyd tally libtally0 libtally-dev tally-opencl-icd tally-doc'
    rm -rf "$root/packages" "$root/tmp/program"
}

# But the lists of what could be installed, and what the package manager wrote down of its doings.
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
check "SIGTERM ends it cleanly" stop
check "the packages are purged" purge
check "nothing is left of them" nothing_is_left
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
