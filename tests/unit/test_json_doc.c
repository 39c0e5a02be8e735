/* json_doc: "data" is cut out of a JSON text, and the rest is parsed. */
#include "proto/json/doc.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text in memory of exactly its size; valid until free(). */
static char *held;

static enum status parse_n(const char *text, size_t bytes, struct json_doc *doc,
                           struct error *err)
{
    free(held);
    held = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(held);
    memcpy(held, text, bytes);
    *err = (struct error)ERROR_INIT;
    return json_doc_parse(held, bytes, NULL, doc, err);
}

static enum status parse(const char *text, struct json_doc *doc, struct error *err)
{
    return parse_n(text, strlen(text), doc, err);
}

static const struct json_array *data_of(const struct json_doc *doc)
{
    return json_doc_array(doc, json_object_get(doc->root, "data"));
}

static void data_is_cut_and_the_rest_is_parsed(void **state)
{
    (void)state;
    struct json_doc doc;
    struct error err;
    assert_int_equal(
        parse("{ \"axis\" : 1, \"data\" \n : [[1,2],[3,4]] , \"dtype\":\"int32\"}", &doc, &err),
        STATUS_OK);
    const struct json_array *array = data_of(&doc);
    assert_non_null(array);
    assert_int_equal(array->elements, 4);
    assert_memory_equal(array->cut.text, "[[1,2],[3,4]]", array->cut.bytes);
    assert_int_equal(json_integer_value(json_object_get(doc.root, "axis")), 1);
    assert_string_equal(json_string_value(json_object_get(doc.root, "dtype")), "int32");
    json_doc_deinit(&doc);
}

static void several_arrays_keep_their_order_at_any_depth(void **state)
{
    (void)state;
    char text[1024] = "{\"inputs\":[";
    for (int i = 0; i < LIMIT_TENSORS; i++) {
        char one[48];
        (void)snprintf(one, sizeof one, "%s{\"data\":[%d,%d]}", i > 0 ? "," : "", i, i);
        strcat(text, one);
    }
    struct json_doc doc;
    struct error err;
    strcat(text, "]}");
    assert_int_equal(parse(text, &doc, &err), STATUS_OK);
    assert_int_equal(doc.array_count, LIMIT_TENSORS);
    for (size_t i = 0; i < LIMIT_TENSORS; i++) {
        const json_t *input = json_array_get(json_object_get(doc.root, "inputs"), i);
        const struct json_array *array = json_doc_array(&doc, json_object_get(input, "data"));
        assert_non_null(array);
        char pair[48];
        (void)snprintf(pair, sizeof pair, "[%zu,%zu]", i, i);
        assert_memory_equal(array->cut.text, pair, strlen(pair));
    }
    json_doc_deinit(&doc);
    text[strlen(text) - 2] = '\0';
    strcat(text, ",{\"data\":[1]}]}");
    assert_int_equal(parse(text, &doc, &err), STATUS_INVALID_JSON);
    assert_non_null(strstr(err.detail, "more than 16"));
}

static void no_spelling_of_the_key_forges_a_stand_in(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"d\\u0061ta\":[5,6,7]}",
        "{\"\\u0064\\u0061\\u0074\\u0061\":[5,6,7]}",
        "{\"dat\\u0061\":[5,6,7]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct json_doc doc;
        struct error err;
        assert_int_equal(parse(texts[i], &doc, &err), STATUS_OK);
        assert_int_equal(doc.array_count, 1);
        assert_int_equal(data_of(&doc)->elements, 3);
        json_doc_deinit(&doc);
    }
}

static void text_that_only_resembles_the_member_data_is_not_cut_out(void **state)
{
    (void)state;
    struct json_doc doc;
    struct error err;
    assert_int_equal(parse("{\"a\":\"\\\"data\\\":[1,2]\",\"xdata\":[3],\"data\\n\":[4],"
                           "\"b\":[\"data\",[1]],\"dat\":[5],\"data\":\"[6]\"}",
                           &doc, &err),
                     STATUS_OK);
    assert_int_equal(doc.array_count, 0);
    assert_null(data_of(&doc));
    assert_int_equal(json_array_size(json_object_get(doc.root, "b")), 2);
    json_doc_deinit(&doc);
    assert_int_equal(parse("{\"data\":-1}", &doc, &err), STATUS_OK);
    assert_null(data_of(&doc));
    assert_true(json_is_integer(json_object_get(doc.root, "data")));
    json_doc_deinit(&doc);
}

