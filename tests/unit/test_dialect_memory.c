/* The dialects without memory: whichever allocation fails, the request ends with OUT_OF_MEMORY,
 * and nothing leaks. */
#include "tests/lib/dialect_probe.h"
#include "tests/lib/unit.h"
#include "tests/unit/failing_memory.h"

#include "proto/json/writer.h"
#include "proto/kserve_pages.h"

#include <stdlib.h>
#include <string.h>

/* Decode, complete and encode; buffers that the server would allocate are static here. */
static enum status run(const struct codec *codec, const char *body, struct error *err)
{
    static char input[4096];
    static char output[4096];
    struct codec_request request = {.head_bytes = -1, .model = "cumsum"};
    struct byte_view head = {body, strlen(body)};
    struct scan_call call = {.dialect = NULL};
    request.body_bytes = (int64_t)head.count;
    enum status status = codec_decode(codec, &request, head, &call, err);
    if (status != STATUS_OK) {
        assert_null(call.dialect);
        return status;
    }
    status = codec->complete(&call, input, 0, err);
    struct answer answer = {.head = NULL};
    if (status == STATUS_OK) {
        status = codec->encode(&call, output, sizeof output, &answer, err);
    }
    answer_deinit(&answer);
    codec_release(&call);
    return status;
}

static void fail_each(const struct codec *codec, const char *body)
{
    bool failed = true;
    long nth = 0;
    while (failed) {
        struct error err = ERROR_INIT;
        memory_begin(++nth);
        enum status status = run(codec, body, &err);
        failed = memory_end();
        assert_int_equal(status, failed ? STATUS_OUT_OF_MEMORY : STATUS_OK);
        assert_int_equal(status, err.status);
        assert_int_equal(err.detail[0] != '\0', failed);
        assert_int_equal(memory.live, 0);
    }
    assert_true(nth > 20);
}

static void directml_survives_every_failing_allocation(void **state)
{
    (void)state;
    fail_each(&codec_directml,
              "{\"feature_level\":\"4_0\",\"desc\":{\"InputTensor\":{\"DataType\":\"FLOAT32\","
              "\"Sizes\":[2],\"Flags\":[\"NONE\"]},\"OutputTensor\":{\"DataType\":\"FLOAT32\","
              "\"Sizes\":[2],\"Strides\":[3]},\"Axis\":0,\"AxisDirection\":\"INCREASING\","
              "\"HasExclusiveSum\":false},\"data\":[1,2]}");
}

static void openvino_survives_every_failing_allocation(void **state)
{
    (void)state;
    fail_each(
        &codec_openvino,
        "{\"attributes\":{\"exclusive\":true},\"inputs\":[{\"precision\":\"FP32\","
        "\"shape\":[2],\"data\":[1,2]},{\"precision\":\"I64\",\"shape\":[1],\"data\":[0]}]}");
}

static void kserve_survives_every_failing_allocation(void **state)
{
    (void)state;
    fail_each(&codec_kserve,
              "{\"id\":\"7\",\"parameters\":{\"axis\":0},\"inputs\":[{\"name\":\"x\",\"shape\":"
              "[2],\"datatype\":\"FP32\",\"data\":[1,2]}],\"outputs\":[{\"name\":\"y\"}]}");
}

static void pages_survive_every_failing_allocation(void **state)
{
    (void)state;
    const struct kserve_server server = {.version = "1", .instances = 1};
    bool failed = true;
    for (long nth = 1; failed; nth++) {
        size_t bytes = 0;
        struct json_writer w;
        memory_begin(nth);
        json_writer_init(&w);
        kserve_page_config(&w, model_find("cumsum"), &server);
        char *text = json_writer_take(&w, &bytes);
        json_writer_deinit(&w);
        bool written = text != NULL;
        free(text);
        failed = memory_end();
        assert_int_equal(written, !failed);
        assert_int_equal(memory.live, 0);
    }
}

static void request_bodies_of_pages_survive_every_failing_allocation(void **state)
{
    (void)state;
    static const char body[] = "{\"key\":\"/a_key_of_more_than_16_bytes\",\"byte_size\":4}";
    bool failed = true;
    for (long nth = 1; failed; nth++) {
        struct error err = ERROR_INIT;
        struct kserve_shm_region region;
        memory_begin(nth);
        enum status status = kserve_read_shm("name", body, sizeof body - 1, &region, &err);
        failed = memory_end();
        assert_int_equal(status, failed ? STATUS_OUT_OF_MEMORY : STATUS_OK);
        assert_int_equal(memory.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directml_survives_every_failing_allocation),
        cmocka_unit_test(openvino_survives_every_failing_allocation),
        cmocka_unit_test(kserve_survives_every_failing_allocation),
        cmocka_unit_test(pages_survive_every_failing_allocation),
        cmocka_unit_test(request_bodies_of_pages_survive_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
