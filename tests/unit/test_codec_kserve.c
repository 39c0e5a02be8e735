/* The Open Inference Protocol API: requests and answers in the form of unmodified clients. */
#include "tests/unit/dialect_run.h"

#include "proto/models.h"

#include <stdio.h>
#include <string.h>

static char request[8192];

#define X_2X2 "{\"name\":\"x\",\"shape\":[2,2],\"datatype\":\"FP32\",\"data\":[1,2,3,4]}"

/* `head`: the members before "inputs", with a comma at the end. */
static const char *request_of(const char *head, const char *inputs, const char *outputs)
{
    snprintf(request, sizeof request, "{%s\"inputs\":[%s]%s%s}", head, inputs,
             outputs != NULL ? ",\"outputs\":" : "", outputs != NULL ? outputs : "");
    return request;
}

static void run(const char *json)
{
    if (probe_json(&probe, &codec_kserve, json) != STATUS_OK) {
        fail_msg("%s (%s)", probe.error.detail, probe.error.field);
    }
}

static void framed(const char *json, const void *payload, size_t bytes)
{
    if (probe_framed(&probe, &codec_kserve, json, payload, bytes) != STATUS_OK) {
        fail_msg("%s (%s)", probe.error.detail, probe.error.field);
    }
}

#define ANSWER(model, output)  \
    "{\"model_name\":\"" model \
    "\",\"model_version\":\"1\",\"outputs\":[{\"name\":\"y\"," output "}]}"
#define Y_2X2(data) ANSWER("cumsum", "\"datatype\":\"FP32\",\"shape\":[2,2],\"data\":" data)

static void gives(const char *json, const char *want)
{
    run(json);
    assert_string_equal(probe.text, want);
    assert_string_equal(probe.content_type, "application/json");
    assert_string_equal(probe.header, "");
}

static void refused(const char *json, enum status status, const char *field)
{
    if (probe_json(&probe, &codec_kserve, json) == STATUS_OK) {
        fail_msg("accepted: %s", probe.text);
    }
    assert_string_equal(probe.error.field, field);
    assert_int_equal(probe.status, status);
}

/* ---- JSON ---- */

static void json_in_gives_flat_json_out(void **state)
{
    (void)state;
    gives(request_of("", X_2X2, NULL), Y_2X2("[1.0,2.0,4.0,6.0]"));
}

static void data_may_be_nested_anyhow_as_long_as_the_count_fits(void **state)
{
    (void)state;
    static const char *const shapes[] = {"[[1,2],[3,4]]", "[[1],[2,3,4]]", "[[[1,2,3,4]]]"};
    char input[256];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        snprintf(input, sizeof input,
                 "{\"name\":\"x\",\"shape\":[2,2],\"datatype\":\"FP32\",\"data\":%s}",
                 shapes[i]);
        gives(request_of("", input, NULL), Y_2X2("[1.0,2.0,4.0,6.0]"));
    }
    refused(request_of(
                "", "{\"name\":\"x\",\"shape\":[2,2],\"datatype\":\"FP32\",\"data\":[1,2,3]}",
                NULL),
            STATUS_LENGTH_MISMATCH, "inputs[0].data");
}

static void ids_are_echoed_and_empty_ones_are_absent(void **state)
{
    (void)state;
    run(request_of("\"id\":\"a\\\"b\\n\",", X_2X2, NULL));
    assert_memory_equal(probe.text, "{\"id\":\"a\\\"b\\n\",\"model_name\"", 27);
    gives(request_of("\"id\":\"\",", X_2X2, NULL), Y_2X2("[1.0,2.0,4.0,6.0]"));
    gives(request_of("\"id\":null,", X_2X2, NULL), Y_2X2("[1.0,2.0,4.0,6.0]"));
    refused(request_of("\"id\":7,", X_2X2, NULL), STATUS_INVALID_FIELD, "id");
    char head[400];
    snprintf(head, sizeof head, "\"id\":\"%0257d\",", 0);
    refused(request_of(head, X_2X2, NULL), STATUS_INVALID_FIELD, "id");
    snprintf(head, sizeof head, "\"id\":\"%0256d\",", 0);
    run(request_of(head, X_2X2, NULL));
}

