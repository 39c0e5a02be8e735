#!/bin/sh
# Run one test program and write "N passed, N failed, N skipped" to $TALLY_TEST_LOGS/NAME.count. The result is the
# program's TAP (cmocka) or its closing line, combined with its exit status, so that a crash never counts as a pass.
# The log is shown only after a failure.
set -u

program=$1
name=$(printf '%s' "${program#"$TALLY_TEST_BUILD"/tests/}" | tr '/.' '--')
log=$TALLY_TEST_LOGS/$name.log

export CMOCKA_MESSAGE_OUTPUT=TAP
started=$(date +%s)
limit=1500 # for programs that hang: a busy machine is ten times as slow as an idle one
case $program in
*.sh) timeout -k 10 "$limit" sh "$program" >"$log" 2>&1 ;;
*) timeout -k 10 "$limit" "$program" >"$log" 2>&1 ;;
esac
status=$?

# Elapsed time, and user and system time of all processes.
times >"$log.times" # no pipe here: in a subshell, times would count only the children of the subshell
cost="$(($(date +%s) - started)) s, processor $(awk 'NR == 2 {
    split($1, user, /[ms]/); split($2, kernel, /[ms]/)
    printf "%.1f s", 60 * (user[1] + kernel[1]) + user[2] + kernel[2] }' "$log.times")"
rm -f "$log.times"
echo "# took $cost" >>"$log"

closing=$(grep -E '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$log" | tail -n 1)
if [ -z "$closing" ]; then
    closing=$(awk '
        /^[ \t]*1\.\.[0-9]+/ { sub(/^[ \t]*1\.\./, ""); planned += $1 }
        /^(not )?ok [0-9]+ # (SKIP|skip)/ { skipped++; next }
        /^ok [0-9]+/ { passed++ }
        /^not ok [0-9]+/ { failed++ }
        END {
            lost = planned - passed - failed - skipped
            if (lost > 0)
                failed += lost
            printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
        }' "$log")
fi
# Apply the exit status: a program without counts is one test; a program with a bad status has at least one failure.
closing=$(printf '%s\n' "$closing" | awk -v status="$status" '
    {
        passed = $1; failed = $3; skipped = NF > 4 ? $5 : 0
        if (passed + failed + skipped == 0 && status == 0) passed = 1
        if (failed == 0 && status != 0) failed = 1
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    }')
printf '%s\n' "$closing" >"$TALLY_TEST_LOGS/$name.count"

case $closing in
*" 0 failed"*) printf '%-34s %s (%s)\n' "$name" "$closing" "$cost" ;;
*)
    printf '==== %s failed (exit status %s), the end of its log:\n' "$name" "$status"
    tail -n 60 "$log"
    printf '==== %s: %s\n' "$name" "$closing"
    ;;
esac
exit 0
