/* The operator of the DirectML API: one test per statement of its reference page, in the order
 * of the page (docs/dialects.md has the table). test_directml_tensor.c tests the rules of
 * tensors. */
#include "tests/unit/dialect_run.h"

#include <stdio.h>
#include <string.h>

#define EXAMPLE_TENSOR "{\"DataType\":\"FLOAT32\",\"Sizes\":[1,1,3,4]}"
#define EXAMPLE_DATA   "[2,1,3,5,3,8,7,3,9,6,2,4]"

/* The parts of a request, as JSON text; NULL leaves a part out. */
struct parts {
    const char *type;
    const char *level;
    const char *input;
    const char *output;
    const char *axis;
    const char *direction;
    const char *exclusive;
    const char *data;
};

static const struct parts example = {.input = EXAMPLE_TENSOR,
                                     .output = EXAMPLE_TENSOR,
                                     .axis = "3",
                                     .direction = "\"DML_AXIS_DIRECTION_INCREASING\"",
                                     .exclusive = "false",
                                     .data = EXAMPLE_DATA};

static void add(char *text, size_t size, const char *key, const char *value)
{
    size_t used = strlen(text);
    if (value != NULL) {
        const char *comma = text[used - 1] == '{' ? "" : ",";
        snprintf(text + used, size - used, "%s\"%s\":%s", comma, key, value);
    }
}

static enum status run(struct parts parts)
{
    char desc[2048] = "{";
    char body[4096] = "{";
    add(desc, sizeof desc, "InputTensor", parts.input);
    add(desc, sizeof desc, "OutputTensor", parts.output);
    add(desc, sizeof desc, "Axis", parts.axis);
    add(desc, sizeof desc, "AxisDirection", parts.direction);
    add(desc, sizeof desc, "HasExclusiveSum", parts.exclusive);
    strcat(desc, "}");
    add(body, sizeof body, "type", parts.type);
    add(body, sizeof body, "feature_level", parts.level);
    add(body, sizeof body, "desc", desc);
    add(body, sizeof body, "data", parts.data);
    strcat(body, "}");
    return probe_json(&probe, &codec_directml, body);
}

/* Check the answer's numbers; its type and sizes must be those of the request. */
static void gives(struct parts parts, const char *data)
{
    char want[1024];
    if (run(parts) != STATUS_OK) {
        fail_msg("%s (%s)", probe.error.detail, probe.error.field);
    }
    snprintf(want, sizeof want, "{\"OutputTensor\":%s,\"data\":%s}", parts.output, data);
    assert_string_equal(probe.text, want);
    assert_string_equal(probe.content_type, "application/json");
}

static void refused(struct parts parts, enum status status, const char *field)
{
    if (run(parts) == STATUS_OK) {
        fail_msg("accepted: %s", probe.text);
    }
    assert_string_equal(probe.error.field, field);
    assert_int_equal(probe.status, status);
    assert_true(probe.error.detail[0] != '\0');
}

/* ---- examples ---- */

static void example_1_sums_across_horizontal_slivers(void **state)
{
    (void)state;
    gives(example, "[2.0,3.0,6.0,11.0,3.0,11.0,18.0,21.0,9.0,15.0,17.0,21.0]");
}

static void example_2_exclusive_sums(void **state)
{
    (void)state;
    struct parts parts = example;
    parts.exclusive = "true";
    gives(parts, "[0.0,2.0,3.0,6.0,0.0,3.0,11.0,18.0,0.0,9.0,15.0,17.0]");
}

static void example_3_axis_direction(void **state)
{
    (void)state;
    struct parts parts = example;
    parts.direction = "\"DML_AXIS_DIRECTION_DECREASING\"";
    gives(parts, "[11.0,9.0,8.0,5.0,21.0,18.0,10.0,3.0,21.0,12.0,6.0,4.0]");
}

