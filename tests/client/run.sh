#!/bin/sh
# Run every test of the client: libtally's C programs, the tally command, the examples in C and in other languages,
# the installed files.
#
#   tests/client/run.sh [release|debug|asan|tsan]      (default: $TALLY_TEST_MODE, else release)
#
# The last line is "N passed, N failed, N skipped". Needs the packages of `deploy/install-deps.sh test`; a test whose
# interpreter or tool is missing is skipped and named.
# shellcheck shell=dash disable=SC2030,SC2031  # groups leave their counts in files
set -u

cd "$(dirname "$0")/../.." || exit 1
mode=${1:-${TALLY_TEST_MODE:-release}}
build=build/$mode
bin=$build/bin
lib=$build/lib
[ "$mode" != release ] || bin=build/bin lib=build/lib
python=${VENV:-build/venv}/bin/python
[ -x "$python" ] || python=python3
make="${MAKE:-make} --no-print-directory -s MODE=$mode"
scratch=$(mktemp -d)
passed=0 failed=0 skipped=0
socket=$scratch/tally.sock
server=''

cleanup() {
    [ -z "$server" ] || kill "$server" 2>/dev/null
    [ -z "$server" ] || wait "$server" 2>/dev/null
    rm -rf "$scratch"
}
trap cleanup EXIT

supp=$PWD/tests/sanitizers
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}"
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1}"
export LSAN_OPTIONS="${LSAN_OPTIONS:-suppressions=$supp/lsan.supp:print_suppressions=0}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-suppressions=$supp/tsan.supp:halt_on_error=1:second_deadlock_stack=1:ignore_noninstrumented_modules=1}"
export POCL_CACHE_DIR="${POCL_CACHE_DIR:-$PWD/build/pocl-cache}"
unset TALLY_URL TALLY_TOKEN NO_COLOR http_proxy HTTP_PROXY

# check NAME COMMAND...: run one test; its output is shown only if it fails.
check() {
    local name="$1"
    shift
    if "$@" >"$scratch/log" 2>&1; then
        echo "ok - $name"
        passed=$((passed + 1))
    else
        sed 's/^/    /' "$scratch/log"
        echo "not ok - $name"
        failed=$((failed + 1))
    fi
}

skip() {
    echo "ok - $1 # SKIP $2"
    skipped=$((skipped + 1))
}

# suite NAME COMMAND...: run a program with several tests, which reports them in TAP.
suite() {
    local name="$1" ok not_ok status
    shift
    CMOCKA_MESSAGE_OUTPUT=TAP timeout -k 5 600 "$@" >"$scratch/log" 2>&1
    status=$?
    ok=$(grep -c '^ok ' "$scratch/log")
    not_ok=$(grep -c '^not ok ' "$scratch/log")
    [ "$status" = 0 ] || [ "$not_ok" -gt 0 ] || not_ok=1
    [ "$((ok + not_ok))" -gt 0 ] || not_ok=1
    passed=$((passed + ok)) failed=$((failed + not_ok))
    if [ "$not_ok" = 0 ]; then
        echo "ok - $name: $ok tests"
    else
        sed 's/^/    /' "$scratch/log"
        echo "not ok - $name: exit status $status, $ok passed, $not_ok failed"
    fi
}

start_server() {
    local port
    port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    "$bin/tallyd" --listen "127.0.0.1:$port" --listen "unix:$socket" \
        --drain-delay-ms 0 >"$scratch/tallyd.log" 2>&1 &
    server=$!
    export TALLY_URL="http://127.0.0.1:$port"
    for _ in $(seq 600); do
        "$bin/tally" health >/dev/null 2>&1 && return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    cat "$scratch/tallyd.log"
    return 1
}

# shows TEXT COMMAND...: the command must succeed, and its output, with blanks collapsed, must contain TEXT.
shows() {
    local text="$1"
    shift
    "$@" >"$scratch/shown" 2>"$scratch/shown.err" || { cat "$scratch/shown" "$scratch/shown.err"; return 1; }
    tr -s ' \n\t' '   ' <"$scratch/shown" | grep -qF -- "$text" || { cat "$scratch/shown"; return 1; }
}

