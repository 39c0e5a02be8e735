/* Framed answers (a JSON head before the buffer), as in the DirectML API, from a server that
 * misbehaves. */
#include "tests/client/lib/support.h"

#include "client/tally_directml.h"

#include <stdio.h>
#include <string.h>

/* An answer of the DirectML API: a JSON head with an announced length, then floats. */
struct framed {
    const char *head;
    size_t announced; /* 0: the actual length */
    size_t floats;
    size_t cut; /* SIZE_MAX: not cut */
};

static const float DML_SUMS[5] = {1, 3, 6, 10, 15};

static int drip_us; /* pause after each byte of an answer */

static void script_framed(void *user, const struct fake_request *request,
                          struct fake_answer *answer)
{
    const struct framed *framed = user;
    size_t head = strlen(framed->head);
    (void)request;
    snprintf(answer->text, sizeof answer->text,
             "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
             "Inference-Header-Content-Length: %zu\r\nContent-Length: %zu\r\n\r\n%s",
             framed->announced != 0 ? framed->announced : head, head + framed->floats * 4,
             framed->head);
    answer->payload = DML_SUMS;
    answer->payload_bytes = framed->floats * 4;
    answer->cut = framed->cut;
    answer->drip_us = drip_us;
    answer->close = true;
}

static enum tally_status execute_by(fake_script script, void *user, float *numbers,
                                    struct tally_error *err)
{
    static const UINT sizes[1] = {4};
    DML_BUFFER_TENSOR_DESC buffer = {.DataType = DML_TENSOR_DATA_TYPE_FLOAT32,
                                     .DimensionCount = 1,
                                     .Sizes = sizes,
                                     .TotalTensorSizeInBytes = 16};
    DML_TENSOR_DESC tensor = {DML_TENSOR_TYPE_BUFFER, &buffer};
    DML_CUMULATIVE_SUMMATION_OPERATOR_DESC desc = {&tensor, &tensor, 0,
                                                   DML_AXIS_DIRECTION_INCREASING, 0};
    struct tally_dml_binding bound = {numbers, 0, 16};
    struct fake_server *server = fake_server_start(script, user, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    enum tally_status status =
        tally_dml_cumulative_summation(client, &desc, 0, &bound, &bound, err);
    tally_close(client);
    fake_server_stop(server);
    return status;
}

static enum tally_status execute(struct framed framed, float *numbers, struct tally_error *err)
{
    return execute_by(script_framed, &framed, numbers, err);
}

#define DML_HEAD "{\"OutputTensor\":{\"DataType\":\"FLOAT32\",\"Sizes\":[4]}}"

static void framed_answers_are_verified(void **state)
{
    (void)state;
    static const struct framed lies[] = {
        {DML_HEAD, 0, 3, SIZE_MAX},
        {DML_HEAD, 0, 5, SIZE_MAX},
        {DML_HEAD, 5, 4, SIZE_MAX},
        {DML_HEAD, 1000000000, 4, SIZE_MAX},
        {"", 0, 4, SIZE_MAX},
        {"{}", 0, 4, SIZE_MAX},
        {"[[[[[[[[", 0, 4, SIZE_MAX},
        {"{\"OutputTensor\":{\"DataType\":\"INT32\",\"Sizes\":[4]}}", 0, 4, SIZE_MAX},
        {"{\"OutputTensor\":{\"DataType\":\"FLOAT32\",\"Sizes\":[2,2]}}", 0, 4, SIZE_MAX},
        {"{\"OutputTensor\":{\"DataType\":\"FLOAT32\",\"Sizes\":[]}}", 0, 4, SIZE_MAX},
    };
    struct tally_error err;
    float untouched[5] = {0};
    static char long_head[(1 << 16) + 2];
    memset(long_head, ' ', sizeof long_head - 1);
    memcpy(long_head, DML_HEAD, strlen(DML_HEAD));
    assert_int_equal(execute((struct framed){long_head, 0, 4, SIZE_MAX}, untouched, &err),
                     TALLY_BAD_ANSWER);
    assert_non_null(strstr(err.message, "not framed"));
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        float numbers[5] = {-1, -1, -1, -1, -1};
        if (execute(lies[i], numbers, &err) != TALLY_BAD_ANSWER)
            fail_msg("lie %zu: status %d, %s", i, (int)err.status, err.message);
        assert_int_equal(err.output_touched, 0);
        for (int k = 0; k < 5; k++)
            assert_true(numbers[k] == -1);
    }
    float numbers[5] = {1, 2, 3, 4, -1};
    (void)execute((struct framed){"{\"\x1b[31m\xc2\x9b\xc3\xa9\"}", 0, 4, SIZE_MAX}, numbers,
                  &err);
    assert_non_null(strstr(err.message, "{\"?[31m?\xc3\xa9\"}"));
    for (drip_us = 1; drip_us >= 0; drip_us--) { /* once byte by byte, once at full speed */
        memset(numbers, 0, 16);
        if (execute((struct framed){DML_HEAD, 0, 4, SIZE_MAX}, numbers, &err) != TALLY_OK)
            fail_msg("%s", err.message);
        assert_memory_equal(numbers, DML_SUMS, 16);
        assert_true(numbers[4] == -1);
    }
}