static void example_4_sums_along_a_different_axis(void **state)
{
    (void)state;
    struct parts parts = example;
    parts.axis = "2";
    gives(parts, "[2.0,1.0,3.0,5.0,5.0,9.0,10.0,8.0,14.0,15.0,12.0,12.0]");
}

static void the_examples_run_at_every_level_and_edition(void **state)
{
    (void)state;
    static const char *const levels[] = {
        "\"2_1\"", "\"3_0\"", "\"3_1\"", "\"4_0\"", "\"4_1\"", "\"5_0\"", "\"5_1\"",
        "\"5_2\"", "\"6_0\"", "\"6_1\"", "\"6_2\"", "\"6_3\"", "\"6_4\"", "\"2020_10\""};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        struct parts parts = example;
        parts.level = levels[i];
        gives(parts, "[2.0,3.0,6.0,11.0,3.0,11.0,18.0,21.0,9.0,15.0,17.0,21.0]");
    }
}

/* ---- members ---- */

static void every_member_of_the_descriptor_is_required(void **state)
{
    (void)state;
    struct parts parts = example;
    parts.input = NULL;
    refused(parts, STATUS_MISSING_FIELD, "desc.InputTensor");
    parts = example;
    parts.output = NULL;
    refused(parts, STATUS_MISSING_FIELD, "desc.OutputTensor");
    parts = example;
    parts.axis = NULL;
    refused(parts, STATUS_MISSING_FIELD, "desc.Axis");
    parts = example;
    parts.direction = NULL;
    refused(parts, STATUS_MISSING_FIELD, "desc.AxisDirection");
    parts = example;
    parts.exclusive = NULL;
    refused(parts, STATUS_MISSING_FIELD, "desc.HasExclusiveSum");
    parts = example;
    parts.data = NULL;
    refused(parts, STATUS_MISSING_FIELD, "data");
    assert_int_equal(probe_json(&probe, &codec_directml, "{\"data\":[1]}"),
                     STATUS_MISSING_FIELD);
    assert_string_equal(probe.error.field, "desc");
}

static void unknown_members_are_refused_and_the_known_ones_named(void **state)
{
    (void)state;
    struct parts parts = example;
    parts.input = "{\"DataType\":\"FLOAT32\",\"Sizes\":[1,1,3,4],\"Size\":1}";
    refused(parts, STATUS_UNKNOWN_FIELD, "desc.InputTensor.Size");
    assert_non_null(strstr(probe.error.detail, "TotalTensorSizeInBytes"));
    parts = example;
    parts.exclusive = "false,\"HasExclusiveProduct\":false";
    refused(parts, STATUS_UNKNOWN_FIELD, "desc.HasExclusiveProduct");
    parts = example;
    parts.data = EXAMPLE_DATA ",\"axis\":1";
    refused(parts, STATUS_UNKNOWN_FIELD, "axis");
}

static void the_output_must_have_the_same_data_type(void **state)
{
    (void)state;
    struct parts parts = example;
    parts.output = "{\"DataType\":\"INT32\",\"Sizes\":[1,1,3,4]}";
    refused(parts, STATUS_INVALID_DTYPE, "desc.OutputTensor.DataType");
}

static void the_output_must_have_the_same_sizes(void **state)
{
    (void)state;
    struct parts parts = example;
    parts.output = "{\"DataType\":\"FLOAT32\",\"Sizes\":[1,1,4,3]}";
    refused(parts, STATUS_INVALID_SHAPE, "desc.OutputTensor.Sizes[2]");
}

static void the_output_must_have_the_same_dimension_count(void **state)
{
    (void)state;
    struct parts parts = example;
    parts.output = "{\"DataType\":\"FLOAT32\",\"Sizes\":[1,3,4]}";
    refused(parts, STATUS_INVALID_SHAPE, "desc.OutputTensor.Sizes");
}

