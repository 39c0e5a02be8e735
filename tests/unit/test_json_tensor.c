/* JSON arrays to tensors and back. */
#include "proto/json/number_text.h"
#include "proto/json/tensor.h"
#include "proto/limits.h"
#include "tests/lib/unit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy in memory of exactly its size. */
static char *exact_copy(const char *text)
{
    size_t bytes = strlen(text);
    char *copy = malloc(bytes);
    assert_non_null(copy);
    memcpy(copy, text, bytes);
    return copy;
}

static enum status measure(const char *text, struct json_array *array, struct error *err)
{
    char *copy = exact_copy(text);
    *err = (struct error)ERROR_INIT;
    enum status status = json_tensor_measure(copy, strlen(text), NULL, array, err);
    array->cut.text = text;
    free(copy);
    return status;
}

static const struct {
    const char *text;
    int rank;
    int64_t sizes[4];
    uint64_t elements;
    bool integers;
} regular[] = {
    {"[]", 1, {0}, 0, true},
    {"[ \n\t ]", 1, {0}, 0, true},
    {"[1]", 1, {1}, 1, true},
    {"[1,-2 , 3]", 1, {3}, 3, true},
    {"[1,2.5]", 1, {2}, 2, false},
    {"[1,2e5]", 1, {2}, 2, false},
    {"[1E5]", 1, {1}, 1, false},
    {"[\"NaN\",1]", 1, {2}, 2, false},
    {"[[1,2,3],[4,5,6]]", 2, {2, 3}, 6, true},
    {"[[1],[2],[3]]", 2, {3, 1}, 3, true},
    {"[[],[]]", 2, {2, 0}, 0, true},
    {"[[[]]]", 3, {1, 1, 0}, 0, true},
    {"[[[1,2],[3,4]],[[5,6],[7,8]],[[9,10],[11,12]]]", 3, {3, 2, 2}, 12, true},
    {"[\"a]b,[\\\"\",1]", 1, {2}, 2, false},
};

static void regular_arrays_are_measured(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof regular / sizeof *regular; i++) {
        struct json_array array;
        struct error err;
        assert_int_equal(measure(regular[i].text, &array, &err), STATUS_OK);
        assert_int_equal(array.rank, regular[i].rank);
        for (int d = 0; d < array.rank; d++) {
            assert_int_equal(array.sizes[d], regular[i].sizes[d]);
        }
        assert_int_equal(array.elements, regular[i].elements);
        assert_int_equal(array.integers, regular[i].integers);
        assert_false(array.ragged);
        assert_int_equal(array.cut.bytes, strlen(regular[i].text));
    }
}

static void an_odd_element_is_found_at_every_position_of_a_long_array(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool integers;
        bool ragged;
    } odd[] = {{"7", true, false},        {"7.5", false, false},
               {"7E5", false, false},     {"\"N],[aN\"", false, false},
               {"\"NaN\"", false, false}, {"\"N,N\"", false, false},
               {"[7]", true, true}};
    for (int before = 1; before < 140; before++) {
        for (size_t i = 0; i < ARRAY_COUNT(odd); i++) {
            char text[1024] = "[";
            char *p = text + 1;
            for (int k = 0; k < before; k++) {
                p = stpcpy(p, k % 3 == 0 ? "1," : "23,");
            }
            p = stpcpy(p, odd[i].text);
            for (int k = 0; k < 100; k++) {
                p = stpcpy(p, ",9");
            }
            (void)stpcpy(p, "]");
            struct json_array array;
            struct error err;
            assert_int_equal(measure(text, &array, &err), STATUS_OK);
            assert_int_equal(array.ragged, odd[i].ragged);
            assert_int_equal(array.integers, odd[i].integers);
            assert_int_equal(array.cut.bytes, strlen(text));
            if (!odd[i].ragged) {
                assert_int_equal(array.elements, before + 101);
            }
        }
    }
}

static void an_array_ends_at_its_bracket_whatever_follows(void **state)
{
    (void)state;
    struct json_array array;
    struct error err;
    assert_int_equal(measure("[1,2] , \"axis\":1.5e3 ]]}", &array, &err), STATUS_OK);
    assert_int_equal(array.cut.bytes, 5);
    assert_int_equal(array.elements, 2);
    assert_true(array.integers);
}

