/* The raw format of /v1/cumsum. */
#include "tests/lib/unit.h"
#include "tests/unit/codec_run.h"

static void post(const char *query, const void *body, size_t bytes, struct run *run)
{
    run_request(codec_cumsum(CODEC_FORMAT_RAW), query, CODEC_FORMAT_RAW,
                (struct byte_view){body, bytes}, run);
}

static void every_type_answers_its_own_bytes_and_headers(void **state)
{
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        const struct dtype_info *info = dtype_info((enum dtype)i);
        char query[128];
        char body[6 * 8];
        char expected[6 * 8];
        struct run run;
        memset(body, 0, sizeof body); /* zero bytes are zero in every type */
        (void)snprintf(query, sizeof query, "dtype=%s&shape=1,2,3&axis=-1", info->name);
        memcpy(expected, body, sizeof body);
        post(query, body, 6 * info->bytes, &run);
        assert_int_equal(run.status, STATUS_OK);
        assert_int_equal(run.bytes, 6 * info->bytes);
        assert_memory_equal(run.body, expected, run.bytes);
        assert_int_equal(run.answer.header_count, 2);
        assert_string_equal(run.answer.headers[0].name, "Tally-Dtype");
        assert_string_equal(run.answer.headers[0].value, info->name);
        assert_string_equal(run.answer.headers[1].name, "Tally-Shape");
        assert_string_equal(run.answer.headers[1].value, "1,2,3");
        assert_string_equal(run.answer.content_type, "application/octet-stream");
        run_deinit(&run);
    }
}

static void the_largest_shape_fits_its_header(void **state)
{
    (void)state;
    char query[RUN_QUERY_MAX] = "dtype=int8&shape=0";
    for (int i = 1; i < LIMIT_RANK; i++) {
        strcat(query, i % 3 == 0 ? ",1000000" : ",1");
    }
    struct run run;
    post(query, "", 0, &run);
    assert_int_equal(run.status, STATUS_OK);
    assert_int_equal(run.bytes, 0);
    assert_string_equal(run.answer.headers[1].value, strstr(query, "0"));
    run_deinit(&run);

    struct scan_call call = {.desc = {.dtype = DTYPE_I8, .rank = LIMIT_RANK},
                             .answer_format = CODEC_FORMAT_RAW};
    struct answer answer = {.head = NULL};
    struct error err = ERROR_INIT;
    for (int i = 1; i < LIMIT_RANK; i++) {
        call.desc.sizes[i] = INT64_MAX;
    }
    const struct codec *codec = codec_cumsum(CODEC_FORMAT_RAW);
    assert_int_equal(codec->encode(&call, "", 0, &answer, &err), STATUS_OK);
    assert_int_equal(strlen(answer.headers[1].value), 1 + (LIMIT_RANK - 1) * 20);
    answer.headers[1] = (struct answer_header){.name = NULL};
    call.answer_format = CODEC_FORMAT_NPY;
    assert_int_equal(codec->encode(&call, "", 0, &answer, &err), STATUS_OK);
    assert_int_equal(answer.head_bytes % 64, 0);
    assert_int_equal(answer.head[answer.head_bytes - 1], '\n');
    answer_deinit(&answer);
}

