/* infer_memory.h: the memory that a request needs, and the charges to the budget and to its
 * client. */
#include "server/job/infer_memory.h"

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/sched/client.h"
#include "server/sched/server.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

static bool no_slabs; /* let every mapping for a slab fail */

struct slab *__real_slab_create(size_t bytes);
struct slab *__wrap_slab_create(size_t bytes);
struct slab *__wrap_slab_create(size_t bytes)
{
    return no_slabs ? NULL : __real_slab_create(bytes);
}

struct fixture {
    struct config config;
    struct server server;
    struct request request;
};

static int set_up(void **state)
{
    const struct memory_options options = {.budget_bytes = 16 << 20,
                                           .small_slab_bytes = 1 << 20,
                                           .small_block_bytes = 64 << 10,
                                           .keep_ms = 10};
    struct fixture *f = calloc(1, sizeof *f);
    f->server.config = &f->config;
    f->request.server = &f->server;
    *state = f;
    return memory_create(&options, &f->server.memory, NULL) != STATUS_OK;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    no_slabs = false;
    memory_give(f->server.memory, &f->request.memory.block);
    memory_release(f->server.memory, f->request.memory.reserved_bytes);
    memory_destroy(f->server.memory);
    free(f);
    return 0;
}

/* A decompressed text grows beyond the budget. The refusal does not depend on the promised
 * memory that is left. */
static void a_request_beyond_the_budget_is_too_large_whatever_was_promised(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    assert_true(
        memory_promise(f->server.memory, 9 << 20, 0, &f->request.admission.promised_bytes));
    assert_int_equal(infer_charge(&f->request, 5 << 20, &err), STATUS_OK);
    assert_int_equal(infer_charge(&f->request, 12 << 20, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.detail, "needs 17 MiB"));
    assert_int_equal(f->request.admission.promised_bytes, 4 << 20);
    memory_unpromise(f->server.memory, 4 << 20);
}

/* A body is charged as it arrives. When its request is refused, its memory is freed, and the
 * request still counts as needing all of it. */
static void a_request_that_is_refused_inside_its_body_presses_for_all_it_needs(void **state)
{
    struct fixture *f = *state;
    const uint64_t before_ns = clock_now_ns();
    assert_int_equal(memory_reserve(f->server.memory, 0, 10 << 20, NULL), STATUS_OK);
    assert_int_equal(infer_charge(&f->request, 5 << 20, NULL), STATUS_OK);
    assert_int_equal(infer_charge(&f->request, 3 << 20, NULL), STATUS_OUT_OF_MEMORY);
    infer_discharge(&f->request, 5 << 20);
    assert_int_equal(memory_pressed(f->server.memory, before_ns), 2 << 20);
    memory_release(f->server.memory, 10 << 20);
}

static void a_client_over_its_memory_limit_is_told_when_enough_is_released(void **state)
{
    struct fixture *f = *state;
    struct request *request = &f->request;
    struct error err = ERROR_INIT;
    struct client client = {.requests = 0};
    uint64_t wait_ns = 0;
    const uint64_t others = 3 << 20; /* bytes that other requests of the client hold for 10 s */
    f->config.per_client_memory = 4 << 20;
    request->arrival.client = &client;
    request->arrival.limited = true;
    assert_true(client_take_memory(&client, others, others, &wait_ns));
    client_give_memory(&client, others, 10 * NS_PER_S);
    assert_true(client_take_memory(&client, others, others, &wait_ns));
    assert_int_equal(infer_charge(request, 2 << 20, &err), STATUS_THROTTLED);
    assert_int_equal(request->reply.limit, METRICS_CLIENT_LIMIT_MEMORY);
    /* A third of the held memory must be given back. */
    assert_int_equal(request->reply.retry_after_s, 4);
    assert_int_equal(infer_charge(request, 1 << 20, &err), STATUS_OK);

    request->arrival.limited = false; /* clients of a Unix socket have no limit */
    assert_int_equal(infer_charge(request, 9 << 20, &err), STATUS_OK);
    assert_int_equal(client.memory_bytes, 4 << 20);
}

