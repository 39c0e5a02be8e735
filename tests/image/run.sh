#!/bin/sh
# Build the images, run them locked down (not root, read-only root, no capabilities), and check that they serve: cold
# start, warm start, the examples of the pages, health check, clean exit; and that other images can be built on the
# Debian one.
#
#   tests/image/run.sh            prints figures, then "N passed, N failed"
#
# With docker or podman the images run as containers; with buildah alone, in a chroot with the same restrictions (needs
# root). See build.sh for the variables.
set -eu

cd "$(dirname "$0")/../.."
port=${PORT:-18000}
url=http://127.0.0.1:$port
work=$(mktemp -d)
image='' container='' mounted='' pid='' name=tally-image-test-$$

# shellcheck disable=SC2086
buildah_here() { buildah ${BUILDAH_STORAGE:-} "$@"; }

remove_container() {
    case ${tool:-} in
    docker | podman) "$tool" rm -f "$name" >/dev/null 2>&1 || true ;;
    buildah) [ -z "$container" ] || buildah_here rm "$container" >/dev/null || true ;;
    esac
    container=''
}

cleanup() {
    [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
    remove_container
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# confined VARIABLE=VALUE PROGRAM [ARGUMENT ...]: become a program of the mounted image.
confined() {
    setting=$1
    shift
    exec env -i PATH="$PATH" "$setting" sh tests/image/chroot.sh "$mounted" "$@"
}

# inspect DOCKER_FIELD: print a field of the image's configuration.
inspect() {
    case $tool in
    buildah) buildah_here inspect --format "{{$(echo "$1" | sed 's/\.Config/.Docker.Config/')}}" "$container" ;;
    *) "$tool" image inspect -f "{{$1}}" "$image" ;;
    esac
}

# start: run the service on $port, without any writable folder.
start() {
    started=$(date +%s.%N)
    case $tool in
    buildah)
        (confined TALLY_LISTEN="127.0.0.1:$port" /usr/local/bin/tallyd) >"$work/log" 2>&1 &
        pid=$!
        ;;
    *)
        "$tool" rm -f "$name" >/dev/null 2>&1 || true
        "$tool" run -d --name "$name" --read-only --cap-drop ALL \
            --security-opt no-new-privileges -p "127.0.0.1:$port:8000" "$image" >/dev/null
        ;;
    esac
}

# stop: send SIGTERM; returns the exit status.
stop() {
    case $tool in
    buildah)
        kill -TERM "$pid"
        status=0
        wait "$pid" || status=$?
        pid=''
        return "$status"
        ;;
    *)
        "$tool" stop -t 40 "$name" >/dev/null
        return "$("$tool" inspect -f '{{.State.ExitCode}}' "$name")"
        ;;
    esac
}

# health_check: run the image's health check as a container engine does: without a shell.
health_check() {
    # shellcheck disable=SC2046  # words: none of them has a blank
    set -- $(inspect 'range .Config.Healthcheck.Test}}{{.}} {{end')
    [ "$1" = CMD ] || return 1
    shift
    case $tool in
    buildah) (confined TALLY_URL="$url" "$@") ;;
    *) "$tool" exec "$name" "$@" ;;
    esac
}

# idle_memory_below KIB
idle_memory_below() {
    process=$pid
    [ "$tool" = buildah ] || process=$("$tool" inspect -f '{{.State.Pid}}' "$name")
    resident=$(awk '/^VmRSS/ { print $2 }' "/proc/$process/status")
    echo "      idle: $resident KiB resident"
    [ "$resident" -lt "$1" ]
}

# packages_install: install clinfo, as one would install a driver; it lists the devices that an OpenCL program of such
# an image sees.
packages_install() {
    set -- sh -c 'apt-get update -q && apt-get install -y -q --no-install-recommends clinfo && clinfo --list'
    case $tool in
    buildah) buildah_here run --isolation "${BUILDAH_ISOLATION:-chroot}" --user 0 "$container" -- "$@" ;;
    *) "$tool" run --rm --user 0 --entrypoint "$1" "$image" "$2" "$3" ;;
    esac >"$work/log" 2>&1 && grep -q '^Platform #0: Tally' "$work/log"
}

