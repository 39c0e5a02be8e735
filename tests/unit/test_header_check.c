/* header_check.h: the required form of a header, and the values that are read from it. */
#include "server/http/header_check.h"
#include "tests/lib/unit.h"

#include <string.h>

struct field {
    const char *name;
    const char *value;
};

enum {
    ROOM = 4096,
    TARGET = 11 /* bytes of "/v1/cumsum?" */
};

static enum status pass(struct header_check *header, bool http_1_1, const struct field *list,
                        size_t count, struct error *err)
{
    header_check_init(header, http_1_1, TARGET, ROOM);
    for (size_t i = 0; i < count; i++) {
        header_check_field(header, list[i].name, strlen(list[i].name), list[i].value,
                           strlen(list[i].value));
    }
    return header_check_finish(header, err);
}

#define PASS(header, err, ...)                                                              \
    pass(header, true, (const struct field[]){{"Host", "h"}, __VA_ARGS__},                  \
         sizeof((const struct field[]){{"Host", "h"}, __VA_ARGS__}) / sizeof(struct field), \
         err)

static void door_reads_the_fields_it_knows(void **state)
{
    struct header_check header;
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(PASS(&header, &err, {"content-LENGTH", "48"},
                          {"Content-Type", "application/octet-stream; x=y"},
                          {"X-Request-Id", "abc-1"}, {"X-Request-Timeout-Ms", "250"},
                          {"Inference-Header-Content-Length", "12"}, {"Expect", "100-Continue"},
                          {"Accept", "application/json"}),
                     STATUS_OK);
    assert_int_equal(header.content_length, 48);
    assert_int_equal(header.media, CODEC_FORMAT_RAW);
    assert_string_equal(header.request_id, "abc-1");
    assert_int_equal(header.request_id_bytes, 5);
    assert_int_equal(header.timeout_ms, 250);
    assert_int_equal(header.head_bytes, 12);
    assert_true(header.expect_continue);
    assert_int_equal(header.accept_formats, 1U << CODEC_FORMAT_JSON);
    assert_true(header_check_has_body(&header));
}

static void of_many_fields_of_one_name_the_last_are_kept_in_their_order(void **state)
{
    static const char *const values[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    struct field fields[ARRAY_COUNT(values)];
    struct header_check header;
    struct error err = ERROR_INIT;
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
        fields[i] = (struct field){"X-Forwarded-For", values[i]};
    }
    (void)pass(&header, true, fields, ARRAY_COUNT(fields), &err);
    assert_int_equal(header.forwarded.total, ARRAY_COUNT(values));
    assert_int_equal(header.forwarded.count, HEADER_LIST);
    for (size_t i = 0; i < HEADER_LIST; i++) {
        assert_ptr_equal(header.forwarded.texts[i],
                         values[ARRAY_COUNT(values) - HEADER_LIST + i]);
    }
}

static void door_refuses_more_bytes_than_its_limit(void **state)
{
    char longest[ROOM] = "";
    struct header_check header;
    struct error err = ERROR_INIT;
    (void)state;
    /* Together with the target, "Host", "h" and "X" this value has ROOM bytes. */
    memset(longest, 'a', ROOM - TARGET - sizeof "Host" - sizeof "h" + 1);
    assert_int_equal(PASS(&header, &err, {"X", longest}), STATUS_OK);
    assert_int_equal(header.bytes, ROOM);
    assert_int_equal(PASS(&header, &err, {"XX", longest}), STATUS_HEADERS_TOO_LARGE);
    assert_non_null(strstr(
        err.detail,
        "target and headers have 4097 bytes, over 4096, the limit (--max-header-bytes)"));
    assert_false(header.unframed);
}

