/* The JSON format of /v1/cumsum: accepted and refused documents, and the fields that errors
 * name. */
#include "tests/lib/unit.h"
#include "tests/unit/codec_run.h"

static void post(const char *body, struct run *run)
{
    run_request(codec_cumsum(CODEC_FORMAT_JSON), "", CODEC_FORMAT_JSON,
                (struct byte_view){body, strlen(body)}, run);
}

static void expect(const char *body, const char *answer)
{
    struct run run;
    post(body, &run);
    if (run.status != STATUS_OK) {
        fail_msg("%s: %s", body, run.err.detail);
    }
    assert_string_equal(run.body, answer);
    run_deinit(&run);
}

static void nested_in_nested_out_and_flat_in_flat_out(void **state)
{
    (void)state;
    expect("{\"data\":[[1,2],[3,4]]}",
           "{\"dtype\":\"int64\",\"shape\":[2,2],\"data\":[[1,2],[4,6]]}");
    expect("{\"data\":[1,2,3,4],\"shape\":[2,2]}",
           "{\"dtype\":\"int64\",\"shape\":[2,2],\"data\":[1,2,4,6]}");
    expect("{\"data\":[[1,2],[3,4]],\"shape\":[2,2]}",
           "{\"dtype\":\"int64\",\"shape\":[2,2],\"data\":[[1,2],[4,6]]}");
    expect("{\"data\":[[[7]]]}", "{\"dtype\":\"int64\",\"shape\":[1,1,1],\"data\":[[[7]]]}");
}

/* run_request() compares each answer with head_max(). These answers have no numbers, so each
 * byte counts. */
static void the_longest_lists_and_a_long_carry_have_the_room_that_is_foretold(void **state)
{
    (void)state;
    char list[LIMIT_RANK * 21] = "";
    char body[2 * sizeof list + 100];
    struct run run;
    for (int i = 1; i < LIMIT_RANK; i++) {
        strcat(list, ",9223372036854775807");
    }
    (void)snprintf(body, sizeof body, "{\"data\":[],\"shape\":[0%s],\"output_strides\":[1%s]}",
                   list, list);
    post(body, &run);
    assert_int_equal(run.status, STATUS_OK);
    run_deinit(&run);
    post("{\"data\":[],\"shape\":[2000,0],\"axis\":1,\"part\":\"first\"}", &run);
    assert_int_equal(run.status, STATUS_OK);
    assert_true(run.bytes > 2000 * 16);
    run_deinit(&run);
}

static void fields_may_stand_in_any_order_with_any_space(void **state)
{
    (void)state;
    expect(" { \"axis\" : 1 ,\n\"data\"\t:\r[ [ 1 , 2 ] ] , \"reverse\" : true } ",
           "{\"dtype\":\"int64\",\"shape\":[1,2],\"data\":[[3,2]]}");
    expect("{\"exclusive\":true,\"data\":[1.5,2],\"dtype\":\"float32\"}",
           "{\"dtype\":\"float32\",\"shape\":[2],\"data\":[0.0,1.5]}");
}

static void integers_keep_all_their_bits(void **state)
{
    (void)state;
    expect("{\"data\":[9007199254740993,0]}",
           "{\"dtype\":\"int64\",\"shape\":[2],\"data\":[9007199254740993,9007199254740993]}");
    expect("{\"data\":[18446744073709551615],\"dtype\":\"uint64\"}",
           "{\"dtype\":\"uint64\",\"shape\":[1],\"data\":[18446744073709551615]}");
    expect("{\"data\":[-9223372036854775808],\"dtype\":\"int64\"}",
           "{\"dtype\":\"int64\",\"shape\":[1],\"data\":[-9223372036854775808]}");
}

static void a_whole_number_is_an_integer_however_it_is_written(void **state)
{
    (void)state;
    expect("{\"data\":[1.0,2e0,30.0e-1],\"dtype\":\"int32\",\"shape\":[3.0],\"axis\":-1.0}",
           "{\"dtype\":\"int32\",\"shape\":[3],\"data\":[1,3,6]}");
    expect(
        "{\"data\":[9007199254740993.0],\"dtype\":\"uint64\",\"strides\":[1e0],\"shape\":[1]}",
        "{\"dtype\":\"uint64\",\"shape\":[1],\"data\":[9007199254740993]}");
    /* Without "dtype" the type depends on how the numbers are written. */
    expect("{\"data\":[1.0,2]}", "{\"dtype\":\"float64\",\"shape\":[2],\"data\":[1.0,3.0]}");
}