static const struct {
    const char *query;
    size_t bytes;
    enum status status;
    const char *field;
    const char *says;
} refused[] = {
    {"", 8, STATUS_MISSING_FIELD, "dtype", "dtype is missing"},
    {"shape=2", 8, STATUS_MISSING_FIELD, "dtype", "such as ?dtype=float32"},
    {"dtype=float32", 8, STATUS_MISSING_FIELD, "shape", "shape is missing"},
    {"dtype=float32&shape=2&shape=2", 8, STATUS_INVALID_FIELD, "shape", "twice"},
    {"dtype=float32&shape=2&axes=0", 8, STATUS_UNKNOWN_FIELD, "axes",
     "dtype, shape, axis, exclusive, reverse, strides, output_strides"},
    {"dtype=float32&shape=2&precision=wide", 8, STATUS_UNKNOWN_FIELD, "precision",
     "there is no query parameter 'precision' here; known are: dtype"},
    {"dtype=flt32&shape=2", 8, STATUS_INVALID_DTYPE, "dtype", "'flt32'"},
    {"dtype=float32&shape=2x", 8, STATUS_INVALID_FIELD, "shape", "2x"},
    {"dtype=float32&shape=", 8, STATUS_INVALID_SHAPE, "shape", ""},
    {"dtype=float32&shape=-2", 8, STATUS_INVALID_SHAPE, "shape", ""},
    {"dtype=float32&shape=2&axis=1", 8, STATUS_INVALID_AXIS, "axis", ""},
    {"dtype=float32&shape=2&axis=0.5", 8, STATUS_INVALID_FIELD, "axis", "0.5"},
    {"dtype=float32&shape=2&reverse=", 8, STATUS_INVALID_FIELD, "reverse",
     "expected true or false (in any case), 1 or 0"},
    {"dtype=float32&shape=2&exclusive=yes", 8, STATUS_INVALID_FIELD, "exclusive",
     "exclusive is 'yes', expected true or false"},
    {"dtype=float32&shape=2&axis=1e400", 8, STATUS_INVALID_FIELD, "axis", "axis is '1e400'"},
    {"dtype=float32&shape=3.0", 12, STATUS_INVALID_FIELD, "shape", "shape[0] is '3.0'"},
    {"dtype=float32&shape=2", 7, STATUS_LENGTH_MISMATCH, "",
     "holds 7 bytes of data, expected 8: 2 elements (shape 2) of 4 bytes (float32)"},
    {"dtype=float32&shape=2", 9, STATUS_LENGTH_MISMATCH, "", "holds 9 bytes"},
    {"dtype=float32&shape=2", 0, STATUS_LENGTH_MISMATCH, "", "holds 0 bytes"},
    {"dtype=float32&shape=0", 4, STATUS_LENGTH_MISMATCH, "", "expected 0"},
    {"dtype=float32&shape=2,2&strides=4,1", 16, STATUS_LENGTH_MISMATCH, "",
     "6 elements (shape 2,2, reached by its strides)"},
    {"dtype=float32&shape=2,2&strides=4", 16, STATUS_INVALID_STRIDES, "strides",
     "has 1 entry, expected 2"},
    {"dtype=float32&shape=2,2&strides=-4,1", 16, STATUS_INVALID_STRIDES, "strides", ""},
    {"dtype=float32&shape=2,2&output_strides=1,1", 16, STATUS_INVALID_STRIDES, "output_strides",
     ""},
    {"dtype=float64&shape=4611686018427387904,4", 8, STATUS_INVALID_SHAPE, "shape", ""},
    {"dtype=int8&shape=9223372036854775808", 8, STATUS_INVALID_FIELD, "shape", ""},
    {"dtype=int8&shape=3037000500,3037000500", 8, STATUS_INVALID_SHAPE, "shape", ""},
    {"dtype=int8&shape=3,2&strides=9223372036854775807,1", 8, STATUS_INVALID_STRIDES, "strides",
     ""},
};

static void malformed_requests_are_refused_and_the_parameter_is_named(void **state)
{
    (void)state;
    char body[64] = {0};
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++) {
        struct run run;
        post(refused[i].query, body, refused[i].bytes, &run);
        if (run.status != refused[i].status || strcmp(run.err.field, refused[i].field) != 0 ||
            strstr(run.err.detail, refused[i].says) == NULL) {
            fail_msg("%s: %s, field '%s': %s", refused[i].query, status_slug(run.status),
                     run.err.field, run.err.detail);
        }
        run_deinit(&run);
    }
}

