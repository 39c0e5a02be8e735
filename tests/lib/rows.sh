# Functions for scripts that make many runs and print a row for each. A script sources this file at the top
# of the tree with `name` set; logs are in $logs, build/release/NAME-logs.
# shellcheck shell=sh disable=SC2154
set -eu
build=build/release
logs=$build/$name-logs
rm -rf "$logs"
mkdir -p "$logs"
passed=0
failed=0

log_of() { printf '%s/%s.log' "$logs" "$(printf '%s' "$1" | tr ' /' '__')"; }

# row NAME RESULT LOG: "ok" and "same" are good results.
row() {
    printf '%-60s %-8s %s\n' "$1" "$2" "$(tail -n 1 "$3" | cut -c 1-80)"
    case $2 in
    ok | same) passed=$((passed + 1)) ;;
    *)
        failed=$((failed + 1))
        grep -v '^\[ OK' "$3" | head -n 40
        ;;
    esac
}

# Print the closing line. Returns false if anything failed.
rows_end() {
    printf '%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" -eq 0 ]
}