static void every_type_answers_in_itself(void **state)
{
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        const struct dtype_info *info = dtype_info((enum dtype)i);
        bool is_float = info->kind == DTYPE_KIND_FLOAT;
        char body[128];
        char answer[128];
        (void)snprintf(body, sizeof body, "{\"data\":[1,2,3],\"dtype\":\"%s\"}", info->name);
        (void)snprintf(answer, sizeof answer, "{\"dtype\":\"%s\",\"shape\":[3],\"data\":%s}",
                       info->name, is_float ? "[1.0,3.0,6.0]" : "[1,3,6]");
        expect(body, answer);
    }
}

static void an_answer_is_a_request_that_reads_as_it_was_meant(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"data\":[[0.1,0.2],[1e30,-5]],\"axis\":1}",
        "{\"data\":[1,2,3]}",
        "{\"data\":[[\"NaN\",1],[2,\"Infinity\"]],\"dtype\":\"bfloat16\"}",
        "{\"data\":[65504,0.00006],\"dtype\":\"float16\"}",
        "{\"data\":[],\"shape\":[0,4]}",
        "{\"data\":[[],[],[]],\"axis\":1}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        struct run first;
        struct run second;
        post(bodies[i], &first);
        assert_int_equal(first.status, STATUS_OK);
        post(first.body, &second);
        if (second.status != STATUS_OK) {
            fail_msg("%s: %s", first.body, second.err.detail);
        }
        assert_int_equal(second.call.desc.dtype, first.call.desc.dtype);
        assert_int_equal(second.call.desc.rank, first.call.desc.rank);
        assert_memory_equal(second.call.desc.sizes, first.call.desc.sizes,
                            sizeof first.call.desc.sizes);
        run_deinit(&first);
        run_deinit(&second);
    }
}

static void strided_input_may_be_longer_than_its_reach(void **state)
{
    (void)state;
    expect("{\"data\":[1,2,3,4,5,6,7],\"shape\":[2,2],\"strides\":[3,1],\"axis\":1}",
           "{\"dtype\":\"int64\",\"shape\":[2,2],\"data\":[1,3,4,9]}");
    expect("{\"data\":[5],\"shape\":[3],\"strides\":[0]}",
           "{\"dtype\":\"int64\",\"shape\":[3],\"data\":[5,10,15]}");
    expect("{\"data\":[1,2,3,4],\"shape\":[2,2],\"output_strides\":[3,1]}",
           "{\"dtype\":\"int64\",\"shape\":[2,2],\"strides\":[3,1],\"data\":[1,2,0,4,6]}");
    expect("{\"data\":[1,2],\"output_strides\":[2]}",
           "{\"dtype\":\"int64\",\"shape\":[2],\"strides\":[2],\"data\":[1,0,3]}");
}

