/* Parameters of the Open Inference Protocol API: the operator's attributes, parameters that the
 * protocol reserves, and the axis as a tensor. */
#include "tests/unit/dialect_run.h"

#include "proto/models.h"

#include <stdio.h>
#include <string.h>

static char request[4096];

#define X_MEMBERS "\"name\":\"x\",\"shape\":[2,2],\"datatype\":\"FP32\",\"data\":[1,2,3,4]"

static const char *request_of(const char *parameters, const char *inputs)
{
    snprintf(request, sizeof request, "{\"parameters\":{%s},\"inputs\":[%s]}", parameters,
             inputs);
    return request;
}

static void run(const char *parameters)
{
    if (probe_json(&probe, &codec_kserve, request_of(parameters, "{" X_MEMBERS "}")) !=
        STATUS_OK) {
        fail_msg("%s: %s (%s)", parameters, probe.error.detail, probe.error.field);
    }
}

static void refused_json(const char *json, enum status status, const char *field)
{
    if (probe_json(&probe, &codec_kserve, json) == STATUS_OK) {
        fail_msg("accepted: %s", json);
    }
    assert_string_equal(probe.error.field, field);
    assert_int_equal(probe.status, status);
}

static void refused(const char *parameters, enum status status, const char *field)
{
    refused_json(request_of(parameters, "{" X_MEMBERS "}"), status, field);
}

static void axis_is_any_dimension_from_either_end(void **state)
{
    (void)state;
    run("");
    assert_int_equal(probe.call.desc.axis, 0);
    run("\"axis\":-1");
    assert_int_equal(probe.call.desc.axis, -1);
    refused("\"axis\":2", STATUS_INVALID_AXIS, "parameters.axis");
    refused("\"axis\":-3", STATUS_INVALID_AXIS, "parameters.axis");
    run("\"axis\":-1.0,\"timeout\":1e6,\"priority\":1.0,\"sequence_id\":0.0");
    assert_int_equal(probe.call.desc.axis, -1);
    assert_int_equal(probe.call.timeout_us, 1000000);
    refused("\"axis\":0.5", STATUS_INVALID_FIELD, "parameters.axis");
    refused("\"axis\":\"1\"", STATUS_INVALID_FIELD, "parameters.axis");
}

static void attributes_of_elements_are_read_in_the_type_of_the_output(void **state)
{
    (void)state;
    run("\"output_dtype\":\"FP64\",\"nan\":\"skip\",\"initial\":1e300,\"include_initial\":1");
    const struct scan_desc *desc = &probe.call.desc;
    assert_true(desc->converts && desc->dtype == DTYPE_F64 && desc->input == DTYPE_F32);
    assert_true(desc->nan == SCAN_NAN_SKIP && desc->has_initial && desc->include_initial);
    const double initial = 1e300;
    uint64_t bits = 0;
    memcpy(&bits, &initial, sizeof bits);
    assert_true(desc->initial == bits);
    run("\"output_dtype\":\"float64\"");
    assert_true(probe.call.desc.dtype == DTYPE_F64);
    run("\"initial\":\"-inf\"");
    assert_int_equal(probe.call.desc.initial, 0xFF800000);
    refused("\"initial\":1e300", STATUS_INVALID_FIELD, "parameters.initial");
    refused("\"initial\":true", STATUS_INVALID_FIELD, "parameters.initial");
    refused("\"output_dtype\":\"FP16\"", STATUS_INVALID_DTYPE, "parameters.output_dtype");
    refused("\"output_dtype\":\"BOOL\"", STATUS_INVALID_DTYPE, "parameters.output_dtype");
    refused("\"nan\":0", STATUS_INVALID_FIELD, "parameters.nan");
}

