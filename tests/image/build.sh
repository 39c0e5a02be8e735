#!/bin/sh
# Build the image with docker, podman or buildah, whichever works here.
#
#   tests/image/build.sh          prints the tool it used as its last line
#
# IMAGE (tally:latest), CONTAINER_TOOL, CONTAINER_BUILD_FLAGS: name, tool, more flags of its build.
# Where the kernel lets buildah do nothing better, BUILDAH_STORAGE="--storage-driver vfs".
set -eu

cd "$(dirname "$0")/../.."
image=${IMAGE:-tally:latest}

works() {
    case $1 in
    docker | podman) command -v "$1" >/dev/null 2>&1 && "$1" info >/dev/null 2>&1 ;;
    buildah) command -v buildah >/dev/null 2>&1 ;;
    esac
}

tool=${CONTAINER_TOOL:-}
for candidate in docker podman buildah; do
    [ -z "$tool" ] || break
    if works "$candidate"; then tool=$candidate; fi
done
[ -n "$tool" ] || {
    echo "no docker, podman or buildah works here; install one (Debian: apt-get install buildah)" >&2
    exit 1
}

# shellcheck disable=SC2086  # lists of flags
case $tool in
buildah)
    buildah ${BUILDAH_STORAGE:-} bud --isolation "${BUILDAH_ISOLATION:-chroot}" \
        --format docker ${CONTAINER_BUILD_FLAGS:-} -t "$image" . >&2
    ;;
*) "$tool" build ${CONTAINER_BUILD_FLAGS:-} -t "$image" . >&2 ;;
esac
echo "$tool"
