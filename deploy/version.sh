#!/bin/sh
# The Makefile defines the version. This script updates the files that repeat it:
#
#   deploy/version.sh          prints the version
#   deploy/version.sh write    writes the version to these files
#   deploy/version.sh check    fails if a file has another version (make lint)
#   deploy/version.sh tag TAG  fails unless TAG is vVERSION, and the changelog has a section of that version and none of
#                              unreleased changes
set -eu

cd "$(dirname "$0")/.."
version=$(sed -n 's/^VERSION := //p' Makefile)

# Each line: FILE, and the sed script that writes the version to the file.
copies() {
    cat <<END
Dockerfile s/^(ARG VERSION=).*/\\1$version/
client/man/tally.1 s/^(\\.TH TALLY 1 "" "tally )[^"]*/\\1$version/
client/man/tally.3 s/^(\\.TH TALLY 3 "" "tally )[^"]*/\\1$version/
client/python/tally/__init__.py s/^(__version__ = ")[^"]*/\\1$version/
client/tally.h s/^(.* version of this library, ")[^"]*/\\1$version/
deploy/dask/README.md s/(tally(-dask)?:)[0-9.]*[0-9]/\\1$version/g
deploy/kubernetes/README.md s/(tally:)[0-9.]*[0-9]/\\1$version/g
deploy/kubernetes/base/kustomization.yaml s/(name: tally, newTag: )[^}]*/\\1$version/
deploy/kubernetes/overlays/dask/kustomization.yaml s/(name: tally[a-z-]*, newTag: )[^}]*/\\1$version/
deploy/kubernetes/overlays/kserve/kustomization.yaml s/(name: tally, newTag: )[^}]*/\\1$version/
docs/image.md s/(tally:)[0-9.]*[0-9]/\\1$version/
server/pages/v2_pages.openapi.json s/^( *"version": ")[^"]*/\\1$version/
END
}

case ${1:-print} in
print) echo "$version" ;;
write) copies | while read -r file script; do sed -E -i "$script" "$file"; done ;;
check)
    copies | {
        wrong=0
        while read -r file script; do
            grep -qF -- "$version" "$file" && sed -E "$script" "$file" | cmp -s - "$file" && continue
            echo "$file: another version than the Makefile's $version; deploy/version.sh write corrects it"
            wrong=1
        done
        exit "$wrong"
    }
    ;;
tag)
    for wrong in \
        "$([ "${2:-}" = "v$version" ] || echo "the tag is \"${2:-}\", the Makefile's version is $version")" \
        "$(grep -q "^## $version - " CHANGELOG.md || echo "CHANGELOG.md has no section \"## $version - DATE\"")" \
        "$(! grep -q '^## Unreleased' CHANGELOG.md || echo "CHANGELOG.md has a section \"## Unreleased\"")"; do
        [ -z "$wrong" ] || { echo "$wrong" >&2 && exit 1; }
    done
    ;;
*)
    echo "usage: deploy/version.sh [write|check|tag TAG]" >&2
    exit 2
    ;;
esac