static const struct {
    const char *text;
    const char *where;
    uint64_t found;
    uint64_t expected;
} ragged[] = {
    {"[[1,2],[3]]", "[1]", 1, 2},
    {"[[1],[2,3],[4,5,6]]", "[1]", 2, 1},
    {"[[[1,2],[3,4]],[[5,6],[7,8,9]]]", "[1][1]", 3, 2},
    {"[[[1],[2]],[[3]]]", "[1]", 1, 2},
    {"[[],[1]]", "[1]", 1, 0},
    {"[1,[2]]", "[1]", 0, 0},
    {"[[1],2]", "[1]", 0, 0},
    {"[[1],2,[3]]", "[1]", 0, 0},
    {"[[1],[[2]]]", "[1][0]", 0, 0},
    {"[[[1]],[2]]", "[1]", 0, 0},
    {"[[[1]],[[2]],[[3],4]]", "[2][1]", 0, 0},
};

static void ragged_nesting_is_found_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ragged / sizeof *ragged; i++) {
        struct json_array array;
        struct error err;
        assert_int_equal(measure(ragged[i].text, &array, &err), STATUS_OK);
        assert_true(array.ragged);
        assert_string_equal(array.where, ragged[i].where);
        assert_int_equal(array.found, ragged[i].found);
        assert_int_equal(array.expected, ragged[i].expected);
        assert_int_equal(json_tensor_require_regular(&array, "data", &err),
                         STATUS_INVALID_SHAPE);
        char field[64];
        (void)snprintf(field, sizeof field, "data%s", ragged[i].where);
        assert_string_equal(err.field, field);
    }
}

static void a_ragged_array_still_counts_its_numbers(void **state)
{
    (void)state;
    struct json_array array;
    struct error err;
    double out[4];
    const struct json_read read = {.dtype = DTYPE_F64, .field = "data"};
    const char *text = "[[1,2],3,[],[[4]]]";
    assert_int_equal(measure(text, &array, &err), STATUS_OK);
    assert_true(array.ragged);
    assert_int_equal(array.elements, 4);
    assert_int_equal(json_tensor_read(&read, array.cut, 4, out, &err), STATUS_OK);
    assert_true(out[0] == 1 && out[1] == 2 && out[2] == 3 && out[3] == 4);
}

/* Bytes that look like brackets to code that compares only some of their bits. */
static void bytes_that_resemble_brackets_are_not_brackets(void **state)
{
    (void)state;
    struct json_array array;
    struct error err;
    double out[6];
    const struct json_read read = {.dtype = DTYPE_F64, .field = "data"};
    assert_int_equal(measure("[1,Y,Z,\\,^,_]", &array, &err), STATUS_OK);
    assert_int_equal(array.rank, 1);
    assert_int_equal(array.elements, 6);
    assert_false(array.ragged);
    assert_int_equal(json_tensor_read(&read, array.cut, 6, out, &err), STATUS_INVALID_DATA);
    assert_string_equal(err.field, "data[1]");
}

static void unfinished_and_too_deep_arrays_are_refused(void **state)
{
    (void)state;
    struct json_array array;
    struct error err;
    static const char *const open[] = {"[", "[1", "[1,", "[[1]", "[\"a]", "[\"\\\"]", "[\"\\"};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        assert_int_equal(measure(open[i], &array, &err), STATUS_INVALID_JSON);
    }
    char deep[2 * LIMIT_RANK + 3] = "";
    memset(deep, '[', LIMIT_RANK);
    memset(deep + LIMIT_RANK, ']', LIMIT_RANK);
    assert_int_equal(measure(deep, &array, &err), STATUS_OK);
    assert_int_equal(array.rank, LIMIT_RANK);
    memset(deep, '[', LIMIT_RANK + 1);
    memset(deep + LIMIT_RANK + 1, ']', LIMIT_RANK + 1);
    assert_int_equal(measure(deep, &array, &err), STATUS_INVALID_SHAPE);
}

/* Make a text of `count` numbers with irregular spacing, nested in rows of `inner` (0:
 * flat). */
static char *make_text(size_t count, size_t inner, const char *number, size_t *bytes)
{
    char *text = malloc(count * (strlen(number) + 12) + 16);
    assert_non_null(text);
    char *p = text;
    *p++ = '[';
    for (size_t i = 0; i < count; i++) {
        if (inner > 0 && i % inner == 0) {
            *p++ = '[';
        }
        p += sprintf(p, "%.*s%s", (int)(i % 4), " \n\t", number);
        if (inner > 0 && i % inner == inner - 1) {
            *p++ = ']';
        }
        *p++ = i + 1 < count ? ',' : ']';
    }
    *bytes = (size_t)(p - text);
    return text;
}

