#!/bin/sh
# Build the image, run it locked down (not root, read-only root, no capabilities), and prove that
# it serves: cold start, warm start, the operator pages' examples, health check, clean exit.
#
#   tests/image/run.sh            prints figures, then "N passed, N failed"
#
# With docker or podman it is a container; with buildah alone, a chroot in the image with the same
# restrictions (needs root). See build.sh for the variables.
set -eu

cd "$(dirname "$0")/../.."
image=${IMAGE:-tally:latest}
port=${PORT:-18000}
url=http://127.0.0.1:$port
work=$(mktemp -d)
container='' mounted='' pid='' name=tally-image-test-$$

# shellcheck disable=SC2086
buildah_here() { buildah ${BUILDAH_STORAGE:-} "$@"; }

cleanup() {
    [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
    case ${tool:-} in
    docker | podman)
        "$tool" rm -f "$name" >/dev/null 2>&1 || true
        "$tool" volume rm "$name" >/dev/null 2>&1 || true
        ;;
    buildah) [ -z "$container" ] || buildah_here rm "$container" >/dev/null || true ;;
    esac
    rm -rf "$work"
}
trap cleanup EXIT INT TERM

# start: the service on $port, with nothing that it could write to.
start() {
    started=$(date +%s.%N)
    case $tool in
    buildah)
        sh tests/image/chroot.sh "$mounted" "127.0.0.1:$port" >"$work/log" 2>&1 &
        pid=$!
        ;;
    *)
        "$tool" rm -f "$name" >/dev/null 2>&1 || true
        "$tool" run -d --name "$name" --read-only --cap-drop ALL \
            --security-opt no-new-privileges -p "127.0.0.1:$port:8000" "$image" >/dev/null
        ;;
    esac
}

# stop: SIGTERM; its exit status.
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

# inside COMMAND ...: run in the image.
inside() {
    case $tool in
    buildah) chroot "$mounted" "$@" ;;
    *) "$tool" exec "$name" "$@" ;;
    esac
}

tool=$(sh tests/image/build.sh | tail -n 1)
if [ "$tool" = buildah ]; then
    container=$(buildah_here from --pull-never "$image")
    mounted=$(buildah_here mount "$container")
    size=$(du -sxm "$mounted" | cut -f 1)
    user=$(buildah_here inspect --format '{{.OCIv1.Config.User}}' "$container")
else
    size=$(($("$tool" image inspect -f '{{.Size}}' "$image") / 1000000))
    user=$("$tool" image inspect -f '{{.Config.User}}' "$image")
fi

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
        [ "$tool" != buildah ] || grep -v "info request" "$work/log" | tail -n 20
    fi
}

echo "image: $size MB"
check "the image is under 450 MB" [ "$size" -lt 450 ]
check "it does not run as root" [ "$user" = 65532:65532 ]
start
check "start to ready" python3 tests/image/check.py "$url" ready "$started"
check "the pages' examples and its own client" python3 tests/image/check.py "$url" examples
health_url=http://127.0.0.1:8000
[ "$tool" != buildah ] || health_url=$url
check "the health check says so" inside tally health --url "$health_url" --retries 0
check "SIGTERM ends it cleanly" stop
start
check "another start to ready" python3 tests/image/check.py "$url" ready "$started"
check "the examples again" python3 tests/image/check.py "$url" examples
check "SIGTERM ends it cleanly again" stop
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
