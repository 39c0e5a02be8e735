/* Guesses about the type of bytes, and the refusals that name it. */
#include "proto/codec.h"
#include "proto/content_guess.h"
#include "tests/lib/unit.h"
#include "tests/unit/codec_run.h"

#include <stdlib.h>
#include <string.h>

#define BYTES(literal) literal, sizeof(literal) - 1

static const struct {
    enum content_kind kind;
    const char *bytes;
    size_t count;
} samples[] = {
    {CONTENT_NPY, BYTES("\x93NUMPY\x01\x00v\x00{'descr'")},
    {CONTENT_ZIP, BYTES("PK\x03\x04\x2d\x00")},
    {CONTENT_ZIP, BYTES("PK\x05\x06\x00\x00")},
    {CONTENT_GZIP, BYTES("\x1f\x8b\x08\x00\x00")},
    {CONTENT_PICKLE, BYTES("\x80\x04\x95\x8f\x00")},
    {CONTENT_PICKLE, BYTES("\x80\x02]q\x00")},
    {CONTENT_PICKLE, BYTES("\x80\x05\x95\x0b\x00")},
    {CONTENT_UTF16BE, BYTES("\xfe\xff\x00[\x00"
                            "1")},
    {CONTENT_UTF16LE, BYTES("\xff\xfe{\x00\"\x00")},
    {CONTENT_UTF16LE, BYTES("\xff\xfe{\x00")},
    {CONTENT_UTF16LE, BYTES("{\x00\"\x00")},
    {CONTENT_UTF16LE, BYTES("\n\x00{\x00 \x00}\x00")},
    {CONTENT_UTF16LE, BYTES("[\x00"
                            "1\x00,\x00")},
    {CONTENT_UTF16BE, BYTES("\x00{\x00\"\x00\xe4")},
    {CONTENT_UTF16BE, BYTES("\x00{\x00\"\x26\x3a")},
    {CONTENT_UTF32LE, BYTES("{\x00\x00\x00\"\x00\x00\x00")},
    {CONTENT_UTF32BE, BYTES("\x00\x00\x00{\x00\x00\x00}")},
    {CONTENT_UTF32LE, BYTES("\xff\xfe\x00\x00{\x00\x00\x00")},
    {CONTENT_UTF32BE, BYTES("\x00\x00\xfe\xff\x00\x00\x00[")},
    {CONTENT_UTF16LE, BYTES("\xff\xfe"
                            "1\x00,\x00"
                            "2\x00")},
    {CONTENT_UTF16LE, BYTES("\xff\xfeh\x00i\x00\x3d\xd8\n\x00")},
    {CONTENT_UTF16BE, BYTES("\xfe\xff\x00"
                            "1\x00\n")},
    {CONTENT_UTF16LE, BYTES("1\x00,\x00"
                            "2\x00\r\x00\n\x00"
                            "3\x00,\x00"
                            "4\x00")},
    {CONTENT_UTF16BE, BYTES("\x00"
                            "1\x00.\x00"
                            "5\x00\n\x00"
                            "2\x00.\x00"
                            "5\x00\n")},
    {CONTENT_UTF16LE, BYTES("a\x00,\x00"
                            "b\x00\n\x00"
                            "1\x00")},
    {CONTENT_UNKNOWN, BYTES("1\x00,\x00"
                            "2\x00")},
    {CONTENT_UNKNOWN, BYTES("a\x00=\x00")},
    {CONTENT_UNKNOWN, BYTES("\xff\xfe"
                            "1\x00\x00\x00"
                            "2\x00")},
    {CONTENT_UNKNOWN, BYTES("{\x00")},
    {CONTENT_UNKNOWN, BYTES("{\x00"
                            "a\x00")},
    {CONTENT_UNKNOWN, BYTES("{\x00\"")},
    {CONTENT_UNKNOWN, BYTES("\xff\xfe")},
    {CONTENT_UNKNOWN, BYTES("\xff\xfe\x01\x00")},
    {CONTENT_UNKNOWN, BYTES("\x00\x00\x00\x00\x00\x00\x00\x00")},
    {CONTENT_MARKED, BYTES("\xef\xbb\xbf{\"data\":[1]}")},
    {CONTENT_JSON, BYTES("{\"data\":[1,2]}")},
    {CONTENT_JSON, BYTES(" {}")},
    {CONTENT_JSON, BYTES("[1,2,3]")},
    {CONTENT_JSON, BYTES("[[1.5, 2],\n [3, 4]]")},
    {CONTENT_JSON, BYTES("[1]")},
    {CONTENT_JSON, BYTES("[]")},
    {CONTENT_PYTHON, BYTES("{'data': [1, 2]}")},
    {CONTENT_ARRAY_TEXT, BYTES("[1 2 3]")},
    {CONTENT_ARRAY_TEXT, BYTES("[[1. 2.]\n [3. 4.]]")},
    {CONTENT_ARRAY_TEXT, BYTES("[[ 1. -2.]]")},
    {CONTENT_ARRAY_TEXT, BYTES("[1. , 2. ]")},
    {CONTENT_ARRAY_TEXT, BYTES("array([1, 2])")},
    {CONTENT_ARRAY_TEXT, BYTES("tensor([1., 2.])")},
    {CONTENT_CSV, BYTES("1,2,3\n4,5,6\n")},
    {CONTENT_CSV, BYTES("1.5;2\r\n")},
    {CONTENT_CSV, BYTES("1.0 2.0e3\n-3 4\n")},
    {CONTENT_CSV, BYTES("time,value\n1,2\n")},
    {CONTENT_FORM, BYTES("data=1&data=2&axis=0")},
    {CONTENT_UNKNOWN, BYTES("")},
    {CONTENT_UNKNOWN, BYTES("  \n")},
    {CONTENT_UNKNOWN, BYTES("5")},
    {CONTENT_UNKNOWN, BYTES("{data:1}")},
    {CONTENT_UNKNOWN, BYTES("\x00\x00\x80\x3f\x00\x00\x00\x40")},
    {CONTENT_UNKNOWN, BYTES("hello")},
    {CONTENT_UNKNOWN, BYTES("PK")},
    {CONTENT_UNKNOWN, BYTES("[[[")},
    {CONTENT_UNKNOWN, BYTES("[123")},
    {CONTENT_UNKNOWN, BYTES("Hello, world\n")},
    {CONTENT_UNKNOWN, BYTES("data: [1,\n2]")},
    {CONTENT_UNKNOWN, BYTES("1,2\x00\x80\x3f")},
};

