#!/bin/sh
# clang-tidy one source, unless just this text passed before: the key is what the preprocessor
# makes of it (comments kept: they hold NOLINT), the configuration and the version.
set -u

source=$1
# shellcheck disable=SC2086  # a list of flags
key=$({ cc -E -C $TIDY_DEFINES "$source" 2>/dev/null && cat .clang-tidy && clang-tidy --version; } |
    sha256sum | cut -c1-40)
[ ! -e "$TIDY_CACHE/$key" ] || exit 0
# shellcheck disable=SC2086
clang-tidy --quiet "$source" -- $TIDY_DEFINES 2>"$TIDY_CACHE/$key.err" && : >"$TIDY_CACHE/$key"
status=$?
[ "$status" = 0 ] || cat "$TIDY_CACHE/$key.err"
rm -f "$TIDY_CACHE/$key.err"
exit "$status"