/* The probe compares the answer with head_max(); here, most of the answer is numbers. */
static void a_long_answer_has_the_room_that_is_foretold(void **state)
{
    (void)state;
    char data[2048] = "[";
    struct parts parts = example;
    for (int i = 0; i < 100; i++) {
        strcat(data, i < 99 ? "-1.2345678e-10," : "1]");
    }
    parts.input = parts.output = "{\"DataType\":\"FLOAT32\",\"Sizes\":[1,1,1,100]}";
    parts.data = data;
    assert_int_equal(run(parts), STATUS_OK);
}

static void axis_is_unsigned_and_less_than_the_dimension_count(void **state)
{
    (void)state;
    static const char *const bad[] = {"4",          "-1",         "-4",
                                      "4294967295", "4294967296", "9223372036854775807"};
    struct parts parts = example;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        parts.axis = bad[i];
        refused(parts, STATUS_INVALID_AXIS, "desc.Axis");
    }
    parts.axis = "0";
    gives(parts, "[2.0,1.0,3.0,5.0,3.0,8.0,7.0,3.0,9.0,6.0,2.0,4.0]");
}

static void axis_must_be_an_integer(void **state)
{
    (void)state;
    static const char *const bad[] = {"2.5", "\"3\"", "null", "true", "[3]"};
    struct parts parts = example;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        parts.axis = bad[i];
        refused(parts, STATUS_INVALID_FIELD, "desc.Axis");
    }
}

static void integers_may_be_written_with_a_point_or_an_exponent(void **state)
{
    (void)state;
    struct parts parts = example;
    parts.axis = "0.0";
    parts.input =
        "{\"DataType\":\"FLOAT32\",\"Sizes\":[1.0,1e0,3,40.0e-1],\"DimensionCount\":4.0}";
    gives(parts, "[2.0,1.0,3.0,5.0,3.0,8.0,7.0,3.0,9.0,6.0,2.0,4.0]");
    parts.axis = "-1.0";
    refused(parts, STATUS_INVALID_AXIS, "desc.Axis");
}

static void axis_direction_is_one_of_two_names_with_or_without_prefix(void **state)
{
    (void)state;
    static const char *const bad[] = {"\"increasing\"",
                                      "\"DML_AXIS_DIRECTION_\"",
                                      "\"UP\"",
                                      "\"DML_AXIS_DIRECTION_DML_AXIS_DIRECTION_INCREASING\"",
                                      "\"\"",
                                      "0",
                                      "1",
                                      "true",
                                      "null"};
    struct parts parts = example;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        parts.direction = bad[i];
        refused(parts, STATUS_INVALID_FIELD, "desc.AxisDirection");
    }
    parts.direction = "\"INCREASING\"";
    assert_int_equal(run(parts), STATUS_OK);
    assert_false(probe.call.desc.reverse);
    parts.direction = "\"DECREASING\"";
    assert_int_equal(run(parts), STATUS_OK);
    assert_true(probe.call.desc.reverse);
}

static void has_exclusive_sum_is_a_json_boolean(void **state)
{
    (void)state;
    static const char *const bad[] = {"0", "1", "\"true\"", "\"FALSE\"", "null", "[]"};
    struct parts parts = example;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        parts.exclusive = bad[i];
        refused(parts, STATUS_INVALID_FIELD, "desc.HasExclusiveSum");
    }
}

static void type_names_this_operator_with_or_without_prefix(void **state)
{
    (void)state;
    struct parts parts = example;
    parts.type = "\"DML_OPERATOR_CUMULATIVE_SUMMATION\"";
    assert_int_equal(run(parts), STATUS_OK);
    parts.type = "\"CUMULATIVE_SUMMATION\"";
    assert_int_equal(run(parts), STATUS_OK);
    parts.type = "\"DML_OPERATOR_CUMULATIVE_PRODUCT\"";
    refused(parts, STATUS_INVALID_FIELD, "type");
    parts.type = "105";
    refused(parts, STATUS_INVALID_FIELD, "type");
}

/* ---- availability and tensor support ---- */

