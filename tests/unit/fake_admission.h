/* Set-up and tear-down of tests of admission.h, and requests for them. */
#ifndef TALLY_TESTS_FAKE_ADMISSION_H
#define TALLY_TESTS_FAKE_ADMISSION_H

#include "server/base/clock.h"
#include "server/memory/memory.h"
#include "server/sched/admission.h"
#include "server/sched/client.h"
#include "tests/lib/unit.h"
#include "tests/unit/fake_request.h"

#define MIB (UINT64_C(1) << 20)

enum {
    MOST_WAITING = 9
};

struct fixture {
    struct memory *memory;
    struct admission *admission;
    struct completion completion;
    struct request *rest;
};

static inline int set_up(void **state)
{
    const struct memory_options options = {.budget_bytes = 1600 * MIB,
                                           .small_slab_bytes = 1 << 20,
                                           .small_block_bytes = 64 << 10,
                                           .keep_ms = 10};
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    return completion_init(&f->completion, NULL) != STATUS_OK ||
           memory_create(&options, &f->memory, NULL) != STATUS_OK ||
           admission_create(f->memory, MOST_WAITING, &f->admission, NULL) != STATUS_OK;
}

/* Check that all promised memory was given back. */
static inline int tear_down(void **state)
{
    struct fixture *f = *state;
    struct memory_stats memory;
    memory_stats(f->memory, &memory);
    bool leaked = memory.promised_bytes != 0 || memory.reserved_bytes != 0;
    admission_destroy(f->admission);
    memory_destroy(f->memory);
    completion_deinit(&f->completion);
    free(f);
    return leaked;
}

static inline struct request *request_of(struct fixture *f, struct client *client)
{
    struct request *request = fake_request(&f->completion, DTYPE_F32, 4);
    request->arrival.client = client;
    return request;
}

static inline bool enter_at(struct fixture *f, struct request *request, uint64_t claim,
                            uint64_t cost)
{
    return admission_enter(f->admission, request, claim, cost);
}

/* Enter a request whose cost is its bytes. */
static inline bool enter(struct fixture *f, struct request *request, uint64_t claim)
{
    return enter_at(f, request, claim, claim);
}

static inline enum status check(struct fixture *f, const struct request *request,
                                uint64_t claim, uint64_t *wait_ns, struct error *err)
{
    return admission_check(f->admission, request, claim, wait_ns, err);
}

static inline void leave(struct fixture *f, struct request *request)
{
    admission_leave(f->admission, request);
    assert_int_equal(request->admission.promised_bytes, 0);
    free(request);
}

/* Check that this request was admitted next; NULL: none was. */
static inline void expect_admitted(struct fixture *f, struct request *expected)
{
    struct request *request = fake_await(&f->completion, &f->rest, 0);
    assert_ptr_equal(request, expected);
    if (expected != NULL) {
        assert_int_equal(request->error.status, STATUS_OK);
        assert_int_equal(request_owner(request), OWNER_ADMISSION);
    }
}

static inline void expect_ended(struct fixture *f, struct request *expected, enum status status)
{
    struct request *request = fake_await(&f->completion, &f->rest, 0);
    assert_ptr_equal(request, expected);
    assert_int_equal(request->error.status, status);
    leave(f, request);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