static void unknown_top_level_keys_are_ignored(void **state)
{
    (void)state;
    gives(request_of("\"model_name\":\"cumsum\",\"foo\":{\"bar\":[1]},", X_2X2, NULL),
          Y_2X2("[1.0,2.0,4.0,6.0]"));
}

/* Triton also reads only the members that it knows. */
static void unknown_members_of_tensors_are_ignored_and_unknown_parameters_refused(void **state)
{
    (void)state;
    gives(request_of("",
                     "{\"name\":\"x\",\"shape\":[2,2],\"datatype\":\"FP32\",\"axis\":7,"
                     "\"metadata\":{\"a\":[1]},\"data\":[1,1,1,3]}",
                     "[{\"name\":\"y\",\"axis\":7,\"label\":null}]"),
          Y_2X2("[1.0,1.0,2.0,4.0]"));
    refused(request_of("",
                       "{\"name\":\"x\",\"shape\":[2,2],\"datatype\":\"FP32\","
                       "\"parameters\":{\"axes\":1},\"data\":[1,1,1,3]}",
                       NULL),
            STATUS_UNKNOWN_FIELD, "inputs[0].parameters.axes");
    refused(request_of("", X_2X2, "[{\"name\":\"y\",\"parameters\":{\"axis\":1}}]"),
            STATUS_UNKNOWN_FIELD, "outputs[0].parameters.axis");
}

static void every_datatype_goes_through_json(void **state)
{
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        const struct dtype_info *type = dtype_info((enum dtype)i);
        char input[160];
        char want[240];
        bool real = type->kind == DTYPE_KIND_FLOAT;
        snprintf(input, sizeof input,
                 "{\"name\":\"x\",\"shape\":[2],\"datatype\":\"%s\",\"data\":[1,2]}",
                 type->kserve);
        snprintf(
            want, sizeof want,
            "{\"model_name\":\"cumsum\",\"model_version\":\"1\",\"outputs\":[{\"name\":\"y\","
            "\"datatype\":\"%s\",\"shape\":[2],\"data\":%s}]}",
            type->kserve, real ? "[1.0,3.0]" : "[1,3]");
        gives(request_of("", input, NULL), want);
    }
}

static void other_datatypes_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"bool", "BYTES", "fp32", "float32", "TYPE_FP32", ""};
    char input[160];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(input, sizeof input,
                 "{\"name\":\"x\",\"shape\":[1],\"datatype\":\"%s\",\"data\":[1]}", bad[i]);
        refused(request_of("", input, NULL), STATUS_INVALID_DTYPE, "inputs[0].datatype");
    }
}

static void booleans_have_sums_of_64_bits_unless_the_output_names_a_type(void **state)
{
    (void)state;
    static const char input[] =
        "{\"name\":\"x\",\"shape\":[2],\"datatype\":\"BOOL\",\"data\":[true,true]}";
    gives(request_of("", input, NULL),
          ANSWER("cumsum", "\"datatype\":\"INT64\",\"shape\":[2],\"data\":[1,2]"));
    gives(request_of("\"outputs\":[{\"name\":\"y\",\"datatype\":\"UINT8\"}],", input, NULL),
          ANSWER("cumsum", "\"datatype\":\"UINT8\",\"shape\":[2],\"data\":[1,2]"));
    refused(request_of("\"outputs\":[{\"name\":\"y\",\"datatype\":\"FP32\"}],", input, NULL),
            STATUS_INVALID_DTYPE, "outputs[0].datatype");
    refused(request_of("\"outputs\":[{\"name\":\"y\",\"datatype\":7}],", input, NULL),
            STATUS_INVALID_FIELD, "outputs[0].datatype");
}

static void optional_members_that_are_null_are_absent(void **state)
{
    (void)state;
    gives(request_of("\"id\":null,\"parameters\":null,\"outputs\":null,",
                     "{\"name\":\"x\",\"shape\":[2,2],\"datatype\":\"FP32\","
                     "\"parameters\":null,\"data\":[1,2,3,4]}",
                     NULL),
          Y_2X2("[1.0,2.0,4.0,6.0]"));
}

