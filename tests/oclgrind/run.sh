#!/bin/sh
# Every kernel under Oclgrind (Debian's 21.10), which interprets it and watches each access:
#
#   tests/oclgrind/run.sh
#
# Out-of-bounds accesses and data races in all kernels, reads of memory that nobody wrote in the
# generic one and those for GPUs. Any report fails, and so does a kernel that Oclgrind does not
# take. Optimised code has instructions that stop it, hence -cl-opt-disable; a function inlined by
# force brings an intrinsic that does, hence noinline. The vector kernels load whole vectors, lanes
# behind the end included, and let them go nowhere; 21.10 calls all lanes of a shuffle unwritten
# when one is, so that --uninitialized says nothing about those kernels.
#
# First a kernel with one fault of each kind must be reported (racy.cl). Takes some minutes; prints
# a row a run and ends with "N passed, N failed".
set -eu

cd "$(dirname "$0")/../.."
build=build/release
program=$build/tests/kernels/test_corpus
${MAKE:-make} --no-print-directory -s "$program"
logs=$build/oclgrind-logs
rm -rf "$logs"
mkdir -p "$logs"
passed=0
failed=0

# row NAME ok|WRONG LOG
row() {
    printf '%-52s %s\n' "$1" "$2"
    if [ "$2" = ok ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        grep -v '^\[ OK' "$3" | head -n 20
    fi
}

log=$logs/racy.log
(cd tests/oclgrind && oclgrind-kernel --data-races --uninitialized \
    --build-options -cl-opt-disable racy.sim) >"$log" 2>&1 || true
for report in 'data race at global' 'depends on uninitialized' 'Invalid write of size'; do
    result=ok
    grep -q "$report" "$log" || result=WRONG
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
    log=$logs/$(printf '%s' "$name" | tr ' ' '_').log
    result=WRONG
    # shellcheck disable=SC2086  # words
    if timeout -k 10 1800 oclgrind $options \
        --build-options '-cl-opt-disable -D__builtin_prefetch(...)= -Dalways_inline=noinline' \
        "$program" --tiny "$@" >"$log" 2>&1 &&
        ! grep -v -q -E '^\[ OK |^[0-9]+ passed, 0 failed$' "$log"; then
        result=ok
    fi
    row "$name" "$result" "$log"
}

check "GPU kernels" --data-races --uninitialized -- --gpu-kernels
check "GPU kernels without float64" --data-races --uninitialized -- --soft-f64
check "GPU kernels with 64-bit offsets" --data-races --uninitialized -- --gpu-kernels --wide-index
check "the generic kernel" --data-races --uninitialized -- --generic-kernels
check "the vector kernels" --data-races --

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
