/* Attributes as text, and the extent of a buffer. */
#include "proto/attributes.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

static void booleans_are_1_and_0_and_true_and_false_in_any_case(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    bool value = false;
    assert_int_equal(attribute_bool("reverse", "true", &value, &err), STATUS_OK);
    assert_true(value);
    assert_int_equal(attribute_bool("reverse", "0", &value, &err), STATUS_OK);
    assert_false(value);
    assert_int_equal(attribute_bool("reverse", "1", &value, &err), STATUS_OK);
    assert_true(value);
    assert_int_equal(attribute_bool("reverse", "false", &value, &err), STATUS_OK);
    assert_false(value);
    static const char *const on[] = {"True", "TRUE", "tRuE"};
    static const char *const off[] = {"False", "FALSE", "falsE"};
    for (size_t i = 0; i < ARRAY_COUNT(on); i++) {
        value = false;
        assert_int_equal(attribute_bool("reverse", on[i], &value, &err), STATUS_OK);
        assert_true(value);
        assert_int_equal(attribute_bool("reverse", off[i], &value, &err), STATUS_OK);
        assert_false(value);
    }
    static const char *const bad[] = {"", "yes", "2", "01", "true ", "tru", "1.0", "truefalse"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        err = (struct error)ERROR_INIT;
        assert_int_equal(attribute_bool("reverse", bad[i], &value, &err), STATUS_INVALID_FIELD);
        assert_non_null(strstr(err.detail, "expected true or false (in any case), 1 or 0"));
    }
}

static void integers_are_decimal_and_of_64_bits(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"-0", 0},
                {"007", 7},
                {"-12", -12},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1,",
                                      "0x1",
                                      "9223372036854775808",
                                      "1.0",
                                      "-9223372036854775809",
                                      "99999999999999999999999"};
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        int64_t value = 77;
        assert_int_equal(attribute_int64("axis", good[i].text, &value, NULL), STATUS_OK);
        assert_true(value == good[i].value);
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        int64_t value = 77;
        struct error err = ERROR_INIT;
        assert_int_equal(attribute_int64("axis", bad[i], &value, &err), STATUS_INVALID_FIELD);
        assert_int_equal(value, 77);
        assert_string_equal(err.field, "axis");
    }
}

/* One sentence says what was found, why it is invalid, and what is expected. */
static void a_refused_integer_says_what_is_wrong_with_it(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {
        {"", "axis is empty, expected an integer such as 1 or -1"},
        {"one", "axis is 'one', expected an integer such as 1 or -1"},
        {"1.5", "axis is '1.5', expected an integer such as 1 or -1"},
        {"3.0", "axis is '3.0', expected an integer such as 1 or -1, in a query in digits "
                "alone, without a point, an exponent or a plus sign"},
        {"1e400", "without a point, an exponent"},
        {"9223372036854775808",
         "axis is '9223372036854775808', which is not from -9223372036854775808 to "
         "9223372036854775807"},
        {"-9223372036854775809", "which is not from -9223372036854775808"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int64_t value = 77;
        struct error err = ERROR_INIT;
        assert_int_equal(attribute_int64("axis", cases[i].text, &value, &err),
                         STATUS_INVALID_FIELD);
        if (strstr(err.detail, cases[i].says) == NULL) {
            fail_msg("'%s': %s", cases[i].text, err.detail);
        }
    }
}

static void a_refused_list_says_which_entry_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {
        {"3.0", "shape[0] is '3.0', expected integers with commas between them, such as 2,3,4, "
                "in a query in digits alone, without a point, an exponent or a plus sign"},
        {"2,x,4", "shape[1] is 'x', expected integers with commas between them, such as 2,3,4"},
        {"2,,4", "shape[1] is empty, expected integers"},
        {"2,3,", "shape[2] is empty, expected integers"},
        {"(2,3)", "shape[0] is '(2', expected integers"},
        {"2,9223372036854775808", "shape[1] is '9223372036854775808', which is not from "},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int64_t values[4] = {77};
        int count = -1;
        struct error err = ERROR_INIT;
        assert_int_equal(attribute_int64_list("shape", cases[i].text, values, &count, &err),
                         STATUS_INVALID_FIELD);
        assert_string_equal(err.field, "shape");
        if (strstr(err.detail, cases[i].says) == NULL) {
            fail_msg("'%s': %s", cases[i].text, err.detail);
        }
    }
}