static void flags_are_booleans_0_or_1_or_their_strings(void **state)
{
    (void)state;
    static const char *const yes[] = {"true", "1", "\"true\"", "\"1\""};
    char text[64];
    for (size_t i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "\"exclusive\":%s", yes[i]);
        run(text);
        assert_true(probe.call.desc.exclusive);
        snprintf(text, sizeof text, "\"reverse\":%s", yes[i]);
        run(text);
        assert_true(probe.call.desc.reverse);
    }
    run("\"exclusive\":\"0\",\"reverse\":0");
    assert_false(probe.call.desc.exclusive);
    run("\"exclusive\":0,\"reverse\":\"false\"");
    assert_false(probe.call.desc.exclusive);
    assert_false(probe.call.desc.reverse);
    refused("\"exclusive\":2", STATUS_INVALID_FIELD, "parameters.exclusive");
    refused("\"reverse\":\"yes\"", STATUS_INVALID_FIELD, "parameters.reverse");
}

static void directml_synonyms_are_accepted(void **state)
{
    (void)state;
    run("\"axis_direction\":\"decreasing\",\"has_exclusive_sum\":true");
    assert_true(probe.call.desc.reverse);
    assert_true(probe.call.desc.exclusive);
    run("\"axis_direction\":\"DML_AXIS_DIRECTION_INCREASING\"");
    assert_false(probe.call.desc.reverse);
    run("\"axis_direction\":\"dml_axis_direction_Decreasing\"");
    assert_true(probe.call.desc.reverse);
    refused("\"axis_direction\":\"down\"", STATUS_INVALID_FIELD, "parameters.axis_direction");
}

static void synonyms_that_agree_are_fine_and_others_are_refused(void **state)
{
    (void)state;
    run("\"reverse\":true,\"axis_direction\":\"decreasing\"");
    run("\"exclusive\":true,\"has_exclusive_sum\":1");
    refused("\"reverse\":true,\"axis_direction\":\"increasing\"", STATUS_INVALID_FIELD,
            "parameters.axis_direction");
    refused("\"exclusive\":true,\"has_exclusive_sum\":false", STATUS_INVALID_FIELD,
            "parameters.has_exclusive_sum");
}

static void unknown_parameters_are_refused_and_the_known_ones_named(void **state)
{
    (void)state;
    refused("\"axes\":1", STATUS_UNKNOWN_FIELD, "parameters.axes");
    assert_non_null(strstr(probe.error.detail, "exclusive"));
    refused("\"triton_enable_empty_final_response\":true", STATUS_UNKNOWN_FIELD,
            "parameters.triton_enable_empty_final_response");
    refused("\"headers\":\"x\"", STATUS_UNKNOWN_FIELD, "parameters.headers");
    refused("\"precision\":\"wide\"", STATUS_UNKNOWN_FIELD, "parameters.precision");
}

static void null_arrays_and_objects_are_no_values(void **state)
{
    (void)state;
    static const char *const names[] = {"axis",    "exclusive",         "reverse",
                                        "timeout", "axis_direction",    "priority",
                                        "part",    "binary_data_output"};
    static const char *const values[] = {"null", "[]", "{}"};
    char text[64];
    char field[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (size_t k = 0; k < 3; k++) {
            snprintf(text, sizeof text, "\"%s\":%s", names[i], values[k]);
            snprintf(field, sizeof field, "parameters.%s", names[i]);
            refused(text, STATUS_INVALID_FIELD, field);
        }
    }
    static const char *const placed[] = {"binary_data_size", "shared_memory_region",
                                         "shared_memory_byte_size", "shared_memory_offset"};
    for (size_t i = 0; i < sizeof placed / sizeof *placed; i++) {
        char input[256];
        snprintf(input, sizeof input, "{" X_MEMBERS ",\"parameters\":{\"%s\":null}}",
                 placed[i]);
        snprintf(field, sizeof field, "inputs[0].parameters.%s", placed[i]);
        refused_json(request_of("", input), STATUS_INVALID_FIELD, field);
    }
}

