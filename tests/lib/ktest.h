/* A test runner that needs only libc, so that kernel tests also build on a bare GPU machine.
 * It prints "[ OK ] sentence (seconds of processor time)" or "[ FAILED ] sentence" for each
 * test and "N passed, N failed" at the end. One thread. */
#ifndef TALLY_TESTS_LIB_KTEST_H
#define TALLY_TESTS_LIB_KTEST_H

#include "proto/macros.h"

#include <stdbool.h>
#include <stddef.h>

typedef void (*ktest_function)(const void *context);

/* Run one test, named by a sentence. The test fails if it calls ktest_fail() or a failing
 * check. */
void ktest_run(const char *sentence, ktest_function test, const void *context);

/* Fail the running test with a reason; only the first few reasons are printed. */
void ktest_fail(const char *format, ...) PRINTF_LIKE(1, 2);

/* Fail the test unless `ok`. Returns `ok`. */
bool ktest_check(bool ok, const char *what);

/* Fail the test, naming the first different element, unless the bytes are equal. */
bool ktest_same_bytes(const void *got, const void *want, size_t count, size_t element_bytes,
                      const char *what);

/* Print the closing line. Returns the exit status of the process. */
int ktest_finish(void);

#endif
