/* The tensors of the DirectML API: DML_TENSOR_DESC, DML_BUFFER_TENSOR_DESC, and the buffers
 * that they describe, as text and as bytes. */
#include "tests/unit/dialect_run.h"

#include <stdio.h>
#include <string.h>

static char request[8192];

/* A request for axis 0, increasing, inclusive; data NULL: a binary request. */
static const char *request_of(const char *input, const char *output, const char *data)
{
    snprintf(request, sizeof request,
             "{\"desc\":{\"InputTensor\":%s,\"OutputTensor\":%s,\"Axis\":0,"
             "\"AxisDirection\":\"INCREASING\",\"HasExclusiveSum\":false}%s%s}",
             input, output, data != NULL ? ",\"data\":" : "", data != NULL ? data : "");
    return request;
}

static void gives(const char *input, const char *output, const char *data, const char *want)
{
    if (probe_json(&probe, &codec_directml, request_of(input, output, data)) != STATUS_OK) {
        fail_msg("%s (%s)", probe.error.detail, probe.error.field);
    }
    const char *got = strstr(probe.text, "\"data\":");
    assert_non_null(got);
    assert_memory_equal(got + 7, want, strlen(want));
}

static void refused(const char *input, const char *output, const char *data, enum status status,
                    const char *field)
{
    if (probe_json(&probe, &codec_directml, request_of(input, output, data)) == STATUS_OK) {
        fail_msg("accepted: %s", probe.text);
    }
    assert_string_equal(probe.error.field, field);
    assert_int_equal(probe.status, status);
}

/* Check that the input is refused. The output has the same description. */
static void input_refused(const char *input, enum status status, const char *field)
{
    refused(input, input, "[1,2]", status, field);
}

#define F32(members) "{\"DataType\":\"FLOAT32\"," members "}"

/* ---- members ---- */

static void data_type_and_sizes_are_required(void **state)
{
    (void)state;
    input_refused("{\"Sizes\":[2]}", STATUS_MISSING_FIELD, "desc.InputTensor.DataType");
    input_refused("{\"DataType\":\"FLOAT32\"}", STATUS_MISSING_FIELD, "desc.InputTensor.Sizes");
}

static void data_type_names_are_case_sensitive_with_or_without_prefix(void **state)
{
    (void)state;
    const char *full = "{\"DataType\":\"DML_TENSOR_DATA_TYPE_FLOAT32\",\"Sizes\":[2]}";
    gives(full, F32("\"Sizes\":[2]"), "[1,2]", "[1.0,3.0]");
    static const char *const bad[] = {
        "\"float32\"", "\"FP32\"", "\"DML_FLOAT32\"", "\"\"", "\"DML_TENSOR_DATA_TYPE_\"",
        "\"BFLOAT16\""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char tensor[128];
        snprintf(tensor, sizeof tensor, "{\"DataType\":%s,\"Sizes\":[2]}", bad[i]);
        input_refused(tensor, STATUS_INVALID_DTYPE, "desc.InputTensor.DataType");
    }
    input_refused("{\"DataType\":1,\"Sizes\":[2]}", STATUS_INVALID_FIELD,
                  "desc.InputTensor.DataType");
}

static void the_wrapped_form_is_accepted_and_repeated(void **state)
{
    (void)state;
    const char *wrapped = "{\"Type\":\"DML_TENSOR_TYPE_BUFFER\",\"Desc\":{\"DataType\":"
                          "\"FLOAT32\",\"Sizes\":[2]}}";
    gives(wrapped, wrapped, "[1,2]", "[1.0,3.0]");
    char want[256];
    snprintf(want, sizeof want, "{\"OutputTensor\":%s,", wrapped);
    assert_memory_equal(probe.text, want, strlen(want));
    input_refused("{\"Type\":\"DML_TENSOR_TYPE_BUFFER\"}", STATUS_MISSING_FIELD,
                  "desc.InputTensor.Desc");
    input_refused("{\"Desc\":{\"DataType\":\"FLOAT32\",\"Sizes\":[2]}}", STATUS_MISSING_FIELD,
                  "desc.InputTensor.Type");
    input_refused("{\"Type\":\"DML_TENSOR_TYPE_INVALID\",\"Desc\":{}}", STATUS_INVALID_FIELD,
                  "desc.InputTensor.Type");
    input_refused("{\"Type\":\"BUFFER\",\"Desc\":{\"DataType\":\"FLOAT32\",\"Sizes\":[0]}}",
                  STATUS_INVALID_SHAPE, "desc.InputTensor.Desc.Sizes[0]");
}

