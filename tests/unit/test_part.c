/* part.h: a client determines the cost of a part, so the work is done in steps. */
#include "server/job/part.h"

#include "kernels/device.h"
#include "proto/base64.h"
#include "server/base/config.h"
#include "server/job/body.h"
#include "server/job/infer.h"
#include "server/job/infer_memory.h"
#include "server/job/job.h"
#include "server/sched/admission.h"
#include "server/sched/client.h"
#include "server/sched/completion.h"
#include "server/sched/server.h"
#include "server/sched/work.h"
#include "tests/lib/unit.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEP_BYTES = 2 * PARALLEL_STEP_BYTES /* most bytes written between two steps */
};

struct fixture {
    struct config config;
    struct server server;
    struct request request;
    enum codec_format format; /* format of the answer */
};

/* Counts steps, and cancels after a number of them. */
struct stepper {
    struct parallel parallel; /* must be the first member */
    int done;
    int most;
};

static bool count_step(const struct parallel *parallel)
{
    struct stepper *stepper = (struct stepper *)(uintptr_t)parallel;
    return ++stepper->done <= stepper->most;
}

static bool run_in_turn(const struct parallel *parallel, int count, parallel_piece piece,
                        void *context)
{
    bool goes_on = true;
    for (int i = 0; i < count; i++) {
        piece(context, i);
        goes_on = count_step(parallel) && goes_on;
    }
    return goes_on;
}

static struct stepper make_stepper(int most)
{
    return (struct stepper){
        .parallel = {.grain = 1 << 16, .run = run_in_turn, .step = count_step}, .most = most};
}

static int set_up(void **state)
{
    const struct memory_options options = {.budget_bytes = 64 << 20,
                                           .small_slab_bytes = 1 << 20,
                                           .small_block_bytes = 64 << 10,
                                           .keep_ms = 10};
    struct fixture *f = calloc(1, sizeof *f);
    f->config.max_body_bytes = 32 << 20;
    f->config.max_rank = 8;
    f->format = CODEC_FORMAT_RAW;
    f->server.config = &f->config;
    f->request.server = &f->server;
    *state = f;
    return memory_create(&options, &f->server.memory, NULL) != STATUS_OK;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    struct request *request = &f->request;
    codec_release(&request->scan.call);
    answer_deinit(&request->reply.answer);
    text_free(f->server.memory, &request->reply.answer_text);
    part_destroy(request->scan.part, f->server.memory);
    memory_give(f->server.memory, &request->memory.block);
    memory_release(f->server.memory, request->memory.reserved_bytes);
    text_free(f->server.memory, &request->body.head);
    memory_destroy(f->server.memory);
    free(f);
    return 0;
}

/* Begin a raw request with all of its memory. */
static void begin_part(struct fixture *f, const char *dtype, const char *shape,
                       const char *part, size_t bytes)
{
    struct request *request = &f->request;
    struct codec_request *codec = &request->arrival.codec_request;
    struct error err = ERROR_INIT;
    static char zeros[1 << 20];
    codec->params[codec->param_count++] = (struct codec_param){"dtype", dtype};
    codec->params[codec->param_count++] = (struct codec_param){"shape", shape};
    codec->params[codec->param_count++] = (struct codec_param){"axis", "1"};
    if (part != NULL) {
        codec->params[codec->param_count++] = (struct codec_param){"part", part};
    }
    codec->totals = part == NULL;
    codec->head_bytes = -1;
    codec->answer_format = f->format;
    request->arrival.codec = codec_cumsum(CODEC_FORMAT_RAW);
    request->body.declared = (int64_t)bytes;
    assert_int_equal(body_begin(request, &err), STATUS_OK);
    for (size_t at = 0; at < bytes; at += sizeof zeros) {
        const size_t left = bytes - at;
        assert_int_equal(
            body_feed(request, zeros, left < sizeof zeros ? left : sizeof zeros, &err),
            STATUS_OK);
    }
    assert_int_equal(body_finish(request, &err), STATUS_OK);
    assert_int_equal(infer_reserve_rest(request, &err), STATUS_OK);
}

static void a_part_costs_what_the_sums_of_its_lines_are(void **state)
{
    struct fixture *f = *state;
    begin_part(f, "float64", "16384,2", NULL, 16384 * 2 * sizeof(double));
    assert_true(infer_part_bytes(&f->request) >= 16384 * scan_carry_bytes(DTYPE_F64));
    assert_true(infer_cost_ns(&f->request, 0) >= 2 * infer_part_bytes(&f->request) / 8);
}

static void a_carry_costs_the_same_in_the_request_and_in_its_answer(void **state)
{
    struct fixture *f = *state;
    struct request *request = &f->request;
    begin_part(f, "float64", "16384,1", "first", 16384 * sizeof(double));
    const uint64_t first = infer_cost_ns(request, 0);
    request->arrival.codec_request.carry_bytes =
        carry_answer_most(&request->scan.call.desc, false);
    request->scan.call.desc.part = SCAN_PART_LAST;
    assert_in_range(infer_cost_ns(request, 0), first - first / 4, first + first / 2);
}