static void non_finite_numbers_are_taken_bare_quoted_or_null(void **state)
{
    (void)state;
    gives(request_of("",
                     "{\"name\":\"x\",\"shape\":[8,1],\"datatype\":\"FP32\",\"data\":[NaN,"
                     "Infinity,-Infinity,Inf,-Inf,\"NaN\",\"-Infinity\",null]}",
                     NULL),
          ANSWER("cumsum", "\"datatype\":\"FP32\",\"shape\":[8,1],\"data\":[\"NaN\",\"NaN\","
                           "\"NaN\",\"NaN\",\"NaN\",\"NaN\",\"NaN\",\"NaN\"]"));
    gives(request_of("\"parameters\":{\"axis\":1},",
                     "{\"name\":\"x\",\"shape\":[6,1],\"datatype\":\"FP16\",\"data\":[null,"
                     "Infinity,-Inf,\"NaN\",inf,-inf]}",
                     NULL),
          ANSWER("cumsum", "\"datatype\":\"FP16\",\"shape\":[6,1],\"data\":[\"NaN\","
                           "\"Infinity\",\"-Infinity\",\"NaN\",\"Infinity\",\"-Infinity\"]"));
}

static void integers_take_no_fraction_no_null_and_nothing_out_of_range(void **state)
{
    (void)state;
    static const char *const bad[] = {"1.5", "null", "NaN", "\"NaN\"", "128", "-129", "true"};
    char input[160];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(input, sizeof input,
                 "{\"name\":\"x\",\"shape\":[2],\"datatype\":\"INT8\",\"data\":[0,%s]}",
                 bad[i]);
        refused(request_of("", input, NULL), STATUS_INVALID_DATA, "inputs[0].data[1]");
    }
}

/* ---- inputs and outputs ---- */

static void inputs_are_checked_by_name(void **state)
{
    (void)state;
    refused("{}", STATUS_MISSING_FIELD, "inputs");
    refused("{\"inputs\":[]}", STATUS_MISSING_FIELD, "inputs");
    refused(request_of("", X_2X2 "," X_2X2, NULL), STATUS_INVALID_FIELD, "inputs[1]");
    refused(request_of("", "{\"name\":\"z\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}",
                       NULL),
            STATUS_UNKNOWN_FIELD, "inputs[0]");
    refused(request_of("", "{\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}", NULL),
            STATUS_MISSING_FIELD, "inputs[0].name");
    refused(request_of("", "{\"name\":\"x\",\"datatype\":\"FP32\",\"data\":[1]}", NULL),
            STATUS_MISSING_FIELD, "inputs[0].shape");
    refused(request_of("", "{\"name\":\"x\",\"shape\":[1],\"data\":[1]}", NULL),
            STATUS_MISSING_FIELD, "inputs[0].datatype");
    refused(request_of("", "7", NULL), STATUS_INVALID_FIELD, "inputs[0]");
}

static void shapes_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        const char *field;
    } bad[] = {{"[-1]", "inputs[0].shape[0]"},
               {"[9223372036854775807,2]", "inputs[0].shape"},
               {"[4294967296,4294967296]", "inputs[0].shape"}};
    char input[160];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(input, sizeof input,
                 "{\"name\":\"x\",\"shape\":%s,\"datatype\":\"FP32\",\"data\":[1]}",
                 bad[i].shape);
        refused(request_of("", input, NULL), STATUS_INVALID_SHAPE, bad[i].field);
    }
    refused(request_of("", "{\"name\":\"x\",\"shape\":[],\"datatype\":\"FP32\",\"data\":[1]}",
                       NULL),
            STATUS_INVALID_SHAPE, "inputs[0].shape");
}

static void an_input_has_its_bytes_in_exactly_one_place(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\"data\":[1],\"parameters\":{\"binary_data_size\":4}",
        "\"data\":[1],\"parameters\":{\"shared_memory_region\":\"r\","
        "\"shared_memory_byte_size\":4}",
        "\"parameters\":{\"binary_data_size\":4,\"shared_memory_region\":\"r\","
        "\"shared_memory_byte_size\":4}"};
    char input[256];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(input, sizeof input, "{\"name\":\"x\",\"shape\":[1],\"datatype\":\"FP32\",%s}",
                 bad[i]);
        refused(request_of("", input, NULL), STATUS_INVALID_FIELD, "inputs[0]");
    }
    refused(request_of("", "{\"name\":\"x\",\"shape\":[1],\"datatype\":\"FP32\"}", NULL),
            STATUS_MISSING_FIELD, "inputs[0]");
}

