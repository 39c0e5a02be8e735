# Functions for scripts that start tallyd from packages or from an image and check it. A script sources this file at the
# top of the tree. $work is a new folder, which is removed at exit; $pid is the running service, or empty.
# shellcheck shell=sh
set -eu
work=$(mktemp -d)
pid=''
passed=0
failed=0

# A script that mounts something below $work redefines this function.
unmount_all() { :; }

checks_cleanup() {
    [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
    unmount_all
    rm -rf --one-file-system "$work"
}
trap checks_cleanup EXIT
trap 'exit 1' INT TERM

# check NAME COMMAND ...: run the command, print a row, and the end of the command's output if it fails.
check() {
    checked=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
        echo "ok    $checked"
    else
        failed=$((failed + 1))
        echo "FAIL  $checked"
        tail -n 20 "$work/log"
    fi
}

# stop_service: send SIGTERM, and return the exit status of the service.
stop_service() {
    kill -TERM "$pid"
    status=0
    wait "$pid" || status=$?
    pid=''
    return "$status"
}

# Print the closing line. Returns false if anything failed.
checks_end() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}
