/* The OpenVINO API: one test per statement of the CumSum-3 page, in the order of the page
 * (docs/dialects.md has the table), then the framing of binary requests. */
#include "tests/unit/dialect_run.h"

#include <stdio.h>
#include <string.h>

#define DATA_INPUT "{\"precision\":\"FP32\",\"shape\":[5],\"data\":[1,2,3,4,5]}"

static char request[4096];

/* Attributes and the second input as JSON text; NULL leaves them out. */
static const char *request_of(const char *attributes, const char *data, const char *axis)
{
    snprintf(request, sizeof request, "{%s%s%s\"inputs\":[%s%s%s]}",
             attributes != NULL ? "\"attributes\":" : "", attributes != NULL ? attributes : "",
             attributes != NULL ? "," : "", data, axis != NULL ? "," : "",
             axis != NULL ? axis : "");
    return request;
}

static void gives(const char *json, const char *want)
{
    if (probe_json(&probe, &codec_openvino, json) != STATUS_OK) {
        fail_msg("%s (%s)", probe.error.detail, probe.error.field);
    }
    assert_string_equal(probe.text, want);
    assert_string_equal(probe.content_type, "application/json");
}

static void refused(const char *json, enum status status, const char *field)
{
    if (probe_json(&probe, &codec_openvino, json) == STATUS_OK) {
        fail_msg("accepted: %s", probe.text);
    }
    assert_string_equal(probe.error.field, field);
    assert_int_equal(probe.status, status);
}

#define OUTPUT(data) "{\"outputs\":[{\"precision\":\"FP32\",\"shape\":[5],\"data\":" data "}]}"
#define AXIS_0       "{\"precision\":\"I64\",\"shape\":[],\"data\":0}"

/* ---- examples ---- */

static void example_1_inclusive(void **state)
{
    (void)state;
    gives(request_of("{\"exclusive\":\"0\",\"reverse\":\"0\"}", DATA_INPUT, AXIS_0),
          OUTPUT("[1.0,3.0,6.0,10.0,15.0]"));
}

static void example_2_exclusive(void **state)
{
    (void)state;
    gives(request_of("{\"exclusive\":\"1\",\"reverse\":\"0\"}", DATA_INPUT, AXIS_0),
          OUTPUT("[0.0,1.0,3.0,6.0,10.0]"));
}

static void example_3_reverse(void **state)
{
    (void)state;
    gives(request_of("{\"exclusive\":\"0\",\"reverse\":\"1\"}", DATA_INPUT, AXIS_0),
          OUTPUT("[15.0,14.0,12.0,9.0,5.0]"));
}

static void example_4_exclusive_and_reverse(void **state)
{
    (void)state;
    gives(request_of("{\"exclusive\":\"1\",\"reverse\":\"1\"}", DATA_INPUT, AXIS_0),
          OUTPUT("[14.0,12.0,9.0,5.0,0.0]"));
}

/* The probe compares the answer with head_max(); here, most of the answer is numbers. */
static void a_long_answer_has_the_room_that_is_foretold(void **state)
{
    (void)state;
    char data[2048] = "{\"precision\":\"FP32\",\"shape\":[100],\"data\":[";
    for (int i = 0; i < 100; i++) {
        strcat(data, i < 99 ? "-1.2345678e-10," : "1]}");
    }
    assert_int_equal(probe_json(&probe, &codec_openvino, request_of(NULL, data, AXIS_0)),
                     STATUS_OK);
}

/* ---- detailed description ---- */

static void the_first_element_is_copied_as_it_is(void **state)
{
    (void)state;
    gives(request_of(NULL, "{\"precision\":\"FP32\",\"shape\":[2],\"data\":[-0.0,-0.0]}", NULL),
          "{\"outputs\":[{\"precision\":\"FP32\",\"shape\":[2],\"data\":[-0.0,-0.0]}]}");
}

static void the_first_element_of_an_exclusive_sum_is_0(void **state)
{
    (void)state;
    gives(request_of("{\"exclusive\":true}",
                     "{\"precision\":\"FP32\",\"shape\":[1],\"data\":[-0.0]}", NULL),
          "{\"outputs\":[{\"precision\":\"FP32\",\"shape\":[1],\"data\":[0.0]}]}");
}

/* ---- attributes ---- */

static void attributes_are_optional_and_false_by_default(void **state)
{
    (void)state;
    gives(request_of(NULL, DATA_INPUT, NULL), OUTPUT("[1.0,3.0,6.0,10.0,15.0]"));
    gives(request_of("{}", DATA_INPUT, NULL), OUTPUT("[1.0,3.0,6.0,10.0,15.0]"));
}