static void a_body_of_unknown_length_is_judged_when_it_is_complete(void **state)
{
    (void)state;
    const struct codec *codec = codec_cumsum(CODEC_FORMAT_RAW);
    struct codec_request request = {.body_bytes = -1, .head_bytes = -1};
    request.params[request.param_count++] = (struct codec_param){"dtype", "float32"};
    request.params[request.param_count++] = (struct codec_param){"shape", "2"};
    struct error err = ERROR_INIT;
    struct scan_call call;
    float input[2] = {1, 2};
    assert_int_equal(codec_decode(codec, &request, (struct byte_view){NULL, 0}, &call, &err),
                     STATUS_OK);
    assert_int_equal(call.payload_max, 8);
    assert_int_equal(codec->complete(&call, input, 8, &err), STATUS_OK);
    assert_int_equal(codec->complete(&call, input, 4, &err), STATUS_LENGTH_MISMATCH);
    err = (struct error)ERROR_INIT;
    assert_int_equal(codec->complete(&call, input, UINT64_MAX, &err), STATUS_LENGTH_MISMATCH);
    codec_release(&call);
}

static void json_answers_to_raw_requests_are_flat(void **state)
{
    (void)state;
    const uint16_t body[] = {0x3F80, 0x4000, 0x4040, 0x4080}; /* bfloat16 1 2 3 4 */
    struct run run;
    run_request(codec_cumsum(CODEC_FORMAT_RAW), "dtype=bfloat16&shape=2,2&axis=1",
                CODEC_FORMAT_JSON, (struct byte_view){body, sizeof body}, &run);
    assert_int_equal(run.status, STATUS_OK);
    assert_string_equal(run.body,
                        "{\"dtype\":\"bfloat16\",\"shape\":[2,2],\"data\":[1.0,3.0,3.0,7.0]}");
    run_deinit(&run);
    run_request(codec_cumsum(CODEC_FORMAT_RAW), "dtype=bfloat16&shape=2,2&axis=1",
                CODEC_FORMAT_NPY, (struct byte_view){body, sizeof body}, &run);
    assert_int_equal(run.status, STATUS_INVALID_DTYPE);
    assert_non_null(strstr(run.err.detail, "application/octet-stream or application/json"));
}

static void offsets_in_front_make_segments(void **state)
{
    (void)state;
    const int64_t offsets[] = {0, 2, 2, 5};
    const struct run_ask ask = {.answer_format = CODEC_FORMAT_JSON,
                                .offsets_bytes = sizeof offsets};
    unsigned char body[sizeof offsets + 5];
    struct run run;
    memcpy(body, offsets, sizeof offsets);
    memcpy(body + sizeof offsets, "\1\2\3\4\5", 5);
    run_asked(codec_cumsum(CODEC_FORMAT_RAW), "dtype=int8&shape=5&include_initial=1", ask,
              (struct byte_view){body, sizeof body}, &run);
    assert_int_equal(run.status, STATUS_OK);
    assert_string_equal(run.body,
                        "{\"dtype\":\"int8\",\"shape\":[8],\"data\":[0,1,3,0,0,3,7,12]}");
    run_deinit(&run);
    body[0] = 1;
    run_asked(codec_cumsum(CODEC_FORMAT_RAW), "dtype=int8&shape=5", ask,
              (struct byte_view){body, sizeof body}, &run);
    assert_int_equal(run.status, STATUS_INVALID_FIELD);
    assert_string_equal(run.err.field, "offsets");
    run_deinit(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_answers_its_own_bytes_and_headers),
        cmocka_unit_test(the_largest_shape_fits_its_header),
        cmocka_unit_test(malformed_requests_are_refused_and_the_parameter_is_named),
        cmocka_unit_test(a_body_of_unknown_length_is_judged_when_it_is_complete),
        cmocka_unit_test(json_answers_to_raw_requests_are_flat),
        cmocka_unit_test(offsets_in_front_make_segments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