static void measuring_does_not_depend_on_where_blocks_begin(void **state)
{
    (void)state;
    for (size_t count = 1; count < 200; count++) {
        for (size_t inner = 0; inner < 6; inner++) {
            if (inner > 0 && count % inner != 0) {
                continue;
            }
            size_t bytes = 0;
            char *text = make_text(count, inner, count % 2 ? "7" : "1.25", &bytes);
            struct json_array array;
            struct error err = ERROR_INIT;
            assert_int_equal(json_tensor_measure(text, bytes, NULL, &array, &err), STATUS_OK);
            assert_int_equal(array.elements, count);
            assert_int_equal(array.rank, inner > 0 ? 2 : 1);
            assert_int_equal(array.sizes[0], inner > 0 ? count / inner : count);
            assert_int_equal(array.integers, count % 2);
            assert_int_equal(array.cut.bytes, bytes);
            assert_false(array.ragged);
            free(text);
        }
    }
}

static enum dtype infer(const char *text)
{
    struct json_array array;
    struct error err;
    assert_int_equal(measure(text, &array, &err), STATUS_OK);
    return json_tensor_infer(&array);
}

static void the_type_is_inferred_by_numpys_rule(void **state)
{
    (void)state;
    assert_int_equal(infer("[1,-2,3]"), DTYPE_I64);
    assert_int_equal(infer("[1,2.0,3]"), DTYPE_F64);
    assert_int_equal(infer("[1e2]"), DTYPE_F64);
    assert_int_equal(infer("[]"), DTYPE_F64);
    assert_int_equal(infer("[1,\"NaN\"]"), DTYPE_F64);
    assert_int_equal(infer("[1,\"2\"]"), DTYPE_F64); /* the string is refused when it is read */
    assert_int_equal(infer("[1,NaN]"), DTYPE_F64);
    assert_int_equal(infer("[-Infinity,1]"), DTYPE_F64);
    assert_int_equal(infer("[1,inf]"), DTYPE_F64);
    assert_int_equal(infer("[null,1]"), DTYPE_F64);
    assert_int_equal(infer("[9223372036854775807]"), DTYPE_I64);
    assert_int_equal(infer("[-9223372036854775808]"), DTYPE_I64);
    assert_int_equal(infer("[1,2,                        1234567890123456789]"), DTYPE_I64);
    /* The spelling decides the type; reading then reports that the number is out of range. */
    assert_int_equal(infer("[9223372036854775808]"), DTYPE_I64);
}