/* Answer in chunks, which libcurl passes on one by one. The second chunk has the end of the
 * JSON head and the first floats. */
static void script_pieces(void *user, const struct fake_request *request,
                          struct fake_answer *answer)
{
    static char body[256];
    const size_t head = strlen(DML_HEAD);
    const size_t cuts[] = {0, 7, head + 6, head + 16, head + 16};
    char whole[128];
    size_t used = 0;
    (void)user;
    (void)request;
    memcpy(whole, DML_HEAD, head);
    memcpy(whole + head, DML_SUMS, 16);
    for (size_t i = 0; i + 1 < sizeof cuts / sizeof *cuts; i++) { /* the last cut is the end */
        size_t count = cuts[i + 1] - cuts[i];
        used += (size_t)snprintf(body + used, sizeof body - used, "%zx\r\n", count);
        memcpy(body + used, whole + cuts[i], count);
        memcpy(body + used + count, "\r\n", 2);
        used += count + 2;
    }
    snprintf(answer->text, sizeof answer->text,
             "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
             "Inference-Header-Content-Length: %zu\r\nTransfer-Encoding: chunked\r\n\r\n",
             head);
    answer->payload = body;
    answer->payload_bytes = used;
    answer->close = true;
}

static void a_framed_answer_may_come_in_any_pieces(void **state)
{
    (void)state;
    float numbers[5] = {1, 2, 3, 4, -1};
    struct tally_error err;
    if (execute_by(script_pieces, NULL, numbers, &err) != TALLY_OK)
        fail_msg("%s", err.message);
    assert_memory_equal(numbers, DML_SUMS, 16);
    assert_true(numbers[4] == -1);
}

static void script_keep_request(void *user, const struct fake_request *request,
                                struct fake_answer *answer)
{
    char *kept = user;
    (void)snprintf(kept, 1024, "%.*s",
                   (int)(request->body_bytes < 1000 ? request->body_bytes : 1000),
                   (const char *)request->body);
    fake_answer_error(answer, 400, "", "{}");
}

