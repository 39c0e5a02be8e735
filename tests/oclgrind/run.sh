#!/bin/sh
# Run every kernel that devices compile under Oclgrind (Debian's 21.10), which interprets it and checks each access:
#
#   tests/oclgrind/run.sh
#
# Oclgrind detects out-of-bounds accesses, data races and reads of unwritten memory. Any report is a failure, and so is
# a kernel that Oclgrind refuses. -cl-opt-disable avoids instructions of optimised code that stop it.
# docs/design/proofs.md lists Oclgrind's own errors. Because of them, each process runs only one way of the corpus
# (--way), and some rows omit a check.
#
# First, a kernel with one fault of each kind must be reported (racy.cl). Takes some minutes; prints a row per run,
# and "N passed, N failed" at the end.
cd "$(dirname "$0")/../.." || exit 1
name=oclgrind
. tests/lib/rows.sh
program=$build/tests/kernels/test_corpus
detours=$build/tests/libdetours.so
${MAKE:-make} --no-print-directory -s "$program" "$detours"

log=$logs/racy.log
(cd tests/oclgrind && oclgrind-kernel --data-races --uninitialized \
    --build-options -cl-opt-disable racy.sim) >"$log" 2>&1 || true
for report in 'data race at global' 'depends on uninitialized' 'Invalid write of size'; do
    result=SILENCE
    ! grep -q "$report" "$log" || result=ok
    row "a planted fault is reported: $report" "$result" "$log"
done

# check NAME OCLGRIND-OPTION ... -- ARGUMENT ...
check() {
    name=$1
    shift
    options=''
    while [ "$1" != -- ]; do
        options="$options $1"
        shift
    done
    shift
    log=$(log_of "$name")
    result=WRONG
    # shellcheck disable=SC2086,SC2016  # words; the inner shell expands its own
    if timeout -k 10 1800 oclgrind $options --build-options -cl-opt-disable \
        sh -c 'LD_PRELOAD=$0:$LD_PRELOAD exec "$@"' "$detours" "$program" --tiny "$@" >"$log" 2>&1 &&
        ! grep -v -q -E '^\[ OK |^[0-9]+ passed, 0 failed$' "$log"; then
        result=ok
    fi
    row "$name" "$result" "$log"
}

# --way 2: single jobs; --way 4: batches
check "the generic kernel" --data-races --uninitialized -- --way 2
check "the generic kernel, in batches" --data-races -- --way 4
check "GPU kernels" --data-races --uninitialized -- --way 2 --gpu-kernels
check "GPU kernels, in batches" --data-races -- --way 4 --gpu-kernels
check "GPU kernels with 64-bit offsets" --data-races --uninitialized -- --way 2 --gpu-kernels --wide-index
check "look-back" --uninitialized -- --way 2 --lookback
check "hostile look-back" --uninitialized -- --way 2 --hostile-lookback
rows_end