static const struct {
    enum dtype dtype;
    const char *text;
    const char *field; /* NULL: accepted */
    const char *says;
} reads[] = {
    {DTYPE_I32, "[1,2,3]", NULL, NULL},

    {DTYPE_F32, "[\"NaN\",\"Infinity\",\"-Infinity\", 1]", NULL, NULL},
    {DTYPE_I32, "[[[ 1 ] , [2]\n] ,[[3],[4]]]", NULL, NULL},
    {DTYPE_I32, "[1,,2]", "data[1]", "missing"},
    {DTYPE_I32, "[1,2,]", "data[2]", "missing"},
    {DTYPE_I32, "[,1]", "data[0]", "missing"},
    {DTYPE_I32, "[1 2]", "data[0]", "expected ',' or ']'"},
    {DTYPE_I32, "[1x]", "data[0]", "expected ',' or ']'"},
    {DTYPE_I32, "[[1][2]]", "data[0]", "expected ',' or ']'"},
    {DTYPE_I32, "[[1 2]\n [3 4]]", "data[0]", "followed by '2', expected ',' or ']': JSON has"},
    {DTYPE_I32, "[[1,2][3,4]]", "data[1]", "JSON has commas between numbers and between rows"},
    {DTYPE_F64, "[True]", "data[0]", "JSON writes true and false in small letters"},
    {DTYPE_I32, "[[1,2],[3,x]]", "data[3]", "'x'"},
    {DTYPE_I32, "[1.0,2e3,-3.50e1,0.0,-0.0e9]", NULL, NULL},
    {DTYPE_I32, "[1.5]", "data[0]", "element 0 is 1.5, expected a whole number for int32"},
    {DTYPE_I32, "[1,2e10]", "data[1]", "2e10, out of range"},
    {DTYPE_I32, "[1,2e-3]", "data[1]", "2e-3, expected a whole number"},
    {DTYPE_I32, "[1.5]", "data[0]", "for int32; float64 takes it"},
    {DTYPE_I8, "[300]", "data[0]", "127); int64 and uint64 take it"},
    {DTYPE_U8, "[-1]", "data[0]", "(0 to 255); int64 takes it"},
    {DTYPE_I64, "[9223372036854775808]", "data[0]", "); uint64 takes it"},
    {DTYPE_I64, "[1,18446744073709551616]", "data[1]",
     "); float64 takes it, with whole numbers beyond 2^53 rounded"},
    {DTYPE_I64, "[1.5]", "data[0]",
     "; float64 takes it, with whole numbers beyond 2^53 rounded"},
    {DTYPE_F16, "[65536]", "data[0]", "(at most 65504); float64 takes it"},
    {DTYPE_F32, "[1e39]", "data[0]", "); float64 takes it"},
    {DTYPE_F64, "[1e309]", "data[0]", "(at most 1.7976931348623157e308)"},
    {DTYPE_I16, "[1,\"-Infinity\"]", "data[1]",
     "element 1 is '\"-Infinity\"', which is not a value of int16; float64 takes it"},
    {DTYPE_I16, "[NaN]", "data[0]",
     "element 0 is 'NaN', which is not a value of int16; float64 takes it"},
    {DTYPE_I16, "[1,-Infinity]", "data[1]",
     "element 1 is '-Infinity', which is not a value of int16"},
    {DTYPE_I32, "[1.]", "data[0]", "a digit must follow"},
    {DTYPE_I32, "[1e]", "data[0]", "a digit must follow"},
    {DTYPE_I8, "[1,2,300]", "data[2]", "-128 to 127"},
    {DTYPE_F16, "[65536]", "data[0]", "65504"},
    {DTYPE_F32, "[1e39]", "data[0]", "float32"},
    {DTYPE_F64, "[1e309]", "data[0]", "float64"},
    {DTYPE_F64, "[1,+Infinity]", "data[1]", "it begins with a digit or '-'"},
    {DTYPE_F64, "[\"null\"]", "data[0]", "the only strings"},
    {DTYPE_F64, "[\"+NaN\"]", "data[0]", "the only strings"},
    {DTYPE_F64, "[-NaN]", "data[0]", "no JSON number"},
    {DTYPE_F64, "[NULL]", "data[0]", "expected a number, NaN, Infinity, -Infinity or null"},
    {DTYPE_F64, "[-Infinit]", "data[0]", "expected a number, NaN, Infinity, -Infinity or null"},
    {DTYPE_F64, "[Infinityx]", "data[0]",
     "expected a number, NaN, Infinity, -Infinity or null"},
    {DTYPE_F64, "[NaN7]", "data[0]", "element 0 is followed by '7'"},
    {DTYPE_F64, "[\"1\"]", "data[0]",
     "'\"1\"', expected a number: write it without the quotes; only int64 and uint64 take"},
    {DTYPE_I32, "[7,\"12\"]", "data[1]", "write it without the quotes; only int64 and uint64"},
    {DTYPE_F32, "[\"1e999\"]", "data[0]", "expected a number without quotes"},
    {DTYPE_I64, "[\"9007199254740993\" , \"-5\",6,\"7.0\",\"8e0\"]", NULL, NULL},
    {DTYPE_U64, "[[\"18446744073709551615\"],[0]]", NULL, NULL},
    {DTYPE_U64, "[1,\"18446744073709551616\"]", "data[1]",
     "element 1 is \"18446744073709551616\", out of range for uint64"},
    {DTYPE_U64, "[\"-1\"]", "data[0]", "); int64 takes it"},
    {DTYPE_I64, "[\"9223372036854775808\"]", "data[0]", "); uint64 takes it"},
    {DTYPE_I64, "[\"1.5\"]", "data[0]", "element 0 is \"1.5\", expected a whole number"},
    {DTYPE_I64, "[\"\"]", "data[0]", "'\"\"', expected a whole number, such as 12 or \"12\""},
    {DTYPE_I64, "[\" 5\"]", "data[0]", "'\" 5\"', expected a whole number, such as 12"},
    {DTYPE_I64, "[\"5 \"]", "data[0]", "'\"5 \"', expected a whole number, such as 12"},
    {DTYPE_I64, "[\"+5\"]", "data[0]", "digits, with nothing but '-' before them"},
    {DTYPE_I64, "[\"1,000\"]", "data[0]", "'\"1,000\"', expected a whole number, such as 12"},
    {DTYPE_U64, "[\"0x10\"]", "data[0]", "expected a whole number, such as 12"},
    {DTYPE_U64, "[\"007\"]", "data[0]", "expected a whole number, such as 12"},
    {DTYPE_I64, "[\"5]", "data[0]", "expected a whole number, such as 12"},
    {DTYPE_I64, "[\"5\"6]", "data[0]", "element 0 is followed by '6'"},
    {DTYPE_I64, "[\"NaN\"]", "data[0]",
     "'\"NaN\"', which is not a value of int64; float64 takes it"},
    {DTYPE_U8, "[\"Inf\"]", "data[0]",
     "'\"Inf\"', which is not a value of uint8; float64 takes it"},
    {DTYPE_F64, "[\"abcdefghijklmnopqrstuvw\"]", "data[0]", "'\"abcdefghijklmnopqrstuvw...'"},
    {DTYPE_F64, "[\"abcdefghijklmnopqrstuv\"]", "data[0]", "'\"abcdefghijklmnopqrstuv\"',"},
    {DTYPE_F64, "[\"NaN]", "data[0]", "the only strings"},
    {DTYPE_F64, "[\"NaN,1\"]", "data[0]", "the only strings"},
    {DTYPE_I32, "[\"abc\"]", "data[0]", "expected a whole number without quotes, such as 12"},
    {DTYPE_I64, "[NaNs]", "data[0]", "only float types have NaN, infinity and null"},
    {DTYPE_U8, "[Infinity]", "data[0]",
     "'Infinity', which is not a value of uint8; float64 takes it"},
    {DTYPE_I64, "[0,null]", "data[1]",
     "element 1 is 'null', which is not a value of int64; float64"},
    {DTYPE_U8, "[true]", "data[0]", "true and false are of type bool"},
    {DTYPE_F64, "[{}]", "data[0]", "an object"},
    {DTYPE_F64, "[01]", "data[0]", "no zeros"},
    {DTYPE_F64, "[+1]", "data[0]", "no JSON number"},
    {DTYPE_F64, "[.5]", "data[0]", "no JSON number"},
    {DTYPE_F64, "[1.]", "data[0]", "a digit must follow"},
    {DTYPE_F64, "[0.]", "data[0]", "a digit must follow"},
    {DTYPE_F64, "[1e]", "data[0]", "a digit must follow"},
    {DTYPE_F64, "[0e+]", "data[0]", "a digit must follow"},
    {DTYPE_F64, "[abcdefghijklmnopqrstuvwxyz]", "data[0]", "'abcdefghijklmnopqrstuvwx...'"},
    {DTYPE_F64, "[abcdefghijklmnopqrstuvw]", "data[0]", "'abcdefghijklmnopqrstuvw',"},
    {DTYPE_F64, "[-]", "data[0]", "no JSON number"},
};