static const struct {
    const char *text;
    const char *says;
} invalid[] = {
    {"", "empty"},
    {"  \n", "empty"},
    {"[1,2]", "an array, not an object"},
    {"5", "no JSON object: it begins with '5', expected '{'"},
    {"{", "not valid JSON"},
    {"{\"data\":[1,2]", "not valid JSON"},
    {"{\"data\":[1,2]}}", "not valid JSON"},
    {"{\"data\":[1,2]} x", "not valid JSON"},
    {"{\"data\":[1,2],}", "not valid JSON"},
    {"{\"data\":[1,2],\"data\":[3]}", "duplicate"},
    {"{\"a\":1,\"a\":2}", "duplicate"},
    {"{\"d\\u0061ta\":[1],\"data\":[3]}", "duplicate"},
    {"{\"data\":[1,2", "ends inside an array"},
    {"{\"data\":[\"", "ends inside an array"},
    {"{\"data\":", "not valid JSON"},
    {"{\"data", "not valid JSON"},
    {"{\"data\\", "not valid JSON"},
    {"{\"\\u00", "not valid JSON"},
    {"{\"a\":\"\xff\"}", "not valid JSON"},
    {"{\"a\":\"\\ud800\"}", "not valid JSON"},
    {"{\"a\":\"\\u0000\"}", "leave it out (byte"},
    {"{\"axis\":1e999}", "does not fit into 64 bits"},
    {"{\"a\":NaN}", "not valid JSON"},
    {"{'a':1}", "not valid JSON"},
};

static void invalid_json_is_refused_with_a_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
        struct json_doc doc = {.array_count = 77};
        struct error err;
        assert_int_equal(parse(invalid[i].text, &doc, &err), STATUS_INVALID_JSON);
        if (strstr(err.detail, invalid[i].says) == NULL) {
            fail_msg("%s: '%s' does not say '%s'", invalid[i].text, err.detail,
                     invalid[i].says);
        }
        assert_int_equal(doc.array_count, 77);
    }
}

static void an_integer_beyond_64_bits_is_a_number_too(void **state)
{
    (void)state;
    struct json_doc doc;
    struct error err;
    const char text[] = "{\"a\":99999999999999999999,\"data\":[1],\"b\":-9223372036854775809,"
                        "\"c\":\"\\\"99999999999999999999\",\"d\":1.0000000000000000000}";
    assert_int_equal(parse(text, &doc, &err), STATUS_OK);
    assert_true(json_real_value(json_object_get(doc.root, "a")) > 9e19);
    assert_true(json_real_value(json_object_get(doc.root, "b")) < -9e18);
    assert_string_equal(json_string_value(json_object_get(doc.root, "c")),
                        "\"99999999999999999999");
    assert_true(json_real_value(json_object_get(doc.root, "d")) < 1.5);
    assert_non_null(json_doc_array(&doc, json_object_get(doc.root, "data")));
    json_doc_deinit(&doc);
}

static void a_nul_byte_is_refused_wherever_it_stands(void **state)
{
    (void)state;
    const char text[] = "{ \"axis\": 1 , \"data\" : [1,2] , \"dtype\": \"int8\" } ";
    for (size_t i = 0; i < sizeof text - 1; i++) {
        char copy[sizeof text];
        struct json_doc doc;
        struct error err;
        memcpy(copy, text, sizeof text);
        copy[i] = '\0';
        bool in_data =
            i > (size_t)(strchr(text, '[') - text) && i < (size_t)(strchr(text, ']') - text);
        enum status status = parse_n(copy, sizeof text - 1, &doc, &err);
        assert_int_equal(status, in_data ? STATUS_OK : STATUS_INVALID_JSON);
        if (in_data) {
            const struct json_read read = {.dtype = DTYPE_F64, .field = "data"};
            const struct json_array *array = data_of(&doc);
            double out[2];
            assert_int_equal(json_tensor_read(&read, array->cut, array->elements, out, &err),
                             STATUS_INVALID_DATA);
            json_doc_deinit(&doc);
        }
    }
}

static void errors_name_the_byte_of_the_whole_text(void **state)
{
    (void)state;
    struct json_doc doc;
    struct error err;
    static const char *const texts[] = {
        "{\"data\":[1,2,3,4,5,6,7,8,9],\"x\":}", "{\"carry\":\"QUJDREVG\",\"x\":}",
        "{\"carry\":\"QUJDREVG\",\"data\":[1,2,3,4],\"x\":}", "{\"x\":}"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        char place[32];
        (void)snprintf(place, sizeof place, "(byte %d)",
                       (int)(strchr(texts[i], '}') - texts[i]) + 1);
        assert_int_equal(parse(texts[i], &doc, &err), STATUS_INVALID_JSON);
        if (strstr(err.detail, place) == NULL) {
            fail_msg("'%s' does not say '%s'", err.detail, place);
        }
    }
}