static void lists_are_integers_between_commas(void **state)
{
    (void)state;
    int64_t values[LIMIT_RANK] = {77};
    int count = -1;
    assert_int_equal(attribute_int64_list("shape", "", values, &count, NULL), STATUS_OK);
    assert_int_equal(count, 0);
    assert_int_equal(attribute_int64_list("shape", "1,-2,30", values, &count, NULL), STATUS_OK);
    assert_int_equal(count, 3);
    assert_int_equal(values[1], -2);
    static const char *const bad[] = {",", "1,", ",1", "1,,2", "1;2", "1, 2", "a", "[1,2]"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(attribute_int64_list("shape", bad[i], values, &count, NULL),
                         STATUS_INVALID_FIELD);
    }
    char full[LIMIT_RANK * 2 + 3] = "1";
    for (int i = 1; i < LIMIT_RANK; i++) {
        strcat(full, ",1");
    }
    assert_int_equal(attribute_int64_list("shape", full, values, &count, NULL), STATUS_OK);
    assert_int_equal(count, LIMIT_RANK);
    strcat(full, ",1");
    assert_int_equal(attribute_int64_list("shape", full, values, &count, NULL),
                     STATUS_INVALID_SHAPE);
}

enum {
    ALL = 255
};

static enum status query(const struct codec_param *params, int count, unsigned known,
                         struct scan_desc *desc, unsigned *seen, struct error *err)
{
    struct codec_request request = {.param_count = count};
    struct attribute_lists lists = {.strides = 0};
    memcpy(request.params, params, (size_t)count * sizeof *params);
    *desc = (struct scan_desc){.rank = 0};
    *seen = 0;
    *err = (struct error)ERROR_INIT;
    enum status status = attributes_from_query(&request, known, desc, &lists, seen, err);
    return status != STATUS_OK ? status : attributes_check_strides(desc, &lists, err);
}

static void a_query_fills_the_description(void **state)
{
    (void)state;
    const struct codec_param params[] = {
        {"axis", "-1"},
        {"dtype", "bfloat16"},
        {"shape", "2,3"},
        {"exclusive", "true"},
        {"reverse", "1"},
        {"strides", "0,1"},
        {"output_strides", "3,1"},
        {"part", "last"},
    };
    struct scan_desc desc;
    struct error err;
    unsigned seen = 0;
    assert_int_equal(query(params, 8, ALL, &desc, &seen, &err), STATUS_OK);
    assert_int_equal(seen, ALL);
    assert_int_equal(desc.dtype, DTYPE_BF16);
    assert_int_equal(desc.rank, 2);
    assert_int_equal(desc.sizes[1], 3);
    assert_int_equal(desc.axis, -1);
    assert_true(desc.exclusive && desc.reverse && desc.has_strides && desc.has_output_strides);
    assert_int_equal(desc.part, SCAN_PART_LAST);
    assert_int_equal(desc.strides[0], 0);
    assert_int_equal(desc.output_strides[0], 3);
}

static void bad_queries_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        struct codec_param params[2];
        int count;
        enum status status;
        const char *field;
    } cases[] = {
        {{{"axes", "1"}}, 1, STATUS_UNKNOWN_FIELD, "axes"},
        {{{"", ""}}, 1, STATUS_UNKNOWN_FIELD, ""},
        {{{"Axis", "1"}}, 1, STATUS_UNKNOWN_FIELD, "Axis"},
        {{{"axis", "1"}, {"axis", "1"}}, 2, STATUS_INVALID_FIELD, "axis"},
        {{{"axis", ""}}, 1, STATUS_INVALID_FIELD, "axis"},
        {{{"dtype", "floating"}}, 1, STATUS_INVALID_DTYPE, "dtype"},
        {{{"precision", "wide"}}, 1, STATUS_UNKNOWN_FIELD, "precision"},
        {{{"shape", "2,3"}, {"strides", "1"}}, 2, STATUS_INVALID_STRIDES, "strides"},
        {{{"shape", "2"}, {"output_strides", "1,1"}},
         2,
         STATUS_INVALID_STRIDES,
         "output_strides"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scan_desc desc;
        struct error err;
        unsigned seen = 0;
        assert_int_equal(query(cases[i].params, cases[i].count, ALL, &desc, &seen, &err),
                         cases[i].status);
        assert_string_equal(err.field, cases[i].field);
    }
    struct scan_desc desc;
    struct error err;
    unsigned seen = 0;
    const struct codec_param shape = {"shape", "2"};
    assert_int_equal(query(&shape, 1, ATTRIBUTE_AXIS | ATTRIBUTE_REVERSE, &desc, &seen, &err),
                     STATUS_UNKNOWN_FIELD);
    assert_string_equal(err.detail,
                        "there is no query parameter 'shape' here; known are: axis, reverse");
}