static const struct {
    const char *body;
    enum status status;
    const char *field;
    const char *says;
} refused[] = {
    {"", STATUS_INVALID_JSON, "", "empty"},
    {"hello", STATUS_INVALID_JSON, "", "no JSON object: it begins with 'hello'"},
    {"[1,2]", STATUS_INVALID_JSON, "", "not an object"},
    {"{}", STATUS_MISSING_FIELD, "data", "missing"},
    {"{\"data\":5}", STATUS_INVALID_FIELD, "data", "data is 5, expected an array"},
    {"{\"data\":\"1,2\"}", STATUS_INVALID_FIELD, "data", "the string \"1,2\""},
    {"{\"data\":null}", STATUS_INVALID_FIELD, "data", "null"},
    {"{\"data\":{\"a\":[1]}}", STATUS_INVALID_FIELD, "data", "an object"},
    {"{\"data\":[1],\"data\":[2]}", STATUS_INVALID_JSON, "", "duplicate"},
    {"{\"data\":[1],\"axis\":0,\"axis\":0}", STATUS_INVALID_JSON, "", "duplicate"},
    {"{\"data\":[1],\"Axis\":0}", STATUS_UNKNOWN_FIELD, "Axis",
     "known here: data, dtype, shape, strides, output_strides, axis, exclusive, reverse, "
     "output_dtype, nan, initial, include_initial, part, carry, offsets"},
    {"{\"data\":[[1,2],[3]]}", STATUS_INVALID_SHAPE, "data[1]", "1 element, but data[0] has 2"},
    {"{\"data\":[[1,2],3]}", STATUS_INVALID_SHAPE, "data[1]", "another depth"},
    {"{\"data\":[[[1],[2]],[[3],[4,5]]]}", STATUS_INVALID_SHAPE, "data[1][1]",
     "2 elements, but data[0][0] has 1"},
    {"{\"data\":[1,2,3],\"shape\":[2,2]}", STATUS_LENGTH_MISMATCH, "data",
     "found 3 elements, expected 4 for shape [2,2]"},
    {"{\"data\":[1,2,3,4,5],\"shape\":[2,2]}", STATUS_LENGTH_MISMATCH, "data", "5 elements"},
    {"{\"data\":[[1,2],[3,4]],\"shape\":[4]}", STATUS_INVALID_SHAPE, "shape",
     "nested as [2,2], shape says [4]"},
    {"{\"data\":[[1,2],[3,4]],\"shape\":[1,4]}", STATUS_INVALID_SHAPE, "shape", "agree"},
    {"{\"data\":[1],\"shape\":[]}", STATUS_INVALID_SHAPE, "shape", ""},
    {"{\"data\":[1,2],\"shape\":[]}", STATUS_INVALID_SHAPE, "shape", ""},
    {"{\"data\":[1],\"shape\":[-1]}", STATUS_INVALID_SHAPE, "shape", ""},
    {"{\"data\":[1],\"shape\":[9223372036854775807,9223372036854775807]}", STATUS_INVALID_SHAPE,
     "shape", ""},
    {"{\"data\":[1],\"shape\":[1.5]}", STATUS_INVALID_FIELD, "shape[0]", "expected an integer"},
    {"{\"data\":[1],\"shape\":1}", STATUS_INVALID_FIELD, "shape", "an array of integers"},
    {"{\"data\":[1,2],\"axis\":1}", STATUS_INVALID_AXIS, "axis", ""},
    {"{\"data\":[1,2],\"axis\":-2}", STATUS_INVALID_AXIS, "axis", ""},
    {"{\"data\":[[],[]],\"axis\":2}", STATUS_INVALID_AXIS, "axis", ""},
    {"{\"data\":[1,2],\"axis\":\"0\"}", STATUS_INVALID_FIELD, "axis", "expected an integer"},
    {"{\"data\":[1,2],\"axis\":null}", STATUS_INVALID_FIELD, "axis", "null"},
    {"{\"data\":[1,2],\"axis\":0.5}", STATUS_INVALID_FIELD, "axis", "axis is 0.5,"},
    {"{\"data\":[1,2],\"axis\":1.0}", STATUS_INVALID_AXIS, "axis", ""},
    {"{\"data\":[1,2],\"axis\":9223372036854775808}", STATUS_INVALID_FIELD, "axis",
     "axis is 9.223372036854776e18, expected an integer of 64 bits"},
    {"{\"data\":[1,2],\"axis\":1e400}", STATUS_INVALID_JSON, "",
     "a number that does not fit into 64 bits"},
    {"{\"data\":[1,2],\"exclusive\":1}", STATUS_INVALID_FIELD, "exclusive", "true or false"},
    {"{\"data\":[1,2],\"reverse\":\"true\"}", STATUS_INVALID_FIELD, "reverse", "true or false"},
    {"{\"data\":[1,2],\"precision\":\"wide\"}", STATUS_UNKNOWN_FIELD, "precision",
     "known here: data, dtype"},
    {"{\"data\":[1,2],\"dtype\":\"floating\"}", STATUS_INVALID_DTYPE, "dtype",
     "expected one of float16"},
    {"{\"data\":[1,2],\"dtype\":3}", STATUS_INVALID_FIELD, "dtype", "expected one of"},
    {"{\"data\":[1,9223372036854775808]}", STATUS_INVALID_DATA, "data[1]",
     "out of range for int64"},
    {"{\"data\":[-9223372036854775809]}", STATUS_INVALID_DATA, "data[0]",
     "out of range for int64"},
    {"{\"data\":[1,NaN],\"dtype\":\"int64\"}", STATUS_INVALID_DATA, "data[1]",
     "'NaN', which is not a value of int64; float64 takes it"},
    {"{\"data\":[1,2.5],\"dtype\":\"int32\"}", STATUS_INVALID_DATA, "data[1]", "2.5"},
    {"{\"data\":[[1,2],[3,256]],\"dtype\":\"uint8\"}", STATUS_INVALID_DATA, "data[1][1]",
     "0 to 255"},
    {"{\"data\":[1,-1],\"shape\":[1,2],\"dtype\":\"uint8\"}", STATUS_INVALID_DATA, "data[1]",
     "out of range"},
    {"{\"data\":[1,1e400]}", STATUS_INVALID_DATA, "data[1]", "out of range for float64"},
    {"{\"data\":[1,3.5e38],\"dtype\":\"float32\"}", STATUS_INVALID_DATA, "data[1]", "float32"},
    {"{\"data\":[1,,2]}", STATUS_INVALID_DATA, "data[1]", "missing"},
    {"{\"data\":[1,2,]}", STATUS_INVALID_DATA, "data[2]", "missing"},
    {"{\"data\":[1,true]}", STATUS_INVALID_DATA, "data[1]", "true"},
    {"{\"data\":[true,1]}", STATUS_INVALID_DATA, "data[1]", "expected true or false"},
    {"{\"data\":[1],\"output_dtype\":\"int8\"}", STATUS_INVALID_DTYPE, "output_dtype",
     "elements of int64 have sums of int64"},
    {"{\"data\":[1],\"nan\":\"no\"}", STATUS_INVALID_FIELD, "nan", "propagate, zero"},
    {"{\"data\":[1],\"initial\":[1]}", STATUS_INVALID_FIELD, "initial", "a number"},
    {"{\"data\":[1,2],\"strides\":[1]}", STATUS_MISSING_FIELD, "shape", "strides need it"},
    {"{\"data\":[1,2],\"shape\":[2],\"strides\":[1,1]}", STATUS_INVALID_STRIDES, "strides",
     "2 entries"},
    {"{\"data\":[1,2],\"shape\":[2],\"output_strides\":[]}", STATUS_INVALID_STRIDES,
     "output_strides", "0 entries"},
    {"{\"data\":[1,2],\"shape\":[2],\"strides\":[2]}", STATUS_LENGTH_MISMATCH, "data",
     "found 2 elements, expected at least 3 for shape [2] with these strides"},
    {"{\"data\":[1,2],\"shape\":[2],\"strides\":[-1]}", STATUS_INVALID_STRIDES, "strides", ""},
    {"{\"data\":[1,2],\"shape\":[2],\"output_strides\":[0]}", STATUS_INVALID_STRIDES,
     "output_strides", ""},
    {"{\"data\":[[1,2]],\"shape\":[1,2],\"strides\":[2,1]}", STATUS_INVALID_DATA, "data",
     "flat array"},
    {"{\"data\":[[1,2]],\"output_strides\":[2,1]}", STATUS_INVALID_DATA, "data", "flat array"},
    {"{\"data\":[1],\"part\":\"last\",\"carry\":\"VEFM\\\"U1VN\"}", STATUS_INVALID_FIELD,
     "carry", "expected base64"},
};