static void dimension_count_must_count_the_sizes(void **state)
{
    (void)state;
    gives(F32("\"Sizes\":[2],\"DimensionCount\":1"), F32("\"Sizes\":[2]"), "[1,2]",
          "[1.0,3.0]");
    input_refused(F32("\"Sizes\":[2],\"DimensionCount\":2"), STATUS_INVALID_SHAPE,
                  "desc.InputTensor.DimensionCount");
    input_refused(F32("\"Sizes\":[2],\"DimensionCount\":4294967295"), STATUS_INVALID_SHAPE,
                  "desc.InputTensor.DimensionCount");
    input_refused(F32("\"Sizes\":[2],\"DimensionCount\":-1"), STATUS_INVALID_FIELD,
                  "desc.InputTensor.DimensionCount");
}

static void a_size_of_zero_is_an_error(void **state)
{
    (void)state;
    input_refused(F32("\"Sizes\":[2,0,3]"), STATUS_INVALID_SHAPE, "desc.InputTensor.Sizes[1]");
}

static void sizes_are_32_bit_unsigned(void **state)
{
    (void)state;
    input_refused(F32("\"Sizes\":[1,-2]"), STATUS_INVALID_SHAPE, "desc.InputTensor.Sizes[1]");
    input_refused(F32("\"Sizes\":[4294967296]"), STATUS_INVALID_SHAPE,
                  "desc.InputTensor.Sizes[0]");
    input_refused(F32("\"Sizes\":[2.5]"), STATUS_INVALID_FIELD, "desc.InputTensor.Sizes[0]");
    input_refused(F32("\"Sizes\":2"), STATUS_INVALID_FIELD, "desc.InputTensor.Sizes");
}

static void a_tensor_has_at_most_2_to_32_minus_1_elements(void **state)
{
    (void)state;
    input_refused(F32("\"Sizes\":[65536,65536]"), STATUS_INVALID_SHAPE,
                  "desc.InputTensor.Sizes");
    input_refused(F32("\"Sizes\":[4294967295,4294967295,4294967295,4294967295]"),
                  STATUS_INVALID_SHAPE, "desc.InputTensor.Sizes");
    input_refused(F32("\"Sizes\":[2,2],\"Strides\":[4294967295,1]"), STATUS_INVALID_STRIDES,
                  "desc.InputTensor.Strides");
    /* The largest allowed number: only the missing data are an error. */
    input_refused(F32("\"Sizes\":[65535,65537]"), STATUS_LENGTH_MISMATCH, "data");
}

static void strides_are_one_per_dimension(void **state)
{
    (void)state;
    input_refused(F32("\"Sizes\":[2,1],\"Strides\":[1]"), STATUS_INVALID_STRIDES,
                  "desc.InputTensor.Strides");
}

static void strides_are_32_bit_unsigned(void **state)
{
    (void)state;
    input_refused(F32("\"Sizes\":[2],\"Strides\":[-1]"), STATUS_INVALID_STRIDES,
                  "desc.InputTensor.Strides[0]");
    input_refused(F32("\"Sizes\":[1],\"Strides\":[4294967296]"), STATUS_INVALID_STRIDES,
                  "desc.InputTensor.Strides[0]");
}

static void null_strides_are_packed(void **state)
{
    (void)state;
    gives(F32("\"Sizes\":[2],\"Strides\":null"), F32("\"Sizes\":[2]"), "[1,2]", "[1.0,3.0]");
}

static void a_stride_of_zero_broadcasts_an_input(void **state)
{
    (void)state;
    gives(F32("\"Sizes\":[3],\"Strides\":[0]"), F32("\"Sizes\":[3]"), "[2]", "[2.0,4.0,6.0]");
}

static void strides_pad_and_transpose_an_input(void **state)
{
    (void)state;
    gives(F32("\"Sizes\":[2,2],\"Strides\":[4,1]"), F32("\"Sizes\":[2,2]"), "[1,2,77,77,3,4]",
          "[1.0,2.0,4.0,6.0]");
    gives(F32("\"Sizes\":[2,2],\"Strides\":[1,2]"), F32("\"Sizes\":[2,2]"), "[1,2,3,4]",
          "[1.0,3.0,3.0,7.0]");
}