static void the_kind_of_content_is_guessed_from_its_first_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        char *copy = malloc(samples[i].count + 1); /* a read beyond the end is detected */
        assert_non_null(copy);
        memcpy(copy, samples[i].bytes, samples[i].count);
        enum content_kind kind = content_guess(copy, samples[i].count);
        if (kind != samples[i].kind) {
            fail_msg("%.*s is taken for %s, expected %s", (int)samples[i].count,
                     samples[i].bytes, content_name(kind), content_name(samples[i].kind));
        }
        free(copy);
    }
}

/* Check the refusal of a whole body by a codec of /v1/cumsum. */
static void refuses(enum codec_format format, const char *query, const char *bytes,
                    size_t count, const char *const *says)
{
    struct run run;
    run_request(codec_cumsum(format), query, CODEC_FORMAT_JSON,
                (struct byte_view){bytes, count}, &run);
    assert_int_not_equal(run.status, STATUS_OK);
    for (; *says != NULL; says++) {
        if (strstr(run.err.detail, *says) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", run.err.detail, *says);
        }
    }
    run_deinit(&run);
}

#define SAYS(...)         \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

static void a_wrong_body_sent_as_json_is_named_with_advice(void **state)
{
    (void)state;
    const enum codec_format json = CODEC_FORMAT_JSON;
    refuses(json, "", BYTES("\x93NUMPY\x01\x00v\x00{'descr'"),
            SAYS("not valid JSON: it looks like an NPY file", "Content-Type: application/x-npy",
                 "--data-binary"));
    refuses(json, "", BYTES("PK\x03\x04\x14\x00"), SAYS("ZIP archive", "numpy.save"));
    refuses(json, "", BYTES("\x1f\x8b\x08\x00"), SAYS("gzip", "Content-Encoding: gzip"));
    refuses(json, "", BYTES("\x80\x04\x95\x00"), SAYS("pickle", "numpy.save"));
    refuses(json, "", BYTES("1,2\n3,4\n"), SAYS("CSV", "{\"data\": [[1,2],[3,4]]}"));
    refuses(json, "", BYTES("[[1 2]\n [3 4]]"), SAYS("a printed array", "x.tolist()"));
    refuses(json, "", BYTES("{'data': [1, 2]}"), SAYS("Python dictionary", "json.dumps()"));
    refuses(json, "", BYTES("data=1&data=2"),
            SAYS("fields of a form", "json= instead of data="));
    refuses(json, "", BYTES("\xff\xfe{\x00"), SAYS("UTF-16LE", "UTF-8, without a byte order"));
    refuses(json, "", BYTES("{\x00\"\x00"), SAYS("UTF-16LE", "UTF-8"));
    refuses(json, "", BYTES("\x00{\x00}"), SAYS("UTF-16BE", "UTF-8"));
    refuses(json, "", BYTES("{\x00\x00\x00}\x00\x00\x00"), SAYS("UTF-32LE", "UTF-8"));
    refuses(json, "", BYTES("\x00\x00\x00\t\x00\x00\x00{\x00\x00\x00}"), SAYS("UTF-32BE"));
    refuses(json, "",
            BYTES("\xff\xfe"
                  "1\x00,\x00"
                  "2\x00\n\x00"),
            SAYS("text in UTF-16LE", "UTF-8, without a byte order"));
    refuses(json, "",
            BYTES("\x00"
                  "1\x00,\x00"
                  "2\x00\n\x00"
                  "3\x00,\x00"
                  "4\x00\n"),
            SAYS("text in UTF-16BE", "UTF-8"));
    refuses(json, "", BYTES("{\x00 1}"), SAYS("holds a NUL byte"));
    refuses(json, "", BYTES("\xef\xbb\xbf{}"), SAYS("byte order mark"));
    refuses(json, "", BYTES(" [1,2]"), SAYS("an array, not an object", "{\"data\": [...]}"));
    refuses(json, "", BYTES("hello world"), SAYS("begins with 'hello world', expected '{'"));
    refuses(json, "", BYTES("\x00\x00\x80\x3f"), SAYS("begins with '..", "expected '{'"));
}