abi_is_as_listed() {
    nm -D --defined-only "$lib/libtally.so" | awk '$2 == "T" { print $3 }' | sort >"$scratch/abi"
    diff -u tests/client/abi.expected "$scratch/abi" &&
        ! nm -D --defined-only "$lib/libtally.so" | grep -vE ' [TA] (tally_[a-z_]+@@)?TALLY_0$' | grep -v __asan
}

archive_is_clean() {
    ! nm -g --defined-only "$lib/libtally.a" | awk 'NF == 3 { print $3 }' | grep -v '^tally_' &&
        readelf -d "$lib/libtally.so" | grep -qF 'Library soname: [libtally.so.0]'
}

flags_of_mode() {
    case $mode in
    asan) echo -fsanitize=address,undefined ;;
    tsan) echo -fsanitize=thread ;;
    esac
}

compile_cxx() {
    # shellcheck disable=SC2046
    c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror $(flags_of_mode) -I. -o "$scratch/test_cxx" \
        tests/client/test_cxx.cc "$lib/libtally.a" -lcurl -ljansson -lpthread && "$scratch/test_cxx"
}

header_alone() { # header_alone HEADER LANGUAGE STANDARD
    printf '#include "%s"\n#include "%s"\nint main(void) { return 0; }\n' "$1" "$1" |
        cc -x "$2" "-std=$3" -Wall -Wextra -Wpedantic -Werror -Iclient -c -o /dev/null -
}

install_all() {
    # only the kernels for this machine: those for other machines take minutes and are installed in the same way
    $make install-built DESTDIR="$scratch/root" PREFIX=/opt/tally || return 1
    local d="$scratch/root/opt/tally" file
    for file in bin/tally bin/tallyd lib/libtally.a lib/libtally.so.0 lib/libtally.so include/tally.h \
        include/tally_directml.h lib/pkgconfig/tally.pc share/man/man1/tally.1 share/man/man3/tally.3 share/man/man8/tallyd.8 \
        share/bash-completion/completions/tally share/zsh/site-functions/_tally share/fish/vendor_completions.d/tally.fish \
        share/doc/tally/README.md share/doc/tally/docs/running.md lib/systemd/system/tallyd.service; do
        [ -s "$d/$file" ] || { echo "$file was not installed"; return 1; }
    done
}

# Compile against the installed files with the output of pkg-config and nothing else.
example() { # example NAME TEXT [static]
    local d="$scratch/root/opt/tally" flags
    flags=$(PKG_CONFIG_PATH=$d/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$scratch/root \
        pkg-config --cflags ${3:+"--$3"} --libs tally) || return 1
    # docs/client.md links the static library with this option.
    [ "$#" -lt 3 ] || flags=$(echo "$flags" | sed 's/-ltally/-l:libtally.a/')
    # shellcheck disable=SC2046,SC2086
    cc -std=c11 -Wall -Wextra -Werror $(flags_of_mode) -o "$scratch/$1" "client/examples/$1.c" $flags &&
        { [ "$#" -lt 3 ] || ! readelf -d "$scratch/$1" | grep -F libtally; } &&
        shows "$2" env LD_LIBRARY_PATH="$d/lib" "$scratch/$1"
}

command_tests() { # command_tests NAME FILE [CLASS...]
    local name="$1" status line
    shift
    TALLY=$bin/tally python3 "$@" >"$scratch/cli" 2>&1
    status=$?
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$scratch/cli" | tail -n 1)
    if [ -z "$line" ]; then
        cat "$scratch/cli"
        echo "not ok - $name: exit status $status"
        failed=$((failed + 1))
        return
    fi
    [ "$status" = 0 ] || cat "$scratch/cli"
    echo "$([ "$status" = 0 ] || printf 'not ')ok - $name: $line"
    # shellcheck disable=SC2086  # six words
    set -- $line
    passed=$((passed + $1)) failed=$((failed + $3)) skipped=$((skipped + $5))
}

