/* body.h: the destination of a body's bytes, the memory reserved for them, and refusals. */
#include "server/job/body.h"

#include "proto/content_guess.h"
#include "server/base/config.h"
#include "server/job/infer_memory.h"
#include "server/sched/client.h"
#include "server/sched/completion.h"
#include "server/sched/server.h"
#include "server/sched/work.h"
#include "tests/lib/unit.h"
#include "tests/unit/pack.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct fixture {
    struct config config;
    struct server server;
    struct request request;
    bool packed;  /* the body is gzip */
    bool as_text; /* a JSON answer is requested */
};

static int set_up(void **state)
{
    const struct memory_options options = {.budget_bytes = 16 << 20,
                                           .small_slab_bytes = 1 << 20,
                                           .small_block_bytes = 64 << 10,
                                           .keep_ms = 10};
    struct fixture *f = calloc(1, sizeof *f);
    f->config.max_body_bytes = 4 << 20;
    f->config.max_rank = 8;
    f->config.inline_json_bytes = 1024;
    f->server.config = &f->config;
    f->request.server = &f->server;
    *state = f;
    return memory_create(&options, &f->server.memory, NULL) != STATUS_OK;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    struct request *request = &f->request;
    if (request->scan.decoded) {
        codec_release(&request->scan.call);
    }
    memory_give(f->server.memory, &request->memory.block);
    body_release(request);
    memory_release(f->server.memory, request->memory.reserved_bytes);
    struct memory_stats stats;
    memory_stats(f->server.memory, &stats);
    int leaked = stats.reserved_bytes != 0;
    text_free(f->server.memory, &request->body.head);
    memory_destroy(f->server.memory);
    free(f);
    return leaked;
}

/* Begin a raw float32 request of `shape`; length < 0: chunked. */
static enum status begin_raw(struct fixture *f, const char *shape, int64_t length,
                             struct error *err)
{
    struct codec_request *request = &f->request.arrival.codec_request;
    request->params[0] = (struct codec_param){"dtype", "float32"};
    request->params[1] = (struct codec_param){"shape", shape};
    request->param_count = 2;
    request->head_bytes = -1;
    request->answer_format = f->as_text ? CODEC_FORMAT_JSON : CODEC_FORMAT_RAW;
    f->request.arrival.codec = codec_cumsum(CODEC_FORMAT_RAW);
    f->request.body.declared = length;
    f->request.body.chunked = length < 0;
    f->request.body.coding = f->packed ? CODING_GZIP : CODING_IDENTITY;
    return body_begin(&f->request, err);
}

static enum status begin_json(struct fixture *f, int64_t length, struct error *err)
{
    f->request.arrival.codec_request.head_bytes = -1;
    f->request.arrival.codec = codec_cumsum(CODEC_FORMAT_JSON);
    f->request.body.declared = length;
    f->request.body.chunked = length < 0;
    return body_begin(&f->request, err);
}

static char *input_of(struct fixture *f)
{
    const struct request *request = &f->request;
    return (char *)slab_data(request->memory.block.slab) + request->memory.in_offset;
}

static void raw_payload_lands_in_the_slab_piece_by_piece(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    const char bytes[] = "0123456789abcdef";
    assert_int_equal(begin_raw(f, "2,2", 16, &err), STATUS_OK);
    assert_true(f->request.scan.decoded);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(body_feed(&f->request, bytes + i, 1, &err), STATUS_OK);
    }
    assert_int_equal(body_finish(&f->request, &err), STATUS_OK);
    assert_int_equal(f->request.body.payload_received, 16);
    assert_memory_equal(input_of(f), bytes, 16);
    assert_int_equal((uintptr_t)input_of(f) % MEMORY_ALIGN, 0);
}