static void the_stride_of_a_size_1_dimension_does_not_matter(void **state)
{
    (void)state;
    gives(F32("\"Sizes\":[2,1],\"Strides\":[1,4294967295]"), F32("\"Sizes\":[2,1]"), "[1,2]",
          "[1.0,3.0]");
}

static void output_strides_lay_out_the_answer_with_zero_gaps(void **state)
{
    (void)state;
    gives(F32("\"Sizes\":[2,2]"), F32("\"Sizes\":[2,2],\"Strides\":[4,1]"), "[1,2,3,4]",
          "[1.0,2.0,0.0,0.0,4.0,6.0]");
    /* The output has so many cells that the service allocates no buffer for it. */
    gives(F32("\"Sizes\":[1,2]"), F32("\"Sizes\":[1,2],\"Strides\":[1,17]"), "[1,2]",
          "[1.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,2.0]}");
    gives(F32("\"Sizes\":[1,2]"),
          F32("\"Sizes\":[1,2],\"Strides\":[1,17],\"TotalTensorSizeInBytes\":80"), "[1,2]",
          "[1.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,2.0,0.0,0.0]}");
}

static void an_output_whose_elements_share_an_address_is_refused(void **state)
{
    (void)state;
    refused(F32("\"Sizes\":[2,2]"), F32("\"Sizes\":[2,2],\"Strides\":[1,1]"), "[1,2,3,4]",
            STATUS_INVALID_STRIDES, "desc.OutputTensor.Strides");
    refused(F32("\"Sizes\":[2,2]"), F32("\"Sizes\":[2,2],\"Strides\":[0,1]"), "[1,2,3,4]",
            STATUS_INVALID_STRIDES, "desc.OutputTensor.Strides");
}

static void total_size_must_reach_the_minimum_rounded_to_4_bytes(void **state)
{
    (void)state;
    input_refused(F32("\"Sizes\":[2],\"TotalTensorSizeInBytes\":7"), STATUS_INVALID_FIELD,
                  "desc.InputTensor.TotalTensorSizeInBytes");
    input_refused(F32("\"Sizes\":[2],\"TotalTensorSizeInBytes\":-1"), STATUS_INVALID_FIELD,
                  "desc.InputTensor.TotalTensorSizeInBytes");
    gives(F32("\"Sizes\":[2],\"TotalTensorSizeInBytes\":8"), F32("\"Sizes\":[2]"), "[1,2]",
          "[1.0,3.0]");
    /* three float16 are 6 bytes, rounded up to 8 */
    input_refused("{\"DataType\":\"FLOAT16\",\"Sizes\":[3],\"TotalTensorSizeInBytes\":6}",
                  STATUS_INVALID_FIELD, "desc.InputTensor.TotalTensorSizeInBytes");
    assert_non_null(strstr(probe.error.detail, "at least 8"));
}

static void total_size_of_strided_tensors_counts_the_reach(void **state)
{
    (void)state;
    /* ((2-1)*8 + (3-1)*1 + 1) * 4 = 44 */
    input_refused(F32("\"Sizes\":[2,3],\"Strides\":[8,1],\"TotalTensorSizeInBytes\":43"),
                  STATUS_INVALID_FIELD, "desc.InputTensor.TotalTensorSizeInBytes");
    gives(F32("\"Sizes\":[2,3],\"Strides\":[8,1],\"TotalTensorSizeInBytes\":44"),
          F32("\"Sizes\":[2,3]"), "[1,2,3,0,0,0,0,0,4,5,6]", "[1.0,2.0,3.0,5.0,7.0,9.0]");
    /* broadcast {3,2,5} strides {0,0,1}: 20 bytes */
    gives(F32("\"Sizes\":[3,2,5],\"Strides\":[0,0,1],\"TotalTensorSizeInBytes\":20"),
          F32("\"Sizes\":[3,2,5]"), "[1,2,3,4,5]", "[1.0,2.0,3.0,4.0,5.0,1.0,");
}