static void the_operator_was_introduced_at_level_2_1(void **state)
{
    (void)state;
    struct parts parts = example;
    parts.level = "\"2_0\"";
    refused(parts, STATUS_INVALID_FIELD, "feature_level");
    assert_non_null(strstr(probe.error.detail, "DML_FEATURE_LEVEL_2_1"));
    parts.level = "\"DML_FEATURE_LEVEL_1_0\"";
    refused(parts, STATUS_INVALID_FIELD, "feature_level");
}

static void levels_are_named_with_or_without_prefix(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\"5\"", "\"5.0\"", "\"7_0\"", "\"dml_feature_level_5_0\"",    "\"DML_FEATURE_LEVEL_\"",
        "5",     "null",    "\"\"",    "\"DML_FEATURE_LEVEL_2020_10\""};
    struct parts parts = example;
    parts.level = "\"DML_FEATURE_LEVEL_5_0\"";
    assert_int_equal(run(parts), STATUS_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        parts.level = bad[i];
        refused(parts, STATUS_INVALID_FIELD, "feature_level");
    }
}

/* Check every type at a level: accepted with unchanged values if listed, else refused. */
static void supports(const char *level, const char *const *types, size_t count)
{
    static const char *const all[] = {"FLOAT32", "FLOAT16", "FLOAT64", "INT8",   "INT16",
                                      "INT32",   "INT64",   "UINT8",   "UINT16", "UINT32",
                                      "UINT64",  "UNKNOWN", "UINT4",   "INT4"};
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", level);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char tensor[128];
        snprintf(tensor, sizeof tensor, "{\"DataType\":\"%s\",\"Sizes\":[1,1,1,2]}", all[i]);
        struct parts parts = example;
        parts.level = quoted;
        parts.input = tensor;
        parts.output = tensor;
        parts.data = "[1,2]";
        bool listed = false;
        for (size_t k = 0; k < count; k++) {
            listed = listed || strcmp(types[k], all[i]) == 0;
        }
        if (listed) {
            gives(parts, strncmp(all[i], "FLOAT", 5) == 0 ? "[1.0,3.0]" : "[1,3]");
        } else {
            refused(parts, STATUS_INVALID_DTYPE, "desc.InputTensor.DataType");
        }
    }
}

/* Check that tensors of 0 to 9 dimensions of size 1 are accepted from `least` to `most`
 * dimensions. */
static void dimensions(const char *level, int least, int most)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", level);
    for (int dims = 0; dims <= 9; dims++) {
        char tensor[128] = "{\"DataType\":\"FLOAT32\",\"Sizes\":[";
        for (int i = 0; i < dims; i++) {
            strcat(tensor, i > 0 ? ",1" : "1");
        }
        strcat(tensor, "]}");
        struct parts parts = example;
        parts.level = quoted;
        parts.input = tensor;
        parts.output = tensor;
        parts.axis = "0";
        parts.data = "[7]";
        if (dims >= least && dims <= most) {
            gives(parts, "[7.0]");
        } else {
            refused(parts, STATUS_INVALID_SHAPE, "desc.InputTensor.Sizes");
        }
    }
}

static const char *const types_2_1[] = {"FLOAT32", "FLOAT16", "INT32", "UINT32"};
static const char *const types_5_0[] = {"FLOAT32", "FLOAT16", "INT64",
                                        "INT32",   "UINT64",  "UINT32"};
static const char *const types_2020[] = {"FLOAT32", "FLOAT16", "UINT32", "UINT16"};

static void level_5_0_and_above_support_64_bit_integers(void **state)
{
    (void)state;
    static const char *const levels[] = {"5_0", "5_1", "5_2", "6_0",
                                         "6_1", "6_2", "6_3", "6_4"};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        supports(levels[i], types_5_0, 6);
    }
}

static void level_5_0_and_above_support_1_to_8_dimensions(void **state)
{
    (void)state;
    static const char *const levels[] = {"5_0", "5_1", "5_2", "6_0",
                                         "6_1", "6_2", "6_3", "6_4"};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        dimensions(levels[i], 1, 8);
    }
}

