#!/bin/sh
# Run clang-tidy on one source, unless the same text passed before. The key is the preprocessor's output (with
# comments, which may have NOLINT), the flags, the configuration, the depth and $TIDY_VERSION. Each source needs its
# own process, as the analyser confuses objects with those of the file before.
#
# TIDY_NODES: limit on the states that clang's analyser visits in one function; they take nearly all of the time.
# clang's default is 225000; with 25000 a file takes a fifth of the time (make kernel-proofs: all).
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
