/* Typed getters and their errors. */
#include "proto/json/fields.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

static json_t *root;

static int parse_fixture(void **state)
{
    (void)state;
    root = json_loads("{\"int\":-5,\"real\":1.5,\"whole\":3.0,\"power\":-2e3,\"minus\":-0.0,"
                      "\"long\":9007199254740992.0,\"wholes\":[2.0,3e0],\"yes\":true,\"no\":"
                      "false,\"one\":1,\"zero\":0,"
                      "\"two\":2,\"text\":\"abc\",\"true\":\"true\",\"list\":[1,2,3],"
                      "\"mixed\":[1,\"x\"],\"empty\":[],\"null\":null,\"object\":{\"a\":1},"
                      "\"dtype\":\"float32\","
                      "\"objects\":[{\"b\":2},3]}",
                      0, NULL);
    return root == NULL;
}
static int drop_fixture(void **state)
{
    (void)state;
    json_decref(root);
    return 0;
}

static struct json_place at_root(void)
{
    return (struct json_place){.object = root};
}

static void expect_error(const struct error *err, enum status status, const char *field,
                         const char *detail)
{
    assert_int_equal(err->status, status);
    assert_string_equal(err->field, field);
    assert_string_equal(err->detail, detail);
}

static void integers_are_whole_numbers_however_they_are_written(void **state)
{
    (void)state;
    const struct json_place place = at_root();
    struct error err = ERROR_INIT;
    int64_t value = 77;
    assert_int_equal(json_field_int64(&place, "absent", &value, &err), STATUS_OK);
    assert_int_equal(value, 77);
    assert_int_equal(json_field_int64(&place, "int", &value, &err), STATUS_OK);
    assert_int_equal(value, -5);
    assert_int_equal(json_field_int64(&place, "real", &value, &err), STATUS_INVALID_FIELD);
    expect_error(&err, STATUS_INVALID_FIELD, "real", "real is 1.5, expected an integer");
    assert_int_equal(json_field_int64(&place, "whole", &value, NULL), STATUS_OK);
    assert_int_equal(value, 3);
    assert_int_equal(json_field_int64(&place, "power", &value, NULL), STATUS_OK);
    assert_int_equal(value, -2000);
    assert_int_equal(json_field_int64(&place, "minus", &value, NULL), STATUS_OK);
    assert_int_equal(value, 0);
    /* From 2^53 on a double does not show which integer was written. */
    err = (struct error)ERROR_INIT;
    assert_int_equal(json_field_int64(&place, "long", &value, &err), STATUS_INVALID_FIELD);
    expect_error(&err, STATUS_INVALID_FIELD, "long",
                 "long is 9007199254740992.0, expected an integer, without a point or an "
                 "exponent from 2^53 on");
    assert_int_equal(json_field_int64(&place, "int", &value, NULL), STATUS_OK);
    static const char *const others[] = {"yes", "text", "list", "null", "object"};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(json_field_int64(&place, others[i], &value, NULL),
                         STATUS_INVALID_FIELD);
    }
    assert_int_equal(value, -5);
}

static void booleans_are_strict_unless_lenient(void **state)
{
    (void)state;
    const struct json_place place = at_root();
    struct error err = ERROR_INIT;
    bool value = false;
    assert_int_equal(json_field_bool(&place, "yes", false, &value, &err), STATUS_OK);
    assert_true(value);
    assert_int_equal(json_field_bool(&place, "one", false, &value, &err), STATUS_INVALID_FIELD);
    expect_error(&err, STATUS_INVALID_FIELD, "one", "one is 1, expected true or false");
    assert_int_equal(json_field_bool(&place, "zero", true, &value, NULL), STATUS_OK);
    assert_false(value);
    assert_int_equal(json_field_bool(&place, "true", true, &value, NULL), STATUS_OK);
    assert_true(value);
    assert_int_equal(json_field_bool(&place, "no", true, &value, NULL), STATUS_OK);
    assert_false(value);
    assert_int_equal(json_field_bool(&place, "two", true, &value, NULL), STATUS_INVALID_FIELD);
    assert_int_equal(json_field_bool(&place, "text", true, &value, NULL), STATUS_INVALID_FIELD);
    assert_int_equal(json_field_bool(&place, "absent", true, &value, NULL), STATUS_OK);
}

static void lists_hold_integers_up_to_their_limit(void **state)
{
    (void)state;
    const struct json_place place = {.object = root, .path = "inputs[0]"};
    struct error err = ERROR_INIT;
    int64_t values[3] = {0};
    int count = -1;
    assert_int_equal(json_field_int64_list(&place, "absent", 3, values, &count, &err),
                     STATUS_OK);
    assert_int_equal(count, -1);
    assert_int_equal(json_field_int64_list(&place, "list", 3, values, &count, &err), STATUS_OK);
    assert_int_equal(count, 3);
    assert_int_equal(values[2], 3);
    assert_int_equal(json_field_int64_list(&place, "wholes", 3, values, &count, &err),
                     STATUS_OK);
    assert_int_equal(count, 2);
    assert_int_equal(values[0], 2);
    assert_int_equal(values[1], 3);
    values[0] = 1;
    assert_int_equal(json_field_int64_list(&place, "empty", 3, values, &count, &err),
                     STATUS_OK);
    assert_int_equal(count, 0);
    assert_int_equal(json_field_int64_list(&place, "mixed", 3, values, &count, &err),
                     STATUS_INVALID_FIELD);
    expect_error(&err, STATUS_INVALID_FIELD, "inputs[0].mixed[1]",
                 "inputs[0].mixed[1] is the string \"x\", expected an integer");
    err = (struct error)ERROR_INIT;
    assert_int_equal(json_field_int64_list(&place, "list", 2, values, &count, &err),
                     STATUS_INVALID_SHAPE);
    assert_int_equal(count, 0);
    assert_int_equal(values[0], 1);
    assert_int_equal(json_field_int64_list(&place, "text", 2, values, &count, NULL),
                     STATUS_INVALID_FIELD);
}