static void attribute_values(const char *name, bool (*of)(void))
{
    static const struct {
        const char *text;
        bool value;
    } good[] = {{"true", true},   {"1", true},  {"\"true\"", true},   {"\"1\"", true},
                {"false", false}, {"0", false}, {"\"false\"", false}, {"\"0\"", false}};
    static const char *const bad[] = {"2",    "-1",   "1.0", "\"yes\"", "\"True\"",
                                      "\"\"", "null", "[]",  "{}",      "\"TRUE\""};
    char attributes[64];
    char field[64];
    snprintf(field, sizeof field, "attributes.%s", name);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(attributes, sizeof attributes, "{\"%s\":%s}", name, good[i].text);
        assert_int_equal(
            probe_json(&probe, &codec_openvino, request_of(attributes, DATA_INPUT, NULL)),
            STATUS_OK);
        assert_int_equal(of(), good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(attributes, sizeof attributes, "{\"%s\":%s}", name, bad[i]);
        refused(request_of(attributes, DATA_INPUT, NULL), STATUS_INVALID_FIELD, field);
    }
}

static bool exclusive_of(void)
{
    return probe.call.desc.exclusive;
}

static bool reverse_of(void)
{
    return probe.call.desc.reverse;
}

static void exclusive_is_true_or_false_or_1_or_0_or_their_strings(void **state)
{
    (void)state;
    attribute_values("exclusive", exclusive_of);
}

static void reverse_is_true_or_false_or_1_or_0_or_their_strings(void **state)
{
    (void)state;
    attribute_values("reverse", reverse_of);
}

static void unknown_attributes_and_members_are_refused(void **state)
{
    (void)state;
    refused(request_of("{\"inverse\":true}", DATA_INPUT, NULL), STATUS_UNKNOWN_FIELD,
            "attributes.inverse");
    refused(request_of(NULL, "{\"precision\":\"FP32\",\"shape\":[1],\"data\":[1],\"dims\":[1]}",
                       NULL),
            STATUS_UNKNOWN_FIELD, "inputs[0].dims");
    refused("{\"inputs\":[],\"axis\":0}", STATUS_UNKNOWN_FIELD, "axis");
    refused("{\"inputs\":[" DATA_INPUT "],\"precision\":\"FP32\"}", STATUS_UNKNOWN_FIELD,
            "precision");
    refused(request_of("{\"precision\":\"FP32\"}", DATA_INPUT, NULL), STATUS_UNKNOWN_FIELD,
            "attributes.precision");
    assert_non_null(strstr(probe.error.detail, "inputs[0].precision"));
}

/* ---- inputs ---- */

static void input_1_is_required(void **state)
{
    (void)state;
    refused("{}", STATUS_MISSING_FIELD, "inputs");
    refused("{\"inputs\":[]}", STATUS_INVALID_FIELD, "inputs");
    refused(request_of(NULL, DATA_INPUT "," AXIS_0, AXIS_0), STATUS_INVALID_FIELD, "inputs");
}

static void input_1_has_rank_1_or_more(void **state)
{
    (void)state;
    refused(request_of(NULL, "{\"precision\":\"FP32\",\"shape\":[],\"data\":[1]}", NULL),
            STATUS_INVALID_SHAPE, "inputs[0].shape");
}

static void input_1_names_its_precision_and_shape(void **state)
{
    (void)state;
    refused(request_of(NULL, "{\"shape\":[1],\"data\":[1]}", NULL), STATUS_MISSING_FIELD,
            "inputs[0].precision");
    refused(request_of(NULL, "{\"precision\":\"FP32\",\"data\":[1]}", NULL),
            STATUS_MISSING_FIELD, "inputs[0].shape");
    refused(request_of(NULL, "{\"precision\":\"FP32\",\"shape\":[1]}", NULL),
            STATUS_MISSING_FIELD, "inputs[0]");
    refused(request_of(NULL, "{\"precision\":\"FP32\",\"shape\":[-1],\"data\":[1]}", NULL),
            STATUS_INVALID_SHAPE, "inputs[0].shape[0]");
}

