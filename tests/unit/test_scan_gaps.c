/* Which cells of an output are zeroed before the scan, and which ones the kernel zeroes. */
#include "kernels/split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum {
    CELLS = 400,
    OLD = 0xEE
};

static struct scan_plan make(int64_t rows, int64_t columns, int64_t pitch, int64_t step)
{
    struct scan_desc desc = {.dtype = DTYPE_U8,
                             .rank = 2,
                             .sizes = {rows, columns},
                             .axis = 1,
                             .has_output_strides = true,
                             .output_strides = {pitch, step}};
    struct scan_plan plan;
    struct error err = ERROR_INIT;
    assert_int_equal(scan_plan_make(&desc, &plan, &err), STATUS_OK);
    assert_true(plan.out_elements <= CELLS);
    return plan;
}

static void the_step_of_the_nearest_elements_is_told_where_layouts_nest(void **state)
{
    (void)state;
    struct scan_plan packed = make(5, 7, 7, 1);
    struct scan_plan padded = make(5, 7, 9, 1);
    struct scan_plan stepped = make(5, 7, 20, 3);
    struct scan_plan lines = make(5, 7, 2, 10);
    struct scan_plan far_lines = make(30, 3, 2, 61);
    struct scan_plan crossing = make(6, 4, 5, 3);
    assert_int_equal(scan_gaps_step(&packed), 0);
    assert_int_equal(scan_gaps_step(&padded), 0);
    assert_int_equal(scan_gaps_step(&stepped), 3);
    assert_int_equal(scan_gaps_step(&lines), 2);
    assert_int_equal(scan_gaps_step(&far_lines), 2);
    assert_int_equal(scan_gaps_step(&crossing), 0);
}

/* Check the cells after zeroing: 0 or OLD, as `outer` and the layout require. */
static void check(int64_t rows, int64_t columns, int64_t pitch, int64_t step, bool outer)
{
    struct scan_plan plan = make(rows, columns, pitch, step);
    unsigned char cells[CELLS];
    unsigned char want[CELLS];
    memset(cells, OLD, sizeof cells);
    memset(want, OLD, sizeof want);
    memset(want, 0, (size_t)plan.out_elements);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            int64_t at = r * pitch + c * step;
            bool inside = c + 1 < columns && outer; /* with the gap behind the element */
            memset(want + at, OLD, inside ? (size_t)step : 1);
        }
    }
    assert_true(scan_gaps_zero(&plan, outer, NULL, cells));
    assert_memory_equal(cells, want, sizeof cells);
}

static void every_gap_and_no_element_is_zeroed(void **state)
{
    (void)state;
    check(5, 7, 9, 1, false);
    check(5, 7, 20, 3, false);
    check(5, 7, 13, 2, false);
    check(1, 30, 30, 2, false);
    check(5, 7, 14, 2, false); /* one contiguous run of elements */
}

static void gaps_between_the_nearest_elements_are_left_to_the_kernel(void **state)
{
    (void)state;
    check(5, 7, 20, 3, true);
    check(5, 7, 13, 2, true);
    check(1, 30, 60, 2, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_step_of_the_nearest_elements_is_told_where_layouts_nest),
        cmocka_unit_test(every_gap_and_no_element_is_zeroed),
        cmocka_unit_test(gaps_between_the_nearest_elements_are_left_to_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
