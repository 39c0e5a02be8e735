/* Steps on elements before a scan and on sums after it (proto/elements.h).
 * tests/integration/test_attributes.py tests the service's sums. */
#include "proto/elements.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

enum {
    COUNT = 3 * PARALLEL_STEP_BYTES + 77
};

/* Work that is cancelled after `left` steps; negative: never. */
struct steps {
    struct parallel parallel;
    int left;
    int taken;
};

static bool take_step(const struct parallel *parallel)
{
    struct steps *steps = (struct steps *)(uintptr_t)parallel;
    steps->taken++;
    return steps->left < 0 || steps->left-- > 0;
}

static struct steps steps_of(int left)
{
    return (struct steps){.parallel = {.grain = 1, .step = take_step}, .left = left};
}

static struct scan_desc converted(enum dtype from, enum dtype to)
{
    return (struct scan_desc){
        .dtype = to, .converts = from != to, .input = from, .rank = 1, .sizes = {COUNT}};
}

static void long_work_is_done_in_steps_and_can_be_given_up(void **state)
{
    (void)state;
    struct scan_desc cases[] = {converted(DTYPE_BOOL, DTYPE_I64),
                                converted(DTYPE_I8, DTYPE_I16), converted(DTYPE_F16, DTYPE_F64),
                                converted(DTYPE_F32, DTYPE_F32)};
    char *input = calloc(COUNT, 8);
    uint64_t *marks = calloc(COUNT / 64 + 1, 8);
    cases[3].nan = SCAN_NAN_SKIP;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err = ERROR_INIT;
        struct steps all = steps_of(-1);
        struct elements_marks own = {.bits = cases[i].nan == SCAN_NAN_SKIP ? marks : NULL};
        assert_int_equal(elements_prepare(&cases[i], input, COUNT, &all.parallel, &own, &err),
                         STATUS_OK);
        assert_false(own.any);
        assert_true(all.taken > 3);
        struct steps few = steps_of(all.taken - 1);
        assert_int_equal(elements_prepare(&cases[i], input, COUNT, &few.parallel, &own, &err),
                         STATUS_CLIENT_GONE);
    }
    free(marks);
    free(input);
}

static void cells_that_no_scan_writes_are_written_in_steps(void **state)
{
    (void)state;
    struct scan_desc desc = {.dtype = DTYPE_F32,
                             .rank = 2,
                             .sizes = {1 << 17, 3},
                             .axis = 1,
                             .nan = SCAN_NAN_SKIP,
                             .has_initial = true,
                             .initial = 0x3F800000,
                             .include_initial = true};
    const uint64_t count = 3 << 17;
    float *output = calloc(4 << 17, sizeof *output);
    uint64_t *marks = calloc(count / 64 + 1, 8);
    struct error err = ERROR_INIT;
    struct steps all = steps_of(-1);
    struct steps none = steps_of(0);
    marks[1] = 1; /* element 64 is the second one of line 21 */
    assert_int_equal(elements_write_initial(&desc, false, &all.parallel, output, &err),
                     STATUS_OK);
    assert_true(all.taken > 1);
    for (int line = 0; line < 1 << 17; line++) {
        assert_true(output[4 * line] > 0.5F && output[4 * line + 1] < 0.5F);
    }
    assert_int_equal(elements_write_initial(&desc, false, &none.parallel, output, &err),
                     STATUS_CLIENT_GONE);
    all.taken = 0;
    assert_int_equal(elements_write_nan(&desc, false, marks, &all.parallel, output, &err),
                     STATUS_OK);
    assert_true(all.taken > 3);
    uint32_t bits = 0;
    memcpy(&bits, &output[4 * 21 + 1 + 1], sizeof bits);
    assert_int_equal(bits, 0x7FC00000);
    none = steps_of(0);
    assert_int_equal(elements_write_nan(&desc, false, marks, &none.parallel, output, &err),
                     STATUS_CLIENT_GONE);
    free(marks);
    free(output);
}

static void the_nan_of_each_type_is_positive_and_quiet(void **state)
{
    (void)state;
    assert_int_equal(elements_nan_bits(DTYPE_F16), 0x7E00);
    assert_int_equal(elements_nan_bits(DTYPE_BF16), 0x7FC0);
    assert_int_equal(elements_nan_bits(DTYPE_F32), 0x7FC00000);
    assert_int_equal(elements_nan_bits(DTYPE_F64), 0x7FF8000000000000);
    assert_true(elements_is_nan(DTYPE_F16, 0xFC01));
    assert_false(elements_is_nan(DTYPE_F16, 0xFC00));
    assert_true(elements_is_nan(DTYPE_F64, 0x7FF0000000000001));
    assert_false(elements_is_nan(DTYPE_F64, 0x7FF0000000000000));
}

static void the_bytes_of_widened_elements_are_known_in_advance(void **state)
{
    (void)state;
    const struct scan_desc wide = converted(DTYPE_BOOL, DTYPE_I64);
    const struct scan_desc same = converted(DTYPE_F64, DTYPE_F64);
    assert_int_equal(elements_wide_bytes(&wide, 10), 80);
    assert_int_equal(elements_wide_bytes(&same, 80), 80);
    assert_true(elements_wide_bytes(&wide, INT64_MAX / 8 + 1) == UINT64_MAX);
    assert_int_equal(elements_marks_bytes(&same, 1000), 0);
    struct scan_desc skip = same;
    skip.nan = SCAN_NAN_SKIP;
    assert_int_equal(elements_marks_bytes(&skip, 64), 16);
}

static void a_type_widens_to_those_that_hold_all_its_elements(void **state)
{
    (void)state;
    char text[200];
    static const struct {
        enum dtype from;
        const char *to;
    } cases[] = {
        {DTYPE_F16, "float16, float32, float64"},
        {DTYPE_BF16, "bfloat16, float32, float64"},
        {DTYPE_F64, "float64"},
        {DTYPE_I8, "int8, int16, int32, int64"},
        {DTYPE_U16, "int32, int64, uint16, uint32, uint64"},
        {DTYPE_U64, "uint64"},
        {DTYPE_BOOL, "int8, int16, int32, int64, uint8, uint16, uint32, uint64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dtype_list_wider(cases[i].from, text, sizeof text);
        assert_string_equal(text, cases[i].to);
    }
    assert_false(dtype_widens(DTYPE_U8, DTYPE_BOOL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_work_is_done_in_steps_and_can_be_given_up),
        cmocka_unit_test(cells_that_no_scan_writes_are_written_in_steps),
        cmocka_unit_test(the_nan_of_each_type_is_positive_and_quiet),
        cmocka_unit_test(the_bytes_of_widened_elements_are_known_in_advance),
        cmocka_unit_test(a_type_widens_to_those_that_hold_all_its_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
