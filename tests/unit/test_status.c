/* Status codes and error objects. */
#include "proto/status.h"
#include "tests/lib/unit.h"

#include <string.h>

static void every_status_has_a_slug_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < STATUS_COUNT; i++) {
        const char *slug = status_slug((enum status)i);
        assert_non_null(slug);
        assert_true(strlen(slug) > 0);
        assert_int_equal(strspn(slug, "abcdefghijklmnopqrstuvwxyz_"), strlen(slug));
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(slug, status_slug((enum status)j));
        }
    }
}

static void only_ok_is_200_and_all_others_are_errors(void **state)
{
    (void)state;
    assert_int_equal(status_http(STATUS_OK), 200);
    for (int i = 0; i < STATUS_COUNT; i++) {
        assert_true(i == STATUS_OK || status_http((enum status)i) >= 400);
    }
    assert_int_equal(status_http(STATUS_TOO_LARGE), 413);
}

static void error_set_fills_and_returns_the_status(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    assert_int_equal(error_set(&err, STATUS_INVALID_AXIS, "axis %d of %d", 4, 2),
                     STATUS_INVALID_AXIS);
    assert_int_equal(err.status, STATUS_INVALID_AXIS);
    assert_string_equal(err.detail, "axis 4 of 2");
    assert_string_equal(err.field, "");
}

static void the_first_error_wins(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    (void)error_set_field(&err, STATUS_INVALID_DATA, "data[3]", "first");
    assert_int_equal(error_set_field(&err, STATUS_INTERNAL, "x", "second"), STATUS_INTERNAL);
    assert_int_equal(err.status, STATUS_INVALID_DATA);
    assert_string_equal(err.detail, "first");
    assert_string_equal(err.field, "data[3]");
}

static void long_texts_are_cut_and_stay_terminated(void **state)
{
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct error err = ERROR_INIT;
    (void)error_set_field(&err, STATUS_INVALID_DATA, text, "%s", text);
    assert_int_equal(strlen(err.field), sizeof err.field - 1);
    assert_int_equal(strlen(err.detail), sizeof err.detail - 1);
    error_prefix(&err, text);
    assert_int_equal(strlen(err.detail), sizeof err.detail - 1);
}

static void a_prefix_goes_before_an_error_only(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    error_prefix(&err, "input 0");
    assert_string_equal(err.detail, "");
    (void)error_set(&err, STATUS_INVALID_SHAPE, "no rank");
    error_prefix(&err, "input 0");
    assert_string_equal(err.detail, "input 0: no rank");
    error_prefix(NULL, "nothing to fill is fine");
    assert_int_equal(error_set(NULL, STATUS_INVALID_SHAPE, "x"), STATUS_INVALID_SHAPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_slug_of_its_own),
        cmocka_unit_test(only_ok_is_200_and_all_others_are_errors),
        cmocka_unit_test(error_set_fills_and_returns_the_status),
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(long_texts_are_cut_and_stay_terminated),
        cmocka_unit_test(a_prefix_goes_before_an_error_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