/* A file of any length is named. It must not be searched for "data", or the error would be that
 * the text outside of "data" is too long. */
static void a_long_file_sent_as_json_is_named_too(void **state)
{
    (void)state;
    const size_t count = LIMIT_JSON_SKELETON * 2;
    char *file = calloc(1, count);
    assert_non_null(file);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    refuses(CODEC_FORMAT_JSON, "", file, count, SAYS("looks like an NPY file"));
    free(file);
}

/* In UTF-16 the member "data" is not recognized. So without the guess the error would be that
 * the text outside of "data" is too long. */
static void a_long_json_of_two_bytes_a_character_is_named_too(void **state)
{
    static const char start[] = "{\"data\":[1";
    const size_t count = LIMIT_JSON_SKELETON * 2;
    char *text = malloc(2 * count);
    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < count; i++) {
        text[2 * i] = i < sizeof start - 1 ? start[i] : ' ';
        text[2 * i + 1] = 0;
    }
    refuses(CODEC_FORMAT_JSON, "", text, 2 * count, SAYS("UTF-16LE", "UTF-8"));
    free(text);
}

static void a_wrong_body_sent_as_npy_is_named_with_advice(void **state)
{
    (void)state;
    const enum codec_format npy = CODEC_FORMAT_NPY;
    refuses(npy, "", BYTES("{\"data\":[1,2]}"),
            SAYS("no NPY file", "looks like JSON", "Content-Type: application/json"));
    refuses(npy, "", BYTES("{}"), SAYS("no NPY file", "looks like JSON"));
    refuses(npy, "", BYTES("PK\x03\x04\x14\x00\x00\x00\x00\x00\x00\x00"),
            SAYS("no NPY file", "looks like a ZIP archive", "numpy.save"));
    refuses(npy, "", BYTES("PK\x03\x04"), SAYS("no NPY file", "looks like a ZIP archive"));
    refuses(npy, "", BYTES("\x93NUM"), SAYS("ends inside its header: 4 bytes of at least 10"));
    refuses(npy, "", "", 0, SAYS("body is empty"));
    /* Files stripped by curl -d: version 7.88 cuts each line at a NUL; the last file lost only
     * NULs. */
    refuses(npy, "", BYTES("\x93NUMPY\x01"), SAYS("no NUL", "curl -d", "--data-binary @FILE"));
    refuses(npy, "", BYTES("\x93NUMPY\x01\xd4\xfa"), SAYS("curl -d", "--data-binary @FILE"));
    refuses(npy, "", BYTES("\x93NUMPY\x01v{'descr': '<f8', 'fortran_order': False, "),
            SAYS("curl -d", "--data-binary @FILE", "application/x-npy"));
    refuses(npy, "", BYTES("\x93NUMPY\x01\x00v\x00{'descr'"), SAYS("ends inside its header"));
    refuses(npy, "", BYTES("\x93NUMPY\x09\x01v\x00{'descr'"), SAYS("NPY format version 9.1"));
    refuses(npy, "", BYTES("hello world"), SAYS("does not begin with \\x93NUMPY"));
}