static void zero_size_tensors_are_fine_with_null_data_or_none(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "\"data\":[]", "\"data\":null", "\"parameters\":{\"binary_data_size\":0}",
        "\"data\":null,\"parameters\":{\"binary_data_size\":0}"};
    char input[256];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        snprintf(input, sizeof input,
                 "{\"name\":\"x\",\"shape\":[0,3],\"datatype\":\"FP32\",%s}", forms[i]);
        gives(request_of("", input, NULL),
              ANSWER("cumsum", "\"datatype\":\"FP32\",\"shape\":[0,3],\"data\":[]"));
    }
    /* A binary, empty output has no framing, but it has the size that clients look for. */
    gives(request_of("\"parameters\":{\"binary_data_output\":true},", input, NULL),
          ANSWER("cumsum", "\"datatype\":\"FP32\",\"shape\":[0,3],"
                           "\"parameters\":{\"binary_data_size\":0}"));
}

static void outputs_are_checked_by_name(void **state)
{
    (void)state;
    gives(request_of("", X_2X2, "[{\"name\":\"y\"}]"), Y_2X2("[1.0,2.0,4.0,6.0]"));
    gives(request_of("", X_2X2, "[]"), Y_2X2("[1.0,2.0,4.0,6.0]"));
    refused(request_of("", X_2X2, "[{\"name\":\"z\"}]"), STATUS_UNKNOWN_FIELD, "outputs[0]");
    refused(request_of("", X_2X2, "[{\"name\":\"y\"},{\"name\":\"y\"}]"), STATUS_INVALID_FIELD,
            "outputs[1]");
    refused(request_of("", X_2X2, "[{}]"), STATUS_MISSING_FIELD, "outputs[0].name");
    refused(request_of("", X_2X2, "[{\"name\":\"y\",\"parameters\":{\"classification\":3}}]"),
            STATUS_INVALID_FIELD, "outputs[0].parameters.classification");
    refused(request_of("", X_2X2, "[{\"name\":\"y\",\"parameters\":{\"binary\":true}}]"),
            STATUS_UNKNOWN_FIELD, "outputs[0].parameters.binary");
}

/* ---- binary ---- */

#define X_BINARY                                              \
    "{\"name\":\"x\",\"shape\":[2,3],\"datatype\":\"INT32\"," \
    "\"parameters\":{\"binary_data_size\":24}}"
#define Y_BINARY                                               \
    ANSWER("cumsum", "\"datatype\":\"INT32\",\"shape\":[2,3]," \
                     "\"parameters\":{\"binary_data_size\":24}")

static const int32_t x_binary[] = {1, 2, 3, 4, 5, 6};
static const int32_t y_binary[] = {1, 3, 6, 4, 9, 15};

static void binary_in_and_out(void **state)
{
    (void)state;
    framed(
        request_of("\"parameters\":{\"axis\":1,\"binary_data_output\":true},", X_BINARY, NULL),
        x_binary, 24);
    assert_string_equal(probe.text, Y_BINARY);
    char length[32];
    snprintf(length, sizeof length, "%zu", strlen(probe.text));
    assert_string_equal(probe.header, length);
    assert_string_equal(probe.content_type, "application/octet-stream");
    assert_int_equal(probe.byte_count, 24);
    assert_memory_equal(probe.bytes, y_binary, 24);
}

static void input_and_output_choose_their_form_apart(void **state)
{
    (void)state;
    framed(request_of("\"parameters\":{\"axis\":1},", X_BINARY, NULL), x_binary, 24);
    assert_string_equal(probe.text, ANSWER("cumsum", "\"datatype\":\"INT32\",\"shape\":[2,3],"
                                                     "\"data\":[1,3,6,4,9,15]"));
    assert_string_equal(probe.header, "");
    framed(request_of("", X_2X2, "[{\"name\":\"y\",\"parameters\":{\"binary_data\":true}}]"),
           "", 0);
    assert_int_equal(probe.byte_count, 16);
}