# label_is NAME TEXT
label_is() { [ "$(inspect "index .Config.Labels \"org.opencontainers.image.$1\"")" = "$2" ]; }

# sbom_is_right: SPDX's own tool finds no fault in the SBOM, and the SBOM has each package of the image.
sbom_is_right() {
    for file in usr/share/doc/tally/sbom.spdx.json var/lib/dpkg/status.d; do
        case $tool in
        buildah) cp -r "$mounted/$file" "$work/" ;;
        *) "$tool" cp "$name:/$file" "$work/" ;;
        esac
    done
    "${VENV:-build/venv}/bin/pyspdxtools" -i "$work/sbom.spdx.json" >"$work/log" 2>&1 || return 1
    for package in "$work"/status.d/*; do
        [ "${package%.md5sums}" = "$package" ] || continue
        grep -qF "\"name\": \"${package##*/}\", \"versionInfo\": \"$(sed -n 's/^Version: //p' "$package")\"" \
            "$work/sbom.spdx.json" || return 1
    done
}

# hashes_are_right: each listed file has the listed hash, and every library is listed.
hashes_are_right() {
    mkdir -p "$work/root"
    case $tool in
    buildah) cp -r "$mounted/usr" "$mounted/etc" "$work/root/" ;;
    *) for folder in usr etc; do "$tool" cp "$name:/$folder" "$work/root/" || return 1; done ;;
    esac
    python3 tests/image/check.py "$work/sbom.spdx.json" hashes "$work/root"
}

# licences_are_there: the image has Tally's licence, and every licence to which a copyright notice refers.
licences_are_there() {
    case $tool in
    buildah) cp -r "$mounted/usr/share" "$work/" ;;
    *) "$tool" cp "$name:/usr/share" "$work/" ;;
    esac
    grep -q 'Apache License' "$work/share/doc/tally/copyright" || return 1
    grep -hoE '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$work"/share/doc/*/copyright | sort -u |
        while read -r notice; do [ -s "$work/${notice#/usr/}" ] || return 1; done
}

passed=0 failed=0
check() { # check WHAT COMMAND ...
    what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
        echo "ok    $what"
    else
        failed=$((failed + 1))
        echo "FAIL  $what"
        [ ! -e "$work/log" ] || grep -v "info request" "$work/log" | tail -n 20
    fi
}

# check_image TAG MEGABYTES
check_image() {
    image=${IMAGE:-tally}:$1
    if [ "$tool" = buildah ]; then
        container=$(buildah_here from --pull-never "$image")
        mounted=$(buildah_here mount "$container")
        size=$(du -sxm "$mounted" | cut -f 1)
    else
        size=$(($("$tool" image inspect -f '{{.Size}}' "$image") / 1000000))
    fi
    echo "$image: $size MB"
    check "it is under $2 MB" [ "$size" -lt "$2" ]
    check "it does not run as root" [ "$(inspect .Config.User)" = 65532:65532 ]
    start
    check "start to ready" python3 tests/image/check.py "$url" ready "$started"
    check "it takes under 25 MB when idle" idle_memory_below 25000
    check "the pages' examples" python3 tests/image/check.py "$url" examples
    check "its labels say which version it is" label_is version "$(sh deploy/version.sh)"
    check "and of which commit" label_is revision "$revision"
    check "and what they were built on" [ -n "$(inspect 'index .Config.Labels "org.opencontainers.image.base.name"')" ]
    [ "$1" != latest ] || check "it has a list of what it is made of" sbom_is_right
    [ "$1" != latest ] || check "with the hash of each file" hashes_are_right
    [ "$1" != latest ] || check "and the licences of that" licences_are_there
    check "the health check finds it healthy, without a shell" health_check
    check "SIGTERM ends it cleanly" stop
    start
    check "another start to ready" python3 tests/image/check.py "$url" ready "$started"
    check "the examples again" python3 tests/image/check.py "$url" examples
    check "SIGTERM ends it cleanly again" stop
    [ "$1" != debian ] || check "packages can be installed, and programs see the driver" packages_install
    remove_container
}

revision=unknown
[ ! -e .git ] || revision=$(git rev-parse HEAD)
tool=$(sh tests/image/build.sh | tail -n 1)
check_image latest 60
check_image debian 250
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