static void input_1_is_flat_and_fits_its_shape(void **state)
{
    (void)state;
    refused(request_of(NULL, "{\"precision\":\"FP32\",\"shape\":[2],\"data\":[1]}", NULL),
            STATUS_LENGTH_MISMATCH, "inputs[0].data");
    refused(request_of(NULL, "{\"precision\":\"FP32\",\"shape\":[1,2],\"data\":[[1,2]]}", NULL),
            STATUS_INVALID_DATA, "inputs[0].data");
    refused(request_of(NULL, "{\"precision\":\"FP32\",\"shape\":[1],\"data\":1}", NULL),
            STATUS_INVALID_FIELD, "inputs[0].data");
    refused(request_of(NULL, "{\"precision\":\"I8\",\"shape\":[1],\"data\":[128]}", NULL),
            STATUS_INVALID_DATA, "inputs[0].data[0]");
}

static void a_dimension_of_0_gives_an_empty_answer(void **state)
{
    (void)state;
    gives(request_of(NULL, "{\"precision\":\"FP32\",\"shape\":[2,0],\"data\":[]}", NULL),
          "{\"outputs\":[{\"precision\":\"FP32\",\"shape\":[2,0],\"data\":[]}]}");
    refused(request_of(NULL, "{\"precision\":\"FP32\",\"shape\":[2,0],\"data\":[]}",
                       "{\"precision\":\"I64\",\"shape\":[],\"data\":2}"),
            STATUS_INVALID_AXIS, "inputs[1].data");
}

#define MATRIX "{\"precision\":\"FP32\",\"shape\":[2,2],\"data\":[1,2,3,4]}"
#define MATRIX_OUTPUT(data) \
    "{\"outputs\":[{\"precision\":\"FP32\",\"shape\":[2,2],\"data\":" data "}]}"

static void the_axis_is_0_by_default(void **state)
{
    (void)state;
    gives(request_of(NULL, MATRIX, NULL), MATRIX_OUTPUT("[1.0,2.0,4.0,6.0]"));
    gives(request_of(NULL, MATRIX, "null"), MATRIX_OUTPUT("[1.0,2.0,4.0,6.0]"));
}

static void a_negative_axis_counts_from_the_back(void **state)
{
    (void)state;
    gives(request_of(NULL, MATRIX, "{\"precision\":\"I64\",\"shape\":[],\"data\":-1}"),
          MATRIX_OUTPUT("[1.0,3.0,3.0,7.0]"));
    gives(request_of(NULL, MATRIX, "{\"precision\":\"I64\",\"shape\":[],\"data\":-2}"),
          MATRIX_OUTPUT("[1.0,2.0,4.0,6.0]"));
}

static void an_axis_out_of_range_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"2", "-3", "9223372036854775807", "-9223372036854775808"};
    char axis[128];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(axis, sizeof axis, "{\"precision\":\"I64\",\"shape\":[],\"data\":%s}", bad[i]);
        refused(request_of(NULL, MATRIX, axis), STATUS_INVALID_AXIS, "inputs[1].data");
    }
}

static void the_axis_is_a_scalar_or_one_element(void **state)
{
    (void)state;
    static const char *const good[] = {"{\"precision\":\"I64\",\"shape\":[],\"data\":1}",
                                       "{\"precision\":\"I64\",\"shape\":[],\"data\":[1]}",
                                       "{\"precision\":\"I64\",\"shape\":[1],\"data\":[1]}",
                                       "{\"precision\":\"I64\",\"shape\":[1],\"data\":1}"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        gives(request_of(NULL, MATRIX, good[i]), MATRIX_OUTPUT("[1.0,3.0,3.0,7.0]"));
    }
    refused(request_of(NULL, MATRIX, "{\"precision\":\"I64\",\"shape\":[2],\"data\":[1,1]}"),
            STATUS_INVALID_SHAPE, "inputs[1].shape");
    refused(request_of(NULL, MATRIX, "{\"precision\":\"I64\",\"shape\":[1,1],\"data\":[1]}"),
            STATUS_INVALID_SHAPE, "inputs[1].shape");
    refused(request_of(NULL, MATRIX, "{\"precision\":\"I64\",\"shape\":[1],\"data\":[1,0]}"),
            STATUS_LENGTH_MISMATCH, "inputs[1].data");
    gives(request_of(NULL, MATRIX, "{\"precision\":\"I64\",\"shape\":[],\"data\":1.0}"),
          MATRIX_OUTPUT("[1.0,3.0,3.0,7.0]"));
    gives(request_of(NULL, MATRIX, "{\"precision\":\"I32\",\"shape\":[1.0],\"data\":[-1e0]}"),
          MATRIX_OUTPUT("[1.0,3.0,3.0,7.0]"));
    refused(request_of(NULL, MATRIX, "{\"precision\":\"I64\",\"shape\":[],\"data\":1.5}"),
            STATUS_INVALID_FIELD, "inputs[1].data");
}