static void timeout_is_in_microseconds(void **state)
{
    (void)state;
    run("\"timeout\":1500");
    assert_int_equal(probe.call.timeout_us, 1500);
    run("");
    assert_int_equal(probe.call.timeout_us, 0);
    refused("\"timeout\":-1", STATUS_INVALID_FIELD, "parameters.timeout");
    run("\"timeout\":18446744073709551615,\"priority\":18446744073709551615");
    assert_int_equal(probe.call.timeout_us, INT64_MAX);
    run("\"timeout\":1e16,\"priority\":9007199254740992.0");
    assert_int_equal(probe.call.timeout_us, INT64_MAX);
    assert_int_equal(probe.call.priority, INT64_MAX);
    run("\"timeout\":1e300");
    assert_int_equal(probe.call.timeout_us, INT64_MAX);
    refused("\"timeout\":-1e300", STATUS_INVALID_FIELD, "parameters.timeout");
}

static void priority_is_as_in_triton(void **state)
{
    (void)state;
    for (uint64_t priority = 0; priority < 9; priority++) {
        char text[32];
        (void)snprintf(text, sizeof text, "\"priority\":%d", (int)priority);
        run(text);
        assert_int_equal(probe.call.priority, priority);
    }
    run("");
    assert_int_equal(probe.call.priority, 0);
    refused("\"priority\":-1", STATUS_INVALID_FIELD, "parameters.priority");
}

static void priority_may_be_a_word_of_the_header(void **state)
{
    (void)state;
    run("\"priority\":\"high\"");
    assert_int_equal(probe.call.priority, 1);
    run("\"priority\":\"normal\"");
    assert_int_equal(probe.call.priority, 2);
    static const char *const others[] = {"", "HIGH", "low", "1", "highest"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char text[48];
        (void)snprintf(text, sizeof text, "\"priority\":\"%s\"", others[i]);
        refused(text, STATUS_INVALID_FIELD, "parameters.priority");
    }
}

static void sequences_are_refused_unless_they_say_none(void **state)
{
    (void)state;
    run("\"sequence_id\":0,\"sequence_start\":false,\"sequence_end\":false");
    run("\"sequence_id\":\"\"");
    refused("\"sequence_id\":1", STATUS_INVALID_FIELD, "parameters.sequence_id");
    refused("\"sequence_id\":\"a\"", STATUS_INVALID_FIELD, "parameters.sequence_id");
    refused("\"sequence_start\":true", STATUS_INVALID_FIELD, "parameters.sequence_start");
    refused("\"sequence_end\":true", STATUS_INVALID_FIELD, "parameters.sequence_end");
}

static void binary_data_output_after_a_timeout_is_read_right(void **state)
{
    (void)state;
    run("\"timeout\":5,\"binary_data_output\":true");
    assert_int_equal(probe.byte_count, 16);
}

static void tensor_parameters_are_taken_too_and_must_agree(void **state)
{
    (void)state;
    const char *input = "{" X_MEMBERS ",\"parameters\":{\"axis\":1,\"reverse\":true}}";
    assert_int_equal(probe_json(&probe, &codec_kserve, request_of("", input)), STATUS_OK);
    assert_int_equal(probe.call.desc.axis, 1);
    assert_true(probe.call.desc.reverse);
    assert_int_equal(probe_json(&probe, &codec_kserve, request_of("\"axis\":1", input)),
                     STATUS_OK);
    refused_json(request_of("\"axis\":0", input), STATUS_INVALID_AXIS,
                 "inputs[0].parameters.axis");
    refused_json(request_of("", "{" X_MEMBERS ",\"parameters\":{\"axs\":1}}"),
                 STATUS_UNKNOWN_FIELD, "inputs[0].parameters.axs");
}

/* ---- models ---- */

static void aliases_scan_the_last_axis_with_their_flags(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        const char *data;
    } rows[] = {{"cumsum_exclusive", "[0.0,1.0,0.0,3.0]"},
                {"cumsum_reverse", "[3.0,2.0,7.0,4.0]"},
                {"cumsum_exclusive_reverse", "[2.0,0.0,4.0,0.0]"},
                {"cumsum_fp32", "[1.0,3.0,3.0,7.0]"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        probe.model = rows[i].model;
        run("");
        assert_non_null(strstr(probe.text, rows[i].data));
        assert_non_null(strstr(probe.text, rows[i].model));
    }
    probe.model = "cumsum_exclusive";
    run("\"exclusive\":false,\"axis\":0"); /* a parameter overrides the alias */
    assert_non_null(strstr(probe.text, "[1.0,2.0,4.0,6.0]"));
    probe.model = "cumsum";
}