static void every_byte_between_brackets_is_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        struct json_array array;
        struct error err;
        uint64_t out[8];
        const struct json_read read = {.dtype = reads[i].dtype, .field = "data"};
        char *text = exact_copy(reads[i].text);
        err = (struct error)ERROR_INIT;
        if (json_tensor_measure(text, strlen(reads[i].text), NULL, &array, &err) != STATUS_OK) {
            assert_null(
                strchr(strchr(reads[i].text, '"') + 1, '"')); /* the string is not terminated */
            free(text);
            continue;
        }
        enum status status = json_tensor_read(&read, array.cut, array.elements, out, &err);
        assert_int_equal(status, reads[i].field ? STATUS_INVALID_DATA : STATUS_OK);
        if (reads[i].field != NULL) {
            assert_string_equal(err.field, reads[i].field);
            if (strstr(err.detail, reads[i].says) == NULL) {
                fail_msg("%s: '%s' does not say '%s'", reads[i].text, err.detail,
                         reads[i].says);
            }
        }
        free(text);
    }
}

static void a_number_that_is_too_long_is_said_to_be(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    const struct json_read read = {.dtype = DTYPE_F64, .field = "data"};
    const size_t bytes = LIMIT_NUMBER_BYTES + 3;
    char *text = malloc(bytes);
    char expected[80];
    uint64_t out = 0;
    memset(text, '1', bytes);
    text[0] = '[';
    text[bytes - 1] = ']';
    const struct json_cut cut = {text, bytes};
    assert_int_equal(json_tensor_read(&read, cut, 1, &out, &err), STATUS_INVALID_DATA);
    (void)snprintf(expected, sizeof expected,
                   "element 0 is a number of more than %d characters", LIMIT_NUMBER_BYTES);
    assert_string_equal(err.detail, expected);
    free(text);
}