static void a_large_payload_waits_until_codec_threads_have_made_its_pages(void **state)
{
    struct fixture *f = *state;
    struct request *request = &f->request;
    struct error err = ERROR_INIT;
    struct completion completion;
    struct client client = {.requests = 0};
    static const char bytes[1000];
    assert_int_equal(completion_init(&completion, &err), STATUS_OK);
    assert_int_equal(work_pool_create(2, &f->server.work, &err), STATUS_OK);
    request->completion = &completion;
    request->arrival.client = &client;
    assert_int_equal(begin_raw(f, "768,1024", 3 << 20, &err), STATUS_OK);
    request->admission.claim = 3 << 20;
    request_enter(request, REQUEST_BODY);
    assert_false(body_has_pages(request, sizeof bytes));
    struct pollfd back = {.fd = completion.fd, .events = POLLIN};
    assert_int_equal(poll(&back, 1, -1), 1);
    assert_ptr_equal(completion_take(&completion), request);
    assert_int_equal(request->error.status, STATUS_OK);
    assert_int_equal(request_owner(request), OWNER_WORK);
    assert_int_equal(request->memory.block.touched, 3 << 20);
    for (size_t at = 0; at < 3 << 20; at += SLAB_ALIGN) {
        unsigned char there = 0;
        char *byte = input_of(f) + at;
        assert_int_equal(mincore(byte - (uintptr_t)byte % slab_page_bytes(), 1, &there), 0);
        assert_int_equal(there & 1, 1);
    }

    request_enter(request, REQUEST_BODY);
    assert_true(body_has_pages(request, sizeof bytes));
    assert_int_equal(body_feed(request, bytes, sizeof bytes, &err), STATUS_OK);
    work_pool_destroy(f->server.work);
    f->server.work = NULL;
    completion_deinit(&completion);
}

enum {
    ADMITTED_BYTES = 8 << 20 /* claim of a request whose body is not slow */
};

/* Receive `whole` bytes of a text, with a pool for preparing pages; returns how often pages had
 * to be prepared. */
static int land_text(struct fixture *f, size_t whole, struct error *err)
{
    struct request *request = &f->request;
    struct completion completion;
    struct client client = {.requests = 0};
    static const char piece[64 << 10];
    int waits = 0;
    assert_int_equal(completion_init(&completion, err), STATUS_OK);
    assert_int_equal(work_pool_create(1, &f->server.work, err), STATUS_OK);
    request->completion = &completion;
    request->arrival.client = &client;
    request->admission.claim = ADMITTED_BYTES;
    for (size_t at = 0; at < whole; at += sizeof piece) {
        request_enter(request, REQUEST_BODY);
        if (!body_has_pages(request, sizeof piece)) {
            struct pollfd back = {.fd = completion.fd, .events = POLLIN};
            assert_int_equal(poll(&back, 1, -1), 1);
            assert_ptr_equal(completion_take(&completion), request);
            request_enter(request, REQUEST_BODY);
            assert_true(body_has_pages(request, sizeof piece));
            waits++;
        }
        assert_int_equal(body_feed(request, piece, sizeof piece, err), STATUS_OK);
    }
    work_pool_destroy(f->server.work);
    f->server.work = NULL;
    completion_deinit(&completion);
    return waits;
}

static void a_long_text_waits_until_a_codec_thread_has_made_its_pages(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    assert_int_equal(begin_json(f, 3 << 20, &err), STATUS_OK);
    assert_int_equal(land_text(f, 3 << 20, &err), 1);
    assert_int_equal(f->request.body.head_bytes, 3 << 20);
    assert_true(f->request.memory.reserved_bytes <= (3 << 20) + 1);
}

static void so_does_one_of_unknown_length_once_it_is_long(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    assert_int_equal(begin_json(f, -1, &err), STATUS_OK);
    assert_int_equal(land_text(f, 3 << 20, &err), 3); /* for buffers of 1, 2 and 4 MiB */
    assert_int_equal(f->request.body.head_bytes, 3 << 20);
}

static void so_does_a_packed_one(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    f->packed = true;
    assert_int_equal(begin_raw(f, "1048576", 3 << 20, &err), STATUS_OK);
    assert_int_equal(land_text(f, 3 << 20, &err), 1);
    assert_int_equal(f->request.body.packed.count, 3 << 20);
}