static void an_outputs_own_choice_overrides_the_requests(void **state)
{
    (void)state;
    framed(request_of("\"parameters\":{\"axis\":1,\"binary_data_output\":true},", X_BINARY,
                      "[{\"name\":\"y\",\"parameters\":{\"binary_data\":false}}]"),
           x_binary, 24);
    assert_int_equal(probe.byte_count, 0);
    framed(request_of("\"parameters\":{\"axis\":1,\"binary_data_output\":false},", X_BINARY,
                      "[{\"name\":\"y\",\"parameters\":{\"binary_data\":true}}]"),
           x_binary, 24);
    assert_int_equal(probe.byte_count, 24);
}

static void binary_lengths_must_agree(void **state)
{
    (void)state;
    static const size_t bad[] = {0, 23, 25};
    const char payload[32] = {0};
    for (int chunked = 0; chunked < 2; chunked++) {
        probe.chunked = chunked != 0;
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            assert_int_equal(probe_framed(&probe, &codec_kserve, request_of("", X_BINARY, NULL),
                                          payload, bad[i]),
                             STATUS_LENGTH_MISMATCH);
            assert_non_null(strstr(probe.error.detail, "Inference-Header-Content-Length"));
        }
    }
    probe.chunked = false;
    refused(request_of("",
                       "{\"name\":\"x\",\"shape\":[2,3],\"datatype\":\"INT32\","
                       "\"parameters\":{\"binary_data_size\":20}}",
                       NULL),
            STATUS_LENGTH_MISMATCH, "inputs[0].parameters.binary_data_size");
}

static void a_header_over_a_body_that_is_all_json_is_fine(void **state)
{
    (void)state;
    framed(request_of("", X_2X2, NULL), "", 0);
    assert_string_equal(probe.text, Y_2X2("[1.0,2.0,4.0,6.0]"));
    refused("{\"inputs\":", STATUS_INVALID_JSON, "");
}

/* ---- raw ---- */

static enum status raw(const char *model, const void *bytes, size_t count)
{
    probe.model = model;
    probe.head_bytes = 0;
    enum status status = probe_run(&probe, &codec_kserve, bytes, count);
    probe.model = "cumsum";
    return status;
}

static void a_raw_request_is_one_dimension_of_the_declared_type(void **state)
{
    (void)state;
    const float floats[] = {1, 2, 3};
    const float sums[] = {1, 3, 6};
    const int64_t integers[] = {1, 2};
    const int64_t integer_sums[] = {1, 3};
    for (int chunked = 0; chunked < 2; chunked++) {
        probe.chunked = chunked != 0;
        assert_int_equal(raw("cumsum", floats, sizeof floats), STATUS_OK);
        assert_string_equal(probe.text, ANSWER("cumsum", "\"datatype\":\"FP32\",\"shape\":[3],"
                                                         "\"parameters\":{\"binary_data_size\":"
                                                         "12}"));
        assert_memory_equal(probe.bytes, sums, sizeof sums);
        assert_int_equal(raw("cumsum_int64", integers, sizeof integers), STATUS_OK);
        assert_memory_equal(probe.bytes, integer_sums, sizeof integer_sums);
        assert_int_equal(raw("cumsum", floats, 7), STATUS_LENGTH_MISMATCH);
        assert_int_equal(raw("cumsum", "", 0), STATUS_OK);
        assert_int_equal(raw("cumsum_onnx", floats, 4), STATUS_INVALID_REQUEST);
    }
    probe.chunked = false;
}