/* ---- types ---- */

static void t_is_any_numeric_type_by_ir_name_or_element_type(void **state)
{
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        const struct dtype_info *type = dtype_info((enum dtype)i);
        const char *const names[] = {type->openvino_ir, type->openvino_type};
        for (size_t k = 0; k < 2; k++) {
            char data[128];
            char want[160];
            bool real = type->kind == DTYPE_KIND_FLOAT;
            snprintf(data, sizeof data, "{\"precision\":\"%s\",\"shape\":[2],\"data\":[1,2]}",
                     names[k]);
            snprintf(want, sizeof want,
                     "{\"outputs\":[{\"precision\":\"%s\",\"shape\":[2],\"data\":%s}]}",
                     names[k], real ? "[1.0,3.0]" : "[1,3]");
            gives(request_of(NULL, data, NULL), want);
        }
    }
}

static void non_finite_data_are_words_bare_or_quoted_or_null(void **state)
{
    (void)state;
    gives(request_of(NULL,
                     "{\"precision\":\"f16\",\"shape\":[1,8],\"data\":[\"NaN\",NaN,null,"
                     "\"Infinity\",Infinity,-Infinity,\"inf\",\"+Infinity\"]}",
                     NULL),
          "{\"outputs\":[{\"precision\":\"f16\",\"shape\":[1,8],\"data\":[\"NaN\",\"NaN\","
          "\"NaN\",\"Infinity\",\"Infinity\",\"-Infinity\",\"Infinity\",\"Infinity\"]}]}");
    refused(request_of(NULL, "{\"precision\":\"I8\",\"shape\":[2],\"data\":[1,null]}", NULL),
            STATUS_INVALID_DATA, "inputs[0].data[1]");
}

static void other_types_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"bool", "BOOLEAN", "U1",   "BIN", "I4",
                                      "U4",   "FLOAT32", "fp32", "F32", ""};
    char data[128];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(data, sizeof data, "{\"precision\":\"%s\",\"shape\":[1],\"data\":[1]}",
                 bad[i]);
        refused(request_of(NULL, data, NULL), STATUS_INVALID_DTYPE, "inputs[0].precision");
    }
}

static void booleans_have_sums_of_64_bits(void **state)
{
    (void)state;
    gives(request_of(NULL, "{\"precision\":\"BOOL\",\"shape\":[3],\"data\":[true,false,true]}",
                     NULL),
          "{\"outputs\":[{\"precision\":\"I64\",\"shape\":[3],\"data\":[1,1,2]}]}");
    gives(request_of(NULL, "{\"precision\":\"boolean\",\"shape\":[1],\"data\":[true]}", NULL),
          "{\"outputs\":[{\"precision\":\"i64\",\"shape\":[1],\"data\":[1]}]}");
    refused(request_of(NULL, "{\"precision\":\"BOOL\",\"shape\":[1],\"data\":[1]}", NULL),
            STATUS_INVALID_DATA, "inputs[0].data[0]");
}

static void t_axis_is_int64_or_int32(void **state)
{
    (void)state;
    static const char *const good[] = {"I64", "i64", "I32", "i32"};
    static const char *const bad[] = {"I16", "U64", "U32", "I8", "FP32", "u8"};
    char axis[128];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(axis, sizeof axis, "{\"precision\":\"%s\",\"shape\":[],\"data\":1}", good[i]);
        gives(request_of(NULL, MATRIX, axis), MATRIX_OUTPUT("[1.0,3.0,3.0,7.0]"));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(axis, sizeof axis, "{\"precision\":\"%s\",\"shape\":[],\"data\":1}", bad[i]);
        refused(request_of(NULL, MATRIX, axis), STATUS_INVALID_DTYPE, "inputs[1].precision");
    }
}

/* ---- binary ---- */

static void framed(const char *json, const void *payload, size_t bytes)
{
    if (probe_framed(&probe, &codec_openvino, json, payload, bytes) != STATUS_OK) {
        fail_msg("%s (%s)", probe.error.detail, probe.error.field);
    }
}

#define BINARY_MATRIX "{\"precision\":\"FP32\",\"shape\":[2,2],\"binary_data_size\":16}"

static const float matrix[] = {1, 2, 3, 4};
static const float along_rows[] = {1, 3, 3, 7};