static void a_nested_element_is_blamed_by_all_its_indices(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    const char *text = "[[[1,2],[3,4]],[[5,6],[7,x]]]";
    const int64_t sizes[] = {2, 2, 2};
    const struct json_read read = {
        .dtype = DTYPE_F64, .field = "inputs[0].data", .rank = 3, .sizes = sizes};
    double out[8];
    const struct json_cut cut = {text, strlen(text)};
    assert_int_equal(json_tensor_read(&read, cut, 8, out, &err), STATUS_INVALID_DATA);
    assert_string_equal(err.field, "inputs[0].data[1][1][1]");
}

static void another_count_than_expected_is_refused_without_writing_beyond(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    const struct json_read read = {.dtype = DTYPE_I32, .field = "data"};
    int32_t *out = malloc(3 * sizeof *out);
    const struct json_cut cut = {"[1,2,3]", 7};
    out[2] = -1;
    assert_int_equal(json_tensor_read(&read, cut, 2, out, &err), STATUS_INVALID_DATA);
    assert_string_equal(err.detail, "data holds more than 2 numbers, expected 2");
    assert_int_equal(out[2], -1);
    err = (struct error)ERROR_INIT;
    const struct json_cut less = {"[1]", 3};
    assert_int_equal(json_tensor_read(&read, less, 2, out, &err), STATUS_INVALID_DATA);
    assert_string_equal(err.detail, "data holds only 1 numbers, expected 2");
    free(out);
}

/* Accepted words. `sign` is the sign of the infinity, or 0 for NaN. */
static const struct {
    const char *text;
    int sign;
} words[] = {
    {"\"NaN\"", 0},        {"NaN", 0},       {"nan", 0},          {"\"nan\"", 0},
    {"\"NAN\"", 0},        {"null", 0},      {"\"Infinity\"", 1}, {"Infinity", 1},
    {"-Infinity", -1},     {"\"Inf\"", 1},   {"\"inf\"", 1},      {"\"+Infinity\"", 1},
    {"\"-Infinity\"", -1}, {"Inf", 1},       {"inf", 1},          {"-Inf", -1},
    {"-inf", -1},          {"\"-INF\"", -1}, {"\"+inf\"", 1},     {"INFINITY", 1},
};

static void the_words_of_float_types_are_read_in_every_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        for (int type = 0; type < DTYPE_COUNT; type++) {
            const enum dtype dtype = (enum dtype)type;
            const struct json_read read = {.dtype = dtype, .field = "data"};
            const bool is_float = dtype_is_float(dtype);
            const char *want = words[i].sign > 0   ? "\"Infinity\""
                               : words[i].sign < 0 ? "\"-Infinity\""
                                                   : "\"NaN\"";
            struct error err = ERROR_INIT;
            uint64_t out[3] = {0};
            char printed[NUMBER_ROOM];
            char text[64];
            (void)snprintf(text, sizeof text, "[1, %s ,2]", words[i].text);
            char *copy = exact_copy(text);
            const struct json_cut cut = {copy, strlen(text)};
            assert_int_equal(json_tensor_read(&read, cut, 3, out, &err),
                             is_float ? STATUS_OK : STATUS_INVALID_DATA);
            if (is_float) {
                (void)number_print(dtype, (const char *)out + dtype_info(dtype)->bytes,
                                   printed);
                assert_string_equal(printed, want);
            } else {
                assert_string_equal(err.field, "data[1]");
                assert_memory_equal(err.detail, "element 1 is ", 13);
                assert_non_null(strstr(err.detail, "; float64 takes it"));
            }
            free(copy);
        }
    }
}

static void quoted_integers_have_the_values_of_bare_ones(void **state)
{
    (void)state;
    static const char *const numbers[] = {
        "0", "-0", "9007199254740993", "9223372036854775807", "1.0", "12e3", "3"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        for (int type = 0; type < DTYPE_COUNT; type++) {
            const struct json_read read = {.dtype = (enum dtype)type, .field = "data"};
            const bool wide = type == DTYPE_I64 || type == DTYPE_U64;
            struct error err = ERROR_INIT;
            uint64_t out[2] = {0};
            char text[64];
            (void)snprintf(text, sizeof text, "[\"%s\",%s]", numbers[i],
                           wide ? numbers[i] : "1");
            char *copy = exact_copy(text);
            const struct json_cut cut = {copy, strlen(text)};
            assert_int_equal(json_tensor_read(&read, cut, 2, out, &err),
                             wide ? STATUS_OK : STATUS_INVALID_DATA);
            if (wide) {
                assert_int_equal(out[0], out[1]);
            } else {
                assert_string_equal(err.field, "data[0]");
                assert_non_null(strstr(err.detail, "without the quotes"));
            }
            free(copy);
        }
    }
}