static void a_raw_request_takes_parameters_from_the_query(void **state)
{
    (void)state;
    const float floats[] = {1, 2, 3};
    const float sums[] = {5, 3, 0};
    const char *query[] = {"reverse", "true", "exclusive", "1", NULL};
    memcpy(probe.query, query, sizeof query);
    assert_int_equal(raw("cumsum", floats, sizeof floats), STATUS_OK);
    assert_memory_equal(probe.bytes, sums, sizeof sums);
    const char *json[] = {"binary_data_output", "false", "axis_direction", "decreasing", NULL};
    memcpy(probe.query, json, sizeof json);
    assert_int_equal(raw("cumsum", floats, sizeof floats), STATUS_OK);
    assert_string_equal(probe.text, ANSWER("cumsum", "\"datatype\":\"FP32\",\"shape\":[3],"
                                                     "\"data\":[6.0,5.0,3.0]"));
    probe.query[0] = "axes";
    assert_int_equal(raw("cumsum", floats, sizeof floats), STATUS_UNKNOWN_FIELD);
    const char *both[] = {"binary_data_output", "false", "binary_data_output", "true", NULL};
    memcpy(probe.query, both, sizeof both);
    assert_int_equal(raw("cumsum", floats, sizeof floats), STATUS_INVALID_FIELD);
    probe.query[3] = "0"; /* values given twice must agree */
    assert_int_equal(raw("cumsum", floats, sizeof floats), STATUS_OK);
    /* in other routes the query is ignored */
    gives(request_of("", X_2X2, NULL), Y_2X2("[1.0,2.0,4.0,6.0]"));
    probe.query[0] = NULL;
}

/* ---- shared memory ---- */

static void tensors_may_lie_in_shared_memory(void **state)
{
    (void)state;
    static const int32_t memory[] = {0, 0, 1, 2, 3, 4, 5, 6};
    probe.shm = memory;
    run(request_of("\"parameters\":{\"axis\":1},",
                   "{\"name\":\"x\",\"shape\":[2,3],\"datatype\":\"INT32\",\"parameters\":"
                   "{\"shared_memory_region\":\"in\",\"shared_memory_byte_size\":24,"
                   "\"shared_memory_offset\":8}}",
                   "[{\"name\":\"y\",\"parameters\":{\"shared_memory_region\":\"out\","
                   "\"shared_memory_byte_size\":32,\"binary_data\":false}}]"));
    assert_string_equal(probe.call.input_shm.region, "in");
    assert_int_equal(probe.call.input_shm.offset, 8);
    assert_string_equal(probe.call.output_shm.region, "out");
    assert_string_equal(probe.text, ANSWER("cumsum", "\"datatype\":\"INT32\",\"shape\":[2,3]"));
    assert_memory_equal(probe.shm_out, y_binary, 24);
    run(request_of("", X_2X2,
                   "[{\"name\":\"y\",\"parameters\":{\"shared_memory_region\":\"out\","
                   "\"shared_memory_byte_size\":16}}]")); /* the whole region */
    assert_string_equal(probe.call.output_shm.region, "out");
}

/* Test requests of unknown length, without Inference-Header-Content-Length and with the value
 * 0. */
static void a_carry_before_the_body_is_refused(void **state)
{
    (void)state;
    for (int64_t head_bytes = -1; head_bytes < 1; head_bytes++) {
        const struct codec_request asked = {
            .head_bytes = head_bytes, .body_bytes = -1, .carry_bytes = 64};
        struct error err = ERROR_INIT;
        uint64_t need = 0;
        assert_int_equal(
            codec_kserve.head_need(&asked, (struct byte_view){NULL, 0}, &need, &err),
            STATUS_INVALID_FIELD);
        assert_string_equal(err.field, "Tally-Carry-Length");
    }
}

