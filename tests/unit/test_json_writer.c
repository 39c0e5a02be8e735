/* The JSON text builder. */
#include "proto/json/writer.h"
#include "tests/lib/unit.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void nesting_gets_its_commas(void **state)
{
    (void)state;
    struct json_writer w;
    json_writer_init(&w);
    json_writer_begin_object(&w);
    json_writer_key(&w, "a");
    json_writer_begin_array(&w);
    json_writer_int(&w, INT64_MIN);
    json_writer_uint(&w, UINT64_MAX);
    json_writer_begin_array(&w);
    json_writer_end_array(&w);
    json_writer_begin_object(&w);
    json_writer_end_object(&w);
    json_writer_end_array(&w);
    json_writer_key(&w, "b");
    json_writer_bool(&w, true);
    json_writer_member_bool(&w, "c", false);
    json_writer_key(&w, "d");
    json_writer_raw(&w, "[1,2]", 5);
    json_writer_member_int_list(&w, "e", (const int64_t[]){3, -4}, 2);
    json_writer_member_object(&w, "f");
    json_writer_member_string(&w, "g", "h");
    json_writer_end_object(&w);
    json_writer_member_array(&w, "i");
    json_writer_end_array(&w);
    json_writer_member_uint(&w, "j", 7);
    json_writer_end_object(&w);
    assert_true(json_writer_ok(&w));
    assert_string_equal(w.text, "{\"a\":[-9223372036854775808,18446744073709551615,[],{}],"
                                "\"b\":true,\"c\":false,\"d\":[1,2],\"e\":[3,-4],\"f\":{\"g\":"
                                "\"h\"},\"i\":[],\"j\":7}");
    assert_int_equal(w.bytes, strlen(w.text));
    json_writer_deinit(&w);
}

