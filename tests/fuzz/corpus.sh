#!/bin/sh
# Run every fuzz target once over its corpus, with clang's sanitizers, which detect faults that GCC's do not: part of
# `make asan`. The last line is "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0
for corpus in tests/fuzz/corpus/*/; do
    name=$(basename "$corpus")
    if ${MAKE:-make} --no-print-directory -s MODE=fuzz CC=clang CXX=clang++ "corpus-$name"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