static void names_of_types_are_checked(void **state)
{
    (void)state;
    const struct json_place place = at_root();
    struct error err = ERROR_INIT;
    enum dtype dtype = DTYPE_I8;
    assert_int_equal(json_field_dtype(&place, "dtype", DTYPE_FAMILY_NAME, &dtype, &err),
                     STATUS_OK);
    assert_int_equal(dtype, DTYPE_F32);
    assert_int_equal(json_field_dtype(&place, "absent", DTYPE_FAMILY_NAME, &dtype, &err),
                     STATUS_OK);
    assert_int_equal(dtype, DTYPE_F32);
    assert_int_equal(json_field_dtype(&place, "text", DTYPE_FAMILY_KSERVE, &dtype, &err),
                     STATUS_INVALID_DTYPE);
    assert_string_equal(err.field, "text");
    assert_non_null(strstr(err.detail, "\"abc\", expected one of FP16"));
    assert_int_equal(json_field_dtype(&place, "int", DTYPE_FAMILY_NAME, &dtype, NULL),
                     STATUS_INVALID_FIELD);
}

static void strings_objects_and_arrays_come_with_their_place(void **state)
{
    (void)state;
    const struct json_place place = at_root();
    struct error err = ERROR_INIT;
    const char *text = NULL;
    struct json_place object;
    size_t count = 0;
    assert_int_equal(json_field_string(&place, "text", &text, &err), STATUS_OK);
    assert_string_equal(text, "abc");
    assert_int_equal(json_field_string(&place, "int", &text, NULL), STATUS_INVALID_FIELD);
    assert_int_equal(json_field_object(&place, "object", &object, &err), STATUS_OK);
    assert_string_equal(object.path, "object");
    int64_t a = 0;
    assert_int_equal(json_field_int64(&object, "a", &a, &err), STATUS_OK);
    assert_int_equal(a, 1);
    assert_int_equal(json_field_object(&place, "absent", &object, &err), STATUS_OK);
    assert_null(object.object);
    assert_int_equal(json_field_object(&place, "list", &object, NULL), STATUS_INVALID_FIELD);
    assert_int_equal(json_require_array(&place, "objects", &count, &err), STATUS_OK);
    assert_int_equal(count, 2);
    assert_int_equal(json_array_object(&place, "objects", 0, &object, &err), STATUS_OK);
    assert_string_equal(object.path, "objects[0]");
    assert_int_equal(json_array_object(&place, "objects", 1, &object, &err),
                     STATUS_INVALID_FIELD);
    expect_error(&err, STATUS_INVALID_FIELD, "objects[1]",
                 "objects[1] is 3, expected an object");
}

static void unknown_fields_are_refused_with_the_known_ones(void **state)
{
    (void)state;
    json_t *small = json_pack("{s:i,s:i}", "axis", 1, "axes", 2);
    const struct json_place place = {.object = small, .path = "desc"};
    struct error err = ERROR_INIT;
    static const char *const known[] = {"axis", "data"};
    static const char *const all[] = {"axis", "data", "axes"};
    assert_int_equal(json_fields_known(&place, all, 3, &err), STATUS_OK);
    assert_int_equal(json_fields_known(&place, known, 2, &err), STATUS_UNKNOWN_FIELD);
    expect_error(&err, STATUS_UNKNOWN_FIELD, "desc.axes",
                 "there is no field desc.axes; known here: axis, data");
    err = (struct error)ERROR_INIT;
    assert_int_equal(json_field_missing(&place, "data", &err), STATUS_MISSING_FIELD);
    assert_string_equal(err.field, "desc.data");
    json_decref(small);
}

static void long_paths_and_values_are_cut_not_overrun(void **state)
{
    (void)state;
    struct json_place place = {.object = root};
    memset(place.path, 'p', sizeof place.path - 1);
    char path[JSON_PATH_MAX];
    json_path_of(&place, "name", 3, path);
    assert_int_equal(strlen(path), JSON_PATH_MAX - 1);
    char text[4000];
    memset(text, 'v', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    json_t *big = json_object();
    json_object_set_new(big, "x", json_string(text));
    json_object_set_new(big, text, json_true());
    const struct json_place odd = {.object = big};
    struct error err = ERROR_INIT;
    assert_int_equal(json_field_error(&odd, "x", "less", &err), STATUS_INVALID_FIELD);
    assert_true(strlen(err.detail) < 120);
    static const char *const known[] = {"x"};
    err = (struct error)ERROR_INIT;
    assert_int_equal(json_fields_known(&odd, known, 1, &err), STATUS_UNKNOWN_FIELD);
    json_decref(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_whole_numbers_however_they_are_written),
        cmocka_unit_test(booleans_are_strict_unless_lenient),
        cmocka_unit_test(lists_hold_integers_up_to_their_limit),
        cmocka_unit_test(names_of_types_are_checked),
        cmocka_unit_test(strings_objects_and_arrays_come_with_their_place),
        cmocka_unit_test(unknown_fields_are_refused_with_the_known_ones),
        cmocka_unit_test(long_paths_and_values_are_cut_not_overrun),
    };
    return cmocka_run_group_tests(tests, parse_fixture, drop_fixture);
}