static void shared_memory_parameters_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *parameters;
        enum status status;
        const char *field;
    } bad[] = {{"\"shared_memory_region\":\"r\"", STATUS_MISSING_FIELD,
                "inputs[0].parameters.shared_memory_byte_size"},
               {"\"shared_memory_byte_size\":4", STATUS_MISSING_FIELD,
                "inputs[0].parameters.shared_memory_region"},
               {"\"shared_memory_offset\":4", STATUS_MISSING_FIELD,
                "inputs[0].parameters.shared_memory_region"},
               {"\"shared_memory_region\":\"r\",\"shared_memory_byte_size\":5",
                STATUS_LENGTH_MISMATCH, "inputs[0].parameters.shared_memory_byte_size"},
               {"\"shared_memory_region\":\"\",\"shared_memory_byte_size\":4",
                STATUS_INVALID_FIELD, "inputs[0].parameters.shared_memory_region"},
               {"\"shared_memory_region\":\"r\",\"shared_memory_byte_size\":4,"
                "\"shared_memory_offset\":-1",
                STATUS_INVALID_FIELD, "inputs[0].parameters.shared_memory_offset"}};
    char input[320];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(input, sizeof input,
                 "{\"name\":\"x\",\"shape\":[1],\"datatype\":\"FP32\",\"parameters\":{%s}}",
                 bad[i].parameters);
        refused(request_of("", input, NULL), bad[i].status, bad[i].field);
    }
    char region[257] = "";
    char long_input[512];
    memset(region, 'r', sizeof region - 1);
    for (size_t longer = 2; longer-- > 0; region[255] = '\0') {
        snprintf(long_input, sizeof long_input,
                 "{\"name\":\"x\",\"shape\":[1],\"datatype\":\"FP32\",\"parameters\":{"
                 "\"shared_memory_region\":\"%s\",\"shared_memory_byte_size\":%d}}",
                 region, longer ? 4 : 5);
        refused(request_of("", long_input, NULL),
                longer ? STATUS_INVALID_FIELD : STATUS_LENGTH_MISMATCH,
                longer ? "inputs[0].parameters.shared_memory_region"
                       : "inputs[0].parameters.shared_memory_byte_size");
    }
    refused(request_of("", X_2X2,
                       "[{\"name\":\"y\",\"parameters\":{\"shared_memory_region\":\"r\","
                       "\"shared_memory_byte_size\":15}}]"),
            STATUS_LENGTH_MISMATCH, "outputs[0].parameters.shared_memory_byte_size");
    refused(request_of("\"parameters\":{\"part\":\"first\"},", X_2X2,
                       "[{\"name\":\"carry\"},"
                       "{\"name\":\"y\",\"parameters\":{\"shared_memory_region\":\"r\","
                       "\"shared_memory_byte_size\":15}}]"),
            STATUS_LENGTH_MISMATCH, "outputs[1].parameters.shared_memory_byte_size");
    refused(request_of("", X_2X2,
                       "[{\"name\":\"y\",\"parameters\":{\"shared_memory_region\":\"r\","
                       "\"shared_memory_byte_size\":16,\"binary_data\":true}}]"),
            STATUS_INVALID_FIELD, "outputs[0].parameters.binary_data");
    refused(request_of("\"parameters\":{\"part\":\"first\"},", X_2X2,
                       "[{\"name\":\"carry\",\"parameters\":{\"shared_memory_region\":\"r\","
                       "\"shared_memory_byte_size\":80}}]"),
            STATUS_INVALID_FIELD, "outputs[0].parameters.shared_memory_region");
    refused(request_of("\"parameters\":{\"part\":\"last\"},",
                       X_2X2 ",{\"name\":\"carry\",\"shape\":[80],\"datatype\":\"UINT8\","
                             "\"parameters\":{\"shared_memory_region\":\"r\","
                             "\"shared_memory_byte_size\":80}}",
                       NULL),
            STATUS_INVALID_FIELD, "inputs[1].parameters.shared_memory_region");
    refused(request_of("\"parameters\":{\"part\":\"first\"},",
                       X_2X2 ",{\"name\":\"axis\",\"shape\":[],\"datatype\":\"INT64\","
                             "\"parameters\":{\"shared_memory_region\":\"r\","
                             "\"shared_memory_byte_size\":8}}",
                       NULL),
            STATUS_INVALID_FIELD, "inputs[1]");
}

/* The probe compares the answer with head_max(): here each byte outside the elements counts. */
static void the_longest_head_has_the_room_that_is_foretold(void **state)
{
    (void)state;
    char id[6 * LIMIT_REQUEST_ID + 1] = "";
    char shape[LIMIT_RANK * 21] = "0";
    char input[2048];
    char more[sizeof id + 64];
    for (int i = 0; i < LIMIT_REQUEST_ID; i++) {
        strcat(id, "\\u0001");
    }
    for (int i = 1; i < LIMIT_RANK; i++) {
        strcat(shape, ",9223372036854775807");
    }
    snprintf(more, sizeof more, "\"id\":\"%s\",\"parameters\":{\"binary_data_output\":true},",
             id);
    snprintf(input, sizeof input, "{\"name\":\"x\",\"shape\":[%s],\"datatype\":\"FP32\"}",
             shape);
    run(request_of(more, input, NULL));
    strcpy(input, "{\"name\":\"x\",\"shape\":[100],\"datatype\":\"FP32\",\"data\":[");
    for (int i = 0; i < 100; i++) {
        strcat(input, i < 99 ? "-1.2345678e-10," : "1]}");
    }
    run(request_of("", input, NULL));
}