static const struct {
    int rank;
    int64_t sizes[3];
    bool strided;
    int64_t strides[3];
    bool valid;
    uint64_t elements;
} reaches[] = {
    {1, {5}, false, {0}, true, 5},
    {3, {2, 3, 4}, false, {0}, true, 24},
    {2, {0, 5}, false, {0}, true, 0},
    {2, {INT64_MAX, 0}, false, {0}, true, 0},
    {3, {INT64_MAX, INT64_MAX, 0}, false, {0}, true, 0},
    {2, {INT64_MAX, 2}, false, {0}, false, 0},
    {1, {INT64_MAX}, false, {0}, false, 0}, /* times 4 bytes */
    {1, {INT64_MAX / 4}, false, {0}, true, INT64_MAX / 4},
    {2, {-1, -1}, false, {0}, false, 0},
    {2, {-1, 0}, false, {0}, false, 0},
    {2, {2, 3}, true, {3, 1}, true, 6},
    {2, {2, 3}, true, {10, 2}, true, 15},
    {2, {4, 3}, true, {0, 0}, true, 1},
    {2, {4, 0}, true, {7, 7}, true, 0},
    {2, {2, 3}, true, {-1, 1}, false, 0},
    {2, {INT64_MAX, 2}, true, {INT64_MAX, 1}, false, 0},
    {3, {3, 3, 3}, true, {INT64_MAX, INT64_MAX, INT64_MAX}, false, 0},
    {1, {INT64_MAX}, true, {1}, false, 0},
    {1, {INT64_MAX}, true, {0}, true, 1},
};

static void reach_is_exact_and_overflow_is_no_reach(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(reaches); i++) {
        struct scan_desc desc = {.dtype = DTYPE_F32, .rank = reaches[i].rank};
        uint64_t elements = 77;
        memcpy(desc.sizes, reaches[i].sizes, sizeof reaches[i].sizes);
        assert_int_equal(
            buffer_reach(&desc, reaches[i].strided ? reaches[i].strides : NULL, &elements),
            reaches[i].valid);
        assert_true(elements == (reaches[i].valid ? reaches[i].elements : 77));
    }
    /* The extent of a byte tensor overflows, or has the largest value, INT64_MAX. */
    const int64_t far[] = {INT64_MAX, INT64_MAX, INT64_MAX};
    struct scan_desc desc = {.dtype = DTYPE_U8, .rank = 3, .sizes = {2, 2, 2}};
    uint64_t elements = 77;
    assert_false(buffer_reach(&desc, far, &elements));
    desc.rank = 1;
    assert_false(buffer_reach(&desc, far, &elements));
    desc.sizes[0] = INT64_MAX;
    assert_true(buffer_reach(&desc, NULL, &elements));
    assert_true(elements == INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(booleans_are_1_and_0_and_true_and_false_in_any_case),
        cmocka_unit_test(integers_are_decimal_and_of_64_bits),
        cmocka_unit_test(a_refused_integer_says_what_is_wrong_with_it),
        cmocka_unit_test(a_refused_list_says_which_entry_is_wrong),
        cmocka_unit_test(lists_are_integers_between_commas),
        cmocka_unit_test(a_query_fills_the_description),
        cmocka_unit_test(bad_queries_are_refused_by_name),
        cmocka_unit_test(reach_is_exact_and_overflow_is_no_reach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