static void pages_prepared_for_a_stalled_text_are_released_except_charged_bytes(void **state)
{
    enum {
        CAME = 64 << 10
    };
    struct fixture *f = *state;
    struct request *request = &f->request;
    struct error err = ERROR_INIT;
    assert_int_equal(begin_json(f, 3 << 20, &err), STATUS_OK);
    assert_int_equal(land_text(f, CAME, &err), 1);
    assert_true(request->body.head.block.touched >= 3 << 20);
    memset(request->body.head.bytes, 'x', CAME);
    body_forget_pages(request);
    assert_true(request->body.head.block.touched >= request->memory.reserved_bytes);
    assert_true(request->body.head.block.touched <
                request->memory.reserved_bytes + slab_page_bytes());
    for (size_t i = 0; i < CAME; i++) {
        assert_int_equal(request->body.head.bytes[i], 'x');
    }
    /* No prepared pages remain: the call has no effect. */
    body_forget_pages(request);
    assert_true(request->body.head.block.touched >= request->memory.reserved_bytes);
}

static void
a_packed_body_is_charged_as_it_comes_and_its_pages_go_back_as_those_of_a_text(void **state)
{
    enum {
        CAME = 64 << 10
    };
    struct fixture *f = *state;
    struct request *request = &f->request;
    struct error err = ERROR_INIT;
    f->packed = true;
    assert_int_equal(begin_raw(f, "1048576", 3 << 20, &err), STATUS_OK);
    assert_int_equal(land_text(f, CAME, &err), 1);
    assert_in_range(request->memory.reserved_bytes, CAME, 2 * CAME);
    assert_true(request->body.packed.text.block.touched >= 3 << 20);
    body_forget_pages(request);
    assert_in_range(request->body.packed.text.block.touched, CAME,
                    2 * CAME + slab_page_bytes());
}

/* Feed a compressed raw request of 16384 float32 numbers in pieces. */
static size_t feed_packed(struct fixture *f, bool declared, struct error *err)
{
    static char text[65536];
    unsigned char *packed = NULL;
    memset(text, 'x', sizeof text);
    size_t count = pack_text(CODING_GZIP, text, sizeof text, &packed);
    f->packed = true;
    assert_int_equal(begin_raw(f, "16384", declared ? (int64_t)count : -1, err), STATUS_OK);
    for (size_t at = 0; at < count; at += 10) {
        size_t left = count - at;
        assert_int_equal(body_feed(&f->request, packed + at, left < 10 ? left : 10, err),
                         STATUS_OK);
    }
    free(packed);
    assert_int_equal(body_finish(&f->request, err), STATUS_OK);
    assert_int_equal(f->request.body.packed.count, count);
    assert_int_equal(f->request.body.payload_received, 0);
    return count;
}

static void a_packed_body_is_kept_and_lands_when_it_is_unpacked(void **state)
{
    struct fixture *f = *state;
    for (int declared = 0; declared < 2; declared++) {
        struct error err = ERROR_INIT;
        (void)feed_packed(f, declared != 0, &err);
        assert_int_equal(f->request.memory.reserved_bytes, f->request.body.packed.text.charged);
        assert_int_equal(body_unpack(&f->request, UINT64_MAX, &err), STATUS_OK);
        assert_int_equal(f->request.body.payload_received, 65536);
        assert_int_equal(input_of(f)[0], 'x');
        assert_int_equal(input_of(f)[65535], 'x');
        assert_null(f->request.body.packed.text.bytes);
        assert_null(f->request.body.inflate);
        assert_int_equal(f->request.memory.reserved_bytes, 65536);
        assert_int_equal(body_unpack(&f->request, UINT64_MAX, &err),
                         STATUS_OK); /* no work remains */
        assert_int_equal(f->request.body.payload_received, 65536);
        int failed = tear_down(state);
        assert_int_equal(failed, 0);
        assert_int_equal(set_up(state), 0);
        f = *state;
    }
}

static int steps_left;

static bool count_steps(const struct parallel *parallel)
{
    (void)parallel;
    return steps_left-- > 0;
}

static const struct parallel stepper = {.grain = 1, .step = count_steps};

static void unpacking_is_given_up_between_two_steps(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    (void)feed_packed(f, true, &err);
    steps_left = 0;
    f->request.parallel = &stepper;
    assert_int_equal(body_unpack(&f->request, UINT64_MAX, &err), STATUS_CLIENT_GONE);
    assert_int_equal(f->request.body.payload_received, 0);
}