/* Each input claims 2^62 bytes. */
static void lengths_of_binary_inputs_do_not_wrap(void **state)
{
    (void)state;
#define HUGE_INPUT(name)                                                             \
    "{\"name\":\"" name "\",\"shape\":[4611686018427387904],\"datatype\":\"UINT8\"," \
    "\"parameters\":{\"binary_data_size\":4611686018427387904}}"
    refused(request_of("\"parameters\":{\"part\":\"last\"},",
                       HUGE_INPUT("x") "," HUGE_INPUT("carry"), NULL),
            STATUS_LENGTH_MISMATCH, "inputs[1].parameters.binary_data_size");
}

static void however_many_inputs_there_are_no_name_is_there_twice(void **state)
{
    (void)state;
    char inputs[4096] = X_2X2;
    for (int i = 0; i < 40; i++) {
        strcat(inputs, "," X_2X2);
    }
    refused(request_of("", inputs, NULL), STATUS_INVALID_JSON, ""); /* too many arrays */
    strcpy(inputs, X_2X2);
    for (int i = 0; i < 40; i++) {
        strcat(inputs, ",{\"name\":\"x\"}");
    }
    refused(request_of("", inputs, NULL), STATUS_INVALID_FIELD, "inputs[1]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_in_gives_flat_json_out),
        cmocka_unit_test(data_may_be_nested_anyhow_as_long_as_the_count_fits),
        cmocka_unit_test(ids_are_echoed_and_empty_ones_are_absent),
        cmocka_unit_test(unknown_top_level_keys_are_ignored),
        cmocka_unit_test(unknown_members_of_tensors_are_ignored_and_unknown_parameters_refused),
        cmocka_unit_test(every_datatype_goes_through_json),
        cmocka_unit_test(other_datatypes_are_refused),
        cmocka_unit_test(booleans_have_sums_of_64_bits_unless_the_output_names_a_type),
        cmocka_unit_test(optional_members_that_are_null_are_absent),
        cmocka_unit_test(non_finite_numbers_are_taken_bare_quoted_or_null),
        cmocka_unit_test(integers_take_no_fraction_no_null_and_nothing_out_of_range),
        cmocka_unit_test(inputs_are_checked_by_name),
        cmocka_unit_test(shapes_are_checked),
        cmocka_unit_test(an_input_has_its_bytes_in_exactly_one_place),
        cmocka_unit_test(zero_size_tensors_are_fine_with_null_data_or_none),
        cmocka_unit_test(outputs_are_checked_by_name),
        cmocka_unit_test(binary_in_and_out),
        cmocka_unit_test(input_and_output_choose_their_form_apart),
        cmocka_unit_test(an_outputs_own_choice_overrides_the_requests),
        cmocka_unit_test(binary_lengths_must_agree),
        cmocka_unit_test(a_header_over_a_body_that_is_all_json_is_fine),
        cmocka_unit_test(a_raw_request_is_one_dimension_of_the_declared_type),
        cmocka_unit_test(a_raw_request_takes_parameters_from_the_query),
        cmocka_unit_test(tensors_may_lie_in_shared_memory),
        cmocka_unit_test(a_carry_before_the_body_is_refused),
        cmocka_unit_test(shared_memory_parameters_are_checked),
        cmocka_unit_test(the_longest_head_has_the_room_that_is_foretold),
        cmocka_unit_test(lengths_of_binary_inputs_do_not_wrap),
        cmocka_unit_test(however_many_inputs_there_are_no_name_is_there_twice),
    };
    return PROBE_RUN(tests, "cumsum");
}