/* Let a thread of the codec pool answer a part without elements, with the lines of `shape`. */
static void submit_without_elements(struct fixture *f, const char *shape,
                                    enum codec_format format, enum coding coding)
{
    struct request *request = &f->request;
    struct client client = {.requests = 0};
    struct completion completion;
    struct error err = ERROR_INIT;
    f->format = format;
    f->config.inline_json_bytes = 128 << 10;
    memset(&completion, 0, sizeof completion);
    assert_int_equal(completion_init(&completion, &err), STATUS_OK);
    assert_int_equal(work_pool_create(1, &f->server.work, &err), STATUS_OK);
    begin_part(f, "float64", shape, "first", 0);
    request->arrival.accept_coding = coding;
    request->arrival.client = &client;
    request->completion = &completion;
    request->admission.claim = infer_claim(request, 0); /* the request is admitted */
    request->admission.cost_ns = infer_cost_ns(request, 0);
    request_enter(request, REQUEST_PARSE);
    assert_false(job_run(request));
    struct pollfd back = {.fd = completion.fd, .events = POLLIN};
    assert_int_equal(poll(&back, 1, -1), 1);
    assert_ptr_equal(completion_take(&completion), request);
    assert_int_equal(request_state(request), REQUEST_READY);
    assert_int_equal(request->error.status, STATUS_OK);
    work_pool_destroy(f->server.work);
    completion_deinit(&completion);
}

static void the_answer_to_a_part_without_elements_waits_with_texts_as_long(void **state)
{
    struct fixture *f = *state;
    submit_without_elements(f, "40000,0", CODEC_FORMAT_JSON, CODING_IDENTITY);
    assert_true(f->request.reply.answer.head_bytes > f->config.inline_json_bytes);
    assert_true(f->request.line.cost_ns >=
                f->request.reply.answer.head_bytes * NS_PER_TEXT_BYTE);
}

static void no_http_thread_prints_a_long_carry_of_a_part_without_elements(void **state)
{
    submit_without_elements(*state, "20000,0", CODEC_FORMAT_JSON, CODING_IDENTITY);
}

static void nor_packs_one(void **state)
{
    submit_without_elements(*state, "20000,0", CODEC_FORMAT_RAW, CODING_GZIP);
}

/* Submit a JSON request, whose text has the numbers and the carry, on this thread. */
static bool submit_text(struct fixture *f, const char *text)
{
    struct request *request = &f->request;
    struct error err = ERROR_INIT;
    struct client client = {.requests = 0};
    struct completion completion = {.fd = -1};
    request->arrival.codec = codec_cumsum(CODEC_FORMAT_JSON);
    request->arrival.codec_request.head_bytes = -1;
    request->body.declared = (int64_t)strlen(text);
    request->arrival.client = &client;
    request->completion = &completion;
    f->config.inline_json_bytes = 4096;
    assert_int_equal(body_begin(request, &err), STATUS_OK);
    assert_int_equal(body_feed(request, text, strlen(text), &err), STATUS_OK);
    assert_int_equal(body_finish(request, &err), STATUS_OK);
    request_enter(request, REQUEST_PARSE);
    return job_run(request);
}

/* The need of a text is known only when a codec thread, which assumed it to be short, has read
 * it. */
static void a_short_text_that_asks_for_a_long_answer_waits_again_as_a_long_one(void **state)
{
    static const char begins[] = "{\"data\":[";
    static const char ends[] = "],\"shape\":[200000,0],\"axis\":1,\"dtype\":\"int64\","
                               "\"part\":\"first\"}";
    /* The text is mostly blanks. Its length allows the request much memory. */
    static char text[400 << 10];
    struct fixture *f = *state;
    struct request *request = &f->request;
    struct client client = {.requests = 0};
    struct completion completion;
    struct error err = ERROR_INIT;
    memset(&completion, 0, sizeof completion);
    memset(text, ' ', sizeof text);
    memcpy(text, begins, sizeof begins - 1);
    memcpy(text + sizeof text - (sizeof ends - 1), ends, sizeof ends - 1);
    request->arrival.client = &client;
    request->completion = &completion;
    request->arrival.codec = codec_cumsum(CODEC_FORMAT_JSON);
    request->arrival.codec_request.head_bytes = -1;
    request->body.declared = sizeof text;
    assert_int_equal(completion_init(&completion, &err), STATUS_OK);
    assert_int_equal(work_pool_create(1, &f->server.work, &err), STATUS_OK);
    assert_int_equal(admission_create(f->server.memory, 1, &f->server.admission, &err),
                     STATUS_OK);
    assert_int_equal(body_begin(request, &err), STATUS_OK);
    assert_true(admission_enter(f->server.admission, request, 32 << 20, 1));
    assert_int_equal(body_feed(request, text, sizeof text, &err), STATUS_OK);
    assert_int_equal(body_finish(request, &err), STATUS_OK);
    request_enter(request, REQUEST_PARSE);
    assert_false(job_run(request));
    struct pollfd back = {.fd = completion.fd, .events = POLLIN};
    assert_int_equal(poll(&back, 1, -1), 1);
    assert_ptr_equal(completion_take(&completion), request);
    assert_int_equal(request->error.status, STATUS_OK);
    assert_true(request->reply.answer.head_bytes > 1 << 20);
    assert_true(request->line.cost_ns >= infer_text_bytes(request) * NS_PER_TEXT_BYTE);
    work_pool_destroy(f->server.work);
    admission_leave(f->server.admission, request);
    admission_destroy(f->server.admission);
    completion_deinit(&completion);
}

