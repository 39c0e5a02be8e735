/* The dialects without memory: whichever allocation fails, the request ends in OUT_OF_MEMORY
 * (or, where jansson cannot tell, in a refusal), and nothing leaks. */
#include "tests/lib/dialect_probe.h"
#include "tests/lib/unit.h"

#include "proto/json_writer.h"
#include "proto/kserve_pages.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The sanitizers have allocators of their own in place of these: there the test covers jansson
 * alone. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INTERPOSE 0
#else
#define INTERPOSE 1
#endif

static bool counting;
static long allocations; /* since counting began */
static long fail_at;     /* the one that fails, from 1; 0: none */
static long live;        /* allocated while counting and not freed */

static bool fails(void)
{
    return counting && ++allocations == fail_at;
}

#if INTERPOSE
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void __libc_free(void *block);

static void *counted(void *block)
{
    live += counting && block != NULL;
    return block;
}

void *malloc(size_t size)
{
    return fails() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : counted(__libc_calloc(count, size));
}

void *realloc(void *old, size_t size)
{
    if (fails()) {
        return NULL;
    }
    void *block = __libc_realloc(old, size);
    live += counting && old == NULL && block != NULL;
    return block;
}

void free(void *block)
{
    live -= counting && block != NULL;
    __libc_free(block);
}
#else
static void *json_malloc_some(size_t size)
{
    return fails() ? NULL : malloc(size);
}
#endif

/* Decode, complete and encode; the server's own memory is static here. */
static enum status run(const struct codec *codec, const char *body, struct error *err)
{
    static char input[4096];
    static char output[4096];
    struct codec_request request = {.head_bytes = -1, .model = "cumsum"};
    struct byte_view head = {body, strlen(body)};
    struct scan_call call = {.dialect = NULL};
    request.body_bytes = (int64_t)head.count;
    enum status status = codec->decode(&request, head, &call, err);
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
    codec->release(&call);
    return status;
}

static void fail_each(const struct codec *codec, const char *body)
{
    long total = 0;
    for (long n = 0; n == 0 || n <= total; n++) {
        struct error err = ERROR_INIT;
        allocations = 0;
        live = 0;
        fail_at = n;
        counting = true;
        enum status status = run(codec, body, &err);
        counting = false;
        if (n == 0) {
            assert_int_equal(status, STATUS_OK);
            total = allocations;
        } else if (status != STATUS_OK) {
            assert_true(err.detail[0] != '\0');
            assert_int_equal(status, err.status);
        }
        assert_int_equal(live, 0);
    }
    assert_true(total >= 5);
}

static void directml_survives_every_failing_allocation(void **state)
{
    (void)state;
    fail_each(codec_directml(),
              "{\"feature_level\":\"4_0\",\"desc\":{\"InputTensor\":{\"DataType\":\"FLOAT32\","
              "\"Sizes\":[2],\"Flags\":[\"NONE\"]},\"OutputTensor\":{\"DataType\":\"FLOAT32\","
              "\"Sizes\":[2],\"Strides\":[3]},\"Axis\":0,\"AxisDirection\":\"INCREASING\","
              "\"HasExclusiveSum\":false},\"data\":[1,2]}");
}

static void openvino_survives_every_failing_allocation(void **state)
{
    (void)state;
    fail_each(
        codec_openvino(),
        "{\"attributes\":{\"exclusive\":true},\"inputs\":[{\"precision\":\"FP32\","
        "\"shape\":[2],\"data\":[1,2]},{\"precision\":\"I64\",\"shape\":[1],\"data\":[0]}]}");
}

static void kserve_survives_every_failing_allocation(void **state)
{
    (void)state;
    fail_each(codec_kserve(),
              "{\"id\":\"7\",\"parameters\":{\"axis\":0},\"inputs\":[{\"name\":\"x\",\"shape\":"
              "[2],\"datatype\":\"FP32\",\"data\":[1,2]}],\"outputs\":[{\"name\":\"y\"}]}");
}

static void pages_survive_every_failing_allocation(void **state)
{
    (void)state;
    const struct kserve_server server = {.version = "1", .instances = 1};
    long total = 0;
    for (long n = 0; n == 0 || n <= total; n++) {
        allocations = 0;
        live = 0;
        fail_at = n;
        counting = true;
        size_t bytes = 0;
        struct json_writer w;
        json_writer_init(&w);
        kserve_page_config(&w, model_find("cumsum"), &server);
        char *text = json_writer_take(&w, &bytes);
        json_writer_deinit(&w);
        bool written = text != NULL;
        free(text);
        counting = false;
        total = n == 0 ? allocations : total;
#if INTERPOSE
        assert_true(written == (n == 0));
        assert_int_equal(live, 0);
#else
        assert_true(written);
#endif
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directml_survives_every_failing_allocation),
        cmocka_unit_test(openvino_survives_every_failing_allocation),
        cmocka_unit_test(kserve_survives_every_failing_allocation),
        cmocka_unit_test(pages_survive_every_failing_allocation),
    };
#if !INTERPOSE
    json_set_alloc_funcs(json_malloc_some, free);
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
