#!/bin/sh
# clang-tidy one source, unless just this text passed before: the key is what the preprocessor makes of
# it (comments kept: they hold NOLINT), the flags, the configuration, the depth and $TIDY_VERSION. One a
# process: its analyser mistakes things for those of the file before.
#
# TIDY_NODES: states that clang's analyser looks at in one function, nearly all of the time.
# 225000 are clang's own; with 25000 a file takes a fifth as long (make kernel-proofs: all).
set -u

source=$1
nodes=${TIDY_NODES:-25000}
# shellcheck disable=SC2086  # a list of flags
key=$({ cc -E -C $TIDY_DEFINES "$source" 2>/dev/null && cat .clang-tidy &&
    echo "$TIDY_VERSION $TIDY_WARNINGS $nodes"; } | sha256sum | cut -c1-40)
[ ! -e "$TIDY_CACHE/$key" ] || exit 0
# shellcheck disable=SC2086
clang-tidy --quiet --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang \
    --extra-arg="max-nodes=$nodes" "$source" -- $TIDY_DEFINES $TIDY_WARNINGS 2>"$TIDY_CACHE/$key.err" &&
    : >"$TIDY_CACHE/$key"
status=$?
[ "$status" = 0 ] || cat "$TIDY_CACHE/$key.err"
rm -f "$TIDY_CACHE/$key.err"
exit "$status"