static void a_model_of_one_type_refuses_others(void **state)
{
    (void)state;
    probe.model = "cumsum_int64";
    refused("", STATUS_INVALID_DTYPE, "inputs[0].datatype");
    probe.model = "nothing";
    refused("", STATUS_NOT_FOUND, "");
    probe.model = "cumsum";
}

/* ---- the axis as a tensor ---- */

#define AXIS(type, shape, data) \
    "{\"name\":\"axis\",\"shape\":" shape ",\"datatype\":\"" type "\",\"data\":" data "}"

static void an_undeclared_axis_tensor_is_accepted(void **state)
{
    (void)state;
    static const char *const forms[] = {
        AXIS("INT64", "[]", "[1]"),      AXIS("INT32", "[1]", "[1]"),
        AXIS("INT64", "[]", "1"),        AXIS("INT64", "[]", "1.0"),
        AXIS("INT64", "[1.0]", "[1e0]"), AXIS("INT64", "[1]", "[[1]]")};
    char inputs[512];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        snprintf(inputs, sizeof inputs, "{" X_MEMBERS "},%s", forms[i]);
        assert_int_equal(probe_json(&probe, &codec_kserve, request_of("", inputs)), STATUS_OK);
        assert_int_equal(probe.call.desc.axis, 1);
        snprintf(inputs, sizeof inputs, "%s,{" X_MEMBERS "}", forms[i]);
        assert_int_equal(probe_json(&probe, &codec_kserve, request_of("", inputs)), STATUS_OK);
        assert_int_equal(probe.call.desc.axis, 1);
    }
    snprintf(inputs, sizeof inputs, "{" X_MEMBERS "},%s", forms[0]);
    refused_json(request_of("\"axis\":0", inputs), STATUS_INVALID_AXIS, "inputs[1].data");
    assert_int_equal(probe_json(&probe, &codec_kserve, request_of("\"axis\":1", inputs)),
                     STATUS_OK);
}

static void an_axis_tensor_is_one_integer(void **state)
{
    (void)state;
    refused_json(request_of("", "{" X_MEMBERS "}," AXIS("FP32", "[]", "[1]")),
                 STATUS_INVALID_DTYPE, "inputs[1].datatype");
    refused_json(request_of("", "{" X_MEMBERS "}," AXIS("UINT64", "[]", "[1]")),
                 STATUS_INVALID_DTYPE, "inputs[1].datatype");
    refused_json(request_of("", "{" X_MEMBERS "}," AXIS("INT64", "[2]", "[1,1]")),
                 STATUS_INVALID_SHAPE, "inputs[1].shape");
    refused_json(request_of("", "{" X_MEMBERS "}," AXIS("INT64", "[1,1]", "[1]")),
                 STATUS_INVALID_SHAPE, "inputs[1].shape");
    refused_json(request_of("", "{" X_MEMBERS "}," AXIS("INT64", "[]", "1.5")),
                 STATUS_INVALID_FIELD, "inputs[1].data");
}

static void an_axis_out_of_range_is_blamed_on_where_it_was_given(void **state)
{
    (void)state;
    refused_json(request_of("", "{" X_MEMBERS "}," AXIS("INT64", "[]", "[2]")),
                 STATUS_INVALID_AXIS, "inputs[1].data");
    refused_json(request_of("", AXIS("INT64", "[]", "[2]") ",{" X_MEMBERS "}"),
                 STATUS_INVALID_AXIS, "inputs[0].data");
    refused_json(request_of("\"axis\":2", "{" X_MEMBERS "}"), STATUS_INVALID_AXIS,
                 "parameters.axis");
    refused_json(request_of("", "{" X_MEMBERS ",\"parameters\":{\"axis\":2}}"),
                 STATUS_INVALID_AXIS, "inputs[0].parameters.axis");
    probe.query[0] = "axis";
    probe.query[1] = "1";
    probe.head_bytes = 0;
    assert_int_equal(probe_run(&probe, &codec_kserve, "\0\0\200?", 4), STATUS_INVALID_AXIS);
    assert_string_equal(probe.error.field, "axis");
}