static void nesting_and_bulk_outside_of_data_are_limited(void **state)
{
    (void)state;
    struct json_doc doc;
    struct error err;
    char deep[1024] = "{\"a\":";
    for (int i = 0; i < LIMIT_JSON_DEPTH; i++) {
        strcat(deep, "[");
    }
    assert_int_equal(parse(deep, &doc, &err), STATUS_INVALID_JSON);
    assert_non_null(strstr(err.detail, "nested"));
    deep[strlen(deep) - 1] = '\0';
    for (int i = 1; i < LIMIT_JSON_DEPTH; i++) {
        strcat(deep, "]");
    }
    assert_int_equal(parse(strcat(deep, "}"), &doc, &err), STATUS_OK);
    json_doc_deinit(&doc);
    char *most = malloc(LIMIT_JSON_SKELETON + 1);
    assert_non_null(most);
    memset(most, ' ', LIMIT_JSON_SKELETON + 1);
    memcpy(most, "{}", 2);
    assert_int_equal(parse_n(most, LIMIT_JSON_SKELETON, &doc, &err), STATUS_OK);
    json_doc_deinit(&doc);
    assert_int_equal(parse_n(most, LIMIT_JSON_SKELETON + 1, &doc, &err), STATUS_TOO_LARGE);
    free(most);
    const struct {
        char bulk;
        const char *begin, *end;
    } texts[] = {{' ', "", ""},
                 {' ', "{", "}"},
                 {' ', "", "{}"},
                 {' ', "{}", ""},
                 {'x', "{\"x\":\"", "\"}"}};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        char *bulk = malloc(LIMIT_JSON_SKELETON * 2);
        assert_non_null(bulk);
        memset(bulk, texts[i].bulk, LIMIT_JSON_SKELETON * 2);
        memcpy(bulk, texts[i].begin, strlen(texts[i].begin));
        memcpy(bulk + LIMIT_JSON_SKELETON * 2 - strlen(texts[i].end), texts[i].end,
               strlen(texts[i].end));
        assert_int_equal(parse_n(bulk, LIMIT_JSON_SKELETON * 2, &doc, &err), STATUS_TOO_LARGE);
        assert_non_null(strstr(err.detail, "256 KiB, blanks included"));
        free(bulk);
    }
}

/* Write an object with an array of `values` values; the commas in its string do not count. */
static size_t write_values(char *text, int values)
{
    char *p = stpcpy(text, "{\"a\":[\",,,,\"");
    for (int i = 3; i <= values; i++) {
        p = stpcpy(p, ",0");
    }
    return (size_t)(stpcpy(p, "]}") - text);
}

static void values_outside_of_data_are_limited(void **state)
{
    (void)state;
    char *text = malloc(2 * LIMIT_JSON_VALUES + 64);
    assert_non_null(text);
    struct json_doc doc;
    struct error err;
    size_t bytes = write_values(text, LIMIT_JSON_VALUES);
    assert_int_equal(parse_n(text, bytes, &doc, &err), STATUS_OK);
    json_doc_deinit(&doc);
    bytes = write_values(text, LIMIT_JSON_VALUES + 1);
    assert_int_equal(parse_n(text, bytes, &doc, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.detail, "1024 values"));
    free(text);
}

static void a_large_array_is_no_bulk(void **state)
{
    (void)state;
    enum {
        COUNT = 1 << 20
    };
    char *text = malloc(COUNT * 2 + 32);
    assert_non_null(text);
    char *p = text + sprintf(text, "{\"data\":[");
    for (int i = 0; i < COUNT; i++) {
        *p++ = '1';
        *p++ = ',';
    }
    p[-1] = ']';
    *p++ = '}';
    struct json_doc doc;
    struct error err;
    assert_int_equal(parse_n(text, (size_t)(p - text), &doc, &err), STATUS_OK);
    assert_int_equal(data_of(&doc)->elements, COUNT);
    json_doc_deinit(&doc);
    free(text);
}

static int drop_text(void **state)
{
    (void)state;
    free(held);
    held = NULL;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_is_cut_and_the_rest_is_parsed),
        cmocka_unit_test(several_arrays_keep_their_order_at_any_depth),
        cmocka_unit_test(no_spelling_of_the_key_forges_a_stand_in),
        cmocka_unit_test(text_that_only_resembles_the_member_data_is_not_cut_out),
        cmocka_unit_test(invalid_json_is_refused_with_a_reason),
        cmocka_unit_test(an_integer_beyond_64_bits_is_a_number_too),
        cmocka_unit_test(a_nul_byte_is_refused_wherever_it_stands),
        cmocka_unit_test(errors_name_the_byte_of_the_whole_text),
        cmocka_unit_test(nesting_and_bulk_outside_of_data_are_limited),
        cmocka_unit_test(values_outside_of_data_are_limited),
        cmocka_unit_test(a_large_array_is_no_bulk),
    };
    return cmocka_run_group_tests(tests, NULL, drop_text);
}