static void malformed_requests_are_refused_and_the_field_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++) {
        struct run run;
        post(refused[i].body, &run);
        if (run.status != refused[i].status || strcmp(run.err.field, refused[i].field) != 0 ||
            strstr(run.err.detail, refused[i].says) == NULL) {
            fail_msg("%s: %s, field '%s': %s", refused[i].body, status_slug(run.status),
                     run.err.field, run.err.detail);
        }
        run_deinit(&run);
    }
}

static void every_cut_of_a_request_is_refused(void **state)
{
    (void)state;
    const char *body = "{\"data\":[[1,\"NaN\"],[2.5e-3,-4]],\"dtype\":\"float32\",\"axis\":-1,"
                       "\"shape\":[2,2],\"reverse\":true}";
    for (size_t length = 0; length < strlen(body); length++) {
        struct run run;
        run_request(codec_cumsum(CODEC_FORMAT_JSON), "", CODEC_FORMAT_JSON,
                    (struct byte_view){body, length}, &run);
        assert_int_equal(run.status, STATUS_INVALID_JSON);
        run_deinit(&run);
    }
}

static void rank_64_is_taken_and_65_is_not(void **state)
{
    (void)state;
    char body[256] = "{\"data\":";
    for (int i = 0; i < 64; i++) {
        strcat(body, "[");
    }
    strcat(body, "7");
    for (int i = 0; i < 64; i++) {
        strcat(body, "]");
    }
    strcat(body, "}");
    struct run run;
    post(body, &run);
    assert_int_equal(run.status, STATUS_OK);
    assert_int_equal(run.plan.elements, 1);
    const char *array = body + strlen("{\"data\":");
    assert_non_null(strstr(run.body, array));
    run_deinit(&run);
    char deeper[260] = "{\"data\":[";
    strcat(deeper, array);
    deeper[strlen(deeper) - 1] = '\0';
    strcat(deeper, "]}");
    post(deeper, &run);
    assert_int_equal(run.status, STATUS_INVALID_SHAPE);
}

