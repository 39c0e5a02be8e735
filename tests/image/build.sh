#!/bin/sh
# Build the images with docker, podman or buildah; the first one that works is used.
#
#   tests/image/build.sh          prints the tool as its last line
#
# IMAGE (tally): name of the images, with the tags latest, the version (the same image), and debian. BASE: base image
# instead of the Dockerfile's; without a digest it is fetched, and its present digest is used. CONTAINER_TOOL,
# CONTAINER_BUILD_FLAGS: the tool, more flags for its build. If the kernel allows buildah no better driver, set
# BUILDAH_STORAGE="--storage-driver vfs".
set -eu

cd "$(dirname "$0")/../.."
image=${IMAGE:-tally}

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

# pinned IMAGE: print the name with its present digest; unchanged if no registry has the image.
pinned() {
    case $1 in
    *@sha256:*) found=$1 ;;
    *)
        # shellcheck disable=SC2086  # a list of flags
        case $tool in
        buildah)
            digest=$(buildah ${BUILDAH_STORAGE:-} pull -q "$1" 2>/dev/null &&
                buildah ${BUILDAH_STORAGE:-} inspect --type image --format '{{.FromImageDigest}}' "$1" 2>/dev/null) || digest=
            ;;
        *)
            digest=$("$tool" pull -q "$1" >/dev/null 2>&1 &&
                "$tool" image inspect -f '{{index .RepoDigests 0}}' "$1" 2>/dev/null) || digest=
            ;;
        esac
        digest=$(printf '%s\n' "$digest" | sed -n 's/^\(.*@\)*\(sha256:[0-9a-f]\{64\}\)$/\2/p')
        found=$1${digest:+@$digest}
        ;;
    esac
    case $found in
    *@sha256:*) ;;
    *) echo "no digest is known of $found: the images will not say which one that was" >&2 ;;
    esac
    echo "$found"
}
base=$(pinned "${BASE:-$(sed -n 's/^ARG BASE=//p' Dockerfile)}")

# A tree without git, such as that of `make dist`, has no known commit.
revision=unknown created=$(date -u +%Y-%m-%dT%H:%M:%SZ)
if [ -e .git ]; then
    revision=$(git rev-parse HEAD)
    created=$(TZ=UTC0 git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)
fi
# build TAG FLAG ...: build one image; later builds reuse its layers.
build() {
    tag=$1
    shift
    set -- --build-arg BASE="$base" --build-arg REVISION="$revision" --build-arg CREATED="$created" "$@" -t "$tag"
    # shellcheck disable=SC2086  # lists of flags
    case $tool in
    buildah)
        buildah ${BUILDAH_STORAGE:-} bud --layers --isolation "${BUILDAH_ISOLATION:-chroot}" \
            --format docker ${CONTAINER_BUILD_FLAGS:-} "$@" . >&2
        # buildah reuses labels from its cache, even if the build arguments have changed.
        container=$(buildah ${BUILDAH_STORAGE:-} from --pull-never "$tag")
        buildah ${BUILDAH_STORAGE:-} config --label org.opencontainers.image.revision="$revision" \
            --label org.opencontainers.image.created="$created" "$container"
        buildah ${BUILDAH_STORAGE:-} commit --quiet --rm --format docker "$container" "$tag" >&2
        ;;
    *) "$tool" build ${CONTAINER_BUILD_FLAGS:-} "$@" . >&2 ;;
    esac
}
build "$image:debian" --target debian
build "$image:latest"
[ "$tool" = buildah ] || BUILDAH_STORAGE=
# shellcheck disable=SC2086  # a list of flags
"$tool" ${BUILDAH_STORAGE:-} tag "$image:latest" "$image:$(sh deploy/version.sh)"
echo "$tool"