static void the_head_says_all_of_the_descriptor(void **state)
{
    (void)state;
    static const UINT sizes[2] = {2, 1};
    static const UINT strides[2] = {3, 1};
    static const struct {
        DML_TENSOR_DATA_TYPE type;
        const char *name;
        UINT64 bytes;
    } types[] = {{DML_TENSOR_DATA_TYPE_FLOAT32, "FLOAT32", 16},
                 {DML_TENSOR_DATA_TYPE_FLOAT16, "FLOAT16", 8},
                 {DML_TENSOR_DATA_TYPE_INT32, "INT32", 16},
                 {DML_TENSOR_DATA_TYPE_UINT32, "UINT32", 16},
                 {DML_TENSOR_DATA_TYPE_INT64, "INT64", 32},
                 {DML_TENSOR_DATA_TYPE_UINT64, "UINT64", 32}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char kept[1024] = "";
        char expected[1024];
        char memory[96] = "";
        struct tally_error err;
        DML_BUFFER_TENSOR_DESC in = {.DataType = types[i].type,
                                     .Flags = DML_TENSOR_FLAG_OWNED_BY_DML,
                                     .DimensionCount = 2,
                                     .Sizes = sizes,
                                     .Strides = strides,
                                     .TotalTensorSizeInBytes = types[i].bytes,
                                     .GuaranteedBaseOffsetAlignment = 16};
        DML_BUFFER_TENSOR_DESC out = {.DataType = types[i].type,
                                      .DimensionCount = 2,
                                      .Sizes = sizes,
                                      .TotalTensorSizeInBytes = 16};
        DML_TENSOR_DESC input = {DML_TENSOR_TYPE_BUFFER, &in};
        DML_TENSOR_DESC output = {DML_TENSOR_TYPE_BUFFER, &out};
        DML_CUMULATIVE_SUMMATION_OPERATOR_DESC desc = {&input, &output, 1,
                                                       DML_AXIS_DIRECTION_DECREASING, 1};
        struct tally_dml_binding from = {memory, 0, 32};
        struct tally_dml_binding to = {memory, 32, 32};
        struct fake_server *server =
            fake_server_start(script_keep_request, kept, SIZE_MAX, NULL);
        struct tally *client = quick_client(fake_server_url(server), -1);
        assert_int_equal(tally_dml_cumulative_summation(client, &desc, DML_FEATURE_LEVEL_6_2,
                                                        &from, &to, &err),
                         TALLY_REJECTED);
        (void)snprintf(
            expected, sizeof expected,
            "{\"type\":\"DML_OPERATOR_CUMULATIVE_SUMMATION\",\"feature_level\":\"6_2\","
            "\"desc\":{"
            "\"InputTensor\":{\"DataType\":\"%s\",\"DimensionCount\":2,\"Sizes\":[2,1],"
            "\"TotalTensorSizeInBytes\":%d,\"GuaranteedBaseOffsetAlignment\":16,"
            "\"Strides\":[3,1],\"Flags\":\"DML_TENSOR_FLAG_OWNED_BY_DML\"},"
            "\"OutputTensor\":{\"DataType\":\"%s\",\"DimensionCount\":2,\"Sizes\":[2,1],"
            "\"TotalTensorSizeInBytes\":16,\"GuaranteedBaseOffsetAlignment\":0},"
            "\"Axis\":1,\"AxisDirection\":\"DML_AXIS_DIRECTION_DECREASING\","
            "\"HasExclusiveSum\":true}}",
            types[i].name, (int)types[i].bytes, types[i].name);
        assert_string_equal(kept, expected);
        tally_close(client);
        fake_server_stop(server);
    }
}

static void a_framed_answer_cut_at_any_byte_is_an_error(void **state)
{
    (void)state;
    struct framed whole = {DML_HEAD, 0, 4, SIZE_MAX};
    struct fake_answer *answer = test_calloc(1, sizeof *answer);
    script_framed(&whole, NULL, answer);
    size_t text = strlen(answer->text); /* up to the end of the JSON head */
    size_t total = text + answer->payload_bytes;
    test_free(answer);
    for (size_t cut = 0; cut < total; cut++) {
        struct tally_error err;
        float numbers[4] = {1, 2, 3, 4};
        enum tally_status status = execute((struct framed){DML_HEAD, 0, 4, cut}, numbers, &err);
        assert_true(status == TALLY_CONNECTION_LOST || status == TALLY_BAD_ANSWER);
        assert_int_equal(err.output_touched, cut > text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(framed_answers_are_verified),
        cmocka_unit_test(a_framed_answer_may_come_in_any_pieces),
        cmocka_unit_test(the_head_says_all_of_the_descriptor),
        cmocka_unit_test(a_framed_answer_cut_at_any_byte_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
