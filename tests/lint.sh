#!/bin/sh
# Run every static check of the tree. Prints the findings of a failing check; the last line names the failed checks.
#
#   tests/lint.sh [CHECK ...]     layering size docs format shell python kubernetes workflows gcc circles clang
#                                 kernels tidy cppcheck
#
# clang-tidy, cppcheck and the two compilers remember passed files (build/lint), so a second run checks only changed
# ones.
set -u

cd "$(dirname "$0")/.." || exit 1
jobs=${JOBS:-$(nproc)}
venv=${VENV:-build/lint-venv}
cache=build/lint
mkdir -p "$cache/tidy" "$cache/cppcheck"
clang_flags=-Wno-unknown-warning-option
defines="-std=c17 -D_GNU_SOURCE -I. -DTALLY_VERSION=\"lint\" -DCL_TARGET_OPENCL_VERSION=120"

# The files to check: those that git tracks or would track, or all files of a tree without git, such as that of `make
# dist`.
tree=$(if [ -e .git ]; then
    git ls-files --cached --others --exclude-standard
else
    find . -path ./build -prune -o -type f ! -name '*.pyc' -print | sed 's|^\./||' | sort
fi)
[ -n "$tree" ] || {
    echo "lint: found no file to look at: does \`git ls-files\` work here?" >&2
    exit 1
}

# tracked PATTERN ...: print the files that match a pattern, whose * also matches "/".
tracked() {
    printf '%s\n' "$tree" | while read -r file; do
        for pattern in "$@"; do
            # shellcheck disable=SC2254  # it is a pattern
            case $file in
            $pattern) printf '%s\n' "$file" && break ;;
            esac
        done
    done
}

check_layering() { sh tests/check_layering.sh; }

check_size() {
    tracked '*.c' '*.h' '*.cl' '*.cc' | xargs wc -l |
        awk '$2 != "total" && $1 > 800 { print $2 ": " $1 " lines, 800 are allowed"; bad = 1 }
             END { exit bad }'
}

# groff reports constructs that it does not understand but exits with status 0.
check_docs() {
    python3 tests/lint_docs.py || return 1
    for page in $(tracked 'client/man/*.[1-8]'); do
        groff -ww -man -Tutf8 -z "$page" >"$cache/groff" 2>&1 && [ ! -s "$cache/groff" ] && continue
        cat "$cache/groff"
        return 1
    done
}

check_format() {
    # shellcheck disable=SC2046
    "$venv/bin/clang-format" --dry-run --Werror --ferror-limit=5 \
        $(tracked '*.c' '*.h' '*.cc')
}

check_shell() {
    # shellcheck disable=SC2046
    shellcheck $(tracked '*.sh' '*.bash' '.ci/run')
}

check_python() {
    python=$(cd "$venv" && pwd)/bin/python
    # shellcheck disable=SC2046
    "$python" -m ruff format --quiet --no-cache --diff --line-length 100 $(tracked '*.py') &&
        "$python" -m ruff check --quiet --no-cache --select F401 $(tracked '*.py') || return 1
    (
        cd client/python &&
            "$python" -m ruff check --quiet --no-cache --config pyproject.toml . ../../tests/client/python &&
            "$python" -m mypy --cache-dir "../../$cache/mypy" tally &&
            "$python" -m pyright --pythonpath "$python"
    )
}

check_kubernetes() { "$venv/bin/python" tests/lint_kubernetes.py; }

# Checks workflows against the schema of the checker, and their steps as shell programs.
check_workflows() {
    # shellcheck disable=SC2046
    set -- $(tracked '.github/workflows/*')
    "$venv/bin/check-jsonschema" --builtin-schema vendor.github-workflows "$@" &&
        "$venv/bin/python" tests/lint_workflows.py "$@"
}

# Compile everything without warnings with one compiler, in a separate build folder.
build_with() { # build_with FOLDER CC CXX EXTRA_CFLAGS TARGET ...
    folder=$1 cc=$2 cxx=$3 flags=$4
    shift 4
    ${MAKE:-make} --no-print-directory -s -k -j"$jobs" B="$folder" BIN="$folder/bin" \
        CC="$cc" CXX="$cxx" CFLAGS="$flags" WERROR=-Werror "$@"
}
# GCC's analyser checks only the product (tests/run.sh builds the tests, in CI with warnings as errors). Leaks are
# left to clang's analyser and LeakSanitizer, since GCC's does not follow ownership through structures.
check_gcc() {
    # If nothing is built yet, the objects are those of a normal build: warnings change no code.
    folder=$cache/gcc
    [ -e build/release ] || folder=build/release
    build_with "$folder" gcc g++ "-Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wjump-misses-init \
        -fanalyzer -Wno-analyzer-malloc-leak" product-objects
}
# The check needs up-to-date objects of the normal build and builds them if necessary. It runs after check_gcc, whose
# objects must all be analysed: in a new tree check_gcc builds them here.
check_circles() {
    make="${MAKE:-make} --no-print-directory -s MODE=release"
    # shellcheck disable=SC2046,SC2086  # lists of words
    $make -j"$jobs" product-objects &&
        python3 tests/check_circles.py build/release $($make product-list)
}
# clang compiles only the tests here: clang-tidy reports clang's warnings for the product. No optimisation is needed, as
# clang warns before it optimises.
check_clang() {
    build_with "$cache/clang" clang clang++ "$clang_flags -O0 -g0 -U_FORTIFY_SOURCE" test-objects cxx-objects
}