static void total_size_zero_is_the_minimum(void **state)
{
    (void)state;
    gives(F32("\"Sizes\":[2],\"TotalTensorSizeInBytes\":0"),
          F32("\"Sizes\":[2],\"TotalTensorSizeInBytes\":0"), "[1,2]", "[1.0,3.0]");
}

static void a_larger_total_size_leaves_room_behind_the_elements(void **state)
{
    (void)state;
    gives(F32("\"Sizes\":[2],\"TotalTensorSizeInBytes\":16"),
          F32("\"Sizes\":[2],\"TotalTensorSizeInBytes\":16"), "[1,2,9,9]", "[1.0,3.0,0.0,0.0]");
    gives(F32("\"Sizes\":[2,2]"),
          F32("\"Sizes\":[2,2],\"Strides\":[3,1],\"TotalTensorSizeInBytes\":28"), "[1,2,3,4]",
          "[1.0,2.0,0.0,4.0,6.0,0.0,0.0]");
    gives(F32("\"Sizes\":[2],\"TotalTensorSizeInBytes\":16"), F32("\"Sizes\":[2]"), "[1,2,9]",
          "[1.0,3.0]}");
    refused(F32("\"Sizes\":[2],\"TotalTensorSizeInBytes\":16"), F32("\"Sizes\":[2]"),
            "[1,2,9,9,9]", STATUS_LENGTH_MISMATCH, "data");
}

static void alignment_is_zero_or_a_power_of_two_of_at_least_the_element(void **state)
{
    (void)state;
    static const char *const bad[] = {"1", "2", "3", "12", "4294967295"};
    static const char *const good[] = {"0", "4", "8", "16", "256", "2147483648"};
    char tensor[160];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(tensor, sizeof tensor,
                 F32("\"Sizes\":[2],\"GuaranteedBaseOffsetAlignment\":%s"), bad[i]);
        input_refused(tensor, STATUS_INVALID_FIELD,
                      "desc.InputTensor.GuaranteedBaseOffsetAlignment");
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(tensor, sizeof tensor,
                 F32("\"Sizes\":[2],\"GuaranteedBaseOffsetAlignment\":%s"), good[i]);
        gives(tensor, tensor, "[1,2]", "[1.0,3.0]");
    }
}

static void owned_by_dml_is_for_inputs_only(void **state)
{
    (void)state;
    const char *owned = F32("\"Sizes\":[2],\"Flags\":\"OWNED_BY_DML\"");
    gives(owned, F32("\"Sizes\":[2]"), "[1,2]", "[1.0,3.0]");
    refused(F32("\"Sizes\":[2]"), owned, "[1,2]", STATUS_INVALID_FIELD,
            "desc.OutputTensor.Flags");
    static const char *const lists[] = {"[\"NONE\",\"OWNED_BY_DML\"]",
                                        "[\"OWNED_BY_DML\",\"NONE\"]"};
    for (size_t i = 0; i < 2; i++) {
        char output[128];
        snprintf(output, sizeof output, F32("\"Sizes\":[2],\"Flags\":%s"), lists[i]);
        refused(F32("\"Sizes\":[2]"), output, "[1,2]", STATUS_INVALID_FIELD,
                "desc.OutputTensor.Flags");
    }
}

static void a_number_out_of_range_is_offered_types_of_the_level_only(void **state)
{
    (void)state;
    static const char *const levels[] = {"4_1", "5_0"};
    for (size_t i = 0; i < 2; i++) {
        const char *int32 = "{\"DataType\":\"INT32\",\"Sizes\":[2]}";
        char json[sizeof request + 40];
        snprintf(json, sizeof json, "{\"feature_level\":\"%s\",%s", levels[i],
                 request_of(int32, int32, "[1,3000000000]") + 1);
        assert_int_equal(probe_json(&probe, &codec_directml, json), STATUS_INVALID_DATA);
        assert_non_null(strstr(probe.error.detail,
                               i == 0 ? "; uint32 takes it" : "; int64 and uint64 take it"));
    }
}