static void levels_4_0_and_4_1_support_four_types(void **state)
{
    (void)state;
    supports("4_0", types_2_1, 4);
    supports("4_1", types_2_1, 4);
}

static void levels_4_0_and_4_1_support_1_to_8_dimensions(void **state)
{
    (void)state;
    dimensions("4_0", 1, 8);
    dimensions("4_1", 1, 8);
}

static void levels_2_1_to_3_1_support_four_types(void **state)
{
    (void)state;
    supports("2_1", types_2_1, 4);
    supports("3_0", types_2_1, 4);
    supports("3_1", types_2_1, 4);
}

static void levels_2_1_to_3_1_support_exactly_4_dimensions(void **state)
{
    (void)state;
    dimensions("2_1", 4, 4);
    dimensions("3_0", 4, 4);
    dimensions("3_1", 4, 4);
}

static void the_2020_edition_supports_uint16_and_no_int32(void **state)
{
    (void)state;
    supports("2020_10", types_2020, 4);
}

static void the_2020_edition_supports_exactly_4_dimensions(void **state)
{
    (void)state;
    dimensions("2020_10", 4, 4);
}

static void without_a_level_it_is_5_0(void **state)
{
    (void)state;
    struct parts parts = example;
    parts.input = parts.output = "{\"DataType\":\"UINT64\",\"Sizes\":[2]}";
    parts.axis = "0";
    parts.data = "[18446744073709551615,2]";
    gives(parts, "[18446744073709551615,1]");
}

static void query_parameters_are_refused(void **state)
{
    (void)state;
    probe.query[0] = "axis";
    probe.query[1] = "1";
    refused(example, STATUS_UNKNOWN_FIELD, "axis");
    probe.query[0] = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_1_sums_across_horizontal_slivers),
        cmocka_unit_test(example_2_exclusive_sums),
        cmocka_unit_test(example_3_axis_direction),
        cmocka_unit_test(example_4_sums_along_a_different_axis),
        cmocka_unit_test(the_examples_run_at_every_level_and_edition),
        cmocka_unit_test(every_member_of_the_descriptor_is_required),
        cmocka_unit_test(unknown_members_are_refused_and_the_known_ones_named),
        cmocka_unit_test(the_output_must_have_the_same_data_type),
        cmocka_unit_test(the_output_must_have_the_same_sizes),
        cmocka_unit_test(the_output_must_have_the_same_dimension_count),
        cmocka_unit_test(a_long_answer_has_the_room_that_is_foretold),
        cmocka_unit_test(axis_is_unsigned_and_less_than_the_dimension_count),
        cmocka_unit_test(axis_must_be_an_integer),
        cmocka_unit_test(integers_may_be_written_with_a_point_or_an_exponent),
        cmocka_unit_test(axis_direction_is_one_of_two_names_with_or_without_prefix),
        cmocka_unit_test(has_exclusive_sum_is_a_json_boolean),
        cmocka_unit_test(type_names_this_operator_with_or_without_prefix),
        cmocka_unit_test(the_operator_was_introduced_at_level_2_1),
        cmocka_unit_test(levels_are_named_with_or_without_prefix),
        cmocka_unit_test(level_5_0_and_above_support_64_bit_integers),
        cmocka_unit_test(level_5_0_and_above_support_1_to_8_dimensions),
        cmocka_unit_test(levels_4_0_and_4_1_support_four_types),
        cmocka_unit_test(levels_4_0_and_4_1_support_1_to_8_dimensions),
        cmocka_unit_test(levels_2_1_to_3_1_support_four_types),
        cmocka_unit_test(levels_2_1_to_3_1_support_exactly_4_dimensions),
        cmocka_unit_test(the_2020_edition_supports_uint16_and_no_int32),
        cmocka_unit_test(the_2020_edition_supports_exactly_4_dimensions),
        cmocka_unit_test(without_a_level_it_is_5_0),
        cmocka_unit_test(query_parameters_are_refused),
    };
    return PROBE_RUN(tests, NULL);
}