static void cumsum_onnx_needs_its_axis(void **state)
{
    (void)state;
    probe.model = "cumsum_onnx";
    refused("", STATUS_MISSING_FIELD, "inputs");
    const char *inputs = "{" X_MEMBERS "}," AXIS("INT64", "[]", "[1]");
    assert_int_equal(
        probe_json(&probe, &codec_kserve, request_of("\"exclusive\":1,\"reverse\":0", inputs)),
        STATUS_OK);
    assert_non_null(strstr(probe.text, "[0.0,1.0,0.0,3.0]"));
    probe.model = "cumsum";
}

#define X_BINARY                                                            \
    "{\"name\":\"x\",\"shape\":[2,2],\"datatype\":\"FP32\",\"parameters\":" \
    "{\"binary_data_size\":16}}"
#define AXIS_BINARY(type, bytes)                                                 \
    "{\"name\":\"axis\",\"shape\":[1],\"datatype\":\"" type "\",\"parameters\":" \
    "{\"binary_data_size\":" bytes "}}"

static void a_binary_axis_is_found_before_and_behind_the_data(void **state)
{
    (void)state;
    struct {
        float x[4];
        int64_t axis;
    } behind = {{1, 2, 3, 4}, 1};
    struct {
        int32_t axis;
        float x[4];
    } before = {-1, {1, 2, 3, 4}};
    const float want[] = {1, 3, 3, 7};
    const char *parameters = "\"binary_data_output\":true";
    assert_int_equal(
        probe_framed(&probe, &codec_kserve,
                     request_of(parameters, X_BINARY "," AXIS_BINARY("INT64", "8")), &behind,
                     24),
        STATUS_OK);
    assert_memory_equal(probe.bytes, want, 16);
    assert_int_equal(
        probe_framed(&probe, &codec_kserve,
                     request_of(parameters, AXIS_BINARY("INT32", "4") "," X_BINARY), &before,
                     20),
        STATUS_OK);
    assert_memory_equal(probe.bytes, want, 16);
    /* An axis tensor beside data in JSON, which contradicts a parameter. */
    int64_t axis = 1;
    assert_int_equal(probe_framed(&probe, &codec_kserve,
                                  request_of("", "{" X_MEMBERS "}," AXIS_BINARY("INT64", "8")),
                                  &axis, 8),
                     STATUS_OK);
    assert_non_null(strstr(probe.text, "[1.0,3.0,3.0,7.0]"));
    assert_int_equal(
        probe_framed(&probe, &codec_kserve,
                     request_of("\"axis\":0", "{" X_MEMBERS "}," AXIS_BINARY("INT64", "8")),
                     &axis, 8),
        STATUS_INVALID_AXIS);
    axis = 5;
    assert_int_equal(probe_framed(&probe, &codec_kserve,
                                  request_of("", "{" X_MEMBERS "}," AXIS_BINARY("INT64", "8")),
                                  &axis, 8),
                     STATUS_INVALID_AXIS);
}

#define AXIS_WITH(parameter)                                                            \
    "{\"name\":\"axis\",\"shape\":[],\"datatype\":\"INT64\",\"data\":1,\"parameters\":" \
    "{\"axis\":" parameter "}}"