static void parts_together_read_what_the_whole_reads(void **state)
{
    (void)state;
    for (size_t inner = 0; inner < 4; inner++) {
        size_t bytes = 0;
        const size_t count = 360;
        char *text = make_text(count, inner, "-12.5", &bytes);
        struct json_array array;
        struct error err = ERROR_INIT;
        assert_int_equal(json_tensor_measure(text, bytes, NULL, &array, &err), STATUS_OK);
        for (size_t each = 12; each <= 2 * bytes; each = each * 5 / 4) {
            enum {
                ROOM = 400
            };
            struct json_part parts[ROOM];
            double out[360] = {0};
            const struct json_read read = {.dtype = DTYPE_F64, .field = "data"};
            struct json_rest rest = {.cut = array.cut, .elements = array.elements};
            int n = 0;
            for (int more = 1; more > 0; n += more) { /* three at a time */
                more = json_tensor_cut(&rest, each, parts + n, 3);
                assert_in_range(more, 0, 3);
            }
            assert_true(n == 1 || n >= (int)(bytes / each / 2));
            size_t total = 0;
            for (int k = n - 1; k >= 0; k--) {
                char *copy = malloc(parts[k].bytes);
                memcpy(copy, parts[k].text, parts[k].bytes);
                struct json_part part = parts[k];
                part.text = copy;
                assert_int_equal(json_tensor_read_part(&read, &part, out, &err), STATUS_OK);
                total += parts[k].bytes;
                assert_true(parts[k].bytes <= 2 * each);
                free(copy);
            }
            assert_int_equal(total, bytes);
            for (size_t i = 0; i < count; i++) {
                assert_true(out[i] == -12.5);
            }
        }
        free(text);
    }
}

static void an_array_with_empty_ones_is_not_cut(void **state)
{
    (void)state;
    struct json_array array;
    struct json_part parts[4];
    struct error err;
    assert_int_equal(measure("[[1,2,3],[],[],[],[],[],[]]", &array, &err), STATUS_OK);
    struct json_rest rest = {.cut = array.cut, .elements = array.elements};
    assert_int_equal(json_tensor_cut(&rest, 8, parts, 4), JSON_UNCUT);
}

static void a_text_without_commas_for_long_is_not_cut(void **state)
{
    (void)state;
    struct json_array array;
    struct json_part parts[4];
    struct error err;
    assert_int_equal(measure("[1,                                    2,3,4]", &array, &err),
                     STATUS_OK);
    struct json_rest rest = {.cut = array.cut, .elements = array.elements};
    assert_int_equal(json_tensor_cut(&rest, 8, parts, 4), JSON_UNCUT);
}

static bool run_in_turn(const struct parallel *self, int count, parallel_piece piece,
                        void *context)
{
    (void)self;
    for (int i = 0; i < count; i++) {
        piece(context, i);
    }
    return true;
}

/* Print as a whole, and in pieces of one, two, ... elements; the printer counts 16 bytes of
 * grain per element. */
static void check_print(int rank, const int64_t *sizes, uint64_t elements, const char *expected)
{
    int32_t data[64];
    for (int i = 0; i < 64; i++) {
        data[i] = i - 3;
    }
    for (size_t piece = 0; piece <= elements / 2; piece++) {
        const struct parallel parallel = {.grain = 16 * piece - 15, .run = run_in_turn};
        const struct json_print print = {
            DTYPE_I32, data, elements, rank, sizes, piece > 0 ? &parallel : NULL, NULL};
        struct json_writer w;
        json_writer_init(&w);
        json_tensor_write(&print, &w);
        assert_true(json_writer_ok(&w));
        assert_true(w.bytes <= json_tensor_write_max(&print, 0));
        assert_string_equal(w.text, expected);
        json_writer_deinit(&w);
    }
}

