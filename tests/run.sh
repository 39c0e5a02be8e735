#!/bin/sh
# Build one tree and run all tests with it:
#
#   tests/run.sh [release|debug|asan|tsan] [pytest arguments ...]
#
# The last line sums up all results: "N passed, N failed, N skipped". Exit status 1 if a test failed, if nothing ran,
# or, with CI set, if a test was skipped.
# Logs: build/MODE/test-logs/. JOBS=N sets how many programs run in parallel.
set -eu

cd "$(dirname "$0")/.."
mode=${1:-release}
[ $# -eq 0 ] || shift
build=build/$mode
venv=${VENV:-build/venv}
jobs=${JOBS:-$(nproc)}
bin=$build/bin
[ "$mode" != release ] || bin=build/bin

logs=$build/test-logs
rm -rf "$logs"
mkdir -p "$logs"

targets='all opencl unit-tests kernel-tests'
[ "$mode" != release ] || targets="$targets bench-tools"
# shellcheck disable=SC2086  # a list of words
${MAKE:-make} --no-print-directory -s -j"$jobs" MODE="$mode" WERROR="${CI:+-Werror}" $targets

# report_thread_leaks=0: a tallyd that a second signal aborts does not join its threads.
supp=$PWD/tests/sanitizers
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1"
# No alternate signal stacks: on processors with large registers, GCC 12's runtime fails to unmap a thread's stack,
# and aborts.
export ASAN_OPTIONS="detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:quarantine_size_mb=32:use_sigaltstack=0"
export LSAN_OPTIONS="suppressions=$supp/lsan.supp:print_suppressions=0"
export TSAN_OPTIONS="suppressions=$supp/tsan.supp:halt_on_error=1:second_deadlock_stack=1:report_thread_leaks=0:ignore_noninstrumented_modules=1"
export POCL_CACHE_DIR="${POCL_CACHE_DIR:-$PWD/build/pocl-cache}"

# Shell suites, kernel suites and cmocka suites; the longest first, so that no core is idle at the end. Each writes
# its counts to $logs/*.count.
programs=''
[ "$mode" != asan ] || programs=tests/fuzz/corpus.sh
[ ! -e tests/client/run.sh ] || programs="$programs tests/client/run.sh"
for source in tests/kernels/test_corpus.c tests/kernels/test_scan_device.c \
    tests/kernels/test_*.c tests/unit/test_*.c; do
    [ -e "$source" ] || continue
    case " $programs " in
    *" $build/${source%.c} "*) ;;
    *) programs="$programs $build/${source%.c}" ;;
    esac
done
export TALLY_TEST_BUILD="$build" TALLY_TEST_BIN="$bin" TALLY_TEST_MODE="$mode" TALLY_TEST_LOGS="$logs"
# Cache Python bytecode even if the environment forbids it: otherwise each of pytest's processes compiles all tests
# and packages again, which takes a dozen seconds of processor time.
export PYTHONDONTWRITEBYTECODE=
"$venv/bin/python" -m pytest tests/integration tests/client/python -q --collect-only >"$logs/collected" 2>&1 &
# shellcheck disable=SC2086  # a list of words
[ -z "$programs" ] || printf '%s\n' $programs | xargs -P "$jobs" -I{} sh tests/run_one.sh {}

wait # a failed collection is reported when the tests run

# More processes than cores: many tests wait for timeouts.
status=0
TALLYD=$PWD/$bin/tallyd "$venv/bin/python" -m pytest tests/integration tests/client/python -q -n "$((jobs + 3))" --dist worksteal \
    --junitxml="$logs/pytest.xml" -o junit_logging=no "$@" || status=$?
"$venv/bin/python" tests/count_junit.py "$logs/pytest.xml" "$status" >"$logs/pytest.count"

awk -v ci="${CI:-}" '
    { passed += $1; failed += $3; skipped += $5 }
    END {
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
        exit !(passed > 0 && failed == 0 && (ci == "" || skipped == 0))
    }' "$logs"/*.count
