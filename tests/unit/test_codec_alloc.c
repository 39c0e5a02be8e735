/* Requests of every format; the first, second, third ... allocation fails, until none does.
 * Each failure must give OUT_OF_MEMORY without a leak, and the last run must give the
 * answer. */
#include "tests/lib/unit.h"
#include "tests/unit/codec_run.h"
#include "tests/unit/failing_memory.h"

#include <jansson.h>

static const struct {
    enum codec_format format;
    const char *query;
    const char *body;
    size_t bytes;
} requests[] = {
    {CODEC_FORMAT_JSON, "", "{\"data\":[[1,2],[3,4]],\"dtype\":\"float32\",\"axis\":1}", 0},
    {CODEC_FORMAT_JSON, "", "{\"data\":[1,2,3,4],\"shape\":[2,2],\"strides\":[2,1]}", 0},
    {CODEC_FORMAT_JSON, "", "{\"data\":[[],[]],\"part\":\"first\"}", 0},
    {CODEC_FORMAT_JSON, "", "{\"data\":[1],\"\\u0065\\u0078\\u0063lusive\":true}", 0},
    {CODEC_FORMAT_RAW, "dtype=float32&shape=2", "\0\0\200\77\0\0\0\100", 8},
    {CODEC_FORMAT_NPY, "",
     "\x93NUMPY\1\0\x39\0{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2)} \n"
     "\0\0\200\77\0\0\0\100",
     10 + 57 + 8},
};

/* Run until no allocation fails; returns the number of failures. */
static int run_with_failures(size_t i, enum codec_format answer)
{
    size_t bytes = requests[i].bytes > 0 ? requests[i].bytes : strlen(requests[i].body);
    for (int nth = 1;; nth++) {
        struct run run;
        memory_begin(nth);
        run_request(codec_cumsum(requests[i].format), requests[i].query, answer,
                    (struct byte_view){requests[i].body, bytes}, &run);
        bool failed = memory_end();
        if (!failed) {
            assert_int_equal(run.status, STATUS_OK);
            assert_true(run.computed);
            run_deinit(&run);
            return nth - 1;
        }
        if (run.status != STATUS_OUT_OF_MEMORY) {
            fail_msg("allocation %d: %s: %s", nth, status_slug(run.status), run.err.detail);
        }
        run_deinit(&run);
        assert_int_equal(memory.live, 0);
    }
}

static void every_failing_allocation_gives_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(requests); i++) {
        for (int answer = 0; answer < 3; answer++) {
            int failures = run_with_failures(i, (enum codec_format)answer);
            assert_true(failures >= (requests[i].format == CODEC_FORMAT_JSON ? 15 : 4));
        }
    }
}

/* Fill the stack with a value, which code that reads an uninitialized variable would find. */
static __attribute__((noinline)) void leave_on_the_stack(char value)
{
    volatile char left[32768];
    for (size_t i = 0; i < sizeof left; i++) {
        left[i] = value;
    }
}

/* Run the first request with this value on the stack; its Nth allocation fails. Returns the
 * number of allocations. */
static long allocations_after(char left, long nth)
{
    struct run run;
    leave_on_the_stack(left);
    memory_begin(nth);
    run_request(codec_cumsum(CODEC_FORMAT_JSON), "", CODEC_FORMAT_JSON,
                (struct byte_view){requests[0].body, strlen(requests[0].body)}, &run);
    (void)memory_end();
    run_deinit(&run);
    return memory.allocations;
}

/* A failing allocation must not be mistaken for jansson's error "number too large", after which
 * the body is parsed again. */
static void uninitialized_stack_memory_has_no_effect(void **state)
{
    (void)state;
    for (long nth = 1; nth <= allocations_after(0, 0); nth++) {
        assert_int_equal(allocations_after(json_error_numeric_overflow, nth),
                         allocations_after(0, nth));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failing_allocation_gives_an_error_and_leaks_nothing),
        cmocka_unit_test(uninitialized_stack_memory_has_no_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
