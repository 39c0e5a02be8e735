#!/bin/sh
# Run the tests of tests/kernels with kernels that are compiled with clang's sanitizers for Tally's own OpenCL driver,
# with as many threads as a launch has:
#
#   tests/sanitizers/kernels.sh [--all]
#
# AddressSanitizer detects each access outside a tensor or a scratch buffer (tests forbid the memory around tensors:
# tests/lib/memory_marks.h), UndefinedBehaviorSanitizer wrong indices, overflows and alignment, MemorySanitizer every
# branch, address and result that depends on unwritten memory, bit by bit. The GPU kernels are included: fibers.c
# implements barriers. First, a kernel with each fault must be reported (planted.cl). --all: more tests. Prints a row
# per run, and "N passed, N failed" at the end.
cd "$(dirname "$0")/../.." || exit 1
all=${1:-}
name=kernel-sanitize
. tests/lib/rows.sh

compiler=${CLANG:-clang}
tests='test_nasty test_variants test_sums test_random'
[ "$all" != --all ] || tests="$tests test_nasty_lines test_scan_slice"
for mode in host-asan host-msan; do
    programs="build/$mode/tests/sanitizers/planted build/$mode/tests/kernels/test_corpus"
    [ "$all" != --all ] || programs="$programs build/$mode/tests/kernels/test_nasty_shapes"
    for test in $tests; do
        programs="$programs build/$mode/tests/kernels/$test"
    done
    # shellcheck disable=SC2086  # words
    ${MAKE:-make} --no-print-directory -s -j"${JOBS:-$(nproc)}" MODE=$mode CC="$compiler" CLANG="$compiler" $programs
done
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TALLY_OPENCL_THREADS=4 ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=0

# planted MODE TEXT KERNEL [slab]
planted() {
    mode=$1
    text=$2
    shift 2
    log=$(log_of "planted $*")
    "build/$mode/tests/sanitizers/planted" "$@" >"$log" 2>&1 || true
    result=ok
    grep -q "$text" "$log" || result=SILENCE
    echo "$text" >>"$log"
    row "a planted fault is reported: $*" "$result" "$log"
}
planted host-asan 'heap-buffer-overflow' read_beyond
planted host-asan 'heap-buffer-overflow' write_before
planted host-asan 'use-after-poison' read_beyond slab
planted host-asan 'use-after-poison' write_before slab
planted host-asan 'out of bounds for type' index_too_far
planted host-asan 'signed integer overflow' overflow
planted host-asan 'misaligned address' misaligned
planted host-asan '1 of 2 work-items met at a barrier' skip_a_barrier
planted host-msan 'use-of-uninitialized-value' decide_by_unwritten
planted host-msan 'use-of-uninitialized-value' result_of_unwritten
planted host-msan 'use-of-uninitialized-value' result_of_unwritten slab

# check MODE PROGRAM [ARGUMENT ...]
check() {
    mode=$1
    program=$2
    shift 2
    log=$(log_of "$mode $program $*")
    result=WRONG
    if timeout -k 10 1800 "build/$mode/tests/kernels/$program" "$@" >"$log" 2>&1 &&
        ! grep -v -q -E "^\[ OK |^[0-9]+ passed, 0 failed\$|^--seed [0-9]+\$|fully support makecontext" "$log"; then
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
    [ "$all" != --all ] || check "$mode" test_nasty_shapes --all
done
rows_end