/* 4 MiB of one byte value, compressed to about 4 KB. */
static void unpacking_goes_in_short_steps_and_stops_where_it_is_told_to(void **state)
{
    enum {
        BYTES = 4 << 20,
        STOP_AT = 1 << 20
    };
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    unsigned char *packed = NULL;
    char *text = calloc(1, BYTES);
    const size_t count = pack_text(CODING_GZIP, text, BYTES, &packed);
    free(text);
    f->packed = true;
    assert_int_equal(begin_raw(f, "1048576", -1, &err), STATUS_OK);
    assert_int_equal(body_feed(&f->request, packed, count, &err), STATUS_OK);
    free(packed);
    steps_left = INT32_MAX;
    f->request.parallel = &stepper;
    uint64_t before = 0;
    uint64_t most = 0;
    for (uint64_t stop = 1; f->request.body.inflate != NULL;
         stop = f->request.body.unpacked + 1) {
        assert_int_equal(body_unpack(&f->request, stop, &err), STATUS_OK);
        uint64_t step = f->request.body.unpacked - before;
        most = step > most ? step : most;
        before = f->request.body.unpacked;
    }
    assert_int_equal(before, BYTES);
    assert_true(most <= STOP_AT);
}

/* The limit of the body is 4 MiB. */
static void a_packed_body_may_unpack_to_the_limit_and_no_further(void **state)
{
    enum {
        LIMIT = 4 << 20
    };
    struct fixture *f = *state;
    for (int more = 0; more < 2; more++) {
        struct error err = ERROR_INIT;
        unsigned char *packed = NULL;
        char *text = calloc(1, LIMIT + 1);
        const size_t count = pack_text(CODING_GZIP, text, (size_t)(LIMIT + more), &packed);
        free(text);
        f->packed = true;
        assert_int_equal(begin_raw(f, "1048576", -1, &err), STATUS_OK);
        assert_int_equal(body_feed(&f->request, packed, count, &err), STATUS_OK);
        free(packed);
        assert_int_equal(body_unpack(&f->request, UINT64_MAX, &err),
                         more > 0 ? STATUS_TOO_LARGE : STATUS_OK);
        assert_true(f->request.body.payload_received <= LIMIT);
        assert_null(f->request.body.packed.text.bytes);
        assert_true(more == 0 ||
                    strstr(err.detail, "the decompressed body is over 4 MiB, the server's "
                                       "--max-body-bytes") != NULL);
        assert_int_equal(tear_down(state), 0);
        assert_int_equal(set_up(state), 0);
        f = *state;
    }
}

/* Feed bytes until the body is refused, which must happen as soon as it exceeds its limit. */
static void takes_up_to_4_mib(struct fixture *f)
{
    static char piece[65536];
    struct error err = ERROR_INIT;
    enum status status = STATUS_OK;
    size_t fed = 0;
    while (status == STATUS_OK && fed < 8 << 20) {
        status = body_feed(&f->request, piece, sizeof piece, &err);
        fed += sizeof piece;
    }
    assert_int_equal(status, STATUS_TOO_LARGE);
    assert_int_equal(fed, (4 << 20) + sizeof piece);
}

static void a_packed_body_over_the_limit_is_refused_as_it_grows(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    f->packed = true;
    assert_int_equal(begin_raw(f, "4", -1, &err), STATUS_OK);
    takes_up_to_4_mib(f);
}

static void an_empty_packed_body_is_no_stream(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    f->packed = true;
    assert_int_equal(begin_raw(f, "4", -1, &err), STATUS_OK);
    assert_int_equal(body_finish(&f->request, &err), STATUS_OK);
    assert_int_equal(body_unpack(&f->request, UINT64_MAX, &err), STATUS_INVALID_ENCODING);
}

static void a_wrong_length_of_a_large_body_is_refused_before_it_arrives(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    assert_int_equal(begin_raw(f, "2,10000", 80001, &err), STATUS_LENGTH_MISMATCH);
}