static void flags_are_a_name_or_an_array_of_names(void **state)
{
    (void)state;
    static const char *const good[] = {"\"NONE\"", "\"DML_TENSOR_FLAG_NONE\"",
                                       "\"DML_TENSOR_FLAG_OWNED_BY_DML\"", "[]",
                                       "[\"NONE\",\"OWNED_BY_DML\"]"};
    char tensor[160];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(tensor, sizeof tensor, F32("\"Sizes\":[2],\"Flags\":%s"), good[i]);
        gives(tensor, F32("\"Sizes\":[2]"), "[1,2]", "[1.0,3.0]");
    }
    input_refused(F32("\"Sizes\":[2],\"Flags\":\"none\""), STATUS_INVALID_FIELD,
                  "desc.InputTensor.Flags");
    input_refused(F32("\"Sizes\":[2],\"Flags\":[\"NONE\",\"OWNED\"]"), STATUS_INVALID_FIELD,
                  "desc.InputTensor.Flags[1]");
    input_refused(F32("\"Sizes\":[2],\"Flags\":1"), STATUS_INVALID_FIELD,
                  "desc.InputTensor.Flags");
}

/* ---- data ---- */

static void data_must_be_flat_and_cover_the_layout(void **state)
{
    (void)state;
    const char *tensor = F32("\"Sizes\":[2,2]");
    refused(tensor, tensor, "[[1,2],[3,4]]", STATUS_INVALID_DATA, "data");
    refused(tensor, tensor, "[1,2,3]", STATUS_LENGTH_MISMATCH, "data");
    refused(tensor, tensor, "[1,2,3,4,5]", STATUS_LENGTH_MISMATCH, "data");
    refused(tensor, tensor, "7", STATUS_INVALID_FIELD, "data");
    refused(tensor, tensor, "[1,2,3,\"x\"]", STATUS_INVALID_DATA, "data[3]");
}

static void non_finite_data_are_words_in_any_case_bare_or_quoted(void **state)
{
    (void)state;
    const char *tensor = F32("\"Sizes\":[1,2]");
    gives(tensor, tensor, "[\"NaN\",\"nan\"]", "[\"NaN\",\"NaN\"]");
    gives(tensor, tensor, "[\"Inf\",\"-inf\"]", "[\"Infinity\",\"-Infinity\"]");
    gives(tensor, tensor, "[\"-INF\",\"Infinity\"]", "[\"-Infinity\",\"Infinity\"]");
    gives(tensor, tensor, "[NaN,null]", "[\"NaN\",\"NaN\"]");
    gives(tensor, tensor, "[-Infinity,\"+Infinity\"]", "[\"-Infinity\",\"Infinity\"]");
    const char *integers = "{\"DataType\":\"INT32\",\"Sizes\":[1,2]}";
    refused(integers, integers, "[1,NaN]", STATUS_INVALID_DATA, "data[1]");
    refused(integers, integers, "[1,null]", STATUS_INVALID_DATA, "data[1]");
}

/* ---- binary requests ---- */

static void bytes(const char *json, const void *payload, size_t count)
{
    if (probe_framed(&probe, &codec_directml, json, payload, count) != STATUS_OK) {
        fail_msg("%s (%s)", probe.error.detail, probe.error.field);
    }
}

static void binary_requests_are_answered_in_the_same_framing(void **state)
{
    (void)state;
    const float in[] = {1, 2};
    const float want[] = {1, 3};
    bytes(request_of(F32("\"Sizes\":[2]"), F32("\"Sizes\":[2]"), NULL), in, sizeof in);
    assert_string_equal(probe.text, "{\"OutputTensor\":" F32("\"Sizes\":[2]") "}");
    char length[32];
    snprintf(length, sizeof length, "%zu", strlen(probe.text));
    assert_string_equal(probe.header, length);
    assert_string_equal(probe.content_type, "application/octet-stream");
    assert_int_equal(probe.byte_count, sizeof want);
    assert_memory_equal(probe.bytes, want, sizeof want);
}

static void binary_input_is_the_total_or_the_minimum_rounded_or_not(void **state)
{
    (void)state;
    const uint16_t in[] = {0x3C00, 0x3C00, 0x3C00, 0x7777, 0x7777, 0x7777, 0x7777, 0x7777};
    const uint16_t want[] = {0x3C00, 0x4000, 0x4200, 0};
    const char *json =
        request_of("{\"DataType\":\"FLOAT16\",\"Sizes\":[3],\"TotalTensorSizeInBytes\":16}",
                   "{\"DataType\":\"FLOAT16\",\"Sizes\":[3]}", NULL);
    static const size_t good[] = {6, 8, 16};
    static const size_t bad[] = {0, 4, 7, 10, 12, 14, 15};
    for (int chunked = 0; chunked < 2; chunked++) {
        probe.chunked = chunked != 0;
        for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
            bytes(json, in, good[i]);
            assert_int_equal(probe.byte_count, 8); /* the whole output buffer: DWORD-sized */
            assert_memory_equal(probe.bytes, want, 8);
        }
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            assert_int_equal(probe_framed(&probe, &codec_directml, json, in, bad[i]),
                             STATUS_LENGTH_MISMATCH);
        }
    }
    probe.chunked = false;
}