/* The complete sentence of each refusal fits in struct error. */
static void a_form_that_is_no_json_is_told_to_use_data_binary(void **state)
{
    static const struct {
        const char *bytes;
        size_t count;
        bool told;
    } bodies[] = {
        {BYTES("123"), true},
        {BYTES("1 2 34 5 6"), true},
        {BYTES("1,2\n3,4\n"), true},
        {BYTES("array([1, 2])"), true},
        {BYTES("PK\x03\x04\x14\x00"), true},
        {BYTES("\x80\x04\x95\x00"), true},
        {BYTES("\x1f\x8b\x08\x00"), true},
        {BYTES("\xef\xbb\xbf{}"), true},
        {BYTES("\xff\xfe{\x00"), true},
        {BYTES("\x00\x00\x80\x3f"), true},
        {BYTES("{\"data\":[1"), false},
        {BYTES("{data:[1]}"), false},
        {BYTES(" [1,2]"), false},
        {BYTES("data=1&data=2"), false},
        {BYTES(""), false},
        {BYTES("  \n"), false},
    };
    static const char end[] = "application/x-npy or application/json";
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        for (int form = 0; form < 2; form++) {
            struct run run;
            run_asked(codec_cumsum(CODEC_FORMAT_JSON), "", (struct run_ask){.form = form != 0},
                      (struct byte_view){bodies[i].bytes, bodies[i].count}, &run);
            assert_int_equal(run.status, STATUS_INVALID_JSON);
            const char *advice = strstr(run.err.detail, "--data-binary @FILE, with -H");
            assert_int_equal(advice != NULL, form != 0 && bodies[i].told);
            const size_t length = strlen(run.err.detail);
            assert_true(length >= sizeof end);
            if (advice != NULL) {
                assert_string_equal(run.err.detail + length - (sizeof end - 1), end);
            }
            run_deinit(&run);
        }
    }
}

static void raw_bytes_of_another_length_are_named_if_they_look_like_something(void **state)
{
    (void)state;
    const enum codec_format raw = CODEC_FORMAT_RAW;
    static const char query[] = "dtype=float32&shape=4";
    refuses(raw, query, BYTES("{\"data\":[1,2]}"),
            SAYS("holds 14 bytes of data, expected 16", "look like JSON",
                 "Content-Type: application/json"));
    refuses(raw, query, BYTES("\x93NUMPY\x01\x00v\x00{'descr': '<f4'"),
            SAYS("look like an NPY file", "application/x-npy"));
    refuses(raw, query, BYTES("{}"), SAYS("look like JSON"));
    refuses(raw, query, BYTES("1.5,2.5,3.5\n"), SAYS("look like CSV"));
    refuses(raw, query, BYTES("\x80?\x80@"), SAYS("holds 4 bytes", "curl -d", "--data-binary"));
    refuses(raw, query, "", 0, SAYS("holds 0 bytes", "curl -d", "--data-binary"));
}