/* The first bytes of the body show its actual type. No memory is reserved for the rest. */
static void wrong_length_of_a_small_body_is_refused_at_its_first_bytes(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    char text[CONTENT_GUESS_BYTES] = "{\"data\":[1,2]}";
    assert_int_equal(begin_raw(f, "2,2", 4000, &err), STATUS_OK);
    assert_int_equal(body_feed(&f->request, text, sizeof text - 1, &err), STATUS_OK);
    assert_int_equal(body_feed(&f->request, text, 1, &err), STATUS_LENGTH_MISMATCH);
    assert_non_null(strstr(err.detail, "look like JSON"));
    assert_true(f->request.memory.reserved_bytes <= CONTENT_GUESS_BYTES);
}

static void declared_length_over_the_limit_is_refused_at_once(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    assert_int_equal(begin_json(f, (4 << 20) + 1, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.detail, "--max-body-bytes"));
    assert_non_null(strstr(err.detail, "has 4194305 bytes, over 4 MiB, the server's"));
    assert_int_equal(f->request.memory.reserved_bytes, 0);
}

static void chunked_body_over_the_limit_is_refused_as_it_grows(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    assert_int_equal(begin_json(f, -1, &err), STATUS_OK);
    takes_up_to_4_mib(f);
}

static void text_of_known_length_is_charged_as_it_arrives_and_never_moved(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    static char piece[65536];
    assert_int_equal(begin_json(f, 1 << 20, &err), STATUS_OK);
    assert_int_equal(f->request.memory.reserved_bytes, 0);
    const char *head = NULL;
    for (size_t fed = 0; fed < 1 << 20; fed += sizeof piece) {
        assert_int_equal(body_feed(&f->request, piece, sizeof piece, &err), STATUS_OK);
        head = head == NULL ? f->request.body.head.bytes : head;
        assert_ptr_equal(f->request.body.head.bytes, head);
        assert_in_range(f->request.memory.reserved_bytes, fed + sizeof piece,
                        2 * (fed + sizeof piece));
    }
    assert_int_equal(f->request.memory.reserved_bytes, 1 << 20);
    assert_false(f->request.scan.decoded);
}

static void payload_of_known_length_is_charged_as_it_arrives(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    static char piece[65536];
    assert_int_equal(begin_raw(f, "786432", 3 << 20, &err), STATUS_OK);
    assert_int_equal(f->request.memory.reserved_bytes, 0);
    assert_null(f->request.memory.block.slab);
    assert_int_equal(body_feed(&f->request, piece, 1, &err), STATUS_OK);
    assert_in_range(f->request.memory.reserved_bytes, 1, 65536);
    for (size_t fed = 1; fed < 1 << 20; fed += sizeof piece) {
        assert_int_equal(body_feed(&f->request, piece, sizeof piece, &err), STATUS_OK);
        assert_in_range(f->request.memory.reserved_bytes, fed + sizeof piece,
                        2 * (fed + sizeof piece));
    }
}

static void
bytes_are_taken_from_what_was_promised_before_they_are_from_what_is_free(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct memory_stats stats;
    assert_true(
        memory_promise(f->server.memory, 1000, 0, &f->request.admission.promised_bytes));
    assert_int_equal(memory_reserve(f->server.memory, 0, (16 << 20) - 1000, NULL), STATUS_OK);
    assert_int_equal(infer_charge(&f->request, 600, &err), STATUS_OK);
    assert_int_equal(infer_charge(&f->request, 600, &err), STATUS_OUT_OF_MEMORY);
    assert_int_equal(infer_charge(&f->request, 400, &err), STATUS_OK);
    assert_int_equal(f->request.admission.promised_bytes, 0);
    memory_stats(f->server.memory, &stats);
    assert_int_equal(stats.promised_bytes, 0);
    memory_release(f->server.memory, (16 << 20) - 1000);
}

static void memory_that_is_taken_refuses_the_next(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    assert_int_equal(memory_reserve(f->server.memory, 0, 15 << 20, NULL), STATUS_OK);
    static char piece[2 << 20];
    assert_int_equal(begin_json(f, 2 << 20, &err), STATUS_OK);
    assert_int_equal(body_feed(&f->request, piece, sizeof piece, &err), STATUS_OUT_OF_MEMORY);
    memory_release(f->server.memory, 15 << 20);
}