static void query_parameters_are_refused(void **state)
{
    (void)state;
    struct run run;
    const char *body = "{\"data\":[1]}";
    run_request(codec_cumsum(CODEC_FORMAT_JSON), "axis=0", CODEC_FORMAT_JSON,
                (struct byte_view){body, strlen(body)}, &run);
    assert_int_equal(run.status, STATUS_UNKNOWN_FIELD);
    assert_string_equal(run.err.field, "axis");
}

static void bytes_after_the_head_are_refused(void **state)
{
    (void)state;
    const struct codec *codec = codec_cumsum(CODEC_FORMAT_JSON);
    const struct codec_request request = {.body_bytes = -1, .head_bytes = -1};
    struct error err = ERROR_INIT;
    struct scan_call call;
    int64_t input[8];
    const char *body = "{\"data\":[1,2]}";
    assert_int_equal(
        codec_decode(codec, &request, (struct byte_view){body, strlen(body)}, &call, &err),
        STATUS_OK);
    assert_int_equal(codec->complete(&call, input, 1, &err), STATUS_LENGTH_MISMATCH);
    codec_release(&call);
}

static void an_output_buffer_that_is_too_small_is_our_fault(void **state)
{
    (void)state;
    const struct codec *codec = codec_cumsum(CODEC_FORMAT_JSON);
    const struct codec_request request = {.body_bytes = -1, .head_bytes = -1};
    struct error err = ERROR_INIT;
    struct scan_call call;
    struct answer answer = {.head = NULL};
    const int64_t output[2] = {1, 2};
    const char *body = "{\"data\":[1,2]}";
    assert_int_equal(
        codec_decode(codec, &request, (struct byte_view){body, strlen(body)}, &call, &err),
        STATUS_OK);
    assert_int_equal(codec->encode(&call, output, 15, &answer, &err), STATUS_INTERNAL);
    assert_null(answer.head);
    codec_release(&call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nested_in_nested_out_and_flat_in_flat_out),
        cmocka_unit_test(the_longest_lists_and_a_long_carry_have_the_room_that_is_foretold),
        cmocka_unit_test(fields_may_stand_in_any_order_with_any_space),
        cmocka_unit_test(integers_keep_all_their_bits),
        cmocka_unit_test(a_whole_number_is_an_integer_however_it_is_written),
        cmocka_unit_test(every_type_answers_in_itself),
        cmocka_unit_test(an_answer_is_a_request_that_reads_as_it_was_meant),
        cmocka_unit_test(strided_input_may_be_longer_than_its_reach),
        cmocka_unit_test(malformed_requests_are_refused_and_the_field_is_named),
        cmocka_unit_test(every_cut_of_a_request_is_refused),
        cmocka_unit_test(rank_64_is_taken_and_65_is_not),
        cmocka_unit_test(query_parameters_are_refused),
        cmocka_unit_test(bytes_after_the_head_are_refused),
        cmocka_unit_test(an_output_buffer_that_is_too_small_is_our_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