static void door_refuses_doubtful_framing(void **state)
{
    static const struct field pairs[][2] = {
        {{"Content-Length", "5"}, {"Content-Length", "5"}},
        {{"Content-Length", "5"}, {"Transfer-Encoding", "chunked"}},
        {{"Transfer-Encoding", "chunked"}, {"Content-Length", "0"}},
        {{"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "chunked"}},
        {{"Transfer-Encoding", "gzip, chunked"}, {"A", "b"}},
        {{"Transfer-Encoding", "gzip"}, {"A", "b"}},
        {{"Transfer-Encoding", "chunked, identity"}, {"A", "b"}},
        {{"Transfer-Encoding", ""}, {"A", "b"}},
        {{"Content-Length ", "5"}, {"A", "b"}},
        {{"Content-Length\t", "5"}, {"A", "b"}},
        {{"X\r\n Folded", "5"}, {"A", "b"}},
        {{"", "5"}, {"A", "b"}},
        {{"Content-Length", "+5"}, {"A", "b"}},
        {{"Content-Length", "5 5"}, {"A", "b"}},
        {{"Content-Length", "5,5"}, {"A", "b"}},
        {{"Content-Length", "0x5"}, {"A", "b"}},
        {{"Content-Length", ""}, {"A", "b"}},
        {{"Content-Length", "-1"}, {"A", "b"}},
        {{"Content-Length", "9223372036854775808"}, {"A", "b"}},
        {{"X-Anything", "a\rb"}, {"A", "b"}},
        {{"X-Anything", "a\x7f"}, {"A", "b"}},
        {{"Host", "two"}, {"A", "b"}},
        {{"Content-Type", "a/b"}, {"content-type", "a/b"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct header_check header;
        struct error err = ERROR_INIT;
        enum status status = PASS(&header, &err, pairs[i][0], pairs[i][1]);
        if (status == STATUS_OK || !header.unframed || err.status != status ||
            err.detail[0] == '\0') {
            fail_msg("let pass: %s: %s / %s: %s", pairs[i][0].name, pairs[i][0].value,
                     pairs[i][1].name, pairs[i][1].value);
        }
    }
}

static void door_refuses_transfer_encoding_in_http_1_0(void **state)
{
    const struct field field = {"Transfer-Encoding", "chunked"};
    struct header_check header;
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(pass(&header, false, &field, 1, &err), STATUS_INVALID_REQUEST);
    assert_true(header.unframed);
}

static void door_takes_the_largest_length(void **state)
{
    struct header_check header;
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(PASS(&header, &err, {"Content-Length", "9223372036854775807"}), STATUS_OK);
    assert_true(header.content_length == INT64_MAX);
    assert_int_equal(PASS(&header, &err, {"Content-Length", "0005"}), STATUS_OK);
    assert_int_equal(header.content_length, 5);
}

static void door_ignores_expectations_of_http_1_0_and_unknown_ones(void **state)
{
    const struct field field = {"Expect", "100-continue"};
    struct header_check header;
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(pass(&header, false, &field, 1, &err), STATUS_OK);
    assert_false(header.expect_continue);
    assert_int_equal(PASS(&header, &err, {"Expect", "a-pony"}), STATUS_OK);
    assert_false(header.expect_continue);
}

static void door_judges_content_encoding(void **state)
{
    struct header_check header;
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(PASS(&header, &err, {"Content-Encoding", "GZip"}), STATUS_OK);
    assert_int_equal(header.coding, CODING_GZIP);
    assert_int_equal(PASS(&header, &err, {"Content-Encoding", "identity"}), STATUS_OK);
    assert_int_equal(header.coding, CODING_IDENTITY);
    assert_int_equal(PASS(&header, &err, {"Content-Encoding", "deflate"}), STATUS_OK);
    assert_int_equal(header.coding, CODING_DEFLATE);
    assert_int_equal(PASS(&header, &err, {"Content-Encoding", "gzip, gzip"}),
                     STATUS_UNSUPPORTED_MEDIA);
    assert_false(header.unframed);
    err.status = STATUS_OK;
    assert_int_equal(PASS(&header, &err, {"Content-Encoding", "br"}), STATUS_UNSUPPORTED_MEDIA);
}

static void door_packs_answers_only_for_a_single_coding(void **state)
{
    struct header_check header;
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(PASS(&header, &err, {"Accept-Encoding", "gzip"}), STATUS_OK);
    assert_int_equal(header.accept_coding, CODING_GZIP);
    assert_int_equal(PASS(&header, &err, {"Accept-Encoding", "deflate;q=0.5"}), STATUS_OK);
    assert_int_equal(header.accept_coding, CODING_DEFLATE);
    assert_int_equal(PASS(&header, &err, {"Accept-Encoding", "gzip, deflate"}), STATUS_OK);
    assert_int_equal(header.accept_coding, CODING_IDENTITY);
    assert_int_equal(
        PASS(&header, &err, {"Accept-Encoding", "gzip"}, {"Accept-Encoding", "br"}), STATUS_OK);
    assert_int_equal(header.accept_coding, CODING_IDENTITY);
    assert_int_equal(PASS(&header, &err, {"Accept-Encoding", "gzip;q=0"}), STATUS_OK);
    assert_int_equal(header.accept_coding, CODING_IDENTITY);
    assert_int_equal(PASS(&header, &err, {"Accept-Encoding", "gzip; q=0.000"}), STATUS_OK);
    assert_int_equal(header.accept_coding, CODING_IDENTITY);
    assert_int_equal(PASS(&header, &err, {"Accept-Encoding", "gzip;q=0.1"}), STATUS_OK);
    assert_int_equal(header.accept_coding, CODING_GZIP);
    assert_int_equal(PASS(&header, &err, {"Accept-Encoding", "br;q=0, gzip, *;q=0"}),
                     STATUS_OK);
    assert_int_equal(header.accept_coding, CODING_GZIP);
}

static void door_packs_with_what_is_not_refused(void **state)
{
    static const struct {
        const char *field;
        enum coding coding;
        bool none;
    } cases[] = {
        {"gzip;q=0", CODING_IDENTITY, false},
        {"gzip;q=0, *", CODING_IDENTITY, false},
        {"gzip;q=0, deflate", CODING_DEFLATE, false},
        {"x-gzip;q=0.001, br;Q=0.000", CODING_GZIP, false},
        {"gzip;q=0.01x", CODING_GZIP, false}, /* an invalid weight counts as no weight */
        {"*", CODING_IDENTITY, false},
        {"*;q=0", CODING_IDENTITY, true},
        {"*;q=0, identity;q=0.5", CODING_IDENTITY, false},
        {"*;q=0, gzip", CODING_GZIP, false},
        {"deflate, *;q=0.0", CODING_DEFLATE, false},
        {"identity;q=0", CODING_IDENTITY, true},
        {"Identity; q=0, br", CODING_IDENTITY, true},
        {"identity;q=0, *", CODING_GZIP, false},
        {"identity;q=0, *, gzip;q=0.5", CODING_DEFLATE, false},
        {"identity;q=0, gzip;q=0", CODING_IDENTITY, true},
        {"gzip;q=0.3, identity;q=0, deflate;q=0.25", CODING_GZIP, false},
        {"gzip;q=0.3, identity;q=0, deflate;q=0.31", CODING_DEFLATE, false},
        {"identity;q=0.1, gzip", CODING_IDENTITY, false},
    };
    struct header_check header;
    struct error err = ERROR_INIT;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(PASS(&header, &err, {"Accept-Encoding", cases[i].field}), STATUS_OK);
        if (header.accept_coding != cases[i].coding || header.no_coding != cases[i].none) {
            fail_msg("%s: coding %d", cases[i].field, (int)header.accept_coding);
        }
    }
}

static void door_collects_accepted_formats(void **state)
{
    struct header_check header;
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(PASS(&header, &err, {"Accept", "*/*"}), STATUS_OK);
    assert_int_equal(header.accept_formats, 0);
    assert_int_equal(PASS(&header, &err, {"Accept", "application/x-npy, */*;q=0.1"}),
                     STATUS_OK);
    assert_int_equal(header.accept_formats, 1U << CODEC_FORMAT_NPY);
    assert_int_equal(PASS(&header, &err, {"Accept", "application/json"},
                          {"Accept", "application/octet-stream"}),
                     STATUS_OK);
    assert_int_equal(header.accept_formats, 1U << CODEC_FORMAT_JSON | 1U << CODEC_FORMAT_RAW);
    assert_int_equal(PASS(&header, &err, {"Accept", "application/json;q=0,application/x-npy"}),
                     STATUS_OK);
    assert_int_equal(header.accept_formats, 1U << CODEC_FORMAT_NPY);
}

static void door_knows_browsers(void **state)
{
    struct header_check header;
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(PASS(&header, &err, {"Accept", "text/html,*/*;q=0.8"},
                          {"If-None-Match", "\"a\", W/\"b\""}),
                     STATUS_OK);
    assert_true(header.accept_html);
    assert_string_equal(header.if_none_match, "\"a\", W/\"b\"");
    assert_int_equal(PASS(&header, &err, {"Accept", "text/html;q=0, */*"}), STATUS_OK);
    assert_false(header.accept_html);
    assert_null(header.if_none_match);
}

static void door_reads_media_types(void **state)
{
    struct header_check header;
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(PASS(&header, &err, {"A", "b"}), STATUS_OK);
    assert_int_equal(header.media, CODEC_FORMAT_JSON);
    assert_false(header.form);
    assert_int_equal(PASS(&header, &err, {"Content-Type", "application/x-www-form-urlencoded"}),
                     STATUS_OK);
    assert_int_equal(header.media, CODEC_FORMAT_JSON);
    assert_true(header.form);
    assert_int_equal(PASS(&header, &err, {"Content-Type", "Application/JSON;charset=utf-8"}),
                     STATUS_OK);
    assert_int_equal(header.media, CODEC_FORMAT_JSON);
    assert_int_equal(PASS(&header, &err, {"Content-Type", "text/plain"}), STATUS_OK);
    assert_int_equal(header.media, HEADER_MEDIA_OTHER);
    assert_false(header.form);
    assert_int_equal(PASS(&header, &err, {"Content-Type", "application/jsonp"}), STATUS_OK);
    assert_int_equal(header.media, HEADER_MEDIA_OTHER);
    assert_int_equal(PASS(&header, &err, {"Content-Type", "application/json, text/plain"}),
                     STATUS_OK);
    assert_int_equal(header.media, HEADER_MEDIA_OTHER);
    assert_int_equal(PASS(&header, &err, {"Content-Type", "application/json; a=\"b,c\""}),
                     STATUS_OK);
    assert_int_equal(header.media, CODEC_FORMAT_JSON);
}

static void door_wants_a_host_from_http_1_1_only(void **state)
{
    struct header_check header;
    struct error err = ERROR_INIT;
    const struct field other[] = {{"A", "b"}};
    (void)state;
    assert_int_equal(pass(&header, false, other, 1, &err), STATUS_OK);
    assert_int_equal(pass(&header, true, other, 1, &err), STATUS_INVALID_REQUEST);
    assert_string_equal(err.field, "Host");
    assert_false(header.unframed);
}

static void door_wants_a_host_that_can_be_one(void **state)
{
    static const char *const hosts[] = {"",       "h",          "h:8000", ":80",
                                        "h:",     "a_b.c-d",    "h \t",   "[::1]",
                                        "%2Frun", "[::1]:8000", "1.2.3",  "[fe80::1%25eth0]"};
    static const char *const others[] = {
        "a b",    "a/b",      "a@b", "a?b",   "a#b",   "a:b", "a:1:2", "[::1", "[]", "[a]b",
        "[::1]8", "\xc3\xa4", "::1", "a:80b", "\"a\"", "<a>", "a\tb",  "[",    "a]"};
    struct header_check header;
    (void)state;
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        struct error err = ERROR_INIT;
        const struct field field = {"Host", hosts[i]};
        if (pass(&header, true, &field, 1, &err) != STATUS_OK) {
            fail_msg("refused: %s: %s", hosts[i], err.detail);
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct error err = ERROR_INIT;
        const struct field field = {"Host", others[i]};
        if (pass(&header, i % 2 == 0, &field, 1, &err) != STATUS_INVALID_REQUEST ||
            strcmp(err.field, "Host") != 0) {
            fail_msg("let pass: %s", others[i]);
        }
    }
}

static void door_drops_blanks_behind_numbers_of_its_own_fields(void **state)
{
    struct header_check header;
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(PASS(&header, &err, {"X-Request-Timeout-Ms", "250 \t"},
                          {"Inference-Header-Content-Length", "12 "}),
                     STATUS_OK);
    assert_int_equal(header.timeout_ms, 250);
    assert_int_equal(header.head_bytes, 12);
    assert_int_equal(PASS(&header, &err, {"X-Request-Timeout-Ms", "2 5"}),
                     STATUS_INVALID_FIELD);
}

static void door_echoes_only_sane_ids(void **state)
{
    char longest[LIMIT_REQUEST_ID + 2];
    (void)state;
    memset(longest, 'a', sizeof longest);
    assert_true(header_check_id_sane("a b", 3));
    assert_true(header_check_id_sane(longest, LIMIT_REQUEST_ID));
    assert_false(header_check_id_sane(longest, LIMIT_REQUEST_ID + 1));
    assert_false(header_check_id_sane("", 0));
    assert_false(header_check_id_sane(" a", 2));
    assert_false(header_check_id_sane("a\n", 2));
    assert_false(header_check_id_sane("a\"b", 3));
    assert_false(header_check_id_sane("\xc3\xa9", 2));
}

static void door_refuses_bad_numbers_in_its_own_fields(void **state)
{
    struct header_check header;
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(PASS(&header, &err, {"X-Request-Timeout-Ms", "0"}), STATUS_INVALID_FIELD);
    assert_string_equal(err.field, "X-Request-Timeout-Ms");
    assert_false(header.unframed);
    err = (struct error)ERROR_INIT;
    assert_int_equal(PASS(&header, &err, {"Inference-Header-Content-Length", "-1"}),
                     STATUS_INVALID_FIELD);
    assert_string_equal(err.field, "Inference-Header-Content-Length");
}

static void a_client_gets_html_if_it_prefers_it_at_least_as_much_as_json(void **state)
{
    static const struct {
        const char *accept;
        bool html;
    } rows[] = {{"text/html, application/json", true},
                {"application/json;q=0.9, text/html", true},
                {"text/html;q=0.5, */*;q=0.5", true},
                {"text/html;q=0.001", true},
                {"text/html;level=1; Q=0.7 , application/json;q=0.7", true},
                {"text/html;q=0.8, application/json", false},
                {"application/json;q=0.55,text/html;q=0.5", false},
                {"text/html;q=0.1, */*", false},
                {"application/*, text/html;q=0.9", false},
                {"text/html;q=0.000", false}};
    struct header_check header;
    struct error err = ERROR_INIT;
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_int_equal(PASS(&header, &err, {"Accept", rows[i].accept}), STATUS_OK);
        if (header.accept_html != rows[i].html) {
            fail_msg("%s: %d", rows[i].accept, header.accept_html);
        }
    }
    assert_int_equal(
        PASS(&header, &err, {"Accept", "text/html;q=0.3"}, {"Accept", "application/json"}),
        STATUS_OK);
    assert_false(header.accept_html);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(door_reads_the_fields_it_knows),
        cmocka_unit_test(door_refuses_doubtful_framing),
        cmocka_unit_test(door_refuses_transfer_encoding_in_http_1_0),
        cmocka_unit_test(door_takes_the_largest_length),
        cmocka_unit_test(door_ignores_expectations_of_http_1_0_and_unknown_ones),
        cmocka_unit_test(door_judges_content_encoding),
        cmocka_unit_test(door_packs_answers_only_for_a_single_coding),
        cmocka_unit_test(door_packs_with_what_is_not_refused),
        cmocka_unit_test(door_collects_accepted_formats),
        cmocka_unit_test(door_knows_browsers),
        cmocka_unit_test(a_client_gets_html_if_it_prefers_it_at_least_as_much_as_json),
        cmocka_unit_test(door_reads_media_types),
        cmocka_unit_test(door_wants_a_host_from_http_1_1_only),
        cmocka_unit_test(door_wants_a_host_that_can_be_one),
        cmocka_unit_test(door_drops_blanks_behind_numbers_of_its_own_fields),
        cmocka_unit_test(door_echoes_only_sane_ids),
        cmocka_unit_test(of_many_fields_of_one_name_the_last_are_kept_in_their_order),
        cmocka_unit_test(door_refuses_more_bytes_than_its_limit),
        cmocka_unit_test(door_refuses_bad_numbers_in_its_own_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