/* Create a request for a raw float32 tensor of 1 MiB, planned and measured. */
static struct request *planned_request(struct fixture *f)
{
    struct request *request = &f->request;
    struct error err = ERROR_INIT;
    request->scan.call.desc =
        (struct scan_desc){.dtype = DTYPE_F32, .rank = 1, .sizes = {1 << 18}};
    request->scan.call.answer_format = CODEC_FORMAT_RAW;
    request->scan.call.input_bytes = request->scan.call.payload_max = 1 << 20;
    assert_int_equal(scan_plan_make(&request->scan.call.desc, &request->scan.plan, &err),
                     STATUS_OK);
    request->scan.decoded = request->scan.planned = true;
    assert_int_equal(infer_measure(request, &err), STATUS_OK);
    return request;
}

static void a_packed_body_needs_its_announced_bytes_besides_what_it_becomes(void **state)
{
    struct fixture *f = *state;
    struct request *request = planned_request(f);
    void *unpacks = f; /* any non-NULL pointer: the body is compressed */
    request->body.declared = 5000;
    request->body.inflate = unpacks;
    assert_int_equal(infer_needed_bytes(request, 0), 5000 + (1 << 20));
}

static void a_payload_has_no_room_and_no_charge_until_its_block_was_had(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct request *request = planned_request(f);
    no_slabs = true;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(infer_grow(request, 1000, &err), STATUS_OUT_OF_MEMORY);
        assert_int_equal(request->body.payload_room, 0);
        assert_int_equal(request->memory.reserved_bytes, 0);
    }
    no_slabs = false;
    assert_int_equal(infer_grow(request, 1000, &err), STATUS_OK);
    assert_true(request->body.payload_room >= 1000);
    assert_int_equal(request->memory.reserved_bytes, request->body.block_reserved);
}

static void the_rest_of_a_request_is_not_held_until_its_block_was_had(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct request *request = planned_request(f);
    no_slabs = true;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(infer_reserve_rest(request, &err), STATUS_OUT_OF_MEMORY);
        assert_false(request->body.rest_reserved);
        assert_int_equal(request->memory.reserved_bytes, 0);
    }
    no_slabs = false;
    assert_int_equal(infer_reserve_rest(request, &err), STATUS_OK);
    assert_int_equal(request->memory.reserved_bytes, 1 << 20);
    assert_int_equal(request->body.payload_room, 1 << 20);
}

static void a_text_that_cannot_grow_keeps_its_bytes_and_its_charge(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct request *request = &f->request;
    struct text text = {.bytes = NULL};
    assert_int_equal(infer_text_reserve(request, &text, 0, 5, 0, &err), STATUS_OK);
    const size_t charged = text.charged;
    memcpy(text.bytes, "12345", 5);
    no_slabs = true;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(infer_text_reserve(request, &text, 5, 2 << 20, 0, &err),
                         STATUS_OUT_OF_MEMORY);
        assert_int_equal(text.charged, charged);
        assert_int_equal(request->memory.reserved_bytes, charged);
        assert_memory_equal(text.bytes, "12345", 5);
    }
    infer_text_free(request, &text);
    assert_int_equal(request->memory.reserved_bytes, 0);
}

static void behind_a_carry_no_text_is_expected(void **state)
{
    struct fixture *f = *state;
    f->request.body.declared = 1 << 20;
    assert_int_equal(infer_needed_bytes(&f->request, 0), 16 << 20);
    f->request.arrival.codec_request.carry_bytes = 1000;
    assert_int_equal(infer_needed_bytes(&f->request, 0), 2 << 20);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_request_beyond_the_budget_is_too_large_whatever_was_promised),
        T(a_request_that_is_refused_inside_its_body_presses_for_all_it_needs),
        T(a_client_over_its_memory_limit_is_told_when_enough_is_released),
        T(a_packed_body_needs_its_announced_bytes_besides_what_it_becomes),
        T(a_payload_has_no_room_and_no_charge_until_its_block_was_had),
        T(the_rest_of_a_request_is_not_held_until_its_block_was_had),
        T(a_text_that_cannot_grow_keeps_its_bytes_and_its_charge),
        T(behind_a_carry_no_text_is_expected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