static void pieces_print_to_texts_that_join(void **state)
{
    (void)state;
    check_print(0, NULL, 4, "[-3,-2,-1,0]");
    check_print(1, (const int64_t[]){4}, 4, "[-3,-2,-1,0]");
    check_print(2, (const int64_t[]){2, 3}, 6, "[[-3,-2,-1],[0,1,2]]");
    check_print(2, (const int64_t[]){3, 1}, 3, "[[-3],[-2],[-1]]");
    check_print(3, (const int64_t[]){2, 2, 2}, 8, "[[[-3,-2],[-1,0]],[[1,2],[3,4]]]");
    check_print(4, (const int64_t[]){1, 2, 1, 2}, 4, "[[[[-3,-2]],[[-1,0]]]]");
    check_print(3, (const int64_t[]){1, 1, 1}, 1, "[[[-3]]]");
    check_print(1, (const int64_t[]){0}, 0, "[]");
    check_print(2, (const int64_t[]){2, 0}, 0, "[[],[]]");
    check_print(2, (const int64_t[]){0, 3}, 0, "[]");
    check_print(3, (const int64_t[]){2, 2, 0}, 0, "[[[],[]],[[],[]]]");
    check_print(3, (const int64_t[]){2, 0, 3}, 0, "[[],[]]");
}

static void every_type_prints_within_its_bound_and_reads_back(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        enum {
            COUNT = 5000
        };
        static uint64_t data[COUNT];
        static uint64_t back[COUNT];
        for (int i = 0; i < COUNT; i++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            data[i] = seed;
        }
        const int64_t sizes[] = {50, 20, 5};
        const struct json_print print = {(enum dtype)dtype, data, COUNT, 3, sizes, NULL, NULL};
        struct json_writer w;
        json_writer_init(&w);
        json_tensor_write(&print, &w);
        assert_true(json_writer_ok(&w));
        assert_true(w.bytes <= json_tensor_write_max(&print, 0));
        const struct json_read read = {.dtype = (enum dtype)dtype, .field = "data"};
        struct error err = ERROR_INIT;
        const struct json_cut cut = {w.text, w.bytes};
        assert_int_equal(json_tensor_read(&read, cut, COUNT, back, &err), STATUS_OK);
        struct json_writer again;
        json_writer_init(&again);
        const struct json_print print_back = {
            (enum dtype)dtype, back, COUNT, 3, sizes, NULL, NULL};
        json_tensor_write(&print_back, &again);
        assert_string_equal(again.text, w.text);
        if (dtype_info((enum dtype)dtype)->kind != DTYPE_KIND_FLOAT) {
            assert_memory_equal(back, data, COUNT * dtype_info((enum dtype)dtype)->bytes);
        }
        json_t *root = json_loadb(w.text, w.bytes, JSON_DECODE_INT_AS_REAL, NULL);
        assert_int_equal(json_array_size(root), 50);
        json_decref(root);
        json_writer_deinit(&w);
        json_writer_deinit(&again);
    }
}

static void a_bound_that_overflows_says_so(void **state)
{
    (void)state;
    const struct json_print print = {DTYPE_F64, NULL, UINT64_MAX, 1, NULL, NULL, NULL};
    assert_true(json_tensor_write_max(&print, 0) == UINT64_MAX);
    const int64_t sizes[] = {INT64_MAX, INT64_MAX, 2};
    const struct json_print huge = {DTYPE_F64, NULL, 1, 3, sizes, NULL, NULL};
    assert_true(json_tensor_write_max(&huge, 0) < 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regular_arrays_are_measured),
        cmocka_unit_test(an_odd_element_is_found_at_every_position_of_a_long_array),
        cmocka_unit_test(an_array_ends_at_its_bracket_whatever_follows),
        cmocka_unit_test(ragged_nesting_is_found_with_its_place),
        cmocka_unit_test(a_ragged_array_still_counts_its_numbers),
        cmocka_unit_test(bytes_that_resemble_brackets_are_not_brackets),
        cmocka_unit_test(unfinished_and_too_deep_arrays_are_refused),
        cmocka_unit_test(measuring_does_not_depend_on_where_blocks_begin),
        cmocka_unit_test(the_type_is_inferred_by_numpys_rule),
        cmocka_unit_test(every_byte_between_brackets_is_checked),
        cmocka_unit_test(a_number_that_is_too_long_is_said_to_be),
        cmocka_unit_test(a_nested_element_is_blamed_by_all_its_indices),
        cmocka_unit_test(another_count_than_expected_is_refused_without_writing_beyond),
        cmocka_unit_test(the_words_of_float_types_are_read_in_every_form),
        cmocka_unit_test(quoted_integers_have_the_values_of_bare_ones),
        cmocka_unit_test(parts_together_read_what_the_whole_reads),
        cmocka_unit_test(an_array_with_empty_ones_is_not_cut),
        cmocka_unit_test(a_text_without_commas_for_long_is_not_cut),
        cmocka_unit_test(pieces_print_to_texts_that_join),
        cmocka_unit_test(every_type_prints_within_its_bound_and_reads_back),
        cmocka_unit_test(a_bound_that_overflows_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