/* The carry is freed before the request ends, because an HTTP thread ends the request, and
 * freeing much memory takes long. */
static void a_carry_is_given_back_once_it_was_used(void **state)
{
    struct fixture *f = *state;
    _Alignas(8) unsigned char carry[CARRY_HEADER_BYTES + 8] = {0};
    char text[512];
    const struct carry_head head = {.dtype = DTYPE_I64, .lines = 1, .position = 1};
    struct error err = ERROR_INIT;
    uint64_t bytes = 0;
    assert_int_equal(carry_encode(&head, carry, NULL, &bytes, &err), STATUS_OK);
    assert_int_equal(bytes, sizeof carry);
    int used = snprintf(text, sizeof text,
                        "{\"data\":[],\"shape\":[1,0],\"axis\":1,\"dtype\":\"int64\","
                        "\"part\":\"last\",\"carry\":\"");
    base64_encode(carry, sizeof carry, text + used);
    (void)strcpy(text + used + base64_size(sizeof carry), "\"}");
    assert_true(submit_text(f, text));
    assert_int_equal(f->request.error.status, STATUS_OK);
    assert_int_equal(f->request.scan.call.carry.bytes, sizeof carry);
    assert_null(f->request.scan.call.carry.owned);
}

/* Count the steps of the preparation alone, or of everything. */
static int count_steps(struct fixture *f, struct stepper *stepper, bool all)
{
    struct error err = ERROR_INIT;
    part_destroy(f->request.scan.part, f->server.memory);
    f->request.scan.part = NULL;
    stepper->done = 0;
    enum status status = part_prepare(&f->request, &err);
    if (status == STATUS_OK && all) {
        status = part_finish(&f->request, &err);
    }
    const bool given_up = stepper->done > stepper->most;
    assert_int_equal(status, given_up ? STATUS_CLIENT_GONE : STATUS_OK);
    return stepper->done;
}

/* Check that the number of steps is between `least` and four times as many, for the preparation
 * (least_before) and for the rest (least_behind). Check that the work can be cancelled at each
 * step. */
static void expect_steps(struct fixture *f, int least_before, int least_behind)
{
    struct stepper stepper = make_stepper(INT32_MAX);
    f->request.parallel = &stepper.parallel;
    const int before = count_steps(f, &stepper, false);
    const int all = count_steps(f, &stepper, true);
    assert_in_range(before, least_before, 4 * least_before);
    assert_in_range(all - before, least_behind, 4 * least_behind);
    for (int most = 0; most < all; most++) {
        stepper.most = most;
        assert_in_range(count_steps(f, &stepper, true), most + 1, most + 32);
    }
}

static void a_part_of_many_lines_is_given_up_between_any_two_steps(void **state)
{
    enum {
        LINES = 200000,
        LINES_AT_ONCE = 16 << 10
    };
    struct fixture *f = *state;
    begin_part(f, "float32", "200000,3", "first", 3 * LINES * sizeof(float));
    expect_steps(f, 0, LINES / LINES_AT_ONCE); /* the preparation reads no input */
}

static void totals_of_many_integers_are_given_up_between_any_two_steps(void **state)
{
    enum {
        LINES = 1 << 20,
        LINES_AT_ONCE = 16 << 10
    };
    struct fixture *f = *state;
    begin_part(f, "int8", "1048576,1", NULL, LINES);
    expect_steps(f, 0, LINES / LINES_AT_ONCE); /* the preparation reads no input */
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_part_costs_what_the_sums_of_its_lines_are),
        T(a_carry_costs_the_same_in_the_request_and_in_its_answer),
        T(the_answer_to_a_part_without_elements_waits_with_texts_as_long),
        T(no_http_thread_prints_a_long_carry_of_a_part_without_elements),
        T(nor_packs_one),
        T(a_short_text_that_asks_for_a_long_answer_waits_again_as_a_long_one),
        T(a_carry_is_given_back_once_it_was_used),
        T(a_part_of_many_lines_is_given_up_between_any_two_steps),
        T(totals_of_many_integers_are_given_up_between_any_two_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