static void a_request_beyond_the_budget_is_too_large_although_its_parts_fit(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    f->as_text = true;
    assert_int_equal(begin_raw(f, "800000", 3200000, &err),
                     STATUS_TOO_LARGE); /* 13 MB of text */
    assert_non_null(strstr(err.detail, "--memory-budget"));
}

static void chunked_payload_is_reserved_as_it_arrives_and_never_moved(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    size_t total = 3 << 20;
    unsigned char piece[1000];
    assert_int_equal(begin_raw(f, "786432", -1, &err), STATUS_OK);
    const char *place = NULL;
    assert_int_equal(f->request.memory.reserved_bytes, 0);
    for (size_t at = 0; at < total;) {
        size_t count = total - at < sizeof piece ? total - at : sizeof piece;
        for (size_t i = 0; i < count; i++) {
            piece[i] = (unsigned char)((at + i) * 31 >> 3);
        }
        assert_int_equal(body_feed(&f->request, piece, count, &err), STATUS_OK);
        at += count;
        place = place == NULL ? input_of(f) : place;
        assert_true(f->request.memory.reserved_bytes >= at);
    }
    assert_int_equal(body_finish(&f->request, &err), STATUS_OK);
    assert_int_equal(f->request.memory.reserved_bytes, total);
    assert_ptr_equal(input_of(f), place);
    const unsigned char *input = (const unsigned char *)input_of(f);
    for (size_t i = 0; i < total; i++) {
        if (input[i] != (unsigned char)(i * 31 >> 3)) {
            fail_msg("byte %zu is wrong", i);
        }
    }
}

static void a_chunked_tensor_beyond_the_whole_budget_is_refused_at_once(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    assert_int_equal(begin_raw(f, "1073741824", -1, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.detail, "--memory-budget"));
    assert_int_equal(f->request.memory.reserved_bytes, 0);
    assert_null(f->request.memory.block.slab);
}

static void excess_payload_is_counted_but_not_kept(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    char bytes[4096];
    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(begin_raw(f, "4", -1, &err), STATUS_OK);
    assert_int_equal(body_feed(&f->request, bytes, sizeof bytes, &err), STATUS_OK);
    assert_int_equal(f->request.body.payload_received, sizeof bytes);
    assert_int_equal(f->request.body.payload_room, 16);
}

