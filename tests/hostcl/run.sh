#!/bin/sh
# The kernels under clang's sanitizers: compiled for the processor like any C (tests/hostcl/hostcl.h),
# they run the tests of tests/kernels in the same process:
#
#   tests/hostcl/run.sh [--all]
#
# AddressSanitizer sees each access outside a tensor or a scratch buffer (tests forbid what lies
# around tensors: tests/lib/memory_marks.h), UndefinedBehaviorSanitizer indices, overflows and
# alignment, MemorySanitizer every branch, address and result that depends on memory nobody wrote, lane by
# lane. First a kernel with each fault must be reported (planted.cl). Programs are compiled once and kept
# in build/host-*/programs: some minutes the first time. --all: with more tests. Prints a row a run; ends with
# "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 1
all=${1:-}
name=hostcl
. tests/lib/rows.sh

compiler=${CLANG:-clang}
tests=test_nasty
[ "$all" != --all ] || tests='test_nasty test_nasty_shapes test_nasty_lines test_scan_slice'
for mode in host-asan host-msan; do
    programs="build/$mode/tests/hostcl/planted build/$mode/tests/kernels/test_corpus"
    for test in $tests; do
        programs="$programs build/$mode/tests/kernels/$test"
    done
    # shellcheck disable=SC2086  # words
    ${MAKE:-make} --no-print-directory -s -j"${JOBS:-$(nproc)}" MODE=$mode CC="$compiler" $programs
    mkdir -p "build/$mode/programs"
done
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=0

# planted MODE KERNEL TEXT
planted() {
    log=$(log_of "planted $2")
    HOSTCL_CACHE=build/$1/programs "build/$1/tests/hostcl/planted" "$2" >"$log" 2>&1 || true
    result=ok
    grep -q "$3" "$log" || result=SILENCE
    echo "$3" >>"$log"
    row "a planted fault is reported: $2" "$result" "$log"
}
planted host-asan read_beyond 'heap-buffer-overflow'
planted host-asan write_before 'heap-buffer-overflow'
planted host-asan index_too_far 'out of bounds for type'
planted host-asan overflow 'signed integer overflow'
planted host-asan misaligned 'misaligned address'
planted host-asan skip_a_barrier '1 of 2 work-items met at a barrier'
planted host-msan decide_by_unwritten 'use-of-uninitialized-value'
planted host-msan result_of_unwritten 'use-of-uninitialized-value'

# check MODE PROGRAM [ARGUMENT ...]
check() {
    mode=$1
    program=$2
    shift 2
    log=$(log_of "$mode $program $*")
    result=WRONG
    if HOSTCL_CACHE=build/$mode/programs timeout -k 10 1800 "build/$mode/tests/kernels/$program" "$@" >"$log" 2>&1 &&
        ! grep -v -q -E "^\[ OK |^[0-9]+ passed, 0 failed\$|fully support makecontext" "$log"; then
        result=ok
    fi
    row "$mode: $program $*" "$result" "$log"
}
for mode in host-asan host-msan; do
    check "$mode" test_corpus --tiny
    check "$mode" test_corpus --tiny --generic-kernels
    check "$mode" test_corpus --tiny --gpu-kernels
    check "$mode" test_corpus --tiny --hostile-lookback
    for test in $tests; do
        check "$mode" "$test"
    done
done
rows_end