static void an_axis_counted_from_either_end_is_the_same(void **state)
{
    (void)state;
    const struct {
        const char *parameters;
        const char *inputs;
        enum status status;
    } rows[] = {
        {"\"axis\":-1", "{" X_MEMBERS "}," AXIS("INT64", "[]", "1"), STATUS_OK},
        {"\"axis\":1", AXIS("INT64", "[]", "-1") ",{" X_MEMBERS "}", STATUS_OK},
        {"\"axis\":1", "{" X_MEMBERS ",\"parameters\":{\"axis\":-1}}", STATUS_OK},
        {"\"axis\":1", AXIS_WITH("-1") ",{" X_MEMBERS "}", STATUS_OK},
        {"\"axis\":-1", AXIS_WITH("1") ",{" X_MEMBERS "}", STATUS_OK},
        {"\"axis\":1", AXIS_WITH("-2") ",{" X_MEMBERS "}", STATUS_INVALID_AXIS},
        {"\"axis\":-2", "{" X_MEMBERS "}," AXIS("INT64", "[]", "1"), STATUS_INVALID_AXIS},
        {"\"axis\":3", "{" X_MEMBERS "}," AXIS("INT64", "[]", "1"), STATUS_INVALID_AXIS},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const char *json = request_of(rows[i].parameters, rows[i].inputs);
        assert_int_equal(probe_json(&probe, &codec_kserve, json), rows[i].status);
        if (rows[i].status == STATUS_OK) {
            assert_non_null(strstr(probe.text, "[1.0,3.0,3.0,7.0]"));
        }
    }
    int64_t axis = 1;
    const char *binary =
        request_of("\"axis\":-1", "{" X_MEMBERS "}," AXIS_BINARY("INT64", "8"));
    assert_int_equal(probe_framed(&probe, &codec_kserve, binary, &axis, 8), STATUS_OK);
}

static void an_axis_may_lie_in_shared_memory(void **state)
{
    (void)state;
    static const int64_t memory[] = {0, -1};
    probe.shm = memory;
    assert_int_equal(
        probe_json(&probe, &codec_kserve,
                   request_of("",
                              "{" X_MEMBERS "},{\"name\":\"axis\",\"shape\":[1],\"datatype\":"
                              "\"INT64\",\"parameters\":{\"shared_memory_region\":\"r\","
                              "\"shared_memory_offset\":8,\"shared_memory_byte_size\":8}}")),
        STATUS_OK);
    assert_int_equal(probe.call.desc.axis, -1);
    assert_non_null(strstr(probe.text, "[1.0,3.0,3.0,7.0]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axis_is_any_dimension_from_either_end),
        cmocka_unit_test(attributes_of_elements_are_read_in_the_type_of_the_output),
        cmocka_unit_test(flags_are_booleans_0_or_1_or_their_strings),
        cmocka_unit_test(directml_synonyms_are_accepted),
        cmocka_unit_test(synonyms_that_agree_are_fine_and_others_are_refused),
        cmocka_unit_test(unknown_parameters_are_refused_and_the_known_ones_named),
        cmocka_unit_test(null_arrays_and_objects_are_no_values),
        cmocka_unit_test(timeout_is_in_microseconds),
        cmocka_unit_test(priority_is_as_in_triton),
        cmocka_unit_test(priority_may_be_a_word_of_the_header),
        cmocka_unit_test(sequences_are_refused_unless_they_say_none),
        cmocka_unit_test(binary_data_output_after_a_timeout_is_read_right),
        cmocka_unit_test(tensor_parameters_are_taken_too_and_must_agree),
        cmocka_unit_test(aliases_scan_the_last_axis_with_their_flags),
        cmocka_unit_test(a_model_of_one_type_refuses_others),
        cmocka_unit_test(an_undeclared_axis_tensor_is_accepted),
        cmocka_unit_test(an_axis_tensor_is_one_integer),
        cmocka_unit_test(an_axis_out_of_range_is_blamed_on_where_it_was_given),
        cmocka_unit_test(cumsum_onnx_needs_its_axis),
        cmocka_unit_test(a_binary_axis_is_found_before_and_behind_the_data),
        cmocka_unit_test(an_axis_counted_from_either_end_is_the_same),
        cmocka_unit_test(an_axis_may_lie_in_shared_memory),
    };
    return PROBE_RUN(tests, "cumsum");
}