static void npy_header_goes_aside_whatever_the_pieces(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    char npy[128 + 12];
    const char header[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
    memset(npy, ' ', sizeof npy);
    memcpy(npy, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(npy + 10, header, sizeof header - 1);
    npy[127] = '\n';
    memcpy(npy + 128, "0123456789ab", 12);
    f->request.arrival.codec_request.head_bytes = -1;
    f->request.arrival.codec = codec_cumsum(CODEC_FORMAT_NPY);
    f->request.body.declared = sizeof npy;
    assert_int_equal(body_begin(&f->request, &err), STATUS_OK);
    for (size_t at = 0; at < sizeof npy; at += 7) {
        size_t count = sizeof npy - at < 7 ? sizeof npy - at : 7;
        assert_int_equal(body_feed(&f->request, npy + at, count, &err), STATUS_OK);
    }
    assert_int_equal(body_finish(&f->request, &err), STATUS_OK);
    assert_true(f->request.scan.decoded);
    assert_int_equal(f->request.body.head_bytes, 128);
    assert_memory_equal(input_of(f), "0123456789ab", 12);
}

static void body_that_ends_inside_its_header_is_refused(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    f->request.arrival.codec_request.head_bytes = -1;
    f->request.arrival.codec = codec_cumsum(CODEC_FORMAT_NPY);
    f->request.body.declared = 12;
    enum status status = body_begin(&f->request, &err);
    if (status == STATUS_OK) {
        status = body_feed(&f->request, "\x93NUMPY\x01\x00\x76\x00{'", 12, &err);
    }
    if (status == STATUS_OK) {
        status = body_finish(&f->request, &err);
    }
    assert_int_not_equal(status, STATUS_OK);
}

static void payload_behind_a_long_head_waits_for_its_decoding(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    char json[3000];
    char payload[5000];
    /* The JSON header is longer than inline_json_bytes. */
    int head =
        snprintf(json, sizeof json,
                 "{\"id\":\"1\",%*s\"inputs\":[{\"name\":\"x\",\"shape\":[1250],\"datatype\":"
                 "\"FP32\",\"parameters\":{\"binary_data_size\":5000}}]}",
                 2000, "");
    memset(payload, 'p', sizeof payload);
    f->request.arrival.codec = &codec_kserve;
    f->request.arrival.codec_request.head_bytes = head;
    f->request.arrival.codec_request.model = "cumsum";
    f->request.body.declared = head + (int)sizeof payload;
    assert_int_equal(body_begin(&f->request, &err), STATUS_OK);
    for (int at = 0; at < head; at += 100) {
        size_t count = head - at < 100 ? (size_t)(head - at) : 100;
        assert_int_equal(body_feed(&f->request, json + at, count, &err), STATUS_OK);
    }
    for (size_t at = 0; at < sizeof payload; at += 1000) {
        assert_int_equal(body_feed(&f->request, payload + at, 1000, &err), STATUS_OK);
    }
    assert_int_equal(body_finish(&f->request, &err), STATUS_OK);
    assert_false(f->request.scan.decoded);
    assert_int_equal(f->request.body.spilled, sizeof payload);
    assert_int_equal(strlen(f->request.body.head.bytes), head);
    assert_memory_equal(f->request.body.head.bytes, json, head);
    assert_memory_equal(f->request.body.head.bytes + head + 1, payload, sizeof payload);
}

static void body_that_never_ends_is_refused_soon(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    static char piece[65536];
    enum status status = begin_raw(f, "4", -1, &err);
    size_t fed = 0;
    for (; status == STATUS_OK && fed < 4 << 20; fed += sizeof piece) {
        status = body_feed(&f->request, piece, sizeof piece, &err);
    }
    assert_int_equal(status, STATUS_LENGTH_MISMATCH);
    assert_true(fed <= (1 << 20) + 2 * sizeof piece);
}

static void page_bodies_have_their_own_limit(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    f->request.arrival.codec = NULL;
    f->request.body.declared = BODY_PAGE_BYTES + 1;
    assert_int_equal(body_begin(&f->request, &err), STATUS_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(raw_payload_lands_in_the_slab_piece_by_piece, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_large_payload_waits_until_codec_threads_have_made_its_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_long_text_waits_until_a_codec_thread_has_made_its_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_packed_body_is_charged_as_it_comes_and_its_pages_go_back_as_those_of_a_text,
            set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            pages_prepared_for_a_stalled_text_are_released_except_charged_bytes, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(so_does_one_of_unknown_length_once_it_is_long, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(so_does_a_packed_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_wrong_length_of_a_large_body_is_refused_before_it_arrives, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            wrong_length_of_a_small_body_is_refused_at_its_first_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(declared_length_over_the_limit_is_refused_at_once,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(chunked_body_over_the_limit_is_refused_as_it_grows,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            text_of_known_length_is_charged_as_it_arrives_and_never_moved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(payload_of_known_length_is_charged_as_it_arrives,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            bytes_are_taken_from_what_was_promised_before_they_are_from_what_is_free, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            a_request_beyond_the_budget_is_too_large_although_its_parts_fit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_that_is_taken_refuses_the_next, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            chunked_payload_is_reserved_as_it_arrives_and_never_moved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_chunked_tensor_beyond_the_whole_budget_is_refused_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(excess_payload_is_counted_but_not_kept, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(npy_header_goes_aside_whatever_the_pieces, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(body_that_ends_inside_its_header_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(payload_behind_a_long_head_waits_for_its_decoding,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(body_that_never_ends_is_refused_soon, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_packed_body_is_kept_and_lands_when_it_is_unpacked,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            unpacking_goes_in_short_steps_and_stops_where_it_is_told_to, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unpacking_is_given_up_between_two_steps, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_packed_body_may_unpack_to_the_limit_and_no_further,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_packed_body_over_the_limit_is_refused_as_it_grows,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_empty_packed_body_is_no_stream, set_up, tear_down),
        cmocka_unit_test_setup_teardown(page_bodies_have_their_own_limit, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