# Compile every program that a device with its own compiler could request; programs of float16 also for processors with
# instructions that convert float16. Programs for processors are compiled by the build, with the same warnings. Shared
# files are part of each program, so some functions and, depending on the type, some parameters are unused.
# PoCL miscompiles kernels for GPUs that return early (gpu_tile.cl).
check_kernels() {
    awk '/^__kernel/ { inside = 1 } /^}/ { inside = 0 }
         inside && /(^|[^a-z_])return([^a-z_]|$)/ { print FILENAME ":" FNR ": a kernel returns early"; found = 1 }
         END { exit found }' kernels/cl/gpu_*.cl || return 1
    list=$cache/kernels.list
    ${MAKE:-make} --no-print-directory -s -j"$jobs" build/release/tests/kernels/test_sources &&
        build/release/tests/kernels/test_sources --list | grep -E 'gpu|SOFT' >"$list" && [ -s "$list" ] || return 1
    # shellcheck disable=SC2016  # the inner shell expands them
    tr '\n' '\0' <"$list" | xargs -0 -P "$jobs" -n 1 sh -c '
        options=${1%%"	"*} sources=${1#*"	"} machines=-mno-f16c
        case $options in *ELEM_F16*) machines="-mno-f16c -mf16c" ;; esac
        # shellcheck disable=SC2086  # lists of words
        for machine in $machines; do
            cat $sources | clang -target x86_64-linux-gnu $machine -x cl -cl-std=CL1.2 \
                -Wall -Wextra -Werror -Wno-unused-function -Wno-unused-parameter -Xclang -fdeclare-opencl-builtins \
                -Xclang -finclude-default-header -fsyntax-only $options - ||
                { echo "$options $machine: $sources" && exit 1; }
        done' sh || return 1
    # The sanitizers run the kernels for GPUs as code for a processor (tests/sanitizers/kernels.sh): its header must
    # have every function that they call.
    rm -rf "$cache/gpu" && mkdir "$cache/gpu" && ${MAKE:-make} --no-print-directory -s build/ahead/list_kernels || return 1
    build/ahead/list_kernels --all | grep -E '^gpu_[a-z]*_(f32|f64|i8)_uint	' |
        awk -F '\t' '!seen[$1]++' >"$cache/gpu/list" && [ -s "$cache/gpu/list" ] || return 1
    ${MAKE:-make} --no-print-directory -s -j"$jobs" -f kernels/cpu/kernels.mk LIST="$cache/gpu/list" \
        DIR="$cache/gpu" OUT="$cache/gpu/gpu.o" LEVELS=baseline &&
        ! nm -u "$cache/gpu/gpu.o" | grep -v -E ' (cpu_barrier|cpu_item|memcpy)$'
}

check_tidy() {
    TIDY_WARNINGS="$(${MAKE:-make} --no-print-directory -s warnings) $clang_flags"
    TIDY_VERSION=$(clang-tidy --version)
    export TIDY_DEFINES="$defines" TIDY_CACHE="$cache/tidy" TIDY_WARNINGS TIDY_VERSION
    # The examples are written for readers; the client's tests compile them with warnings as errors.
    tracked 'proto/*.c' 'kernels/*.c' 'server/*.c' 'client/*.c' | grep -v '^client/examples/' |
        xargs -P "$jobs" -n 1 sh tests/tidy_one.sh
}

check_cppcheck() {
    tracked 'proto/*.c' 'proto/*.cc' 'kernels/*.c' 'server/*.c' 'client/*.c' |
        cppcheck --quiet -j "$jobs" --std=c11 --enable=warning,style,performance,portability \
            --error-exitcode=1 --inline-suppr --suppress=missingIncludeSystem \
            --suppressions-list=tests/cppcheck.supp --cppcheck-build-dir="$cache/cppcheck" \
            -D_GNU_SOURCE -D__x86_64__ '-DTALLY_VERSION="lint"' -I. --file-list=-
}

# run_check CHECK: print the findings and a line with the result. If the check fails, its name is added to
# $cache/failed.
run_check() {
    started=$(date +%s)
    if "check_$1" >"$cache/$1.log" 2>&1; then
        printf 'lint: %-10s ok (%s s)\n' "$1" $(($(date +%s) - started))
    else
        cat "$cache/$1.log"
        printf 'lint: %-10s FAILED\n' "$1"
        echo "$1" >>"$cache/failed"
    fi
}

# Single-threaded checks run in parallel with those that use all cores.
rm -f "$cache/failed" "$cache/beside.out"
[ $# -gt 0 ] || set -- layering size docs format shell python kubernetes workflows gcc circles clang kernels tidy cppcheck
alone='' beside=''
for check in "$@"; do
    case $check in
    layering | size | docs | format | shell | python | kubernetes | workflows) beside="$beside $check" ;;
    *) alone="$alone $check" ;;
    esac
done
(for check in $beside; do run_check "$check"; done) >"$cache/beside.out" 2>&1 &
for check in $alone; do
    run_check "$check"
done
wait
cat "$cache/beside.out"
[ ! -s "$cache/failed" ] || {
    echo "lint: failed: $(tr '\n' ' ' <"$cache/failed")"
    exit 1
}
echo "lint: all checks passed"
