#!/bin/sh
# Prove with the model checker Spin that the look-back protocol is right with its fences, in every order in which
# memory may see it, and that Spin finds a wrong sum without either of them: sh tests/gpu/lookback.sh.
#
# The model and what it assumes: tests/gpu/lookback.pml. Fails if a result is not the expected one.
set -u
cd "$(dirname "$0")/../.." || exit 1
model=$PWD/tests/gpu/lookback.pml
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
bad=0

# check right|wrong READERS LOOKS WRITER_FENCE READER_FENCE
check() {
    expected=$1 readers=$2 looks=$3 writer=$4 reader=$5
    if ! spin "-DREADERS=$readers" "-DLOOKS=$looks" "-DWRITER_FENCE=$writer" "-DREADER_FENCE=$reader" -a "$model" ||
        ! cc -O2 -w -DSAFETY -o pan pan.c || ! ./pan -m100000 >log; then
        echo "lookback: Spin did not run"
        exit 1
    fi
    found=unknown
    # A search that ran out of memory or depth proves nothing.
    if grep -q 'assertion violated' log; then
        found=wrong
    elif grep -q 'errors: 0' log && ! grep -Eq 'max search depth too small|Search not completed|out of memory' log; then
        found=right
    fi
    states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' log)
    echo "readers $readers, looks $looks, fence of the writer $writer, of the reader $reader: $found, $states states"
    [ "$found" = "$expected" ] || {
        echo "lookback: expected $expected:"
        cat log
        bad=1
    }
}

check right 1 0 1 1
check right 1 2 1 1
check right 2 0 1 1
check right 2 1 1 1
check wrong 1 0 0 1
check wrong 1 0 1 0
check wrong 1 0 0 0
check wrong 2 1 0 1
check wrong 2 1 1 0
exit $bad