static void binary_output_has_its_total_size_with_a_zero_tail(void **state)
{
    (void)state;
    const float in[] = {1, 2};
    const float want[] = {1, 3, 0, 0};
    bytes(request_of(F32("\"Sizes\":[2]"), F32("\"Sizes\":[2],\"TotalTensorSizeInBytes\":16"),
                     NULL),
          in, sizeof in);
    assert_int_equal(probe.byte_count, 16);
    assert_memory_equal(probe.bytes, want, 16);
}

static void data_and_payload_together_are_refused(void **state)
{
    (void)state;
    const char *json = request_of(F32("\"Sizes\":[2]"), F32("\"Sizes\":[2]"), "[1,2]");
    assert_int_equal(probe_framed(&probe, &codec_directml, json, "abcdefgh", 8),
                     STATUS_LENGTH_MISMATCH);
    /* A body that is only JSON may have the header field with the length of its JSON. */
    bytes(json, "", 0);
    assert_string_equal(probe.content_type, "application/json");
}

static void a_header_longer_than_the_body_is_refused(void **state)
{
    (void)state;
    probe.head_bytes = 100;
    assert_int_equal(probe_run(&probe, &codec_directml, "{}", 2), STATUS_INVALID_REQUEST);
    assert_string_equal(probe.error.field, "Inference-Header-Content-Length");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_type_and_sizes_are_required),
        cmocka_unit_test(data_type_names_are_case_sensitive_with_or_without_prefix),
        cmocka_unit_test(the_wrapped_form_is_accepted_and_repeated),
        cmocka_unit_test(dimension_count_must_count_the_sizes),
        cmocka_unit_test(a_size_of_zero_is_an_error),
        cmocka_unit_test(sizes_are_32_bit_unsigned),
        cmocka_unit_test(a_tensor_has_at_most_2_to_32_minus_1_elements),
        cmocka_unit_test(strides_are_one_per_dimension),
        cmocka_unit_test(strides_are_32_bit_unsigned),
        cmocka_unit_test(null_strides_are_packed),
        cmocka_unit_test(a_stride_of_zero_broadcasts_an_input),
        cmocka_unit_test(strides_pad_and_transpose_an_input),
        cmocka_unit_test(the_stride_of_a_size_1_dimension_does_not_matter),
        cmocka_unit_test(output_strides_lay_out_the_answer_with_zero_gaps),
        cmocka_unit_test(an_output_whose_elements_share_an_address_is_refused),
        cmocka_unit_test(total_size_must_reach_the_minimum_rounded_to_4_bytes),
        cmocka_unit_test(total_size_of_strided_tensors_counts_the_reach),
        cmocka_unit_test(total_size_zero_is_the_minimum),
        cmocka_unit_test(a_larger_total_size_leaves_room_behind_the_elements),
        cmocka_unit_test(alignment_is_zero_or_a_power_of_two_of_at_least_the_element),
        cmocka_unit_test(owned_by_dml_is_for_inputs_only),
        cmocka_unit_test(flags_are_a_name_or_an_array_of_names),
        cmocka_unit_test(data_must_be_flat_and_cover_the_layout),
        cmocka_unit_test(non_finite_data_are_words_in_any_case_bare_or_quoted),
        cmocka_unit_test(a_number_out_of_range_is_offered_types_of_the_level_only),
        cmocka_unit_test(binary_requests_are_answered_in_the_same_framing),
        cmocka_unit_test(binary_input_is_the_total_or_the_minimum_rounded_or_not),
        cmocka_unit_test(binary_output_has_its_total_size_with_a_zero_tail),
        cmocka_unit_test(data_and_payload_together_are_refused),
        cmocka_unit_test(a_header_longer_than_the_body_is_refused),
    };
    return PROBE_RUN(tests, NULL);
}