memory_clean() { # memory_clean PROGRAM
    TALLY_TEST_UNDER_VALGRIND=1 valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,indirect,possible "$@"
}

if ! $make all client-tests >"$scratch/make.log" 2>&1; then
    cat "$scratch/make.log"
    echo "not ok - the client builds"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi

memory_tests() {
    local name
    case $mode in
    release | debug) ;;
    *) return ;; # the sanitizers of these builds find the same faults
    esac
    if ! command -v valgrind >/dev/null 2>&1; then
        skip "valgrind" "not here; asan and tsan builds look for the same"
        return
    fi
    for name in parts attributes carry transport exchange framed retry async; do
        check "test_$name under valgrind" memory_clean "$build/tests/client/test_$name"
    done
}

library_tests() {
    local name header
    for name in parts attributes carry transport exchange framed retry async; do
        suite "test_$name" "$build/tests/client/test_$name"
    done
    check "libtally.so exports the listed symbols and no other" abi_is_as_listed
    check "libtally.a shows only tally_ names, libtally.so has its soname" archive_is_clean
    check "a C++ program uses libtally" compile_cxx
    for header in tally.h tally_directml.h; do
        check "$header compiles as C99 and C17" eval "header_alone $header c c99 && header_alone $header c c17"
        check "$header compiles as C++11" header_alone "$header" c++ c++11
    done
    suite "test_real" "$build/tests/client/test_real"
    suite "test_real over a Unix socket" env "TALLY_URL=unix:$socket" "$build/tests/client/test_real"
    check "make install puts everything in place" install_all
    check "examples/cumsum.c" example cumsum "1 3 6 10 30 60"
    check "examples/cumsum.c, linked statically" example cumsum "1 3 6 10 30 60" static
    check "examples/directml.c" example directml "0 2 3 6 0 3 11 18 0 9 15 17"
    check "examples/async.c" example async "100 of 100 sums, the last one is 99000"
    check "examples/parts.c" example parts "1 3 6 10 15 21"
}

files_tests() { command_tests "the tally command with large files" tests/client/test_cli_parts.py Files; }
streams_tests() { command_tests "the tally command with streams" tests/client/test_cli_parts.py Streams; }
killed_tests() { command_tests "the tally command while servers die" tests/client/test_cli_parts.py Servers; }

cli_tests() {
    command_tests "the tally command" tests/client/test_cli.py
    command_tests "the tally command with text" tests/client/test_cli_text.py
    command_tests "the tally command with attributes" tests/client/test_cli_attributes.py
    command_tests "the tally command over TLS" tests/client/test_tls.py
}

# beside NAME COMMAND: run a group of tests in parallel with the others, in a folder of its own. Its output and counts
# are shown at the end.
groups=''
beside() {
    groups="$groups $1:"
    mkdir "$scratch/$1"
    (
        trap - EXIT
        scratch=$scratch/$1
        passed=0 failed=0 skipped=0
        "$2"
        echo "$passed $failed $skipped" >"$scratch/counts"
    ) >"$scratch/$1/output" 2>&1 &
    groups="$groups$!"
}

if start_server; then
    beside files files_tests
    beside streams streams_tests
    beside killed killed_tests
    beside command cli_tests
    beside memory memory_tests
    beside library library_tests
    for group in $groups; do
        wait "${group#*:}"
        group=$scratch/${group%%:*}
        cat "$group/output"
        read -r ok not_ok left_out <"$group/counts" || ok=0 not_ok=1 left_out=0
        passed=$((passed + ok)) failed=$((failed + not_ok)) skipped=$((skipped + left_out))
    done
    kill "$server"
    check "the server survived and leaves with status 0" wait "$server"
    server=''
else
    echo "not ok - tallyd starts"
    failed=$((failed + 1))
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
