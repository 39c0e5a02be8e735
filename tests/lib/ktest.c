/* The counters of the test runner; tests run sequentially on one thread. */
#include "tests/lib/ktest.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    REASONS_PRINTED = 5
};

static struct {
    unsigned passed;
    unsigned failed;
    unsigned reasons; /* reasons printed for the running test */
} state;

void ktest_run(const char *sentence, ktest_function test, const void *context)
{
    clock_t started = clock(); /* processor time of all threads */
    state.reasons = 0;
    test(context);
    double seconds = (double)(clock() - started) / CLOCKS_PER_SEC;
    if (state.reasons == 0) {
        state.passed++;
        printf("[ OK ] %s (%.1f s)\n", sentence, seconds);
    } else {
        state.failed++;
        printf("[ FAILED ] %s (%u reasons)\n", sentence, state.reasons);
    }
    (void)fflush(stdout);
}

void ktest_fail(const char *format, ...)
{
    va_list args;
    if (state.reasons++ >= REASONS_PRINTED) {
        return;
    }
    printf("    ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

bool ktest_check(bool ok, const char *what)
{
    if (!ok) {
        ktest_fail("not so: %s", what);
    }
    return ok;
}

bool ktest_same_bytes(const void *got, const void *want, size_t count, size_t element_bytes,
                      const char *what)
{
    const unsigned char *a = got;
    const unsigned char *b = want;
    if (memcmp(a, b, count * element_bytes) == 0) {
        return true;
    }
    size_t i = 0;
    while (memcmp(a + i * element_bytes, b + i * element_bytes, element_bytes) == 0) {
        i++;
    }
    char hex[2][17] = {"", ""};
    for (size_t byte = 0; byte < element_bytes && byte < 8; byte++) {
        size_t from = i * element_bytes + element_bytes - 1 - byte;
        (void)snprintf(hex[0] + 2 * byte, 3, "%02x", a[from]);
        (void)snprintf(hex[1] + 2 * byte, 3, "%02x", b[from]);
    }
    ktest_fail("%s: element %zu of %zu is 0x%s, should be 0x%s", what, i, count, hex[0],
               hex[1]);
    return false;
}

int ktest_finish(void)
{
    printf("%u passed, %u failed\n", state.passed, state.failed);
    return state.failed == 0 && state.passed > 0 ? 0 : 1;
}