static void binary_data_is_answered_as_binary(void **state)
{
    (void)state;
    framed(request_of(NULL, BINARY_MATRIX, "{\"precision\":\"I64\",\"shape\":[],\"data\":1}"),
           matrix, 16);
    assert_string_equal(probe.text, "{\"outputs\":[{\"precision\":\"FP32\",\"shape\":[2,2],"
                                    "\"binary_data_size\":16}]}");
    assert_string_equal(probe.content_type, "application/octet-stream");
    assert_int_equal(probe.byte_count, 16);
    assert_memory_equal(probe.bytes, along_rows, 16);
}

static void the_axis_may_be_binary_too(void **state)
{
    (void)state;
    struct {
        float data[4];
        int64_t axis;
    } wide = {{1, 2, 3, 4}, -1};
    framed(request_of(NULL, BINARY_MATRIX,
                      "{\"precision\":\"I64\",\"shape\":[1],\"binary_data_size\":8}"),
           &wide, 24);
    assert_memory_equal(probe.bytes, along_rows, 16);
    int32_t narrow = -1;
    framed(
        request_of(NULL, MATRIX, "{\"precision\":\"I32\",\"shape\":[],\"binary_data_size\":4}"),
        &narrow, 4);
    assert_string_equal(probe.text, MATRIX_OUTPUT("[1.0,3.0,3.0,7.0]"));
    assert_string_equal(probe.header, "");
    narrow = 2;
    assert_int_equal(
        probe_framed(&probe, &codec_openvino,
                     request_of(NULL, MATRIX,
                                "{\"precision\":\"I32\",\"shape\":[],\"binary_data_size\":4}"),
                     &narrow, 4),
        STATUS_INVALID_AXIS);
}

static void binary_sizes_must_fit(void **state)
{
    (void)state;
    static const size_t bad[] = {0, 15, 17};
    for (int chunked = 0; chunked < 2; chunked++) {
        probe.chunked = chunked != 0;
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            assert_int_equal(probe_framed(&probe, &codec_openvino,
                                          request_of(NULL, BINARY_MATRIX, NULL),
                                          "0123456789abcdef0", bad[i]),
                             STATUS_LENGTH_MISMATCH);
        }
    }
    probe.chunked = false;
    refused(
        request_of(NULL, "{\"precision\":\"FP32\",\"shape\":[2],\"binary_data_size\":7}", NULL),
        STATUS_LENGTH_MISMATCH, "inputs[0].binary_data_size");
    refused(request_of(NULL,
                       "{\"precision\":\"FP32\",\"shape\":[1],\"data\":[1],"
                       "\"binary_data_size\":4}",
                       NULL),
            STATUS_INVALID_FIELD, "inputs[0]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_1_inclusive),
        cmocka_unit_test(example_2_exclusive),
        cmocka_unit_test(example_3_reverse),
        cmocka_unit_test(example_4_exclusive_and_reverse),
        cmocka_unit_test(a_long_answer_has_the_room_that_is_foretold),
        cmocka_unit_test(the_first_element_is_copied_as_it_is),
        cmocka_unit_test(the_first_element_of_an_exclusive_sum_is_0),
        cmocka_unit_test(attributes_are_optional_and_false_by_default),
        cmocka_unit_test(exclusive_is_true_or_false_or_1_or_0_or_their_strings),
        cmocka_unit_test(reverse_is_true_or_false_or_1_or_0_or_their_strings),
        cmocka_unit_test(unknown_attributes_and_members_are_refused),
        cmocka_unit_test(input_1_is_required),
        cmocka_unit_test(input_1_has_rank_1_or_more),
        cmocka_unit_test(input_1_names_its_precision_and_shape),
        cmocka_unit_test(input_1_is_flat_and_fits_its_shape),
        cmocka_unit_test(a_dimension_of_0_gives_an_empty_answer),
        cmocka_unit_test(the_axis_is_0_by_default),
        cmocka_unit_test(a_negative_axis_counts_from_the_back),
        cmocka_unit_test(an_axis_out_of_range_is_refused),
        cmocka_unit_test(the_axis_is_a_scalar_or_one_element),
        cmocka_unit_test(t_is_any_numeric_type_by_ir_name_or_element_type),
        cmocka_unit_test(non_finite_data_are_words_bare_or_quoted_or_null),
        cmocka_unit_test(other_types_are_refused),
        cmocka_unit_test(booleans_have_sums_of_64_bits),
        cmocka_unit_test(t_axis_is_int64_or_int32),
        cmocka_unit_test(binary_data_is_answered_as_binary),
        cmocka_unit_test(the_axis_may_be_binary_too),
        cmocka_unit_test(binary_sizes_must_fit),
    };
    return PROBE_RUN(tests, NULL);
}