static void only_bytes_that_curl_may_have_stripped_are_called_that(void **state)
{
    static const struct {
        const char *bytes;
        size_t count;
    } others[] = {{BYTES("\0\0\x80?")}, {BYTES("\x80?\n@")}, {BYTES("0123456789ABCDEFx")}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        struct run run;
        run_request(codec_cumsum(CODEC_FORMAT_RAW), "dtype=float32&shape=4", CODEC_FORMAT_JSON,
                    (struct byte_view){others[i].bytes, others[i].count}, &run);
        assert_int_equal(run.status, STATUS_LENGTH_MISMATCH);
        assert_null(strstr(run.err.detail, "curl"));
        run_deinit(&run);
    }
}

/* A large body is refused by its length, before any byte arrives. */
static void a_large_body_that_is_longer_by_a_header_may_be_an_npy_file(void **state)
{
    (void)state;
    struct codec_request request = {
        .body_bytes = (4 << 20) + 128, .head_bytes = -1, .param_count = 2};
    request.params[0] = (struct codec_param){"dtype", "float32"};
    request.params[1] = (struct codec_param){"shape", "1048576"};
    struct error err = ERROR_INIT;
    struct scan_call call;
    uint64_t need = 77;
    const struct codec *codec = codec_cumsum(CODEC_FORMAT_RAW);
    const struct byte_view none = {"", 0};
    assert_int_equal(codec->head_need(&request, none, &need, &err), STATUS_OK);
    assert_int_equal(need, 0);
    assert_int_equal(codec_decode(codec, &request, none, &call, &err), STATUS_LENGTH_MISMATCH);
    assert_non_null(strstr(err.detail, "128 bytes more, as the header of an NPY file takes"));
}

static void raw_bytes_of_the_right_length_are_never_looked_at(void **state)
{
    (void)state;
    struct run run;
    run_request(codec_cumsum(CODEC_FORMAT_RAW), "dtype=uint8&shape=14", CODEC_FORMAT_RAW,
                (struct byte_view){BYTES("{\"data\":[1,2]}")}, &run);
    assert_int_equal(run.status, STATUS_OK);
    run_deinit(&run);
}

static void raw_bytes_of_an_unknown_length_are_named_at_their_end(void **state)
{
    (void)state;
    struct codec_request request = {.body_bytes = -1, .head_bytes = -1, .param_count = 2};
    request.params[0] = (struct codec_param){"dtype", "float32"};
    request.params[1] = (struct codec_param){"shape", "4"};
    struct error err = ERROR_INIT;
    struct scan_call call;
    uint64_t need = 77;
    const struct codec *codec = codec_cumsum(CODEC_FORMAT_RAW);
    const struct byte_view none = {"", 0};
    char input[16] __attribute__((aligned(64))) = "{\"data\":[1,2]}";
    assert_int_equal(codec->head_need(&request, none, &need, &err), STATUS_OK);
    assert_int_equal(need, 0);
    assert_int_equal(codec_decode(codec, &request, none, &call, &err), STATUS_OK);
    assert_int_equal(codec->complete(&call, input, 14, &err), STATUS_LENGTH_MISMATCH);
    assert_non_null(strstr(err.detail, "look like JSON"));
    codec_release(&call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kind_of_content_is_guessed_from_its_first_bytes),
        cmocka_unit_test(a_wrong_body_sent_as_json_is_named_with_advice),
        cmocka_unit_test(a_long_file_sent_as_json_is_named_too),
        cmocka_unit_test(a_long_json_of_two_bytes_a_character_is_named_too),
        cmocka_unit_test(a_wrong_body_sent_as_npy_is_named_with_advice),
        cmocka_unit_test(a_form_that_is_no_json_is_told_to_use_data_binary),
        cmocka_unit_test(raw_bytes_of_another_length_are_named_if_they_look_like_something),
        cmocka_unit_test(only_bytes_that_curl_may_have_stripped_are_called_that),
        cmocka_unit_test(a_large_body_that_is_longer_by_a_header_may_be_an_npy_file),
        cmocka_unit_test(raw_bytes_of_the_right_length_are_never_looked_at),
        cmocka_unit_test(raw_bytes_of_an_unknown_length_are_named_at_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