static const struct {
    const char *in;
    const char *out;
} strings[] = {
    {"plain", "plain"},
    {"quote \" back \\ slash /", "quote \\\" back \\\\ slash /"},
    {"\b\f\n\r\t", "\\b\\f\\n\\r\\t"},
    {"\x01\x1f\x7f", "\\u0001\\u001f\\u007f"},
    {"\xC2\x80 \xC2\x9B", "\\u0080 \\u009b"},       /* terminals interpret these as well */
    {"\xE2\x80\xA8\xE2\x80\xAE", "\\u2028\\u202e"}, /* line separator, reversed text */
    {"\xE2\x81\xA6\xE2\x81\xA9", "\\u2066\\u2069"},
    {"\xD8\x9C\xE2\x80\x8E\xE2\x80\x8F", "\\u061c\\u200e\\u200f"}, /* marks of text direction */
    {"\xD8\x9B\xD8\x9D\xE2\x80\x8D\xE2\x80\x90", "\xD8\x9B\xD8\x9D\xE2\x80\x8D\xE2\x80\x90"},
    {"\xC2\xA0\xE2\x80\xAF\xE2\x81\xAA", "\xC2\xA0\xE2\x80\xAF\xE2\x81\xAA"}, /* not escaped */
    {"\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80", "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80"},
    {"\xFF", "\xEF\xBF\xBD"},
    {"a\xC3", "a\xEF\xBF\xBD"},                                               /* cut off */
    {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},                                 /* overlong */
    {"\xE0\x80\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},                 /* overlong */
    {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},                 /* surrogate */
    {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* > 10FFFF */
    {"\xF0\x8F\xBF\xBF", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* overlong */
    {"\x80z", "\xEF\xBF\xBDz"},
    {"\xE2\x82z", "\xEF\xBF\xBD\xEF\xBF\xBDz"},
};

static void strings_are_escaped_and_invalid_utf8_is_replaced(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        struct json_writer w;
        json_writer_init(&w);
        json_writer_string(&w, strings[i].in);
        assert_true(json_writer_ok(&w));
        char expected[64] = "\"";
        strcat(strcat(expected, strings[i].out), "\"");
        assert_string_equal(w.text, expected);
        json_writer_deinit(&w);
    }
}

static void any_bytes_give_text_that_jansson_reads(void **state)
{
    (void)state;
    unsigned seed = 12345;
    for (int round = 0; round < 20000; round++) {
        char bytes[12];
        for (size_t i = 0; i < sizeof bytes; i++) {
            seed = seed * 1103515245u + 12345u;
            unsigned r = seed >> 16;
            bytes[i] = (char)(r & 1 ? 0xC0 + r % 64 : 0x60 + r % 0xA0);
        }
        struct json_writer w;
        json_writer_init(&w);
        json_writer_begin_array(&w);
        json_writer_string_n(&w, bytes, sizeof bytes);
        json_writer_end_array(&w);
        json_t *root = json_loadb(w.text, w.bytes, 0, NULL);
        assert_non_null(root);
        json_decref(root);
        json_writer_deinit(&w);
    }
}

static void a_nul_byte_inside_is_escaped(void **state)
{
    (void)state;
    struct json_writer w;
    json_writer_init(&w);
    json_writer_string_n(&w, "a\0b", 3);
    assert_string_equal(w.text, "\"a\\u0000b\"");
    json_writer_deinit(&w);
}

static void bytes_after_a_string_do_not_complete_its_last_character(void **state)
{
    (void)state;
    static const char *const cut[] = {"\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        struct json_writer w;
        json_writer_init(&w);
        json_writer_string_n(&w, cut[i], 1);
        assert_string_equal(w.text, "\"\xEF\xBF\xBD\"");
        json_writer_deinit(&w);
    }
}

static void a_fixed_buffer_takes_exactly_its_size_less_the_nul(void **state)
{
    (void)state;
    char buffer[8];
    struct json_writer w;
    json_writer_init_fixed(&w, buffer, sizeof buffer);
    json_writer_string(&w, "12345");
    assert_true(json_writer_ok(&w));
    assert_string_equal(buffer, "\"12345\"");
    for (size_t size = 0; size < 8; size++) {
        char *tight = malloc(size > 0 ? size : 1);
        assert_non_null(tight);
        json_writer_init_fixed(&w, tight, size);
        json_writer_string(&w, "12345");
        json_writer_int(&w, 1);
        assert_false(json_writer_ok(&w));
        json_writer_deinit(&w);
        free(tight);
    }
}

static void taking_the_text_leaves_an_empty_writer(void **state)
{
    (void)state;
    struct json_writer w;
    json_writer_init(&w);
    for (int i = 0; i < 10000; i++) {
        json_writer_int(&w, i % 10);
    }
    size_t bytes = 0;
    char *text = json_writer_take(&w, &bytes);
    assert_non_null(text);
    assert_int_equal(bytes, 19999);
    assert_int_equal(strlen(text), bytes);
    free(text);
    text = json_writer_take(&w, &bytes);
    assert_non_null(text);
    assert_int_equal(bytes, 0);
    assert_string_equal(text, "");
    free(text);
    json_writer_deinit(&w);
}

static void an_impossible_size_fails_and_stays_failed(void **state)
{
    (void)state;
    struct json_writer w;
    json_writer_init(&w);
    assert_null(json_writer_space(&w, SIZE_MAX));
    assert_false(json_writer_ok(&w));
    json_writer_int(&w, 1);
    size_t bytes = 0;
    assert_null(json_writer_take(&w, &bytes));
    json_writer_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nesting_gets_its_commas),
        cmocka_unit_test(strings_are_escaped_and_invalid_utf8_is_replaced),
        cmocka_unit_test(any_bytes_give_text_that_jansson_reads),
        cmocka_unit_test(a_nul_byte_inside_is_escaped),
        cmocka_unit_test(bytes_after_a_string_do_not_complete_its_last_character),
        cmocka_unit_test(a_fixed_buffer_takes_exactly_its_size_less_the_nul),
        cmocka_unit_test(taking_the_text_leaves_an_empty_writer),
        cmocka_unit_test(an_impossible_size_fails_and_stays_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
